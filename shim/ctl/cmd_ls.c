/* SPDX-License-Identifier: MIT */
/* cmd_ls.c - shardctl ls: prints the names of a listing, a directory or a bucket. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/human.h"
#include "ctl/open_listing.h"
#include "ctl/s3.h"
#include "ctl/sample_names.h"
#include "libshard.h"
#include "listing/listing.h"
#include "listing/samples.h"
#include "shard/shard.h"

static bool uri;

static const struct ctl_option rows[] = {CTL_ROW_RANK,          CTL_ROW_SIZE,     CTL_ROW_STRATEGY,
                                         CTL_ROW_REMAINDER,     CTL_ROW_SAMPLE,   CTL_ROW_SEED,
                                         CTL_ROW_EPOCH,         CTL_ROW_UNSIGNED, CTL_ROW_NUL,
                                         {"uri", .flag = &uri}, CTL_ROW_END};

/* ---- printing ----------------------------------------------------------- */

/* Printed before each name. */
static const char *prefix = "";
static size_t prefix_length;

static bool on_terminal; /* stdout is a terminal, and -0 is not given */

/* Errors of stdout are found by main(). */
static void print(const char *name, size_t length) {
  if (on_terminal) { /* a name must not control the terminal */
    ctl_human_line("%s%s", prefix, name);
    return;
  }
  fwrite_unlocked(prefix, 1, prefix_length, stdout);
  fwrite_unlocked(name, 1, length, stdout);
  putc_unlocked(ctl_args.nul ? 0 : '\n', stdout);
}

static int take(void *none, const char *name, size_t length) {
  (void)none;
  print(name, length);
  return 0;
}

/* Print the names whose hash gives them to the rank. Returns 0, or a negative errno. */
static int print_hashed(const struct shard_listing *l, const struct shard_share *share,
                        uint64_t key) {
  static struct shard_cursor c;
  const char *name;
  ssize_t n;
  int rc = shard_listing_seek(&c, l, 0);
  if (rc != 0) {
    return rc;
  }
  while ((n = shard_listing_next(&c, &name)) > 0) {
    size_t length = shard_sample_name((enum shard_sample)l->header->sample, name, (size_t)n);
    if (shard_owner_by_name(name, length, key, share->size) == share->rank) {
      print(name, (size_t)n);
    }
  }
  return (int)n;
}

/* Print the share's names, sample by sample. Returns 0, or a negative errno. */
static int print_samples(const struct shard_listing *l, const struct shard_share *share) {
  for (uint64_t k = 0; k < share->count; k++) {
    int rc =
        ctl_sample_names(l, shard_share_position(share, shard_share_place(share, k)), take, NULL);
    if (rc != 0) {
      return rc;
    }
  }
  return 0;
}

/* Print the rank's share. Returns 0, or a negative errno. */
static int print_share(const struct shard_listing *l, uint32_t size) {
  uint64_t key = ctl_arguments_key();
  struct shard_share share;
  shard_share_init(&share, (enum shard_strategy)ctl_args.strategy,
                   (enum shard_remainder)ctl_args.remainder, (uint32_t)ctl_args.rank, size,
                   shard_listing_samples(l), key);
  return ctl_args.strategy == SHARD_STRATEGY_HASH ? print_hashed(l, &share, key)
                                                  : print_samples(l, &share);
}

static int run(char **operands) {
  struct shard_listing *l = NULL;
  int rc = ctl_arguments_check_rank();
  rc = rc == CTL_DONE ? ctl_open_listing(operands[0], &l) : rc;
  if (rc != CTL_DONE) {
    return rc;
  }
  char *root = uri && l ? ctl_s3_root(l->source) : NULL;
  if (uri && !root) {
    shard_listing_close(l);
    return ctl_usage("--uri: '%s' is not of a bucket or another URL", operands[0]);
  }
  prefix = root ? root : "";
  prefix_length = strlen(prefix);
  on_terminal = !ctl_args.nul && isatty(STDOUT_FILENO);
  if (!on_terminal) { /* names are short, and many */
    static char page[256 << 10];
    setvbuf(stdout, page, _IOFBF, sizeof(page));
  }
  uint32_t size = ctl_args.size_text ? (uint32_t)ctl_args.size : 1;
  rc = ctl_arguments_check_remainder(size, shard_listing_samples(l), operands[0]);
  int fault = rc == CTL_DONE ? print_share(l, size) : 0;
  shard_listing_close(l);
  free(root);
  return rc != CTL_DONE ? rc
         : fault == 0   ? CTL_DONE
                        : ctl_fail("listing '%s' is damaged", operands[0]);
}

const struct ctl_command ctl_cmd_ls = {ctl_help_ls, rows, CTL_ONE,
                                       "one listing, directory or bucket", run};
