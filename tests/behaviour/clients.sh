#!/bin/bash
# SPDX-License-Identifier: MIT
# Real programs under the shard view: each shows, copies and packs what the same program, bare,
# does over a copy of the tree that holds that rank's files only.
. "$(dirname "$0")/lib.bash"
export SHARD_CACHE_DIR=$WORK/cache SHARD_LOG=error
mkdir "$WORK/whole"
D=$WORK/whole/data; mkdir -p "$D"/{a/deep/deeper,b,empty,.hid,c/"d e"}
size=0
for f in {1..4}.txt a/{1..7}.jpeg a/deep/{x,y}.jpeg a/deep/deeper/z b/img_{000..060}.jpeg .hid/f .hidden \
  "with blank" "new"$'\n'"line" $'\xff\xfe'bytes c/$'\xc3\xa9'.jpeg "c/d e/"{u..z}.jpeg; do
  head -c $((++size * 2671 % 9000)) /dev/zero >"$D/$f"
done
ln -s 1.txt "$D/link.txt"; ln -s nowhere "$D/dangling"; ln -s a "$D/link_to_a"
printf '#!/bin/sh\n' >"$D/run.sh"; chmod 755 "$D/run.sh"

# The same tree without the files of the others.
for s in range hash; do
  for r in 0 1 2; do
    C=$WORK/$s$r; mkdir "$C"; cp -a "$D" "$C/data"
    "$CTL" ls -0 "$D" | sort -z >"$WORK/all"
    "$CTL" ls -0 "$D" --rank $r --size 3 --strategy $s | sort -z >"$WORK/mine"
    [ -s "$WORK/mine" ] || fail "copy, $s, rank $r" "no file"
    (cd "$C/data" && comm -z -23 "$WORK/all" "$WORK/mine" | xargs -0 rm --) || exit 2
    (cd "$D" && find . -type d -print0) | while IFS= read -rd '' d; do touch -r "$D/$d" "$C/data/$d"; done
  done
done

# client NAME SCRIPT [FILTER]: bash runs SCRIPT beside data/, with an empty directory $OUT to write
# to; what it prints and its status are compared as sets of lines.
client() {
  local name=$1 script=$2 filter=${3:-cat} s r why='' program=${1%% *}
  type -P "$program" >/dev/null || { fail "$name" "there is no $program; scripts/setup.sh installs it"; return; }
  export OUT=$WORK/out
  for s in range hash; do
    for r in 0 1 2; do
      rm -rf "$OUT"; mkdir "$OUT"
      (cd "$WORK/$s$r" && timeout 300 bash -c "$script" 2>&1; echo "status $?") | $filter | sort >"$WORK/want"
      rm -rf "$OUT"; mkdir "$OUT"
      (cd "$WORK/whole" && SHARD_DATASET=$D SHARD_RANK=$r SHARD_SIZE=3 SHARD_STRATEGY=$s \
        LD_PRELOAD=$LIB timeout 300 bash -c "$script" 2>&1; echo "status $?") | $filter | sort >"$WORK/got"
      [ "$(wc -l <"$WORK/want")" -gt 1 ] || why+="$s $r: nothing to compare. "
      cmp -s "$WORK/want" "$WORK/got" || why+="$s $r: $(diff -a "$WORK/want" "$WORK/got" | grep -a '^[<>]' | head -2). "
    done
  done
  verdict "$name" "$why"
}
# Sizes of directories are the file system's affair, and what is above data/ is no part of it.
no_sizes() { awk '/^d/ { $5 = "-" } $NF == ".." { next } { $1 = $1; print }'; }

client "find" "find data"
client "find -type f" "find data -type f -printf '%p %s %y\n'"
client "find -L" "find -L data ! -type d"
client "find -depth" "find data -depth -name '*.jpeg'"
client "ls" "ls data data/b"
client "ls -R" "ls -R data"
client "ls -la" "ls -la data data/*" no_sizes
client "ls -f" "ls -f data data/b"
client "ls -U" "ls -U data/b"
client "du" 'du -a --apparent-size data | while IFS= read -r line; do [ -d "${line#*	}" ] && line="-	${line#*	}"; printf "%s\\n" "$line"; done'
client "du -s" "du -s --inodes data/b data/a/deep"
client "tar" "tar -cf - data | tar -tvf -" no_sizes
client "tar --sort=name" "tar --sort=name -C data -cf - . | tar -tf -"
client "rsync" 'rsync -a data/ $OUT/; rsync -r --list-only data/ | grep -v ^d; find $OUT -printf "%P %y\n"; diff -r --no-dereference data $OUT'
client "cp -r" 'cp -r data $OUT; find $OUT -printf "%P %y\n"'
client "cp -a" 'cp -a data/. $OUT; find $OUT -printf "%P %y\n"'
client "grep -r" "grep -rLa x data"
client "diff -r" 'diff -rq data $OUT'
client "bash glob" 'shopt -s globstar dotglob nullglob; printf "%s\n" data/* data/b/*.jpeg data/**; compgen -f data/b/img'
client "dash glob" 'dash -c '\''printf "%s\n" data/* data/.h* data/*/*.jpeg data/b/img_0[0-3]?.jpeg'\'
client "bfs" "bfs data"
client "bfs -depth" "bfs data -depth -type f"
client "fdfind" "fdfind -uu . data"
client "fdfind -e" "fdfind -e jpeg --threads 2 . data"

cat >"$WORK/list.pl" <<'P'
use File::Find; use File::Glob ":bsd_glob";
for my $d ("data", "data/b") { opendir(my $h, $d) or die; print "opendir $_\n" for readdir $h; rewinddir $h; print scalar(() = readdir $h), "\n"; }
print "glob $_\n" for glob("data/* data/*/*.jpeg"), <data/.*>, bsd_glob("data/b/img_0{0,1}*");
find(sub { print "find $File::Find::name\n" }, "data"); finddepth(sub { print "finddepth $_\n" }, "data");
find({ wanted => sub { print "no_chdir $_\n" }, no_chdir => 1, follow => 1, follow_skip => 2 }, "data");
P
client "perl" "perl '$WORK/list.pl'"

cat >"$WORK/list.py" <<'P'
import glob, os, pathlib, shutil, sys
def show(what, names):
    for n in names: sys.stdout.buffer.write(what.encode() + b" " + os.fsencode(n) + b"\n")
for d in "data", "data/a", "data/b", "data/.hid", "data/empty", "data/link_to_a":
    show("listdir", os.listdir(d)); show("bytes", os.listdir(os.fsencode(d)))
    show("scandir", [e.path + str(e.is_dir()) + str(e.is_file(follow_symlinks=False)) for e in os.scandir(d)])
    fd = os.open(d, os.O_RDONLY); show("fd", os.listdir(fd)); show("again", os.listdir(fd)); os.close(fd)
for d, dirs, files in os.walk("data", followlinks=True): show("walk " + d, dirs + files)
for d, dirs, files, fd in os.fwalk("data"): show("fwalk " + d, dirs + files)
show("glob", glob.glob("data/*") + glob.glob("data/**/*.jpeg", recursive=True) + list(glob.iglob("data/b/img_0[0-4]?.*")))
show("iterdir", pathlib.Path("data").iterdir()); show("rglob", pathlib.Path("data").rglob("*"))
shutil.copytree("data", os.environ["OUT"] + "/t", symlinks=True)
for d, dirs, files in os.walk(os.environ["OUT"]): show("copytree " + d, dirs + files)
P
client "$PYTHON" "'$PYTHON' '$WORK/list.py'"

cat >"$WORK/list.js" <<'P'
const fs = require('fs'), path = require('path');
const show = (what, names) => { for (const n of names) console.log(what, n); };
for (const d of ['data', 'data/a', 'data/b', 'data/link_to_a']) {
  const f = fs.opendirSync(d);
  for (let e; (e = f.readSync()) !== null;) console.log('opendir', e.name, e.isDirectory());
  f.closeSync();
}
if (process.argv[2] === 'opendir') process.exit(0);
for (const d of ['data', 'data/a', 'data/b', 'data/link_to_a']) {
  show('readdir', fs.readdirSync(d));
  show('types', fs.readdirSync(d, { withFileTypes: true }).map(e => e.name + e.isDirectory() + e.isFile() + e.isSymbolicLink()));
}
show('recursive', fs.readdirSync('data', { recursive: true }));
fs.readdir('data', (e, names) => show('async', names));
fs.promises.readdir('data/b').then(names => show('promise', names));
fs.cpSync('data', process.env.OUT + '/t', { recursive: true, filter: n => !/bytes$/.test(n) });
show('cp', fs.readdirSync(process.env.OUT + '/t'));
P
client "node opendir" "node '$WORK/list.js' opendir"
client "node readdir" "node '$WORK/list.js'"

cat >"$WORK/List.java" <<'P'
import java.io.File; import java.nio.file.*;
public class List {
  static void show(String what, Object[] names) { for (Object n : names) System.out.println(what + " " + n); }
  public static void main(String[] a) throws Exception {
    for (String d : new String[] {"data", "data/a", "data/b", "data/link_to_a"}) {
      show("list", new File(d).list()); show("listFiles", new File(d).listFiles());
      try (DirectoryStream<Path> s = Files.newDirectoryStream(Path.of(d))) { for (Path p : s) System.out.println("stream " + p); }
      try (DirectoryStream<Path> s = Files.newDirectoryStream(Path.of(d), "*.jpeg")) { for (Path p : s) System.out.println("glob " + p); }
    }
    try (var s = Files.walk(Path.of("data"))) { show("walk", s.toArray()); }
    try (var s = Files.find(Path.of("data"), 9, (p, t) -> t.isRegularFile())) { show("find", s.toArray()); }
  }
}
P
client "java" "java -XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto '$WORK/List.java'"

# README warns: to rsync the files of other ranks are not there.
cp -a "$D" "$WORK/target"
(cd "$WORK/whole" && SHARD_STRATEGY=range SHARD_DATASET=$D SHARD_RANK=0 SHARD_SIZE=3 LD_PRELOAD=$LIB timeout 300 rsync -a --delete data/ "$WORK/target/") 2>&1
(cd "$WORK/range0/data" && find . | sort) >"$WORK/want"; (cd "$WORK/target" && find . | sort) >"$WORK/got"
same "rsync --delete deletes the others' at the target" "$WORK/want" "$WORK/got"
"$CTL" ls -0 "$D" | sort -z >"$WORK/got"; same "and none at the source" "$WORK/all" "$WORK/got"

# rm -rf removes what it sees, and cannot remove what has hidden files.
for s in range hash; do
  cp -a "$D" "$WORK/copy"
  (cd "$WORK" && SHARD_DATASET=$WORK/copy SHARD_RANK=1 SHARD_SIZE=3 SHARD_STRATEGY=$s LD_PRELOAD=$LIB timeout 300 rm -rf copy) 2>"$WORK/err"
  verdict "rm -rf fails, $s" "$([ $? != 0 ] && grep -q "Directory not empty" "$WORK/err" || echo "status, or: $(cat "$WORK/err")")"
  "$CTL" ls -0 "$D" --rank 1 --size 3 --strategy $s | sort -z | comm -z -23 "$WORK/all" - >"$WORK/want"
  "$CTL" ls -0 "$WORK/copy" | sort -z >"$WORK/got"
  same "rm -rf spares the hidden, $s" "$WORK/want" "$WORK/got"
  rm -rf "$WORK/copy"
done
finish
