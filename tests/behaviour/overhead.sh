#!/bin/bash
# SPDX-License-Identifier: MIT
# What the shard view costs where it serves nothing: instructions of find over 50,000 entries,
# counted by callgrind, bare and preloaded with a dataset elsewhere. At most 4 % more: it is told
# anew of each directory that it is of none, and that its name leads to it still. 1.91 % by Debian 12's compiler and libc, and in some runs 2.7 %: heaps differ. HARDEN (Makefile) costs 0.17 %.
. "$(dirname "$0")/lib.bash"
export SHARD_CACHE_DIR=$WORK/cache
mkdir "$WORK/tree" "$WORK/dataset"; touch "$WORK/dataset/file"
"$PYTHON" - "$WORK/tree" <<'P'
import os, sys
for d in range(1000):
    os.mkdir("%s/%04d" % (sys.argv[1], d))
    for f in range(50): os.close(os.open("%s/%04d/%04d.jpeg" % (sys.argv[1], d, f), os.O_CREAT | os.O_WRONLY))
P
# The same addresses in each run, where that is allowed: malloc's own work differs by half a per cent among heaps.
fixed=$(setarch -R true 2>/dev/null && echo setarch -R)
# instructions OUTPUT VARIABLES...: of find, to OUTPUT.cost
instructions() {
  local out=$1; shift
  env "$@" timeout 800 $fixed valgrind --tool=callgrind --callgrind-out-file="$out.callgrind" find "$WORK/tree" >"$out" 2>"$out.err" ||
    fail "find under callgrind" "$(cat "$out.err")"
  sed -n 's/^==.*Collected : //p' "$out.err" >"$out.cost"
}
needs valgrind
instructions "$WORK/bare" A=1
instructions "$WORK/preloaded" LD_PRELOAD="$LIB" SHARD_DATASET="$WORK/dataset" SHARD_RANK=0 SHARD_SIZE=2
same "find, unserved" "$WORK/bare" "$WORK/preloaded"
read -r bare <"$WORK/bare.cost"; read -r preloaded <"$WORK/preloaded.cost"
ratio=$(awk "BEGIN { printf \"%.4f\", ${preloaded:-2} / ${bare:-1} }")
verdict "overhead on what is not served: $ratio" "$(awk "BEGIN { exit $ratio <= 1.04 }" && echo "${preloaded:-?} instructions, bare ${bare:-?}")"
[ -z "${KEEP:-}" ] || cp "$WORK"/*.callgrind "$KEEP"
finish
