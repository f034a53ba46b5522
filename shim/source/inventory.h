/* SPDX-License-Identifier: MIT */
/*
 * inventory.h - an S3 Inventory: its manifest.json, and the records of its parts, which are CSV
 * packed by gzip (shardctl only). AWS, "Amazon S3 User Guide", "Locating your inventory list".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define SHARD_INVENTORY_MOST ((size_t)256 << 20) /* bytes of a manifest.json */

struct shard_inventory_part {
  const char *key; /* in the destination's bucket */
  uint64_t size;   /* of the object, as md5 is its checksum, in hexadecimal */
  char md5[33];
};

struct shard_inventory {
  char *bucket,
      *destination;  /* the names of the bucket that is listed, and of that with the parts */
  const char **keys; /* the parts' */
  struct shard_inventory_part *parts;
  size_t count;
  struct timespec made;
  size_t fields; /* of a record; and the place of each, `fields`: there is none */
  size_t at_bucket, at_key, at_version, at_latest, at_marker;
  struct json_object *json;
};

/* Parse a manifest.json, for shard_inventory_free(). 0, or -EINVAL or -ENOMEM and a line. */
int shard_inventory_parse(const char *text, size_t length, struct shard_inventory *out, char *err,
                          size_t size);
void shard_inventory_free(struct shard_inventory *inventory);

/*
 * Parse line[length], a record, which is changed. 1: *key and *key_length are a key's, decoded. 0:
 * of an older version or a delete marker. -EINVAL, and *why, static.
 */
int shard_inventory_record(const struct shard_inventory *inventory, char *line, size_t length,
                           char **key, size_t *key_length, const char **why);

/* Open the part `part` beside the manifest `file`, where `aws s3 sync` may have put it. A
 * descriptor, or a negative errno and a line. */
int shard_inventory_open(const char *file, const struct shard_inventory_part *part, char *err,
                         size_t size);

/* Whether fd has a checksum (MD5, hexadecimal) and a size, from its beginning, where it then is.
 * 0, -EBADMSG or another negative errno, and a line that names `file`. */
int shard_inventory_check(int fd, const char *file, const char *md5, uint64_t bytes, char *err,
                          size_t size);
