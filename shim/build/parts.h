/* SPDX-License-Identifier: MIT */
/*
 * parts.h - writes a listing in parts while its names come (shardctl only). See stream.h.
 *
 * One thread. Memory: 24 bytes and the name for each name of a part, of which there are 16 MB at
 * most, and 16 bytes for each directory.
 */
#ifndef SHARD_BUILD_PARTS_H
#define SHARD_BUILD_PARTS_H

#include <stddef.h>
#include <stdint.h>

struct shard_parts;

/* All strings are the caller's, as long as the parts are open. 0 or a negative errno. */
int shard_parts_open(const char *base, const char *source, const char *options,
                     struct shard_parts **out);

/* A name, in any order, once. 0 or a negative errno. */
int shard_parts_add(struct shard_parts *parts, const char *name, size_t length);

/* Names may wait for some time: those so far are made visible if they are enough. */
int shard_parts_pause(struct shard_parts *parts);

/* There are no more names. */
int shard_parts_end(struct shard_parts *parts);

/* Remove all parts: the listing has failed, and a cache in memory is not to be left full of it. */
void shard_parts_drop(struct shard_parts *parts);

/* Parts that are visible; names in them. */
uint64_t shard_parts_count(const struct shard_parts *parts);
uint64_t shard_parts_names(const struct shard_parts *parts);

void shard_parts_free(struct shard_parts *parts);

#endif
