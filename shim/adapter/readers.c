/* SPDX-License-Identifier: MIT */
/*
 * readers.c - what DLIO's readers remember of files (OpenFiles and ByteCounts of sequences.py), for
 * the questions that they ask of each sample.
 *
 * A ByteCounts is asked for the path that its FileList has just made. What it knows is its
 * attribute _parts, a tuple that is never changed, only replaced; enum part says of what.
 */
#include <stdbool.h>
#include <string.h>

#include "adapter/elements.h"

static object *parts_name;

const struct attribute shard_reader_attributes[] = {{&parts_name, "_parts"}, {NULL, NULL}};

/* ---- OpenFiles ------------------------------------------------------------------------------- */

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

/* ---- ByteCounts ------------------------------------------------------------------------------ */

/* In _parts, which ByteCounts makes. */
enum part {
  FILES,
  WAITING,   /* a dict {path: size << 32 | position} */
  POSITIONS, /* bytes, of uint32_t: of the others, ascending */
  SIZES,     /* likewise, of each position */
  OTHERS,    /* a dict; while it has anything Python answers */
  ROOM,      /* an int: so many may wait */
};

/* A borrowed reference. */
static object *get_part(object *parts, enum part part) {
  return py.PyTuple_GetItem(parts, (ssize_t)part);
}

enum known { ABSENT, PRESENT, UNKNOWN }; /* UNKNOWN: Python is to say, or there is an exception */

/* Where the path is in the listing, if it has just been made and there are no others. */
static bool find_position(object *parts, object *path, uint64_t *position) {
  return py.PyDict_Size(get_part(parts, OTHERS)) == 0 &&
         shard_element_is_last(get_part(parts, FILES), path, position);
}

/* The size of the file at a position, among those that do not wait. */
static enum known find_kept(object *parts, uint64_t position, uint64_t *size) {
  object *ascending = get_part(parts, POSITIONS);
  const uint32_t *positions = (const void *)py.PyBytes_AsString(ascending);
  const uint32_t *sizes = (const void *)py.PyBytes_AsString(get_part(parts, SIZES));
  size_t low = 0, n = (size_t)py.PyBytes_Size(ascending) / sizeof(*positions), high = n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (positions[middle] < position) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low < n && positions[low] == position) {
    *size = sizes[low];
    return PRESENT;
  }
  return ABSENT;
}

static enum known find_size(object *self, object *path, uint64_t *size) {
  object *parts = py.PyObject_GetAttr(self, parts_name);
  if (!parts) {
    return UNKNOWN;
  }
  object *packed = py.PyDict_GetItemWithError(get_part(parts, WAITING), path); /* borrowed */
  uint64_t position;
  enum known known = UNKNOWN;
  if (packed) {
    *size = py.PyLong_AsUnsignedLongLong(packed) >> 32;
    known = PRESENT;
  } else if (!py.PyErr_Occurred() && find_position(parts, path, &position)) {
    known = find_kept(parts, position, size);
  }
  py.Py_DecRef(parts);
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

/* Let a size wait; false: Python is to do it, or there is an exception. *full: too many wait. */
static bool add_waiting(object *self, object *path, uint64_t size, bool *full) {
  object *parts = py.PyObject_GetAttr(self, parts_name), *packed = NULL;
  uint64_t position;
  if (parts && find_position(parts, path, &position)) {
    packed = py.PyLong_FromUnsignedLongLong(size << 32 | position);
  }
  object *waiting = packed ? get_part(parts, WAITING) : NULL;
  bool added = waiting && py.PyDict_SetItem(waiting, path, packed) == 0;
  *full = added && py.PyDict_Size(waiting) > py.PyLong_AsSsize_t(get_part(parts, ROOM));
  shard_python_end(packed);
  shard_python_end(parts);
  return added;
}

/* __setitem__(path, size) */
static object *set_size(object *self, object *arguments) {
  uint64_t size;
  bool full;
  if (py.PyTuple_Size(arguments) != 2 || !read_size(py.PyTuple_GetItem(arguments, 1), &size) ||
      !add_waiting(self, py.PyTuple_GetItem(arguments, 0), size, &full)) {
    return shard_python_instead(self, "_set", arguments);
  }
  return full ? py.PyObject_CallMethod(self, "_merge", NULL) : shard_python_share(py.None);
}

struct method shard_byte_counts_methods[] = {{"__contains__", has_size, METH_O, NULL},
                                             {"get", get_size, METH_VARARGS, NULL},
                                             {"__setitem__", set_size, METH_VARARGS, NULL},
                                             {NULL, NULL, 0, NULL}};
