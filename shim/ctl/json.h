/* SPDX-License-Identifier: MIT */
/*
 * json.h - JSON that commands print, on json-c. One thread.
 *
 * A value is added to an object under a key, or to an array with key NULL. A value for which there
 * is no memory is lost, and ctl_json_print() reports that.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_object;

/* Returns a new object or array, the caller's until it is added or printed. */
struct json_object *ctl_json_object(void);
struct json_object *ctl_json_array(void);

/* Add a value, which then belongs to `to`; NULL: null. */
void ctl_json_add(struct json_object *to, const char *key, struct json_object *value);

/* Add a text; NULL: null. Bytes that are not UTF-8 become U+FFFD. */
void ctl_json_add_text(struct json_object *to, const char *key, const char *text);

void ctl_json_add_bool(struct json_object *to, const char *key, bool value);
void ctl_json_add_number(struct json_object *to, const char *key, uint64_t value);

/* Add a number, or null if it is not known. */
void ctl_json_add_known(struct json_object *to, const char *key, uint64_t value, bool known);

/* Add a number with so many digits behind the point. */
void ctl_json_add_decimal(struct json_object *to, const char *key, double value, int digits);

/* Print a value on one line, and free it. Returns CTL_DONE, or CTL_FAILED after a message. */
int ctl_json_print(struct json_object *value, FILE *out);
