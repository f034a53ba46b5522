/* SPDX-License-Identifier: MIT */
/* sources.h - the texts of the Python package _libshard; scripts/embed.sh writes them as C. */
#pragma once

struct shard_adapter_source {
  const char *file; /* below shim/adapter, such as "dlio/argonne.py" */
  const char *text; /* UTF-8, ends with NUL */
};

/* All of them, "__init__.py" included; one without a name ends the table. */
extern const struct shard_adapter_source shard_adapter_sources[];
