/* SPDX-License-Identifier: MIT */
#include "ctl/arguments.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "shard/shard.h"

#define OPTIONS_MOST 30
#define OPERAND 1 /* getopt's code */

struct ctl_arguments ctl_given = {.strategy = SHARD_STRATEGY_STRIDE};

int ctl_arguments_refuse(const struct ctl_option *of) {
  return ctl_usage("--%s takes %s, not '%s'", of->name, of->takes, optarg);
}

int ctl_arguments_strategy(const struct ctl_option *of) {
  int place = shard_words_find(shard_words_strategies, optarg);
  if (place < 0 || (uint64_t)place > of->most) {
    return ctl_arguments_refuse(of);
  }
  ctl_given.strategy = (enum shard_strategy)place;
  return CTL_DONE;
}

int ctl_arguments_remainder(const struct ctl_option *of) {
  int place = shard_words_find(shard_words_remainders, optarg);
  if (place < 0) {
    return ctl_arguments_refuse(of);
  }
  ctl_given.remainder = (enum shard_remainder)place;
  return CTL_DONE;
}

int ctl_arguments_sample(const struct ctl_option *of) {
  int place = shard_words_find(shard_words_samples, optarg);
  if (place < 0) {
    return ctl_arguments_refuse(of);
  }
  ctl_given.sample = (enum shard_sample)place;
  return CTL_DONE;
}

int ctl_arguments_check_remainder(uint32_t size, uint64_t n, const char *source) {
  if (ctl_given.remainder != SHARD_REMAINDER_KEEP && ctl_given.strategy == SHARD_STRATEGY_HASH) {
    return ctl_usage("--remainder goes with the strategies range and stride only");
  }
  return shard_share_suffices(ctl_given.remainder, size, n)
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
  if (o->number && !shard_number_parse(optarg, o->least, o->most, o->number)) {
    return ctl_arguments_refuse(o);
  }
  return CTL_DONE;
}

/* Print the options that a word may be short for. Returns how many they are. */
static unsigned find_meant(const char *word, const struct option *rows, char *text, size_t size) {
  unsigned count = 0;
  size_t length = strncmp(word, "--", 2) == 0 ? strcspn(word, "=") - 2 : 0, used = 0;
  for (; length > 0 && rows->name; rows++) {
    if (strncmp(rows->name, word + 2, length) == 0 && used < size) {
      used += (size_t)snprintf(text + used, size - used, "%s--%s", count++ ? ", " : "", rows->name);
    }
  }
  return count;
}

/* Say what getopt finds wrong; its own message would print the word as it is. */
static int refuse(int option, const char *word, const struct option *rows) {
  char meant[300];
  char letter[] = {'-', (char)optopt, 0};
  if (option == ':') {
    return ctl_usage("option '%s' requires an argument", word);
  }
  for (const struct option *row = rows; optopt && row->name; row++) {
    if (row->val == optopt) {
      return ctl_usage("option '%s' takes no argument", word);
    }
  }
  if (!optopt && find_meant(word, rows, meant, sizeof(meant)) > 1) {
    return ctl_usage("option '%s' is ambiguous: %s", word, meant);
  }
  return ctl_usage("unrecognized option '%s'", optopt ? letter : word);
}

/* getopt's code of an option. */
static int code_of(const struct ctl_option *options, size_t i) {
  return options[i].letter ? options[i].letter : (int)(256 + i);
}

/* Make getopt's tables. Returns how many options the command has. */
static size_t make_tables(const struct ctl_command *command, struct option *rows, char *letters) {
  const struct ctl_option *o = command->options;
  size_t count = 0;
  /* The dash: operands are given out, too, so that options are read behind them, whatever
   * POSIXLY_CORRECT says. The colon: a missing argument is told apart. */
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
      argv[++before] = optarg; /* in the place of what has been read */
      continue;
    }
    size_t i = 0;
    while (i < count && option != code_of(o, i)) {
      i++;
    }
    rc = i < count ? take(&o[i]) : refuse(option, argv[optind - 1], rows);
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
  bool ranked = ctl_given.rank_text, sized = ctl_given.size_text;
  return ranked == sized && (!ranked || ctl_given.rank < ctl_given.size)
             ? CTL_DONE
             : ctl_usage("--rank R and --size P go together, with R < P");
}

uint64_t ctl_arguments_key(void) {
  bool shuffled = ctl_given.seed_text || ctl_given.epoch_text;
  return shuffled ? shard_shuffle_key(ctl_given.seed, ctl_given.epoch) : 0;
}
