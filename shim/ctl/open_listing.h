/* SPDX-License-Identifier: MIT */
/* open_listing.h - opens the operand of a command as a listing. */
#pragma once

#include <stdint.h>

struct shard_listing;

/*
 * Opens a listing; or makes a listing of a directory or bucket, and opens the new listing. If ranks
 * share the listing (--size of 2 or more), sets of files without --sample are an error, and tables
 * are a warning, as under the shard view.
 * what: the path or URL. ctl_args has the rule of samples, and whether requests are signed.
 * out: gets the listing, which the caller closes. The file of a new listing is removed.
 * Returns an exit status, after a message if the status is not CTL_DONE.
 */
int ctl_open_listing(const char *what, struct shard_listing **out);

/*
 * Warns that directories of a dataset are tables, whose files are not in the listing. Prints
 * nothing for 0 tables.
 * what: the dataset's path or URL.
 * tables: number of tables.
 */
void ctl_warn_of_tables(const char *what, uint64_t tables);

/*
 * Opens a listing file, and checks the whole listing.
 * out: gets the listing, which the caller closes.
 * Errors: a negative errno of shard_listing_open() or shard_listing_verify().
 */
int ctl_open_verified(const char *file, struct shard_listing **out);
