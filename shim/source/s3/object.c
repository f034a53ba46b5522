/* SPDX-License-Identifier: MIT */
/*
 * object.c - whole objects, to files.
 *
 * If an object was put in one piece, and is not encrypted with a key of its own, its ETag is its
 * MD5, and is compared. Of the rest only the length can be checked here; a listing has checksums of
 * its own.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hex.h"
#include "build/spool.h"
#include "listing/format.h"
#include "source/s3/client.h"
#include "source/s3/provider.h"
#include "source/s3/s3.h"

#define ETAG 80         /* with NUL, without quotes */
#define SMALL (1 << 20) /* bytes of an object that is got whole, whatever it is */

struct getting {
  int fd;
  uint64_t manifest_max; /* 0: a listing */
  bool enough;           /* it is no listing, see head */
  unsigned strange;      /* replies that began like none: the first may be damaged */
  unsigned char head[sizeof(struct shard_header)];
  uint64_t received, length;
  bool has_length, opaque; /* opaque: the ETag is not an MD5 */
  char etag[ETAG];
  EVP_MD_CTX *md5; /* NULL: this OpenSSL has none, as where FIPS is in force */
  char why[200];
};

static int get_begin(void *context) {
  struct getting *g = context;
  EVP_MD_CTX_free(g->md5);
  *g = (struct getting){
      .fd = g->fd, .manifest_max = g->manifest_max, .strange = g->strange, .md5 = EVP_MD_CTX_new()};
  if (g->md5 && EVP_DigestInit_ex(g->md5, EVP_md5(), NULL) != 1) {
    EVP_MD_CTX_free(g->md5);
    g->md5 = NULL;
  }
  return 0;
}

/* The ETag without quotes. weak: it begins with W/, so the object may come in another form. */
static bool read_etag(const char *line, size_t n, char etag[ETAG], bool *weak) {
  char value[ETAG + 8];
  if (!shard_s3_head_value(line, n, "etag", value, sizeof(value))) {
    return false;
  }
  *weak = strncmp(value, "W/", 2) == 0;
  char *text = value + (*weak ? 2 : 0);
  size_t length = strlen(text);
  if (length >= 2 && *text == '"' && text[length - 1] == '"') {
    text[length - 1] = 0;
    text++;
  }
  snprintf(etag, ETAG, "%s", strlen(text) < ETAG ? text : "");
  return true;
}

static void get_header(void *context, const char *line, size_t n) {
  struct getting *g = context;
  char value[80] = "", *end;
  bool weak;
  if (shard_s3_head_value(line, n, "content-length", value, sizeof(value))) {
    g->length = strtoull(value, &end, 10);
    g->has_length = *value && !*end;
  } else if (read_etag(line, n, g->etag, &weak)) {
    g->opaque |= weak;
  } else {
    g->opaque |= shard_s3_provider_read(line, n, value, sizeof(value)) == SHARD_S3_ENCRYPTED;
  }
}

/* Whether the reply tells what the object is, as S3 does. */
static bool is_told(struct getting *g) {
  if (!g->has_length || !g->etag[0]) { /* perhaps a proxy's page */
    snprintf(g->why, sizeof(g->why), "the reply tells no length or no ETag, as S3 does");
  }
  return !g->why[0];
}

/* Before the first byte: empty the file, and see whether the object may be had, and has room. */
static int begin_file(const struct getting *g) {
  struct statvfs there;
  if (g->manifest_max > 0 && g->length > g->manifest_max) {
    return -EFBIG;
  }
  if (ftruncate(g->fd, 0) != 0) {
    return -errno;
  }
  bool known = fstatvfs(g->fd, &there) == 0 && there.f_blocks > 0; /* 0: a tmpfs without a limit */
  return known && g->length / there.f_frsize > there.f_bavail ? -ENOSPC : 0;
}

/*
 * Look at the beginning of a listing: whether it is one, and not smaller than what the reply
 * brings. (A larger one is cut short, which is seen at its end.) 0, or -EBADMSG.
 */
static int judge_head(struct getting *g, const char *data, size_t size) {
  const size_t all = sizeof(g->head);
  size_t n = g->received < all ? all - (size_t)g->received : 0;
  n = n < size ? n : size;
  memcpy(g->head + g->received, data, n);
  struct shard_header h;
  memcpy(&h, g->head, all);
  size_t come = (size_t)g->received + n;
  if (memcmp(h.magic, SHARD_MAGIC, come < sizeof(h.magic) ? come : sizeof(h.magic)) == 0 &&
      (come < all || h.file_size >= g->length)) {
    return 0;
  }
  snprintf(g->why, sizeof(g->why), "what has come is no listing");
  g->enough = g->strange++ > 0;
  return g->enough ? 0 : -EBADMSG;
}

static int get_data(void *context, const char *data, size_t size) {
  struct getting *g = context;
  int rc = !is_told(g) ? -EBADMSG : g->received == 0 ? begin_file(g) : 0;
  if (rc != 0) {
    return rc;
  }
  if (size > g->length - g->received) {
    snprintf(g->why, sizeof(g->why), "more than its %llu bytes come",
             (unsigned long long)g->length);
    return -EBADMSG;
  }
  if (g->manifest_max == 0 && g->length > SMALL && g->received < sizeof(g->head)) {
    rc = judge_head(g, data, size);
    if (rc != 0) {
      return rc;
    }
    size = g->enough && size > sizeof(g->head) ? sizeof(g->head) : size;
  }
  if (g->md5 && EVP_DigestUpdate(g->md5, data, size) != 1) {
    return -ENOMEM;
  }
  rc = shard_spool_write_at(g->fd, data, size, (off_t)g->received);
  g->received += size;
  return rc ? rc : g->enough;
}

static int get_end(void *context, const char **why) {
  struct getting *g = context;
  unsigned char digest[EVP_MAX_MD_SIZE];
  char now[2 * EVP_MAX_MD_SIZE + 1] = "";
  unsigned digits = 0;
  bool has_md5 =
      !g->opaque && g->md5 && strlen(g->etag) == 32 && strspn(g->etag, "0123456789abcdef") == 32;
  *why = g->why;
  if (!is_told(g)) {
    return -EBADMSG;
  }
  if (g->length != g->received) {
    snprintf(g->why, sizeof(g->why), "%llu of %llu bytes have come",
             (unsigned long long)g->received, (unsigned long long)g->length);
  } else if (has_md5 && EVP_DigestFinal_ex(g->md5, digest, &digits) != 1) {
    return -ENOMEM; /* do not take it unchecked */
  } else if (shard_hex_print(now, digest, digits), has_md5 && strcmp(now, g->etag) != 0) {
    snprintf(g->why, sizeof(g->why), "what has come does not have the MD5 that its ETag tells");
  } else {
    return ftruncate(g->fd, (off_t)g->received) == 0
               ? 0
               : -errno; /* an empty object has had no data() */
  }
  return -EBADMSG;
}

int shard_s3_object_get(struct shard_s3_client *client, const char *key, uint64_t manifest_max,
                        int fd, char *err, size_t size) {
  struct getting g = {.fd = fd, .manifest_max = manifest_max};
  struct shard_s3_request *done, request = {.key = key,
                                            .begin = get_begin,
                                            .header = get_header,
                                            .data = get_data,
                                            .end = get_end,
                                            .context = &g};
  shard_s3_client_submit(client, &request);
  int rc = shard_s3_client_next(client, &done);
  if (rc == -ENOSPC) {
    snprintf(
        err, size,
        "%s, for an object of %llu bytes; make room there, or let SHARD_CACHE_DIR be elsewhere",
        shard_s3_client_error(client), (unsigned long long)g.length);
  } else if (rc == -EFBIG && manifest_max > 0 && g.length > manifest_max) {
    snprintf(
        err, size,
        "%s: it has %llu bytes, and a manifest may have %llu; make a listing of it by shardctl "
        "index",
        shard_s3_client_error(client), (unsigned long long)g.length,
        (unsigned long long)manifest_max);
  } else if (rc < 0) {
    snprintf(err, size, "%s", shard_s3_client_error(client));
  }
  EVP_MD_CTX_free(g.md5);
  return rc < 0 ? rc : 0;
}
