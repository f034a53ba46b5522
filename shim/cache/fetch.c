/* SPDX-License-Identifier: MIT */
#include "cache/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "cache/elect.h"
#include "cache/entry.h"
#include "cache/produce.h"
#include "cache/safe.h"
#include "config/pattern.h"

/* One call; on the heap. */
struct fetching {
  struct shard_wanted wanted;
  struct shard_entry entry;
  struct shard_production production;
  char cache[PATH_MAX];
};

/* Whether the object is there, as this job has got it. Without a job it gets old. */
static bool have_object(const char *file, bool job) {
  struct stat st;
  char ignored[1];
  time_t now = time(NULL);
  int fd = shard_safe_open(file, O_RDONLY, 0, false, &st, ignored, sizeof(ignored));
  if (fd >= 0) {
    close(fd);
  }
  return fd >= 0 &&
         (job || (st.st_mtim.tv_sec <= now && st.st_mtim.tv_sec > now - SHARD_WANTED_FRESH));
}

static int name_file(const struct shard_entry *e, const char *url, const char *job, char *file,
                     size_t size) {
  char name[SHARD_CACHE_NAME];
  shard_cache_name_print(SHARD_CACHE_OBJECT, e->key, shard_wanted_job_id(job), name);
  const char *manifest = shard_pattern_manifest_suffix(url);
  return (size_t)snprintf(file, size, "%s/%s%s", e->cache, name, manifest ? manifest : ".listing") <
                 size
             ? 0
             : -ENAMETOOLONG;
}

/* Under the lock. */
static int get(struct fetching *f, const char *url, const char *file, char *err, size_t size) {
  char *made = shard_entry_new_file(&f->entry);
  int rc = made ? shard_produce_object(&f->production, made, err, size)
                : shard_error_set(err, size, -ENOMEM, "out of memory");
  if (rc == 0 && rename(made, file) != 0) {
    const char *words = f->production.builder.words;
    rc = shard_error_set(err, size, -errno, "SHARD_LISTING='%.300s': %s", url,
                         words[0] ? words : strerror(errno));
  }
  free(made);
  return rc;
}

int shard_fetch(const char *dir, const char *url, const char *job, char *file, size_t file_size,
                char *err, size_t size) {
  int saved = errno, lock = -1;
  struct fetching *f = calloc(1, sizeof(*f));
  if (!f) {
    errno = saved;
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  int rc = shard_wanted_object(&f->wanted, dir, url, job, err, size);
  rc = rc ? rc : shard_entry_locate(&f->entry, &f->wanted, f->cache, err, size);
  if (rc == 0) {
    shard_wanted_key(&f->wanted, job != NULL, f->entry.key);
    memcpy(f->entry.job_key, f->entry.key, sizeof(f->entry.job_key));
    rc = name_file(&f->entry, url, job, file, file_size);
    rc = rc ? shard_error_set(err, size, rc, "the path of the cache directory is too long") : 0;
  }
  if (rc == 0 && !have_object(file, job)) {
    rc = shard_elect(&f->entry, &lock, &f->production.deadline, err, size);
    if (rc == 0 && !have_object(file, job)) {
      f->production.entry = &f->entry;
      f->production.lock = lock;
      rc = get(f, url, file, err, size);
    }
    shard_elect_release(lock);
  }
  free(f);
  errno = saved;
  return rc;
}

void shard_fetch_rename(const char *file, const char *url, char *err, size_t size) {
  char *at = strstr(err, file), *tail = at ? strdup(at + strlen(file)) : NULL;
  if (tail) {
    snprintf(at, size - (size_t)(at - err), "%.300s%s", url, tail);
  }
  free(tail);
}
