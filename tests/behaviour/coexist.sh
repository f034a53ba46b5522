#!/bin/bash
# SPDX-License-Identifier: MIT
# Beside libraries that others preload, in both orders, and under tools that watch or wrap a program, each rank lists and
# opens what it does under libshard alone, and a program without a dataset does what it does bare.
. "$(dirname "$0")/lib.bash"
needs fakeroot fakechroot eatmydata faketime stdbuf strace ltrace gdb valgrind musl-gcc /bin/busybox
D=$WORK/data C=$WORK/cache; mkdir -p "$D"/{a/deep,b} "$WORK/stats"
touch "$D"/f{0..9} "$D"/a/{0..19} "$D"/a/deep/{0..4} "$D"/b/{0..12}
cat >"$WORK/read.py" <<'P'
import os, sys
from concurrent.futures import ThreadPoolExecutor
def read(path):
    with open(path, "rb") as stream:
        return path + repr(stream.read())
with ThreadPoolExecutor(4) as pool:
    found = pool.map(read, [os.path.join(d, f) for d, _, files in os.walk(sys.argv[1]) for f in files])
print("\n".join(sorted(found)))
P
reads=("$PYTHON" -E "$WORK/read.py" "$D")
COUNTED='import json, sys; one = json.load(sys.stdin); print([one["lost"], [[d["entries"], d["digest"], d["cells"]] for d in one["datasets"]]])'

# ranked RANK PRELOADS COMMAND...: as this rank of two, with its statistics; "-": without a dataset
ranked() {
  local rank=$1 preloads=$2; shift 2; rm -rf "$WORK/stats"
  if [ "$rank" = - ]; then LD_PRELOAD=$preloads timeout 300 "$@"; return; fi
  SHARD_DATASET=$D SHARD_RANK=$rank SHARD_SIZE=2 SHARD_CACHE_DIR=$C SHARD_TIMEOUT=100000 SHARD_STATS=$WORK/stats \
    LD_PRELOAD=$preloads timeout 300 "$@"
}
# noted RANK FILE: after what a rank has printed, what it has counted
noted() {
  [ "$1" = - ] || "$CTL" verify "$WORK/stats" --json | "$PYTHON" -c "$COUNTED" >>"$2" 2>&1; rm -rf "$WORK/stats"
}
for r in 0 1 -; do
  ranked $r "$LIB" "${reads[@]}" >"$WORK/want$r" 2>&1; noted $r "$WORK/want$r"
done
verdict "alone: two halves, and all" "$(diff <(sed "s#b''##; s#^$D/##" "$WORK"/want[01] | grep -v '^\[' | sort) <("$CTL" ls "$D" | sort)
  diff <(sed 's/^/x/' "$WORK/want-") <("${reads[@]}" | sed 's/^/x/'); for r in 0 1; do grep -c "b''" "$WORK/want$r" | grep -vx 24; done; grep -qF '[0, 0, 24, 24, 0, 24, 24, 1, 1]' "$WORK/want0" || cat "$WORK/want0")"
mv "$C" "$WORK/first" # whichever is first below makes a listing, too

# alike NAME PRELOADS COMMAND...: as it is alone; the listing is made there, too
alike() {
  local name=$1 preloads=$2 r why=; shift 2
  rm -rf "$C"
  for r in 0 1 -; do
    ranked $r "$preloads" "$@" >"$WORK/got" 2>"$WORK/err"; noted $r "$WORK/got"
    cmp -s "$WORK/want$r" "$WORK/got" || why+="rank $r: $(diff "$WORK/want$r" "$WORK/got" | head -4) "
    why+=$(head -3 "$WORK/err")
  done
  verdict "$name" "$why"
}

# ---- other preloads ----
libraries=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p)
# beside LIBRARY [VARIABLE=VALUE...]
beside() {
  local name=$1 file; shift
  file=$(sed -n "s#.*\b$name .*=> ##p" <<<"$libraries" | head -1)
  [ -n "$file" ] || file=$(ls /usr/lib/*/{*/,}"$name" /usr/libexec/coreutils/"$name" 2>/dev/null | head -1)
  [ -n "$file" ] || { fail "beside $name" "there is none; scripts/setup.sh all installs it"; return; }
  alike "$name before libshard${*:+, $*}" "$file:$LIB" env "$@" "${reads[@]}"
  alike "$name after libshard${*:+, $*}" "$LIB:$file" env "$@" "${reads[@]}"
}
beside libjemalloc.so.2
beside libtcmalloc.so.4
beside libtcmalloc_minimal.so.4
beside libmimalloc.so.2.0
beside libeatmydata.so
beside libstdbuf.so _STDBUF_O=L
beside libc_malloc_debug.so.0 MALLOC_CHECK_=3 MALLOC_PERTURB_=165
for time in -400d +400d "2001-01-01 00:00:00" "@2040-01-01 00:00:00" "+0 x1000"; do
  beside libfaketime.so.1 FAKETIME="$time"
done
# Of a file that changes libfaketime tells nothing: the next job sees it all the same.
faketime=$(ls /usr/lib/*/faketime/libfaketime.so.1)
listed() { SHARD_DATASET=$D SHARD_LISTING=$WORK/m.txt SHARD_RANK=0 SHARD_SIZE=1 SHARD_CACHE_DIR=$C FAKETIME="2001-01-01 00:00:00" LD_PRELOAD=$1 find "$D" -type f -printf '%P\n' 2>&1; }
for preloads in "$faketime:$LIB" "$LIB:$faketime"; do
  verdict "a manifest that changes while the clock stands" "$(for names in f1 f2 f7; do echo $names >"$WORK/m.txt"; listed "$preloads" | diff - "$WORK/m.txt"; done)"
done
# fakechroot gives its preloads to shardctl, too, as a job's script does that exports them: it lists all the same.
verdict "shardctl, with libshard preloaded" "$(ranked 0 "$LIB" "$CTL" ls "$D" 2>&1 | diff - <("$CTL" ls "$D"))"
fakechroot=$(ls /usr/lib/*/fakechroot/libfakechroot.so)
for preloads in "$fakechroot:$LIB" "$LIB:$fakechroot"; do
  rm -rf "$C"
  verdict "in a fakechroot, preloaded $([ "$preloads" = "$LIB:$fakechroot" ] && echo behind || echo before) libshard" "$(cd /usr || exit; for r in 0 1; do # find comes back to where it was, which must be there, too
    D=/data FAKECHROOT=true FAKECHROOT_BASE=$WORK FAKECHROOT_EXCLUDE_PATH=$(printf '%s:' /{usr,lib,lib64,bin,proc,dev,sys} "$BUILD" "$WORK/stats")$C ranked $r "" \
      env LD_PRELOAD="$preloads" find /data -type f -printf '%P\n' >"$WORK/$r" 2>&1; [ -s "$WORK/$r" ] || echo "rank $r has nothing"; done
    sort "$WORK"/[01] | diff - <("$CTL" ls "$D" | sort) | head -4)"
done
# fakeroot's own library needs its daemon. Every file seems to be root's there, and its user root; libshard knows better.
if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --regid 65534 --clear-groups test -r "$LIB" 2>/dev/null; then
  user() { setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"; }
  chmod 1777 "$WORK"
  rooted() { user 65534 env SHARD_DATASET="$D" SHARD_RANK=1 SHARD_SIZE=2 SHARD_CACHE_DIR="$1" fakeroot sh -c "$2; export LD_PRELOAD; exec find \"\$1\" -type f" "$LIB" "$D" 2>&1 | sort; }
  sed -n "s/b''$//p" "$WORK/want1" | sort >"$WORK/want"
  for order in 'LD_PRELOAD=$LD_PRELOAD:$0' 'LD_PRELOAD=$0:$LD_PRELOAD'; do
    rm -rf "$C"; rooted "$C" "$order" >"$WORK/got"; same "fakeroot, $order" "$WORK/want" "$WORK/got"
    mkdir -m 1777 "$WORK/shm"
    verdict "fakeroot, $order: whose cache" "$(rooted "$WORK/shm" "$order" | diff - "$WORK/want" | head -3; ls "$WORK/shm" | grep -vx libshard-65534)"
    rm -rf "$WORK/shm"
    rm -rf "$C"; user 4242 env SHARD_DATASET="$D" SHARD_RANK=1 SHARD_SIZE=2 SHARD_CACHE_DIR="$C" LD_PRELOAD="$LIB" find "$D" >/dev/null
    chmod 755 "$C"; rooted "$C" "$order" >"$WORK/got"
    verdict "fakeroot, $order: another user's cache" "$(grep -q "belongs to another user (uid 4242)" "$WORK/got" || shown cat "$WORK/got")"
  done
  rm -rf "$C"; chmod 755 "$WORK"
else
  skip "fakeroot of another user" "cannot become one"
fi

# ---- what wraps a program, or watches it ----
alike "fakeroot" "$LIB" fakeroot -- "${reads[@]}"
alike "LD_BIND_NOW" "$LIB" env LD_BIND_NOW=1 "${reads[@]}"
if unshare -r true 2>/dev/null; then alike "a user namespace" "$LIB" unshare -r "${reads[@]}"; else skip "a user namespace" "cannot be made"; fi
alike "eatmydata" "$LIB" eatmydata "${reads[@]}"
alike "faketime" "$LIB" faketime -f -1y "${reads[@]}"
alike "stdbuf" "$LIB" stdbuf -oL "${reads[@]}"
alike "strace" "$LIB" strace -f -o /dev/null "${reads[@]}"
alike "ltrace" "$LIB" ltrace -f -o /dev/null -e opendir "${reads[@]}"
if perf stat -o /dev/null true 2>/dev/null; then alike "perf stat" "$LIB" perf stat -o /dev/null "${reads[@]}"; else skip "perf stat" "the kernel does not allow it"; fi

# The debugger runs the program with libshard, and a backtrace leads through it.
cat >"$WORK/walk.c" <<'C'
#define _GNU_SOURCE
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
int found(const char *path, const struct stat *st, int kind, struct FTW *at) {
  puts(path);
  if (getenv("STOP")) abort();
  return !st || kind < 0 || !at;
}
int main(int argc, char **argv) { return nftw(argv[argc - 1], found, 9, FTW_PHYS); }
C
gcc -g -o "$WORK/walk" "$WORK/walk.c"
ranked 1 "$LIB" "$WORK/walk" "$D" | sort >"$WORK/want"
debugged() { SHARD_DATASET=$D SHARD_RANK=1 SHARD_SIZE=2 SHARD_CACHE_DIR=$C timeout 300 gdb -nx -q -batch -iex "set environment LD_PRELOAD $LIB" "$@" --args "$WORK/walk" "$D" 2>&1; }
debugged -ex run | grep "^$D" | sort >"$WORK/got"; same "gdb, run" "$WORK/want" "$WORK/got"
STOP=1 debugged -ex run -ex bt >"$WORK/out"
verdict "gdb, backtrace" "$(grep -oE '^#.*\b(found \(|main \(|interpose/ftw.c)' "$WORK/out" | grep -oE '[^ (]*[(c]$|[a-z]+ \($' | uniq | tr '\n' ' ' | grep -qx 'found ( .*ftw.c main ( ' || tail -15 "$WORK/out")"

# memcheck: no error and no lost memory in any of the calls that list.
program calls
for mode in agree fork many; do
  SHARD_DATASET=$D SHARD_RANK=1 SHARD_SIZE=2 SHARD_CACHE_DIR=$C LD_PRELOAD=$LIB timeout 300 valgrind -q --error-exitcode=9 --leak-check=full \
    --errors-for-leak-kinds=definite --trace-children=no "$WORK/calls" $mode "$D" >"$WORK/got" 2>"$WORK/err"; got=$?
  SHARD_DATASET=$D SHARD_RANK=1 SHARD_SIZE=2 SHARD_CACHE_DIR=$C LD_PRELOAD=$LIB "$WORK/calls" $mode "$D" >"$WORK/want"
  # It does not know pidfd_open, by which a builder is waited for.
  verdict "memcheck, $mode" "$([ $got = 0 ] || echo "status $got"; grep -v -e 'unhandled .* syscall: 434' -e 'write your own handler' -e README_MISSING -e 'consider this a bug' -e 'valgrind.org/support' "$WORK/err" | head -20; cmp "$WORK/want" "$WORK/got")"
done

# A program with AddressSanitizer, whose runtime must come first: it has wrappers of the same calls. Where addresses are
# drawn from a wide range (vm.mmap_rnd_bits), it now and then finds its own taken.
steady=(setarch -R); "${steady[@]}" true 2>/dev/null || steady=()
gcc -g -w -D_GNU_SOURCE -fsanitize=address -o "$WORK/sanitized" "$ROOT/tests/programs/calls.c" -pthread
for mode in agree shared; do
  ranked 1 "$LIB" "$WORK/calls" $mode "$D" >"$WORK/want"
  ranked 1 "$(gcc -print-file-name=libasan.so):$LIB" "${steady[@]}" "$WORK/sanitized" $mode "$D" >"$WORK/got" 2>&1; same "AddressSanitizer, $mode" "$WORK/want" "$WORK/got"
done

# ---- other libraries in the loader's path ----
# shardctl has the libraries that it was linked with (DT_RPATH). libcurl with GnuTLS is another library than the one with
# OpenSSL, of the same functions.
mkdir "$WORK/other" "$WORK/broken"; ln -s /usr/lib/*/libcurl-gnutls.so.4 "$WORK/other/libcurl.so.4"; echo text >"$WORK/broken/libcrypto.so.3"
alike "another libcurl in LD_LIBRARY_PATH" "$LIB" env LD_LIBRARY_PATH="$WORK/other" "${reads[@]}"
alike "a library that is none in LD_LIBRARY_PATH" "$LIB" env LD_LIBRARY_PATH="$WORK/broken" "${reads[@]}"

# ---- programs without glibc's loader ----
cat >"$WORK/list.c" <<'C'
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
  if (argc > 2) { execv(argv[1], argv + 1); return 3; }
  DIR *d = opendir(argv[1]);
  for (struct dirent *e; d && (e = readdir(d));) puts(e->d_name);
  return !d;
}
C
musl-gcc -static -o "$WORK/static" "$WORK/list.c" && musl-gcc -o "$WORK/musl" "$WORK/list.c" && gcc -o "$WORK/glibc" "$WORK/list.c"
ranked 1 "$LIB" "$WORK/glibc" "$D/a" | sort >"$WORK/want"
verdict "a share of a directory" "$([ "$(wc -l <"$WORK/want")" -lt 20 ] || shown cat "$WORK/want")"
ranked 1 "$LIB" "$WORK/static" "$WORK/glibc" "$D/a" 2>&1 | sort >"$WORK/got"; same "started by a static program" "$WORK/want" "$WORK/got"
ranked 1 "$LIB" /bin/busybox sh -c '"$0" "$1"' "$WORK/glibc" "$D/a" 2>&1 | sort >"$WORK/got"; same "started by a static shell" "$WORK/want" "$WORK/got"
ranked 1 "$LIB" "$WORK/musl" "$D/a" >"$WORK/out" 2>"$WORK/err"; got=$?
verdict "a program of musl's does not start, and says why" "$([ $got = 127 ] && [ ! -s "$WORK/out" ] && grep -q "$LIB: .*symbol not found" "$WORK/err" || shown cat "$WORK/err"; [ $got = 127 ] || echo "status $got")"
finish
