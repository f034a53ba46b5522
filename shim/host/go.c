/* SPDX-License-Identifier: MIT */
#include "host/go.h"

#include <link.h>
#include <stdint.h>
#include <string.h>

#define MAGIC "\xff Go buildinf:"
#define ALIGNED ((size_t)16)

/* Looks for the magic in the main program, the first object of dl_iterate_phdr(3), and stops there.
 */
static int find_magic(struct dl_phdr_info *info, size_t size, void *found) {
  (void)size;
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_W) || p->p_filesz < 2 * ALIGNED) {
      continue;
    }
    const uintptr_t begin =
                        (info->dlpi_addr + p->p_vaddr + ALIGNED - 1) & ~(uintptr_t)(ALIGNED - 1),
                    end = info->dlpi_addr + p->p_vaddr + p->p_filesz;
    const char *at;
    memcpy(&at, &begin, sizeof(at));
    for (size_t left = end - begin; left >= ALIGNED && !*(bool *)found; left -= ALIGNED) {
      *(bool *)found = memcmp(at, MAGIC, sizeof(MAGIC) - 1) == 0;
      at += ALIGNED;
    }
  }
  return 1;
}

bool shard_go_is_program(void) {
  bool found = false;
  dl_iterate_phdr(find_magic, &found);
  return found;
}
