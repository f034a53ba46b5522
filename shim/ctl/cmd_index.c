/* SPDX-License-Identifier: MIT */
/* cmd_index.c - shardctl index: a listing of a directory tree, a text or a bucket. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/filesystem.h"
#include "base/whole.h"
#include "build/build.h"
#include "build/progress.h"
#include "config/config.h"
#include "ctl/arguments.h"
#include "ctl/buckets.h"
#include "ctl/ctl.h"
#include "ctl/json.h"
#include "ctl/opening.h"
#include "ctl/scratch.h"
#include "libshard.h"
#include "listing/codec.h"
#include "listing/listing.h"
#include "listing/options.h"
#include "source/directory.h"
#include "source/s3/s3.h"
#include "source/text.h"

enum source { FROM_DIRECTORY, FROM_TEXT, FROM_BUCKET };

static struct {
  const char *root;
  bool unique, keep_order, only_new, no_attributes, quiet;
  /* What follows from them. */
  const char *path; /* of the source */
  enum source source;
  const char *file; /* where the listing is made: --output, or in scratch */
  bool remote;      /* --output is an object */
  struct shard_options options;
  struct ctl_buckets s3;
  struct ctl_scratch scratch;
} x;

static const struct ctl_option rows[] = {CTL_ROW_OUTPUT,
                                         CTL_ROW_ORDER,
                                         CTL_ROW_SAMPLE,
                                         CTL_ROW_INCLUDE,
                                         CTL_ROW_WORDS,
                                         CTL_ROW_AFTER,
                                         CTL_ROW_BEFORE,
                                         CTL_ROW_UNSIGNED,
                                         CTL_ROW_NUL,
                                         CTL_ROW_JSON,
                                         {"root", .text = &x.root},
                                         {"unique", .flag = &x.unique},
                                         {"keep-order", .flag = &x.keep_order},
                                         {"no-replace", .flag = &x.only_new},
                                         {"no-attributes", .flag = &x.no_attributes},
                                         {"quiet", .flag = &x.quiet},
                                         CTL_ROW_END};

/* ---- what was asked for ------------------------------------------------- */

/* Whether an option was given that only a text has. */
static bool is_about_texts(void) { return x.root || x.unique || x.keep_order || ctl_given.nul; }

static enum source kind_of_source(const char *path) {
  struct stat st;
  if (shard_s3_url_is(path)) {
    return FROM_BUCKET;
  }
  bool text = strcmp(path, "-") == 0 || (stat(path, &st) == 0 && !S_ISDIR(st.st_mode));
  return text ? FROM_TEXT : FROM_DIRECTORY; /* one that does not exist is refused as that */
}

/* What the listing is to contain. */
static int choose_options(void) {
  struct shard_options *o = &x.options;
  char err[700];
  if (shard_options_parse(o, ctl_given.words ? ctl_given.words : "attributes=1", err,
                          sizeof(err)) != 0) {
    return ctl_usage("%s", err);
  }
  o->attributes = o->attributes && !x.no_attributes;
  if (ctl_given.order && !shard_options_parse_order(o, ctl_given.order, strlen(ctl_given.order))) {
    return ctl_usage("--order takes path, basename or directory, not '%s'", ctl_given.order);
  }
  if (ctl_given.sample && o->order != SHARD_ORDER_PATH) {
    return ctl_usage("--sample goes with the order of paths only");
  }
  if (ctl_given.sample_text) {
    shard_options_set_sample(o, ctl_given.sample);
  }
  if (ctl_given.include) {
    if (strlen(ctl_given.include) >= sizeof(o->include)) {
      return ctl_usage("--include is too long");
    }
    strcpy(o->include, ctl_given.include);
  }
  return CTL_DONE;
}

/* Options that go with some sources and outputs only. */
static int check_buckets(void) {
  bool limited = ctl_given.start_after || ctl_given.end_before;
  if (x.source != FROM_BUCKET && (limited || ctl_given.anonymous)) {
    return ctl_usage("--start-after, --end-before and --no-sign-request are for s3://, not '%s'",
                     x.path);
  }
  if (x.only_new && !x.remote) {
    return ctl_usage("--no-replace is for -o s3://..., not '%s'", ctl_given.output);
  }
  return CTL_DONE;
}

static int check_text(void) {
  struct shard_options *o = &x.options;
  if (x.unique && o->order == SHARD_ORDER_DIRECTORY) {
    return ctl_usage("--order directory keeps names that come more often; sort -u drops them");
  }
  if (ctl_given.include) {
    return ctl_usage("--include is for directories; sift the text with grep");
  }
  if (o->depth || o->exact || o->follow || !o->hidden || o->include[0]) {
    return ctl_usage("of --options, only order and attributes are for texts; sift the text with "
                     "grep");
  }
  if (x.keep_order && (x.unique || ctl_given.order || o->sample)) {
    return ctl_usage("--keep-order goes with none of --unique, --order and --sample");
  }
  struct shard_listing *l;
  if (shard_listing_open(x.path, &l) == 0) {
    shard_listing_close(l);
    return ctl_fail("'%s' is a listing already", x.path);
  }
  o->order = x.keep_order ? (uint32_t)SHARD_ORDER_KEEP : o->order;
  o->attributes = o->attributes && o->order != SHARD_ORDER_BASENAME && o->order != SHARD_ORDER_KEEP;
  return CTL_DONE;
}

/* ---- making it ---------------------------------------------------------- */

/* Where the listing is made: in its place, or in a temporary folder for a bucket. */
static int choose_file(void) {
  static char made[PATH_MAX];
  x.file = ctl_given.output;
  if (x.remote) {
    int rc = ctl_buckets_object(ctl_given.output);
    rc = rc == CTL_DONE ? ctl_scratch_make(&x.scratch) : rc;
    if (rc != CTL_DONE) {
      return rc;
    }
    snprintf(made, sizeof(made), "%s/listing", x.scratch.path);
    x.file = made;
  }
  return shard_whole_may_replace(x.file) == 0
             ? CTL_DONE
             : ctl_fail("cannot write listing '%s': it is not a regular file; a listing appears "
                        "whole, under a name of its own",
                        x.file);
}

/* Nobody will be able to tell whether the listing is true. */
static void warn_of_fuse(void) {
  struct statfs fs;
  if (!x.quiet && statfs(x.path, &fs) == 0 && fs.f_type == SHARD_FILESYSTEM_FUSE) {
    ctl_warn(
        "'%s' is on FUSE, whose inodes and times may be invented: SHARD_LISTING is not checked "
        "there, so make the listing anew when the directory changes",
        x.path);
  }
}

static int build(struct shard_build_result *result) {
  char err[700];
  int rc;
  if (x.quiet) {
    shard_progress_allow(false);
  }
  if (x.source == FROM_TEXT) {
    struct shard_text_options how = {.separator = ctl_given.nul ? 0 : '\n',
                                     .root = x.root,
                                     .unique = x.unique,
                                     .unpacked_max = SHARD_MANIFEST_MOST};
    rc = check_text();
    if (rc != CTL_DONE) {
      return rc;
    }
    rc = shard_text_build(x.path, &how, &x.options, x.file, result, err, sizeof(err));
  } else if (is_about_texts()) {
    return ctl_usage("-0, --root, --unique and --keep-order are for text files, and '%s' is none",
                     x.path);
  } else if (x.source == FROM_BUCKET) {
    return ctl_buckets_build(x.path, &x.s3, &x.options, x.file, result);
  } else if (x.options.order == SHARD_ORDER_DIRECTORY) {
    return ctl_usage("--order directory is for text files, and '%s' is none", x.path);
  } else {
    rc = shard_directory_build(x.path, &x.options, x.file, result, err, sizeof(err));
    warn_of_fuse();
  }
  return rc == 0 ? CTL_DONE : ctl_fail("%s", err);
}

/* Check the listing, and put it into a bucket. */
static int put(void) {
  struct shard_listing *l;
  const struct ctl_buckets_file one = {.url = ctl_given.output, .file = x.file};
  int rc = ctl_opening_checked(x.file, &l);
  if (rc != 0) {
    return ctl_fail("cannot read back the listing for '%.300s': %s", ctl_given.output,
                    shard_listing_strerror(rc));
  }
  shard_listing_close(l);
  return ctl_buckets_put(&one, 1, x.only_new);
}

/* ---- telling of it ------------------------------------------------------ */

/* Bytes; getrusage() would tell of what executed this program, too. */
static uint64_t peak_memory(void) {
  size_t n;
  char *status = shard_file_read("/proc/self/status", &n);
  const char *line = status ? strstr(status, "\nVmHWM:") : NULL;
  uint64_t kilobytes = line ? strtoull(line + 7, NULL, 10) : 0;
  free(status);
  return kilobytes * 1024;
}

static int print_result(const struct shard_build_result *result, double seconds) {
  if (!ctl_given.json) {
    printf("%llu entries, %llu bytes, %.3f s\n", (unsigned long long)result->entries,
           (unsigned long long)result->bytes, seconds);
    return CTL_DONE;
  }
  struct json_object *o = ctl_json_object();
  ctl_json_add_text(o, "source", x.path);
  ctl_json_add_text(o, "file", ctl_given.output);
  ctl_json_add_number(o, "entries", result->entries);
  ctl_json_add_number(o, "directories", result->directories);
  ctl_json_add_number(o, "bytes", result->bytes);
  ctl_json_add_decimal(o, "seconds", seconds, 6);
  ctl_json_add_number(o, "peak_rss", peak_memory());
  ctl_json_add_text(o, "digest", result->digest);
  if (x.source == FROM_BUCKET) {
    ctl_json_add_number(o, "markers", x.s3.markers);
    ctl_json_add_number(o, "requests", x.s3.requests);
    ctl_json_add_number(o, "retries", x.s3.retries);
  }
  return ctl_json_print(o, stdout);
}

static int run(char **operands) {
  struct shard_build_result result = {0};
  x.path = operands[0];
  x.source = kind_of_source(x.path);
  x.remote = shard_s3_url_is(ctl_given.output);
  int rc = choose_options();
  rc = rc == CTL_DONE ? check_buckets() : rc;
  rc = rc == CTL_DONE ? choose_file() : rc;
  double begin = shard_clock_seconds();
  rc = rc == CTL_DONE ? build(&result) : rc;
  rc = rc == CTL_DONE && x.remote ? put() : rc;
  if (rc == CTL_DONE) {
    ctl_opening_warn_of_tables(x.path, x.quiet ? 0 : result.tables);
    rc = print_result(&result, shard_clock_seconds() - begin);
  }
  ctl_scratch_remove(&x.scratch);
  return rc;
}

const struct ctl_command ctl_cmd_index = {ctl_help_index, rows, CTL_ONE, "one source and -o FILE",
                                          run};
