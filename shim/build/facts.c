/* SPDX-License-Identifier: MIT */
#include "build/facts.h"

#include <string.h>

#include "base/utf8.h"

/* Well-formed UTF-8 as Python decodes it. Nothing need end the name. */
static bool is_utf8(const char *name, size_t length) {
  for (size_t i = 0, n = 1; i < length; i += n) {
    char part[5] = "";
    if ((uint8_t)name[i] < 0x80) {
      n = 1;
      continue;
    }
    memcpy(part, name + i, length - i < 4 ? length - i : 4);
    n = shard_utf8_character(part);
    if (n == 0) {
      return false;
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
  if (f->high && h->utf8 && !is_utf8(name, length)) {
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
