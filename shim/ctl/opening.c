/* SPDX-License-Identifier: MIT */
#include "ctl/opening.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "build/build.h"
#include "config/config.h"
#include "config/pattern.h"
#include "ctl/arguments.h"
#include "ctl/buckets.h"
#include "ctl/ctl.h"
#include "ctl/scratch.h"
#include "libshard.h"
#include "listing/listing.h"
#include "source/directory.h"
#include "source/s3/s3.h"
#include "source/text.h"

int ctl_opening_checked(const char *file, struct shard_listing **out) {
  int rc = shard_listing_open(file, out);
  if (rc == 0 && (rc = shard_listing_verify(*out)) != 0) {
    shard_listing_close(*out);
  }
  return rc;
}

enum source { IS_LISTING, IS_DIRECTORY, IS_MANIFEST, IS_BUCKET };

/* List a source into `file`. CTL_DONE, or another status after a message. */
static int build(enum source kind, const char *source, bool shared, const char *file) {
  struct shard_build_result result;
  struct shard_options o;
  char err[700];
  int rc;
  shard_options_parse(&o, "", err, sizeof(err));
  shard_options_set_sample(&o, ctl_given.sample);
  o.attributes = shared; /* as the shard view's */
  if (kind == IS_BUCKET) {
    return ctl_buckets_build(source, &(struct ctl_buckets){0}, &o, file, &result);
  }
  if (kind == IS_MANIFEST) {
    struct shard_text_options how = {
        .separator = '\n', .unpacked_max = SHARD_MANIFEST_MOST, .said = true};
    struct shard_text_told told;
    o = (struct shard_options){.order = SHARD_ORDER_KEEP, .hidden = true};
    rc = shard_text_build(&source, 1, &how, &o, file, &result, &told, err, sizeof(err));
  } else {
    rc = shard_directory_build(source, &o, file, &result, err, sizeof(err));
  }
  return rc == 0 ? CTL_DONE : ctl_fail("%s", err);
}

/* Make a listing of a source in a temporary folder, and open it: its file is gone afterwards. */
static int open_source(enum source kind, const char *source, bool shared,
                       struct shard_listing **out) {
  struct ctl_scratch scratch = {0};
  char file[PATH_MAX];
  int rc = ctl_scratch_make(&scratch);
  if (rc == CTL_DONE) {
    snprintf(file, sizeof(file), "%s/listing", scratch.path);
    rc = build(kind, source, shared, file);
  }
  int opened = rc == CTL_DONE ? shard_listing_open(file, out) : 0;
  if (opened != 0) {
    rc = ctl_fail("cannot open '%s': %s", file, shard_listing_strerror(opened));
  }
  ctl_scratch_remove(&scratch);
  return rc;
}

void ctl_opening_warn_of_tables(const char *what, uint64_t tables) {
  if (tables > 0) {
    ctl_warn("'%s': %llu %s a table, whose files are not in the listing (shardctl stat names it); "
             "listing calls on it fail",
             what, (unsigned long long)tables,
             tables == 1 ? "directory is" : "directories are each");
  }
}

/* Whether ranks may share the listing. CTL_DONE, or CTL_FAILED after a message. */
static int check_shared(const char *what, const struct shard_listing *l) {
  const uint8_t *pos = NULL;
  const char *format, *path;
  uint64_t tables = 0;
  while (shard_listing_table(l, &pos, &format, &path)) {
    tables++;
  }
  ctl_opening_warn_of_tables(what, tables);
  bool sets = l->header->sets && ctl_given.strategy != SHARD_STRATEGY_HASH;
  return sets && !ctl_given.sample_text
             ? ctl_fail("'%s': nearly all files come in sets that differ in what follows the first "
                        "dot: --sample stem keeps sets together, --sample file does not",
                        what)
             : CTL_DONE;
}

int ctl_opening(const char *file, bool manifest, struct shard_listing **out) {
  struct stat st;
  bool shared = ctl_given.size > 1;
  bool bucket = shard_s3_url_is(file);
  if (bucket && manifest) {
    return ctl_usage("--manifest is for files");
  }
  if (!bucket && (ctl_given.start_after || ctl_given.end_before || ctl_given.anonymous)) {
    return ctl_usage("--start-after, --end-before and --no-sign-request are for s3://");
  }
  enum source kind = bucket                                        ? IS_BUCKET
                     : manifest                                    ? IS_MANIFEST
                     : stat(file, &st) == 0 && S_ISDIR(st.st_mode) ? IS_DIRECTORY
                                                                   : IS_LISTING;
  int opened = kind == IS_LISTING ? shard_listing_open(file, out) : 0;
  if (opened == -EBADMSG && shard_pattern_is_manifest(file)) {
    kind = IS_MANIFEST;
  } else if (opened != 0) {
    return ctl_fail("cannot open listing '%s': %s%s", file, shard_listing_strerror(opened),
                    strstr(file, "://") ? "; shardctl reads no URL but s3://" : "");
  }
  int rc = kind == IS_LISTING ? CTL_DONE : open_source(kind, file, shared, out);
  if (rc == CTL_DONE && ctl_given.sample_text && (*out)->header->sample != ctl_given.sample) {
    rc = ctl_fail("listing '%s' has samples by the rule '%s'; make one by shardctl index --sample",
                  file, shard_words_at(shard_words_samples, (*out)->header->sample));
  } else if (rc == CTL_DONE && shared) {
    rc = check_shared(file, *out);
  } else {
    return rc;
  }
  if (rc != CTL_DONE) {
    shard_listing_close(*out);
    *out = NULL;
  }
  return rc;
}
