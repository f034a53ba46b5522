/* SPDX-License-Identifier: MIT */
/*
 * cache.c - how a call gets its listing:
 *
 *   set_up()   what is asked for
 *   join()     the job's listing, if it is there; else
 *   make()     wait for the lock, look again, and make it.
 */
#include "cache/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter/api.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/kernel.h"
#include "base/process.h"
#include "base/workspace.h"
#include "cache/collect.h"
#include "cache/lock.h"
#include "cache/make.h"
#include "cache/request.h"
#include "cache/safe.h"
#include "cache/user_listing.h"
#include "config/config.h"
#include "config/launcher.h"
#include "config/listing_list.h"
#include "config/path_template.h"
#include "listing/listing.h"

#define REWRITES 10 /* of a manifest while it is read */

/* The remedy where hosts may differ. */
#define GIVE_ONE                                                                                   \
  "make one listing for all by shardctl index before the job starts, and name it in SHARD_LISTING"

static int no_memory(char *err, size_t size) {
  return shard_error_set(err, size, -ENOMEM, "out of memory");
}

/* ---- what is asked for -------------------------------------------------- */

/* Lists for each rank or epoch cannot be what all ranks have. */
static int refuse_own(const char *list, char *err, size_t size) {
  bool own = shard_path_template_has(list, 'r') || shard_path_template_has(list, 'e') ||
             shard_path_template_is_manifest(list);
  return !own ? 0
              : shard_error_set(err, size, -EINVAL,
                                "SHARD_LISTING='%.300s' gives ranks lists of their own, which is "
                                "for the shard view; here all ranks need one listing (shardctl "
                                "index)",
                                list);
}

/* What SHARD_LISTING has to do with it. */
static int choose_kind(struct shard_request *r, const struct shard_cache_source *s, char *err,
                       size_t size) {
  if (s->names) { /* SHARD_LISTING has nothing to do with them */
    r->kind = SHARD_REQUEST_NAMES;
    return 0;
  }
  r->own = s->list != NULL;
  r->list = s->list ? s->list : shard_config()->listing;
  r->kind = !r->list ? (s->url ? SHARD_REQUEST_BUCKET : SHARD_REQUEST_DIRECTORY)
            : s->list && shard_path_template_is_manifest(s->list) ? SHARD_REQUEST_MANIFEST
                                                                  : SHARD_REQUEST_USER_LISTING;
  return r->list && !r->own ? refuse_own(r->list, err, size) : 0;
}

/* The listing of a bucket's keys says that it is of the prefix, also where it is given. */
static int set_origin(struct shard_request *r, const char *url, char *err, size_t size) {
  size_t n = strlen(url);
  const char *slash = n > 0 && url[n - 1] == '/' ? "" : "/"; /* a folder there */
  if (n + strlen(slash) >= sizeof(r->origin)) {
    return shard_error_set(err, size, -ENAMETOOLONG, "SHARD_DATASET='%.200s...' is too long", url);
  }
  sprintf(r->origin, "%s%s", url, slash);
  return 0;
}

static int set_up(struct shard_request *r, const struct shard_cache_source *s, char *err,
                  size_t size) {
  struct shard_options options = {
      .order = SHARD_ORDER_DIRECTORY, .hidden = true, .attributes = true};
  r->dir = s->dir;
  r->environment = s->environment;
  r->alone = s->alone;
  r->round = s->round;
  r->since = s->since;
  r->names = s->names;
  r->names_size = s->names_size;
  if (s->dir && !realpath(s->dir, r->real)) {
    return shard_error_set(err, size, -errno, "cannot find directory '%.300s': %s", s->dir,
                           strerror(errno));
  }
  int rc = choose_kind(r, s, err, size);
  rc = rc == 0 && s->url && !s->list ? set_origin(r, s->url, err, size) : rc;
  if (rc != 0) {
    return rc;
  }
  bool has_options = r->kind != SHARD_REQUEST_MANIFEST && r->kind != SHARD_REQUEST_NAMES;
  if (has_options && s->options) {
    options = *s->options;
  } else if (has_options) {
    rc = shard_options_parse(&options, s->words, err, size);
  }
  shard_options_format(&options, r->options_text, sizeof(r->options_text));
  return rc;
}

/* ---- what is said ------------------------------------------------------- */

/* Warn: what `format` says, and the listing's digest. */
__attribute__((format(printf, 3, 4))) static void
say_digest(const struct shard_request *r, const struct shard_listing *l, const char *format, ...) {
  SHARD_WORKSPACE(what);
  struct shard_listing_info info;
  va_list args;
  va_start(args, format);
  if (what) {
    vsnprintf(what, SHARD_WORKSPACE_SIZE, format, args);
  }
  va_end(args);
  shard_listing_info(l, &info);
  shard_say(SHARD_LOG_WARN, "directory '%.300s' %.800s (%llu entries, digest %.16s)",
            *r->real ? r->real : r->origin, what ? what : format, (unsigned long long)info.entries,
            info.digest);
}

/* When the newest directory of a listing was changed, ns since 1970. */
static int64_t newest_change(const struct shard_listing *l) {
  int64_t newest = 0;
  const uint8_t *pos = NULL;
  const char *path;
  struct shard_dir id;
  while (shard_listing_dir(l, &pos, &id, &path)) {
    int64_t changed = id.ctime_sec * 1000000000LL + id.ctime_nsec;
    newest = changed > newest ? changed : newest;
  }
  return newest;
}

/*
 * Each host of a job lists for itself. A directory that was changed after the job's start may have
 * been changed between two hosts' listings, and nothing tells one host what another one has: so it
 * is said, by who has made the host's. What was changed before is the same everywhere.
 */
__attribute__((noinline)) static void tell_of_hosts(const struct shard_request *r,
                                                    const struct shard_listing *l) {
  int64_t since;
  char host[HOST_NAME_MAX + 1] = "";
  if (r->kind != SHARD_REQUEST_DIRECTORY || r->alone || !shard_launcher_spans_hosts(&since) ||
      newest_change(l) <= since) {
    return;
  }
  gethostname(host, sizeof(host) - 1);
  say_digest(
      r, l,
      "changed after this job had started on host '%.64s', and other hosts may have listed it "
      "before that: compare their digests (SHARD_LOG=info, or shardctl verify), or " GIVE_ONE,
      host);
}

/* A name or number that is used again may be an earlier job's. */
__attribute__((noinline)) static void tell_of_age(const struct shard_request *r,
                                                  const struct shard_listing *l) {
  long long age = shard_clock_real_ns() / 1000000000 - l->header->listed_sec;
  say_digest(r, l,
             "is served as SHARD_JOB='%.100s' listed it %lld s ago, and no process of that job has "
             "it open: if this is another job, set another SHARD_JOB",
             shard_config()->job, age);
}

/* Ranks that somebody numbers know nothing of one another. */
static void tell_of_hand(const struct shard_request *r) {
  if (r->job.held && getenv("SHARD_RANK") && !r->list) {
    shard_log(SHARD_LOG_INFO,
              "this rank, numbered by SHARD_RANK, lists the dataset for itself: if files may be "
              "added while ranks start, set SHARD_JOB to one text for all of them");
  }
}

/* ---- finding ------------------------------------------------------------ */

/* Open the job's listing. 1; 0: there is none, or it was begun too early, or is damaged; or a
 * negative errno and a line. *first: no process has it. */
static int join(const struct shard_request *r, struct shard_listing **out, bool *first, char *err,
                size_t size) {
  char why[200];
  int fd = shard_lock_join(r->file, r->job.held, first, why, sizeof(why));
  int rc = fd >= 0 ? shard_listing_map(fd, r->file, out) : fd;
  rc = rc == 0 && !*out ? -EBADMSG : rc;
  if (rc == -ENOENT || rc == -EBADMSG || rc == -EPROTONOSUPPORT) {
    return 0;
  }
  if (rc != 0) {
    return shard_error_set(err, size, rc,
                           "cannot use '%.300s': %s; remove it, or set "
                           "SHARD_CACHE_DIR",
                           r->file, fd < 0 ? why : strerror(-rc));
  }
  const struct shard_header *h = (*out)->header;
  int64_t listed = h->listed_sec * 1000000000LL + h->listed_nsec;
  if (listed < r->since) {
    shard_listing_close(*out);
    *out = NULL;
    return 0;
  }
  return 1;
}

/* ---- making ------------------------------------------------------------- */

/* By shardctl, of a text. A text that is written meanwhile is read anew. */
static int make_of_text(const struct shard_request *r, const struct shard_making *m,
                        const char *file, char *err, size_t size) {
  const char *suffix = shard_path_template_manifest_suffix(r->list, strlen(r->list));
  bool object = shard_listing_list_is_object(r->list);
  struct stat before, after;
  char *text = NULL;
  /* shardctl tells by the suffix how a text is packed. */
  int n = object ? asprintf(&text, "%s%s", file, suffix) : asprintf(&text, "%s", r->list);
  if (n < 0) {
    return no_memory(err, size);
  }
  int rc = object ? shard_make_get(r, m, r->list, text, err, size) : 0;
  bool same = false;
  for (int tries = 0; rc == 0 && !same && tries < REWRITES; tries++) {
    if (shard_kernel_stat(AT_FDCWD, text, &before, 0) != 0) {
      rc = shard_error_set(err, size, -errno,
                           "SHARD_LISTING='%.300s': %s; make it with shardctl manifest", r->list,
                           strerror(errno));
      break;
    }
    rc = shard_make_index(r, m, text, file, err, size);
    same = shard_kernel_stat(AT_FDCWD, text, &after, 0) == 0 && after.st_ino == before.st_ino &&
           after.st_size == before.st_size && shard_clock_same(after.st_mtim, before.st_mtim) &&
           shard_clock_same(after.st_ctim, before.st_ctim);
    rc = same ? rc : 0; /* that may be why it failed */
  }
  if (rc == 0 && !same) {
    rc = shard_error_set(err, size, -EIO,
                         "SHARD_LISTING='%.300s' is being written; write it elsewhere, and rename "
                         "it when it is complete",
                         r->list);
  }
  if (object) {
    unlink(text);
  }
  free(text);
  return rc;
}

/* 0 or a negative errno. */
static int write_all(int fd, const char *bytes, size_t size) {
  size_t done = 0;
  int rc = 0;
  while (rc == 0 && done < size) {
    ssize_t n = TEMP_FAILURE_RETRY(write(fd, bytes + done, size - done));
    rc = n > 0 ? 0 : n == 0 ? -EIO : -errno;
    done += n > 0 ? (size_t)n : 0;
  }
  return rc;
}

/* By shardctl, of names in memory: they go through a file. */
static int make_of_names(const struct shard_request *r, const struct shard_making *m,
                         const char *file, char *err, size_t size) {
  char *text = NULL;
  if (asprintf(&text, "%s.names", file) < 0) {
    return no_memory(err, size);
  }
  unlink(text); /* of a dead process of this number: the lock is ours */
  int fd = shard_kernel_create(AT_FDCWD, text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  int rc = fd < 0                                    ? -errno
           : !shard_file_size_allowed(r->names_size) ? -EFBIG
                                                     : write_all(fd, r->names, r->names_size);
  shard_file_close(fd);
  rc = rc == 0 ? shard_make_index(r, m, text, file, err, size)
               : shard_error_set(err, size, rc, "cannot write '%.300s': %s", text, strerror(-rc));
  unlink(text);
  free(text);
  return rc;
}

/* Make `file`. */
static int make_file(const struct shard_request *r, const struct shard_making *m, const char *file,
                     char *err, size_t size) {
  if (r->kind == SHARD_REQUEST_MANIFEST) {
    return make_of_text(r, m, file, err, size);
  }
  if (r->kind == SHARD_REQUEST_NAMES) {
    return make_of_names(r, m, file, err, size);
  }
  int rc =
      r->kind == SHARD_REQUEST_USER_LISTING ? shard_user_listing_make(r, m, file, err, size) : 1;
  if (rc > 0 && r->kind == SHARD_REQUEST_USER_LISTING) {
    bool usual = rc == 2 && (r->round > 0 || r->alone); /* the program's own call */
    shard_log(usual ? SHARD_LOG_INFO : SHARD_LOG_WARN, err);
  }
  return rc > 0 ? shard_make_index(r, m, NULL, file, err, size) : rc;
}

/* Open a file that was made, hold it, and give it its name. */
static int install(const struct shard_request *r, const char *file, struct shard_listing **out,
                   char *err, size_t size) {
  bool first;
  char ignored[1];
  int fd = chmod(file, S_IRUSR | S_IWUSR) != 0
               ? -errno
               : shard_lock_join(file, false, &first, ignored, sizeof(ignored));
  int rc = fd >= 0 ? shard_listing_map(fd, r->file, out) : fd;
  if (rc == 0 && rename(file, r->file) != 0) {
    rc = -errno;
    shard_listing_close(*out);
    *out = NULL;
  }
  return rc == 0 ? 0
                 : shard_error_set(err, size, rc,
                                   "shardctl left no usable listing in '%.300s': %s; leave the "
                                   "folder alone, or set SHARD_CACHE_DIR",
                                   file, shard_listing_strerror(rc));
}

/* Under the lock, and there is none. */
static int make_one(const struct shard_request *r, const struct shard_making *m,
                    struct shard_listing **out, char *err, size_t size) {
  char *file = malloc(PATH_MAX);
  if (!file) {
    return no_memory(err, size);
  }
  shard_request_path(r, SHARD_CACHE_NEW, (uint64_t)getpid(), file);
  int rc = make_file(r, m, file, err, size);
  rc = rc ? rc : install(r, file, out, err, size);
  if (rc != 0) {
    unlink(file);
  }
  free(file);
  return rc;
}

/* 1: made; 0: another process has made it meanwhile; or a negative errno and a line. */
static int make(const struct shard_request *r, struct shard_listing **out, char *err, size_t size) {
  struct shard_making m = {.lock = -1};
  bool first;
  char *lock = malloc(PATH_MAX); /* a host's thread may have a small stack */
  if (!lock) {
    return no_memory(err, size);
  }
  shard_request_path(r, SHARD_CACHE_LOCK, 0, lock);
  int rc = shard_make_lock(r, lock, &m.lock, &m.deadline, err, size);
  int found = rc == 0 ? join(r, out, &first, err, size) : rc;
  rc = found == 0 ? make_one(r, &m, out, err, size) : found < 0 ? found : 0;
  shard_lock_release(m.lock, lock);
  free(lock);
  if (rc == 0 && found == 0) {
    const struct shard_collect rules = {.older_than = -1};
    shard_collect(r->cache, &rules);
  }
  return rc ? rc : found == 0;
}

/* ---- the way ------------------------------------------------------------ */

static int open_listing(struct shard_request *r, const struct shard_cache_source *s,
                        struct shard_listing **out, char *err, size_t size) {
  bool first = false;
  int rc = shard_request_locate(r, err, size);
  int found = rc == 0 ? join(r, out, &first, err, size) : rc;
  if (found > 0 && *out && first && shard_config()->job) {
    tell_of_age(r, *out);
  }
  int made = found == 0 ? make(r, out, err, size) : 0;
  if (made > 0 && *out && !s->compared) {
    tell_of_hosts(r, *out);
    tell_of_hand(r);
  }
  rc = found < 0 ? found : made < 0 ? made : 0;
  /* That a file of the cache, or what shardctl needs, is missing says nothing of the dataset. */
  return rc == -ENOENT && !r->list ? -EIO : rc;
}

int shard_cache_open(const struct shard_cache_source *s, struct shard_listing **out, char *err,
                     size_t size) {
  int saved = errno;
  struct shard_request *r = calloc(1, sizeof(*r));
  *out = NULL;
  if (!r) {
    errno = saved;
    return no_memory(err, size);
  }
  int rc = set_up(r, s, err, size);
  rc = rc ? rc : open_listing(r, s, out, err, size);
  free(r);
  errno = saved;
  return rc;
}

/* ---- a program's own calls ---------------------------------------------- */

static int64_t loaded; /* ns since 1970 */
static pid_t loaded_by;

void shard_cache_init(void) {
  loaded = shard_clock_real_ns();
  loaded_by = getpid();
}

/*
 * The time before which the processes of a program have asked for nothing: its start, or, of a
 * process that was forked later, its own. The ranks of an MPI job have met since then.
 */
static int64_t find_beginning(void) {
  struct shard_process self;
  return getpid() == loaded_by                                ? loaded
         : shard_process_read(shard_process_own_pid(), &self) ? shard_process_start_time(self.start)
                                                              : shard_clock_real_ns();
}

/* What this process has asked for, and how often. Nothing is ever freed. */
struct asked {
  struct asked *next;
  _Atomic uint64_t count;
  char text[];
};
static _Atomic(struct asked *) asked;

static struct asked *find_asked(const char *text, struct asked *from, const struct asked *to) {
  while (from != to && strcmp(from->text, text) != 0) {
    from = from->next;
  }
  return from == to ? NULL : from;
}

/* How often this process has asked for a directory with these options; each time is a round. 0: no
 * memory. */
static uint64_t count_round(const char *dir, const char *options) {
  struct asked *made = malloc(sizeof(*made) + strlen(dir) + strlen(options) + 2);
  if (!made) {
    return 0;
  }
  made->count = 0;
  made->next = atomic_load(&asked);
  sprintf(made->text, "%s\n%s", dir, options);
  struct asked *own = find_asked(made->text, made->next, NULL);
  while (!own) {
    const struct asked *before = made->next;
    if (atomic_compare_exchange_strong(&asked, &made->next, made)) {
      return atomic_fetch_add(&made->count, 1) + 1;
    }
    own = find_asked(made->text, made->next, before); /* another thread's */
  }
  free(made);
  return atomic_fetch_add(&own->count, 1) + 1;
}

int shard_dataset_open(const char *dir, const char *options, struct shard_listing **out, char *err,
                       size_t size) {
  bool shares = shard_config()->view == SHARD_VIEW_SHARD;
  uint64_t round = count_round(dir, options);
  /* DLIO's ranks compare what they have, unless each is a world of its own. */
  const struct shard_cache_source source = {.dir = dir,
                                            .words = options,
                                            .alone = round == 0,
                                            .round = round,
                                            .since = shares ? 0 : find_beginning(),
                                            .compared = !shares};
  return shard_cache_open(&source, out, err, size);
}

int shard_dataset_open_s3(const char *url, const char *options, const char *const *environment,
                          uint64_t round, int64_t since, struct shard_listing **out, char *err,
                          size_t size) {
  const struct shard_cache_source source = {.url = url,
                                            .words = options,
                                            .environment = environment,
                                            .alone = round == 0,
                                            .round = round,
                                            .since = since};
  return shard_cache_open(&source, out, err, size);
}

int shard_names_open(const char *names, size_t size, struct shard_listing **out, char *err,
                     size_t errsize) {
  const struct shard_cache_source source = {.names = names, .names_size = size, .compared = true};
  return shard_cache_open(&source, out, err, errsize);
}
