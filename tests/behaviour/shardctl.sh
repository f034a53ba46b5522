#!/bin/bash
# SPDX-License-Identifier: MIT
# shardctl: exit codes, output, and what a failure leaves.
. "$(dirname "$0")/lib.bash"
D=$WORK/data; mkdir -p "$D"/{a,b/c,empty,.hid}
touch "$D"/{x,y,.h} "$D"/a/{x,img_{001..100}.jpeg} "$D"/b/{x,z} "$D/b/c/x" "$D/.hid/f" "$D/a.b" \
  "$D/with blank" "$D/"$'\xff'"bytes" "$D/quote\"back\\slash"
ln -s x "$D/link"; ln -s a "$D/dirlink"; ln -s none "$D/dangling"
L=$WORK/l
cd "$WORK" || exit 2

# status NAME CODE ARGUMENTS...: the exit status; stdout is empty unless 0, stderr unless not
status() {
  local name=$1 want=$2 got why=; shift 2
  timeout 30 "$CTL" "$@" >"$WORK/out" 2>"$WORK/err"; got=$?
  [ $got = "$want" ] || why="status $got: $(cat "$WORK/err")"
  [ $want = 0 ] || { [ -s "$WORK/out" ] && why+=" printed: $(cat "$WORK/out")"; [ -s "$WORK/err" ] || why+=" no message"; }
  [ $want = 0 ] && [ -s "$WORK/err" ] && why+=" says $(cat "$WORK/err")"
  verdict "$name" "$why"
}
# says NAME WORD: the message of the last status names it
says() { verdict "$1" "$(grep -qF -- "$2" "$WORK/err" || cat "$WORK/err")"; }

status "index" 0 index "$D" -o "$L"
status "stat" 0 stat "$L"
status "ls" 0 ls "$L"
for c in index ls stat; do status "$c --help" 0 $c --help; done
status "--help" 0 --help
status "--version" 0 --version
status "no command" 2
status "unknown command" 2 frob; says "names it" frob
status "unknown option" 2 index --frob "$D" -o "$L"
verdict "unknown option: says shardctl" "$(grep -q '^shardctl' "$WORK/err" || cat "$WORK/err")"
status "index, no directory" 2 index -o "$L"
status "index, no file" 2 index "$D"
status "index, two directories" 2 index "$D" "$D" -o "$L"
status "index, bad order" 2 index "$D" -o "$L" --order size; says "names the order" size
status "index, bad options" 2 index "$D" -o "$L" --options "hidden=1 colour=red"; says "names the word" colour=red
status "index, long include" 2 index "$D" -o "$L" --include "$(printf '%01200d')"
status "index, s3" 1 index s3://bucket/x -o "$L"
status "index, missing directory" 1 index "$WORK/none" -o "$L"; says "names it" "$WORK/none"
status "index, a file" 1 index "$D/x" -o "$L"; says "names it" "$D/x"
status "index into nowhere" 1 index "$D" -o "$WORK/none/l"; says "names it" "$WORK/none/l"
status "ls, missing" 1 ls "$WORK/none"; says "names it" "$WORK/none"
status "ls, no listing" 1 ls "$D/x"
status "ls, rank alone" 2 ls "$L" --rank 0
status "ls, size alone" 2 ls "$L" --size 2
status "ls, rank = size" 2 ls "$L" --rank 2 --size 2
status "ls, size 0" 2 ls "$L" --rank 0 --size 0
status "ls, rank -1" 2 ls "$L" --rank -1 --size 2
status "ls, bad rank" 2 ls "$L" --rank 1x --size 2
status "ls, bad strategy" 2 ls "$L" --rank 0 --size 2 --strategy hash
status "stat, missing" 1 stat "$WORK/none"; says "names it" "$WORK/none"
"$CTL" ls "$L" >/dev/full 2>"$WORK/err"; verdict "ls to a full device" "$([ $? = 1 ] && [ -s "$WORK/err" ] || echo "status, or no message")"
"$CTL" stat "$L" --json >/dev/full 2>"$WORK/err"; verdict "stat to a full device" "$([ $? = 1 ] || echo status)"

# The names are find's, in byte order.
(cd "$D" && find . ! -xtype d -printf '%P\n' | sort) >"$WORK/want"
"$CTL" ls "$L" >"$WORK/got"; same "names in byte order" "$WORK/want" "$WORK/got"
"$CTL" ls "$D" >"$WORK/got"; same "ls of a directory" "$WORK/want" "$WORK/got"
touch "$D/new"$'\n'"line"
"$CTL" index "$D" -o "$L" >/dev/null
(cd "$D" && find . ! -xtype d -printf '%P\0' | sort -z) >"$WORK/want"
"$CTL" ls -0 "$L" >"$WORK/got"; same "ls -0" "$WORK/want" "$WORK/got"
verdict "nothing left in TMPDIR" "$(mkdir t; TMPDIR=$WORK/t "$CTL" ls "$D" >/dev/null; ls t)"
for p in 1 2 3 5 400; do
  for s in range stride; do
    for ((r = 0; r < p; r++)); do "$CTL" ls -0 "$L" --rank $r --size $p --strategy $s >"$WORK/r$r"; done
    why=$(for ((r = 0; r < p; r++)); do cat "$WORK/r$r"; done | sort -z | cmp - "$WORK/want" 2>&1)
    why+=$(for ((r = 0; r < p; r++)); do tr -dc '\0' <"$WORK/r$r" | wc -c; done | sort -n | sed -n '1p;$p' |
      xargs | awk '$2 - $1 > 1')
    [ $s = range ] && why+=$(for ((r = 0; r < p; r++)); do cat "$WORK/r$r"; done | cmp - "$WORK/want" 2>&1)
    verdict "$p ranks, $s" "$why"
  done
done
"$CTL" ls -0 "$L" --rank 1 --size 3 --strategy stride >"$WORK/got"
sed -zn '2~3p' "$WORK/want" >"$WORK/third"; same "stride is every third" "$WORK/third" "$WORK/got"

# The order of DLIO's sub-folder layout; the same basename at several depths.
cat >"$WORK/order.py" <<'P'
import os, sys
names = sys.stdin.buffer.read().split(b"\0")[:-1]
names.sort(key=lambda n: (os.path.basename(n), n))
sys.stdout.buffer.write(b"".join(n + b"\0" for n in names))
P
"$PYTHON" "$WORK/order.py" <"$WORK/want" >"$WORK/byname"
status "index by basename" 0 index "$D" -o "$WORK/b" --order basename
"$CTL" ls -0 "$WORK/b" >"$WORK/got" 2>&1; same "order by basename" "$WORK/byname" "$WORK/got"
rm "$D"/{x,b/c/x}
status "index by basename, one depth" 0 index "$D" -o "$WORK/b" --order basename
(cd "$D" && find . ! -xtype d -printf '%P\0') | "$PYTHON" "$WORK/order.py" >"$WORK/byname"
"$CTL" ls -0 "$WORK/b" >"$WORK/got" 2>&1; same "order by basename, one depth" "$WORK/byname" "$WORK/got"
(cd "$D" && find . ! -xtype d \( -name '*.jpeg' -o -name z \) -printf '%P\n' | sort) >"$WORK/want"
"$CTL" index "$D" -o "$WORK/i" --include '*.jpeg:z' >/dev/null; "$CTL" ls "$WORK/i" >"$WORK/got"
same "include" "$WORK/want" "$WORK/got"
(cd "$D" && find . -maxdepth 1 ! -xtype d ! -name '.*' -printf '%P\0' | sort -z) >"$WORK/want"
"$CTL" index "$D" -o "$WORK/i" --options 'depth=1 hidden=0' >/dev/null; "$CTL" ls -0 "$WORK/i" >"$WORK/got"
same "depth and hidden" "$WORK/want" "$WORK/got"
(cd "$D" && find -L . -maxdepth 2 ! -type d -printf '%P\0' | sort -z) >"$WORK/want"
"$CTL" index "$D" -o "$WORK/i" --options 'depth=2 follow=1' >/dev/null; "$CTL" ls -0 "$WORK/i" >"$WORK/got"
same "follow" "$WORK/want" "$WORK/got"

# JSON
"$CTL" index "$D" -o "$L" --json >"$WORK/index.json"; "$CTL" stat "$L" --json >"$WORK/stat.json"
for f in index stat; do
  verdict "$f --json parses" "$("$PYTHON" -m json.tool "$WORK/$f.json" 2>&1 >/dev/null)"
done
cat >"$WORK/check.py" <<'P'
import hashlib, json, os, sys
i, s = (json.load(open(f)) for f in ("index.json", "stat.json"))
names = sys.stdin.buffer.read()
assert set("entries bytes seconds peak_rss digest".split()) <= set(i), i
assert i["entries"] == s["entries"] == names.count(b"\0"), i
assert i["bytes"] == s["bytes"] == os.path.getsize("l"), i
assert i["digest"] == s["digest"] == hashlib.sha256(names).hexdigest(), i
assert 1 << 20 < i["peak_rss"] < 1 << 30 and 0 <= i["seconds"] < 60, i
P
verdict "facts" "$("$CTL" ls -0 "$L" | "$PYTHON" "$WORK/check.py" 2>&1)"
odd=$WORK/'quote"back\tab	'$'\xff'; mkdir "$odd"
"$CTL" index "$odd" -o "$WORK/odd" --json | "$PYTHON" -m json.tool >/dev/null 2>"$WORK/err"
verdict "JSON of an odd path" "$(cat "$WORK/err")"

# An empty directory, a deep one, a long path
mkdir "$WORK/nothing"; status "index of nothing" 0 index "$WORK/nothing" -o "$WORK/n"
status "ls of nothing" 0 ls "$WORK/n" --rank 1 --size 3; verdict "prints nothing" "$(cat "$WORK/out")"
(mkdir -p "$WORK/long"; cd "$WORK/long"; n=$(printf 'd%.0s' {1..200}); for i in {1..30}; do mkdir $n; cd ./$n; done; touch leaf)
status "index past PATH_MAX" 0 index "$WORK/long" -o "$WORK/n"
verdict "names past PATH_MAX" "$([ "$("$CTL" ls "$WORK/n" | wc -c)" = $((201 * 30 + 5)) ] || "$CTL" ls "$WORK/n" | wc -c)"

# A failure leaves the older file as it was, and nothing beside it.
mkdir "$WORK/big" "$WORK/o"; (cd "$WORK/big"; head -c 60000 /dev/urandom | od -An -v -tx1 -w100 | tr -d ' ' | xargs touch)
"$CTL" index "$D" -o "$WORK/o/l" >/dev/null; cp "$WORK/o/l" "$WORK/keep"
for limit in 1 8 32; do
  (ulimit -f $limit; timeout 20 "$CTL" index "$WORK/big" -o "$WORK/o/l" >/dev/null 2>"$WORK/err"); got=$?
  verdict "limit of $limit KB: status 1, a message" "$([ $got = 1 ] && grep -q "$WORK/o/l" "$WORK/err" || echo "status $got, $(cat "$WORK/err")")"
  verdict "limit of $limit KB: nothing left" "$(cmp "$WORK/keep" "$WORK/o/l" 2>&1; ls "$WORK/o" | grep -v '^l$'; rm -f "$WORK"/o/l.*)"
done
(ulimit -f 4000; timeout 20 "$CTL" index "$D" -o "$WORK/o/l" >"$WORK/out" 2>&1); got=$?
verdict "a limit that is not reached" "$([ $got = 0 ] || echo "status $got"; rm -f "$WORK"/o/l.*)"
chmod 0 "$D/a" 2>/dev/null; mkdir "$WORK/o2"; chmod 777 "$WORK/o2"
if setpriv --reuid 65534 --clear-groups test -x "$CTL" 2>/dev/null && ! setpriv --reuid 65534 --clear-groups ls "$D/a" >/dev/null 2>&1; then
  setpriv --reuid 65534 --clear-groups "$CTL" index "$D" -o "$WORK/o2/l" >"$WORK/out" 2>"$WORK/err"; got=$?
  verdict "unreadable directory" "$([ $got = 1 ] && grep -q "'a'" "$WORK/err" || echo "status $got, $(cat "$WORK/err")"; ls "$WORK/o2")"
else
  skip "unreadable directory" "cannot become another user"
fi
chmod 755 "$D/a"

# Damage is found by stat wherever it is.
size=$(stat -c %s "$L") why=
for at in 0 9 17 20 100 400 515 600 $((size - 100)) $((size - 9)); do
  cp "$L" "$WORK/bad"; printf '\xa5' | dd of="$WORK/bad" bs=1 seek=$at conv=notrunc 2>/dev/null
  "$CTL" stat "$WORK/bad" >/dev/null 2>&1; [ $? = 1 ] || why+="byte $at not seen. "
done
verdict "damage is seen" "$why"
finish
