/* SPDX-License-Identifier: MIT */
/*
 * python.h - declares the functions of CPython that libshard.so calls. The functions are looked up
 * by name, because libshard.so is not linked to a libpython. All are of the stable ABI, except
 * PySys_AddAuditHook() and PyMem_SetupDebugHooks().
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

typedef struct object object; /* PyObject */

struct method { /* PyMethodDef */
  const char *name;
  object *(*function)(object *self, object *argument);
  int flags;
  const char *doc;
};
enum {
  METH_VARARGS = 0x0001, /* the argument is a tuple */
  METH_NOARGS = 0x0004,  /* the argument is NULL */
  METH_O = 0x0008,       /* the argument is an object */
};
enum { PY_FILE_INPUT = 257 }; /* Py_file_input */
enum { PY_EQ = 2 };           /* Py_EQ */

/* The functions: F(result, name, parameters). */
/* clang-format off */
#define SHARD_PYTHON(F)                                                      \
  F(int, PySys_AddAuditHook, (int (*)(const char *, object *, void *), void *)) \
  F(object *, PyTuple_GetItem, (object *, ssize_t))                          \
  F(ssize_t, PyTuple_Size, (object *))                                       \
  F(object *, PyTuple_New, (ssize_t))                                        \
  F(int, PyTuple_SetItem, (object *, ssize_t, object *))                     \
  F(object *, PyList_GetItem, (object *, ssize_t))                           \
  F(ssize_t, PyList_Size, (object *))                                        \
  F(int, PyList_Append, (object *, object *))                                \
  F(const char *, PyBytes_AsString, (object *))                              \
  F(ssize_t, PyBytes_Size, (object *))                                       \
  F(char *, PyByteArray_AsString, (object *))                                \
  F(ssize_t, PyByteArray_Size, (object *))                                   \
  F(object *, PyByteArray_FromStringAndSize, (const char *, ssize_t))        \
  F(int, PyByteArray_Resize, (object *, ssize_t))                            \
  F(const char *, PyUnicode_AsUTF8AndSize, (object *, ssize_t *))            \
  F(object *, PyLong_FromVoidPtr, (void *))                                  \
  F(object *, PyUnicode_FromString, (const char *))                          \
  F(object *, PyUnicode_InternFromString, (const char *))                    \
  F(object *, PyUnicode_DecodeFSDefaultAndSize, (const char *, ssize_t))     \
  F(object *, PyUnicode_EncodeFSDefault, (object *))                         \
  F(int, PyUnicode_Compare, (object *, object *))                            \
  F(object *, PyLong_FromLongLong, (long long))                              \
  F(object *, PyLong_FromUnsignedLongLong, (unsigned long long))             \
  F(object *, PyLong_FromSsize_t, (ssize_t))                                 \
  F(int, PyIndex_Check, (object *))                                          \
  F(ssize_t, PyNumber_AsSsize_t, (object *, object *))                       \
  F(object *, PyImport_GetModuleDict, (void))                                \
  F(object *, PyImport_AddModule, (const char *))                            \
  F(object *, PyModule_GetDict, (object *))                                  \
  F(object *, PyDict_New, (void))                                            \
  F(object *, PyDict_GetItemString, (object *, const char *))                \
  F(int, PyDict_SetItemString, (object *, const char *, object *))           \
  F(ssize_t, PyDict_Size, (object *))                                        \
  F(int, PyDict_Next, (object *, ssize_t *, object **, object **))           \
  F(object *, PyEval_GetBuiltins, (void))                                    \
  F(object *, PyEval_EvalCode, (object *, object *, object *))               \
  F(object *, Py_CompileString, (const char *, const char *, int))           \
  F(object *, PyDescr_NewMethod, (object *, struct method *))                \
  F(object *, PyObject_Type, (object *))                                     \
  F(object *, PyObject_GetAttr, (object *, object *))                        \
  F(object *, PyObject_GetAttrString, (object *, const char *))              \
  F(int, PyObject_SetAttr, (object *, object *, object *))                   \
  F(object *, PyObject_GetItem, (object *, object *))                        \
  F(ssize_t, PyObject_Size, (object *))                                      \
  F(ssize_t, PyObject_Hash, (object *))                                      \
  F(int, PyObject_RichCompareBool, (object *, object *, int))                \
  F(object *, PyObject_CallFunctionObjArgs, (object *, ...))                 \
  F(object *, PyObject_CallObject, (object *, object *))                     \
  F(int, PyObject_SetAttrString, (object *, const char *, object *))         \
  F(object *, PyObject_CallMethod, (object *, const char *, const char *, ...)) \
  F(object *, PyErr_Occurred, (void))                                        \
  F(void, PyErr_Clear, (void))                                               \
  F(int, PyErr_ExceptionMatches, (object *))                                 \
  F(void, PyErr_SetNone, (object *))                                         \
  F(void, PyErr_SetString, (object *, const char *))                         \
  F(void, PyErr_WriteUnraisable, (object *))                                 \
  F(void, PyMem_SetupDebugHooks, (void))                                     \
  F(void, Py_IncRef, (object *))                                             \
  F(void, Py_DecRef, (object *))
/* clang-format on */

/* The functions by their names, and objects of CPython; set by shard_python_find(). */
extern struct shard_python {
#define F(result, name, parameters) result(*name) parameters;
  SHARD_PYTHON(F)
#undef F
  object **IndexError, **KeyError, **OverflowError, **StopIteration; /* &PyExc_IndexError ... */
  object *None;                                                      /* &_Py_NoneStruct */
  object *int_type, *str_type, *tuple_type, *list_type, *dict_type;  /* &PyLong_Type ... */
} py;

/*
 * Looks up all functions and objects of `py`.
 * Returns false if the process does not run CPython, or runs a CPython older than 3.8.
 */
bool shard_python_find(void);

/* Ends a reference (Py_DecRef). reference: may be NULL. */
static inline void shard_python_end(object *reference) {
  if (reference) {
    py.Py_DecRef(reference);
  }
}

/* Takes one more reference to an object (Py_IncRef). Returns the object. */
static inline object *shard_python_share(object *reference) {
  py.Py_IncRef(reference);
  return reference;
}
