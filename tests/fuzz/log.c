/* SPDX-License-Identifier: MIT */
/* A log of SHARD_STATS, as `shardctl stats` counts it. */
#include "command.h"

static void fuzz(const char *data, size_t size) {
  char log[256], target[128];
  snprintf(log, sizeof(log), "%s", fuzz_file("stats.json.log", data, size));
  snprintf(target, sizeof(target), "%s/counted.json", fuzz_folder());
  char *argv[] = {"stats", "-o", target, log, NULL};
  int rc = run_command(&ctl_cmd_stats, 4, argv);
  RULE(rc == CTL_DONE || access(target, F_OK) != 0);
  fuzz_remove("counted.json");
  fuzz_remove("stats.json.log");
}
