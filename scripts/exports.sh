#!/bin/sh
# exports.sh names|map - print what the rows of shim/host/exports.def say. Input: that file, through
# the preprocessor with SHARD_EXPORTS_TEXT, for versions depend on the architecture.
#   names  each exported name and its kind: LISTING, STATS or API
#   map    the linker's version script: which versions there are, and of which names they are the
#          default. What else is exported has no version, and is found whatever version a program
#          asks for. Old versions are said by SHARD_OLD() in the source.
set -eu
rows=$(cat)
# versions EXPRESSION: of each VERSIONS row; \1 is the name, \2 the old version, \3 the new one
versions() {
  printf '%s\n' "$rows" | sed -n 's/^VERSIONS(\(.*\), "\(.*\)", "\(.*\)")$/'"$1/p"
}
case $1 in
names)
  printf '%s\n' "$rows" | sed -n 's/^CALL(\(.*\), \(.*\))$/\1 \2/p; s/^API(\(.*\))$/\1 API/p'
  ;;
map)
  old=$(versions '\2' | sort -u)
  [ -n "$old" ] || echo '{ local: shard_old_*; };'
  for version in $old; do
    echo "$version { local: shard_old_*; };"
  done
  for version in $(versions '\3' | sort -u); do
    echo "$version { global: $(versions '\3 \1;' | sed -n "s/^$version //p" | tr '\n' ' ')};"
  done
  ;;
esac
