/* SPDX-License-Identifier: MIT */
#include "view/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "host/real.h"
#include "libshard.h"

/* What a directory on the way up is. */
struct level {
  uint64_t dev, ino, mount;
  bool mount_root, mount_known;
};

static int look_raw(int at, const char *path, struct statx *out) {
  return statx(at, path, AT_NO_AUTOMOUNT | AT_EMPTY_PATH,
               STATX_TYPE | STATX_INO | STATX_MTIME | STATX_CTIME | STATX_MNT_ID, out);
}

int shard_place_look(int fd, struct statx *out) { return look_raw(fd, "", out) ? -errno : 0; }

/* A device as one number; in this order it is one load. */
static uint64_t device(const struct statx *st) {
  return (uint64_t)st->stx_dev_minor << 32 | st->stx_dev_major;
}

static struct level level_of(const struct statx *st) {
  return (struct level){.dev = device(st),
                        .ino = st->stx_ino,
                        .mount = st->stx_mnt_id,
                        .mount_root = st->stx_attributes & STATX_ATTR_MOUNT_ROOT,
                        .mount_known = st->stx_mask & STATX_MNT_ID};
}

static int look(int at, const char *path, struct level *out) {
  struct statx st;
  *out = (struct level){0};
  if (look_raw(at, path, &st) != 0) {
    return -errno;
  }
  if (!S_ISDIR(st.stx_mode)) {
    return -ENOTDIR;
  }
  *out = level_of(&st);
  return 0;
}

bool shard_root_look(struct shard_root *root) {
  struct statx st;
  if (look_raw(AT_FDCWD, root->path, &st) != 0 || !S_ISDIR(st.stx_mode)) {
    return false;
  }
  root->dev = device(&st);
  root->ino = st.stx_ino;
  root->mount = st.stx_mnt_id;
  return true;
}

/* ---- parts of a root's tree that are mounted elsewhere --------------------------------------- */

/* A line of mountinfo, proc(5): what part of its file system is mounted, and where. */
struct mount {
  uint64_t id;
  char *root, *point;
};

/* Undo the \ooo of mountinfo, in place. */
static void decode(char *text) {
  char *to = text;
  for (const char *p = text; *p; p++) {
    if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] && p[3]) {
      *to++ = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0'));
      p += 3;
    } else {
      *to++ = *p;
    }
  }
  *to = 0;
}

/* The mount with this id; its texts are in `table`, which is consumed line by line. */
static bool find_mount(const char *table, uint64_t id, struct mount *out, char **copy) {
  for (const char *line = table; line && *line;) {
    const char *end = strchrnul(line, '\n');
    if (strtoull(line, NULL, 10) == id) {
      *copy = strndup(line, (size_t)(end - line));
      char *save = NULL, *field = *copy ? strtok_r(*copy, " ", &save) : NULL;
      for (int k = 0; field && k < 3; k++) {
        field = strtok_r(NULL, " ", &save);
      }
      out->root = field;
      out->point = field ? strtok_r(NULL, " ", &save) : NULL;
      if (out->point) {
        decode(out->root);
        decode(out->point);
        return true;
      }
      free(*copy);
      return false;
    }
    line = *end ? end + 1 : end;
  }
  return false;
}

/*
 * A mount's root and a dataset's root, as paths in the file system that both are of: whether the
 * first lies in the second. malloc'd path, or NULL.
 */
static char *inside_of(const char *table, const char *mount_root, const struct shard_root *root) {
  struct level level;
  struct mount m = {0};
  char *copy = NULL, *path = NULL, *real = NULL;
  if (look(AT_FDCWD, root->path, &level) == 0 && level.mount_known &&
      (real = realpath(root->path, NULL)) && find_mount(table, level.mount, &m, &copy)) {
    const char *rest = shard_path_below(real, m.point), *found;
    char *whole = NULL;
    if (rest && asprintf(&whole, "%s%s%s", m.root, *rest ? "/" : "", rest) > 0) {
      const char *clean = whole[0] == '/' && whole[1] == '/' ? whole + 1 : whole;
      found = shard_path_below(mount_root, clean);
      path = found && *found ? strdup(found) : NULL;
      free(whole);
    }
    free(copy);
  }
  free(real);
  return path;
}

/* What was found out about mounts, never forgotten: by id, and the root's inode, for ids return. */
#define MOUNTS 64
static struct known_mount {
  atomic_int state; /* 0 free, 1 being filled, 2 there */
  uint64_t id, dev, ino;
  size_t root;
  char *path; /* from that root; NULL: it lies in none */
} mounts[MOUNTS];

static const struct known_mount *recall(const struct level *m) {
  for (size_t i = 0; i < MOUNTS; i++) {
    if (atomic_load_explicit(&mounts[i].state, memory_order_acquire) == 2 &&
        mounts[i].id == m->mount && mounts[i].ino == m->ino && mounts[i].dev == m->dev) {
      return &mounts[i];
    }
  }
  return NULL;
}

/*
 * Whether the root of a mount lies inside one of the roots: 1 and *part, malloc'd, the path; 0; or
 * negative errno: there was no descriptor or memory to find that out.
 */
__attribute__((noinline)) static int mounted_part(const struct level *m,
                                                  const struct shard_root *roots, size_t count,
                                                  size_t *which, char **part) {
  const struct known_mount *known = recall(m);
  if (known) {
    *which = known->root;
    *part = known->path ? strdup(known->path) : NULL;
    return *part ? 1 : known->path ? -ENOMEM : 0;
  }
  bool possible = false; /* the root of the very mount that a root is in lies above that */
  for (size_t i = 0; i < count; i++) {
    possible |= roots[i].dev == m->dev && roots[i].mount != m->mount;
  }
  if (!possible) {
    return 0;
  }
  size_t size;
  char *table = shard_file_read("/proc/self/mountinfo", &size), *copy = NULL, *path = NULL;
  if (!table) {
    return shard_error_is_shortage(errno) ? -errno : 0;
  }
  struct mount mount = {0};
  *which = 0;
  if (find_mount(table, m->mount, &mount, &copy)) {
    /* The innermost of nested roots: the one from which the path is shortest. */
    for (size_t i = 0; i < count && strcmp(mount.root, "/") != 0; i++) {
      char *found = roots[i].dev == m->dev ? inside_of(table, mount.root, &roots[i]) : NULL;
      if (found && (!path || strlen(found) < strlen(path))) {
        free(path);
        path = found;
        *which = i;
      } else {
        free(found);
      }
    }
    for (size_t i = 0; i < MOUNTS; i++) {
      int free_slot = 0;
      if (atomic_compare_exchange_strong(&mounts[i].state, &free_slot, 1)) {
        mounts[i].id = m->mount;
        mounts[i].dev = m->dev;
        mounts[i].ino = m->ino;
        mounts[i].root = *which;
        mounts[i].path = path ? strdup(path) : NULL;
        atomic_store_explicit(&mounts[i].state, 2, memory_order_release);
        break;
      }
    }
    free(copy);
  }
  free(table);
  *part = path;
  return path != NULL;
}

/* ---- names on the way up --------------------------------------------------------------------- */

/* Text that grows at its front. */
struct path {
  char *data;
  size_t room, length; /* the text is the last `length` bytes before a NUL */
};

static int prepend(struct path *p, const char *name, size_t length) {
  size_t need = p->length + length + 2;
  if (need > p->room) {
    size_t room = need * 2 + 256;
    char *data = malloc(room);
    if (!data) {
      return -ENOMEM;
    }
    if (p->data) {
      memcpy(data + room - p->length - 1, p->data + p->room - p->length - 1, p->length + 1);
    } else {
      data[room - 1] = 0;
    }
    free(p->data);
    p->data = data;
    p->room = room;
  }
  char *begin = p->data + p->room - 1 - p->length;
  if (p->length > 0) {
    *--begin = '/';
    p->length++;
  }
  memcpy(begin - length, name, length);
  p->length += length;
  return 0;
}

/* The name of directory `child` in the directory open as `parent`, by looking at all. */
static int name_of(int parent, const struct level *child, struct path *p) {
  char buf[1024] __attribute__((aligned(8)));
  int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = -ENOENT;
  ssize_t n;
  while (fd >= 0 && rc == -ENOENT && (n = shard_real()->getdents64(fd, buf, sizeof(buf))) > 0) {
    for (ssize_t at = 0; rc == -ENOENT && at < n;) {
      const struct dirent64 *d = (const struct dirent64 *)(buf + at);
      struct level here;
      at += d->d_reclen;
      if ((d->d_type == DT_DIR || d->d_type == DT_UNKNOWN) && strcmp(d->d_name, "..") != 0 &&
          strcmp(d->d_name, ".") != 0 && look(fd, d->d_name, &here) == 0 &&
          here.ino == child->ino && here.dev == child->dev) {
        rc = prepend(p, d->d_name, strlen(d->d_name));
      }
    }
  }
  if (fd >= 0) {
    close(fd);
  }
  return rc;
}

/*
 * The last `levels` components of fd's path, malloc'd in *out: by /proc, and where that is not
 * mounted, or the path is too long for it, by searching the parent.
 */
static __attribute__((noinline)) int last_components(int fd, size_t levels, char **out) {
  struct path p = {0};
  int at = fd, rc = prepend(&p, "", 0);
  char *text = malloc(PATH_MAX); /* a host's thread may have a small stack */
  if (!text) {
    rc = -ENOMEM;
  }
  while (rc == 0 && levels > 0) {
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", at);
    ssize_t n = readlink(link, text, PATH_MAX - 1);
    if (n > 0 && n < PATH_MAX - 1) {
      const char *begin = text + n;
      while (levels > 0 && begin) {
        begin = memrchr(text, '/', (size_t)(begin - text));
        levels--;
      }
      rc = begin ? prepend(&p, begin + 1, (size_t)(text + n - begin - 1)) : -ENOENT;
      break;
    }
    struct level here = {0};
    int parent = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    rc = parent < 0 ? -errno : look(at, "", &here);
    if (rc == 0) {
      rc = name_of(parent, &here, &p);
    }
    if (at != fd) {
      close(at);
    }
    at = parent;
    levels--;
  }
  if (at != fd && at >= 0) {
    close(at);
  }
  free(text);
  if (rc == 0) {
    memmove(p.data, p.data + p.room - 1 - p.length, p.length + 1);
    *out = p.data;
  } else {
    free(p.data);
  }
  return rc;
}

/* ---- up ----------------------------------------------------------------------------------------
 */

static int join(char *first, char **path) {
  char *whole = NULL;
  int rc = asprintf(&whole, "%s%s%s", first, **path ? "/" : "", *path) < 0 ? -ENOMEM : 0;
  free(*path);
  *path = rc == 0 ? whole : NULL;
  return rc;
}

/*
 * The parent of the last directory that was found to lie outside. What lies in it too is outside as
 * well, while it stays where it is: a move changes its ctime. (Not if one above it is moved into a
 * dataset, but then somebody will list that first, and this is forgotten.) It spares a tree
 * that is not served the way up from each of its directories.
 */
static _Thread_local struct {
  uint64_t dev, ino, mount;
  int64_t sec;
  uint32_t nsec;
} outside;

static bool is_outside(const struct statx *st) {
  return st->stx_ino == outside.ino && st->stx_ctime.tv_nsec == outside.nsec &&
         st->stx_ctime.tv_sec == outside.sec && st->stx_mnt_id == outside.mount &&
         device(st) == outside.dev;
}

static void note_outside(const struct statx *st) {
  outside.dev = device(st);
  outside.ino = st->stx_ino;
  outside.mount = st->stx_mnt_id;
  outside.sec = st->stx_ctime.tv_sec;
  outside.nsec = st->stx_ctime.tv_nsec;
}

/* The last 3n bytes, with the NUL, lead n levels up; past that a descriptor is taken. */
#define FOUR_TIMES(s) s s s s
static const char up[] = FOUR_TIMES(FOUR_TIMES(FOUR_TIMES(FOUR_TIMES("../")))) "..";

/* Look for a root from fd on. 1, 0 or negative errno; *levels up, and then *part, malloc'd. */
static int go_up(int fd, const struct statx *st, const struct shard_root *roots, size_t count,
                 size_t *which, size_t *levels, char **part) {
  size_t n = 0;              /* above `at` */
  uint64_t ino = 0, dev = 0; /* of the level below */
  struct statx upper;
  int at = fd, rc = 0;
  bool remember = !(st->stx_attributes & STATX_ATTR_MOUNT_ROOT);
  for (*levels = 0;; ++*levels, n++) {
    if (*levels > 0) {
      if (look_raw(at, up + sizeof(up) - 3 * n, &upper) != 0) {
        rc = -errno;
        break;
      }
      st = &upper;
      if (st->stx_ino == ino && device(st) == dev) {
        break;
      }
      if (*levels == 1 && remember) {
        note_outside(st); /* unless a root is found */
      }
    }
    ino = st->stx_ino;
    dev = device(st);
    for (size_t i = 0; i < count && rc == 0; i++) {
      if (roots[i].ino == ino && roots[i].dev == dev) {
        *which = i;
        rc = 1;
      }
    }
    if (rc == 0 && (st->stx_attributes & STATX_ATTR_MOUNT_ROOT) && (st->stx_mask & STATX_MNT_ID)) {
      struct level level = level_of(st);
      rc = mounted_part(&level, roots, count, which, part);
    }
    if (rc != 0) {
      break;
    }
    if (n == sizeof(up) / 3) {
      int next = openat(at, up, O_PATH | O_DIRECTORY | O_CLOEXEC);
      rc = next < 0 ? -errno : 0;
      if (at != fd) {
        close(at);
      }
      at = next;
      n = 0;
      if (rc != 0) {
        break;
      }
    }
  }
  if (at != fd && at >= 0) {
    close(at);
  }
  if (rc != 0) {
    outside.ino = 0;
  }
  return rc;
}

int shard_place_find(int fd, const struct statx *st, const struct shard_root *known, size_t count,
                     size_t *which, char **path) {
  struct shard_root *roots = __builtin_alloca(count * sizeof(*roots));
  uint64_t dev = device(st);
  bool is_root = false;
  struct statx other;
  for (size_t i = 0; i < count; i++) {
    roots[i] = known[i];
    shard_root_look(&roots[i]);
    is_root |= roots[i].ino == st->stx_ino && roots[i].dev == dev;
  }
  if (!is_root && outside.ino != 0 && !(st->stx_attributes & STATX_ATTR_MOUNT_ROOT) &&
      look_raw(fd, "..", &other) == 0 && is_outside(&other)) {
    return 0;
  }
  size_t levels;
  char *part = NULL;
  int rc = go_up(fd, st, roots, count, which, &levels, &part);
  if (rc <= 0) {
    return rc;
  }
  rc = last_components(fd, levels, path);
  if (rc == 0 && part) {
    rc = join(part, path);
  }
  free(part);
  return rc == 0 ? 1 : rc;
}
