/* SPDX-License-Identifier: MIT */
/*
 * slowfs MOUNTPOINT - a file system that takes its time, for tests and make bench: by libfuse3, in
 * the foreground, until it is unmounted. Then it prints for each call how often it was asked for,
 * and how often at once: opendir N M, readdir N M, lookup N M, getattr N M. Variables set its tree
 * and its delays:
 *   SLOW_DIRS N      N directories d0000000 ... below the root (0: the root has the files)
 *   SLOW_CHAIN 1     ... each in the one before
 *   SLOW_FILES N     N files f0000000 ... in each
 *   SLOW_OPEN US     microseconds that each opendir takes
 *   SLOW_REPLY US    ... each readdir
 *   SLOW_STAT US     ... each lookup and getattr
 *   SLOW_UNTIL N     a call takes its time until it was asked for N times at once, and then none
 *   SLOW_UNKNOWN 1   entries have no type (DT_UNKNOWN)
 *   SLOW_FAIL "CALL N ERRNO TIMES"   the N-th opendir, readdir, lookup or getattr, and the next
 *                    ones, TIMES in all, fail
 */
#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VALID 3600.0 /* the kernel may keep what it knows for so many seconds */

enum call { OPENDIR, READDIR, LOOKUP, GETATTR, CALLS };
static const char *const names[CALLS] = {"opendir", "readdir", "lookup", "getattr"};
static atomic_long asked[CALLS], at_once[CALLS], most[CALLS];
static long dirs, files, chain, unknown, until, delays[CALLS];
static long fail_from, fail_errno, fail_times;
static char fail_call[16];
static struct timespec made;

static long number(const char *name) {
  const char *value = getenv(name);
  return value ? atol(value) : 0;
}

static void take(long us) {
  if (us > 0) {
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
  }
}

/* Count a call, and take its time. An errno if it is to fail. */
static int begin(enum call call) {
  long n = atomic_fetch_add(&asked[call], 1) + 1;
  long now = atomic_fetch_add(&at_once[call], 1) + 1, before = atomic_load(&most[call]);
  while (now > before && !atomic_compare_exchange_weak(&most[call], &before, now)) {
  }
  if (until == 0 || atomic_load(&most[call]) < until) {
    take(delays[call]);
  }
  atomic_fetch_sub(&at_once[call], 1);
  bool fails = strcmp(fail_call, names[call]) == 0 && n >= fail_from && n < fail_from + fail_times;
  return fails ? (int)fail_errno : 0;
}

/* Inodes: 1 is the root, then the directories, then their files. A directory's number is 0 for the
 * root, 1 to `dirs` for the others. */
static bool is_dir(fuse_ino_t ino) { return ino <= (fuse_ino_t)dirs + 1; }
static bool has_files(long dir) { return dir > 0 || dirs == 0; }
static fuse_ino_t file_ino(long dir, long k) {
  return (fuse_ino_t)(2 + dirs + (dir > 0 ? dir - 1 : 0) * files + k);
}
/* The subdirectories of a directory: the first one's number, and how many. */
static long subdirs(long dir, long *count) {
  *count = chain ? dir < dirs : dir == 0 ? dirs : 0;
  return dir + 1;
}

static struct stat attributes(fuse_ino_t ino) {
  struct stat st = {
      .st_ino = ino, .st_nlink = 1, .st_mtim = made, .st_ctim = made, .st_atim = made};
  st.st_mode = is_dir(ino) ? S_IFDIR | 0755 : S_IFREG | 0644;
  return st;
}

/* Several lookups in a directory at once, as network file systems allow. */
static void fs_init(void *context, struct fuse_conn_info *connection) {
  (void)context;
  connection->want |= connection->capable & FUSE_CAP_PARALLEL_DIROPS;
}

static void fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name) {
  int rc = begin(LOOKUP);
  long k = strlen(name) == 8 ? atol(name + 1) : -1, dir = (long)parent - 1, count;
  long first = subdirs(dir, &count);
  struct fuse_entry_param e = {.attr_timeout = VALID, .entry_timeout = VALID};
  if (name[0] == 'd' && k + 1 >= first && k + 1 < first + count) {
    e.ino = (fuse_ino_t)k + 2;
  } else if (name[0] == 'f' && k >= 0 && k < files && has_files(dir)) {
    e.ino = file_ino(dir, k);
  }
  e.attr = attributes(e.ino);
  if (rc != 0 || e.ino == 0) {
    fuse_reply_err(req, rc ? rc : ENOENT);
  } else {
    fuse_reply_entry(req, &e);
  }
}

static void fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi) {
  (void)fi;
  int rc = begin(GETATTR);
  struct stat st = attributes(ino);
  if (rc != 0) {
    fuse_reply_err(req, rc);
  } else {
    fuse_reply_attr(req, &st, VALID);
  }
}

static void fs_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi) {
  int rc = begin(OPENDIR);
  rc = rc ? rc : is_dir(ino) ? 0 : ENOTDIR;
  if (rc != 0) {
    fuse_reply_err(req, rc);
  } else {
    fuse_reply_open(req, fi);
  }
}

/* Entry n of a directory: "." and "..", subdirectories, files. false: there are no more. */
static bool entry(long dir, off_t n, char name[32], struct stat *st) {
  long count, first = subdirs(dir, &count);
  fuse_ino_t ino;
  if (n < 2) {
    snprintf(name, 32, "%s", n ? ".." : ".");
    ino = (fuse_ino_t)dir + 1;
  } else if (n - 2 < count) {
    snprintf(name, 32, "d%07ld", (long)(first - 1 + n - 2));
    ino = (fuse_ino_t)(first + n - 2 + 1);
  } else if (has_files(dir) && n - 2 - count < files) {
    snprintf(name, 32, "f%07ld", (long)(n - 2 - count));
    ino = file_ino(dir, n - 2 - count);
  } else {
    return false;
  }
  *st = attributes(ino);
  st->st_mode = unknown ? 0 : st->st_mode;
  return true;
}

static void fs_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                       struct fuse_file_info *fi) {
  (void)fi;
  int rc = begin(READDIR);
  char *reply = malloc(size), name[32];
  size_t used = 0;
  struct stat st;
  while (reply && rc == 0 && entry((long)ino - 1, off, name, &st)) {
    size_t n = fuse_add_direntry(req, reply + used, size - used, name, &st, off + 1);
    if (n > size - used) {
      break;
    }
    used += n;
    off++;
  }
  if (rc != 0 || !reply) {
    fuse_reply_err(req, rc ? rc : ENOMEM);
  } else {
    fuse_reply_buf(req, reply, used);
  }
  free(reply);
}

int main(int argc, char **argv) {
  static const struct fuse_lowlevel_ops ops = {
      .lookup = fs_lookup, .getattr = fs_getattr, .opendir = fs_opendir, .readdir = fs_readdir};
  char *words[] = {argv[0], "-o", "fsname=slowfs,default_permissions,allow_other", NULL};
  struct fuse_args args = FUSE_ARGS_INIT(3, words);
  const char *fail = getenv("SLOW_FAIL");
  dirs = number("SLOW_DIRS");
  files = number("SLOW_FILES");
  chain = number("SLOW_CHAIN");
  unknown = number("SLOW_UNKNOWN");
  until = number("SLOW_UNTIL");
  delays[OPENDIR] = number("SLOW_OPEN");
  delays[READDIR] = number("SLOW_REPLY");
  delays[LOOKUP] = delays[GETATTR] = number("SLOW_STAT");
  if (argc != 2 || (fail && sscanf(fail, "%15s %ld %ld %ld", fail_call, &fail_from, &fail_errno,
                                   &fail_times) != 4)) {
    fprintf(stderr, "usage: slowfs MOUNTPOINT\n");
    return 2;
  }
  clock_gettime(CLOCK_REALTIME, &made);
  made.tv_sec -= 86400; /* old enough for a walk not to wait */
  made.tv_nsec = 1;
  struct fuse_session *session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
  struct fuse_loop_config *loop = fuse_loop_cfg_create();
  if (!session || !loop || fuse_set_signal_handlers(session) != 0 ||
      fuse_session_mount(session, argv[1]) != 0) {
    return 1;
  }
  fuse_loop_cfg_set_max_threads(loop, 256);
  fuse_loop_cfg_set_idle_threads(loop, 256);
  fuse_session_loop_mt(session, loop);
  fuse_session_unmount(session);
  fuse_remove_signal_handlers(session);
  fuse_session_destroy(session);
  fuse_loop_cfg_destroy(loop);
  for (int k = 0; k < CALLS; k++) {
    printf("%s %ld %ld\n", names[k], asked[k], most[k]);
  }
  return 0;
}
