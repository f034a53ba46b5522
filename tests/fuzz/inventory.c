/* SPDX-License-Identifier: MIT */
/* A manifest.json of an S3 Inventory, a NUL, and records of its parts. */
#include "source/inventory.h"
#include "fuzz.h"

static void take_record(const struct shard_inventory *v, char *line, size_t length) {
  char *key = NULL;
  const char *why = NULL;
  size_t n = 0;
  int rc = shard_inventory_record(v, line, length, &key, &n, &why);
  RULE(rc < 0 ? why != NULL
              : key >= line && key + n <= line + length && n > 0 && !memchr(key, 0, n));
}

static void fuzz(const char *data, size_t size) {
  const char *at = data, *end = data + size;
  char err[1000] = "", *text = fuzz_text(&at, end, 0);
  struct shard_inventory v;
  int rc = shard_inventory_parse(text, strlen(text), &v, err, sizeof(err));
  RULE(memchr(err, 0, sizeof(err)) && (rc == 0 || err[0]));
  for (size_t i = 0; rc == 0 && i < v.count; i++) {
    RULE(v.keys[i][0] && strlen(v.parts[i].md5) == 32);
  }
  while (rc == 0 && at < end) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    size_t length = newline ? (size_t)(newline - at) : (size_t)(end - at);
    char *line = malloc(length ? length : 1);
    RULE(line);
    memcpy(line, at, length);
    take_record(&v, line, length);
    free(line);
    at += length + (newline != NULL);
  }
  shard_inventory_free(&v);
  free(text);
}
