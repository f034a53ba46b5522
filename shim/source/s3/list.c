/* SPDX-License-Identifier: MIT */
/*
 * list.c - a prefix listed in ranges, in parallel, without knowing its keys.
 *
 * A range is the keys after `at` up to and including `end`. Ranges are disjoint, and together they
 * are always what is left to list. There is one at first. While connections are idle, we split the
 * range with most left to do (split.h): its end becomes the middle, and a new range, listed by
 * start-after, goes from the middle to the old end. When a page comes, its range's end may have
 * moved: keys past it are the other range's, and are left out.
 *
 * Splits are few. We divide a range so that each connection gets an equal share of what seems to be
 * left, in whole pages; and again only when a connection falls idle. Where guesses fail, we ask the
 * server for the names of folders.
 *
 * So no guess can lose or double a key; a bad one costs a request. We split only while
 *     requests so far + one for each range <= 1.5 * pages that the keys so far fill + 64
 * not counting retries.
 *
 * The keys of a page are handed on when it is whole and in order.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "source/s3/client.h"
#include "source/s3/folders.h"
#include "source/s3/page.h"
#include "source/s3/split.h"

#define REQUESTS_FREE 64
#define FOLDER_PAGES 8    /* left in a folder, so that asking for its end is worth a request */
#define DEPTHS 16         /* levels of folders */
#define FOLDER_USUAL 2    /* times the usual folder: a folder of which so much has come is big */
#define EARLY 2           /* requests: the first page, and the next */
#define FOLDERS_FREE 3    /* requests for folders that are always allowed ... */
#define FOLDERS_PAGES 100 /* ... and one more for each so many pages */
#define FOLDERS_SMALL 3   /* in a page: they are so small that their names tell little */
#define EMPTY_MOST 100    /* pages in a row without a key */
#define SPLIT_LEAST 2.0   /* pages left in a range, so that it is split */
#define GUESSES_MOST 7    /* parts of a range without an answer */

/* A page that is asked for: the context of its request's functions. */
struct asking {
  struct shard_s3_request request;
  struct shard_s3_page page;
};

struct range {
  struct asking ask; /* first: it leads to the range */
  struct lister *lister;
  struct range *parent; /* the range it was split from, until its first page comes; then NULL */
  bool live;
  unsigned probes; /* children without an answer */
  bool stuck;      /* nowhere to split it, until its next page */
  bool listed;     /* a page has come */
  double left;     /* keys, about; SHARD_S3_UNKNOWN */
  bool has_end;
  struct shard_s3_text at, end, first; /* first: of the last page */
  char *token;                         /* to go on with; NULL: by start-after */
  uint64_t page_keys, page_folders;    /* of the last page: keys, and folders that they are in */
  unsigned empty;
  struct shard_s3_seen seen;
  struct shard_s3_text folder; /* that the last page was in */
  unsigned stays;              /* pages in a row that were in it */
};

struct lister {
  struct shard_s3_listing *listing;
  struct shard_s3_client *client;
  struct range **ranges;
  unsigned count; /* of ranges, live or not */
  size_t prefix;
  uint64_t asked; /* pages, not counting retries */
  uint64_t page_size;
  uint64_t hits, misses; /* new ranges with keys, and without */
  struct shard_s3_folders folders;
  struct folder_search { /* for folders */
    struct asking ask;
    struct shard_s3_text parent; /* the folder whose folders are asked for: */
    struct shard_s3_text from;   /* those after this one; */
    struct shard_s3_text after;  /* so far they are known up to this one */
    bool busy;
    bool goes_on; /* `after` comes from the last answer */
    bool whole;   /* no folder follows `after` */
  } search;
  unsigned searches;
  uint64_t turns[DEPTHS]; /* keys in another folder of so many levels than the key before */
  char *err;
  size_t size;
};

static void set_text(struct shard_s3_text *to, const char *bytes, size_t length) {
  memcpy(to->bytes, bytes, length);
  to->length = length;
}

static int compare(const struct shard_s3_text *a, const struct shard_s3_text *b) {
  return shard_codec_compare_bytes(a->bytes, a->length, b->bytes, b->length);
}

/* ---- a page ------------------------------------------------------------- */

static int on_begin(void *context) {
  struct asking *a = context;
  shard_s3_page_begin(&a->page);
  return 0;
}

static int on_data(void *context, const char *data, size_t size) {
  struct asking *a = context;
  return shard_s3_page_feed(&a->page, data, size);
}

/* Of folders; and what comes first of keys. */
static int on_end(void *context, const char **why) {
  struct asking *a = context;
  *why = a->page.why;
  return a->page.why[0] ? -EBADMSG : shard_s3_page_end(&a->page);
}

/* Say what is wrong with the page. */
#define fail(r, ...)                                                                               \
  shard_error_set((r)->ask.page.why, sizeof((r)->ask.page.why), -EBADMSG, __VA_ARGS__)

/* A key as a message of one line shows it. */
static const char *show_key(const char *key, size_t n, char buf[64]) {
  n = n < 60 ? n : 60;
  for (size_t i = 0; i < n; i++) {
    buf[i] = (char)((unsigned char)key[i] < 0x20 || key[i] == 0x7f ? '?' : key[i]);
  }
  buf[n] = 0;
  return buf;
}

/* Check that the page's keys have the prefix, and come in order, after those of the last page. */
static int check_keys(struct range *r) {
  const struct shard_s3_listing *l = r->lister->listing;
  const char *before = r->at.bytes, *key;
  char buf[64];
  size_t before_length = r->at.length, at = 0, n;
  while ((key = shard_s3_page_key(&r->ask.page, &at, &n)) != NULL) {
    if (n < r->lister->prefix || memcmp(key, l->url.prefix, r->lister->prefix) != 0) {
      return fail(r, "the server sends the key '%s', which lacks the prefix",
                  show_key(key, n, buf));
    }
    if (shard_codec_compare_bytes(key, n, before, before_length) <= 0) {
      return fail(r, "the server repeats itself, or sends keys out of order, at '%s'",
                  show_key(key, n, buf));
    }
    before = key;
    before_length = n;
  }
  return 0;
}

static int on_keys_end(void *context, const char **why) {
  struct range *r = context;
  const struct shard_s3_page *p = &r->ask.page;
  int rc = on_end(context, why);
  rc = rc ? rc : check_keys(r);
  if (rc == 0 && p->truncated && !p->token) {
    rc = fail(r, "the server says that there is more, but not how to get it "
                 "(IsTruncated without NextContinuationToken)");
  }
  if (rc == 0 && p->truncated && p->count == 0 && r->token && strcmp(p->token, r->token) == 0) {
    rc = fail(r, "the server repeats an empty page");
  }
  return rc;
}

/* ---- asking ------------------------------------------------------------- */

/* Write what all queries have in common. What sorts before it is in `out` already. */
static void put_query(FILE *out, const char *prefix, size_t length,
                      const struct shard_s3_text *after) {
  fprintf(out, "encoding-type=url&list-type=2&max-keys=%d&prefix=", SHARD_S3_PAGE_KEYS);
  shard_s3_url_escape(out, prefix, length, false);
  if (after && after->length > 0) {
    fputs("&start-after=", out);
    shard_s3_url_escape(out, after->bytes, after->length, false);
  }
}

static FILE *begin_query(struct shard_s3_request *request, size_t *size) {
  free(request->query);
  request->query = NULL;
  return open_memstream(&request->query, size);
}

static int ask_page(struct range *r) {
  const struct shard_s3_listing *l = r->lister->listing;
  size_t size = 0;
  FILE *out = begin_query(&r->ask.request, &size);
  if (!out) {
    return -ENOMEM;
  }
  if (r->token) {
    fputs("continuation-token=", out);
    shard_s3_url_escape(out, r->token, strlen(r->token), false);
    fputc('&', out);
  }
  put_query(out, l->url.prefix, r->lister->prefix, r->token ? NULL : &r->at);
  if (fclose(out) != 0) {
    return -ENOMEM;
  }
  r->lister->asked++;
  shard_s3_client_submit(r->lister->client, &r->ask.request);
  return 0;
}

static void end_range(struct range *r) {
  struct lister *l = r->lister;
  for (unsigned i = 0; i < l->count; i++) {
    if (l->ranges[i]->parent == r) {
      l->ranges[i]->parent = NULL;
    }
  }
  r->live = false;
}

/* The range has an answer: its parent may be split again. */
static void tell_parent(struct range *r) {
  if (r->parent) {
    r->parent->probes--;
    r->parent = NULL;
  }
}

static bool is_past(const struct range *r, const char *key, size_t n) {
  return r->has_end && shard_codec_compare_bytes(key, n, r->end.bytes, r->end.length) > 0;
}

static double page_of(const struct lister *l) {
  return (double)(l->page_size ? l->page_size : SHARD_S3_PAGE_KEYS);
}

static struct shard_s3_span span_of(const struct range *r) {
  return (struct shard_s3_span){.at = &r->at,
                                .end = r->has_end ? &r->end : NULL,
                                .seen = &r->seen,
                                .prefix = r->lister->prefix,
                                .guess = !r->listed && r->left >= SHARD_S3_UNKNOWN};
}

static size_t count_levels(const char *text, size_t n) {
  size_t levels = 0;
  for (const char *end = text + n; (text = memchr(text, '/', (size_t)(end - text))) != NULL;
       text++) {
    levels++;
  }
  return levels;
}

/* Keys in a folder of this one's level, on average of those listed; 0: none is known to have ended.
 */
static double usual_size(const struct lister *l, const char *folder, size_t n) {
  size_t level = count_levels(folder, n);
  uint64_t turns = level < DEPTHS ? l->turns[level] : 0;
  return turns > 0 ? (double)l->listing->keys / (double)turns : 0;
}

/* Whether a key is in another folder than the one before it; note that for all levels. */
static bool note_turn(struct lister *l, const char *a, size_t na, const char *b, size_t nb) {
  size_t same = shard_s3_split_shared(a, na, b, nb);
  if (!memchr(a + same, '/', na - same) && !memchr(b + same, '/', nb - same)) {
    return false;
  }
  for (size_t i = count_levels(a, same) + 1; i < DEPTHS; i++) {
    l->turns[i]++;
  }
  return true;
}

/*
 * Put the end of the last page's folder into *middle. false: the range ends before it, or so little
 * is left in the folder that a request is not worth it.
 */
static bool end_of_folder(const struct range *r, bool known, struct shard_s3_text *middle) {
  const struct lister *l = r->lister;
  size_t least = l->prefix;
  if (r->has_end) {
    least = shard_s3_split_shared(r->end.bytes, r->end.length, r->at.bytes, r->at.length);
  }
  double usual = usual_size(l, r->folder.bytes, r->folder.length);
  if (!r->listed || l->search.busy || r->folder.length <= least || r->stays < (known ? 3 : 1) ||
      r->stays * page_of(l) < FOLDER_USUAL * usual) {
    return false;
  }
  *middle = r->folder;
  middle->bytes[middle->length - 1]++;
  if (r->has_end && compare(middle, &r->end) >= 0) {
    return false;
  }
  struct shard_s3_span span = span_of(r);
  span.end = middle;
  return shard_s3_split_left(&span, &r->first, r->page_keys) > FOLDER_PAGES * page_of(l);
}

/* The page may be in another folder than the last: then forget what names were like. */
static void enter_folder(struct range *r) {
  const char *first = NULL, *last = NULL, *key;
  size_t at = 0, n = 0, first_length = 0, last_length = 0;
  while ((key = shard_s3_page_key(&r->ask.page, &at, &n)) != NULL && !is_past(r, key, n)) {
    first_length = first ? first_length : n;
    first = first ? first : key;
    last = key;
    last_length = n;
  }
  if (!first) {
    return;
  }
  size_t same = shard_s3_split_shared(first, first_length, last, last_length);
  const char *slash = memrchr(last, '/', same);
  size_t length = slash ? (size_t)(slash + 1 - last) : 0;
  const struct shard_s3_text *f = &r->folder;
  if (shard_s3_split_shared(f->bytes, f->length, last, length) == length) {
    r->stays = f->length == length ? r->stays + 1 : 1;
  } else {
    r->stays = 1;
    memset(r->seen.bits[length], 0, sizeof(r->seen.bits) - length * sizeof(r->seen.bits[0]));
  }
  set_text(&r->folder, last, length);
}

/* The known folders in what is left of a range. */
struct known_folders {
  size_t first, count;
  bool open;   /* others may follow the last */
  bool inside; /* the keys before the first are in a known folder */
};

static struct known_folders find_known(const struct range *r) {
  const struct shard_s3_folders *f = &r->lister->folders;
  struct known_folders k = {0};
  k.count = shard_s3_folders_between(f, &r->at, r->has_end ? &r->end : NULL, &k.first);
  k.open = k.count > 0 && f->list[k.first + k.count - 1].open;
  if (k.first > 0) {
    const struct shard_s3_folder *in = &f->list[k.first - 1];
    k.inside = !in->open &&
               shard_s3_split_shared(in->name, in->length, r->at.bytes, r->at.length) == in->length;
  }
  return k;
}

static void estimate(struct range *r) {
  const struct lister *l = r->lister;
  struct shard_s3_text end;
  struct shard_s3_span span = span_of(r);
  struct known_folders k = find_known(r);
  if (k.open || end_of_folder(r, k.count > 0 || k.inside, &end)) {
    r->left = SHARD_S3_UNKNOWN;
    return;
  }
  r->left = shard_s3_split_left(&span, &r->first, r->page_keys);
  if (k.count == 0 && !k.inside) {
    return;
  }
  const struct shard_s3_folder *f = &l->folders.list[k.count > 0 ? k.first : k.first - 1];
  double size = usual_size(l, f->name, f->length);
  if (k.count > 0) {
    r->left = ((double)k.count + 0.5) * (size > 0 ? size : SHARD_S3_PAGE_KEYS);
  } else if (size > 0 && r->left > size && r->stays * page_of(l) < 4 * size) {
    r->left = size;
  }
}

/* Find where to split a range: between folders, if some are known. */
static bool split_at(const struct range *r, double part, struct shard_s3_text *middle) {
  const struct lister *l = r->lister;
  struct shard_s3_span span = span_of(r);
  struct known_folders k = find_known(r);
  if (end_of_folder(r, k.count > 0 || k.inside, middle)) {
    return true;
  }
  if (k.count == 0) {
    return shard_s3_split_between(&span, part, middle);
  }
  size_t i = k.open ? k.count - 1 : (size_t)(part * (double)k.count);
  const struct shard_s3_folder *f = &l->folders.list[k.first + i];
  set_text(middle, f->name, f->length);
  return true;
}

/* Nothing lies between the range's beginning and its first key (NULL: it has none): tell ranges
 * there that they are empty. */
static void tell_others(const struct range *r, const char *key, size_t n) {
  for (unsigned i = 0; i < r->lister->count; i++) {
    struct range *o = r->lister->ranges[i];
    if (o != r && o->live && !o->listed && compare(&o->at, &r->at) > 0 &&
        (!key ||
         (o->has_end && shard_codec_compare_bytes(o->end.bytes, o->end.length, key, n) <= 0))) {
      o->left = 0;
    }
  }
}

/* A page has come. Hand its keys on, and ask for the next. */
static int take_page(struct range *r) {
  struct lister *l = r->lister;
  struct shard_s3_page *p = &r->ask.page;
  const char *key, *before = NULL;
  size_t at = 0, n, before_length = 0;
  bool past = false;
  r->page_keys = r->page_folders = 0;
  enter_folder(r);
  while ((key = shard_s3_page_key(p, &at, &n)) != NULL) {
    bool turn = before ? note_turn(l, before, before_length, key, n)
                       : r->listed && note_turn(l, r->at.bytes, r->at.length, key, n);
    past = is_past(r, key, n);
    if (past) {
      break;
    }
    int rc = l->listing->key(l->listing->context, key, n);
    if (rc != 0) {
      return rc;
    }
    if (!before) {
      set_text(&r->first, key, n);
    }
    shard_s3_split_note(&r->seen, before, before_length, key, n);
    r->page_folders += turn || !before;
    before = key;
    before_length = n;
    r->page_keys++;
  }
  tell_parent(r);
  if (!r->listed && r->page_keys == 0 && (past || !p->truncated)) {
    tell_others(r, past ? key : NULL, n);
  }
  l->listing->keys += r->page_keys;
  if (!r->listed) {
    l->hits += r->page_keys > 0;
    l->misses += r->page_keys == 0;
  }
  r->listed = true;
  r->stuck = false;
  if (before) {
    set_text(&r->at, before, before_length);
  }
  r->empty = p->count > 0 ? 0 : r->empty + 1;
  if (past || !p->truncated || (r->has_end && compare(&r->at, &r->end) >= 0)) {
    end_range(r);
    return 0;
  }
  if (r->empty > EMPTY_MOST) {
    return shard_error_set(l->err, l->size, -EBADMSG,
                           "s3://%s: %u pages in a row had no key; the server is at fault",
                           l->listing->url.bucket, r->empty);
  }
  if (l->page_size == 0 || p->count > l->page_size) {
    l->page_size = p->count;
  }
  if (r->page_keys > 0) {
    estimate(r);
  }
  free(r->token);
  r->token = p->token;
  p->token = NULL;
  return ask_page(r);
}

static unsigned live_ranges(const struct lister *l) {
  unsigned live = 0;
  for (unsigned i = 0; i < l->count; i++) {
    live += l->ranges[i]->live;
  }
  return live;
}

/* Whether a request more is within what is promised, if each live range has another one to make. */
static bool may_ask(const struct lister *l, unsigned live) {
  uint64_t page = l->page_size ? l->page_size : SHARD_S3_PAGE_KEYS;
  return l->asked + live + 1 <= 3 * (l->listing->keys / page) / 2 + REQUESTS_FREE;
}

/* ---- folders ----------------------------------------------------------------------------------
 *
 * If folders hold many keys each, their names tell where keys are, better than any guess. We ask
 * for them by a delimiter, and divide ranges between them.
 */

/* Ask for the folders in search.parent, from search.after on. */
static int ask_folders(struct lister *l) {
  struct folder_search *k = &l->search;
  size_t size = 0;
  FILE *out = begin_query(&k->ask.request, &size);
  if (!out) {
    return -ENOMEM;
  }
  fputs("delimiter=%2F&", out);
  put_query(out, k->parent.bytes, k->parent.length, &k->after);
  if (fclose(out) != 0) {
    return -ENOMEM;
  }
  k->busy = true;
  l->searches++;
  l->asked++;
  shard_s3_client_submit(l->client, &k->ask.request);
  return 0;
}

static bool begins_with(const struct shard_s3_text *t, const struct shard_s3_text *start) {
  return t->length >= start->length && memcmp(t->bytes, start->bytes, start->length) == 0;
}

/* If the first page lies in one folder, or guesses fail later, or lead on by small steps: ask for
 * the folders around the range with most left, and around those beside it. */
static int search_folders(struct lister *l) {
  struct folder_search *k = &l->search;
  struct range *best = NULL;
  size_t first;
  bool failed = l->misses >= 2 && l->misses > l->hits,
       slow = l->asked >= shard_s3_client_width(l->client) / 2, early = l->asked <= EARLY;
  if (k->busy || (!failed && !slow && !early) ||
      l->searches >= FOLDERS_FREE + l->asked / FOLDERS_PAGES || !may_ask(l, live_ranges(l))) {
    return 0;
  }
  for (unsigned i = 0; i < l->count; i++) {
    struct range *r = l->ranges[i];
    if (r->live && r->listed && r->page_keys > 0 && r->left > SPLIT_LEAST * page_of(l) &&
        (!best || r->left > best->left)) {
      best = r;
    }
  }
  if (best && !failed && best->page_folders > (early ? 1 : FOLDERS_SMALL)) {
    return 0; /* there are more of them than pages */
  }
  ssize_t parent = best ? shard_s3_folders_parent(&best->first, &best->at, l->prefix) : -1;
  if (parent < 0 || shard_s3_folders_between(&l->folders, &best->at,
                                             best->has_end ? &best->end : NULL, &first) > 0) {
    return 0;
  }
  struct shard_s3_text in = best->at;
  in.length = (size_t)parent;
  if (l->searches > 0 && compare(&k->parent, &in) == 0 && compare(&k->from, &best->at) <= 0 &&
      (k->whole || compare(&best->at, &k->after) <= 0)) {
    return 0; /* there are none */
  }
  k->parent = in;
  k->from = best->at;
  for (unsigned i = 0; i < l->count; i++) {
    const struct range *r = l->ranges[i];
    if (r->live && begins_with(&r->at, &in) && compare(&r->at, &k->from) < 0) {
      k->from = r->at;
    }
  }
  k->after = k->from;
  k->goes_on = false;
  return ask_folders(l);
}

/* Folders have come. Note them, and ask for more if they hold many keys. */
static int take_folders(struct lister *l) {
  struct folder_search *k = &l->search;
  const char *name;
  struct shard_s3_text last = k->after;
  size_t at = 0, n, taken = 0;
  k->busy = false;
  if (k->ask.request.failed) {
    l->searches = UINT_MAX / 2; /* never again */
    return 0;
  }
  int rc = k->goes_on ? shard_s3_folders_add(&l->folders, last.bytes, last.length, false) : 0;
  while (rc == 0 && (name = shard_s3_page_key(&k->ask.page, &at, &n)) != NULL) {
    if (shard_codec_compare_bytes(name, n, last.bytes, last.length) > 0 &&
        shard_s3_split_is_text(name, n)) {
      set_text(&last, name, n);
      taken++;
      rc = shard_s3_folders_add(&l->folders, name, n, false);
    }
  }
  if (!k->ask.page.truncated && k->parent.length > l->prefix) {
    last = k->parent;
    last.bytes[last.length - 1]++; /* behind all that begin with it */
  }
  if (rc == 0 && taken > 0 && (k->ask.page.truncated || k->parent.length > l->prefix)) {
    rc = shard_s3_folders_add(&l->folders, last.bytes, last.length, true);
  }
  for (unsigned i = 0; i < l->count; i++) {
    struct range *r = l->ranges[i];
    if (r->live && r->listed && r->page_keys > 0) {
      estimate(r);
      r->stuck = false;
    }
  }
  double size = usual_size(l, last.bytes, last.length);
  double pages = (double)taken * (size > 0 ? size : SHARD_S3_PAGE_KEYS) / page_of(l);
  k->after = last;
  k->whole = !k->ask.page.truncated;
  if (rc == 0 && k->ask.page.truncated && pages > FOLDERS_PAGES &&
      l->searches < FOLDERS_FREE + l->asked / FOLDERS_PAGES && may_ask(l, live_ranges(l))) {
    k->goes_on = true;
    rc = ask_folders(l);
  }
  return rc;
}

/* ---- splitting ---------------------------------------------------------- */

static struct range *new_range(struct lister *l) {
  for (unsigned i = 0; i < l->count; i++) {
    if (!l->ranges[i]->live) {
      return l->ranges[i];
    }
  }
  if (l->count == l->listing->connections) {
    return NULL;
  }
  struct range *r = calloc(1, sizeof(*r));
  if (r) {
    r->lister = l;
    r->ask.request = (struct shard_s3_request){
        .begin = on_begin, .data = on_data, .end = on_keys_end, .context = r};
    l->ranges[l->count++] = r;
  }
  return r;
}

/* Whether it would be split between folders that are known: no guess, both parts have keys. */
static bool is_split_known(const struct range *r) {
  struct known_folders k = find_known(r);
  return k.count > 0 && !k.open;
}

/*
 * Pick the range with most left, if that is more than a connection's share; NULL: none is worth a
 * split. A part may be split before its first page has come; by guesses, up to a number of them.
 */
static struct range *pick_range(const struct lister *l, double *share) {
  struct range *best = NULL;
  double most = SPLIT_LEAST * page_of(l), all = 0;
  for (unsigned i = 0; i < l->count; i++) {
    const struct range *r = l->ranges[i];
    all += r->live && r->left < SHARD_S3_UNKNOWN ? r->left : 0;
  }
  *share = all / shard_s3_client_width(l->client);
  most = *share > most ? *share : most;
  unsigned guesses = l->misses <= 4 + l->hits / 4 ? GUESSES_MOST : 1;
  for (unsigned i = 0; i < l->count; i++) {
    struct range *r = l->ranges[i];
    const struct range *heard = r->listed ? r : r->parent;
    if (r->live && !r->stuck && (!r->listed || r->page_keys > 0) && r->left > most && heard &&
        (heard->probes < guesses || is_split_known(r))) {
      most = r->left;
      best = r;
    }
  }
  return best;
}

/*
 * The part of the range that it keeps: half of its shares, in whole pages, since a page that is not
 * full costs as much as a full one.
 */
static double part_of(const struct lister *l, const struct range *r, double share) {
  if (r->left >= SHARD_S3_UNKNOWN) {
    return 0.5;
  }
  double page = page_of(l), pages = ceil(r->left / page + 0.02);
  double pieces = round(r->left / (share > page ? share : page));
  pieces = pieces < 2 ? 2 : pieces;
  double kept = round(pages * (pieces - floor(pieces / 2)) / pieces);
  return (kept < 1 ? 1 : kept > pages - 1 ? pages - 1 : kept) / pages;
}

static bool may_split(const struct lister *l, unsigned live) {
  return live < shard_s3_client_width(l->client) && live < l->listing->connections &&
         may_ask(l, live);
}

/* Make what follows `middle` a range of its own. */
static int split_range(struct range *r, struct range *child, const struct shard_s3_text *middle,
                       double part) {
  child->parent = r->listed ? r : r->parent;
  child->parent->probes++;
  child->live = true;
  child->listed = child->stuck = false;
  child->probes = 0;
  child->empty = 0;
  child->page_keys = 0;
  child->has_end = r->has_end;
  child->end = r->end;
  child->at = *middle;
  child->seen = r->seen;
  child->folder = r->folder;
  child->stays = 0;
  free(child->token);
  child->token = NULL;
  r->has_end = true;
  r->end = *middle;
  child->left = r->left;
  if (r->left < SHARD_S3_UNKNOWN) {
    child->left = (1 - part) * r->left;
    r->left = part * r->left;
  } else if (r->listed) {
    estimate(r);
  } else {
    r->left = 0; /* nothing is known between two guesses, until the first page */
  }
  return ask_page(child);
}

static int split_some(struct lister *l) {
  if (live_ranges(l) < shard_s3_client_width(l->client) / 2) {
    int rc = search_folders(l);
    if (rc != 0) {
      return rc;
    }
  }
  for (unsigned live = live_ranges(l); live > 0 && may_split(l, live);) {
    double share;
    struct range *r = pick_range(l, &share), *child;
    if (!r) {
      return 0;
    }
    struct shard_s3_text middle;
    double part = part_of(l, r, share);
    /* However good the guess is: only a key between is safe. */
    if (!split_at(r, part, &middle) || compare(&middle, &r->at) <= 0 ||
        (r->has_end && compare(&middle, &r->end) >= 0)) {
      r->stuck = true;
      continue;
    }
    child = new_range(l);
    if (!child) {
      return l->count == l->listing->connections ? 0 : -ENOMEM;
    }
    live++;
    int rc = split_range(r, child, &middle, part);
    if (rc != 0) {
      return rc;
    }
  }
  return 0;
}

/* ---- the whole ---------------------------------------------------------- */

static int list_ranges(struct lister *l) {
  struct range *r = new_range(l);
  if (!r) {
    return -ENOMEM;
  }
  r->live = true;
  int rc = ask_page(r);
  struct shard_s3_request *done;
  /* Do not wait for folders that need a retry. */
  while (rc == 0 &&
         (live_ranges(l) > 0 || (l->search.busy && l->search.ask.request.failures == 0)) &&
         (rc = shard_s3_client_next(l->client, &done)) == 1) {
    rc = done == &l->search.ask.request ? take_folders(l) : take_page(done->context);
    rc = rc ? rc : split_some(l);
  }
  return rc;
}

int shard_s3_list_keys(struct shard_s3_listing *listing, char *err, size_t size) {
  struct lister l = {
      .listing = listing, .prefix = strlen(listing->url.prefix), .err = err, .size = size};
  l.search.ask.page.folders = true;
  l.search.ask.request = (struct shard_s3_request){
      .begin = on_begin,
      .data = on_data,
      .end = on_end,
      .context = &l.search.ask,
      .optional = true}; /* a policy may forbid it, or the server may not know it */
  const struct shard_s3_client_options o = {.account = listing->account,
                                            .bucket = listing->url.bucket,
                                            .connections = listing->connections,
                                            .timeout = listing->timeout,
                                            .log = listing->log};
  err[0] = 0;
  listing->keys = listing->requests = listing->retries = 0;
  l.ranges = calloc(listing->connections, sizeof(struct range *));
  if (!l.ranges) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  int rc = shard_s3_client_open(&o, &l.client, err, size);
  if (rc != 0) {
    free(l.ranges);
    return rc;
  }
  rc = list_ranges(&l);
  if (rc < 0 && !err[0]) {
    snprintf(err, size, "%s", shard_s3_client_error(l.client));
  }
  listing->requests = shard_s3_client_sent(l.client);
  listing->retries = listing->requests > l.asked ? listing->requests - l.asked : 0;
  shard_s3_client_close(l.client);
  for (unsigned i = 0; i < l.count; i++) {
    struct range *r = l.ranges[i];
    shard_s3_page_free(&r->ask.page);
    free(r->ask.request.query);
    free(r->token);
    free(r);
  }
  free(l.ranges);
  shard_s3_page_free(&l.search.ask.page);
  free(l.search.ask.request.query);
  shard_s3_folders_free(&l.folders);
  return rc;
}
