/* SPDX-License-Identifier: MIT */
/*
 * facts.h - gathers what a listing's header says of its names, as they are written (shardctl only).
 * One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "listing/format.h"

struct shard_facts {
  struct shard_header *header; /* the caller's: gets the facts. At first all zeros, but utf8 is 1 */
  uint32_t depth;              /* slashes in the last name */
  bool high;                   /* some name has a byte of 0x80 or more */
  size_t suffix_length;
  uint8_t seen[256]; /* 1: some name has this byte */
};

/*
 * Note one more name. It shares its first `prefix` and last `suffix` bytes with `last`, the name
 * before. Call this before the name is counted in header->names.count.
 */
void shard_facts_add(struct shard_facts *f, const char *last, size_t last_length, const char *name,
                     size_t length, size_t prefix, size_t suffix);

/*
 * Note one more name of a run: it differs from the last name only in the number name[begin] to
 * name[end - 1], higher by one. The run's first two names go to shard_facts_add().
 */
void shard_facts_count(struct shard_facts *f, const char *name, size_t begin, size_t end);

/* All names were noted: write the rest of the facts to the header. */
void shard_facts_end(struct shard_facts *f);
