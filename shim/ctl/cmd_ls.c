/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build/build.h"
#include "config/pattern.h"
#include "ctl/ctl.h"
#include "ctl/s3.h"
#include "libshard.h"
#include "listing/codec.h"
#include "listing/listing.h"
#include "shard/shard.h"
#include "source/directory.h"
#include "source/s3/s3.h"
#include "source/text.h"

static const char usage[] =
    "Usage: shardctl ls FILE|DIR|s3://BUCKET/PREFIX [OPTIONS]\n"
    "\n"
    "Prints the names of a listing; of a directory tree, relative to its root; of a bucket,\n"
    "relative to the prefix's last slash; or of a manifest, in its own order: a FILE whose name\n"
    "ends in .txt, .txt.gz or .txt.zst, or any with --manifest.\n"
    "\n"
    "      --manifest            FILE is a manifest (- is standard input)\n"
    "      --rank R --size P     only the share of rank R of P\n"
    "      --strategy STRATEGY   range (default), stride or hash\n"
    "      --seed N, --epoch N   shuffled as under SHARD_SEED and SHARD_EPOCH: range and stride\n"
    "                            in the order of the share, hash in that of the listing\n"
    "      --uri                 whole URIs (s3://...), of a bucket or a bucket's listing\n"
    "      --start-after KEY, --end-before KEY\n"
    "                            only the keys of a bucket between these two, which are left out\n"
    "      --no-sign-request     a bucket that all may list: no credentials are used\n"
    "  -0                        end names with NUL, not newline\n"
    "      --help\n";

enum {
  OPT_RANK = 256,
  OPT_SIZE,
  OPT_STRATEGY,
  OPT_SEED,
  OPT_EPOCH,
  OPT_MANIFEST,
  OPT_URI,
  OPT_AFTER,
  OPT_BEFORE,
  OPT_ANONYMOUS,
  OPT_HELP
};

static const struct option options[] = {{"rank", required_argument, NULL, OPT_RANK},
                                        {"size", required_argument, NULL, OPT_SIZE},
                                        {"strategy", required_argument, NULL, OPT_STRATEGY},
                                        {"seed", required_argument, NULL, OPT_SEED},
                                        {"epoch", required_argument, NULL, OPT_EPOCH},
                                        {"manifest", no_argument, NULL, OPT_MANIFEST},
                                        {"uri", no_argument, NULL, OPT_URI},
                                        {"start-after", required_argument, NULL, OPT_AFTER},
                                        {"end-before", required_argument, NULL, OPT_BEFORE},
                                        {"no-sign-request", no_argument, NULL, OPT_ANONYMOUS},
                                        {"help", no_argument, NULL, OPT_HELP},
                                        {NULL, 0, NULL, 0}};

/* What stands before each name. */
static const char *before = "";
static size_t before_length;

/* What stdout gets next: fewer and larger pieces than stdio's, for names are short. */
static struct {
  size_t used;
  char data[256 << 10];
} page;

static void end_page(void) {
  fwrite_unlocked(page.data, 1, page.used, stdout); /* ctl_finish() looks at its errors */
  page.used = 0;
}

static inline void print(const char *name, size_t length, int separator) {
  if (before_length + length >= sizeof(page.data) - page.used) {
    end_page();
  }
  memcpy(page.data + page.used, before, before_length);
  page.used += before_length;
  memcpy(page.data + page.used, name, length);
  page.used += length;
  page.data[page.used++] = (char)separator;
}

/* The share's names in the order of the listing. */
static int print_sifted(const struct shard_listing *l, const struct shard_share *share,
                        uint64_t key, int separator) {
  static struct shard_cursor c;
  bool hash = share->strategy == SHARD_STRATEGY_HASH;
  uint64_t begin = 0, end = share->n, step = 1;
  if (!hash) {
    shard_share_places(share, &begin, &end, &step);
  }
  int rc = shard_listing_seek(&c, l, begin);
  for (uint64_t i = begin; rc == 0 && i < end; i++) {
    const char *name;
    ssize_t n = shard_listing_next(&c, &name);
    if (n <= 0) {
      return n < 0 ? (int)n : -EBADMSG;
    }
    if (hash ? shard_owner_by_name(name, (size_t)n, key, share->size) == share->rank
             : (i - begin) % step == 0) {
      print(name, (size_t)n, separator);
    }
  }
  return rc;
}

/* The share's names in its shuffled order. */
static int print_shuffled(const struct shard_listing *l, const struct shard_share *share,
                          int separator) {
  static char name[SHARD_NAME_MAX];
  uint64_t place, end, step;
  shard_share_places(share, &place, &end, &step);
  for (; place < end; place += step) {
    ssize_t n = shard_listing_name(l, shard_share_at(share, place), name, sizeof(name));
    if (n < 0) {
      return (int)n;
    }
    print(name, (size_t)n, separator);
  }
  return 0;
}

/* Make a listing of a directory, bucket or manifest in a corner of TMPDIR, and open that. */
static int list_source(const char *source, bool manifest, struct ctl_s3 *s3,
                       struct shard_listing **out) {
  const char *base = getenv("TMPDIR");
  char file[4096], err[700];
  struct shard_build_means means;
  ctl_build_means(&means);
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
  shard_options_parse(&o, "", err, sizeof(err));
  struct shard_text_options how = {.separator = '\n'};
  int rc = 0;
  if (shard_s3_is_url(source)) {
    int listed = ctl_s3_build(source, s3, &o, &means, file, &result);
    if (listed != CTL_DONE) {
      unlink(file);
      return listed;
    }
  } else if (manifest) {
    o.order = SHARD_ORDER_KEEP;
    rc = shard_text_build(source, &how, &o, &means, file, &result, err, sizeof(err));
  } else {
    rc = shard_directory_build(source, &o, &means, file, &result, err, sizeof(err));
  }
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
  uint64_t rank = 0, size = 0, seed = 0, epoch = 0;
  bool ranked = false, shuffle = false, manifest = false, uri = false;
  struct ctl_s3 s3 = {0};
  enum shard_strategy strategy = SHARD_STRATEGY_RANGE;
  int separator = '\n', c;
  while ((c = getopt_long(argc, argv, "0h", options, NULL)) != -1) {
    switch (c) {
    case '0':
      separator = 0;
      break;
    case OPT_MANIFEST:
      manifest = true;
      break;
    case OPT_URI:
      uri = true;
      break;
    case OPT_AFTER:
      s3.start_after = optarg;
      break;
    case OPT_BEFORE:
      s3.end_before = optarg;
      break;
    case OPT_ANONYMOUS:
      s3.anonymous = true;
      break;
    case OPT_RANK:
      ranked = ctl_number(optarg, INT32_MAX, &rank);
      if (!ranked) {
        return ctl_usage("--rank takes a number from 0 on, not '%s'", optarg);
      }
      break;
    case OPT_SIZE:
      if (!ctl_number(optarg, INT32_MAX, &size) || size < 1) {
        return ctl_usage("--size takes a number from 1 on, not '%s'", optarg);
      }
      break;
    case OPT_STRATEGY:
      if (!ctl_strategy(optarg, &strategy)) {
        return ctl_usage("--strategy takes range, stride or hash, not '%s'", optarg);
      }
      break;
    case OPT_SEED:
    case OPT_EPOCH:
      shuffle = c == OPT_SEED ? ctl_number(optarg, UINT64_MAX, &seed)
                              : ctl_number(optarg, CTL_EPOCH_MOST, &epoch);
      if (!shuffle) {
        return ctl_usage("--%s takes a number, not '%s'", c == OPT_SEED ? "seed" : "epoch", optarg);
      }
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
  if (ranked != (size > 0) || (ranked && rank >= size)) {
    return ctl_usage("--rank R and --size P go together, with R < P");
  }
  const char *file = argv[optind];
  struct stat st;
  struct shard_listing *l = NULL;
  bool bucket = shard_s3_is_url(file);
  if (bucket ? manifest : (s3.start_after || s3.end_before || s3.anonymous)) {
    return ctl_usage(bucket ? "--manifest is for files"
                            : "--start-after, --end-before and --no-sign-request are for s3://");
  }
  bool directory = !manifest && !bucket && stat(file, &st) == 0 && S_ISDIR(st.st_mode);
  int opened = directory || manifest || bucket ? -EBADMSG : shard_listing_open(file, &l);
  manifest =
      manifest || (!directory && !bucket && opened == -EBADMSG && shard_manifest_named(file));
  if (directory || manifest || bucket) {
    int made = list_source(file, manifest, &s3, &l);
    if (made != CTL_DONE) {
      return made;
    }
  } else if (opened != 0) {
    return ctl_fail("cannot open listing '%s': %s", file, shard_listing_strerror(opened));
  }
  char *root = uri && l ? ctl_s3_root(l->source) : NULL;
  if (uri && !root) {
    shard_listing_close(l);
    return ctl_usage("--uri: '%s' is not of a bucket", file);
  }
  before = root ? root : "";
  before_length = strlen(before);
  uint64_t key = shuffle ? shard_shuffle_key(seed, epoch) : 0;
  struct shard_share share;
  shard_share_init(&share, strategy, (uint32_t)rank, ranked ? (uint32_t)size : 1,
                   shard_listing_count(l), key);
  int rc = shuffle && strategy != SHARD_STRATEGY_HASH ? print_shuffled(l, &share, separator)
                                                      : print_sifted(l, &share, key, separator);
  end_page();
  shard_listing_close(l);
  free(root);
  if (rc != 0) {
    ctl_finish();
    return ctl_fail("listing '%s' is damaged", file);
  }
  return ctl_finish();
}
