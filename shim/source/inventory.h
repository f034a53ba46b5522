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
  uint64_t size;   /* bytes of the object */
  char md5[33];    /* of the object, hexadecimal */
};

struct shard_inventory {
  char *bucket, *destination; /* the bucket that is listed, and the bucket that has the parts */
  const char **keys;          /* the parts' */
  struct shard_inventory_part *parts;
  size_t count;
  struct timespec made;
  size_t fields; /* of a record. at_*: the place of a field; `fields`: records lack this field */
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

/* Compare the size and the MD5 (hexadecimal) of all that fd has, and seek fd to its beginning.
 * 0, -EBADMSG where they differ, or another negative errno, and a line that names `file`. */
int shard_inventory_check(int fd, const char *file, const char *md5, uint64_t bytes, char *err,
                          size_t size);
