/* SPDX-License-Identifier: MIT */
/*
 * Keys, region and endpoint, by the environment and by files.
 * Links: all of source/s3
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source/s3/s3.h"
#include "unit.h"

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
      "[profile aws]\nignore_configured_endpoint_urls = True\nendpoint_url = http://not\n"
      "aws_access_key_id=AWSKEY\naws_secret_access_key=awssecret\n[profile part]\nendpoint_url = "
      "http://mine:2\nservices = "
      "mine\naws_access_key_id=PARTKEY\naws_secret_access_key=partsecret\n"
      "[services mine]\ns3 =\n  endpoint_url = http://mine:2\nec2 =\n  endpoint_url=http://no\n");
  static const struct {
    const char *environment, *access, *secret, *token, *region, *endpoint;
    enum shard_s3_addressing addressing;
  } good[] = {
      {"", "DEFAULTKEY", "default/secret+=", NULL, "eu-central-1", NULL, SHARD_S3_AUTO},
      {"AWS_PROFILE=work", "WORKKEY", "worksecret", "worktoken", "us-west-2", "http://work:1",
       SHARD_S3_AUTO},
      {"AWS_DEFAULT_PROFILE=work AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true", "WORKKEY", "worksecret",
       "worktoken", "us-west-2", NULL, SHARD_S3_AUTO},
      {"AWS_PROFILE=aws AWS_ENDPOINT_URL=http://all", "AWSKEY", "awssecret", NULL, "us-east-1",
       NULL, SHARD_S3_AUTO},
      {"AWS_PROFILE=aws AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=false", "AWSKEY", "awssecret", NULL,
       "us-east-1", "http://not", SHARD_S3_AUTO},
      {"AWS_PROFILE=part", "PARTKEY", "partsecret", NULL, "us-east-1", "http://mine:2",
       SHARD_S3_AUTO},
      {"AWS_ACCESS_KEY_ID=A AWS_SECRET_ACCESS_KEY=B AWS_PROFILE=work AWS_REGION=r-1 "
       "AWS_DEFAULT_REGION=r-2",
       "A", "B", NULL, "r-1", "http://work:1", SHARD_S3_AUTO},
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
         "[profile run]\ncredential_process=/bin/HUSH\n[profile two]\nregion=r-3\n"
         "[profile mine]\nservices=m\naws_access_key_id=A\naws_secret_access_key=b\n");
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
    assert_int_equal(a.addressing, SHARD_S3_AUTO);
    shard_s3_account_free(&a);
  }
  static const struct {
    const char *environment, *word;
  } bad[] = {{"AWS_PROFILE=role", "no S3 credentials"},
             {"AWS_PROFILE=run", "no S3 credentials"},
             {"AWS_PROFILE=mine", "AWS_ENDPOINT_URL_S3"},
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
      cmocka_unit_test_setup_teardown(accounts, begin_files, end_files),
      cmocka_unit_test_setup_teardown(odd_accounts, begin_files, end_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
