/* SPDX-License-Identifier: MIT */
/*
 * split.c - a guess that costs a request if it is wrong, and never a key.
 *
 * Names are mostly made by programs: at some positions all keys of a range have the same byte
 * ("img_0000"), at others it varies over digits, hexadecimal digits or letters. So:
 *
 * - Where all keys seen agree, but nothing says that further keys do, the key space above is
 *   unknown. We ask for what follows the last such position ("img_0000" -> after "img_0001"). If
 *   there is nothing, that is known of all positions before it too, for the range now ends there;
 *   if there is something, its first page tells more: the steps grow tenfold each time.
 * - Where bytes vary, the middle one of those that may come (the rest of the digits, say) halves
 *   the range. If none may come, the next position is looked at.
 */
#include "source/s3/split.h"

#include <string.h>

static size_t shared(const char *a, size_t na, const char *b, size_t nb) {
  size_t n = na < nb ? na : nb, i = 0;
  while (i < n && a[i] == b[i]) {
    i++;
  }
  return i;
}

int shard_s3_compare(const char *a, size_t na, const char *b, size_t nb) {
  int order = memcmp(a, b, na < nb ? na : nb);
  return order ? order : (na > nb) - (na < nb);
}

static bool has(const struct shard_s3_seen *seen, size_t position, unsigned byte) {
  return seen->bits[position][byte / 64] >> (byte % 64) & 1;
}

static int varieties(const struct shard_s3_seen *seen, size_t position) {
  int n = 0;
  for (int i = 0; i < 4; i++) {
    n += __builtin_popcountll(seen->bits[position][i]);
  }
  return n;
}

void shard_s3_seen_add(struct shard_s3_seen *seen, const char *before, size_t before_length,
                       const char *key, size_t length) {
  size_t i = before ? shared(before, before_length, key, length) : 0;
  for (; i < length && i < SHARD_S3_KEY_MAX; i++) {
    unsigned byte = (unsigned char)key[i];
    seen->bits[i][byte / 64] |= 1ULL << (byte % 64);
  }
}

/* The bytes that may come where `byte` stands: its kind, from *first to *last. */
static void kind_of(const struct shard_s3_seen *seen, size_t position, int byte, int *first,
                    int *last) {
  *first = *last = byte;
  if (byte >= '0' && byte <= '9') {
    *first = '0';
    *last = '9';
  } else if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') {
    bool digits = false, beyond = false;
    int a = byte & ~0x1f; /* 0x40 or 0x60 */
    for (int c = '0'; c <= '9'; c++) {
      digits = digits || has(seen, position, (unsigned)c);
    }
    for (int c = a + 7; c <= a + 26; c++) {
      beyond = beyond || has(seen, position, (unsigned)c);
    }
    *first = a + 1;
    *last = digits && !beyond ? a + 6 : a + 26; /* hexadecimal? */
  }
}

static bool may_come(const struct shard_s3_seen *seen, size_t position, int byte, int c) {
  int first, last;
  if (has(seen, position, (unsigned)c)) {
    return true;
  }
  kind_of(seen, position, byte, &first, &last);
  return c >= first && c <= last && first < last;
}

/* The first byte of what cannot begin with at[0..position], such that it is text. */
static int next_byte(int byte) {
  return byte < 0x20 ? 0x20 : byte == 0x7f || byte == 0xdf || byte == 0xef ? byte + 2 : byte + 1;
}

/* Complete a UTF-8 sequence that was cut. false: what is there is not UTF-8. */
static bool complete(struct shard_s3_text *t) {
  size_t i = 0;
  while (i < t->length) {
    unsigned lead = (unsigned char)t->bytes[i];
    size_t need = lead < 0x80                   ? 1
                  : lead >= 0xc2 && lead < 0xe0 ? 2
                  : lead >= 0xe0 && lead < 0xf0 ? 3
                  : lead >= 0xf0 && lead < 0xf5 ? 4
                                                : 0;
    if (need == 0 || lead == 0) {
      return false;
    }
    while (t->length < i + need) {
      bool second = t->length == i + 1;
      t->bytes[t->length++] = (char)(second && lead == 0xe0   ? 0xa0
                                     : second && lead == 0xf0 ? 0x90
                                                              : 0x80);
    }
    for (size_t k = 1; k < need; k++) {
      unsigned c = (unsigned char)t->bytes[i + k];
      unsigned least = k > 1 ? 0x80 : lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
      unsigned most = k > 1 ? 0xbf : lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
      if (c < least || c > most) {
        return false;
      }
    }
    if (lead == 0xef && memcmp(t->bytes + i + 1, "\xbf\xbe", 2) >= 0) {
      return false; /* U+FFFE and U+FFFF cannot stand in the XML that repeats it */
    }
    i += need;
  }
  return t->length <= SHARD_S3_KEY_MAX;
}

/* middle = at[0..position] and a byte; whether it lies between at and end. */
static bool try(const struct shard_s3_span *s, const char *base, size_t position, int byte,
                struct shard_s3_text *middle) {
  if (byte > 0xf4 || position >= SHARD_S3_KEY_MAX) {
    return false;
  }
  memcpy(middle->bytes, base, position);
  middle->bytes[position] = (char)byte;
  middle->length = position + 1;
  return complete(middle) &&
         shard_s3_compare(middle->bytes, middle->length, s->at->bytes, s->at->length) > 0 &&
         (!s->end ||
          shard_s3_compare(middle->bytes, middle->length, s->end->bytes, s->end->length) < 0);
}

/* Where `at` and `end` part, and the byte of `end` there (256: none); past what is closed. */
static size_t first_open(const struct shard_s3_span *s, int *upper) {
  *upper = 256;
  if (!s->end) {
    return s->prefix < s->at->length ? s->prefix : s->at->length;
  }
  size_t p = shared(s->at->bytes, s->at->length, s->end->bytes, s->end->length);
  if (p >= s->end->length) {
    return p; /* cannot be: at lies before end */
  }
  *upper = (unsigned char)s->end->bytes[p];
  int lower = p < s->at->length ? (unsigned char)s->at->bytes[p] : -1;
  if (lower >= 0 && next_byte(lower) >= *upper && p + 1 == s->end->length) {
    *upper = 256;
    return p + 1; /* all that is left begins with at[0..p] */
  }
  return p;
}

/* The first position from `from` on where bytes have been seen to vary, at most at's length. */
static size_t first_varied(const struct shard_s3_span *s, size_t from) {
  while (from < s->at->length && from < SHARD_S3_KEY_MAX && varieties(s->seen, from) < 2) {
    from++;
  }
  return from;
}

/* Halve at this position. */
static bool halve(const struct shard_s3_span *s, size_t position, int upper,
                  struct shard_s3_text *middle) {
  if (position >= SHARD_S3_KEY_MAX) {
    return false;
  }
  int lower = position < s->at->length ? (unsigned char)s->at->bytes[position] : -1;
  int candidates[256], n = 0;
  for (int c = lower + 1; c < upper && c < 256; c++) {
    if (may_come(s->seen, position, lower, c)) {
      candidates[n++] = c;
    }
  }
  return n > 0 && try(s, s->at->bytes, position, candidates[(n - 1) / 2], middle);
}

bool shard_s3_split(const struct shard_s3_span *s, struct shard_s3_text *middle) {
  int upper;
  size_t from = first_open(s, &upper), varied = first_varied(s, from);
  if (varied > from) {
    size_t last = varied - 1;
    int byte = (unsigned char)s->at->bytes[last];
    if (try(s, s->at->bytes, last, next_byte(byte), middle)) {
      return true;
    }
  }
  /* The end goes on where `at` is one byte behind it: "a/39", "a/45" are parted at "a/4". */
  int lower = from < s->at->length ? (unsigned char)s->at->bytes[from] : -1;
  if (upper < 256 && lower >= 0 && lower + 1 == upper &&
      try(s, s->at->bytes, from, upper, middle)) {
    return true;
  }
  for (size_t i = varied; i <= s->at->length; i++) {
    if (halve(s, i, i == from ? upper : 256, middle)) {
      return true;
    }
  }
  return false;
}

/* How far a key is on the way through the positions from `from` on, 0 to 1. */
static double place(const struct shard_s3_seen *seen, size_t from, const char *key, size_t length) {
  double at = 0, scale = 1;
  for (size_t i = from; i < SHARD_S3_KEY_MAX && scale > 1e-14; i++) {
    int byte = i < length ? (unsigned char)key[i] : -1, below = 0, all = 0;
    int kinds = varieties(seen, i);
    if (kinds == 0) {
      break;
    }
    for (int c = 0; kinds > 1 && c < 256; c++) {
      if (has(seen, i, (unsigned)c) || (byte >= 0 && may_come(seen, i, byte, c))) {
        all++;
        below += c < byte;
      }
    }
    if (kinds > 1 && all > 0) {
      at += scale * below / all;
      scale /= all;
    }
    if (byte < 0) {
      break;
    }
  }
  return at;
}

double shard_s3_left(const struct shard_s3_span *s, const struct shard_s3_text *first,
                     uint64_t count) {
  int upper;
  size_t from = first_open(s, &upper);
  if (first_varied(s, from) > from) {
    return SHARD_S3_UNKNOWN;
  }
  double now = place(s->seen, from, s->at->bytes, s->at->length), begin = 0, end = 1;
  if (shared(first->bytes, first->length, s->at->bytes, s->at->length) >= from) {
    begin = place(s->seen, from, first->bytes, first->length);
  }
  if (upper < 256) {
    end = place(s->seen, from, s->end->bytes, s->end->length);
  }
  if (end <= now) {
    return 0;
  }
  return now > begin ? (double)count * (end - now) / (now - begin) : SHARD_S3_UNKNOWN;
}
