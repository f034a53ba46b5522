/* SPDX-License-Identifier: MIT */
#include "ctl/open_listing.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "build/build.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/s3.h"
#include "ctl/scratch.h"
#include "libshard.h"
#include "listing/listing.h"
#include "source/directory.h"
#include "source/s3/s3.h"

int ctl_open_verified(const char *file, struct shard_listing **out) {
  int rc = shard_listing_open(file, out);
  if (rc == 0 && (rc = shard_listing_verify(*out)) != 0) {
    shard_listing_close(*out);
  }
  return rc;
}

/* List a source into `file`. Returns an exit status. */
static int build(bool bucket, const char *source, bool shared, const char *file) {
  struct shard_build_result result;
  struct shard_options o;
  char err[700];
  shard_options_parse(&o, "", err, sizeof(err));
  shard_options_set_sample(&o, (enum shard_sample)ctl_args.sample);
  o.attributes = shared; /* like the shard view's listings */
  if (bucket) {
    return ctl_s3_list(source, &(struct ctl_s3_counts){0}, &o, file, &result);
  }
  int rc = shard_directory_build(source, &o, file, &result, err, sizeof(err));
  return rc == 0 ? CTL_DONE : ctl_fail("%s", err);
}

/* Make a listing of a source in a temporary folder, and open it. Returns an exit status. */
static int open_source(bool bucket, const char *source, bool shared, struct shard_listing **out) {
  struct ctl_scratch scratch = {0};
  char file[PATH_MAX];
  int rc = ctl_scratch_make(&scratch);
  if (rc == CTL_DONE) {
    snprintf(file, sizeof(file), "%s/listing", scratch.path);
    rc = build(bucket, source, shared, file);
  }
  int opened = rc == CTL_DONE ? shard_listing_open(file, out) : 0;
  if (opened != 0) {
    rc = ctl_fail("cannot open '%s': %s", file, shard_listing_strerror(opened));
  }
  ctl_scratch_remove(&scratch);
  return rc;
}

void ctl_warn_of_tables(const char *what, uint64_t tables) {
  if (tables > 0) {
    ctl_warn("'%s': %llu %s a table, whose files are not in the listing (shardctl stat names it); "
             "listing calls on it fail",
             what, (unsigned long long)tables,
             tables == 1 ? "directory is" : "directories are each");
  }
}

/* Check that ranks may share the listing. Returns an exit status. */
static int check_shared(const char *what, const struct shard_listing *l) {
  const uint8_t *pos = NULL;
  const char *format, *path;
  uint64_t tables = 0;
  while (shard_listing_table(l, &pos, &format, &path)) {
    tables++;
  }
  ctl_warn_of_tables(what, tables);
  bool sets = l->header->sets && ctl_args.strategy != SHARD_STRATEGY_HASH;
  return sets && !ctl_args.sample_text
             ? ctl_fail("'%s': nearly all files come in sets that differ in what follows the first "
                        "dot: --sample stem keeps sets together, --sample file does not",
                        what)
             : CTL_DONE;
}

int ctl_open_listing(const char *file, struct shard_listing **out) {
  struct stat st;
  bool shared = ctl_args.size > 1, bucket = shard_s3_url_is(file);
  if (!bucket && ctl_args.anonymous) {
    return ctl_usage("--no-sign-request is for s3://");
  }
  int rc = CTL_DONE;
  if (bucket || (stat(file, &st) == 0 && S_ISDIR(st.st_mode))) {
    rc = open_source(bucket, file, shared, out);
  } else {
    int opened = shard_listing_open(file, out);
    rc = opened == 0
             ? CTL_DONE
             : ctl_fail("cannot open listing '%s': %s%s", file, shard_listing_strerror(opened),
                        strstr(file, "://")  ? "; shardctl reads no URL but s3://"
                        : opened == -EBADMSG ? "; shardctl index makes a listing of a manifest"
                                             : "");
  }
  if (rc == CTL_DONE && ctl_args.sample_text && (*out)->header->sample != ctl_args.sample) {
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
