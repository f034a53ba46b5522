/* SPDX-License-Identifier: MIT */
/*
 * cmd_verify.c - shardctl verify: what the statistics of all ranks (SHARD_STATS) prove, and what is
 * wrong with them.
 *
 * Shares partition a listing if in each epoch their names add up to it, in number and in the sum of
 * hashes (ctl/nameset.h). With --listing, verify computes every share from the listing, and takes
 * nothing but the rank's number from its file.
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "config/dataset.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/human.h"
#include "ctl/json.h"
#include "ctl/nameset.h"
#include "libshard.h"
#include "listing/listing.h"

static const char usage[] =
    "Usage: shardctl verify STATS... [OPTIONS]\n"
    "\n"
    "STATS are the files that all ranks of a job wrote by SHARD_STATS. Proves that they used one\n"
    "listing and, under the shard view, that in each epoch their shares partition it; tells what "
    "was\n"
    "opened of it.\n"
    "\n"
    "      --listing FILE   the listing that was used, or one of the same names: every share is\n"
    "                       computed anew from it. Needed for SHARD_STRATEGY=hash, and where\n"
    "                       ranks have lists of their own (SHARD_LISTING with %r): do they have\n"
    "                       all of it together, each name once?\n"
    "      --json           print one JSON object: proven, faults, facts\n"
    "      --help\n"
    "Exit status: 0 proven, 1 not, 2 wrong usage.\n";

enum { OPT_LISTING = CTL_OPTION_OWN };

static const struct option rows[] = {
    CTL_ROW_JSON, CTL_ROW_HELP, {"listing", required_argument, NULL, OPT_LISTING}, CTL_ROW_END};

#define RANKS_MOST (1 << 24)
#define INSIDE_MOST 64 /* as many datasets as are noted */

struct epoch {
  uint64_t number, opened;
  struct ctl_nameset distinct, owned;
  bool owned_known;         /* with its sum */
  const char *digest;       /* of the list it had; NULL: the dataset's */
  struct ctl_nameset whole; /* that list */
};

struct dataset {
  const char *path, *digest; /* digest NULL: no listing */
  const char *lists;         /* one, ranks, epochs: see stats/log.h */
  uint64_t entries, used;
  struct ctl_nameset whole;
  bool summed, mixed;
  struct epoch *epochs;
  size_t count;
};

struct rank {
  const char *file, *view, *strategy, *host;
  const char *job; /* NULL: not known */
  int64_t rank, size;
  bool seeded;
  uint64_t seed, lost;
  struct dataset *datasets;
  size_t count;
};

struct job {
  struct rank *ranks; /* in the order of their numbers, once read */
  size_t count;
  struct json_object *faults, *facts;
  struct shard_listing *listing;
  const char *listing_file;
};

__attribute__((format(printf, 2, 3))) static void say(struct json_object *list, const char *format,
                                                      ...) {
  char text[2 * PATH_MAX + 400];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  ctl_json_add_text(list, NULL, text);
}

#define FAULT(job, ...) say((job)->faults, __VA_ARGS__)
#define FACT(job, ...) say((job)->facts, __VA_ARGS__)

/* ---- reading ----------------------------------------------------------------------------------
 */

/* Reading one file. */
struct reader {
  const char *key; /* the first that is missing or not valid; NULL: none */
};

static struct json_object *get_value(struct reader *r, struct json_object *from, const char *key,
                                     enum json_type type) {
  struct json_object *value = NULL;
  if (r->key || !json_object_is_type(from, json_type_object) ||
      !json_object_object_get_ex(from, key, &value) || !json_object_is_type(value, type)) {
    r->key = r->key ? r->key : key;
    return NULL;
  }
  return value;
}

static bool is_null(struct json_object *from, const char *key) {
  struct json_object *value;
  return json_object_object_get_ex(from, key, &value) && !value;
}

static const char *get_text(struct reader *r, struct json_object *from, const char *key) {
  struct json_object *value = get_value(r, from, key, json_type_string);
  const char *text = value ? json_object_get_string(value) : "";
  if (value && (size_t)json_object_get_string_len(value) != strlen(text)) {
    r->key = key; /* a NUL: whatever follows it would compare equal */
  }
  return text;
}

/* json-c tells a number with a point or an exponent from an integer, and keeps 64 bits of those. */
static uint64_t get_number(struct reader *r, struct json_object *from, const char *key) {
  struct json_object *value = get_value(r, from, key, json_type_int);
  if (value && *json_object_get_string(value) == '-') {
    r->key = key;
  }
  return value ? json_object_get_uint64(value) : 0;
}

/* Sixteen hex digits; false if it is null. */
static bool get_sum(struct reader *r, struct json_object *from, const char *key, uint64_t *out) {
  *out = 0;
  if (is_null(from, key)) {
    return false;
  }
  const char *text = get_text(r, from, key);
  if (!r->key && (strlen(text) != 16 || text[strspn(text, "0123456789abcdef")])) {
    r->key = key;
  }
  *out = strtoull(text, NULL, 16);
  return true;
}

static void read_epochs(struct reader *r, struct json_object *from, bool shared,
                        struct dataset *d) {
  struct json_object *list = get_value(r, from, "epochs", json_type_array);
  d->count = list ? json_object_array_length(list) : 0;
  d->epochs = calloc(d->count + 1, sizeof(*d->epochs));
  for (size_t i = 0; i < d->count && !r->key; i++) {
    struct json_object *o = json_object_array_get_idx(list, i);
    struct epoch *e = &d->epochs[i];
    e->number = get_number(r, o, "epoch");
    e->opened = get_number(r, o, "opened");
    e->distinct.count = get_number(r, o, "distinct");
    if (!get_sum(r, o, "distinct_sum", &e->distinct.sum)) {
      r->key = "distinct_sum";
    }
    if (shared) {
      e->owned.count = get_number(r, o, "owned");
      e->owned_known = get_sum(r, o, "owned_sum", &e->owned.sum);
    }
    if (strcmp(d->lists, "one") != 0 && json_object_object_get_ex(o, "digest", NULL)) {
      e->digest = get_text(r, o, "digest");
      e->whole.count = get_number(r, o, "entries");
      e->owned_known = get_sum(r, o, "sum", &e->whole.sum) && e->owned_known;
    }
  }
}

static void read_dataset(struct reader *r, struct json_object *o, bool shared, struct dataset *d) {
  d->path = get_text(r, o, "dataset");
  if (!is_null(o, "digest")) {
    d->digest = get_text(r, o, "digest");
    d->entries = get_number(r, o, "entries");
    d->used = get_number(r, o, "used");
    d->whole.count = d->entries;
    d->summed = get_sum(r, o, "sum", &d->whole.sum);
  }
  struct json_object *mixed = get_value(r, o, "mixed", json_type_boolean);
  d->mixed = mixed && json_object_get_boolean(mixed);
  d->lists = get_text(r, o, "lists");
  read_epochs(r, o, shared, d);
}

/* The object lives as long as the program. */
static struct json_object *parse(const char *file, char *err, size_t size) {
  FILE *in = fopen(file, "re");
  char *text = NULL;
  size_t n = 0;
  ssize_t got = in ? getdelim(&text, &n, 0, in) : -1;
  struct json_object *o = NULL;
  struct json_tokener *tokener = json_tokener_new();
  if (!in || (got < 0 && ferror(in))) {
    snprintf(err, size, "%s", strerror(errno));
  } else if (got < 0 || memchr(text, 0, (size_t)got) || got > INT_MAX / 2) {
    snprintf(err, size, got < 0 ? "it is empty" : "it is damaged");
  } else if (!tokener) {
    snprintf(err, size, "out of memory");
  } else {
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    o = json_tokener_parse_ex(tokener, text, (int)got + 1); /* with the NUL */
    enum json_tokener_error fault = json_tokener_get_error(tokener);
    if (fault != json_tokener_success) {
      json_object_put(o);
      o = NULL;
      snprintf(err, size, "it is damaged or cut short: %s at byte %zu",
               json_tokener_error_desc(fault), json_tokener_get_parse_end(tokener));
    } else if (!json_object_is_type(o, json_type_object)) {
      json_object_put(o);
      o = NULL;
      snprintf(err, size, "it is not a JSON object");
    }
  }
  if (tokener) {
    json_tokener_free(tokener);
  }
  free(text);
  if (in) {
    fclose(in);
  }
  return o;
}

static bool read_rank(struct job *job, const char *file, struct rank *out) {
  char err[300];
  struct reader r = {NULL};
  struct json_object *o = parse(file, err, sizeof(err));
  if (!o) {
    FAULT(job, "cannot use '%s': %s", file, err);
    return false;
  }
  *out = (struct rank){.file = file};
  out->rank = (int64_t)get_number(&r, o, "rank");
  out->size = (int64_t)get_number(&r, o, "size");
  out->view = get_text(&r, o, "view");
  out->strategy = get_text(&r, o, "strategy");
  out->host = get_text(&r, o, "host");
  out->job = is_null(o, "job") ? NULL : get_text(&r, o, "job");
  out->lost = get_number(&r, o, "lost");
  if (!is_null(o, "seed")) {
    out->seeded = true;
    out->seed = get_number(&r, o, "seed");
  }
  struct json_object *list = get_value(&r, o, "datasets", json_type_array);
  out->count = list ? json_object_array_length(list) : 0;
  out->datasets = calloc(out->count + 1, sizeof(*out->datasets));
  for (size_t i = 0; i < out->count && !r.key; i++) {
    read_dataset(&r, json_object_array_get_idx(list, i), strcmp(out->view, "global") != 0,
                 &out->datasets[i]);
  }
  if (!r.key &&
      (out->size < 1 || out->size > RANKS_MOST || out->rank < 0 || out->rank >= out->size)) {
    r.key = "rank";
  }
  if (r.key) {
    FAULT(job, "cannot use '%s': '%s' is missing or not valid", file, r.key);
  }
  return !r.key;
}

/* ---- the ranks ----------------------------------------------------------------------------------
 */

static int by_rank(const void *pa, const void *pb) {
  const struct rank *a = pa, *b = pb;
  if (a->rank != b->rank) {
    return a->rank < b->rank ? -1 : 1;
  }
  return strcmp(a->file, b->file);
}

/* Check that all ranks are there, each once. */
static bool check_ranks(struct job *job) {
  size_t before = json_object_array_length(job->faults);
  const struct rank *first = &job->ranks[0];
  qsort(job->ranks, job->count, sizeof(*job->ranks), by_rank);
  for (size_t i = 1; i < job->count; i++) {
    const struct rank *r = &job->ranks[i];
    if (r->size != first->size) {
      FAULT(job, "'%s' is of %" PRId64 " ranks, '%s' of %" PRId64, r->file, r->size, first->file,
            first->size);
    }
    if (r->rank == r[-1].rank) {
      FAULT(job, "rank %" PRId64 " is there twice: '%s' and '%s'", r->rank, r[-1].file, r->file);
    }
  }
  int64_t next = 0;
  for (size_t i = 0; i <= job->count; i++) {
    int64_t have = i < job->count ? job->ranks[i].rank : first->size;
    if (have > next + 1) {
      FAULT(job, "ranks %" PRId64 " to %" PRId64 " of %" PRId64 " are missing", next, have - 1,
            first->size);
    } else if (have == next + 1) {
      FAULT(job, "rank %" PRId64 " of %" PRId64 " is missing", next, first->size);
    }
    next = have >= next ? have + 1 : next;
  }
  return json_object_array_length(job->faults) == before;
}

static const char *seed_of(const struct rank *r, char buf[32]) {
  snprintf(buf, 32, r->seeded ? "%" PRIu64 : "none", r->seed);
  return buf;
}

/* Report a fault if a rank's text differs from the first rank's. */
static void compare(struct job *job, const struct rank *r, const char *what, const char *value,
                    const char *wanted) {
  if (strcmp(value, wanted) != 0) {
    FAULT(job, "rank %" PRId64 " ('%s') has %s %s, rank %" PRId64 " has %s", r->rank, r->file, what,
          value, job->ranks[0].rank, wanted);
  }
}

/* false: the datasets cannot be compared at all. */
static bool check_settings(struct job *job) {
  const struct rank *first = &job->ranks[0];
  char a[32], b[32];
  bool same = true;
  for (size_t i = 0; i < job->count; i++) {
    const struct rank *r = &job->ranks[i];
    compare(job, r, "view", r->view, first->view);
    compare(job, r, "strategy", r->strategy, first->strategy);
    compare(job, r, "seed", seed_of(r, a), seed_of(first, b));
    if (r->lost > 0) {
      FAULT(job,
            "rank %" PRId64 " ('%s') could not note %" PRIu64
            " things, so its counts are too low: was the disk full, a limit of descriptors "
            "reached, or an epoch before the first?",
            r->rank, r->file, r->lost);
    }
    /* A launcher's process identifies the job on its own node only. */
    for (size_t k = 0; k < i; k++) {
      const struct rank *other = &job->ranks[k];
      if (r->job && other->job && strcmp(r->host, other->host) == 0 &&
          strcmp(r->job, other->job) != 0) {
        FAULT(job,
              "rank %" PRId64 " ('%s') and rank %" PRId64
              " ('%s') are of different runs, or of two launchers on a node, which SHARD_JOB makes "
              "one job",
              r->rank, r->file, other->rank, other->file);
        break;
      }
    }
    snprintf(a, sizeof(a), "%zu", r->count);
    snprintf(b, sizeof(b), "%zu", first->count);
    compare(job, r, "datasets:", a, b);
    same = same && r->count == first->count && strcmp(r->view, first->view) == 0;
  }
  if (same && first->count == 0) {
    FAULT(job, "no dataset was served to any rank: there is nothing to prove");
    same = false;
  }
  return same;
}

/* Check that dataset k, and its listing, are the same in all ranks. */
static bool check_dataset(struct job *job, size_t k) {
  const struct dataset *first = &job->ranks[0].datasets[k];
  size_t before = json_object_array_length(job->faults);
  char a[32], b[32];
  for (size_t i = 0; i < job->count; i++) {
    const struct rank *r = &job->ranks[i];
    const struct dataset *d = &r->datasets[k];
    compare(job, r, "dataset", d->path, first->path);
    compare(job, r, "lists for", d->lists, first->lists);
    compare(job, r, "a listing with digest", d->digest ? d->digest : "(none)",
            first->digest ? first->digest : "(none)");
    snprintf(a, sizeof(a), "%" PRIu64 " (%" PRIu64 " used)", d->entries, d->used);
    snprintf(b, sizeof(b), "%" PRIu64 " (%" PRIu64 " used)", first->entries, first->used);
    compare(job, r, "entries:", a, b);
    snprintf(a, sizeof(a), d->summed ? "%016" PRIx64 : "(none)", d->whole.sum);
    snprintf(b, sizeof(b), first->summed ? "%016" PRIx64 : "(none)", first->whole.sum);
    compare(job, r, "a listing with sum", a, b);
    if (d->mixed) {
      FAULT(job,
            "processes of rank %" PRId64
            " ('%s') used different listings of '%s', or different settings (strategy, seed, "
            "shuffled or not)",
            r->rank, r->file, d->path);
    }
  }
  return json_object_array_length(job->faults) == before;
}

/* ---- the shares ---------------------------------------------------------------------------------
 */

static const struct epoch *find_epoch(const struct dataset *d, uint64_t number) {
  for (size_t i = 0; i < d->count; i++) {
    if (d->epochs[i].number == number) {
      return &d->epochs[i];
    }
  }
  return NULL;
}

static bool equal(struct ctl_nameset a, struct ctl_nameset b) {
  return a.count == b.count && a.sum == b.sum;
}

/* Paths, from the root of dataset k, of others that lie in it, as many as fit. */
static size_t find_inside(const struct job *job, size_t k, const char *inside[INSIDE_MOST]) {
  const struct rank *first = &job->ranks[0];
  const char **roots = calloc(first->count, sizeof(*roots));
  size_t count = 0;
  for (size_t i = 0; roots && i < first->count; i++) {
    roots[i] = first->datasets[i].path;
  }
  if (roots) {
    count = shard_dataset_find_inside(roots, first->count, k, inside, INSIDE_MOST);
  }
  free(roots);
  return count;
}

/* Check that every rank's share of an epoch is the one that the listing yields. */
static void check_shares(struct job *job, size_t k, uint64_t number,
                         const struct ctl_nameset *whole) {
  const struct rank *first = &job->ranks[0];
  enum shard_strategy strategy;
  struct ctl_nameset_share *shares = calloc(job->count, sizeof(*shares));
  struct ctl_nameset ignored;
  const char *inside[INSIDE_MOST];
  size_t inside_count = find_inside(job, k, inside);
  int place = shard_words_find(shard_words_strategies, first->strategy);
  strategy = place < 0 ? SHARD_STRATEGY_RANGE : (enum shard_strategy)place;
  if (!shares || place < 0 || strategy == SHARD_STRATEGY_HASH) {
    free(shares);
    if (strategy != SHARD_STRATEGY_HASH) { /* hash: ranks count what they serve */
      FAULT(job, "the shares cannot be computed: strategy '%s', or no memory left",
            first->strategy);
    }
    return;
  }
  for (size_t i = 0; i < job->count; i++) {
    const struct rank *r = &job->ranks[i];
    shard_share_init(&shares[i].share, strategy, (uint32_t)r->rank, (uint32_t)r->size, whole->count,
                     r->seeded ? shard_shuffle_key(r->seed, number) : 0);
  }
  int rc = ctl_nameset_sum(job->listing, inside, inside_count, &ignored, shares, job->count);
  for (size_t i = 0; rc == 0 && i < job->count; i++) {
    const struct epoch *e = find_epoch(&job->ranks[i].datasets[k], number);
    if (e && !equal(e->owned, shares[i].owned)) {
      FAULT(job,
            "rank %" PRId64 " ('%s'), epoch %" PRIu64 ": its share of %" PRIu64
            " names is not the one it has in '%s', %" PRIu64 " names",
            job->ranks[i].rank, job->ranks[i].file, number, e->owned.count, job->listing_file,
            shares[i].owned.count);
    }
  }
  if (rc != 0) {
    FAULT(job, "cannot use '%s': %s", job->listing_file, shard_listing_strerror(rc));
  }
  free(shares);
}

/* Check that the shares of an epoch partition the listing. */
static void check_partition(struct job *job, size_t k, uint64_t number,
                            const struct ctl_nameset *whole) {
  struct ctl_nameset owned = {0}, opened = {0};
  const char *path = job->ranks[0].datasets[k].path;
  const char *shares = strcmp(job->ranks[0].datasets[k].lists, "ranks") == 0 ? "lists" : "shares";
  uint64_t opens = 0;
  bool complete = true, exact = true;
  for (size_t i = 0; i < job->count; i++) {
    const struct rank *r = &job->ranks[i];
    const struct epoch *e = find_epoch(&r->datasets[k], number);
    if (!e || !e->owned_known) {
      FAULT(job,
            e ? "rank %" PRId64 " ('%s'), epoch %" PRIu64 ": the listing that '%s' was shared "
                "out by was gone at its end; keep SHARD_CACHE_DIR until the job has ended"
              : "rank %" PRId64 " ('%s') has no epoch %" PRIu64
                " of '%s', and other ranks have: it made fewer passes, or began later",
            r->rank, r->file, number, path);
      complete = false;
      continue;
    }
    owned.count += e->owned.count;
    owned.sum += e->owned.sum;
    opens += e->opened;
    opened.count += e->distinct.count;
    opened.sum += e->distinct.sum;
    exact = exact && equal(e->owned, e->distinct);
  }
  if (!complete) {
    return;
  }
  if (owned.count != whole->count) {
    FAULT(job,
          "epoch %" PRIu64 ": the %s of '%s' have %" PRIu64 " names, the listing %" PRIu64 ": %s",
          number, shares, path, owned.count, whole->count,
          owned.count < whole->count ? "some are left out" : "some are in two shares");
  } else if (owned.sum != whole->sum) {
    FAULT(job,
          "epoch %" PRIu64 ": the %s of '%s' overlap and leave out names: they are as many "
          "as the listing's, %" PRIu64 ", but not the same",
          number, shares, path, whole->count);
  } else {
    FACT(job, "epoch %" PRIu64 ": the %s of '%s' partition its %" PRIu64 " names; %s", number,
         shares, path, whole->count,
         exact && opens == opened.count ? "each was opened once, by the rank that owns it"
         : exact                        ? "each was opened by the rank that owns it alone"
                                        : "not proven: that ranks opened their own, and all of it");
  }
  if (!exact) {
    FACT(job,
         "epoch %" PRIu64 ": %" PRIu64 " opens, of %" PRIu64
         " files when those of each rank are added up",
         number, opens, opened.count);
  }
}

/* Check an epoch for which ranks, or epochs, had lists of their own. whole: of --listing, or NULL.
 */
static void check_lists(struct job *job, size_t k, uint64_t number,
                        const struct ctl_nameset *whole) {
  const struct dataset *d = &job->ranks[0].datasets[k];
  const struct epoch *first = find_epoch(d, number);
  bool same = true;
  for (size_t i = 0; i < job->count && strcmp(d->lists, "epochs") == 0; i++) {
    const struct rank *r = &job->ranks[i];
    const struct epoch *e = find_epoch(&r->datasets[k], number);
    if (e && first && (!e->digest || !first->digest || strcmp(e->digest, first->digest) != 0)) {
      FAULT(job,
            "epoch %" PRIu64 ": rank %" PRId64 " ('%s') has a list of '%s' with digest %s, rank "
            "%" PRId64 " has %s",
            number, r->rank, r->file, d->path, e->digest ? e->digest : "(none)", job->ranks[0].rank,
            first->digest ? first->digest : "(none)");
      same = false;
    }
  }
  if (same && (whole || first)) {
    check_partition(job, k, number, whole ? whole : &first->whole);
  } else if (same) {
    FAULT(job, "rank %" PRId64 " ('%s') has no epoch %" PRIu64 " of '%s', and other ranks have",
          job->ranks[0].rank, job->ranks[0].file, number, d->path);
  }
}

/* Tell what was opened under a program that shards by itself, which is no fault whatever it is. */
static void tell_epoch(struct job *job, size_t k, uint64_t number) {
  const struct dataset *first = &job->ranks[0].datasets[k];
  struct ctl_nameset opened = {0};
  uint64_t opens = 0;
  for (size_t i = 0; i < job->count; i++) {
    const struct epoch *e = find_epoch(&job->ranks[i].datasets[k], number);
    opens += e ? e->opened : 0;
    opened.count += e ? e->distinct.count : 0;
    opened.sum += e ? e->distinct.sum : 0;
  }
  bool whole = first->summed && first->used == first->entries;
  FACT(job,
       "epoch %" PRIu64 " of '%s': %" PRIu64 " opens, of %" PRIu64
       " files when those of each rank are added up; the program uses %" PRIu64 ": %s",
       number, first->path, opens, opened.count, first->used,
       whole && equal(opened, first->whole) ? "each was opened by exactly one rank"
       : opened.count < first->used
           ? "some were opened by none (as where the last, partial batch is dropped)"
           : "not proven: which were opened by several ranks");
}

/* All epochs that any rank has; ascending. */
static size_t all_epochs(const struct job *job, size_t k, uint64_t **out) {
  size_t count = 0, room = 1;
  for (size_t i = 0; i < job->count; i++) {
    room += job->ranks[i].datasets[k].count;
  }
  uint64_t *all = calloc(room, sizeof(*all));
  for (uint64_t least = 0; all;) {
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < job->count; i++) {
      const struct dataset *d = &job->ranks[i].datasets[k];
      for (size_t e = 0; e < d->count; e++) {
        uint64_t number = d->epochs[e].number;
        next = number >= least && number < next ? number : next;
      }
    }
    if (next == UINT64_MAX) {
      break;
    }
    all[count++] = next;
    least = next + 1;
  }
  *out = all;
  return count;
}

static void check_epochs(struct job *job, size_t k) {
  const struct rank *first = &job->ranks[0];
  const struct dataset *d = &first->datasets[k];
  struct ctl_nameset whole = d->whole;
  bool shared = strcmp(first->view, "global") != 0, hash = strcmp(first->strategy, "hash") == 0;
  bool lists = shared && strcmp(d->lists, "one") != 0, sorted = true;
  uint64_t *epochs;
  if (!d->digest && !(shared && (hash || lists))) {
    FAULT(job, "no rank has used a listing of '%s'", d->path);
    return;
  }
  if (job->listing) {
    struct shard_listing_info info;
    const char *inside[INSIDE_MOST];
    size_t inside_count = shared ? find_inside(job, k, inside) : 0;
    shard_listing_info(job->listing, &info);
    if (ctl_nameset_sum(job->listing, inside, inside_count, &whole, NULL, 0) != 0) {
      FAULT(job, "'%s' is damaged", job->listing_file);
      return;
    }
    /* The digest depends on the order, the sum does not: a manifest may have the same names. */
    sorted = !d->digest || strcmp(info.digest, d->digest) == 0;
    if (d->digest && ((!sorted && !d->summed) || whole.count != d->entries ||
                      (d->summed && !equal(whole, d->whole)))) {
      FAULT(job,
            "the ranks have used a listing of '%s' with %" PRIu64 " entries, digest %s; '%s' has "
            "%" PRIu64 ", digest %s",
            d->path, d->entries, d->digest, job->listing_file, whole.count, info.digest);
      return;
    }
  } else if (lists && strcmp(d->lists, "ranks") == 0) {
    FAULT(job,
          "cannot prove without --listing that the lists of '%s' that ranks were given have all "
          "of it, each name once",
          d->path);
    return;
  } else if (lists) {
    FACT(job, "not proven without --listing: that the list of each epoch has all of '%s'", d->path);
  } else if (shared && (hash || !d->summed)) {
    FAULT(job, "cannot prove without --listing that nothing of '%s' was left out: %s", d->path,
          hash ? "under SHARD_STRATEGY=hash ranks use no listing" : "the listing was gone");
    return;
  }
  if (d->digest) {
    FACT(job, "all ranks used one listing of '%s': %" PRIu64 " entries, digest %s", d->path,
         d->entries, d->digest);
  }
  if (!sorted) {
    FACT(job, "'%s' has the same names in another order; shares are not computed anew from it",
         job->listing_file);
  }
  size_t count = all_epochs(job, k, &epochs);
  for (size_t i = 0; i < count; i++) {
    if (!shared) {
      tell_epoch(job, k, epochs[i]);
      continue;
    }
    if (lists) {
      check_lists(job, k, epochs[i], job->listing ? &whole : NULL);
      continue;
    }
    check_partition(job, k, epochs[i], &whole);
    if (job->listing && sorted) {
      check_shares(job, k, epochs[i], &whole);
    }
  }
  free(epochs);
}

/* ---- the command --------------------------------------------------------------------------------
 */

static void check(struct job *job) {
  bool complete = check_ranks(job);
  if (!check_settings(job)) {
    return;
  }
  size_t count = job->ranks[0].count;
  struct shard_listing *listing = job->listing;
  struct shard_listing_info info;
  bool unused = listing;
  if (listing) {
    shard_listing_info(listing, &info);
  }
  for (size_t k = 0; k < count; k++) {
    /* --listing is used for the dataset that it was made of; if there is only one dataset, for
     * that. */
    job->listing =
        listing && (count == 1 || strcmp(info.source, job->ranks[0].datasets[k].path) == 0)
            ? listing
            : NULL;
    unused = unused && !job->listing;
    if (check_dataset(job, k) && complete) {
      check_epochs(job, k);
    }
  }
  if (unused) {
    FAULT(job, "'%s' is of none of the datasets, but of '%s'", job->listing_file, info.source);
  }
}

static int show(const struct job *job, bool json) {
  size_t faults = json_object_array_length(job->faults);
  int rc = CTL_DONE;
  if (json) {
    struct json_object *o = ctl_json_object();
    ctl_json_add_bool(o, "proven", faults == 0);
    ctl_json_add_number(o, "ranks", job->count);
    ctl_json_add(o, "faults", json_object_get(job->faults));
    ctl_json_add(o, "facts", json_object_get(job->facts));
    rc = ctl_json_print(o, stdout);
  } else {
    for (size_t i = 0; i < json_object_array_length(job->facts); i++) {
      ctl_human_text(stdout, json_object_get_string(json_object_array_get_idx(job->facts, i)));
      putchar('\n');
    }
    if (faults == 0) {
      printf("proven, for %zu ranks\n", job->count);
    }
  }
  int finished = ctl_finish();
  rc = rc == CTL_DONE ? finished : rc;
  for (size_t i = 0; i < faults; i++) {
    rc = ctl_fail("%s", json_object_get_string(json_object_array_get_idx(job->faults, i)));
  }
  return rc;
}

static int set_own(void *context, int option) {
  struct job *job = context;
  (void)option; /* the only one of its own */
  job->listing_file = optarg;
  return CTL_DONE;
}

int ctl_cmd_verify(int argc, char **argv) {
  static const struct ctl_syntax syntax = {
      .letters = "", .rows = rows, .usage = usage, .own = set_own};
  struct job job = {0};
  struct ctl_arguments given;
  bool good = true;
  int rc = ctl_arguments_parse(argc, argv, &syntax, &given, &job);
  if (rc != CTL_GO_ON) {
    return rc;
  }
  if (argc == optind) {
    return ctl_usage("verify takes the statistics of all ranks; see shardctl verify --help");
  }
  if (job.listing_file) {
    rc = shard_listing_open(job.listing_file, &job.listing);
    if (rc != 0) {
      return ctl_fail("cannot use listing '%s': %s", job.listing_file, shard_listing_strerror(rc));
    }
  }
  struct shard_listing *listing = job.listing;
  job.faults = ctl_json_array();
  job.facts = ctl_json_array();
  job.ranks = calloc((size_t)(argc - optind), sizeof(*job.ranks));
  if (!job.ranks || !job.faults || !job.facts) {
    free(job.ranks);
    return ctl_fail("no memory left");
  }
  for (; optind < argc; optind++) {
    bool read = read_rank(&job, argv[optind], &job.ranks[job.count]);
    job.count += read;
    good = good && read;
  }
  if (good) {
    check(&job);
  }
  rc = show(&job, given.json);
  shard_listing_close(listing);
  free(job.ranks);
  return rc;
}
