/* SPDX-License-Identifier: MIT */
/*
 * A manifest, plain or packed. A listing made of a plain one in the order of its lines has these
 * names, and no others. And a list of dwalk's light form.
 */
#include "fuzz.h"
#include "libshard.h"
#include "listing/codec.h"
#include "source/text.h"

/* The listing has the lines of the text. */
static void check(const char *listing, const char *data, size_t size) {
  struct shard_listing *l = NULL;
  RULE(shard_listing_open(listing, &l) == 0);
  const char *at = data, *end = data + size;
  uint64_t i = 0;
  char name[5000];
  while (at < end) {
    char *line = fuzz_text(&at, end, '\n');
    ssize_t length = shard_listing_name(l, i++, name, sizeof(name));
    RULE(length == (ssize_t)strlen(line) && strcmp(name, line) == 0);
    free(line);
  }
  RULE(shard_listing_count(l) == i);
  shard_listing_close(l);
}

/* The first byte tells the order; whether the names lie in a directory; and what the file is
 * called. */
static void fuzz(const char *data, size_t size) {
  if (size == 0) {
    return;
  }
  static const char *const orders[] = {"keep", "path", "basename", "path"}; /* the last: dwalk's */
  static const char *const names[] = {"m.txt", "m.txt.gz", "m.txt.zst", "m.txt"};
  const char *name = names[data[0] >> 2 & 3];
  bool keep = (data[0] & 3) == 0;
  char listing[128], path[256], err[1000] = "";
  snprintf(listing, sizeof(listing), "%s/m.listing", fuzz_folder());
  snprintf(path, sizeof(path), "%s", fuzz_file(name, data + 1, size - 1));
  struct shard_options options;
  RULE(shard_options_parse(&options, "", err, sizeof(err)) == 0);
  if (keep) {
    options.order = SHARD_ORDER_KEEP;
  } else {
    RULE(shard_options_parse_order(&options, orders[data[0] & 3], strlen(orders[data[0] & 3])));
  }
  const struct shard_text_options how = {.separator = '\n',
                                         .root = data[0] & 16 ? fuzz_folder() : NULL,
                                         .unpacked_max = 1 << 20,
                                         .unique = (data[0] & 32) != 0,
                                         .form = (data[0] & 3) == 3 ? SHARD_TEXT_DWALK
                                                                    : SHARD_TEXT_NAMES,
                                         .said = (data[0] & 64) != 0,
                                         .unchecked = (data[0] & 128) != 0};
  struct shard_build_result result;
  struct shard_text_told told;
  const char *texts[] = {path};
  int rc = shard_text_build(texts, 1, &how, &options, listing, &result, &told, err, sizeof(err));
  RULE(rc == 0 ? access(listing, R_OK) == 0 : rc < 0 && err[0] && access(listing, F_OK) != 0);
  if (rc == 0 && keep && !how.root && name == names[0]) {
    check(listing, data + 1, size - 1);
  }
  fuzz_remove("m.listing");
  fuzz_remove(name);
}
