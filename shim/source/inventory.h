/* SPDX-License-Identifier: MIT */
/*
 * inventory.h - reads an S3 Inventory: the manifest.json, and the records of its parts, which are
 * CSV packed by gzip (shardctl only). AWS, "Amazon S3 User Guide", "Locating your inventory list".
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
  char md5[33];    /* of the object, in hexadecimal */
};

struct shard_inventory {
  char *bucket, *destination; /* the bucket that is listed; the bucket that has the parts */
  const char **keys;          /* of the parts */
  struct shard_inventory_part *parts;
  size_t count;
  struct timespec made; /* when the inventory was made */
  size_t fields; /* of a record. at_*: the index of a field; SIZE_MAX: records lack the field */
  size_t at_bucket, at_key, at_version, at_latest, at_marker;
  struct json_object *json;
};

/*
 * Parses text[length], a manifest.json. shard_inventory_free() frees *out, after an error too.
 * Errors: -EINVAL. err[size] gets the reason, to be printed after the manifest's name.
 */
int shard_inventory_parse(const char *text, size_t length, struct shard_inventory *out, char *err,
                          size_t size);

/* Frees what an inventory holds; the inventory is then all zeros. */
void shard_inventory_free(struct shard_inventory *inventory);

/*
 * Parses line[length], a record, which is changed in place.
 * key, key_length: get the key, decoded, a part of `line`.
 * Returns 1 for a key of the bucket; 0 for an older version or a delete marker.
 * Errors: -EINVAL; *why gets the reason, a static text.
 */
int shard_inventory_record(const struct shard_inventory *inventory, char *line, size_t length,
                           char **key, size_t *key_length, const char **why);

/*
 * Opens a part of an inventory: in the folder of the manifest `file`, or in ../data/ from there,
 * where `aws s3 sync` may have put the part.
 * Returns a descriptor with O_CLOEXEC.
 * Errors: -ENOENT.
 */
int shard_inventory_open(const char *file, const struct shard_inventory_part *part, char *err,
                         size_t size);

/*
 * Compares the size and the MD5 of a file with the manifest's. The offset of fd stays.
 * file: the name in messages.
 * md5: in hexadecimal.
 * Errors: -EBADMSG, size or MD5 differ; -EIO, the file cannot be read, or OpenSSL has no MD5.
 */
int shard_inventory_check(int fd, const char *file, const char *md5, uint64_t bytes, char *err,
                          size_t size);
