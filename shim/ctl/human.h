/* SPDX-License-Identifier: MIT */
/* human.h - numbers and names written for people. */
#ifndef SHARD_CTL_HUMAN_H
#define SHARD_CTL_HUMAN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CTL_HUMAN 32 /* room for any of these */

/* In buf, which is returned. */
const char *ctl_human_bytes(double bytes, char buf[CTL_HUMAN]);   /* "430 GB", "4.7 MB" */
const char *ctl_human_age(double seconds, char buf[CTL_HUMAN]);   /* "3 h" */
const char *ctl_human_count(uint64_t count, char buf[CTL_HUMAN]); /* "7,646,857" */

/* What controls a terminal, and backslashes, become \xHH, so one line stays one line. */
void ctl_human_text(FILE *out, const char *text);

#endif
