/* SPDX-License-Identifier: MIT */
#include "cache/given.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/kernel.h"
#include "cache/lock.h"
#include "cache/make.h"
#include "cache/request.h"
#include "cache/safe.h"
#include "config/listings.h"
#include "config/pattern.h"
#include "libshard.h"
#include "listing/identity.h"
#include "listing/listing.h"

#define CHUNK ((size_t)64 << 10)

/* On the heap. */
struct search {
  const struct shard_request *request;
  const struct shard_making *making;
  char name[PATH_MAX];              /* of the item that is looked at */
  char copy[PATH_MAX];              /* where it lies in the cache */
  char made[PATH_MAX];              /* the same while it is made */
  bool fetched;                     /* it is this search's own file */
  char found[PATH_MAX];             /* the item of this directory and these options; or "" */
  bool beside;                      /* an item is of a directory beside this one: train and valid */
  char apart[PATH_MAX];             /* one of this directory, with other options; or "" */
  char options[SHARD_OPTIONS_TEXT]; /* its options */
  char err[700];                    /* why the last item cannot be used */
  const char *file;
};

/* ---- a copy ------------------------------------------------------------- */

/* Copy what is left of a file. 0 or a negative errno. */
static int copy_bytes(int from, int to) {
  char *chunk = malloc(CHUNK);
  ssize_t n = chunk ? 1 : -1;
  int rc = chunk ? 0 : -ENOMEM;
  while (rc == 0 && n > 0) {
    n = TEMP_FAILURE_RETRY(read(from, chunk, CHUNK));
    rc = n < 0 ? -errno : 0;
    for (ssize_t done = 0, k; rc == 0 && done < n; done += k) {
      k = TEMP_FAILURE_RETRY(write(to, chunk + done, (size_t)(n - done)));
      rc = k <= 0 ? (k < 0 ? -errno : -EIO) : 0;
    }
  }
  free(chunk);
  return rc;
}

/* Copy s->copy to s->file. 0, or a negative errno. */
static int copy_file(const struct search *s) {
  int from = shard_safe_read(s->copy), rc = from < 0 ? from : 0;
  int to = rc ? -1 : open(s->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  rc = rc ? rc : to < 0 ? -errno : copy_bytes(from, to);
  shard_file_close(from);
  shard_file_close(to);
  return rc;
}

/* Whether a file is what it was. */
static bool is_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
         shard_clock_same(a->st_mtim, b->st_mtim) && shard_clock_same(a->st_ctim, b->st_ctim);
}

/* Open a listing and check all of it, once: who reads it checks what he reads alone. */
static int open_whole(const char *file, struct shard_listing **out) {
  int rc = shard_safe_listing(file, out);
  return rc ? rc : shard_listing_verify(*out);
}

/* Copy the open file to s->copy, by way of s->made. 0, or a negative errno and a line or "". */
static int make_copy(struct search *s, int fd, const struct stat *st) {
  struct stat after;
  struct shard_listing *l = NULL;
  unlink(s->made);
  int to = open(s->made, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  int rc = to < 0 ? -errno : copy_bytes(fd, to);
  if (rc != 0) {
    shard_error_set(s->err, sizeof(s->err), rc,
                    "cannot copy SHARD_LISTING='%.300s' to '%.200s': %s; set SHARD_CACHE_DIR to a "
                    "directory with room",
                    s->name, s->made, strerror(-rc));
  } else if (shard_kernel_fstat(fd, &after) != 0 || !is_same(st, &after)) {
    rc = shard_error_set(s->err, sizeof(s->err), -EIO,
                         "SHARD_LISTING='%.300s' is being written; write it elsewhere, and rename "
                         "it when it is complete",
                         s->name);
  } else if ((rc = open_whole(s->made, &l)) == 0 && rename(s->made, s->copy) != 0) {
    rc = shard_error_set(s->err, sizeof(s->err), -errno, "cannot rename '%.300s': %s", s->made,
                         strerror(errno));
  }
  shard_listing_close(l);
  shard_file_close(to);
  if (rc != 0) {
    unlink(s->made);
  }
  return rc;
}

/* Have a copy of file s->name: s->copy. 0; or a negative errno, and a line or "". */
static int have_copy(struct search *s) {
  struct stat st;
  struct shard_request_hash hash = {0, 0};
  char key[SHARD_CACHE_KEY], name[SHARD_CACHE_NAME];
  int fd = open(s->name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0 || shard_kernel_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    int rc = fd < 0 || !S_ISDIR(st.st_mode) ? (fd < 0 ? -errno : -EBADMSG) : -EISDIR;
    shard_file_close(fd);
    return rc;
  }
  const int64_t identity[] = {(int64_t)st.st_dev, (int64_t)st.st_ino, st.st_size,
                              st.st_mtim.tv_sec,  st.st_mtim.tv_nsec, st.st_ctim.tv_sec,
                              st.st_ctim.tv_nsec};
  struct shard_header header = {.version = 0};
  ssize_t n = TEMP_FAILURE_RETRY(pread(fd, &header, sizeof(header), 0)); /* it has the digest */
  int rc = n < 0 ? -errno : shard_listing_check_header(&header, (uint64_t)st.st_size);
  shard_request_hash_add(&hash, identity, sizeof(identity));
  shard_request_hash_add(&hash, &header, sizeof(header));
  shard_request_hash_print(&hash, key);
  shard_cache_name_print(SHARD_CACHE_GIVEN, key, NULL, 0, name);
  snprintf(s->copy, sizeof(s->copy), "%s/%s", s->request->cache, name);
  /* Its time tells when it was used last. */
  if (rc == 0 && utimensat(AT_FDCWD, s->copy, NULL, AT_SYMLINK_NOFOLLOW) != 0) {
    rc = make_copy(s, fd, &st);
  }
  shard_file_close(fd);
  return rc;
}

/* Have the item at s->copy. As have_copy(). */
static int have_item(struct search *s) {
  s->err[0] = 0;
  s->fetched = shard_listings_is_object(s->name);
  snprintf(s->made, sizeof(s->made), "%.*s.copy", PATH_MAX - 8, s->file);
  if (!s->fetched) {
    return have_copy(s);
  }
  strcpy(s->copy, s->made);
  return shard_make_get(s->request, s->making, s->name, s->copy, s->err, sizeof(s->err));
}

/* ---- is it true? -------------------------------------------------------- */

/* Say that nothing can be compared, once for a job: its only maker says so. */
static void say_invented(const struct search *s) {
  char text[600];
  snprintf(text, sizeof(text),
           "SHARD_LISTING='%.300s' is not checked: '%.200s' is on FUSE, whose inodes and times may "
           "be invented; make it anew if the directory changes",
           s->name, s->request->real);
  shard_log(SHARD_LOG_WARN, text);
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
  int root = open(s->request->real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
                      : "make it anew with shardctl index";
  return s->err[0] ? rc
                   : shard_error_set(s->err, sizeof(s->err), rc == -EISDIR ? -EINVAL : rc,
                                     "SHARD_LISTING='%.300s': %s; %s", s->name,
                                     shard_listing_strerror(rc), remedy);
}

/* Take the listing, which is the one. 0, or a negative errno and a line. */
static int take(struct search *s, const struct shard_listing *l) {
  if (s->found[0]) {
    return shard_error_set(s->err, sizeof(s->err), -EINVAL,
                           "SHARD_LISTING names two listings of '%.200s': '%.200s' and '%.200s'; "
                           "leave one out",
                           l->source, s->found, s->name);
  }
  int same = is_true(s, l);
  if (same < 0) {
    return same;
  }
  if (same == 0) {
    return shard_error_set(s->err, sizeof(s->err), -ESTALE,
                           "SHARD_LISTING='%.300s': directory '%.300s' has changed since; make it "
                           "anew with shardctl index",
                           s->name, l->source);
  }
  strcpy(s->found, s->name);
  if (s->fetched) {
    return rename(s->copy, s->file) == 0 ? 0 : -errno;
  }
  /* A held job's listing has locks of its own. A file system without links has a copy a job. */
  unlink(s->file);
  return !s->request->job.held && link(s->copy, s->file) == 0 ? 0 : copy_file(s);
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

/* Look at an item. 0, or a negative errno and a line. */
static int consider(struct search *s, const struct shard_listings_item *item) {
  const struct shard_request *r = s->request;
  struct shard_listing *l = NULL;
  int rc = r->own ? (strcpy(s->name, item->text), 0)
           : shard_pattern_expand_item(item->text, item->length, s->name, sizeof(s->name)) < 0
               ? -ENAMETOOLONG
               : 0;
  rc = rc ? rc : have_item(s);
  rc = rc ? rc : (s->fetched ? open_whole : shard_safe_listing)(s->copy, &l);
  if (rc != 0) {
    shard_listing_close(l);
    return refuse(s, rc);
  }
  if (strcmp(l->source, shard_request_source(r)) != 0) {
    s->beside |= are_siblings(shard_request_source(r), l->source); /* it is another dataset's */
  } else if (strcmp(l->options, r->options_text) == 0) {
    rc = take(s, l);
  } else {
    strcpy(s->apart, s->name);
    snprintf(s->options, sizeof(s->options), "%s", l->options);
  }
  shard_listing_close(l);
  if (s->fetched) {
    unlink(s->copy);
  }
  return rc ? refuse(s, rc) : 0;
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

int shard_given_make(const struct shard_request *r, const struct shard_making *m, const char *file,
                     char *err, size_t size) {
  struct search *s = calloc(1, sizeof(*s));
  if (!s) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  struct shard_listings_item item = {r->list, strlen(r->list)};
  const char *rest = r->own ? r->list + item.length : shard_listings_next(r->list, &item);
  int rc = 0;
  s->request = r;
  s->making = m;
  s->file = file;
  while (rc == 0 && rest) {
    rc = consider(s, &item);
    rest = r->own ? NULL : shard_listings_next(rest, &item);
  }
  rc = rc == 0 && !s->found[0] ? tell_none(s) : rc;
  if (rc != 0) {
    shard_error_set(err, size, rc, "%s", s->err);
  }
  free(s);
  return rc;
}
