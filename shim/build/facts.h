/* SPDX-License-Identifier: MIT */
/*
 * facts.h - gathers what a listing's header says of the names, while the names are written
 * (shardctl only).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "listing/format.h"

struct shard_facts {
  struct shard_header *header; /* gets the facts; the caller's. All zeros at first, but utf8 is 1 */
  uint32_t depth;              /* slashes in the last name */
  bool high;                   /* some name has a byte of 0x80 or more */
  size_t suffix_length;
  uint8_t seen[256]; /* 1: some name has this byte */
};

/*
 * Notes one more name. Called before header->names.count counts the name.
 * last: the name before; `last` and `name` share their first `prefix` and their last `suffix`
 * bytes.
 */
void shard_facts_add(struct shard_facts *f, const char *last, size_t last_length, const char *name,
                     size_t length, size_t prefix, size_t suffix);

/*
 * Notes one more name of a run: the name differs from the last name only in the number name[begin]
 * to name[end - 1], which is higher by 1. The first two names of a run go to shard_facts_add().
 */
void shard_facts_count(struct shard_facts *f, const char *name, size_t begin, size_t end);

/* Writes the rest of the facts to the header, when all names have been noted. */
void shard_facts_end(struct shard_facts *f);
