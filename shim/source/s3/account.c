/* SPDX-License-Identifier: MIT */
/*
 * account.c - keys, region and endpoint: from the environment first, then from the profile's
 * section of the shared files. https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html
 */
#include <errno.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "source/s3/s3.h"

static const char *get_variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

static void forget_secret(char *secret) {
  if (secret) {
    OPENSSL_cleanse(secret, strlen(secret));
  }
  free(secret);
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* The text without blanks around it; in place. */
static char *trim(char *text) {
  while (is_blank(*text)) {
    text++;
  }
  size_t n = strlen(text);
  while (n > 0 && is_blank(text[n - 1])) {
    n--;
  }
  text[n] = 0;
  return text;
}

/* The text without the quotes that a name with blanks has; in place. */
static char *unquote(char *text) {
  size_t n = strlen(text);
  if (n >= 2 && (*text == '\'' || *text == '"') && text[n - 1] == *text) {
    text[n - 1] = 0;
    text++;
  }
  return text;
}

/* Whether the line begins the section "[profile NAME]", or, of NAME default or without `kind`,
 * "[NAME]". Cuts the line. */
static bool is_section(char *line, const char *kind, const char *name) {
  line++;
  line[strcspn(line, "]")] = 0;
  char *word = trim(line);
  size_t n = strlen(kind);
  if (n > 0 && strncmp(word, kind, n) == 0 && is_blank(word[n])) {
    return strcmp(unquote(trim(word + n)), name) == 0;
  }
  return (n == 0 || strcmp(name, "default") == 0) && strcmp(word, name) == 0;
}

/*
 * The value of a key in a section of a file. Malloc'd; NULL if it is not there, or empty. Keys that
 * are indented below another one are passed over (a section may be indented as a whole). *found is
 * set if the file has the section.
 */
static char *look_up(const char *file, const char *kind, const char *name, const char *key,
                     bool *found) {
  FILE *in = fopen(file, "re");
  char *line = NULL, *value = NULL;
  size_t room = 0, margin = SIZE_MAX; /* how far the section's keys are indented */
  bool inside = false;
  while (in && getline(&line, &room, in) >= 0) {
    size_t indent = strspn(line, " \t");
    char *text = trim(line), *equals = text + strcspn(text, "=:");
    if (!*text || *text == '#' || *text == ';' || indent > margin) {
      continue;
    }
    margin = *text == '[' ? SIZE_MAX : indent;
    if (*text == '[') {
      inside = is_section(text, kind, name);
      *found |= inside;
    } else if (inside && *equals) {
      *equals = 0;
      if (strcasecmp(trim(text), key) == 0) {
        char *given = trim(equals + 1);
        forget_secret(value);
        value = *given ? strdup(given) : NULL;
      }
    }
  }
  if (line) {
    OPENSSL_cleanse(line, room);
  }
  free(line);
  if (in) {
    fclose(in);
  }
  return value;
}

/* The path of ~/.aws/NAME, or the one that the variable gives. */
static void shared_file(char path[PATH_MAX], const char *name, const char *over) {
  const char *given = get_variable(over), *home = get_variable("HOME");
  if (!home) {
    const struct passwd *who = getpwuid(getuid());
    home = who ? who->pw_dir : "/";
  }
  if (given && strncmp(given, "~/", 2) == 0) {
    snprintf(path, PATH_MAX, "%s%s", home, given + 1);
  } else if (given) {
    snprintf(path, PATH_MAX, "%s", given);
  } else {
    snprintf(path, PATH_MAX, "%s/.aws/%s", home, name);
  }
}

static char *copy_text(const char *value) { return value ? strdup(value) : NULL; }

struct files {
  char credentials[PATH_MAX], config[PATH_MAX];
  const char *profile;
  bool found; /* some file has the profile */
};

/* A setting of the profile. It may stand in either file; the credentials file goes first. */
static char *look_up_setting(struct files *f, const char *key) {
  char *value = look_up(f->credentials, "", f->profile, key, &f->found);
  return value ? value : look_up(f->config, "profile", f->profile, key, &f->found);
}

static void find_keys(struct shard_s3_account *a, struct files *f) {
  const char *access = get_variable("AWS_ACCESS_KEY_ID"),
             *secret = get_variable("AWS_SECRET_ACCESS_KEY");
  if (access && secret) {
    a->access = strdup(access);
    a->secret = strdup(secret);
    a->token = copy_text(get_variable("AWS_SESSION_TOKEN"));
    return;
  }
  static const char *const names[] = {"aws_access_key_id", "aws_secret_access_key",
                                      "aws_session_token"};
  char **const to[] = {&a->access, &a->secret, &a->token};
  for (int config = 0; config < 2 && !(a->access && a->secret); config++) {
    for (size_t i = 0; i < 3; i++) {
      forget_secret(*to[i]);
      *to[i] = look_up(config ? f->config : f->credentials, config ? "profile" : "", f->profile,
                       names[i], &f->found);
    }
  }
}

/* Whether the user wants AWS's own endpoint, whatever is set. */
static bool ignores_endpoints(struct files *f) {
  char *value = copy_text(get_variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"));
  value = value ? value : look_up_setting(f, "ignore_configured_endpoint_urls");
  bool ignores = value && strcasecmp(value, "true") == 0;
  free(value);
  return ignores;
}

static char *find_endpoint(struct files *f) {
  const char *given = get_variable("AWS_ENDPOINT_URL_S3");
  if (ignores_endpoints(f)) {
    return NULL;
  }
  given = given ? given : get_variable("AWS_ENDPOINT_URL");
  if (given) {
    return strdup(given);
  }
  return look_up_setting(f, "endpoint_url");
}

/* Whether the profile has a setting. */
static bool has_setting(struct files *f, const char *name) {
  char *value = look_up_setting(f, name);
  free(value);
  return value != NULL;
}

bool shard_s3_account_is_region(const char *text) {
  size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
  return n > 0 && n < 64 && !text[n];
}

static int check_account(const struct shard_s3_account *a, struct files *f, bool anonymous,
                         char *err, size_t size) {
  struct shard_s3_endpoint ignored;
  bool lacking = !anonymous && !(a->access && a->secret && *a->access && *a->secret);
  if (get_variable("AWS_PROFILE") && !f->found &&
      !(a->access && get_variable("AWS_ACCESS_KEY_ID"))) {
    snprintf(err, size, "AWS_PROFILE='%.64s' is neither in '%.200s' nor in '%.200s'", f->profile,
             f->credentials, f->config);
  } else if (!anonymous && get_variable("AWS_ACCESS_KEY_ID") &&
             !get_variable("AWS_SECRET_ACCESS_KEY")) {
    snprintf(err, size,
             "AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY: set both, or none");
  } else if (!a->endpoint && !ignores_endpoints(f) && has_setting(f, "services")) {
    snprintf(
        err, size,
        "profile %.64s has a section of services, which is not read: set AWS_ENDPOINT_URL_S3 to "
        "its endpoint",
        f->profile);
  } else if (lacking) {
    snprintf(
        err, size,
        "no S3 credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or put them into "
        "'%.200s' (profile %.64s); those of SSO, roles and machines become variables by "
        "'aws configure export-credentials --format env'; --no-sign-request for a public bucket",
        f->credentials, f->profile);
  } else if (a->access && strpbrk(a->access, "\r\n/, ")) {
    snprintf(err, size, "the access key ID has a character that it cannot have");
  } else if (get_variable("AWS_REQUEST_PAYER") && !a->pays) {
    snprintf(err, size, "AWS_REQUEST_PAYER takes 'requester'");
  } else if (a->owner && strpbrk(a->owner, "\r\n")) {
    snprintf(err, size, "ExpectedBucketOwner has a line break in it");
  } else if (a->token && strpbrk(a->token, "\r\n")) {
    snprintf(err, size, "AWS_SESSION_TOKEN has a line break in it");
  } else if (!a->region || !shard_s3_account_is_region(a->region)) {
    snprintf(err, size, "'%.64s' is not a region: see AWS_REGION", a->region ? a->region : "");
  } else if (a->endpoint && shard_s3_url_parse_endpoint(a->endpoint, &ignored) != 0) {
    /* Not shown: it may hold a password. */
    snprintf(err, size,
             "the endpoint (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or endpoint_url) is "
             "not of the form http[s]://host[:port]");
  } else if (a->ca_bundle && access(a->ca_bundle, R_OK) != 0) {
    snprintf(err, size, "cannot read AWS_CA_BUNDLE '%.300s': %s", a->ca_bundle, strerror(errno));
  } else {
    return 0;
  }
  return -EINVAL;
}

int shard_s3_account_load(struct shard_s3_account *account, bool anonymous,
                          enum shard_s3_addressing addressing, char *err, size_t size) {
  anonymous |= get_variable("LIBSHARD_NO_SIGN_REQUEST") != NULL; /* of a client without keys */
  *account = (struct shard_s3_account){.sign = !anonymous};
  struct files f = {.profile = get_variable("AWS_PROFILE")};
  shared_file(f.credentials, "credentials", "AWS_SHARED_CREDENTIALS_FILE");
  shared_file(f.config, "config", "AWS_CONFIG_FILE");
  f.profile = f.profile ? f.profile : get_variable("AWS_DEFAULT_PROFILE");
  f.profile = f.profile ? f.profile : "default";
  if (!anonymous) {
    find_keys(account, &f);
  }
  const char *region = get_variable("AWS_REGION");
  region = region ? region : get_variable("AWS_DEFAULT_REGION");
  account->region =
      look_up_setting(&f, "region"); /* in any case: it tells whether the profile is there */
  if (region || !account->region) {
    free(account->region);
    account->region = strdup(region ? region : "us-east-1");
  }
  account->endpoint = find_endpoint(&f);
  const char *bundle = get_variable("AWS_CA_BUNDLE");
  account->ca_bundle = bundle ? strdup(bundle) : look_up_setting(&f, "ca_bundle");
  const char *payer = get_variable("AWS_REQUEST_PAYER"), *owner = get_variable("LIBSHARD_S3_OWNER");
  account->pays = payer && strcmp(payer, "requester") == 0;
  account->owner = copy_text(owner); /* as a client says in its call */
  account->unverified =
      get_variable("LIBSHARD_NO_VERIFY_SSL") != NULL; /* of a client that trusts all */
  account->addressing = addressing;
  return check_account(account, &f, anonymous, err, size);
}

void shard_s3_account_free(struct shard_s3_account *account) {
  forget_secret(account->access);
  forget_secret(account->secret);
  forget_secret(account->token);
  free(account->owner);
  free(account->region);
  free(account->endpoint);
  free(account->ca_bundle);
  *account = (struct shard_s3_account){0};
}
