#!/bin/bash
# SPDX-License-Identifier: MIT
# The shard view by every call that lists: the calls agree with each other and with lstat, the
# ranks' shares are a partition, and descriptors may come and go in any way.
. "$(dirname "$0")/lib.bash"
needs mpirun
in_namespace
mounts=()
trap 'cd /; for m in "${mounts[@]}"; do umount -l "$m"; done; rm -rf --one-file-system "$BASE"' EXIT
program calls
export SHARD_CACHE_DIR=$WORK/cache
D=$WORK/data; mkdir -p "$D"/{a/deep,b,empty,z}
touch "$D"/{a.txt,a-b,a0,b.txt,m,zz} "$D"/a/f{01..40} "$D"/a/deep/{x,y} "$D"/z/{1,2} \
  "$D"/b/img_{000..060} "$D/b/$(printf 'n%.0s' {1..255})" "$D/b/"$'\xff\xfe' "$D/b/"$'nl\n' "$D/b/with blank"
mkfifo "$D/b/fifo"; ln -s nowhere "$D/b/dangling"; ln -s "$D/a" "$D/b/to_directory"; ln -s ../m "$D/b/to_file"
"$PYTHON" -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$D/b/socket"

# view RANK SIZE STRATEGY SEED COMMAND...; SEED - is none
view() {
  local r=$1 p=$2 s=$3 seed=$4; shift 4
  [ "$seed" = - ] || export SHARD_SEED=$seed
  SHARD_DATASET=${DATASET:-$D} SHARD_RANK=$r SHARD_SIZE=$p SHARD_STRATEGY=$s LD_PRELOAD=$LIB \
    timeout 300 "$@" </dev/null
  local status=$?
  unset SHARD_SEED
  return $status
}
# ranks SIZE STRATEGY SEED COMMAND...: each rank's names to $WORK/rank.N, what every rank sees once;
# prints what is wrong with that: a status, words, a file that is in two shares or none (of the
# sorted $WORK/want), shares that differ by more than $DIFFER
ranks() {
  local p=$1 s=$2 seed=$3 r n least=999999 most=0; shift 3
  for ((r = 0; r < p; r++)); do
    view $r $p $s $seed "$@" 2>"$WORK/err" | sort -z >"$WORK/rank.$r"
    [ "${PIPESTATUS[0]}" = 0 ] || echo "rank $r: status"
    sed -i '/no process of that job has it open/d; /fewer files than there are ranks/d' "$WORK/err" # ranks one after the other: that is said of SHARD_JOB
    [ -s "$WORK/err" ] && echo "rank $r: $(head -c 300 "$WORK/err")"
    n=$(comm -z -23 "$WORK/rank.$r" "${COMMON:-/dev/null}" | tr -dc '\0' | wc -c)
    ((n < least)) && least=$n; ((n > most)) && most=$n
    [ -z "${COMMON:-}" ] || comm -z -13 "$WORK/rank.$r" "$COMMON" | tr '\0' ' '
  done
  for ((r = 0; r < p; r++)); do comm -z -23 "$WORK/rank.$r" "${COMMON:-/dev/null}"; done | sort -z >"$WORK/got"
  cmp -s "$WORK/want" "$WORK/got" || diff -a <(tr '\0' '\n' <"$WORK/want") <(tr '\0' '\n' <"$WORK/got") | head -4
  [ $s = hash ] || ((most - least <= ${DIFFER:-1})) || echo "shares from $least to $most"
}
# all NAME COMMAND...: the above for few ranks and all strategies, with and without a seed
all() {
  local name=$1 p s seed; shift
  for s in ${STRATEGIES:-range stride hash}; do
    for seed in - 7; do
      verdict "$name, $s, seed $seed" "$(for p in ${SIZES:-1 2 3 5}; do ranks $p $s $seed "$@"; done)"
    done
  done
}
# files DIR: the sorted names of what is shared out in DIR, to want; the others to $WORK/common
files() {
  (cd "$1" && find . -mindepth 1 -maxdepth 1 ! -xtype d -printf '%f\0') | sort -z >"$WORK/want"
  (cd "$1" && find . -mindepth 1 -maxdepth 1 -xtype d -printf '%f\0') | sort -z >"$WORK/common"
}
# tree DIR: all files below it
tree() { (cd "$1" && find . -mindepth 1 ! -xtype d -printf '%P\0') | sort -z >"$WORK/want"; : >"$WORK/common"; }
COMMON=$WORK/common

# The test itself, without the library.
for m in agree handed reused full cold chdir threads rewinding closing; do
  verdict "bare $m" "$(timeout 300 "$WORK/calls" $m "$D/b" 100 2>&1 >/dev/null)"
done

# Every call, and all agree.
for d in . b empty a/deep; do
  files "$D/$d"; DIFFER=99 all "calls in $d" "$WORK/calls" agree "$D/$d"
done
tree "$D"; echo -n "b/to_directory" | sed 's/$/\x0/' >"$WORK/common"
all "a walk" "$WORK/calls" walk "$D"
files "$D/b"
for m in handed chdir; do DIFFER=99 SIZES=3 all "descriptors $m" "$WORK/calls" $m "$D/b"; done
DIFFER=99 SIZES=2 all "descriptors reused" "$WORK/calls" reused "$D/b"
for s in range hash; do # where nothing is built yet, and it takes a while
  cp "$LIB" "$WORK/libshard.so"; printf '#!/bin/sh\nsleep 0.02\nexec "%s" "$@"\n' "$CTL" >"$WORK/shardctl"; chmod 755 "$WORK/shardctl"
  verdict "cancelled, $s" "$(SHARD_CACHE_DIR=$WORK/cancelled SHARD_DATASET=$D SHARD_RANK=0 SHARD_SIZE=2 SHARD_STRATEGY=$s LD_PRELOAD=$WORK/libshard.so timeout 300 "$WORK/calls" cancelled "$D/b" 2>&1 >/dev/null)"
done
for m in threads cold closing rewinding; do DIFFER=99 SIZES=2 all "$m" "$WORK/calls" $m "$D/b" 60; done

# few FILES: a dataset of its own of so many files
for n in 0 1 2; do
  mkdir "$WORK/few$n"; for ((i = 0; i < n; i++)); do : >"$WORK/few$n/f$i"; done
  files "$WORK/few$n"; DATASET=$WORK/few$n SIZES="1 5" all "$n files" "$WORK/calls" agree "$WORK/few$n"
done

# Sub-trees that are leapt over, with files before, between and behind them.
L=$WORK/leap; mkdir "$L"
"$PYTHON" - "$L" <<'P'
import os, sys
os.chdir(sys.argv[1])
for i in range(3000):
    os.mkdir("d%04d" % i)
    for k in range(400 if i in (0, 1500, 2999) else i % 4):
        open("d%04d/f%d" % (i, k), "w").close()
    if i % 100 == 0:
        open("d%04d-x" % i, "w").close(); open("d%04d0" % i, "w").close()
for k in range(200):
    os.makedirs("d0007/s%d/t" % k); os.makedirs("d0001/s%d/t" % k)
open("a", "w").close(); open("z", "w").close()
P
files "$L"; DATASET=$L DIFFER=99 SIZES=3 all "3,000 sub-directories" "$WORK/calls" agree "$L"
tree "$L"; DATASET=$L SIZES=3 all "3,000 sub-directories, a walk" "$WORK/calls" walk "$L"

# Other paths to the same.
files "$D/b"
ln -s "$D" "$WORK/link"
ways=("$D//b/" "$D/b/../b/." "$WORK/link/b" "$D/a/../../data/b" "/proc/self/root$D/b")
# bind WHAT WHERE
bind() { mkdir -p "$2" && mount --bind "$1" "$2" 2>/dev/null && mounts=("$2" "${mounts[@]}"); }
if bind "$D" "$WORK/bind"; then
  bind "$WORK" "$WORK/bind_top"
  ways+=("$WORK/bind/b" "$WORK/bind_top/data/b")
else
  skip "bind mounts" "mount is not allowed"
fi
for how in "${ways[@]}"; do DIFFER=99 SIZES=3 STRATEGIES="range hash" all "as ${how#"$WORK"/}" "$WORK/calls" list "$how"; done
cd "$WORK/data/b" || exit 2
for how in . ../b; do DIFFER=99 SIZES=3 STRATEGIES="stride hash" all "as $how" "$WORK/calls" list "$how"; done
cd "$WORK" || exit 2
for set in data ./data/ "$WORK/link" "$WORK//data//" ":$D:"; do
  DATASET=$set DIFFER=99 SIZES=3 STRATEGIES=stride all "dataset $set" "$WORK/calls" list "$D/b"
done
if mountpoint -q "$WORK/bind"; then
  files "$D/a/deep"
  DIFFER=99 SIZES=2 all "below a bind mount" "$WORK/calls" agree "$WORK/bind/a/deep"
  tree "$D"; echo -ne "b/to_directory\0" >"$WORK/common"
  DATASET=$WORK/bind SIZES=2 all "a dataset that is a mount" "$WORK/calls" walk "$D"
fi

# Other file systems, by whose own rules a descriptor's position moves.
for kind in tmpfs overlay; do
  if mkdir -p "$WORK/fs/$kind" && case $kind in
    tmpfs) mount -t tmpfs none "$WORK/fs/$kind" ;;
    overlay) mkdir "$WORK/fs/tmpfs"/{upper,work} && mount -t overlay none -o "lowerdir=$D,upperdir=$WORK/fs/tmpfs/upper,workdir=$WORK/fs/tmpfs/work" "$WORK/fs/$kind" ;;
    esac 2>/dev/null; then
    mounts=("$WORK/fs/$kind" "${mounts[@]}")
    F=$WORK/fs/$kind/set; mkdir "$F"; cp -a "$D/b" "$D/a" "$D/m" "$F"
    files "$F/b"; DATASET=$F DIFFER=99 SIZES=2 all "$kind" "$WORK/calls" agree "$F/b"
    [ $kind = tmpfs ] || { files "$WORK/fs/overlay/b"; DATASET=$WORK/fs/overlay DIFFER=99 SIZES=2 all "$kind, lower" "$WORK/calls" agree "$WORK/fs/overlay/b"; }
  else
    skip "$kind" "mount is not allowed"
  fi
done

# Where /proc is not mounted: the root is found by its inode, and below it names are needed.
if unshare -m true 2>/dev/null; then
  bare=(unshare -m env LD_PRELOAD= bash -c 'mount -t tmpfs none /proc && LD_PRELOAD=$1 exec "$0" list "$2"' "$WORK/calls" "$LIB")
  files "$D"; DIFFER=99 SIZES=2 all "without /proc, the root" "${bare[@]}" "$D"
  for s in range hash; do
    verdict "without /proc, below it, $s" "$(view 0 2 $s - "${bare[@]}" "$D/a" 2>"$WORK/err" | tr '\0' ' '; grep -q "^libshard: .*cannot tell whether.*/proc" "$WORK/err" && grep -q 'Input/output error' "$WORK/err" || shown cat "$WORK/err")"
    verdict "without /proc, elsewhere, $s" "$(view 0 2 $s - "${bare[@]}" "$WORK/few2" 2>&1 | sort -z | tr '\0' ' ' | grep -vx 'f0 f1 ')"
  done
else
  skip "without /proc" "unshare is not allowed"
fi

if mkdir "$WORK/user" && chown 65534 "$WORK/user" 2>/dev/null && setpriv --reuid=65534 --clear-groups true 2>/dev/null; then
  R=$WORK/readable; mkdir -p "$R/sub"; touch "$R"/{1..5} "$R"/sub/{a..g}; chmod 744 "$R/sub"
  cp "$LIB" "$CTL" "$WORK/user"; chmod 755 "$WORK/user"/*; tree "$R"
  SHARD_CACHE_DIR=$WORK/user/cache DATASET=$R COMMON= SIZES=2 STRATEGIES="range stride" all "a directory not to be entered" setpriv --reuid=65534 --clear-groups \
    env LD_PRELOAD="$WORK/user/libshard.so" "$WORK/calls" walk "$R"
else
  skip "a directory not to be entered" "needs root, and setpriv"
fi

# Deeper than PATH_MAX: each level's name has 100 bytes.
P=$WORK/deep
"$PYTHON" - "$P" <<'P'
import os, sys
os.mkdir(sys.argv[1]); os.chdir(sys.argv[1])
for level in range(60):
    for k in range(3):
        open("f%d" % k, "w").close()
    name = "%03d" % level + "n" * 97
    os.mkdir(name)
    os.chdir(name)
P
for ((i = 0; i < 60; i++)); do printf '%d/f%d\0' $i 0 $i 1 $i 2; done | sort -z >"$WORK/want"
for r in 0 1; do # in a dataset that is a limit, and said; elsewhere all is listed
  verdict "60 levels in a dataset, rank $r" "$(DATASET=$P view $r 2 range - "$WORK/calls" deep "$P" 2>&1 >"$WORK/deep.out" | grep -c "SHARD_DATASET='$P' cannot be listed: File name too long.*4095 bytes" | grep -vx 1)"
  verdict "60 levels elsewhere, rank $r" "$(view $r 2 range - "$WORK/calls" deep "$P" 2>&1 | sort -z | cmp - "$WORK/want" 2>&1)"
done

# Descriptors used up: EMFILE or a right list, and right afterwards; also where nothing is built.
used_up() { # NAME DIR
  local s cache r why
  for s in range hash; do for cache in cache none; do
    why=
    for r in 0 1; do
      view $r 2 $s - "$WORK/calls" list "$2" | sort -z | tr '\0' '|' >"$WORK/list"
      SHARD_CACHE_DIR=$WORK/$cache.$s.$r.${2##*/} view $r 2 $s - "$WORK/calls" full "$2" 2>"$WORK/err" >"$WORK/got" || why+="rank $r: status, $(head -c 300 "$WORK/err") "
      grep -v 'Too many open files\|no file descriptor left' "$WORK/err" >"$WORK/words" && why+=$(head -c 300 "$WORK/words")
      "$PYTHON" - "$WORK/got" >"$WORK/lists" <<'P'
import sys
for names in open(sys.argv[1], "rb").read().split(b"\0\0")[:-1]:
    sys.stdout.buffer.write(b"|".join(sorted(names.lstrip(b"\0").split(b"\0"))).replace(b"\n", b" ") + b"|\n")
P
      [ "$(sort -u "$WORK/lists" | cmp - <(tr '\n' ' ' <"$WORK/list"; echo) 2>&1)" = "" ] || why+="rank $r: other names: $(sort -u "$WORK/lists" | wc -l) "
    done
    verdict "$1, $s, $cache" "$why"
  done; done
}
used_up "descriptors used up" "$D/b"
mountpoint -q "$WORK/bind" && used_up "descriptors used up, bind mount" "$WORK/bind/b"

# Change during a process, and between processes.
C=$WORK/change
fresh() { rm -rf "$C" "$WORK/gone"; mkdir -p "$C"/sub; touch "$C"/{1..9} "$C"/sub/{a..k}; }
change() { # NAME DIR COMMAND WANTED-AFTER
  local s seed r
  for s in range stride; do
    for seed in - 7; do
      local why=
      for r in 0 1; do
        fresh
        DATASET=$C view $r 2 $s $seed "$WORK/calls" list "$C/$2" >"$WORK/before"
        DATASET=$C view $r 2 $s $seed "$WORK/calls" change "$C/$2" "$3" >"$WORK/after" 2>&1 || why+="rank $r: $(head -c 300 "$WORK/after")"
        cmp -s "$WORK/after" <(cat "$WORK/before"; printf '\0'; cat "$WORK/before") || why+="rank $r: $(tr '\0' ' ' <"$WORK/before"): $(tr '\0' ' ' <"$WORK/after")"
      done
      verdict "$1 meanwhile, $s, seed $seed" "$why"
    done
  done
}
change "added" . "touch $C/new $C/0"
change "removed" . "rm $C/3 $C/4"
change "renamed" sub "mv $C/sub/a $C/sub/zz"
change "moved and added to" . "mkdir $C/new && touch $C/new/x"
fresh
for r in 0 1; do DATASET=$C view $r 2 stride - "$WORK/calls" walk "$C"; done >/dev/null
touch "$C/new" "$C/sub/new"; rm "$C/1"
tree "$C"; DATASET=$C SIZES=2 all "changed between processes" "$WORK/calls" walk "$C"

# A directory that is removed while it is open: readdir() comes to the end, as libc's does; getdents64() fails, as the kernel's.
program removed
fresh; mkdir "$C/removed"; "$WORK/removed" "$C/removed" >"$WORK/bare"
for s in hash range stride; do
  for seed in - 7; do
    fresh; mkdir "$C/removed"
    DATASET=$C view 0 2 $s $seed "$WORK/removed" "$C/removed" >"$WORK/got" 2>&1
    same "removed while it is open, $s, seed $seed" "$WORK/bare" "$WORK/got"
  done
done
verdict "removed while it is open: a stream ends" "$(grep 'readdir' "$WORK/bare" | grep -v ': 0, no error')"
verdict "removed while it is open: the system call fails" "$(grep -c 'No such file' "$WORK/bare" | grep -vx 2)"

# A job keeps its listing.
fresh; tree "$C"
export SHARD_JOB=one
COMMON= DATASET=$C SIZES=3 STRATEGIES="range stride" all "a job" "$WORK/calls" walk "$C"
touch "$C/new" "$C/sub/new"
for s in range stride; do
  for seed in - 7; do
    why=
    for r in 0 1; do
      DATASET=$C view $r 2 $s $seed "$WORK/calls" walk "$C" 2>"$WORK/err" >"$WORK/rank.$r" || why+="status "
      [ "$(grep -c 'digest [0-9a-f]\{16\}' "$WORK/err")" = 1 ] && [ "$(wc -l <"$WORK/err")" = 1 ] || why+="rank $r says: $(cat "$WORK/err")"
    done
    sort -z "$WORK"/rank.[01] | cmp - "$WORK/want" >"$WORK/cmp" 2>&1 || why+=$(cat "$WORK/cmp")
    verdict "a job after a change, $s, seed $seed" "$why"
  done
done
# a directory that was renamed has none of the job's names; a tree that was renamed above the root has all
for s in range stride; do
  fresh; export SHARD_JOB=two.$s
  DATASET=$C view 0 2 $s - "$WORK/calls" walk "$C" >"$WORK/got"
  mv "$C/sub" "$C/moved"
  verdict "a job after a directory was renamed, $s" "$(for r in 0 1; do DATASET=$C view $r 2 $s - "$WORK/calls" agree "$C/moved" 2>"$WORK/err" | tr '\0' ' '; [ "$(wc -l <"$WORK/err")" = 1 ] || echo "rank $r: $(cat "$WORK/err") "; done)"
  fresh; mkdir "$WORK/up"; mv "$C" "$WORK/up"; rm -rf "$WORK/upper"
  verdict "a tree that is renamed meanwhile, $s" "$(for r in 0 1; do mkdir -p "$WORK/up"; [ -e "$WORK/up/change" ] || mv "$WORK/upper/change" "$WORK/up"; rm -rf "$WORK/upper"
    DATASET=$WORK/up/change view $r 2 $s - "$PYTHON" -c 'import os, sys
os.listdir(sys.argv[1] + "/up/change")
os.rename(sys.argv[1] + "/up", sys.argv[1] + "/upper")
for name in os.listdir(sys.argv[1] + "/upper/change/sub"): print(name)' "$WORK" 2>/dev/null; done | sort | cmp - <(printf '%s\n' {a..k}) 2>&1)"
  rm -rf "$WORK/upper" "$WORK/up"
done
unset SHARD_JOB

# Ranks of one launcher that start at different times.
for s in range hash; do
  fresh; tree "$C"
  SHARD_DATASET=$C SHARD_STRATEGY=$s timeout 300 mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 bash -c '
    cd "$1"; if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then
      for ((i = 0; i < 5000; i++)); do [ -s mpi.0.done ] && break; sleep 0.05; done; touch change/new change/sub/new; rm change/sub/k
    fi
    LD_PRELOAD=$2 ./calls walk change >mpi.$OMPI_COMM_WORLD_RANK 2>mpi.err.$OMPI_COMM_WORLD_RANK
    echo $? >mpi.$OMPI_COMM_WORLD_RANK.done' - "$WORK" "$LIB" >"$WORK/mpi.out" 2>&1
  sort -z "$WORK"/mpi.[01] >"$WORK/got"
  if [ $s = hash ]; then # without a listing: what was there twice is there once, and the new once at most
    uniq -zd "$WORK/got" >"$WORK/twice"
    verdict "ranks started at different times, $s" "$(tr '\0' ' ' <"$WORK/twice"; tr '\0' '\n' <"$WORK/want" | grep -v sub/k | comm -23 - <(tr '\0' '\n' <"$WORK/got"))"
  else
    verdict "ranks started at different times, $s" "$(cmp "$WORK/want" "$WORK/got" 2>&1; cat "$WORK"/mpi.err.[01])"
  fi
  rm -f "$WORK"/mpi.*
done

# Epochs: each a partition of its own, the same in every process.
for s in range stride hash; do
  for d in . b; do
    files "$D/$d"
    why=
    for e in 0 1 2 3; do
      export SHARD_EPOCH=$e
      why+=$(DIFFER=99 ranks 3 $s 5 "$WORK/calls" agree "$D/$d")
      cat "$WORK/rank.1" >"$WORK/epoch.$e"
      view 1 3 $s 5 "$WORK/calls" list "$D/$d" >"$WORK/order.$e"
      sort -z "$WORK/order.$e" | cmp -s - "$WORK/epoch.$e" || why+="another process differs "
    done
    unset SHARD_EPOCH
    [ "$d" = . ] || [ "$(md5sum <"$WORK/epoch.0")" != "$(md5sum <"$WORK/epoch.1")" ] || why+="epochs 0 and 1 are the same"
    [ "$d" = . ] || [ "$(cat "$WORK"/epoch.? | md5sum)" != "$(cat "$WORK"/epoch.{0,0,0,0} | md5sum)" ] || why+="epochs are the same"
    verdict "epochs in $d, $s" "$why"
  done
done
B=$D/b
for d in "$B" "$WORK"; do # as libc's: what is in memory already, and then an error
  for s in range hash; do
    view 0 2 $s - perl -MPOSIX -e 'opendir(D, $ARGV[0]); $a = readdir D; POSIX::close(fileno(D)); $! = 0; @a = readdir D; print $! + 0' "$d" >"$WORK/got" 2>&1
    verdict "a closed descriptor, ${d##*/}, $s" "$(grep -qx 9 "$WORK/got" || shown cat "$WORK/got")"
  done
done
for s in range stride hash; do
  for how in opendir rewinddir seekdir open lseek; do
    why=
    for r in 0 1; do
      for e in 0 1 2; do
        DATASET=$B SHARD_EPOCH=$e view $r 2 $s 5 "$WORK/calls" list "$B"; printf '\0'
      done >"$WORK/want"
      DATASET=$B view $r 2 $s 5 "$WORK/calls" passes "$B" $how >"$WORK/got" 2>&1 || why+="status "
      # the streams of a DIR are shuffled under hash
      for f in want got; do "$PYTHON" -c 'import sys
for p in sys.stdin.buffer.read().split(b"\0\0")[:-1]: print(sorted(p.strip(b"\0").split(b"\0")) if sys.argv[1] == "hash" else p.strip(b"\0").split(b"\0"))' $s <"$WORK/$f" >"$WORK/$f.py"; done
      why+=$(cmp "$WORK/want.py" "$WORK/got.py" 2>&1)
    done
    verdict "epochs that the program sets, $s, $how" "$why"
  done
done
finish
