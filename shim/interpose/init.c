/* SPDX-License-Identifier: MIT */
/*
 * init.c - the constructor of libshard.so, and the map of the library: a line for each module. A
 * room calls only rooms that stand below it (shim/README.md has the table).
 *
 * interpose/ - wrappers of libc's calls (host/exports.def lists the calls)
 *   init         the constructor
 *   dir          opendir, readdir and their family; a stream for each served DIR
 *   dents        getdents64, getdirentries, syscall: reading by descriptor
 *   scandir      scandir; the wrapper to copy for a new call
 *   glob         glob, by functions of dir
 *   ftw          ftw, nftw
 *   fts          fts_open, fts_read and their family
 *   wordexp      wordexp, which fails for a pattern in a dataset
 *   open         open, fopen and the others that SHARD_STATS counts; the end of a process
 *   guard        whether a thread is inside libshard: then a wrapper passes the call on
 *   handles      a table from DIR and FTS pointers to libshard's data
 * adapter/ - CPython: DLIO's lists, clients of buckets (adapter/__init__.py is its map)
 * view/ - which directories are served, and which names a rank sees
 *   view         the way from opendir() to the first entry; the only header for wrappers
 *   datasets     SHARD_DATASET's datasets, and the rank of this process
 *   load         the listing of a dataset, opened at the first call that needs it
 *   prepare      how a directory is served, and which share is the rank's
 *   serve        the entries of a directory for the rank
 *   window       the shuffle of a stream of entries (SHARD_WINDOW)
 *   bucket_keys  the same questions for keys that a client has listed
 *   once         what a process does once, safe across threads and forks
 * stats/ - what a process opens (SHARD_STATS)
 *   stats        what is noted, and when
 *   opens        of which dataset an opened file is
 *   log          the log file of a process
 *   rank_page    the page that the processes of a rank share: epoch, listed, opened
 * cache/ - the job's listing: found, or made by shardctl (cache/cache.h is its map)
 * shard/ - which samples are whose
 *   shard        a rank's share: range, stride, hash
 *   permute      the keyed permutation of a shuffle
 * host/ - the process that libshard is loaded into
 *   real         libc's functions behind the wrappers
 *   library      where libshard.so and shardctl lie
 *   builder      starts shardctl
 *   locate       of which dataset a directory is
 *   inode        directories by device and inode
 *   go           recognises programs of Go
 * listing/ - the listing file
 *   format       the bytes of the file
 *   codec        numbers and orders that reader and writer share
 *   listing      an open listing: what is not in libshard.h
 *   reader       opening, facts and directories
 *   names        names by position, in order, and by name
 *   samples      which files are one sample
 *   options      which names a listing contains
 *   markers      which directories are tables (Delta Lake, Lance)
 *   identity     what tells a directory from itself at another time
 * config/ - what the user has set, and what launchers have
 *   config       the SHARD_ variables (variables.def)
 *   dataset_list, listing_list   SHARD_DATASET and SHARD_LISTING as lists
 *   path_template   paths with %r and %e
 *   launcher     rank and size, by a walk over the process's ancestors (launchers.def)
 *   log          messages on stderr
 * base/ - what all rooms use
 *   array, file, atomic_file, path, filesystem   arrays; files, paths, kinds of file systems
 *   kernel, clock, process   system calls past libc, clocks, /proc
 *   error, words, size, hex, utf8   error lines, words of options, numbers and texts
 *   crc32c, xxh64   checksums and hashes
 *   trust        whether only this user can have written a file
 *   workspace    memory in place of a thread's stack
 *   version      the version
 *
 * The constructor resolves symbols, notes where the library lies, copies SHARD_ variables and, in a
 * CPython process, registers an audit hook. In a Go program, which libshard cannot serve, it prints
 * a line if SHARD_DATASET is set. Else it starts no thread, opens no file, prints nothing and
 * allocates nothing itself, but for what SHARD_STATS needs (stats/stats.h), and the page of a
 * rank's processes (stats/rank_page.h).
 */
/*
 * init.c - the constructor of libshard.so. shim/README.md is the map of the rest.
 *
 * The constructor resolves symbols, notes the library's path, copies SHARD_ variables and, in a
 * CPython process, registers an audit hook. In a Go program, which libshard cannot serve, it prints
 * a line if SHARD_DATASET is set. It starts no thread, opens no file, prints nothing else and
 * allocates nothing, except for SHARD_STATS (stats/stats.h) and the page of a rank's processes
 * (stats/rank_page.h).
 */
#include <stdbool.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "adapter/adapter.h"
#include "config/config.h"
#include "host/go.h"
#include "host/library.h"
#include "host/real.h"
#include "interpose/dir.h"
#include "stats/rank_page.h"
#include "stats/stats.h"
#include "view/view.h"

/* Exported by shardctl (ctl/main.c), whose listings have all names even if libshard.so is
 * preloaded. */
extern const char shard_is_shardctl __attribute__((weak, visibility("default")));

/* Prints a warning in a Go program, whose system calls libshard cannot see. */
static void warn_of_go(void) {
  const struct shard_config *config = shard_config();
  if (config->dataset && config->view != SHARD_VIEW_OFF && shard_go_is_program()) {
    shard_log(
        SHARD_LOG_WARN,
        "this is a Go program, which lists directories without libc: each rank sees all of "
        "SHARD_DATASET; give the program the names that 'shardctl ls --rank R --size P' prints");
  }
}

__attribute__((constructor)) static void shard_init(int argc, char **argv, char **environment) {
  (void)argc;
  (void)argv;
  shard_library_init();
  shard_real();
  shard_dir_enable();
  /* A set-uid program ignores the environment. The loader drops LD_PRELOAD there, but not
   * /etc/ld.so.preload. */
  bool inactive = getauxval(AT_SECURE) != 0 || &shard_is_shardctl;
  shard_config_init(inactive ? NULL : environment ? environment : environ);
  if (inactive) {
    return;
  }
  /* Of two copies only one may serve: each has its own state, such as whether the program is DLIO.
   */
  if (shard_library_is_second_copy()) {
    shard_config_disable();
    return;
  }
  warn_of_go();
  shard_rank_page_init();
  shard_view_init();
  shard_stats_init();
  shard_adapter_init();
}
