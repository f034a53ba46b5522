/* SPDX-License-Identifier: MIT */
/*
 * proof.c - what the statistics of all ranks prove.
 *
 * Shares partition a listing if in each epoch their names add up to it, in number and in the sum of
 * hashes (ctl/nameset.h). With a listing, every share is computed from it, and nothing but the
 * rank's number is taken from its file.
 */
#include "ctl/proof.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/words.h"
#include "config/dataset.h"
#include "ctl/json.h"
#include "ctl/nameset.h"
#include "libshard.h"
#include "listing/listing.h"
#include "listing/samples.h"
#include "stats/log.h"

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
  struct json_object *json;
  const char *file, *view, *strategy, *remainder, *sample, *host;
  const char *job; /* NULL: not known */
  int rank, size;
  bool seeded;
  uint64_t seed, lost;
  struct dataset *datasets;
  size_t count;
};

static struct {
  struct rank *ranks; /* in the order of their numbers, once read */
  size_t count;
  struct json_object *faults, *facts;
  size_t unproven;               /* facts that say "not proven" */
  struct shard_listing *listing; /* of the dataset that is being checked; NULL: none is given */
  const char *listing_file;
} job;

__attribute__((format(printf, 2, 3))) static void say(struct json_object *list, const char *format,
                                                      ...) {
  char text[2 * PATH_MAX + 400];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  ctl_json_add_text(list, NULL, text);
}

#define FAULT(...) say(job.faults, __VA_ARGS__)
#define FACT(...) say(job.facts, __VA_ARGS__)

static size_t count_faults(void) { return json_object_array_length(job.faults); }

/* ---- reading ------------------------------------------------------------ */

static const char *fault; /* the first key of the file that is missing or not valid; NULL: none */

static struct json_object *get_value(struct json_object *from, const char *key,
                                     enum json_type type) {
  struct json_object *value = NULL;
  if (fault || !json_object_is_type(from, json_type_object) ||
      !json_object_object_get_ex(from, key, &value) || !json_object_is_type(value, type)) {
    fault = fault ? fault : key;
    return NULL;
  }
  return value;
}

static bool is_null(struct json_object *from, const char *key) {
  struct json_object *value;
  return json_object_object_get_ex(from, key, &value) && !value;
}

static const char *get_text(struct json_object *from, const char *key) {
  struct json_object *value = get_value(from, key, json_type_string);
  const char *text = value ? json_object_get_string(value) : "";
  if (value && (size_t)json_object_get_string_len(value) != strlen(text)) {
    fault = key; /* a NUL: whatever follows it would compare equal */
  }
  return text;
}

/* json-c tells a number with a point or an exponent from an integer, and keeps 64 bits of those. */
static uint64_t get_number(struct json_object *from, const char *key) {
  struct json_object *value = get_value(from, key, json_type_int);
  if (value && *json_object_get_string(value) == '-') {
    fault = key;
  }
  return value ? json_object_get_uint64(value) : 0;
}

/* Sixteen hex digits; false if it is null. */
static bool get_sum(struct json_object *from, const char *key, uint64_t *out) {
  *out = 0;
  if (is_null(from, key)) {
    return false;
  }
  const char *text = get_text(from, key);
  if (!fault && (strlen(text) != 16 || text[strspn(text, "0123456789abcdef")])) {
    fault = key;
  }
  *out = strtoull(text, NULL, 16);
  return true;
}

static int by_number(const void *pa, const void *pb) {
  const struct epoch *a = pa, *b = pb;
  return (a->number > b->number) - (a->number < b->number);
}

/* Into d->epochs, in the order of their numbers, each of which is there once. */
static void read_epochs(struct json_object *from, bool shared, struct dataset *d) {
  struct json_object *list = get_value(from, "epochs", json_type_array);
  d->count = list ? json_object_array_length(list) : 0;
  d->epochs = calloc(d->count + 1, sizeof(*d->epochs));
  for (size_t i = 0; i < d->count && !fault; i++) {
    struct json_object *o = json_object_array_get_idx(list, i);
    struct epoch *e = &d->epochs[i];
    e->number = get_number(o, "epoch");
    e->opened = get_number(o, "opened");
    e->distinct.count = get_number(o, "distinct");
    if (!get_sum(o, "distinct_sum", &e->distinct.sum)) {
      fault = "distinct_sum";
    }
    if (shared) {
      e->owned.count = get_number(o, "owned");
      e->owned_known = get_sum(o, "owned_sum", &e->owned.sum);
    }
    if (strcmp(d->lists, "one") != 0 && json_object_object_get_ex(o, "digest", NULL)) {
      e->digest = get_text(o, "digest");
      e->whole.count = get_number(o, "entries");
      e->owned_known = get_sum(o, "sum", &e->whole.sum) && e->owned_known;
    }
  }
  qsort(d->epochs, d->count, sizeof(*d->epochs), by_number);
  for (size_t i = 1; i < d->count && !fault; i++) {
    fault = d->epochs[i].number == d->epochs[i - 1].number ? "epoch" : NULL;
  }
  if (!fault && d->count > 0 && d->epochs[d->count - 1].number == UINT64_MAX) {
    fault = "epoch"; /* which stands for none: next_epoch() */
  }
}

static void read_dataset(struct json_object *o, bool shared, struct dataset *d) {
  d->path = get_text(o, "dataset");
  if (!is_null(o, "digest")) {
    d->digest = get_text(o, "digest");
    d->entries = get_number(o, "entries");
    d->used = get_number(o, "used");
    d->whole.count = d->entries;
    d->summed = get_sum(o, "sum", &d->whole.sum);
  }
  struct json_object *mixed = get_value(o, "mixed", json_type_boolean);
  d->mixed = mixed && json_object_get_boolean(mixed);
  d->lists = get_text(o, "lists");
  read_epochs(o, shared, d);
}

/* The object lives as long as the program. NULL after a fault. */
static struct json_object *parse(const char *file) {
  size_t n = 0;
  char *text = shard_file_read(file, &n);
  struct json_tokener *tokener = text ? json_tokener_new() : NULL;
  const uint64_t magic = SHARD_LOG_MAGIC;
  struct json_object *o = NULL;
  if (!tokener) {
    FAULT("cannot use '%s': %s", file, strerror(errno));
  } else if (n >= sizeof(magic) && memcmp(text, &magic, sizeof(magic)) == 0) {
    FAULT("'%s' is the log of a rank that has not ended, or was killed: if it was killed, make its "
          "statistics by shardctl stats '%s'",
          file, file);
  } else if (n == 0 || memchr(text, 0, n) || n > INT_MAX / 2) {
    FAULT("cannot use '%s': it is %s", file, n == 0 ? "empty" : "damaged");
  } else {
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    o = json_tokener_parse_ex(tokener, text, (int)n + 1); /* with the NUL */
    enum json_tokener_error error = json_tokener_get_error(tokener);
    if (error != json_tokener_success) {
      FAULT("cannot use '%s': it is damaged or cut short: %s at byte %zu", file,
            json_tokener_error_desc(error), json_tokener_get_parse_end(tokener));
    } else if (!json_object_is_type(o, json_type_object)) {
      FAULT("cannot use '%s': it is not a JSON object", file);
      json_object_put(o);
      o = NULL;
    }
  }
  if (tokener) {
    json_tokener_free(tokener);
  }
  free(text);
  return o;
}

/* Whether the log of a process that has begun the rank's statistics anew lies beside them. */
static bool has_log(const char *file) {
  char log[PATH_MAX];
  uint64_t magic = 0;
  struct stat st;
  int n = snprintf(log, sizeof(log), "%s.log", file);
  bool is_file = n > 0 && (size_t)n < sizeof(log) && lstat(log, &st) == 0 && S_ISREG(st.st_mode);
  int fd = is_file ? open(log, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  bool known = fd >= 0 && read(fd, &magic, sizeof(magic)) == (ssize_t)sizeof(magic);
  bool unreadable = is_file && fd < 0; /* another user's: his run has taken this one's place */
  shard_file_close(fd);
  return unreadable || (known && magic == SHARD_LOG_MAGIC);
}

static bool read_rank(const char *file, struct rank *out) {
  struct json_object *o = parse(file);
  if (!o) {
    return false;
  }
  if (has_log(file)) {
    FAULT("beside '%s' there is '%s.log', of a process of the rank that has not ended, or was "
          "killed: if it was killed, make the statistics by shardctl stats '%s.log'",
          file, file, file);
  }
  fault = NULL;
  uint64_t rank = get_number(o, "rank"), size = get_number(o, "size");
  *out = (struct rank){.json = o, .file = file, .rank = (int)rank, .size = (int)size};
  out->view = get_text(o, "view");
  out->strategy = get_text(o, "strategy");
  out->remainder =
      json_object_object_get_ex(o, "remainder", NULL) ? get_text(o, "remainder") : "keep";
  out->sample = json_object_object_get_ex(o, "sample", NULL) ? get_text(o, "sample") : "file";
  out->host = get_text(o, "host");
  out->job = is_null(o, "job") ? NULL : get_text(o, "job");
  out->lost = get_number(o, "lost");
  out->seeded = !is_null(o, "seed");
  out->seed = out->seeded ? get_number(o, "seed") : 0;
  struct json_object *list = get_value(o, "datasets", json_type_array);
  out->count = list ? json_object_array_length(list) : 0;
  out->datasets = calloc(out->count + 1, sizeof(*out->datasets));
  for (size_t i = 0; i < out->count && !fault; i++) {
    read_dataset(json_object_array_get_idx(list, i), strcmp(out->view, "global") != 0,
                 &out->datasets[i]);
  }
  if (!fault && (size > RANKS_MOST || rank >= size)) {
    fault = "rank";
  }
  if (fault) {
    FAULT("cannot use '%s': '%s' is missing or not valid", file, fault);
  }
  return !fault;
}

/* ---- the ranks ---------------------------------------------------------- */

static int by_rank(const void *pa, const void *pb) {
  const struct rank *a = pa, *b = pb;
  return a->rank != b->rank ? a->rank - b->rank : strcmp(a->file, b->file);
}

/* Check that all ranks are there, each once. */
static bool check_ranks(void) {
  size_t before = count_faults();
  const struct rank *first = &job.ranks[0];
  for (size_t i = 1; i < job.count; i++) {
    const struct rank *r = &job.ranks[i];
    if (r->size != first->size) {
      FAULT("'%s' is of %d ranks, '%s' of %d", r->file, r->size, first->file, first->size);
    }
    if (r->rank == r[-1].rank) {
      FAULT("rank %d is there twice: '%s' and '%s'", r->rank, r[-1].file, r->file);
    }
  }
  int next = 0;
  for (size_t i = 0; i <= job.count; i++) {
    int have = i < job.count ? job.ranks[i].rank : first->size;
    if (have > next + 1) {
      FAULT("ranks %d to %d of %d are missing", next, have - 1, first->size);
    } else if (have == next + 1) {
      FAULT("rank %d of %d is missing", next, first->size);
    }
    next = have >= next ? have + 1 : next;
  }
  return count_faults() == before;
}

/* Report a fault if a rank's text differs from the first rank's. */
static void compare(const struct rank *r, const char *what, const char *value, const char *wanted) {
  if (strcmp(value, wanted) != 0) {
    FAULT("rank %d ('%s') has %s %s, rank %d has %s", r->rank, r->file, what, value,
          job.ranks[0].rank, wanted);
  }
}

static const char *seed_of(const struct rank *r, char buf[32]) {
  snprintf(buf, 32, r->seeded ? "%" PRIu64 : "none", r->seed);
  return buf;
}

/* false: the datasets cannot be compared at all. */
static bool check_settings(void) {
  const struct rank *first = &job.ranks[0];
  char a[32], b[32];
  bool same = true;
  for (size_t i = 0; i < job.count; i++) {
    const struct rank *r = &job.ranks[i];
    compare(r, "view", r->view, first->view);
    compare(r, "strategy", r->strategy, first->strategy);
    compare(r, "remainder", r->remainder, first->remainder);
    compare(r, "sample", r->sample, first->sample);
    compare(r, "seed", seed_of(r, a), seed_of(first, b));
    if (r->lost > 0) {
      FAULT("rank %d ('%s') could not note %" PRIu64
            " things, so its counts are too low: was the disk full, a limit of descriptors "
            "reached, an epoch before the first, the rank restarted, or a process of it still "
            "running at its end? Or has each of several processes begun its statistics?",
            r->rank, r->file, r->lost);
    }
    /* A launcher's process identifies the job on its own node only. */
    for (size_t k = 0; k < i; k++) {
      const struct rank *other = &job.ranks[k];
      if (r->job && other->job && strcmp(r->host, other->host) == 0 &&
          strcmp(r->job, other->job) != 0) {
        FAULT("rank %d ('%s') and rank %d ('%s') are of different runs, or of two launchers on a "
              "node, which SHARD_JOB makes one job",
              r->rank, r->file, other->rank, other->file);
        break;
      }
    }
    snprintf(a, sizeof(a), "%zu", r->count);
    snprintf(b, sizeof(b), "%zu", first->count);
    compare(r, "datasets:", a, b);
    same = same && r->count == first->count && strcmp(r->view, first->view) == 0;
  }
  if (same && first->count == 0) {
    FAULT("no dataset was served to any rank: there is nothing to prove");
    same = false;
  }
  return same;
}

/* Check that dataset k, and its listing, are the same in all ranks. */
static bool check_dataset(size_t k) {
  const struct dataset *first = &job.ranks[0].datasets[k];
  size_t before = count_faults();
  char a[64], b[64];
  for (size_t i = 0; i < job.count; i++) {
    const struct rank *r = &job.ranks[i];
    const struct dataset *d = &r->datasets[k];
    compare(r, "dataset", d->path, first->path);
    compare(r, "lists for", d->lists, first->lists);
    compare(r, "a listing with digest", d->digest ? d->digest : "(none)",
            first->digest ? first->digest : "(none)");
    snprintf(a, sizeof(a), "%" PRIu64 " (%" PRIu64 " used)", d->entries, d->used);
    snprintf(b, sizeof(b), "%" PRIu64 " (%" PRIu64 " used)", first->entries, first->used);
    compare(r, "entries:", a, b);
    snprintf(a, sizeof(a), d->summed ? "%016" PRIx64 : "(none)", d->whole.sum);
    snprintf(b, sizeof(b), first->summed ? "%016" PRIx64 : "(none)", first->whole.sum);
    compare(r, "a listing with sum", a, b);
    if (d->mixed) {
      FAULT("processes of rank %d ('%s') used different listings of '%s', or different settings "
            "(rank, strategy, remainder, seed, shuffled or not)",
            r->rank, r->file, d->path);
    }
  }
  return count_faults() == before;
}

/* ---- the shares --------------------------------------------------------- */

/* The least epoch, from `number` on, that the dataset has; NULL: there is none. */
static const struct epoch *find_from(const struct dataset *d, uint64_t number) {
  size_t begin = 0, end = d->count;
  while (begin < end) {
    size_t middle = begin + (end - begin) / 2;
    if (d->epochs[middle].number < number) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin < d->count ? &d->epochs[begin] : NULL;
}

static const struct epoch *find_epoch(const struct rank *r, size_t k, uint64_t number) {
  const struct epoch *e = find_from(&r->datasets[k], number);
  return e && e->number == number ? e : NULL;
}

static bool equal(struct ctl_nameset a, struct ctl_nameset b) {
  return a.count == b.count && a.sum == b.sum;
}

static void add(struct ctl_nameset *to, struct ctl_nameset part) {
  to->count += part.count;
  to->sum += part.sum;
}

/* Paths, from the root of dataset k, of others that lie in it, as many as fit. */
static size_t find_inside(size_t k, const char *inside[INSIDE_MOST]) {
  const struct rank *first = &job.ranks[0];
  const char **roots = calloc(first->count, sizeof(*roots));
  for (size_t i = 0; roots && i < first->count; i++) {
    roots[i] = first->datasets[i].path;
  }
  size_t count = roots ? shard_dataset_find_inside(roots, first->count, k, inside, INSIDE_MOST) : 0;
  free(roots);
  return count;
}

/* How the ranks have shared names out; -1: by no word that is known. */
static int find_remainder(void) {
  return shard_words_find(shard_words_remainders, job.ranks[0].remainder);
}

/* Check that every rank's share of an epoch is the one that the listing yields. */
static void check_shares(size_t k, uint64_t number, const struct ctl_nameset *whole) {
  int strategy = shard_words_find(shard_words_strategies, job.ranks[0].strategy);
  if (strategy == SHARD_STRATEGY_HASH) {
    return; /* ranks count what they serve */
  }
  int remainder = find_remainder();
  struct ctl_nameset_share *shares = calloc(job.count, sizeof(*shares));
  if (!shares || strategy < 0 || remainder < 0) {
    FAULT("the shares cannot be computed: strategy '%s', remainder '%s', or no memory left",
          job.ranks[0].strategy, job.ranks[0].remainder);
    free(shares);
    return;
  }
  const char *inside[INSIDE_MOST];
  size_t inner = find_inside(k, inside);
  uint64_t samples = inner ? whole->count : shard_listing_samples(job.listing);
  for (size_t i = 0; i < job.count; i++) {
    const struct rank *r = &job.ranks[i];
    shard_share_init(&shares[i].share, (enum shard_strategy)strategy,
                     (enum shard_remainder)remainder, (uint32_t)r->rank, (uint32_t)r->size, samples,
                     r->seeded ? shard_shuffle_key(r->seed, number) : 0);
  }
  struct ctl_nameset ignored;
  int rc = ctl_nameset_sum(job.listing, inside, inner, &ignored, shares, job.count);
  for (size_t i = 0; rc == 0 && i < job.count; i++) {
    const struct rank *r = &job.ranks[i];
    const struct epoch *e = find_epoch(r, k, number);
    if (e && !equal(e->owned, shares[i].owned)) {
      FAULT("rank %d ('%s'), epoch %" PRIu64 ": its share of %" PRIu64
            " names is not the one it has in '%s', %" PRIu64 " names",
            r->rank, r->file, number, e->owned.count, job.listing_file, shares[i].owned.count);
    }
  }
  if (rc != 0) {
    FAULT("cannot use '%s': %s", job.listing_file, shard_listing_strerror(rc));
  }
  free(shares);
}

/* How many names each rank has, where SHARD_REMAINDER makes the shares equal and the names cannot
 * be shared out evenly; 0: the shares partition the listing. */
static uint64_t find_equal_share(size_t k, uint64_t names) {
  const struct rank *first = &job.ranks[0];
  int remainder = find_remainder();
  uint64_t size = (uint64_t)first->size, rest = names % size;
  bool even = remainder <= SHARD_REMAINDER_KEEP || rest == 0 || !first->count ||
              strcmp(first->datasets[k].lists, "ranks") == 0;
  return even ? 0 : names / size + (remainder == SHARD_REMAINDER_REPEAT);
}

/* Check that each share of an epoch has so many names. */
static bool check_equal(size_t k, uint64_t number, uint64_t each) {
  bool good = true;
  for (size_t i = 0; i < job.count; i++) {
    const struct rank *r = &job.ranks[i];
    uint64_t owned = find_epoch(r, k, number)->owned.count;
    if (owned != each) {
      FAULT("rank %d ('%s'), epoch %" PRIu64 ": its share has %" PRIu64 " names; by remainder '%s' "
            "each has %" PRIu64,
            r->rank, r->file, number, owned, r->remainder, each);
      good = false;
    }
  }
  return good;
}

/* Check that the shares of an epoch partition the listing, or are equal, as SHARD_REMAINDER says.
 */
static void check_partition(size_t k, uint64_t number, const struct ctl_nameset *whole) {
  struct ctl_nameset owned = {0}, opened = {0};
  const char *path = job.ranks[0].datasets[k].path;
  const char *shares = strcmp(job.ranks[0].datasets[k].lists, "ranks") == 0 ? "lists" : "shares";
  uint64_t opens = 0;
  bool complete = true, exact = true;
  for (size_t i = 0; i < job.count; i++) {
    const struct rank *r = &job.ranks[i];
    const struct epoch *e = find_epoch(r, k, number);
    if (!e || !e->owned_known) {
      FAULT(e ? "rank %d ('%s'), epoch %" PRIu64 ": the listing that '%s' was shared out by was "
                "gone at its end; keep SHARD_CACHE_DIR until the job has ended"
              : "rank %d ('%s') has no epoch %" PRIu64
                " of '%s', and other ranks have: it made fewer passes, or began later",
            r->rank, r->file, number, path);
      complete = false;
      continue;
    }
    add(&owned, e->owned);
    add(&opened, e->distinct);
    opens += e->opened;
    exact = exact && r->lost == 0 && equal(e->owned, e->distinct);
  }
  if (!complete) {
    return;
  }
  const char *opening = exact && opens == opened.count
                            ? "each was opened once, by the rank that owns it"
                        : exact ? "each was opened by the rank that owns it alone"
                                : "not proven: that ranks opened their own, and all of it";
  if (strcmp(job.ranks[0].sample, "file") != 0 && find_remainder() > SHARD_REMAINDER_KEEP) {
    job.unproven += !job.listing || !exact;
    FACT("epoch %" PRIu64 ": the %s of '%s' are as many samples each, and have %" PRIu64
         " names, the listing %" PRIu64 "; %s%s",
         number, shares, path, owned.count, whole->count, opening,
         job.listing ? "" : "; not proven without --listing");
    return;
  }
  uint64_t each = find_equal_share(k, whole->count);
  if (each > 0) {
    if (check_equal(k, number, each)) {
      bool more = owned.count > whole->count;
      job.unproven += !exact;
      FACT("epoch %" PRIu64 ": the %s of '%s' have %" PRIu64 " names each: %" PRIu64
           " of its %" PRIu64 " %s; %s",
           number, shares, path, each,
           more ? owned.count - whole->count : whole->count - owned.count, whole->count,
           more ? "are there once more" : "are nobody's", opening);
    }
  } else if (owned.count != whole->count) {
    FAULT("epoch %" PRIu64 ": the %s of '%s' have %" PRIu64 " names, the listing %" PRIu64 ": %s",
          number, shares, path, owned.count, whole->count,
          owned.count < whole->count ? "some are left out" : "some are in two shares");
  } else if (owned.sum != whole->sum) {
    FAULT("epoch %" PRIu64 ": the %s of '%s' overlap and leave out names: they are as many "
          "as the listing's, %" PRIu64 ", but not the same",
          number, shares, path, whole->count);
  } else {
    job.unproven += !exact;
    FACT("epoch %" PRIu64 ": the %s of '%s' partition its %" PRIu64 " names; %s", number, shares,
         path, whole->count, opening);
  }
  if (!exact) {
    FACT("epoch %" PRIu64 ": %" PRIu64 " opens, of %" PRIu64
         " files when those of each rank are added up",
         number, opens, opened.count);
  }
}

/* Check an epoch for which ranks, or epochs, had own lists. whole: of --listing, or NULL. */
static void check_lists(size_t k, uint64_t number, const struct ctl_nameset *whole) {
  const struct rank *r0 = &job.ranks[0];
  const struct dataset *d = &r0->datasets[k];
  const struct epoch *first = find_epoch(r0, k, number);
  bool same = true;
  for (size_t i = 0; i < job.count && strcmp(d->lists, "epochs") == 0; i++) {
    const struct rank *r = &job.ranks[i];
    const struct epoch *e = find_epoch(r, k, number);
    if (e && first && (!e->digest || !first->digest || strcmp(e->digest, first->digest) != 0)) {
      FAULT("epoch %" PRIu64 ": rank %d ('%s') has a list of '%s' with digest %s, rank %d has %s",
            number, r->rank, r->file, d->path, e->digest ? e->digest : "(none)", r0->rank,
            first->digest ? first->digest : "(none)");
      same = false;
    }
  }
  if (same && (whole || first)) {
    check_partition(k, number, whole ? whole : &first->whole);
  } else if (same) {
    FAULT("rank %d ('%s') has no epoch %" PRIu64 " of '%s', and other ranks have", r0->rank,
          r0->file, number, d->path);
  }
}

/* Tell what was opened under a program that shards by itself, which is no fault whatever it is. */
static void tell_epoch(size_t k, uint64_t number) {
  const struct dataset *first = &job.ranks[0].datasets[k];
  struct ctl_nameset opened = {0};
  uint64_t opens = 0;
  bool counted = true;
  for (size_t i = 0; i < job.count; i++) {
    const struct epoch *e = find_epoch(&job.ranks[i], k, number);
    counted = counted && job.ranks[i].lost == 0;
    if (e) {
      opens += e->opened;
      add(&opened, e->distinct);
    }
  }
  bool whole =
      counted && first->summed && first->used == first->entries && equal(opened, first->whole);
  job.unproven += !whole && opened.count >= first->used;
  FACT("epoch %" PRIu64 " of '%s': %" PRIu64 " opens, of %" PRIu64
       " files when those of each rank are added up; the program uses %" PRIu64 ": %s",
       number, first->path, opens, opened.count, first->used,
       whole ? "each was opened by exactly one rank"
       : opened.count < first->used
           ? "some were opened by none (as where the last, partial batch is dropped)"
           : "not proven: which were opened by several ranks");
}

/* The least epoch, from `least` on, that any rank has; UINT64_MAX: there is none. */
static uint64_t next_epoch(size_t k, uint64_t least) {
  uint64_t next = UINT64_MAX;
  for (size_t i = 0; i < job.count; i++) {
    const struct epoch *e = find_from(&job.ranks[i].datasets[k], least);
    next = e && e->number < next ? e->number : next;
  }
  return next;
}

static void check_epochs(size_t k) {
  const struct rank *first = &job.ranks[0];
  const struct dataset *d = &first->datasets[k];
  struct ctl_nameset whole = d->whole;
  bool shared = strcmp(first->view, "global") != 0, hash = strcmp(first->strategy, "hash") == 0;
  bool lists = shared && strcmp(d->lists, "one") != 0, sorted = true;
  if (!d->digest && !(shared && (hash || lists))) {
    FAULT("no rank has used a listing of '%s'", d->path);
    return;
  }
  if (job.listing) {
    struct shard_listing_info info;
    const char *inside[INSIDE_MOST];
    size_t inside_count = shared ? find_inside(k, inside) : 0;
    shard_listing_info(job.listing, &info);
    if (ctl_nameset_sum(job.listing, inside, inside_count, &whole, NULL, 0) != 0) {
      FAULT("'%s' is damaged", job.listing_file);
      return;
    }
    /* The digest depends on the order, the sum does not: a manifest may have the same names. */
    sorted = !d->digest || strcmp(info.digest, d->digest) == 0;
    if (d->digest && ((!sorted && !d->summed) || whole.count != d->entries ||
                      (d->summed && !equal(whole, d->whole)))) {
      FAULT("the ranks have used a listing of '%s' with %" PRIu64 " entries, digest %s; '%s' has "
            "%" PRIu64 ", digest %s",
            d->path, d->entries, d->digest, job.listing_file, whole.count, info.digest);
      return;
    }
  } else if (lists && strcmp(d->lists, "ranks") == 0) {
    FAULT("cannot prove without --listing that the lists of '%s' that ranks were given have all "
          "of it, each name once",
          d->path);
    return;
  } else if (lists) {
    job.unproven++;
    FACT("not proven without --listing: that the list of each epoch has all of '%s'", d->path);
  } else if (shared && (hash || !d->summed)) {
    FAULT("cannot prove without --listing that nothing of '%s' was left out: %s", d->path,
          hash ? "under SHARD_STRATEGY=hash ranks use no listing" : "the listing was gone");
    return;
  }
  if (d->digest) {
    FACT("all ranks used one listing of '%s': %" PRIu64 " entries, digest %s", d->path, d->entries,
         d->digest);
  }
  if (!sorted) {
    FACT("'%s' has the same names in another order; shares are not computed anew from it",
         job.listing_file);
  }
  if (next_epoch(k, 0) == UINT64_MAX) {
    job.unproven++;
    FACT("not proven: anything that was opened of '%s', for no rank has an epoch of it", d->path);
  }
  for (uint64_t n = next_epoch(k, 0); n != UINT64_MAX; n = next_epoch(k, n + 1)) {
    if (!shared) {
      tell_epoch(k, n);
    } else if (lists) {
      check_lists(k, n, job.listing ? &whole : NULL);
    } else {
      check_partition(k, n, &whole);
      if (job.listing && sorted) {
        check_shares(k, n, &whole);
      }
    }
  }
}

/* ---- all of it ---------------------------------------------------------- */

/* listing: --listing, or NULL. */
static void check(struct shard_listing *listing) {
  bool complete = check_ranks(), unused = listing;
  struct shard_listing_info info;
  if (!check_settings()) {
    return;
  }
  size_t count = job.ranks[0].count;
  if (listing) {
    shard_listing_info(listing, &info);
  }
  for (size_t k = 0; k < count; k++) {
    /* It is used for the dataset that it was made of; if there is only one dataset, for that. */
    bool fits = listing && (count == 1 || strcmp(info.source, job.ranks[0].datasets[k].path) == 0);
    job.listing = fits ? listing : NULL;
    unused = unused && !fits;
    if (check_dataset(k) && complete) {
      check_epochs(k);
    }
  }
  if (unused) {
    FAULT("'%s' is of none of the datasets, but of '%s'", job.listing_file, info.source);
  }
}

size_t ctl_proof_make(char *const *files, struct shard_listing *listing, const char *listing_file,
                      struct json_object *faults, struct json_object *facts, size_t *unproven) {
  size_t given = 0;
  while (files[given]) {
    given++;
  }
  free(job.ranks);
  memset(&job, 0, sizeof(job));
  job.faults = faults;
  job.facts = facts;
  job.listing_file = listing_file;
  job.ranks = calloc(given + 1, sizeof(*job.ranks));
  if (!job.ranks) {
    FAULT("no memory left");
    return 0;
  }
  for (size_t i = 0; i < given; i++) {
    job.count += read_rank(files[i], &job.ranks[job.count]);
  }
  qsort(job.ranks, job.count, sizeof(*job.ranks), by_rank);
  if (job.count == given) {
    check(listing);
  }
  *unproven = job.unproven;
  return job.count;
}

struct json_object *ctl_proof_rank(size_t i) {
  return job.ranks[i].json;
}
