#!/bin/bash
# SPDX-License-Identifier: MIT
# shardctl index and manifest: names from texts, bounded memory, shares in texts.
. "$(dirname "$0")/lib.bash"
in_namespace
# Names that do not fit into memory go to a folder on a disk; /tmp may be none.
ON_DISK=$(mktemp -d /var/tmp/shard-test.XXXXXX) || exit 2
case $(stat -f -c %T "$ON_DISK") in tmpfs | ramfs) spills= ;; *) spills=8M ;; esac
[ $spills ] || skip "names that do not fit into memory" "/var/tmp is on no disk"
trap 'cd /; jobs -p | xargs -r kill 2>/dev/null; rm -rf "$BASE" "$ON_DISK"' EXIT
cd "$WORK" || exit 2
L=$WORK/l
# refuses NAME WORDS COMMAND...: exit 1, no listing, a message with the words
refuses() {
  local name=$1 words=$2 got; shift 2
  rm -f "$L"
  "$CTL" "$@" >"$WORK/out" 2>"$WORK/err"; got=$?
  verdict "$name" "$([ $got = 1 ] || echo "status $got. "; [ -e "$L" ] && echo "a listing. "
    grep -qF -- "$words" "$WORK/err" || shown cat "$WORK/err"; ls "$L".* 2>/dev/null)"
}
# lists NAME WANTED COMMAND...: the listing's names are those of the file
lists() {
  local name=$1 want=$2; shift 2
  rm -f "$L"
  "$CTL" index "$@" -o "$L" >/dev/null 2>"$WORK/err" || fail "$name" "$(cat "$WORK/err")"
  "$CTL" ls -0 "$L" >"$WORK/got" 2>&1; same "$name" "$want" "$WORK/got"
  "$CTL" stat "$L" >/dev/null 2>"$WORK/err" || fail "$name, stat" "$(cat "$WORK/err")"
}

printf 'b/x\na\nb\n%b c\n\xff\xfe\n' '\t' >names.txt
sort names.txt | tr '\n' '\0' >want
lists "text" want names.txt
lists "text from a pipe" want - < <(cat names.txt)
lists "text without an end of line" want - < <(printf %s "$(cat names.txt)")
tr '\n' '\0' <names.txt >names0; printf 'new\nline\0' >>names0; sort -z names0 >want0
lists "text, -0" want0 -0 names0
gzip -k names.txt; lists "gzip" want names.txt.gz
cat names.txt.gz names.txt.gz >twice.gz; lists "two gzip members" want --unique twice.gz
zstd -q names.txt; lists "zstd" want names.txt.zst
lists "gzip from a file as standard input" want - <names.txt.gz
{ echo "not read"; cat names.txt.gz; } >begun.gz; { read -r _; lists "gzip from a file that has been read in part" want -; } <begun.gz
cat names.txt.gz <(echo more | gzip) >begun.gz
printf 'more\0' >want.more; { dd bs="$(stat -c %s names.txt.gz)" count=1 of=/dev/null status=none; lists "gzip, the first member has been read" want.more -; } <begun.gz
refuses "gzip from a pipe" "gzip -dc" index - -o "$L" < <(cat names.txt.gz)
head -c 30 names.txt.gz >cut.gz; refuses "gzip, cut" "cut.gz" index cut.gz -o "$L"
: >empty; : >nothing; lists "empty text" nothing empty
sed 's|^|/data/train/|' names.txt >absolute.txt
grep -v '/b$' absolute.txt >files.txt; grep -vx b names.txt | sort | tr '\n' '\0' >want.files
lists "absolute, --root" want.files --no-check --root /data/train files.txt
lists "absolute, --root with a slash" want.files --no-check --root /data/train/ files.txt
sort absolute.txt | tr '\n' '\0' >want.absolute; lists "absolute, no root" want.absolute absolute.txt
tr '\n' '\0' <absolute.txt >want.absolute; lists "absolute, no root, --keep-order" want.absolute --keep-order absolute.txt
cat names.txt absolute.txt >both.txt; sort both.txt | tr '\n' '\0' >want.absolute; lists "absolute and relative, no root" want.absolute both.txt
"$CTL" index absolute.txt -o "$L" >/dev/null; mkdir -p m.absolute; "$CTL" manifest "$L" --size 2 --strategy range -o m.absolute/%r >/dev/null
verdict "absolute, manifests" "$(sort absolute.txt | diff -a - <(cat m.absolute/0 m.absolute/1))"
SHARD_DATASET=$WORK SHARD_LISTING=$WORK/$(basename "$L") SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD=$LIB ls "$WORK" >/dev/null 2>err
verdict "absolute, no root: no dataset's listing" "$(grep -q "SHARD_LISTING='$WORK/l' has no listing of '$WORK', which is walked" err || shown cat err)"
refuses "absolute, no root, of directories" "--root" index absolute.txt --order directory -o "$L"
echo /data/training/x >>absolute.txt
refuses "absolute, outside of the root" "line 6" index absolute.txt --no-check --root /data/train -o "$L"
refuses "the root itself" "line 1" index <(echo /data/train) --no-check --root /data/train -o "$L"
# A key that is a URL of another tool's is none of the bucket's.
printf 's3://b/p/x\ny\n' >urls.txt; printf 'x\0y\0' >want.urls; lists "URLs, --root of a bucket" want.urls urls.txt --root s3://b/p/
for url in s3a://b/p/z s3n://b/p/z gs://b/p/z s3://b/q/z; do
  (cat urls.txt; echo $url) >bad.txt; refuses "$url, --root s3://b/p/" "bad.txt, line 3" index bad.txt --root s3://b/p/ -o "$L"
done
refuses "URLs of S3, --root gs://b/p/" "urls.txt, line 1" index urls.txt --root gs://b/p/ -o "$L"
bad() { printf "$2" >bad.txt; refuses "$1" "bad.txt, line $3" index bad.txt -o "$L"; }
bad "CR" 'a\nb\r\nc\n' 2
bad "byte order mark" '\xef\xbb\xbfa\nb\n' 1
printf 'a\n\xef\xbb\xbfb\n' >mark.txt; printf 'a\0\xef\xbb\xbfb\0' >mark0; lists "its bytes further on" mark0 mark.txt
printf '\xef\xbb\xbfb\0' >mark0; lists "-0: its bytes" mark0 -0 mark0
bad "empty line" 'a\n\nb\n' 2
bad "empty first line" '\na\n' 1
bad "NUL" 'a\nb\0c\n' 2
bad "long line" "a\nb\n$(printf '%05000d' 1)\n" 3
printf 'a\n%0*d' 2000000 1 >bad.txt; refuses "line longer than the buffer" "bad.txt, line 2" index bad.txt -o "$L"
# Lengths: a path has 4095 bytes at the most, as it stands in the text.
longest=$(printf '%04095d' 1); echo "$longest" >long.txt; printf '%s\0' "$longest" >want; lists "the longest name" want long.txt
bad "a byte more" "a\n${longest}1\n" 2
# Bytes are taken as they are.
printf '%s\n' ./a a//b ../x ' blank ' 'a\tb' $'c\rd' '*' '~' '%s' "it's" '"' b/ >odd.txt
sort odd.txt | tr '\n' '\0' >want; lists "bytes as they are" want odd.txt
tr '\n' '\0' <odd.txt >odd.want; lists "bytes as they are, --keep-order" odd.want --keep-order odd.txt
printf 'a\r\0b\n\0' >cr0; lists "-0: CR and newline are bytes" cr0 -0 cr0
printf 'a\0\0b\0' >none0; refuses "-0: an empty name" "none0, line 2" index -0 none0 -o "$L"
printf 'x\n/usr/y\n/usr/bin/1\n' >mixed.txt; printf '%s\0' bin/1 x y >want; lists "--root, some absolute" want --no-check --root /usr mixed.txt
printf '%s\0' usr/bin/1 usr/y x >want; lists "--root /" want --no-check --root / mixed.txt
{ seq 300000; printf 'cr\r\n'; seq 9; } >late.txt; refuses "a late line" "late.txt, line 300001" index late.txt -o "$L"
# Packed texts
sort names.txt | tr '\n' '\0' >want
zstd -q -c odd.txt >two.zst; zstd -q -c names.txt >>two.zst
{ printf '\x50\x2a\x4d\x18\4\0\0\0abcd'; cat names.txt.zst; } >skip.zst; lists "zstd behind a frame to be skipped, as pzstd makes it" want skip.zst
rm -f "$L"; "$PYTHON" -c 'import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])' "$CTL" index names.txt.gz -o "$L" >/dev/null 2>"$WORK/err"
verdict "gzip, the caller ignores SIGCHLD" "$([ $? = 0 ] && [ -s "$L" ] || shown cat "$WORK/err")"
sort names.txt odd.txt | tr '\n' '\0' >wanted2; lists "two zstd frames" wanted2 two.zst
gzip -c names0 >names0.gz; lists "gzip, -0" want0 -0 names0.gz
gzip -c odd.txt >odd.gz; lists "gzip, --keep-order" odd.want --keep-order odd.gz
gzip -c empty >empty.gz; lists "gzip of nothing" nothing empty.gz
seq 100000 | zstd -q >whole.zst; head -c 30000 whole.zst >cut.zst; refuses "zstd, cut" "cut.zst" index cut.zst -o "$L"
cp names.txt.gz tail.gz; echo garbage >>tail.gz; refuses "gzip, garbage behind" "tail.gz" index tail.gz -o "$L"
{ seq 100000 | gzip; } >bent.gz; printf 'XXXX' | dd of=bent.gz bs=1 seek=50000 conv=notrunc 2>/dev/null; refuses "gzip, damaged" "bent.gz" index bent.gz -o "$L"
refuses "gzip, damaged, --keep-order" "bent.gz" index --keep-order bent.gz -o "$L"
printf '\x1f\x8b' >magic.gz; refuses "gzip, two bytes" "magic.gz" index magic.gz -o "$L"
# A listing of a text says of itself no more than is true.
for o in depth=1 exact=1 "follow=1 depth=2" hidden=0 'include=*.a'; do
  rm -f "$L"; "$CTL" index names.txt -o "$L" --options "$o" >/dev/null 2>"$WORK/err"
  verdict "a text, --options '$o'" "$([ $? = 2 ] && ! [ -e "$L" ] && grep -q 'of --options' "$WORK/err" || shown cat "$WORK/err")"
done
lists "a text, --options of its own" want --options "order=path attributes=1 hidden=1 include=" names.txt
rm -f "$L"; PATH=/none "$CTL" index two.zst -o "$L" 2>"$WORK/err" >/dev/null
verdict "no zstd" "$([ $? = 1 ] && grep -q 'cannot start zstd, which unpacks two.zst' "$WORK/err" && ! [ -e "$L" ] || shown cat "$WORK/err")"
printf '%s\n' a c b a >double.txt
refuses "a name twice" "'a' comes twice" index double.txt -o "$L"
printf '%s\0' a b c >want; lists "--unique" want --unique double.txt
printf '%s\0' a c b a >want; lists "--keep-order" want --keep-order double.txt
refuses "missing" none.txt index none.txt -o "$L"
refuses "missing folder" /none/l index names.txt -o /none/l
"$CTL" index names.txt -o other >/dev/null; refuses "a listing" "is a listing, not a text" index other -o "$L"
for o in "--include x" "--keep-order --unique" "--keep-order --order path"; do
  # shellcheck disable=SC2086  # options
  "$CTL" index names.txt -o "$L" $o >/dev/null 2>&1; verdict "text, $o" "$([ $? = 2 ] || echo status)"
done
"$CTL" index . -o "$L" --unique >/dev/null 2>&1; verdict "directory, --unique" "$([ $? = 2 ] || echo status)"
printf '%s\n' x/b a/z c/a >order.txt; printf '%s\0' c/a x/b a/z >want
lists "--order basename" want --order basename order.txt

# Bounded memory: the same listing in 8 MB as in much, and within the bound.
seq -f 'img_%07.0f_of_0300000.jpeg' 0 299999 | shuf --random-source=/dev/zero >many.txt
"$CTL" index many.txt -o m1 >/dev/null
for memory in $spills ${spills:+8388608} 64M; do
  SHARD_BUILD_MEMORY=$memory TMPDIR=$ON_DISK "$CTL" index many.txt -o m2 --json >json
  "$CTL" ls m1 >n1; "$CTL" ls m2 >n2; same "$memory: the same names" n1 n2
done
{ cat many.txt; seq -f '%0100g' 100000; head -1 many.txt; } >again.txt
if [ $spills ]; then
  SHARD_BUILD_MEMORY=8M TMPDIR=$ON_DISK "$CTL" index many.txt -o m2 --json >json
  peak=$("$PYTHON" -c 'import json; print(json.load(open("json"))["peak_rss"])')
  verdict "8M: peak memory" "$( ((peak <= 8 * 1153434 + 16 * 1048576)) || echo "$peak bytes")"
  verdict "nothing left behind" "$(ls | grep -E 'tmp|shardctl-'; ls "$ON_DISK")"
  # A name twice, far apart, when names do not all fit.
  SHARD_BUILD_MEMORY=8M TMPDIR=$ON_DISK "$CTL" index again.txt -o m3 2>"$WORK/err" >/dev/null
  verdict "8M: a name twice" "$([ $? = 1 ] && grep -qF "'$(head -1 many.txt)' comes twice" "$WORK/err" && ! [ -e m3 ] || shown cat "$WORK/err")"
  SHARD_BUILD_MEMORY=8M TMPDIR=$ON_DISK "$CTL" index --unique again.txt -o m3 >/dev/null; "$CTL" ls m3 >n1; sort -u again.txt >n2
  same "8M: --unique" n2 n1
fi
# File systems that do not keep what is written, or refuse what others do.
"$PYTHON" -c 'import random; r = random.Random(2); print("\n".join(r.randbytes(20).hex() for _ in range(90000)))' >random.txt
sort random.txt >n1
for lossy in none truncate espipe eopnotsupp einval enosys; do
  rm -f kept; LOSSY=$lossy LD_PRELOAD=$BUILD/tests/lossy.so "$CTL" index random.txt -o kept --quiet >/dev/null 2>"$WORK/err"
  verdict "a file system, $lossy: a listing" "$([ $? = 0 ] || echo "status $?"; cat "$WORK/err"; "$CTL" stat kept 2>&1 >/dev/null; "$CTL" ls kept | diff - n1 | head -3)"
done
verdict "no space is kept behind the end" "$(blocks=$(stat -c %b kept) size=$(stat -c %s kept); ((blocks * 512 <= size + 65536)) || echo "$size bytes, $blocks blocks")"
"$CTL" index names.txt -o old --quiet >/dev/null
for lossy in cut flip header seek; do
  cp old kept; LOSSY=$lossy LD_PRELOAD=$BUILD/tests/lossy.so "$CTL" index random.txt -o kept --quiet >"$WORK/out" 2>"$WORK/err"; got=$?
  verdict "a file system, $lossy: an error" "$([ $got = 1 ] || echo "status $got"; grep -qE "cannot write listing 'kept': its file system \(.+\) .*; write the listing to another file system" "$WORK/err" || shown cat "$WORK/err")"
  same "a file system, $lossy: the older file stays" old kept
  verdict "a file system, $lossy: nothing is left" "$(ls kept.tmp.* 2>/dev/null)"
done
rm -f kept old random.txt
# Under a cgroup's limit names take less, if nothing is set.
group=
for at in $(awk -F: -v OFS= '$2 ~ /(^|,)memory(,|$)/ {print "/sys/fs/cgroup/memory", $3} $2 == "" {print "/sys/fs/cgroup", $3}' /proc/self/cgroup); do
  mkdir "$at/shard-test.$$" 2>/dev/null || continue
  for file in "$at/shard-test.$$"/memory.{limit_in_bytes,max}; do [ ! -e "$file" ] || group=$file; done
  [ -z "$group" ] || break; rmdir "$at/shard-test.$$"
done
if [ $spills ] && [ "$group" ] && echo 64M >"$group" 2>/dev/null; then
  "$PYTHON" -c 'import random; r = random.Random(1); print("\n".join(r.randbytes(50).hex() for _ in range(900000)))' >wide.txt
  # limited WANTED VARIABLE=VALUE...: its exit status
  limited() {
    local wanted=$1 got; shift
    (echo $BASHPID >"${group%/*}/cgroup.procs" && exec env TMPDIR="$ON_DISK" "$@" "$CTL" index wide.txt -o m4 --json) >json 2>"$WORK/err"; got=$?
    verdict "a cgroup of 64 MB${1:+, $1}: status $wanted" "$([ $got = "$wanted" ] || echo "status $got, $(cat "$WORK/err")")"
  }
  limited 0
  "$CTL" ls m4 | cmp -s - <(sort wide.txt); verdict "a cgroup of 64 MB: the names" "$([ $? = 0 ] || echo "they differ")"
  limited 137 SHARD_BUILD_MEMORY=256M
  await "the end of what was in the cgroup" rmdir "${group%/*}"; rm -f wide.txt m4*
else
  skip "a cgroup of 64 MB" "none can be made here"
fi
for m in 1M 7M x 0 -8M; do
  SHARD_BUILD_MEMORY=$m "$CTL" index names.txt -o "$L" >/dev/null 2>"$WORK/err"
  verdict "SHARD_BUILD_MEMORY=$m" "$([ $? = 2 ] && grep -q SHARD_BUILD_MEMORY "$WORK/err" || shown cat "$WORK/err")"
done
sed '$d' again.txt >long.txt # does not fit: coded, names of numbers alone do
SHARD_BUILD_MEMORY=200000G "$CTL" index many.txt -o m2 >/dev/null 2>"$WORK/err"
verdict "more memory than can be" "$([ $? = 1 ] && grep -q SHARD_BUILD_MEMORY "$WORK/err" || shown cat "$WORK/err")"
# A TMPDIR that is not there, or lies in memory, is passed over.
for at in /none /dev/shm; do
  SHARD_BUILD_MEMORY=8M TMPDIR=$at strace -f -qq -e trace=openat -o trace "$CTL" index long.txt -o m2 >/dev/null 2>"$WORK/err"
  verdict "TMPDIR=$at" "$([ $? = 0 ] && ! grep -E "\"$at/?\".*O_TMPFILE.* = [0-9]" trace || shown cat "$WORK/err" trace)"
done
# Names in order are written as they come; one that is not makes it begin anew, or be merged.
sort many.txt >ordered.txt; tr '\n' '\0' <ordered.txt >want
for memory in $spills 256M; do
  export SHARD_BUILD_MEMORY=$memory TMPDIR=$ON_DISK
  lists "in order, a file, $memory" want ordered.txt
  lists "in order, a file as standard input, $memory" want - <ordered.txt
  lists "in order, a pipe, $memory" want - < <(cat ordered.txt)
  for last in aaa img_0100000_of_0300000.jpeg.2; do
    (cat ordered.txt; echo $last) >broken.txt; sort broken.txt | tr '\n' '\0' >want2
    lists "all but $last in order, a file, $memory" want2 broken.txt
    lists "all but $last in order, a file as standard input, $memory" want2 - <broken.txt
    (echo "not read"; cat broken.txt) >begun.txt
    { read -r _; lists "all but $last in order, a file that has been read in part, $memory" want2 -; } <begun.txt
    lists "all but $last in order, a pipe, $memory" want2 - < <(cat broken.txt)
  done
  sort ordered.txt <(head -1000 many.txt) >double.txt
  lists "in order, some twice, a pipe, --unique, $memory" want --unique - < <(cat double.txt)
  lists "in order, some twice, a file, --unique, $memory" want --unique double.txt
  refuses "in order, some twice, $memory" "comes twice" index double.txt -o "$L"
  (cat double.txt; head -1 double.txt) >double2.txt
  lists "one twice at the end, --unique, $memory" want --unique double2.txt
  unset SHARD_BUILD_MEMORY TMPDIR
done
mkdir tree; (cd tree; for i in {1..40}; do mkdir $i; (cd $i; seq -f 'f%05g' 100 | xargs touch); done)
(cd tree && find . -type f -printf '%P\n' | sort) >want
for i in 1 2 3; do "$CTL" index tree -o t >/dev/null; "$CTL" ls t >got; same "a tree, by several threads" want got; done

# A long directory, of which several threads take the entries: the same digest as of the names alone.
mkdir long
(cd long && seq -f 'name-%06.0f' 20000 | xargs touch)
"$CTL" index long -o d1 --no-attributes >/dev/null
find long -type f -printf '%P\n' >n1; "$CTL" index n1 -o d2 >/dev/null
"$CTL" stat d1 | grep digest >n2; "$CTL" stat d2 | grep digest >n3; same "a long directory" n3 n2
verdict "a long directory: names" "$([ "$(wc -l <n1)" = 20000 ] || wc -l n1)"
rm -rf long

# What a killed builder left goes with the next one of the same file; a live one's stays.
mkdir dead; mkfifo dead/pipe
"$CTL" index - -o dead/l <dead/pipe & killed=$!; exec 8>dead/pipe; echo x >&8
await "the builder's file" eval 'ls dead/l.tmp.*'
seq 100000 >&8; ls dead | grep 'l.tmp' >left
"$CTL" index names.txt -o dead/l >/dev/null; verdict "a live builder's file stays" "$(ls dead | grep 'l.tmp' | comm -23 left -)"
kill -9 $killed; wait $killed 2>/dev/null; exec 8>&-
"$CTL" index names.txt -o dead/l >/dev/null; verdict "a killed builder's file goes" "$(ls dead | grep l.tmp)"

printf '%s\n' c a b a >m.txt; "$CTL" ls m.txt >/dev/null 2>"$WORK/err"; verdict "ls of a manifest" "$([ $? = 1 ] && grep -q 'shardctl index makes a listing' "$WORK/err" || shown cat "$WORK/err")"
: >e.listing; "$CTL" ls e.listing >/dev/null 2>&1; verdict "ls of an empty listing" "$([ $? = 1 ] || echo status)"

# Texts for ranks.
"$CTL" index tree -o t >/dev/null
for o in "" "--strategy stride" "--seed 3" "--seed 3 --epoch 2 --strategy stride" "--weights 1,0,3"; do
  rm -rf m; mkdir m
  # shellcheck disable=SC2086  # options
  "$CTL" manifest t --size 3 -o 'm/r%r_e%e.txt' $o || fail "manifest $o" "status"
  cat m/* | sort >got; same "manifest $o: each name once" want got
  [[ $o == *weights* ]] && verdict "weights" "$(wc -l <m/r0_e0.txt | grep -qx 1000 && [ ! -s m/r1_e0.txt ] || wc -l m/*)"
  [[ $o == *weights* ]] || for r in 0 1 2; do
    # shellcheck disable=SC2086
    "$CTL" ls t --rank $r --size 3 $o >want1; same "manifest $o: rank $r as ls" want1 m/r${r}_e*.txt
  done
done
"$CTL" manifest t --size 2 -o 'm/u%r' --prefix s3://b/; head -c 7 m/u1 >got; printf s3://b/ >want; same "manifest --prefix" want got
for o in "--size 2 -o m/x" "--size 0 -o m/%r" "--size 2 -o m/%x%r" "--size 2 --weights 1 -o m/%r" "--size 2 --weights 0,0 -o m/%r" "--size 2"; do
  # shellcheck disable=SC2086
  "$CTL" manifest t $o >/dev/null 2>"$WORK/err"; verdict "manifest $o" "$([ $? = 2 ] || echo "status $?")"
done
"$CTL" index -0 names0 -o n >/dev/null; rm -rf m; mkdir m
"$CTL" manifest n --size 2 -o 'm/%r' 2>"$WORK/err"; verdict "manifest, a newline in a name" "$([ $? = 1 ] && grep -q -- -0 "$WORK/err" && [ -z "$(ls m)" ] || shown ls m)"
"$CTL" manifest n --size 2 --strategy range -o 'm/%r' -0; cat m/0 m/1 >got; same "manifest -0" want0 got

# A library that the compiler does not find is named, with its package, before anything is compiled.
mkdir -p hidden/curl hidden/json-c; for h in curl/curl json-c/json; do echo '#error hidden' >hidden/$h.h; done
make -C "$ROOT" CC="gcc -I$WORK/hidden" BUILD="$WORK/bare" >out 2>err; got=$?
verdict "missing libraries" "$([ $got != 0 ] || echo "status 0. "; grep '^make: .* is missing; install ' err | cut -d' ' -f2,6 >got
  printf '%s\n' 'libcurl libcurl4-openssl-dev' 'json-c libjson-c-dev' | diff - got
  grep -q "make: 'make lib' builds libshard.so alone" err || shown cat err; grep 'CC\|fatal' out err)"
verdict "make alone builds both products" "$(make -n -C "$ROOT" BUILD="$WORK/new" >out; for product in libshard.so shardctl; do
  grep -q -- "-o $WORK/new/$product " out || echo "no $product"; done)"
verdict "make lib needs none of them" "$(make -n -C "$ROOT" CC="gcc -I$WORK/hidden" BUILD="$WORK/bare" lib | grep -E 'libraries|curl|json-c|shim/ctl')"
finish
