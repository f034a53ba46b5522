/* SPDX-License-Identifier: MIT */
/*
 * ctl.h - declares the exit statuses, the messages and the table of shardctl's commands.
 *
 * Results go to stdout, all other output to stderr.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "build/progress.h"

/* Exit statuses. Only `run` returns the last two: the program cannot be executed; is not found. */
enum { CTL_DONE = 0, CTL_FAILED = 1, CTL_USAGE = 2, CTL_CANNOT = 126, CTL_NOT_FOUND = 127 };

/*
 * The number of operands of a command: none, one, or one or more. LINE: one or more, and options
 * end at the first operand. ANY: the command checks its operands.
 */
enum ctl_operands { CTL_NONE, CTL_ONE, CTL_SOME, CTL_LINE, CTL_ANY };

/* A command. The options are parsed before the command is run (ctl/arguments.h). */
struct ctl_command {
  const char *help; /* the command's sections of man/shardctl.1 (scripts/help.awk) */
  const struct ctl_option *options; /* the last element has neither name nor letter */
  enum ctl_operands operands;
  const char *takes;           /* a description of options and operands that must be given */
  int (*run)(char **operands); /* returns an exit status; NULL follows the operands */
};
#define COMMAND(name, checks, operands, summary)                                                   \
  extern const struct ctl_command ctl_cmd_##name;                                                  \
  extern const char ctl_help_##name[];
#include "ctl/commands.def"
#undef COMMAND

/* All commands, in the order of --help. The last element has no name. */
struct ctl_entry {
  const char *name, *operands, *summary;
  const struct ctl_command *command;
  bool checks; /* a wrong SHARD_ variable is an error before the command runs */
};
extern const struct ctl_entry ctl_entries[];

/* Each prints an error on stderr. ctl_fail() returns CTL_FAILED, ctl_usage() CTL_USAGE. */
#define CTL_MARK "shardctl: "
#define ctl_fail(...) shard_progress_say(CTL_FAILED, CTL_MARK, __VA_ARGS__)
#define ctl_usage(...) shard_progress_say(CTL_USAGE, CTL_MARK, __VA_ARGS__)

/* Each prints a line on stderr: a note, or a warning, which libshard.so passes on to its host
 * (host/builder.h). */
#define ctl_note(...) ((void)shard_progress_say(CTL_DONE, CTL_MARK, __VA_ARGS__))
#define ctl_warn(...) ((void)shard_progress_say(CTL_DONE, SHARD_ERROR_WARNING, __VA_ARGS__))
