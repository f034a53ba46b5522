/* SPDX-License-Identifier: MIT */
/* grow.h - arrays that grow. */
#pragma once

#include <stdlib.h>

/*
 * Make room for `more` elements of this size behind the first `count` of *room. The array, which
 * may have moved; NULL: there is no memory, and it stays as it was.
 */
static inline void *shard_grow(void *array, size_t count, size_t more, size_t *room, size_t size) {
  size_t wanted = *room ? *room : 16;
  if (count + more <= *room) {
    return array;
  }
  while (wanted < count + more) {
    wanted *= 2;
  }
  void *grown = reallocarray(array, wanted, size);
  *room = grown ? wanted : *room;
  return grown;
}
