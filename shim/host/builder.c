/* SPDX-License-Identifier: MIT */
#include "host/builder.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "config/config.h"
#include "host/library.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* on all of Linux's architectures but Alpha */
#endif

#define DEATH_MS 2000 /* how long a killed shardctl is waited for */

/* ---- start ---- */

const char *shard_builder_find_variable(const char *const *list, const char *name, size_t length) {
  for (; list && *list; list++) {
    if (strncmp(*list, name, length) == 0 && ((*list)[length] == '=' || !(*list)[length])) {
      return *list;
    }
  }
  return NULL;
}

static const char *value_of(const char *variable, const char *name) {
  size_t n = strlen(name);
  return strncmp(variable, name, n) == 0 && variable[n] == '=' ? variable + n + 1 : NULL;
}

/*
 * Returns whether shardctl must not get a variable of the host's: with LD_AUDIT too little static
 * TLS is left for jemalloc; libcrypto fails if OPENSSL_CONF cannot be read.
 */
static bool is_for_host_alone(const struct shard_builder *b, const char *variable) {
  const char *file = value_of(variable, "OPENSSL_CONF");
  return value_of(variable, "LD_AUDIT") || (file && *file && access(file, R_OK) != 0) ||
         (!b->remote && value_of(variable, "LD_PRELOAD")) || shard_config_is_foreign(variable);
}

/* Prints LD_PRELOAD without libshard.so into text. Other libraries stay: a proxy may need one. */
static void copy_preloads(char *text, const char *list) {
  size_t n = strcspn(list, ": ");
  text = stpcpy(text, "LD_PRELOAD=");
  for (; *list; list += n + (list[n] != 0), n = strcspn(list, ": ")) {
    const char *slash = memrchr(list, '/', n), *name = slash ? slash + 1 : list;
    if (n > 0 && strncmp(name, "libshard.so", strlen("libshard.so")) != 0) {
      text = mempcpy(text, list, n);
      *text++ = ':';
    }
  }
  *text = 0;
}

/*
 * Makes shardctl's environment: the host's, without what is for the host alone, and `more`, which
 * override the host's. Only by `more` do keys get to shardctl. A program may have set SHARD_
 * variables of its own meanwhile, such as SHARD_ID, which shardctl would refuse.
 */
static char **make_environment(const struct shard_builder *b, const char *const *more) {
  size_t n = 0, m = 0, k = 0, room = 0;
  while (environ && !getauxval(AT_SECURE) &&
         environ[n]) { /* a set-uid program's environment is not trusted */
    n++;
  }
  while (more && more[m]) {
    m++;
  }
  for (size_t i = 0; i < n; i++) {
    room += value_of(environ[i], "LD_PRELOAD") ? strlen(environ[i]) + 2 : 0;
  }
  char **copy = calloc(1, (n + m + 1) * sizeof(*copy) + room);
  char *text = (char *)(copy + n + m + 1);
  for (size_t i = 0; copy && i < n; i++) {
    const char *preloads = value_of(environ[i], "LD_PRELOAD");
    if (is_for_host_alone(b, environ[i]) ||
        shard_builder_find_variable(more, environ[i], strcspn(environ[i], "="))) {
      continue;
    }
    copy[k++] = environ[i];
    if (preloads) {
      copy_preloads(text, preloads);
      copy[k - 1] = text;
      text += strlen(text) + 1;
    }
  }
  for (size_t i = 0; copy && i < m; i++) {
    if (strchr(more[i], '=')) {
      copy[k++] = (char *)more[i];
    }
  }
  return copy;
}

/* Sets default actions for all signals, and blocks none. */
static void init_attributes(posix_spawnattr_t *attributes, short flags) {
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_init(attributes);
  posix_spawnattr_setsigdefault(attributes, &all);
  posix_spawnattr_setsigmask(attributes, &none);
  posix_spawnattr_setflags(attributes,
                           (short)(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | flags));
}

/* The program runs by the descriptor that was checked (library.h), because the path may lead to
 * another file by now. */
#define PROGRAM (SHARD_BUILDER_LOCK + 1)
#define PROGRAM_PATH "/proc/self/fd/4"
static_assert(PROGRAM == 4, "PROGRAM_PATH has the number");

static int spawn(struct shard_builder *b, int program, char *const *arguments,
                 char *const *environment, int errors, int lock) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  /* Each call may fail for lack of memory. Without all of them shardctl would write into the host's
   * files. */
  int rc = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  rc = rc ? rc : posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  rc = rc ? rc : posix_spawn_file_actions_adddup2(&actions, errors, 2);
  rc = rc ? rc : posix_spawn_file_actions_adddup2(&actions, lock, SHARD_BUILDER_LOCK);
  rc = rc ? rc : posix_spawn_file_actions_adddup2(&actions, program, PROGRAM);
  init_attributes(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0); /* a group can be killed with its children */
  rc = rc ? rc : posix_spawn(&b->pid, PROGRAM_PATH, &actions, &attributes, arguments, environment);
  if (rc == ENOENT) { /* without /proc: by the path that was checked a moment ago */
    rc = posix_spawn(&b->pid, b->program, &actions, &attributes, arguments, environment);
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return rc;
}

int shard_builder_start(struct shard_builder *b, const char *const *arguments,
                        const char *const *environment, int lock, char *err, size_t size) {
  b->messages[0] = 0;
  b->signal = 0;
  int program = shard_library_open_shardctl(b->program, sizeof(b->program), err, size);
  if (program < 0) {
    return program;
  }
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) {
    int rc = shard_error_set(err, size, -errno, "cannot start shardctl: pipe: %s", strerror(errno));
    close(program);
    return rc;
  }
  pipes[0] = shard_file_move_fd(pipes[0]);
  if (pipes[0] >= 0) {
    fcntl(pipes[0], F_SETFL, O_NONBLOCK); /* not shardctl's end */
  }
  pipes[1] = shard_file_move_fd(pipes[1]);
  size_t n = 0;
  while (arguments[n]) {
    n++;
  }
  char **argv = calloc(n + 3, sizeof(*argv)), **variables = make_environment(b, environment);
  int rc = pipes[0] < 0 || pipes[1] < 0 ? -EMFILE : !argv || !variables ? -ENOMEM : 0;
  if (rc != 0) {
    shard_error_set(err, size, rc, "no %s left to start shardctl",
                    rc == -EMFILE ? "file descriptor" : "memory");
  } else {
    char flag[sizeof(SHARD_BUILDER_FLAG) + 16];
    snprintf(flag, sizeof(flag), SHARD_BUILDER_FLAG "%ld", (long)getpid());
    argv[0] = b->program;
    argv[1] = flag;
    memcpy(argv + 2, arguments, n * sizeof(*argv));
    rc = -spawn(b, program, argv, variables, pipes[1], lock);
    if (rc != 0) {
      shard_error_set(err, size, rc, "cannot start '%.300s': %s", b->program, strerror(-rc));
    }
  }
  free(argv);
  free(variables);
  close(program);
  shard_file_close(pipes[1]);
  if (rc != 0 && pipes[0] >= 0) {
    close(pipes[0]);
  }
  b->errors = pipes[0];
  return rc;
}

/* ---- wait ---- */

/* Appends n bytes to the messages, and drops the first lines if there is no room. Returns the
 * length. */
static size_t keep_messages(char *messages, size_t used, size_t size, const char *chunk, size_t n) {
  n = n < size / 2 ? n : size / 2;
  if (used + n >= size) {
    char *line = memchr(messages, '\n', used);
    size_t drop = used + n + 1 - size, first = line ? (size_t)(line - messages) + 1 : drop;
    drop = first > drop ? first : drop;
    memmove(messages, messages + drop, used - drop);
    used -= drop;
  }
  memcpy(messages + used, chunk, n);
  return used + n;
}

/* Reads the messages that have arrived. *used: the length of b->messages. */
static void read_messages(struct shard_builder *b, size_t *used) {
  char chunk[256];
  ssize_t n = 1;
  while (b->errors >= 0 && n > 0) {
    n = read(b->errors, chunk, sizeof(chunk));
    if (n > 0) {
      *used = keep_messages(b->messages, *used, sizeof(b->messages), chunk, (size_t)n);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
      close(b->errors);
      b->errors = -1;
    }
    n = n < 0 && errno == EINTR ? 1 : n;
  }
}

/* Returns whether shardctl has ended, without reaping it. The host may have reaped it already. */
static bool has_ended(pid_t pid) {
  siginfo_t info = {0};
  long rc = TEMP_FAILURE_RETRY(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT));
  if (rc != 0 && errno != ECHILD) { /* seccomp forbids waitid(2): the exit status is lost */
    return waitpid(pid, NULL, WNOHANG) != 0;
  }
  return rc != 0 || info.si_pid == pid;
}

/* Waits at most ms milliseconds for a message or the end of shardctl. errors, process: the pipe and
 * a pidfd, or -1. */
static void wait_for_event(int errors, int process, int64_t ms) {
  struct pollfd p[] = {{.fd = errors, .events = POLLIN}, {.fd = process, .events = POLLIN}};
  poll(p, 2, ms < 0 ? 0 : (int)ms); /* poll(2) ignores -1 */
}

/*
 * Reads messages until shardctl has ended (DONE) or the deadline has passed (LATE). The end of the
 * pipe says nothing: a child that another thread of the host has forked may hold the pipe open.
 */
static enum shard_builder_end read_until_end(struct shard_builder *b, int64_t deadline) {
  enum shard_builder_end end = SHARD_BUILDER_DONE;
  size_t used = 0;
  int process = shard_file_move_fd((int)syscall(SYS_pidfd_open, b->pid, 0));
  /* Without a pidfd (before Linux 5.3) shardctl is polled, at growing intervals. */
  for (int64_t most = 1;; most = most < 20 ? 2 * most : most) {
    bool ended = has_ended(b->pid); /* before the read: then the pipe has all messages */
    read_messages(b, &used);
    int64_t left = deadline - shard_clock_ms(), longest = process < 0 ? most : 1000;
    if (ended) {
      break;
    }
    if (left <= 0) {
      end = SHARD_BUILDER_LATE;
      break;
    }
    wait_for_event(b->errors, process, left < longest ? left : longest);
  }
  shard_file_close(process);
  while (used > 0 && b->messages[used - 1] == '\n') {
    used--;
  }
  b->messages[used] = 0;
  return end;
}

enum shard_builder_end shard_builder_wait(struct shard_builder *b, int64_t deadline) {
  enum shard_builder_end end = read_until_end(b, deadline);
  int status = 0;
  if (b->errors >= 0) {
    close(b->errors);
    b->errors = -1;
  }
  /* Not if shardctl has ended: its pid may be another process's by now. */
  if (end != SHARD_BUILDER_DONE && kill(-b->pid, SIGKILL) != 0 && !has_ended(b->pid)) {
    kill(b->pid, SIGKILL);
  }
  /* A process that hangs in the kernel outlives SIGKILL, and is not waited for. */
  for (int64_t most = shard_clock_ms() + DEATH_MS; !has_ended(b->pid) && shard_clock_ms() < most;) {
    wait_for_event(-1, -1, 1);
  }
  pid_t got = (pid_t)TEMP_FAILURE_RETRY(waitpid(b->pid, &status, WNOHANG));
  if (end != SHARD_BUILDER_DONE) {
    return end;
  }
  if (got == b->pid && WIFSIGNALED(status)) {
    b->signal = WTERMSIG(status);
    return SHARD_BUILDER_KILLED;
  }
  return got == b->pid && WEXITSTATUS(status) != 0 ? SHARD_BUILDER_FAILED : SHARD_BUILDER_DONE;
}

const char *shard_builder_last_line(const struct shard_builder *b) {
  const char *line = strrchr(b->messages, '\n');
  return line ? line + 1 : b->messages;
}
