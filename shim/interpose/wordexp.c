/* SPDX-License-Identifier: MIT */
/*
 * wordexp.c - wordexp, with its patterns expanded by our glob.
 *
 * libc's wordexp globs inside libc, past our readdir. If an unquoted * ? or [ stands outside any $
 * or ` construct, it globs that word, from its start to the next character of IFS. We call the text
 * from the wildcard on a tail. In a tail, quotes are removed but protect nothing from globbing, not
 * even a blank; ` and ; are plain characters; each field that a $ gives is a pattern. Elsewhere
 * values are not patterns. All this is libc's way, not POSIX's, and is kept.
 *
 * So the string is rewritten: tails are put between two marks, and their plain characters are
 * quoted. libc's wordexp expands that, and globs nothing. The words of a marked group are patterns
 * for our glob, as they are. The final words, quoted, go through libc's wordexp once more, with the
 * caller's flags: so libc fills the caller's struct, and wordfree() frees it.
 *
 * A mark has an address of our stack in it, and bytes that no sane text has. If the value of a
 * variable has what looks like a mark, it loses that.
 *
 * Knowingly otherwise: libc takes `~name*` for a user's name if the word is empty so far. We know
 * that only at the start of a word, not behind an expansion that may be empty, nor in `a=~name*`;
 * there our glob expands the pattern, as libc does in a word that is not empty. If IFS has a
 * wildcard, libc uses all memory; we say at once that there is none.
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/real.h"
#include "interpose/glob.h"
#include "view/view.h"

/* ---- text that grows ---- */

struct text {
  char *bytes; /* ended by NUL; NULL while empty */
  size_t length, room;
  bool failed; /* no memory; what is put is lost */
};

static void put(struct text *text, const char *bytes, size_t length) {
  if (text->failed) {
    return;
  }
  if (length >= text->room - text->length) {
    size_t room = 2 * text->room + length + 64;
    char *more = realloc(text->bytes, room);
    if (!more) {
      text->failed = true;
      return;
    }
    text->bytes = more;
    text->room = room;
  }
  memcpy(text->bytes + text->length, bytes, length);
  text->length += length;
  text->bytes[text->length] = '\0';
}

static void put_string(struct text *text, const char *s) { put(text, s, strlen(s)); }

/* A character that stands for itself in a word. */
static void put_quoted(struct text *text, char c) {
  put(text, c == '\n' ? "'\n'" : (char[]){'\\', c, '\0'}, c == '\n' ? 3 : 2);
}

/* ---- how far libc reads ---- */

/*
 * Each function returns what follows a construct, or NULL if libc finds an error in it; then the
 * whole call ends with that error.
 */
static const char *after_dollar(const char *s);

/* s is past the first ` */
static const char *after_backtick(const char *s) {
  for (; *s; s++) {
    if (*s == '`') {
      return s + 1;
    }
    if (*s == '\\' && !*++s) {
      return NULL;
    }
  }
  return NULL;
}

/* s is past $( */
static const char *after_command(const char *s) {
  char quote = 0;
  int depth = 1;
  for (; *s; s++) {
    if (*s == '\'' || *s == '"') {
      quote = !quote ? *s : quote == *s ? 0 : quote;
    } else if (*s == '(' && !quote) {
      depth++;
    } else if (*s == ')' && !quote && --depth == 0) {
      return s + 1;
    }
  }
  return NULL;
}

/* s is past $(( or $[ ; close is ) or ] */
static const char *after_arithmetic(const char *s, char close) {
  int depth = 1;
  while (*s) {
    switch (*s) {
    case '$':
      s = after_dollar(s);
      break;
    case '`':
      s = after_backtick(s + 1);
      break;
    case '\\':
      s = s[1] ? s + 2 : NULL;
      break;
    case ')':
      if (--depth == 0) {
        return close == ')' && s[1] == ')' ? s + 2 : NULL;
      }
      s++;
      break;
    case ']':
      return close == ']' && depth == 1 ? s + 1 : NULL;
    case '\n':
    case ';':
    case '{':
    case '}':
      return NULL;
    default:
      depth += *s == '(';
      s++;
    }
    if (!s) {
      return NULL;
    }
  }
  return NULL;
}

/* s is in ${ }, past the operator */
static const char *after_operand(const char *s) {
  char quote = 0;
  int depth = 0;
  for (; *s; s++) {
    if (*s == '\'' || *s == '"') {
      quote = !quote ? *s : quote == *s ? 0 : quote;
    } else if (quote) {
      continue;
    } else if (*s == '{') {
      depth++;
    } else if (*s == '}' && depth-- == 0) {
      return s + 1;
    } else if (*s == '\\' && !*++s) {
      return NULL;
    }
  }
  return NULL;
}

static const char *after_name(const char *s) {
  while (isalnum((unsigned char)*s) || *s == '_') {
    s++;
  }
  return s;
}

/* s is past ${ */
static const char *after_braces(const char *s) {
  s += *s == '#';
  if (isalpha((unsigned char)*s) || *s == '_') {
    s = after_name(s);
  } else if (isdigit((unsigned char)*s)) {
    s += strspn(s, "0123456789");
  } else if (*s && strchr("*@$", *s)) {
    s++;
  } else {
    return NULL;
  }
  if (*s == '}') {
    return s + 1;
  }
  if (*s == '#' || *s == '%') {
    return after_operand(s + (s[1] == s[0] ? 2 : 1));
  }
  s += *s == ':' && s[1] && strchr("-=?+", s[1]);
  return *s && strchr("-=?+", *s) ? after_operand(s + 1) : NULL;
}

/* s is at the $, which may stand for itself */
static const char *after_dollar(const char *s) {
  s++;
  if (*s == '(' && s[1] == '(') {
    /* Arithmetic, if the parenthesis that closes it is doubled too. */
    const char *end = s + 2;
    for (int depth = 0; *end && (*end != ')' || depth > 0); end++) {
      depth += (*end == '(') - (*end == ')');
    }
    if (*end && end[1] == ')') {
      return after_arithmetic(s + 2, ')');
    }
  }
  if (*s == '(') {
    return after_command(s + 1);
  }
  if (*s == '[') {
    return after_arithmetic(s + 1, ']');
  }
  if (*s == '{') {
    return after_braces(s + 1);
  }
  if (isalpha((unsigned char)*s) || *s == '_') {
    return after_name(s);
  }
  return *s && (isdigit((unsigned char)*s) || strchr("#*@$", *s)) ? s + 1 : s;
}

/* s is past the first " */
static const char *after_quotes(const char *s) {
  while (s && *s) {
    if (*s == '"') {
      return s + 1;
    }
    if (*s == '$') {
      s = after_dollar(s);
    } else if (*s == '`') {
      s = after_backtick(s + 1);
    } else if (*s == '\\') {
      s = s[1] ? s + 2 : NULL;
    } else {
      s++;
    }
  }
  return NULL;
}

/* s is past a ~ that begins a word: what is read as a user's name */
static const char *after_user(const char *s) {
  size_t length = strcspn(s, ":/ \t\\");
  return s[length] == '\\' ? s : s + length;
}

/* ---- the string rewritten ---- */

enum { TAIL = 't', END = 'e', NEUTRAL = 'n' };

struct job {
  const char *ifs;
  char mark[32]; /* followed by one of the above in the text */
  size_t mark_length;
  struct text text;
  bool globs; /* whether there is a tail */
  bool stuck; /* there is a tail that libc would never get beyond */
};

static void put_mark(struct job *job, char kind) {
  put(&job->text, job->mark, job->mark_length);
  put(&job->text, &kind, 1);
}

/* Rewrite the $ of a tail. Returns what follows it; NULL: the rest was copied as it is. */
static const char *rewrite_dollar(struct job *job, const char *s, bool quoted) {
  const char *next = after_dollar(s);
  if (!next) {
    put_string(&job->text, quoted ? "\"" : "");
    put_string(&job->text, s);
    return NULL;
  }
  if (next == s + 1) {
    put_quoted(&job->text, '$');
    return next;
  }
  put(&job->text, "\"", quoted);
  put(&job->text, s, (size_t)(next - s));
  if (quoted) {
    put_mark(job, NEUTRAL); /* quotes around nothing could make a word of their own */
    put(&job->text, "\"", 1);
  }
  return next;
}

/* The same for the \ of a tail. */
static const char *rewrite_backslash(struct job *job, const char *s, bool quoted) {
  if (!s[1]) {
    put_string(&job->text, s); /* for libc to find the error */
    return NULL;
  }
  if (s[1] != '\n') {
    if (quoted && !strchr("$`\"\\", s[1])) {
      put_quoted(&job->text, '\\');
    }
    put_quoted(&job->text, s[1]);
  }
  return s + 2;
}

/* s is at the wildcard. Returns what follows the tail; NULL: the rest was copied as it is. */
static const char *rewrite_tail(struct job *job, const char *s) {
  char quote = 0;
  job->globs = true;
  job->stuck = job->stuck || strchr(job->ifs, *s);
  put_mark(job, TAIL);
  while (*s && !strchr(job->ifs, *s)) {
    if ((*s == '\'' || *s == '"') && (!quote || quote == *s)) {
      quote = quote ? 0 : *s;
      s++;
    } else if (*s == '$' && quote != '\'') {
      s = rewrite_dollar(job, s, quote);
    } else if (*s == '\\') {
      s = rewrite_backslash(job, s, quote);
    } else {
      put_quoted(&job->text, *s++);
    }
    if (!s) {
      return NULL;
    }
  }
  put_mark(job, END);
  put(&job->text, " ", 1); /* libc begins a new word, whatever follows */
  return s;
}

static void rewrite(struct job *job, const char *words) {
  bool begins = true; /* the word is empty for certain */
  for (const char *s = words, *next; s && *s; s = next) {
    bool first = begins;
    begins = *s == ' ' || *s == '\t';
    switch (*s) {
    case '*':
    case '?':
    case '[':
      next = rewrite_tail(job, s);
      if (job->stuck) {
        return;
      }
      begins = true;
      continue;
    case '\\':
      next = s[1] ? s + 2 : NULL;
      break;
    case '$':
      next = after_dollar(s);
      break;
    case '`':
      next = after_backtick(s + 1);
      break;
    case '"':
      next = after_quotes(s + 1);
      break;
    case '\'':
      next = strchr(s + 1, '\'');
      next = next ? next + 1 : NULL;
      break;
    case '~':
      next = first ? after_user(s + 1) : s + 1;
      break;
    default:
      next = s + 1;
    }
    /* If there is an error, libc must read all from there on. */
    put(&job->text, s, next ? (size_t)(next - s) : strlen(s));
  }
}

/* ---- the words ---- */

/* Remove the marks from a word. Sets *tail and *end if it had such a mark. */
static void unmark(const struct job *job, char *word, bool *tail, bool *end) {
  char *to = word;
  for (const char *from = word; *from;) {
    if (strncmp(from, job->mark, job->mark_length) == 0 && from[job->mark_length]) {
      char kind = from[job->mark_length];
      *tail = *tail || kind == TAIL;
      *end = *end || kind == END;
      from += job->mark_length + 1;
    } else {
      *to++ = *from++;
    }
  }
  *to = '\0';
}

static void put_word(struct text *out, const char *word) {
  if (!*word) {
    put_string(out, "''");
  }
  for (; *word; word++) {
    put_quoted(out, *word);
  }
}

/* The names a pattern stands for, or itself. 0 or WRDE_NOSPACE. */
static int put_matches(const struct job *job, struct text *out, const char *pattern) {
  glob_t found = {0};
  if (shard_glob_expand(pattern, GLOB_NOCHECK, NULL, &found) != 0) {
    globfree(&found);
    return WRDE_NOSPACE;
  }
  for (size_t i = 0; i < found.gl_pathc; i++) {
    if (i > 0) {
      put_string(out, *job->ifs ? " " : "\\ "); /* without IFS all is one word */
    }
    put_word(out, found.gl_pathv[i]);
  }
  globfree(&found);
  return 0;
}

/*
 * Turn the words that libc made of the rewritten string into text for libc to read again. If libc
 * ran out of memory (not whole), the last group may lack its end, and is left out. 0 or
 * WRDE_NOSPACE.
 */
static int put_words(const struct job *job, const wordexp_t *made, size_t from, bool whole,
                     struct text *out) {
  bool in_group = false;
  size_t before = 0; /* where the group begins in out */
  for (size_t i = from; i < made->we_wordc; i++) {
    bool tail = false;
    bool end = false;
    unmark(job, made->we_wordv[i], &tail, &end);
    if (tail) {
      in_group = true;
      before = out->length;
    }
    if (!in_group) {
      put_word(out, made->we_wordv[i]);
    } else if (put_matches(job, out, made->we_wordv[i]) != 0) {
      return WRDE_NOSPACE;
    }
    if (!in_group || *job->ifs) {
      put(out, " ", 1);
    }
    in_group = in_group && !end;
  }
  if (in_group && !whole && !out->failed) {
    out->length = before;
    out->bytes[before] = '\0';
  }
  return out->failed ? WRDE_NOSPACE : 0;
}

static int expand(struct job *job, wordexp_t *result, int flags) {
  /* libc expands a ~ after = only if words came before: if they did, put one before. */
  bool more = (flags & WRDE_APPEND) && result->we_wordc > 0;
  if (more) {
    struct text text = {.failed = job->text.failed};
    put_string(&text, "x ");
    put(&text, job->text.bytes, job->text.length);
    free(job->text.bytes);
    job->text = text;
  }
  wordexp_t made = {0};
  if (job->text.failed) {
    shard_real()->wordexp("", result, flags); /* so that wordfree() may be called */
    return WRDE_NOSPACE;
  }
  int rc = shard_real()->wordexp(job->text.bytes, &made,
                                 flags & (WRDE_NOCMD | WRDE_SHOWERR | WRDE_UNDEF));
  rc = rc == 0 && job->stuck ? WRDE_NOSPACE : rc;
  if (rc != 0 && rc != WRDE_NOSPACE) {
    shard_real()->wordexp(")", result, flags); /* an error too: what that does to the struct */
    return rc;
  }
  struct text out = {0};
  int rc2 = put_words(job, &made, more, rc == 0, &out);
  wordfree(&made);
  int rc3 = shard_real()->wordexp(out.bytes ? out.bytes : "", result, flags);
  free(out.bytes);
  return rc != 0 ? rc : rc2 != 0 ? rc2 : rc3;
}

SHARD_EXPORT int wordexp(const char *restrict words, wordexp_t *restrict result, int flags) {
  if (!shard_view_active()) {
    return shard_real()->wordexp(words, result, flags);
  }
  int saved = errno;
  struct job job = {.ifs = getenv("IFS")};
  if (!job.ifs) {
    job.ifs = " \t\n";
  }
  job.mark_length = (size_t)snprintf(job.mark, sizeof(job.mark), "\1%zx\2", (size_t)&job);
  rewrite(&job, words);
  int rc;
  if (job.globs) {
    rc = expand(&job, result, flags);
    errno = rc == 0 ? saved : errno;
  } else {
    errno = saved;
    rc = shard_real()->wordexp(words, result, flags);
  }
  free(job.text.bytes);
  return rc;
}
