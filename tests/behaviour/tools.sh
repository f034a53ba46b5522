#!/bin/bash
# SPDX-License-Identifier: MIT
# shardctl doctor and cache: what they say, and what gc leaves alone.
. "$(dirname "$0")/lib.bash"
needs man
program dataset "$LIB"
D=$WORK/data; mkdir -p "$D"; touch "$D"/{1..9}
C=$WORK/cache
cd "$WORK" || exit 2

# status NAME CODE ARGUMENTS...: the exit status; a failure says something, and prints nothing
status() {
  local name=$1 want=$2 got why=; shift 2
  timeout 300 "$CTL" "$@" >"$WORK/out" 2>"$WORK/err"; got=$?
  [ $got = "$want" ] || why="status $got: $(cat "$WORK/err")"
  [ $want != 2 ] || { [ -s "$WORK/out" ] && why+=" printed: $(cat "$WORK/out")"; [ -s "$WORK/err" ] || why+=" no message"; }
  verdict "$name" "$why"
}
# says NAME WORD, prints NAME WORD: stderr, stdout of the last status
says() { verdict "$1" "$(grep -qF -- "$2" "$WORK/err" || shown cat "$WORK/err")"; }
prints() { verdict "$1" "$(grep -qF -- "$2" "$WORK/out" || shown cat "$WORK/out")"; }
# json NAME EXPRESSION: the last output is one object j for which the Python expression is true
json() {
  verdict "$1" "$("$PYTHON" -c "import json, sys
j = json.load(open(sys.argv[1]))
assert $2, j" "$WORK/out" 2>&1 | tail -1)"
}

# ---- doctor
export SHARD_CACHE_DIR=$C
status "doctor" 0 doctor; verdict "doctor: nothing FAILs" "$(grep FAIL "$WORK/out")"
for c in library preload launcher variables cache listing python; do prints "doctor: $c" " $c "; done
verdict "doctor leaves no cache" "$(ls "$C" 2>/dev/null)"
mkdir t; TMPDIR=$WORK/t "$CTL" doctor >/dev/null; verdict "doctor leaves nothing in TMPDIR" "$(ls -A t)"
mkdir t:t; TMPDIR=$WORK/t:t "$CTL" doctor >"$WORK/out"; verdict "doctor: a TMPDIR with a colon" "$(grep "^FAIL" "$WORK/out"; ls -A t:t)"
status "doctor --json" 0 doctor --json; json "doctor: JSON" 'j["ok"] is True and {c["check"] for c in j["checks"]} >= {"library", "preload", "listing"} and all(c["result"] in ("ok", "warn") for c in j["checks"])'
status "doctor, an argument" 2 doctor x
SHARD_SIZES=2 status "doctor: wrong variable" 1 doctor; prints "doctor: names the variable" "did you mean SHARD_SIZE"
SHARD_RANK=3 SHARD_SIZE=2 status "doctor: wrong rank" 1 doctor --json
json "doctor: FAIL in JSON" 'j["ok"] is False and [c for c in j["checks"] if c["result"] == "FAIL"][0]["check"] == "launcher"'
OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 status "doctor: a launcher" 0 doctor; prints "doctor: names it" "Open MPI: rank 1 of 2"
SHARD_CACHE_DIR=$D/1 status "doctor: cache a file" 1 doctor; prints "doctor: names the cache" "$D/1"
SHARD_CACHE_DIR=$WORK/none/x status "doctor: cache without parent" 1 doctor; prints "doctor: names its parent" "$WORK/none"
TMPDIR=$WORK/none status "doctor: no TMPDIR" 1 doctor; prints "doctor: names TMPDIR" "TMPDIR"
PYTHON=$WORK/none status "doctor: no Python" 0 doctor; prints "doctor: names PYTHON" "$WORK/none"
printf '#!/bin/sh\nexec sleep 1000\n' >slow; chmod +x slow
PYTHON=$WORK/slow status "doctor: a Python that hangs" 0 doctor; prints "doctor: says so" "took more than"
mkdir -p alone prefix/bin prefix/lib; cp "$CTL" alone; cp "$CTL" prefix/bin; cp "$LIB" prefix/lib
alone/shardctl doctor >"$WORK/out" 2>&1; verdict "doctor: no library" "$([ $? = 1 ] && grep -q '^FAIL *library.*install' "$WORK/out" || shown cat "$WORK/out")"
prefix/bin/shardctl doctor >"$WORK/out" 2>&1; verdict "doctor: installed" "$([ $? = 0 ] && grep -q "prefix/lib/libshard.so" "$WORK/out" || shown cat "$WORK/out")"
echo damaged >alone/libshard.so
alone/shardctl doctor >"$WORK/out" 2>&1; verdict "doctor: a damaged library" "$([ $? = 1 ] && grep -q '^FAIL *preload.*is the library damaged' "$WORK/out" || shown cat "$WORK/out")"
# What the caller has: the preload, and what variables name.
env PYTHON=/bin/false "$CTL" doctor >"$WORK/out"; prints "doctor: a preload that is not set" "takes effect; it is not set here"
# caller NAME WORD VARIABLE...: doctor FAILs with a line that has the word
caller() { local name=$1 word=$2; shift 2; env PYTHON=/bin/false "$@" "$CTL" doctor >"$WORK/out" 2>/dev/null; verdict "doctor: $name" "$([ $? = 1 ] && grep "^FAIL" "$WORK/out" | grep -qF -- "$word" || shown cat "$WORK/out")"; }
mkdir -p given/d; touch given/d/1; touch given/l; cp "$LIB" given
caller "a preload that is not there" "LD_PRELOAD names '$WORK/none/libshard.so'" LD_PRELOAD="$WORK/none/libshard.so"
caller "a preload of another libshard.so" "LD_PRELOAD has another libshard.so" LD_PRELOAD="$WORK/given/libshard.so"
caller "a dataset that is not there" "SHARD_DATASET='$WORK/given/none': No such file" SHARD_DATASET="$WORK/given/d:$WORK/given/none"
caller "a dataset that is a file" "SHARD_DATASET='$WORK/given/l': Not a directory" SHARD_DATASET="$WORK/given/l"
caller "one slash of s3://" "write s3://bucket/prefix" SHARD_DATASET="s3:/bucket"
env PYTHON=/bin/false LD_PRELOAD="$LIB" SHARD_DATASET="$WORK/given/d:s3://b" SHARD_STATS="$WORK/given/stats" "$CTL" doctor >"$WORK/out"
verdict "doctor: all is there" "$([ $? = 0 ] && grep -q "^ok *preload.*takes effect$" "$WORK/out" && grep -q "^ok *variables" "$WORK/out" || shown cat "$WORK/out")"
SHARD_JOB=secret "$CTL" doctor | grep -q secret; verdict "doctor prints paths, and no other values" "$([ $? = 1 ] || echo it does)"
# A DLIO that is not known
mkdir -p fake/dlio_benchmark; touch fake/dlio_benchmark/{__init__,main}.py
PYTHONPATH=$WORK/fake PYTHON=$PYTHON status "doctor: unknown DLIO" 0 doctor; prints "doctor: would run unmodified" "$WORK/fake/dlio_benchmark is not known: it runs unmodified, and its lists are compressed: $WORK/fake/dlio_benchmark/main.py: "
verdict "doctor: a line for people" "$(grep -E 'x0a|unknown$' "$WORK/out")"
# One in the working directory is not what runs there, however Python is led to it.
mkdir -p planted/dlio_benchmark; echo 'open("/proc/self/cwd/ran", "w")' | tee planted/dlio_benchmark/{__init__,main}.py planted/importlib.py planted/sys.py >/dev/null
printf '#!/bin/sh\nexec "%s" -S "$@"\n' "$PYTHON" >bare; chmod +x bare # which has no DLIO, as $PYTHON may
for path in none "" : ":$WORK/none" . "$WORK/none:" "$WORK/none::$WORK/none" ../planted; do
  (cd planted; [ "$path" = none ] || export PYTHONPATH=$path; PYTHON=$WORK/bare "$CTL" doctor) >"$WORK/out" 2>&1
  verdict "doctor: PYTHONPATH=$path" "$(ls planted | grep ran; grep -q 'has no dlio_benchmark' "$WORK/out" || shown cat "$WORK/out")"
done
VENV=$ROOT/.venv/bin/python
(cd "${VENV%/bin/python}"; PYTHON=bin/python "$CTL" doctor) >"$WORK/out"; prints "doctor: a PYTHON in the working directory" "PyPI's 2.0.0, a version that libshard knows"
PYTHON=$VENV status "doctor: a DLIO that is known" 0 doctor; prints "doctor: names its family" "PyPI's 2.0.0, a version that libshard knows"
# A copy with a function that differs
cp -r "$("$VENV" -c 'import importlib.util as u; print(u.find_spec("dlio_benchmark").submodule_search_locations[0])')" fake/copy
rm -r fake/dlio_benchmark; mv fake/copy fake/dlio_benchmark
sed -i 's/^\( *\)def read_index(.*:.*$/&\n\1    pass/' fake/dlio_benchmark/reader/reader_handler.py
PYTHONPATH=$WORK/fake PYTHON=$VENV status "doctor: a function that differs" 0 doctor; prints "doctor: names the function" "FormatReader.read_index is not a version known"

# ---- cache
# listed JOB: D's listing of a job, by a process that ends; sets one, its name
listed() { SHARD_JOB=$1 SHARD_VIEW=shard "$WORK/dataset" "$D" '' >/dev/null; one=$(basename "$C"/*.named.listing); }
rm -rf "$C"
status "cache ls, no directory" 0 cache ls --json; json "empty" 'j["files"] == []'
status "cache gc, no directory" 0 cache gc; verdict "none is made" "$(ls -d "$C" 2>/dev/null)"
status "cache, no verb" 2 cache; status "cache, bad verb" 2 cache frob; status "cache, two verbs" 2 cache ls gc
status "cache ls, gc's option" 2 cache ls --dry-run
status "cache gc, bad days" 2 cache gc --older-than 1d; says "names it" 1d
SHARD_CACHE_DRI=/x status "cache gc, misspelt variable" 2 cache gc; says "names it" SHARD_CACHE_DRI
SHARD_CACHE_DIR=$D/1 status "cache of a file" 1 cache ls; says "names it" "$D/1"
mkdir -m 700 "$C"; listed one
status "cache ls" 0 cache ls; prints "cache ls: the source" "$D"
status "cache ls --json" 0 cache ls --json
json "cache ls: facts" '[f["file"] for f in j["files"]] == ["'$one'"] and all(f["kind"] == "listing" and f["source"] == "'"$D"'" and f["entries"] >= 9 and not f["in_use"] for f in j["files"]) and j["bytes"] == sum(f["bytes"] for f in j["files"])'
status "gc" 0 cache gc; verdict "a job with a name may come again" "$(ls "$C/$one" 2>&1 >/dev/null)"
status "gc --dry-run" 0 cache gc --dry-run --older-than 0; prints "tells what is old" "$one"; verdict "--dry-run removes nothing" "$(ls "$C/$one" 2>&1 >/dev/null)"
status "gc --older-than 1" 0 cache gc --older-than 1; verdict "too young" "$(ls "$C/$one" 2>&1 >/dev/null)"
touch -d '31 days ago' "$C/$one"
status "gc of a month ago" 0 cache gc --json; json "gc: facts" '[f["file"] for f in j["removed"]] == ["'$one'"] and j["freed"] > 0 and not j["dry_run"]'
verdict "it is gone" "$(ls -A "$C" | grep listing)"

# A process that has a listing open, of a job whose process has ended, or that ends with its last one
key=0123456789abcdef0123456789abcdef space=$(stat -Lc %i /proc/self/ns/pid)
listed two; cp "$C/$one" "$C/$key.held.listing"; cp "$C/$one" "$C/$key.4194304-1-$space.listing"; cp "$C/$one" "$C/$key.$$-1-$space.listing"
cp "$C/$one" "$C/$key.$$-$(cut -d' ' -f22 /proc/$$/stat)-$space.listing"; cp "$C/$one" "$C/$key.4194304-1-7.listing"; ls "$C" >all
exec 9<"$C/$key.held.listing" 8<"$C/$key.4194304-1-$space.listing"; flock -s 9; flock -s 8
"$CTL" cache ls --json >"$WORK/out"; json "in use: seen" 'sorted(f["file"] for f in j["files"] if f["in_use"]) == ["'$key.4194304-1-$space.listing'", "'$key.held.listing'"]'
status "gc, in use" 0 cache gc; verdict "another process of this number is another one" "$(ls "$C" | diff <(grep -v "\.$$-1-" all) -)"
exec 9<&- 8<&-
status "gc, no longer in use" 0 cache gc
verdict "what lives, and what cannot be seen, stays" "$(ls "$C" | diff <(grep -v -e "\.$$-1-" -e held -e "4194304-1-$space" all) -)"
status "gc --older-than 0" 0 cache gc --older-than 0; verdict "all goes" "$(ls "$C" | grep listing)"

# What builders leave, and what is kept
touch "$C/$key.new.1" "$C/$key.new.1.got" "$C/$key.new.1.txt.gz" "$C/$key.lock" "$C/$key.perm"; ls "$C" >before
exec 9<"$C/$key.lock"; flock 9
status "gc --older-than 0, at work" 0 cache gc --older-than 0; verdict "a builder is at work" "$(ls "$C" | diff <(grep -v perm before) -)"
touch "$C/$key.perm"; exec 9<&-
status "gc, builder dead" 0 cache gc; verdict "the rest is young" "$(ls "$C" | diff <(grep -e ranks -e perm before) -)"
touch -d '2 days ago' "$C/$key".*; exec 9<"$C/$key.perm"; flock -s 9
status "gc, two days, in use" 0 cache gc; exec 9<&-; verdict "what is kept is in use" "$(ls "$C/$key.perm" 2>&1 >/dev/null)"
status "gc, two days" 0 cache gc; verdict "all is gone" "$(ls "$C" | grep -v ranks)"

# What is not ours, whatever its name
mkdir "$C/$key.held.listing" "$C/sub"; ln -s /etc/passwd "$C/${key/0/1}.held.listing"
touch "$C/foreign" "$C/$key.xyz.listing" "$C/$key.listing" "$C/$key.new.x" "$C/perm-$key" "$C/.hid" "$C/${key^^}.held.listing" \
  "$C/"$'new\nline\x1b[31m' "$C/"$'\xff"quote\\' "$C/ blank " "$C/-rf"
mkfifo "$C/$key.new.5"; echo damaged >"$C/${key/0/2}.named.listing"
ls -A "$C" >before
status "cache ls, foreign files" 0 cache ls
verdict "a name is one line, without control characters" "$(grep -aq $'\x1b' "$WORK/out" && echo escape; grep -qF 'new\x0aline\x1b[31m' "$WORK/out" || shown cat "$WORK/out")"
status "cache ls --json, foreign files" 0 cache ls --json
json "foreign files in JSON" 'sum(f["kind"] == "foreign" for f in j["files"]) == 15'
status "gc, foreign files" 0 cache gc --older-than 0 --json; json "gc: JSON" '[f["file"] for f in j["removed"]] == ["'${key/0/2}.named.listing'"]'
ls -A "$C" | diff -a <(grep -av "^${key/0/2}" before) - >"$WORK/diff"; verdict "foreign files are left" "$(cat "$WORK/diff")"
verdict "gc to a full device" "$("$CTL" cache ls >/dev/full 2>/dev/null; [ $? = 1 ] || echo status)"
rm -rf "$C"; mkdir -m 700 "$C"; listed three
if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --clear-groups test -x "$CTL" 2>/dev/null; then
  chown 65534 "$C/$one"; status "gc, of another user" 0 cache gc --older-than 0; verdict "another user's file is left" "$(ls "$C/$one" 2>&1 >/dev/null)"
  mkdir -m 0 "$WORK/shut"; chown 65534 "$WORK/shut"; chmod 755 "$WORK"
  SHARD_CACHE_DIR=$WORK/shut setpriv --reuid 65534 --clear-groups "$CTL" cache gc >"$WORK/out" 2>"$WORK/err"; got=$?
  verdict "unreadable cache: status 1, named" "$([ $got = 1 ] && grep -q "$WORK/shut" "$WORK/err" || echo "status $got, $(cat "$WORK/err")")"
  chown 65534 "$C"; status "cache of another user" 1 cache gc; says "names it" "$C"
  chown 0 "$C"; rm -rf "$C"
else
  skip "other users" "cannot become another user"
fi

# gc while ranks list: none fails, and everything is there at the end.
rm -f "$WORK/errors"
for r in 1 2 3; do
  (for i in {1..15}; do touch "$D/r$r"; "$WORK/dataset" "$D" '' 2>>"$WORK/errors" | grep -qz . || echo "no names" >>"$WORK/errors"; done) & ranks[r]=$!
done
for i in {1..25}; do "$CTL" cache gc --older-than 0 >/dev/null 2>&1; done
wait "${ranks[@]}"
verdict "gc among ranks" "$(cat "$WORK/errors")"

# The man pages know every variable, command and option, and are clean.
M=$ROOT/shim/man
mapfile -t commands < <("$CTL" --help | sed -n 's/^  \([a-z][a-z]*\).*/\1/p')
verdict "shardctl --help has all commands" "$([ ${#commands[@]} -ge 9 ] || echo "${commands[*]}")"
verdict "libshard.7 has the variables" "$("$CTL" doctor --variables | grep -o '^SHARD_[A-Z0-9_]*' | while read -r v; do grep -q "$v" "$M/libshard.7" || echo "$v"; done)"
verdict "shardctl.1 has the options" "$(for c in "${commands[@]}"; do "$CTL" "$c" --help; done | grep -o -e '--[a-z-]*' | sort -u | grep -v -e '^--help$' -e '^--$' |
  while read -r o; do sed 's/\\-/-/g' "$M/shardctl.1" | grep -qF -e "$o" || echo "$o"; done)"
for m in "$M"/*; do verdict "${m##*/} is clean" "$(man -l --warnings=w "$m" 2>&1 >/dev/null)"; done
verdict "commands have --help" "$(for c in "${commands[@]}"; do "$CTL" $c --help | grep -q Usage || echo $c; done)"
finish
