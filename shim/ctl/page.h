/* SPDX-License-Identifier: MIT */
/* page.h - what a run did, as one page of HTML: page.html with the JSON of shardctl verify in it.
 */
#pragma once

struct json_object;

/* Write the page to `file`, which may replace a page but no other file, and end the object.
 * CTL_DONE, or CTL_FAILED after a message. */
int ctl_page_write(const char *file, struct json_object *facts);
