/* SPDX-License-Identifier: MIT */
/*
 * Rank and size from every launcher's environment.
 * Links: config/world
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    {"FLUX_TASK_RANK=3 FLUX_JOB_SIZE=8 FLUX_TASK_LOCAL_ID=1", "Flux", 3, 8, 1, -1},
    {"PALS_RANKID=3 PALS_SIZE=8 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2", "PALS", 3, 8, 1, 2},
    {"PALS_RANKID=3 PMI_RANK=3 PMI_SIZE=8 PALS_LOCAL_RANKID=1", "PALS", 3, 8, 1, -1},
    {"PMI_RANK=3 PMI_SIZE=8 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", "PMI", 3, 8, 1, 2},
    {"PMI_RANK=3 PMI_SIZE=8 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=2", "PMI", 3, 8, 1, 2},
    {"PMIX_RANK=3 PMIX_SIZE=8", "PMIx", 3, 8, -1, -1},
    {"PMIX_RANK=3 SLURM_STEP_NUM_TASKS=8 SLURM_NTASKS=99 SLURM_LOCALID=1", "PMIx", 3, 8, 1, -1},
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
  refused("SHARD_RANK=5 PMI_RANK=0 PMI_SIZE=4", "SHARD_RANK=5 PMI_SIZE=4");
  refused("SHARD_SIZE=2 PMI_RANK=3 PMI_SIZE=4", "SHARD_SIZE=2 PMI_RANK=3");
  refused("RANK=0 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2", "local");
  refused("RANK=0 WORLD_SIZE=4 LOCAL_RANK=zero", "LOCAL_RANK zero");
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(every_family, clean),
      cmocka_unit_test_setup(slurm_nodes, clean),
      cmocka_unit_test_setup(nonsense, clean),
      cmocka_unit_test_setup(contradictions, clean),
      cmocka_unit_test_setup(half_overridden, clean),
      cmocka_unit_test_setup(overridden_nonsense, clean),
      cmocka_unit_test_setup(nobody, clean),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
