/* SPDX-License-Identifier: MIT */
/* array.h - growing arrays. */
#pragma once

#include <stdlib.h>

/*
 * Grows an array so that it has room for `more` elements behind its first `count`.
 * array: from malloc(3), or NULL.
 * *room: elements that it has room for; updated.
 * size: bytes of an element.
 * Returns the array, which may have moved.
 * Errors: NULL, out of memory; the array is unchanged.
 */
static inline void *shard_array_grow(void *array, size_t count, size_t more, size_t *room,
                                     size_t size) {
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
