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
  bool told = shard_identity_boot(boot) > 0; /* not without /proc: then both are zeros */
  bool now = memcmp(boot, l->header->boot, sizeof(boot)) == 0;
  bool same = true;
  const uint8_t *pos = NULL;
  struct shard_dir_entry d = SHARD_DIR_ENTRY(l);
  struct shard_identity_eye eye = {0};
  while (same && shard_listing_dir(l, &pos, &d)) {
    struct shard_dir id;
    same = shard_identity_look(&eye, root, d.path, &id) == 0 &&
           shard_identity_is_equal(&id, &d.id) &&
           (!here || (now && (told || eye.clock) && id.dev == d.id.dev &&
                      id.instance == d.id.instance && id.instance != 0));
  }
  close(root);
  return same;
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
 * Warn that a listing of another directory is not used. Nothing is said if it is of another dataset
 * of SHARD_DATASET; or, of a program that names its own, of a directory beside this one: train and
 * valid share one variable.
 */
static void warn_of_other(const struct shard_listing *l, const char *name, const char *real) {
  size_t end = strlen(real), parent;
  char text[1100];
  end -= end > 1 && real[end - 1] == '/'; /* a bucket's prefix ends with a slash */
  const char *slash = memrchr(real, '/', end);
  parent = slash ? (size_t)(slash - real) + 1 : 0;
  const char *rest = strlen(l->source) > parent ? strchr(l->source + parent, '/') : NULL;
  if (shard_config()->directories
          ? !is_dataset(l->source)
          : strncmp(l->source, real, parent) != 0 || !l->source[parent] || (rest && rest[1])) {
    snprintf(text, sizeof(text),
             "SHARD_LISTING='%.200s' is not used: it is of '%.300s', not of '%.300s'", name,
             l->source, real);
    shard_log(SHARD_LOG_WARN, text);
  }
}

int shard_judge_refuse(const char *name, int rc, char *err, size_t size) {
  const char *remedy =
      rc == -EACCES || rc == -EPERM ? "let this user read it"
      : rc == -EISDIR ? "folders are not looked through, so name its listings, separated by ':'"
                      : "make it anew with shardctl index";
  return shard_error_set(err, size, rc == -EISDIR ? -EINVAL : rc, "SHARD_LISTING='%.300s': %s; %s",
                         name, shard_listing_strerror(rc), remedy);
}

int shard_judge_refuse_options(const char *name, const char *real, const char *asked,
                               const char *made, char *err, size_t size) {
  return shard_error_set(err, size, -EINVAL,
                         "SHARD_LISTING='%.200s' was made of '%.200s' with '%.100s'; make it by "
                         "shardctl index --options '%.200s'",
                         name, real, made, asked);
}

int shard_judge_open(const char *file, const char *name, const char *real, const char *asked,
                     struct shard_listing **out, char *err, size_t size) {
  struct shard_listing *l;
  int rc = shard_listing_open(file, &l);
  if (rc != 0) {
    return shard_judge_refuse(name, rc, err, size);
  }
  if (strcmp(l->source, real) != 0) {
    warn_of_other(l, name, real);
  } else if (strcmp(l->options, asked) != 0) {
    rc = shard_judge_refuse_options(name, real, asked, l->options, err, size);
  } else if (!shard_judge_is_true(l, real, false)) {
    rc = shard_error_set(err, size, -ESTALE,
                         "SHARD_LISTING='%.300s': directory '%.300s' has changed since; make it "
                         "anew with shardctl index",
                         name, real);
  } else {
    *out = l;
    return 1;
  }
  shard_listing_close(l);
  return rc;
}
