/* SPDX-License-Identifier: MIT */
/*
 * text.h - lists that exist already as the source of a listing: texts with a name a line, dwalk's
 * light form, the parts of an S3 Inventory, and other listings (shardctl only).
 *
 * Names are bytes, taken as they stand. What is most likely a mistake is an error (-EINVAL) that
 * names the text and the line: a text that holds no names (source/forms.h), an empty line, a NUL, a
 * CR before the LF, PATH_MAX bytes or more, an absolute path that does not lie below the root; and,
 * where the root is a directory, a name that is not there (some are looked up), or that is a
 * directory. Without a root, absolute paths are names like others, and may stand beside relative
 * ones; but order DIRECTORY refuses them, as its listing has a root. gzip or zstd is started to
 * unpack a text that it has packed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "build/build.h"
#include "source/inventory.h"

enum shard_text_form { SHARD_TEXT_NAMES, SHARD_TEXT_DWALK, SHARD_TEXT_INVENTORY };

struct shard_text_options {
  char separator; /* '\n' or 0 */
  /* Absolute paths must lie below the root, and become relative to the root; names in a directory
   * are made canonical. A URL: names are keys, and keys that end in a slash are left out. NULL: all
   * names are kept as they are. */
  const char *root;
  bool unchecked;        /* do not look into the root, a directory */
  uint64_t unpacked_max; /* bytes that a packed text may have; more is -EFBIG */
  bool unique;           /* keep one of equal names */
  enum shard_text_form form;
  bool said; /* the caller has said the form: lines are not judged */
  /* Of an inventory: the texts are its parts. open(): a descriptor, or a negative errno and a line;
   * called by several threads. */
  const struct shard_inventory *inventory;
  int (*open)(void *context, const struct shard_inventory_part *part, char *err, size_t size);
  void *context;
};

/* What was left out. */
struct shard_text_told {
  uint64_t markers;  /* keys that end in a slash */
  uint64_t outside;  /* names of a form that tells of more than the root */
  uint64_t versions; /* older versions and delete markers */
};

/*
 * Write the listing `file` of the names in `count` texts ("-": standard input), as shard_build()
 * does; several are read side by side, and with options->order KEEP or DIRECTORY there is one. The
 * listing's source is the root's real path; without a root, that of a listing among the texts, or
 * the first text's.
 */
int shard_text_build(const char *const *texts, size_t count, const struct shard_text_options *how,
                     const struct shard_options *options, const char *file,
                     struct shard_build_result *result, struct shard_text_told *told, char *err,
                     size_t size);
