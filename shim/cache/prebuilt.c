/* SPDX-License-Identifier: MIT */
/*
 * prebuilt.c - judges a listing that was made elsewhere, and opens the one that SHARD_LISTING
 * names.
 *
 * With SHARD_LISTING_BUILD=first rank 0 makes the listing that SHARD_LISTING names, if there is
 * none or an old one. All other ranks wait for it: one listing for all nodes.
 */
#include "cache/prebuilt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/whole.h"
#include "config/config.h"
#include "config/dataset.h"
#include "listing/codec.h"
#include "listing/identity.h"
#include "listing/listing.h"

/* here: see shard_prebuilt_is_true_here(). */
static bool is_true(const struct shard_listing *l, const char *real, bool here) {
  if (l->header->directories == 0) {
    return true; /* of a text or a bucket, which do not tell whether they have changed */
  }
  int root = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) {
    return false;
  }
  uint8_t boot[SHARD_BOOT_SIZE];
  bool now = shard_identity_boot(boot) && memcmp(boot, l->header->boot, sizeof(boot)) == 0;
  bool same = true;
  const uint8_t *pos = NULL;
  struct shard_dir_entry d = SHARD_DIR_ENTRY(l);
  struct shard_identity_eye eye = {0};
  while (same && shard_listing_dir(l, &pos, &d)) {
    struct shard_dir id;
    same = shard_identity_look(&eye, root, d.path, &id) == 0 &&
           shard_identity_is_equal(&id, &d.id) &&
           (!here || (now ? id.dev == d.id.dev && id.instance == d.id.instance && id.instance != 0
                          : eye.clock));
  }
  close(root);
  return same;
}

bool shard_prebuilt_is_true(const struct shard_listing *l, const char *real) {
  return is_true(l, real, false);
}

bool shard_prebuilt_is_true_here(const struct shard_listing *l, const char *real) {
  return is_true(l, real, true);
}

/* Whether the header proves that all names of `l` match one of the asked patterns. */
static bool all_names_match(const struct shard_listing *l, const struct shard_options *asked) {
  if (!asked->include[0] || l->names.count == 0) {
    return true;
  }
  const char *suffix = l->header->suffix;
  size_t have = strlen(suffix);
  for (const char *p = asked->include; *p;) {
    size_t n = strcspn(p, ":");
    bool plain = n > 0 && p[0] == '*' && strcspn(p + 1, "*?[\\:") == n - 1;
    if (plain && have >= n - 1 && memcmp(suffix + have - (n - 1), p + 1, n - 1) == 0) {
      return true;
    }
    p += n + (p[n] == ':');
  }
  return false;
}

/* Whether the order is the one that is asked for: with chunks, also that of paths if what the
 * directories show fits into one. */
static bool has_same_order(const struct shard_listing *l, const struct shard_options *made,
                           const struct shard_options *asked) {
  const struct shard_header *h = l->header;
  if (!asked->chunk || h->order != SHARD_ORDER_PATH || made->chunk == asked->chunk) {
    return asked->chunk ? made->chunk == asked->chunk : h->order == asked->order;
  }
  uint64_t shown = h->names.count + h->others.count + h->dirs_hidden + h->dir_links;
  bool all = asked->exact || made->attributes || (!made->include[0] && made->hidden);
  return all && shown + h->directories <= asked->chunk;
}

/* Whether a listing made with other options holds the very names that are asked for. */
static bool has_same_names(const struct shard_listing *l, const struct shard_options *asked) {
  struct shard_options made;
  char ignored[128];
  const struct shard_header *h = l->header;
  if (shard_options_parse(&made, l->options, ignored, sizeof(ignored)) != 0 ||
      !has_same_order(l, &made, asked)) {
    return false;
  }
  if (made.include[0] && strcmp(made.include, asked->include) != 0) {
    return false;
  }
  if (strcmp(made.include, asked->include) != 0 && !all_names_match(l, asked)) {
    return false;
  }
  if (made.follow != asked->follow && (made.follow || h->dir_links != 0)) {
    return false;
  }
  if (made.hidden != asked->hidden && (!made.hidden || h->dotted)) {
    return false;
  }
  if (h->names.count > 0 &&
      ((asked->depth && h->max_depth + 1 > asked->depth) ||
       (asked->exact && (h->min_depth + 1 != asked->exact || h->max_depth + 1 != asked->exact)))) {
    return false;
  }
  if (made.exact && made.exact != asked->exact) {
    return false;
  }
  if (asked->attributes && strcmp(made.include, asked->include) != 0) {
    return false; /* other patterns, other "others" */
  }
  if (asked->attributes && !made.attributes) {
    return false;
  }
  if (made.depth != asked->depth) {
    /* A deeper walk than asked for is fine if it found no directory so deep. */
    if (!asked->depth || (made.depth && made.depth < asked->depth)) {
      return false;
    }
    const uint8_t *pos = NULL;
    struct shard_dir_entry d = SHARD_DIR_ENTRY(l);
    while (shard_listing_dir(l, &pos, &d)) {
      uint32_t level = *d.path != 0;
      for (const char *p = d.path; *p; p++) {
        level += *p == '/';
      }
      if (level >= asked->depth) {
        return false;
      }
    }
  }
  return true;
}

bool shard_prebuilt_serves(const struct shard_listing *l, const char *real,
                           const struct shard_options *asked) {
  return strcmp(l->source, real) == 0 && has_same_names(l, asked);
}

/* Whether SHARD_DATASET names what a listing is of. */
static bool is_dataset(const char *source) {
  struct shard_dataset_item item;
  char path[PATH_MAX];
  for (const char *list = shard_config()->dataset;
       list && (list = shard_dataset_next(list, &item));) {
    snprintf(path, sizeof(path), "%.*s", (int)item.path_length, item.path);
    char *real = item.path_length > 0 && !item.url ? realpath(path, NULL) : NULL;
    bool same = real && strcmp(real, source) == 0;
    free(real);
    if (same) {
      return true;
    }
  }
  return false;
}

/*
 * Say in why[size] why a listing is not used. "" if it is of another dataset of SHARD_DATASET; or,
 * of a program that names its own, of a directory beside this one: train and valid share one
 * variable.
 */
static void explain_refusal(const struct shard_listing *l, const char *name, const char *real,
                            const struct shard_options *asked, char *why, size_t size) {
  size_t end = strlen(real), parent;
  end -= end > 1 && real[end - 1] == '/'; /* a bucket's prefix ends with a slash */
  const char *slash = memrchr(real, '/', end);
  parent = slash ? (size_t)(slash - real) + 1 : 0;
  const char *rest = strlen(l->source) > parent ? strchr(l->source + parent, '/') : NULL;
  char options[SHARD_OPTIONS_TEXT];
  *why = 0;
  if (strcmp(l->source, real) == 0) {
    shard_options_format(asked, options, sizeof(options));
    snprintf(why, size,
             "SHARD_LISTING='%.200s' is not used: '%.200s' is asked for with '%.200s', and it was "
             "made with '%.200s'",
             name, real, options, l->options);
  } else if (shard_config()->directories ? !is_dataset(l->source)
                                         : strncmp(l->source, real, parent) != 0 ||
                                               !l->source[parent] || (rest && rest[1])) {
    snprintf(why, size, "SHARD_LISTING='%.200s' is not used: it is of '%.300s', not of '%.300s'",
             name, l->source, real);
  }
}

int shard_prebuilt_judge(const struct shard_listing *l, const char *name, const char *real,
                         const struct shard_options *asked, char *why, size_t size) {
  if (!shard_prebuilt_serves(l, real, asked)) {
    explain_refusal(l, name, real, asked, why, size);
    return 0;
  }
  return shard_prebuilt_is_true(l, real) ? 1 : -ESTALE;
}

/* Open a listing if it is to be used; print a warning if it is of another directory or options. */
static int open_if_fit(const char *file, const char *name, const char *real,
                       const struct shard_options *asked, struct shard_listing **out) {
  struct shard_listing *l;
  char why[1100];
  int rc = shard_listing_open(file, &l);
  if (rc != 0) {
    return rc;
  }
  rc = shard_prebuilt_judge(l, name, real, asked, why, sizeof(why));
  if (rc > 0) {
    *out = l;
    return rc;
  }
  if (rc == 0 && why[0]) {
    shard_log(SHARD_LOG_WARN, why);
  }
  shard_listing_close(l);
  return rc;
}

int shard_prebuilt_try(const char *file, const char *real, const struct shard_options *asked,
                       struct shard_listing **out) {
  return open_if_fit(file, file, real, asked, out);
}

int shard_prebuilt_open(const char *file, const char *name, const char *real,
                        const struct shard_options *asked, struct shard_listing **out, char *err,
                        size_t size) {
  int rc = open_if_fit(file, name, real, asked, out);
  if (rc == -ESTALE) {
    snprintf(err, size,
             "SHARD_LISTING='%.300s': directory '%.300s' has changed since; make it anew with "
             "shardctl index",
             file, real);
  } else if (rc < 0) {
    snprintf(err, size, "SHARD_LISTING='%.300s': %s; %s", file, shard_listing_strerror(rc),
             shard_prebuilt_remedy(rc));
  }
  return rc;
}

const char *shard_prebuilt_remedy(int rc) {
  return rc == -EACCES || rc == -EPERM ? "let this user read it"
                                       : "make it anew with shardctl index";
}

bool shard_prebuilt_may_come(int rc) {
  return rc == -ENOENT || rc == -ESTALE || rc == -EBADMSG || rc == -EPROTONOSUPPORT;
}

int shard_prebuilt_await(const char *file, const char *real, const struct shard_options *asked,
                         const struct shard_prebuilt_watch *watch, struct shard_listing **out,
                         char *err, size_t size) {
  unsigned timeout = shard_config()->timeout;
  int64_t deadline = shard_clock_ms() + (int64_t)timeout * 1000;
  for (long nap_ms = 10;; nap_ms = nap_ms < 500 ? nap_ms * 2 : nap_ms) {
    if (watch && watch->enough(watch->context)) {
      return SHARD_PREBUILT_ENOUGH;
    }
    int rc = shard_prebuilt_try(file, real, asked, out);
    if (!shard_prebuilt_may_come(rc)) {
      if (rc < 0) {
        snprintf(err, size, "SHARD_LISTING='%.300s': %s; %s", file, shard_listing_strerror(rc),
                 shard_prebuilt_remedy(rc));
      }
      return rc;
    }
    if (shard_clock_ms() >= deadline) {
      snprintf(err, size,
               "SHARD_LISTING='%.300s': rank 0 has not put the listing of '%.200s' there for %u s "
               "(SHARD_LISTING_BUILD=first); %s Raise SHARD_TIMEOUT, "
               "or make the listing beforehand with shardctl index",
               file, real, timeout,
               rc == -ESTALE ? "the one that is there is older than the directory: does something "
                               "change it while the job runs?"
                             : "does it see the same file system?");
      return -ETIMEDOUT;
    }
    nanosleep(&(struct timespec){nap_ms / 1000, nap_ms % 1000 * 1000000L}, NULL);
  }
}

/* Write the mapped listing to a new file. */
static int copy_listing(const struct shard_listing *l, int fd) {
  for (size_t done = 0; done < l->map_size;) {
    ssize_t n = write(fd, l->map + done, l->map_size - done);
    if (n < 0 && errno != EINTR) {
      return -errno;
    }
    done += n > 0 ? (size_t)n : 0;
  }
  return 0;
}

int shard_prebuilt_put(const struct shard_listing *l, const char *file, char *err, size_t size) {
  struct shard_whole out;
  int rc = shard_whole_open(&out, file, SHARD_WHOLE_SHARED, SHARD_WHOLE_SYNCED);
  if (rc == 0 && (rc = copy_listing(l, out.fd)) != 0) {
    shard_whole_abort(&out);
  } else if (rc == 0) {
    rc = shard_whole_publish(&out);
  }
  if (rc != 0) {
    snprintf(
        err, size,
        "cannot write SHARD_LISTING='%.300s' (SHARD_LISTING_BUILD=first): %s; name a place where "
        "rank 0 can write and all ranks can read",
        file, strerror(-rc));
  }
  return rc;
}
