/* SPDX-License-Identifier: MIT */
/*
 * readers.c - what DLIO's readers remember of files (OpenFiles and ByteCounts
 * of sequences.py), for the questions that they ask of each sample.
 *
 * A ByteCounts is asked for the path that its FileList has just made. Its sizes
 * are in two places: _waiting, a dict {path: size << 32 | position}, and _kept,
 * (positions, sizes), two bytes objects of uint32_t, positions ascending. Both
 * bytes objects are never changed, only replaced, together.
 */
#include <stdbool.h>
#include <string.h>

#include "adapter/elements.h"

static struct { object *files, *waiting, *kept, *others, *room; } named;

const struct attribute shard_reader_attributes[] = {
    {&named.files, "_files"},   {&named.waiting, "_waiting"}, {&named.kept, "_kept"},
    {&named.others, "_others"}, {&named.room, "_room"},       {NULL, NULL},
};

/* ---- OpenFiles
 * ------------------------------------------------------------------------------
 */

/* __setitem__(path, file): a dict's, but None removes. */
static object *set_open(object *self, object *arguments) {
  if (py.PyTuple_Size(arguments) != 2) {
    return shard_python_instead(self, "_set", arguments); /* which says what is wrong */
  }
  object *path = py.PyTuple_GetItem(arguments, 0), *file = py.PyTuple_GetItem(arguments, 1);
  int rc = file == py.None ? py.PyDict_DelItem(self, path) : py.PyDict_SetItem(self, path, file);
  if (rc && file == py.None && py.PyErr_ExceptionMatches(*py.KeyError)) {
    py.PyErr_Clear();
    rc = 0;
  }
  return rc == 0 ? shard_python_share(py.None) : NULL;
}

struct method shard_open_files_methods[] = {{"__setitem__", set_open, METH_VARARGS, NULL},
                                            {NULL, NULL, 0, NULL}};

/* ---- ByteCounts
 * -----------------------------------------------------------------------------
 */

enum known { ABSENT, PRESENT, UNKNOWN }; /* UNKNOWN: Python is to say, or there is an exception */

/* Where the path is in the listing, if it has just been made and nothing is in
 * _others. */
static bool find_position(object *self, object *path, uint64_t *position) {
  object *list = py.PyObject_GetAttr(self, named.files),
         *odd = py.PyObject_GetAttr(self, named.others);
  bool found =
      list && odd && py.PyDict_Size(odd) == 0 && shard_element_is_last(list, path, position);
  shard_python_end(list);
  shard_python_end(odd);
  return found;
}

/* The size of the file at a position, among those that do not wait. */
static enum known find_kept(object *self, uint64_t position, uint64_t *size) {
  object *both = py.PyObject_GetAttr(self, named.kept);
  object *at = both ? py.PyTuple_GetItem(both, 0) : NULL;
  object *of = at ? py.PyTuple_GetItem(both, 1) : NULL;
  const uint32_t *positions = of ? (const void *)py.PyBytes_AsString(at) : NULL;
  const uint32_t *sizes = of ? (const void *)py.PyBytes_AsString(of) : NULL;
  enum known known = UNKNOWN;
  if (positions && sizes) {
    size_t low = 0, n = (size_t)py.PyBytes_Size(at) / sizeof(*positions), high = n;
    while (low < high) {
      size_t middle = low + (high - low) / 2;
      if (positions[middle] < position) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    known = low < n && positions[low] == position ? PRESENT : ABSENT;
    *size = known == PRESENT ? sizes[low] : 0;
  }
  shard_python_end(both);
  return known;
}

static enum known find_size(object *self, object *path, uint64_t *size) {
  object *dict = py.PyObject_GetAttr(self, named.waiting);
  object *packed = dict ? py.PyDict_GetItemWithError(dict, path) : NULL; /* borrowed */
  uint64_t position;
  enum known known = UNKNOWN;
  if (packed) {
    *size = py.PyLong_AsUnsignedLongLong(packed) >> 32;
    known = PRESENT;
  } else if (dict && !py.PyErr_Occurred() && find_position(self, path, &position)) {
    known = find_kept(self, position, size);
  }
  shard_python_end(dict);
  return known;
}

static object *has_size(object *self, object *path) {
  uint64_t size;
  enum known known = find_size(self, path, &size);
  if (known != UNKNOWN) {
    return py.PyBool_FromLong(known == PRESENT);
  }
  py.PyErr_Clear();
  return py.PyObject_CallMethod(self, "_has", "(O)", path);
}

/* get(path, default=None) */
static object *get_size(object *self, object *arguments) {
  ssize_t n = py.PyTuple_Size(arguments);
  uint64_t size;
  enum known known =
      n == 1 || n == 2 ? find_size(self, py.PyTuple_GetItem(arguments, 0), &size) : UNKNOWN;
  if (known == UNKNOWN) {
    return shard_python_instead(self, "_get", arguments);
  }
  return known == PRESENT ? py.PyLong_FromUnsignedLongLong(size)
                          : shard_python_share(n == 2 ? py.PyTuple_GetItem(arguments, 1) : py.None);
}

/* Whether it is an int, no subclass's, of 32 bits. */
static bool read_size(object *value, uint64_t *size) {
  object *type = py.PyObject_Type(value);
  bool fits = type == py.int_type;
  shard_python_end(type);
  if (fits) {
    *size = py.PyLong_AsUnsignedLongLong(value); /* ULLONG_MAX: there is an exception */
    fits = *size <= UINT32_MAX;
  }
  return fits;
}

/* Let a size wait; false: Python is to do it, or there is an exception. *full:
 * too many wait. */
static bool add_waiting(object *self, object *path, uint64_t size, uint64_t position, bool *full) {
  object *dict = py.PyObject_GetAttr(self, named.waiting),
         *most = py.PyObject_GetAttr(self, named.room);
  object *packed = py.PyLong_FromUnsignedLongLong(size << 32 | position);
  bool added = dict && most && packed && py.PyDict_SetItem(dict, path, packed) == 0;
  *full = added && py.PyDict_Size(dict) > py.PyLong_AsSsize_t(most);
  shard_python_end(dict);
  shard_python_end(most);
  shard_python_end(packed);
  return added;
}

/* __setitem__(path, size) */
static object *set_size(object *self, object *arguments) {
  uint64_t size, position;
  bool full, two = py.PyTuple_Size(arguments) == 2;
  object *path = two ? py.PyTuple_GetItem(arguments, 0) : NULL;
  if (!two || !read_size(py.PyTuple_GetItem(arguments, 1), &size) ||
      !find_position(self, path, &position) || !add_waiting(self, path, size, position, &full)) {
    return shard_python_instead(self, "_set", arguments);
  }
  return full ? py.PyObject_CallMethod(self, "_merge", NULL) : shard_python_share(py.None);
}

struct method shard_byte_counts_methods[] = {{"__contains__", has_size, METH_O, NULL},
                                             {"get", get_size, METH_VARARGS, NULL},
                                             {"__setitem__", set_size, METH_VARARGS, NULL},
                                             {NULL, NULL, 0, NULL}};
