/* SPDX-License-Identifier: MIT */
/*
 * init.c - what happens when the library is loaded, and where to find the rest (shim/README.md is
 * the map).
 *
 *   base/       files, paths, clocks, sizes, words, hashes
 *   config/     the SHARD_ variables, the launcher's rank and job, messages
 *   host/       libc's functions behind ours, and the list of them (exports.def); where we lie; how
 *               shardctl is started
 *   listing/    the listing file: format, reader
 *   shard/      which positions belong to a rank
 *   cache/      the node's listings: found, or built by one process while the others wait
 *   stats/      the log of what a rank opens, for SHARD_STATS
 *   view/       which directories are served to this process, and which names it sees
 *   adapter/    the CPython side: recognises a benchmark that shards by itself
 *   interpose/  the wrappers of libc's calls, and this file
 *
 * shardctl alone has build/ (names into a listing), source/ (where names come from) and ctl/ (its
 * commands).
 *
 * The constructor resolves symbols, copies SHARD_ variables and, in a CPython process, registers an
 * audit hook. It starts no thread, opens no file, prints nothing and allocates nothing itself,
 * unless SHARD_STATS asks for a log (stats/stats.h).
 */
#include <unistd.h>

#include "adapter/adapter.h"
#include "config/config.h"
#include "host/real.h"
#include "interpose/dents.h"
#include "interpose/dir.h"
#include "stats/stats.h"

__attribute__((constructor)) static void shard_init(int argc, char **argv, char **environment) {
  (void)argc;
  (void)argv;
  shard_real();
  shard_dents_resolve();
  shard_dir_enable();
  shard_config_init(environment ? environment : environ);
  shard_stats_init();
  shard_adapter_init();
}
