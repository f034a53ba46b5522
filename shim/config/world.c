/* SPDX-License-Identifier: MIT */
/*
 * world.c - rank and world size from the launcher's environment.
 *
 * Families are tried in this order: SHARD_RANK and SHARD_SIZE; torchrun, if it started this
 * process (it is the innermost launcher then); MPI launchers; Slurm; at last the bare RANK and
 * WORLD_SIZE of PyTorch's env:// convention. A family counts as present if its rank variable is.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libshard.h"

#define MOST 4

/* Names in order of preference; the first that is set counts. */
struct family {
  const char *launcher;
  const char *if_set; /* NULL: always looked at */
  bool needs_size;    /* the rank alone does not tell a launcher: MPI_Init sets PMIX_RANK itself */
  const char *rank[MOST], *size[MOST], *local_rank[MOST], *local_size[MOST];
};

static const struct family families[] = {
    {"torchrun",
     "TORCHELASTIC_RUN_ID",
     false,
     {"RANK"},
     {"WORLD_SIZE"},
     {"LOCAL_RANK"},
     {"LOCAL_WORLD_SIZE"}},
    {"Open MPI",
     NULL,
     false,
     {"OMPI_COMM_WORLD_RANK"},
     {"OMPI_COMM_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_LOCAL_RANK"},
     {"OMPI_COMM_WORLD_LOCAL_SIZE"}},
    {"MVAPICH",
     NULL,
     false,
     {"MV2_COMM_WORLD_RANK"},
     {"MV2_COMM_WORLD_SIZE"},
     {"MV2_COMM_WORLD_LOCAL_RANK"},
     {"MV2_COMM_WORLD_LOCAL_SIZE"}},
    {"MVAPICH",
     NULL,
     false,
     {"MVP_COMM_WORLD_RANK"},
     {"MVP_COMM_WORLD_SIZE"},
     {"MVP_COMM_WORLD_LOCAL_RANK"},
     {"MVP_COMM_WORLD_LOCAL_SIZE"}},
    {"JSM",
     NULL,
     false,
     {"JSM_NAMESPACE_RANK"},
     {"JSM_NAMESPACE_SIZE"},
     {"JSM_NAMESPACE_LOCAL_RANK"},
     {"JSM_NAMESPACE_LOCAL_SIZE"}},
    {"Flux", NULL, false, {"FLUX_TASK_RANK"}, {"FLUX_JOB_SIZE"}, {"FLUX_TASK_LOCAL_ID"}, {NULL}},
    {"PALS",
     NULL,
     false,
     {"PALS_RANKID"},
     {"PALS_SIZE", "PMI_SIZE"},
     {"PALS_LOCAL_RANKID"},
     {"PALS_LOCAL_SIZE"}},
    {"PMI",
     NULL,
     false,
     {"PMI_RANK"},
     {"PMI_SIZE"},
     {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
     {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"}},
    {"PMIx",
     NULL,
     true,
     {"PMIX_RANK"},
     {"PMIX_SIZE", "PMIX_JOB_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     {"PMIX_LOCAL_RANK", "SLURM_LOCALID"},
     {"PMIX_LOCAL_SIZE"}},
    {"Slurm",
     NULL,
     false,
     {"SLURM_PROCID"},
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"},
     {"SLURM_LOCALID"},
     {NULL}},
    {"PyTorch", NULL, false, {"RANK"}, {"WORLD_SIZE"}, {"LOCAL_RANK"}, {"LOCAL_WORLD_SIZE"}},
};

/* A non-negative number. 0, or -EINVAL and a line that names the variable. */
static int number(const char *name, const char *value, int *out, char *err, size_t size) {
  char *end;
  errno = 0;
  long v = strtol(value, &end, 10);
  if (value[0] < '0' || value[0] > '9' || *end || errno || v > INT_MAX) {
    snprintf(err, size, "%s='%.32s' is not a number from 0 on", name, value);
    return -EINVAL;
  }
  *out = (int)v;
  return 0;
}

/* The first of `names` that is set and not empty. */
static const char *first_set(const char *const names[MOST], const char **value) {
  for (size_t i = 0; i < MOST && names[i]; i++) {
    *value = getenv(names[i]);
    if (*value && **value) {
      return names[i];
    }
  }
  *value = NULL;
  return NULL;
}

static int read_number(const char *const names[MOST], const char **name, int *out, char *err,
                       size_t size) {
  const char *value;
  *name = first_set(names, &value);
  return *name ? number(*name, value, out, err, size) : 0;
}

/* "2(x3),1": tasks on each node of the step; the entry of node SLURM_NODEID. -1 if unknown. */
static int slurm_local_size(void) {
  const char *p = getenv("SLURM_STEP_TASKS_PER_NODE"), *id = getenv("SLURM_NODEID");
  long node = id ? strtol(id, NULL, 10) : -1;
  while (p && *p && node >= 0) {
    char *end;
    long tasks = strtol(p, &end, 10), times = 1;
    if (tasks < 1) {
      return -1;
    }
    if (strncmp(end, "(x", 2) == 0) {
      times = strtol(end + 2, &end, 10);
      end += *end == ')';
    }
    if (node < times) {
      return (int)tasks;
    }
    node -= times;
    p = *end == ',' ? end + 1 : NULL;
  }
  return -1;
}

/* What SHARD_ variables override need not make sense, and is not looked at. */
static int read_family(const struct family *f, struct shard_world *w, bool own_rank, bool own_size,
                       char *err, size_t size) {
  const char *name;
  int rc = own_rank ? 0 : read_number(f->rank, &name, &w->rank, err, size);
  if (rc == 0 && !own_size) {
    rc = read_number(f->size, &name, &w->size, err, size);
  }
  if (rc == 0) {
    rc = read_number(f->local_rank, &name, &w->local_rank, err, size);
  }
  if (rc == 0) {
    rc = read_number(f->local_size, &name, &w->local_size, err, size);
  }
  if (rc == 0 && strcmp(f->launcher, "Slurm") == 0 && w->local_size < 0) {
    w->local_size = slurm_local_size();
  }
  snprintf(w->launcher, sizeof(w->launcher), "%s", f->launcher);
  return rc;
}

static const struct family *find_family(void) {
  const char *value;
  for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
    const struct family *f = &families[i];
    if ((!f->if_set || getenv(f->if_set)) && first_set(f->rank, &value) &&
        (!f->needs_size || first_set(f->size, &value))) {
      return f;
    }
  }
  return NULL;
}

int shard_world_get(struct shard_world *w, char *err, size_t size) {
  int saved = errno, rc = -ENOENT;
  *w = (struct shard_world){-1, -1, -1, -1, ""};
  const char *rank_from = NULL, *size_from = NULL, *value;
  const char *own_rank = getenv("SHARD_RANK"), *own_size = getenv("SHARD_SIZE");
  const struct family *f = own_rank && own_size ? NULL : find_family();
  if (f) {
    rc = read_family(f, w, own_rank, own_size, err, size);
    rank_from = first_set(f->rank, &value);
    size_from = first_set(f->size, &value);
    if (!size_from) {
      size_from = f->size[0];
    }
  } else if (own_rank || own_size) {
    rc = 0;
    snprintf(w->launcher, sizeof(w->launcher), "SHARD_RANK");
  }
  if (rc == 0 && own_rank) {
    rc = number(rank_from = "SHARD_RANK", own_rank, &w->rank, err, size);
  }
  if (rc == 0 && own_size) {
    rc = number(size_from = "SHARD_SIZE", own_size, &w->size, err, size);
  }
  if (rc == 0 && w->rank < 0) {
    snprintf(err, size, "%s is set, but no rank is known; set SHARD_RANK too", size_from);
    rc = -EINVAL;
  }
  if (rc == 0 && w->size < 0) {
    snprintf(err, size, "%s=%d is set, but %s is not; set SHARD_SIZE", rank_from, w->rank,
             size_from ? size_from : "the world size");
    rc = -EINVAL;
  }
  if (rc == 0 && w->size == 0) {
    snprintf(err, size, "%s=0: a world has at least one rank", size_from);
    rc = -EINVAL;
  }
  if (rc == 0 && w->rank >= w->size) {
    snprintf(err, size, "%s=%d does not fit %s=%d: ranks go from 0 to %d", rank_from, w->rank,
             size_from, w->size, w->size - 1);
    rc = -EINVAL;
  }
  if (rc == 0 && w->local_size > 0 && w->local_rank >= w->local_size) {
    snprintf(err, size, "local rank %d does not fit local size %d (%s)", w->local_rank,
             w->local_size, w->launcher);
    rc = -EINVAL;
  }
  if (rc == -ENOENT) {
    snprintf(err, size,
             "no rank is known: start with mpirun, srun or torchrun, or set SHARD_RANK and "
             "SHARD_SIZE");
  }
  errno = saved;
  return rc;
}
