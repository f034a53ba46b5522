/* SPDX-License-Identifier: MIT */
/* cmd_stat.c - shardctl stat: checks a listing, and prints its facts. */
#include <stdio.h>
#include <time.h>

#include "base/words.h"
#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/human.h"
#include "ctl/json.h"
#include "ctl/open_listing.h"
#include "libshard.h"
#include "listing/listing.h"
#include "listing/samples.h"

static const struct ctl_option rows[] = {CTL_ROW_JSON, CTL_ROW_END};

/* Returns when the listing was made, by ISO 8601; static. */
static const char *listed_at(const struct shard_listing *l) {
  static char text[40];
  struct tm tm;
  time_t at = (time_t)l->header->listed_sec;
  bool told = gmtime_r(&at, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0;
  return told ? text : "";
}

static int print_json(const struct shard_listing *l, const struct shard_listing_info *i) {
  struct json_object *o = ctl_json_object();
  ctl_json_add_text(o, "source", i->source);
  ctl_json_add_text(o, "options", i->options);
  ctl_json_add_number(o, "entries", i->entries);
  ctl_json_add_number(o, "bytes", i->bytes);
  ctl_json_add_number(o, "directories", i->directories);
  ctl_json_add_text(o, "order", shard_words_at(shard_words_orders, i->order));
  ctl_json_add_text(o, "sample", shard_words_at(shard_words_samples, l->header->sample));
  ctl_json_add_number(o, "samples", shard_listing_samples(l));
  ctl_json_add_number(o, "min_depth", i->min_depth);
  ctl_json_add_number(o, "max_depth", i->max_depth);
  ctl_json_add_number(o, "longest", i->longest);
  ctl_json_add_bool(o, "utf8", i->utf8);
  ctl_json_add_number(o, "duplicates", i->duplicates);
  ctl_json_add_text(o, "digest", i->digest);
  ctl_json_add_text(o, "listed", listed_at(l));
  struct json_object *tables = ctl_json_array();
  const uint8_t *pos = NULL;
  const char *format, *path;
  while (shard_listing_table(l, &pos, &format, &path)) {
    struct json_object *one = ctl_json_object();
    ctl_json_add_text(one, "path", path);
    ctl_json_add_text(one, "format", format);
    ctl_json_add(tables, NULL, one);
  }
  ctl_json_add(o, "tables", tables);
  return ctl_json_print(o, stdout);
}

static int print_text(const struct shard_listing *l, const struct shard_listing_info *i) {
  double each = i->entries ? (double)i->bytes / (double)i->entries : 0;
  ctl_human_line("source      %s", i->source);
  ctl_human_line("options     %s", i->options);
  printf("entries     %llu\nbytes       %llu (%.2f per entry)\n"
         "directories %llu\norder       %s\nlongest     %u\ndigest      %s\nlisted      %s\n",
         (unsigned long long)i->entries, (unsigned long long)i->bytes, each,
         (unsigned long long)i->directories, shard_words_at(shard_words_orders, i->order),
         i->longest, i->digest, listed_at(l));
  if (l->header->sample) {
    ctl_human_line("samples     %llu, by %s", (unsigned long long)shard_listing_samples(l),
                   shard_words_at(shard_words_samples, l->header->sample));
  }
  const uint8_t *pos = NULL;
  const char *format, *path;
  while (shard_listing_table(l, &pos, &format, &path)) {
    ctl_human_line("table       %s (%s): not in it, not divided", *path ? path : ".", format);
  }
  return CTL_DONE;
}

static int run(char **operands) {
  struct shard_listing *l;
  struct shard_listing_info info;
  int rc = ctl_open_listing(operands[0], &l);
  if (rc != CTL_DONE) {
    return rc;
  }
  int wrong = shard_listing_verify(l);
  if (wrong == 0) {
    shard_listing_info(l, &info);
    rc = (ctl_args.json ? print_json : print_text)(l, &info);
  } else {
    rc = ctl_fail("cannot use listing '%s': %s", operands[0], shard_listing_strerror(wrong));
  }
  shard_listing_close(l);
  return rc;
}

const struct ctl_command ctl_cmd_stat = {ctl_help_stat, rows, CTL_ONE,
                                         "one listing, directory or bucket", run};
