/* SPDX-License-Identifier: MIT */
/*
 * cachedir.c - finds the directory for listings, and checks that it is safe to use.
 */
#include "cache/cachedir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "config/config.h"

ssize_t shard_cachedir_find(bool make, char *buf, size_t size, char *err, size_t errsize) {
  int saved = errno;
  const struct shard_config *config = shard_config();
  char text[64];
  const char *dir = config->cache_dir;
  if (!dir) {
    snprintf(text, sizeof(text), "/dev/shm/libshard-%lu", (unsigned long)geteuid());
    dir = text;
  }
  ssize_t rc = 0;
  struct stat st;
  bool fits = (size_t)snprintf(buf, size, "%s", dir) < size;
  if (make && mkdir(dir, 0700) != 0 && errno != EEXIST) {
    rc = -errno;
    snprintf(err, errsize, "cannot make the cache directory '%.300s': %s; set SHARD_CACHE_DIR", dir,
             strerror(errno));
  } else if ((config->cache_dir ? stat(dir, &st) : lstat(dir, &st)) != 0) {
    rc = -errno;
    snprintf(err, errsize, "cannot use the cache directory '%.300s': %s; set SHARD_CACHE_DIR", dir,
             strerror(errno));
  } else if (!S_ISDIR(st.st_mode)) {
    rc = -ENOTDIR;
    snprintf(err, errsize, "the cache directory '%.300s' is not a directory; set SHARD_CACHE_DIR",
             dir);
  } else if (st.st_uid != geteuid() && !(config->cache_dir && st.st_uid == 0)) {
    rc = -EPERM;
    snprintf(err, errsize,
             "the cache directory '%.300s' belongs to another user (uid %lu); set "
             "SHARD_CACHE_DIR to a directory of your own",
             dir, (unsigned long)st.st_uid);
  } else if (!config->cache_dir && (st.st_mode & 077)) {
    rc = -EPERM;
    snprintf(err, errsize, "the cache directory '%.300s' is open to others; chmod 700 it", dir);
  } else if (!fits) {
    rc = -ENAMETOOLONG;
    snprintf(err, errsize, "the path of the cache directory is too long");
  } else {
    rc = (ssize_t)strlen(buf);
  }
  errno = saved;
  return rc;
}

ssize_t shard_cache_dir(char *buf, size_t size, char *err, size_t errsize) {
  return shard_cachedir_find(true, buf, size, err, errsize);
}

const char *shard_cachedir_network(unsigned type) {
  static const struct {
    unsigned type;
    const char *name;
  } types[] = {{0x6969, "NFS"},        {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},
               {0x19830326, "BeeGFS"}, {0x00c36400, "CephFS"}, {0xff534d42, "CIFS"},
               {0x65735546, "FUSE"},   {0x01021997, "9p"}};
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    if (type == types[i].type) {
      return types[i].name;
    }
  }
  return NULL;
}

bool shard_cachedir_on_network(const char *path) {
  struct statfs fs;
  return statfs(path, &fs) == 0 && shard_cachedir_network((unsigned)fs.f_type) != NULL;
}
