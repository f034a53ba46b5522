/* SPDX-License-Identifier: MIT */
/*
 * names.h - lists of names for the tests of listings, and a listing file made of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "build/writer.h"
#include "libshard.h"
#include "unit.h"

struct names {
  char **v;
  size_t count, room;
};

static inline void names_add(struct names *s, const char *name, size_t length) {
  if (s->count == s->room) {
    s->room = s->room ? 2 * s->room : 64;
    s->v = realloc(s->v, s->room * sizeof(*s->v));
    assert_non_null(s->v);
  }
  s->v[s->count] = malloc(length + 1);
  assert_non_null(s->v[s->count]);
  memcpy(s->v[s->count], name, length);
  s->v[s->count++][length] = 0;
}

static inline void names_free(struct names *s) {
  for (size_t i = 0; i < s->count; i++) {
    free(s->v[i]);
  }
  free(s->v);
  *s = (struct names){0};
}

static inline const char *names_base(const char *name) {
  const char *slash = strrchr(name, '/');
  return slash ? slash + 1 : name;
}

/* strcmp compares unsigned bytes, and no name holds a NUL: an oracle of few lines. */
static inline int names_by_path(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline int names_by_basename(const void *a, const void *b) {
  int c = strcmp(names_base(*(char *const *)a), names_base(*(char *const *)b));
  return c ? c : names_by_path(a, b);
}

/* Sort, and drop what occurs twice. */
static inline void names_sort(struct names *s, int order) {
  if (s->count == 0) {
    return;
  }
  qsort(s->v, s->count, sizeof(*s->v), order ? names_by_basename : names_by_path);
  size_t k = 1;
  for (size_t i = 1; i < s->count; i++) {
    if (strcmp(s->v[i], s->v[k - 1]) == 0) {
      free(s->v[i]);
    } else {
      s->v[k++] = s->v[i];
    }
  }
  s->count = k;
}

static inline void names_numbered(struct names *s, size_t n) {
  char text[64];
  for (size_t i = 0; i < n; i++) {
    names_add(s, text, (size_t)snprintf(text, sizeof(text), "img_%07zu_of_%zu.jpeg", i, n));
  }
}

/* n names with a number of `width` digits from `first` on, between two texts. */
static inline void names_run(struct names *s, const char *before, int width, uint64_t first,
                             size_t n, const char *after) {
  char text[128];
  for (size_t i = 0; i < n; i++) {
    names_add(s, text,
              (size_t)snprintf(text, sizeof(text), "%s%0*llu%s", before, width,
                               (unsigned long long)(first + i), after));
  }
}

/* Any byte but NUL, in components of 1 to 255 bytes, up to four deep. */
static inline void names_odd(struct names *s, size_t n, uint64_t seed) {
  char text[4 * 256];
  while (s->count < n) {
    size_t k = 0, depth = unit_random(&seed) % 4;
    for (size_t d = 0; d <= depth; d++) {
      size_t length = unit_random(&seed) % 8 ? 1 + unit_random(&seed) % 5 : 255;
      for (size_t i = 0; i < length; i++) {
        /* few different bytes in short names, so that names share much */
        char c = length < 6 ? "ab.\n\xc3\xa9\xff\x01"[unit_random(&seed) % 8]
                            : (char)(1 + unit_random(&seed) % 255);
        text[k++] = c == '/' ? '_' : c;
      }
      text[k++] = '/';
    }
    names_add(s, text, k - 1);
  }
}

/* Runs of consecutive numbers, long and short, with gaps, and other names between them. */
static inline void names_runs(struct names *s) {
  names_run(s, "a", 4, 0, 300, "");                        /* to the end of the name */
  names_run(s, "a", 4, 301, 127, "");                      /* one too few for a run, maybe */
  names_run(s, "b/", 3, 872, 128, ".x");                   /* to 999 */
  names_run(s, "b/", 4, 1000, 130, ".x");                  /* and a digit more */
  names_run(s, "c", 18, 999999999999999800, 200, "z");     /* as wide as can be */
  names_run(s, "d", 20, 9999999999999999000ULL, 1500, ""); /* wider: carries past 18 digits */
  names_run(s, "e", 3, 0, 1000, "0.y");                    /* a digit behind the number */
  names_run(s, "e", 1, 0, 10, "-");
  names_run(s, "", 5, 99000, 500, "");          /* nothing but digits */
  names_run(s, "n", 3, 100, 250, "/same/name"); /* in the path: basenames are equal */
  names_run(s, "n", 3, 100, 250, "/other");
  names_run(s, "no", 1, 5, 4000, ".w"); /* of growing width: not in the order of numbers */
  names_odd(s, s->count + 150, 11);
  uint64_t seed = 5;
  for (uint64_t i = 0; i < 5000; i++) {
    if (unit_random(&seed) % 100) {
      names_run(s, "gaps/img_", 7, 1234500 + i, 1, "_of_9999999.jpeg");
    }
  }
}

/* From one byte to SHARD_NAME_MAX - 1, in components of 255 bytes. */
static inline void names_long(struct names *s) {
  static char text[SHARD_NAME_MAX];
  for (size_t length = SHARD_NAME_MAX - 1, k = 0; length > 0; length /= 2, k++) {
    memset(text, 'a' + (int)k % 3, length);
    for (size_t i = 255; i < length - 1; i += 256) {
      text[i] = '/';
    }
    names_add(s, text, length);
  }
}

/* The "others" that belong to a list: names that differ from all of it. */
static inline void names_others(const struct names *s, int order, struct names *others) {
  static char text[SHARD_NAME_MAX + 2];
  for (size_t i = 0; i < s->count; i += 3) {
    size_t n = strlen(s->v[i]);
    if (n + 2 < SHARD_NAME_MAX) {
      memcpy(text, s->v[i], n);
      strcpy(text + n, i % 2 ? "/o" : "\xff");
      names_add(others, text, strlen(text));
    }
  }
  names_sort(others, order);
}

/* Attributes of the i-th name of a table: runs, jumps, and the largest differences there are. */
static inline uint64_t names_ino(size_t i) {
  static const uint64_t odd[] = {0, UINT64_MAX, 1, 1ULL << 63, (1ULL << 63) - 1, UINT64_MAX, 0};
  uint64_t seed = i + 1;
  return i / 50 % 3 == 0   ? 5000 + 3 * i
         : i / 50 % 3 == 1 ? unit_random(&seed)
                           : odd[i % COUNT(odd)];
}

static inline uint8_t names_type(size_t i) {
  return (uint8_t)(i / 100 % 2 == 0 ? 8 : i % 7 < 3 ? 10 : i * 37 % 256);
}

static enum shard_sample names_sample __attribute__((unused)); /* the rule of listings to come */

/* A listing with attributes, and names_others(); or without both. */
static inline int names_write_as(const struct names *s, int order, bool attributes,
                                 const char *file, char *digest, uint64_t *bytes) {
  struct shard_writer *w;
  struct names others = {0};
  int rc = shard_writer_open(file, (uint32_t)order,
                             attributes ? SHARD_ATTRIBUTES_STORED : SHARD_ATTRIBUTES_NONE,
                             names_sample, &w);
  for (size_t i = 0; rc == 0 && i < s->count; i++) {
    rc = shard_writer_put(w, SHARD_WRITER_NAMES, s->v[i], strlen(s->v[i]),
                          attributes ? names_ino(i) : 0, attributes ? names_type(i) : 0);
    if (rc != 0) {
      shard_writer_abort(w);
    }
  }
  if (attributes) {
    names_others(s, order, &others);
  }
  for (size_t i = 0; rc == 0 && i < others.count; i++) {
    rc = shard_writer_put(w, SHARD_WRITER_OTHERS, others.v[i], strlen(others.v[i]),
                          names_ino(i + 1000), names_type(i + 1000));
    if (rc != 0) {
      shard_writer_abort(w);
    }
  }
  names_free(&others);
  if (rc == 0) {
    rc = shard_writer_dir(w, &(struct shard_dir){2, 3, 4, 5, 6, 7}, "");
    assert_int_equal(rc, 0);
    rc = shard_writer_dir(w, &(struct shard_dir){6, 7, 8, 9, 10, 11}, "sub");
    assert_int_equal(rc, 0);
    struct shard_writer_facts facts = {
        .source = "/source", .options = "order=path", .dirs_hidden = 11, .dir_links = 12};
    rc = shard_writer_commit(w, &facts, digest, bytes);
  }
  return rc;
}

static inline int names_write(const struct names *s, int order, const char *file, char *digest,
                              uint64_t *bytes) {
  return names_write_as(s, order, true, file, digest, bytes);
}
