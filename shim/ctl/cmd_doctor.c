/* SPDX-License-Identifier: MIT */
/*
 * cmd_doctor.c - shardctl doctor: whether libshard can work here, checked in the way it works.
 *
 * The preload is tried on shardctl itself: with the hidden word TRIAL it tells whether libshard.so
 * is in the process, and lists a small dataset through it, which takes all of the way: the shard
 * view, the cache, the builder and the reader. Nothing stays behind. No value of a variable is
 * printed, only paths and what is said by libshard's own messages.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/filesystem.h"
#include "base/xxh64.h"
#include "cache/cachedir.h"
#include "cache/job.h"
#include "config/config.h"
#include "config/dataset.h"
#include "config/launcher.h"
#include "config/listings.h"
#include "config/pattern.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/human.h"
#include "ctl/json.h"
#include "ctl/libshard_path.h"
#include "ctl/opening.h"
#include "ctl/python.h"
#include "ctl/scratch.h"
#include "libshard.h"
#include "listing/listing.h"

#define TRIAL "--trial"
#define TRIAL_FILES 3
#define SECONDS 10
#define ROOM_LEAST (64e6) /* bytes in the cache directory: some ten million names */

static bool only_variables;

static const struct ctl_option rows[] = {
    CTL_ROW_JSON, {"variables", .flag = &only_variables}, CTL_ROW_END};

enum result { OK, WARN, FAIL };

static struct {
  struct json_object *checks; /* NULL: told in lines, as they are made */
  unsigned failed;
  char self[PATH_MAX], library[PATH_MAX]; /* library: "" if it was not found */
} doctor;

__attribute__((format(printf, 3, 4))) static void tell(enum result result, const char *what,
                                                       const char *format, ...) {
  static const char *const words[] = {"ok", "warn", "FAIL"};
  char detail[1200];
  va_list args;
  va_start(args, format);
  vsnprintf(detail, sizeof(detail), format, args);
  va_end(args);
  doctor.failed += result == FAIL;
  if (doctor.checks) {
    struct json_object *o = ctl_json_object();
    ctl_json_add_text(o, "check", what);
    ctl_json_add_text(o, "result", words[result]);
    ctl_json_add_text(o, "detail", detail);
    ctl_json_add(doctor.checks, NULL, o);
  } else {
    ctl_human_line("%-4s  %-9s  %s", words[result], what, detail);
  }
}

/* ---- programs ----------------------------------------------------------- */

struct run {
  char out[1000]; /* the beginning of stdout and stderr, one after the other as they came */
  int status;     /* as of waitpid(2); -1: it took too long */
};

/* In the child: no SHARD_ variable and no preload but what is given. */
static void set_environment(const char *const *variables) {
  char **to = environ;
  for (char **e = environ; environ && *e; e++) {
    if (strncmp(*e, "SHARD_", 6) != 0 && strncmp(*e, "LD_PRELOAD=", 11) != 0) {
      *to++ = *e;
    }
  }
  if (environ) {
    *to = NULL;
  }
  for (; variables[0]; variables += 2) {
    setenv(variables[0], variables[1], 1);
  }
}

static void execute(char *const argv[], const char *const *variables, int out) {
  int null = open("/dev/null", O_RDONLY);
  setpgid(0, 0);
  if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) {
    _exit(126);
  }
  set_environment(variables);
  execvp(argv[0], argv);
  dprintf(2, "%s", strerror(errno));
  _exit(127);
}

/* Run a program with these variables (name, value, ..., NULL). */
static void run(struct run *r, char *const argv[], const char *const *variables) {
  int pipes[2];
  *r = (struct run){.status = 126 << 8};
  pid_t pid = pipe2(pipes, O_CLOEXEC) == 0 ? fork() : -1;
  if (pid < 0) {
    snprintf(r->out, sizeof(r->out), "cannot start it: %s", strerror(errno));
    return;
  }
  if (pid == 0) {
    execute(argv, variables, pipes[1]);
  }
  close(pipes[1]);
  struct pollfd p = {.fd = pipes[0], .events = POLLIN};
  size_t used = 0;
  ssize_t n = 1;
  time_t end = time(NULL) + SECONDS;
  while (n > 0 && time(NULL) < end) {
    char chunk[512];
    if (poll(&p, 1, 200) > 0) {
      n = read(pipes[0], chunk, sizeof(chunk));
      for (ssize_t i = 0; i < n && used + 1 < sizeof(r->out); i++) {
        r->out[used++] = chunk[i];
      }
    }
  }
  close(pipes[0]);
  if (n > 0) {
    kill(-pid, SIGKILL);
  }
  (void)TEMP_FAILURE_RETRY(waitpid(pid, &r->status, 0));
  r->status = n > 0 ? -1 : r->status;
  while (used > 0 && r->out[used - 1] == '\n') {
    used--;
  }
  r->out[used] = 0;
}

static const char *ending(const struct run *r) {
  static char text[64];
  if (r->status < 0) {
    snprintf(text, sizeof(text), "took more than %d s", SECONDS);
  } else if (WIFSIGNALED(r->status)) {
    snprintf(text, sizeof(text), "was killed by signal %d", WTERMSIG(r->status));
  } else {
    snprintf(text, sizeof(text), "ended with status %d", WEXITSTATUS(r->status));
  }
  return text;
}

/* What a child under the preload does: tell the library's version, and count the entries of a
 * directory. */
static int try_library(const char *dir) {
  const char *(*version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "shard_version");
  printf("%s", version ? version() : "none");
  DIR *stream = dir ? opendir(dir) : NULL;
  if (dir && !stream) {
    return CTL_FAILED;
  }
  int count = 0;
  const struct dirent *d;
  while (stream && (d = readdir(stream))) {
    count += d->d_name[0] != '.';
  }
  if (stream) {
    closedir(stream);
    printf(" %d", count);
  }
  return CTL_DONE;
}

/* ---- the checks --------------------------------------------------------- */

/* Where shard_self_program() of the library would find this shardctl. */
static void check_library(void) {
  char err[1000];
  if (!ctl_libshard_path_find(doctor.self, doctor.library, err, sizeof(err))) {
    tell(FAIL, "library", "%s", err);
    return;
  }
  void *library = dlopen(doctor.library, RTLD_NOW | RTLD_LOCAL);
  const char *(*version)(void) =
      library ? (const char *(*)(void))dlsym(library, "shard_version") : NULL;
  if (!version) {
    tell(FAIL, "library", "%.700s; build or install it anew", dlerror());
    doctor.library[0] = 0;
  } else if (strcmp(version(), shard_version()) != 0) {
    tell(FAIL, "library", "'%.500s' is version %.40s, shardctl %s; install both together",
         doctor.library, version(), shard_version());
  } else {
    tell(OK, "library", "%s, version %s", doctor.library, shard_version());
  }
}

/* Run this shardctl under the library: what it prints is `want`, or *r tells how it ended. */
static bool try_under_library(struct run *r, char *dir, const char *const *variables,
                              const char *want) {
  char *argv[] = {doctor.self, "doctor", "--", TRIAL, dir, NULL};
  run(r, argv, variables);
  return r->status == 0 && strcmp(r->out, want) == 0;
}

/* What a program that the caller starts gets: shardctl itself is one. */
static void tell_of_callers_preload(void) {
  char given[PATH_MAX];
  Dl_info loaded = {.dli_fname = NULL};
  void *version = dlsym(RTLD_DEFAULT, "shard_version");
  bool named = ctl_libshard_path_preloaded(given);
  if (version && dladdr(version, &loaded) &&
      !ctl_libshard_path_same(loaded.dli_fname, doctor.library)) {
    tell(FAIL, "preload", "LD_PRELOAD has another libshard.so, '%.500s'; set LD_PRELOAD=%.500s",
         loaded.dli_fname, doctor.library);
  } else if (!version && named) {
    tell(FAIL, "preload", "LD_PRELOAD names '%.500s', which is not loaded%s; set LD_PRELOAD=%.500s",
         given, access(given, R_OK) != 0 ? ": it is not there, or cannot be read" : "",
         doctor.library);
  } else {
    tell(OK, "preload", "LD_PRELOAD=%s takes effect%s", doctor.library,
         version ? "" : "; it is not set here, so only what 'shardctl run' starts is served");
  }
}

static void check_preload(void) {
  const char *const variables[] = {"LD_PRELOAD", doctor.library, NULL};
  struct run r;
  if (try_under_library(&r, NULL, variables, shard_version())) {
    tell_of_callers_preload();
  } else if (r.status == 0 && strcmp(r.out, "none") == 0) {
    tell(FAIL, "preload",
         "LD_PRELOAD=%.500s has no effect: is shardctl set-uid, or preloading forbidden here?",
         doctor.library);
  } else {
    tell(FAIL, "preload", "a program under LD_PRELOAD=%.500s %s: %.300s", doctor.library,
         ending(&r), r.out);
  }
}

static void read_name(long pid, char name[64]) {
  char path[64];
  size_t size;
  snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
  char *text = shard_file_read(path, &size);
  snprintf(name, 64, "%.*s", text ? (int)strcspn(text, "\n") : 1, text ? text : "?");
  free(text);
}

/* A line for each process on the way up: which numbers it was started with. */
static void tell_way(const struct shard_launcher *l) {
  for (size_t i = 0; i < l->steps; i++) {
    char numbers[700] = "", name[64];
    for (size_t k = 0; k < l->count; k++) {
      const struct shard_launcher_row *row = &l->rows[k];
      size_t used = strlen(numbers);
      if (l->way[i].started & row->bit) {
        snprintf(numbers + used, sizeof(numbers) - used, "%s %s=%s of %s=%s", used ? "," : "",
                 row->names[0], row->rank, row->names[1], row->size);
      }
    }
    read_name(l->way[i].pid, name);
    tell(OK, "climb", "%ld %s: %s%s", l->way[i].pid, name,
         !l->way[i].start ? "hidden"
         : numbers[0]     ? "started with"
                          : "started with none of the numbers that are seen here",
         numbers);
  }
}

static void check_launcher(void) {
  struct shard_launcher *l = malloc(sizeof(*l));
  struct shard_job job;
  if (!l) {
    tell(FAIL, "launcher", "out of memory");
    return;
  }
  shard_launcher_find(l);
  const struct shard_world *w = &l->world;
  if (l->rc == 0) {
    tell(l->note[0] ? WARN : OK, "launcher", "%s: rank %d of %d%s%s", w->launcher, w->rank, w->size,
         l->note[0] ? "; " : "", l->note);
  } else if (l->rc == -ENOENT) {
    tell(OK, "launcher",
         "none has started this; 'mpirun -n 2 shardctl doctor' (srun, torchrun) "
         "tells whether ranks are found");
  } else {
    tell(FAIL, "launcher", "%s", l->line);
  }
  tell_way(l);
  if (shard_job_find(l, &job)) { /* a hash: no value of a variable is told */
    tell(OK, "job", "%016llx%s", (unsigned long long)shard_xxh64(job.name, strlen(job.name), 0),
         job.held ? ", as long as a process of the job lives" : "");
  }
  free(l);
}

/* Whether the caller's SHARD_DATASET is there. */
static bool check_datasets(void) {
  struct shard_dataset_item item;
  const char *rest = shard_config()->dataset;
  while (rest && (rest = shard_dataset_next(rest, &item))) {
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof(path), "%.*s", (int)item.path_length, item.path);
    int error = item.path_length == 0  ? 0 /* a bucket */
                : stat(path, &st) != 0 ? errno
                : S_ISDIR(st.st_mode)  ? 0
                                       : ENOTDIR;
    if (error != 0) {
      tell(FAIL, "variables", "SHARD_DATASET='%.500s': %s", path, strerror(error));
      return false;
    }
  }
  return true;
}

/* Whether SHARD_LISTING is whole, as far as its paths are the same for all ranks and datasets. */
static bool check_listings(void) {
  struct shard_listings_item item;
  struct stat st;
  const char *rest = shard_config()->listing;
  while (rest && (rest = shard_listings_next(rest, &item))) {
    char path[PATH_MAX];
    struct shard_listing *l;
    snprintf(path, sizeof(path), "%.*s", (int)item.length, item.text);
    if (strchr(path, '%') || shard_listings_is_object(path)) {
      continue;
    }
    int rc = stat(path, &st) != 0 ? -errno : 0;
    if (rc == 0 && !shard_pattern_is_manifest(path)) {
      rc = ctl_opening_checked(path, &l);
      shard_listing_close(rc == 0 ? l : NULL);
    }
    if (rc != 0) {
      tell(FAIL, "variables", "SHARD_LISTING='%.500s': %s", path, shard_listing_strerror(rc));
      return false;
    }
  }
  return true;
}

static bool check_stats(void) {
  char folder[PATH_MAX];
  snprintf(folder, sizeof(folder), "%s", shard_config()->stats ? shard_config()->stats : "");
  char *slash = access(folder, F_OK) == 0 ? NULL : strrchr(folder, '/'); /* it is made there */
  if (slash) {
    slash[slash == folder] = 0;
  }
  if (*folder && access(folder, W_OK | X_OK) != 0) {
    tell(FAIL, "variables", "SHARD_STATS: '%s' cannot be written to: %s", folder, strerror(errno));
    return false;
  }
  return true;
}

/* LIBSHARD_NAME, where SHARD_NAME is meant. */
static bool check_prefixes(void) {
  struct shard_config_variable ours;
  char name[80];
  for (size_t i = 0; shard_config_describe(i, &ours); i++) {
    snprintf(name, sizeof(name), "LIB%s", ours.name);
    if (getenv(name)) {
      tell(WARN, "variables", "%s is set, which nothing reads; did you mean %s?", name, ours.name);
      return false;
    }
  }
  return true;
}

/* false: the cache directory cannot be told. */
static bool check_variables(void) {
  char err[700], names[600] = "", others[500] = "";
  if (shard_config_check(err, sizeof(err)) != 0) {
    tell(FAIL, "variables", "%s", err);
    return false;
  }
  for (size_t i = 0; environ && environ[i]; i++) {
    bool foreign = shard_config_is_foreign(environ[i]);
    char *list = foreign ? others : names;
    size_t used = strlen(list), size = foreign ? sizeof(others) : sizeof(names);
    if (strncmp(environ[i], "SHARD_", 6) == 0) {
      snprintf(list + used, size - used, " %.*s", (int)strcspn(environ[i], "="), environ[i]);
    }
  }
  if (check_datasets() && check_listings() && check_stats() && check_prefixes()) {
    tell(OK, "variables", "%s%s%s%s", names[0] ? "valid:" : "none is set", names,
         others[0] ? "; libshard does not read" : "", others);
  }
  return true;
}

static bool in_memory(const struct statfs *fs) {
  return (unsigned)fs->f_type == 0x01021994 || (unsigned)fs->f_type == 0x858458f6;
}

/* Whether a file can be made in a directory, which is seen by making one without a name. */
static bool writable(const char *dir) {
  int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
    return access(dir, W_OK | X_OK) == 0;
  }
  int fault = fd < 0 ? errno : posix_fallocate(fd, 0, 4096);
  shard_file_close(fd);
  errno = fault;
  return fault == 0;
}

static void check_cache(void) {
  char dir[PATH_MAX], asked[PATH_MAX], err[700];
  ssize_t rc = shard_cachedir_find(false, dir, sizeof(dir), err, sizeof(err));
  bool missing = rc == -ENOENT;
  if (rc < 0 && !missing) {
    tell(FAIL, "cache", "%s", err);
    return;
  }
  size_t length = strlen(dir);
  while (length > 1 && dir[length - 1] == '/') {
    dir[--length] = 0;
  }
  memcpy(asked, dir, length + 1);
  char *slash = strrchr(dir, '/');
  if (missing && slash) { /* can it be made? */
    slash[slash == dir] = 0;
  }
  struct statfs fs;
  if (statfs(dir, &fs) != 0 || !writable(dir)) {
    tell(FAIL, "cache", "cannot make '%.500s', or write there: '%.500s': %s; set SHARD_CACHE_DIR",
         asked, dir, strerror(errno));
    return;
  }
  double bytes = (double)fs.f_bavail * (double)fs.f_bsize;
  const char *net = shard_filesystem_network((unsigned)fs.f_type), *kind = net ? net
                                                                           : in_memory(&fs)
                                                                               ? "in memory"
                                                                               : "on disk";
  struct ctl_human room = ctl_human_bytes(bytes);
  if (net) {
    tell(WARN, "cache",
         "'%.500s' is on %s, %s free: every node would use it; set SHARD_CACHE_DIR to "
         "a directory of the node",
         dir, kind, room.text);
  } else if (bytes < ROOM_LEAST) {
    tell(WARN, "cache",
         "'%.500s' has only %s free (%s), 5 B a name are needed; set SHARD_CACHE_DIR", dir,
         room.text, kind);
  } else {
    tell(OK, "cache", "%s%s: %s, %s free", missing ? "will be made in " : "", dir, kind, room.text);
  }
}

/* TRIAL_FILES files in a folder. */
static bool make_data(const char *dir) {
  char path[PATH_MAX];
  bool made = true;
  for (int i = 0; made && i < TRIAL_FILES; i++) {
    snprintf(path, sizeof(path), "%s/%d", dir, i);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    made = fd >= 0 && close(fd) == 0;
  }
  return made;
}

static void check_listing(void) {
  struct ctl_scratch data = {0}, cache = {0};
  const char *base = ctl_scratch_parent();
  char path[PATH_MAX], want[64];
  struct run r;
  int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  bool made = ctl_scratch_make(&data) == CTL_DONE && ctl_scratch_make(&cache) == CTL_DONE &&
              make_data(data.path) && realpath(cache.path, path) && chdir(data.path) == 0;
  snprintf(want, sizeof(want), "%s %d", shard_version(), TRIAL_FILES);
  const char *const variables[] = {"LD_PRELOAD",
                                   doctor.library,
                                   "SHARD_DATASET",
                                   ".", /* a path with a colon would be two */
                                   "SHARD_CACHE_DIR",
                                   path,
                                   "SHARD_RANK",
                                   "0",
                                   "SHARD_SIZE",
                                   "1",
                                   "SHARD_TIMEOUT",
                                   "8",
                                   NULL};
  if (!made) {
    tell(FAIL, "listing", "cannot make files in '%.500s'; set TMPDIR", base);
  } else if (try_under_library(&r, ".", variables, want)) {
    tell(OK, "listing", "%d files below %s were listed and read through the library", TRIAL_FILES,
         base);
  } else {
    tell(FAIL, "listing", "a program that lists %d files below '%.300s' %s: %.500s", TRIAL_FILES,
         base, ending(&r), r.out);
  }
  if (fchdir(here) != 0) {
    tell(WARN, "listing", "cannot go back to the working directory: %s", strerror(errno));
  }
  shard_file_close(here);
  ctl_scratch_remove(&data);
  ctl_scratch_remove(&cache);
}

/*
 * The adapter starts when dlio_benchmark is imported, and compares its functions then. The last
 * line begins with "known: ", and tells which family it is; or it is "unknown".
 */
static char dlio_script[] = CTL_PYTHON_BEGIN
    "import importlib.util\n"
    "print('Python %d.%d.%d, %s' % (sys.version_info[:3] + (sys.executable,)))\n"
    "spec = importlib.util.find_spec('dlio_benchmark')\n"
    "print((list(spec.submodule_search_locations or ['?']))[0] if spec else '')\n"
    "sys.stdout.flush()\n"
    "if spec:\n"
    "    import dlio_benchmark\n"
    "    adapter = sys.modules.get('_libshard')\n"
    "    family = adapter.family() if adapter else None\n"
    "    print('known: %s, a version that libshard knows' % family if family else 'unknown')\n";

static void check_python(void) {
  char *argv[] = {(char *)ctl_python(), "-c", dlio_script, NULL};
  const char *variables[5] = {"PYTHONDONTWRITEBYTECODE", "1"};
  if (doctor.library[0]) {
    variables[2] = "LD_PRELOAD";
    variables[3] = doctor.library;
  }
  struct run r;
  bool less = ctl_python_clean_path();
  run(&r, argv, variables);
  if (strncmp(r.out, "Python ", 7) != 0) {
    tell(WARN, "python", "'%.300s' %s: %.300s; set PYTHON to the benchmark's interpreter", argv[0],
         ending(&r), r.out);
    return;
  }
  /* A line of the interpreter, one of DLIO's folder, one of the verdict. */
  char *folder = strchr(r.out, '\n'), *rest = NULL;
  if (folder) {
    *folder++ = 0;
    rest = strchr(folder, '\n');
  }
  const char *verdict = ""; /* the last line */
  if (rest) {
    *rest++ = 0;
    verdict = strrchr(rest, '\n') ? strrchr(rest, '\n') + 1 : rest;
  }
  tell(OK, "python", "%s", r.out);
  if (!folder || !*folder) {
    tell(WARN, "dlio",
         "this Python has no dlio_benchmark; set PYTHON to the benchmark's interpreter%s",
         less ? " (" CTL_PYTHON_LESS ")" : "");
  } else if (strncmp(verdict, "known: ", 7) == 0) {
    tell(OK, "dlio", "%s: %.500s", folder, verdict + 7);
  } else if (!doctor.library[0]) {
    tell(WARN, "dlio", "%s: without libshard.so it cannot be told whether it is known", folder);
  } else {
    /* The adapter's line, which ends with why. */
    static const char compressed[] = "are compressed: ", unmodified[] = "unmodified: ";
    const char *why = rest ? strstr(rest, compressed) : NULL,
               *words = why ? compressed : unmodified;
    why = !why && rest ? strstr(rest, unmodified) : why;
    char *end = rest && verdict > rest ? rest + (verdict - rest) - 1 : NULL;
    if (end && strcmp(verdict, "unknown") == 0) {
      *end = 0; /* it is not for people */
    }
    tell(WARN, "dlio", "%s would run unmodified%s: %.600s", folder,
         words == compressed ? ", and its lists be compressed" : "",
         why    ? why + strlen(words)
         : rest ? rest
                : ending(&r));
  }
}

static void check_limits(void) {
  struct rlimit files = {0, 0};
  struct statfs fs;
  getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 256) {
    tell(WARN, "limits", "only %llu descriptors (ulimit -n); PyTorch's workers want 1024",
         (unsigned long long)files.rlim_cur);
  } else if (statfs("/dev/shm", &fs) != 0) {
    tell(WARN, "limits", "no /dev/shm: %s; mount a tmpfs there: PyTorch's workers need it",
         strerror(errno));
  } else {
    double bytes = (double)fs.f_blocks * (double)fs.f_bsize;
    tell(bytes < 1e9 ? WARN : OK, "limits", "%llu descriptors, /dev/shm of %s%s",
         (unsigned long long)files.rlim_cur, ctl_human_bytes(bytes).text,
         bytes < 1e9 ? ": batches of PyTorch's workers go there (docker run --shm-size)" : "");
  }
}

/* What it says of each variable is of use to people, the names to tests that unset them. */
static int print_variables(void) {
  struct shard_config_variable ours;
  const char *name, *launcher;
  for (size_t i = 0; shard_config_describe(i, &ours); i++) {
    printf("%-28s %s%s%s\n", ours.name, ours.value, ours.initial[0] ? "; default: " : "",
           ours.initial);
  }
  for (size_t i = 0; shard_launcher_variable(i, &name, &launcher); i++) {
    if (name) {
      printf("%-28s set by %s\n", name, launcher);
    }
  }
  return CTL_DONE;
}

static void check_all(void) {
  check_library();
  if (doctor.library[0]) {
    check_preload();
  }
  check_launcher();
  if (check_variables()) {
    check_cache();
  }
  if (doctor.library[0]) {
    check_listing();
  }
  check_python();
  check_limits();
}

static int examine(char **operands) {
  if (operands[0] && strcmp(operands[0], TRIAL) == 0) {
    return try_library(operands[1]);
  }
  if (only_variables) {
    return print_variables();
  }
  if (operands[0]) {
    return ctl_usage("doctor takes no arguments; see shardctl doctor --help");
  }
  shard_config_init(environ);
  doctor.checks = ctl_given.json ? ctl_json_array() : NULL;
  check_all();
  int rc = CTL_DONE;
  if (doctor.checks) {
    struct json_object *o = ctl_json_object();
    ctl_json_add(o, "checks", doctor.checks);
    ctl_json_add_bool(o, "ok", doctor.failed == 0);
    rc = ctl_json_print(o, stdout);
  }
  return doctor.failed ? CTL_FAILED : rc;
}

const struct ctl_command ctl_cmd_doctor = {ctl_help_doctor, rows, CTL_ANY, NULL, examine};
