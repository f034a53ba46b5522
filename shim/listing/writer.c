/* SPDX-License-Identifier: MIT */
#include "listing/writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libshard.h"
#include "listing/codec.h"
#include "listing/crc32c.h"
#include "listing/format.h"
#include "listing/listing.h"

#define BUFFER_SIZE (1u << 20)
#define DIGEST_SIZE ((size_t)32 << 10)
#define RESERVE_STEP ((off_t)16 << 20)

/* A growing array of bytes. */
struct bytes {
  uint8_t *data;
  size_t size, room;
};

/* What is kept of a table until it is written. */
struct table {
  struct bytes index, attributes, attribute_index;
  struct shard_table_header *header; /* in the writer's header */
  uint32_t seed;                     /* of the checksums */
};

struct shard_writer {
  char *path, *temporary;
  int fd;
  off_t written;  /* bytes handed to the kernel */
  off_t reserved; /* bytes of space the file system has promised */
  uint8_t *buffer;
  size_t filled;
  struct table names, others;
  struct table *table; /* the one that is being written */
  struct bytes block, dirs, dir_offsets;
  struct shard_attributes attributes; /* of the names in block */
  EVP_MD_CTX *digest;
  struct bytes undigested; /* names and NULs, to be digested together */
  struct shard_header header;
  char last[SHARD_NAME_MAX];
  size_t last_length;
  uint32_t in_block;
  uint32_t depth; /* slashes in the last name */
  bool high;      /* some name has a byte from 0x80 on */
  size_t suffix_length;
};

/* Make room for `more` bytes. */
static int bytes_room(struct bytes *b, size_t more) {
  if (more <= b->room - b->size) {
    return 0;
  }
  size_t room = b->room ? b->room * 2 : 4096;
  while (room - b->size < more) {
    room *= 2;
  }
  uint8_t *grown = realloc(b->data, room);
  if (!grown) {
    return -ENOMEM;
  }
  b->data = grown;
  b->room = room;
  return 0;
}

static int bytes_add(struct bytes *b, const void *data, size_t size) {
  int rc = bytes_room(b, size);
  if (rc == 0 && size) {
    memcpy(b->data + b->size, data, size);
    b->size += size;
  }
  return rc;
}
static int write_all(int fd, const uint8_t *data, size_t size, off_t at) {
  while (size > 0) {
    ssize_t n = pwrite(fd, data, size, at);
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      return -errno;
    }
    data += n;
    size -= (size_t)n;
    at += n;
  }
  return 0;
}

static int flush(struct shard_writer *w) {
  off_t end = w->written + (off_t)w->filled;
  if (end > w->reserved) {
    /* A full tmpfs must be an error here, not a SIGBUS in a reader. */
    off_t want = end + RESERVE_STEP;
    int rc = posix_fallocate(w->fd, w->reserved, want - w->reserved);
    if (rc == 0) {
      w->reserved = want;
    } else if (rc == ENOSPC || rc == EFBIG) {
      rc = posix_fallocate(w->fd, w->reserved, end - w->reserved);
      if (rc != 0) {
        return -rc;
      }
      w->reserved = end;
    } else if (rc != EOPNOTSUPP && rc != EINVAL) {
      return -rc;
    }
  }
  int rc = write_all(w->fd, w->buffer, w->filled, w->written);
  if (rc == 0) {
    w->written = end;
    w->filled = 0;
  }
  return rc;
}

static int put(struct shard_writer *w, const void *data, size_t size) {
  const uint8_t *p = data;
  while (size > 0) {
    size_t room = BUFFER_SIZE - w->filled;
    size_t n = size < room ? size : room;
    memcpy(w->buffer + w->filled, p, n);
    w->filled += n;
    p += n;
    size -= n;
    if (w->filled == BUFFER_SIZE) {
      int rc = flush(w);
      if (rc != 0) {
        return rc;
      }
    }
  }
  return 0;
}

static uint64_t position(const struct shard_writer *w) { return (uint64_t)w->written + w->filled; }

static void destroy(struct shard_writer *w) {
  if (w->fd >= 0) {
    close(w->fd);
  }
  EVP_MD_CTX_free(w->digest);
  struct bytes *all[] = {&w->block,
                         &w->undigested,
                         &w->dirs,
                         &w->dir_offsets,
                         &w->names.index,
                         &w->names.attributes,
                         &w->names.attribute_index,
                         &w->others.index,
                         &w->others.attributes,
                         &w->others.attribute_index};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    free(all[i]->data);
  }
  free(w->buffer);
  free(w->temporary);
  free(w->path);
  free(w);
}

#define TEMPORARY ".tmp."

/*
 * Remove what builders of this file left that were killed. A live one holds a lock on its own,
 * on another node too; where locks do not work, nothing is removed.
 */
static void remove_dead(const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = !slash          ? strdup(".")
                 : slash == path ? strdup("/")
                                 : strndup(path, (size_t)(slash - path));
  char *prefix = NULL;
  int length = asprintf(&prefix, "%s" TEMPORARY, slash ? slash + 1 : path);
  DIR *dir = folder && length >= 0 ? opendir(folder) : NULL;
  const struct dirent *entry;
  while (dir && (entry = readdir(dir))) {
    if (strncmp(entry->d_name, prefix, (size_t)length) != 0) {
      continue;
    }
    int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
      unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (fd >= 0) {
      close(fd);
    }
  }
  if (dir) {
    closedir(dir);
  }
  if (length >= 0) {
    free(prefix);
  }
  free(folder);
}

/* A new file beside the final one, locked as long as we live. */
static int open_temporary(struct shard_writer *w) {
  for (int tries = 0; tries < 100; tries++) {
    struct stat st;
    free(w->temporary);
    if (asprintf(&w->temporary, "%s" TEMPORARY "XXXXXX", w->path) < 0) {
      w->temporary = NULL;
      return -ENOMEM;
    }
    w->fd = mkostemp(w->temporary, O_CLOEXEC);
    if (w->fd < 0) {
      return -errno;
    }
    (void)flock(w->fd, LOCK_EX | LOCK_NB);
    /* Another builder may have taken it for a dead one's before it was locked. */
    if (fstat(w->fd, &st) == 0 && st.st_nlink > 0) {
      return 0;
    }
    close(w->fd);
    w->fd = -1;
  }
  return -EBUSY;
}

int shard_writer_open(const char *path, uint32_t order, bool attributes,
                      struct shard_writer **out) {
  struct shard_writer *w = calloc(1, sizeof(*w));
  if (!w) {
    return -ENOMEM;
  }
  int rc = -ENOMEM;
  w->fd = -1;
  w->path = strdup(path);
  w->buffer = malloc(BUFFER_SIZE);
  w->digest = EVP_MD_CTX_new();
  if (!w->path || !w->buffer || !w->digest || !EVP_DigestInit_ex(w->digest, EVP_sha256(), NULL)) {
    goto fail;
  }
  remove_dead(path);
  rc = open_temporary(w);
  if (rc != 0) {
    goto fail;
  }
  memcpy(w->header.magic, SHARD_MAGIC, sizeof(w->header.magic));
  w->header.version = SHARD_FORMAT_VERSION;
  w->header.endian = SHARD_ENDIAN;
  w->header.block_names = SHARD_BLOCK_NAMES;
  w->header.order = order;
  w->header.utf8 = 1;
  w->header.attributes = attributes;
  w->names.header = &w->header.names;
  w->names.seed = SHARD_SEED_NAMES;
  w->others.seed = SHARD_SEED_OTHERS;
  w->others.header = &w->header.others;
  w->table = &w->names;
  w->header.names.names.offset = sizeof(w->header);
  static const struct shard_header zero;
  rc = put(w, &zero, sizeof(zero));
  if (rc != 0) {
    unlink(w->temporary);
    goto fail;
  }
  *out = w;
  return 0;

fail:
  destroy(w);
  return rc;
}

void shard_writer_abort(struct shard_writer *w) {
  if (w) {
    unlink(w->temporary);
    destroy(w);
  }
}

const char *shard_writer_temporary(const struct shard_writer *w) { return w->temporary; }

/* One more entry of an index. */
static int index_add(struct bytes *index, uint64_t offset, uint32_t crc) {
  uint8_t entry[SHARD_INDEX_ENTRY];
  memcpy(entry, &offset, sizeof(offset));
  memcpy(entry + sizeof(offset), &crc, sizeof(crc));
  return bytes_add(index, entry, sizeof(entry));
}

/* Length of the run of equal elements that begins at k of n. */
#define RUN(array, k, n)                                                                           \
  __extension__({                                                                                  \
    uint32_t end_ = (k) + 1;                                                                       \
    while (end_ < (n) && (array)[end_] == (array)[k]) {                                            \
      end_++;                                                                                      \
    }                                                                                              \
    end_ - (k);                                                                                    \
  })

static int end_attributes(struct shard_writer *w) {
  struct table *t = w->table;
  const struct shard_attributes *a = &w->attributes;
  uint8_t coded[SHARD_BLOCK_NAMES * 18 + 10];
  uint64_t steps[SHARD_BLOCK_NAMES];
  uint32_t n = w->in_block, times;
  size_t size = 0, offset = t->attributes.size;
  for (uint32_t k = 0; k < n; k += times) {
    times = RUN(a->type, k, n);
    coded[size++] = a->type[k];
    size += shard_varint_put(coded + size, times);
  }
  size += shard_varint_put(coded + size, a->ino[0]);
  for (uint32_t k = 0; k + 1 < n; k++) {
    uint64_t step = a->ino[k + 1] - a->ino[k];
    steps[k] = step << 1 ^ -(step >> 63);
  }
  for (uint32_t k = 0; k + 1 < n; k += times) {
    times = RUN(steps, k, n - 1);
    size += shard_varint_put(coded + size, steps[k]);
    size += shard_varint_put(coded + size, times);
  }
  uint32_t crc = shard_crc32c(t->seed + (uint32_t)t->header->blocks, coded, size);
  int rc = bytes_add(&t->attributes, coded, size);
  return rc ? rc : index_add(&t->attribute_index, offset, crc);
}

static int end_block(struct shard_writer *w) {
  if (w->in_block == 0) {
    return 0;
  }
  struct table *t = w->table;
  uint32_t crc = shard_crc32c(t->seed + (uint32_t)t->header->blocks, w->block.data, w->block.size);
  int rc = index_add(&t->index, position(w) - t->header->names.offset, crc);
  if (rc == 0) {
    rc = put(w, w->block.data, w->block.size);
  }
  if (rc == 0 && w->header.attributes) {
    rc = end_attributes(w);
  }
  t->header->blocks++;
  w->block.size = 0;
  w->in_block = 0;
  return rc;
}

/* Bytes that a and b share at their start, of at most `most`. */
static size_t shared_start(const char *a, const char *b, size_t most) {
  size_t n = 0;
  for (uint64_t x, y; n + 8 <= most; n += 8) {
    memcpy(&x, a + n, 8);
    memcpy(&y, b + n, 8);
    if (x != y) {
      return n + (size_t)__builtin_ctzll(x ^ y) / 8;
    }
  }
  while (n < most && a[n] == b[n]) {
    n++;
  }
  return n;
}

/* Bytes that they share before a_end and b_end. */
static size_t shared_end(const char *a_end, const char *b_end, size_t most) {
  size_t n = 0;
  for (uint64_t x, y; n + 8 <= most; n += 8) {
    memcpy(&x, a_end - n - 8, 8);
    memcpy(&y, b_end - n - 8, 8);
    if (x != y) {
      return n + (size_t)__builtin_clzll(x ^ y) / 8;
    }
  }
  while (n < most && a_end[-1 - (ptrdiff_t)n] == b_end[-1 - (ptrdiff_t)n]) {
    n++;
  }
  return n;
}

/* Length of what a and b share at their start, and, of the rest, at their end. */
static void shared(const char *a, size_t na, const char *b, size_t nb, size_t *prefix,
                   size_t *suffix) {
  size_t least = na < nb ? na : nb;
  *prefix = shared_start(a, b, least);
  *suffix = shared_end(a + na, b + nb, least - *prefix);
}

/* Well-formed UTF-8 as Python decodes it: no surrogates, no overlong forms (RFC 3629). */
static bool is_utf8(const uint8_t *p, size_t n) {
  size_t i = 0;
  while (i < n) {
    uint8_t c = p[i++];
    if (c < 0x80) {
      continue;
    }
    size_t more;
    uint8_t low = 0x80, high = 0xbf;
    if (c >= 0xc2 && c <= 0xdf) {
      more = 1;
    } else if (c >= 0xe0 && c <= 0xef) {
      more = 2;
      low = c == 0xe0 ? 0xa0 : 0x80;
      high = c == 0xed ? 0x9f : 0xbf;
    } else if (c >= 0xf0 && c <= 0xf4) {
      more = 3;
      low = c == 0xf0 ? 0x90 : 0x80;
      high = c == 0xf4 ? 0x8f : 0xbf;
    } else {
      return false;
    }
    for (; more > 0; more--, low = 0x80, high = 0xbf) {
      if (i >= n || p[i] < low || p[i] > high) {
        return false;
      }
      i++;
    }
  }
  return true;
}

/*
 * Facts about all names. The middle alone brings new bytes: prefix and suffix were seen, and so
 * were the slashes in them.
 */
static void note(struct shard_writer *w, const char *name, size_t length, size_t prefix,
                 size_t suffix) {
  struct shard_header *h = &w->header;
  uint32_t depth = w->depth;
  for (size_t i = prefix; i + suffix < w->last_length; i++) {
    depth -= w->last[i] == '/';
  }
  for (size_t i = prefix; i < length - suffix; i++) {
    uint8_t c = (uint8_t)name[i];
    h->bytes_used[c / 8] |= (uint8_t)(1u << (c % 8));
    depth += c == '/';
    w->high |= c >= 0x80;
  }
  w->depth = depth;
  /* A component may begin where the middle ends. */
  for (size_t i = prefix; i <= length - suffix && i < length; i++) {
    h->dotted |= name[i] == '.' && (i == 0 || name[i - 1] == '/');
  }
  /* The cut may fall inside a character, so a name is looked at whole, even one that only
   * recombines old bytes. */
  if (w->high && h->utf8 && !is_utf8((const uint8_t *)name, length)) {
    h->utf8 = 0;
  }
  if (h->names.count == 0) {
    h->min_depth = h->max_depth = depth;
    w->suffix_length = length < sizeof(h->suffix) ? length : sizeof(h->suffix) - 1;
    memcpy(h->suffix, name + length - w->suffix_length, w->suffix_length);
  } else {
    if (depth < h->min_depth) {
      h->min_depth = depth;
    }
    if (depth > h->max_depth) {
      h->max_depth = depth;
    }
    size_t keep = 0;
    while (keep < w->suffix_length && keep < length &&
           h->suffix[w->suffix_length - 1 - keep] == name[length - 1 - keep]) {
      keep++;
    }
    if (keep < w->suffix_length) {
      memmove(h->suffix, h->suffix + w->suffix_length - keep, keep);
      memset(h->suffix + keep, 0, sizeof(h->suffix) - keep);
      w->suffix_length = keep;
    }
  }
}

static int encode(struct shard_writer *w, const char *name, size_t length, size_t prefix,
                  size_t suffix) {
  int rc = bytes_room(&w->block, length + 16);
  if (rc != 0) {
    return rc;
  }
  uint8_t *p = w->block.data + w->block.size;
  if (w->in_block == 0) {
    *p++ = SHARD_BLOCK_FRONT;
    prefix = suffix = 0;
  } else {
    p += shard_varint_put(p, prefix);
    p += shard_varint_put(p, suffix);
  }
  size_t middle = length - prefix - suffix;
  p += shard_varint_put(p, middle);
  memcpy(p, name + prefix, middle);
  w->block.size = (size_t)(p - w->block.data) + middle;
  return 0;
}

/* The index of a table is complete, and follows it with the attributes. */
static int end_table(struct shard_writer *w);

static int end_digest(struct shard_writer *w) {
  bool done = EVP_DigestUpdate(w->digest, w->undigested.data, w->undigested.size);
  w->undigested.size = 0;
  return done ? 0 : -EIO;
}

static int digest(struct shard_writer *w, const char *name, size_t length) {
  struct bytes *b = &w->undigested;
  int rc = bytes_room(b, length + 1);
  if (rc != 0) {
    return rc;
  }
  memcpy(b->data + b->size, name, length);
  b->data[b->size + length] = 0;
  b->size += length + 1;
  return b->size < DIGEST_SIZE ? 0 : end_digest(w);
}

int shard_writer_put(struct shard_writer *w, enum shard_writer_table which, const char *name,
                     size_t length, uint64_t ino, uint8_t type) {
  if (length == 0 || length >= SHARD_NAME_MAX) {
    return -ENAMETOOLONG;
  }
  if (memchr(name, 0, length)) {
    return -EINVAL;
  }
  struct shard_header *h = &w->header;
  if (which == SHARD_WRITER_OTHERS && w->table != &w->others) {
    int rc = end_table(w);
    if (rc != 0) {
      return rc;
    }
  } else if (which == SHARD_WRITER_NAMES && w->table != &w->names) {
    return -EINVAL;
  }
  struct table *t = w->table;
  size_t prefix = 0, suffix = 0;
  if (t->header->count > 0) {
    if (h->order != SHARD_ORDER_KEEP &&
        shard_compare_names(h->order, w->last, w->last_length, name, length) >= 0) {
      return -EINVAL;
    }
    shared(w->last, w->last_length, name, length, &prefix, &suffix);
  }
  if (which == SHARD_WRITER_NAMES) {
    if (h->order == SHARD_ORDER_BASENAME && h->names.count > 0) {
      size_t a = shard_basename(w->last, w->last_length), b = shard_basename(name, length);
      h->duplicates +=
          w->last_length - a == length - b && memcmp(w->last + a, name + b, length - b) == 0;
    }
    note(w, name, length, prefix, suffix);
    int rc = digest(w, name, length);
    if (rc != 0) {
      return rc;
    }
  }
  uint32_t *longest = which == SHARD_WRITER_NAMES ? &h->longest : &h->longest_other;
  if (length > *longest) {
    *longest = (uint32_t)length;
  }
  int rc = encode(w, name, length, prefix, suffix);
  if (rc != 0) {
    return rc;
  }
  memcpy(w->last + prefix, name + prefix, length - prefix);
  w->last_length = length;
  w->attributes.ino[w->in_block] = ino;
  w->attributes.type[w->in_block] = type;
  t->header->count++;
  return ++w->in_block == h->block_names ? end_block(w) : 0;
}

int shard_writer_add(struct shard_writer *w, const char *name, size_t length) {
  return shard_writer_put(w, SHARD_WRITER_NAMES, name, length, 0, 0);
}

int shard_writer_dir(struct shard_writer *w, uint64_t dev, uint64_t ino, struct timespec mtime,
                     const char *path) {
  struct shard_dir dir = {dev, ino, mtime.tv_sec, mtime.tv_nsec};
  uint64_t offset = w->dirs.size;
  int rc = bytes_add(&w->dir_offsets, &offset, sizeof(offset));
  if (rc == 0) {
    rc = bytes_add(&w->dirs, &dir, sizeof(dir));
  }
  w->header.directories++;
  return rc ? rc : bytes_add(&w->dirs, path, strlen(path) + 1);
}

/* Append a section, its offset rounded up to 8. */
static int put_section(struct shard_writer *w, struct shard_section *s, const struct bytes *data) {
  static const uint8_t zero[8];
  int rc = put(w, zero, (8 - position(w) % 8) % 8);
  s->offset = position(w);
  s->size = data->size;
  s->crc = shard_crc32c(0, data->data, data->size);
  return rc ? rc : put(w, data->data, data->size);
}

static int end_table(struct shard_writer *w) {
  struct table *t = w->table;
  struct shard_table_header *h = t->header;
  int rc = end_block(w);
  h->names.size = position(w) - h->names.offset;
  if (rc == 0) {
    rc = index_add(&t->index, h->names.size, 0);
  }
  if (rc == 0) {
    rc = put_section(w, &h->index, &t->index);
  }
  if (rc == 0 && w->header.attributes) {
    rc = index_add(&t->attribute_index, t->attributes.size, 0);
    if (rc == 0) {
      rc = put_section(w, &h->attributes, &t->attributes);
    }
    if (rc == 0) {
      rc = put_section(w, &h->attribute_index, &t->attribute_index);
    }
  }
  if (t == &w->names) {
    w->table = &w->others;
    w->header.others.names.offset = position(w);
    w->last_length = 0;
  }
  return rc;
}

static int compare_dirs(const void *pa, const void *pb, void *dirs) {
  struct shard_dir a, b;
  memcpy(&a, (const uint8_t *)dirs + *(const uint64_t *)pa, sizeof(a));
  memcpy(&b, (const uint8_t *)dirs + *(const uint64_t *)pb, sizeof(b));
  if (a.ino != b.ino) {
    return a.ino < b.ino ? -1 : 1;
  }
  return (a.dev > b.dev) - (a.dev < b.dev);
}

/* The dirs section, and where each of them is in it, by inode. */
static int put_dirs(struct shard_writer *w, const struct shard_writer_facts *facts) {
  struct bytes dirs = {0};
  int rc = bytes_add(&dirs, facts->source, strlen(facts->source) + 1);
  if (rc == 0) {
    rc = bytes_add(&dirs, facts->options, strlen(facts->options) + 1);
  }
  size_t before = dirs.size;
  if (rc == 0) {
    rc = bytes_add(&dirs, w->dirs.data, w->dirs.size);
  }
  if (rc == 0) {
    rc = put_section(w, &w->header.dirs, &dirs);
  }
  uint64_t *offsets = (uint64_t *)w->dir_offsets.data;
  size_t n = w->dir_offsets.size / sizeof(*offsets);
  if (rc == 0 && n > 0) {
    qsort_r(offsets, n, sizeof(*offsets), compare_dirs, w->dirs.data);
    for (size_t i = 0; i < n; i++) {
      offsets[i] += before;
    }
  }
  free(dirs.data);
  return rc ? rc : put_section(w, &w->header.dirs_by_inode, &w->dir_offsets);
}

int shard_writer_commit(struct shard_writer *w, const struct shard_writer_facts *facts,
                        char *digest_hex, uint64_t *bytes) {
  struct shard_header *h = &w->header;
  int rc = w->table == &w->names ? end_table(w) : 0;
  if (rc == 0) {
    rc = end_table(w); /* of others */
  }
  if (rc != 0 || (rc = put_dirs(w, facts)) != 0 || (rc = flush(w)) != 0 ||
      (rc = end_digest(w)) != 0) {
    goto fail;
  }
  h->file_size = (uint64_t)w->written;
  h->dirs_hidden = facts->dirs_hidden;
  h->dir_links = facts->dir_links;
  h->listed_sec = facts->listed.tv_sec;
  h->listed_nsec = facts->listed.tv_nsec;
  unsigned digest_size = sizeof(h->digest);
  if (!EVP_DigestFinal_ex(w->digest, h->digest, &digest_size)) {
    rc = -EIO;
    goto fail;
  }
  h->header_crc = 0;
  h->header_crc = shard_crc32c(0, h, sizeof(*h));
  rc = write_all(w->fd, (const uint8_t *)h, sizeof(*h), 0);
  if (rc != 0) {
    goto fail;
  }
  if (ftruncate(w->fd, w->written) != 0 || fchmod(w->fd, 0644) != 0 || fsync(w->fd) != 0 ||
      rename(w->temporary, w->path) != 0) {
    rc = -errno;
    goto fail;
  }
  for (size_t i = 0; i < sizeof(h->digest); i++) {
    sprintf(digest_hex + 2 * i, "%02x", h->digest[i]);
  }
  *bytes = h->file_size;
  destroy(w);
  return 0;

fail:
  shard_writer_abort(w);
  return rc;
}
