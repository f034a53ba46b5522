/* SPDX-License-Identifier: MIT */
/* cmd_verify.c - shardctl verify: tells what the statistics of all ranks prove (ctl/proof.h). */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "ctl/arguments.h"
#include "ctl/ctl.h"
#include "ctl/human.h"
#include "ctl/json.h"
#include "ctl/page.h"
#include "ctl/proof.h"
#include "libshard.h"
#include "listing/listing.h"

static const char *listing_file, *html_file;

static const struct ctl_option rows[] = {
    CTL_ROW_JSON, {"listing", .text = &listing_file}, {"html", .text = &html_file}, CTL_ROW_END};

static const char *text_at(const struct json_object *list, size_t i) {
  return json_object_get_string(json_object_array_get_idx(list, i));
}

static int show(size_t ranks, struct json_object *faults, struct json_object *facts,
                size_t unproven) {
  size_t wrong = json_object_array_length(faults);
  int rc = CTL_DONE;
  if (ctl_given.json) {
    struct json_object *o = ctl_json_object();
    ctl_json_add_bool(o, "proven", wrong == 0);
    ctl_json_add_number(o, "unproven", unproven);
    ctl_json_add_number(o, "ranks", ranks);
    ctl_json_add(o, "faults", json_object_get(faults));
    ctl_json_add(o, "facts", facts);
    rc = ctl_json_print(o, stdout);
  } else {
    for (size_t i = 0; i < json_object_array_length(facts); i++) {
      ctl_human_line("%s", text_at(facts, i));
    }
    if (wrong == 0) {
      printf("proven, for %zu ranks%s\n", ranks,
             unproven ? ", but for what a line above calls not proven" : "");
    }
  }
  fflush(stdout); /* facts come before faults */
  for (size_t i = 0; i < wrong; i++) {
    rc = ctl_fail("%s", text_at(faults, i));
  }
  json_object_put(faults);
  return rc;
}

static int run(char **operands) {
  struct shard_listing *listing = NULL;
  if (listing_file) {
    int rc = shard_listing_open(listing_file, &listing);
    if (rc != 0) {
      return ctl_fail("cannot use listing '%s': %s", listing_file, shard_listing_strerror(rc));
    }
  }
  struct json_object *faults = ctl_json_array(), *facts = ctl_json_array();
  if (!faults || !facts) {
    return ctl_fail("no memory left");
  }
  if (html_file && (!*html_file || strcmp(html_file, "-") == 0)) {
    return ctl_usage("--html takes the page's name, not '%s': standard output has the facts",
                     html_file);
  }
  if (html_file && !ctl_page_may_replace(html_file)) {
    return ctl_usage("--html takes the page's name, and '%s' is a file that is no such page; it "
                     "stays as it is",
                     html_file);
  }
  size_t unproven = 0;
  size_t ranks = ctl_proof_make(operands, listing, listing_file, faults, facts, &unproven);
  shard_listing_close(listing);
  int written = html_file ? ctl_page_write(html_file, ranks, faults, facts, unproven) : CTL_DONE;
  int rc = show(ranks, faults, facts, unproven);
  return rc == CTL_DONE ? written : rc;
}

const struct ctl_command ctl_cmd_verify = {ctl_help_verify, rows, CTL_SOME,
                                           "the statistics of all ranks", run};
