/* SPDX-License-Identifier: MIT */
/*
 * shared_listing.c - what shardctl index --share finds in the bucket, or in a folder of all nodes.
 *
 * Rank 0's node makes the listing if need be. The other nodes wait: they ask for it more and more
 * seldom, down to every other second. The server sends an object again only if it has changed
 * (If-None-Match).
 */
#include "ctl/shared_listing.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "build/spool.h"
#include "cache/judge.h"
#include "ctl/buckets.h"
#include "ctl/ctl.h"
#include "ctl/output.h"
#include "libshard.h"
#include "listing/listing.h"
#include "source/s3/s3.h"

#define NAP_FIRST 100 /* milliseconds */
#define NAP_MOST 2000
#define NAP_FILE 500 /* at most: a file is asked for more cheaply than an object */

/* The object or file that is looked at. */
struct candidate {
  const char *url, *source;
  const struct shard_options *options;
  double seconds;                      /* how long to wait; negative: look once */
  struct ctl_buckets_objects *objects; /* of an object */
  const char *file;                    /* where an object is put */
  int failed;                          /* a negative errno: a good one could not be copied */
  char why[1100];                      /* why it is of another source */
};

static int copy(const struct shard_listing *l, int fd) {
  int rc = ftruncate(fd, 0) == 0 ? shard_spool_write_at(fd, l->map, l->map_size, 0) : -errno;
  return rc == -EFAULT ? -EBADMSG : rc; /* the file has been cut */
}

/* Is it the listing that is wanted, and whole? 1, 0 or a negative errno, as shard_judge(). If it
 * is, it is copied into fd; -1: it is there. */
static int judge(struct candidate *k, const char *file, int fd) {
  struct shard_listing *l;
  int rc = shard_listing_open(file, &l);
  if (rc != 0) {
    return rc;
  }
  rc = shard_judge(l, k->url, k->source, k->options, k->why, sizeof(k->why));
  if (rc > 0) {
    int fault = shard_listing_verify(l);
    if (fault == 0 && fd >= 0) {
      fault = copy(l, fd);
      k->failed = fault == -EBADMSG ? 0 : fault;
    }
    rc = fault ? fault : rc;
  }
  shard_listing_close(l);
  return rc;
}

/* Look, and judge. CTL_DONE and *state, or CTL_FAILED after a message. */
static int look(struct candidate *k, int fd, int *state) {
  bool there;
  if (!k->objects) {
    *state = judge(k, k->url, fd);
    return CTL_DONE;
  }
  int rc = ctl_buckets_look(k->objects, fd, &there);
  *state = there ? judge(k, k->file, -1) : -ENOENT;
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

static int give_up(const struct candidate *k, int state) {
  return ctl_fail(
      "%.300s: rank 0 has not put the listing of '%.300s' there for %.0f s "
      "(SHARD_LISTING_BUILD=first); %s Raise SHARD_TIMEOUT, or make the listing beforehand with "
      "shardctl index%s",
      k->url, k->source, k->seconds,
      state == -ESTALE   ? "the one that is there is older than the directory: does something "
                           "change it while the job runs?"
      : state == -ENOENT ? k->objects ? "has it failed, or does it use another bucket or endpoint?"
                                      : "does it see the same file system?"
                         : "what is there is damaged, or of another version of libshard.",
      k->objects ? " -o s3://..." : "");
}

/* Ask for it until it is there, or the time is over. */
static int await(struct candidate *k, int fd, enum ctl_shared_listing *what) {
  int64_t end = shard_clock_ms() + (int64_t)(k->seconds * 1000);
  int64_t most = k->objects ? NAP_MOST : NAP_FILE;
  for (int64_t ms = NAP_FIRST;; ms = ms * 3 / 2 < most ? ms * 3 / 2 : most) {
    int state, rc = look(k, fd, &state);
    if (rc != CTL_DONE) {
      return rc;
    }
    if (k->failed) { /* what is there is good, and stays */
      return ctl_fail("cannot write '%.300s': %s", k->file, strerror(-k->failed));
    }
    /* An old listing may turn out true later: some file systems tell of changes late. A file that
     * rank 0 cannot open it may replace. */
    bool replaced = !k->objects && k->seconds < 0;
    if (state < 0 && !replaced && !shard_judge_may_come(state)) {
      return ctl_fail("%.300s: %s", k->url, shard_listing_strerror(state));
    }
    if (state >= 0 || k->seconds < 0) {
      *what = state > 0 ? CTL_SHARED_HERE : state == 0 ? CTL_SHARED_APART : CTL_SHARED_PUT;
      return CTL_DONE;
    }
    int64_t left = end - shard_clock_ms();
    if (left <= 0) {
      return give_up(k, state);
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
  struct candidate k = {
      .url = url, .source = source, .options = options, .file = out.temporary, .seconds = seconds};
  rc = shard_s3_url_is(url) ? ctl_buckets_open(url, false, 1, &k.objects) : CTL_DONE;
  rc = rc == CTL_DONE ? await(&k, out.whole.fd, what) : rc;
  ctl_buckets_close(k.objects);
  ended = ctl_output_end(&out, rc == CTL_DONE && *what == CTL_SHARED_HERE);
  rc = rc == CTL_DONE ? ended : rc;
  if (rc == CTL_DONE && *what == CTL_SHARED_APART && k.why[0]) {
    ctl_warn("%s", k.why);
  }
  return rc;
}

int ctl_shared_listing_put(const struct shard_listing *l, const char *file) {
  struct shard_whole out;
  shard_whole_remove_dead(file);
  int rc = shard_whole_open(&out, file, SHARD_WHOLE_SHARED, SHARD_WHOLE_SYNCED);
  if (rc == 0 && (rc = copy(l, out.fd)) != 0) {
    shard_whole_abort(&out);
  } else if (rc == 0) {
    rc = shard_whole_publish(&out);
  }
  return rc == 0 ? CTL_DONE
                 : ctl_fail("cannot write SHARD_LISTING='%.300s' (SHARD_LISTING_BUILD=first): %s; "
                            "name a place where rank 0 can write and all ranks can read",
                            file, strerror(-rc));
}
