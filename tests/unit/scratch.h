/* SPDX-License-Identifier: MIT */
/*
 * scratch.h - a test's folder with one file in it, removed at its end; SCRATCH may say where.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef SCRATCH
#define SCRATCH "/tmp"
#endif

static char dir[] = SCRATCH "/shard_unit.XXXXXX";
static char file[64];

static inline int set_up(void **state) {
  (void)state;
  if (!mkdtemp(dir)) {
    return -1;
  }
  snprintf(file, sizeof(file), "%s/a.listing", dir);
  return 0;
}

static inline int tear_down(void **state) {
  (void)state;
  unlink(file);
  return rmdir(dir);
}
