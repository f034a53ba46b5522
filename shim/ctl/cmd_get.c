/* SPDX-License-Identifier: MIT */
/*
 * cmd_get.c - shardctl get: a listing or manifest from a bucket, whole and checked, or not at all.
 */

#include "config/pattern.h"
#include "ctl/arguments.h"
#include "ctl/buckets.h"
#include "ctl/ctl.h"
#include "ctl/opening.h"
#include "ctl/output.h"
#include "libshard.h"
#include "listing/listing.h"

static const struct ctl_option rows[] = {CTL_ROW_OUTPUT, CTL_ROW_UNSIGNED, CTL_ROW_END};

/* Is it a listing that can be used? CTL_DONE, or CTL_FAILED after a message. */
static int check_listing(const char *url, const char *file) {
  struct shard_listing *l;
  int rc = ctl_opening_checked(file, &l);
  if (rc == 0) {
    shard_listing_close(l);
  }
  return rc == 0 ? CTL_DONE
                 : ctl_fail("'%.300s' is no listing that can be used: %s; make it anew with "
                            "shardctl index, or let a manifest's name end in .txt",
                            url, shard_listing_strerror(rc));
}

static int run(char **operands) {
  const char *url = operands[0];
  struct ctl_output out;
  int rc = ctl_buckets_object(url);
  rc = rc == CTL_DONE ? ctl_output_open(ctl_given.output, NULL, SHARD_WHOLE_SYNCED, &out) : rc;
  if (rc != CTL_DONE) {
    return rc;
  }
  bool listing = !shard_pattern_is_manifest(url);
  rc = ctl_buckets_get(url, listing, out.whole.fd);
  if (rc == CTL_DONE && listing) {
    rc = check_listing(url, out.temporary);
  }
  int ended = ctl_output_end(&out, rc == CTL_DONE);
  return rc == CTL_DONE ? ended : rc;
}

const struct ctl_command ctl_cmd_get = {ctl_help_get, rows, CTL_ONE,
                                        "one s3://bucket/key and -o FILE", run};
