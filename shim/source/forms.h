/* SPDX-License-Identifier: MIT */
/*
 * forms.h - what a text is, by its first bytes and lines: whether they are names (shardctl only).
 * Pure functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* So many bytes of a text, or all of a shorter one, are judged. */
#define SHARD_FORMS_BEGIN ((size_t)16 << 10)

/* A text's beginning. */
struct shard_forms_text {
  const char *data;
  size_t size;
  bool whole;       /* the text has no more bytes */
  char separator;   /* '\n' or 0 */
  const char *root; /* what absolute names are to lie below; NULL: nothing */
  bool lines;       /* judge the lines too, not only the first bytes */
};

/* 0 if it may be names. Else -EINVAL, and in err[size] what it is and what to do, to be printed
 * after the text's name. */
int shard_forms_judge(const struct shard_forms_text *text, char *err, size_t size);

/* Bytes of the "word://" that a text begins with; 0: with none. */
size_t shard_forms_scheme(const char *text, size_t length);

/* Decode %XX, and + as a blank if `plus`, in place. The new length; -1 if a % is not followed by
 * two digits. */
ssize_t shard_forms_decode(char *text, size_t length, bool plus);
