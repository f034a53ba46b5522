/* SPDX-License-Identifier: MIT */
#include "source/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/xxh64.h"
#include "build/intake.h"
#include "listing/listing.h"
#include "source/compare.h"
#include "source/forms.h"

#define PIPE_SIZE ((size_t)1 << 20)     /* the most that every user may ask for */
#define BUFFER_SIZE ((size_t)256 << 10) /* fits into the CPU's cache */
#define SEEN 4096                       /* directories that are remembered, by their hashes */
#define LOOKUPS 1000                    /* names that are looked up below a directory, at least */
#define HITS 2

/* Where a name was found. */
struct hit {
  const char *file;
  uint64_t line;
};

/* A list that is read: one text, or several by several threads. */
struct reading {
  const char *const *texts;
  size_t count;
  const struct shard_text_options *options;
  const char *name; /* the listing's source */
  size_t root_length;
  bool of_url;  /* the root is a URL */
  bool again;   /* all can be read a second time */
  off_t begin;  /* standard input: where it stood at first; negative: it is not known */
  bool sampled; /* names are looked up */
  struct shard_text_told *told;
  struct shard_intake *intake;
  atomic_size_t next;    /* the text that is read next */
  pthread_mutex_t mutex; /* of what follows */
  uint64_t given;        /* names */
  atomic_int rc;         /* the first error */
  char *err;
  size_t size;
};

/* What one thread reads with. On the heap. */
struct text_reader {
  struct reading *all;
  const struct shard_text_options *options;
  struct shard_intake_hand *hand;
  size_t index; /* of the text */
  const char *file;
  uint64_t line;
  char err[1300];
  struct shard_text_told told;
  uint64_t given;                    /* names */
  uint64_t lookups, looked_up, step; /* each step-th is; after so many, of more and more */
  uint64_t encoded;                  /* those that had a %XX and were looked up */
  uint64_t last_line;
  char last[PATH_MAX];  /* the name before, below --root */
  int root;             /* a descriptor of --root; -1: it is not looked into */
  uint64_t seen[SEEN];  /* hashes of directories of names that are there */
  bool nul;             /* the buffer has a NUL somewhere; then each line is searched for one */
  const char *unpacker; /* the program that the text comes from; NULL: none */
  uint64_t unpacked;    /* bytes that it has given */
  off_t begin;          /* where in its file the text begins; negative: it is not known */
  /* A name that is searched: no name goes to the intake. NULL: none is. */
  const char *wanted;
  size_t wanted_length, hit_count;
  struct hit hits[HITS];
  char buffer[BUFFER_SIZE];
};

#define fail(r, rc, ...) shard_error_set((r)->err, sizeof((r)->err), rc, __VA_ARGS__)
#define fail_line(r, rc, format, ...)                                                              \
  fail(r, rc, "%s, line %llu: " format, show_name((r)->file), (unsigned long long)(r)->line,       \
       ##__VA_ARGS__)

static const char *show_name(const char *file) {
  return strcmp(file, "-") == 0 ? "standard input" : file;
}

static int refuse_line(struct text_reader *r, const char *why) {
  return fail_line(r, -EINVAL, "%s", why);
}

/* ---- is it there? ---- */

/*
 * Whether the directory of a name, the first `length` bytes of a path below --root, is there, and
 * no link on the way: a program that lists asks for directories by what they are, so names behind a
 * link, or in a directory that does not exist, would be in the listing and never be shown. 0, or
 * -EINVAL and a line. The path is changed and put back.
 */
static int check_directory(struct text_reader *r, char *path, size_t length) {
  uint64_t hash = shard_xxh64(path, length, 0), *seen = &r->seen[hash % SEEN];
  if (r->root < 0 || length == 0 || *seen == hash) {
    return 0;
  }
  int fd = r->root, rc = 0;
  for (size_t at = 0, end; at < length && rc == 0; at = end + 1) {
    const char *slash = memchr(path + at, '/', length - at);
    end = slash ? (size_t)(slash - path) : length;
    char before = path[end];
    path[end] = 0;
    struct stat st;
    int next = openat(fd, path + at, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), error = errno;
    if (next < 0) {
      bool link = error == ENOTDIR && fstatat(fd, path + at, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                  S_ISLNK(st.st_mode);
      rc = fail_line(r, -EINVAL, "its directory '%.300s' below --root '%.300s' %s%s", path,
                     r->options->root,
                     link ? "is a link; name files by the paths that they have without links (find "
                            "without -L)"
                          : "cannot be found: ",
                     link ? "" : strerror(error));
    }
    path[end] = before;
    if (fd != r->root) {
      close(fd);
    }
    fd = next;
  }
  shard_file_close(fd);
  *seen = rc == 0 ? hash : *seen;
  return rc;
}

/* Whether a name of a line is that of a file below --root. 0, or -EINVAL and a line. */
static int look_up(struct text_reader *r, const char *name, uint64_t line) {
  struct stat st;
  bool there = fstatat(r->root, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
  int error = errno;
  if (there && !S_ISDIR(st.st_mode)) {
    return 0;
  }
  r->line = line;
  if (there) {
    return fail_line(r, -EINVAL, "'%.300s' is a directory; list files only (find -type f)", name);
  }
  char *plain = strdup(name);
  ssize_t n = plain ? shard_forms_decode(plain, strlen(plain), false) : -1;
  bool encoded = n > 0 && (size_t)n < strlen(name);
  if (encoded) {
    plain[n] = 0;
    encoded = fstatat(r->root, plain, &st, AT_SYMLINK_NOFOLLOW) == 0;
  }
  int rc =
      fail_line(r, -EINVAL, "it names '%.300s', which is not below --root '%.300s': %s; %s%s%s",
                name, r->options->root, strerror(error),
                encoded ? "is it percent-encoded? '"
                        : "--no-check, if the names are of "
                          "another host's directory",
                encoded ? plain : "", encoded ? "' is there" : "");
  free(plain);
  return rc;
}

/* Whether the name has a %XX. Rare names of this kind are what a few lookups would miss. */
static bool is_encoded(const char *name, size_t length) {
  const char *at = memchr(name, '%', length), *end = name + length;
  return at && end - at > 2 && shard_forms_decode((char[]){at[0], at[1], at[2]}, 3, false) == 1;
}

/* Look up the name of this line, if it is one of those that are: the first ones, then ever fewer,
 * and some that have a %XX. */
static int sample(struct text_reader *r, const char *name, size_t length) {
  if (r->encoded < r->lookups && is_encoded(name, length)) {
    r->encoded++;
  } else if (r->given % r->step != 0) {
    return 0;
  } else if (++r->looked_up % r->lookups == 0) {
    r->step *= 4;
  }
  return look_up(r, name, r->line);
}

/* ---- a name ---- */

/* Give a name on. */
static int give(struct text_reader *r, const char *name, size_t length) {
  if (r->wanted) {
    if (length == r->wanted_length && memcmp(name, r->wanted, length) == 0) {
      r->hits[r->hit_count++] = (struct hit){r->file, r->line};
    }
    return r->hit_count < HITS ? 0 : -ECANCELED;
  }
  r->given++;
  return shard_intake_add(r->hand, name, length);
}

/* Copy a path below --root as the directories there have it: without empty parts and '.'. What
 * names no file that could be there is refused. Its length, or -EINVAL. */
static ssize_t make_canonical(struct text_reader *r, const char *text, size_t length,
                              bool directory, char *path) {
  size_t used = 0, n = 0;
  for (size_t at = 0; at <= length; at += n + 1) {
    const char *part = text + at, *slash = memchr(part, '/', length - at);
    n = slash ? (size_t)(slash - part) : length - at;
    bool here = n == 0 || (n == 1 && *part == '.');
    if (n == 2 && part[0] == '.' && part[1] == '.') {
      refuse_line(r, "it has a part '..'; write names as they lie below --root");
      return -EINVAL;
    }
    if (here && !slash && !directory) {
      refuse_line(r, "it names a directory; list files only (find -type f)");
      return -EINVAL;
    }
    if (!here) {
      if (used > 0) {
        path[used++] = '/';
      }
      memcpy(path + used, part, n);
      used += n;
    }
  }
  path[used] = 0;
  return (ssize_t)used;
}

/* Give on a name below --root, a directory. */
static int take_path(struct text_reader *r, const char *text, size_t length) {
  char path[PATH_MAX];
  ssize_t used = make_canonical(r, text, length, false, path);
  if (used < 0) {
    return (int)used;
  }
  const char *name = memrchr(path, '/', (size_t)used);
  int rc = check_directory(r, path, name ? (size_t)(name - path) : 0);
  if (rc != 0 && is_encoded(path, (size_t)used)) {
    return look_up(r, path, r->line);
  }
  if (rc == 0 && r->root >= 0) {
    rc = sample(r, path, (size_t)used);
    memcpy(r->last, path, (size_t)used + 1);
    r->last_line = r->line;
  }
  return rc ? rc : give(r, path, (size_t)used);
}

static int take_name(struct text_reader *r, const char *text, size_t length) {
  if (!r->options->root) {
    return give(r, text, length);
  }
  if (!r->all->of_url) {
    return take_path(r, text, length);
  }
  if (text[length - 1] == '/') {
    r->told.markers++;
    return 0;
  }
  return give(r, text, length);
}

/* Take the root from a name that begins with it. 1; 0 if it does not. */
static bool cut_root(const struct text_reader *r, const char **text, size_t *length) {
  size_t n = r->all->root_length;
  if (*length <= n + 1 || memcmp(*text, r->options->root, n) != 0 || (n > 0 && (*text)[n] != '/')) {
    return false;
  }
  *text += n + 1;
  *length -= n + 1;
  return true;
}

/* ---- lines of each form ---- */

/* Whether a name is a path, or a URL, that is to begin with the root's name. A URL of another
 * scheme taken for a key would be one that no bucket has, and its object would be nobody's. */
static bool is_absolute(const struct text_reader *r, const char *text, size_t length) {
  return !r->all->of_url    ? *text == '/'
         : r->options->said ? length > r->all->root_length &&
                                  memcmp(text, r->options->root, r->all->root_length) == 0
                            : *text == '/' || shard_forms_scheme(text, length) > 0 ||
                                  (length > 6 && memcmp(text, "file:/", 6) == 0);
}

static int take_text(struct text_reader *r, const char *text, size_t length) {
  const struct shard_text_options *o = r->options;
  if (*text == '/' && !o->root && r->all->intake->options->order == SHARD_ORDER_DIRECTORY) {
    return refuse_line(r, "it is an absolute path; give --root, the directory that all lie below");
  }
  if (o->root && is_absolute(r, text, length) && !cut_root(r, &text, &length)) {
    /* What follows a URL's question mark may be a signature. */
    const char *query = shard_forms_scheme(text, length) > 0 ? memchr(text, '?', length) : NULL;
    length = query ? (size_t)(query - text) : length;
    return fail_line(r, -EINVAL, "'%.*s' does not lie below --root '%s'%s",
                     (int)(length < 300 ? length : 300), text, o->root,
                     *text == '/' && *o->root != '/' && !r->all->of_url
                         ? "; give --root as an absolute path, too"
                         : "");
  }
  return take_name(r, text, length);
}

/* What an entry is that dwalk has not looked at, or that is a link: 'D', also for one that leads to
 * a directory, 'F', or -EINVAL; and its own mode. */
static int find_type(struct text_reader *r, const char *path, char type, mode_t *mode) {
  struct stat st = {.st_mode = S_IFLNK};
  if (r->root < 0) {
    return refuse_line(r, "dwalk has not told whether it is a directory, or a link to one: index "
                          "where DIR is mounted, with --root DIR");
  }
  if (type == 'U' && fstatat(r->root, path, &st, AT_SYMLINK_NOFOLLOW) != 0) {
    return look_up(r, path, r->line);
  }
  *mode = st.st_mode;
  return S_ISLNK(st.st_mode) && fstatat(r->root, path, &st, 0) != 0 ? 'F'
         : S_ISDIR(st.st_mode)                                      ? 'D'
                                                                    : 'F';
}

/* "PATH|T", dwalk's light form; its walk's root and all directories are among them. */
static int take_lite(struct text_reader *r, const char *text, size_t length) {
  char path[PATH_MAX];
  char type = length > 2 && text[length - 2] == '|' ? text[length - 1] : 0;
  if (!type || !strchr("FDLU", type) || *text != '/') {
    return refuse_line(r,
                       "it is no absolute path with |F, |D, |L or |U at its end. The list is not "
                       "of dwalk's light form (mpirun dwalk --lite -o LIST DIR), or a name has a "
                       "newline");
  }
  length -= 2;
  if (r->options->root && !cut_root(r, &text, &length)) {
    bool itself =
        length == r->all->root_length && memcmp(text, r->options->root, r->all->root_length) == 0;
    r->told.outside += !itself;
    return 0;
  }
  ssize_t n = type == 'F' ? 0 : make_canonical(r, text, length, type == 'D', path);
  bool known = type == 'F' || type == 'D' || r->wanted;
  mode_t mode = 0;
  int kind = n < 0 ? (int)n : known ? type : find_type(r, path, type, &mode);
  if (!r->wanted) {
    r->hand->type = known ? DT_REG : (uint8_t)IFTODT(mode);
  }
  if (kind != 'D') {
    return kind < 0 ? kind : take_name(r, text, length);
  }
  return r->wanted || n == 0 || !r->options->root || !r->hand->others.sorter
             ? 0
             : shard_intake_add_other(r->hand, path, (size_t)n, 0, known ? DT_DIR : r->hand->type);
}

/* A record of an S3 Inventory. */
static int take_record(struct text_reader *r, char *line, size_t length) {
  char *key;
  const char *why,
      *root = r->options->root + strlen("s3://") + strlen(r->options->inventory->bucket);
  size_t n = strlen(root);
  int rc = shard_inventory_record(r->options->inventory, line, length, &key, &length, &why);
  if (rc < 0 || length >= PATH_MAX) {
    return refuse_line(r, rc < 0 ? why : "its key is longer than a path can be");
  }
  /* The root ends in a slash, and so does what stands before a key. */
  bool below = length >= n - 1 && memcmp(key, root + 1, n - 1) == 0;
  r->told.versions += rc == 0;
  r->told.outside += rc > 0 && !below;
  if (rc == 0 || !below || length == n - 1) {
    r->told.markers += rc > 0 && below;
    return 0;
  }
  return take_name(r, key + n - 1, length - (n - 1));
}

static int take_line(struct text_reader *r, char *text, size_t length) {
  const struct shard_text_options *o = r->options;
  r->line++;
  if (length == 0) {
    return refuse_line(r, "it is empty; remove it");
  }
  if (length >= PATH_MAX && !o->inventory) {
    return refuse_line(r, "it is longer than a path can be; are names ended by NUL? (-0)");
  }
  if (o->separator == '\n') {
    if (r->nul && memchr(text, 0, length)) {
      return refuse_line(r, "it has a NUL byte; are names ended by NUL? (-0)");
    }
    if (r->line == 1 && length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
      return refuse_line(r, "it begins with a byte order mark; convert the text (dos2unix)");
    }
    if (text[length - 1] == '\r' && !o->inventory) {
      return refuse_line(r, "it ends with a carriage return; convert the text (dos2unix)");
    }
  }
  return o->form == SHARD_TEXT_NAMES   ? take_text(r, text, length)
         : o->form == SHARD_TEXT_DWALK ? take_lite(r, text, length)
                                       : take_record(r, text, length);
}

/* ---- a text ---- */

/* A few bytes of a packed text may become any number. */
static int check_unpacked(struct text_reader *r, size_t more) {
  r->unpacked += more;
  return !r->unpacker || r->unpacked <= r->options->unpacked_max
             ? 0
             : fail(r, -EFBIG,
                    "%s: %s unpacks it to more than %llu bytes; if the text is the right one, "
                    "pipe it through %s -dc to shardctl index -",
                    show_name(r->file), r->unpacker, (unsigned long long)r->options->unpacked_max,
                    r->unpacker);
}

/* Read on until the buffer has `least` bytes or fd ends. How many it has, or a negative errno. */
static ssize_t fill(struct text_reader *r, int fd, char *buffer, size_t filled, size_t least,
                    bool *ended) {
  while (!*ended && filled < least) {
    ssize_t n = read(fd, buffer + filled, BUFFER_SIZE - filled);
    if (n < 0 && errno != EINTR) {
      return fail(r, -errno, "cannot read %s: %s", show_name(r->file), strerror(errno));
    }
    *ended = n == 0;
    filled += n > 0 ? (size_t)n : 0;
  }
  return (ssize_t)filled;
}

static int judge(struct text_reader *r, const char *buffer, size_t filled, bool ended) {
  const struct shard_text_options *o = r->options;
  const struct shard_forms_text text = {.data = buffer,
                                        .size =
                                            filled < SHARD_FORMS_BEGIN ? filled : SHARD_FORMS_BEGIN,
                                        .whole = ended && filled <= SHARD_FORMS_BEGIN,
                                        .separator = o->separator,
                                        .root = o->root,
                                        .lines = !o->said};
  char why[1000];
  int rc = o->inventory ? 0 : shard_forms_judge(&text, why, sizeof(why));
  return rc == 0 ? 0 : fail(r, rc, "%s %s", show_name(r->file), why);
}

/* Read lines from fd. The first `filled` bytes are in the buffer already. */
static int read_lines(struct text_reader *r, int fd, char *buffer, size_t filled) {
  bool ended = false, open = false;
  ssize_t n = fill(r, fd, buffer, filled, SHARD_FORMS_BEGIN, &ended);
  int rc = n < 0 ? (int)n : judge(r, buffer, (size_t)n, ended);
  rc = rc ? rc : check_unpacked(r, n > 0 ? (size_t)n : 0);
  filled = n > 0 ? (size_t)n : 0;
  r->nul = memchr(buffer, 0, filled) != NULL;
  while (rc == 0 && (!ended || filled > 0)) {
    size_t at = 0;
    while (at < filled) {
      const char *end = memchr(buffer + at, r->options->separator, filled - at);
      if (!end && !ended) {
        break;
      }
      open = !end;
      size_t length = end ? (size_t)(end - buffer) - at : filled - at;
      if ((rc = take_line(r, buffer + at, length)) != 0) {
        return rc;
      }
      at += length + (end != NULL);
    }
    if (at == 0 && filled == BUFFER_SIZE) {
      r->line++;
      return refuse_line(r, "it is longer than a path can be; are names ended by NUL? (-0)");
    }
    memmove(buffer, buffer + at, filled - at);
    filled -= at;
    if (!ended) {
      n = fill(r, fd, buffer, filled, filled + 1, &ended);
      rc = n < 0 ? (int)n : check_unpacked(r, (size_t)n - filled);
      r->nul = (r->nul && filled > 0) ||
               (n > 0 && memchr(buffer + filled, 0, (size_t)n - filled) != NULL);
      filled = n > 0 ? (size_t)n : 0;
      rc = rc == 0 && atomic_load_explicit(&r->all->rc, memory_order_relaxed) ? -ECANCELED : rc;
    }
  }
  if (rc == 0 && open && r->index + 1 < r->all->count && !r->options->inventory) {
    rc = refuse_line(r, "the text ends without a newline (-0: a NUL), and another follows; is it "
                        "cut short?");
  }
  return rc;
}

/*
 * The program that unpacks a file that begins with these bytes; NULL for plain text. A zstd file
 * may begin with a skippable frame (RFC 8878, 3.1.2), as those of pzstd do.
 */
static const char *find_unpacker(const uint8_t *p, size_t size) {
  static const uint8_t gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd},
                       skipped[] = {0x2a, 0x4d, 0x18};
  if (size >= sizeof(gzip) && memcmp(p, gzip, sizeof(gzip)) == 0) {
    return "gzip";
  }
  bool packed = size >= sizeof(zstd) &&
                (memcmp(p, zstd, sizeof(zstd)) == 0 ||
                 ((p[0] & 0xf0) == 0x50 && memcmp(p + 1, skipped, sizeof(skipped)) == 0));
  return packed ? "zstd" : NULL;
}

/* Whether a file's name says that it is packed: then it has a header, even if it holds no line. */
static bool is_named_packed(const char *file) {
  const char *dot = strrchr(file, '.');
  return dot && (strcmp(dot, ".gz") == 0 || strcmp(dot, ".zst") == 0);
}

/* Unpack fd, from the text's beginning, by `program -dc`, and read the lines. */
static int read_packed(struct text_reader *r, int fd, const char *program, char *buffer) {
  int pipes[2];
  if (r->begin < 0 || lseek(fd, r->begin, SEEK_SET) != r->begin) {
    return fail(r, -ESPIPE, "%s is packed by %s, and cannot be read twice; pipe it through %s -dc",
                show_name(r->file), program, program);
  }
  if (pipe2(pipes, O_CLOEXEC) != 0) {
    return fail(r, -errno, "pipe: %s", strerror(errno));
  }
  fcntl(pipes[0], F_SETPIPE_SZ, (int)PIPE_SIZE); /* fewer changes of threads */
  pid_t pid;
  char *arguments[] = {(char *)program, (char *)"-dc", NULL};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fd, 0);
  posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
  int rc = -posix_spawnp(&pid, program, &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipes[1]);
  if (rc != 0) {
    close(pipes[0]);
    return fail(r, rc, "cannot start %s, which unpacks %s: %s", program, show_name(r->file),
                strerror(-rc));
  }
  r->unpacker = program;
  rc = read_lines(r, pipes[0], buffer, 0);
  close(pipes[0]);
  int status;
  pid_t got = (pid_t)TEMP_FAILURE_RETRY(waitpid(pid, &status, 0));
  if (rc == 0 && (got != pid || status != 0)) {
    rc = fail(r, -EBADMSG, "%s could not unpack %s", program, show_name(r->file));
  }
  return rc;
}

/* Whether a listing is of the others' root, of all names that its source has told, and of names
 * alone: types and empty directories would be lost. 0 or -EINVAL. */
static int check_listing(struct text_reader *r, const struct shard_listing *l) {
  const char *include = strstr(l->options, " include=");
  bool all = l->header->directories == 0 && l->header->attributes != SHARD_ATTRIBUTES_STORED &&
             include && strchr(" ", include[strlen(" include=")]);
  return strcmp(l->source, r->all->name) != 0
             ? fail(r, -EINVAL,
                    "'%.300s' is a listing of '%.300s', and the others' root is '%.300s'", r->file,
                    l->source, r->all->name)
         : !all ? fail(r, -EINVAL,
                       "'%.300s' is a listing of a directory that was walked, or of some of the "
                       "names only; list that directory again",
                       r->file)
                : 0;
}

static int read_listing(struct text_reader *r, struct shard_listing *l) {
  struct shard_cursor *c = malloc(sizeof(*c));
  const char *name;
  ssize_t n;
  int rc = c ? check_listing(r, l) : fail(r, -ENOMEM, "out of memory");
  if (rc == 0 && shard_listing_verify(l) == 0 && shard_listing_seek(c, l, 0) == 0) {
    while (rc == 0 && (n = shard_listing_next(c, &name)) > 0) {
      r->line++;
      rc = take_name(r, name, (size_t)n);
    }
  } else if (rc == 0) {
    rc = fail(r, -EBADMSG, "listing '%.300s' is damaged", r->file);
  }
  free(c);
  return rc;
}

/* Whether a file is a listing. A pipe is not opened for that: its writer may write once only. */
static bool open_listing(const char *file, struct shard_listing **l) {
  struct stat st;
  return stat(file, &st) == 0 && S_ISREG(st.st_mode) && shard_listing_open(file, l) == 0;
}

/* Open a text; *l: it is a listing, one of several sources. A descriptor or a negative errno. */
static int open_text(struct text_reader *r, struct shard_listing **l) {
  const struct shard_text_options *o = r->options;
  if (o->inventory) {
    const struct shard_inventory_part *part = &o->inventory->parts[r->index];
    int fd = o->open(o->context, part, r->err, sizeof(r->err));
    int rc =
        fd < 0 ? fd
               : shard_inventory_check(fd, r->file, part->md5, part->size, r->err, sizeof(r->err));
    if (rc < 0) {
      shard_file_close(fd);
    }
    return rc < 0 ? rc : fd;
  }
  if (strcmp(r->file, "-") == 0) {
    return lseek(0, r->all->begin, SEEK_SET) != r->all->begin && r->all->intake->attempt > 0
               ? fail(r, -ESPIPE, "cannot read standard input a second time: %s", strerror(errno))
               : fcntl(0, F_DUPFD_CLOEXEC, 3);
  }
  if (r->all->count > 1 && !o->said && o->separator && open_listing(r->file, l)) {
    return -1;
  }
  int fd = open(r->file, O_RDONLY | O_CLOEXEC);
  return fd >= 0 ? fd
                 : fail(r, -errno, "cannot open manifest '%.300s': %s", r->file, strerror(errno));
}

/* Read the text r->index. 0, or a negative errno, and a line or "". */
static int read_text(struct text_reader *r) {
  char *buffer = r->buffer;
  struct shard_listing *l = NULL;
  r->file = r->all->texts[r->index];
  r->line = r->given = r->looked_up = r->encoded = r->last_line = r->unpacked = 0;
  r->unpacker = NULL;
  r->begin = strcmp(r->file, "-") == 0 ? r->all->begin : 0;
  r->lookups = 1 + (LOOKUPS - 1) / r->all->count;
  r->step = 1;
  r->err[0] = 0;
  int fd = open_text(r, &l), rc = fd < 0 && !l ? fd : 0;
  if (l) {
    rc = read_listing(r, l);
    shard_listing_close(l);
  } else if (rc == 0) {
    bool ended = false;
    fcntl(fd, F_SETPIPE_SZ, (int)PIPE_SIZE); /* if it is a pipe: fewer changes of threads */
    ssize_t n = fill(r, fd, buffer, 0, 4, &ended);
    rc = n < 0 ? (int)n : 0;
    if (n == 0 && (is_named_packed(r->file) || r->options->inventory)) {
      rc = fail(r, -EBADMSG, "%s is 0 bytes long, and no packed text is; make it anew",
                show_name(r->file));
    }
    const char *program = n > 0 ? find_unpacker((const uint8_t *)buffer, (size_t)n) : NULL;
    rc = rc        ? rc
         : program ? read_packed(r, fd, program, buffer)
                   : read_lines(r, fd, buffer, (size_t)n);
    close(fd);
  }
  return rc == 0 && r->last_line > 0 ? look_up(r, r->last, r->last_line) : rc;
}

/* ---- all texts ---- */

/* Read texts until there are none. */
static void read_texts(struct reading *all, struct text_reader *r) {
  int rc = 0;
  uint64_t given = 0;
  while (rc == 0 && !all->rc && (r->index = atomic_fetch_add(&all->next, 1)) < all->count) {
    rc = read_text(r);
    given += r->given;
  }
  pthread_mutex_lock(&all->mutex);
  all->given += given;
  all->told->markers += r->told.markers;
  all->told->outside += r->told.outside;
  all->told->versions += r->told.versions;
  if (rc != 0 && !all->rc) {
    all->rc = rc;
    snprintf(all->err, all->size, "%s", r->err);
  }
  pthread_mutex_unlock(&all->mutex);
}

static void *read_by_thread(void *context) {
  struct text_reader *r = context;
  read_texts(r->all, r);
  return NULL;
}

static struct text_reader *new_reader(struct reading *all, struct shard_intake_hand *hand) {
  struct text_reader *r = calloc(1, sizeof(*r));
  if (r) {
    r->all = all;
    r->options = all->options;
    r->hand = hand;
    r->root = -1;
  }
  return r;
}

/* A source's read(); context: struct reading. */
static int read_all(void *context, struct shard_intake *intake, char *err, size_t size) {
  struct reading *all = context;
  struct text_reader *readers[SHARD_INTAKE_HANDS] = {NULL};
  pthread_t threads[SHARD_INTAKE_HANDS];
  bool started[SHARD_INTAKE_HANDS] = {false};
  int root = -1;
  size_t n = all->count < SHARD_INTAKE_HANDS ? all->count : SHARD_INTAKE_HANDS;
  *all->told = (struct shard_text_told){0};
  all->intake = intake;
  all->err = err;
  all->size = size;
  all->next = all->given = 0;
  all->rc = 0;
  if (all->sampled) {
    root = open(all->options->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
      return shard_error_set(err, size, -errno,
                             "--root '%.300s': %s; --no-check, if it is another host's directory",
                             all->options->root, strerror(errno));
    }
  }
  for (size_t i = 0; i < n; i++) {
    readers[i] = new_reader(all, &intake->hands[i]);
    if (readers[i]) {
      readers[i]->root = root;
      started[i] = i > 0 && pthread_create(&threads[i], NULL, read_by_thread, readers[i]) == 0;
    }
  }
  if (readers[0]) {
    read_texts(all, readers[0]);
  } else if (n > 0) { /* an inventory may have no part */
    all->rc = -ENOMEM;
  }
  for (size_t i = 0; i < n; i++) {
    if (started[i]) {
      pthread_join(threads[i], NULL);
    }
    free(readers[i]);
  }
  shard_file_close(root);
  if (all->rc == 0 && all->given == 0 && all->told->outside > 0) {
    return shard_error_set(err, size, -EINVAL,
                           "none of the names (%llu) lies below --root '%.300s'",
                           (unsigned long long)all->told->outside, all->options->root);
  }
  return all->rc;
}

/* A source's find(): where a name stands, for an error. */
static void find_all(void *context, const char *name, size_t length, char *text, size_t size) {
  struct reading *all = context;
  struct text_reader *r = new_reader(all, NULL);
  size_t used = 0;
  all->rc = 0;
  if (r && all->again) {
    r->wanted = name;
    r->wanted_length = length;
    for (; r->index < all->count && r->hit_count < HITS; r->index++) {
      (void)read_text(r);
    }
    for (size_t i = 0; i < r->hit_count && used < size; i++) {
      used += (size_t)snprintf(text + used, size - used, "%s%.300s, line %llu%s", i ? "; " : " (",
                               show_name(r->hits[i].file), (unsigned long long)r->hits[i].line,
                               i + 1 == r->hit_count ? ")" : "");
    }
  }
  free(r);
}

/* A source's check(): dwalk says nothing of directories that it could not read. */
static int compare(void *context, const char *file, char *err, size_t size) {
  const struct reading *all = context;
  return shard_compare_directories(file, all->options->root, err, size);
}

/* What absolute names lie below: a URL with a slash at its end; that of a listing among several
 * texts. Malloc'd; NULL: nothing. */
static char *choose_root(const char *const *texts, size_t count,
                         const struct shard_text_options *how) {
  const char *root = how->root;
  char *own = NULL;
  struct shard_listing *l;
  for (size_t i = 0; !root && count > 1 && !how->said && i < count && !own; i++) {
    if (open_listing(texts[i], &l)) {
      own = strdup(l->source);
      shard_listing_close(l);
    }
  }
  bool open = root && shard_forms_scheme(root, strlen(root)) && root[strlen(root) - 1] != '/';
  return own ? own : !root || asprintf(&own, "%s%s", root, open ? "/" : "") < 0 ? NULL : own;
}

int shard_text_build(const char *const *texts, size_t count, const struct shard_text_options *how,
                     const struct shard_options *options, const char *file,
                     struct shard_build_result *result, struct shard_text_told *told, char *err,
                     size_t size) {
  struct stat st;
  struct shard_text_options own = *how;
  char *root = choose_root(texts, count, how), *real = NULL;
  own.root = root;
  struct reading all = {
      .texts = texts, .count = count, .options = &own, .begin = -1, .again = true, .told = told};
  pthread_mutex_init(&all.mutex, NULL);
  all.of_url = own.root && shard_forms_scheme(own.root, strlen(own.root)) > 0;
  all.root_length = own.root ? strlen(own.root) : 0;
  if (all.of_url) { /* a key may begin with a slash; a bucket's listing may be of "s3://b/pre" */
    all.root_length = (size_t)(strrchr(own.root, '/') - own.root);
  }
  while (!all.of_url && all.root_length > 0 && own.root[all.root_length - 1] == '/') {
    all.root_length--; /* "/" becomes "" */
  }
  const char *named = own.root ? own.root : texts[0];
  real = all.of_url || strcmp(named, "-") == 0 ? NULL : realpath(named, NULL);
  all.name = real ? real : named;
  all.sampled = own.root && !all.of_url && !own.unchecked;
  for (size_t i = 0; i < count && !own.inventory; i++) {
    bool standard = strcmp(texts[i], "-") == 0;
    all.begin = standard ? lseek(0, 0, SEEK_CUR) : all.begin;
    all.again = all.again && (standard ? fstat(0, &st) : stat(texts[i], &st)) == 0 &&
                S_ISREG(st.st_mode) && (!standard || all.begin >= 0);
  }
  const struct shard_source source = {
      .name = all.name,
      .label = count == 1 ? show_name(texts[0]) : all.name,
      .twice = "remove one, or keep it once by --unique, or keep all by --keep-order",
      .ordered = count == 1 && own.form != SHARD_TEXT_DWALK,
      .once = !all.again,
      .unique = own.unique,
      .typed = own.form == SHARD_TEXT_DWALK,
      .tree = own.root && !all.of_url,
      .listed = own.inventory ? &own.inventory->made : NULL,
      .read = read_all,
      .find = find_all,
      .check = own.form == SHARD_TEXT_DWALK && all.sampled ? compare : NULL,
      .context = &all};
  int rc = shard_build(&source, options, file, result, err, size);
  pthread_mutex_destroy(&all.mutex);
  free(real);
  free(root);
  return rc;
}
