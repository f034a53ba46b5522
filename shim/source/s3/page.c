/* SPDX-License-Identifier: MIT */
/*
 * page.c - elements are known by their local names, since servers differ in the namespace.
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

enum { NOTHING, KEY, IS_TRUNCATED, TOKEN, ENCODING, CODE, MESSAGE, REGION, ENDPOINT };

#define DEL '\x7f'

/* The mark that comes next. */
enum { BEFORE_ENTRY, BEFORE_KEY_END, BEFORE_ENTRY_END, STATES };

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

/* Make room for another key. */
static char *reserve_key(struct shard_s3_page *p, size_t size) {
  char *keys = shard_grow(p->keys, p->used, size, &p->room, 1);
  if (!keys) {
    stop_parser(p, "out of memory");
    return NULL;
  }
  p->keys = keys;
  char *at = p->keys + p->used;
  p->used += size;
  return at;
}

/*
 * Undo parse_mask() in the element's text. true: the text had a character that XML does not allow;
 * or nobody can tell, for in a CDATA section "&#127;" stands for itself.
 */
static bool unmask(struct shard_s3_page *p) {
  const char *from = p->text_used > 0 ? memchr(p->text, DEL, p->text_used) : NULL;
  const char *end = p->text + p->text_used;
  bool masked = from && p->literal;
  if (!from) {
    return false;
  }
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
  char *to;
  switch (p->field) {
  case KEY:
    if (n == 0 || p->has_key) {
      stop_parser(p, "a key is empty, or comes twice in its entry");
      return;
    }
    p->has_key = true;
    p->key_masked = p->key_masked || masked;
    to = reserve_key(p, sizeof(n) + n);
    if (to) {
      memcpy(to, &n, sizeof(n));
      memcpy(to + sizeof(n), p->text, n);
      p->count++;
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
  p->used = p->text_used = p->received = p->held_used = 0;
  p->count = 0;
  p->state = BEFORE_ENTRY;
  p->matched = p->gathered_used = 0;
  p->depth = 0;
  p->field = NOTHING;
  p->truncated = p->said_truncated = p->encoded = p->literal = p->token_masked = p->key_masked =
      p->in_contents = p->has_key = p->ended = p->adjacent = p->direct = false;
  p->parsed = p->entry_end = 0;
  p->why[0] = 0;
  return 0;
}

/* A byte that XML does not allow. */
static bool is_control(char c) {
  return (unsigned char)c < 0x20 && c != '\t' && c != '\n' && c != '\r';
}

/* How many bytes at the beginning need no mask. The compiler makes vectors of the strides. */
static size_t before_mask(const char *data, size_t size) {
  enum { STRIDE = 64 };
  size_t n = 0;
  for (; n + STRIDE <= size; n += STRIDE) {
    unsigned char found = 0;
    for (size_t i = 0; i < STRIDE; i++) {
      unsigned char c = (unsigned char)data[n + i];
      found |= (unsigned char)((c < 0x20) | (c == DEL));
    }
    if (found) {
      break;
    }
  }
  while (n < size && !is_control(data[n]) && data[n] != DEL) {
    n++;
  }
  return n;
}

static int parse_bytes(struct shard_s3_page *p, const char *data, size_t size) {
  p->parsed += (long)size;
  parsing = p;
  if (XML_Parse(p->parser, data, (int)size, XML_FALSE) == XML_STATUS_OK) {
    return 0;
  }
  enum XML_Error why = XML_GetErrorCode(p->parser);
  return p->refused ? fail(p, "the reply takes too much memory: no listing has such elements")
         : why == XML_ERROR_NO_MEMORY
             ? -ENOMEM
             : fail(p, "the reply is not well-formed XML: %s", XML_ErrorString(why));
}

/* Give the parser the mask of a character that XML does not allow, or of a DEL: see unmask(). */
static int parse_mask(struct shard_s3_page *p, unsigned long c) {
  const char text[] = {DEL, c == DEL ? DEL : '?'};
  return parse_bytes(p, text, sizeof(text));
}

/* The character that "&#...;" stands for. */
static unsigned long read_reference(const char *text) {
  bool hexadecimal = text[2] == 'x';
  return strtoul(text + (hexadecimal ? 3 : 2), NULL, hexadecimal ? 16 : 10);
}

static bool needs_mask(unsigned long c) {
  return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == DEL || c == 0xfffe ||
         c == 0xffff;
}

/* ---- what is held -----------------------------------------------------------------------------
 *
 * "&#...;" and the three bytes of U+FFFE and U+FFFF may need a mask. What may become one of them is
 * held until the next byte decides.
 */

#define UTF8_FIRST '\xef' /* of U+FFFE and U+FFFF, */
#define UTF8_SECOND '\xbf'

/* Whether the third byte makes it U+FFFE or U+FFFF. */
static bool is_third(char c) { return c == '\xbe' || c == '\xbf'; }

/* Whether a byte goes on with what is held. */
static bool goes_on(const struct shard_s3_page *p, char c) {
  if (p->held[0] == UTF8_FIRST) {
    return p->held_used == 1 ? c == UTF8_SECOND : is_third(c);
  }
  return p->held_used + 2 < sizeof(p->held) && !is_control(c) && c != '<' && c != '&' &&
         (p->held_used > 1 || c == '#');
}

/* Give the parser what is held, as it is or masked. */
static int release(struct shard_s3_page *p) {
  size_t n = p->held_used;
  p->held[n] = 0;
  p->held_used = 0;
  if (p->held[0] == UTF8_FIRST) {
    return n == 3 ? parse_mask(p, '?') : parse_bytes(p, p->held, n);
  }
  bool whole = n > 2 && p->held[n - 1] == ';';
  unsigned long named = whole ? read_reference(p->held) : '?';
  return needs_mask(named) ? parse_mask(p, named) : parse_bytes(p, p->held, n);
}

/* Go on with what is held. *used: the bytes of data that belong to it. */
static int finish_held(struct shard_s3_page *p, const char *data, size_t size, size_t *used) {
  for (*used = 0; *used < size; ++*used) {
    if (!goes_on(p, data[*used])) {
      return release(p);
    }
    p->held[p->held_used++] = data[*used];
    if (data[*used] == ';' || (p->held[0] == UTF8_FIRST && p->held_used == 3)) {
      ++*used;
      return release(p);
    }
  }
  return 0;
}

/* How many bytes come before the first that must be held. */
static size_t before_held(const char *data, size_t size) {
  for (const char *at = data; (at = memchr(at, '&', size - (size_t)(at - data))) != NULL; at++) {
    if (at + 1 == data + size || at[1] == '#') {
      size = (size_t)(at - data);
      break;
    }
  }
  for (const char *at = data; (at = memchr(at, UTF8_FIRST, size - (size_t)(at - data))); at++) {
    size_t left = size - (size_t)(at - data);
    if (left == 1 || (at[1] == UTF8_SECOND && (left == 2 || is_third(at[2])))) {
      return size - left;
    }
  }
  return size;
}

/* Parse a piece, with masks in place of what needs them. */
static int feed_masked(struct shard_s3_page *p, const char *data, size_t size) {
  for (size_t at = 0; at < size;) {
    size_t n;
    int rc;
    if (p->held_used > 0) {
      rc = finish_held(p, data + at, size - at, &n);
    } else {
      size_t run = before_mask(data + at, size - at);
      n = before_held(data + at, run);
      rc = n > 0 ? parse_bytes(p, data + at, n) : 0;
      if (rc == 0 && n < run) {
        p->held[0] = data[at + n];
        p->held_used = 1;
        n++;
      } else if (rc == 0 && at + n < size) {
        rc = parse_mask(p, (unsigned char)data[at + n]);
        n++;
      }
    }
    if (rc != 0) {
      return rc;
    }
    at += n;
  }
  return 0;
}

/* ---- what is left out --------------------------------------------------------------------------
 *
 * Only the key of an entry is wanted. Dates, sizes and hashes are three quarters of a page, and
 * would cost most of the parser's time. So it does not get what stands between </Key> and
 * </Contents>. Elements with a prefix (<s3:Key>) do not match the marks: it then gets all.
 */

static const struct {
  const char *text;
  size_t length;
} marks[STATES] = {{"<Contents>", 10}, {"</Key>", 6}, {"</Contents>", 11}};

/*
 * Go on looking for the state's mark. The number of bytes up to its end, or all if it is not found.
 * A mark's only '<' is its first byte, so a mark that breaks off does not overlap with the next.
 */
static size_t find_mark(struct shard_s3_page *p, const char *data, size_t size, bool *found) {
  const char *mark = marks[p->state].text;
  size_t length = marks[p->state].length, begun = p->matched, at = 0;
  *found = false;
  if (begun > 0) {
    while (at < size && begun < length && data[at] == mark[begun]) {
      at++;
      begun++;
    }
    if (begun == length || at == size) {
      *found = begun == length;
      p->matched = *found ? 0 : begun;
      return at;
    }
    p->matched = 0;
  }
  const char *hit = memmem(data, size, mark, length);
  if (hit) {
    *found = true;
    return (size_t)(hit - data) + length;
  }
  size_t tail = size < length - 1 ? size : length - 1;
  const char *last = memrchr(data + size - tail, '<', tail);
  size_t rest = last ? (size_t)(data + size - last) : 0;
  p->matched = rest > 0 && memcmp(last, mark, rest) == 0 ? rest : 0;
  return size;
}

/* Gather pieces for the parser: it is slow with many small ones. */
static int gather_bytes(struct shard_s3_page *p, const char *data, size_t size) {
  while (size > 0) {
    size_t n = sizeof(p->gathered) - p->gathered_used;
    n = n < size ? n : size;
    memcpy(p->gathered + p->gathered_used, data, n);
    p->gathered_used += n;
    data += n;
    size -= n;
    if (p->gathered_used == sizeof(p->gathered)) {
      p->gathered_used = 0;
      int rc = feed_masked(p, p->gathered, sizeof(p->gathered));
      if (rc != 0) {
        return rc;
      }
    }
  }
  return 0;
}

/* Give the parser what has been gathered. */
static int flush_gathered(struct shard_s3_page *p) {
  size_t n = p->gathered_used;
  p->gathered_used = 0;
  return n > 0 ? feed_masked(p, p->gathered, n) : 0;
}

/*
 * Take the key of an entry without the parser. That is safe if the entry follows another without a
 * gap (`adjacent`), and its key has no character with a meaning in XML. The number of bytes up to
 * the end of the key's end tag, or 0 if the parser must read the entry.
 */
static size_t take_directly(struct shard_s3_page *p, const char *data, size_t size) {
  static const char begin[] = "<Contents><Key>";
  const size_t before = sizeof(begin) - 1;
  if (!p->adjacent || p->matched > 0 || p->folders || size < before ||
      memcmp(data, begin, before) != 0) {
    return 0;
  }
  data += before;
  size -= before;
  const char *end = memchr(data, '<', size);
  size_t n = end ? (size_t)(end - data) : 0;
  unsigned char strange = 0;
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)data[i];
    strange |= (unsigned char)((c < 0x20) | (c > 0x7e) | (c == '&') | (c == '>'));
  }
  if (n == 0 || n > SHARD_S3_TOKEN_MAX || strange || size - n < marks[BEFORE_KEY_END].length ||
      memcmp(end, marks[BEFORE_KEY_END].text, marks[BEFORE_KEY_END].length) != 0) {
    return 0;
  }
  uint32_t length = (uint32_t)n;
  char *to = reserve_key(p, sizeof(length) + n);
  if (!to) {
    return 0;
  }
  memcpy(to, &length, sizeof(length));
  memcpy(to + sizeof(length), data, n);
  p->count++;
  return before + n + marks[BEFORE_KEY_END].length;
}

/* </Contents> has come. */
static int end_entry(struct shard_s3_page *p) {
  int rc = 0;
  if (!p->direct) {
    rc = gather_bytes(p, marks[BEFORE_ENTRY_END].text, marks[BEFORE_ENTRY_END].length);
    rc = rc == 0 ? flush_gathered(p) : rc;
    /* The parser has seen this entry end, and has been given nothing behind it. */
    p->adjacent = p->entry_end == p->parsed && p->held_used == 0;
  }
  p->direct = false;
  return rc;
}

int shard_s3_page_feed(struct shard_s3_page *p, const char *data, size_t size) {
  p->received += size;
  if (p->received > SHARD_S3_PAGE_MAX) {
    return fail(p, "the reply is larger than a page can be");
  }
  int rc = 0;
  for (size_t at = 0; at < size && rc == 0;) {
    size_t n = p->state == BEFORE_ENTRY ? take_directly(p, data + at, size - at) : 0;
    if (n > 0) {
      p->direct = true;
      p->state = BEFORE_ENTRY_END;
      at += n;
      continue;
    }
    bool found;
    n = find_mark(p, data + at, size - at, &found);
    if (p->state != BEFORE_ENTRY_END) {
      p->adjacent = false;
      rc = gather_bytes(p, data + at, n);
    } else if (found) {
      rc = end_entry(p);
    }
    p->state = found ? (p->state + 1) % STATES : p->state;
    at += n;
  }
  return rc == 0 ? flush_gathered(p) : rc;
}

/* Decode the keys, in place: no key gets longer. */
static int decode_keys(struct shard_s3_page *p) {
  size_t to = 0;
  uint32_t n;
  for (size_t at = 0; at < p->used; at += sizeof(n) + n) {
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
    memmove(p->keys + to + sizeof(kept), key, kept);
    to += sizeof(kept) + kept;
  }
  p->used = to;
  return 0;
}

int shard_s3_page_end(struct shard_s3_page *p) {
  parsing = p;
  if (XML_Parse(p->parser, p->held, (int)p->held_used, XML_TRUE) != XML_STATUS_OK || !p->ended) {
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
  *at += sizeof(n) + n;
  *length = n;
  return key;
}

void shard_s3_page_free(struct shard_s3_page *p) {
  if (p->parser) {
    free_parser(p);
  }
  free(p->keys);
  free(p->token);
  free(p->text);
  *p = (struct shard_s3_page){0};
}
