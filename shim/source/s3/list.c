/* SPDX-License-Identifier: MIT */
/*
 * list.c - a prefix listed in ranges, in parallel, without a hint of what its keys are.
 *
 * A range is the keys after `at` up to and including `end`; ranges are disjoint, and together they
 * are always what is left to list. It begins with one range. As long as connections are idle, the
 * range with most left to do is split (split.h): its end becomes the middle, and a new range from
 * the middle to the old end is listed from there by start-after. A page may hold keys past its
 * range's end, for that may have moved meanwhile: they are the other range's, and left out.
 *
 * So no guess can lose or double a key; a bad one costs a request. At any time
 *     requests so far + one for each range <= 1.5 * pages that the keys so far fill + 64
 * or nothing is split; retries come on top.
 *
 * Keys of a page are handed on when it is whole and in order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/s3/client.h"
#include "source/s3/page.h"
#include "source/s3/split.h"

#define REQUESTS_FREE 64
#define EMPTY_MOST 1000 /* pages in a row without a key */
#define SPLIT_LEAST 1.5 /* pages that are left in a range that is split */
#define PROBES_MOST 6   /* guesses about a range at a time */

struct range {
  struct shard_s3_request request;
  struct lister *lister;
  struct range *parent; /* whose end the first key may lie behind; NULL once that is known */
  bool live;
  unsigned probes; /* children that have not answered yet */
  bool stuck;      /* there is nowhere to split it, until its next page */
  bool listed;     /* a page has come */
  bool has_end;
  struct shard_s3_text at, end, first; /* first: of the last page */
  struct shard_s3_page page;
  char *token; /* goes on by it; NULL: by start-after */
  uint64_t page_keys;
  unsigned empty;
  struct shard_s3_seen seen;
  char why[200];
};

struct lister {
  struct shard_s3_listing *listing;
  struct shard_s3_client *client;
  struct range **ranges;
  unsigned count; /* of ranges, live or not */
  size_t prefix;
  uint64_t asked; /* pages, not counting tries */
  uint64_t page_size;
  char *err;
  size_t size;
};

static void set_text(struct shard_s3_text *to, const char *bytes, size_t length) {
  memcpy(to->bytes, bytes, length);
  to->length = length;
}

/* ---- a page -----------------------------------------------------------------------------------
 */

static int on_begin(void *context) {
  struct range *r = context;
  return shard_s3_page_begin(&r->page);
}

static int on_data(void *context, const char *data, size_t size) {
  struct range *r = context;
  return shard_s3_page_feed(&r->page, data, size);
}

/* A key for a message of one line. */
static const char *shown(const char *key, size_t n, char buf[64]) {
  n = n < 60 ? n : 60;
  for (size_t i = 0; i < n; i++) {
    buf[i] = (char)((unsigned char)key[i] < 0x20 || key[i] == 0x7f ? '?' : key[i]);
  }
  buf[n] = 0;
  return buf;
}

/* Keys come in order, after those before, and belong here. */
static int check_keys(struct range *r) {
  const struct shard_s3_listing *l = r->lister->listing;
  const char *before = r->at.bytes, *key;
  char buf[64];
  size_t before_length = r->at.length, at = 0, n;
  while ((key = shard_s3_page_key(&r->page, &at, &n)) != NULL) {
    if (n < r->lister->prefix || memcmp(key, l->url.prefix, r->lister->prefix) != 0) {
      snprintf(r->why, sizeof(r->why), "the server sends the key '%s', which lacks the prefix",
               shown(key, n, buf));
      return -EBADMSG;
    }
    if (shard_s3_compare(key, n, before, before_length) <= 0) {
      snprintf(r->why, sizeof(r->why),
               "the server repeats itself, or sends keys out of order, at '%s'",
               shown(key, n, buf));
      return -EBADMSG;
    }
    before = key;
    before_length = n;
  }
  return 0;
}

static int on_end(void *context, const char **why) {
  struct range *r = context;
  struct shard_s3_page *p = &r->page;
  *why = r->why;
  int rc = p->why[0] ? -EBADMSG : shard_s3_page_end(p);
  if (rc == -EBADMSG) {
    snprintf(r->why, sizeof(r->why), "%s", p->why);
  }
  if (rc == 0) {
    rc = check_keys(r);
  }
  if (rc == 0 && p->truncated && !p->token && (!p->token_masked || p->count == 0)) {
    snprintf(r->why, sizeof(r->why),
             "the server says that there is more, but not how to get it "
             "(IsTruncated without NextContinuationToken)");
    rc = -EBADMSG;
  }
  if (rc == 0 && p->truncated && p->count == 0 && r->token && strcmp(p->token, r->token) == 0) {
    snprintf(r->why, sizeof(r->why), "the server repeats an empty page");
    rc = -EBADMSG;
  }
  return rc;
}

/* ---- asking -----------------------------------------------------------------------------------
 */

static int ask(struct range *r) {
  const struct shard_s3_listing *l = r->lister->listing;
  size_t size = 0;
  free(r->request.query);
  r->request.query = NULL;
  FILE *out = open_memstream(&r->request.query, &size);
  if (!out) {
    return -ENOMEM;
  }
  if (r->token) {
    fputs("continuation-token=", out);
    shard_s3_escape(out, r->token, strlen(r->token), false);
    fputc('&', out);
  }
  fprintf(out, "encoding-type=url&list-type=2&max-keys=%d&prefix=", SHARD_S3_PAGE_KEYS);
  shard_s3_escape(out, l->url.prefix, r->lister->prefix, false);
  if (!r->token && r->at.length > 0) {
    fputs("&start-after=", out);
    shard_s3_escape(out, r->at.bytes, r->at.length, false);
  }
  if (fclose(out) != 0) {
    return -ENOMEM;
  }
  r->lister->asked++;
  shard_s3_client_submit(r->lister->client, &r->request);
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

/* Its parent learns what is behind its end, and may be split again. */
static void tell_parent(struct range *r, const char *key, size_t n) {
  struct range *parent = r->parent;
  if (!parent) {
    return;
  }
  parent->probes--;
  r->parent = NULL;
  size_t i = 0;
  while (key && i < n && i < parent->at.length && key[i] == parent->at.bytes[i]) {
    i++;
  }
  if (key && i < n && i < SHARD_S3_KEY_MAX) {
    unsigned byte = (unsigned char)key[i];
    parent->seen.bits[i][byte / 64] |= 1ULL << (byte % 64);
  }
}

static bool is_past(const struct range *r, const char *key, size_t n) {
  const char *stop = r->lister->listing->end_before;
  return (r->has_end && shard_s3_compare(key, n, r->end.bytes, r->end.length) > 0) ||
         (stop && shard_s3_compare(key, n, stop, strlen(stop)) >= 0);
}

/* A page has come: hand its keys on, and ask for the next. */
static int take_page(struct range *r) {
  struct lister *l = r->lister;
  struct shard_s3_page *p = &r->page;
  const char *key, *before = NULL;
  size_t at = 0, n, before_length = 0;
  bool past = false;
  r->page_keys = 0;
  while ((key = shard_s3_page_key(p, &at, &n)) != NULL) {
    if (!before) {
      tell_parent(r, key, n);
    }
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
    shard_s3_seen_add(&r->seen, before, before_length, key, n);
    before = key;
    before_length = n;
    r->page_keys++;
  }
  tell_parent(r, NULL, 0);
  int paged = l->listing->page ? l->listing->page(l->listing->context) : 0;
  if (paged != 0) {
    return paged;
  }
  l->listing->keys += r->page_keys;
  r->listed = true;
  r->stuck = false;
  if (before) {
    set_text(&r->at, before, before_length);
  }
  r->empty = p->count > 0 ? 0 : r->empty + 1;
  if (past || !p->truncated ||
      (r->has_end &&
       shard_s3_compare(r->at.bytes, r->at.length, r->end.bytes, r->end.length) >= 0)) {
    end_range(r);
    return 0;
  }
  if (r->empty > EMPTY_MOST) {
    snprintf(l->err, l->size, "s3://%s: %u pages in a row had no key; the server is at fault",
             l->listing->url.bucket, r->empty);
    return -EBADMSG;
  }
  if (l->page_size == 0 || p->count > l->page_size) {
    l->page_size = p->count;
  }
  free(r->token);
  r->token = p->token;
  p->token = NULL;
  return ask(r);
}

/* ---- splitting --------------------------------------------------------------------------------
 */

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
    r->request = (struct shard_s3_request){
        .method = "GET", .begin = on_begin, .data = on_data, .end = on_end, .context = r};
    l->ranges[l->count++] = r;
  }
  return r;
}

static struct shard_s3_span span_of(const struct range *r) {
  return (struct shard_s3_span){.at = &r->at,
                                .end = r->has_end ? &r->end : NULL,
                                .seen = &r->seen,
                                .prefix = r->lister->prefix};
}

/*
 * The range with most left to do; NULL if none is worth it. Where many connections are idle, a
 * range is split again before the last guess has been answered: what is below the middle would be
 * split next anyway.
 */
static struct range *pick(struct lister *l, unsigned idle) {
  struct range *best = NULL;
  double most = SPLIT_LEAST * (double)(l->page_size ? l->page_size : SHARD_S3_PAGE_KEYS);
  unsigned open = 0;
  for (unsigned i = 0; i < l->count; i++) {
    open += l->ranges[i]->live && l->ranges[i]->listed;
  }
  unsigned probes = open ? 1 + idle / (2 * open) : 1;
  probes = probes < PROBES_MOST ? probes : PROBES_MOST;
  for (unsigned i = 0; i < l->count; i++) {
    struct range *r = l->ranges[i];
    if (r->live && r->listed && r->probes < probes && !r->stuck && r->page_keys > 0) {
      struct shard_s3_span span = span_of(r);
      double left = shard_s3_left(&span, &r->first, r->page_keys) / (1 + r->probes);
      if (left > most) {
        most = left;
        best = r;
      }
    }
  }
  return best;
}

static unsigned live_ranges(const struct lister *l) {
  unsigned live = 0;
  for (unsigned i = 0; i < l->count; i++) {
    live += l->ranges[i]->live;
  }
  return live;
}

static bool may_split(const struct lister *l, unsigned live) {
  uint64_t page = l->page_size ? l->page_size : SHARD_S3_PAGE_KEYS;
  return live < shard_s3_client_width(l->client) && live < l->listing->connections &&
         l->asked + live + 1 <= 3 * (l->listing->keys / page) / 2 + REQUESTS_FREE;
}

static int split_some(struct lister *l) {
  for (unsigned live = live_ranges(l); live > 0 && may_split(l, live); live++) {
    struct range *r = pick(l, shard_s3_client_width(l->client) - live), *child;
    if (!r) {
      return 0;
    }
    struct shard_s3_text middle;
    struct shard_s3_span span = span_of(r);
    if (!shard_s3_split(&span, &middle)) {
      r->stuck = true;
      live--;
      continue;
    }
    child = new_range(l);
    if (!child) {
      return l->count == l->listing->connections ? 0 : -ENOMEM;
    }
    r->probes++;
    child->live = true;
    child->listed = child->stuck = false;
    child->probes = 0;
    child->parent = r;
    child->empty = 0;
    child->page_keys = 0;
    child->has_end = r->has_end;
    child->end = r->end;
    child->at = middle;
    child->seen = r->seen;
    free(child->token);
    child->token = NULL;
    r->has_end = true;
    r->end = middle;
    int rc = ask(child);
    if (rc != 0) {
      return rc;
    }
  }
  return 0;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static int run(struct lister *l) {
  struct range *r = new_range(l);
  if (!r) {
    return -ENOMEM;
  }
  const char *after = l->listing->start_after, *stop = l->listing->end_before;
  r->live = true;
  if (after) {
    set_text(&r->at, after, strlen(after));
  }
  if (stop && strncmp(stop, l->listing->url.prefix, l->prefix) == 0) {
    set_text(&r->end, stop, strlen(stop));
    r->has_end = true;
  }
  int rc = ask(r);
  struct shard_s3_request *done;
  while (rc == 0 && (rc = shard_s3_client_next(l->client, &done)) == 1) {
    r = done->context;
    rc = take_page(r);
    rc = rc ? rc : split_some(l);
  }
  return rc;
}

int shard_s3_list(struct shard_s3_listing *listing, char *err, size_t size) {
  struct lister l = {
      .listing = listing, .prefix = strlen(listing->url.prefix), .err = err, .size = size};
  const struct shard_s3_client_options o = {.account = listing->account,
                                            .bucket = listing->url.bucket,
                                            .connections = listing->connections,
                                            .timeout = listing->timeout,
                                            .log = listing->log};
  err[0] = 0;
  listing->keys = listing->requests = listing->retries = 0;
  const char *const limits[] = {listing->start_after, listing->end_before};
  for (size_t i = 0; i < 2; i++) {
    if (limits[i] && strlen(limits[i]) > SHARD_S3_KEY_MAX) {
      snprintf(err, size, "'%.60s...' is longer than a key can be", limits[i]);
      return -EINVAL;
    }
  }
  l.ranges = calloc(listing->connections, sizeof(struct range *));
  if (!l.ranges) {
    snprintf(err, size, "out of memory");
    return -ENOMEM;
  }
  int rc = shard_s3_client_open(&o, &l.client, err, size);
  if (rc != 0) {
    free(l.ranges);
    return rc;
  }
  rc = run(&l);
  if (rc < 0 && !err[0]) {
    snprintf(err, size, "%s", shard_s3_client_error(l.client));
  }
  listing->requests = shard_s3_client_sent(l.client);
  listing->retries = listing->requests - l.asked;
  shard_s3_client_close(l.client);
  for (unsigned i = 0; i < l.count; i++) {
    struct range *r = l.ranges[i];
    shard_s3_page_free(&r->page);
    free(r->request.query);
    free(r->token);
    free(r);
  }
  free(l.ranges);
  return rc;
}
