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
#include "listing/identity.h"

#define DAY (24L * 3600) /* seconds */
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
  bool own = row == found->own;
  row = find_origin(found, row);
  for (size_t i = 1; i < found->steps; i++) {
    if (read_link(&found->way[i], row->size, out)) {
      return 0;
    }
    if (found->way[i].pid == row->end.pid) {
      break;
    }
  }
  char place[200], boot[2 * SHARD_BOOT_SIZE + 1];
  bool numbered = row->kind == SHARD_LAUNCHER_NUMBERED;
  /* A rank that outlives its launcher is a child of the first process, which lives on. A program
   * that sets a launcher's variables, in torchrun's world of one, may do so for one world after the
   * other. */
  bool known = numbered || (row->kind == SHARD_LAUNCHER_PROCESS && row->found && row->age > 0 &&
                            (row->end.pid != 1 || row->marks[0]));
  if (numbered || (row->kind == SHARD_LAUNCHER_PROCESS && row->marks[0] && !row->found)) {
    rc = read_boot(boot);
    snprintf(place, sizeof(place), "%s:%s", row->launcher, boot);
  } else {
    rc = identify(own ? &row->topmost : &row->end, place, sizeof(place));
  }
  snprintf(out->name, sizeof(out->name), "%s%s", place, row->marks);
  out->held = !known || shard_launcher_is_of_one(row);
  return rc;
}

/* The job of a process that has not looked yet. 1; 0: none is known; or a negative errno. */
static int find_job(const struct shard_launcher *found, struct shard_job *out) {
  const char *own = shard_config()->job;
  const struct shard_launcher_row *row = found->youngest, *source = found->own;
  if (own) {
    snprintf(out->name, sizeof(out->name), "SHARD_JOB=%s", own);
    out->held = false;
    return 1;
  }
  if (found->rc != 0 || found->steps == 0) {
    return found->rc == -EINVAL || found->rc == -ENOENT ? 0 : found->rc;
  }
  source = source ? source : row;
  if (source && (!row || shard_launcher_is_of_one(row))) {
    row = source;
  }
  int rc = row ? name_job(found, row, out) : 0;
  if (!row || rc != 0) {
    return rc;
  }
  if (source->kind == SHARD_LAUNCHER_ANYBODY || source->age == 0) {
    leave_link(&found->way[0], row->size, out); /* where name_job() looks */
  }
  return 1;
}

/* ---- held by a lock ----------------------------------------------------- */

/* Hold the file: *number for as long as processes do. 1; 0: no file can be had; or a negative
 * errno. */
static int hold_file(const char *path, uint64_t *number, bool *made) {
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
      return shard_error_is_shortage(errno) ? -errno : 0;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) { /* nobody is there */
      if (getrandom(number, sizeof(*number), GRND_NONBLOCK) != sizeof(*number)) {
        *number = (uint64_t)shard_clock_real_ns();
      }
      *number |= 1;
      if (pwrite(fd, number, sizeof(*number), 0) != sizeof(*number)) {
        break;
      }
    }
    /* Another one may have been there between the two locks: what counts is what stands now. */
    done = TEMP_FAILURE_RETRY(flock(fd, LOCK_SH)) == 0 &&
           shard_kernel_has_name(fd, AT_FDCWD, path) &&
           pread(fd, number, sizeof(*number), 0) == sizeof(*number);
  }
  /* The lock lasts as long as the mapping, which children inherit. */
  done = done && mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED;
  int rc = done ? 1 : errno == ENOSPC || errno == EDQUOT ? 0 : -errno;
  shard_file_close(fd);
  return rc;
}

/* The same of a job's file. */
static int hold(const char *name, uint64_t *number) {
  bool made = false;
  char *path = make_path("held", name, "");
  int rc = path ? hold_file(path, number, &made) : shard_error_is_shortage(errno) ? -errno : 0;
  if (rc > 0 && made) {
    remove_all_old(path);
  }
  free(path);
  return rc;
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

/* The number of a held job, which is taken once. 1, 0 or a negative errno, as hold(). */
static int have_number(struct settled *s) {
  uint64_t number = atomic_load(&s->number);
  int rc = number != 0 ? 1 : hold(s->job.name, &number);
  if (rc > 0) {
    atomic_store(&s->number, number);
  }
  return rc;
}

int shard_job_get(char *buf, size_t size) {
  int saved = errno, rc = -ENOMEM, n = -1;
  struct shard_launcher *found = find_launcher();
  struct settled *s = found ? settle(found, &rc) : NULL;
  if (s && !s->job.held) {
    n = snprintf(buf, size, "%s", s->job.name);
  } else if (s && (rc = have_number(s)) > 0) {
    n = snprintf(buf, size, "%s %llx", s->job.name, (unsigned long long)atomic_load(&s->number));
  }
  rc = n < 0 ? rc : (size_t)n < size;
  free(found);
  errno = saved;
  return rc;
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
  struct shard_launcher *found = shard_launcher_is_late() ? find_launcher() : NULL;
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
