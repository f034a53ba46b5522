/* SPDX-License-Identifier: MIT */
/* error.h - error lines for people, and which errors are worth another try. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Returns whether an error means that the process lacks descriptors or memory: the same call may
 * succeed later, and the error says nothing about its object.
 * error: an errno, negative or not.
 */
static inline bool shard_error_is_shortage(int error) {
  error = error < 0 ? -error : error;
  return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/* The beginning of shardctl's warnings. */
#define SHARD_ERROR_WARNING "shardctl: warning: "

/*
 * Prints text into buf[size], cut off if too long, so that it is one line and cannot control a
 * terminal: other bytes become \xNN (base/utf8.h), because a path or a variable may hold any byte.
 * Returns the length.
 */
size_t shard_error_escape(const char *text, char *buf, size_t size);

/* Prints a line into err[size], cut off if too long. Returns rc. */
__attribute__((format(printf, 4, 5))) int shard_error_set(char *err, size_t size, int rc,
                                                          const char *format, ...);
