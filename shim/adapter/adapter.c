/* SPDX-License-Identifier: MIT */
/*
 * adapter.c - brings the Python package _libshard into a CPython process.
 *
 * An audit hook sees each "import" event before the module is looked for. At the first one for a
 * package the adapter knows, the embedded __init__.py is compiled and run as the package _libshard,
 * inside the import, with the interpreter's lock held; it imports the other modules from the texts
 * that it is given. No file, no PYTHONPATH, and nothing at all in a process that imports none of
 * these.
 *
 * The package has two products, and only what a process needs is compiled: "dlio" for DLIO, and
 * "buckets" for the clients of buckets, if SHARD_DATASET names one.
 *
 * A worker started by spawn or forkserver gets there the same way when it unpickles an object of
 * ours: that imports a module such as _libshard.sequences, which exists by the time that Python
 * looks for it.
 */
#include "adapter/adapter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter/api.h"
#include "adapter/python.h"
#include "adapter/sources.h"
#include "base/file.h"
#include "base/kernel.h"
#include "config/config.h"
#include "host/library.h"

#define PACKAGE "_libshard"
#define BUCKETS_PACKAGE "_libshard.buckets"
#define INIT "__init__.py"

/* The products, and the packages whose import brings them in: what a product knows something about,
 * and its own, which a worker that unpickles names first. */
static const char *const dlio_packages[] = {"dlio_benchmark", PACKAGE, NULL};
static const char *const bucket_packages[] = {BUCKETS_PACKAGE,
#define IMPORT(package) package,
#define CLIENT(module, ours, function)
#include "adapter/clients.def"
                                              NULL};

struct product {
  const char *name;
  const char *begin; /* Python, run in the package's namespace */
  const char *const *packages;
};
static const struct product dlio = {"dlio", "begin('dlio')", dlio_packages};
static const struct product buckets = {"buckets", "begin('buckets')", bucket_packages};

static bool is_of(const char *name, const struct product *product) {
  for (const char *const *p = product->packages; *p; p++) {
    size_t n = strlen(*p);
    if (strncmp(name, *p, n) == 0 && (name[n] == 0 || name[n] == '.')) {
      return true;
    }
  }
  return false;
}

/* Whether this process's listings of buckets are divided; DLIO's package says so later. */
static bool serves_buckets(void) {
  const struct shard_config *config = shard_config();
  return config->buckets && (config->view == SHARD_VIEW_AUTO || config->view == SHARD_VIEW_SHARD);
}

/* The product that the import of a module brings in, or NULL. */
static const struct product *find_product(const char *name) {
  if ((name[0] == '_' || serves_buckets()) && is_of(name, &buckets)) {
    return &buckets;
  }
  return is_of(name, &dlio) ? &dlio : NULL;
}

/* {file: text} of the package; a new reference, or NULL with an exception. */
static object *sources(void) {
  object *dict = py.PyDict_New();
  for (const struct shard_adapter_source *s = shard_adapter_sources; dict && s->file; s++) {
    object *text = py.PyUnicode_FromString(s->text);
    bool kept = text && py.PyDict_SetItemString(dict, s->file, text) == 0;
    shard_python_end(text);
    if (!kept) {
      py.Py_DecRef(dict);
      dict = NULL;
    }
  }
  return dict;
}

/* Run a text in the package's namespace; whether it ended without an exception. */
static bool run_text(object *dict, const char *text, const char *file) {
  object *code = py.Py_CompileString(text, file, PY_FILE_INPUT);
  object *result = code ? py.PyEval_EvalCode(code, dict, dict) : NULL;
  bool ran = result;
  shard_python_end(code);
  shard_python_end(result);
  return ran;
}

/* The same for __init__.py, with what it needs to know. */
static bool run_init(object *dict) {
  char self[PATH_MAX] = "";
  shard_library_path(self, sizeof(self));
  const struct shard_adapter_source *init = shard_adapter_sources;
  while (strcmp(init->file, INIT) != 0) {
    init++;
  }
  object *path = py.PyUnicode_DecodeFSDefaultAndSize(self, (ssize_t)strlen(self));
  object *handle = py.PyLong_FromVoidPtr(shard_library_handle());
  object *texts = path && handle ? sources() : NULL;
  bool ran = texts && py.PyDict_SetItemString(dict, "__builtins__", py.PyEval_GetBuiltins()) == 0 &&
             py.PyDict_SetItemString(dict, "LIBRARY", path) == 0 &&
             py.PyDict_SetItemString(dict, "HANDLE", handle) == 0 &&
             py.PyDict_SetItemString(dict, "SOURCES", texts) == 0 &&
             run_text(dict, init->text, "<libshard " INIT ">");
  shard_python_end(path);
  shard_python_end(handle);
  shard_python_end(texts);
  return ran;
}

/* Bring in a product, unless it is there: the package first. false: with an exception. Once it is
 * there no Python is run any more, which could be interrupted. */
static bool begin(object *modules, const struct product *product) {
  object *package = py.PyDict_GetItemString(modules, PACKAGE); /* borrowed */
  bool there = package;
  if (!there) {
    package = py.PyImport_AddModule(PACKAGE); /* borrowed */
  }
  object *dict = package ? py.PyModule_GetDict(package) : NULL;
  object *begun = there && dict ? py.PyDict_GetItemString(dict, "BEGUN") : NULL; /* borrowed */
  if (begun && py.PyDict_GetItemString(begun, product->name)) {
    return true;
  }
  return dict && (there || run_init(dict)) && run_text(dict, product->begin, "<libshard>");
}

/*
 * DLIO then runs unmodified. None is put in the package's place, as for a module that must not be
 * imported: this interpreter does not try again.
 */
static void give_up_dlio(object *modules) {
  object *package = py.PyDict_GetItemString(modules, PACKAGE); /* borrowed */
  shard_view_set(SHARD_VIEW_OFF); /* it shards by itself: half a directory would be wrong */
  shard_log(SHARD_LOG_WARN, "the CPython adapter could not start, so the program runs unmodified:");
  py.PyErr_WriteUnraisable(package);
  py.PyErr_Clear();
  if (!serves_buckets()) {
    py.PyDict_SetItemString(modules, PACKAGE, py.None);
  }
}

static int on_audit(const char *event, object *args, void *unused) {
  (void)unused;
  if (strcmp(event, "import") != 0) {
    return 0;
  }
  static bool told; /* under the interpreter's lock */
  static _Thread_local bool inside;
  ssize_t n;
  object *first = py.PyTuple_GetItem(args, 0); /* borrowed */
  const char *name = first ? py.PyUnicode_AsUTF8AndSize(first, &n) : NULL;
  if (!name) {
    py.PyErr_Clear();
    return 0;
  }
  const struct product *product = inside ? NULL : find_product(name);
  if (!product || (told && product == &dlio)) {
    return 0;
  }
  if (product == &dlio && shard_config()->adapter == SHARD_ADAPTER_OFF) {
    told = true;
    shard_view_set(SHARD_VIEW_OFF);
    shard_log(SHARD_LOG_WARN, "DLIO divides its files itself, so SHARD_DATASET is not applied to "
                              "it (SHARD_ADAPTER=off; SHARD_VIEW=shard would insist)");
    return 0;
  }
  object *modules = py.PyImport_GetModuleDict(); /* borrowed */
  if (!modules || py.PyDict_GetItemString(modules, PACKAGE) == py.None) {
    return 0;
  }
  int saved = errno, rc = 0;
  inside = true;
  if (!begin(modules, product)) {
    if (product == &dlio) {
      told = true;
      give_up_dlio(modules);
    } else {
      /* The import fails: a client that shows all keys would be wrong. */
      shard_log(SHARD_LOG_ERROR,
                "the CPython adapter could not start, so a bucket of SHARD_DATASET "
                "cannot be divided, and its clients cannot be imported");
      rc = -1;
    }
  }
  inside = false;
  errno = saved;
  return rc;
}

/*
 * Whether this interpreter will switch to the debug allocators when it starts. What
 * PySys_AddAuditHook() allocates before would then be freed by another allocator than it came
 * from, which aborts the process at its end. "-X dev" may be an argument of the program: then
 * it runs with these allocators, which only takes longer.
 */
static bool debug_allocators(void) {
  char line[4096];
  int fd = shard_kernel_open(AT_FDCWD, "/proc/self/cmdline", O_RDONLY);
  ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof(line));
  shard_file_close(fd);
  const char *mode = getenv("PYTHONDEVMODE"), *allocator = getenv("PYTHONMALLOC");
  if (allocator && *allocator) {
    return strstr(allocator, "debug");
  }
  size_t size = n < 0 ? 0 : (size_t)n;
  return (mode && *mode) || memmem(line, size, "X\0dev", 6) || memmem(line, size, "Xdev", 5);
}

void shard_adapter_init(void) {
  const struct shard_config *config = shard_config();
  /* Without the adapter there is still this to see to: a program that shards by itself must not
   * get the shard view because a dataset is set. */
  bool guard = config->view == SHARD_VIEW_AUTO && config->directories;
  if (config->view == SHARD_VIEW_OFF ||
      (config->adapter == SHARD_ADAPTER_OFF && !guard && !serves_buckets())) {
    return;
  }
  if (!shard_python_find()) {
    return; /* not CPython, or one older than 3.8 */
  }
  if (debug_allocators()) {
    py.PyMem_SetupDebugHooks();
  }
  py.PySys_AddAuditHook(on_audit, NULL);
}
