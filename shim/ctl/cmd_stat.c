/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"
#include "libshard.h"
#include "listing/listing.h"

static const char usage[] = "Usage: shardctl stat FILE [--json]\n"
                            "\n"
                            "Prints the facts of a listing after checking every checksum and\n"
                            "the order of the names.\n";

static const struct option options[] = {
    {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

int ctl_listing_open(const char *file, struct shard_listing **out) {
  int rc = shard_listing_open(file, out);
  if (rc == 0 && (rc = shard_listing_verify(*out)) != 0) {
    shard_listing_close(*out);
  }
  return rc;
}

int ctl_stat(int argc, char **argv) {
  int json = 0, c;
  while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
    switch (c) {
    case 'j':
      json = 1;
      break;
    case 'h':
      fputs(usage, stdout);
      return ctl_finish();
    default:
      return CTL_USAGE;
    }
  }
  if (argc - optind != 1) {
    return ctl_usage("stat takes one listing; see shardctl stat --help");
  }
  const char *file = argv[optind];
  struct shard_listing *l;
  int rc = ctl_listing_open(file, &l);
  if (rc != 0) {
    return ctl_fail("cannot use listing '%s': %s", file, shard_listing_strerror(rc));
  }
  struct shard_listing_info i;
  shard_listing_info(l, &i);
  static const char *const orders[] = {"path", "basename", "keep", "directory"};
  const char *order = orders[i.order];
  double each = i.entries ? (double)i.bytes / (double)i.entries : 0;
  if (json) {
    fputs("{\"source\": ", stdout);
    ctl_json_string(stdout, i.source);
    fputs(", \"options\": ", stdout);
    ctl_json_string(stdout, i.options);
    printf(", \"entries\": %llu, \"bytes\": %llu, \"directories\": %llu, \"order\": \"%s\", "
           "\"min_depth\": %u, \"max_depth\": %u, \"longest\": %u, \"utf8\": %s, "
           "\"duplicates\": %llu, \"digest\": \"%s\"}\n",
           (unsigned long long)i.entries, (unsigned long long)i.bytes,
           (unsigned long long)i.directories, order, i.min_depth, i.max_depth, i.longest,
           i.utf8 ? "true" : "false", (unsigned long long)i.duplicates, i.digest);
  } else {
    printf("source      %s\noptions     %s\nentries     %llu\nbytes       %llu (%.2f per entry)\n"
           "directories %llu\norder       %s\nlongest     %u\ndigest      %s\n",
           i.source, i.options, (unsigned long long)i.entries, (unsigned long long)i.bytes, each,
           (unsigned long long)i.directories, order, i.longest, i.digest);
  }
  shard_listing_close(l);
  return ctl_finish();
}
