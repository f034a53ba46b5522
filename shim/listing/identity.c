/* SPDX-License-Identifier: MIT */
#include "listing/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/filesystem.h"
#include "base/hex.h"
#include "base/kernel.h"
#include "base/path.h"

/* f_type of what is made whole, and mounted: squashfs, erofs, ISO 9660, cramfs, romfs. */
static const uint32_t images[] = {0x73717368, 0xe0f5e1e2, 0x9660, 0x28cd3d45, 0x7275};

/* Read a small file. The length, 0 if it cannot be read. */
static size_t read_text(const char *path, char *text, size_t size) {
  int fd = shard_kernel_open(AT_FDCWD, path, O_RDONLY);
  ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
  shard_file_close(fd);
  text[n > 0 ? n : 0] = 0;
  return n > 0 ? (size_t)n : 0;
}

static bool is_image(const struct statfs *fs) {
  bool image = false;
  for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
    image |= (uint32_t)fs->f_type == images[i];
  }
  return image;
}

/* The kernel's number of a file system, if the image tells it (erofs: of its UUID); 0: it is that
 * of the device, which differs from mount to mount. */
static uint64_t read_number(const struct statfs *fs, uint64_t dev) {
  uint64_t id, of_device = (minor(dev) & 0xff) | major(dev) << 8 | (minor(dev) & ~0xffU) << 12;
  memcpy(&id, &fs->f_fsid, sizeof(id));
  return id == of_device ? 0 : id;
}

/* Look at the file system of directory `path`, whose device is dev. */
static int look_at_file_system(struct shard_identity_eye *eye, int root, const char *path,
                               uint64_t dev) {
  struct statfs fs;
  /* A directory that may be read and not entered has no "." either. */
  int fd = *path ? shard_path_open(root, path, O_PATH) : root;
  int rc = fd < 0 ? -1 : fstatfs(fd, &fs);
  if (fd != root) {
    shard_file_close(fd);
  }
  if (rc != 0) {
    return rc;
  }
  eye->invented = fs.f_type == SHARD_FILESYSTEM_FUSE;
  eye->image = is_image(&fs) ? read_number(&fs, dev) : 0;
  eye->untold = is_image(&fs) && eye->image == 0;
  eye->dev = dev;
  eye->known = true;
  return 0;
}

/* By stat(2), where statx(2) is forbidden or lacks. */
static int look_simply(int root, const char *path, struct shard_dir *out, uint64_t *dev) {
  struct stat st;
  if ((*path ? shard_path_stat(root, path, &st) : fstat(root, &st)) != 0) {
    return -1;
  }
  *dev = st.st_dev;
  *out = (struct shard_dir){.ino = st.st_ino,
                            .mtime_sec = st.st_mtim.tv_sec,
                            .mtime_nsec = st.st_mtim.tv_nsec,
                            .ctime_sec = st.st_ctim.tv_sec,
                            .ctime_nsec = st.st_ctim.tv_nsec};
  return 0;
}

/* All but the image. */
static int look(int root, const char *path, bool lazily, struct shard_dir *out, uint64_t *dev) {
  struct statx st;
  int fd = strlen(path) < PATH_MAX ? root : shard_path_open(root, path, O_PATH);
  int rc = fd < 0 ? -1
                  : statx(fd, fd == root ? path : "",
                          AT_EMPTY_PATH | (lazily ? AT_STATX_SYNC_AS_STAT : AT_STATX_FORCE_SYNC),
                          STATX_INO | STATX_MTIME | STATX_CTIME, &st);
  if (fd != root) {
    shard_file_close(fd);
  }
  if (rc != 0) {
    return fd >= 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL)
               ? look_simply(root, path, out, dev)
               : rc;
  }
  *dev = makedev(st.stx_dev_major, st.stx_dev_minor);
  *out = (struct shard_dir){.ino = st.stx_ino,
                            .mtime_sec = st.stx_mtime.tv_sec,
                            .mtime_nsec = st.stx_mtime.tv_nsec,
                            .ctime_sec = st.stx_ctime.tv_sec,
                            .ctime_nsec = st.stx_ctime.tv_nsec};
  return 0;
}

int shard_identity_look(struct shard_identity_eye *eye, int root, const char *path,
                        struct shard_dir *out) {
  uint64_t dev = 0;
  if (look(root, path, eye->lazily, out, &dev) != 0 ||
      ((!eye->known || eye->dev != dev) && look_at_file_system(eye, root, path, dev) != 0)) {
    return -1;
  }
  out->image = eye->image;
  return 0;
}

bool shard_identity_is_equal(const struct shard_dir *a, const struct shard_dir *b) {
  return memcmp(a, b, sizeof(*a)) == 0;
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
