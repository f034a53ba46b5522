/* SPDX-License-Identifier: MIT */
#include "source/s3/fault.h"

#include <expat.h>
#include <string.h>

struct reading {
  XML_Parser parser;
  struct shard_s3_fault *fault;
  char *to; /* where the element's text goes; NULL: it is of no interest */
  size_t size;
};

static void on_start(void *context, const char *name, const char **attributes) {
  (void)attributes;
  struct reading *r = context;
  struct shard_s3_fault *f = r->fault;
  const struct {
    const char *name;
    char *to;
    size_t size;
  } fields[] = {{"Code", f->code, sizeof(f->code)},
                {"Message", f->message, sizeof(f->message)},
                {"Region", f->region, sizeof(f->region)},
                {"Endpoint", f->endpoint, sizeof(f->endpoint)}};
  const char *colon = strrchr(name, ':');
  name = colon ? colon + 1 : name;
  r->to = NULL;
  for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
    if (strcmp(name, fields[i].name) == 0) {
      r->to = fields[i].to;
      r->size = fields[i].size;
      r->to[0] = 0;
    }
  }
}

/* The text becomes one line. */
static void on_text(void *context, const char *text, int length) {
  struct reading *r = context;
  size_t used = r->to ? strlen(r->to) : 0;
  for (int i = 0; r->to && i < length && used + 1 < r->size; i++) {
    r->to[used++] = (char)((unsigned char)text[i] < 0x20 ? ' ' : text[i]);
    r->to[used] = 0;
  }
}

static void on_end(void *context, const char *name) {
  (void)name;
  ((struct reading *)context)->to = NULL;
}

/* No server of S3 has one, and entities in it may grow without end. */
static void on_doctype(void *context, const char *name, const char *system, const char *public,
                       int internal) {
  (void)name, (void)system, (void)public, (void)internal;
  XML_StopParser(((struct reading *)context)->parser, XML_FALSE);
}

void shard_s3_fault_parse(struct shard_s3_fault *fault, const char *text, size_t size) {
  *fault = (struct shard_s3_fault){0};
  struct reading r = {.parser = XML_ParserCreate("UTF-8"), .fault = fault};
  if (!r.parser) {
    return;
  }
  XML_SetUserData(r.parser, &r);
  XML_SetElementHandler(r.parser, on_start, on_end);
  XML_SetCharacterDataHandler(r.parser, on_text);
  XML_SetStartDoctypeDeclHandler(r.parser, on_doctype);
  XML_Parse(r.parser, text, (int)size, XML_TRUE);
  XML_ParserFree(r.parser);
}
