/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "source/s3/s3.h"

static bool is_alnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool shard_s3_url_is(const char *text) { return strncmp(text, "s3://", 5) == 0; }

int shard_s3_url_parse(const char *text, struct shard_s3_url *url, char *err, size_t size) {
  if (!shard_s3_url_is(text)) {
    return shard_error_set(err, size, -EINVAL, "'%.300s' is not of the form s3://bucket/prefix",
                           text);
  }
  const char *bucket = text + 5;
  size_t n = strcspn(bucket, "/");
  bool good = n > 0 && n <= SHARD_S3_BUCKET_MAX;
  for (size_t i = 0; good && i < n; i++) {
    good = is_alnum(bucket[i]) || (i > 0 && strchr("._-", bucket[i]));
  }
  if (!good) {
    return shard_error_set(err, size, -EINVAL, "'%.300s' names no bucket; write s3://bucket/prefix",
                           text);
  }
  const char *prefix = bucket[n] ? bucket + n + 1 : bucket + n;
  if (strlen(prefix) > SHARD_S3_KEY_MAX) {
    return shard_error_set(err, size, -EINVAL,
                           "the prefix of '%.300s...' is longer than a key can be (%d bytes)", text,
                           SHARD_S3_KEY_MAX);
  }
  memcpy(url->bucket, bucket, n);
  url->bucket[n] = 0;
  strcpy(url->prefix, prefix);
  const char *slash = strrchr(prefix, '/');
  url->root = slash ? (size_t)(slash - prefix) + 1 : 0;
  return 0;
}

void shard_s3_url_escape(FILE *out, const char *text, size_t length, bool keep_slash) {
  for (size_t i = 0; i < length; i++) {
    char c = text[i];
    if (is_alnum(c) || c == '-' || c == '_' || c == '.' || c == '~' || (c == '/' && keep_slash)) {
      fputc(c, out);
    } else {
      fprintf(out, "%%%02X", (unsigned char)c);
    }
  }
}

int shard_s3_url_parse_endpoint(const char *text, struct shard_s3_endpoint *endpoint) {
  if (strncasecmp(text, "https://", 8) == 0) {
    endpoint->tls = true;
    text += 8;
  } else if (strncasecmp(text, "http://", 7) == 0) {
    endpoint->tls = false;
    text += 7;
  } else {
    return -EINVAL;
  }
  size_t n = strcspn(text, "/"), path = strlen(text + n);
  while (path > 0 && text[n + path - 1] == '/') {
    path--;
  }
  /* No user:password@, query or fragment. */
  if (n == 0 || n >= sizeof(endpoint->host) || path >= sizeof(endpoint->path) ||
      strpbrk(text, "@?#\\ \t\r\n")) {
    return -EINVAL;
  }
  for (size_t i = 0; i < n; i++) {
    char c = text[i];
    if (!is_alnum(c) && !strchr(".-_:[]", c)) {
      return -EINVAL;
    }
    endpoint->host[i] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  }
  endpoint->host[n] = 0;
  /* As HTTP clients write it: a scheme's own port is left out. */
  const char *usual = endpoint->tls ? ":443" : ":80";
  size_t k = strlen(usual);
  if (n > k && strcmp(endpoint->host + n - k, usual) == 0) {
    endpoint->host[n - k] = 0;
  }
  memcpy(endpoint->path, text + n, path);
  endpoint->path[path] = 0;
  return 0;
}

static bool is_address(const char *host) {
  char name[256];
  struct in_addr ignored;
  size_t n = strcspn(host, ":");
  if (host[0] == '[') {
    return true;
  }
  memcpy(name, host, n);
  name[n] = 0;
  return inet_pton(AF_INET, name, &ignored) == 1;
}

bool shard_s3_url_is_virtual(const struct shard_s3_endpoint *endpoint, const char *bucket,
                             enum shard_s3_addressing addressing) {
  if (addressing != SHARD_S3_AUTO) {
    return addressing == SHARD_S3_VIRTUAL;
  }
  size_t n = strlen(bucket);
  bool good = n >= 3 && n <= 63 && bucket[n - 1] != '-' && !is_address(bucket);
  for (size_t i = 0; good && i < n; i++) {
    char c = bucket[i];
    /* A dot would not match a certificate's wildcard. */
    good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           (c == '.' && !endpoint->tls && i > 0 && i + 1 < n);
  }
  return good && !is_address(endpoint->host);
}
