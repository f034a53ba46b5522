/* SPDX-License-Identifier: MIT */
#include "cache/job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
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
#include "config/config.h"

#define DAY (24L * 3600) /* seconds */
#define ERROR_ROOM 700

/* ---- names -------------------------------------------------------------- */

static void read_boot(char boot[40]) {
  size_t size;
  char *text = shard_file_read("/proc/sys/kernel/random/boot_id", &size);
  snprintf(boot, 40, "%.36s", text ? text : "");
  free(text);
}

/* What only this process has: pid, start time, PID namespace, boot. */
static void identify(const struct shard_launcher_process *process, char *buf, size_t size) {
  char path[64], boot[40];
  struct stat st = {0};
  snprintf(path, sizeof(path), "/proc/%ld/ns/pid", process->pid);
  if (shard_kernel_stat(AT_FDCWD, path, &st, 0) != 0) { /* another user's */
    shard_kernel_stat(AT_FDCWD, "/proc/self/ns/pid", &st, 0);
  }
  read_boot(boot);
  snprintf(buf, size, "%ld:%llu:%llu:%s", process->pid, process->start,
           (unsigned long long)st.st_ino, boot);
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
  if (n < 0 || (mkdir(path, 0700) != 0 && errno != EEXIST)) {
    free(path);
    return NULL;
  }
  uint64_t hash = shard_xxh64(two, strlen(two), shard_xxh64(one, strlen(one), 0));
  snprintf(path + n, PATH_MAX - (size_t)n, "/ranks/%s-%016llx", kind, (unsigned long long)hash);
  return path;
}

/* ---- what is old -------------------------------------------------------- */

/* Remove a file of the folder that nobody needs: a number that nobody holds; of a day ago, a link
 * of a process that has ended, and a line. */
static void remove_old(int folder, const char *name) {
  struct stat st;
  struct shard_process process;
  if (shard_kernel_stat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
    return;
  }
  bool old = st.st_ctim.tv_sec + DAY < shard_clock_real_ns() / 1000000000;
  long pid = strncmp(name, "link-", 5) == 0 ? strtol(name + 5, NULL, 10) : 0;
  bool lives = old && pid > 0 && shard_process_read(pid, &process);
  int fd = S_ISREG(st.st_mode) ? shard_kernel_open(folder, name, O_RDWR | O_NOFOLLOW) : -1;
  if ((S_ISLNK(st.st_mode) && old && !lives) || (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)) {
    unlinkat(folder, name, 0);
  }
  shard_file_close(fd);
}

/* What is old in the folder of a file. */
static void remove_all_old(char *path) {
  char buf[1024] __attribute__((aligned(8)));
  *strrchr(path, '/') = 0;
  int fd = shard_kernel_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
  long n;
  /* By the kernel: libc's calls are ours in a host, and not in shardctl. */
  while (fd >= 0 && (n = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
    for (long at = 0; at < n;) {
      const struct dirent64 *entry = (const struct dirent64 *)(buf + at);
      at += entry->d_reclen;
      if (entry->d_name[0] != '.') {
        remove_old(fd, entry->d_name);
      }
    }
  }
  shard_file_close(fd);
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
        strcmp(other->rank, row->rank) == 0 && strcmp(other->size, row->size) == 0) {
      return other;
    }
  }
  return row;
}

static void name_job(const struct shard_launcher *found, const struct shard_launcher_row *row,
                     struct shard_job *out) {
  bool own = row == found->own;
  row = find_origin(found, row);
  for (size_t i = 1; i < found->steps; i++) {
    if (read_link(&found->way[i], row->size, out)) {
      return;
    }
    if (found->way[i].pid == row->end.pid) {
      break;
    }
  }
  char place[200], boot[40];
  bool numbered = row->kind == SHARD_LAUNCHER_NUMBERED;
  /* A rank that outlives its launcher is a child of the first process, which lives on. A program
   * that sets a launcher's variables, in torchrun's world of one, may do so for one world after the
   * other. */
  bool known = numbered || (row->kind == SHARD_LAUNCHER_PROCESS && row->found && row->age > 0 &&
                            (row->end.pid != 1 || row->marks[0]));
  if (numbered || (row->kind == SHARD_LAUNCHER_PROCESS && row->marks[0] && !row->found)) {
    read_boot(boot);
    snprintf(place, sizeof(place), "%s:%s", row->launcher, boot);
  } else {
    identify(own ? &row->topmost : &row->end, place, sizeof(place));
  }
  snprintf(out->name, sizeof(out->name), "%s%s", place, row->marks);
  out->held = !known || strcmp(row->size, "1") == 0;
}

/* As shard_job_find(), of a process that has not looked yet. */
static bool find_job(const struct shard_launcher *found, struct shard_job *out) {
  const char *own = shard_config()->job;
  const struct shard_launcher_row *row = found->youngest, *source = found->own;
  if (own) {
    snprintf(out->name, sizeof(out->name), "SHARD_JOB=%s", own);
    out->held = false;
    return true;
  }
  if (found->rc != 0 || found->steps == 0) {
    return false;
  }
  source = source ? source : row;
  if (source && (!row || strcmp(row->size, "1") == 0)) {
    row = source;
  }
  if (!row) {
    return false;
  }
  name_job(found, row, out);
  if (source->kind == SHARD_LAUNCHER_ANYBODY || source->age == 0) {
    leave_link(&found->way[0], row->size, out); /* where name_job() looks */
  }
  return true;
}

/* ---- held by a lock ----------------------------------------------------- */

/* Hold the file: a number for as long as processes do; 0: it cannot be held. */
static uint64_t hold_file(const char *path, bool *made) {
  uint64_t number = 0;
  bool done = false;
  int fd = -1;
  for (int k = 0; k < 100 && !done; k++) {
    shard_file_close(fd);
    fd = shard_kernel_open(AT_FDCWD, path, O_RDWR | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT) {
      fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
      *made = true;
    }
    if (fd < 0) {
      return 0;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) { /* nobody is there */
      if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number)) {
        number = (uint64_t)shard_clock_real_ns();
      }
      number |= 1;
      if (pwrite(fd, &number, sizeof(number), 0) != sizeof(number)) {
        break;
      }
    }
    /* Another one may have been there between the two locks: what counts is what stands now. */
    done = TEMP_FAILURE_RETRY(flock(fd, LOCK_SH)) == 0 &&
           shard_kernel_has_name(fd, AT_FDCWD, path) &&
           pread(fd, &number, sizeof(number), 0) == sizeof(number);
  }
  /* The lock lasts as long as the mapping, which children inherit. */
  done = done && mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED;
  shard_file_close(fd);
  return done ? number : 0;
}

static uint64_t hold(const char *name) {
  bool made = false;
  char *path = make_path("held", name, "");
  uint64_t number = path ? hold_file(path, &made) : 0;
  if (number != 0 && made) {
    remove_all_old(path);
  }
  free(path);
  return number;
}

/* ---- this process's ----------------------------------------------------- */

/* What has been found, for a world of this size; children inherit it. */
struct settled {
  char size[24];
  struct shard_job job;
  _Atomic uint64_t number; /* of a held one; 0: it is not held yet */
};
static _Atomic(struct settled *) settled;

/* The world that the job is of. */
static const char *size_of(const struct shard_launcher *found) {
  return found->own ? found->own->size : found->youngest ? found->youngest->size : "";
}

/* NULL: no job is known. */
static struct settled *settle(const struct shard_launcher *found) {
  struct settled *s = atomic_load(&settled);
  if (s && strcmp(s->size, size_of(found)) == 0) {
    return s;
  }
  errno = shard_error_is_shortage(found->rc) ? -found->rc : 0;
  struct settled *made = calloc(1, sizeof(*made));
  if (!made || !find_job(found, &made->job) || shard_error_is_shortage(errno)) {
    free(made);
    return NULL;
  }
  snprintf(made->size, sizeof(made->size), "%s", size_of(found));
  /* What another thread has is the same; what was before is of another world, and may be in use. */
  return atomic_compare_exchange_strong(&settled, &s, made) ? made : (free(made), s);
}

bool shard_job_find(const struct shard_launcher *found, struct shard_job *out) {
  const struct settled *s = settle(found);
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

int shard_job_get(char *buf, size_t size) {
  int saved = errno;
  errno = 0;
  struct shard_launcher *found = find_launcher();
  struct settled *s = found ? settle(found) : NULL;
  int n = -1;
  if (s && s->job.held && atomic_load(&s->number) == 0) {
    atomic_store(&s->number, hold(s->job.name));
  }
  if (s && s->job.held && atomic_load(&s->number) != 0) {
    n = snprintf(buf, size, "%s %llx", s->job.name, (unsigned long long)atomic_load(&s->number));
  } else if (s && !s->job.held) {
    n = snprintf(buf, size, "%s", s->job.name);
  }
  int rc = n >= 0 && (size_t)n < size ? 1 : shard_error_is_shortage(errno) ? -errno : 0;
  free(found);
  errno = saved;
  return rc;
}

uint64_t shard_job_number(void) {
  int saved = errno;
  struct shard_launcher *found = find_launcher();
  const struct settled *s = found ? settle(found) : NULL;
  uint64_t number = s && !s->job.held ? shard_xxh64(s->job.name, strlen(s->job.name), 0) : 0;
  free(found);
  errno = saved;
  return number;
}

void shard_job_before_fork(void) {
  int saved = errno;
  struct shard_launcher *found = shard_launcher_is_late() ? find_launcher() : NULL;
  if (found && found->rc == 0) {
    settle(found);
  }
  free(found);
  errno = saved;
}

void shard_job_say_once(const struct shard_launcher *found, const char *kind, const char *text) {
  int saved = errno;
  const struct settled *s = settle(found);
  char *path = s ? make_path("said", s->job.name, kind) : NULL;
  if (!path || symlink("said", path) == 0 || errno != EEXIST) {
    shard_log(SHARD_LOG_WARN, text);
  }
  free(path);
  errno = saved;
}
