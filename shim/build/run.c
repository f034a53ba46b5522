/* SPDX-License-Identifier: MIT */
#include "build/run.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "build/batch.h"
#include "listing/codec.h"

#define DATA_SIZE (SHARD_SEGMENT - sizeof(struct shard_segment))
#define READ_LEAST ((size_t)8 << 10)
#define MERGE_MORE ((size_t)4096) /* of a region: for alignment, and readable behind its end */
#define READ_MOST ((size_t)1 << 20)

static_assert(DATA_SIZE > SHARD_NAME_MAX + SHARD_RECORD_MORE, "a segment holds any record");

/* ---- coding ---- */

size_t shard_run_segments(size_t bytes, size_t count, size_t longest) {
  /* A segment wastes less than a record at its end; a length takes three bytes at most. */
  size_t room = DATA_SIZE - longest - SHARD_RECORD_MORE;
  return (bytes + count * 20) / room + 1;
}

void shard_run_put(struct shard_run_coder *c, const char *before, size_t before_length,
                   const char *name, size_t length, uint64_t ino, uint8_t type) {
  struct shard_segment *s = c->tail;
  if (!s || DATA_SIZE - s->used < length + SHARD_RECORD_MORE) {
    s = c->spare;
    c->spare = s->next;
    s->next = NULL;
    s->used = 0;
    if (c->tail) {
      c->tail->next = s;
    } else {
      c->run->segments = s;
    }
    c->tail = s;
  }
  size_t prefix = 0, suffix = 0;
  if (before) {
    shard_codec_shared(before, before_length, name, length, &prefix, &suffix);
  }
  uint8_t *begin = s->data + s->used, *p = begin;
  size_t middle = length - prefix - suffix;
  if (__builtin_expect((prefix | suffix | middle) < 0x80, 1)) {
    *p++ = (uint8_t)prefix;
    *p++ = (uint8_t)suffix;
    *p++ = (uint8_t)middle;
  } else {
    p += shard_codec_put_varint(p, prefix);
    p += shard_codec_put_varint(p, suffix);
    p += shard_codec_put_varint(p, middle);
  }
  if (__builtin_expect(middle <= 8, 1)) {
    memcpy(p, name + prefix, 8);
  } else {
    memcpy(p, name + prefix, middle);
  }
  p += middle;
  if (c->attributes) {
    uint64_t step = ino - c->ino;
    p += shard_codec_put_varint(p, step << 1 ^ -(step >> 63));
    *p++ = type;
    c->ino = ino;
  }
  s->used += (uint32_t)(p - begin);
  c->run->bytes += (uint64_t)(p - begin);
  if (length > c->run->longest) {
    c->run->longest = (uint32_t)length;
  }
}

int shard_run_save(const struct shard_run *run, int fd, off_t at) {
  const struct shard_segment *s = run->segments;
  size_t done = 0; /* bytes of s that are written */
  while (s) {
    struct iovec parts[64];
    int n = 0;
    for (const struct shard_segment *k = s; k && n < 64; k = k->next, n++) {
      size_t from = k == s ? done : 0;
      parts[n] = (struct iovec){(void *)(k->data + from), k->used - from};
    }
    ssize_t wrote = pwritev(fd, parts, n, at);
    if (wrote < 0 && errno != EINTR) {
      return -errno;
    }
    at += wrote > 0 ? wrote : 0;
    done += wrote > 0 ? (size_t)wrote : 0;
    while (s && done >= s->used) {
      done -= s->used;
      s = s->next;
    }
  }
  return 0;
}

/* ---- reading one back ---- */

struct input {
  _Alignas(16) const uint8_t *at; /* coded records at hand; aligned, as nodes lie behind inputs */
  const uint8_t *end;
  size_t need; /* if fewer bytes are at hand, read more first */
  char *name;  /* the name it is at */
  size_t length;
  uint64_t ino;
  uint8_t type;
  bool ended;
  /* A run in memory: */
  const struct shard_segment *next;
  /* A run on disk: */
  uint8_t *buffer; /* NULL: in memory */
  size_t room;
  off_t from, to; /* what is not read yet */
};

/* Bring more records to hand, from memory or disk. 0 or a negative errno. */
static int read_more(const struct shard_run_merge *m, struct input *in) {
  if (!in->buffer) {
    if (in->next) {
      in->at = in->next->data;
      in->end = in->at + in->next->used;
      in->next = in->next->next;
    }
    return 0;
  }
  size_t left = (size_t)(in->end - in->at);
  if (in->from < in->to) {
    memmove(in->buffer, in->at, left);
    in->at = in->buffer;
    in->end = in->buffer + left;
  }
  while (left < in->room && in->from < in->to) {
    size_t want = in->room - left;
    want = (off_t)want > in->to - in->from ? (size_t)(in->to - in->from) : want;
    ssize_t n = TEMP_FAILURE_RETRY(pread(m->fd, in->buffer + left, want, in->from));
    if (n <= 0) {
      return n < 0 ? -errno : -EBADMSG;
    }
    left += (size_t)n;
    in->from += n;
    in->end += n;
  }
  return 0;
}

/* Go to the next name, or to the end. */
static inline int step_input(const struct shard_run_merge *m, struct input *in) {
  if ((size_t)(in->end - in->at) < in->need) {
    int rc = read_more(m, in);
    if (rc != 0) {
      return rc;
    }
    if (in->at == in->end) {
      in->ended = true;
      return 0;
    }
  }
  const uint8_t *p = in->at, *end = in->end;
  uint32_t prefix, suffix, middle;
  __builtin_prefetch(p + 192);
  if (__builtin_expect(end - p >= 3 && (p[0] | p[1] | p[2]) < 0x80, 1)) {
    prefix = p[0];
    suffix = p[1];
    middle = p[2];
    p += 3;
  } else if (shard_codec_get_varint(&p, end, &prefix) != 0 ||
             shard_codec_get_varint(&p, end, &suffix) != 0 ||
             shard_codec_get_varint(&p, end, &middle) != 0) {
    return -EBADMSG;
  }
  if (middle > (size_t)(end - p) || prefix > in->length || suffix > in->length - prefix ||
      (uint64_t)prefix + suffix + middle >= SHARD_NAME_MAX) {
    return -EBADMSG;
  }
  size_t length = (size_t)prefix + middle + suffix;
  if (length != in->length) {
    memmove(in->name + prefix + middle, in->name + in->length - suffix, suffix);
    in->length = length;
  }
  if (__builtin_expect(middle < 8, 1)) {
    /* Eight bytes can be read and written; those behind the middle stay as they are. */
    uint64_t old, new, mask = ((uint64_t)1 << 8 * middle) - 1;
    memcpy(&old, in->name + prefix, 8);
    memcpy(&new, p, 8);
    new = (new &mask) | (old & ~mask);
    memcpy(in->name + prefix, &new, 8);
  } else {
    memcpy(in->name + prefix, p, middle);
  }
  p += middle;
  if (m->attributes) {
    uint64_t coded;
    if (shard_codec_get_varint64(&p, end, &coded) != 0 || p == end) {
      return -EBADMSG;
    }
    in->ino += coded >> 1 ^ -(coded & 1);
    in->type = *p++;
  }
  in->at = p;
  return 0;
}

/* ---- merging: a tree of losers (Knuth, TAOCP 3, 5.4.1) ---- */

typedef unsigned __int128 merge_key; /* 16 bytes of a name */

struct node {
  merge_key key;
  uint32_t input;
};

static inline merge_key make_key(const struct shard_run_merge *m, const struct input *in) {
  if (in->ended) {
    return ~(merge_key)0;
  }
  size_t from = m->common;
  from += m->order == SHARD_ORDER_BASENAME ? shard_codec_basename(in->name, in->length) : 0;
  return (merge_key)shard_batch_key(in->name, in->length, from) << 64 |
         shard_batch_key(in->name, in->length, from + sizeof(uint64_t));
}

/* Whether input a comes before input b, their keys being equal. */
static __attribute__((noinline)) bool
comes_before(const struct shard_run_merge *m, const struct input *inputs, uint32_t a, uint32_t b) {
  const struct input *x = &inputs[a], *y = &inputs[b];
  if (x->ended || y->ended) {
    return !x->ended;
  }
  int c = shard_codec_compare_names(m->order, x->name, x->length, y->name, y->length);
  return c ? c < 0 : a < b;
}

static inline bool is_first(const struct shard_run_merge *m, const struct input *inputs,
                            const struct node *a, const struct node *b) {
  return __builtin_expect(a->key == b->key, 0) ? comes_before(m, inputs, a->input, b->input)
                                               : a->key < b->key;
}

static size_t round_up(size_t size) { return (size + 63) & ~(size_t)63; }

/* Bytes for an input's name, eight bytes behind it included. */
static size_t name_room(const struct shard_run *run) { return round_up((size_t)run->longest + 8); }

/* Bytes of the region that an input needs without its buffer. */
static size_t input_size(const struct shard_run *run) {
  return sizeof(struct input) + 3 * sizeof(struct node) + name_room(run);
}

/* Bytes that its buffer needs at least. */
static size_t buffer_least(const struct shard_run *run) {
  size_t record = round_up(run->longest + SHARD_RECORD_MORE);
  return run->segments ? 0 : record > READ_LEAST ? record : READ_LEAST;
}

size_t shard_run_fit(const struct shard_run_merge *m, const struct shard_run *runs, size_t count) {
  size_t used = MERGE_MORE;
  for (size_t i = 0; i < count; i++) {
    used += input_size(&runs[i]) + buffer_least(&runs[i]);
    if (used > m->size) {
      return i;
    }
  }
  return count;
}

/* Open the inputs, each at its first name. */
static int open_inputs(const struct shard_run_merge *m, const struct shard_run *runs, size_t count,
                       struct input *inputs, char *at) {
  size_t on_disk = 0, least = 0, owned = 0;
  for (size_t i = 0; i < count; i++) {
    on_disk += !runs[i].segments;
    least += buffer_least(&runs[i]);
    owned += input_size(&runs[i]);
  }
  size_t spare = on_disk ? (m->size - MERGE_MORE - owned - least) / on_disk : 0;
  int rc = 0;
  for (size_t i = 0; i < count && rc == 0; i++) {
    const struct shard_run *run = &runs[i];
    struct input *in = &inputs[i];
    *in = (struct input){.need = 1, .name = at, .next = run->segments};
    at += name_room(run);
    if (!run->segments) {
      in->room = buffer_least(run) + spare;
      in->room = (in->room > READ_MOST ? READ_MOST : in->room) / 64 * 64;
      in->need = run->longest + SHARD_RECORD_MORE;
      in->buffer = (uint8_t *)at;
      in->at = in->end = in->buffer;
      in->from = run->begin;
      in->to = run->end;
      at += in->room;
    }
    rc = step_input(m, in);
  }
  return rc;
}

/* Let the inputs play. Returns the winner's node; tree[1] to tree[count - 1] get each match's
 * loser.
 */
static struct node play_all(const struct shard_run_merge *m, const struct input *inputs,
                            size_t count, struct node *tree, struct node *winners) {
  for (size_t i = 0; i < count; i++) {
    winners[count + i] = (struct node){make_key(m, &inputs[i]), (uint32_t)i};
  }
  for (size_t i = count - 1; i > 0; i--) {
    const struct node *a = &winners[2 * i], *b = &winners[2 * i + 1];
    bool first = is_first(m, inputs, a, b);
    winners[i] = first ? *a : *b;
    tree[i] = first ? *b : *a;
  }
  return winners[1];
}

/* The least key of the losers from match i up. */
static merge_key find_least(const struct node *tree, size_t i) {
  merge_key least = ~(merge_key)0;
  for (; i > 0; i /= 2) {
    least = tree[i].key < least ? tree[i].key : least;
  }
  return least;
}

int shard_run_merge(struct shard_run_merge *m, const struct shard_run *runs, size_t count,
                    shard_run_emit *emit, void *context) {
  if (count == 0) {
    return 0;
  }
  struct input *inputs = (struct input *)m->region;
  struct node *tree = (struct node *)(inputs + count), *winners = tree + count;
  size_t used = round_up((size_t)((char *)(winners + 2 * count) - m->region));
  int rc = open_inputs(m, runs, count, inputs, m->region + used);
  if (rc != 0) {
    m->unreadable = true;
    return rc;
  }
  uint32_t last = UINT32_MAX;
  for (struct node now = play_all(m, inputs, count, tree, winners);;) {
    struct input *in = &inputs[now.input];
    if (in->ended) {
      return 0;
    }
    /* An input that has won twice probably wins again, as the names of a directory lie together. So
     * emit its names without a match as long as their keys are below all losers' on its way. */
    merge_key limit = now.input == last ? find_least(tree, (now.input + count) / 2) : 0;
    last = now.input;
    do {
      rc = emit(context, in->name, in->length, in->ino, in->type);
      if (rc != 0) {
        return rc;
      }
      rc = step_input(m, in);
      if (rc != 0) {
        m->unreadable = true;
        return rc;
      }
      now.key = make_key(m, in);
    } while (now.key < limit);
    for (size_t i = (now.input + count) / 2; i > 0; i /= 2) {
      struct node other = tree[i];
      /* No branch: it could not be predicted. */
      merge_key swap = 0 - (merge_key)is_first(m, inputs, &other, &now);
      merge_key keys = (other.key ^ now.key) & swap;
      uint32_t numbers = (other.input ^ now.input) & (uint32_t)swap;
      tree[i] = (struct node){other.key ^ keys, other.input ^ numbers};
      now = (struct node){now.key ^ keys, now.input ^ numbers};
    }
  }
}
