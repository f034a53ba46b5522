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
static int build(enum source kind, const char *source, const char *file) {
  struct shard_build_result result;
  struct shard_options o;
  char err[700];
  int rc;
  shard_options_parse(&o, "", err, sizeof(err));
  shard_options_set_sample(&o, ctl_given.sample);
  if (kind == IS_BUCKET) {
    return ctl_buckets_build(source, &(struct ctl_buckets){0}, &o, file, &result);
  }
  if (kind == IS_MANIFEST) {
    struct shard_text_options how = {.separator = '\n', .unpacked_max = SHARD_MANIFEST_MOST};
    o = (struct shard_options){.order = SHARD_ORDER_KEEP, .hidden = true};
    rc = shard_text_build(source, &how, &o, file, &result, err, sizeof(err));
  } else {
    rc = shard_directory_build(source, &o, file, &result, err, sizeof(err));
  }
  return rc == 0 ? CTL_DONE : ctl_fail("%s", err);
}

/* Make a listing of a source in a temporary folder, and open it: its file is gone afterwards. */
static int open_source(enum source kind, const char *source, struct shard_listing **out) {
  struct ctl_scratch scratch = {0};
  char file[PATH_MAX];
  int rc = ctl_scratch_make(&scratch);
  if (rc == CTL_DONE) {
    snprintf(file, sizeof(file), "%s/listing", scratch.path);
    rc = build(kind, source, file);
  }
  int opened = rc == CTL_DONE ? shard_listing_open(file, out) : 0;
  if (opened != 0) {
    rc = ctl_fail("cannot open '%s': %s", file, shard_listing_strerror(opened));
  }
  ctl_scratch_remove(&scratch);
  return rc;
}

int ctl_opening(const char *file, bool manifest, struct shard_listing **out) {
  struct stat st;
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
    return ctl_fail("cannot open listing '%s': %s", file, shard_listing_strerror(opened));
  }
  int rc = kind == IS_LISTING ? CTL_DONE : open_source(kind, file, out);
  if (rc == CTL_DONE && ctl_given.sample_text && (*out)->header->sample != ctl_given.sample) {
    rc = ctl_fail("listing '%s' has samples by the rule '%s'; make one by shardctl index --sample",
                  file, shard_words_at(shard_words_samples, (*out)->header->sample));
    shard_listing_close(*out);
    *out = NULL;
  }
  return rc;
}
