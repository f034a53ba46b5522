/* SPDX-License-Identifier: MIT */
#include "cache/judge.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "config/config.h"
#include "config/dataset.h"
#include "listing/codec.h"
#include "listing/identity.h"
#include "listing/listing.h"

bool shard_judge_is_true(const struct shard_listing *l, const char *real, bool here) {
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

/* Whether the header proves that all names of `l` match one of the asked patterns. */
static bool all_names_match(const struct shard_listing *l, const struct shard_options *asked) {
  if (!asked->include[0] || l->names.count == 0) {
    return true;
  }
  const char *suffix = l->header->suffix;
  size_t have = strlen(suffix);
  for (const char *p = asked->include; *p;) {
    size_t n = shard_options_pattern(p);
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

bool shard_judge_serves(const struct shard_listing *l, const char *real,
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

int shard_judge(const struct shard_listing *l, const char *name, const char *real,
                const struct shard_options *asked, char *why, size_t size) {
  if (!shard_judge_serves(l, real, asked)) {
    explain_refusal(l, name, real, asked, why, size);
    return 0;
  }
  return shard_judge_is_true(l, real, false) ? 1 : -ESTALE;
}

int shard_judge_open(const char *file, const char *name, const char *real,
                     const struct shard_options *asked, struct shard_listing **out, char *err,
                     size_t size) {
  struct shard_listing *l;
  char why[1100] = "";
  int rc = shard_listing_open(file, &l);
  if (rc != 0) {
    return shard_error_set(err, size, rc, "SHARD_LISTING='%.300s': %s; %s", name,
                           shard_listing_strerror(rc), shard_judge_remedy(rc));
  }
  rc = shard_judge(l, name, real, asked, why, sizeof(why));
  if (rc > 0) {
    *out = l;
    return rc;
  }
  shard_listing_close(l);
  if (why[0]) {
    shard_log(SHARD_LOG_WARN, why);
  }
  return rc == 0 ? 0
                 : shard_error_set(err, size, rc,
                                   "SHARD_LISTING='%.300s': directory '%.300s' has changed since; "
                                   "make it anew with shardctl index",
                                   name, real);
}

const char *shard_judge_remedy(int rc) {
  return rc == -EACCES || rc == -EPERM ? "let this user read it"
                                       : "make it anew with shardctl index";
}

bool shard_judge_may_come(int rc) {
  return rc == -ENOENT || rc == -ESTALE || rc == -EBADMSG || rc == -EPROTONOSUPPORT;
}
