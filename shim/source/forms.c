/* SPDX-License-Identifier: MIT */
#include "source/forms.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hex.h"

#define LINES 64 /* so many at the beginning are judged */

/* ---- files that are no lines ---- */

#define PYTHON(module, each)                                                                       \
  "python3 -c 'import sys,pyarrow." module "; all(sys.stdout.buffer.write(b\"s3://BUCKET/\"+k."    \
  "encode()+b\"\\0\") for f in sys.argv[1:] for b in " each " for k in b.column(0).to_pylist())' " \
  "FILE... | shardctl index - -0 --root s3://BUCKET/PREFIX/ -o LISTING"
#define LITE "mpirun dwalk --lite -o LIST DIR, then shardctl index --from dwalk LIST"

/* What a file begins with, and, somewhere behind that, has. */
static const struct magic {
  const char *begin;
  size_t length;
  const char *also; /* NULL: a byte that no line has */
  const char *what, *remedy;
} magics[] = {
    {"PAR1", 4, NULL, "Parquet",
     PYTHON("parquet as q", "q.ParquetFile(f).iter_batches(columns=[\"key\"])")},
    {"ORC", 3, NULL, "ORC",
     PYTHON(
         "orc as q",
         "(q.ORCFile(f).read_stripe(i,columns=[\"key\"]) for i in range(q.ORCFile(f).nstripes))")},
    {"SQLite format 3", 15, NULL, "SQLite's",
     "sqlite3 FILE 'select NAME from TABLE' | shardctl index - -o LISTING"},
    {"SEQ", 3, NULL, "a sequence file of Hadoop's", "make a text of its names"},
    {"\0\0\0\0\0\0\0\4", 8, "", "dwalk's binary form", "make the light form: " LITE},
    {"\0\0\0\0\0\0\0\3", 8, "", "dwalk's binary form", "make the light form: " LITE},
    {"SHRDLST\n", 8, "", "a listing",
     "a listing may be one of several sources, without --from, -0 and --keep-order"},
    {"{", 1, "\"fileSchema\"", "the manifest of an S3 Inventory",
     "shardctl index --from s3-inventory"},
};

static bool has_control(const struct shard_forms_text *t) {
  bool has = false;
  for (size_t i = 0; i < t->size && !has; i++) {
    unsigned char c = (unsigned char)t->data[i];
    has = c < ' ' && c != '\n' && c != '\r' && c != '\t' && (c != 0 || t->separator);
  }
  return has;
}

static bool is_magic(const struct shard_forms_text *t, const struct magic *m) {
  return t->size >= m->length && memcmp(t->data, m->begin, m->length) == 0 &&
         (m->also ? memmem(t->data, t->size, m->also, strlen(m->also)) != NULL : has_control(t));
}

/* ---- lines that are no names ---- */

struct line {
  const char *text;
  size_t length;
  const char *root;
};

/* What a line has between the blanks, brackets and commas of an array; *array: a bracket opens it.
 */
static struct line find_element(const struct line *l, bool *array) {
  size_t at = 0, end = l->length;
  for (; at < end && strchr(" \t[", l->text[at]); at++) {
  }
  for (; end > at && strchr(" \t],", l->text[end - 1]); end--) {
  }
  *array = at > 0 && l->text[at - 1] == '[';
  return (struct line){l->text + at, end - at, l->root};
}

/* Texts in an array. */
static bool is_array(const struct line *l) {
  bool array;
  struct line e = find_element(l, &array);
  return array && e.length > 1 && *e.text == '"' && e.text[e.length - 1] == '"';
}

/* An object, alone or in an array. */
static bool is_object(const struct line *l) {
  bool array;
  struct line e = find_element(l, &array);
  size_t at = 1;
  while (at < e.length && e.text[at] == ' ') {
    at++;
  }
  return e.length > 1 && *e.text == '{' && e.text[e.length - 1] == '}' && e.text[at] == '"';
}

/* A quoted word, alone or the first of a row. */
static bool is_quoted(const struct line *l) {
  const char *end =
      l->length > 2 && *l->text == '"' ? memmem(l->text + 1, l->length - 1, "\",", 2) : NULL;
  return l->length > 1 && *l->text == '"' && (end || l->text[l->length - 1] == '"');
}

static bool is_lite(const struct line *l) {
  size_t n = l->length;
  return n > 2 && *l->text == '/' && l->text[n - 2] == '|' && strchr("FDLU", l->text[n - 1]);
}

/* As ls -l has it, and dwalk --text. */
static bool is_long(const struct line *l) {
  bool is = l->length > 11 && strchr("-dlbcps", *l->text) && l->text[10] == ' ';
  for (size_t i = 1; i < 10 && is; i++) {
    is = strchr("-rwxsStT", l->text[i]) != NULL;
  }
  return is;
}

/* As aws s3 ls, s5cmd ls, rclone ls and lsl have it: a date, or a size behind blanks. */
static bool is_dated(const struct line *l) {
  static const char date[] = "0000-00-00 00:00";
  size_t i = 0, digits = 0;
  while (i < l->length && i < strlen(date) &&
         (date[i] == '0'   ? isdigit((unsigned char)l->text[i]) != 0
          : date[i] == '-' ? strchr("-/", l->text[i]) != NULL
                           : l->text[i] == date[i])) {
    i++;
  }
  bool dated = i == strlen(date);
  for (i = 0; i < l->length && l->text[i] == ' '; i++) {
  }
  for (digits = i; digits < l->length && isdigit((unsigned char)l->text[digits]); digits++) {
  }
  return dated || (i > 0 && digits > i && digits < l->length && l->text[digits] == ' ');
}

/* A path below the root behind something else. */
static bool is_behind(const struct line *l) {
  size_t n = l->root ? strlen(l->root) : 0;
  while (n > 0 && l->root[n - 1] == '/') {
    n--;
  }
  const char *at = n > 0 && l->length > 1 ? memmem(l->text + 1, l->length - 1, l->root, n) : NULL;
  return at && (at[-1] == ' ' || at[-1] == '\t') && at + n < l->text + l->length && at[n] == '/';
}

static bool has_tab(const struct line *l) { return memchr(l->text, '\t', l->length) != NULL; }

/* What stands behind the root's prefix would have it twice. */
static bool is_whole_key(const struct line *l) {
  size_t n = l->root ? shard_forms_scheme(l->root, strlen(l->root)) : 0;
  const char *prefix = n > 0 ? strchr(l->root + n, '/') : NULL;
  n = prefix ? strlen(++prefix) : 0;
  return n > 0 && l->length > n && memcmp(l->text, prefix, n) == 0;
}

static const struct row {
  bool (*is)(const struct line *l);
  const char *what, *remedy;
} rows[] = {
    {is_array, "is an array of JSON",
     "print its names: jq -j '.[]+\"\\u0000\"' FILE | shardctl index - -0"},
    {is_object, "is JSON", "print its key: jq -j '.key+\"\\u0000\"' FILE | shardctl index - -0"},
    {is_quoted, "is in double quotes",
     "take its column (DuckDB: read_csv(..., header=false)), or --from s3-inventory manifest.json"},
    {is_lite, "ends as dwalk's light form does", "--from dwalk"},
    {is_long, "is as of dwalk --text, or ls -l", LITE},
    {is_dated, "has a date or a size before the name", "print the names alone (rclone lsf -R)"},
    {is_behind, "has a path of --root behind something else", "cut off what stands before it"},
    {has_tab, "has a TAB: columns, or several names", "a name a line: cut -f1, or tr '\\t' '\\n'"},
    {is_whole_key, "begins with the prefix of --root",
     "names are relative to it; put s3://BUCKET/ before whole keys"},
};

size_t shard_forms_scheme(const char *text, size_t length) {
  size_t n = 0;
  while (n < length && (isalnum((unsigned char)text[n]) || (n > 0 && strchr("+-.", text[n])))) {
    n++;
  }
  return n > 1 && n + 3 <= length && isalpha((unsigned char)*text) &&
                 memcmp(text + n, "://", 3) == 0
             ? n + 3
             : 0;
}

ssize_t shard_forms_decode(char *text, size_t length, bool plus) {
  size_t to = 0;
  for (size_t i = 0; i < length; i++, to++) {
    text[to] = text[i] == '+' && plus ? ' ' : text[i];
    if (text[i] == '%') {
      int high = i + 2 < length ? shard_hex_digit(text[i + 1]) : -1;
      int low = high >= 0 ? shard_hex_digit(text[i + 2]) : -1;
      if (low < 0) {
        return -1;
      }
      text[to] = (char)(high << 4 | low);
      i += 2;
    }
  }
  return (ssize_t)to;
}

/* The lines of the beginning, at most LINES. */
static size_t split(const struct shard_forms_text *t, struct line *lines) {
  size_t count = 0;
  for (size_t at = 0; at < t->size && count < LINES;) {
    const char *end = memchr(t->data + at, t->separator, t->size - at);
    if (!end && !t->whole && count > 0) {
      break;
    }
    size_t length = end ? (size_t)(end - t->data) - at : t->size - at;
    lines[count++] = (struct line){t->data + at, length, t->root};
    at += length + 1;
  }
  return count;
}

int shard_forms_judge(const struct shard_forms_text *t, char *err, size_t size) {
  struct line lines[LINES];
  for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
    if (is_magic(t, &magics[i])) {
      return shard_error_set(err, size, -EINVAL, "is %s, not a text of names; %s", magics[i].what,
                             magics[i].remedy);
    }
  }
  size_t count = t->lines ? split(t, lines) : 0;
  const struct line *first = count > 0 ? &lines[0] : NULL;
  if (first && t->separator == 0) {
    const char *one = memchr(first->text, '\n', first->length);
    bool ended = first->length < t->size;
    if (one && (!ended || memchr(one + 1, '\n', first->length - (size_t)(one + 1 - first->text)))) {
      return shard_error_set(err, size, -EINVAL,
                             "has newlines where -0 asks for names that end with NUL; leave out "
                             "-0, or --from text if the first name has them");
    }
  }
  if (first && count > 1 && first->length > 0 && strchr("{[", *first->text) &&
      strchr("{[", first->text[first->length - 1]) && lines[1].length > 0 &&
      strchr(" \t{\"", *lines[1].text)) {
    count = 1;
    lines[0] = (struct line){"{\"\"}", 4, NULL}; /* JSON over several lines */
  }
  if (count > 1 && first->length > 6 && memcmp(first->text, "total ", 6) == 0 &&
      is_long(&lines[1])) {
    lines[0] = lines[1]; /* ls -l of a directory */
  }
  for (size_t k = 0; count > 0 && k < sizeof(rows) / sizeof(rows[0]); k++) {
    size_t n = 0;
    while (n < count && lines[n].length > 0 && rows[k].is(&lines[n])) {
      n++;
    }
    if (n == count) {
      return shard_error_set(err, size, -EINVAL,
                             "holds no names: each of its first lines (%zu) %s; %s. If the lines "
                             "are names as they stand: --from text",
                             count, rows[k].what, rows[k].remedy);
    }
  }
  return 0;
}
