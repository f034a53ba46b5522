/* SPDX-License-Identifier: MIT */
#include "source/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
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
#include "config/dataset.h"

#define PIPE_SIZE ((size_t)1 << 20)     /* the most that every user may ask for */
#define BUFFER_SIZE ((size_t)256 << 10) /* fits into the CPU's cache */
#define SEEN 4096                       /* directories that are remembered, by their hashes */

struct text_reader {
  const char *file;
  const struct shard_text_options *options;
  size_t root_length;
  bool of_bucket; /* the root is a prefix of a bucket */
  uint64_t line;
  char *err;
  size_t size;
  struct shard_intake *intake;
  size_t last_length;
  char last[PATH_MAX];  /* the name before, below --root */
  int root;             /* a descriptor of --root; -1: it is not there, or not asked for */
  uint64_t seen[SEEN];  /* hashes of directories of names that are there */
  bool nul;             /* the buffer has a NUL somewhere; then each line is searched for one */
  const char *unpacker; /* the program that the text comes from; NULL: none */
  uint64_t unpacked;    /* bytes that it has given */
  off_t begin;          /* where in its file the text begins; negative: it is not known */
};

#define fail(r, rc, ...) shard_error_set((r)->err, (r)->size, rc, __VA_ARGS__)

static const char *show_name(const struct text_reader *r) {
  return strcmp(r->file, "-") == 0 ? "standard input" : r->file;
}

static int refuse_line(struct text_reader *r, const char *why) {
  return fail(r, -EINVAL, "%s, line %llu: %s", show_name(r), (unsigned long long)r->line, why);
}

enum { SCHEME = 5 }; /* the length of "s3://" */

/* Whether a name begins as an object's URL does, in the words of any tool. */
static bool is_url(const char *text, size_t length) {
  static const char *const schemes[] = {"s3://", "gs://", "s3a://", "s3n://"};
  bool is = false;
  for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]) && !is; i++) {
    size_t n = strlen(schemes[i]);
    is = length >= n && memcmp(text, schemes[i], n) == 0;
  }
  return is;
}

/* Whether a name is a path, or a URL, that is to begin with the root's name. A URL of another
 * scheme taken for a key would be one that no bucket has, and its object would be nobody's. */
static bool is_absolute(const struct text_reader *r, const char *text, size_t length) {
  return r->of_bucket ? is_url(text, length) : *text == '/';
}

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
      rc = fail(r, -EINVAL, "%s, line %llu: its directory '%.300s' below --root '%.300s' %s%s",
                show_name(r), (unsigned long long)r->line, path, r->options->root,
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

/*
 * Give on a name below --root as the directories there have it: without empty parts and '.'. What
 * names no file that could be there is refused, for a listing of it would show nothing.
 */
static int take_name(struct text_reader *r, const char *text, size_t length) {
  char path[PATH_MAX];
  size_t used = 0, n = 0;
  for (size_t at = 0; at <= length; at += n + 1) {
    const char *part = text + at, *slash = memchr(part, '/', length - at);
    n = slash ? (size_t)(slash - part) : length - at;
    bool here = n == 0 || (n == 1 && *part == '.');
    if (n == 2 && part[0] == '.' && part[1] == '.') {
      return refuse_line(r, "it has a part '..'; write names as they lie below --root");
    }
    if (here && !slash) {
      return refuse_line(r, "it names a directory; list files only (find -type f)");
    }
    if (!here) {
      if (used > 0) {
        path[used++] = '/';
      }
      memcpy(path + used, part, n);
      used += n;
    }
  }
  const char *name = memrchr(path, '/', used);
  int rc = check_directory(r, path, name ? (size_t)(name - path) : 0);
  if (rc != 0) {
    return rc;
  }
  bool below = used > r->last_length && r->last_length > 0 && path[r->last_length] == '/' &&
               memcmp(path, r->last, r->last_length) == 0;
  if (below) {
    return refuse_line(r, "the name before it is that of its directory; list files only (find "
                          "-type f)");
  }
  memcpy(r->last, path, used);
  r->last_length = used;
  return shard_intake_add(r->intake, path, used);
}

static int take_line(struct text_reader *r, const char *text, size_t length) {
  const struct shard_text_options *o = r->options;
  r->line++;
  if (length == 0) {
    return refuse_line(r, "it is empty; remove it");
  }
  if (length >= PATH_MAX) {
    return refuse_line(r, "it is longer than a path can be; are names ended by NUL? (-0)");
  }
  if (o->separator == '\n') {
    if (r->nul && memchr(text, 0, length)) {
      return refuse_line(r, "it has a NUL byte; are names ended by NUL? (-0)");
    }
    if (r->line == 1 && length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
      return refuse_line(r, "it begins with a byte order mark; convert the text (dos2unix)");
    }
    if (text[length - 1] == '\r') {
      return refuse_line(r, "it ends with a carriage return; convert the text (dos2unix)");
    }
  }
  if (*text == '/' && !o->root && r->intake->options->order == SHARD_ORDER_DIRECTORY) {
    return refuse_line(r, "it is an absolute path; give --root, the directory that all lie below");
  }
  if (o->root && is_absolute(r, text, length)) {
    size_t n = r->root_length;
    if (length <= n + 1 || memcmp(text, o->root, n) != 0 || (n > 0 && text[n] != '/')) {
      return fail(r, -EINVAL, "%s, line %llu: '%.*s' does not lie below --root '%s'", show_name(r),
                  (unsigned long long)r->line, (int)(length < 300 ? length : 300), text, o->root);
    }
    text += n + 1;
    length -= n + 1;
  }
  return o->root && !r->of_bucket ? take_name(r, text, length)
                                  : shard_intake_add(r->intake, text, length);
}

/* A few bytes of a packed text may become any number. */
static int check_unpacked(struct text_reader *r, size_t more) {
  r->unpacked += more;
  return !r->unpacker || r->unpacked <= r->options->unpacked_max
             ? 0
             : fail(r, -EFBIG,
                    "%s: %s unpacks it to more than %llu bytes; if the text is the right one, "
                    "pipe it through %s -dc to shardctl index -",
                    show_name(r), r->unpacker, (unsigned long long)r->options->unpacked_max,
                    r->unpacker);
}

/* Read lines from fd. The first `filled` bytes are in the buffer already. */
static int read_lines(struct text_reader *r, int fd, char *buffer, size_t filled) {
  bool ended = false;
  r->nul = memchr(buffer, 0, filled) != NULL;
  while (!ended || filled > 0) {
    if (!ended && filled < BUFFER_SIZE) {
      ssize_t n = read(fd, buffer + filled, BUFFER_SIZE - filled);
      if (n < 0 && errno != EINTR) {
        return fail(r, -errno, "cannot read %s: %s", show_name(r), strerror(errno));
      }
      ended = n == 0;
      r->nul = (r->nul && filled > 0) || (n > 0 && memchr(buffer + filled, 0, (size_t)n));
      int rc = check_unpacked(r, n > 0 ? (size_t)n : 0);
      if (rc != 0) {
        return rc;
      }
      filled += n > 0 ? (size_t)n : 0;
    }
    size_t at = 0;
    while (at < filled) {
      const char *end = memchr(buffer + at, r->options->separator, filled - at);
      if (!end && !ended) {
        break;
      }
      size_t length = end ? (size_t)(end - buffer) - at : filled - at;
      int rc = take_line(r, buffer + at, length);
      if (rc != 0) {
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
  }
  return 0;
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
                show_name(r), program, program);
  }
  if (pipe2(pipes, O_CLOEXEC) != 0) {
    return fail(r, -errno, "pipe: %s", strerror(errno));
  }
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
    return fail(r, rc, "cannot start %s, which unpacks %s: %s", program, show_name(r),
                strerror(-rc));
  }
  r->unpacker = program;
  rc = read_lines(r, pipes[0], buffer, 0);
  close(pipes[0]);
  int status;
  pid_t got = (pid_t)TEMP_FAILURE_RETRY(waitpid(pid, &status, 0));
  if (rc == 0 && (got != pid || status != 0)) {
    rc = fail(r, -EBADMSG, "%s could not unpack %s", program, show_name(r));
  }
  return rc;
}

/* A text to be read. */
struct text_source {
  const char *file;
  const struct shard_text_options *options;
  off_t begin; /* standard input: where it stood at first */
};

/* A source's read(); context: struct text_source. */
static int read_text(void *context, struct shard_intake *intake, char *err, size_t size) {
  const struct text_source *text = context;
  const struct shard_text_options *options = text->options;
  const char *file = text->file;
  struct text_reader r = {.file = file,
                          .options = options,
                          .err = err,
                          .size = size,
                          .intake = intake,
                          .root = -1,
                          .begin = text->begin};
  /* The root without slashes at its end; "/" becomes "". */
  r.root_length = options->root ? strlen(options->root) : 0;
  while (r.root_length > 0 && options->root[r.root_length - 1] == '/') {
    r.root_length--;
  }
  r.of_bucket = options->root && shard_dataset_is_url(options->root);
  bool standard = strcmp(file, "-") == 0;
  if (standard && intake->attempt > 0 && lseek(0, text->begin, SEEK_SET) != text->begin) {
    return fail(&r, -ESPIPE, "cannot read standard input a second time: %s", strerror(errno));
  }
  int fd = standard ? 0 : open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return fail(&r, -errno, "cannot open manifest '%.300s': %s", file, strerror(errno));
  }
  fcntl(fd, F_SETPIPE_SZ, (int)PIPE_SIZE); /* if it is a pipe: fewer changes of threads */
  char *buffer = malloc(BUFFER_SIZE);
  int rc = 0;
  size_t filled = 0;
  if (!buffer) {
    close(fd);
    return fail(&r, -ENOMEM, "out of memory");
  }
  if (options->root && !r.of_bucket) {
    r.root = open(options->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  }
  while (rc == 0 && filled < 4) {
    ssize_t n = read(fd, buffer + filled, 4 - filled);
    if (n == 0) {
      break;
    }
    if (n < 0 && errno != EINTR) {
      rc = fail(&r, -errno, "cannot read %s: %s", show_name(&r), strerror(errno));
    }
    filled += n > 0 ? (size_t)n : 0;
  }
  if (rc == 0 && filled == 0 && is_named_packed(file)) {
    rc = fail(&r, -EBADMSG, "%s is 0 bytes long, and no packed text is; make it anew",
              show_name(&r));
  }
  if (rc == 0) {
    const char *program = find_unpacker((const uint8_t *)buffer, filled);
    rc = program ? read_packed(&r, fd, program, buffer) : read_lines(&r, fd, buffer, filled);
  }
  free(buffer);
  shard_file_close(r.root);
  if (!standard) {
    close(fd);
  }
  return rc;
}

/* The root's name in the listing: that of a bucket is as shardctl itself lists it, whatever the
 * scheme, and ends with a slash. Malloc'd. */
static char *bucket_name(const char *root) {
  size_t n = strlen(root), more = root[n - 1] != '/';
  char *name = malloc(n + more + 1);
  if (name) {
    snprintf(name, n + more + 1, "s3://%s%s", root + SCHEME, more ? "/" : "");
  }
  return name;
}

int shard_text_build(const char *path, const struct shard_text_options *how,
                     const struct shard_options *options, const char *file,
                     struct shard_build_result *result, char *err, size_t size) {
  bool standard = strcmp(path, "-") == 0;
  struct stat st;
  struct text_source text = {.file = path, .options = how};
  text.begin = standard ? lseek(0, 0, SEEK_CUR) : 0;
  bool again =
      (standard ? fstat(0, &st) : stat(path, &st)) == 0 && S_ISREG(st.st_mode) && text.begin >= 0;
  const char *named = how->root ? how->root : path;
  char *real = how->root && shard_dataset_is_url(how->root) ? bucket_name(how->root)
               : strcmp(named, "-") == 0                    ? NULL
                                                            : realpath(named, NULL);
  const struct shard_source source = {
      .name = real ? real : named,
      .label = path,
      .twice = "remove one, or keep it once by --unique, or keep all by --keep-order",
      .ordered = true,
      .once = !again,
      .unique = how->unique,
      .read = read_text,
      .context = &text};
  int rc = shard_build(&source, options, file, result, err, size);
  free(real);
  return rc;
}
