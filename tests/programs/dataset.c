/* SPDX-License-Identifier: MIT */
/*
 * dataset DIR OPTIONS: the names of shard_dataset_open(), by a program that links libshard.so and
 * does not preload it. Each followed by NUL. On failure its message, and exit status 1.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libshard.h"

int main(int argc, char **argv) {
  static struct shard_cursor cursor;
  static char buffer[65536];
  struct shard_listing *listing;
  char err[700] = "no message";
  const char *name;
  if (argc != 3) {
    fprintf(stderr, "usage: dataset DIR OPTIONS\n");
    return 2;
  }
  setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
  (void)!access("/begin", F_OK); /* for traces */
  errno = 0;
  int rc = shard_dataset_open(argv[1], argv[2], &listing, err, sizeof(err));
  if (errno != 0) {
    fprintf(stderr, "errno was changed to %d\n", errno);
    return 1;
  }
  if (rc != 0) {
    fprintf(stderr, "%d: %s\n", rc, err);
    return 1;
  }
  rc = shard_listing_seek(&cursor, listing, 0);
  while (rc == 0 && shard_listing_next(&cursor, &name) > 0) {
    fwrite(name, 1, strlen(name) + 1, stdout);
  }
  shard_listing_close(listing);
  return rc != 0;
}
