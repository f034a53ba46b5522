/* SPDX-License-Identifier: MIT */
/*
 * cmd_cache.c - shardctl cache: what the node's cache of listings holds, and its cleaning.
 *
 * The names are those of cache/filenames.h. Whatever else is there is shown and left.
 *
 * A builder holds the flock on KEY.lock until it ends, and makes files of that KEY only meanwhile.
 * gc takes all locks first, without waiting, and only then looks at the directory and at /proc: so
 * no living builder owns what gc finds under a lock that it has. gc leaves a KEY alone whose lock
 * is taken. Readers take no lock. A reader that has a file mapped keeps it after gc has removed it;
 * a reader that comes too late finds no file and asks for a new one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/kernel.h"
#include "cache/cachedir.h"
#include "cache/filenames.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/human.h"
#include "ctl/json.h"
#include "listing/listing.h"

enum { HOUR = 3600, DAY = 24 * HOUR, MONTH = 30 * DAY };

/* A file of the cache directory. */
struct entry {
  char name[NAME_MAX + 1];
  char target[NAME_MAX + 1]; /* of a link */
  size_t group;              /* length of KEY or perm-KEY, with which the name begins */
  size_t base;               /* length up to the end of VERSION, JOB, NONCE or PID */
  enum shard_cache_kind kind;
  struct stat st;
  bool current, pinned, in_use, busy, removed;
  int fault;              /* a listing that cannot be opened: why, a negative errno */
  char *source, *options; /* of a listing that can, else NULL */
  uint64_t entries;
};

struct group {
  char name[48];
  int lock; /* held; -1 if it is taken, or cannot be taken */
};

static struct {
  char path[PATH_MAX];
  int dir;
  struct entry *entries;
  size_t count;
  struct group *groups;
  size_t group_count;
  time_t now;
} cache;

/* What was asked for. */
static struct {
  bool gc, dry_run;
  struct json_object *json; /* the array of what was removed or found; NULL: lines for people */
  const char *most_text;    /* NULL: no limit */
  uint64_t days, most;
} asked;

static const struct ctl_option rows[] = {
    CTL_ROW_JSON,
    {"dry-run", .flag = &asked.dry_run},
    {"older-than", .number = &asked.days, .most = 100000, .takes = "a number of days"},
    {"max-size", .text = &asked.most_text, .bytes = &asked.most,
     .takes = "a size such as 10G (10 GiB)"},
    CTL_ROW_END};

/* ---- names -------------------------------------------------------------- */

/* Whether a builder makes files of this kind, and leaves them if it is killed. */
static bool is_leftover(enum shard_cache_kind kind) {
  return kind == SHARD_CACHE_NEW || kind == SHARD_CACHE_CURRENT_NEW ||
         kind == SHARD_CACHE_PERMUTATION_NEW;
}

/* A name of ours on a file of another type or owner is not ours. */
static enum shard_cache_kind kind_of(struct entry *e) {
  enum shard_cache_kind kind = shard_cache_name_parse(e->name, &e->group, &e->base);
  bool link = S_ISLNK(e->st.st_mode), file = S_ISREG(e->st.st_mode);
  bool fits = kind == SHARD_CACHE_CURRENT || kind == SHARD_CACHE_JOB ? link
              : is_leftover(kind)                                    ? link || file
                                                                     : file;
  return fits && e->st.st_uid == geteuid() ? kind : SHARD_CACHE_FOREIGN;
}

/* ---- looking ------------------------------------------------------------ */

static void forget(void) {
  for (size_t i = 0; i < cache.count; i++) {
    free(cache.entries[i].source);
    free(cache.entries[i].options);
  }
  free(cache.entries);
  cache.entries = NULL;
  cache.count = 0;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* Read the directory anew. 0 or -errno. */
static int scan(void) {
  struct dirent **names;
  forget();
  int n = scandirat(cache.dir, ".", &names, NULL, NULL);
  if (n < 0) {
    return -errno;
  }
  cache.entries = calloc((size_t)n + 1, sizeof(*cache.entries));
  for (int i = 0; i < n; i++) {
    struct entry *e = cache.entries ? &cache.entries[cache.count] : NULL;
    const char *name = names[i]->d_name;
    if (e && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
        fstatat(cache.dir, name, &e->st, AT_SYMLINK_NOFOLLOW) == 0) {
      strcpy(e->name, name);
      e->kind = kind_of(e);
      if (S_ISLNK(e->st.st_mode)) {
        ssize_t length = readlinkat(cache.dir, name, e->target, sizeof(e->target) - 1);
        e->target[length < 0 ? 0 : length] = 0;
      }
      cache.count++;
    }
    free(names[i]);
  }
  free(names);
  if (cache.entries) {
    qsort(cache.entries, cache.count, sizeof(*cache.entries), by_name);
  }
  return cache.entries ? 0 : -ENOMEM;
}

static struct group *group_of(const struct entry *e) {
  for (size_t i = 0; i < cache.group_count; i++) {
    if (strlen(cache.groups[i].name) == e->group &&
        memcmp(cache.groups[i].name, e->name, e->group) == 0) {
      return &cache.groups[i];
    }
  }
  return NULL;
}

/* Try to take the lock of every KEY, without waiting. gc false: only see whether it is taken. 0 or
 * -errno. */
static int lock_groups(bool gc) {
  for (size_t i = 0; i < cache.count; i++) {
    const struct entry *e = &cache.entries[i];
    if (e->kind == SHARD_CACHE_FOREIGN || group_of(e)) {
      continue;
    }
    struct group *more = realloc(cache.groups, (cache.group_count + 1) * sizeof(*more));
    if (!more) {
      return -ENOMEM;
    }
    cache.groups = more;
    struct group *g = &more[cache.group_count++];
    char lock[64];
    snprintf(g->name, sizeof(g->name), "%.*s", (int)e->group, e->name);
    snprintf(lock, sizeof(lock), "%s.lock", g->name);
    g->lock = openat(cache.dir, lock,
                     O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (gc ? O_CREAT : 0), 0600);
    if (g->lock >= 0 && (flock(g->lock, (gc ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0 ||
                         !shard_kernel_has_name(g->lock, cache.dir, lock))) {
      close(g->lock);
      g->lock = -1;
    } else if (g->lock < 0 && errno == ENOENT) {
      g->lock = open("/dev/null", O_RDONLY | O_CLOEXEC); /* no lock file: nobody has the lock */
    }
  }
  return 0;
}

static void unlock_groups(void) {
  for (size_t i = 0; i < cache.group_count; i++) {
    shard_file_close(cache.groups[i].lock);
  }
}

static struct entry *find(const char *name) {
  struct entry key;
  snprintf(key.name, sizeof(key.name), "%s", name);
  return cache.count ? bsearch(&key, cache.entries, cache.count, sizeof(key), by_name) : NULL;
}

static void read_listing(struct entry *e) {
  char path[PATH_MAX + NAME_MAX + 2];
  struct shard_listing *l;
  snprintf(path, sizeof(path), "%s/%s", cache.path, e->name);
  e->fault = shard_listing_open(path, &l);
  if (e->fault == 0) {
    e->source = strdup(l->source);
    e->options = strdup(l->options);
    e->entries = shard_listing_count(l);
    shard_listing_close(l);
  }
}

/*
 * Mark the file that a line of /proc/PID/maps names: "addresses perms offset major:minor inode
 * path". The file is recognised by its name, too: on some file systems (btrfs, overlayfs) the
 * device numbers differ from those of stat(2).
 */
static void mark_mapping(char *line) {
  char *name = strrchr(line, '/'), *p = line;
  /* Most lines are of other files. */
  if (!name || (!strstr(name, ".listing") && !strstr(name, ".perm"))) {
    return;
  }
  for (int field = 0; field < 3; field++) {
    p += strcspn(p, " ");
    p += strspn(p, " ");
  }
  unsigned long device[2] = {strtoul(p, &p, 16), 0};
  device[1] = strtoul(p + (*p == ':'), &p, 16);
  unsigned long long ino = strtoull(p, NULL, 10);
  name++;
  name[strcspn(name, " \n")] = 0; /* " (deleted)" */
  for (size_t i = 0; i < cache.count; i++) {
    struct entry *e = &cache.entries[i];
    e->in_use = e->in_use || strcmp(e->name, name) == 0 ||
                (e->st.st_ino == ino && major(e->st.st_dev) == device[0] &&
                 minor(e->st.st_dev) == device[1]);
  }
}

/* Mark what other processes have mapped, as far as their maps may be read. */
static void mark_mapped(void) {
  DIR *proc = opendir("/proc");
  const struct dirent *d;
  char *line = NULL;
  size_t room = 0;
  while (proc && (d = readdir(proc))) {
    char path[64];
    long pid = strtol(d->d_name, NULL, 10);
    if (pid <= 0 || pid == getpid()) {
      continue;
    }
    snprintf(path, sizeof(path), "/proc/%ld/maps", pid);
    FILE *maps = fopen(path, "re");
    while (maps && getline(&line, &room, maps) > 0) {
      mark_mapping(line);
    }
    if (maps) {
      fclose(maps);
    }
  }
  free(line);
  if (proc) {
    closedir(proc);
  }
}

static double age(const struct entry *e) { return difftime(cache.now, e->st.st_mtim.tv_sec); }

/* Whether a job made it: JOB is zero if none did. */
static bool is_of_job(const struct entry *e) { return strspn(e->name + e->base - 16, "0") < 16; }

/* Whether its time is over: a month for a job's, an hour for others. */
static bool is_old(const struct entry *e) { return age(e) >= (is_of_job(e) ? MONTH : HOUR); }

/* Fill in what the names do not say. */
static void complete_entries(void) {
  time(&cache.now);
  for (size_t i = 0; i < cache.count; i++) {
    struct entry *e = &cache.entries[i], *target;
    const struct group *g = e->kind == SHARD_CACHE_FOREIGN ? NULL : group_of(e);
    e->busy = e->kind != SHARD_CACHE_FOREIGN && (!g || g->lock < 0);
    if (e->kind == SHARD_CACHE_LISTING) {
      read_listing(e);
    } else if (e->kind == SHARD_CACHE_OBJECT) {
      e->pinned = is_of_job(e) && !is_old(e);
    } else if ((e->kind == SHARD_CACHE_CURRENT || e->kind == SHARD_CACHE_JOB) &&
               (target = find(e->target))) {
      target->current = target->current || e->kind == SHARD_CACHE_CURRENT;
      target->pinned = target->pinned || (e->kind == SHARD_CACHE_JOB && age(e) < MONTH);
    }
  }
  mark_mapped();
}

/* ---- cleaning ----------------------------------------------------------- */

/* Why an entry can go, NULL if it is to stay. */
static const char *why_remove(const struct entry *e) {
  if (e->busy || e->in_use) {
    return NULL;
  }
  char name[NAME_MAX + 1];
  const struct entry *permutation;
  switch (e->kind) {
  case SHARD_CACHE_LISTING:
    return e->current || e->pinned ? NULL : "old version";
  case SHARD_CACHE_NEW:
  case SHARD_CACHE_CURRENT_NEW:
  case SHARD_CACHE_PERMUTATION_NEW:
    return "left by a killed process";
  case SHARD_CACHE_PERMUTATION:
    return age(e) >= HOUR ? "permutation of a job that is gone" : NULL;
  case SHARD_CACHE_LOCK: /* a KEY's stays: it is small, and one alone */
    snprintf(name, sizeof(name), "%.*s.perm", (int)e->group, e->name);
    permutation = find(name);
    return e->group > 32 && age(e) >= HOUR && (!permutation || why_remove(permutation))
               ? "lock of a permutation that is gone"
               : NULL;
  case SHARD_CACHE_JOB:
    return age(e) >= MONTH ? "job of a month ago" : NULL;
  case SHARD_CACHE_OBJECT: /* what SHARD_LISTING=s3://... names */
    return !is_old(e)     ? NULL
           : is_of_job(e) ? "object of a job of a month ago"
                          : "object of an hour ago";
  case SHARD_CACHE_CURRENT:
    return find(e->target) ? NULL : "link to nothing";
  case SHARD_CACHE_FOREIGN:
    break;
  }
  return NULL;
}

/* Bytes of a file; links and locks count as none. */
static double size_of(const struct entry *e) {
  return S_ISREG(e->st.st_mode) ? (double)e->st.st_size : 0;
}

/* Bytes of our files that are left. */
static double total(void) {
  double bytes = 0;
  for (size_t i = 0; i < cache.count; i++) {
    bytes += cache.entries[i].kind == SHARD_CACHE_FOREIGN || cache.entries[i].removed
                 ? 0
                 : size_of(&cache.entries[i]);
  }
  return bytes;
}

static void tell_removed(const struct entry *e, const char *why) {
  if (asked.json) {
    struct json_object *o = ctl_json_object();
    ctl_json_add_text(o, "file", e->name);
    ctl_json_add_decimal(o, "bytes", size_of(e), 0);
    ctl_json_add_text(o, "why", why);
    ctl_json_add(asked.json, NULL, o);
  } else {
    ctl_human_line("%s %8s  %s: %s%s%s", asked.dry_run ? "would remove" : "removed",
                   ctl_human_bytes(size_of(e)).text, why, e->name, e->source ? " of " : "",
                   e->source ? e->source : "");
  }
}

static int remove_entry(struct entry *e, const char *why) {
  if (!asked.dry_run && unlinkat(cache.dir, e->name, 0) != 0 && errno != ENOENT) {
    return ctl_fail("cannot remove '%s/%s': %s", cache.path, e->name, strerror(errno));
  }
  e->removed = true;
  tell_removed(e, why);
  return CTL_DONE;
}

static bool old_enough(const struct entry *e) { return age(e) >= (double)asked.days * DAY; }

/* Seconds; least first to go. The last access, as far as the file system notes it; a pinned file
 * comes after all others. */
static double used(const struct entry *e) {
  time_t latest =
      e->st.st_atim.tv_sec > e->st.st_mtim.tv_sec ? e->st.st_atim.tv_sec : e->st.st_mtim.tv_sec;
  return (double)latest + (e->pinned ? 1e15 : 0);
}

/* Whether it is the link by which processes find a file. */
static bool leads_to(const struct entry *e, const struct entry *file) {
  return e->kind == SHARD_CACHE_CURRENT && strcmp(e->target, file->name) == 0;
}

/*
 * Remove a listing or an object. Links go first, so that nobody opens it any more; if a process has
 * mapped it in the meantime, they are put back.
 */
static int remove_unused(struct entry *unused) {
  for (size_t i = 0; i < cache.count && !asked.dry_run; i++) {
    const char *link = cache.entries[i].name;
    if (leads_to(&cache.entries[i], unused) && unlinkat(cache.dir, link, 0) != 0 &&
        errno != ENOENT) {
      return ctl_fail("cannot remove '%s/%s': %s", cache.path, link, strerror(errno));
    }
  }
  if (!asked.dry_run) {
    mark_mapped();
  }
  for (size_t i = 0; i < cache.count; i++) {
    struct entry *e = &cache.entries[i];
    if (!leads_to(e, unused)) {
      continue;
    }
    e->removed = !unused->in_use;
    if (unused->in_use && symlinkat(unused->name, cache.dir, e->name) != 0 && errno != EEXIST) {
      return ctl_fail("cannot restore '%s/%s': %s", cache.path, e->name, strerror(errno));
    }
  }
  return unused->in_use ? CTL_DONE : remove_entry(unused, "least recently used");
}

static int shrink(void) {
  while (total() > (double)asked.most) {
    struct entry *first = NULL;
    for (size_t i = 0; i < cache.count; i++) {
      struct entry *e = &cache.entries[i];
      bool ours = e->kind == SHARD_CACHE_LISTING || e->kind == SHARD_CACHE_OBJECT;
      if (ours && !e->removed && !e->busy && !e->in_use && old_enough(e) &&
          (!first || used(e) < used(first))) {
        first = e;
      }
    }
    if (!first) {
      return ctl_fail(
          "'%s' still holds %.0f bytes, more than --max-size: the rest is in use, being "
          "built, too young or no listing",
          cache.path, total());
    }
    int rc = remove_unused(first);
    if (rc != CTL_DONE) {
      return rc;
    }
  }
  return CTL_DONE;
}

static int collect(void) {
  double before = total();
  int rc = CTL_DONE;
  for (size_t i = 0; i < cache.count; i++) {
    struct entry *e = &cache.entries[i];
    const char *why = old_enough(e) ? why_remove(e) : NULL;
    if (why && remove_entry(e, why) != CTL_DONE) {
      rc = CTL_FAILED;
    }
  }
  if (asked.most_text && shrink() != CTL_DONE) {
    rc = CTL_FAILED;
  }
  if (asked.json) {
    struct json_object *o = ctl_json_object();
    ctl_json_add_text(o, "directory", cache.path);
    ctl_json_add_bool(o, "dry_run", asked.dry_run);
    ctl_json_add(o, "removed", asked.json);
    ctl_json_add_decimal(o, "freed", before - total(), 0);
    ctl_json_add_decimal(o, "bytes", total(), 0);
    rc = ctl_json_print(o, stdout) == CTL_DONE ? rc : CTL_FAILED;
  } else {
    ctl_human_line("%s %s, %s left in %s", asked.dry_run ? "would free" : "freed",
                   ctl_human_bytes(before - total()).text, ctl_human_bytes(total()).text,
                   cache.path);
  }
  return rc;
}

/* ---- showing ------------------------------------------------------------ */

static void print_entry(const struct entry *e, const char *what) {
  char *facts = NULL;
  if (e->source && asprintf(&facts, "%s (%s files; %s)", e->source,
                            ctl_human_count(e->entries).text, e->options ? e->options : "") < 0) {
    facts = NULL;
  }
  ctl_human_line("%9s %7s  %s%s%s%s  %s", ctl_human_bytes(size_of(e)).text,
                 ctl_human_age(age(e)).text, what, e->in_use ? ", in use" : "",
                 e->pinned ? ", pinned by a job" : "", e->busy ? ", being built" : "",
                 facts ? facts : e->name);
  free(facts);
}

/* What people are told of it. NULL: links and locks, shown by what they do. */
static const char *word_of(const struct entry *e) {
  switch (e->kind) {
  case SHARD_CACHE_LISTING:
    return e->fault == -EPROTONOSUPPORT ? "of another version"
           : e->fault                   ? "unreadable"
           : e->current                 ? "current"
                                        : "old";
  case SHARD_CACHE_PERMUTATION:
    return "permutation";
  case SHARD_CACHE_OBJECT:
    return "fetched";
  case SHARD_CACHE_FOREIGN:
    return e->st.st_uid == geteuid() ? "not libshard's" : "another user's";
  default:
    return !is_leftover(e->kind) ? NULL : e->busy ? "unfinished" : "leftover";
  }
}

/* The kind as JSON tells it. */
static const char *name_of_kind(enum shard_cache_kind kind) {
  return kind == SHARD_CACHE_LISTING       ? "listing"
         : kind == SHARD_CACHE_PERMUTATION ? "permutation"
         : kind == SHARD_CACHE_OBJECT      ? "object"
         : is_leftover(kind)               ? "leftover"
                                           : "foreign";
}

static struct json_object *make_entry(const struct entry *e) {
  struct json_object *o = ctl_json_object();
  ctl_json_add_text(o, "file", e->name);
  ctl_json_add_text(o, "kind", name_of_kind(e->kind));
  ctl_json_add_decimal(o, "bytes", size_of(e), 0);
  ctl_json_add_decimal(o, "age", age(e), 0);
  ctl_json_add_bool(o, "in_use", e->in_use);
  ctl_json_add_bool(o, "busy", e->busy);
  if (e->kind == SHARD_CACHE_LISTING) {
    ctl_json_add_bool(o, "current", e->current);
    ctl_json_add_bool(o, "pinned", e->pinned);
    ctl_json_add_text(o, "source", e->source);
    ctl_json_add_text(o, "options", e->source && !e->options ? "" : e->options);
    ctl_json_add_known(o, "entries", e->entries, e->source);
  }
  return o;
}

static int show(void) {
  for (size_t i = 0; i < cache.count; i++) {
    const struct entry *e = &cache.entries[i];
    const char *what = word_of(e);
    if (what && asked.json) {
      ctl_json_add(asked.json, NULL, make_entry(e));
    } else if (what) {
      print_entry(e, what);
    }
  }
  if (!asked.json) {
    ctl_human_line("%9s in %s", ctl_human_bytes(total()).text, cache.path);
    return CTL_DONE;
  }
  struct json_object *o = ctl_json_object();
  ctl_json_add_text(o, "directory", cache.path);
  ctl_json_add_decimal(o, "bytes", total(), 0);
  ctl_json_add(o, "files", asked.json);
  return ctl_json_print(o, stdout);
}

/* ---- the command -------------------------------------------------------- */

/* Of a directory that is there. */
static int show_or_clean(void) {
  struct rlimit files;
  if (asked.gc && getrlimit(RLIMIT_NOFILE, &files) == 0) { /* a lock is a descriptor */
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  cache.dir = open(cache.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int rc = cache.dir < 0 ? -errno : scan();
  rc = rc == 0 ? lock_groups(asked.gc && !asked.dry_run) : rc;
  if (rc == 0 && asked.gc) {
    rc = scan(); /* again, now that nobody builds */
  }
  if (rc != 0) {
    return ctl_fail("cannot read the cache directory '%s': %s", cache.path, strerror(-rc));
  }
  complete_entries();
  if (!asked.gc) {
    unlock_groups();
  }
  return asked.gc ? collect() : show();
}

static int run(char **operands) {
  const char *verb = operands[0] && !operands[1] ? operands[0] : "";
  asked.gc = strcmp(verb, "gc") == 0;
  if (!asked.gc && strcmp(verb, "ls") != 0) {
    return ctl_usage("cache takes ls or gc; see shardctl cache --help");
  }
  if (!asked.gc && (asked.dry_run || asked.most_text || asked.days)) {
    return ctl_usage("--dry-run, --older-than and --max-size go with cache gc");
  }
  char err[700];
  asked.json = ctl_given.json ? ctl_json_array() : NULL;
  ssize_t found = shard_cachedir_find(false, cache.path, sizeof(cache.path), err, sizeof(err));
  if (found < 0 && found != -ENOENT) {
    return ctl_fail("%s", err);
  }
  /* No directory is like an empty one. */
  int rc = found > 0 ? show_or_clean() : asked.gc ? collect() : show();
  forget();
  return rc;
}

const struct ctl_command ctl_cmd_cache = {ctl_help_cache, rows, CTL_ANY, NULL, run};
