/* SPDX-License-Identifier: MIT */
/*
 * cmd_get.c - shardctl get: a listing or manifest from a bucket, whole and checked, or not at all.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "config/pattern.h"
#include "ctl/ctl.h"
#include "ctl/output.h"
#include "ctl/s3.h"
#include "libshard.h"
#include "listing/listing.h"

static const char usage[] =
    "Usage: shardctl get s3://BUCKET/KEY -o FILE [OPTIONS]\n"
    "\n"
    "Fetches a listing from a bucket, or a manifest, if KEY ends in .txt, .txt.gz or .txt.zst. "
    "FILE\n"
    "appears whole and checked, or not at all: every block of a listing, and of both the SHA-256\n"
    "that shardctl has put it with, or else the MD5 that its ETag may be, and the length.\n"
    "\n"
    "  -o, --output FILE      where to; an older FILE is replaced only on success\n"
    "      --no-sign-request  a bucket that all may read: no credentials are used\n"
    "      --help\n";

enum { OPT_ANONYMOUS = 256 };

static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                        {"no-sign-request", no_argument, NULL, OPT_ANONYMOUS},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

/* CTL_DONE, or CTL_FAILED after a message. */
static int check(const char *url, const char *file) {
  struct shard_listing *l;
  int rc = ctl_listing_open(file, &l);
  if (rc == 0) {
    shard_listing_close(l);
  }
  return rc == 0 ? CTL_DONE
                 : ctl_fail("'%.300s' is no listing that can be used: %s; make it anew with "
                            "shardctl index, or let a manifest's name end in .txt",
                            url, shard_listing_strerror(rc));
}

static int get(const char *url, bool anonymous, const char *output) {
  struct ctl_output out;
  int rc = ctl_output_open(output, NULL, SHARD_WHOLE_SYNCED, &out);
  if (rc != CTL_DONE) {
    return rc;
  }
  rc = ctl_s3_get(url, anonymous, out.whole.fd);
  if (rc == CTL_DONE && !shard_manifest_named(url)) {
    rc = check(url, out.temporary);
  }
  int ended = ctl_output_end(&out, rc == CTL_DONE);
  return rc == CTL_DONE ? ended : rc;
}

int ctl_get(int argc, char **argv) {
  const char *output = NULL;
  bool anonymous = false;
  int c;
  while ((c = getopt_long(argc, argv, "o:h", options, NULL)) != -1) {
    switch (c) {
    case 'o':
      output = optarg;
      break;
    case OPT_ANONYMOUS:
      anonymous = true;
      break;
    case 'h':
      fputs(usage, stdout);
      return ctl_finish();
    default:
      return CTL_USAGE;
    }
  }
  if (argc - optind != 1 || !output) {
    return ctl_usage("get takes one s3://bucket/key and -o FILE; see shardctl get --help");
  }
  int rc = ctl_s3_object(argv[optind]);
  return rc == CTL_DONE ? get(argv[optind], anonymous, output) : rc;
}
