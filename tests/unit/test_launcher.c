/* SPDX-License-Identifier: MIT */
/*
 * Rank and size from every launcher's environment; and the job, which ranks, their wrappers and
 * children have in common. For that the test starts itself again as launcher, rank and child.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/launcher.h"
#include "libshard.h"
#include "unit.h"

static char err[256];

/* Every variable that is looked at must go: the test itself may run under a launcher. */
static int clean(void **state) {
  (void)state;
  clearenv();
  err[0] = 0;
  return 0;
}

/* "A=1 B=2" into the environment. A value ends at a blank. */
static void set(const char *text) {
  char copy[512], *save = NULL;
  snprintf(copy, sizeof(copy), "%s", text);
  for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    char *eq = strchr(word, '=');
    *eq = 0;
    setenv(word, eq + 1, 1);
  }
}

static int get(const char *text, struct shard_world *w) {
  clearenv();
  set(text);
  err[0] = 0;
  errno = 4242;
  int rc = shard_world_get(w, err, sizeof(err));
  assert_int_equal(errno, 4242);
  return rc;
}

/* What Slurm tells the ranks of step 0 of job 7. */
#define STEP(rank)                                                                                 \
  "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=" rank " SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=1 "   \
  "SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=4(x2)"

static const struct {
  const char *environment, *launcher;
  int rank, size, local_rank, local_size;
} families[] = {
    {"SHARD_RANK=3 SHARD_SIZE=8", "SHARD_RANK", 3, 8, -1, -1},
    {"TORCHELASTIC_RUN_ID=x RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", "torchrun", 3, 8,
     1, 2},
    {"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 "
     "OMPI_COMM_WORLD_LOCAL_SIZE=2",
     "Open MPI", 3, 8, 1, 2},
    {"MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=8 MV2_COMM_WORLD_LOCAL_RANK=1 "
     "MV2_COMM_WORLD_LOCAL_SIZE=2",
     "MVAPICH", 3, 8, 1, 2},
    {"MVP_COMM_WORLD_RANK=3 MVP_COMM_WORLD_SIZE=8 MVP_COMM_WORLD_LOCAL_RANK=1 "
     "MVP_COMM_WORLD_LOCAL_SIZE=2",
     "MVAPICH", 3, 8, 1, 2},
    {"JSM_NAMESPACE_RANK=3 JSM_NAMESPACE_SIZE=8 JSM_NAMESPACE_LOCAL_RANK=1 "
     "JSM_NAMESPACE_LOCAL_SIZE=2",
     "JSM", 3, 8, 1, 2},
    {"HOROVOD_RANK=3 HOROVOD_SIZE=8 HOROVOD_LOCAL_RANK=1 HOROVOD_LOCAL_SIZE=2", "Horovod", 3, 8, 1,
     2},
    {"HOROVOD_RANK=3 HOROVOD_SIZE=8 HOROVOD_LOCAL_RANK=1 SLURM_JOB_ID=7 SLURM_STEP_ID=0 "
     "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1",
     "Horovod", 3, 8, 1, -1},
    {"FLUX_TASK_RANK=3 FLUX_JOB_SIZE=8 FLUX_TASK_LOCAL_ID=1", "Flux", 3, 8, 1, -1},
    {"FLUX_TASK_RANK=3 FLUX_JOB_SIZE=8 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_NNODES=2", "Flux", 3, 8, 1,
     -1},
    {"FLUX_TASK_RANK=3 FLUX_JOB_SIZE=8 FLUX_TASK_LOCAL_ID=3 FLUX_JOB_NNODES=1", "Flux", 3, 8, 3, 8},
    /* a batch script of one task */
    {"SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=1", "Slurm", 0, 1, -1, -1},
    {"SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_JOB_NUM_NODES=1", "Slurm", 0, 1, -1, -1},
    {"RANK=3 WORLD_SIZE=4 LOCAL_RANK=3 SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_JOB_NUM_NODES=1",
     "PyTorch", 3, 4, 3, -1},
    {"PALS_RANKID=3 PALS_SIZE=8 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2", "PALS", 3, 8, 1, 2},
    {"PALS_RANKID=3 PMI_RANK=3 PMI_SIZE=8 PALS_LOCAL_RANKID=1", "PALS", 3, 8, 1, -1},
    {"PMI_RANK=3 PMI_SIZE=8 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", "PMI", 3, 8, 1, 2},
    {"PMI_RANK=3 PMI_SIZE=8 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=2", "PMI", 3, 8, 1, 2},
    {"PMI_RANK=3 PMI_SIZE=8 PMI_JOBID=7.0 " STEP("3"), "Slurm", 3, 8, 1, 4},
    {"PMIX_RANK=3 PMIX_NAMESPACE=slurm.pmix.7.0 " STEP("3"), "Slurm", 3, 8, 1, 4},
    {"PALS_RANKID=3 PALS_APID=7.0 " STEP("3"), "Slurm", 3, 8, 1, 4},
    /* hydra in a step: Slurm's rank is the proxy's */
    {"PMI_RANK=5 PMI_SIZE=6 MPI_LOCALRANKID=2 MPI_LOCALNRANKS=3 PMI_JOBID=7.0 " STEP("1"), "PMI", 5,
     6, 2, 3},
    {"PMI_RANK=5 PMI_SIZE=6 PMI_JOBID=6.0 " STEP("1"), "PMI", 5, 6, -1, -1},
    {"PMI_RANK=5 PMI_SIZE=6 " STEP("1"), "PMI", 5, 6, -1, -1},
    {"PMIX_RANK=3 PMIX_SIZE=8", "PMIx", 3, 8, -1, -1},
    /* a child of a task that has called MPI_Init without a launcher of MPI's */
    {"PMIX_RANK=0 PMIX_NAMESPACE=835715073 " STEP("3"), "Slurm", 3, 8, 1, 4},
    {"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 SLURM_NTASKS=16 SLURM_LOCALID=1", "Slurm", 3, 8, 1, -1},
    {"SLURM_PROCID=3 SLURM_NTASKS=8", "Slurm", 3, 8, -1, -1},
    {"SLURM_PROCID=3 SLURM_NPROCS=8", "Slurm", 3, 8, -1, -1},
    {"RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", "PyTorch", 3, 8, 1, 2},
    /* one inside another: the innermost counts */
    {"TORCHELASTIC_RUN_ID=x RANK=3 WORLD_SIZE=8 SLURM_PROCID=0 SLURM_NTASKS=2", "torchrun", 3, 8,
     -1, -1},
    {"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 SLURM_PROCID=0 SLURM_NTASKS=1", "Open MPI", 3,
     8, -1, -1},
    {"RANK=0 WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8", "Open MPI", 3, 8, -1, -1},
    /* several steps of one task each; but not what may be left from elsewhere, or is Slurm's */
    {"RANK=3 WORLD_SIZE=4 LOCAL_RANK=3 SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=1", "PyTorch", 3,
     4, 3, -1},
    {"RANK=1 WORLD_SIZE=8 LOCAL_RANK=1 " STEP("1"), "Slurm", 1, 8, 1, 4},
    {"RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 " STEP("1"), "Slurm", 1, 8, 1, 4},
    {"RANK=9 WORLD_SIZE=16 " STEP("1"), "Slurm", 1, 8, 1, 4},
    {"WORLD_SIZE=8 LOCAL_RANK=1 " STEP("1"), "Slurm", 1, 8, 1, 4},
    {"WORLD_SIZE=1 LOCAL_RANK=0 SLURM_PROCID=0 SLURM_NTASKS=1", "Slurm", 0, 1, -1, -1},
    /* ours over theirs */
    {"SHARD_RANK=3 SHARD_SIZE=8 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "
     "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2",
     "SHARD_RANK", 3, 8, -1, -1},
    {"SHARD_RANK=3 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=8", "Open MPI", 3, 8, -1, -1},
    {"SHARD_SIZE=8 SLURM_PROCID=3 SLURM_NTASKS=2", "Slurm", 3, 8, -1, -1},
    {"SHARD_RANK=3 SHARD_SIZE=8 RANK=junk WORLD_SIZE=-4", "SHARD_RANK", 3, 8, -1, -1},
    /* an empty value is as good as none */
    {"OMPI_COMM_WORLD_RANK= RANK=3 WORLD_SIZE=8", "PyTorch", 3, 8, -1, -1},
    {"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS= SLURM_NTASKS=8", "Slurm", 3, 8, -1, -1},
    /* copies of the launcher's, what proves nothing, and what is told */
    {"RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8", "Open MPI",
     3, 8, -1, -1},
    {"RANK=0 WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8", "Open MPI", 3, 8, -1, -1},
    {"RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 SHARD_RANK=5",
     "Open MPI", 5, 8, -1, -1},
    {"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=", "Open MPI", 3, 8,
     -1, -1},
};

static void every_family(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(families); i++) {
    struct shard_world w;
    int rc = get(families[i].environment, &w);
    if (rc != 0) {
      fail_msg("%s: %s", families[i].environment, err);
    }
    if (w.rank != families[i].rank || w.size != families[i].size ||
        w.local_rank != families[i].local_rank || w.local_size != families[i].local_size ||
        strcmp(w.launcher, families[i].launcher) != 0) {
      fail_msg("%s: got %d of %d, local %d of %d, %s", families[i].environment, w.rank, w.size,
               w.local_rank, w.local_size, w.launcher);
    }
  }
}

static void slurm_nodes(void **state) {
  (void)state;
  static const struct {
    const char *tasks, *node;
    int local_size;
  } all[] = {{"2(x3),1", "0", 2},         {"2(x3),1", "2", 2},     {"2(x3),1", "3", 1},
             {"2(x3),1", "4", -1},        {"4", "0", 4},           {"4", "1", -1},
             {"3,2,1", "1", 2},           {"1(x2),5(x2)", "3", 5}, {"4", "", -1},
             {"1(x1000000)", "999999", 1}};
  for (size_t i = 0; i < COUNT(all); i++) {
    struct shard_world w;
    char text[256];
    snprintf(text, sizeof(text),
             "SLURM_PROCID=3 SLURM_NTASKS=8 SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE=%s %s%s",
             all[i].tasks, all[i].node[0] ? "SLURM_NODEID=" : "", all[i].node);
    assert_int_equal(get(text, &w), 0);
    if (w.local_size != all[i].local_size) {
      fail_msg("%s on node %s: %d", all[i].tasks, all[i].node, w.local_size);
    }
  }
  /* nonsense is no answer */
  static const char *const nonsense[] = {"abc", "(x2)", ",", "-2", "2(x"};
  for (size_t i = 0; i < COUNT(nonsense); i++) {
    struct shard_world w;
    char text[256];
    snprintf(text, sizeof(text),
             "SLURM_PROCID=3 SLURM_NTASKS=8 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=%s",
             nonsense[i]);
    assert_int_equal(get(text, &w), 0);
    if (w.local_size != -1 && w.local_size != 2) {
      fail_msg("'%s' is taken as %d tasks", nonsense[i], w.local_size);
    }
  }
}

/* The message names every one of `words`. */
static void refused(const char *environment, const char *words) {
  struct shard_world w;
  int rc = get(environment, &w);
  if (rc != -EINVAL) {
    fail_msg("'%s' gave %d (%s)", environment, rc, err);
  }
  char copy[256], *save = NULL;
  snprintf(copy, sizeof(copy), "%s", words);
  for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    if (!strstr(err, word)) {
      fail_msg("'%s': no %s in: %s", environment, word, err);
    }
  }
}

static void nonsense(void **state) {
  (void)state;
  static const char *const values[] = {"x",   "-1",  "+1",          "1x",
                                       "1.5", "0x1", "99999999999", "99999999999999999999999"};
  for (size_t i = 0; i < COUNT(values); i++) {
    char text[128], want[64];
    snprintf(want, sizeof(want), "SHARD_RANK %s", values[i]);
    snprintf(text, sizeof(text), "SHARD_RANK=%s SHARD_SIZE=8", values[i]);
    refused(text, want);
    snprintf(want, sizeof(want), "SHARD_SIZE %s", values[i]);
    snprintf(text, sizeof(text), "SHARD_RANK=0 SHARD_SIZE=%s", values[i]);
    refused(text, want);
    snprintf(want, sizeof(want), "PMI_RANK %s", values[i]);
    snprintf(text, sizeof(text), "PMI_RANK=%s PMI_SIZE=8", values[i]);
    refused(text, want);
    snprintf(want, sizeof(want), "PMI_SIZE %s", values[i]);
    snprintf(text, sizeof(text), "PMI_RANK=0 PMI_SIZE=%s", values[i]);
    refused(text, want);
  }
  refused("SHARD_RANK= SHARD_SIZE=8", "SHARD_RANK");
  refused("SHARD_RANK=0 SHARD_SIZE=", "SHARD_SIZE");
}

static void contradictions(void **state) {
  (void)state;
  refused("SHARD_RANK=8 SHARD_SIZE=8", "SHARD_RANK=8 SHARD_SIZE=8");
  refused("SHARD_RANK=0 SHARD_SIZE=0", "SHARD_SIZE=0");
  refused("SHARD_RANK=0", "SHARD_RANK SHARD_SIZE");
  refused("SHARD_SIZE=2", "SHARD_SIZE SHARD_RANK");
  refused("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=2",
          "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=2");
  refused("OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE");
  refused("RANK=1", "RANK=1 WORLD_SIZE");
  /* some of a task's variables */
  refused("SLURM_JOB_ID=7 SLURM_PROCID=1 SLURM_JOB_NUM_NODES=1", "SLURM_PROCID=1 ranks");
  refused("SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_JOB_NUM_NODES=1", "SLURM_PROCID=0");
  refused("SHARD_RANK=5 PMI_RANK=0 PMI_SIZE=4", "SHARD_RANK=5 PMI_SIZE=4");
  refused("SHARD_SIZE=2 PMI_RANK=3 PMI_SIZE=4", "SHARD_SIZE=2 PMI_RANK=3");
  refused("RANK=0 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2", "local");
  refused("RANK=0 WORLD_SIZE=4 LOCAL_RANK=zero", "LOCAL_RANK zero");
  /* numbers of two launchers, and which is the inner one is not known */
  refused("RANK=3 WORLD_SIZE=8 LOCAL_RANK=3 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2",
          "OMPI_COMM_WORLD_RANK=0 RANK=3 WORLD_SIZE=8 SHARD_RANK unset");
  refused("RANK=0 WORLD_SIZE=8 LOCAL_RANK=0 FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2", "FLUX_TASK_RANK=0");
  refused("RANK=0 WORLD_SIZE=8 LOCAL_RANK=0 " STEP("1"), "SLURM_PROCID=1 RANK=0 SHARD_RANK unset");
  refused("RANK=9 WORLD_SIZE=16 LOCAL_RANK=1 " STEP("1"), "SLURM_PROCID=1 RANK=9");
  refused("WORLD_SIZE=4 LOCAL_RANK=2 NODE_RANK=0 SLURM_PROCID=0 SLURM_NTASKS=1",
          "WORLD_SIZE=4 LOCAL_RANK=2 SLURM_PROCID=0 SHARD_RANK");
  refused("PMIX_RANK=5 PMIX_NAMESPACE=prterun-host-1@1 " STEP("1"), "PMIX_RANK=5 SLURM_PROCID=1");
}

/* One of ours is set; what is wrong with the other, the launcher's, is to be named. */
static void half_overridden(void **state) {
  (void)state;
  refused("SHARD_SIZE=4 PMI_RANK=abc PMI_SIZE=4", "PMI_RANK abc");
  refused("SHARD_RANK=0 PMI_RANK=0 PMI_SIZE=abc", "PMI_SIZE abc");
}

/* What is overridden need not make sense, and does not hide what does. */
static void overridden_nonsense(void **state) {
  (void)state;
  struct shard_world w;
  assert_int_equal(get("SHARD_RANK=1 PMI_RANK=abc PMI_SIZE=4", &w), 0);
  assert_int_equal(w.rank, 1);
  assert_int_equal(w.size, 4);
}

static void nobody(void **state) {
  (void)state;
  static const char *const all[] = {"",
                                    "WORLD_SIZE=4",
                                    "SLURM_NTASKS=4",
                                    "TORCHELASTIC_RUN_ID=x",
                                    "OMPI_COMM_WORLD_RANK=",
                                    "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4",
                                    "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_HET_SIZE=2",
                                    "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_JOB_NUM_NODES=2",
                                    "PATH=/bin"};
  for (size_t i = 0; i < COUNT(all); i++) {
    struct shard_world w;
    assert_int_equal(get(all[i], &w), -ENOENT);
    assert_int_equal(w.rank, -1);
    assert_int_equal(w.size, -1);
    assert_string_equal(w.launcher, "");
    assert_non_null(strstr(err, "SHARD_RANK"));
    assert_non_null(strstr(err, "SHARD_SIZE"));
  }
}

/* ---- jobs -------------------------------------------------------------------------------------
 */

/*
 * A launcher starts RANKS ranks. Each prints its job, and is a wrapper of two more processes that
 * do so, the second with another variable of a rank, as an MPI program's child may have one.
 */
enum { RANKS = 3, TELLERS = 3 * RANKS };

static char self[4096];

/* Start this test in a role with the environment "A=1 B=2", %1$d being `rank`, and %2$d its pid. */
static pid_t start(const char *role, const char *inner, const char *environment, int rank) {
  char text[1024], *variables[32], *save = NULL;
  size_t count = 0;
  pid_t pid = fork();
  if (pid == 0) {
    snprintf(text, sizeof(text), environment, rank, (int)getpid());
    for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
      variables[count++] = word;
    }
    variables[count] = NULL;
    execve(self, (char *[]){self, (char *)role, (char *)inner, NULL}, variables);
    _exit(126);
  }
  return pid;
}

static int await(pid_t pid) {
  int status;
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

/* Print which world this process finds. */
static int tell_world(void) {
  struct shard_world w;
  char line[400];
  int rc = shard_world_get(&w, err, sizeof(err));
  int n = rc ? snprintf(line, sizeof(line), "error %d\n", -rc)
             : snprintf(line, sizeof(line), "%s %d of %d\n", w.launcher, w.rank, w.size);
  return write(1, line, (size_t)n) != n;
}

/* Write a title over arguments and environment, as setproctitle(3) does. */
static void write_title(void) {
  extern char **environ;
  size_t count = 0;
  while (environ[count]) {
    count++;
  }
  char *begin = environ[0], *end = environ[count - 1] + strlen(environ[count - 1]) + 1;
  char **copies = calloc(count + 1, sizeof(*copies));
  for (size_t i = 0; copies && i < count; i++) {
    copies[i] = strdup(environ[i]);
  }
  environ = copies;
  memset(begin, 0, (size_t)(end - begin));
  strcpy(begin, "le");
}

#define NO_NAMESPACES 77 /* exit status: this user may make none */

/* Let what this process starts next be the first process of a container. 0 or NO_NAMESPACES. */
static int enter_container(void) {
  bool made = unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 ||
              unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) == 0;
  return made && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 ? 0 : NO_NAMESPACES;
}

/* A container whose first process is the launcher; own_proc: it has a /proc of its own. */
static int contain(const char *inner, bool own_proc) {
  int rc = enter_container(), status = NO_NAMESPACES << 8;
  pid_t pid = rc ? -1 : fork();
  if (pid == 0) {
    if (own_proc && mount("proc", "/proc", "proc", 0, NULL) != 0) {
      _exit(NO_NAMESPACES);
    }
    execl(self, self, "launcher", inner, (char *)NULL);
    _exit(126);
  }
  return pid > 0 && waitpid(pid, &status, 0) < 0 ? 1 : WEXITSTATUS(status);
}

/* In one of those processes. */
static int play(const char *role, const char *inner) {
  char job[SHARD_LAUNCHER_JOB_SIZE], line[SHARD_LAUNCHER_JOB_SIZE + 1];
  int rc = 0;
  if (strcmp(role, "world") == 0) {
    return tell_world();
  }
  if (strcmp(role, "setter") == 0) { /* as Ray does, and its children have it */
    set(inner);
    return tell_world() || await(start("world", "", inner, 0));
  }
  if (strcmp(role, "outer") == 0) {
    return await(start("world", "", inner, 0));
  }
  if (strcmp(role, "container") == 0 || strcmp(role, "without a /proc") == 0) {
    return contain(inner, strcmp(role, "container") == 0);
  }
  if (strcmp(role, "launcher") == 0) {
    pid_t pids[RANKS];
    for (int i = 0; i < RANKS; i++) {
      pids[i] = start("rank", inner, inner, i);
    }
    for (int i = 0; i < RANKS; i++) {
      rc |= await(pids[i]);
    }
    return rc;
  }
  if (!shard_launcher_job(job, sizeof(job))) {
    strcpy(job, "none");
  }
  for (char *p = job; *p; p++) {
    *p = *p == '\n' ? '|' : *p;
  }
  int n = snprintf(line, sizeof(line), "%s\n", job);
  if (write(1, line, (size_t)n) != n) {
    return 1;
  }
  if (strcmp(role, "rank") == 0) {
    if (getenv("TITLED")) {
      write_title();
    }
    for (int i = 0; i < 2; i++) {
      pid_t pid = fork();
      if (pid == 0) {
        if (i == 1 && getenv("TORCHELASTIC_RUN_ID")) { /* there is no mpirun: MPI_Init sets these */
          setenv("PMIX_RANK", "0", 0);
          setenv("PMIX_NAMESPACE", "singleton.99", 0);
        }
        if (getenv("NESTED") && unshare(CLONE_NEWPID) == 0 && (pid = fork()) != 0) {
          _exit(await(pid));
        }
        execl(self, self, "child", "", (char *)NULL);
        _exit(126);
      }
      rc |= await(pid);
    }
  }
  return rc;
}

/* Start this test in a role, and read what it prints. */
static FILE *start_reading(const char *role, const char *inner, const char *outer, pid_t *pid) {
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  fflush(NULL);
  int out = dup(1);
  dup2(pipes[1], 1);
  *pid = start(role, inner, outer, 0);
  dup2(out, 1);
  close(out);
  close(pipes[1]);
  return fdopen(pipes[0], "r");
}

/*
 * The job of all that one launcher, or a container of it, starts, in job[size]: "none" or a line.
 * false: there can be no containers.
 */
static bool run_job(const char *role, const char *outer, const char *inner, char *job,
                    size_t size) {
  pid_t pid;
  FILE *lines = start_reading(role, inner, outer, &pid);
  char line[SHARD_LAUNCHER_JOB_SIZE + 1];
  int count = 0, status;
  while (fgets(line, sizeof(line), lines)) {
    if (count++ == 0) {
      snprintf(job, size, "%s", line);
    } else if (strcmp(line, job) != 0) {
      fail_msg("%s: two jobs, %s and %s", inner, job, line);
    }
  }
  fclose(lines);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == NO_NAMESPACES) {
    return false;
  }
  assert_int_equal(status, 0);
  assert_int_equal(count, TELLERS);
  return true;
}

#define OMPI "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1"
#define TORCHRUN "TORCHELASTIC_RUN_ID=x RANK=9 WORLD_SIZE=16 LOCAL_RANK=1"
#define RANKS9 "RANK=9 WORLD_SIZE=16 LOCAL_RANK=1"

/* What a process has, what one that it starts has, and which world the latter finds. */
static const struct {
  const char *outer, *inner, *world;
} nested[] = {
    /* DeepSpeed's ranks in a launcher's task */
    {STEP("1"), STEP("1") " " RANKS9, "PyTorch 9 of 16\n"},
    {STEP("1"), STEP("1") " RANK=0 WORLD_SIZE=8 LOCAL_RANK=0", "PyTorch 0 of 8\n"},
    {STEP("1") " PMI_RANK=1 PMI_SIZE=8 PMI_JOBID=7.0",
     STEP("1") " PMI_RANK=1 PMI_SIZE=8 PMI_JOBID=7.0 " RANKS9, "PyTorch 9 of 16\n"},
    {OMPI, OMPI " " RANKS9, "PyTorch 9 of 16\n"},
    {"FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2", "FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2 " RANKS9,
     "PyTorch 9 of 16\n"},
    /* in a pod that has numbers of its own */
    {OMPI " RANK=0 WORLD_SIZE=2", OMPI " RANK=0 WORLD_SIZE=2 LOCAL_RANK=0", "PyTorch 0 of 2\n"},
    /* a launcher where RANK has been set before */
    {RANKS9, OMPI " " RANKS9, "Open MPI 1 of 2\n"},
    {RANKS9, STEP("1") " " RANKS9, "Slurm 1 of 8\n"},
    /* nobody has seen which was first: a batch script, or the shell that it was sent from */
    {STEP("1") " " RANKS9, STEP("1") " " RANKS9, "error 22\n"},
    {STEP("1") " RANK=0 WORLD_SIZE=8 LOCAL_RANK=0", STEP("1") " RANK=0 WORLD_SIZE=8 LOCAL_RANK=0",
     "error 22\n"},
    {"", STEP("1") " " RANKS9, "error 22\n"},
    /* torchrun's agent in a task, and a launcher that its worker has started */
    {STEP("1"), STEP("1") " " TORCHRUN, "torchrun 9 of 16\n"},
    {OMPI, OMPI " " TORCHRUN, "torchrun 9 of 16\n"},
    {"", OMPI " " TORCHRUN, "torchrun 9 of 16\n"},
    {TORCHRUN, OMPI " " TORCHRUN, "Open MPI 1 of 2\n"},
    {TORCHRUN, STEP("1") " " TORCHRUN, "Slurm 1 of 8\n"},
    /* launchers of MPI's in tasks of others */
    {"FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2",
     "FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2 PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=3", "PMI 3 of 4\n"},
    {"PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=3",
     "FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2 PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=3", "Flux 0 of 2\n"},
    {OMPI, OMPI " PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=3", "PMI 3 of 4\n"},
    {STEP("1"), STEP("1") " " OMPI, "Open MPI 1 of 2\n"},
    {"", STEP("1") " " OMPI, "Open MPI 1 of 2\n"},
    {OMPI, STEP("1") " " OMPI, "Slurm 1 of 8\n"},
    /* a task that Slurm has started itself: a rank, which is not above it, has called srun */
    {"", STEP("1") " " OMPI " SLURM_TASK_PID=%2$d", "Slurm 1 of 8\n"},
    {"", STEP("1") " OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 SLURM_TASK_PID=%2$d",
     "Slurm 1 of 8\n"},
    {"", STEP("1") " " TORCHRUN " SLURM_TASK_PID=%2$d", "Slurm 1 of 8\n"},
    {"", STEP("1") " " OMPI " SLURM_TASK_PID=1", "Open MPI 1 of 2\n"},
    {"", STEP("1") " " RANKS9 " SLURM_TASK_PID=%2$d", "error 22\n"},
    /* but no worker that has called MPI_Init, and its children */
    {STEP("1") " " TORCHRUN, STEP("1") " " TORCHRUN " PMIX_RANK=0 PMIX_NAMESPACE=835715073",
     "torchrun 9 of 16\n"},
    {TORCHRUN, TORCHRUN " PMI_RANK=0 PMI_SIZE=1", "torchrun 9 of 16\n"},
};

static void innermost_counts(void **state) {
  (void)state;
  for (size_t i = 0; i < 2 * COUNT(nested); i++) {
    const char *role = i % 2 ? "setter" : "outer", *inner = nested[i / 2].inner;
    char world[SHARD_LAUNCHER_JOB_SIZE];
    pid_t pid;
    int count = 0;
    if (i % 2 && strstr(inner, "%2$d")) {
      continue; /* only who starts a process sets its number */
    }
    FILE *lines = start_reading(role, inner, nested[i / 2].outer, &pid);
    for (; fgets(world, sizeof(world), lines); count++) {
      if (strcmp(world, nested[i / 2].world) != 0) {
        fail_msg("%s: %s, in %s: %s", role, inner, nested[i / 2].outer, world);
      }
    }
    fclose(lines);
    assert_int_equal(await(pid), 0);
    assert_int_equal(count, 1 + i % 2);
  }
}

/*
 * What a launcher and its ranks have. next: what the ranks of the next job have; NULL: the same, so
 * that the launcher's process is all there is to tell.
 */
static const struct {
  const char *outer, *ranks, *next;
} jobs[] = {
    {"", "TORCHELASTIC_RUN_ID=none RANK=%1$d WORLD_SIZE=3 MASTER_ADDR=localhost", NULL},
    {"RANK=0 WORLD_SIZE=1", "TORCHELASTIC_RUN_ID=none RANK=%1$d WORLD_SIZE=3", NULL},
    /* after a restart an agent counts those for which its own workers were the reason */
    {"", "TORCHELASTIC_RUN_ID=none RANK=%1$d WORLD_SIZE=3 TORCHELASTIC_RESTART_COUNT=%1$d", NULL},
    {"", "OMPI_COMM_WORLD_RANK=%1$d OMPI_COMM_WORLD_SIZE=3", NULL},
    {"", "OMPI_COMM_WORLD_RANK=%1$d OMPI_COMM_WORLD_SIZE=3 TITLED=1", NULL},
    /* started by a rank of another one of its kind */
    {"PMI_RANK=0 PMI_SIZE=1 MPI_LOCALRANKID=0", "PMI_RANK=%1$d PMI_SIZE=3 MPI_LOCALRANKID=%1$d",
     NULL},
    {"TORCHELASTIC_RUN_ID=none RANK=0 WORLD_SIZE=2",
     "TORCHELASTIC_RUN_ID=none RANK=%1$d WORLD_SIZE=3", NULL},
    {"SLURM_JOB_ID=7 SLURM_PROCID=0",
     "SLURM_JOB_ID=7 OMPI_COMM_WORLD_RANK=%1$d OMPI_COMM_WORLD_SIZE=3", NULL},
    {"", "MV2_COMM_WORLD_RANK=%1$d MV2_COMM_WORLD_SIZE=3", NULL},
    {"", "MVP_COMM_WORLD_RANK=%1$d MVP_COMM_WORLD_SIZE=3", NULL},
    {"", "JSM_NAMESPACE_RANK=%1$d JSM_NAMESPACE_SIZE=3 LSB_JOBID=5", NULL},
    {"", "PMI_RANK=%1$d PMI_SIZE=3", NULL},
    {"", "PMI_RANK=%1$d PMI_SIZE=3 MPI_LOCALRANKID=%1$d", NULL},
    /* hydra in a step: its proxy has Slurm's PMI_RANK */
    {"PMI_RANK=0 PMI_SIZE=2 PMI_JOBID=7.0 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0",
     "PMI_RANK=%1$d PMI_SIZE=3 MPI_LOCALRANKID=%1$d PMI_JOBID=7.0 SLURM_JOB_ID=7 SLURM_STEP_ID=0 "
     "SLURM_PROCID=0",
     NULL},
    {"", "PMIX_RANK=%1$d PMIX_SIZE=3 PMIX_NAMESPACE=prterun-host-1@1", NULL},
    {"", "FLUX_TASK_RANK=%1$d FLUX_JOB_SIZE=3 FLUX_JOB_ID=f1",
     "FLUX_TASK_RANK=%1$d FLUX_JOB_SIZE=3 FLUX_JOB_ID=f2"},
    /* the first ones of two batch jobs */
    {"", "FLUX_TASK_RANK=%1$d FLUX_JOB_SIZE=3 FLUX_JOB_ID=f1 FLUX_ENCLOSING_ID=f3",
     "FLUX_TASK_RANK=%1$d FLUX_JOB_SIZE=3 FLUX_JOB_ID=f1 FLUX_ENCLOSING_ID=f4"},
    {"", "PALS_RANKID=%1$d PMI_RANK=%1$d PMI_SIZE=3 PALS_APID=a1 PBS_JOBID=7",
     "PALS_RANKID=%1$d PMI_RANK=%1$d PMI_SIZE=3 PALS_APID=a2 PBS_JOBID=7"},
    {"",
     "SLURM_PROCID=%1$d SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=7 SLURM_STEP_ID=0 "
     "SLURM_JOB_START_TIME=1700000000",
     "SLURM_PROCID=%1$d SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=7 SLURM_STEP_ID=0 "
     "SLURM_JOB_START_TIME=1800000000"},
    {"", "SLURM_PROCID=%1$d SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=7 SLURM_STEP_ID=0",
     "SLURM_PROCID=%1$d SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=7 SLURM_STEP_ID=1"},
    /* two clusters with one cache */
    {"",
     "SLURM_PROCID=%1$d SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=7 SLURM_STEP_ID=0 "
     "SLURM_CLUSTER_NAME=a",
     "SLURM_PROCID=%1$d SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=7 SLURM_STEP_ID=0 "
     "SLURM_CLUSTER_NAME=b"},
    {"",
     "SLURM_PROCID=%1$d SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=7 SLURM_STEP_ID=0 PMI_RANK=%1$d "
     "PMI_SIZE=3 PMI_JOBID=7.0",
     "SLURM_PROCID=%1$d SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=7 SLURM_STEP_ID=1 PMI_RANK=%1$d "
     "PMI_SIZE=3 PMI_JOBID=7.1"},
    {"",
     "SLURM_PROCID=%1$d SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=7 SLURM_STEP_ID=0 PMIX_RANK=%1$d "
     "PMIX_NAMESPACE=slurm.pmix.7.0",
     "SLURM_PROCID=%1$d SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=8 SLURM_STEP_ID=0 PMIX_RANK=%1$d "
     "PMIX_NAMESPACE=slurm.pmix.8.0"},
};

/* Two launchers of the same job stand for those of two nodes. */
static void jobs_told_apart(void **state) {
  (void)state;
  char first[SHARD_LAUNCHER_JOB_SIZE + 1], second[SHARD_LAUNCHER_JOB_SIZE + 1], space[32], boot[37];
  struct stat st;
  FILE *id = fopen("/proc/sys/kernel/random/boot_id", "r");
  assert_true(id && fgets(boot, sizeof(boot), id) && stat("/proc/self/ns/pid", &st) == 0);
  fclose(id);
  snprintf(space, sizeof(space), " %llu ", (unsigned long long)st.st_ino);
  for (size_t i = 0; i < COUNT(jobs); i++) {
    run_job("launcher", jobs[i].outer, jobs[i].ranks, first, sizeof(first));
    run_job("launcher", jobs[i].outer, jobs[i].ranks, second, sizeof(second));
    if (strcmp(first, "none\n") == 0) {
      fail_msg("%s: no job", jobs[i].ranks);
    }
    if (!jobs[i].next != (strcmp(first, second) != 0)) {
      fail_msg("%s: %s and %s", jobs[i].ranks, first, second);
    }
    /* Another container, or the host after a reboot, may have a process of that number and start;
     * but a number of the launcher's own is the same on all nodes. */
    if (!jobs[i].next != (strstr(first, space) && strstr(first, boot))) {
      fail_msg("%s: %s", jobs[i].ranks, first);
    }
    if (jobs[i].next) {
      run_job("launcher", jobs[i].outer, jobs[i].next, second, sizeof(second));
      assert_string_not_equal(first, second);
    }
  }
}

/* A launcher may be a container's first process. */
static void jobs_in_containers(void **state) {
  (void)state;
  static const char *const all[] = {"OMPI_COMM_WORLD_RANK=%1$d OMPI_COMM_WORLD_SIZE=3",
                                    "OMPI_COMM_WORLD_RANK=%1$d OMPI_COMM_WORLD_SIZE=3 NESTED=1",
                                    "TORCHELASTIC_RUN_ID=none RANK=%1$d WORLD_SIZE=3"};
  for (size_t i = 0; i < 2 * COUNT(all); i++) {
    char job[SHARD_LAUNCHER_JOB_SIZE + 1];
    const char *role = i % 2 ? "without a /proc" : "container";
    if (!run_job(role, "", all[i / 2], job, sizeof(job))) {
      skip();
    }
    if (strcmp(job, "none\n") == 0) {
      fail_msg("%s, %s: no job", role, all[i / 2]);
    }
  }
}

/* What does not tell a job from the next one is none. */
static void jobs_unknown(void **state) {
  (void)state;
  static const char *const all[] = {
      "", "RANK=%1$d WORLD_SIZE=3", "SLURM_PROCID=%1$d SLURM_NTASKS=3",
      "FLUX_TASK_RANK=%1$d FLUX_JOB_SIZE=3", "SHARD_RANK=%1$d SHARD_SIZE=3"};
  for (size_t i = 0; i < COUNT(all); i++) {
    char job[SHARD_LAUNCHER_JOB_SIZE + 1];
    run_job("launcher", "", all[i], job, sizeof(job));
    assert_string_equal(job, "none\n");
  }
}

/* A job of several hosts, and when it started on this one. */
static void hosts_told(void **state) {
  (void)state;
  static const struct {
    const char *environment;
    bool several;
  } all[] = {
      {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2", true},
      {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=4", false},
      {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4", false},
      {"TORCHELASTIC_RUN_ID=x RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2", true},
      {"PMI_RANK=0 PMI_SIZE=4 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2", true},
      {STEP("3"), true},
      {"SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 SLURM_NODEID=0 "
       "SLURM_STEP_TASKS_PER_NODE=4",
       false},
      {"FLUX_TASK_RANK=3 FLUX_JOB_SIZE=8 FLUX_JOB_ID=f1 FLUX_JOB_NNODES=2", true},
      {"FLUX_TASK_RANK=3 FLUX_JOB_SIZE=8 FLUX_JOB_ID=f1 FLUX_JOB_NNODES=1", false},
      {"FLUX_TASK_RANK=3 FLUX_JOB_SIZE=8 FLUX_JOB_ID=f1", false},
      /* nothing tells when it started */
      {"RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2", false},
      {"SHARD_RANK=0 SHARD_SIZE=4", false},
      {"", false},
  };
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  for (size_t i = 0; i < COUNT(all); i++) {
    int64_t since = -1;
    bool numbered = false;
    clearenv();
    set(all[i].environment);
    errno = 4242;
    bool several = shard_launcher_is_on_hosts(&since, &numbered);
    assert_int_equal(errno, 4242);
    if (several != all[i].several) {
      fail_msg("'%s': %d", all[i].environment, several);
    }
    bool number = getenv("SLURM_JOB_ID") || getenv("FLUX_JOB_ID");
    if (several && numbered != number) {
      fail_msg("'%s': numbered %d", all[i].environment, numbered);
    }
    /* The test's parent was started without the variables: a while ago, and after 2020. */
    int64_t most = now.tv_sec * 1000000000LL + now.tv_nsec + 1000000000LL;
    if (several && (since > most || since < 1577836800LL * 1000000000LL)) {
      fail_msg("'%s': since %lld", all[i].environment, (long long)since);
    }
  }
}

/* Tests unset what is listed: each name that a case here sets. */
static void every_name_listed(void **state) {
  (void)state;
  struct shard_launcher_variable list[SHARD_LAUNCHER_VARIABLES];
  size_t count = shard_launcher_list(list);
  assert_true(count > 40 && count < SHARD_LAUNCHER_VARIABLES);
  for (size_t i = 0; i < COUNT(families); i++) {
    char copy[512], *save = NULL;
    snprintf(copy, sizeof(copy), "%s", families[i].environment);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
      word[strcspn(word, "=")] = 0;
      bool found = strncmp(word, "SHARD_", 6) == 0;
      for (size_t k = 0; k < count && !found; k++) {
        found = strcmp(list[k].name, word) == 0;
      }
      if (!found) {
        fail_msg("%s is not listed", word);
      }
    }
  }
}

int main(int argc, char **argv) {
  ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (n < 0 || argc > 2) {
    int rc = n < 0 ? 1 : play(argv[1], argv[2]);
    fflush(stdout);
    _exit(rc); /* LeakSanitizer fails where /proc has another pid namespace's numbers */
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(every_family, clean),
      cmocka_unit_test_setup(slurm_nodes, clean),
      cmocka_unit_test_setup(nonsense, clean),
      cmocka_unit_test_setup(contradictions, clean),
      cmocka_unit_test_setup(half_overridden, clean),
      cmocka_unit_test_setup(overridden_nonsense, clean),
      cmocka_unit_test_setup(nobody, clean),
      cmocka_unit_test_setup(innermost_counts, clean),
      cmocka_unit_test_setup(jobs_told_apart, clean),
      cmocka_unit_test_setup(jobs_in_containers, clean),
      cmocka_unit_test_setup(jobs_unknown, clean),
      cmocka_unit_test_setup(hosts_told, clean),
      cmocka_unit_test_setup(every_name_listed, clean),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
