/* SPDX-License-Identifier: MIT */
/*
 * elements.c - an element of a FileList or of Indices (sequences.py) in little more time than a
 * list takes, and the next one (ListIterator of list_like.py).
 *
 * These are functions in C of classes in Python, whose objects have the layout of all others. They
 * read their attribute _recipe, (recipe, permutation): _write() has put all that it takes to make
 * any element into the recipe, a bytes object. That has addresses, so it stays in the process and
 * its forks; the permutation is there to keep its array. The tuple is never changed, only replaced.
 *
 * For what is no index, where there is no recipe, and for all that goes wrong (a listing that is
 * damaged, a name that is too long) _element() is called, which does all of it in Python.
 *
 * The interpreter's lock is held, and never given away while something static is used.
 */
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "adapter/api.h"
#include "adapter/elements.h"
#include "base/workspace.h"

/* Which name element i is. */
enum order {
  PLAIN = 0,  /* start + i * step */
  EPOCH = 1,  /* where EpochShuffle puts start + i * step, of n */
  NARROW = 4, /* start + indices[i] * step; of uint32_t */
  WIDE = 8,   /* of uint64_t */
};

/* As sequences.py packs it. */
struct recipe {
  uint64_t order; /* enum order */
  const void *indices;
  int64_t start, step;
  uint64_t n, seed;
  uint64_t length; /* of the list */
  const struct shard_listing *listing;
  uint64_t bytes; /* in the prefix */
  char prefix[];
};

static bool find_position(const struct recipe *r, uint64_t i, uint64_t *position) {
  uint64_t start = (uint64_t)r->start, step = (uint64_t)r->step; /* a negative one wraps */
  if (r->order == EPOCH) {
    int64_t epoch = shard_run_epoch();
    *position = epoch < 0 ? 0 : shard_shuffle(start + i * step, r->n, r->seed, (uint64_t)epoch);
    return epoch >= 0;
  }
  if (r->order == NARROW) {
    i = ((const uint32_t *)r->indices)[i];
  } else if (r->order == WIDE) {
    i = ((const uint64_t *)r->indices)[i];
  }
  *position = start + i * step;
  return true;
}

/* ---- names of a listing ------------------------------------------------------------------- */

/* The name that was asked for last. */
static struct {
  const struct shard_listing *listing; /* NULL: there is none */
  uint64_t next;                       /* its position, plus 1 */
  const char *name;                    /* in the cursor */
  size_t length;
  struct shard_cursor cursor;
} last;

/*
 * Put name i of a listing into `last`; false: it cannot be read. Most lists are read in order, by
 * steps, or the same name again: then its block is not decoded from its beginning.
 */
static bool find_listed(const struct shard_listing *listing, uint64_t i) {
  enum { NEAR = 32 }; /* half a block, which is what a seek decodes */
  if (last.listing != listing || i + 1 - last.next > NEAR) {
    last.listing = shard_listing_seek(&last.cursor, listing, i) == 0 ? listing : NULL;
    last.next = i;
  }
  while (last.listing && last.next <= i) {
    ssize_t n = shard_listing_next(&last.cursor, &last.name);
    last.listing = n > 0 ? listing : NULL;
    last.length = (size_t)n;
    last.next++;
  }
  return last.listing;
}

/* ---- elements -------------------------------------------------------------------------------- */

/* Element i, a new reference. NULL, with an exception or without: Python is to make it. */
static object *make(const struct recipe *r, uint64_t i) {
  uint64_t at;
  SHARD_WORKSPACE(path);
  if (!path || !find_position(r, i, &at) || !find_listed(r->listing, at) ||
      r->bytes + last.length > PATH_MAX) {
    return NULL;
  }
  memcpy(path, r->prefix, r->bytes);
  memcpy(path + r->bytes, last.name, last.length);
  return py.PyUnicode_DecodeFSDefaultAndSize(path, (ssize_t)(r->bytes + last.length));
}

static struct { object *recipe, *length, *values, *at; } named;

const struct attribute shard_element_attributes[] = {
    {&named.recipe, "_recipe"},
    {&named.length, "_length"},
    {&named.values, "_values"},
    {&named.at, "_at"},
    {NULL, NULL},
};

/* The path that was made last, and for which element of which recipe; references that are held.
 * Readers ask for it again at once, and their dicts know its hash. */
static struct {
  object *bytes, *path;
  uint64_t i;
} made_last;

static void remember(object *bytes, object *path, uint64_t i) {
  object *old[] = {made_last.bytes, made_last.path};
  made_last.bytes = shard_python_share(bytes);
  made_last.path = shard_python_share(path);
  made_last.i = i;
  shard_python_end(old[0]);
  shard_python_end(old[1]);
}

/* The recipe of a list whose attribute it is, borrowed; NULL: it has none. */
static object *recipe_of(object *written) {
  return written == py.None ? NULL : py.PyTuple_GetItem(written, 0);
}

/* How an element is made of a recipe: a new reference. NULL, with an exception or without: Python
 * is to make it. */
typedef object *make_element(const struct recipe *r, object *bytes, uint64_t i);

static object *make_path(const struct recipe *r, object *bytes, uint64_t i) {
  if (bytes == made_last.bytes && i == made_last.i && r->order != EPOCH) {
    return shard_python_share(made_last.path);
  }
  object *made = make(r, i);
  if (made) {
    remember(bytes, made, i);
  }
  return made;
}

static object *make_number(const struct recipe *r, object *bytes, uint64_t i) {
  (void)bytes;
  uint64_t number;
  return find_position(r, i, &number) ? py.PyLong_FromUnsignedLongLong(number) : NULL;
}

/*
 * Element `index` of a list, a new reference; *told: NULL is the answer, with an exception. Else
 * NULL means that Python is to make it.
 */
static object *find(object *self, object *index, make_element *element, bool *told) {
  object *made = NULL, *written = py.PyObject_GetAttr(self, named.recipe);
  if (!written) {
    return NULL;
  }
  object *bytes = recipe_of(written);
  const struct recipe *r = bytes ? (const void *)py.PyBytes_AsString(bytes) : NULL;
  if (r) {
    ssize_t i = py.PyNumber_AsSsize_t(index, NULL); /* what does not fit is as large as fits */
    ssize_t length = (ssize_t)r->length, k = i < 0 ? i + length : i;
    if (i == -1 && py.PyErr_Occurred()) {
      *told = true;
    } else if (k < 0 || k >= length) {
      py.PyErr_SetString(*py.IndexError, "list index out of range");
      *told = true;
    } else {
      made = element(r, bytes, (uint64_t)k);
    }
  }
  py.Py_DecRef(written);
  return made;
}

static object *get_element(object *self, object *index, make_element *element) {
  bool told = false;
  object *made = py.PyIndex_Check(index) ? find(self, index, element, &told) : NULL;
  if (made || told) {
    return made;
  }
  py.PyErr_Clear();
  return py.PyObject_CallMethod(self, "_element", "(O)", index);
}

static object *get_path(object *self, object *index) { return get_element(self, index, make_path); }

static object *get_number(object *self, object *index) {
  return get_element(self, index, make_number);
}

object *shard_element_path(object *files, object *index) { return get_path(files, index); }

object *shard_element_length(object *self, object *unused) {
  (void)unused;
  return py.PyObject_GetAttr(self, named.length);
}

struct method shard_file_list_methods[] = {{"__getitem__", get_path, METH_O, NULL},
                                           {"__len__", shard_element_length, METH_NOARGS, NULL},
                                           {NULL, NULL, 0, NULL}};
struct method shard_indices_methods[] = {{"__getitem__", get_number, METH_O, NULL},
                                         {"__len__", shard_element_length, METH_NOARGS, NULL},
                                         {NULL, NULL, 0, NULL}};

/* ---- iterating ---------------------------------------------------------------------------- */

/* Element i of a list: by the functions above, if it is one of theirs. */
static object *get_ith(object *list, ssize_t i) {
  object *number = py.PyLong_FromSsize_t(i), *type = py.PyObject_Type(list), *made = NULL;
  if (number && (type == shard_quick_file_list || type == shard_quick_paths)) {
    made = get_path(list, number);
  } else if (number && type == shard_quick_indices) {
    made = get_number(list, number);
  } else if (number) {
    made = py.PyObject_GetItem(list, number);
  }
  shard_python_end(type);
  shard_python_end(number);
  return made;
}

/* ListIterator.__next__() */
static object *get_next(object *self, object *unused) {
  (void)unused;
  object *list = py.PyObject_GetAttr(self, named.values), *made = NULL;
  object *memory = list ? py.PyObject_GetAttr(self, named.at) : NULL;
  bool ended = list == py.None;
  if (memory && !ended) {
    int64_t *at = (void *)py.PyByteArray_AsString(memory), i = at[0];
    at[0] += at[1]; /* no other thread can be in between */
    ended = i < 0;
    made = ended ? NULL : get_ith(list, i);
    ended = ended || (!made && py.PyErr_ExceptionMatches(*py.IndexError));
  }
  if (ended) {
    py.PyErr_Clear();
    if (py.PyObject_SetAttr(self, named.values, py.None) == 0) {
      py.PyErr_SetNone(*py.StopIteration);
    }
  }
  shard_python_end(list);
  shard_python_end(memory);
  return made;
}

struct method shard_list_iterator_methods[] = {{"__next__", get_next, METH_NOARGS, NULL},
                                               {NULL, NULL, 0, NULL}};
