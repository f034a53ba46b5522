/* SPDX-License-Identifier: MIT */
/* error.h - an error: its errno, and a line for people. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Whether the process lacks descriptors or memory: the same call may work later, and the error says
 * nothing of its object. error: an errno, negative or not.
 */
static inline bool shard_error_is_shortage(int error) {
  error = error < 0 ? -error : error;
  return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/* How a warning of shardctl's begins. */
#define SHARD_ERROR_WARNING "shardctl: warning: "

/*
 * Print text into buf[size] so that it is one line and does not control a terminal: other bytes
 * become \xNN (base/plain.h), for a path or a variable may hold anything. Cut off if it is too
 * long. Returns its length.
 */
size_t shard_error_escape(const char *text, char *buf, size_t size);

/* Print a line into err[size], cut off if it is too long. Returns rc. */
__attribute__((format(printf, 4, 5))) int shard_error_set(char *err, size_t size, int rc,
                                                          const char *format, ...);
