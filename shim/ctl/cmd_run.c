/* SPDX-License-Identifier: MIT */
/* cmd_run.c - shardctl run: executes a command with LD_PRELOAD=libshard.so. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/dataset_list.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/libshard_path.h"

static int preload(const char *path) {
  const char *old = getenv("LD_PRELOAD");
  char *value = NULL, given[PATH_MAX];
  if (ctl_libshard_path_preloaded(given) && access(given, F_OK) == 0) {
    return ctl_libshard_path_same(path, given)
               ? CTL_DONE
               : ctl_fail("LD_PRELOAD has another libshard.so, '%s'; unset it", given);
  }
  if (asprintf(&value, "%s%s%s", path, old && *old ? ":" : "", old ? old : "") < 0 ||
      setenv("LD_PRELOAD", value, 1) != 0) {
    return ctl_fail("cannot set LD_PRELOAD: %s", strerror(errno));
  }
  free(value);
  return CTL_DONE;
}

/* ---- options ------------------------------------------------------------ */

/* Make an argument of --dataset an item of SHARD_DATASET, malloc'd: a directory's path is made
 * absolute, because the command may change its directory. Returns an exit status. */
static int find_dataset(const char *given, char **out) {
  struct shard_dataset_item item;
  shard_dataset_list_next(given, &item);
  if (shard_dataset_item_is_bucket(&item) && item.path == given) {
    const char *fault = strchr(given + item.url_length, ':') ? "has a colon in its prefix, which "
                                                               "SHARD_DATASET cannot hold"
                                                             : shard_dataset_list_fault(given);
    *out = strdup(given);
    return fault  ? ctl_fail("dataset '%s' %s", given, fault)
           : *out ? CTL_DONE
                  : ctl_fail("out of memory");
  }
  *out = realpath(given, NULL);
  if (!*out) {
    return ctl_fail("cannot use dataset '%s': %s", given, strerror(errno));
  }
  if (strchr(*out, ':')) {
    return ctl_fail("dataset '%s' has a colon in its path, which SHARD_DATASET cannot hold", *out);
  }
  return CTL_DONE;
}

static char *datasets; /* all of --dataset, as SHARD_DATASET has them */

static int take_dataset(const struct ctl_option *of) {
  char *found = NULL, *longer;
  (void)of;
  int rc = find_dataset(optarg, &found);
  if (rc == CTL_DONE &&
      asprintf(&longer, "%s%s%s", datasets ? datasets : "", datasets ? ":" : "", found) < 0) {
    rc = ctl_fail("out of memory");
  }
  free(found);
  if (rc == CTL_DONE) {
    free(datasets);
    datasets = longer;
  }
  return rc;
}

static const struct ctl_option rows[] = {
    CTL_ROW_RANK,   CTL_ROW_SIZE, CTL_ROW_STRATEGY, CTL_ROW_REMAINDER,
    CTL_ROW_SAMPLE, CTL_ROW_SEED, CTL_ROW_EPOCH,    {"dataset", .take = take_dataset},
    CTL_ROW_END};

/* Set the variables that options stand for. */
static int set_variables(void) {
  const struct {
    const char *name, *value;
  } variables[] = {{"SHARD_DATASET", datasets},
                   {"SHARD_RANK", ctl_args.rank_text},
                   {"SHARD_SIZE", ctl_args.size_text},
                   {"SHARD_STRATEGY", ctl_args.strategy_text},
                   {"SHARD_REMAINDER", ctl_args.remainder_text},
                   {"SHARD_SAMPLE", ctl_args.sample_text},
                   {"SHARD_SEED", ctl_args.seed_text},
                   {"SHARD_EPOCH", ctl_args.epoch_text}};
  for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
    if (variables[i].value && setenv(variables[i].name, variables[i].value, 1) != 0) {
      return ctl_fail("out of memory");
    }
  }
  return CTL_DONE;
}

/* Execute the command under the library; returns only if that fails. */
static int execute(char **command) {
  char self[PATH_MAX], library[PATH_MAX], err[1000];
  int rc = ctl_libshard_path_find(self, library, err, sizeof(err)) ? preload(library)
                                                                   : ctl_fail("%s", err);
  if (rc != CTL_DONE) {
    return rc;
  }
  execvp(command[0], command);
  rc = errno == ENOENT || errno == ENOTDIR ? CTL_NOT_FOUND : CTL_CANNOT;
  ctl_fail("cannot execute '%s': %s", command[0], strerror(errno));
  return rc;
}

/* Ranks that are started by hand have no job in common. */
static void note_listings(void) {
  bool hash = ctl_args.strategy_text && ctl_args.strategy == SHARD_STRATEGY_HASH;
  if (ctl_args.size_text && !getenv("SHARD_DATASET")) {
    ctl_note("--rank and --size divide nothing without --dataset or SHARD_DATASET");
  } else if (ctl_args.size_text && ctl_args.size > 1 && !hash && !getenv("SHARD_JOB") &&
             !getenv("SHARD_LISTING")) {
    ctl_note("each rank that is started by hand lists the dataset: if files may be added "
             "meanwhile, set SHARD_JOB to one text for all of them, or SHARD_LISTING");
  }
}

static int run(char **operands) {
  int rc = ctl_arguments_check_rank();
  rc = rc == CTL_DONE ? set_variables() : rc;
  if (rc == CTL_DONE) {
    note_listings();
  }
  rc = rc == CTL_DONE ? execute(operands) : rc;
  free(datasets);
  return rc;
}

const struct ctl_command ctl_cmd_run = {ctl_help_run, rows, CTL_LINE, "a command", run};
