/* SPDX-License-Identifier: MIT */
/*
 * json.h - JSON that commands print, on json-c.
 *
 * Values are added to an object under a key, or to an array with key NULL. Without memory a value
 * is lost, and ctl_json_print() says so. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_object;

/* A new object or array. The caller owns it until it is added or printed. */
struct json_object *ctl_json_object(void);
struct json_object *ctl_json_array(void);

/* Add a value, which goes to `to`; NULL stands for null. */
void ctl_json_add(struct json_object *to, const char *key, struct json_object *value);

/* A text: bytes that are not UTF-8 become U+FFFD. NULL stands for null. */
void ctl_json_add_text(struct json_object *to, const char *key, const char *text);

void ctl_json_add_bool(struct json_object *to, const char *key, bool value);
void ctl_json_add_number(struct json_object *to, const char *key, uint64_t value);

/* A number, or null if it is not known. */
void ctl_json_add_known(struct json_object *to, const char *key, uint64_t value, bool known);

/* A number with so many digits behind the point; an integer with none. */
void ctl_json_add_decimal(struct json_object *to, const char *key, double value, int digits);

/* Sixteen hex digits, or null if it is not known. */
void ctl_json_add_sum(struct json_object *to, const char *key, uint64_t sum, bool known);

/* Print it on one line, and free it. CTL_DONE, or CTL_FAILED after a message. */
int ctl_json_print(struct json_object *value, FILE *out);
