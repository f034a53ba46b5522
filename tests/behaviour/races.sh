#!/bin/bash
# SPDX-License-Identifier: MIT
# What happens at the same time: forks while a listing is built, builders that die, locks that go.
# ROUNDS: how often (1).
. "$(dirname "$0")/lib.bash"
ROUNDS=${ROUNDS:-1}
export SHARD_CACHE_DIR=$WORK/cache SHARD_TIMEOUT=100 # whoever waits for a child that lives on, waits for so long, and fails

# A thread of a host forks children that sleep, and inherit whatever libshard.so has open.
program forks
sets=
for k in {01..12}; do mkdir "$WORK/set$k"; touch "$WORK/set$k"/{1..10}; sets+=:$WORK/set$k; done
for ((round = 1; round <= ROUNDS; round++)); do
  for each in 200 20000; do
    rm -rf "$SHARD_CACHE_DIR"
    SHARD_DATASET=${sets#:} SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD=$LIB timeout 300 "$WORK/forks" $each "$WORK"/set* >"$WORK/out" 2>"$WORK/err"
    verdict "12 listings, a fork each $each us" "$(grep -vx 5 "$WORK/out"; [ "$(wc -l <"$WORK/out")" = 12 ] || echo "$(wc -l <"$WORK/out") of 12"; head -3 "$WORK/err")"
  done
done

SHARD_DATASET=$WORK/set01 SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD=$LIB timeout 300 "$WORK/forks" shared "$WORK/set01" >"$WORK/out" 2>&1
verdict "children read a stream that a thread of the parent reads" "$(grep -vx "200 children, the last one's status: 0" "$WORK/out")"

# A host that dies while its builder works; a child that it has forked has the lock open, and lives on.
mkdir "$WORK/slow" "$WORK/left"; cp "$LIB" "$WORK/slow"; touch "$WORK/left"/{1..10}
printf '#!/bin/sh\n: >"%s"\nuntil [ -e "%s" ]; do sleep 0.02; done\nexec "%s" "$@"\n' "$WORK/builds" "$WORK/go" "$CTL" >"$WORK/slow/shardctl"
chmod +x "$WORK/slow/shardctl"; mkfifo "$WORK/hold"
for ((round = 1; round <= ROUNDS; round++)); do
  rm -rf "$SHARD_CACHE_DIR" "$WORK"/{builds,builds.forked,go}; exec 9<>"$WORK/hold"
  SHARD_DATASET=$WORK/left SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD=$WORK/slow/libshard.so "$WORK/forks" late "$WORK/builds" "$WORK/left" <"$WORK/hold" 9>&- >/dev/null 2>&1 & host=$!
  await "the host's child" test -e "$WORK/builds.forked"; kill -9 $host; wait $host 2>/dev/null; : >"$WORK/go"
  SHARD_DATASET=$WORK/left SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD=$LIB timeout 300 ls "$WORK/left" >"$WORK/out" 2>"$WORK/err" 9>&-
  exec 9>&-
  verdict "a host that died has left a child" "$([ "$(wc -l <"$WORK/out")" = 5 ] || shown cat "$WORK/out" "$WORK/err")"
done

finish
