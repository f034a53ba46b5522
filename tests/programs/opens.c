/* SPDX-License-Identifier: MIT */
/*
 * opens MODE DIR FILE... - open files of DIR in every way there is.
 *   calls     FILE by each call and kind of path; prints how often
 *   threads   every FILE, 50 times in each of 4 threads
 *   fork      every FILE in a forked child, and in a grandchild that ends by _exit
 *   closed    every FILE, in a child that has closed all descriptors first
 *   _exit     every FILE, then _exit(3)
 *   exec      every FILE, then this program again with mode "plain", as the same process
 *   plain     every FILE
 *   kill      every FILE, then SIGKILL
 *   segv      every FILE, in a signal handler, then SIGSEGV
 *   cancel    threads that are cancelled while they open
 *   exit      FILE, in threads that go on while the process exits
 *   full      every FILE, when there is no other descriptor left
 *   modes     what open gives: errno, and the permissions of what it makes in DIR/new
 *   many      FILE 200,000 times
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if !__GLIBC_PREREQ(2, 34)
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define close_range(first, last, flags) syscall(SYS_close_range, first, last, flags)
#endif

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);

static char **files;
static int count;

static void must(int fd) {
  if (fd < 0) {
    perror("open");
    exit(1);
  }
  close(fd);
}

static void must_stream(FILE *stream) {
  if (!stream) {
    perror("fopen");
    exit(1);
  }
  fclose(stream);
}

static void open_all(void) {
  for (int i = 0; i < count; i++) {
    must(open(files[i], O_RDONLY));
  }
}

static void *open_often(void *unused) {
  for (int k = 0; k < 50; k++) {
    open_all();
  }
  return unused;
}

static atomic_int opened; /* threads of open_for_ever() that have opened a file */

static void *open_for_ever(void *unused) {
  for (bool first = true;; first = false) {
    int fd = open(files[0], O_RDONLY); /* a cancellation point: what it returns is never lost */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    must(fd);
    opened += first;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  }
  return unused;
}

/* Each line is one open of the file by another call or path. */
static int every_call(const char *dir, const char *name) {
  char path[4096], odd[8300], slashes[4400], *volatile nothing = NULL;
  int fd = open(dir, O_RDONLY | O_DIRECTORY), n = 0;
  snprintf(path, sizeof(path), "%s/%s", dir, name);
  snprintf(odd, sizeof(odd), "%s/../%s/./%s", dir, strrchr(dir, '/') + 1, name);
  snprintf(slashes, sizeof(slashes), "%s///%s", dir, name);
#define N(call) must((n++, call))
#define F(call) must_stream((n++, call))
  N(open(path, O_RDONLY));
  N(open64(path, O_RDONLY));
  N(open(path, O_RDWR | O_CREAT | O_APPEND, 0644));
  N(openat(AT_FDCWD, path, O_RDONLY));
  N(openat64(fd, path, O_RDONLY));
  N(openat(fd, name, O_RDONLY));
  N(openat64(fd, name, O_RDWR | O_CREAT, 0600));
  N(creat(path, 0644));
  N(creat64(path, 0644));
  N(__open_2(path, O_RDONLY));
  N(__open64_2(path, O_RDONLY));
  N(__openat_2(fd, name, O_RDONLY));
  N(__openat64_2(fd, name, O_RDONLY));
  N(open(odd, O_RDONLY));
  N(open(slashes, O_RDONLY));
  F(fopen(path, "r"));
  F(fopen64(path, "re"));
  F(freopen(path, "r", fopen("/dev/null", "r")));
  F(freopen64(path, "r", fopen("/dev/null", "r")));
  if (fchdir(fd) != 0) {
    exit(1);
  }
  N(open(name, O_RDONLY));
  F(fopen(name, "r"));
  N(openat(AT_FDCWD, name, O_RDONLY));
  /* none of these is one */
  must(open(path, O_PATH));
  must(open(dir, O_RDONLY));
  must(open(".", O_RDONLY));
  must(open("..", O_RDONLY | O_DIRECTORY));
  must(open(dir, O_RDWR | O_TMPFILE, 0600));
  must(open("/dev/null", O_RDONLY));
  if (open("missing", O_RDONLY) >= 0 || errno != ENOENT || fopen("missing", "r") ||
      open("", O_RDONLY) >= 0 || openat(12345, name, O_RDONLY) >= 0 || errno != EBADF ||
      open(nothing, O_RDONLY) >= 0 || errno != EFAULT || fopen(path, "?")) {
    exit(1);
  }
  close(fd);
  return n;
}

static void modes(const char *dir) {
  char path[4096];
  struct stat st;
  snprintf(path, sizeof(path), "%s/new", dir);
  umask(022);
  for (int mode = 0; mode < 01000; mode += 37) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, mode);
    printf("%o: %d ", mode, fd >= 0 && fstat(fd, &st) == 0 ? (int)st.st_mode : -errno);
    close(fd);
    unlink(path);
    fd = openat(AT_FDCWD, dir, O_RDWR | O_TMPFILE, mode);
    printf("%d\n", fd >= 0 && fstat(fd, &st) == 0 ? (int)st.st_mode : -errno);
    close(fd);
  }
  errno = 4242;
  must(open("/dev/null", O_RDONLY));
  printf("errno %d\n", errno);
  printf("%d %d\n", open("/nowhere/x", O_RDONLY), errno);
  printf("%d %d\n", open("/dev/null/x", O_RDONLY), errno);
  printf("%p %d\n", (void *)fopen("/nowhere/x", "r"), errno);
}

static void on_signal(int signal) {
  (void)signal;
  open_all();
}

int main(int argc, char **argv) {
  if (argc < 3) {
    return 2;
  }
  const char *mode = argv[1];
  files = argv + 3;
  count = argc - 3;
  pthread_t threads[4];
  if (strcmp(mode, "calls") == 0) {
    printf("%d\n", every_call(argv[2], files[0]));
  } else if (strcmp(mode, "threads") == 0 || strcmp(mode, "cancel") == 0) {
    int cancel = mode[0] == 'c';
    for (int round = 0; round < (cancel ? 100 : 1); round++) {
      for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, cancel ? open_for_ever : open_often, NULL);
      }
      usleep(cancel ? 1000 : 0);
      for (int i = 0; i < 4; i++) {
        if (cancel) {
          pthread_cancel(threads[i]);
        }
        pthread_join(threads[i], NULL);
      }
    }
    puts("done");
  } else if (strcmp(mode, "exit") == 0) {
    for (int i = 0; i < 4; i++) {
      pthread_create(&threads[i], NULL, open_for_ever, NULL);
    }
    while (opened < 4) {
      usleep(1000);
    }
    puts("done");
  } else if (strcmp(mode, "fork") == 0) {
    if (fork() == 0) {
      open_all();
      if (fork() == 0) {
        open_all();
        _exit(0);
      }
      wait(NULL);
      exit(0);
    }
    wait(NULL);
    puts("done");
  } else if (strcmp(mode, "closed") == 0) {
    if (fork() == 0) {
      close_range(0, ~0U, 0);
      int mine = open("/tmp", O_RDWR | O_TMPFILE, 0600);
      open_all();
      struct stat st;
      _exit(mine == 0 && fstat(mine, &st) == 0 && st.st_size == 0 ? 0 : 1);
    }
    int status;
    wait(&status);
    return status != 0;
  } else if (strcmp(mode, "exec") == 0) {
    open_all();
    argv[1] = (char[]){"plain"};
    execv("/proc/self/exe", argv);
  } else if (strcmp(mode, "full") == 0) {
    int last = 0;
    for (int fd = 0; fd >= 0; fd = dup(0)) {
      last = fd;
    }
    close(last);
    open_all();
  } else if (strcmp(mode, "modes") == 0) {
    modes(argv[2]);
  } else if (strcmp(mode, "many") == 0) {
    for (int i = 0; i < 200000; i++) {
      must(open(files[0], O_RDONLY));
    }
  } else if (strcmp(mode, "segv") == 0) {
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    raise(SIGSEGV);
  } else {
    open_all();
    if (strcmp(mode, "kill") == 0) {
      raise(SIGKILL);
    }
    if (strcmp(mode, "_exit") == 0) {
      _exit(3);
    }
    puts("done");
  }
  return 0;
}
