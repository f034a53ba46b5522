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
program foreign
D=$WORK/data; mkdir -p "$D"/sub/deep "$D/readable" "$WORK/other/sub"
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

# Mounts. The dataset mounted elsewhere is the dataset; a part of it is not, unless SHARD_DATASET names it.
whole() { # NAME DIR COMMAND...: each rank has all of DIR
  local name=$1 dir=$2 s; shift 2
  for s in stride hash; do
    : >"$WORK/err"; verdict "$name, $s" "$(for r in 0 1; do view $r $s "$@" 2>&1 | grep '^f[0-9]' | diff - <(printf '%s\n' $(files "$dir")) | head -3; done; grep '^libshard' "$WORK/err")"
  done
}
if mkdir -p "$WORK/all" "$WORK/part" "$WORK/deep/tree" && mount --bind "$D" "$WORK/all" 2>/dev/null; then
  mounts+=("$WORK/all" "$WORK/part"); mount --bind "$D/sub" "$WORK/part"
  for d in "" /sub /sub/deep; do
    shared "the root, mounted elsewhere: ${d:-itself}" "$(files "$D$d")" "$WORK/closed" "$WORK/all$d" 0
    [ ! $seccomp ] || shared "the root, mounted elsewhere, no statx: ${d:-itself}" "$(files "$D$d")" "$WORK/closed" "$WORK/all$d" 1 statx
    DATASET=$WORK/all shared "a dataset that is a mount: ${d:-itself}" "$(files "$D$d")" "$WORK/closed" "$D$d" 0
  done
  for d in "" /deep; do
    whole "a part that is mounted elsewhere is shown whole: ${d:-itself}" "$D/sub$d" "$WORK/closed" "$WORK/part$d" 0
    DATASET=$WORK/part shared "... but for who names it: ${d:-itself}" "$(files "$D/sub$d")" "$WORK/closed" "$WORK/part$d" 0
  done
  umount "$WORK/all" "$WORK/part"; mounts=()
  # A mount that was detached, and what was mounted over: the kernel's path leads elsewhere, or nowhere.
  mount -t tmpfs none "$WORK/all"; mounts=("$WORK/all"); mkdir "$WORK/all/in"; touch "$WORK"/all/f{1,2} "$WORK"/all/in/f{3,4}
  cat >"$WORK/detach.py" <<'END'
import os, subprocess, sys
how, top, error = sys.argv[1:]
held = [os.open(top + path, os.O_RDONLY) for path in (("", "/in") if how == "detached" else ("",))]
assert len(os.listdir(top)) == 2  # f1 and in, or f2 and in
clean = {**os.environ, "LD_PRELOAD": ""}
subprocess.run(["umount", "-l", top] if how == "detached" else ["mount", "-t", "tmpfs", "none", top], env=clean, check=True)
for one in held:
    try: print(how, os.listdir(one))
    except OSError as e: assert os.strerror(e.errno) == error, e
END
  for how in covered detached; do
    DATASET=$WORK/all; : >"$WORK/err"
    verdict "a root's mount that is $how" "$(view 0 stride "$PYTHON" "$WORK/detach.py" $how "$WORK/all" "Stale file handle"; grep -q "^libshard: .*cannot tell whether directory '.*' is of" "$WORK/err" || shown cat "$WORK/err")"
    [ $how = detached ] || umount "$WORK/all"; unset DATASET
  done
  mounts=()
  # The number of a mount that has gone is given to another one; a name is, too.
  mkdir "$WORK/twice"; touch "$WORK/other/sub/f99"
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
  # A root that cannot be looked at is known by its path.
  export DATASET=$WORK/locked/ds
  (cd "$WORK/locked/ds" && fails "a dataset that may not be looked at" "SHARD_DATASET='$WORK/locked/ds' cannot be listed: .*denied" "${nobody[@]}" "$WORK/closed" . 0; exit $failed) || failed=$((failed + 1))
  for s in stride hash; do
    : >"$WORK/err"; verdict "... and what lies beside it, $s" "$(view 0 $s "${nobody[@]}" ls "$WORK/other" | diff - <(ls "$WORK/other") | head -3; grep -c "SHARD_DATASET='$DATASET': Permission denied; .*search the directories above" "$WORK/err" | grep -vx 1)"
  done
  unset DATASET
  export SHARD_CACHE_DIR=$WORK/cache/root
  chmod 755 "$D/shut"
else
  skip "folders that may not be entered" "cannot become another user"
fi
ln -s loop "$WORK/loop"; mkdir "$WORK/a"
# said NAME DATASET WORDS: what lies elsewhere is listed, and one line has the words
said() {
  : >"$WORK/err"; verdict "$1" "$(DATASET=$2 view 0 stride "$PYTHON" -c "import os, sys; print(*(sorted(os.listdir(sys.argv[1])) for _ in '12'), sep='\n')" "$WORK/other" | uniq -c | grep -v "^ *2 \['f1', .*'f9', 'sub'\]"
    [ "$(grep -c . "$WORK/err")" = 1 ] && grep -q "^libshard: .*$3" "$WORK/err" || shown cat "$WORK/err")"
}
said "a dataset that is a loop" "$WORK/loop" "/loop': Too many levels.*Listing calls at or below that path fail"
said "a dataset that is a file" "$D/f01" "/f01': Not a directory; correct the path, or create the directory"
said "a dataset that is not there" "$WORK/none" "/none': No such file or directory; correct the path, or create the directory"
said "... and a blank in its path" "$WORK/a b" "/a b': No such.*colon"
said "... and a blank in its name" "$WORK/c d" "/c d': No such file or directory; correct the path"
said "... and a pattern" "$WORK/*" "'$WORK/\*': No such.*pattern"
said "... and a tilde" '~/data' "~/data': No such.*HOME"

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
    verdict "a dataset that is $how later, $s" "$(cat "$WORK"/[01] | sort | diff - <(printf 'f%d\n' {0..19} | sort) | head -3; grep -c "SHARD_DATASET='$WORK/t/late'.*create the directory" "$WORK/err" | grep -v '^2$'; grep Error "$WORK/err")"
  done
done

# A root whose path leads to another directory: by another name, or a link that leads elsewhere. The job keeps its names.
mkdir -p "$WORK"/turn/{one,two}/sub; touch "$WORK"/turn/one/f{1..6} "$WORK"/turn/two/f{1..6}
cat >"$WORK/turned.py" <<'END'
import os, sys
how, top = sys.argv[1:]
before = sorted(os.listdir(top + "/ds"))
held = os.open(top + "/ds/sub", os.O_RDONLY)
if how == "link":
    os.unlink(top + "/ds"); os.symlink("two", top + "/ds")
elif how == "replaced":
    os.rename(top + "/ds", top + "/old"); os.rename(top + "/two", top + "/ds")
elif how == "above":  # the same directory by another path
    os.rename(top, top + "s"); os.symlink(top + "s", top)
elif how == "gone":
    os.rename(top + "/ds", top + "/old")
now = sorted(os.listdir(top + ("/old" if how == "gone" else "/ds")))
assert now == before and len(now) == 4, (before, now)  # three files, and sub
print(os.listdir(held))
END
for how in link replaced above gone; do
  rm -rf "$WORK"/turns "$WORK/turn"; mkdir -p "$WORK"/turn/{one,two}/sub; touch "$WORK"/turn/{one,two}/f{1..6}; : >"$WORK/err"
  case $how in link | above) ln -s one "$WORK/turn/ds" ;; *) mv "$WORK/turn/one" "$WORK/turn/ds" ;; esac
  verdict "a root's path leads elsewhere: $how" "$(DATASET=$WORK/turn/ds view 0 stride "$PYTHON" "$WORK/turned.py" $how "$WORK/turn" 2>&1 | grep -vx '\[\]'
    if [ $how = link ]; then grep "SHARD_DATASET='$WORK/turn/ds' leads to '$WORK/turn/two' now, and led to '$WORK/turn/one'.*link" "$WORK/err" | wc -l | grep -vx 1; else cat "$WORK/err"; fi)"
done
rm -rf "$WORK/turn" "$WORK/turns"

# Nested datasets, and one directory named twice, are refused; what is on neither is listed.
ln -s "$D" "$WORK/same"
for set in "$D:$D/sub" "$D/sub/deep:$D" "$D:$WORK/same" "$D:$D"; do
  other=${set##*:}; [ "$other" != "$D" ] || other=${set%%:*}
  DATASET=$set fails "nested: ${set//"$WORK"/}" "SHARD_DATASET names '.*' and '.*': *|SHARD_DATASET names '.*' and '.*lies in the other.*name one of the two" ls "$D"
  DATASET=$set fails "nested: ${set//"$WORK"/}, the other" "SHARD_DATASET names '.*' and '.*lies in the other.*name one of the two" ls "$other/"
done
verdict "... with EINVAL" "$(DATASET=$D:$D/sub view 0 stride "$PYTHON" -c "import errno, os
try: print(os.listdir('$D/sub/deep'))
except OSError as e: assert e.errno == errno.EINVAL, e
assert len(os.listdir('$WORK/other')) == 10" 2>&1 | grep -v '^libshard')"

# A world of one sees the real directory, and makes no listing.
for more in SHARD_STRATEGY=range SHARD_STRATEGY=hash SHARD_INCLUDE=x; do
  verdict "a world of one, $more" "$(touch "$D/new" && env SHARD_CACHE_DIR="$WORK/no-cache" SHARD_DATASET="$D" SHARD_RANK=0 SHARD_SIZE=1 $more LD_PRELOAD="$LIB" ls -aU "$D" 2>&1 | diff - <(ls -aU "$D") | head -3; ls -d "$WORK/no-cache" 2>/dev/null; rm "$D/new")"
done
verdict "... but with a shuffle" "$(env SHARD_CACHE_DIR="$WORK/no-cache" SHARD_SEED=1 SHARD_DATASET="$D" SHARD_RANK=0 SHARD_SIZE=1 LD_PRELOAD="$LIB" ls -A "$D" 2>&1 | diff - <(ls -A "$D") | head -3; ls "$WORK/no-cache" | grep -q 'listing$' || echo "no listing")"
verdict "... and a bad variable is one" "$(SHARD_STRATEGY=none SHARD_DATASET=$D SHARD_RANK=0 SHARD_SIZE=1 LD_PRELOAD=$LIB ls "$D" 2>&1 | grep -q 'SHARD_STRATEGY' || echo "no line")"

# Which dataset a directory is of costs as much, whatever there is beside it.
for n in 80 8000; do
  mkdir "$WORK/$n"; (cd "$WORK/$n" && mkdir sub && seq -f 'd%g' $n | xargs mkdir && touch f{1..9})
  DATASET=$WORK/$n view 0 stride strace -f -qq -o "$WORK/trace.$n" perl -e 'sub l { opendir(D, shift); my @a = readdir D; closedir D; -e "/mark" } l "$ARGV[0]"; l "$ARGV[0]/sub"' "$WORK/$n" >/dev/null
  sed '1,/"\/mark"/d;/"\/mark"/,$d' "$WORK/trace.$n" | wc -l
done >"$WORK/counts" 2>>"$WORK/err"
verdict "as many calls in a tree of 82 directories as of 8,002" "$(uniq "$WORK/counts" | wc -l | grep -vx 1 && cat "$WORK/counts"; [ "$(wc -l <"$WORK/counts")" = 2 ] && ! grep -qx 0 "$WORK/counts" || shown cat "$WORK/counts")"

# A directory that is removed while it is read has ended. What another library serves is refused.
verdict "a directory that is removed" "$(for s in stride hash; do rm -rf "$D/going"; mkdir -p "$D/going/on"
  view 0 $s perl -e 'my $d = shift; opendir(D, $d); rmdir "$d/on"; rmdir $d; $! = 0; my @a = grep { !/^\.|on$/ } readdir D; print "$!: @a\n" if $! or @a;
    mkdir $d; open(my $o, "<", $d); rmdir $d; opendir(E, "/proc/self/fd/" . fileno($o)) or print "again: $!\n"; $! = 0; @a = readdir E; print "E $!\n" if $!' "$D/going" 2>&1; done)"
for way in opendir fdopendir scandir fts nftw glob; do
  : >"$WORK/err"
  verdict "made up by another library: $way" "$(SHARD_DATASET=$D SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD="$LIB $BUILD/tests/madeup.so" "$WORK/foreign" $way "$WORK/other" 2>"$WORK/err" | grep -vE "^$way: (Operation not supported|aborted)$"
    grep -q '^libshard: .*another preloaded library.*unset SHARD_DATASET' "$WORK/err" || shown cat "$WORK/err"
    LD_PRELOAD=$LIB SHARD_DATASET=$D SHARD_RANK=0 SHARD_SIZE=2 "$WORK/foreign" bad / | grep -vx 'bad: Bad file descriptor, Bad file descriptor')"
done

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
refused "a directory before its files" "line 2: .*directory" "echo f1; echo tars; echo tars/f5"
refused "names with .." "line 2: .*'\.\.'" "echo f1; echo tars/../f2"
refused "a slash at the end" "line 1: .*directory" "echo f1/"
# unused NAME WORDS COMMANDS: when it is used
unused() {
  (cd "$T" && eval "$3") | "$CTL" index - --no-check --root "$T" -o "$WORK/l" --quiet >/dev/null; : >"$WORK/err"
  verdict "$1" "$(export DATASET=$T SHARD_LISTING=$WORK/l; view 0 stride ls "$T" && echo "it works"; grep '^libshard: ' "$WORK/err" | grep -q "$2" || shown cat "$WORK/err")"
}
refused "names from one directory higher" "line 1: its directory 'train' .*No such file" "cd ..; find train -type f"
ln -s tars "$T/linked"; ln -s "$WORK/valid" "$T/away"
refused "names through a link" "line 1: its directory 'linked' .*is a link" "find -L linked -type f"
refused "names through a link that leads away" "line 2: its directory 'away' .*is a link" "echo f1; echo away/f1"
refused "some names of a directory that is not there" "line 30: its directory 'tarss' " "printf 'f1\\n%.0s' {1..29}; echo tarss/f5; seq -f tars/%g 30 900"
rm "$T/linked" "$T/away"
refused "names from one directory lower" "line 1: it names 'f5', .*No such file" "cd tars; ls"
refused "directories as files" "line 1: 'tars' is a directory" "ls -1r"
unused "names from one directory lower" "SHARD_LISTING='$WORK/l' names 'f5'.*'$T'.*No such file" "cd tars; ls"
unused "directories as files" "SHARD_LISTING='$WORK/l' names 'tars'.*directory" "ls -1r"
"$CTL" index "$WORK/valid" -o "$WORK/l" --quiet >/dev/null; : >"$WORK/err"
verdict "a listing of another directory" "$(export SHARD_LISTING=$WORK/l; DATASET=$T tree 0 >/dev/null; grep -q "SHARD_LISTING='$WORK/l' has no listing of '$T', which is walked" "$WORK/err" || echo "says $(cat "$WORK/err")")"

# A name cannot forge a line, nor send a terminal's commands.
DATASET=$WORK/$'x\nlibshard forged\e[2J\xc2\x9b2J\x9b2Jy' view 0 stride ls "$WORK/other" >/dev/null
verdict "one line, of printed characters" "$(grep -ac forged "$WORK/err" | grep -v '^1$'; grep -a '^libshard forged' "$WORK/err"; grep -aqP '[\x00-\x08\x0b-\x1f\x7f-\x9f]' "$WORK/err" && cat -v "$WORK/err")"
finish
