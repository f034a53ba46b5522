/* SPDX-License-Identifier: MIT */
/* What ranks wrote by SHARD_STATS, separated by NULs, as `shardctl verify --html` reads it. */
#include "command.h"

#define FILES 3

static void fuzz(const char *data, size_t size) {
  char names[FILES][16], paths[FILES][256], page[128];
  char *argv[FILES + 4] = {"verify", "--html", page};
  const char *at = data, *end = data + size;
  int count = 0;
  while (at < end && count < FILES) {
    char *text = fuzz_text(&at, end, 0);
    snprintf(names[count], sizeof(names[0]), "rank%d.json", count);
    snprintf(paths[count], sizeof(paths[0]), "%s", fuzz_file(names[count], text, strlen(text)));
    argv[3 + count] = paths[count];
    count++;
    free(text);
  }
  if (count > 0) {
    snprintf(page, sizeof(page), "%s/page.html", fuzz_folder());
    int rc = run_command(&ctl_cmd_verify, 3 + count, argv);
    RULE(rc == CTL_DONE || rc == CTL_FAILED || rc == CTL_USAGE);
    RULE(access(page, F_OK) == 0);
    fuzz_remove("page.html");
  }
  while (count > 0) {
    fuzz_remove(names[--count]);
  }
}
