/* SPDX-License-Identifier: MIT */
/*
 * stream.h - a listing that is read while it is being made: parts, each a listing file of its own.
 *
 * shardctl (build/stream_writer.h) writes what a bucket's pages have brought, in the order in which
 * they come:
 *
 *   BASE.0.listing, BASE.1.listing, ...   appear whole, one after the other
 *   BASE.end                              the number of parts, once there will be no more
 *   BASE.err                              flock'ed while shardctl lives; then why it failed
 *
 * A name is in one part only, and so is each directory on the way to names: in the first part that
 * has a name below it. A part is never changed.
 */
#ifndef SHARD_CACHE_STREAM_H
#define SHARD_CACHE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_listing;
struct shard_stream;

/* A part, and what it adds to positions: those of its others, then those of its names. */
struct shard_stream_part {
  const struct shard_listing *listing;
  uint64_t begin, end;
};

enum shard_stream_state { SHARD_STREAM_RUNNING, SHARD_STREAM_COMPLETE, SHARD_STREAM_BROKEN };

/* What has become of the stream of that base. */
enum shard_stream_state shard_stream_get_state(const char *base);

/* 0, or a negative errno. A process that was forked has the stream, too. */
int shard_stream_open(const char *base, const char *source, const char *options,
                      struct shard_stream **out);
void shard_stream_close(struct shard_stream *stream);

/*
 * The part after *part, NULL before the first: 1. 0: there is none, nor will there be. -EAGAIN: not
 * yet (unless `wait`, which takes SHARD_TIMEOUT seconds at most). Else a negative errno and a line
 * in err[size]: the stream ends before its end. Parts live as long as the stream. Thread-safe.
 */
int shard_stream_next(struct shard_stream *stream, bool wait, const struct shard_stream_part **part,
                      char *err, size_t size);

#endif
