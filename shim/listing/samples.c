/* SPDX-License-Identifier: MIT */
#include "listing/samples.h"

#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "listing/codec.h"
#include "listing/listing.h"

size_t shard_sample_name(enum shard_sample rule, const char *name, size_t length) {
  size_t base = shard_codec_basename(name, length);
  const char *dot = rule == SHARD_SAMPLE_STEM && length - base > 1
                        ? memchr(name + base + 1, '.', length - base - 1)
                        : NULL;
  return dot ? (size_t)(dot - name) : rule == SHARD_SAMPLE_DIRECTORY ? base : length;
}

bool shard_sample_same(enum shard_sample rule, const char *a, size_t na, const char *b, size_t nb) {
  size_t n = rule == SHARD_SAMPLE_FILE ? nb : shard_sample_name(rule, b, nb);
  if (rule == SHARD_SAMPLE_DIRECTORY) {
    return na > n && memcmp(a, b, n) == 0 && !memchr(a + n, '/', na - n);
  }
  /* With the dot: then it is a's first one, too, and none follows a slash. */
  return n < nb && na > n && memcmp(a, b, n + 1) == 0 && !memchr(a + n, '/', na - n);
}

uint64_t shard_listing_samples(const struct shard_listing *l) {
  return l->samples ? l->header->samples : l->names.count;
}

static int read_block(const struct shard_listing *l, uint64_t k, struct shard_sample_block *out) {
  memcpy(out, l->samples + k * sizeof(*out), sizeof(*out));
  uint32_t crc = shard_crc32c(SHARD_SEED_SAMPLES + l->header->salt + (uint32_t)k, out,
                              offsetof(struct shard_sample_block, crc));
  return shard_listing_sum_fits(crc, out->crc) ? 0 : -EBADMSG;
}

int64_t shard_listing_sample(const struct shard_listing *l, uint64_t i) {
  struct shard_sample_cursor c = {.end = 0};
  return shard_listing_sample_near(l, i, &c);
}

int64_t shard_listing_sample_near(const struct shard_listing *l, uint64_t i,
                                  struct shard_sample_cursor *c) {
  const struct shard_sample_block *b = &c->block;
  if (!l->samples) {
    return (int64_t)i;
  }
  if (i < c->begin || i >= c->end) {
    uint64_t k = i / SHARD_SAMPLE_FILES;
    c->end = 0;
    if (i >= l->names.count || read_block(l, k, &c->block) != 0) {
      return -EBADMSG;
    }
    c->begin = k * SHARD_SAMPLE_FILES;
    c->end = c->begin + SHARD_SAMPLE_FILES;
  }
  uint64_t begun = b->before, last = i % SHARD_SAMPLE_FILES;
  for (uint64_t w = 0; w < last / 64; w++) {
    begun += (uint64_t)__builtin_popcountll(b->bits[w]);
  }
  begun += (uint64_t)__builtin_popcountll(b->bits[last / 64] << (63 - last % 64));
  return begun > 0 && begun <= l->header->samples ? (int64_t)begun - 1 : -EBADMSG;
}

/* How many samples begin before block k. It is not checked: the block that is found is. */
static uint64_t count_before(const struct shard_listing *l, uint64_t k) {
  uint64_t before;
  memcpy(&before, l->samples + k * sizeof(struct shard_sample_block), sizeof(before));
  return before;
}

int64_t shard_listing_sample_begin(const struct shard_listing *l, uint64_t k) {
  struct shard_sample_block b;
  uint64_t low = 0, high = l->header->sample_blocks.size / sizeof(b);
  if (!l->samples || k == l->header->samples) {
    return (int64_t)(l->samples ? l->names.count : k);
  }
  while (high - low > 1) {
    uint64_t mid = low + (high - low) / 2;
    if (count_before(l, mid) <= k) {
      low = mid;
    } else {
      high = mid;
    }
  }
  if (high == 0 || read_block(l, low, &b) != 0 || b.before > k) {
    return -EBADMSG;
  }
  uint64_t left = k - b.before;
  for (uint64_t w = 0; w < SHARD_SAMPLE_FILES / 64; w++) {
    uint64_t bits = b.bits[w], here = (uint64_t)__builtin_popcountll(bits);
    for (; here > left && left > 0; left--) {
      bits &= bits - 1;
    }
    if (here > left && bits) {
      uint64_t at = low * SHARD_SAMPLE_FILES + w * 64 + (uint64_t)__builtin_ctzll(bits);
      return at < l->names.count ? (int64_t)at : -EBADMSG;
    }
    left -= here;
  }
  return -EBADMSG;
}
