/* SPDX-License-Identifier: MIT */
/*
 * The S3 source: URLs, percent-encoding, signatures, pages, and where ranges are divided.
 * Links: all of source/s3
 */
#include <dlfcn.h>
#include <errno.h>
#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "source/s3/answer.h"
#include "source/s3/fault.h"
#include "source/s3/folders.h"
#include "source/s3/page.h"
#include "source/s3/provider.h"
#include "source/s3/s3.h"
#include "source/s3/sigv4.h"
#include "source/s3/split.h"
#include "unit.h"

/* ---- URLs ------------------------------------------------------------------------------------ */

static void urls(void **state) {
  (void)state;
  static const struct {
    const char *text, *bucket, *prefix;
    size_t root;
  } good[] = {{"s3://b", "b", "", 0},
              {"s3://b/", "b", "", 0},
              {"s3://bucket/p", "bucket", "p", 0},
              {"s3://bucket/p/", "bucket", "p/", 2},
              {"s3://bucket/a/b/im", "bucket", "a/b/im", 4},
              {"s3://bucket//x", "bucket", "/x", 1},
              {"s3://bucket/a//", "bucket", "a//", 3},
              {"s3://my.bucket-1/a b%20+?#", "my.bucket-1", "a b%20+?#", 0}};
  struct shard_s3_url u;
  char err[300];
  for (size_t i = 0; i < COUNT(good); i++) {
    assert_int_equal(shard_s3_url_parse(good[i].text, &u, err, sizeof(err)), 0);
    assert_string_equal(u.bucket, good[i].bucket);
    assert_string_equal(u.prefix, good[i].prefix);
    assert_int_equal(u.root, good[i].root);
  }
  static const char *const bad[] = {"s3:/b",      "s3://",      "s3:///p", "b/p",
                                    "s3://b c/p", "s3://b@h/p", "s3://-b", "s3://b:9/p"};
  for (size_t i = 0; i < COUNT(bad); i++) {
    assert_int_equal(shard_s3_url_parse(bad[i], &u, err, sizeof(err)), -EINVAL);
    assert_non_null(strstr(err, bad[i]));
  }
  char longest[1200] = "s3://b/";
  memset(longest + 7, 'x', SHARD_S3_KEY_MAX);
  assert_int_equal(shard_s3_url_parse(longest, &u, err, sizeof(err)), 0);
  longest[7 + SHARD_S3_KEY_MAX] = 'x';
  assert_int_equal(shard_s3_url_parse(longest, &u, err, sizeof(err)), -EINVAL);
}

static char *escape(const char *text, size_t n, bool keep_slash) {
  char *out = NULL;
  size_t size;
  FILE *f = open_memstream(&out, &size);
  shard_s3_url_escape(f, text, n, keep_slash);
  fclose(f);
  return out;
}

static void escapes(void **state) {
  (void)state;
  char all[255], *text;
  for (int i = 0; i < 255; i++) {
    all[i] = (char)(i + 1);
  }
  text = escape(all, 255, false);
  assert_int_equal(shard_s3_url_unescape(text, strlen(text)), 255);
  assert_memory_equal(text, all, 255);
  free(text);
  text = escape("a b/c+d~e%\xc3\xa9", 12, false);
  assert_string_equal(text, "a%20b%2Fc%2Bd~e%25%C3%A9");
  free(text);
  text = escape("a b/c", 5, true);
  assert_string_equal(text, "a%20b/c");
  free(text);
  char both[] = "a+b%20c%2Bd%2fe";
  assert_int_equal(shard_s3_url_unescape(both, strlen(both)), 9);
  assert_memory_equal(both, "a b c+d/e", 9);
  static const char *const bad[] = {"%", "a%2", "%zz", "%2", "%-1"};
  for (size_t i = 0; i < COUNT(bad); i++) {
    char copy[8];
    strcpy(copy, bad[i]);
    assert_int_equal(shard_s3_url_unescape(copy, strlen(copy)), -1);
  }
}

static void endpoints(void **state) {
  (void)state;
  static const struct {
    const char *text, *host, *path;
    bool tls;
  } good[] = {{"http://127.0.0.1:9000", "127.0.0.1:9000", "", false},
              {"https://S3.Example.org/", "s3.example.org", "", true},
              {"https://h:443", "h", "", true},
              {"http://h:80/a/b//", "h", "/a/b", false},
              {"http://h:443", "h:443", "", false},
              {"http://[::1]:80", "[::1]", "", false}};
  struct shard_s3_endpoint e;
  for (size_t i = 0; i < COUNT(good); i++) {
    assert_int_equal(shard_s3_url_parse_endpoint(good[i].text, &e), 0);
    assert_string_equal(e.host, good[i].host);
    assert_string_equal(e.path, good[i].path);
    assert_int_equal(e.tls, good[i].tls);
  }
  static const char *const bad[] = {"h",          "ftp://h",         "http://",
                                    "http:///x",  "http://u:p@h",    "http://h?x",
                                    "http://h x", "http://h\r\nX: y"};
  for (size_t i = 0; i < COUNT(bad); i++) {
    assert_int_equal(shard_s3_url_parse_endpoint(bad[i], &e), -EINVAL);
  }
}

static void addressing(void **state) {
  (void)state;
  static const struct {
    const char *endpoint, *bucket;
    bool virtual;
  } automatic[] = {{"https://s3.eu-west-1.amazonaws.com", "bucket", true},
                   {"https://s3.eu-west-1.amazonaws.com", "buck.et", false},
                   {"http://s3.example.org", "buck.et", true},
                   {"http://s3.example.org:8080", "bucket", true},
                   {"http://localhost:8080", "bucket", true},
                   {"http://127.0.0.1:8080", "bucket", false},
                   {"http://[::1]:8080", "bucket", false},
                   {"https://s3.example.org", "Bucket", false},
                   {"https://s3.example.org", "my_bucket", false},
                   {"https://s3.example.org", "ab", false}};
  struct shard_s3_endpoint e;
  for (size_t i = 0; i < COUNT(automatic); i++) {
    assert_int_equal(shard_s3_url_parse_endpoint(automatic[i].endpoint, &e), 0);
    assert_int_equal(shard_s3_url_is_virtual(&e, automatic[i].bucket, SHARD_S3_AUTO),
                     automatic[i].virtual);
    assert_true(shard_s3_url_is_virtual(&e, automatic[i].bucket, SHARD_S3_VIRTUAL));
    assert_false(shard_s3_url_is_virtual(&e, automatic[i].bucket, SHARD_S3_PATH));
  }
}

/* ---- signatures ------------------------------------------------------------------------------ */

#define TOKEN                                                                                      \
  "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPf"  \
  "IeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7W"  \
  "Z0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8F"  \
  "DrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define UNRESERVED "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/* The published test suite of Signature Version 4, its requests in canonical form. */
static void signatures(void **state) {
  (void)state;
  static const struct shard_sigv4_key key = {
      "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1", "service", NULL};
  static const struct {
    const char *name, *method, *path, *query;
    struct shard_sigv4_header headers[4]; /* besides host and x-amz-date */
    const char *signature;
  } vectors[] = {
      {"get-vanilla",
       "GET",
       "/",
       "",
       {{0}},
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-vanilla-query-order-key-case",
       "GET",
       "/",
       "Param1=value1&Param2=value2",
       {{0}},
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get-vanilla-query-unreserved",
       "GET",
       "/",
       UNRESERVED "=" UNRESERVED,
       {{0}},
       "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
      {"get-vanilla-utf8-query",
       "GET",
       "/",
       "%E1%88%B4=bar",
       {{0}},
       "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
      {"get-utf8",
       "GET",
       "/%E1%88%B4",
       "",
       {{0}},
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {"get-unreserved",
       "GET",
       "/" UNRESERVED,
       "",
       {{0}},
       "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
      {"get-space",
       "GET",
       "/example%20space/",
       "",
       {{0}},
       "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
      {"get-header-value-trim",
       "GET",
       "/",
       "",
       {{"my-header1", " value1"}, {"my-header2", " \"a   b   c\""}},
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
      {"post-vanilla",
       "POST",
       "/",
       "",
       {{0}},
       "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
      {"post-sts-header-before",
       "POST",
       "/",
       "",
       {{"x-amz-security-token", TOKEN}},
       "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"},
  };
  char date[SHARD_SIGV4_DATE];
  shard_sigv4_date(1440938160, date);
  assert_string_equal(date, "20150830T123600Z");
  for (size_t i = 0; i < COUNT(vectors); i++) {
    struct shard_sigv4_header headers[6] = {{"host", "example.amazonaws.com"}};
    size_t n = 1, k = 0;
    for (; vectors[i].headers[k].name && strcmp(vectors[i].headers[k].name, "x-amz-date") < 0;) {
      headers[n++] = vectors[i].headers[k++];
    }
    headers[n++] = (struct shard_sigv4_header){"x-amz-date", date};
    for (; vectors[i].headers[k].name;) {
      headers[n++] = vectors[i].headers[k++];
    }
    const struct shard_sigv4_request r = {
        vectors[i].method, vectors[i].path, vectors[i].query, headers, n, EMPTY, date};
    char *got = shard_sigv4_sign(&key, &r);
    assert_non_null(got);
    const char *begin = "AWS4-HMAC-SHA256 "
                        "Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
                        "SignedHeaders=host;";
    assert_memory_equal(got, begin, strlen(begin));
    if (strcmp(strstr(got, "Signature=") + 10, vectors[i].signature) != 0) {
      fail_msg("%s: %s", vectors[i].name, got);
    }
    free(got);
  }
  char hex[SHARD_SIGV4_HASH];
  shard_sigv4_hash("", 0, hex);
  assert_string_equal(hex, EMPTY);
}

/* Amazon's example of a signed GET of a bucket, with S3's own header (Authorization header docs).
 */
static void signature_of_a_list(void **state) {
  (void)state;
  static const struct shard_sigv4_key key = {
      "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1", "s3", NULL};
  const struct shard_sigv4_header headers[] = {{"host", "examplebucket.s3.amazonaws.com"},
                                               {"x-amz-content-sha256", EMPTY},
                                               {"x-amz-date", "20130524T000000Z"}};
  const struct shard_sigv4_request r = {"GET", "/",   "max-keys=2&prefix=J", headers,
                                        3,     EMPTY, "20130524T000000Z"};
  char *got = shard_sigv4_sign(&key, &r);
  assert_string_equal(got, "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
                           "aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
                           "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69d"
                           "c6f7");
  free(got);
}

/* Google's words in the same scheme; the signature is from a program of its own (Python's hmac). */
static void signature_for_google(void **state) {
  (void)state;
  const struct shard_s3_provider *p = shard_s3_provider_of("bucket.storage.googleapis.com");
  const struct shard_sigv4_key key = {"GOOG1EXAMPLE", "secretOfNoValue/+0", p->region, p->service,
                                      &p->scheme};
  const struct shard_sigv4_header headers[] = {{"host", "bucket.storage.googleapis.com"},
                                               {p->content, EMPTY},
                                               {p->date, "20261122T091500Z"},
                                               {p->only_new.name, p->only_new.value},
                                               {p->sha256, EMPTY}};
  const struct shard_sigv4_request r = {"PUT", "/a%20b/x.listing", "", headers, COUNT(headers),
                                        EMPTY, "20261122T091500Z"};
  char *got = shard_sigv4_sign(&key, &r);
  assert_string_equal(got, "GOOG4-HMAC-SHA256 Credential=GOOG1EXAMPLE/20261122/auto/storage/"
                           "goog4_request, SignedHeaders=host;x-goog-content-sha256;x-goog-date;"
                           "x-goog-if-generation-match;x-goog-meta-sha256, Signature="
                           "ac4af4b181e1a6f04170acc50487a4d00b0949cbe2995517da7b4a54bbe623c7");
  free(got);
}

/* How requests to a host are signed, and what replies say. */
static void providers(void **state) {
  (void)state;
  static const char google[] = "GOOG4-HMAC-SHA256", aws[] = "AWS4-HMAC-SHA256";
  static const struct {
    const char *host, *name, *algorithm, *scope, *prefix, *only_new;
  } hosts[] = {
      {"storage.googleapis.com", "Google Cloud Storage", google, "storage/auto", "x-goog-",
       "x-goog-if-generation-match: 0"},
      {"storage.googleapis.com:443", "Google Cloud Storage", google, "storage/auto", "x-goog-",
       "x-goog-if-generation-match: 0"},
      {"storage.europe-west3.rep.googleapis.com", "Google Cloud Storage", google, "storage/auto",
       "x-goog-", "x-goog-if-generation-match: 0"},
      {"s3.eu-west-1.amazonaws.com", "Amazon S3", aws, "s3/", "x-amz-", "if-none-match: *"},
      {"b.s3.cn-north-1.amazonaws.com.cn:443", "Amazon S3", aws, "s3/", "x-amz-",
       "if-none-match: *"},
      {"amazonaws.com.example", "S3", aws, "s3/", "x-amz-", "if-none-match: *"},
      {"127.0.0.1:9000", "S3", aws, "s3/", "x-amz-", "if-none-match: *"},
      {"googleapis.com.example", "S3", aws, "s3/", "x-amz-", "if-none-match: *"},
      {"evilgoogleapis.com", "S3", aws, "s3/", "x-amz-", "if-none-match: *"},
      {"", "S3", aws, "s3/", "x-amz-", "if-none-match: *"},
  };
  for (size_t i = 0; i < COUNT(hosts); i++) {
    const struct shard_s3_provider *p = shard_s3_provider_of(hosts[i].host);
    char text[200], value[80];
    assert_string_equal(p->name, hosts[i].name);
    assert_string_equal(p->scheme.algorithm, hosts[i].algorithm);
    snprintf(text, sizeof(text), "%s/%s", p->service, p->region ? p->region : "");
    assert_string_equal(text, hosts[i].scope);
    snprintf(text, sizeof(text), "%s: %s", p->only_new.name, p->only_new.value);
    assert_string_equal(text, hosts[i].only_new);
    /* One that has x-amz- headers beside x-goog- ones is refused by Google. */
    const char *const names[] = {p->content, p->date, p->token, p->sha256};
    for (size_t k = 0; k < COUNT(names); k++) {
      assert_true(!names[k] || strncmp(names[k], hosts[i].prefix, strlen(hosts[i].prefix)) == 0);
    }
    snprintf(text, sizeof(text), "%s: abc\r\n", p->sha256);
    assert_int_equal(shard_s3_provider_read(text, strlen(text), value, sizeof(value)),
                     SHARD_S3_SHA256);
    assert_string_equal(value, "abc");
    assert_non_null(p->encrypted[0].name);
  }
}

/* Amazon's hosts in its regions, and which hosts a redirect may name. */
static void homes(void **state) {
  (void)state;
  const struct shard_s3_provider *home = shard_s3_provider_home();
  char host[100];
  shard_s3_provider_host(home, "eu-west-1", host, sizeof(host));
  assert_string_equal(host, "s3.eu-west-1.amazonaws.com");
  shard_s3_provider_host(home, "cn-north-1", host, sizeof(host));
  assert_string_equal(host, "s3.cn-north-1.amazonaws.com.cn");
  assert_true(shard_s3_provider_owns(home, "b.s3.eu-west-1.amazonaws.com"));
  assert_true(shard_s3_provider_owns(home, "S3.CN-NORTH-1.AMAZONAWS.COM.CN"));
  static const char *const others[] = {"",
                                       "amazonaws.com",
                                       ".amazonaws.com",
                                       "evilamazonaws.com",
                                       "amazonaws.com.evil.example",
                                       "s3.amazonaws.com:8080",
                                       "storage.googleapis.com"};
  for (size_t i = 0; i < COUNT(others); i++) {
    assert_false(shard_s3_provider_owns(home, others[i]));
  }
}

/* Lines of replies' heads. */
static void heads(void **state) {
  (void)state;
  static const struct {
    const char *line;
    enum shard_s3_fact fact;
    const char *value;
  } lines[] = {
      {"x-amz-meta-sha256: abc\r\n", SHARD_S3_SHA256, "abc"},
      {"X-Goog-Meta-SHA256:abc", SHARD_S3_SHA256, "abc"},
      {"x-amz-meta-sha256:\t 12345678901234567890 \r\n", SHARD_S3_SHA256, ""}, /* too long */
      {"x-amz-meta-sha256:", SHARD_S3_SHA256, ""},
      {"x-amz-meta-sha256 : abc", SHARD_S3_NO_FACT, NULL},
      {"x-amz-meta-sha256x: abc", SHARD_S3_NO_FACT, NULL},
      {"x-amz-bucket-region: eu-west-1\r\n", SHARD_S3_REGION, "eu-west-1"},
      {"x-amz-server-side-encryption: AES256\r\n", SHARD_S3_NO_FACT, NULL},
      {"x-amz-server-side-encryption: aws:kms\r\n", SHARD_S3_ENCRYPTED, "aws:kms"},
      {"x-amz-server-side-encryption-customer-algorithm: AES256\r\n", SHARD_S3_ENCRYPTED, "AES256"},
      {"x-goog-encryption-kms-key-name: k\r\n", SHARD_S3_ENCRYPTED, "k"},
      {"\r\n", SHARD_S3_NO_FACT, NULL},
      {"", SHARD_S3_NO_FACT, NULL},
  };
  char value[16];
  for (size_t i = 0; i < COUNT(lines); i++) {
    size_t n = strlen(lines[i].line);
    char *alone = malloc(n + 1); /* no NUL behind it */
    memcpy(alone + 1, lines[i].line, n);
    assert_int_equal(shard_s3_provider_read(alone + 1, n, value, sizeof(value)), lines[i].fact);
    if (lines[i].value) {
      assert_string_equal(value, lines[i].value);
    }
    free(alone);
  }
}

/* ---- pages ----------------------------------------------------------------------------------- */

#define NAMESPACE "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""

/*
 * When expat calls back is its own affair: every page is read with pieces put off, and without,
 * where the expat that is used has the choice (since 2.6.0, and in older ones with security fixes).
 */
enum deferral { AS_IT_IS, DEFERRED, AT_ONCE, DEFERRALS };

static int begin(struct shard_s3_page *page, enum deferral deferral) {
  static XML_Bool (*set)(XML_Parser, XML_Bool);
  static bool looked_up;
  if (!looked_up) {
    void *found = dlsym(RTLD_DEFAULT, "XML_SetReparseDeferralEnabled");
    memcpy(&set, &found, sizeof(set));
    looked_up = true;
    printf("expat %s, %s reparse deferral\n", XML_ExpatVersion(), set ? "with" : "without");
  }
  int rc = shard_s3_page_begin(page);
  if (rc == 0 && set && deferral != AS_IT_IS) {
    assert_true(set(page->parser, deferral == DEFERRED));
  }
  return rc;
}

static size_t any(size_t below) {
  static uint64_t state = 20;
  return (size_t)(unit_random(&state) % below);
}

/* Feed a reply in pieces of `step` bytes; 0: of any, from none to 40. */
static int feed_so(struct shard_s3_page *page, const char *text, size_t n, size_t step,
                   enum deferral deferral) {
  int rc = begin(page, deferral);
  for (size_t at = 0; at < n && rc == 0;) {
    size_t piece = step ? step : any(41);
    piece = piece < n - at ? piece : n - at;
    char *alone = malloc(piece); /* such that a sanitizer sees what reads past its end */
    assert_non_null(piece ? alone : "");
    memcpy(alone, text + at, piece);
    rc = shard_s3_page_feed(page, alone, piece);
    free(alone);
    at += piece;
  }
  return rc ? rc : shard_s3_page_end(page);
}

static int feed(struct shard_s3_page *page, const char *text, size_t step) {
  return feed_so(page, text, strlen(text), step, AS_IT_IS);
}

static void pages(void **state) {
  (void)state;
  static const struct {
    const char *text, *keys[5], *token;
    bool truncated;
  } good[] = {
      {"<?xml version=\"1.0\"?><ListBucketResult " NAMESPACE "><Name>b</Name><IsTruncated>false"
       "</IsTruncated><Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>",
       {"a"},
       NULL,
       false},
      /* the encoding is told after the keys; entities first, then %XX; + is a blank */
      {"<s:ListBucketResult "
       "xmlns:s='x'><s:IsTruncated>true</s:IsTruncated><s:Contents><s:Key>a&apos;"
       "%2Fb%2Bc+d%20e%26</s:Key></s:Contents><s:Contents><s:Key>f%0A%C3%A9</s:Key></s:Contents>"
       "<s:NextContinuationToken>1%2F+&amp;=</s:NextContinuationToken><s:EncodingType>url"
       "</s:EncodingType></s:ListBucketResult>",
       {"a'/b+c d e&", "f\n\xc3\xa9"},
       "1%2F+&=",
       true},
      /* without it keys are as they stand */
      {"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a+%20</Key></Contents>"
       "</ListBucketResult>",
       {"a+%20"},
       NULL,
       false},
      /* a Key elsewhere is none; a page may be empty */
      {"<ListBucketResult><Key>x</Key><IsTruncated>true</IsTruncated><NextContinuationToken>t"
       "</NextContinuationToken><CommonPrefixes><Prefix>y</Prefix></CommonPrefixes>"
       "</ListBucketResult>",
       {NULL},
       "t",
       true},
      /* what repeats the request may have characters that XML has not */
      {"<ListBucketResult><StartAfter>a\x01</StartAfter><IsTruncated>true</IsTruncated>"
       "<EncodingType>url</EncodingType><Contents><Key>a%01b</Key></Contents>"
       "<NextContinuationToken>a\x01"
       "b</NextContinuationToken></ListBucketResult>",
       {"a\x01"
        "b"},
       NULL,
       true},
      /* such as references too; others stay what they are */
      {"<ListBucketResult><StartAfter>a&#x01;&#1;</StartAfter><IsTruncated>true</IsTruncated>"
       "<Contents><Key>a&#38;&#x26;&amp;&#x9;b</Key><ETag>&quot;&quot;</ETag></Contents>"
       "<NextContinuationToken>&#x1f600;&lt;</NextContinuationToken></ListBucketResult>",
       {"a&&&\tb"},
       "\xf0\x9f\x98\x80<",
       true},
      /* what stands around keys, in any order, with marks that are broken off */
      {"<ListBucketResult><Contents><ETag>e</ETag><Key>a</Key><Size>1</Size><Owner><ID>x</ID></"
       "Owner>"
       "</Contents><Contents><Key>b</Key></Contents><Contents>\n<Key>c</Key>\n<Conten/><X/>\n"
       "</Contents><IsTruncated>false</IsTruncated></ListBucketResult>",
       {"a", "b", "c"},
       NULL,
       false},
      /* entries that follow each other without a gap; those of a comment are none */
      {"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key><X>&amp;</X>"
       "</Contents><Contents><Key>b+%2e</Key></Contents><Contents><Key>c&amp;</Key></Contents>"
       "<Contents><Key>d</Key><Size>1</Size></Contents></ListBucketResult>",
       {"a", "b+%2e", "c&", "d"},
       NULL,
       false},
      {"<ListBucketResult><Contents><Key>a</Key></Contents><!-- <Contents><Key>b</Key></Contents>"
       "<Contents><Key>c</Key></Contents> --><Contents><Key>d</Key></Contents><Contents><Key>e"
       "</Key></Contents><IsTruncated>false</IsTruncated></ListBucketResult>",
       {"a", "d", "e"},
       NULL,
       false},
      {"<ListBucketResult><More><Contents><Key>b</Key></Contents><Contents><Key>c</Key></Contents>"
       "</More><Contents><Key>d</Key></Contents><Contents><Key>e</Key></Contents><IsTruncated>"
       "false</IsTruncated></ListBucketResult>",
       {"d", "e"},
       NULL,
       false},
      {"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>&#x1F;"
       "</NextContinuationToken><Contents><Key>a</Key></Contents></ListBucketResult>",
       {"a"},
       NULL,
       true},
      /* DEL is allowed, and the parser's mask for what is not: here are both, side by side */
      {"<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>\x7f</Key></Contents>"
       "<Contents><Key>\x7f?</Key></Contents><Contents><Key>\x7f\x7f?&#127;&#x7F;\x7f</Key></"
       "Contents>"
       "<NextContinuationToken>?\x7f?\x7f&#x7f;</NextContinuationToken></ListBucketResult>",
       {"\x7f", "\x7f?", "\x7f\x7f?\x7f\x7f\x7f"},
       "?\x7f?\x7f\x7f",
       true},
      {"<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>\x7f</Key></Contents>"
       "<NextContinuationToken>\x7f?\x7f\x01\x7f</NextContinuationToken></ListBucketResult>",
       {"\x7f"},
       NULL,
       true},
      /* nothing but masks; and one after the other */
      {"<ListBucketResult>\n<IsTruncated>true</IsTruncated><Contents><Key>a</Key></Contents>"
       "<NextContinuationToken>\x01\x02&#3;&#x4;\x05</NextContinuationToken><StartAfter>\x01"
       "</StartAfter></ListBucketResult>",
       {"a"},
       NULL,
       true},
      /* a control character in what is of no use, right before and after what is */
      {"<ListBucketResult><X>\x01</X><NextContinuationToken>t</NextContinuationToken><X>\x01</X>"
       "<Contents><X>\x1f</X><Key>a</Key><X>\x1f</X></Contents><X>\x01</X><IsTruncated>true"
       "</IsTruncated><X>&#1;</X></ListBucketResult>",
       {"a"},
       "t",
       true},
      /* U+FFFE and U+FFFF are not allowed; others that begin as they do are */
      {"<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>\xef\xbf\xbd\xef\xbb\xbf"
       "</Key></Contents><StartAfter>\xef\xbf\xbe</StartAfter><NextContinuationToken>a\xef\xbf\xbf"
       "</NextContinuationToken></ListBucketResult>",
       {"\xef\xbf\xbd\xef\xbb\xbf"},
       NULL,
       true},
      {"<ListBucketResult><IsTruncated>true</IsTruncated><X>\xef\xbf\xbf\xef\xbf\xbe\x01</X>"
       "<NextContinuationToken>\xef\xac\x80&#65533;</NextContinuationToken></ListBucketResult>",
       {NULL},
       "\xef\xac\x80\xef\xbf\xbd",
       true},
      /* CDATA: "&#127;" stands for itself there, and a mask in its place cannot be told from DEL */
      {"<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key><![CDATA[a&b]]></Key>"
       "</Contents><NextContinuationToken><![CDATA[a&#127;]]></NextContinuationToken>"
       "</ListBucketResult>",
       {"a&b"},
       NULL,
       true},
      {"<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a</Key></Contents>"
       "<X><![CDATA[\x7f]]></X><NextContinuationToken><![CDATA[a&]]>b</NextContinuationToken>"
       "</ListBucketResult>",
       {"a"},
       "a&b",
       true},
  };
  struct shard_s3_page page = {0};
  for (size_t run = 0; run < COUNT(good) * DEFERRALS; run++) {
    size_t i = run / DEFERRALS;
    enum deferral deferral = run % DEFERRALS;
    for (size_t step = 0; step < 400; step += step < 10 ? 1 : 97) {
      if (feed_so(&page, good[i].text, strlen(good[i].text), step, deferral) != 0) {
        fail_msg("page %zu in steps of %zu: %s", i, step, page.why);
      }
      size_t at = 0, n, k = 0;
      const char *key;
      while ((key = shard_s3_page_key(&page, &at, &n)) != NULL) {
        assert_non_null(good[i].keys[k]);
        assert_int_equal(n, strlen(good[i].keys[k]));
        assert_memory_equal(key, good[i].keys[k], n);
        k++;
      }
      assert_null(good[i].keys[k]);
      assert_int_equal(page.count, k);
      assert_int_equal(page.truncated, good[i].truncated);
      assert_int_equal(page.token != NULL, good[i].token != NULL);
      if (page.token) {
        assert_string_equal(page.token, good[i].token);
      }
    }
  }
  shard_s3_page_free(&page);
}

/* Folders, where they were asked for. */
static void pages_of_folders(void **state) {
  (void)state;
  const char *text = "<ListBucketResult><IsTruncated>false</IsTruncated><EncodingType>url"
                     "</EncodingType><Prefix>p</Prefix><Contents><Key>k</Key></Contents><Contents>"
                     "<Key>l</Key></Contents><CommonPrefixes><Prefix>a%2F</Prefix></CommonPrefixes>"
                     "<CommonPrefixes><Prefix>b/</Prefix></CommonPrefixes></ListBucketResult>";
  struct shard_s3_page page = {.folders = true};
  for (size_t run = 0; run < 15 * DEFERRALS; run++) {
    size_t step = run / DEFERRALS, at = 0, n;
    step = step < 10 ? step : (step - 9) * 97;
    assert_int_equal(feed_so(&page, text, strlen(text), step, run % DEFERRALS), 0);
    assert_int_equal(page.count, 2);
    assert_memory_equal(shard_s3_page_key(&page, &at, &n), "a/", 2);
    assert_memory_equal(shard_s3_page_key(&page, &at, &n), "b/", 2);
    assert_null(shard_s3_page_key(&page, &at, &n));
  }
  shard_s3_page_free(&page);
}

static void damaged_pages(void **state) {
  (void)state;
#define PAGE(inside) "<ListBucketResult>" inside "</ListBucketResult>"
#define LAST "<IsTruncated>false</IsTruncated>"
#define URL "<EncodingType>url</EncodingType>"
  static const char *const bad[] = {
      "",
      "<ListBucketResult>",
      "<ListBucketResult>" LAST "<Contents><Key>a</Key></Contents>",
      "<!DOCTYPE html><html><body>no</body></html>",
      "<html><body>no</body></html>",
      "<Error><Code>InternalError</Code></Error>",
      "{\"error\": 1}",
      PAGE(""),
      PAGE("<IsTruncated>maybe</IsTruncated>"),
      PAGE(LAST "<Contents><Key>a</Kex></Contents>"),
      PAGE(LAST "<Contents><Size>1</Size></Contents>"),
      PAGE(LAST "<Contents><Key>a</Key><Size>1</Size>"),
      PAGE(LAST "<Contents><Key>a</Key></Content></Contents"),
      PAGE(LAST "<Contents><Owner><Key>a</Key></Owner></Contents>"),
      PAGE(LAST "<Contents><Key></Key></Contents>"),
      PAGE(LAST "<s:Contents><s:Key>a</s:Key><s:Key>b</s:Key></s:Contents>"),
      PAGE(LAST URL "<Contents><Key>a%0</Key></Contents>"),
      PAGE(LAST URL "<Contents><Key>a%00b</Key></Contents>"),
      PAGE(LAST "<Contents><Key>a\x01</Key></Contents>"),
      PAGE(LAST "<Contents><Key>a</Key></Contents><Contents><Key>b\x01</Key></Contents>"),
      PAGE(LAST "<Contents><Key>a</Key></Contents><Contents><Key></Key></Contents>"),
      PAGE(LAST "<Contents><Key>a</Key></Contents><Contents><Key>b</Kex></Contents>"),
      PAGE(LAST "<Contents><Key>a</Key></Contents><Contents><Key>b</Key>"),
      PAGE(LAST URL "<Contents><Key>a</Key></Contents><Contents><Key>b%0</Key></Contents>"),
      PAGE(LAST "<Contents><Key>a&#x1;</Key></Contents>"),
      PAGE(LAST "<Contents><Key>a&#x</Key></Contents>"),
      PAGE(LAST "<Contents><Key>a&#111111111111111111;</Key></Contents>"),
      PAGE(LAST "<Contents><Key>a&;</Key></Contents>"),
      PAGE(LAST "<Contents><Key>\xff</Key></Contents>"),
      PAGE(LAST "<Contents><Key>\x7f\x01</Key></Contents>"),
      PAGE(LAST "<Contents><Key>\xef\xbf\xbf</Key></Contents>"),
      PAGE(LAST "<Contents><Key>\xef\xbf</Key></Contents>"),
      PAGE(LAST "<Contents><Key>\xef</Key></Contents>"),
      PAGE(LAST) "\xef\xbf",
      PAGE(LAST "<Contents><Key><![CDATA[\x01]]></Key></Contents>"),
      PAGE(LAST "<Contents><Key><![CDATA[&#127;]]></Key></Contents>"),
      PAGE(LAST) "<ListBucketResult/>",
      PAGE(LAST) "&",
      PAGE(LAST) "&#1",
      "<Error/>",
      "<!DOCTYPE a [<!ENTITY e \"x\">]>" PAGE(LAST "<Contents><Key>&e;</Key></Contents>"),
  };
  struct shard_s3_page page = {0};
  for (size_t run = 0; run < COUNT(bad) * DEFERRALS; run++) {
    size_t i = run / DEFERRALS;
    for (size_t step = 0; step < 400; step += step == 0 ? 1 : 99) {
      if (feed_so(&page, bad[i], strlen(bad[i]), step, run % DEFERRALS) != -EBADMSG ||
          !page.why[0]) {
        fail_msg("page %zu in steps of %zu is taken", i, step);
      }
    }
  }
  /* Every cut of a good page is damage. */
  const char *whole = PAGE(LAST "<Contents><Key>a</Key></Contents>");
  char part[200];
  for (size_t n = 0; n < strlen(whole); n++) {
    snprintf(part, sizeof(part), "%.*s", (int)n, whole);
    for (enum deferral deferral = 0; deferral < DEFERRALS; deferral++) {
      assert_int_equal(feed_so(&page, part, n, 7, deferral), -EBADMSG);
    }
  }
  assert_int_equal(feed(&page, whole, 7), 0);
  /* A key longer than 1,024 bytes; one that never ends. */
  char *text = malloc(SHARD_S3_PAGE_MAX + 100);
  for (size_t n = SHARD_S3_KEY_MAX; n < SHARD_S3_PAGE_MAX; n *= 16) {
    for (size_t extra = 0; extra < 2; extra++) {
      strcpy(text, "<ListBucketResult>" LAST "<Contents><Key>");
      size_t at = strlen(text);
      memset(text + at, 'k', n + extra);
      strcpy(text + at + n + extra, "</Key></Contents></ListBucketResult>");
      assert_int_equal(feed(&page, text, 65536), n + extra == SHARD_S3_KEY_MAX ? 0 : -EBADMSG);
    }
  }
  free(text);
  shard_s3_page_free(&page);
}

/* A reply put together at random: mostly well-formed, with much that is hard to read. */
static size_t make_reply(char *text, size_t size) {
  static const char *const bits[] = {
      "a",
      "b%2Fc",
      "+",
      "&amp;",
      "&#38;",
      "&#x41;",
      "&#127;",
      "&#x1;",
      "&#0;",
      "&#65534;",
      "\x01",
      "\x1f",
      "\x7f",
      "\x7f?",
      "?",
      "\xc3\xa9",
      "\xef\xbf\xbd",
      "\xef\xbf\xbe",
      "\xef\xbf\xbf",
      "\xf0\x9f\x98\x80",
      "<!---->",
      "<!-- \x01 -->",
      "<![CDATA[x]]>",
      "<![CDATA[\x01]]>",
      "<![CDATA[&#1;]]>",
      "<?p \x7f?>",
      "]",
      "\r\n",
      "\t",
      "<!-- </Key> -->",
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  static const char *const odd[] = {"&",          "&#",   "&#x",      "<",      ">",
                                    "\xff",       "\xef", "\xef\xbf", "</Key>", "</Contents>",
                                    "<Contents>", "]]>",  ""};
  static const char *const around[][2] = {
      {"<Contents><Key>", "</Key></Contents>"},
      {"<Contents><Key>", "</Key><Size>1</Size><X>&quot;\x01</X></Contents>"},
      {"<Contents><ETag>e</ETag><Key>", "</Key></Contents>"},
      {"<Contents>\n<Key>", "</Key>\n</Contents>\n"},
      {"<s:Contents><s:Key>", "</s:Key></s:Contents>"},
      {"<CommonPrefixes><Prefix>", "</Prefix></CommonPrefixes>"},
      {"<StartAfter>", "</StartAfter>"},
      {"<NextContinuationToken>", "</NextContinuationToken>"},
      {"<!--", "-->"},
      {"<!-- <Contents><Key>", "</Key></Contents> -->"},
      {"<More><Contents><Key>", "</Key></Contents></More>"}};
  FILE *out = fmemopen(text, size, "w");
  assert_non_null(out);
  fputs("<ListBucketResult>", out);
  fputs(any(2) ? "<IsTruncated>true</IsTruncated>" : "<IsTruncated>false</IsTruncated>", out);
  fputs(any(2) ? "<EncodingType>url</EncodingType>" : "", out);
  for (size_t i = any(12); i > 0; i--) {
    size_t kind = any(COUNT(around));
    bool plain = any(2) == 0;
    fputs(around[kind][0], out);
    for (size_t k = any(5) + (any(50) > 0); k > 0; k--) {
      const char *bit = any(200) == 0 ? odd[any(COUNT(odd))] : bits[plain ? 0 : any(COUNT(bits))];
      fwrite(bit, 1, *bit ? strlen(bit) : 1, out);
    }
    fputs(around[kind][1], out);
  }
  fputs("</ListBucketResult>", out);
  size_t n = (size_t)ftell(out);
  fclose(out);
  return any(20) > 0 ? n : any(n + 1);
}

/* However a reply is cut, and whenever expat calls back, it is read the same way. */
static void pages_in_pieces(void **state) {
  (void)state;
  static struct shard_s3_page whole, part; /* ended by nothing but their own end */
  char text[8192];
  unsigned good = 0, tokens = 0;
  for (int run = 0; run < 4000 / UNIT_PART; run++) {
    size_t n = make_reply(text, sizeof(text));
    whole.folders = part.folders = run % 5 == 0;
    int rc = feed_so(&whole, text, n, n + 1, AS_IT_IS);
    good += rc == 0;
    tokens += rc == 0 && whole.token;
    for (unsigned k = 0; k < 6; k++) {
      int other = feed_so(&part, text, n, k % 2 ? 1 : 0, k % DEFERRALS);
      if (rc != other) {
        fail_msg("whole %d (%s), in pieces %d (%s): %.*s", rc, whole.why, other, part.why, (int)n,
                 text);
      }
      if (rc == 0) {
        assert_int_equal(part.count, whole.count);
        assert_int_equal(part.used, whole.used);
        assert_memory_equal(part.keys ? part.keys : "", whole.keys ? whole.keys : "", whole.used);
        assert_int_equal(part.truncated, whole.truncated);
        assert_int_equal(part.token_masked, whole.token_masked);
        assert_int_equal(part.token != NULL, whole.token != NULL);
        assert_string_equal(part.token ? part.token : "", whole.token ? whole.token : "");
      }
    }
  }
  assert_in_range(good, 500 / UNIT_PART, 3999 / UNIT_PART);
  assert_in_range(tokens, 100 / UNIT_PART, 3999 / UNIT_PART);
  shard_s3_page_free(&whole);
  shard_s3_page_free(&part);
}

/* Pages that take many times their bytes: what is open, and every name, is kept. */
static void pages_without_end(void **state) {
  (void)state;
  static const struct {
    const char *begin, *again; /* %u: a number */
  } kinds[] = {{"", "<a>"},
               {"", "<a%u/>"},
               {"<a", " b%u=''"},
               {"<a b='", "%u"},
               {"<!--", "%u"},
               {"<", "a%u"},
               {"", "<p:Contents><p:Key>%u</p:Key><x>"}};
  static struct shard_s3_page page;
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  for (size_t kind = 0; kind < COUNT(kinds); kind++) {
    char piece[4096] = "<ListBucketResult>";
    strcat(piece, kinds[kind].begin);
    int rc = begin(&page, AS_IT_IS);
    rc = rc ? rc : shard_s3_page_feed(&page, piece, strlen(piece));
    for (unsigned number = 0; rc == 0 && page.received < SHARD_S3_PAGE_MAX - sizeof(piece);) {
      size_t n = 0;
      while (n < sizeof(piece) - 64) {
        int said = snprintf(piece + n, 64, kinds[kind].again, number++);
        n += (size_t)said;
      }
      rc = shard_s3_page_feed(&page, piece, n);
    }
    assert_int_equal(rc ? rc : shard_s3_page_end(&page), -EBADMSG);
    assert_true(page.granted <= SHARD_S3_PARSER_MAX);
    const char good[] = "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key>"
                        "</Contents></ListBucketResult>";
    assert_int_equal(feed(&page, good, 9), 0); /* the next one is read as ever */
    assert_int_equal(page.count, 1);
  }
  getrusage(RUSAGE_SELF, &after);
  assert_in_range(after.ru_maxrss - before.ru_maxrss, 0, 100 << 10); /* KiB */
  shard_s3_page_free(&page);
  assert_int_equal(page.granted, 0);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Read a head, each line where no NUL follows it. The last line's kind. */
static enum shard_s3_line read_head(struct shard_s3_answer *answer, const char *text) {
  enum shard_s3_line kind = SHARD_S3_NOT_HEAD;
  while (*text) {
    size_t n = strcspn(text, "\n") + 1;
    char *alone = malloc(n);
    assert_non_null(alone);
    memcpy(alone, text, n);
    kind = shard_s3_answer_read_line(answer, alone, n);
    free(alone);
    text += n;
  }
  return kind;
}

static void answers_heads(void **state) {
  (void)state;
  struct shard_s3_answer a = {0};
  assert_int_equal(read_head(&a, "x: y\r\n"), SHARD_S3_NOT_HEAD);
  assert_int_equal(read_head(&a, "HTTP/1.1 100 Continue\r\n"), SHARD_S3_HEAD_BEGINS);
  assert_int_equal(a.status, 100);
  assert_int_equal(read_head(&a, "x-amz-bucket-region: other\r\nLocation: /x\r\n\r\n"),
                   SHARD_S3_HEAD_LINE);
  assert_string_equal(a.region, "other");
  assert_string_equal(a.location, "/x");
  shard_s3_answer_keep(&a, "<Error>", 7);
  /* What one head says is not of the next, and what comes behind the body is of none. */
  assert_int_equal(read_head(&a, "HTTP/2 307 \r\n"), SHARD_S3_HEAD_BEGINS);
  assert_int_equal(a.status, 307);
  assert_string_equal(a.region, "");
  assert_string_equal(a.location, "");
  assert_null(a.body);
  assert_int_equal(
      read_head(&a, "DATE: Thu, 01 Jan 1970 00:01:40 GMT\r\nx-amz-bucket-region:eu-west-1\r\n"
                    "location:\t https://h/p?q \r\n\r\n"),
      SHARD_S3_HEAD_LINE);
  assert_int_equal(a.date, 100);
  assert_string_equal(a.region, "eu-west-1");
  assert_string_equal(a.location, "https://h/p?q");
  assert_int_equal(read_head(&a, "date: Thu, 01 Jan 1970 00:03:20 GMT\r\nlocation: /y\r\n"),
                   SHARD_S3_NOT_HEAD);
  assert_int_equal(a.date, 100);
  assert_string_equal(a.location, "https://h/p?q");
  /* What does not fit, or is no status, is not told. */
  char line[3000];
  snprintf(line, sizeof(line), "HTTP/1.0  404\nlocation: https://%02000d\n", 0);
  read_head(&a, line);
  assert_int_equal(a.status, 404);
  assert_string_equal(a.location, "");
  static const char *const odd[] = {"HTTP/\r\n", "HTTP/1.1\r\n", "HTTP/1.1 \r\n", "HTTP/1.1 20\n",
                                    "HTTP/1.1 x00 OK\r\n"};
  for (size_t i = 0; i < COUNT(odd); i++) {
    assert_int_equal(read_head(&a, odd[i]), SHARD_S3_HEAD_BEGINS);
    assert_int_equal(a.status, 0);
  }
  /* Of a body the beginning is kept, in whatever pieces it comes. */
  memset(line, 'x', sizeof(line));
  for (size_t i = 0; i < 20; i++) {
    shard_s3_answer_keep(&a, line, i * 100);
  }
  assert_in_range(a.body_size, 10000, 20000);
  shard_s3_answer_clear(&a);
  assert_null(a.body);
}

#define ERROR(code) "<Error><Code>" code "</Code><Message>no way</Message></Error>"

/* What an answer means, by its status, its body and what was asked. */
static void answers_meanings(void **state) {
  (void)state;
  static const struct shard_s3_body body;
  static const struct shard_s3_request
      list = {.method = "GET"},
      get = {.method = "GET", .key = "k", .unless = "e"},
      put = {.method = "PUT", .key = "k", .body = &body},
      look = {.method = "GET", .key = "k", .wants_status = true},
      look_again = {.method = "GET", .key = "k", .unless = "e", .wants_status = true},
      put_new = {.method = "PUT", .key = "k", .body = &body, .wants_status = true};
  static const struct {
    long status;
    const char *body;
    const struct shard_s3_request *request;
    enum shard_s3_meaning meaning;
    int rc;
    const char *why;
  } cases[] = {
      {200, "", &list, SHARD_S3_WHOLE, 0, NULL},
      {404, ERROR("NoSuchKey"), &look, SHARD_S3_STATUS, 0, NULL},
      {404, "", &look, SHARD_S3_STATUS, 0, NULL},
      {404, ERROR("NoSuchBucket"), &look, SHARD_S3_REFUSED, -ENOENT, "no such bucket"},
      {404, ERROR("NoSuchKey"), &get, SHARD_S3_REFUSED, -ENOENT, "no such object"},
      {404, "", &put_new, SHARD_S3_REFUSED, -ENOENT, "HTTP 404"},
      {304, "", &look_again, SHARD_S3_STATUS, 0, NULL},
      {304, "", &look, SHARD_S3_MOVED, 0, NULL},
      {412, "", &put_new, SHARD_S3_STATUS, 0, NULL},
      {412, ERROR("PreconditionFailed"), &put, SHARD_S3_REFUSED, -EEXIST, "there already"},
      {429, "", &list, SHARD_S3_SLOWER, 0, "HTTP 429"},
      {503, ERROR("SlowDown"), &list, SHARD_S3_SLOWER, 0, "HTTP 503 SlowDown"},
      {400, ERROR("SlowDown"), &list, SHARD_S3_SLOWER, 0, "HTTP 400 SlowDown"},
      {500, "<html>", &list, SHARD_S3_LATER, 0, "HTTP 500"},
      {599, "", &list, SHARD_S3_LATER, 0, "HTTP 599"},
      {408, "", &list, SHARD_S3_LATER, 0, "HTTP 408"},
      {400, ERROR("RequestTimeout"), &put, SHARD_S3_LATER, 0, "HTTP 400 RequestTimeout"},
      {409, ERROR("ConditionalRequestConflict"), &put_new, SHARD_S3_LATER, 0, "HTTP 409"},
      {501, ERROR("NotImplemented"), &list, SHARD_S3_REFUSED, -EIO, "HTTP 501 NotImplemented: no"},
      {505, "", &list, SHARD_S3_REFUSED, -EIO, "HTTP 505"},
      {511, "", &list, SHARD_S3_REFUSED, -EIO, "HTTP 511"},
      {403, ERROR("RequestTimeTooSkewed"), &list, SHARD_S3_CLOCK, -EACCES, "clock"},
      {301, "", &list, SHARD_S3_MOVED, 0, NULL},
      {400, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>r2</Region></Error>", &list,
       SHARD_S3_RESIGN, -EIO, "AuthorizationHeaderMalformed"},
      {400, "<Error><Region>r1</Region></Error>", &list, SHARD_S3_REFUSED, -EIO, "HTTP 400"},
      {400, "<Error><Region>a/b</Region></Error>", &list, SHARD_S3_REFUSED, -EIO, "HTTP 400"},
      {403, ERROR("AccessDenied"), &list, SHARD_S3_REFUSED, -EACCES, "s3:ListBucket"},
      {403, ERROR("AccessDenied"), &put, SHARD_S3_REFUSED, -EACCES, "s3:PutObject"},
      {403, ERROR("AccessDenied"), &get, SHARD_S3_REFUSED, -EACCES, "s3:GetObject"},
      {403, ERROR("SignatureDoesNotMatch"), &get, SHARD_S3_REFUSED, -EACCES,
       "AWS_SECRET_ACCESS_KEY"},
      {403, "", &list, SHARD_S3_REFUSED, -EACCES, "HTTP 403"},
      {401, "", &list, SHARD_S3_REFUSED, -EACCES, "HTTP 401"},
      {407, "", &list, SHARD_S3_REFUSED, -EACCES, "proxy"},
      {204, "", &list, SHARD_S3_REFUSED, -EIO, "HTTP 204"},
      {418, "<Error><Code>T</Code><Message>token SECRET!</Message></Error>", &list,
       SHARD_S3_REFUSED, -EIO, "h says HTTP 418 T"},
      {418, "<Error><Code>SECRET!</Code><Message>m</Message></Error>", &list, SHARD_S3_REFUSED,
       -EIO, "h says HTTP 418"},
      {400, "<Error><Code>T</Code><Region>SECRET!</Region><Message>m</Message></Error>", &list,
       SHARD_S3_REFUSED, -EIO, "h says HTTP 400"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct shard_s3_answer a = {.status = cases[i].status, .date = 1};
    struct shard_s3_verdict v;
    const struct shard_s3_asked asked = {
        .request = cases[i].request, .host = "h", .region = "r1", .secret = "SECRET"};
    shard_s3_answer_keep(&a, cases[i].body, strlen(cases[i].body));
    shard_s3_answer_judge(&a, &asked, &v);
    if (v.meaning != cases[i].meaning || (cases[i].why && !strstr(v.why, cases[i].why))) {
      fail_msg("answer %zu (HTTP %ld) means %d: %s", i, cases[i].status, v.meaning, v.why);
    }
    if (v.meaning != SHARD_S3_MOVED) {
      assert_int_equal(v.rc, cases[i].rc);
    }
    assert_null(strstr(v.why, "SECRET!"));
    a.date = 0; /* without the server's time a clock cannot be put right */
    shard_s3_answer_judge(&a, &asked, &v);
    assert_int_equal(v.meaning,
                     cases[i].meaning == SHARD_S3_CLOCK ? SHARD_S3_REFUSED : cases[i].meaning);
    shard_s3_answer_clear(&a);
  }
}

/* A session token is longer than what is kept of a message. */
static void answers_long_secret(void **state) {
  (void)state;
  char token[400], body[600];
  for (size_t i = 0; i < sizeof(token) - 1; i++) {
    token[i] = (char)('a' + any(26));
  }
  token[sizeof(token) - 1] = 0;
  const struct shard_s3_request list = {.method = "GET"};
  const struct shard_s3_asked asked = {
      .request = &list, .host = "h", .region = "r1", .secret = token};
  struct shard_s3_answer a = {.status = 400};
  struct shard_s3_verdict v;
  int n = snprintf(body, sizeof(body),
                   "<Error><Code>T</Code><Message>bad token %s</Message></Error>", token);
  shard_s3_answer_keep(&a, body, (size_t)n);
  shard_s3_answer_judge(&a, &asked, &v);
  shard_s3_answer_clear(&a);
  token[20] = 0;
  assert_null(strstr(v.why, token));
  assert_non_null(strstr(v.why, "HTTP 400 T"));
}

static void answers_targets(void **state) {
  (void)state;
  static const struct {
    const char *location;
    enum shard_s3_target target;
    const char *host;
  } cases[] = {
      {"", SHARD_S3_NOWHERE, NULL},
      {"x", SHARD_S3_NOWHERE, NULL},
      {"/x?y", SHARD_S3_HERE, NULL},
      {"//evil/x", SHARD_S3_NOWHERE, NULL},
      {"http://Host:9/x?y=http://z", SHARD_S3_HERE, NULL},
      {"https://host:9/x", SHARD_S3_ELSEWHERE, "host:9"},
      {"http://host/x", SHARD_S3_ELSEWHERE, "host"},
      {"http://user@host:9/", SHARD_S3_NOWHERE, NULL},
      {"ftp://host:9/", SHARD_S3_NOWHERE, NULL},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct shard_s3_answer a = {.status = 307};
    struct shard_s3_endpoint to;
    strcpy(a.location, cases[i].location);
    assert_int_equal(shard_s3_answer_target(&a, false, "host:9", &to), cases[i].target);
    if (cases[i].host) {
      assert_string_equal(to.host, cases[i].host);
    }
  }
}

static void faults(void **state) {
  (void)state;
  const char *text =
      "<?xml version='1.0'?><Error><Code>AuthorizationHeaderMalformed</Code><Message>"
      "the region\n'x' is wrong</Message><Region>eu-west-1</Region></Error>";
  struct shard_s3_fault f;
  shard_s3_fault_parse(&f, text, strlen(text));
  assert_string_equal(f.code, "AuthorizationHeaderMalformed");
  assert_string_equal(f.message, "the region 'x' is wrong");
  assert_string_equal(f.region, "eu-west-1");
  assert_string_equal(f.endpoint, "");
  shard_s3_fault_parse(&f, "<html><bo", 9);
  assert_string_equal(f.code, "");
  /* Entities are not expanded: each of these is ten of the one before it. */
  char laughs[2000] = "<!DOCTYPE Error [<!ENTITY a0 \"ha\">";
  for (int i = 1; i < 12; i++) {
    size_t at = strlen(laughs);
    at += (size_t)sprintf(laughs + at, "<!ENTITY a%d \"", i);
    for (int k = 0; k < 10; k++) {
      at += (size_t)sprintf(laughs + at, "&a%d;", i - 1);
    }
    strcpy(laughs + at, "\">");
  }
  strcat(laughs, "]><Error><Code>&a11;</Code></Error>");
  shard_s3_fault_parse(&f, laughs, strlen(laughs));
  assert_string_equal(f.code, "");
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static struct shard_s3_text text_of(const char *text) {
  struct shard_s3_text t = {.length = strlen(text)};
  strcpy(t.bytes, text);
  return t;
}

static bool is_utf8(const char *p, size_t n) {
  for (size_t i = 0; i < n;) {
    unsigned char c = (unsigned char)p[i];
    size_t more = c < 0x80                ? 0
                  : c >= 0xc2 && c < 0xe0 ? 1
                  : (c & 0xf0) == 0xe0    ? 2
                  : c >= 0xf0 && c < 0xf5 ? 3
                                          : 99;
    if (more == 99 || i + more >= n + (more == 0)) {
      return false;
    }
    for (size_t k = 1; k <= more; k++) {
      if (((unsigned char)p[i + k] & 0xc0) != 0x80) {
        return false;
      }
    }
    i += more + 1;
  }
  return true;
}

/* Where numbered names are divided after their first page. */
static void splits_of_numbers(void **state) {
  (void)state;
  struct shard_s3_seen *seen = calloc(1, sizeof(*seen));
  char key[64], before[64] = "";
  for (int i = 0; i < 1000; i++) {
    snprintf(key, sizeof(key), "img_%07d", i);
    shard_s3_split_note(seen, i ? before : NULL, strlen(before), key, strlen(key));
    strcpy(before, key);
  }
  struct shard_s3_text at = text_of(before), middle, first = text_of("img_0000000"), end;
  struct shard_s3_span span = {.at = &at, .seen = seen};
  assert_true(
      shard_s3_split_between(&span, 0.5, &middle)); /* is there more after the first thousand? */
  assert_int_equal(middle.length, 8);
  assert_memory_equal(middle.bytes, "img_0001", 8);
  assert_true(shard_s3_split_left(&span, &first, 1000) >= SHARD_S3_UNKNOWN);
  end = middle; /* and then nothing is left below */
  span.end = &end;
  assert_true(shard_s3_split_left(&span, &first, 1000) < 100);

  end = text_of("img_0003");
  at = text_of("img_0000499");
  assert_true(shard_s3_split_between(&span, 0.5, &middle));
  assert_true(shard_codec_compare_bytes(middle.bytes, middle.length, at.bytes, at.length) > 0);
  assert_true(shard_codec_compare_bytes(middle.bytes, middle.length, end.bytes, end.length) < 0);
  free(seen);
}

/* Once a digit has varied, keys are known to be numbers, and can be divided in any proportion. */
static void splits_in_parts(void **state) {
  (void)state;
  static const struct {
    const char *first, *second, *third, *end; /* pages of 1,000 that begin there have been seen */
    double part, left;
    const char *least, *most; /* where it is divided */
    size_t prefix;
  } cases[] = {
      {"img_0000000", "img_0100000", "img_0100999", "img_1", 0.25, 899000, "img_032", "img_033", 0},
      {"img_0000000", "img_0100000", "img_0100999", "img_1", 0.5, 899000, "img_054", "img_056", 0},
      {"\xe5\x9b\xbe/\xe4\xb8\x80", "\xe5\x9b\xbe/\xe5\x80\x80", "\xe5\x9b\xbe/\xe5\x80\xbf", NULL,
       0.5, 129000, "\xe5\x9b\xbe/\xe5\xbc", "\xe5\x9b\xbe/\xe6\x84", 4},
      {"0000-", "1000-", "100f-", "2", 0.5, 255 * 1000, "17", "19", 0},
  };
  struct shard_s3_seen *seen = calloc(1, sizeof(*seen));
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct shard_s3_text first = text_of(cases[i].first), second = text_of(cases[i].second);
    struct shard_s3_text at = text_of(cases[i].third), middle;
    struct shard_s3_text end = text_of(cases[i].end ? cases[i].end : "");
    memset(seen, 0, sizeof(*seen));
    shard_s3_split_note(seen, NULL, 0, first.bytes, first.length);
    shard_s3_split_note(seen, NULL, 0, second.bytes, second.length);
    shard_s3_split_note(seen, NULL, 0, at.bytes, at.length);
    struct shard_s3_span span = {
        .at = &at, .end = cases[i].end ? &end : NULL, .seen = seen, .prefix = cases[i].prefix};
    double left = shard_s3_split_left(&span, &second, 1000);
    if (left < 0.9 * cases[i].left || left > 1.1 * cases[i].left) {
      fail_msg("case %zu: %.0f left", i, left);
    }
    assert_true(shard_s3_split_between(&span, cases[i].part, &middle));
    if (shard_codec_compare_bytes(middle.bytes, middle.length, cases[i].least,
                                  strlen(cases[i].least)) < 0 ||
        shard_codec_compare_bytes(middle.bytes, middle.length, cases[i].most,
                                  strlen(cases[i].most)) > 0) {
      fail_msg("case %zu: divided at %.*s", i, (int)middle.length, middle.bytes);
    }
    assert_true(is_utf8(middle.bytes, middle.length));
  }
  free(seen);
}

/* Guesses ahead of the answer to the last: a digit further up, never into the name. */
static void splits_further(void **state) {
  (void)state;
  static const struct {
    const char *at, *guess; /* NULL: there is none */
  } cases[] = {{"img_0001", "img_001"},
               {"img_001", "img_01"},
               {"img_1", NULL},
               {"train/y", NULL},
               {"\xe5\x9b\xbe/\xe4\xb9\x80", "\xe5\x9b\xbe/\xe5\x80\x80"}};
  struct shard_s3_seen *seen = calloc(1, sizeof(*seen));
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct shard_s3_text at = text_of(cases[i].at), middle;
    memset(seen, 0, sizeof(*seen));
    shard_s3_split_note(seen, NULL, 0, at.bytes, at.length);
    struct shard_s3_span span = {.at = &at, .seen = seen, .guess = true};
    assert_int_equal(shard_s3_split_between(&span, 0.5, &middle), cases[i].guess != NULL);
    if (cases[i].guess) {
      assert_int_equal(middle.length, strlen(cases[i].guess));
      assert_memory_equal(middle.bytes, cases[i].guess, middle.length);
    }
  }
  free(seen);
}

/* Folders in order, and which folder's are worth knowing. */
static void folders(void **state) {
  (void)state;
  struct shard_s3_folders f = {0};
  static const char *const names[] = {"b/", "a/", "c/", "a/", "\xff/"};
  for (size_t i = 0; i < COUNT(names); i++) {
    assert_int_equal(shard_s3_folders_add(&f, names[i], strlen(names[i]), i == 2), 0);
  }
  assert_int_equal(f.count, 4);
  struct shard_s3_text after = text_of("a/"), end = text_of("c/");
  size_t first;
  assert_int_equal(shard_s3_folders_between(&f, &after, NULL, &first), 3);
  assert_int_equal(first, 1);
  assert_true(f.list[2].open);
  assert_int_equal(shard_s3_folders_between(&f, &after, &end, &first), 1);
  assert_int_equal(shard_s3_folders_between(&f, &end, &after, &first), 0);
  shard_s3_folders_free(&f);
  static const struct {
    const char *first, *last;
    size_t prefix;
    int parent;
  } cases[] = {{"a/b/1", "a/b/2", 0, 2}, {"a/b/1", "a/c/2", 0, 2}, {"a/1", "b/2", 0, 0},
               {"a/1", "a/2", 0, 0},     {"1", "2", 0, -1},        {"a/1", "a/2", 2, -1},
               {"a/b/1", "a/b/2", 2, 2}, {"a/b/1", "a/b/2", 4, -1}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct shard_s3_text from = text_of(cases[i].first), to = text_of(cases[i].last);
    assert_int_equal(shard_s3_folders_parent(&from, &to, cases[i].prefix), cases[i].parent);
  }
}

/* Whatever the keys: what comes out is text that lies between. */
static void splits_lie_between(void **state) {
  (void)state;
  static const char *const alphabets[] = {"ab", "0123456789", "0123456789abcdef", "aZ09_-/.~ ",
                                          "\x01\x7f\x1f z"};
  static const char *const wide[] = {"\xc3\xa9",
                                     "\xdf\xbf",
                                     "\xe5\x9b\xbe",
                                     "\xed\x9f\xbf",
                                     "\xef\xbf\xbd",
                                     "\xf0\x9f\x98\x80",
                                     "\xf4\x8f\xbf\xbf",
                                     "a",
                                     "0"};
  struct shard_s3_seen *seen = calloc(1, sizeof(*seen));
  uint64_t random = 7;
  int found = 0;
  for (int round = 0; round < 20000; round++) {
    struct shard_s3_text keys[3] = {0};
    size_t kind = unit_random(&random) % (COUNT(alphabets) + 1);
    for (size_t k = 0; k < 3; k++) {
      size_t parts = 1 + unit_random(&random) % 12;
      for (size_t i = 0; i < parts; i++) {
        char one[8] = "";
        if (kind < COUNT(alphabets)) {
          one[0] = alphabets[kind][unit_random(&random) % strlen(alphabets[kind])];
        } else {
          strcpy(one, wide[unit_random(&random) % COUNT(wide)]);
        }
        memcpy(keys[k].bytes + keys[k].length, one, strlen(one));
        keys[k].length += strlen(one);
      }
    }
    for (size_t i = 0; i < 2; i++) {
      for (size_t k = 0; k < 2; k++) {
        if (shard_codec_compare_bytes(keys[k].bytes, keys[k].length, keys[k + 1].bytes,
                                      keys[k + 1].length) > 0) {
          struct shard_s3_text swap = keys[k];
          keys[k] = keys[k + 1];
          keys[k + 1] = swap;
        }
      }
    }
    if (round % 100 == 0) {
      memset(seen, 0, sizeof(*seen));
    }
    shard_s3_split_note(seen, NULL, 0, keys[0].bytes, keys[0].length);
    shard_s3_split_note(seen, keys[0].bytes, keys[0].length, keys[1].bytes, keys[1].length);
    struct shard_s3_text middle;
    struct shard_s3_span span = {.at = &keys[1], .seen = seen};
    for (int bounded = 0; bounded < 2; bounded++) {
      bool empty = shard_codec_compare_bytes(keys[1].bytes, keys[1].length, keys[2].bytes,
                                             keys[2].length) == 0;
      span.end = bounded ? &keys[2] : NULL;
      if ((bounded && empty) || !shard_s3_split_between(&span, (round % 9) / 8.0, &middle)) {
        continue;
      }
      found++;
      assert_true(middle.length <= SHARD_S3_KEY_MAX);
      assert_true(is_utf8(middle.bytes, middle.length));
      assert_true(shard_codec_compare_bytes(middle.bytes, middle.length, keys[1].bytes,
                                            keys[1].length) > 0);
      assert_true(!bounded || shard_codec_compare_bytes(middle.bytes, middle.length, keys[2].bytes,
                                                        keys[2].length) < 0);
      assert_true(shard_s3_split_left(&span, &keys[0], 1000) >= 0);
    }
  }
  assert_true(found > 20000);
  free(seen);
}

/* The longest keys there are. */
static void splits_of_long_keys(void **state) {
  (void)state;
  struct shard_s3_seen *seen = calloc(1, sizeof(*seen));
  struct shard_s3_text at = {.length = SHARD_S3_KEY_MAX}, middle;
  memset(at.bytes, 'x', SHARD_S3_KEY_MAX);
  shard_s3_split_note(seen, NULL, 0, at.bytes, at.length);
  struct shard_s3_span span = {.at = &at, .seen = seen};
  assert_true(shard_s3_split_between(&span, 0.5, &middle));
  assert_int_equal(middle.length, SHARD_S3_KEY_MAX);
  span.end = &middle; /* nothing fits between */
  struct shard_s3_text none;
  assert_false(shard_s3_split_between(&span, 0.5, &none));
  free(seen);
}

/* ---- accounts -------------------------------------------------------------------------------- */

static char folder[] = "/tmp/shard-s3-XXXXXX";
static char file_path[2][64];

static int begin_files(void **state) {
  (void)state;
  strcpy(folder, "/tmp/shard-s3-XXXXXX");
  if (!mkdtemp(folder)) {
    return -1;
  }
  snprintf(file_path[0], sizeof(file_path[0]), "%s/credentials", folder);
  snprintf(file_path[1], sizeof(file_path[1]), "%s/config", folder);
  setenv("AWS_SHARED_CREDENTIALS_FILE", file_path[0], 1);
  setenv("AWS_CONFIG_FILE", file_path[1], 1);
  return 0;
}

static int end_files(void **state) {
  (void)state;
  unlink(file_path[0]);
  unlink(file_path[1]);
  return rmdir(folder);
}

static void put(int which, const char *text) {
  FILE *f = fopen(file_path[which], "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static int load(struct shard_s3_account *a, const char *environment, char *err, size_t size) {
  static const char *const all[] = {"AWS_ACCESS_KEY_ID",
                                    "AWS_SECRET_ACCESS_KEY",
                                    "AWS_SESSION_TOKEN",
                                    "AWS_REGION",
                                    "AWS_DEFAULT_REGION",
                                    "AWS_ENDPOINT_URL",
                                    "AWS_ENDPOINT_URL_S3",
                                    "AWS_CA_BUNDLE",
                                    "AWS_PROFILE",
                                    "AWS_DEFAULT_PROFILE",
                                    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"};
  for (size_t i = 0; i < COUNT(all); i++) {
    unsetenv(all[i]);
  }
  char copy[500], *rest = copy, *word;
  snprintf(copy, sizeof(copy), "%s", environment);
  while ((word = strsep(&rest, " ")) != NULL) {
    char *equals = strchr(word, '=');
    if (equals) {
      *equals = 0;
      setenv(word, equals + 1, 1);
    }
  }
  err[0] = 0;
  return shard_s3_account_load(a, false, SHARD_S3_AUTO, err, size);
}

static void accounts(void **state) {
  (void)state;
  put(0,
      "# keys\n[default]\naws_access_key_id = DEFAULTKEY\naws_secret_access_key=default/secret+=\n"
      "[work]\r\nAWS_ACCESS_KEY_ID=WORKKEY\r\naws_secret_access_key = worksecret\r\n"
      "aws_session_token = worktoken\r\n[half]\naws_access_key_id=HALF\n");
  put(1,
      "[default]\nregion = eu-central-1\n[profile work]\nregion=us-west-2\ns3 =\n"
      "    addressing_style = path\n    endpoint_url = http://nested\nendpoint_url=http://work:1\n"
      "[profile part]\nservices = "
      "mine\naws_access_key_id=PARTKEY\naws_secret_access_key=partsecret\n"
      "[services mine]\ns3 =\n  endpoint_url = http://mine:2\nec2 =\n  endpoint_url=http://no\n");
  static const struct {
    const char *environment, *access, *secret, *token, *region, *endpoint;
    enum shard_s3_addressing addressing;
  } good[] = {
      {"", "DEFAULTKEY", "default/secret+=", NULL, "eu-central-1", NULL, SHARD_S3_AUTO},
      {"AWS_PROFILE=work", "WORKKEY", "worksecret", "worktoken", "us-west-2", "http://work:1",
       SHARD_S3_PATH},
      {"AWS_DEFAULT_PROFILE=work AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true", "WORKKEY", "worksecret",
       "worktoken", "us-west-2", NULL, SHARD_S3_PATH},
      {"AWS_PROFILE=part", "PARTKEY", "partsecret", NULL, "us-east-1", "http://mine:2",
       SHARD_S3_AUTO},
      {"AWS_ACCESS_KEY_ID=A AWS_SECRET_ACCESS_KEY=B AWS_PROFILE=work AWS_REGION=r-1 "
       "AWS_DEFAULT_REGION=r-2",
       "A", "B", NULL, "r-1", "http://work:1", SHARD_S3_PATH},
      {"AWS_ACCESS_KEY_ID=A AWS_SECRET_ACCESS_KEY=B AWS_SESSION_TOKEN=C AWS_DEFAULT_REGION=r-2 "
       "AWS_ENDPOINT_URL=http://all AWS_ENDPOINT_URL_S3=http://s3",
       "A", "B", "C", "r-2", "http://s3", SHARD_S3_AUTO},
      {"AWS_ENDPOINT_URL=https://all", "DEFAULTKEY", "default/secret+=", NULL, "eu-central-1",
       "https://all", SHARD_S3_AUTO},
  };
  struct shard_s3_account a;
  char err[700];
  for (size_t i = 0; i < COUNT(good); i++) {
    if (load(&a, good[i].environment, err, sizeof(err)) != 0) {
      fail_msg("%s: %s", good[i].environment, err);
    }
    assert_string_equal(a.access, good[i].access);
    assert_string_equal(a.secret, good[i].secret);
    assert_string_equal(a.token ? a.token : "none", good[i].token ? good[i].token : "none");
    assert_string_equal(a.region, good[i].region);
    assert_string_equal(a.endpoint ? a.endpoint : "AWS",
                        good[i].endpoint ? good[i].endpoint : "AWS");
    assert_int_equal(a.addressing, good[i].addressing);
    shard_s3_account_free(&a);
  }
  static const struct {
    const char *environment, *word;
  } bad[] = {{"AWS_PROFILE=none", "none"},
             {"AWS_PROFILE=half", "AWS_SECRET_ACCESS_KEY"},
             {"AWS_ENDPOINT_URL=host:9000", "AWS_ENDPOINT_URL"},
             {"AWS_ENDPOINT_URL=http://user:HUSH@h", "AWS_ENDPOINT_URL"},
             {"AWS_REGION=a/b", "AWS_REGION"},
             {"AWS_CA_BUNDLE=/none/x", "/none/x"}};
  for (size_t i = 0; i < COUNT(bad); i++) {
    assert_int_equal(load(&a, bad[i].environment, err, sizeof(err)), -EINVAL);
    assert_non_null(strstr(err, bad[i].word));
    assert_null(strstr(err, "HUSH"));
    assert_null(strstr(err, "secret+="));
    shard_s3_account_free(&a);
  }
  load(&a, "AWS_PROFILE=none", err, sizeof(err));
  shard_s3_account_free(&a);
  unsetenv("AWS_PROFILE");
  assert_int_equal(shard_s3_account_load(&a, true, SHARD_S3_AUTO, err, sizeof(err)), 0);
  assert_null(a.access); /* anonymous */
  shard_s3_account_free(&a);
}

/* What AWS's tools read, though few write it so. */
static void odd_accounts(void **state) {
  (void)state;
  put(0, "  [default]\n  aws_access_key_id = INDENTED\n  aws_secret_access_key = x\n"
         "  aws_session_token =\n  region =\n"
         "\t[colon]\n\taws_access_key_id: COLON\n\taws_secret_access_key : a=b:c\n"
         "[my work]\naws_access_key_id=QUOTED\naws_secret_access_key=x\n"
         "[here]\naws_access_key_id=HERE\naws_secret_access_key=x\nregion=r-here\n"
         "endpoint_url=http://here:1\n");
  put(1, "[default]\n  region = r-1\n  s3 =\n    addressing_style = path\n    region = r-no\n"
         "  ca_bundle =\n[profile 'my work']\nregion=r-quoted\n"
         "[profile here]\nregion=r-config\noutput=json\n"
         "[profile role]\nregion=r-2\nrole_arn=arn:aws:iam::1:role/x\nsource_profile=here\n"
         "[profile run]\ncredential_process=/bin/HUSH\n[profile two]\nregion=r-3\n");
  static const struct {
    const char *profile, *access, *secret, *region, *endpoint;
  } good[] = {{"default", "INDENTED", "x", "r-1", NULL},
              {"colon", "COLON", "a=b:c", "us-east-1", NULL},
              {"my work", "QUOTED", "x", "r-quoted", NULL},
              {"here", "HERE", "x", "r-here", "http://here:1"}};
  struct shard_s3_account a;
  char err[700];
  for (size_t i = 0; i < COUNT(good); i++) {
    load(&a, "", err, sizeof(err));
    shard_s3_account_free(&a);
    setenv("AWS_PROFILE", good[i].profile, 1);
    assert_int_equal(shard_s3_account_load(&a, false, SHARD_S3_AUTO, err, sizeof(err)), 0);
    assert_string_equal(a.access, good[i].access);
    assert_string_equal(a.secret, good[i].secret);
    assert_null(a.token);
    assert_null(a.ca_bundle);
    assert_string_equal(a.region, good[i].region);
    assert_string_equal(a.endpoint ? a.endpoint : "AWS",
                        good[i].endpoint ? good[i].endpoint : "AWS");
    assert_int_equal(a.addressing, i == 0 ? SHARD_S3_PATH : SHARD_S3_AUTO);
    shard_s3_account_free(&a);
  }
  static const struct {
    const char *environment, *word;
  } bad[] = {{"AWS_PROFILE=role", "role_arn"},
             {"AWS_PROFILE=run", "credential_process"},
             {"AWS_PROFILE=two", "no S3 credentials"},
             {"AWS_PROFILE=here AWS_ACCESS_KEY_ID=A", "without AWS_SECRET_ACCESS_KEY"}};
  for (size_t i = 0; i < COUNT(bad); i++) {
    assert_int_equal(load(&a, bad[i].environment, err, sizeof(err)), -EINVAL);
    assert_non_null(strstr(err, bad[i].word));
    assert_null(strstr(err, "HUSH"));
    shard_s3_account_free(&a);
  }
  /* A profile is there though nothing of it is needed. */
  static const char *const there[] = {"my work", "here", "two"};
  for (size_t i = 0; i < COUNT(there); i++) {
    load(&a, "AWS_REGION=r AWS_ENDPOINT_URL=http://e AWS_CA_BUNDLE=/etc/passwd", err, sizeof(err));
    shard_s3_account_free(&a);
    setenv("AWS_PROFILE", there[i], 1);
    assert_int_equal(shard_s3_account_load(&a, true, SHARD_S3_PATH, err, sizeof(err)), 0);
    shard_s3_account_free(&a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(urls),
      cmocka_unit_test(escapes),
      cmocka_unit_test(endpoints),
      cmocka_unit_test(addressing),
      cmocka_unit_test(signatures),
      cmocka_unit_test(signature_of_a_list),
      cmocka_unit_test(signature_for_google),
      cmocka_unit_test(providers),
      cmocka_unit_test(homes),
      cmocka_unit_test(heads),
      cmocka_unit_test(pages),
      cmocka_unit_test(pages_of_folders),
      cmocka_unit_test(damaged_pages),
      cmocka_unit_test(pages_in_pieces),
      cmocka_unit_test(pages_without_end),
      cmocka_unit_test(answers_heads),
      cmocka_unit_test(answers_meanings),
      cmocka_unit_test(answers_long_secret),
      cmocka_unit_test(answers_targets),
      cmocka_unit_test(faults),
      cmocka_unit_test(splits_of_numbers),
      cmocka_unit_test(splits_in_parts),
      cmocka_unit_test(splits_further),
      cmocka_unit_test(folders),
      cmocka_unit_test(splits_lie_between),
      cmocka_unit_test(splits_of_long_keys),
      cmocka_unit_test_setup_teardown(accounts, begin_files, end_files),
      cmocka_unit_test_setup_teardown(odd_accounts, begin_files, end_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
