/* SPDX-License-Identifier: MIT */
/*
 * shared_listing.c - what shardctl index --share finds in the bucket.
 *
 * Rank 0's node makes the listing if need be. The other nodes wait: they ask for the object more
 * and more seldom, down to every other second. The server sends it again only if it has changed
 * (If-None-Match).
 */
#include "ctl/shared_listing.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/random.h>

#include "base/clock.h"
#include "cache/prebuilt.h"
#include "ctl/buckets.h"
#include "ctl/ctl.h"
#include "ctl/output.h"
#include "libshard.h"
#include "listing/listing.h"

#define NAP_FIRST 100 /* milliseconds */
#define NAP_MOST 2000

/* The object that is looked at. */
struct candidate {
  const char *url, *source;
  const struct shard_options *options;
  const char *file;
  bool have;      /* an object has been got */
  bool checked;   /* every block of it is right */
  char why[1100]; /* why it is of another source */
};

/* Is what was got the listing that is wanted? 1, 0 or a negative errno, as shard_prebuilt_try(). */
static int judge(struct candidate *k) {
  struct shard_listing *l;
  int rc = k->have ? shard_listing_open(k->file, &l) : -ENOENT;
  if (rc != 0) {
    return rc;
  }
  rc = k->checked ? 0 : shard_listing_verify(l);
  k->checked = rc == 0;
  rc =
      rc == 0 ? shard_prebuilt_judge(l, k->url, k->source, k->options, k->why, sizeof(k->why)) : rc;
  shard_listing_close(l);
  return rc;
}

/*
 * Sleep half of the time to all of it, by chance, so that nodes do not ask in step. false: nobody
 * reads our stderr any more, so the rank that waits for us has been killed.
 */
static bool nap(int64_t ms) {
  uint32_t n = 0;
  if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != sizeof(n)) {
    n = 0;
  }
  struct pollfd reader = {.fd = 2};
  return poll(&reader, 1, (int)((double)ms * (0.5 + n / 8589934592.0)) + 1) <= 0;
}

static int give_up(const struct candidate *k, int state, double seconds) {
  return ctl_fail(
      "%.300s: rank 0 has not put the listing of '%.300s' there for %.0f s "
      "(SHARD_LISTING_BUILD=first); %s Raise SHARD_TIMEOUT, or make the listing beforehand with "
      "shardctl index -o s3://...",
      k->url, k->source, seconds,
      state == -ESTALE   ? "the one that is there is older than the directory: does something "
                           "change it while the job runs?"
      : state == -ENOENT ? "has it failed, or does it use another bucket or endpoint?"
                         : "what is there is damaged, or of another version of libshard.");
}

/* Ask for the object until it is there, or the time is over. */
static int await(struct candidate *k, struct ctl_buckets_watch *watch, int fd, double seconds,
                 enum ctl_shared_listing *what) {
  int64_t end = shard_clock_ms() + (int64_t)(seconds * 1000);
  for (int64_t ms = NAP_FIRST;; ms = ms * 3 / 2 < NAP_MOST ? ms * 3 / 2 : NAP_MOST) {
    enum ctl_buckets_seen seen;
    int rc = ctl_buckets_watch_look(watch, fd, &seen);
    if (rc != CTL_DONE) {
      return rc;
    }
    if (seen != CTL_BUCKETS_SAME) {
      k->have = seen == CTL_BUCKETS_NEW;
      k->checked = false;
    }
    /* An old listing may turn out true later: some file systems tell of changes late. */
    int state = judge(k);
    if (state < 0 && !shard_prebuilt_may_come(state)) {
      return ctl_fail("%.300s: %s", k->url, shard_listing_strerror(state));
    }
    if (state >= 0 || seconds < 0) {
      *what = state > 0 ? CTL_SHARED_HERE : state == 0 ? CTL_SHARED_APART : CTL_SHARED_PUT;
      return CTL_DONE;
    }
    int64_t left = end - shard_clock_ms();
    if (left <= 0) {
      return give_up(k, state, seconds);
    }
    if (!nap(ms < left ? ms : left)) {
      return CTL_FAILED;
    }
  }
}

int ctl_shared_listing_find(const char *url, const char *source,
                            const struct shard_options *options, double seconds, const char *file,
                            enum ctl_shared_listing *what) {
  struct ctl_output out;
  int rc = ctl_output_open(file, NULL, SHARD_WHOLE_SYNCED, &out), ended;
  if (rc != CTL_DONE) {
    return rc;
  }
  struct candidate k = {.url = url, .source = source, .options = options, .file = out.temporary};
  struct ctl_buckets_watch *watch = NULL;
  rc = ctl_buckets_watch_open(url, &watch);
  rc = rc == CTL_DONE ? await(&k, watch, out.whole.fd, seconds, what) : rc;
  ctl_buckets_watch_close(watch);
  ended = ctl_output_end(&out, rc == CTL_DONE && *what == CTL_SHARED_HERE);
  rc = rc == CTL_DONE ? ended : rc;
  if (rc == CTL_DONE && *what == CTL_SHARED_APART && k.why[0]) {
    ctl_warn("%s", k.why);
  }
  return rc;
}
