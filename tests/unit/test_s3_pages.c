/* SPDX-License-Identifier: MIT */
/*
 * Pages of listings: whole, with what XML does not allow, and damaged.
 * Links: all of source/s3
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/s3/page.h"
#include "source/s3/s3.h"
#include "unit.h"

#define NAMESPACE "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""

/* Feed a reply in pieces of `step` bytes. */
static int feed(struct shard_s3_page *page, const char *text, size_t step) {
  int rc = 0;
  shard_s3_page_begin(page);
  for (size_t at = 0, left = strlen(text); left > 0 && rc == 0; at += step) {
    size_t piece = step < left ? step : left;
    rc = shard_s3_page_feed(page, text + at, piece);
    left -= piece;
  }
  return rc ? rc : shard_s3_page_end(page);
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
      /* control characters, and bytes that are no UTF-8, may stand in what the server repeats */
      {"<ListBucketResult><StartAfter>a\x01</StartAfter><IsTruncated>true</IsTruncated>"
       "<EncodingType>url</EncodingType><Contents><Key>a%01b</Key></Contents>"
       "<NextContinuationToken>a\x01\xff\r"
       "b</NextContinuationToken></ListBucketResult>",
       {"a\x01"
        "b"},
       "a\x01\xff\rb",
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
      {"\xef\xbb\xbf<ListBucketResult><IsTruncated>true</IsTruncated><X a='/X>'/><X b=\"'>\"></X >"
       "<NextContinuationToken>&#x1F;&#xe9;&#8364;&#65533;</NextContinuationToken><Contents><Key>a"
       "</Key></Contents></ListBucketResult>\n<!-- > -->",
       {"a"},
       "\x1f\xc3\xa9\xe2\x82\xac\xef\xbf\xbd",
       true},
      /* CDATA: "&#127;" stands for itself there; a comment divides no text */
      {"<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>x<![CDATA[a&b]]></Key>"
       "</Contents><NextContinuationToken><![CDATA[a&#127;]]>b<!--c-->&amp;d</"
       "NextContinuationToken>"
       "</ListBucketResult>",
       {"xa&b"},
       "a&#127;b&d",
       true},
  };
  struct shard_s3_page page = {0};
  for (size_t run = 0; run < 2 * COUNT(good); run++) {
    size_t i = run / 2, at = 0, n, k = 0;
    const char *key;
    if (feed(&page, good[i].text, run % 2 ? 1 : SIZE_MAX / 2) != 0) {
      fail_msg("page %zu: %s", i, page.why);
    }
    while ((key = shard_s3_page_key(&page, &at, &n)) != NULL) {
      assert_non_null(good[i].keys[k]);
      assert_int_equal(n, strlen(good[i].keys[k]));
      assert_memory_equal(key, good[i].keys[k], n);
      k++;
    }
    assert_null(good[i].keys[k]);
    assert_int_equal(page.count, k);
    assert_int_equal(page.truncated, good[i].truncated);
    assert_string_equal(page.token ? page.token : "", good[i].token ? good[i].token : "");
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
  size_t at = 0, n;
  assert_int_equal(feed(&page, text, 7), 0);
  assert_int_equal(page.count, 2);
  assert_memory_equal(shard_s3_page_key(&page, &at, &n), "a/", 2);
  assert_memory_equal(shard_s3_page_key(&page, &at, &n), "b/", 2);
  assert_null(shard_s3_page_key(&page, &at, &n));
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
      PAGE(LAST "<Contents><Key>a</Key></Contents><Contents><Key></Key></Contents>"),
      PAGE(LAST "<Contents><Key>a</Key></Contents><Contents><Key>b</Kex></Contents>"),
      PAGE(LAST "<Contents><Key>a</Key></Contents><Contents><Key>b</Key>"),
      PAGE(LAST URL "<Contents><Key>a</Key></Contents><Contents><Key>b%0</Key></Contents>"),
      PAGE(LAST "<Contents><Key>a&#x</Key></Contents>"),
      PAGE(LAST "<Contents><Key>a&#111111111111111111;</Key></Contents>"),
      PAGE(LAST "<Contents><Key>a&;</Key></Contents>"),
      PAGE(LAST) "\xef\xbf",
      PAGE(LAST) "<ListBucketResult/>",
      PAGE(LAST) "&",
      PAGE(LAST) "&#1",
      "<Error/>",
      PAGE(LAST "<Contents><Key>a&nbsp;</Key></Contents>"),
      PAGE(LAST "<Contents><Key>a&#0;</Key></Contents>"),
      PAGE(LAST "<Contents><Key>a&#x110000;</Key></Contents>"),
      PAGE(LAST "<Contents><Key>a&#-1;</Key></Contents>"),
      PAGE(LAST "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>"),
      "<!DOCTYPE a [<!ENTITY e \"x\">]>" PAGE(LAST "<Contents><Key>&e;</Key></Contents>"),
  };
  struct shard_s3_page page = {0};
  for (size_t i = 0; i < COUNT(bad); i++) {
    if (feed(&page, bad[i], 7) != -EBADMSG || !page.why[0]) {
      fail_msg("page %zu is taken", i);
    }
  }
  /* Every cut of a good page is damage. */
  const char *whole = PAGE(LAST "<X/><Contents a='>'><Key>a&lt;</Key></Contents>");
  char part[200];
  for (size_t n = 0; n < strlen(whole); n++) {
    snprintf(part, sizeof(part), "%.*s", (int)n, whole);
    assert_int_equal(feed(&page, part, 7), -EBADMSG);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages),
      cmocka_unit_test(pages_of_folders),
      cmocka_unit_test(damaged_pages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
