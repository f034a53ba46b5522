#!/bin/bash
# SPDX-License-Identifier: MIT
# What is wrong is said, with the variable or the path, in bounded time; nothing else breaks; and
# once it is put right the next run works.
. "$(dirname "$0")/lib.bash"
in_namespace
program dataset "$LIB"
D=$WORK/data; mkdir -p "$D/sub" "$WORK/other"
touch "$D"/{1..6} "$D"/sub/{1..5} "$WORK"/other/{1..4}
lib=$LIB
cache=$WORK/cache
cd "$WORK" || exit 2

# run VARIABLE=VALUE... -- COMMAND...; -VARIABLE: without it. EXEC=exec: in this shell's place
run() {
  local vars=(SHARD_DATASET="$D" SHARD_RANK=0 SHARD_SIZE=2 SHARD_CACHE_DIR="$cache" SHARD_TIMEOUT=20)
  local v kept unset=()
  while [ "$1" != -- ]; do
    case $1 in -*) unset+=("${1#-}") ;; *) vars+=("$1") ;; esac; shift
  done; shift
  for v in "${unset[@]}"; do
    kept=(); for e in "${vars[@]}"; do [[ $e == "$v="* ]] || kept+=("$e"); done; vars=("${kept[@]}")
  done
  ${EXEC:-} timeout 300 env "${unset[@]/#/--unset=}" LD_PRELOAD="$lib" "${vars[@]}" "$@"
}
# good NAME: both ranks together see everything
good() {
  local r
  for r in 0 1; do lib=$LIB run SHARD_RANK=$r -- find "$D" -type f; done >"$WORK/out" 2>"$WORK/err"
  verdict "$1: the next run works" "$(cat "$WORK/err"; sort "$WORK/out" | diff - <(find "$D" -type f | sort) | head -3)"
}
# bad NAME 'WORD|WORD' VARIABLE=VALUE...: listing the dataset fails, in bounded time (run), and stderr
# has one of the words in a line of ours; other directories are listed.
bad() {
  local name=$1 words=$2 got why=; shift 2
  run "$@" -- ls "$D" >"$WORK/out" 2>"$WORK/err"; got=$?
  [ $got = 2 ] || why+="status $got. "
  [ -s "$WORK/out" ] && why+="lists $(cat "$WORK/out"). "
  grep '^libshard: ' "$WORK/err" | grep -qE -- "$words" || why+="says $(cat "$WORK/err"). "
  [ "$(grep -c '^libshard: ' "$WORK/err")" = 1 ] || why+="says it $(grep -c '^libshard: ' "$WORK/err") times. "
  run "$@" -- ls "$WORK/other" 2>/dev/null | cmp -s - <(ls "$WORK/other") || why+="other directories fail. "
  verdict "$name" "$why"
}

# Variables
for v in DATASETS=/x RNAK=1 SIZES=2 STRATEGI=range INCLUDES=x LISTNIG=x CACHEDIR=/x TIMEOUTS=1 \
  ADAPTOR=off LOGS=info VIEWS=shard SEDE=1 EPCH=1; do
  bad "misspelt SHARD_${v%%=*}" "SHARD_${v%%=*}" "SHARD_$v"
done
for v in VIEW=shrad STRATEGY=hsah SEED=x SEED=-1 EPOCH=never EPOCH=1.5 WINDOW=0 TIMEOUT=soon TIMEOUT=0 ADAPTER=yes LOG=loud RANK=one RANK=2 SIZE=0 \
  SIZE=-1 RANK= SIZE= INCLUDE= LISTING= CACHE_DIR= CACHE_DIR=relative VIEW=; do
  bad "SHARD_$v" "SHARD_${v%%=*}" "SHARD_$v"
done
bad "long SHARD_INCLUDE" SHARD_INCLUDE SHARD_INCLUDE="$(printf '%02000d')"
run SHARD_DATASET=s3://bucket/a:other -- sh -c 'ls "$1"' - "$WORK/other" >"$WORK/out" 2>"$WORK/err"; got=$?
verdict "a fault is one in children, too" "$([ $got = 2 ] && [ ! -s "$WORK/out" ] && grep -q 'SHARD_DATASET' "$WORK/err" || echo "status $got, $(cat "$WORK/out" "$WORK/err")")"
run SHARD_DATASET=s3:/bucket -- sh -c 'ls "$1"' - "$WORK/other" >"$WORK/out" 2>"$WORK/err"
verdict "a slash that is missing: in children, too, by one line" "$(grep -c . "$WORK/err" | grep -qx 1 && grep -q "SHARD_DATASET='s3:/bucket'" "$WORK/err" || shown cat "$WORK/err")"
bad "no rank" "SHARD_RANK" -SHARD_RANK -SHARD_SIZE
mkdir "$WORK/gone"
(cd "$WORK/gone" && rmdir ../gone && run SHARD_DATASET=data -- ls "$D" >"$WORK/out" 2>"$WORK/err")
verdict "a relative dataset, and no working directory" "$([ ! -s "$WORK/out" ] && grep -q "SHARD_DATASET='data': the working directory has no path" "$WORK/err" || shown cat "$WORK/out" "$WORK/err")"
bad "no size" "SHARD_SIZE" -SHARD_SIZE
bad "launcher's rank too large" OMPI_COMM_WORLD_RANK -SHARD_RANK -SHARD_SIZE OMPI_COMM_WORLD_RANK=4 OMPI_COMM_WORLD_SIZE=4
run -SHARD_DATASET SHARD_VEIW=shard -- ls "$D" >"$WORK/out" 2>"$WORK/err"
verdict "misspelt, no dataset: nothing is said" "$(cat "$WORK/err"; ls "$D" | diff - "$WORK/out")"
run -SHARD_DATASET SHARD_DATSET="$D" -- ls "$D" >"$WORK/out" 2>"$WORK/err"
verdict "misspelt SHARD_DATASET: said" "$(grep -q 'SHARD_DATSET.*SHARD_DATASET' "$WORK/err" || shown cat "$WORK/err")"
run SHARD_VIEW=off SHARD_STRATEGY=hsah -- ls "$D" >"$WORK/out" 2>&1
verdict "SHARD_VIEW=off silences" "$(ls "$D" | diff - "$WORK/out")"
verdict "no cache made" "$(ls "$cache" 2>/dev/null)"
run SHARD_VEIW=shard SHARD_SEDE=1 -- ls "$D" >"$WORK/out" 2>"$WORK/err"
verdict "two misspelt: one line" "$(grep -c "SHARD_VEIW.*SHARD_SEDE" "$WORK/err" | grep -vx 1)"
run SHARD_SERVICE_HOST=10.0.0.1 SHARD_PORT=tcp://10.0.0.1:80 SHARD_PORT_80_TCP=tcp://10.0.0.1:80 SHARD_INDEX= -- ls "$D" >"$WORK/out" 2>"$WORK/err"
verdict "another program's variables: nothing is said" "$(cat "$WORK/err"; [ -s "$WORK/out" ] || echo "nothing is listed")"
run SHARD_DATASET= -- ls "$D" >"$WORK/out" 2>"$WORK/err"
verdict "an empty SHARD_DATASET: said" "$(grep -q "^libshard: .*SHARD_DATASET is empty" "$WORK/err" || shown cat "$WORK/err")"
run SHARD_DATASET="$WORK/none" -- ls "$D" >"$WORK/out" 2>"$WORK/err"
verdict "dataset missing: said" "$(grep '^libshard' "$WORK/err" | grep -q "SHARD_DATASET.*none" || echo "says $(cat "$WORK/err")")"
run SHARD_DATASET="$D/1" -- ls "$D" >"$WORK/out" 2>"$WORK/err"
verdict "dataset a file: said" "$(grep '^libshard' "$WORK/err" | grep -q "SHARD_DATASET" || echo "says $(cat "$WORK/err")")"
run SHARD_DATASET="$(printf "$WORK/none%d:" {1..40})$D" -- ls "$D" >"$WORK/out" 2>"$WORK/err"
verdict "41 datasets: served, or said" "$(ls "$D" | cmp -s - "$WORK/out" && ! grep -qiE 'too many|more than|at most' "$WORK/err" && echo "the last is not served: $(cat "$WORK/err")")"
good "variables"

# SHARD_LISTING
L=$WORK/l; "$CTL" index "$D" -o "$L" >/dev/null
run SHARD_STRATEGY=range SHARD_LISTING="$L" SHARD_CACHE_DIR="$WORK/unused" -- find "$D" -type f >"$WORK/out" 2>"$WORK/err"
verdict "SHARD_LISTING is used" "$(cat "$WORK/err"; [ "$(wc -l <"$WORK/out")" = 5 ] || shown cat "$WORK/out"; ls "$WORK/unused" | grep -q held || echo "no copy")"
bad "listing missing" SHARD_LISTING SHARD_LISTING="$WORK/none"
bad "listing a directory" SHARD_LISTING SHARD_LISTING="$WORK/other"
bad "listing empty" SHARD_LISTING SHARD_LISTING=/dev/null
for n in 100 512 600 $(($(stat -c %s "$L") - 1)); do
  head -c "$n" "$L" >"$WORK/short"; bad "listing of $n bytes" SHARD_LISTING SHARD_LISTING="$WORK/short"
done
damage() { cp "$L" "$WORK/bad"; printf "$2" | dd of="$WORK/bad" bs=1 seek="$1" conv=notrunc 2>/dev/null; }
damage 40 '\377'; bad "listing's header damaged" SHARD_LISTING SHARD_LISTING="$WORK/bad"
damage 8 '\002'; bad "listing of version 2" "SHARD_LISTING.*version" SHARD_LISTING="$WORK/bad"
damage 635 '\377'; bad "listing's names damaged" "SHARD_LISTING='$WORK/bad'.* damaged" SHARD_LISTING="$WORK/bad"
mkdir "$WORK/far"; cp -r "$D" "$WORK/far/moved"; "$CTL" index "$WORK/far/moved" -o "$WORK/l2" >/dev/null
run SHARD_STRATEGY=range SHARD_LISTING="$WORK/l2" -- find "$D" -type f >"$WORK/out" 2>"$WORK/err"
verdict "listing of another directory: not used" "$([ "$(wc -l <"$WORK/out")" = 5 ] || shown cat "$WORK/out")"
verdict "listing of another directory: said" "$(grep -q SHARD_LISTING "$WORK/err" || echo "says nothing")"
touch "$D/7"; bad "listing of a directory that changed" "SHARD_LISTING.*$D" SHARD_LISTING="$L"
"$CTL" index "$D" -o "$L" >/dev/null
if setpriv --reuid 65534 --clear-groups test -r "$LIB" 2>/dev/null; then
  cp "$L" "$WORK/secret"; chmod 600 "$WORK/secret"; mkdir "$WORK/theirs"; chown 65534 "$WORK/theirs"
  run SHARD_CACHE_DIR="$WORK/theirs" SHARD_LISTING="$WORK/secret" -- setpriv --reuid 65534 --clear-groups ls "$D" >"$WORK/out" 2>"$WORK/err"; got=$?
  verdict "listing unreadable" "$([ $got = 2 ] && grep -q "SHARD_LISTING.*ermission" "$WORK/err" || echo "status $got, $(cat "$WORK/err")")"
else
  skip "listing unreadable" "cannot become another user"
fi
good "listings"

# A listing made with follow=1 does not serve follow=0.
mkdir "$WORK/followed" "$WORK/aside"; touch "$WORK/followed/1" "$WORK/aside/2"; ln -s ../aside "$WORK/followed/link"
"$CTL" index "$WORK/followed" -o "$WORK/lf" --options 'depth=2 follow=1' >/dev/null
SHARD_CACHE_DIR=$cache SHARD_LISTING=$WORK/lf "$WORK/dataset" "$WORK/followed" 'depth=2' >"$WORK/out" 2>"$WORK/err"
verdict "listing with links followed" "$([ ! -s "$WORK/out" ] && grep -q "lf' was made of .*follow=1.*; make it by shardctl index --options" "$WORK/err" || shown cat "$WORK/out" "$WORK/err")"

# SHARD_CACHE_DIR
bad "cache without parent" "SHARD_CACHE_DIR|$WORK/none" SHARD_CACHE_DIR="$WORK/none/cache"
bad "cache a file" "SHARD_CACHE_DIR|$WORK/l" SHARD_CACHE_DIR="$L"
bad "cache below a file" SHARD_CACHE_DIR SHARD_CACHE_DIR="$L/cache"
bad "cache too long" SHARD_CACHE_DIR SHARD_CACHE_DIR="/tmp/$(printf '%05000d')"
if [ "$(id -u)" = 0 ]; then
  mkdir "$WORK/foreign"; chown 65534 "$WORK/foreign"
  bad "cache of another user" SHARD_CACHE_DIR SHARD_CACHE_DIR="$WORK/foreign"
fi
# Others could put files there.
mkdir "$WORK/open"
for mode in 0777 2770 0720 0702 0775; do
  chmod $mode "$WORK/open"
  bad "cache of mode $mode" "SHARD_CACHE_DIR.*|others may write to.*$WORK/open.*chmod" SHARD_CACHE_DIR="$WORK/open"
  verdict "cache of mode $mode: nothing made" "$(ls "$WORK/open")"
done
# Where all users have files, nobody else gets at those in a folder of one's own.
chmod g-s "$WORK/open"; chmod 1777 "$WORK/open"; own=$WORK/open/libshard-$(id -u)
cache=$WORK/open good "cache among others' files"
verdict "cache among others' files is private" "$([ "$(stat -c %a "$own")" = 700 ] && [ "$(ls "$WORK/open")" = "${own##*/}" ] || shown ls -laR "$WORK/open")"
verdict "cache among others' files: shardctl sees it" "$(SHARD_CACHE_DIR=$WORK/open "$CTL" cache ls | grep -q "$own" || SHARD_CACHE_DIR=$WORK/open "$CTL" cache ls)"
chmod 750 "$own"; bad "cache among others' files, not private" "SHARD_CACHE_DIR|chmod 700" SHARD_CACHE_DIR="$WORK/open"
rm -r "$own"; ln -s ../other "$own"; bad "cache among others' files, a link" "SHARD_CACHE_DIR|not a directory" SHARD_CACHE_DIR="$WORK/open"
if [ "$(id -u)" = 0 ]; then
  rm "$own"; mkdir -m 700 "$own"; chown 65534 "$own"
  bad "cache among others' files, another user's" "belongs to another user" SHARD_CACHE_DIR="$WORK/open"
  rm -r "$own"; ln -s "$WORK/open/cache" "$WORK/open/link"; mkdir -m 700 "$WORK/open/cache"; chown -h 65534 "$WORK/open/link"
  bad "cache by another user's link" "belongs to another user" SHARD_CACHE_DIR="$WORK/open/link"
  bad "the same, and a slash" "belongs to another user" SHARD_CACHE_DIR="$WORK/open/link//"
  # Another user's lock, and what others may write to, in a directory that has been made private since.
  rm -rf "$cache"; run SHARD_JOB=lock -- ls "$D" >/dev/null; listing=$(basename "$cache"/*.named.listing); rm "$cache/$listing"
  : >"$cache/${listing%.named*}.lock"; chown 65534 "$cache"/*.lock
  bad "another user's lock" "$cache/.*[.]lock.*belongs to user 65534" SHARD_JOB=lock
  rm "$cache"/*.lock; good "another user's lock"
fi
umask 0; rm -rf "$cache"; run -- ls "$D" >/dev/null; umask 022
verdict "umask 0: nobody else may write" "$(find "$cache" -perm /022 ! -type l)"
find "$cache" -type f -delete
umask 0777; run SHARD_JOB=umask -- ls "$D" >/dev/null 2>&1; umask 022
verdict "umask 0777: the next process can open it" "$(find "$cache" -type f ! -perm 600; ls "$cache" | grep -q named || echo none)"
chmod 666 "$cache"/*.named.listing; bad "a listing that others may write to" "others may write to it .mode 666.*; remove it" SHARD_JOB=umask
for f in "$cache"/*.named.listing; do rm "$f"; mkfifo "$f"; done
bad "a pipe in a listing's place" "named.listing.*no regular file; remove it" SHARD_JOB=umask
rm "$cache"/*.named.listing; good "the cache's files"
rm -rf "$cache"; mkdir -m 700 "$cache"
# It would change the dataset while it is listed: the ranks would not agree.
bad "cache inside the dataset" SHARD_CACHE_DIR SHARD_CACHE_DIR="$D/.cache"
bad "cache below the dataset" SHARD_CACHE_DIR SHARD_CACHE_DIR="$D/sub/cache"
ln -s data/sub "$WORK/link_to_sub"
bad "cache below the dataset by a link" SHARD_CACHE_DIR SHARD_CACHE_DIR="$WORK/link_to_sub/cache"
rm -rf "$D/.cache" "$D/sub/cache"
good "cache inside the dataset"
mkdir "$WORK/ro" "$WORK/full"
if mount -t tmpfs -o size=64k,mode=755 none "$WORK/full" 2>/dev/null; then
  mount -t tmpfs -o ro,mode=755 none "$WORK/ro"
  bad "cache read-only" SHARD_CACHE_DIR SHARD_CACHE_DIR="$WORK/ro"
  mkdir "$WORK/big"; (cd "$WORK/big"; head -c 60000 /dev/urandom | od -An -v -tx1 -w100 | tr -d ' ' | xargs touch)
  OLD=$D D=$WORK/big
  bad "cache full" "SHARD_CACHE_DIR" SHARD_CACHE_DIR="$WORK/full"
  verdict "cache full: ENOSPC" "$(grep -q 'No space left on device$' <(tail -1 "$WORK/err") || shown cat "$WORK/err")"
  verdict "cache full: nothing left" "$(ls "$WORK/full" | grep -vE 'lock$|^ranks$')"
  good "cache full"
  D=$OLD
  own=libshard-$(id -u)
  own_tmp; mount -t tmpfs -o mode=1777 none /dev/shm
  mkdir -m 700 /tmp/real; ln -s real "/tmp/$own"
  bad "default cache a link" "cache directory '/tmp/$own' is not a directory; set SHARD_CACHE_DIR to" -SHARD_CACHE_DIR
  rm "/tmp/$own"; mkdir -m 755 "/tmp/$own"
  bad "default cache open to others" "'/tmp/$own' is open to others; chmod 700 .* or set SHARD_CACHE_DIR to" -SHARD_CACHE_DIR
  rmdir "/tmp/$own"; touch "/tmp/$own"
  bad "default cache a file" "'/tmp/$own' is not a directory; set SHARD_CACHE_DIR to" -SHARD_CACHE_DIR
  rm "/tmp/$own"
  # default NAME FOLDER: the cache is made there, open to this user alone, and found there by shardctl
  default() {
    run -SHARD_CACHE_DIR -- ls "$D" >/dev/null 2>"$WORK/err"
    verdict "$1" "$(cat "$WORK/err"; [ "$(stat -c %a "$2/$own")" = 700 ] || shown ls -ld "$2"/*)"
    verdict "$1: shardctl" "$(env -u SHARD_CACHE_DIR "$CTL" cache ls | grep -qF "in $2/$own" || shown env -u SHARD_CACHE_DIR "$CTL" cache ls)"
  }
  default "default cache is private" /tmp
  verdict "default cache: nothing in /dev/shm" "$(ls /dev/shm)"
  mount -o remount,ro /tmp; default "default cache, /tmp read-only since" /dev/shm
  mount -o remount,rw /tmp; rm -r "/tmp/$own" "/dev/shm/$own"; mount -o remount,ro /tmp
  verdict "default cache, /tmp read-only: which it would be" "$(env -u SHARD_CACHE_DIR "$CTL" doctor 2>&1 | grep -qE "cache .*'?/dev/shm" || shown env -u SHARD_CACHE_DIR "$CTL" doctor)"
  default "default cache, /tmp read-only" /dev/shm
  rm -r "/dev/shm/$own"; mount -o remount,ro /dev/shm
  bad "default cache, no folder to write to" "'/dev/shm/$own': Read-only file system; nor one in /tmp: Read-only.*SHARD_CACHE_DIR to" -SHARD_CACHE_DIR
  no_own_tmp; umount /dev/shm; cd "$WORK" || exit 2
else
  skip "cache full, read-only" "cannot mount"
fi

# A damaged listing in the cache.
rm -rf "$cache"; run SHARD_JOB=cut -- ls "$D" >"$WORK/want"
for f in "$cache"/*.listing; do head -c 700 "$f" >"$WORK/short"; cat "$WORK/short" >"$f"; done
run SHARD_JOB=cut -- ls "$D" >"$WORK/out" 2>&1; same "a truncated listing in the cache is made anew" "$WORK/want" "$WORK/out"
rm -rf "$cache"; (ulimit -n 6; run -- ls "$D" >"$WORK/out" 2>"$WORK/err")
verdict "so few descriptors that none is free above 9" "$([ ! -s "$WORK/out" ] || echo lists; grep -q 'Too many open files' "$WORK/err" || shown cat "$WORK/err")"
rm -rf "$cache"

# Builders that fail
mkdir "$WORK/fake"; cp "$LIB" "$WORK/fake"; lib=$WORK/fake/libshard.so
fake() { rm -rf "$cache"; printf '#!/bin/bash\n%s\n' "$1" >"$WORK/fake/shardctl"; chmod +x "$WORK/fake/shardctl"; }
left() { verdict "$1: nothing left" "$(ls "$cache" | grep -vE '\.(lock|listing|current)$|^ranks$'; ls "$cache" | grep '\.new')"; good "$1"; }
bad "no shardctl" "shardctl.*$WORK/fake"; good "no shardctl"
fake 'kill -9 $$';                        bad "builder killed" "killed by signal 9.*$D.*memory may have run out.*SHARD_BUILD_MEMORY"; left "builder killed"
fake 'kill -SEGV $$';                     bad "builder crashed" "killed by signal 11.*$D'; listing"; left "builder crashed"
fake 'echo no luck at all >&2; exit 1';   bad "builder fails" "no luck at all"; left "builder fails"
fake 'exit 1';                            bad "builder fails silently" "$D|shardctl"; left "builder fails silently"
fake 'exit 0';                            bad "builder writes nothing" "$cache|$D"; left "builder writes nothing"
fake 'head -c 5000 /dev/urandom >"$3"';   bad "builder writes garbage" "$cache|$D"; left "builder writes garbage"
fake 'head -c 5000 /dev/zero >"$3"; exit 1'; bad "builder writes and fails" "shardctl"; left "builder writes and fails"
fake 'seq 100000 >&2; exit 1';            bad "builder says too much" "1"; left "builder says too much"
fake 'echo half >"$3.tmp.$$"; exec sleep 1000'; bad "builder hangs" "SHARD_TIMEOUT" SHARD_TIMEOUT=1; left "builder hangs"
fake 'exec sleep 1000 2>&-';              bad "builder hangs, silent" "SHARD_TIMEOUT" SHARD_TIMEOUT=1; left "builder hangs, silent"
fake 'kill -STOP $$';                     bad "builder stopped" "SHARD_TIMEOUT" SHARD_TIMEOUT=1; left "builder stopped"
rm -rf "$cache"; printf 'no program' >"$WORK/fake/shardctl"; bad "builder no program" "shardctl"; good "builder no program"

# Which shardctl is run: that of the library as it was loaded, and nobody else's.
P=$WORK/places; ran=$P/ran
mkdir -p "$P"/{mine,evil}/build "$P"/alone/{x,bin}; cp "$LIB" "$P/mine/build"; cp "$LIB" "$P/evil/build"; cp "$LIB" "$P/alone/x"
cp "$CTL" "$P/mine/build"
evil() { rm -f "$ran"; printf '#!/bin/sh\n: >"%s"\nexec "%s" "$@"\n' "$ran" "$CTL" >"$1"; chmod 755 "$1"; }
evil "$P/evil/build/shardctl"; evil "$P/alone/bin/shardctl"
# whose NAME FOLDER LIBRARY MESSAGE: empty: the names are there
whose() {
  rm -rf "$cache"
  (lib=$3; cd "$2" && run -- perl -e 'chdir $ARGV[1]; opendir(D, $ARGV[0]) and print map {"$_\n"} sort grep {!/^\./} readdir D' "$D" "$P/evil") >"$WORK/out" 2>"$WORK/err"
  verdict "$1" "$([ -e "$ran" ] && echo "another's was run"; if [ -n "$4" ]; then grep -q "$4" "$WORK/err"; else [ -s "$WORK/out" ] && [ ! -s "$WORK/err" ]; fi || shown cat "$WORK/out" "$WORK/err")"
}
whose "a relative preload, and a chdir" "$P/mine" ./build/libshard.so ""
whose "a preload below /proc/self, and a chdir" "$P/mine" /proc/self/cwd/build/libshard.so ""
whose "../bin beside no lib" / "$P/alone/x/libshard.so" "shardctl was not found beside libshard.so ('$P/alone/x')"
"$CTL" index "$D" -o "$P/listing" >/dev/null 2>&1
lib=$P/alone/x/libshard.so run SHARD_LISTING="$P/listing" -- ls "$D" 2>"$WORK/err"
verdict "... with a listing: EIO" "$(grep -q 'Input/output error$' "$WORK/err" || shown cat "$WORK/err")"
for place in lib lib64 "lib/$(uname -m)-linux-gnu"; do
  mkdir -p "$P/good/bin" "$P/good/$place"; cp "$CTL" "$P/good/bin"; cp "$LIB" "$P/good/$place"
  whose "installed in $place" / "$P/good/$place/libshard.so" ""
done
chmod o+w "$P/good/bin/shardctl"; whose "shardctl that others can write to" / "$P/good/lib/libshard.so" "others can write to it; chmod go-w"
chmod 775 "$P/good/bin/shardctl"; whose "shardctl of a group" / "$P/good/lib/libshard.so" "others can write to it"
chmod 775 "$P/good/lib/libshard.so"; whose "both of a group" / "$P/good/lib/libshard.so" ""
chmod 755 "$P/good/bin/shardctl"
if [ "$(id -u)" = 0 ]; then
  chown 65534 "$P/good/bin/shardctl"; whose "another user's shardctl" / "$P/good/lib/libshard.so" "it belongs to user 65534"
  chown 65534 "$P/good/lib/libshard.so"; whose "another user's library and shardctl" / "$P/good/lib/libshard.so" ""
else
  skip "another user's shardctl" "not root"
fi
rm -rf "$cache" "$P"

# What a waiter says; a host that dies while the builder works.
fake 'echo $$ >"'"$WORK"'/builds"; exec sleep 1000'
EXEC=exec run SHARD_JOB=waits SHARD_TIMEOUT=1000 -- ls "$D" >/dev/null 2>&1 & first=$!
await "a builder" test -s "$WORK/builds"
bad "another builds" "SHARD_TIMEOUT" SHARD_JOB=waits SHARD_TIMEOUT=1; kill $first; wait $first 2>/dev/null; kill "$(cat "$WORK/builds")" 2>/dev/null
rm "$WORK/builds"; fake ': >"'"$WORK"'/builds"; sleep 1; exec "'"$CTL"'" "$@"'
env SHARD_JOB=killed SHARD_DATASET="$D" SHARD_RANK=0 SHARD_SIZE=2 SHARD_CACHE_DIR="$cache" LD_PRELOAD="$lib" ls "$D" >/dev/null 2>&1 & first=$!
await "a builder" test -e "$WORK/builds"; kill -9 $first; wait $first 2>/dev/null
run SHARD_JOB=killed -- ls "$D" >"$WORK/out" 2>"$WORK/err"
verdict "host killed while building: the next one waits, and builds" "$(cat "$WORK/err"; [ "$(wc -l <"$WORK/out")" -ge 3 ] || shown cat "$WORK/out")"
verdict "host killed while building: nothing left" "$(ls "$cache" | grep '\.new')"

# Hosts that ignore or reap children
fake 'echo no luck at all >&2; exit 1'
for sig in '$SIG{CHLD} = "IGNORE"' '$SIG{CHLD} = sub { 1 while waitpid(-1, 1) > 0 }'; do
  run -- perl -e "$sig"'; opendir(D, $ARGV[0]) or exit 2; print readdir D' "$D" >"$WORK/out" 2>"$WORK/err"; got=$?
  verdict "builder fails, $sig" "$([ $got = 2 ] && grep -q 'no luck' "$WORK/err" || echo "status $got, $(cat "$WORK/err")")"
  rm -rf "$cache"
done
rm -rf "$cache"
lib=$LIB
run -- perl -e '$SIG{CHLD} = "IGNORE"; opendir(D, $ARGV[0]) or die; print scalar(() = readdir D)' "$D" >"$WORK/out" 2>"$WORK/err"
verdict "built though children are ignored" "$(cat "$WORK/err"; [ -s "$WORK/out" ] || echo nothing)"

umount "$WORK/ro" "$WORK/full" 2>/dev/null
finish
