#!/bin/bash
# SPDX-License-Identifier: MIT
# The shard view: over all ranks every file of the dataset once, everything else everywhere.
. "$(dirname "$0")/lib.bash"
program calls
program forks
export SHARD_CACHE_DIR=$WORK/cache
D=$WORK/top/data; mkdir -p "$D"/{a/deep/deeper,b,empty,.hid} "$WORK/top/other"
touch "$D"/{1,2,3,4}.txt "$D"/a/{1,2,3,4,5,6,7}.jpeg "$D"/a/deep/{x,y}.jpeg "$D"/a/deep/deeper/z \
  "$D"/b/img_{000..040}.jpeg "$D/.hid/f" "$D/.hidden" "$WORK"/top/other/{1..9} "$WORK/top/near"
touch "$D/with blank" "$D/with"$'\n'"newline" "$D/"$'\xff\xfe'"bytes" "$D/b/"$'\xc3\xa9'".jpeg"
ln -s 1.txt "$D/link.txt"; ln -s nowhere "$D/dangling"; ln -s a "$D/link_to_a"
ln -s "$WORK/top/other" "$D/link_out"; ln -s "$D" "$WORK/link_to_data"
cd "$WORK/top" || exit 2

# view RANK SIZE STRATEGY COMMAND...
view() {
  local r=$1 p=$2 s=$3; shift 3
  SHARD_DATASET=${DATASET:-$D} SHARD_RANK=$r SHARD_SIZE=$p SHARD_STRATEGY=$s LD_PRELOAD=$LIB \
    timeout 300 "$@"
}
# shares NAME WANTED DIFFER COMMAND...: COMMAND prints names ended by NUL. Over the ranks: WANTED
# (a sorted file), nothing twice, shares that differ by at most DIFFER.
shares() {
  local name=$1 want=$2 differ=$3 p s r n least most why; shift 3
  for p in 1 2 3 5; do
    for s in range stride; do
      : >"$WORK/all"; least=999999 most=0 why=
      for ((r = 0; r < p; r++)); do
        view $r $p $s "$@" >"$WORK/one" 2>"$WORK/err" || why+="rank $r: status $?, $(cat "$WORK/err"). "
        sed -i '/some directories have fewer files than there are ranks/d' "$WORK/err"
        [ -s "$WORK/err" ] && why+="rank $r says $(cat "$WORK/err"). "
        n=$(tr -dc '\0' <"$WORK/one" | wc -c)
        ((n < least)) && least=$n; ((n > most)) && most=$n
        cat "$WORK/one" >>"$WORK/all"
      done
      sort -z "$WORK/all" >"$WORK/sorted"
      cmp -s "$want" "$WORK/sorted" || why+="$(diff -a <(tr '\0' '\n' <"$want") <(tr '\0' '\n' <"$WORK/sorted") | head -5)"
      ((most - least <= differ)) || why+="shares from $least to $most"
      verdict "$name, $p ranks, $s" "$why"
    done
  done
}
# everywhere NAME COMMAND...: each rank prints the lines that the bare program prints
everywhere() {
  local name=$1 r why=; shift
  "$@" 2>&1 | sort >"$WORK/want"
  for r in 0 1 2; do
    view $r 3 range "$@" 2>&1 | sort >"$WORK/got"
    cmp -s "$WORK/want" "$WORK/got" || why+="rank $r: $(diff -a "$WORK/want" "$WORK/got" | head -3) "
  done
  verdict "$name" "$why"
}

walk='import os, sys
for d, dirs, files in os.walk(os.fsencode(sys.argv[1])):
    for f in files: sys.stdout.buffer.write(os.path.join(d, f) + b"\0")'
flat='import os, sys
for f in os.listdir(b"."):
    if not os.path.isdir(f): sys.stdout.buffer.write(f + b"\0")'
find "$D" ! -xtype d -print0 | sort -z >"$WORK/tree"
shares "find" "$WORK/tree" 1 find "$D" ! -xtype d -print0
shares "os.walk" "$WORK/tree" 1 "$PYTHON" -c "$walk" "$D"
shares "from above" "$WORK/tree" 1 find "$WORK/top" -path "$D/*" ! -xtype d -print0
(cd "$D" && find . -maxdepth 1 ! -xtype d -printf '%f\0' | sort -z) >"$WORK/flat"
cd "$D" && shares "os.listdir" "$WORK/flat" 99 "$PYTHON" -c "$flat"
shares "ls -A" "$WORK/flat" 99 bash -c 'ls -A --zero | while IFS= read -rd "" f; do [ -d "$f" ] || printf "%s\0" "$f"; done'
cd "$D/b" && find . -type f -printf '%f\0' | sort -z >"$WORK/flat"
shares "ls of a subdirectory" "$WORK/flat" 99 ls -A --zero
cd "$WORK/top" || exit 2

SHARD_LOG=error everywhere "directories" find "$D" -xtype d
everywhere ". and .." bash -c 'ls -aU | grep -xE "[.]{1,2}" | sort'
everywhere "other directories" ls -la "$WORK/top/other"
everywhere "out through a link" ls -la "$D/link_out/"
everywhere "empty" ls -la "$D/empty"
everywhere "stat and open" bash -c 'cd data; stat -c %n 1.txt a/7.jpeg && cat b/img_040.jpeg'
everywhere "missing" ls "$D/none"

cd "$D/b" || exit 2
for how in "$WORK/link_to_data/b" ../b ./ "$D/b/" "$D/b/../b" "$D//b/." "$WORK/link_to_data/../data/b"; do
  shares "as $how" "$WORK/flat" 99 ls -A --zero "$how"
done
(cd "$D/a" && find . -maxdepth 1 -type f -printf '%f\0' | sort -z) >"$WORK/flat"
shares "link to a directory within" "$WORK/flat" 99 bash -c 'ls -A --zero '"$D"'/link_to_a/ | sed -z "/^deep$/d"'
DATASET=$WORK/link_to_data/ shares "dataset named by a link" "$WORK/tree" 1 find "$D" ! -xtype d -print0
DATASET=$D/a:$D/b shares "two datasets" <(:) 99 true
for d in a b; do
  find "$D/$d" -type f -print0 | sort -z >"$WORK/sub"
  DATASET=$D/a:$D/b shares "two datasets, $d" "$WORK/sub" 1 find "$D/$d" -type f -print0
done

export SHARD_INCLUDE='*.jpeg:*.txt'
find "$D" ! -xtype d \( -name '*.jpeg' -o -name '*.txt' \) -print0 | sort -z >"$WORK/some"
shares "include" "$WORK/some" 1 find "$D" ! -xtype d \( -name '*.jpeg' -o -name '*.txt' \) -print0
everywhere "not included" find "$D" ! -name '*.jpeg' ! -name '*.txt'
export SHARD_INCLUDE='img?.dat'
mkdir "$WORK/locale"; touch "$WORK"/locale/img{1,2,$'\xc3\xa9'}.dat
(cd "$WORK/locale"; printf '%s\0' * | sort -z) >"$WORK/flat"
# shardctl and the host must agree what matches, or a file is in no share: é is one ? or two.
for locale in C C.UTF-8; do
  for r in 0 1 2; do DATASET=$WORK/locale LC_ALL=$locale view $r 3 range ls --zero "$WORK/locale"; done | sort -zu >"$WORK/got"
  same "include, in $locale" "$WORK/flat" "$WORK/got"
done
SHARD_INCLUDE="$(printf "% 600s"):*.dat"
DATASET=$WORK/locale shares "include, of many blanks" "$WORK/flat" 99 ls --zero "$WORK/locale"
SHARD_INCLUDE='img[[:digit:]].dat:img[^[:digit:]]*.dat'
DATASET=$WORK/locale shares "include, with classes" "$WORK/flat" 99 ls --zero "$WORK/locale"
SHARD_INCLUDE='*.none'
for r in 0 1; do DATASET=$WORK/locale view $r 2 range ls --zero "$WORK/locale"; done >"$WORK/got" 2>"$WORK/err"
cat "$WORK/flat" "$WORK/flat" >"$WORK/twice"; same "include, no name matches: every rank has all" "$WORK/twice" "$WORK/got"
verdict "include, no name matches: a line" "$(grep -q "'\*.none': no name below '$WORK/locale' matches" "$WORK/err" || shown cat "$WORK/err")"
unset SHARD_INCLUDE

mkdir "$WORK/few"; touch "$WORK/few"/{one,two}
printf '%s\0' one two >"$WORK/flat"
DATASET=$WORK/few shares "fewer files than ranks" "$WORK/flat" 1 ls --zero "$WORK/few"

# A dataset named by a relative path, and programs that change their directory.
cd "$WORK/top" || exit 2
cat >"$WORK/walk.pl" <<'P'
use File::Find; find(sub { print "$File::Find::name\0" if !-d $_ }, "data");
P
find data ! -xtype d -print0 | sort -z >"$WORK/rel"
DATASET=data shares "relative dataset, os.walk" "$WORK/rel" 1 "$PYTHON" -c "$walk" data
DATASET=data shares "relative dataset, File::Find" "$WORK/rel" 1 perl "$WORK/walk.pl"
DATASET=$D shares "File::Find" "$WORK/rel" 1 perl "$WORK/walk.pl"

# C programs. -U: in the order of the directory, which is that of readdir.
ls -aU --zero "$D/b" | sort -z | sed -z '/^\.\{1,2\}$/d' >"$WORK/flat"
for mode in agree fork shared stack many closed fault; do
  shares "calls $mode" "$WORK/flat" 99 bash -c '"$1" "$2" "$3" >'"$WORK/raw"' || exit; sed -z "/^\.\{1,2\}$/d" '"$WORK/raw" - "$WORK/calls" $mode "$D/b"
done
mkdir "$WORK/many"; (cd "$WORK/many"; seq -f file_%05g 3000 | xargs touch; ls --zero | sort -z >"$WORK/flat")
DATASET=$WORK/many shares "two threads on one stream" "$WORK/flat" 1 bash -c '"$1" shared "$2" >'"$WORK/raw"' || exit; sed -z "/^\.\{1,2\}$/d" '"$WORK/raw" - "$WORK/calls" "$WORK/many"
DATASET=$WORK/many shares "many streams" "$WORK/flat" 1 bash -c 'ulimit -n 16; ls --zero "$1"' - "$WORK/many"

# Deleting under the view fails, and what was hidden stays.
cp -r "$D" "$WORK/copy"; find "$WORK/copy" ! -xtype d | sort >"$WORK/before"
DATASET=$WORK/copy view 0 2 range find "$WORK/copy" ! -xtype d | sort >"$WORK/mine"
DATASET=$WORK/copy view 0 2 range rm -rf "$WORK/copy" >/dev/null 2>&1; status=$?
comm -23 "$WORK/before" "$WORK/mine" >"$WORK/want"
find "$WORK/copy" ! -xtype d 2>/dev/null | sort >"$WORK/got"
same "rm -rf spares the hidden" "$WORK/want" "$WORK/got"
verdict "rm -rf fails" "$([ $status = 0 ] && echo "status 0")"

# One listing for many processes of a job, a new one for the next job.
versions() { ls "$SHARD_CACHE_DIR" | grep -c '\.listing$'; }
SHARD_CACHE_DIR=$WORK/cache2
for r in 0 1 2 3 4 5 6 7; do
  SHARD_JOB=8 DATASET=$WORK/many view $r 8 range ls "$WORK/many" >"$WORK/p$r" & pids[r]=$!
done
wait "${pids[@]}"
verdict "built once for 8 processes" "$([ "$(versions)" = 1 ] || shown ls "$SHARD_CACHE_DIR")"
verdict "8 processes saw all" "$(cat "$WORK"/p[0-7] | sort | cmp - <(ls "$WORK/many") 2>&1)"
touch "$WORK/many/new"
for r in 0 1; do SHARD_JOB=2 DATASET=$WORK/many view $r 2 range ls "$WORK/many"; done | sort >"$WORK/got"
ls "$WORK/many" >"$WORK/want"
same "a new name is seen" "$WORK/want" "$WORK/got"
verdict "by a new listing" "$([ "$(versions)" = 2 ] || shown ls "$SHARD_CACHE_DIR")"
verdict "no leftovers" "$(ls "$SHARD_CACHE_DIR" | grep -E '\.new|\.tmp')"

# A program sets numbers itself, before it lists the dataset or in children that it starts.
mkdir -p "$WORK/set/sub"; touch "$WORK"/set/{0..9} "$WORK"/set/sub/{a..j}
cat >"$WORK/ranks.py" <<'END'
import multiprocessing, os, sys
data, before = sys.argv[1:]
def child(rank, queue):
    os.environ.update(RANK=str(rank), WORLD_SIZE="4", LOCAL_RANK=str(rank))
    found = [os.listdir(data + "/sub")]
    for _, _, names in os.walk(data):
        found.append(names)
    queue.put(found)
if __name__ == "__main__":
    os.listdir("/")
    if before == "listed":
        os.listdir(data)
    for method in ("forkserver", "spawn") if before == "listed" else ("fork", "forkserver", "spawn"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        children = [context.Process(target=child, args=(rank, queue)) for rank in range(4)]
        for one in children:
            one.start()
        found = [queue.get() for _ in children]
        names = [sorted(sum((one[k] for one in found), [])) for k in range(3)]
        if names != [list("abcdefghij"), sorted("0123456789"), list("abcdefghij")]:
            print(method, names)
        for one in children:
            one.join()
END
for launcher in "" "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1" "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2"; do
  for before in not ${launcher:+listed}; do
    out=$(env $launcher SHARD_CACHE_DIR="$WORK/cache4" SHARD_DATASET="$WORK/set" LD_PRELOAD="$LIB" timeout 300 "$PYTHON" "$WORK/ranks.py" "$WORK/set" $before 2>&1 | grep -v ' a world of one: ')
    verdict "numbers that a program sets itself, in '$launcher', $before before" "$out"
  done
done

# A process is one rank, from the first call that lists a dataset on: by each way in which a program may set a variable.
cat >"$WORK/inplace.py" <<'END'
import ctypes, os, sys
text = ctypes.create_string_buffer(b"SHARD_RANK=0")
ctypes.CDLL(None).putenv(text)
for rank in b"01":
    text[11] = rank
    print(*os.listdir(sys.argv[1]), sep="\n")
END
cat >"$WORK/forked.py" <<'END'
import os, sys
os.environ["SHARD_RANK"] = "0"
print(*os.listdir(sys.argv[1]), sep="\n", flush=True)
os.environ["SHARD_RANK"] = "1"
if os.fork() == 0:
    print(*os.listdir(sys.argv[1]), sep="\n")
os.wait()
END
# settled NAME COMMAND...
settled() {
  local name=$1; shift
  (cd "$WORK/set" && SHARD_CACHE_DIR=$WORK/cache4 SHARD_DATASET=$WORK/set SHARD_SIZE=2 SHARD_STRATEGY=stride LD_PRELOAD=$LIB timeout 300 "$@" >"$WORK/out" 2>"$WORK/err")
  verdict "another rank is an error, $name" "$(grep -x '[a-j]' "$WORK/out" | diff - <(printf '%s\n' a c e g i); grep -q 'as rank 0 of 2, and is rank 1 of 2 now' "$WORK/err" || shown cat "$WORK/err")"
}
settled "a text that changes in its place" "$PYTHON" "$WORK/inplace.py" sub
settled "in a forked child" "$PYTHON" "$WORK/forked.py" sub
settled "perl" perl -e 'for my $rank (0, 1) { $ENV{SHARD_RANK} = $rank; opendir(my $d, "sub"); print "$_\n" for grep { !/^\./ } readdir $d }'
settled "a shell" bash -c 'cd sub; for SHARD_RANK in 0 1; do export SHARD_RANK; printf "%s\n" *; done'

verdict "a descriptor that is not for reading" "$(SHARD_CACHE_DIR=$WORK/cache4 DATASET=$WORK/set view 0 2 range "$PYTHON" -c 'import errno, os, sys
try: print(os.listdir(os.open(sys.argv[1], os.O_PATH)))
except OSError as e: print(errno.errorcode[e.errno])' "$WORK/set/sub" 2>&1 | grep -vx EBADF)"

# A child forked while the listing was built must not hold the lock.
mkdir "$WORK/slow" "$WORK/forked"; cp "$LIB" "$WORK/slow"; touch "$WORK/forked"/{1,2,3}
printf '#!/bin/sh\n: >"%s"\nuntil [ -e "%s.forked" ]; do sleep 0.02; done\nexec "%s" "$@"\n' "$WORK/builds" "$WORK/builds" "$CTL" >"$WORK/slow/shardctl"
chmod +x "$WORK/slow/shardctl"; mkfifo "$WORK/hold"; exec 9<>"$WORK/hold"
SHARD_CACHE_DIR=$WORK/cache3 SHARD_DATASET=$WORK/forked SHARD_RANK=0 SHARD_SIZE=2 \
  LD_PRELOAD=$WORK/slow/libshard.so timeout 300 "$WORK/forks" late "$WORK/builds" "$WORK/forked" <"$WORK/hold" 9>&- >/dev/null
touch "$WORK/forked/4"
out=$(for r in 0 1; do SHARD_CACHE_DIR=$WORK/cache3 SHARD_TIMEOUT=100 DATASET=$WORK/forked view $r 2 range ls "$WORK/forked" 2>&1 9>&-; done)
exec 9>&-
verdict "a child forked meanwhile holds no lock" "$([ "$out" = $'1\n2\n3\n4' ] || shown echo "$out")"

# By default each rank sees each class; where a class has too few files, one line says what comes of it.
C=$WORK/classes; mkdir -p "$C"/{cat,dog,owl}; touch "$C"/{cat,dog}/{1..9} "$C"/owl/{1..4}
classes() { # SIZE [VARIABLE=VALUE...]: what each rank sees, and the lines
  local size=$1 r; shift; : >"$WORK/err"
  for ((r = 0; r < size; r++)); do
    env SHARD_CACHE_DIR="$WORK/cache" SHARD_JOB="classes $*" SHARD_DATASET="$C" SHARD_RANK=$r SHARD_SIZE=$size LD_PRELOAD="$LIB" "$@" \
      "$PYTHON" -c 'import os, sys; print(*(len(files) for _, _, files in sorted(os.walk(sys.argv[1]))[1:]))' "$C" 2>>"$WORK/err"
  done
}
verdict "each rank sees each class" "$(classes 4 A=1 | grep -E '\b0\b')"
verdict "... and nothing is said" "$(grep 'fewer files' "$WORK/err")"
verdict "that is stride" "$(cmp <(classes 4 A=2) <(classes 4 SHARD_STRATEGY=stride))"
verdict "with range a rank sees few of them" "$(classes 4 SHARD_STRATEGY=range | grep -qE '\b0\b' || echo all)"
classes 5 A=3 >"$WORK/got"
verdict "a class of fewer files than ranks" "$(grep -qE ' 0$' "$WORK/got" || shown cat "$WORK/got")"
verdict "... is said once in a job" "$([ "$(grep -c "'$C': some directories have fewer files than there are ranks (5).*numbers classes" "$WORK/err")" = 1 ] || shown cat "$WORK/err")"
classes 20 A=4 >"$WORK/got"; verdict "... and not where all have fewer" "$(grep 'fewer files' "$WORK/err")"
finish
