/* SPDX-License-Identifier: MIT */
/* cmd_index.c - shardctl index: makes a listing of a directory tree, a bucket, or existing lists.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/file.h"
#include "build/build.h"
#include "build/progress.h"
#include "build/spool.h"
#include "config/config.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/json.h"
#include "ctl/open_listing.h"
#include "ctl/s3.h"
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
  bool unique, keep_order, no_attributes, quiet, no_check;
  /* What follows from the options and operands. */
  const char *path; /* of the first source */
  char **paths;     /* of all sources; malloc'd, as its texts are, of a folder's */
  size_t count;
  enum shard_text_form form;
  struct shard_inventory inventory;
  struct shard_text_told told;
  enum source source;
  struct shard_options options;
  struct ctl_s3_counts s3;
} request;

static const struct ctl_option rows[] = {CTL_ROW_OUTPUT,
                                         CTL_ROW_ORDER,
                                         CTL_ROW_SAMPLE,
                                         CTL_ROW_INCLUDE,
                                         CTL_ROW_WORDS,
                                         CTL_ROW_UNSIGNED,
                                         CTL_ROW_NUL,
                                         CTL_ROW_JSON,
                                         {"root", .text = &request.root},
                                         {"from", .text = &request.from},
                                         {"no-check", .flag = &request.no_check},
                                         {"unique", .flag = &request.unique},
                                         {"keep-order", .flag = &request.keep_order},
                                         {"no-attributes", .flag = &request.no_attributes},
                                         {"quiet", .flag = &request.quiet},
                                         CTL_ROW_END};

/* ---- what was asked for ------------------------------------------------- */

static enum source kind_of_source(const char *path) {
  struct stat st;
  if (request.from || request.count > 1) {
    return FROM_TEXT;
  }
  if (shard_s3_url_is(path)) {
    return FROM_BUCKET;
  }
  bool about_texts =
      request.root || request.unique || request.keep_order || request.no_check || ctl_args.nul;
  bool text = strcmp(path, "-") == 0 || (stat(path, &st) == 0 ? !S_ISDIR(st.st_mode) : about_texts);
  return text ? FROM_TEXT : FROM_DIRECTORY; /* a missing path is reported as a directory */
}

/* Read the options that tell which names the listing has, and the form of lists. */
static int choose_options(void) {
  static const char *const forms[] = {"text", "dwalk", "s3-inventory"};
  struct shard_options *o = &request.options;
  char err[700];
  if (shard_options_parse(o, ctl_args.words ? ctl_args.words : "attributes=1", err, sizeof(err)) !=
      0) {
    return ctl_usage("%s", err);
  }
  if (ctl_args.order && !shard_options_parse_order(o, ctl_args.order, strlen(ctl_args.order))) {
    return ctl_usage("--order takes path, basename or directory, not '%s'", ctl_args.order);
  }
  if (ctl_args.include && strlen(ctl_args.include) >= sizeof(o->include)) {
    return ctl_usage("--include is too long");
  }
  while (request.from && request.form < 3 && strcmp(request.from, forms[request.form]) != 0) {
    request.form++;
  }
  if (request.form == 3) {
    return ctl_usage("--from takes text, dwalk or s3-inventory, not '%s'", request.from);
  }
  return CTL_DONE;
}

static int is_part(const struct dirent *e) { return e->d_name[0] != '.'; }

/* With --from, a directory is a folder of parts. Returns an exit status. */
static int open_folder(void) {
  struct stat st;
  struct dirent **found = NULL;
  if (!request.from || request.form == SHARD_TEXT_INVENTORY || request.count > 1 ||
      stat(request.path, &st) != 0 || !S_ISDIR(st.st_mode)) {
    return CTL_DONE;
  }
  int n = scandir(request.path, &found, is_part, alphasort), rc = CTL_DONE;
  if (n <= 0) {
    free(found);
    return ctl_fail("folder '%s' has no part: %s", request.path, n < 0 ? strerror(errno) : "empty");
  }
  request.count = (size_t)n;
  request.paths = calloc(request.count + 1, sizeof(*request.paths));
  for (int i = 0; i < n; i++) {
    if (!request.paths ||
        asprintf(&request.paths[i], "%s/%s", request.path, found[i]->d_name) < 0) {
      rc = ctl_fail("out of memory");
    } else if (rc == CTL_DONE && (stat(request.paths[i], &st) != 0 || !S_ISREG(st.st_mode))) {
      rc =
          ctl_fail("'%s' is no regular file; a folder of parts has nothing else", request.paths[i]);
    }
    free(found[i]);
  }
  free(found);
  return rc;
}

/* Refuse options that do not apply to the kind of source. */
static int check_options(void) {
  enum { DIRECTORY = 1 << FROM_DIRECTORY, TEXT = 1 << FROM_TEXT, BUCKET = 1 << FROM_BUCKET };
  static const char *const kinds[] = {"a directory", "a list", "a bucket"};
  const struct shard_options *o = &request.options;
  bool url = shard_s3_url_is(request.path);
  const struct {
    const char *name;
    bool given;
    int of;
  } options[] = {{"--root", request.root, TEXT},
                 {"-0", ctl_args.nul, TEXT},
                 {"--unique", request.unique, TEXT},
                 {"--no-check", request.no_check, TEXT},
                 {"--keep-order", request.keep_order, TEXT},
                 {"--order directory", o->order == SHARD_ORDER_DIRECTORY, TEXT},
                 {"--include", ctl_args.include, DIRECTORY | BUCKET},
                 {"include of --options", o->include[0], DIRECTORY | BUCKET},
                 {"depth, exact, follow or hidden of --options",
                  o->depth || o->exact || o->follow || !o->hidden, DIRECTORY},
                 {"--no-sign-request", ctl_args.anonymous, url ? TEXT | BUCKET : 0}};
  for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
    if (options[i].given && !(options[i].of & 1 << request.source)) {
      return ctl_usage("%s does not go with '%s', %s", options[i].name, request.path,
                       kinds[request.source]);
    }
  }
  return CTL_DONE;
}

/* Refuse options that do not go together, and sources that are no lists. */
static int check_pairs(void) {
  const struct shard_options *o = &request.options;
  bool by_directory = o->order == SHARD_ORDER_DIRECTORY, several = request.count > 1;
  bool plain = request.no_attributes || !o->attributes || o->order == SHARD_ORDER_BASENAME;
  const struct {
    bool first, other;
    const char *rule;
  } pairs[] = {
      {ctl_args.sample, o->order != SHARD_ORDER_PATH, "--sample goes with --order path only"},
      {request.form > 0, ctl_args.nul || request.keep_order || by_directory,
       "--from dwalk or s3-inventory goes with none of -0, --keep-order and --order directory"},
      {request.form == SHARD_TEXT_DWALK && request.root && !request.no_check, plain,
       "--from dwalk compares directories, which the listing needs for that: without "
       "--no-attributes and --order basename, or with --no-check"},
      {request.form == SHARD_TEXT_INVENTORY, several,
       "--from s3-inventory takes one manifest.json"},
      {several, request.keep_order || by_directory,
       "--keep-order and --order directory take one text"},
      {by_directory, request.unique,
       "--order directory keeps names that come more often; sort -u drops them"},
      {request.keep_order, request.unique || ctl_args.order || ctl_args.sample,
       "--keep-order goes with none of --unique, --order and --sample"}};
  for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
    if (pairs[i].first && pairs[i].other) {
      return ctl_usage("%s", pairs[i].rule);
    }
  }
  struct stat st;
  size_t inputs = 0;
  for (size_t k = 0; request.source == FROM_TEXT && k < request.count; k++) {
    bool object = shard_s3_url_is(request.paths[k]) && request.form != SHARD_TEXT_INVENTORY;
    inputs += strcmp(request.paths[k], "-") == 0;
    if (object || (stat(request.paths[k], &st) == 0 && S_ISDIR(st.st_mode))) {
      return ctl_usage("'%s' is not a list; name the lists themselves", request.paths[k]);
    }
  }
  return inputs > 1 ? ctl_usage("standard input may be one of the sources only") : CTL_DONE;
}

/* Set the options of the listing, once all are checked. */
static void set_options(void) {
  struct shard_options *o = &request.options;
  o->attributes = o->attributes && !request.no_attributes;
  if (ctl_args.sample_text) {
    shard_options_set_sample(o, (enum shard_sample)ctl_args.sample);
  }
  if (ctl_args.include) {
    strcpy(o->include, ctl_args.include);
  }
  if (request.source == FROM_TEXT) {
    o->order = request.keep_order ? (uint32_t)SHARD_ORDER_KEEP : o->order;
    o->attributes =
        o->attributes && o->order != SHARD_ORDER_BASENAME && o->order != SHARD_ORDER_KEEP;
  }
}

/* ---- making it ---------------------------------------------------------- */

/* Check that the listing can be written to a file of that path. Returns an exit status. */
static int check_output(void) {
  const char *file = ctl_args.output;
  if (strstr(file, "://") && access(file, F_OK) != 0) {
    return ctl_usage("-o '%s' is no file; make a file, and copy it (aws s3 cp)", file);
  }
  return shard_atomic_file_may_replace(file) == 0
             ? CTL_DONE
             : ctl_fail("cannot write listing '%s': it is not a regular file; a listing appears "
                        "whole, under a name of its own",
                        file);
}

/* ---- an S3 Inventory ---- */

/* Open a file, or get an object into an unnamed file. Returns a descriptor, or a negative errno and
 * a line. */
static int open_any(const char *path, uint64_t most, char *err, size_t size) {
  static pthread_mutex_t mutex =
      PTHREAD_MUTEX_INITIALIZER; /* only one thread may read an account */
  bool object = shard_s3_url_is(path);
  int fd =
      object ? shard_spool_open_unnamed(ctl_scratch_parent()) : open(path, O_RDONLY | O_CLOEXEC);
  int rc = fd >= 0 ? 0
                   : shard_error_set(err, size, -errno, "cannot open '%.300s': %s",
                                     object ? ctl_scratch_parent() : path, strerror(errno));
  if (rc == 0 && object) {
    pthread_mutex_lock(&mutex);
    rc = ctl_s3_get(path, most, fd, err, size);
    pthread_mutex_unlock(&mutex);
    (void)lseek(fd, 0, SEEK_SET);
  }
  if (rc != 0) {
    shard_file_close(fd);
  }
  return rc ? rc : fd;
}

/* Open a part of the inventory. */
static int open_part(void *none, const struct shard_inventory_part *part, char *err, size_t size) {
  char url[2 * PATH_MAX];
  (void)none;
  snprintf(url, sizeof(url), "s3://%s/%s", request.inventory.destination, part->key);
  if (!shard_s3_url_is(request.path)) {
    return shard_inventory_open(request.path, part, err, size);
  }
  return open_any(url, part->size ? part->size : 1, err, size);
}

/* Read the manifest.json, and check it by the manifest.checksum beside it, if there is one. Returns
 * 0, or a negative errno and a line. */
static int read_manifest(char *err, size_t size) {
  char name[PATH_MAX], sum[33] = "";
  const char *slash = strrchr(request.path, '/');
  size_t n = 0;
  int fd = open_any(request.path, SHARD_INVENTORY_MOST, err, size), rc = fd < 0 ? fd : 0;
  snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
  char *text = rc == 0 ? shard_file_read(name, &n) : NULL;
  if (rc == 0 && !text) {
    rc = shard_error_set(err, size, -errno, "cannot read '%.300s': %s", request.path,
                         strerror(errno));
  }
  if (rc == 0) {
    snprintf(name, sizeof(name), "%.*smanifest.checksum",
             slash ? (int)(slash + 1 - request.path) : 0, request.path);
    int beside = open_any(name, 4096, err, size);
    bool told = beside >= 0 && read(beside, sum, 32) >= 0;
    shard_file_close(beside);
    rc = told                ? shard_inventory_check(fd, request.path, sum, n, err, size)
         : beside == -ENOENT ? 0
                             : beside;
  }
  if (rc == 0 &&
      (rc = shard_inventory_parse(text, n, &request.inventory, name, sizeof(name))) != 0) {
    shard_error_set(err, size, rc, "'%.300s' %.900s", request.path, name);
  }
  shard_file_close(fd);
  free(text);
  return rc;
}

/* Read the inventory, and check that --root is of its bucket. Returns an exit status. */
static int open_inventory(void) {
  char err[1300];
  if (read_manifest(err, sizeof(err)) != 0) {
    return *err ? ctl_fail("%s", err) : CTL_FAILED; /* a message was printed */
  }
  if (!request.root) {
    static char root[300];
    snprintf(root, sizeof(root), "s3://%s/", request.inventory.bucket);
    request.root = root;
  }
  size_t length = strlen(request.inventory.bucket);
  if (strncmp(request.root, "s3://", 5) != 0 ||
      strncmp(request.root + 5, request.inventory.bucket, length) != 0 ||
      (request.root[5 + length] && request.root[5 + length] != '/')) {
    return ctl_fail("--root '%s': '%s' is an inventory of s3://%s/", request.root, request.path,
                    request.inventory.bucket);
  }
  request.count = request.inventory.count;
  return CTL_DONE;
}

/* ---- of texts ---- */

static int build_text(struct shard_build_result *result) {
  char err[2000];
  struct shard_text_options how = {.separator = ctl_args.nul ? 0 : '\n',
                                   .unchecked = request.no_check,
                                   .unique = request.unique,
                                   .unpacked_max = SHARD_MANIFEST_MOST,
                                   .form = request.form,
                                   .said = request.from != NULL};
  bool inventory = request.form == SHARD_TEXT_INVENTORY;
  int rc = inventory ? open_inventory() : CTL_DONE;
  if (rc != CTL_DONE) {
    return rc;
  }
  how.root = request.root;
  how.inventory = inventory ? &request.inventory : NULL;
  how.open = open_part;
  const char *const *texts =
      inventory ? request.inventory.keys : (const char *const *)request.paths;
  if (shard_text_build(texts, request.count, &how, &request.options, ctl_args.output, result,
                       &request.told, err, sizeof(err)) != 0) {
    return ctl_fail("%s", err);
  }
  const struct {
    uint64_t n;
    const char *what;
  } left[] = {{request.told.markers, "keys that end in '/' (directory markers)"},
              {request.told.outside, "names outside of --root"},
              {request.told.versions, "older versions and delete markers"}};
  for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
    if (left[i].n > 0) {
      ctl_note("%llu %s were left out", (unsigned long long)left[i].n, left[i].what);
    }
  }
  return CTL_DONE;
}

static int build(struct shard_build_result *result) {
  char err[700];
  if (request.quiet) {
    shard_progress_allow(false);
  }
  if (request.source == FROM_TEXT) {
    return build_text(result);
  }
  if (request.source == FROM_BUCKET) {
    return ctl_s3_list(request.path, &request.s3, &request.options, ctl_args.output, result);
  }
  if (strstr(request.path, "://") && access(request.path, F_OK) != 0) {
    return ctl_fail("index lists no URL but s3://; of '%.300s' give it the names: shardctl index - "
                    "--root URL",
                    request.path);
  }
  int rc = shard_directory_build(request.path, &request.options, ctl_args.output, result, err,
                                 sizeof(err));
  return rc == 0 ? CTL_DONE : ctl_fail("%s", err);
}

/* ---- the result --------------------------------------------------------- */

/* Returns the peak memory in bytes; getrusage(2) would count what has executed this program, too.
 */
static uint64_t peak_memory(void) {
  size_t n;
  char *status = shard_file_read("/proc/self/status", &n);
  const char *line = status ? strstr(status, "\nVmHWM:") : NULL;
  uint64_t kilobytes = line ? strtoull(line + 7, NULL, 10) : 0;
  free(status);
  return kilobytes * 1024;
}

static int print_result(const struct shard_build_result *result, double seconds) {
  if (!ctl_args.json) {
    printf("%llu entries, %llu bytes, %.3f s\n", (unsigned long long)result->entries,
           (unsigned long long)result->bytes, seconds);
    return CTL_DONE;
  }
  struct json_object *o = ctl_json_object();
  ctl_json_add_text(o, "source", request.path);
  ctl_json_add_text(o, "file", ctl_args.output);
  ctl_json_add_number(o, "entries", result->entries);
  ctl_json_add_number(o, "directories", result->directories);
  ctl_json_add_number(o, "bytes", result->bytes);
  ctl_json_add_decimal(o, "seconds", seconds, 6);
  ctl_json_add_number(o, "peak_rss", peak_memory());
  ctl_json_add_text(o, "digest", result->digest);
  if (request.source == FROM_BUCKET) {
    ctl_json_add_number(o, "markers", request.s3.markers);
    ctl_json_add_number(o, "requests", request.s3.requests);
    ctl_json_add_number(o, "retries", request.s3.retries);
  }
  if (request.source == FROM_TEXT) {
    ctl_json_add_number(o, "markers", request.told.markers);
    ctl_json_add_number(o, "outside", request.told.outside);
    ctl_json_add_number(o, "versions", request.told.versions);
  }
  return ctl_json_print(o, stdout);
}

static int run(char **operands) {
  struct shard_build_result result = {0};
  request.path = operands[0];
  request.paths = operands;
  while (operands[request.count]) {
    request.count++;
  }
  request.source = kind_of_source(request.path);
  int rc = choose_options();
  rc = rc == CTL_DONE ? open_folder() : rc;
  rc = rc == CTL_DONE ? check_options() : rc;
  rc = rc == CTL_DONE ? check_pairs() : rc;
  rc = rc == CTL_DONE ? check_output() : rc;
  if (rc == CTL_DONE) {
    set_options();
  }
  double begin = shard_clock_seconds();
  rc = rc == CTL_DONE ? build(&result) : rc;
  if (rc == CTL_DONE) {
    ctl_warn_of_tables(request.path, request.quiet ? 0 : result.tables);
    if (result.entries == 0 && request.source == FROM_TEXT && !request.quiet) {
      ctl_warn("'%s' holds no names: the listing is empty, and each rank will see no file",
               request.path);
    }
    rc = print_result(&result, shard_clock_seconds() - begin);
  }
  shard_inventory_free(&request.inventory);
  return rc;
}

const struct ctl_command ctl_cmd_index = {ctl_help_index, rows, CTL_SOME,
                                          "one source, or several lists, and -o FILE", run};
