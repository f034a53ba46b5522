/* SPDX-License-Identifier: MIT */
/*
 * main.c - shardctl: the commands, and what they share.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "libshard.h"

static const char usage[] =
    "Usage: shardctl COMMAND [OPTIONS]\n"
    "\n"
    "Commands:\n"
    "  index SOURCE -o FILE\n"
    "                      list a directory tree, a bucket, or the names of a text, into a "
    "listing\n"
    "                      file\n"
    "  ls FILE|DIR|s3://BUCKET/PREFIX\n"
    "                      print names, all or one rank's share\n"
    "  stat FILE           print the facts of a listing, and check it\n"
    "  manifest FILE --size P -o PATTERN\n"
    "                      write each rank's names into a text of its own\n"
    "  verify STATS...     prove by the ranks' SHARD_STATS that they shared out one listing\n"
    "  stats LOG           make the statistics of a rank that was killed from its log\n"
    "  get s3://BUCKET/KEY -o FILE\n"
    "                      fetch a listing or manifest from a bucket, and check it\n"
    "  stream s3://BUCKET/PREFIX -o BASE\n"
    "                      list a bucket into parts that can be read while it goes on\n"
    "  run CMD [ARGS...]   run a command under libshard.so, if it can be served\n"
    "  plan                tell the memory a run will need, unmodified and under libshard\n"
    "  doctor              check that libshard can work here, and say what to do if not\n"
    "  cache ls|gc         show the node's cache of listings, or clean it up\n"
    "\n"
    "shardctl COMMAND --help tells the options. --version prints the version.\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage; run: the command's.\n";

/* checks: with a wrong SHARD_ variable the command ends at once. doctor tells of it as of the other
 * things, and run leaves it to the library. */
static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  bool checks;
} commands[] = {
    {"get", ctl_get, true},           {"index", ctl_index, true},   {"ls", ctl_ls, true},
    {"stat", ctl_stat, true},         {"run", ctl_run, false},      {"plan", ctl_plan, true},
    {"manifest", ctl_manifest, true}, {"cache", ctl_cache, true},   {"doctor", ctl_doctor, false},
    {"stats", ctl_stats, true},       {"verify", ctl_verify, true}, {"stream", ctl_stream, true}};

static void complain(const char *format, va_list args) {
  fputs("shardctl: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
}

int ctl_fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  complain(format, args);
  va_end(args);
  return CTL_FAILED;
}

int ctl_usage(const char *format, ...) {
  va_list args;
  va_start(args, format);
  complain(format, args);
  va_end(args);
  return CTL_USAGE;
}

bool ctl_number(const char *text, uint64_t most, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 10);
  return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *out <= most;
}

bool ctl_strategy(const char *text, enum shard_strategy *out) {
  int place = shard_words_find(shard_words_strategies, text);
  *out = place < 0 ? SHARD_STRATEGY_RANGE : (enum shard_strategy)place;
  return place >= 0;
}

/* Read the variables for a command. CTL_DONE, or CTL_USAGE with a message. */
static int read_variables(int argc, char **argv) {
  char err[700];
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      return CTL_DONE;
    }
  }
  shard_config_init(environ);
  return shard_config_check(err, sizeof(err)) == 0 ? CTL_DONE : ctl_usage("%s", err);
}

int ctl_finish(void) {
  if (fflush(stdout) != 0 || ferror(stdout)) {
    return ctl_fail("cannot write the output: %s", strerror(errno));
  }
  return CTL_DONE;
}

/* Bytes of the well-formed UTF-8 character at p, 0 if there is none. */
static size_t character(const unsigned char *p) {
  size_t n = *p < 0x80                 ? 1
             : *p >= 0xc2 && *p < 0xe0 ? 2
             : *p >= 0xe0 && *p < 0xf0 ? 3
             : *p >= 0xf0 && *p < 0xf5 ? 4
                                       : 0;
  for (size_t i = 1; i < n; i++) {
    if ((p[i] & 0xc0) != 0x80) {
      return 0;
    }
  }
  if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) ||
      (*p == 0xf4 && p[1] > 0x8f)) {
    return 0;
  }
  return n;
}

void ctl_json_string(FILE *out, const char *text) {
  fputc('"', out);
  for (const unsigned char *p = (const unsigned char *)text; *p;) {
    size_t n = character(p);
    if (*p == '"' || *p == '\\') {
      fprintf(out, "\\%c", *p++);
    } else if (*p < 0x20) {
      fprintf(out, "\\u%04x", *p++);
    } else if (n == 0) {
      fputs("\\ufffd", out);
      p++;
    } else {
      fwrite(p, 1, n, out);
      p += n;
    }
  }
  fputc('"', out);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fputs(usage, stderr);
    return CTL_USAGE;
  }
  if (strcmp(argv[1], "run") != 0) {
    signal(SIGXFSZ, SIG_IGN); /* a write past the limit is an error like any other */
    signal(SIGCHLD, SIG_DFL); /* else, if the caller ignores it, no child tells how it ended */
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
      strcmp(argv[1], "help") == 0) {
    fputs(usage, stdout);
    return ctl_finish();
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("shardctl %s\n", shard_version());
    return ctl_finish();
  }
  for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
    if (strcmp(argv[1], commands[i].name) == 0) {
      char name[] = "shardctl"; /* what getopt's messages begin with */
      argv[1] = name;
      int rc = commands[i].checks ? read_variables(argc - 1, argv + 1) : CTL_DONE;
      return rc == CTL_DONE ? commands[i].run(argc - 1, argv + 1) : rc;
    }
  }
  return ctl_usage("there is no command '%s'; shardctl --help lists them", argv[1]);
}
