/* SPDX-License-Identifier: MIT */
/*
 * manylogs DIR ROOT LISTING LOGS NOTES RANKS - logs of SHARD_STATS as a large run leaves them: each
 * rank has read its range of the listing as often as fits, an epoch after the other, by LOGS /
 * RANKS processes with NOTES notes each.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/words.h"
#include "base/xxh64.h"
#include "libshard.h"
#include "stats/log.h"

int main(int argc, char **argv) {
  static struct shard_listing *listing;
  static struct shard_cursor cursor;
  struct shard_listing_info info;
  static char bytes[SHARD_LOG_HEAD];
  if (argc != 7 || shard_listing_open(argv[3], &listing) != 0) {
    return 2;
  }
  uint64_t logs = strtoull(argv[4], NULL, 10), notes = strtoull(argv[5], NULL, 10);
  uint64_t ranks = strtoull(argv[6], NULL, 10), each = logs / ranks;
  shard_listing_info(listing, &info);
  size_t base = strlen(argv[2]), extra = strlen(info.file) + 1;
  size_t size = sizeof(struct shard_log_share) + base + extra, words = (size + 7) / 8;
  uint64_t *hashes = calloc(info.entries, sizeof(*hashes));
  struct shard_log_share *share = calloc(1, 8 * words);
  struct shard_log_note *all = calloc(words + 1 + notes, sizeof(*all));
  shard_listing_seek(&cursor, listing, 0);
  for (uint64_t i = 0; i < info.entries; i++) {
    char path[8192];
    const char *name;
    ssize_t n = shard_listing_next(&cursor, &name);
    memcpy(path, argv[2], base);
    memcpy(path + base, name, (size_t)n);
    hashes[i] = shard_xxh64(path, base + (size_t)n, 0);
  }
  for (uint64_t log = 0; log < logs; log++) {
    uint64_t rank = log / each, process = log % each;
    uint64_t begin = (uint64_t)((unsigned __int128)rank * info.entries / ranks);
    uint64_t end = (uint64_t)((unsigned __int128)(rank + 1) * info.entries / ranks);
    uint64_t own = end - begin;
    struct shard_log_head *head = (struct shard_log_head *)bytes;
    *head = (struct shard_log_head){.magic = SHARD_LOG_MAGIC,
                                    .pid = (int64_t)log + 1,
                                    .start = log + 1,
                                    .begun = 1,
                                    .ended = 2,
                                    .notes = words + 1 + notes,
                                    .shares = 1,
                                    .rank = (int)rank,
                                    .size = (int)ranks,
                                    .host = "made"};
    *share = (struct shard_log_share){.how = SHARD_LOG_ONE,
                                      .strategy = SHARD_STRATEGY_RANGE,
                                      .rank = (uint32_t)rank,
                                      .size = (uint32_t)ranks,
                                      .root_length = (uint32_t)base,
                                      .entries = info.entries,
                                      .used = info.entries};
    memcpy(share->digest, info.digest, sizeof(share->digest));
    memcpy(share->texts, argv[2], base);
    memcpy(share->texts + base, info.file, extra);
    all[0].hash = words;
    all[0].what = shard_log_what(0, 0, SHARD_LOG_SHARE);
    for (size_t i = 0; i < words; i++) {
      memcpy((void *)&all[1 + i].hash, (char *)share + 8 * i, 8);
      all[1 + i].what = shard_log_what(0, 0, SHARD_LOG_TEXT);
    }
    for (uint64_t i = 0; i < notes; i++) {
      uint64_t at = process * notes + i; /* of all opens of the rank */
      all[1 + words + i].hash = hashes[begin + at % own];
      all[1 + words + i].what = shard_log_what(at / own, 0, SHARD_LOG_OPENED);
    }
    char path[4096];
    snprintf(path, sizeof(path), "%s/made.%" PRIu64 ".%" PRIu64 ".log", argv[1], log + 1, log + 1);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    size_t length = (1 + words + notes) * sizeof(*all);
    if (fd < 0 || write(fd, bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes) ||
        write(fd, all, length) != (ssize_t)length) {
      perror(path);
      return 1;
    }
    close(fd);
  }
  return 0;
}
