/* SPDX-License-Identifier: MIT */
/*
 * cmd_verify.c - shardctl verify: prints what the logs of a run (SHARD_STATS) prove, in verdicts:
 *
 *   complete   no log is missing, and nothing is missing in the logs
 *   shares     all ranks share one listing, and the shares together are the listing
 *   read       each rank has opened all of its own files, and no other
 *   same       each rank has opened the same files as often as in another run (--same-as)
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/process.h"
#include "base/words.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/human.h"
#include "ctl/json.h"
#include "ctl/logs.h"
#include "ctl/output.h"
#include "libshard.h"
#include "listing/listing.h"

static const char *listing_file, *html_file, *other_folder;
static bool partial_ok, sets;

static const struct ctl_option rows[] = {CTL_ROW_JSON,
                                         {"listing", .text = &listing_file},
                                         {"html", .text = &html_file},
                                         {"same-as", .text = &other_folder},
                                         {"sets", .flag = &sets},
                                         {"partial-ok", .flag = &partial_ok},
                                         CTL_ROW_END};

static struct ctl_run runs[2]; /* the run, and that of --same-as */
static struct json_object *verdicts;
static bool all_proven;

/* ---- texts -------------------------------------------------------------- */

#define SHOWN 4 /* ranks, files or processes that a line names */
#define N(count) ctl_human_count(count).text

struct text {
  char at[8000];
  size_t used, items;
};

__attribute__((format(printf, 2, 3))) static void append(struct text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(t->at + t->used, sizeof(t->at) - t->used, format, args);
  size_t room = sizeof(t->at) - t->used; /* a text that does not fit is cut, and still is a fault */
  t->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
  va_end(args);
}

/* Returns whether another item of a list fits; a comma goes before the item. */
static bool more(struct text *t) {
  if (t->items++ < SHOWN) {
    append(t, "%s", t->items > 1 ? ", " : "");
  }
  return t->items <= SHOWN;
}
#define item(t, ...) (more(t) ? append((t), __VA_ARGS__) : (void)0)

static void end_items(struct text *t) {
  if (t->items > SHOWN) {
    append(t, ", and %zu more", t->items - SHOWN);
  }
  t->items = 0;
}

/* Print a verdict. of: the dataset, or the other folder; NULL: all. */
static void say(const char *name, const char *of, const char *epochs, bool proven,
                const struct text *t) {
  struct json_object *o = ctl_json_object();
  all_proven &= proven;
  ctl_json_add_text(o, "verdict", name);
  ctl_json_add_text(o, "dataset", of);
  ctl_json_add_text(o, "epochs", *epochs ? epochs : NULL);
  ctl_json_add_bool(o, "proven", proven);
  ctl_json_add_text(o, "text", t->at);
  ctl_json_add(verdicts, NULL, o);
  if (!ctl_args.json) {
    ctl_human_line("%s%s%s%s%s%s: %s: %s", name, of ? " '" : "", of ? of : "", of ? "'" : "",
                   *epochs ? ", epoch " : "", epochs, proven ? "proven" : "NOT PROVEN", t->at);
  }
}

/* ---- complete ----------------------------------------------------------- */

/* Returns whether the process of a log without an end still runs on this host. */
static bool is_running(const struct ctl_log *log) {
  struct utsname here;
  struct stat space;
  struct shard_process process;
  return log->head.ended == 0 && uname(&here) == 0 && strcmp(log->head.host, here.nodename) == 0 &&
         stat("/proc/self/ns/pid", &space) == 0 && log->head.namespace == space.st_ino &&
         shard_process_read((long)log->head.pid, &process) && !process.ended &&
         process.start == log->head.start;
}

/* Returns the first log of the same host that is of another job; NULL: none. A job's identity holds
 * on one host only, and a process that lists nothing does not know its job. */
static const struct ctl_log *find_other_job(const struct ctl_run *run, const struct ctl_log *log) {
  for (const struct ctl_log *one = run->logs; one < log && log->head.job != 0; one++) {
    if (one->head.job != 0 && strcmp(one->head.host, log->head.host) == 0) {
      return one->head.job != log->head.job ? one : NULL;
    }
  }
  return NULL;
}

/* Append the ranks from `from` to `to` - 1 as missing. */
static void append_missing(struct text *t, int from, int to, int size) {
  if (from + 1 < to) {
    item(t, "ranks %d to %d of %d are missing", from, to - 1, size);
  } else if (from + 1 == to) {
    item(t, "rank %d of %d is missing", from, size);
  }
}

static void append_faults(const struct ctl_run *run, struct text *t) {
  static const char folder[] = "let each run have a folder of its own";
  int next = 0;
  bool mixed = run->size == 0;
  for (size_t i = 0; i < run->bad_count; i++) {
    item(t, "%s", run->bad[i]);
  }
  if (run->log_count == 0) {
    item(t, "there is no log: was SHARD_STATS set for the ranks, and libshard.so preloaded?");
  } else if (mixed) {
    item(t, "the logs are of worlds of different sizes: %s", folder);
  }
  for (const struct ctl_log *log = run->logs; log < run->logs + run->log_count; log++) {
    const struct ctl_log *other = mixed ? NULL : find_other_job(run, log);
    if (log->head.rank < 0) {
      item(t, "'%s' is of a process that has no rank", log->path);
    }
    append_missing(t, next, run->size ? log->head.rank : 0, run->size);
    next = log->head.rank + 1;
    if (other) {
      mixed = true;
      item(t, "there are logs of several runs, such as '%s' and '%s': %s", other->path, log->path,
           folder);
    }
    if (log > run->logs && log[-1].head.rank == log->head.rank &&
        strcmp(log[-1].head.name, log->head.name) == 0) {
      item(t, "'%s' and '%s' are of one process: leave copies out", log[-1].path, log->path);
    }
    if (is_running(log)) {
      item(t, "process %" PRId64 " of rank %d is still running", log->head.pid, log->head.rank);
    }
    if (log->lost + log->torn > 0) {
      item(t,
           "'%s' is partial: %" PRIu64 " opens or more are not in it (was its disk full, its "
           "limit of descriptors or 67 million notes reached?)",
           log->path, log->lost + log->torn);
    }
  }
  append_missing(t, next, run->size, run->size);
  end_items(t);
}

/* Check that no log is missing, and nothing in the logs. */
static void check_complete(const struct ctl_run *run, const char *of) {
  struct text t = {.used = 0};
  size_t open = 0;
  append_faults(run, &t);
  bool good = t.used == 0;
  for (size_t i = 0; i < run->log_count; i++) {
    open += run->logs[i].head.ended == 0;
  }
  if (good) {
    append(&t, "%zu log%s of %d rank%s, and nothing is missing in them", run->log_count,
           run->log_count == 1 ? "" : "s", run->size, run->size == 1 ? "" : "s");
  }
  if (good && open > 0) {
    append(
        &t,
        "; %zu without an end: the process was killed, executed another program, or still runs on "
        "another host",
        open);
  }
  say("complete", of, "", good, &t);
}

/* ---- shares ------------------------------------------------------------- */

static const char *const ways[] = {"unlisted", "all", "one", "epochs", "ranks", "hash", "program"};

static void append_division(struct text *t, int rank, const struct ctl_division *d) {
  const struct shard_log_share *s = &d->told;
  append(
      t,
      "rank %d has a listing of %s names (%s), digest %.12s, strategy %s, remainder %s, samples by "
      "%s, ",
      rank, N(s->used), ways[s->how], d->digest[0] ? d->digest : "none",
      shard_words_at(shard_words_strategies, s->strategy),
      shard_words_at(shard_words_remainders, s->remainder),
      shard_words_at(shard_words_samples, s->sample));
  append(t, s->shuffled ? "seed %" PRIu64 : "not shuffled", s->seed);
}

/* Returns whether two ranks divide a dataset alike; each may have a list of its own. */
static bool is_alike(const struct ctl_division *a, const struct ctl_division *b) {
  struct shard_log_share s = b->told;
  bool own = s.how == SHARD_LOG_RANKS;
  if (own) {
    s.entries = a->told.entries;
    s.used = a->told.used;
    memcpy(s.digest, a->told.digest, sizeof(s.digest));
  }
  s.needed = a->told.needed;
  return memcmp(&a->told, &s, sizeof(s)) == 0;
}

/* Returns, in words, how often a name is in the ranks' shares. */
static const char *show_often(const struct shard_log_share *s) {
  bool whole = s->sample == SHARD_SAMPLE_FILE && s->used % s->size == 0;
  return s->remainder == SHARD_REMAINDER_DROP && !whole
             ? "each name once, but the last samples are nobody's (remainder drop)"
         : s->remainder == SHARD_REMAINDER_REPEAT && !whole
             ? "each name once, and some twice, so that all have as many samples (remainder repeat)"
             : "each name once";
}

/* Returns whether the ranks' own names in an epoch are together all names, each once. */
static bool is_partition(const struct ctl_epoch *e, struct text *t) {
  uint64_t own = 0;
  bool known = true;
  for (size_t i = 0; i < e->count; i++) {
    own += e->cells[i]->own;
    known &= !e->cells[i]->division || e->cells[i]->known;
  }
  bool good = known && own == e->dataset->all && own == e->owned && e->elsewhere == 0;
  if (!listing_file) {
    item(t, "whether the ranks' names are together all names cannot be told without --listing");
  } else if (!known) {
    item(t, "the list of a rank is gone: verify before the next job on its host");
  } else {
    item(t, "the ranks' names of epoch %" PRIu64 " are %s of %s in '%s'%s", e->number, N(own),
         N(e->dataset->all), listing_file,
         good                    ? ", each once"
         : own < e->dataset->all ? ": some are left out"
         : own > e->dataset->all ? ": some are in two shares"
                                 : ", but not the same");
  }
  return good;
}

static bool has_listed(const struct ctl_epoch *epochs, size_t count, int rank) {
  for (const struct ctl_epoch *e = epochs; e < epochs + count; e++) {
    size_t i = (size_t)rank < e->count ? (size_t)rank + 1 : e->count; /* ranks ascend */
    for (; i > 0 && e->cells[i - 1]->rank >= rank; i--) {
      if (e->cells[i - 1]->rank == rank && e->cells[i - 1]->division) {
        return true;
      }
    }
  }
  return false;
}

/* Check that all ranks divide the dataset of these epochs alike. */
static void check_shares(const struct ctl_run *run, const struct ctl_epoch *epochs, size_t count) {
  const struct ctl_cell *first = NULL;
  struct text t = {.used = 0};
  bool good = true;
  for (const struct ctl_epoch *e = epochs; e < epochs + count; e++) {
    for (size_t i = 0; i < e->count && good; i++) {
      const struct ctl_cell *c = e->cells[i];
      if (!c->division) {
        continue;
      }
      bool anew = first && c->division->told.how == SHARD_LOG_BY_EPOCH && first->epoch != c->epoch;
      first = first && !anew ? first : c;
      const struct ctl_division *d = c->mixed ? c->mixed : first->division;
      good = !c->mixed && is_alike(d, c->division);
      if (!good) {
        append_division(&t, c->mixed ? c->rank : first->rank, d);
        append(&t, "; ");
        append_division(&t, c->rank, c->division);
      }
    }
  }
  int missing = 0;
  while (missing < run->size && has_listed(epochs, count, missing)) {
    missing++;
  }
  if (!first) {
    good = false;
    append(&t, "no process has listed it, so libshard has divided nothing: was it opened by names "
               "from elsewhere (a pattern such as {00..62}, a CSV), or with SHARD_VIEW=off?");
  } else if (good && missing < run->size) {
    good = false;
    append(&t, "rank %d has not listed it", missing);
  } else if (good) {
    const struct shard_log_share *s = &first->division->told;
    const char *strategy = shard_words_at(shard_words_strategies, s->strategy);
    if (s->how == SHARD_LOG_HASHED || s->how == SHARD_LOG_RANKS) {
      for (const struct ctl_epoch *e = epochs; e < epochs + count && good; e++) {
        good = is_partition(e, &t);
      }
      end_items(&t);
    } else if (s->how == SHARD_LOG_PROGRAM) {
      append(&t,
             "the program divides its files itself; all ranks have one listing of %s, digest %.12s",
             N(s->entries), first->division->digest);
    } else if (s->how == SHARD_LOG_ALL) {
      append(&t, "a world of one: all names are rank 0's");
    } else if (s->how == SHARD_LOG_BY_EPOCH) {
      append(&t,
             "%d ranks share one list in each epoch, %s, by %s; whether it has all names is not "
             "looked at",
             run->size, show_often(s), strategy);
    } else {
      append(&t, "%d ranks share one listing of %s names, digest %.12s, %s, by %s%s", run->size,
             N(s->entries), first->division->digest, show_often(s), strategy,
             s->shuffled ? ", shuffled" : "");
    }
  }
  say("shares", epochs->dataset->root, "", good, &t);
}

/* ---- read --------------------------------------------------------------- */

/* The sum of an epoch's cells. */
struct total {
  uint64_t own, read, others, opens, distinct, least, most;
  size_t unknown, twice; /* cells; the latter of a P-th of the rank's files */
  int idle;              /* a rank that has opened nothing; -1: none */
  const struct ctl_division *division;
};

static struct total add_cells(const struct ctl_epoch *e, uint64_t size) {
  struct total all = {.least = UINT64_MAX, .idle = -1};
  for (size_t i = 0; i < e->count; i++) {
    const struct ctl_cell *c = e->cells[i];
    uint64_t part = c->own / size;
    all.own += c->own;
    all.read += c->read;
    all.others += c->others;
    all.opens += c->opens;
    all.distinct += c->distinct;
    all.least = c->least < all.least ? c->least : all.least;
    all.most = c->most > all.most ? c->most : all.most;
    all.unknown += !c->known;
    all.idle = c->opens == 0 && (c->own > 0 || !c->known) ? c->rank : all.idle;
    all.twice += size > 1 && c->own > size && c->read + 1 >= part && c->read <= part + 1;
    all.division = c->division ? c->division : all.division;
  }
  return all;
}

static void append_often(struct text *t, const struct total *all) {
  if (all->least == all->most) {
    append(t, all->most == 1 ? ", each once" : ", each %" PRIu64 " times", all->most);
  } else if (all->read > 0) {
    append(t, ", %" PRIu64 " %s %" PRIu64 " times each", all->least,
           all->most == all->least + 1 ? "or" : "to", all->most);
  }
}

/* Append the ranks that have opened files of others, or not all of their own. */
static void append_ranks(struct text *t, const struct ctl_epoch *e, bool others) {
  for (size_t i = 0; i < e->count; i++) {
    const struct ctl_cell *c = e->cells[i];
    if (others && c->others > 0) {
      item(t, "rank %d %s", c->rank, N(c->others));
    } else if (!others && c->read < c->own) {
      item(t, "rank %d %s of its %s", c->rank, N(c->read), N(c->own));
    }
  }
  end_items(t);
}

/* Append what the ranks have opened of their shares. Returns whether it was all, and no other. */
static bool judge_own(const struct ctl_epoch *e, const struct total *all, int size, bool idle,
                      struct text *t) {
  const struct ctl_division *d = all->division;
  if (!d) {
    append(t, "no rank has listed the dataset then; its files were opened %s times, by ranks: %zu",
           N(all->opens), e->count);
    return false;
  }
  if (all->unknown > 0) {
    append(t,
           "files were opened %s times; which are a rank's own cannot be told without the listing "
           "'%s': %s",
           N(all->opens), d->file,
           d->told.how == SHARD_LOG_RANKS
               ? "it is gone if the rank's host has run another job since: verify "
                 "before, or set one SHARD_JOB for all ranks"
           : listing_file ? "that of --listing is another one"
                          : "give it by --listing (shardctl index makes it)");
    return false;
  }
  if (e->count < (size_t)size) {
    append(t, "only %zu of %d ranks have listed the dataset or opened a file of it then", e->count,
           size);
    return false;
  }
  if (all->others > 0) {
    append(t, "ranks have opened files of others, or that are in no list: ");
    append_ranks(t, e, true);
    append(t, "; ");
  }
  bool whole = all->read == all->own;
  append(t, "%s%s of %s files were opened by their ranks",
         whole        ? "all "
         : partial_ok ? ""
                      : "only ",
         N(all->read), N(all->own));
  append_often(t, all);
  if (!whole) {
    append(t, ": ");
    append_ranks(t, e, false);
    append(t, "%s", partial_ok ? " (--partial-ok)" : "");
  }
  if (!whole && all->twice == e->count) {
    append(
        t,
        "; about one in %d of each rank's files: were they divided twice, by libshard and by the "
        "program (DistributedSampler, split_by_node)?",
        size);
  }
  return all->others == 0 && !idle && (whole || partial_ok);
}

/* Append what was opened of the files that a program divides itself. Returns whether the files
 * suffice for its steps, and no other was opened. */
static bool judge_program(const struct ctl_epoch *e, const struct total *all, bool idle,
                          struct text *t) {
  const struct shard_log_share *s = &all->division->told;
  if (all->unknown == 0 && all->others > 0) {
    append(t, "%s files were opened that the program does not use; ", N(all->others));
  }
  append(t, "%s of %s files were opened", e->opened >= s->used ? "all" : N(e->opened), N(s->used));
  if (all->unknown == 0 && all->read > 0) {
    append_often(t, all);
    append(t, " by a rank");
  }
  append(t, "%s", e->opened == all->distinct ? ", each by one rank alone" : "");
  append(t, "%s", all->unknown > 0 ? " (counted; which files, no listing tells)" : "");
  if (e->opened < s->used) {
    append(t, "; the steps account for %s", N(s->needed));
  }
  return (e->opened >= s->needed || (!idle && partial_ok)) &&
         (all->unknown > 0 || all->others == 0);
}

static bool judge_epoch(const struct ctl_run *run, const struct ctl_epoch *e, bool ever,
                        struct text *t) {
  struct total all = add_cells(e, run->size > 0 ? (uint64_t)run->size : 1);
  bool program = all.division && all.division->told.how == SHARD_LOG_PROGRAM;
  /* Ranks may list before their first epoch. */
  bool idle = all.idle >= 0 && (all.opens > 0 || !ever);
  bool good = program ? judge_program(e, &all, idle, t) : judge_own(e, &all, run->size, idle, t);
  if (idle && !good && all.division) {
    append(t, "; rank %d has opened none: did its program run without libshard (LD_PRELOAD)?",
           all.idle);
  }
  return good;
}

/* Check what was read of a dataset: a line for each epoch, or for neighbours that are alike. */
static void check_read(const struct ctl_run *run, const struct ctl_epoch *epochs, size_t count) {
  struct text last, t;
  bool good = false, proven = false, ever = false, numbered = count > 1 || epochs->number != 0;
  char range[64] = "";
  size_t begun = 0;
  for (size_t i = 0; i < count; i++) {
    ever |= epochs[i].opened > 0;
  }
  for (size_t i = 0; i <= count; i++) {
    t = (struct text){.used = 0};
    proven = i < count && judge_epoch(run, &epochs[i], ever, &t);
    if (i > 0 && (i == count || proven != good || strcmp(t.at, last.at) != 0)) {
      int n = snprintf(range, sizeof(range), "%" PRIu64, epochs[begun].number);
      if (i - 1 > begun) {
        snprintf(range + n, sizeof(range) - (size_t)n, " to %" PRIu64, epochs[i - 1].number);
      }
      say("read", epochs->dataset->root, numbered ? range : "", good, &last);
      begun = i;
    }
    last = t;
    good = proven;
  }
}

/* ---- same --------------------------------------------------------------- */

static int by_cell(const struct ctl_cell *a, const struct ctl_cell *b) {
  return a->epoch != b->epoch ? (a->epoch > b->epoch) - (a->epoch < b->epoch)
                              : (a->rank > b->rank) - (a->rank < b->rank);
}

/* Check that each rank has opened the same files in both runs, of whatever dataset. */
static void check_same(void) {
  static const struct ctl_cell nothing;
  struct text t = {.used = 0};
  uint64_t opens = 0;
  bool numbered = runs[0].epoch_count > 1 && runs[1].epoch_count > 1, good = true;
  for (int i = 0; i < 2 && !numbered; i++) {
    ctl_logs_count(&runs[i], CTL_BY_RANK, NULL);
  }
  for (size_t i = 0, k = 0; i < runs[0].cell_count || k < runs[1].cell_count;) {
    const struct ctl_cell *a = i < runs[0].cell_count ? runs[0].cells[i] : NULL;
    const struct ctl_cell *b = k < runs[1].cell_count ? runs[1].cells[k] : NULL;
    int order = !a ? 1 : !b ? -1 : by_cell(a, b);
    const struct ctl_cell *x = order <= 0 && a ? a : &nothing, *y = order >= 0 && b ? b : &nothing,
                          *one = order <= 0 ? a : b;
    i += order <= 0;
    k += order >= 0;
    bool names = x->distinct == y->distinct && x->sum == y->sum;
    bool same = names && (sets || (x->opens == y->opens && x->weight == y->weight));
    opens += x->opens;
    good &= same;
    if (!same) {
      char epoch[40] = "";
      if (numbered) {
        snprintf(epoch, sizeof(epoch), ", epoch %" PRIu64, one->epoch);
      }
      item(&t, "rank %d%s: %s opens of %s files here, %s of %s there%s", one->rank, epoch,
           N(x->opens), N(x->distinct), N(y->opens), N(y->distinct),
           names                        ? " (the same files)"
           : x->distinct == y->distinct ? " (other files)"
                                        : "");
    }
  }
  end_items(&t);
  if (good && opens == 0) {
    append(&t, "nothing was opened in either run");
  } else if (good) {
    append(&t, "each rank has opened the same files%s in both runs%s, %s opens%s",
           sets ? "" : " as often", numbered ? ", in each epoch" : ", all epochs together",
           N(opens), sets ? " (sets are compared)" : "");
  }
  say("same", NULL, "", good && opens > 0, &t);
}

/* ---- all of it ---------------------------------------------------------- */

/* Returns a cell as an array, which takes less room than an object: a run may have many ranks. */
static struct json_object *make_cell(const struct ctl_cell *c) {
  const struct {
    uint64_t number;
    bool known;
  } numbers[] = {{(uint64_t)c->rank, true},
                 {c->epoch, true},
                 {c->own, c->known},
                 {c->read, c->known},
                 {c->others, c->known},
                 {c->distinct, true},
                 {c->opens, true},
                 {c->most ? c->least : 0, true},
                 {c->most, true}};
  struct json_object *cell = ctl_json_array();
  for (size_t k = 0; k < sizeof(numbers) / sizeof(*numbers); k++) {
    ctl_json_add_known(cell, NULL, numbers[k].number, numbers[k].known);
  }
  return cell;
}

static struct json_object *make_dataset(const struct ctl_epoch *epochs, size_t count) {
  struct json_object *o = ctl_json_object(), *cells = ctl_json_array();
  const struct ctl_division *d = NULL;
  for (const struct ctl_epoch *e = epochs; e < epochs + count; e++) {
    for (size_t i = 0; i < e->count; i++) {
      d = d ? d : e->cells[i]->division;
      ctl_json_add(cells, NULL, make_cell(e->cells[i]));
    }
  }
  bool shared = d && d->told.how != SHARD_LOG_PROGRAM, listed = d && d->digest[0];
  ctl_json_add_text(o, "dataset", epochs->dataset->root);
  ctl_json_add_text(o, "names", ways[d ? d->told.how : 0]);
  ctl_json_add_known(o, "entries", d ? d->told.entries : 0, listed);
  ctl_json_add_known(o, "used", d ? d->told.used : 0, listed);
  ctl_json_add_text(o, "digest", listed ? d->digest : NULL);
  ctl_json_add_text(o, "listing", d && *d->file ? d->file : NULL);
  ctl_json_add_text(o, "strategy",
                    shared ? shard_words_at(shard_words_strategies, d->told.strategy) : NULL);
  ctl_json_add_text(o, "remainder",
                    shared ? shard_words_at(shard_words_remainders, d->told.remainder) : NULL);
  ctl_json_add_text(o, "sample",
                    shared ? shard_words_at(shard_words_samples, d->told.sample) : NULL);
  ctl_json_add_known(o, "seed", d ? d->told.seed : 0, d && d->told.shuffled);
  ctl_json_add(o, "cells", cells);
  return o;
}

/* Returns how many epochs from the i-th on are of one dataset. */
static size_t epochs_of(const struct ctl_run *run, size_t i) {
  size_t n = 1;
  while (i + n < run->epoch_count && run->epochs[i + n].dataset == run->epochs[i].dataset) {
    n++;
  }
  return n;
}

static struct json_object *make_json(const struct ctl_run *run) {
  struct json_object *o = ctl_json_object(), *datasets = ctl_json_array();
  int64_t begun = INT64_MAX, ended = 0;
  uint64_t ranks = 0, lost = 0;
  for (const struct ctl_log *log = run->logs; log < run->logs + run->log_count; log++) {
    begun = log->head.begun < begun ? log->head.begun : begun;
    ended = log->head.ended > ended ? log->head.ended : ended;
    ranks += log->head.rank >= 0 && (log == run->logs || log->head.rank != log[-1].head.rank);
    lost += log->lost + log->torn;
  }
  for (size_t i = 0; i < run->epoch_count && !other_folder; i += epochs_of(run, i)) {
    ctl_json_add(datasets, NULL, make_dataset(&run->epochs[i], epochs_of(run, i)));
  }
  ctl_json_add_text(o, "libshard", shard_version());
  ctl_json_add_bool(o, "proven", all_proven);
  ctl_json_add(o, "verdicts", json_object_get(verdicts));
  ctl_json_add_number(o, "size", (uint64_t)run->size);
  ctl_json_add_number(o, "ranks", ranks);
  ctl_json_add_number(o, "logs", run->log_count);
  ctl_json_add_number(o, "lost", lost);
  ctl_json_add_known(o, "begun_ms", (uint64_t)begun, run->log_count > 0);
  ctl_json_add_known(o, "ended_ms", (uint64_t)ended, ended > 0);
  ctl_json_add(o, "datasets", datasets);
  return o;
}

extern const char ctl_page_template[]; /* page.html */

/* Print the page. JSON must not end the <script> that it stands in: a '<' can be in a text only. */
static int print_page(void *facts, FILE *out) {
  static const char mark[] = "@JSON@";
  const char *end = strstr(ctl_page_template, mark);
  const char *text = json_object_to_json_string_ext(facts, JSON_C_TO_STRING_PLAIN);
  if (!end || !text) {
    return ctl_fail("out of memory");
  }
  fwrite(ctl_page_template, 1, (size_t)(end - ctl_page_template), out);
  for (; *text; text++) {
    fprintf(out, *text == '<' ? "\\u003c" : "%c", *text);
  }
  fputs(end + strlen(mark), out);
  return CTL_DONE;
}

static int write_page(const char *file, struct json_object *facts) {
  struct ctl_output output;
  int rc = ctl_output_open(file, SHARD_ATOMIC_FILE_LAZY, &output);
  if (rc == CTL_DONE) {
    rc = ctl_output_print(&output, print_page, facts);
    int ended = ctl_output_end(&output, rc == CTL_DONE);
    rc = rc == CTL_DONE ? ended : rc;
  }
  json_object_put(facts);
  return rc;
}

static int check_options(void) {
  struct shard_listing *listing;
  if (other_folder && (listing_file || html_file || partial_ok)) {
    return ctl_usage("--same-as compares what was opened; it takes no --listing, --html or "
                     "--partial-ok");
  }
  int fault = listing_file ? shard_listing_open(listing_file, &listing) : 0;
  if (listing_file && fault == 0) {
    shard_listing_close(listing);
  }
  return fault == 0
             ? CTL_DONE
             : ctl_fail("cannot use listing '%s': %s", listing_file, shard_listing_strerror(fault));
}

static int run_verify(char **folders) {
  struct ctl_run *run = &runs[0];
  char *others[] = {(char *)other_folder, NULL};
  enum ctl_logs_by by = other_folder ? CTL_BY_EPOCH : CTL_BY_DATASET;
  memset(runs, 0, sizeof(runs));
  all_proven = true;
  verdicts = ctl_json_array();
  int rc = check_options();
  rc = rc == CTL_DONE ? ctl_logs_read(run, folders, listing_file) : rc;
  rc = rc == CTL_DONE ? ctl_logs_read(&runs[1], others, NULL) : rc;
  if (rc != CTL_DONE) {
    return rc;
  }
  ctl_logs_count(run, by, listing_file);
  ctl_logs_count(&runs[1], by, NULL);
  check_complete(run, NULL);
  if (other_folder) {
    check_complete(&runs[1], other_folder);
    check_same();
  }
  for (size_t i = 0, n; i < run->epoch_count && !other_folder; i += n) {
    n = epochs_of(run, i);
    check_shares(run, &run->epochs[i], n);
    check_read(run, &run->epochs[i], n);
  }
  if (run->epoch_count == 0 && !other_folder) {
    struct text t = {.used = 0};
    append(&t, "no process has listed a dataset, or opened a file of one");
    say("read", NULL, "", false, &t);
  }
  rc = ctl_args.json ? ctl_json_print(make_json(run), stdout) : CTL_DONE;
  rc = html_file && rc == CTL_DONE ? write_page(html_file, make_json(run)) : rc;
  return rc != CTL_DONE ? rc : all_proven ? CTL_DONE : CTL_FAILED;
}

const struct ctl_command ctl_cmd_verify = {ctl_help_verify, rows, CTL_SOME,
                                           "the folders of SHARD_STATS", run_verify};
