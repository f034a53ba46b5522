/* SPDX-License-Identifier: MIT */
#include "adapter/python.h"

#include <dlfcn.h>
#include <stddef.h>

struct shard_python py;

static const struct {
  const char *name;
  void **at;
} symbols[] = {
#define F(result, name, parameters) {#name, (void **)&py.name},
    SHARD_PYTHON(F)
#undef F
        {"PyExc_IndexError", (void **)&py.IndexError},
    {"PyExc_KeyError", (void **)&py.KeyError},
    {"PyExc_StopIteration", (void **)&py.StopIteration},
    {"_Py_NoneStruct", (void **)&py.None},
    {"PyExc_OverflowError", (void **)&py.OverflowError},
    {"PyLong_Type", (void **)&py.int_type},
    {"PyUnicode_Type", (void **)&py.str_type},
    {"PyTuple_Type", (void **)&py.tuple_type},
    {"PyList_Type", (void **)&py.list_type},
    {"PyDict_Type", (void **)&py.dict_type},
};

bool shard_python_find(void) {
  for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
    *symbols[i].at = dlsym(RTLD_DEFAULT, symbols[i].name);
    if (!*symbols[i].at) {
      return false;
    }
  }
  return true;
}
