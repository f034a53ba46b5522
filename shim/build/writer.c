/* SPDX-License-Identifier: MIT */
#include "build/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/hex.h"
#include "build/facts.h"
#include "build/sets.h"
#include "build/spool.h"
#include "libshard.h"
#include "listing/codec.h"
#include "listing/format.h"
#include "listing/identity.h"
#include "listing/listing.h"
#include "listing/samples.h"

#define BUFFER_SIZE (1u << 20)
#define RUN_LEAST 128 /* names of a run; fewer take less room in blocks */
#define DIGEST_SIZE ((size_t)32 << 10)
#define RESERVE_STEP ((off_t)16 << 20)

/* A growing array of bytes. */
struct bytes {
  uint8_t *data;
  size_t size, room;
};

/* A table until it is written. */
struct table_state {
  struct shard_spool index, extents, runs, attributes, attribute_index;
  struct shard_table_header *header; /* in the writer's header */
  struct shard_extent open;          /* the extent of blocks that still grows; count 0: none */
  uint32_t seed;                     /* of the blocks' checksums */
};

/* The last names, as long as each is the name before it with a number one higher. They become a run
 * if there are enough, else go into blocks. The writer's `last` has the last of them. */
struct pending_run {
  uint64_t count;
  size_t begin, end;     /* the number's place in the names, once there are two */
  bool leaf;             /* it lies in the basename */
  size_t prefix, suffix; /* bytes that the first shares with the name before it */
};

struct shard_writer {
  char *path, *folder;
  struct shard_atomic_file whole;
  off_t written;   /* bytes handed to the kernel */
  off_t reserved;  /* bytes of space the file system has promised */
  bool unreserved; /* the file system promises none */
  uint32_t sum;    /* the checksum of what is written behind the header */
  uint8_t *buffer;
  size_t filled;
  struct table_state names, others;
  struct table_state *table; /* the table that is being written */
  struct bytes block, dirs, tables;
  uint32_t in_block;                  /* names in block */
  struct shard_attributes attributes; /* of the names since the last block of attributes */
  EVP_MD_CTX *digest;
  struct bytes undigested; /* names and NULs that are still to be digested */
  struct shard_header header;
  struct shard_facts facts;
  struct shard_spool samples; /* complete blocks */
  struct shard_sample_block sample_block;
  uint64_t in_sample;      /* files of the last sample */
  struct shard_sets *sets; /* NULL: they are not looked for */
  struct pending_run pending;
  bool counted; /* the last name continues it, and the number lies in the basename */
  /* The lengths of the earlier names that the last name begins with, the shortest first: a sorted
   * name that lies below another begins with it, and all between the two do. */
  bool tree;
  size_t above, stack_count;
  uint16_t stack[SHARD_NAME_MAX];
  const struct shard_writer_facts *given; /* while the file is checked */
  char last[SHARD_NAME_MAX], again[SHARD_NAME_MAX];
  size_t last_length;
};

/* Make room for `more` bytes. */
static int bytes_room(struct bytes *b, size_t more) {
  uint8_t *data = shard_array_grow(b->data, b->size, more, &b->room, 1);
  if (!data) {
    return more ? -ENOMEM : 0;
  }
  b->data = data;
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

/* Have the file system promise space, beyond the file's end: its size is never more than what is
 * written. 0 or a negative errno. */
static int reserve_space(int fd, off_t at, off_t size) {
  int rc = TEMP_FAILURE_RETRY(fallocate(fd, FALLOC_FL_KEEP_SIZE, at, size));
  return rc == 0 ? 0 : -errno;
}

/* Have space promised up to `end`, and for some steps more. 0 or a negative errno: there is none.
 */
static int reserve_up_to(struct shard_writer *w, off_t end) {
  if (end <= w->reserved || w->unreserved) {
    return 0;
  }
  off_t want = end + RESERVE_STEP;
  int rc = reserve_space(w->whole.fd, w->reserved, want - w->reserved);
  if (rc == -ENOSPC || rc == -EFBIG) {
    want = end;
    rc = reserve_space(w->whole.fd, w->reserved, want - w->reserved);
  }
  w->reserved = rc == 0 ? want : w->reserved;
  bool refused = rc == -ENOSPC || rc == -EFBIG || rc == -EDQUOT || rc == -EIO;
  w->unreserved = rc != 0 && !refused; /* FUSE and NFS may promise nothing: EOPNOTSUPP, ESPIPE */
  return refused ? rc : 0;
}

static int flush_buffer(struct shard_writer *w) {
  off_t end = w->written + (off_t)w->filled;
  /* A full tmpfs must be an error here, not a SIGBUS in a reader. */
  int rc = reserve_up_to(w, end);
  if (rc == 0) {
    rc = shard_spool_write_at(w->whole.fd, w->buffer, w->filled, w->written);
  }
  if (rc == 0) {
    size_t header = w->written == 0 ? sizeof(w->header) : 0;
    w->sum = shard_crc32c(w->sum, w->buffer + header, w->filled - header);
    /* Let the disk begin now: else all writing is left to the fsync at the end. */
    (void)sync_file_range(w->whole.fd, w->written, (off_t)w->filled, SYNC_FILE_RANGE_WRITE);
    w->written = end;
    w->filled = 0;
  }
  return rc;
}

static int put_bytes(struct shard_writer *w, const void *data, size_t size) {
  const uint8_t *p = data;
  while (size > 0) {
    size_t room = BUFFER_SIZE - w->filled;
    size_t n = size < room ? size : room;
    memcpy(w->buffer + w->filled, p, n);
    w->filled += n;
    p += n;
    size -= n;
    if (w->filled == BUFFER_SIZE) {
      int rc = flush_buffer(w);
      if (rc != 0) {
        return rc;
      }
    }
  }
  return 0;
}

static uint64_t get_position(const struct shard_writer *w) {
  return (uint64_t)w->written + w->filled;
}

static void free_writer(struct shard_writer *w) {
  EVP_MD_CTX_free(w->digest);
  struct bytes *all[] = {&w->block, &w->undigested, &w->dirs, &w->tables};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    free(all[i]->data);
  }
  shard_spool_free(&w->samples);
  free(w->sets);
  struct table_state *tables[] = {&w->names, &w->others};
  for (size_t i = 0; i < 2; i++) {
    shard_spool_free(&tables[i]->index);
    shard_spool_free(&tables[i]->extents);
    shard_spool_free(&tables[i]->runs);
    shard_spool_free(&tables[i]->attributes);
    shard_spool_free(&tables[i]->attribute_index);
  }
  free(w->folder);
  free(w->buffer);
  free(w->path);
  free(w);
}

/* Not for secrets: two files of one place must have different ones. */
static uint64_t random_number(void) {
  uint64_t number = 0;
  struct timespec now;
  if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number)) {
    clock_gettime(CLOCK_REALTIME, &now);
    number = ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) ^ (uint64_t)getpid() << 20;
  }
  return number;
}

static void init_table(const struct shard_writer *w, struct table_state *t,
                       struct shard_table_header *h, uint32_t seed) {
  shard_spool_init(&t->index, w->folder);
  shard_spool_init(&t->extents, w->folder);
  shard_spool_init(&t->runs, w->folder);
  shard_spool_init(&t->attributes, w->folder);
  shard_spool_init(&t->attribute_index, w->folder);
  t->header = h;
  t->seed = seed + w->header.salt;
}

int shard_writer_open(const char *path, uint32_t order, enum shard_attributes_kept attributes,
                      enum shard_sample sample, struct shard_writer **out) {
  struct shard_writer *w = calloc(1, sizeof(*w));
  if (!w) {
    return -ENOMEM;
  }
  int rc = -ENOMEM;
  w->path = strdup(path);
  w->folder = shard_spool_folder(path);
  w->buffer = malloc(BUFFER_SIZE);
  w->digest = EVP_MD_CTX_new();
  w->header.salt = (uint32_t)random_number();
  init_table(w, &w->names, &w->header.names, SHARD_SEED_NAMES);
  init_table(w, &w->others, &w->header.others, SHARD_SEED_OTHERS);
  if (!w->path || !w->folder || !w->buffer || !w->digest ||
      !EVP_DigestInit_ex(w->digest, EVP_sha256(), NULL)) {
    goto fail;
  }
  shard_atomic_file_remove_stale(w->path);
  rc = shard_atomic_file_open(&w->whole, w->path, SHARD_ATOMIC_FILE_SHARED,
                              SHARD_ATOMIC_FILE_SYNCED);
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
  w->header.sample = sample;
  shard_spool_init(&w->samples, w->folder);
  if (!sample && attributes && order == SHARD_ORDER_PATH) {
    w->sets = shard_sets_new(); /* NULL: nothing is found */
  }
  w->facts.header = &w->header;
  w->table = &w->names;
  w->header.names.names.offset = sizeof(w->header);
  static const struct shard_header zero;
  rc = put_bytes(w, &zero, sizeof(zero));
  if (rc != 0) {
    goto fail;
  }
  *out = w;
  return 0;

fail:
  shard_writer_abort(w);
  return rc;
}

bool shard_writer_counted(const struct shard_writer *w) { return w->counted; }

void shard_writer_forbid_below(struct shard_writer *w) { w->tree = true; }

size_t shard_writer_above(const struct shard_writer *w) { return w->above; }

void shard_writer_abort(struct shard_writer *w) {
  if (w) {
    shard_atomic_file_abort(&w->whole);
    free_writer(w);
  }
}

/* Append an entry to an index. */
static int add_to_index(struct shard_spool *index, uint64_t offset, uint32_t crc) {
  uint8_t entry[SHARD_INDEX_ENTRY];
  memcpy(entry, &offset, sizeof(offset));
  memcpy(entry + sizeof(offset), &crc, sizeof(crc));
  return shard_spool_add(index, entry, sizeof(entry));
}

/* ---- attributes -------------------------------------------------------------------------- */

/* Length of the run of equal elements that begins at k of n. */
#define RUN(array, k, n)                                                                           \
  __extension__({                                                                                  \
    uint32_t end_ = (k) + 1;                                                                       \
    while (end_ < (n) && (array)[end_] == (array)[k]) {                                            \
      end_++;                                                                                      \
    }                                                                                              \
    end_ - (k);                                                                                    \
  })

/* Write the attributes of the table's last n names as a block. */
static int end_attributes(struct shard_writer *w, uint32_t n) {
  struct table_state *t = w->table;
  const struct shard_attributes *a = &w->attributes;
  uint8_t coded[SHARD_BLOCK_NAMES * 18 + 10];
  uint64_t steps[SHARD_BLOCK_NAMES];
  uint32_t times;
  size_t size = 0;
  for (uint32_t k = 0; k < n; k += times) {
    times = RUN(a->type, k, n);
    coded[size++] = a->type[k];
    size += shard_codec_put_varint(coded + size, times);
  }
  size += shard_codec_put_varint(coded + size, a->ino[0]);
  for (uint32_t k = 0; k + 1 < n; k++) {
    uint64_t step = a->ino[k + 1] - a->ino[k];
    steps[k] = step << 1 ^ -(step >> 63);
  }
  for (uint32_t k = 0; k + 1 < n; k += times) {
    times = RUN(steps, k, n - 1);
    size += shard_codec_put_varint(coded + size, steps[k]);
    size += shard_codec_put_varint(coded + size, times);
  }
  uint64_t block = (t->header->count - 1) / SHARD_BLOCK_NAMES, offset = t->attributes.size;
  int rc = shard_spool_add(&t->attributes, coded, size);
  return rc ? rc
            : add_to_index(&t->attribute_index, offset,
                           shard_crc32c(t->seed + (uint32_t)block, coded, size));
}

/* ---- blocks ------------------------------------------------------------------------------ */

static int end_block(struct shard_writer *w) {
  if (w->in_block == 0) {
    return 0;
  }
  struct table_state *t = w->table;
  uint32_t crc = shard_crc32c(t->seed + (uint32_t)t->header->blocks, w->block.data, w->block.size);
  int rc = add_to_index(&t->index, get_position(w) - t->header->names.offset, crc);
  if (rc == 0) {
    rc = put_bytes(w, w->block.data, w->block.size);
  }
  t->header->blocks++;
  w->block.size = 0;
  w->in_block = 0;
  return rc;
}

static int add_extent(struct table_state *t, struct shard_extent *e, const void *record) {
  uint32_t seed = t->seed + SHARD_SEED_EXTENT + (uint32_t)t->header->extents++;
  e->crc = shard_crc32c(seed, e, offsetof(struct shard_extent, crc));
  if (e->size) {
    e->crc = shard_crc32c(e->crc, record, e->size);
  }
  return shard_spool_add(&t->extents, e, sizeof(*e));
}

/* End the open extent of blocks, if there is one. */
static int end_blocks(struct shard_writer *w) {
  struct table_state *t = w->table;
  int rc = end_block(w);
  if (rc == 0 && t->open.count > 0) {
    rc = add_extent(t, &t->open, NULL);
    t->open = (struct shard_extent){0};
  }
  return rc;
}

/* Append a name to the current block; it shares prefix and suffix with the name before. */
static int encode_name(struct shard_writer *w, const char *name, size_t length, size_t prefix,
                       size_t suffix) {
  struct table_state *t = w->table;
  int rc = bytes_room(&w->block, length + 16);
  if (rc != 0) {
    return rc;
  }
  uint8_t *p = w->block.data + w->block.size;
  if (t->open.count == 0) {
    t->open.first = t->header->count - w->pending.count;
    t->open.where = t->header->blocks;
  }
  if (w->in_block == 0) {
    *p++ = SHARD_BLOCK_FRONT;
    prefix = suffix = 0;
  } else {
    p += shard_codec_put_varint(p, prefix);
    p += shard_codec_put_varint(p, suffix);
  }
  size_t middle = length - prefix - suffix;
  p += shard_codec_put_varint(p, middle);
  memcpy(p, name + prefix, middle);
  w->block.size = (size_t)(p - w->block.data) + middle;
  t->open.count++;
  w->in_block++;
  return w->block.size >= SHARD_BLOCK_BYTES ? end_blocks(w)
         : w->in_block == SHARD_BLOCK_NAMES ? end_block(w)
                                            : 0;
}

/* ---- runs -------------------------------------------------------------------------------- */

/* Write the pending names as a run; `number` is the first one's. */
static int end_run(struct shard_writer *w, uint64_t number) {
  struct table_state *t = w->table;
  struct pending_run *run = &w->pending;
  size_t tail = w->last_length - run->end;
  int rc = end_blocks(w);
  if (rc == 0) {
    rc = bytes_room(&w->block, w->last_length + 32);
  }
  if (rc != 0) {
    return rc;
  }
  uint8_t *record = w->block.data;
  size_t size = shard_codec_put_varint(record, run->begin);
  memcpy(record + size, w->last, run->begin);
  size += run->begin;
  size += shard_codec_put_varint(record + size, run->end - run->begin);
  size += shard_codec_put_varint(record + size, number);
  size += shard_codec_put_varint(record + size, tail);
  memcpy(record + size, w->last + run->end, tail);
  size += tail;
  struct shard_extent e = {.first = t->header->count - run->count,
                           .count = run->count,
                           .where = t->runs.size,
                           .size = (uint32_t)size};
  rc = add_extent(t, &e, record);
  return rc ? rc : shard_spool_add(&t->runs, record, size);
}

/* Write the pending names, as a run or into blocks. */
static int end_pending(struct shard_writer *w) {
  struct pending_run *run = &w->pending;
  int rc = 0;
  if (run->count == 1) {
    rc = encode_name(w, w->last, w->last_length, run->prefix, run->suffix);
  } else if (run->count > 1) {
    size_t width = run->end - run->begin, prefix = run->prefix, suffix = run->suffix;
    uint64_t number = shard_codec_get_digits(w->last + run->begin, width) - (run->count - 1);
    if (run->count >= RUN_LEAST) {
      rc = end_run(w, number);
    } else {
      memcpy(w->again, w->last, w->last_length);
      shard_codec_put_digits(w->again + run->begin, width, number);
      for (; rc == 0 && run->count > 0; run->count--) {
        rc = encode_name(w, w->again, w->last_length, prefix, suffix);
        if (run->count > 1) {
          prefix = (size_t)(shard_codec_count_up(w->again + run->end) - w->again);
          suffix = w->last_length - run->end;
        }
      }
    }
  }
  run->count = 0;
  return rc;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/*
 * Whether a name of the last name's length is the last name with a number one higher; it shares
 * prefix and suffix with it. *begin, *end: the number's place.
 */
static bool counts_on(const char *last, const char *name, size_t length, size_t prefix,
                      size_t suffix, size_t *begin, size_t *end) {
  size_t first = length - suffix;
  *end = first;
  while (first > 0 && *end - first < SHARD_RUN_DIGITS && is_digit(last[first - 1])) {
    first--;
  }
  *begin = first;
  /* The first digit that differs goes up by one, and nines behind it become zeros. */
  if (prefix >= *end || prefix < first || last[prefix] == '9' || name[prefix] != last[prefix] + 1) {
    return false;
  }
  for (size_t i = prefix + 1; i < *end; i++) {
    if (last[i] != '9' || name[i] != '0') {
      return false;
    }
  }
  return true;
}

/* Whether `name` continues the pending run. If so, it becomes the last name. */
static bool continues_run(struct shard_writer *w, const char *name, size_t length) {
  const struct pending_run *run = &w->pending;
  if (run->count < 2 || length != w->last_length ||
      memcmp(name + run->end, w->last + run->end, length - run->end) != 0) {
    return false;
  }
  size_t at = run->end - 1;
  while (w->last[at] == '9' && name[at] == '0' && at > run->begin) {
    at--;
  }
  if (w->last[at] == '9' || name[at] != w->last[at] + 1 || memcmp(name, w->last, at) != 0) {
    return false;
  }
  memcpy(w->last + at, name + at, run->end - at);
  while (w->stack_count > 0 && w->stack[w->stack_count - 1] > at) {
    w->stack_count--;
  }
  return true;
}

/* ---- names ------------------------------------------------------------------------------- */

/* End the table: write what follows its names, and go on to the others. */
static int end_table(struct shard_writer *w);

static int end_digest(struct shard_writer *w) {
  bool done = EVP_DigestUpdate(w->digest, w->undigested.data, w->undigested.size);
  w->undigested.size = 0;
  return done ? 0 : -EIO;
}

static int digest_name(struct shard_writer *w, const char *name, size_t length) {
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

/* Note what the header says of a name that is in order. */
static void note_name(struct shard_writer *w, const char *name, size_t length, size_t prefix,
                      size_t suffix) {
  struct shard_header *h = &w->header;
  if (h->order == SHARD_ORDER_BASENAME && h->names.count > 0) {
    size_t a = shard_codec_basename(w->last, w->last_length),
           b = shard_codec_basename(name, length);
    h->duplicates +=
        w->last_length - a == length - b && memcmp(w->last + a, name + b, length - b) == 0;
  }
  shard_facts_add(&w->facts, w->last, w->last_length, name, length, prefix, suffix);
}

/* Whether a name that shares `prefix` bytes with the last one lies below an earlier one: that ends
 * where the two differ, for the last one does not. The earlier ones that it begins with stay. */
static bool lies_below(struct shard_writer *w, const char *name, size_t length, size_t prefix) {
  while (w->stack_count > 0 && w->stack[w->stack_count - 1] > prefix) {
    w->stack_count--;
  }
  if (prefix == w->last_length) {
    w->stack[w->stack_count++] = (uint16_t)prefix;
  }
  bool below = w->stack_count > 0 && w->stack[w->stack_count - 1] == prefix && prefix < length &&
               name[prefix] == '/';
  w->above = below ? prefix : 0;
  return below;
}

/* Take a name that does not continue the pending run. */
static int begin_pending(struct shard_writer *w, const char *name, size_t length) {
  struct shard_header *h = &w->header;
  struct pending_run *run = &w->pending;
  size_t prefix = 0, suffix = 0, begin, end;
  bool first = w->table->header->count == 0;
  if (!first) {
    /* The others of a listing that is ordered by directory are in the order of paths. */
    bool by_path = h->order == SHARD_ORDER_DIRECTORY || h->order == SHARD_ORDER_SAMPLE;
    uint32_t order = by_path && w->table == &w->others ? (uint32_t)SHARD_ORDER_PATH : h->order;
    if (!shard_codec_may_follow(order, w->last, w->last_length, name, length)) {
      bool equal = length == w->last_length && memcmp(name, w->last, length) == 0;
      return equal ? -EEXIST : -EINVAL;
    }
    shard_codec_shared(w->last, w->last_length, name, length, &prefix, &suffix);
    if (w->tree && w->table == &w->names && lies_below(w, name, length, prefix)) {
      return -ENOTDIR;
    }
  }
  if (w->table == &w->names) {
    note_name(w, name, length, prefix, suffix);
  } else if (length > h->longest_other) {
    h->longest_other = (uint32_t)length;
  }
  int rc = 0;
  if (run->count == 1 && length == w->last_length &&
      counts_on(w->last, name, length, prefix, suffix, &begin, &end)) {
    run->begin = begin;
    run->end = end;
    run->count = 2;
    run->leaf = !memchr(name + begin, '/', length - begin);
  } else {
    rc = end_pending(w);
    *run = (struct pending_run){.count = 1, .prefix = prefix, .suffix = suffix};
  }
  memcpy(w->last + prefix, name + prefix, length - prefix);
  w->last_length = length;
  return rc;
}

/* ---- samples ----------------------------------------------------------------------------- */

static int end_sample_block(struct shard_writer *w, uint64_t number) {
  struct shard_sample_block *b = &w->sample_block;
  b->crc = shard_crc32c(SHARD_SEED_SAMPLES + w->header.salt + (uint32_t)number, b,
                        offsetof(struct shard_sample_block, crc));
  int rc = shard_spool_add(&w->samples, b, sizeof(*b));
  *b = (struct shard_sample_block){.before = w->header.samples};
  return rc;
}

/* Note a name at position `at`. begins: it begins a sample. */
static int put_sample(struct shard_writer *w, uint64_t at, bool begins) {
  struct shard_header *h = &w->header;
  uint64_t bit = at % SHARD_SAMPLE_FILES;
  int rc = at > 0 && bit == 0 ? end_sample_block(w, at / SHARD_SAMPLE_FILES - 1) : 0;
  w->sample_block.bits[bit / 64] |= (uint64_t)begins << bit % 64;
  h->samples += begins;
  w->in_sample = begins ? 1 : w->in_sample + 1;
  h->largest = w->in_sample > h->largest ? w->in_sample : h->largest;
  return rc;
}

int shard_writer_put(struct shard_writer *w, enum shard_writer_table which, const char *name,
                     size_t length, uint64_t ino, uint8_t type) {
  if (length == 0 || length >= SHARD_NAME_MAX) {
    return -ENAMETOOLONG;
  }
  int rc = 0;
  if (which == SHARD_WRITER_OTHERS && w->table != &w->others) {
    rc = end_table(w);
    if (rc != 0) {
      return rc;
    }
  } else if (which == SHARD_WRITER_NAMES && w->table != &w->names) {
    return -EINVAL;
  }
  struct table_state *t = w->table;
  bool sampled = w->header.sample && which == SHARD_WRITER_NAMES;
  bool begins = sampled && (t->header->count == 0 ||
                            !shard_sample_same((enum shard_sample)w->header.sample, w->last,
                                               w->last_length, name, length));
  bool counts = continues_run(w, name, length);
  if (w->sets && which == SHARD_WRITER_NAMES &&
      !(counts && shard_sets_count(w->sets, name, w->pending.begin, w->pending.end))) {
    shard_sets_add(w->sets, name, length);
  }
  w->counted = counts && w->pending.leaf;
  if (counts) {
    w->pending.count++;
    if (which == SHARD_WRITER_NAMES) {
      shard_facts_count(&w->facts, name, w->pending.begin, w->pending.end);
      /* If the number stands before the basename, the basename is the last name's. */
      w->header.duplicates += w->header.order == SHARD_ORDER_BASENAME &&
                              w->pending.end <= shard_codec_basename(name, length);
    }
  } else if (memchr(name, 0, length) || (rc = begin_pending(w, name, length)) != 0) {
    return rc ? rc : -EINVAL;
  }
  if ((which == SHARD_WRITER_NAMES && (rc = digest_name(w, name, length)) != 0) ||
      (sampled && (rc = put_sample(w, t->header->count, begins)) != 0)) {
    return rc;
  }
  uint64_t at = t->header->count++ % SHARD_BLOCK_NAMES;
  if (w->header.attributes != SHARD_ATTRIBUTES_STORED) {
    return 0;
  }
  w->attributes.ino[at] = ino;
  w->attributes.type[at] = type;
  return at + 1 == SHARD_BLOCK_NAMES ? end_attributes(w, SHARD_BLOCK_NAMES) : 0;
}

int shard_writer_dir(struct shard_writer *w, const struct shard_dir *id, const char *path) {
  size_t length = strlen(path);
  if (length >= SHARD_NAME_MAX) {
    return -ENAMETOOLONG;
  }
  int rc = bytes_add(&w->dirs, id, sizeof(*id));
  w->header.directories++;
  return rc ? rc : bytes_add(&w->dirs, path, length + 1);
}

int shard_writer_table(struct shard_writer *w, const char *format, const char *path) {
  int rc = bytes_add(&w->tables, format, strlen(format) + 1);
  return rc ? rc : bytes_add(&w->tables, path, strlen(path) + 1);
}

/* Begin a section, its offset rounded up to 8. */
static int begin_section(struct shard_writer *w, struct shard_section *s) {
  static const uint8_t zero[8];
  int rc = put_bytes(w, zero, (8 - get_position(w) % 8) % 8);
  *s = (struct shard_section){.offset = get_position(w)};
  return rc;
}

static int put_section(struct shard_writer *w, struct shard_section *s, const struct bytes *data) {
  int rc = begin_section(w, s);
  s->size = data->size;
  s->crc = shard_crc32c(0, data->data, data->size);
  return rc ? rc : put_bytes(w, data->data, data->size);
}

/* What copy_to_section() copies a spool's bytes to. */
struct section_copy {
  struct shard_writer *w;
  struct shard_section *section;
};

static int copy_to_section(void *context, const void *data, size_t size) {
  struct section_copy *c = context;
  c->section->size += size;
  c->section->crc = shard_crc32c(c->section->crc, data, size);
  return put_bytes(c->w, data, size);
}

/* Write a section of one spool, or of two. */
static int put_spools(struct shard_writer *w, struct shard_section *s, struct shard_spool *first,
                      struct shard_spool *second) {
  struct section_copy c = {w, s};
  int rc = begin_section(w, s);
  if (rc == 0) {
    rc = shard_spool_read(first, copy_to_section, &c);
  }
  if (rc == 0 && second) {
    rc = shard_spool_read(second, copy_to_section, &c);
  }
  return rc;
}

/* All names have come. */
static int end_samples(struct shard_writer *w) {
  struct shard_header *h = &w->header;
  uint64_t n = h->names.count;
  h->sets = w->sets && shard_sets_found(w->sets);
  h->samples = h->sample ? h->samples : n;
  int rc = h->sample && n > 0 ? end_sample_block(w, (n - 1) / SHARD_SAMPLE_FILES) : 0;
  return rc ? rc : put_spools(w, &h->sample_blocks, &w->samples, NULL);
}

static int end_table(struct shard_writer *w) {
  struct table_state *t = w->table;
  struct shard_table_header *h = t->header;
  int rc = end_pending(w);
  if (rc == 0) {
    rc = end_blocks(w);
  }
  h->names.size = get_position(w) - h->names.offset;
  if (rc == 0) {
    rc = add_to_index(&t->index, h->names.size, 0);
  }
  if (rc == 0) {
    rc = put_spools(w, &h->index, &t->index, NULL);
  }
  if (rc == 0) {
    rc = put_spools(w, &h->extent, &t->extents, &t->runs);
  }
  if (rc == 0 && w->header.attributes == SHARD_ATTRIBUTES_STORED) {
    uint32_t rest = (uint32_t)(h->count % SHARD_BLOCK_NAMES);
    rc = rest ? end_attributes(w, rest) : 0;
    if (rc == 0) {
      rc = add_to_index(&t->attribute_index, t->attributes.size, 0);
    }
    if (rc == 0) {
      rc = put_spools(w, &h->attributes, &t->attributes, NULL);
    }
    if (rc == 0) {
      rc = put_spools(w, &h->attribute_index, &t->attribute_index, NULL);
    }
  }
  if (t == &w->names) {
    w->table = &w->others;
    w->header.others.names.offset = get_position(w);
    w->last_length = 0;
  }
  return rc;
}

/* Write the dirs section. */
static int put_dirs(struct shard_writer *w, const struct shard_writer_facts *facts) {
  struct bytes dirs = {0};
  int rc = bytes_add(&dirs, facts->source, strlen(facts->source) + 1);
  rc = rc ? rc : bytes_add(&dirs, facts->options, strlen(facts->options) + 1);
  rc = rc ? rc : bytes_add(&dirs, w->dirs.data, w->dirs.size);
  rc = rc ? rc : put_section(w, &w->header.dirs, &dirs);
  rc = rc ? rc : put_section(w, &w->header.tables, &w->tables);
  rc = rc ? rc : end_samples(w);
  free(dirs.data);
  return rc;
}

/* ---- what the file system has made of it ---- */

/* Whether an open file has the header, and what was written behind it. buffer: of BUFFER_SIZE. */
static bool has_written(int fd, const struct shard_writer *w, uint8_t *buffer) {
  struct shard_header header;
  uint32_t sum = 0;
  off_t at = sizeof(header);
  ssize_t n = TEMP_FAILURE_RETRY(pread(fd, &header, sizeof(header), 0));
  if (n != (ssize_t)sizeof(header) || memcmp(&header, &w->header, sizeof(header)) != 0) {
    return false;
  }
  while ((n = TEMP_FAILURE_RETRY(pread(fd, buffer, BUFFER_SIZE, at))) > 0) {
    sum = shard_crc32c(sum, buffer, (size_t)n);
    at += n;
  }
  return n == 0 && at == w->written && sum == w->sum;
}

/* Some file systems that programs make do not keep what is written, and report no error: s3fs
 * ignores a ftruncate(), others lose what close() is to send. 0 or -EBADMSG; others of open(2). */
static int check_file(void *context, const char *file) {
  struct shard_writer *w = context;
  struct stat st;
  int fd = open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return -errno;
  }
  bool whole = fstat(fd, &st) == 0 && st.st_size == w->written && has_written(fd, w, w->buffer);
  close(fd);
  int rc = whole ? 0 : -EBADMSG;
  return rc == 0 && w->given->check ? w->given->check(w->given->context, file) : rc;
}

int shard_writer_commit(struct shard_writer *w, const struct shard_writer_facts *facts,
                        char *digest_hex, uint64_t *bytes) {
  struct shard_header *h = &w->header;
  int rc = w->table == &w->names ? end_table(w) : 0;
  if (rc == 0) {
    rc = end_table(w); /* the others */
  }
  if (rc != 0 || (rc = put_dirs(w, facts)) != 0 || (rc = flush_buffer(w)) != 0 ||
      (rc = end_digest(w)) != 0) {
    goto fail;
  }
  h->file_size = (uint64_t)w->written;
  shard_facts_end(&w->facts);
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
  rc = shard_spool_write_at(w->whole.fd, h, sizeof(*h), 0);
  if (rc != 0) {
    goto fail;
  }
  if (w->reserved > w->written) {
    /* Give back the space behind the end. The size is right already. */
    (void)!ftruncate(w->whole.fd, w->written);
  }
  w->given = facts;
  rc = shard_atomic_file_publish_checked(&w->whole, check_file, w);
  if (rc != 0) {
    goto fail;
  }
  shard_hex_print(digest_hex, h->digest, sizeof(h->digest));
  *bytes = h->file_size;
  free_writer(w);
  return 0;

fail:
  shard_writer_abort(w);
  return rc;
}
