#!/usr/bin/env bash
# sanitized.sh BUILD address|thread - the shard view under a sanitizer: a program and the library,
# both instrumented, with many threads listing, forking and closing.
set -eu
build=$(cd "$1" && pwd)
kind=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d /tmp/shard-sanitized.XXXXXX)
trap 'rm -rf "$work"' EXIT
gcc -O1 -g -fsanitize="$kind" -D_GNU_SOURCE -I"$here/../include" -o "$work/dirs" \
  "$here/programs/dirs.c" -pthread
mkdir "$work/data"
for i in $(seq 200); do : >"$work/data/file$i"; done
preload=$build/libshard.so
[ "$kind" = thread ] || preload="$(gcc -print-file-name=libasan.so) $preload"
passed=0 failed=0
for mode in readdir readdir_r fdopendir rewind seek fork threads shared; do
  for rank in 0 1 2; do
    if SHARD_CACHE_DIR=$work/cache SHARD_DATASET=$work/data SHARD_RANK=$rank SHARD_SIZE=3 \
      LD_PRELOAD=$preload timeout 120 "$work/dirs" $mode "$work/data" >"$work/out" 2>"$work/err" &&
      [ ! -s "$work/err" ] && [ -s "$work/out" ]; then
      passed=$((passed + 1))
    else
      failed=$((failed + 1))
      echo "FAIL $kind $mode, rank $rank:"
      head -30 "$work/err"
    fi
  done
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
