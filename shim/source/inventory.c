/* SPDX-License-Identifier: MIT */
#include "source/inventory.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hex.h"
#include "base/size.h"
#include "source/forms.h"

#define FIELDS 64 /* AWS knows some 20 */

/* ---- manifest.json ---- */

/* An object's text; NULL: there is none, it is no text, or it has a NUL. */
static const char *text_of(struct json_object *o, const char *name) {
  struct json_object *value;
  bool is = json_object_object_get_ex(o, name, &value) &&
            json_object_is_type(value, json_type_string) &&
            strlen(json_object_get_string(value)) == (size_t)json_object_get_string_len(value);
  return is ? json_object_get_string(value) : NULL;
}

/* "Bucket, Key, VersionId": where the fields are. */
static bool parse_schema(const char *text, struct shard_inventory *v) {
  static const char *const names[] = {"Bucket", "Key", "VersionId", "IsLatest", "IsDeleteMarker"};
  size_t *const places[] = {&v->at_bucket, &v->at_key, &v->at_version, &v->at_latest,
                            &v->at_marker};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    *places[i] = SIZE_MAX;
  }
  for (v->fields = 0; *text; v->fields++) {
    text += strspn(text, ", ");
    size_t n = strcspn(text, ", ");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
      if (n == strlen(names[i]) && memcmp(text, names[i], n) == 0) {
        *places[i] = v->fields;
      }
    }
    text += n;
  }
  return v->at_bucket < v->fields && v->at_key < v->fields && v->fields <= FIELDS;
}

static const char *parse_parts(struct json_object *files, struct shard_inventory *v) {
  v->count = json_object_array_length(files);
  v->parts = calloc(v->count + 1, sizeof(*v->parts));
  v->keys = calloc(v->count + 1, sizeof(*v->keys));
  if (!v->parts || !v->keys) {
    return "is too large for memory";
  }
  for (size_t i = 0; i < v->count; i++) {
    struct json_object *one = json_object_array_get_idx(files, i), *size;
    const char *key = text_of(one, "key"), *md5 = text_of(one, "MD5checksum");
    if (!key || !*key || !md5 || strlen(md5) != 32 ||
        !json_object_object_get_ex(one, "size", &size) ||
        !json_object_is_type(size, json_type_int) || json_object_get_int64(size) < 0) {
      return "has a part without key, size and MD5checksum";
    }
    v->keys[i] = v->parts[i].key = key;
    v->parts[i].size = (uint64_t)json_object_get_int64(size);
    strcpy(v->parts[i].md5, md5);
  }
  return NULL;
}

/* What is wrong with it; NULL: nothing. */
static const char *parse(struct shard_inventory *v) {
  const char *bucket = text_of(v->json, "sourceBucket"),
             *to = text_of(v->json, "destinationBucket"), *format = text_of(v->json, "fileFormat"),
             *schema = text_of(v->json, "fileSchema"),
             *made = text_of(v->json, "creationTimestamp");
  struct json_object *files;
  uint64_t ms;
  if (!bucket || !to || !format || !schema ||
      !json_object_object_get_ex(v->json, "files", &files) ||
      !json_object_is_type(files, json_type_array)) {
    return "is no manifest.json of an S3 Inventory: it lacks sourceBucket, destinationBucket, "
           "fileFormat, fileSchema or files";
  }
  if (strcmp(format, "CSV") != 0) {
    return "is of an inventory in ORC or Parquet; have it made in CSV, or print the keys of its "
           "files by pyarrow (shardctl index says how, given such a file) to shardctl index - -0";
  }
  if (!made || !shard_number_parse(made, 0, INT64_MAX, &ms)) {
    return "has no creationTimestamp";
  }
  v->made = (struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
  if (!parse_schema(schema, v)) {
    return "has a fileSchema without Bucket and Key";
  }
  if (v->at_version != SIZE_MAX && v->at_latest == SIZE_MAX) {
    return "has versions (VersionId) and does not say which is the latest (IsLatest)";
  }
  const char *name = strrchr(to, ':');
  v->bucket = strdup(bucket);
  v->destination = strdup(name ? name + 1 : to);
  return v->bucket && v->destination ? parse_parts(files, v) : "is too large for memory";
}

int shard_inventory_parse(const char *text, size_t length, struct shard_inventory *v, char *err,
                          size_t size) {
  struct json_tokener *t = json_tokener_new();
  *v = (struct shard_inventory){0};
  if (!t || length > SHARD_INVENTORY_MOST) {
    json_tokener_free(t);
    return shard_error_set(err, size, -EINVAL, "is too large");
  }
  json_tokener_set_flags(t, JSON_TOKENER_STRICT);
  v->json = json_tokener_parse_ex(t, text, (int)length);
  bool whole = json_tokener_get_error(t) == json_tokener_success;
  for (size_t i = json_tokener_get_parse_end(t); i < length && whole; i++) {
    whole = strchr(" \t\r\n", text[i]) && text[i];
  }
  json_tokener_free(t);
  const char *fault = whole && json_object_is_type(v->json, json_type_object)
                          ? parse(v)
                          : "is no manifest.json of an S3 Inventory: not one object of JSON";
  return fault ? shard_error_set(err, size, -EINVAL, "%s", fault) : 0;
}

void shard_inventory_free(struct shard_inventory *v) {
  json_object_put(v->json);
  free(v->bucket);
  free(v->destination);
  free(v->parts);
  free(v->keys);
  *v = (struct shard_inventory){0};
}

/* ---- records ---- */

struct field {
  char *text;
  size_t length;
};

/* Split a row of CSV (RFC 4180), in place. The number of fields; FIELDS + 1 if it is none. */
static size_t split(char *line, size_t length, struct field *fields) {
  size_t count = 0;
  char *at = line, *end = line + length;
  if (length > 0 && end[-1] == '\r') {
    end--;
  }
  for (bool more = true; more && count < FIELDS; count++) {
    char *begin = at, *to = at;
    if (at < end && *at == '"') {
      for (at++; at < end && (*at != '"' || (at + 1 < end && at[1] == '"')); at++) {
        at += *at == '"';
        *to++ = *at;
      }
      if (at++ == end) {
        return FIELDS + 1; /* a quote is open */
      }
    } else {
      at = memchr(at, ',', (size_t)(end - at));
      at = to = at ? at : end;
    }
    more = at < end;
    if (more && *at++ != ',') {
      return FIELDS + 1;
    }
    fields[count] = (struct field){begin, (size_t)(to - begin)};
  }
  return at < end ? FIELDS + 1 : count;
}

/* 1, 0; -1: neither true nor false. */
static int truth(const struct field *f) {
  bool yes = f->length == 4 && strncasecmp(f->text, "true", 4) == 0;
  return yes ? 1 : f->length == 5 && strncasecmp(f->text, "false", 5) == 0 ? 0 : -1;
}

int shard_inventory_record(const struct shard_inventory *v, char *line, size_t length, char **key,
                           size_t *key_length, const char **why) {
  struct field fields[FIELDS];
  int latest = 1, marker = 0;
  if (split(line, length, fields) != v->fields) {
    *why = "it does not have the fields of the manifest's fileSchema";
    return -EINVAL;
  }
  const struct field *bucket = &fields[v->at_bucket], *name = &fields[v->at_key];
  if (bucket->length != strlen(v->bucket) || memcmp(bucket->text, v->bucket, bucket->length) != 0) {
    *why = "it is of another bucket than the manifest's sourceBucket";
    return -EINVAL;
  }
  latest = v->at_latest == SIZE_MAX ? 1 : truth(&fields[v->at_latest]);
  marker = v->at_marker == SIZE_MAX ? 0 : truth(&fields[v->at_marker]);
  ssize_t n = shard_forms_decode(name->text, name->length, true);
  if (latest < 0 || marker < 0 || n <= 0 || memchr(name->text, 0, (size_t)n)) {
    *why = n <= 0 || (latest >= 0 && marker >= 0)
               ? "its key is not URL-encoded"
               : "IsLatest or IsDeleteMarker is not true or false";
    return -EINVAL;
  }
  *key = name->text;
  *key_length = (size_t)n;
  return latest && !marker;
}

/* ---- parts ---- */

int shard_inventory_open(const char *file, const struct shard_inventory_part *part, char *err,
                         size_t size) {
  static const char *const below[] = {"", "../data/"};
  const char *slash = strrchr(file, '/'), *name = strrchr(part->key, '/');
  int folder = slash ? (int)(slash + 1 - file) : 0, fd = -1;
  name = name ? name + 1 : part->key;
  for (size_t i = 0; i < sizeof(below) / sizeof(below[0]) && fd < 0; i++) {
    char path[2 * PATH_MAX];
    snprintf(path, sizeof(path), "%.*s%s%s", folder, file, below[i], name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
  }
  return fd >= 0 ? fd
                 : shard_error_set(err, size, -ENOENT,
                                   "cannot find the part '%.300s' beside '%.300s' or in ../data/",
                                   part->key, file);
}

int shard_inventory_check(int fd, const char *file, const char *md5, uint64_t bytes, char *err,
                          size_t size) {
  uint8_t sum[EVP_MAX_MD_SIZE], buffer[32 << 10];
  char text[2 * EVP_MAX_MD_SIZE + 1];
  uint64_t all = 0;
  ssize_t n = 0;
  EVP_MD_CTX *digest = EVP_MD_CTX_new();
  bool good = digest && EVP_DigestInit_ex(digest, EVP_md5(), NULL);
  while (good && (n = pread(fd, buffer, sizeof(buffer), (off_t)all)) > 0) {
    good = EVP_DigestUpdate(digest, buffer, (size_t)n);
    all += (uint64_t)n;
  }
  good = good && n == 0 && EVP_DigestFinal_ex(digest, sum, NULL);
  EVP_MD_CTX_free(digest);
  if (!good) {
    return shard_error_set(err, size, -EIO, "cannot read '%.300s' for its checksum (MD5)", file);
  }
  shard_hex_print(text, sum, 16);
  return all == bytes && strcasecmp(text, md5) == 0
             ? 0
             : shard_error_set(err, size, -EBADMSG,
                               "'%.300s' has %llu bytes of MD5 %s, and %llu of %s are told; get it "
                               "again",
                               file, (unsigned long long)all, text, (unsigned long long)bytes, md5);
}
