/* SPDX-License-Identifier: MIT */
/*
 * reader.c - a listing file mapped read-only: opening, facts and directories. names.c reads the
 * names; format.h has the layout.
 *
 * Nothing is trusted unchecked, checksums included: anybody can compute them. Opening checks the
 * header's checksum, the bounds of the sections, and the dirs. Decoding checks the checksum of each
 * block and extent, each time anew: that takes 40 ns for 300 bytes, and a process need not remember
 * what it has checked. Opening does not read the tables, which grow with the listing (a few extents
 * aside): a wrong entry leads to a checksum that does not fit.
 */
#include "base/file.h"
#include "listing/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/hex.h"
#include "listing/codec.h"

#define COPY_MOST (256u << 10) /* a file that may be cut is copied up to this size */
#define EXTENTS_MOST 65536     /* else its extents are, up to this size */
#define PIECE 65536            /* bytes that are copied at a time */
#define TEXT_PIECE 256 /* the same of a text: on the stack, of which a host's thread has 16 KiB */

static bool section_fits(const struct shard_listing *l, const struct shard_section *s) {
  return s->offset <= l->map_size && s->size <= l->map_size - s->offset;
}

static uint32_t header_crc(const struct shard_header *header) {
  struct shard_header copy = *header;
  copy.header_crc = 0;
  return shard_crc32c(0, &copy, sizeof(copy));
}

/* Whether a section is an array of n > 0 elements. */
static bool is_array(const struct shard_section *s, uint64_t n, size_t element) {
  return s->size / element == n && s->size % element == 0;
}

static bool index_fits(const struct shard_section *index, uint64_t blocks) {
  return blocks < UINT64_MAX && is_array(index, blocks + 1, SHARD_INDEX_ENTRY);
}

/* Copy the extents of a table that is guarded: each name would have two or more copied by the
 * kernel. */
static void copy_extents(struct shard_table *t, size_t size) {
  uint8_t *copy = size <= EXTENTS_MOST ? malloc(size) : NULL;
  if (copy && shard_peek(copy, t->extents, size)) {
    t->extents = t->copy = copy;
  } else {
    free(copy);
  }
}

/* Fill a table from its header. */
static int map_table(struct shard_listing *l, const struct shard_table_header *h, uint32_t longest,
                     bool others, struct shard_table *t) {
  const struct shard_header *header = l->header;
  const struct shard_section *all[] = {&h->names, &h->index, &h->extent, &h->attributes,
                                       &h->attribute_index};
  bool stored = header->attributes == SHARD_ATTRIBUTES_STORED;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    if (!section_fits(l, all[i])) {
      return -EBADMSG;
    }
  }
  if (longest >= SHARD_NAME_MAX || h->count > INT64_MAX || (h->count > 0) != (h->extents > 0) ||
      h->extents > h->extent.size / sizeof(struct shard_extent) ||
      !index_fits(&h->index, h->blocks) ||
      (stored && !index_fits(&h->attribute_index, shard_listing_attribute_blocks(h->count)))) {
    return -EBADMSG;
  }
  *t = (struct shard_table){.names = l->map + h->names.offset,
                            .index = l->map + h->index.offset,
                            .extents = l->map + h->extent.offset,
                            .names_size = h->names.size,
                            .count = h->count,
                            .blocks = h->blocks,
                            .extent_count = h->extents,
                            .runs_size = h->extent.size - h->extents * sizeof(struct shard_extent),
                            .longest = longest,
                            .seed = (others ? SHARD_SEED_OTHERS : SHARD_SEED_NAMES) + header->salt,
                            .order = header->order,
                            .others = others,
                            .guarded = l->guarded};
  if (l->guarded) {
    copy_extents(t, h->extent.size);
  }
  if (others && header->order == SHARD_ORDER_DIRECTORY) {
    t->order = SHARD_ORDER_PATH;
  }
  t->made = header->attributes == SHARD_ATTRIBUTES_MADE;
  if (stored) {
    t->attributes = l->map + h->attributes.offset;
    t->attributes_size = h->attributes.size;
    t->attribute_index = l->map + h->attribute_index.offset;
  }
  return 0;
}

static int check_header(struct shard_listing *l) {
  const struct shard_header *h = l->header;
  if (memcmp(h->magic, SHARD_MAGIC, sizeof(h->magic)) != 0) {
    return -EBADMSG;
  }
  if (h->endian != SHARD_ENDIAN || h->version != SHARD_FORMAT_VERSION) {
    return -EPROTONOSUPPORT;
  }
  if (!shard_listing_sum_fits(header_crc(h), h->header_crc) || h->file_size != l->map_size ||
      h->block_names != SHARD_BLOCK_NAMES || h->order > SHARD_ORDER_DIRECTORY ||
      h->attributes > SHARD_ATTRIBUTES_MADE || h->longest_dir >= SHARD_NAME_MAX ||
      !section_fits(l, &h->dirs) || !section_fits(l, &h->dirs_by_inode) ||
      !is_array(&h->dirs_by_inode, h->directories, SHARD_INDEX_ENTRY)) {
    return -EBADMSG;
  }
  int rc = map_table(l, &h->names, h->longest, false, &l->names);
  return rc ? rc : map_table(l, &h->others, h->longest_other, true, &l->others);
}

/* Check a section's checksum. 0, -EBADMSG or -ENOMEM. */
static int check_section(const struct shard_listing *l, const struct shard_section *s) {
  uint8_t *room = l->guarded ? malloc(PIECE) : NULL;
  bool good = room || !l->guarded;
  int rc = good ? 0 : -ENOMEM;
  uint32_t crc = 0;
  for (uint64_t at = 0, n; good && at < s->size; at += n) {
    n = l->guarded && s->size - at > PIECE ? PIECE : s->size - at;
    const uint8_t *p = shard_listing_get(l->guarded, l->map + s->offset + at, n, room);
    good = p;
    crc = p ? shard_crc32c(crc, p, n) : crc;
  }
  free(room);
  return rc ? rc : good && shard_listing_sum_fits(crc, s->crc) ? 0 : -EBADMSG;
}

/* The text at `at`, which ends before `end`; malloc'd in *out. Returns what follows it; NULL: there
 * is none, and *rc tells why. */
static const uint8_t *read_text(const struct shard_listing *l, const uint8_t *at,
                                const uint8_t *end, char **out, int *rc) {
  size_t length = 0, room = 0;
  bool ends = false;
  *rc = -EBADMSG;
  while (!ends && at < end) {
    size_t n = (size_t)(end - at) < TEXT_PIECE ? (size_t)(end - at) : TEXT_PIECE;
    char piece[TEXT_PIECE], *more;
    const uint8_t *p = shard_listing_get(l->guarded, at, n, piece), *nul = p ? memchr(p, 0, n) : p;
    n = nul ? (size_t)(nul - p) + 1 : n;
    if (!p || n == 0 || length + n > SHARD_NAME_MAX) {
      return NULL;
    }
    if (length + n > room) {
      room = length + n;
      more = realloc(*out, room);
      if (!more) {
        *rc = -ENOMEM;
        return NULL;
      }
      *out = more;
    }
    memcpy(*out + length, p, n);
    length += n;
    at += n;
    ends = nul;
  }
  return ends ? at : NULL;
}

static int check_dirs(struct shard_listing *l) {
  const struct shard_section *s = &l->header->dirs;
  const uint8_t *p = l->map + s->offset, *end = p + s->size;
  int rc = check_section(l, s);
  rc = rc ? rc : check_section(l, &l->header->dirs_by_inode);
  if (rc) {
    return rc;
  }
  p = read_text(l, p, end, &l->source, &rc);
  p = p ? read_text(l, p, end, &l->options, &rc) : NULL;
  if (!p) {
    return rc;
  }
  l->dirs = p;
  l->dirs_end = end;
  return 0;
}

/* Read `size` bytes from the file's beginning. 0, -EBADMSG if it is shorter, or another errno. */
static int read_start(int fd, void *to, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = TEMP_FAILURE_RETRY(pread(fd, (char *)to + done, size - done, (off_t)done));
    if (n <= 0) {
      return n == 0 ? -EBADMSG : -errno;
    }
    done += (size_t)n;
  }
  return 0;
}

/* Map the file, or copy it. 0 or a negative errno. */
static int take(struct shard_listing *l, int fd, const struct stat *st, bool guarded) {
  if (!S_ISREG(st->st_mode) || st->st_size < (off_t)sizeof(struct shard_header)) {
    return S_ISDIR(st->st_mode) ? -EISDIR : -EBADMSG;
  }
  size_t size = (size_t)st->st_size;
  int rc;
  l->copied = guarded && size <= COPY_MOST;
  l->guarded = guarded && !l->copied;
  if (l->copied) {
    uint8_t *copy = malloc(size);
    l->map = copy;
    rc = copy ? read_start(fd, copy, size) : -ENOMEM;
  } else {
    void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    l->map = map == MAP_FAILED ? NULL : map;
    rc = l->map ? read_start(fd, &l->head, sizeof(l->head)) : -errno;
  }
  if (rc == 0 && l->copied) {
    memcpy(&l->head, l->map, sizeof(l->head));
  }
  l->map_size = size;
  l->header = &l->head;
  return rc;
}

/* Of an open file, which is closed whatever is returned; fd may be a negative errno. */
static int open_as(int fd, const char *file, bool guarded, struct shard_listing **out) {
  int saved = errno, rc = -ENOMEM;
  struct stat st;
  struct shard_listing *l = calloc(1, sizeof(*l));
  if (fd < 0 || fstat(fd, &st) != 0) {
    rc = fd < 0 ? fd : -errno;
  } else if (l && (l->file = strdup(file))) {
    rc = take(l, fd, &st, guarded);
    rc = rc ? rc : check_header(l);
    rc = rc ? rc : check_dirs(l);
  }
  shard_file_close(fd);
  if (rc == 0) {
    *out = l;
  } else {
    shard_listing_close(l);
  }
  errno = saved;
  return rc;
}

int shard_listing_open(const char *file, struct shard_listing **out) {
  int saved = errno, fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc = -errno;
  errno = saved;
  return open_as(fd < 0 ? rc : fd, file, true, out);
}

int shard_listing_map(int fd, const char *file, bool guarded, struct shard_listing **out) {
  return open_as(fd, file, guarded, out);
}

const char *shard_listing_strerror(int rc) {
  return rc == -EBADMSG           ? "not a listing, or damaged"
         : rc == -EPROTONOSUPPORT ? "made by another version of libshard"
                                  : strerror(-rc);
}

void shard_listing_close(struct shard_listing *listing) {
  if (listing) {
    int saved = errno;
    if (listing->copied) {
      free((void *)listing->map);
    } else if (listing->map) {
      munmap((void *)listing->map, listing->map_size);
    }
    free(listing->names.copy);
    free(listing->others.copy);
    free(listing->source);
    free(listing->options);
    free(listing->file);
    free(listing);
    errno = saved;
  }
}

uint64_t shard_listing_count(const struct shard_listing *listing) { return listing->names.count; }

void shard_listing_info(const struct shard_listing *l, struct shard_listing_info *out) {
  const struct shard_header *h = l->header;
  *out = (struct shard_listing_info){
      .entries = h->names.count,
      .bytes = h->file_size,
      .directories = h->directories,
      .dirs_hidden = h->dirs_hidden,
      .dir_links = h->dir_links,
      .duplicates = h->duplicates,
      .min_depth = h->min_depth,
      .max_depth = h->max_depth,
      .longest = h->longest,
      .order = h->order,
      .utf8 = h->utf8,
      .dotted = h->dotted,
      .source = l->source,
      .options = l->options,
      .file = l->file,
  };
  memcpy(out->bytes_used, h->bytes_used, sizeof(out->bytes_used));
  memcpy(out->suffix, h->suffix, sizeof(out->suffix));
  out->suffix[sizeof(out->suffix) - 1] = 0;
  shard_hex_print(out->digest, h->digest, sizeof(h->digest));
}

/* Read the directory at `at`, which is not behind the section. Returns what follows it; NULL for
 * damage. */
static const uint8_t *read_dir(const struct shard_listing *l, const uint8_t *at,
                               struct shard_dir_entry *out) {
  const size_t fixed = sizeof(out->id);
  if (at < l->dirs || (size_t)(l->dirs_end - at) <= fixed) {
    return NULL;
  }
  size_t left = (size_t)(l->dirs_end - at) - fixed, most = l->header->longest_dir + (size_t)1;
  size_t n = left < most ? left : most;
  const uint8_t *id = shard_listing_get(l->guarded, at, fixed, &out->id);
  const uint8_t *path = id ? shard_listing_get(l->guarded, at + fixed, n, out->room) : NULL;
  const uint8_t *nul = path ? memchr(path, 0, n) : NULL;
  if (!nul) {
    return NULL;
  }
  if (!l->guarded) {
    memcpy(&out->id, id, fixed);
  }
  out->path = (const char *)path;
  return at + fixed + (nul - path) + 1;
}

bool shard_listing_dir(const struct shard_listing *l, const uint8_t **pos,
                       struct shard_dir_entry *out) {
  const uint8_t *p = *pos ? *pos : l->dirs;
  if (p >= l->dirs_end) {
    return false;
  }
  *pos = read_dir(l, p, out);
  if (!*pos) {
    out->id = (struct shard_dir){0};
    out->path = "";
    *pos = l->dirs_end;
  }
  return true;
}

int shard_listing_dir_find(const struct shard_listing *l, uint64_t dev, uint64_t ino,
                           struct shard_dir_entry *out) {
  const uint8_t *by_inode = l->map + l->header->dirs_by_inode.offset;
  uint64_t low = 0, high = l->header->directories;
  while (low < high) {
    uint64_t mid = low + (high - low) / 2, offset;
    uint8_t room[SHARD_INDEX_ENTRY];
    uint32_t written;
    const uint8_t *p =
        shard_listing_get(l->guarded, by_inode + mid * SHARD_INDEX_ENTRY, sizeof(room), room);
    if (!p) {
      return -EBADMSG;
    }
    memcpy(&offset, p, sizeof(offset));
    memcpy(&written, p + sizeof(offset), sizeof(written));
    if (offset >= l->header->dirs.size ||
        !read_dir(l, l->map + l->header->dirs.offset + offset, out)) {
      return -EBADMSG;
    }
    uint32_t crc = shard_crc32c(l->header->salt + (uint32_t)mid, &offset, sizeof(offset));
    crc = shard_crc32c(crc, &out->id, sizeof(out->id));
    if (!shard_listing_sum_fits(shard_crc32c(crc, out->path, strlen(out->path) + 1), written)) {
      return -EBADMSG;
    }
    if (out->id.ino == ino && out->id.dev == dev) {
      return 1;
    }
    if (out->id.ino < ino || (out->id.ino == ino && out->id.dev < dev)) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return 0;
}

/* Check the checksums and the order of the names, and that all attributes can be read. */
static int verify_table(const struct shard_listing *l, const struct shard_table_header *h,
                        const struct shard_table *t) {
  const struct shard_section *all[] = {&h->index, &h->extent, &h->attribute_index};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    if (check_section(l, all[i]) != 0) {
      return -EBADMSG;
    }
  }
  struct shard_position p = SHARD_POSITION(t);
  char *last = __builtin_alloca((size_t)t->longest + 1);
  size_t last_length = 0;
  int rc = shard_names_seek(&p, t, 0);
  while (rc == 0 && (rc = shard_names_next(&p)) > 0) {
    if (last_length && !shard_codec_may_follow(t->order, last, last_length, p.name, p.length)) {
      return -EBADMSG;
    }
    memcpy(last, p.name, p.length + 1);
    last_length = p.length;
    rc = 0;
  }
  struct shard_attributes attributes;
  for (uint64_t block = 0;
       rc == 0 && t->attributes && block < shard_listing_attribute_blocks(t->count); block++) {
    rc = shard_names_attributes(t, block, &attributes);
  }
  return rc;
}

int shard_listing_verify(const struct shard_listing *l) {
  const struct shard_header *h = l->header;
  int rc = check_section(l, &h->dirs);
  rc = rc ? rc : check_section(l, &h->dirs_by_inode);
  rc = rc ? rc : verify_table(l, &h->names, &l->names);
  return rc ? rc : verify_table(l, &h->others, &l->others);
}
