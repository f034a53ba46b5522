/* SPDX-License-Identifier: MIT */
#include "cache/elect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cache/entry.h"
#include "config/config.h"
#include "host/builder.h"
#include "libshard.h"

#define SAY_MS 5000

static int await_lock(const struct shard_entry *e, const char *file, int lock, int64_t deadline,
                      char *err, size_t size) {
  const char *source = shard_wanted_source(e->wanted);
  int64_t said = shard_clock_ms();
  char text[400];
  long nap_ms = 1;
  while (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return shard_error_set(err, size, -errno, "cannot lock '%.300s': %s; set SHARD_CACHE_DIR",
                             file, strerror(errno));
    }
    if (shard_clock_ms() >= deadline) {
      return shard_error_set(
          err, size, -ETIMEDOUT,
          "another process has been listing '%.300s' for more than %u s; raise SHARD_TIMEOUT, or "
          "build it beforehand (shardctl index) and set SHARD_LISTING",
          source, shard_config()->timeout);
    }
    nanosleep(&(struct timespec){0, nap_ms * 1000000L}, NULL);
    nap_ms = nap_ms < 50 ? nap_ms * 2 : 50;
    if (shard_clock_ms() >= said + SAY_MS) {
      said = shard_clock_ms();
      snprintf(text, sizeof(text), "waiting for another process to list '%.300s', %lld s left",
               source, (long long)(deadline - said) / 1000);
      shard_log(SHARD_LOG_INFO, text);
    }
  }
  return 0;
}

int shard_elect(const struct shard_entry *e, int *held, int64_t *deadline, char *err, size_t size) {
  char name[SHARD_CACHE_NAME];
  shard_cache_name_print(SHARD_CACHE_LOCK, e->key, 0, name);
  char *file = shard_entry_path(e, name);
  *held = -1;
  if (!file) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  int rc = 0, lock = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  *held = lock = shard_builder_move_fd(lock);
  if (lock < 0) {
    bool shortage = shard_error_is_shortage(errno);
    rc = shard_error_set(err, size, -errno, "cannot write to the cache directory '%.300s': %s%s",
                         e->cache, strerror(errno), shortage ? "" : "; set SHARD_CACHE_DIR");
  } else {
    *deadline = shard_clock_ms() + (int64_t)shard_config()->timeout * 1000;
    rc = await_lock(e, file, lock, *deadline, err, size);
  }
  free(file);
  return rc;
}

void shard_elect_release(int lock) {
  if (lock >= 0) {
    flock(lock, LOCK_UN); /* closing alone would not do: a child forked meanwhile has it open too */
    close(lock);
  }
}
