/* SPDX-License-Identifier: MIT */
/*
 * launcher.c - walks over the ancestors once, to find which launcher's rank and size count.
 *
 * A row is one launcher's rank and size, both set and not empty. The row's age is the number of
 * processes, from this one upwards, that were started with the row's rank, size and launch id; at
 * age 0 this process has set the variables itself. The youngest row counts, because the inner
 * launcher has set it. Rows of the same age must agree: nothing tells which of them is meant.
 *
 * The walk skips a process that is not dumpable, or that has overwritten its environment (a process
 * title; Intel's MPI_Init cuts a value in two): such a process is a rank, not the launcher. The
 * walk ends at another user's process, outside our user namespace, at a hidden process, and at the
 * top.
 */
#include "config/launcher.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/process.h"
#include "base/size.h"
#include "base/xxh64.h"
#include "config/config.h"

#define VALUES 5 /* of a row: rank, size and the parts of the launch id */

/* ---- the table ---------------------------------------------------------- */

static const struct entry {
  const char *name;
  const char *values[VALUES];
  const char *size; /* the size's variable where values[1] is not set */
  enum shard_launcher_kind kind;
  bool started; /* the row counts only if this process was started with values[2] */
  const char *local_rank[2], *local_size[2], *nodes; /* nodes: the number of the job's nodes */
} entries[] = {
#include "config/launchers.def"
};

#define ENTRIES (sizeof(entries) / sizeof(entries[0]))
#define TORCHRUN 0
#define PYTORCH (ENTRIES - 2)
#define OWN (ENTRIES - 1)
_Static_assert(ENTRIES <= SHARD_LAUNCHER_ROWS, "a row for each entry");

/* Returns the value of a variable that is set and not empty, else NULL. */
static const char *get_value(const char *name) {
  const char *value = name ? getenv(name) : NULL;
  return value && *value ? value : NULL;
}

/* Returns the variable of an entry's value k; for the size, the variable that is set. */
static const char *name_at(const struct entry *e, size_t k) {
  return k == 1 && e->size && !get_value(e->values[1]) ? e->size : e->values[k];
}

/* Returns how many values must be equal in one launch: PyTorch's MASTER_PORT may be set later.
 */
static size_t count_values(const struct entry *e) {
  return e->kind == SHARD_LAUNCHER_ANYBODY ? 2 : VALUES;
}

/* What this process was started with: a hash of each entry's values and, last, of the entry's other
 * variable for the size; 0: not set. */
static uint64_t at_start[ENTRIES][VALUES + 1];

static uint64_t hash_of(const char *value) { return shard_xxh64(value, strlen(value), 0) | 1; }

void shard_launcher_note_start(char *const *environment) {
  memset(at_start, 0, sizeof(at_start));
  for (char *const *e = environment; e && *e; e++) {
    const char *equals = strchr(*e, '=');
    size_t n = equals ? (size_t)(equals - *e) : 0;
    for (size_t i = 0; n > 0 && i < ENTRIES; i++) {
      for (size_t k = 0; k <= VALUES; k++) {
        const char *name = k < VALUES ? entries[i].values[k] : entries[i].size;
        if (name && name[0] == **e && strncmp(name, *e, n) == 0 && !name[n]) {
          at_start[i][k] = hash_of(equals + 1);
        }
      }
    }
  }
}

/* Returns whether a process was started with the row's present values. text: the environment that
 * the process was started with; NULL: this process. */
static bool was_started_with(size_t i, const char *text, size_t size) {
  const struct entry *e = &entries[i];
  bool same = true;
  for (size_t k = 0; k < count_values(e) && same; k++) {
    const char *name = name_at(e, k), *value = get_value(name);
    const char *there = value && text ? shard_process_variable(text, size, name) : NULL;
    same = !value || (text ? there && strcmp(there, value) == 0
                           : at_start[i][name == e->size ? VALUES : k] == hash_of(value));
  }
  return same;
}

/* Returns whether an entry's rank and size are set. */
static bool row_is_set(size_t i) {
  const struct entry *e = &entries[i];
  /* RANK and WORLD_SIZE belong to torchrun's entry, or else to PyTorch's. */
  return get_value(e->values[0]) && get_value(name_at(e, 1)) &&
         (!e->started || (at_start[i][2] && get_value(e->values[2]))) &&
         (i != PYTORCH || !row_is_set(TORCHRUN));
}

bool shard_launcher_was_set_late(void) {
  for (size_t i = 0; i < ENTRIES; i++) {
    if (row_is_set(i) && !was_started_with(i, NULL, 0)) {
      return true;
    }
  }
  return false;
}

/* ---- the walk over the ancestors ---------------------------------------- */

/* The state of a walk. */
struct ancestor_walk {
  size_t entry_of[SHARD_LAUNCHER_ROWS]; /* each row's index in the table */
  bool ended[SHARD_LAUNCHER_ROWS];      /* the walk has ended for the row */
  long user;                            /* of this process */
  bool in_user_namespace;
};

/* Compares a process, this one (self) or an ancestor, with the rows. Returns whether the walk goes
 * on for any row. */
static bool visit_process(struct shard_launcher *out, struct ancestor_walk *w,
                          struct shard_launcher_process *at, long user, bool self) {
  size_t size = 0;
  bool whole = false, goes_on = false;
  char *text = self || user != w->user ? NULL : shard_process_environment(at->pid, &size, &whole);
  for (size_t i = 0; i < out->count; i++) {
    struct shard_launcher_row *row = &out->rows[i];
    if (w->ended[i]) {
      continue;
    }
    if (user != w->user) {
      w->ended[i] = true;
    } else if ((self || text) && was_started_with(w->entry_of[i], text, size)) {
      row->age++;
      row->highest = *at;
      at->started |= row->bit;
    } else if (self) {
      row->highest = *at;
    } else {
      row->above_differs = whole;
      w->ended[i] = whole || (!text && w->in_user_namespace);
    }
    row->above = *at;
    goes_on |= !w->ended[i];
  }
  free(text);
  return goes_on;
}

/* Returns whether /proc is unreadable for an unexpected reason, so that the walk may have missed a
 * process. A file that is missing, or that this user may not read, is expected. */
static bool is_fault(int error) {
  return error != 0 && error != ENOENT && error != ESRCH && error != EACCES && error != EPERM;
}

static void walk_ancestors(struct shard_launcher *out, struct ancestor_walk *w) {
  struct shard_process process = {.user = -1};
  errno = 0;
  long pid = shard_process_own_pid(); /* not getpid(): /proc may be of an outer PID namespace */
  w->in_user_namespace = shard_process_in_user_namespace();
  for (int k = 0; k < 1000 && pid > 0 && !is_fault(errno); k++) {
    struct shard_launcher_process at = {.pid = pid};
    bool seen = shard_process_read(pid, &process);
    at.start = seen ? process.start : 0;
    w->user = k == 0 ? process.user : w->user;
    bool goes_on = visit_process(out, w, &at, seen ? process.user : -1, k == 0);
    if (out->ancestor_count < SHARD_LAUNCHER_ANCESTORS) {
      out->ancestors[out->ancestor_count++] = at;
    }
    pid = goes_on && seen ? process.parent : 0;
  }
  out->rc = is_fault(errno) ? -errno : 0;
}

/* ---- the rows ----------------------------------------------------------- */

static int read_local(const char *const names[2]) {
  uint64_t number;
  const char *value = get_value(names[0]);
  value = value ? value : get_value(names[1]);
  return value && shard_number_parse(value, 0, INT_MAX, &number) ? (int)number : -1;
}

/* Copies a number that fits; cut off, it would be another number. */
static void copy_number(const char *name, char number[24]) {
  const char *value = get_value(name);
  snprintf(number, 24, "%s", strlen(value) < 24 ? value : "(too long)");
}

static void fill_row(const struct entry *e, struct shard_launcher_row *row) {
  *row = (struct shard_launcher_row){.launcher = e->name,
                                     .names = {e->values[0], name_at(e, 1)},
                                     .kind = e->kind,
                                     .bit = 1U << (e - entries),
                                     .local_rank = read_local(e->local_rank),
                                     .local_size = read_local(e->local_size)};
  uint64_t nodes = 0;
  bool counted = e->nodes && get_value(e->nodes) &&
                 shard_number_parse(get_value(e->nodes), 0, INT_MAX, &nodes);
  copy_number(row->names[0], row->rank);
  copy_number(row->names[1], row->size);
  for (size_t k = 2, used = 0; k < VALUES && used < sizeof(row->launch_id); k++) {
    const char *value = get_value(e->values[k]);
    used +=
        value ? (size_t)snprintf(row->launch_id + used, sizeof(row->launch_id) - used, ":%s", value)
              : 0;
  }
  row->several_nodes =
      counted ? nodes > 1 : row->local_size > 0 && row->local_size < strtol(row->size, NULL, 10);
  if (counted && nodes == 1) {
    row->local_size = (int)strtol(row->size, NULL, 10);
  }
}

/* Swaps byte by byte, because a row is too large for a small stack. */
static void swap(struct shard_launcher_row *one, struct shard_launcher_row *two) {
  char *a = (char *)one, *b = (char *)two;
  for (size_t i = 0; i < sizeof(*one); i++) {
    char byte = a[i];
    a[i] = b[i];
    b[i] = byte;
  }
}

/* Finds the rows that are set: the youngest first, rows of one age in the table's order,
 * SHARD_RANK's last. */
static void find_rows(struct shard_launcher *out) {
  struct ancestor_walk w = {.user = -1};
  for (size_t i = 0; i < ENTRIES; i++) {
    if (row_is_set(i)) {
      w.entry_of[out->count] = i;
      fill_row(&entries[i], &out->rows[out->count++]);
    }
  }
  if (out->count > 0) {
    walk_ancestors(out, &w);
  }
  size_t count = out->count - (out->count > 0 && w.entry_of[out->count - 1] == OWN);
  out->explicit = count < out->count ? &out->rows[count] : NULL;
  for (size_t i = 1; i < count; i++) {
    for (size_t k = i; k > 0 && out->rows[k].age < out->rows[k - 1].age; k--) {
      swap(&out->rows[k], &out->rows[k - 1]);
    }
  }
  out->youngest = count > 0 ? out->rows : NULL;
}

/* ---- errors and hints --------------------------------------------------- */

#define REMEDY "set SHARD_RANK and SHARD_SIZE"
#define FAIL(rc, ...) shard_error_set(out->line, sizeof(out->line), rc, __VA_ARGS__)

/* Prints "NAME=value of NAME=value" of a row. A value has at most 23 bytes. */
static const char *describe_row(const struct shard_launcher_row *row, char text[160]) {
  snprintf(text, 160, "%s=%s of %s=%s", row->names[0], row->rank, row->names[1], row->size);
  return text;
}

/* Returns whether this is Slurm's batch script, which has SLURM_PROCID=0, but no step. */
static bool is_batch_script(void) {
  return get_value("SLURM_JOB_ID") && !get_value("SLURM_STEP_ID");
}

/* Returns the hint for a task of a job array; "" elsewhere. */
static const char *array_remedy(void) {
  return get_value("SLURM_ARRAY_TASK_COUNT")
             ? "; for a share in each task of a job array (--array=0-N) set "
               "SHARD_RANK=$SLURM_ARRAY_TASK_ID, and SHARD_SIZE to the number of tasks"
             : "";
}

/*
 * Refuses RANK, WORLD_SIZE or LOCAL_RANK that form no row, beside no row or a world of one.
 * Lightning and scripts number processes so, and each process would have all files.
 */
static int refuse_incomplete(struct shard_launcher *out) {
  const char *rank = get_value("RANK"), *size = get_value("WORLD_SIZE"),
             *local = get_value("LOCAL_RANK");
  const struct shard_launcher_row *row = out->youngest;
  bool one = size ? strcmp(size, "1") == 0 && (!local || strcmp(local, "0") == 0) : !local;
  bool harmless = (rank && size) || (!rank && one);
  const char *name = rank ? "RANK" : size ? "WORLD_SIZE" : "LOCAL_RANK";
  return harmless || (row && !shard_launcher_is_world_of_one(row))
             ? 0
             : FAIL(-EINVAL,
                    "%s=%.32s is set, but not both RANK and WORLD_SIZE; " REMEDY
                    ", or unset RANK, WORLD_SIZE and LOCAL_RANK if they are left over",
                    name,
                    rank   ? rank
                    : size ? size
                           : local);
}

/* Refuses rows of one age that differ, and a world of one that anybody may have set inside a larger
 * world. */
static int refuse_contradiction(struct shard_launcher *out) {
  const struct shard_launcher_row *row = out->youngest;
  char one[160], two[160];
  for (const struct shard_launcher_row *other = row + 1; other < out->rows + out->count; other++) {
    bool inside = row->kind == SHARD_LAUNCHER_ANYBODY && shard_launcher_is_world_of_one(row) &&
                  !shard_launcher_is_world_of_one(other);
    if (other != out->explicit && (other->age == row->age || inside) &&
        !shard_launcher_agree(row, other)) {
      return FAIL(-EINVAL,
                  "%s and %s contradict each other; " REMEDY
                  ", or unset the variables that are left over",
                  describe_row(row, one), describe_row(other, two));
    }
  }
  /* PMIx's prun in a Slurm step sets no size for its ranks, and SLURM_PROCID is the daemon's. Rank
   * 0 is allowed: it may be a child of a task that has called MPI_Init without an MPI launcher. */
  const char *rank = strcmp(row->names[0], "SLURM_PROCID") == 0 ? get_value("PMIX_RANK") : NULL;
  return !rank || strcmp(rank, "0") == 0 || strcmp(rank, row->rank) == 0
             ? 0
             : FAIL(-EINVAL, "PMIX_RANK=%.32s has no size, and contradicts %s; " REMEDY, rank,
                    describe_row(row, one));
}

/* Refuses SHARD_RANK without SHARD_SIZE, and the reverse. */
__attribute__((noinline)) static int refuse_half(struct shard_launcher *out) {
  const char *rank = getenv("SHARD_RANK"), *size = getenv("SHARD_SIZE");
  char theirs[160];
  return out->explicit || (!rank && !size)
             ? 0
             : FAIL(-EINVAL, "%s=%.32s is set without %s%s%s; set both, or neither",
                    rank ? "SHARD_RANK" : "SHARD_SIZE", rank ? rank : size,
                    rank ? "SHARD_SIZE" : "SHARD_RANK", out->youngest ? ", beside " : "",
                    out->youngest ? describe_row(out->youngest, theirs) : "");
}

/* Fills in rank and size from a row. */
static int fill_world(struct shard_launcher *out, const struct shard_launcher_row *row) {
  uint64_t rank, size;
  const char *values[2] = {row->rank, row->size};
  for (int k = 0; k < 2; k++) {
    if (!shard_number_parse(values[k], 0, INT_MAX, k ? &size : &rank)) {
      return FAIL(-EINVAL, "%s='%s' is not a whole number", row->names[k], values[k]);
    }
  }
  if (size == 0) {
    return FAIL(-EINVAL, "%s=0 is not valid: a world has at least one rank", row->names[1]);
  }
  if (rank >= size) {
    return FAIL(-EINVAL, "%s=%d does not fit %s=%d: ranks go from 0 to %d", row->names[0],
                (int)rank, row->names[1], (int)size, (int)size - 1);
  }
  const struct shard_launcher_row *local = out->youngest ? out->youngest : row;
  out->world.rank = (int)rank;
  out->world.size = (int)size;
  out->world.local_rank = local->local_rank;
  out->world.local_size = local == row ? row->local_size : -1;
  snprintf(out->world.launcher, sizeof(out->world.launcher), "%s", row->launcher);
  return 0;
}

/* Fills in the hint about a world that was found. */
__attribute__((noinline)) static void set_note(struct shard_launcher *out) {
  const struct shard_launcher_row *row = out->youngest;
  char own[160], theirs[160];
  if (out->explicit && row && !shard_launcher_is_world_of_one(row) &&
      !shard_launcher_agree(out->explicit, row)) {
    snprintf(
        out->note, sizeof(out->note),
        "%s override %s's %s; unless each rank has its own SHARD_RANK, ranks have the same share",
        describe_row(out->explicit, own), row->launcher, describe_row(row, theirs));
  } else if (!out->explicit && row && shard_launcher_is_world_of_one(row)) {
    snprintf(out->note, sizeof(out->note),
             "%s has set %s, a world of one: every process sees all files. If there are more "
             "ranks, " REMEDY " in each%s",
             row->launcher, describe_row(row, theirs), array_remedy());
  }
}

static int check_world(struct shard_launcher *out) {
  int rc = out->rc != 0 ? FAIL(out->rc, "cannot find the rank: %s", strerror(-out->rc))
                        : refuse_half(out);
  if (rc == 0 && !out->explicit) {
    rc = refuse_incomplete(out);
    if (rc == 0 && !out->youngest) {
      rc = FAIL(-ENOENT, "no rank is known%s: start with mpirun, srun or torchrun, or " REMEDY "%s",
                is_batch_script() ? ", because this is Slurm's batch script, and no task" : "",
                array_remedy());
    }
    rc = rc ? rc : refuse_contradiction(out);
  }
  const struct shard_launcher_row *source = out->explicit ? out->explicit : out->youngest;
  if (rc == 0 && source && (rc = fill_world(out, source)) == 0) {
    set_note(out);
  }
  return rc;
}

void shard_launcher_find(struct shard_launcher *out) {
  int saved = errno;
  out->world = (struct shard_world){-1, -1, -1, -1, ""};
  out->count = out->ancestor_count = 0;
  out->rc = 0;
  out->line[0] = out->note[0] = 0;
  find_rows(out);
  out->rc = check_world(out);
  errno = saved;
}

/* ---- for others --------------------------------------------------------- */

int shard_world_get(struct shard_world *w, char *err, size_t size) {
  int saved = errno;
  struct shard_launcher *found = malloc(sizeof(*found));
  *w = (struct shard_world){-1, -1, -1, -1, ""};
  if (!found) {
    return shard_error_set(err, size, -ENOMEM, "out of memory while finding the rank");
  }
  shard_launcher_find(found);
  *w = found->world;
  int rc = shard_error_set(err, size, found->rc, "%s", found->line);
  free(found);
  errno = saved;
  return rc;
}

bool shard_launcher_spans_hosts(int64_t *since) {
  int saved = errno;
  struct shard_launcher *found = malloc(sizeof(*found));
  if (!found) {
    return false;
  }
  shard_launcher_find(found);
  const struct shard_launcher_row *row = found->youngest;
  bool several = found->rc == 0 && row && row->several_nodes && row->kind != SHARD_LAUNCHER_ANYBODY;
  /* The walk skips slurmstepd, which has overwritten its environment with a title. */
  bool seen = several && row->above_differs && row->kind == SHARD_LAUNCHER_PROCESS;
  unsigned long long start = !several ? 0 : seen ? row->above.start : row->highest.start;
  if (start > 0) {
    *since = shard_process_start_time(start);
  }
  free(found);
  errno = saved;
  return start > 0;
}

bool shard_launcher_variable(size_t i, const char **name, const char **launcher) {
  const struct entry *e = &entries[i / 16];
  size_t k = i % 16;
  *name = k < VALUES ? e->values[k]
          : k == 10  ? e->size
          : k == 11  ? e->nodes
          : k < 12   ? NULL
          : k < 14   ? e->local_rank[k - 12]
                     : e->local_size[k - 14];
  *launcher = e->name;
  return i / 16 < OWN;
}
