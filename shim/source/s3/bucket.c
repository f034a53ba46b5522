/* SPDX-License-Identifier: MIT */
#include "source/s3/bucket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "build/intake.h"
#include "listing/options.h"

/* Where names go. */
struct outlet {
  struct shard_s3_bucket *bucket;
  const struct shard_options *options;
  struct shard_intake *intake;
};

char *shard_s3_bucket_name(const struct shard_s3_url *url) {
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

/* " start-after=a%20b": a part of a prefix is not the prefix. Malloc'd; "" if there is no limit. */
static char *limits_text(const struct shard_s3_listing *listing) {
  const char *const limits[][2] = {{" start-after=", listing->start_after},
                                   {" end-before=", listing->end_before}};
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) {
    return NULL;
  }
  for (size_t i = 0; i < 2; i++) {
    if (limits[i][1]) {
      fputs(limits[i][0], out);
      shard_s3_url_escape(out, limits[i][1], strlen(limits[i][1]), true);
    }
  }
  if (fclose(out) != 0) {
    free(text);
    return NULL;
  }
  return text;
}

int shard_s3_bucket_build(struct shard_s3_bucket *bucket, const struct shard_options *options,
                          const char *file, struct shard_build_result *result, char *err,
                          size_t size) {
  struct outlet outlet = {.bucket = bucket, .options = options};
  char *limits = limits_text(&bucket->listing), *name = shard_s3_bucket_name(&bucket->listing.url);
  bucket->listing.key = add_key;
  bucket->listing.context = &outlet;
  int rc = -ENOMEM;
  if (limits && name) {
    const struct shard_source source = {.name = name,
                                        .more_options = limits,
                                        .twice = "the source has told it twice; it is at fault",
                                        .read = read_bucket,
                                        .context = &outlet};
    rc = shard_build(&source, options, file, result, err, size);
  } else {
    snprintf(err, size, "out of memory");
  }
  free(limits);
  free(name);
  return rc;
}
