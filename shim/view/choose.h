/* SPDX-License-Identifier: MIT */
/*
 * choose.h - how a directory is served: from the listing or the real directory, and which
 * share of it is the rank's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct shard_served;
struct shard_view_dataset;

/* Say, once, that path[length], which the directory is or lies in, is a table of this format.
 * -EINVAL. */
int shard_choose_refuse_table(const struct shard_served *served, const char *format,
                              const char *path, size_t length);

/*
 * Fill in everything of *served but path and base, for a directory of a dataset whose listing, if
 * it has one, is open, in an epoch of shard_datasets_find_epoch()'s. 0, or a negative errno, of
 * which a message was printed.
 */
int shard_choose_all(struct shard_served *served, struct shard_view_dataset *d, int64_t epoch);
