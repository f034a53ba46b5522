/* SPDX-License-Identifier: MIT */
/* completion.h - scripts by which shells complete shardctl's commands and options. */
#ifndef SHARD_CTL_COMPLETION_H
#define SHARD_CTL_COMPLETION_H

/* Print the script for bash, zsh or fish to stdout. An exit status; CTL_USAGE after a message. */
int ctl_completion_print(const char *shell);

#endif
