/* SPDX-License-Identifier: MIT */
/*
 * cmd_prove.c - shardctl prove: that a DLIO nobody has seen is like a family that libshard knows.
 *
 * The work is done in Python, by the package in libshard.so (adapter/prove/): this finds the
 * library and the interpreter, and becomes the interpreter under the library.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/libshard_path.h"
#include "ctl/python.h"

static const char *python, *dlio;
static bool again, keep;

static const struct ctl_option rows[] = {{"python", .text = &python},
                                         {"dlio", .text = &dlio},
                                         {"again", .flag = &again},
                                         {"keep", .flag = &keep},
                                         CTL_ROW_JSON,
                                         CTL_ROW_END};

static char script[] = CTL_PYTHON_BEGIN /* a checkout at hand is not what runs */
    "try:\n"
    "    import _libshard\n"
    "except ImportError as error:\n"
    "    sys.exit('shardctl: libshard.so does not start in %s (CPython 3.8 or later is needed): %s'"
    "\n             % (sys.executable, error))\n"
    "sys.exit(_libshard.prove(sys.argv[1:]))\n";

/* Put a value before that of a list variable. false: there is no memory. */
static bool put_first(const char *name, const char *value) {
  const char *before = getenv(name);
  char *both = NULL;
  bool more = before && *before;
  if (asprintf(&both, "%s%s%s", value, more ? ":" : "", more ? before : "") < 0) {
    return false;
  }
  bool done = setenv(name, both, 1) == 0;
  free(both);
  return done;
}

/* --dlio: the tree, or the package in it. CTL_DONE, or another status after a message. */
static int use_tree(const char *given) {
  char tree[PATH_MAX], file[PATH_MAX + 32];
  struct stat st;
  if (!realpath(given, tree)) {
    return ctl_fail("cannot find '%s': %s", given, strerror(errno));
  }
  snprintf(file, sizeof(file), "%s/dlio_benchmark/main.py", tree);
  if (stat(file, &st) != 0) {
    return ctl_fail("there is no dlio_benchmark/main.py in '%s'; --dlio names the folder above "
                    "the package",
                    tree);
  }
  if (strchr(tree, ':')) {
    return ctl_fail("the path of '%s' holds ':', which PYTHONPATH cannot; rename or link it", tree);
  }
  return put_first("PYTHONPATH", tree) ? CTL_DONE : ctl_fail("out of memory");
}

static int run(char **operands) {
  char self[PATH_MAX], library[PATH_MAX], err[1000], options[100];
  (void)operands; /* none */
  if (!ctl_libshard_path_find(self, library, err, sizeof(err))) {
    return ctl_fail("%s", err);
  }
  if (ctl_python_clean_path()) {
    ctl_warn(CTL_PYTHON_LESS);
  }
  int rc = dlio ? use_tree(dlio) : CTL_DONE;
  if (rc != CTL_DONE) {
    return rc;
  }
  snprintf(options, sizeof(options), "{\"json\": %s, \"again\": %s, \"keep\": %s}",
           ctl_given.json ? "true" : "false", again ? "true" : "false", keep ? "true" : "false");
  /* What the user has set for runs is not for these. SHARD_KNOWN and SHARD_TMPDIR stay. */
  static const char *const others[] = {"SHARD_VIEW", "SHARD_ADAPTER", "SHARD_DATASET",
                                       "SHARD_STATS", "SHARD_LISTING"};
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
    unsetenv(others[i]);
  }
  if (setenv("LD_PRELOAD", library, 1) != 0 || setenv("SHARD_LOG", "error", 1) != 0 ||
      setenv("PYTHONDONTWRITEBYTECODE", "1", 1) != 0) {
    return ctl_fail("out of memory");
  }
  const char *interpreter = python && *python ? python : ctl_python();
  char *const line[] = {(char *)interpreter, "-c", script, options, NULL};
  execvp(interpreter, line);
  return ctl_fail("cannot start '%s': %s; name the benchmark's interpreter by --python",
                  interpreter, strerror(errno));
}

const struct ctl_command ctl_cmd_prove = {ctl_help_prove, rows, CTL_NONE, "no arguments", run};
