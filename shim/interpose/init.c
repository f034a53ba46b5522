/* SPDX-License-Identifier: MIT */
/*
 * init.c - what happens when the library is loaded, and where to find the rest.
 *
 *   config/     the SHARD_ variables, the launcher's rank, messages
 *   interpose/  libc's listing calls (dir.c has the catalogue), the functions behind them (real.c)
 *   view/       which directories are served to this process, and which names it sees
 *   shard/      which positions belong to a rank
 *   stats/      what a rank opens, for SHARD_STATS (open.c)
 *   listing/    the listing file: format, reader, writer, the node's cache
 *   source/     where names come from (shardctl only)
 *   adapter/    the CPython side: recognises a benchmark that shards by itself
 *   ctl/        shardctl
 *
 * The constructor resolves symbols, copies SHARD_ variables and, in a CPython process, registers
 * an audit hook. It starts no thread, opens no file, prints nothing and allocates nothing itself,
 * unless SHARD_STATS asks for a log (stats/stats.h).
 */
#include <unistd.h>

#include "adapter/adapter.h"
#include "config/config.h"
#include "host/real.h"
#include "interpose/guard.h"
#include "stats/stats.h"

__attribute__((constructor)) static void shard_init(int argc, char **argv, char **environment) {
  (void)argc;
  (void)argv;
  shard_real();
  shard_syscall_resolve();
  shard_dir_ready();
  shard_config_init(environment ? environment : environ);
  shard_stats_init();
  shard_adapter_init();
}
