/* SPDX-License-Identifier: MIT */
/*
 * reader.c - maps a listing file read-only, and reads its facts and directories. names.c reads the
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
#include "base/words.h"
#include "listing/codec.h"

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
                            .others = others};
  if (others && (header->order == SHARD_ORDER_DIRECTORY || header->order == SHARD_ORDER_SAMPLE)) {
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

/* Whether a header can be that of a listing with a file of so many bytes. */
static int check_header(const struct shard_header *h, uint64_t file_size) {
  if (memcmp(h->magic, SHARD_MAGIC, sizeof(h->magic)) != 0) {
    return -EBADMSG;
  }
  if (h->endian != SHARD_ENDIAN || h->version != SHARD_FORMAT_VERSION) {
    return -EPROTONOSUPPORT;
  }
  bool fits = shard_listing_sum_fits(header_crc(h), h->header_crc);
  return fits && h->file_size == file_size ? 0 : -EBADMSG;
}

static int map_tables(struct shard_listing *l) {
  const struct shard_header *h = l->header;
  if (h->block_names != SHARD_BLOCK_NAMES || h->order > SHARD_ORDER_SAMPLE ||
      h->attributes > SHARD_ATTRIBUTES_MADE || !section_fits(l, &h->dirs) ||
      !section_fits(l, &h->tables)) {
    return -EBADMSG;
  }
  uint64_t blocks = h->names.count / SHARD_SAMPLE_FILES + (h->names.count % SHARD_SAMPLE_FILES > 0);
  bool sampled = h->sample != SHARD_SAMPLE_FILE;
  if (h->sample > SHARD_SAMPLE_DIRECTORY || sampled != (h->order == SHARD_ORDER_SAMPLE) ||
      h->samples > h->names.count || !section_fits(l, &h->sample_blocks) ||
      (sampled && !is_array(&h->sample_blocks, blocks, sizeof(struct shard_sample_block)))) {
    return -EBADMSG;
  }
  l->samples = sampled ? l->map + h->sample_blocks.offset : NULL;
  int rc = map_table(l, &h->names, h->longest, false, &l->names);
  return rc ? rc : map_table(l, &h->others, h->longest_other, true, &l->others);
}

/* Check a section's checksum. */
static int check_section(const struct shard_listing *l, const struct shard_section *s) {
  uint32_t crc = shard_crc32c(0, l->map + s->offset, s->size);
  return shard_listing_sum_fits(crc, s->crc) ? 0 : -EBADMSG;
}

/* Copy the text at `at`, which ends before `end`, malloc'd, to *out. Returns what follows it; NULL:
 * there is none, and *rc tells why. */
static const uint8_t *read_text(const uint8_t *at, const uint8_t *end, char **out, int *rc) {
  const uint8_t *nul = memchr(at, 0, (size_t)(end - at));
  *rc = -EBADMSG;
  if (!nul || nul - at >= SHARD_NAME_MAX) {
    return NULL;
  }
  *out = strdup((const char *)at);
  *rc = *out ? 0 : -ENOMEM;
  return *out ? nul + 1 : NULL;
}

static int check_dirs(struct shard_listing *l) {
  const struct shard_section *s = &l->header->dirs;
  const uint8_t *p = l->map + s->offset, *end = p + s->size;
  int rc = check_section(l, s);
  if (rc) {
    return rc;
  }
  p = read_text(p, end, &l->source, &rc);
  p = p ? read_text(p, end, &l->options, &rc) : NULL;
  if (!p) {
    return rc;
  }
  l->dirs = p;
  l->dirs_end = end;
  return 0;
}

/* The tables are pairs of texts. */
static int check_tables(struct shard_listing *l) {
  const struct shard_section *s = &l->header->tables;
  size_t texts = 0;
  l->tables = l->map + s->offset;
  l->tables_end = l->tables + s->size;
  for (const uint8_t *p = l->tables; p < l->tables_end; p++) {
    texts += *p == 0;
  }
  bool whole = texts % 2 == 0 && (s->size == 0 || l->tables_end[-1] == 0);
  return whole ? check_section(l, s) : -EBADMSG;
}

/* Map the file. 0 or a negative errno. */
static int map_file(struct shard_listing *l, int fd, const struct stat *st) {
  if (!S_ISREG(st->st_mode) || st->st_size < (off_t)sizeof(struct shard_header)) {
    return S_ISDIR(st->st_mode) ? -EISDIR : -EBADMSG;
  }
  void *map = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) {
    return -errno;
  }
  l->map = map;
  l->map_size = (size_t)st->st_size;
  l->header = map;
  return 0;
}

int shard_listing_map(int fd, const char *file, struct shard_listing **out) {
  int saved = errno, rc = -ENOMEM;
  struct stat st;
  struct shard_listing *l = calloc(1, sizeof(*l));
  if (fd < 0 || fstat(fd, &st) != 0) {
    rc = fd < 0 ? fd : -errno;
  } else if (l && (l->file = strdup(file))) {
    rc = map_file(l, fd, &st);
    rc = rc ? rc : !l->header ? -EBADMSG : check_header(l->header, l->map_size);
    rc = rc ? rc : map_tables(l);
    rc = rc ? rc : check_dirs(l);
    rc = rc ? rc : check_tables(l);
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
  return shard_listing_map(fd < 0 ? rc : fd, file, out);
}

int shard_listing_peek(int fd, char **source, char **options) {
  struct stat st;
  struct shard_header h = {.version = 0};
  *source = *options = NULL;
  if (fstat(fd, &st) != 0) {
    return -errno;
  }
  if (!S_ISREG(st.st_mode)) {
    return S_ISDIR(st.st_mode) ? -EISDIR : -EBADMSG;
  }
  ssize_t n = TEMP_FAILURE_RETRY(pread(fd, &h, sizeof(h), 0));
  int rc = n < 0 ? -errno : check_header(&h, (uint64_t)st.st_size);
  if (rc != 0) {
    return rc;
  }
  size_t size = h.dirs.size < (size_t)2 * SHARD_NAME_MAX ? h.dirs.size : (size_t)2 * SHARD_NAME_MAX;
  uint8_t *texts = malloc(size + 1);
  n = texts ? TEMP_FAILURE_RETRY(pread(fd, texts, size, (off_t)h.dirs.offset)) : 0;
  rc = !texts ? -ENOMEM : n < 0 ? -errno : -EBADMSG;
  if (texts && n > 0) {
    const uint8_t *p = read_text(texts, texts + n, source, &rc);
    if (p) {
      read_text(p, texts + n, options, &rc);
    }
  }
  free(texts);
  if (rc != 0) {
    free(*source);
    *source = NULL;
  }
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
    if (listing->map) {
      munmap((void *)listing->map, listing->map_size);
    }
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

bool shard_listing_dir(const struct shard_listing *l, const uint8_t **pos, struct shard_dir *out,
                       const char **path) {
  const uint8_t *p = *pos ? *pos : l->dirs;
  if (p >= l->dirs_end) {
    return false;
  }
  const uint8_t *name = p + sizeof(*out), *nul = NULL;
  if ((size_t)(l->dirs_end - p) > sizeof(*out)) {
    memcpy(out, p, sizeof(*out));
    nul = memchr(name, 0, (size_t)(l->dirs_end - name));
  }
  *path = nul ? (const char *)name : "";
  *pos = nul ? nul + 1 : l->dirs_end;
  if (!nul) {
    *out = (struct shard_dir){.ino = 0};
  }
  return true;
}

bool shard_listing_table(const struct shard_listing *l, const uint8_t **pos, const char **format,
                         const char **path) {
  const char *p = (const char *)(*pos ? *pos : l->tables);
  if (p >= (const char *)l->tables_end) {
    return false;
  }
  *format = p;
  *path = p + strlen(p) + 1;
  *pos = (const uint8_t *)*path + strlen(*path) + 1;
  return true;
}

const char *shard_listing_table_of(const struct shard_listing *l, const char *name, size_t length,
                                   const char **path) {
  const uint8_t *pos = NULL;
  const char *format;
  while (shard_listing_table(l, &pos, &format, path)) {
    size_t n = strlen(*path);
    if (n == 0 || (n <= length && memcmp(*path, name, n) == 0 && (n == length || name[n] == '/'))) {
      return format;
    }
  }
  return NULL;
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
  SHARD_POSITION(p, t);
  SHARD_WORKSPACE_OF(last, shard_listing_room(t));
  size_t last_length = 0;
  int rc = last ? shard_names_seek(&p, t, 0) : -ENOMEM;
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
  rc = rc ? rc : check_section(l, &h->sample_blocks);
  rc = rc ? rc : verify_table(l, &h->names, &l->names);
  return rc ? rc : verify_table(l, &h->others, &l->others);
}
