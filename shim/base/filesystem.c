/* SPDX-License-Identifier: MIT */
#include "base/filesystem.h"

#include <stddef.h>

static const struct {
  unsigned type;
  const char *name;
} networks[] = {{0x6969, "NFS"},        {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},
                {0x19830326, "BeeGFS"}, {0x00c36400, "CephFS"}, {0xff534d42, "CIFS"},
                {0xfe534d42, "CIFS"},   {0x01021997, "9p"},     {SHARD_FILESYSTEM_FUSE, "FUSE"}};

const char *shard_filesystem_network_name(unsigned type) {
  for (size_t i = 0; i < sizeof(networks) / sizeof(networks[0]); i++) {
    if (type == networks[i].type) {
      return networks[i].name;
    }
  }
  return NULL;
}
