/* SPDX-License-Identifier: MIT */
/*
 * passes.h - which epoch it is under SHARD_EPOCH=auto: a dataset's passes are counted.
 *
 * A pass has ended once the root has been read to its end; the next one, with the next epoch,
 * begins when the root is read from its beginning. Lock-free, so a forked child goes on from its
 * parent's count.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* Twice the epoch, and one more once its pass has ended. */
typedef _Atomic uint64_t shard_passes;

static inline void shard_passes_init(shard_passes *passes, uint64_t epoch) {
  atomic_init(passes, 2 * epoch);
}

static inline uint64_t shard_passes_epoch(shard_passes *passes) { return atomic_load(passes) / 2; }

/* The root is about to be read from its beginning: the epoch, a new one if the last has ended. */
uint64_t shard_passes_begin(shard_passes *passes);

/* The root has been read to its end in this epoch. */
void shard_passes_end(shard_passes *passes, uint64_t epoch);
