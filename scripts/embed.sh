#!/bin/sh
# embed.sh FILE... - print a C source that defines shard_adapter_sources: the text of each FILE, and
# its name below a folder adapter/.
set -eu
printf '/* Generated from Python; do not edit. */\n#include "adapter/sources.h"\n'
i=0
for file; do
  printf '\nstatic const char text_%d[] = {\n' "$i"
  od -An -v -tu1 "$file" | sed 's/  */,/g; s/^,//; s/$/,/'
  printf '0};\n'
  i=$((i + 1))
done
printf '\nconst struct shard_adapter_source shard_adapter_sources[] = {\n'
i=0
for file; do
  printf '  {"%s", text_%d},\n' "${file##*/adapter/}" "$i"
  i=$((i + 1))
done
printf '  {0, 0},\n};\n'
