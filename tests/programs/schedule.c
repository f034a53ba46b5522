/* SPDX-License-Identifier: MIT */
/*
 * schedule FOLDER OPERATION [, OPERATION]...: lets programs run in turn, system call by system
 * call.
 *
 *   start X [NAME=VALUE]... PROGRAM [ARGUMENT]...
 *                    X is this process and all that come of it. Nothing of it runs yet. Its output
 *                    goes to X.out and X.err in the current directory
 *   until X POINTS   X goes on until it comes to the last of so many points. All of it stays there
 *   run X            X goes on until it has ended, or waits for somebody else
 *   kill X           SIGKILL for the process of X that has come to the point
 *   do PROGRAM [ARGUMENT]...  it runs to its end, and is not watched
 *   end X...         all of these go on until they have ended, SECONDS (300) at most
 *
 * A point is a system call that has to do with FOLDER, or starts, ends or awaits a process. One
 * that comes again and again (a lock that is taken, a file that is not there yet) counts three
 * times. X waits if it tries to lock a file more often, or comes to no point for 0.3 s.
 *
 * A line for each operation tells what came of it: "at POINTS PROGRAM CALL", "waits POINTS",
 * "ended POINTS", "killed PROGRAM CALL", "exit N" or "signal N" of each X that `end` names. Status
 * 1: something hangs, or is wrong. 77: ptrace or seccomp is not allowed. SCHEDULE_LOG: a file for
 * all points.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ACTORS 8
#define THREADS 256
#define KINDS 400
#define TEXT 300
#define QUIET_MS 300
#define OFTEN 3 /* what comes more often is a loop that waits */

/* What tells where a call acts: a path, below a directory's descriptor or not, or a descriptor. */
enum where { ALWAYS, PATH, AT, FD, LOCK_FD };

static const struct call {
  long number;
  const char *name;
  enum where where;
  int argument; /* the path's, the descriptor's, or the directory's: the path comes behind that */
} calls[] = {
    {SYS_openat, "openat", AT, 0},
    {SYS_unlinkat, "unlinkat", AT, 0},
    {SYS_renameat2, "renameat2", AT, 2},
    {SYS_symlinkat, "symlinkat", AT, 1},
    {SYS_readlinkat, "readlinkat", AT, 0},
    {SYS_newfstatat, "newfstatat", AT, 0},
    {SYS_statx, "statx", AT, 0},
    {SYS_faccessat, "faccessat", AT, 0},
    {SYS_mkdirat, "mkdirat", AT, 0},
#ifdef SYS_renameat
    {SYS_renameat, "renameat", AT, 2},
#endif
#ifdef SYS_open
    {SYS_open, "open", PATH, 0},
    {SYS_unlink, "unlink", PATH, 0},
    {SYS_rename, "rename", PATH, 1},
    {SYS_symlink, "symlink", PATH, 1},
    {SYS_readlink, "readlink", PATH, 0},
    {SYS_stat, "stat", PATH, 0},
    {SYS_lstat, "lstat", PATH, 0},
    {SYS_access, "access", PATH, 0},
    {SYS_mkdir, "mkdir", PATH, 0},
    {SYS_vfork, "vfork", ALWAYS, 0},
#endif
    {SYS_flock, "flock", FD, 0},
    {SYS_ftruncate, "ftruncate", FD, 0},
    {SYS_fallocate, "fallocate", FD, 0},
    {SYS_fsync, "fsync", FD, 0},
    {SYS_fchmod, "fchmod", FD, 0},
    {SYS_getdents64, "getdents64", FD, 0},
    {SYS_write, "write", FD, 0},
    {SYS_pwrite64, "pwrite64", FD, 0},
    {SYS_mmap, "mmap", FD, 4},
    {SYS_close, "close", LOCK_FD, 0},
    {SYS_clone, "clone", ALWAYS, 0},
    {SYS_clone3, "clone3", ALWAYS, 0},
    {SYS_execve, "execve", ALWAYS, 0},
    {SYS_waitid, "waitid", ALWAYS, 0},
    {SYS_wait4, "wait4", ALWAYS, 0},
    {SYS_kill, "kill", ALWAYS, 0},
    {SYS_exit_group, "exit_group", ALWAYS, 0},
};

static struct actor {
  const char *name;
  pid_t main;
  size_t threads;
  int status; /* of main, once it has ended */
  bool moves;
  unsigned long points;
  struct kind {
    char text[TEXT];
    unsigned times;
  } kinds[KINDS], *last;
} actors[ACTORS];

static struct thread {
  pid_t id; /* 0: none */
  struct actor *actor;
  bool fresh; /* its first stop is still to come */
  bool held;
} threads[THREADS];

static const char *folder;
static FILE *record;
static struct actor *counted;  /* whose points are counted down */
static unsigned long left;     /* how many are to come */
static struct thread *stopped; /* that has come to the last one */
static bool waits;
static int64_t progress; /* when there was any last, ms */

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  putchar('\n');
  exit(1);
}

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static struct actor *find_actor(const char *name) {
  for (size_t i = 0; i < ACTORS; i++) {
    if (actors[i].name && strcmp(actors[i].name, name) == 0) {
      return &actors[i];
    }
  }
  die("there is no %s", name);
}

static struct thread *find_thread(pid_t id) {
  for (size_t i = 0; i < THREADS; i++) {
    if (threads[i].id == id) {
      return &threads[i];
    }
  }
  return NULL;
}

static struct thread *add_thread(pid_t id, struct actor *actor) {
  struct thread *t = find_thread(id);
  t = t ? t : find_thread(0);
  if (!t) {
    die("too many threads");
  }
  bool early = t->id == id; /* it had stopped before its parent told of it */
  *t = (struct thread){.id = id, .actor = actor, .fresh = !early};
  if (actor) {
    actor->threads++;
  }
  if (early) {
    ptrace(PTRACE_CONT, id, 0, 0);
  }
  return t;
}

static void resume(struct thread *t, int signal) {
  t->held = false;
  ptrace(PTRACE_CONT, t->id, 0, (long)signal);
}

/* ---- what a call is ---- */

static void read_string(pid_t id, uint64_t at, char *text, size_t size) {
  char path[40];
  snprintf(path, sizeof(path), "/proc/%d/mem", id);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : pread(fd, text, size - 1, (off_t)at);
  text[n > 0 ? n : 0] = 0;
  if (fd >= 0) {
    close(fd);
  }
}

static void read_link(pid_t id, const char *what, int fd, char *text, size_t size) {
  char path[60];
  snprintf(path, sizeof(path), fd < 0 ? "/proc/%d/%s" : "/proc/%d/%s/%d", id, what, fd);
  ssize_t n = readlink(path, text, size - 1);
  text[n > 0 ? n : 0] = 0;
}

/* What is called, in text[TEXT]; whether that is a point. */
static bool describe(pid_t id, char *text) {
  struct __ptrace_syscall_info info;
  char path[2 * PATH_MAX] = "", name[PATH_MAX] = "", program[32] = "";
  if (ptrace(PTRACE_GET_SYSCALL_INFO, id, sizeof(info), &info) <= 0) {
    return false;
  }
  const uint64_t *argument = info.seccomp.args;
  const struct call *c = calls;
  while (c < calls + COUNT(calls) && c->number != (long)info.seccomp.nr) {
    c++;
  }
  if (c == calls + COUNT(calls)) {
    return false;
  }
  int fd = (int)argument[c->argument];
  switch (c->where) {
  case ALWAYS:
    break;
  case FD:
  case LOCK_FD:
    read_link(id, "fd", fd < 0 ? INT_MAX : fd, path, sizeof(path));
    break;
  case PATH:
  case AT:
    read_string(id, argument[c->argument + (c->where == AT)], name, sizeof(name));
    if (!name[0]) {
      return false; /* an open file itself */
    }
    if (name[0] != '/') {
      bool here = c->where == PATH || fd == AT_FDCWD;
      read_link(id, here ? "cwd" : "fd", here ? -1 : fd, path, PATH_MAX);
      strcat(path, "/");
    }
    strcat(path, name);
  }
  size_t n = strlen(path), k = strlen(folder);
  if (c->where != ALWAYS && (strncmp(path, folder, k) != 0 || (path[k] && path[k] != '/'))) {
    return false;
  }
  if (c->where == LOCK_FD && (n < 5 || strcmp(path + n - 5, ".lock") != 0)) {
    return false;
  }
  char comm[40];
  snprintf(comm, sizeof(comm), "/proc/%d/comm", id);
  int file = open(comm, O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? 0 : read(file, program, sizeof(program) - 1);
  close(file);
  program[length > 0 ? length - 1 : 0] = 0;
  bool lock = c->number == SYS_flock;
  snprintf(text, TEXT, "%s %s%s%s%.200s", program, c->name,
           lock ? (argument[1] & 8 ? "-un" : "") : "", c->where == ALWAYS ? "" : " ",
           c->where == ALWAYS ? "" : path + k);
  return true;
}

/* Whether the thread, which is about to make a call, is to stay there. */
static bool come_to(struct thread *t) {
  struct actor *a = t->actor;
  struct kind *kind = a->kinds;
  char text[TEXT];
  if (!describe(t->id, text)) {
    return false;
  }
  while (kind->times && strcmp(kind->text, text) != 0) {
    if (++kind == a->kinds + KINDS) {
      die("too many points");
    }
  }
  strcpy(kind->text, text);
  bool again = ++kind->times > OFTEN;
  waits = waits || (again && kind == a->last && strstr(text, " flock /"));
  a->last = kind;
  if (!again) {
    a->points++;
    progress = now_ms();
    if (record) {
      fprintf(record, "%s %lu %d %s\n", a->name, a->points, t->id, text);
    }
  }
  if (!a->moves) {
    return true;
  }
  if (!again && a == counted && left > 0 && --left == 0) {
    stopped = t;
    return true;
  }
  return false;
}

/* ---- what is heard of them ---- */

static void hear(pid_t id, int status) {
  struct thread *t = find_thread(id);
  if (WIFEXITED(status) || WIFSIGNALED(status)) {
    if (!t) {
      return;
    }
    progress = now_ms();
    if (t->actor && t->actor->main == id) {
      t->actor->status = status;
    }
    if (t->actor) {
      t->actor->threads--;
    }
    stopped = stopped == t ? NULL : stopped;
    *t = (struct thread){.id = 0};
    return;
  }
  if (!t) { /* a child of whom its parent has not told yet: it waits for that */
    t = add_thread(id, NULL);
    return;
  }
  if (!t->actor) {
    return;
  }
  int event = status >> 16, signal = WSTOPSIG(status);
  unsigned long child;
  if (event == PTRACE_EVENT_SECCOMP) {
    t->held = come_to(t);
    if (!t->held) {
      resume(t, 0);
    }
    return;
  }
  if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
    if (ptrace(PTRACE_GETEVENTMSG, id, 0, &child) == 0) {
      add_thread((pid_t)child, t->actor);
    }
  }
  resume(t, event || t->fresh ? 0 : signal);
  t->fresh = false;
}

/* Whether all that may move have ended. */
static bool all_ended(void) {
  for (size_t i = 0; i < ACTORS; i++) {
    if (actors[i].moves && actors[i].threads > 0) {
      return false;
    }
  }
  return true;
}

/* Let those that may move do so until they have ended, wait (if `patient` is 0), or come to the
 * point; no more than `patient` ms. false: that was too little. */
static bool go(int64_t patient) {
  sigset_t children;
  int status;
  pid_t id;
  int64_t begin = now_ms();
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  waits = false;
  stopped = NULL;
  progress = begin;
  for (size_t i = 0; i < THREADS; i++) {
    if (threads[i].id && threads[i].held && threads[i].actor->moves) {
      resume(&threads[i], 0);
    }
  }
  while (!all_ended() && !stopped && !(waits && patient == 0)) {
    while (!stopped && (id = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
      hear(id, status);
    }
    int64_t now = now_ms();
    if (stopped || all_ended()) {
      break;
    }
    if (patient == 0 && now >= progress + QUIET_MS) {
      waits = true;
    } else if (patient > 0 && now >= begin + patient) {
      return false;
    } else if (!waits || patient > 0) {
      sigtimedwait(&children, NULL, &(struct timespec){0, 20000000});
    }
  }
  return true;
}

/* ---- operations ---- */

static void filter_calls(void) {
  struct sock_filter filter[2 * COUNT(calls) + 2];
  size_t n = 0;
  filter[n++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < COUNT(calls); i++) {
    filter[n++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].number, 0, 1);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  }
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {.len = (unsigned short)n, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    _exit(77);
  }
}

static void redirect(const char *name, const char *suffix, int to) {
  char path[NAME_MAX];
  snprintf(path, sizeof(path), "%s.%s", name, suffix);
  dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644), to);
}

/* In a new child: no signal is blocked, and what it prints goes into files of its name. */
static void begin_child(const char *name) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  redirect(name, "out", 1);
  redirect(name, "err", 2);
}

static void start(const char *name, char **words) {
  struct actor *a = actors;
  int status;
  while (a->name && ++a < actors + ACTORS) {
  }
  if (a == actors + ACTORS) {
    die("too many");
  }
  fflush(NULL);
  pid_t id = fork();
  if (id == 0) {
    begin_child(name);
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) {
      _exit(77);
    }
    for (; *words && strchr(*words, '='); words++) {
      putenv(*words);
    }
    raise(SIGSTOP);
    filter_calls();
    execvp(words[0], words);
    _exit(127);
  }
  if (id < 0 || waitpid(id, &status, 0) != id) {
    die("fork: %s", strerror(errno));
  }
  if (!WIFSTOPPED(status) ||
      ptrace(PTRACE_SETOPTIONS, id, 0,
             PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                 PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC) != 0) {
    exit(77);
  }
  *a = (struct actor){.name = name, .main = id};
  struct thread *t = add_thread(id, a);
  t->fresh = false;
  t->held = true;
}

static void tell_end(const struct actor *a) {
  bool killed = WIFSIGNALED(a->status);
  printf("%s %s %d\n", a->name, killed ? "signal" : "exit",
         killed ? WTERMSIG(a->status) : WEXITSTATUS(a->status));
}

static void perform(char **words) {
  const char *what = words[0];
  if (strcmp(what, "start") == 0) {
    start(words[1], words + 2);
    return;
  }
  if (strcmp(what, "do") == 0) {
    fflush(NULL);
    pid_t id = fork();
    if (id == 0) {
      begin_child("do");
      execvp(words[1], words + 1);
      _exit(127);
    }
    int status;
    waitpid(id, &status, 0);
    printf("do %d\n", WEXITSTATUS(status));
    return;
  }
  struct actor *a = find_actor(words[1]);
  if (strcmp(what, "kill") == 0) {
    if (stopped && stopped->actor == a) {
      printf("%s killed\n", a->name);
      syscall(SYS_tkill, stopped->id, SIGKILL);
      stopped = NULL;
    }
    return;
  }
  bool end = strcmp(what, "end") == 0;
  for (size_t i = 0; i < ACTORS; i++) {
    actors[i].moves = false;
  }
  for (char **name = words + 1; *name && (end || name == words + 1); name++) {
    find_actor(*name)->moves = true;
  }
  counted = strcmp(what, "until") == 0 ? a : NULL;
  left = counted ? strtoul(words[2], NULL, 10) : 0;
  bool done = go(end ? 1000L * atol(getenv("SECONDS") ? getenv("SECONDS") : "300") : 0);
  if (!done) {
    die("hangs: %s", words[1]);
  }
  if (end) {
    for (char **name = words + 1; *name; name++) {
      tell_end(find_actor(*name));
    }
    return;
  }
  char text[TEXT] = "";
  if (stopped) {
    describe(stopped->id, text);
  }
  printf("%s %s %lu %s\n", a->name,
         stopped           ? "at"
         : a->threads == 0 ? "ended"
                           : "waits",
         a->points, text);
}

int main(int argc, char **argv) {
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  sigprocmask(SIG_BLOCK, &children, NULL);
  const char *log = getenv("SCHEDULE_LOG");
  record = log ? fopen(log, "we") : NULL;
  if (argc < 3) {
    die("schedule FOLDER OPERATION [, OPERATION]...");
  }
  folder = argv[1];
  for (char **word = argv + 2, **first = word;; word++) {
    if (!*word || strcmp(*word, ",") == 0) {
      bool last = !*word;
      *word = NULL;
      perform(first);
      first = word + 1;
      if (last) {
        break;
      }
    }
  }
  return 0;
}
