/* SPDX-License-Identifier: MIT */
/* error.h - errors: what an errno says, and the line for people that goes with it. */
#ifndef SHARD_BASE_ERROR_H
#define SHARD_BASE_ERROR_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Whether an error says nothing of what was asked for: the process lacks descriptors or memory, and
 * the same call may work later. error: an errno, negative or not.
 */
static inline bool shard_error_is_shortage(int error) {
  error = error < 0 ? -error : error;
  return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/* How a warning of shardctl's begins: libshard.so passes such lines on (host/builder.h). */
#define SHARD_ERROR_WARNING "shardctl: warning: "

/* Put a line into err[size], cut off there, and return rc. */
__attribute__((format(printf, 4, 5))) int shard_error_set(char *err, size_t size, int rc,
                                                          const char *format, ...);

#endif
