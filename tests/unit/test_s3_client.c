/* SPDX-License-Identifier: MIT */
/*
 * Requests by the real libcurl, to a server that says what a test wants: heads that come before the
 * reply's, trailers behind it, replies that break off.
 * Links: all of source/s3
 */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "listing/format.h"
#include "source/s3/client.h"
#include "unit.h"

#define HELLO "hello"
#define MD5 "5d41402abc4b2a76b9719d911017c592"
#define SHA256 "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define WRONG "0cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define HEAD(more) "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n" more "\r\n"

/* ---- a server -------------------------------------------------------------------------------- */

#define REPLIES 6

static struct {
  int fd;
  pthread_t thread;
  const char *replies[REPLIES]; /* one for each connection */
  size_t bytes;                 /* of a reply with NULs; 0: they are texts */
  unsigned asked;
  char endpoint[64];
} server;

static void *serve(void *context) {
  (void)context;
  while (server.asked < REPLIES && server.replies[server.asked]) {
    char request[8192] = "";
    size_t n = 0;
    int peer = accept(server.fd, NULL, NULL);
    if (peer < 0) {
      break; /* the test is over */
    }
    while (!strstr(request, "\r\n\r\n") && n + 1 < sizeof(request)) {
      ssize_t got = recv(peer, request + n, sizeof(request) - 1 - n, 0);
      if (got <= 0) {
        break;
      }
      n += (size_t)got;
      request[n] = 0;
    }
    const char *reply = server.replies[server.asked++];
    for (size_t at = 0, all = server.bytes ? server.bytes : strlen(reply); at < all;) {
      ssize_t sent = send(peer, reply + at, all - at < 7 ? all - at : 7, MSG_NOSIGNAL);
      if (sent <= 0) {
        break;
      }
      at += (size_t)sent;
    }
    shutdown(peer, SHUT_WR);
    while (recv(peer, request, sizeof(request), 0) > 0) {
    }
    close(peer);
  }
  return NULL;
}

/* Serve these replies; NULL ends them. */
static void start(const char *const replies[REPLIES]) {
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(name);
  memcpy(server.replies, replies, sizeof(server.replies));
  server.asked = 0;
  server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(server.fd >= 0);
  assert_int_equal(bind(server.fd, (struct sockaddr *)&name, size), 0);
  assert_int_equal(listen(server.fd, 16), 0);
  assert_int_equal(getsockname(server.fd, (struct sockaddr *)&name, &size), 0);
  snprintf(server.endpoint, sizeof(server.endpoint), "http://127.0.0.1:%u", ntohs(name.sin_port));
  assert_int_equal(pthread_create(&server.thread, NULL, serve, NULL), 0);
}

static void stop(void) {
  shutdown(server.fd, SHUT_RDWR); /* wakes accept() */
  pthread_join(server.thread, NULL);
  close(server.fd);
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct shard_s3_account account_there(void) {
  return (struct shard_s3_account){.sign = false,
                                   .region = (char *)"us-east-1",
                                   .endpoint = server.endpoint,
                                   .addressing = SHARD_S3_PATH};
}

/* Get an object from these replies. It is in text[] then. */
static int get_and_say(const char *const replies[REPLIES], enum shard_log_level log,
                       uint64_t manifest_max, char text[64], char *err, size_t size) {
  start(replies);
  struct shard_s3_account account = account_there();
  const struct shard_s3_client_options o = {
      .account = &account, .bucket = "bucket", .connections = 1, .timeout = 100, .log = log};
  FILE *file = tmpfile();
  assert_non_null(file);
  int fd = fileno(file);
  err[0] = 0;
  struct shard_s3_client *client;
  int rc = shard_s3_client_open(&o, &client, err, size);
  rc = rc == 0 ? shard_s3_object_get(client, "key", manifest_max, fd, err, size) : rc;
  shard_s3_client_close(client);
  ssize_t n = pread(fd, text, 63, 0);
  text[n > 0 ? n : 0] = 0;
  fclose(file);
  stop();
  return rc;
}

static int get(const char *const replies[REPLIES], uint64_t manifest_max, char text[64], char *err,
               size_t size) {
  return get_and_say(replies, SHARD_LOG_ERROR, manifest_max, text, err, size);
}

static void objects(void **state) {
  (void)state;
  static const struct {
    const char *replies[REPLIES];
    int rc;
    const char *err; /* NULL: what came is "hello" */
  } cases[] = {
      {{HEAD("ETag: \"" MD5 "\"\r\n") HELLO}, 0, NULL},
      {{HEAD("etag:" MD5 "\r\n") HELLO}, 0, NULL},
      /* what a head before the reply's says is not of the reply */
      {{"HTTP/1.1 103 Early Hints\r\nContent-Length: 99\r\nETag: \"x\"\r\n"
        "\r\n" HEAD("ETag: \"" MD5 "\"\r\n") HELLO},
       0,
       NULL},
      /* of one that is weak, or encrypted, the ETag is no MD5 */
      {{HEAD("ETag: W/\"" WRONG "\"\r\n") HELLO}, 0, NULL},
      {{HEAD("ETag: \"" SHA256 "\"\r\nx-amz-server-side-encryption: aws:kms\r\n") HELLO}, 0, NULL},
      /* damaged ones are asked for again */
      {{HEAD("ETag: \"" MD5 "\"\r\n") "hel", HEAD("ETag: \"" MD5 "\"\r\n") HELLO}, 0, NULL},
      {{HEAD("ETag: \"" MD5 "\"\r\n") "olleh", HEAD("ETag: \"" MD5 "\"\r\n") HELLO}, 0, NULL},
      {{HEAD("ETag: \"" MD5 "\"\r\n") "olleh", HEAD("ETag: \"" MD5 "\"\r\n") "olleh",
        HEAD("ETag: \"" MD5 "\"\r\n") "olleh", HEAD("ETag: \"" MD5 "\"\r\n") "olleh"},
       -EBADMSG,
       "MD5"},
      {{HEAD("") HELLO, HEAD("") HELLO, HEAD("") HELLO, HEAD("") HELLO}, -EBADMSG, "no ETag"},
      /* a trailer is no header: this redirect leads nowhere */
      {{"HTTP/1.1 307 Moved\r\nTransfer-Encoding: chunked\r\nTrailer: Location\r\n\r\n0\r\n"
        "Location: /bucket/key\r\n\r\n"},
       -EREMOTE,
       "another place"},
      {{"HTTP/1.1 404 No\r\nContent-Length: 37\r\n\r\n<Error><Code>NoSuchKey</Code></Error>"},
       -ENOENT,
       "no such object"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    char text[64], err[600];
    int rc = get(cases[i].replies, UINT64_MAX, text, err, sizeof(err));
    if (rc != cases[i].rc || (cases[i].err && !strstr(err, cases[i].err))) {
      fail_msg("case %zu: %d, %s", i, rc, err);
    }
    if (!cases[i].err) {
      assert_string_equal(text, HELLO);
      assert_string_equal(err, "");
    }
    assert_true(server.asked == REPLIES || !server.replies[server.asked]); /* all were asked for */
  }
}

/* Of what is no listing, or is larger than there is room, next to nothing is got. */
static void objects_without_end(void **state) {
  (void)state;
#define LONG(n) "HTTP/1.1 200 OK\r\nContent-Length: " n "\r\nETag: \"e\"\r\n\r\n"
  static const struct {
    uint64_t manifest_max; /* 0: a listing */
    const char *replies[REPLIES], *begins, *err;
    int rc;
  } cases[] = {
      {0, {LONG("4294967296") "<html>", LONG("4294967296") "<html>"}, "<html>", "", 0},
      {0, {LONG("4294967296") "SHRDLSP\n", LONG("4294967296") "SHRDLSP\n"}, "SHRDLSP\n", "", 0},
      {0, {LONG("5") "SHRDL"}, "SHRDL", "", 0}, /* opening it will say that it is cut short */
      {0, {LONG("9223372036854775807") "SHRDLST\n"}, "", "make room", -ENOSPC},
      {UINT64_MAX, {LONG("9223372036854775807") "a\n"}, "", "make room", -ENOSPC},
      {1000, {LONG("1001") "a\n"}, "", "it has 1001 bytes", -EFBIG},
      {5, {LONG("5") "hello"}, "hello", "", 0},
      {UINT64_MAX,
       {"HTTP/1.1 200 OK\r\nETag: \"e\"\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nETag: \"e\"\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nETag: \"e\"\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nETag: \"e\"\r\n\r\nhello"},
       "",
       "no length",
       -EBADMSG},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    char text[64], err[600];
    int rc = get(cases[i].replies, cases[i].manifest_max, text, err, sizeof(err));
    if (rc != cases[i].rc || !strstr(err, cases[i].err) ||
        strncmp(text, cases[i].begins, strlen(text)) != 0) {
      fail_msg("case %zu: %d, %s, '%s'", i, rc, err, text);
    }
  }
  /* A header that tells another size than the reply does. */
  static char reply[200 + sizeof(struct shard_header)];
  const char *const replies[REPLIES] = {reply, reply};
  const struct shard_header h = {.magic = SHARD_MAGIC, .file_size = 4096};
  size_t n = strlen(strcpy(reply, LONG("4294967296")));
  memcpy(reply + n, &h, sizeof(h));
  server.bytes = n + sizeof(h);
  char text[64], err[600];
  assert_int_equal(get(replies, 0, text, err, sizeof(err)), 0);
  assert_memory_equal(text, SHARD_MAGIC, 8);
  server.bytes = 0;
}

static int take_key(void *context, const char *key, size_t length) {
  char *to = context;
  strncat(to, key, length);
  strcat(to, " ");
  return 0;
}

/* A list in three pages: the second is cut off first, and follows one whose token is not used. */
/* List with these replies: the keys, and how many replies were not good. */
static void assert_lists(const char *const replies[REPLIES], const char *wanted, unsigned requests,
                         unsigned retries) {
  char keys[100] = "", err[600];
  start(replies);
  struct shard_s3_account account = account_there();
  struct shard_s3_listing l = {.url = {.bucket = "bucket"},
                               .account = &account,
                               .connections = 1,
                               .timeout = 100,
                               .key = take_key,
                               .context = keys};
  int rc = shard_s3_list_keys(&l, err, sizeof(err));
  stop();
  assert_string_equal(err, "");
  assert_int_equal(rc, 0);
  assert_string_equal(keys, wanted);
  assert_int_equal(l.requests, requests);
  assert_int_equal(l.retries, retries);
}

static void lists(void **state) {
  (void)state;
#define PAGE(inside)                                                                               \
  "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<ListBucketResult>" inside "</ListBucketResult>"
#define MORE "<IsTruncated>true</IsTruncated>"
#define LAST "<IsTruncated>false</IsTruncated>"
#define KEY(key) "<Contents><Key>" key "</Key></Contents>"
#define TOKEN(token) "<NextContinuationToken>" token "</NextContinuationToken>"
  static const char *const cut[REPLIES] = {
      PAGE(MORE KEY("a") TOKEN("a\x01")),
      "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n<ListBucketResult><Contents><Key>x</Key>",
      PAGE(MORE KEY("b") TOKEN("b")), PAGE(LAST KEY("c"))};
  assert_lists(cut, "a b c ", 4, 1);
  static const char *const repeated[REPLIES] = {PAGE(MORE KEY("a") TOKEN("a")),
                                                PAGE(LAST KEY("a") KEY("b")), PAGE(LAST KEY("b"))};
  assert_lists(repeated, "a b ", 3, 1);
  static const char *const no_token[REPLIES] = {PAGE(MORE KEY("a")), PAGE(LAST KEY("a"))};
  assert_lists(no_token, "a ", 2, 1);
}

/* What is said of a retry is one line, and controls no terminal, whatever the server says. */
static void forged(void **state) {
  (void)state;
  static const char *const replies[REPLIES] = {
      "HTTP/1.1 503 No\r\nConnection: close\r\n\r\n<Error><Code>Slow\xc2\x9b"
      "2J\nshardctl: forged\x7f</Code></Error>",
      HEAD("ETag: \"" MD5 "\"\r\n") HELLO};
  char text[64], err[600], said[2000];
  FILE *file = tmpfile();
  int kept = dup(2);
  assert_true(file && kept >= 0 && dup2(fileno(file), 2) == 2);
  int rc = get_and_say(replies, SHARD_LOG_INFO, UINT64_MAX, text, err, sizeof(err));
  assert_int_equal(dup2(kept, 2), 2);
  ssize_t n = pread(fileno(file), said, sizeof(said) - 1, 0);
  said[n > 0 ? n : 0] = 0;
  close(kept);
  fclose(file);
  assert_int_equal(rc, 0);
  assert_non_null(strstr(said, "Slow\\xc2\\x9b2J shardctl: forged\\x7f"));
  assert_string_equal(strchr(said, '\n'), "\n");
}

int main(void) {
  static const char *const proxies[] = {"http_proxy", "all_proxy", "ALL_PROXY", "no_proxy"};
  char err[200];
  for (size_t i = 0; i < COUNT(proxies); i++) {
    unsetenv(proxies[i]);
  }
  if (shard_s3_client_init(err, sizeof(err)) != 0) {
    fprintf(stderr, "%s\n", err);
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(objects),
      cmocka_unit_test(objects_without_end),
      cmocka_unit_test(lists),
      cmocka_unit_test(forged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
