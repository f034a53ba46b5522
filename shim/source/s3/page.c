/* SPDX-License-Identifier: MIT */
/*
 * page.c - elements are known by their local names, since servers differ in the namespace.
 *
 * Pieces are only gathered while they arrive: a page is small, and is read once it is whole.
 *
 * Keys are percent-encoded (encoding-type=url), so that any byte can stand in XML. The rest of the
 * reply is not: radosgw repeats start-after and token as they are, with control characters that XML
 * does not allow, not even as references (&#x1;).
 *
 * In their place the parser gets a mask, DEL and a question mark; a DEL of the reply itself it gets
 * twice. So a mask is found in the text that the parser hands back, and it does not matter when it
 * does: expat may keep short pieces for a later call (since 2.6.0, and in older versions with its
 * security fixes: "reparse deferral"). A token with a mask is not used; a key with one is refused.
 */
#include "source/s3/page.h"

#include <errno.h>
#include <expat.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "source/s3/s3.h"

enum { NOTHING, KEY, IS_TRUNCATED, TOKEN, ENCODING };

#define DEL '\x7f'
#define PIECE ((size_t)16 << 10)

__attribute__((format(printf, 2, 3))) static int fail(struct shard_s3_page *page,
                                                      const char *format, ...) {
  if (!page->why[0]) {
    va_list args;
    va_start(args, format);
    vsnprintf(page->why, sizeof(page->why), format, args);
    va_end(args);
  }
  return -EBADMSG;
}

static void stop_parser(struct shard_s3_page *page, const char *why) {
  fail(page, "%s", why);
  XML_StopParser(page->parser, XML_FALSE);
}

static const char *local_name(const char *name) {
  const char *colon = strrchr(name, ':');
  return colon ? colon + 1 : name;
}

static void on_text(void *context, const char *text, int length) {
  struct shard_s3_page *p = context;
  size_t n = (size_t)length;
  if (p->text_used + n > SHARD_S3_TOKEN_MAX) {
    stop_parser(p, "an element is too long");
    return;
  }
  if (!p->text) {
    p->text = malloc(SHARD_S3_TOKEN_MAX + 1);
    if (!p->text) {
      stop_parser(p, "out of memory");
      return;
    }
  }
  memcpy(p->text + p->text_used, text, n);
  p->text_used += n;
}

static void on_start(void *context, const char *name, const char **attributes) {
  (void)attributes;
  struct shard_s3_page *p = context;
  const char *word = local_name(name);
  p->field = NOTHING;
  if (p->depth == 0 && strcmp(word, "ListBucketResult") != 0) {
    fail(p, "the reply is not a listing but <%.40s>", word);
    XML_StopParser(p->parser, XML_FALSE);
  }
  if (p->depth == 1) {
    p->in_contents = strcmp(word, p->folders ? "CommonPrefixes" : "Contents") == 0;
    p->has_key = false;
    p->field = strcmp(word, "IsTruncated") == 0             ? IS_TRUNCATED
               : strcmp(word, "NextContinuationToken") == 0 ? TOKEN
               : strcmp(word, "EncodingType") == 0          ? ENCODING
                                                            : NOTHING;
  } else if (p->depth == 2 && p->in_contents && strcmp(word, p->folders ? "Prefix" : "Key") == 0) {
    p->field = KEY;
  }
  p->depth++;
  p->text_used = 0;
  p->literal = false;
  XML_SetCharacterDataHandler(p->parser, p->field ? on_text : NULL);
}

/* false: no memory. */
static bool add_key(struct shard_s3_page *p, const char *key, uint32_t n) {
  char *keys = shard_grow(p->keys, p->used, sizeof(n) + n + 1, &p->room, 1);
  if (!keys) {
    return false;
  }
  p->keys = keys;
  memcpy(keys + p->used, &n, sizeof(n));
  memcpy(keys + p->used + sizeof(n), key, n);
  keys[p->used + sizeof(n) + n] = 0;
  p->used += sizeof(n) + n + 1;
  p->count++;
  return true;
}

/*
 * Undo parse_masked() in the element's text. true: the text had a character that XML does not
 * allow; or nobody can tell, for in a CDATA section "&#127;" stands for itself.
 */
static bool unmask(struct shard_s3_page *p) {
  const char *from = p->text_used > 0 ? memchr(p->text, DEL, p->text_used) : NULL;
  if (!from) {
    return false;
  }
  const char *end = p->text + p->text_used;
  bool masked = p->literal;
  char *to = p->text + (from - p->text);
  while (from < end) {
    char c = *from++;
    if (c == DEL) {
      masked = masked || from == end || *from != DEL;
      from++;
    }
    *to++ = c;
  }
  p->text_used = (size_t)(to - p->text);
  return masked;
}

static void end_field(struct shard_s3_page *p) {
  bool masked = unmask(p);
  uint32_t n = (uint32_t)p->text_used;
  switch (p->field) {
  case KEY:
    if (n == 0 || p->has_key) {
      stop_parser(p, "a key is empty, or comes twice in its entry");
      return;
    }
    p->has_key = true;
    p->key_masked = p->key_masked || masked;
    if (!add_key(p, p->text, n)) {
      stop_parser(p, "out of memory");
    }
    return;
  case IS_TRUNCATED:
    p->truncated = n == 4 && memcmp(p->text, "true", 4) == 0;
    p->said_truncated = p->truncated || (n == 5 && memcmp(p->text, "false", 5) == 0);
    return;
  case TOKEN:
    if (n > 0) {
      free(p->token);
      p->token = strndup(p->text, n);
      p->token_masked = masked;
    }
    return;
  case ENCODING:
    p->encoded = n == 3 && memcmp(p->text, "url", 3) == 0;
    return;
  default:
    return;
  }
}

static void on_end(void *context, const char *name) {
  (void)name;
  struct shard_s3_page *p = context;
  p->depth--;
  if (p->field) {
    end_field(p);
    p->field = NOTHING;
    XML_SetCharacterDataHandler(p->parser, NULL);
  } else if (p->depth == 1 && p->in_contents) {
    p->in_contents = false;
    p->entry_end = XML_GetCurrentByteIndex(p->parser) + XML_GetCurrentByteCount(p->parser);
    if (!p->has_key) {
      stop_parser(p, "an entry has no key");
    }
  }
  p->ended = p->ended || p->depth == 0;
}

static void on_cdata(void *context) {
  struct shard_s3_page *p = context;
  p->literal = true;
}

static void on_doctype(void *context, const char *name, const char *system, const char *public,
                       int internal) {
  (void)system;
  (void)public;
  (void)internal;
  struct shard_s3_page *p = context;
  fail(p, "the reply is not a listing but <%.40s>", name);
  XML_StopParser(p->parser, XML_FALSE);
}

/* ---- the parser's memory ----------------------------------------------------------------------
 *
 * It keeps what is open, and every name that it has met. A server that is at fault could make it
 * take fifty times the bytes of a page. expat asks for memory by functions that know no parser, so
 * the page that is being parsed is noted.
 */

#define BEFORE 16 /* bytes before a block, for its size; they keep it aligned */

static _Thread_local struct shard_s3_page *parsing;

static void *grant_again(void *at, size_t size) {
  struct shard_s3_page *p = parsing;
  size_t *old = at ? (size_t *)((char *)at - BEFORE) : NULL, had = old ? *old : 0;
  if (size > SHARD_S3_PARSER_MAX || p->granted - had + size > SHARD_S3_PARSER_MAX) {
    p->refused = true;
    return NULL;
  }
  size_t *block = realloc(old, BEFORE + size);
  if (!block) {
    return NULL;
  }
  *block = size;
  p->granted += size - had;
  return (char *)block + BEFORE;
}

static void *grant(size_t size) { return grant_again(NULL, size); }

static void take_back(void *at) {
  if (at) {
    size_t *block = (size_t *)((char *)at - BEFORE);
    parsing->granted -= *block;
    free(block);
  }
}

static void free_parser(struct shard_s3_page *p) {
  parsing = p;
  XML_ParserFree(p->parser);
  p->parser = NULL;
}

/* A parser that is as new. false: no memory. */
static bool renew_parser(struct shard_s3_page *p) {
  static const XML_Memory_Handling_Suite memory = {grant, grant_again, take_back};
  if (p->refused) { /* it keeps for another time what it has */
    free_parser(p);
    p->refused = false;
  }
  parsing = p;
  if (p->parser) {
    return XML_ParserReset(p->parser, "UTF-8");
  }
  p->parser = XML_ParserCreate_MM("UTF-8", &memory, NULL);
  return p->parser;
}

int shard_s3_page_begin(struct shard_s3_page *p) {
  if (!renew_parser(p)) {
    return -ENOMEM;
  }
  XML_SetUserData(p->parser, p);
  XML_SetElementHandler(p->parser, on_start, on_end);
  XML_SetStartCdataSectionHandler(p->parser, on_cdata);
  XML_SetStartDoctypeDeclHandler(p->parser, on_doctype);
  free(p->token);
  p->token = NULL;
  p->used = p->text_used = p->received = 0;
  p->count = 0;
  p->depth = 0;
  p->field = NOTHING;
  p->truncated = p->said_truncated = p->encoded = p->literal = p->token_masked = p->key_masked =
      p->in_contents = p->has_key = p->ended = false;
  p->parsed = p->entry_end = 0;
  p->why[0] = 0;
  return 0;
}

/* In pieces, for the parser copies what it cannot read at once. */
static int parse_bytes(struct shard_s3_page *p, const char *data, size_t size) {
  parsing = p;
  for (size_t n; size > 0; data += n, size -= n) {
    n = size < PIECE ? size : PIECE;
    p->parsed += (long)n;
    if (XML_Parse(p->parser, data, (int)n, XML_FALSE) != XML_STATUS_OK) {
      enum XML_Error why = XML_GetErrorCode(p->parser);
      return p->refused ? fail(p, "the reply takes too much memory: no listing has such elements")
             : why == XML_ERROR_NO_MEMORY
                 ? -ENOMEM
                 : fail(p, "the reply is not well-formed XML: %s", XML_ErrorString(why));
    }
  }
  return 0;
}

/* ---- masks -------------------------------------------------------------- */

static bool needs_mask(unsigned long c) {
  return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == DEL || c == 0xfffe ||
         c == 0xffff;
}

/*
 * The character that begins there: as it is, or by a reference "&#...;". Returns its bytes if it
 * needs a mask, else 0.
 */
static size_t read_strange(const char *data, size_t size, unsigned long *c) {
  char reference[16] = "";
  *c = (unsigned char)*data;
  if (*data == '\xef' && size >= 3 && data[1] == '\xbf') { /* U+FFFE, U+FFFF */
    *c = 0xff40UL + (unsigned char)data[2];
    return needs_mask(*c) ? 3 : 0;
  }
  if (*data != '&') {
    return needs_mask(*c);
  }
  size_t most = size < sizeof(reference) - 1 ? size : sizeof(reference) - 1;
  const char *end = memchr(data, ';', most);
  size_t n = end ? (size_t)(end - data) + 1 : 0;
  if (n < 3 || data[1] != '#') {
    return 0;
  }
  memcpy(reference, data, n);
  bool hexadecimal = reference[2] == 'x';
  *c = strtoul(reference + (hexadecimal ? 3 : 2), NULL, hexadecimal ? 16 : 10);
  return needs_mask(*c) && strspn(reference + 2, "x0123456789abcdefABCDEF") == n - 3 ? n : 0;
}

/* Whether read_strange() is to look at what begins with this byte. */
static inline unsigned char is_suspect(unsigned char c) {
  return (unsigned char)((c < 0x20) | (c == DEL) | (c == '&') | (c == 0xef));
}

/* How many bytes come before the first suspect one. The compiler makes vectors of the strides. */
static size_t before_suspect(const char *data, size_t size) {
  enum { STRIDE = 64 };
  size_t n = 0;
  for (unsigned char found = 0; n + STRIDE <= size; n += STRIDE) {
    for (size_t i = 0; i < STRIDE; i++) {
      found |= is_suspect((unsigned char)data[n + i]);
    }
    if (found) {
      break;
    }
  }
  while (n < size && !is_suspect((unsigned char)data[n])) {
    n++;
  }
  return n;
}

/* Parse a part of the page, with masks in place of what needs them: see unmask(). */
static int parse_masked(struct shard_s3_page *p, const char *data, size_t size) {
  size_t from = 0;
  for (size_t at = before_suspect(data, size); at < size;) {
    unsigned long c;
    size_t n = read_strange(data + at, size - at, &c);
    if (n > 0) {
      const char mask[] = {DEL, c == DEL ? DEL : '?'};
      int rc = parse_bytes(p, data + from, at - from);
      rc = rc ? rc : parse_bytes(p, mask, sizeof(mask));
      if (rc != 0) {
        return rc;
      }
      from = at + n;
    }
    at += n ? n : 1;
    at += before_suspect(data + at, size - at);
  }
  return parse_bytes(p, data + from, size - from);
}

/* ---- entries ----------------------------------------------------------------------------------
 *
 * Only the key of an entry is wanted. Dates, sizes and hashes are three quarters of a page, and
 * would cost most of the parser's time. So an entry that is as usual is read without the parser.
 */

#define ENTRY_BEGIN "<Contents><Key>"
#define KEY_END "</Key>"
#define ENTRY_END "</Contents>"
#define LENGTH(text) (sizeof(text) - 1)

/*
 * Take the key of the entry that begins there. That is safe if the parser has just seen another
 * entry end, or such a one was taken, and the key has no character with a meaning in XML. The
 * number of bytes up to the entry's end, or 0 if the parser must read it.
 */
static size_t take_directly(struct shard_s3_page *p, const char *data, size_t size) {
  const char *key = data + LENGTH(ENTRY_BEGIN), *after = data + size;
  if (p->folders || size < LENGTH(ENTRY_BEGIN) ||
      memcmp(data, ENTRY_BEGIN, LENGTH(ENTRY_BEGIN)) != 0) {
    return 0;
  }
  const char *end = memchr(key, '<', (size_t)(after - key));
  uint32_t n = end ? (uint32_t)(end - key) : 0;
  unsigned char strange = 0;
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)key[i];
    strange |= (unsigned char)((c < 0x20) | (c > 0x7e) | (c == '&') | (c == '>'));
  }
  if (n == 0 || n > SHARD_S3_TOKEN_MAX || strange || (size_t)(after - end) < LENGTH(KEY_END) ||
      memcmp(end, KEY_END, LENGTH(KEY_END)) != 0) {
    return 0;
  }
  const char *entry_end = memmem(end, (size_t)(after - end), ENTRY_END, LENGTH(ENTRY_END));
  if (!entry_end || !add_key(p, key, n)) {
    return 0;
  }
  return (size_t)(entry_end - data) + LENGTH(ENTRY_END);
}

/* Read all that has come. */
static int read_entries(struct shard_s3_page *p) {
  int rc = 0;
  bool adjacent = false; /* nothing has come since an entry's end */
  for (size_t at = 0, n; at < p->received && rc == 0; at += n) {
    const char *data = p->page + at;
    size_t left = p->received - at;
    n = adjacent ? take_directly(p, data, left) : 0;
    if (n == 0) {
      const char *end = memmem(data, left, ENTRY_END, LENGTH(ENTRY_END));
      n = end ? (size_t)(end - data) + LENGTH(ENTRY_END) : left;
      rc = parse_masked(p, data, n);
      adjacent = p->entry_end == p->parsed;
    }
  }
  return rc;
}

int shard_s3_page_feed(struct shard_s3_page *p, const char *data, size_t size) {
  if (p->received + size > SHARD_S3_PAGE_MAX) {
    return fail(p, "the reply is larger than a page can be");
  }
  char *page = shard_grow(p->page, p->received, size, &p->page_room, 1);
  if (!page) {
    return size ? -ENOMEM : 0;
  }
  p->page = page;
  memcpy(p->page + p->received, data, size);
  p->received += size;
  return 0;
}

/* Decode the keys, in place: no key gets longer. */
static int decode_keys(struct shard_s3_page *p) {
  size_t to = 0;
  uint32_t n;
  for (size_t at = 0; at < p->used; at += sizeof(n) + n + 1) {
    memcpy(&n, p->keys + at, sizeof(n));
    char *key = p->keys + at + sizeof(n);
    ssize_t length = p->encoded ? shard_s3_url_unescape(key, n) : (ssize_t)n;
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

int shard_s3_page_end(struct shard_s3_page *p) {
  int rc = read_entries(p);
  if (rc != 0) {
    return rc;
  }
  if (XML_Parse(p->parser, "", 0, XML_TRUE) != XML_STATUS_OK || !p->ended) {
    return fail(p, "the reply is cut short after %zu bytes", p->received);
  }
  if (!p->said_truncated) {
    return fail(p, "the reply does not say whether it is the last one (IsTruncated)");
  }
  if (p->key_masked) {
    return fail(p, "the reply has a key with a control character that is not percent-encoded");
  }
  if (p->token_masked) {
    free(p->token);
    p->token = NULL;
  }
  return decode_keys(p);
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
  if (p->parser) {
    free_parser(p);
  }
  free(p->page);
  free(p->keys);
  free(p->token);
  free(p->text);
  *p = (struct shard_s3_page){0};
}
