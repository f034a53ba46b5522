/* SPDX-License-Identifier: MIT */
#include "source/s3/prefix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "build/intake.h"
#include "listing/options.h"

/* Where names go. */
struct outlet {
  struct shard_s3_prefix *bucket;
  const struct shard_options *options;
  struct shard_intake *intake;
};

char *shard_s3_prefix_name(const struct shard_s3_url *url) {
  char *text;
  return asprintf(&text, "s3://%s/%s", url->bucket, url->prefix) < 0 ? NULL : text;
}

/* A key becomes a name. */
static int add_key(void *context, const char *key, size_t length) {
  struct outlet *o = context;
  if (key[length - 1] == '/') {
    o->bucket->markers++;
    return 0;
  }
  size_t root = o->bucket->listing.url.root;
  const char *name = key + root;
  length -= root;
  if (!shard_options_match_path(o->options, name, length)) {
    return 0;
  }
  return shard_intake_add(&o->intake->hands[0], name, length);
}

/* A source's read(). */
static int read_bucket(void *context, struct shard_intake *intake, char *err, size_t size) {
  struct outlet *o = context;
  o->intake = intake;
  o->bucket->markers = 0;
  return shard_s3_list_keys(&o->bucket->listing, err, size);
}

int shard_s3_prefix_build(struct shard_s3_prefix *bucket, const struct shard_options *options,
                          const char *file, struct shard_build_result *result, char *err,
                          size_t size) {
  struct outlet outlet = {.bucket = bucket, .options = options};
  char *name = shard_s3_prefix_name(&bucket->listing.url);
  bucket->listing.key = add_key;
  bucket->listing.context = &outlet;
  const struct shard_source source = {.name = name,
                                      .twice = "the source has told it twice; it is at fault",
                                      .read = read_bucket,
                                      .context = &outlet};
  int rc = name ? shard_build(&source, options, file, result, err, size)
                : shard_error_set(err, size, -ENOMEM, "out of memory");
  free(name);
  return rc;
}
