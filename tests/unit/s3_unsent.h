/* SPDX-License-Identifier: MIT */
/*
 * s3_unsent.h - what clients of S3 that have no network share. Whoever includes it defines struct
 * shard_s3_client, and the functions of source/s3/client.h that are not here.
 */
#pragma once

#include <string.h>

#include "base/hex.h"
#include "source/s3/client.h"
#include "unit.h"

static uint64_t unsent_count; /* requests that have been made */

uint64_t shard_s3_client_sent(const struct shard_s3_client *c) {
  (void)c;
  return unsent_count;
}

const char *shard_s3_client_error(const struct shard_s3_client *c) {
  (void)c;
  return "";
}

/* A field of a query, unescaped, in value[6000]; "" and NULL if there is none. */
static const char *unsent_field(const char *query, const char *name, char value[6000]) {
  size_t n = strlen(name);
  value[0] = 0;
  for (const char *at = query; at; at = strchr(at, '&'), at = at ? at + 1 : NULL) {
    if (strncmp(at, name, n) == 0 && at[n] == '=') {
      size_t k = strcspn(at + n + 1, "&");
      memcpy(value, at + n + 1, k);
      value[k] = 0;
      ssize_t length = shard_hex_unescape(value, k, true);
      assert_true(length >= 0);
      value[length] = 0;
      return value;
    }
  }
  return NULL;
}
