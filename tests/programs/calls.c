/* SPDX-License-Identifier: MIT */
/*
 * calls MODE DIR [ARGUMENT]: list DIR by every call that libc has for it, and see that they agree.
 * Prints names, each followed by NUL, without "." and ".."; exits with 0, or says on stderr what is
 * wrong and exits with 1.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if !__GLIBC_PREREQ(2, 34)
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define close_range(first, last, flags) syscall(SYS_close_range, first, last, flags)
#define _Fork() ((pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0))
#endif

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

extern char **environ;
static const char *path, *argument;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  exit(1);
}

/* ---- lists of entries ------------------------------------------------------------------------ */

struct entry {
  char name[256];
  uint64_t ino;
  unsigned char type;
  off_t off;
};

struct list {
  struct entry *v;
  size_t n, room;
};

static void add(struct list *l, const char *name, uint64_t ino, unsigned char type, off_t off) {
  if (l->n == l->room) {
    l->room = l->room ? 2 * l->room : 64;
    l->v = realloc(l->v, l->room * sizeof(*l->v));
    if (!l->v) {
      die("no memory");
    }
  }
  struct entry *e = &l->v[l->n++];
  *e = (struct entry){.ino = ino, .type = type, .off = off};
  if (strlen(name) >= sizeof(e->name)) {
    die("a name of %zu bytes", strlen(name));
  }
  strcpy(e->name, name);
}

static void drop(struct list *l) {
  free(l->v);
  *l = (struct list){0};
}

static bool dot(const char *name) { return strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

static void print(const struct list *l) {
  for (size_t i = 0; i < l->n; i++) {
    if (!dot(l->v[i].name)) {
      fwrite(l->v[i].name, 1, strlen(l->v[i].name) + 1, stdout);
    }
  }
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* Under SHARD_STRATEGY=hash with a seed, streams of DIRs are shuffled in a window. */
static bool shuffled(void) {
  const char *strategy = getenv("SHARD_STRATEGY");
  return strategy && strcmp(strategy, "hash") == 0 &&
         (getenv("SHARD_SEED") || getenv("SHARD_EPOCH"));
}

static void must_equal(const struct list *a, const struct list *b, bool ordered, const char *what) {
  struct list x = {0}, y = {0};
  for (size_t i = 0; i < a->n; i++) {
    add(&x, a->v[i].name, a->v[i].ino, a->v[i].type, 0);
  }
  for (size_t i = 0; i < b->n; i++) {
    add(&y, b->v[i].name, b->v[i].ino, b->v[i].type, 0);
  }
  if (!ordered) {
    qsort(x.v, x.n, sizeof(*x.v), by_name);
    qsort(y.v, y.n, sizeof(*y.v), by_name);
  }
  for (size_t i = 0; i < x.n && i < y.n; i++) {
    if (strcmp(x.v[i].name, y.v[i].name) != 0) {
      die("%s: entry %zu is '%s', not '%s'", what, i, y.v[i].name, x.v[i].name);
    }
    if (x.v[i].ino != y.v[i].ino || x.v[i].type != y.v[i].type) {
      die("%s: '%s' is %llu of type %d, not %llu of type %d", what, x.v[i].name,
          (unsigned long long)y.v[i].ino, y.v[i].type, (unsigned long long)x.v[i].ino, x.v[i].type);
    }
  }
  if (x.n != y.n) {
    die("%s: %zu entries, not %zu", what, y.n, x.n);
  }
  drop(&x);
  drop(&y);
}

/* ---- by descriptor --------------------------------------------------------------------------- */

enum call { GETDENTS64, SYSCALL64, SYSCALL_OLD, DIRENTRIES, DIRENTRIES64, CALLS };
static const char *const call_names[] = {"getdents64", "SYS_getdents64", "SYS_getdents",
                                         "getdirentries", "getdirentries64"};

static int open_it(void) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    die("open: %s", strerror(errno));
  }
  return fd;
}

static ssize_t read_some(enum call call, int fd, char *buf, size_t size) {
  off_t base = -77, before = lseek(fd, 0, SEEK_CUR);
  off64_t base64 = -77;
  ssize_t n = -1;
  switch (call) {
  case GETDENTS64:
    return getdents64(fd, buf, size);
  case SYSCALL64:
    return syscall(SYS_getdents64, fd, buf, size);
  case SYSCALL_OLD:
    return syscall(SYS_getdents, fd, buf, size);
  case DIRENTRIES:
    n = getdirentries(fd, buf, size, &base);
    break;
  case DIRENTRIES64:
    n = getdirentries64(fd, buf, size, &base64);
    base = base64;
    break;
  case CALLS:
    break;
  }
  if (base != (n < 0 ? -77 : before)) {
    die("%s: base is %lld, not %lld", call_names[call], (long long)base, (long long)before);
  }
  return n;
}

/* Take what was read apart; records must fill it exactly. */
static void parse(enum call call, const char *buf, ssize_t n, struct list *l) {
  struct old {
    unsigned long ino, off;
    unsigned short reclen;
    char name[];
  };
  for (ssize_t at = 0; at < n;) {
    unsigned short reclen;
    memcpy(&reclen, buf + at + offsetof(struct dirent64, d_reclen), sizeof(reclen));
    if (reclen < 24 || reclen % 8 != 0 || reclen > n - at) {
      die("%s: a record of %d bytes at %zd of %zd", call_names[call], reclen, at, n);
    }
    size_t length;
    if (call == SYSCALL_OLD) {
      const struct old *d = (const struct old *)(buf + at);
      length = strnlen(d->name, reclen);
      add(l, d->name, d->ino, (unsigned char)buf[at + reclen - 1], (off_t)d->off);
      length += offsetof(struct old, name) + 2;
    } else {
      const struct dirent64 *d = (const struct dirent64 *)(buf + at);
      length = strnlen(d->d_name, reclen);
      add(l, d->d_name, d->d_ino, d->d_type, d->d_off);
      length += offsetof(struct dirent64, d_name) + 1;
    }
    if ((length + 7) / 8 * 8 != reclen) {
      die("%s: '%s' in a record of %d bytes", call_names[call], l->v[l->n - 1].name, reclen);
    }
    at += reclen;
  }
}

/* From where fd stands to the end, with a buffer of `size`; where that is too small, a larger. */
static void read_fd(enum call call, int fd, size_t size, struct list *l) {
  size_t room = size > 4096 ? size : 4096;
  char *buf = malloc(room + 64);
  for (int ends = 0; ends < 3;) {
    memset(buf, 0x5a, room + 64);
    errno = 4242;
    ssize_t n = read_some(call, fd, buf, size);
    for (size_t i = size; i < size + 64; i++) {
      if (buf[i] != 0x5a) {
        die("%s: wrote behind %zu bytes", call_names[call], size);
      }
    }
    if (n < 0 && errno == EINVAL && size < 280) {
      errno = 4242;
      n = read_some(call, fd, buf, 280);
      if (n == 0) {
        die("%s: EINVAL for %zu bytes at the end", call_names[call], size);
      }
      struct dirent64 *d = (struct dirent64 *)buf;
      if (n > 0 && d->d_reclen <= size) {
        die("%s: EINVAL for %zu bytes, and '%s' fits", call_names[call], size, d->d_name);
      }
    }
    if (n < 0 || errno != 4242) {
      die("%s of %zu bytes: %zd, %s", call_names[call], size, n, strerror(errno));
    }
    ends += n == 0;
    if (n > 0 && ends) {
      die("%s: entries after the end", call_names[call]);
    }
    parse(call, buf, n, l);
  }
  free(buf);
}

static void list_fd(enum call call, size_t size, struct list *l) {
  int fd = open_it();
  read_fd(call, fd, size, l);
  close(fd);
}

/* ---- by DIR ---------------------------------------------------------------------------------- */

static DIR *opendir_it(void) {
  DIR *d = opendir(path);
  if (!d) {
    die("opendir: %s", strerror(errno));
  }
  return d;
}

static void read_dir(DIR *d, struct list *l) {
  struct dirent *e;
  errno = 4242;
  while ((e = readdir(d))) {
    add(l, e->d_name, e->d_ino, e->d_type, e->d_off);
  }
  for (int k = 0; k < 3; k++) {
    if (errno != 4242 || readdir(d)) {
      die("at the end of readdir: %s", strerror(errno));
    }
  }
}

static void read_dir64(DIR *d, struct list *l) {
  struct dirent64 *e;
  errno = 4242;
  while ((e = readdir64(d))) {
    if (e->d_reclen % 8 != 0 ||
        e->d_reclen < offsetof(struct dirent64, d_name) + strlen(e->d_name)) {
      die("readdir64: d_reclen %d", e->d_reclen);
    }
    add(l, e->d_name, e->d_ino, e->d_type, e->d_off);
  }
  if (errno != 4242) {
    die("readdir64: %s", strerror(errno));
  }
}

static void read_dir_r(DIR *d, struct list *l) {
  struct dirent entry, *e;
  errno = 4242;
  while (readdir_r(d, &entry, &e) == 0 && e) {
    add(l, e->d_name, e->d_ino, e->d_type, e->d_off);
  }
  if (errno != 4242 || e) {
    die("readdir_r: %s", strerror(errno));
  }
}

static void read_dir64_r(DIR *d, struct list *l) {
  struct dirent64 entry, *e;
  while (readdir64_r(d, &entry, &e) == 0 && e) {
    add(l, e->d_name, e->d_ino, e->d_type, e->d_off);
  }
}

static int descriptors(void) {
  int n = 0;
  for (int fd = 0; fd < 1024; fd++) {
    n += fcntl(fd, F_GETFD) >= 0;
  }
  return n;
}

/* What lstat(2) says of each entry, and one of each dot. */
static void check_attributes(const struct list *l) {
  int fd = open_it(), dots = 0;
  for (size_t i = 0; i < l->n; i++) {
    const struct entry *e = &l->v[i];
    struct stat st;
    dots += dot(e->name);
    if (fstatat(fd, e->name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
      die("'%s': %s", e->name, strerror(errno));
    }
    /* of the dots, kernels give what lies below a mount, or an overlay */
    if (e->type != IFTODT(st.st_mode) || (e->ino != st.st_ino && !dot(e->name))) {
      die("'%s' is %llu of type %d, and lstat says %llu of type %d", e->name,
          (unsigned long long)e->ino, e->type, (unsigned long long)st.st_ino,
          (int)IFTODT(st.st_mode));
    }
  }
  if (dots != 2) {
    die("%d dots", dots);
  }
  close(fd);
}

/* From each entry's d_off, and from the beginning, the right entry follows. */
static void check_offsets(const struct list *l) {
  char buf[280] __attribute__((aligned(8)));
  int fd = open_it();
  size_t step = l->n > 400 ? 7 : 1;
  for (size_t i = l->n; i + step > step - 1 && i <= l->n; i -= step) {
    off_t at = i ? l->v[i - 1].off : 0;
    struct list got = {0};
    if (lseek(fd, at, SEEK_SET) != at) {
      die("lseek to %lld: %s", (long long)at, strerror(errno));
    }
    ssize_t n = getdents64(fd, buf, sizeof(buf));
    if (n < 0) {
      die("getdents64 from %lld: %s", (long long)at, strerror(errno));
    }
    parse(GETDENTS64, buf, n, &got);
    if (i == l->n ? n != 0 : got.n == 0 || strcmp(got.v[0].name, l->v[i].name) != 0) {
      die("from d_off %lld: '%s' instead of '%s'", (long long)at, got.n ? got.v[0].name : "the end",
          i < l->n ? l->v[i].name : "the end");
    }
    drop(&got);
    if (i < step) {
      break;
    }
  }
  struct list again = {0};
  lseek(fd, 0, SEEK_SET);
  read_fd(SYSCALL64, fd, 4096, &again);
  must_equal(l, &again, true, "second pass after lseek");
  drop(&again);
  close(fd);
}

static void check_positions(void) {
  DIR *d = opendir_it();
  struct list l = {0}, again = {0};
  long *at = malloc(sizeof(*at) * 100000);
  struct dirent *e;
  do {
    at[l.n] = telldir(d);
    e = readdir(d);
    if (e) {
      add(&l, e->d_name, e->d_ino, e->d_type, e->d_off);
    }
  } while (e);
  size_t step = shuffled() ? 1 + l.n / 20 : 1 + l.n / 400;
  for (size_t i = 0; i <= l.n; i += step) {
    for (int how = 0; how < 2 && (how == 0 || i > 0); how++) {
      seekdir(d, how ? (long)l.v[i - 1].off : at[i]);
      if (telldir(d) != at[i]) {
        die("telldir after seekdir to %ld: %ld", at[i], telldir(d));
      }
      e = readdir(d);
      if (i == l.n ? e != NULL : !e || strcmp(e->d_name, l.v[i].name) != 0) {
        die("seekdir to entry %zu gave '%s'", i, e ? e->d_name : "the end");
      }
    }
  }
  rewinddir(d);
  read_dir(d, &again);
  must_equal(&l, &again, true, "after rewinddir");
  closedir(d);
  drop(&l);
  drop(&again);
  free(at);
}

/* All calls give the same: in *out, in the order of descriptors. */
static void agree(struct list *out) {
  static const size_t sizes[] = {0,   1,   18,  23,  24,  32,   40,   56,    100,   279,
                                 280, 281, 511, 512, 513, 1000, 4096, 32768, 65536, 1 << 20};
  static void (*const readers[])(DIR *, struct list *) = {read_dir, read_dir64, read_dir_r,
                                                          read_dir64_r};
  int before = descriptors();
  struct list wanted = {0};
  list_fd(GETDENTS64, 32768, &wanted);
  check_attributes(&wanted);
  check_offsets(&wanted);
  check_positions();
  bool many = wanted.n > 1000;
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    for (enum call call = many ? (enum call)(i % CALLS) : 0; call < CALLS; call++) {
      struct list got = {0};
      list_fd(call, sizes[i], &got);
      must_equal(&wanted, &got, true, call_names[call]);
      drop(&got);
      if (many) {
        break;
      }
    }
  }
  struct list first = {0};
  for (size_t i = 0; i < 8; i++) {
    struct list got = {0};
    DIR *d = i % 2 ? fdopendir(open_it()) : opendir_it();
    if (!d) {
      die("fdopendir: %s", strerror(errno));
    }
    readers[i / 2](d, &got);
    closedir(d);
    must_equal(&wanted, &got, !shuffled(), "stream");
    if (first.n) {
      must_equal(&first, &got, true, "streams");
    } else {
      for (size_t k = 0; k < got.n; k++) {
        add(&first, got.v[k].name, got.v[k].ino, got.v[k].type, 0);
      }
    }
    drop(&got);
  }
  drop(&first);
  if (descriptors() != before) {
    die("%d descriptors, not %d", descriptors(), before);
  }
  *out = wanted;
}

static void mode_agree(void) {
  struct list l;
  agree(&l);
  print(&l);
  drop(&l);
}

static void mode_list(void) {
  struct list l = {0};
  list_fd(SYSCALL64, 1000, &l);
  print(&l);
}

static void read_child(pid_t pid) {
  int status;
  if (waitpid(pid, &status, 0) != pid || status != 0) {
    die("child: status %d", status);
  }
}

/* ---- streams in odd circumstances ------------------------------------------------------------
 */

/* A child goes on with the parent's stream, and opens one of its own. */
static void mode_fork(void) {
  struct list mine = {0}, rest = {0}, own = {0};
  DIR *d = opendir_it();
  for (int k = 0; k < 2; k++) {
    struct dirent *e = readdir(d);
    if (e) {
      add(&mine, e->d_name, e->d_ino, e->d_type, e->d_off);
    }
  }
  int ends[2];
  size_t n;
  if (pipe(ends) != 0) {
    die("pipe");
  }
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    read_dir(d, &mine);
    closedir(d);
    d = opendir_it();
    read_dir(d, &own);
    must_equal(&own, &mine, true, "child");
    _exit(write(ends[1], &mine.n, sizeof(mine.n)) != sizeof(mine.n));
  }
  read_child(pid);
  if (read(ends[0], &n, sizeof(n)) != sizeof(n)) {
    die("pipe");
  }
  read_dir(d, &rest);
  closedir(d);
  /* The kernel's position is shared with the child: what libc had read ahead is ours still. */
  if (mine.n + rest.n > n) {
    die("the child saw %zu names, the parent %zu", n, mine.n + rest.n);
  }
  d = opendir_it();
  read_dir(d, &own);
  closedir(d);
  print(&own);
  drop(&mine);
  drop(&rest);
  drop(&own);
}

static DIR *common;

static void *sharer(void *arg) {
  struct dirent entry, *e;
  while (readdir_r(common, &entry, &e) == 0 && e) {
    add(arg, e->d_name, e->d_ino, e->d_type, e->d_off);
  }
  return NULL;
}

/* Two threads on one stream, as readdir_r allows: together they see every name once. */
static void mode_shared(void) {
  pthread_t t[2];
  struct list lists[2] = {{0}};
  common = opendir_it();
  for (int i = 0; i < 2; i++) {
    pthread_create(&t[i], NULL, sharer, &lists[i]);
  }
  for (int i = 0; i < 2; i++) {
    pthread_join(t[i], NULL);
    print(&lists[i]);
    drop(&lists[i]);
  }
  closedir(common);
}

static void *streamer(void *unused) {
  struct list l = {0};
  DIR *d = opendir_it();
  read_dir(d, &l);
  closedir(d);
  print(&l);
  drop(&l);
  return unused;
}

/* In a thread of little stack. */
static void mode_stack(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
  pthread_t t;
  if (pthread_create(&t, &attributes, streamer, NULL) != 0) {
    die("pthread_create");
  }
  pthread_join(t, NULL);
}

/* Open and close many times, many at once: no descriptor stays. */
static void mode_many(void) {
  enum { MANY = 600 }; /* more than a table of streams holds */
  int before = descriptors();
  struct list first = {0};
  DIR *many[MANY];
  for (int k = 0; k < 100; k++) {
    closedir(opendir_it());
  }
  for (int k = 0; k < MANY; k++) {
    many[k] = opendir_it();
  }
  for (int k = 0; k < MANY; k++) {
    struct list l = {0};
    read_dir(many[k], k ? &l : &first);
    closedir(many[k]);
    if (k) {
      must_equal(&first, &l, true, "one of many");
    }
    drop(&l);
  }
  if (descriptors() != before) {
    die("%d descriptors, not %d", descriptors(), before);
  }
  print(&first);
  drop(&first);
}

/* With 0, 1 and 2 closed; the result goes to a descriptor opened after. */
static void mode_closed(void) {
  int out = fcntl(1, F_DUPFD_CLOEXEC, 50), before = descriptors();
  close(0);
  close(1);
  close(2);
  DIR *d = opendir(path);
  if (!d || dirfd(d) != 0) {
    _exit(d ? 3 : 1);
  }
  struct dirent *e;
  while ((e = readdir(d))) {
    if (!dot(e->d_name) && write(out, e->d_name, strlen(e->d_name) + 1) < 0) {
      _exit(4);
    }
  }
  closedir(d);
  _exit(descriptors() == before - 3 ? 0 : 5);
}

/* A copy of a descriptor at the end, and buffers that are none. */
static void mode_fault(void) {
  DIR *d = opendir_it();
  struct list l = {0}, again = {0};
  read_dir(d, &l);
  DIR *copy = fdopendir(dup(dirfd(d)));
  if (!copy || readdir(copy)) {
    die("a copy of a descriptor at the end gave a name");
  }
  closedir(copy);
  if (lseek(dirfd(d), 0, SEEK_SET) != 0) {
    die("lseek: %s", strerror(errno));
  }
  void *const bad[] = {NULL, (void *)8};
  for (int k = 0; k < 2; k++) {
    errno = 0;
    if (getdents64(dirfd(d), bad[k], 4096) != -1 || errno != EFAULT) {
      die("a bad buffer: errno %d", errno);
    }
  }
  read_dir(d, &again); /* a stream follows its descriptor */
  must_equal(&l, &again, true, "after lseek");
  int fd = open_it();
  closedir(d);
  d = fdopendir(fd);
  if (!d || dirfd(d) != fd || closedir(d) != 0 || fcntl(fd, F_GETFD) >= 0) {
    die("fdopendir: another descriptor, or closedir left it open");
  }
  print(&l);
  drop(&l);
  drop(&again);
}

/* ---- descriptors that came in other ways ------------------------------------------------------
 */

/* What is open as descriptor DIR, from where it stands. */
static void mode_fd(void) {
  struct list l = {0};
  read_fd(GETDENTS64, atoi(path), 1000, &l);
  print(&l);
}

/* A few entries. */
static void take(int fd, struct list *l) {
  char buf[600] __attribute__((aligned(8)));
  ssize_t n = getdents64(fd, buf, sizeof(buf));
  if (n < 0) {
    die("getdents64: %s", strerror(errno));
  }
  parse(GETDENTS64, buf, n, l);
}

static int receive(int socket) {
  char byte, control[CMSG_SPACE(sizeof(int))];
  struct iovec part = {&byte, 1};
  struct msghdr m = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
  int fd = -1;
  if (recvmsg(socket, &m, 0) != 1) {
    die("recvmsg");
  }
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
  return fd;
}

static void send_fd(int socket, int fd) {
  char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec part = {&byte, 1};
  struct msghdr m = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(c), &fd, sizeof(fd));
  if (sendmsg(socket, &m, 0) != 1) {
    die("sendmsg");
  }
}

static void mode_handed(void) {
  struct list wanted = {0}, got = {0};
  list_fd(GETDENTS64, 32768, &wanted);

  /* copies share the position */
  int fd = open_it(), copies[] = {fd,
                                  dup(fd),
                                  dup2(fd, 90),
                                  dup3(fd, 91, O_CLOEXEC),
                                  fcntl(fd, F_DUPFD, 92),
                                  fcntl(fd, F_DUPFD_CLOEXEC, 93)};
  for (size_t k = 0, before = 1; before != got.n; k++) {
    before = got.n;
    take(copies[k % 6], &got);
  }
  must_equal(&wanted, &got, true, "copies in turn");
  drop(&got);
  lseek(copies[3], 0, SEEK_SET);
  close(fd);
  read_fd(SYSCALL_OLD, 90, 4096, &got);
  must_equal(&wanted, &got, true, "a copy of what was closed");
  drop(&got);

  /* so do parent and child */
  lseek(90, 0, SEEK_SET);
  int ends[2];
  if (pipe(ends) != 0) {
    die("pipe");
  }
  for (size_t k = 0, before = 1; before != got.n; k++) {
    before = got.n;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
      struct list mine = {0};
      take(90, &mine);
      _exit(write(ends[1], &mine.n, sizeof(mine.n)) < 0 ||
            (mine.n && write(ends[1], mine.v, mine.n * sizeof(*mine.v)) < 0));
    }
    size_t n;
    read_child(pid);
    if (read(ends[0], &n, sizeof(n)) != sizeof(n)) {
      die("pipe");
    }
    for (size_t i = 0; i < n; i++) {
      struct entry e;
      if (read(ends[0], &e, sizeof(e)) != sizeof(e)) {
        die("pipe");
      }
      add(&got, e.name, e.ino, e.type, e.off);
    }
    take(90, &got);
  }
  must_equal(&wanted, &got, true, "parent and child in turn");
  drop(&got);

  /* a program that was started with it, and never opened anything */
  lseek(90, 0, SEEK_SET);
  char *command[] = {(char *)"/proc/self/exe", (char *)"fd", (char *)"90", NULL};
  pid_t pid;
  fflush(stdout);
  if (posix_spawn(&pid, command[0], NULL, NULL, command, environ) != 0) {
    die("posix_spawn");
  }
  read_child(pid);
  take(90, &got);
  if (got.n != 0) {
    die("after the program had read all: '%s'", got.v[0].name);
  }

  /* a socket */
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
    die("socketpair");
  }
  pid = fork();
  if (pid == 0) {
    send_fd(pair[1], open_it());
    _exit(0);
  }
  int theirs = receive(pair[0]);
  read_child(pid);
  read_fd(DIRENTRIES64, theirs, 700, &got);
  must_equal(&wanted, &got, true, "received");
  drop(&got);
  lseek(theirs, 0, SEEK_SET);
  DIR *d = fdopendir(theirs);
  read_dir(d, &got);
  must_equal(&wanted, &got, !shuffled(), "a stream on a received one");
  drop(&got);

  /* the file system's name for it */
  char link[64];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", theirs);
  path = link;
  list_fd(GETDENTS64, 4096, &got);
  must_equal(&wanted, &got, true, link);
  drop(&got);
  closedir(d);

  /* what is no directory, or not open */
  char buf[1000];
  int wrong[] = {-1, 1000, ends[0], open("/dev/null", O_RDONLY), AT_FDCWD};
  int errors[] = {EBADF, EBADF, ENOTDIR, ENOTDIR, EBADF};
  for (size_t k = 0; k < 5; k++) {
    for (enum call call = 0; call < CALLS; call++) {
      errno = 0;
      if (read_some(call, wrong[k], buf, sizeof(buf)) != -1 || errno != errors[k]) {
        die("%s of %d: %s", call_names[call], wrong[k], strerror(errno));
      }
    }
    errno = 0;
    if (fdopendir(wrong[k]) || errno != errors[k]) {
      die("fdopendir of %d: %s", wrong[k], strerror(errno));
    }
  }
  int bare = open(".", O_PATH | O_DIRECTORY);
  if (getdents64(bare, buf, sizeof(buf)) != -1 || errno != EBADF) {
    die("of an O_PATH descriptor: %s", strerror(errno));
  }
}

/* ---- closed, reused, used up ------------------------------------------------------------------
 */

/* A number that is a directory of the dataset, then another one, then one again. */
static void mode_reused(void) {
  struct list wanted = {0}, bare = {0}, got = {0};
  list_fd(GETDENTS64, 32768, &wanted);
  const char *mine = path;
  path = "/proc/self/ns";
  list_fd(GETDENTS64, 32768, &bare);
  int (*past_us)(DIR *) = (int (*)(DIR *))dlsym(dlopen("libc.so.6", RTLD_LAZY), "closedir");
  for (int k = 0; k < 50; k++) {
    path = k % 2 ? "/proc/self/ns" : mine;
    int fd = open_it();
    if (k % 3 == 0) {
      take(fd, &got);
      got.n = 0;
      lseek(fd, 0, SEEK_SET);
    }
    read_fd((enum call)(k % CALLS), fd, 500, &got);
    must_equal(k % 2 ? &bare : &wanted, &got, true, "a number used again");
    drop(&got);
    if (k % 5 == 0) {
      close_range((unsigned)fd, ~0U, 0);
    } else {
      close(fd);
    }
    DIR *d = opendir(path); /* at an address used again, too */
    read_dir(d, &got);
    must_equal(k % 2 ? &bare : &wanted, &got, k % 2 || !shuffled(), "a stream there");
    drop(&got);
    (k % 6 < 3 ? closedir : past_us)(d);
  }
  path = mine;
  /* closed under a stream: an error or what was read before, and closedir does not crash */
  DIR *d = opendir_it();
  readdir(d);
  close_range((unsigned)dirfd(d), ~0U, 0);
  while (readdir(d)) {
  }
  closedir(d);
  print(&wanted);
}

/* Processes with few descriptors left: EMFILE, or right; and then right. */
static void mode_full(void) {
  for (int left = 0; left < 14; left++) {
    for (int how = 0; how < 3; how++) {
      pid_t pid = fork();
      if (pid != 0) {
        read_child(pid);
        continue;
      }
      struct rlimit limit = {64, 64};
      setrlimit(RLIMIT_NOFILE, &limit);
      int own = how == 0 ? -1 : open_it(), fds[64], n = 0;
      while ((fds[n] = dup(2)) >= 0) {
        n++;
      }
      for (int k = 0; k < left; k++) {
        close(fds[--n]);
      }
      int before = descriptors();
      for (int round = 0; round < 2; round++) {
        struct list l = {0};
        char buf[65536] __attribute__((aligned(8)));
        errno = 0;
        if (how == 2) {
          ssize_t got = getdents64(own, buf, sizeof(buf));
          if (got < 0 && (errno != EMFILE || round == 1)) {
            die("getdents64 with %d left: %s", left, strerror(errno));
          }
          parse(GETDENTS64, buf, got, &l);
        } else {
          DIR *d = how == 0 ? opendir(path) : fdopendir(own);
          if (!d && (errno != EMFILE || round == 1)) {
            die("opendir with %d left: %s", left, strerror(errno));
          }
          if (!d && how == 1 && fcntl(own, F_GETFD) < 0) {
            die("fdopendir failed and closed");
          }
          if (d) {
            read_dir(d, &l);
            if (how == 1) {
              closedir(d);
              own = open_it();
            } else {
              closedir(d);
            }
          }
        }
        if (l.n > 0) {
          if (descriptors() != before) {
            die("%d descriptors, not %d", descriptors(), before);
          }
          print(&l);
          fwrite("", 1, 1, stdout); /* a list, ended by two NULs */
        }
        if (round == 0 && descriptors() != before) {
          die("after EMFILE: %d descriptors, not %d", descriptors(), before);
        }
        drop(&l);
        while (n > 20) {
          close(fds[--n]);
        }
        before = descriptors();
        if (how == 2) {
          lseek(own, 0, SEEK_SET);
        }
      }
      fflush(stdout);
      _exit(0);
    }
  }
}

/* ---- threads and processes ---------------------------------------------------------------------
 */

static struct list reference, reference_dir;
static atomic_bool stop;
static atomic_int shared_fd = -1;
static atomic_ulong rounds;
static bool children_list = true;

static void *lister(void *arg) {
  for (unsigned k = (unsigned)(uintptr_t)arg; !atomic_load(&stop); k++) {
    struct list l = {0};
    if (k % 2) {
      list_fd((enum call)(k / 2 % CALLS), 200 + k % 3000, &l);
      must_equal(&reference, &l, true, "in a thread");
    } else {
      DIR *d = opendir_it();
      read_dir(d, &l);
      closedir(d);
      must_equal(&reference_dir, &l, true, "a stream in a thread");
    }
    drop(&l);
    atomic_fetch_add(&rounds, 1);
  }
  return NULL;
}

/* Children of all kinds, while others list. */
static void *forker(void *arg) {
  char *command[] = {(char *)"/bin/true", NULL};
  for (volatile unsigned k = 0; !atomic_load(&stop); k++) {
    pid_t pid = -1;
    switch (k % 4) {
    case 0:
      pid = fork();
      if (pid == 0 && !children_list) {
        syscall(SYS_exit_group, 0); /* _exit() takes locks of the thread sanitizer */
      }
      if (pid == 0) {
        struct list l = {0};
        list_fd(GETDENTS64, 2000, &l);
        must_equal(&reference, &l, true, "in a child");
        l.n = 0;
        DIR *d = opendir_it();
        read_dir(d, &l);
        closedir(d);
        must_equal(&reference_dir, &l, true, "a stream in a child");
        _exit(0);
      }
      break;
    case 1:
      pid = vfork();
      if (pid == 0) {
        execv(command[0], command);
        _exit(1);
      }
      break;
    case 2:
      pid = _Fork();
      if (pid == 0) {
        syscall(SYS_exit_group, 0);
      }
      break;
    default:
      if (posix_spawn(&pid, command[0], NULL, NULL, command, environ) != 0) {
        die("posix_spawn");
      }
    }
    read_child(pid);
  }
  return arg;
}

static void run(void *(*const *what)(void *), size_t count, int milliseconds) {
  pthread_t t[16];
  for (size_t i = 0; i < count; i++) {
    if (pthread_create(&t[i], NULL, what[i], (void *)i) != 0) {
      die("pthread_create");
    }
  }
  nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000L}, NULL);
  atomic_store(&stop, true);
  for (size_t i = 0; i < count; i++) {
    pthread_join(t[i], NULL);
  }
}

static void make_reference(void) {
  list_fd(GETDENTS64, 32768, &reference);
  DIR *d = opendir_it();
  read_dir(d, &reference_dir);
  closedir(d);
}

static int milliseconds(void) { return argument ? atoi(argument) : 400; }

static void mode_threads(void) {
  void *(*const all[])(void *) = {lister, lister, lister, lister, forker, forker};
  make_reference();
  run(all, 6, milliseconds());
  print(&reference);
}

/* The same for allocators that a fork leaves locked, as the sanitizers' are. */
static void mode_spawning(void) {
  children_list = false;
  mode_threads();
}

static void *cold_lister(void *arg) {
  struct list l = {0};
  list_fd(GETDENTS64, 2000, &l);
  return l.n < 2 ? NULL : arg;
}

/* Threads list, and fork children that list, while the view is being set up. */
static void mode_cold(void) {
  for (int k = 0; k < 20; k++) {
    pid_t pid = fork();
    if (pid == 0) {
      pthread_t t[3];
      void *well = NULL;
      for (int i = 0; i < 3; i++) {
        pthread_create(&t[i], NULL, cold_lister, &stop);
      }
      nanosleep(&(struct timespec){0, k * 20000}, NULL);
      pid_t child = fork();
      if (child == 0) {
        _exit(cold_lister(&stop) == NULL);
      }
      read_child(child);
      for (int i = 0; i < 3; i++) {
        pthread_join(t[i], &well);
        if (!well) {
          die("an empty list in a thread");
        }
      }
      _exit(0);
    }
    read_child(pid);
  }
  mode_list();
}

/* A thread is cancelled at any time while it lists for the first time; another one lists then. */
static void mode_cancelled(void) {
  for (int k = 0; k < 12; k++) {
    pid_t pid = fork();
    if (pid == 0) {
      pthread_t t;
      pthread_create(&t, NULL, cold_lister, &stop);
      nanosleep(&(struct timespec){0, (4096L >> k) * 5000}, NULL);
      pthread_cancel(t);
      pthread_join(t, NULL);
      alarm(200);
      _exit(cold_lister(&stop) == NULL);
    }
    read_child(pid);
  }
  mode_list();
}

/* Threads list at once, and nothing was listed before. */
static void mode_first(void) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) {
    pthread_create(&t[i], NULL, cold_lister, &stop);
  }
  for (int i = 0; i < 4; i++) {
    void *well = NULL;
    pthread_join(t[i], &well);
    if (!well) {
      die("an empty list in a thread");
    }
  }
  mode_list();
}

static void *reader(void *arg) {
  char buf[2000] __attribute__((aligned(8)));
  while (!atomic_load(&stop)) {
    int fd = atomic_load(&shared_fd);
    ssize_t n = read_some((enum call)((uintptr_t)arg % 3), fd, buf, sizeof(buf));
    if (n < 0 && errno != EBADF && errno != ENOTDIR) {
      die("closed meanwhile: %s", strerror(errno));
    }
  }
  return NULL;
}

/* Closes what the others read, and opens it anew. */
static void *closer(void *arg) {
  while (!atomic_load(&stop)) {
    int fd = open_it();
    atomic_store(&shared_fd, fd);
    nanosleep(&(struct timespec){0, 20000}, NULL);
    close(fd);
    atomic_fetch_add(&rounds, 1);
  }
  return arg;
}

static void mode_closing(void) {
  void *(*const all[])(void *) = {reader, reader, reader, closer};
  make_reference();
  run(all, 4, milliseconds());
  print(&reference);
}

/* Two threads that read one stream, and one that goes back to its beginning. */
static DIR *stream;

static void *stream_reader(void *arg) {
  struct dirent entry, *e;
  while (!atomic_load(&stop)) {
    if (readdir_r(stream, &entry, &e) != 0) {
      die("readdir_r");
    }
    if (!e) {
      sched_yield();
    }
  }
  return arg;
}

static void *stream_rewinder(void *arg) {
  while (!atomic_load(&stop)) {
    rewinddir(stream);
    seekdir(stream, telldir(stream));
    atomic_fetch_add(&rounds, 1);
  }
  return arg;
}

static void mode_rewinding(void) {
  void *(*const all[])(void *) = {stream_reader, stream_reader, stream_rewinder};
  make_reference();
  stream = opendir_it();
  run(all, 3, milliseconds());
  rewinddir(stream);
  struct list l = {0};
  read_dir(stream, &l);
  must_equal(&reference_dir, &l, true, "after rewinding");
  closedir(stream);
  print(&reference);
}

/* ---- change, passes, depth ----------------------------------------------------------------------
 */

/* List, run ARGUMENT, list again: the same. */
static void mode_change(void) {
  struct list before = {0}, after = {0}, dir = {0};
  int fd = open_it();
  DIR *d = opendir_it();
  readdir(d);
  list_fd(GETDENTS64, 32768, &before);
  take(fd, &after);
  unsetenv("LD_PRELOAD");
  if (system(argument) != 0) {
    die("%s", argument);
  }
  read_fd(GETDENTS64, fd, 300, &after);
  print(&after);
  /* what is where it was */
  fd = open_it();
  after.n = 0;
  read_fd(GETDENTS64, fd, 300, &after);
  fwrite("", 1, 1, stdout);
  print(&after);
  read_dir(d, &dir);
  closedir(d);
  dir.n = 0;
  d = opendir_it();
  read_dir(d, &dir);
  must_equal(&after, &dir, !shuffled(), "after the change");
  closedir(d);
}

/* Three passes in epochs of their own, by the way that ARGUMENT says; each ended by two NULs. */
static void mode_passes(void) {
  DIR *d = NULL;
  int fd = -1;
  for (int k = 0; k < 3; k++) {
    struct list l = {0};
    setenv("SHARD_EPOCH", (const char[]){(char)('0' + k), 0}, 1);
    if (strcmp(argument, "opendir") == 0) {
      d = opendir_it();
      read_dir(d, &l);
      closedir(d);
    } else if (strcmp(argument, "rewinddir") == 0) {
      d = d ? d : opendir_it();
      if (k > 0) {
        rewinddir(d);
      }
      read_dir(d, &l);
    } else if (strcmp(argument, "seekdir") == 0) {
      d = d ? d : opendir_it();
      seekdir(d, 0);
      read_dir(d, &l);
    } else if (strcmp(argument, "open") == 0) {
      list_fd((enum call)(k % CALLS), 1000, &l);
    } else { /* lseek */
      fd = fd < 0 ? open_it() : fd;
      lseek(fd, 0, SEEK_SET);
      read_fd((enum call)(k % CALLS), fd, 1000, &l);
    }
    print(&l);
    fwrite("", 1, 1, stdout);
    drop(&l);
  }
}

/* A tree as deep as it goes, by openat and getdents64, and by fchdir and opendir. */
static void mode_deep(void) {
  int fd = open_it();
  for (unsigned level = 0; fd >= 0; level++) {
    struct list l = {0}, again = {0};
    read_fd(GETDENTS64, fd, 4096, &l);
    if (level % 20 == 0 || level % 50 == 1) {
      if (fchdir(fd) != 0) {
        die("fchdir");
      }
      path = ".";
      DIR *d = opendir_it();
      read_dir(d, &again);
      closedir(d);
      must_equal(&l, &again, !shuffled(), "by opendir");
      drop(&again);
    }
    int next = -1;
    for (size_t i = 0; i < l.n; i++) {
      if (dot(l.v[i].name)) {
        continue;
      }
      if (l.v[i].type == DT_DIR) {
        next = openat(fd, l.v[i].name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      } else {
        printf("%u/%s%c", level, l.v[i].name, 0);
      }
    }
    close(fd);
    fd = next;
    drop(&l);
  }
}

/* Each directory below DIR by getdents64 and openat: the paths of what is no directory. */
static void walk(int at, const char *name, const char *prefix) {
  int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct list l = {0};
  if (fd < 0) {
    die("openat '%s': %s", name, strerror(errno));
  }
  read_fd(GETDENTS64, fd, 2000, &l);
  for (size_t i = 0; i < l.n; i++) {
    const char *n = l.v[i].name;
    char *whole = NULL;
    if (dot(n)) {
      continue;
    }
    if (asprintf(&whole, "%s%s%s", prefix, *prefix ? "/" : "", n) < 0) {
      die("no memory");
    }
    if (l.v[i].type == DT_DIR) {
      walk(fd, n, whole);
    } else {
      fwrite(whole, 1, strlen(whole) + 1, stdout);
    }
    free(whole);
  }
  drop(&l);
  close(fd);
}

static void mode_walk(void) { walk(AT_FDCWD, path, ""); }

/* Two names for two directories, turn by turn, with a chdir in between. */
static void mode_chdir(void) {
  struct list wanted = {0}, got = {0};
  const char *slash = strrchr(path, '/');
  list_fd(GETDENTS64, 4096, &wanted);
  char *parent = strndup(path, (size_t)(slash - path));
  const char *const ways[][2] = {{parent, slash + 1}, {path, "."}, {"/", path}, {path, "../"}};
  for (size_t k = 0; k < 3; k++) {
    if (chdir(ways[k][0]) != 0) {
      die("chdir");
    }
    path = ways[k][1];
    list_fd(GETDENTS64, 4096, &got);
    must_equal(&wanted, &got, true, path);
    drop(&got);
    DIR *d = opendir_it();
    read_dir(d, &got);
    must_equal(&wanted, &got, !shuffled(), path);
    drop(&got);
    closedir(d);
    path = ways[1][0];
  }
  print(&wanted);
}

static const struct {
  const char *name;
  void (*run)(void);
} modes[] = {
    {"agree", mode_agree},         {"list", mode_list},         {"fd", mode_fd},
    {"handed", mode_handed},       {"reused", mode_reused},     {"full", mode_full},
    {"threads", mode_threads},     {"cold", mode_cold},         {"closing", mode_closing},
    {"rewinding", mode_rewinding}, {"spawning", mode_spawning}, {"first", mode_first},
    {"cancelled", mode_cancelled}, {"change", mode_change},     {"passes", mode_passes},
    {"deep", mode_deep},           {"walk", mode_walk},         {"chdir", mode_chdir},
    {"fork", mode_fork},           {"shared", mode_shared},     {"stack", mode_stack},
    {"many", mode_many},           {"closed", mode_closed},     {"fault", mode_fault},
};

int main(int argc, char **argv) {
  for (size_t i = 0; argc >= 3 && i < sizeof(modes) / sizeof(modes[0]); i++) {
    if (strcmp(argv[1], modes[i].name) == 0) {
      path = argv[2];
      argument = argc > 3 ? argv[3] : NULL;
      modes[i].run();
      return fflush(stdout) != 0;
    }
  }
  fprintf(stderr, "usage: calls MODE DIR [ARGUMENT]\n");
  return 2;
}
