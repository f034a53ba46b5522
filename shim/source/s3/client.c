/* SPDX-License-Identifier: MIT */
/*
 * client.c - the life of a request:
 *
 *   submit -> waiting -> running -> done
 *                ^          |
 *                └── again ─┘   after min(20 s, 0.1 s * 2^failures) * a random number from 0 to 1
 *
 * until it has failed for `timeout` seconds ("Exponential Backoff And Jitter", AWS Architecture
 * Blog). A damaged reply is asked for again a few times only: if the next ones are no better, there
 * is a reason. libcurl does not follow redirects, since a request is signed for the host it goes
 * to.
 */
#include "source/s3/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "build/progress.h"
#include "libshard.h"
#include "source/s3/answer.h"
#include "source/s3/provider.h"
#include "source/s3/sigv4.h"

#define DAMAGED_MOST 4   /* damaged replies to a request, then it is given up */
#define UNREACHED_MOST 5 /* tries to reach a server that has never answered */
#define REDIRECTS_MOST 3 /* followed for a request */
#define STALL_LEAST 1.0  /* seconds with less than SPEED_LEAST, then a request is sent again */
#define STALL_MOST 30.0
#define SPEED_LEAST 1024L /* bytes a second */
#define PATIENCE 10.0     /* seconds of retries before the user is told */
#define DELAY_FIRST 0.1
#define DELAY_MOST 20.0
#define HOST_SIZE 600 /* a bucket, a dot, an endpoint's host, and NUL */
#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* A request under way. */
struct slot {
  struct shard_s3_client *client;
  struct shard_s3_request *request; /* NULL: free */
  CURL *easy;
  struct curl_slist *headers;
  char *path;
  double begun; /* when the request was sent */
  int rc;       /* of the request's callbacks */
  struct shard_s3_answer answer;
  char error[CURL_ERROR_SIZE]; /* libcurl's: only it writes here */
};

struct queue {
  struct shard_s3_request *first, **last;
};

struct shard_s3_client {
  struct shard_s3_client_options options;
  const struct shard_s3_account *account;
  CURLM *multi;
  struct slot *slots;
  struct queue waiting, done;
  unsigned running;
  double width;    /* requests that may run at once */
  double narrowed; /* when it was last made smaller */
  bool warned;     /* the user knows that a request is retried */
  bool reached;    /* the server has answered a request as asked */
  char region[64]; /* that requests are signed for: a redirect's, or the account's */
  struct shard_s3_endpoint endpoint;
  const struct shard_s3_provider *provider; /* of the endpoint */
  bool home;                                /* the endpoint is the provider's in the region */
  uint64_t sent;
  struct sigaction pipe; /* SIGPIPE's, as it was: ignored, since TLS may write to a closed socket */
  int rc;
  char message[1200];
};

/* From 0 to 1. OpenSSL's numbers differ between nodes, so that they do not retry in step. */
static double draw_random(void) {
  uint32_t n = 0;
  if (RAND_bytes((unsigned char *)&n, sizeof(n)) != 1) {
    n = (uint32_t)clock();
  }
  return n / 4294967296.0;
}

static void push_request(struct queue *q, struct shard_s3_request *r) {
  r->next = NULL;
  *q->last = r;
  q->last = &r->next;
}

/* Fail for good. The message begins with what was asked for: s3://bucket, or an object. */
__attribute__((format(printf, 4, 5))) static void
give_up(struct shard_s3_client *c, struct shard_s3_request *r, int rc, const char *format, ...) {
  if (r->optional) {
    if (!r->failed) {
      r->failed = true;
      push_request(&c->done, r);
    }
  } else if (c->rc == 0) {
    va_list args;
    int n = snprintf(c->message, sizeof(c->message), "s3://%s%s%.400s: ", c->options.bucket,
                     r->key ? "/" : "", r->key ? r->key : "");
    va_start(args, format);
    vsnprintf(c->message + n, sizeof(c->message) - (size_t)n, format, args);
    va_end(args);
    c->rc = rc;
  }
}

/* ---- where to ----------------------------------------------------------- */

static void set_region(struct shard_s3_client *c, const char *region) {
  snprintf(c->region, sizeof(c->region), "%s", region);
  if (c->home) {
    c->endpoint.tls = true;
    c->endpoint.path[0] = 0;
    shard_s3_provider_host(c->provider, region, c->endpoint.host, sizeof(c->endpoint.host));
  }
}

/* Whether the bucket stands in the host's name, not in the path. */
static bool is_virtual(const struct shard_s3_client *c) {
  return shard_s3_url_is_virtual(&c->endpoint, c->options.bucket, c->account->addressing);
}

static void put_host(const struct shard_s3_client *c, char host[HOST_SIZE]) {
  bool virtual = is_virtual(c);
  snprintf(host, HOST_SIZE, "%s%s%s", virtual ? c->options.bucket : "", virtual ? "." : "",
           c->endpoint.host);
}

/* The canonical path of a request; malloc'd, NULL without memory. */
static char *make_path(const struct shard_s3_client *c, const struct shard_s3_request *r) {
  bool virtual = is_virtual(c);
  char *path = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&path, &size);
  if (!out) {
    return NULL;
  }
  fputs(c->endpoint.path, out);
  fputc('/', out);
  if (!virtual) {
    fputs(c->options.bucket, out);
    if (r->key) {
      fputc('/', out);
    }
  }
  if (r->key) {
    shard_s3_url_escape(out, r->key, strlen(r->key), true);
  }
  if (fclose(out) != 0) {
    free(path);
    return NULL;
  }
  return path;
}

/* ---- what comes --------------------------------------------------------- */

static size_t on_header(char *line, size_t one, size_t n, void *context) {
  struct slot *s = context;
  struct shard_s3_request *r = s->request;
  bool another = s->answer.status != 0;
  n *= one;
  enum shard_s3_line kind = shard_s3_answer_read_line(&s->answer, line, n);
  if (kind == SHARD_S3_HEAD_BEGINS && another) {
    s->rc = r->begin ? r->begin(r->context) : 0;
    return s->rc == 0 ? n : 0; /* anything else than n ends it */
  }
  if (kind == SHARD_S3_HEAD_LINE && r->header) {
    r->header(r->context, line, n);
  }
  return n;
}

static size_t on_data(char *data, size_t one, size_t n, void *context) {
  struct slot *s = context;
  n *= one;
  if (s->answer.status != 200) {
    shard_s3_answer_keep(&s->answer, data, n);
    return n;
  }
  s->rc = s->request->data ? s->request->data(s->request->context, data, n) : 0;
  return s->rc == 0 ? n : n + 1; /* anything else than n ends it */
}

/* ---- sending ------------------------------------------------------------ */

static bool add_header(struct slot *s, const char *name, const char *value) {
  char *line = NULL;
  int n = asprintf(&line, "%s:%s%s", name, *value ? " " : "",
                   value); /* "name:" removes libcurl's own */
  struct curl_slist *more = n < 0 ? NULL : curl_slist_append(s->headers, line);
  if (n >= 0) {
    OPENSSL_cleanse(line, (size_t)n);
    free(line);
  }
  s->headers = more ? more : s->headers;
  return more != NULL;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(((const struct shard_sigv4_header *)a)->name,
                ((const struct shard_sigv4_header *)b)->name);
}

/* The request's headers, signed for `host`. */
static bool sign_headers(struct slot *s, const char *host) {
  struct shard_s3_client *c = s->client;
  const struct shard_s3_account *a = c->account;
  const struct shard_s3_provider *p = c->provider;
  char date[SHARD_SIGV4_DATE];
  shard_sigv4_date(time(NULL), date);
  struct shard_sigv4_header headers[8];
  size_t count = 0;
  headers[count++] = (struct shard_sigv4_header){"host", host};
  if (a->sign) {
    headers[count++] = (struct shard_sigv4_header){p->content, EMPTY_HASH};
    headers[count++] = (struct shard_sigv4_header){p->date, date};
  }
  if (a->sign && a->token && p->token) {
    headers[count++] = (struct shard_sigv4_header){p->token, a->token};
  }
  if (a->pays && p->payer) {
    headers[count++] = (struct shard_sigv4_header){p->payer, "requester"};
  }
  if (a->owner && p->owner) {
    headers[count++] = (struct shard_sigv4_header){p->owner, a->owner};
  }
  qsort(headers, count, sizeof(headers[0]), compare_names);
  bool good = true;
  for (size_t i = 0; good && i < count; i++) {
    good = add_header(s, headers[i].value == host ? "Host" : headers[i].name, headers[i].value);
  }
  if (!good || !a->sign) {
    return good;
  }
  const struct shard_sigv4_key key = {a->access, a->secret, p->region ? p->region : c->region,
                                      p->service, &p->scheme};
  const struct shard_sigv4_request r = {.method = "GET",
                                        .path = s->path,
                                        .query = s->request->query ? s->request->query : "",
                                        .headers = headers,
                                        .header_count = count,
                                        .payload = EMPTY_HASH,
                                        .date = date};
  char *authorization = shard_sigv4_sign(&key, &r);
  good = authorization && add_header(s, "Authorization", authorization);
  free(authorization);
  return good;
}

static void clear_slot(struct slot *s) {
  for (struct curl_slist *h = s->headers; h; h = h->next) {
    OPENSSL_cleanse(h->data, strlen(h->data));
  }
  curl_slist_free_all(s->headers);
  s->headers = NULL;
  free(s->path);
  s->path = NULL;
  shard_s3_answer_clear(&s->answer);
  s->request = NULL;
}

/* Set an option; libcurl copies strings. */
#define SET(option, value) (good = curl_easy_setopt(e, option, value) == CURLE_OK && good)

/* Set what is sent, and who takes the reply. false: no memory. */
static bool set_request(struct slot *s, const char *url) {
  CURL *e = s->easy;
  bool good = true;
  char agent[64];
  snprintf(agent, sizeof(agent), "libshard/%s", shard_version());
  SET(CURLOPT_URL, url);
  SET(CURLOPT_PATH_AS_IS, 1L);         /* "a/../b" is a key */
  SET(CURLOPT_HTTPHEADER, s->headers); /* not copied: clear_slot() frees it */
  SET(CURLOPT_USERAGENT, agent);
  SET(CURLOPT_HEADERFUNCTION, on_header);
  SET(CURLOPT_HEADERDATA, s);
  SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); /* a proxy's words are not the reply */
  SET(CURLOPT_WRITEFUNCTION, on_data);
  SET(CURLOPT_WRITEDATA, s);
  SET(CURLOPT_ERRORBUFFER, s->error);
  SET(CURLOPT_PRIVATE, s);
  return good;
}

/* Set how it is sent. false: no memory, or libcurl lacks what is needed to be safe. */
static bool set_transport(struct slot *s) {
  const struct shard_s3_client *c = s->client;
  CURL *e = s->easy;
  bool good = true;
  SET(CURLOPT_FOLLOWLOCATION, 0L);
  SET(CURLOPT_NOSIGNAL, 1L);
  /* After a failure: what is left in the old connection must not be taken for the reply. */
  SET(CURLOPT_FRESH_CONNECT, s->request->failures > 0 ? 1L : 0L);
  if (c->endpoint.tls) {
    SET(CURLOPT_SSL_VERIFYPEER, c->account->unverified ? 0L : 1L);
    SET(CURLOPT_SSL_VERIFYHOST, c->account->unverified ? 0L : 2L);
  }
  if (c->endpoint.tls && c->account->ca_bundle) {
    SET(CURLOPT_CAINFO, c->account->ca_bundle);
    SET(CURLOPT_CAPATH, NULL); /* no other than these */
  }
  /* A page must be there soon; an object may be large. */
  double stall = c->options.timeout / 4.0;
  stall = stall < STALL_LEAST ? STALL_LEAST : stall < STALL_MOST ? stall : STALL_MOST;
  stall *= 1 << (s->request->failures < 2 ? s->request->failures : 2);
  SET(CURLOPT_CONNECTTIMEOUT_MS, (long)(1000 * stall));
  SET(CURLOPT_LOW_SPEED_LIMIT, SPEED_LEAST);
  SET(CURLOPT_LOW_SPEED_TIME, (long)stall);
  SET(CURLOPT_TIMEOUT_MS, s->request->key ? 0L : (long)(10000 * stall));
  /* What follows is good to have, not needed: the URL names the scheme. */
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, c->endpoint.tls ? "https" : "http");
#else
  curl_easy_setopt(e, CURLOPT_PROTOCOLS, c->endpoint.tls ? CURLPROTO_HTTPS : CURLPROTO_HTTP);
#endif
  curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
  curl_easy_setopt(e, CURLOPT_BUFFERSIZE, 131072L);
  return good;
}

#undef SET

/* 0 or a negative errno. */
static int send_request(struct slot *s, struct shard_s3_request *r, double now) {
  struct shard_s3_client *c = s->client;
  char host[HOST_SIZE], *url = NULL;
  s->request = r;
  s->begun = now;
  s->rc = 0;
  s->error[0] = 0;
  int rc = r->begin ? r->begin(r->context) : 0;
  if (rc != 0) {
    return rc;
  }
  put_host(c, host);
  s->path = make_path(c, r);
  if (!s->path || !sign_headers(s, host) ||
      asprintf(&url, "%s://%s%s%s%s", c->endpoint.tls ? "https" : "http", host, s->path,
               r->query ? "?" : "", r->query ? r->query : "") < 0) {
    return -ENOMEM;
  }
  curl_easy_reset(s->easy);
  bool good = set_request(s, url) && set_transport(s);
  free(url);
  if (!good || curl_multi_add_handle(c->multi, s->easy) != CURLM_OK) {
    return -ENOMEM;
  }
  c->running++;
  c->sent++;
  return 0;
}

static void send_waiting(struct shard_s3_client *c, double now) {
  struct shard_s3_request **link = &c->waiting.first;
  while (*link && c->running < shard_s3_client_width(c) && c->rc == 0) {
    struct shard_s3_request *r = *link;
    if (r->not_before > now) {
      link = &r->next;
      continue;
    }
    *link = r->next;
    if (!*link) {
      c->waiting.last = link;
    }
    struct slot *s = c->slots;
    while (s->request) {
      s++;
    }
    int rc = send_request(s, r, now);
    if (rc != 0) {
      clear_slot(s);
      give_up(c, r, rc, "%s", strerror(-rc));
    }
  }
}

/* ---- what became of it -------------------------------------------------- */

#define say(...) shard_progress_say(0, "shardctl: ", __VA_ARGS__)

/* Retry later, if there is time left. */
static void retry_later(struct shard_s3_client *c, struct shard_s3_request *r, const char *why) {
  double now = shard_clock_seconds();
  if (r->failures++ == 0) {
    r->first_failed = now;
  }
  double left = r->first_failed + c->options.timeout - now;
  if (left <= 0 && r->failures > 1) {
    give_up(c, r, -ETIMEDOUT, "no reply in %u tries and %u s (SHARD_TIMEOUT); the last: %s",
            r->failures, c->options.timeout, why);
    return;
  }
  double most = DELAY_FIRST * (double)(1u << (r->failures < 10 ? r->failures : 10));
  most = most < DELAY_MOST ? most : DELAY_MOST;
  double delay = most * draw_random();
  delay = delay < left ? delay : left;
  r->not_before = now + (delay > 0 ? delay : 0);
  if (c->options.log >= SHARD_LOG_INFO) {
    say("s3: %s; trying again in %.2f s", why, delay > 0 ? delay : 0);
  } else if (c->options.log >= SHARD_LOG_WARN && !c->warned && c->options.timeout > PATIENCE &&
             r->not_before > r->first_failed + PATIENCE) {
    c->warned = true; /* before the wait: the user may end us in it */
    shard_progress_say(0, SHARD_ERROR_WARNING,
                       "%s; it is tried again for up to %u s (SHARD_TIMEOUT)", why,
                       c->options.timeout);
  }
  push_request(&c->waiting, r);
}

/* Send it again at once. That is no failure. */
static void send_again(struct shard_s3_client *c, struct shard_s3_request *r) {
  r->not_before = 0;
  push_request(&c->waiting, r);
}

static void retry_damaged(struct shard_s3_client *c, struct shard_s3_request *r, const char *why) {
  if (++r->damaged >= DAMAGED_MOST) {
    give_up(c, r, -EBADMSG, "%s (%u times)", why, r->damaged);
    return;
  }
  retry_later(c, r, why);
}

/* The server is overloaded: run fewer requests at a time. */
static void narrow_width(struct shard_s3_client *c) {
  double now = shard_clock_seconds();
  if (now - c->narrowed > 0.5) {
    c->narrowed = now;
    c->width = c->width > 2 ? c->width * 0.7 : 1;
  }
}

/* The request is done. */
static void hand_back(struct slot *s, struct shard_s3_request *r) {
  struct shard_s3_client *c = s->client;
  c->reached = true;
  c->width = c->width + 0.2 < c->options.connections ? c->width + 0.2 : c->options.connections;
  push_request(&c->done, r);
}

/* Do what the answer means. 0, or the error of the request's `end`. */
static int act_on_answer(struct slot *s, struct shard_s3_request *r, const char **why) {
  struct shard_s3_client *c = s->client;
  const struct shard_s3_asked asked = {
      .request = r, .host = c->endpoint.host, .region = c->region, .secret = c->account->token};
  struct shard_s3_verdict v;
  if (s->answer.status == 0) {
    *why = "the reply has no status";
    return -EBADMSG;
  }
  shard_s3_answer_judge(&s->answer, &asked, &v);
  int rc = v.meaning == SHARD_S3_WHOLE && r->end ? r->end(r->context, why) : 0;
  if (rc != 0) {
    return rc;
  }
  switch (v.meaning) {
  case SHARD_S3_WHOLE:
    hand_back(s, r);
    break;
  case SHARD_S3_SLOWER:
    narrow_width(c);
    retry_later(c, r, v.why);
    break;
  case SHARD_S3_LATER:
    retry_later(c, r, v.why);
    break;
  case SHARD_S3_REGION_WRONG:
    if (++r->redirects <= REDIRECTS_MOST) {
      set_region(c, v.region);
      send_again(c, r);
      break;
    }
    /* fall through */
  case SHARD_S3_REFUSED:
    give_up(c, r, v.rc, "%s", v.why);
  }
  return 0;
}

/* libcurl could not get the reply. tunnel: the status of a proxy's answer to CONNECT; 0: none. */
static void act_on_failure(struct slot *s, struct shard_s3_request *r, CURLcode code, long tunnel) {
  struct shard_s3_client *c = s->client;
  char why[400];
  /* libcurl's words may have a proxy's URL in them, with its password. */
  snprintf(why, sizeof(why), "%s: %s", c->endpoint.host,
           s->error[0] && !strchr(s->error, '@') ? s->error : curl_easy_strerror(code));
  if (tunnel >= 400 && tunnel < 500 && tunnel != 408 && tunnel != 429) {
    give_up(c, r, -EACCES, "%s; the proxy refuses (https_proxy, no_proxy)", why);
    return;
  }
  switch (code) {
  case CURLE_PEER_FAILED_VERIFICATION:
  case CURLE_SSL_CACERT_BADFILE:
  case CURLE_SSL_ISSUER_ERROR:
  case CURLE_SSL_CERTPROBLEM:
    give_up(c, r, -EACCES, "%s; AWS_CA_BUNDLE names a file with the CA's certificate", why);
    return;
  case CURLE_URL_MALFORMAT:
  case CURLE_FAILED_INIT:
    give_up(c, r, -EINVAL, "%s", why);
    return;
  case CURLE_COULDNT_RESOLVE_PROXY:
    give_up(c, r, -EINVAL, "%s (see http_proxy, https_proxy, all_proxy, no_proxy)", why);
    return;
  case CURLE_OUT_OF_MEMORY: /* also if headers have no end */
    retry_damaged(c, r, why);
    return;
  default:
    if (!c->reached && r->failures + 1 >= UNREACHED_MOST &&
        (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
         code == CURLE_SSL_CONNECT_ERROR || code == CURLE_UNSUPPORTED_PROTOCOL)) {
      give_up(c, r, -EHOSTUNREACH, "cannot reach %s (see AWS_ENDPOINT_URL_S3, AWS_REGION)", why);
      return;
    }
    retry_later(c, r, why);
  }
}

static void finish_request(struct slot *s, CURLcode code) {
  struct shard_s3_client *c = s->client;
  struct shard_s3_request *r = s->request;
  const char *why = "the reply is damaged";
  int rc = s->rc;
  long tunnel = 0;
  curl_easy_getinfo(s->easy, CURLINFO_HTTP_CONNECTCODE, &tunnel);
  curl_multi_remove_handle(c->multi, s->easy);
  c->running--;
  if (c->options.log >= SHARD_LOG_DEBUG) {
    say("s3: GET %s%s%s: HTTP %ld, %.0f ms%s%s", s->path, r->query ? "?" : "",
        r->query ? r->query : "", s->answer.status, 1000 * (shard_clock_seconds() - s->begun),
        code ? ", " : "", code ? curl_easy_strerror(code) : "");
  }
  if (rc > 0) {
    hand_back(s, r);
  } else if (rc == 0 && code != CURLE_OK) {
    act_on_failure(s, r, code, tunnel);
  } else if (rc == 0) {
    rc = act_on_answer(s, r, &why);
  } else if (rc == -EBADMSG) {
    r->end(r->context, &why); /* only to ask why */
  }
  if (rc == -EBADMSG) {
    retry_damaged(c, r, why);
  } else if (rc < 0) {
    give_up(c, r, rc, "%s", strerror(-rc));
  }
  clear_slot(s);
}

/* ---- the interface ------------------------------------------------------ */

int shard_s3_client_init(char *err, size_t size) {
  if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) {
    return 0;
  }
  return shard_error_set(err, size, -ENOMEM, "libcurl cannot be used: out of memory");
}

int shard_s3_client_open(const struct shard_s3_client_options *options,
                         struct shard_s3_client **client, char *err, size_t size) {
  struct shard_s3_client *c = calloc(1, sizeof(*c));
  *client = c;
  if (!c) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  const struct sigaction ignore = {.sa_handler = SIG_IGN};
  sigaction(SIGPIPE, &ignore, &c->pipe);
  c->options = *options;
  c->account = options->account;
  c->waiting.last = &c->waiting.first;
  c->done.last = &c->done.first;
  c->width = options->connections;
  c->home = !options->account->endpoint;
  c->slots = calloc(options->connections, sizeof(*c->slots));
  c->multi = curl_multi_init();
  bool good =
      c->slots && c->multi &&
      (c->home || shard_s3_url_parse_endpoint(options->account->endpoint, &c->endpoint) == 0);
  c->provider = c->home ? shard_s3_provider_home() : shard_s3_provider_of(c->endpoint.host);
  set_region(c, options->account->region);
  for (unsigned i = 0; good && i < options->connections; i++) {
    c->slots[i].client = c;
    c->slots[i].easy = curl_easy_init();
    good = c->slots[i].easy != NULL;
  }
  if (!good) {
    shard_s3_client_close(c);
    *client = NULL;
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)options->connections);
  curl_multi_setopt(c->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)options->connections);
  return 0;
}

void shard_s3_client_submit(struct shard_s3_client *client, struct shard_s3_request *request) {
  request->first_failed = request->not_before = 0;
  request->failed = false;
  request->failures = request->damaged = request->redirects = 0;
  push_request(&client->waiting, request);
}

/* Milliseconds until a waiting request may be sent, or 250. */
static int wait_time(const struct shard_s3_client *c, double now) {
  double least = 0.25;
  for (const struct shard_s3_request *r = c->waiting.first; r; r = r->next) {
    if (c->running < shard_s3_client_width(c) && r->not_before - now < least) {
      least = r->not_before - now;
    }
  }
  return least > 0 ? (int)(least * 1000) + 1 : 0;
}

/* If libcurl cannot go on with any request, end the client. */
static void check_multi(struct shard_s3_client *c, CURLMcode code) {
  if (code != CURLM_OK && c->rc == 0) {
    snprintf(c->message, sizeof(c->message), "s3://%s: libcurl: %s", c->options.bucket,
             curl_multi_strerror(code));
    c->rc = code == CURLM_OUT_OF_MEMORY ? -ENOMEM : -EIO;
  }
}

/* Finish the requests whose transfers have ended. */
static void finish_done(struct shard_s3_client *c) {
  const CURLMsg *m;
  while ((m = curl_multi_info_read(c->multi, &(int){0})) != NULL) {
    if (m->msg == CURLMSG_DONE) {
      char *slot = NULL;
      CURLcode code = m->data.result; /* before finish_request() makes the message invalid */
      curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &slot);
      finish_request((struct slot *)(void *)slot, code);
    }
  }
}

int shard_s3_client_next(struct shard_s3_client *c, struct shard_s3_request **done) {
  for (;;) {
    if (c->rc != 0) {
      return c->rc;
    }
    if (c->done.first) {
      *done = c->done.first;
      c->done.first = (*done)->next;
      if (!c->done.first) {
        c->done.last = &c->done.first;
      }
      return 1;
    }
    if (!c->waiting.first && c->running == 0) {
      return 0;
    }
    send_waiting(c, shard_clock_seconds());
    check_multi(c, curl_multi_perform(c->multi, &(int){0}));
    finish_done(c);
    if (!c->done.first && c->rc == 0) {
      check_multi(c, curl_multi_poll(c->multi, NULL, 0, wait_time(c, shard_clock_seconds()), NULL));
    }
  }
}

unsigned shard_s3_client_width(const struct shard_s3_client *client) {
  return client->width < 1 ? 1 : (unsigned)client->width;
}

uint64_t shard_s3_client_sent(const struct shard_s3_client *client) { return client->sent; }

const char *shard_s3_client_error(const struct shard_s3_client *client) { return client->message; }

void shard_s3_client_close(struct shard_s3_client *c) {
  if (!c) {
    return;
  }
  for (unsigned i = 0; c->slots && i < c->options.connections; i++) {
    struct slot *s = &c->slots[i];
    if (s->request) {
      curl_multi_remove_handle(c->multi, s->easy);
      clear_slot(s);
    }
    curl_easy_cleanup(s->easy);
  }
  free(c->slots);
  curl_multi_cleanup(c->multi);
  sigaction(SIGPIPE, &c->pipe, NULL);
  free(c);
}
