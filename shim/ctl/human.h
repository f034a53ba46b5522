/* SPDX-License-Identifier: MIT */
/* human.h - prints numbers and lines for people. */
#pragma once

#include <stdint.h>

/* A number as a text. */
struct ctl_human {
  char text[32];
};
/* Returns a number of bytes as a text, such as "430 GB" or "4.7 MB". */
struct ctl_human ctl_human_bytes(double bytes);

/* Returns a number with commas, such as "7,646,857". */
struct ctl_human ctl_human_count(uint64_t count);

/* Prints a line on stdout. Bytes that control a terminal, and backslashes, become \xHH. */
__attribute__((format(printf, 1, 2))) void ctl_human_line(const char *format, ...);
