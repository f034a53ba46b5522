/* SPDX-License-Identifier: MIT */
/*
 * stream_writer.h - writes a listing in parts while its names come (shardctl only). cache/stream.h
 * has the files.
 *
 * One thread. Memory: the names of one part, at most 16 MB, with 24 bytes for each name; and for
 * all parts 32 to 64 bytes for each directory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct shard_stream_writer;

/*
 * Begin the parts BASE.0.listing and so on. The strings are the caller's, and must live as long as
 * the writer. 0, and *out is for shard_stream_writer_free(); or -ENOMEM.
 */
int shard_stream_writer_open(const char *base, const char *source, const char *options,
                             struct shard_stream_writer **out);

/* Add a copy of a name, in any order; no name twice. 0 or a negative errno. */
int shard_stream_writer_add(struct shard_stream_writer *writer, const char *name, size_t length);

/*
 * The next name may take some time: publish the names so far as a part, if they are enough for one.
 * 0 or a negative errno.
 */
int shard_stream_writer_pause(struct shard_stream_writer *writer);

/* There are no more names: publish the last part, and BASE.end. 0 or a negative errno. */
int shard_stream_writer_end(struct shard_stream_writer *writer);

/* The listing has failed: remove all parts, so that they do not fill a cache in memory. */
void shard_stream_writer_drop(struct shard_stream_writer *writer);

/* How many parts are published. */
uint64_t shard_stream_writer_count(const struct shard_stream_writer *writer);

/* Free the writer; the parts stay. NULL is allowed. */
void shard_stream_writer_free(struct shard_stream_writer *writer);
