/* SPDX-License-Identifier: MIT */
/*
 * cmd_stream.c - shardctl stream: a bucket listed into parts that are read while it goes on.
 *
 * The command forks a process that lists, and returns once the first part is there. That process
 * goes on in the background: in a session of its own, without the caller's descriptors. It writes
 * its messages to BASE.err, and keeps that locked while it lives.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "cache/safe.h"
#include "ctl/arguments.h"
#include "ctl/buckets.h"
#include "ctl/ctl.h"
#include "host/builder.h"
#include "listing/options.h"

static const struct ctl_option rows[] = {{NULL, 'o', .text = &ctl_given.output, .needed = true},
                                         CTL_ROW_WORDS,
                                         CTL_ROW_UNSIGNED,
                                         CTL_ROW_END};

struct stream {
  const char *url, *base;
  struct shard_options options;
  int inherited; /* the caller's lock, or -1 */
  int errors;    /* BASE.err */
  int told;      /* a pipe: a byte says that the command may return */
};

/* There is a part: let the command return, and leave what it was started with. */
static int go_on(void *context) {
  struct stream *s = context;
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  setsid();
  if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(nothing, 1) < 0 || dup2(s->errors, 2) < 0 ||
      write(s->told, "", 1) != 1) {
    return -errno;
  }
  close(s->told);
  shard_file_close(s->inherited);
  return chdir("/") == 0 ? 0 : -errno;
}

static int list(struct stream *s) {
  char *path = NULL;
  if (asprintf(&path, "%s.err", s->base) < 0) {
    return ctl_fail("out of memory");
  }
  char why[200];
  s->errors = shard_safe_open(path, O_RDWR | O_CREAT, 0600, false, NULL, why, sizeof(why));
  int rc = CTL_FAILED, locked = -1;
  /* A process that looks whether it is locked locks it for a moment. */
  for (int tries = 0; s->errors >= 0 && tries < 1000 && locked != 0; tries++) {
    locked = flock(s->errors, LOCK_EX | LOCK_NB);
    if (locked != 0 && (errno != EWOULDBLOCK || nanosleep(&(struct timespec){0, 1000000}, NULL))) {
      break;
    }
  }
  if (s->errors < 0) {
    ctl_fail("cannot write '%s': %s", path, why);
  } else if (locked != 0 || ftruncate(s->errors, 0) != 0) {
    ctl_fail("cannot write '%s': %s", path, strerror(errno));
  } else {
    rc = ctl_buckets_stream(s->url, &s->options, s->base, go_on, s);
  }
  free(path);
  return rc;
}

/* Make BASE absolute, in buf[PATH_MAX]: the process that goes on changes its directory. */
static int make_absolute(const char *base, char *buf) {
  int n = 0;
  if (base[0] == '/') {
    n = snprintf(buf, PATH_MAX, "%s", base);
  } else if (getcwd(buf, PATH_MAX)) {
    size_t used = strlen(buf);
    n = (int)used + snprintf(buf + used, PATH_MAX - used, "/%s", base);
  }
  return n > 0 && n < PATH_MAX ? CTL_DONE : ctl_fail("cannot make '%s' absolute", base);
}

/* Start the process that lists, and wait until there is something to read, or it has ended. */
static int start(struct stream *s) {
  int told[2], status = 0;
  char byte;
  if (pipe2(told, O_CLOEXEC) != 0) {
    return ctl_fail("pipe: %s", strerror(errno));
  }
  pid_t pid = fork();
  if (pid < 0) {
    return ctl_fail("fork: %s", strerror(errno));
  }
  if (pid == 0) {
    close(told[0]);
    s->told = told[1];
    _exit(list(s));
  }
  close(told[1]);
  if (TEMP_FAILURE_RETRY(read(told[0], &byte, 1)) == 1) {
    return CTL_DONE;
  }
  (void)TEMP_FAILURE_RETRY(waitpid(pid, &status, 0));
  if (WIFSIGNALED(status)) {
    raise(WTERMSIG(status)); /* the caller is to see it */
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : CTL_FAILED;
}

static int run(char **operands) {
  struct stream s = {.errors = -1, .url = operands[0]};
  char err[700], base[PATH_MAX];
  s.inherited = fcntl(SHARD_BUILDER_LOCK, F_GETFD) >= 0 ? SHARD_BUILDER_LOCK : -1;
  s.base = base;
  if (shard_options_parse(&s.options, ctl_given.words ? ctl_given.words : "", err, sizeof(err)) !=
      0) {
    return ctl_usage("%s", err);
  }
  int rc = make_absolute(ctl_given.output, base);
  return rc == CTL_DONE ? start(&s) : rc;
}

const struct ctl_command ctl_cmd_stream = {ctl_help_stream, rows, CTL_ONE,
                                           "one s3://bucket/prefix and -o BASE", run};
