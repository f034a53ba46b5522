/* SPDX-License-Identifier: MIT */
/*
 * json.h - makes and prints JSON for commands, by json-c. For one thread alone.
 *
 * In each ctl_json_add function, `to` is an object, and `key` the key of the value; or `to` is an
 * array, and `key` is NULL. If there is no memory for a value, the value is lost, and
 * ctl_json_print() reports the loss.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_object;

/* Returns a new object, which is the caller's until the object is added or printed. */
struct json_object *ctl_json_object(void);

/* Returns a new array, which is the caller's until the array is added or printed. */
struct json_object *ctl_json_array(void);

/* Adds a value, which then belongs to `to`. value: NULL becomes null. */
void ctl_json_add(struct json_object *to, const char *key, struct json_object *value);

/* Adds a copy of a text. Bytes that are not UTF-8 become U+FFFD. text: NULL becomes null. */
void ctl_json_add_text(struct json_object *to, const char *key, const char *text);

/* Adds a bool. */
void ctl_json_add_bool(struct json_object *to, const char *key, bool value);

/* Adds a number. */
void ctl_json_add_number(struct json_object *to, const char *key, uint64_t value);

/* Adds a number, or null if the number is not known. */
void ctl_json_add_known(struct json_object *to, const char *key, uint64_t value, bool known);

/* Adds a number with `digits` digits behind the decimal point. */
void ctl_json_add_decimal(struct json_object *to, const char *key, double value, int digits);

/* Prints a value on one line, and frees the value. Returns CTL_DONE; CTL_FAILED after a message. */
int ctl_json_print(struct json_object *value, FILE *out);
