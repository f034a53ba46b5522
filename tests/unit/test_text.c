/* SPDX-License-Identifier: MIT */
/*
 * A packed text has no more bytes than it may; one that is as large is taken, and so is any that is
 * not packed.
 * Links: source/text build/build listing/writer listing/reader -lcrypto
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "config/config.h"
#include "libshard.h"
#include "listing/codec.h"
#include "listing/options.h"
#include "scratch.h"
#include "source/text.h"

extern char **environ;

/* Make a listing of 10,000 lines of 6 bytes. What it returns; err gets the line. */
static int build(const char *packer, uint32_t order, uint64_t most, char *err, size_t size) {
  char text[80], command[200];
  struct shard_options options;
  struct shard_build_result result;
  const struct shard_text_options how = {.separator = '\n', .unpacked_max = most};
  snprintf(text, sizeof(text), "%s/text", dir);
  snprintf(command, sizeof(command), "seq -f %%05.0f 10000 | %s >%s", packer, text);
  assert_int_equal(system(command), 0);
  *err = 0;
  assert_int_equal(shard_options_parse(&options, "", err, size), 0);
  options.order = order;
  struct shard_text_told told;
  const char *texts[] = {text};
  int rc = shard_text_build(texts, 1, &how, &options, file, &result, &told, err, size);
  assert_int_equal(unlink(text), 0);
  assert_int_equal(access(file, F_OK), rc == 0 ? 0 : -1);
  unlink(file);
  return rc;
}

static void unpacked(void **state) {
  static const char *const packers[] = {"gzip", "zstd -q"};
  char err[700], wanted[200];
  (void)state;
  shard_config_init(environ);
  for (size_t i = 0; i < COUNT(packers); i++) {
    for (int keep = 0; keep < 2; keep++) {
      uint32_t order = keep ? SHARD_ORDER_KEEP : SHARD_ORDER_PATH;
      assert_int_equal(build(packers[i], order, 60000, err, sizeof(err)), 0);
      assert_int_equal(build(packers[i], order, 59999, err, sizeof(err)), -EFBIG);
      snprintf(wanted, sizeof(wanted), "%.4s unpacks it to more than 59999 bytes; if the text",
               packers[i]);
      assert_non_null(strstr(err, wanted));
    }
  }
  assert_int_equal(build("cat", SHARD_ORDER_PATH, 1, err, sizeof(err)), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(unpacked, set_up, tear_down)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
