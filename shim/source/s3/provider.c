/* SPDX-License-Identifier: MIT */
/*
 * provider.c - Google Cloud Storage's XML API with HMAC keys:
 *
 *   - knows x-goog- headers only in requests that have no x-amz- ones, and are signed its own way
 *     (https://cloud.google.com/storage/docs/aws-simple-migration,
 *     https://cloud.google.com/storage/docs/authentication/signatures);
 *   - lists as S3 does: list-type=2, start-after, encoding-type=url
 *     (https://cloud.google.com/storage/docs/xml-api/get-bucket-list).
 *
 * Amazon has a host for each region, and sends who asks at the wrong one to the right one
 * (https://docs.aws.amazon.com/AmazonS3/latest/userguide/Redirects.html).
 */
#include "source/s3/provider.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* What Amazon's servers and those made after them have in common. */
#define S3_ITSELF                                                                                  \
  .service = "s3", .scheme = SHARD_SIGV4_AWS, .content = "x-amz-content-sha256",                   \
  .date = "x-amz-date", .token = "x-amz-security-token", .bucket_region = "x-amz-bucket-region",   \
  .payer = "x-amz-request-payer", .owner = "x-amz-expected-bucket-owner",                          \
  .encrypted = {{"x-amz-server-side-encryption", "AES256"},                                        \
                {"x-amz-server-side-encryption-customer-algorithm", NULL}}

static const struct shard_s3_provider providers[] = {
    {.name = "Google Cloud Storage",
     .domains = {".googleapis.com"},
     .service = "storage",
     .region = "auto",
     .scheme = {"GOOG4-HMAC-SHA256", "GOOG4", "goog4_request"},
     .content = "x-goog-content-sha256",
     .date = "x-goog-date",
     .encrypted = {{"x-goog-encryption-algorithm", NULL},
                   {"x-goog-encryption-kms-key-name", NULL}}},
    {.name = "Amazon S3",
     .domains = {".amazonaws.com", ".amazonaws.com.cn"},
     .homes = {{"cn-", "s3.%s.amazonaws.com.cn"}, {"", "s3.%s.amazonaws.com"}},
     S3_ITSELF},
    {.name = "S3", S3_ITSELF},
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Whether the first n bytes of a host are one of the row's. */
static bool owns_host(const struct shard_s3_provider *p, const char *host, size_t n) {
  for (size_t i = 0; i < COUNT(p->domains); i++) {
    size_t k = p->domains[i] ? strlen(p->domains[i]) : 0;
    if (k > 0 && n > k && strncasecmp(host + n - k, p->domains[i], k) == 0) {
      return true;
    }
  }
  return false;
}

const struct shard_s3_provider *shard_s3_provider_of(const char *host) {
  const struct shard_s3_provider *p = providers;
  while (p->domains[0] && !owns_host(p, host, strcspn(host, ":"))) {
    p++;
  }
  return p;
}

const struct shard_s3_provider *shard_s3_provider_home(void) {
  const struct shard_s3_provider *p = providers;
  while (!p->homes[0].host) {
    p++;
  }
  return p;
}

void shard_s3_provider_host(const struct shard_s3_provider *provider, const char *region,
                            char *host, size_t size) {
  for (size_t i = 0; i < COUNT(provider->homes); i++) {
    const char *begin = provider->homes[i].region, *form = provider->homes[i].host;
    if (begin && strncmp(region, begin, strlen(begin)) == 0) {
      size_t before = strcspn(form, "%");
      snprintf(host, size, "%.*s%s%s", (int)before, form, region, form + before + strlen("%s"));
      return;
    }
  }
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool shard_s3_head_value(const char *line, size_t length, const char *name, char *value,
                         size_t size) {
  size_t begin = strlen(name);
  if (length <= begin || line[begin] != ':' || strncasecmp(line, name, begin) != 0) {
    return false;
  }
  begin++;
  while (begin < length && is_blank(line[begin])) {
    begin++;
  }
  while (length > begin && is_blank(line[length - 1])) {
    length--;
  }
  size_t n = length - begin < size ? length - begin : 0;
  memcpy(value, line + begin, n);
  value[n] = 0;
  return true;
}

enum shard_s3_fact shard_s3_provider_read(const char *line, size_t length, char *value,
                                          size_t size) {
  for (size_t i = 0; i < COUNT(providers); i++) {
    const struct shard_s3_provider *p = &providers[i];
    if (p->bucket_region && shard_s3_head_value(line, length, p->bucket_region, value, size)) {
      return SHARD_S3_REGION;
    }
    for (size_t k = 0; k < COUNT(p->encrypted); k++) {
      const char *name = p->encrypted[k].name, *plain = p->encrypted[k].plain;
      if (name && shard_s3_head_value(line, length, name, value, size)) {
        return plain && strcmp(value, plain) == 0 ? SHARD_S3_NO_FACT : SHARD_S3_ENCRYPTED;
      }
    }
  }
  return SHARD_S3_NO_FACT;
}
