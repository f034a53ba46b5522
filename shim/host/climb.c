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
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/path.h"
#include "base/xxh64.h"

/* A descriptor or a negative errno. */
static int open_at(int at, const char *path, int flags) {
  int fd = shard_kernel_open(at, path, flags);
  return fd < 0 ? -errno : fd;
}

__attribute__((noinline)) int shard_climb_stat_plainly(int at, const char *path,
                                                       struct statx *out) {
  struct stat st;
  if ((*path ? fstatat(at, path, &st, AT_NO_AUTOMOUNT) : fstat(at, &st)) != 0) {
    return -errno;
  }
  *out = (struct statx){.stx_mask = STATX_TYPE | STATX_INO | STATX_MTIME | STATX_CTIME,
                        .stx_mode = (uint16_t)st.st_mode,
                        .stx_ino = st.st_ino,
                        .stx_dev_major = major(st.st_dev),
                        .stx_dev_minor = minor(st.st_dev)};
  out->stx_mtime.tv_sec = st.st_mtim.tv_sec;
  out->stx_mtime.tv_nsec = (uint32_t)st.st_mtim.tv_nsec;
  out->stx_ctime.tv_sec = st.st_ctim.tv_sec;
  out->stx_ctime.tv_nsec = (uint32_t)st.st_ctim.tv_nsec;
  return 0;
}

/* ---- up ----------------------------------------------------------------- */

/* The last 3n bytes, with the NUL, lead n levels up; past that a descriptor is taken. */
#define FOUR_TIMES(s) s s s s
static const char up[] = FOUR_TIMES(FOUR_TIMES(FOUR_TIMES(FOUR_TIMES("../")))) "..";

static int add_mount(struct shard_climb *climb, struct shard_climb_mount mount) {
  if (climb->mount_count == SHARD_CLIMB_MOUNTS) {
    return -EOVERFLOW;
  }
  climb->mounts[climb->mount_count++] = mount;
  return 0;
}

/* Note a level that is a mount's root, if another mount of its file system has one of the roots. 0
 * or -EOVERFLOW. */
static int note_level(struct shard_climb *climb, const struct statx *st,
                      const struct shard_climb_root *roots, size_t count) {
  bool known = st->stx_mask & STATX_MNT_ID, possible = false;
  uint64_t dev = shard_climb_device(st);
  if (known && !(st->stx_attributes & STATX_ATTR_MOUNT_ROOT)) {
    return 0;
  }
  for (size_t i = 0; i < count; i++) {
    possible |= roots[i].dev == dev && (!known || roots[i].mount != st->stx_mnt_id);
  }
  climb->blind |= possible && !known;
  return possible && known ? add_mount(climb, (struct shard_climb_mount){.dev = dev,
                                                                         .ino = st->stx_ino,
                                                                         .id = st->stx_mnt_id,
                                                                         .levels = climb->levels})
                           : 0;
}

/* The first of the roots that is this directory, or -1. */
static ssize_t find_equal(const struct shard_climb_root *roots, size_t count,
                          const struct statx *st) {
  for (size_t i = 0; i < count; i++) {
    if (shard_climb_is_root(&roots[i], st)) {
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
  out->blind = false;
  for (out->levels = 0;; out->levels++, n++) {
    if (out->levels > 0) {
      rc = shard_climb_stat(at, up + sizeof(up) - 3 * n, &upper);
      if (rc != 0 || (upper.stx_ino == ino && shard_climb_device(&upper) == dev)) {
        break; /* the top is its own parent */
      }
      st = &upper;
    }
    ino = st->stx_ino;
    dev = shard_climb_device(st);
    ssize_t found = find_equal(roots, count, st);
    if (found >= 0) {
      out->which = (size_t)found;
      rc = 1;
      break;
    }
    rc = note_level(out, st, roots, count);
    if (rc == 0 && n == sizeof(up) / 3) {
      int next = open_at(at, up, O_PATH | O_DIRECTORY);
      if (at != fd) {
        shard_kernel_close(at);
      }
      at = next;
      n = 0;
      rc = next < 0 ? next : 0;
    }
    if (rc != 0) {
      break;
    }
  }
  if (at != fd && at >= 0) {
    shard_kernel_close(at);
  }
  return rc;
}

ssize_t shard_climb_read_path(int fd, char *buf, size_t size) {
  char link[40] = "/proc/self/fd/", digits[12];
  size_t n = 0, used = strlen("/proc/self/fd/");
  unsigned rest = (unsigned)fd;
  do { /* not by snprintf: it is called for every directory that is listed */
    digits[n++] = (char)('0' + rest % 10);
  } while ((rest /= 10) > 0);
  while (n > 0) {
    link[used++] = digits[--n];
  }
  ssize_t length = readlink(link, buf, size);
  if (length < 0) {
    return -errno;
  }
  if ((size_t)length >= size) {
    return -ENAMETOOLONG;
  }
  buf[length] = 0;
  return length;
}

ssize_t shard_climb_read_names(int fd, size_t levels, char *buf, size_t size) {
  if (levels == 0) {
    *buf = 0;
    return 0;
  }
  ssize_t n = shard_climb_read_path(fd, buf, size);
  if (n < 0) {
    return n;
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

/* How many names a relative path has. */
static size_t count_names(const char *path) {
  size_t n = *path != 0;
  for (; *path; path++) {
    n += *path == '/';
  }
  return n;
}

/* The kernel's name of a root, in buf[PATH_MAX], and *mount, its mount, unless that is NULL. 1, 0:
 * it has gone, or a negative errno. */
static int read_root(const struct shard_climb_root *root, char *buf, uint64_t *mount);

/* As shard_climb_find(), by the kernel's names. Uses room[2 * PATH_MAX]. */
static int find_by_path(int fd, const struct statx *st, const struct shard_climb_root *roots,
                        size_t count, struct shard_climb *out, char *room) {
  char *path = room, *top = room + PATH_MAX;
  size_t shortest = SIZE_MAX;
  ssize_t n = shard_climb_read_path(fd, path, PATH_MAX);
  if (n < 0) {
    return (int)n;
  }
  for (size_t i = 0; i < count; i++) {
    int rc = read_root(&roots[i], top, NULL);
    if (rc < 0 || (rc == 0 && roots[i].ino != 0)) {
      return rc ? rc : -ENOENT;
    }
    const char *rest = rc > 0 ? shard_path_below(path, top) : NULL;
    if (rest && strlen(rest) < shortest) {
      shortest = strlen(rest);
      out->which = i;
      out->levels = count_names(rest);
    }
  }
  struct statx now;
  if (shortest == SIZE_MAX) {
    return 0;
  }
  /* The name may be another directory's that is mounted over it. */
  int rc = shard_climb_stat(AT_FDCWD, path, &now);
  return rc == 0 && !shard_climb_is_same(&now, st) ? -ESTALE : rc ? rc : 1;
}

/* ---- parts of a root's tree that are mounted elsewhere ------------------ */

/* Fields of mountinfo, proc(5), counted from 0. */
enum { FIELD_PARENT = 1, FIELD_DEVICE = 2, FIELD_ROOT = 3, FIELD_POINT = 4 };

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

static ssize_t read_piece(int fd, char *buf, size_t size) {
  ssize_t n = TEMP_FAILURE_RETRY(syscall(SYS_read, fd, buf, size));
  return n < 0 ? -errno : n;
}

/*
 * A field of the line that mountinfo has for mount `id`, into out[PATH_MAX]. 0, or a negative
 * errno; -ESTALE: there is no such line, or it was missed, as others came and went. Read piece by
 * piece, for it may be long.
 */
static int read_mount(uint64_t id, int field, char *out) {
  char piece[1024];
  uint64_t line_id = 0;
  size_t used = 0;
  int at = 0; /* the field that is being read */
  bool done = false, fits = true;
  ssize_t n = 0;
  int fd = open_at(AT_FDCWD, "/proc/self/mountinfo", O_RDONLY);
  if (fd < 0) {
    return fd;
  }
  while (!done && (n = read_piece(fd, piece, sizeof(piece))) > 0) {
    for (const char *p = piece; !done && p < piece + n; p++) {
      if (*p == ' ' || *p == '\n') {
        done = line_id == id && at == field;
        at = *p == ' ' ? at + 1 : 0;
        line_id = *p == ' ' ? line_id : 0;
      } else if (at == 0) {
        line_id = line_id * 10 + (uint64_t)(*p - '0');
      } else if (at == field && line_id == id) {
        fits &= used < PATH_MAX - 1;
        out[used] = *p;
        used += fits;
      }
    }
  }
  shard_kernel_close(fd);
  out[used] = 0;
  unescape(out);
  return n < 0 ? (int)n : !done ? -ESTALE : fits ? 0 : -ENAMETOOLONG;
}

/* The mount of directory fd, where statx(2) has not told it. 0 or a negative errno. */
static int read_mount_id(int fd, uint64_t *id) {
  char text[512];
  snprintf(text, sizeof(text), "/proc/self/fdinfo/%d", fd);
  int info = open_at(AT_FDCWD, text, O_RDONLY);
  if (info < 0) {
    return info;
  }
  ssize_t n = read_piece(info, text, sizeof(text) - 1);
  shard_kernel_close(info);
  text[n > 0 ? n : 0] = 0;
  const char *found = strstr(text, "mnt_id:");
  *id = found ? strtoull(found + strlen("mnt_id:"), NULL, 10) : 0;
  return n < 0 ? (int)n : *id != 0 ? 0 : -ENOSYS;
}

static int read_root(const struct shard_climb_root *root, char *buf, uint64_t *mount) {
  int fd = open_at(AT_FDCWD, root->path, O_PATH | O_DIRECTORY), rc = 0;
  if (fd < 0) {
    return fd == -ENOENT ? 0 : fd;
  }
  ssize_t n = shard_climb_read_path(fd, buf, PATH_MAX);
  if (n >= 0 && mount) {
    *mount = root->mount;
    rc = *mount != 0 ? 0 : read_mount_id(fd, mount);
  }
  shard_kernel_close(fd);
  return n < 0 ? (int)n : rc ? rc : 1;
}

/* Note the mounts that directory fd lies in. Uses room[2 * PATH_MAX]. 0 or a negative errno. */
static int list_mounts(int fd, struct shard_climb *out, char *room) {
  char *path = room, *field = room + PATH_MAX;
  struct shard_climb_mount mount = {0};
  ssize_t n = shard_climb_read_path(fd, path, PATH_MAX);
  int rc = n < 0 ? (int)n : read_mount_id(fd, &mount.id);
  out->mount_count = 0;
  while (rc == 0) {
    rc = read_mount(mount.id, FIELD_POINT, field);
    const char *rest = rc == 0 ? shard_path_below(path, field) : NULL;
    if (!rest) {
      return rc ? rc : -ESTALE;
    }
    mount.levels += count_names(rest);
    rc = add_mount(out, mount);
    path[strlen(field)] = 0; /* to where it is mounted */
    if (strcmp(path, "/") == 0) {
      break;
    }
    rc = rc ? rc : read_mount(mount.id, FIELD_PARENT, field);
    mount.id = strtoull(field, NULL, 10);
  }
  return rc;
}

int shard_climb_find_unseen(int fd, const struct statx *st, const struct shard_climb_root *roots,
                            size_t count, struct shard_climb *climb, int rc, char *room) {
  rc = rc < 0 ? find_by_path(fd, st, roots, count, climb, room) : rc;
  int listed = rc >= 0 ? list_mounts(fd, climb, room) : rc;
  if (listed < 0) {
    return listed;
  }
  /* Those above the root that was met do not matter. */
  while (rc > 0 && climb->mount_count > 0 &&
         climb->mounts[climb->mount_count - 1].levels >= climb->levels) {
    climb->mount_count--;
  }
  return rc;
}

/* The path of a root in its file system, into out[PATH_MAX], and its mount. 1, 0: it has gone, or a
 * negative errno. Uses room[PATH_MAX]. */
static int find_root_path(const struct shard_climb_root *root, char *out, uint64_t *mount,
                          char *room) {
  int rc = read_root(root, room, mount);
  if (rc <= 0 || (rc = read_mount(*mount, FIELD_POINT, out)) != 0) {
    return rc;
  }
  const char *rest = shard_path_below(room, out);
  if (!rest) {
    return -ESTALE;
  }
  memmove(room, rest, strlen(rest) + 1);
  rc = read_mount(*mount, FIELD_ROOT, out);
  if (rc == 0 && *room) {
    size_t used = strcmp(out, "/") == 0 ? 0 : strlen(out);
    if (used + strlen(room) + 2 > PATH_MAX) {
      return -ENAMETOOLONG;
    }
    out[used] = '/';
    strcpy(out + used + 1, room);
  }
  return rc ? rc : 1;
}

/* Whether two mounts are of one file system, by the list. 1, 0 or a negative errno. */
static int have_one_device(uint64_t a, uint64_t b, char *room) {
  char device[32];
  int rc = read_mount(a, FIELD_DEVICE, room);
  snprintf(device, sizeof(device), "%.31s", room);
  rc = rc ? rc : read_mount(b, FIELD_DEVICE, room);
  return rc ? rc : strcmp(device, room) == 0;
}

/* Whether a mount is that of this process's "/". */
static bool is_of_slash(uint64_t mount) {
  struct statx st;
  return mount != 0 && shard_climb_stat(AT_FDCWD, "/", &st) == 0 && (st.stx_mask & STATX_MNT_ID) &&
         st.stx_mnt_id == mount;
}

/*
 * In a chroot that is no mount point the kernel does not list the mount of "/", so the path of a
 * root in its file system is not known but for its end, `path`. 0 if mount m lies nowhere below
 * such a path, or a negative errno. Uses room[PATH_MAX].
 */
static int rule_out(const struct shard_climb_mount *m, const char *path, char *room) {
  int rc = read_mount(m->id, FIELD_ROOT, room);
  size_t n = strlen(path);
  for (const char *p = room; rc == 0 && (p = strstr(p, path)); p++) {
    rc = p[n] == 0 || p[n] == '/' ? -ESTALE : 0;
  }
  return rc;
}

/*
 * The path from a root to the root of mount m, into room[PATH_MAX], if the latter lies in the
 * former. 1, 0 or a negative errno. If they are the same, that was seen on the way up, or m is one
 * that was not seen there.
 */
static int find_inside(const struct shard_climb_mount *m, const struct shard_climb_root *root,
                       char *room) {
  char outer[PATH_MAX];
  uint64_t mount = 0;
  int rc = find_root_path(root, outer, &mount, room);
  if (rc == -ESTALE && is_of_slash(mount)) {
    return rule_out(m, room, outer);
  }
  if (rc > 0 && m->dev == 0) {
    rc = mount == m->id ? 0 : have_one_device(mount, m->id, room);
  }
  if (rc <= 0 || (rc = read_mount(m->id, FIELD_ROOT, room)) != 0) {
    return rc;
  }
  const char *rest = shard_path_below(room, outer);
  if (!rest || (!*rest && m->dev != 0)) {
    return 0;
  }
  memmove(room, rest, strlen(rest) + 1);
  return 1;
}

/* Which root mount m is a part of, and the path, into room[PATH_MAX]. 1, 0 or a negative errno. */
static int find_outer(const struct shard_climb_mount *m, const struct shard_climb_root *roots,
                      size_t count, size_t *which, char *room) {
  size_t shortest = SIZE_MAX, last = count;
  for (size_t i = 0; i < count; i++) {
    if (roots[i].ino == 0 || roots[i].mount == m->id || (m->dev != 0 && roots[i].dev != m->dev)) {
      continue;
    }
    int rc = find_inside(m, &roots[i], room);
    if (rc < 0) {
      return rc;
    }
    last = rc > 0 ? i : last;
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
  return rc == 0 ? -ESTALE : rc;
}

/*
 * What was found out about mounts, for reading mountinfo takes long. A slot is used and changed by
 * whoever gets hold of it, and left alone by everybody else: nobody waits.
 */
#define SLOTS 64
#define MOST_TRIES 5 /* while mounts come and go */
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
  /* The number of a mount that has gone is given to another one: its root tells. */
  bool held = m->ino != 0 && !atomic_flag_test_and_set(&s->held);
  bool known = held && s->id == m->id && s->dev == m->dev && s->ino == m->ino && s->roots == hash;
  int rc = -ESTALE;
  if (known) {
    rc = s->inside;
    *which = s->which;
    strcpy(room, s->path);
  }
  for (int tries = 0; !known && rc == -ESTALE && tries < MOST_TRIES; tries++) {
    rc = find_outer(m, roots, count, which, room);
  }
  if (held && !known && rc >= 0 && (rc == 0 || strlen(room) < sizeof(s->path))) {
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
