/* SPDX-License-Identifier: MIT */
/* human.h - numbers and lines written for people. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ctl_human {
  char text[32];
};
struct ctl_human ctl_human_bytes(double bytes);   /* "430 GB", "4.7 MB" */
struct ctl_human ctl_human_age(double seconds);   /* "3 h" */
struct ctl_human ctl_human_count(uint64_t count); /* "7,646,857" */

/*
 * Print a line to stdout. What controls a terminal, and backslashes, become \xHH, so that it stays
 * one line.
 */
__attribute__((format(printf, 1, 2))) void ctl_human_line(const char *format, ...);
