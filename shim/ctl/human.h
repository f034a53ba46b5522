/* SPDX-License-Identifier: MIT */
/* human.h - numbers and lines for people. */
#pragma once

#include <stdint.h>

struct ctl_human {
  char text[32];
};
struct ctl_human ctl_human_bytes(double bytes);   /* returns "430 GB", "4.7 MB" */
struct ctl_human ctl_human_count(uint64_t count); /* returns "7,646,857" */

/* Print a line on stdout. Bytes that control a terminal, and backslashes, become \xHH. */
__attribute__((format(printf, 1, 2))) void ctl_human_line(const char *format, ...);
