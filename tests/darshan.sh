#!/bin/bash
# SPDX-License-Identifier: MIT
# darshan.sh SOURCE - builds Darshan's runtime from its source, without MPI, and runs ranks beside it, in both orders of
# LD_PRELOAD: each opens its files, and Darshan's log has what it has without libshard of the same files. In no other place
# than a temporary folder. Needs autoconf, automake, libtool and zlib1g-dev.
SOURCE=$(cd "${1:?usage: darshan.sh SOURCE}" && pwd) || exit 2
. "$(dirname "$0")/behaviour/lib.bash"
needs autoreconf automake libtoolize
P=$WORK/installed
cp -r "$SOURCE" "$WORK/source"
(cd "$WORK/source" && autoreconf -fi && ./configure --prefix="$P" --without-mpi --with-log-path="$WORK" --with-jobid-env=NONE && make install) \
  >"$WORK/build.log" 2>&1 || { tail -20 "$WORK/build.log" >&2; exit 2; }
D=$WORK/data; mkdir -p "$D"/{a,b}; for f in {0..9} a/{0..9} b/{0..9}; do echo $f >"$D/$f"; done
cat >"$WORK/read.py" <<'Y'
import os, sys
for path in sorted(os.path.join(d, f) for d, _, files in os.walk(sys.argv[1]) for f in files):
    with open(path) as stream:
        print(path, stream.read())
Y
# counted RANK PRELOADS: what it prints, and what Darshan notes of each file of the dataset; "-": without a dataset
counted() {
  local as=(SHARD_DATASET="$D" SHARD_RANK="$1" SHARD_SIZE=2 SHARD_CACHE_DIR="$WORK/cache")
  rm -f "$WORK/log"
  env "${as[@]:$([ "$1" = - ] && echo 4 || echo 0)}" DARSHAN_ENABLE_NONMPI=1 DARSHAN_LOGFILE="$WORK/log" LD_PRELOAD="$2" "$PYTHON" "$WORK/read.py" "$D"
  "$P/bin/darshan-parser" "$WORK/log" | awk -v d="$D/" '$4 ~ /^(POSIX|STDIO)_(OPENS|READS|BYTES_READ)$/ && index($6, d) == 1 { print $6, $4, $5 }' | sort
}
darshan=$P/lib/libdarshan.so
counted - "$darshan" >"$WORK/all" 2>"$WORK/err"
verdict "Darshan alone" "$(cat "$WORK/err"; grep -c 'POSIX_OPENS 1$' "$WORK/all" | grep -vx 30)"
for preloads in "$darshan:$LIB" "$LIB:$darshan"; do
  rm -rf "$WORK/cache"
  for r in 0 1; do
    "$CTL" ls "$D" --rank $r --size 2 | sed "s#^#$D/#" >"$WORK/mine"; grep -wFf "$WORK/mine" "$WORK/all" >"$WORK/want"
    [ "$(wc -l <"$WORK/want")" -ge 45 ] || fail "rank $r" "nothing to compare"
    counted $r "$preloads" >"$WORK/got" 2>&1; grep -v '^$' "$WORK/got" >"$WORK/kept"
    same "${preloads##*/} last, rank $r" "$WORK/want" "$WORK/kept"
  done
  counted - "$preloads" >"$WORK/got" 2>&1; same "${preloads##*/} last, no dataset" "$WORK/all" "$WORK/got"
done
finish
