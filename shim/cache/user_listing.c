/* SPDX-License-Identifier: MIT */
#include "cache/user_listing.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/workspace.h"
#include "cache/make.h"
#include "cache/request.h"
#include "cache/safe.h"
#include "config/config.h"
#include "config/dataset_list.h"
#include "config/listing_list.h"
#include "config/path_template.h"
#include "host/inode.h"
#include "libshard.h"
#include "listing/identity.h"
#include "listing/listing.h"

#define ERROR_ROOM 500

/* On the heap. */
struct search {
  const struct shard_request *request;
  const struct shard_making *making;
  const char *file;                 /* where the listing is to be */
  char name[PATH_MAX];              /* of the item that is looked at */
  char got[PATH_MAX];               /* where an object is put */
  char found[PATH_MAX];             /* the item of this directory and these options; or "" */
  bool beside;                      /* an item is of a directory beside this one: train and valid */
  char apart[PATH_MAX];             /* one of this directory, with other options; or "" */
  char options[SHARD_OPTIONS_TEXT]; /* its options */
  char err[700];                    /* why the last item cannot be used */
};

/* ---- is it true? -------------------------------------------------------- */

/* Say that nothing can be compared, once for a job: its only maker says so. */
static void say_invented(const struct search *s) {
  shard_say(
      SHARD_LOG_WARN,
      "SHARD_LISTING='%.300s' is not checked: '%.200s' is on FUSE, whose inodes and times may "
      "be invented; make it anew if the directory changes",
      s->name, s->request->real);
}

/* Whether a listing that is made now has the same names. 1, 0, or a negative errno and a line. */
static int is_walked_alike(struct search *s, const struct shard_listing *l) {
  const struct shard_request *r = s->request;
  struct shard_listing *now = NULL;
  char *file = NULL;
  int rc = asprintf(&file, "%s.walked", s->file) < 0 ? -ENOMEM : 0;
  rc = rc ? rc : shard_make_index(r, s->making, NULL, file, s->err, sizeof(s->err));
  rc = rc ? rc : shard_safe_listing(file, &now);
  if (rc == 0) {
    const struct shard_header *a = l->header, *b = now->header;
    rc = a->names.count == b->names.count && a->others.count == b->others.count &&
         memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
  }
  shard_listing_close(now);
  if (file) {
    unlink(file);
  }
  free(file);
  return rc;
}

/* Whether each directory of a listing is as it was. 1, 0, or a negative errno and a line or "". */
static int is_true(struct search *s, const struct shard_listing *l) {
  if (l->header->directories == 0) {
    return 1; /* of a text or a bucket, which do not tell whether they have changed */
  }
  int root = shard_inode_open_file(s->request->real, O_RDONLY | O_DIRECTORY);
  bool same = root >= 0, invented = false, untold = false;
  const uint8_t *pos = NULL;
  const char *path;
  struct shard_dir was, now;
  struct shard_identity_eye eye = {.lazily = false};
  while (same && shard_listing_dir(l, &pos, &was, &path)) {
    same = shard_identity_look(&eye, root, path, &now) == 0 &&
           (eye.invented || shard_identity_is_equal(&now, &was));
    invented |= eye.invented;
    untold |= eye.untold;
  }
  shard_file_close(root);
  if (same && invented) {
    say_invented(s);
  }
  return same && untold ? is_walked_alike(s, l) : same;
}

/* ---- which one ---------------------------------------------------------- */

static int refuse(struct search *s, int rc) {
  const char *remedy =
      rc == -EACCES || rc == -EPERM ? "let this user read it"
      : rc == -EISDIR ? "folders are not looked through, so name its listings, separated by ':'"
      : rc == -EBADMSG
          ? "make it anew with shardctl index; a manifest's name ends in .txt, .txt.gz "
            "or .txt.zst"
          : "make it anew with shardctl index";
  return s->err[0] ? rc
                   : shard_error_set(s->err, sizeof(s->err), rc == -EISDIR ? -EINVAL : rc,
                                     "SHARD_LISTING='%.300s': %s; %s", s->name,
                                     shard_listing_strerror(rc), remedy);
}

/* Whether two directories, or prefixes of a bucket, have one parent. */
static bool are_siblings(const char *a, const char *b) {
  size_t n = strlen(a), parent;
  n -= n > 1 && a[n - 1] == '/';
  const char *slash = memrchr(a, '/', n), *rest;
  parent = slash ? (size_t)(slash - a) + 1 : 0;
  rest = strncmp(a, b, parent) == 0 ? strchr(b + parent, '/') : "/x";
  return !rest || !rest[1];
}

/* Whether two sources are one: a dataset of gs:// is listed by S3's protocol. */
static bool is_same(const char *a, const char *b) {
  bool urls = shard_dataset_list_is_url(a) && shard_dataset_list_is_url(b);
  return strcmp(a + (urls ? 5 : 0), b + (urls ? 5 : 0)) == 0;
}

/* Whether the item, which says that it is of `source` and these options, is the one. 1, 0, or a
 * negative errno and a line. */
static int is_wanted(struct search *s, const char *source, const char *options) {
  const struct shard_request *r = s->request;
  if (!source || !options) {
    return -EBADMSG;
  }
  if (!is_same(source, shard_request_source(r))) {
    s->beside |= are_siblings(shard_request_source(r), source);
    return 0;
  }
  if (strcmp(options, r->options_text) != 0) {
    strcpy(s->apart, s->name);
    snprintf(s->options, sizeof(s->options), "%s", options);
    return 0;
  }
  return !s->found[0] ? 1
                      : shard_error_set(s->err, sizeof(s->err), -EINVAL,
                                        "SHARD_LISTING names two listings of '%.200s': '%.200s' "
                                        "and '%.200s'; leave one out",
                                        source, s->found, s->name);
}

/* Have shardctl copy or fetch the item. 0, or a negative errno and a line. */
static int get(struct search *s, const char *to) {
  SHARD_WORKSPACE(err);
  int rc = err ? shard_make_get(s->request, s->making, s->name, to, err, ERROR_ROOM) : -ENOMEM;
  return rc == 0 ? 0
                 : shard_error_set(s->err, sizeof(s->err), rc, "SHARD_LISTING='%.150s': %s",
                                   s->name, err ? err : strerror(ENOMEM));
}

/* Look at a file, without mapping it, and have shardctl copy it to s->file if it is the one. 1, 0,
 * or a negative errno, and a line or "". */
static int take_file(struct search *s) {
  char *source = NULL, *options = NULL;
  int fd = shard_inode_open_file(s->name, O_RDONLY | O_NOCTTY | O_NONBLOCK);
  int rc = fd < 0 ? -errno : shard_listing_peek(fd, &source, &options);
  shard_file_close(fd);
  rc = rc ? rc : is_wanted(s, source, options);
  free(source);
  free(options);
  int got = rc > 0 ? get(s, s->file) : 0;
  return got ? got : rc;
}

/* The same of an object, which is fetched to be looked at. */
static int take_object(struct search *s) {
  struct shard_listing *l = NULL;
  snprintf(s->got, sizeof(s->got), "%.*s.got", PATH_MAX - 8, s->file);
  int rc = get(s, s->got);
  rc = rc ? rc : shard_safe_listing(s->got, &l);
  rc = rc ? rc : is_wanted(s, l->source, l->options);
  if (rc > 0 && rename(s->got, s->file) != 0) {
    rc = -errno;
  }
  shard_listing_close(l);
  unlink(s->got);
  return rc;
}

/* Check what lies at s->file by now. 0, or a negative errno and a line. */
static int check(struct search *s) {
  struct shard_listing *l;
  int rc = shard_safe_listing(s->file, &l);
  if (rc != 0) {
    return refuse(s, rc);
  }
  rc = is_wanted(s, l->source, l->options); /* the file may have been another one then */
  rc = rc > 0 ? is_true(s, l) : rc;
  if (rc == 0) {
    rc = shard_error_set(s->err, sizeof(s->err), -ESTALE,
                         "SHARD_LISTING='%.300s': directory '%.300s' has changed since; make it "
                         "anew with shardctl index",
                         s->name, l->source);
  }
  shard_listing_close(l);
  strcpy(s->found, s->name);
  return rc > 0 ? 0 : rc;
}

/* Look at an item. 0, or a negative errno and a line. */
static int consider(struct search *s, const struct shard_listing_item *item) {
  s->err[0] = 0;
  int rc = s->request->own ? (strcpy(s->name, item->text), 0)
           : shard_path_template_expand_item(item->text, item->length, s->name, sizeof(s->name)) < 0
               ? -ENAMETOOLONG
               : 0;
  rc = rc ? rc : shard_listing_list_is_object(s->name) ? take_object(s) : take_file(s);
  return rc < 0 ? refuse(s, rc) : rc > 0 ? check(s) : 0;
}

/* None was the one. */
static int tell_none(struct search *s) {
  const struct shard_request *r = s->request;
  const char *source = shard_request_source(r);
  if (s->apart[0]) {
    return shard_error_set(s->err, sizeof(s->err), -EINVAL,
                           "SHARD_LISTING='%.200s' was made of '%.200s' with '%.100s'; make it by "
                           "shardctl index --options '%.200s'",
                           s->apart, source, s->options, r->options_text);
  }
  return r->own ? shard_error_set(s->err, sizeof(s->err), -EINVAL,
                                  "SHARD_LISTING='%.300s' is of another directory", s->name)
                : shard_error_set(s->err, sizeof(s->err), 1 + s->beside,
                                  "SHARD_LISTING='%.300s' has no listing of '%.300s', which is "
                                  "walked; make one with shardctl index",
                                  r->list, source);
}

int shard_user_listing_make(const struct shard_request *r, const struct shard_making *m,
                            const char *file, char *err, size_t size) {
  struct search *s = calloc(1, sizeof(*s));
  if (!s) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  struct shard_listing_item item = {r->list, strlen(r->list)};
  const char *rest = r->own ? r->list + item.length : shard_listing_list_next(r->list, &item);
  int rc = 0;
  s->request = r;
  s->making = m;
  s->file = file;
  while (rc == 0 && rest) {
    rc = consider(s, &item);
    rest = r->own ? NULL : shard_listing_list_next(rest, &item);
  }
  rc = rc == 0 && !s->found[0] ? tell_none(s) : rc;
  if (rc != 0) {
    shard_error_set(err, size, rc, "%s", s->err);
  }
  free(s);
  return rc;
}
