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

static const char usage[] =
    "Usage: shardctl prove [--python PY] [--dlio TREE] [--again] [--keep] [--json]\n"
    "\n"
    "Proves that a version of DLIO that libshard does not know is like one that it knows, on this\n"
    "machine: its functions against the adapter's on thousands of small lists, then real runs\n"
    "under mpirun, unmodified and under libshard, on data that this DLIO generates in a temporary\n"
    "folder. If all agree, the version is written to SHARD_KNOWN, or to\n"
    "$XDG_CONFIG_HOME/libshard/known.json (~/.config), which libshard trusts from then on. If\n"
    "anything differs, it says which function and which input, and changes nothing.\n"
    "\n"
    "      --python PY   the benchmark's interpreter; default: $PYTHON, or python3\n"
    "      --dlio TREE   the folder that dlio_benchmark lies in, if it is not installed\n"
    "      --again       prove a version that is known or was proven before, too\n"
    "      --keep        keep the temporary folder (below $SHARD_TMPDIR, $TMPDIR or /tmp)\n"
    "      --json        print one JSON object\n"
    "      --help\n"
    "\n"
    "Takes five minutes at most on two cores that do nothing else, and gives up after fifteen.\n"
    "Progress goes to stderr. Exit status: 0 it is known or proven, 1 it is not, or could not be\n"
    "tried, 2 wrong usage.\n";

enum { OPT_PYTHON = CTL_OPTION_OWN, OPT_DLIO, OPT_AGAIN, OPT_KEEP };

static const struct option rows[] = {{"python", required_argument, NULL, OPT_PYTHON},
                                     {"dlio", required_argument, NULL, OPT_DLIO},
                                     {"again", no_argument, NULL, OPT_AGAIN},
                                     {"keep", no_argument, NULL, OPT_KEEP},
                                     CTL_ROW_JSON,
                                     CTL_ROW_HELP,
                                     CTL_ROW_END};

static char script[] = CTL_PYTHON_BEGIN /* a checkout at hand is not what runs */
    "try:\n"
    "    import _libshard\n"
    "except ImportError as error:\n"
    "    sys.exit('shardctl: libshard.so does not start in %s (CPython 3.8 or later is needed): %s'"
    "\n             % (sys.executable, error))\n"
    "sys.exit(_libshard.prove(sys.argv[1:]))\n";

struct prove {
  const char *python, *dlio;
  bool again, keep;
};

static int set_own(void *context, int option) {
  struct prove *p = context;
  switch (option) {
  case OPT_PYTHON:
    p->python = optarg;
    break;
  case OPT_DLIO:
    p->dlio = optarg;
    break;
  case OPT_AGAIN:
    p->again = true;
    break;
  default:
    p->keep = true;
  }
  return CTL_DONE;
}

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

int ctl_cmd_prove(int argc, char **argv) {
  static const struct ctl_syntax syntax = {
      .letters = "", .rows = rows, .usage = usage, .own = set_own};
  struct ctl_arguments given;
  struct prove p = {.python = getenv("PYTHON")};
  char self[PATH_MAX], library[PATH_MAX], err[1000], options[100];
  int rc = ctl_arguments_parse(argc, argv, &syntax, &given, &p);
  if (rc != CTL_GO_ON) {
    return rc;
  }
  if (optind != argc) {
    return ctl_usage("prove takes no arguments; see shardctl prove --help");
  }
  if (!ctl_libshard_path_find(self, library, err, sizeof(err))) {
    return ctl_fail("%s", err);
  }
  if (ctl_python_clean_path()) {
    ctl_warn(CTL_PYTHON_LESS);
  }
  rc = p.dlio ? use_tree(p.dlio) : CTL_DONE;
  if (rc != CTL_DONE) {
    return rc;
  }
  snprintf(options, sizeof(options), "{\"json\": %s, \"again\": %s, \"keep\": %s}",
           given.json ? "true" : "false", p.again ? "true" : "false", p.keep ? "true" : "false");
  p.python = p.python && *p.python ? p.python : "python3";
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
  char *const line[] = {(char *)p.python, "-c", script, options, NULL};
  execvp(p.python, line);
  return ctl_fail("cannot start '%s': %s; name the benchmark's interpreter by --python", p.python,
                  strerror(errno));
}
