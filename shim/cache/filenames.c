/* SPDX-License-Identifier: MIT */
#include "cache/filenames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_DIGITS ((size_t)SHARD_CACHE_KEY - 1)

void shard_cache_name_print(enum shard_cache_kind kind, const char *key, const char *owner,
                            uint64_t pid, char name[SHARD_CACHE_NAME]) {
  const char *form = kind == SHARD_CACHE_LISTING       ? "%.32s.%s.listing"
                     : kind == SHARD_CACHE_LOCK        ? "%.32s.lock"
                     : kind == SHARD_CACHE_PERMUTATION ? "%.32s.perm"
                                                       : "%.32s.new.";
  int n = snprintf(name, SHARD_CACHE_NAME, form, key, owner);
  if (kind == SHARD_CACHE_NEW) {
    snprintf(name + n, SHARD_CACHE_NAME - (size_t)n, "%llu", (unsigned long long)pid);
  }
}

/* The owner of a listing, "OWNER.listing". Whether it is one, just as it is printed. */
static bool parse_owner(const char *text, struct shard_cache_owner *owner) {
  char again[SHARD_CACHE_NAME], *end;
  *owner = (struct shard_cache_owner){.held = strcmp(text, "held.listing") == 0};
  if (owner->held || strcmp(text, "named.listing") == 0) {
    return true;
  }
  owner->pid = strtol(text, &end, 10);
  owner->start = *end == '-' ? strtoull(end + 1, &end, 10) : 0;
  owner->space = *end == '-' ? strtoull(end + 1, &end, 10) : 0;
  snprintf(again, sizeof(again), "%ld-%llu-%llu.listing", owner->pid, owner->start, owner->space);
  return owner->pid > 0 && strcmp(text, again) == 0;
}

enum shard_cache_kind shard_cache_name_parse(const char *name, struct shard_cache_owner *owner) {
  struct shard_cache_owner ignored;
  if (strspn(name, "0123456789abcdef") != KEY_DIGITS || name[KEY_DIGITS] != '.') {
    return SHARD_CACHE_FOREIGN;
  }
  const char *rest = name + KEY_DIGITS + 1;
  size_t digits = strncmp(rest, "new.", 4) == 0 ? strspn(rest + 4, "0123456789") : 0;
  return strcmp(rest, "lock") == 0   ? SHARD_CACHE_LOCK
         : strcmp(rest, "perm") == 0 ? SHARD_CACHE_PERMUTATION
         : digits > 0 && (rest[4 + digits] == 0 || rest[4 + digits] == '.') ? SHARD_CACHE_NEW
         : parse_owner(rest, owner ? owner : &ignored)                      ? SHARD_CACHE_LISTING
                                                                            : SHARD_CACHE_FOREIGN;
}
