/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "libshard.h"
#include "listing/build.h"
#include "listing/listing.h"
#include "shard/shard.h"

static const char usage[] =
    "Usage: shardctl ls FILE|DIR [OPTIONS]\n"
    "\n"
    "Prints the names of a listing, or of a directory tree, relative to its root.\n"
    "\n"
    "      --rank R --size P     only the share of rank R of P\n"
    "      --strategy STRATEGY   range (default) or stride\n"
    "  -0                        end names with NUL, not newline\n"
    "      --help\n";

enum { OPT_RANK = 256, OPT_SIZE, OPT_STRATEGY, OPT_HELP };

static const struct option options[] = {{"rank", required_argument, NULL, OPT_RANK},
                                        {"size", required_argument, NULL, OPT_SIZE},
                                        {"strategy", required_argument, NULL, OPT_STRATEGY},
                                        {"help", no_argument, NULL, OPT_HELP},
                                        {NULL, 0, NULL, 0}};

static long number(const char *text) {
  char *end;
  errno = 0;
  long v = strtol(text, &end, 10);
  return text[0] < '0' || text[0] > '9' || *end || errno || v > 0x7fffffff ? -1 : v;
}

static int print_range(const struct shard_listing *l, uint64_t begin, uint64_t end, uint64_t step,
                       int separator) {
  static struct shard_cursor c;
  int rc = shard_listing_seek(&c, l, begin);
  for (uint64_t i = begin; rc == 0 && i < end; i++) {
    const char *name;
    ssize_t n = shard_listing_next(&c, &name);
    if (n <= 0) {
      return n < 0 ? (int)n : -EBADMSG;
    }
    if ((i - begin) % step == 0) {
      fwrite_unlocked(name, 1, (size_t)n, stdout);
      putc_unlocked(separator, stdout);
    }
  }
  return rc;
}

/* List a directory into an unnamed corner of TMPDIR and open that. */
static int list_directory(const char *dir, struct shard_listing **out) {
  const char *base = getenv("TMPDIR");
  char file[4096], err[700];
  if ((size_t)snprintf(file, sizeof(file), "%s/shardctl-ls-XXXXXX", base ? base : "/tmp") >=
      sizeof(file)) {
    return ctl_fail("TMPDIR is too long");
  }
  int fd = mkstemp(file);
  if (fd < 0) {
    return ctl_fail("cannot make '%s': %s", file, strerror(errno));
  }
  close(fd);
  struct shard_options o;
  struct shard_build_result result;
  struct shard_build_means means;
  if (ctl_build_means(&means) != CTL_DONE) {
    return CTL_USAGE;
  }
  shard_options_parse(&o, "", err, sizeof(err));
  int rc = shard_build_directory(dir, &o, &means, file, &result, err, sizeof(err));
  if (rc == 0) {
    rc = shard_listing_open(file, out);
    if (rc != 0) {
      snprintf(err, sizeof(err), "cannot open '%s': %s", file, strerror(-rc));
    }
  }
  unlink(file);
  return rc == 0 ? CTL_DONE : ctl_fail("%s", err);
}

int ctl_ls(int argc, char **argv) {
  long rank = -1, size = -1;
  enum shard_strategy strategy = SHARD_STRATEGY_RANGE;
  int separator = '\n', c;
  while ((c = getopt_long(argc, argv, "0h", options, NULL)) != -1) {
    switch (c) {
    case '0':
      separator = 0;
      break;
    case OPT_RANK:
      rank = number(optarg);
      if (rank < 0) {
        return ctl_usage("--rank takes a number from 0 on, not '%s'", optarg);
      }
      break;
    case OPT_SIZE:
      size = number(optarg);
      if (size < 1) {
        return ctl_usage("--size takes a number from 1 on, not '%s'", optarg);
      }
      break;
    case OPT_STRATEGY:
      if (strcmp(optarg, "range") != 0 && strcmp(optarg, "stride") != 0) {
        return ctl_usage("--strategy takes range or stride, not '%s'", optarg);
      }
      strategy = strcmp(optarg, "range") == 0 ? SHARD_STRATEGY_RANGE : SHARD_STRATEGY_STRIDE;
      break;
    case OPT_HELP:
    case 'h':
      fputs(usage, stdout);
      return ctl_finish();
    default:
      return CTL_USAGE;
    }
  }
  if (argc - optind != 1) {
    return ctl_usage("ls takes one listing or directory; see shardctl ls --help");
  }
  if ((rank < 0) != (size < 0) || rank >= size + (size < 0)) {
    return ctl_usage("--rank R and --size P go together, with R < P");
  }
  const char *file = argv[optind];
  struct stat st;
  struct shard_listing *l = NULL;
  if (stat(file, &st) == 0 && S_ISDIR(st.st_mode)) {
    int rc = list_directory(file, &l);
    if (rc != CTL_DONE) {
      return rc;
    }
  } else {
    int rc = shard_listing_open(file, &l);
    if (rc != 0) {
      return ctl_fail("cannot open listing '%s': %s", file, shard_listing_strerror(rc));
    }
  }
  uint64_t n = shard_listing_count(l), begin = 0, end = n, step = 1;
  if (rank >= 0 && strategy == SHARD_STRATEGY_RANGE) {
    shard_range(n, (uint32_t)rank, (uint32_t)size, &begin, &end);
  } else if (rank >= 0) {
    begin = (uint64_t)rank < n ? (uint64_t)rank : n;
    step = (uint64_t)size;
  }
  int rc = print_range(l, begin, end, step, separator);
  shard_listing_close(l);
  if (rc != 0) {
    ctl_finish();
    return ctl_fail("listing '%s' is damaged", file);
  }
  return ctl_finish();
}
