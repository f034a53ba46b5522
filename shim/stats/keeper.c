/* SPDX-License-Identifier: MIT */
#include "stats/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/kernel.h"
#include "base/process.h"
#include "base/trust.h"
#include "base/whole.h"
#include "base/xxh64.h"
#include "config/config.h"
#include "config/pattern.h"
#include "host/builder.h"
#include "host/self.h"
#include "libshard.h"
#include "stats/notes.h"
#include "stats/stats.h"

#define MARK "LIBSHARD_STATS"

bool shard_keeper_is_marked(void) { return getenv(MARK); }

/* What the processes of one rank have, and no other rank of the job. */
static uint64_t identity(const struct shard_world *world) {
  const char *step = getenv("SLURM_STEP_ID"); /* a batch script has its first task's rank too */
  char text[100];
  int n = snprintf(text, sizeof(text), "%d %d %.40s", world->rank, world->size, step ? step : "");
  return shard_xxh64(text, (size_t)n, 0);
}

static uint64_t pid_namespace(void) {
  struct stat st;
  return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* Whether /proc numbers processes as this one's calls do. */
static bool has_proc(void) { return shard_process_self() == getpid(); }

/* This process, among those that keep the log: no other has its number and its start. */
static int64_t name_self(void) {
  struct shard_process process;
  bool known = has_proc() && shard_process_read(getpid(), &process);
  return (known ? (int64_t)process.start << 22 : 0) | getpid();
}

/* The place of this process among those that keep the log; NULL: it has none. */
static _Atomic int64_t *find_keeper(struct shard_log_head *log) {
  for (size_t i = 0; log && i < SHARD_LOG_KEEPERS; i++) {
    int64_t keeper = atomic_load(&log->keepers[i]);
    if (SHARD_LOG_PID(keeper) == getpid() && log->namespace_ino == pid_namespace()) {
      int64_t self = name_self();
      bool same = keeper == self || keeper == getpid() || self == getpid();
      return same ? &log->keepers[i] : NULL;
    }
  }
  return NULL;
}

/* Keep the log no longer. */
static void leave(struct shard_log_head *log) {
  _Atomic int64_t *place = find_keeper(log);
  if (place) {
    atomic_store(place, 0);
  }
}

/* Where this process would keep its log; false: the name is too long. */
static bool own_log(const struct shard_world *world, char log[PATH_MAX]) {
  int n = (int)shard_pattern_expand(shard_config()->stats, (uint64_t)world->rank, 0, log,
                                    PATH_MAX - sizeof(".log"));
  if (n >= 0) {
    strcat(log, ".log");
  }
  return n >= 0;
}

/* Put the mark into the environment, without allocating: bash has a setenv of its own. */
static bool mark_environment(uint64_t as, uint64_t nonce, const char *path) {
  static char mark[PATH_MAX + 80];
  static char *copy[8192];
  snprintf(mark, sizeof(mark), MARK "=%llx %llx %s", (unsigned long long)as,
           (unsigned long long)nonce, path);
  size_t n = 0;
  for (; environ && environ[n]; n++) {
    if (strncmp(environ[n], mark, sizeof(MARK)) == 0) {
      environ[n] = mark;
      return true;
    }
  }
  if (n + 2 > sizeof(copy) / sizeof(copy[0])) {
    return false;
  }
  if (n > 0) {
    memcpy(copy, environ, n * sizeof(copy[0]));
  }
  copy[n] = mark;
  copy[n + 1] = NULL;
  environ = copy;
  return true;
}

/* No statistics are kept; what this process starts need not try again. */
static void give_up(uint64_t as, const char *text) {
  atomic_store(&shard_stats_state, SHARD_STATS_OFF);
  mark_environment(as, 0, "-");
  if (text) {
    shard_log(SHARD_LOG_ERROR, text);
  }
}

/* What this process opens is in no statistics. Those that there will be, or are, tell it: see
 * shard_notes_begin_in_memory(). */
static void watch(uint64_t nonce) {
  if (shard_config()->directories && shard_notes_begin_in_memory(nonce)) {
    atomic_store(&shard_stats_state, SHARD_STATS_APART);
  }
}

/*
 * Join the log that the mark names; if it belongs to another rank, its owner was only a wrapper:
 * mark it superseded. world: this process's; NULL: it has no rank, and is of its parent's. false:
 * this process is to be a main process.
 */
static bool join(const char *mark, const struct shard_world *world) {
  uint64_t as = world ? identity(world) : 0;
  char *end, *path;
  uint64_t found, of = strtoull(mark, &end, 16), nonce = strtoull(end, &path, 16);
  if (end == mark || path == end || *path != ' ' || strlen(++path) >= sizeof(shard_notes_file)) {
    return as == 0;
  }
  as = as ? as : of;
  if (nonce == 0) { /* no statistics are kept */
    return of == as;
  }
  strcpy(shard_notes_file, path);
  int fd = shard_notes_open(shard_notes_file, O_NOFOLLOW, SHARD_LOG_MAGIC, &found);
  if (fd < 0 && (errno == EPERM || errno == ELOOP)) {
    /* Somebody else has put it there: the mark tells nothing. But if it is in the place of the
     * rank's own log, the rank has begun, and what it has made must stay. */
    char own[PATH_MAX];
    if (!world || !own_log(world, own) || strcmp(own, shard_notes_file) != 0) {
      return false;
    }
    give_up(as,
            "the log of SHARD_STATS is another user's, or others may write to it: no statistics "
            "are kept; remove it, and name a directory that is this user's alone");
    return true;
  }
  struct shard_log_head *log = NULL;
  int rc = fd < 0 ? errno : found != nonce ? ENOENT : (log = shard_notes_map(fd)) ? 0 : errno;
  shard_kernel_close(fd);
  if (rc != 0) {
    if (of == as && (rc == ENOENT || rc == EBADMSG)) { /* the main process has ended */
      watch(nonce);
    } else if (of == as) {
      char text[PATH_MAX + 200];
      snprintf(text, sizeof(text),
               "cannot use log '%.900s' of SHARD_STATS: %s; what process %ld opens, and what it "
               "starts, is in no statistics",
               shard_notes_file, strerror(rc), (long)getpid());
      give_up(as, text);
    }
    return of == as;
  }
  if (of != as) {
    atomic_store(&log->superseded, 1);
    shard_notes_unmap(log);
    return false;
  }
  shard_notes_head = log;
  atomic_store(&shard_stats_state, SHARD_STATS_ON);
  return true;
}

/* ---- logs that others keep ---------------------------------------------- */

/* Whether a process that keeps the log lives. *parent: its parent; 0: it is not known. */
static bool lives(int64_t keeper, long *parent) {
  struct shard_process process;
  int64_t pid = SHARD_LOG_PID(keeper);
  *parent = 0;
  if (pid == 0) {
    return false;
  }
  if (!has_proc()) {
    return kill((pid_t)pid, 0) == 0 || errno == EPERM;
  }
  bool found = shard_process_read((long)pid, &process) && !process.ended &&
               (keeper == pid || (int64_t)process.start == keeper >> 22);
  *parent = found ? process.parent : 0;
  return found;
}

static bool has_keeper(const struct shard_log_head *log, long *parent) {
  for (size_t i = 0; i < SHARD_LOG_KEEPERS; i++) {
    if (lives(atomic_load(&log->keepers[i]), parent)) {
      return true;
    }
  }
  return false;
}

/* Whether a process is this one, or one above it; not that of all processes. */
static bool is_above(long pid) {
  struct shard_process process = {.parent = getpid()};
  for (int k = 0; k < 1000 && process.parent > 1 && process.parent != pid; k++) {
    if (!shard_process_read(process.parent, &process)) {
      return false;
    }
  }
  return pid > 1 && process.parent == pid && has_proc();
}

/* Keep the log, beside others. false: it has ended. */
static bool become_keeper(struct shard_log_head *log) {
  int64_t self = name_self();
  long ignored;
  bool has_place = false;
  for (size_t i = 0; i < SHARD_LOG_KEEPERS && !has_place; i++) {
    int64_t before = atomic_load(&log->keepers[i]);
    if (before == 0 || !lives(before, &ignored)) {
      has_place = atomic_compare_exchange_strong(&log->keepers[i], &before, self);
    }
  }
  if (!has_place) { /* what this process notes after the others' end is nobody's */
    atomic_fetch_add(&log->lost, 1);
  }
  bool ended = atomic_load(&log->ended);
  if (ended) {
    leave(log);
  }
  return !ended;
}

enum former {
  FORMER_NONE,   /* there is no log, or it is not to be believed */
  FORMER_DEAD,   /* nobody keeps it any more */
  FORMER_JOINED, /* this process notes in it now */
  FORMER_OTHERS  /* others keep it, whose notes will be in nobody's statistics */
};

/*
 * Join a log of a process that lives, or tell why not. A parent's: its mark was not in the
 * environment. A sibling's: both were started with the rank, and without a mark, by one that has
 * set the rank itself and lists nothing.
 */
static enum former join_living(struct shard_log_head *log, const struct shard_world *world,
                               long parent) {
  bool same = log->rank == world->rank && log->size == world->size;
  int64_t first = atomic_load(&log->keepers[0]);
  long ignored;
  bool above =
      SHARD_LOG_PID(first) == log->pid && lives(first, &ignored) && is_above((long)log->pid);
  if (atomic_load(&log->superseded)) {
    return FORMER_DEAD;
  }
  if (above && !same) { /* as join() does */
    atomic_store(&log->superseded, 1);
    return FORMER_DEAD;
  }
  bool joined =
      same && !atomic_load(&log->ended) && (above || (is_above(parent) && become_keeper(log)));
  return joined ? FORMER_JOINED : FORMER_OTHERS;
}

/* Remove a log that nobody keeps, unless another process has just put one in its place. */
static void remove_dead(int fd) {
  bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  if (locked && shard_kernel_has_name(fd, AT_FDCWD, shard_notes_file) > 0) {
    unlink(shard_notes_file);
  }
}

/* Look at the log that stands where this rank's is to be. *begun: when it began, if it is that of a
 * rank that has noted something; else 0. */
static enum former look_at_former(const struct shard_world *world, int64_t *begun) {
  struct utsname system;
  uint64_t nonce;
  long parent;
  enum former found = FORMER_NONE;
  *begun = 0;
  int fd = shard_notes_open(shard_notes_file, O_NOFOLLOW, SHARD_LOG_MAGIC, &nonce);
  struct shard_log_head *log = fd < 0 ? NULL : shard_notes_map(fd);
  if (log) {
    bool here = uname(&system) == 0 && strcmp(log->host, system.nodename) == 0 &&
                log->namespace_ino == pid_namespace();
    found = here && has_keeper(log, &parent) ? join_living(log, world, parent) : FORMER_DEAD;
    bool counts = !atomic_load(&log->superseded) && atomic_load(&log->notes) > 0;
    *begun = counts ? log->begun * 1000000 : 0;
    if (found == FORMER_JOINED) {
      shard_notes_head = log;
    } else {
      shard_notes_unmap(log);
    }
    if (found == FORMER_DEAD) {
      remove_dead(fd);
    }
  }
  shard_kernel_close(fd);
  return found;
}

/*
 * The ranks for which this process, or others that one without a rank has forked, have begun
 * statistics. What the first of them has noted is not in the last one's.
 */
#define CLAIMS 512
static _Atomic uint64_t *claims; /* shared with children; NULL: this process had a rank */

static void share_claims(void) {
  if (!claims) {
    void *memory = mmap(NULL, CLAIMS * sizeof(*claims), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    claims = memory == MAP_FAILED ? NULL : memory;
  }
}

/* Whether another process has begun them. */
static bool was_claimed(uint64_t identity) {
  for (size_t k = 0; claims && k < CLAIMS; k++) {
    uint64_t before = 0;
    if (atomic_compare_exchange_strong(&claims[(identity + k) % CLAIMS], &before, identity)) {
      return false;
    }
    if (before == identity) {
      return true;
    }
  }
  return false;
}

/* ---- the beginning ------------------------------------------------------ */

static void fill_head(struct shard_log_head *log, const struct shard_world *world,
                      const char *target, uint64_t nonce) {
  const struct shard_config *config = shard_config();
  struct utsname system;
  log->nonce = nonce;
  atomic_store(&log->generation, nonce); /* what is kept of another log is not of it */
  log->begun = shard_clock_real_ns() / 1000000;
  log->clock = shard_clock_ms();
  log->pid = getpid();
  atomic_store(&log->keepers[0], name_self());
  log->namespace_ino = pid_namespace();
  log->rank = world->rank;
  log->size = world->size;
  log->strategy = config->strategy;
  log->remainder = config->remainder;
  log->sample = config->sample;
  log->shuffled = shard_epoch_shuffles(config->epoch);
  log->seed = config->seed;
  bool served = config->dataset && !config->error[0] &&
                (config->view == SHARD_VIEW_AUTO || config->view == SHARD_VIEW_SHARD);
  atomic_store(&log->view, served ? SHARD_VIEW_SHARD : SHARD_VIEW_OFF);
  snprintf(log->launcher, sizeof(log->launcher), "%s", world->launcher);
  snprintf(log->host, sizeof(log->host), "%s", uname(&system) == 0 ? system.nodename : "");
  snprintf(log->target, sizeof(log->target), "%s", target);
  log->magic = SHARD_LOG_MAGIC;
}

/* Make a log that has no name yet, and map it: *head. 0 or an errno. */
static int make_log(const struct shard_world *world, const char *target, struct shard_whole *log,
                    struct shard_log_head **head) {
  struct stat st;
  int rc = -shard_whole_open(log, shard_notes_file, SHARD_WHOLE_PRIVATE, SHARD_WHOLE_LAZY);
  if (rc != 0) {
    return rc;
  }
  uint64_t nonce = (uint64_t)shard_clock_real_ns() + (uint64_t)getpid() * SHARD_XXH_PRIME1;
  rc = shard_notes_reserve(log->fd, 0);
  /* Where files do not have the owner and mode that they are made with, no child could join. */
  if (rc == 0 &&
      (shard_kernel_fstat(log->fd, &st) != 0 || shard_trust_judge(&st, NULL) != SHARD_TRUST_GOOD)) {
    rc = EPERM;
  }
  *head = rc == 0 ? shard_notes_map(log->fd) : NULL;
  if (!*head) {
    rc = rc ? rc : errno;
    shard_whole_abort(log);
    return rc;
  }
  fill_head(*head, world, target, nonce);
  return 0;
}

/* 0; EISDIR or EEXIST: something is there that must not be replaced, such as a device. */
static int may_replace(const char *target) {
  struct stat st;
  bool other =
      shard_kernel_stat(AT_FDCWD, target, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode);
  return !other ? 0 : S_ISDIR(st.st_mode) ? EISDIR : EEXIST;
}

/* What an earlier run has left must not be taken for this one's, come what may. 0 or an errno. */
static int remove_earlier(const char *target) {
  int rc = may_replace(target);
  return rc ? rc : unlink(target) != 0 && errno != ENOENT ? errno : 0;
}

/*
 * Since when torchrun has started ranks: what one has opened then will not be in the statistics of
 * the one that is started in its place. ns since 1970; INT64_MAX: the parent is no torchrun.
 */
static int64_t find_torchrun(const struct shard_world *world) {
  static const char mark[] = "TORCHELASTIC_RUN_ID="; /* the agent has none */
  struct shard_process agent;
  char path[64];
  size_t size = 0;
  if (strcmp(world->launcher, "torchrun") != 0 || !has_proc() ||
      !shard_process_read(getppid(), &agent)) {
    return INT64_MAX;
  }
  snprintf(path, sizeof(path), "/proc/%ld/environ", (long)getppid());
  char *text = shard_file_read(path, &size);
  bool is_agent = text && !memmem(text, size, mark, strlen(mark));
  free(text);
  return is_agent ? shard_process_started(agent.start) : INT64_MAX;
}

/* Whether torchrun has started this rank before. Only the agent whose worker has failed counts it;
 * so the rank's earlier statistics tell it, too. */
static bool was_restarted(const struct shard_world *world, const char *target, int64_t since) {
  const char *count = getenv("TORCHELASTIC_RESTART_COUNT");
  struct stat st;
  if (strcmp(world->launcher, "torchrun") == 0 && count && strcmp(count, "0") != 0) {
    return true;
  }
  return shard_kernel_stat(AT_FDCWD, target, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
         st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec > since;
}

/*
 * Have a log: one that is kept already, or a new one, which appears whole, in place of one that a
 * killed run has left. 0 or an errno.
 */
static int have_log(const struct shard_world *world, const char *target) {
  struct shard_whole log;
  struct shard_log_head *head = NULL;
  int64_t since = find_torchrun(world), begun;
  int rc = may_replace(target);
  bool restarted = was_restarted(world, target, since);
  if (rc != 0) {
    return rc;
  }
  for (int tries = 0;; tries++) {
    enum former former = look_at_former(world, &begun);
    restarted |= begun > since;
    if (former == FORMER_JOINED) {
      return 0;
    }
    rc = remove_earlier(target);
    rc = rc ? rc : make_log(world, target, &log, &head);
    if (rc != 0 || !head) {
      return rc;
    }
    atomic_fetch_add(&head->lost, former == FORMER_OTHERS || restarted);
    bool replaces = former == FORMER_OTHERS || tries == 10;
    rc = replaces ? shard_whole_publish(&log) : shard_whole_publish_new(&log);
    if (rc == 0 && was_claimed(identity(world))) {
      atomic_fetch_add(&head->lost, 1);
    }
    if (rc == 0) {
      shard_notes_head = head; /* not before: other threads may look at the former one */
      return 0;
    }
    shard_notes_unmap(head);
    if (rc != -EEXIST) { /* else another process was faster */
      return -rc;
    }
    shard_whole_abort(&log);
  }
}

void shard_keeper_begin(const struct shard_world *world) {
  static char target[PATH_MAX];
  char text[PATH_MAX + 200];
  const char *pattern = shard_config()->stats;
  bool good = shard_pattern_expand(pattern, (uint64_t)world->rank, 0, target,
                                   sizeof(target) - sizeof(".log.tmp.XXXXXX")) >= 0;
  int rc = good ? 0 : ENAMETOOLONG;
  if (good) {
    char path[PATH_MAX], err[700];
    int program = shard_self_program(path, sizeof(path), err, sizeof(err));
    if (program < 0) {
      remove_earlier(target);
      snprintf(text, sizeof(text), "SHARD_STATS needs shardctl: %s (no statistics are kept)", err);
      give_up(identity(world), text);
      return;
    }
    shard_kernel_close(program);
  }
  if (rc == 0) {
    snprintf(shard_notes_file, sizeof(shard_notes_file), "%s.log", target);
    rc = have_log(world, target);
  }
  if (rc == 0 && !mark_environment(identity(world), shard_notes_head->nonce, shard_notes_file)) {
    rc = E2BIG;
    leave(shard_notes_head);
    if (shard_notes_head->pid == getpid()) {
      unlink(shard_notes_file);
    }
  }
  if (rc != 0) {
    snprintf(
        text, sizeof(text),
        "SHARD_STATS='%.900s': cannot write '%.900s.log': %s; name a directory that exists and "
        "can be written to (no statistics are kept)",
        pattern, good ? target : "", strerror(rc));
    give_up(identity(world), text);
    return;
  }
  atomic_store(&shard_stats_state, SHARD_STATS_ON);
  if (atomic_load(&shard_notes_head->view) == SHARD_VIEW_SHARD) {
    shard_stats_find_roots();
  }
}

void shard_keeper_init(const char *pattern) {
  struct shard_world world;
  char ignored[300];
  const char *mark = getenv(MARK);
  bool ranked = shard_world_get(&world, ignored, sizeof(ignored)) == 0;
  if (mark && join(mark, ranked ? &world : NULL)) {
    return;
  }
  if (ranked && world.size > 1 && !shard_pattern_has(pattern, 'r')) {
    give_up(identity(&world), world.local_rank > 0
                                  ? NULL
                                  : "SHARD_STATS has no %r, so all ranks would write one file; add "
                                    "it, as in stats.%r.json (no statistics are kept)");
  } else if (ranked) { /* a launcher, and its shell, has none */
    shard_keeper_begin(&world);
  } else {
    share_claims();
    watch(0);
  }
}

/* ---- the end ------------------------------------------------------------ */

/* Kilobytes that this process had at most; getrusage() would tell of what executed it, too. */
static uint64_t own_peak(void) {
  char text[4096] = "";
  int fd = shard_kernel_open(AT_FDCWD, "/proc/self/status", O_RDONLY);
  if (fd >= 0) {
    syscall(SYS_read, fd, text, sizeof(text) - 1);
    shard_kernel_close(fd);
  }
  const char *line = strstr(text, "\nVmHWM:");
  return line ? strtoull(line + strlen("\nVmHWM:"), NULL, 10) : 0;
}

/* Note how long it took, and what memory. */
static void tell_end(void) {
  struct rusage children = {0};
  uint64_t peak = own_peak(), before = atomic_load(&shard_notes_head->peak);
  getrusage(RUSAGE_CHILDREN, &children);
  peak = peak > (uint64_t)children.ru_maxrss ? peak : (uint64_t)children.ru_maxrss;
  while (before < peak * 1024 &&
         !atomic_compare_exchange_weak(&shard_notes_head->peak, &before, peak * 1024)) {
  }
  atomic_store(&shard_notes_head->lasted, shard_notes_now() + 1);
}

/* Have shardctl make the statistics of the log. */
static void make_statistics(void) {
  static char libraries[4096];
  char locale[] = "LC_ALL=C", *environment[] = {locale, NULL, NULL};
  char word[] = "stats", *arguments[] = {NULL, word, shard_notes_file, NULL};
  const char *path = getenv("LD_LIBRARY_PATH");
  if (path && (size_t)snprintf(libraries, sizeof(libraries), "LD_LIBRARY_PATH=%s", path) <
                  sizeof(libraries)) {
    environment[1] = libraries;
  }
  char err[700];
  int64_t deadline = shard_clock_ms() + (int64_t)shard_config()->timeout * 1000;
  int rc = shard_builder_run(arguments, environment, deadline, err, sizeof(err));
  if (rc == -EIO && environment[1]) { /* the libraries there may be none for it */
    environment[1] = NULL;
    rc = shard_builder_run(arguments, environment, deadline, err, sizeof(err));
  }
  if (rc != 0 && rc != -EIO) {
    char text[PATH_MAX + 200];
    snprintf(text, sizeof(text), "%s; run shardctl stats '%.900s'", err, shard_notes_file);
    shard_log(SHARD_LOG_ERROR, text);
  }
}

static void tell_of_replaced(void) {
  char text[PATH_MAX + 200];
  snprintf(text, sizeof(text),
           "log '%.900s' of SHARD_STATS has gone, or another process of this rank keeps one there: "
           "what process %ld has noted is in no statistics",
           shard_notes_file, (long)getpid());
  shard_log(SHARD_LOG_ERROR, text);
}

void shard_keeper_end(void) {
  _Atomic int64_t *place = find_keeper(shard_notes_head);
  long ignored;
  if (!place) {
    return;
  }
  tell_end();
  int64_t self = atomic_exchange(place, 0);
  for (;;) {
    if (has_keeper(shard_notes_head, &ignored) || atomic_exchange(&shard_notes_head->ended, 1)) {
      return;
    }
    if (!has_keeper(shard_notes_head, &ignored)) {
      break;
    }
    atomic_store(&shard_notes_head->ended, 0); /* it came before it could see that all has ended */
  }
  atomic_store(place, self); /* until they are made: who begins meanwhile is to see it */
  int fd = shard_notes_reopen();
  shard_kernel_close(fd);
  bool superseded = atomic_load(&shard_notes_head->superseded);
  if (superseded && fd >= 0) { /* else it is that of a rank, which may be needed yet */
    unlink(shard_notes_file);
  } else if (fd >= 0) {
    make_statistics();
  } else if (!superseded && atomic_load(&shard_notes_head->notes) > 0) {
    tell_of_replaced();
  }
}
