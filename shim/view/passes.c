/* SPDX-License-Identifier: MIT */
#include "view/passes.h"

uint64_t shard_passes_begin(shard_passes *passes) {
  uint64_t now = atomic_load(passes);
  while (now & 1) {
    if (atomic_compare_exchange_weak(passes, &now, now + 1)) {
      now++;
    }
  }
  return now / 2;
}

void shard_passes_end(shard_passes *passes, uint64_t epoch) {
  uint64_t now = 2 * epoch;
  atomic_compare_exchange_strong(passes, &now, now + 1); /* unless another has ended it */
}
