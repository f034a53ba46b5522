/* SPDX-License-Identifier: MIT */
/*
 * reader.c - a listing file mapped read-only: opening, facts and directories. names.c reads the
 * names; format.h has the layout.
 *
 * Nothing is trusted unchecked. Opening checks the header's checksum, the bounds of the sections,
 * and the dirs. Decoding checks the checksum of each block and extent, each time anew: that takes
 * 40 ns for 300 bytes, and a process need not remember what it has checked. Opening does not read
 * the tables, which grow with the listing: a wrong entry leads to a checksum that does not fit.
 */
#include "listing/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "listing/codec.h"

static bool section_fits(const struct shard_listing *l, const struct shard_section *s) {
  return s->offset <= l->map_size && s->size <= l->map_size - s->offset;
}

static uint32_t header_crc(const struct shard_header *header) {
  struct shard_header copy = *header;
  copy.header_crc = 0;
  return shard_crc32c(0, &copy, sizeof(copy));
}

static bool index_fits(const struct shard_section *index, uint64_t blocks) {
  return blocks < index->size && index->size == (blocks + 1) * SHARD_INDEX_ENTRY;
}

/* Fill a table from its header. The header's checksum was good: what is checked here guards against
 * faults of the writer. */
static int map_table(struct shard_listing *l, const struct shard_table_header *h, uint32_t longest,
                     uint32_t seed, struct shard_table *t) {
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
                            .seed = seed,
                            .order = header->order};
  if (seed == SHARD_SEED_OTHERS && header->order == SHARD_ORDER_DIRECTORY) {
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
  if (l->map_size < sizeof(*h) || memcmp(h->magic, SHARD_MAGIC, sizeof(h->magic)) != 0) {
    return -EBADMSG;
  }
  if (h->endian != SHARD_ENDIAN || h->version != SHARD_FORMAT_VERSION) {
    return -EPROTONOSUPPORT;
  }
  if (header_crc(h) != h->header_crc || h->file_size != l->map_size ||
      h->block_names != SHARD_BLOCK_NAMES || h->order > SHARD_ORDER_DIRECTORY ||
      h->attributes > SHARD_ATTRIBUTES_MADE || !section_fits(l, &h->dirs) ||
      !section_fits(l, &h->dirs_by_inode) ||
      h->dirs_by_inode.size != h->directories * sizeof(uint64_t)) {
    return -EBADMSG;
  }
  int rc = map_table(l, &h->names, h->longest, SHARD_SEED_NAMES, &l->names);
  return rc ? rc : map_table(l, &h->others, h->longest_other, SHARD_SEED_OTHERS, &l->others);
}

static int check_dirs(struct shard_listing *l) {
  const struct shard_section *s = &l->header->dirs;
  const uint8_t *p = l->map + s->offset, *end = p + s->size;
  const struct shard_section *by_inode = &l->header->dirs_by_inode;
  if (shard_crc32c(0, p, s->size) != s->crc ||
      shard_crc32c(0, l->map + by_inode->offset, by_inode->size) != by_inode->crc) {
    return -EBADMSG;
  }
  const char **strings[] = {&l->source, &l->options};
  for (size_t i = 0; i < 2; i++) {
    const uint8_t *nul = memchr(p, 0, (size_t)(end - p));
    if (!nul) {
      return -EBADMSG;
    }
    *strings[i] = (const char *)p;
    p = nul + 1;
  }
  l->dirs = p;
  l->dirs_end = end;
  while (p < end) {
    if ((size_t)(end - p) <= sizeof(struct shard_dir)) {
      return -EBADMSG;
    }
    p += sizeof(struct shard_dir);
    p = memchr(p, 0, (size_t)(end - p));
    if (!p++) {
      return -EBADMSG;
    }
  }
  return 0;
}

int shard_listing_open(const char *file, struct shard_listing **out) {
  int saved = errno, rc = 0;
  struct shard_listing *l = NULL;
  void *map = MAP_FAILED;
  size_t size = 0;
  int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) {
    rc = -errno;
    goto fail;
  }
  struct stat st;
  if (fstat(fd, &st) != 0) {
    rc = -errno;
    goto fail;
  }
  if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(struct shard_header)) {
    rc = S_ISDIR(st.st_mode) ? -EISDIR : -EBADMSG;
    goto fail;
  }
  size = (size_t)st.st_size;
  map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) {
    rc = -errno;
    goto fail;
  }
  l = calloc(1, sizeof(*l));
  if (!l || !(l->file = strdup(file))) {
    rc = -ENOMEM;
    goto fail;
  }
  l->map = map;
  l->map_size = size;
  l->header = map;
  rc = check_header(l);
  if (rc == 0) {
    rc = check_dirs(l);
  }
  if (rc != 0) {
    goto fail;
  }
  close(fd);
  *out = l;
  errno = saved;
  return 0;

fail:
  if (l) {
    free(l->file);
    free(l);
  }
  if (map != MAP_FAILED) {
    munmap(map, size);
  }
  if (fd >= 0) {
    close(fd);
  }
  errno = saved;
  return rc;
}

const char *shard_listing_strerror(int rc) {
  return rc == -EBADMSG           ? "not a listing, or damaged"
         : rc == -EPROTONOSUPPORT ? "made by another version of libshard"
                                  : strerror(-rc);
}

void shard_listing_close(struct shard_listing *listing) {
  if (listing) {
    int saved = errno;
    munmap((void *)listing->map, listing->map_size);
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
      .block = h->block_names,
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
  for (size_t i = 0; i < sizeof(h->digest); i++) {
    static const char hex[] = "0123456789abcdef";
    out->digest[2 * i] = hex[h->digest[i] >> 4];
    out->digest[2 * i + 1] = hex[h->digest[i] & 15];
  }
}

bool shard_listing_dir(const struct shard_listing *l, const uint8_t **pos,
                       struct shard_dir_entry *out) {
  const uint8_t *p = *pos ? *pos : l->dirs;
  if (p >= l->dirs_end) {
    return false;
  }
  memcpy(&out->id, p, sizeof(out->id));
  out->path = (const char *)p + sizeof(out->id);
  *pos = (const uint8_t *)out->path + strlen(out->path) + 1;
  return true;
}

bool shard_listing_dir_find(const struct shard_listing *l, uint64_t dev, uint64_t ino,
                            struct shard_dir_entry *out) {
  const uint8_t *by_inode = l->map + l->header->dirs_by_inode.offset;
  uint64_t low = 0, high = l->header->directories, begin = l->header->dirs.offset;
  while (low < high) {
    uint64_t mid = low + (high - low) / 2, offset;
    memcpy(&offset, by_inode + mid * sizeof(offset), sizeof(offset));
    const uint8_t *p = l->map + begin + offset;
    if (offset >= l->header->dirs.size || p < l->dirs ||
        (size_t)(l->dirs_end - p) <= sizeof(out->id)) {
      return false;
    }
    memcpy(&out->id, p, sizeof(out->id));
    if (out->id.ino == ino && out->id.dev == dev) {
      out->path = (const char *)p + sizeof(out->id);
      return true;
    }
    if (out->id.ino < ino || (out->id.ino == ino && out->id.dev < dev)) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return false;
}

/* Check the checksums and the order of the names, and that all attributes can be read. */
static int verify_table(const struct shard_listing *l, const struct shard_table_header *h,
                        const struct shard_table *t) {
  const struct shard_section *all[] = {&h->index, &h->extent, &h->attribute_index};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    if (shard_crc32c(0, l->map + all[i]->offset, all[i]->size) != all[i]->crc) {
      return -EBADMSG;
    }
  }
  struct shard_position p = SHARD_POSITION(t);
  char *last = __builtin_alloca(t->longest + 1);
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
  int rc = verify_table(l, &h->names, &l->names);
  return rc ? rc : verify_table(l, &h->others, &l->others);
}
