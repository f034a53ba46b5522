/* SPDX-License-Identifier: MIT */
/* real.h - for preloaded libraries of tests: a function that is preloaded, and what it hides. */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name)                                                                                 \
  __extension__({                                                                                  \
    static typeof(&name) real_;                                                                    \
    if (!real_) {                                                                                  \
      *(void **)&real_ = dlsym(RTLD_NEXT, #name);                                                  \
    }                                                                                              \
    real_;                                                                                         \
  })
