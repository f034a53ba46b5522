#!/bin/bash
# SPDX-License-Identifier: MIT
# Tables are refused, with all that lies below them, and the rest of the dataset is divided: as if the
# tables were not there.
. "$(dirname "$0")/lib.bash"
export SHARD_CACHE_DIR=$WORK/cache; cd "$WORK" || exit 2
D=$WORK/data; mkdir -p "$D"/{cls/{x,y},none,like}
touch "$D"/z.txt "$D"/cls/{x,y}/{1..7}.jpg
# What is like a marker, and is none.
touch "$D"/like/{cuts.jsonl,cuts,v1.metadata.json,_delta_log.json,x_versions,cuts.a,a.cuts.1.jsonl}
cp -r "$D" "$WORK/rest"
# table PATH FORMAT FILE...: a table of these files, besides data that sorts before and after them
while read -r table format files; do
  mkdir -p "$D/$table/part=1/deep"; touch "$D/$table"/{0,A,~}.data "$D/$table/part=1/deep/z.data"
  for file in $files; do mkdir -p "$(dirname "$D/$table/$file")"; touch "$D/$table/$file"; done
  echo "$table $format" >>"$WORK/tables"
done <<'END'
t/delta Delta _delta_log/00.json
t/lance.lance Lance _versions/1.manifest
t/tiledb TileDB __fragments/a/b.tdb
t/tiledb2 TileDB __commits/a.wrt
t/hudi Hudi .hoodie/hoodie.properties
t/iceberg Iceberg metadata/v1.metadata.json metadata/v2.metadata.json
t/shar Lhotse cuts.000000.jsonl.gz cuts.000001.jsonl.gz recording.000000.tar
END
# files RANK COMMAND...: of two ranks
rank() { local r=$1; shift; SHARD_DATASET=${DATASET:-$D} SHARD_RANK=$r SHARD_SIZE=2 LD_PRELOAD=$LIB timeout 300 "$@" </dev/null; }

for s in stride range hash; do
  export SHARD_STRATEGY=$s
  for r in 0 1; do
    rank $r find "$D" -type f -not -path "$D/t/*" 2>"$WORK/err" | sed "s|^$D/||" | sort >"got.$r"
    verdict "$s, rank $r: find says that it could not read all" "$(grep -q 'Invalid argument' "$WORK/err" || shown cat "$WORK/err")"
    verdict "$s, rank $r: one line" "$([ "$(grep -c '^libshard:' "$WORK/err")" = 1 ] || shown cat "$WORK/err")"
    DATASET=$WORK/rest rank $r find "$WORK/rest" -type f 2>"$WORK/err" | sed "s|^$WORK/rest/||" | sort >"want.$r"
    same "$s, rank $r: the rest of the dataset" "want.$r" "got.$r"
  done
  while read -r table format; do
    for below in "" /part=1 /part=1/deep; do
      rank 1 "$PYTHON" -c 'import os, sys; print(len(os.listdir(sys.argv[1])))' "$D/$table$below" >got 2>"$WORK/err"
      rc=$?
      # by hash, nothing tells of the table there
      if [ $s = hash ] && { [ "$below" ] || [ "$format" = Iceberg ]; }; then continue; fi
      verdict "$s: $table$below is refused" "$([ $rc = 1 ] && [ ! -s got ] && grep -q "Invalid argument" "$WORK/err" || shown cat got "$WORK/err")"
      verdict "$s: $table$below: why" "$(grep -q "/$table' is a table ($format.*SHARD_VIEW=off" "$WORK/err" || shown cat "$WORK/err")"
    done
    rank 1 ls "$D/t" >got 2>"$WORK/err"; verdict "$s: $table is seen" "$(grep -qx "${table#t/}" got || shown cat got)"
  done <"$WORK/tables"
  for marker in delta/_delta_log hudi/.hoodie iceberg/metadata; do
    rank 0 ls "$D/t/$marker" >got 2>"$WORK/err"
    verdict "$s: $marker itself" "$([ $? = 2 ] && [ ! -s got ] || shown cat got)"
  done
done
unset SHARD_STRATEGY

# SHARD_INCLUDE that leaves the marker out is the user's word; one that has it is not.
for s in stride hash; do
  for r in 0 1; do
    SHARD_STRATEGY=$s SHARD_INCLUDE='*.data' rank $r find "$D/t/delta" -name '*.data' 2>"$WORK/err" | sort
    grep -v "^libshard:.*empty" "$WORK/err"
  done | sort >got
  find "$D/t/delta" -name '*.data' | sort >want; same "$s: SHARD_INCLUDE without the marker" want got
  SHARD_STRATEGY=$s SHARD_INCLUDE='*.data:_delta*' rank 0 ls "$D/t/delta" >got 2>&1
  verdict "$s: SHARD_INCLUDE with the marker" "$(grep -q 'is a table' got || shown cat got)"
done
# The dataset itself is a table; a rank that is alone sees it; so does SHARD_VIEW=off.
for s in stride hash; do
  DATASET=$D/t/delta SHARD_STRATEGY=$s rank 0 ls "$D/t/delta" >got 2>&1
  verdict "$s: the root" "$(grep -q "SHARD_DATASET: '[^']*' is a table" got && [ "$(grep -c '[.]data' got)" = 0 ] || shown cat got)"
done
ls "$D/t/delta" >want
SHARD_DATASET=$D SHARD_RANK=0 SHARD_SIZE=1 LD_PRELOAD=$LIB ls "$D/t/delta" >got; same "a world of one" want got
SHARD_VIEW=off rank 0 ls "$D/t/delta" >got; same "SHARD_VIEW=off" want got

# A listing has no name of a table, whether its names came in order or not; a text of paths, too.
"$CTL" index "$WORK/rest" -o rest.listing >/dev/null; "$CTL" ls rest.listing >want
"$CTL" index "$D" -o l >got 2>"$WORK/err"; "$CTL" ls l >got
same "a listing of the directory" want got
verdict "index says it" "$(grep -q '7 directories are each a table' "$WORK/err" || shown cat "$WORK/err")"
"$CTL" index "$D" -o l --json 2>/dev/null >got; verdict "entries" "$(grep -q "\"entries\": $(wc -l <want)," got || shown cat got)"
"$CTL" stat l >got; verdict "stat" "$([ "$(grep -c '^table' got)" = 7 ] && grep -q '^table  *t/shar (Lhotse Shar)' got || shown cat got)"
"$CTL" stat --json l >got; verdict "stat --json" "$("$PYTHON" -c 'import json, sys
t = json.load(sys.stdin)["tables"]; print("" if len(t) == 7 and t[0] == {"path": "t/delta", "format": "Delta Lake"} else t)' <got)"
(cd "$D" && find . -type f -printf '%P\n') | sort >names; shuf --random-source="$CTL" names >mixed
for text in names mixed; do
  "$CTL" index $text --root "$D" -o l 2>"$WORK/err" >/dev/null; "$CTL" ls l >got; same "a listing of a text, $text" want got
  "$CTL" index - --root "$D" -o l <$text 2>"$WORK/err" >/dev/null; "$CTL" ls l >got; same "a listing of a pipe, $text" want got
done
"$CTL" index names -o l --no-attributes >/dev/null; "$CTL" ls l >got; same "one that nobody divides" names got
# So do manifest and ls, where ranks share it.
"$CTL" manifest "$D" --size 2 -o 'm-%r.txt' 2>"$WORK/err"; sort m-0.txt m-1.txt >got; sort want >all; same "manifests" all got
verdict "manifest says it" "$(grep -q '7 directories are each a table' "$WORK/err" || shown cat "$WORK/err")"
for r in 0 1; do "$CTL" ls "$D" --rank $r --size 2 2>"$WORK/err"; done | sort >got; same "ls --rank" all got
verdict "ls says it" "$(grep -q '7 directories are each a table' "$WORK/err" || shown cat "$WORK/err")"
"$CTL" ls "$D" 2>&1 | sort >got; sort names >all; same "ls of all" all got
# What a manifest names is the user's word.
grep delta names >m.txt
for r in 0 1; do SHARD_LISTING=m.txt rank $r find "$D" -type f -path '*delta*'; done 2>"$WORK/err" | sort | sed "s|^$D/||" >got; sort m.txt >want; same "a manifest" want got
finish
