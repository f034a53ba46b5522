/* SPDX-License-Identifier: MIT */
#include "ctl/s3.h"

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
#include "source/s3/client.h"
#include "source/s3/prefix.h"
#include "source/s3/s3.h"

static int load_account(bool anonymous, struct shard_s3_account *account) {
  char err[1000] = "";
  bool good = shard_s3_client_init(err, sizeof(err)) == 0 &&
              shard_s3_account_load(account, anonymous, shard_config()->s3_addressing, err,
                                    sizeof(err)) == 0;
  return good ? CTL_DONE : ctl_fail("%s", err);
}

/* Fill in what listing a bucket needs: from the URL, the variables and AWS's files. Returns an exit
 * status; the caller frees the account in either case. */
static int prepare_listing(const char *url, struct shard_s3_account *account,
                           struct shard_s3_prefix *bucket) {
  char err[1000] = "";
  struct shard_s3_listing *l = &bucket->listing;
  if (shard_s3_url_parse(url, &l->url, err, sizeof(err)) != 0) {
    return ctl_usage("%s", err);
  }
  l->account = account;
  l->connections = shard_config()->s3_connections;
  l->timeout = shard_config()->timeout;
  l->log = shard_config()->log;
  return load_account(ctl_args.anonymous, account);
}

int ctl_s3_list(const char *url, struct ctl_s3_counts *counts, const struct shard_options *options,
                const char *file, struct shard_build_result *result) {
  char err[1000] = "";
  struct shard_options plain = *options;
  plain.attributes = plain.attributes && plain.order != SHARD_ORDER_BASENAME;
  struct shard_s3_prefix bucket = {.markers = 0};
  struct shard_s3_account account = {.sign = false};
  int done = prepare_listing(url, &account, &bucket);
  int rc = 0;
  if (done == CTL_DONE) {
    rc = shard_s3_prefix_build(&bucket, &plain, file, result, err, sizeof(err));
  }
  shard_s3_account_free(&account);
  *counts = (struct ctl_s3_counts){bucket.markers, bucket.listing.requests, bucket.listing.retries};
  if (done != CTL_DONE || rc != 0) {
    return rc != 0 ? ctl_fail("%s", err) : done;
  }
  if (counts->markers > 0) {
    ctl_note("%llu keys that end in '/' (directory markers) were left out",
             (unsigned long long)counts->markers);
  }
  if (result->entries == 0) {
    ctl_warn("there is no key to list that begins with s3://%s/%s", bucket.listing.url.bucket,
             bucket.listing.url.prefix);
  }
  return CTL_DONE;
}

char *ctl_s3_root(const char *url) {
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

int ctl_s3_check_object(const char *url) {
  struct shard_s3_url parsed;
  return parse_object(url, &parsed);
}

int ctl_s3_get(const char *url, uint64_t most, int fd, char *err, size_t size) {
  struct shard_s3_url at;
  struct shard_s3_account account = {.sign = false};
  struct shard_s3_client *client = NULL;
  int rc = -EINVAL;
  *err = 0;
  if (parse_object(url, &at) == CTL_DONE &&
      load_account(ctl_args.anonymous, &account) == CTL_DONE) {
    const struct shard_s3_client_options options = {.account = &account,
                                                    .bucket = at.bucket,
                                                    .connections = 1,
                                                    .timeout = shard_config()->timeout,
                                                    .log = shard_config()->log};
    rc = shard_s3_client_open(&options, &client, err, size);
    rc = rc ? rc : shard_s3_object_get(client, at.prefix, most, fd, err, size);
  }
  shard_s3_client_close(client);
  shard_s3_account_free(&account);
  return rc;
}
