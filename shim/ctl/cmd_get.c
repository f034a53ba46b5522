/* SPDX-License-Identifier: MIT */
/*
 * cmd_get.c - shardctl get: a listing or manifest from a bucket, or a listing that is a file, whole
 * and checked, or not at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "build/spool.h"
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

/* Whether a file is what it was. */
static bool is_same(const struct stat *a, const struct stat *b) {
  return a->st_ino == b->st_ino && a->st_size == b->st_size &&
         shard_clock_same(a->st_mtim, b->st_mtim) && shard_clock_same(a->st_ctim, b->st_ctim);
}

/* Copy a file. CTL_DONE, or CTL_FAILED after a message. */
static int copy(const char *file, int to) {
  static char chunk[1 << 16];
  struct stat before, after;
  int from = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (from < 0 || fstat(from, &before) != 0 || !S_ISREG(before.st_mode)) {
    int error = from < 0 ? errno : EINVAL;
    shard_file_close(from);
    return ctl_fail("cannot read '%.300s': %s", file, strerror(error));
  }
  ssize_t n = 1;
  int rc = 0;
  for (off_t at = 0; rc == 0 && n > 0; at += n) {
    n = TEMP_FAILURE_RETRY(read(from, chunk, sizeof(chunk)));
    rc = n > 0 ? shard_spool_write_at(to, chunk, (size_t)n, at) : 0;
  }
  rc = n < 0 ? -errno : rc;
  bool same = fstat(from, &after) == 0 && is_same(&before, &after);
  shard_file_close(from);
  return rc ? ctl_fail("cannot copy '%.300s' to '%.200s': %s", file, ctl_given.output,
                       strerror(-rc))
         : !same
             ? ctl_fail("'%.300s' is being written; write it elsewhere, and rename it when it is "
                        "complete",
                        file)
             : CTL_DONE;
}

static int run(char **operands) {
  const char *url = operands[0];
  struct ctl_output out;
  bool remote = strstr(url, "://") != NULL;
  int rc = remote ? ctl_buckets_object(url) : CTL_DONE;
  rc = rc == CTL_DONE ? ctl_output_open(ctl_given.output, NULL, SHARD_WHOLE_SYNCED, &out) : rc;
  if (rc != CTL_DONE) {
    return rc;
  }
  bool listing = !remote || !shard_pattern_is_manifest(url);
  rc = remote ? ctl_buckets_get(url, listing, out.whole.fd) : copy(url, out.whole.fd);
  if (rc == CTL_DONE && listing) {
    rc = check_listing(url, out.temporary);
  }
  int ended = ctl_output_end(&out, rc == CTL_DONE);
  return rc == CTL_DONE ? ended : rc;
}

const struct ctl_command ctl_cmd_get = {ctl_help_get, rows, CTL_ONE,
                                        "one s3://bucket/key or listing, and -o FILE", run};
