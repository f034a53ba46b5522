#!/bin/bash
# SPDX-License-Identifier: MIT
# A thread with a stack of 16 KiB (PTHREAD_STACK_MIN; so have Argobots' threads, and so DAOS' and Mochi's): every function that
# libshard.so exports, its error paths too, says there what it says in a thread with 8 MB. scripts/stacks.py counts the bytes.
. "$(dirname "$0")/lib.bash"
ulimit -c 0
unset "${!SHARD_@}"
cd "$WORK" || exit 2
program stack
D=$WORK/data N=$WORK/data.listing
mkdir -p "$D"/{a,b}; touch "$D"/f{0..9} "$D"/a/{0..9} "$D"/b/{0..9}
"$CTL" index "$D" -o "$N" >/dev/null 2>&1 || fail index "shardctl index"
# A name longer than what the stack has room for.
mkdir "$WORK/long"; touch "$WORK/long/$(printf 'n%.0s' {1..250})"{1,2} "$WORK/long/f1"
long=$WORK/$(printf '%0200d/' {1..5})end; mkdir -p "$long"; touch "$long"/f{0..9}

# calls that libc itself can make with so little
for call in $(./stack); do
  if ./stack small "$D" "$N" "$call" >/dev/null 2>&1; then calls+=("$call"); else skip "$call" "libc's own takes more, without libshard"; fi
done
verdict "libc's own calls" "$([ ${#calls[@]} -ge 12 ] || echo "only ${calls[*]:-none} can be made bare")"

# cell NAME FOLDER VARIABLES...: all calls in turn; NAME=each/...: each in a process and with a cache of its own
cell() {
  local name=$1 folder=$2 how call rc; shift 2
  for how in roomy small; do
    rm -rf cache stats; mkdir -m 700 cache
    : >"$how"
    for call in $([[ $name = each/* ]] && printf '%s\n' "${calls[@]}" || echo "${calls[*]}" | tr ' ' ,); do
      [[ $name != each/* ]] || { rm -rf cache; mkdir -m 700 cache; }
      env SHARD_RANK=0 SHARD_SIZE=2 SHARD_DATASET="$folder" SHARD_CACHE_DIR="$WORK/cache" "$@" LD_PRELOAD="${L:-$LIB}" \
        timeout 300 ./stack $how "$folder" "$N" ${call//,/ } >>"$how" 2>"$how.lines"; rc=$?
      echo "exit $rc" >>"$how"
    done
  done
  same "$name" roomy small
}
cell each/made "$D"
cell each/statistics "$D" SHARD_STATS="$WORK/stats"
cell read "$D" SHARD_LOG=debug
cell hash "$D" SHARD_STRATEGY=hash SHARD_STATS="$WORK/stats"
cell shuffled "$D" SHARD_SEED=1 SHARD_STATS="$WORK/stats"
cell "long names" "$WORK/long" SHARD_STATS="$WORK/stats"
cell "a long path" "$long" SHARD_STATS="$WORK/stats"
cell given "$D" SHARD_LISTING="$N" SHARD_STATS="$WORK/stats"
cell off "$D" SHARD_VIEW=off SHARD_STATS="$WORK/stats"
cell "many datasets" "$D" SHARD_DATASET="$D$(printf ":$WORK/none%d" {1..150})" SHARD_STATS="$WORK/stats"
# What fails, each with its line.
cell each/variable "$D" SHARD_STRATEGY=nonsense
cell each/contradiction "$D" -u SHARD_RANK -u SHARD_SIZE PMI_RANK=0 PMI_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2
cell "no rank" "$D" -u SHARD_RANK -u SHARD_SIZE
cell "statistics that cannot be written" "$D" SHARD_STATS=/proc/stats
cell "no cache" "$D" SHARD_CACHE_DIR=/proc/cache
cell "no dataset" "$D" SHARD_DATASET="$WORK/nowhere"
cell nested "$D" SHARD_DATASET="$D:$D/a"
cell "an epoch" "$D" SHARD_EPOCH=x
mkdir "$D/a/_delta_log"; cell table "$D"; rmdir "$D/a/_delta_log"
cell "too few" "$D" SHARD_REMAINDER=drop SHARD_SIZE=50
touch "$D/new"; cell each/stale "$D" SHARD_LISTING="$N"
head -c 3000 "$N" >bad.listing; cell damaged "$D" SHARD_LISTING="$WORK/bad.listing"
cp "$LIB" "$WORK"; L=$WORK/libshard.so cell each/alone "$D"
finish
