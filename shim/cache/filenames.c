/* SPDX-License-Identifier: MIT */
#include "cache/filenames.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define KEY_DIGITS ((size_t)SHARD_CACHE_KEY - 1)
#define ID_DIGITS ((size_t)16)

enum number { NONE, ID, PID };

/* A name is KEY, `begin`, a number, `end`; of the last two, and their lock, perm-KEY. */
static const struct form {
  const char *begin;
  const char *end; /* NULL: anything may follow; "." : a dot and more */
  enum shard_cache_kind kind;
  enum number number;
} forms[] = {
    {".lock", "", SHARD_CACHE_LOCK, NONE},
    {".new.", NULL, SHARD_CACHE_NEW, PID},
    {"-", ".listing", SHARD_CACHE_LISTING, ID},
    {".current", "", SHARD_CACHE_CURRENT, NONE},
    {".current.new.", "", SHARD_CACHE_CURRENT_NEW, PID},
    {".job-", "", SHARD_CACHE_JOB, ID},
    {".got-", ".", SHARD_CACHE_OBJECT, ID},
    {".perm", "", SHARD_CACHE_PERMUTATION, NONE},
    {".perm.tmp.", "", SHARD_CACHE_PERMUTATION_NEW, PID},
};

size_t shard_cache_name_print(enum shard_cache_kind kind, const char *key, uint64_t number,
                              char name[SHARD_CACHE_NAME]) {
  const struct form *f = forms;
  while (f->kind != kind) {
    f++;
  }
  int n = f->number == NONE
              ? snprintf(name, SHARD_CACHE_NAME, "%s%s", key, f->begin)
              : snprintf(name, SHARD_CACHE_NAME, f->number == ID ? "%s%s%016llx%s" : "%s%s%llu%s",
                         key, f->begin, (unsigned long long)number,
                         kind == SHARD_CACHE_NEW               ? ".listing"
                         : !f->end || strcmp(f->end, ".") == 0 ? ""
                                                               : f->end);
  return n < 0 ? 0 : (size_t)n;
}

/* Whether the rest of a name, behind its KEY, is of this form. *used: up to its end. */
static bool has_form(const struct form *f, const char *rest, size_t *used) {
  static const char digits[] = "0123456789abcdef";
  size_t n = strlen(f->begin);
  if (strncmp(rest, f->begin, n) != 0) {
    return false;
  }
  size_t k = f->number == ID    ? strspn(rest + n, digits)
             : f->number == PID ? strspn(rest + n, "0123456789")
                                : 0;
  k = f->number == ID && k > ID_DIGITS ? ID_DIGITS : k;
  if ((f->number == ID && k < ID_DIGITS) || (f->number == PID && k == 0)) {
    return false;
  }
  *used = n + k;
  const char *tail = rest + n + k;
  return !f->end || (strcmp(f->end, ".") == 0 ? tail[0] == '.' : strcmp(tail, f->end) == 0);
}

enum shard_cache_kind shard_cache_name_parse(const char *name, size_t *group, size_t *base) {
  bool permutation = strncmp(name, SHARD_CACHE_PERM, strlen(SHARD_CACHE_PERM)) == 0;
  size_t begin = permutation ? strlen(SHARD_CACHE_PERM) : 0, used = 0;
  if (strspn(name + begin, "0123456789abcdef") < KEY_DIGITS) {
    return SHARD_CACHE_FOREIGN;
  }
  for (const struct form *f = forms; f < forms + sizeof(forms) / sizeof(forms[0]); f++) {
    bool fits = f->kind == SHARD_CACHE_LOCK || (f->kind >= SHARD_CACHE_PERMUTATION) == permutation;
    if (fits && has_form(f, name + begin + KEY_DIGITS, &used)) {
      if (group) {
        *group = begin + KEY_DIGITS;
      }
      if (base) {
        *base = begin + KEY_DIGITS + used;
      }
      return f->kind;
    }
  }
  return SHARD_CACHE_FOREIGN;
}
