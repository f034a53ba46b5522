/* SPDX-License-Identifier: MIT */
#include "ctl/buckets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "build/build.h"
#include "config/config.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "listing/codec.h"
#include "listing/options.h"
#include "source/forms.h"
#include "source/s3/bucket.h"
#include "source/s3/client.h"
#include "source/s3/s3.h"

static int load_account(bool anonymous, struct shard_s3_account *account) {
  char err[1000] = "";
  bool good = shard_s3_client_init(err, sizeof(err)) == 0 &&
              shard_s3_account_load(account, anonymous, shard_config()->s3_addressing, err,
                                    sizeof(err)) == 0;
  return good ? CTL_DONE : ctl_fail("%s", err);
}

/*
 * What the listing of a bucket needs: from the url, the variables and the shared files. CTL_DONE,
 * or another after a message. Free the account in either case.
 */
static int prepare_listing(const char *url, const struct shard_options *options,
                           struct shard_s3_account *account, struct shard_s3_bucket *bucket) {
  char err[1000] = "";
  struct shard_s3_listing *l = &bucket->listing;
  if (shard_s3_url_parse(url, &l->url, err, sizeof(err)) != 0) {
    return ctl_usage("%s", err);
  }
  if (options->order == SHARD_ORDER_DIRECTORY) {
    return ctl_usage("--order directory is for text files, and '%s' is none", url);
  }
  if (options->depth || options->exact || options->follow || !options->hidden) {
    return ctl_usage("of --options, only order and include are for S3");
  }
  l->account = account;
  l->start_after = ctl_given.start_after;
  l->end_before = ctl_given.end_before;
  l->connections = shard_config()->s3_connections;
  l->timeout = shard_config()->timeout;
  l->log = shard_config()->log;
  return load_account(ctl_given.anonymous, account);
}

int ctl_buckets_build(const char *url, struct ctl_buckets *told,
                      const struct shard_options *options, const char *file,
                      struct shard_build_result *result) {
  char err[1000] = "";
  struct shard_options plain = *options;
  plain.attributes = plain.attributes && plain.order != SHARD_ORDER_BASENAME;
  struct shard_s3_bucket bucket = {.markers = 0};
  struct shard_s3_account account = {.sign = false};
  int done = prepare_listing(url, options, &account, &bucket);
  int rc = 0;
  if (done == CTL_DONE) {
    rc = shard_s3_bucket_build(&bucket, &plain, file, result, err, sizeof(err));
  }
  shard_s3_account_free(&account);
  *told = (struct ctl_buckets){bucket.markers, bucket.listing.requests, bucket.listing.retries};
  if (done != CTL_DONE || rc != 0) {
    return rc != 0 ? ctl_fail("%s", err) : done;
  }
  if (told->markers > 0) {
    ctl_note("%llu keys that end in '/' (directory markers) were left out",
             (unsigned long long)told->markers);
  }
  if (result->entries == 0) {
    bool part = plain.include[0] || ctl_given.start_after || ctl_given.end_before;
    ctl_warn("there is no key%s that begins with s3://%s/%s%s",
             told->markers > 0 ? " but directory markers" : "", bucket.listing.url.bucket,
             bucket.listing.url.prefix, part ? " in the part that is asked for" : "");
  }
  return CTL_DONE;
}

int ctl_buckets_source(const char *url, char **out) {
  char err[700];
  struct shard_s3_url at;
  if (shard_s3_url_parse(url, &at, err, sizeof(err)) != 0) {
    return ctl_usage("%s", err);
  }
  *out = shard_s3_bucket_name(&at);
  return *out ? CTL_DONE : ctl_fail("out of memory");
}

char *ctl_buckets_root(const char *url) {
  size_t n = shard_forms_scheme(url, strlen(url));
  const char *slash = n > 0 ? strrchr(url + n, '/') : NULL;
  return slash ? strndup(url, (size_t)(slash - url) + 1) : NULL;
}

/* ---- objects ------------------------------------------------------------ */

static int parse_object(const char *text, struct shard_s3_url *url) {
  char err[700];
  if (shard_s3_url_parse(text, url, err, sizeof(err)) != 0) {
    return ctl_usage("%s", err);
  }
  size_t n = strlen(url->prefix);
  return n > 0 && url->prefix[n - 1] != '/'
             ? CTL_DONE
             : ctl_usage("'%.300s' names no object; write s3://bucket/key", text);
}

int ctl_buckets_object(const char *url) {
  struct shard_s3_url parsed;
  return parse_object(url, &parsed);
}

struct ctl_buckets_objects {
  struct shard_s3_url at; /* the first object that was named */
  struct shard_s3_account account;
  struct shard_s3_client *client;
  unsigned connections;
};

int ctl_buckets_open(const char *url, bool anonymous, size_t count,
                     struct ctl_buckets_objects **out) {
  char err[1300] = "";
  unsigned most = shard_config()->s3_connections;
  struct ctl_buckets_objects *o = *out = calloc(1, sizeof(*o));
  if (!o) {
    ctl_fail("out of memory");
    return CTL_FAILED;
  }
  int rc = parse_object(url, &o->at);
  rc = rc == CTL_DONE ? load_account(anonymous, &o->account) : rc;
  if (rc == CTL_DONE) {
    o->connections = count < most ? (unsigned)count : most;
    const struct shard_s3_client_options options = {.account = &o->account,
                                                    .bucket = o->at.bucket,
                                                    .connections = o->connections,
                                                    .timeout = shard_config()->timeout,
                                                    .log = shard_config()->log};
    rc = shard_s3_client_open(&options, &o->client, err, sizeof(err)) == 0 ? CTL_DONE
                                                                           : ctl_fail("%s", err);
  }
  return rc;
}

void ctl_buckets_close(struct ctl_buckets_objects *o) {
  if (o) {
    shard_s3_client_close(o->client);
    shard_s3_account_free(&o->account);
    free(o);
  }
}

int ctl_buckets_fetch(const char *url, uint64_t most, int fd, char *err, size_t size) {
  struct ctl_buckets_objects *o;
  int rc = -EINVAL;
  *err = 0;
  if (ctl_buckets_open(url, ctl_given.anonymous, 1, &o) == CTL_DONE) {
    rc = shard_s3_object_get(o->client, o->at.prefix, most, fd, err, size);
  }
  ctl_buckets_close(o);
  return rc;
}

int ctl_buckets_get(const char *url, bool listing, int fd) {
  char err[1300];
  int rc = ctl_buckets_fetch(url, listing ? 0 : SHARD_MANIFEST_MOST, fd, err, sizeof(err));
  return rc == 0 ? CTL_DONE : *err ? ctl_fail("%s", err) : CTL_FAILED;
}

int ctl_buckets_put(const struct ctl_buckets_file *files, size_t count, bool only_new) {
  char err[1300] = "";
  struct ctl_buckets_objects *o;
  struct shard_s3_upload *uploads = calloc(count, sizeof(*uploads));
  if (!uploads) {
    return ctl_fail("out of memory");
  }
  int rc = ctl_buckets_open(files[0].url, false, count, &o);
  for (size_t i = 0; rc == CTL_DONE && i < count; i++) {
    uploads[i] =
        (struct shard_s3_upload){.key = files[i].url + strlen("s3://") + strlen(o->at.bucket) + 1,
                                 .file = files[i].file,
                                 .only_new = only_new};
  }
  if (rc == CTL_DONE && shard_s3_object_put(o->client, o->at.bucket, o->connections, uploads, count,
                                            err, sizeof(err)) != 0) {
    rc = ctl_fail("%s", err);
  }
  ctl_buckets_close(o);
  free(uploads);
  return rc;
}
