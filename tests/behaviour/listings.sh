#!/bin/bash
# SPDX-License-Identifier: MIT
# SHARD_LISTING as several files; and how often a job of two hosts reads the directory, in each of the
# ways that libshard(7) has a table of.
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
# served NAME VARIABLE=VALUE...: both datasets, each name once, from what is given: nothing is walked
served() {
  local name=$1; shift
  rm -rf cache; ranks SHARD_LOG=info "$@" >got
  verdict "$name" "$(diff bare got | head -3; grep -v -e ': serving ' -e ": getting '" -e 'numbered by SHARD_RANK' -e 'do not pair up' err)"
}
# refused NAME WORDS VARIABLE=VALUE...: calls on $of fail, and say why
of=valid
refused() {
  local name=$1 words=$2; shift 2
  rm -rf cache; ranks "$@" >got
  verdict "refused: $name" "$(grep "/$of/" got | head -2; grep -q -- "$words" err || shown cat err)"
}
"$CTL" index "$T" -o l/train.listing --quiet >/dev/null; "$CTL" index "$V" -o l/valid.listing --quiet >/dev/null
served "several" SHARD_LISTING="$WORK/l/valid.listing:l/train.listing"
mkdir one 'odd:%'; cp l/train.listing one/x.listing; cp l/*.listing 'odd:%/'
served "a colon and a percent sign" SHARD_LISTING="$WORK/odd%:%%/train.listing:odd%:%%/valid.listing"
cd 'odd:%' || exit 2
ranks SHARD_LISTING=valid.listing:x/../train.listing >got
cd .. || exit 2
verdict "relative paths in a folder with both" "$(grep -q "$WORK/odd:%/x/../train.listing'.*No such" 'odd:%/err' || shown cat 'odd:%/err')"
# What is not looked for any more.
refused "a folder" "/l': .*; folders are not looked through, so name its listings, separated by ':'" SHARD_LISTING="$WORK/l"
refused "a folder among several" "/one': .*; folders are not looked through" SHARD_LISTING="l/train.listing:one:l/valid.listing"
refused "%d" "has %d, which is not supported any more; name each dataset's listing" SHARD_LISTING="$WORK/l/%d.listing"
refused "rank 0's" "SHARD_LISTING_BUILD is not a variable of libshard any more; make the listing by shardctl index" SHARD_LISTING_BUILD=first SHARD_LISTING=l/train.listing:l/valid.listing
# What was made with other options, though it has the same names.
"$CTL" index "$V" -o l/other.listing --options "attributes=1 depth=3" --quiet >/dev/null
for with in "" "l/train.listing:"; do
  refused "other options${with:+, of several}" "other.listing' was made of '$V' with '.*depth=3.*'; make it by shardctl index --options '" SHARD_LISTING="${with}l/other.listing"
done
options=$(sed -n "s/.*--options '\([^']*\)'.*/\1/p" err | head -1); "$CTL" index "$V" -o l/again.listing --options "$options" --quiet >/dev/null
served "... made as the line says, beside it" SHARD_LISTING="l/train.listing:l/other.listing:l/again.listing"
# A listing that is cut, or gets another one's bytes, while a process reads its copy.
B=$WORK/data/big; mkdir "$B" other
"$PYTHON" -c 'import random, sys
random.seed(1)
for k in range(15000):
    name = "%030x" % random.getrandbits(120)
    open("%s/%s" % (sys.argv[1], name), "w").close()
    open("other/" + name[::-1], "w").close()' "$B"
"$CTL" index "$B" -o big.listing --quiet >/dev/null; "$CTL" index other -o other.listing --quiet >/dev/null
ls -f "$B" | sort >bare.big
# changed NAME COMMAND: between the first name and the last; all names are there
changed() {
  cp big.listing given.listing; rm -rf cache
  env SHARD_DATASET="$B" SHARD_RANK=0 SHARD_SIZE=1 SHARD_LISTING=given.listing LD_PRELOAD="$LIB" timeout 300 perl -e '
    opendir(D, $ARGV[0]) or die "$!"; print scalar(readdir D), "\n";
    system("env", "-u", "LD_PRELOAD", "sh", "-c", $ARGV[1]);
    while ($! = 0, defined($_ = readdir D)) { print "$_\n" } print STDERR $! if $!' "$B" "$2" >got 2>err; local status=$?
  verdict "$1" "$([ $status = 0 ] && [ ! -s err ] || echo "status $status, $(cat err)"; sort got | diff - bare.big | head -3)"
}
changed "a listing that is cut" "cp l/valid.listing given.listing"
changed "a listing that is emptied" ": >given.listing"
changed "another one in its place" "cat other.listing 1<>given.listing >&1"
changed "a listing that is replaced" "cp other.listing new.listing; mv new.listing given.listing"
rm -rf cache; (ulimit -f 1; env SHARD_DATASET="$B" SHARD_RANK=0 SHARD_SIZE=1 SHARD_LISTING=big.listing LD_PRELOAD="$LIB" ls "$B") >got 2>err; status=$?
verdict "a limit on the size of files" "$([ $status = 2 ] && grep -q "SHARD_LISTING='.*big.listing': .*File too large" err || shown echo "status $status, $(cat err)"; ls cache | grep -v ranks)"
rm -rf "$B" other
refused "a file that is missing" "valid2.listing': No such file" SHARD_LISTING="l/train.listing:l/valid2.listing"
of=train refused "two files of a dataset" "two listings of '$T': '.*one/x.listing' and '.*l/train.listing'" SHARD_LISTING="one/x.listing:l/train.listing"
rm -rf cache; ranks SHARD_LISTING="l/train.listing:big.listing" >got
verdict "none of a dataset: it is walked, with a line" "$(diff bare got | head -3; grep -q "'.*' has no listing of '$V', which is walked" err || shown cat err)"
head -c 200 l/valid.listing >damaged.listing
refused "a damaged one" "damaged.listing'" SHARD_LISTING=l/train.listing:damaged.listing
cp l/valid.listing old.listing; touch "$V/new"; names "$T" "$V" >bare
refused "stale" "'$V' has changed since" SHARD_LISTING=l/train.listing:old.listing
"$CTL" index "$V" -o l/valid.listing --quiet >/dev/null

# Ranks that spell the dataset's path in different ways have one listing.
touch "$T/sub"; rm "$T/sub"; names "$T" >bare.one; ln -s "$WORK/data" "$WORK/way"
spelt() { (cd "$T/a" && SHARD_JOB=$1 SHARD_DATASET=$3 SHARD_RANK=$2 SHARD_SIZE=2 LD_PRELOAD=$LIB find "$T" -type f); }
for way in "$T/" .. "../../train//" "$WORK/data/../data/train" "$WORK/way/train/."; do
  rm -rf cache; { spelt one 0 "$T"; : >"$T/0later"; spelt one 1 "$way"; } 2>err | sort >got; rm "$T/0later"
  verdict "a dataset spelt '$way'" "$(diff bare.one got | head -3; [ "$(ls cache | grep -c listing)" = 1 ] || shown ls cache)"
done
# A listing that a job's name has had, also while another job has the same file.
rm -rf cache; spelt again 0 "$T" >/dev/null 2>&1; "$CTL" index "$T" -o l/train.listing --quiet >/dev/null; export SHARD_LISTING=$WORK/l/train.listing
mkfifo held; SHARD_JOB=other SHARD_DATASET=$T SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD=$LIB perl -e 'opendir(D, $ARGV[0]); readdir D; open(F, ">", "has"); <STDIN>' "$T" <held & exec 9>held
await "another job" test -e has; spelt named 0 "$T" >/dev/null 2>&1; spelt named 1 "$T" >/dev/null 2>err; exec 9>&-; wait; unset SHARD_LISTING
verdict "a job's name that is used again, beside another job" "$(grep -q "SHARD_JOB='named' listed it .* no process of that job has it open" err || shown cat err)"

# Passes over the directories by a job of two hosts, of two ranks each: reads of a directory that
# come to its end, all processes together. Each host has a cache of its own.
host() {
  unshare -m -u sh -c 'hostname host$0 && export SHARD_CACHE_DIR=$WORK/cache.host$0 && for r in 0 1; do
    SHARD_RANK=$((2 * $0 + r)) LD_PRELOAD=$LIB find "$T" "$V" -type f -printf "%p\n" & done; wait' "$1"
}
export T V LIB WORK; export -f host
# passes NAME WANTED VARIABLE=VALUE...: over both datasets; WANTED is what libshard(7) says of one
passes() {
  local name=$1 wanted=$2 dir count; shift 2
  rm -rf trace cache.host?; mkdir trace
  env SHARD_DATASET="$T:$V" SHARD_SIZE=4 SHARD_JOB="$name $RANDOM" "$@" timeout 300 \
    strace -ff -qq -y -e trace=getdents64 -o trace/of bash -c 'host 0 & host 1 & wait' 2>err | sort >got
  verdict "$name: each name once" "$(diff bare got | head -3; grep -v "no process of that job has it open" err)"
  for dir in "$T" "$T/a" "$V"; do
    count=$(cat trace/of.* | grep -c "<$dir>.* = 0\$")
    verdict "$name: $wanted passes over ${dir#"$WORK"/}" "$([ "$count" = "$wanted" ] || shown echo "$count")"
  done
}
if unshare -m -u true 2>/dev/null; then
  passes "nothing set" 2
  "$CTL" index "$T" -o l/train.listing --quiet >/dev/null
  passes "made beforehand" 0 SHARD_LISTING="$WORK/l/train.listing:$WORK/l/valid.listing"
  passes "hash" 4 SHARD_STRATEGY=hash
else
  skip "passes of two hosts" "namespaces take root"
fi
finish
