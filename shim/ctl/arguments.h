/* SPDX-License-Identifier: MIT */
/*
 * arguments.h - the command line: each command has a table of its options, which is parsed here.
 *
 * All commands have -h and --help. Not thread-safe, as getopt_long() is not.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/words.h"
#include "ctl/ctl.h"

/* An option, and where its argument goes: to `text`, and to one of what follows. */
struct ctl_option {
  const char *name;  /* NULL: it has a letter only */
  char letter;       /* 0: it has a name only */
  bool *flag;        /* it takes no argument, and sets this */
  const char **text; /* the argument; may be NULL */
  uint64_t *number;  /* decimal digits */
  uint64_t least, most;
  const char *takes;                        /* what a number or a size is to be, for messages */
  int (*take)(const struct ctl_option *of); /* takes `optarg`: CTL_DONE, or as ctl_usage() */
  bool needed;
};

/* What several commands take. A text is the argument, and NULL without the option. */
struct ctl_arguments {
  const char *output;
  bool json, anonymous, nul;
  const char *start_after, *end_before, *order, *include, *words;
  const char *rank_text, *size_text, *strategy_text, *remainder_text, *seed_text, *epoch_text;
  uint64_t rank, size, seed, epoch;
  enum shard_strategy strategy;
  enum shard_remainder remainder;
  const char *sample_text;
  enum shard_sample sample;
};
extern struct ctl_arguments ctl_given; /* of the command that runs */

#define CTL_NUMBER(word)                                                                           \
  .text = &ctl_given.word##_text, .number = &ctl_given.word, .takes = "a number"

/* clang-format off */
#define CTL_ROW_RANK      {"rank", CTL_NUMBER(rank) " from 0 on", .most = INT32_MAX}
#define CTL_ROW_SIZE      {"size", CTL_NUMBER(size) " from 1 on", .least = 1, .most = INT32_MAX}
#define CTL_ROW_STRATEGY  {"strategy", .text = &ctl_given.strategy_text, .take = ctl_arguments_strategy, \
                           .most = SHARD_STRATEGY_HASH, .takes = "range, stride or hash"}
#define CTL_ROW_REMAINDER {"remainder", .text = &ctl_given.remainder_text, .take = ctl_arguments_remainder, \
                           .takes = "keep, drop or repeat"}
#define CTL_ROW_SAMPLE    {"sample", .text = &ctl_given.sample_text, .take = ctl_arguments_sample, \
                           .takes = "file, stem or directory"}
#define CTL_ROW_SEED      {"seed", CTL_NUMBER(seed), .most = UINT64_MAX}
#define CTL_ROW_EPOCH     {"epoch", CTL_NUMBER(epoch), .most = CTL_EPOCH_MOST}
#define CTL_ROW_ORDER     {"order", .text = &ctl_given.order}
#define CTL_ROW_INCLUDE   {"include", .text = &ctl_given.include}
#define CTL_ROW_WORDS     {"options", .text = &ctl_given.words}
#define CTL_ROW_AFTER     {"start-after", .text = &ctl_given.start_after}
#define CTL_ROW_BEFORE    {"end-before", .text = &ctl_given.end_before}
#define CTL_ROW_UNSIGNED  {"no-sign-request", .flag = &ctl_given.anonymous}
#define CTL_ROW_JSON      {"json", .flag = &ctl_given.json}
#define CTL_ROW_OUTPUT    {"output", 'o', .text = &ctl_given.output, .needed = true}
#define CTL_ROW_NUL       {NULL, '0', .flag = &ctl_given.nul}
#define CTL_ROW_END       {NULL}
/* clang-format on */

#define CTL_EPOCH_MOST (1ULL << 62)

/* What ctl_arguments_parse() returns when the command is to go on, and is no exit status. */
enum { CTL_GO_ON = -1 };

/*
 * Parse the line; operands begin at argv[optind]. CTL_GO_ON, or the exit status: after --help, or
 * after a message.
 */
int ctl_arguments_parse(const struct ctl_command *command, int argc, char **argv);

/* --rank and --size are both there or not, and fit. CTL_DONE, or CTL_USAGE after a message. */
int ctl_arguments_check_rank(void);

/* The key of the shuffle that --seed and --epoch ask for; 0: they were not given. */
uint64_t ctl_arguments_key(void);

/* A strategy's word, up to that which is of->most. */
int ctl_arguments_strategy(const struct ctl_option *of);

int ctl_arguments_remainder(const struct ctl_option *of);
int ctl_arguments_sample(const struct ctl_option *of);

/* Whether --remainder goes with the strategy, and with n names of `source`. CTL_DONE, or after a
 * message. */
int ctl_arguments_check_remainder(uint32_t size, uint64_t n, const char *source);

/* Say what the option takes. */
int ctl_arguments_refuse(const struct ctl_option *of);
