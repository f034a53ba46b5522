/* SPDX-License-Identifier: MIT */
#include "listing/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/filesystem.h"
#include "base/hex.h"
#include "base/path.h"

/* Linux 6.8; older kernels leave it out of stx_mask. */
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000U
#endif

/* Disks that are made of files, one after the other: linux/major.h */
enum { LOOP = 7, NBD = 43 };
#define FUSE 0x65735546 /* f_type */

/* Read a small file. The length, 0 if it cannot be read. */
static size_t read_text(const char *path, char *text, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
  shard_file_close(fd);
  text[n > 0 ? n : 0] = 0;
  return n > 0 ? (size_t)n : 0;
}

/* Which disk has this number now (Linux 5.15); 0: not known. */
static uint64_t find_disk(uint64_t dev) {
  char path[80], text[32];
  static const char *const places[] = {"diskseq", "../diskseq"}; /* of a disk, of a partition */
  for (size_t i = 0; i < 2; i++) {
    snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(dev), minor(dev), places[i]);
    if (read_text(path, text, sizeof(text)) > 0) {
      return strtoull(text, NULL, 10);
    }
  }
  return 0;
}

/* Of a number that may be 0 an instance, which may not. */
static uint64_t mark(uint64_t number, uint64_t kind) { return (number << 2 | kind) ^ number >> 62; }

/* Look at the file system of directory `path`, whose device is dev. */
static int look_at_file_system(struct shard_identity_eye *eye, int root, const char *path,
                               uint64_t dev) {
  struct statfs fs;
  /* A directory that may be read and not entered has no "." either. */
  int fd = *path ? shard_path_open(root, path, O_PATH) : root;
  int rc = fd < 0 ? -1 : fstatfs(fd, &fs), saved = errno;
  if (fd >= 0 && fd != root) {
    close(fd);
  }
  errno = saved;
  if (rc != 0) {
    return rc;
  }
  uint64_t disk = major(dev) != 0 ? find_disk(dev) : 0, id;
  bool file = major(dev) == LOOP || major(dev) == NBD;
  memcpy(&id, &fs.f_fsid, sizeof(id));
  eye->clock = shard_filesystem_has_clock((unsigned)fs.f_type) && !file;
  /* What a program shows may change, and all times stay, while it is mounted. */
  eye->by_mount = disk == 0 && !eye->clock && fs.f_type != FUSE;
  eye->instance = disk ? mark(disk, 1) : eye->clock ? mark(id, 2) : 0;
  eye->dev = dev;
  eye->known = true;
  return 0;
}

/* By stat(2), where statx(2) is forbidden or lacks: no number of a mount. */
static int look_simply(int root, const char *path, struct shard_dir *out) {
  struct stat st;
  if ((*path ? shard_path_stat(root, path, &st) : fstat(root, &st)) != 0) {
    return -1;
  }
  *out = (struct shard_dir){.dev = st.st_dev,
                            .ino = st.st_ino,
                            .mtime_sec = st.st_mtim.tv_sec,
                            .mtime_nsec = st.st_mtim.tv_nsec,
                            .ctime_sec = st.st_ctim.tv_sec,
                            .ctime_nsec = st.st_ctim.tv_nsec};
  return 0;
}

/* All but the instance; *mount is 0 if it is not known. */
static int look(int root, const char *path, bool lazily, struct shard_dir *out, uint64_t *mount) {
  struct statx st;
  int fd = strlen(path) < PATH_MAX ? root : shard_path_open(root, path, O_PATH);
  *mount = 0;
  int rc = fd < 0 ? -1
                  : statx(fd, fd == root ? path : "",
                          AT_EMPTY_PATH | (lazily ? AT_STATX_SYNC_AS_STAT : AT_STATX_FORCE_SYNC),
                          STATX_INO | STATX_MTIME | STATX_CTIME | STATX_MNT_ID_UNIQUE, &st);
  int saved = errno;
  if (fd >= 0 && fd != root) {
    close(fd);
  }
  errno = saved;
  if (rc != 0) {
    return fd >= 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL)
               ? look_simply(root, path, out)
               : rc;
  }
  *mount = st.stx_mask & STATX_MNT_ID_UNIQUE ? st.stx_mnt_id : 0;
  *out = (struct shard_dir){.dev = makedev(st.stx_dev_major, st.stx_dev_minor),
                            .ino = st.stx_ino,
                            .mtime_sec = st.stx_mtime.tv_sec,
                            .mtime_nsec = st.stx_mtime.tv_nsec,
                            .ctime_sec = st.stx_ctime.tv_sec,
                            .ctime_nsec = st.stx_ctime.tv_nsec};
  return 0;
}

int shard_identity_look(struct shard_identity_eye *eye, int root, const char *path,
                        struct shard_dir *out) {
  uint64_t mount;
  if (look(root, path, eye->lazily, out, &mount) != 0 ||
      ((!eye->known || eye->dev != out->dev) &&
       look_at_file_system(eye, root, path, out->dev) != 0)) {
    return -1;
  }
  out->instance = !eye->by_mount ? eye->instance : mount ? mark(mount, 3) : 0;
  return 0;
}

bool shard_identity_is_equal(const struct shard_dir *a, const struct shard_dir *b) {
  return a->ino == b->ino && a->ctime_sec == b->ctime_sec && a->ctime_nsec == b->ctime_nsec &&
         a->mtime_sec == b->mtime_sec && a->mtime_nsec == b->mtime_nsec;
}

int shard_identity_boot(uint8_t boot[SHARD_BOOT_SIZE]) {
  char text[64];
  size_t digits = 0;
  memset(boot, 0, SHARD_BOOT_SIZE);
  errno = 0;
  read_text("/proc/sys/kernel/random/boot_id", text, sizeof(text)); /* hexadecimal, with dashes */
  for (const char *p = text; *p && digits < (size_t)2 * SHARD_BOOT_SIZE; p++) {
    int digit = shard_hex_digit(*p);
    if (digit >= 0) {
      boot[digits / 2] = (uint8_t)(boot[digits / 2] << 4 | digit);
      digits++;
    }
  }
  bool told = digits == (size_t)2 * SHARD_BOOT_SIZE;
  return told ? 1 : errno == 0 || errno == ENOENT || errno == EACCES ? 0 : -errno;
}
