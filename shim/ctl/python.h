/* SPDX-License-Identifier: MIT */
/* python.h - the benchmark's interpreter, started by shardctl to look at what it would import. */
#pragma once

#include <stdbool.h>

/* $PYTHON, or python3. */
const char *ctl_python(void);

/*
 * A script for `python -c` begins with this: such a Python looks into the working directory first,
 * where anybody's files may lie.
 */
#define CTL_PYTHON_BEGIN "import sys\nsys.path[:] = filter(None, sys.path)\n"

/*
 * Leave out of PYTHONPATH what is not absolute, for all that this process starts; an empty entry is
 * the working directory, too. Whether something was left out; without memory all is.
 */
bool ctl_python_clean_path(void);
#define CTL_PYTHON_LESS                                                                            \
  "PYTHONPATH's entries that are not absolute were left out, for they lead to the working "        \
  "directory"
