/* SPDX-License-Identifier: MIT */
/*
 * object.c - whole objects, from and to files.
 *
 * A PUT carries its body's SHA-256: the request is signed with it, and the object keeps it. A GET
 * is checked against that. Objects that others have put have none: if they were put in one piece,
 * and are not encrypted with a key of their own, their ETag is their MD5. Of the rest only the
 * length can be checked.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hex.h"
#include "build/spool.h"
#include "listing/format.h"
#include "source/s3/client.h"
#include "source/s3/provider.h"
#include "source/s3/s3.h"
#include "source/s3/sigv4.h"

#define PUT_MOST (5ULL << 30) /* bytes of a PUT */
#define ETAG 80               /* with NUL, without quotes */
#define SMALL (1 << 20)       /* bytes of an object that is got whole, whatever it is */

/* ---- digests ------------------------------------------------------------ */

/* Write the digest in hexadecimal, and free the context. false: OpenSSL fails, or there is none. */
static bool end_digest(EVP_MD_CTX **context, char hex[SHARD_SIGV4_HASH]) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned n = 0;
  bool good = *context && EVP_DigestFinal_ex(*context, digest, &n) == 1 && n <= 32;
  EVP_MD_CTX_free(*context);
  *context = NULL;
  if (good) {
    shard_hex_print(hex, digest, n);
  }
  return good;
}

/* NULL: no memory, or OpenSSL does not have it, as MD5 where FIPS is in force. */
static EVP_MD_CTX *begin_digest(const EVP_MD *kind) {
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  if (context && EVP_DigestInit_ex(context, kind, NULL) != 1) {
    EVP_MD_CTX_free(context);
    context = NULL;
  }
  return context;
}

/* ---- get ---------------------------------------------------------------- */

struct getting {
  int fd;
  uint64_t manifest_max; /* 0: a listing */
  bool enough;           /* it is no listing, see head */
  unsigned strange;      /* replies that began like none: the first may be damaged */
  unsigned char head[sizeof(struct shard_header)];
  uint64_t received, length;
  bool has_length, opaque; /* opaque: the ETag is not an MD5 */
  char sha256[SHARD_SIGV4_HASH], etag[ETAG];
  EVP_MD_CTX *sha256_now, *md5_now; /* md5_now NULL: this OpenSSL has none */
  char why[200];
};

static int get_begin(void *context) {
  struct getting *g = context;
  EVP_MD_CTX_free(g->sha256_now);
  EVP_MD_CTX_free(g->md5_now);
  *g = (struct getting){.fd = g->fd,
                        .manifest_max = g->manifest_max,
                        .strange = g->strange,
                        .sha256_now = begin_digest(EVP_sha256()),
                        .md5_now = begin_digest(EVP_md5())};
  return g->sha256_now ? 0 : -ENOMEM;
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
    enum shard_s3_fact fact = shard_s3_provider_read(line, n, value, sizeof(value));
    g->opaque |= fact == SHARD_S3_ENCRYPTED;
    if (fact == SHARD_S3_SHA256) {
      snprintf(g->sha256, sizeof(g->sha256), "%s", value);
    }
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
  if (EVP_DigestUpdate(g->sha256_now, data, size) != 1 ||
      (g->md5_now && EVP_DigestUpdate(g->md5_now, data, size) != 1)) {
    return -ENOMEM;
  }
  rc = shard_spool_write_at(g->fd, data, size, (off_t)g->received);
  g->received += size;
  return rc ? rc : g->enough;
}

static int get_end(void *context, const char **why) {
  struct getting *g = context;
  char now[SHARD_SIGV4_HASH];
  bool has_sha256 = strlen(g->sha256) == 64 && strspn(g->sha256, "0123456789abcdef") == 64;
  bool has_md5 = !has_sha256 && !g->opaque && g->md5_now && strlen(g->etag) == 32 &&
                 strspn(g->etag, "0123456789abcdef") == 32;
  *why = g->why;
  if (!is_told(g)) {
    return -EBADMSG;
  }
  if (g->length != g->received) {
    snprintf(g->why, sizeof(g->why), "%llu of %llu bytes have come",
             (unsigned long long)g->received, (unsigned long long)g->length);
  } else if ((has_sha256 && !end_digest(&g->sha256_now, now)) ||
             (has_md5 && !end_digest(&g->md5_now, now))) {
    return -ENOMEM; /* do not take it unchecked */
  } else if (has_sha256 && strcmp(now, g->sha256) != 0) {
    snprintf(g->why, sizeof(g->why), "what has come does not have the SHA-256 it was put with");
  } else if (has_md5 && strcmp(now, g->etag) != 0) {
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
  struct shard_s3_request *done, request = {.method = "GET",
                                            .key = key,
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
  EVP_MD_CTX_free(g.sha256_now);
  EVP_MD_CTX_free(g.md5_now);
  return rc < 0 ? rc : 0;
}

/* ---- put ---------------------------------------------------------------- */

/* A PUT under way, or the HEAD that follows it. */
struct putting {
  struct shard_s3_request request;
  struct shard_s3_body body;
  char hash[SHARD_SIGV4_HASH], there[SHARD_SIGV4_HASH]; /* SHA-256; there: of the object */
  bool asks;
};

static void put_header(void *context, const char *line, size_t n) {
  struct putting *p = context;
  char value[sizeof(p->there)];
  if (shard_s3_provider_read(line, n, value, sizeof(value)) == SHARD_S3_SHA256) {
    memcpy(p->there, value, sizeof(value));
  }
}

/* Ask whose object is there: its SHA-256 tells. */
static void ask_owner(struct putting *p, struct shard_s3_client *client) {
  p->asks = true;
  p->request.method = "HEAD";
  p->request.body = NULL;
  p->request.header = put_header;
  shard_s3_client_submit(client, &p->request);
}

/* Size and SHA-256 of an open file. 0 or -errno. */
static int hash_file(struct putting *p) {
  char chunk[65536];
  struct stat st;
  ssize_t n = 0;
  EVP_MD_CTX *digest = begin_digest(EVP_sha256());
  if (!digest) {
    return -ENOMEM;
  }
  while ((n = pread(p->body.fd, chunk, sizeof(chunk), (off_t)p->body.size)) > 0) {
    if (EVP_DigestUpdate(digest, chunk, (size_t)n) != 1) {
      EVP_MD_CTX_free(digest);
      return -ENOMEM;
    }
    p->body.size += (uint64_t)n;
  }
  int rc = n < 0 || fstat(p->body.fd, &st) != 0 ? -errno
           : !S_ISREG(st.st_mode)               ? -EINVAL
           : p->body.size > PUT_MOST            ? -EFBIG
                                                : 0;
  return end_digest(&digest, p->hash) || rc ? rc : -ENOMEM;
}

/* Open, hash and submit a file. 0, or a negative errno and a line in err[size]. */
static int begin_put(struct putting *p, struct shard_s3_client *client,
                     const struct shard_s3_upload *upload, const char *bucket, char *err,
                     size_t size) {
  *p = (struct putting){
      .request = {.method = "PUT", .key = upload->key, .wants_status = upload->only_new},
      .body = {.fd = open(upload->file, O_RDONLY | O_CLOEXEC), .only_new = upload->only_new}};
  p->body.hash = p->hash;
  p->request.body = &p->body;
  p->request.context = p;
  int rc = p->body.fd < 0 ? -errno : hash_file(p);
  if (rc == -EFBIG) {
    snprintf(err, size,
             "s3://%s/%.400s: more than 5 GiB cannot be put in one piece; write it to a file, and "
             "copy that with a tool that puts it in parts",
             bucket, upload->key);
  } else if (rc != 0) {
    snprintf(err, size, "cannot read '%.300s': %s", upload->file, strerror(-rc));
  } else {
    shard_s3_client_submit(client, &p->request);
  }
  if (rc != 0 && p->body.fd >= 0) {
    close(p->body.fd);
  }
  p->body.fd = rc ? -1 : p->body.fd;
  return rc;
}

int shard_s3_object_put(struct shard_s3_client *client, const char *bucket, unsigned lanes,
                        const struct shard_s3_upload *uploads, size_t count, char *err,
                        size_t size) {
  struct putting *all = calloc(lanes, sizeof(*all));
  if (!all) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  int rc = 0;
  size_t begun = 0;
  struct shard_s3_request *done;
  for (unsigned i = 0; i < lanes; i++) {
    all[i].body.fd = -1;
  }
  for (unsigned i = 0; rc == 0 && i < lanes && begun < count; i++) {
    rc = begin_put(&all[i], client, &uploads[begun++], bucket, err, size);
  }
  bool told = rc != 0;
  while (rc == 0 && (rc = shard_s3_client_next(client, &done)) == 1) {
    struct putting *p = done->context;
    rc = 0;
    /* The object was to be new, and is there. It may be ours, if a first reply was lost. */
    if (done->status == 412 && done->failures > 0) {
      ask_owner(p, client);
      continue;
    }
    close(p->body.fd);
    p->body.fd = -1;
    if (done->status == 412 || (p->asks && strcmp(p->there, p->hash) != 0)) {
      rc = -EEXIST;
      snprintf(err, size, "s3://%s/%.400s: the object is there already", bucket, p->request.key);
      told = true;
    } else if (begun < count) {
      rc = begin_put(p, client, &uploads[begun++], bucket, err, size);
      told = rc != 0;
    }
  }
  if (rc < 0 && !told) {
    snprintf(err, size, "%s", shard_s3_client_error(client));
  }
  for (unsigned i = 0; i < lanes; i++) {
    shard_file_close(all[i].body.fd);
  }
  free(all);
  return rc;
}
