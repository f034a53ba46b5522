/* SPDX-License-Identifier: MIT */
/*
 * forms.h - finds out from the first bytes and lines of a text whether the text holds names, and
 * which other form the text has (shardctl only). Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Bytes at the beginning of a text that are judged; of a shorter text, all. */
#define SHARD_FORMS_BEGIN ((size_t)16 << 10)

/* The beginning of a text. */
struct shard_forms_text {
  const char *data;
  size_t size;
  bool whole;       /* the text has no more bytes than these */
  char separator;   /* '\n' or 0 */
  const char *root; /* the directory or URL that absolute names must lie below; NULL: none */
  bool lines;       /* whether lines are judged, too, and not only the first bytes */
};

/*
 * Judges whether a text may hold names.
 * Errors: -EINVAL, the text holds no names. err[size] gets what the text holds, and the remedy, to
 * be printed after the text's name.
 */
int shard_forms_judge(const struct shard_forms_text *text, char *err, size_t size);

/* Returns the length of the "word://" that a text begins with; 0 if there is none. */
size_t shard_forms_scheme(const char *text, size_t length);

/*
 * Decodes each %XX in text[length] in place; if `plus`, each + as a blank, too.
 * Returns the new length; -1 if a % is not followed by two hexadecimal digits.
 */
ssize_t shard_forms_decode(char *text, size_t length, bool plus);
