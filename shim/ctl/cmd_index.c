/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/whole.h"
#include "build/build.h"
#include "ctl/ctl.h"
#include "ctl/s3.h"
#include "ctl/scratch.h"
#include "ctl/share.h"
#include "libshard.h"
#include "listing/codec.h"
#include "listing/listing.h"
#include "listing/options.h"
#include "source/directory.h"
#include "source/s3/s3.h"
#include "source/text.h"

static const char usage[] =
    "Usage: shardctl index SOURCE -o FILE [OPTIONS]\n"
    "\n"
    "Makes the listing FILE. FILE appears whole or not at all; an older FILE is replaced only on\n"
    "success. SOURCE is a directory: the files (everything but directories) below it are listed;\n"
    "or a text file with a name a line, as it stands; gzip and zstd are unpacked; '-' is standard\n"
    "input; or s3://BUCKET/PREFIX: all keys that begin with PREFIX, relative to its last slash.\n"
    "FILE may be s3://BUCKET/KEY: the listing is made in SHARD_TMPDIR, checked, and put there.\n"
    "\n"
    "  -o, --output FILE    the listing to write\n"
    "      --order ORDER    path (default) or basename; of a text also directory: the names of\n"
    "                       a directory together, as they stand, those that come twice too, as\n"
    "                       the shard view needs it for a manifest of its own\n"
    "      --include GLOBS  only basenames that match one of the patterns, ':'-separated\n"
    "  -0                   names of a text are ended by NUL, not newline\n"
    "      --root DIR       absolute names of a text lie below DIR, which is left out\n"
    "      --unique         keep a name once that comes more often (else that is an error)\n"
    "      --keep-order     keep a text's order, and names that come more often\n"
    "      --no-attributes  without inodes, types and sub-directories: smaller; enough for\n"
    "                       DLIO, but the shard view cannot use it. A text's names count as\n"
    "                       files, numbered by their position\n"
    "      --start-after KEY, --end-before KEY\n"
    "                       only the keys of a bucket between these two, which are left out\n"
    "      --no-sign-request\n"
    "                       a bucket that all may list: no credentials are used\n"
    "      --no-replace     of -o s3://: fail if there is such an object\n"
    "      --share s3://BUCKET/KEY\n"
    "                       one listing for many nodes: FILE is a copy of the one that is there,\n"
    "                       if that is of SOURCE, a directory or a bucket's prefix, and true;\n"
    "                       else it is made, and put there in place of an old one\n"
    "      --wait SECONDS   with --share: do not make it, wait until it is there\n"
    "      --options WORDS  all options of a listing as libshard.so keys them, for example\n"
    "                       'depth=1 include=*.jpeg' (see shard_dataset_open in libshard.h)\n"
    "      --quiet          no progress on stderr (there is some if it is a terminal, or with\n"
    "                       SHARD_LOG=info)\n"
    "      --json           print the facts as one JSON object\n"
    "      --help\n"
    "\n"
    "SHARD_BUILD_MEMORY (256M) is what names may take in memory; more go to a temporary file in\n"
    "SHARD_TMPDIR, else TMPDIR, else beside FILE, on a disk. Credentials, region and endpoint of\n"
    "S3 come from where AWS tools take them: AWS_ACCESS_KEY_ID, AWS_PROFILE, "
    "~/.aws/credentials...\n"
    "SHARD_S3_CONNECTIONS (32) is how many requests are made at a time.\n";

enum {
  OPT_ROOT = 240,
  OPT_UNIQUE,
  OPT_KEEP,
  OPT_AFTER,
  OPT_BEFORE,
  OPT_ANONYMOUS,
  OPT_NO_REPLACE,
  OPT_SHARE,
  OPT_WAIT,
  OPT_ORDER = 256,
  OPT_INCLUDE,
  OPT_OPTIONS,
  OPT_NO_ATTRIBUTES,
  OPT_QUIET,
  OPT_JSON,
  OPT_HELP
};

static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                        {"order", required_argument, NULL, OPT_ORDER},
                                        {"root", required_argument, NULL, OPT_ROOT},
                                        {"unique", no_argument, NULL, OPT_UNIQUE},
                                        {"keep-order", no_argument, NULL, OPT_KEEP},
                                        {"start-after", required_argument, NULL, OPT_AFTER},
                                        {"end-before", required_argument, NULL, OPT_BEFORE},
                                        {"no-sign-request", no_argument, NULL, OPT_ANONYMOUS},
                                        {"no-replace", no_argument, NULL, OPT_NO_REPLACE},
                                        {"include", required_argument, NULL, OPT_INCLUDE},
                                        {"share", required_argument, NULL, OPT_SHARE},
                                        {"wait", required_argument, NULL, OPT_WAIT},
                                        {"options", required_argument, NULL, OPT_OPTIONS},
                                        {"no-attributes", no_argument, NULL, OPT_NO_ATTRIBUTES},
                                        {"quiet", no_argument, NULL, OPT_QUIET},
                                        {"json", no_argument, NULL, OPT_JSON},
                                        {"help", no_argument, NULL, OPT_HELP},
                                        {NULL, 0, NULL, 0}};

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void ctl_build_means(struct shard_build_means *means) {
  const struct shard_config *config = shard_config();
  *means = (struct shard_build_means){.memory = (size_t)config->build_memory,
                                      .tmpdir = config->tmpdir,
                                      .progress = isatty(2) || config->log >= SHARD_LOG_INFO};
}

/* Check the listing, and put it into a bucket. */
static int put(const char *file, const char *url, bool only_new) {
  struct shard_listing *l;
  const struct ctl_s3_file one = {.url = url, .file = file};
  int rc = ctl_listing_open(file, &l);
  if (rc == 0) {
    shard_listing_close(l);
  }
  return rc == 0 ? ctl_s3_put(&one, 1, only_new)
                 : ctl_fail("cannot read back the listing for '%.300s': %s", url,
                            shard_listing_strerror(rc));
}

/* Bytes; getrusage tells of what executed this program, too. */
static long peak_memory(void) {
  struct rusage usage_now;
  getrusage(RUSAGE_SELF, &usage_now);
  long kilobytes = usage_now.ru_maxrss;
  FILE *status = fopen("/proc/self/status", "re");
  char line[128];
  while (status && fgets(line, sizeof(line), status)) {
    if (strncmp(line, "VmHWM:", 6) == 0) {
      kilobytes = strtol(line + 6, NULL, 10);
    }
  }
  if (status) {
    fclose(status);
  }
  return kilobytes * 1024;
}

/* Look at what is shared, and get it if it is the one. CTL_DONE and *what, or else. */
static int look(const char *url, const char *source, const struct shard_options *o, double wait,
                const char *output, enum ctl_shared *what, struct shard_build_result *result) {
  struct shard_listing *l;
  char *canonical = NULL;
  int rc = ctl_s3_object(url);
  if (rc == CTL_DONE && shard_s3_is_url(source)) {
    rc = ctl_s3_source(source, &canonical);
  } else if (rc == CTL_DONE && !(canonical = realpath(source, NULL))) {
    rc = ctl_fail("cannot find directory '%.300s': %s", source, strerror(errno));
  }
  if (rc != CTL_DONE) {
    return rc;
  }
  rc = ctl_share_look(url, canonical, o, wait, output, what);
  free(canonical);
  if (rc == CTL_DONE && *what == CTL_SHARE_HERE && shard_listing_open(output, &l) == 0) {
    struct shard_listing_info info;
    shard_listing_info(l, &info);
    result->entries = info.entries;
    result->directories = l->header->directories;
    result->bytes = l->map_size;
    snprintf(result->digest, sizeof(result->digest), "%s", info.digest);
    shard_listing_close(l);
  }
  return rc;
}

/* *scratch: a folder that is to be removed in the end. */
static int run(int argc, char **argv, struct ctl_scratch *scratch) {
  const char *output = NULL, *target = NULL, *order = NULL, *include = NULL, *words = NULL;
  const char *share = NULL, *wait = NULL;
  int json = 0, attributes = 1, quiet = 0, c;
  int unique = 0, keep = 0, texts = 0;
  bool only_new = false;
  struct ctl_s3 s3 = {0};
  struct shard_text_options text = {.separator = '\n'};
  while ((c = getopt_long(argc, argv, "o:0h", options, NULL)) != -1) {
    switch (c) {
    case 'o':
      output = optarg;
      break;
    case '0':
      text.separator = 0;
      texts = 1;
      break;
    case OPT_ROOT:
      text.root = optarg;
      texts = 1;
      break;
    case OPT_UNIQUE:
      unique = texts = 1;
      break;
    case OPT_KEEP:
      keep = texts = 1;
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
    case OPT_NO_REPLACE:
      only_new = true;
      break;
    case OPT_SHARE:
      share = optarg;
      break;
    case OPT_WAIT:
      wait = optarg;
      break;
    case OPT_ORDER:
      order = optarg;
      break;
    case OPT_INCLUDE:
      include = optarg;
      break;
    case OPT_OPTIONS:
      words = optarg;
      break;
    case OPT_NO_ATTRIBUTES:
      attributes = 0;
      break;
    case OPT_QUIET:
      quiet = 1;
      break;
    case OPT_JSON:
      json = 1;
      break;
    case OPT_HELP:
    case 'h':
      fputs(usage, stdout);
      return ctl_finish();
    default:
      return CTL_USAGE;
    }
  }
  if (argc - optind != 1 || !output) {
    return ctl_usage("index takes one source and -o FILE; see shardctl index --help");
  }
  struct shard_options o;
  char err[700];
  if (shard_options_parse(&o, words ? words : "attributes=1", err, sizeof(err)) != 0) {
    return ctl_usage("%s", err);
  }
  o.attributes = o.attributes && attributes;
  if (order) {
    if (strcmp(order, "path") != 0 && strcmp(order, "basename") != 0 &&
        strcmp(order, "directory") != 0) {
      return ctl_usage("--order takes path, basename or directory, not '%s'", order);
    }
    o.order = strcmp(order, "path") == 0       ? SHARD_ORDER_PATH
              : strcmp(order, "basename") == 0 ? SHARD_ORDER_BASENAME
                                               : SHARD_ORDER_DIRECTORY;
  }
  if (include) {
    if (strlen(include) >= sizeof(o.include)) {
      return ctl_usage("--include is too long");
    }
    snprintf(o.include, sizeof(o.include), "%s", include);
  }
  const char *source = argv[optind];
  bool bucket = shard_s3_is_url(source);
  if (!bucket && (s3.start_after || s3.end_before || s3.anonymous)) {
    return ctl_usage("--start-after, --end-before and --no-sign-request are for s3://, not '%s'",
                     source);
  }
  if (only_new && !shard_s3_is_url(output)) {
    return ctl_usage("--no-replace is for -o s3://..., not '%s'", output);
  }
  char *end = NULL;
  double seconds_left = wait ? strtod(wait, &end) : -1;
  if (wait && (!share || end == wait || *end || !(seconds_left >= 0 && seconds_left <= 1e6))) {
    return ctl_usage("--wait goes with --share and takes seconds, 0 to 1000000, not '%s'", wait);
  }
  struct stat st;
  if (share && (shard_s3_is_url(output) || texts || s3.start_after || s3.end_before ||
                (!bucket && (stat(source, &st) != 0 || !S_ISDIR(st.st_mode))))) {
    return ctl_usage(
        "--share is for a directory or a whole prefix of a bucket, and a FILE; '%s' is "
        "none of these, or an option goes not with it",
        source);
  }
  target = output;
  static char made[PATH_MAX];
  if (shard_s3_is_url(output)) {
    int named = ctl_s3_object(output);
    if (named != CTL_DONE) {
      return named;
    }
    if (ctl_scratch_make(scratch) != CTL_DONE) {
      return CTL_FAILED;
    }
    snprintf(made, sizeof(made), "%s/listing", scratch->path);
    output = made;
  }
  if (shard_whole_may_replace(output) != 0) {
    return ctl_fail("cannot write listing '%s': it is not a regular file; a listing appears whole, "
                    "under a name of its own",
                    output);
  }
  struct shard_build_result result = {0};
  struct shard_build_means means;
  ctl_build_means(&means);
  means.progress = means.progress && !quiet;
  means.unique = unique;
  double begin = seconds();
  int rc = 0;
  enum ctl_shared shared = CTL_SHARE_APART;
  if (share && (rc = look(share, source, &o, seconds_left, output, &shared, &result)) != CTL_DONE) {
    return rc;
  }
  if (shared == CTL_SHARE_HERE) {
    rc = 0;
  } else if (bucket && !texts) {
    int listed = ctl_s3_build(source, &s3, &o, &means, output, &result);
    if (listed != CTL_DONE) {
      return listed;
    }
  } else if (!bucket &&
             (strcmp(source, "-") == 0 || (stat(source, &st) == 0 && !S_ISDIR(st.st_mode)))) {
    if (unique && o.order == SHARD_ORDER_DIRECTORY) {
      return ctl_usage("--order directory keeps names that come more often; sort -u drops them");
    }
    if (include || (keep && (unique || order))) {
      return ctl_usage(include ? "--include is for directories; sift the text with grep"
                               : "--keep-order goes neither with --unique nor with --order");
    }
    struct shard_listing *l;
    if (shard_listing_open(source, &l) == 0) {
      shard_listing_close(l);
      return ctl_fail("'%s' is a listing already", source);
    }
    o.order = keep ? SHARD_ORDER_KEEP : o.order;
    o.attributes =
        o.attributes && (o.order == SHARD_ORDER_PATH || o.order == SHARD_ORDER_DIRECTORY);
    rc = shard_text_build(source, &text, &o, &means, output, &result, err, sizeof(err));
  } else if (texts) {
    return ctl_usage("-0, --root, --unique and --keep-order are for text files, and '%s' is none",
                     source);
  } else if (o.order == SHARD_ORDER_DIRECTORY) {
    return ctl_usage("--order directory is for text files, and '%s' is none", source);
  } else {
    rc = shard_directory_build(source, &o, &means, output, &result, err, sizeof(err));
  }
  if (rc != 0) {
    return ctl_fail("%s", err);
  }
  if (output != target && (rc = put(made, target, only_new)) != CTL_DONE) {
    return rc;
  }
  if (shared == CTL_SHARE_PUT && (rc = put(output, share, false)) != CTL_DONE) {
    unlink(output); /* nobody shares it */
    return rc;
  }
  double took = seconds() - begin;
  if (json) {
    fputs("{\"source\": ", stdout);
    ctl_json_string(stdout, source);
    fputs(", \"file\": ", stdout);
    ctl_json_string(stdout, target);
    printf(", \"entries\": %llu, \"directories\": %llu, \"bytes\": %llu, \"seconds\": %.6f, "
           "\"peak_rss\": %ld, \"digest\": \"%s\"",
           (unsigned long long)result.entries, (unsigned long long)result.directories,
           (unsigned long long)result.bytes, took, peak_memory(), result.digest);
    if (bucket) {
      printf(", \"markers\": %llu, \"requests\": %llu, \"retries\": %llu",
             (unsigned long long)s3.markers, (unsigned long long)s3.requests,
             (unsigned long long)s3.retries);
    }
    puts("}");
  } else {
    printf("%llu entries, %llu bytes, %.3f s\n", (unsigned long long)result.entries,
           (unsigned long long)result.bytes, took);
  }
  return ctl_finish();
}

int ctl_index(int argc, char **argv) {
  struct ctl_scratch scratch = {0};
  int rc = run(argc, argv, &scratch);
  ctl_scratch_remove(&scratch);
  return rc;
}
