/* SPDX-License-Identifier: MIT */
/*
 * Rank and size from every launcher's environment; which of two launchers' count; and the job,
 * which ranks, their wrappers and children have in common. For these the test starts itself again
 * as launcher, rank and child. tests/launchers has real launchers.
 */
#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/process.h"
#include "cache/job.h"
#include "config/config.h"
#include "config/launcher.h"
#include "libshard.h"
#include "unit.h"

static char err[512];

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
  shard_launcher_note_start(environ); /* as if it had been started so */
  err[0] = 0;
  errno = 4242;
  int rc = shard_world_get(w, err, sizeof(err));
  assert_int_equal(errno, 4242);
  return rc;
}

/* What Slurm tells the ranks of step 0 of job 7. */
#define STEP(rank)                                                                                 \
  "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=" rank " SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=1 "   \
  "SLURM_STEP_NUM_NODES=2"

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
    {"FLUX_TASK_RANK=3 FLUX_JOB_SIZE=8 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_NNODES=2", "Flux", 3, 8, 1,
     -1},
    {"FLUX_TASK_RANK=3 FLUX_JOB_SIZE=8 FLUX_TASK_LOCAL_ID=3 FLUX_JOB_NNODES=1", "Flux", 3, 8, 3, 8},
    {"PALS_RANKID=3 PALS_SIZE=8 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2", "PALS", 3, 8, 1, 2},
    {"PALS_RANKID=3 PMI_RANK=3 PMI_SIZE=8 PALS_LOCAL_RANKID=1", "PALS", 3, 8, 1, -1},
    {"PMI_RANK=3 PMI_SIZE=8 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", "PMI", 3, 8, 1, 2},
    {"PMI_RANK=3 PMI_SIZE=8 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=2", "PMI", 3, 8, 1, 2},
    {"PMIX_RANK=3 PMIX_SIZE=8", "PMIx", 3, 8, -1, -1},
    {STEP("3"), "Slurm", 3, 8, 1, -1},
    {"PMI_RANK=3 PMI_SIZE=8 " STEP("3"), "Slurm", 3, 8, 1, -1},
    {"PMIX_RANK=3 PMIX_NAMESPACE=slurm.pmix.7.0 " STEP("3"), "Slurm", 3, 8, 1, -1},
    {"PALS_RANKID=3 PALS_APID=7.0 " STEP("3"), "Slurm", 3, 8, 1, -1},
    /* a child of a task that has called MPI_Init without a launcher of MPI's */
    {"PMIX_RANK=0 PMIX_NAMESPACE=835715073 " STEP("3"), "Slurm", 3, 8, 1, -1},
    {"RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", "PyTorch", 3, 8, 1, 2},
    /* copies of the launcher's */
    {"RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8", "Open MPI",
     3, 8, -1, -1},
    {"RANK=1 WORLD_SIZE=8 LOCAL_RANK=1 " STEP("1"), "Slurm", 1, 8, 1, -1},
    /* what is no row, beside one of several ranks */
    {"WORLD_SIZE=8 LOCAL_RANK=1 " STEP("1"), "Slurm", 1, 8, 1, -1},
    {"LOCAL_RANK=1 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8", "Open MPI", 3, 8, -1, -1},
    {"WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", "Open MPI", 0, 1, -1, -1},
    /* ours over theirs: what the launcher says of this host stays */
    {"SHARD_RANK=3 SHARD_SIZE=8 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "
     "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2",
     "SHARD_RANK", 3, 8, 0, -1},
    {"SHARD_RANK=3 SHARD_SIZE=8 RANK=junk WORLD_SIZE=-4", "SHARD_RANK", 3, 8, -1, -1},
    {"SHARD_RANK=3 SHARD_SIZE=8 RANK=1 PMI_RANK=0 PMI_SIZE=1", "SHARD_RANK", 3, 8, -1, -1},
    /* an empty value is as good as none */
    {"OMPI_COMM_WORLD_RANK= RANK=3 WORLD_SIZE=8", "PyTorch", 3, 8, -1, -1},
    {"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=", "Open MPI", 3, 8,
     -1, -1},
    /* on a host, no number is no local rank */
    {"RANK=0 WORLD_SIZE=4 LOCAL_RANK=zero", "PyTorch", 0, 4, -1, -1},
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
  refused("PMI_RANK=00000000000000000000000000000000001 PMI_SIZE=8", "PMI_RANK");
}

static void contradictions(void **state) {
  (void)state;
  refused("SHARD_RANK=8 SHARD_SIZE=8", "SHARD_RANK=8 SHARD_SIZE=8");
  refused("SHARD_RANK=0 SHARD_SIZE=0", "SHARD_SIZE=0");
  refused("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=2",
          "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=2");
  /* one of ours alone, and what it stands beside */
  refused("SHARD_RANK=0", "SHARD_RANK=0 SHARD_SIZE");
  refused("SHARD_SIZE=2", "SHARD_SIZE=2 SHARD_RANK");
  refused("SHARD_SIZE=1048576 PMI_RANK=0 PMI_SIZE=2", "SHARD_SIZE=1048576 PMI_RANK=0 PMI_SIZE=2");
  refused("SHARD_RANK=1 " STEP("3"), "SHARD_RANK=1 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8");
  /* what is no row, beside none or a world of one */
  refused("RANK=1", "RANK=1 WORLD_SIZE SHARD_RANK SHARD_SIZE unset");
  refused("WORLD_SIZE=4", "WORLD_SIZE=4 SHARD_RANK");
  refused("LOCAL_RANK=0", "LOCAL_RANK=0 SHARD_RANK");
  refused("WORLD_SIZE=4 LOCAL_RANK=2 NODE_RANK=0 PMI_RANK=0 PMI_SIZE=1", "WORLD_SIZE=4 SHARD_RANK");
  refused("LOCAL_RANK=1 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", "LOCAL_RANK=1 SHARD_RANK");
  /* numbers of two launchers of one age */
  refused("RANK=3 WORLD_SIZE=8 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2",
          "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 RANK=3 WORLD_SIZE=8 SHARD_RANK unset");
  refused("RANK=0 WORLD_SIZE=8 FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2", "FLUX_TASK_RANK=0 WORLD_SIZE=8");
  refused("RANK=0 WORLD_SIZE=8 " STEP("1"), "SLURM_PROCID=1 RANK=0 SHARD_RANK unset");
  refused("RANK=0 WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8", "RANK=0");
  refused("PMIX_RANK=5 PMIX_NAMESPACE=prterun-host-1@1 " STEP("1"), "PMIX_RANK=5 SLURM_PROCID=1");
}

static void nobody(void **state) {
  (void)state;
  static const char *const all[] = {"", "WORLD_SIZE=1", "SLURM_NTASKS=4", "TORCHELASTIC_RUN_ID=x",
                                    "OMPI_COMM_WORLD_RANK=", "OMPI_COMM_WORLD_RANK=2",
                                    /* batch scripts, of one task, too */
                                    "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4",
                                    "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=1",
                                    "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_JOB_NUM_NODES=1",
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

/* What a user is told of a world that is found. */
static void notes(void **state) {
  (void)state;
  static const struct {
    const char *environment, *words[3];
  } all[] = {
      {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", {"a world of one", "SHARD_RANK"}},
      {"SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 "
       "SLURM_ARRAY_TASK_COUNT=4",
       {"a world of one", "SHARD_RANK=$SLURM_ARRAY_TASK_ID", "SHARD_SIZE"}},
      {"SHARD_RANK=1 SHARD_SIZE=3 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2",
       {"SHARD_RANK=1 of SHARD_SIZE=3", "OMPI_COMM_WORLD_RANK=0 of OMPI_COMM_WORLD_SIZE=2"}},
      {"SHARD_RANK=0 SHARD_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2", {NULL}},
      {"SHARD_RANK=0 SHARD_SIZE=1", {NULL}},
      {"SHARD_RANK=0 SHARD_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", {NULL}},
      {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2", {NULL}},
  };
  struct shard_launcher *found = malloc(sizeof(*found));
  for (size_t i = 0; i < COUNT(all); i++) {
    clearenv();
    set(all[i].environment);
    shard_launcher_note_start(environ);
    shard_launcher_find(found);
    assert_int_equal(found->rc, 0);
    assert_int_equal(found->note[0] == 0, !all[i].words[0]);
    for (size_t k = 0; k < COUNT(all[i].words) && all[i].words[k]; k++) {
      if (!strstr(found->note, all[i].words[k])) {
        fail_msg("%s: no '%s' in '%s'", all[i].environment, all[i].words[k], found->note);
      }
    }
  }
  free(found);
}

/* ---- jobs -------------------------------------------------------------------------------------
 */

/*
 * A launcher starts RANKS ranks. Each prints its job, and is a wrapper of two more processes that
 * do so, the second with another variable of a rank, as an MPI program's child may have one.
 */
enum { RANKS = 3, TELLERS = 3 * RANKS, LINE = SHARD_JOB_SIZE + SHARD_JOB_OWNER + 3 };

static char self[4096], cache[64];

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
    char line[96];
    snprintf(line, sizeof(line), "SHARD_CACHE_DIR=%s", cache);
    variables[count++] = line;
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

/* Print this process's job, as it is inherited, and behind a blank whose files are the job's. */
static int tell_job(void) {
  struct shard_job job = {.name = ""};
  char line[LINE], owner[SHARD_JOB_OWNER];
  struct shard_launcher *found = malloc(sizeof(*found));
  shard_launcher_find(found);
  bool known = shard_job_find(found, &job);
  free(found);
  shard_job_owner(&job, owner);
  int n = known ? snprintf(line, sizeof(line), "%c%s %s\n", job.held ? 'h' : 'n', job.name, owner)
                : snprintf(line, sizeof(line), "none\n");
  return write(1, line, (size_t)n) != n;
}

/* Print the owner of the files of this process's job, and of those that are its own. */
static int tell_owners(void) {
  struct shard_job job, alone;
  char owner[SHARD_JOB_OWNER], own[SHARD_JOB_OWNER], line[2 * SHARD_JOB_OWNER];
  errno = 4242;
  if (shard_job_get(false, &job) != 0 || shard_job_get(true, &alone) != 0 || errno != 4242) {
    return 1;
  }
  shard_job_owner(&job, owner);
  shard_job_owner(&alone, own);
  int n = snprintf(line, sizeof(line), "%s %s\n", owner, own);
  return write(1, line, (size_t)n) != n;
}

/* A child that prints its job, forked only, or started anew. */
static pid_t fork_teller(bool anew) {
  pid_t pid = fork();
  if (pid == 0) {
    if (anew) {
      execl(self, self, "child", "", (char *)NULL);
    }
    _exit(tell_job());
  }
  return pid;
}

/* In one of those processes. */
static int play(const char *role, const char *inner) {
  int rc = 0;
  shard_config_init(environ);
  snprintf(cache, sizeof(cache), "%s", getenv("SHARD_CACHE_DIR"));
  if (strcmp(role, "world") == 0) {
    return tell_world();
  }
  if (strcmp(role, "owners") == 0) {
    return tell_owners();
  }
  if (strcmp(role, "setter") == 0) { /* as Ray does, and its children have it */
    set(inner);
    return tell_world() || await(start("world", "", inner, 0));
  }
  if (strcmp(role, "late") == 0) { /* a forked child lists first; then what children start */
    set(inner);
    shard_job_before_fork();
    return await(fork_teller(false)) || await(fork_teller(true)) || tell_job() ||
           await(fork_teller(true));
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
  if (tell_job() != 0) {
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
 * The launcher's or container's number; 0: there can be no containers.
 */
static pid_t run_job(const char *role, const char *outer, const char *inner, char *job,
                     size_t size) {
  pid_t pid;
  FILE *lines = start_reading(role, inner, outer, &pid);
  char line[LINE];
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
    return 0;
  }
  assert_int_equal(status, 0);
  assert_int_equal(count, TELLERS);
  return pid;
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
    {"PMI_RANK=0 PMI_SIZE=1", "PMI_RANK=0 PMI_SIZE=1 RANK=1 WORLD_SIZE=2", "PyTorch 1 of 2\n"},
    /* a world of one that anybody may have set, in a larger one */
    {OMPI, OMPI " RANK=0 WORLD_SIZE=1", "error 22\n"},
    /* a launcher where RANK has been set before */
    {RANKS9, OMPI " " RANKS9, "Open MPI 1 of 2\n"},
    {RANKS9, STEP("1") " " RANKS9, "Slurm 1 of 8\n"},
    /* nobody has seen which was first: a batch script, or the shell that it was sent from */
    {STEP("1") " " RANKS9, STEP("1") " " RANKS9, "error 22\n"},
    {"", STEP("1") " " RANKS9, "error 22\n"},
    {"", STEP("1") " " OMPI, "error 22\n"},
    /* torchrun's agent in a task, and a launcher that its worker has started */
    {STEP("1"), STEP("1") " " TORCHRUN, "torchrun 9 of 16\n"},
    {OMPI, OMPI " " TORCHRUN, "torchrun 9 of 16\n"},
    {TORCHRUN, OMPI " " TORCHRUN, "Open MPI 1 of 2\n"},
    {TORCHRUN, STEP("1") " " TORCHRUN, "Slurm 1 of 8\n"},
    /* with as many ranks, and the same one */
    {OMPI, OMPI " PMI_RANK=1 PMI_SIZE=2", "PMI 1 of 2\n"},
    /* launchers of MPI's in tasks of others */
    {"FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2",
     "FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2 PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=3", "PMI 3 of 4\n"},
    {"PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=3",
     "FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2 PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=3", "Flux 0 of 2\n"},
    {OMPI, OMPI " PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=3", "PMI 3 of 4\n"},
    {STEP("1"), STEP("1") " " OMPI, "Open MPI 1 of 2\n"},
    {OMPI, STEP("1") " " OMPI, "Slurm 1 of 8\n"},
    /* a worker that has called MPI_Init, and its children */
    {STEP("1") " " TORCHRUN, STEP("1") " " TORCHRUN " PMIX_RANK=0 PMIX_NAMESPACE=835715073",
     "error 22\n"},
    {OMPI " PMIX_NAMESPACE=a", OMPI " PMIX_NAMESPACE=a PMIX_RANK=1", "Open MPI 1 of 2\n"},
};

static void innermost_counts(void **state) {
  (void)state;
  for (size_t i = 0; i < 2 * COUNT(nested); i++) {
    const char *role = i % 2 ? "setter" : "outer", *inner = nested[i / 2].inner;
    char world[400];
    pid_t pid;
    int count = 0;
    if (i % 2 && strncmp(nested[i / 2].world, "torchrun", 8) == 0) {
      continue; /* only torchrun starts a process as its own */
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
 * that the launcher's process is all there is to tell. The first letter of a job: n; held: h.
 */
static const struct {
  const char *outer, *ranks, *next;
  char letter;
} jobs[] = {
    {"", "TORCHELASTIC_RUN_ID=none RANK=%1$d WORLD_SIZE=3 MASTER_ADDR=localhost", NULL, 'n'},
    {"RANK=0 WORLD_SIZE=1", "TORCHELASTIC_RUN_ID=none RANK=%1$d WORLD_SIZE=3", NULL, 'n'},
    {"", "TORCHELASTIC_RUN_ID=none RANK=%1$d WORLD_SIZE=3 TORCHELASTIC_RESTART_COUNT=%1$d", NULL,
     'n'},
    {"", "OMPI_COMM_WORLD_RANK=%1$d OMPI_COMM_WORLD_SIZE=3", NULL, 'n'},
    {"", "OMPI_COMM_WORLD_RANK=%1$d OMPI_COMM_WORLD_SIZE=3 TITLED=1", NULL, 'n'},
    /* started by a rank of another one of its kind */
    {"PMI_RANK=0 PMI_SIZE=1 MPI_LOCALRANKID=0", "PMI_RANK=%1$d PMI_SIZE=3 MPI_LOCALRANKID=%1$d",
     NULL, 'n'},
    {"TORCHELASTIC_RUN_ID=none RANK=0 WORLD_SIZE=2",
     "TORCHELASTIC_RUN_ID=none RANK=%1$d WORLD_SIZE=3", NULL, 'n'},
    {"SLURM_JOB_ID=7 SLURM_PROCID=0",
     "SLURM_JOB_ID=7 OMPI_COMM_WORLD_RANK=%1$d OMPI_COMM_WORLD_SIZE=3", NULL, 'n'},
    {"", "MV2_COMM_WORLD_RANK=%1$d MV2_COMM_WORLD_SIZE=3", NULL, 'n'},
    {"", "MVP_COMM_WORLD_RANK=%1$d MVP_COMM_WORLD_SIZE=3", NULL, 'n'},
    {"", "JSM_NAMESPACE_RANK=%1$d JSM_NAMESPACE_SIZE=3 LSB_JOBID=5", NULL, 'n'},
    {"", "PMI_RANK=%1$d PMI_SIZE=3", NULL, 'n'},
    {"", "FLUX_TASK_RANK=%1$d FLUX_JOB_SIZE=3 FLUX_JOB_ID=f1", NULL, 'n'},
    {"", "PMIX_RANK=%1$d PMIX_SIZE=3 PMIX_NAMESPACE=prterun-host-1@1", NULL, 'n'},
    /* hydra in a step */
    {"SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2",
     "PMI_RANK=%1$d PMI_SIZE=3 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 "
     "SLURM_STEP_NUM_TASKS=2",
     NULL, 'n'},
    /* ranks of nobody's that have one parent */
    {"", "RANK=%1$d WORLD_SIZE=3", NULL, 'h'},
    {"", "HOROVOD_RANK=%1$d HOROVOD_SIZE=3", NULL, 'h'},
    {"", "PALS_RANKID=%1$d PMI_RANK=%1$d PMI_SIZE=3 PALS_APID=a1",
     "PALS_RANKID=%1$d PMI_RANK=%1$d PMI_SIZE=3 PALS_APID=a2", 'n'},
    {"", "SLURM_PROCID=%1$d SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=7 SLURM_STEP_ID=0",
     "SLURM_PROCID=%1$d SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=7 SLURM_STEP_ID=1", 'n'},
    /* a copy is its launcher's */
    {"",
     "SLURM_PROCID=%1$d SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=7 SLURM_STEP_ID=0 RANK=%1$d "
     "WORLD_SIZE=3",
     "SLURM_PROCID=%1$d SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=8 SLURM_STEP_ID=0 RANK=%1$d "
     "WORLD_SIZE=3",
     'n'},
};

/* Without descriptors nothing can be told; later it can. A job of what was seen would be another.
 */
static void shortage(void **state) {
  (void)state;
  struct shard_world w;
  struct rlimit limit, none;
  struct shard_job job;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  none = (struct rlimit){0, limit.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  int rc = get(OMPI, &w), known = shard_job_get(false, &job), alone = shard_job_get(true, &job);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  assert_int_equal(rc, -EMFILE);
  assert_int_equal(known, -EMFILE);
  assert_int_equal(alone, -EMFILE);
  assert_int_equal(get(OMPI, &w), 0);
}

/* The start of a process that lives. */
static unsigned long long start_of(pid_t pid) {
  struct shard_process process;
  assert_true(shard_process_read(pid, &process));
  return process.start;
}

/* Whether a text is the owner of the files of a process, whose start is behind its number; 0: it is
 * not known. */
static bool is_owner(const char *text, pid_t pid, unsigned long long start) {
  char again[SHARD_JOB_OWNER];
  unsigned long long told;
  struct stat st;
  assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
  if (sscanf(text, "%*d-%llu-", &told) != 1 || (start && told != start)) {
    return false;
  }
  snprintf(again, sizeof(again), "%d-%llu-%llu", (int)pid, told, (unsigned long long)st.st_ino);
  return strcmp(text, again) == 0;
}

/* Of a job that a process tells, that none does, and that has a name; where there is no launcher,
 * and of a process alone, the process. */
static void owners(void **state) {
  (void)state;
  static const struct {
    const char *environment, *owner, *own; /* "self" and "parent": these processes */
  } all[] = {
      {"", "self", "self"},
      {"SHARD_JOB=a", "named", "self"},
      {"SHARD_JOB=1:2:3: " OMPI, "named", "self"},
      {OMPI, "parent", "self"},
      {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", "held", "self"},
      {"RANK=1 WORLD_SIZE=2", "held", "self"},
      {"SHARD_RANK=1 SHARD_SIZE=2", "held", "self"},
      {STEP("1"), "named", "self"},
  };
  for (size_t i = 0; i < COUNT(all); i++) {
    char told[2][SHARD_JOB_OWNER];
    pid_t pid;
    FILE *lines = start_reading("owners", "", all[i].environment, &pid);
    int count = fscanf(lines, "%79s %79s", told[0], told[1]);
    unsigned long long start = start_of(pid); /* nobody has waited for it */
    fclose(lines);
    assert_int_equal(await(pid), 0);
    assert_int_equal(count, 2);
    for (int k = 0; k < 2; k++) {
      const char *owner = k ? all[i].own : all[i].owner;
      if (strcmp(owner, "self") == 0     ? !is_owner(told[k], pid, start)
          : strcmp(owner, "parent") == 0 ? !is_owner(told[k], getpid(), start_of(getpid()))
                                         : strcmp(told[k], owner) != 0) {
        fail_msg("'%s' of %d: %s, not %s", all[i].environment, (int)pid, told[k], owner);
      }
    }
  }
}

/* Two launchers of the same job stand for those of two nodes. */
static void jobs_told_apart(void **state) {
  (void)state;
  char first[LINE], second[LINE], space[32], boot[37];
  struct stat st;
  FILE *id = fopen("/proc/sys/kernel/random/boot_id", "r");
  assert_true(id && fgets(boot, sizeof(boot), id) && stat("/proc/self/ns/pid", &st) == 0);
  fclose(id);
  for (char *from = boot, *to = boot; (*to = *from); from++) { /* without its dashes */
    to += *from != '-' && *from != '\n';
  }
  snprintf(space, sizeof(space), ":%llu:", (unsigned long long)st.st_ino);
  for (size_t i = 0; i < COUNT(jobs); i++) {
    pid_t pid = run_job("launcher", jobs[i].outer, jobs[i].ranks, first, sizeof(first));
    run_job("launcher", jobs[i].outer, jobs[i].ranks, second, sizeof(second));
    if (strcmp(first, "none\n") == 0 || first[0] != jobs[i].letter) {
      fail_msg("%s: %s", jobs[i].ranks, first);
    }
    char *owner = strrchr(first, ' ') + 1;
    owner[strcspn(owner, "\n")] = 0;
    if (jobs[i].letter == 'h' ? strcmp(owner, "held") != 0
        : jobs[i].next        ? strcmp(owner, "named") != 0
                              : !is_owner(owner, pid, 0)) {
      fail_msg("%s by %d: %s", jobs[i].ranks, (int)pid, owner);
    }
    strcat(owner, "\n");
    if (!jobs[i].next != (strcmp(first, second) != 0)) {
      fail_msg("%s: %s and %s", jobs[i].ranks, first, second);
    }
    /* Another container, or the host after a reboot, may have a process of that number and start.
     */
    if (!strstr(first, boot) || !jobs[i].next != (strstr(first, space) != NULL)) {
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
    char job[LINE];
    const char *role = i % 2 ? "without a /proc" : "container";
    if (!run_job(role, "", all[i / 2], job, sizeof(job))) {
      skip();
    }
    if (strcmp(job, "none\n") == 0) {
      fail_msg("%s, %s: no job", role, all[i / 2]);
    }
    /* The first process also gets the ranks that outlive a launcher: only marks tell launches
     * apart. */
    if (i % 2 == 0) {
      assert_int_equal(job[0], strstr(all[i / 2], "TORCHELASTIC") ? 'n' : 'h');
    }
  }
}

/* Ranks that were started by hand have a job each; nobody's have none. */
static void jobs_of_their_own(void **state) {
  (void)state;
  pid_t pid;
  char lines[TELLERS][LINE];
  FILE *stream = start_reading("launcher", "SHARD_RANK=%1$d SHARD_SIZE=3", "", &pid);
  int count = 0, same = 0;
  while (count < TELLERS && fgets(lines[count], sizeof(lines[count]), stream)) {
    assert_int_equal(lines[count][0], 'h');
    for (int k = 0; k < count; k++) {
      same += strcmp(lines[k], lines[count]) == 0;
    }
    count++;
  }
  fclose(stream);
  assert_int_equal(await(pid), 0);
  assert_int_equal(count, TELLERS);
  assert_int_equal(same, RANKS * 3); /* pairs among the three processes of each */
  char job[LINE];
  run_job("launcher", "", "A=1", job, sizeof(job));
  assert_string_equal(job, "none\n");
}

/* What a process has set itself is in no /proc: its job is left where its children find it, in
 * memory and in the cache. */
static void check_late(const char *started, const char *numbers) {
  char first[LINE], job[LINE];
  pid_t pid;
  FILE *stream = start_reading("late", numbers, started, &pid);
  int count = 0;
  for (; fgets(job, sizeof(job), stream); count++) {
    if (count == 0) {
      strcpy(first, job);
    }
    assert_string_equal(job, first);
  }
  fclose(stream);
  assert_int_equal(await(pid), 0);
  assert_int_equal(count, 4);
  assert_int_equal(first[0], 'h'); /* the program may number others later */
}

static void late_ranks(void **state) {
  (void)state;
  check_late("", "RANK=1 WORLD_SIZE=2");
  check_late("", "RANK=1 WORLD_SIZE=3 SHARD_RANK=1 SHARD_SIZE=2");
  check_late("TORCHELASTIC_RUN_ID=x RANK=0 WORLD_SIZE=1", "RANK=1 WORLD_SIZE=2");
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
       "SLURM_STEP_NUM_NODES=1",
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
    clearenv();
    set(all[i].environment);
    shard_launcher_note_start(environ);
    errno = 4242;
    bool several = shard_launcher_spans_hosts(&since);
    assert_int_equal(errno, 4242);
    if (several != all[i].several) {
      fail_msg("'%s': %d", all[i].environment, several);
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
  const char *name, *launcher;
  for (size_t i = 0; i < COUNT(families); i++) {
    char copy[512], *save = NULL;
    snprintf(copy, sizeof(copy), "%s", families[i].environment);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
      word[strcspn(word, "=")] = 0;
      bool found = strncmp(word, "SHARD_", 6) == 0;
      for (size_t k = 0; !found && shard_launcher_variable(k, &name, &launcher); k++) {
        found = name && strcmp(name, word) == 0;
      }
      if (!found) {
        fail_msg("%s is not listed", word);
      }
    }
  }
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where) {
  (void)st, (void)kind, (void)where;
  return remove(path);
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
      cmocka_unit_test_setup(nonsense, clean),
      cmocka_unit_test_setup(contradictions, clean),
      cmocka_unit_test_setup(nobody, clean),
      cmocka_unit_test_setup(notes, clean),
      cmocka_unit_test_setup(innermost_counts, clean),
      cmocka_unit_test_setup(shortage, clean),
      cmocka_unit_test_setup(owners, clean),
      cmocka_unit_test_setup(jobs_told_apart, clean),
      cmocka_unit_test_setup(jobs_in_containers, clean),
      cmocka_unit_test_setup(jobs_of_their_own, clean),
      cmocka_unit_test_setup(late_ranks, clean),
      cmocka_unit_test_setup(hosts_told, clean),
      cmocka_unit_test_setup(every_name_listed, clean),
  };
  strcpy(cache, "/tmp/shard_unit.XXXXXX");
  int rc = mkdtemp(cache) ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
  nftw(cache, remove_entry, 4, FTW_DEPTH | FTW_PHYS);
  return rc;
}
