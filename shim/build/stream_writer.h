/* SPDX-License-Identifier: MIT */
/*
 * stream_writer.h - writes a listing in parts while its names come (shardctl only). See stream.h.
 *
 * One thread. Memory: 24 bytes and the name for each name of a part, of which there are 16 MB at
 * most, and 16 bytes for each directory.
 */
#ifndef SHARD_BUILD_STREAM_WRITER_H
#define SHARD_BUILD_STREAM_WRITER_H

#include <stddef.h>
#include <stdint.h>

struct shard_stream_writer;

/* All strings are the caller's, as long as the parts are open. 0 or a negative errno. */
int shard_stream_writer_open(const char *base, const char *source, const char *options,
                             struct shard_stream_writer **out);

/* A name, in any order, once. 0 or a negative errno. */
int shard_stream_writer_add(struct shard_stream_writer *parts, const char *name, size_t length);

/* Names may wait for some time: those so far are made visible if they are enough. */
int shard_stream_writer_pause(struct shard_stream_writer *parts);

/* There are no more names. */
int shard_stream_writer_end(struct shard_stream_writer *parts);

/* Remove all parts: the listing has failed, and a cache in memory is not to be left full of it. */
void shard_stream_writer_drop(struct shard_stream_writer *parts);

/* Parts that are visible; names in them. */
uint64_t shard_stream_writer_count(const struct shard_stream_writer *parts);
uint64_t shard_stream_writer_names(const struct shard_stream_writer *parts);

void shard_stream_writer_free(struct shard_stream_writer *parts);

#endif
