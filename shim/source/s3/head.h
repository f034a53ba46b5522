/* SPDX-License-Identifier: MIT */
/* head.h - a line of a reply's head, as libcurl hands it over: with its end, without a NUL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether the line is this header, in upper or lower case. Then its value is in value[], without
 * blanks around it, and "" if it does not fit.
 */
bool shard_s3_head_value(const char *line, size_t length, const char *name, char *value,
                         size_t size);
