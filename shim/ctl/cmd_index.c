/* SPDX-License-Identifier: MIT */
/* cmd_index.c - shardctl index: a listing of a directory tree, a bucket, or lists that exist. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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
#include "build/spool.h"
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
#include "source/forms.h"
#include "source/inventory.h"
#include "source/s3/s3.h"
#include "source/text.h"

enum source { FROM_DIRECTORY, FROM_TEXT, FROM_BUCKET };

static struct {
  const char *root, *from;
  bool unique, keep_order, only_new, no_attributes, quiet, no_check;
  /* What follows from them. */
  const char *path; /* of the source, or of the first */
  char **paths;     /* of several; malloc'd, as its texts are, if they are a folder's */
  size_t count;
  enum shard_text_form form;
  struct shard_inventory inventory;
  struct shard_text_told told;
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
                                         {"from", .text = &x.from},
                                         {"no-check", .flag = &x.no_check},
                                         {"unique", .flag = &x.unique},
                                         {"keep-order", .flag = &x.keep_order},
                                         {"no-replace", .flag = &x.only_new},
                                         {"no-attributes", .flag = &x.no_attributes},
                                         {"quiet", .flag = &x.quiet},
                                         CTL_ROW_END};

/* ---- what was asked for ------------------------------------------------- */

/* Whether an option was given that only a text has. */
static bool is_about_texts(void) {
  return x.root || x.unique || x.keep_order || x.no_check || ctl_given.nul;
}

static enum source kind_of_source(const char *path) {
  struct stat st;
  if (x.from || x.count > 1) {
    return FROM_TEXT;
  }
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
  if (x.source != FROM_BUCKET && (limited || (ctl_given.anonymous && !shard_s3_url_is(x.path)))) {
    return ctl_usage("--start-after, --end-before and --no-sign-request are for s3://, not '%s'",
                     x.path);
  }
  if (x.only_new && !x.remote) {
    return ctl_usage("--no-replace is for -o s3://..., not '%s'", ctl_given.output);
  }
  return CTL_DONE;
}

/* The forms that --from names. */
static int choose_form(void) {
  static const char *const forms[] = {"text", "dwalk", "s3-inventory"};
  size_t i = 0;
  while (x.from && i < 3 && strcmp(x.from, forms[i]) != 0) {
    i++;
  }
  if (i == 3) {
    return ctl_usage("--from takes text, dwalk or s3-inventory, not '%s'", x.from);
  }
  x.form = (enum shard_text_form)i;
  bool attributes = x.options.attributes && x.options.order != SHARD_ORDER_BASENAME;
  if (i > 0 && (ctl_given.nul || x.keep_order || x.options.order == SHARD_ORDER_DIRECTORY)) {
    return ctl_usage("--from %s goes with none of -0, --keep-order and --order directory", x.from);
  }
  if (x.form == SHARD_TEXT_DWALK && x.root && !x.no_check && !attributes) {
    return ctl_usage("--from dwalk compares directories, which the listing needs for that: without "
                     "--no-attributes and --order basename, or with --no-check");
  }
  struct stat st;
  size_t inputs = 0;
  for (size_t k = 0; x.count > 1 && k < x.count; k++) {
    inputs += strcmp(x.paths[k], "-") == 0;
    if (shard_s3_url_is(x.paths[k]) || (stat(x.paths[k], &st) == 0 && S_ISDIR(st.st_mode))) {
      return ctl_usage("'%s' is no list, and only lists may be several sources", x.paths[k]);
    }
  }
  if (inputs > 1) {
    return ctl_usage("standard input may be one of the sources only");
  }
  if (x.form == SHARD_TEXT_INVENTORY && x.count > 1) {
    return ctl_usage("--from s3-inventory takes one manifest.json");
  }
  return CTL_DONE;
}

static int take_file(const struct dirent *e) { return e->d_name[0] != '.'; }

/* With --from, a directory is a folder of parts. CTL_DONE, or CTL_FAILED after a message. */
static int open_folder(void) {
  struct stat st;
  struct dirent **found;
  if (!x.from || x.count > 1 || stat(x.path, &st) != 0 || !S_ISDIR(st.st_mode)) {
    return CTL_DONE;
  }
  int n = scandir(x.path, &found, take_file, alphasort), rc = CTL_DONE;
  x.paths = calloc((size_t)(n < 0 ? 0 : n) + 1, sizeof(*x.paths));
  for (int i = 0; i < n; i++) {
    if (!x.paths || asprintf(&x.paths[i], "%s/%s", x.path, found[i]->d_name) < 0) {
      rc = ctl_fail("out of memory");
    } else if (rc == CTL_DONE && (stat(x.paths[i], &st) != 0 || !S_ISREG(st.st_mode))) {
      rc = ctl_fail("'%s' is no regular file; a folder of parts has nothing else", x.paths[i]);
    }
    free(found[i]);
  }
  x.count = n < 0 ? 0 : (size_t)n;
  if (n > 0) {
    free(found);
  }
  return rc != CTL_DONE ? rc
         : n < 0        ? ctl_fail("cannot read folder '%s': %s", x.path, strerror(errno))
         : n == 0       ? ctl_fail("folder '%s' has no part", x.path)
                        : CTL_DONE;
}

static int check_text(void) {
  struct shard_options *o = &x.options;
  if (x.count > 1 && (x.keep_order || o->order == SHARD_ORDER_DIRECTORY)) {
    return ctl_usage("--keep-order and --order directory take one text");
  }
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

/* ---- an S3 Inventory ---- */

/* Open a file, or an object in an unnamed one. A descriptor, or a negative errno and a line. */
static int open_any(const char *path, uint64_t most, char *err, size_t size) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* accounts are read by one thread */
  bool object = shard_s3_url_is(path);
  int fd =
      object ? shard_spool_open_unnamed(ctl_scratch_parent()) : open(path, O_RDONLY | O_CLOEXEC);
  int rc = fd >= 0 ? 0
                   : shard_error_set(err, size, -errno, "cannot open '%.300s': %s",
                                     object ? ctl_scratch_parent() : path, strerror(errno));
  if (rc == 0 && object) {
    pthread_mutex_lock(&mutex);
    rc = ctl_buckets_fetch(path, most, fd, err, size);
    pthread_mutex_unlock(&mutex);
    (void)lseek(fd, 0, SEEK_SET);
  }
  if (rc != 0) {
    shard_file_close(fd);
  }
  return rc ? rc : fd;
}

/* A part of the inventory. */
static int open_part(void *none, const struct shard_inventory_part *part, char *err, size_t size) {
  char url[2 * PATH_MAX];
  (void)none;
  snprintf(url, sizeof(url), "s3://%s/%s", x.inventory.destination, part->key);
  if (!shard_s3_url_is(x.path)) {
    return shard_inventory_open(x.path, part, err, size);
  }
  int fd = open_any(url, part->size ? part->size : 1, err, size);
  size_t n = fd == -ENOENT ? strlen(err) : size;
  if (n < size) {
    snprintf(err + n, size - n,
             "; of an inventory whose prefix ends in '/', the keys lack one of two");
  }
  return fd;
}

/* Read the manifest.json x.path, and check it by the manifest.checksum beside it, if that is there.
 * 0, or a negative errno and a line. */
static int read_manifest(char *err, size_t size) {
  char name[PATH_MAX], sum[33] = "";
  const char *slash = strrchr(x.path, '/');
  size_t n = 0;
  int fd = open_any(x.path, SHARD_INVENTORY_MOST, err, size), rc = fd < 0 ? fd : 0;
  snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
  char *text = rc == 0 ? shard_file_read(name, &n) : NULL;
  if (rc == 0 && !text) {
    rc = shard_error_set(err, size, -errno, "cannot read '%.300s': %s", x.path, strerror(errno));
  }
  if (rc == 0) {
    snprintf(name, sizeof(name), "%.*smanifest.checksum", slash ? (int)(slash + 1 - x.path) : 0,
             x.path);
    int beside = open_any(name, 4096, err, size);
    bool told = beside >= 0 && read(beside, sum, 32) >= 0;
    shard_file_close(beside);
    rc = told                ? shard_inventory_check(fd, x.path, sum, n, err, size)
         : beside == -ENOENT ? 0
                             : beside;
  }
  if (rc == 0 && (rc = shard_inventory_parse(text, n, &x.inventory, name, sizeof(name))) != 0) {
    shard_error_set(err, size, rc, "'%.300s' %.900s", x.path, name);
  }
  shard_file_close(fd);
  free(text);
  return rc;
}

/* CTL_DONE, or CTL_FAILED after a message. */
static int open_inventory(void) {
  char err[1300];
  if (read_manifest(err, sizeof(err)) != 0) {
    return *err ? ctl_fail("%s", err) : CTL_FAILED; /* that is said already */
  }
  if (!x.root) {
    static char root[300];
    snprintf(root, sizeof(root), "s3://%s/", x.inventory.bucket);
    x.root = root;
  }
  size_t length = strlen(x.inventory.bucket);
  if (strncmp(x.root, "s3://", 5) != 0 || strncmp(x.root + 5, x.inventory.bucket, length) != 0 ||
      (x.root[5 + length] && x.root[5 + length] != '/')) {
    return ctl_fail("--root '%s': '%s' is an inventory of s3://%s/", x.root, x.path,
                    x.inventory.bucket);
  }
  x.count = x.inventory.count;
  return CTL_DONE;
}

/* ---- of texts ---- */

static int build_text(struct shard_build_result *result) {
  char err[2000];
  struct shard_text_options how = {.separator = ctl_given.nul ? 0 : '\n',
                                   .unchecked = x.no_check,
                                   .unique = x.unique,
                                   .unpacked_max = SHARD_MANIFEST_MOST,
                                   .form = x.form,
                                   .said = x.from != NULL};
  bool inventory = x.form == SHARD_TEXT_INVENTORY;
  int rc = inventory ? open_inventory() : open_folder();
  rc = rc == CTL_DONE ? check_text() : rc;
  if (rc != CTL_DONE) {
    return rc;
  }
  how.root = x.root;
  how.inventory = inventory ? &x.inventory : NULL;
  how.open = open_part;
  const char *const *texts = inventory ? x.inventory.keys : (const char *const *)x.paths;
  if (shard_text_build(texts, x.count, &how, &x.options, x.file, result, &x.told, err,
                       sizeof(err)) != 0) {
    return ctl_fail("%s", err);
  }
  const struct {
    uint64_t n;
    const char *what;
  } left[] = {{x.told.markers, "keys that end in '/' (directory markers)"},
              {x.told.outside, "names outside of --root"},
              {x.told.versions, "older versions and delete markers"}};
  for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
    if (left[i].n > 0) {
      ctl_note("%llu %s were left out", (unsigned long long)left[i].n, left[i].what);
    }
  }
  return CTL_DONE;
}

static int build(struct shard_build_result *result) {
  char err[700];
  int rc;
  if (x.quiet) {
    shard_progress_allow(false);
  }
  if (x.source == FROM_TEXT) {
    return build_text(result);
  }
  if (is_about_texts() && x.source != FROM_BUCKET && access(x.path, F_OK) != 0) {
    return ctl_fail("cannot open list '%.300s': %s", x.path, strerror(errno));
  } else if (is_about_texts()) {
    return ctl_usage(
        "-0, --root, --unique, --no-check and --keep-order are for text files, and '%s' is none",
        x.path);
  } else if (x.source == FROM_BUCKET) {
    return ctl_buckets_build(x.path, &x.s3, &x.options, x.file, result);
  } else if (x.options.order == SHARD_ORDER_DIRECTORY) {
    return ctl_usage("--order directory is for text files, and '%s' is none", x.path);
  } else if (strstr(x.path, "://") && access(x.path, F_OK) != 0) {
    return ctl_fail("index lists no URL but s3://; of '%.300s' give it the names: shardctl index - "
                    "--root URL",
                    x.path);
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
  if (x.source == FROM_TEXT) {
    ctl_json_add_number(o, "markers", x.told.markers);
    ctl_json_add_number(o, "outside", x.told.outside);
    ctl_json_add_number(o, "versions", x.told.versions);
  }
  return ctl_json_print(o, stdout);
}

static int run(char **operands) {
  struct shard_build_result result = {0};
  x.path = operands[0];
  x.paths = operands;
  while (operands[x.count]) {
    x.count++;
  }
  x.source = kind_of_source(x.path);
  x.remote = shard_s3_url_is(ctl_given.output);
  int rc = choose_options();
  rc = rc == CTL_DONE ? choose_form() : rc;
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
  shard_inventory_free(&x.inventory);
  return rc;
}

const struct ctl_command ctl_cmd_index = {ctl_help_index, rows, CTL_SOME,
                                          "one source, or several lists, and -o FILE", run};
