/* SPDX-License-Identifier: MIT */
#include "ctl/json.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "ctl/ctl.h"

static bool lost; /* there was no memory for a value */

static struct json_object *made(struct json_object *value) {
  lost = lost || !value;
  return value;
}

struct json_object *ctl_json_object(void) {
  return made(json_object_new_object());
}

struct json_object *ctl_json_array(void) {
  return made(json_object_new_array());
}

void ctl_json_add(struct json_object *to, const char *key, struct json_object *value) {
  int rc = !to   ? -1
           : key ? json_object_object_add(to, key, value)
                 : json_object_array_add(to, value);
  if (rc != 0) {
    lost = true;
    json_object_put(value);
  }
}

/* Returns the text as UTF-8, malloc'd; json-c would write any bytes. */
static char *well_formed(const char *text) {
  static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
  char *out = malloc(3 * strlen(text) + 1), *to = out;
  for (const char *p = text; out && *p;) {
    size_t n = shard_utf8_character(p);
    memcpy(to, n ? p : replacement, n ? n : 3);
    to += n ? n : 3;
    p += n ? n : 1;
  }
  if (out) {
    *to = 0;
  }
  return out;
}

void ctl_json_add_text(struct json_object *to, const char *key, const char *text) {
  char *good = text ? well_formed(text) : NULL;
  ctl_json_add(to, key, text ? made(good ? json_object_new_string(good) : NULL) : NULL);
  free(good);
}

void ctl_json_add_bool(struct json_object *to, const char *key, bool value) {
  ctl_json_add(to, key, made(json_object_new_boolean(value)));
}

void ctl_json_add_number(struct json_object *to, const char *key, uint64_t value) {
  ctl_json_add_known(to, key, value, true);
}

void ctl_json_add_known(struct json_object *to, const char *key, uint64_t value, bool known) {
  ctl_json_add(to, key, known ? made(json_object_new_uint64(value)) : NULL);
}

void ctl_json_add_decimal(struct json_object *to, const char *key, double value, int digits) {
  char text[400]; /* the longest double has 309 digits before the point */
  snprintf(text, sizeof(text), "%.*f", digits, value);
  ctl_json_add(to, key, made(json_object_new_double_s(value, text)));
}

/* Escape U+007F to U+009F, which control terminals; json-c escapes only what is below U+0020. */
static void write_escaped(const char *text, FILE *out) {
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    bool c1 = p[0] == 0xc2 && p[1] < 0xa0;
    p += c1;
    if (c1 || *p == 0x7f) {
      fprintf(out, "\\u%04x", *p);
    } else {
      putc(*p, out);
    }
  }
}

int ctl_json_print(struct json_object *value, FILE *out) {
  const char *text = !value ? NULL
                            : json_object_to_json_string_ext(
                                  value, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
  bool good = text && !lost;
  if (good) {
    write_escaped(text, out);
    fputc('\n', out);
  }
  json_object_put(value);
  return good ? CTL_DONE : ctl_fail("out of memory");
}
