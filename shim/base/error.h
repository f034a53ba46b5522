/* SPDX-License-Identifier: MIT */
/* error.h - what an errno says. */
#ifndef SHARD_BASE_ERROR_H
#define SHARD_BASE_ERROR_H

#include <errno.h>
#include <stdbool.h>

/*
 * Whether an error says nothing of what was asked for: the process lacks descriptors or memory, and
 * the same call may work later. error: an errno, negative or not.
 */
static inline bool shard_error_is_shortage(int error) {
  error = error < 0 ? -error : error;
  return error == EMFILE || error == ENFILE || error == ENOMEM;
}

#endif
