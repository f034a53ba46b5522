/* SPDX-License-Identifier: MIT */
/* command.h - for targets that run a command of shardctl's, as its main() does. */
#pragma once

#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "fuzz.h"

static int run_command(const struct ctl_command *command, int argc, char **argv) {
  memset(&ctl_args, 0, sizeof(ctl_args));
  optind = 0; /* glibc's getopt begins anew */
  int rc = ctl_arguments_parse(command, argc, argv);
  return rc == CTL_GO_ON ? command->run(argv + optind) : rc;
}
