#!/bin/sh
# embed.sh FOLDER FILE... - print a C source that defines shard_adapter_sources: the text of each
# FILE, and its name relative to FOLDER.
set -eu
folder=$1
shift
printf '/* Generated from the files of %s; do not edit. */\n#include "adapter/sources.h"\n' "$folder"
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
  printf '  {"%s", text_%d},\n' "${file#"$folder"/}" "$i"
  i=$((i + 1))
done
printf '  {0, 0},\n};\n'
