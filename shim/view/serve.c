/* SPDX-License-Identifier: MIT */
/*
 * serve.c - the entries of a served directory, as getdents64 would give them.
 *
 * From a listing: "." and "..", then what every rank sees ("others"), then the rank's files. A
 * position (d_off, and the file's offset) tells where to go on, so nothing is remembered between
 * calls:
 *
 *   0, 1              before ".", before ".."
 *   2 + k             before the k-th of the listing's others
 *   2 + others + k    before the k-th position of its names; where a shuffle orders them, behind
 *                     the file at position k - 1, in the shuffled order
 *
 * A listing is in the order of paths, so the names below a directory lie together. A sub-tree among
 * them is leapt over, by a binary search, once it has turned out long.
 *
 * From the real directory: entries are filtered in the caller's buffer.
 */
#include "view/serve.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/workspace.h"
#include "config/config.h"
#include "host/real.h"
#include "listing/markers.h"
#include "listing/samples.h"
#include "stats/stats.h"
#include "view/choose.h"

#define PATIENCE 128   /* names of a sub-tree before it is leapt over */
#define SMALL_READ 512 /* a buffer that holds any entry */

/* ---- writing entries ---------------------------------------------------- */

struct entry_buffer {
  char *buf;
  size_t size, used;
  off_t next; /* the position after the last entry written */
};

static bool emit(struct entry_buffer *o, const char *name, size_t length, uint64_t ino,
                 uint8_t type, uint64_t next) {
  size_t header = offsetof(struct dirent64, d_name);
  size_t record = (header + length + 1 + 7) & ~(size_t)7;
  if (record > o->size - o->used) {
    return false;
  }
  char *p = o->buf + o->used;
  int64_t offset = (int64_t)next;
  uint16_t reclen = (uint16_t)record;
  memset(p + record - 8, 0, 8);
  memcpy(p + offsetof(struct dirent64, d_ino), &ino, sizeof(ino));
  memcpy(p + offsetof(struct dirent64, d_off), &offset, sizeof(offset));
  memcpy(p + offsetof(struct dirent64, d_reclen), &reclen, sizeof(reclen));
  memcpy(p + offsetof(struct dirent64, d_type), &type, sizeof(type));
  memcpy(p + header, name, length);
  o->used += record;
  o->next = offset;
  return true;
}

/* ---- from the listing --------------------------------------------------- */

/* The entries of one directory in a table, one after the other from some position on. */
struct entry_walk {
  const struct shard_served *served;
  const struct shard_table *table;
  struct shard_position p;
  uint64_t end;
  const char *name; /* the entry found, without the directory */
  size_t length;
  struct shard_attributes attributes;
  uint64_t block; /* of attributes */
  bool sift;      /* only the rank's positions are wanted */
  struct shard_sample_cursor samples;
};

#define ENTRY_WALK(w, s, t, stop)                                                                  \
  SHARD_WORKSPACE_OF(w##_name, shard_listing_room(t));                                             \
  struct entry_walk w = {                                                                          \
      .served = (s), .table = (t), .p = {.name = w##_name}, .end = (stop), .block = ~0ULL}

/* Leap to what follows the sub-tree whose name lies in p.name up to `slash`. */
static int leap(struct entry_walk *w, const char *slash) {
  const struct shard_table *t = w->table;
  size_t n = (size_t)(slash - w->p.name) + 1;
  char *key = w->p.name;
  key[n - 1] = '/' + 1;
  int64_t next = shard_names_lower_bound(t, key, n);
  return next < 0 ? (int)next : shard_names_seek(&w->p, t, (uint64_t)next);
}

/* The next entry: 1, 0 at the end, or -EBADMSG. It is at position p.position - 1. */
static int next_entry(struct entry_walk *w) {
  const struct shard_served *s = w->served;
  for (unsigned seen = 0; w->p.position < w->end;) {
    int rc = shard_names_next(&w->p);
    if (rc <= 0) {
      return rc;
    }
    if (w->p.length <= s->base) {
      return -EBADMSG;
    }
    w->name = w->p.name + s->base;
    w->length = w->p.length - s->base;
    char *slash = memchr(w->name, '/', w->length);
    if (!slash) {
      return 1;
    }
    if (w->table->order == SHARD_ORDER_SAMPLE) {
      return 0; /* a directory's own files come first */
    }
    if (++seen > PATIENCE) {
      rc = leap(w, slash);
      seen = 0;
      if (rc != 0) {
        return rc;
      }
    }
  }
  return 0;
}

/* Type and inode of the name at position i. */
static int read_attributes(struct entry_walk *w, uint64_t i, uint64_t *ino, uint8_t *type) {
  const struct shard_table *t = w->table;
  if (i / SHARD_BLOCK_NAMES != w->block) {
    int rc = shard_names_attributes(t, i / SHARD_BLOCK_NAMES, &w->attributes);
    if (rc != 0) {
      return rc;
    }
    w->block = i / SHARD_BLOCK_NAMES;
  }
  *ino = w->attributes.ino[i % SHARD_BLOCK_NAMES];
  *type = w->attributes.type[i % SHARD_BLOCK_NAMES];
  return 0;
}

/* 1: written; 0: it does not fit; or negative errno. */
static int emit_found(struct entry_walk *w, struct entry_buffer *o, uint64_t i, uint64_t next) {
  uint64_t ino;
  uint8_t type;
  int rc = read_attributes(w, i, &ino, &type);
  return rc ? rc : emit(o, w->name, w->length, ino, type, next);
}

/* The rank's entries from position `from` on. 1: all written; 0: the buffer is full; or negative
 * errno. */
static int emit_range(struct entry_walk *w, struct entry_buffer *o, uint64_t from, uint64_t base) {
  const struct shard_served *s = w->served;
  if (from >= w->end) {
    return 1;
  }
  int rc = shard_names_seek(&w->p, w->table, from);
  while (rc == 0 && (rc = next_entry(w)) > 0) {
    uint64_t i = w->p.position - 1;
    rc = 0;
    int64_t sample = w->sift ? shard_listing_sample_near(s->scope.listing, i, &w->samples) : 0;
    if (sample < 0) {
      return (int)sample;
    }
    if (w->sift && !shard_share_owns(&s->share, (uint64_t)sample)) {
      continue;
    }
    rc = emit_found(w, o, i, base + i + 1);
    if (rc <= 0) {
      return rc;
    }
    rc = 0;
  }
  return rc ? rc : 1;
}

/* What every rank sees. */
static int emit_others(const struct shard_served *s, struct entry_buffer *o, uint64_t from,
                       uint64_t base) {
  const struct shard_scope *in = &s->scope;
  ENTRY_WALK(w, s, &in->listing->others, in->others_end);
  return emit_range(&w, o, from < in->others_begin ? in->others_begin : from, base);
}

/* The rank's files in the order of the listing. */
static int emit_in_order(const struct shard_served *s, struct entry_buffer *o, uint64_t from,
                         uint64_t base) {
  const struct shard_listing *l = s->scope.listing;
  struct shard_interval parts[2] = {{0, shard_listing_samples(l)}};
  bool sift = s->share.shuffled || s->share.strategy != SHARD_STRATEGY_RANGE;
  unsigned count = sift ? 1 : shard_share_intervals(&s->share, parts);
  int rc = 1;
  from = from < s->scope.begin ? s->scope.begin : from;
  for (unsigned k = 0; k < count && rc > 0; k++) {
    int64_t begin = shard_listing_sample_begin(l, parts[k].begin),
            end = begin < 0 ? begin : shard_listing_sample_begin(l, parts[k].end);
    if (end < 0) {
      return (int)end;
    }
    uint64_t stop = (uint64_t)end < s->scope.end ? (uint64_t)end : s->scope.end;
    ENTRY_WALK(w, s, &l->names, stop);
    w.sift = sift;
    rc = emit_range(&w, o, from < (uint64_t)begin ? (uint64_t)begin : from, base);
  }
  return rc;
}

/* ---- in a shuffled order ---- */

/* The rank's files of a directory, sample by sample: samples [0, count) of an order, and of these
 * the rank's. */
struct shuffled_walk {
  const struct shard_served *served;
  uint64_t count, next; /* samples of the order; the one to come */
  uint64_t at, end;     /* positions of the present sample that are left */
};

/* Which of the order sample k is; count if it is none. */
static uint64_t find_shuffled(const struct shuffled_walk *v, uint64_t k) {
  const struct shard_served *s = v->served;
  if (s->order == SHARD_ORDER_PLACES) {
    return shard_share_find(&s->share, k);
  }
  return k - s->sample < v->count ? shard_permute_back(&s->shuffle, k - s->sample) : v->count;
}

/* Go to sample k, from position `at` on if that lies in it. 0 or -EBADMSG. */
static int enter_sample(struct shuffled_walk *v, uint64_t k, uint64_t at) {
  const struct shard_listing *l = v->served->scope.listing;
  int64_t begin = shard_listing_sample_begin(l, k), end = shard_listing_sample_begin(l, k + 1);
  if (begin < 0 || end < 0) {
    return -EBADMSG;
  }
  v->at = at > (uint64_t)begin ? at : (uint64_t)begin;
  v->end = (uint64_t)end;
  return 0;
}

/* Begin behind the file at position from - 1; 0: with the first one. 0 or -EBADMSG. */
static int begin_shuffled(struct shuffled_walk *v, const struct shard_served *s, uint64_t from) {
  int64_t last = 0;
  *v = (struct shuffled_walk){.served = s, .count = s->share.count};
  if (s->order == SHARD_ORDER_LEAF) {
    v->count = s->shuffle.n;
  }
  if (from == 0 || v->count == 0) {
    return 0;
  }
  last = from <= s->scope.end ? shard_listing_sample(s->scope.listing, from - 1) : -EBADMSG;
  v->next = last < 0 ? v->count : find_shuffled(v, (uint64_t)last) + 1;
  return v->next > v->count || last < 0 ? 0 : enter_sample(v, (uint64_t)last, from);
}

/* Go on to the next sample that is the rank's: 1, 0 at the end, or -EBADMSG. */
static int next_sample(struct shuffled_walk *v) {
  const struct shard_served *s = v->served;
  while (v->next < v->count) {
    uint64_t k = v->next++;
    k = s->order == SHARD_ORDER_PLACES ? shard_share_at(&s->share, shard_share_place(&s->share, k))
                                       : s->sample + shard_permute(&s->shuffle, k);
    if (s->order == SHARD_ORDER_PLACES || shard_share_owns(&s->share, k)) {
      int rc = enter_sample(v, k, 0);
      return rc ? rc : 1;
    }
  }
  return 0;
}

/* The rank's files in a shuffled order. */
static int emit_shuffled(const struct shard_served *s, struct entry_buffer *o, uint64_t from,
                         uint64_t base) {
  const struct shard_table *t = &s->scope.listing->names;
  ENTRY_WALK(w, s, t, s->scope.end);
  struct shuffled_walk v;
  int rc = begin_shuffled(&v, s, from);
  while (rc == 0) {
    rc = v.at < v.end ? shard_names_seek(&w.p, t, v.at) : 0;
    for (; rc == 0 && v.at < v.end; v.at++) {
      rc = next_entry(&w);
      if (rc <= 0 || w.p.position != v.at + 1) {
        return rc < 0 ? rc : -EBADMSG;
      }
      rc = emit_found(&w, o, v.at, base + v.at + 1);
      if (rc <= 0) {
        return rc;
      }
      rc = 0;
    }
    rc = rc ? rc : next_sample(&v);
    if (rc <= 0) {
      return rc ? rc : 1;
    }
    rc = 0;
  }
  return rc;
}

/* "." and "..": 1, 0 if one does not fit, or negative errno. */
static int emit_dots(struct entry_buffer *o, int fd, off_t from) {
  struct stat st;
  if (from < 2 && fstat(fd, &st) != 0) {
    return -errno;
  }
  for (; from < 2; from++) {
    if (from == 1) {
      (void)!fstatat(fd, "..", &st, 0); /* fails where one may read and not enter */
    }
    if (!emit(o, "..", from == 0 ? 1 : 2, st.st_ino, DT_DIR, (uint64_t)from + 1)) {
      return 0;
    }
  }
  return 1;
}

ssize_t shard_serve_listed(const struct shard_served *s, int fd, void *buf, size_t size,
                           off_t *position) {
  struct entry_buffer o = {.buf = buf, .size = size, .next = *position};
  uint64_t files = 2 + s->scope.listing->others.count, from = (uint64_t)*position;
  int rc = *position < 0 ? -EINVAL : emit_dots(&o, fd, *position);
  if (rc > 0 && from < files) {
    rc = emit_others(s, &o, from < 2 ? 0 : from - 2, 2);
    from = files;
  }
  if (rc > 0) {
    rc = s->order == SHARD_ORDER_LISTING ? emit_in_order(s, &o, from - files, files)
                                         : emit_shuffled(s, &o, from - files, files);
  }
  if (o.used == 0 && rc <= 0) { /* 0: no entry fits */
    return rc < 0 ? rc : -EINVAL;
  }
  *position = o.next;
  return (ssize_t)o.used;
}

/* What lies below the directory. 0 or -EBADMSG. */
static int find_scope(struct shard_served *s) {
  struct shard_scope *in = &s->scope;
  int rc = shard_names_below(&in->listing->names, s->path, s->base, &in->begin, &in->end);
  return rc ? rc
            : shard_names_below(&in->listing->others, s->path, s->base, &in->others_begin,
                                &in->others_end);
}

/* Whether a directory lies directly in this one. -EBADMSG for damage. */
static int has_directory(const struct shard_served *s) {
  const struct shard_scope *in = &s->scope;
  const struct shard_table *t = &in->listing->others;
  if (in->others_begin >= in->others_end) {
    return 0;
  }
  ENTRY_WALK(w, s, t, in->others_end);
  for (uint64_t i = in->others_begin; i < in->others_end; i++) {
    uint64_t ino;
    uint8_t type = DT_UNKNOWN;
    int rc = read_attributes(&w, i, &ino, &type);
    if (rc != 0 || type == DT_DIR) {
      return rc ? rc : 1;
    }
  }
  return 0;
}

/* The samples of a directory without sub-directories, to be shuffled: all of a sample's files lie
 * in it. 0 or -EBADMSG. */
static int find_samples(struct shard_served *s) {
  const struct shard_scope *in = &s->scope;
  int64_t first = 0, last = -1;
  if (in->begin < in->end) {
    first = shard_listing_sample(in->listing, in->begin);
    last = first < 0 ? -1 : shard_listing_sample(in->listing, in->end - 1);
    if (last < first) {
      return -EBADMSG;
    }
  }
  s->sample = (uint64_t)first;
  shard_permutation_init(&s->shuffle, (uint64_t)(last - first + 1), s->key ^ in->begin);
  return 0;
}

int shard_serve_prepare(struct shard_served *s) {
  int rc = find_scope(s);
  s->order = SHARD_ORDER_LISTING;
  rc = rc ? rc : has_directory(s);
  s->leaf = rc == 0;
  if (s->leaf && s->share.shuffled) {
    s->order = s->base == 0 ? SHARD_ORDER_PLACES : SHARD_ORDER_LEAF;
    rc = find_samples(s);
  }
  return rc < 0 ? rc : 0;
}

/* ---- from the real directory -------------------------------------------- */

/* Whether an entry is a directory, or a link to one: 1, 0, or a negative errno if that cannot be
 * told. What leads nowhere, or where this user may not go, is none: for every rank. */
static int is_directory(int fd, const char *name, unsigned char type) {
  struct stat st;
  if (type != DT_LNK && type != DT_UNKNOWN) {
    return type == DT_DIR;
  }
  if (fstatat(fd, name, &st, 0) == 0) {
    return S_ISDIR(st.st_mode);
  }
  return shard_path_leads_nowhere(errno) ? 0 : -errno;
}

/*
 * Whether a name is this rank's. path: the directory's, with room for a name behind it. A name that
 * is longer than any path can be opened by nobody, so it is no rank's.
 */
static bool is_owned(const struct shard_served *s, const char *name, size_t length, char *path) {
  if (length >= PATH_MAX) {
    return false;
  }
  if (s->base > 0) {
    memcpy(path + s->base, name, length + 1);
    name = path;
    length += s->base;
  }
  return shard_owner_by_name(name, shard_sample_name(s->options->sample, name, length), s->key,
                             s->share.size) == s->share.rank;
}

/* For SHARD_STATS: an entry that was shown. */
static void note_served(const struct shard_served *s, const char *name, char *path) {
  size_t length = strlen(name);
  if (shard_options_match(s->options, name, length)) {
    memcpy(path + s->base, name, length + 1);
    shard_stats_served(s->stats, shard_epoch_number(s->epoch), path, s->base + length);
  }
}

/* Whether this rank sees an entry of the real directory fd: 1, 0 or a negative errno. */
static int is_seen(const struct shard_served *s, int fd, const struct dirent64 *d, char *path) {
  const char *name = d->d_name;
  /* The record is the shortest multiple of 8 that holds the name and its NUL. */
  size_t room = d->d_reclen - offsetof(struct dirent64, d_name), known = room > 8 ? room - 8 : 0;
  if (known > 0 && !name[known - 1]) {
    known = 0;
  }
  size_t length = known + strlen(name + known), table;
  if (s->how == SHARD_SERVED_HASHED && length < PATH_MAX) {
    memcpy(path + s->base, name, length + 1);
    const char *format = shard_marker_find(s->options, path, s->base + length, &table);
    if (format) {
      return shard_choose_refuse_table(s, format, path, table);
    }
  }
  bool seen = (s->how == SHARD_SERVED_HASHED && is_owned(s, name, length, path)) ||
              !shard_options_match(s->options, name, length);
  return seen ? 1 : is_directory(fd, name, d->d_type);
}

ssize_t shard_serve_filtered(const struct shard_served *s, int fd, void *buf, size_t size) {
  char small[SMALL_READ] __attribute__((aligned(8)));
  /* Not NAME_MAX: names in FUSE, FAT and the like may have more bytes. */
  SHARD_WORKSPACE_HELD(path);
  char *path = shard_workspace_take(&path_held, s->base + PATH_MAX), *to = buf;
  if (!path) {
    return -ENOMEM;
  }
  memcpy(path, s->path, s->base);
  /* Another rank's entry may not fit into the caller's buffer: then ours takes it. */
  bool indirect = size < sizeof(small);
  char *from = indirect ? small : buf;
  for (;;) {
    off_t before = lseek(fd, 0, SEEK_CUR), after = before; /* the last entry taken or passed over */
    ssize_t n = shard_real()->getdents64(fd, from, indirect ? sizeof(small) : size);
    if (n <= 0) {
      return n < 0 ? -errno : 0;
    }
    size_t used = 0;
    bool full = false;
    for (ssize_t at = 0; at < n && !full;) {
      const struct dirent64 *d = (const struct dirent64 *)(from + at);
      size_t record = d->d_reclen;
      off_t next = d->d_off;
      int seen = is_seen(s, fd, d, path);
      at += (ssize_t)record;
      if (seen < 0) {
        lseek(fd, before, SEEK_SET); /* the next call tries again */
        return seen;
      }
      if (seen) {
        full = record > size - used;
        if (full) {
          break;
        }
        if (s->stats >= 0 && s->how == SHARD_SERVED_HASHED &&
            is_directory(fd, d->d_name, d->d_type) == 0) {
          note_served(s, d->d_name, path);
        }
        memmove(to + used, d, record);
        used += record;
      }
      after = next;
    }
    if (full && lseek(fd, after, SEEK_SET) < 0) {
      return -errno;
    }
    if (used > 0 || full) {
      return used > 0 ? (ssize_t)used : -EINVAL;
    }
  }
}
