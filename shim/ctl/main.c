/* SPDX-License-Identifier: MIT */
/* main.c - shardctl: finds the command, and tells which there are. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "build/progress.h"
#include "config/config.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/descriptors.h"
#include "host/builder.h"
#include "libshard.h"

const struct ctl_entry ctl_entries[] = {
#define COMMAND(name, checks, operands, summary)                                                   \
  {#name, operands, summary, &ctl_cmd_##name, checks},
#include "ctl/commands.def"
#undef COMMAND
    {NULL}};

/* Commands of earlier versions, and what to do instead. */
static const struct {
  const char *name, *remedy;
} withdrawn[] = {
    {"stats", "shardctl verify reads the logs of killed processes as any other"},
    {"prove", "a DLIO that libshard does not know runs unmodified"},
    {"plan", "libshard-dlio(7), MEMORY, has the bytes for each file"},
    {"stream",
     "shardctl index lists a bucket, and SHARD_STRATEGY=hash filters a mount's own entries"},
};

#define COLUMN 22 /* where summaries begin */

static void print_command(const struct ctl_entry *c, FILE *out) {
  int used = fprintf(out, "  %s%s%s", c->name, *c->operands ? " " : "", c->operands);
  if (used >= COLUMN) {
    fputc('\n', out);
    used = 0;
  }
  for (const char *line = c->summary; line; used = 0) {
    const char *end = strchr(line, '\n');
    fprintf(out, "%*s%.*s\n", COLUMN - used, "", (int)(end ? end - line : (long)strlen(line)),
            line);
    line = end ? end + 1 : NULL;
  }
}

static void print_help(FILE *out) {
  fputs("Usage: shardctl COMMAND [OPTIONS]\n\nCommands:\n", out);
  for (const struct ctl_entry *c = ctl_entries; c->name; c++) {
    print_command(c, out);
  }
  fputs("\nshardctl COMMAND --help tells the options. --version prints the version,\n"
        "--completion bash|zsh|fish what makes a shell complete commands and options.\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage; run: the command's.\n",
        out);
}

/* Read the variables for a command. CTL_DONE, or CTL_USAGE after a message. */
static int read_variables(int argc, char **argv) {
  char err[700];
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      return CTL_DONE;
    }
  }
  shard_config_init(environ);
  return shard_config_check(err, sizeof(err)) == 0 ? CTL_DONE : ctl_usage("%s", err);
}

static pid_t host; /* that has started this process as its builder */

/* A host of another PID namespace (0) is not seen. */
static bool host_is_dead(void) {
  pid_t parent = getppid();
  return parent != host && parent != 0;
}

/* If the host has died before its builder, children that it has forked may have the lock open. */
static void unlock_after_host(void) {
  if (host_is_dead()) {
    flock(SHARD_BUILDER_LOCK, LOCK_UN);
  }
}

/* On Linux all of these are system calls, and no more. */
static void end(int number) {
  unlock_after_host();
  signal(number, SIG_DFL);
  raise(number);
}

/* Nobody takes what is made for a dead host, but all who want the lock would wait for it. The
 * kernel tells when the thread ends that has started us, and waits for us. */
static int end_with_host(void) {
  const struct sigaction action = {.sa_handler = end};
  atexit(unlock_after_host);
  sigaction(SIGTERM, &action, NULL);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  return host_is_dead() ? CTL_FAILED : CTL_DONE;
}

/* Flush stdout. CTL_DONE, or CTL_FAILED after a message. */
static int finish(void) {
  return fflush(stdout) == 0 && !ferror(stdout)
             ? CTL_DONE
             : ctl_fail("cannot write the output: %s", strerror(errno));
}

/* argv[0] is its name. Returns its exit status. */
static int run(const struct ctl_entry *c, int argc, char **argv) {
  int rc = c->checks ? read_variables(argc, argv) : CTL_DONE;
  rc = rc == CTL_DONE ? ctl_arguments_parse(c->command, argc, argv) : rc;
  rc = rc == CTL_GO_ON ? c->command->run(argv + optind) : rc;
  int finished = finish();
  return rc == CTL_DONE ? finished : rc;
}

/* By this libshard.so knows shardctl, and does nothing there: a job's script may export LD_PRELOAD,
 * and fakechroot gives it to all that a process starts. */
extern const char shard_is_shardctl;
__attribute__((visibility("default"))) const char shard_is_shardctl = 1;

/* Nothing calls setlocale(): numbers, dates and letters are those of C. */
int main(int argc, char **argv) {
  prctl(PR_SET_NAME, "shardctl"); /* libshard.so runs it by a descriptor, whose number is no name */
  if (argc > 1 && strncmp(argv[1], SHARD_BUILDER_MARK, strlen(SHARD_BUILDER_MARK)) == 0) {
    ctl_close_from(SHARD_BUILDER_LOCK + 1, false);
    host = (pid_t)strtol(argv[1] + strlen(SHARD_BUILDER_MARK), NULL, 10);
    if (end_with_host() != CTL_DONE) {
      return CTL_FAILED;
    }
    umask(umask(0) | (S_IWGRP | S_IWOTH)); /* nobody else may write to what the cache has */
    argv[1] = argv[0];
    argv++;
    argc--;
  }
  shard_progress_allow(host == 0);
  if (argc < 2) {
    print_help(stderr);
    return CTL_USAGE;
  }
  const char *word = argv[1];
  if (strcmp(word, "run") != 0) {
    signal(SIGXFSZ, SIG_IGN); /* a write past the limit is an error like any other */
    signal(SIGCHLD, SIG_DFL); /* else, if the caller ignores it, no child tells how it ended */
  }
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
    print_help(stdout);
    return finish();
  }
  if (strcmp(word, "--version") == 0) {
    printf("shardctl %s\n", shard_version());
    return finish();
  }
  if (strcmp(word, "--completion") == 0) {
    int rc = ctl_completion_print(argc == 3 ? argv[2] : NULL);
    return rc == CTL_DONE ? finish() : rc;
  }
  for (const struct ctl_entry *c = ctl_entries; c->name; c++) {
    if (strcmp(word, c->name) == 0) {
      return run(c, argc - 1, argv + 1);
    }
  }
  for (size_t i = 0; i < sizeof(withdrawn) / sizeof(withdrawn[0]); i++) {
    if (strcmp(word, withdrawn[i].name) == 0) {
      return ctl_usage("there is no command '%s' any more; %s", word, withdrawn[i].remedy);
    }
  }
  return ctl_usage("there is no command '%s'; shardctl --help lists them", word);
}
