#!/bin/bash
# SPDX-License-Identifier: MIT
# SHARD_LISTING as a folder, with %d, and as several files; and how often a job of two hosts reads
# the directory, in each of the ways that libshard(7) has a table of.
. "$(dirname "$0")/lib.bash"
in_namespace
needs strace unshare
export SHARD_CACHE_DIR=$WORK/cache
T=$WORK/data/train V=$WORK/data/valid; mkdir -p "$T"/{a,b} "$V" "$WORK/l"
touch "$T"/{a,b}/{000..019}.npz "$T"/{1,2,3} "$V"/{000..008}.npz
cd "$WORK" || exit 2
names() { find "$@" -type f -printf '%p\n' | sort; }
names "$T" "$V" >bare

# ranks [VARIABLE=VALUE...]: what two ranks see of both datasets together; their errors in err
ranks() {
  local r
  : >err
  for r in 0 1; do
    env SHARD_DATASET="$T:$V" SHARD_RANK=$r SHARD_SIZE=2 "$@" LD_PRELOAD="$LIB" timeout 300 find "$T" "$V" -type f -printf '%p\n' 2>>err
  done | sort
}
# served NAME VARIABLE=VALUE...: both datasets, each name once, from what is given: the cache stays empty
served() {
  local name=$1; shift
  rm -rf cache; ranks "$@" >got
  verdict "$name" "$(diff bare got | head -3; cat err; ls cache 2>/dev/null)"
}
# refused NAME WORDS VARIABLE=VALUE...: calls fail, and say why
refused() {
  local name=$1 words=$2; shift 2
  rm -rf cache; ranks "$@" >got
  verdict "refused: $name" "$(grep "/valid/" got | head -2; grep -q -- "$words" err || shown cat err)"
}
"$CTL" index "$T" -o l/train.listing --quiet >/dev/null; "$CTL" index "$V" -o l/valid.listing --quiet >/dev/null
echo text >l/README; cp l/train.listing l/train.listing.tmp.Abcdef
served "a folder" SHARD_LISTING="$WORK/l"
served "a folder, by a relative path" SHARD_LISTING=l/
served "%d" SHARD_LISTING="$WORK/l/%d.listing"
served "several" SHARD_LISTING="$WORK/l/valid.listing:l/train.listing"
mkdir -p one/sub 'odd:%'; cp l/train.listing one/x.listing; cp l/valid.listing one/sub/; cp l/*.listing 'odd:%/'
served "a folder and a file" SHARD_LISTING="one:$WORK/one/sub/valid.listing"
served "a colon and a percent sign" SHARD_LISTING="$WORK/odd%:%%/%d.listing"
cd 'odd:%' || exit 2
ranks SHARD_LISTING=%d.listing:x/../train.listing >got
cd .. || exit 2
verdict "relative paths in a folder with both" "$(grep -q "$WORK/odd:%/x/../train.listing'.*No such" 'odd:%/err' || shown cat 'odd:%/err')"
ln -s "$V" link
cp l/valid.listing l/link.listing; env SHARD_DATASET="$WORK/link" SHARD_RANK=0 SHARD_SIZE=1 SHARD_LISTING="$WORK/l/%d.listing" LD_PRELOAD="$LIB" ls link >got 2>err
verdict "%d: the name that SHARD_DATASET has" "$(ls "$V" | diff - got; cat err)"
refused "two of a dataset" "two listings of '$V': '.*/l/[a-z]*.listing' and '.*/l/[a-z]*.listing'" SHARD_LISTING=l
rm l/link.listing
# A listing that is cut, or gets another one's bytes, while a process reads it.
B=$WORK/data/big; mkdir "$B" other
"$PYTHON" -c 'import random, sys
random.seed(1)
for k in range(15000):
    name = "%030x" % random.getrandbits(120)
    open("%s/%s" % (sys.argv[1], name), "w").close()
    open("other/" + name[::-1], "w").close()' "$B"
"$CTL" index "$B" -o big.listing --quiet >/dev/null; "$CTL" index other -o other.listing --quiet >/dev/null
ls -f "$B" | sort >bare.big
# changed NAME COMMAND: between the first name and the last; the names are right, and an error ends them
changed() {
  cp big.listing given.listing
  env SHARD_DATASET="$B" SHARD_RANK=0 SHARD_SIZE=1 SHARD_LISTING=given.listing LD_PRELOAD="$LIB" timeout 300 perl -e '
    opendir(D, $ARGV[0]) or die "$!"; print scalar(readdir D), "\n";
    system("env", "-u", "LD_PRELOAD", "sh", "-c", $ARGV[1]);
    while ($! = 0, defined($_ = readdir D)) { print "$_\n" } print STDERR $!{EIO} ? "EIO" : $!' "$B" "$2" >got 2>err; local status=$?
  verdict "$1" "$([ $status = 0 ] && [ "$(tail -c 3 err)" = "$3" ] || echo "status $status, $(cat err)"; [ -s got ] || echo "no names"; sort got | comm -23 - bare.big | head -3)"
}
changed "a listing that is cut" "cp l/valid.listing given.listing" EIO
changed "a listing that is emptied" ": >given.listing" EIO
changed "another one in its place" "cat other.listing 1<>given.listing >&1" EIO
changed "the end of another one" "tail -c +4097 other.listing | dd of=given.listing conv=notrunc bs=4096 seek=1 2>/dev/null" EIO
changed "a listing that is replaced" "cp other.listing new.listing; mv new.listing given.listing" ""
rm -rf "$B" other
refused "a file that is missing" "valid2.listing', for '.*No such file" SHARD_LISTING="l/train.listing:l/valid2.listing"
refused "two files of a dataset" "two listings of '$T': '.*one/x.listing' and '.*l/train.listing'" SHARD_LISTING="one/x.listing:l/train.listing"
refused "none in the folder" "'$WORK/one' has no listing of '$V'" SHARD_LISTING=one
refused "%d: missing" "valid.list', for '.*No such file" SHARD_LISTING=l/%d.list
mkdir swapped bad; cp l/train.listing swapped/valid.listing; cp l/train.listing swapped/train.listing
refused "%d: of another dataset" "has no listing of '$V'" SHARD_LISTING=swapped/%d.listing
cp l/train.listing bad; head -c 200 l/valid.listing >bad/valid.listing
refused "a damaged one in the folder" "bad/valid.listing'" SHARD_LISTING=bad
mkdir shared; refused "an empty folder" "no listing" SHARD_LISTING=shared
refused "first and several" "SHARD_LISTING_BUILD=first cannot tell" SHARD_LISTING_BUILD=first SHARD_LISTING=l/a:l/b
refused "first and no folder" "is no folder" SHARD_LISTING_BUILD=first SHARD_LISTING=none/

# first builds each, once; the next job finds them, with and without first.
for how in shared/ shared/%d.listing; do
  rm -f shared/*; ranks SHARD_LISTING_BUILD=first SHARD_LISTING=$how >got
  verdict "first: $how" "$(diff bare got | head -3; cat err; ls shared | wc -l | grep -qx 2 || shown ls shared)"
  served "then without first: $how" SHARD_LISTING=$how
done
cp l/train.listing shared/valid.listing
refused "first and %d: of another dataset" "shared/valid.listing' is of another dataset" SHARD_LISTING_BUILD=first SHARD_LISTING=shared/%d.listing
touch "$V/new"; names "$T" "$V" >bare
refused "stale" "'$V' has changed since" SHARD_LISTING=l
rm -f shared/*

# Passes over the directories by a job of two hosts, of two ranks each: reads of a directory that
# come to its end, all processes together. Each host has its own /dev/shm.
host() {
  unshare -m -u sh -c 'hostname host$0 && mount -t tmpfs tmpfs /dev/shm && for r in 0 1; do
    SHARD_RANK=$((2 * $0 + r)) LD_PRELOAD=$LIB find "$T" "$V" -type f -printf "%p\n" & done; wait' "$1"
}
export T V LIB; export -f host
# passes NAME WANTED VARIABLE=VALUE...: over both datasets; WANTED is what libshard(7) says of one
passes() {
  local name=$1 wanted=$2 dir count; shift 2
  rm -rf trace; mkdir trace
  env -u SHARD_CACHE_DIR SHARD_DATASET="$T:$V" SHARD_SIZE=4 SHARD_JOB="$name $RANDOM" "$@" timeout 300 \
    strace -ff -qq -y -e trace=getdents64 -o trace/of bash -c 'host 0 & host 1 & wait' 2>err | sort >got
  verdict "$name: each name once" "$(diff bare got | head -3; cat err)"
  for dir in "$T" "$T/a" "$V"; do
    count=$(cat trace/of.* | grep -c "<$dir>.* = 0\$")
    verdict "$name: $wanted passes over ${dir#"$WORK"/}" "$([ "$count" = "$wanted" ] || shown echo "$count")"
  done
}
# Whatever a file of the cache is called: one of other options is not used.
rm -rf cache; touch "$T"/{1,2,3}.{a,b}; for kind in a b; do SHARD_INCLUDE="*.$kind" ranks >"wanted.$kind"; done
for one in cache/*.listing; do [ "$("$CTL" ls "$one" | head -c 3)" = 1.a ] && cp "$one" one.a; [ "$("$CTL" ls "$one" | head -c 3)" = 1.b ] && set -- "$one"; done
cp one.a "$1"; SHARD_INCLUDE="*.b" ranks >got
verdict "a listing of other options by this one's name" "$(grep -c '\.b$' got | grep -vx 3; diff wanted.b got; grep -v "no name below '$V' matches" err)"
rm "$T"/?.[ab]

if unshare -m -u true 2>/dev/null; then
  passes "nothing set" 2
  mkdir -m 700 common; passes "a shared cache" 1 SHARD_CACHE_DIR="$WORK/common"
  passes "a shared cache, the next job" 0 SHARD_CACHE_DIR="$WORK/common"
  passes "first" 1 SHARD_LISTING="$WORK/shared/" SHARD_LISTING_BUILD=first
  passes "made beforehand" 0 SHARD_LISTING="$WORK/shared/"
  passes "hash" 4 SHARD_STRATEGY=hash
else
  skip "passes of two hosts" "namespaces take root"
fi
finish
