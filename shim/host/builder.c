/* SPDX-License-Identifier: MIT */
#include "host/builder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "config/config.h"
#include "host/self.h"

#define FIRST_FREE_FD 10

int shard_builder_move_fd(int fd) {
  if (fd < 0 || fd >= FIRST_FREE_FD) {
    return fd;
  }
  int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD), saved = errno;
  close(fd);
  errno = saved;
  return high;
}

/* ---- starting it ---- */

const char *shard_builder_find_variable(const char *const *list, const char *name, size_t length) {
  for (; list && *list; list++) {
    if (strncmp(*list, name, length) == 0 && ((*list)[length] == '=' || !(*list)[length])) {
      return *list;
    }
  }
  return NULL;
}

/*
 * The environment without LD_PRELOAD: the builder is not to be interposed. And with `more`, which
 * go over the others: that is how keys get to it, and they get nowhere else. A program may have set
 * SHARD_ variables of its own meanwhile, such as SHARD_ID: the builder would refuse them.
 */
static char **make_environment(const char *const *more) {
  size_t n = 0, m = 0, k = 0;
  while (environ && environ[n]) {
    n++;
  }
  while (more && more[m]) {
    m++;
  }
  char **copy = calloc(n + m + 1, sizeof(*copy));
  for (size_t i = 0; copy && i < n; i++) {
    if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 && !shard_config_is_foreign(environ[i]) &&
        !shard_builder_find_variable(more, environ[i], strcspn(environ[i], "="))) {
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

/* Signals as they are by default, none blocked. */
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

static int spawn(struct shard_builder *b, char *const *arguments, char *const *environment,
                 int words, int lock) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, words, 2);
  posix_spawn_file_actions_adddup2(&actions, lock, SHARD_BUILDER_LOCK);
  init_attributes(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0); /* to be killed with whatever it starts */
  int rc = posix_spawn(&b->pid, b->program, &actions, &attributes, arguments, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return rc;
}

int shard_builder_start(struct shard_builder *b, const char *const *arguments,
                        const char *const *environment, int lock, char *err, size_t size) {
  b->words[0] = 0;
  b->signal = 0;
  if (shard_self_program("shardctl", b->program, sizeof(b->program)) != 0) {
    return shard_error_set(err, size, -ENOENT,
                           "shardctl was not found beside libshard.so ('%.300s'); build it there",
                           b->program);
  }
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) {
    return shard_error_set(err, size, -errno, "pipe: %s", strerror(errno));
  }
  pipes[0] = shard_builder_move_fd(pipes[0]);
  pipes[1] = shard_builder_move_fd(pipes[1]);
  size_t n = 0;
  while (arguments[n]) {
    n++;
  }
  char **whole = calloc(n + 3, sizeof(*whole)), **variables = make_environment(environment);
  int rc = pipes[0] < 0 || pipes[1] < 0 || !whole || !variables ? -EMFILE : 0;
  if (rc != 0) {
    shard_error_set(err, size, rc, "no file descriptor left to start shardctl");
  } else {
    whole[0] = b->program;
    whole[1] = (char *)SHARD_BUILDER_MARK;
    memcpy(whole + 2, arguments, n * sizeof(*whole));
    rc = -spawn(b, whole, variables, pipes[1], lock);
    if (rc != 0) {
      shard_error_set(err, size, rc, "cannot start '%.300s': %s", b->program, strerror(-rc));
    }
  }
  free(whole);
  free(variables);
  if (pipes[1] >= 0) {
    close(pipes[1]);
  }
  if (rc != 0 && pipes[0] >= 0) {
    close(pipes[0]);
  }
  b->errors = pipes[0];
  return rc;
}

/* ---- hearing it ---- */

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

/* Read its words to their end: _DONE; or _LATE or _NEEDLESS. */
static enum shard_builder_end hear(struct shard_builder *b, int64_t deadline,
                                   bool (*enough)(void *), void *context) {
  char *words = b->words;
  size_t used = 0, size = sizeof(b->words);
  bool in_time = true, open = true, needless = false;
  while (open && in_time && !needless) {
    int64_t left = deadline - shard_clock_ms(), most = enough ? 100 : 1000;
    struct pollfd p = {.fd = b->errors, .events = POLLIN};
    int n = poll(&p, 1, left < 0 ? 0 : left > most ? (int)most : (int)left);
    if (n > 0) {
      char chunk[256];
      ssize_t got = read(b->errors, chunk, sizeof(chunk));
      used = got > 0 ? keep_words(words, used, size, chunk, (size_t)got) : used;
      open = got > 0 || (got < 0 && errno == EINTR);
    } else if (n < 0 && errno != EINTR) {
      open = false;
    }
    in_time = !open || shard_clock_ms() < deadline;
    needless = enough && open && enough(context);
  }
  while (used > 0 && words[used - 1] == '\n') {
    used--;
  }
  words[used] = 0;
  return needless ? SHARD_BUILDER_NEEDLESS : in_time ? SHARD_BUILDER_DONE : SHARD_BUILDER_LATE;
}

enum shard_builder_end shard_builder_wait(struct shard_builder *b, int64_t deadline,
                                          bool (*enough)(void *context), void *context) {
  enum shard_builder_end end = hear(b, deadline, enough, context);
  int status = 0;
  pid_t got = 0;
  close(b->errors);
  b->errors = -1;
  for (long nap_us = 100; end == SHARD_BUILDER_DONE;
       nap_us = nap_us < 20000 ? nap_us * 2 : nap_us) {
    got = waitpid(b->pid, &status, WNOHANG);
    if (got == b->pid || (got < 0 && errno != EINTR)) {
      break;
    }
    nanosleep(&(struct timespec){0, nap_us * 1000}, NULL);
    end = shard_clock_ms() < deadline ? end : SHARD_BUILDER_LATE;
  }
  if (end != SHARD_BUILDER_DONE) {
    kill(-b->pid, SIGKILL);
    do {
      got = waitpid(b->pid, &status, 0);
    } while (got < 0 && errno == EINTR);
    return end;
  }
  if (got == b->pid && WIFSIGNALED(status)) {
    b->signal = WTERMSIG(status);
    return SHARD_BUILDER_KILLED;
  }
  return got == b->pid && WEXITSTATUS(status) != 0 ? SHARD_BUILDER_FAILED : SHARD_BUILDER_DONE;
}

const char *shard_builder_last_line(const struct shard_builder *b) {
  const char *line = strrchr(b->words, '\n');
  return line ? line + 1 : b->words;
}

void shard_builder_pass_warnings(const struct shard_builder *b) {
  static const char mark[] = SHARD_ERROR_WARNING;
  char text[sizeof(b->words)];
  for (const char *line = b->words; *line; line += line[0] == '\n') {
    size_t length = strcspn(line, "\n");
    if (strncmp(line, mark, sizeof(mark) - 1) == 0) {
      length -= sizeof(mark) - 1;
      line += sizeof(mark) - 1;
      memcpy(text, line, length);
      text[length] = 0;
      shard_log(SHARD_LOG_WARN, text);
    }
    line += length;
  }
}

/* ---- SHARD_STATS ---- */

int shard_builder_run(const char *program, char *const *arguments, char *const *environment) {
  posix_spawnattr_t attributes;
  pid_t pid;
  int status = -1;
  init_attributes(&attributes, 0);
  int rc = posix_spawn(&pid, program, NULL, &attributes, arguments, environment);
  posix_spawnattr_destroy(&attributes);
  while (rc == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return rc;
}
