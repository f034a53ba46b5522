/* SPDX-License-Identifier: MIT */
/*
 * cache.c - listings of a node: found, checked, or built by one process while the others wait.
 *
 *   KEY.lock                     flock'ed by the process that builds, and by its shardctl
 *   KEY.new.PID.listing          what is being built
 *   KEY-VERSION.listing          a finished listing; never changes, but for the time of a bucket's
 *                                when another job finds the same
 *   KEY.current                  symbolic link to the newest version
 *   KEY.job-ID                   symbolic link to the version that a job began with; of a manifest,
 *                                KEY is the one of its path, whatever it holds, and of a mounted
 *                                bucket, of its URL
 *   KEY.got-ID.listing           an object that SHARD_LISTING names, as job ID has got it; or .txt,
 *                                .txt.gz, .txt.zst. KEY is of its URL
 *   KEY.part-NONCE.*             a bucket's listing in parts (stream.h)
 *   KEY.stream-ID                symbolic link that says KEY.part-NONCE: what job ID reads
 *
 * KEY is a hash of the canonical directory and options (of a bucket, of its URL and of what says
 * where it is, too), VERSION of the content. A process opens KEY.current, compares the
 * source and the options kept inside (so a collision of KEY is only slow), and the mtime and inode
 * of every directory that was walked. Whoever has a listing mapped, or its versioned path, keeps
 * exactly that listing.
 *
 * The lock is inherited by shardctl, so it is held while either lives, and gone when both died.
 *
 * Who waits for rank 0 of another node must not stand in the way of rank 0 of this one: it has the
 * lock of a KEY of its own until there is something to be put into the cache.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cache/cache.h"
#include "cache/given.h"
#include "cache/stream.h"
#include "config/config.h"
#include "config/job.h"
#include "config/pattern.h"
#include "host/real.h"
#include "host/self.h"
#include "libshard.h"
#include "listing/codec.h"
#include "listing/listing.h"
#include "listing/options.h"

#define FRESH 600        /* seconds */
#define REWRITES 10      /* of a manifest while it is read */
#define TICK_MS 20       /* a file's mtime may be so old when it is set */
#define GRACE_MS 5000    /* for a shardctl that waits to say why it was in vain */
#define FIRST_FREE_FD 10 /* a host may run with 0, 1 or 2 closed */

/* One call. On the heap, with room for every path: a host's thread may have a small stack. */
struct request {
  const char *dir;
  char real[PATH_MAX];
  char given[PATH_MAX];    /* SHARD_LISTING */
  int first;               /* rank, if SHARD_LISTING_BUILD=first, and it is not settled; else -1 */
  bool shared;             /* then r->given is an object: shardctl looks, makes and waits */
  char origin[PATH_MAX];   /* names come from this manifest or s3:// prefix, not from real; or "" */
  bool remote;             /* it is an s3:// prefix, or object */
  bool object;             /* which is fetched */
  bool streamed;           /* in parts; r->file is their base */
  const char *const *more; /* variables for shardctl; NULL: none */
  int64_t since;           /* a bucket's listing must have begun then, ns; 0: it may be FRESH */
  int64_t asked;           /* when this was, ns: one is no older for having been waited for */
  struct stat identity;    /* of a manifest */
  struct shard_options options;
  char options_text[SHARD_OPTIONS_TEXT];
  char cache[PATH_MAX];
  char key[33], job_key[33];
  const char *watched; /* a job: the builder is not needed once this has a listing; or NULL */
  char seconds[32];    /* how long shardctl is to wait for r->given; "": it makes it */
  bool needless;       /* it was not needed any more */
  char file[PATH_MAX + NAME_MAX]; /* being built, or opened */
  char link[PATH_MAX + NAME_MAX], link_new[PATH_MAX + NAME_MAX];
  char target[NAME_MAX + 1];
  char program[PATH_MAX];
  char words[600]; /* the builder's last */
  bool killed;     /* the builder was, by a signal */
  char *err;
  size_t size;
};

__attribute__((format(printf, 3, 4))) static int fail(struct request *r, int rc, const char *format,
                                                      ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(r->err, r->size, format, args);
  va_end(args);
  return rc;
}

/* FNV-1a, 64 bits (Fowler, Noll, Vo). */
static uint64_t fnv(uint64_t h, const void *data, size_t size) {
  const uint8_t *p = data;
  while (size--) {
    h = (h ^ *p++) * 0x100000001b3ULL;
  }
  return h;
}

/* Whether a variable is named by "NAME=value" or "NAME" in a list of those that end with NULL. */
static const char *find_variable(const char *const *list, const char *name, size_t length) {
  for (; list && *list; list++) {
    if (strncmp(*list, name, length) == 0 && ((*list)[length] == '=' || !(*list)[length])) {
      return *list;
    }
  }
  return NULL;
}

/* What shardctl will have for a variable; NULL: nothing. */
static const char *builders_value(const struct request *r, const char *name) {
  size_t n = strlen(name);
  const char *own = find_variable(r->more, name, n);
  return !own ? getenv(name) : own[n] ? own + n + 1 : NULL;
}

/* What says where a bucket is: one of the same name elsewhere is another one. No keys. */
static const char *const places[] = {
    "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",   "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_REGION",          "AWS_DEFAULT_REGION", "AWS_PROFILE",
    "AWS_CONFIG_FILE"};

/* of_path: whatever the manifest there is, wherever the bucket is. */
static void make_key(struct request *r, bool of_path, char key[33]) {
  uint64_t a = 0xcbf29ce484222325ULL, b = 0x84222325cbf29ce4ULL;
  uint32_t version = SHARD_FORMAT_VERSION;
  /* One that is written anew has another key: the listing in the cache needs no other check. */
  int64_t identity[] = {(int64_t)r->identity.st_ino, r->identity.st_size,
                        r->identity.st_mtim.tv_sec, r->identity.st_mtim.tv_nsec};
  const struct {
    const void *data;
    size_t size;
  } parts[] = {{r->real, strlen(r->real) + 1},
               {r->options_text, strlen(r->options_text) + 1},
               {&version, sizeof(version)},
               {r->origin, *r->origin ? strlen(r->origin) + 1 : 0},
               {identity, *r->origin && !of_path ? sizeof(identity) : 0}};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
    a = fnv(a, parts[i].data, parts[i].size);
    b = fnv(b ^ a, parts[i].data, parts[i].size);
  }
  for (size_t i = 0; r->remote && !of_path && i < sizeof(places) / sizeof(places[0]); i++) {
    const char *value = builders_value(r, places[i]);
    a = fnv(a, value ? value : "", value ? strlen(value) + 1 : 0);
    a = fnv(a, "\n", 1);
    b = fnv(b ^ a, "\n", 1);
  }
  snprintf(key, sizeof(r->key), "%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
}

/* ---- is a listing the one that is asked for, and still true? ---------------------------- */

/* A file that somebody else could have planted is not a listing. */
static bool trusted(const char *file) {
  struct stat st;
  return stat(file, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == 0);
}

/* What the listing says it is of. */
static const char *source_of(const struct request *r) { return r->remote ? r->origin : r->real; }

/* Open the listing that r->link leads to, if it is the one that is asked for. NULL if not. */
static struct shard_listing *open_link(struct request *r) {
  ssize_t n = readlink(r->link, r->target, sizeof(r->target) - 1);
  if (n <= 0) {
    return NULL;
  }
  r->target[n] = 0;
  if (strchr(r->target, '/')) {
    return NULL;
  }
  snprintf(r->file, sizeof(r->file), "%s/%s", r->cache, r->target);
  struct shard_listing *l;
  if (!trusted(r->file) || shard_listing_open(r->file, &l) != 0) {
    return NULL;
  }
  /* One that rank 0 has not made, but found, may have been made with other options. */
  if ((strcmp(l->source, source_of(r)) == 0 && strcmp(l->options, r->options_text) == 0) ||
      (r->first >= 0 && shard_given_serves(l, source_of(r), &r->options))) {
    return l;
  }
  shard_listing_close(l);
  return NULL;
}

static int64_t realtime_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/*
 * Of a bucket it cannot be told whether it has changed. Ranks that no launcher has started, so that
 * no job keeps a listing for them, share one if they start within some minutes; unless it is said
 * since when it must have been made.
 */
static bool is_fresh(const struct request *r, const struct shard_listing *l) {
  int64_t listed = l->header->listed_sec * 1000000000LL + l->header->listed_nsec;
  return listed <= realtime_ns() &&
         listed >= (r->since ? r->since : r->asked - FRESH * 1000000000LL);
}

/* Open KEY.current if it is there and true. NULL if not. */
static struct shard_listing *open_current(struct request *r) {
  snprintf(r->link, sizeof(r->link), "%s/%s.current", r->cache, r->key);
  struct shard_listing *l = open_link(r);
  if (l && !(r->remote ? is_fresh(r, l) : shard_given_true(l, r->real))) {
    shard_listing_close(l);
    l = NULL;
  }
  return l;
}

/* 0: of no job. */
static unsigned long long job_id(const char *job) {
  return job ? fnv(0xcbf29ce484222325ULL, job, strlen(job)) : 0;
}

static void name_pin(struct request *r, const char *job) {
  snprintf(r->link, sizeof(r->link), "%s/%s.job-%016llx", r->cache, r->job_key, job_id(job));
}

/* The listing that this job began with, true or not. NULL if there is none yet. */
static struct shard_listing *open_pinned(struct request *r, const char *job) {
  name_pin(r, job);
  struct shard_listing *l = open_link(r);
  if (l && r->since && !is_fresh(r, l)) {
    shard_listing_close(l); /* of an earlier program of the job */
    l = NULL;
  }
  return l;
}

/* Whether there is one, and it has not been removed. */
static bool has_pin(struct request *r, const char *job) {
  struct stat st;
  name_pin(r, job);
  return stat(r->link, &st) == 0;
}

/*
 * The same of an object that is shared, where no job is known: all that use it are one, for some
 * minutes, and as long as it is true.
 */
static struct shard_listing *open_shared(struct request *r) {
  struct stat st;
  time_t now = time(NULL);
  name_pin(r, r->given);
  bool recent =
      lstat(r->link, &st) == 0 && st.st_mtim.tv_sec <= now && st.st_mtim.tv_sec > now - FRESH;
  struct shard_listing *l = recent ? open_link(r) : NULL;
  if (l && !shard_given_true(l, r->real)) {
    shard_listing_close(l);
    l = NULL;
  }
  if (!l) {
    unlink(r->link);
  }
  return l;
}

static void say_digest(const struct request *r, const struct shard_listing *l, const char *what) {
  struct shard_listing_info info;
  char text[600];
  shard_listing_info(l, &info);
  snprintf(text, sizeof(text), "directory '%.300s' %s (%llu entries, digest %.16s)",
           *r->real ? r->real : r->origin, what, (unsigned long long)info.entries, info.digest);
  shard_log(SHARD_LOG_WARN, text);
}

/* *l is the newest listing, r->target its name. Make it this job's, unless there is one already. */
static void pin(struct request *r, const char *job, struct shard_listing **l) {
  char target[sizeof(r->target)];
  strcpy(target, r->target);
  struct shard_listing *theirs = open_pinned(r, job);
  if (!theirs && symlink(target, r->link) != 0 && errno == EEXIST) {
    theirs = open_pinned(r, job);
    if (!theirs && unlink(r->link) == 0 && symlink(target, r->link) == 0 && !r->since) {
      say_digest(r, *l,
                 "has lost the listing that this job began with; from now on ranks have a new one");
    }
  }
  if (theirs) {
    shard_listing_close(*l);
    *l = theirs;
  }
}

/* ---- election and building ------------------------------------------------------------- */

/* Move a fd out of the way of 0..9; keeps O_CLOEXEC. */
static int high_fd(int fd) {
  if (fd < 0 || fd >= FIRST_FREE_FD) {
    return fd;
  }
  int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD), saved = errno;
  close(fd);
  errno = saved;
  return high;
}

/*
 * The environment without LD_PRELOAD: the builder is not to be interposed. And with `more`, which
 * go over the others: that is how keys get to it, and they get nowhere else.
 */
static char **builder_environment(const char *const *more) {
  size_t n = 0, m = 0, k = 0;
  while (environ && environ[n]) {
    n++;
  }
  while (more && more[m]) {
    m++;
  }
  char **copy = calloc(n + m + 1, sizeof(*copy));
  for (size_t i = 0; copy && i < n; i++) {
    if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 &&
        !find_variable(more, environ[i], strcspn(environ[i], "="))) {
      copy[k++] = environ[i];
    }
  }
  for (size_t i = 0; copy && i < m; i++) {
    if (strchr(more[i], '=')) {
      copy[k++] = (char *)more[i];
    }
  }
  return copy;
}

/* Start shardctl with the lock as fd 3 and its stderr in a pipe. */
static int start_builder(struct request *r, int lock, int *errors, pid_t *pid) {
  if (shard_self_program("shardctl", r->program, sizeof(r->program)) != 0) {
    return fail(r, -ENOENT, "shardctl was not found beside libshard.so ('%.300s'); build it there",
                r->program);
  }
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) {
    return fail(r, -errno, "pipe: %s", strerror(errno));
  }
  pipes[0] = high_fd(pipes[0]);
  pipes[1] = high_fd(pipes[1]);
  char **environment = builder_environment(r->more);
  if (pipes[0] < 0 || pipes[1] < 0 || !environment) {
    close(pipes[0]);
    close(pipes[1]);
    free(environment);
    return fail(r, -EMFILE, "no file descriptor left to start shardctl");
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipes[1], 2);
  posix_spawn_file_actions_adddup2(&actions, lock, 3);
  posix_spawn_file_actions_addclosefrom_np(&actions, 4);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0); /* to be killed with whatever it starts */
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  char *get[] = {r->program, "get", r->origin, "-o", r->file, NULL};
  char *index[16] = {
      r->program,      "index",  *r->origin ? r->origin : r->real, "-o", r->file, "--options",
      r->options_text, "--quiet"};
  size_t n = 8;
  if (*r->origin && !r->remote) {
    index[n++] = "--root";
    index[n++] = r->real;
  }
  if (r->shared) {
    index[n++] = "--share";
    index[n++] = r->given;
  }
  if (r->shared && r->seconds[0]) {
    index[n++] = "--wait";
    index[n++] = r->seconds;
  }
  char *stream[] = {r->program, "stream",    r->origin,       "-o",
                    r->file,    "--options", r->options_text, NULL};
  int rc = posix_spawn(pid, r->program, &actions, &attributes,
                       r->object     ? get
                       : r->streamed ? stream
                                     : index,
                       environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  free(environment);
  close(pipes[1]);
  if (rc != 0) {
    close(pipes[0]);
    return fail(r, -rc, "cannot start '%.300s': %s", r->program, strerror(rc));
  }
  *errors = pipes[0];
  return 0;
}

/* Keep the last of what is said, in whole lines as far as they fit. */
static size_t keep_words(char *words, size_t used, size_t size, const char *chunk, size_t n) {
  n = n < size / 2 ? n : size / 2;
  if (used + n >= size) {
    char *line = memchr(words, '\n', used);
    size_t drop = used + n + 1 - size, first = line ? (size_t)(line - words) + 1 : drop;
    drop = first > drop ? first : drop;
    memmove(words, words + drop, used - drop);
    used -= drop;
  }
  memcpy(words + used, chunk, n);
  return used + n;
}

/* Read the builder's stderr to its end. false: the deadline came first, or it is not needed. */
static bool hear(struct request *r, int errors, int64_t deadline) {
  char *words = r->words;
  size_t used = 0, size = sizeof(r->words);
  bool in_time = true, open = true;
  r->needless = false;
  while (open && in_time && !r->needless) {
    int64_t left = deadline - shard_clock_ms(), most = r->watched ? 100 : 1000;
    struct pollfd p = {.fd = errors, .events = POLLIN};
    int n = poll(&p, 1, left < 0 ? 0 : left > most ? (int)most : (int)left);
    if (n > 0) {
      char chunk[256];
      ssize_t got = read(errors, chunk, sizeof(chunk));
      used = got > 0 ? keep_words(words, used, size, chunk, (size_t)got) : used;
      open = got > 0 || (got < 0 && errno == EINTR);
    } else if (n < 0 && errno != EINTR) {
      open = false;
    }
    in_time = !open || shard_clock_ms() < deadline;
    r->needless = r->watched && open && has_pin(r, r->watched);
  }
  while (used > 0 && words[used - 1] == '\n') {
    used--;
  }
  words[used] = 0;
  return in_time && !r->needless;
}

static int builder_failed(struct request *r) {
  const char *line = strrchr(r->words, '\n'), *words = line ? line + 1 : r->words;
  if (r->shared) {
    return fail(r, -EIO, "SHARD_LISTING='%.300s': %s", r->given,
                words[0] ? words : "shardctl failed");
  }
  bool named = strstr(words, source_of(r));
  return fail(r, -EIO, "%s%s%.300s%s", words[0] ? words : "shardctl failed",
              named ? "" : " while it listed ", named ? "" : source_of(r),
              strstr(words, "No space left") ? "; set SHARD_CACHE_DIR to a directory with room"
                                             : "");
}

/*
 * Wait for the builder to end; its last words go to r->words. A host that reaps all its
 * children, or ignores SIGCHLD, takes the status: then only the file can tell, and this returns 0.
 */
static int await_builder(struct request *r, pid_t pid, int errors, int64_t deadline) {
  bool in_time = hear(r, errors, deadline);
  close(errors);
  int status = 0;
  pid_t got = 0;
  for (long nap_us = 100; in_time; nap_us = nap_us < 20000 ? nap_us * 2 : nap_us) {
    got = waitpid(pid, &status, WNOHANG);
    if (got == pid || (got < 0 && errno != EINTR)) {
      break;
    }
    struct timespec nap = {0, nap_us * 1000};
    nanosleep(&nap, NULL);
    in_time = shard_clock_ms() < deadline;
  }
  if (!in_time) {
    kill(-pid, SIGKILL);
    do {
      got = waitpid(pid, &status, 0);
    } while (got < 0 && errno == EINTR);
    return r->needless ? 0
                       : fail(r, -ETIMEDOUT,
                              "listing '%.300s' took more than %u s; raise SHARD_TIMEOUT, or build "
                              "it beforehand "
                              "(shardctl index) and set SHARD_LISTING",
                              source_of(r), shard_config()->timeout);
  }
  if (got == pid && WIFSIGNALED(status)) {
    r->killed = true;
    return fail(r, -EIO, "shardctl was killed by signal %d while it listed '%.300s'",
                WTERMSIG(status), source_of(r));
  }
  return got == pid && WEXITSTATUS(status) != 0 ? builder_failed(r) : 0;
}

/* Give the new listing, r->file, its name and make it current. */
static int install(struct request *r, struct shard_listing **out) {
  struct shard_listing *l;
  int rc = shard_listing_open(r->file, &l);
  if (rc != 0) {
    unlink(r->file);
    return r->words[0] ? builder_failed(r)
                       : fail(r, rc, "shardctl left no usable listing in '%.300s': %s", r->file,
                              strerror(-rc));
  }
  struct shard_header header = *l->header;
  if (r->remote) {
    /* The same names again take the place of those before: no directory's mtime tells them apart.
     */
    header.listed_sec = header.listed_nsec = 0;
    header.header_crc = 0;
  }
  uint64_t version = fnv(0xcbf29ce484222325ULL, &header, sizeof(header));
  shard_listing_close(l);
  snprintf(r->target, sizeof(r->target), "%s-%016llx.listing", r->key, (unsigned long long)version);
  /* r->link is free until the listing has its name. */
  snprintf(r->link, sizeof(r->link), "%s/%s", r->cache, r->target);
  rc = rename(r->file, r->link) == 0 ? 0 : -errno;
  if (rc == 0) {
    strcpy(r->file, r->link);
    snprintf(r->link, sizeof(r->link), "%s/%s.current", r->cache, r->key);
    snprintf(r->link_new, sizeof(r->link_new), "%s.new.%ld", r->link, (long)getpid());
    unlink(r->link_new);
    if (symlink(r->target, r->link_new) != 0 || rename(r->link_new, r->link) != 0) {
      rc = -errno;
      unlink(r->link_new);
    }
  }
  if (rc != 0) {
    unlink(r->file);
    return fail(r, rc, "cannot put the listing into '%.300s': %s", r->cache, strerror(-rc));
  }
  rc = shard_listing_open(r->file, out);
  return rc == 0 ? 0 : fail(r, rc, "cannot open '%.300s': %s", r->file, strerror(-rc));
}

/* Whether a file is of a stream whose builder died before its end. */
static bool is_broken_part(const struct request *r, const char *name) {
  size_t n = strlen(r->key) + strlen(".part-") + 16;
  char *base = NULL;
  bool broken = strlen(name) > n && memcmp(name, r->key, strlen(r->key)) == 0 &&
                strncmp(name + strlen(r->key), ".part-", 6) == 0 &&
                asprintf(&base, "%s/%.*s", r->cache, (int)n, name) >= 0 &&
                shard_stream_look(base) == SHARD_STREAM_BROKEN;
  free(base);
  return broken;
}

/* What builders of this listing left that died with their rank, the lock being ours: none lives.
 * And what jobs of a month ago left. */
static void remove_leftovers(const struct request *r) {
  char prefix[64], current[64], job[64], got[64], stream[64];
  struct stat st;
  int n = snprintf(prefix, sizeof(prefix), "%s.new.", r->key);
  int k = snprintf(current, sizeof(current), "%s.current.new.", r->key);
  int m = snprintf(job, sizeof(job), "%s.job-", r->job_key);
  int s = snprintf(stream, sizeof(stream), "%s.stream-", r->key);
  int g = snprintf(got, sizeof(got), "%s.got-", r->job_key);
  DIR *dir = shard_real()->opendir(r->cache);
  const struct dirent *entry;
  while (dir && (entry = shard_real()->readdir(dir))) {
    bool old = (strncmp(entry->d_name, job, (size_t)m) == 0 ||
                strncmp(entry->d_name, got, (size_t)g) == 0 ||
                strncmp(entry->d_name, stream, (size_t)s) == 0) &&
               fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
               st.st_mtim.tv_sec < time(NULL) - 30L * 24 * 3600;
    if (old || is_broken_part(r, entry->d_name) || strncmp(entry->d_name, prefix, (size_t)n) == 0 ||
        strncmp(entry->d_name, current, (size_t)k) == 0) {
      unlinkat(dirfd(dir), entry->d_name, 0);
    }
  }
  if (dir) {
    shard_real()->closedir(dir);
  }
}

static void name_new(struct request *r) {
  snprintf(r->file, sizeof(r->file), "%s/%s.new.%ld.listing", r->cache, r->key, (long)getpid());
}

/* What shardctl warns of while it does what it is to do. */
static void pass_warnings(struct request *r) {
  static const char mark[] = "shardctl: warning: ";
  char *next = NULL;
  for (char *line = strtok_r(r->words, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
    if (strncmp(line, mark, sizeof(mark) - 1) == 0) {
      shard_log(SHARD_LOG_WARN, line + sizeof(mark) - 1);
    }
  }
}

/* By shardctl, to r->file. */
static int make(struct request *r, int lock, int64_t deadline) {
  char text[400];
  if (!r->streamed) {
    name_new(r);
  }
  snprintf(text, sizeof(text), "%s '%.300s'",
           r->object       ? "fetching"
           : r->seconds[0] ? "waiting for rank 0's listing of"
                           : "listing",
           source_of(r));
  shard_log(SHARD_LOG_INFO, text);
  int rc = 0;
  /* Why a bucket has not answered for as long shardctl can tell, if it is let. */
  int64_t late = deadline;
  deadline += r->remote && !r->seconds[0] ? GRACE_MS : 0; /* who waits for rank 0 has it added */
  /* One that is killed gets a successor: this rank waits like the others. */
  for (int tries = 0; tries == 0 || (tries == 1 && rc != 0 && r->killed); tries++) {
    int errors = -1;
    pid_t pid = -1;
    r->killed = false;
    remove_leftovers(r);
    rc = start_builder(r, lock, &errors, &pid);
    if (rc == 0) {
      rc = await_builder(r, pid, errors, deadline);
      if (rc != 0 || r->needless) {
        remove_leftovers(r);
      }
    }
  }
  if (rc == 0 && r->shared) {
    pass_warnings(r);
  }
  rc = rc == -EIO && r->remote && shard_clock_ms() >= late ? -ETIMEDOUT : rc;
  return rc;
}

static int build(struct request *r, int lock, int64_t deadline, struct shard_listing **out) {
  int rc = make(r, lock, deadline);
  return rc == 0 ? install(r, out) : rc;
}

/* A manifest that has changed since r->identity was taken: part of it may have been read. */
static bool was_rewritten(const struct request *r) {
  struct stat st;
  return *r->origin && !r->remote &&
         (stat(r->origin, &st) != 0 || st.st_ino != r->identity.st_ino ||
          st.st_size != r->identity.st_size || st.st_mtim.tv_sec != r->identity.st_mtim.tv_sec ||
          st.st_mtim.tv_nsec != r->identity.st_mtim.tv_nsec);
}

/* rc, or -EAGAIN if *out may be of a part of the manifest only. */
static int check_unchanged(struct request *r, int rc, struct shard_listing **out) {
  if (!was_rewritten(r)) {
    return rc;
  }
  if (rc == 0) {
    shard_listing_close(*out);
    *out = NULL;
  }
  return fail(r, -EAGAIN,
              "SHARD_LISTING='%.300s' is being written; write it elsewhere, and rename it when it "
              "is complete",
              r->origin);
}

/*
 * A listing that need not be built. A job looks once at a bucket, and at what rank 0 has put,
 * whatever earlier jobs saw.
 */
static struct shard_listing *find_ready(struct request *r, const char *job) {
  if (r->shared && !job) {
    return open_shared(r);
  }
  return (r->remote || r->first >= 0) && job ? open_pinned(r, job) : open_current(r);
}

/* Wait for the lock; *lock is to be closed in any case, unless it is negative. */
static int take_lock(struct request *r, int *held, int64_t *end) {
  snprintf(r->link, sizeof(r->link), "%s/%s.lock", r->cache, r->key);
  int lock = *held = high_fd(open(r->link, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock < 0) {
    bool passing = shard_error_is_shortage(errno);
    return fail(r, -errno, "cannot write to the cache directory '%.300s': %s%s", r->cache,
                strerror(errno), passing ? "" : "; set SHARD_CACHE_DIR");
  }
  int64_t deadline = *end = shard_clock_ms() + (int64_t)shard_config()->timeout * 1000;
  int64_t said = shard_clock_ms();
  char text[400];
  long nap_ms = 1;
  int rc = 0;
  while (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      rc = fail(r, -errno, "cannot lock '%.300s': %s; set SHARD_CACHE_DIR", r->link,
                strerror(errno));
      break;
    }
    if (shard_clock_ms() >= deadline && r->shared && r->first > 0) {
      rc = fail(r, -ETIMEDOUT,
                "SHARD_LISTING='%.300s': rank 0 has not put the listing of '%.300s' there for %u s "
                "(SHARD_LISTING_BUILD=first); raise SHARD_TIMEOUT, or make the listing beforehand "
                "with shardctl index",
                r->given, source_of(r), shard_config()->timeout);
      break;
    }
    if (shard_clock_ms() >= deadline) {
      rc = fail(r, -ETIMEDOUT,
                "another process has been listing '%.300s' for more than %u s; raise "
                "SHARD_TIMEOUT, or build it beforehand (shardctl index) and set SHARD_LISTING",
                source_of(r), shard_config()->timeout);
      break;
    }
    struct timespec nap = {0, nap_ms * 1000000L};
    nanosleep(&nap, NULL);
    nap_ms = nap_ms < 50 ? nap_ms * 2 : 50;
    if (shard_clock_ms() >= said + 5000) {
      said = shard_clock_ms();
      snprintf(text, sizeof(text), "waiting for another process to list '%.300s', %lld s left",
               source_of(r), (long long)(deadline - said) / 1000);
      shard_log(SHARD_LOG_INFO, text);
    }
  }
  return rc;
}

/* ---- SHARD_LISTING_BUILD=first -------------------------------------------------------------
 *
 * Rank 0's node makes the listing, if there is no true one; the others take a copy, so that all
 * processes of the job have it, though the directory changes meanwhile.
 */

/* Put a copy of a listing that was made elsewhere into the cache. */
static int take_given(struct request *r, struct shard_listing *given, struct shard_listing **out) {
  name_new(r);
  int rc = shard_given_put(given, r->file, r->err, r->size);
  return rc ? rc : install(r, out);
}

/* Rank 0, and a file. */
static int share_file(struct request *r, int lock, int64_t deadline, struct shard_listing **out) {
  struct shard_listing *given;
  int rc = shard_given_look(r->given, source_of(r), &r->options, &given);
  if (rc > 0) {
    rc = take_given(r, given, out);
    shard_listing_close(given);
    return rc;
  }
  bool put = rc < 0; /* else it is of another directory: not to be touched */
  rc = build(r, lock, deadline, out);
  if (rc == 0 && put) {
    rc = shard_given_put(*out, r->given, r->err, r->size);
    if (rc != 0) {
      shard_listing_close(*out);
    }
  }
  return rc;
}

static bool is_pinned(void *context) {
  struct request *r = context;
  return has_pin(r, r->watched);
}

/* The others, and a file. 1: *given is open. 0: it is of another directory. 2: somebody has it. */
static int await_file(struct request *r, const char *job, struct shard_listing **given) {
  const struct shard_given_watch watch = {is_pinned, r};
  r->watched = job;
  int rc = shard_given_await(r->given, source_of(r), &r->options, &watch, given, r->err, r->size);
  r->watched = NULL;
  return rc;
}

/*
 * The others, and an object: one process of the node waits, which is *lock, by a shardctl that asks
 * for it. 1: r->file has it, or a listing of this node's own if that is of another directory. 2:
 * somebody has it.
 */
static int await_object(struct request *r, const char *job, int *lock) {
  char own[sizeof(r->key)];
  int64_t deadline = 0;
  memcpy(own, r->key, sizeof(own));
  uint64_t a = fnv(0xcbf29ce484222325ULL, own, sizeof(own)), b = fnv(a, own, sizeof(own));
  snprintf(r->key, sizeof(r->key), "%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
  int rc = take_lock(r, lock, &deadline);
  struct shard_listing *ready = rc == 0 ? find_ready(r, job) : NULL;
  if (ready) {
    shard_listing_close(ready);
    rc = 2;
  } else if (rc == 0) {
    int64_t left = deadline - shard_clock_ms();
    snprintf(r->seconds, sizeof(r->seconds), "%.3f", left > 0 ? (double)left / 1000 : 0);
    r->watched = job ? job : r->given;
    rc = make(r, *lock, deadline + GRACE_MS);
    rc = rc == 0 ? r->needless ? 2 : 1 : shard_clock_ms() >= deadline ? -ETIMEDOUT : rc;
    r->watched = NULL;
    r->seconds[0] = 0;
  }
  memcpy(r->key, own, sizeof(own));
  return rc;
}

/* Closing alone would not do: a child forked meanwhile has it open too. */
static void unlock(int lock) {
  if (lock >= 0) {
    flock(lock, LOCK_UN);
    close(lock);
  }
}

/* Take the lock, or find that another process has finished meanwhile. Pins. */
static int build_or_wait(struct request *r, const char *job, struct shard_listing **out) {
  int lock = -1, waiting = -1, came = 0;
  int64_t deadline = 0;
  struct shard_listing *given = NULL;
  char *file = NULL;
  if (r->first > 0) {
    came = r->shared ? await_object(r, job, &waiting) : await_file(r, job, &given);
    file = came == 1 && r->shared ? strdup(r->file) : NULL;
    came = came == 1 && r->shared && !file ? fail(r, -ENOMEM, "out of memory") : came;
  }
  int rc = came < 0 ? came : take_lock(r, &lock, &deadline);
  if (rc == 0) {
    *out = find_ready(r, job);
    if (!*out && file) {
      strcpy(r->file, file);
      rc = install(r, out);
    } else if (!*out && came == 1) {
      rc = take_given(r, given, out);
    } else if (!*out && came == 2) {
      rc =
          fail(r, -EAGAIN, "the listing of '%.300s' has gone from '%.300s' while it was waited for",
               source_of(r), r->cache);
    } else if (!*out) {
      rc = r->first == 0 && !r->shared ? share_file(r, lock, deadline, out)
                                       : build(r, lock, deadline, out);
    }
    rc = check_unchanged(r, rc, out);
    if (rc == 0 && (job || r->shared)) {
      pin(r, job ? job : r->given, out);
    }
  }
  if (file) {
    unlink(file); /* if it has no other name by now */
  }
  free(file);
  shard_listing_close(given);
  unlock(lock);
  unlock(waiting);
  return rc;
}

/* A cache inside the dataset would change it. `cache`, or its parent, is looked at; NULL: fine. */
static int refuse_inside(struct request *r, const char *cache) {
  char *inside = r->program; /* not needed for long */
  size_t n = strlen(r->real);
  if (!cache) {
    return 0;
  }
  if (!realpath(cache, inside)) {
    snprintf(r->link, sizeof(r->link), "%s", cache);
    char *slash = strrchr(r->link, '/');
    if (!slash || slash == r->link) {
      return 0;
    }
    *slash = 0;
    if (!realpath(r->link, inside)) {
      return 0;
    }
  }
  if (strncmp(inside, r->real, n) != 0 || (inside[n] != '/' && inside[n] != 0)) {
    return 0;
  }
  return fail(r, -EINVAL,
              "the cache directory '%.200s' lies inside '%.200s', which would change with every "
              "listing; set SHARD_CACHE_DIR",
              cache, r->real);
}

/* Take r->identity, once a later change of the manifest is sure to change it. */
static int identify(struct request *r, const char *manifest) {
  struct timespec now;
  int64_t age;
  do {
    if (!realpath(manifest, r->origin) || stat(r->origin, &r->identity) != 0) {
      return fail(r, -errno, "SHARD_LISTING='%.300s': %s; make it with shardctl manifest", manifest,
                  strerror(errno));
    }
    clock_gettime(CLOCK_REALTIME, &now);
    age = (now.tv_sec - r->identity.st_mtim.tv_sec) * 1000 +
          (now.tv_nsec - r->identity.st_mtim.tv_nsec) / 1000000;
  } while (age >= 0 && age < TICK_MS && nanosleep(&(struct timespec){0, 5000000}, NULL) <= 0);
  return S_ISREG(r->identity.st_mode)
             ? 0
             : fail(r, -EINVAL, "SHARD_LISTING='%.300s' is not a regular file", manifest);
}

/* Where the cache is, and the listing's name in it. */
static int find_cache(struct request *r) {
  /* Before it is made there. A bucket has no inside. */
  int rc = *r->real ? refuse_inside(r, shard_config()->cache_dir) : 0;
  if (rc == 0) {
    ssize_t n = shard_cache_dir(r->cache, sizeof(r->cache) - 128, r->err, r->size);
    rc = n < 0 ? (int)n : *r->real ? refuse_inside(r, r->cache) : 0;
  }
  make_key(r, false, r->key);
  make_key(r, !r->since, r->job_key); /* ranks may have endpoints of their own */
  return rc;
}

/* Everything but the options. dir NULL: there is none. */
static struct request *new_request(const char *dir, char *err, size_t size, int *rc) {
  struct request *r = calloc(1, sizeof(*r));
  if (!r) {
    snprintf(err, size, "out of memory");
    *rc = -ENOMEM;
    return NULL;
  }
  r->dir = dir;
  r->err = err;
  r->size = size;
  r->first = -1;
  r->asked = realtime_ns();
  *rc = !dir || realpath(dir, r->real)
            ? 0
            : fail(r, -errno, "cannot find directory '%.300s': %s", dir, strerror(errno));
  return r;
}

static int parse_options(struct request *r, const char *options) {
  int rc = shard_options_parse(&r->options, options, r->err, r->size);
  if (rc == 0) {
    shard_options_format(&r->options, r->options_text, sizeof(r->options_text));
  }
  return rc;
}

/* Names come from a bucket: what is mapped to a directory is a folder there. */
static int set_remote(struct request *r, const char *url) {
  size_t n = strlen(url);
  const char *slash = n > 0 && url[n - 1] == '/' ? "" : "/";
  r->remote = true;
  return (size_t)snprintf(r->origin, sizeof(r->origin), "%s%s", url, slash) < sizeof(r->origin)
             ? 0
             : fail(r, -ENAMETOOLONG, "SHARD_DATASET='%.200s...' is too long", url);
}

/* ---- objects ------------------------------------------------------------------------------ */

/* Whether the object is there, as this job has got it. Without a job it gets old. */
static bool have_object(const char *file, bool job) {
  struct stat st;
  time_t now = time(NULL);
  return lstat(file, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
         (job || (st.st_mtim.tv_sec <= now && st.st_mtim.tv_sec > now - FRESH));
}

int shard_cache_fetch(const char *dir, const char *url, const char *job, char *file,
                      size_t file_size, char *err, size_t size) {
  static const char *const kinds[] = {".txt", ".txt.gz", ".txt.zst"};
  int saved = errno, rc, lock = -1;
  int64_t deadline = 0;
  const char *kind = ".listing";
  size_t n = strlen(url);
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    size_t k = strlen(kinds[i]);
    kind = n >= k && strcmp(url + n - k, kinds[i]) == 0 ? kinds[i] : kind;
  }
  struct request *r = new_request(dir, err, size, &rc);
  if (rc == 0) {
    r->remote = r->object = true;
    rc = (size_t)snprintf(r->origin, sizeof(r->origin), "%s", url) < sizeof(r->origin)
             ? find_cache(r)
             : fail(r, -ENAMETOOLONG, "SHARD_LISTING='%.200s...' is too long", url);
  }
  if (rc == 0) {
    r->real[0] = 0; /* one for all directories */
    make_key(r, job != NULL, r->key);
    strcpy(r->job_key, r->key);
    int k = snprintf(file, file_size, "%s/%s.got-%016llx%s", r->cache, r->key, job_id(job), kind);
    rc = k > 0 && (size_t)k < file_size
             ? 0
             : fail(r, -ENAMETOOLONG, "the path of the cache directory is too long");
  }
  if (rc == 0 && !have_object(file, job)) {
    rc = take_lock(r, &lock, &deadline);
    if (rc == 0) {
      if (!have_object(file, job)) {
        rc = make(r, lock, deadline);
        if (rc == 0 && rename(r->file, file) != 0) {
          rc = fail(r, -errno, "SHARD_LISTING='%.300s': %s%.300s", url,
                    r->words[0] ? "" : strerror(errno), r->words);
        }
      }
    }
    unlock(lock);
  }
  free(r);
  errno = saved;
  return rc;
}

void shard_cache_name_object(const char *file, const char *url, char *err, size_t size) {
  char *at = strstr(err, file), *tail = at ? strdup(at + strlen(file)) : NULL;
  if (tail) {
    snprintf(at, size - (size_t)(at - err), "%.300s%s", url, tail);
  }
  free(tail);
}

/* ---- streams ------------------------------------------------------------------------------ */

/* Where a job reads, r->file, if it may go on there. Without a job it gets old. */
static bool find_stream(struct request *r, uint64_t id) {
  struct stat st;
  time_t now = time(NULL);
  snprintf(r->link, sizeof(r->link), "%s/%s.stream-%016llx", r->cache, r->key,
           (unsigned long long)id);
  ssize_t n = readlink(r->link, r->target, sizeof(r->target) - 1);
  r->target[n > 0 ? n : 0] = 0;
  if (n <= 0 || strchr(r->target, '/') || lstat(r->link, &st) != 0 || st.st_uid != geteuid()) {
    return false;
  }
  snprintf(r->file, sizeof(r->file), "%s/%s", r->cache, r->target);
  return shard_stream_look(r->file) != SHARD_STREAM_BROKEN &&
         (id != 0 || (st.st_mtim.tv_sec <= now && st.st_mtim.tv_sec > now - FRESH));
}

/* Begin a stream, and let the job read there. The lock is ours. */
static int begin_stream(struct request *r, int lock, int64_t deadline, uint64_t id) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t parts[] = {getpid(), now.tv_sec, now.tv_nsec};
  snprintf(r->target, sizeof(r->target), "%s.part-%016llx", r->key,
           (unsigned long long)fnv(0xcbf29ce484222325ULL, parts, sizeof(parts)));
  snprintf(r->file, sizeof(r->file), "%s/%s", r->cache, r->target);
  int rc = make(r, lock, deadline);
  if (rc != 0) {
    return rc;
  }
  snprintf(r->link, sizeof(r->link), "%s/%s.stream-%016llx", r->cache, r->key,
           (unsigned long long)id);
  snprintf(r->link_new, sizeof(r->link_new), "%s/%s.current.new.%ld", r->cache, r->key,
           (long)getpid());
  unlink(r->link_new);
  if (symlink(r->target, r->link_new) != 0 || rename(r->link_new, r->link) != 0) {
    rc = fail(r, -errno, "cannot write to the cache directory '%.300s': %s", r->cache,
              strerror(errno));
    unlink(r->link_new);
  }
  return rc;
}

int shard_cache_open_stream(const char *dir, const char *url, const char *options, const char *job,
                            struct shard_stream **out, char *err, size_t size) {
  int saved = errno, rc, lock = -1;
  int64_t deadline;
  uint64_t id = job_id(job);
  struct request *r = new_request(dir, err, size, &rc);
  if (rc == 0) {
    r->streamed = true;
    rc = set_remote(r, url);
  }
  if (rc == 0) {
    rc = parse_options(r, options);
  }
  rc = rc ? rc : find_cache(r);
  if (rc == 0 && !find_stream(r, id)) {
    rc = take_lock(r, &lock, &deadline);
    if (rc == 0) {
      rc = find_stream(r, id) ? 0 : begin_stream(r, lock, deadline, id);
    }
    unlock(lock);
  }
  if (rc == 0) {
    rc = shard_stream_open(r->file, r->origin, r->options_text, out);
    rc = rc ? fail(r, rc, "out of memory") : 0;
  }
  free(r);
  errno = saved;
  return rc;
}

/* The listing from the cache, built if need be. */
static int open_cached(struct request *r, const char *job, struct shard_listing **out) {
  int rc = find_cache(r);
  if (rc != 0) {
    return rc;
  }
  *out = job ? open_pinned(r, job) : NULL;
  if (*out) {
    if (!r->remote && strncmp(r->target, r->key, strlen(r->key)) != 0) {
      say_digest(r, *out,
                 "has a manifest that was written anew since this job began; all ranks keep the "
                 "first one");
    } else if (!r->remote && !shard_given_true(*out, r->real)) {
      say_digest(r, *out, "has changed since this job listed it; all ranks keep the listing");
    }
    return 0;
  }
  *out = find_ready(r, job);
  if (!*out) {
    return build_or_wait(r, job, out);
  }
  rc = check_unchanged(r, 0, out);
  if (rc == 0 && job) {
    pin(r, job, out);
  }
  return rc;
}

/* What SHARD_LISTING names. 1: *out is open. 0: it is of another directory or kind. */
static int open_given(struct request *r, const char *job, struct shard_listing **out) {
  const struct shard_config *config = shard_config();
  char *file = r->given;
  struct shard_world world;
  if (shard_pattern_expand(config->listing, 0, 0, file, sizeof(r->given)) < 0) {
    return fail(r, -ENAMETOOLONG, "SHARD_LISTING is too long");
  }
  if (shard_manifest_named(file) || shard_pattern_has(config->listing, 'r') ||
      shard_pattern_has(config->listing, 'e')) {
    return fail(r, -EINVAL,
                "SHARD_LISTING='%.300s' gives ranks lists of their own, which is for the shard "
                "view; here all ranks need one listing (shardctl index)",
                config->listing);
  }
  if (config->listing_first && r->remote && !*r->real) {
    return fail(r, -EINVAL,
                "SHARD_LISTING_BUILD=first is not for a bucket, which does not tell whether the "
                "listing that is there is old; make it with shardctl index");
  }
  r->shared = strncmp(file, "s3://", 5) == 0 && config->listing_first;
  if (strncmp(file, "s3://", 5) == 0 && !r->shared) {
    char *url = strdup(file);
    int got = url ? shard_cache_fetch(r->dir, url, job, file, sizeof(r->given), r->err, r->size)
                  : fail(r, -ENOMEM, "out of memory");
    if (got == 0) {
      got = shard_given_open(file, url, source_of(r), &r->options, out, r->err, r->size);
      if (got < 0) {
        shard_cache_name_object(file, url, r->err, r->size);
      }
    }
    free(url);
    return got;
  }
  if (!config->listing_first) {
    return shard_given_open(file, file, source_of(r), &r->options, out, r->err, r->size);
  }
  int rc = shard_world_get(&world, r->err, r->size);
  if (rc != 0) {
    return rc != -ENOENT ? rc
                         : fail(r, -EINVAL,
                                "SHARD_LISTING_BUILD=first: no rank is known; set "
                                "SHARD_RANK and SHARD_SIZE");
  }
  if (job || r->shared) {
    r->first = world.rank;
    return 0; /* once it is clear that the cache has none for the job */
  }
  if (world.rank > 0) {
    return shard_given_await(file, source_of(r), &r->options, NULL, out, r->err, r->size);
  }
  rc = shard_given_look(file, source_of(r), &r->options, out);
  if (rc >= 0) {
    return rc;
  }
  rc = open_cached(r, job, out);
  if (rc == 0) {
    rc = shard_given_put(*out, file, r->err, r->size);
    if (rc != 0) {
      shard_listing_close(*out);
    }
  }
  return rc ? rc : 1;
}

int shard_dataset_open(const char *dir, const char *options, struct shard_listing **out, char *err,
                       size_t size) {
  return shard_cache_open(dir, options, NULL, out, err, size);
}

/* Open what SHARD_LISTING names, or the cache's. */
static int open_request(struct request *r, const char *options, const char *job,
                        struct shard_listing **out) {
  int rc = parse_options(r, options);
  if (rc == 0) {
    rc = shard_config()->listing ? open_given(r, job, out) : 0;
    rc = rc == 0 ? open_cached(r, job, out) : rc < 0 ? rc : 0;
  }
  return rc;
}

int shard_cache_open(const char *dir, const char *options, const char *job,
                     struct shard_listing **out, char *err, size_t size) {
  int saved = errno, rc;
  struct request *r = new_request(dir, err, size, &rc);
  if (rc == 0) {
    rc = open_request(r, options, job, out);
  }
  free(r);
  errno = saved;
  return rc;
}

int shard_cache_open_remote(const char *dir, const char *url, const char *options, const char *job,
                            struct shard_listing **out, char *err, size_t size) {
  int saved = errno, rc;
  struct request *r = new_request(dir, err, size, &rc);
  if (rc == 0) {
    rc = set_remote(r, url);
  }
  if (rc == 0) {
    rc = open_request(r, options, job, out);
  }
  free(r);
  errno = saved;
  return rc;
}

int shard_dataset_open_s3(const char *url, const char *options, const char *const *environment,
                          uint64_t round, int64_t since, struct shard_listing **out, char *err,
                          size_t size) {
  int saved = errno, rc;
  struct request *r = new_request(NULL, err, size, &rc);
  char *job = r && round > 0 ? malloc(SHARD_JOB_SIZE + 32) : NULL;
  if (job && shard_job_identity(job, SHARD_JOB_SIZE)) {
    sprintf(job + strlen(job), "\nround %llu", (unsigned long long)round);
  } else {
    free(job);
    job = NULL;
  }
  if (rc == 0) {
    r->more = environment;
    r->since = job && since > 0 ? since : realtime_ns();
    rc = set_remote(r, url);
  }
  if (rc == 0) {
    rc = open_request(r, options, job, out);
  }
  free(job);
  free(r);
  errno = saved;
  return rc;
}

int shard_cache_open_manifest(const char *dir, const char *manifest, const char *job,
                              struct shard_listing **out, char *err, size_t size) {
  int saved = errno, rc;
  struct request *r = new_request(dir, err, size, &rc);
  if (rc == 0) {
    r->options =
        (struct shard_options){.order = SHARD_ORDER_DIRECTORY, .hidden = true, .attributes = true};
    shard_options_format(&r->options, r->options_text, sizeof(r->options_text));
    for (int tries = 0; tries == 0 || (tries < REWRITES && rc == -EAGAIN); tries++) {
      rc = identify(r, manifest);
      rc = rc == 0 ? open_cached(r, job, out) : rc;
    }
    rc = rc == -EAGAIN ? -EIO : rc;
  }
  free(r);
  errno = saved;
  return rc;
}
