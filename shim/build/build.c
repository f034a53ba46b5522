/* SPDX-License-Identifier: MIT */
/*
 * build.c - brings names in any order from a source, through the sorter, to the writer.
 *
 *   source ──> intake ──> sorter ──> merge ──> writer ──> FILE
 *                 └── in the order they come ────┘
 *
 * Threads: the source's fill batches through the intake, and the sorter's sort them. At the end one
 * thread merges, and hands the names in chunks to the calling thread, which encodes and writes
 * them. If the source says that its names are ordered, the intake hands them to the writer at once,
 * as long as they are in order.
 */
#include "build/build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>

#include "base/error.h"
#include "base/filesystem.h"
#include "base/path.h"
#include "build/intake.h"
#include "build/memory.h"
#include "build/merge.h"
#include "build/numbered.h"
#include "build/progress.h"
#include "build/sorter.h"
#include "build/spool.h"
#include "build/writer.h"
#include "listing/codec.h"

#define ATTEMPTS 5
#define WRITER_MOST ((size_t)24 << 20)

struct build {
  const struct shard_source *source;
  const struct shard_options *options;
  const char *label, *file;
  const char *folders[5]; /* for temporary files; NULL-ended */
  struct shard_intake *intake;
  struct shard_writer_facts facts;
  enum shard_attributes_kept kept;
  struct shard_build_result *result;
  char *err;
  size_t size;
};

/* What kind of file system the listing's folder is of. */
static const char *name_filesystem(const char *file, char *buf, size_t size) {
  struct statfs fs;
  char *folder = shard_spool_folder(file);
  bool known = folder && statfs(folder, &fs) == 0;
  const char *network = known ? shard_filesystem_network_name((unsigned)fs.f_type) : NULL;
  free(folder);
  if (network || !known) {
    return network ? network : "of an unknown kind";
  }
  snprintf(buf, size, "type 0x%x", (unsigned)fs.f_type);
  return buf;
}

static int explain_unwritten(struct build *b, int rc) {
  char kind[40];
  bool damaged = rc == -EBADMSG, refused = rc == -ESPIPE || rc == -EOPNOTSUPP || rc == -EINVAL;
  if (!damaged && !refused) {
    return shard_error_set(b->err, b->size, rc, "cannot write listing '%.300s': %s", b->file,
                           strerror(-rc));
  }
  return shard_error_set(b->err, b->size, rc,
                         "cannot write listing '%.300s': its file system (%s) %s%s; write the "
                         "listing to another file system (-o, SHARD_CACHE_DIR)",
                         b->file, name_filesystem(b->file, kind, sizeof(kind)),
                         damaged ? "does not keep what is written" : "refuses to write: ",
                         damaged ? "" : strerror(-rc));
}

/* ---- to the writer ---- */

struct output {
  struct build *b;
  struct shard_writer *writer;
  enum shard_writer_table number;
  uint64_t *done; /* names */
};

/* A name comes twice, or lies below another. -EAGAIN and a line. */
static int refuse_name(const struct output *t, bool twice, const char *name, size_t length) {
  struct build *b = t->b;
  char where[700] = "";
  size_t above = twice ? length : shard_writer_above(t->writer);
  int n = (int)(length < 300 ? length : 300);
  if (b->source->find) {
    b->source->find(b->source->context, name, above, where, sizeof(where));
  }
  return twice ? shard_error_set(b->err, b->size, -EAGAIN, "'%.*s' comes twice%s: %s", n, name,
                                 where, b->source->twice)
               : shard_error_set(b->err, b->size, -EAGAIN,
                                 "'%.*s'%s is the directory of '%.*s'; list files only (find -type "
                                 "f)",
                                 (int)(above < 300 ? above : 300), name, where, n, name);
}

/* Write one name more. -EAGAIN if it has come before. */
static int write_name(void *context, char *name, size_t length, uint64_t ino, uint8_t type) {
  const struct output *t = context;
  struct build *b = t->b;
  shard_progress_count(t->done);
  if (b->options->order == SHARD_ORDER_DIRECTORY && t->number == SHARD_WRITER_NAMES) {
    length = shard_numbered_strip(name, length);
  }
  if (b->options->sample && t->number == SHARD_WRITER_NAMES) {
    length = shard_sampled_strip(name, length);
  }
  if (shard_intake_in_table(b->intake, name, length)) {
    b->intake->dropped += t->number == SHARD_WRITER_NAMES;
    return 0;
  }
  if (b->source->typed) { /* never 0, and not the same in both tables */
    ino = *t->done | (t->number == SHARD_WRITER_OTHERS ? 1ULL << 62 : 0);
  }
  int rc = shard_writer_put(t->writer, t->number, name, length, ino, type);
  if (rc == -EEXIST && t->number == SHARD_WRITER_OTHERS && !b->source->directory) {
    return 0; /* a directory that two names share */
  }
  if (rc == -EEXIST && b->source->unique) {
    b->intake->dropped++;
    return 0;
  }
  if (rc == -EEXIST || rc == -ENOTDIR) {
    return refuse_name(t, rc == -EEXIST, name, length);
  }
  return rc;
}

static int compare_paths(const void *pa, const void *pb) {
  return strcmp(((const struct shard_intake_directory *)pa)->path,
                ((const struct shard_intake_directory *)pb)->path);
}

static int write_directories(struct shard_intake *in, struct shard_writer *w) {
  int rc = 0;
  if (in->dirs_count > 0) { /* the threads have walked them in any order */
    qsort(in->dirs, in->dirs_count, sizeof(*in->dirs), compare_paths);
  }
  for (size_t i = 0; rc == 0 && i < in->dirs_count; i++) {
    const struct shard_intake_directory *d = &in->dirs[i];
    rc = shard_writer_dir(w, &d->id, d->path);
  }
  return rc;
}

static int open_writer(const struct build *b, struct shard_writer **w) {
  int rc = shard_writer_open(b->file, b->options->order, b->kept, b->options->sample, w);
  if (rc == 0 && b->source->tree && b->options->order == SHARD_ORDER_PATH) {
    shard_writer_forbid_below(*w);
  }
  return rc;
}

/* The writer's check. */
static int check_source(void *context, const char *file) {
  struct build *b = context;
  return b->source->check(b->source->context, file, b->err, b->size);
}

/* Write all that the intake has. w: a writer that has the names already; NULL: none is open yet. */
static int write_listing(struct build *b, struct shard_writer *w) {
  struct shard_intake *in = b->intake;
  bool written = w != NULL;
  b->err[0] = 0;
  int rc = written ? 0 : open_writer(b, &w);
  if (rc == 0) {
    uint64_t done = 0, total = written ? 0 : shard_sorter_count(in->names);
    struct output names = {b, w, SHARD_WRITER_NAMES, &done};
    struct output others = {b, w, SHARD_WRITER_OTHERS, &done};
    shard_progress_begin("writing", total + (in->others ? shard_sorter_count(in->others) : 0));
    rc = written ? 0 : shard_merge(in->names, write_name, &names, b->err, b->size);
    if (rc == 0 && in->others) {
      rc = shard_merge(in->others, write_name, &others, b->err, b->size);
    }
    rc = rc ? rc : write_directories(in, w);
    for (size_t i = 0; rc == 0 && i < in->tables_count; i++) {
      rc = shard_writer_table(w, in->tables[i].format, in->tables[i].path);
    }
    if (rc != 0) {
      shard_writer_abort(w);
    }
  }
  if (rc == 0) {
    b->result->entries = written ? in->written : shard_sorter_count(in->names) - in->dropped;
    b->result->directories = in->dirs_count;
    b->result->tables = in->tables_count;
    rc = shard_writer_commit(w, &b->facts, b->result->digest, &b->result->bytes);
  }
  return rc != 0 && !b->err[0] ? explain_unwritten(b, rc) : rc;
}

/* ---- reading the source ---- */

/* Choose the folders for names that do not fit into memory, the best first. */
static void choose_folders(struct build *b, const char *beside) {
  size_t n = 0;
  const char *tmpdir = getenv("TMPDIR");
  if (tmpdir && *tmpdir) {
    b->folders[n++] = tmpdir;
  }
  b->folders[n++] = beside;
  b->folders[n++] = "/var/tmp";
  b->folders[n] = "/tmp";
}

/* Whether the sorter has other names than the writer (numbered.h): they are merged. */
static bool has_keys(const struct build *b) {
  return b->options->order == SHARD_ORDER_DIRECTORY || b->options->order == SHARD_ORDER_SAMPLE;
}

static int open_sorters(struct build *b) {
  size_t memory = shard_memory_for_names();
  bool attributes = b->kept != SHARD_ATTRIBUTES_NONE, stored = b->kept == SHARD_ATTRIBUTES_STORED;
  uint32_t order = has_keys(b) ? (uint32_t)SHARD_ORDER_PATH : b->options->order;
  /* The others are few. `rest` is for the writer, and for names on their way to it. */
  size_t others = attributes ? memory / 8 : 0, rest = memory / 4;
  rest = rest > WRITER_MOST ? WRITER_MOST : rest;
  struct shard_sorter *names = shard_sorter_new(order, stored, memory - others - rest, b->folders);
  struct shard_sorter *more =
      attributes ? shard_sorter_new(order, stored, others, b->folders) : NULL;
  shard_intake_open(b->intake, names, more, NULL);
  if (names && (more || !attributes)) {
    return 0;
  }
  return shard_error_set(b->err, b->size, -ENOMEM,
                         "cannot reserve SHARD_BUILD_MEMORY, %zu MB: %s; set it lower",
                         memory >> 20, strerror(ENOMEM));
}

static int read_source(struct build *b) {
  b->err[0] = 0;
  int rc = b->source->read(b->source->context, b->intake, b->err, b->size);
  b->intake->attempt++;
  b->facts.dirs_hidden = b->intake->dirs_hidden;
  b->facts.dir_links = b->intake->dir_links;
  return rc;
}

/* Say in err what went wrong, unless the source or the writer has. Returns rc. */
static int explain_failure(struct build *b, int rc) {
  const char *why = shard_intake_sorting_error(b->intake);
  if (b->err[0] == 0 && b->intake->error[0]) {
    snprintf(b->err, b->size, "%s", b->intake->error);
  } else if (b->err[0] == 0) {
    snprintf(b->err, b->size, "'%.300s': %s", b->label, *why ? why : strerror(-rc));
  }
  return rc;
}

/*
 * Read the source, and write the listing. at_once: the writer gets the names as they come.
 * -ERESTART: they are not in order, and were not kept; read it again.
 */
static int build_names(struct build *b, bool at_once) {
  struct shard_intake *in = b->intake;
  struct shard_writer *w = NULL;
  b->err[0] = 0;
  int rc = b->options->order == SHARD_ORDER_KEEP ? 0 : open_sorters(b);
  if (rc == 0 && at_once) {
    rc = in->unwritten = open_writer(b, &w);
    shard_intake_open(in, in->names, in->others, w);
  }
  if (rc == 0) {
    rc = read_source(b);
    int ended = shard_intake_end(in);
    rc = rc ? rc : ended;
  }
  if (rc != 0 || !in->writer) {
    shard_writer_abort(w);
    w = NULL;
  }
  return rc == 0               ? write_listing(b, w)
         : rc == -ERESTART     ? rc
         : rc == in->unwritten ? explain_unwritten(b, rc)
                               : explain_failure(b, rc);
}

/* Read the source once; twice if an ordered source turns out not to be in order. */
static int build_once(struct build *b) {
  uint32_t order = b->options->order;
  clock_gettime(CLOCK_REALTIME, &b->facts.listed);
  b->facts.listed = b->source->listed ? *b->source->listed : b->facts.listed;
  shard_progress_begin("reading", 0);
  int rc = build_names(b, order == SHARD_ORDER_KEEP ||
                              (b->source->ordered && order != SHARD_ORDER_DIRECTORY));
  if (rc == -ERESTART) {
    shard_intake_clear(b->intake);
    rc = build_names(b, false);
  }
  return rc;
}

/* Whether the folder is `real` or lies below it. */
static bool lies_inside(const char *folder, const char *real) {
  char *canonical = realpath(folder, NULL);
  bool inside = canonical && shard_path_below(canonical, real);
  free(canonical);
  return inside;
}

static int build_listing(struct build *b, const char *folder) {
  if (b->source->directory && lies_inside(folder, b->source->name)) {
    return shard_error_set(
        b->err, b->size, -EINVAL,
        "'%.300s' lies inside '%.300s', which it would change; write it elsewhere", b->file,
        b->source->name);
  }
  choose_folders(b, folder);
  int rc = -EAGAIN, tries = b->source->directory ? ATTEMPTS : 1;
  for (int k = 0; k < tries && rc == -EAGAIN; k++) {
    rc = build_once(b);
    shard_intake_clear(b->intake);
  }
  return rc == -EAGAIN && !b->source->directory ? -EINVAL : rc;
}

int shard_build(const struct shard_source *source, const struct shard_options *options,
                const char *file, struct shard_build_result *result, char *err, size_t size) {
  char text[SHARD_OPTIONS_TEXT], *words = NULL, *folder = shard_spool_folder(file);
  struct build b = {.source = source,
                    .options = options,
                    .label = source->label ? source->label : source->name,
                    .file = file,
                    .kept = !options->attributes                 ? SHARD_ATTRIBUTES_NONE
                            : source->directory || source->typed ? SHARD_ATTRIBUTES_STORED
                                                                 : SHARD_ATTRIBUTES_MADE,
                    .result = result,
                    .err = err,
                    .size = size};
  int rc = -ENOMEM;
  shard_options_format(options, text, sizeof(text));
  b.intake = shard_intake_new(options, b.label);
  if (b.intake && folder &&
      asprintf(&words, "%s%s", text, source->more_options ? source->more_options : "") >= 0) {
    b.intake->unique = source->unique;
    b.intake->once = source->once && options->order != SHARD_ORDER_KEEP;
    b.facts.source = source->name;
    b.facts.options = words;
    b.facts.check = source->check ? check_source : NULL;
    b.facts.context = &b;
    rc = build_listing(&b, folder);
    free(words);
  } else {
    snprintf(err, size, "out of memory");
  }
  shard_progress_end();
  shard_intake_free(b.intake);
  free(folder);
  return rc;
}
