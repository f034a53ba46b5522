/* SPDX-License-Identifier: MIT */
/* quicken.c - gives the classes of sequences.py, list_like.py and columns.py their methods of C. */
#include <stdbool.h>
#include <string.h>

#include "adapter/api.h"
#include "adapter/elements.h"

object *shard_quick_file_list, *shard_quick_indices, *shard_quick_paths;
static object *list_iterator, *rows, *sample_table, *loops;

static const struct kind {
  const char *name;
  object **class;
  struct method *methods;
  const struct attribute *attributes;
} kinds[] = {
    {"FileList", &shard_quick_file_list, shard_file_list_methods, shard_element_attributes},
    {"Indices", &shard_quick_indices, shard_indices_methods, shard_element_attributes},
    {"ListIterator", &list_iterator, shard_list_iterator_methods, shard_element_attributes},
    {"Paths", &shard_quick_paths, shard_file_list_methods, shard_element_attributes},
    {"Rows", &rows, shard_rows_methods, shard_table_attributes},
    {"SampleTable", &sample_table, shard_sample_table_methods, shard_table_attributes},
    {"Loops", &loops, shard_loops_methods, shard_table_attributes},
};

static bool intern(const struct attribute *attributes) {
  for (const struct attribute *a = attributes; a->name; a++) {
    if (!*a->name && !(*a->name = py.PyUnicode_InternFromString(a->text))) {
      return false;
    }
  }
  return true;
}

static bool give(object *type, struct method *method) {
  object *function = py.PyDescr_NewMethod(type, method);
  bool given = function && py.PyObject_SetAttrString(type, method->name, function) == 0;
  shard_python_end(function);
  return given;
}

int shard_adapter_quicken(void *type, const char *name) {
  const struct kind *kind = kinds, *end = kinds + sizeof(kinds) / sizeof(kinds[0]);
  while (kind < end && strcmp(kind->name, name) != 0) {
    kind++;
  }
  if (kind == end || *kind->class || !shard_python_find()) {
    return 0; /* another interpreter of this process has it: what is static is not for two */
  }
  *kind->class = type;
  bool given = intern(kind->attributes);
  for (struct method *m = kind->methods; given && m->name; m++) {
    given = give(type, m);
  }
  return given;
}
