/* SPDX-License-Identifier: MIT */
/*
 * CRC-32C against RFC 3720, B.4, and the CPU's instruction against the plain form.
 * Links: listing/crc32c
 */
#include <string.h>

#include "base/crc32c.h"
#include "unit.h"

static void vectors(void **state) {
  (void)state;
  uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
  static const uint8_t read_pdu[48] = {0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0,
                                       0x14, 0,    0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
                                       0x28, 0,    0, 0, 0, 0, 0, 0, 2, 0, 0, 0,    0, 0, 0, 0};
  memset(ones, 0xff, sizeof(ones));
  for (int i = 0; i < 32; i++) {
    up[i] = (uint8_t)i;
    down[i] = (uint8_t)(31 - i);
  }
  const struct {
    const void *data;
    size_t size;
    uint32_t crc;
  } all[] = {{zeros, 32, 0x8a9136aa},
             {ones, 32, 0x62a8ab43},
             {up, 32, 0x46dd794e},
             {down, 32, 0x113fdb5c},
             {read_pdu, 48, 0xd9963a56},
             {"123456789", 9, 0xe3069283},
             {"", 0, 0}};
  for (size_t i = 0; i < COUNT(all); i++) {
    assert_int_equal(shard_crc32c(0, all[i].data, all[i].size), all[i].crc);
    assert_int_equal(shard_crc32c_soft(0, all[i].data, all[i].size), all[i].crc);
  }
}

static void hard_is_soft(void **state) {
  (void)state;
  static uint8_t data[4096];
  uint64_t seed = 1;
  for (size_t i = 0; i < sizeof(data); i++) {
    data[i] = (uint8_t)unit_random(&seed);
  }
  for (size_t size = 0; size < 300; size++) {
    for (size_t from = 0; from < 9; from++) { /* any alignment, any remainder */
      uint32_t begin = (uint32_t)unit_random(&seed);
      assert_int_equal(shard_crc32c(begin, data + from, size),
                       shard_crc32c_soft(begin, data + from, size));
    }
  }
  assert_int_equal(shard_crc32c(7, data, sizeof(data)), shard_crc32c_soft(7, data, sizeof(data)));
}

static void continues(void **state) {
  (void)state;
  static const char text[] = "the checksum of the parts is the checksum of the whole";
  size_t n = sizeof(text) - 1;
  for (size_t cut = 0; cut <= n; cut++) {
    assert_int_equal(shard_crc32c(shard_crc32c(0, text, cut), text + cut, n - cut),
                     shard_crc32c(0, text, n));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(vectors), cmocka_unit_test(hard_is_soft),
                                     cmocka_unit_test(continues)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
