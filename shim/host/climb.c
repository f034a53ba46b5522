/* SPDX-License-Identifier: MIT */
#include "host/climb.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/path.h"
#include "base/xxh64.h"

/* By the kernel's call: no wrapper, no cancellation point. A descriptor or a negative errno. */
static int open_at(int at, const char *path, int flags) {
  long fd = syscall(SYS_openat, at, path, flags | O_CLOEXEC, 0);
  return fd < 0 ? -errno : (int)fd;
}

static void close_fd(int fd) { syscall(SYS_close, fd); }

/* ---- up ---------------------------------------------------------------------------------------
 */

/* The last 3n bytes, with the NUL, lead n levels up; past that a descriptor is taken. */
#define FOUR_TIMES(s) s s s s
static const char up[] = FOUR_TIMES(FOUR_TIMES(FOUR_TIMES(FOUR_TIMES("../")))) "..";

/* Note a mount's root, if another mount of its file system has one of the roots. */
static void note_mount(struct shard_climb *climb, const struct statx *st,
                       const struct shard_climb_root *roots, size_t count) {
  bool possible = false;
  for (size_t i = 0; i < count; i++) {
    possible |= roots[i].dev == shard_climb_device(st) && roots[i].mount != st->stx_mnt_id;
  }
  if (possible && climb->mount_count < SHARD_CLIMB_MOUNTS) {
    climb->mounts[climb->mount_count++] = (struct shard_climb_mount){.dev = shard_climb_device(st),
                                                                     .ino = st->stx_ino,
                                                                     .id = st->stx_mnt_id,
                                                                     .levels = climb->levels};
  }
}

/* The first of the roots that is this directory, or -1. */
static ssize_t find_equal(const struct shard_climb_root *roots, size_t count, uint64_t dev,
                          uint64_t ino) {
  for (size_t i = 0; i < count; i++) {
    if (roots[i].ino == ino && roots[i].dev == dev) {
      return (ssize_t)i;
    }
  }
  return -1;
}

int shard_climb_find(int fd, const struct statx *st, const struct shard_climb_root *roots,
                     size_t count, struct shard_climb *out) {
  size_t n = 0;              /* levels above `at` */
  uint64_t ino = 0, dev = 0; /* of the level below */
  struct statx upper;
  int at = fd, rc = 0;
  out->mount_count = 0;
  for (out->levels = 0;; out->levels++, n++) {
    if (out->levels > 0) {
      struct statx *to = out->levels == 1 ? &out->parent : &upper;
      rc = shard_climb_stat(at, up + sizeof(up) - 3 * n, to);
      if (rc != 0 || (to->stx_ino == ino && shard_climb_device(to) == dev)) {
        break; /* the top is its own parent */
      }
      st = to;
    }
    ino = st->stx_ino;
    dev = shard_climb_device(st);
    ssize_t found = find_equal(roots, count, dev, ino);
    if (found >= 0) {
      out->which = (size_t)found;
      rc = 1;
      break;
    }
    if ((st->stx_attributes & STATX_ATTR_MOUNT_ROOT) && (st->stx_mask & STATX_MNT_ID)) {
      note_mount(out, st, roots, count);
    }
    if (n == sizeof(up) / 3) {
      int next = open_at(at, up, O_PATH | O_DIRECTORY);
      if (at != fd) {
        close_fd(at);
      }
      at = next;
      n = 0;
      if (next < 0) {
        rc = next;
        break;
      }
    }
  }
  if (at != fd && at >= 0) {
    close_fd(at);
  }
  return rc;
}

ssize_t shard_climb_read_names(int fd, size_t levels, char *buf, size_t size) {
  char link[40];
  if (levels == 0) {
    *buf = 0;
    return 0;
  }
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, buf, size);
  if (n < 0) {
    return -errno;
  }
  if ((size_t)n >= size) {
    return -ENAMETOOLONG;
  }
  const char *begin = buf + n;
  for (; levels > 0 && begin; levels--) {
    begin = memrchr(buf, '/', (size_t)(begin - buf));
  }
  if (!begin) {
    return -ERANGE;
  }
  n -= begin + 1 - buf;
  memmove(buf, begin + 1, (size_t)n);
  buf[n] = 0;
  return n;
}

/* ---- parts of a root's tree that are mounted elsewhere -----------------------------------------
 */

/* Fields of mountinfo, proc(5), counted from 0. */
enum { FIELD_ROOT = 3, FIELD_POINT = 4 };

/* Undo the \ooo of mountinfo, in place. */
static void unescape(char *text) {
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

/*
 * A field of the line that mountinfo has for mount `id`: 1, and its text in out[PATH_MAX]. 0: there
 * is no room. -ESTALE: there is no such line; one may be missed while others come and go. Another
 * negative errno: mountinfo cannot be opened. Read piece by piece, for it may be long.
 */
static int read_mount(uint64_t id, int field, char *out) {
  char piece[1024];
  uint64_t line_id = 0;
  size_t used = 0;
  int at = 0; /* the field that is being read */
  bool done = false, fits = true;
  ssize_t n;
  int fd = open_at(AT_FDCWD, "/proc/self/mountinfo", O_RDONLY);
  if (fd < 0) {
    return fd;
  }
  while (!done && (n = syscall(SYS_read, fd, piece, sizeof(piece))) > 0) {
    for (const char *p = piece; !done && p < piece + n; p++) {
      if (*p == ' ' || *p == '\n') {
        done = line_id == id && at == field;
        at = *p == ' ' ? at + 1 : 0;
        line_id = *p == ' ' ? line_id : 0;
      } else if (at == 0) {
        line_id = line_id * 10 + (uint64_t)(*p - '0');
      } else if (at == field && line_id == id) {
        fits = used < PATH_MAX - 1;
        out[used] = *p;
        used += fits;
      }
    }
  }
  close_fd(fd);
  out[used] = 0;
  unescape(out);
  return done ? fits : -ESTALE;
}

/* Move text to the front of buf, of which it is the end. */
static void move_to_front(char *buf, const char *text) { memmove(buf, text, strlen(text) + 1); }

/* The path of a root in its file system, into out[PATH_MAX]. 1, 0 or a negative errno. */
static int find_root_path(const struct shard_climb_root *root, char *out, char *room) {
  int fd = open_at(AT_FDCWD, root->path, O_PATH | O_DIRECTORY);
  if (fd < 0) {
    return fd;
  }
  char link[40];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, room, PATH_MAX);
  close_fd(fd);
  if (n <= 0 || n >= PATH_MAX) {
    return 0;
  }
  room[n] = 0;
  int rc = read_mount(root->mount, FIELD_POINT, out);
  const char *rest = rc > 0 ? shard_path_below(room, out) : NULL;
  if (!rest) {
    return rc < 0 ? rc : 0;
  }
  move_to_front(room, rest);
  rc = read_mount(root->mount, FIELD_ROOT, out);
  if (rc > 0 && *room) {
    size_t used = strcmp(out, "/") == 0 ? 0 : strlen(out);
    if (used + strlen(room) + 2 > PATH_MAX) {
      return 0;
    }
    out[used] = '/';
    strcpy(out + used + 1, room);
  }
  return rc;
}

/*
 * The path from a root to the root of mount m, into room[PATH_MAX], if the latter lies in the
 * former. 1, 0 or a negative errno.
 */
static int find_inside(const struct shard_climb_mount *m, const struct shard_climb_root *root,
                       char *room) {
  char outer[PATH_MAX];
  int rc = find_root_path(root, outer, room);
  rc = rc > 0 ? read_mount(m->id, FIELD_ROOT, room) : rc;
  const char *rest = rc > 0 ? shard_path_below(room, outer) : NULL;
  if (rest && *rest) {
    move_to_front(room, rest);
    return 1;
  }
  return rc < 0 ? rc : 0;
}

/*
 * Which root mount m is a part of, and the path, into room[PATH_MAX]. 1, 0 or a negative errno.
 * *sure: false if a line of mountinfo was missed, so that the answer may be another one next time.
 */
static int find_outer(const struct shard_climb_mount *m, const struct shard_climb_root *roots,
                      size_t count, size_t *which, char *room, bool *sure) {
  size_t shortest = SIZE_MAX, last = count;
  for (size_t i = 0; i < count; i++) {
    if (roots[i].dev != m->dev || roots[i].mount == m->id || roots[i].mount == 0) {
      continue;
    }
    int rc = find_inside(m, &roots[i], room);
    *sure &= rc != -ESTALE;
    if (rc > 0) {
      last = i;
    } else if (rc < 0 && shard_error_is_shortage(rc)) {
      return rc;
    }
    /* The innermost of nested roots: the path from it is the shortest. */
    if (rc > 0 && strlen(room) < shortest) {
      shortest = strlen(room);
      *which = i;
    }
  }
  if (shortest == SIZE_MAX) {
    return 0;
  }
  int rc = last == *which ? 1 : find_inside(m, &roots[*which], room);
  *sure &= rc != -ESTALE;
  return rc == -ESTALE ? 0 : rc;
}

/*
 * What was found out about mounts, for reading mountinfo takes long. A slot is used and changed by
 * whoever gets hold of it, and left alone by everybody else: nobody waits.
 */
#define SLOTS 64
static struct slot {
  uint64_t id, dev, ino; /* the mount, and its root: ids return; id 0: nothing yet */
  uint64_t roots;        /* among which a root was looked for */
  size_t which;
  char path[444];
  bool inside;
  atomic_flag held;
} slots[SLOTS];

static uint64_t hash_roots(const struct shard_climb_root *roots, size_t count) {
  uint64_t hash = count;
  for (size_t i = 0; i < count; i++) {
    hash = (hash ^ roots[i].dev) * SHARD_XXH_PRIME1;
    hash = (hash ^ roots[i].ino) * SHARD_XXH_PRIME2;
    hash = (hash ^ roots[i].mount) * SHARD_XXH_PRIME1;
    hash ^= hash >> 29;
  }
  return hash;
}

/* As find_outer(), from what is remembered, if it is. */
static int recall_outer(const struct shard_climb_mount *m, const struct shard_climb_root *roots,
                        size_t count, size_t *which, char *room) {
  uint64_t hash = hash_roots(roots, count);
  struct slot *s = &slots[(m->id ^ hash) % SLOTS];
  bool held = !atomic_flag_test_and_set(&s->held);
  bool sure = true;
  bool known = held && s->id == m->id && s->dev == m->dev && s->ino == m->ino && s->roots == hash;
  int rc;
  if (known) {
    rc = s->inside;
    *which = s->which;
    strcpy(room, s->path);
  } else {
    rc = find_outer(m, roots, count, which, room, &sure);
  }
  if (held && !known && sure && rc >= 0 && (rc == 0 || strlen(room) < sizeof(s->path))) {
    s->id = m->id;
    s->dev = m->dev;
    s->ino = m->ino;
    s->roots = hash;
    s->inside = rc > 0;
    s->which = *which;
    strcpy(s->path, rc > 0 ? room : "");
  }
  if (held) {
    atomic_flag_clear(&s->held);
  }
  return rc;
}

__attribute__((noinline)) int shard_climb_find_mounted(struct shard_climb *climb,
                                                       const struct shard_climb_root *roots,
                                                       size_t count, char buf[PATH_MAX]) {
  int rc = 0;
  for (size_t i = 0; i < climb->mount_count && rc == 0; i++) {
    rc = recall_outer(&climb->mounts[i], roots, count, &climb->which, buf);
    if (rc > 0) {
      climb->levels = climb->mounts[i].levels;
    }
  }
  return rc;
}
