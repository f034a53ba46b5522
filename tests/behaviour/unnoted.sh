#!/bin/bash
# SPDX-License-Identifier: MIT
# SHARD_STATS: an open that is hard to count is counted, or told as lost. shardctl verify proves
# nothing of a rank whose opens are not all counted.
. "$(dirname "$0")/lib.bash"
needs strace
program opens
export SHARD_CACHE_DIR=$WORK/cache
export LIB
O=$WORK/opens D=$WORK/data S=$WORK/out/0.json
mkdir "$D" "$D/sub" "$WORK/out" "$WORK/stage"; touch "$D"/{1..6} "$D"/sub/{7..9}

# fresh: nothing is left of an earlier rank
fresh() { rm -rf "$WORK/out"; mkdir "$WORK/out"; }
# rank [VARIABLE=VALUE...] COMMAND...: as rank 0 of 1, whose main process it is; with a seed, for else it has no listing
rank() {
  local set=()
  while [[ $1 == *=* ]]; do set+=("$1"); shift; done
  timeout --foreground 60 env SHARD_STATS="$WORK/out/%r.json" SHARD_DATASET="$D" SHARD_RANK=0 SHARD_SIZE=1 SHARD_SEED=1 LD_PRELOAD="$LIB" "${set[@]}" \
    "$@" >"$WORK/stdout" 2>"$WORK/err"
}
# facts NAME EXPRESSION: of the object j, with its first epoch e
facts() {
  verdict "$1" "$("$PYTHON" -c "import json, sys
j = json.load(open(sys.argv[1])); e = (j['epochs'] or [None])[0]
assert $2, (j['lost'], j['mixed'], e)" "$S" 2>&1 | tail -1; grep -v " a world of one: " "$WORK/err")"
}
# verify NAME STATUS WORD ARGUMENTS...
verify() {
  local name=$1 status=$2 word=$3 got; shift 3
  "$CTL" verify "$@" >"$WORK/said" 2>&1; got=$?
  verdict "$name" "$([ $got = "$status" ] && grep -qF -- "$word" "$WORK/said" || { echo "status $got: "; cat "$WORK/said"; })"
}

cat >"$WORK/read.py" <<'P'
import os, sys
def read(top):
    for d, _, files in os.walk(top):
        for name in files: open(os.path.join(d, name), "rb").close()
if __name__ == "__main__":
    read(sys.argv[1])
P

# ---- by another name
ln -s "$D/1" "$WORK/stage/link"; ln -s link "$WORK/stage/chain"; ln -s "$D" "$WORK/stage/folder"
fresh; rank "$O" plain "$D" "$WORK/stage/link" "$WORK/stage/chain" "$WORK/stage/folder/1" "$D/1"
facts "links elsewhere lead to the dataset's file" "(e['opened'], e['distinct'], j['lost']) == (4, 1, 0)"
fresh; rank bash -c 'exec 5<"$1"; cat /proc/self/fd/5 /dev/fd/5; cat <(echo) /dev/null' - "$D/1"
facts "a descriptor's own name" "(e['opened'], e['distinct'], j['lost']) == (3, 1, 0)"
ln -s "$WORK/stage/chain" "$D/sub/own"
fresh; rank "$O" plain "$D" "$D/sub/own"; facts "within the dataset a link is a name" "(e['opened'], j['lost']) == (1, 0)"
fresh; rank SHARD_INCLUDE='[0-9]' "$O" plain "$D" "$D/sub/own"; facts "... unless it is not included" "(e['opened'], e['distinct']) == (1, 1)"
rm "$D/sub/own"
fresh; rank sh -c '"$1" "$2" "$3"; cat "$4"' - "$PYTHON" "$WORK/read.py" "$D" "$WORK/stage/link"
verify "a second open by a link elsewhere is seen" 0 "opened by the rank that owns it alone" "$S"

# ---- directories that are moved, and inodes that are used again
cat >"$WORK/moved.py" <<'P'
import os, sys, time
how, stage, data = sys.argv[1:]
def touch(folder):
    os.makedirs(folder)
    for name in "ab": open(os.path.join(folder, name), "w").close()
def read(folder):
    for name in "ab": open(os.path.join(folder, name)).close()
open(data + "/1").close()
if how == "again":
    for _ in range(50):
        touch(stage + "/x"); read(stage + "/x"); inode = os.stat(stage + "/x").st_ino
        for name in "ab": os.unlink(stage + "/x/" + name)
        os.rmdir(stage + "/x"); os.mkdir(data + "/x")
        if os.stat(data + "/x").st_ino == inode: break
        os.rmdir(data + "/x")
    else:
        sys.exit(77)
    for name in "ab": open(data + "/x/" + name, "w").close()
else:
    touch(stage + "/x")
    if how == "later": time.sleep(3.1)
    read(stage + "/x"); os.rename(stage + "/x", data + "/x"); read(data + "/x")
P
for how in now later again; do
  fresh; rank "$PYTHON" "$WORK/moved.py" $how "$WORK/stage" "$D"; got=$?
  if [ $got = 77 ]; then skip "a directory that is moved in, $how" "the file system gives out other inodes"; else
    facts "a directory that is moved in, $how" "(e['opened'], e['distinct'], j['lost']) == (3, 3, 0)"
  fi
  rm -rf "$D/x" "$WORK/stage/x"
done

# ---- what is killed while it notes: its place stays empty
fresh; { rank "$O" kill "$D" "$D"/{1..6}; } 2>/dev/null
"$PYTHON" - "$S.log" <<'P'
import struct, sys
with open(sys.argv[1], "r+b") as log:
    log.seek(32); count, = struct.unpack("<Q", log.read(8))
    log.seek((1 << 19) + 16 * (count - 1)); log.write(b"\0" * 16)
P
"$CTL" stats "$S.log" 2>"$WORK/err"; facts "a place that was claimed, and no note: lost" "e['opened'] == 5 and j['lost'] == 1"

# ---- what is opened after the main process has ended
cat >"$WORK/late.py" <<'P'
import os, signal, sys
sys.path.insert(0, os.path.dirname(sys.argv[0]))
from read import read
how, data, go, done = sys.argv[1:]
read(data)
if os.fork() == 0:
    os.close(1); os.close(2)
    open(go).close()
    for _ in range(40000 if how == "many" else 1): open(data + "/1").close()
    open(done, "w").close()
    os._exit(0)
if how == "killed": os.kill(os.getpid(), signal.SIGKILL)
P
for how in once many killed; do
  fresh; rm -f "$WORK/go" "$WORK/done"; mkfifo "$WORK/go"
  { rank "$PYTHON" "$WORK/late.py" $how "$D" "$WORK/go" "$WORK/done"; } 2>/dev/null
  [ $how = killed ] && "$CTL" stats "$S.log" 2>"$WORK/err"
  verify "a child lives on ($how): as yet it has opened nothing" 0 "each was opened once" "$S"
  : >"$WORK/go"; await "its word" test -e "$WORK/done"
  facts "... and opens: lost" "j['lost'] >= 1 and e['opened'] == 9"
  verify "... nothing is proven" 1 "still running at its end" "$S"
  verdict "... nor told to be" "$(grep "each was opened" "$WORK/said")"
done
fresh; rank "$O" exit "$D" "$D/1"; facts "threads that open while the process exits: lost" "e['opened'] > 0 and j['lost'] >= 1"
# Started anew after the end, it does not find the log.
fresh; rm -f "$WORK/go" "$WORK/done"; mkfifo "$WORK/go"
rank bash -c '"$1" "$2" "$3"; (exec >/dev/null 2>&1; read <"$4"; cat "$3/1"; : >"$5") & exit' - "$PYTHON" "$WORK/read.py" "$D" "$WORK/go" "$WORK/done"
verify "a child is to start others: as yet there are none" 0 "each was opened once" "$S"
: >"$WORK/go"; await "its word" test -e "$WORK/done"; verify "... they are started, and open: nothing is proven" 1 "still running at its end" "$S"
# The next run's statistics are not changed.
fresh; rm -f "$WORK/go" "$WORK/done"; mkfifo "$WORK/go"
rank "$PYTHON" "$WORK/late.py" once "$D" "$WORK/go" "$WORK/done"; rank "$PYTHON" "$WORK/read.py" "$D"
: >"$WORK/go"; await "its word" test -e "$WORK/done"; verify "a child of an earlier run changes nothing" 0 "each was opened once" "$S"

# ---- statistics that are not the last ones
fresh; rank "$PYTHON" "$WORK/read.py" "$D"; cp "$S" "$WORK/kept"; { rank "$O" kill "$D" "$D/1"; } 2>/dev/null; cp "$WORK/kept" "$S"
verify "a log beside the statistics" 1 "beside '$S' there is '$S.log'" "$S"
mkdir "$WORK/alone"; cp "$LIB" "$WORK/alone/libshard.so"
fresh; cp "$WORK/kept" "$S"; rank LD_PRELOAD="$WORK/alone/libshard.so" "$O" plain "$D" "$D/1"
verdict "no shardctl: the last run's are gone" "$(ls "$WORK/out"; grep -q "needs shardctl" "$WORK/err" || shown cat "$WORK/err")"
: >"$WORK/err"

# ---- a rank that is started again by torchrun
again() {
  env SHARD_STATS="$WORK/out/%r.json" SHARD_DATASET="$D" bash -c 'for _ in 1 2; do
    env "${@:4}" TORCHELASTIC_RUN_ID=none RANK=0 WORLD_SIZE=1 LD_PRELOAD="$LIB" "$1" "$2" "$3"; done; exit' \
    - "$PYTHON" "$WORK/read.py" "$D" "$@" 2>"$WORK/err"
}
fresh; sleep 0.05; again TORCHELASTIC_RESTART_COUNT=0; facts "the agent has started the rank before" "j['lost'] == 1 and e['opened'] == 9"
fresh; again TORCHELASTIC_RESTART_COUNT=1; facts "the agent tells a restart" "j['lost'] == 1"

# ---- ranks that a child sets, after it has joined a rank of one
cat >"$WORK/ranks.py" <<'P'
import multiprocessing, os, sys
sys.path.insert(0, os.path.dirname(sys.argv[0]))
from read import read
method, how, data = sys.argv[1:]
def child(rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE="3", LOCAL_RANK=str(rank))
    if how == "early": open(data + "/1").close()
    read(data)
if __name__ == "__main__":
    children = [multiprocessing.get_context(method).Process(target=child, args=(rank,)) for rank in range(3)]
    for one in children: one.start()
    for one in children: one.join()
P
ranks() {
  fresh
  env SHARD_STATS="$WORK/out/%r.json" SHARD_DATASET="$D" LD_PRELOAD="$LIB" "${@:3}" timeout 60 "$PYTHON" "$WORK/ranks.py" $1 $2 "$D" >"$WORK/err" 2>&1
}
for method in fork spawn; do
  ranks $method plain SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0
  verify "ranks within a rank of one, $method" 1 "or different settings (rank" "$WORK"/out/*.json
  ranks $method plain; verify "ranks that are set by children, $method" 0 "each was opened once" "$WORK"/out/*.json
  ranks $method early; verify "... which open files before they list, $method" 1 "could not note 1 things" "$WORK"/out/*.json
done

# ---- limits, signals, other users
fresh; rank bash -c 'ulimit -f 100; exec "$@"' - "$O" plain "$D" "$D/1"
verdict "a small limit of a file's size" "$(grep -q done "$WORK/stdout" || shown cat "$WORK/stdout" "$WORK/err")"
facts "... is no limit for the log that is there" "e['opened'] == 1 or j['lost'] == 1"
fresh; (ulimit -f 100; rank "$O" plain "$D" "$D/1")
verdict "a small limit from the beginning on" "$(grep -q done "$WORK/stdout" || shown cat "$WORK/stdout"; grep -q 'File too large' "$WORK/err" || shown cat "$WORK/err")"
: >"$WORK/err"
# Before Linux 6.10 each signal ends fallocate(2) on a tmpfs.
fresh; rank LD_PRELOAD= strace -E LD_PRELOAD="$LIB" -f -o /dev/null -e trace=fallocate -e inject=fallocate:error=EINTR "$O" many "$D" "$D/1"
facts "a signal while space is reserved" "e['opened'] == 200000 and j['lost'] == 0"
# A rank without statistics, and what it starts, look for no log.
fresh; rank LD_PRELOAD= SHARD_SIZE=2 SHARD_STATS="$WORK/out/same.json" strace -E LD_PRELOAD="$LIB" -f -o "$WORK/trace" -e trace=openat \
  sh -c '"$@"; :' - "$O" plain "$D" "$D/1"
verdict "no log is looked for where no statistics are kept" "$(grep -q 'has no %r' "$WORK/err" || shown cat "$WORK/err"; grep -q "$D/1" "$WORK/trace" || echo "no open is seen"; grep '"-"' "$WORK/trace")"
if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --clear-groups test -r "$LIB" 2>/dev/null; then
  fresh; rank sh -c 'setpriv --reuid 65534 --clear-groups "$@"; :' - "$O" plain "$D" "$D/1"
  verdict "a child of another user says that it is not counted" "$(grep -q 'is in no statistics' "$WORK/err" || shown cat "$WORK/err")"
else
  skip "a child of another user says that it is not counted" "cannot become another user"
fi
finish
