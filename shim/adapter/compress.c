/* SPDX-License-Identifier: MIT */
/*
 * compress.c - the loops over what DLIO has made of its files, and what they become: Rows and
 * SampleTable of columns.py, whose rows are made of columns of numbers, and the methods of Loops.
 *
 * A Rows or a SampleTable has an attribute _table, (table, paths, types, memory): struct table as
 * bytes; the Paths that numbers of kind PATH are positions of; a type for each column; and what
 * keeps the columns' memory. It is never changed. All of it has addresses: it stays in the process
 * and its forks. There are no such functions in Python: where C cannot have the classes, nothing is
 * compressed.
 *
 * The interpreter's lock is held. A function returns NULL with an exception.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/elements.h"

/* What the numbers of a column stand for. */
enum kind {
  PATH,   /* a str: a position in the Paths */
  NUMBER, /* an int */
  SCALAR, /* what the column's type makes of an int */
};

/* As columns.py packs it. The number of row i is start + i * step, or start plus what data has. */
struct column {
  uint64_t kind;
  uint64_t width; /* bytes of a number in data: 4, unsigned, or 8; 0: there is no data */
  const void *data;
  int64_t start, step;
};

struct table {
  uint64_t rows;
  uint64_t keyed;    /* column 0 is the rows' keys */
  uint64_t bare;     /* a row is its only field, and no tuple */
  uint64_t width;    /* bytes of a number in order: 4 or 8; 0: keys ascend */
  const void *order; /* rows, in the order of their keys */
  uint64_t columns;
  struct column column[];
};

static object *named_table;

const struct attribute shard_table_attributes[] = {{&named_table, "_table"}, {NULL, NULL}};

/* Whether an object's type is this very one. */
static bool is_exactly(object *value, object *type) {
  object *own = py.PyObject_Type(value);
  shard_python_end(own);
  return own == type;
}

/* ---- a row ----------------------------------------------------------------------------------- */

enum part { TABLE, PATHS, TYPES }; /* of _table */

static object *get_part(object *written, enum part part) { /* borrowed */
  return py.PyTuple_GetItem(written, (ssize_t)part);
}

static const struct table *table_of(object *written) {
  return (const void *)py.PyBytes_AsString(get_part(written, TABLE));
}

static uint64_t unsigned_at(const void *data, uint64_t width, uint64_t i) {
  return width == 4 ? ((const uint32_t *)data)[i] : ((const uint64_t *)data)[i];
}

static int64_t number_at(const struct column *c, uint64_t i) {
  uint64_t more = c->width ? unsigned_at(c->data, c->width, i) : i * (uint64_t)c->step;
  return (int64_t)((uint64_t)c->start + more);
}

/* What a column has in row i: a new reference. */
static object *make_value(object *written, uint64_t column, uint64_t i) {
  const struct column *c = &table_of(written)->column[column];
  object *number = py.PyLong_FromLongLong(number_at(c, i));
  if (!number || c->kind == NUMBER) {
    return number;
  }
  object *paths = get_part(written, PATHS);
  object *made =
      c->kind == SCALAR
          ? py.PyObject_CallFunctionObjArgs(
                py.PyTuple_GetItem(get_part(written, TYPES), (ssize_t)column), number, NULL)
      : is_exactly(paths, py.list_type) ? py.PyObject_GetItem(paths, number)
                                        : shard_element_path(paths, number);
  py.Py_DecRef(number);
  return made;
}

/* Row i without its key: a new reference. */
static object *make_row(object *written, uint64_t i) {
  const struct table *t = table_of(written);
  uint64_t first = t->keyed;
  if (t->bare) {
    return make_value(written, first, i);
  }
  object *row = py.PyTuple_New((ssize_t)(t->columns - first));
  for (uint64_t k = first; row && k < t->columns; k++) {
    object *value = make_value(written, k, i);
    /* takes the reference, also where it fails */
    if (!value || py.PyTuple_SetItem(row, (ssize_t)(k - first), value) != 0) {
      py.Py_DecRef(row);
      row = NULL;
    }
  }
  return row;
}

/* The row whose key is the i-th of all. */
static uint64_t row_of(const struct table *t, uint64_t i) {
  return t->width ? unsigned_at(t->order, t->width, i) : i;
}

/* The row that has this key; t->rows: none. */
static uint64_t find_row(const struct table *t, int64_t key) {
  const struct column *c = t->column;
  uint64_t low = 0, high = t->rows;
  /* Most keys are a run of numbers: then this is the place. */
  uint64_t guess = (uint64_t)key - (uint64_t)number_at(c, row_of(t, 0));
  while (low < high) {
    uint64_t middle = guess < high ? guess : low + (high - low) / 2;
    uint64_t row = row_of(t, middle);
    int64_t found = number_at(c, row);
    if (found == key) {
      return row;
    }
    guess = UINT64_MAX;
    low = found < key ? middle + 1 : low;
    high = found < key ? high : middle;
  }
  return t->rows;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static object *get_row(object *self, object *index) {
  if (!py.PyIndex_Check(index)) {
    return py.PyObject_CallMethod(self, "_part", "(O)", index);
  }
  ssize_t i = py.PyNumber_AsSsize_t(index, NULL); /* what does not fit is as large as fits */
  object *made = NULL, *written = NULL;
  if (i != -1 || !py.PyErr_Occurred()) {
    written = py.PyObject_GetAttr(self, named_table);
  }
  if (written) {
    ssize_t rows = (ssize_t)table_of(written)->rows, k = i < 0 ? i + rows : i;
    if (k < 0 || k >= rows) {
      py.PyErr_SetString(*py.IndexError, "list index out of range");
    } else {
      made = make_row(written, (uint64_t)k);
    }
  }
  shard_python_end(written);
  return made;
}

struct method shard_rows_methods[] = {{"__getitem__", get_row, METH_O, NULL},
                                      {"__len__", shard_element_length, METH_NOARGS, NULL},
                                      {NULL, NULL, 0, NULL}};

/* ---- SampleTable ------------------------------------------------------------------------------
 */

/* Whether a dict takes the key for this number: it is an int, or hashes and compares as one. */
static bool stands_for(object *key, int64_t number) {
  if (is_exactly(key, py.int_type)) {
    return true;
  }
  object *one = py.PyLong_FromLongLong(number);
  bool same = one && py.PyObject_Hash(key) == py.PyObject_Hash(one) &&
              py.PyObject_RichCompareBool(one, key, PY_EQ) == 1;
  shard_python_end(one);
  return same;
}

/* As a dict: by an int, and what is one. _other() of Python answers for other keys, and says what
 * is missing. */
static object *get_sample(object *self, object *key) {
  object *made = NULL, *written = py.PyObject_GetAttr(self, named_table);
  bool found = false;
  if (!written) {
    return NULL;
  }
  if (py.PyIndex_Check(key)) {
    ssize_t number = py.PyNumber_AsSsize_t(key, *py.OverflowError);
    const struct table *t = table_of(written);
    bool fits = number != -1 || !py.PyErr_Occurred();
    uint64_t row = fits && stands_for(key, number) ? find_row(t, number) : t->rows;
    found = row < t->rows;
    made = found ? make_row(written, row) : NULL;
  }
  py.Py_DecRef(written);
  if (found) {
    return made;
  }
  py.PyErr_Clear();
  return py.PyObject_CallMethod(self, "_other", "(O)", key);
}

/* _key(i): the key of row i. */
static object *get_key(object *self, object *index) {
  object *written = py.PyObject_GetAttr(self, named_table), *made = NULL;
  ssize_t i = py.PyNumber_AsSsize_t(index, NULL);
  if (written && i >= 0 && (uint64_t)i < table_of(written)->rows) {
    made = make_value(written, 0, (uint64_t)i);
  } else if (!py.PyErr_Occurred()) {
    py.PyErr_SetString(*py.IndexError, "there is no such row");
  }
  shard_python_end(written);
  return made;
}

struct method shard_sample_table_methods[] = {{"__getitem__", get_sample, METH_O, NULL},
                                              {"_key", get_key, METH_O, NULL},
                                              {"__len__", shard_element_length, METH_NOARGS, NULL},
                                              {NULL, NULL, 0, NULL}};

/* ---- comparing --------------------------------------------------------------------------------
 */

/* Whether two objects are equal, and of one type, to the last field. An exception means no. */
static bool is_same(object *a, object *b) {
  object *type = py.PyObject_Type(a);
  bool same = type && is_exactly(b, type);
  shard_python_end(type);
  if (!same || type == py.str_type) {
    return same && py.PyUnicode_Compare(a, b) == 0;
  }
  if (type != py.tuple_type) { /* a number */
    ssize_t number = py.PyNumber_AsSsize_t(a, *py.OverflowError);
    return py.PyNumber_AsSsize_t(b, *py.OverflowError) == number && !py.PyErr_Occurred();
  }
  ssize_t n = py.PyTuple_Size(a);
  same = py.PyTuple_Size(b) == n;
  for (ssize_t i = 0; same && i < n; i++) {
    same = is_same(py.PyTuple_GetItem(a, i), py.PyTuple_GetItem(b, i));
  }
  return same;
}

/* The same, of an object whose reference is given away, and may be NULL. */
static bool made_same(object *made, object *real) {
  bool same = made && is_same(made, real);
  shard_python_end(made);
  return same;
}

static ssize_t compare_list(object *lazy, object *real, ssize_t n) {
  ssize_t i = 0;
  bool same = true;
  while (same && i < n) {
    object *index = py.PyLong_FromSsize_t(i);
    same = index && made_same(py.PyObject_GetItem(lazy, index), py.PyList_GetItem(real, i));
    shard_python_end(index);
    i += same;
  }
  return i;
}

static ssize_t compare_dict(object *lazy, object *real) {
  object *written = py.PyObject_GetAttr(lazy, named_table), *key, *value;
  ssize_t i = 0, at = 0;
  bool same = written;
  while (same && py.PyDict_Next(real, &at, &key, &value)) {
    same = (uint64_t)i < table_of(written)->rows &&
           made_same(make_value(written, 0, (uint64_t)i), key) &&
           made_same(get_sample(lazy, key), value);
    i += same;
  }
  shard_python_end(written);
  return i;
}

/* How many elements of a list or dict are the same, types included; one less than there are (-1 of
 * none) if the lengths differ. */
static ssize_t compare(object *lazy, object *real) {
  bool dict = is_exactly(real, py.dict_type);
  ssize_t n = dict ? py.PyDict_Size(real) : py.PyList_Size(real);
  ssize_t same = py.PyObject_Size(lazy) != n ? n - 1
                 : dict                      ? compare_dict(lazy, real)
                                             : compare_list(lazy, real, n);
  py.PyErr_Clear();
  return same;
}

/* same(lazy, real): compare(). */
static object *count_same(object *self, object *arguments) {
  (void)self;
  object *lazy = py.PyTuple_GetItem(arguments, 0), *real = py.PyTuple_GetItem(arguments, 1);
  return lazy && real ? py.PyLong_FromSsize_t(compare(lazy, real)) : NULL;
}

/* ---- replacing ----------------------------------------------------------------------------------
 */

/* How many references an object has: sys.getrefcount(). */
static ssize_t count_references(object *getrefcount, object *value) {
  object *count = py.PyObject_CallFunctionObjArgs(getrefcount, value, NULL);
  ssize_t n = count ? py.PyNumber_AsSsize_t(count, NULL) : -1;
  shard_python_end(count);
  return n;
}

/* Whether `real` is at a place; or put `lazy` there. */
static bool is_at(object *place, object *real) {
  object *now = py.PyObject_GetItem(py.PyTuple_GetItem(place, 0), py.PyTuple_GetItem(place, 1));
  shard_python_end(now);
  return now == real;
}

static bool put_at(object *place, object *lazy) {
  object *done = py.PyObject_CallMethod(py.PyTuple_GetItem(place, 0), "__setitem__", "(OO)",
                                        py.PyTuple_GetItem(place, 1), lazy);
  shard_python_end(done);
  return done;
}

/*
 * put(lazy, real, places, getrefcount, usual): put `lazy` where `real` is, at all of these
 * places, (dict, key), if all elements are the same, and nothing else refers to `real`: no other
 * thread runs meanwhile. Returns what compare() counts; or None, if there are more references
 * beside those in the places than usual, or a place has something else. usual None: only returns
 * that number.
 */
static object *put_lazy(object *self, object *arguments) {
  (void)self;
  object *lazy = py.PyTuple_GetItem(arguments, 0), *real = py.PyTuple_GetItem(arguments, 1),
         *places = py.PyTuple_GetItem(arguments, 2), *usual = py.PyTuple_GetItem(arguments, 4);
  if (!usual) {
    return NULL;
  }
  ssize_t n = py.PyList_Size(places);
  ssize_t others = count_references(py.PyTuple_GetItem(arguments, 3), real) - n;
  if (usual == py.None) {
    return py.PyLong_FromSsize_t(others);
  }
  bool there = others <= py.PyNumber_AsSsize_t(usual, NULL);
  for (ssize_t i = 0; there && i < n; i++) { /* all, before one is changed */
    there = is_at(py.PyList_GetItem(places, i), real);
  }
  py.PyErr_Clear();
  if (!there) {
    return shard_python_share(py.None);
  }
  ssize_t same = compare(lazy, real);
  for (ssize_t i = 0; same == py.PyObject_Size(real) && i < n; i++) {
    if (!put_at(py.PyList_GetItem(places, i), lazy)) {
      return NULL; /* those that were put are put back */
    }
  }
  return py.PyLong_FromSsize_t(same);
}

/* ---- names ------------------------------------------------------------------------------------
 */

/* A bytearray that grows. */
struct text {
  object *bytes;
  size_t used, room;
};

static bool put(struct text *t, const char *from, size_t n) {
  if (n > t->room - t->used) {
    size_t room = t->room + t->room / 2 + n + 4096;
    if (py.PyByteArray_Resize(t->bytes, (ssize_t)room) != 0) {
      return false;
    }
    t->room = room;
  }
  memcpy(py.PyByteArray_AsString(t->bytes) + t->used, from, n);
  t->used += n;
  return true;
}

/* Add a path as a name with a NUL behind it, without the prefix; false: it cannot be one. */
static bool put_name(struct text *t, object *path, const char *prefix, size_t skip) {
  object *bytes = is_exactly(path, py.str_type) ? py.PyUnicode_EncodeFSDefault(path) : NULL;
  const char *name = bytes ? py.PyBytes_AsString(bytes) : NULL;
  size_t n = name ? (size_t)py.PyBytes_Size(bytes) : 0;
  bool kept = n > skip && memcmp(name, prefix, skip) == 0 && !memchr(name, 0, n) &&
              put(t, name + skip, n - skip + 1);
  shard_python_end(bytes);
  return kept;
}

/* text(paths, prefix): the names of a list of paths as a bytearray; None: some are no names below
 * the prefix, bytes. */
static object *get_text(object *self, object *arguments) {
  (void)self;
  object *paths = py.PyTuple_GetItem(arguments, 0), *prefix = py.PyTuple_GetItem(arguments, 1);
  const char *first = prefix ? py.PyBytes_AsString(prefix) : NULL;
  if (!paths || !first) {
    return NULL;
  }
  struct text t = {.bytes = py.PyByteArray_FromStringAndSize(NULL, 0)};
  size_t skip = (size_t)py.PyBytes_Size(prefix);
  ssize_t n = py.PyList_Size(paths);
  bool good = t.bytes;
  for (ssize_t i = 0; good && i < n; i++) {
    good = put_name(&t, py.PyList_GetItem(paths, i), first, skip);
  }
  if (good && py.PyByteArray_Resize(t.bytes, (ssize_t)t.used) == 0) {
    return t.bytes;
  }
  py.PyErr_Clear();
  shard_python_end(t.bytes);
  return shard_python_share(py.None);
}

/* ---- reading rows -----------------------------------------------------------------------------
 */

/* Where in a list of paths a path is first: a hash table. */
struct places {
  object *paths;
  uint64_t *slots, mask, used; /* a slot: 32 bits of the hash, and the place + 1; 0: empty */
  bool grows;                  /* a path that is not there is put to the list */
};

static uint64_t *find_slot(const struct places *p, object *path, uint64_t hash) {
  uint64_t i = hash & p->mask;
  for (; p->slots[i]; i = (i + 1) & p->mask) {
    object *one = py.PyList_GetItem(p->paths, (ssize_t)(uint32_t)p->slots[i] - 1);
    if (p->slots[i] >> 32 == hash >> 32 && (one == path || py.PyUnicode_Compare(one, path) == 0)) {
      break;
    }
  }
  return &p->slots[i];
}

/* Twice the slots. */
static bool widen(struct places *p) {
  struct places wide = *p;
  wide.mask = p->mask * 2 + 1;
  wide.slots = calloc(wide.mask + 1, sizeof(*wide.slots));
  for (uint64_t i = 0; wide.slots && p->slots && i <= p->mask; i++) {
    object *path =
        p->slots[i] ? py.PyList_GetItem(p->paths, (ssize_t)(uint32_t)p->slots[i] - 1) : NULL;
    if (path) {
      *find_slot(&wide, path, (uint64_t)py.PyObject_Hash(path)) = p->slots[i];
    }
  }
  if (wide.slots) {
    free(p->slots);
    *p = wide;
  }
  return wide.slots;
}

/* The place of a path, a str; -1: it has none, or there is no memory. is_new: it is element `at`.
 */
static int64_t find_place(struct places *p, object *path, ssize_t at) {
  uint64_t hash = (uint64_t)py.PyObject_Hash(path), *slot = find_slot(p, path, hash);
  if (*slot) {
    return (int64_t)(uint32_t)*slot - 1;
  }
  if (at >= UINT32_MAX || (at < 0 && !p->grows) ||
      (at < 0 && py.PyList_Append(p->paths, path) != 0)) {
    return -1;
  }
  at = at < 0 ? py.PyList_Size(p->paths) - 1 : at;
  *slot = hash >> 32 << 32 | (uint64_t)(at + 1);
  return ++p->used * 2 <= p->mask || widen(p) ? at : -1;
}

static bool begin_places(struct places *p) {
  ssize_t n = py.PyList_Size(p->paths);
  bool good = true;
  for (p->mask = 1023; p->mask < (uint64_t)n * 2; p->mask = p->mask * 2 + 1) {
  }
  p->slots = calloc(p->mask + 1, sizeof(*p->slots));
  good = p->slots;
  for (ssize_t i = 0; good && i < n; i++) {
    object *path = py.PyList_GetItem(p->paths, i);
    good = is_exactly(path, py.str_type) && find_place(p, path, i) >= 0;
  }
  return good;
}

/* What rows are read into. */
struct reading {
  object *types; /* a tuple of each column's; str: the place of a path, else the number itself */
  ssize_t columns, rows;
  int64_t *numbers; /* column by column */
  struct places places;
};

/* The number that a value becomes; false: it does not fit. */
static bool read_value(struct reading *r, ssize_t column, ssize_t row, object *value) {
  object *type = py.PyTuple_GetItem(r->types, column);
  int64_t *number = &r->numbers[column * r->rows + row];
  if (!is_exactly(value, type)) {
    return false;
  }
  if (type == py.str_type) {
    *number = find_place(&r->places, value, -1);
    return *number >= 0;
  }
  *number = py.PyNumber_AsSsize_t(value, *py.OverflowError);
  return *number != -1 || !py.PyErr_Occurred();
}

/* Read a row, and its key if there is one. */
static bool read_row(struct reading *r, ssize_t row, object *key, object *value) {
  ssize_t first = key ? 1 : 0, fields = r->columns - first;
  if (key && !read_value(r, 0, row, key)) {
    return false;
  }
  if (!is_exactly(value, py.tuple_type)) { /* a row that is bare has one field */
    return fields == 1 && read_value(r, first, row, value);
  }
  bool good = py.PyTuple_Size(value) == fields;
  for (ssize_t i = 0; good && i < fields; i++) {
    good = read_value(r, first + i, row, py.PyTuple_GetItem(value, i));
  }
  return good;
}

static ssize_t read_rows(struct reading *r, object *from, bool dict) {
  object *key, *value;
  ssize_t row = 0, at = 0;
  if (dict) {
    while (row < r->rows && py.PyDict_Next(from, &at, &key, &value) &&
           read_row(r, row, key, value)) {
      row++;
    }
    return row;
  }
  while (row < r->rows && read_row(r, row, NULL, py.PyList_GetItem(from, row))) {
    row++;
  }
  return row;
}

/*
 * read(rows, types, paths, grows, numbers): read a dict or list of tuples of these types into a
 * bytearray, column by column, as int64_t. A path becomes its place in the list `paths`; grows:
 * those that are missing are put there. Returns how many rows were read; the next does not fit, or
 * the bytearray does not: another thread has changed `rows`.
 */
static object *read_columns(object *self, object *arguments) {
  (void)self;
  object *from = py.PyTuple_GetItem(arguments, 0), *out = py.PyTuple_GetItem(arguments, 4);
  struct reading r = {.types = py.PyTuple_GetItem(arguments, 1),
                      .places.paths = py.PyTuple_GetItem(arguments, 2)};
  if (!from || !out || !r.types || !r.places.paths) {
    return NULL;
  }
  bool dict = is_exactly(from, py.dict_type);
  r.places.grows = py.PyTuple_GetItem(arguments, 3) != py.None;
  r.columns = py.PyTuple_Size(r.types);
  r.rows = dict ? py.PyDict_Size(from) : py.PyList_Size(from);
  r.numbers = (void *)py.PyByteArray_AsString(out);
  bool fits = py.PyByteArray_Size(out) == r.columns * r.rows * (ssize_t)sizeof(*r.numbers);
  ssize_t read = fits && begin_places(&r.places) ? read_rows(&r, from, dict) : 0;
  free(r.places.slots);
  py.PyErr_Clear();
  return py.PyLong_FromSsize_t(read);
}

struct method shard_loops_methods[] = {{"text", get_text, METH_VARARGS, NULL},
                                       {"read", read_columns, METH_VARARGS, NULL},
                                       {"same", count_same, METH_VARARGS, NULL},
                                       {"put", put_lazy, METH_VARARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
