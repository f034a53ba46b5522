/* SPDX-License-Identifier: MIT */
/*
 * page.c - elements are known by their local names, since servers differ in the namespace. A page
 * is small, and is read once it is whole.
 */
#include "source/s3/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/hex.h"
#include "source/s3/s3.h"
#include "source/s3/xml.h"

#define fail(p, ...) shard_error_set((p)->why, sizeof((p)->why), -EBADMSG, __VA_ARGS__)

void shard_s3_page_begin(struct shard_s3_page *p) {
  free(p->token);
  p->token = NULL;
  p->used = p->received = 0;
  p->count = 0;
  p->truncated = false;
  p->why[0] = 0;
}

int shard_s3_page_feed(struct shard_s3_page *p, const char *data, size_t size) {
  if (p->received + size > SHARD_S3_PAGE_MAX) {
    return fail(p, "the reply is larger than a page can be");
  }
  char *reply = shard_array_grow(p->reply, p->received, size, &p->reply_room, 1);
  if (!reply) {
    return size ? -ENOMEM : 0;
  }
  p->reply = reply;
  memcpy(p->reply + p->received, data, size);
  p->received += size;
  return 0;
}

static int add_key(struct shard_s3_page *p, const char *key, size_t length) {
  uint32_t n = (uint32_t)length;
  char *keys = shard_array_grow(p->keys, p->used, sizeof(n) + n + 1, &p->room, 1);
  if (!keys) {
    return -ENOMEM;
  }
  p->keys = keys;
  memcpy(keys + p->used, &n, sizeof(n));
  memcpy(keys + p->used + sizeof(n), key, n);
  keys[p->used + sizeof(n) + n] = 0;
  p->used += sizeof(n) + n + 1;
  p->count++;
  return 0;
}

/* Decode the keys, in place: no key gets longer. encoded: by %XX. */
static int decode_keys(struct shard_s3_page *p, bool encoded) {
  size_t to = 0;
  uint32_t n;
  for (size_t at = 0; at < p->used; at += sizeof(n) + n + 1) {
    memcpy(&n, p->keys + at, sizeof(n));
    char *key = p->keys + at + sizeof(n);
    ssize_t length = encoded ? shard_hex_unescape(key, n, true) : (ssize_t)n;
    int shown = n < 60 ? (int)n : 60;
    if (length < 0) {
      return fail(p, "the key '%.*s' is not percent-encoded as it should be", shown, key);
    }
    if (length > SHARD_S3_KEY_MAX) {
      return fail(p, "the key '%.*s...' is longer than a key can be", shown, key);
    }
    if (memchr(key, 0, (size_t)length)) {
      return fail(p, "the key '%.*s' has a NUL in it", shown, key);
    }
    uint32_t kept = (uint32_t)length;
    memcpy(p->keys + to, &kept, sizeof(kept));
    key[length] = 0;
    memmove(p->keys + to + sizeof(kept), key, kept + 1);
    to += sizeof(kept) + kept + 1;
  }
  p->used = to;
  return 0;
}

static bool is_text(const struct shard_xml_word *text, const char *word) {
  return text->length == strlen(word) && memcmp(text->bytes, word, text->length) == 0;
}

int shard_s3_page_end(struct shard_s3_page *p) {
  const char *entry = p->folders ? "CommonPrefixes" : "Contents",
             *wanted = p->folders ? "Prefix" : "Key";
  bool in_entry = false, has_key = false, tells_more = false, encoded = false;
  struct shard_xml x;
  enum shard_xml_event event;
  int rc = 0;
  shard_xml_open(&x, p->reply, p->received);
  while (rc == 0 && (event = shard_xml_next(&x)) != SHARD_XML_WHOLE) {
    if (event == SHARD_XML_DAMAGED) {
      rc = fail(p, "the reply is cut short, or not well-formed XML, at byte %td of %zu",
                x.at - p->reply, p->received);
    } else if (event == SHARD_XML_BEGINS && x.depth == 1 && !shard_xml_is(&x, "ListBucketResult")) {
      rc = fail(p, "the reply is not a listing but <%.*s>",
                x.name.length < 40 ? (int)x.name.length : 40, x.name.bytes);
    } else if (event == SHARD_XML_BEGINS && x.depth == 2) {
      in_entry = shard_xml_is(&x, entry);
      has_key = false;
    } else if (event == SHARD_XML_ENDS && x.depth == 2 && in_entry && shard_xml_is(&x, wanted)) {
      rc = has_key || x.text.length == 0 ? fail(p, "a key is empty, or comes twice in its entry")
                                         : add_key(p, x.text.bytes, x.text.length);
      has_key = true;
    } else if (event == SHARD_XML_ENDS && x.depth == 1 && in_entry) {
      rc = has_key ? 0 : fail(p, "an entry has no key");
    } else if (event == SHARD_XML_ENDS && x.depth == 1 && shard_xml_is(&x, "IsTruncated")) {
      p->truncated = is_text(&x.text, "true");
      tells_more = p->truncated || is_text(&x.text, "false");
    } else if (event == SHARD_XML_ENDS && x.depth == 1 && x.text.length > 0 &&
               shard_xml_is(&x, "NextContinuationToken")) {
      free(p->token);
      p->token = strndup(x.text.bytes, x.text.length);
      rc = p->token ? 0 : -ENOMEM;
    } else if (event == SHARD_XML_ENDS && x.depth == 1 && shard_xml_is(&x, "EncodingType")) {
      encoded = is_text(&x.text, "url");
    }
  }
  if (rc == 0 && !tells_more) {
    rc = fail(p, "the reply does not say whether it is the last one (IsTruncated)");
  }
  return rc ? rc : decode_keys(p, encoded);
}

const char *shard_s3_page_key(const struct shard_s3_page *page, size_t *at, size_t *length) {
  uint32_t n;
  if (*at >= page->used) {
    return NULL;
  }
  memcpy(&n, page->keys + *at, sizeof(n));
  const char *key = page->keys + *at + sizeof(n);
  *at += sizeof(n) + n + 1;
  *length = n;
  return key;
}

void shard_s3_page_free(struct shard_s3_page *p) {
  free(p->reply);
  free(p->keys);
  free(p->token);
  *p = (struct shard_s3_page){.folders = p->folders};
}
