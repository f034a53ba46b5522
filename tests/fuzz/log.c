/* SPDX-License-Identifier: MIT */
/* A log of SHARD_STATS, as `shardctl verify --html` reads it. */
#include "command.h"

static void fuzz(const char *data, size_t size) {
  char page[128], folder[64];
  fuzz_file("made.log", data, size);
  snprintf(folder, sizeof(folder), "%s", fuzz_folder());
  snprintf(page, sizeof(page), "%s/page.html", folder);
  char *argv[] = {"verify", "--html", page, folder, NULL};
  int rc = run_command(&ctl_cmd_verify, 4, argv);
  RULE(rc == CTL_DONE || rc == CTL_FAILED);
  RULE(access(page, F_OK) == 0);
  fuzz_remove("page.html");
  fuzz_remove("made.log");
}
