#!/bin/bash
# SPDX-License-Identifier: MIT
# What another user of the node can do, who may write where all users may, owns a dataset or a folder of listings, or starts
# a program that has more rights than he (libshard.7, SECURITY). `me` runs what is attacked, `foe` attacks.
. "$(dirname "$0")/lib.bash"
if [ "$(id -u)" != 0 ] || ! setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null; then
  skip_all "cannot become another user"
fi
in_namespace
needs strace gcc
unset SHARD_CACHE_DIR # each check names its own, or has the default
me() { env -u LD_PRELOAD setpriv --reuid 4242 --regid 4242 --clear-groups env "$@"; }
foe() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
mkdir -m 755 "$WORK/bin"; cp "$LIB" "$CTL" "$WORK/bin"; ln -s libshard.so "$WORK/bin/libshard.so.1"; lib=$WORK/bin/libshard.so; ctl=$WORK/bin/shardctl
D=$WORK/data; mkdir -p "$D/sub"; touch "$D"/{1..6} "$D"/sub/{1..5}; find "$D" -type f | sort >"$WORK/all"
mkdir -m 1777 "$WORK/tmp"; mkdir -m 777 "$WORK/open"; mkdir -m 700 "$WORK/mine"; chown 4242 "$WORK/mine"
cache=$WORK/mine/cache; mkdir -m 700 "$cache"; chown 4242 "$cache"
precious() { rm -rf "$WORK/mine/precious"; echo precious >"$WORK/mine/precious"; chown 4242 "$WORK/mine/precious"; }
precious

# ranks VARIABLE=VALUE...: what both ranks find, sorted, and what is said
ranks() {
  local r
  for r in 0 1; do
    me SHARD_DATASET="$D" SHARD_RANK=$r SHARD_SIZE=2 SHARD_TIMEOUT=100 ${cache:+SHARD_CACHE_DIR="$cache"} "$@" LD_PRELOAD="$lib" timeout 300 find "$D" -type f
  done 2>"$WORK/err" | sort >"$WORK/out"
}
# whole NAME: both found everything, and nothing is said. refused NAME WORDS: nobody found a thing, and it is said why
whole() { verdict "$1" "$(diff "$WORK/all" "$WORK/out" | head -3; head -3 "$WORK/err"; unharmed)"; }
refused() { verdict "$1" "$(cat "$WORK/out"; grep '^libshard: ' "$WORK/err" | grep -qE -- "$2" || shown cat "$WORK/err"; unharmed)"; }
unharmed() { [ "$(cat "$WORK/mine/precious")" = precious ] || echo "a file was overwritten"; }
ranks; whole "nobody attacks"

# ---- where all users have files ----
if own_tmp; then
  own=/tmp/libshard-4242
  for what in "mkdir -m 700 $own" "mkdir -m 777 $own" "ln -s $WORK/mine $own" "ln -s $WORK/tmp $own" "touch $own" "mkfifo $own"; do
    foe $what; cache= ranks; refused "/tmp: a foe's ${what%% /*}" "cache directory '$own'.*set SHARD_CACHE_DIR to"
    verdict "/tmp: a foe's ${what%% /*}: nothing is put there" "$(find "$own" "$WORK/tmp" -mindepth 1; ls "$WORK/mine" | grep -vxE 'cache|precious')"
    rm -rf "$own"
  done
  cache= ranks; whole "/tmp: when it is gone"
  verdict "/tmp: nobody else gets in" "$(foe ls "$own" 2>&1 | grep -v 'Permission denied'; stat -c %a "$own" | grep -vx 700)"
  # Who may make no file in /tmp.
  rm -rf "$own"; chmod 755 /tmp; mount -t tmpfs -o mode=1777 none /dev/shm
  cache= ranks; whole "/tmp of root's alone"
  verdict "/tmp of root's alone: the cache is in /dev/shm" "$(stat -c %a /dev/shm/libshard-4242 | grep -vx 700)"
  umount /dev/shm; chmod 1777 /tmp
  # A folder of another user's, where all users may write, is no common one, unless nobody can tell whose it is.
  foe mkdir -m 1777 "$WORK/tmp/common"
  cache=$WORK/tmp/common ranks; refused "a foe's folder for all users" "'$WORK/tmp/common' belongs to another user"
  rm -rf "$WORK/tmp/common"
  if me unshare -rm true 2>/dev/null; then
    outside=$(declare -f me)
    me() { setpriv --reuid 4242 --regid 4242 --clear-groups env -u LD_PRELOAD unshare -rm env "$@"; }
    for cache in "" /tmp; do
      ranks; whole "a user namespace${cache:+, SHARD_CACHE_DIR=$cache}"
      verdict "a user namespace${cache:+, SHARD_CACHE_DIR=$cache}: the cache is in /tmp" "$(stat -c %u:%a /tmp/libshard-0 2>&1 | grep -vx 4242:700)"
      rm -rf /tmp/libshard-0
    done
    cache=$WORK/mine/cache; eval "$outside"
  else
    skip "a user namespace" "this machine has none for users"
  fi
  no_own_tmp
else
  skip "/tmp" "cannot mount"
fi
# A folder above the cache's that others may write to: whoever renames it cannot make libshard read or write his own.
mkdir -m 777 "$WORK/open/above"; mkdir -m 700 "$WORK/open/above/cache"; chown 4242 "$WORK/open/above/cache"
cat >"$WORK/swap.py" <<'P'
import os, sys, time
above = sys.argv[1]; os.chdir(above)
os.mkdir("foe", 0o755)
end = time.monotonic() + 3
while time.monotonic() < end:
    os.rename("cache", "his"); os.rename("foe", "cache"); time.sleep(0.002)
    for name in os.listdir("cache"):
        os.unlink("cache/" + name)
        os.symlink(sys.argv[2], "cache/" + name)
    os.rename("cache", "foe"); os.rename("his", "cache"); time.sleep(0.002)
P
foe "$PYTHON" "$WORK/swap.py" "$WORK/open/above" "$WORK/mine/precious" & swapper=$!
why=
while kill -0 $swapper 2>/dev/null; do
  ranks SHARD_CACHE_DIR="$WORK/open/above/cache"
  why+=$(comm -13 "$WORK/all" "$WORK/out"; uniq -d "$WORK/out"; unharmed)
  [ "$(wc -l <"$WORK/out")" = 11 ] || grep -q '^libshard: ' "$WORK/err" || why+="$(wc -l <"$WORK/out") names, and nothing said "
done
wait $swapper
verdict "a cache that is swapped for a foe's" "$why"

# ---- statistics ----
S=$WORK/tmp/stats
for what in "touch $S" "ln -s $WORK/mine/precious $S" "mkfifo $S" "ln -s $WORK/none/there $S"; do
  foe $what
  ranks SHARD_STATS="$S"
  verdict "statistics: a foe's ${what%% /*} ${what##*/}" "$(diff "$WORK/all" "$WORK/out"; grep -q 'SHARD_STATS' "$WORK/err" || shown cat "$WORK/err"; unharmed)"
  rm -rf "$WORK"/tmp/*
done
foe mkdir -m 777 "$S"; ranks SHARD_STATS="$S"; whole "statistics: in a foe's folder"; rm -rf "$WORK"/tmp/*
ranks SHARD_STATS="$S"; whole "statistics: when it is gone"; rm -rf "$WORK"/tmp/*

# ---- listings of others ----
L=$WORK/open/listings; mkdir -m 1777 "$L"; "$CTL" index "$D" -o "$L/good.listing" >/dev/null
foe sh -c 'cd "$0"; mkfifo pipe.listing; ln -s /dev/zero zero.listing; ln -s /dev/tty tty.listing; ln -s . folder.listing; ln -s loop.listing loop.listing
  truncate -s 900G sparse.listing; head -c 700 good.listing >cut.listing; cat good.listing - >long.listing <good.listing; cp good.listing big.listing; truncate -s 800G big.listing' "$L"
for f in "$L"/{pipe,zero,loop,sparse,cut,long,big}.listing; do
  ranks SHARD_LISTING="$f"; refused "SHARD_LISTING: ${f##*/}" "SHARD_LISTING" # 800 GB would take more than ranks() has
done
# Another user's listing is believed: it names other files of the dataset, and none outside.
mkdir "$WORK/names"; printf '%s\n' 1 sub/2 >"$WORK/names/n"
"$CTL" index "$WORK/names/n" --root "$D" -o "$WORK/names/l" >/dev/null; chown 65534 "$WORK/names/l"
ranks SHARD_LISTING="$WORK/names/l"; printf '%s\n' "$D/1" "$D/sub/2" >"$WORK/want"; same "another user's listing chooses the files" "$WORK/want" "$WORK/out"
for name in ../mine/precious sub/../../x /etc/passwd a//b .; do
  printf '%s\n' 1 "$name" >"$WORK/names/n.txt"; chown 65534 "$WORK/names/n.txt"
  ranks SHARD_LISTING="$WORK/names/n.txt"; refused "a manifest that names '$name'" "n[.]txt"
done
# ---- the dataset's owner ----
# While it is listed, a directory becomes a link to what only its reader may see: once the root has been read.
cat >"$WORK/turn.c" <<'C'
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
long syscall(long number, ...) {
  static long (*real)(long, ...);
  static int turns;
  long a[6];
  va_list args;
  va_start(args, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(args, long);
  va_end(args);
  *(void **)&real = dlsym(RTLD_NEXT, "syscall");
  long n = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (number == SYS_getdents64 && n == 0 && turns++ == 0) {
    if (rename(getenv("TURN"), getenv("ASIDE")) != 0 || symlink(getenv("TO"), getenv("TURN")) != 0) abort();
  }
  return n;
}
C
gcc -D_GNU_SOURCE -include stdio.h -shared -fPIC -o "$WORK/bin/turn.so" "$WORK/turn.c" -ldl
T=$WORK/turning; mkdir -m 700 "$WORK/mine/private"; touch "$WORK/mine/private/secret"; chown -R 4242 "$WORK/mine/private"
for deep in sub sub/deep; do
  mkdir -p "$T/sub/deep"; touch "$T/1" "$T/sub/2" "$T/sub/deep/3"; chown -R 4242 "$T"
  me LD_PRELOAD="$WORK/bin/turn.so" TURN="$T/$deep" ASIDE="$T/aside" TO="$WORK/mine/private" "$ctl" index "$T" -o "$WORK/mine/l" >"$WORK/out" 2>&1; got=$?
  verdict "a link in a directory's place: $deep" "$("$CTL" ls "$WORK/mine/l" 2>/dev/null | grep secret; [ -L "$T/$deep" ] || echo "not turned"; [ $got = 0 ] || grep -q changing "$WORK/out" || shown cat "$WORK/out")"
  rm -rf "$T" "$WORK/mine/l"
done
# Its files are not opened: neither a pipe, which would stop a reader, nor any other.
mkfifo "$D/sub/pipe"; find "$D" ! -type d | sort >"$WORK/all"
me SHARD_DATASET="$D" SHARD_RANK=0 SHARD_SIZE=1 SHARD_CACHE_DIR="$cache" LD_PRELOAD="$lib" strace -f -qq -e trace=open,openat,openat2,open_by_handle_at,creat -o "$WORK/tmp/opens" find "$D" ! -type d 2>&1 | sort >"$WORK/out"
verdict "no file of a dataset is opened" "$(diff "$WORK/all" "$WORK/out"; grep -E '"([^"]*/)?([1-6]|pipe)"' "$WORK/tmp/opens"; grep -q shardctl "$WORK/tmp/opens" || grep -qE '"sub"' "$WORK/tmp/opens" || echo "nothing was traced")"
rm "$D/sub/pipe"; find "$D" -type f | sort >"$WORK/all"

# ---- a program that has more rights than who starts it ----
cat >"$WORK/list.c" <<'C'
#include <dirent.h>
#include <stdio.h>
int main(int argc, char **argv) {
  DIR *d = opendir(argv[argc - 1]);
  for (struct dirent *e; d && (e = readdir(d));) puts(e->d_name);
  return !d;
}
C
gcc -o "$WORK/bin/list" "$WORK/list.c"
gcc -o "$WORK/bin/linked" "$WORK/list.c" -Wl,--no-as-needed "$lib" -Wl,-rpath,"$WORK/bin"
# asks NAME PROGRAM: as the foe, with what he likes in the environment: does it read that?
asks() {
  local said
  for s in mine tmp; do
    foe env SHARD_DATASET="$D" SHARD_RANK=0 SHARD_SIZE=2 SHARD_STATS="$WORK/$s/stats" SHARD_CACHE_DIR="$WORK/$s/other" SHARD_VEIW=x \
      "$WORK/bin/$2" "$D" >"$WORK/out" 2>"$WORK/err"
    said=$(cat "$WORK/err"; ls "$WORK/mine" "$WORK/tmp" | grep -E 'stats|other'; diff <(ls -a "$D") <(sort "$WORK/out"))
    if [ -u "$WORK/bin/$2" ]; then verdict "$1 reads no variable" "$said"; else verdict "$1 reads them" "$(grep -q SHARD_VEIW <<<"$said" || shown cat "$WORK/err")"; fi
    rm -rf "$WORK"/tmp/* "$WORK"/mine/{stats,other}
  done
}
cp -a /etc "$WORK/etc"; echo "$lib" >"$WORK/etc/ld.so.preload"
asks "a program that is linked" linked
for p in list linked; do cp "$WORK/bin/$p" "$WORK/bin/set$p"; chown 4242 "$WORK/bin/set$p"; chmod 4755 "$WORK/bin/set$p"; done
if foe env LD_SHOW_AUXV=1 "$WORK/bin/setlist" / 2>/dev/null | grep -q AT_SECURE.*0; then
  skip "a set-uid program" "the file system is mounted nosuid"
else
  asks "a set-uid program that is linked" setlinked
  if mount --bind "$WORK/etc" /etc 2>/dev/null; then
    asks "a program, by /etc/ld.so.preload" list
    asks "a set-uid program, by /etc/ld.so.preload" setlist
    umount /etc
  else
    skip "/etc/ld.so.preload" "cannot mount"
  fi
fi
finish
