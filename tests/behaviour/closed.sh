#!/bin/bash
# SPDX-License-Identifier: MIT
# Fails closed: where libshard cannot tell whether a directory is of a dataset, the listing call
# fails, or is answered in another way; it never shows a rank the whole dataset. What has nothing to
# do with a dataset is listed as ever.
. "$(dirname "$0")/lib.bash"
in_namespace
mounts=()
trap 'cd /; for m in "${mounts[@]}"; do umount -l "$m"; done; rm -rf --one-file-system "$BASE"' EXIT
program closed
D=$WORK/data; mkdir -p "$D"/sub/deep "$D/readable" "$WORK/other"
touch "$D"/f{01..20} "$D"/sub/f{21..40} "$D"/sub/deep/f{41..50} "$D"/readable/f{51..70} "$WORK"/other/f{1..9}
mkdir -m 777 "$WORK/cache"
export SHARD_CACHE_DIR=$WORK/cache/root

# view RANK STRATEGY COMMAND...
view() {
  local r=$1 s=$2; shift 2
  SHARD_DATASET=${DATASET:-$D} SHARD_RANK=$r SHARD_SIZE=2 SHARD_STRATEGY=$s LD_PRELOAD=$LIB timeout 300 "$@" 2>>"$WORK/err" </dev/null
}
# shared NAME FILES COMMAND...: two ranks share out these files, by each strategy
shared() {
  local name=$1 files=$2 s; shift 2
  for s in ${STRATEGIES:-stride hash}; do
    : >"$WORK/err"
    verdict "$name, $s" "$(
      for r in 0 1; do view $r $s "$@" >"$WORK/$r" || echo "rank $r: status $?: $(grep -v '^f' "$WORK/$r" | head -3; head -2 "$WORK/err")"; done
      cat "$WORK"/[01] | sort | diff - <(printf '%s\n' $files) | head -3)"
  done
}
# fails NAME WORDS COMMAND...: nothing is listed, and a line of ours has the words
fails() {
  local name=$1 words=$2 s; shift 2
  for s in stride hash; do
    : >"$WORK/err"
    verdict "$name, $s" "$(view 0 $s "$@" >"$WORK/out" && echo "it works"; grep '^f[0-9]' "$WORK/out"
      grep '^libshard: ' "$WORK/err" | grep -qE -- "$words" || shown cat "$WORK/err")"
  done
}
files() { (cd "$1" && echo f*); }

"$WORK/closed" "$D" 1 statx >"$WORK/out" 2>&1; [ $? = 77 ] && seccomp= || seccomp=1
if [ $seccomp ]; then
  # EPERM EIO ESTALE EACCES ENOMEM EMFILE ENOSYS
  for error in 1 5 116 13 12 24 38; do
    for d in "$D" "$D/sub/deep"; do
      shared "statx answers $error in ${d##*/}" "$(files "$d")" "$WORK/closed" "$d" $error statx
      [ $error -gt 5 ] || shared "so does all that tells of a directory, in ${d##*/}: $error" "$(files "$d")" "$WORK/closed" "$d" $error statx newfstatat fstat
    done
    shared "no statx, nor /proc: $error" "$(files "$D")" "$WORK/closed" "$D" $error statx readlink readlinkat
  done
else
  skip "forbidden calls" "seccomp is not allowed"
fi
for d in "$D" "$D/sub"; do
  shared "allocations fail, ${d##*/}" "$(files "$d")" "$WORK/closed" "$d" memory
done

# Mounts that are parts of the dataset, where statx tells of none.
if mkdir "$WORK/part" && mount --bind "$D/sub" "$WORK/part" 2>/dev/null; then
  mounts+=("$WORK/part")
  for d in "$WORK/part" "$WORK/part/deep"; do
    shared "mounted elsewhere: ${d#"$WORK"/}" "$(files "$d")" "$WORK/closed" "$d" 0
    [ ! $seccomp ] || shared "mounted elsewhere, no statx: ${d#"$WORK"/}" "$(files "$d")" "$WORK/closed" "$d" 1 statx
    DATASET=$D:$D/sub shared "in another dataset: ${d#"$WORK"/}" "$(files "$d")" "$WORK/closed" "$d" 0
    [ ! $seccomp ] || DATASET=$D:$D/sub shared "in another dataset, no statx: ${d#"$WORK"/}" "$(files "$d")" "$WORK/closed" "$d" 1 statx
  done
  # A part that something is mounted over, or that has been removed: a listing has other names there.
  C=$WORK/covered; mkdir -p "$C"/{sub/deep,gone,other} "$WORK"/{over,left}; touch "$C"/sub/f{1..6} "$C"/sub/deep/f{11..14} "$C"/other/f{21..23} "$C"/gone/f{31..34}
  DATASET=$C; mounts+=("$WORK/over" "$WORK/left" "$C/sub" "$C/again")
  mount --bind "$C/sub" "$WORK/over"; mount --bind "$C/gone" "$WORK/left"
  shared "a part, before" "$(files "$WORK/over")" "$WORK/closed" "$WORK/over" 0
  cat >"$WORK/late.py" <<END
import os, subprocess
os.listdir('$C')
subprocess.run(['mount', '-t', 'tmpfs', 'none', '$C/sub'], env={**os.environ, 'LD_PRELOAD': ''}, check=True)
print(*(f for f in os.listdir('$WORK/over') if f != 'deep'), sep='\\n')
subprocess.run(['umount', '$C/sub'], env={**os.environ, 'LD_PRELOAD': ''}, check=True)
END
  STRATEGIES=stride shared "covered since this process has its listing" "$(files "$WORK/over")" "$PYTHON" "$WORK/late.py"
  mount -t tmpfs none "$C/sub"; touch "$C"/sub/f{71..74}; rm -r "$C/gone"; mkdir "$C/gone"; touch "$C"/gone/f{81..86}
  for how in 0 "1 statx"; do
    [ "$how" = 0 ] || [ $seccomp ] || continue
    for d in over over/deep left; do
      for s in range stride; do
        : >"$WORK/err"
        # shellcheck disable=SC2086  # words
        verdict "covered, $s${how#[01]}: $d" "$(for r in 0 1; do view $r $s "$WORK/closed" "$WORK/$d" $how; done | grep '^f[0-9]'
          view 0 $s ls "$WORK/$d" >"$WORK/out" && echo "it works"; grep -q 'Stale file handle' "$WORK/err" &&
            grep -q "^libshard: .*SHARD_DATASET='$C'.*mount" "$WORK/err" || shown cat "$WORK/err")"
      done
    done
  done
  STRATEGIES=hash shared "covered: by hash it is divided" "$(files "$WORK/over")" "$WORK/closed" "$WORK/over" 0
  for d in sub gone other; do shared "what covers it is the dataset's: $d" "$(files "$C/$d")" "$WORK/closed" "$C/$d" 0; done
  umount "$C/sub"; shared "a part, uncovered" "$(files "$WORK/over")" "$WORK/closed" "$WORK/over" 0
  # In the dataset itself it has a name of its own.
  mkdir "$C/again"; mount --bind "$C/sub" "$C/again"; mount -t tmpfs none "$C/sub"
  shared "covered, and once more in the dataset" "$(files "$C/again")" "$WORK/closed" "$C/again" 0
  umount "$C/sub" "$C/again" "$WORK/over" "$WORK/left"; unset DATASET; mounts=("${mounts[@]:0:${#mounts[@]}-4}")
  # In another dataset it has a name there, whatever changes in it.
  A=$WORK/first B=$WORK/second; mkdir -p "$A/x" "$B/sub"; touch "$A/f0" "$B"/sub/f{1,2}; mounts+=("$A/x" "$B/sub")
  mount --bind "$B/sub" "$A/x"; mount -t tmpfs none "$B/sub"; touch "$B/sub/g1"
  verdict "covered, and in another dataset" "$(SHARD_DATASET=$A:$B SHARD_RANK=0 SHARD_SIZE=1 LD_PRELOAD=$LIB "$PYTHON" -c "
import os
os.listdir('$A')
assert sorted(os.listdir('$A/x')) == ['f1', 'f2']
open('$A/x/later', 'w').close()
assert sorted(os.listdir('$A/x')) == ['f1', 'f2'], os.listdir('$A/x')" 2>&1)"
  umount "$B/sub" "$A/x"; mounts=("${mounts[@]:0:${#mounts[@]}-2}")
  # The number of a mount that has gone is given to another one; a name is, too.
  mkdir -p "$WORK/other/sub" "$WORK/twice"; touch "$WORK/other/sub/f99"
  for s in stride hash; do
    : >"$WORK/err"
    for r in 0 1; do
      mount --bind "$WORK/other" "$WORK/twice"
      view $r $s "$PYTHON" -c "
import os
assert os.listdir('$WORK/twice/sub') == ['f99']
os.system('LD_PRELOAD= umount $WORK/twice; LD_PRELOAD= mount --bind $D $WORK/twice')
print(*os.listdir('$WORK/twice/sub/deep'), sep='\n')"
      umount "$WORK/twice"
    done >"$WORK/out"
    verdict "mounted where another one was, $s" "$(sort "$WORK/out" | diff - <(printf '%s\n' $(files "$D/sub/deep")) | head -3; head -3 "$WORK/err")"
  done
  # A chroot whose "/" the kernel has no mount of.
  J=$WORK/jail; mkdir -p "$J"/{usr,proc,dev,built,data,cache}; touch "$J"/data/f{1..4}; chmod 700 "$J/cache"
  for d in bin lib lib64; do [ ! -e /$d ] || ln -s usr/$d "$J/$d"; done
  if mount --bind /usr "$J/usr" && mount -t proc proc "$J/proc" && mount --bind /dev "$J/dev"; then
    mounts+=("$J/usr" "$J/proc" "$J/dev"); cp "$LIB" "$BUILD/shardctl" "$J/built"
    for d in usr/lib data; do
      jailed() { timeout 300 chroot "$J" env LD_PRELOAD=/built/libshard.so SHARD_CACHE_DIR=/cache SHARD_DATASET=/data SHARD_RANK=$1 SHARD_SIZE=2 ls "/$d"; }
      verdict "in a chroot: $d" "$({ jailed 0; [ $d = usr/lib ] || jailed 1; } 2>&1 | sort | diff - <(ls "$J/$d" | sort) | head -3)"
    done
  fi
else
  skip "mounts" "mount is not allowed"
fi

# Directories that may be read and not entered, and those below such a one.
nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
chmod 744 "$D/readable"; mkdir -p "$WORK"/{locked,apart}/{ds,other}; touch "$WORK"/{locked,apart}/{ds,other}/f{1..9}
mkdir -p "$D/shut/in"; touch "$D"/shut/in/f{71..79}
if "${nobody[@]}" test -r "$LIB" 2>/dev/null; then
  export SHARD_CACHE_DIR=$WORK/cache/nobody
  mkdir -m 755 "$WORK/only"; cp -r "$D/readable" "$WORK/only"; chmod 744 "$WORK/only/readable"
  DATASET=$WORK/only shared "a folder of mode 744" "$(files "$D/readable")" "${nobody[@]}" "$WORK/closed" "$WORK/only/readable" 0
  DATASET=$WORK/only/readable STRATEGIES=hash shared "a dataset of mode 744" "$(files "$D/readable")" "${nobody[@]}" "$WORK/closed" "$WORK/only/readable" 0
  : >"$WORK/err"
  verdict "a dataset of mode 744, which shardctl cannot list" "$(DATASET=$WORK/only/readable view 0 stride "${nobody[@]}" "$WORK/closed" "$WORK/only/readable" 0 >"$WORK/out" && cat "$WORK/out"; grep '^f[0-9]' "$WORK/out"; grep -q 'libshard: .*denied' "$WORK/err" || shown cat "$WORK/err")"
  chmod 700 "$D/shut" "$WORK/locked"
  cd "$D/shut/in" && fails "below a folder that may not be entered" "SHARD_DATASET|$D" "${nobody[@]}" "$WORK/closed" . 0
  cd "$WORK/locked/other" || exit 2
  for r in 0 1; do DATASET=$WORK/only view $r hash "${nobody[@]}" "$WORK/closed" . 0 >"$WORK/out" 2>&1; verdict "elsewhere below such a one, rank $r" "$(diff "$WORK/out" <(files . | tr ' ' '\n') | head -3)"; done
  cd "$WORK" || exit 2
  DATASET=$WORK/locked/ds fails "a dataset that may not be looked at" "SHARD_DATASET='$WORK/locked/ds'.*denied" "${nobody[@]}" "$WORK/closed" "$WORK/other" 0
  export SHARD_CACHE_DIR=$WORK/cache/root
  chmod 755 "$D/shut"
else
  skip "folders that may not be entered" "cannot become another user"
fi
DATASET=$D/f01 fails "a dataset that is a file" "SHARD_DATASET='$D/f01'.*not a directory|Not a directory" "$WORK/closed" "$WORK/other" 0

# A dataset that is made, moved to or linked to once the process has listed beside it.
cat >"$WORK/later.py" <<'P'
import os, sys
how, top, files = sys.argv[1], sys.argv[2], sys.argv[3]
def make(path):
    os.makedirs(path, exist_ok=True)
    for i in range(20):
        open("%s/f%d" % (path, i), "w").close()
late = os.environ["SHARD_DATASET"]
make(top + "/stage/x/y")
for d in ("stage", "stage/x", "stage/x/y"):
    os.listdir(top + "/" + d)
if how == "made":
    make(late + "/y")
elif how == "moved":
    os.makedirs(late, exist_ok=True)
    os.listdir(top + "/stage/x/y")
    os.rename(top + "/stage", late + "/stage")
else:
    os.symlink(top + "/stage/x", late)
print("\n".join(f for f in os.listdir({"made": late + "/y", "moved": late + "/stage/x/y", "linked": late + "/y"}[how])))
P
for how in made moved linked; do
  for s in stride hash; do
    : >"$WORK/err"
    for r in 0 1; do
      mkdir "$WORK/t"; DATASET=$WORK/t/late view $r $s "$PYTHON" "$WORK/later.py" $how "$WORK/t" f >"$WORK/$r"; rm -r "$WORK/t"
    done
    verdict "a dataset that is $how later, $s" "$(cat "$WORK"/[01] | sort | diff - <(printf 'f%d\n' {0..19} | sort) | head -3; grep -c "SHARD_DATASET='$WORK/t/late'.*make the directory" "$WORK/err" | grep -v '^2$'; grep Error "$WORK/err")"
  done
done

# A root that is replaced while a program has it open. Whose listing has it, or who takes names by
# their hash, goes on; else the listing has other names. What has its place is the dataset's.
mkdir "$WORK/beside"; touch "$WORK/beside/b1"
cat >"$WORK/replaced.py" <<'P'
import os, sys
first, top = sys.argv[1:]
root, gone = top + "/ds", top + "/gone"
os.listdir(first)
held = [os.open(path, os.O_RDONLY) for path in (root, root + "/sub", top)]
os.rename(root, gone)
os.rename(top + "/new", root)
assert sorted(os.listdir(held[2])) == ["ds", "gone"]
if os.path.isdir(os.environ.get("WANTS", "")):
    held = [os.environ["WANTS"], os.environ["WANTS"] + "/sub"]
for one in held[:2]:
    print(*(name for name in os.listdir(one) if name != "sub"), sep="\n")
P
# replaced COMMAND...: for each of two ranks, in a place of its own
replaced() {
  local s=0; mkdir -p "$WORK"/t/{ds,new}/sub
  (cd "$WORK/t" && touch ds/f{0..19} ds/sub/f{20..39} new/g{0..19} new/sub/g{20..39})
  "$@" "$PYTHON" "$WORK/replaced.py" "${FIRST:-$WORK/beside}" "$WORK/t" || s=$?; rm -r "$WORK/t"; return $s
}
of() { printf "$1%d\n" {0..39}; }
export DATASET=$WORK/t/ds
# ranks NAME STRATEGY LETTER COMMAND...
ranks() {
  local name=$1 s=$2 letter=$3 r; shift 3; : >"$WORK/err"
  for r in 0 1; do replaced view $r $s "$@" >"$WORK/$r"; done
  verdict "$name, $s" "$(cat "$WORK"/[01] | sort | diff - <(of "$letter" | sort) | head -3; head -2 "$WORK/err")"
}
ranks "a root that is replaced" hash f
ranks "what a root was is somewhere else" hash f env WANTS="$WORK/t/gone"
FIRST=$WORK/t/ds ranks "a root that is replaced once it is listed" stride f
for s in stride hash; do ranks "what has replaced a root" $s g env WANTS="$WORK/t/ds"; done
for wants in "" "$WORK/t/gone"; do
  : >"$WORK/err"
  verdict "a root that is replaced${wants:+, by its name}, stride" "$(replaced view 0 stride env WANTS="$wants" && echo "it works"
    grep -q 'Stale file handle' "$WORK/err" && grep -q "^libshard: .*SHARD_DATASET='$DATASET'.*replace no dataset" "$WORK/err" || shown cat "$WORK/err")"
done
program forbid
statx=$(printf '#include <sys/syscall.h>\nSYS_statx\n' | gcc -E - | tail -1)
for s in $([ ! $seccomp ] || echo stride hash); do
  : >"$WORK/err"
  verdict "a root that is replaced, and no time of birth, $s" "$(replaced view 0 $s "$WORK/forbid" 1 $statx && echo "it works"
    grep -q 'Input/output error' "$WORK/err" && grep -q '^libshard: .*cannot tell whether' "$WORK/err" || shown cat "$WORK/err")"
done
unset DATASET

# Names that lead nowhere: as find prints them they are made canonical; else they are refused, or
# the listing is, once it is used. Never an empty directory.
T=$WORK/train; mkdir -p "$T/tars" "$WORK/valid"; touch "$T"/f{1..4} "$T"/tars/f{5..9} "$WORK/valid/f1"
tree() { view "$1" stride find "$T" -type f -printf '%f\n'; }
# text NAME COMMANDS: the lines that they print, run in $T, become a listing that two ranks share out
text() {
  : >"$WORK/err"; (cd "$T" && eval "$2") | "$CTL" index - --root "$T" -o "$WORK/l" --quiet >/dev/null 2>"$WORK/err"
  verdict "$1" "$(export DATASET=$T SHARD_LISTING=$WORK/l; { tree 0; tree 1; } | sort | diff - <(printf 'f%d\n' {1..9}) | head -3; cat "$WORK/err")"
}
text "find ." "find . -type f"
text "find, absolute" "find '$T' -type f"
text "odd names" "printf '%s\n' f1 .//f2 ././f3 '$T//f4' tars//f5 tars/./f6; cd tars; printf 'tars/%s\n' f[789]"
# refused NAME WORDS COMMANDS: by index
refused() {
  (cd "$T" && eval "$3") | "$CTL" index - --root "$T" -o "$WORK/no" --quiet >/dev/null 2>"$WORK/err"
  verdict "$1" "$([ $? = 1 ] && [ ! -e "$WORK/no" ] || echo status; grep -q "$2" "$WORK/err" || shown cat "$WORK/err")"
}
refused "find . with directories" "line 1: .*directory" "find ."
refused "a directory before its files" "line 3: .*directory" "echo f1; echo tars; echo tars/f5"
refused "names with .." "line 2: .*'\.\.'" "echo f1; echo tars/../f2"
refused "a slash at the end" "line 1: .*directory" "echo f1/"
# unused NAME WORDS COMMANDS: when it is used
unused() {
  (cd "$T" && eval "$3") | "$CTL" index - --root "$T" -o "$WORK/l" --quiet >/dev/null; : >"$WORK/err"
  verdict "$1" "$(export DATASET=$T SHARD_LISTING=$WORK/l; view 0 stride ls "$T" && echo "it works"; grep '^libshard: ' "$WORK/err" | grep -q "$2" || shown cat "$WORK/err")"
}
refused "names from one directory higher" "line 1: its directory 'train' .*No such file" "cd ..; find train -type f"
ln -s tars "$T/linked"; ln -s "$WORK/valid" "$T/away"
refused "names through a link" "line 1: its directory 'linked' .*is a link" "find -L linked -type f"
refused "names through a link that leads away" "line 2: its directory 'away' .*is a link" "echo f1; echo away/f1"
refused "some names of a directory that is not there" "line 30: its directory 'tarss' " "seq -f tars/%g 29; echo tarss/f5; seq -f tars/%g 30 900"
rm "$T/linked" "$T/away"
unused "names from one directory lower" "SHARD_LISTING='$WORK/l' names 'f5'.*'$T'.*No such file" "cd tars; ls"
unused "directories as files" "SHARD_LISTING='$WORK/l' names 'tars'.*directory" "ls -1r"
"$CTL" index "$WORK/valid" -o "$WORK/l" --quiet >/dev/null; : >"$WORK/err"
verdict "a listing that is used for nothing" "$(export SHARD_LISTING=$WORK/l; DATASET=$T tree 0 >/dev/null; grep -q "SHARD_LISTING='$WORK/l' is not used: it is of '$WORK/valid', not of '$T'" "$WORK/err" || echo "says $(cat "$WORK/err")")"
: >"$WORK/err"; verdict "... but for another dataset" "$(export SHARD_LISTING=$WORK/l; DATASET=$T:$WORK/valid tree 0 >/dev/null; cat "$WORK/err")"

# A name cannot forge a line, nor send a terminal's commands.
DATASET=$WORK/$'x\nlibshard forged\e[2J\xc2\x9b2J\x9b2Jy' view 0 stride ls "$WORK/other" >/dev/null
verdict "one line, of printed characters" "$(grep -ac forged "$WORK/err" | grep -v '^1$'; grep -a '^libshard forged' "$WORK/err"; grep -aqP '[\x00-\x08\x0b-\x1f\x7f-\x9f]' "$WORK/err" && cat -v "$WORK/err")"
finish
