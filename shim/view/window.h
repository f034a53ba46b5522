/* SPDX-License-Identifier: MIT */
/*
 * window.h - shuffles a stream of entries within a window, the shuffle buffer of tf.data and
 * WebDataset: `size` entries are held; a random entry of these is given out, and the next entry of
 * the stream takes its place.
 *
 * The order depends on the seed and the stream alone (SplitMix64). A window takes some 50 bytes and
 * the name for each entry that it holds.
 */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_window;

/* Creates a window, for shard_window_free(). size: entries. Errors: NULL, out of memory. */
struct shard_window *shard_window_new(uint64_t seed, size_t size);

/* Frees a window; NULL is allowed. */
void shard_window_free(struct shard_window *w);

/* Empties a window for a stream that begins anew. */
void shard_window_reset(struct shard_window *w, uint64_t seed);

/* Returns whether the window needs another entry before the next is taken. */
bool shard_window_wants(const struct shard_window *w);

/* Copies an entry into the window; NULL: the stream has ended. */
int shard_window_put(struct shard_window *w, const struct dirent64 *entry);

/* Takes an entry, which is valid until the next call. Returns NULL at the end. */
struct dirent64 *shard_window_take(struct shard_window *w);

/* Returns how many entries were taken. */
uint64_t shard_window_taken(const struct shard_window *w);
