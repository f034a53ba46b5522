/* SPDX-License-Identifier: MIT */
#include "listing/options.h"

#include <errno.h>
#include <fnmatch.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/size.h"
#include "base/words.h"
#include "listing/codec.h"

/* Replace %XX, as a word cannot have blanks, by the bytes they stand for. */
static int unescape(char *to, size_t size, const char *from, size_t n) {
  size_t k = 0;
  for (size_t i = 0; i < n; i++, k++) {
    if (k + 1 >= size) {
      return -1;
    }
    to[k] = from[i];
    if (from[i] == '%') {
      int high = i + 2 < n ? shard_hex_digit(from[i + 1]) : -1;
      int low = high < 0 ? -1 : shard_hex_digit(from[i + 2]);
      if (low < 0 || (high == 0 && low == 0)) {
        return -1;
      }
      to[k] = (char)(high * 16 + low);
      i += 2;
    }
  }
  to[k] = 0;
  return 0;
}

static int parse_number(const char *value, size_t n, uint32_t max, uint32_t *out) {
  char text[16] = "";
  uint64_t number;
  if (n >= sizeof(text) || !shard_number_parse(memcpy(text, value, n), 0, max, &number)) {
    return -1;
  }
  *out = (uint32_t)number;
  return 0;
}

bool shard_options_parse_order(struct shard_options *o, const char *word, size_t length) {
  for (unsigned i = 0; shard_words_orders[i]; i++) {
    if (i != SHARD_ORDER_KEEP && i != SHARD_ORDER_SAMPLE &&
        strlen(shard_words_orders[i]) == length &&
        memcmp(shard_words_orders[i], word, length) == 0) {
      o->order = i;
      return true;
    }
  }
  return false;
}

void shard_options_set_sample(struct shard_options *o, enum shard_sample sample) {
  o->sample = sample;
  o->order = o->sample ? (uint32_t)SHARD_ORDER_SAMPLE : o->order;
}

static int parse_sample(struct shard_options *o, const char *word, size_t length) {
  char text[16] = "";
  int place = length < sizeof(text)
                  ? shard_words_find(shard_words_samples, memcpy(text, word, length))
                  : -1;
  o->sample = place < 0 ? SHARD_SAMPLE_FILE : (enum shard_sample)place;
  return place < 0 ? -1 : 0;
}

static int set_option(struct shard_options *o, const char *word, size_t n) {
  const char *eq = memchr(word, '=', n);
  if (!eq) {
    return -1;
  }
  size_t key = (size_t)(eq - word), length = n - key - 1;
  const char *value = eq + 1;
  uint32_t flag;
#define IS(s) (key == sizeof(s) - 1 && memcmp(word, s, key) == 0)
  if (IS("order")) {
    return shard_options_parse_order(o, value, length) ? 0 : -1;
  }
  if (IS("sample")) {
    return parse_sample(o, value, length);
  }
  if (IS("depth")) {
    return parse_number(value, length, 1u << 20, &o->depth);
  }
  if (IS("exact")) {
    return parse_number(value, length, 1u << 20, &o->exact);
  }
  if (IS("include")) {
    return unescape(o->include, sizeof(o->include), value, length);
  }
  bool *to = IS("hidden")       ? &o->hidden
             : IS("follow")     ? &o->follow
             : IS("attributes") ? &o->attributes
                                : NULL;
  if (to && parse_number(value, length, 1, &flag) == 0) {
    *to = flag;
    return 0;
  }
#undef IS
  return -1;
}

int shard_options_parse(struct shard_options *o, const char *text, char *err, size_t size) {
  *o = (struct shard_options){.hidden = true};
  while (*(text += strspn(text, " \t"))) {
    size_t n = strcspn(text, " \t");
    if (set_option(o, text, n) != 0) {
      snprintf(err, size, "listing option '%.*s' is not known or has a bad value", (int)n, text);
      return -EINVAL;
    }
    text += n;
  }
  if (o->sample && o->order != SHARD_ORDER_PATH) {
    snprintf(err, size, "listing option 'sample=%s' needs order=path",
             shard_words_at(shard_words_samples, o->sample));
    return -EINVAL;
  }
  shard_options_set_sample(o, o->sample);
  if (o->follow && o->depth == 0) {
    snprintf(err, size, "listing option 'follow=1' needs 'depth=N': links can form cycles");
    return -EINVAL;
  }
  return 0;
}

void shard_options_format(const struct shard_options *o, char *buf, size_t size) {
  char sample[24] = "";
  if (o->sample) {
    snprintf(sample, sizeof(sample), " sample=%s", shard_words_at(shard_words_samples, o->sample));
  }
  int n = snprintf(
      buf, size, "order=%s depth=%u exact=%u hidden=%d follow=%d attributes=%d%s include=",
      shard_words_at(shard_words_orders, o->sample ? (uint32_t)SHARD_ORDER_PATH : o->order),
      o->depth, o->exact, o->hidden, o->follow, o->attributes, sample);
  size_t k = n < 0 ? 0 : (size_t)n;
  for (const char *p = o->include; *p && k + 4 < size; p++) {
    if (*p == '%' || *p == ' ' || *p == '\t') {
      k += (size_t)sprintf(buf + k, "%%%02x", (unsigned char)*p);
    } else {
      buf[k++] = *p;
    }
  }
  if (k < size) {
    buf[k] = 0;
  }
}

/* Bytes of the first of these patterns. It ends at a ':', but not at one of a [[:class:]]. */
static size_t measure_pattern(const char *p) {
  size_t n = strcspn(p, ":");
  while (n > 0 && p[n] && p[n - 1] == '[') {
    size_t end = n + 1 + strspn(p + n + 1, "abcdefghijklmnopqrstuvwxyz");
    if (strncmp(p + end, ":]", 2) != 0) {
      break;
    }
    n = end + 2;
    n += strcspn(p + n, ":");
  }
  return n;
}

/* Match pattern[n]. "*literal", by far the most common, is spared fnmatch's cost. */
static bool match_pattern(const char *pattern, size_t n, const char *name, size_t length) {
  if (n > 0 && pattern[0] == '*' && strcspn(pattern + 1, "*?[\\:") >= n - 1) {
    return length >= n - 1 && memcmp(name + length - (n - 1), pattern + 1, n - 1) == 0;
  }
  char copy[1024];
  memcpy(copy, pattern, n);
  copy[n] = 0;
  /* Match by bytes, whatever the host's locale: shardctl and every rank must agree. */
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* glibc's own object: nothing to free */
  locale_t before = c ? uselocale(c) : (locale_t)0;
  bool match = fnmatch(copy, name, 0) == 0;
  if (c) {
    uselocale(before);
  }
  return match;
}

bool shard_options_match(const struct shard_options *o, const char *name, size_t length) {
  if (!o->include[0]) {
    return true;
  }
  for (const char *p = o->include; *p;) {
    size_t n = measure_pattern(p);
    if (match_pattern(p, n, name, length)) {
      return true;
    }
    p += n + (p[n] == ':');
  }
  return false;
}

bool shard_options_match_path(const struct shard_options *o, const char *path, size_t length) {
  const char *slash = memrchr(path, '/', length), *base = slash ? slash + 1 : path;
  return shard_options_match(o, base, length - (size_t)(base - path));
}
