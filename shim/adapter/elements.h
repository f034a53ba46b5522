/* SPDX-License-Identifier: MIT */
/*
 * elements.h - declares the methods in C of the classes of sequences.py, list_like.py and
 * columns.py. The classes of sequences.py and list_like.py have each method in Python, too, for the
 * cases that the method in C leaves out. quicken.c sets the methods in C in the classes.
 */
#pragma once

#include <stdint.h>

#include "adapter/python.h"

/* The name of an attribute, and where the name is kept as a Python str. */
struct attribute {
  object **name;
  const char *text;
};

/* The classes FileList, Indices and Paths; NULL: the class has no methods in C. No references are
 * held. */
extern object *shard_quick_file_list, *shard_quick_indices, *shard_quick_paths;

/* The methods and attributes of each class. Each list ends with an element of NULLs. */
extern struct method shard_file_list_methods[], shard_indices_methods[],
    shard_list_iterator_methods[];
extern struct method shard_rows_methods[], shard_sample_table_methods[], shard_loops_methods[];
extern const struct attribute shard_element_attributes[], shard_table_attributes[];

/*
 * Returns element `index`, an int, of a FileList or Paths, as a new reference.
 * Errors: NULL and an exception.
 */
object *shard_element_path(object *files, object *index);

/*
 * Returns the attribute _length of a list or dict, as a new reference: the method __len__().
 * Errors: NULL and an exception.
 */
object *shard_element_length(object *self, object *unused);
