/* SPDX-License-Identifier: MIT */
/*
 * job.c - the identity of a job.
 *
 * Batch systems number their jobs and steps. mpirun and torchrun use names again (torchrun's run
 * id is "none" unless one is asked for), so with them the launcher's own process counts too: the
 * nearest ancestor whose environment lacks the variable by which the launcher tells a rank, by pid
 * and start time.
 */
#include "config/job.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "config/config.h"
#include "libshard.h"

/* What launchers say of a job; the same in all its ranks. */
static const char *const variables[] = {"SLURM_JOB_ID",
                                        "SLURM_STEP_ID",
                                        "SLURM_RESTART_COUNT",
                                        "FLUX_JOB_ID",
                                        "PALS_APID",
                                        "LSB_JOBID",
                                        "PBS_JOBID",
                                        "PMIX_NAMESPACE",
                                        "PMI_JOBID",
                                        "TORCHELASTIC_RUN_ID",
                                        "TORCHELASTIC_RESTART_COUNT",
                                        "MASTER_ADDR",
                                        "MASTER_PORT"};

/* By launcher: a variable that its ranks have and the launcher itself has not; NULL: a step's
 * number is enough. */
static const struct {
  const char *launcher, *mark;
} marks[] = {{"torchrun", "TORCHELASTIC_RUN_ID"},
             {"Open MPI", "OMPI_COMM_WORLD_RANK"},
             {"MVAPICH", "MV2_COMM_WORLD_RANK"},
             {"PMI", "PMI_RANK"},
             {"PMIx", "PMIX_RANK"},
             {"JSM", "JSM_NAMESPACE_RANK"},
             {"Flux", NULL},
             {"PALS", NULL},
             {"Slurm", NULL}};

/* The parent of a process and when it was started. false if it is gone. */
static bool look_at(long pid, long *parent, unsigned long long *start) {
  char path[64];
  size_t size;
  snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
  char *text = shard_file_read(path, &size);
  char *p = text ? strrchr(text, ')') : NULL; /* the name may hold anything */
  /* Then the fields from the third on, separated by blanks; proc(5). */
  bool found = false;
  for (int field = 3; p && (p = strchr(p, ' ')); field++) {
    p++;
    if (field == 4) {
      *parent = strtol(p, NULL, 10);
    } else if (field == 22) {
      *start = strtoull(p, NULL, 10);
      found = true;
      break;
    }
  }
  free(text);
  return found;
}

/* Whether a process was started with variable `name`. true as well if that cannot be told. */
static bool has_variable(long pid, const char *name) {
  char path[64];
  size_t size, length = strlen(name);
  snprintf(path, sizeof(path), "/proc/%ld/environ", pid);
  char *text = shard_file_read(path, &size);
  bool found = !text;
  for (const char *p = text; text && !found && p < text + size; p += strlen(p) + 1) {
    found = strncmp(p, name, length) == 0 && p[length] == '=';
  }
  free(text);
  return found;
}

static bool find_launcher(const char *mark, long *pid, unsigned long long *start) {
  long parent;
  unsigned long long ignored;
  if (!look_at(getpid(), &parent, &ignored)) {
    return false;
  }
  for (int k = 0; k < 1000 && parent > 1; k++) {
    *pid = parent;
    if (!look_at(*pid, &parent, start)) {
      return false;
    }
    if (!has_variable(*pid, mark)) {
      return true;
    }
  }
  return false;
}

bool shard_job_identity(char *buf, size_t size) {
  const char *own = shard_config()->job;
  if (own) {
    return (size_t)snprintf(buf, size, "SHARD_JOB=%s", own) < size;
  }
  int saved = errno;
  struct shard_world world;
  char ignored[300];
  bool known = false;
  size_t i = 0, count = sizeof(marks) / sizeof(marks[0]);
  if (shard_world_get(&world, ignored, sizeof(ignored)) == 0) {
    while (i < count && strcmp(marks[i].launcher, world.launcher) != 0) {
      i++;
    }
  } else {
    i = count;
  }
  if (i < count) {
    long pid = 0;
    unsigned long long start = 0;
    known = !marks[i].mark || find_launcher(marks[i].mark, &pid, &start);
    int n = snprintf(buf, size, "%s %ld %llu", world.launcher, pid, start);
    size_t used = n < 0 ? size : (size_t)n;
    for (size_t v = 0; v < sizeof(variables) / sizeof(variables[0]) && used < size; v++) {
      /* MPI_Init of a process that no mpirun has started gives it a namespace of its own. */
      bool own_mpi =
          strncmp(variables[v], "PMI", 3) == 0 && strcmp(world.launcher, "torchrun") == 0;
      const char *value = own_mpi ? NULL : getenv(variables[v]);
      n = snprintf(buf + used, size - used, "\n%s", value ? value : "");
      used += n < 0 ? size : (size_t)n;
    }
    known = known && used < size;
  }
  errno = saved;
  return known;
}
