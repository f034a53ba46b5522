/* SPDX-License-Identifier: MIT */
/*
 * prepare.h - decides how a directory is served: from the listing or from the real directory, and
 * which share of it is the rank's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct shard_served_dir;
struct shard_view_dataset;

/*
 * Refuses path[length], a table of this format that the directory is, or lies in: prints a line,
 * once.
 * Returns -EINVAL.
 */
int shard_prepare_refuse_table(const struct shard_served_dir *served, const char *format,
                               const char *path, size_t length);

/*
 * Fills in all fields of *served but path and path_bytes.
 * d: the dataset; its listing, if it has one, is open.
 * epoch: of shard_datasets_find_epoch().
 * Errors: a line was printed.
 */
int shard_prepare_directory(struct shard_served_dir *served, struct shard_view_dataset *d,
                            int64_t epoch);
