#!/bin/bash
# SPDX-License-Identifier: MIT
# scandir, glob and wordexp: as libc's own. In a dataset scandir and glob have this rank's files only;
# wordexp expands no pattern there.
. "$(dirname "$0")/lib.bash"
program patterns
export SHARD_CACHE_DIR=$WORK/cache
mkdir "$WORK/dataset"; touch "$WORK/dataset/file"

# tree DIR: names that are hard on patterns
tree() {
  mkdir -p "$1"/{sub/sub2,empty,many,'dir with blank',.hid} && cd "$1" || exit 2
  touch {a,b,c,ab,x}.txt .hidden .h.txt 'with blank' with$'\n'newline $'\xff\xfe'bytes $'\xc3\xa9'.txt \
    '*star' '[x]' 'back\slash' "it's" '?"dq"' '~tilde' '{a,b}' -- -dash '$dollar' '`tick' ';semi' a=b \
    a,b , "$(printf 'n%.0s' {1..255})" sub/{x,y,a,b}.txt sub/.dot sub/sub2/{deep,z.txt} many/f{1..60} \
    'dir with blank/in side.txt' .hid/f 6.txt '#hash' 'a b' $'\001'ctl 'a*' "a'b" x,y
  ln -s sub link_to_sub; ln -s nowhere dangling; ln -s loop loop; ln -s a.txt link.txt; mkfifo fifo
}
tree "$WORK/nasty"
mkdir noread noexec; touch noread/x noexec/{x,y}; chmod 0 noread; chmod 444 noexec

for locale in C C.UTF-8; do
  for mode in scandir glob emfile own wordexp threads cancelled; do
    [ $locale = C ] || [ $mode = glob ] || continue
    LC_ALL=$locale timeout 300 "$WORK/patterns" $mode >"$WORK/want" 2>"$WORK/want_err"; want=$?
    LC_ALL=$locale SHARD_DATASET=$WORK/dataset SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD=$LIB timeout 300 \
      "$WORK/patterns" $mode >"$WORK/got" 2>"$WORK/got_err"; got=$?
    same "$mode as without, $locale" "$WORK/want" "$WORK/got"
    verdict "$mode says the same, $locale" "$(cmp "$WORK/want_err" "$WORK/got_err" 2>&1; [ $got = $want ] || echo "status $got")"
    verdict "$mode ends well, $locale" "$([ $want = 0 ] || echo "status $want")"
  done
done
cd "$WORK" && chmod 755 nasty/no*

# view RANK SIZE STRATEGY COMMAND...
view() {
  local r=$1 p=$2 s=$3; shift 3
  SHARD_DATASET=$dataset SHARD_RANK=$r SHARD_SIZE=$p SHARD_STRATEGY=$s LD_PRELOAD=$LIB timeout 300 "$@"
}
mkdir "$WORK/whole" "$WORK/part" # with nothing else in them, for patterns that go up
dataset=$WORK/whole/served copy=$WORK/part/served
tree "$dataset"
for p in 1 2 3 5; do
  for s in range stride; do
    why=
    for ((r = 0; r < p; r++)); do
      rm -rf "$copy"; mkdir "$copy"
      (cd "$dataset" && view $r $p $s find . -print0 | tar c --null --no-recursion -T -) | tar x -C "$copy"
      (cd "$copy" && "$WORK/patterns" served) >"$WORK/want" 2>&1
      (cd "$dataset" && SHARD_LOG=error view $r $p $s "$WORK/patterns" served) >"$WORK/got" 2>&1
      sed -i "s#$copy#$dataset#" "$WORK/want"
      cmp -s "$WORK/want" "$WORK/got" || why+="rank $r: $(diff -a "$WORK/want" "$WORK/got" | head -5) "
    done
    verdict "as a copy of the part, $p ranks, $s" "$why"
  done
done

cd "$dataset" || exit 2
for how in "scandir ." "scandir many" "glob *" "glob */*" "oldglob *"; do
  "$WORK/patterns" list ${how%% *} "${how#* }" | sort -z >"$WORK/want"
  for p in 1 2 3 5; do
    for s in range stride; do
      for ((r = 0; r < p; r++)); do
        view $r $p $s "$WORK/patterns" list ${how%% *} "${how#* }" || echo "rank $r: status $?"
      done | sort -z >"$WORK/got"
      same "$how, $p ranks, $s" "$WORK/want" "$WORK/got"
    done
  done
done

# What on_error() calls does not make a glob succeed that a dataset has failed.
SHARD_DATASET=$dataset LD_PRELOAD=$LIB timeout 300 "$WORK/patterns" list within "$WORK/*/*/*" >"$WORK/got" 2>"$WORK/err"
verdict "glob in on_error" "$([ $? != 0 ] || echo "it works"; grep -aq "^error 22 in $dataset" "$WORK/got" || shown cat -v "$WORK/got")"

SHARD_DATASET=$dataset LD_PRELOAD=$LIB timeout 300 "$WORK/patterns" list functions "$WORK/*/*/*" >"$WORK/got" 2>"$WORK/err"
verdict "glob by the program's functions, which call opendir" "$([ $? != 0 ] || echo "it works")"

# ways RANK STRATEGY [VARIABLE...]: patterns that lead into the dataset, by all ways there are
ways() {
  local r=$1 s=$2; shift 2
  export HOME=$dataset
  # shellcheck disable=SC2016  # expanded by wordexp
  view $r 2 $s env "$@" "$WORK/patterns" refused '*' 'sub/*' './*' '../served/*.txt' "$dataset/*.txt" "/usr/* $dataset/*.txt" \
    'none*' 'sub/none*' '~/*' '$HOME/s*/*' '"$HOME"/?.txt' 'link_to_sub/*' "$WORK/link/[a-c].txt" '../ser*/a.txt' '../ser*/sub/../../*' \
    "$WORK/who*/*/*" 'many/../../../whole/*/many/f*' '/usr/$(echo "*")/* a.txt' "$dataset//*" 'a.txt /usr/*' 2>"$WORK/err"
}
ln -s "$dataset" "$WORK/link"
mkdir "$WORK/data set" && touch "$WORK/data set/"{a,b,c,d}.txt
verdict "wordexp without IFS, a blank in the dataset's path" "$(dataset="$WORK/data set" view 0 2 range env IFS= "$WORK/patterns" refused \
  "$WORK/data\\ set/*.txt" "'$WORK/data set'/a*" "$WORK/data\\ set/none*" 2>/dev/null)"
for s in range stride hash; do
  for r in 0 1; do
    verdict "wordexp expands nothing in a dataset, rank $r, $s" "$(ways $r $s; grep -q 'rank .*wordexp() fails if the words' "$WORK/err" || shown cat "$WORK/err")"
    verdict "the same without IFS, rank $r, $s" "$(ways $r $s IFS=)"
  done
done
# shellcheck disable=SC2016
for what in a.txt 'sub/x.txt $HOME/a.txt' "$dataset/a.txt" '/proc/self/ns/*' "$WORK/nasty/*.txt" "$WORK/nasty/*/* /proc/self/ns/ne*" "$WORK/who*" "/usr/x'*'"; do
  (cd "$WORK/nasty" && "$WORK/patterns" list wordexp "$what"; echo $?) >"$WORK/want"
  (case $what in /usr/x*) cd "$WORK/nasty" ;; esac && view 0 2 hash "$WORK/patterns" list wordexp "$what"; echo $?) >"$WORK/got"
  same "wordexp of '$what' is libc's" "$WORK/want" "$WORK/got"
done
finish
