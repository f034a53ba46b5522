/* SPDX-License-Identifier: MIT */
/* An environment, its entries separated by NULs: the variables, the launcher, the job, the rank. */
#include "config/config.h"
#include "config/launcher.h"
#include "fuzz.h"
#include "libshard.h"
#include "listing/options.h"

#define ENTRIES 40

extern char **environ;

static void fuzz(const char *data, size_t size) {
  static char *entries[ENTRIES + 1];
  char **old = environ;
  const char *at = data, *end = data + size;
  size_t count = 0;
  while (at < end && count < ENTRIES) {
    entries[count++] = fuzz_text(&at, end, 0);
  }
  entries[count] = NULL;
  char *mine[ENTRIES + 1];
  memcpy(mine, entries, sizeof(mine));
  environ = mine;
  shard_config_init(mine);
  const struct shard_config *c = shard_config();
  RULE(memchr(c->error, 0, sizeof(c->error)));
  RULE(!c->directories || (c->dataset && c->dataset[0]));
  struct shard_world world;
  char err[600] = "";
  int rc = shard_world_get(&world, err, sizeof(err));
  RULE(memchr(err, 0, sizeof(err)) && (rc == 0 || err[0]));
  RULE(rc != 0 || (world.size > 0 && world.rank >= 0 && world.rank < world.size));
  struct shard_launcher *found = malloc(sizeof(*found));
  shard_launcher_find(found);
  RULE(memchr(found->note, 0, sizeof(found->note)) && found->count <= SHARD_LAUNCHER_ROWS);
  free(found);
  int64_t since;
  shard_launcher_spans_hosts(&since);
  environ = old;
  while (count > 0) {
    free(entries[--count]);
  }
}
