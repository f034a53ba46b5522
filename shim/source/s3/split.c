/* SPDX-License-Identifier: MIT */
/*
 * split.c - guesses. A wrong one costs a request, and never a key.
 *
 * Programs make most names. At some positions all keys of a range have the same byte ("img_0000");
 * at others the byte varies over digits, hexadecimal digits or letters. So:
 *
 * - Where all keys seen have the same byte, further keys may have another. We ask for what follows
 *   the last such position: after "img_0000", for what comes after "img_0001". If nothing does, the
 *   range ends there, for all positions before it, too. If something does, its first page tells
 *   more. The steps grow tenfold, and several are taken at a time.
 * - Where bytes vary, we read a key as a number with a digit for each byte. A page then tells how
 *   many keys a stretch of numbers holds, and a range can be divided in any proportion.
 */
#include "source/s3/split.h"

#include <string.h>

#include "base/utf8.h"

void shard_s3_split_note(struct shard_s3_seen *seen, const char *before, size_t before_length,
                         const char *key, size_t length) {
  size_t i = before ? shard_s3_split_shared(before, before_length, key, length) : 0;
  for (; i < length && i < SHARD_S3_KEY_MAX; i++) {
    unsigned byte = (unsigned char)key[i];
    seen->bits[i][byte / 64] |= 1ULL << (byte % 64);
  }
}

/* ---- a ruler for keys -------------------------------------------------------------------------
 *
 * The alphabet of a position is the bytes that may come there: those seen, and where they vary,
 * others of their kind. A key is then a number from 0 to 1, with a digit for each of its bytes.
 */

#define RULED 40 /* positions of a ruler; later ones do not matter */

struct alphabet {
  uint64_t bits[4];
};

struct ruler {
  size_t from; /* the first position */
  size_t count;
  struct alphabet at[RULED];
};

#define DIGITS (0x3ffULL << '0')
#define LETTERS(from, n) (((1ULL << (n)) - 1) << ((from)-64))
#define HEXADECIMAL (LETTERS('a', 6) | LETTERS('A', 6))

static int count_bytes(const struct alphabet *a) {
  int n = 0;
  for (int i = 0; i < 4; i++) {
    n += __builtin_popcountll(a->bits[i]);
  }
  return n;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool has_byte(const struct alphabet *a, unsigned byte) {
  return a->bits[byte / 64] >> (byte % 64) & 1;
}

/* How many of its bytes come before `byte`. */
static int count_below(const struct alphabet *a, unsigned byte) {
  int n = 0;
  for (unsigned i = 0; i < byte / 64; i++) {
    n += __builtin_popcountll(a->bits[i]);
  }
  return n + __builtin_popcountll(a->bits[byte / 64] & ((1ULL << (byte % 64)) - 1));
}

/* Its byte that n others come before. */
static unsigned member_at(const struct alphabet *a, int n) {
  unsigned byte = 0;
  while (!has_byte(a, byte) || n-- > 0) {
    byte++;
  }
  return byte;
}

/* Whether all are digits of a base up to 16; a single one must be from 0 to 9. */
static bool are_digits(const struct alphabet *a) {
  return (a->bits[0] & ~DIGITS) == 0 && (a->bits[1] & ~HEXADECIMAL) == 0 && !a->bits[2] &&
         !a->bits[3] && (a->bits[0] || count_bytes(a) > 1);
}

/* Add what else may come, where bytes vary. */
static void widen_alphabet(struct alphabet *a) {
  uint64_t lower = a->bits[1] & LETTERS('a', 26), upper = a->bits[1] & LETTERS('A', 26);
  bool digits = a->bits[0] & DIGITS;
  a->bits[0] |= digits ? DIGITS : 0;
  if (lower) {
    a->bits[1] |= digits && !(lower & ~HEXADECIMAL) ? LETTERS('a', 6) : LETTERS('a', 26);
  }
  if (upper) {
    a->bits[1] |= digits && !(upper & ~HEXADECIMAL) ? LETTERS('A', 6) : LETTERS('A', 26);
  }
  if (a->bits[2]) {
    a->bits[2] = ~0ULL; /* any of the later bytes of a UTF-8 sequence may come */
  }
  if (a->bits[3]) { /* of the first bytes, those between, and one more */
    int first = __builtin_ctzll(a->bits[3]), last = 63 - __builtin_clzll(a->bits[3]);
    last += last < 0xf4 - 0xc0;
    a->bits[3] |= (~0ULL << first) & (~0ULL >> (63 - last));
  }
}

/*
 * Where a digit of a number ("0100999") varies, those behind it will, too, even if they have not
 * yet. The number is hexadecimal if any of its positions is.
 */
static void widen_numbers(struct ruler *r) {
  for (size_t i = 0; i < r->count; i++) {
    struct alphabet all = {{0}};
    size_t end = i;
    for (; end < r->count && are_digits(&r->at[end]); end++) {
      all.bits[0] |= r->at[end].bits[0];
      all.bits[1] |= r->at[end].bits[1];
    }
    bool varied = false, lower = all.bits[1] & LETTERS('a', 6),
         upper = all.bits[1] & LETTERS('A', 6);
    for (; all.bits[0] && i < end; i++) {
      varied = varied || count_bytes(&r->at[i]) > 1;
      if (varied) {
        r->at[i].bits[0] |= DIGITS;
        r->at[i].bits[1] |= (lower ? LETTERS('a', 6) : 0) | (upper ? LETTERS('A', 6) : 0);
      }
    }
  }
}

/* Make a ruler that begins at `from`. The positions before it, back to the prefix, tell whether it
 * begins inside a number. */
static void make_ruler(struct ruler *r, const struct shard_s3_span *s, size_t from) {
  size_t begin = from - s->prefix < RULED / 2 ? s->prefix : from - RULED / 2;
  for (r->count = 0; r->count < RULED && begin + r->count < SHARD_S3_KEY_MAX; r->count++) {
    struct alphabet *a = &r->at[r->count];
    memcpy(a->bits, s->seen->bits[begin + r->count], sizeof(a->bits));
    if (count_bytes(a) == 0) {
      break;
    }
  }
  widen_numbers(r);
  for (size_t i = 0; i < r->count; i++) {
    if (count_bytes(&r->at[i]) > 1) {
      widen_alphabet(&r->at[i]);
    }
  }
  size_t skip = from - begin < r->count ? from - begin : r->count;
  r->from = from;
  r->count -= skip;
  memmove(r->at, r->at + skip, r->count * sizeof(r->at[0]));
}

/* The number of a key. */
static double place_key(const struct ruler *r, const char *key, size_t length) {
  double at = 0, scale = 1;
  for (size_t i = 0; i < r->count && r->from + i < length && scale > 1e-15; i++) {
    unsigned byte = (unsigned char)key[r->from + i];
    int n = count_bytes(&r->at[i]);
    if (n > 1 || !has_byte(&r->at[i], byte)) { /* a byte that cannot be lies between two */
      at += scale * count_below(&r->at[i], byte) / n;
    }
    if (!has_byte(&r->at[i], byte)) {
      break;
    }
    scale /= n;
  }
  return at;
}

/* The first byte of what cannot begin with at[0..position], such that it is text. */
static int next_byte(int byte) {
  return byte < 0x20 ? 0x20 : byte == 0x7f || byte == 0xdf || byte == 0xef ? byte + 2 : byte + 1;
}

/* Complete a UTF-8 sequence that was cut. false: what is there is not UTF-8, from *good on. */
static bool complete_from(struct shard_s3_text *t, size_t *good) {
  size_t i = 0;
  for (size_t need; i < t->length; i += need) {
    *good = i;
    unsigned lead = (unsigned char)t->bytes[i];
    need = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    while (t->length < i + need) {
      bool second = t->length == i + 1;
      t->bytes[t->length++] = (char)(second && lead == 0xe0   ? 0xa0
                                     : second && lead == 0xf0 ? 0x90
                                                              : 0x80);
    }
    /* U+FFFE and U+FFFF cannot stand in the XML that repeats it. */
    if (lead == 0 || shard_utf8_character(t->bytes + i) == 0 ||
        (lead == 0xef && memcmp(t->bytes + i + 1, "\xbf\xbe", 2) >= 0)) {
      return false;
    }
  }
  *good = i <= SHARD_S3_KEY_MAX ? i : *good;
  return t->length <= SHARD_S3_KEY_MAX;
}

static bool complete_text(struct shard_s3_text *t) {
  size_t good = 0;
  return complete_from(t, &good);
}

bool shard_s3_split_is_text(const char *bytes, size_t length) {
  struct shard_s3_text t = {.length = length};
  if (length > SHARD_S3_KEY_MAX) {
    return false;
  }
  memcpy(t.bytes, bytes, length);
  return complete_text(&t) && t.length == length;
}

static bool is_between(const struct shard_s3_span *s, const struct shard_s3_text *t) {
  return shard_codec_compare_bytes(t->bytes, t->length, s->at->bytes, s->at->length) > 0 &&
         (!s->end ||
          shard_codec_compare_bytes(t->bytes, t->length, s->end->bytes, s->end->length) < 0);
}

/* middle = at[0..position] and a byte; whether it lies between at and end. */
static bool try_byte(const struct shard_s3_span *s, const char *base, size_t position, int byte,
                     struct shard_s3_text *middle) {
  if (byte > 0xf4 || position >= SHARD_S3_KEY_MAX) {
    return false;
  }
  memcpy(middle->bytes, base, position);
  middle->bytes[position] = (char)byte;
  middle->length = position + 1;
  return complete_text(middle) && is_between(s, middle);
}

/* The position where `at` and `end` part, and the byte of `end` there (256: none). If no key can
 * lie between the two bytes, the position behind. */
static size_t first_open(const struct shard_s3_span *s, int *upper) {
  *upper = 256;
  if (!s->end) {
    return s->prefix < s->at->length ? s->prefix : s->at->length;
  }
  size_t p = shard_s3_split_shared(s->at->bytes, s->at->length, s->end->bytes, s->end->length);
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

/* The first position from `from` on where bytes may vary, at most at's length; its ruler. */
static size_t first_varied(const struct shard_s3_span *s, size_t from, struct ruler *r) {
  make_ruler(r, s, from);
  if (r->count > 0 && count_bytes(&r->at[0]) > 1) {
    return from;
  }
  for (; from < s->at->length && from < SHARD_S3_KEY_MAX; from++) {
    struct alphabet a;
    memcpy(a.bits, s->seen->bits[from], sizeof(a.bits));
    if (count_bytes(&a) > 1) {
      break;
    }
  }
  make_ruler(r, s, from);
  return from;
}

/* The text whose number is `value`, to within `tolerance`. */
static bool text_at(const struct shard_s3_span *s, const struct ruler *r, double value,
                    double tolerance, struct shard_s3_text *middle) {
  double scale = 1;
  memcpy(middle->bytes, s->at->bytes, r->from);
  middle->length = r->from;
  for (size_t i = 0; i < r->count && scale > tolerance; i++) {
    int n = count_bytes(&r->at[i]), digit = (int)(value * n);
    digit = digit < n ? digit : n - 1;
    middle->bytes[middle->length++] = (char)member_at(&r->at[i], digit);
    value = value * n - digit;
    scale /= n;
  }
  size_t good = 0;
  if (!complete_from(middle, &good)) {
    middle->length = good;
  }
  return is_between(s, middle);
}

/*
 * Guess what follows all keys that begin like those seen: raise the last byte in which they agree.
 * If `at` is itself a guess without an answer, step further: raise the digit before it, or the byte
 * before it of the same character. From "img_0000": "img_0001", "img_001", "img_01", "img_1".
 */
static bool step_beyond(const struct shard_s3_span *s, size_t from, size_t varied,
                        struct shard_s3_text *middle) {
  const char *at = s->at->bytes;
  size_t last = varied - 1;
  if (s->guess) {
    while (last > from && at[last] == (char)0x80) { /* what completed a character */
      last--;
    }
    if (last == from || (!is_digit(at[last - 1]) && ((unsigned char)at[last] & 0xc0) != 0x80)) {
      return false;
    }
    last--;
  }
  return try_byte(s, at, last, next_byte((unsigned char)at[last]), middle);
}

bool shard_s3_split_between(const struct shard_s3_span *s, double part,
                            struct shard_s3_text *middle) {
  int upper;
  struct ruler r;
  size_t from = first_open(s, &upper);
  size_t varied = first_varied(s, from, &r);
  if (varied > from && step_beyond(s, from, varied, middle)) {
    return true;
  }
  if (s->guess) {
    return false;
  }
  double now = place_key(&r, s->at->bytes, s->at->length), end = 1;
  if (upper < 256 && varied == from) {
    end = place_key(&r, s->end->bytes, s->end->length);
  }
  return end > now && text_at(s, &r, now + part * (end - now), (end - now) / 512, middle);
}

double shard_s3_split_left(const struct shard_s3_span *s, const struct shard_s3_text *first,
                           uint64_t count) {
  int upper;
  struct ruler r;
  size_t from = first_open(s, &upper);
  if (first_varied(s, from, &r) > from) {
    return SHARD_S3_UNKNOWN;
  }
  size_t same = shard_s3_split_shared(first->bytes, first->length, s->at->bytes, s->at->length);
  if (same < from) { /* the page began before what is left */
    from = same;
    make_ruler(&r, s, from);
    upper = s->end ? 0 : 256;
  }
  double begin = place_key(&r, first->bytes, first->length);
  double now = place_key(&r, s->at->bytes, s->at->length);
  double end = upper < 256 ? place_key(&r, s->end->bytes, s->end->length) : 1;
  if (end <= now) {
    return 0;
  }
  return now > begin ? (double)count * (end - now) / (now - begin) : SHARD_S3_UNKNOWN;
}
