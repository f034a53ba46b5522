/* SPDX-License-Identifier: MIT */
#include "ctl/logs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xxh64.h"
#include "ctl/ctl.h"
#include "libshard.h"
#include "listing/listing.h"
#include "listing/samples.h"
#include "shard/shard.h"
#include "stats/log.h"

#define NAMES_MOST ((uint64_t)16 << 20) /* of a listing that are in memory at once: 270 MB */
#define NOTES_MOST ((uint64_t)3 << 20)  /* that are sorted out at once: 150 MB */
#define CELLS_MOST 65536U               /* epochs and datasets of a rank */
#define WINDOW 65536U                   /* notes that are read at once */

static void *grown(void *list, size_t count, size_t size) {
  bool full = (count & (count - 1)) == 0; /* doubled at each power of two */
  void *more = full ? realloc(list, (count ? 2 * count : 1) * size) : list;
  if (!more) {
    exit(ctl_fail("out of memory"));
  }
  return more;
}

/* A new element at the end of a list of run's, zeroed. */
#define ADD(list, count)                                                                           \
  ((list) = grown((list), (count), sizeof(*(list))), memset(&(list)[(count)], 0, sizeof(*(list))), \
   &(list)[(count)++])

static char *copied(const char *text, size_t n) {
  char *copy = strndup(text, n);
  return copy ? copy : (exit(ctl_fail("out of memory")), copy);
}

static bool read_at(int fd, uint64_t at, void *buf, size_t size) {
  size_t got = 0;
  for (ssize_t n = 1; n > 0 && got<size; got += n> 0 ? (size_t)n : 0) {
    n = pread(fd, (char *)buf + got, size - got, (off_t)(at + got));
  }
  return got == size;
}

static uint64_t place_of(uint64_t note) {
  return SHARD_LOG_HEAD + note * sizeof(struct shard_log_note);
}

/* ---- heads and shares --------------------------------------------------- */

static size_t find_root(struct ctl_run *run, const char *root, size_t n) {
  for (size_t i = 0; i < run->root_count; i++) {
    if (strlen(run->roots[i]) == n && memcmp(run->roots[i], root, n) == 0) {
      return i;
    }
  }
  *ADD(run->roots, run->root_count) = copied(root, n);
  size_t ordered = run->root_count - 1, at = ordered;
  ADD(run->order, ordered);
  for (; at > 0 && strcmp(run->roots[run->order[at - 1]], run->roots[ordered - 1]) > 0; at--) {
    run->order[at] = run->order[at - 1];
  }
  run->order[at] = ordered - 1;
  return ordered - 1;
}

static size_t find_facts(struct ctl_run *run, const struct ctl_facts *f) {
  for (size_t k = run->facts_count; k-- > 0;) { /* a new one is like the one before */
    const struct ctl_facts *g = &run->facts[k];
    if (g->how == f->how && g->strategy == f->strategy && g->size == f->size &&
        g->shuffled == f->shuffled && g->remainder == f->remainder && g->sample == f->sample &&
        g->seed == f->seed && g->entries == f->entries && g->used == f->used &&
        g->needed == f->needed && g->dataset == f->dataset && strcmp(g->digest, f->digest) == 0) {
      return k;
    }
  }
  struct ctl_facts *new = ADD(run->facts, run->facts_count);
  *new = *f;
  new->file = copied(f->file, strlen(f->file));
  return run->facts_count - 1;
}

/* Read the share at a place, and the place of the one before it in *at. false: it is not whole. */
static bool read_share(struct ctl_run *run, struct ctl_log *log, int fd, uint64_t *at) {
  static struct shard_log_note notes[1 + SHARD_LOG_SHARE_MOST / 8];
  static union {
    struct shard_log_share share;
    char bytes[SHARD_LOG_SHARE_MOST + 8];
  } u;
  uint64_t most = log->notes - (*at - 1);
  most = most < sizeof(notes) / sizeof(*notes) ? most : sizeof(notes) / sizeof(*notes);
  uint64_t n = read_at(fd, place_of(*at - 1), notes, most * sizeof(*notes)) ? notes[0].hash : 0;
  uint64_t what = notes[0].what, text = what + (1 << 16);
  size_t size = sizeof(u.share) + 1;
  if ((what & 0xffff) != SHARD_LOG_MARK || (what >> 16 & 255) != SHARD_LOG_SHARE ||
      (what >> 24 & 255) >= SHARD_LOG_DATASETS || n >= most || 8 * n < size) {
    return false;
  }
  for (uint64_t i = 0; i < n; i++) {
    if (notes[1 + i].what != text) {
      return false;
    }
    memcpy(u.bytes + 8 * i, (const void *)&notes[1 + i].hash, 8);
  }
  u.bytes[8 * n] = 0;
  size_t root = u.share.root_length;
  if (root == 0 || root > 8 * n - size || u.share.size == 0 || u.share.how > SHARD_LOG_PROGRAM ||
      u.share.strategy > SHARD_STRATEGY_HASH || u.share.remainder > SHARD_REMAINDER_REPEAT ||
      u.share.sample > SHARD_SAMPLE_DIRECTORY || u.share.rank >= u.share.size ||
      u.share.previous >= *at) {
    return false;
  }
  struct ctl_facts facts = {.how = u.share.how,
                            .strategy = u.share.strategy,
                            .size = u.share.size,
                            .shuffled = u.share.shuffled,
                            .remainder = u.share.remainder,
                            .sample = u.share.sample,
                            .seed = u.share.seed,
                            .entries = u.share.entries,
                            .used = u.share.used,
                            .needed = u.share.needed,
                            .file = u.share.texts + root,
                            .dataset = find_root(run, u.share.texts, root)};
  memcpy(facts.digest, u.share.digest, sizeof(u.share.digest));
  log->dataset[what >> 24 & 255] = (int)facts.dataset;
  if (facts.how != SHARD_LOG_UNLISTED) {
    struct ctl_share *share = ADD(run->shares, run->share_count);
    bool told = facts.how != SHARD_LOG_PROGRAM; /* else the rank is not told there */
    *share = (struct ctl_share){log->rank, what >> 32, facts.dataset, find_facts(run, &facts)};
    log->lost += told && ((int)u.share.rank != log->rank || (int)u.share.size != log->size);
  }
  *at = u.share.previous;
  return true;
}

/* Read a file of the directory. NULL, or what is wrong with it. */
static const char *read_log(struct ctl_run *run, int at, const char *name, const char *path) {
  struct shard_log_head head;
  struct stat st;
  int fd = openat(at, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  const char *fault = NULL;
  if (fd < 0 || fstat(fd, &st) != 0) {
    fault = strerror(errno);
  } else if (!S_ISREG(st.st_mode) || !read_at(fd, 0, &head, sizeof(head)) ||
             head.magic != SHARD_LOG_MAGIC) {
    fault = "it is no log of SHARD_STATS, or cut off; move what else there is out of the folder";
    fault = S_ISREG(st.st_mode) && head.magic == 0 && st.st_size > 0
                ? "it is all zeros: its file system keeps no stores through a mapping"
                : fault;
  } else if (head.rank < -1 || (head.rank >= 0) != (head.size > head.rank && head.size > 0)) {
    fault = "it is damaged";
  } else {
    struct ctl_log *log = ADD(run->logs, run->log_count);
    uint64_t most = ((uint64_t)st.st_size - SHARD_LOG_HEAD) / sizeof(struct shard_log_note);
    *log = (struct ctl_log){.path = copied(path, PATH_MAX),
                            .host = copied(head.host, sizeof(head.host)),
                            .name = copied(head.name, sizeof(head.name)),
                            .rank = head.rank,
                            .size = head.size,
                            .pid = head.pid,
                            .begun = head.begun,
                            .ended = head.ended,
                            .start = head.start,
                            .namespace = head.namespace,
                            .job = head.job,
                            .notes = head.notes < most ? head.notes : most,
                            .lost = head.lost + (head.notes > most ? head.notes - most : 0)};
    memset(log->dataset, -1, sizeof(log->dataset));
    for (uint64_t share = head.shares; share > 0;) {
      if (share > log->notes || !read_share(run, log, fd, &share)) {
        log->lost++;
        break;
      }
    }
  }
  if (fd >= 0) {
    close(fd);
  }
  return fault;
}

int ctl_logs_read(struct ctl_run *run, const char *directory) {
  DIR *dir = opendir(directory);
  char path[PATH_MAX], line[PATH_MAX + 200];
  struct stat st;
  if (!dir || fstat(dirfd(dir), &st) != 0) {
    return ctl_fail("cannot read folder '%s' of SHARD_STATS: %s", directory, strerror(errno));
  }
  for (size_t i = 0; i < run->place_count; i++) {
    if (run->places[i].dev == st.st_dev && run->places[i].ino == st.st_ino) {
      closedir(dir); /* of all nodes it is one */
      return CTL_DONE;
    }
  }
  *ADD(run->places, run->place_count) = (struct ctl_place){st.st_dev, st.st_ino};
  errno = 0;
  for (struct dirent *d; (d = readdir(dir)); errno = 0) {
    if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) {
      snprintf(path, sizeof(path), "%s/%s", directory, d->d_name);
      const char *fault = read_log(run, dirfd(dir), d->d_name, path);
      if (fault) {
        snprintf(line, sizeof(line), "'%s': %s", path, fault);
        *ADD(run->bad, run->bad_count) = copied(line, sizeof(line));
      }
    }
  }
  int rc = errno ? ctl_fail("cannot read folder '%s': %s", directory, strerror(errno)) : CTL_DONE;
  closedir(dir);
  return rc;
}

/* ---- a listing ---------------------------------------------------------- */

/* The names of one listing, or a part of them, by the hash of root and name. */
static struct table {
  size_t facts; /* that it is of; SIZE_MAX: of none */
  uint64_t part;
  bool good;
  uint64_t slots, *hashes; /* a hash of 0 is none */
  uint32_t *positions;
} table = {.facts = SIZE_MAX};

/* Whether ranks share a listing, each a part of it. */
static bool is_divided(const struct ctl_facts *f) {
  return f->how == SHARD_LOG_ONE || f->how == SHARD_LOG_BY_EPOCH;
}

/* Whether ranks share samples of several files. */
static bool is_by_samples(const struct ctl_facts *f) {
  return f->sample != SHARD_SAMPLE_FILE && is_divided(f);
}

/* The rank's share of what it shares with others, or all. */
static struct shard_share share_of(const struct ctl_facts *f, int rank, uint64_t epoch) {
  bool all = !is_divided(f);
  struct shard_share share;
  shard_share_init(&share, (enum shard_strategy)f->strategy,
                   all ? SHARD_REMAINDER_KEEP : (enum shard_remainder)f->remainder,
                   all ? 0 : (uint32_t)rank, all ? 1 : f->size,
                   is_by_samples(f) ? f->samples : f->used,
                   f->shuffled && !all ? shard_shuffle_key(f->seed, epoch) : 0);
  return share;
}

/* How many files a share has. */
static uint64_t count_files(const struct ctl_facts *f, const struct shard_share *share) {
  static struct shard_listing *listing;
  static const struct ctl_facts *of;
  uint64_t files = 0;
  if (!is_by_samples(f)) {
    return share->count;
  }
  if (of != f) {
    shard_listing_close(listing);
    of = f;
    listing = NULL;
    if (!f->is_there || shard_listing_open(f->file, &listing) != 0) {
      listing = NULL;
    }
  }
  for (uint64_t k = 0; listing && k < share->count; k++) {
    uint64_t sample = shard_share_at(share, shard_share_place(share, k));
    files += (uint64_t)(shard_listing_sample_begin(listing, sample + 1) -
                        shard_listing_sample_begin(listing, sample));
  }
  return files;
}

static uint64_t parts; /* hashes are looked at in so many parts */

static uint64_t part_of(uint64_t hash) { return (uint64_t)((unsigned __int128)hash * parts >> 64); }

static uint64_t slot_of(uint64_t hash) {
  return (uint64_t)((unsigned __int128)(hash * SHARD_XXH_PRIME1) * table.slots >> 64);
}

static void insert(uint64_t hash, uint64_t position) {
  uint64_t at = slot_of(hash);
  while (table.hashes[at] != 0) {
    at = at + 1 < table.slots ? at + 1 : 0;
  }
  table.hashes[at] = hash;
  table.positions[at] = (uint32_t)position;
}

/* The position of the name with this hash; UINT64_MAX: the listing has none. */
static uint64_t look_up(uint64_t hash, uint64_t at) {
  for (; table.hashes[at] != 0; at = at + 1 < table.slots ? at + 1 : 0) {
    if (table.hashes[at] == hash) {
      return table.positions[at];
    }
  }
  return UINT64_MAX;
}

/* Call `take` with the hash of each of the first `most` names below the root, and its position or
 * sample. false: the listing cannot be read, or is another one. */
static bool each_name(const char *file, const char *digest, const char *root, uint64_t most,
                      bool samples, void (*take)(uint64_t hash, uint64_t position)) {
  static struct shard_cursor cursor;
  struct shard_sample_cursor near = {.end = 0};
  static char path[2 * PATH_MAX + SHARD_NAME_MAX];
  struct shard_listing *listing;
  struct shard_listing_info info;
  const char *name;
  size_t base = strlen(root);
  ssize_t n = 0;
  if (!*file || base >= PATH_MAX || shard_listing_open(file, &listing) != 0) {
    return false;
  }
  strcpy(path, root);
  shard_listing_info(listing, &info);
  bool good =
      (!digest || strcmp(info.digest, digest) == 0) && shard_listing_seek(&cursor, listing, 0) == 0;
  for (uint64_t i = 0; good && i < most && (n = shard_listing_next(&cursor, &name)) != 0; i++) {
    int64_t position = samples ? shard_listing_sample_near(listing, i, &near) : (int64_t)i;
    good = n > 0 && position >= 0;
    if (good) {
      memcpy(path + base, name, (size_t)n);
      take(shard_xxh64(path, base + (size_t)n, 0), (uint64_t)position);
    }
  }
  shard_listing_close(listing);
  return good;
}

static void take_part(uint64_t hash, uint64_t position) {
  if (part_of(hash) == table.part && hash != 0) {
    insert(hash, position);
  }
}

/* Have the names of these facts' listing in the table. false: it cannot be had. */
static bool have_table(struct ctl_run *run, size_t facts, uint64_t part) {
  const struct ctl_facts *f = &run->facts[facts];
  if (table.facts == facts && table.part == part) {
    return table.good;
  }
  if (table.hashes) {
    munmap(table.hashes, table.slots * sizeof(*table.hashes));
    munmap(table.positions, table.slots * sizeof(*table.positions));
  }
  /* A part of so many names is hardly ever larger by an eighth. */
  uint64_t slots = f->entries / parts * 3 / 2 + 4096;
  table = (struct table){.facts = facts, .part = part, .slots = slots};
  bool fits = f->entries <= UINT32_MAX;
  void *memory[2] = {MAP_FAILED, MAP_FAILED};
  for (int i = 0; fits && i < 2; i++) {
    size_t size = slots * (i ? sizeof(*table.positions) : sizeof(*table.hashes));
    memory[i] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fits = memory[i] != MAP_FAILED;
    if (fits) {
      madvise(memory[i], size, MADV_HUGEPAGE);
    }
  }
  if (!fits) {
    table.hashes = NULL;
    return false;
  }
  table.hashes = memory[0];
  table.positions = memory[1];
  table.good = each_name(f->file, f->digest, run->roots[f->dataset], f->entries, is_by_samples(f),
                         take_part);
  return table.good;
}

static uint64_t total_count, total_sum;
static void take_sum(uint64_t hash, uint64_t position) {
  (void)position;
  total_count++;
  total_sum += hash;
}

bool ctl_logs_sum(const char *file, const char *digest, const char *root, uint64_t most,
                  uint64_t *count, uint64_t *sum) {
  total_count = total_sum = 0;
  bool good = each_name(file, digest, root, most, false, take_sum);
  *count = total_count;
  *sum = total_sum;
  return good;
}

/* ---- notes -------------------------------------------------------------- */

/* Names that a group has noted, by their hashes; and how often in a cell. */
static struct name {
  uint64_t hash;
  uint32_t counts; /* the latest of `counts`, and 1 */
} * names;
static struct count {
  uint32_t cell; /* twice the number from the group's first, and 1 of what was served */
  uint32_t count, next;
} * counts;
static uint32_t *places;                       /* of names, by hash, and 1 */
static uint64_t name_count, count_count, room; /* of places: a power of two */

/* Make room for so many notes, of which there are none as yet. */
static void clear(uint64_t notes) {
  static uint64_t had;
  for (room = 1024; room < 2 * notes; room *= 2) {
  }
  if (room > had) {
    free(names);
    free(counts);
    free(places);
    names = malloc(room / 2 * sizeof(*names));
    counts = calloc(room / 2, sizeof(*counts));
    places = malloc(room * sizeof(*places));
    had = room;
  }
  if (!names || !counts || !places) {
    exit(ctl_fail("out of memory"));
  }
  memset(places, 0, room * sizeof(*places));
  name_count = count_count = 0;
}

/* Where the count of a cell is, or is to be put: a name's latest cell is the first. */
static uint32_t *find_count(struct name *name, uint32_t cell) {
  uint32_t *k = &name->counts;
  while (*k > 0 && counts[*k - 1].cell > cell) {
    k = &counts[*k - 1].next;
  }
  return k;
}

static bool has_count(struct name *name, uint32_t cell) {
  uint32_t k = *find_count(name, cell);
  return k > 0 && counts[k - 1].cell == cell;
}

static void add_note(uint64_t hash, uint32_t cell) {
  uint64_t at = hash * SHARD_XXH_PRIME1 >> 20 & (room - 1);
  while (places[at] > 0 && names[places[at] - 1].hash != hash) {
    at = (at + 1) & (room - 1);
  }
  if (places[at] == 0) {
    names[name_count++] = (struct name){hash, 0};
    places[at] = (uint32_t)name_count;
  }
  uint32_t *k = find_count(&names[places[at] - 1], cell);
  if (*k == 0 || counts[*k - 1].cell != cell) {
    counts[count_count] = (struct count){cell, 0, *k};
    *k = (uint32_t)++count_count;
  }
  counts[*k - 1].count++;
}

/* The cell of these, from `first` on; it is made if there is none. */
static size_t find_cell(struct ctl_run *run, size_t first, int rank, size_t dataset,
                        uint64_t epoch) {
  for (size_t i = run->cell_count; i-- > first;) {
    if (run->cells[i].dataset == dataset && run->cells[i].epoch == epoch) {
      return i;
    }
  }
  *ADD(run->cells, run->cell_count) = (struct ctl_cell){
      .rank = rank, .epoch = epoch, .dataset = dataset, .facts = SIZE_MAX, .least = UINT64_MAX};
  return run->cell_count - 1;
}

/* Logs that are counted together. */
struct group {
  size_t begin, end; /* of run->logs */
  int rank;          /* -1: all ranks */
  int dataset;       /* only; -1: all */
  size_t cells;      /* the first of its cells */
  bool merge;        /* epochs are one */
};

/* Sort out the notes of a log that are in a part. */
static void read_notes(struct ctl_run *run, const struct group *g, struct ctl_log *log,
                       uint64_t part) {
  static struct shard_log_note window[WINDOW];
  uint64_t last = 0, cell = 0;
  int fd = open(log->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  for (uint64_t at = 0; at < log->notes; at += WINDOW) {
    size_t n = log->notes - at < WINDOW ? log->notes - at : WINDOW;
    if (fd < 0 || !read_at(fd, place_of(at), window, n * sizeof(*window))) {
      run->lost += part == 0 ? log->notes - at : 0;
      break;
    }
    for (size_t i = 0; i < n; i++) {
      uint64_t hash = window[i].hash, what = window[i].what;
      unsigned kind = what >> 16 & 255;
      if (kind >= SHARD_LOG_SHARE && (what & 0xffff) == SHARD_LOG_MARK) {
        continue;
      }
      unsigned slot = what >> 24 & 255;
      int dataset = slot < SHARD_LOG_DATASETS ? log->dataset[slot] : -1;
      if ((what & 0xffff) != SHARD_LOG_MARK || dataset < 0) { /* its process was killed */
        run->lost += part == 0 && g->rank >= 0;
        continue;
      }
      if (part_of(hash) != part || (g->dataset >= 0 && g->dataset != dataset)) {
        continue;
      }
      if (what != last && run->cell_count - g->cells >= CELLS_MOST) {
        run->lost += part == 0;
        continue;
      }
      if (what != last) {
        last = what;
        cell = find_cell(run, g->cells, g->rank, (size_t)dataset, g->merge ? 0 : what >> 32);
      }
      uint32_t key = (uint32_t)(cell - g->cells) * 2 + (kind == SHARD_LOG_SERVED);
      if (name_count < room / 2 && count_count < room / 2) {
        add_note(hash, key);
      } else { /* more than its share of this part, by chance or by design */
        run->lost++;
      }
    }
  }
  if (fd >= 0) {
    close(fd);
  }
}

static void count_own(struct ctl_cell *c, uint64_t count, bool own) {
  if (!own) {
    c->others++;
    return;
  }
  c->read++;
  c->least = count < c->least ? count : c->least;
  c->most = count > c->most ? count : c->most;
}

/* Add up what read_notes() has sorted out, but for which names are the rank's own. */
static void add_up(struct ctl_run *run, const struct group *g) {
  for (uint64_t i = 0; i < name_count; i++) {
    uint64_t hash = names[i].hash, mixed = (hash ^ hash >> 29) * SHARD_XXH_PRIME1;
    for (uint32_t k = names[i].counts; k > 0; k = counts[k - 1].next) {
      const struct count *n = &counts[k - 1];
      struct ctl_cell *c = &run->cells[g->cells + n->cell / 2];
      if (n->cell % 2) {
        c->served++;
        c->served_sum += hash;
        continue;
      }
      c->opens += n->count;
      c->distinct++;
      c->sum += hash;
      c->weight += mixed * n->count;
      if (c->known && c->facts != SIZE_MAX && run->facts[c->facts].how == SHARD_LOG_HASHED) {
        count_own(c, n->count, has_count(&names[i], n->cell + 1));
      }
    }
  }
}

/* Which names of the rank's cells are its own, of those that share this listing, which is in the
 * table. Lookups go to memory that is far away, so several are on their way at a time. */
static void find_own(struct ctl_run *run, const struct group *g, size_t facts) {
  static struct shard_share *shares;
  const struct ctl_facts *f = &run->facts[facts];
  free(shares);
  shares = calloc(run->cell_count - g->cells, sizeof(*shares));
  for (size_t i = g->cells; shares && i < run->cell_count; i++) {
    shares[i - g->cells] = share_of(f, g->rank, run->cells[i].epoch);
  }
  for (uint64_t i = 0; shares && i < name_count; i++) {
    if (i + 16 < name_count) {
      uint64_t ahead = slot_of(names[i + 16].hash);
      __builtin_prefetch(&table.hashes[ahead]);
      __builtin_prefetch(&table.positions[ahead]);
    }
    uint64_t position = look_up(names[i].hash, slot_of(names[i].hash));
    for (uint32_t k = names[i].counts; k > 0; k = counts[k - 1].next) {
      size_t which = counts[k - 1].cell / 2;
      struct ctl_cell *c = &run->cells[g->cells + which];
      if (counts[k - 1].cell % 2 == 0 && c->facts == facts) {
        count_own(c, counts[k - 1].count,
                  position < f->used && shard_share_owns(&shares[which], position));
      }
    }
  }
}

static bool has_table(const struct ctl_facts *f) {
  return f->how != SHARD_LOG_HASHED && f->is_there;
}

/* The facts of a cell. Without a shuffle they hold for all epochs: a program that divides a dataset
 * itself tells them once, and a worker that was started anew may read without listing. */
static void give_facts(struct ctl_run *run, const struct group *g, size_t cell) {
  struct ctl_cell *c = &run->cells[cell];
  for (size_t k = g->cells; c->facts == SIZE_MAX && k < run->cell_count; k++) {
    const struct ctl_cell *other = &run->cells[k];
    const struct ctl_facts *f = other->facts == SIZE_MAX ? NULL : &run->facts[other->facts];
    if (f && other->dataset == c->dataset && !f->shuffled &&
        (f->how == SHARD_LOG_PROGRAM || f->how == SHARD_LOG_ONE || f->how == SHARD_LOG_ALL)) {
      c->facts = other->facts;
      c->own = other->own;
    }
  }
}

static void count_group(struct ctl_run *run, const struct group *g) {
  uint64_t notes = 0;
  for (size_t i = g->begin; i < g->end; i++) {
    notes += run->logs[i].notes;
  }
  for (uint64_t part = 0; part < parts; part++) {
    clear(notes / parts + notes / parts / 8 + 1024);
    for (size_t i = g->begin; i < g->end; i++) {
      read_notes(run, g, &run->logs[i], part);
    }
    add_up(run, g);
    for (size_t i = g->cells; g->rank >= 0 && i < run->cell_count; i++) {
      give_facts(run, g, i);
    }
    for (size_t i = g->cells; g->rank >= 0 && i < run->cell_count; i++) {
      size_t facts = run->cells[i].facts;
      bool first = facts != SIZE_MAX && has_table(&run->facts[facts]);
      for (size_t k = g->cells; k < i && first; k++) {
        first = run->cells[k].facts != facts;
      }
      if (first && have_table(run, facts, part)) {
        find_own(run, g, facts);
      }
    }
  }
  for (size_t i = g->cells; g->rank >= 0 && i < run->cell_count; i++) {
    struct ctl_cell *c = &run->cells[i];
    size_t facts = c->facts;
    if (facts != SIZE_MAX && run->facts[facts].how == SHARD_LOG_HASHED) {
      c->own = c->served;
    }
    c->known |= facts != SIZE_MAX && has_table(&run->facts[facts]) &&
                c->read + c->others == c->distinct && have_table(run, facts, parts - 1);
  }
}

/* Cells for all shares of a rank, before its notes are counted. */
static void make_cells(struct ctl_run *run, const struct group *g, size_t *share) {
  for (; *share < run->share_count && run->shares[*share].rank <= g->rank; ++*share) {
    const struct ctl_share *s = &run->shares[*share];
    if (s->rank < g->rank) {
      continue; /* of a rank that has no log by now: it has become another one */
    }
    size_t i = find_cell(run, g->cells, g->rank, s->dataset, g->merge ? 0 : s->epoch);
    struct ctl_cell *c = &run->cells[i];
    struct ctl_facts *f = &run->facts[s->facts];
    c->mixed |= c->facts != SIZE_MAX && c->facts != s->facts;
    c->facts = s->facts;
    if (f->how == SHARD_LOG_HASHED) {
      c->known = true;
    } else {
      struct shard_share its = share_of(f, s->rank, s->epoch);
      c->own = count_files(f, &its);
    }
  }
}

/* qsort(3), which takes no NULL. */
static void sort(void *list, size_t count, size_t size,
                 int (*compare)(const void *, const void *)) {
  if (count > 0) {
    qsort(list, count, size, compare);
  }
}

static int by_rank(const void *pa, const void *pb) {
  const struct ctl_log *a = pa, *b = pb;
  int order = (a->rank > b->rank) - (a->rank < b->rank);
  order = order ? order : strcmp(a->name, b->name);
  return order ? order : strcmp(a->path, b->path);
}

static int by_share(const void *pa, const void *pb) {
  const struct ctl_share *a = pa, *b = pb;
  return a->rank != b->rank         ? (a->rank > b->rank) - (a->rank < b->rank)
         : a->dataset != b->dataset ? (a->dataset > b->dataset) - (a->dataset < b->dataset)
                                    : (a->epoch > b->epoch) - (a->epoch < b->epoch);
}

static int by_cell(const void *pa, const void *pb) {
  const struct ctl_cell *a = pa, *b = pb;
  return a->rank != b->rank         ? (a->rank > b->rank) - (a->rank < b->rank)
         : a->dataset != b->dataset ? (a->dataset > b->dataset) - (a->dataset < b->dataset)
                                    : (a->epoch > b->epoch) - (a->epoch < b->epoch);
}

/* Whether a listing is that of these facts, or stands for it. */
static bool is_listing(struct ctl_facts *f, const char *file) {
  struct shard_listing *listing;
  struct shard_listing_info info;
  if (!*file || shard_listing_open(file, &listing) != 0) {
    return false;
  }
  shard_listing_info(listing, &info);
  f->samples = shard_listing_samples(listing);
  bool ruled = !is_divided(f) || listing->header->sample == f->sample;
  shard_listing_close(listing);
  if (f->how == SHARD_LOG_ALL) { /* it sees the real directory: so many names, if they are all */
    memcpy(f->digest, info.digest, sizeof(f->digest));
    f->entries = f->used = info.entries;
  }
  return ruled && strcmp(info.digest, f->digest) == 0 && info.entries == f->entries;
}

static void find_listings(struct ctl_run *run, const char *whole) {
  for (size_t i = 0; i < run->facts_count; i++) {
    struct ctl_facts *f = &run->facts[i];
    f->is_there = is_listing(f, f->file);
    if (!f->is_there && whole && is_listing(f, whole)) {
      f->file = copied(whole, PATH_MAX);
      f->is_there = true;
    }
  }
}

int ctl_logs_count(struct ctl_run *run, const char *whole, bool merge) {
  uint64_t most = 1, longest = 1;
  size_t share = 0;
  run->lost = 0;
  run->no_rank = true;
  for (size_t i = 0; i < run->log_count; i++) {
    run->no_rank &= run->logs[i].rank < 0;
    run->lost += run->logs[i].lost;
  }
  for (size_t i = 0; run->no_rank && i < run->log_count; i++) {
    run->logs[i].rank = 0;
    run->logs[i].size = 1;
  }
  for (size_t i = 0; i < run->share_count; i++) {
    run->shares[i].rank = run->no_rank ? 0 : run->shares[i].rank;
  }
  find_listings(run, whole);
  table.facts = SIZE_MAX;
  sort(run->logs, run->log_count, sizeof(*run->logs), by_rank);
  sort(run->shares, run->share_count, sizeof(*run->shares), by_share);
  for (size_t i = 0; i < run->facts_count; i++) {
    uint64_t n = has_table(&run->facts[i]) ? run->facts[i].entries : 0;
    longest = n > longest ? n : longest;
  }
  for (size_t i = 0, k; i < run->log_count; i = k) {
    uint64_t notes = 0;
    for (k = i; k < run->log_count && run->logs[k].rank == run->logs[i].rank; k++) {
      notes += run->logs[k].notes;
    }
    most = notes > most ? notes : most;
  }
  parts = (longest - 1) / NAMES_MOST + 1;
  parts = (most - 1) / NOTES_MOST + 1 > parts ? (most - 1) / NOTES_MOST + 1 : parts;
  run->cell_count = 0;
  for (size_t i = 0, k; i < run->log_count; i = k) {
    struct group g = {i, 0, run->logs[i].rank, -1, run->cell_count, merge};
    for (k = i; k < run->log_count && run->logs[k].rank == g.rank; k++) {
    }
    g.end = k;
    if (g.rank >= 0) {
      make_cells(run, &g, &share);
      count_group(run, &g);
      sort(run->cells + g.cells, run->cell_count - g.cells, sizeof(*run->cells), by_cell);
    }
  }
  return CTL_DONE;
}

uint64_t ctl_logs_union(struct ctl_run *run, size_t dataset, uint64_t epoch) {
  struct group g = {0, run->log_count, -1, (int)dataset, 0, false};
  uint64_t notes = 1;
  for (size_t i = 0; i < run->cell_count; i++) { /* behind the ranks' cells */
    const struct ctl_cell *c = &run->cells[i];
    if (c->rank < 0 && c->dataset == dataset && c->epoch == epoch) {
      return c->distinct;
    }
  }
  for (size_t i = 0; i < run->log_count; i++) {
    notes += run->logs[i].notes;
  }
  parts = (notes - 1) / NOTES_MOST + 1;
  g.cells = run->cell_count;
  count_group(run, &g);
  size_t i = find_cell(run, g.cells, -1, dataset, epoch);
  return run->cells[i].distinct;
}
