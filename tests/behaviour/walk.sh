#!/bin/bash
# SPDX-License-Identifier: MIT
# A walk of a file system that takes its time: what is asked for, by how many threads at once, what
# comes of it, and of errors. slowfs.c counts; nothing here is measured by a clock.
. "$(dirname "$0")/lib.bash"
in_namespace
cd "$WORK" || exit 2
program slowfs
M=$WORK/mnt; mkdir "$M"; L=$WORK/l
# slow VARIABLE=...: mount it. The rest of this test's threads share the kernel's cache of one mount.
slow() {
  env "$@" ./slowfs "$M" >asked 2>err & slow=$!
  until mountpoint -q "$M"; do
    kill -0 $slow 2>/dev/null || {
      [ $passed != 0 ] || skip_all "walks of a slow file system: FUSE cannot be mounted here: $(cat err)"
      fail "a slow file system" "$(cat err)"; finish
    }
    sleep 0.02
  done
}
# unmount: then the file asked has what it was asked
unmount() { umount "$M"; wait $slow; }
# asked CALL [2]: how often; 2: at once
asked() { awk -v c="$1" -v k="${2:-1}" '$1 == c { print $(k + 1) }' asked; }
# index NAME [OPTION]...: a listing l of it, which must succeed
index() {
  local name=$1; shift
  "$CTL" index "$M" -o "$L" "$@" --json >json 2>err || fail "$name" "status $?: $(cat err)"
}
# names DIRS FILES: of the listing
names() { "$PYTHON" -c '
import sys
dirs, files = map(int, sys.argv[1:])
for d in [f"d{k:07d}/" for k in range(dirs)] or [""]:
    for k in range(files):
        print(f"{d}f{k:07d}")' "$1" "$2"; }
# lists NAME WANT: the file's names
lists() { "$CTL" ls "$L" >got 2>&1; same "$1" "$2" got; }
# counts NAME CALL N
counts() { verdict "$1" "$([ "$(asked "$2")" = "$3" ] || shown cat asked)"; }

# What is asked for: one opendir a directory, and no stat of an entry that has a type.
names 200 150 >want
slow SLOW_DIRS=200 SLOW_FILES=150
index "types"; unmount; lists "types: names" want
counts "types: an opendir a directory" opendir 201
counts "types: a lookup a directory" lookup 200
verdict "types: getattrs" "$([ "$(asked getattr)" -le 203 ] || shown cat asked)" # each once more, and the root's
slow SLOW_DIRS=200 SLOW_FILES=150 SLOW_UNKNOWN=1
index "no types"; unmount; lists "no types: names" want
counts "no types: an opendir a directory" opendir 201
counts "no types: a lookup an entry" lookup 30200

# Threads come while all wait: 64 of them. A call takes long until so many have come.
names 3000 20 >want
for unknown in 0 1; do
  slow SLOW_DIRS=3000 SLOW_FILES=20 SLOW_OPEN=50000 SLOW_UNTIL=64 SLOW_UNKNOWN=$unknown
  SHARD_BUILD_MEMORY=8M index "64 threads" --no-attributes; unmount; lists "64 threads, unknown $unknown: names" want
  verdict "64 threads, unknown $unknown: at once" "$([ "$(asked opendir 2)" = 64 ] || shown cat asked)"
  peak=$("$PYTHON" -c 'import json; print(json.load(open("json"))["peak_rss"])')
  verdict "64 threads, unknown $unknown: 8M: peak memory" "$( ((peak <= 8 * 1153434 + 16 * 1048576)) || echo "$peak bytes")"
done
# In one directory without types other threads ask for some of its entries.
names 0 16000 >want
slow SLOW_FILES=16000 SLOW_STAT=1000 SLOW_REPLY=5000 SLOW_UNTIL=6 SLOW_UNKNOWN=1
index "one directory"; unmount; lists "one directory: names" want
verdict "one directory: lookups at once" "$([ "$(asked lookup 2)" -ge 6 ] || shown cat asked)"
slow SLOW_DIRS=300 SLOW_FILES=1 SLOW_CHAIN=1
index "a chain"; unmount; "$CTL" ls "$L" >got
verdict "a chain: names" "$([ "$(wc -l <got)" = 300 ] && [ "$(tail -1 got | tr -cd / | wc -c)" -ge 1 ] || shown wc -l got)"
counts "a chain: an opendir a directory" opendir 301

# Fewer threads: slower, and the same bytes. A listing has a random number and the time in it.
cat >fixed.c <<'C'
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
ssize_t getrandom(void *to, size_t n, unsigned flags) { memset(to, (int)flags, n); return (ssize_t)n; }
int clock_gettime(clockid_t id, struct timespec *t) {
  int rc = (int)syscall(SYS_clock_gettime, id, t);
  if (id == CLOCK_REALTIME) {
    *t = (struct timespec){4000000000, 1};
  }
  return rc;
}
C
${CC:-gcc} -shared -fPIC -D_GNU_SOURCE -o fixed.so fixed.c || exit 2
cp "$CTL" ctl; chmod 755 ctl fixed.so; chmod 777 .; rm -f user
slow SLOW_DIRS=700 SLOW_FILES=50 SLOW_OPEN=1000
LD_PRELOAD=$WORK/fixed.so ./ctl index "$M" -o many >out 2>err || fail "many threads" "$(cat err)"
for n in 8 16 40; do
  (ulimit -n $n; LD_PRELOAD=$WORK/fixed.so ./ctl index "$M" -o few >out 2>err); verdict "$n descriptors" "$(cmp many few 2>&1 || cat err)"
done
# RLIMIT_NPROC counts the process, too.
for n in 1 2 4 5 9; do
  # shellcheck disable=SC2016  # expanded there
  setpriv --reuid 54321 --regid 54321 --clear-groups "$BASH" -c 'ulimit -u $1; LD_PRELOAD=$2/fixed.so exec $2/ctl index $2/mnt -o $2/user' - $n "$WORK" >out 2>err
  verdict "RLIMIT_NPROC $n" "$(cmp many user 2>&1 || cat err)"; rm -f user
done
unmount
verdict "fewer threads: there were many" "$([ "$(asked opendir 2)" -gt 8 ] || shown cat asked)"
# Paths longer than PATH_MAX are opened in steps, which takes descriptors.
"$PYTHON" - deep <<'PY'
import os, sys
os.mkdir(sys.argv[1])
at = os.open(sys.argv[1], os.O_RDONLY)
def enter(name):
    os.mkdir(name, dir_fd=at)
    return os.open(name, os.O_RDONLY, dir_fd=at)
for _ in range(17):
    at = enter("c" * 250)
for k in range(400):
    os.close(enter(f"d{k:03}"))
PY
for n in 8 16; do
  (ulimit -n $n; "$CTL" index deep -o "$L" >out 2>err); verdict "$n descriptors, long paths" "$([ $? = 0 ] || cat err)"
done

# Errors. EINTR: the call is made again. ESTALE: what a server has forgotten has gone, so that the
# tree is read again; the kernel itself asks a second time for what is opened.
names 100 60 >want
for call in opendir readdir lookup getattr; do
  for n in 1 40; do
    slow SLOW_DIRS=100 SLOW_FILES=60 SLOW_UNKNOWN=1 "SLOW_FAIL=$call $n 4 3"
    index "EINTR of $call $n"; unmount; lists "EINTR of $call $n: names" want
  done
done
slow SLOW_DIRS=100 SLOW_FILES=60 "SLOW_FAIL=opendir 40 116 2"
index "ESTALE of opendir"; unmount; lists "ESTALE of opendir: names" want
slow SLOW_DIRS=100 SLOW_FILES=60 "SLOW_FAIL=readdir 40 116 1"
index "ESTALE of readdir"; unmount; lists "ESTALE of readdir: names" want
verdict "ESTALE of readdir: read again" "$([ "$(asked opendir)" -gt 101 ] || shown cat asked)"
slow SLOW_DIRS=100 SLOW_FILES=60 SLOW_UNKNOWN=1 "SLOW_FAIL=lookup 300 116 8"
index "ESTALE of lookup"; unmount; lists "ESTALE of lookup: names" want
verdict "ESTALE of lookup: read again" "$([ "$(asked opendir)" -gt 101 ] || shown cat asked)"
# fails NAME WORDS: no listing, and a message with the words
fails() {
  rm -f "$L"; "$CTL" index "$M" -o "$L" >/dev/null 2>err; local got=$?
  verdict "$1" "$([ $got = 1 ] || echo "status $got. "; [ -e "$L" ] && echo "a listing. "; grep -qF -- "$2" err || shown cat err)"
}
for e in "116 Stale" "5 Input/output" "13 Permission" "2 No such file"; do
  slow SLOW_DIRS=2000 SLOW_FILES=1 SLOW_OPEN=1000 "SLOW_FAIL=opendir 1000 ${e%% *} 1000000"
  fails "opendir fails by ${e%% *}" "${e#* }"; unmount
done
for e in "116 Stale" "5 Input/output"; do
  slow SLOW_DIRS=2000 SLOW_FILES=1 SLOW_OPEN=1000 "SLOW_FAIL=readdir 1000 ${e%% *} 1000000"
  fails "readdir fails by ${e%% *}" "${e#* }"; unmount
done
slow SLOW_DIRS=2000 SLOW_FILES=1 SLOW_OPEN=1000 SLOW_UNKNOWN=1 "SLOW_FAIL=lookup 3000 5 1000000"
fails "lookup fails by 5" "is a directory"; unmount
slow SLOW_DIRS=2000 SLOW_FILES=1 "SLOW_FAIL=getattr 1500 5 1000000"
fails "getattr fails by 5, at the end" "cannot stat directory 'd0"; unmount
counts "getattr fails by 5, at the end: read once" opendir 2001
finish
