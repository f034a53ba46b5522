/* SPDX-License-Identifier: MIT */
/*
 * dirs MODE DIR: list DIR in one of the ways a program may. Prints the names, each followed by
 * NUL, and exits with 0; or says on stderr what is wrong and exits with 1.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define MOST 100000

static const char *path;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  exit(1);
}

static DIR *open_it(void) {
  DIR *d = opendir(path);
  if (!d) {
    die("opendir: %s", strerror(errno));
  }
  return d;
}

static void print(const char *name) { fwrite(name, 1, strlen(name) + 1, stdout); }

/* All names, in the order they came. */
struct list {
  char *v[MOST];
  size_t n;
};

static void add(struct list *l, const char *name) {
  if (l->n == MOST || !(l->v[l->n++] = strdup(name))) {
    die("too many names");
  }
}

static void read_all(DIR *d, struct list *l) {
  struct dirent *e;
  errno = 0;
  while ((e = readdir(d))) {
    if (errno != 0) {
      die("readdir set errno to %d and returned an entry", errno);
    }
    add(l, e->d_name);
  }
  if (errno != 0) {
    die("readdir: %s", strerror(errno));
  }
}

static void must_equal(const struct list *a, const struct list *b, const char *what) {
  if (a->n != b->n) {
    die("%s: %zu names, not %zu", what, b->n, a->n);
  }
  for (size_t i = 0; i < a->n; i++) {
    if (strcmp(a->v[i], b->v[i]) != 0) {
      die("%s: '%s' instead of '%s'", what, b->v[i], a->v[i]);
    }
  }
}

static void print_list(const struct list *l) {
  for (size_t i = 0; i < l->n; i++) {
    print(l->v[i]);
  }
}

static struct list first, second, third;

static void mode_readdir(void) {
  DIR *d = open_it();
  read_all(d, &first);
  closedir(d);
  print_list(&first);
}

static void mode_readdir64(void) {
  DIR *d = open_it();
  struct dirent64 *e;
  errno = 0;
  while ((e = readdir64(d))) {
    print(e->d_name);
  }
  if (errno != 0) {
    die("readdir64: %s", strerror(errno));
  }
  closedir(d);
}

static void mode_readdir_r(void) {
  DIR *d = open_it();
  struct dirent entry, *e;
  int rc;
  while ((rc = readdir_r(d, &entry, &e)) == 0 && e) {
    print(e->d_name);
  }
  if (rc != 0 || readdir_r(d, &entry, &e) != 0 || e) {
    die("readdir_r: %s", strerror(rc));
  }
  closedir(d);
}

static void mode_readdir64_r(void) {
  DIR *d = open_it();
  struct dirent64 entry, *e;
  int rc;
  while ((rc = readdir64_r(d, &entry, &e)) == 0 && e) {
    print(e->d_name);
  }
  if (rc != 0) {
    die("readdir64_r: %s", strerror(rc));
  }
  closedir(d);
}

static void mode_fdopendir(void) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = fdopendir(fd);
  if (!d) {
    die("fdopendir: %s%s", strerror(errno), fcntl(fd, F_GETFD) < 0 ? ", and fd is closed" : "");
  }
  if (dirfd(d) != fd) {
    die("dirfd is %d, not %d", dirfd(d), fd);
  }
  read_all(d, &first);
  if (closedir(d) != 0 || fcntl(fd, F_GETFD) >= 0) {
    die("closedir left the descriptor open");
  }
  print_list(&first);
}

/* The end repeats, with errno as it was. */
static void mode_end(void) {
  DIR *d = open_it();
  read_all(d, &first);
  for (int k = 0; k < 5; k++) {
    errno = k ? 0 : 4242;
    if (readdir(d) || errno != (k ? 0 : 4242)) {
      die("after the end: errno %d", errno);
    }
  }
  closedir(d);
  print_list(&first);
}

static void mode_rewind(void) {
  DIR *d = open_it();
  for (int k = 0; k < 3 && readdir(d); k++) {
  }
  rewinddir(d);
  read_all(d, &first);
  rewinddir(d);
  read_all(d, &second);
  must_equal(&first, &second, "after rewinddir");
  closedir(d);
  print_list(&first);
}

/* A stream follows its descriptor: set back, it gives all again; at the end, so is a copy. */
static void mode_offset(void) {
  DIR *d = open_it();
  read_all(d, &first);
  DIR *copy = fdopendir(dup(dirfd(d)));
  if (!copy || readdir(copy)) {
    die("a copy of a descriptor at the end gave a name");
  }
  closedir(copy);
  if (lseek(dirfd(d), 0, SEEK_SET) != 0) {
    die("lseek: %s", strerror(errno));
  }
  read_all(d, &second);
  must_equal(&first, &second, "after lseek");
  closedir(d);
  print_list(&first);
}

/* A buffer that is none. */
static void mode_fault(void) {
  int fd = open(path, O_RDONLY | O_DIRECTORY);
  void *const bad[] = {NULL, (void *)8};
  for (int k = 0; k < 2; k++) {
    errno = 0;
    if (getdents64(fd, bad[k], 4096) != -1 || errno != EFAULT) {
      die("a bad buffer: errno %d", errno);
    }
  }
  close(fd);
  mode_readdir();
}

/* From every position that telldir gave, the same names follow. */
static void mode_seek(void) {
  static long at[MOST];
  DIR *d = open_it();
  struct dirent *e;
  for (;;) {
    at[first.n] = telldir(d);
    if (!(e = readdir(d))) {
      break;
    }
    add(&first, e->d_name);
  }
  for (size_t i = first.n + 1; i-- > 0;) {
    seekdir(d, at[i]);
    e = readdir(d);
    if (i == first.n ? e != NULL : !e || strcmp(e->d_name, first.v[i]) != 0) {
      die("seekdir to %zu gave '%s'", i, e ? e->d_name : "the end");
    }
  }
  closedir(d);
  print_list(&first);
}

/* A child that goes on with the parent's stream, and one that opens its own. */
static void mode_fork(void) {
  DIR *d = open_it();
  for (int k = 0; k < 2; k++) {
    struct dirent *e = readdir(d);
    if (e) {
      add(&first, e->d_name);
      add(&second, e->d_name);
    }
  }
  int ends[2];
  if (pipe(ends) != 0) {
    die("pipe");
  }
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    read_all(d, &second);
    closedir(d);
    d = open_it();
    read_all(d, &third);
    must_equal(&second, &third, "child");
    _exit(write(ends[1], &second.n, sizeof(second.n)) != sizeof(second.n));
  }
  int status;
  if (waitpid(pid, &status, 0) != pid || status != 0) {
    die("child: status %d", status);
  }
  size_t n;
  if (read(ends[0], &n, sizeof(n)) != sizeof(n)) {
    die("pipe");
  }
  read_all(d, &first);
  closedir(d);
  /* The kernel's position is shared with the child: what libc had read ahead is ours still. */
  if (first.n > n) {
    die("the child saw %zu names, the parent %zu", n, first.n);
  }
  d = open_it();
  read_all(d, &third);
  closedir(d);
  print_list(&third);
}

static void *lister(void *arg) {
  struct list *mine = arg;
  for (int round = 0; round < 50; round++) {
    for (size_t i = 0; i < mine->n; i++) {
      free(mine->v[i]);
    }
    mine->n = 0;
    DIR *d = open_it();
    read_all(d, mine);
    closedir(d);
  }
  return NULL;
}

/* Two threads, a stream each, from the very first listing on. */
static void mode_threads(void) {
  pthread_t t[2];
  pthread_create(&t[0], NULL, lister, &first);
  pthread_create(&t[1], NULL, lister, &second);
  pthread_join(t[0], NULL);
  pthread_join(t[1], NULL);
  must_equal(&first, &second, "threads");
  print_list(&first);
}

static DIR *shared;

static void *sharer(void *arg) {
  struct list *mine = arg;
  struct dirent entry, *e;
  while (readdir_r(shared, &entry, &e) == 0 && e) {
    add(mine, e->d_name);
  }
  return NULL;
}

/* Two threads on one stream, as readdir_r allows: together they see every name once. */
static void mode_shared(void) {
  pthread_t t[2];
  shared = open_it();
  pthread_create(&t[0], NULL, sharer, &first);
  pthread_create(&t[1], NULL, sharer, &second);
  pthread_join(t[0], NULL);
  pthread_join(t[1], NULL);
  closedir(shared);
  print_list(&first);
  print_list(&second);
}

static void *plain(void *unused) {
  DIR *d = open_it();
  struct dirent *e;
  while ((e = readdir(d))) {
    print(e->d_name);
  }
  closedir(d);
  return unused;
}

/* In a thread of little stack. */
static void mode_stack(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
  pthread_t t;
  if (pthread_create(&t, &attributes, plain, NULL) != 0) {
    die("pthread_create");
  }
  pthread_join(t, NULL);
}

static int open_descriptors(void) {
  int n = 0;
  for (int fd = 0; fd < 1024; fd++) {
    n += fcntl(fd, F_GETFD) >= 0;
  }
  return n;
}

/* Open and close many times, many at once: no descriptor stays. */
static void mode_descriptors(void) {
  int before = open_descriptors();
  for (int k = 0; k < 100; k++) {
    closedir(open_it());
  }
  DIR *many[600];
  for (int k = 0; k < 600; k++) { /* more than a table of streams holds */
    many[k] = open_it();
  }
  for (int k = 0; k < 600; k++) {
    struct list *l = k % 2 ? &second : &first;
    l->n = 0;
    read_all(many[k], l);
    closedir(many[k]);
    if (k % 2) {
      must_equal(&first, &second, "one of many");
    }
  }
  if (open_descriptors() != before) {
    die("%d descriptors, not %d", open_descriptors(), before);
  }
  print_list(&first);
}

/* With 0, 1 and 2 closed; the result goes to a descriptor opened after. */
static void mode_closed(void) {
  int out = fcntl(1, F_DUPFD_CLOEXEC, 50), before = open_descriptors();
  close(0);
  close(1);
  close(2);
  DIR *d = opendir(path);
  if (!d) {
    _exit(1);
  }
  if (dirfd(d) != 0) {
    _exit(3);
  }
  struct dirent *e;
  while ((e = readdir(d))) {
    if (write(out, e->d_name, strlen(e->d_name) + 1) < 0) {
      _exit(4);
    }
  }
  closedir(d);
  _exit(open_descriptors() == before - 3 ? 0 : 5);
}

static const struct {
  const char *name;
  void (*run)(void);
} modes[] = {
    {"readdir", mode_readdir},
    {"readdir64", mode_readdir64},
    {"readdir_r", mode_readdir_r},
    {"readdir64_r", mode_readdir64_r},
    {"fdopendir", mode_fdopendir},
    {"end", mode_end},
    {"rewind", mode_rewind},
    {"seek", mode_seek},
    {"fork", mode_fork},
    {"threads", mode_threads},
    {"shared", mode_shared},
    {"stack", mode_stack},
    {"descriptors", mode_descriptors},
    {"closed", mode_closed},
    {"offset", mode_offset},
    {"fault", mode_fault},
};

int main(int argc, char **argv) {
  for (size_t i = 0; argc == 3 && i < sizeof(modes) / sizeof(modes[0]); i++) {
    if (strcmp(argv[1], modes[i].name) == 0) {
      path = argv[2];
      modes[i].run();
      return fflush(stdout) != 0;
    }
  }
  fprintf(stderr, "usage: dirs MODE DIR\n");
  return 2;
}
