/* SPDX-License-Identifier: MIT */
/* page.h - what a run did and what is proven of it, as a page of HTML (shardctl verify --html). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct json_object;

/* Whether there is nothing of this name, or an older page; and no rank's statistics, say. */
bool ctl_page_may_replace(const char *file);

/*
 * Write the page of the ranks that ctl_proof_make() has read, and of what it has found. It appears
 * whole or not at all. CTL_DONE, or CTL_FAILED after a message.
 */
int ctl_page_write(const char *file, size_t ranks, struct json_object *faults,
                   struct json_object *facts, size_t unproven);
