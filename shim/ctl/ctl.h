/* SPDX-License-Identifier: MIT */
/*
 * ctl.h - shardctl's commands. Exit codes: 0 done, 1 failed, 2 wrong usage; run: the command's,
 * 126 it cannot be executed, 127 it was not found.
 * Results go to stdout, everything else to stderr.
 */
#ifndef SHARD_CTL_CTL_H
#define SHARD_CTL_CTL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config/config.h"

enum { CTL_DONE = 0, CTL_FAILED = 1, CTL_USAGE = 2, CTL_CANNOT = 126, CTL_NOT_FOUND = 127 };

int ctl_cache(int argc, char **argv);
int ctl_doctor(int argc, char **argv);
int ctl_get(int argc, char **argv);
int ctl_index(int argc, char **argv);
int ctl_ls(int argc, char **argv);
int ctl_manifest(int argc, char **argv);
int ctl_run(int argc, char **argv);
int ctl_plan(int argc, char **argv);
int ctl_stat(int argc, char **argv);
int ctl_stats(int argc, char **argv);
int ctl_stream(int argc, char **argv);
int ctl_verify(int argc, char **argv);

/* "shardctl: ..." and a newline to stderr; returns CTL_FAILED or CTL_USAGE as named. */
__attribute__((format(printf, 1, 2))) int ctl_fail(const char *format, ...);
__attribute__((format(printf, 1, 2))) int ctl_usage(const char *format, ...);

/* A JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void ctl_json_string(FILE *out, const char *text);

/* What options take; false if text is nothing of the kind. */
#define CTL_EPOCH_MOST (1ULL << 62)
bool ctl_number(const char *text, uint64_t most, uint64_t *out);
bool ctl_strategy(const char *text, enum shard_strategy *out);

/* What shard_size_parse() takes. */
#define CTL_SIZE_HELP                                                                              \
  "SIZE is bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB (powers of 1024), or with\n"   \
  "KB, MB, GB, TB (powers of 1000). Sizes are printed in powers of 1000.\n"

/* For people: "430 GB", "4.7 MB"; "3 h". In buf, which is returned. */
#define CTL_HUMAN 32
const char *ctl_human_bytes(double bytes, char buf[CTL_HUMAN]);
const char *ctl_human_age(double seconds, char buf[CTL_HUMAN]);
const char *ctl_human_count(uint64_t count, char buf[CTL_HUMAN]); /* "7,646,857" */

/* Text for people: control characters and backslashes as \xHH, so one line stays one line. */
void ctl_text(FILE *out, const char *text);

/* Canonical path of the libshard.so that belongs to this shardctl, whose own path goes to `self`;
 * false and path "" if there is none. */
bool ctl_find_library(char self[PATH_MAX], char path[PATH_MAX]);

/* Flush stdout; CTL_FAILED with a message if it could not be written. */
int ctl_finish(void);

/* Open a listing and check every block of it. 0, or as shard_listing_open() and _verify(). */
struct shard_listing;
int ctl_listing_open(const char *file, struct shard_listing **out);

/* Memory, temporary folder and progress as the variables say. */
struct shard_build_means;
void ctl_build_means(struct shard_build_means *means);

#endif
