/* SPDX-License-Identifier: MIT */
#include "cache/make.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cache/lock.h"
#include "cache/store.h"
#include "config/config.h"
#include "host/builder.h"
#include "libshard.h"

/* For a shardctl whose bucket is silent to say why it was in vain. */
#define GRACE_MS 5000

/* ---- the lock ---- */

static void tell(const void *context, int64_t left) {
  const struct shard_request *r = context;
  char text[400];
  snprintf(text, sizeof(text), "waiting for another process to list '%.300s', %lld s left",
           shard_request_source(r), (long long)left / 1000);
  shard_log(SHARD_LOG_INFO, text);
}

int shard_make_lock(const struct shard_request *r, int *lock, int64_t *deadline, char *err,
                    size_t size) {
  char *file = shard_store_file(r, SHARD_CACHE_LOCK, 0);
  *lock = -1;
  *deadline = shard_clock_ms() + (int64_t)shard_config()->timeout * 1000;
  if (!file) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  int rc = shard_lock_take(file, *deadline, tell, r, lock, err, size);
  free(file);
  if (rc == -ETIMEDOUT) {
    shard_error_set(
        err, size, rc,
        "another process has been listing '%.300s' for more than %u s; raise SHARD_TIMEOUT, or "
        "build it beforehand (shardctl index) and set SHARD_LISTING",
        shard_request_source(r), shard_config()->timeout);
  }
  return rc;
}

/* ---- shardctl ---- */

/* What shardctl is called with. */
static void set_arguments(const struct shard_request *r, enum shard_make_how how, const char *file,
                          const char *arguments[16]) {
  bool object = r->kind == SHARD_REQUEST_OBJECT, parts = how == SHARD_MAKE_PARTS;
  size_t n = 0;
  arguments[n++] = object ? "get" : parts ? "stream" : "index";
  arguments[n++] = *r->origin ? r->origin : r->real;
  arguments[n++] = "-o";
  arguments[n++] = file;
  if (!object) {
    arguments[n++] = "--options";
    arguments[n++] = r->options_text;
  }
  if (!object && !parts) {
    arguments[n++] = "--quiet";
  }
  if (r->kind == SHARD_REQUEST_MANIFEST) {
    arguments[n++] = "--root";
    arguments[n++] = r->real;
  }
  arguments[n] = NULL;
}

/* -EIO, and what shardctl has said last. */
static int fail(const struct shard_request *r, const struct shard_builder *b, char *err,
                size_t size) {
  const char *last = shard_builder_last_line(b), *words = last[0] ? last : "shardctl failed";
  const char *source = shard_request_source(r);
  bool named = strstr(words, source);
  bool full = strstr(words, SHARD_BUILDER_NO_SPACE) && !strstr(words, "SHARD_LISTING='");
  return shard_error_set(err, size, -EIO, "%s%s%.300s%s", words, named ? "" : " while it listed ",
                         named ? "" : source,
                         full ? "; set SHARD_CACHE_DIR to a directory with room" : "");
}

/* One shardctl, killed at the deadline. */
static int run_once(const struct shard_request *r, int lock, struct shard_builder *b,
                    const char *const *arguments, int64_t deadline, char *err, size_t size) {
  const char *source = shard_request_source(r);
  int rc = shard_builder_start(b, arguments, r->environment, lock, err, size);
  if (rc != 0) {
    return rc;
  }
  switch (shard_builder_wait(b, deadline)) {
  case SHARD_BUILDER_LATE:
    rc = shard_error_set(err, size, -ETIMEDOUT,
                         "listing '%.300s' took more than %u s; raise SHARD_TIMEOUT, or build it "
                         "beforehand (shardctl index) and set SHARD_LISTING",
                         source, shard_config()->timeout);
    break;
  case SHARD_BUILDER_KILLED:
    rc = shard_error_set(err, size, -EIO,
                         "shardctl was killed by signal %d while it listed '%.300s'", b->signal,
                         source);
    break;
  case SHARD_BUILDER_FAILED:
    rc = fail(r, b, err, size);
    break;
  case SHARD_BUILDER_DONE:
    break;
  }
  if (rc != 0) {
    shard_store_remove_leftovers(r);
  }
  return rc;
}

static int run(const struct shard_request *r, const struct shard_making *m, struct shard_builder *b,
               const char *file, char *err, size_t size) {
  const char *arguments[16];
  char text[400];
  set_arguments(r, m->how, file, arguments);
  snprintf(text, sizeof(text), "%s '%.300s'",
           r->kind == SHARD_REQUEST_OBJECT ? "fetching" : "listing", shard_request_source(r));
  shard_log(SHARD_LOG_INFO, text);
  bool grace = shard_request_is_remote(r);
  int64_t deadline = m->deadline + (grace ? GRACE_MS : 0);
  int rc = 0;
  /* One that is killed gets a successor: this rank waits like the others. One that cannot use what
   * the program's LD_LIBRARY_PATH leads to gets the system's libraries. */
  bool again = true;
  for (int tries = 0; again; tries++) {
    shard_store_remove_leftovers(r);
    rc = run_once(r, m->lock, b, arguments, deadline, err, size);
    bool lacks = rc == -EIO && getenv("LD_LIBRARY_PATH") && shard_builder_lacks_libraries(b);
    again = tries == 0 && rc != 0 && (b->signal || lacks);
    b->own = lacks;
  }
  /* A host that reaps all its children learns of a failure by the file alone. */
  if (rc == 0 && m->how != SHARD_MAKE_PARTS && b->words[0] && access(file, F_OK) != 0) {
    rc = fail(r, b, err, size);
  }
  return rc == -EIO && grace && shard_clock_ms() >= m->deadline ? -ETIMEDOUT : rc;
}

int shard_make(const struct shard_request *r, const struct shard_making *m, const char *file,
               char *err, size_t size) {
  struct shard_builder *b = calloc(1, sizeof(*b));
  int rc = b ? run(r, m, b, file, err, size) : shard_error_set(err, size, -ENOMEM, "out of memory");
  free(b);
  return rc;
}
