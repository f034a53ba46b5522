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
  timeout 300 "$CTL" "$@" >"$WORK/out" 2>"$WORK/err"; got=$?
  [ $got = "$want" ] || why="status $got: $(cat "$WORK/err")"
  [ $want = 0 ] || { [ -s "$WORK/out" ] && why+=" printed: $(cat "$WORK/out")"; [ -s "$WORK/err" ] || why+=" no message"; }
  [ $want = 0 ] && [ -s "$WORK/err" ] && why+=" says $(cat "$WORK/err")"
  verdict "$name" "$why"
}
# says NAME WORD: the message of the last status names it
says() { verdict "$1" "$(grep -qF -- "$2" "$WORK/err" || shown cat "$WORK/err")"; }
prints() { verdict "$1" "$(grep -qF -- "$2" "$WORK/out" || shown cat "$WORK/out")"; }

status "index" 0 index "$D" -o "$L"
status "stat" 0 stat "$L"
status "ls" 0 ls "$L"
for c in index ls stat run; do status "$c --help" 0 $c --help; done
status "--help" 0 --help
status "--version" 0 --version
# Each command refuses a wrong variable as the library does; doctor and run do it in their own way.
for c in "index $D -o $L.not" "ls $L" "stat $L" "manifest $L --size 2 -o $L.%r" "verify none" "get s3://b/l -o $L.not" \
  "cache ls"; do
  SHARD_BUILD_MEMROY=1G status "misspelt variable: $c" 2 $c; says "${c%% *} names it and the right one" "shardctl: SHARD_BUILD_MEMROY is not a variable of libshard; did you mean SHARD_BUILD_MEMORY?"
  SHARD_STRATEGY=hsah status "bad variable: $c" 2 $c; says "${c%% *} says what it takes" "SHARD_STRATEGY='hsah' is not valid; expected range, stride or hash"
done
verdict "wrong variables: nothing is written" "$(ls "$L.not" "$L.0" 2>/dev/null)"
SHARD_BUILD_MEMROY=1G status "misspelt variable: --help helps" 0 index --help
SHARD_BUILD_MEMROY=1G "$CTL" doctor >"$WORK/out"; verdict "misspelt variable: doctor" "$(grep -q '^FAIL *variables *SHARD_BUILD_MEMROY' "$WORK/out" || shown cat "$WORK/out")"
verdict "doctor names the cache directory that is asked for" "$(SHARD_CACHE_DIR=$WORK/none/x "$CTL" doctor | grep -q "^FAIL *cache .*none/x'" || echo "no line")"
verdict "run: a rank without a dataset" "$(env -u SHARD_DATASET "$CTL" run --rank 0 --size 2 true 2>&1 | grep -q "divide nothing without --dataset" || echo "no line")"
status "doctor --variables" 0 doctor --variables
verdict "doctor --variables: libshard's and launchers'" "$(for v in SHARD_VIEW SHARD_LOG OMPI_COMM_WORLD_RANK SLURM_STEP_ID RANK; do grep -q "^$v " "$WORK/out" || echo "$v"; done)"
status "no command" 2
status "unknown command" 2 frob; says "names it" frob
# A builder closes what its host has open, whose limit may be lower than that.
mkfifo "$WORK/stream"
(exec 3>"$WORK/lock" 4</dev/null 9</dev/null 200</dev/null; ulimit -Sn 8; exec "$CTL" --builder=$$ index - --keep-order -o "$WORK/s" 0<>"$WORK/stream" >/dev/null 2>&1) & pid=$!
await "a builder without its host's descriptors" bash -c 'grep -qx shardctl "/proc/$1/comm" && ! ls "/proc/$1/fd" | grep -qx -e 9 -e 200 && [ -e "/proc/$1/fd/3" ]' - $pid && ok "a builder closes descriptors"
kill $pid; wait $pid 2>/dev/null
# anywhere OPTIONS -- OPERANDS: with the options behind the operands, too, whatever POSIXLY_CORRECT says
anywhere() {
  local command=$1 options=(); shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done; shift
  HOME=$WORK timeout 300 "$CTL" $command "${options[@]}" "$@" 2>&1 | sed 's/[0-9.]* s$//' >"$WORK/want"; echo "${PIPESTATUS[0]}" >>"$WORK/want"
  HOME=$WORK POSIXLY_CORRECT=1 timeout 300 "$CTL" $command "$@" "${options[@]}" 2>&1 | sed 's/[0-9.]* s$//' >"$WORK/got"; echo "${PIPESTATUS[0]}" >>"$WORK/got"
  same "POSIXLY_CORRECT, $command ${options[*]}" "$WORK/want" "$WORK/got"
  HOME=$WORK POSIXLY_CORRECT=1 timeout 300 "$CTL" $command "${options[@]}" -- "$@" 2>&1 | sed 's/[0-9.]* s$//' >"$WORK/got"; echo "${PIPESTATUS[0]}" >>"$WORK/got"
  same "POSIXLY_CORRECT, $command ${options[*]} --" "$WORK/want" "$WORK/got"
}
anywhere index --quiet -o "$L.posix" -- "$D"; anywhere ls --rank 0 --size 2 -0 -- "$L"; anywhere stat --json -- "$L"
anywhere manifest --size 2 -o "$L.posix.%r" -- "$L"; anywhere verify --json --listing "$L" -- none nowhere
anywhere get --no-sign-request -o relative -- s3://b; anywhere cache --json -- ls
anywhere doctor --variables --
mkdir "$WORK/no1"; POSIXLY_CORRECT=1 "$CTL" verify "$WORK/no1" --json "$WORK/no1" >"$WORK/out"; prints "POSIXLY_CORRECT, between operands" "there is no log"
POSIXLY_CORRECT=1 status "POSIXLY_CORRECT, too many" 2 index "$D" --quiet "$D" -o "$L.posix"
POSIXLY_CORRECT=1 status "POSIXLY_CORRECT, unknown option" 2 ls "$L" --frob; says "names it" "'--frob'"
POSIXLY_CORRECT=1 status "POSIXLY_CORRECT, behind --" 2 stat -- "$L" --json
for posix in "" POSIXLY_CORRECT=1; do
  verdict "run: the command's options are its own${posix:+, $posix}" "$(env $posix "$CTL" run sh -c 'echo "$@"' - --size x --help >"$WORK/out" 2>&1; grep -qxF -- "--size x --help" "$WORK/out" || shown cat "$WORK/out")"
done
mkdir -m 700 posix.cache
verdict "POSIXLY_CORRECT in a program: its listing is made" "$(for r in 0 1; do
  POSIXLY_CORRECT=1 SHARD_CACHE_DIR=$WORK/posix.cache SHARD_DATASET=$D SHARD_RANK=$r SHARD_SIZE=2 LD_PRELOAD=$LIB ls "$D/b/c" 2>&1; done | grep -vx x)"
rm -r "$L".posix* posix.cache
status "unknown option" 2 index --frob "$D" -o "$L"
verdict "unknown option: says shardctl" "$(grep -q '^shardctl' "$WORK/err" || shown cat "$WORK/err")"
status "index, no directory" 2 index -o "$L"
status "index, no file" 2 index "$D"
status "index, two directories" 2 index "$D" "$D" -o "$L"
status "index, bad order" 2 index "$D" -o "$L" --order size; says "names the order" size
status "index, bad options" 2 index "$D" -o "$L" --options "hidden=1 colour=red"; says "names the word" colour=red
status "index, long include" 2 index "$D" -o "$L" --include "$(printf '%01200d')"
HOME=$WORK status "index, s3, no credentials" 1 index s3://bucket/x -o "$L"; says "names the variable" AWS_ACCESS_KEY_ID
status "index, s3, no bucket" 2 index s3:///x -o "$L"; says "names it" s3:///x
status "index into a bucket" 2 index "$D" -o s3://bucket/l; says "names the way" "aws s3 cp"
status "ls, a bucket's option" 2 ls "$L" --no-sign-request
status "ls --uri of a directory" 2 ls "$D" --uri; says "names it" "$D"
status "index, missing directory" 1 index "$WORK/none" -o "$L"; says "names it" "$WORK/none"
status "index, a listing" 1 index "$L" -o "$WORK/l2"; says "names it" "$L"
status "index into nowhere" 1 index "$D" -o "$WORK/none/l"; says "names it" "$WORK/none/l"
status "ls, missing" 1 ls "$WORK/none"; says "names it" "$WORK/none"
status "ls, no listing" 1 ls "$D/x"
status "ls, rank alone" 2 ls "$L" --rank 0
status "ls, size alone" 2 ls "$L" --size 2
status "ls, rank = size" 2 ls "$L" --rank 2 --size 2
status "ls, size 0" 2 ls "$L" --rank 0 --size 0
status "ls, rank -1" 2 ls "$L" --rank -1 --size 2
status "ls, bad rank" 2 ls "$L" --rank 1x --size 2
status "ls, bad strategy" 2 ls "$L" --rank 0 --size 2 --strategy size
status "ls, bad seed" 2 ls "$L" --seed 1x
status "ls, seed past 64 bits" 2 ls "$L" --seed 18446744073709551616
status "ls, bad epoch" 2 ls "$L" --epoch auto
status "stat of a directory" 0 stat "$D"; prints "stat of a directory: which names" "options     order=path depth=0"
"$CTL" stat "$D" --json >"$WORK/of-directory"; "$CTL" stat "$L" --json >"$WORK/of-listing"
verdict "stat of a directory: as of its listing" "$(diff <(sed 's/attributes=.//' "$WORK/of-directory" | grep -oE '"(source|options|entries|digest)": [^,]*') \
  <(sed 's/attributes=.//' "$WORK/of-listing" | grep -oE '"(source|options|entries|digest)": [^,]*'))"
status "manifest of a directory" 0 manifest "$D" --size 2 -o "$WORK/of-d.%r"; "$CTL" manifest "$L" --size 2 -o "$WORK/of-l.%r"
verdict "manifest of a directory: as of its listing" "$(for r in 0 1; do cmp "$WORK/of-d.$r" "$WORK/of-l.$r"; done 2>&1)"
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
"$CTL" ls -0 "$L" --rank 1 --size 3 --strategy stride >"$WORK/got"
sed -zn '2~3p' "$WORK/want" >"$WORK/third"; same "stride is every third" "$WORK/third" "$WORK/got"

# Over the ranks every name once; hash keeps the listing's order, and so does range without a shuffle.
for p in 1 2 3 400; do
  for s in range stride hash; do
    why=
    for key in "" "--seed 7" "--epoch 2" "--seed 7 --epoch 2"; do
      [ $p = 400 ] && [ "$key" != "--seed 7" ] && continue
      # shellcheck disable=SC2086  # a list of arguments
      for ((r = 0; r < p; r++)); do "$CTL" ls -0 "$L" --rank $r --size $p --strategy $s $key >"$WORK/r$r"; done
      shares() { for ((r = 0; r < p; r++)); do cat "$WORK/r$r"; done; }
      why+=$(shares | sort -z | cmp - "$WORK/want" 2>&1)
      [ "$s$key" != range ] || why+=$(shares | cmp - "$WORK/want" 2>&1)
      [ $s = hash ] || why+=$(for ((r = 0; r < p; r++)); do tr -dc '\0' <"$WORK/r$r" | wc -c; done | sort -n | sed -n '1p;$p' | xargs | awk '$2 - $1 > 1')
      [ $s != hash ] || why+=$(for ((r = 0; r < p && r < 9; r++)); do sort -zc "$WORK/r$r" 2>&1; done)
    done
    verdict "$p ranks, $s, keys" "$why"
  done
done
"$CTL" ls -0 "$L" --seed 7 >"$WORK/a"
"$CTL" ls -0 "$L" --seed 7 --epoch 0 >"$WORK/b"; same "epoch 0 is the default" "$WORK/a" "$WORK/b"
for key in "" "--seed 8" "--seed 7 --epoch 1"; do
  # shellcheck disable=SC2086
  "$CTL" ls -0 "$L" $key >"$WORK/b"; verdict "another order${key:+, $key}" "$(cmp -s "$WORK/a" "$WORK/b" && echo "the same")"
done

# What ls prints is what the view shows.
F=$WORK/flat; mkdir "$F"; (cd "$F"; touch {1..300}.jpeg "with blank" "new"$'\n'"line" .hidden)
cat >"$WORK/listdir.py" <<'P'
import os, sys
for n in os.listdir(os.fsencode(sys.argv[1])): sys.stdout.buffer.write(n + b"\0")
P
# view DATASET RANK VARIABLES COMMAND...
view() {
  local d=$1 r=$2 variables=$3; shift 3
  # shellcheck disable=SC2086  # a list of assignments
  env SHARD_LOG=error $variables SHARD_CACHE_DIR="$WORK/cache" SHARD_DATASET="$d" SHARD_RANK="$r" SHARD_SIZE=3 LD_PRELOAD="$LIB" timeout 300 "$@"
}
# arguments VARIABLES: the options of ls for them
arguments() { sed 's/SHARD_SEED=/--seed /; s/SHARD_EPOCH=/--epoch /' <<<"$1"; }
for s in range stride hash; do
  for v in "" "SHARD_SEED=7" "SHARD_EPOCH=2" "SHARD_SEED=7 SHARD_EPOCH=2" "SHARD_SEED=18446744073709551615"; do
    why= order=cat; [ $s = hash ] && order="sort -z" # it comes in the order of the directory or of a window
    for r in 0 1 2; do
      view "$F" $r "$v SHARD_STRATEGY=$s" "$PYTHON" "$WORK/listdir.py" "$F" 2>&1 | $order >"$WORK/a"
      # shellcheck disable=SC2046  # a list of arguments
      "$CTL" ls -0 "$F" --rank $r --size 3 --strategy $s $(arguments "$v") >"$WORK/b"
      [ -s "$WORK/a" ] || why+="nothing. "
      why+=$(cmp "$WORK/a" "$WORK/b" 2>&1)
    done
    verdict "as the view shows, $s $v" "$why"
  done
done
for s in range stride hash; do
  for v in "" "SHARD_SEED=7 SHARD_EPOCH=2"; do
    why=
    for r in 0 1 2; do
      (cd "$D" && view "$D" $r "$v SHARD_STRATEGY=$s" find . ! -xtype d -printf '%P\0' 2>&1 | sort -z) >"$WORK/a"
      # shellcheck disable=SC2046
      "$CTL" ls -0 "$D" --rank $r --size 3 --strategy $s $(arguments "$v") | sort -z | cmp -s "$WORK/a" - || why+="rank $r. "
    done
    verdict "as find under the view, $s $v" "$why"
  done
done

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
assert 1 << 20 < i["peak_rss"] < 1 << 30 and 0 <= i["seconds"], i
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
  (ulimit -f $limit; timeout 300 "$CTL" index "$WORK/big" -o "$WORK/o/l" >/dev/null 2>"$WORK/err"); got=$?
  verdict "limit of $limit KB: status 1, a message" "$([ $got = 1 ] && grep -q "$WORK/o/l" "$WORK/err" || echo "status $got, $(cat "$WORK/err")")"
  verdict "limit of $limit KB: nothing left" "$(cmp "$WORK/keep" "$WORK/o/l" 2>&1; ls "$WORK/o" | grep -v '^l$'; rm -f "$WORK"/o/l.*)"
done
(ulimit -f 4000; timeout 300 "$CTL" index "$D" -o "$WORK/o/l" >"$WORK/out" 2>&1); got=$?
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
  byte=$(od -An -tu1 -j "$at" -N 1 "$L")
  cp "$L" "$WORK/bad"; printf "\\x$(printf %02x $((byte ^ 165)))" | dd of="$WORK/bad" bs=1 seek=$at conv=notrunc 2>/dev/null
  "$CTL" stat "$WORK/bad" >/dev/null 2>&1; [ $? = 1 ] || why+="byte $at not seen. "
done
verdict "damage is seen" "$why"

# What names hold does not control the terminal; elsewhere bytes stay as they are.
mkdir "$WORK/names"; touch "$WORK/names/"{$'esc\e[31m',$'line\nforged',$'c1\xc2\x9b',$'raw\x9b',$'\xc3\xa9',plain,'back\slash',$'cut\xe2\x82'}
ls -1 "$WORK/names" --quoting-style=literal --show-control-chars >"$WORK/want"
terminal() { "$PYTHON" -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)' "$@" </dev/null | tr -d '\r'; }
"$CTL" ls "$WORK/names" >"$WORK/out"; same "ls, to a file: bytes" "$WORK/want" "$WORK/out"
terminal "$CTL" ls "$WORK/names" >"$WORK/out"
printf '%s\n' 'back\x5cslash' 'c1\xc2\x9b' 'cut\xe2\x82' 'esc\x1b[31m' 'line\x0aforged' plain 'raw\x9b' $'\xc3\xa9' >"$WORK/want"; same "ls, to a terminal" "$WORK/want" "$WORK/out"
terminal "$CTL" ls -0 "$WORK/names" >"$WORK/out"; verdict "ls -0, to a terminal: bytes" "$(grep -qa $'esc\e' "$WORK/out" || shown cat -v "$WORK/out")"
"$CTL" stat "$WORK/none"$'\xc2\x9b31m\x9bx\xc3\xa9\n' 2>"$WORK/err"; verdict "messages: C1" "$(grep -qF "none\xc2\x9b31m\x9bx"$'\xc3\xa9''\x0a' "$WORK/err" || shown cat -v "$WORK/err")"
# plain NAME: what was said has one line of "forged", and nothing that controls the terminal
plain() { verdict "$1" "$(grep -ac forged "$WORK/out" | grep -vx 1; grep -aqP '[\x00-\x08\x0b-\x1f\x7f-\x9f]' "$WORK/out" && cat -v "$WORK/out"; grep -a ^forged "$WORK/out")"; }
N=$WORK/$'x\nforged\e[31m\xc2\x9b2J\x7fy'; mkdir -p "$N/cache"; touch "$N/f"; chmod 700 "$N/cache"
"$CTL" index "$N" -o "$L.n" --include $'*\e\n' >/dev/null 2>&1
"$CTL" stat "$L.n" >"$WORK/out" 2>&1; plain "stat: what controls a terminal"
"$CTL" stat "$L.n" --json >"$WORK/out" 2>&1; plain "stat --json: what controls a terminal"
verdict "stat --json: the name" "$("$PYTHON" -c 'import json, sys; sys.exit(json.load(sys.stdin)["source"] != sys.argv[1])' "$N" <"$WORK/out" 2>&1 || shown cat "$WORK/out")"
for c in "cache ls" "cache gc"; do SHARD_CACHE_DIR=$N/cache "$CTL" $c >"$WORK/out" 2>&1; plain "$c: what controls a terminal"; done
"$CTL" stat --"$N" >"$WORK/out" 2>&1; verdict "an option: the exit status" "$([ $? = 2 ] || echo "not 2")"; plain "an option: what controls a terminal"
status "an option that needs an argument" 2 index "$D" --output; says "tells so" "shardctl: option '--output' requires an argument"
status "an option cut short" 0 ls "$L" --se 3
for o in --json=3 -z --s=3 --seeds=3 --=3; do status "a bad option: $o" 2 ls "$L" $o; says "tells so" "shardctl: option '$o' is unknown"; done

# run: what CMD gets
R=$WORK/run; mkdir "$R" "$R"/{bin,in,shut}; touch "$R/in/f"; chmod 755 "$R"
echo 'printf "%s\n" "$LD_PRELOAD" "$@"' >"$R/show"
# gives NAME WANTED COMMAND...: COMMAND exits with 0 and prints just that
gives() {
  local name=$1 want=$2 got; shift 2
  got=$(timeout 300 "$@" 2>&1) || got+=" status $?"
  verdict "$name" "$([ "$got" = "$want" ] || echo "not '$want' but '$got'")"
}
gives "run" "$LIB"$'\na b\n--rank' "$CTL" run sh "$R/show" "a b" --rank
gives "run --" "$LIB"$'\n-x' "$CTL" run -- sh "$R/show" -x
jemalloc=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | sed -n 's/.*libjemalloc\.so\.2 .*=> //p' | head -1)
gives "run: before another preload" "$LIB:$jemalloc" env LD_PRELOAD="$jemalloc" "$CTL" run sh "$R/show"
gives "run: preloaded already" "$jemalloc $LIB" env LD_PRELOAD="$jemalloc $LIB" "$CTL" run sh "$R/show"
gives "run twice" "$LIB" "$CTL" run "$CTL" run sh "$R/show"
# shellcheck disable=SC2016
gives "run: the environment" "$R/in:$R 1 2 hash 3 4" env -C "$R" "$CTL" run --dataset in --dataset . --rank 1 --size 2 \
  --strategy hash --seed 3 --epoch=4 sh -c 'echo $SHARD_DATASET $SHARD_RANK $SHARD_SIZE $SHARD_STRATEGY $SHARD_SEED $SHARD_EPOCH'
gives "run: a shard" "f" env SHARD_CACHE_DIR="$WORK/cache" "$CTL" run --dataset "$R/in" --rank 0 --size 1 ls "$R/in"
gives "run: another shard" "" env SHARD_JOB=run SHARD_CACHE_DIR="$WORK/cache" "$CTL" run --dataset "$R/in" --rank 1 --size 2 ls "$R/in"
# By timeout, too, as gives calls it: that lets a signal through which its caller ignores.
gives "run: signals as they were" "$(timeout 300 grep SigIgn /proc/self/status)" "$CTL" run grep SigIgn /proc/self/status
ignoring=(sh -c 'trap "" INT QUIT USR1 PIPE; exec "$@"' -)
gives "run: signals that are ignored" "$(timeout 300 "${ignoring[@]}" grep SigIgn /proc/self/status)" "${ignoring[@]}" "$CTL" run grep SigIgn /proc/self/status
"$CTL" run sh -c 'exit 7'; verdict "run: the command's status" "$([ $? = 7 ] || echo "not 7")"

# fails NAME CODE WORD ARGUMENTS...: run fails so, with one line on stderr that has the word
fails() {
  local name=$1 want=$2 word=$3 got why=; shift 3
  timeout 300 "${as[@]}" "$CTL" run "$@" >"$WORK/out" 2>"$WORK/err" </dev/null; got=$?
  [ $got = "$want" ] || why="status $got. "
  grep -qF -- "$word" "$WORK/err" && [ "$(wc -l <"$WORK/err")" = 1 ] || why+="says $(cat "$WORK/err")"
  [ ! -s "$WORK/out" ] || why+=" prints $(cat "$WORK/out")"
  verdict "run, $name" "$why"
}
# runs NAME ARGUMENTS...: it is not refused
runs() {
  local name=$1; shift
  timeout 300 "${as[@]}" "$CTL" run "$@" >/dev/null 2>"$WORK/err" </dev/null
  verdict "run, $name" "$([ $? = 0 ] || echo "status not 0: "; cat "$WORK/err")"
}
as=()
fails "no command" 2 "takes a command"
fails "rank alone" 2 "R < P" --rank 0 true
fails "rank = size" 2 "R < P" --rank 2 --size 2 true
fails "bad rank" 2 "'x'" --rank x --size 2 true
fails "bad strategy" 2 "'x'" --strategy x true
fails "bad seed" 2 "'-1'" --seed -1 true
fails "bad epoch" 2 "'x'" --epoch x true
fails "unknown option" 2 "frob" --frob true
fails "no dataset" 1 "$R/none" --dataset "$R/none" true
mkdir "$R/co:lon"; fails "dataset with a colon" 1 "colon" --dataset "$R/co:lon" true
as=(env PATH=/usr/bin:/bin); fails "not found" 127 "'nosuch'" nosuch # a folder of PATH that is shut would make it 126
as=()
fails "not found, a path" 127 "'$R/none'" "$R/none"
fails "no name" 127 "''" ""
fails "not executable" 126 "'$R/show'" "$R/show"
fails "a directory" 126 "'$R'" "$R"
cp "$(type -P true)" "$R/shut/tool"; cp "$(type -P true)" "$R/bin/tool"; chmod 644 "$R/shut/tool"
as=(env PATH="$R/none:$R/shut:$PATH"); fails "not executable, in PATH" 126 "'tool'" tool
as=(env PATH="$R/none:$R/shut:$R/bin"); runs "the later one in PATH" tool
as=(env -C "$R/bin" PATH=); runs "PATH is empty" tool
as=(env -u PATH); runs "no PATH" ls /
as=()

# Where libshard.so is found
for place in bin lib "lib/$(uname -m)-linux-gnu" lib64; do
  rm -rf "$R/prefix"; mkdir -p "$R/prefix/bin" "$R/prefix/$place"
  cp "$CTL" "$R/prefix/bin"; cp "$LIB" "$R/prefix/$place"
  gives "run, libshard.so in $place" "$R/prefix/$place/libshard.so" "$R/prefix/bin/shardctl" run sh "$R/show"
done
LIB2=$R/prefix/lib64/libshard.so
gives "run, by a link" "$LIB2" sh -c 'ln -s "$1"/prefix/bin/shardctl "$1"/link; exec "$1"/link run sh "$1"/show' - "$R"
as=(env LD_PRELOAD="$LIB2"); fails "another libshard.so" 1 "'$LIB2'" true; as=()
# refuses NAME WORD: libshard.so is not loaded, by no command that would
refuses() {
  local c
  for c in "run true" doctor; do
    "$R/prefix/bin/shardctl" $c >"$WORK/out" 2>&1
    verdict "$1: ${c% *}" "$([ $? = 1 ] && grep -q "'$LIB2' is not loaded: $2" "$WORK/out" || shown cat "$WORK/out")"
  done
}
chmod o+w "$LIB2"; refuses "libshard.so that others can write to" "others can write to it; chmod go-w '$LIB2'"
chmod 775 "$LIB2"; refuses "libshard.so of a group" "others can write to it"
chmod 775 "$R/prefix/bin/shardctl"; gives "libshard.so and shardctl of a group" "$LIB2" "$R/prefix/bin/shardctl" run sh "$R/show"
chmod 755 "$LIB2" "$R/prefix/bin/shardctl"
if [ "$(id -u)" = 0 ]; then
  chown 65534 "$LIB2"; refuses "another user's libshard.so" "it belongs to user 65534"
  chown 65534 "$R/prefix/bin/shardctl"; gives "another user's libshard.so and shardctl" "$LIB2" "$R/prefix/bin/shardctl" run sh "$R/show"
else
  skip "another user's libshard.so" "not root"
fi
rm "$LIB2"
"$R/prefix/bin/shardctl" run true 2>"$WORK/err"; verdict "run, no libshard.so" "$([ $? = 1 ] && grep -q 'cannot find libshard.so' "$WORK/err" || shown cat "$WORK/err")"
mkdir "$R/a b"; cp "$CTL" "$LIB" "$R/a b"
"$R/a b/shardctl" run true 2>"$WORK/err"; verdict "run, a blank in its path" "$([ $? = 1 ] && grep -q 'LD_PRELOAD cannot hold' "$WORK/err" || shown cat "$WORK/err")"

# A Go program (fzf is dynamically linked, and small) says that it sees all; what is none does not.
go=$(type -P fzf); cp "$go" "$R/go"; printf '\0\0\0\0\0\0\0\0' | dd of="$R/go" bs=1 seek=40 conv=notrunc 2>/dev/null # no section headers
echo 'int main(void) { return 0; }' >"$R/main.c"; ${CC:-gcc} -o "$R/none" "$R/main.c" || exit 2
printf 'const char text[] = "\xff Go buildinf:";\nint main(void) { return !text[0]; }\n' >"$R/main.c"; ${CC:-gcc} -o "$R/text" "$R/main.c" || exit 2
for program in "$go" "$R/go"; do
  SHARD_DATASET=$R/in SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD=$LIB "$program" --version >"$WORK/out" 2>"$WORK/err"
  verdict "Go: ${program##*/}" "$([ $? = 0 ] && [ -s "$WORK/out" ] && [ "$(grep -c 'Go program.*shardctl ls' "$WORK/err")" = 1 ] && [ "$(wc -l <"$WORK/err")" = 1 ] || shown cat "$WORK/err")"
done
for variables in SHARD_VIEW=off SHARD_LOG=error -uSHARD_DATASET; do
  # shellcheck disable=SC2086
  SHARD_DATASET=$R/in env $variables LD_PRELOAD="$LIB" fzf --version >/dev/null 2>"$WORK/err"; verdict "Go: $variables" "$(cat "$WORK/err")"
done
for program in "$R/none" "$R/text" "$PYTHON" bash; do
  SHARD_DATASET=$R/in LD_PRELOAD=$LIB "$program" --version >/dev/null 2>"$WORK/err" </dev/null; verdict "no Go: ${program##*/}" "$(cat "$WORK/err")"
done
printf 'echo "$@"\n' >"$R/noline"; chmod 755 "$R/noline"; gives "run, a script without #!" "x y" "$CTL" run "$R/noline" x y
printf '#!%s/nowhere\n' "$R" >"$R/missing"; chmod 755 "$R/missing"; fails "a script's interpreter is missing" 127 "$R/missing" "$R/missing"
gives "run, many arguments" "$(seq -s ' ' 100)" "$CTL" run echo $(seq 100)
finish
