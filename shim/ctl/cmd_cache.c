/* SPDX-License-Identifier: MIT */
/*
 * cmd_cache.c - shardctl cache: what the host's cache of listings holds, and its cleaning
 * (cache/collect.h). The names are those of cache/filenames.h. Whatever else is there is shown and
 * left.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
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

/* What was asked for, and what has come of it. */
static struct {
  bool gc, dry_run;
  struct json_object *json; /* the array of what was removed or found; NULL: lines for people */
  const char *days_text;
  uint64_t days;
  char path[PATH_MAX];
  double bytes, freed;
} x;

static const struct ctl_option rows[] = {CTL_ROW_JSON,
                                         {"dry-run", .flag = &x.dry_run},
                                         {"older-than", .text = &x.days_text, .number = &x.days,
                                          .most = 100000, .takes = "a number of days"},
                                         CTL_ROW_END};

static double age_of(const struct stat *st) {
  int64_t now = shard_clock_real_ns() / 1000000000;
  return (double)(now - st->st_mtim.tv_sec);
}

/* ---- showing ------------------------------------------------------------ */

/* A file of the cache directory. */
struct entry {
  const char *name;
  enum shard_cache_kind kind;
  struct stat st;
  bool in_use;
  int fault;                     /* a listing that cannot be opened: why, a negative errno */
  struct shard_listing *listing; /* that can, else NULL */
};

static const char *const kinds[] = {[SHARD_CACHE_FOREIGN] = "foreign",
                                    [SHARD_CACHE_LISTING] = "listing",
                                    [SHARD_CACHE_LOCK] = "lock",
                                    [SHARD_CACHE_NEW] = "unfinished",
                                    [SHARD_CACHE_KEPT] = "permutation"};

static void print_entry(const struct entry *e) {
  char *facts = NULL;
  const struct shard_listing *l = e->listing;
  const char *fault = e->fault == 0                  ? ""
                      : e->fault == -EPROTONOSUPPORT ? ", of another version"
                                                     : ", unreadable";
  if (l && asprintf(&facts, "%s (%s files; %s)", l->source,
                    ctl_human_count(shard_listing_count(l)).text, l->options) < 0) {
    facts = NULL;
  }
  ctl_human_line("%9s %7s  %s%s%s  %s", ctl_human_bytes((double)e->st.st_size).text,
                 ctl_human_age(age_of(&e->st)).text,
                 e->kind != SHARD_CACHE_FOREIGN        ? kinds[e->kind]
                 : e->st.st_uid == shard_kernel_user() ? "not libshard's"
                                                       : "another user's",
                 fault, e->in_use ? ", in use" : "", facts ? facts : e->name);
  free(facts);
}

static struct json_object *make_entry(const struct entry *e) {
  struct json_object *o = ctl_json_object();
  const struct shard_listing *l = e->listing;
  ctl_json_add_text(o, "file", e->name);
  ctl_json_add_text(o, "kind", kinds[e->kind]);
  ctl_json_add_decimal(o, "bytes", (double)e->st.st_size, 0);
  ctl_json_add_decimal(o, "age", age_of(&e->st), 0);
  ctl_json_add_bool(o, "in_use", e->in_use);
  if (e->kind == SHARD_CACHE_LISTING) {
    ctl_json_add_text(o, "source", l ? l->source : NULL);
    ctl_json_add_text(o, "options", l ? l->options : NULL);
    ctl_json_add_known(o, "entries", l ? shard_listing_count(l) : 0, l != NULL);
  }
  return o;
}

/* Locks tell nothing that their listings do not. */
static void show(int fd, const char *name, void *context) {
  (void)context;
  struct entry e = {.name = name, .kind = shard_cache_name_parse(name, NULL)};
  if (shard_kernel_stat(fd, name, &e.st, AT_SYMLINK_NOFOLLOW) != 0) {
    return;
  }
  if (!S_ISREG(e.st.st_mode) || e.st.st_uid != shard_kernel_user()) {
    e.kind = SHARD_CACHE_FOREIGN;
  }
  if (e.kind == SHARD_CACHE_LOCK || (S_ISDIR(e.st.st_mode) && strcmp(name, "ranks") == 0)) {
    return;
  }
  e.in_use = e.kind != SHARD_CACHE_FOREIGN && shard_lock_is_held(&e.st);
  if (e.kind == SHARD_CACHE_LISTING) {
    int file = shard_kernel_open(fd, name, O_RDONLY | O_NOFOLLOW);
    e.fault = shard_listing_map(file < 0 ? -errno : file, name, &e.listing);
  }
  x.bytes += e.kind == SHARD_CACHE_FOREIGN ? 0 : (double)e.st.st_size;
  if (x.json) {
    ctl_json_add(x.json, NULL, make_entry(&e));
  } else {
    print_entry(&e);
  }
  shard_listing_close(e.listing);
}

static int print_shown(void) {
  if (!x.json) {
    ctl_human_line("%9s in %s", ctl_human_bytes(x.bytes).text, x.path);
    return CTL_DONE;
  }
  struct json_object *o = ctl_json_object();
  ctl_json_add_text(o, "directory", x.path);
  ctl_json_add_decimal(o, "bytes", x.bytes, 0);
  ctl_json_add(o, "files", x.json);
  return ctl_json_print(o, stdout);
}

/* ---- cleaning ----------------------------------------------------------- */

static void tell_removed(void *context, const char *name, const struct stat *st, const char *why) {
  (void)context;
  x.freed += (double)st->st_size;
  if (x.json) {
    struct json_object *o = ctl_json_object();
    ctl_json_add_text(o, "file", name);
    ctl_json_add_decimal(o, "bytes", (double)st->st_size, 0);
    ctl_json_add_text(o, "why", why);
    ctl_json_add(x.json, NULL, o);
  } else {
    ctl_human_line("%s %8s  %s: %s", x.dry_run ? "would remove" : "removed",
                   ctl_human_bytes((double)st->st_size).text, why, name);
  }
}

static int print_removed(void) {
  if (!x.json) {
    ctl_human_line("%s %s in %s", x.dry_run ? "would free" : "freed", ctl_human_bytes(x.freed).text,
                   x.path);
    return CTL_DONE;
  }
  struct json_object *o = ctl_json_object();
  ctl_json_add_text(o, "directory", x.path);
  ctl_json_add_bool(o, "dry_run", x.dry_run);
  ctl_json_add(o, "removed", x.json);
  ctl_json_add_decimal(o, "freed", x.freed, 0);
  return ctl_json_print(o, stdout);
}

/* ---- the command -------------------------------------------------------- */

static int run(char **operands) {
  const char *verb = operands[0] && !operands[1] ? operands[0] : "";
  char err[700];
  x.gc = strcmp(verb, "gc") == 0;
  if (!x.gc && strcmp(verb, "ls") != 0) {
    return ctl_usage("cache takes ls or gc; see shardctl cache --help");
  }
  if (!x.gc && (x.dry_run || x.days_text)) {
    return ctl_usage("--dry-run and --older-than go with cache gc");
  }
  x.json = ctl_given.json ? ctl_json_array() : NULL;
  ssize_t found = shard_cachedir_find(false, x.path, sizeof(x.path), err, sizeof(err));
  if (found < 0 && found != -ENOENT) {
    return ctl_fail("%s", err);
  }
  const struct shard_collect how = {.dry = x.dry_run,
                                    .older_than = x.days_text ? (int64_t)x.days * DAY : -1,
                                    .tell = tell_removed};
  /* No directory is like an empty one. */
  int rc = found < 0 ? 0
           : x.gc    ? shard_collect(x.path, &how)
                     : shard_collect_each(x.path, show, NULL);
  if (rc != 0) {
    return ctl_fail("cannot read the cache directory '%s': %s", x.path, strerror(-rc));
  }
  return x.gc ? print_removed() : print_shown();
}

const struct ctl_command ctl_cmd_cache = {ctl_help_cache, rows, CTL_ANY, NULL, run};
