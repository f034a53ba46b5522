/* SPDX-License-Identifier: MIT */
#include "build/facts.h"

#include <string.h>

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

static uint32_t count_slashes(const char *p, size_t size) {
  uint32_t n = 0;
  for (const char *end = p + size; (p = memchr(p, '/', (size_t)(end - p))); p++) {
    n++;
  }
  return n;
}

/*
 * Only the middle brings new bytes and slashes: those of prefix and suffix were counted with the
 * last name.
 */
void shard_facts_add(struct shard_facts *f, const char *last, size_t last_length, const char *name,
                     size_t length, size_t prefix, size_t suffix) {
  struct shard_header *h = f->header;
  uint32_t depth = f->depth;
  size_t middle = length - suffix - prefix;
  uint8_t high = 0;
  for (size_t i = prefix; i < prefix + middle; i++) {
    f->seen[(uint8_t)name[i]] = 1;
    high |= (uint8_t)name[i];
  }
  f->high |= high >= 0x80;
  depth -= count_slashes(last + prefix, last_length - suffix - prefix);
  depth += count_slashes(name + prefix, middle);
  f->depth = depth;
  /* A component may begin where the middle ends. */
  const char *dot = name + prefix, *end = name + prefix + middle + (suffix > 0);
  while (!h->dotted && (dot = memchr(dot, '.', (size_t)(end - dot)))) {
    h->dotted = dot == name || dot[-1] == '/';
    dot++;
  }
  /* The middle may begin or end inside a character, so the whole name is checked. */
  if (f->high && h->utf8 && !is_utf8((const uint8_t *)name, length)) {
    h->utf8 = 0;
  }
  if (length > h->longest) {
    h->longest = (uint32_t)length;
  }
  if (h->names.count == 0) {
    h->min_depth = h->max_depth = depth;
    f->suffix_length = length < sizeof(h->suffix) ? length : sizeof(h->suffix) - 1;
    memcpy(h->suffix, name + length - f->suffix_length, f->suffix_length);
  } else {
    if (depth < h->min_depth) {
      h->min_depth = depth;
    }
    if (depth > h->max_depth) {
      h->max_depth = depth;
    }
    size_t keep = 0;
    while (keep < f->suffix_length && keep < length &&
           h->suffix[f->suffix_length - 1 - keep] == name[length - 1 - keep]) {
      keep++;
    }
    if (keep < f->suffix_length) {
      memmove(h->suffix, h->suffix + f->suffix_length - keep, keep);
      memset(h->suffix + keep, 0, sizeof(h->suffix) - keep);
      f->suffix_length = keep;
    }
  }
}

void shard_facts_count(struct shard_facts *f, const char *name, size_t begin, size_t end) {
  for (size_t i = end; i > begin; i--) {
    uint8_t c = (uint8_t)name[i - 1];
    f->seen[c] = 1;
    if (c != '0') {
      break; /* no carry further on */
    }
  }
}

void shard_facts_end(struct shard_facts *f) {
  for (size_t c = 0; c < sizeof(f->seen); c++) {
    f->header->bytes_used[c / 8] |= (uint8_t)(f->seen[c] << (c % 8));
  }
}
