#!/bin/sh
# exports.sh names|map - print what the rows of shim/host/exports.def say. Input: that file after the
# preprocessor, with SHARD_EXPORTS_TEXT defined, as versions depend on the architecture.
#   names  each exported name and its kind: LISTING, STATS or API
#   map    the linker's version script: all versions, and the names whose default each is. Other
#          exports have no version: the linker finds them whatever version a program asks for.
#          SHARD_OLD() in the source gives old versions.
set -eu
rows=$(cat)
# versions EXPRESSION: print it for each VERSIONS or ALIAS_VERSIONS row; \2: name, \3: old version, \4: new version
versions() {
  printf '%s\n' "$rows" | sed -n 's/^\(ALIAS_\)\{0,1\}VERSIONS(\(.*\), "\(.*\)", "\(.*\)")$/'"$1/p"
}
case $1 in
names)
  printf '%s\n' "$rows" | sed -n 's/^CALL(\(.*\), \(.*\))$/\1 \2/p; s/^ALIAS(\(.*\), \(.*\))$/\1 \2/p; s/^API(\(.*\))$/\1 API/p'
  ;;
map)
  old=$(versions '\3' | sort -u)
  [ -n "$old" ] || echo '{ local: shard_old_*; };'
  for version in $old; do
    echo "$version { local: shard_old_*; };"
  done
  for version in $(versions '\4' | sort -u); do
    echo "$version { global: $(versions '\4 \2;' | sed -n "s/^$version //p" | tr '\n' ' ')};"
  done
  ;;
esac
