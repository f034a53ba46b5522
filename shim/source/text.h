/* SPDX-License-Identifier: MIT */
/*
 * text.h - takes lists that exist already as the source of a listing: texts with a name a line,
 * dwalk's light form, the parts of an S3 Inventory, and other listings (shardctl only).
 *
 * Names are bytes, and are not decoded, except for the keys of an inventory. A likely mistake is an
 * error (-EINVAL) that names the text and the line:
 * - a text that holds no names (source/forms.h);
 * - an empty line, a NUL, a CR before the LF, or PATH_MAX bytes or more;
 * - an absolute path that does not lie below the root;
 * - where the root is a directory, a name that is a directory, or (some are looked up) is missing.
 *
 * Without a root, absolute paths are names like others, and may stand beside relative paths; but
 * order DIRECTORY refuses absolute paths, as its listing has a root. A text that gzip or zstd has
 * packed is unpacked by that program.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "build/build.h"
#include "source/inventory.h"

/* The form of the lines of a text. */
enum shard_text_form { SHARD_TEXT_NAMES, SHARD_TEXT_DWALK, SHARD_TEXT_INVENTORY };

struct shard_text_options {
  char separator; /* '\n' or 0 */
  /* Absolute paths must lie below the root, and become relative to the root. In a directory, names
   * are made canonical. If the root is a URL, names are keys, and keys that end in a slash are left
   * out. NULL: all names stay unchanged. */
  const char *root;
  bool unchecked;        /* names are not looked up in the root, a directory */
  uint64_t unpacked_max; /* bytes that a packed text may have unpacked; more is -EFBIG */
  bool unique;           /* the first of equal names is kept */
  enum shard_text_form form;
  bool said; /* the caller has named the form: lines are not judged */
  /* Of an inventory, whose parts are the texts. open() returns a descriptor, or a negative errno
   * and a line; several threads call open(). */
  const struct shard_inventory *inventory;
  int (*open)(void *context, const struct shard_inventory_part *part, char *err, size_t size);
  void *context;
};

/* Counts of names that were left out of the listing. */
struct shard_text_told {
  uint64_t markers;  /* keys that end in a slash */
  uint64_t outside;  /* names outside of the root, in a form that may have such names */
  uint64_t versions; /* older versions and delete markers */
};

/*
 * Writes the listing `file` of the names in `count` texts, as shard_build() does. Up to four texts
 * are read at a time. The listing's source is the real path of the root; without a root, the source
 * of a listing among the texts, or else the first text.
 * texts: paths; "-" is standard input. With options->order KEEP or DIRECTORY, `count` is 1.
 * Errors: as shard_build(), and the mistakes above.
 */
int shard_text_build(const char *const *texts, size_t count, const struct shard_text_options *how,
                     const struct shard_options *options, const char *file,
                     struct shard_build_result *result, struct shard_text_told *told, char *err,
                     size_t size);
