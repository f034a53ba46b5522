/* SPDX-License-Identifier: MIT */
/*
 * cmd_manifest.c - shardctl manifest: writes a text for each rank with the names of its share.
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
#include "config/path_template.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/open_listing.h"
#include "ctl/output.h"
#include "ctl/sample_names.h"
#include "libshard.h"
#include "listing/listing.h"
#include "listing/samples.h"
#include "shard/shard.h"

/* What the options ask for. */
static struct {
  const struct shard_listing *listing;
  const char *pattern, *prefix, *weights;
  uint32_t size;
  uint64_t key;     /* 0: not shuffled */
  uint64_t *bounds; /* size + 1 places; NULL: equal shares */
} request = {.prefix = ""};

static const struct ctl_option rows[] = {
    {"size", CTL_NUMBER(size) " from 1 to 1000000", .least = 1, .most = 1000000, .needed = true},
    CTL_ROW_OUTPUT,
    {"strategy", CTL_WORD(strategy, strategies), .most = SHARD_STRATEGY_STRIDE,
     .takes = "range or stride"},
    CTL_ROW_REMAINDER,
    CTL_ROW_SAMPLE,
    CTL_ROW_SEED,
    CTL_ROW_EPOCH,
    CTL_ROW_NUL,
    {"weights", .text = &request.weights},
    {"prefix", .text = &request.prefix},
    CTL_ROW_END};

/* Returns the pattern with rank and epoch filled in, malloc'd; NULL: no memory, or too long. */
static char *path_of(uint32_t rank) {
  char path[PATH_MAX];
  bool fits =
      shard_path_template_expand(request.pattern, rank, ctl_args.epoch, path, sizeof(path)) >= 0;
  return fits ? strdup(path) : NULL;
}

static uint64_t names_written; /* of all ranks */

static int write_name(void *context, const char *name, size_t length) {
  FILE *out = context;
  shard_progress_count(&names_written);
  if (!ctl_args.nul && memchr(name, '\n', length)) {
    return ctl_fail("'%.*s\\n...' has a newline in it; use -0", (int)strcspn(name, "\n"), name);
  }
  fputs(request.prefix, out);
  fwrite(name, 1, length, out);
  putc(ctl_args.nul ? 0 : '\n', out);
  return 0;
}

static int write_names(void *context, FILE *out) {
  uint32_t rank = *(const uint32_t *)context;
  struct shard_share share;
  shard_share_init(&share, (enum shard_strategy)ctl_args.strategy,
                   (enum shard_remainder)ctl_args.remainder, rank, request.size,
                   shard_listing_samples(request.listing), request.key);
  uint64_t k = request.bounds ? request.bounds[rank] : 0,
           end = request.bounds ? request.bounds[rank + 1] : share.count;
  int rc = 0;
  for (; k < end && rc == 0; k++) {
    uint64_t place = request.bounds ? k : shard_share_place(&share, k);
    rc = ctl_sample_names(request.listing, shard_share_position(&share, place), write_name, out);
  }
  return rc < 0 ? ctl_fail("listing '%s' is damaged", request.listing->file) : rc;
}

/* Write one rank's text under its temporary name, and close it. */
static int write_one(uint32_t rank, char *path, struct shard_atomic_file *whole) {
  struct ctl_output out;
  int rc = ctl_output_open(path, SHARD_ATOMIC_FILE_LAZY, &out);
  if (rc != CTL_DONE) {
    return rc;
  }
  rc = ctl_output_print(&out, write_names, &rank);
  int failed = rc == CTL_DONE ? shard_atomic_file_finish(&out.whole) : 0;
  if (failed) {
    rc = ctl_fail("cannot write '%s': %s", path, strerror(-failed));
  }
  if (rc != CTL_DONE) {
    shard_atomic_file_abort(&out.whole);
  }
  *whole = out.whole;
  return rc;
}

/* Write all texts, and rename them when all are complete. */
static int write_all(void) {
  struct shard_atomic_file *wholes = calloc(request.size, sizeof(*wholes));
  uint32_t made = 0;
  int rc = CTL_DONE;
  shard_progress_begin("writing", shard_listing_count(request.listing));
  if (!wholes) {
    return ctl_fail("out of memory");
  }
  for (; rc == CTL_DONE && made < request.size; made++) {
    char *path = path_of(made);
    rc = path ? write_one(made, path, &wholes[made]) : ctl_fail("out of memory");
    free(path);
  }
  for (uint32_t r = 0; r < made; r++) {
    char *path = path_of(r);
    wholes[r].path = path;
    if (path && rc != CTL_DONE) {
      shard_atomic_file_abort(&wholes[r]);
    } else if (path) {
      int failed = shard_atomic_file_publish(&wholes[r]);
      rc = failed ? ctl_fail("cannot write '%s': %s", path, strerror(-failed)) : CTL_DONE;
    }
    free(path);
  }
  shard_progress_end();
  free(wholes);
  return rc;
}

/* Returns where each rank's places begin, of n, by weights such as "2,1,1"; NULL: these are not
 * `size` numbers, or all are 0. */
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

/* Check that the pattern gives each rank a path of its own. Returns an exit status. */
static int check_pattern(void) {
  char *first = path_of(0), *last = path_of(request.size - 1);
  int rc = CTL_DONE;
  if (!first || !last) {
    rc = ctl_usage("-o '%s': only %%r, %%e and %%%% have a meaning", request.pattern);
  } else if (request.size > 1 && strcmp(first, last) == 0) {
    rc = ctl_usage("-o '%s' needs %%r, for each rank has a text of its own", request.pattern);
  } else if (strstr(request.pattern, "://")) {
    rc = ctl_usage("-o '%s' is no file; write files, and copy them (aws s3 cp)", request.pattern);
  }
  free(first);
  free(last);
  return rc;
}

/* Write the texts of an open listing. */
static int write_manifests(void) {
  if (request.weights && !(request.bounds = weigh(request.weights, request.size,
                                                  shard_listing_samples(request.listing)))) {
    return ctl_usage("--weights takes %u numbers separated by ',', not all 0, not '%s'",
                     request.size, request.weights);
  }
  int rc = write_all();
  free(request.bounds);
  return rc;
}

static int run(char **operands) {
  struct shard_listing *l;
  if (request.weights && !ctl_args.strategy_text) {
    ctl_args.strategy = SHARD_STRATEGY_RANGE;
  }
  if (request.weights &&
      (ctl_args.strategy != SHARD_STRATEGY_RANGE || ctl_args.remainder != SHARD_REMAINDER_KEEP)) {
    return ctl_usage("--weights goes with the range strategy only, and without --remainder");
  }
  request.pattern = ctl_args.output;
  request.size = (uint32_t)ctl_args.size;
  request.key = ctl_arguments_key();
  int rc = check_pattern();
  if (rc != CTL_DONE) {
    return rc;
  }
  rc = ctl_open_listing(operands[0], &l);
  if (rc != CTL_DONE) {
    return rc;
  }
  request.listing = l;
  rc = ctl_arguments_check_remainder(request.size, shard_listing_samples(l), operands[0]);
  rc = rc == CTL_DONE ? write_manifests() : rc;
  shard_listing_close(l);
  return rc;
}

const struct ctl_command ctl_cmd_manifest = {
    ctl_help_manifest, rows, CTL_ONE, "one listing, directory or bucket, --size P and -o PATTERN",
    run};
