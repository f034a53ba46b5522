/* SPDX-License-Identifier: MIT */
#include "cache/elect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "cache/entry.h"
#include "cache/lock.h"
#include "config/config.h"
#include "libshard.h"

static void tell(const void *context, int64_t left) {
  const struct shard_entry *e = context;
  char text[400];
  snprintf(text, sizeof(text), "waiting for another process to list '%.300s', %lld s left",
           shard_wanted_source(e->wanted), (long long)left / 1000);
  shard_log(SHARD_LOG_INFO, text);
}

int shard_elect(const struct shard_entry *e, int *held, int64_t *deadline, char *err, size_t size) {
  char name[SHARD_CACHE_NAME];
  shard_cache_name_print(SHARD_CACHE_LOCK, e->key, 0, name);
  char *file = shard_entry_path(e, name);
  *held = -1;
  *deadline = shard_clock_ms() + (int64_t)shard_config()->timeout * 1000;
  if (!file) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  int rc = shard_lock_take(file, *deadline, tell, e, held, err, size);
  free(file);
  if (rc == -ETIMEDOUT) {
    shard_error_set(
        err, size, rc,
        "another process has been listing '%.300s' for more than %u s; raise SHARD_TIMEOUT, or "
        "build it beforehand (shardctl index) and set SHARD_LISTING",
        shard_wanted_source(e->wanted), shard_config()->timeout);
  }
  return rc;
}

void shard_elect_release(int lock) { shard_lock_release(lock); }
