#!/bin/bash
# SPDX-License-Identifier: MIT
# What happens at the same time: forks while a listing is built, builders that die, locks that go.
# ROUNDS: how often (1).
. "$(dirname "$0")/lib.bash"
ROUNDS=${ROUNDS:-1}
export SHARD_CACHE_DIR=$WORK/cache SHARD_TIMEOUT=3

# A thread of a host forks children that sleep, and inherit whatever libshard.so has open.
program forks
sets=
for k in {01..12}; do mkdir "$WORK/set$k"; touch "$WORK/set$k"/{1..10}; sets+=:$WORK/set$k; done
for ((round = 1; round <= ROUNDS; round++)); do
  for each in 200 20000; do
    rm -rf "$SHARD_CACHE_DIR"; begin=$SECONDS
    SHARD_DATASET=${sets#:} SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD=$LIB timeout 200 "$WORK/forks" $each "$WORK"/set* >"$WORK/out" 2>"$WORK/err"
    verdict "12 listings, a fork each $each us" "$(grep -vx 5 "$WORK/out"; [ "$(wc -l <"$WORK/out")" = 12 ] || echo "$(wc -l <"$WORK/out") of 12"; head -3 "$WORK/err"
      ((SECONDS - begin < 60)) || echo "took $((SECONDS - begin)) s")"
  done
done

SHARD_DATASET=$WORK/set01 SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD=$LIB timeout 60 "$WORK/forks" shared "$WORK/set01" >"$WORK/out" 2>&1
verdict "children read a stream that a thread of the parent reads" "$(grep -vx "200 children, the last one's status: 0" "$WORK/out")"

# A host that dies while its builder works; a child that it has forked has the lock open, and lives on.
mkdir "$WORK/slow" "$WORK/left"; cp "$LIB" "$WORK/slow"; touch "$WORK/left"/{1..10}
printf '#!/bin/sh\nsleep 1\nexec "%s" "$@"\n' "$CTL" >"$WORK/slow/shardctl"; chmod +x "$WORK/slow/shardctl"
for ((round = 1; round <= ROUNDS; round++)); do
  rm -rf "$SHARD_CACHE_DIR"
  SHARD_DATASET=$WORK/left SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD=$WORK/slow/libshard.so "$WORK/forks" late 6 "$WORK/left" >/dev/null 2>&1 & host=$!
  sleep 0.6; kill -9 $host; wait $host 2>/dev/null
  SHARD_DATASET=$WORK/left SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD=$LIB timeout 20 ls "$WORK/left" >"$WORK/out" 2>"$WORK/err"
  verdict "a host that died has left a child" "$([ "$(wc -l <"$WORK/out")" = 5 ] || shown cat "$WORK/out" "$WORK/err")"
done

# The shardctl that makes statistics of a log hangs.
mkdir "$WORK/stuck"; cp "$LIB" "$WORK/stuck"; printf '#!/bin/sh\nexec sleep 100\n' >"$WORK/stuck/shardctl"; chmod +x "$WORK/stuck/shardctl"
begin=$SECONDS
SHARD_STRATEGY=hash SHARD_STATS=$WORK/stuck/%r.json SHARD_DATASET=$WORK/left SHARD_RANK=0 SHARD_SIZE=1 LD_PRELOAD=$WORK/stuck/libshard.so bash -c 'printf "%s\n" "$1"/*' - "$WORK/left" >"$WORK/out" 2>"$WORK/err"
verdict "statistics that are not made in time" "$([ "$(wc -l <"$WORK/out")" = 10 ] || cat "$WORK/out"; grep -q "did not end within SHARD_TIMEOUT; run shardctl stats" "$WORK/err" || echo "says: $(cat "$WORK/err")"
  ((SECONDS - begin < 30)) || echo "took $((SECONDS - begin)) s"; [ -s "$WORK/stuck/0.json.log" ] || echo "the log is gone")"
finish
