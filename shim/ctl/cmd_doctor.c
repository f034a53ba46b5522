/* SPDX-License-Identifier: MIT */
/*
 * cmd_doctor.c - shardctl doctor: checks that libshard can work here, by using it.
 *
 * shardctl runs itself under libshard.so with the hidden word TRIAL: that process prints the
 * version of the library in it, and lists a small dataset, for which the shard view, the cache, the
 * builder and the reader have to work. No file is left. No value of a variable is printed, only
 * paths and libshard's own messages.
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
#include "config/dataset_list.h"
#include "config/launcher.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/human.h"
#include "ctl/json.h"
#include "ctl/libshard_path.h"
#include "ctl/scratch.h"
#include "libshard.h"

#define TRIAL "--trial"
#define TRIAL_FILES 3
#define NO_LIBRARY "no library"
#define SECONDS 10
#define ROOM_LEAST (64e6) /* bytes in the cache directory: some ten million names */

static bool only_variables;

static const struct ctl_option rows[] = {
    CTL_ROW_JSON, {"variables", .flag = &only_variables}, CTL_ROW_END};

enum result { OK, WARN, FAIL };

static struct {
  struct json_object *checks; /* NULL: each check prints a line */
  unsigned failed;
  char self[PATH_MAX], library[PATH_MAX]; /* library: "" if it is missing */
} doctor;

__attribute__((format(printf, 3, 4))) static void report(enum result result, const char *what,
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

struct program_run {
  char out[1000]; /* the beginning of stdout and stderr, in the order of writing */
  int status;     /* of waitpid(2); -1: it took too long */
};

/* In the child: remove SHARD_ variables and LD_PRELOAD, and set the variables that are given. */
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

static void execute(char *const argv[], const char *directory, const char *const *variables,
                    int out) {
  int null = open("/dev/null", O_RDONLY);
  setpgid(0, 0);
  if (null < 0 || chdir(directory) != 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 ||
      dup2(out, 2) < 0) {
    _exit(126);
  }
  set_environment(variables);
  execvp(argv[0], argv);
  dprintf(2, "%s", strerror(errno));
  _exit(127);
}

/* Run a program in a directory, with these variables (name, value, ..., NULL). */
static void run_program(struct program_run *r, char *const argv[], const char *directory,
                        const char *const *variables) {
  int pipes[2];
  *r = (struct program_run){.status = 126 << 8};
  pid_t pid = pipe2(pipes, O_CLOEXEC) == 0 ? fork() : -1;
  if (pid < 0) {
    snprintf(r->out, sizeof(r->out), "cannot start it: %s", strerror(errno));
    return;
  }
  if (pid == 0) {
    execute(argv, directory, variables, pipes[1]);
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

static const char *ending(const struct program_run *r) {
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

/* In the child under libshard.so: print the library's version, and count the files of `dir`. */
static int try_library(const char *dir) {
  const char *(*version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "shard_version");
  DIR *stream = dir ? opendir(dir) : NULL;
  int count = 0;
  printf("%s ", version ? version() : NO_LIBRARY);
  for (const struct dirent *d; stream && (d = readdir(stream));) {
    count += d->d_name[0] != '.';
  }
  if (stream) {
    printf("%d", count);
    closedir(stream);
  }
  return stream ? CTL_DONE : CTL_FAILED;
}

/* ---- the checks --------------------------------------------------------- */

/* Find the library whose shard_library_open_shardctl() would find this shardctl. */
static void check_library(void) {
  char err[1000];
  bool found = ctl_libshard_path_find(doctor.self, doctor.library, err, sizeof(err));
  report(found ? OK : FAIL, "library", "%s", found ? doctor.library : err);
}

/* Report what programs that the caller starts get, by what this process has got. */
static void report_callers_preload(void) {
  char given[PATH_MAX];
  Dl_info loaded = {.dli_fname = NULL};
  void *version = dlsym(RTLD_DEFAULT, "shard_version");
  bool named = ctl_libshard_path_preloaded(given);
  if (version && dladdr(version, &loaded) &&
      !ctl_libshard_path_same(loaded.dli_fname, doctor.library)) {
    report(FAIL, "preload", "LD_PRELOAD has another libshard.so, '%.500s'; set LD_PRELOAD=%.500s",
           loaded.dli_fname, doctor.library);
  } else if (!version && named) {
    report(FAIL, "preload",
           "LD_PRELOAD names '%.500s', which is not loaded%s; set LD_PRELOAD=%.500s", given,
           access(given, R_OK) != 0 ? ": it is not there, or cannot be read" : "", doctor.library);
  } else {
    report(OK, "preload", "LD_PRELOAD=%s takes effect%s", doctor.library,
           version ? "" : "; it is not set here, so only what 'shardctl run' starts is served");
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

/* Report, for each ancestor, the numbers that it was started with. */
static void report_ancestors(const struct shard_launcher *l) {
  for (size_t i = 0; i < l->ancestor_count; i++) {
    char numbers[700] = "", name[64];
    for (size_t k = 0; k < l->count; k++) {
      const struct shard_launcher_row *row = &l->rows[k];
      size_t used = strlen(numbers);
      if (l->ancestors[i].started & row->bit) {
        snprintf(numbers + used, sizeof(numbers) - used, "%s %s=%s of %s=%s", used ? "," : "",
                 row->names[0], row->rank, row->names[1], row->size);
      }
    }
    read_name(l->ancestors[i].pid, name);
    report(OK, "climb", "%ld %s: %s%s", l->ancestors[i].pid, name,
           !l->ancestors[i].start ? "hidden"
           : numbers[0]           ? "started with"
                                  : "started with none of the numbers that are seen here",
           numbers);
  }
}

static void check_launcher(void) {
  struct shard_launcher *l = malloc(sizeof(*l));
  struct shard_job job;
  if (!l) {
    report(FAIL, "launcher", "out of memory");
    return;
  }
  shard_launcher_find(l);
  const struct shard_world *w = &l->world;
  if (l->rc == 0) {
    report(l->note[0] ? WARN : OK, "launcher", "%s: rank %d of %d%s%s", w->launcher, w->rank,
           w->size, l->note[0] ? "; " : "", l->note);
  } else if (l->rc == -ENOENT) {
    report(OK, "launcher",
           "none has started this; 'mpirun -n 2 shardctl doctor' (srun, torchrun) "
           "tells whether ranks are found");
  } else {
    report(FAIL, "launcher", "%s", l->line);
  }
  report_ancestors(l);
  if (shard_job_find(l, &job)) { /* a hash, for no value of a variable is printed */
    report(OK, "job", "%016llx%s", (unsigned long long)shard_xxh64(job.name, strlen(job.name), 0),
           job.held ? ", as long as a process of the job lives" : "");
  }
  free(l);
}

/* Check that each directory of SHARD_DATASET exists. */
static bool check_datasets(void) {
  struct shard_dataset_item item;
  for (const char *rest = shard_config()->dataset;
       rest && (rest = shard_dataset_list_next(rest, &item));) {
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof(path), "%.*s", (int)item.path_length, item.path);
    bool bucket = item.path_length == 0, there = bucket || stat(path, &st) == 0;
    if (!there || (!bucket && !S_ISDIR(st.st_mode))) {
      report(FAIL, "variables", "SHARD_DATASET='%.500s': %s", path,
             strerror(there ? ENOTDIR : errno));
      return false;
    }
  }
  return true;
}

/* Returns false if the variables are wrong, so that the cache directory is not known. */
static bool check_variables(void) {
  char err[700], names[600] = "", others[500] = "";
  if (shard_config_check(err, sizeof(err)) != 0) {
    report(FAIL, "variables", "%s", err);
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
  if (check_datasets()) {
    report(OK, "variables", "%s%s%s%s", names[0] ? "valid:" : "none is set", names,
           others[0] ? "; libshard does not read" : "", others);
  }
  return true;
}

/* Check that the cache directory can be used. If it is missing, it is made, and removed again. */
static void check_cache(void) {
  char dir[PATH_MAX], err[700];
  struct statfs fs;
  ssize_t rc = shard_cachedir_find(false, dir, sizeof(dir), err, sizeof(err));
  bool missing = rc == -ENOENT;
  rc = missing ? shard_cachedir_find(true, dir, sizeof(dir), err, sizeof(err)) : rc;
  if (rc < 0) {
    report(FAIL, "cache", "%s", err);
    return;
  }
  bool good = statfs(dir, &fs) == 0 && access(dir, W_OK | X_OK) == 0;
  int error = errno;
  if (missing) {
    rmdir(dir);
  }
  if (!good) {
    report(FAIL, "cache", "cannot write to '%.500s': %s; set SHARD_CACHE_DIR", dir,
           strerror(error));
    return;
  }
  double bytes = (double)fs.f_bavail * (double)fs.f_bsize;
  const char *net = shard_filesystem_network_name((unsigned)fs.f_type);
  struct ctl_human room = ctl_human_bytes(bytes);
  if (net) {
    report(
        WARN, "cache",
        "'%.500s' is on %s, %s free: every node would use it; set SHARD_CACHE_DIR to a directory "
        "of "
        "the node",
        dir, net, room.text);
  } else if (bytes < ROOM_LEAST) {
    report(WARN, "cache", "'%.500s' has only %s free, 5 B a name are needed; set SHARD_CACHE_DIR",
           dir, room.text);
  } else {
    report(OK, "cache", "%s%s: %s free", missing ? "will be made: " : "", dir, room.text);
  }
}

/* Make TRIAL_FILES files. */
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

/* Run shardctl under libshard.so (try_library), and compare what it prints. */
static void check_trial(void) {
  struct ctl_scratch data = {0}, cache = {0};
  const char *base = ctl_scratch_parent();
  char path[PATH_MAX], want[64];
  struct program_run r;
  bool made = ctl_scratch_make(&data) == CTL_DONE && ctl_scratch_make(&cache) == CTL_DONE &&
              make_data(data.path) && realpath(cache.path, path);
  /* The dataset is the working directory: a path with a colon would be two datasets. */
  const char *const variables[] = {"LD_PRELOAD",
                                   doctor.library,
                                   "SHARD_DATASET",
                                   ".",
                                   "SHARD_CACHE_DIR",
                                   path,
                                   "SHARD_RANK",
                                   "0",
                                   "SHARD_SIZE",
                                   "1",
                                   "SHARD_TIMEOUT",
                                   "8",
                                   NULL};
  char *argv[] = {doctor.self, "doctor", "--", TRIAL, ".", NULL};
  snprintf(want, sizeof(want), "%s %d", shard_version(), TRIAL_FILES);
  if (made) {
    run_program(&r, argv, data.path, variables);
  }
  if (!made) {
    report(FAIL, "listing", "cannot make files in '%.500s'; set TMPDIR", base);
  } else if (r.status == 0 && strcmp(r.out, want) == 0) {
    report_callers_preload();
    report(OK, "listing", "%d files below %s were listed and read through the library", TRIAL_FILES,
           base);
  } else if (strstr(r.out, NO_LIBRARY)) {
    report(FAIL, "preload",
           "LD_PRELOAD=%.500s has no effect: is the library damaged, is shardctl set-uid, or is "
           "preloading forbidden here? %.500s",
           doctor.library, r.out);
  } else {
    report(FAIL, "listing",
           "a program under LD_PRELOAD=%.300s that lists %d files below '%.300s' %s, and printed "
           "'%.500s', not '%s'",
           doctor.library, TRIAL_FILES, base, ending(&r), r.out, want);
  }
  ctl_scratch_remove(&data);
  ctl_scratch_remove(&cache);
}

/*
 * Prints a line with the interpreter, a line with DLIO's folder, and a line with the family that
 * DLIO is known as. If DLIO is not known, the adapter prints why when dlio_benchmark is imported.
 */
static char dlio_script[] =
    "import importlib.util, sys\n"
    "print('Python %d.%d.%d, %s' % (sys.version_info[:3] + (sys.executable,)))\n"
    "spec = importlib.util.find_spec('dlio_benchmark')\n"
    "print((list(spec.submodule_search_locations or ['?']))[0] if spec else '', flush=True)\n"
    "if spec:\n"
    "    import dlio_benchmark\n"
    "    adapter = sys.modules.get('_libshard')\n"
    "    family = adapter.family() if adapter else None\n"
    "    if family: print('known: %s, a version that libshard knows' % family)\n";

/* Print $PYTHON, or python3, into path[PATH_MAX]; a relative path is made absolute. A link is not
 * resolved, because Python finds its environment by the link. */
static char *find_python(char *path) {
  const char *given = getenv("PYTHON");
  snprintf(path, PATH_MAX, "%s", given && *given ? given : "python3");
  if (*path != '/' && strchr(path, '/') && getcwd(path, PATH_MAX)) {
    size_t n = strlen(path);
    snprintf(path + n, PATH_MAX - n, "/%s", given);
  }
  return path;
}

/* Returns the line that begins at *rest, and moves *rest to the next line. */
static char *take_line(char **rest) {
  char *line = *rest, *end = strchr(line, '\n');
  *rest = end ? end + 1 : line + strlen(line);
  if (end) {
    *end = 0;
  }
  return line;
}

/* Python runs in /, because it imports from the working directory, where others' files may be. */
static void check_python(void) {
  char python[PATH_MAX], *argv[] = {find_python(python), "-c", dlio_script, NULL};
  const char *variables[] = {"PYTHONDONTWRITEBYTECODE", "1", NULL, NULL, NULL};
  if (doctor.library[0]) {
    variables[2] = "LD_PRELOAD";
    variables[3] = doctor.library;
  }
  struct program_run r;
  run_program(&r, argv, "/", variables);
  if (strncmp(r.out, "Python ", 7) != 0) {
    report(WARN, "python", "'%.300s' %s: %.300s; set PYTHON to the benchmark's interpreter", python,
           ending(&r), r.out);
    return;
  }
  char *rest = r.out, *version = take_line(&rest), *folder = take_line(&rest);
  const char *known = strstr(rest, "known: "), *why = strstr(rest, "unmodified");
  report(OK, "python", "%s", version);
  if (!*folder) {
    report(WARN, "dlio",
           "this Python has no dlio_benchmark; set PYTHON to the benchmark's interpreter, and make "
           "the paths in PYTHONPATH absolute");
  } else if (!doctor.library[0]) {
    report(WARN, "dlio", "%s: without libshard.so it cannot be told whether it is known", folder);
  } else if (known) {
    report(OK, "dlio", "%s: %.500s", folder, known + strlen("known: "));
  } else {
    report(WARN, "dlio", "%s is not known: it runs %.600s", folder, why ? why : ending(&r));
  }
}

/* Print each variable, with what it takes; tests take the names, to unset them. */
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
  check_launcher();
  if (check_variables()) {
    check_cache();
  }
  if (doctor.library[0]) {
    check_trial();
  }
  check_python();
}

static int run_doctor(char **operands) {
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
  doctor.checks = ctl_args.json ? ctl_json_array() : NULL;
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

const struct ctl_command ctl_cmd_doctor = {ctl_help_doctor, rows, CTL_ANY, NULL, run_doctor};
