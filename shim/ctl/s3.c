/* SPDX-License-Identifier: MIT */
#include "ctl/s3.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build/build.h"
#include "build/intake.h"
#include "build/parts.h"
#include "ctl/ctl.h"
#include "libshard.h"
#include "listing/codec.h"
#include "listing/options.h"
#include "source/s3/client.h"
#include "source/s3/s3.h"

static int say(const char *err) {
  fputs("shardctl: ", stderr);
  ctl_text(stderr, err); /* a server's words may be in it */
  fputc('\n', stderr);
  return CTL_FAILED;
}

struct reading {
  struct shard_s3_listing listing;
  struct shard_intake *intake;
  struct shard_parts *parts;   /* in place of the intake */
  int (*begun)(void *context); /* to be called once there is a part, with `context` */
  void *context;
  const struct shard_options *options;
  uint64_t markers;
};

/* A key becomes a name. */
static int on_key(void *context, const char *key, size_t length) {
  struct reading *r = context;
  if (key[length - 1] == '/') {
    r->markers++; /* a "directory", made by a console or a mount */
    return 0;
  }
  const char *name = key + r->listing.url.root;
  size_t n = length - r->listing.url.root;
  if (r->options->include[0]) {
    char base[SHARD_S3_KEY_MAX + 1];
    const char *slash = memrchr(name, '/', n), *begin = slash ? slash + 1 : name;
    size_t k = n - (size_t)(begin - name);
    memcpy(base, begin, k);
    base[k] = 0;
    if (!shard_options_match(r->options, base, k)) {
      return 0;
    }
  }
  return r->parts ? shard_parts_add(r->parts, name, n) : shard_intake_add(r->intake, name, n);
}

/* The first part is there: whoever waits for it may go on. */
static int tell_begun(struct reading *r) {
  int (*begun)(void *) = r->begun;
  r->begun = NULL;
  return begun ? begun(r->context) : 0;
}

static int on_page(void *context) {
  struct reading *r = context;
  int rc = shard_parts_pause(r->parts);
  return rc == 0 && shard_parts_count(r->parts) > 0 ? tell_begun(r) : rc;
}

static int read_bucket(void *context, struct shard_intake *intake, char *err, size_t size) {
  struct reading *r = context;
  r->intake = intake;
  r->markers = 0;
  return shard_s3_list(&r->listing, err, size);
}

/* " start-after=a%20b": a part of a prefix is not the prefix. Malloc'd; "" if there is no limit. */
static char *limits_text(const struct ctl_s3 *how) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) {
    return NULL;
  }
  if (how->start_after) {
    fputs(" start-after=", out);
    shard_s3_escape(out, how->start_after, strlen(how->start_after), true);
  }
  if (how->end_before) {
    fputs(" end-before=", out);
    shard_s3_escape(out, how->end_before, strlen(how->end_before), true);
  }
  return fclose(out) == 0 ? text : NULL;
}

/* What a listing needs besides the account: from the url and the variables. CTL_DONE or _USAGE. */
static int prepare_listing(const char *url, const struct shard_options *options,
                           struct reading *reading) {
  char err[1000] = "";
  struct shard_s3_listing *l = &reading->listing;
  if (shard_s3_url_parse(url, &l->url, err, sizeof(err)) != 0) {
    return ctl_usage("%s", err);
  }
  if (options->order == SHARD_ORDER_DIRECTORY) {
    return ctl_usage("--order directory is for text files, and '%s' is none", url);
  }
  if (options->depth || options->exact || options->follow || !options->hidden) {
    return ctl_usage("of --options, only order and include are for S3");
  }
  l->connections = shard_config()->s3_connections;
  l->timeout = shard_config()->timeout;
  l->log = shard_config()->log;
  l->key = on_key;
  l->context = reading;
  return CTL_DONE;
}

/* s3://bucket/prefix as the source of a listing; malloc'd, NULL if there is no memory. */
static char *canonical_url(const struct shard_s3_url *url) {
  char *text;
  return asprintf(&text, "s3://%s/%s", url->bucket, url->prefix) < 0 ? NULL : text;
}

/* Not an error, but rarely meant. */
static void warn_of_nothing(const char *url, bool part) {
  fputs("shardctl: warning: there is no key that begins with ", stderr);
  ctl_text(stderr, url);
  fputs(part ? " in the part that is asked for\n" : "\n", stderr);
}

int ctl_s3_build(const char *url, struct ctl_s3 *how, const struct shard_options *options,
                 const struct shard_build_means *means, const char *file,
                 struct shard_build_result *result) {
  char err[1000] = "";
  struct shard_options plain = *options;
  plain.attributes = plain.attributes && plain.order == SHARD_ORDER_PATH;
  struct reading reading = {.options = &plain};
  struct shard_s3_account account;
  int usable = prepare_listing(url, options, &reading);
  if (usable != CTL_DONE) {
    return usable;
  }
  int rc = shard_s3_account_load(&account, how->anonymous, shard_config()->s3_addressing, err,
                                 sizeof(err));
  char *limits = limits_text(how), *canonical = NULL;
  if (rc == 0 && (!limits || !(canonical = canonical_url(&reading.listing.url)))) {
    rc = -ENOMEM;
    snprintf(err, sizeof(err), "out of memory");
  }
  if (rc == 0) {
    reading.listing.account = &account;
    reading.listing.start_after = how->start_after;
    reading.listing.end_before = how->end_before;
    const struct shard_source source = {.name = canonical,
                                        .more_options = limits,
                                        .twice = "the source has told it twice; it is at fault",
                                        .read = read_bucket,
                                        .context = &reading};
    rc = shard_build(&source, &plain, means, file, result, err, sizeof(err));
  }
  shard_s3_account_free(&account);
  free(limits);
  how->markers = reading.markers;
  how->requests = reading.listing.requests;
  how->retries = reading.listing.retries;
  if (rc != 0) {
    free(canonical);
    return say(err);
  }
  if (how->markers > 0) {
    fprintf(stderr, "shardctl: %llu keys that end in '/' (directory markers) were left out\n",
            (unsigned long long)how->markers);
  }
  if (result->entries == 0) {
    warn_of_nothing(canonical, plain.include[0] || how->start_after || how->end_before);
  }
  free(canonical);
  return CTL_DONE;
}

int ctl_s3_stream(const char *url, bool anonymous, const struct shard_options *options,
                  const char *base, int (*begun)(void *context), void *context) {
  char err[1000] = "", text[SHARD_OPTIONS_TEXT];
  struct reading reading = {.options = options, .begun = begun, .context = context};
  struct shard_s3_account account;
  int rc = prepare_listing(url, options, &reading);
  if (rc != CTL_DONE) {
    return rc;
  }
  char *canonical = canonical_url(&reading.listing.url);
  shard_options_format(options, text, sizeof(text));
  rc = shard_s3_account_load(&account, anonymous, shard_config()->s3_addressing, err, sizeof(err));
  if (rc == 0) {
    rc = canonical ? shard_parts_open(base, canonical, text, &reading.parts) : -ENOMEM;
  }
  if (rc == 0) {
    reading.listing.account = &account;
    reading.listing.page = on_page;
    rc = shard_s3_list(&reading.listing, err, sizeof(err));
    rc = rc ? rc : shard_parts_end(reading.parts);
    if (rc != 0) {
      shard_parts_drop(reading.parts);
    }
    rc = rc ? rc : tell_begun(&reading);
  }
  if (rc != 0 && !err[0]) {
    snprintf(err, sizeof(err), "cannot write '%.300s.*': %s", base, strerror(-rc));
  }
  shard_parts_free(reading.parts);
  shard_s3_account_free(&account);
  free(canonical);
  return rc == 0 ? CTL_DONE : say(err);
}

int ctl_s3_source(const char *url, char **out) {
  char err[700];
  struct shard_s3_url at;
  if (shard_s3_url_parse(url, &at, err, sizeof(err)) != 0) {
    return ctl_usage("%s", err);
  }
  *out = canonical_url(&at);
  return *out ? CTL_DONE : ctl_fail("out of memory");
}

char *ctl_s3_root(const char *url) {
  const char *slash = shard_s3_is_url(url) ? strrchr(url + 5, '/') : NULL;
  return slash ? strndup(url, (size_t)(slash - url) + 1) : NULL;
}

/* ---- objects ----------------------------------------------------------------------------------
 */

static int parse_object(const char *text, struct shard_s3_url *url) {
  char err[700];
  if (shard_s3_url_parse(text, url, err, sizeof(err)) != 0) {
    return ctl_usage("%s", err);
  }
  size_t n = strlen(url->prefix);
  return n > 0 && url->prefix[n - 1] != '/'
             ? CTL_DONE
             : ctl_usage("'%.300s' names no object; write s3://bucket/key", text);
}

int ctl_s3_object(const char *url) {
  struct shard_s3_url parsed;
  return parse_object(url, &parsed);
}

/* What requests to the bucket need. Free the account in either case. */
static int prepare(const struct shard_s3_url *url, bool anonymous, struct shard_s3_account *account,
                   struct shard_s3_client_options *o) {
  char err[1000] = "";
  *account = (struct shard_s3_account){.sign = false};
  if (shard_s3_account_load(account, anonymous, shard_config()->s3_addressing, err, sizeof(err)) !=
      0) {
    return say(err);
  }
  *o = (struct shard_s3_client_options){.account = account,
                                        .bucket = url->bucket,
                                        .connections = shard_config()->s3_connections,
                                        .timeout = shard_config()->timeout,
                                        .log = shard_config()->log};
  return CTL_DONE;
}

int ctl_s3_get(const char *url, bool anonymous, int fd) {
  char err[1300] = "";
  struct shard_s3_url at;
  struct shard_s3_account account;
  struct shard_s3_client_options o = {.connections = 1};
  int rc = parse_object(url, &at);
  if (rc != CTL_DONE) {
    return rc;
  }
  rc = prepare(&at, anonymous, &account, &o);
  if (rc == CTL_DONE) {
    o.connections = 1;
    rc = shard_s3_get(&o, at.prefix, fd, err, sizeof(err)) == 0 ? CTL_DONE : say(err);
  }
  shard_s3_account_free(&account);
  return rc;
}

int ctl_s3_put(const struct ctl_s3_file *files, size_t count, bool only_new) {
  char err[1300] = "";
  struct shard_s3_url at;
  struct shard_s3_account account;
  struct shard_s3_client_options o = {.connections = 1};
  int rc = parse_object(files[0].url, &at);
  struct shard_s3_upload *uploads = calloc(count, sizeof(*uploads));
  if (rc != CTL_DONE || !uploads) {
    free(uploads);
    return rc != CTL_DONE ? rc : say("out of memory");
  }
  for (size_t i = 0; i < count; i++) {
    uploads[i] =
        (struct shard_s3_upload){.key = files[i].url + strlen("s3://") + strlen(at.bucket) + 1,
                                 .file = files[i].file,
                                 .only_new = only_new};
  }
  rc = prepare(&at, false, &account, &o);
  if (rc == CTL_DONE) {
    o.connections = count < o.connections ? (unsigned)count : o.connections;
    rc = shard_s3_put(&o, uploads, count, err, sizeof(err)) == 0 ? CTL_DONE : say(err);
  }
  shard_s3_account_free(&account);
  free(uploads);
  return rc;
}

/* ---- an object that is looked at again and again -----------------------------------------------
 */

struct ctl_s3_watch {
  struct shard_s3_url at;
  struct shard_s3_account account;
  struct shard_s3_client *client;
  char etag[SHARD_S3_ETAG];
};

int ctl_s3_watch_open(const char *url, struct ctl_s3_watch **watch) {
  char err[1300] = "";
  struct shard_s3_client_options o = {.connections = 1};
  struct ctl_s3_watch *w = *watch = calloc(1, sizeof(*w));
  if (!w) {
    return say("out of memory");
  }
  int rc = parse_object(url, &w->at);
  rc = rc == CTL_DONE ? prepare(&w->at, false, &w->account, &o) : rc;
  if (rc == CTL_DONE) {
    o.connections = 1;
    rc = shard_s3_client_open(&o, &w->client, err, sizeof(err)) == 0 ? CTL_DONE : say(err);
  }
  return rc;
}

int ctl_s3_watch_look(struct ctl_s3_watch *w, int fd, enum ctl_s3_seen *seen) {
  char err[1300] = "";
  int rc = shard_s3_get_other(w->client, w->at.prefix, w->etag, fd, err, sizeof(err));
  *seen = rc > 0 ? CTL_S3_NEW : w->etag[0] ? CTL_S3_SAME : CTL_S3_NONE;
  return rc < 0 ? say(err) : CTL_DONE;
}

void ctl_s3_watch_close(struct ctl_s3_watch *w) {
  if (w) {
    shard_s3_client_close(w->client);
    shard_s3_account_free(&w->account);
    free(w);
  }
}
