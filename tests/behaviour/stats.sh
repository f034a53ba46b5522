#!/bin/bash
# SPDX-License-Identifier: MIT
# SHARD_STATS: what processes open is in their logs, whatever they are and however they open it; and shardctl verify, which
# believes logs that are whole and finds each kind of fault. traced.py compares logs with what strace sees.
. "$(dirname "$0")/lib.bash"
in_namespace
needs strace
program opens
export SHARD_CACHE_DIR=$WORK/cache
O=$WORK/opens S=$WORK/out
mkdir -p "$WORK/top/data"/{a/deep,b} "$WORK/top/other" "$WORK/stage"; cd "$WORK/top" || exit 2
D=$WORK/top/data
touch "$D"/{1..9}.txt "$D"/a/{1..7}.bin "$D"/a/deep/{1..4} "$D"/b/{1..9} other/{1,2} "$D/b/"$'new\nline "x\xff'
ln -s 1.txt "$D/link"; ln -s ../other/1 "$D/link_out"; ln -s "$D/a" "$WORK/to_a"; ln -s "$D" "$WORK/to_data"
all=$(find "$D" ! -xtype d -printf x | wc -c)

# rank [VARIABLE=VALUE...] COMMAND...: as rank 0 of 1, with its logs in $S alone
rank() {
  local set=()
  while [[ $1 == *=* ]]; do set+=("$1"); shift; done
  rm -rf "$S"
  env SHARD_STATS="$S" SHARD_DATASET="$D" SHARD_RANK=0 SHARD_SIZE=1 LD_PRELOAD="$LIB" "${set[@]}" \
    timeout --foreground 60 "$@" >"$WORK/stdout" 2>"$WORK/err"
}
# logs NAME EXPRESSION: of j, all logs (tests/harness/statlogs.py); and nothing was said
logs() { verdict "$1" "$(cd "$ROOT" && "$PYTHON" -m tests.harness.statlogs "$S" "$2" 2>&1 | tail -1; grep -v " a world of one: " "$WORK/err")"; }
# verify NAME STATUS WORD ARGUMENTS...: what it says of the logs
verify() {
  local name=$1 status=$2 word=$3 got; shift 3
  "$CTL" verify "$@" >"$WORK/said" 2>&1; got=$?
  verdict "$name" "$([ $got = "$status" ] && grep -qF -- "$word" "$WORK/said" || { echo "status $got, not '$word': "; cat "$WORK/said"; })"
}

# ---- what is counted
rank "$O" calls "$D" 1.txt; n=$(cat "$WORK/stdout"); logs "every call" "j.opened == ${n:-0} > 20 and j.distinct == 1 and j.lost == 0"
rank "$O" threads "$D" "$D"/*.txt; logs "threads" "j.opened == 1800 and j.distinct == 9 and len(j.logs) == 1"
rank "$O" fork "$D" "$D"/a/*.bin; logs "fork, and a grandchild" "j.opened == 14 and j.distinct == 7 and len(j.logs) == 2 and all(l.ended for l in j.logs)"
rank "$O" closed "$D" "$D"/a/*.bin; logs "a child without descriptors" "j.opened == 7 and j.distinct == 7"
rank "$O" _exit "$D" "$D"/a/*.bin; logs "ended by _exit" "j.opened == 7 and j.logs[0].ended"
rank "$O" exec "$D" "$D"/a/*.bin; logs "the same process after exec" "j.opened == 14 and len(j.logs) == 2"
rank bash -c '"$@"; "$@"' - "$O" plain "$D" "$D"/b/*; logs "children of a shell" "j.opened == 20 and j.distinct == 10"
rank sh -c 'env -u SHARD_RANK -u SHARD_SIZE "$@"' - "$O" plain "$D" "$D"/b/*; logs "a child without a rank" "j.opened == 10 and j.ranks == [-1]"
rank "$O" plain "$D" "$D"/link "$D"/link_out "$D/1.txt"; logs "links are names of their own" "j.distinct == 3"
rank "$O" plain "$D" "$WORK/to_a/1.bin" "$D/a/1.bin" "$WORK/to_data/a/../a/1.bin" data/a/1.bin ./data/./a//1.bin
logs "one file by many paths" "j.opened == 5 and j.distinct == 1"
rank "$O" plain "$D" other/1 /dev/null "$D/../other/2" "$O"; verdict "files elsewhere: no log is made" "$(ls "$S" 2>/dev/null; cat "$WORK/err")"
rank SHARD_INCLUDE='*.txt' "$O" plain "$D" "$D"/1.txt "$D"/b/1; logs "names that are not included" "j.opened == 1"
rank SHARD_DATASET="$D/b:$D/a" "$O" plain "$D" "$D"/1.txt "$D"/a/*.bin "$D"/b/1; logs "two datasets" "j.opened == 8 and j.roots == ['$D/a/', '$D/b/']"
rank SHARD_DATASET="$WORK/to_a" "$O" plain "$D" "$D"/1.txt "$D"/a/*.bin; logs "a dataset named by a link" "j.opened == 7 and j.roots == ['$D/a/']"
rank SHARD_DATASET="$WORK/late" bash -c 'mkdir "$1/late"; : >"$1/late/1"; cat "$1/late/1"' - "$WORK"
logs "a dataset that is made later" "j.opened == 2 and j.distinct == 1"; rm -r "$WORK/late"
rank "$O" many "$D" "$D/1.txt"; logs "200,000 opens" "j.opened == 200000 and j.distinct == 1 and j.lost == 0"
rank SHARD_VIEW=off "$O" plain "$D" "$D"/1.txt; logs "no view" "j.opened == 1"
rank SHARD_DATASET= "$O" plain "$D" "$D"/1.txt; verdict "no dataset: no log" "$(ls "$S" 2>/dev/null)"
rank bash -c 'ulimit -n 20; "$@"' - "$O" full "$D" "$D"/*.txt; logs "no descriptor left: told" "j.opened == 0 and j.lost == 9"
verify "... and not proven" 1 "is partial: 9 opens or more are not in it" "$S"
rank SHARD_DATASET="$WORK/none:$D=s3://bucket/prefix" SHARD_VIEW=off cat "$D/1.txt"; logs "a dataset that stands for a bucket" "j.opened == 1 and j.roots == ['$D/']"
ln -s "$D/1.txt" "$WORK/stage/link"; ln -s link "$WORK/stage/chain"; ln -s "$D" "$WORK/stage/folder"
rank "$O" plain "$D" "$WORK/stage/link" "$WORK/stage/chain" "$WORK/stage/folder/1.txt" "$D/1.txt"
logs "links elsewhere lead to the dataset's file" "(j.opened, j.distinct, j.lost) == (4, 1, 0)"
rank bash -c 'exec 5<"$1"; cat /proc/self/fd/5 /dev/fd/5; cat <(echo) /dev/null' - "$D/1.txt"; logs "a descriptor's own name" "(j.opened, j.distinct, j.lost) == (3, 1, 0)"
deep=$D$(printf '/d%.0s' {1..70}); mkdir -p "$deep"; touch "$deep/1"
rank "$O" plain "$D" "$deep/1"; logs "70 levels deep" "j.opened == 1"; rm -r "$D/d"
cat >"$WORK/moved.py" <<'P'
import os, sys, time
how, stage, data = sys.argv[1:]
def read(folder):
    for name in "ab": open(os.path.join(folder, name)).close()
open(data + "/1.txt").close(); os.mkdir(stage + "/x")
for name in "ab": open(os.path.join(stage, "x", name), "w").close()
if how == "later": time.sleep(3.1)
read(stage + "/x"); os.rename(stage + "/x", data + "/x"); read(data + "/x")
P
for how in now later; do
  rank "$PYTHON" "$WORK/moved.py" $how "$WORK/stage" "$D"; logs "a directory that is moved in, $how" "(j.opened, j.distinct, j.lost) == (3, 3, 0)"; rm -r "$D/x"
done

# By paths that do not lead through the root: the dataset is mounted elsewhere.
mounts=(); trap 'cd /; for m in "${mounts[@]}"; do umount -l "$m"; done; rm -rf --one-file-system "$BASE"' EXIT
bind() { mkdir -p "$2" && mount --bind "$1" "$2" 2>/dev/null && mounts=("$2" "${mounts[@]}"); }
M="$WORK/a mount"
if bind "$D" "$M"; then
  mkdir "$WORK/small" && mount -t tmpfs -o size=300k none "$WORK/small" && mounts=("$WORK/small" "${mounts[@]}")
  S=$WORK/small/s; rank "$O" many "$D" "$D/1.txt"; logs "a full disk: told" "0 < j.opened < 20000 and j.opened + j.lost == 200000"
  verify "... and not proven" 1 "is partial: " "$S"; S=$WORK/out
  rank "$O" plain "$D" "$M"/a/*.bin "$M/a/deep/1" "$D/a/1.bin"; logs "below a bind mount of the root" "j.opened == 9 and j.distinct == 8 and j.lost == 0"
  { rank "$O" segv "$D" "$M"/a/*.bin; } 2>/dev/null; logs "below a bind mount, in a signal handler" "j.opened == 7"
else
  skip "bind mounts" "mount is not allowed"
fi
for mode in modes cancel; do
  "$O" $mode "$WORK" "$D/1.txt" >"$WORK/want" 2>&1; rank "$O" $mode "$WORK" "$D/1.txt"
  same "opens $mode" "$WORK/want" "$WORK/stdout"
done

rank "$PYTHON" -c 'import os, sys
for epoch in range(400):
    os.environ["SHARD_EPOCH"] = str(epoch)
    name = sorted(os.listdir(sys.argv[1]))[0]
open(os.path.join(sys.argv[1], name)).close()' "$D/a"
logs "400 shares, over the ends of segments" "j.opened == 1 and j.lost == 0 and j.epochs == [399]"

# ---- how it ends, and where logs go
{ rank "$O" kill "$D" "$D"/a/*.bin; } 2>/dev/null; logs "killed: what was noted is there" "j.opened == 7 and not j.logs[0].ended"
verify "... and it is named" 1 "; 1 without an end: the process was killed" "$S"
rank "$O" exit "$D" "$D/1.txt"; logs "threads that open while the process exits: each may be cut off at one" "j.opened > 0 and j.lost <= 4"
rank strace -E LD_PRELOAD="$LIB" -f -o /dev/null -e trace=pwrite64 -e inject=pwrite64:error=EINTR:when=1+3 "$O" many "$D" "$D/1.txt"
logs "a signal while space is written" "j.opened == 200000 and j.lost == 0"
rank bash -c 'ulimit -f 100; exec "$@"' - "$O" many "$D" "$D/1.txt"; logs "a limit of a file's size: told" "0 < j.opened and j.opened + j.lost == 200000"
rank SHARD_STATS=rel sh -c 'cd /; "$@"' - "$O" plain "$D" "$D/1.txt"; verdict "a relative path" "$(ls rel/*.log 2>&1 >/dev/null)"; rm -r rel
rank SHARD_STATS="$WORK/100%" "$O" plain "$D" "$D/1.txt"; verdict "a percent sign" "$(ls "$WORK"/100%/*.log 2>&1 >/dev/null)"
rank "$O" plain "$D" "$D/1.txt"; verdict "logs are the user's own" "$(stat -c %a "$S"/*.log | grep -vx 600)"
# complains NAME WORD VARIABLE=VALUE...: one line with the variable and WORD; the command runs as ever
complains() {
  local name=$1 word=$2; shift 2
  rank "$@" cat "$D/1.txt" "$D/2.txt"
  verdict "$name" "$([ "$(grep -c . "$WORK/err")" = 1 ] && grep -q SHARD_STATS "$WORK/err" && grep -qF -- "$word" "$WORK/err" || shown cat "$WORK/err"; cat "$WORK/stdout")"
}
complains "no parent folder" "No such file" SHARD_STATS="$WORK/none/s"
complains "not a folder" "Not a directory" SHARD_STATS="$O"
complains "below a file" "Not a directory" SHARD_STATS="$O/s"
complains "a limit that is too low for any log" "File too large" SHARD_STATS="$WORK/limit" bash -c 'ulimit -f 1; exec "$@"' -
out=$(SHARD_STATS="$S/%r.json" SHARD_DATASET=$D SHARD_RANK=0 SHARD_SIZE=1 LD_PRELOAD=$LIB ls "$D" 2>&1)
verdict "a name with %r is refused" "$(grep -q "SHARD_STATS='.*' must be a directory" <<<"$out" || shown echo "$out")"
if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --clear-groups test -r "$LIB" 2>/dev/null; then
  mkdir -m 755 "$WORK/shut"; chmod o+rx "$WORK" "$WORK/top" "$D"
  out=$(SHARD_STATS=$WORK/shut SHARD_DATASET=$D SHARD_RANK=0 SHARD_SIZE=1 setpriv --reuid 65534 --clear-groups env LD_PRELOAD="$LIB" cat "$D/1.txt" 2>&1)
  verdict "a folder that cannot be written to" "$(grep -q "SHARD_STATS.*Permission denied" <<<"$out" || shown echo "$out")"
else
  skip "a folder that cannot be written to" "cannot become another user"
fi

# ---- a job: each rank lists the dataset, and reads its share
cat >"$WORK/read.py" <<'P'
import os, sys
for _ in range(int(sys.argv[2])):
    for d, dirs, files in os.walk(os.fsencode(sys.argv[1])):
        dirs[:] = [x for x in dirs if not os.path.islink(os.path.join(d, x))]
        for name in files: open(os.path.join(d, name), "rb").close()
P
# job SIZE COMMANDS [VARIABLE=VALUE...]: each rank runs bash's commands, in which READ reads its share once
job() {
  local size=$1 commands=$2 r job; shift 2; job=$(date +%N)
  rm -rf "$S"
  for ((r = 0; r < size; r++)); do
    env SHARD_STATS="$S" SHARD_DATASET="$D" SHARD_JOB="$job" SHARD_RANK=$r SHARD_SIZE=$size LD_PRELOAD="$LIB" "$@" READ="$PYTHON $WORK/read.py $D 1" \
      timeout 60 bash -c "$commands" >>"$WORK/job" 2>&1 || echo "rank $r: status $?"
  done
}
READ='$READ'
"$CTL" index "$D" -o "$WORK/whole.listing" --quiet >/dev/null
for size in 2 5; do # a world of one has no listing
  for strategy in range stride; do
    for seed in '' 11; do
      verdict "job of $size, $strategy${seed:+, shuffled}" "$(job $size "SHARD_EPOCH=0 $READ; SHARD_EPOCH=1 $READ" SHARD_STRATEGY=$strategy ${seed:+SHARD_SEED=$seed} 2>&1)"
      verify "... is proven" 0 "'$D/': proven: $size ranks share one listing of $all names" "$S"
      verify "... and what was read" 0 "read '$D/', epoch 0 to 1: proven: all $all of $all files were opened by their ranks, each once" "$S"
      verdict "... its numbers" "$(cd "$ROOT" && "$PYTHON" -c "import subprocess
from tests.harness import statlogs
cells = statlogs.facts('$S')['datasets'][0]['cells']
assert sorted((c.rank, c.epoch) for c in cells) == [(r, e) for r in range($size) for e in (0, 1)], cells
for c in cells:
    names = subprocess.run(['$CTL', 'ls', '$WORK/whole.listing', '-0', '--rank', str(c.rank), '--size', '$size', '--strategy', '$strategy'] +
        ['--seed', '${seed:-0}', '--epoch', str(c.epoch)], capture_output=True, check=True).stdout.split(b'\0')[:-1]
    assert c.own == c.read == c.distinct == c.opened == len(names), (c, names)" 2>&1 | tail -1)"
    done
  done
  verdict "job of $size, hash" "$(job $size "$READ" SHARD_STRATEGY=hash 2>&1)"
  verify "... needs the listing" 1 "without --listing" "$S"
  verify "... with it is proven" 0 "the ranks' names of epoch 0 are $all of $all in " "$S" --listing "$WORK/whole.listing"
done
# Shares of equal length, and samples of several files.
for remainder in drop repeat; do
  for strategy in range stride; do
    job 5 "$READ" SHARD_REMAINDER=$remainder SHARD_STRATEGY=$strategy SHARD_SEED=3 SHARD_EPOCH=2
    verify "remainder $remainder, $strategy" 0 "(remainder $remainder), by $strategy" "$S"
    each=$(((all + (${#remainder} - 4) * 2) / 5))
    verify "... each rank has read its share" 0 "all $((each * 5)) of $((each * 5)) files were opened by their ranks, each once" "$S"
  done
done
mkdir "$WORK/pairs"; (cd "$WORK/pairs" && mkdir a && touch {00..16}.{jpg,txt} {20..24}.jpg a/{x,y}.{jpg,json,txt} a/plain)
for sample in stem directory; do
  for size in 2 3; do
    job $size "cat \$(find $WORK/pairs -type f)" SHARD_DATASET="$WORK/pairs" SHARD_SAMPLE=$sample SHARD_SEED=9 SHARD_EPOCH=4
    verify "samples by $sample, $size ranks" 0 "all 46 of 46 files were opened by their ranks, each once" "$S"
  done
done
job 3 "cat \$(find $WORK/pairs -type f)" SHARD_DATASET="$WORK/pairs" SHARD_SAMPLE=stem SHARD_REMAINDER=drop
verify "samples, and a remainder" 0 "by their ranks, each once" "$S"
job 2 "[ \$SHARD_RANK = 0 ] && export SHARD_SAMPLE=file; cat \$(find $WORK/pairs -type f)" SHARD_DATASET="$WORK/pairs" SHARD_SAMPLE=stem
verify "ranks with other samples" 1 "" "$S"
job 40 "$READ"; verify "more ranks than files" 0 "40 ranks share one listing" "$S"
job 1 "$READ"; verify "a world of one" 1 "give it by --listing" "$S"
verify "... with a listing" 0 "all $all of $all files were opened by their ranks, each once" "$S" --listing "$WORK/whole.listing"
job 2 "$READ" SHARD_EPOCH=77 SHARD_SEED=18446744073709551615; verify "a set epoch, the largest seed" 0 "epoch 77: proven" "$S"
job 2 "$READ; $READ; $READ"; verify "three times" 0 "each 3 times" "$S"
job 2 "$READ; [ \$SHARD_RANK = 0 ] || $READ"; verify "one or two times" 0 "1 or 2 times each" "$S"
job 2 "ls $D"; verify "nothing opened" 1 "only 0 of $all files were opened by their ranks" "$S"
verify "... with --partial-ok" 1 "rank 1 has opened none" "$S" --partial-ok
job 2 "$READ; cat $D/{1..9}.txt"; verify "all of the first directory in all ranks" 1 "ranks have opened files of others" "$S"
job 2 "cat $D/b/1" ; verify "nobody has listed" 1 "no process has listed it, so libshard has divided nothing" "$S"
job 2 "$READ" SHARD_VIEW=off; verify "no view" 1 "no process has listed it" "$S"
job 2 "set -- \$(ls -d $D/a/*.bin $D/b/?); shift; cat \"\$@\""; verify "stopped early" 1 "only " "$S"; verify "... which --partial-ok allows" 0 "(--partial-ok)" "$S" --partial-ok
# A wrapper that replaces LD_PRELOAD: the program behind it has no log, and nothing is proven.
job 2 "[ \$SHARD_RANK = 0 ] || export LD_PRELOAD=; $READ"; verify "a rank without libshard" 1 "rank 1 of 2 is missing" "$S" --partial-ok
job 2 "ls $D; [ \$SHARD_RANK = 0 ] || export LD_PRELOAD=; $READ"
verify "a rank that has listed, and whose program has no libshard" 1 "rank 1 has opened none: did its program run without libshard" "$S"
verify "... with --partial-ok" 1 "rank 1 has opened none" "$S" --partial-ok

# What once was called proven: a share is divided a second time, by split_by_node or DistributedSampler; a bucket's objects are not read.
cat >"$WORK/twice.py" <<'P'
import os, sys
rank, size = int(os.environ["SHARD_RANK"]), int(os.environ["SHARD_SIZE"])
for name in sorted(os.listdir(sys.argv[1]))[rank::size]: open(os.path.join(sys.argv[1], name), "rb").close()
P
mkdir "$WORK/tars"; touch "$WORK/tars"/{00..62}.tar
job 4 "$PYTHON $WORK/twice.py $WORK/tars" SHARD_DATASET="$WORK/tars"
verify "divided twice" 1 "only 15 of 63 files were opened by their ranks" "$S"
verdict "... and the reason is told" "$(grep -q "were they divided twice" "$WORK/said" || cat "$WORK/said")"
verdict "... in JSON, too" "$("$CTL" verify "$S" --json | grep -qF '"proven": false' || "$CTL" verify "$S" --json)"

# A program that opens files by names that it has from elsewhere: each rank reads all, and is told so.
cat >"$WORK/brace.py" <<'P'
import os, subprocess, sys
if "list" in sys.argv: os.listdir(sys.argv[1])
if "worker" in sys.argv and os.fork() == 0: os.listdir(sys.argv[1]); os._exit(0)
if "orphan" in sys.argv: # what a fork server is whose rank has ended
    os.listdir(sys.argv[1])
    last = subprocess.Popen([sys.executable, __file__, sys.argv[1], "last"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    last.stdout.readline() # it runs
    sys.exit()
if "last" in sys.argv: print(flush=True); sys.stdin.read()
for i in range(63): open("%s/%02d.tar" % (sys.argv[1], i)).close()
P
for how in none list worker orphan; do
  env SHARD_DATASET="$WORK/tars" SHARD_RANK=1 SHARD_SIZE=4 SHARD_STATS="$S.brace" LD_PRELOAD="$LIB" "$PYTHON" "$WORK/brace.py" "$WORK/tars" $how 2>&1 >/dev/null | cat >"$WORK/err"
  verdict "opened without listing, $how: a line" "$([ "$(grep -c "nobody has listed the dataset" "$WORK/err")" = $([ $how = none ] && echo 1 || echo 0) ] || shown cat "$WORK/err")"
  [ $how = none ] && verify "... and verify says it" 1 "no process has listed it, so libshard has divided nothing" "$S.brace"
done

# A program that divides its files itself (DLIO): what it starts anew learns of the dataset, and the epoch, by the rank's page.
cat >"$WORK/program.py" <<'P'
import ctypes, os, subprocess, sys
api, data, u64 = ctypes.CDLL(None), sys.argv[1].encode(), ctypes.c_uint64
names = sorted(os.listdir(sys.argv[1]))
if "worker" not in sys.argv:
    mark = ctypes.create_string_buffer(100)
    assert api.shard_run_begin(mark, 100) == 0 and api.shard_run_watch(0, data + b"/", b"tar") == 0
    assert api.shard_stats_names(data, b"0" * 64, u64(63), u64(63), u64(60)) == 0
    for epoch in 1, 2:
        assert api.shard_run_set_epoch(u64(epoch)) == 0
        env = {**os.environ, "LIBSHARD_RUN": mark.value.decode()}
        subprocess.run([sys.executable, __file__, sys.argv[1], "worker"], env=env, check=True)
    names = names[:0]
for name in names[:61]: open(os.path.join(sys.argv[1], name)).close()
P
rank SHARD_DATASET="$WORK/tars" SHARD_VIEW=off "$PYTHON" "$WORK/program.py" "$WORK/tars"; logs "workers that are started anew" "j.opened == 122 and j.epochs == [1, 2] and j.roots == ['$WORK/tars/'] and len(j.logs) == 3"
verify "... read what the steps account for" 0 "read '$WORK/tars/', epoch 1 to 2: proven: 61 of 63 files were opened, each by one rank alone (counted; which files, no listing tells); the steps account for 60" "$S"

# ---- ranks that a program sets itself, too late (traced.py has those that are right)
cat >"$WORK/own.py" <<'P'
import os, sys
for rank in range(3):
    if os.fork() == 0:
        open(sys.argv[1] + "/1.txt").close()
        os.environ.update(RANK=str(rank), WORLD_SIZE="3", LOCAL_RANK=str(rank))
        for d, _, files in os.walk(sys.argv[1]):
            for name in files: open(os.path.join(d, name), "rb").close()
        os._exit(0)
for rank in range(3): os.wait()
P
rm -rf "$S"; env SHARD_STATS="$S" SHARD_DATASET="$D" LD_PRELOAD="$LIB" timeout 60 "$PYTHON" "$WORK/own.py" "$D" >"$WORK/err" 2>&1
verify "a rank that each child sets, after it has opened a file" 1 "ranks have opened files of others" "$S"

# ---- a process that lives on
rm -f "$WORK/go"; mkfifo "$WORK/go"
cat >"$WORK/late.py" <<'P'
import os, sys
data, go = sys.argv[1:]
open(data + "/1.txt").close()
if os.fork() == 0:
    os.setsid(); os.close(1); os.close(2)
    open(data + "/2.txt").close(); open(go).close(); open(data + "/3.txt").close()
    os._exit(0)
P
rank "$PYTHON" "$WORK/late.py" "$D" "$WORK/go"; await "its log" bash -c '[ "$(ls "$1" | wc -l)" = 2 ]' - "$S"
verify "a daemon that is still running" 1 "of rank 0 is still running" "$S"
: >"$WORK/go"; await "its end" bash -c '! "$1" verify "$2" | grep -q "still running"' - "$CTL" "$S"; logs "... its opens are counted" "j.opened == 3"

# ---- what is not one job
# Two digests, as where one host's listing is another.
mkdir "$WORK/d2"; touch "$WORK/d2/1"; "$CTL" index "$WORK/d2" -o "$WORK/l0" --quiet >/dev/null; touch "$WORK/d2/2"; "$CTL" index "$WORK/d2" -o "$WORK/l1" --quiet >/dev/null
job 2 "[ \$SHARD_RANK = 0 ] && touch $WORK/d2/0 || rm $WORK/d2/0; SHARD_JOB=\$SHARD_RANK $PYTHON $WORK/read.py $WORK/d2 1" SHARD_DATASET="$WORK/d2"
verify "two listings" 1 "rank 0 has a listing of 3 names" "$S"
job 2 "$READ"; cp -r "$S" "$WORK/good"; rm -rf "$WORK/one"; job 3 "$READ"; cp -r "$S" "$WORK/one"; cp "$WORK/good"/* "$S"
verify "logs of worlds of two sizes" 1 "of worlds of different sizes" "$S"
verify "the good ones" 0 "complete: proven: 2 logs of 2 ranks" "$WORK/good"
job 2 "$READ" SHARD_JOB=another; cp "$WORK/good"/* "$S"; verify "two runs in one folder" 1 "there are logs of several runs" "$S"
cp -r "$WORK/good" "$WORK/copy"; verify "a copy" 1 "are of one process" "$WORK/good" "$WORK/copy"
mkdir "$WORK/part" "$WORK/rest"; for f in "$WORK/one"/*; do cp "$f" "$([ "$(ls "$WORK/part" | wc -l)" = 2 ] && echo "$WORK/rest" || echo "$WORK/part")"; done
verify "a rank is missing" 1 "of 3 is missing" "$WORK/part"; verify "... its log is elsewhere" 0 "3 logs of 3 ranks" "$WORK/part" "$WORK/rest"
job 2 "$READ; SHARD_SEED=\$SHARD_RANK $READ"; verify "other seeds in ranks" 1 "seed" "$S"
job 2 "SHARD_STRATEGY=\$( [ \$SHARD_RANK = 0 ] && echo range || echo stride) $READ"; verify "other strategies in ranks" 1 "strategy stride" "$S"
for e in 0 1; do "$CTL" manifest "$WORK/whole.listing" --size 2 --seed 3 --epoch $e -0 -o "$WORK/own.%r.$e.nul"; done
for r in 0 1; do grep -zav line "$WORK/own.$r.0.nul" | tr '\0' '\n' >"$WORK/own.$r.txt"; done
sort -u "$WORK"/own.?.txt >"$WORK/plain"; "$CTL" index "$WORK/plain" --root "$D" -o "$WORK/plain.listing" --quiet >/dev/null
job 2 "$READ" SHARD_LISTING="$WORK/own.%r.txt"
verify "lists of the ranks' own: need the whole" 1 "without --listing" "$S"
verify "... are proven with it" 0 ", each once" "$S" --listing "$WORK/plain.listing"
cp "$WORK/own.1.txt" "$WORK/own.kept"; { head -1 "$WORK/own.0.txt"; tail -n +2 "$WORK/own.kept"; } >"$WORK/own.1.txt"
job 2 "$READ" SHARD_LISTING="$WORK/own.%r.txt"; verify "... a name twice, another left out" 1 ", but not the same" "$S" --listing "$WORK/plain.listing"
head -2 "$WORK/own.0.txt" >"$WORK/own.1.txt"; job 2 "$READ" SHARD_LISTING="$WORK/own.%r.txt"; verify "... some are left out" 1 "some are left out" "$S" --listing "$WORK/plain.listing"
for e in 0 1; do shuf "$WORK/plain" >"$WORK/all.$e.txt"; done
job 2 "SHARD_EPOCH=0 $READ; SHARD_EPOCH=1 $READ" SHARD_LISTING="$WORK/all.%e.txt"; verify "a list for each epoch" 0 "share one list in each epoch" "$S"

# ---- files that are no logs
# damaged NAME WORD PYTHON: of the bytes b of the first log
damaged() {
  rm -rf "$S"; cp -r "$WORK/good" "$S"; f=$(ls "$S"/*.log | head -1)
  "$PYTHON" -c "import struct, sys
b = bytearray(open(sys.argv[1], 'rb').read())
$3
open(sys.argv[1], 'wb').write(b)" "$f"
  verify "verify: $1" 1 "$2" "$S"
}
damaged "all zeros" "it is all zeros" "b = bytes(65536)"
damaged "empty" "not a log" "b = b''"
damaged "another file" "it is not a log" "b = b'x' * 65536"
damaged "cut short" "is partial" "b = b[:4096 + 16 * 20]"
damaged "a rank that there is not" "it is damaged" "struct.pack_into('<i', b, 80, 7)"
damaged "no share any more" "is partial" "struct.pack_into('<Q', b, 56, 1 << 40)"
damaged "a note that is not there" "is partial: 1 opens or more" "n, = struct.unpack_from('<Q', b, 48); b[4096 + 16 * (n - 1):4096 + 16 * n] = bytes(16)"
damaged "notes that were lost" "3 opens or more" "struct.pack_into('<Q', b, 64, 3)"
damaged "a share without an end" "is partial" "struct.pack_into('<Q', b, 4096, 1 << 63)"
rm -rf "$S"; mkdir "$S"; verify "verify: no log at all" 1 "there is no log" "$S"
verify "verify: no folder" 1 "No such file" "$WORK/none"
verify "verify: no operand" 2 "verify takes" --json
verify "verify: an unknown option" 2 "frob" --frob x
verify "verify: no listing" 1 "cannot use listing" "$WORK/good" --listing "$WORK/none"

# ---- the same as another run
job 2 "SHARD_EPOCH=0 $READ; SHARD_EPOCH=1 $READ"; cp -r "$S" "$WORK/first"; job 2 "SHARD_EPOCH=0 $READ; SHARD_EPOCH=1 $READ"
verify "same: two runs" 0 "each rank has opened the same files as often in both runs, in each epoch" "$S" --same-as "$WORK/first"
job 2 "SHARD_EPOCH=0 $READ; SHARD_EPOCH=1 $READ; SHARD_EPOCH=1 $READ"; verify "same: not as often" 1 "rank 0, epoch 1: " "$S" --same-as "$WORK/first"
verify "same: the same sets" 0 "sets are compared" "$S" --same-as "$WORK/first" --sets
job 2 "SHARD_EPOCH=0 $READ; SHARD_EPOCH=1 $READ" SHARD_STRATEGY=range; verify "same: other files" 1 "rank 0, epoch 0: " "$S" --same-as "$WORK/first"
verify "same: other sets" 1 "(other files)" "$S" --same-as "$WORK/first" --sets
verify "same: no listing is taken" 2 "takes no --listing" "$S" --same-as "$WORK/first" --listing x

finish
