/* SPDX-License-Identifier: MIT */
/* fault.h - the XML that a server sends with an error. */
#pragma once

#include <stddef.h>

/* Its elements, cut to what fits; "" what is not there. */
struct shard_s3_fault {
  char code[64], message[200], region[64], endpoint[256];
};

/* Read what can be read of it: a reply may be no XML at all, or cut short. */
void shard_s3_fault_parse(struct shard_s3_fault *fault, const char *text, size_t size);
