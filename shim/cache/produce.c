/* SPDX-License-Identifier: MIT */
#include "cache/produce.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cache/entry.h"
#include "cache/safe.h"
#include "config/config.h"
#include "libshard.h"
#include "listing/listing.h"

int shard_produce_failed(const struct shard_production *p, char *err, size_t size) {
  const char *words = shard_builder_last_line(&p->builder);
  const char *source = shard_wanted_source(p->entry->wanted);
  if (p->object) {
    return shard_error_set(err, size, -EIO, "SHARD_LISTING='%.300s': %s", p->object,
                           words[0] ? words : "shardctl failed");
  }
  bool named = strstr(words, source);
  return shard_error_set(err, size, -EIO, "%s%s%.300s%s", words[0] ? words : "shardctl failed",
                         named ? "" : " while it listed ", named ? "" : source,
                         strstr(words, SHARD_BUILDER_NO_SPACE)
                             ? "; set SHARD_CACHE_DIR to a directory with room"
                             : "");
}

static bool is_watched_pinned(void *context) {
  const struct shard_production *p = context;
  return shard_entry_is_pinned(p->entry, p->watched);
}

/* One shardctl. */
static int run_once(struct shard_production *p, const char *const *arguments, int64_t deadline,
                    char *err, size_t size) {
  const char *source = shard_wanted_source(p->entry->wanted);
  struct shard_builder *b = &p->builder;
  int rc = shard_builder_start(b, arguments, p->entry->wanted->environment, p->lock, err, size);
  if (rc != 0) {
    return rc;
  }
  switch (shard_builder_wait(b, deadline, p->watched ? is_watched_pinned : NULL, p)) {
  case SHARD_BUILDER_NEEDLESS:
    p->needless = true;
    break;
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
    rc = shard_produce_failed(p, err, size);
    break;
  case SHARD_BUILDER_DONE:
    break;
  }
  if (rc != 0 || p->needless) {
    shard_entry_remove_leftovers(p->entry);
  }
  return rc;
}

/* doing: for the log, "listing". */
static int run(struct shard_production *p, const char *const *arguments, const char *doing,
               char *err, size_t size) {
  const struct shard_wanted *w = p->entry->wanted;
  char text[400];
  snprintf(text, sizeof(text), "%s '%.300s'", doing, shard_wanted_source(w));
  shard_log(SHARD_LOG_INFO, text);
  /* shardctl knows why the bucket is silent: allow it GRACE_MS more to say so. Who waits for rank 0
   * has it added. */
  bool grace = shard_wanted_is_remote(w) && !p->seconds;
  int64_t deadline = p->deadline + (grace ? SHARD_PRODUCE_GRACE_MS : 0);
  int rc = 0;
  p->needless = false;
  p->builder.signal = 0;
  /* One that is killed gets a successor: this rank waits like the others. */
  for (int tries = 0; tries == 0 || (tries == 1 && rc != 0 && p->builder.signal); tries++) {
    shard_entry_remove_leftovers(p->entry);
    rc = run_once(p, arguments, deadline, err, size);
  }
  if (rc == 0 && p->object) {
    shard_builder_pass_warnings(&p->builder);
  }
  return rc == -EIO && shard_wanted_is_remote(w) && shard_clock_ms() >= p->deadline ? -ETIMEDOUT
                                                                                    : rc;
}

/* A host that reaps all its children learns of a failure by the file alone. */
static int check_file(const struct shard_production *p, const char *file, char *err, size_t size) {
  struct shard_listing *l;
  if (!p->builder.words[0]) {
    return 0; /* whoever opens the file sees */
  }
  if (shard_safe_listing(file, &l) != 0) {
    unlink(file);
    return shard_produce_failed(p, err, size);
  }
  shard_listing_close(l);
  return 0;
}

int shard_produce_index(struct shard_production *p, const char *file, char *err, size_t size) {
  const struct shard_wanted *w = p->entry->wanted;
  const char *arguments[16] = {
      "index",  *w->origin ? w->origin : w->real, "-o", file, "--options", w->options_text,
      "--quiet"};
  size_t n = 7;
  if (w->kind == SHARD_WANTED_MANIFEST) {
    arguments[n++] = "--root";
    arguments[n++] = w->real;
  }
  if (p->object) {
    arguments[n++] = "--share";
    arguments[n++] = p->object;
  }
  if (p->object && p->seconds) {
    arguments[n++] = "--wait";
    arguments[n++] = p->seconds;
  }
  int rc = run(p, arguments, p->seconds ? "waiting for rank 0's listing of" : "listing", err, size);
  return rc != 0 || p->needless ? rc : check_file(p, file, err, size);
}

int shard_produce_object(struct shard_production *p, const char *file, char *err, size_t size) {
  const char *const arguments[] = {"get", p->entry->wanted->origin, "-o", file, NULL};
  return run(p, arguments, "fetching", err, size);
}

int shard_produce_stream(struct shard_production *p, const char *base, char *err, size_t size) {
  const struct shard_wanted *w = p->entry->wanted;
  const char *const arguments[] = {"stream",    w->origin,       "-o", base,
                                   "--options", w->options_text, NULL};
  return run(p, arguments, "listing", err, size);
}

int shard_produce_listing(const struct shard_entry *e, int lock, int64_t deadline,
                          const char *object, struct shard_found *found, char *err, size_t size) {
  struct shard_production *p = calloc(1, sizeof(*p));
  char *file = p ? shard_entry_new_file(e) : NULL;
  int rc = -ENOMEM;
  if (file) {
    p->entry = e;
    p->lock = lock;
    p->deadline = deadline;
    p->object = object;
    rc = shard_produce_index(p, file, err, size);
    rc = rc ? rc : shard_entry_install(e, file, found, err, size);
  } else {
    shard_error_set(err, size, rc, "out of memory");
  }
  free(file);
  free(p);
  return rc;
}
