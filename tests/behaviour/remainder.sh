#!/bin/bash
# SPDX-License-Identifier: MIT
# SHARD_REMAINDER: the ranks' shares are equal, by every call that lists, as shardctl ls and manifest
# have them; and what cannot be shared out so is refused.
. "$(dirname "$0")/lib.bash"
program calls
export SHARD_CACHE_DIR=$WORK/cache
D=$WORK/data; mkdir -p "$D"/{a/deep,b,empty,z}
touch "$D"/{a.txt,a-b,a0,m,zz} "$D"/a/f{01..17} "$D"/a/deep/{x,y} "$D"/z/{1,2,3} "$D"/b/img_{00..30}
F=$WORK/flat; mkdir "$F"; touch "$F"/img_{00..28}
for d in data flat; do
  (cd "$WORK/$d" && find . -type f -printf '%P\n') | sort >"$WORK/$d.names"
  "$CTL" index "$WORK/$d" -o "$WORK/$d.listing" --quiet >/dev/null
done

# view RANK SIZE COMMAND...: with SHARD_STRATEGY, SHARD_REMAINDER and SHARD_SEED as they are
view() {
  local r=$1 p=$2; shift 2
  SHARD_DATASET=${DATASET:-$D} SHARD_RANK=$r SHARD_SIZE=$p LD_PRELOAD=$LIB timeout 300 "$@" </dev/null 2>"$WORK/err"
}
# judge SIZE COUNT: of $WORK/rank.*: what is wrong with shares of $COUNT names each
judge() {
  local p=$1 n r c; n=$(wc -l <"$WORK/want")
  [ $SHARD_REMAINDER = drop ] && c=$((n / p)) || c=$(((n + p - 1) / p))
  for ((r = 0; r < p; r++)); do
    [ "$(sort -u "$WORK/rank.$r" | wc -l)" = $c ] || echo "rank $r has $(wc -l <"$WORK/rank.$r"), not $c"
  done
  for ((r = 0; r < p; r++)); do cat "$WORK/rank.$r"; done | sort | uniq -c >"$WORK/all"
  [ "$(awk '{s += $1} END {print s}' "$WORK/all")" = $((c * p)) ] || echo "not $((c * p)) names"
  # drop: each name once at most; repeat: each at least once, and as evenly as it goes
  awk -v most=$(((c * p + n - 1) / n)) '$1 > most' "$WORK/all"
  [ $SHARD_REMAINDER = drop ] || diff <(awk '{print $2}' "$WORK/all") "$WORK/want" | head -3
}
for s in range stride; do
  for seed in '' 7; do
    for remainder in drop repeat; do
      export SHARD_STRATEGY=$s SHARD_REMAINDER=$remainder; unset SHARD_SEED; [ -z "$seed" ] || export SHARD_SEED=$seed
      options=(--strategy $s --remainder $remainder ${seed:+--seed $seed})
      for d in data flat; do
        why=; cp "$WORK/$d.names" "$WORK/want"
        for p in 3 7 $([ $remainder = drop ] || echo 70); do
          "$CTL" manifest "$WORK/$d.listing" --size $p "${options[@]}" -o "$WORK/m.%r.txt"
          for ((r = 0; r < p; r++)); do
            DATASET=$WORK/$d view $r $p find "$WORK/$d" -type f -printf '%P\n' >"$WORK/rank.$r" || why+="rank $r: status "
            grep -v 'no process of that job has it open\|fewer files than there are ranks' "$WORK/err" >"$WORK/said" && why+=$(head -c 200 "$WORK/said")
            "$CTL" ls "$WORK/$d.listing" --rank $r --size $p "${options[@]}" >"$WORK/ls"
            cmp -s "$WORK/ls" "$WORK/m.$r.txt" || why+="manifest of $r of $p "
            cmp -s <(sort "$WORK/ls") <(sort "$WORK/rank.$r") || why+="rank $r of $p: not as ls has it "
            [ $d = data ] || [ -z "$seed" ] || cmp -s "$WORK/ls" "$WORK/rank.$r" || why+="rank $r of $p: not in the shuffled order "
          done
          why+=$(judge $p)
        done
        verdict "shares of $d, $s, $remainder, seed ${seed:--}" "$why"
      done
      for d in data/b flat data; do
        why=
        for r in 0 2 4; do
          DATASET=$WORK/${d%/*} view $r 5 "$WORK/calls" agree "$WORK/$d" >"$WORK/got" || why+="rank $r: $(cat "$WORK/err")"
          DATASET=$WORK/${d%/*} view $r 5 perl -e 'opendir(D, $ARGV[0]); for (;;) { push @t, telldir D; $e = readdir D; last unless defined $e; push @n, $e }
            for (reverse 0 .. $#n) { seekdir D, $t[$_]; @b = readdir D; print "from $_: @b\n" if "@b" ne "@n[$_ .. $#n]" }' "$WORK/$d" >"$WORK/got"
          why+=$(head -c 200 "$WORK/got")
        done
        verdict "all calls, telldir and seekdir in $d, $s, $remainder, seed ${seed:--}" "$why"
      done
    done
  done
done

# A loop of steps that all ranks must take, as under DDP: each rank waits for all in each step.
cat >"$WORK/loop.py" <<'P'
import multiprocessing, os, sys
def rank(r, size, root, meet, steps):
    os.environ.update(SHARD_RANK=str(r), SHARD_SIZE=str(size))
    for epoch in range(3):
        os.environ["SHARD_EPOCH"] = str(epoch)
        for name in os.listdir(root):
            meet.wait(60)
            steps.put((epoch, name))
if __name__ == "__main__":
    context, size = multiprocessing.get_context("fork"), 4
    meet, steps = context.Barrier(size), context.Queue()
    ranks = [context.Process(target=rank, args=(r, size, sys.argv[1], meet, steps)) for r in range(size)]
    for one in ranks: one.start()
    seen = [steps.get(timeout=100) for _ in range(3 * size * int(sys.argv[2]))]
    for one in ranks: one.join()
    print(*(one.exitcode for one in ranks), *(len({name for e, name in seen if e == epoch}) for epoch in range(3)),
          len({frozenset(name for e, name in seen if e == epoch) for epoch in range(3)}))
P
unset SHARD_SEED
for s in range stride; do
  export SHARD_STRATEGY=$s
  for how in "drop 7 0 0 0 0 28 28 28 3" "repeat 8 0 0 0 0 29 29 29 1"; do
    read -r SHARD_REMAINDER count want <<<"$how"
    got=$(SHARD_JOB=loop.$s.$SHARD_REMAINDER SHARD_DATASET=$F LD_PRELOAD=$LIB timeout 300 "$PYTHON" "$WORK/loop.py" "$F" $count 2>&1)
    verdict "a loop of equal lengths, $s, $SHARD_REMAINDER" "$([ "$got" = "$want" ] || echo "$got")"
  done
done

# What the statistics prove: tests/behaviour/stats.sh has more.
for s in range stride; do
  for how in "drop 28" "repeat 32"; do
    read -r SHARD_REMAINDER read <<<"$how"; export SHARD_STRATEGY=$s; rm -rf "$WORK/out"
    for r in 0 1 2 3; do
      DATASET=$F SHARD_STATS=$WORK/out view $r 4 "$PYTHON" -c 'import os, sys
for name in os.listdir(sys.argv[1]): open(os.path.join(sys.argv[1], name)).close()' "$F"
    done
    "$CTL" verify "$WORK/out" --listing "$WORK/flat.listing" >"$WORK/said" 2>&1
    verdict "verify, $s, $SHARD_REMAINDER" "$([ $? = 0 ] && grep -qF "(remainder $SHARD_REMAINDER)" "$WORK/said" &&
      grep -qF "all $read of $read files were opened by their ranks, each once" "$WORK/said" || shown cat "$WORK/said")"
    SHARD_REMAINDER=keep; DATASET=$F SHARD_STATS=$WORK/out view 3 4 ls "$F" >/dev/null
    "$CTL" verify "$WORK/out" >"$WORK/said" 2>&1
    verdict "... and not if ranks differ" "$([ $? = 1 ] && grep -q "remainder keep" "$WORK/said" || shown cat "$WORK/said")"
  done
done

# refused NAME WORDS COMMAND...: it lists nothing, by EINVAL and one line
refused() {
  local name=$1 words=$2 got; shift 2
  got=$(view 0 30 "$PYTHON" -c 'import os, sys
try: print(os.listdir(sys.argv[1]))
except OSError as error: print(error.errno)' "$F" 2>&1)
  verdict "$name" "$([ "$got" = 22 ] && [ "$(sort -u "$WORK/err" | grep -c .)" = 1 ] && grep -q "$words" "$WORK/err" || { echo "$got"; cat "$WORK/err"; })"
}
export DATASET=$F
SHARD_STRATEGY=stride SHARD_REMAINDER=drop refused "fewer files than ranks" "SHARD_REMAINDER=drop.*(29, 30 ranks).*repeat"
SHARD_STRATEGY=hash SHARD_REMAINDER=drop refused "hash drops nothing" "SHARD_REMAINDER=drop.*SHARD_STRATEGY=hash.*stride"
SHARD_STRATEGY=hash SHARD_REMAINDER=repeat refused "hash repeats nothing" "SHARD_REMAINDER=repeat.*SHARD_STRATEGY=hash"
SHARD_STRATEGY=range SHARD_REMAINDER=pad refused "another word" "SHARD_REMAINDER='pad'.*keep, drop or repeat"
verdict "hash keeps all" "$(SHARD_STRATEGY=hash SHARD_REMAINDER=keep view 0 1 ls "$F" | diff - "$WORK/flat.names")"
unset SHARD_STRATEGY SHARD_REMAINDER
# A rank's own manifest is shown whole, whatever its length.
head -2 "$WORK/flat.names" >"$WORK/own0.txt"
verdict "a manifest of the rank's own" "$(SHARD_REMAINDER=drop SHARD_LISTING=$WORK/own%r.txt view 0 30 ls "$F" | diff - "$WORK/own0.txt")"
for command in "ls FILE --rank 0 --size 2" "manifest FILE --size 2 -o $WORK/x%r"; do
  command=${command/FILE/$WORK/flat.listing}
  # shellcheck disable=SC2086
  {
    "$CTL" $command --remainder pad 2>"$WORK/err"; verdict "${command%% *}: another word" "$([ $? = 2 ] && grep -q 'keep, drop or repeat' "$WORK/err" || cat "$WORK/err")"
    "$CTL" ${command/size 2/size 30} --remainder drop 2>"$WORK/err"
    verdict "${command%% *}: too few names" "$([ $? = 1 ] && grep -q '29 samples, 30 ranks' "$WORK/err" || cat "$WORK/err")"
  }
done
"$CTL" ls "$WORK/flat.listing" --rank 0 --size 2 --strategy hash --remainder drop 2>"$WORK/err"
verdict "ls: hash" "$([ $? = 2 ] && grep -q 'range and stride only' "$WORK/err" || cat "$WORK/err")"
"$CTL" manifest "$WORK/flat.listing" --size 2 --weights 1,2 --remainder drop -o "$WORK/x%r" 2>"$WORK/err"
verdict "manifest: weights" "$([ $? = 2 ] && grep -q 'without --remainder' "$WORK/err" || cat "$WORK/err")"
finish
