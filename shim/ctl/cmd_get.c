/* SPDX-License-Identifier: MIT */
/*
 * cmd_get.c - shardctl get: fetches a listing or manifest from a bucket, or copies a listing, and
 * checks it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "build/spool.h"
#include "config/config.h"
#include "config/path_template.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/open_listing.h"
#include "ctl/output.h"
#include "ctl/s3.h"
#include "libshard.h"
#include "listing/listing.h"

static const struct ctl_option rows[] = {CTL_ROW_OUTPUT, CTL_ROW_UNSIGNED, CTL_ROW_END};

/* Check each block of a listing. Returns an exit status. */
static int verify_listing(const char *url, const char *file) {
  struct shard_listing *l;
  int rc = ctl_open_verified(file, &l);
  if (rc == 0) {
    shard_listing_close(l);
  }
  return rc == 0 ? CTL_DONE
                 : ctl_fail("'%.300s' is no listing that can be used: %s; make it anew with "
                            "shardctl index, or let a manifest's name end in .txt",
                            url, shard_listing_strerror(rc));
}

/* Copy a file. Returns an exit status. */
static int copy(const char *file, int to) {
  static char chunk[1 << 16];
  struct stat st;
  int from = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (from < 0 || fstat(from, &st) != 0 || !S_ISREG(st.st_mode)) {
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
  shard_file_close(from);
  return rc == 0 ? CTL_DONE
                 : ctl_fail("cannot copy '%.300s' to '%.200s': %s", file, ctl_args.output,
                            strerror(-rc));
}

static int fetch(const char *url, bool listing, int fd) {
  char err[1300];
  int rc = ctl_s3_get(url, listing ? 0 : SHARD_MANIFEST_MOST, fd, err, sizeof(err));
  return rc == 0 ? CTL_DONE : *err ? ctl_fail("%s", err) : CTL_FAILED;
}

static int run(char **operands) {
  const char *url = operands[0];
  struct ctl_output out;
  bool remote = strstr(url, "://") != NULL;
  int rc = remote ? ctl_s3_check_object(url) : CTL_DONE;
  rc = rc == CTL_DONE ? ctl_output_open(ctl_args.output, SHARD_ATOMIC_FILE_SYNCED, &out) : rc;
  if (rc != CTL_DONE) {
    return rc;
  }
  bool listing = !remote || !shard_path_template_is_manifest(url);
  rc = remote ? fetch(url, listing, out.whole.fd) : copy(url, out.whole.fd);
  if (rc == CTL_DONE && listing) {
    rc = verify_listing(url, out.temporary);
  }
  int ended = ctl_output_end(&out, rc == CTL_DONE);
  return rc == CTL_DONE ? ended : rc;
}

const struct ctl_command ctl_cmd_get = {ctl_help_get, rows, CTL_ONE,
                                        "one s3://bucket/key or listing, and -o FILE", run};
