#!/usr/bin/env bash
# sanitized.sh BUILD address|thread - the shard view under a sanitizer: a program and the library,
# both instrumented, with many threads listing, forking and closing.
set -eu
build=$(cd "$1" && pwd)
kind=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d /tmp/shard-sanitized.XXXXXX)
trap 'rm -rf "$work"' EXIT
for program in dirs trees; do
  gcc -O1 -g -fsanitize="$kind" -D_GNU_SOURCE -I"$here/../include" -o "$work/$program" \
    "$here/programs/$program.c" -pthread
done
mkdir -p "$work/data/sub/deep" "$work/data/empty"
touch "$work"/data/sub/{,deep/}{1..9}
ln -s sub "$work/data/link"
for i in $(seq 200); do : >"$work/data/file$i"; done
preload=$build/libshard.so
[ "$kind" = thread ] || preload="$(gcc -print-file-name=libasan.so) $preload"
passed=0 failed=0
for mode in "dirs readdir" "dirs readdir_r" "dirs fdopendir" "dirs rewind" "dirs seek" "dirs fork" \
  "dirs threads" "dirs shared" "trees threads - 0 0" "trees handles - 0 0" "trees nftw phys,nested 2 0" \
  "trees nftw chdir 1 0" "trees fts phys 0 1" "trees fts logical 7 2" "trees fts phys,nochdir,compar 0 3"; do
  for rank in 0 1 2; do
    # shellcheck disable=SC2086  # words
    if SHARD_CACHE_DIR=$work/cache SHARD_DATASET=$work/data SHARD_RANK=$rank SHARD_SIZE=3 \
      LD_PRELOAD=$preload timeout 120 "$work"/$mode "$work/data" >"$work/out" 2>"$work/err" &&
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
