/* SPDX-License-Identifier: MIT */
#include "ctl/arguments.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "shard/shard.h"

#define OPTIONS_MOST 30
#define OPERAND 1 /* what getopt_long(3) returns for an operand */

struct ctl_arguments ctl_args = {.strategy = SHARD_STRATEGY_STRIDE};

static int refuse_argument(const struct ctl_option *of) {
  return ctl_usage("--%s takes %s, not '%s'", of->name, of->takes, optarg);
}

int ctl_arguments_check_remainder(uint32_t size, uint64_t n, const char *source) {
  if (ctl_args.remainder != SHARD_REMAINDER_KEEP && ctl_args.strategy == SHARD_STRATEGY_HASH) {
    return ctl_usage("--remainder goes with the strategies range and stride only");
  }
  return shard_share_suffices((enum shard_remainder)ctl_args.remainder, size, n)
             ? CTL_DONE
             : ctl_fail(
                   "--remainder drop: '%s' has fewer samples than ranks (%llu samples, %u ranks)",
                   source, (unsigned long long)n, (unsigned)size);
}

static int take(const struct ctl_option *o) {
  if (o->flag) {
    *o->flag = true;
    return CTL_DONE;
  }
  if (o->text) {
    *o->text = optarg;
  }
  if (o->take) {
    return o->take(o);
  }
  if (o->words) {
    int place = shard_words_find(o->words, optarg);
    *o->number = place < 0 ? 0 : (uint64_t)place;
    return place >= 0 && *o->number <= o->most ? CTL_DONE : refuse_argument(o);
  }
  if (o->number && !shard_number_parse(optarg, o->least, o->most, o->number)) {
    return refuse_argument(o);
  }
  return CTL_DONE;
}

/* Report what getopt_long(3) has found wrong; its own message would print the word unescaped. */
static int refuse(int option, const char *word) {
  return ctl_usage(option == ':' ? "option '%s' requires an argument"
                                 : "option '%s' is unknown or ambiguous, or takes no argument",
                   word);
}

/* Returns what getopt_long(3) returns for an option. */
static int code_of(const struct ctl_option *options, size_t i) {
  return options[i].letter ? options[i].letter : (int)(256 + i);
}

/* Make the tables of getopt_long(3). Returns how many options the command has. */
static size_t make_tables(const struct ctl_command *command, struct option *rows, char *letters) {
  const struct ctl_option *o = command->options;
  size_t count = 0;
  /* '-': operands are returned, too, so that options after operands are read, whatever
   * POSIXLY_CORRECT says. ':': a missing argument has a return value of its own. */
  letters += sprintf(letters, "%c:h", command->operands == CTL_LINE ? '+' : '-');
  for (; o[count].name || o[count].letter; count++) {
    int argument = o[count].flag ? no_argument : required_argument;
    if (o[count].name) {
      *rows++ = (struct option){o[count].name, argument, NULL, code_of(o, count)};
    }
    if (o[count].letter) {
      letters += sprintf(letters, "%c%s", o[count].letter, argument == no_argument ? "" : ":");
    }
  }
  *rows = (struct option){"help", no_argument, NULL, 'h'};
  return count;
}

int ctl_arguments_parse(const struct ctl_command *command, int argc, char **argv) {
  struct option rows[OPTIONS_MOST + 2] = {{NULL, 0, NULL, 0}};
  char letters[2 * OPTIONS_MOST + 8];
  const struct ctl_option *o = command->options;
  size_t count = make_tables(command, rows, letters);
  int option, rc = CTL_DONE, before = 0; /* operands before the last option */
  opterr = 0;
  while (rc == CTL_DONE && (option = getopt_long(argc, argv, letters, rows, NULL)) != -1) {
    if (option == 'h') {
      fputs(command->help, stdout);
      return CTL_DONE;
    }
    if (option == OPERAND) {
      argv[++before] = optarg; /* words that were read need no place any more */
      continue;
    }
    size_t i = 0;
    while (i < count && option != code_of(o, i)) {
      i++;
    }
    rc = i < count ? take(&o[i]) : refuse(option, argv[optind - 1]);
  }
  optind -= before;
  memmove(argv + optind, argv + 1, (size_t)before * sizeof(*argv));
  int operands = argc - optind;
  bool good = command->operands == CTL_NONE  ? operands == 0
              : command->operands == CTL_ONE ? operands == 1
                                             : operands > 0 || command->operands == CTL_ANY;
  for (size_t i = 0; i < count; i++) {
    good = good && (!o[i].needed || (o[i].text ? *o[i].text != NULL : *o[i].number > 0));
  }
  if (rc == CTL_DONE && !good) {
    return ctl_usage("%s takes %s; see shardctl %s --help", argv[0], command->takes, argv[0]);
  }
  return rc == CTL_DONE ? CTL_GO_ON : rc;
}

int ctl_arguments_check_rank(void) {
  bool ranked = ctl_args.rank_text, sized = ctl_args.size_text;
  return ranked == sized && (!ranked || ctl_args.rank < ctl_args.size)
             ? CTL_DONE
             : ctl_usage("--rank R and --size P go together, with R < P");
}

uint64_t ctl_arguments_key(void) {
  bool shuffled = ctl_args.seed_text || ctl_args.epoch_text;
  return shuffled ? shard_shuffle_key(ctl_args.seed, ctl_args.epoch) : 0;
}
