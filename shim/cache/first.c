/* SPDX-License-Identifier: MIT */
#include "cache/first.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fnv.h"
#include "cache/elect.h"
#include "cache/entry.h"
#include "cache/prebuilt.h"
#include "cache/produce.h"
#include "config/config.h"
#include "listing/listing.h"

bool shard_first_find_ready(const struct shard_first *f, const struct shard_entry *e,
                            const char *job, struct shard_found *found) {
  if (f->object && !job) {
    return shard_entry_find_shared(e, f->listing, found);
  }
  return (shard_wanted_is_remote(e->wanted) || f->rank >= 0) && job
             ? shard_entry_find_pinned(e, job, found)
             : shard_entry_find_current(e, found);
}

int shard_first_timed_out(const struct shard_first *f, const struct shard_entry *e, char *err,
                          size_t size) {
  return shard_error_set(
      err, size, -ETIMEDOUT,
      "SHARD_LISTING='%.300s': rank 0 has not put the listing of '%.300s' there for %u s "
      "(SHARD_LISTING_BUILD=first); raise SHARD_TIMEOUT, or make the listing beforehand with "
      "shardctl index",
      f->listing, shard_wanted_source(e->wanted), shard_config()->timeout);
}

int shard_first_refuse(const struct shard_first *f, const struct shard_wanted *w, char *err,
                       size_t size) {
  return f->strict ? shard_error_set(err, size, -EINVAL,
                                     "SHARD_LISTING='%.300s' is of another dataset than '%.300s', "
                                     "or was made with other options; name a folder, or move it",
                                     f->listing, shard_wanted_source(w))
                   : 0;
}

/* ---- the other ranks ---- */

struct watch {
  const struct shard_entry *entry;
  const char *job;
};

static bool is_pinned(void *context) {
  const struct watch *w = context;
  return w->job && shard_entry_is_pinned(w->entry, w->job);
}

static int await_file(const struct shard_first *f, const struct shard_entry *e, const char *job,
                      struct shard_first_got *got, char *err, size_t size) {
  struct watch pin = {e, job};
  const struct shard_prebuilt_watch watch = {is_pinned, &pin};
  int rc = shard_prebuilt_await(f->listing, shard_wanted_source(e->wanted), &e->wanted->options,
                                &watch, &got->listing, err, size);
  got->taken = rc == SHARD_PREBUILT_ENOUGH;
  rc = rc == 0 ? shard_first_refuse(f, e->wanted, err, size) : rc;
  return rc < 0 ? rc : 0;
}

/* By a shardctl that asks for it, until `deadline`, or until the node has it. */
static int ask(const struct shard_first *f, const struct shard_entry *waiting, const char *job,
               int64_t deadline, struct shard_first_got *got, char *err, size_t size) {
  char seconds[32];
  int64_t left = deadline - shard_clock_ms();
  struct shard_production *p = calloc(1, sizeof(*p));
  left = left > 0 ? left : 0;
  /* The host may have set a locale with decimal commas, which shardctl does not know. */
  snprintf(seconds, sizeof(seconds), "%lld.%03lld", (long long)left / 1000, (long long)left % 1000);
  got->file = p ? shard_entry_new_file(waiting) : NULL;
  int rc = -ENOMEM;
  if (got->file) {
    p->entry = waiting;
    p->lock = got->lock;
    p->deadline = deadline + SHARD_PRODUCE_GRACE_MS;
    p->object = f->listing;
    p->seconds = seconds;
    p->watched = job ? job : f->listing;
    rc = shard_produce_index(p, got->file, err, size);
    rc = rc != 0 && shard_clock_ms() >= deadline ? -ETIMEDOUT : rc;
  } else {
    shard_error_set(err, size, rc, "out of memory");
  }
  got->taken = rc == 0 && p && p->needless;
  if (rc != 0 || got->taken) {
    free(got->file);
    got->file = NULL;
  }
  free(p);
  return rc;
}

static int await_object(const struct shard_first *f, const struct shard_entry *e, const char *job,
                        struct shard_first_got *got, char *err, size_t size) {
  struct shard_entry waiting = *e;
  struct shard_found ready;
  int64_t deadline = 0;
  uint64_t a = shard_fnv(SHARD_FNV_BASIS, e->key, sizeof(e->key)),
           b = shard_fnv(a, e->key, sizeof(e->key));
  snprintf(waiting.key, sizeof(waiting.key), "%016llx%016llx", (unsigned long long)a,
           (unsigned long long)b);
  int rc = shard_elect(&waiting, &got->lock, &deadline, err, size);
  if (rc == -ETIMEDOUT) {
    return shard_first_timed_out(f, e, err, size);
  }
  if (rc == 0 && shard_first_find_ready(f, &waiting, job, &ready)) {
    shard_listing_close(ready.listing);
    got->taken = true;
    return 0;
  }
  return rc ? rc : ask(f, &waiting, job, deadline, got, err, size);
}

int shard_first_await(const struct shard_first *f, const struct shard_entry *e, const char *job,
                      struct shard_first_got *got, char *err, size_t size) {
  *got = (struct shard_first_got){.lock = -1};
  return f->object ? await_object(f, e, job, got, err, size)
                   : await_file(f, e, job, got, err, size);
}

void shard_first_clear(struct shard_first_got *got) {
  if (got->file) {
    unlink(got->file); /* if it has no other name by now */
  }
  free(got->file);
  shard_listing_close(got->listing);
  shard_elect_release(got->lock);
}

int shard_first_take(const struct shard_entry *e, const struct shard_listing *given,
                     struct shard_found *found, char *err, size_t size) {
  char *file = shard_entry_new_file(e);
  int rc = file ? shard_prebuilt_put(given, file, err, size)
                : shard_error_set(err, size, -ENOMEM, "out of memory");
  rc = rc ? rc : shard_entry_install(e, file, found, err, size);
  free(file);
  return rc;
}

/* ---- rank 0 ---- */

int shard_first_share(const struct shard_first *f, const struct shard_entry *e, int lock,
                      int64_t deadline, struct shard_found *found, char *err, size_t size) {
  struct shard_listing *given;
  int rc =
      shard_prebuilt_try(f->listing, shard_wanted_source(e->wanted), &e->wanted->options, &given);
  if (rc > 0) {
    rc = shard_first_take(e, given, found, err, size);
    shard_listing_close(given);
    return rc;
  }
  int refused = rc == 0 ? shard_first_refuse(f, e->wanted, err, size) : 0;
  if (refused != 0) {
    return refused;
  }
  bool put = rc < 0; /* else it is of another directory: not to be touched */
  rc = shard_produce_listing(e, lock, deadline, NULL, found, err, size);
  if (rc == 0 && put) {
    rc = shard_prebuilt_put(found->listing, f->listing, err, size);
    if (rc != 0) {
      shard_listing_close(found->listing);
      found->listing = NULL;
    }
  }
  return rc;
}
