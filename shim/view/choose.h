/* SPDX-License-Identifier: MIT */
/*
 * choose.h - how a directory is served: from the listing or the real directory, and which
 * share of it is the rank's.
 */
#pragma once

struct shard_served;
struct shard_view_dataset;

/*
 * Fill in everything of *served but path and base, for directory fd of a dataset whose listing, if
 * it has one, is open. If fd is a root at its beginning, a pass may begin (passes.h). 0, or a
 * negative errno, of which a message was printed.
 */
int shard_choose_all(struct shard_served *served, struct shard_view_dataset *d, int fd);

/* The same for another epoch, served->epoch. */
int shard_choose_epoch(struct shard_served *served);
