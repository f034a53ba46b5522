#!/bin/bash
# SPDX-License-Identifier: MIT
# SHARD_STATS: what a rank's processes open is counted, whatever they are and however they open it;
# and shardctl verify, which believes true statistics and finds each kind of fault.
. "$(dirname "$0")/lib.bash"
in_namespace
needs mpirun
program opens
export SHARD_CACHE_DIR=$WORK/cache
O=$WORK/opens
mkdir -p "$WORK/top/data"/{a/deep,b} "$WORK/top/other" "$WORK/out"; cd "$WORK/top" || exit 2
D=$WORK/top/data
touch "$D"/{1..9}.txt "$D"/a/{1..7}.bin "$D"/a/deep/{1..4} "$D"/b/{1..9} other/{1,2} "$D/b/"$'new\nline "x\xff'
ln -s 1.txt "$D/link"; ln -s ../other/1 "$D/link_out"; ln -s "$D/a" "$WORK/to_a"; ln -s "$D" "$WORK/to_data"
all=$(find "$D" ! -xtype d -printf x | wc -c)

# rank [VARIABLE=VALUE...] COMMAND...: as rank 0 of 1; the statistics are in $S
S=$WORK/out/0.json
rank() {
  local set=()
  while [[ $1 == *=* ]]; do set+=("$1"); shift; done
  rm -f "$S"*
  env SHARD_STATS="$WORK/out/%r.json" SHARD_DATASET="$D" SHARD_RANK=0 SHARD_SIZE=1 LD_PRELOAD="$LIB" "${set[@]}" \
    timeout --foreground 60 "$@" >"$WORK/stdout" 2>"$WORK/err"
}
# facts NAME EXPRESSION: of the object j, with its only epoch e; nothing else is left, nothing was said
facts() {
  verdict "$1" "$("$PYTHON" -c "import json, sys
j = json.load(open(sys.argv[1], encoding='utf-8', errors='strict'))
e = (j['epochs'] or [None])[0]
assert $2, j" "$S" 2>&1 | tail -1; grep -v " a world of one: " "$WORK/err"; ls "$WORK/out" | grep -v '^[0-9]*\.json$')"
}

# ---- what is counted
rank "$O" calls "$D" 1.txt; n=$(cat "$WORK/stdout")
facts "every call" "e['opened'] == ${n:-0} > 20 and e['distinct'] == 1 and j['entries'] is None and j['lost'] == 0"
rank "$O" threads "$D" "$D"/*.txt; facts "threads" "e['opened'] == 1800 and e['distinct'] == 9"
rank "$O" fork "$D" "$D"/a/*.bin; facts "fork, and a grandchild" "e['opened'] == 14 and e['distinct'] == 7"
rank "$O" closed "$D" "$D"/a/*.bin; facts "a child without descriptors" "e['opened'] == 7 and e['distinct'] == 7"
rank "$O" _exit "$D" "$D"/a/*.bin; facts "ended by _exit" "e['opened'] == 7"
rank "$O" exec "$D" "$D"/a/*.bin; facts "the same process after exec" "e['opened'] == 14 and e['distinct'] == 7"
rank bash -c '"$@"; "$@"' - "$O" plain "$D" "$D"/b/*; facts "children of a shell" "e['opened'] == 20 and e['distinct'] == 10"
rank bash -c 'exec "$@"' - "$O" plain "$D" "$D"/b/*; facts "a shell that calls exec" "e['opened'] == 10"
rank sh -c 'env -u SHARD_RANK -u SHARD_SIZE "$@"' - "$O" plain "$D" "$D"/b/*; facts "a child without a rank" "e['opened'] == 10"
rank "$O" plain "$D" "$D"/link "$D"/link_out "$D/1.txt"; facts "links are names of their own" "e['distinct'] == 3"
rank "$O" plain "$D" "$WORK/to_a/1.bin" "$D/a/1.bin" "$WORK/to_data/a/../a/1.bin" data/a/1.bin ./data/./a//1.bin
facts "one file by many paths" "e['opened'] == 5 and e['distinct'] == 1"
rank "$O" plain "$D" other/1 /dev/null "$D/../other/2" "$O"; facts "files elsewhere" "e['opened'] == 0 and e['distinct'] == 0"
rank SHARD_INCLUDE='*.txt' "$O" plain "$D" "$D"/1.txt "$D"/b/1; facts "names that are not included" "e['opened'] == 1"
rank SHARD_DATASET="$D:$D/a" "$O" plain "$D" "$D"/1.txt "$D"/a/*.bin "$D"/a/deep/1
facts "nested datasets" "[d['epochs'][0]['opened'] for d in j['datasets']] == [1, 8] and e['opened'] == 1"
rank SHARD_DATASET="$WORK/to_a" "$O" plain "$D" "$D"/1.txt "$D"/a/*.bin; facts "a dataset named by a link" "e['opened'] == 7 and j['dataset'] == '$D/a'"
rank SHARD_DATASET="$WORK/late" bash -c 'mkdir "$1/late"; : >"$1/late/1"; cat "$1/late/1"' - "$WORK"
facts "a dataset that is made later" "e['opened'] == 2 and e['distinct'] == 1"; rm -r "$WORK/late"
rank SHARD_DATASET="$WORK/late" bash -c 'mkdir "$1/late"; : >"$1/late/1"; mv "$1/late" "$1/old"; mkdir "$1/late"; : >"$1/late/2"' - "$WORK"
facts "a dataset that is made anew" "e['distinct'] == 2"; rm -r "$WORK/late" "$WORK/old"
rank "$O" many "$D" "$D/1.txt"; facts "200,000 opens" "e['opened'] == 200000 and e['distinct'] == 1 and j['lost'] == 0"
rank SHARD_VIEW=off "$O" plain "$D" "$D"/1.txt; facts "no view" "j['view'] == 'off' and e['opened'] == 1"
rm -f "$S"; SHARD_STATS=$S SHARD_RANK=0 SHARD_SIZE=1 LD_PRELOAD=$LIB "$O" plain "$D" "$D"/1.txt >/dev/null; facts "no dataset" "j['view'] == 'off' and j['dataset'] is None and j['datasets'] == [] and j['epochs'] == []"
rank bash -c 'ulimit -n 20; "$@"' - "$O" full "$D" "$D"/*.txt; facts "no descriptor left: told" "e['opened'] == 0 and j['lost'] == 9"
cat >"$WORK/worker.py" <<'P'
import ctypes, multiprocessing, os, pathlib, subprocess, sys

LIBC = ctypes.CDLL(None)
LIBC.fopen.restype = ctypes.c_void_p
LIBC.fclose.argtypes = [ctypes.c_void_p]

def work(path):
    open(path).close()
    os.close(os.open(path, os.O_RDONLY))
    pathlib.Path(path).read_bytes()
    LIBC.fclose(LIBC.fopen(path.encode(), b"r"))
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    os.close(os.open(os.path.basename(path), os.O_RDONLY, dir_fd=directory))
    subprocess.run(["cat", path], check=True)

if __name__ == "__main__":
    paths = [os.path.join(sys.argv[2], name) for name in os.listdir(sys.argv[2]) if name.endswith(".txt")]
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        pool.map(work, paths)
P
for method in fork spawn forkserver; do
  rank "$PYTHON" "$WORK/worker.py" $method "$D"; facts "Python workers, $method" "e['opened'] == 54 and e['distinct'] == 9"
done

rank SHARD_DATASET="$WORK/none:$D=s3://bucket/prefix" SHARD_VIEW=off cat "$D/1.txt"; facts "a dataset that stands for a bucket" "e['opened'] == 1 and j['dataset'] == '$D'"

# By paths that do not lead through the root: the dataset is mounted elsewhere.
deep=$D$(printf '/d%.0s' {1..70}); mkdir -p "$deep"; touch "$deep/1"
rank "$O" plain "$D" "$deep/1"; facts "70 levels deep" "e['opened'] == 1"; rm -r "$D/d"
mounts=(); trap 'cd /; for m in "${mounts[@]}"; do umount -l "$m"; done; rm -rf --one-file-system "$BASE"' EXIT
bind() { mkdir -p "$2" && mount --bind "$1" "$2" 2>/dev/null && mounts=("$2" "${mounts[@]}"); }
M="$WORK/a mount"
if bind "$D" "$M"; then
  mkdir "$WORK/small" && mount -t tmpfs -o size=900k none "$WORK/small" && mounts=("$WORK/small" "${mounts[@]}")
  S=$WORK/small/0.json; rank SHARD_STATS="$S" "$O" plain "$D" "$M"/a/*.bin; facts "no room for notes: told" "e['opened'] == 0 and j['lost'] == 7"; S=$WORK/out/0.json
  bind other "$WORK/elsewhere"; ln -s "$M/a/deep" "$D/to_mount"
  rank "$O" plain "$D" "$M"/a/*.bin "$M/a/deep/1" "$D/a/1.bin" "$D/to_mount/1"; facts "below a bind mount" "e['opened'] == 10 and e['distinct'] == 8 and j['lost'] == 0"
  rm "$D/to_mount"; rank "$O" plain "$D" "$D/../../elsewhere/1" "$M/../to_a/1.bin"; facts "below a bind mount of something else" "e['opened'] == 1"
  rank SHARD_DATASET="$D:$D/a/deep" "$O" plain "$D" "$M"/a/*.bin "$M"/a/deep/*; facts "below a bind mount, nested datasets" "[d['epochs'][0]['opened'] for d in j['datasets']] == [7, 4]"
  rank SHARD_DATASET="$D:$D/a" "$O" plain "$D" "$M"/a/*.bin; facts "below a bind mount of the inner dataset" "[d['epochs'][0]['opened'] for d in j['datasets']] == [0, 7]"
  { rank "$O" segv "$D" "$M"/a/*.bin; } 2>/dev/null; "$CTL" stats "$S.log" 2>"$WORK/err"; facts "below a bind mount, in a signal handler" "e['opened'] == 7"
  rank bash -c 'ulimit -n 20; "$@"' - "$O" full "$D" "$M"/a/*.bin; facts "below a bind mount, no descriptor left" "e['opened'] == 0 and j['lost'] == 7"
  bind "$D/a" "$D/again"
  rank "$O" plain "$D" "$D"/again/*.bin "$D"/a/1.bin "$D/again/1.bin"; facts "a bind mount inside the dataset has names of its own" "e['opened'] == 9 and e['distinct'] == 8"
  umount "$D/again"; rmdir "$D/again"; mounts=("${mounts[@]:1}")
  rank "$O" plain "$D" "$M"/a/*.bin; cp "$S" "$WORK/one"; rank "$O" plain "$D" "$D"/a/*.bin
  facts "below a bind mount, the names are the dataset's" "e['distinct'] == 7 and e['distinct_sum'] == json.load(open('$WORK/one'))['epochs'][0]['distinct_sum']"
else
  skip "bind mounts" "mount is not allowed"
fi

# ---- what is not changed
for mode in modes cancel; do
  "$O" $mode "$WORK" "$D/1.txt" >"$WORK/want" 2>&1; rank "$O" $mode "$WORK" "$D/1.txt"
  same "opens $mode" "$WORK/want" "$WORK/stdout"
done

# ---- how it ends
# The log that LIBSHARD_STATS names is joined if it is this user's, and to be written by nobody else.
{ rank bash -c 'echo "$LIBSHARD_STATS"; kill -9 $$'; } 2>/dev/null
mark=$(sed "s# /.*# $WORK/joined.log#" "$WORK/stdout"); mv "$S.log" "$WORK/joined.log"
joins() { rank LIBSHARD_STATS="$mark" "$O" plain "$D" "$D/1.txt"; }
joins; verdict "a log that is named is joined" "$(ls "$S" "$S.log" 2>/dev/null; [ -s "$WORK/err" ] && cat "$WORK/err")"
mv "$WORK/joined.log" "$WORK/own.log"; ln -s own.log "$WORK/joined.log"
joins; facts "a link to a log is not joined" "e['opened'] == 1"
mv "$WORK/own.log" "$WORK/joined.log"; chmod 620 "$WORK/joined.log"
joins; facts "a log that others write to is not joined" "e['opened'] == 1"; chmod 600 "$WORK/joined.log"
if [ "$(id -u)" = 0 ] && chown 65534 "$WORK/joined.log" 2>/dev/null; then
  joins; facts "another user's log is not joined" "e['opened'] == 1"
  # In the place of the rank's own log: what the rank has made stays.
  cp "$WORK/joined.log" "$S.log"; chown 65534 "$S.log"; echo kept >"$S"
  env LIBSHARD_STATS="$(sed "s# /.*# $S.log#" <<<"$mark")" SHARD_STATS="$WORK/out/%r.json" SHARD_DATASET="$D" SHARD_RANK=0 SHARD_SIZE=1 LD_PRELOAD="$LIB" "$O" plain "$D" "$D/1.txt" >/dev/null 2>"$WORK/err"
  verdict "another user's log in the place of the own one" "$([ "$(cat "$S")" = kept ] || echo "$S is gone"; grep -q "the log of SHARD_STATS is another user's" "$WORK/err" || shown cat "$WORK/err")"
  rm -f "$S" "$S.log"
else
  skip "another user's log is not joined" "not root"
fi
rm "$WORK/joined.log"; mkfifo "$WORK/joined.log"; joins; facts "a pipe in a log's place" "e['opened'] == 1"; rm "$WORK/joined.log"

# Where they go: the log's name tells, whatever the log says.
# written NAME WHAT ARGUMENT...: what shardctl stats says has WHAT, or nothing; the file that the log names stays
written() {
  local name=$1 words=$2; shift 2
  (cd "$WORK/moved" && "$CTL" stats "$@") >"$WORK/err" 2>&1
  verdict "$name" "$(if [ -n "$words" ]; then grep -q "$words" "$WORK/err"; else [ ! -s "$WORK/err" ]; fi || shown cat "$WORK/err"; [ "$(cat "$S")" = kept ] || echo "$S was written")"
}
{ rank "$O" kill "$D" "$D"/a/*.bin; } 2>/dev/null; mkdir "$WORK/moved"; mv "$S.log" "$WORK/moved/x.json.log"; echo kept >"$S"
cp "$WORK/moved/x.json.log" "$WORK/moved/plain"; ln -s x.json.log "$WORK/moved/link.log"; cp "$WORK/moved/plain" "$WORK/moved/other.json.log"
written "stats: no name, no target" "not named FILE.log" plain
written "stats: .log alone" "not named FILE.log" .log
written "stats: a link" "is a link" link.log
if [ "$(id -u)" = 0 ] && chown 65534 "$WORK/moved/other.json.log" 2>/dev/null; then
  written "stats: another user's log" "is user 65534's; use -o" other.json.log
  written "stats: another user's log, -o" "" other.json.log -o out.json
  verdict "stats: -o keeps the log" "$(cd "$WORK/moved" && ls out.json other.json.log 2>&1 >/dev/null; ls other.json 2>/dev/null)"
else
  skip "stats: another user's log" "not root"
fi
written "stats: a log that was moved" "" x.json.log
verdict "stats: beside the log" "$(cd "$WORK/moved" && ls x.json 2>&1 >/dev/null; ls x.json.log 2>/dev/null)"
"$PYTHON" -c 'import sys
with open(sys.argv[1], "r+b") as f:  # from the dataset'"'"'s path on
    data = f.read(); at = data.index(sys.argv[2].encode(), 12288); f.seek(at); f.write(b"x" * (len(data) - at))' "$WORK/moved/plain" "$D"
written "stats: texts without an end" "" plain -o out2.json
head -c 5000 "$WORK/moved/plain" >"$WORK/moved/short.log"; written "stats: a log cut short" "is not a log" short.log
# What is no log that a rank can have written is refused, whoever has written it.
for at in "72 -1" "72 1" "76 0" "76 -5" "84 3"; do
  cp "$WORK/moved/plain" "$WORK/moved/bad.log"
  "$PYTHON" -c 'import struct, sys
with open(sys.argv[1], "r+b") as f: f.seek(int(sys.argv[2])); f.write(struct.pack("<i", int(sys.argv[3])))' "$WORK/moved/bad.log" $at
  written "stats: a log's head that is damaged (${at/ /: })" "is not a log of SHARD_STATS, or is damaged" bad.log -o -
done
# Its owner cuts a log of 2 GB of notes while it is read.
cp "$WORK/moved/plain" "$WORK/moved/big.log"; truncate -s 2G "$WORK/moved/big.log"
"$PYTHON" -c 'import struct, sys
with open(sys.argv[1], "r+b") as f: f.seek(32); f.write(struct.pack("<Q", 1 << 40))' "$WORK/moved/big.log"
timeout 60 "$CTL" stats "$WORK/moved/big.log" -o - >"$WORK/stdout" 2>"$WORK/err" & reader=$!
for _ in {1..300}; do # timeout's child has it open, or mapped
  cat /proc/"$(pgrep -P $reader)"/{maps,cmdline} 2>/dev/null | grep -qa big.log && break; sleep 0.01
done
sleep 0.3; truncate -s 512K "$WORK/moved/big.log"; { wait $reader; } 2>/dev/null; got=$?
verdict "stats: a log that is cut while it is read" "$([ $got = 1 ] && grep -q "big.log' was cut while it was read" "$WORK/err" || { echo "status $got"; cat "$WORK/err"; })"
rm -r "$WORK/moved" "$S"
{ rank "$O" kill "$D" "$D"/a/*.bin; } 2>/dev/null; verdict "killed: no statistics" "$(ls "$WORK/out" | grep -vx 0.json.log)"
"$CTL" verify "$S.log" 2>"$WORK/err"; verdict "killed: verify names the remedy" "$(grep -qF "shardctl stats '$S.log'" "$WORK/err" || cat "$WORK/err")"
"$CTL" stats "$S.log" 2>"$WORK/err"; facts "killed: made of what was noted" "e['opened'] == 7"
echo '{"stale": 1}' >"$S"; (SHARD_STATS=$S SHARD_DATASET=$D SHARD_RANK=0 SHARD_SIZE=1 LD_PRELOAD=$LIB "$O" kill "$D" "$D/1.txt"; true) >/dev/null 2>&1
verdict "killed: the last run's are gone" "$(ls "$WORK/out" | grep -vx 0.json.log)"
rank "$O" plain "$D" "$D"/1.txt; facts "after a killed run" "e['opened'] == 1"
{ rank "$O" segv "$D" "$D"/a/*.bin; } 2>/dev/null; "$CTL" stats "$S.log" 2>"$WORK/err"; facts "opened in a signal handler" "e['opened'] == 7"
rank "$O" plain "$D" "$D/1.txt"; mv "$S" "$WORK/one"; cd "$WORK" || exit 2
rank SHARD_STATS='out/%%%r%%.json' sh -c 'cd /; "$@"' - "$O" plain "$D" "$D/1.txt"
verdict "a relative path, with percent signs" "$([ "$(ls out)" = '%0%.json' ] || shown ls out)"; rm -f out/*
cd "$WORK/top" || exit 2

# complains NAME WORD VARIABLE=VALUE...: one line with the variable and WORD; the command runs as ever
complains() {
  local name=$1 word=$2; shift 2
  rank "$@" ls "$D"
  verdict "$name" "$(diff <(ls "$D") "$WORK/stdout" | head -3; [ "$(grep -c . "$WORK/err")" = 1 ] && grep -q SHARD_STATS "$WORK/err" && grep -qF -- "$word" "$WORK/err" || shown cat "$WORK/err"; ls "$WORK/out")"
  rm -f "$WORK/out"/*
}
complains "no such folder" "No such file" SHARD_STATS="$WORK/none/%r.json"
complains "a folder" "Is a directory" SHARD_STATS="$WORK/top"
complains "not a folder" "Not a directory" SHARD_STATS="$O/%r.json"
mkfifo "$WORK/fifo"; complains "in place of something else" "File exists" SHARD_STATS="$WORK/fifo"
verdict "... which stays" "$([ -p "$WORK/fifo" ] || shown ls -l "$WORK/fifo")"
complains "of two ranks, and no %r" "%r" SHARD_STATS="$WORK/out/s.json" SHARD_SIZE=2 SHARD_STRATEGY=hash SHARD_VIEW=off
if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --clear-groups test -r "$LIB" 2>/dev/null; then
  mkdir -m 755 "$WORK/shut"
  out=$(SHARD_STATS=$WORK/shut/%r.json SHARD_RANK=0 SHARD_SIZE=1 setpriv --reuid 65534 --clear-groups env LD_PRELOAD="$LIB" cat "$D/1.txt" 2>&1)
  verdict "a folder that cannot be written to" "$(grep -q "SHARD_STATS.*Permission denied" <<<"$out" || shown echo "$out")"
else
  skip "a folder that cannot be written to" "cannot become another user"
fi
out=$(SHARD_STATS='%x' SHARD_DATASET=$D SHARD_RANK=0 SHARD_SIZE=1 LD_PRELOAD=$LIB ls "$D" 2>&1)
verdict "a wrong pattern" "$(grep -q "SHARD_STATS='%x' is not valid" <<<"$out" || shown echo "$out")"
out=$(SHARD_STATS=$WORK/out/%r.json LD_PRELOAD=$LIB SHARD_DATASET=$D cat "$D/1.txt" 2>&1)
verdict "a process without a rank writes nothing" "$out$(ls "$WORK/out")"
echo '{"stale": 1}' >"$S"; mkdir "$S.log"; SHARD_STATS=$S SHARD_DATASET=$D SHARD_RANK=0 SHARD_SIZE=1 LD_PRELOAD=$LIB cat "$D/1.txt" 2>/dev/null
verdict "no log can be made: the last run's are gone" "$(ls "$WORK/out" | grep -vx 0.json.log)"; rmdir "$S.log"
rank bash -c 'cat "$2"; env -u LD_PRELOAD "$1" stats "$3"; cat "$2"; :' - "$CTL" "$D/1.txt" "$S.log"
verdict "a log that is still kept is not taken" "$(grep -q 'has not ended' "$WORK/err" || shown cat "$WORK/err")"
: >"$WORK/err"; facts "... and nothing is lost" "e['opened'] == 2"
# A launcher that itself has another rank (torchrun below srun) yields to its workers.
SHARD_STATS=$WORK/out/%r.json SHARD_DATASET=$D LD_PRELOAD=$LIB SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 bash -c '
  for r in 0 1; do TORCHELASTIC_RUN_ID=x RANK=$r WORLD_SIZE=2 cat "$1"/a/$((r + 1)).bin; done; cat "$1"/b/1' - "$D"
verdict "a launcher with a rank" "$(cd "$WORK/out" && "$PYTHON" -c 'import json, os
assert sorted(os.listdir(".")) == ["0.json", "1.json"], os.listdir(".")
for r in 0, 1:
    j = json.load(open("%d.json" % r)); assert (j["rank"], j["size"], j["epochs"][0]["opened"]) == (r, 2, 1), j' 2>&1 | tail -1)"
rm -f "$WORK/out"/*

# ---- a job: each rank lists the dataset, and reads its share
cat >"$WORK/read.py" <<'P'
import os, sys
for epoch in range(int(sys.argv[2])):
    if os.environ.get("EPOCHS"): os.environ["SHARD_EPOCH"] = str(epoch)
    for d, dirs, files in os.walk(os.fsencode(sys.argv[1])):
        dirs[:] = [x for x in dirs if not os.path.islink(os.path.join(d, x))]
        for name in files: open(os.path.join(d, name), "rb").close()
P
# job SIZE PASSES [VARIABLE=VALUE...]
job() {
  local size=$1 passes=$2 r; shift 2
  rm -f "$WORK/out"/*
  for ((r = 0; r < size; r++)); do
    env SHARD_STATS="$WORK/out/%r.json" SHARD_DATASET="$D" SHARD_RANK=$r SHARD_SIZE=$size LD_PRELOAD="$LIB" "$@" \
      timeout 60 "$PYTHON" "$WORK/read.py" "$D" $passes || echo "rank $r: status $?"
  done
}
# verify NAME STATUS WORD ARGUMENTS...: what it says, on either stream
verify() {
  local name=$1 status=$2 word=$3 got; shift 3
  "$CTL" verify "$@" >"$WORK/said" 2>&1; got=$?
  verdict "$name" "$([ $got = "$status" ] && grep -qF -- "$word" "$WORK/said" || { echo "status $got: "; cat "$WORK/said"; })"
}
"$CTL" index "$D" -o "$WORK/whole.listing" --quiet >/dev/null
for size in 2 5; do # a world of one has no listing
  for strategy in range stride; do
    for seed in '' 11; do
      verdict "job of $size, $strategy${seed:+, shuffled}" "$(job $size 2 SHARD_STRATEGY=$strategy ${seed:+SHARD_SEED=$seed EPOCHS=1} 2>&1 | grep -v "some directories have fewer files")"
      verify "... is proven" 0 "proven, for $size ranks" "$WORK"/out/*.json
      verify "... and each file opened" 0 "by the rank that owns it" "$WORK"/out/*.json
      verify "... with the listing" 0 "proven, for $size ranks" "$WORK"/out/*.json --listing "$WORK/whole.listing"
      verdict "... its numbers" "$("$PYTHON" -c "import json, subprocess, sys
total = 0
for r in range($size):
    j = json.load(open('$WORK/out/%d.json' % r)); total += j['owned']
    epochs = [0, 1] if '$seed' else [0]
    assert [e['epoch'] for e in j['epochs']] == epochs, j
    for e in j['epochs']:
        names = subprocess.run(['$CTL', 'ls', '$WORK/whole.listing', '-0', '--rank', str(r), '--size', '$size', '--strategy', '$strategy'] +
            (['--seed', '$seed', '--epoch', str(e['epoch'])] if '$seed' else []), capture_output=True, check=True).stdout.count(b'\0')
        assert e['owned'] == e['distinct'] == names and e['opened'] == names * (1 if '$seed' else 2), (names, j)
    assert j['entries'] == $all and j['strategy'] == '$strategy' and j['seed'] == (int('${seed:-0}') if '$seed' else None), j
assert total == $all" 2>&1 | tail -1)"
    done
  done
  verdict "job of $size, hash" "$(job $size 1 SHARD_STRATEGY=hash 2>&1)"
  verify "... needs the listing" 1 "without --listing" "$WORK"/out/*.json
  verify "... with it is proven" 0 "partition its $all names; each was opened once" "$WORK"/out/*.json --listing "$WORK/whole.listing"
done
job 3 2 SHARD_STRATEGY=hash SHARD_SEED=5 EPOCHS=1; verify "hash, shuffled" 0 "epoch 1: the shares" "$WORK"/out/*.json --listing "$WORK/whole.listing"
rank SHARD_LISTING=../whole.listing sh -c '"$@"; cd /' - "$PYTHON" "$WORK/read.py" "$D" 1; verify "a listing named by a relative path" 0 "partition its $all names" "$S"
job 40 1; verify "more ranks than files" 0 "proven, for 40 ranks" "$WORK"/out/*.json
job 2 1 SHARD_EPOCH=77 SHARD_SEED=18446744073709551615; verify "a set epoch, the largest seed" 0 "epoch 77" "$WORK"/out/*.json
# A pass that is not read to its end: the shares are right all the same.
cp "$WORK/read.py" "$WORK/read.all"; echo 'import os; os.listdir(sys.argv[1])' >>"$WORK/read.py"; sed -i 's/^    for d/    if sys.argv[1]: break\n    for d/' "$WORK/read.py"
job 2 1; verify "nothing opened" 0 "not proven: that ranks opened their own" "$WORK"/out/*.json
verify "... is not called proven" 0 "proven, for 2 ranks, but for what" "$WORK"/out/*.json
mv "$WORK/read.all" "$WORK/read.py"

# ---- a rank that a program sets itself
cat >"$WORK/own.py" <<'P'
import multiprocessing, os, sys
def child(rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE="3", LOCAL_RANK=str(rank))
    for d, _, files in os.walk(sys.argv[1]):
        for name in files: open(os.path.join(d, name), "rb").close()
if __name__ == "__main__":
    children = [multiprocessing.get_context(sys.argv[2]).Process(target=child, args=(rank,)) for rank in range(3)]
    for one in children: one.start()
    for one in children: one.join()
P
for method in fork spawn forkserver; do
  rm -f "$WORK/out"/*
  env SHARD_STATS="$WORK/out/%r.json" SHARD_DATASET="$D" LD_PRELOAD="$LIB" timeout 60 "$PYTHON" "$WORK/own.py" "$D" $method >"$WORK/err" 2>&1
  verify "a rank that each child sets, $method" 0 "proven, for 3 ranks" "$WORK"/out/*.json
  verdict "... says nothing, and leaves no log" "$(cat "$WORK/err"; ls "$WORK/out" | grep -v '^[012].json$')"
done

# A program that sets its rank and lists nothing itself: each of its workers opens all, which nothing must call once.
cat >"$WORK/workers.py" <<'P'
import multiprocessing, os, sys
method, how, data = sys.argv[1:]
def work(barrier):
    names = os.listdir(data)
    if how == "together": barrier.wait()
    for name in names: open(os.path.join(data, name), "rb").close()
    if how == "together": barrier.wait()
if __name__ == "__main__":
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    context = multiprocessing.get_context(method)
    barrier = context.Barrier(3)
    for _ in range(3):
        one = context.Process(target=work, args=(barrier,)); one.start()
        if how == "turns": one.join()
    for one in multiprocessing.active_children(): one.join()
P
mkdir "$WORK/top/plain"; touch "$WORK/top/plain"/{1..8}
# workers METHOD HOW
workers() {
  rm -f "$WORK/out"/*
  env SHARD_STATS="$WORK/out/%r.json" SHARD_SEED=1 SHARD_DATASET="$WORK/top/plain" LD_PRELOAD="$LIB" timeout 60 "$PYTHON" "$WORK/workers.py" $1 $2 "$WORK/top/plain" >"$WORK/err" 2>&1
  await "statistics" test -e "$S" # by a helper of Python's, which ends after the program
}
for method in fork spawn forkserver; do
  workers $method together; facts "workers that list together, $method" "e['opened'] == 24 and e['distinct'] == 8 and j['lost'] == 0"
  verify "... is proven, but not that each was opened once" 0 "each was opened by the rank that owns it alone" "$S"
  workers $method turns
  if [ $method = fork ]; then
    facts "workers that list one after the other, fork" "e['opened'] == 8 and j['lost'] == 1"
    verify "... is not proven" 1 "could not note 1 things" "$S"
  else
    facts "workers that list one after the other, $method" "e['opened'] == 24 and j['lost'] == 0"
  fi
done

# Of whom the environment does not tell that a log is kept.
rank bash -c 'env -u LIBSHARD_STATS "$@"; "$@"' - "$O" plain "$D" "$D"/b/*; facts "a child that does not know of the log" "e['opened'] == 20 and e['distinct'] == 10"
rank bash -c 'exec env -u LIBSHARD_STATS bash -c "\"\$@\"; \"\$@\"" - "$@"' - "$O" plain "$D" "$D"/b/*; facts "the same process does not know of it" "e['opened'] == 20"
# Another job that keeps a log there; what it notes is in no statistics.
mkfifo "$WORK/go"; rm -f "$S"
(exec env SHARD_STATS="$S" SHARD_DATASET="$D" SHARD_RANK=0 SHARD_SIZE=1 bash -c 'LD_PRELOAD=$1 bash -c "read <\"$2\"; : <\"$3\""; exit' - "$LIB" "$WORK/go" "$D/1.txt") 2>"$WORK/other" & job=$!
until [ -e "$S.log" ]; do sleep 0.05; done
(exec env SHARD_STATS="$S" SHARD_DATASET="$D" SHARD_RANK=0 SHARD_SIZE=1 LD_PRELOAD="$LIB" "$O" plain "$D" "$D"/b/* >/dev/null 2>"$WORK/err")
facts "in place of a log that another job keeps" "e['opened'] == 10 and j['lost'] == 1"
echo >"$WORK/go"; wait $job; verdict "... which says so" "$(grep -q "is in no statistics" "$WORK/other" || shown cat "$WORK/other"; facts ... "e['opened'] == 10" | grep FAIL)"

# A script of one rank starts others, one of which is killed: its log stays.
mkdir "$WORK/nested"; (cd "$WORK/nested" && rank SHARD_STATS=%r.json bash -c 'SHARD_SIZE=2 "$@"; SHARD_RANK=1 SHARD_SIZE=2 "$@"; :' - "$O" kill "$D" "$D/1.txt") 2>/dev/null
verdict "a wrapper leaves the logs of ranks that were killed" "$(cd "$WORK/nested" && ls | tr '\n' ' ' | grep -vx '0.json.log 1.json.log ')"

# A program that is the only rank, and opens an object before it says what it lists.
rm -f "$S"
SHARD_STATS=$S LD_PRELOAD=$LIB timeout 60 "$PYTHON" -c 'import ctypes
api, one = ctypes.CDLL(None), ctypes.c_uint64(1)
api.shard_bucket_opened(b"s3://b/p/", b"k")
assert api.shard_stats_names(b"s3://b/p/", b"0" * 64, one, one, ctypes.c_uint64(0)) == 0' 2>"$WORK/err"
facts "an object that is opened too early" "j['size'] == 1 and j['entries'] == 1"

# ---- what a script has set between the launcher and the program
script() { # SIZE COMMANDS [VARIABLE=VALUE...]
  local size=$1 commands=$2 r; shift 2
  rm -f "$WORK/out"/*
  for ((r = 0; r < size; r++)); do
    env SHARD_STATS="$WORK/out/%r.json" SHARD_DATASET="$D" SHARD_RANK=$r SHARD_SIZE=$size LD_PRELOAD="$LIB" env "$@" \
      timeout 60 bash -c "$commands" - "$PYTHON" "$WORK/read.py" "$D" $r
  done >"$WORK/err" 2>&1
}
read1='"$1" "$2" "$3" 1'
script 2 "export SHARD_SEED=\$4; exec $read1"; verify "a script that sets another seed in each rank" 1 "overlap" "$WORK"/out/*.json
script 2 "export SHARD_SEED=7 SHARD_STRATEGY=stride; exec $read1"; verify "a script that sets the strategy" 0 "by the rank that owns it" "$WORK"/out/*.json
script 2 "export SHARD_DATASET='$D'; exec $read1" -u SHARD_DATASET; verify "a script that sets the dataset" 0 "by the rank that owns it" "$WORK"/out/*.json
script 2 "for e in 1 2 9; do SHARD_EPOCH=\$e $read1; done"; verify "a script that sets epochs" 0 "epoch 9: the shares" "$WORK"/out/*.json
verdict "... and those that were not run are not told" "$(grep -c . "$WORK/said" | grep -vx 5; grep 'epoch [0345678]' "$WORK/said")"
script 2 "for s in 1 2; do SHARD_SEED=\$s $read1; done"; verify "a script that changes the seed" 1 "or different settings" "$WORK"/out/*.json
SHARD_EPOCH=5 script 2 "SHARD_EPOCH=3 $read1"; verify "a script that goes back" 1 "could not note" "$WORK"/out/*.json

# ---- lists of the ranks' own, and for epochs
L=$WORK/lists; mkdir "$L"
for e in 0 1; do
  "$CTL" manifest "$WORK/whole.listing" --size 3 --weights 5,2,1 --seed 3 --epoch $e --strategy range -0 -o "$L/%r.%e.nul"
  for r in 0 1 2; do grep -zav line "$L/$r.$e.nul" | tr '\0' '\n' >"$L/$r.$e.txt"; done
done
(cd "$L" && sort -u *.0.txt | grep -c . >count)
grep -h . "$L"/?.0.txt >"$WORK/plain.names"; "$CTL" index "$WORK/plain.names" --root "$D" -o "$WORK/plain.listing" --quiet >/dev/null
own() { job 3 "$@"; }
own 2 SHARD_LISTING="$L/%r.%e.txt" EPOCHS=1
verify "own lists: need the whole" 1 "cannot prove without --listing" "$WORK"/out/*.json
verify "own lists: proven" 0 "epoch 1: the lists of '$D' partition its $(cat "$L/count") names; each was opened once" "$WORK"/out/*.json --listing "$WORK/plain.listing"
verify "own lists: not of another listing" 1 "some are left out" "$WORK"/out/*.json --listing "$WORK/whole.listing"
verdict "own lists: told" "$("$PYTHON" -c "import json
for r in 0, 1, 2:
    j = json.load(open('$WORK/out/%d.json' % r)); assert j['lists'] == 'ranks' and j['digest'] is None and len(j['epochs']) == 2, j
    for e in j['epochs']: assert e['owned'] == e['entries'] == e['distinct'] == len(open('$L/%d.%d.txt' % (r, e['epoch'])).readlines()), e" 2>&1 | tail -1)"
cp "$L/2.0.txt" "$WORK/kept"; head -1 "$L/0.0.txt" >"$L/2.new"; sed 1d "$L/2.0.txt" >>"$L/2.new"; mv "$L/2.new" "$L/2.0.txt"
own 1 SHARD_LISTING="$L/%r.%e.txt"; verify "own lists: a name twice, another left out" 1 "lists of '$D' overlap" "$WORK"/out/*.json --listing "$WORK/plain.listing"
: >"$L/2.0.txt"; own 1 SHARD_LISTING="$L/%r.%e.txt"; verify "own lists: an empty one" 1 "some are left out" "$WORK"/out/*.json --listing "$WORK/plain.listing"
cat "$L"/0.0.txt "$WORK/kept" >"$L/0.new"; mv "$L/0.new" "$L/0.0.txt"; own 1 SHARD_LISTING="$L/%r.%e.txt"
verify "own lists: one is empty, and nothing is missing" 0 "proven, for 3 ranks" "$WORK"/out/*.json --listing "$WORK/plain.listing"
for e in 0 1; do shuf "$WORK/plain.names" >"$L/all.$e.txt"; done
own 2 SHARD_LISTING="$L/all.%e.txt" EPOCHS=1; verify "a list for each epoch" 0 "not proven without --listing" "$WORK"/out/*.json
verify "a list for each epoch, with the whole" 0 "epoch 1: the shares" "$WORK"/out/*.json --listing "$WORK/plain.listing"
cp "$WORK/out/0.json" "$WORK/one"; shuf "$WORK/plain.names" >"$L/all.1.txt"; own 2 SHARD_LISTING="$L/all.%e.txt" EPOCHS=1; cp "$WORK/one" "$WORK/out/0.json"
verify "a list for each epoch that is another for some ranks" 1 "epoch 1: rank 1" "$WORK"/out/*.json
own 1 SHARD_LISTING="$L/all.0.txt"; verify "a list for all: the whole in another order" 0 "same names in another order" "$WORK"/out/*.json --listing "$WORK/plain.listing"
cp "$WORK/plain.names" "$L/r0.txt"; script 1 "$read1; head -3 '$L/r0.txt' >'$L/n'; mv '$L/n' '$L/r0.txt'; $read1" SHARD_LISTING="$L/r%r.txt"
verify "own lists: another in the middle of an epoch" 1 "used different listings" "$WORK"/out/*.json --listing "$WORK/plain.listing"
script 1 "$read1; SHARD_LISTING='$L/all.0.txt' $read1" SHARD_LISTING="$L/r%r.txt"
verify "own lists: and then one for all" 1 "used different listings" "$WORK"/out/*.json --listing "$WORK/plain.listing"

# ---- verify finds each kind of fault
job 2 1 SHARD_JOB=one; cp "$WORK/out/1.json" "$WORK/one"; job 2 1 SHARD_JOB=two; cp "$WORK/one" "$WORK/out/1.json"
verify "verify: of two runs" 1 "are of different runs" "$WORK"/out/*.json
job 2 1 SHARD_DATASET="$D/a:$WORK/top/other"
"$CTL" index "$D/b" -o "$WORK/b.listing" --quiet >/dev/null; verify "verify: the listing of neither" 1 "is of none of the datasets" "$WORK"/out/*.json --listing "$WORK/b.listing"
job 3 1; mkdir "$WORK/good"; cp "$WORK/out"/*.json "$WORK/good"
# tampered NAME WORD PYTHON: j, of rank 1, is changed; d is its dataset
tampered() {
  cp "$WORK/good"/* "$WORK/out"
  "$PYTHON" -c "import json, sys
j = json.load(open('$WORK/out/1.json')); d = j['datasets'][0]; e = d['epochs'][0]
$3
json.dump(j, open('$WORK/out/1.json', 'w'))"
  verify "verify: $1" 1 "$2" "$WORK"/out/*.json
}
# all_tampered NAME STATUS WORD PYTHON: the same of all ranks
all_tampered() {
  cp "$WORK/good"/* "$WORK/out"
  "$PYTHON" -c "import glob, json
for name in glob.glob('$WORK/out/*.json'):
    j = json.load(open(name)); d = j['datasets'][0]; e = d['epochs'][0]
    $4
    json.dump(j, open(name, 'w'))"
  verify "verify: $1" "$2" "$3" "$WORK"/out/*.json
}
all_tampered "no epoch at all is not proven" 0 "but for what a line above" 'd["epochs"] = []'
all_tampered "many epochs" 0 "epoch 29999: the shares" 'd["epochs"] = [dict(e, epoch=i) for i in range(30000)]'
verify "verify: the good ones" 0 proven "$WORK"/good/*.json
verify "verify: a page on standard output" 2 "takes the page's name" "$WORK"/good/*.json --html -
verify "verify: a rank missing" 1 "rank 1 of 3 is missing" "$WORK"/good/{0,2}.json
verify "verify: ranks missing" 1 "ranks 1 to 2 of 3 are missing" "$WORK"/good/0.json
verify "verify: a rank twice" 1 "rank 2 is there twice" "$WORK"/good/{0,1,2,2}.json
tampered "another size" "is of 4 ranks" 'j["size"] = 4'
tampered "another strategy" "strategy range" 'j["strategy"] = "range"'
tampered "another seed" "seed 3" 'j["seed"] = 3'
tampered "another view" "view global" 'j["view"] = "global"'
tampered "another dataset" "dataset /elsewhere" 'd["dataset"] = "/elsewhere"'
tampered "another digest" "digest 00" 'd["digest"] = "00" + d["digest"][2:]'
tampered "other entries" "entries: 7" 'd["entries"] = 7'
tampered "another sum" "sum 0123" 'd["sum"] = "0123456789abcdef"'
tampered "no listing" "(none)" 'd["digest"] = None'
tampered "a name left out" "some are left out" 'e["owned"] -= 1'
tampered "an overlap" "two shares" 'e["owned"] += 1'
tampered "a name in place of another" "overlap and leave out" 'e["owned_sum"] = "%016x" % (int(e["owned_sum"], 16) ^ 1)'
tampered "an epoch that is missing" "has no epoch 0" 'd["epochs"] = []'
tampered "an epoch more" "has no epoch 1" 'd["epochs"].append(dict(e, epoch=1))'
tampered "an epoch twice" "'epoch' is" 'd["epochs"].append(dict(e, opened=9))'
tampered "no epoch's number" "'epoch' is" 'e["epoch"] = (1 << 64) - 1'
tampered "notes lost" "could not note 3" 'j["lost"] = 3'
tampered "two listings in a rank" "different listings" 'd["mixed"] = True'
tampered "no datasets" "datasets: 0" 'j["datasets"] = []'
tampered "a key missing" "'owned' is missing or not valid" 'del e["owned"]'
tampered "a negative number" "'opened' is missing" 'e["opened"] = -1'
tampered "a sum that is none" "'owned_sum' is missing" 'e["owned_sum"] = "x"'
tampered "a rank below 0" "'rank' is missing" 'j["rank"] = 2**64 - 1'
tampered "a rank past the end" "'rank' is missing" 'j["rank"] = 3'
cp "$WORK/good"/* "$WORK/out"; head -c 300 "$WORK/good/1.json" >"$WORK/out/1.json"
verify "verify: cut short" 1 "cannot use '$WORK/out/1.json': it is damaged or cut short" "$WORK"/out/*.json
: >"$WORK/out/1.json"; verify "verify: empty" 1 "out/1.json': it is empty" "$WORK"/out/*.json
sed 's/"rank"/"rank" 1/' "$WORK/good/1.json" >"$WORK/out/1.json"; verify "verify: damaged" 1 "out/1.json': it is damaged" "$WORK"/out/*.json
(cat "$WORK/good/1.json"; echo x) >"$WORK/out/1.json"; verify "verify: more behind it" 1 "out/1.json': it is damaged" "$WORK"/out/*.json
echo '[1]' >"$WORK/out/1.json"; verify "verify: not an object" 1 "not a JSON object" "$WORK"/out/*.json
rm "$WORK/out/1.json"; verify "verify: not there" 1 "out/1.json': No such file" "$WORK"/out/{0,1,2}.json
# Shares that are changed alike in two ranks add up, and the listing tells.
cp "$WORK/good"/* "$WORK/out"
"$PYTHON" -c "import json
a, b = [json.load(open('$WORK/out/%d.json' % r)) for r in (0, 1)]
x, y = a['datasets'][0]['epochs'][0], b['datasets'][0]['epochs'][0]
x['owned_sum'], y['owned_sum'] = y['owned_sum'], x['owned_sum']
for r, j in enumerate((a, b)): json.dump(j, open('$WORK/out/%d.json' % r, 'w'))"
verify "verify: shares exchanged add up" 0 proven "$WORK"/out/*.json
verify "verify: and are not the listing's" 1 "is not the one it has in" "$WORK"/out/*.json --listing "$WORK/whole.listing"
cp "$WORK/good"/* "$WORK/out"
"$PYTHON" -c "import json
j = json.load(open('$WORK/out/1.json')); j['datasets'][0]['epochs'][0]['distinct_sum'] = '0123456789abcdef'; json.dump(j, open('$WORK/out/1.json', 'w'))"
verify "verify: as many others were opened" 0 "not proven: that ranks opened their own" "$WORK"/out/*.json
touch "$D/new"; "$CTL" index "$D" -o "$WORK/other.listing" --quiet >/dev/null; rm "$D/new"
verify "verify: another listing" 1 "have used a listing" "$WORK"/good/*.json --listing "$WORK/other.listing"
verify "verify: not a listing" 1 "cannot use listing" "$WORK"/good/*.json --listing "$O"
verify "verify: no files" 2 "verify takes" --json
verify "verify: an unknown option" 2 "frob" --frob x
"$CTL" verify "$WORK"/good/0.json --json >"$WORK/said" 2>"$WORK/err"
verdict "verify --json" "$("$PYTHON" -c 'import json, sys; j = json.load(open(sys.argv[1])); assert j["proven"] is False and j["ranks"] == 1 and len(j["faults"]) == 1 and j["facts"] == [], j' "$WORK/said" 2>&1 | tail -1)"
verdict "stats: not a log" "$("$CTL" stats "$O" -o - 2>&1 | grep -v "is not a log")"

# ---- real launchers
rm -f "$WORK/out"/*
mpirun --allow-run-as-root --oversubscribe --bind-to none -n 3 -x SHARD_STATS="$WORK/out/%r.json" -x SHARD_DATASET="$D" \
  -x LD_PRELOAD="$LIB" "$PYTHON" "$WORK/read.py" "$D" 1 >"$WORK/err" 2>&1
verdict "mpirun" "$(cat "$WORK/err"; ls "$WORK/out" | tr '\n' ' ' | grep -vx '0.json 1.json 2.json ')"
verify "mpirun: proven" 0 "partition its $all names; each was opened once" "$WORK"/out/*.json
finish
