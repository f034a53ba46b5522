/* SPDX-License-Identifier: MIT */
/*
 * provider.c - S3 itself, and what follows it closely; and Google Cloud Storage's XML API with HMAC
 * keys, which
 *
 *   - takes If-None-Match for reads alone, and has x-goog-if-generation-match for writes
 *     (https://cloud.google.com/storage/docs/request-preconditions);
 *   - knows x-goog- headers only in requests that have no x-amz- ones, and are signed its own way
 *     (https://cloud.google.com/storage/docs/aws-simple-migration,
 *     https://cloud.google.com/storage/docs/authentication/signatures);
 *   - lists as S3 does: list-type=2, start-after, encoding-type=url
 *     (https://cloud.google.com/storage/docs/xml-api/get-bucket-list).
 */
#include "source/s3/provider.h"

#include <string.h>
#include <strings.h>

/* clang-format off */
static const struct shard_s3_provider providers[] = {
    {"Google Cloud Storage", ".googleapis.com", "storage", "auto",
     {"GOOG4-HMAC-SHA256", "GOOG4", "goog4_request"},
     "x-goog-content-sha256", "x-goog-date", NULL, "x-goog-meta-sha256",
     {"x-goog-if-generation-match", "0"}},
    {"S3", NULL, "s3", NULL,
     SHARD_SIGV4_AWS,
     "x-amz-content-sha256", "x-amz-date", "x-amz-security-token", "x-amz-meta-sha256",
     {"if-none-match", "*"}},
};
/* clang-format on */

const struct shard_s3_provider *shard_s3_provider_of(const char *host) {
  const struct shard_s3_provider *p = providers;
  size_t n = strcspn(host, ":");
  for (; p->domain; p++) {
    size_t k = strlen(p->domain);
    if (n > k && strncasecmp(host + n - k, p->domain, k) == 0) {
      break;
    }
  }
  return p;
}
