/* SPDX-License-Identifier: MIT */
/* The shared files of an account, separated by a NUL: credentials, configuration; then variables.
 */
#include "fuzz.h"
#include "source/s3/s3.h"

/* A secret is in no message, unless the input has it elsewhere, too. */
#define SECRET "wJalrXUtnFEMI7MDENG"

static void write_text(const char *name, const char *variable, const char **at, const char *end) {
  char *text = fuzz_text(at, end, 0);
  setenv(variable, fuzz_file(name, text, strlen(text)), 1);
  free(text);
}

static void fuzz(const char *data, size_t size) {
  static const char *const names[] = {"AWS_PROFILE", "AWS_REGION", "AWS_ENDPOINT_URL",
                                      "AWS_ACCESS_KEY_ID"};
  const char *at = data, *end = data + size;
  write_text("credentials", "AWS_SHARED_CREDENTIALS_FILE", &at, end);
  write_text("config", "AWS_CONFIG_FILE", &at, end);
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    char *value = fuzz_text(&at, end, 0);
    value[0] ? setenv(names[i], value, 1) : unsetenv(names[i]);
    free(value);
  }
  bool is_elsewhere = memmem(data, size, SECRET, strlen(SECRET)) != NULL;
  setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
  struct shard_s3_account account = {0};
  char err[600] = "";
  int rc = shard_s3_account_load(&account, false, SHARD_S3_AUTO, err, sizeof(err));
  RULE(memchr(err, 0, sizeof(err)) && (rc == 0 || err[0]));
  RULE(rc != 0 || !account.sign || (account.access && account.secret && account.region));
  RULE(rc == 0 || !strstr(err, SECRET) || is_elsewhere);
  shard_s3_account_free(&account);
  fuzz_remove("credentials");
  fuzz_remove("config");
}
