/* SPDX-License-Identifier: MIT */
/*
 * ftw.c - ftw and nftw.
 *
 * libc's own list directories past our readdir, so under the shard view they would show all of a
 * dataset. While the view is active every tree, served or not, is walked here, by the opendir
 * family of dir.c, which knows what to hide. To the program a walk looks as glibc's does: the same
 * order, codes, errno and descriptors. If that is odd, a comment says so.
 *
 * Directories that we are in are a chain of frames. At most `most` of them hold a stream: before
 * another is opened, the outermost one's names are read to memory and it is closed.
 *
 * Other than in glibc
 *   - a directory whose reading fails, as it does if a listing is damaged, ends the walk with -1;
 *     glibc takes any such error for the directory's end;
 *   - FTW_CHDIR goes deeper than PATH_MAX; glibc fails an assertion there.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/real.h"
#include "view/view.h"

static_assert(sizeof(struct stat) == sizeof(struct stat64), "ftw is ftw64");

#define OLD_FLAGS (FTW_PHYS | FTW_MOUNT | FTW_CHDIR | FTW_DEPTH)
#define ALL_FLAGS (OLD_FLAGS | FTW_ACTIONRETVAL)

/* A directory being walked: its stream or, if that was closed early, its names not yet visited. */
struct frame {
  DIR *stream;
  char *names; /* each followed by NUL, and one more NUL */
  struct frame *inner;
};

struct identity {
  dev_t dev;
  ino_t ino;
  bool used;
};

struct walk {
  char *path;
  size_t room;
  struct FTW ftw;
  int flags;
  dev_t dev;         /* of the start, for FTW_MOUNT */
  __ftw_func_t call; /* the program's: this or the next */
  __nftw_func_t call_n;
  int most, streams;
  struct frame *outermost; /* of those with a stream */
  struct identity *seen;   /* directories met, a hash table; only if links are followed */
  size_t seen_count, seen_room;
};

static int call_program(struct walk *w, const struct stat *st, int code) {
  if (w->call) {
    return w->call(w->path, st, code == FTW_SLN ? FTW_NS : code);
  }
  return w->call_n(w->path, st, code, &w->ftw);
}

/* ---- directories met ---- */

static struct identity *find_identity(struct identity *table, size_t room, dev_t dev, ino_t ino) {
  size_t i = (size_t)((ino ^ dev << 20) * 0x9e3779b97f4a7c15ULL >> 20) & (room - 1);
  while (table[i].used && (table[i].ino != ino || table[i].dev != dev)) {
    i = (i + 1) & (room - 1);
  }
  return &table[i];
}

/* 1: st was met before; 0: it is remembered now; -1 and errno. */
static int meet_directory(struct walk *w, const struct stat *st) {
  if (w->seen_count * 2 >= w->seen_room) {
    size_t room = w->seen_room ? w->seen_room * 2 : 64;
    struct identity *table = calloc(room, sizeof(*table));
    if (!table) {
      return -1;
    }
    for (size_t i = 0; i < w->seen_room; i++) {
      if (w->seen[i].used) {
        *find_identity(table, room, w->seen[i].dev, w->seen[i].ino) = w->seen[i];
      }
    }
    free(w->seen);
    w->seen = table;
    w->seen_room = room;
  }
  struct identity *p = find_identity(w->seen, w->seen_room, st->st_dev, st->st_ino);
  if (p->used) {
    return 1;
  }
  *p = (struct identity){st->st_dev, st->st_ino, true};
  w->seen_count++;
  return 0;
}

/* ---- frames ---- */

/* The next entry. NULL at the end, and errno stays; NULL and *failed on an error. */
static const struct dirent *next_entry(DIR *stream, bool *failed) {
  int saved = errno;
  errno = 0;
  const struct dirent *entry = readdir(stream);
  *failed = !entry && errno != 0;
  if (!*failed) {
    errno = saved;
  }
  return entry;
}

static void close_stream(struct walk *w, struct frame *f) {
  int saved = errno;
  closedir(f->stream);
  errno = saved;
  f->stream = NULL;
  w->streams--;
  if (w->outermost == f) {
    w->outermost = w->streams > 0 ? f->inner : NULL;
  }
}

/* Read what is left of the outermost stream to memory and close it. */
static int put_away(struct walk *w) {
  struct frame *f = w->outermost;
  size_t used = 0, room = 1024;
  char *names = malloc(room);
  const struct dirent *entry;
  bool failed;
  if (!names) {
    return -1;
  }
  while ((entry = next_entry(f->stream, &failed))) {
    size_t length = strlen(entry->d_name) + 1;
    if (used + length + 1 > room) {
      room = room * 2 + length;
      char *more = realloc(names, room);
      if (!more) {
        free(names);
        return -1;
      }
      names = more;
    }
    memcpy(names + used, entry->d_name, length);
    used += length;
  }
  if (failed) {
    int error = errno;
    free(names);
    errno = error;
    return -1;
  }
  names[used] = '\0';
  f->names = names;
  close_stream(w, f);
  return 0;
}

/* Open w->path, an entry of `outer`. */
static int open_frame(struct walk *w, struct frame *outer, struct frame *f) {
  if (w->streams == w->most && put_away(w) != 0) {
    return -1;
  }
  const char *name = w->path + w->ftw.base;
  if (outer && outer->stream) {
    int fd = openat(dirfd(outer->stream), name, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
      return -1;
    }
    f->stream = fdopendir(fd);
    if (!f->stream) {
      int saved = errno;
      close(fd);
      errno = saved;
    }
  } else if (w->flags & FTW_CHDIR) {
    f->stream = opendir(*name ? name : ".");
  } else {
    f->stream = opendir(w->path);
  }
  if (!f->stream) {
    return -1;
  }
  if (outer) {
    outer->inner = f;
  }
  if (w->streams++ == 0) {
    w->outermost = f;
  }
  return 0;
}

/* ---- the walk ---- */

static int walk_directory(struct walk *w, const struct stat *st, struct frame *outer);

static int put_name(struct walk *w, const char *name) {
  size_t base = (size_t)w->ftw.base, length = strlen(name) + 1;
  if (base + length + 1 > w->room) {
    size_t room = (base + length) * 2;
    char *path = realloc(w->path, room);
    if (!path) {
      return -1;
    }
    w->path = path;
    w->room = room;
  }
  memcpy(w->path + base, name, length);
  return 0;
}

/* Stat w->path, an entry of f. */
static int stat_entry(const struct walk *w, const struct frame *f, struct stat *st, int flags) {
  bool by_name = f->stream || w->flags & FTW_CHDIR;
  return fstatat(f->stream ? dirfd(f->stream) : AT_FDCWD, w->path + (by_name ? w->ftw.base : 0), st,
                 flags);
}

static int visit_entry(struct walk *w, struct frame *f, const char *name) {
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
    return 0;
  }
  if (put_name(w, name) != 0) {
    return -1;
  }
  struct stat st = {0};
  int code, result = 0;
  bool physical = w->flags & FTW_PHYS;
  if (stat_entry(w, f, &st, physical ? AT_SYMLINK_NOFOLLOW : 0) == 0) {
    code = S_ISDIR(st.st_mode) ? FTW_D : S_ISLNK(st.st_mode) ? FTW_SL : FTW_F;
  } else if (errno != EACCES && errno != ENOENT) {
    return -1;
  } else if (!physical && stat_entry(w, f, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)) {
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
    int met = physical ? 0 : meet_directory(w, &st);
    result = met != 0 ? met < 0 ? -1 : 0 : walk_directory(w, &st, f);
  }
  return w->flags & FTW_ACTIONRETVAL && result == FTW_SKIP_SUBTREE ? 0 : result;
}

static int visit_all(struct walk *w, struct frame *f) {
  int result = 0;
  const struct dirent *entry;
  bool failed = false;
  while (result == 0 && f->stream && (entry = next_entry(f->stream, &failed))) {
    result = visit_entry(w, f, entry->d_name);
  }
  if (f->stream) {
    close_stream(w, f);
    return failed ? -1 : result;
  }
  for (const char *name = f->names; result == 0 && *name; name += strlen(name) + 1) {
    result = visit_entry(w, f, name);
  }
  int saved = errno;
  free(f->names);
  errno = saved;
  return result;
}

/* Back from w->path to the directory it is in. */
static int change_back(const struct walk *w, const struct frame *outer) {
  if (outer->stream && fchdir(dirfd(outer->stream)) == 0) {
    return 0;
  }
  return chdir(w->ftw.base == 1 ? "/" : "..");
}

static int walk_frame(struct walk *w, const struct stat *st, struct frame *outer,
                      struct frame *here) {
  int result, base = w->ftw.base;
  bool actions = w->flags & FTW_ACTIONRETVAL;
  if (open_frame(w, outer, here) != 0) {
    return errno == EACCES ? call_program(w, st, FTW_DNR) : -1;
  }
  if (!(w->flags & FTW_DEPTH) && (result = call_program(w, st, FTW_D)) != 0) {
    close_stream(w, here);
    return result;
  }
  if (w->flags & FTW_CHDIR && fchdir(dirfd(here->stream)) != 0) {
    close_stream(w, here);
    return -1;
  }
  size_t length = strlen(w->path);
  if (w->path[length - 1] != '/') {
    w->path[length++] = '/'; /* put_name left room */
  }
  w->ftw.base = (int)length;
  w->ftw.level++;
  result = visit_all(w, here);
  if (actions && result == FTW_SKIP_SIBLINGS) {
    result = 0;
  }
  /* This makes "/" "", and that is what glibc then reports as FTW_DP. */
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

/* A directory, an entry of `outer`, and all below it. */
static int walk_directory(struct walk *w, const struct stat *st, struct frame *outer) {
  struct frame *here = calloc(1, sizeof(*here));
  if (!here) {
    return -1;
  }
  int result = walk_frame(w, st, outer, here), saved = errno;
  free(here);
  errno = saved;
  return result;
}

/* Walk w->path, from the directory it is in if FTW_CHDIR is set. */
static int walk_start(struct walk *w) {
  struct stat st;
  const char *name = w->path;
  int result;
  if (w->flags & FTW_CHDIR) {
    name += w->ftw.base;
    name = *name ? name : ".";
  }
  if (fstatat(AT_FDCWD, name, &st, w->flags & FTW_PHYS ? AT_SYMLINK_NOFOLLOW : 0) != 0) {
    if (w->flags & FTW_PHYS || errno != ENOENT || lstat(name, &st) != 0 || !S_ISLNK(st.st_mode)) {
      return -1;
    }
    result = call_program(w, &st, FTW_SLN);
  } else if (!S_ISDIR(st.st_mode)) {
    result = call_program(w, &st, S_ISLNK(st.st_mode) ? FTW_SL : FTW_F);
  } else {
    w->dev = st.st_dev;
    if (!(w->flags & FTW_PHYS) && meet_directory(w, &st) < 0) {
      return -1;
    }
    result = walk_directory(w, &st, NULL);
  }
  bool skip = result == FTW_SKIP_SUBTREE || result == FTW_SKIP_SIBLINGS;
  return w->flags & FTW_ACTIONRETVAL && skip ? 0 : result;
}

/* The same for FTW_CHDIR: go there first, and back at the end. */
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
  free(w.seen);
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

/* For programs linked before glibc 2.3.3 FTW_ACTIONRETVAL is unknown; unknown flags do no harm. */
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
