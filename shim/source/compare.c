/* SPDX-License-Identifier: MIT */
#include "source/compare.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "listing/listing.h"

/* A listing that is compared. */
struct compared {
  struct shard_listing *l;
  const char *root;
  int fd; /* of the root */
  char *err;
  size_t size;
};

/* Whether the listing has an entry, or leaves it out as part of a table. */
static bool is_listed(const struct compared *c, const char *name, size_t length) {
  const char *table;
  return shard_names_find(&c->l->others, name, length) >= 0 ||
         shard_names_find(&c->l->names, name, length) >= 0 ||
         shard_listing_table_of(c->l, name, length, &table) != NULL;
}

/* 0, or a negative errno and a line. path[length] is the directory's, "" for the root. */
static int compare_directory(const struct compared *c, const char *path, size_t length) {
  char name[PATH_MAX];
  struct dirent *e = NULL;
  int n = snprintf(name, sizeof(name), "%.*s%s", (int)length, path, length > 0 ? "/" : "");
  int fd = openat(c->fd, length > 0 ? path : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat st;
  if (fd < 0 && errno == ENOTDIR && fstatat(c->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISLNK(st.st_mode)) {
    return 0; /* a link to a directory, whose names are not in the list */
  }
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  int rc = 0;
  if (dir) {
    for (errno = 0; rc == 0 && (e = readdir(dir)); errno = 0) {
      size_t room = sizeof(name) - (size_t)n, more = strlen(e->d_name);
      if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
        continue;
      }
      if (more < room) {
        memcpy(name + n, e->d_name, more + 1);
      }
      if (more >= room || !is_listed(c, name, (size_t)n + more)) {
        rc = shard_error_set(c->err, c->size, -ESTALE,
                             "'%.300s' below --root '%.300s' is missing in the list: a directory "
                             "that dwalk could not read (look for ERROR in what it says), or the "
                             "files have changed; walk again",
                             name, c->root);
      }
    }
  }
  if (!dir || (rc == 0 && errno != 0)) {
    rc = shard_error_set(c->err, c->size, -errno,
                         "cannot read directory '%.*s' below --root "
                         "'%.300s': %s",
                         (int)length, path, c->root, strerror(errno));
  }
  if (dir) {
    closedir(dir);
  } else {
    shard_file_close(fd);
  }
  return rc;
}

/* Whether the listing has nothing below a directory. The path gets a slash, which is taken off. */
static bool is_empty(const struct compared *c, char *path, size_t length) {
  uint64_t begin = 0, end = 0;
  bool empty = true;
  path[length] = '/';
  const struct shard_table *const tables[] = {&c->l->names, &c->l->others};
  for (size_t i = 0; i < 2; i++) {
    empty =
        empty && shard_names_below(tables[i], path, length + 1, &begin, &end) == 0 && begin == end;
  }
  path[length] = 0;
  return empty;
}

int shard_compare_directories(const char *file, const char *root, char *err, size_t size) {
  struct compared c = {.root = root, .err = err, .size = size};
  int rc = shard_listing_open(file, &c.l);
  if (rc != 0) {
    return shard_error_set(err, size, rc, "cannot read back the listing: %s",
                           shard_listing_strerror(rc));
  }
  const struct shard_table *t = &c.l->others;
  struct shard_position p = {.name = malloc(shard_listing_room(t))};
  uint64_t left = SHARD_COMPARED - 1;
  c.fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  rc = !p.name ? -ENOMEM : c.fd < 0 ? -errno : shard_names_seek(&p, t, 0);
  if (rc == 0) {
    rc = compare_directory(&c, "", 0);
  } else {
    shard_error_set(err, size, rc, "--root '%.300s': %s", root, strerror(-rc));
  }
  while (rc == 0 && left > SHARD_COMPARED / 4 && shard_names_next(&p) == 1) {
    if (is_empty(&c, p.name, p.length)) {
      rc = compare_directory(&c, p.name, p.length);
      left--;
    }
  }
  uint64_t most = left < t->count ? left : t->count;
  for (uint64_t i = 0; rc == 0 && i < most; i++) {
    uint64_t at = most > 1 ? (uint64_t)((unsigned __int128)i * (t->count - 1) / (most - 1)) : 0;
    if (shard_names_seek(&p, t, at) == 0 && shard_names_next(&p) == 1) {
      rc = compare_directory(&c, p.name, p.length);
    }
  }
  shard_file_close(c.fd);
  free(p.name);
  shard_listing_close(c.l);
  return rc;
}
