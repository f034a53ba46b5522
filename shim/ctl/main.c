/* SPDX-License-Identifier: MIT */
/*
 * main.c - runs the command that shardctl's first argument names; and the map of shardctl: a line
 * for each module. interpose/init.c has the modules that shardctl shares with libshard.so.
 *
 * ctl/ - commands (commands.def lists the commands)
 *   main          the start, also as the builder of libshard.so
 *   ctl           what commands share: exit statuses, messages
 *   arguments     options, by a table for each command
 *   cmd_index     index: makes a listing
 *   cmd_ls, cmd_stat, cmd_manifest   names, facts, a text for each rank
 *   cmd_get       get: fetches a listing from a bucket, or copies one
 *   cmd_run       run: a command under libshard.so
 *   cmd_doctor    doctor: whether libshard can work here
 *   cmd_cache     cache ls, cache gc
 *   cmd_verify    verify: what the logs of a run prove
 *   logs          reads the logs of SHARD_STATS for verify
 *   open_listing  opens an operand as a listing
 *   sample_names  the names of a listing, sample by sample
 *   s3            buckets for commands
 *   output, scratch   files that appear complete; temporary folders
 *   human, json   output for people, and as JSON
 *   libshard_path   finds libshard.so
 * source/ - where names come from
 *   directory, walk, compare   a directory, read by several threads, or compared with a list
 *   text          lists that exist already: names, dwalk's, S3 Inventory's
 *   forms         what a text is, by its first lines
 *   inventory     an S3 Inventory
 *   (source/s3/ - a bucket; source/s3/s3.h is its map)
 * build/ - from names to a listing file
 *   build         the way of all names
 *   intake        where a source hands names in
 *   batch, sorter, run, merge   sorted in memory, in files, and merged
 *   numbered      an order within each directory
 *   sets, facts   whether files come in sets; the facts of a header
 *   writer        the listing file
 *   memory        how much memory there is
 *   spool, progress   temporary bytes; how far it is
 */
/* main.c - shardctl: runs the command that its first argument names. */
#include <dirent.h>
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
#include "host/builder.h"
#include "libshard.h"

const struct ctl_entry ctl_entries[] = {
#define COMMAND(name, checks, operands, summary)                                                   \
  {#name, operands, summary, &ctl_cmd_##name, checks},
#include "ctl/commands.def"
#undef COMMAND
    {NULL}};

static void print_help(FILE *out) {
  fputs("Usage: shardctl COMMAND [OPTIONS]\n\nCommands:\n", out);
  for (const struct ctl_entry *c = ctl_entries; c->name; c++) {
    fprintf(out, "  %s%s%s\n      %s\n", c->name, *c->operands ? " " : "", c->operands, c->summary);
  }
  fputs("\nshardctl COMMAND --help tells the options. --version prints the version.\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage; run: the command's.\n",
        out);
}

/* Read the variables for a command. Returns CTL_DONE, or CTL_USAGE after a message. */
static int read_variables(void) {
  char err[700];
  shard_config_init(environ);
  return shard_config_check(err, sizeof(err)) == 0 ? CTL_DONE : ctl_usage("%s", err);
}

/*
 * Close the host's descriptors, except those that host/builder.h names. shardctl does this itself:
 * posix_spawn(3) can do it since glibc 2.34 only, and a list that the host makes would miss what
 * its other threads open meanwhile.
 */
static void close_descriptors_of_host(void) {
  close(SHARD_BUILDER_LOCK + 1); /* so that one is free for opendir(3) */
  DIR *dir = opendir("/proc/self/fd");
  for (const struct dirent *d; dir && (d = readdir(dir));) {
    int fd = (int)strtol(d->d_name, NULL, 10);
    if (fd > SHARD_BUILDER_LOCK && fd != dirfd(dir)) {
      close(fd);
    }
  }
  if (dir) {
    closedir(dir);
  }
}

static pid_t host_pid; /* the process that has started this builder; 0: this is none */

/* A host in another PID namespace has the number 0 here. */
static bool host_is_dead(void) {
  pid_t parent = getppid();
  return parent != host_pid && parent != 0;
}

/* Unlock if the host is dead: children that it has forked may have the lock's descriptor. */
static void unlock_after_host(void) {
  if (host_is_dead()) {
    flock(SHARD_BUILDER_LOCK, LOCK_UN);
  }
}

/* All of these are system calls, and so safe in a handler. */
static void on_sigterm(int number) {
  unlock_after_host();
  signal(number, SIG_DFL);
  raise(number);
}

/* End with the host: nobody takes what is made for a dead host, and others would wait for the lock.
 * The kernel sends SIGTERM when the thread ends that has started this process. */
static int end_with_host(void) {
  const struct sigaction action = {.sa_handler = on_sigterm};
  atexit(unlock_after_host);
  sigaction(SIGTERM, &action, NULL);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  return host_is_dead() ? CTL_FAILED : CTL_DONE;
}

/* Flush stdout. Returns CTL_DONE, or CTL_FAILED after a message. */
static int flush_stdout(void) {
  return fflush(stdout) == 0 && !ferror(stdout)
             ? CTL_DONE
             : ctl_fail("cannot write the output: %s", strerror(errno));
}

/* Run a command, whose name is argv[0]. Returns its exit status. */
static int run_command(const struct ctl_entry *c, int argc, char **argv) {
  int rc = ctl_arguments_parse(c->command, argc, argv);
  if (rc == CTL_GO_ON && c->checks) {
    rc = read_variables() == CTL_DONE ? CTL_GO_ON : CTL_USAGE;
  }
  rc = rc == CTL_GO_ON ? c->command->run(argv + optind) : rc;
  int finished = flush_stdout();
  return rc == CTL_DONE ? finished : rc;
}

/* libshard.so knows shardctl by this symbol, and does nothing in it: a job's script may export
 * LD_PRELOAD, and fakechroot sets it in each process. */
extern const char shard_is_shardctl;
__attribute__((visibility("default"))) const char shard_is_shardctl = 1;

/* setlocale(3) is not called: the locale is C. */
int main(int argc, char **argv) {
  prctl(PR_SET_NAME,
        "shardctl"); /* libshard.so executes a descriptor, whose number would be the name */
  if (argc > 1 && strncmp(argv[1], SHARD_BUILDER_FLAG, strlen(SHARD_BUILDER_FLAG)) == 0) {
    close_descriptors_of_host();
    host_pid = (pid_t)strtol(argv[1] + strlen(SHARD_BUILDER_FLAG), NULL, 10);
    if (end_with_host() != CTL_DONE) {
      return CTL_FAILED;
    }
    umask(umask(0) | (S_IWGRP | S_IWOTH)); /* only this user may write to the cache's files */
    argv[1] = argv[0];
    argv++;
    argc--;
  }
  shard_progress_allow(host_pid == 0);
  if (argc < 2) {
    print_help(stderr);
    return CTL_USAGE;
  }
  const char *word = argv[1];
  if (strcmp(word, "run") != 0) {
    signal(SIGXFSZ, SIG_IGN); /* a write past the limit is an error like any other */
    signal(SIGCHLD, SIG_DFL); /* if the caller ignores it, a child's status would be lost */
  }
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
    print_help(stdout);
    return flush_stdout();
  }
  if (strcmp(word, "--version") == 0) {
    printf("shardctl %s\n", shard_version());
    return flush_stdout();
  }
  for (const struct ctl_entry *c = ctl_entries; c->name; c++) {
    if (strcmp(word, c->name) == 0) {
      return run_command(c, argc - 1, argv + 1);
    }
  }
  return ctl_usage("there is no command '%s'; shardctl --help lists them", word);
}
