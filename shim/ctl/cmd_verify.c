/* SPDX-License-Identifier: MIT */
/*
 * cmd_verify.c - shardctl verify: what the logs of a run (SHARD_STATS) prove, a verdict a line.
 *
 *   complete   nothing is missing in the logs, and no log
 *   shares     all ranks share one listing, and the shares together are the listing
 *   read       each rank has opened all of its own files, and no other
 *   same       each rank has opened the same files as often as in another run (--same-as)
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
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
#include "ctl/page.h"
#include "libshard.h"
#include "listing/listing.h"
#include "stats/log.h"

static const char *listing_file, *html_file, *other_directory;
static bool partial_ok, sets;

static const struct ctl_option rows[] = {CTL_ROW_JSON,
                                         {"listing", .text = &listing_file},
                                         {"html", .text = &html_file},
                                         {"same-as", .text = &other_directory},
                                         {"sets", .flag = &sets},
                                         {"partial-ok", .flag = &partial_ok},
                                         CTL_ROW_END};

#define SHOWN 4 /* ranks, files or processes that a line names */

static struct ctl_run runs[2]; /* and the other one */
static struct json_object *verdicts;
static bool all_proven = true;

/* ---- texts -------------------------------------------------------------- */

struct text {
  char at[8000];
  size_t used, items;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(t->at + t->used, sizeof(t->at) - t->used, format, args);
  va_end(args);
  t->used += n > 0 && t->used + (size_t)n < sizeof(t->at) ? (size_t)n : 0;
}

/* Whether one more item is to be put; a comma is before it. */
static bool more(struct text *t) {
  if (t->items++ < SHOWN) {
    put(t, "%s", t->items > 1 ? ", " : "");
  }
  return t->items <= SHOWN;
}

static void put_rest(struct text *t) {
  if (t->items > SHOWN) {
    put(t, ", and %zu more", t->items - SHOWN);
  }
  t->items = 0;
}

#define N(count) ctl_human_count(count).text

/* Say a verdict. of: the dataset; NULL: all. */
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
  if (!ctl_given.json) {
    ctl_human_line("%s%s%s%s%s%s: %s: %s", name, of ? " '" : "", of ? of : "", of ? "'" : "",
                   *epochs ? ", epoch " : "", epochs, proven ? "proven" : "NOT PROVEN", t->at);
  }
}

/* ---- complete ----------------------------------------------------------- */

/* The size of the world; 0: logs tell several. */
static int find_size(const struct ctl_run *run) {
  int size = 0;
  for (size_t i = 0; i < run->log_count; i++) {
    int one = run->logs[i].size;
    if (one > 0 && size > 0 && one != size) {
      return 0;
    }
    size = one > 0 ? one : size;
  }
  return size;
}

/* Whether the process of a log that has no end is there yet. */
static bool is_running(const struct ctl_log *log) {
  static struct utsname here;
  static struct stat space;
  struct shard_process process;
  if (!here.nodename[0] && (uname(&here) != 0 || stat("/proc/self/ns/pid", &space) != 0)) {
    return false;
  }
  return strcmp(log->host, here.nodename) == 0 && log->namespace == space.st_ino &&
         shard_process_read((long)log->pid, &process) && !process.ended &&
         process.start == log->start;
}

/* Whether the process has executed another program, which has a log of its own. */
static bool has_gone_on(const struct ctl_run *run, size_t i) {
  const struct ctl_log *log = &run->logs[i];
  for (size_t k = 0; k < run->log_count; k++) {
    const struct ctl_log *other = &run->logs[k];
    if (k != i && other->pid == log->pid && other->start == log->start &&
        other->begun >= log->begun && strcmp(other->host, log->host) == 0) {
      return true;
    }
  }
  return false;
}

/* Ranks from `from` on, below `to`. */
static void put_missing(struct text *t, int from, int to, int size) {
  if (from + 1 < to && more(t)) {
    put(t, "ranks %d to %d of %d are missing", from, to - 1, size);
  } else if (from + 1 == to && more(t)) {
    put(t, "rank %d of %d is missing", from, size);
  }
}

/* The first log of this one's host that is of another run; NULL: none. A launcher's process
 * identifies the job on its own node only; a process that lists nothing does not know its job. */
static const struct ctl_log *find_other_run(const struct ctl_run *run, size_t i) {
  const struct ctl_log *log = &run->logs[i], *first = run->logs;
  while (first < log && (first->job == 0 || strcmp(first->host, log->host) != 0)) {
    first++;
  }
  return log->job != 0 && first < log && first->job != log->job ? first : NULL;
}

static void put_faults(const struct ctl_run *run, struct text *t) {
  size_t before = run->log_count;
  int size = find_size(run), next = 0;
  bool mixed = false;
  for (size_t i = 0; i < run->bad_count; i++) {
    if (more(t)) {
      put(t, "%s", run->bad[i]);
    }
  }
  if (run->log_count == 0 && more(t)) {
    put(t, "there is no log");
  }
  if (run->log_count > 0 && size == 0 && more(t)) {
    put(t,
        "the logs are of worlds of different sizes, such as '%s' of %d ranks and '%s' of %d: "
        "let each run have a folder of its own",
        run->logs[0].path, run->logs[0].size, run->logs[before - 1].path,
        run->logs[before - 1].size);
  }
  for (size_t i = 0; i < run->log_count && size > 0; i++) {
    const struct ctl_log *log = &run->logs[i], *first = find_other_run(run, i);
    if (log->rank < 0 && more(t)) {
      put(t, "'%s' is of a process that has no rank", log->path);
    }
    put_missing(t, next, log->rank, size);
    next = log->rank + 1;
    if (first && !mixed && more(t)) {
      put(t,
          "there are logs of several runs, such as '%s' and '%s': let each run have a folder of "
          "its own",
          first->path, log->path);
    }
    mixed |= first != NULL;
    if (i > 0 && log[-1].rank == log->rank && strcmp(log[-1].name, log->name) == 0 && more(t)) {
      put(t, "'%s' and '%s' are of one process: leave copies out", log[-1].path, log->path);
    }
  }
  put_missing(t, next, size, size);
  for (size_t i = 0; i < run->log_count; i++) {
    if (run->logs[i].ended == 0 && is_running(&run->logs[i]) && more(t)) {
      put(t, "process %" PRId64 " of rank %d is still running", run->logs[i].pid,
          run->logs[i].rank);
    }
  }
  for (size_t i = 0; i < run->log_count; i++) {
    if (run->logs[i].lost > 0 && more(t)) {
      put(t,
          "'%s' is partial: %" PRIu64 " opens or more are not in it (was its disk full, its "
          "limit of descriptors or 67 million notes reached?)",
          run->logs[i].path, run->logs[i].lost);
    }
  }
  if (run->lost > 0 && t->items == 0 && more(t)) {
    put(t, "%" PRIu64 " notes were begun and not ended", run->lost);
  }
  put_rest(t);
}

/* Whether all there is to know is in the logs. */
static bool check_complete(const struct ctl_run *run, const char *of) {
  struct text t = {.used = 0}, killed = {.used = 0};
  put_faults(run, &t);
  bool good = t.used == 0;
  if (good) {
    put(&t, "%zu log%s of %d rank%s, and nothing is missing in them", run->log_count,
        run->log_count == 1 ? "" : "s", find_size(run), find_size(run) == 1 ? "" : "s");
  }
  for (size_t i = 0, looked = 0; i < run->log_count && looked < 1000; i++) {
    if (run->logs[i].ended == 0 && !is_running(&run->logs[i])) {
      looked++;
      if (!has_gone_on(run, i) && more(&killed)) {
        put(&killed, "%" PRId64 " of rank %d on %s", run->logs[i].pid, run->logs[i].rank,
            run->logs[i].host);
      }
    }
  }
  put_rest(&killed);
  if (killed.used > 0) {
    put(&t,
        "; killed, became another program, or still running on a host that verify cannot look at: "
        "process %s",
        killed.at);
  }
  say("complete", of, "", good, &t);
  return good;
}

/* ---- shares ------------------------------------------------------------- */

static const char *show_digest(const struct ctl_facts *f) {
  static char text[2][20];
  static int turn;
  turn = !turn;
  snprintf(text[turn], sizeof(text[0]), "%.12s", f->digest[0] ? f->digest : "none");
  return text[turn];
}

/* Put how two ranks' facts differ. */
static void put_difference(struct text *t, int rank, const struct ctl_facts *f, int other,
                           const struct ctl_facts *g) {
  if (f->how != g->how) {
    put(t, "ranks %d and %d come to their names in different ways", rank, other);
  } else if (strcmp(f->digest, g->digest) != 0 || f->entries != g->entries) {
    put(t, "rank %d has a listing of %s names, digest %s, rank %d one of %s names, digest %s", rank,
        N(f->entries), show_digest(f), other, N(g->entries), show_digest(g));
  } else if (f->used != g->used) {
    put(t, "rank %d uses %s names, rank %d %s", rank, N(f->used), other, N(g->used));
  } else {
    for (int k = 0; k < 2; k++) {
      const struct ctl_facts *one = k ? g : f;
      put(t, "%srank %d has strategy %s, remainder %s, samples by %s, ", k ? ", " : "",
          k ? other : rank, shard_words_at(shard_words_strategies, one->strategy),
          shard_words_at(shard_words_remainders, one->remainder),
          shard_words_at(shard_words_samples, one->sample));
      put(t, one->shuffled ? "seed %" PRIu64 : "not shuffled", one->seed);
    }
  }
}

/* Whether the names that each rank was given, in an epoch, are together the listing's. */
static bool add_up(const struct ctl_run *run, size_t dataset, uint64_t epoch, struct text *t) {
  uint64_t count, sum, names = 0, names_sum = 0;
  if (!listing_file) {
    put(t, "whether the ranks' names are together all names cannot be told without --listing");
    return false;
  }
  if (!ctl_logs_sum(listing_file, NULL, run->roots[dataset], UINT64_MAX, &count, &sum)) {
    put(t, "cannot read listing '%s'", listing_file);
    return false;
  }
  for (size_t i = 0; i < run->cell_count; i++) {
    const struct ctl_cell *c = &run->cells[i];
    const struct ctl_facts *f = c->facts == SIZE_MAX ? NULL : &run->facts[c->facts];
    uint64_t own = 0, own_sum = 0;
    if (c->dataset != dataset || c->epoch != epoch || !f) {
      continue;
    }
    if (f->how == SHARD_LOG_HASHED) {
      own = c->served;
      own_sum = c->served_sum;
    } else if (!ctl_logs_sum(f->file, f->digest, run->roots[dataset], f->used, &own, &own_sum)) {
      put(t, "the list of rank %d, '%s', is gone: verify before the next job on its host", c->rank,
          f->file);
      return false;
    }
    names += own;
    names_sum += own_sum;
  }
  bool good = names == count && names_sum == sum;
  put(t, "the ranks' names of epoch %" PRIu64 " are %s of %s in '%s'%s", epoch, N(names), N(count),
      listing_file,
      good            ? ", each once"
      : names < count ? ": some are left out"
      : names > count ? ": some are in two shares"
                      : ", but not the same");
  return good;
}

/* How often a name is in the ranks' shares. */
static const char *show_often(const struct ctl_facts *f) {
  bool whole = f->sample == SHARD_SAMPLE_FILE && f->used % f->size == 0;
  return f->remainder == SHARD_REMAINDER_DROP && !whole
             ? "each name once, but the last samples are nobody's (remainder drop)"
         : f->remainder == SHARD_REMAINDER_REPEAT && !whole
             ? "each name once, and some twice, so that all have as many samples (remainder repeat)"
             : "each name once";
}

static bool check_shares(const struct ctl_run *run, size_t dataset) {
  const struct ctl_share *first = NULL;
  const struct ctl_facts *f = NULL;
  struct text t = {.used = 0};
  int size = find_size(run), next = 0;
  bool good = true;
  for (size_t i = 0; i < run->share_count && good; i++) {
    const struct ctl_share *s = &run->shares[i];
    const struct ctl_facts *g = &run->facts[s->facts];
    if (s->dataset != dataset) {
      continue;
    }
    first = first ? first : s;
    f = &run->facts[first->facts];
    bool own = f->how == SHARD_LOG_RANKS, by_epoch = f->how == SHARD_LOG_BY_EPOCH;
    const struct ctl_share *before = first;
    for (size_t k = 0; by_epoch && k < i && before->epoch != s->epoch; k++) {
      before = run->shares[k].dataset == dataset ? &run->shares[k] : before;
    }
    const struct ctl_facts *h = &run->facts[before->facts];
    bool same = g->how == h->how && g->strategy == h->strategy && g->size == h->size &&
                g->seed == h->seed && g->shuffled == h->shuffled && g->remainder == h->remainder &&
                g->sample == h->sample;
    bool names =
        own || (by_epoch && before->epoch != s->epoch) ||
        (strcmp(g->digest, h->digest) == 0 && g->entries == h->entries && g->used == h->used);
    if (!same || !names) {
      good = false;
      put_difference(&t, before->rank, h, s->rank, g);
    } else if (s->rank > next) {
      good = false;
      put(&t, "rank %d has not listed it", next);
    }
    next = s->rank >= next ? s->rank + 1 : next;
  }
  if (!first) {
    put(&t, "no process has listed it, so libshard has divided nothing: was it opened by names "
            "from elsewhere (a pattern such as {00..62}, a CSV), or with SHARD_VIEW=off?");
    say("shares", run->roots[dataset], "", false, &t);
    return false;
  }
  for (size_t i = 0; i < run->cell_count && good; i++) {
    if (run->cells[i].dataset == dataset && run->cells[i].mixed) {
      good = false;
      put(&t, "processes of rank %d have used different listings, or settings", run->cells[i].rank);
    }
  }
  if (good && next < size) {
    good = false;
    put(&t, "rank %d has not listed it", next);
  }
  const char *strategy = shard_words_at(shard_words_strategies, f->strategy);
  if (good && (f->how == SHARD_LOG_HASHED || f->how == SHARD_LOG_RANKS)) {
    uint64_t epoch = UINT64_MAX;
    for (size_t i = 0; i < run->share_count && good; i++) {
      if (run->shares[i].dataset == dataset && run->shares[i].epoch != epoch) {
        epoch = run->shares[i].epoch;
        put(&t, "%s", t.used > 0 ? ", " : "");
        good = add_up(run, dataset, epoch, &t);
      }
      if (t.used > 400) {
        t.used = 0;
      }
    }
  } else if (good && f->how == SHARD_LOG_PROGRAM) {
    put(&t, "the program divides its files itself; all ranks have one listing of %s, digest %s",
        N(f->entries), show_digest(f));
  } else if (good && f->how == SHARD_LOG_ALL) {
    put(&t, "a world of one: all names are rank 0's");
  } else if (good && f->how == SHARD_LOG_BY_EPOCH) {
    put(&t,
        "%d ranks share one list in each epoch, %s, by %s; whether it has all "
        "names is not looked at",
        size, show_often(f), strategy);
  } else if (good) {
    put(&t, "%d ranks share one listing of %s names, digest %s, %s, by %s%s", size, N(f->entries),
        show_digest(f), show_often(f), strategy, f->shuffled ? ", shuffled" : "");
  }
  say("shares", run->roots[dataset], "", good, &t);
  return good;
}

/* ---- read --------------------------------------------------------------- */

static void put_often(struct text *t, uint64_t least, uint64_t most) {
  if (least == most) {
    put(t, most == 1 ? "each once" : "each %" PRIu64 " times", most);
  } else {
    put(t, "%" PRIu64 " %s %" PRIu64 " times each", least, most == least + 1 ? "or" : "to", most);
  }
}

/* The cells of a dataset in an epoch, added up. */
struct total {
  uint64_t own, read, others, distinct, sum, opens, least, most;
  size_t ranks, unknown, unread, twice; /* ranks that have not read all; or a P-th */
  int idle;                             /* a rank that has opened nothing; -1 */
};

static bool next_cell(const struct ctl_run *run, size_t dataset, uint64_t epoch, size_t *i) {
  while (*i < run->cell_count && (run->cells[*i].rank < 0 || run->cells[*i].dataset != dataset ||
                                  run->cells[*i].epoch != epoch)) {
    ++*i;
  }
  return *i < run->cell_count;
}

static struct total add_cells(const struct ctl_run *run, size_t dataset, uint64_t epoch) {
  struct total all = {.least = UINT64_MAX, .idle = -1};
  uint64_t size = (uint64_t)find_size(run);
  for (size_t i = 0; next_cell(run, dataset, epoch, &i); i++) {
    const struct ctl_cell *c = &run->cells[i];
    uint64_t part = size > 1 ? c->own / size : 0;
    all.own += c->own;
    all.read += c->read;
    all.others += c->others;
    all.distinct += c->distinct;
    all.sum += c->sum;
    all.opens += c->opens;
    all.least = c->least < all.least ? c->least : all.least;
    all.most = c->most > all.most ? c->most : all.most;
    all.ranks++;
    all.unknown += !c->known;
    all.unread += c->read < c->own;
    all.idle = c->opens == 0 && (c->own > 0 || !c->known) ? c->rank : all.idle;
    all.twice += c->own > size && size > 1 && c->read + 1 >= part && c->read <= part + 1;
  }
  return all;
}

/* Whether a rank has opened nothing, and others have; or nobody has, in any epoch. */
static bool put_idle(const struct ctl_run *run, size_t dataset, const struct total *all,
                     struct text *t) {
  bool ever = false;
  for (size_t i = 0; i < run->cell_count; i++) {
    const struct ctl_cell *c = &run->cells[i];
    ever |= c->dataset == dataset && c->rank >= 0 && c->opens > 0;
  }
  bool idle = all->idle >= 0 && (all->opens > 0 || !ever);
  if (idle) {
    put(t, "; rank %d has opened none: did its program run without libshard (LD_PRELOAD)?",
        all->idle);
  }
  return idle;
}

/* Of a shard view. */
static bool judge_own(const struct ctl_run *run, size_t dataset, uint64_t epoch, struct text *t) {
  struct total all = add_cells(run, dataset, epoch);
  int size = find_size(run);
  const struct ctl_facts *f = NULL;
  for (size_t i = 0; next_cell(run, dataset, epoch, &i); i++) {
    f = run->cells[i].facts == SIZE_MAX ? f : &run->facts[run->cells[i].facts];
  }
  if (!f) {
    put(t, "nobody has listed it then; %zu ranks have opened files of it, %s times in all",
        all.ranks, N(all.opens));
    return false;
  }
  if (all.unknown > 0) {
    put(t,
        "files were opened %s times; which are a rank's own cannot be told without the "
        "listing%s%s%s: %s",
        N(all.opens), *f->file ? " '" : "", f->file, *f->file ? "'" : "",
        f->how == SHARD_LOG_RANKS ? "verify before the next job on the rank's host"
        : listing_file            ? "that of --listing is another one"
                                  : "give it by --listing (shardctl index makes it)");
    return false;
  }
  if (all.ranks < (size_t)size) {
    put(t, "only %zu of %d ranks have listed it or opened a file of it then", all.ranks, size);
    return false;
  }
  if (all.others > 0) {
    put(t, "ranks have opened files of others, or that are in no list: ");
    for (size_t i = 0; next_cell(run, dataset, epoch, &i); i++) {
      if (run->cells[i].others > 0 && more(t)) {
        put(t, "rank %d %s", run->cells[i].rank, N(run->cells[i].others));
      }
    }
    put_rest(t);
    put(t, "; ");
  }
  put(t, "%s%s of %s files were opened by their ranks",
      all.unread == 0 ? "all "
      : partial_ok    ? ""
                      : "only ",
      N(all.read), N(all.own));
  if (all.read > 0) {
    put(t, ", ");
    put_often(t, all.least, all.most);
  }
  if (all.unread > 0) {
    put(t, ": ");
    for (size_t i = 0; next_cell(run, dataset, epoch, &i); i++) {
      if (run->cells[i].read < run->cells[i].own && more(t)) {
        put(t, "rank %d %s of its %s", run->cells[i].rank, N(run->cells[i].read),
            N(run->cells[i].own));
      }
    }
    put_rest(t);
    put(t, "%s", partial_ok ? " (--partial-ok)" : "");
  }
  bool idle = put_idle(run, dataset, &all, t);
  if (all.unread > 0 && all.twice == all.ranks) {
    put(t,
        "; about one in %d of each rank's files: were they divided twice, by libshard and by the "
        "program (DistributedSampler, split_by_node)?",
        size);
  }
  return all.others == 0 && !idle && (all.unread == 0 || partial_ok);
}

/* Whether an epoch is the last, and files were opened less often in it than in the one before. */
static bool is_cut(const struct ctl_run *run, size_t dataset, uint64_t epoch, uint64_t opens) {
  uint64_t before = 0;
  bool later = false;
  for (size_t i = 0; i < run->cell_count; i++) {
    const struct ctl_cell *c = &run->cells[i];
    bool read = c->dataset == dataset && c->rank >= 0 && c->opens > 0;
    before += read && c->epoch + 1 == epoch ? c->opens : 0;
    later |= read && c->epoch > epoch;
  }
  return before > opens && !later;
}

/* Of a program that divides its files itself. */
static bool judge_program(struct ctl_run *run, size_t dataset, uint64_t epoch, struct text *t) {
  static size_t summed = SIZE_MAX; /* facts of count and sum */
  static uint64_t count, sum;
  struct total all = add_cells(run, dataset, epoch);
  size_t facts = SIZE_MAX;
  for (size_t i = 0; next_cell(run, dataset, epoch, &i); i++) {
    facts = run->cells[i].facts == SIZE_MAX ? facts : run->cells[i].facts;
  }
  const struct ctl_facts *f = &run->facts[facts];
  if (summed != facts) {
    summed = facts;
    if (!ctl_logs_sum(f->file, f->digest, run->roots[dataset], f->used, &count, &sum)) {
      count = UINT64_MAX;
    }
  }
  bool one = all.distinct == count && all.sum == sum;
  uint64_t opened = one ? count : ctl_logs_union(run, dataset, epoch);
  if (all.unknown == 0 && all.others > 0) {
    put(t, "%s files were opened that the program does not use; ", N(all.others));
  }
  put(t, "%s of %s files were opened", opened >= f->used ? "all" : N(opened), N(f->used));
  if (all.unknown == 0 && all.read > 0) {
    put(t, ", ");
    put_often(t, all.least, all.most);
    put(t, " by a rank");
  }
  if (opened == all.distinct) {
    put(t, ", each by one rank alone");
  }
  if (opened < f->used) {
    put(t, "; the steps account for %s", N(f->needed));
  }
  if (opened < f->needed && is_cut(run, dataset, epoch, all.opens)) {
    put(t,
        " (if the run has ended with epoch %" PRIu64 ": these were read ahead, for an epoch that "
        "never came)",
        epoch - 1);
  }
  return (opened >= f->needed || (!put_idle(run, dataset, &all, t) && partial_ok)) &&
         (all.unknown > 0 || all.others == 0);
}

static int by_number(const void *pa, const void *pb) {
  uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
  return (a > b) - (a < b);
}

/* A line for each epoch, or for several that are alike. */
static void check_read(struct ctl_run *run, size_t dataset) {
  uint64_t *epochs = calloc(run->cell_count + 1, sizeof(*epochs));
  size_t count = 0, begun = 0, cells = run->cell_count;
  struct text last = {.used = 0}, t;
  bool good = true, program = false;
  char range[64] = "";
  for (size_t i = 0; epochs && i < cells; i++) {
    const struct ctl_cell *c = &run->cells[i];
    if (c->dataset == dataset && c->rank >= 0) {
      epochs[count++] = c->epoch;
      program |= c->facts != SIZE_MAX && run->facts[c->facts].how == SHARD_LOG_PROGRAM;
    }
  }
  if (!epochs || count == 0) {
    free(epochs);
    return;
  }
  qsort(epochs, count, sizeof(*epochs), by_number);
  bool numbered = epochs[0] != 0 || epochs[count - 1] != 0;
  for (size_t i = 0, previous = 0; i <= count; i++) {
    if (i > 0 && i < count && epochs[i] == epochs[previous]) {
      continue;
    }
    t = (struct text){.used = 0};
    bool proven = i < count && (program ? judge_program(run, dataset, epochs[i], &t)
                                        : judge_own(run, dataset, epochs[i], &t));
    if (i > 0 && (i == count || proven != good || strcmp(t.at, last.at) != 0)) {
      snprintf(range, sizeof(range), "%" PRIu64, epochs[begun]);
      if (epochs[previous] != epochs[begun]) {
        snprintf(range, sizeof(range), "%" PRIu64 " to %" PRIu64, epochs[begun], epochs[previous]);
      }
      say("read", run->roots[dataset], numbered ? range : "", good, &last);
      begun = i;
    }
    last = t;
    good = proven;
    previous = i;
  }
  free(epochs);
}

/* ---- same --------------------------------------------------------------- */

/* Opens of a rank in an epoch, of all datasets: names are whole paths. */
struct sums {
  int rank;
  uint64_t epoch, opens, distinct, sum, weight;
};

static int by_rank_and_epoch(const void *pa, const void *pb) {
  const struct sums *a = pa, *b = pb;
  return a->rank != b->rank ? (a->rank > b->rank) - (a->rank < b->rank)
                            : (a->epoch > b->epoch) - (a->epoch < b->epoch);
}

static struct sums *sum_up(const struct ctl_run *run, size_t *count) {
  struct sums *all = calloc(run->cell_count + 1, sizeof(*all));
  size_t used = 0;
  for (size_t i = 0; all && i < run->cell_count; i++) {
    const struct ctl_cell *c = &run->cells[i];
    if (c->rank >= 0 && c->opens > 0) {
      all[used++] = (struct sums){c->rank, c->epoch, c->opens, c->distinct, c->sum, c->weight};
    }
  }
  if (!all) {
    exit(ctl_fail("out of memory"));
  }
  qsort(all, used, sizeof(*all), by_rank_and_epoch);
  *count = 0;
  for (size_t i = 0; i < used; i++) {
    struct sums *s = *count > 0 ? &all[*count - 1] : NULL;
    if (s && by_rank_and_epoch(s, &all[i]) == 0) {
      s->opens += all[i].opens;
      s->distinct += all[i].distinct;
      s->sum += all[i].sum;
      s->weight += all[i].weight;
    } else {
      all[(*count)++] = all[i];
    }
  }
  return all;
}

static bool has_epochs(const struct ctl_run *run) {
  for (size_t i = 1; i < run->cell_count; i++) {
    if (run->cells[i].epoch != run->cells[0].epoch) {
      return true;
    }
  }
  return false;
}

static void check_same(void) {
  struct text t = {.used = 0};
  size_t count[2], wrong = 0;
  uint64_t opens = 0;
  bool merge = !has_epochs(&runs[0]) || !has_epochs(&runs[1]);
  for (int i = 0; i < 2 && merge; i++) {
    ctl_logs_count(&runs[i], NULL, true);
  }
  struct sums *a = sum_up(&runs[0], &count[0]), *b = sum_up(&runs[1], &count[1]);
  for (size_t i = 0, k = 0; i < count[0] || k < count[1];) {
    int order = i == count[0]   ? 1
                : k == count[1] ? -1
                : merge         ? (a[i].rank > b[k].rank) - (a[i].rank < b[k].rank)
                                : by_rank_and_epoch(&a[i], &b[k]);
    const struct sums *x = order <= 0 ? &a[i++] : NULL, *y = order >= 0 ? &b[k++] : NULL;
    bool names = x && y && x->distinct == y->distinct && x->sum == y->sum;
    bool same = names && (sets || (x->opens == y->opens && x->weight == y->weight));
    opens += x ? x->opens : 0;
    wrong += !same;
    if (!same && more(&t)) {
      const struct sums *one = x ? x : y;
      put(&t, "rank %d", one->rank);
      if (!merge) {
        put(&t, ", epoch %" PRIu64, one->epoch);
      }
      put(&t, ": %s opens of %s files here, %s of %s there%s", N(x ? x->opens : 0),
          N(x ? x->distinct : 0), N(y ? y->opens : 0), N(y ? y->distinct : 0),
          names                                  ? " (the same files)"
          : x && y && x->distinct == y->distinct ? " (other files)"
                                                 : "");
    }
  }
  put_rest(&t);
  bool good = wrong == 0 && opens > 0;
  if (good) {
    put(&t, "each rank has opened the same files%s in both runs%s, %s opens%s",
        sets ? "" : " as often", merge ? ", all epochs together" : ", in each epoch", N(opens),
        sets ? " (sets are compared)" : "");
  } else if (opens == 0 && wrong == 0) {
    put(&t, "nothing was opened in either run");
  }
  say("same", NULL, "", good, &t);
  free(a);
  free(b);
}

/* ---- all of it ---------------------------------------------------------- */

/* Cells as arrays, which a page of many ranks has room for. */
static struct json_object *make_cells(const struct ctl_run *run, size_t dataset) {
  struct json_object *list = ctl_json_array();
  for (size_t i = 0; i < run->cell_count; i++) {
    const struct ctl_cell *c = &run->cells[i];
    if (c->dataset != dataset || c->rank < 0) {
      continue;
    }
    struct json_object *cell = ctl_json_array();
    const uint64_t numbers[] = {(uint64_t)c->rank,
                                c->epoch,
                                c->own,
                                c->read,
                                c->others,
                                c->distinct,
                                c->opens,
                                c->least == UINT64_MAX ? 0 : c->least,
                                c->most};
    for (size_t k = 0; k < sizeof(numbers) / sizeof(*numbers); k++) {
      bool known = k < 2 || k > 4 ? true : c->known;
      ctl_json_add_known(cell, NULL, numbers[k], known);
    }
    ctl_json_add(list, NULL, cell);
  }
  return list;
}

static struct json_object *make_dataset(const struct ctl_run *run, size_t dataset) {
  static const char *const ways[] = {"unlisted", "all",  "one",    "epochs",
                                     "ranks",    "hash", "program"};
  struct json_object *o = ctl_json_object();
  const struct ctl_facts *f = NULL;
  for (size_t i = 0; i < run->facts_count && !f; i++) {
    f = run->facts[i].dataset == dataset ? &run->facts[i] : NULL;
  }
  bool shared = f && f->how != SHARD_LOG_PROGRAM;
  ctl_json_add_text(o, "dataset", run->roots[dataset]);
  ctl_json_add_text(o, "names", ways[f ? f->how : 0]);
  ctl_json_add_known(o, "entries", f ? f->entries : 0, f && f->digest[0]);
  ctl_json_add_known(o, "used", f ? f->used : 0, f && f->digest[0]);
  ctl_json_add_text(o, "digest", f && f->digest[0] ? f->digest : NULL);
  ctl_json_add_text(o, "listing", f && *f->file ? f->file : NULL);
  ctl_json_add_text(o, "strategy",
                    shared ? shard_words_at(shard_words_strategies, f->strategy) : NULL);
  ctl_json_add_text(o, "remainder",
                    shared ? shard_words_at(shard_words_remainders, f->remainder) : NULL);
  ctl_json_add_text(o, "sample", shared ? shard_words_at(shard_words_samples, f->sample) : NULL);
  ctl_json_add_known(o, "seed", f ? f->seed : 0, f && f->shuffled);
  ctl_json_add(o, "cells", make_cells(run, dataset));
  return o;
}

static struct json_object *make_json(const struct ctl_run *run) {
  struct json_object *o = ctl_json_object(), *datasets = ctl_json_array();
  int64_t begun = INT64_MAX, ended = 0;
  uint64_t ranks = 0;
  for (size_t i = 0; i < run->log_count; i++) {
    begun = run->logs[i].begun < begun ? run->logs[i].begun : begun;
    ended = run->logs[i].ended > ended ? run->logs[i].ended : ended;
    ranks += run->logs[i].rank >= 0 && (i == 0 || run->logs[i].rank != run->logs[i - 1].rank);
  }
  for (size_t i = 0; i < run->root_count; i++) {
    ctl_json_add(datasets, NULL, make_dataset(run, run->order[i]));
  }
  ctl_json_add_text(o, "libshard", shard_version());
  ctl_json_add_bool(o, "proven", all_proven);
  ctl_json_add(o, "verdicts", json_object_get(verdicts));
  ctl_json_add_number(o, "size", (uint64_t)find_size(run));
  ctl_json_add_number(o, "ranks", ranks);
  ctl_json_add_number(o, "logs", run->log_count);
  ctl_json_add_number(o, "lost", run->lost);
  ctl_json_add_known(o, "begun_ms", (uint64_t)begun, run->log_count > 0);
  ctl_json_add_known(o, "ended_ms", (uint64_t)ended, ended > 0);
  ctl_json_add(o, "datasets", datasets);
  return o;
}

static int run_verify(char **operands) {
  struct ctl_run *run = &runs[0];
  if (html_file && (!*html_file || strcmp(html_file, "-") == 0)) {
    return ctl_usage("--html takes the page's name, not '%s'", html_file);
  }
  if (other_directory && (listing_file || html_file || partial_ok)) {
    return ctl_usage("--same-as compares what was opened; it takes no --listing, --html or "
                     "--partial-ok");
  }
  if (sets && !other_directory) {
    return ctl_usage("--sets goes with --same-as");
  }
  if (listing_file) {
    struct shard_listing *listing;
    int fault = shard_listing_open(listing_file, &listing);
    if (fault != 0) {
      return ctl_fail("cannot use listing '%s': %s", listing_file, shard_listing_strerror(fault));
    }
    shard_listing_close(listing);
  }
  memset(runs, 0, sizeof(runs));
  all_proven = true;
  verdicts = ctl_json_array();
  int rc = CTL_DONE;
  for (char **p = operands; *p && rc == CTL_DONE; p++) {
    rc = ctl_logs_read(run, *p);
  }
  rc = rc == CTL_DONE && other_directory ? ctl_logs_read(&runs[1], other_directory) : rc;
  for (int i = 0; i < (other_directory ? 2 : 1) && rc == CTL_DONE; i++) {
    rc = ctl_logs_count(&runs[i], listing_file, false);
  }
  if (rc != CTL_DONE) {
    return rc;
  }
  check_complete(run, NULL);
  if (other_directory) {
    check_complete(&runs[1], other_directory);
    check_same();
  }
  for (size_t i = 0; i < run->root_count && !other_directory; i++) {
    check_shares(run, run->order[i]);
    check_read(run, run->order[i]);
  }
  if (run->root_count == 0 && !other_directory) {
    struct text t = {.used = 0};
    put(&t, "no process has listed a dataset, or opened a file of one");
    say("read", NULL, "", false, &t);
  }
  if (ctl_given.json) {
    rc = ctl_json_print(make_json(run), stdout);
  }
  if (html_file && rc == CTL_DONE) {
    rc = ctl_page_write(html_file, make_json(run));
  }
  return rc != CTL_DONE ? rc : all_proven ? CTL_DONE : CTL_FAILED;
}

const struct ctl_command ctl_cmd_verify = {ctl_help_verify, rows, CTL_SOME,
                                           "the folders of SHARD_STATS", run_verify};
