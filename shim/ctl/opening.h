/* SPDX-License-Identifier: MIT */
/* opening.h - what a command's operand names, opened: a listing, or what one can be made of. */
#pragma once

#include <stdbool.h>

struct shard_listing;

/*
 * Open the listing `what`; or make one of the directory, the bucket (--start-after, --end-before
 * and --no-sign-request say which keys, and how) or the manifest `what`, in a temporary folder, and
 * open it: its file is gone afterwards. manifest: it is one, whatever its name. CTL_DONE and *out,
 * to be closed; or another status after a message.
 */
int ctl_opening(const char *what, bool manifest, struct shard_listing **out);

/*
 * Open a listing and check every block of it. 0 and *out, to be closed; or a negative errno as of
 * shard_listing_open() and shard_listing_verify().
 */
int ctl_opening_checked(const char *file, struct shard_listing **out);
