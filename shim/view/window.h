/* SPDX-License-Identifier: MIT */
/*
 * window.h - a stream of entries is shuffled within a window: `size` entries are held. One of them,
 * chosen at random, is given out, and the next of the stream takes its place (the shuffle buffer of
 * tf.data and WebDataset). The generator is SplitMix64, so the order depends on the seed and on
 * the stream alone. One thread at a time. Memory: some 50 bytes an entry held, and its name.
 */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_window;

/* NULL: no memory. */
struct shard_window *shard_window_new(uint64_t seed, size_t size);

void shard_window_free(struct shard_window *w);

/* Begin anew. */
void shard_window_reset(struct shard_window *w, uint64_t seed);

/* Whether it wants another entry before it gives one. */
bool shard_window_wants(const struct shard_window *w);

/* Copy in an entry; NULL: there are no more. 0 or -ENOMEM. */
int shard_window_put(struct shard_window *w, const struct dirent64 *entry);

/* Give one out, valid until the next call; NULL at the end. */
struct dirent64 *shard_window_take(struct shard_window *w);

/* How many have been given out. */
uint64_t shard_window_taken(const struct shard_window *w);
