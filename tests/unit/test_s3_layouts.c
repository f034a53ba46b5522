/* SPDX-License-Identifier: MIT */
/*
 * Buckets of random layouts, listed in ranges: each key comes once, whatever the names, the pages
 * and the server's answers to requests for folders are, and whatever order answers come in.
 *
 *     test_s3_layouts SEED [COUNT]    these layouts only
 *
 * Links: source/s3 but for client.c
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "s3_unsent.h"
#include "source/s3/page.h"
#include "source/s3/split.h"

#define KEYS_MOST 6000
#define KEY_MOST SHARD_S3_KEY_MAX

/* How a server answers a request for folders. */
enum {
  FOLDERS,
  FOLDERS_FAIL,
  FOLDERS_IGNORED,  /* keys come, as without a delimiter */
  FOLDERS_UNSORTED, /* in no order */
  FOLDERS_REPEATED, /* that of start-after, too; and each twice */
  FOLDERS_STRANGE,  /* elsewhere, and what is no text */
  FOLDERS_ENDLESS,  /* there is always more */
  FOLDERS_WHOLE,    /* all of them, and never more */
  FOLDERS_FIRST,    /* start-after is ignored */
  FOLDERS_KINDS
};

static struct {
  uint64_t random;
  char *keys[KEYS_MOST];
  uint8_t taken[KEYS_MOST];
  size_t count;
  char prefix[KEY_MOST + 1];
  size_t most; /* entries of a page */
  bool short_pages, ordered;
  unsigned folders;
} world;

static size_t under(size_t n) { return (size_t)(unit_random(&world.random) % n); }

static bool chance(size_t in) { return under(in) == 0; }

/* ---- layouts --------------------------------------------------------------------------------- */

static const char *const odd[] = {"",
                                  "/",
                                  "//",
                                  ".",
                                  "..",
                                  "0",
                                  "a",
                                  "-",
                                  "%",
                                  "+",
                                  " ",
                                  "\n",
                                  "\r\n",
                                  "\t",
                                  "\x01",
                                  "\x1f",
                                  "\x7f",
                                  "&amp;",
                                  "<",
                                  "]]>",
                                  "%2F",
                                  "a%20b",
                                  "\xc3\xa9",
                                  "\xe5\x9b\xbe",
                                  "\xf0\x9f\x98\x80",
                                  "\xef\xbf\xbf",
                                  "\xef\xbf\xbe",
                                  "\xed\xa0\x80",
                                  "\xff",
                                  "\xf4\x8f\xbf\xbf",
                                  "\xc3",
                                  "\xee\x80\x80",
                                  "\xef\xbf\xbd",
                                  "a/",
                                  "/a",
                                  "\"",
                                  "'",
                                  "\\",
                                  "?",
                                  "#",
                                  "~",
                                  "\xc2\x80"};

/* Part of a name, of a kind. */
static void put_part(char *to, size_t size, unsigned kind, size_t number) {
  static const char *const words[] = {"train",     "val", "test",  "cat",        "dog",
                                      "n01440764", "img", "part-", "2024-01-01", "year="};
  switch (kind) {
  case 0:
    snprintf(to, size, "%06zu", number);
    break;
  case 1:
    snprintf(to, size, "%zu", number);
    break;
  case 2:
    snprintf(to, size, "img_%05zu.jpeg", number);
    break;
  case 3:
    snprintf(to, size, "%016llx", (unsigned long long)(number * 0x9e3779b97f4a7c15ULL));
    break;
  case 4:
    snprintf(to, size, "%s%zu", words[number % COUNT(words)], number / COUNT(words));
    break;
  case 5:
    snprintf(to, size, "%s%s", odd[under(COUNT(odd))], odd[under(COUNT(odd))]);
    break;
  case 6:
    snprintf(to, size, "%s%zu", odd[number % COUNT(odd)], number / COUNT(odd));
    break;
  case 7:
    snprintf(to, size, "%zu%s", number / COUNT(odd), odd[number % COUNT(odd)]);
    break;
  case 8: {
    size_t n = under(size < 200 ? size : 200);
    memset(to, "x0/z"[under(4)], n);
    to[n] = 0;
    break;
  }
  case 9:
    snprintf(to, size, "part-%05zu-of-%05zu", number, (size_t)99999);
    break;
  default: {
    size_t n = under(size < 6 ? size : 6);
    for (size_t i = 0; i < n; i++) {
      to[i] = (char)(1 + under(255));
    }
    to[n] = 0;
  } /* any bytes */
  }
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add(const char *key) {
  if (world.count < KEYS_MOST && key[0] && strlen(key) <= KEY_MOST) {
    world.keys[world.count++] = strdup(key);
  }
}

/* Markers of some of the folders that a key is in, and keys that are called like one. */
static void add_folders(char *key) {
  for (char *slash = key; (slash = strchr(slash + 1, '/')) != NULL && !chance(3);) {
    char *end = chance(3) ? slash : slash + 1, kept = *end;
    *end = 0;
    add(key);
    *end = kept;
  }
}

/* Sort the keys, and leave out those that are there already. */
static void sort(void) {
  qsort(world.keys, world.count, sizeof(char *), by_bytes);
  size_t n = 0;
  for (size_t i = 0; i < world.count; i++) {
    if (n && strcmp(world.keys[n - 1], world.keys[i]) == 0) {
      free(world.keys[i]);
    } else {
      world.keys[n++] = world.keys[i];
    }
  }
  world.count = n;
}

/* A few trees. Each level of one has names of a kind, and some at random or in turn. */
static void fill(void) {
  size_t trees = 1 + under(3),
         wanted = (size_t[]){under(30), under(600), under(KEYS_MOST)}[under(3)];
  for (size_t t = 0; t < trees; t++) {
    size_t depth = 1 + under(5), widths[5], of[5];
    unsigned kinds[5];
    char base[60];
    put_part(base, chance(3) ? sizeof(base) : 1, (unsigned)under(11), under(100));
    for (size_t d = 0; d < depth; d++) {
      widths[d] = (size_t[]){1, 1 + under(5), 1 + under(60), 1 + under(3000)}[under(4)];
      kinds[d] = (unsigned)under(11);
      of[d] = under(1000);
    }
    bool in_turn = chance(2);
    for (size_t i = 0; i < wanted / trees; i++) {
      char key[2 * KEY_MOST], part[200];
      size_t at = (size_t)snprintf(key, sizeof(key), "%s", base), left = i;
      for (size_t d = depth; d-- > 0;) {
        size_t number = in_turn ? left % widths[d] : under(widths[d]);
        left = in_turn && d > 0 ? left / widths[d] : left;
        number = d == 0 && in_turn ? left : number;
        of[d] = number;
      }
      for (size_t d = 0; d < depth; d++) {
        put_part(part, 1 + under(chance(20) ? 200 : 40) + 20, kinds[d], of[d]);
        at += (size_t)snprintf(key + at, sizeof(key) - at, "%s%s", d ? "/" : "", part);
      }
      add(key);
      if (chance(50)) {
        add_folders(key);
      }
    }
  }
  sort();
}

/* The first key that is not before `key`; or that is behind it. */
static size_t find(const char *key, bool behind) {
  size_t low = 0, high = world.count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    int order = strcmp(world.keys[middle], key);
    if (order < 0 || (behind && order == 0)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/* ---- the server ------------------------------------------------------------------------------ */

struct shard_s3_client {
  unsigned connections;
  struct shard_s3_request *waiting[300];
  unsigned count;
};

int shard_s3_client_open(const struct shard_s3_client_options *options,
                         struct shard_s3_client **client, char *err, size_t size) {
  struct shard_s3_client *c = calloc(1, sizeof(*c));
  (void)err;
  (void)size;
  c->connections = options->connections;
  *client = c;
  return 0;
}

static void put(FILE *out, const char *before, const char *text, const char *after) {
  fputs(before, out);
  shard_s3_url_escape(out, text, strlen(text), true);
  fputs(after, out);
}

/* A token is '.' and a key, as radosgw has it; or, where it is no text, 'x' and its bytes. */
static void read_token(char *token) {
  size_t n = token[0] == 'x' ? strlen(token + 1) / 2 : 0;
  for (size_t i = 0; i < n; i++) {
    token[1 + i] =
        (char)(16 * shard_hex_digit(token[1 + 2 * i]) + shard_hex_digit(token[2 + 2 * i]));
  }
  token[n ? 1 + n : strlen(token)] = 0;
}

static void put_token(FILE *out, const char *key) {
  bool text = shard_s3_split_is_text(key, strlen(key));
  fputs(text ? "<NextContinuationToken>." : "<NextContinuationToken>x", out);
  for (const char *c = key; *c; c++) {
    const char *form = !text ? "%02x" : strchr("&<>\r", *c) ? "&#x%x;" : "%c";
    fprintf(out, form, (unsigned char)*c);
  }
  fputs("</NextContinuationToken>", out);
}

/* The reply to a request, malloc'd. */
static char *reply(const char *query, size_t *size) {
  static char prefix[6000], token[6000], start[6000], delimiter[6000];
  char *text = NULL;
  unsent_field(query, "prefix", prefix);
  unsent_field(query, "continuation-token", token);
  unsent_field(query, "start-after", start);
  unsent_field(query, "delimiter", delimiter);
  read_token(token);
  bool by_folder = delimiter[0] && world.folders != FOLDERS_IGNORED;
  const char *after = token[0]                                      ? token + 1
                      : by_folder && world.folders == FOLDERS_FIRST ? ""
                                                                    : start;
  FILE *out = open_memstream(&text, size);
  size_t i = find(after, true), least = find(prefix, false), most = world.most, count = 0;
  i = i > least ? i : least;
  if (world.short_pages) {
    most = chance(3) ? 1 : 1 + under(most);
  }
  if (by_folder && world.folders == FOLDERS_WHOLE) {
    most = KEYS_MOST;
  }
  fputs("<ListBucketResult><EncodingType>url</EncodingType>", out);
  const char *last = "";
  char folder[KEY_MOST + 2] = "";
  for (; i < world.count && strncmp(world.keys[i], prefix, strlen(prefix)) == 0 && count < most;
       i++) {
    const char *slash = by_folder ? strchr(world.keys[i] + strlen(prefix), '/') : NULL;
    last = world.keys[i];
    if (!slash) {
      put(out, "<Contents><Key>", last, "</Key></Contents>");
      count++;
      continue;
    }
    size_t n = (size_t)(slash + 1 - world.keys[i]);
    while (i + 1 < world.count && strncmp(world.keys[i + 1], last, n) == 0) {
      i++;
    }
    memcpy(folder, last, n);
    folder[n] = 0;
    last = world.keys[i];
    if (strcmp(folder, after) == 0 && world.folders != FOLDERS_REPEATED) {
      continue;
    }
    put(out, "<CommonPrefixes><Prefix>", folder, "</Prefix></CommonPrefixes>");
    count++;
    if (world.folders == FOLDERS_REPEATED) {
      put(out, "<CommonPrefixes><Prefix>", folder, "</Prefix></CommonPrefixes>");
    } else if (world.folders == FOLDERS_STRANGE ||
               (world.folders == FOLDERS_UNSORTED && chance(2))) {
      const char *other = world.folders == FOLDERS_UNSORTED ? world.keys[under(world.count)]
                                                            : odd[1 + under(COUNT(odd) - 1)];
      put(out, "<CommonPrefixes><Prefix>", other, "</Prefix></CommonPrefixes>");
    }
  }
  bool more = i < world.count && strncmp(world.keys[i], prefix, strlen(prefix)) == 0;
  if (by_folder && world.folders == FOLDERS_ENDLESS) {
    more = true;
  }
  fprintf(out, "<IsTruncated>%s</IsTruncated>", more ? "true" : "false");
  if (more) {
    put_token(out, last);
  }
  fputs("</ListBucketResult>", out);
  fclose(out);
  return text;
}

void shard_s3_client_submit(struct shard_s3_client *c, struct shard_s3_request *r) {
  r->failed = false;
  c->waiting[c->count++] = r;
  assert_true(c->count <= c->connections + 1);
}

int shard_s3_client_next(struct shard_s3_client *c, struct shard_s3_request **done) {
  if (c->count == 0) {
    return 0;
  }
  unsigned i = world.ordered ? 0 : (unsigned)under(c->count);
  struct shard_s3_request *r = *done = c->waiting[i];
  memmove(c->waiting + i, c->waiting + i + 1, (--c->count - i) * sizeof(c->waiting[0]));
  unsent_count++;
  if (strncmp(r->query, "delimiter=", 10) == 0 && world.folders == FOLDERS_FAIL) {
    r->failed = true;
    return 1;
  }
  size_t size;
  char *text = reply(r->query, &size);
  const char *why = "";
  assert_int_equal(r->begin(r->context), 0);
  assert_int_equal(r->data(r->context, text, size), 0);
  int rc = r->end(r->context, &why);
  if (rc != 0 && strncmp(r->query, "delimiter=", 10) == 0) {
    r->failed = true;
  } else if (rc != 0) {
    fail_msg("%s: %s\n%s", r->query, why, text);
  }
  free(text);
  return 1;
}

unsigned shard_s3_client_width(const struct shard_s3_client *c) { return c->connections; }
void shard_s3_client_close(struct shard_s3_client *c) { free(c); }

/* ---- listings -------------------------------------------------------------------------------- */

static int take(void *context, const char *key, size_t length) {
  (void)context;
  assert_int_equal(strlen(key), length);
  size_t i = find(key, false);
  if (i == world.count || strcmp(world.keys[i], key) != 0 || world.taken[i]) {
    fail_msg("'%s' is %s", key, i < world.count && world.taken[i] ? "there twice" : "not a key");
  }
  world.taken[i] = 1;
  return 0;
}

static const char *some_key(char *to) {
  if (world.count == 0 || chance(4)) {
    put_part(to, 40, (unsigned)under(11), under(5000));
    return to;
  }
  strcpy(to, world.keys[under(world.count)]);
  if (chance(2)) {
    to[under(strlen(to) + 1)] = 0;
  }
  return to;
}

static void layout(uint64_t seed) {
  char err[700] = "";
  memset(&world, 0, sizeof(world));
  unsent_count = 0;
  world.random = seed * 0x9e3779b97f4a7c15ULL + 1;
  unit_random(&world.random);
  fill();
  world.most = (size_t[]){1 + under(4), 1 + under(40), 1 + under(1000), 1000}[under(4)];
  world.short_pages = chance(4);
  world.ordered = chance(3);
  world.folders = chance(2) ? FOLDERS : (unsigned)under(FOLDERS_KINDS);
  struct shard_s3_listing l = {
      .connections = (unsigned[]){1 + (unsigned)under(4), 32, 256}[under(3)], .key = take};
  if (chance(3)) {
    some_key(l.url.prefix);
  }
  if (shard_s3_list_keys(&l, err, sizeof(err)) != 0) {
    fail_msg("layout %llu: %s", (unsigned long long)seed, err);
  }
  size_t n = 0;
  for (size_t i = 0; i < world.count; i++) {
    const char *key = world.keys[i];
    bool wanted = strncmp(key, l.url.prefix, strlen(l.url.prefix)) == 0;
    n += wanted;
    if (wanted != world.taken[i]) {
      fail_msg("layout %llu: '%s' of %zu is %s", (unsigned long long)seed, key, world.count,
               wanted ? "lost" : "not asked for");
    }
  }
  assert_int_equal(l.keys, n);
  size_t pages = n / world.most + 1;
  if (!world.short_pages && unsent_count > 1.5 * (double)pages + 64) {
    fail_msg("layout %llu: %llu requests for %zu pages", (unsigned long long)seed,
             (unsigned long long)unsent_count, pages);
  }
  for (size_t i = 0; i < world.count; i++) {
    free(world.keys[i]);
  }
}

static void layouts(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 3000 / UNIT_PART; seed++) {
    layout(seed);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) {
    for (uint64_t seed = strtoull(argv[1], NULL, 10),
                  end = seed + (argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
         seed < end; seed++) {
      layout(seed);
    }
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layouts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
