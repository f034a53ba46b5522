/* SPDX-License-Identifier: MIT */
#include "cache/make.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cache/lock.h"
#include "cache/request.h"
#include "config/config.h"
#include "host/builder.h"
#include "libshard.h"

/* For a shardctl whose bucket is silent to say why it was in vain. */
#define GRACE_MS 5000
/* What the kernel kills for. */
#define OUT_OF_MEMORY                                                                              \
  "; memory may have run out: set SHARD_BUILD_MEMORY lower (8M at least), or raise the job's "     \
  "limit"

/* ---- the lock ---- */

static void tell(const void *context, int64_t left) {
  const struct shard_request *r = context;
  shard_say(SHARD_LOG_INFO, "waiting for another process to list '%.300s', %lld s left",
            shard_request_source(r), (long long)left / 1000);
}

int shard_make_lock(const struct shard_request *r, const char *file, int *lock, int64_t *deadline,
                    char *err, size_t size) {
  *deadline = shard_clock_ms() + (int64_t)shard_config()->timeout * 1000;
  int rc = shard_lock_take(file, *deadline, tell, r, lock, err, size);
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

/* What shardctl is to do. */
struct work {
  const struct shard_request *request;
  const struct shard_making *making;
  const char *source, *file;
  bool remote;
  const char *arguments[16];
};

/* -EIO, or -ENOSPC, and what shardctl has said last. */
static int fail(const struct work *w, const struct shard_builder *b, char *err, size_t size) {
  const char *last = shard_builder_last_line(b), *words = last[0] ? last : "shardctl failed";
  bool named = strstr(words, w->source);
  bool full = strstr(words, SHARD_BUILDER_NO_SPACE);
  return shard_error_set(err, size, full ? -ENOSPC : -EIO, "%s%s%.300s%s", words,
                         named ? "" : " while it listed ", named ? "" : w->source,
                         full ? "; set SHARD_CACHE_DIR to a directory with room" : "");
}

/* One shardctl, killed at the deadline. */
static int run_once(const struct work *w, struct shard_builder *b, int64_t deadline, char *err,
                    size_t size) {
  int rc =
      shard_builder_start(b, w->arguments, w->request->environment, w->making->lock, err, size);
  if (rc != 0) {
    return rc == -ENOENT ? -EIO : rc; /* shardctl is not there */
  }
  switch (shard_builder_wait(b, deadline)) {
  case SHARD_BUILDER_LATE:
    rc = shard_error_set(err, size, -ETIMEDOUT,
                         "listing '%.300s' took more than %u s; raise SHARD_TIMEOUT, or build it "
                         "beforehand (shardctl index) and set SHARD_LISTING",
                         w->source, shard_config()->timeout);
    break;
  case SHARD_BUILDER_KILLED:
    rc = shard_error_set(err, size, -EIO,
                         "shardctl was killed by signal %d while it listed '%.300s'%s", b->signal,
                         w->source, b->signal == SIGKILL ? OUT_OF_MEMORY : "");
    break;
  case SHARD_BUILDER_FAILED:
    rc = fail(w, b, err, size);
    break;
  case SHARD_BUILDER_DONE:
    break;
  }
  if (rc != 0) {
    unlink(w->file);
  }
  return rc;
}

static int run(const struct work *w, struct shard_builder *b, char *err, size_t size) {
  int64_t deadline = w->making->deadline + (w->remote ? GRACE_MS : 0);
  int rc = 0;
  b->remote = w->remote;
  /* A builder that is killed gets a successor: this rank waits like the others. */
  for (int tries = 0; tries == 0 || (tries == 1 && rc != 0 && b->signal); tries++) {
    unlink(w->file); /* of a dead process of this number: the lock is ours */
    rc = run_once(w, b, deadline, err, size);
  }
  /* A host that reaps all its children learns of a failure by the file alone. */
  if (rc == 0 && access(w->file, F_OK) != 0) {
    rc = fail(w, b, err, size);
  }
  return rc == -EIO && w->remote && shard_clock_ms() >= w->making->deadline ? -ETIMEDOUT : rc;
}

static int make(const struct work *w, char *err, size_t size) {
  bool get = strcmp(w->arguments[0], "get") == 0;
  shard_say(SHARD_LOG_INFO, "%s '%.300s'", get ? "getting" : "listing", w->source);
  struct shard_builder *b = calloc(1, sizeof(*b));
  int rc = b ? run(w, b, err, size) : shard_error_set(err, size, -ENOMEM, "out of memory");
  free(b);
  return rc;
}

int shard_make_index(const struct shard_request *r, const struct shard_making *m, const char *text,
                     const char *file, char *err, size_t size) {
  struct work w = {.request = r, .making = m, .file = file, .remote = *r->origin};
  w.source = text ? text : shard_request_source(r);
  const char *const of_text[] = {"index",   "-o",     file,    "--options", r->options_text,
                                 "--quiet", "--root", r->real, w.source};
  const char *const of_tree[] = {"index",         "-o",      file,    "--options",
                                 r->options_text, "--quiet", w.source};
  const char *const of_names[] = {"index",  "-o",   file,      "--keep-order", "-0",
                                  "--from", "text", "--quiet", w.source};
  if (r->kind == SHARD_REQUEST_NAMES) {
    memcpy(w.arguments, of_names, sizeof(of_names));
  } else {
    memcpy(w.arguments, text ? of_text : of_tree, text ? sizeof(of_text) : sizeof(of_tree));
  }
  return make(&w, err, size);
}

int shard_make_get(const struct shard_request *r, const struct shard_making *m, const char *url,
                   const char *file, char *err, size_t size) {
  const struct work w = {.request = r,
                         .making = m,
                         .source = url,
                         .file = file,
                         .remote = true,
                         .arguments = {"get", "-o", file, url}};
  return make(&w, err, size);
}
