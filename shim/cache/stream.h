/* SPDX-License-Identifier: MIT */
/*
 * stream.h - reads a listing while it is being made, in parts: each is a listing file of its own.
 *
 * shardctl (build/stream_writer.h) writes the names of a bucket in the order in which pages bring
 * them:
 *
 *   BASE.0.listing, BASE.1.listing, ...   appear whole, one after the other
 *   BASE.end                              the number of parts; appears after the last part
 *   BASE.err                              shardctl holds an flock on it, and writes its messages
 *
 * A stream is complete once BASE.end exists. Without it, an unlocked BASE.err means that shardctl
 * died. A name is in one part only, and so is a directory on the way to names: in the first part
 * that has a name below it. A part never changes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_listing;
struct shard_stream;

/* A part, and the positions [begin, end) that it has in the stream: its others, then its names. */
struct shard_stream_part {
  const struct shard_listing *listing;
  uint64_t begin, end;
};

/* BROKEN: shardctl died, or there is no such stream. */
enum shard_stream_state { SHARD_STREAM_RUNNING, SHARD_STREAM_COMPLETE, SHARD_STREAM_BROKEN };

/* The state of the stream whose files are named BASE. Thread-safe; errno may be changed. */
enum shard_stream_state shard_stream_get_state(const char *base);

/*
 * Open the stream; no part of it need be there. source, options: those that each part must have.
 * 0, and *out is for shard_stream_close(); or -ENOMEM. A forked child may go on using the stream.
 */
int shard_stream_open(const char *base, const char *source, const char *options,
                      struct shard_stream **out);

/* Close all parts and free. NULL is allowed. */
void shard_stream_close(struct shard_stream *stream);

/*
 * Go from *part (NULL: before the first) to the next part. 1; 0 if there will be no more parts;
 * -EAGAIN if the next part is not there yet, unless `wait`: that waits, some seconds more than
 * SHARD_TIMEOUT at most, then -ETIMEDOUT. -EIO if shardctl died or a part is gone; other errnos of
 * shard_listing_open(). Errors but -EAGAIN put a line in err[size]. Parts live as long as the
 * stream. Thread-safe.
 */
int shard_stream_next(struct shard_stream *stream, bool wait, const struct shard_stream_part **part,
                      char *err, size_t size);
