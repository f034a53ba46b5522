/* SPDX-License-Identifier: MIT */
/*
 * fts.c - wraps fts_open, fts_read and their family.
 *
 * libc's fts lists directories inside libc, past libshard's readdir, so while the view is active
 * every tree is walked here. The program reads FTS and FTSENT itself: they are glibc's structs, and
 * each field, of the private fields those that are used here, has the value that glibc puts there.
 * A handle that libc opened while no view was active stays libc's: a table has libshard's handles.
 *
 * As in glibc, only a part of the hierarchy is in memory: the ancestors of the current entry, by
 * fts_parent, and the entries after each of them on its level, by fts_link. All entries share a
 * buffer, which holds the path of the current entry.
 *
 * Differences from glibc
 *   - the way back from a followed link to an empty directory, or to a directory on which
 *     fts_children was called, is by descriptor; glibc uses "..", fails and ends the walk;
 *   - paths may have 65534 bytes; glibc stops at some 36000;
 *   - a directory that cannot be read to its end, as with a damaged listing, is FTS_DNR; glibc
 *     takes the error for the directory's end;
 *   - no descriptor is leaked, or used after it is closed; fts_children after the end gives NULL.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "host/real.h"
#include "interpose/dir.h"
#include "interpose/handles.h"
#include "view/view.h"

static_assert(sizeof(struct stat) == sizeof(struct stat64), "fts is fts64");
static_assert(sizeof(FTS) == sizeof(FTS64) && sizeof(FTSENT) == sizeof(FTSENT64), "fts is fts64");
static_assert(offsetof(FTSENT, fts_statp) == offsetof(FTSENT64, fts_statp) &&
                  offsetof(FTSENT, fts_name) == offsetof(FTSENT64, fts_name),
              "fts is fts64");

/* Why a directory is read: fts_read enters it, or fts_children lists it, with or without
 * FTS_NAMEONLY. */
enum purpose { ENTER, CHILDREN, NAMES };

/* The largest fts_pathlen; the path's buffer has room for it, and for one more slash, from the
 * start. */
enum { LONGEST_PATH = USHRT_MAX - 1 };

static struct shard_handles ours;

static bool has_option(const FTS *fts, int option) { return fts->fts_options & option; }
static bool changes_directory(const FTS *fts) { return !has_option(fts, FTS_NOCHDIR); }

/* Ends the walk for good. Returns NULL. */
static FTSENT *stop_walk(FTS *fts) {
  fts->fts_options |= FTS_STOP;
  return NULL;
}

static int open_here(void) { return open(".", O_RDONLY | O_CLOEXEC); }

/* ---- entries ---- */

static FTSENT *new_entry(const FTS *fts, const char *name, size_t length) {
  size_t align = _Alignof(struct stat);
  size_t size = (sizeof(FTSENT) + length + align) / align * align;
  FTSENT *e = calloc(1, size + (has_option(fts, FTS_NOSTAT) ? 0 : sizeof(struct stat)));
  if (!e) {
    return NULL;
  }
  memcpy(e->fts_name, name, length);
  e->fts_namelen = (unsigned short)length;
  e->fts_path = fts->fts_path;
  e->fts_instr = FTS_NOINSTR;
  e->fts_statp = has_option(fts, FTS_NOSTAT) ? NULL : (struct stat *)(void *)((char *)e + size);
  return e;
}

/* Closes the descriptor of the directory that has a followed link. */
static void forget_link(FTSENT *e) {
  if (e->fts_flags & FTS_SYMFOLLOW) {
    e->fts_flags &= (unsigned short)~FTS_SYMFOLLOW;
    shard_file_close(e->fts_symfd);
  }
}

static void free_entry(FTSENT *e) {
  forget_link(e);
  free(e);
}

static void free_list(FTSENT *e) {
  while (e) {
    FTSENT *after = e->fts_link;
    free_entry(e);
    e = after;
  }
}

static void forget_children(FTS *fts) {
  free_list(fts->fts_child);
  fts->fts_child = NULL;
}

static FTSENT *sort_list(const FTS *fts, FTSENT *list, size_t count) {
  FTSENT **array = fts->fts_compar && count > 1 ? malloc(count * sizeof(FTSENT *)) : NULL;
  if (!array) {
    return list; /* out of memory: unsorted, as in glibc */
  }
  size_t n = 0;
  for (FTSENT *e = list; e; e = e->fts_link) {
    array[n++] = e;
  }
  qsort(array, n, sizeof(FTSENT *), fts->fts_compar);
  for (size_t i = 0; i < n; i++) {
    array[i]->fts_link = i + 1 < n ? array[i + 1] : NULL;
  }
  list = array[0];
  free(array);
  return list;
}

/* ---- paths ---- */

/* Returns where the slash before a name in directory e goes in the path. */
static size_t end_of_path(const FTSENT *e) {
  return e->fts_path[e->fts_pathlen - 1] == '/' ? e->fts_pathlen - 1U : e->fts_pathlen;
}

/* Makes e the current entry, below its parent. Returns e. */
static FTSENT *make_current(FTS *fts, FTSENT *e) {
  char *p = fts->fts_path + end_of_path(e->fts_parent);
  *p++ = '/';
  memcpy(p, e->fts_name, e->fts_namelen + 1U);
  return fts->fts_cur = e;
}

/* Makes e, an argument of fts_open, the current entry. Its name, which was the whole path, becomes
 * the last component. Returns e. */
static FTSENT *make_current_root(FTS *fts, FTSENT *e) {
  e->fts_pathlen = e->fts_namelen;
  memcpy(fts->fts_path, e->fts_name, e->fts_namelen + 1U);
  char *slash = strrchr(e->fts_name, '/');
  if (slash && (slash != e->fts_name || slash[1])) {
    size_t length = strlen(slash + 1);
    memmove(e->fts_name, slash + 1, length + 1);
    e->fts_namelen = (unsigned short)length;
  }
  e->fts_accpath = e->fts_path = fts->fts_path;
  fts->fts_dev = e->fts_dev;
  return fts->fts_cur = e;
}

/* ---- the working directory ---- */

/* Changes to path or, if path is NULL, to fd, which must be the directory e. Errors: -1 and errno.
 */
static int change_to(const FTS *fts, const FTSENT *e, int fd, const char *path) {
  struct stat st;
  if (!changes_directory(fts)) {
    return 0;
  }
  int opened = path ? open(path, O_RDONLY | O_CLOEXEC) : fd;
  if (opened < 0) {
    return -1;
  }
  int rc = fstat(opened, &st);
  if (rc == 0 && (st.st_dev != e->fts_dev || st.st_ino != e->fts_ino)) {
    errno = ENOENT; /* the directory was moved */
    rc = -1;
  }
  if (rc == 0) {
    rc = fchdir(opened);
  }
  if (path) {
    shard_file_close(opened);
  }
  return rc;
}

/* Changes from directory e to the directory from which the walk reached e. Errors: -1 and errno. */
static int change_back(const FTS *fts, const FTSENT *e) {
  if (!changes_directory(fts)) {
    return 0;
  }
  if (e->fts_level == FTS_ROOTLEVEL) {
    return fchdir(fts->fts_rfd);
  }
  if (e->fts_flags & FTS_SYMFOLLOW) {
    return fchdir(e->fts_symfd);
  }
  return change_to(fts, e->fts_parent, -1, "..");
}

/* ---- stat ---- */

/* Calls stat(2) or lstat(2) for e, and fills in the result. Returns e's fts_info. */
static unsigned short stat_entry(const FTS *fts, FTSENT *e, bool follow) {
  struct stat unwanted, *st = e->fts_statp ? e->fts_statp : &unwanted;
  follow |= has_option(fts, FTS_LOGICAL);
  if ((follow ? stat(e->fts_accpath, st) : lstat(e->fts_accpath, st)) != 0) {
    int error = errno;
    if (follow && lstat(e->fts_accpath, st) == 0) {
      errno = 0;
      return FTS_SLNONE;
    }
    e->fts_errno = error;
    memset(st, 0, sizeof(*st));
    return FTS_NS;
  }
  if (!S_ISDIR(st->st_mode)) {
    return S_ISLNK(st->st_mode) ? FTS_SL : S_ISREG(st->st_mode) ? FTS_F : FTS_DEFAULT;
  }
  e->fts_dev = st->st_dev;
  e->fts_ino = st->st_ino;
  e->fts_nlink = st->st_nlink;
  if (shard_dir_is_dot(e->fts_name)) {
    return FTS_DOT;
  }
  for (FTSENT *p = e->fts_parent; p && p->fts_level >= FTS_ROOTLEVEL; p = p->fts_parent) {
    if (p->fts_ino == st->st_ino && p->fts_dev == st->st_dev) {
      e->fts_cycle = p;
      return FTS_DC;
    }
  }
  return FTS_D;
}

/* Follows the link e. If e leads to a directory, keeps a descriptor for the way back. */
static void follow_link(const FTS *fts, FTSENT *e) {
  e->fts_info = stat_entry(fts, e, true);
  if (e->fts_info != FTS_D || !changes_directory(fts)) {
    return;
  }
  forget_link(e);
  e->fts_symfd = open_here();
  if (e->fts_symfd < 0) {
    e->fts_errno = errno;
    e->fts_info = FTS_ERR;
  } else {
    e->fts_flags |= FTS_SYMFOLLOW;
  }
}

/* ---- reading a directory ---- */

/* A directory that is being read. */
struct reading {
  DIR *dir;
  FTSENT *of;
  FTSENT *head, **end;
  size_t count;
  size_t base;     /* of names in the path */
  bool names_only; /* no entry is stat'ed */
  bool by_type;    /* FTS_NOSTAT: only entries that may be directories are stat'ed */
  int directories; /* sub-directories to come, by the link count, as in libc; below 0: not known */
};

/* Adds an entry. Errors: -1 and errno; the walk is over. */
static int add_entry(FTS *fts, struct reading *r, const struct dirent *d) {
  size_t length = strlen(d->d_name);
  if (r->base + length > LONGEST_PATH) {
    errno = ENAMETOOLONG; /* fts_pathlen is a short */
    return -1;
  }
  FTSENT *e = new_entry(fts, d->d_name, length);
  if (!e) {
    return -1;
  }
  e->fts_level = (short)(r->of->fts_level + 1);
  e->fts_parent = r->of;
  e->fts_pathlen = (unsigned short)(r->base + length);
  e->fts_accpath = changes_directory(fts) ? e->fts_name : e->fts_path;
  if (r->names_only || r->directories == 0 ||
      (r->by_type && d->d_type != DT_DIR && d->d_type != DT_UNKNOWN)) {
    e->fts_info = FTS_NSOK;
  } else {
    if (!changes_directory(fts)) {
      memcpy(fts->fts_path + r->base, e->fts_name, length + 1);
    }
    e->fts_info = stat_entry(fts, e, false);
    bool found = e->fts_info == FTS_D || e->fts_info == FTS_DC || e->fts_info == FTS_DOT;
    r->directories -= found && r->directories > 0;
  }
  *r->end = e;
  r->end = &e->fts_link;
  r->count++;
  return 0;
}

/*
 * Adds all entries; none if the directory cannot be read to its end: then fts_info says so, or
 * errno if fts_children has called, and fts_read tries again. Errors: -1 and errno; the walk is
 * over.
 */
static int add_entries(FTS *fts, struct reading *r, enum purpose purpose) {
  const struct dirent *d;
  int rc, saved = errno;
  while ((rc = shard_dir_next(r->dir, &d)) > 0) {
    bool wanted = has_option(fts, FTS_SEEDOT) || !shard_dir_is_dot(d->d_name);
    if (wanted && add_entry(fts, r, d) != 0) {
      return -1;
    }
    saved = errno;
  }
  if (rc < 0) {
    int error = errno;
    free_list(r->head);
    r->head = NULL;
    r->count = 0;
    errno = error;
    if (purpose == ENTER) {
      r->of->fts_info = FTS_DNR;
      r->of->fts_errno = error;
      errno = saved;
    }
  }
  return 0;
}

static FTSENT *abandon(FTS *fts, struct reading *r) {
  int saved = errno;
  free_list(r->head);
  r->of->fts_info = FTS_ERR;
  errno = saved;
  return stop_walk(fts);
}

/*
 * Reads the entries of the current directory. Changes to the directory if its entries will be
 * stat'ed or the purpose is ENTER; changes back unless the purpose is ENTER and there are entries.
 * Returns the first entry; NULL if there is none: after ENTER, fts_info says why; FTS_STOP may be
 * set.
 */
static FTSENT *read_directory(FTS *fts, enum purpose purpose) {
  FTSENT *cur = fts->fts_cur;
  struct reading r = {.of = cur, .end = &r.head, .names_only = purpose == NAMES};
  r.dir = opendir(cur->fts_accpath);
  if (!r.dir) {
    if (purpose == ENTER) {
      cur->fts_info = FTS_DNR;
      cur->fts_errno = errno;
    }
    return NULL;
  }
  r.by_type = has_option(fts, FTS_NOSTAT) && has_option(fts, FTS_PHYSICAL);
  r.directories = r.by_type ? (int)cur->fts_nlink - (has_option(fts, FTS_SEEDOT) ? 0 : 2) : -1;
  bool leaf = r.directories == 0;
  bool enter = purpose == ENTER || (purpose == CHILDREN && !leaf);
  bool there = enter && change_to(fts, cur, dirfd(r.dir), NULL) == 0;
  if (enter && !there) {
    /* Reported when the walk leaves the directory, whose entries are skipped. */
    cur->fts_errno = purpose == ENTER && !leaf ? errno : cur->fts_errno;
    cur->fts_flags |= FTS_DONTCHDIR;
  }
  r.base = end_of_path(cur) + 1;
  if (!changes_directory(fts)) {
    fts->fts_path[r.base - 1] = '/';
  }
  int rc = enter && !there ? 0 : add_entries(fts, &r, purpose);
  shard_dir_close(r.dir);
  if (rc != 0) {
    return abandon(fts, &r);
  }
  if (!changes_directory(fts)) {
    fts->fts_path[r.count > 0 ? r.base : r.base - 1] = '\0';
  }
  if (there && (purpose != ENTER || r.count == 0) && change_back(fts, cur) != 0) {
    return abandon(fts, &r);
  }
  if (purpose == ENTER && r.count == 0 && cur->fts_info != FTS_DNR) {
    cur->fts_info = FTS_DP;
  }
  return sort_list(fts, r.head, r.count);
}

/* ---- the walk ---- */

static int end_walk(FTS *fts) {
  int rc = 0, saved = errno;
  for (FTSENT *e = fts->fts_cur; e;) {
    FTSENT *after = e->fts_link ? e->fts_link : e->fts_parent;
    free_entry(e);
    e = after;
  }
  free_list(fts->fts_child);
  free(fts->fts_path);
  if (changes_directory(fts)) {
    rc = fchdir(fts->fts_rfd);
    saved = rc == 0 ? saved : errno;
    close(fts->fts_rfd);
  }
  free(fts);
  errno = saved;
  return rc;
}

/* Creates the entries of level 0, and the entry that is their parent. Errors: -1 and errno. */
static int add_roots(FTS *fts, char *const *paths) {
  FTSENT *before = fts->fts_cur, **end = &before->fts_link;
  size_t count = 0;
  if (!*paths) {
    return 0;
  }
  FTSENT *parent = new_entry(fts, "", 0);
  if (!parent) {
    return -1;
  }
  parent->fts_level = FTS_ROOTPARENTLEVEL;
  before->fts_parent = parent;
  for (; *paths; paths++, count++) {
    size_t length = strlen(*paths);
    if (length == 0 || length > LONGEST_PATH) {
      errno = length == 0 ? ENOENT : ENAMETOOLONG;
      return -1;
    }
    FTSENT *e = new_entry(fts, *paths, length);
    if (!e) {
      return -1;
    }
    e->fts_level = FTS_ROOTLEVEL;
    e->fts_parent = parent;
    e->fts_accpath = e->fts_name;
    e->fts_info = stat_entry(fts, e, has_option(fts, FTS_COMFOLLOW));
    e->fts_info = e->fts_info == FTS_DOT ? FTS_D : e->fts_info;
    if (fts->fts_compar) { /* in reverse order, as in glibc: the sort is not stable */
      e->fts_link = before->fts_link;
      before->fts_link = e;
    } else {
      *end = e;
      end = &e->fts_link;
    }
  }
  before->fts_link = sort_list(fts, before->fts_link, count);
  return 0;
}

static FTS *begin_walk(char *const *paths, int options,
                       int (*compare)(const FTSENT **, const FTSENT **)) {
  if (options & ~FTS_OPTIONMASK) {
    errno = EINVAL;
    return NULL;
  }
  FTS *fts = calloc(1, sizeof(*fts));
  if (!fts) {
    return NULL;
  }
  fts->fts_compar = (int (*)(const void *, const void *))(void (*)(void))compare;
  fts->fts_options = options | FTS_NOCHDIR;
  fts->fts_pathlen = LONGEST_PATH + 2;
  fts->fts_path = malloc((size_t)fts->fts_pathlen);
  fts->fts_cur = fts->fts_path ? new_entry(fts, "", 0) : NULL;
  if (!fts->fts_cur) {
    end_walk(fts);
    return NULL;
  }
  fts->fts_cur->fts_info = FTS_INIT; /* an entry before the first, already visited */
  if (add_roots(fts, paths) != 0) {
    end_walk(fts);
    return NULL;
  }
  if (!(options & (FTS_NOCHDIR | FTS_LOGICAL))) {
    fts->fts_rfd = open_here();
    fts->fts_options = fts->fts_rfd < 0 ? fts->fts_options : options;
  }
  int rc = shard_handles_insert(&ours, fts, &ours);
  if (rc != 0) {
    end_walk(fts);
    errno = -rc;
    return NULL;
  }
  return fts;
}

/* Moves from the current directory, visited before its entries, to its first entry. Returns that
 * entry; the directory again if no entry is to be visited. */
static FTSENT *go_down(FTS *fts, int instruction) {
  FTSENT *e = fts->fts_cur;
  if (instruction == FTS_SKIP || (has_option(fts, FTS_XDEV) && e->fts_dev != fts->fts_dev)) {
    forget_link(e);
    forget_children(fts);
    e->fts_info = FTS_DP;
    return e;
  }
  if (has_option(fts, FTS_NAMEONLY) && fts->fts_child) {
    fts->fts_options &= ~FTS_NAMEONLY;
    forget_children(fts);
  }
  FTSENT *first = fts->fts_child;
  fts->fts_child = NULL;
  if (!first) {
    first = read_directory(fts, ENTER);
    if (!first) {
      return has_option(fts, FTS_STOP) ? NULL : e;
    }
  } else if (change_to(fts, e, -1, e->fts_accpath) != 0) {
    /* Reported when the walk leaves the directory; its entries stay as they were read. */
    e->fts_errno = errno;
    e->fts_flags |= FTS_DONTCHDIR;
    for (FTSENT *c = first; c; c = c->fts_link) {
      c->fts_accpath = e->fts_accpath;
    }
  }
  return make_current(fts, first);
}

/* Moves from the last entry of a level to its parent. Returns the parent, visited after its
 * entries. */
static FTSENT *go_up(FTS *fts) {
  FTSENT *done = fts->fts_cur, *e = done->fts_parent;
  free_entry(done);
  fts->fts_cur = e;
  if (!e || e->fts_level == FTS_ROOTPARENTLEVEL) {
    free(e);
    fts->fts_cur = NULL;
    errno = 0;
    return NULL;
  }
  fts->fts_path[e->fts_pathlen] = '\0';
  bool by_name = e->fts_level != FTS_ROOTLEVEL && !(e->fts_flags & FTS_SYMFOLLOW);
  if (!(by_name && e->fts_flags & FTS_DONTCHDIR) && change_back(fts, e) != 0) {
    return stop_walk(fts);
  }
  forget_link(e);
  e->fts_info = e->fts_errno ? FTS_ERR : FTS_DP;
  return e;
}

static FTSENT *read_next(FTS *fts) {
  FTSENT *e = fts->fts_cur;
  if (!e || has_option(fts, FTS_STOP)) {
    return NULL;
  }
  int instruction = e->fts_instr;
  e->fts_instr = FTS_NOINSTR;
  if (instruction == FTS_AGAIN) {
    e->fts_info = stat_entry(fts, e, false);
    return e;
  }
  if (instruction == FTS_FOLLOW && (e->fts_info == FTS_SL || e->fts_info == FTS_SLNONE)) {
    follow_link(fts, e);
    return e;
  }
  if (e->fts_info == FTS_D) {
    return go_down(fts, instruction);
  }
  while (e->fts_link) {
    FTSENT *done = e;
    fts->fts_cur = e = e->fts_link;
    free_entry(done);
    if (e->fts_level == FTS_ROOTLEVEL) {
      if (changes_directory(fts) && fchdir(fts->fts_rfd) != 0) {
        return stop_walk(fts);
      }
      return make_current_root(fts, e);
    }
    if (e->fts_instr == FTS_SKIP) {
      continue;
    }
    if (e->fts_instr == FTS_FOLLOW) {
      follow_link(fts, e);
      e->fts_instr = FTS_NOINSTR;
    }
    return make_current(fts, e);
  }
  return go_up(fts);
}

static FTSENT *list_children(FTS *fts, int instruction) {
  const FTSENT *e = fts->fts_cur;
  if (instruction != 0 && instruction != FTS_NAMEONLY) {
    errno = EINVAL;
    return NULL;
  }
  errno = 0;
  if (!e || has_option(fts, FTS_STOP)) {
    return NULL;
  }
  if (e->fts_info == FTS_INIT) {
    return e->fts_link;
  }
  if (e->fts_info != FTS_D) {
    return NULL;
  }
  forget_children(fts);
  fts->fts_options |= instruction; /* kept until fts_read reads the directory, as in glibc */
  enum purpose purpose = instruction == FTS_NAMEONLY ? NAMES : CHILDREN;
  if (!changes_directory(fts) || e->fts_level != FTS_ROOTLEVEL || e->fts_accpath[0] == '/') {
    return fts->fts_child = read_directory(fts, purpose);
  }
  /* A relative argument of fts_open may be relative to another directory than fts_rfd, so the way
   * back is by descriptor. */
  int here = open_here();
  if (here < 0) {
    return NULL;
  }
  fts->fts_child = read_directory(fts, purpose);
  int rc = fchdir(here);
  shard_file_close(here);
  return rc == 0 ? fts->fts_child : NULL;
}

static int set_instruction(FTSENT *e, int instruction) {
  if (instruction != 0 && instruction != FTS_AGAIN && instruction != FTS_FOLLOW &&
      instruction != FTS_NOINSTR && instruction != FTS_SKIP) {
    errno = EINVAL;
    return 1;
  }
  e->fts_instr = (unsigned short)instruction;
  return 0;
}

/* ---- the calls ---- */

static bool is_ours(const FTS *fts) { return shard_handles_find(&ours, fts); }

SHARD_EXPORT FTS *fts_open(char *const *paths, int options,
                           int (*compare)(const FTSENT **, const FTSENT **)) {
  if (!shard_view_active()) {
    return shard_real()->fts_open(paths, options, compare);
  }
  return begin_walk(paths, options, compare);
}

SHARD_EXPORT FTSENT *fts_read(FTS *fts) {
  return is_ours(fts) ? read_next(fts) : shard_real()->fts_read(fts);
}

SHARD_EXPORT FTSENT *fts_children(FTS *fts, int instruction) {
  return is_ours(fts) ? list_children(fts, instruction)
                      : shard_real()->fts_children(fts, instruction);
}

SHARD_EXPORT int fts_set(FTS *fts, FTSENT *entry, int instruction) {
  return is_ours(fts) ? set_instruction(entry, instruction)
                      : shard_real()->fts_set(fts, entry, instruction);
}

SHARD_EXPORT int fts_close(FTS *fts) {
  return shard_handles_remove(&ours, fts) ? end_walk(fts) : shard_real()->fts_close(fts);
}

SHARD_ALIAS(fts64_open, fts_open);
SHARD_ALIAS(fts64_read, fts_read);
SHARD_ALIAS(fts64_children, fts_children);
SHARD_ALIAS(fts64_set, fts_set);
SHARD_ALIAS(fts64_close, fts_close);
