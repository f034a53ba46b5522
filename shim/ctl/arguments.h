/* SPDX-License-Identifier: MIT */
/*
 * arguments.h - parses the command line by a command's table of options.
 *
 * All commands have -h and --help. One thread, as getopt_long(3). What returns an exit status has
 * printed a message, if that is not CTL_DONE.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/words.h"
#include "ctl/ctl.h"

/* An option. Its argument goes to `text`, and to `number` or `take`. */
struct ctl_option {
  const char *name;  /* NULL: it has a letter only */
  char letter;       /* 0: it has a name only */
  bool *flag;        /* it takes no argument, and sets this */
  const char **text; /* the argument; may be NULL */
  uint64_t *number;  /* decimal digits, or the place of a word in `words`; from `least` to `most` */
  const char *const *words;
  uint64_t least, most;
  const char *takes;                            /* what the argument has to be, for messages */
  int (*take)(const struct ctl_option *option); /* reads `optarg`; returns an exit status */
  bool needed;
};

/* Options that several commands have. A text is the argument; NULL: the option is not given. */
struct ctl_arguments {
  const char *output;
  bool json, anonymous, nul;
  const char *order, *include, *words;
  const char *rank_text, *size_text, *strategy_text, *remainder_text, *seed_text, *epoch_text;
  uint64_t rank, size, seed, epoch;
  const char *sample_text;
  uint64_t strategy, remainder, sample; /* as in base/words.h */
};
extern struct ctl_arguments ctl_args; /* of the command that runs */

#define CTL_NUMBER(word)                                                                           \
  .text = &ctl_args.word##_text, .number = &ctl_args.word, .takes = "a number"
#define CTL_WORD(word, list)                                                                       \
  .text = &ctl_args.word##_text, .number = &ctl_args.word, .words = shard_words_##list

/* clang-format off */
#define CTL_ROW_RANK      {"rank", CTL_NUMBER(rank) " from 0 on", .most = INT32_MAX}
#define CTL_ROW_SIZE      {"size", CTL_NUMBER(size) " from 1 on", .least = 1, .most = INT32_MAX}
#define CTL_ROW_STRATEGY  {"strategy", CTL_WORD(strategy, strategies), .most = SHARD_STRATEGY_HASH, \
                           .takes = "range, stride or hash"}
#define CTL_ROW_REMAINDER {"remainder", CTL_WORD(remainder, remainders), .most = SHARD_REMAINDER_REPEAT, \
                           .takes = "keep, drop or repeat"}
#define CTL_ROW_SAMPLE    {"sample", CTL_WORD(sample, samples), .most = SHARD_SAMPLE_DIRECTORY, \
                           .takes = "file, stem or directory"}
#define CTL_ROW_SEED      {"seed", CTL_NUMBER(seed), .most = UINT64_MAX}
#define CTL_ROW_EPOCH     {"epoch", CTL_NUMBER(epoch), .most = CTL_EPOCH_MOST}
#define CTL_ROW_ORDER     {"order", .text = &ctl_args.order}
#define CTL_ROW_INCLUDE   {"include", .text = &ctl_args.include}
#define CTL_ROW_WORDS     {"options", .text = &ctl_args.words}
#define CTL_ROW_UNSIGNED  {"no-sign-request", .flag = &ctl_args.anonymous}
#define CTL_ROW_JSON      {"json", .flag = &ctl_args.json}
#define CTL_ROW_OUTPUT    {"output", 'o', .text = &ctl_args.output, .needed = true}
#define CTL_ROW_NUL       {NULL, '0', .flag = &ctl_args.nul}
#define CTL_ROW_END       {NULL}
/* clang-format on */

#define CTL_EPOCH_MOST (1ULL << 62)

enum { CTL_GO_ON = -1 }; /* no exit status: the command goes on */

/*
 * Parse the command line into the variables of the options.
 *
 * argv: argv[0] is the command's name; operands begin at argv[optind] afterwards.
 * Returns CTL_GO_ON, or the exit status.
 */
int ctl_arguments_parse(const struct ctl_command *command, int argc, char **argv);

/* Check that --rank and --size are given together, and fit. Returns an exit status. */
int ctl_arguments_check_rank(void);

/* Returns the key of the shuffle that --seed and --epoch ask for; 0: none is asked for. */
uint64_t ctl_arguments_key(void);

/*
 * Check that --remainder goes with the strategy and the number of samples.
 *
 * size: ranks. n: samples of the listing `source`.
 * Returns an exit status.
 */
int ctl_arguments_check_remainder(uint32_t size, uint64_t n, const char *source);
