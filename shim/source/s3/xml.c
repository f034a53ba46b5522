/* SPDX-License-Identifier: MIT */
#include "source/s3/xml.h"

#include <stdlib.h>
#include <string.h>

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Whether what is left begins with a mark, and has its end. Then at follows that, and *inside is
 * what lies between. */
static bool skip(struct shard_xml *x, const char *begin, const char *end,
                 struct shard_xml_word *inside) {
  size_t n = strlen(begin), left = (size_t)(x->end - x->at);
  char *stop = left >= n && memcmp(x->at, begin, n) == 0
                   ? memmem(x->at + n, left - n, end, strlen(end))
                   : NULL;
  if (stop) {
    *inside = (struct shard_xml_word){x->at + n, (size_t)(stop - x->at) - n};
    x->at = stop + strlen(end);
  }
  return stop;
}

/* ---- text ---- */

/* Write a character as UTF-8. Returns its bytes; 0: there is no such character. */
static size_t put_character(char *to, unsigned long c) {
  if (c < 0x80) {
    to[0] = (char)c;
    return 1;
  }
  size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : c < 0x110000 ? 4 : 0;
  for (size_t i = n; i > 1; i--, c >>= 6) {
    to[i - 1] = (char)(0x80 | (c & 0x3f));
  }
  to[0] = n > 0 ? (char)((0xf00UL >> n) | c) : 0;
  return n;
}

/* Decode the reference, "&amp;" or "&#38;", that text[size] begins with. Returns its bytes; 0: it
 * is none. *n: the bytes written to `to`, which may be `text` itself. */
static size_t decode(const char *text, size_t size, char *to, size_t *n) {
  static const char *const names[] = {"&lt;", "<",      "&gt;", ">",      "&amp;",
                                      "&",    "&quot;", "\"",   "&apos;", "'"};
  char reference[12] = "", *rest;
  const char *semicolon =
      memchr(text, ';', size < sizeof(reference) ? size : sizeof(reference) - 1);
  size_t length = semicolon ? (size_t)(semicolon - text) + 1 : 0;
  memcpy(reference, text, length);
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i += 2) {
    if (strcmp(reference, names[i]) == 0) {
      *to = *names[i + 1];
      *n = 1;
      return length;
    }
  }
  bool hexadecimal = reference[2] == 'x';
  const char *digits = reference + (hexadecimal ? 3 : 2);
  unsigned long c = strtoul(digits, &rest, hexadecimal ? 16 : 10);
  bool number = length > 3 && reference[1] == '#' && rest > digits && *rest == ';' &&
                strspn(digits, "0123456789abcdefABCDEF") > 0;
  *n = number ? put_character(to, c) : 0;
  return *n > 0 ? length : 0;
}

/* Add from[n] to the text of the open element; outside of the root there are only blanks. */
static bool add_text(struct shard_xml *x, const char *from, size_t n, bool decoded) {
  const char *end = from + n;
  for (size_t plain; from < end; from += plain) {
    const char *mark = decoded ? NULL : memchr(from, '&', (size_t)(end - from));
    plain = (size_t)((mark ? mark : end) - from);
    for (size_t i = 0; x->depth == 0 && i < plain; i++) {
      if (!is_blank(from[i])) {
        return false;
      }
    }
    memmove(x->text.bytes + x->text.length, from, plain);
    x->text.length += plain;
    if (mark) {
      size_t written, used = x->depth == 0 ? 0
                                           : decode(mark, (size_t)(end - mark),
                                                    x->text.bytes + x->text.length, &written);
      if (used == 0) {
        return false;
      }
      x->text.length += written;
      plain += used;
    }
  }
  return true;
}

/* ---- elements ---- */

static void set_name(struct shard_xml *x, const struct shard_xml_word *whole) {
  char *colon = memrchr(whole->bytes, ':', whole->length);
  size_t before = colon ? (size_t)(colon - whole->bytes) + 1 : 0;
  x->name = (struct shard_xml_word){whole->bytes + before, whole->length - before};
}

static enum shard_xml_event begin_element(struct shard_xml *x) {
  char *name = x->at + 1, *p = name, quote = 0;
  while (p < x->end && !is_blank(*p) && *p != '/' && *p != '>' && *p != '<') {
    p++;
  }
  struct shard_xml_word word = {name, (size_t)(p - name)};
  for (; p < x->end && (quote || *p != '>'); p++) {
    if (*p == '<') {
      return SHARD_XML_DAMAGED;
    }
    if (quote ? *p == quote : *p == '"' || *p == '\'') {
      quote = quote ? 0 : *p;
    }
  }
  if (p == x->end || word.length == 0 || *name == '!' || x->depth == SHARD_XML_DEPTH ||
      (x->depth == 0 && x->has_root)) {
    return SHARD_XML_DAMAGED;
  }
  x->has_root = true;
  x->is_empty = p[-1] == '/';
  x->open[x->depth++] = word;
  x->at = p + 1;
  x->text = (struct shard_xml_word){x->at, 0};
  set_name(x, &word);
  return SHARD_XML_BEGINS;
}

static enum shard_xml_event end_element(struct shard_xml *x) {
  set_name(x, &x->open[--x->depth]);
  return SHARD_XML_ENDS;
}

/* "</name>" */
static enum shard_xml_event read_end(struct shard_xml *x) {
  struct shard_xml_word inside;
  if (x->depth == 0 || !skip(x, "</", ">", &inside)) {
    return SHARD_XML_DAMAGED;
  }
  while (inside.length > 0 && is_blank(inside.bytes[inside.length - 1])) {
    inside.length--;
  }
  const struct shard_xml_word *open = &x->open[x->depth - 1];
  bool same = inside.length == open->length && memcmp(inside.bytes, open->bytes, open->length) == 0;
  return same ? end_element(x) : SHARD_XML_DAMAGED;
}

void shard_xml_open(struct shard_xml *x, char *reply, size_t size) {
  *x = (struct shard_xml){.at = reply, .end = reply + size, .text = {reply, 0}};
  if (size >= 3 && memcmp(reply, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
    x->at += 3;
  }
}

enum shard_xml_event shard_xml_next(struct shard_xml *x) {
  if (x->is_empty) {
    x->is_empty = false;
    return end_element(x);
  }
  x->text.length = 0;
  while (x->at < x->end) {
    struct shard_xml_word inside;
    char *mark = memchr(x->at, '<', (size_t)(x->end - x->at));
    size_t n = (size_t)((mark ? mark : x->end) - x->at);
    if (!add_text(x, x->at, n, false)) {
      return SHARD_XML_DAMAGED;
    }
    x->at += n;
    if (!mark || skip(x, "<!--", "-->", &inside) || skip(x, "<?", "?>", &inside)) {
      continue;
    }
    if (x->depth > 0 && skip(x, "<![CDATA[", "]]>", &inside)) {
      add_text(x, inside.bytes, inside.length, true);
      continue;
    }
    return x->at + 1 < x->end && x->at[1] == '/' ? read_end(x) : begin_element(x);
  }
  return x->depth == 0 && x->has_root ? SHARD_XML_WHOLE : SHARD_XML_DAMAGED;
}

bool shard_xml_is(const struct shard_xml *x, const char *name) {
  return strlen(name) == x->name.length && memcmp(name, x->name.bytes, x->name.length) == 0;
}
