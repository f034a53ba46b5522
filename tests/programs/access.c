/* SPDX-License-Identifier: MIT */
/*
 * access LISTING - prints "RANDOM CURSOR": nanoseconds for a name at a random position, the median
 * of many times a hundred; and for the next name of a cursor, over all or ten seconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "libshard.h"

#define TIMES 5000
#define EACH 100

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  static char name[SHARD_NAME_MAX];
  static struct shard_cursor cursor;
  static double took[TIMES];
  struct shard_listing *l;
  if (argc != 2 || shard_listing_open(argv[1], &l) != 0 || shard_listing_count(l) == 0) {
    fprintf(stderr, "usage: access LISTING\n");
    return 2;
  }
  uint64_t count = shard_listing_count(l), seed = 88172645463325252ULL;
  /* The first round fills the page tables. */
  for (int k = -TIMES; k < TIMES; k++) {
    double begin = now();
    for (int i = 0; i < EACH; i++) {
      seed ^= seed << 13;
      seed ^= seed >> 7;
      seed ^= seed << 17;
      if (shard_listing_name(l, seed % count, name, sizeof(name)) <= 0) {
        return 1;
      }
    }
    if (k >= 0) {
      took[k] = (now() - begin) / EACH;
    }
  }
  qsort(took, TIMES, sizeof(*took), ascending);
  const char *next;
  uint64_t read = 0;
  double begin = now();
  if (shard_listing_seek(&cursor, l, 0) != 0) {
    return 1;
  }
  while (shard_listing_next(&cursor, &next) > 0) {
    if (++read % (1u << 22) == 0 && now() - begin > 1e10) {
      break;
    }
  }
  printf("%.2f %.4f\n", took[TIMES / 2], (now() - begin) / (double)read);
  shard_listing_close(l);
  return cursor.error != 0;
}
