/* SPDX-License-Identifier: MIT */
/*
 * slowfs MOUNTPOINT - a file system that takes its time, for tests and make bench, until it is
 * unmounted. As root. Then it prints for each call how often it was asked for, and how often at
 * once: opendir N M, readdir N M, lookup N M, getattr N M. Variables set its tree and its delays:
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
 * It speaks the kernel's protocol (linux/fuse.h) itself: libfuse 3.14 does not ask for
 * FUSE_PARALLEL_DIROPS, without which the kernel makes one lookup at a time in a directory.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define VALID 3600  /* the kernel may keep what it knows for so many seconds */
#define THREADS 192 /* more than any walk has */
#define REQUEST (FUSE_MIN_READ_BUFFER + (64u << 10))

enum call { OPENDIR, READDIR, LOOKUP, GETATTR, CALLS };
static const char *const names[CALLS] = {"opendir", "readdir", "lookup", "getattr"};
static atomic_long asked[CALLS], at_once[CALLS], most[CALLS];
static long dirs, files, chain, unknown, until, delays[CALLS];
static long fail_from, fail_errno, fail_times;
static char fail_call[16];
static struct timespec made;
static int device;

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
static bool is_dir(uint64_t ino) { return ino <= (uint64_t)dirs + 1; }
static bool has_files(long dir) { return dir > 0 || dirs == 0; }
static uint64_t file_ino(long dir, long k) {
  return (uint64_t)(2 + dirs + (dir > 0 ? dir - 1 : 0) * files + k);
}
/* The subdirectories of a directory: the first one's number, and how many. */
static long subdirs(long dir, long *count) {
  *count = chain ? dir < dirs : dir == 0 ? dirs : 0;
  return dir + 1;
}

static struct fuse_attr attributes(uint64_t ino) {
  uint64_t sec = (uint64_t)made.tv_sec;
  return (struct fuse_attr){.ino = ino,
                            .nlink = 1,
                            .mode = is_dir(ino) ? S_IFDIR | 0755 : S_IFREG | 0644,
                            .atime = sec,
                            .mtime = sec,
                            .ctime = sec,
                            .mtimensec = 1,
                            .ctimensec = 1,
                            .blksize = 4096};
}

static void reply(const struct fuse_in_header *in, int error, const void *data, size_t size) {
  size = error ? 0 : size;
  struct fuse_out_header out = {
      .len = (uint32_t)(sizeof(out) + size), .error = -error, .unique = in->unique};
  struct iovec parts[] = {{&out, sizeof(out)}, {(void *)data, size}};
  if (writev(device, parts, 2) < 0 && errno != ENOENT && errno != ENODEV) { /* interrupted; ended */
    perror("slowfs: reply");
  }
}

static void look_up(const struct fuse_in_header *in, const char *name) {
  int rc = begin(LOOKUP);
  long k = strlen(name) == 8 ? atol(name + 1) : -1, dir = (long)in->nodeid - 1, count;
  long first = subdirs(dir, &count);
  struct fuse_entry_out e = {.entry_valid = VALID, .attr_valid = VALID};
  if (name[0] == 'd' && k + 1 >= first && k + 1 < first + count) {
    e.nodeid = (uint64_t)k + 2;
  } else if (name[0] == 'f' && k >= 0 && k < files && has_files(dir)) {
    e.nodeid = file_ino(dir, k);
  }
  e.attr = attributes(e.nodeid);
  reply(in, rc ? rc : e.nodeid ? 0 : ENOENT, &e, sizeof(e));
}

/* Entry n of a directory: "." and "..", subdirectories, files. 0: there are no more. */
static uint64_t entry(long dir, uint64_t n, char name[32]) {
  long count, first = subdirs(dir, &count), k = (long)n - 2;
  if (k < 0) {
    strcpy(name, n ? ".." : ".");
    return (uint64_t)dir + 1;
  }
  if (k < count) {
    snprintf(name, 32, "d%07ld", first - 1 + k);
    return (uint64_t)(first + k + 1);
  }
  snprintf(name, 32, "f%07ld", k - count);
  return has_files(dir) && k - count < files ? file_ino(dir, k - count) : 0;
}

static void read_dir(const struct fuse_in_header *in, const struct fuse_read_in *asked_for) {
  int rc = begin(READDIR);
  uint64_t at = asked_for->offset, ino;
  char name[32], *data = calloc(1, asked_for->size);
  size_t used = 0;
  while (data && (ino = entry((long)in->nodeid - 1, at, name))) {
    struct fuse_dirent d = {.ino = ino, .off = ++at, .namelen = (uint32_t)strlen(name)};
    d.type = unknown ? DT_UNKNOWN : is_dir(ino) ? DT_DIR : DT_REG;
    if (used + FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + d.namelen) > asked_for->size) {
      break;
    }
    memcpy(data + used, &d, FUSE_NAME_OFFSET);
    memcpy(data + used + FUSE_NAME_OFFSET, name, d.namelen);
    used += FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + d.namelen);
  }
  reply(in, rc ? rc : data ? 0 : ENOMEM, data, used);
  free(data);
}

static void answer(const struct fuse_in_header *in, const void *data) {
  struct fuse_attr_out attr = {.attr_valid = VALID, .attr = attributes(in->nodeid)};
  struct fuse_open_out opened = {0};
  struct fuse_statfs_out fs = {.st.bsize = 4096, .st.namelen = 255};
  switch (in->opcode) {
  case FUSE_LOOKUP:
    look_up(in, data);
    break;
  case FUSE_GETATTR:
    reply(in, begin(GETATTR), &attr, sizeof(attr));
    break;
  case FUSE_OPENDIR:
    reply(in, begin(OPENDIR), &opened, sizeof(opened));
    break;
  case FUSE_READDIR:
    read_dir(in, data);
    break;
  case FUSE_STATFS:
    reply(in, 0, &fs, sizeof(fs));
    break;
  case FUSE_RELEASEDIR:
  case FUSE_DESTROY:
    reply(in, 0, NULL, 0);
    break;
  case FUSE_FORGET:
  case FUSE_BATCH_FORGET:
  case FUSE_INTERRUPT:
    break; /* they want no answer */
  default:
    reply(in, ENOSYS, NULL, 0);
  }
}

static void *serve(void *request) {
  for (;;) {
    ssize_t n = read(device, request, REQUEST);
    if (n > 0) {
      const struct fuse_in_header *in = request;
      answer(in, in + 1);
    } else if (errno != EINTR && errno != ENOENT && errno != EAGAIN) {
      return NULL; /* unmounted */
    }
  }
}

/* The first request. */
static bool greet(void *request) {
  const struct fuse_in_header *in = request;
  const struct fuse_init_in *init = (const void *)(in + 1);
  if (read(device, request, REQUEST) < 0 || in->opcode != FUSE_INIT) {
    return false;
  }
  struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
                              .minor = FUSE_KERNEL_MINOR_VERSION,
                              .flags = init->flags & FUSE_PARALLEL_DIROPS,
                              .max_write = 4096,
                              .time_gran = 1};
  reply(in, 0, &out, sizeof(out));
  return true;
}

int main(int argc, char **argv) {
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
  char options[100];
  device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
           device);
  if (device < 0 || mount("slowfs", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) != 0) {
    perror("slowfs: mount");
    return 1;
  }
  pthread_t threads[THREADS];
  char *requests = malloc((size_t)THREADS * REQUEST);
  if (!requests || !greet(requests)) {
    umount2(argv[1], MNT_DETACH);
    return 1;
  }
  for (size_t i = 0; i < THREADS; i++) {
    if (pthread_create(&threads[i], NULL, serve, requests + i * REQUEST) != 0) {
      _exit(1);
    }
  }
  for (size_t i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
  free(requests);
  for (int k = 0; k < CALLS; k++) {
    printf("%s %ld %ld\n", names[k], asked[k], most[k]);
  }
  return 0;
}
