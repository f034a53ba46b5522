/* SPDX-License-Identifier: MIT */
#include "cache/job.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/kernel.h"
#include "base/process.h"
#include "base/xxh64.h"
#include "cache/cachedir.h"
#include "cache/collect.h"
#include "config/config.h"
#include "listing/identity.h"

#define DAY (24L * 3600) /* seconds */
#define OFTEN 64
#define ERROR_ROOM 700

/* ---- names -------------------------------------------------------------- */

/* As hexadecimal digits. 0, or a negative errno. */
static int read_boot(char text[2 * SHARD_BOOT_SIZE + 1]) {
  uint8_t boot[SHARD_BOOT_SIZE];
  int told = shard_identity_boot(boot);
  for (size_t i = 0; i < SHARD_BOOT_SIZE; i++) {
    sprintf(text + 2 * i, "%02x", boot[i]);
  }
  return told < 0 ? told : 0;
}

/* What only this process has: pid, start time, PID namespace, boot. 0 or a negative errno. */
static int identify(const struct shard_launcher_process *process, char *buf, size_t size) {
  char path[64], boot[2 * SHARD_BOOT_SIZE + 1];
  struct stat st = {0};
  snprintf(path, sizeof(path), "/proc/%ld/ns/pid", process->pid);
  if (shard_kernel_stat(AT_FDCWD, path, &st, 0) != 0) { /* another user's */
    shard_kernel_stat(AT_FDCWD, "/proc/self/ns/pid", &st, 0);
  }
  int rc = read_boot(boot);
  snprintf(buf, size, "%ld:%llu:%llu:%s", process->pid, process->start,
           (unsigned long long)st.st_ino, boot);
  return rc;
}

/* The path of a file in the folder "ranks", which is made: KIND-HASH, of two texts; malloc'd. NULL:
 * no such folder can be had. Threads of a host may have small stacks. */
static char *make_path(const char *kind, const char *one, const char *two) {
  char *path = malloc(PATH_MAX), *ignored = malloc(ERROR_ROOM);
  ssize_t n = path && ignored ? shard_cachedir_find(true, path, PATH_MAX - 64, ignored, ERROR_ROOM)
                              : -ENOMEM;
  free(ignored);
  if (n >= 0) {
    strcpy(path + n, "/ranks");
  }
  bool made = n >= 0 && mkdir(path, S_IRWXU) == 0;
  if (made) {
    chmod(path, S_IRWXU); /* a umask may be 0777 */
  }
  if (n < 0 || (!made && errno != EEXIST)) {
    free(path);
    return NULL;
  }
  uint64_t hash = shard_xxh64(two, strlen(two), shard_xxh64(one, strlen(one), 0));
  snprintf(path + n, PATH_MAX - (size_t)n, "/ranks/%s-%016llx", kind, (unsigned long long)hash);
  return path;
}

/* ---- what is old -------------------------------------------------------- */

/* Remove an entry of the folder that is a day old and that nobody needs: a line that was said, and
 * the link of a process that has ended. */
static void remove_old(int folder, const char *name, void *context) {
  (void)context;
  struct stat st;
  struct shard_process process;
  if (shard_kernel_stat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
    return;
  }
  bool old = st.st_ctim.tv_sec + DAY < shard_clock_real_ns() / 1000000000;
  long pid = strncmp(name, "link-", 5) == 0 ? strtol(name + 5, NULL, 10) : 0;
  bool lives = old && pid > 0 && shard_process_read(pid, &process);
  if (S_ISLNK(st.st_mode) && old && !lives) {
    unlinkat(folder, name, 0);
  }
}

/* What is old in the folder of a file: by one in many who make one, for the folder may be large. */
static void remove_all_old(char *path) {
  if (shard_xxh64(path, strlen(path), 0) % OFTEN == 0) {
    *strrchr(path, '/') = 0;
    shard_collect_each(path, remove_old, NULL);
  }
}

/* ---- links -------------------------------------------------------------- */

/* A process may be in two worlds, one after the other: the size tells them apart. */
static char *make_link_path(const struct shard_launcher_process *process, const char *size) {
  char identity[160], kind[32];
  identify(process, identity, sizeof(identity));
  snprintf(kind, sizeof(kind), "link-%ld", process->pid);
  return make_path(kind, identity, size);
}

/* The first letter tells whether the job is held. */
static bool read_link(const struct shard_launcher_process *process, const char *size,
                      struct shard_job *out) {
  char *path = make_link_path(process, size);
  ssize_t n = path ? readlink(path, out->name, sizeof(out->name) - 1) : -1;
  free(path);
  if (n < 1) {
    return false;
  }
  out->held = out->name[0] == 'h';
  out->name[n] = 0;
  memmove(out->name, out->name + 1, (size_t)n);
  return true;
}

static void leave_link(const struct shard_launcher_process *self, const char *size,
                       const struct shard_job *job) {
  char *path = make_link_path(self, size), *text = malloc(SHARD_JOB_SIZE);
  if (path && text) {
    snprintf(text, SHARD_JOB_SIZE, "%c%s", job->held ? 'h' : 'n', job->name);
    if (symlink(text, path) == 0) {
      remove_all_old(path);
    }
  }
  free(text);
  free(path);
}

/* ---- the job ------------------------------------------------------------ */

/* The row that tells the job: a copy is its launcher's. */
static const struct shard_launcher_row *find_origin(const struct shard_launcher *found,
                                                    const struct shard_launcher_row *row) {
  for (size_t i = 0; row->kind == SHARD_LAUNCHER_ANYBODY && i < found->count; i++) {
    const struct shard_launcher_row *other = &found->rows[i];
    if (other->kind != SHARD_LAUNCHER_ANYBODY && other->age >= row->age &&
        shard_launcher_agree(other, row)) {
      return other;
    }
  }
  return row;
}

/* 0 or a negative errno. */
static int name_job(const struct shard_launcher *found, const struct shard_launcher_row *row,
                    struct shard_job *out) {
  int rc;
  bool own = row == found->explicit;
  row = find_origin(found, row);
  for (size_t i = 1; i < found->ancestor_count; i++) {
    if (read_link(&found->ancestors[i], row->size, out)) {
      return 0;
    }
    if (found->ancestors[i].pid == row->above.pid) {
      break;
    }
  }
  char place[200], boot[2 * SHARD_BOOT_SIZE + 1];
  bool numbered = row->kind == SHARD_LAUNCHER_NUMBERED;
  /* A rank that outlives its launcher is a child of the first process, which lives on. A program
   * that sets a launcher's variables, in torchrun's world of one, may do so for one world after the
   * other. */
  bool known = numbered || (row->kind == SHARD_LAUNCHER_PROCESS && row->above_differs &&
                            row->age > 0 && (row->above.pid != 1 || row->launch_id[0]));
  if (numbered ||
      (row->kind == SHARD_LAUNCHER_PROCESS && row->launch_id[0] && !row->above_differs)) {
    rc = read_boot(boot);
    snprintf(place, sizeof(place), "%s:%s", row->launcher, boot);
  } else {
    rc = identify(own ? &row->highest : &row->above, place, sizeof(place));
  }
  snprintf(out->name, sizeof(out->name), "%s%s", place, row->launch_id);
  out->held = !known || shard_launcher_is_world_of_one(row);
  return rc;
}

/* The job of a process that has not looked yet. 1; 0: none is known; or a negative errno. */
static int find_job(const struct shard_launcher *found, struct shard_job *out) {
  const char *own = shard_config()->job;
  const struct shard_launcher_row *row = found->youngest, *source = found->explicit;
  if (own) {
    snprintf(out->name, sizeof(out->name), "SHARD_JOB=%s", own);
    out->held = false;
    return 1;
  }
  if (found->rc != 0 || found->ancestor_count == 0) {
    return found->rc == -EINVAL || found->rc == -ENOENT ? 0 : found->rc;
  }
  source = source ? source : row;
  if (source && (!row || shard_launcher_is_world_of_one(row))) {
    row = source;
  }
  int rc = row ? name_job(found, row, out) : 0;
  if (!row || rc != 0) {
    return rc;
  }
  if (source->kind == SHARD_LAUNCHER_ANYBODY || source->age == 0) {
    leave_link(&found->ancestors[0], row->size, out); /* where name_job() looks */
  }
  return 1;
}

/* ---- this process's ----------------------------------------------------- */

/* What has been found, for a world of this size; children inherit it. */
struct settled {
  char size[24];
  struct shard_job job;
};
static _Atomic(struct settled *) settled;

/* The world that the job is of. */
static const char *size_of(const struct shard_launcher *found) {
  return found->explicit ? found->explicit->size : found->youngest ? found->youngest->size : "";
}

/* NULL: no job is known, and *rc is 0; or it cannot be told, and *rc is a negative errno. */
static struct settled *settle(const struct shard_launcher *found, int *rc) {
  struct settled *s = atomic_load(&settled);
  *rc = 0;
  if (s && strcmp(s->size, size_of(found)) == 0) {
    return s;
  }
  errno = 0;
  struct settled *made = calloc(1, sizeof(*made));
  int known = made ? find_job(found, &made->job) : -ENOMEM;
  if (known <= 0 || shard_error_is_shortage(errno)) {
    *rc = known < 0 ? known : shard_error_is_shortage(errno) ? -errno : 0;
    free(made);
    return NULL;
  }
  snprintf(made->size, sizeof(made->size), "%s", size_of(found));
  /* What another thread has is the same; what was before is of another world, and may be in use. */
  return atomic_compare_exchange_strong(&settled, &s, made) ? made : (free(made), s);
}

bool shard_job_find(const struct shard_launcher *found, struct shard_job *out) {
  int rc;
  const struct settled *s = settle(found, &rc);
  if (s) {
    *out = s->job;
  }
  return s;
}

static struct shard_launcher *find_launcher(void) {
  struct shard_launcher *found = malloc(sizeof(*found));
  if (found) {
    shard_launcher_find(found);
  }
  return found;
}

/* The job that is this process alone. 0 or a negative errno. */
static int find_alone(struct shard_job *out) {
  struct shard_launcher_process self = {.pid = shard_process_own_pid()};
  struct shard_process process;
  if (self.pid > 0 && shard_process_read(self.pid, &process)) {
    self.start = process.start;
  }
  self.pid = self.pid > 0 ? self.pid : getpid();
  out->held = self.start == 0; /* the number may come again */
  return identify(&self, out->name, sizeof(out->name));
}

int shard_job_get(bool alone, struct shard_job *out) {
  int saved = errno, rc = -ENOMEM;
  struct shard_launcher *found = alone ? NULL : find_launcher();
  const struct settled *s = found ? settle(found, &rc) : NULL;
  if (s) {
    *out = s->job;
  } else if (alone || (found && rc == 0)) {
    rc = find_alone(out);
  }
  free(found);
  errno = saved;
  return rc;
}

void shard_job_owner(const struct shard_job *job, char owner[SHARD_JOB_OWNER]) {
  char *end;
  long pid = strtol(job->name, &end, 10);
  unsigned long long start = *end == ':' ? strtoull(end + 1, &end, 10) : 0;
  unsigned long long space = *end == ':' ? strtoull(end + 1, &end, 10) : 0;
  bool process = pid > 0 && *end == ':';
  if (job->held || !process) {
    strcpy(owner, job->held ? "held" : "named");
  } else {
    snprintf(owner, SHARD_JOB_OWNER, "%ld-%llu-%llu", pid, start, space);
  }
}

uint64_t shard_job_number(void) {
  int saved = errno;
  struct shard_launcher *found = find_launcher();
  int ignored;
  const struct settled *s = found ? settle(found, &ignored) : NULL;
  uint64_t number = s && !s->job.held ? shard_xxh64(s->job.name, strlen(s->job.name), 0) : 0;
  free(found);
  errno = saved;
  return number;
}

void shard_job_before_fork(void) {
  int saved = errno, ignored;
  struct shard_launcher *found = shard_launcher_was_set_late() ? find_launcher() : NULL;
  if (found && found->rc == 0) {
    settle(found, &ignored);
  }
  free(found);
  errno = saved;
}

void shard_job_say_once(const struct shard_launcher *found, const char *kind, const char *text) {
  int saved = errno, ignored;
  const struct settled *s = settle(found, &ignored);
  char *path = s ? make_path("said", s->job.name, kind) : NULL;
  if (!path || symlink("said", path) == 0 || errno != EEXIST) {
    shard_log(SHARD_LOG_WARN, text);
  }
  free(path);
  errno = saved;
}
