/* SPDX-License-Identifier: MIT */
/*
 * A bucket listed in ranges, by a client that has no network and a clock of its own: it counts
 * requests, and tells how long they would take a server of two cores and a round trip.
 *
 *     test_s3_ranges NAME KEYS [trace]    one distribution's figures; each request
 *
 * Links: source/s3 but for client.c
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s3_unsent.h"
#include "source/s3/page.h"

/* ---- a bucket -------------------------------------------------------------------------------- */

static struct {
  char **keys;
  size_t count, room;
} bucket;

static void add(const char *key) {
  if (bucket.count == bucket.room) {
    bucket.room = bucket.room ? 2 * bucket.room : 1024;
    bucket.keys = realloc(bucket.keys, bucket.room * sizeof(char *));
  }
  bucket.keys[bucket.count++] = strdup(key);
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void empty(void) {
  for (size_t i = 0; i < bucket.count; i++) {
    free(bucket.keys[i]);
  }
  bucket.count = 0;
}

/* The first key after `key`. */
static size_t behind(const char *key) {
  size_t low = 0, high = bucket.count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (strcmp(bucket.keys[middle], key) <= 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static void hexadecimal(char *to, size_t n, uint64_t *random) {
  for (size_t i = 0; i < n; i++) {
    to[i] = "0123456789abcdef"[unit_random(random) % 16];
  }
  to[n] = 0;
}

static void fill(const char *name, size_t count) {
  uint64_t random = 5;
  char key[2000], part[40];
  empty();
  for (size_t i = 0; i < count; i++) {
    hexadecimal(part, 32, &random);
    if (strcmp(name, "numbers") == 0) {
      snprintf(key, sizeof(key), "img_%07zu_of_%zu.jpeg", i, count);
    } else if (strcmp(name, "unpadded") == 0) {
      snprintf(key, sizeof(key), "train/x%zu", i);
    } else if (strcmp(name, "uuids") == 0) {
      snprintf(key, sizeof(key), "%.8s-%.4s-%.4s-%.4s-%.12s.npz", part, part + 8, part + 12,
               part + 16, part + 20);
    } else if (strcmp(name, "deep") == 0) {
      key[0] = 0;
      for (int k = 0; k < 8; k++) {
        strcat(key, "a/prefix/of/many/levels/");
      }
      snprintf(key + strlen(key), 100, "part-%05zu/of/it/x%zu", i / 100, i % 100);
    } else if (strcmp(name, "hot") == 0) {
      if (i < count / 50) {
        char c = (char)(97 + i % 26);
        snprintf(key, sizeof(key), "%c%c%c/%zu", c, c, c, i);
      } else {
        snprintf(key, sizeof(key), "m/hot/%09zu.npz", i - count / 50);
      }
    } else if (strcmp(name, "tail") == 0) {
      if (i < count / 20) {
        snprintf(key, sizeof(key), "a%06zu", i);
      } else {
        snprintf(key, sizeof(key), "zz/%.8s-%.4s-%.4s-%.4s-%.12s", part, part + 8, part + 12,
                 part + 16, part + 20);
      }
    } else if (strcmp(name, "folders") == 0) {
      snprintf(key, sizeof(key), "train/n%08zu/n%08zu_%zu.JPEG", i / 1300 * 37, i / 1300 * 37,
               i % 1300 * 7);
    } else if (strcmp(name, "parts") == 0) {
      snprintf(key, sizeof(key), "data/part-%05zu/img_%06zu.jpeg", i / 1300, i % 1300);
    } else if (strcmp(name, "shards") == 0) {
      snprintf(key, sizeof(key), "data/shard-%06zu.tar/%04zu", i / 1000, i % 1000);
    } else if (strcmp(name, "plain-parts") == 0) {
      snprintf(key, sizeof(key), "data/%zu/img_%06zu.jpeg", i / 1300, i % 1300);
    } else if (strcmp(name, "ten-thousands") == 0) {
      snprintf(key, sizeof(key), "%05zu/%05zu%04zu.jpg", i / 10000, i / 10000, i % 10000);
    } else if (strcmp(name, "levels") == 0) {
      snprintf(key, sizeof(key), "data/%03zu/%02zu/img_%05zu.jpg", i / 13000, i / 1300 % 10,
               i % 1300);
    } else if (strcmp(name, "classes") == 0) {
      static const char *const sets[] = {"train", "val", "test", "extra"}, *const classes[] = {
                                                                               "cat",   "dog",
                                                                               "horse", "zebra",
                                                                               "bird",  "fish",
                                                                               "plane", "car",
                                                                               "ship",  "truck"};
      snprintf(key, sizeof(key), "data/%s/%s%zu/img_%06zu.jpeg", sets[i / 2500 % 4],
               classes[i / 10000 % 10], i / 100000, i % 2500);
    } else if (strcmp(name, "dates") == 0) {
      snprintf(key, sizeof(key), "t/year=%zu/month=%02zu/day=%02zu/%.16s-%05zu.parquet",
               2015 + i / 84000, i / 7000 % 12 + 1, i / 700 % 10 * 3 + 1, part, i % 700);
    } else if (strcmp(name, "few-in-each") == 0) {
      snprintf(key, sizeof(key), "data/sample_%07zu/view%zu.png", i / 5, i % 5);
    } else if (strcmp(name, "other-scripts") == 0) {
      unsigned c = 0x4e00 + (unsigned)(i % 5000);
      snprintf(key, sizeof(key), "\xe5\x9b\xbe\xe5\x83\x8f/%c%c%c%06zu.png", 0xe0 | c >> 12,
               0x80 | (c >> 6 & 0x3f), 0x80 | (c & 0x3f), i);
    } else if (strcmp(name, "chains") == 0) {
      size_t n = i % 900;
      memset(key, 'x', n);
      snprintf(key + n, 100, "/%zu", i / 900);
    } else {
      fail_msg("no distribution %s", name);
    }
    add(key);
  }
  qsort(bucket.keys, bucket.count, sizeof(char *), by_bytes);
}

/* ---- the client ------------------------------------------------------------------------------ */

#define CORES 2
#define BASE 0.0006 /* seconds of a core that a request takes, */
#define EACH 2.2e-6 /* and a key */

static struct {
  double delay; /* of a request, in seconds */
  /* What came of it. */
  double now, full; /* full: when all connections were first in use */
  double idle;      /* connections, times seconds */
  uint64_t folders; /* requests for folders */
  bool trace, no_folders, short_pages;
} world;

struct shard_s3_client {
  unsigned connections, running;
  struct {
    struct shard_s3_request *request;
    double begun, done;
  } slots[256];
  struct shard_s3_request *first, **last;
  double cores[CORES];
};

int shard_s3_client_open(const struct shard_s3_client_options *options,
                         struct shard_s3_client **client, char *err, size_t size) {
  struct shard_s3_client *c = calloc(1, sizeof(*c));
  (void)err;
  (void)size;
  c->connections = options->connections;
  c->last = &c->first;
  *client = c;
  return 0;
}

/* The reply, fed to the request; the keys in it. */
static size_t reply(struct shard_s3_request *r, bool send) {
  static char after[6000], prefix[6000], delimiter[6000], most[6000];
  char *text = NULL;
  size_t size = 0, count = 0;
  FILE *out = open_memstream(&text, &size);
  unsent_field(r->query, "max-keys", most);
  unsent_field(r->query, "prefix", prefix);
  bool folders = unsent_field(r->query, "delimiter", delimiter) != NULL;
  if (!unsent_field(r->query, "continuation-token", after)) {
    unsent_field(r->query, "start-after", after);
  }
  size_t i = behind(after), length = strlen(prefix);
  if (!send && !folders) { /* only how many */
    size_t left = bucket.count - i;
    fclose(out);
    free(text);
    return left < (size_t)atoi(most) ? left : (size_t)atoi(most);
  }
  if (strcmp(after, prefix) < 0) {
    i = behind(prefix);
    i -= i > 0 && strcmp(bucket.keys[i - 1], prefix) == 0;
  }
  size_t limit = (size_t)atoi(most);
  if (world.short_pages) {
    uint64_t random = 1 + i;
    limit = unit_random(&random) % 3 == 0 ? 1 : unit_random(&random) % limit + 1;
  }
  fputs("<ListBucketResult><EncodingType>url</EncodingType>", out);
  const char *last = "";
  char folder[1100] = "";
  for (; i < bucket.count && strncmp(bucket.keys[i], prefix, length) == 0 && count < limit;) {
    const char *slash = folders ? strchr(bucket.keys[i] + length, '/') : NULL;
    if (slash) {
      size_t n = (size_t)(slash + 1 - bucket.keys[i]);
      memcpy(folder, bucket.keys[i], n);
      folder[n] = 0;
      if (strcmp(folder, after) != 0) {
        fputs("<CommonPrefixes><Prefix>", out);
        shard_s3_url_escape(out, folder, n, true);
        fputs("</Prefix></CommonPrefixes>", out);
        count++;
      }
      last = folder;
      folder[n - 1]++;
      folder[n] = 0;
      i = behind(folder);
      folder[n - 1]--;
    } else {
      fputs("<Contents><Key>", out);
      for (const char *c = bucket.keys[i]; *c; c++) {
        if (*c == '%' || *c < 0x20) {
          fprintf(out, "%%%02X", (unsigned char)*c);
        } else {
          putc_unlocked(*c, out);
        }
      }
      fputs("</Key></Contents>", out);
      last = bucket.keys[i];
      count++;
      i++;
    }
  }
  bool truncated = i < bucket.count && strncmp(bucket.keys[i], prefix, length) == 0;
  fprintf(out, "<IsTruncated>%s</IsTruncated>", truncated ? "true" : "false");
  if (truncated) {
    fputs("<NextContinuationToken>", out);
    for (const char *c = last; *c; c++) {
      fputs(*c == '&' ? "&amp;" : *c == '<' ? "&lt;" : (char[]){*c, 0}, out);
    }
    fputs("</NextContinuationToken>", out);
  }
  fputs("</ListBucketResult>", out);
  fclose(out);
  if (send) {
    const char *why = "";
    assert_int_equal(r->begin(r->context), 0);
    assert_int_equal(r->data(r->context, text, size), 0);
    if (r->end(r->context, &why) != 0) {
      fail_msg("%s: %s", r->query, why);
    }
  }
  free(text);
  return count;
}

static void start(struct shard_s3_client *c) {
  while (c->first && c->running < c->connections) {
    struct shard_s3_request *r = c->first;
    c->first = r->next;
    c->last = c->first ? c->last : &c->first;
    unsigned slot = 0, core = 0;
    while (c->slots[slot].request) {
      slot++;
    }
    for (unsigned i = 1; i < CORES; i++) {
      core = c->cores[i] < c->cores[core] ? i : core;
    }
    double arrives = world.now + world.delay;
    double begun = arrives > c->cores[core] ? arrives : c->cores[core];
    c->cores[core] = begun + BASE + EACH * (double)reply(r, false);
    c->slots[slot].request = r;
    c->slots[slot].done = c->cores[core];
    c->slots[slot].begun = world.now;
    c->running++;
    unsent_count++;
    if (world.trace) {
      fprintf(stderr, "%8.4f %2u %.200s\n", world.now, c->running, strstr(r->query, "prefix="));
    }
    if (c->running == c->connections && world.full == 0) {
      world.full = world.now;
    }
  }
}

void shard_s3_client_submit(struct shard_s3_client *c, struct shard_s3_request *r) {
  r->next = NULL;
  r->failed = false;
  *c->last = r;
  c->last = &r->next;
}

int shard_s3_client_next(struct shard_s3_client *c, struct shard_s3_request **done) {
  start(c);
  unsigned best = 256;
  for (unsigned i = 0; i < 256; i++) {
    if (c->slots[i].request && (best == 256 || c->slots[i].done < c->slots[best].done)) {
      best = i;
    }
  }
  if (best == 256) {
    return 0;
  }
  world.idle += (c->connections - c->running) * (c->slots[best].done - world.now);
  world.now = c->slots[best].done;
  *done = c->slots[best].request;
  c->slots[best].request = NULL;
  c->running--;
  if (strncmp((*done)->query, "delimiter=", 10) == 0) {
    world.folders++;
    (*done)->failed = world.no_folders;
  }
  if (!(*done)->failed) {
    reply(*done, true);
  }
  return 1;
}

unsigned shard_s3_client_width(const struct shard_s3_client *c) { return c->connections; }
void shard_s3_client_close(struct shard_s3_client *c) { free(c); }

/* ---- listings -------------------------------------------------------------------------------- */

static unsigned char *taken;

static int take(void *context, const char *key, size_t length) {
  char text[SHARD_S3_KEY_MAX + 1];
  (void)context;
  memcpy(text, key, length);
  text[length] = 0;
  size_t i = behind(text);
  assert_true(i > 0 && strcmp(bucket.keys[i - 1], text) == 0);
  assert_int_equal(taken[i - 1], 0);
  taken[i - 1] = 1;
  return 0;
}

/* Seconds that requests for a known division would take. */
static double ideal(unsigned connections, double delay) {
  size_t pages = (bucket.count + SHARD_S3_PAGE_KEYS - 1) / SHARD_S3_PAGE_KEYS;
  double cores[CORES] = {0}, slots[256] = {0}, end = 0;
  for (size_t i = 0; i < pages; i++) {
    unsigned slot = 0, core = 0;
    for (unsigned k = 1; k < connections; k++) {
      slot = slots[k] < slots[slot] ? k : slot;
    }
    for (unsigned k = 1; k < CORES; k++) {
      core = cores[k] < cores[core] ? k : core;
    }
    double begun = slots[slot] + delay;
    begun = begun > cores[core] ? begun : cores[core];
    cores[core] = slots[slot] = begun + BASE + EACH * SHARD_S3_PAGE_KEYS;
    end = slots[slot] > end ? slots[slot] : end;
  }
  return end;
}

static void list(const char *name, unsigned connections, double delay) {
  char err[700] = "";
  struct shard_s3_listing l = {.connections = connections, .key = take};
  world.delay = delay;
  world.now = world.full = world.idle = 0;
  unsent_count = world.folders = 0;
  taken = calloc(bucket.count, 1);
  if (shard_s3_list_keys(&l, err, sizeof(err)) != 0) {
    fail_msg("%s: %s", name, err);
  }
  for (size_t i = 0; i < bucket.count; i++) {
    assert_int_equal(taken[i], 1);
  }
  assert_int_equal(l.requests, unsent_count);
  free(taken);
}

/*
 * Every key once, and no more requests, time and trips until all connections are busy than these
 * (what was measured when this was written, and a tenth more).
 */
#define TESTED 200000
static const struct {
  const char *name;
  unsigned requests;
  double share; /* of the speed of requests for a known division, with 20 ms a trip */
  double trips; /* of 100 ms */
} bounds[] = {
    {"numbers", 240, 0.75, 5},       {"unpadded", 232, 0.77, 4},      {"uuids", 234, 0.75, 4},
    {"deep", 238, 0.77, 6},          {"hot", 238, 0.67, 9},           {"tail", 238, 0.71, 5},
    {"folders", 255, 0.68, 4},       {"other-scripts", 250, 0.71, 4}, {"chains", 246, 0.64, 6},
    {"parts", 249, 0.7, 4},          {"shards", 258, 0.7, 3},         {"plain-parts", 249, 0.7, 4},
    {"ten-thousands", 272, 0.57, 6}, {"levels", 331, 0.56, 5},        {"classes", 329, 0.55, 5},
    {"dates", 347, 0.5, 16},         {"few-in-each", 250, 0.71, 6},
};

static void one(const char *name, size_t count) {
  static const double delays[] = {0.02, 0.1, 0};
  fill(name, count);
  for (size_t k = 0; k < (count == TESTED ? 2 : COUNT(delays)); k++) {
    list(name, 32, delays[k]);
    double best = ideal(32, delays[k]);
    printf("%-14s %3.0f ms: %llu requests, %llu for folders; %.2f of the ideal speed; all busy "
           "after %.1f trips; idle %.0f %%\n",
           name, 1000 * delays[k], (unsigned long long)unsent_count,
           (unsigned long long)world.folders, best / world.now,
           delays[k] > 0 ? world.full / delays[k] : 0, 100 * world.idle / world.now / 32);
    for (size_t i = 0; count == TESTED && i < COUNT(bounds); i++) {
      if (strcmp(name, bounds[i].name) == 0) {
        assert_true(unsent_count <= bounds[i].requests);
        assert_true(delays[k] != 0.02 || best / world.now >= bounds[i].share);
        assert_true(delays[k] != 0.1 || (world.full > 0 && world.full / 0.1 <= bounds[i].trips));
      }
    }
  }
}

static void distributions(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(bounds); i++) {
    one(bounds[i].name, UNIT_PART == 1 ? TESTED : 5000);
  }
}

/* Small ones, and few connections: the bound that is promised, and none more than is needed. */
static void connections(void **state) {
  (void)state;
  static const size_t counts[] = {1, 999, 1000, 1001, 5000, 60000};
  for (size_t i = 0; i < COUNT(bounds); i++) {
    for (size_t k = 0; k < COUNT(counts) - (UNIT_PART > 1); k++) {
      size_t pages = (counts[k] + SHARD_S3_PAGE_KEYS - 1) / SHARD_S3_PAGE_KEYS;
      fill(bounds[i].name, counts[k]);
      list(bounds[i].name, 1, 0);
      assert_int_equal(unsent_count, pages);
      list(bounds[i].name, 5, 0.01);
      assert_true((double)unsent_count <= 1.5 * (double)pages + 64);
      list(bounds[i].name, 256, 0.01);
      assert_true((double)unsent_count <= 1.5 * (double)pages + 64);
    }
  }
}

/* A server that does not tell folders: the listing is whole without. */
static void no_folders(void **state) {
  (void)state;
  world.no_folders = true;
  fill("chains", 60000);
  list("chains", 32, 0.02);
  assert_true(world.folders > 0);
  assert_true(world.folders <= 1);
  world.no_folders = false;
}

/* A server whose pages are as long as it likes, often a key: none is lost or comes twice. */
static void short_pages(void **state) {
  (void)state;
  world.short_pages = true;
  for (size_t i = 0; i < COUNT(bounds); i++) {
    fill(bounds[i].name, UNIT_PART == 1 ? 20000 : 3000);
    list(bounds[i].name, 32, 0.02);
    list(bounds[i].name, 7, 0);
  }
  world.short_pages = false;
}

int main(int argc, char **argv) {
  if (argc > 2) { /* test_s3_ranges NAME KEYS [trace] */
    world.trace = argc > 3;
    one(argv[1], (size_t)atol(argv[2]));
    empty();
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(distributions),
      cmocka_unit_test(connections),
      cmocka_unit_test(no_folders),
      cmocka_unit_test(short_pages),
  };
  int rc = cmocka_run_group_tests(tests, NULL, NULL);
  empty();
  free(bucket.keys);
  return rc;
}
