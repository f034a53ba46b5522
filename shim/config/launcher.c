/* SPDX-License-Identifier: MIT */
/*
 * launcher.c - rank, world size and job, from the launcher's environment.
 *
 * A row of the table below is one way in which a launcher tells them. To add a launcher, add a row,
 * and a case to tests/unit/test_launcher.c.
 *
 * The first row that fits counts. So the innermost launcher stands first: torchrun, then MPI
 * launchers, then Slurm, which may have started them. The bare RANK and WORLD_SIZE of PyTorch's
 * env:// convention come last, for they may be left from elsewhere. Where the numbers of two
 * launchers differ, the processes above this one may tell which are the newer ones: then those
 * count, see find_launcher(). SHARD_RANK and SHARD_SIZE go before the table.
 *
 * The job: batch systems and some launchers number their jobs and steps. mpirun and torchrun reuse
 * names (torchrun's run id is "none" unless the user sets one), so there the launcher's process
 * identifies the job, by pid, start time, pid namespace and boot. It is the nearest ancestor that
 * was started without the variable that marks the ranks, or with another size.
 */
#include "config/launcher.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/kernel.h"
#include "base/process.h"
#include "base/size.h"
#include "config/config.h"
#include "libshard.h"

#define MOST 4 /* names in a column */

/* Of several names in a column, the first that is set and not empty counts. */
struct launcher {
  const char *name;
  /* The row fits if its rank variable is set, and each of these conditions that it has holds. */
  const char *if_set;  /* this variable is set */
  const char *step[2]; /* variable step[0] has the value step[1]SLURM_JOB_ID.SLURM_STEP_ID */
  bool needs_size;     /* one of `size` is set, as the rank alone does not prove a launcher */
  bool tasks_only;     /* this is not Slurm's batch script */
  bool script_of_one;  /* it is, and the only task of a job that tells no number of tasks */
  bool unnumbered;     /* no condition: nothing distinguishes the launcher's jobs */
  const char *rank, *size[MOST], *local_rank[MOST], *local_size[MOST];
  /*
   * The local size where no variable has it: tasks_per_node holds the tasks of each node, such as
   * "2(x3),1"; `node` is this node's place in it.
   */
  const char *tasks_per_node, *node;
  const char *nodes; /* how many nodes the job has, where no variable has the local size */
  /*
   * The job's identity: the launcher's process, the values of `job`, and those of the batch
   * systems' variables. number: the variable that numbers the jobs, in place of the process.
   */
  const char *number, *job[MOST];
  const char *process; /* this variable names the process that the launcher has started */
};

/* Slurm numbers jobs and their steps: srun(1), "OUTPUT ENVIRONMENT VARIABLES". */
#define SLURM_STEP                                                                                 \
  .name = "Slurm", .local_rank = {"SLURM_LOCALID"}, .tasks_per_node = "SLURM_STEP_TASKS_PER_NODE", \
  .node = "SLURM_NODEID", .number = "SLURM_JOB_ID", .job = {"SLURM_STEP_ID"},                      \
  .process = "SLURM_TASK_PID"
#define SLURM_SIZES "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"

static const struct launcher launchers[] = {
    /* The first row: docs.pytorch.org/docs/stable/elastic/run.html, "Environment Variables" */
    {.name = "torchrun",
     .if_set = "TORCHELASTIC_RUN_ID",
     .rank = "RANK",
     .size = {"WORLD_SIZE"},
     .local_rank = {"LOCAL_RANK"},
     .local_size = {"LOCAL_WORLD_SIZE"},
     /* Not the count of restarts: only the agent whose worker has failed counts one. */
     .job = {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"}},
    /* docs.open-mpi.org, "Environment variables set for MPI applications"; it sets
     * PMIX_NAMESPACE too */
    {.name = "Open MPI",
     .rank = "OMPI_COMM_WORLD_RANK",
     .size = {"OMPI_COMM_WORLD_SIZE"},
     .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
     .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
     .job = {"PMIX_NAMESPACE"}},
    /* the user guide of MVAPICH2, "MV2_COMM_WORLD_RANK" */
    {.name = "MVAPICH",
     .rank = "MV2_COMM_WORLD_RANK",
     .size = {"MV2_COMM_WORLD_SIZE"},
     .local_rank = {"MV2_COMM_WORLD_LOCAL_RANK"},
     .local_size = {"MV2_COMM_WORLD_LOCAL_SIZE"},
     .job = {"PMI_JOBID"}},
    /* the user guide of MVAPICH 3 and later, "MVP_COMM_WORLD_RANK" */
    {.name = "MVAPICH",
     .rank = "MVP_COMM_WORLD_RANK",
     .size = {"MVP_COMM_WORLD_SIZE"},
     .local_rank = {"MVP_COMM_WORLD_LOCAL_RANK"},
     .local_size = {"MVP_COMM_WORLD_LOCAL_SIZE"},
     .job = {"PMI_JOBID"}},
    /* jsrun of IBM's Job Step Manager: ibm.com/docs, "Spectrum LSF", "Job Step Manager" */
    {.name = "JSM",
     .rank = "JSM_NAMESPACE_RANK",
     .size = {"JSM_NAMESPACE_SIZE"},
     .local_rank = {"JSM_NAMESPACE_LOCAL_RANK"},
     .local_size = {"JSM_NAMESPACE_LOCAL_SIZE"},
     .job = {"PMIX_NAMESPACE"}},
    /* horovodrun without MPI: horovod/runner/gloo_run.py of Horovod's source. A worker on another
     * host is a child of its own connection. */
    {.name = "Horovod",
     .rank = "HOROVOD_RANK",
     .size = {"HOROVOD_SIZE"},
     .local_rank = {"HOROVOD_LOCAL_RANK"},
     .local_size = {"HOROVOD_LOCAL_SIZE"},
     .unnumbered = true},
    /* flux-environment(7). Each instance, as of a batch job, numbers its jobs from its start on. */
    {.name = "Flux",
     .rank = "FLUX_TASK_RANK",
     .size = {"FLUX_JOB_SIZE"},
     .local_rank = {"FLUX_TASK_LOCAL_ID"},
     .nodes = "FLUX_JOB_NNODES",
     .number = "FLUX_JOB_ID",
     .job = {"FLUX_ENCLOSING_ID"}},
    /* srun --mpi=cray_shasta: plugins/mpi/cray_shasta of Slurm's source; it tells no size */
    {SLURM_STEP, .step = {"PALS_APID", ""}, .rank = "PALS_RANKID", .size = {SLURM_SIZES}},
    /* mpiexec(1) of HPE Cray PALS */
    {.name = "PALS",
     .rank = "PALS_RANKID",
     .size = {"PALS_SIZE", "PMI_SIZE"},
     .local_rank = {"PALS_LOCAL_RANKID"},
     .local_size = {"PALS_LOCAL_SIZE"},
     .number = "PALS_APID"},
    /*
     * Hydra, the mpiexec of MPICH and Intel MPI: pm/hydra of MPICH's source. It comes before
     * Slurm: in a step of Slurm's, Slurm's variables count Hydra's proxies, not the ranks.
     */
    {.name = "PMI",
     .if_set = "MPI_LOCALRANKID",
     .rank = "PMI_RANK",
     .size = {"PMI_SIZE"},
     .local_rank = {"MPI_LOCALRANKID"},
     .local_size = {"MPI_LOCALNRANKS"},
     .job = {"PMI_JOBID"}},
    /*
     * srun --mpi=pmi2: plugins/mpi/pmi2 of Slurm's source. The step's number identifies the job;
     * the parent process would not, as each node has its own slurmstepd. PMI_JOBID proves that
     * PMI_RANK is Slurm's.
     */
    {SLURM_STEP, .step = {"PMI_JOBID", ""}, .rank = "PMI_RANK", .size = {"PMI_SIZE", SLURM_SIZES}},
    /* srun --mpi=pmix: plugins/mpi/pmix of Slurm's source */
    {SLURM_STEP, .step = {"PMIX_NAMESPACE", "slurm.pmix."}, .rank = "PMIX_RANK",
     .size = {SLURM_SIZES}},
    /* other launchers that speak PMI 1 or 2: src/pmi of MPICH's source */
    {.name = "PMI",
     .rank = "PMI_RANK",
     .size = {"PMI_SIZE"},
     .local_rank = {"PMI_LOCAL_RANK"},
     .local_size = {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"},
     .job = {"PMI_JOBID"}},
    /* PMIx's standard; MPI_Init sets PMIX_RANK itself where there is no launcher, for a world of
     * one: it has nothing to do with Slurm's sizes, see refuse_unsized() */
    {.name = "PMIx",
     .needs_size = true,
     .rank = "PMIX_RANK",
     .size = {"PMIX_SIZE", "PMIX_JOB_SIZE"},
     .local_rank = {"PMIX_LOCAL_RANK"},
     .local_size = {"PMIX_LOCAL_SIZE"},
     .job = {"PMIX_NAMESPACE"}},
    /* sbatch without -n: the job has a task on each node, and tells no SLURM_NTASKS */
    {SLURM_STEP, .script_of_one = true, .rank = "SLURM_PROCID", .size = {"SLURM_JOB_NUM_NODES"}},
    /* Slurm's batch script has rank 0's variables, too: see is_batch_script() */
    {SLURM_STEP, .tasks_only = true, .rank = "SLURM_PROCID", .size = {SLURM_SIZES}},
    /* The last row: docs.pytorch.org/docs/stable/distributed.html, "Environment variable
     * initialization" */
    {.name = "PyTorch",
     .rank = "RANK",
     .size = {"WORLD_SIZE"},
     .local_rank = {"LOCAL_RANK"},
     .local_size = {"LOCAL_WORLD_SIZE"},
     .unnumbered = true},
};

#define LAUNCHERS (sizeof(launchers) / sizeof(launchers[0]))
#define TORCHRUN (&launchers[0])
#define PYTORCH (&launchers[LAUNCHERS - 1])

/* Batch systems number their jobs: sbatch(1), qsub(1B) of PBS, bsub(1) of LSF. Clusters that share
 * a cache count for themselves, and a Slurm that was set up anew begins anew. */
static const char *const batch[] = {"SLURM_JOB_ID",        "SLURM_JOB_START_TIME",
                                    "SLURM_RESTART_COUNT", "SLURM_CLUSTER_NAME",
                                    "PBS_JOBID",           "LSB_JOBID"};

#define BATCH (sizeof(batch) / sizeof(batch[0]))

/* ---- the rank ----------------------------------------------------------- */

/* The value of a variable that is set and not empty, else NULL. */
static const char *get_value(const char *name) {
  const char *value = name ? getenv(name) : NULL;
  return value && *value ? value : NULL;
}

/* Parse a non-negative number. 0, or -EINVAL and a line that names the variable. */
static int parse_number(const char *name, const char *value, int *out, char *err, size_t size) {
  uint64_t number;
  if (!shard_number_parse(value, 0, INT_MAX, &number)) {
    return shard_error_set(err, size, -EINVAL, "%s='%.32s' is not a number from 0 on", name, value);
  }
  *out = (int)number;
  return 0;
}

/* The first of `names` that is set and not empty, and its value; else NULL. */
static const char *find_set(const char *const names[MOST], const char **value) {
  for (size_t i = 0; i < MOST && names[i]; i++) {
    *value = get_value(names[i]);
    if (*value) {
      return names[i];
    }
  }
  *value = NULL;
  return NULL;
}

static int read_first(const char *const names[MOST], int *out, char *err, size_t size) {
  const char *value, *name = find_set(names, &value);
  return name ? parse_number(name, value, out, err, size) : 0;
}

/* The entry of node `id` in a list such as "2(x3),1"; -1 if it has none. */
static int find_tasks(const char *p, const char *id) {
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

/* Does not read what SHARD_ variables override: that need not make sense. */
static int read_launcher(const struct launcher *l, struct shard_world *w, bool own_rank,
                         bool own_size, char *err, size_t size) {
  int rc = own_rank ? 0 : parse_number(l->rank, get_value(l->rank), &w->rank, err, size);
  rc = rc == 0 && !own_size ? read_first(l->size, &w->size, err, size) : rc;
  rc = rc == 0 ? read_first(l->local_rank, &w->local_rank, err, size) : rc;
  rc = rc == 0 ? read_first(l->local_size, &w->local_size, err, size) : rc;
  if (rc == 0 && w->local_size < 0) {
    w->local_size = find_tasks(get_value(l->tasks_per_node), get_value(l->node));
  }
  const char *nodes = get_value(l->nodes);
  if (rc == 0 && w->local_size < 0 && nodes && strcmp(nodes, "1") == 0) {
    w->local_size = w->size;
  }
  snprintf(w->launcher, sizeof(w->launcher), "%s", l->name);
  return rc;
}

/* Whether the variable's value is `prefix` and the number of Slurm's step. */
static bool is_of_step(const char *name, const char *prefix) {
  const char *value = get_value(name), *job = get_value("SLURM_JOB_ID"),
             *step = get_value("SLURM_STEP_ID");
  char wanted[128];
  return value && job && step &&
         (size_t)snprintf(wanted, sizeof(wanted), "%s%s.%s", prefix, job, step) < sizeof(wanted) &&
         strcmp(value, wanted) == 0;
}

/*
 * Whether this is the script of a job of several tasks, or was started by it without srun: it has
 * SLURM_PROCID=0 and the job's SLURM_NTASKS, but no step. To show it rank 0's share would be wrong.
 * In a heterogeneous job SLURM_NTASKS counts those of the first component. Not set: a task a node.
 */
static bool is_batch_script(void) {
  const char *tasks = get_value("SLURM_NTASKS");
  tasks = tasks ? tasks : get_value("SLURM_JOB_NUM_NODES");
  bool several = (tasks && strcmp(tasks, "1") != 0) || get_value("SLURM_HET_SIZE");
  return get_value("SLURM_JOB_ID") && get_value("SLURM_PROCID") && !get_value("SLURM_STEP_ID") &&
         !get_value("SLURM_STEP_NUM_TASKS") && several;
}

static bool is_script_of_one(void) {
  static const char *const sizes[MOST] = {SLURM_SIZES, "SLURM_STEP_ID"};
  const char *ignored, *nodes = get_value("SLURM_JOB_NUM_NODES");
  return nodes && strcmp(nodes, "1") == 0 && get_value("SLURM_JOB_ID") &&
         !find_set(sizes, &ignored) && !is_batch_script();
}

static bool row_fits(const struct launcher *l) {
  const char *ignored;
  return get_value(l->rank) && (!l->if_set || getenv(l->if_set)) &&
         (!l->tasks_only || !is_batch_script()) && (!l->script_of_one || is_script_of_one()) &&
         (!l->step[0] || is_of_step(l->step[0], l->step[1])) &&
         (!l->needs_size || find_set(l->size, &ignored));
}

/* ---- of two launchers --------------------------------------------------- */

/* Whether rank or size of two launchers differ. What is a copy of the other's does not. */
static bool differ(const struct launcher *a, const struct launcher *b) {
  const char *first, *second;
  return strcmp(get_value(a->rank), get_value(b->rank)) != 0 || !find_set(a->size, &first) ||
         !find_set(b->size, &second) || strcmp(first, second) != 0;
}

/* Whether a text is an environment: what a program has written its title over is none. */
static bool is_environment(const char *text, size_t size) {
  for (const char *p = text; p < text + size; p += strlen(p) + 1) {
    if (!strchr(p, '=')) {
      return false;
    }
  }
  return true;
}

/* The environment that a process was started with, malloc'd; NULL if it cannot be read. */
static char *read_environment(long pid, size_t *size) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%ld/environ", pid);
  char *text = shard_file_read(path, size);
  if (text && !is_environment(text, *size)) {
    free(text);
    text = NULL;
  }
  return text;
}

/* What a variable is in an environment; NULL: it is not there. */
static const char *find_variable(const char *text, size_t size, const char *name) {
  size_t n = strlen(name);
  for (const char *p = text; p < text + size; p += strlen(p) + 1) {
    if (strncmp(p, name, n) == 0 && p[n] == '=') {
      return p + n + 1;
    }
  }
  return NULL;
}

/* Whether a variable is in an environment what it is here. One that is not set here does not
 * matter. */
static bool has_same(const char *text, size_t size, const char *name) {
  const char *value = name ? get_value(name) : NULL;
  const char *there = value ? find_variable(text, size, name) : NULL;
  return !value || (there && strcmp(there, value) == 0);
}

/* Whether an environment has the numbers that the launcher has told this process. */
static bool has_numbers(const char *text, size_t size, const struct launcher *l) {
  const char *ignored;
  return has_same(text, size, l->rank) && has_same(text, size, find_set(l->size, &ignored)) &&
         has_same(text, size, find_set(l->local_rank, &ignored));
}

/* Whether a process with this environment is the one that the launcher itself has started. */
static bool was_started_by(const struct launcher *l, long pid, const char *text, size_t size) {
  const char *process = l->process ? find_variable(text, size, l->process) : NULL;
  return process && strtol(process, NULL, 10) == pid;
}

/*
 * Which of two launchers has told its numbers last: the nearest process, from this one upwards,
 * that was started with one's only was started before the other. Of one that was started with both,
 * a launcher may tell that it has started it. NULL: none is to be seen. A program may have set
 * variables itself, as Ray does: then that is this process.
 */
static const struct launcher *find_newer(const struct launcher *a, const struct launcher *b) {
  const struct launcher *newer = NULL;
  struct shard_process process;
  long pid = shard_process_self();
  for (int k = 0; k < 1000 && pid > 0 && !newer; k++) {
    size_t size = 0;
    char *text = read_environment(pid, &size);
    bool of_a = text && has_numbers(text, size, a), of_b = text && has_numbers(text, size, b);
    if (of_a && of_b && b != PYTORCH) { /* whose numbers may be meant for several steps */
      newer = was_started_by(a, pid, text, size)   ? a
              : was_started_by(b, pid, text, size) ? b
                                                   : NULL;
    } else if (of_a != of_b) {
      newer = of_a ? b : a;
    }
    free(text);
    if (!shard_process_read(pid, &process)) {
      break;
    }
    pid = process.parent;
  }
  return newer;
}

/*
 * Whether a launcher's row fits beside that of another, l, with numbers that are not copies of l's.
 * A world of one proves nothing, for MPI_Init makes one where there is no launcher; nor do ranks of
 * PyTorch's convention without LOCAL_RANK, and torchrun's are told by its own row.
 */
static bool is_other(const struct launcher *other, const struct launcher *l) {
  const char *size;
  return row_fits(other) && find_set(other->size, &size) && strcmp(size, "1") != 0 &&
         (other != PYTORCH || (get_value(other->local_rank[0]) && !row_fits(TORCHRUN))) &&
         differ(l, other);
}

static bool is_alone(const struct launcher *l) {
  const char *size;
  return find_set(l->size, &size) && strcmp(size, "1") == 0;
}

/* Whether a step of Slurm's has one task: several such steps may be one world of PyTorch's. */
static bool is_single_step(const struct launcher *l) {
  return strcmp(l->name, "Slurm") == 0 && is_alone(l);
}

/*
 * The first row that fits, but if another one's numbers are seen to be newer, that: Hydra's in a
 * task of Flux's, PyTorch's in one of Slurm's that runs DeepSpeed, mpirun's in a worker of
 * torchrun's. *unclear: PyTorch's numbers stand beside it, and nothing tells which are newer.
 */
static const struct launcher *find_launcher(bool *unclear) {
  const struct launcher *found = NULL;
  *unclear = false;
  for (const struct launcher *l = launchers; l <= PYTORCH; l++) {
    if (!found && row_fits(l)) {
      found = l;
    } else if (found && is_other(l, found)) {
      const struct launcher *newer = find_newer(found, l);
      bool one_world = !newer && l == PYTORCH && is_single_step(found);
      *unclear = !newer && l == PYTORCH && !one_world;
      found = newer == l || one_world ? l : found;
    }
  }
  return found;
}

/* Where nothing tells which numbers are the newer ones, either choice could give several ranks one
 * share: a batch script, or the shell it was sent from, may have set RANK. -EINVAL. */
static int refuse_other_ranks(const struct launcher *l, char *err, size_t size) {
  return shard_error_set(
      err, size, -EINVAL,
      "%s=%.32s (%s) and RANK=%.32s of WORLD_SIZE=%.32s are two launchers', and either may have "
      "started the other: set SHARD_RANK and SHARD_SIZE, or unset RANK, WORLD_SIZE and LOCAL_RANK "
      "if they are left from elsewhere",
      l->rank, get_value(l->rank), l->name, get_value("RANK"), get_value("WORLD_SIZE"));
}

/*
 * A task of Slurm's may have been started by PMIx's prun in a step, which tells its rank and no
 * size: Slurm's number is that of its daemon. Rank 0 may as well be a child of a task that has
 * called MPI_Init without a launcher of MPI's. 0 or -EINVAL.
 */
static int refuse_unsized(const struct launcher *l, char *err, size_t size) {
  const char *rank = get_value("PMIX_RANK");
  bool told = !rank || strcmp(rank, "0") == 0 || strcmp(l->rank, "SLURM_PROCID") != 0 ||
              strcmp(rank, get_value(l->rank)) == 0;
  return told ? 0
              : shard_error_set(err, size, -EINVAL,
                                "PMIX_RANK=%.32s and SLURM_PROCID=%.32s are two launchers', and "
                                "the first tells no size: set SHARD_RANK and SHARD_SIZE",
                                rank, get_value(l->rank));
}

/* Lightning numbers the processes that it starts by LOCAL_RANK and NODE_RANK alone: in a world of
 * one, such as an interactive step of Slurm's, each would have all files. 0 or -EINVAL. */
static int refuse_unnumbered(const struct launcher *l, char *err, size_t size) {
  const char *world = get_value("WORLD_SIZE"), *local = get_value("LOCAL_RANK");
  bool told = !is_alone(l) || get_value("RANK") || !world || !local || strcmp(world, "1") == 0;
  return told ? 0
              : shard_error_set(err, size, -EINVAL,
                                "LOCAL_RANK=%.32s and WORLD_SIZE=%.32s are set, and RANK is not: "
                                "set SHARD_RANK and SHARD_SIZE, or unset these if they are left "
                                "from elsewhere (%s=%.32s is of a world of one)",
                                local, world, l->rank, get_value(l->rank));
}

/* ---- both together ------------------------------------------------------ */

/* Whether rank and size are known, and fit. Their variables' names: for messages. 0 or -EINVAL. */
static int check_world(const struct shard_world *w, const char *rank_from, const char *size_from,
                       char *err, size_t size) {
  if (w->rank < 0) {
    return shard_error_set(err, size, -EINVAL,
                           "%s is set, but no rank is known; set SHARD_RANK too", size_from);
  }
  if (w->size < 0) {
    return shard_error_set(err, size, -EINVAL, "%s=%d is set, but %s is not; set SHARD_SIZE",
                           rank_from, w->rank, size_from ? size_from : "the world size");
  }
  if (w->size == 0) {
    return shard_error_set(err, size, -EINVAL, "%s=0: a world has at least one rank", size_from);
  }
  if (w->rank >= w->size) {
    return shard_error_set(err, size, -EINVAL, "%s=%d does not fit %s=%d: ranks go from 0 to %d",
                           rank_from, w->rank, size_from, w->size, w->size - 1);
  }
  if (w->local_size > 0 && w->local_rank >= w->local_size) {
    return shard_error_set(err, size, -EINVAL, "local rank %d does not fit local size %d (%s)",
                           w->local_rank, w->local_size, w->launcher);
  }
  return 0;
}

int shard_world_get(struct shard_world *w, char *err, size_t size) {
  int saved = errno, rc = 0;
  *w = (struct shard_world){-1, -1, -1, -1, ""};
  const char *rank_from = NULL, *size_from = NULL, *value;
  const char *own_rank = getenv("SHARD_RANK"), *own_size = getenv("SHARD_SIZE");
  bool unclear;
  const struct launcher *l = own_rank && own_size ? NULL : find_launcher(&unclear);
  if (l) {
    if (!own_rank && !own_size) {
      rc = unclear ? refuse_other_ranks(l, err, size) : 0;
      rc = rc ? rc : refuse_unsized(l, err, size);
      rc = rc ? rc : refuse_unnumbered(l, err, size);
    }
    rc = rc ? rc : read_launcher(l, w, own_rank, own_size, err, size);
    rank_from = l->rank;
    size_from = find_set(l->size, &value);
    size_from = size_from ? size_from : l->size[0];
  } else if (own_rank || own_size) {
    snprintf(w->launcher, sizeof(w->launcher), "SHARD_RANK");
  } else {
    rc = shard_error_set(
        err, size, -ENOENT,
        "no rank is known%s: start with mpirun, srun or torchrun, or set SHARD_RANK and SHARD_SIZE",
        is_batch_script() ? ", as this is Slurm's batch script and none of its tasks" : "");
  }
  if (rc == 0 && own_rank) {
    rc = parse_number(rank_from = "SHARD_RANK", own_rank, &w->rank, err, size);
  }
  if (rc == 0 && own_size) {
    rc = parse_number(size_from = "SHARD_SIZE", own_size, &w->size, err, size);
  }
  rc = rc == 0 ? check_world(w, rank_from, size_from, err, size) : rc;
  errno = saved;
  return rc;
}

/* The launcher that has given this process its rank, and *w; NULL: none has, or it is not known. */
static const struct launcher *find_ranks_launcher(struct shard_world *w) {
  char ignored[300];
  bool unclear;
  const struct launcher *l =
      shard_world_get(w, ignored, sizeof(ignored)) == 0 ? find_launcher(&unclear) : NULL;
  return l && strcmp(l->name, w->launcher) == 0 ? l : NULL;
}

/* ---- the job ------------------------------------------------------------ */

/* What all ranks of a launcher have, and the launcher has not. */
static const char *get_mark(const struct launcher *l) { return l->if_set ? l->if_set : l->rank; }

/*
 * Whether a process was started as all ranks are: with the mark, and, as a rank of the same
 * launcher may have started this one, with the same size. `unknown` if its environment cannot be
 * read.
 */
static bool has_mark(long pid, const struct launcher *l, bool unknown) {
  size_t size;
  const char *ignored;
  char *text = read_environment(pid, &size);
  bool found = text ? find_variable(text, size, get_mark(l)) &&
                          has_same(text, size, find_set(l->size, &ignored))
                    : unknown;
  free(text);
  return found;
}

/*
 * Find the nearest ancestor that was not started as the launcher's ranks are: the launcher. false:
 * there is none to be seen, and *pid is the last one that was. unknown: what counts for a process
 * whose environment cannot be read. A container's first process may be the launcher.
 */
static bool find_process(const struct launcher *l, bool unknown, long *pid,
                         unsigned long long *start) {
  struct shard_process process;
  *pid = shard_process_self();
  if (!shard_process_read(*pid, &process)) {
    return false;
  }
  *start = process.start;
  for (int k = 0; k < 1000 && process.parent > 0; k++) {
    *pid = process.parent;
    if (!shard_process_read(*pid, &process)) {
      return false;
    }
    *start = process.start;
    if (!has_mark(*pid, l, unknown)) {
      return true;
    }
  }
  return false;
}

bool shard_launcher_is_on_hosts(int64_t *since, bool *numbered) {
  int saved = errno;
  struct shard_world world;
  const struct launcher *l = find_ranks_launcher(&world);
  const char *nodes = l ? get_value(l->nodes) : NULL;
  bool several =
      l && !l->unnumbered &&
      (world.local_size > 0 ? world.local_size < world.size : nodes && strtol(nodes, NULL, 10) > 1);
  long pid;
  unsigned long long start = 0;
  if (several) {
    find_process(l, false, &pid, &start); /* Slurm's slurmstepd is root's */
    several = start > 0;
    *numbered = shard_config()->job || get_value(l->number);
    *since = shard_process_started(start);
  }
  errno = saved;
  return several;
}

/* Append a line with the variable's value, empty if it is not set. Returns the new length. */
static size_t add_value(char *buf, size_t size, size_t used, const char *name) {
  const char *value = name ? getenv(name) : NULL;
  int n = used < size ? snprintf(buf + used, size - used, "\n%s", value ? value : "") : 0;
  return n < 0 ? size : used + (size_t)n;
}

/* Append what the launcher's number and start are of: a boot of the host, and a pid namespace.
 * (This process may be in an inner one.) */
static size_t add_origin(char *buf, size_t size, size_t used, long pid) {
  char path[64];
  size_t length;
  struct stat space = {0};
  snprintf(path, sizeof(path), "/proc/%ld/ns/pid", pid);
  shard_kernel_stat(AT_FDCWD, path, &space, 0);
  char *boot = shard_file_read("/proc/sys/kernel/random/boot_id", &length);
  bool told = boot || errno == ENOENT || errno == EACCES; /* alike in all ranks */
  int n = told && used < size ? snprintf(buf + used, size - used, " %llu %.36s",
                                         (unsigned long long)space.st_ino, boot ? boot : "")
                              : -1;
  free(boot);
  return n < 0 ? size : used + (size_t)n;
}

static bool write_identity(const struct launcher *l, char *buf, size_t size) {
  long pid = 0;
  unsigned long long start = 0;
  if (l->unnumbered || (l->number && !get_value(l->number)) ||
      (!l->number && !find_process(l, true, &pid, &start))) {
    return false;
  }
  int n = snprintf(buf, size, "%s %ld %llu", l->name, pid, start);
  size_t used = n < 0 ? size : (size_t)n;
  used = pid ? add_origin(buf, size, used, pid) : used;
  used = add_value(buf, size, used, l->number);
  for (size_t i = 0; i < MOST && l->job[i]; i++) {
    used = add_value(buf, size, used, l->job[i]);
  }
  for (size_t i = 0; i < BATCH; i++) {
    /* The parts of a heterogeneous job may start one after the other. */
    bool differs = strcmp(batch[i], "SLURM_JOB_START_TIME") == 0 && get_value("SLURM_HET_SIZE");
    used = add_value(buf, size, used, differs ? NULL : batch[i]);
  }
  return used < size;
}

bool shard_launcher_job(char *buf, size_t size) {
  const char *own = shard_config()->job;
  if (own) {
    return (size_t)snprintf(buf, size, "SHARD_JOB=%s", own) < size;
  }
  int saved = errno;
  struct shard_world world;
  const struct launcher *l = find_ranks_launcher(&world);
  bool known = l && write_identity(l, buf, size);
  errno = saved;
  return known;
}

/* ---- the table, for others ---------------------------------------------- */

/* Note that `launcher` sets variable `name` (NULL: nothing to note). Returns the new count. */
static size_t note_name(struct shard_launcher_variable *out, size_t count, const char *name,
                        const char *launcher) {
  size_t i = 0;
  while (name && i < count && strcmp(out[i].name, name) != 0) {
    i++;
  }
  if (!name || i == SHARD_LAUNCHER_VARIABLES) {
    return count;
  }
  if (i == count) {
    out[count++] = (struct shard_launcher_variable){.name = name};
  }
  char *names = out[i].launchers;
  size_t used = strlen(names), room = sizeof(out[i].launchers);
  if (!strstr(names, launcher)) {
    snprintf(names + used, room - used, "%s%s", used > 0 ? ", " : "", launcher);
  }
  return count;
}

size_t shard_launcher_list(struct shard_launcher_variable out[SHARD_LAUNCHER_VARIABLES]) {
  size_t count = 0;
  for (const struct launcher *l = launchers; l < launchers + LAUNCHERS; l++) {
    const char *const one[] = {l->if_set,         l->step[0], l->rank,  l->number,
                               l->tasks_per_node, l->node,    l->nodes, l->process};
    for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++) {
      count = note_name(out, count, one[i], l->name);
    }
    for (size_t i = 0; i < MOST; i++) {
      count = note_name(out, count, l->size[i], l->name);
      count = note_name(out, count, l->local_rank[i], l->name);
      count = note_name(out, count, l->local_size[i], l->name);
      count = note_name(out, count, l->job[i], l->name);
    }
  }
  for (size_t i = 0; i < BATCH; i++) {
    count = note_name(out, count, batch[i], "batch systems");
  }
  return count;
}
