/* SPDX-License-Identifier: MIT */
/*
 * Pages of listings: whole, in pieces, damaged and without end.
 * Links: all of source/s3
 */
#include <dlfcn.h>
#include <errno.h>
#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "source/s3/page.h"
#include "source/s3/s3.h"
#include "unit.h"

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages),
      cmocka_unit_test(pages_of_folders),
      cmocka_unit_test(damaged_pages),
      cmocka_unit_test(pages_in_pieces),
      cmocka_unit_test(pages_without_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
