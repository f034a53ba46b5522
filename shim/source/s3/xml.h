/* SPDX-License-Identifier: MIT */
/*
 * xml.h - reads the XML of an S3 server's reply, an element at a time (shardctl only).
 *
 * https://www.w3.org/TR/xml/ without DOCTYPE, whose entities may grow without end; but any byte may
 * stand in a text: servers repeat keys as they are, with control characters that XML does not
 * allow.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SHARD_XML_DEPTH 16 /* elements that may be open */

struct shard_xml_word {
  char *bytes; /* in the reply; no NUL at its end */
  size_t length;
};

struct shard_xml {
  struct shard_xml_word name; /* of the element that begins or ends, without a namespace */
  struct shard_xml_word text; /* of the element that ends, decoded; that of its elements aside */
  unsigned depth; /* elements that are open: with one that begins, without one that ends */
  /* Of the reader alone. */
  char *at, *end;
  struct shard_xml_word open[SHARD_XML_DEPTH];
  bool is_empty, has_root;
};

enum shard_xml_event { SHARD_XML_BEGINS, SHARD_XML_ENDS, SHARD_XML_WHOLE, SHARD_XML_DAMAGED };

/* Begin to read reply[size]. Texts are decoded in place. */
void shard_xml_open(struct shard_xml *xml, char *reply, size_t size);

/* Go to the next beginning or end of an element. _WHOLE: the root has ended, and nothing follows;
 * _DAMAGED: the reply is cut short, or no XML. */
enum shard_xml_event shard_xml_next(struct shard_xml *xml);

/* Whether the element has this name. */
bool shard_xml_is(const struct shard_xml *xml, const char *name);
