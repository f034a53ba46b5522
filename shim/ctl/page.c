/* SPDX-License-Identifier: MIT */
#include "ctl/page.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/json.h"
#include "ctl/output.h"

extern const char ctl_page_template[]; /* page.html */

#define MARK "@JSON@"

/* Whether the name is free, or a page has it. */
static bool may_replace(const char *file) {
  char begin[64] = "";
  struct stat st;
  size_t n = strcspn(ctl_page_template, "\n");
  if (stat(file, &st) != 0) {
    return errno == ENOENT;
  }
  FILE *in = S_ISREG(st.st_mode) ? fopen(file, "re") : NULL;
  size_t got = in ? fread(begin, 1, sizeof(begin) - 1, in) : 0;
  if (in) {
    fclose(in);
  }
  return n < sizeof(begin) && got >= n && memcmp(begin, ctl_page_template, n) == 0;
}

/* JSON that ends no <script>: a '<' can stand in a text only. */
static int print(void *context, FILE *out) {
  const char *mark = strstr(ctl_page_template, MARK);
  const char *text = json_object_to_json_string_ext(context, JSON_C_TO_STRING_PLAIN);
  if (!mark || !text) {
    return ctl_fail("out of memory");
  }
  fwrite(ctl_page_template, 1, (size_t)(mark - ctl_page_template), out);
  for (; *text; text++) {
    if (*text == '<') {
      fputs("\\u003c", out);
    } else {
      fputc(*text, out);
    }
  }
  fputs(mark + strlen(MARK), out);
  return CTL_DONE;
}

int ctl_page_write(const char *file, struct json_object *facts) {
  struct ctl_output output;
  int rc = may_replace(file)
               ? CTL_DONE
               : ctl_fail("'%s' is there, and no page of shardctl verify: it stays", file);
  rc = rc == CTL_DONE ? ctl_output_open(file, NULL, SHARD_WHOLE_LAZY, &output) : rc;
  if (rc == CTL_DONE) {
    rc = ctl_output_print(&output, print, facts);
    int ended = ctl_output_end(&output, rc == CTL_DONE);
    rc = rc == CTL_DONE ? ended : rc;
  }
  json_object_put(facts);
  return rc;
}
