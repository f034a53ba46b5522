/* SPDX-License-Identifier: MIT */
#include "source/s3/sigv4.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"

#define HASH_SIZE 32

void shard_sigv4_date(time_t when, char date[SHARD_SIGV4_DATE]) {
  struct tm tm;
  gmtime_r(&when, &tm);
  if (strftime(date, SHARD_SIGV4_DATE, "%Y%m%dT%H%M%SZ", &tm) == 0) {
    date[0] = 0; /* the year 10000 */
  }
}

bool shard_sigv4_hash(const void *data, size_t size, char hex[SHARD_SIGV4_HASH]) {
  unsigned char hash[HASH_SIZE];
  if (EVP_Digest(data, size, hash, NULL, EVP_sha256(), NULL) != 1) {
    return false;
  }
  shard_hex_print(hex, hash, HASH_SIZE);
  return true;
}

static bool compute_hmac(const void *key, size_t size, const char *text,
                         unsigned char out[HASH_SIZE]) {
  unsigned int n = 0;
  return HMAC(EVP_sha256(), key, (int)size, (const unsigned char *)text, strlen(text), out, &n) &&
         n == HASH_SIZE;
}

/* A header's value as it is signed. */
static void put_value(FILE *out, const char *value) {
  bool blank = false, begun = false;
  for (const char *p = value; *p; p++) {
    if (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r') {
      blank = begun;
      continue;
    }
    if (blank) {
      fputc(' ', out);
    }
    fputc(*p, out);
    blank = false;
    begun = true;
  }
}

static void put_names(FILE *out, const struct shard_sigv4_request *r) {
  for (size_t i = 0; i < r->header_count; i++) {
    fprintf(out, "%s%s", i ? ";" : "", r->headers[i].name);
  }
}

/* SHA-256 of the canonical request. */
static bool hash_request(const struct shard_sigv4_request *r, char hex[SHARD_SIGV4_HASH]) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) {
    return false;
  }
  fprintf(out, "%s\n%s\n%s\n", r->method, r->path, r->query);
  for (size_t i = 0; i < r->header_count; i++) {
    fprintf(out, "%s:", r->headers[i].name);
    put_value(out, r->headers[i].value);
    fputc('\n', out);
  }
  fputc('\n', out);
  put_names(out, r);
  fprintf(out, "\n%s", r->payload);
  bool good = fclose(out) == 0 && shard_sigv4_hash(text, size, hex);
  if (text) {
    OPENSSL_cleanse(text, size); /* a session token may stand in it */
  }
  free(text);
  return good;
}

char *shard_sigv4_sign(const struct shard_sigv4_key *key,
                       const struct shard_sigv4_request *request) {
  char hash[SHARD_SIGV4_HASH], scope[200], to_sign[400];
  if (!hash_request(request, hash)) {
    return NULL;
  }
  snprintf(scope, sizeof(scope), "%.8s/%s/%s/%s", request->date, key->region, key->service,
           key->scheme->end);
  snprintf(to_sign, sizeof(to_sign), "%s\n%s\n%s\n%s", key->scheme->algorithm, request->date, scope,
           hash);

  unsigned char chain[HASH_SIZE] = {0}, signature[HASH_SIZE] = {0};
  char day[9], *first = NULL, *value = NULL;
  snprintf(day, sizeof(day), "%.8s", request->date);
  int n = asprintf(&first, "%s%s", key->scheme->prefix, key->secret);
  if (n < 0) {
    return NULL;
  }
  bool good = compute_hmac(first, (size_t)n, day, chain) &&
              compute_hmac(chain, HASH_SIZE, key->region, signature) &&
              compute_hmac(signature, HASH_SIZE, key->service, chain) &&
              compute_hmac(chain, HASH_SIZE, key->scheme->end, signature) &&
              compute_hmac(signature, HASH_SIZE, to_sign, chain);
  shard_hex_print(hash, chain, HASH_SIZE);
  OPENSSL_cleanse(first, (size_t)n);
  OPENSSL_cleanse(signature, sizeof(signature));
  free(first);

  size_t size = 0;
  FILE *out = good ? open_memstream(&value, &size) : NULL;
  if (!out) {
    return NULL;
  }
  fprintf(out, "%s Credential=%s/%s, SignedHeaders=", key->scheme->algorithm, key->access, scope);
  put_names(out, request);
  fprintf(out, ", Signature=%s", hash);
  if (fclose(out) != 0) {
    free(value);
    return NULL;
  }
  return value;
}
