#!/bin/bash
# SPDX-License-Identifier: MIT
# ftw, nftw and fts: over a tree that is not served they do what libc's do, over one that is, what
# libc's do over a tree of the rank's files alone. FUZZ: how many random walks to compare.
. "$(dirname "$0")/lib.bash"
in_namespace
program trees
export SHARD_CACHE_DIR=$WORK/cache SHARD_LOG=error
mkdir "$WORK/lib" "$WORK/other" && cp "$LIB" "$CTL" "$WORK/lib" # where others may read them
touch "$WORK/other/file"
preload="$(ldd "$LIB" | sed -n 's/.*=> \(.*lib[at]san\.so[.0-9]*\) .*/\1/p') $WORK/lib/libshard.so"
view=(env SHARD_DATASET="$WORK/other" SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD="$preload")
as=()

# alike NAME ARGUMENTS...: trees bare and with a dataset elsewhere. Where libc gives up and we need
# not, only what was before counts: fts does not find back from a followed link if it leads to an
# empty directory, or was skipped and then asked for again, and takes paths of some 36 kB for too
# long.
alike() {
  local name=$1; shift
  timeout 300 "${as[@]}" "$WORK/trees" "$@" >"$WORK/want" 2>&1; echo "status $?" >>"$WORK/want"
  timeout 300 "${as[@]}" "${view[@]}" "$WORK/trees" "$@" >"$WORK/got" 2>&1; echo "status $?" >>"$WORK/got"
  case $1,$2, in
  *,nochdir,* | *,logical,*) ;;
  fts*)
    given_up=$(grep -anE '(none|end), errno (2|9|36)$' "$WORK/want" | head -1 | cut -d: -f1)
    [ -n "$given_up" ] && sed -i "$given_up,\$d" "$WORK/want" "$WORK/got"
    ;;
  esac
  same "$name: $1 ${2:--} $3 $4" "$WORK/want" "$WORK/got"
}
ftw_options=("" phys depth chdir phys,chdir phys,depth,chdir depth,chdir,action phys,mount phys,action)
fts_options=(phys phys,nochdir logical logical,nostat phys,nostat phys,seedot phys,nostat,seedot,nochdir
  phys,comfollow,compar logical,compar,mount)
# all NAME DESCRIPTORS SEEDS PATH...: every call
all() {
  local name=$1 numbers=$2 seeds=$3 o n s; shift 3
  for o in "${ftw_options[@]}"; do
    for n in $numbers; do
      for s in $seeds; do alike "$name" nftw "$o" "$n" "$s" "$@"; done
    done
  done
  for o in "${fts_options[@]}"; do
    for s in $seeds; do alike "$name" fts "$o" 0 "$s" "$@"; done
  done
}

# A tree of all that is nasty.
T=$WORK/tree; mkdir -p "$T"/{a/b/c/d/e/f,empty,.hid,n/m} && cd "$T" || exit 2
touch a/{1,2,3} a/b/{1,2} a/b/c/d/e/f/{x,y} .hid/f n/m/1 .hidden
mkdir "$(printf 'd%.0s' {1..255})" $'dir\xff\n'
touch "with blank" $'new\nline' $'\xff\xfebytes' "$(printf 'x%.0s' {1..255})"
for d in d*; do touch "$d/in" "$d/side"; done
ln -s a link_to_a; ln -s nowhere dangling; ln -s . here; ln -s ../.. a/b/up; ln -s loop loop; ln -s a/1 link_to_1
ln -s ../../n a/b/other; mkfifo fifo; ln -s "$T/a/b/c" absolute; ln -s 1/2 a/not_dir
paths=(. a a/ link_to_a link_to_a/ dangling fifo a/b/1 "$T" "$T///" ./a/../n empty none here loop .hid/.. a/1/x)
cd "$T" || exit 2
for c in ftw ftw64 nftw nftw64 nftw_old nftw64_old; do
  for o in "" phys,depth action bad phys,chdir; do alike tree "$c" "$o" 5 0 "${paths[@]}"; done
done
alike tree nftw_old action 5 0 "$T"
alike tree nftw_old action 5 1 "$T"
for o in "" phys bad logical; do alike tree fts64 "$o" 0 1 "${paths[@]}"; done
all "arguments" 3 "0" "${paths[@]}"
all "tree" "-1 1 2 20" "0 1 2" "$T"
for p in "${paths[@]}"; do alike "alone, $p" nftw chdir 1 0 "$p"; alike "alone, $p" fts phys 0 0 "$p"; done
for c in nftw fts; do alike "no path" $c phys 1 0 ""; alike "no path, second" $c phys 1 0 a ""; done
for n in 1 2 5 20; do alike "closed early" fts phys $n 1 "$T"; alike "closed early" fts logical $n 16 "$T" .; done
alike "within" nftw phys,nested 2 0 a
alike "within" nftw chdir,nested 1 0 a
for o in phys depth ""; do alike "to be cancelled" nftw "$o,pending" 2 0 a "$T"; done
alike "within" fts phys,nested 0 0 a
alike "threads" threads "" 0 0 "$T"
alike "many handles" handles "" 0 0 a
for n in 4 5 6 7 9; do
  for how in "nftw phys 20 0" "nftw phys,chdir 20 0" "nftw phys 1 0" "ftw - 2 0" "fts phys 0 0" "fts logical 0 0"; do
    # shellcheck disable=SC2016,SC2086  # expanded there; words
    as=(bash -c 'ulimit -n '$n'; exec "$@"' -) alike "$n descriptors" $how "$T"
  done
done

for how in "nftw phys,inherit 20 0" "nftw phys,chdir,inherit 2 0" "fts phys,inherit 0 0" "fts phys,nochdir,inherit 0 0" "fts phys,comfollow,inherit 0 2"; do
  # shellcheck disable=SC2086
  "${view[@]}" "$WORK/trees" $how "$T" link_to_a >"$WORK/got" 2>&1
  verdict "no descriptor is inherited: $how" "$(grep -a inherited "$WORK/got" | head -3)"
done

# Deeper than a path can be, and than fts can say.
# shellcheck disable=SC2016
deep='import os, sys
os.mkdir(sys.argv[1]); os.chdir(sys.argv[1])
for i in range(int(sys.argv[2])):
    open("f", "w").close(); os.mkdir("d" * 250 + str(i)); os.chdir("d" * 250 + str(i))'
cd "$WORK" && "$PYTHON" -c "$deep" deep 20
ftw_options=("" phys,depth)
all "deep" "1 5 30" "0" deep
"$PYTHON" -c "$deep" deeper 265
fts_options=(phys phys,nostat)
ftw_options=()
all "too deep" 1 0 deeper
alike "too deep" nftw phys 300 0 deeper
# libc's aborts with FTW_CHDIR.
"$WORK/trees" nftw phys,brief 300 0 deeper >"$WORK/want"
for n in 1 5 300; do
  "${view[@]}" "$WORK/trees" nftw phys,chdir,brief $n 0 deeper >"$WORK/got" 2>&1
  same "too deep, changing to it, $n" "$WORK/want" "$WORK/got"
done

# What goes away while it is visited.
for how in "nftw phys 10 0" "nftw depth 10 0" "nftw phys 1 0" "fts phys,compar 0 0" "fts phys,nochdir,compar 0 0" "fts logical,compar 0 0"; do
  rm -rf "$WORK/gone"; mkdir -p "$WORK/gone/"{a,b/c}; touch "$WORK"/gone/{a,b,b/c}/{gone1,z}; mkdir "$WORK"/gone/{a,b/c,.}/gone2
  ln -s gone1 "$WORK/gone/a/gone3"; cp -a "$WORK/gone" "$WORK/gone_again"
  read -r call o n s <<<"$how"
  "$WORK/trees" "$call" "$o,brief,remove" "$n" "$s" gone 2>&1 | sort >"$WORK/want"
  rm -rf "$WORK/gone"; mv "$WORK/gone_again" "$WORK/gone"
  "${view[@]}" "$WORK/trees" "$call" "$o,brief,remove" "$n" "$s" gone 2>&1 | sort >"$WORK/got"
  same "removed meanwhile: $how" "$WORK/want" "$WORK/got"
done

# Directories that may not be read, or not be entered.
if [ "$(id -u)" != 0 ] || setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null; then
  mkdir -p "$WORK/closed/"{none,read,search,all,read_leaf}/sub; rmdir "$WORK/closed/read_leaf/sub"
  cd "$WORK/closed" && touch {none,read,search,all,read_leaf}/{1,2} || exit 2
  ln -s none link_to_none; ln -s read link_to_read; ln -s search/1 link_in; ln -s none/1 link_in_none
  chmod 000 none; chmod 444 read read_leaf; chmod 111 search; chmod 777 .
  [ "$(id -u)" = 0 ] && as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  ftw_options=("" phys depth,chdir phys,chdir phys,action)
  fts_options=(phys phys,nochdir phys,nostat phys,nostat,nochdir logical)
  all "closed" "1 9" "0 1 2 3" . none read search read_leaf link_to_read "$WORK/closed"
  cd search && all "from a closed directory" 2 "0 1" "$WORK/closed/all" ../all . 1
  cd "$WORK" || exit 2
  as=()
  chmod -R 777 "$WORK/closed"
else
  skip "closed directories" "they are open to us"
fi

cd "$WORK" || exit 2
if mkdir "$T/a/mounted" && mount -t tmpfs none "$T/a/mounted" 2>/dev/null; then
  mkdir -p "$T/a/mounted/d"; touch "$T/a/mounted/"{d/,}{1,2}; ln -s a/mounted/d "$T/beside"
  ftw_options=(mount phys,mount mount,chdir,depth phys)
  fts_options=(phys,mount,nochdir logical,mount phys,mount,nostat,seedot,nochdir)
  all "mounts" 3 "0 1 2" "$T/a" "$T/a/mounted"
  rm "$T/beside"; umount "$T/a/mounted"
  mkdir -p "$WORK/root/d/e" && touch "$WORK/root/d/f"
  for f in $(ldd "$WORK/trees" "$LIB" "$CTL" | grep -o '/[^ :]*\.so[^ :]*' | sort -u); do
    cp -L --parents "$f" "$WORK/root"
  done
  mkdir -p "$WORK/root/"{none,dev} "$WORK/root$WORK/lib"; touch "$WORK/root/dev/null"
  cp "$WORK/trees" "$WORK/root"; cp "$LIB" "$CTL" "$WORK/root$WORK/lib"
  inside=(env SHARD_JOB=root SHARD_DATASET=/none SHARD_RANK=0 SHARD_SIZE=2 SHARD_CACHE_DIR=/d/cache LD_PRELOAD="$preload")
  for how in "nftw phys,depth,chdir 3 0" "nftw phys,chdir 1 0" "nftw depth 2 0" "ftw - 2 0" "fts phys 0 0" "fts phys,nochdir 0 1"; do
    # shellcheck disable=SC2086  # words
    "${inside[@]}" chroot "$WORK/root" /trees $how /none >/dev/null 2>&1 # the listing is made now
    # shellcheck disable=SC2086
    chroot "$WORK/root" /trees $how / ///d d >"$WORK/want" 2>&1
    # shellcheck disable=SC2086
    "${inside[@]}" chroot "$WORK/root" /trees $how / ///d d 2>&1 | sed '/no process of that job has it open/d; /some directories have fewer files/d' >"$WORK/got"
    same "root directory: $how" "$WORK/want" "$WORK/got"
  done
else
  skip "mounts and the root directory" "cannot mount"
fi

# Random trees, random walks.
cat >"$WORK/fuzz.py" <<'P'
import os, random, shutil, subprocess, sys
program, preload, other, work, rounds, seed = sys.argv[1:6] + [int(sys.argv[6])]
r = random.Random(seed)
view = dict(os.environ, LD_PRELOAD=preload, SHARD_DATASET=other, SHARD_RANK="0", SHARD_SIZE="2")
ftw, fts = "phys mount chdir depth action".split(), "phys logical comfollow nochdir nostat seedot compar mount".split()
bad = 0

def grow(top):
    dirs = [top]
    os.mkdir(top)
    for i in range(r.randrange(18)):
        name = os.path.join(r.choice(dirs), r.choice("abcdefgh.") + str(i))
        kind = r.randrange(8)
        if kind < 3:
            os.mkdir(name); dirs.append(name)
        elif kind < 6:
            open(name, "w").close()
        else:
            to = r.choice([*dirs, "..", ".", "none", name, "a0/../b1"])
            os.symlink(os.path.relpath(to, os.path.dirname(name)) if to[0] == "/" and r.random() < .7 else to, name)
    return dirs

def run(arguments, env=None):
    return subprocess.run([program, *arguments], env=env, capture_output=True, timeout=60, cwd=work)

for n in range(int(rounds)):
    top = os.path.join(work, "random")
    dirs = grow(top)
    for k in range(4):
        call = r.choice(["ftw", "nftw", "nftw", "nftw_old", "fts", "fts", "fts"])
        options = [o for o in (fts if call == "fts" else ftw) if r.random() < .35]
        if call == "fts" and "phys" not in options and "logical" not in options:
            options.append("phys")
        # libc counts links for FTS_NOSTAT, and wrong if the path is another one by now.
        drawn = 0 if "nostat" in options else r.choice([0, r.randrange(1, 99)])
        number = r.choice([0, 0, 0, r.randrange(20)]) if call == "fts" else r.choice([1, 1, 2, 3, 4, 9])
        paths = [r.choice([top, "random", "random/", "random/.", r.choice(dirs)]) for _ in range(r.choice([1, 1, 2]))]
        a = [call, ",".join(options), str(number), str(drawn), *paths]
        want, got = run(a), run(a, view)
        w, g = want.stdout.splitlines(), got.stdout.splitlines()
        if call == "fts" and "nochdir" not in options and "logical" not in options:
            # See alike.
            for i, line in enumerate(w):
                if line.endswith((b"end, errno 2", b"none, errno 2", b"end, errno 9")):
                    w, g = w[:i], g[:i]
                    break
        if (w, want.stderr, want.returncode) != (g, got.stderr, got.returncode):
            bad += 1
            print(f"seed {seed}, tree {n}: trees {' '.join(a)}: status {got.returncode}", got.stderr.decode()[:300])
            for x, y in zip(w, g):
                if x != y:
                    print(" ", x, "\n ", y); break
    shutil.rmtree(top)
    if bad > 3:
        break
sys.exit(bad > 0)
P
mkdir "$WORK/fuzz"
verdict "random walks" "$("$PYTHON" "$WORK/fuzz.py" "$WORK/trees" "$preload" "$WORK/other" "$WORK/fuzz" "${FUZZ:-120}" "${FUZZ_SEED:-1}" 2>&1)"

# ---- a dataset ----------------------------------------------------------------------------
D=$WORK/top/data; mkdir -p "$D"/{a/deep/deeper,b,empty,.hid} "$WORK/top/other" && cd "$WORK/top" || exit 2
touch "$D"/{1,2,3,4}.txt "$D"/a/{1,2,3,4,5,6,7}.jpeg "$D"/a/deep/{x,y}.jpeg "$D"/a/deep/deeper/z \
  "$D"/b/img_{000..040}.jpeg "$D/.hid/f" "$D/.hidden" "$WORK"/top/other/{1..9}
touch "$D/with blank" "$D/with"$'\n'"newline" "$D/"$'\xff\xfe'"bytes"
ln -s "$WORK/top/other/1" "$D/link.txt"; ln -s nowhere "$D/dangling"; ln -s a "$D/link_to_a"; ln -s .. "$D/a/link_up"

# served RANK SIZE STRATEGY COMMAND...
served() {
  local r=$1 p=$2 s=$3; shift 3
  SHARD_DATASET=$D SHARD_RANK=$r SHARD_SIZE=$p SHARD_STRATEGY=$s LD_PRELOAD=$preload timeout 300 "$@"
}
ways=("nftw phys 20 0" "nftw phys 1 0" "nftw phys,depth 2 0" "nftw phys,chdir 3 0" "nftw64 phys 2 0" "nftw_old phys 9 0"
  "fts phys,compar 0 0" "fts phys,nochdir,compar 0 3" "fts phys,compar 0 1" "fts phys,compar 0 2" "fts phys,compar 0 5"
  "fts phys,nostat,compar 0 0" "fts phys,nostat,compar 0 6" "fts phys,seedot,compar 0 4" "fts logical,compar 0 0"
  "fts logical,compar 0 7" "fts64 phys,compar 0 9" "ftw - 1 0")
for p in 1 2 3 5; do
  for s in range stride; do
    why='' twice='' copies=''
    for ((r = 0; r < p; r++)); do
      rm -rf "$WORK/copy"; mkdir -p "$WORK/copy/data"
      (cd "$D" && served $r $p $s find . -print0) >"$WORK/list"
      tar -C "$D" --null --no-recursion -T "$WORK/list" -cf - | tar -C "$WORK/copy/data" -xpf -
      for i in "${!ways[@]}"; do
        read -r call o n seed <<<"${ways[i]}"
        # A way through all links depends on the order; leave those to directories out.
        [ "$call" = ftw ] && { (cd "$WORK/copy/data" && rm link_to_a a/link_up); continue; }
        (cd "$WORK/top" && served $r $p $s "$WORK/trees" "$call" "$o,brief" "$n" "$seed" data) >"$WORK/raw" 2>&1
        (cd "$WORK/copy" && "$WORK/trees" "$call" "$o,brief" "$n" "$seed" data) >"$WORK/bare" 2>&1
        (cd "$WORK/top" && served $r $p $s "$WORK/trees" "$call" "$o,brief" "$n" "$seed" data) >"$WORK/again" 2>&1
        cmp -s "$WORK/raw" "$WORK/again" || twice+="rank $r, ${ways[i]}: $(diff -a "$WORK/raw" "$WORK/again" | head -3)"
        case $call in nftw*) sort -o "$WORK/raw" "$WORK/raw"; sort -o "$WORK/bare" "$WORK/bare" ;; esac
        cmp -s "$WORK/bare" "$WORK/raw" || copies+="rank $r, ${ways[i]}: $(diff -a "$WORK/bare" "$WORK/raw" | head -4)"
        cat "$WORK/raw" >>"$WORK/union.$i"
      done
    done
    verdict "as over a copy, $p ranks, $s" "$copies"
    verdict "twice the same, $p ranks, $s" "$twice"
    for i in "${!ways[@]}"; do
      read -r call o n seed <<<"${ways[i]}"
      case "$call $seed" in nftw*" 0") ;; "fts 0") ;; *) rm -f "$WORK/union.$i"; continue ;; esac
      "$WORK/trees" "$call" "$o,brief" "$n" "$seed" data >"$WORK/bare"
      diff -a <(sort "$WORK/bare") <(sort -u "$WORK/union.$i") >"$WORK/d" || why+="${ways[i]}: $(head -4 "$WORK/d") "
      # Files, and links but those to directories, once; directories by each rank.
      grep -aE "^(F|NSOK|SLN|SLNONE|SL) " "$WORK/union.$i" | grep -av link_ | sort | uniq -d >"$WORK/d"
      [ -s "$WORK/d" ] && [ $p != 1 ] && why+="${ways[i]}: more than once: $(head -3 "$WORK/d") "
      grep -aE "^(D|DP) " "$WORK/union.$i" | sort | uniq -c | awk -v p=$p '$1 != p' >"$WORK/d"
      [ -s "$WORK/d" ] && why+="${ways[i]}: not by each: $(head -3 "$WORK/d") "
      rm -f "$WORK/union.$i"
    done
    verdict "shares, $p ranks, $s" "$why"
  done
done
cd "$WORK/top" || exit 2
for r in 0 1 2; do
  served $r 3 range "$WORK/trees" threads "" 0 0 data >"$WORK/got" 2>&1
  verdict "threads, rank $r" "$(sort -u "$WORK/got" | sed 1d; grep 00000000 "$WORK/got")"
  served $r 3 range "$WORK/trees" handles "" 0 0 data >"$WORK/got" 2>&1
  verdict "many handles, rank $r" "$(grep -a another "$WORK/got" | head -3)"
  served $r 3 range "$WORK/trees" nftw phys,nested,brief 3 0 data >"$WORK/got" 2>&1
  served $r 3 range "$WORK/trees" nftw phys,brief 3 0 data >"$WORK/want" 2>&1
  grep -av '^  ' "$WORK/got" >"$WORK/raw"
  same "nested, rank $r" "$WORK/want" "$WORK/raw"
  diff <(sed -n 's/  within: 0, //p' "$WORK/got") <(sed -n 's/  child: 0, //p' "$WORK/got") >"$WORK/d"
  verdict "a child sees the same, rank $r" "$(head -3 "$WORK/d")"
done

# A listing that cannot be had, or is damaged: no walk is silently shorter.
export SHARD_CACHE_DIR=$WORK/damaged SHARD_JOB=damaged
served 0 2 range ls "$D" >/dev/null
# Behind the header (listing/format.h): in the first block.
for f in "$WORK"/damaged/*.listing; do printf '\377' | dd of="$f" bs=1 seek=635 conv=notrunc 2>/dev/null; done
for o in phys phys,depth chdir; do
  served 0 2 range "$WORK/trees" nftw $o,brief 3 0 data >"$WORK/got" 2>"$WORK/err"
  verdict "damaged listing, nftw $o" "$(grep -q '^returns -1, errno 5 ' "$WORK/got" || shown cat "$WORK/got")"
done
for o in phys phys,nochdir logical; do
  served 0 2 range "$WORK/trees" fts $o,brief 0 0 data >"$WORK/got" 2>"$WORK/err"
  verdict "damaged listing, fts $o" "$(grep -q "^DNR .* errno 5 " "$WORK/got" || shown cat "$WORK/got")"
done
for o in phys phys,nochdir logical; do
  served 0 2 range "$WORK/trees" fts $o,children,brief 0 0 data >"$WORK/got" 2>"$WORK/err"
  verdict "damaged listing, fts_children $o" "$(grep -q "^ children 100: none, errno 5" "$WORK/got" && grep -q "^ children 0: none, errno 5" "$WORK/got" \
    && grep -q "^DNR .* errno 5 " "$WORK/got" || shown cat "$WORK/got")"
done
# One that cannot be read on is not taken for one below it that cannot be opened.
whole=$preload; preload="$preload $BUILD/tests/denied.so"
served 0 2 hash "$WORK/trees" nftw phys,brief 1 0 data >"$WORK/got" 2>"$WORK/err"
verdict "denied while names are put away" "$(grep -q '^returns -1, errno 13 ' "$WORK/got" || shown tail -2 "$WORK/got")"
preload=$whole
mkdir "$WORK/none"
(export SHARD_CACHE_DIR=$WORK/none/such/file; touch "$WORK/none/such"
 served 0 2 range "$WORK/trees" nftw phys,brief 3 0 data; served 0 2 range "$WORK/trees" fts phys,brief 0 0 data) >"$WORK/got" 2>"$WORK/err"
verdict "no listing: no walk" "$(grep -q '^returns -1' "$WORK/got" && grep -q "^DNR 'data'" "$WORK/got" && ! grep -aE "^F|^D 'data/" "$WORK/got" || shown cat "$WORK/got")"
finish
