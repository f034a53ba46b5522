/* SPDX-License-Identifier: MIT */
/*
 * cmd_cache.c - shardctl cache: what the node's cache of listings holds (cache/filenames.h has the
 * names of its files), and its cleaning (cache/collect.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/kernel.h"
#include "cache/cachedir.h"
#include "cache/collect.h"
#include "cache/filenames.h"
#include "cache/lock.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/human.h"
#include "ctl/json.h"
#include "listing/listing.h"

enum { DAY = 24 * 3600 };

static bool dry_run;
static const char *days_text;
static uint64_t days;

static struct json_object *list; /* of files; NULL: lines for people */
static double sum;               /* bytes of these files */

static const struct ctl_option rows[] = {CTL_ROW_JSON,
                                         {"dry-run", .flag = &dry_run},
                                         {"older-than", .text = &days_text, .number = &days,
                                          .most = 100000, .takes = "a number of days"},
                                         CTL_ROW_END};

static const char *const kinds[] = {[SHARD_CACHE_FOREIGN] = "foreign",
                                    [SHARD_CACHE_LISTING] = "listing",
                                    [SHARD_CACHE_LOCK] = "lock",
                                    [SHARD_CACHE_NEW] = "unfinished",
                                    [SHARD_CACHE_PERMUTATION] = "permutation"};

/* Show a file of the cache directory, but no lock: its listing is shown. */
static void show(int fd, const char *name, void *context) {
  (void)context;
  struct stat st;
  struct shard_listing *l = NULL;
  enum shard_cache_kind kind = shard_cache_name_parse(name, NULL);
  if (shard_kernel_stat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || kind == SHARD_CACHE_LOCK ||
      (S_ISDIR(st.st_mode) && strcmp(name, "ranks") == 0)) {
    return;
  }
  if (!S_ISREG(st.st_mode) || st.st_uid != shard_kernel_euid()) {
    kind = SHARD_CACHE_FOREIGN;
  }
  bool in_use = kind != SHARD_CACHE_FOREIGN && shard_lock_is_held(&st);
  int64_t age = shard_clock_real_ns() / 1000000000 - st.st_mtim.tv_sec; /* seconds */
  double bytes = (double)st.st_size;
  if (kind == SHARD_CACHE_LISTING) {
    int file = shard_kernel_open(fd, name, O_RDONLY | O_NOFOLLOW);
    shard_listing_map(file < 0 ? -errno : file, name, &l);
  }
  sum += kind == SHARD_CACHE_FOREIGN ? 0 : bytes;
  if (list) {
    struct json_object *o = ctl_json_object();
    ctl_json_add_text(o, "file", name);
    ctl_json_add_text(o, "kind", kinds[kind]);
    ctl_json_add_decimal(o, "bytes", bytes, 0);
    ctl_json_add_decimal(o, "age", (double)age, 0);
    ctl_json_add_bool(o, "in_use", in_use);
    if (kind == SHARD_CACHE_LISTING) {
      ctl_json_add_text(o, "source", l ? l->source : NULL);
      ctl_json_add_text(o, "options", l ? l->options : NULL);
      ctl_json_add_known(o, "entries", l ? shard_listing_count(l) : 0, l != NULL);
    }
    ctl_json_add(list, NULL, o);
  } else {
    bool unreadable = kind == SHARD_CACHE_LISTING && !l;
    ctl_human_line("%9s %7.2f d  %s%s%s  %s%s%s", ctl_human_bytes(bytes).text, (double)age / DAY,
                   kinds[kind], unreadable ? ", unreadable" : "", in_use ? ", in use" : "", name,
                   l ? " of " : "", l ? l->source : "");
  }
  shard_listing_close(l);
}

static void tell_removed(void *context, const char *name, const struct stat *st, const char *why) {
  (void)context;
  sum += (double)st->st_size;
  if (list) {
    struct json_object *o = ctl_json_object();
    ctl_json_add_text(o, "file", name);
    ctl_json_add_decimal(o, "bytes", (double)st->st_size, 0);
    ctl_json_add_text(o, "why", why);
    ctl_json_add(list, NULL, o);
  } else {
    ctl_human_line("%s %8s  %s: %s", dry_run ? "would remove" : "removed",
                   ctl_human_bytes((double)st->st_size).text, why, name);
  }
}

/* Print the sum of bytes, or the whole JSON. Returns an exit status. */
static int print_sum(bool gc, const char *path) {
  if (!list) {
    ctl_human_line("%9s %sin %s", ctl_human_bytes(sum).text,
                   !gc       ? ""
                   : dry_run ? "would be freed "
                             : "freed ",
                   path);
    return CTL_DONE;
  }
  struct json_object *o = ctl_json_object();
  ctl_json_add_text(o, "directory", path);
  if (gc) {
    ctl_json_add_bool(o, "dry_run", dry_run);
  }
  ctl_json_add(o, gc ? "removed" : "files", list);
  ctl_json_add_decimal(o, gc ? "freed" : "bytes", sum, 0);
  return ctl_json_print(o, stdout);
}

static int run(char **operands) {
  const char *verb = operands[0] && !operands[1] ? operands[0] : "";
  char err[700], path[PATH_MAX];
  bool gc = strcmp(verb, "gc") == 0;
  if (!gc && strcmp(verb, "ls") != 0) {
    return ctl_usage("cache takes ls or gc; see shardctl cache --help");
  }
  if (!gc && (dry_run || days_text)) {
    return ctl_usage("--dry-run and --older-than go with cache gc");
  }
  list = ctl_args.json ? ctl_json_array() : NULL;
  ssize_t found = shard_cachedir_find(false, path, sizeof(path), err, sizeof(err));
  if (found < 0 && found != -ENOENT) {
    return ctl_fail("%s", err);
  }
  const struct shard_collect how = {
      .dry = dry_run, .older_than = days_text ? (int64_t)days * DAY : -1, .tell = tell_removed};
  int rc = found < 0 ? 0 /* a missing directory is an empty one */
           : gc      ? shard_collect(path, &how)
                     : shard_collect_each(path, show, NULL);
  return rc == 0 ? print_sum(gc, path)
                 : ctl_fail("cannot read the cache directory '%s': %s", path, strerror(-rc));
}

const struct ctl_command ctl_cmd_cache = {ctl_help_cache, rows, CTL_ANY, NULL, run};
