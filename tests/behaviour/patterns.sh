#!/bin/bash
# SPDX-License-Identifier: MIT
# scandir, glob and wordexp: as libc's own, and in a dataset with this rank's files only.
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
args=(one '*' 'two words')

for locale in C C.UTF-8; do
  for mode in scandir glob emfile own wordexp append random threads; do
    [ $locale = C ] || [ $mode = glob ] || continue
    LC_ALL=$locale timeout 60 "$WORK/patterns" $mode "${args[@]}" >"$WORK/want" 2>"$WORK/want_err"; want=$?
    LC_ALL=$locale SHARD_DATASET=$WORK/dataset SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD=$LIB timeout 60 \
      "$WORK/patterns" $mode "${args[@]}" >"$WORK/got" 2>"$WORK/got_err"; got=$?
    same "$mode as without, $locale" "$WORK/want" "$WORK/got"
    verdict "$mode says the same, $locale" "$(cmp "$WORK/want_err" "$WORK/got_err" 2>&1; [ $got = $want ] || echo "status $got")"
    verdict "$mode ends well, $locale" "$([ $want = 0 ] || echo "status $want")"
  done
done
cd "$WORK" && chmod 755 nasty/no*

# view RANK SIZE STRATEGY COMMAND...
view() {
  local r=$1 p=$2 s=$3; shift 3
  SHARD_DATASET=$dataset SHARD_RANK=$r SHARD_SIZE=$p SHARD_STRATEGY=$s LD_PRELOAD=$LIB timeout 60 "$@"
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
      (cd "$copy" && "$WORK/patterns" served "${args[@]}") >"$WORK/want" 2>&1
      (cd "$dataset" && view $r $p $s "$WORK/patterns" served "${args[@]}") >"$WORK/got" 2>&1
      sed -i "s#$copy#$dataset#" "$WORK/want"
      cmp -s "$WORK/want" "$WORK/got" || why+="rank $r: $(diff -a "$WORK/want" "$WORK/got" | head -5) "
    done
    verdict "as a copy of the part, $p ranks, $s" "$why"
  done
done

cd "$dataset" || exit 2
for how in "scandir ." "scandir many" "glob *" "glob */*" "oldglob *" "wordexp */*" "wordexp \$UNSET*/*"; do
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
finish
