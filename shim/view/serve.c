/* SPDX-License-Identifier: MIT */
/*
 * serve.c - writes the entries of a served directory, as getdents64(2) would.
 *
 * From a listing come "." and "..", then the entries that every rank sees (the table "others"),
 * then the rank's files. A position (d_off, and the file's offset) says where to read on, so no
 * state is kept between calls:
 *
 *   0, 1              before ".", before ".."
 *   2 + k             before name k of the table "others"
 *   2 + others + k    before name k of the table "names"; if the files are shuffled, after the
 *                     file at position k - 1, in the shuffled order
 *
 * A listing is sorted by path, so the names below a directory are consecutive. A long sub-tree
 * among them is skipped by a binary search.
 *
 * Entries of a real directory are filtered in the caller's buffer.
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
#include "view/prepare.h"

#define SKIP_AFTER 128 /* names of a sub-tree that are read before the sub-tree is skipped */
#define SMALL_READ 512 /* a buffer that holds any entry */

/* ---- writing entries ---------------------------------------------------- */

struct entry_buffer {
  char *buf;
  size_t size, used;
  off_t next; /* the position after the last entry written */
};

/* Writes an entry. Returns false if the entry does not fit. */
static bool write_entry(struct entry_buffer *o, const char *name, size_t length, uint64_t ino,
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

/* A walk over the entries of one directory in a table. */
struct entry_walk {
  const struct shard_served_dir *served;
  const struct shard_table *table;
  struct shard_position p;
  uint64_t end;
  const char *name; /* the entry found, without the directory */
  size_t length;
  struct shard_attributes attributes;
  uint64_t block; /* of attributes */
  bool filter;    /* only the rank's entries are wanted */
  struct shard_sample_cursor samples;
};

#define ENTRY_WALK(w, s, t, stop)                                                                  \
  SHARD_WORKSPACE_OF(w##_name, shard_listing_room(t));                                             \
  struct entry_walk w = {                                                                          \
      .served = (s), .table = (t), .p = {.name = w##_name}, .end = (stop), .block = ~0ULL}

/* Skips the rest of the sub-tree whose name is in p.name up to `slash`. */
static int skip_subtree(struct entry_walk *w, const char *slash) {
  const struct shard_table *t = w->table;
  size_t n = (size_t)(slash - w->p.name) + 1;
  char *key = w->p.name;
  key[n - 1] = '/' + 1;
  int64_t next = shard_names_lower_bound(t, key, n);
  return next < 0 ? (int)next : shard_names_seek(&w->p, t, (uint64_t)next);
}

/* Finds the next entry, at position p.position - 1. Returns 1; 0 at the end. Errors: -EBADMSG. */
static int next_in_directory(struct entry_walk *w) {
  const struct shard_served_dir *s = w->served;
  for (unsigned seen = 0; w->p.position < w->end;) {
    int rc = shard_names_next(&w->p);
    if (rc <= 0) {
      return rc;
    }
    if (w->p.length <= s->path_bytes) {
      return -EBADMSG;
    }
    w->name = w->p.name + s->path_bytes;
    w->length = w->p.length - s->path_bytes;
    char *slash = memchr(w->name, '/', w->length);
    if (!slash) {
      return 1;
    }
    if (w->table->order == SHARD_ORDER_SAMPLE) {
      return 0; /* in this order a directory's own files come before its sub-directories */
    }
    if (++seen > SKIP_AFTER) {
      rc = skip_subtree(w, slash);
      seen = 0;
      if (rc != 0) {
        return rc;
      }
    }
  }
  return 0;
}

/* Reads type and inode of the name at position i. */
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

/* Writes the entry that was found, at position i. Returns 1; 0 if the entry does not fit. */
static int write_found(struct entry_walk *w, struct entry_buffer *o, uint64_t i, uint64_t next) {
  uint64_t ino;
  uint8_t type;
  int rc = read_attributes(w, i, &ino, &type);
  return rc ? rc : write_entry(o, w->name, w->length, ino, type, next);
}

/* Writes the entries from position `from` on; base: what d_off adds to a position. Returns 1 if all
 * were written; 0 if the buffer is full. */
static int write_range(struct entry_walk *w, struct entry_buffer *o, uint64_t from, uint64_t base) {
  const struct shard_served_dir *s = w->served;
  if (from >= w->end) {
    return 1;
  }
  int rc = shard_names_seek(&w->p, w->table, from);
  while (rc == 0 && (rc = next_in_directory(w)) > 0) {
    uint64_t i = w->p.position - 1;
    rc = 0;
    int64_t sample = w->filter ? shard_listing_sample_near(s->scope.listing, i, &w->samples) : 0;
    if (sample < 0) {
      return (int)sample;
    }
    if (w->filter && !shard_share_owns(&s->share, (uint64_t)sample)) {
      continue;
    }
    rc = write_found(w, o, i, base + i + 1);
    if (rc <= 0) {
      return rc;
    }
    rc = 0;
  }
  return rc ? rc : 1;
}

/* Writes the entries that every rank sees. Returns as write_range(). */
static int write_others(const struct shard_served_dir *s, struct entry_buffer *o, uint64_t from,
                        uint64_t base) {
  const struct shard_scope *in = &s->scope;
  ENTRY_WALK(w, s, &in->listing->others, in->others_end);
  return write_range(&w, o, from < in->others_begin ? in->others_begin : from, base);
}

/* Writes the rank's files in the listing's order. Returns as write_range(). */
static int write_in_order(const struct shard_served_dir *s, struct entry_buffer *o, uint64_t from,
                          uint64_t base) {
  const struct shard_listing *l = s->scope.listing;
  struct shard_interval parts[2] = {{0, shard_listing_samples(l)}};
  bool filter = s->share.shuffled || s->share.strategy != SHARD_STRATEGY_RANGE;
  unsigned count = filter ? 1 : shard_share_intervals(&s->share, parts);
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
    w.filter = filter;
    rc = write_range(&w, o, from < (uint64_t)begin ? (uint64_t)begin : from, base);
  }
  return rc;
}

/* ---- in a shuffled order ---- */

/* A walk over the rank's files, sample by sample, in a shuffled order of `count` samples. */
struct shuffled_walk {
  const struct shard_served_dir *served;
  uint64_t count, next; /* samples of the order; the number of the next sample in the order */
  uint64_t at, end;     /* remaining positions of the present sample */
};

/* Returns the number of sample k in the order; count if the order does not have the sample. */
static uint64_t index_in_order(const struct shuffled_walk *v, uint64_t k) {
  const struct shard_served_dir *s = v->served;
  if (s->order == SHARD_SERVE_SHUFFLED_SHARE) {
    return shard_share_index(&s->share, k);
  }
  return k - s->sample < v->count ? shard_permute_back(&s->shuffle, k - s->sample) : v->count;
}

/* Enters sample k, at position `at` if the position lies in the sample. Errors: -EBADMSG. */
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

/* Starts after the file at position from - 1; from 0: with the first file. Errors: -EBADMSG. */
static int begin_shuffled(struct shuffled_walk *v, const struct shard_served_dir *s,
                          uint64_t from) {
  int64_t last = 0;
  *v = (struct shuffled_walk){.served = s, .count = s->share.count};
  if (s->order == SHARD_SERVE_SHUFFLED_LEAF) {
    v->count = s->shuffle.n;
  }
  if (from == 0 || v->count == 0) {
    return 0;
  }
  last = from <= s->scope.end ? shard_listing_sample(s->scope.listing, from - 1) : -EBADMSG;
  v->next = last < 0 ? v->count : index_in_order(v, (uint64_t)last) + 1;
  return v->next > v->count || last < 0 ? 0 : enter_sample(v, (uint64_t)last, from);
}

/* Enters the rank's next sample. Returns 1; 0 at the end. Errors: -EBADMSG. */
static int next_sample(struct shuffled_walk *v) {
  const struct shard_served_dir *s = v->served;
  while (v->next < v->count) {
    uint64_t k = v->next++;
    k = s->order == SHARD_SERVE_SHUFFLED_SHARE
            ? shard_share_position(&s->share, shard_share_place(&s->share, k))
            : s->sample + shard_permute(&s->shuffle, k);
    if (s->order == SHARD_SERVE_SHUFFLED_SHARE || shard_share_owns(&s->share, k)) {
      int rc = enter_sample(v, k, 0);
      return rc ? rc : 1;
    }
  }
  return 0;
}

/* Writes the rank's files in a shuffled order. Returns as write_range(). */
static int write_shuffled(const struct shard_served_dir *s, struct entry_buffer *o, uint64_t from,
                          uint64_t base) {
  const struct shard_table *t = &s->scope.listing->names;
  ENTRY_WALK(w, s, t, s->scope.end);
  struct shuffled_walk v;
  int rc = begin_shuffled(&v, s, from);
  while (rc == 0) {
    rc = v.at < v.end ? shard_names_seek(&w.p, t, v.at) : 0;
    for (; rc == 0 && v.at < v.end; v.at++) {
      rc = next_in_directory(&w);
      if (rc <= 0 || w.p.position != v.at + 1) {
        return rc < 0 ? rc : -EBADMSG;
      }
      rc = write_found(&w, o, v.at, base + v.at + 1);
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

/* Writes "." and "..". Returns 1; 0 if an entry does not fit. */
static int write_dots(struct entry_buffer *o, int fd, off_t from) {
  struct stat st;
  if (from < 2 && fstat(fd, &st) != 0) {
    return -errno;
  }
  for (; from < 2; from++) {
    if (from == 1) {
      (void)!fstatat(fd, "..", &st,
                     0); /* fails without search permission; then the inode is fd's */
    }
    if (!write_entry(o, "..", from == 0 ? 1 : 2, st.st_ino, DT_DIR, (uint64_t)from + 1)) {
      return 0;
    }
  }
  return 1;
}

ssize_t shard_serve_listed(const struct shard_served_dir *s, int fd, void *buf, size_t size,
                           off_t *position) {
  struct entry_buffer o = {.buf = buf, .size = size, .next = *position};
  uint64_t files = 2 + s->scope.listing->others.count, from = (uint64_t)*position;
  int rc = *position < 0 ? -EINVAL : write_dots(&o, fd, *position);
  if (rc > 0 && from < files) {
    rc = write_others(s, &o, from < 2 ? 0 : from - 2, 2);
    from = files;
  }
  if (rc > 0) {
    rc = s->order == SHARD_SERVE_LISTING_ORDER ? write_in_order(s, &o, from - files, files)
                                               : write_shuffled(s, &o, from - files, files);
  }
  if (o.used == 0 && rc <= 0) { /* rc 0: no entry fits */
    return rc < 0 ? rc : -EINVAL;
  }
  *position = o.next;
  return (ssize_t)o.used;
}

/* Finds what lies below the directory in both tables. Errors: -EBADMSG. */
static int find_ranges(struct shard_served_dir *s) {
  struct shard_scope *in = &s->scope;
  int rc = shard_names_below(&in->listing->names, s->path, s->path_bytes, &in->begin, &in->end);
  return rc ? rc
            : shard_names_below(&in->listing->others, s->path, s->path_bytes, &in->others_begin,
                                &in->others_end);
}

/* Returns whether the directory has sub-directories. Errors: -EBADMSG. */
static int has_directory(const struct shard_served_dir *s) {
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

/* Sets up the shuffle of a directory without sub-directories, which has all files of its samples.
 * Errors: -EBADMSG. */
static int set_up_shuffle(struct shard_served_dir *s) {
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

int shard_serve_find_scope(struct shard_served_dir *s) {
  int rc = find_ranges(s);
  s->order = SHARD_SERVE_LISTING_ORDER;
  rc = rc ? rc : has_directory(s);
  s->leaf = rc == 0;
  if (s->leaf && s->share.shuffled) {
    s->order = s->path_bytes == 0 ? SHARD_SERVE_SHUFFLED_SHARE : SHARD_SERVE_SHUFFLED_LEAF;
    rc = set_up_shuffle(s);
  }
  return rc < 0 ? rc : 0;
}

/* ---- from the real directory -------------------------------------------- */

/* Returns whether an entry is a directory or a link to a directory. A link that leads nowhere, or
 * where this user may not search, is none, in every rank. Errors: the kind is unknown. */
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
 * Returns whether a name is this rank's. path: the directory's path, with room for a name behind
 * it. A name longer than any path is no rank's: nobody can open it.
 */
static bool is_owned(const struct shard_served_dir *s, const char *name, size_t length,
                     char *path) {
  if (length >= PATH_MAX) {
    return false;
  }
  if (s->path_bytes > 0) {
    memcpy(path + s->path_bytes, name, length + 1);
    name = path;
    length += s->path_bytes;
  }
  return shard_owner_by_name(name, shard_sample_name(s->options->sample, name, length), s->key,
                             s->share.size) == s->share.rank;
}

/* Tells the statistics about an entry that was shown. */
static void note_served(const struct shard_served_dir *s, const char *name, char *path) {
  size_t length = strlen(name);
  if (shard_options_match(s->options, name, length)) {
    memcpy(path + s->path_bytes, name, length + 1);
    shard_stats_served(s->stats, shard_epoch_number(s->epoch), path, s->path_bytes + length);
  }
}

/* Returns whether this rank sees an entry of the real directory fd. */
static int is_seen(const struct shard_served_dir *s, int fd, const struct dirent64 *d, char *path) {
  const char *name = d->d_name;
  /* A record is the shortest multiple of 8 bytes that holds the name and its NUL, so all but the
   * last 8 bytes need no search for the NUL. */
  size_t room = d->d_reclen - offsetof(struct dirent64, d_name), known = room > 8 ? room - 8 : 0;
  if (known > 0 && !name[known - 1]) {
    known = 0;
  }
  size_t length = known + strlen(name + known), table;
  if (s->source == SHARD_SERVE_HASHED && length < PATH_MAX) {
    memcpy(path + s->path_bytes, name, length + 1);
    const char *format = shard_marker_find(s->options, path, s->path_bytes + length, &table);
    if (format) {
      return shard_prepare_refuse_table(s, format, path, table);
    }
  }
  bool seen = (s->source == SHARD_SERVE_HASHED && is_owned(s, name, length, path)) ||
              !shard_options_match(s->options, name, length);
  return seen ? 1 : is_directory(fd, name, d->d_type);
}

ssize_t shard_serve_filtered(const struct shard_served_dir *s, int fd, void *buf, size_t size) {
  char small[SMALL_READ] __attribute__((aligned(8)));
  /* Not NAME_MAX: names of FUSE, FAT and other file systems may have more bytes. */
  SHARD_WORKSPACE_HELD(path);
  char *path = shard_workspace_take(&path_held, s->path_bytes + PATH_MAX), *to = buf;
  if (!path) {
    return -ENOMEM;
  }
  memcpy(path, s->path, s->path_bytes);
  /* An entry of another rank may not fit into the caller's buffer, so a small buffer is not read
   * into. */
  bool indirect = size < sizeof(small);
  char *from = indirect ? small : buf;
  for (;;) {
    off_t before = lseek(fd, 0, SEEK_CUR),
          after = before; /* after: behind the last entry handled */
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
        if (s->stats >= 0 && s->source == SHARD_SERVE_HASHED &&
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
