/* SPDX-License-Identifier: MIT */
/*
 * shares DIR [WHAT...]: lists the tree DIR as a loader does, and then prints the paths of its files
 * from DIR, sorted, a line each; a link to a directory has an "@" behind it. What goes wrong is
 * said on stderr, and the status is 1. It allocates nothing itself. WHAT disturbs the listing:
 *
 *   mark           a call that traces show, right before it
 *   again          list twice, and say so if the second list is another one; it may succeed alone
 *   storm          a signal every 0.2 ms, whose handler lets calls be interrupted
 *   memory=BYTES   so much more address space, and no more
 *   files=N        descriptors below N alone
 *   close          all descriptors from 3 on are closed in the middle; then list once more
 *   fork=LIST      a thread forks children, who list, too: they must see the lines of LIST, or fail
 *   setuid=UID     list, become that user, and list again, in this process and a new one
 *   cut=FILE       FILE is emptied in the middle
 *   kill=PID       that process is killed in the middle
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM (1 << 18)
#define MOST 8192

/* What was listed: lines, sorted. */
struct list {
  char text[ROOM];
  const char *lines[MOST];
  size_t used, count;
};

static struct list first, second;
static const char *dir, *cut, *expected;
static bool closes;
static pid_t victim;
static atomic_bool over;

static int add(struct list *l, const char *path, const char *mark) {
  size_t n = strlen(path) + strlen(mark) + 1;
  if (l->used + n > ROOM || l->count == MOST) {
    return E2BIG;
  }
  l->lines[l->count++] = strcat(strcpy(l->text + l->used, path), mark);
  l->used += n;
  return 0;
}

/* What happens when the first entry has been read. */
static void disturb(void) {
  if (cut && truncate(cut, 0) != 0) {
    perror(cut);
    exit(2);
  }
  if (victim > 0) {
    kill(victim, SIGKILL);
    usleep(300000);
  }
  if (closes) {
    for (int fd = 3; fd < 1024; fd++) {
      close(fd);
    }
  }
}

/* The tree below `path`, whose names are shown from `skip` on. 0 or an errno. */
static int walk(struct list *l, char *path, size_t skip) {
  size_t end = strlen(path);
  DIR *d = opendir(path);
  int rc = d ? 0 : errno;
  const struct dirent *e;
  for (size_t k = 0; rc == 0 && (errno = 0, e = readdir(d)); k++) {
    struct stat st;
    if (k == 0 && end < skip) {
      disturb();
    }
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
      continue;
    }
    snprintf(path + end, 4096 - end, "/%s", e->d_name);
    bool is_dir = e->d_type == DT_DIR, is_link = e->d_type == DT_LNK;
    if (e->d_type == DT_UNKNOWN && (rc = lstat(path, &st) == 0 ? 0 : errno) == 0) {
      is_dir = S_ISDIR(st.st_mode);
      is_link = S_ISLNK(st.st_mode);
    }
    if (is_link && (rc = stat(path, &st) == 0 ? 0 : errno) == 0) {
      is_link = S_ISDIR(st.st_mode);
    }
    rc = rc ? rc : is_dir ? walk(l, path, skip) : add(l, path + skip, is_link ? "@" : "");
    path[end] = 0;
  }
  rc = rc ? rc : errno;
  if (d) {
    closedir(d);
  }
  return rc;
}

static int compare(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int list(struct list *l) {
  char path[4096];
  l->used = l->count = 0;
  snprintf(path, sizeof(path), "%s", dir);
  int rc = walk(l, path, strlen(dir) + 1);
  qsort(l->lines, l->count, sizeof(l->lines[0]), compare);
  return rc;
}

static bool is_same(const struct list *a, const struct list *b) {
  bool same = a->count == b->count;
  for (size_t i = 0; same && i < a->count; i++) {
    same = strcmp(a->lines[i], b->lines[i]) == 0;
  }
  return same;
}

/* ---- other threads and children ---- */

/* Whether the list is that of the file `expected`. */
static bool is_expected(const struct list *l) {
  char line[4096];
  FILE *f = fopen(expected, "r");
  size_t i = 0;
  while (f && i < l->count && fgets(line, sizeof(line), f)) {
    line[strcspn(line, "\n")] = 0;
    if (strcmp(line, l->lines[i++]) != 0) {
      return false;
    }
  }
  return f && i == l->count && !fgets(line, sizeof(line), f);
}

static int list_in_child(void) {
  if (list(&second) != 0) {
    return 0;
  }
  return is_expected(&second) ? 0 : 3;
}

static void *make_children(void *result) {
  for (unsigned k = 0; k < 40 && !atomic_load(&over); k++) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
      alarm(200);
      _exit(list_in_child());
    }
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status != 0) {
      *(int *)result = status;
    }
    usleep(300 * (k % 7));
  }
  return NULL;
}

/* ---- */

static void interrupted(int signal) { (void)signal; }

static void start_storm(void) {
  struct itimerval every = {{0, 200}, {0, 200}};
  struct sigaction action = {.sa_handler = interrupted};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &every, NULL);
}

static void stop_storm(void) { setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL); }

static void limit(int what, rlim_t most) {
  struct rlimit l = {most, most};
  if (setrlimit((__rlimit_resource_t)what, &l) != 0) {
    perror("setrlimit");
    exit(2);
  }
}

/* How much address space this process has. */
static rlim_t measure_space(void) {
  unsigned long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%lu", &pages) != 1) {
    exit(2);
  }
  fclose(f);
  return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static int fail(int rc) {
  fprintf(stderr, "%s: %s\n", dir, strerror(rc));
  return 1;
}

static int become(char **argv, const char *user) {
  char *again[] = {argv[0], argv[1], NULL};
  int rc = list(&first);
  if (rc != 0 || setuid((uid_t)atoi(user)) != 0) {
    return fail(rc ? rc : errno);
  }
  rc = list(&second);
  if (rc != 0 || !is_same(&first, &second)) {
    fprintf(stderr, "as another user: %s\n", rc ? strerror(rc) : "OTHER FILES");
    return rc ? 1 : 3;
  }
  execv(argv[0], again);
  return 2;
}

int main(int argc, char **argv) {
  static char buffer[ROOM];
  bool again = false, marked = false, storm = false;
  int status = 0;
  pthread_t thread;
  if (argc < 2) {
    return 2;
  }
  dir = argv[1];
  setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
  for (int i = 2; i < argc; i++) {
    const char *value = strchr(argv[i], '=');
    value = value ? value + 1 : "";
    again |= strcmp(argv[i], "again") == 0;
    marked |= strcmp(argv[i], "mark") == 0;
    storm |= strcmp(argv[i], "storm") == 0;
    closes |= strcmp(argv[i], "close") == 0;
    cut = strncmp(argv[i], "cut=", 4) == 0 ? value : cut;
    victim = strncmp(argv[i], "kill=", 5) == 0 ? atoi(value) : victim;
    expected = strncmp(argv[i], "fork=", 5) == 0 ? value : expected;
    if (strncmp(argv[i], "memory=", 7) == 0) {
      limit(RLIMIT_AS, measure_space() + (rlim_t)atol(value));
    } else if (strncmp(argv[i], "files=", 6) == 0) {
      limit(RLIMIT_NOFILE, (rlim_t)atol(value));
    } else if (strncmp(argv[i], "setuid=", 7) == 0) {
      return become(argv, value);
    }
  }
  if (expected && pthread_create(&thread, NULL, make_children, &status) != 0) {
    return 2;
  }
  if (storm) {
    start_storm();
  }
  if (marked) {
    (void)!access("/begin", F_OK);
  }
  int rc = list(&first);
  if (closes) { /* what was open has gone; a new list must be right */
    closes = false;
    rc = list(&first);
  }
  if (again) {
    int later = list(&second);
    if (rc == 0 && later == 0 && !is_same(&first, &second)) {
      fprintf(stderr, "OTHER FILES\n");
      return 3;
    }
    if (rc != 0 && later == 0) {
      first = second; /* pointers into `second`: fine, it stays */
      rc = 0;
    }
  }
  stop_storm();
  if (expected) {
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    if (status != 0) {
      fprintf(stderr, "a child: status %#x%s\n", (unsigned)status,
              status == 3 << 8 ? ", OTHER FILES" : "");
      return 3;
    }
  }
  if (rc != 0) {
    return fail(rc);
  }
  for (size_t i = 0; i < first.count; i++) {
    puts(first.lines[i]);
  }
  return fflush(stdout) != 0;
}
