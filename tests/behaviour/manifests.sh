#!/bin/bash
# SPDX-License-Identifier: MIT
# Lists given to ranks: manifests as SHARD_LISTING, one for each rank and epoch or one for all,
# listings made of texts.
. "$(dirname "$0")/lib.bash"
export SHARD_CACHE_DIR=$WORK/cache
D=$WORK/data; mkdir -p "$D"/{a/deep,b,empty,.hid}
touch "$D"/{1,2,3,4}.txt "$D"/a/{1,2,3,4,5,6,7}.jpeg "$D"/a/deep/{x,y}.jpeg "$D"/b/img_{000..040}.jpeg \
  "$D/.hid/f" "$D/with blank" "$D/"$'\xff\xfe'"bytes" "$D/b/"$'\xc3\xa9'".jpeg"
F=$WORK/flat; mkdir "$F"; touch "$F"/img_{000..099}.jpeg
cd "$WORK" || exit 2
(cd "$D" && find . -type f -printf '%P\n' | LC_ALL=C sort) >tree
"$CTL" index "$D" -o d.listing --quiet >/dev/null; "$CTL" index "$F" -o f.listing --quiet >/dev/null
mkdir m

# as RANK SIZE LISTING COMMAND...: under the shard view
as() {
  local r=$1 p=$2 l=$3; shift 3
  SHARD_DATASET=${DATASET:-$D} SHARD_RANK=$r SHARD_SIZE=$p SHARD_LISTING=$l LD_PRELOAD=$LIB timeout 300 "$@"
}
walk='import os, sys
for d, dirs, files in os.walk(os.fsencode(sys.argv[1])):
    for f in files: sys.stdout.buffer.write(os.path.relpath(os.path.join(d, f), os.fsencode(sys.argv[1])) + b"\n")'
list='import os, sys
for f in os.listdir(os.fsencode(sys.argv[1])): sys.stdout.buffer.write(f + b"\n")'

# A manifest for each rank and epoch: a rank's walk gives the lines of its own, and no others.
for e in 0 7; do "$CTL" manifest d.listing --size 3 --seed 5 --epoch $e -o 'm/r%r_e%e.txt'; done
for e in 0 7; do
  : >all
  for r in 0 1 2; do
    SHARD_EPOCH=$e as $r 3 'm/r%r_e%e.txt' "$PYTHON" -c "$walk" "$D" >got 2>err
    verdict "rank $r, epoch $e: its manifest" "$(diff -a <(LC_ALL=C sort got) <(LC_ALL=C sort m/r${r}_e$e.txt) | head -3; cat err)"
    cat got >>all
  done
  verdict "epoch $e: every file once" "$(diff -a <(LC_ALL=C sort all) tree | head -3)"
done
verdict "epochs differ" "$(cmp -s m/r0_e0.txt m/r0_e7.txt && echo the same)"
as 1 3 'm/r%r_e0.txt' find "$D" -type f -printf '%P\n' 2>err >got
verdict "find sees the same" "$(diff -a <(LC_ALL=C sort got) <(LC_ALL=C sort m/r1_e0.txt); cat err)"
as 1 3 'm/r%r_e0.txt' find "$D" -type d -printf '%P\n' 2>err >got
verdict "directories on the way to its files" "$(diff -a <(LC_ALL=C sort got) <({ echo; sed -n 's|/[^/]*$||p' m/r1_e0.txt; sed -n 's|^\([^/]*\)/.*/.*|\1|p' m/r1_e0.txt; } | LC_ALL=C sort -u); cat err)"

# The manifest's order, and names that come twice, in a directory.
export DATASET=$F
"$CTL" manifest f.listing --size 2 --seed 9 --weights 3,1 -o 'm/w%r.txt'
for r in 0 1; do
  as $r 2 'm/w%r.txt' "$PYTHON" -c "$list" "$F" >got
  verdict "weighted, rank $r: in its order" "$(diff -a got m/w$r.txt | head -3)"
done
verdict "weighted: 75 and 25" "$(wc -l <m/w0.txt | grep -qx 75 || wc -l m/w0.txt)"
{ tac m/w0.txt; cat m/w0.txt; head -5 m/w1.txt; } >m/twice0.txt
as 0 2 m/twice%r.txt "$PYTHON" -c "$list" "$F" >got
verdict "names that come twice" "$(diff -a got m/twice0.txt | head -3)"
SHARD_SEED=1 as 0 2 m/twice%r.txt "$PYTHON" -c "$list" "$F" >got
verdict "shuffled again by a seed" "$(cmp -s got m/twice0.txt && echo in order; diff -a <(sort got) <(sort m/twice0.txt) | head -3)"
as 0 2 m/twice%r.txt perl -e 'opendir(D, $ARGV[0]); $_ = readdir D for 1 .. 60; $t = telldir D; @a = readdir D; seekdir D, $t; @b = readdir D; print "@a" eq "@b" && @a > 50 ? "" : "no: @a"' "$F" >got
verdict "telldir and seekdir" "$(cat got)"
sed "s|^|$F/|" m/w0.txt >m/absolute.txt
as 0 1 m/absolute.txt "$PYTHON" -c "$list" "$F" >got
verdict "absolute names" "$(diff -a got m/w0.txt | head -3)"
for tool in gzip zstd; do
  ext=$([ $tool = gzip ] && echo gz || echo zst); $tool -c m/w0.txt >m/packed.txt.$ext
  as 0 1 m/packed.txt.$ext "$PYTHON" -c "$list" "$F" >got
  verdict "packed by $tool" "$(diff -a got m/w0.txt | head -3)"
done
: >m/none0.txt; cp m/w1.txt m/none1.txt
as 0 2 m/none%r.txt "$PYTHON" -c "$list" "$F" >got 2>&1
verdict "an empty manifest" "$(cat got)"
for ext in gz zst; do
  : >m/cut.txt.$ext; as 0 1 m/cut.txt.$ext ls "$F" >got 2>err
  verdict "no bytes, and not an empty $ext" "$([ $? = 2 ] || echo listed; grep -q "cut.txt.$ext is 0 bytes long" err || shown cat err)"
done

# The program sets each epoch before it lists.
for e in 0 1 2; do "$CTL" manifest f.listing --size 2 --seed 4 --epoch $e -o 'm/p%r.%e.txt'; done
as 1 2 'm/p%r.%e.txt' "$PYTHON" -c "
import os, sys
for e in 0, 1, 2, 1:
    os.environ['SHARD_EPOCH'] = str(e)
    for k in range(2): # a line of a log lists, too
        got = os.listdir(sys.argv[1])
        if got != open(f'm/p1.{e}.txt').read().split(): print('epoch', e, got[:3])
del os.environ['SHARD_EPOCH']
if os.listdir(sys.argv[1]) != got: print('a number that is gone')
os.environ['SHARD_EPOCH'] = '3'
for fd in [os.open(sys.argv[1], os.O_RDONLY)]:
    try: print('epoch 3', os.listdir(fd)[:3])
    except FileNotFoundError: pass
" "$F" >got 2>err
verdict "epochs of a program" "$(cat got)"
verdict "an epoch without a list is said once, by name" "$([ "$(grep -c 'm/p1.3.txt.*epoch 3' err)" = 1 ] || shown cat err)"
as 1 2 'm/p%r.%e.txt' perl -e '$ENV{SHARD_EPOCH} = 0; opendir(D, $ARGV[0]); for (1 .. 3) { print join(" ", grep { !/^\./ } readdir D), "\n"; $ENV{SHARD_EPOCH} = $_; rewinddir D } print scalar(() = readdir D), " $!\n"' "$F" >got 2>err
verdict "rewinddir begins an epoch" "$(for e in 0 1 2; do tr '\n' ' ' <m/p1.$e.txt | sed 's/ $/\n/'; done | diff -a - <(head -3 got))"
verdict "an epoch without a list fails" "$(tail -1 got | grep -q '^0 No such' || shown tail -1 got)"

# A directory below the root is read in the epoch of the root; a number that is wrong lists nothing; a forked worker
# has its parent's epoch.
mkdir -p "$WORK"/deep/{a,b}; touch "$WORK"/deep/f{00..29} "$WORK"/deep/{a,b}/g{0..9}
for e in 0 1 2; do "$CTL" index "$WORK/deep" -o m/deep.$e.listing --quiet >/dev/null; done
for s in range stride hash; do
  DATASET=$WORK/deep SHARD_STRATEGY=$s as 0 2 m/deep.0.listing "$PYTHON" -c '
import os, subprocess, sys
def listed(*below): return sorted(os.listdir(os.path.join(sys.argv[1], *below)))
def epoch(e): os.environ["SHARD_EPOCH"] = str(e)
def fresh(e): # a process that has not read the root
    return eval(subprocess.run([sys.executable, "-c", "import os, sys; print(sorted(os.listdir(sys.argv[1])))", sys.argv[1] + "/a"],
                env={**os.environ, "SHARD_EPOCH": str(e)}, capture_output=True, check=True).stdout)
want = {e: fresh(e) for e in range(40)}
other = next(e for e in want if want[e] != want[0])
epoch(other)
if listed("a") != want[other]: print("before the root is read")
epoch(0); one = listed()
if listed("a") != want[0]: print("epoch 0")
epoch(other)
if listed("a") != want[0]: print("the root was not read anew")
pid = os.fork()
if pid == 0: os._exit(listed("a") != want[0])
if os.waitpid(pid, 0)[1]: print("a worker that is forked")
two = listed()
if one == two or listed("a") != want[other]: print("another epoch")
for wrong in "auto", "-1", "", "x", str(2 ** 62 + 1):
    epoch(wrong)
    for below in (), ("a",):
        try: print("listed", wrong, listed(*below))
        except OSError as error:
            if error.errno != 22: print(error)
epoch(0)
if listed() != one: print("a number that is right again")
' "$WORK/deep" >got 2>err
  verdict "epochs of sub-directories, $s" "$(cat got)"
  verdict "a wrong epoch is said once, with the remedy, $s" \
    "$([ "$(grep -c 'SHARD_EPOCH=.auto.*os.environ."SHARD_EPOCH". = str(epoch)' err)" = 1 ] && [ "$(grep -vc "is not used" err)" = 1 ] || shown cat err)"
done
DATASET=$WORK/deep SHARD_EPOCH=auto as 0 2 m/deep.0.listing ls "$WORK/deep" >got 2>err
verdict "auto is refused" "$([ $? = 2 ] || echo listed; grep -q 'os.environ."SHARD_EPOCH". = str(epoch)' err || shown cat err)"
# In a world of one the first epoch begins the shuffle.
DATASET=$F SHARD_RANK=0 SHARD_SIZE=1 SHARD_DATASET=$F LD_PRELOAD=$LIB "$PYTHON" -c 'import os, sys
plain = os.listdir(sys.argv[1]); os.environ["SHARD_EPOCH"] = "0"; one = os.listdir(sys.argv[1])
if one == plain or one == sorted(one) or sorted(one) != sorted(plain): print(one[:3])' "$F" >got 2>err
verdict "an epoch in a world of one" "$(cat got)"
# One whose list is damaged fails, also in a directory that was open before.
at=$(LC_ALL=C grep -obUaP '\x01a\x00' m/deep.0.listing | cut -d: -f1 | head -1)
verdict "the name in the list" "$([ "$at" ] || echo "not found")"
for e in 1 2; do printf '\377' | dd of=m/deep.$e.listing bs=1 seek=$((at + 1)) conv=notrunc 2>/dev/null; done
DATASET=$WORK/deep as 0 1 'm/deep.%e.listing' perl -e '$ENV{SHARD_EPOCH} = 0; opendir(A, "$ARGV[0]/a"); for (0 .. 2) { $! = 0; @a = readdir A;
  print scalar(@a), " ", $! + 0, "\n"; $ENV{SHARD_EPOCH} = $_; opendir(D, $ARGV[0]); @d = readdir D; closedir D; rewinddir A }' "$WORK/deep" >got 2>err
verdict "rewinddir into a damaged list" "$(printf '12 0\n12 0\n0 5\n' | diff - got)"

# One for all ranks: it is divided.
"$CTL" ls f.listing | shuf --random-source="$CTL" >m/common.txt
for s in range stride; do
  : >all
  for r in 0 1 2; do SHARD_STRATEGY=$s as $r 3 m/common.txt "$PYTHON" -c "$list" "$F" >>all; done
  verdict "one manifest for all, $s" "$(diff -a <(sort all) <(sort m/common.txt) | head -3)"
  [ $s = range ] && verdict "in its order" "$(diff -a all m/common.txt | head -3)"
done
# A manifest that is written anew is seen.
head -7 m/common.txt >m/common.new && mv m/common.new m/common.txt
as 0 1 m/common.txt "$PYTHON" -c "$list" "$F" >got
verdict "a new manifest of the same name" "$(diff -a got m/common.txt)"

# A job keeps the one that it began with, and says so; one that changes while it is read is read anew.
cp m/w0.txt m/job.txt; SHARD_JOB=j as 0 1 m/job.txt "$PYTHON" -c "$list" "$F" >got
cp m/w1.txt m/job.new; mv m/job.new m/job.txt; SHARD_JOB=j as 0 1 m/job.txt "$PYTHON" -c "$list" "$F" >got 2>err
verdict "a job keeps its manifest" "$(diff -a got m/w0.txt | head -3; grep -q "SHARD_JOB='j' listed it .* no process of that job has it open" err || shown cat err)"
SHARD_JOB=k as 0 1 m/job.txt "$PYTHON" -c "$list" "$F" >got 2>&1; verdict "the next job has the new one" "$(diff -a got m/w1.txt | head -3)"
gzip -c m/w0.txt >m/slow.txt.gz; gzip -c m/w1.txt >slow.new; mkdir stub
printf '#!/bin/sh\n[ ! -e slow.new ] || mv slow.new m/slow.txt.gz\nexec %s "$@"\n' "$(command -v gzip)" >stub/gzip; chmod 755 stub/gzip
PATH=$PWD/stub:$PATH as 0 1 m/slow.txt.gz "$PYTHON" -c "$list" "$F" >got 2>&1
verdict "a manifest that changes while it is read" "$([ ! -e slow.new ] || echo 'it did not'; diff -a got m/w1.txt | head -3)"
(cd "$D" && find ./* -type f ! -path './a/*' | head -3) >m/few.txt; DATASET=$D SHARD_INCLUDE='*.jpeg' as 0 1 m/few.txt ls "$D/a" >got 2>&1
verdict "a directory that a manifest does not have, whatever SHARD_INCLUDE" "$(grep -vx deep got)"

# Listings made of texts; a listing for each rank.
unset DATASET
"$CTL" index tree -o text.listing --root "$D" --quiet >/dev/null
: >all
for r in 0 1 2; do SHARD_LOG=error as $r 3 text.listing "$PYTHON" -c "$walk" "$D" >>all 2>err; done
verdict "a listing of a text" "$(diff -a <(LC_ALL=C sort all) tree; cat err)"
for r in 0 1 2; do "$CTL" index m/r${r}_e0.txt -o m/$r.listing --root "$D" --quiet >/dev/null; done
as 2 3 m/%r.listing "$PYTHON" -c "$walk" "$D" >got
verdict "a listing for each rank" "$(diff -a <(LC_ALL=C sort got) <(LC_ALL=C sort m/r2_e0.txt))"
"$CTL" index m/twice0.txt -o m/t.listing --order directory --quiet >/dev/null
verdict "order directory" "$("$CTL" ls m/t.listing | diff -a - m/twice0.txt | head -3)"
printf '%s\n' b/2 a/9 c b/1 a/9 b/x/y b/0 >m/o.txt
"$CTL" index m/o.txt -o m/o.listing --order directory --quiet >/dev/null
verdict "order directory: within each" "$("$CTL" ls m/o.listing | tr '\n' ' ' | diff - <(printf 'c a/9 a/9 b/2 b/1 b/0 b/x/y '))"
verdict "order directory: stat" "$("$CTL" stat m/o.listing | grep -q 'order *directory' || echo no)"

# refused NAME WORDS [VARIABLE=VALUE...] LISTING

# Names that are longer than those of most file systems: readdir() gives them, and readdir_r() has room for 255 bytes. The
# names in between are looked for, and are there.
program readdir_r; H=$WORK/long; mkdir "$H"; export DATASET=$H
"$PYTHON" - "$H" <<'P'
import os, sys
lengths = [1, 254, 255, 256, 257, 258, 259, 260, 261, 262, 300, 1000, 255, 253, 4]
names = [f"n{k:03}".ljust(lengths[k // 10] if k % 10 == 5 else 0, "x") for k in range(151)]
for name in names:
    if len(name) < 256:
        open(os.path.join(sys.argv[1], name), "w").close()
with open("m/long.txt", "w") as stream, open("long.want", "w") as want:
    stream.writelines(name + "\n" for name in names)
    want.writelines(name + "\n" for name in names if len(name) < 256)
P
"$CTL" index m/long.txt --no-check --root "$H" -o long.listing --quiet >/dev/null
as 0 1 long.listing "$PYTHON" -c "$list" "$H" >got 2>err
verdict "long names: readdir" "$(diff got m/long.txt | cut -c1-80 | head -3; cat err)"
as 0 1 long.listing ./readdir_r "$H" >got 2>err
{ for pass in 1 2; do printf '.\n..\n'; cat long.want; echo 'File name too long, again File name too long'; done; } >want
verdict "long names: readdir_r" "$(diff got want | cut -c1-80 | head -5; cat err)"
"$CTL" index "$H" -o h.listing --quiet >/dev/null; as 0 1 h.listing ./readdir_r "$H" >got 2>err
verdict "names of 255 bytes: readdir_r as libc's" "$(diff <(sort got) <(./readdir_r "$H" | sort) | cut -c1-80 | head -5; cat err)"
unset DATASET

refused() {
  local name=$1 words=$2 l=${*: -1}; shift 2
  env "${@:1:$#-1}" bash -c 'SHARD_DATASET=${SHARD_DATASET:-'"$D"'} SHARD_RANK=0 SHARD_SIZE=2 SHARD_LISTING=$1 LD_PRELOAD=$2 exec ls "$3"' - "$l" "$LIB" "$D" >got 2>err
  local status=$?
  verdict "refused: $name" "$([ $status = 2 ] || echo "status $status"; [ ! -s got ] || echo "lists $(head -3 got)"; grep -q -- "$words" err || shown cat err)"
}
printf "a/1.jpeg\n" >m/odd.list
refused "no such manifest" "SHARD_LISTING='.*m/nothing0.txt'.*No such" 'm/nothing%r.txt'
refused "a manifest of another name" "a manifest.s name ends in .txt" m/odd.list
refused "a wrong letter" "SHARD_LISTING=.*%r stands for the rank" 'm/%p.txt'
refused "hash" "SHARD_STRATEGY=hash" SHARD_STRATEGY=hash 'm/r%r_e0.txt'
refused "two datasets" "SHARD_DATASET must name one" SHARD_DATASET="$D:$F" 'm/r%r_e0.txt'
printf 'a/1.jpeg\n\nb\n' >m/bad.txt; refused "an empty line" "bad.txt, line 2" m/bad.txt
printf 'a/1.jpeg\n/etc/passwd\n' >m/bad.txt; refused "outside" "bad.txt, line 2.*/etc/passwd" m/bad.txt
printf 'a/1.jpeg\na/\n' >m/bad.txt; refused "a directory" "bad.txt, line 2" m/bad.txt
printf 'a/1.jpeg\nnone/1.jpeg\n' >m/bad.txt; refused "a directory that is not there" "line 2: its directory 'none' .*No such file" m/bad.txt
printf 'a/1.jpeg\na/none.jpeg\n' >m/bad.txt; refused "a name that is not there" "names 'a/none.jpeg'" m/bad.txt
printf 'a/../1.txt\n' >m/bad.txt; refused "two dots" "bad.txt, line 1" m/bad.txt
cp f.listing m/z0.listing; refused "a listing of another directory" "m/z0.listing' is of another" 'm/z%r.listing'
"$CTL" index tree --order directory --unique -o x >/dev/null 2>err; verdict "order directory and unique" "$([ $? = 2 ] || echo "status $?")"
"$CTL" index "$D" --order directory -o x >/dev/null 2>err; verdict "order directory of a directory" "$([ $? = 2 ] || echo "status $?")"
finish
