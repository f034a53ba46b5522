/* SPDX-License-Identifier: MIT */
#include "ctl/arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

bool ctl_arguments_number(const char *text, uint64_t most, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 10);
  return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *out <= most;
}

static int set_rank(const struct ctl_syntax *syntax, struct ctl_arguments *o, int option) {
  uint64_t most = syntax->size_most ? syntax->size_most : INT32_MAX;
  if (option == CTL_OPTION_RANK) {
    o->rank_text = optarg;
    return ctl_arguments_number(optarg, INT32_MAX, &o->rank)
               ? CTL_DONE
               : ctl_usage("--rank takes a number from 0 on, not '%s'", optarg);
  }
  o->size_text = optarg;
  if (ctl_arguments_number(optarg, most, &o->size) && o->size >= 1) {
    return CTL_DONE;
  }
  return syntax->size_most ? ctl_usage("--size takes a number from 1 to %llu, not '%s'",
                                       (unsigned long long)most, optarg)
                           : ctl_usage("--size takes a number from 1 on, not '%s'", optarg);
}

static int set_strategy(const struct ctl_syntax *syntax, struct ctl_arguments *o) {
  o->strategy_text = optarg;
  int place = shard_words_find(shard_words_strategies, optarg);
  if (place >= 0 && !(syntax->no_hash && place == SHARD_STRATEGY_HASH)) {
    o->strategy = (enum shard_strategy)place;
    return CTL_DONE;
  }
  return ctl_usage(syntax->no_hash ? "--strategy takes range or stride, not '%s'"
                                   : "--strategy takes range, stride or hash, not '%s'",
                   optarg);
}

static int set_shuffle(const struct ctl_syntax *syntax, struct ctl_arguments *o, int option) {
  bool seed = option == CTL_OPTION_SEED;
  o->shuffle = true;
  *(seed ? &o->seed_text : &o->epoch_text) = optarg;
  if (!seed && syntax->auto_epoch && strcmp(optarg, "auto") == 0) {
    return CTL_DONE;
  }
  if (seed ? ctl_arguments_number(optarg, UINT64_MAX, &o->seed)
           : ctl_arguments_number(optarg, CTL_EPOCH_MOST, &o->epoch)) {
    return CTL_DONE;
  }
  return ctl_usage("--%s takes a number%s, not '%s'", seed ? "seed" : "epoch",
                   !seed && syntax->auto_epoch ? " or auto" : "", optarg);
}

static int set(const struct ctl_syntax *syntax, struct ctl_arguments *o, int option,
               void *context) {
  const char **text = option == 'o'                  ? &o->output
                      : option == CTL_OPTION_ORDER   ? &o->order
                      : option == CTL_OPTION_INCLUDE ? &o->include
                      : option == CTL_OPTION_WORDS   ? &o->words
                      : option == CTL_OPTION_AFTER   ? &o->start_after
                      : option == CTL_OPTION_BEFORE  ? &o->end_before
                      : option == CTL_OPTION_TMPDIR  ? &o->tmpdir
                                                     : NULL;
  if (text) {
    *text = optarg;
    return CTL_DONE;
  }
  switch (option) {
  case '0':
    o->separator = 0;
    return CTL_DONE;
  case CTL_OPTION_JSON:
    o->json = true;
    return CTL_DONE;
  case CTL_OPTION_UNSIGNED:
    o->anonymous = true;
    return CTL_DONE;
  case CTL_OPTION_RANK:
  case CTL_OPTION_SIZE:
    return set_rank(syntax, o, option);
  case CTL_OPTION_STRATEGY:
    return set_strategy(syntax, o);
  case CTL_OPTION_SEED:
  case CTL_OPTION_EPOCH:
    return set_shuffle(syntax, o, option);
  default:
    return syntax->own ? syntax->own(context, option) : CTL_USAGE;
  }
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

int ctl_arguments_parse(int argc, char **argv, const struct ctl_syntax *syntax,
                        struct ctl_arguments *out, void *context) {
  char letters[32];
  bool stops = syntax->letters[0] == '+'; /* ':' follows it: a missing argument is told apart */
  snprintf(letters, sizeof(letters), "%s:%sh", stops ? "+" : "", syntax->letters + stops);
  opterr = 0;
  *out = (struct ctl_arguments){.separator = '\n'};
  int option, rc = CTL_DONE;
  while (rc == CTL_DONE && (option = getopt_long(argc, argv, letters, syntax->rows, NULL)) != -1) {
    if (option == 'h') {
      fputs(syntax->usage, stdout);
      return ctl_finish();
    }
    rc = option == '?' || option == ':' ? refuse(option, argv[optind - 1], syntax->rows)
                                        : set(syntax, out, option, context);
  }
  return rc == CTL_DONE ? CTL_GO_ON : rc;
}

int ctl_arguments_check_rank(const struct ctl_arguments *o) {
  bool ranked = o->rank_text, sized = o->size_text;
  return ranked == sized && (!ranked || o->rank < o->size)
             ? CTL_DONE
             : ctl_usage("--rank R and --size P go together, with R < P");
}
