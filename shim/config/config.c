/* SPDX-License-Identifier: MIT */
#include "config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "build/build.h"
#include "config/pattern.h"

#define SNAPSHOT_SIZE 32768
#define PATH_ROOM ((size_t)8192)

static struct shard_config config = {
    .log = SHARD_LOG_WARN,
    .adapter = true,
    .timeout = 3600,
    .window = SHARD_WINDOW_DEFAULT,
    .s3_connections = SHARD_S3_CONNECTIONS_DEFAULT,
};
static char snapshot[SNAPSHOT_SIZE];

enum variable {
#define X(name, text) VAR_##name,
  SHARD_VARIABLES(X)
#undef X
      VAR_COUNT
};

static const char *const names[VAR_COUNT] = {
#define X(name, text) "SHARD_" #name,
    SHARD_VARIABLES(X)
#undef X
};

static const char *const help[VAR_COUNT] = {
#define X(name, text) text,
    SHARD_VARIABLES(X)
#undef X
};

const struct shard_config *shard_config(void) { return &config; }

/* Levenshtein distance, for the hint; both short. */
static unsigned distance(const char *a, size_t na, const char *b, size_t nb) {
  unsigned row[64];
  if (na > 60 || nb > 60) {
    return 99;
  }
  for (size_t j = 0; j <= nb; j++) {
    row[j] = (unsigned)j;
  }
  for (size_t i = 1; i <= na; i++) {
    unsigned diagonal = row[0];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= nb; j++) {
      unsigned best = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      if (row[j] + 1 < best) {
        best = row[j] + 1;
      }
      if (row[j - 1] + 1 < best) {
        best = row[j - 1] + 1;
      }
      row[j] = best;
    }
  }
  return row[nb];
}

/* The first error is the one that is shown. */
#define COMPLAIN(...)                                                                              \
  do {                                                                                             \
    if (!config.error[0]) {                                                                        \
      snprintf(config.error, sizeof(config.error), __VA_ARGS__);                                   \
    }                                                                                              \
  } while (0)

static void unknown(const char *name, size_t n) {
  size_t best = 0;
  unsigned least = 99;
  for (size_t i = 0; i < VAR_COUNT; i++) {
    unsigned d = distance(name, n, names[i], strlen(names[i]));
    if (d < least) {
      least = d;
      best = i;
    }
  }
  if (least <= 4) {
    COMPLAIN("%.*s is not a variable of libshard; did you mean %s?", (int)(n < 64 ? n : 64), name,
             names[best]);
  } else {
    COMPLAIN("%.*s is not a variable of libshard; unset it", (int)(n < 64 ? n : 64), name);
  }
}

static int choose(enum variable v, const char *value, const char *const *words) {
  for (int i = 0; words[i]; i++) {
    if (strcmp(value, words[i]) == 0) {
      return i;
    }
  }
  COMPLAIN("%s='%.64s' is not valid; it takes %s", names[v], value, help[v]);
  return -1;
}

/* A decimal number from least to most into *out. */
static bool number(enum variable v, const char *value, uint64_t least, uint64_t most,
                   uint64_t *out) {
  char *end;
  errno = 0;
  unsigned long long n = strtoull(value, &end, 10);
  if (value[0] < '0' || value[0] > '9' || *end || errno || n < least || n > most) {
    COMPLAIN("%s='%.64s' is not valid; it takes %s, %llu to %llu", names[v], value, help[v],
             (unsigned long long)least, (unsigned long long)most);
    return false;
  }
  *out = n;
  return true;
}

/* A dataset that follows a bucket's, and may be the rest of its prefix. */
static bool has_relative_after_url(const char *list) {
  size_t n, path;
  bool url = false;
  for (const char *p = list; (n = shard_dataset_item(&p, &path)) > 0; p += n) {
    if (url && *p != '/') {
      return true;
    }
    url = path < n;
  }
  return false;
}

static void set(enum variable v, const char *value) {
  static const char *const views[] = {"auto", "off", "global", "shard", NULL};
  static const char *const strategies[] = {"range", "stride", "hash", NULL};
  static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
  static const char *const builds[] = {"first", NULL};
  char expanded[4096];
  static const char *const switches[] = {"off", "on", NULL};
  static const char *const addressings[] = {"auto", "path", "virtual", NULL};
  int word;
  uint64_t n;
  if (!*value) {
    COMPLAIN("%s is empty; it takes %s", names[v], help[v]);
    return;
  }
  switch (v) {
  case VAR_VIEW:
    word = choose(v, value, views);
    if (word >= 0) {
      config.view = (enum shard_view)word;
    }
    break;
  case VAR_STRATEGY:
    word = choose(v, value, strategies);
    if (word >= 0) {
      config.strategy = (enum shard_strategy)word;
    }
    break;
  case VAR_LOG:
    word = choose(v, value, levels);
    if (word >= 0) {
      config.log = (enum shard_log_level)word;
    }
    break;
  case VAR_ADAPTER:
    word = choose(v, value, switches);
    if (word >= 0) {
      config.adapter = word;
    }
    break;
  case VAR_TIMEOUT:
    if (number(v, value, 1, 1000000, &n)) {
      config.timeout = (unsigned)n;
    }
    break;
  case VAR_S3_CONNECTIONS: /* both used by shardctl */
    if (number(v, value, 1, SHARD_S3_CONNECTIONS_MOST, &n)) {
      config.s3_connections = (unsigned)n;
    }
    break;
  case VAR_S3_ADDRESSING:
    word = choose(v, value, addressings);
    if (word >= 0) {
      config.s3_addressing = (enum shard_s3_addressing)word;
    }
    break;
  case VAR_SEED:
    config.seeded = number(v, value, 0, UINT64_MAX, &config.seed);
    config.shuffle |= config.seeded;
    break;
  case VAR_EPOCH:
    config.epoch_auto = strcmp(value, "auto") == 0;
    config.shuffle =
        config.epoch_auto || number(v, value, 0, 1ULL << 62, &config.epoch) || config.shuffle;
    break;
  case VAR_WINDOW:
    if (number(v, value, 1, SHARD_WINDOW_MOST, &n)) {
      config.window = (unsigned)n;
    }
    break;
  case VAR_JOB:
    config.job = value;
    break;
  case VAR_DATASET:
    config.dataset = value;
    if (!value[strspn(value, ":")]) {
      COMPLAIN("%s='%.64s' names no directory; it takes %s", names[v], value, help[v]);
    }
    if (strncmp(value, "s3://", 5) == 0 || strstr(value, ":s3://")) {
      COMPLAIN("%s='%.64s' needs the directory that stands for the bucket, as in "
               "/mnt/train=s3://bucket/train",
               names[v], value);
    }
    if (has_relative_after_url(value)) {
      COMPLAIN("%s='%.200s': a prefix cannot have a ':' in it, and a dataset that follows one "
               "begins with '/'",
               names[v], value);
    }
    break;
  case VAR_INCLUDE:
    config.include = value;
    break;
  case VAR_LISTING_BUILD:
    config.listing_first = choose(v, value, builds) == 0;
    break;
  case VAR_LISTING:
    config.listing = value;
    if (shard_pattern_expand(value, 0, 0, expanded, sizeof(expanded)) < 0) {
      COMPLAIN("%s='%.64s' is not valid: %%r stands for the rank, %%e for the epoch, %%%% for a "
               "percent sign",
               names[v], value);
    }
    break;
  case VAR_CACHE_DIR:
    config.cache_dir = value;
    if (value[0] != '/') {
      COMPLAIN("%s='%.64s' is not an absolute path; ranks may differ in their working directory",
               names[v], value);
    }
    break;
  case VAR_BUILD_MEMORY: /* both used by shardctl, which inherits them */
    if (!shard_size_parse(value, &n) || n < SHARD_BUILD_MEMORY_LEAST) {
      COMPLAIN("%s='%.64s' is not valid; it takes %s", names[v], value, help[v]);
    }
    break;
  case VAR_TMPDIR:
    break;
  case VAR_STATS:
    config.stats = value;
    if (shard_pattern_expand(value, 0, 0, expanded, sizeof(expanded)) < 0 ||
        shard_pattern_has(value, 'e')) {
      COMPLAIN("%s='%.64s' is not valid; it takes %s", names[v], value, help[v]);
      config.stats = NULL;
    }
    break;
  case VAR_RANK: /* used by world.c, with the launcher's variables */
  case VAR_SIZE:
    if (value[strspn(value, "0123456789")]) {
      COMPLAIN("%s='%.64s' is not valid; it takes a number: %s", names[v], value, help[v]);
    }
    break;
  case VAR_COUNT:
    break;
  }
}

/*
 * Relative datasets begin at the working directory of now. The environment is told too: a child may
 * be started in another directory, and must mean the same.
 */
static void make_absolute(char *const *environment) {
  static char absolute[SNAPSHOT_SIZE];
  char directory[4096];
  size_t used = (size_t)snprintf(absolute, sizeof(absolute), "SHARD_DATASET="), prefix = used;
  bool relative = false;
  size_t n, path;
  for (const char *p = config.dataset; p && (n = shard_dataset_item(&p, &path)) > 0; p += n) {
    bool here = *p != '/';
    if (here && !relative && !getcwd(directory, sizeof(directory))) {
      return;
    }
    relative |= here;
    int more = snprintf(absolute + used, sizeof(absolute) - used,
                        "%s%s%.*s:", here ? directory : "", here ? "/" : "", (int)n, p);
    used += more < 0 ? sizeof(absolute) : (size_t)more;
    if (used >= sizeof(absolute)) {
      COMPLAIN("SHARD_DATASET is too long");
      return;
    }
  }
  if (!relative) {
    return;
  }
  absolute[used - 1] = 0; /* the last ':' */
  config.dataset = absolute + prefix;
  for (char **e = (char **)environment; e && *e; e++) {
    if (strncmp(*e, absolute, prefix) == 0) {
      *e = absolute;
    }
  }
}

/* The same for a variable with one path, in which a percent sign is doubled. */
static void make_path_absolute(enum variable v, const char **value, char *absolute,
                               char *const *environment) {
  char directory[4096];
  if (!*value || **value == '/' || strncmp(*value, "s3://", 5) == 0 ||
      !getcwd(directory, sizeof(directory))) {
    return;
  }
  size_t used = (size_t)snprintf(absolute, PATH_ROOM, "%s=", names[v]), prefix = used;
  for (const char *p = directory; *p && used + 4 < PATH_ROOM; p++) {
    used += (size_t)snprintf(absolute + used, 3, *p == '%' ? "%%%%" : "%c", *p);
  }
  int more = snprintf(absolute + used, PATH_ROOM - used, "/%s", *value);
  if (more < 0 || (size_t)more >= PATH_ROOM - used) {
    COMPLAIN("%s is too long", names[v]);
    return;
  }
  *value = absolute + prefix;
  for (char **e = (char **)environment; e && *e; e++) {
    if (strncmp(*e, absolute, prefix) == 0) {
      *e = absolute;
    }
  }
}

void shard_config_init(char *const *environment) {
  int saved = errno;
  size_t used = 0;
  for (char *const *e = environment; e && *e; e++) {
    if (strncmp(*e, "SHARD_", 6) != 0) {
      continue;
    }
    const char *eq = strchr(*e, '=');
    if (!eq) {
      continue;
    }
    size_t n = (size_t)(eq - *e), v = 0;
    while (v < VAR_COUNT && (strlen(names[v]) != n || memcmp(names[v], *e, n) != 0)) {
      v++;
    }
    if (v == VAR_COUNT) {
      unknown(*e, n);
      continue;
    }
    size_t size = strlen(eq + 1) + 1;
    if (size > sizeof(snapshot) - used) {
      COMPLAIN("%s is too long", names[v]);
      continue;
    }
    memcpy(snapshot + used, eq + 1, size);
    set((enum variable)v, snapshot + used);
    used += size;
  }
  if (config.listing_first && !config.listing) {
    COMPLAIN("SHARD_LISTING_BUILD=first needs SHARD_LISTING, the file or object to make");
  }
  make_absolute(environment);
  static char stats[PATH_ROOM], listing[PATH_ROOM];
  make_path_absolute(VAR_STATS, &config.stats, stats, environment);
  make_path_absolute(VAR_LISTING, &config.listing, listing, environment);
  errno = saved;
}

enum shard_view shard_view_asked(void) { return config.view; }

int shard_config_check(char *err, size_t size) {
  if (!config.error[0]) {
    return 0;
  }
  snprintf(err, size, "%s", config.error);
  return -EINVAL;
}
