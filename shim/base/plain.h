/* SPDX-License-Identifier: MIT */
/* plain.h - which bytes of a text a terminal may get. Pure functions. */
#pragma once

#include <stddef.h>

/* Bytes of the well-formed UTF-8 character at p, 0 if there is none. p ends with NUL. */
size_t shard_plain_character(const char *p);

/*
 * How many bytes at p a terminal may get as they are: a character that does not control it. 0: the
 * byte is to be shown as \xHH. ESC and newline control it, and so do U+0080 to U+009F, which are
 * ESC [ and the like in one, and such a byte by itself.
 */
size_t shard_plain(const char *p);
