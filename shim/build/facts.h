/* SPDX-License-Identifier: MIT */
/*
 * facts.h - what a listing's header tells of its names, gathered as they are written (shardctl
 * only). One thread.
 */
#ifndef SHARD_BUILD_FACTS_H
#define SHARD_BUILD_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "listing/format.h"

struct shard_facts {
  struct shard_header *header; /* whose fields are filled; zero at first, but utf8, which is 1 */
  uint32_t depth;              /* slashes in the last name */
  bool high;                   /* some name has a byte from 0x80 on */
  size_t suffix_length;
  uint8_t seen[256]; /* 1: some name has this byte */
};

/*
 * One more name; the first `prefix` and last `suffix` bytes are those of `last`. The name has not
 * been counted in the header.
 */
void shard_facts_add(struct shard_facts *f, const char *last, size_t last_length, const char *name,
                     size_t length, size_t prefix, size_t suffix);

/* A name that differs from the last one in the digits name[begin] to name[end - 1] alone; not the
 * first such name after another kind. */
void shard_facts_count(struct shard_facts *f, const char *name, size_t begin, size_t end);

/* After the last name: what is kept in another form goes to the header. */
void shard_facts_end(struct shard_facts *f);

#endif
