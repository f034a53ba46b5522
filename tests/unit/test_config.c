/* SPDX-License-Identifier: MIT */
/*
 * The SHARD_ variables: read, and refused by name if misspelt or misvalued. The configuration is
 * read once in a process, so each case has its own. And SHARD_DATASET's list, and the words.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "config/config.h"
#include "config/dataset_list.h"
#include "config/listing_list.h"
#include "config/path_template.h"
#include "unit.h"

/* What the child found. */
static struct {
  int rc;
  char err[512];
  struct shard_config config;
  char dataset[256], include[256], listing[256], cache_dir[256], stats[256];
} * seen;

static void keep(char *to, const char *value) { snprintf(to, 256, "%s", value ? value : "(null)"); }

/* Read the environment `lines` in a fresh process; the answer is in *seen. */
static void load(const char *const *lines) {
  if (!seen) {
    seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  }
  memset(seen, 0, sizeof(*seen));
  pid_t pid = fork();
  if (pid == 0) {
    char *copy[16], *environment[16] = {NULL};
    for (size_t i = 0; lines[i]; i++) {
      environment[i] = copy[i] = strdup(lines[i]);
    }
    errno = 4242;
    shard_config_init(environment);
    if (errno != 4242) {
      _exit(1);
    }
    for (size_t i = 0; lines[i]; i++) { /* a host may overwrite its environment */
      memset(copy[i], '?', strlen(copy[i]));
    }
    seen->rc = shard_config_check(seen->err, sizeof(seen->err));
    seen->config = *shard_config();
    keep(seen->dataset, seen->config.dataset);
    keep(seen->include, seen->config.include);
    keep(seen->listing, seen->config.listing);
    keep(seen->cache_dir, seen->config.cache_dir);
    keep(seen->stats, seen->config.stats);
    _exit(shard_view_asked() == seen->config.view ? 0 : 2);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

#define LOAD(...) load((const char *const[]){__VA_ARGS__, NULL})

static void refused(const char *line, const char *word) {
  LOAD("SHARD_LOG=debug", line, "PATH=/bin");
  if (seen->rc != -EINVAL) {
    fail_msg("'%s' was taken", line);
  }
  if (!strstr(seen->err, word)) {
    fail_msg("'%s': no '%s' in: %s", line, word, seen->err);
  }
}

static void nothing_set(void **state) {
  (void)state;
  LOAD("PATH=/bin", "SHARDS=1", "MY_SHARD_X=1", "SHARD", "shard_view=x");
  assert_int_equal(seen->rc, 0);
  assert_string_equal(seen->err, "");
  assert_int_equal(seen->config.view, SHARD_VIEW_AUTO);
  assert_int_equal(seen->config.strategy, SHARD_STRATEGY_STRIDE);
  assert_int_equal(seen->config.log, SHARD_LOG_WARN);
  assert_true(seen->config.adapter);
  assert_int_equal(seen->config.timeout, 3600);
  assert_null(seen->config.dataset);
  assert_null(seen->config.include);
  assert_null(seen->config.listing);
  assert_null(seen->config.cache_dir);
  assert_int_equal(seen->config.window, 1024);
  assert_int_equal(seen->config.s3_connections, 32);
  assert_true(seen->config.build_memory == 256 << 20);
  assert_false(seen->config.seeded || seen->config.epoch != SHARD_EPOCH_UNSET);
}

/* Numbers of every width, and what follows from them. */
static void kept(void **state) {
  (void)state;
  LOAD("SHARD_SEED=18446744073709551615", "SHARD_EPOCH=7", "SHARD_WINDOW=9",
       "SHARD_BUILD_MEMORY=1G", "SHARD_LISTING=s3://b/l");
  assert_string_equal(seen->err, "");
  assert_true(seen->config.seed == UINT64_MAX && seen->config.epoch == 7);
  assert_true(seen->config.seeded);
  assert_int_equal(seen->config.window, 9);
  assert_true(seen->config.build_memory == 1 << 30);
  assert_string_equal(seen->listing, "s3://b/l");
  LOAD("SHARD_EPOCH=0");
  assert_true(!seen->config.seeded && seen->config.epoch == 0);
}

/* Datasets that stand for buckets have a colon that does not separate. */
static void dataset_items(void **state) {
  (void)state;
  const char *p = ":/a::b=s3://bucket/x/y:/c=d:/e=s3://f:";
  const struct {
    const char *path, *url;
  } want[] = {{"/a", NULL}, {"b", "s3://bucket/x/y"}, {"/c=d", NULL}, {"/e", "s3://f"}};
  struct shard_dataset_item item;
  for (size_t i = 0; i < COUNT(want); i++) {
    p = shard_dataset_list_next(p, &item);
    assert_non_null(p);
    assert_int_equal(item.path_length, strlen(want[i].path));
    assert_memory_equal(item.path, want[i].path, item.path_length);
    assert_int_equal(!item.url, !want[i].url);
    if (item.url) {
      assert_int_equal(item.url_length, strlen(want[i].url));
      assert_memory_equal(item.url, want[i].url, item.url_length);
    }
  }
  assert_null(shard_dataset_list_next(p, &item));
  assert_null(shard_dataset_list_next("", &item));
  char here[2000], wanted[5000];
  assert_non_null(getcwd(here, sizeof(here)));
  LOAD("SHARD_DATASET=/a=s3://b/c:d"); /* a prefix with a colon, or two datasets? */
  assert_int_equal(seen->rc, -EINVAL);
  assert_non_null(strstr(seen->err, "s3://b/c:d"));
  LOAD("SHARD_DATASET=a=s3://b/c:/d");
  assert_int_equal(seen->rc, 0);
  snprintf(wanted, sizeof(wanted), "%s/a=s3://b/c:/d", here);
  assert_string_equal(seen->dataset, wanted);
  LOAD("SHARD_DATASET=:a::/b:c:");
  snprintf(wanted, sizeof(wanted), "%s/a:/b:%s/c", here, here);
  assert_string_equal(seen->dataset, wanted);
}

/* Buckets themselves, beside directories. */
static void dataset_buckets(void **state) {
  (void)state;
  const char *p = "s3://b/x:/a:gs://c:/d=s3://e/f:s3://g/";
  const struct {
    const char *path, *url;
  } want[] = {
      {NULL, "s3://b/x"}, {"/a", NULL}, {NULL, "gs://c"}, {"/d", "s3://e/f"}, {NULL, "s3://g/"}};
  struct shard_dataset_item item;
  for (size_t i = 0; i < COUNT(want); i++) {
    p = shard_dataset_list_next(p, &item);
    assert_non_null(p);
    assert_int_equal(shard_dataset_item_is_bucket(&item), !want[i].path);
    assert_int_equal(item.path_length, want[i].path ? strlen(want[i].path) : 0);
    if (want[i].url) {
      assert_int_equal(item.url_length, strlen(want[i].url));
      assert_memory_equal(item.url, want[i].url, item.url_length);
    }
  }
  assert_null(shard_dataset_list_next(p, &item));
  assert_true(shard_dataset_list_has("/a:s3://b", true) &&
              shard_dataset_list_has("/a:s3://b", false));
  assert_false(shard_dataset_list_has("s3://b/x:gs://c", false));
  assert_false(shard_dataset_list_has("/a:/b=s3://c", true));
  const char *const good[] = {"s3://b",
                              "s3://b/x:s3://b/y",
                              "s3://b/x:s3://b/xy",
                              "s3://b:gs://b",
                              "/a:s3://b/:/c",
                              "/mnt=s3://b/x:s3://b/x",
                              "./s3:/b",
                              "/s3:/b",
                              "s3:b"};
  const char *const bad[] = {"s3://",          "s3:///x",         "s3://b:c",
                             "s3://b:s3://b/", "s3://b/x:s3://b", "s3://b/x/:/a:s3://b/x/y",
                             "s3:/b",          "/a:gs:/b/x",      "/mnt=s3:/b"};
  for (size_t i = 0; i < COUNT(good); i++) {
    assert_null(shard_dataset_list_fault(good[i]));
  }
  for (size_t i = 0; i < COUNT(bad); i++) {
    assert_non_null(shard_dataset_list_fault(bad[i]));
  }
  char here[2000], wanted[5000];
  assert_non_null(getcwd(here, sizeof(here)));
  LOAD("SHARD_DATASET=s3://b/c");
  assert_int_equal(seen->rc, 0);
  assert_string_equal(seen->dataset, "s3://b/c");
  assert_true(seen->config.buckets && !seen->config.directories);
  LOAD("SHARD_DATASET=a:s3://b/c"); /* a relative directory goes first only */
  assert_int_equal(seen->rc, 0);
  snprintf(wanted, sizeof(wanted), "%s/a:s3://b/c", here);
  assert_string_equal(seen->dataset, wanted);
  assert_true(seen->config.buckets && seen->config.directories);
}

/* Whether one path lies below another: by whole components. */
static void path_below(void **state) {
  (void)state;
  assert_string_equal(shard_path_below("/data/a/b", "/data"), "a/b");
  assert_string_equal(shard_path_below("/data/a/b", "/data/a/"), "b");
  assert_string_equal(shard_path_below("/data", "/"), "data");
  assert_string_equal(shard_path_below("/data", "/data"), "");
  assert_null(shard_path_below("/database", "/data"));
  assert_null(shard_path_below("/data", "/data/a"));
}

static void words(void **state) {
  (void)state;
  char text[SHARD_WORDS_ROOM];
  assert_int_equal(shard_words_find(shard_words_strategies, "hash"), SHARD_STRATEGY_HASH);
  assert_int_equal(shard_words_find(shard_words_strategies, "hashes"), -1);
  assert_int_equal(shard_words_find(shard_words_views, "shard"), SHARD_VIEW_SHARD);
  assert_int_equal(shard_words_find(shard_words_views, "off"), SHARD_VIEW_OFF);
  assert_int_equal(shard_words_find(shard_words_levels, "debug"), SHARD_LOG_DEBUG);
  assert_int_equal(shard_words_find(shard_words_addressings, "virtual"), SHARD_S3_VIRTUAL);
  assert_string_equal(shard_words_at(shard_words_views, SHARD_VIEW_GLOBAL), "global");
  assert_string_equal(shard_words_at(shard_words_views, 4), "unknown");
  assert_string_equal(shard_words_at(shard_words_views, UINT32_MAX), "unknown");
  assert_string_equal(shard_words_join(shard_words_strategies, text), "range, stride or hash");
  assert_true(shard_words_equal_nocase(".TIFF", ".tiff") && shard_words_equal_nocase("", ""));
  assert_true(shard_words_equal_nocase("AZaz[@\xe4", "azAZ[@\xe4"));
  assert_false(shard_words_equal_nocase(".tif", ".tiff") ||
               shard_words_equal_nocase(".tiff", ".tif"));
  assert_false(shard_words_equal_nocase("@", "`") || shard_words_equal_nocase("[", "{") ||
               shard_words_equal_nocase("\xc4", "\xe4"));
}

/* What is said of each variable, its default and its range included. */
static void described(void **state) {
  (void)state;
  struct shard_config_variable v;
  size_t count = 0;
  for (; shard_config_describe(count, &v); count++) {
    assert_int_equal(strncmp(v.name, "SHARD_", 6), 0);
    assert_true(strlen(v.value) > 8 && strlen(v.value) < sizeof(v.value) - 1);
    const char *initial = strcmp(v.name, "SHARD_VIEW") == 0           ? "auto"
                          : strcmp(v.name, "SHARD_LOG") == 0          ? "warn"
                          : strcmp(v.name, "SHARD_ADAPTER") == 0      ? "on"
                          : strcmp(v.name, "SHARD_TIMEOUT") == 0      ? "3600"
                          : strcmp(v.name, "SHARD_BUILD_MEMORY") == 0 ? "256M"
                          : strcmp(v.name, "SHARD_DATASET") == 0      ? ""
                                                                      : NULL;
    if (initial) {
      assert_string_equal(v.initial, initial);
    }
  }
  assert_true(count > 20);
}

static void all_set(void **state) {
  (void)state;
  LOAD("SHARD_VIEW=global", "SHARD_DATASET=/a:/b", "SHARD_RANK=1", "SHARD_SIZE=2",
       "SHARD_STRATEGY=stride", "SHARD_INCLUDE=*.x", "SHARD_LISTING=/l", "SHARD_CACHE_DIR=/c",
       "SHARD_TIMEOUT=5", "SHARD_ADAPTER=off", "SHARD_LOG=info");
  assert_string_equal(seen->err, "");
  assert_int_equal(seen->rc, 0);
  assert_int_equal(seen->config.view, SHARD_VIEW_GLOBAL);
  assert_int_equal(seen->config.strategy, SHARD_STRATEGY_STRIDE);
  assert_int_equal(seen->config.log, SHARD_LOG_INFO);
  assert_int_equal(seen->config.adapter, SHARD_ADAPTER_OFF);
  assert_int_equal(seen->config.timeout, 5);
  /* copies, for the environment is gone by now */
  assert_string_equal(seen->dataset, "/a:/b");
  assert_string_equal(seen->include, "*.x");
  assert_string_equal(seen->listing, "/l");
  assert_string_equal(seen->cache_dir, "/c");
}

static void every_word(void **state) {
  (void)state;
  static const char *const good[] = {"SHARD_VIEW=auto",          "SHARD_VIEW=off",
                                     "SHARD_VIEW=shard",         "SHARD_STRATEGY=range",
                                     "SHARD_ADAPTER=on",         "SHARD_ADAPTER=compress",
                                     "SHARD_LOG=error",          "SHARD_LOG=warn",
                                     "SHARD_LOG=debug",          "SHARD_TIMEOUT=1",
                                     "SHARD_TIMEOUT=1000000",    "SHARD_DATASET=relative",
                                     "SHARD_S3_CONNECTIONS=256", "SHARD_S3_ADDRESSING=virtual"};
  for (size_t i = 0; i < COUNT(good); i++) {
    LOAD(good[i]);
    if (seen->rc != 0) {
      fail_msg("%s: %s", good[i], seen->err);
    }
  }
}

static const char *const names[] = {
#define X(name, type, field, initial, kind, help) "SHARD_" #name,
#define Y(name, kind, help) "SHARD_" #name,
#include "config/variables.def"
#undef X
#undef Y
};

static const char *const withdrawn[] = {
#define X(name, type, field, initial, kind, help)
#define Y(name, kind, help)
#define GONE(name, remedy) "SHARD_" #name "=x", remedy,
#include "config/variables.def"
#undef X
#undef Y
};

/* A letter less, one more, two swapped, lower case: the right name is offered. */
static void misspelt(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(withdrawn); i += 2) { /* with its remedy */
    refused(withdrawn[i], "is not a variable of libshard any more; ");
    refused(withdrawn[i], withdrawn[i + 1]);
  }
  for (size_t i = 0; i < COUNT(names); i++) {
    for (int how = 0; how < 4; how++) {
      char bad[64], line[80];
      size_t n = strlen(names[i]);
      strcpy(bad, names[i]);
      if (how == 0) {
        bad[n - 1] = 0;
      } else if (how == 1) {
        strcat(bad, "S");
      } else if (how == 2) {
        bad[n - 1] = names[i][n - 2];
        bad[n - 2] = names[i][n - 1];
        if (strcmp(bad, names[i]) == 0) {
          continue; /* two letters alike: it is right */
        }
      } else {
        bad[n - 1] = (char)(bad[n - 1] | 0x20);
      }
      snprintf(line, sizeof(line), "%s=x", bad);
      refused(line, bad);
      if (!strstr(seen->err, "did you mean SHARD_")) {
        fail_msg("%s: %s", line, seen->err);
      }
      assert_non_null(strstr(seen->err, names[i]));
    }
  }
  /* all of them in one line */
  static const char *const several[] = {"SHARD_VEIW=shard", "SHARD_SEDE=1", "SHARD_RANKS=1", NULL};
  load(several);
  assert_int_equal(seen->rc, -EINVAL);
  for (size_t i = 0; several[i]; i++) {
    char name[32];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(several[i], "="), several[i]);
    assert_non_null(strstr(seen->err, name));
  }
  assert_non_null(strstr(seen->err, "did you mean SHARD_SEED?"));
  assert_non_null(
      strstr(seen->err, "did you mean SHARD_SIZE, the number of ranks, or SHARD_RANK?"));
}

/* Who has set these means another program: the links of a service of Kubernetes' called "shard". */
static void of_other_programs(void **state) {
  (void)state;
  static char huge[5000] = "SHARD_";
  memset(huge + 6, 'X', sizeof(huge) - 9);
  strcpy(huge + sizeof(huge) - 3, "=1");
  static const char *const others[] = {"SHARD_SERVICE_HOST=10.0.0.1",
                                       "SHARD_SERVICE_PORT=80",
                                       "SHARD_PORT=tcp://10.0.0.1:80",
                                       "SHARD_PORT_80_TCP=tcp://10.0.0.1:80",
                                       "SHARD_PORT_80_TCP_ADDR=10.0.0.1",
                                       "SHARD_SOMETHING_ELSE_ALTOGETHER=",
                                       "SHARD_=x",
                                       "SHARD_INDEX=0",
                                       huge,
                                       NULL};
  load(others);
  assert_int_equal(seen->rc, 0);
  assert_string_equal(seen->err, "");
}

/* Without SHARD_DATASET it is DLIO's adapter that complains, and nobody else; but for who misspells
 * just that. */
static void asked(void **state) {
  (void)state;
  static const struct {
    const char *lines[3];
    bool asked;
  } all[] = {{{"SHARD_VEIW=shard", NULL}, false},
             {{"SHARD_DATSET=/data", NULL}, true},
             {{"SHARD_VEIW=shard", "SHARD_DATASET=/data", NULL}, true}};
  for (size_t i = 0; i < COUNT(all); i++) {
    load(all[i].lines);
    assert_int_equal(seen->rc, -EINVAL);
    assert_int_equal(seen->config.asked, all[i].asked);
  }
}

static void misvalued(void **state) {
  (void)state;
  static const char *const bad[] = {
      "SHARD_VIEW=",
      "SHARD_VIEW=Shard",
      "SHARD_VIEW=rank",
      "SHARD_VIEW= shard",
      "SHARD_DATASET=",
      "SHARD_RANK=",
      "SHARD_SIZE=",
      "SHARD_STRATEGY=",
      "SHARD_STRATEGY=hsah",
      "SHARD_SEED=one",
      "SHARD_SEED=18446744073709551616",
      "SHARD_EPOCH=auto",
      "SHARD_EPOCH=-1",
      "SHARD_EPOCH=4611686018427387905",
      "SHARD_WINDOW=0",
      "SHARD_INCLUDE=",
      "SHARD_LISTING=",
      "SHARD_CACHE_DIR=",
      "SHARD_CACHE_DIR=x/y",
      "SHARD_CACHE_DIR=.",
      "SHARD_TIMEOUT=",
      "SHARD_TIMEOUT=0",
      "SHARD_TIMEOUT=-1",
      "SHARD_TIMEOUT=1s",
      "SHARD_TIMEOUT=1.5",
      "SHARD_TIMEOUT=1000001",
      "SHARD_TIMEOUT=99999999999999999999999",
      "SHARD_S3_CONNECTIONS=0",
      "SHARD_S3_CONNECTIONS=257",
      "SHARD_S3_CONNECTIONS=x",
      "SHARD_S3_ADDRESSING=",
      "SHARD_S3_ADDRESSING=host",
      "SHARD_ADAPTER=",
      "SHARD_ADAPTER=1",
      "SHARD_ADAPTER=ON",
      "SHARD_LOG=",
      "SHARD_LOG=verbose",
      "SHARD_LOG=2",
      "SHARD_DATASET=s3://",
      "SHARD_DATASET=/x:s3:///p",
      "SHARD_DATASET==s3://b/p",
      "SHARD_LISTING=s3://b/%k",
      "SHARD_BUILD_MEMORY=",
      "SHARD_BUILD_MEMORY=7M",
      "SHARD_BUILD_MEMORY=much",
      "SHARD_JOB=",
  };
  for (size_t i = 0; i < COUNT(bad); i++) {
    char name[64];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(bad[i], "="), bad[i]);
    refused(bad[i], name);
    const char *value = bad[i] + strcspn(bad[i], "=") + 1;
    refused(bad[i], value);
  }
}

/* Found before a rank reads them: shard_config_check() promises every SHARD_ variable. */
static void misvalued_rank(void **state) {
  (void)state;
  refused("SHARD_RANK=abc", "SHARD_RANK");
  refused("SHARD_SIZE=0x4", "SHARD_SIZE");
}

static void too_long(void **state) {
  (void)state;
  size_t n = 40000;
  char *line = malloc(n);
  size_t k = (size_t)sprintf(line, "SHARD_DATASET=");
  memset(line + k, 'd', n - k - 1);
  line[n - 1] = 0;
  refused(line, "SHARD_DATASET");
  sprintf(line, "SHARD_JOB=%01025d", 1); /* a job's name has no more room */
  refused(line, "SHARD_JOB");
  free(line);
}

/* A folder; a relative one begins at the working directory. */
static void stats(void **state) {
  (void)state;
  LOAD("SHARD_STATS=/a/%%b");
  assert_int_equal(seen->rc, 0);
  assert_string_equal(seen->stats, "/a/%%b");
  char folder[] = "/tmp/test_config.50%.XXXXXX", wanted[80];
  assert_non_null(mkdtemp(folder));
  assert_int_equal(chdir(folder), 0);
  LOAD("SHARD_STATS=b/c");
  assert_int_equal(chdir("/"), 0);
  assert_int_equal(rmdir(folder), 0);
  assert_int_equal(seen->rc, 0);
  snprintf(wanted, sizeof(wanted), "%s/b/c", folder);
  assert_string_equal(seen->stats, wanted);
  refused("SHARD_STATS=/a/%r.json", "leave out the name with %r");
  refused("SHARD_STATS=s3://bucket/a", "SHARD_STATS");
  refused("SHARD_STATS=", "SHARD_STATS");
  assert_true(shard_path_template_has("%r", 'r') && shard_path_template_has("/a%%%rb", 'r'));
  assert_false(shard_path_template_has("/a", 'r') || shard_path_template_has("/%%r", 'r'));
}

/* SHARD_LISTING: files and objects, or one manifest. */
static void listings(void **state) {
  (void)state;
  const char *const lists[][4] = {{"/a", "/a"},
                                  {"/a:/b:", "/a", "/b"},
                                  {"::/a::s3://b/k:/c%:d:s3://b/e", "/a", "s3://b/k", "/c%:d"},
                                  {"/a:b/r%r_e%e.txt", "/a:b/r%r_e%e.txt"},
                                  {"/a:b/%r.listing", "/a:b/%r.listing"},
                                  {"/a:b.txt.gz", "/a:b.txt.gz"}};
  struct shard_listing_item item;
  for (size_t i = 0; i < COUNT(lists); i++) {
    const char *p = lists[i][0];
    for (size_t k = 1; k < 4 && lists[i][k]; k++) {
      p = shard_listing_list_next(p, &item);
      assert_non_null(p);
      assert_int_equal(item.length, strlen(lists[i][k]));
      assert_memory_equal(item.text, lists[i][k], item.length);
    }
    assert_int_equal(shard_listing_list_next(p, &item) != NULL, i == 2);
    assert_null(shard_listing_list_fault(lists[i][0]));
  }
  refused("SHARD_LISTING=:", "names no file");
  refused("SHARD_LISTING=/a%d/%r.listing", "%d");
  refused("SHARD_LISTING=/a/%d.txt", "%d");
  refused("SHARD_LISTING=/m.txt:/a", "name the manifest alone");
  refused("SHARD_LISTING=/a:gs://b/k", "s3://bucket/key");
  refused("SHARD_LISTING=/l/%d.listing", "name each dataset's listing, separated by ':'");
  refused("SHARD_LISTING=s3://b/folder/", "name objects");
  refused("SHARD_LISTING=s3://b/a:c", "%:");
  refused("SHARD_LISTING=/a/%x", "%: for a colon");
  refused("SHARD_LISTING=/a/%", "%: for a colon");
  LOAD("SHARD_LISTING=/l/%%d");
  assert_int_equal(seen->rc, 0);
  char buf[16];
  assert_int_equal(shard_path_template_expand_item("/t%:%%x", 6, buf, sizeof(buf)), 4);
  assert_string_equal(buf, "/t:%");
  assert_int_equal(shard_path_template_expand_item("/123456789012345", 16, buf, 16), -ENAMETOOLONG);
  assert_int_equal(shard_path_template_expand_item("/12345678901234", 15, buf, 16), 15);
  assert_int_equal(shard_path_template_expand_item("%r", 2, buf, 16), -EINVAL);
}

static void listings_absolute(void **state) {
  (void)state;
  char folder[] = "/tmp/test_config.a:5%r.XXXXXX", wanted[80];
  const char *end = strrchr(folder, '.');
  assert_non_null(mkdtemp(folder));
  assert_int_equal(chdir(folder), 0);
  LOAD("SHARD_LISTING=x/d:/y:s3://b/k");
  snprintf(wanted, sizeof(wanted), "/tmp/test_config.a%%:5%%%%r%s/x/d:/y:s3://b/k", end);
  assert_string_equal(seen->listing, wanted);
  LOAD("SHARD_LISTING=m/%r.txt");
  snprintf(wanted, sizeof(wanted), "/tmp/test_config.a:5%%%%r%s/m/%%r.txt", end);
  assert_string_equal(seen->listing, wanted);
  assert_int_equal(chdir("/"), 0);
  assert_int_equal(rmdir(folder), 0);
}

/* Of two faults the first is shown; a short buffer is enough for no overflow. */
static void first_fault(void **state) {
  (void)state;
  LOAD("SHARD_LOG=loud", "SHARD_VEIW=shard");
  assert_int_equal(seen->rc, -EINVAL);
  assert_non_null(strstr(seen->err, "SHARD_LOG"));
  assert_null(strstr(seen->err, "SHARD_VEIW"));
}

/* Entries that shardctl would refuse: a program may have set them since it was started. */
static void foreign(void **state) {
  (void)state;
  assert_true(shard_config_is_foreign("SHARD_ID=3"));
  assert_true(shard_config_is_foreign("SHARD_WINDO=3"));
  assert_true(shard_config_is_foreign("SHARD_WINDOW="));
  assert_true(shard_config_is_foreign("SHARD_=1"));
  assert_false(shard_config_is_foreign("SHARD_WINDOW=3"));
  assert_false(shard_config_is_foreign("SHARD_WINDOW"));
  assert_false(shard_config_is_foreign("XSHARD_ID=3"));
  assert_false(shard_config_is_foreign("AWS_REGION="));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_set),
      cmocka_unit_test(all_set),
      cmocka_unit_test(dataset_items),
      cmocka_unit_test(dataset_buckets),
      cmocka_unit_test(every_word),
      cmocka_unit_test(misspelt),
      cmocka_unit_test(of_other_programs),
      cmocka_unit_test(asked),
      cmocka_unit_test(misvalued),
      cmocka_unit_test(misvalued_rank),
      cmocka_unit_test(too_long),
      cmocka_unit_test(first_fault),
      cmocka_unit_test(stats),
      cmocka_unit_test(listings),
      cmocka_unit_test(listings_absolute),
      cmocka_unit_test(kept),
      cmocka_unit_test(path_below),
      cmocka_unit_test(words),
      cmocka_unit_test(described),
      cmocka_unit_test(foreign),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
