/* SPDX-License-Identifier: MIT */
/* A listing file whose checksums all fit: whoever makes one can compute them. */
#define SHARD_CHECKSUMS_IGNORED
#include "listing/names.c"
#include "listing/reader.c"

#include "fuzz.h"

#define SOME 300 /* names of a listing that are looked at */

static void ask_table(const struct shard_table *t) {
  struct shard_position p = {.name = malloc(shard_listing_room(t))};
  RULE(p.name);
  uint64_t step = t->count / SOME + 1;
  for (uint64_t i = 0; i < t->count; i += step) {
    int rc = shard_names_seek(&p, t, i);
    if (rc == 0 && (rc = shard_names_next(&p)) > 0) {
      RULE(p.length > 0 && p.length <= t->longest && p.name[p.length] == 0);
      int64_t at = shard_names_lower_bound(t, p.name, p.length);
      RULE(at == -EBADMSG || (at >= 0 && (uint64_t)at <= t->count));
      rc = 0;
    }
    RULE(rc == 0 || rc == -EBADMSG);
  }
  struct shard_attributes *a = malloc(sizeof(*a));
  RULE(a);
  for (uint64_t block = 0; block < shard_listing_attribute_blocks(t->count) && block < 3; block++) {
    int rc = shard_names_attributes(t, block, a);
    RULE(rc == 0 || rc == -EBADMSG);
  }
  free(a);
  free(p.name);
}

/* As the public header says. */
static void ask(struct shard_listing *l) {
  struct shard_listing_info info;
  shard_listing_info(l, &info);
  RULE(memchr(info.suffix, 0, sizeof(info.suffix)) && memchr(info.digest, 0, sizeof(info.digest)));
  RULE(strlen(info.source) + strlen(info.options) < l->map_size);
  char name[300], again[300];
  uint64_t step = info.entries / SOME + 1;
  for (uint64_t i = 0; i < info.entries; i += step) {
    ssize_t length = shard_listing_name(l, i, name, sizeof(name));
    RULE(length < (ssize_t)sizeof(name) &&
         (length < 0 || strnlen(name, sizeof(name)) <= (size_t)length));
    int64_t at = length > 0 ? shard_listing_find(l, name) : -ENOENT;
    RULE(at < 0 || (shard_listing_name(l, (uint64_t)at, again, sizeof(again)) > 0 &&
                    strcmp(name, again) == 0));
  }
  RULE(shard_listing_name(l, info.entries, name, sizeof(name)) < 0);
  struct shard_cursor *cursor = malloc(sizeof(*cursor));
  RULE(cursor);
  const char *next;
  ssize_t length = shard_listing_seek(cursor, l, info.entries / 2) == 0 ? 1 : 0;
  for (int i = 0; i < SOME && length > 0; i++) {
    length = shard_listing_next(cursor, &next);
    RULE(length <= 0 || next[length] == 0);
  }
  free(cursor);
  ask_table(&l->names);
  ask_table(&l->others);
}

static void fuzz(const char *data, size_t size) {
  struct shard_listing *l = NULL;
  const char *file = fuzz_file("listing", data, size);
  if (shard_listing_open(file, &l) == 0) {
    ask(l);
    shard_listing_close(l);
  }
  fuzz_remove("listing");
}
