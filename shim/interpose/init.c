/* SPDX-License-Identifier: MIT */
/*
 * init.c - what happens when the library is loaded. shim/README.md is the map of the rest.
 *
 * The constructor resolves symbols, notes where the library lies, copies SHARD_ variables and, in a
 * CPython process, registers an audit hook. In a Go program, which libshard cannot serve, it prints
 * a line if SHARD_DATASET is set. Else it starts no thread, opens no file, prints nothing and
 * allocates nothing itself, but for what SHARD_STATS needs (stats/stats.h), and the page of a
 * rank's processes (stats/rank_page.h).
 */
#include <stdbool.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "adapter/adapter.h"
#include "config/config.h"
#include "host/go.h"
#include "host/real.h"
#include "host/self.h"
#include "interpose/dir.h"
#include "stats/rank_page.h"
#include "stats/stats.h"
#include "view/view.h"

/* Exported by shardctl (ctl/main.c): its listings are of all names, whoever has preloaded us. */
extern const char shard_is_shardctl __attribute__((weak, visibility("default")));

/* What lists by system calls of its own has the whole dataset in each rank. */
static void warn_of_go(void) {
  const struct shard_config *config = shard_config();
  if (config->dataset && config->view != SHARD_VIEW_OFF && shard_go_is_program()) {
    shard_log(SHARD_LOG_WARN,
              "this is a Go program, which lists by system calls of its own: each rank sees all of "
              "SHARD_DATASET; give it the names that 'shardctl ls --rank R --size P' prints");
  }
}

__attribute__((constructor)) static void shard_init(int argc, char **argv, char **environment) {
  (void)argc;
  (void)argv;
  shard_self_init();
  shard_real();
  shard_dir_enable();
  /* A program that has more rights than who has started it takes no orders from his environment.
   * The loader gives it no preload of his, but /etc/ld.so.preload is the system's. */
  bool inactive = getauxval(AT_SECURE) != 0 || &shard_is_shardctl;
  shard_config_init(inactive ? NULL : environment ? environment : environ);
  if (inactive) {
    return;
  }
  /* Of two copies one serves: what one knows of the program (it is DLIO), the other would not. */
  if (shard_self_is_second()) {
    shard_config_stand_by();
    return;
  }
  warn_of_go();
  shard_rank_page_init();
  shard_view_init();
  shard_stats_init();
  shard_adapter_init();
}
