/* SPDX-License-Identifier: MIT */
/*
 * logs.c - reads logs. All notes, and the names that are each rank's own, go into one array, which
 * is sorted by hash: then all entries of a name are neighbours, and one pass adds them up.
 */
#include "ctl/logs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xxh64.h"
#include "ctl/ctl.h"
#include "libshard.h"
#include "listing/listing.h"
#include "listing/samples.h"
#include "shard/shard.h"

#define NAMES_MOST ((uint64_t)16 << 20) /* in the array: 270 MB */
#define CELLS_MOST ((size_t)4 << 20)    /* 700 MB */
#define WINDOW 65536U                   /* notes that are read at once */

static void *must(void *memory) {
  return memory ? memory : (exit(ctl_fail("out of memory")), memory);
}

/* Returns the list with room for another element. It is doubled at each power of two. */
static void *grown(void *list, size_t count, size_t size) {
  bool full = (count & (count - 1)) == 0;
  return full ? must(realloc(list, (count ? 2 * count : 1) * size)) : list;
}

/* Add a zeroed element to a list. */
#define ADD(list, count)                                                                           \
  ((list) = grown((list), (count), sizeof(*(list))), memset(&(list)[(count)], 0, sizeof(*(list))), \
   &(list)[(count)++])

/* Add a pointer to a list of pointers. */
#define ADD_POINTER(list, count, pointer)                                                          \
  ((list) = grown((list), (count), sizeof(void *)), (list)[(count)++] = (pointer))

static char *copied(const char *text, size_t n) { return must(strndup(text, n)); }

static bool read_at(int fd, uint64_t at, void *buf, size_t size) {
  size_t got = 0;
  for (ssize_t n = 1; n > 0 && got<size; got += n> 0 ? (size_t)n : 0) {
    n = pread(fd, (char *)buf + got, size - got, (off_t)(at + got));
  }
  return got == size;
}

static bool read_notes(int fd, uint64_t first, struct shard_log_note *notes, size_t count) {
  return read_at(fd, SHARD_LOG_HEAD + first * sizeof(*notes), notes, count * sizeof(*notes));
}

static int open_log(const char *path) {
  return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* ---- cells -------------------------------------------------------------- */

static int by_cell(const void *pa, const void *pb) {
  const struct ctl_cell *a = pa, *b = pb;
  int order = a->dataset == b->dataset ? 0 : strcmp(a->dataset->root, b->dataset->root);
  order = order ? order : (a->epoch > b->epoch) - (a->epoch < b->epoch);
  return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

static int by_cell_at(const void *pa, const void *pb) {
  return by_cell(*(struct ctl_cell *const *)pa, *(struct ctl_cell *const *)pb);
}

/* Find a cell, or make it. Returns NULL if there are too many. */
static struct ctl_cell *find_cell(struct ctl_run *run, int rank, struct ctl_dataset *dataset,
                                  uint64_t epoch) {
  struct ctl_cell wanted = {.rank = rank, .dataset = dataset, .epoch = epoch, .least = UINT64_MAX};
  struct ctl_cell **found = tfind(&wanted, &run->tree, by_cell);
  if (found || run->cell_count >= CELLS_MOST) {
    return found ? *found : NULL;
  }
  struct ctl_cell *cell = must(malloc(sizeof(*cell)));
  *cell = wanted;
  must(tsearch(cell, &run->tree, by_cell));
  return ADD_POINTER(run->cells, run->cell_count, cell);
}

static void drop_cells(struct ctl_run *run) {
  for (size_t i = 0; i < run->cell_count; i++) {
    tdelete(run->cells[i], &run->tree, by_cell);
    free(run->cells[i]);
  }
  run->cell_count = run->epoch_count = 0;
}

/* Sort the cells, and find the epochs. */
static void make_epochs(struct ctl_run *run) {
  if (run->cell_count > 0) {
    qsort(run->cells, run->cell_count, sizeof(void *), by_cell_at);
  }
  run->epoch_count = 0;
  for (size_t i = 0; i < run->cell_count; i++) {
    struct ctl_cell *c = run->cells[i], *before = i > 0 ? run->cells[i - 1] : NULL;
    if (!before || before->dataset != c->dataset || before->epoch != c->epoch) {
      *ADD(run->epochs, run->epoch_count) =
          (struct ctl_epoch){.dataset = c->dataset, .number = c->epoch, .cells = &run->cells[i]};
    }
    c->index = (uint32_t)i;
    c->epoch_index = (uint32_t)run->epoch_count - 1;
    run->epochs[c->epoch_index].count++;
  }
}

/* ---- heads and shares --------------------------------------------------- */

static struct ctl_dataset *find_dataset(struct ctl_run *run, const char *root, size_t n) {
  for (size_t i = 0; i < run->dataset_count; i++) {
    if (strlen(run->datasets[i]->root) == n && memcmp(run->datasets[i]->root, root, n) == 0) {
      return run->datasets[i];
    }
  }
  struct ctl_dataset *dataset = must(calloc(1, sizeof(*dataset)));
  *dataset = (struct ctl_dataset){.root = copied(root, n), .index = run->dataset_count};
  return ADD_POINTER(run->datasets, run->dataset_count, dataset);
}

/* Returns a share without what differs between processes that share a division. */
static struct shard_log_share division_of(const struct shard_log_share *share) {
  struct shard_log_share told = *share;
  told.rank = told.root_length = 0;
  told.previous = 0;
  return told;
}

static struct ctl_division *find_division(struct ctl_run *run, struct ctl_dataset *dataset,
                                          const struct shard_log_share *share, const char *file) {
  struct shard_log_share told = division_of(share);
  for (size_t k = run->division_count; k-- > 0;) { /* most are equal to the latest */
    struct ctl_division *d = run->divisions[k];
    if (d->dataset == dataset && memcmp(&d->told, &told, sizeof(told)) == 0) {
      return d;
    }
  }
  struct ctl_division *d = must(calloc(1, sizeof(*d)));
  *d = (struct ctl_division){.dataset = dataset, .told = told, .file = copied(file, PATH_MAX)};
  memcpy(d->digest, told.digest, sizeof(told.digest));
  return ADD_POINTER(run->divisions, run->division_count, d);
}

/* Read the share at place *at, and set *at to the place of the share before. Returns false if the
 * share is not whole. */
static bool read_share(struct ctl_run *run, struct ctl_log *log, int fd, uint64_t *at) {
  static struct shard_log_note notes[1 + SHARD_LOG_SHARE_MOST / 8];
  static union {
    struct shard_log_share share;
    char bytes[SHARD_LOG_SHARE_MOST + 8];
  } u;
  const size_t room = sizeof(notes) / sizeof(*notes), least = sizeof(u.share) + 1;
  uint64_t most = log->notes - (*at - 1);
  most = most < room ? most : room;
  uint64_t n = read_notes(fd, *at - 1, notes, most) ? notes[0].hash : 0, what = notes[0].what,
           text = what + (1 << 16), slot = what >> 24 & 255;
  if ((what & 0xffff) != SHARD_LOG_MARK || (what >> 16 & 255) != SHARD_LOG_SHARE ||
      slot >= SHARD_LOG_DATASETS || n >= most || 8 * n < least) {
    return false;
  }
  for (uint64_t i = 0; i < n; i++) {
    if (notes[1 + i].what != text) {
      return false;
    }
    memcpy(u.bytes + 8 * i, (const void *)&notes[1 + i].hash, 8);
  }
  u.bytes[8 * n] = 0;
  const struct shard_log_share *s = &u.share;
  if (s->root_length == 0 || s->root_length > 8 * n - least || s->size == 0 ||
      s->how > SHARD_LOG_PROGRAM || s->strategy > SHARD_STRATEGY_HASH ||
      s->remainder > SHARD_REMAINDER_REPEAT || s->sample > SHARD_SAMPLE_DIRECTORY ||
      s->rank >= s->size || s->previous >= *at) {
    return false;
  }
  struct ctl_dataset *dataset = find_dataset(run, s->texts, s->root_length);
  struct ctl_cell *cell =
      log->head.rank < 0 ? NULL : find_cell(run, log->head.rank, dataset, what >> 32);
  log->dataset[slot] = (int)dataset->index;
  if (cell && s->how != SHARD_LOG_UNLISTED) {
    bool told = s->how != SHARD_LOG_PROGRAM; /* such a share has no rank */
    log->lost += told && ((int)s->rank != log->head.rank || (int)s->size != log->head.size);
    const struct ctl_division *d = find_division(run, dataset, s, s->texts + s->root_length);
    cell->mixed = cell->division && cell->division != d ? cell->division : cell->mixed;
    cell->division = d;
  }
  *at = s->previous;
  return true;
}

static void read_shares(struct ctl_run *run, struct ctl_log *log) {
  int fd = open_log(log->path);
  for (uint64_t share = log->head.shares; share > 0;) {
    if (fd < 0 || share > log->notes || !read_share(run, log, fd, &share)) {
      log->lost++;
      break;
    }
  }
  if (fd >= 0) {
    close(fd);
  }
}

/* Read the head of a log. Returns NULL, or what is wrong with the file. */
static const char *read_head(struct ctl_run *run, const char *path) {
  struct shard_log_head head = {0};
  struct stat st = {0};
  int fd = open_log(path);
  const char *fault = fd < 0 || fstat(fd, &st) != 0 ? strerror(errno) : NULL;
  bool whole = !fault && S_ISREG(st.st_mode) && read_at(fd, 0, &head, sizeof(head));
  if (fd >= 0) {
    close(fd);
  }
  if (fault) {
    return fault;
  }
  if (whole && head.magic == 0) {
    return "it is all zeros: its file system keeps no stores through a mapping";
  }
  if (!whole || head.magic != SHARD_LOG_MAGIC) {
    return "it is not a log of SHARD_STATS, or is cut off; move other files out of the folder";
  }
  if (head.rank < -1 || (head.rank >= 0) != (head.size > head.rank && head.size > 0)) {
    return "it is damaged";
  }
  uint64_t most = st.st_size > SHARD_LOG_HEAD
                      ? ((uint64_t)st.st_size - SHARD_LOG_HEAD) / sizeof(struct shard_log_note)
                      : 0;
  struct ctl_log *log = ADD(run->logs, run->log_count);
  head.host[sizeof(head.host) - 1] = head.name[sizeof(head.name) - 1] = 0;
  *log = (struct ctl_log){.path = copied(path, PATH_MAX),
                          .head = head,
                          .notes = head.notes < most ? head.notes : most,
                          .lost = head.lost + (head.notes > most ? head.notes - most : 0)};
  memset(log->dataset, -1, sizeof(log->dataset));
  return NULL;
}

static int read_folder(struct ctl_run *run, const char *folder) {
  DIR *dir = opendir(folder);
  char path[PATH_MAX], line[PATH_MAX + 200];
  if (!dir) {
    return ctl_fail("cannot read folder '%s' of SHARD_STATS: %s", folder, strerror(errno));
  }
  errno = 0;
  for (struct dirent *d; (d = readdir(dir)); errno = 0) {
    if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) {
      snprintf(path, sizeof(path), "%s/%s", folder, d->d_name);
      const char *fault = read_head(run, path);
      if (fault) {
        snprintf(line, sizeof(line), "'%s': %s", path, fault);
        ADD_POINTER(run->bad, run->bad_count, copied(line, sizeof(line)));
      }
    }
  }
  int rc = errno ? ctl_fail("cannot read folder '%s': %s", folder, strerror(errno)) : CTL_DONE;
  closedir(dir);
  return rc;
}

static int by_rank_and_name(const void *pa, const void *pb) {
  const struct ctl_log *a = pa, *b = pb;
  int order = (a->head.rank > b->head.rank) - (a->head.rank < b->head.rank);
  order = order ? order : strcmp(a->head.name, b->head.name);
  return order ? order : strcmp(a->path, b->path);
}

/* Returns whether each rank has a part of the listing. */
static bool is_divided(const struct ctl_division *d) {
  return d->told.how == SHARD_LOG_ONE || d->told.how == SHARD_LOG_BY_EPOCH;
}

/* Open a listing, if it is the listing of the division. A process that sees the real directory has
 * no listing: then any listing counts, as the list of all names. */
static struct shard_listing *open_if_same(struct ctl_division *d, const char *file) {
  struct shard_listing *listing;
  struct shard_listing_info info;
  if (!*file || shard_listing_open(file, &listing) != 0) {
    return NULL;
  }
  shard_listing_info(listing, &info);
  if (d->told.how == SHARD_LOG_ALL) {
    strcpy(d->digest, info.digest);
    d->told.entries = d->told.used = info.entries;
  }
  if (strcmp(info.digest, d->digest) == 0 && info.entries == d->told.entries &&
      d->told.used <= info.entries &&
      (!is_divided(d) || listing->header->sample == d->told.sample)) {
    return listing;
  }
  shard_listing_close(listing);
  return NULL;
}

int ctl_logs_read(struct ctl_run *run, char **folders, const char *whole) {
  int rc = CTL_DONE;
  bool ranked = false;
  for (; *folders && rc == CTL_DONE; folders++) {
    rc = read_folder(run, *folders);
  }
  for (size_t i = 0; i < run->log_count; i++) {
    ranked |= run->logs[i].head.rank >= 0;
  }
  for (size_t i = 0; i < run->log_count && !ranked; i++) {
    run->logs[i].head.rank = 0;
    run->logs[i].head.size = 1;
  }
  if (run->log_count > 0) {
    qsort(run->logs, run->log_count, sizeof(*run->logs), by_rank_and_name);
    run->size = run->logs[run->log_count - 1].head.size;
  }
  for (size_t i = 0; i < run->log_count; i++) {
    read_shares(run, &run->logs[i]);
    run->size = run->logs[i].head.rank < 0 || run->logs[i].head.size == run->size ? run->size : 0;
  }
  for (size_t i = 0; i < run->division_count; i++) {
    struct ctl_division *d = run->divisions[i];
    d->listing = d->told.how == SHARD_LOG_HASHED ? NULL : open_if_same(d, d->file);
    if (!d->listing && whole && d->told.how != SHARD_LOG_HASHED &&
        (d->listing = open_if_same(d, whole))) {
      d->file = copied(whole, PATH_MAX);
    }
  }
  return rc;
}

/* ---- the array of names ------------------------------------------------- */

/* The name is in the list of all names of a dataset, is a rank's own, or was opened by a rank. */
enum kind { LISTED, OWN, OPENED };

static struct name {
  uint64_t hash;
  uint32_t kind, of; /* the number of a dataset, or of a cell */
} * names;
static size_t name_count;
static uint64_t part, parts; /* the array holds one part at a time, by hash */

static void add_name(uint64_t hash, enum kind kind, uint32_t of) {
  if ((uint64_t)((unsigned __int128)hash * parts >> 64) == part) {
    names = grown(names, name_count, sizeof(*names));
    names[name_count++] = (struct name){hash, kind, of};
  }
}

static int by_hash(const void *pa, const void *pb) {
  const struct name *a = pa, *b = pb;
  return a->hash != b->hash   ? (a->hash > b->hash) - (a->hash < b->hash)
         : a->kind != b->kind ? (a->kind > b->kind) - (a->kind < b->kind)
                              : (a->of > b->of) - (a->of < b->of);
}

/* Sort by hash, byte by byte from `shift` downwards, in place: hashes are spread evenly. */
static void sort_names(struct name *list, size_t count, int shift) {
  size_t ends[257] = {0}, next[256];
  for (size_t i = 1, k; count < 64 && i < count; i++) { /* a few: each goes to its place */
    struct name one = list[i];
    for (k = i; k > 0 && by_hash(&list[k - 1], &one) > 0; k--) {
      list[k] = list[k - 1];
    }
    list[k] = one;
  }
  if (count < 64) {
    return;
  }
  if (shift < 0) {
    qsort(list, count, sizeof(*list), by_hash);
    return;
  }
  for (size_t i = 0; i < count; i++) {
    ends[(list[i].hash >> shift & 255) + 1]++;
  }
  for (size_t byte = 0; byte < 256; byte++) {
    next[byte] = ends[byte];
    ends[byte + 1] += ends[byte];
  }
  for (size_t byte = 0; byte < 256; byte++) {
    while (next[byte] < ends[byte + 1]) {
      struct name *n = &list[next[byte]], moved = *n;
      size_t to = moved.hash >> shift & 255;
      *n = list[next[to]];
      list[next[to]++] = moved;
    }
    sort_names(list + ends[byte], ends[byte + 1] - ends[byte], shift - 8);
  }
}

/* Add the notes of a log to the array; or only make their cells, and count the torn notes of a
 * process that was killed. */
static void take_notes(struct ctl_run *run, struct ctl_log *log, enum ctl_logs_by by, bool cells) {
  static struct shard_log_note window[WINDOW];
  uint64_t last = 0, torn = 0;
  struct ctl_cell *cell = NULL;
  int fd = open_log(log->path);
  for (uint64_t at = 0; at < log->notes; at += WINDOW) {
    size_t n = log->notes - at < WINDOW ? log->notes - at : WINDOW;
    if (fd < 0 || !read_notes(fd, at, window, n)) {
      torn += log->notes - at;
      break;
    }
    for (size_t i = 0; i < n; i++) {
      uint64_t what = window[i].what;
      unsigned kind = what >> 16 & 255, slot = what >> 24 & 255;
      bool marked = (what & 0xffff) == SHARD_LOG_MARK;
      if (marked && (kind == SHARD_LOG_SHARE || kind == SHARD_LOG_TEXT)) {
        continue;
      }
      int dataset = marked && slot < SHARD_LOG_DATASETS ? log->dataset[slot] : -1;
      if (what != last || !cell) {
        cell = dataset < 0 ? NULL
                           : find_cell(run, log->head.rank,
                                       run->datasets[by == CTL_BY_DATASET ? dataset : 0],
                                       by == CTL_BY_RANK ? 0 : what >> 32);
        last = what;
      }
      torn += !cell;
      if (cell && !cells) {
        add_name(window[i].hash, kind == SHARD_LOG_SERVED ? OWN : OPENED, cell->index);
      }
    }
  }
  if (fd >= 0) {
    close(fd);
  }
  log->torn = torn;
}

/* Returns the hashes of a listing's names below a root, by position, until the next call; NULL: the
 * listing is damaged. */
static const uint64_t *hash_listing(const struct shard_listing *listing, const char *root) {
  static uint64_t *hashes, room;
  static struct shard_cursor cursor;
  static char path[2 * PATH_MAX + SHARD_NAME_MAX];
  const char *name;
  size_t base = strlen(root);
  uint64_t count = shard_listing_count(listing);
  ssize_t n = 0;
  if (count >= room) {
    free(hashes);
    room = count + 1;
    hashes = must(calloc(room, sizeof(*hashes)));
  }
  bool good = base < PATH_MAX && shard_listing_seek(&cursor, listing, 0) == 0;
  strncpy(path, root, PATH_MAX);
  for (uint64_t i = 0; good && i < count; i++) {
    n = shard_listing_next(&cursor, &name);
    good = n > 0;
    if (good) {
      memcpy(path + base, name, (size_t)n);
      hashes[i] = shard_xxh64(path, base + (size_t)n, 0);
    }
  }
  return good ? hashes : NULL;
}

/* Add the names that are a cell's own. */
static void take_own(const struct ctl_cell *c, const uint64_t *hashes) {
  const struct shard_log_share *d = &c->division->told;
  struct shard_listing *listing = c->division->listing;
  bool divided = is_divided(c->division), samples = divided && d->sample != SHARD_SAMPLE_FILE;
  struct shard_share share;
  shard_share_init(&share, (enum shard_strategy)d->strategy,
                   divided ? (enum shard_remainder)d->remainder : SHARD_REMAINDER_KEEP,
                   divided ? (uint32_t)c->rank : 0, divided ? d->size : 1,
                   samples ? shard_listing_samples(listing) : d->used,
                   divided && d->shuffled ? shard_shuffle_key(d->seed, c->epoch) : 0);
  for (uint64_t k = 0; k < share.count; k++) {
    uint64_t at = shard_share_position(&share, shard_share_place(&share, k)), end = at + 1;
    if (samples) {
      end = (uint64_t)shard_listing_sample_begin(listing, at + 1);
      at = (uint64_t)shard_listing_sample_begin(listing, at);
    }
    for (; at < end && end <= d->entries; at++) {
      add_name(hashes[at], OWN, c->index);
    }
  }
}

/* Add the names of a division's listing: as each rank's own, or as all names, if the program
 * divides them. */
static void take_division(struct ctl_run *run, struct ctl_division *d) {
  const uint64_t *hashes = d->listing ? hash_listing(d->listing, d->dataset->root) : NULL;
  for (uint64_t i = 0; hashes && d->told.how == SHARD_LOG_PROGRAM && i < d->told.used; i++) {
    add_name(hashes[i], LISTED, (uint32_t)d->dataset->index);
  }
  for (size_t i = 0; i < run->cell_count; i++) {
    struct ctl_cell *c = run->cells[i];
    if (c->division == d) {
      c->known = hashes || d->told.how == SHARD_LOG_HASHED;
      if (hashes && d->told.how != SHARD_LOG_PROGRAM) {
        take_own(c, hashes);
      }
    }
  }
}

/* Add the names of --listing as all names of the datasets of which each rank has its own list. */
static void take_whole(struct ctl_run *run, const char *file) {
  struct shard_listing *listing = NULL;
  for (size_t i = 0; i < run->dataset_count; i++) {
    bool lists = false;
    for (size_t k = 0; k < run->division_count; k++) {
      const struct ctl_division *d = run->divisions[k];
      lists |= d->dataset->index == i &&
               (d->told.how == SHARD_LOG_HASHED || d->told.how == SHARD_LOG_RANKS);
    }
    if (lists && (listing || shard_listing_open(file, &listing) == 0)) {
      const uint64_t *hashes = hash_listing(listing, run->datasets[i]->root);
      for (uint64_t k = 0; hashes && k < shard_listing_count(listing); k++) {
        add_name(hashes[k], LISTED, (uint32_t)i);
      }
    }
  }
  if (listing) {
    shard_listing_close(listing);
  }
}

/* ---- adding up ---------------------------------------------------------- */

static void count_opens(struct ctl_cell *c, uint64_t hash, uint64_t opens, bool own) {
  c->opens += opens;
  c->distinct++;
  c->sum += hash;
  c->weight += (hash ^ hash >> 29) * SHARD_XXH_PRIME1 * opens;
  if (c->known && !own) {
    c->others++;
  } else if (c->known) {
    c->read++;
    c->least = opens < c->least ? opens : c->least;
    c->most = opens > c->most ? opens : c->most;
  }
}

/* Add up the sorted names. `seen` is the number of the last name that a cell, an epoch or a dataset
 * has had. */
static void count_names(struct ctl_run *run) {
  static uint64_t turn;
  for (size_t i = 0, next; i < name_count; i = next) {
    const struct name *n = &names[i];
    turn += i == 0 || n->hash != n[-1].hash;
    for (next = i + 1; next < name_count && by_hash(n, &names[next]) == 0; next++) {
    }
    if (n->kind == LISTED) {
      run->datasets[n->of]->seen = turn;
      run->datasets[n->of]->all++;
      continue;
    }
    struct ctl_cell *c = run->cells[n->of];
    struct ctl_epoch *e = &run->epochs[c->epoch_index];
    bool listed = c->dataset->seen == turn, first = e->seen[n->kind == OPENED] != turn;
    e->seen[n->kind == OPENED] = turn;
    if (n->kind == OWN) {
      c->own++;
      c->seen = turn;
      e->owned += first;
      e->elsewhere += first && !listed;
    } else {
      bool program = c->division && c->division->told.how == SHARD_LOG_PROGRAM;
      e->opened += first;
      count_opens(c, n->hash, next - i, program ? listed : c->seen == turn);
    }
  }
}

/* Give a division to cells without one. Without a shuffle a rank's division holds for all epochs: a
 * program that divides a dataset itself notes its share once, and a worker that was started anew
 * may read without listing. */
static void give_divisions(struct ctl_run *run) {
  for (size_t i = 0; i < run->cell_count; i++) {
    struct ctl_cell *c = run->cells[i];
    for (size_t k = 0; !c->division && k < run->epoch_count; k++) {
      const struct ctl_epoch *e = &run->epochs[k];
      struct ctl_cell wanted = {.rank = c->rank, .dataset = c->dataset, .epoch = e->number};
      struct ctl_cell **other =
          e->dataset == c->dataset ? tfind(&wanted, &run->tree, by_cell) : NULL;
      const struct ctl_division *d = other ? (*other)->division : NULL;
      if (d && !d->told.shuffled &&
          (d->told.how == SHARD_LOG_PROGRAM || d->told.how == SHARD_LOG_ONE ||
           d->told.how == SHARD_LOG_ALL)) {
        c->division = d;
      }
    }
  }
}

void ctl_logs_count(struct ctl_run *run, enum ctl_logs_by by, const char *whole) {
  uint64_t all = 0;
  if (by != CTL_BY_DATASET) {
    drop_cells(run);
  }
  for (size_t i = 0; i < run->log_count; i++) {
    all += run->logs[i].notes;
    if (run->logs[i].head.rank >= 0) {
      take_notes(run, &run->logs[i], by, true);
    }
  }
  make_epochs(run);
  if (by == CTL_BY_DATASET) {
    give_divisions(run);
    for (size_t i = 0; i < run->cell_count; i++) {
      const struct ctl_division *d = run->cells[i]->division;
      all += d && d->listing ? d->told.used / (is_divided(d) ? d->told.size : 1) + 1 : 0;
    }
  }
  parts = all / NAMES_MOST + 1;
  for (part = 0; part < parts; part++) {
    name_count = 0;
    for (size_t i = 0; i < run->log_count; i++) {
      if (run->logs[i].head.rank >= 0) {
        take_notes(run, &run->logs[i], by, false);
      }
    }
    for (size_t i = 0; by == CTL_BY_DATASET && i < run->division_count; i++) {
      take_division(run, run->divisions[i]);
    }
    if (by == CTL_BY_DATASET && whole) {
      take_whole(run, whole);
    }
    sort_names(names, name_count, 56);
    count_names(run);
  }
}
