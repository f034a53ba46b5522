/* SPDX-License-Identifier: MIT */
/* utf8.h - UTF-8 characters, and which of them a terminal may get. Pure functions. */
#pragma once

#include <stddef.h>

/*
 * Returns the bytes of the well-formed UTF-8 character at p; 0 if p, which ends with NUL, has none.
 */
size_t shard_utf8_character(const char *p);

/*
 * Returns the bytes of the character at p if a terminal may get it; 0 if its first byte must be
 * shown as \xHH: a malformed byte, or a control character. Control characters are ESC, newline and
 * the like, and also U+0080 to U+009F, which stand for ESC [ and others.
 */
size_t shard_utf8_printable(const char *p);
