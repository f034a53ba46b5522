/* SPDX-License-Identifier: MIT */
/* JSON that commands print: what json-c is given, and what a parser finds in it. */
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/json.h"
#include "unit.h"

/* Print an object, and free it. Malloc'd. */
static char *printed(struct json_object *o) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  assert_int_equal(ctl_json_print(o, out), CTL_DONE);
  assert_int_equal(fclose(out), 0);
  return text;
}

static struct json_object *parsed(const char *text) {
  enum json_tokener_error error;
  struct json_object *o = json_tokener_parse_verbose(text, &error);
  assert_int_equal(error, json_tokener_success);
  return o;
}

static void texts(void **state) {
  (void)state;
  static const struct {
    const char *given, *found;
  } cases[] = {
      {"plain", "plain"},
      {"", ""},
      {"a/b \"c\" \\", "a/b \"c\" \\"},
      {"\x01\b\t\n\f\r\x1f\x7f", "\x01\b\t\n\f\r\x1f\x7f"},
      {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"\xc2\x80 \xc2\x9b"
       "31m \xc2\x9f\xc2\xa0",
       "\xc2\x80 \xc2\x9b"
       "31m \xc2\x9f\xc2\xa0"},
      {"\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* too long a form */
      {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
      {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"cut \xe2\x82", "cut \xef\xbf\xbd\xef\xbf\xbd"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct json_object *o = ctl_json_object(), *value;
    ctl_json_add_text(o, "text", cases[i].given);
    char *text = printed(o);
    assert_string_equal(strchr(text, '\n'), "\n"); /* one line */
    for (const char *p = text; *p != '\n'; p++) {  /* which does not control a terminal */
      assert_int_not_equal(*p, 0x7f);
      assert_true(*p >= 0x20 || *p < 0);
      assert_false(p[0] == '\xc2' && p[1] < '\xa0');
    }
    o = parsed(text);
    assert_true(json_object_object_get_ex(o, "text", &value));
    assert_string_equal(json_object_get_string(value), cases[i].found);
    json_object_put(o);
    free(text);
  }
}

static void numbers(void **state) {
  (void)state;
  struct json_object *o = ctl_json_object(), *list = ctl_json_array();
  ctl_json_add_number(o, "most", UINT64_MAX);
  ctl_json_add_number(o, "none", 0);
  ctl_json_add_decimal(o, "whole", 1e15, 0);
  ctl_json_add_decimal(o, "part", 0.1234567, 6);
  ctl_json_add_text(o, "null", NULL);
  ctl_json_add_bool(list, NULL, true);
  ctl_json_add_bool(list, NULL, false);
  ctl_json_add(o, "list", list);
  char *text = printed(o);
  assert_string_equal(
      text, "{ \"most\": 18446744073709551615, \"none\": 0, \"whole\": "
            "1000000000000000, \"part\": 0.123457, \"null\": null, \"list\": [ true, false ] }\n");
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(texts), cmocka_unit_test(numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
