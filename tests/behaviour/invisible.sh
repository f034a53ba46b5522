#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs that list nothing of a dataset run as if libshard.so were not there.
. "$(dirname "$0")/lib.bash"
needs mpirun
program calls
cache=$WORK/cache
export SHARD_CACHE_DIR=$cache
D=$WORK/data; mkdir -p "$D/sub dir" "$WORK/dataset"
touch "$D"/{a,b,c}.txt "$D/sub dir/x" "$D"/.hidden "$WORK/dataset/file"
ln -s nowhere "$D/dangling"; ln -s . "$D/here"
cp -r "$ROOT/shim" "$D/shim"
git -C "$D" init -q . && git -C "$D" add a.txt 2>/dev/null
cd "$D" || exit 2

preload=$LIB
# alike NAME COMMAND...: bare and preloaded; with no SHARD_ variable and with a dataset elsewhere
alike() {
  local name=$1 mode rc; shift
  timeout 300 "$@" >"$WORK/out" 2>"$WORK/err"; echo "status $?" >>"$WORK/out"
  for mode in plain dataset; do
    local env=(env LD_PRELOAD="$preload")
    [ $mode = dataset ] && env+=(SHARD_DATASET="$WORK/dataset" SHARD_RANK=0 SHARD_SIZE=2)
    timeout 300 "${env[@]}" "$@" >"$WORK/out2" 2>"$WORK/err2"; echo "status $?" >>"$WORK/out2"
    cat "$WORK/err" >"$WORK/want"; cat "$WORK/out" >>"$WORK/want"
    cat "$WORK/err2" >"$WORK/got"; cat "$WORK/out2" >>"$WORK/got"
    same "$name, $mode" "$WORK/want" "$WORK/got"
  done
}

alike ls ls -lAR --full-time --zero
alike "ls, missing" ls /no/such/directory
alike find find . -printf '%p %y %i %s\n'
alike "git status" git status --porcelain=v2
alike "python -c pass" "$PYTHON" -c pass
alike "python walk" "$PYTHON" -c 'import os
for t in os.walk("."): print(t)'
alike "pip list" "$PYTHON" -m pip list --path . --disable-pip-version-check
alike perl perl -e 'opendir(D, ".") or die; print join("\n", sort readdir D), "\n"; rewinddir D; print scalar(() = readdir D), "\n"'
alike "bash glob" bash -c 'echo * .[a-z]* shim/*/*.c'
alike "bash, false" bash -c 'exit 3'
alike "mpirun hostname" mpirun --allow-run-as-root -n 1 hostname
alike "ls of descriptors" ls /proc/self/fd
alike "few descriptors" bash -c 'ulimit -n 12; ls; find . | sort'
alike "very few descriptors" bash -c 'ulimit -n 8; ls; find . | sort'
alike "two descriptors left" bash -c 'ulimit -n 5; ls; echo $?'
for mode in agree fork stack many closed fault; do
  alike "calls $mode" "$WORK/calls" $mode .
done
alike "all closed" bash -c 'ls <&- >&- 2>&-; echo $?'
alike "stderr closed" bash -c 'ls 2>&-; find . 2>&- | sort'
alike "stdin closed" bash -c 'ls <&-; '"'$PYTHON'"' -c "import os; print(sorted(os.listdir()))" <&-'

jemalloc=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | sed -n 's/.*libjemalloc\.so\.2 .*=> //p' | head -1)
if [ -n "$jemalloc" ]; then
  for preload in "$jemalloc $LIB" "$LIB $jemalloc"; do
    alike "ls, beside jemalloc" ls -la
    alike "python, beside jemalloc" "$PYTHON" -c 'import os; print(sorted(os.listdir()))'
  done
  preload=$LIB
else
  fail "beside jemalloc" "there is no libjemalloc.so.2; scripts/setup.sh installs it"
fi

pythons=("$USER_HOME"/.pyenv/versions/3.{8,9,10,11,12,13}.*/bin/python3)
[ -x "${pythons[0]}" ] || pythons=("$PYTHON")
for p in "${pythons[@]}"; do
  [ -x "$p" ] || continue
  v=$("$p" -V 2>&1)
  alike "$v" "$p" -c 'import json, os; print(sorted(os.listdir()))'
  # The audit hook is registered before the interpreter chooses its allocators.
  for a in "-X dev" -Xdev "-bb -X dev" -uXdev "-uX dev" -E -I; do
    for e in PYTHONDEVMODE=1 PYTHONMALLOC=debug PYTHONMALLOC=malloc_debug PYTHONMALLOC=malloc; do
      # shellcheck disable=SC2086  # a list of arguments
      alike "$v $a $e" env $e "$p" $a -c pass
    done
  done
done

verdict "no cache made" "$(ls -A "$cache" 2>&1 | grep -v 'No such file')"

# Its exports are the rows of shim/host/exports.def, no more and no less. An absolute symbol is a
# version's own name.
symbols() { nm -D --defined-only "$1" | awk '$2 != "A" {print $3}' | sort -u; }
awk '{print $1}' "$BUILD/gen/exports.txt" | sort >"$WORK/want"
symbols "$LIB" | sed 's/@.*//' | sort -u >"$WORK/got"
same "exported symbols" "$WORK/want" "$WORK/got"
# A call that libc has in several versions has the same ones here; no other has a version.
awk '$2 != "API" {print $1}' "$BUILD/gen/exports.txt" | sort >"$WORK/calls"
symbols "$(ldd "$LIB" | awk '$1 == "libc.so.6" {print $3}')" |
  awk -F@ 'NR == FNR {ours[$1]; next} $1 in ours {n[$1]++; all[NR] = $0}
    END {for (i in all) {split(all[i], part, "@"); if (n[part[1]] > 1) print all[i]}}' "$WORK/calls" - | sort >"$WORK/want"
symbols "$LIB" | grep @ | sort >"$WORK/got"
same "versions of symbols" "$WORK/want" "$WORK/got"
verdict "needs libc alone" "$(ldd "$LIB" | grep -Ev 'linux-vdso|lib(c|dl|pthread)\.so\.[0-9]|ld-linux' )"
verdict "no text relocations" "$(readelf -d "$LIB" | grep -E 'TEXTREL|RPATH|RUNPATH')"
finish
