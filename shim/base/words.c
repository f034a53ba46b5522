/* SPDX-License-Identifier: MIT */
#include "base/words.h"

#include <stdio.h>
#include <string.h>

const char *const shard_words_views[] = {"auto", "off", "global", "shard", NULL};
const char *const shard_words_strategies[] = {"range", "stride", "hash", NULL};
const char *const shard_words_remainders[] = {"keep", "drop", "repeat", NULL};
const char *const shard_words_samples[] = {"file", "stem", "directory", NULL};
const char *const shard_words_addressings[] = {"auto", "path", "virtual", NULL};
const char *const shard_words_orders[] = {"path", "basename", "keep", "directory", "sample", NULL};
const char *const shard_words_levels[] = {"error", "warn", "info", "debug", NULL};

int shard_words_find(const char *const *words, const char *text) {
  for (int i = 0; words[i]; i++) {
    if (strcmp(words[i], text) == 0) {
      return i;
    }
  }
  return -1;
}

const char *shard_words_at(const char *const *words, unsigned i) {
  for (; *words && i > 0; i--) {
    words++;
  }
  return *words ? *words : "unknown";
}

static int lower(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; }

bool shard_words_equal_nocase(const char *a, const char *b) {
  while (*a && lower(*a) == lower(*b)) {
    a++;
    b++;
  }
  return !*a && !*b;
}

const char *shard_words_join(const char *const *words, char buf[SHARD_WORDS_ROOM]) {
  size_t used = 0;
  buf[0] = 0;
  for (size_t i = 0; words[i] && used < SHARD_WORDS_ROOM; i++) {
    const char *before = i == 0 ? "" : words[i + 1] ? ", " : " or ";
    int n = snprintf(buf + used, SHARD_WORDS_ROOM - used, "%s%s", before, words[i]);
    used += n < 0 ? SHARD_WORDS_ROOM : (size_t)n;
  }
  return buf;
}
