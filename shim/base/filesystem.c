/* SPDX-License-Identifier: MIT */
#include "base/filesystem.h"

#include <stddef.h>
#include <sys/vfs.h>

/* FUSE is shared as a rule, but its times are those that a program makes up. */
static const struct {
  unsigned type;
  bool clock;
  const char *network; /* NULL: it is this host's own */
} types[] = {
    {0x6969, true, "NFS"},        {0x0bd00bd0, true, "Lustre"}, {0x47504653, true, "GPFS"},
    {0x19830326, true, "BeeGFS"}, {0x00c36400, true, "CephFS"}, {0xff534d42, true, "CIFS"},
    {0xfe534d42, true, "CIFS"},   {0x65735546, false, "FUSE"},  {0x01021997, true, "9p"},
    {0xef53, true, NULL},     /* ext2, 3, 4 */
    {0x58465342, true, NULL}, /* xfs */
    {0xf2f52010, true, NULL}, /* f2fs */
    {0x9123683e, true, NULL}, /* btrfs */
    {0x2fc12fc1, true, NULL}, /* zfs */
    {0xca451a4e, true, NULL}, /* bcachefs */
    {0x01021994, true, NULL}, /* tmpfs */
    {0x858458f6, true, NULL}, /* ramfs */
};

const char *shard_filesystem_network(unsigned type) {
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    if (type == types[i].type) {
      return types[i].network;
    }
  }
  return NULL;
}

bool shard_filesystem_is_shared(const char *path) {
  struct statfs fs;
  return statfs(path, &fs) == 0 && shard_filesystem_network((unsigned)fs.f_type) != NULL;
}

bool shard_filesystem_has_clock(unsigned type) {
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    if (type == types[i].type) {
      return types[i].clock;
    }
  }
  return false;
}
