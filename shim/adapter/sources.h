/* SPDX-License-Identifier: MIT */
/* sources.h - declares the texts of the Python package _libshard, which scripts/embed.sh writes as
 * C. */
#pragma once

/* A file of the package. */
struct shard_adapter_source {
  const char *file; /* below shim/adapter, such as "dlio/argonne.py" */
  const char *text; /* UTF-8, ends with NUL */
};

/* All files of the package, "__init__.py" included. The last element has NULL for both. */
extern const struct shard_adapter_source shard_adapter_sources[];
