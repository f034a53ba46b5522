/* SPDX-License-Identifier: MIT */
#include "build/progress.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define AFTER_MS 1000
#define EVERY_MS 200

static bool allowed;
static const char *what; /* NULL: nothing goes on */
static uint64_t total;
static int64_t begun;
static atomic_uint_fast64_t seen;
static _Atomic int64_t next; /* when it may be told again */
static atomic_bool shown;

void shard_progress_allow(bool yes) {
  const char *terminal = getenv("TERM");
  allowed = yes && isatty(2) && terminal && strcmp(terminal, "dumb") != 0;
}

void shard_progress_begin(const char *thing, uint64_t names) {
  shard_progress_end();
  if (allowed) {
    what = thing;
    total = names;
    begun = shard_clock_ms();
    atomic_store(&seen, 0);
    atomic_store(&next, begun + AFTER_MS);
  }
}

/* Whether this is a job in the background of the terminal: it would write into what somebody does
 * there, and a terminal with `stty tostop` stops it for that. */
static bool is_in_background(void) {
  pid_t front = tcgetpgrp(2);
  return front > 0 && front != getpgrp();
}

static void tell(uint64_t count, int64_t now) {
  char text[200], of[40] = "", left[40] = "";
  struct winsize size;
  double seconds = (double)(now - begun) / 1000, rate = (double)count / seconds;
  if (total > 0) {
    snprintf(of, sizeof(of), " of %" PRIu64, total);
    snprintf(left, sizeof(left), ", %.0f s left",
             count < total ? (double)(total - count) / rate : 0.0);
  }
  int n = snprintf(text, sizeof(text), "%s: %" PRIu64 "%s names, %.0f/s%s", what, count, of, rate,
                   left);
  /* A line that is longer than the terminal is wide would stay. */
  int width = ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
  fprintf(stderr, "\r%.*s\033[K", n < width ? n : width, text);
  atomic_store(&shown, true);
}

void shard_progress_add(uint64_t more) {
  if (!what) {
    return;
  }
  uint64_t count = atomic_fetch_add(&seen, more) + more;
  int64_t now = shard_clock_ms(), due = atomic_load(&next);
  if (now >= due && atomic_compare_exchange_strong(&next, &due, now + EVERY_MS) &&
      !is_in_background()) {
    tell(count, now);
  }
}

static void clear(void) {
  if (atomic_exchange(&shown, false) && !is_in_background()) {
    fputs("\r\033[K", stderr);
  }
}

int shard_progress_say(int rc, const char *mark, const char *format, ...) {
  char text[2 * PATH_MAX + 500], line[4 * sizeof(text) + 64];
  size_t used = (size_t)snprintf(line, sizeof(line), "%s", mark);
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  used += shard_error_escape(text, line + used, sizeof(line) - used - 1);
  memcpy(line + used, "\n", 2);
  clear();
  fputs(line, stderr); /* in one write */
  return rc;
}

void shard_progress_end(void) {
  what = NULL;
  clear();
}
