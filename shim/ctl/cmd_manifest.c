/* SPDX-License-Identifier: MIT */
/*
 * cmd_manifest.c - shardctl manifest: a text for each rank, with the names of its share.
 *
 * All files are written beside their places first, and renamed when all are complete. Those for a
 * bucket are written in a temporary folder, and put when all are complete.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build/progress.h"
#include "config/pattern.h"
#include "ctl/arguments.h"
#include "ctl/buckets.h"
#include "ctl/ctl.h"
#include "ctl/names.h"
#include "ctl/opening.h"
#include "ctl/output.h"
#include "ctl/scratch.h"
#include "libshard.h"
#include "listing/listing.h"
#include "listing/samples.h"
#include "shard/shard.h"
#include "source/s3/s3.h"

/* What is to be written. */
static struct {
  const struct shard_listing *listing;
  const char *pattern, *prefix, *weights;
  uint32_t size;
  uint64_t key;     /* 0: not shuffled */
  uint64_t *bounds; /* size + 1 places; NULL: equal shares */
} asked = {.prefix = ""};

static const struct ctl_option rows[] = {
    {"size", CTL_NUMBER(size) " from 1 to 1000000", .least = 1, .most = 1000000, .needed = true},
    CTL_ROW_OUTPUT,
    {"strategy", .text = &ctl_given.strategy_text, .take = ctl_arguments_strategy,
     .most = SHARD_STRATEGY_STRIDE, .takes = "range or stride"},
    CTL_ROW_REMAINDER,
    CTL_ROW_SAMPLE,
    CTL_ROW_SEED,
    CTL_ROW_EPOCH,
    CTL_ROW_NUL,
    {"weights", .text = &asked.weights},
    {"prefix", .text = &asked.prefix},
    CTL_ROW_END};

/*
 * The pattern with rank and epoch filled in, or a path in `folder` if that is not NULL; malloc'd.
 * NULL: no memory, or too long.
 */
static char *path_of(uint32_t rank, const char *folder) {
  char path[PATH_MAX];
  if (folder) {
    char *made;
    return asprintf(&made, "%s/%u", folder, rank) < 0 ? NULL : made;
  }
  bool fits = shard_pattern_expand(asked.pattern, rank, ctl_given.epoch, path, sizeof(path)) >= 0;
  return fits ? strdup(path) : NULL;
}

static uint64_t done; /* names, of all ranks */

static int write_name(void *context, const char *name, size_t length) {
  FILE *out = context;
  shard_progress_count(&done);
  if (!ctl_given.nul && memchr(name, '\n', length)) {
    return ctl_fail("'%.*s\\n...' has a newline in it; use -0", (int)strcspn(name, "\n"), name);
  }
  fputs(asked.prefix, out);
  fwrite(name, 1, length, out);
  putc(ctl_given.nul ? 0 : '\n', out);
  return 0;
}

static int write_names(void *context, FILE *out) {
  uint32_t rank = *(const uint32_t *)context;
  struct shard_share share;
  shard_share_init(&share, ctl_given.strategy, ctl_given.remainder, rank, asked.size,
                   shard_listing_samples(asked.listing), asked.key);
  uint64_t k = asked.bounds ? asked.bounds[rank] : 0,
           end = asked.bounds ? asked.bounds[rank + 1] : share.count;
  int rc = 0;
  for (; k < end && rc == 0; k++) {
    uint64_t place = asked.bounds ? k : shard_share_place(&share, k);
    rc = ctl_names_of_sample(asked.listing, shard_share_at(&share, place), write_name, out);
  }
  return rc < 0 ? ctl_fail("listing '%s' is damaged", asked.listing->file) : rc;
}

/* One rank's text: complete under its temporary name, and closed. */
static int write_one(uint32_t rank, char *path, struct shard_whole *whole) {
  struct ctl_output out;
  int rc = ctl_output_open(path, NULL, SHARD_WHOLE_LAZY, &out);
  if (rc != CTL_DONE) {
    return rc;
  }
  rc = ctl_output_print(&out, write_names, &rank);
  int failed = rc == CTL_DONE ? shard_whole_finish(&out.whole) : 0;
  if (failed) {
    rc = ctl_fail("cannot write '%s': %s", path, strerror(-failed));
  }
  if (rc != CTL_DONE) {
    shard_whole_abort(&out.whole);
  }
  *whole = out.whole;
  return rc;
}

/* All of them, under their own names once all are complete. */
static int write_all(const char *folder) {
  struct shard_whole *wholes = calloc(asked.size, sizeof(*wholes));
  uint32_t made = 0;
  int rc = CTL_DONE;
  shard_progress_begin("writing", shard_listing_count(asked.listing));
  if (!wholes) {
    return ctl_fail("out of memory");
  }
  for (; rc == CTL_DONE && made < asked.size; made++) {
    char *path = path_of(made, folder);
    rc = path ? write_one(made, path, &wholes[made]) : ctl_fail("out of memory");
    free(path);
  }
  for (uint32_t r = 0; r < made; r++) {
    char *path = path_of(r, folder);
    wholes[r].path = path;
    if (path && rc != CTL_DONE) {
      shard_whole_abort(&wholes[r]);
    } else if (path) {
      int failed = shard_whole_publish(&wholes[r]);
      rc = failed ? ctl_fail("cannot write '%s': %s", path, strerror(-failed)) : CTL_DONE;
    }
    free(path);
  }
  shard_progress_end();
  free(wholes);
  return rc;
}

/* Write them in a temporary folder, and put them into the bucket. */
static int put_all(void) {
  struct ctl_scratch scratch = {0};
  struct ctl_buckets_file *files = calloc(asked.size, sizeof(*files));
  if (!files) {
    return ctl_fail("out of memory");
  }
  int rc = ctl_scratch_make(&scratch);
  rc = rc == CTL_DONE ? write_all(scratch.path) : rc;
  for (uint32_t r = 0; rc == CTL_DONE && r < asked.size; r++) {
    files[r] = (struct ctl_buckets_file){path_of(r, NULL), path_of(r, scratch.path)};
    rc = files[r].url && files[r].file ? CTL_DONE : ctl_fail("out of memory");
  }
  rc = rc == CTL_DONE ? ctl_buckets_put(files, asked.size, false) : rc;
  for (uint32_t r = 0; r < asked.size; r++) {
    free((char *)files[r].url);
    free((char *)files[r].file);
  }
  free(files);
  ctl_scratch_remove(&scratch);
  return rc;
}

/* "2,1,1": how many places each rank gets of n. NULL: not `size` numbers, or all are 0. */
static uint64_t *weigh(const char *text, uint32_t size, uint64_t n) {
  uint64_t *bounds = calloc((size_t)size + 1, sizeof(*bounds)), sum = 0;
  bool good = bounds != NULL;
  for (uint32_t r = 0; good && r < size; r++) {
    char *end;
    errno = 0;
    unsigned long w = strtoul(text, &end, 10);
    good = text[0] >= '0' && text[0] <= '9' && !errno && w <= 1000000000 &&
           *end == (r + 1 < size ? ',' : 0);
    bounds[r + 1] = sum += w;
    text = end + 1;
  }
  if (!good || sum == 0) {
    free(bounds);
    return NULL;
  }
  for (uint32_t r = 1; r <= size; r++) {
    bounds[r] = (uint64_t)((unsigned __int128)n * bounds[r] / sum);
  }
  return bounds;
}

/* Whether the pattern gives each rank a path of its own. CTL_DONE, or CTL_USAGE after a message. */
static int check_pattern(void) {
  char *first = path_of(0, NULL), *last = path_of(asked.size - 1, NULL);
  int rc = CTL_DONE;
  if (!first || !last) {
    rc = ctl_usage("-o '%s': only %%r, %%e and %%%% have a meaning", asked.pattern);
  } else if (asked.size > 1 && strcmp(first, last) == 0) {
    rc = ctl_usage("-o '%s' needs %%r, for each rank has a text of its own", asked.pattern);
  } else if (shard_s3_url_is(asked.pattern)) {
    size_t bucket = strlen("s3://") + strcspn(asked.pattern + strlen("s3://"), "/");
    rc = ctl_buckets_object(first);
    rc = rc == CTL_DONE ? ctl_buckets_object(last) : rc;
    if (rc == CTL_DONE && memchr(asked.pattern, '%', bucket)) {
      rc = ctl_usage("-o '%s': all manifests go to one bucket; %%r and %%e belong into the key",
                     asked.pattern);
    }
  }
  free(first);
  free(last);
  return rc;
}

/* Write the texts of an open listing. */
static int write_manifests(void) {
  if (asked.weights &&
      !(asked.bounds = weigh(asked.weights, asked.size, shard_listing_samples(asked.listing)))) {
    return ctl_usage("--weights takes %u numbers separated by ',', not all 0, not '%s'", asked.size,
                     asked.weights);
  }
  int rc = shard_s3_url_is(asked.pattern) ? put_all() : write_all(NULL);
  free(asked.bounds);
  return rc;
}

static int run(char **operands) {
  struct shard_listing *l;
  if (asked.weights && !ctl_given.strategy_text) {
    ctl_given.strategy = SHARD_STRATEGY_RANGE;
  }
  if (asked.weights &&
      (ctl_given.strategy != SHARD_STRATEGY_RANGE || ctl_given.remainder != SHARD_REMAINDER_KEEP)) {
    return ctl_usage("--weights goes with the range strategy only, and without --remainder");
  }
  asked.pattern = ctl_given.output;
  asked.size = (uint32_t)ctl_given.size;
  asked.key = ctl_arguments_key();
  int rc = check_pattern();
  if (rc != CTL_DONE) {
    return rc;
  }
  rc = ctl_opening(operands[0], false, &l);
  if (rc != CTL_DONE) {
    return rc;
  }
  asked.listing = l;
  rc = ctl_arguments_check_remainder(asked.size, shard_listing_samples(l), operands[0]);
  rc = rc == CTL_DONE ? write_manifests() : rc;
  shard_listing_close(l);
  return rc;
}

const struct ctl_command ctl_cmd_manifest = {
    ctl_help_manifest, rows, CTL_ONE, "one listing or directory, --size P and -o PATTERN", run};
