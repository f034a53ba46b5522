#!/usr/bin/env bash
# sanitized.sh BUILD address|thread - the shard view under a sanitizer: a program and the library,
# both instrumented, with many threads listing, forking and closing.
BUILD=$1 kind=$2
. "$(dirname "$0")/behaviour/lib.bash"
work=$WORK
for program in trees calls opens; do
  gcc -O1 -g -fsanitize="$kind" -D_GNU_SOURCE -I"$ROOT/include" -o "$work/$program" \
    "$ROOT/tests/programs/$program.c" -pthread || exit 2
done
# Where addresses are drawn from a wide range (vm.mmap_rnd_bits), a sanitizer now and then finds its own taken.
steady=(setarch -R); "${steady[@]}" true 2>/dev/null || steady=()
mkdir -p "$work"/data/{sub/deep,other/deep,empty}
touch "$work"/data/sub/deep/{1..9}
for i in $(seq 200); do : >"$work/data/file$i"; done
for i in $(seq 90); do : >"$work/data/sub/file$i"; : >"$work/data/other/$i"; done
mkdir "$work/more" && touch "$work"/more/{1..90}
ln -s sub "$work/data/link"
preload=$BUILD/libshard.so
[ "$kind" = thread ] || preload="$(gcc -print-file-name=libasan.so) $preload"
# No child lists: a fork leaves the sanitizers' allocator locked if another thread was in it.
export ASAN_OPTIONS=detect_leaks=0
# run RANK CACHE PROGRAM MODE DIR [ARGUMENT]: it succeeds, prints names and says nothing
run() {
  local rank=$1 cache=$2 program=$3
  shift 3
  if SHARD_CACHE_DIR=$work/$cache SHARD_DATASET=${dataset:-$work/data} SHARD_RANK=$rank SHARD_SIZE=3 \
    LD_PRELOAD=$preload timeout 600 "${steady[@]}" "$work/$program" "$@" >"$work/out" 2>"$work/err" &&
    [ ! -s "$work/err" ] && [ -s "$work/out" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL $kind $program $*, rank $rank${SHARD_STRATEGY:+, $SHARD_STRATEGY}${SHARD_SEED:+, seed}:"
    head -30 "$work/err"
  fi
}
for mode in agree fork shared; do
  for rank in 0 1 2; do
    run $rank cache calls $mode "$work/data"
  done
done
for mode in "threads - 0 0" "handles - 0 0" "nftw phys,nested 2 0" "nftw chdir 1 0" "fts phys 0 1" \
  "fts logical 7 2" "fts phys,nochdir,compar 0 3"; do
  for rank in 0 1 2; do
    # shellcheck disable=SC2086  # words
    run $rank cache trees $mode "$work/data"
  done
done
for SHARD_STRATEGY in range stride hash; do
  export SHARD_STRATEGY
  for seed in '' 7; do
    [ -z "$seed" ] || export SHARD_SEED=$seed
    run 1 "cold.$SHARD_STRATEGY.$seed" calls first "$work/data"
    for mode in agree reused chdir walk spawning rewinding; do
      run 0 cache calls $mode "$work/data" 200
    done
    # a race of the program's own, but the library must bear it
    [ "$kind" = thread ] || run 0 cache calls closing "$work/data" 200
    dataset=$work/more:$work/data run 2 two calls spawning "$work/data" 200
    unset SHARD_SEED
  done
done
# The logs of SHARD_STATS.
export SHARD_STATS=$work/stats
for mode in threads fork exec; do
  dataset=$work/data run 1 cache opens $mode "$work/data" "$work"/data/file* "$work"/data/sub/deep/*
  "$CTL" verify "$work/stats" --json | grep -q ', 209, [0-9]*, [0-9]*, [0-9]* \]' || { failed=$((failed + 1)); echo "FAIL $kind statistics of opens $mode"; }
done
finish
