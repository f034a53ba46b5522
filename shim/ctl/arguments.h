/* SPDX-License-Identifier: MIT */
/*
 * arguments.h - parses the command line by a command's table of options.
 *
 * All commands have -h and --help. For one thread alone, as getopt_long(3). A function that returns
 * an exit status other than CTL_DONE has printed a message.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/words.h"
#include "ctl/ctl.h"

/* An option. The option's argument goes to `text`, and to `number` or `take`. */
struct ctl_option {
  const char *name;  /* NULL: the option has only a letter */
  char letter;       /* 0: the option has only a name */
  bool *flag;        /* set by the option, which then takes no argument; or NULL */
  const char **text; /* gets the argument; or NULL */
  uint64_t *number;  /* gets a decimal number, or a word's index in `words`: `least` to `most` */
  const char *const *words;
  uint64_t least, most;
  const char *takes;                            /* a description of the argument, for messages */
  int (*take)(const struct ctl_option *option); /* reads `optarg`; returns an exit status */
  bool needed;                                  /* the command line must have the option */
};

/* Options that several commands have. A text is the option's argument; NULL: no such option. */
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

/* Fields of an option of ctl_args: a number, or a word of a list of base/words.h. */
#define CTL_NUMBER(word)                                                                           \
  .text = &ctl_args.word##_text, .number = &ctl_args.word, .takes = "a number"
#define CTL_WORD(word, list)                                                                       \
  .text = &ctl_args.word##_text, .number = &ctl_args.word, .words = shard_words_##list

/* Rows of a command's table of options. */
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

#define CTL_EPOCH_MOST (1ULL << 62) /* the largest --epoch */

enum { CTL_GO_ON = -1 }; /* the command goes on; no exit status */

/*
 * Parses the command line into the variables of the options.
 * argv: argv[0] is the command's name. Afterwards the operands begin at argv[optind].
 * Returns CTL_GO_ON; or the exit status, after --help or an error.
 */
int ctl_arguments_parse(const struct ctl_command *command, int argc, char **argv);

/* Checks that --rank and --size are given together, and rank < size. Returns an exit status. */
int ctl_arguments_check_rank(void);

/* Returns the key of the shuffle that --seed and --epoch ask for; 0 if neither is given. */
uint64_t ctl_arguments_key(void);

/*
 * Checks that --remainder fits the strategy and the number of samples.
 * size: number of ranks.
 * n: number of samples.
 * source: the listing's name, for the message.
 * Returns an exit status.
 */
int ctl_arguments_check_remainder(uint32_t size, uint64_t n, const char *source);
