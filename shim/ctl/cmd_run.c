/* SPDX-License-Identifier: MIT */
/*
 * cmd_run.c - shardctl run: a command under LD_PRELOAD=libshard.so.
 *
 * run looks at the command first, as execvp(3) and the kernel will do. It refuses what libshard
 * cannot serve, for such a program would see the whole dataset without a word. Where it cannot tell
 * (a file that may be executed but not read, odd options of env) it executes the command.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/size.h"
#include "config/dataset.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/libshard_path.h"

#define LIBRARY "libshard.so"
#define NAMES "give it the names that 'shardctl ls' prints"

/* ---- ELF ---------------------------------------------------------------------------------------
 * Any file may be cut off, or made to mislead: every read is checked, every count is bounded.
 */

typedef ElfW(Ehdr) elf_header;
typedef ElfW(Phdr) elf_segment;
typedef ElfW(Shdr) elf_section;

static bool read_at(int fd, uint64_t at, void *buf, size_t size) {
  return at <= INT64_MAX - size && pread(fd, buf, size, (off_t)at) == (ssize_t)size;
}

/* Whether a segment of notes has one that Go's linker writes. */
static bool notes_of_go(int fd, const elf_segment *segment) {
  uint64_t at = 0;
  for (int notes = 0; notes < 64 && at + 16 <= segment->p_filesz; notes++) {
    struct {
      ElfW(Nhdr) header;
      char name[4];
    } note;
    if (!read_at(fd, segment->p_offset + at, &note, sizeof(note))) {
      return false;
    }
    if (note.header.n_namesz == 4 && memcmp(note.name, "Go\0", 4) == 0) {
      return true;
    }
    at += sizeof(note.header) + (((uint64_t)note.header.n_namesz + 3) & ~3ULL) +
          (((uint64_t)note.header.n_descsz + 3) & ~3ULL);
  }
  return false;
}

/* Whether there is a section that Go's linker writes. */
static bool sections_of_go(int fd, const elf_header *elf) {
  elf_section names, s;
  if (elf->e_shentsize != sizeof(s) || elf->e_shstrndx >= elf->e_shnum ||
      !read_at(fd, elf->e_shoff + (uint64_t)elf->e_shstrndx * sizeof(s), &names, sizeof(names))) {
    return false;
  }
  for (unsigned i = 0; i < elf->e_shnum; i++) {
    char name[sizeof(".note.go.buildid")] = "";
    if (!read_at(fd, elf->e_shoff + i * sizeof(s), &s, sizeof(s)) || s.sh_name >= names.sh_size ||
        names.sh_offset > INT64_MAX ||
        pread(fd, name, sizeof(name), (off_t)(names.sh_offset + s.sh_name)) < 1) {
      continue;
    }
    if (strncmp(name, ".go.buildinfo", sizeof(name)) == 0 ||
        strncmp(name, ".note.go.buildid", sizeof(name)) == 0) {
      return true;
    }
  }
  return false;
}

static bool other_libc(const char *interpreter) {
  static const char *const loaders[] = {"ld-musl-", "ld-uClibc", "ld64-uClibc", "linker"};
  const char *slash = strrchr(interpreter, '/');
  for (size_t i = 0; i < sizeof(loaders) / sizeof(loaders[0]); i++) {
    if (strncmp(slash ? slash + 1 : interpreter, loaders[i], strlen(loaders[i])) == 0) {
      return true;
    }
  }
  return false;
}

/* Why an ELF program cannot be served, and the remedy; NULL if it can. */
static const char *unfit(int fd, const char *file, const elf_header *library) {
  elf_header elf = {0};
  elf_segment segment;
  char interpreter[PATH_MAX] = "";
  bool go = false;
  if (!read_at(fd, 0, &elf, EI_NIDENT) || elf.e_ident[EI_CLASS] != library->e_ident[EI_CLASS] ||
      elf.e_ident[EI_DATA] != library->e_ident[EI_DATA]) {
    return "it is for another word size or byte order than " LIBRARY
           "; use a build for this machine";
  }
  if (!read_at(fd, 0, &elf, sizeof(elf)) || (elf.e_type != ET_EXEC && elf.e_type != ET_DYN) ||
      elf.e_phentsize != sizeof(segment)) {
    return "it is no whole ELF program; build or copy it anew";
  }
  if (elf.e_machine != library->e_machine) {
    return "it is for another architecture than " LIBRARY "; use a build for this machine";
  }
  for (unsigned i = 0; i < elf.e_phnum; i++) {
    if (!read_at(fd, elf.e_phoff + i * sizeof(segment), &segment, sizeof(segment))) {
      return "it is no whole ELF program; build or copy it anew";
    }
    if (segment.p_type == PT_INTERP && !interpreter[0]) {
      size_t size = segment.p_filesz;
      if (size < 2 || size > sizeof(interpreter) ||
          !read_at(fd, segment.p_offset, interpreter, size) || interpreter[size - 1]) {
        return "it is no whole ELF program; build or copy it anew";
      }
    }
    go = go || (segment.p_type == PT_NOTE && notes_of_go(fd, &segment));
  }
  if (go || sections_of_go(fd, &elf)) {
    return "it is a Go program, which makes its system calls itself; " NAMES;
  }
  if (!interpreter[0] && strncmp(file, "ld-linux", 8) != 0 && strncmp(file, "ld.so", 5) != 0) {
    return "it is statically linked; use a dynamically linked build, or " NAMES;
  }
  if (other_libc(interpreter)) {
    return "it is built for another libc than glibc; use a build for glibc, or " NAMES;
  }
  return NULL;
}

/* Why the loader will ignore LD_PRELOAD for this program: AT_SECURE, as the kernel sets it. */
static const char *secure(int fd, const struct stat *st) {
  struct statvfs fs;
  if (fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_NOSUID)) {
    return NULL;
  }
  bool granted = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
  if (granted && (st->st_mode & S_ISUID) && st->st_uid != getuid()) {
    return "it is set-uid, and the loader ignores LD_PRELOAD; run it as the user who owns it, or "
           "use a copy that is not set-uid";
  }
  if (granted && (st->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
      st->st_gid != getgid()) {
    return "it is set-gid, and the loader ignores LD_PRELOAD; run it as its group, or use a copy "
           "that is not set-gid";
  }
  if (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0) {
    return "it has file capabilities, and the loader ignores LD_PRELOAD; run it as root, or use a "
           "copy without them";
  }
  return NULL;
}

/* ---- commands ----------------------------------------------------------- */

/* The file that execvp would execute, in file[PATH_MAX]: 0 or an errno. */
static int resolve(const char *cmd, char *file) {
  char standard[256] = "/bin:/usr/bin";
  const char *path = getenv("PATH");
  bool lone = strchr(cmd, '/') || !*cmd;
  int rc = ENOENT;
  if (!path) {
    confstr(_CS_PATH, standard, sizeof(standard));
    path = standard;
  }
  for (const char *p = lone ? "" : path;; p++) {
    size_t n = strcspn(p, ":");
    struct stat st;
    int length = lone ? snprintf(file, PATH_MAX, "%s", cmd)
                 : n  ? snprintf(file, PATH_MAX, "%.*s/%s", (int)n, p, cmd)
                      : snprintf(file, PATH_MAX, "./%s", cmd);
    int error = length >= PATH_MAX                                 ? ENAMETOOLONG
                : stat(file, &st) != 0                             ? errno
                : !S_ISREG(st.st_mode)                             ? EACCES
                : faccessat(AT_FDCWD, file, X_OK, AT_EACCESS) != 0 ? errno
                                                                   : 0;
    if (error == 0) {
      return 0;
    }
    if (error != ENOENT && error != ENOTDIR) {
      rc = error;
    }
    p += n;
    if (!*p) {
      return rc;
    }
  }
}

/* A command line that is followed from file to file; words are put before it. */
struct line {
  char *words[64];
  size_t begin;    /* of the words in use; they end with NULL */
  char text[2048]; /* of words that were cut out of longer ones */
  size_t used;
};

static bool push(struct line *l, char *word) {
  if (l->begin == 0) {
    return false;
  }
  l->words[--l->begin] = word;
  return true;
}

/* Put the words of `text` before the line; false if it is more than plain words. */
static bool push_words(struct line *l, const char *text) {
  char *words[16], *save = NULL;
  size_t n = 0, size = strlen(text) + 1;
  if (strpbrk(text, "\"'\\$#") || size > sizeof(l->text) - l->used) {
    return false;
  }
  char *copy = memcpy(l->text + l->used, text, size);
  l->used += size;
  for (char *w = strtok_r(copy, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
    if (n == sizeof(words) / sizeof(words[0])) {
      return false;
    }
    words[n++] = w;
  }
  while (n > 0 && push(l, words[n - 1])) {
    n--;
  }
  return n == 0;
}

/*
 * Take env's name, options and assignments off the line, so that the command is left. false: it is
 * not clear which that is, or there is none. *lost: env sets LD_PRELOAD, or takes it away.
 */
static bool through_env(struct line *l, bool *lost) {
  for (l->begin++; l->words[l->begin];) {
    char *w = l->words[l->begin++], *string = NULL;
    if (strcmp(w, "--") == 0 || strcmp(w, "-v") == 0 || strcmp(w, "--debug") == 0) {
      continue;
    }
    if (strncmp(w, "-S", 2) == 0 || strncmp(w, "-vS", 3) == 0) {
      string = strchr(w, 'S') + 1;
    } else if (strncmp(w, "--split-string=", 15) == 0) {
      string = w + 15;
    } else if (strcmp(w, "-") == 0 || strcmp(w, "-i") == 0 || strcmp(w, "-uLD_PRELOAD") == 0 ||
               strcmp(w, "--ignore-environment") == 0 || strcmp(w, "--unset=LD_PRELOAD") == 0 ||
               strncmp(w, "LD_PRELOAD=", 11) == 0) {
      *lost = true;
    } else if (strcmp(w, "-u") == 0 && l->words[l->begin]) {
      *lost |= strcmp(l->words[l->begin++], "LD_PRELOAD") == 0;
    } else if (w[0] == '-' || strncmp(w, "PATH=", 5) == 0) {
      return false;
    } else if (!strchr(w, '=')) {
      return push(l, w);
    }
    if (string && !*string) {
      string = l->words[l->begin] ? l->words[l->begin++] : NULL;
    }
    if (string && !push_words(l, string)) {
      return false;
    }
  }
  return false;
}

/* Put a script's interpreter, its argument, and the script before the line. */
static bool through_script(struct line *l, char *head, char *file) {
  char *text = head + 2, *end = text + strcspn(text, "\n");
  while (end > text && (end[-1] == ' ' || end[-1] == '\t')) {
    end--;
  }
  *end = 0;
  text += strspn(text, " \t");
  char *argument = text + strcspn(text, " \t");
  if (*argument) {
    *argument++ = 0;
    argument += strspn(argument, " \t");
  }
  l->begin++; /* argv[0] is not handed on */
  return *text && push(l, file) && (!*argument || push(l, argument)) && push(l, text);
}

static int refuse(const char *cmd, const char *file, const char *why) {
  if (strcmp(cmd, file) == 0) {
    return ctl_fail("cannot serve '%s': %s", file, why);
  }
  return ctl_fail("cannot serve '%s', which runs '%s': %s", cmd, file, why);
}

/*
 * Follow `first` with these arguments to every file that will be executed, and look at each.
 * CTL_DONE, or another status after a message.
 */
static int inspect(const char *first, char **argv, const elf_header *library) {
  enum { DEPTH = 6, HEAD = 256 }; /* of scripts, as in the kernel, and of env */
  static char files[DEPTH][PATH_MAX], heads[DEPTH][HEAD], shell[] = "/bin/sh";
  struct line l = {.begin = 32};
  for (size_t i = 0; i < 31 && argv[i]; i++) {
    l.words[l.begin + i] = argv[i];
  }
  snprintf(files[0], PATH_MAX, "%s", first);
  for (int depth = 0;; depth++) {
    char *file = files[depth], *head = heads[depth];
    const char *name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file, *why;
    struct stat st;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
      fd = fd < 0 ? open(file, O_PATH | O_CLOEXEC) : fd;
      why = fd >= 0 && fstat(fd, &st) == 0 ? secure(fd, &st) : NULL;
      close(fd);
      return why ? refuse(first, file, why) : CTL_DONE;
    }
    ssize_t n = pread(fd, head, HEAD - 1, 0);
    bool elf = n >= SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0, lost = false, more;
    why = !elf ? NULL : secure(fd, &st);
    why = why || !elf ? why : unfit(fd, name, library);
    close(fd);
    if (why) {
      return refuse(first, file, why);
    }
    head[n > 0 ? n : 0] = 0;
    if (elf) {
      more = strcmp(name, "env") == 0 && through_env(&l, &lost);
    } else if (strncmp(head, "#!", 2) == 0) {
      more = through_script(&l, head, file);
    } else {
      l.begin++; /* execvp lets sh have it */
      more = push(&l, file) && push(&l, shell);
    }
    if (lost) {
      return refuse(first, file, "its arguments take LD_PRELOAD away; leave them out");
    }
    if (!more || depth + 1 == DEPTH) {
      return CTL_DONE;
    }
    int error = resolve(l.words[l.begin], files[depth + 1]);
    if (error != 0 && !elf) {
      ctl_fail("cannot execute '%s': its interpreter '%s': %s", file, l.words[l.begin],
               strerror(error));
      return error == ENOENT || error == ENOTDIR ? CTL_NOT_FOUND : CTL_CANNOT;
    }
    if (error != 0) {
      return CTL_DONE; /* env will say so */
    }
  }
}

/* ---- the library -------------------------------------------------------- */

/* The absolute path of libshard.so in path[PATH_MAX], and its header. */
static int find_library(char *path, elf_header *header) {
  char self[PATH_MAX], err[1000];
  if (!ctl_libshard_path_find(self, path, err, sizeof(err))) {
    return ctl_fail("%s", err);
  }
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  bool good = fd >= 0 && read_at(fd, 0, header, sizeof(*header)) &&
              memcmp(header->e_ident, ELFMAG, SELFMAG) == 0;
  close(fd);
  if (!good) {
    return ctl_fail("'%s' cannot be read, or is no library; install it anew", path);
  }
  return CTL_DONE;
}

static int preload(const char *path) {
  const char *old = getenv("LD_PRELOAD");
  char *value = NULL, given[PATH_MAX];
  if (ctl_libshard_path_preloaded(given) && access(given, F_OK) == 0) {
    return ctl_libshard_path_same(path, given)
               ? CTL_DONE
               : ctl_fail("LD_PRELOAD has another " LIBRARY ", '%s'; unset it", given);
  }
  if (asprintf(&value, "%s%s%s", path, old && *old ? ":" : "", old ? old : "") < 0 ||
      setenv("LD_PRELOAD", value, 1) != 0) {
    return ctl_fail("cannot set LD_PRELOAD: %s", strerror(errno));
  }
  free(value);
  return CTL_DONE;
}

/* ---- options ------------------------------------------------------------ */

/* What SHARD_DATASET takes for a dataset, malloc'd: a directory by its absolute path, for the
 * command may go elsewhere, or a bucket as it is. CTL_DONE, or as ctl_fail(). */
static int find_dataset(const char *given, char **out) {
  struct shard_dataset_item item;
  shard_dataset_next(given, &item);
  if (shard_dataset_is_bucket(&item) && item.path == given) {
    const char *fault = strchr(given + item.url_length, ':') ? "has a colon in its prefix, which "
                                                               "SHARD_DATASET cannot hold"
                                                             : shard_dataset_fault(given);
    *out = strdup(given);
    return fault  ? ctl_fail("dataset '%s' %s", given, fault)
           : *out ? CTL_DONE
                  : ctl_fail("out of memory");
  }
  struct stat st;
  *out = realpath(given, NULL);
  if (!*out || stat(*out, &st) != 0 || !S_ISDIR(st.st_mode)) {
    return ctl_fail("cannot use dataset '%s': %s", given, strerror(*out ? ENOTDIR : errno));
  }
  if (strchr(*out, ':')) {
    return ctl_fail("dataset '%s' has a colon in its path, which SHARD_DATASET cannot hold", *out);
  }
  return CTL_DONE;
}

static char *datasets; /* all of --dataset, as SHARD_DATASET has them */

static int take_dataset(const struct ctl_option *of) {
  char *found = NULL, *longer;
  (void)of;
  int rc = find_dataset(optarg, &found);
  if (rc == CTL_DONE &&
      asprintf(&longer, "%s%s%s", datasets ? datasets : "", datasets ? ":" : "", found) < 0) {
    rc = ctl_fail("out of memory");
  }
  free(found);
  if (rc == CTL_DONE) {
    free(datasets);
    datasets = longer;
  }
  return rc;
}

static const struct ctl_option rows[] = {
    CTL_ROW_RANK,   CTL_ROW_SIZE, CTL_ROW_STRATEGY, CTL_ROW_REMAINDER,
    CTL_ROW_SAMPLE, CTL_ROW_SEED, CTL_ROW_EPOCH,    {"dataset", .take = take_dataset},
    CTL_ROW_END};

/* Set the variables that options stand for. */
static int set_variables(void) {
  const struct {
    const char *name, *value;
  } variables[] = {{"SHARD_DATASET", datasets},
                   {"SHARD_RANK", ctl_given.rank_text},
                   {"SHARD_SIZE", ctl_given.size_text},
                   {"SHARD_STRATEGY", ctl_given.strategy_text},
                   {"SHARD_REMAINDER", ctl_given.remainder_text},
                   {"SHARD_SAMPLE", ctl_given.sample_text},
                   {"SHARD_SEED", ctl_given.seed_text},
                   {"SHARD_EPOCH", ctl_given.epoch_text}};
  for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
    if (variables[i].value && setenv(variables[i].name, variables[i].value, 1) != 0) {
      return ctl_fail("out of memory");
    }
  }
  return CTL_DONE;
}

static int cannot_execute(const char *what, int error) {
  ctl_fail("cannot execute '%s': %s", what, strerror(error));
  return error == ENOENT || error == ENOTDIR ? CTL_NOT_FOUND : CTL_CANNOT;
}

/* Execute the command under the library; returns only if that is refused or fails. */
static int execute(char **command) {
  char library[PATH_MAX], file[PATH_MAX];
  elf_header header = {0};
  int error = resolve(command[0], file);
  if (error != 0) {
    return cannot_execute(command[0], error);
  }
  int rc = find_library(library, &header);
  rc = rc == CTL_DONE ? inspect(file, command, &header) : rc;
  rc = rc == CTL_DONE ? preload(library) : rc;
  if (rc != CTL_DONE) {
    return rc;
  }
  execvp(file, command);
  return cannot_execute(file, errno);
}

/* Ranks that are started by hand know nothing of one another. */
static void note_listings(void) {
  bool several = ctl_given.size_text && ctl_given.size > 1;
  bool hash = ctl_given.strategy_text && ctl_given.strategy == SHARD_STRATEGY_HASH;
  if (several && !hash && !getenv("SHARD_JOB") && !getenv("SHARD_LISTING")) {
    ctl_note(
        "each rank that is started by hand lists the dataset: if files may be added meanwhile, "
        "set SHARD_JOB to one text for all of them, or SHARD_LISTING");
  }
}

static int run(char **operands) {
  int rc = ctl_arguments_check_rank();
  rc = rc == CTL_DONE ? set_variables() : rc;
  if (rc == CTL_DONE) {
    note_listings();
  }
  rc = rc == CTL_DONE ? execute(operands) : rc;
  free(datasets);
  return rc;
}

const struct ctl_command ctl_cmd_run = {ctl_help_run, rows, CTL_LINE, "a command", run};
