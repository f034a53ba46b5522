/* SPDX-License-Identifier: MIT */
/*
 * config.c - reads the variables of variables.def, reports bad values, and describes the variables.
 * For each kind of variable, take_KIND() stores the value or reports what is wrong with the value.
 */
#include "config/config.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "config/dataset_list.h"
#include "config/launcher.h"
#include "config/listing_list.h"
#include "config/path_template.h"

#define SNAPSHOT_SIZE 32768
#define ANY SIZE_MAX

static const char *const adapters[] = {"off", "on", "compress", NULL}; /* enum shard_adapter */
static const char *const workers[] = {"keep", "respawn", NULL};
static const char *const shuffles[] = {"off", "epoch", NULL};

/* ---- a variable --------------------------------------------------------- */

struct variable {
  const char *name, *help;
  /* Stores the value. Returns false if the value is not valid and no error was reported. */
  bool (*take)(const struct variable *v, const char *value);
  const char *const *words;
  const char *letters;
  /* Prints a list of paths, resolved against `directory`; NULL: the value has no paths. */
  size_t (*make_absolute)(const char *value, const char *directory, char *buf, size_t size);
  uint64_t least, most;
  size_t offset, size; /* of the field; size 0: no field */
};

static const struct shard_config defaults = {
#define X(name, type, field, initial, kind, help) .field = (initial),
#define Y(name, kind, help)
#include "config/variables.def"
};
static struct shard_config config = {
#include "config/variables.def"
#undef X
#undef Y
};
static char snapshot[SNAPSHOT_SIZE];

const struct shard_config *shard_config(void) { return &config; }

/* Keeps the first error. */
#define REPORT(...)                                                                                \
  do {                                                                                             \
    if (!config.error[0]) {                                                                        \
      snprintf(config.error, sizeof(config.error), __VA_ARGS__);                                   \
    }                                                                                              \
  } while (0)

/* ---- the kinds ---------------------------------------------------------- */

/* Stores a number into a field of any width. */
static bool store_number(const struct variable *v, uint64_t n) {
  unsigned char *at = (unsigned char *)&config + v->offset;
  if (v->size == sizeof(uint64_t)) {
    memcpy(at, &n, sizeof(n));
  } else if (v->size == sizeof(unsigned)) {
    memcpy(at, &(unsigned){(unsigned)n}, sizeof(unsigned));
  } else if (v->size == sizeof(bool)) {
    memcpy(at, &(bool){n != 0}, sizeof(bool));
  }
  return true;
}

static bool store_text(const struct variable *v, const char *value) {
  memcpy((unsigned char *)&config + v->offset, &value, sizeof(value));
  return true;
}

static const char *stored_text(const struct variable *v) {
  const char *value;
  memcpy(&value, (const unsigned char *)&config + v->offset, sizeof(value));
  return value;
}

static bool take_word(const struct variable *v, const char *value) {
  int place = shard_words_find(v->words, value);
  return place >= 0 && store_number(v, (unsigned)place);
}

static bool take_number(const struct variable *v, const char *value) {
  uint64_t n;
  return shard_number_parse(value, v->least, v->most, &n) && store_number(v, n);
}

static bool take_size(const struct variable *v, const char *value) {
  uint64_t n;
  return shard_size_parse(value, &n) && n >= v->least && store_number(v, n);
}

static bool take_text(const struct variable *v, const char *value) {
  if (strlen(value) > v->most) {
    REPORT("%s is too long: %zu bytes, at most %zu", v->name, strlen(value), (size_t)v->most);
    return true;
  }
  return store_text(v, value);
}

static bool take_absolute(const struct variable *v, const char *value) {
  if (*value != '/') {
    REPORT("%s='%.64s' must be an absolute path: ranks may start in different directories", v->name,
           value);
    return true;
  }
  return store_text(v, value);
}

static bool take_folder(const struct variable *v, const char *value) {
  if (strstr(value, "%r")) { /* an older syntax */
    REPORT("%s='%.128s' must be a directory, in which each process creates a log: leave out the "
           "name with %%r",
           v->name, value);
    return true;
  }
  /* s3://bucket would become a directory "s3:". */
  return *value && !shard_listing_list_is_object(value) && store_text(v, value);
}

/* Stores the value, and reports its fault. fault: NULL, none; "": report it as any invalid value.
 */
static bool store_list(const struct variable *v, const char *value, const char *fault) {
  store_text(v, value);
  if (fault && *fault) {
    REPORT("%s='%.128s' %s", v->name, value, fault);
  }
  return !fault || *fault;
}

static bool take_listings(const struct variable *v, const char *value) {
  return store_list(v, value, shard_listing_list_fault(value));
}

static bool take_datasets(const struct variable *v, const char *value) {
  return store_list(v, value, shard_dataset_list_fault(value));
}

static size_t make_folder_absolute(const char *value, const char *directory, char *buf,
                                   size_t size) {
  bool relative = *value != '/';
  return (size_t)snprintf(buf, size, "%s%s%s", relative ? directory : "", relative ? "/" : "",
                          value);
}

/* ---- the table ---------------------------------------------------------- */

#define WORD(list) .take = take_word, .words = (list)
#define NUMBER(from, to) .take = take_number, .least = (from), .most = (to)
#define SIZE(from) .take = take_size, .least = (from)
#define TEXT(bytes) .take = take_text, .most = (bytes)
#define ABSOLUTE .take = take_absolute
#define FOLDER .take = take_folder, .make_absolute = make_folder_absolute
#define LISTINGS(with)                                                                             \
  .take = take_listings, .letters = (with), .make_absolute = shard_listing_list_make_absolute
#define DATASETS .take = take_datasets, .make_absolute = shard_dataset_list_make_absolute
#define PATHS 3 /* variables of these three kinds */

static const struct variable variables[] = {
#define X(NAME, type, field, initial, kind, text)                                                  \
  {.name = "SHARD_" #NAME,                                                                         \
   .help = (text),                                                                                 \
   kind,                                                                                           \
   .offset = offsetof(struct shard_config, field),                                                 \
   .size = sizeof(((struct shard_config *)NULL)->field)},
#define Y(NAME, kind, text) {.name = "SHARD_" #NAME, .help = (text), kind},
#include "config/variables.def"
#undef X
#undef Y
};

static const struct withdrawn {
  const char *name, *remedy;
} withdrawn[] = {
#define X(NAME, type, field, initial, kind, text)
#define Y(NAME, kind, text)
#define GONE(NAME, text) {"SHARD_" #NAME, text},
#include "config/variables.def"
#undef X
#undef Y
};

/* The index of each variable in the table. */
enum {
#define X(NAME, type, field, initial, kind, text) AT_##NAME,
#define Y(NAME, kind, text) AT_##NAME,
#include "config/variables.def"
#undef X
#undef Y
  VARIABLES
};

static bool is_set[VARIABLES];

/* ---- errors ------------------------------------------------------------- */

/* Prints which values of a variable are valid. */
static const char *describe_variable(const struct variable *v, char buf[SHARD_CONFIG_TEXT]) {
  char words[SHARD_WORDS_ROOM];
  if (v->words) {
    snprintf(buf, SHARD_CONFIG_TEXT, "%s (%s)", shard_words_join(v->words, words), v->help);
  } else if (v->take == take_number) {
    snprintf(buf, SHARD_CONFIG_TEXT, "%s, %llu to %llu", v->help, (unsigned long long)v->least,
             (unsigned long long)v->most);
  } else if (v->letters) {
    snprintf(buf, SHARD_CONFIG_TEXT, "%s; %%r stands for the rank, %s%s%%%% for a percent sign",
             v->help, strchr(v->letters, 'e') ? "%e for the epoch, " : "",
             strchr(v->letters, ':') ? "%: for a colon, " : "");
  } else {
    snprintf(buf, SHARD_CONFIG_TEXT, "%s", v->help);
  }
  return buf;
}

#define INVALID "%s='%.64s' is not valid; expected %s"

static void report_invalid(const struct variable *v, const char *value) {
  char text[SHARD_CONFIG_TEXT];
  REPORT(INVALID, v->name, value, describe_variable(v, text));
}

#define NAME_ROOM 32 /* bytes: more than the longest name of a variable */

/*
 * Returns how many letters must be inserted, deleted, replaced, or swapped with their neighbour to
 * turn one name into the other: the restricted distance of Damerau and Levenshtein.
 */
static size_t measure_distance(const char *a, size_t na, const char *b) {
  uint8_t rows[3][NAME_ROOM];
  size_t nb = strlen(b);
  for (size_t k = 0; k <= nb; k++) {
    rows[0][k] = (uint8_t)k;
  }
  for (size_t i = 1; i <= na; i++) {
    uint8_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
    row[0] = (uint8_t)i;
    for (size_t k = 1; k <= nb; k++) {
      int least = above[k - 1] + (a[i - 1] != b[k - 1]);
      least = above[k] + 1 < least ? above[k] + 1 : least;
      least = row[k - 1] + 1 < least ? row[k - 1] + 1 : least;
      bool swapped = i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1];
      row[k] = (uint8_t)(swapped && before[k - 2] + 1 < least ? before[k - 2] + 1 : least);
    }
  }
  return rows[na % 3][nb];
}

static char misspelt[350]; /* one line about all misspelt names */

/*
 * Reports a withdrawn name, and notes a name at most two letters from one of libshard's. Any other
 * name belongs to another program: Kubernetes sets SHARD_PORT and others for a service "shard".
 */
static void note_unknown_name(const char *name, size_t n) {
  size_t best = 0, least = SIZE_MAX, used = strlen(misspelt);
  for (size_t i = 0; i < sizeof(withdrawn) / sizeof(withdrawn[0]); i++) {
    if (strlen(withdrawn[i].name) == n && memcmp(withdrawn[i].name, name, n) == 0) {
      REPORT("%s is not a variable of libshard any more; %s", withdrawn[i].name,
             withdrawn[i].remedy);
      return;
    }
  }
  for (size_t i = 0; i < VARIABLES && n < NAME_ROOM; i++) {
    size_t d = measure_distance(name, n, variables[i].name);
    if (d < least) {
      least = d;
      best = i;
    }
  }
  if (least <= 2) {
    bool many = n == strlen("SHARD_RANKS") && memcmp(name, "SHARD_RANKS", n) == 0;
    snprintf(misspelt + used, sizeof(misspelt) - used,
             used ? " Nor is %.*s; did you mean %s%s?"
                  : "%.*s is not a variable of libshard; did you mean %s%s?",
             (int)n, name, many ? "SHARD_SIZE, the number of ranks, or " : "",
             variables[best].name);
    config.asked |= best == AT_DATASET;
  }
}

int shard_config_check(char *err, size_t size) {
  if (!config.error[0]) {
    return 0;
  }
  snprintf(err, size, "%s", config.error);
  return -EINVAL;
}

static _Atomic int64_t epoch_now; /* the last epoch that was read */

int shard_epoch_read(int64_t *epoch, char *err, size_t size) {
  const struct variable *v = &variables[AT_EPOCH];
  const char *value = getenv(v->name);
  char text[SHARD_CONFIG_TEXT];
  uint64_t n;
  if (value && !shard_number_parse(value, v->least, v->most, &n)) {
    snprintf(err, size, INVALID, v->name, value, describe_variable(v, text));
    return -EINVAL;
  }
  if (value) {
    atomic_store(&epoch_now, (int64_t)n);
  }
  *epoch = atomic_load(&epoch_now);
  return 0;
}

void shard_config_complain(void) {
  static atomic_bool complained;
  struct shard_world world;
  char ignored[1];
  if (!config.error[0] || atomic_exchange(&complained, true)) {
    return;
  }
  /* All ranks have the same variables, so one line for each node is enough. */
  if (shard_world_get(&world, ignored, sizeof(ignored)) != 0 || world.local_rank <= 0 ||
      config.dataset) {
    shard_say(SHARD_LOG_ERROR, "%s (%s)", config.error,
              config.dataset ? "listing calls on SHARD_DATASET fail, and DLIO runs unmodified"
                             : "programs run unmodified");
  }
}

/* ---- relative paths ----------------------------------------------------- */

/* Replaces a variable's entry in the environment by `line`, "NAME=value". */
static void replace_in_environment(char *const *environment, size_t name_length, char *line) {
  for (char **e = (char **)environment; e && *e; e++) {
    if (strncmp(*e, line, name_length + 1) == 0) {
      *e = line;
    }
  }
}

#define UNKNOWN "\1" /* in place of a working directory that has no path */

/* Resolves relative paths against the working directory. */
static void make_absolute(char *const *environment) {
  static char lines[PATHS][SNAPSHOT_SIZE];
  char directory[4096];
  int fault = getcwd(directory, sizeof(directory)) ? 0 : errno;
  if (fault) {
    strcpy(directory, UNKNOWN);
  }
  size_t k = 0;
  for (const struct variable *v = variables; v < variables + VARIABLES; v++) {
    const char *value = v->make_absolute ? stored_text(v) : NULL;
    if (!value || k == PATHS) {
      continue;
    }
    char *line = lines[k++];
    size_t before = strlen(v->name) + 1, room = SNAPSHOT_SIZE - before;
    snprintf(line, SNAPSHOT_SIZE, "%s=", v->name);
    if (v->make_absolute(value, directory, line + before, room) >= room) {
      REPORT("%s is too long", v->name);
    } else if (fault && strstr(line + before, UNKNOWN)) {
      REPORT("%s='%.200s': the working directory has no path (%s); write absolute paths", v->name,
             value, strerror(fault));
    } else if (line[before] && strcmp(line + before, value) != 0) {
      store_text(v, line + before);
      /* Not after a fault: a bad value may look right once it is absolute, and a child must find
       * the same fault. */
      if (!config.error[0]) {
        replace_in_environment(environment, before - 1, line);
      }
    }
  }
}

/* ---- all of them -------------------------------------------------------- */

static const struct variable *find_variable(const char *name, size_t n) {
  for (size_t i = 0; i < VARIABLES; i++) {
    if (strlen(variables[i].name) == n && memcmp(variables[i].name, name, n) == 0) {
      return &variables[i];
    }
  }
  return NULL;
}

bool shard_config_is_foreign(const char *entry) {
  const char *equals = strncmp(entry, "SHARD_", 6) == 0 ? strchr(entry, '=') : NULL;
  return equals && (!equals[1] || !find_variable(entry, (size_t)(equals - entry)));
}

/* Reads the entry "SHARD_NAME=value". *used: bytes of the snapshot in use. */
static void take_variable(const char *line, const char *value, size_t *used) {
  size_t n = (size_t)(value - line) - 1, size = strlen(value) + 1;
  const struct variable *v = find_variable(line, n);
  if (!v) {
    note_unknown_name(line, n);
  } else if (size > sizeof(snapshot) - *used) {
    REPORT("%s is too long", v->name);
  } else if (size == 1) {
    char text[SHARD_CONFIG_TEXT];
    REPORT("%s is empty; expected %s", v->name, describe_variable(v, text));
    config.asked |= v == &variables[AT_DATASET];
  } else {
    char *copy = memcpy(snapshot + *used, value, size);
    *used += size;
    if (!v->take(v, copy)) {
      report_invalid(v, copy);
    }
    is_set[v - variables] = true;
  }
}

void shard_config_init(char *const *environment) {
  int saved = errno;
  size_t used = 0;
  config = defaults;
  memset(is_set, 0, sizeof(is_set));
  misspelt[0] = 0;
  shard_launcher_note_start(environment);
  for (char *const *e = environment; e && *e; e++) {
    const char *equals = strncmp(*e, "SHARD_", 6) == 0 ? strchr(*e, '=') : NULL;
    if (equals) {
      take_variable(*e, equals + 1, &used);
    }
  }
  if (misspelt[0]) {
    REPORT("%s", misspelt);
  }
  if (config.strategy == SHARD_STRATEGY_HASH && config.remainder != SHARD_REMAINDER_KEEP) {
    REPORT(
        "SHARD_REMAINDER=%s does not go with SHARD_STRATEGY=hash, whose shares differ by chance; "
        "set SHARD_STRATEGY=stride or range, or unset SHARD_REMAINDER",
        shard_words_at(shard_words_remainders, config.remainder));
  }
  config.asked |= config.dataset != NULL;
  config.seeded = is_set[AT_SEED];
  config.sampled = is_set[AT_SAMPLE];
  config.directories = config.dataset && shard_dataset_list_has(config.dataset, false);
  config.buckets = config.dataset && shard_dataset_list_has(config.dataset, true);
  atomic_store(&epoch_now, config.epoch);
  make_absolute(environment);
  errno = saved;
}

void shard_config_disable(void) {
  config.view = SHARD_VIEW_OFF;
  config.directories = config.buckets = false;
  config.error[0] = 0;
}

bool shard_config_describe(size_t i, struct shard_config_variable *out) {
  if (i >= VARIABLES) {
    return false;
  }
  const struct variable *v = &variables[i];
  const unsigned char *at = (const unsigned char *)&defaults + v->offset;
  uint64_t n = 0;
  unsigned wide;
  *out = (struct shard_config_variable){.name = v->name};
  describe_variable(v, out->value);
  if (v->take == take_word) {
    wide = v->size == sizeof(bool) ? *at : 0;
    if (v->size == sizeof(wide)) {
      memcpy(&wide, at, sizeof(wide));
    }
    snprintf(out->initial, sizeof(out->initial), "%s", shard_words_at(v->words, wide));
  } else if (v->take == take_size) {
    memcpy(&n, at, sizeof(n));
    bool giga = n % (1 << 30) == 0;
    snprintf(out->initial, sizeof(out->initial), "%llu%c",
             (unsigned long long)(n >> (giga ? 30 : 20)), giga ? 'G' : 'M');
  } else if (v->take == take_number && v->size == sizeof(wide)) {
    memcpy(&wide, at, sizeof(wide));
    snprintf(out->initial, sizeof(out->initial), "%u", wide);
  }
  return true;
}
