/* SPDX-License-Identifier: MIT */
/*
 * ctl.h - what all of shardctl's commands share: exit statuses and messages.
 *
 * Results go to stdout, everything else to stderr.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "build/progress.h"

/* Exit statuses. The last two are of `run` alone: it cannot be executed; it was not found. */
enum { CTL_DONE = 0, CTL_FAILED = 1, CTL_USAGE = 2, CTL_CANNOT = 126, CTL_NOT_FOUND = 127 };

/* How many operands a command takes. ANY: the command checks; LINE: options end at the first. */
enum ctl_operands { CTL_NONE, CTL_ONE, CTL_SOME, CTL_LINE, CTL_ANY };

/* A command; its options are parsed before it is run (ctl/arguments.h). */
struct ctl_command {
  const char *help; /* the command's sections of man/shardctl.1 (scripts/help.awk) */
  const struct ctl_option *options; /* the last one has neither name nor letter */
  enum ctl_operands operands;
  const char *takes;           /* what it takes, for the message if that is not given */
  int (*run)(char **operands); /* an exit status; NULL follows the operands */
};
#define COMMAND(name, checks, operands, summary)                                                   \
  extern const struct ctl_command ctl_cmd_##name;                                                  \
  extern const char ctl_help_##name[];
#include "ctl/commands.def"
#undef COMMAND

/* All commands, in the order of --help; the last one has no name. */
struct ctl_entry {
  const char *name, *operands, *summary;
  const struct ctl_command *command;
  bool checks; /* a wrong SHARD_ variable is an error before the command runs */
};
extern const struct ctl_entry ctl_entries[];

/* Messages: lines on stderr. */
#define CTL_MARK "shardctl: "
#define ctl_fail(...) shard_progress_say(CTL_FAILED, CTL_MARK, __VA_ARGS__)
#define ctl_usage(...) shard_progress_say(CTL_USAGE, CTL_MARK, __VA_ARGS__)

/* A note; and a warning, which libshard.so passes on (host/builder.h). */
#define ctl_note(...) ((void)shard_progress_say(CTL_DONE, CTL_MARK, __VA_ARGS__))
#define ctl_warn(...) ((void)shard_progress_say(CTL_DONE, SHARD_ERROR_WARNING, __VA_ARGS__))
