/* SPDX-License-Identifier: MIT */
/*
 * ftw.c - wraps ftw and nftw.
 *
 * libc's ftw lists directories inside libc, past libshard's readdir, and would show all of a
 * dataset. So while the view is active every tree, served or not, is walked here, by the opendir
 * family of dir.c, which hides other ranks' files. To the program a walk looks as glibc's: the same
 * order, codes, errno and descriptors. Where glibc is odd, a comment says so.
 *
 * The directories that the walk is in are a chain of frames. At most `most` frames hold an open
 * stream: before another stream is opened, the names of the outermost stream are read into memory,
 * and that stream is closed.
 *
 * Differences from glibc
 *   - a directory that cannot be read to its end, as with a damaged listing, ends the walk with -1;
 *     glibc takes the error for the directory's end;
 *   - FTW_CHDIR goes deeper than PATH_MAX; glibc fails an assertion there.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "host/real.h"
#include "interpose/dir.h"
#include "view/view.h"

static_assert(sizeof(struct stat) == sizeof(struct stat64), "ftw is ftw64");

#define OLD_FLAGS (FTW_PHYS | FTW_MOUNT | FTW_CHDIR | FTW_DEPTH)
#define ALL_FLAGS (OLD_FLAGS | FTW_ACTIONRETVAL)

/* A directory that the walk is in: its stream or, if that was closed early, the names to come. */
struct frame {
  DIR *stream;
  char *names;         /* each ends with NUL; one more NUL at the end */
  struct frame *outer; /* the directory that it lies in */
};

struct identity {
  dev_t dev;
  ino_t ino;
};

struct walk {
  char *path;
  size_t room;
  struct FTW ftw;
  int flags;
  dev_t dev;         /* of the first directory, for FTW_MOUNT */
  __ftw_func_t call; /* the program's callback, of ftw; or call_n, of nftw */
  __nftw_func_t call_n;
  int most, streams; /* open streams: allowed, present; the innermost frames have them */
  void *seen;        /* directories visited, for tsearch(3); only if links are followed */
};

/* Calls the program's callback. Returns its result. */
static int call_program(struct walk *w, const struct stat *st, int code) {
  if (w->call) {
    return w->call(w->path, st, code == FTW_SLN ? FTW_NS : code);
  }
  return w->call_n(w->path, st, code, &w->ftw);
}

/* ---- visited directories ---- */

static_assert(sizeof(struct identity) == sizeof(dev_t) + sizeof(ino_t), "memcmp sees no padding");

static int compare_identities(const void *a, const void *b) {
  return memcmp(a, b, sizeof(struct identity));
}

/* Marks a directory as visited. Returns 1 if it was visited before, else 0. Errors: -1 and errno.
 */
static int mark_visited(struct walk *w, const struct stat *st) {
  struct identity *now = malloc(sizeof(*now));
  if (!now) {
    return -1;
  }
  *now = (struct identity){st->st_dev, st->st_ino};
  struct identity **met = tsearch(now, &w->seen, compare_identities);
  if (met && *met == now) {
    return 0;
  }
  free(now);
  return met ? 1 : -1;
}

/* ---- frames ---- */

static void close_stream(struct walk *w, struct frame *f) {
  shard_dir_close(f->stream);
  f->stream = NULL;
  w->streams--;
}

/* Reads the rest of the outermost stream into memory, and closes the stream. f: the innermost
 * frame. Errors: -1 and errno. */
static int close_outermost(struct walk *w, struct frame *f) {
  while (f->outer && f->outer->stream) {
    f = f->outer;
  }
  char *names = NULL;
  size_t size;
  FILE *text = open_memstream(&names, &size);
  if (!text) {
    return -1;
  }
  const struct dirent *entry;
  int rc;
  while ((rc = shard_dir_next(f->stream, &entry)) > 0) {
    fwrite(entry->d_name, 1, strlen(entry->d_name) + 1, text);
  }
  int error = rc < 0 ? errno : 0;
  fputc('\0', text);
  bool lost = ferror(text);
  lost = fclose(text) != 0 || lost || !names; /* out of memory */
  if (error != 0 || lost) {
    free(names);
    errno = error != 0 ? error : ENOMEM;
    return -1;
  }
  f->names = names;
  close_stream(w, f);
  return 0;
}

/* Returns a name by which w->path, an entry of `outer`, is reached from directory *at. */
static const char *locate_entry(const struct walk *w, const struct frame *outer, int *at) {
  const char *name = w->path + w->ftw.base;
  *at = outer && outer->stream ? dirfd(outer->stream) : AT_FDCWD;
  if (*at == AT_FDCWD && !(w->flags & FTW_CHDIR)) {
    return w->path;
  }
  return *name ? name : ".";
}

/* Opens w->path, the directory of frame f. Errors: 1 and errno, it cannot be opened; -1 and errno,
 * the outermost directory cannot be read, and names of it may be lost. */
static int open_frame(struct walk *w, struct frame *f) {
  int at;
  if (w->streams == w->most && close_outermost(w, f->outer) != 0) {
    return -1;
  }
  const char *name = locate_entry(w, f->outer, &at);
  f->stream = shard_dir_open(at, name);
  w->streams += f->stream != NULL;
  return f->stream ? 0 : 1;
}

/* ---- the walk ---- */

static int walk_directory(struct walk *w, const struct stat *st, struct frame *outer);

/* Appends a name to w->path. Errors: -1 and errno. */
static int append_name(struct walk *w, const char *name) {
  size_t base = (size_t)w->ftw.base, length = strlen(name) + 1;
  char *path = shard_array_grow(w->path, base, length + 1, &w->room, 1);
  if (!path) {
    return -1;
  }
  w->path = path;
  memcpy(w->path + base, name, length);
  return 0;
}

/* Stats w->path, an entry of `outer`. Follows a link if `follow` is set and the walk follows links.
 */
static int stat_entry(const struct walk *w, const struct frame *outer, struct stat *st,
                      bool follow) {
  int at;
  const char *name = locate_entry(w, outer, &at);
  return fstatat(at, name, st, follow && !(w->flags & FTW_PHYS) ? 0 : AT_SYMLINK_NOFOLLOW);
}

static int visit_entry(struct walk *w, struct frame *f, const char *name) {
  if (shard_dir_is_dot(name)) {
    return 0;
  }
  if (append_name(w, name) != 0) {
    return -1;
  }
  struct stat st = {0};
  int code, result = 0;
  bool physical = w->flags & FTW_PHYS;
  if (stat_entry(w, f, &st, true) == 0) {
    code = S_ISDIR(st.st_mode) ? FTW_D : S_ISLNK(st.st_mode) ? FTW_SL : FTW_F;
  } else if (errno != EACCES && errno != ENOENT) {
    return -1;
  } else if (!physical && stat_entry(w, f, &st, false) == 0 && S_ISLNK(st.st_mode)) {
    code = FTW_SLN;
  } else {
    code = FTW_NS;
  }
  if (code != FTW_NS && w->flags & FTW_MOUNT && st.st_dev != w->dev) {
    return 0;
  }
  if (code != FTW_D) {
    result = call_program(w, &st, code);
  } else {
    int met = physical ? 0 : mark_visited(w, &st);
    result = met != 0 ? met < 0 ? -1 : 0 : walk_directory(w, &st, f);
  }
  return w->flags & FTW_ACTIONRETVAL && result == FTW_SKIP_SUBTREE ? 0 : result;
}

static int visit_all(struct walk *w, struct frame *f) {
  int result = 0, rc = 0;
  const struct dirent *entry;
  while (result == 0 && f->stream && (rc = shard_dir_next(f->stream, &entry)) > 0) {
    result = visit_entry(w, f, entry->d_name);
  }
  if (f->stream) {
    close_stream(w, f);
    return rc < 0 ? -1 : result;
  }
  for (const char *name = f->names; result == 0 && *name; name += strlen(name) + 1) {
    result = visit_entry(w, f, name);
  }
  int saved = errno;
  free(f->names);
  errno = saved;
  return result;
}

/* Changes from directory w->path back to the directory that it lies in. Errors: -1 and errno. */
static int change_back(const struct walk *w, const struct frame *outer) {
  if (outer->stream && fchdir(dirfd(outer->stream)) == 0) {
    return 0;
  }
  return chdir(w->ftw.base == 1 ? "/" : "..");
}

/* Walks a directory, an entry of `outer`, and all below it. */
static int walk_directory(struct walk *w, const struct stat *st, struct frame *outer) {
  struct frame here = {.outer = outer};
  int result, base = w->ftw.base;
  bool actions = w->flags & FTW_ACTIONRETVAL;
  int rc = open_frame(w, &here);
  if (rc != 0) {
    return rc > 0 && errno == EACCES ? call_program(w, st, FTW_DNR) : -1;
  }
  if (!(w->flags & FTW_DEPTH) && (result = call_program(w, st, FTW_D)) != 0) {
    close_stream(w, &here);
    return result;
  }
  if (w->flags & FTW_CHDIR && fchdir(dirfd(here.stream)) != 0) {
    close_stream(w, &here);
    return -1;
  }
  size_t length = strlen(w->path);
  if (w->path[length - 1] != '/') {
    w->path[length++] = '/'; /* append_name() leaves room */
  }
  w->ftw.base = (int)length;
  w->ftw.level++;
  result = visit_all(w, &here);
  if (actions && result == FTW_SKIP_SIBLINGS) {
    result = 0;
  }
  /* The path "/" becomes "", which glibc, too, reports as FTW_DP. */
  w->path[w->ftw.base - 1] = '\0';
  w->ftw.base = base;
  w->ftw.level--;
  if (result == 0 && w->flags & FTW_DEPTH) {
    result = call_program(w, st, FTW_DP);
  }
  if (outer && w->flags & FTW_CHDIR &&
      (result == 0 || (actions && result != -1 && result != FTW_STOP)) &&
      change_back(w, outer) != 0) {
    result = -1;
  }
  return result;
}

/* Walks w->path. With FTW_CHDIR, the working directory is the directory that w->path lies in. */
static int walk_start(struct walk *w) {
  struct stat st;
  int result;
  if (stat_entry(w, NULL, &st, true) != 0) {
    if (w->flags & FTW_PHYS || errno != ENOENT || stat_entry(w, NULL, &st, false) != 0 ||
        !S_ISLNK(st.st_mode)) {
      return -1;
    }
    result = call_program(w, &st, FTW_SLN);
  } else if (!S_ISDIR(st.st_mode)) {
    result = call_program(w, &st, S_ISLNK(st.st_mode) ? FTW_SL : FTW_F);
  } else {
    w->dev = st.st_dev;
    if (!(w->flags & FTW_PHYS) && mark_visited(w, &st) < 0) {
      return -1;
    }
    result = walk_directory(w, &st, NULL);
  }
  bool skip = result == FTW_SKIP_SUBTREE || result == FTW_SKIP_SIBLINGS;
  return w->flags & FTW_ACTIONRETVAL && skip ? 0 : result;
}

/* Does the same for FTW_CHDIR: changes to that directory first, and back at the end. */
static int walk_changing(struct walk *w) {
  char *cwd = NULL;
  int result = 0;
  int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && (errno != EACCES || !(cwd = getcwd(NULL, 0)))) {
    return -1;
  }
  if (fd >= 0 && w->most > 1) {
    w->most--;
  }
  if (w->ftw.base == 1) {
    result = chdir("/");
  } else if (w->ftw.base > 1) {
    char *slash = w->path + w->ftw.base - 1;
    *slash = '\0';
    result = chdir(w->path);
    *slash = '/';
  }
  if (result == 0) {
    result = walk_start(w);
  }
  int saved = errno;
  if (fd >= 0) {
    (void)!fchdir(fd);
    close(fd);
  } else {
    (void)!chdir(cwd);
    free(cwd);
  }
  errno = saved;
  return result;
}

static int walk_path(const char *path, __ftw_func_t call, __nftw_func_t call_n, int most,
                     int flags) {
  size_t length = strlen(path);
  if (length == 0) {
    errno = ENOENT;
    return -1;
  }
  struct walk w = {.flags = flags, .call = call, .call_n = call_n, .most = most < 1 ? 1 : most};
  w.room = length * 2 < PATH_MAX ? PATH_MAX : length * 2;
  w.path = malloc(w.room);
  if (!w.path) {
    return -1;
  }
  while (length > 1 && path[length - 1] == '/') {
    length--;
  }
  memcpy(w.path, path, length);
  w.path[length] = '\0';
  const char *slash = strrchr(w.path, '/');
  w.ftw.base = slash ? (int)(slash + 1 - w.path) : 0;
  int result = flags & FTW_CHDIR ? walk_changing(&w) : walk_start(&w);
  int saved = errno;
  tdestroy(w.seen, free);
  free(w.path);
  errno = saved;
  return result;
}

/* ---- the calls ---- */

SHARD_EXPORT int ftw(const char *path, __ftw_func_t call, int most) {
  if (!shard_view_active()) {
    return shard_real()->ftw(path, call, most);
  }
  return walk_path(path, call, NULL, most, 0);
}
SHARD_ALIAS(ftw64, ftw);

SHARD_EXPORT int nftw(const char *path, __nftw_func_t call, int most, int flags) {
  if (!shard_view_active()) {
    return shard_real()->nftw(path, call, most, flags);
  }
  if (flags & ~ALL_FLAGS) {
    errno = EINVAL;
    return -1;
  }
  return walk_path(path, NULL, call, most, flags);
}
SHARD_ALIAS(nftw64, nftw);

/* Programs linked before glibc 2.3.3 do not know FTW_ACTIONRETVAL; unknown flags are ignored. */
#if defined(__x86_64__)
typeof(nftw) shard_old_nftw, shard_old_nftw64;
SHARD_ALIAS(shard_old_nftw64, shard_old_nftw);
SHARD_OLD(nftw);
SHARD_OLD(nftw64);

SHARD_EXPORT int shard_old_nftw(const char *path, __nftw_func_t call, int most, int flags) {
  if (!shard_view_active()) {
    return shard_real()->old_nftw(path, call, most, flags);
  }
  return walk_path(path, NULL, call, most, flags & OLD_FLAGS);
}
#endif
