/* SPDX-License-Identifier: MIT */
/*
 * elements.h - methods in C of the classes of sequences.py, list_like.py and columns.py. Those of
 * the first two have one in Python, too, which does all that C does not; quicken.c puts those of C
 * in their places.
 */
#pragma once

#include <stdint.h>

#include "adapter/python.h"

/* An attribute's name as a str of Python's. */
struct attribute {
  object **name;
  const char *text;
};

/* The classes of these names that have methods of C; NULL: none has. No references are held. */
extern object *shard_quick_file_list, *shard_quick_indices, *shard_quick_paths;

/* Each list ends with an element of NULLs. */
extern struct method shard_file_list_methods[], shard_indices_methods[],
    shard_list_iterator_methods[];
extern struct method shard_rows_methods[], shard_sample_table_methods[], shard_loops_methods[];
extern const struct attribute shard_element_attributes[], shard_table_attributes[];

/* Element `index`, an int, of a FileList or Paths: a new reference, or NULL with an exception. */
object *shard_element_path(object *files, object *index);

/* Of a list or dict with an attribute _length: __len__(). */
object *shard_element_length(object *self, object *unused);
