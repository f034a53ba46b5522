/* SPDX-License-Identifier: MIT */
/*
 * reader.c - a listing file mapped read-only. See format.h for the layout.
 *
 * Nothing is trusted that was not checked: the header's checksum and the bounds of the sections at
 * open, a block's checksum each time the block is decoded (40 ns for 300 bytes; no memory of what
 * was checked, so a process's own share stays zero). A wrong offset or crc in the tables leads to
 * a checksum that does not fit, so the tables, which grow with the listing, are not read at open.
 */
#include "listing/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "listing/codec.h"
#include "listing/crc32c.h"

static bool section_fits(const struct shard_listing *l, const struct shard_section *s) {
  return s->offset <= l->map_size && s->size <= l->map_size - s->offset;
}

static uint32_t header_crc(const struct shard_header *header) {
  struct shard_header copy = *header;
  copy.header_crc = 0;
  return shard_crc32c(0, &copy, sizeof(copy));
}

static int check_header(struct shard_listing *l) {
  const struct shard_header *h = l->header;
  if (l->map_size < sizeof(*h) || memcmp(h->magic, SHARD_MAGIC, sizeof(h->magic)) != 0) {
    return -EBADMSG;
  }
  if (h->endian != SHARD_ENDIAN || h->version != SHARD_FORMAT_VERSION) {
    return -EPROTONOSUPPORT;
  }
  if (header_crc(h) != h->header_crc || h->file_size != l->map_size) {
    return -EBADMSG;
  }
  const struct shard_section *all[] = {&h->names, &h->offsets, &h->crcs,
                                       &h->dirs,  &h->types,   &h->inodes};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    if (!section_fits(l, all[i])) {
      return -EBADMSG;
    }
  }
  if (h->block_names == 0 || h->longest >= SHARD_NAME_MAX || h->count > h->file_size * 64 ||
      h->blocks != (h->count + h->block_names - 1) / h->block_names ||
      h->offsets.size != (h->blocks + 1) * sizeof(uint64_t) || h->offsets.offset % 8 != 0 ||
      h->crcs.size != h->blocks * sizeof(uint32_t) || h->crcs.offset % 4 != 0) {
    return -EBADMSG;
  }
  return 0;
}

static int check_dirs(struct shard_listing *l) {
  const struct shard_section *s = &l->header->dirs;
  const uint8_t *p = l->map + s->offset, *end = p + s->size;
  if (shard_crc32c(0, p, s->size) != s->crc) {
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
    l->offsets = (const uint64_t *)(l->map + l->header->offsets.offset);
    l->crcs = (const uint32_t *)(l->map + l->header->crcs.offset);
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

uint64_t shard_listing_count(const struct shard_listing *listing) { return listing->header->count; }

/*
 * A position on the stack whose buffer is as long as this listing's longest name: a host's thread
 * may have a small stack, and names are rarely longer than a hundred bytes.
 */
#define POSITION(l)                                                                                \
  { .name = __builtin_alloca((l)->header->longest + 1) }

/* Put p at the beginning of `block`, nothing decoded yet. */
static int load_block(struct shard_position *p, const struct shard_listing *l, uint64_t block) {
  const struct shard_header *h = l->header;
  uint64_t begin = l->offsets[block], end = l->offsets[block + 1];
  if (begin >= end || end > h->names.size || end - begin > UINT32_MAX) {
    return -EBADMSG;
  }
  const uint8_t *data = l->map + h->names.offset + begin;
  size_t size = (size_t)(end - begin);
  if (shard_crc32c((uint32_t)block + 1, data, size) != l->crcs[block] ||
      *data != SHARD_BLOCK_FRONT) {
    return -EBADMSG;
  }
  uint64_t first = block * h->block_names;
  uint64_t left = h->count - first;
  p->listing = l;
  p->next = data + 1;
  p->end = data + size;
  p->position = first;
  p->left = (uint32_t)(left < h->block_names ? left : h->block_names);
  p->length = 0;
  return 0;
}

/* Decode one more name of the current block into p->name. */
static inline int step(struct shard_position *p) {
  uint32_t prefix = 0, suffix = 0, middle, old = p->length;
  /* The first name of a block is coded without prefix and suffix. */
  if (old != 0 && (shard_varint_get(&p->next, p->end, &prefix) != 0 ||
                   shard_varint_get(&p->next, p->end, &suffix) != 0)) {
    return -EBADMSG;
  }
  if (shard_varint_get(&p->next, p->end, &middle) != 0 || middle > (size_t)(p->end - p->next) ||
      prefix > old || suffix > old - prefix) {
    return -EBADMSG;
  }
  uint64_t length = (uint64_t)prefix + middle + suffix;
  if (length == 0 || length > p->listing->header->longest) {
    return -EBADMSG;
  }
  if (length != old) {
    memmove(p->name + prefix + middle, p->name + old - suffix, suffix);
    p->name[length] = 0;
  }
  memcpy(p->name + prefix, p->next, middle);
  p->next += middle;
  p->length = (uint32_t)length;
  p->left--;
  p->position++;
  return 0;
}

/* Put p before position i < count. */
static int seek(struct shard_position *p, const struct shard_listing *l, uint64_t i) {
  int rc = load_block(p, l, i / l->header->block_names);
  for (uint64_t k = i % l->header->block_names; rc == 0 && k > 0; k--) {
    rc = step(p);
  }
  return rc;
}

/* Decode the next name, of the next block if need be. 1, 0 at the end, or -EBADMSG. */
static inline int advance(struct shard_position *p) {
  if (p->left == 0) {
    if (p->position >= p->listing->header->count) {
      return 0;
    }
    int rc = load_block(p, p->listing, p->position / p->listing->header->block_names);
    if (rc != 0) {
      return rc;
    }
  }
  int rc = step(p);
  return rc ? rc : 1;
}

int shard_listing_seek(struct shard_cursor *c, const struct shard_listing *l, uint64_t i) {
  if (i > l->header->count) {
    return -EINVAL;
  }
  c->at = (struct shard_position){.listing = l, .position = i, .name = c->name};
  c->error = i < l->header->count ? seek(&c->at, l, i) : 0;
  return c->error;
}

ssize_t shard_listing_next(struct shard_cursor *c, const char **name) {
  if (c->error == 0) {
    int rc = advance(&c->at);
    if (rc > 0) {
      *name = c->name;
      return c->at.length;
    }
    c->error = rc;
  }
  return c->error;
}

ssize_t shard_listing_name(const struct shard_listing *l, uint64_t i, char *buf, size_t size) {
  if (i >= l->header->count) {
    return -EINVAL;
  }
  struct shard_position p = POSITION(l);
  int rc = seek(&p, l, i);
  if (rc == 0) {
    rc = step(&p);
  }
  if (rc != 0) {
    return rc;
  }
  if (p.length >= size) {
    return -ERANGE;
  }
  memcpy(buf, p.name, p.length + 1);
  return p.length;
}

ssize_t shard_listing_names(const struct shard_listing *l, uint64_t i, size_t most, char *buf,
                            size_t size, size_t *used) {
  if (i >= l->header->count) {
    return -EINVAL;
  }
  struct shard_position p = POSITION(l);
  int rc = seek(&p, l, i);
  if (rc != 0) {
    return rc;
  }
  size_t copied = 0;
  for (*used = 0; copied < most; copied++) {
    rc = advance(&p);
    if (rc < 0) {
      return rc;
    }
    if (rc == 0) {
      break;
    }
    if (p.length >= size - *used) {
      if (copied == 0) {
        return -ERANGE;
      }
      break;
    }
    memcpy(buf + *used, p.name, p.length + 1);
    *used += p.length + 1;
  }
  return (ssize_t)copied;
}

int64_t shard_listing_find(const struct shard_listing *l, const char *name) {
  const struct shard_header *h = l->header;
  size_t length = strlen(name);
  struct shard_position p = POSITION(l);
  /* The last block whose first name is <= name. */
  uint64_t low = 0, high = h->blocks;
  while (low < high) {
    uint64_t mid = low + (high - low) / 2;
    int rc = load_block(&p, l, mid);
    if (rc == 0) {
      rc = step(&p);
    }
    if (rc != 0) {
      return rc;
    }
    if (shard_compare_names(h->order, p.name, p.length, name, length) <= 0) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  if (low == 0) {
    return -ENOENT;
  }
  int rc = load_block(&p, l, low - 1);
  while (rc == 0 && p.left > 0) {
    rc = step(&p);
    if (rc == 0) {
      int order = shard_compare_names(h->order, p.name, p.length, name, length);
      if (order == 0) {
        return (int64_t)p.position - 1;
      }
      if (order > 0) {
        break;
      }
    }
  }
  return rc ? rc : -ENOENT;
}

void shard_listing_info(const struct shard_listing *l, struct shard_listing_info *out) {
  const struct shard_header *h = l->header;
  *out = (struct shard_listing_info){
      .entries = h->count,
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

int shard_listing_verify(const struct shard_listing *l) {
  const struct shard_header *h = l->header;
  const struct shard_section *all[] = {&h->offsets, &h->crcs, &h->types, &h->inodes};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    if (shard_crc32c(0, l->map + all[i]->offset, all[i]->size) != all[i]->crc) {
      return -EBADMSG;
    }
  }
  struct shard_cursor c;
  char last[SHARD_NAME_MAX];
  size_t last_length = 0;
  const char *name;
  ssize_t n;
  int rc = shard_listing_seek(&c, l, 0);
  while (rc == 0 && (n = shard_listing_next(&c, &name)) != 0) {
    if (n < 0) {
      return (int)n;
    }
    if (last_length && shard_compare_names(h->order, last, last_length, name, (size_t)n) >= 0) {
      return -EBADMSG;
    }
    memcpy(last, name, (size_t)n + 1);
    last_length = (size_t)n;
  }
  return rc;
}
