/* SPDX-License-Identifier: MIT */
/*
 * arguments.h - the command line: what several commands take is parsed here, the same for all.
 *
 * A command has a table of struct option with ROWs of this file, and of its own, whose codes begin
 * at CTL_OPTION_OWN. -h and --help print its usage. Not thread-safe, as getopt_long() is not.
 */
#ifndef SHARD_CTL_ARGUMENTS_H
#define SHARD_CTL_ARGUMENTS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/words.h"

enum {
  CTL_OPTION_RANK = 256,
  CTL_OPTION_SIZE,
  CTL_OPTION_STRATEGY,
  CTL_OPTION_SEED,
  CTL_OPTION_EPOCH,
  CTL_OPTION_ORDER,
  CTL_OPTION_INCLUDE,
  CTL_OPTION_WORDS,
  CTL_OPTION_AFTER,
  CTL_OPTION_BEFORE,
  CTL_OPTION_UNSIGNED,
  CTL_OPTION_TMPDIR,
  CTL_OPTION_JSON,
  CTL_OPTION_OWN
};

/* clang-format off */
#define CTL_ROW_RANK      {"rank", required_argument, NULL, CTL_OPTION_RANK}
#define CTL_ROW_SIZE      {"size", required_argument, NULL, CTL_OPTION_SIZE}
#define CTL_ROW_STRATEGY  {"strategy", required_argument, NULL, CTL_OPTION_STRATEGY}
#define CTL_ROW_SEED      {"seed", required_argument, NULL, CTL_OPTION_SEED}
#define CTL_ROW_EPOCH     {"epoch", required_argument, NULL, CTL_OPTION_EPOCH}
#define CTL_ROW_ORDER     {"order", required_argument, NULL, CTL_OPTION_ORDER}
#define CTL_ROW_INCLUDE   {"include", required_argument, NULL, CTL_OPTION_INCLUDE}
#define CTL_ROW_WORDS     {"options", required_argument, NULL, CTL_OPTION_WORDS}
#define CTL_ROW_AFTER     {"start-after", required_argument, NULL, CTL_OPTION_AFTER}
#define CTL_ROW_BEFORE    {"end-before", required_argument, NULL, CTL_OPTION_BEFORE}
#define CTL_ROW_UNSIGNED  {"no-sign-request", no_argument, NULL, CTL_OPTION_UNSIGNED}
#define CTL_ROW_TMPDIR    {"tmpdir", required_argument, NULL, CTL_OPTION_TMPDIR}
#define CTL_ROW_JSON      {"json", no_argument, NULL, CTL_OPTION_JSON}
#define CTL_ROW_OUTPUT    {"output", required_argument, NULL, 'o'}
#define CTL_ROW_HELP      {"help", no_argument, NULL, 'h'}
#define CTL_ROW_END       {NULL, 0, NULL, 0}
/* clang-format on */

#define CTL_EPOCH_MOST (1ULL << 62)

/* Sizes, as base/size.h parses them. */
#define CTL_SIZE_HELP                                                                              \
  "SIZE is bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB (powers of 1024), or with\n"   \
  "KB, MB, GB, TB (powers of 1000). Sizes are printed in powers of 1000.\n"

/* How a command's line is to be parsed. */
struct ctl_syntax {
  const char *letters; /* as of getopt(3), without h, which all have */
  const struct option *rows;
  const char *usage;
  uint64_t size_most; /* of --size; 0: what a rank may be */
  bool no_hash;       /* --strategy takes range and stride only */
  bool auto_epoch;    /* --epoch takes auto, too */
  /*
   * An option of the command's own, with `optarg`: CTL_DONE, or another status after a message.
   * NULL: it has none.
   */
  int (*own)(void *context, int option);
};

/* What was given. A text is the argument, and NULL without the option. */
struct ctl_arguments {
  const char *output;
  int separator; /* '\n', or 0 by -0 */
  bool json, anonymous;
  const char *start_after, *end_before, *order, *include, *words, *tmpdir;
  const char *rank_text, *size_text, *strategy_text, *seed_text, *epoch_text;
  uint64_t rank, size, seed, epoch;
  enum shard_strategy strategy;
  bool shuffle; /* --seed or --epoch was given */
};

/* What ctl_arguments_parse() returns when the command is to go on, and is no exit status. */
enum { CTL_GO_ON = -1 };

/*
 * Parse the line; operands begin at argv[optind]. CTL_GO_ON, or the exit status: after --help, or
 * after a message.
 */
int ctl_arguments_parse(int argc, char **argv, const struct ctl_syntax *syntax,
                        struct ctl_arguments *out, void *context);

/* --rank and --size are both there or not, and fit. CTL_DONE, or CTL_USAGE after a message. */
int ctl_arguments_check_rank(const struct ctl_arguments *o);

/* Decimal digits, at most `most`; false if text is anything else. */
bool ctl_arguments_number(const char *text, uint64_t most, uint64_t *out);

#endif
