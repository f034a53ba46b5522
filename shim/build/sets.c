/* SPDX-License-Identifier: MIT */
#include "build/sets.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libshard.h"
#include "listing/samples.h"

#define ENDINGS 16
#define LENGTH 48 /* bytes of a longer ending: it is not one of few */

struct shard_sets {
  bool many; /* endings: the rest is of no use */
  size_t count;
  struct {
    size_t length;
    char text[LENGTH];
  } endings[ENDINGS];
  uint64_t files, together, stems; /* together: of stems with two endings or more */
  uint64_t alike[1 << ENDINGS];    /* stems that have these endings */
  unsigned mask, here;             /* of the last stem, and its files */
  bool dotted;                     /* the last name had an ending */
  size_t length;
  char stem[SHARD_NAME_MAX];
};

struct shard_sets *shard_sets_new(void) {
  return calloc(1, sizeof(struct shard_sets));
}

/* The number of an ending; ENDINGS: there are more. */
static size_t find_ending(struct shard_sets *s, const char *text, size_t length) {
  size_t i = 0;
  while (i < s->count &&
         (s->endings[i].length != length || memcmp(s->endings[i].text, text, length) != 0)) {
    i++;
  }
  if (i == s->count && i < ENDINGS && length < LENGTH) {
    s->endings[i].length = length;
    memcpy(s->endings[i].text, text, length);
    s->count++;
  }
  return length < LENGTH ? i : ENDINGS;
}

static void end_stem(struct shard_sets *s) {
  bool several = s->mask & (s->mask - 1);
  s->stems += s->mask != 0;
  s->together += several ? s->here : 0;
  s->alike[s->mask] += several;
  s->mask = s->here = 0;
}

void shard_sets_add(struct shard_sets *s, const char *name, size_t length) {
  if (s->many) {
    return;
  }
  size_t n = shard_sample_name(SHARD_SAMPLE_STEM, name, length);
  s->files++;
  s->dotted = n < length;
  if (!s->dotted) {
    return;
  }
  if (n != s->length || memcmp(name, s->stem, n) != 0) {
    end_stem(s);
    memcpy(s->stem, name, n);
    s->length = n;
  }
  size_t ending = find_ending(s, name + n, length - n);
  s->many = ending == ENDINGS;
  s->mask |= s->many ? 0 : 1U << ending;
  s->here++;
}

bool shard_sets_count(struct shard_sets *s, const char *name, size_t begin, size_t end) {
  unsigned ending = s->mask;
  if (s->many || !s->dotted || end > s->length || (ending & (ending - 1))) {
    return s->many;
  }
  end_stem(s);
  memcpy(s->stem + begin, name + begin, end - begin);
  s->files++;
  s->mask = ending;
  s->here = 1;
  return true;
}

bool shard_sets_found(struct shard_sets *s) {
  uint64_t most = 0;
  end_stem(s);
  for (size_t i = 0; i < 1 << ENDINGS; i++) {
    most = s->alike[i] > most ? s->alike[i] : most;
  }
  return !s->many && s->stems > 1 && most > s->stems / 2 &&
         s->together + s->files / 10 + 1 >= s->files;
}
