/* SPDX-License-Identifier: MIT */
/*
 * xml.h - reads the XML of an S3 server's reply, an element at a time (shardctl only).
 *
 * The XML is that of https://www.w3.org/TR/xml/ without DOCTYPE, whose entities may grow without
 * end. But any byte may stand in a text: servers repeat keys unchanged, with control characters
 * that XML does not allow.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SHARD_XML_DEPTH 16 /* elements that may be open */

/* Bytes of a reply. */
struct shard_xml_word {
  char *bytes; /* in the reply; no NUL at the end */
  size_t length;
};

/* A reader of a reply. */
struct shard_xml {
  struct shard_xml_word name; /* of the element that begins or ends, without a namespace */
  struct shard_xml_word text; /* of the element that ends: decoded, inner elements aside */
  unsigned depth; /* open elements; an element that begins is open, an element that ends is not */
  /* Of the reader alone: */
  char *at, *end;
  struct shard_xml_word open[SHARD_XML_DEPTH];
  bool is_empty, has_root;
};

/*
 * The events of a reader. BEGINS, ENDS: of an element. WHOLE: the root has ended, and nothing
 * follows. DAMAGED: the reply is cut short, or is no XML.
 */
enum shard_xml_event { SHARD_XML_BEGINS, SHARD_XML_ENDS, SHARD_XML_WHOLE, SHARD_XML_DAMAGED };

/* Begins to read reply[size]; texts are decoded in place. */
void shard_xml_open(struct shard_xml *xml, char *reply, size_t size);

/* Goes to the next beginning or end of an element, or to the end of the reply. */
enum shard_xml_event shard_xml_next(struct shard_xml *xml);

/* Returns whether the element that begins or ends has this name. */
bool shard_xml_is(const struct shard_xml *xml, const char *name);
