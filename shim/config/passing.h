/* SPDX-License-Identifier: MIT */
/* passing.h - errors that say nothing of what was asked for. */
#ifndef SHARD_PASSING_H
#define SHARD_PASSING_H

#include <errno.h>
#include <stdbool.h>

/* Whether it may go another time, when descriptors or memory are free again. errno's sign or not.
 */
static inline bool shard_passing(int error) {
  error = error < 0 ? -error : error;
  return error == EMFILE || error == ENFILE || error == ENOMEM;
}

#endif
