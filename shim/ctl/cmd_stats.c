/* SPDX-License-Identifier: MIT */
/*
 * cmd_stats.c - shardctl stats: the statistics of a rank (SHARD_STATS) from the log that its
 * processes have kept (stats/log.h). libshard.so runs this at the end of the rank's main process:
 * sorting the notes takes none of the benchmark's memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/words.h"
#include "config/dataset.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/json.h"
#include "ctl/nameset.h"
#include "ctl/output.h"
#include "libshard.h"
#include "listing/samples.h"
#include "stats/late.h"
#include "stats/log.h"

static const struct ctl_option rows[] = {{"output", 'o', .text = &ctl_given.output}, CTL_ROW_END};

#define BUCKET (1U << 22) /* notes that are sorted at once: 64 MB */

struct epoch {
  uint64_t opened;
  struct ctl_nameset distinct, owned;
  bool passed;                 /* names were read for it */
  struct shard_log_list *list; /* the epoch's own list; NULL: that of the dataset, or unknown */
  bool mixed, summed;          /* processes used different lists; the sums of `whole` are known */
  struct ctl_nameset whole;
};

struct dataset {
  const struct shard_log_dataset *log;
  struct epoch *epochs;
  size_t count;
  bool listed, summed; /* there is a listing; the sums of `whole` are known */
  uint64_t entries;
  struct ctl_nameset whole, owned;
};

struct note {
  uint64_t hash, what;
};
static_assert(sizeof(struct note) == sizeof(struct shard_log_note), "as the log has it");

#define WINDOW (1U << 15)             /* notes that are read at once */
static struct note window[2][WINDOW]; /* the same ones twice */

/* Opens over time, in BINS parts of `bin` milliseconds; as time goes on, two become one. */
#define BINS 128
struct times {
  uint64_t now, bin, used, first; /* first: of the first open, and 1; 0: there was none */
  uint64_t opens[BINS];
};

struct stats {
  struct times times;
  const struct shard_log_head *head;
  int fd;
  uint64_t count;
  uint64_t from, held; /* which notes are in `window` */
  bool cut;            /* notes are gone, or cannot be read */
  uint64_t unfinished; /* places that are claimed, and have no note */
  struct dataset datasets[SHARD_LOG_DATASETS];
};

/* ---- reading ------------------------------------------------------------ */

static const struct shard_log_dataset *slot(const struct stats *s, uint32_t i) {
  return (const struct shard_log_dataset *)((const char *)s->head + SHARD_LOG_HEAD +
                                            (size_t)i * SHARD_LOG_SLOT);
}

#define END(text) ((text)[sizeof(text) - 1] = 0)

static bool read_at(int fd, uint64_t at, void *buf, size_t size) {
  size_t got = 0;
  for (ssize_t n = 1; n > 0 && got<size; got += n> 0 ? (size_t)n : 0) {
    n = pread(fd, (char *)buf + got, size - got, (off_t)(at + got));
  }
  return got == size;
}

/* Whether the rest can be computed with these numbers. */
static bool is_sound(const struct shard_log_head *head) {
  return head->magic == SHARD_LOG_MAGIC && head->size >= 1 && head->rank >= 0 &&
         head->rank < head->size && head->strategy <= SHARD_STRATEGY_HASH &&
         head->remainder <= SHARD_REMAINDER_REPEAT && head->sample <= SHARD_SAMPLE_DIRECTORY;
}

/* The log's head and its datasets, whose texts end. Malloc'd; NULL if it is no log. */
static struct shard_log_head *read_head(int fd) {
  struct shard_log_head *head = malloc(SHARD_LOG_SEGMENT);
  if (!head || !read_at(fd, 0, head, SHARD_LOG_SEGMENT) || !is_sound(head)) {
    free(head);
    return NULL;
  }
  END(head->launcher);
  END(head->host);
  for (uint32_t i = 0; i < SHARD_LOG_DATASETS; i++) {
    struct shard_log_dataset *d =
        (struct shard_log_dataset *)((char *)head + SHARD_LOG_HEAD + (size_t)i * SHARD_LOG_SLOT);
    END(d->digest);
    END(d->root);
    END(d->listing);
    END(d->options.include);
  }
  return head;
}

/*
 * Open the log for *s, for as long as the process lives. `own`: its name tells where the
 * statistics go, so it must be this user's, or another user tells it.
 */
static int open_log(const char *file, bool own, struct stats *s) {
  struct stat st;
  int fd = open(file, (own ? O_RDWR | O_NOFOLLOW : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || shard_kernel_fstat(fd, &st) != 0) {
    return errno == ELOOP
               ? ctl_fail("log '%s' is a link; name what it leads to, or use -o FILE", file)
               : ctl_fail("cannot read log '%s': %s", file, strerror(errno));
  }
  if (own && st.st_uid != shard_kernel_user()) {
    close(fd);
    return ctl_fail("log '%s' is user %u's; use -o FILE to say where its statistics go", file,
                    (unsigned)st.st_uid);
  }
  uint64_t size = S_ISREG(st.st_mode) && st.st_size >= (off_t)SHARD_LOG_SEGMENT
                      ? (uint64_t)st.st_size - SHARD_LOG_SEGMENT
                      : 0;
  const struct shard_log_head *head = S_ISREG(st.st_mode) ? read_head(fd) : NULL;
  if (!head) {
    close(fd);
    return ctl_fail("'%s' is not a log of SHARD_STATS, or is damaged", file);
  }
  s->head = head;
  s->fd = fd;
  uint64_t most = size / sizeof(struct note);
  s->count = atomic_load(&s->head->notes);
  s->count = s->count < most ? s->count : most;
  return CTL_DONE;
}

/*
 * The k-th note, until the next one is asked for; NULL if it cannot be read. The log is not mapped,
 * for its owner may cut it. It may be written to meanwhile, and the kernel copies the parts of a
 * note in any order: so a hash is read once more, after the second part that tells it is there.
 */
static const struct note *note_at(struct stats *s, uint64_t k) {
  if (k < s->from || k >= s->from + s->held) {
    s->from = k;
    s->held = s->count - k < WINDOW ? s->count - k : WINDOW;
    for (int i = 0; i < 2 && !s->cut; i++) {
      s->cut = !read_at(s->fd, SHARD_LOG_SEGMENT + k * sizeof(struct note), window[i],
                        s->held * sizeof(struct note));
    }
    for (uint64_t i = 0; i < s->held; i++) {
      window[0][i].hash = window[1][i].hash;
    }
  }
  return s->cut ? NULL : &window[0][k - s->from];
}

/* Read the k-th note. false if it was never finished, or its dataset is unknown. */
static bool get_note(struct stats *s, uint64_t k, struct note *out, struct dataset **d,
                     uint64_t *epoch) {
  const struct note *found = note_at(s, k);
  *out = found ? *found : (struct note){0};
  uint64_t i = out->what >> 24 & 255;
  *epoch = out->what >> 32;
  if ((out->what & 0xffff) != SHARD_LOG_MARK || i >= SHARD_LOG_DATASETS || !s->datasets[i].log ||
      *epoch >= SHARD_LOG_EPOCHS) {
    return false;
  }
  *d = &s->datasets[i];
  return true;
}

static bool make_epochs(struct dataset *d, size_t count) {
  if (count > d->count) {
    struct epoch *more = reallocarray(d->epochs, count, sizeof(*more));
    if (!more) {
      return false;
    }
    memset(more + d->count, 0, (count - d->count) * sizeof(*more));
    d->epochs = more;
    d->count = count;
  }
  return true;
}

static int by_what(const void *pa, const void *pb) {
  const struct note *a = pa, *b = pb;
  if (a->what != b->what) {
    return a->what < b->what ? -1 : 1;
  }
  return (a->hash > b->hash) - (a->hash < b->hash);
}

static void count_distinct(struct stats *s, struct note *notes, size_t n) {
  qsort(notes, n, sizeof(*notes), by_what);
  for (size_t k = 0; k < n; k++) {
    if (k > 0 && by_what(&notes[k - 1], &notes[k]) == 0) {
      continue;
    }
    struct dataset *d = &s->datasets[notes[k].what >> 24 & 255];
    struct epoch *e = &d->epochs[notes[k].what >> 32];
    bool opened = (notes[k].what >> 16 & 255) == SHARD_LOG_OPENED;
    struct ctl_nameset *set = opened ? &e->distinct : &e->owned;
    set->count++;
    set->sum += notes[k].hash;
  }
}

/* Read the list that the k-th note, n, begins. It is passed over if its process was killed while it
 * was noting it. false: no memory. */
static bool take_list(struct stats *s, uint64_t k, const struct note *n, struct epoch *e) {
  uint64_t words = n->hash;
  uint64_t wanted = n->what + ((uint64_t)(SHARD_LOG_TEXT - SHARD_LOG_LIST) << 16);
  if (words > sizeof(struct shard_log_list) / 8 || words >= s->count - k) {
    return true;
  }
  struct shard_log_list *list = calloc(1, sizeof(*list));
  for (uint64_t i = 0; list && i < words; i++) {
    const struct note *text = note_at(s, k + 1 + i);
    if (!text || text->what != wanted) {
      free(list);
      return true;
    }
    memcpy((char *)list + 8 * i, &text->hash, sizeof(text->hash));
  }
  if (list && !e->list) {
    list->listing[PATH_MAX - 1] = 0;
    e->list = list;
    return true;
  }
  e->mixed |= list && memcmp(list->digest, e->list->digest, sizeof(list->digest)) != 0;
  free(list);
  return list;
}

static void count_open(struct times *t) {
  t->bin = t->bin ? t->bin : 1;
  while (t->now / t->bin >= BINS) {
    for (uint64_t i = 0; i < BINS; i++) {
      t->opens[i] = i < BINS / 2 ? t->opens[2 * i] + t->opens[2 * i + 1] : 0;
    }
    t->bin *= 2;
    t->used = (t->used + 1) / 2;
  }
  t->opens[t->now / t->bin]++;
  t->used = t->now / t->bin + 1 > t->used ? t->now / t->bin + 1 : t->used;
  t->first = t->first ? t->first : t->now + 1;
}

/* Count the notes, sorting as many at a time as have a hash in one bucket. */
static bool count_notes(struct stats *s) {
  struct note n;
  struct dataset *d;
  uint64_t epoch;
  uint64_t buckets = s->count / (BUCKET / 2) + 1, room = s->count < BUCKET ? s->count : BUCKET;
  struct note *part = calloc(room + 1, sizeof(*part));
  bool good = part;
  s->unfinished = atomic_load(&s->head->notes);
  for (uint64_t k = 0; good && !s->cut && k < s->count; k++) {
    if (get_note(s, k, &n, &d, &epoch)) {
      s->unfinished--;
      unsigned kind = n.what >> 16 & 255;
      good = make_epochs(d, epoch + 1);
      if (good && kind == SHARD_LOG_OPENED) {
        d->epochs[epoch].opened++;
        count_open(&s->times);
      } else if (kind == SHARD_LOG_TIME) {
        s->times.now = n.hash > s->times.now && n.hash < UINT64_MAX / 2 ? n.hash : s->times.now;
      } else if (good && kind == SHARD_LOG_PASSED) {
        d->epochs[epoch].passed = true;
      } else if (good && kind == SHARD_LOG_LIST) {
        good = take_list(s, k, &n, &d->epochs[epoch]);
      }
    }
  }
  for (uint64_t b = 0; good && !s->cut && b < buckets; b++) {
    size_t used = 0;
    for (uint64_t k = 0; !s->cut && k < s->count; k++) {
      /* Its owner may have written to the log since it was counted. */
      if (!get_note(s, k, &n, &d, &epoch) || epoch >= d->count ||
          (n.what >> 16 & 255) > SHARD_LOG_SERVED ||
          (uint64_t)((unsigned __int128)n.hash * buckets >> 64) != b) {
        continue;
      }
      if (used == room) { /* one file may have been opened very often */
        room *= 2;
        struct note *more = reallocarray(part, room + 1, sizeof(*more));
        good = more;
        if (!good) {
          break;
        }
        part = more;
      }
      part[used++] = n;
    }
    count_distinct(s, part, good ? used : 0);
  }
  free(part);
  return good;
}

/* ---- what a dataset's listing says -------------------------------------- */

/* Paths, from the root of dataset d, of others that lie in it. */
static size_t find_inside(const struct stats *s, const struct dataset *d, const char **inside) {
  const char *roots[SHARD_LOG_DATASETS];
  size_t outer = 0;
  for (size_t i = 0; i < SHARD_LOG_DATASETS; i++) {
    const struct shard_log_dataset *other = s->datasets[i].log;
    roots[i] = other && other->program == d->log->program ? other->root : NULL;
    outer = other == d->log ? i : outer;
  }
  return shard_dataset_find_inside(roots, SHARD_LOG_DATASETS, outer, inside, SHARD_LOG_DATASETS);
}

/* Sum up a listing if it is still the one with this digest (ctl/nameset.h). */
static bool sum_listing(const char *file, const char *digest, const char *const *inside,
                        size_t inside_count, struct ctl_nameset *whole,
                        struct ctl_nameset_share *shares, size_t count) {
  struct shard_listing *listing;
  struct shard_listing_info info;
  if (shard_listing_open(file, &listing) != 0) {
    return false;
  }
  shard_listing_info(listing, &info);
  for (size_t k = 0; k < count && inside_count == 0; k++) {
    shard_share_resize(&shares[k].share, shard_listing_samples(listing));
  }
  bool good = strncmp(info.digest, digest, sizeof(((struct shard_log_list *)0)->digest)) == 0 &&
              ctl_nameset_sum(listing, inside, inside_count, whole, shares, count) == 0;
  shard_listing_close(listing);
  return good;
}

/* Compute the rank's share of each epoch; without a shuffle all epochs have that of the first. */
static void find_shares(const struct stats *s, struct dataset *d) {
  const struct shard_log_head *h = s->head;
  const char *inside[SHARD_LOG_DATASETS];
  bool shared = atomic_load(&h->view) == SHARD_VIEW_SHARD && h->strategy != SHARD_STRATEGY_HASH;
  size_t count = !shared ? 0 : h->shuffled ? d->count : 1;
  struct ctl_nameset_share *shares = calloc(count + 1, sizeof(*shares));
  if (!shares) {
    return;
  }
  for (size_t k = 0; k < count; k++) {
    uint64_t key = h->shuffled ? shard_shuffle_key(h->seed, d->log->first + k) : 0;
    shard_share_init(&shares[k].share, (enum shard_strategy)h->strategy,
                     (enum shard_remainder)h->remainder, (uint32_t)h->rank, (uint32_t)h->size,
                     d->entries, key);
    shares[k].owned.count = shares[k].share.count;
  }
  d->summed =
      sum_listing(d->log->listing, d->log->digest, inside,
                  d->log->program ? 0 : find_inside(s, d, inside), &d->whole, shares, count) &&
      d->whole.count == d->entries;
  for (size_t k = 0; shared && k < d->count; k++) {
    d->epochs[k].owned = shares[k < count ? k : count - 1].owned;
  }
  free(shares);
}

/* Compute what the rank owns of an epoch's own list: all of it, or its share. */
static void find_share_of_list(const struct stats *s, const struct dataset *d, size_t k) {
  const struct shard_log_head *h = s->head;
  struct epoch *e = &d->epochs[k];
  bool all = atomic_load(&d->log->lists) == SHARD_LOG_RANKS;
  if (k > 0 && all && e[-1].list && memcmp(e->list, e[-1].list, sizeof(*e->list)) == 0) {
    e->owned = e[-1].owned;
    e->whole = e[-1].whole;
    e->summed = e[-1].summed;
    return;
  }
  struct ctl_nameset_share share;
  uint64_t key = h->shuffled && !all ? shard_shuffle_key(h->seed, d->log->first + k) : 0;
  shard_share_init(&share.share, (enum shard_strategy)h->strategy,
                   all ? SHARD_REMAINDER_KEEP : (enum shard_remainder)h->remainder,
                   all ? 0 : (uint32_t)h->rank, all ? 1 : (uint32_t)h->size, e->list->entries, key);
  share.owned = (struct ctl_nameset){0};
  e->summed = sum_listing(e->list->listing, e->list->digest, NULL, 0, &e->whole, &share, 1);
  e->owned = share.owned;
}

static bool judge_dataset(struct stats *s, struct dataset *d) {
  bool global = atomic_load(&s->head->view) == SHARD_VIEW_GLOBAL;
  uint64_t last = atomic_load(&d->log->last) - d->log->first;
  if (last >= SHARD_LOG_EPOCHS || !make_epochs(d, last + 1)) {
    return false;
  }
  /* DLIO announces one epoch more than it runs. */
  while (global && d->count > 0 && d->epochs[d->count - 1].opened == 0) {
    d->count--;
  }
  d->listed = atomic_load(&d->log->listed) == SHARD_LOG_READY;
  d->entries = atomic_load(&d->log->entries);
  if (d->listed) {
    find_shares(s, d);
  }
  for (size_t k = 0; k < d->count; k++) {
    if (d->epochs[k].list) {
      find_share_of_list(s, d, k);
    }
  }
  for (size_t k = 0; k < d->count; k++) {
    const struct epoch *e = &d->epochs[k];
    if (!global && (e->passed || k == 0)) {
      d->owned = e->owned;
    } else if (global && e->distinct.count > d->owned.count) {
      d->owned = e->distinct;
    }
  }
  return true;
}

/* ---- writing ------------------------------------------------------------ */

static struct json_object *make_epoch(const struct dataset *d, size_t k, bool shared, bool summed) {
  const struct epoch *e = &d->epochs[k];
  struct json_object *o = ctl_json_object();
  ctl_json_add_number(o, "epoch", d->log->first + k);
  ctl_json_add_number(o, "opened", e->opened);
  ctl_json_add_number(o, "distinct", e->distinct.count);
  ctl_json_add_sum(o, "distinct_sum", e->distinct.sum, true);
  if (shared) {
    ctl_json_add_number(o, "owned", e->owned.count);
    ctl_json_add_sum(o, "owned_sum", e->owned.sum, e->list ? e->summed : summed);
  }
  if (e->list) {
    char digest[sizeof(e->list->digest) + 1];
    snprintf(digest, sizeof(digest), "%.64s", e->list->digest);
    ctl_json_add_number(o, "entries", e->list->entries);
    ctl_json_add_text(o, "digest", digest);
    ctl_json_add_sum(o, "sum", e->whole.sum, e->summed);
  }
  return o;
}

static struct json_object *make_epochs_list(const struct dataset *d, bool shared, bool summed) {
  struct json_object *list = ctl_json_array();
  for (size_t k = 0; k < d->count; k++) {
    const struct epoch *e = &d->epochs[k];
    if (shared && !e->passed && e->opened == 0 && d->count > 1) {
      continue; /* the job chose epochs by number, and not this one */
    }
    ctl_json_add(list, NULL, make_epoch(d, k, shared, summed));
  }
  return list;
}

/* Whether the sum of the latest epoch's own list is known. */
static bool summed_last(const struct dataset *d) {
  const struct epoch *e = d->epochs;
  for (size_t k = 0; k < d->count; k++) {
    e = d->epochs[k].passed ? &d->epochs[k] : e;
  }
  return e && e->list && e->summed;
}

/* Add what there is to say of a dataset. Without one (NULL) the keys are the same. */
static void add_dataset(struct json_object *o, const struct stats *s, const struct dataset *d) {
  static const char *const lists[] = {"one", "ranks", "epochs"};
  bool global = atomic_load(&s->head->view) == SHARD_VIEW_GLOBAL;
  bool hash = !global && s->head->strategy == SHARD_STRATEGY_HASH;
  bool mixed = d && atomic_load(&d->log->mixed);
  for (size_t k = 0; d && k < d->count; k++) {
    mixed |= d->epochs[k].mixed;
  }
  ctl_json_add_text(o, "dataset", d ? d->log->root : NULL);
  bool listed = d && d->listed;
  ctl_json_add_known(o, "entries", d ? d->entries : 0, listed);
  ctl_json_add_known(o, "used", d ? atomic_load(&d->log->used) : 0, listed);
  ctl_json_add_text(o, "digest", listed ? d->log->digest : NULL);
  ctl_json_add_sum(o, "sum", d ? d->whole.sum : 0, d && d->summed);
  ctl_json_add_number(o, "owned", d ? d->owned.count : 0);
  ctl_json_add_sum(o, "owned_sum", d ? d->owned.sum : 0,
                   d && (global || hash || d->summed || summed_last(d)));
  uint64_t at_hand = d ? atomic_load(&d->log->at_hand) : 0;
  ctl_json_add_known(o, "listed_ms", at_hand - 1, at_hand > 0);
  ctl_json_add_bool(o, "mixed", mixed);
  ctl_json_add_text(o, "lists", lists[d ? atomic_load(&d->log->lists) % 3 : 0]);
  ctl_json_add(o, "epochs", d ? make_epochs_list(d, !global, hash || d->summed) : ctl_json_array());
}

/* When the rank began, and what it did since; null where it is not known. */
static struct json_object *make_times(const struct stats *s) {
  const struct times *t = &s->times;
  uint64_t lasted = atomic_load(&s->head->lasted);
  struct json_object *o = ctl_json_object(), *opens = ctl_json_array();
  ctl_json_add_known(o, "begun_ms", (uint64_t)s->head->begun, s->head->begun > 0);
  ctl_json_add_known(o, "lasted_ms", lasted - 1, lasted > 0);
  ctl_json_add_known(o, "first_open_ms", t->first - 1, t->first > 0);
  ctl_json_add_number(o, "bin_ms", t->bin);
  for (uint64_t i = 0; i < t->used; i++) {
    ctl_json_add_number(opens, NULL, t->opens[i]);
  }
  ctl_json_add(o, "opens", opens);
  return o;
}

/* What could not be noted. A process that is killed may leave the place that it has claimed empty.
 */
static uint64_t count_lost(const struct stats *s) {
  uint64_t untimed = atomic_load(&s->head->untimed);
  return atomic_load(&s->head->lost) + (s->unfinished > untimed ? s->unfinished - untimed : 0);
}

static struct json_object *make_stats(const struct stats *s) {
  const struct shard_log_head *h = s->head;
  uint32_t view = atomic_load(&h->view);
  bool global = view == SHARD_VIEW_GLOBAL;
  const struct dataset *first = NULL;
  struct json_object *o = ctl_json_object(), *datasets = ctl_json_array();
  for (uint32_t i = 0; i < SHARD_LOG_DATASETS; i++) {
    const struct dataset *d = &s->datasets[i];
    if (d->log && d->log->program == global) {
      struct json_object *one = ctl_json_object();
      add_dataset(one, s, d);
      ctl_json_add(datasets, NULL, one);
      first = first ? first : d;
    }
  }
  ctl_json_add_text(o, "libshard", shard_version());
  ctl_json_add_decimal(o, "rank", h->rank, 0);
  ctl_json_add_decimal(o, "size", h->size, 0);
  ctl_json_add_text(o, "host", h->host);
  ctl_json_add_text(o, "launcher", h->launcher);
  ctl_json_add_text(o, "view", shard_words_at(shard_words_views, view));
  ctl_json_add_text(o, "strategy",
                    global ? "none" : shard_words_at(shard_words_strategies, h->strategy));
  ctl_json_add_text(o, "sample", global ? "none" : shard_words_at(shard_words_samples, h->sample));
  ctl_json_add_text(o, "remainder",
                    global ? "none" : shard_words_at(shard_words_remainders, h->remainder));
  ctl_json_add_known(o, "seed", h->seed, h->shuffled && !global);
  ctl_json_add_sum(o, "job", h->job, h->job != 0);
  ctl_json_add_sum(o, "log", h->nonce, true);
  ctl_json_add_number(o, "lost", count_lost(s)); /* see stats/late.h */
  ctl_json_add_known(o, "peak_rss", atomic_load(&h->peak), atomic_load(&h->peak) > 0);
  ctl_json_add(o, "times", make_times(s));
  add_dataset(o, s, first); /* most jobs have one: it stands at the top, too */
  ctl_json_add(o, "datasets", datasets);
  return o;
}

static int print_to(void *context, FILE *out) { return ctl_json_print(make_stats(context), out); }

/* Into a file that appears whole or not at all. */
static int write_file(struct stats *s, const char *file) {
  struct ctl_output out;
  struct stat st;
  if (lstat(file, &st) == 0 && !S_ISREG(st.st_mode)) {
    return ctl_fail("'%s' is not a regular file", file);
  }
  int rc = ctl_output_open(file, "SHARD_STATS", SHARD_WHOLE_LAZY, &out);
  if (rc == CTL_DONE) {
    rc = ctl_output_print(&out, print_to, s);
    int ended = ctl_output_end(&out, rc == CTL_DONE);
    rc = rc == CTL_DONE ? ended : rc;
  }
  return rc;
}

/*
 * Processes of the rank may live on, and open files. What they have noted while the statistics were
 * made is told here as lost; what they note later, they tell themselves (log.h).
 * CTL_DONE, or a failure: then the log must stay, which says so, too.
 */
static int tell_late(const struct stats *s, const char *file) {
  static_assert(offsetof(struct shard_log_head, lost) ==
                    offsetof(struct shard_log_head, notes) + sizeof(uint64_t),
                "both are read at once");
  uint64_t now[2];
  const uint32_t ended = 1;
  bool marked = atomic_load(&s->head->ended) != 0 ||
                pwrite(s->fd, &ended, sizeof(ended), offsetof(struct shard_log_head, ended)) ==
                    (ssize_t)sizeof(ended);
  static atomic_int fence; /* (ThreadSanitizer knows no other) */
  atomic_fetch_add(&fence, 1);
  if (marked && read_at(s->fd, offsetof(struct shard_log_head, notes), now, sizeof(now)) &&
      now[0] == atomic_load(&s->head->notes) && now[1] == atomic_load(&s->head->lost)) {
    return CTL_DONE;
  }
  int rc = shard_late_tell(file, s->head->nonce);
  return rc >= 0
             ? CTL_DONE
             : ctl_fail("processes of the rank have opened files after its end, and '%s' cannot "
                        "be changed to say so: %s; the log is kept, so nothing is proven",
                        file, strerror(-rc));
}

static int count_all(struct stats *s, const char *file) {
  uint32_t n = atomic_load(&s->head->datasets);
  for (uint32_t i = 0; i < n && i < SHARD_LOG_DATASETS; i++) {
    const struct shard_log_dataset *d = slot(s, i);
    s->datasets[i].log = atomic_load(&d->state) == SHARD_LOG_READY ? d : NULL;
  }
  bool good = count_notes(s);
  for (uint32_t i = 0; good && !s->cut && i < SHARD_LOG_DATASETS; i++) {
    good = !s->datasets[i].log || judge_dataset(s, &s->datasets[i]);
  }
  return s->cut ? ctl_fail("log '%s' was cut while it was read, or cannot be read", file)
         : good ? CTL_DONE
                : ctl_fail("no memory left");
}

/* The process that still keeps this log; 0: there is none. */
static int64_t find_keeper(const struct shard_log_head *h) {
  struct utsname system;
  struct stat st;
  if (atomic_load(&h->ended) || uname(&system) != 0 || strcmp(system.nodename, h->host) != 0 ||
      stat("/proc/self/ns/pid", &st) != 0 || st.st_ino != h->namespace_ino) {
    return 0;
  }
  for (size_t i = 0; i < SHARD_LOG_KEEPERS; i++) {
    int64_t pid = SHARD_LOG_PID(atomic_load(&h->keepers[i]));
    if (pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM)) {
      return pid;
    }
  }
  return 0;
}

/* Where the statistics of a log go: its name tells, and nothing that stands in it. */
static int find_target(const char *file, char target[PATH_MAX]) {
  static const char end[] = ".log";
  size_t n = strlen(file), k = sizeof(end) - 1;
  if (n <= k || n - k >= PATH_MAX || strcmp(file + n - k, end) != 0 || file[n - k - 1] == '/') {
    return ctl_fail("'%s' is not named FILE.log, so it does not tell where its statistics go; use "
                    "-o FILE",
                    file);
  }
  memcpy(target, file, n - k);
  target[n - k] = 0;
  return CTL_DONE;
}

static int run(char **operands) {
  const char *output = ctl_given.output, *log = operands[0];
  char target[PATH_MAX];
  static struct stats s;
  int rc = output ? CTL_DONE : find_target(log, target);
  rc = rc == CTL_DONE ? open_log(log, !output, &s) : rc;
  int64_t keeper = rc == CTL_DONE && !output ? find_keeper(s.head) : 0;
  if (keeper != 0) {
    rc = ctl_fail("process %" PRId64 ", whose log '%s' is, has not ended; use -o FILE to see what "
                  "there is by now",
                  keeper, log);
  }
  rc = rc == CTL_DONE ? count_all(&s, log) : rc;
  if (rc == CTL_DONE && output && strcmp(output, "-") == 0) {
    return print_to(&s, stdout);
  }
  rc = rc == CTL_DONE ? write_file(&s, output ? output : target) : rc;
  if (rc == CTL_DONE && !output) {
    rc = tell_late(&s, target);
    if (rc == CTL_DONE && shard_kernel_has_name(s.fd, AT_FDCWD, log) > 0) { /* or a next run's */
      unlink(log);
    }
  }
  return rc;
}

const struct ctl_command ctl_cmd_stats = {ctl_help_stats, rows, CTL_ONE, "one log", run};
