#!/bin/bash
# SPDX-License-Identifier: MIT
# Other locales: German has decimal commas, Turkish other cases of i and I, Latin-1 letters above 127.
# Programs show what they show bare, whatever locale they have set; shares, words, numbers, JSON, dates
# and headers are those of C.
. "$(dirname "$0")/lib.bash"
needs localedef bfs
export SHARD_CACHE_DIR=$WORK/cache LOCPATH=$WORK/locpath no_proxy='*'
cd "$WORK" && mkdir "$LOCPATH" || exit 2
for l in de_DE.UTF-8 tr_TR.UTF-8 de_DE.ISO-8859-1; do
  localedef -i "${l%.*}" -f "${l#*.}" "$LOCPATH/$l" 2>err ||
    { fail "the locale $l" "$(cat err); scripts/setup.sh test installs the package locales"; finish; }
done
OTHERS="de_DE.UTF-8 tr_TR.UTF-8 de_DE.ISO-8859-1"
program locales; PROBE=$WORK/locales
verdict "the locales are what they are to be" "$(for l in C $OTHERS; do LC_ALL=$l "$PROBE" number . 2>&1; done |
  diff - <(printf '%s\n' '1.5 alike' '1,5 alike' '1,5 apart' '1,5 alike'))"

D=$WORK/data; mkdir -p "$D"/{sub/deep,Übung,İç}
touch "$D"/{a,b,Z,ä,Ä,ı,İ,é,ß,"1,5","1.5",日本}.txt "$D"/{i,I}.TIFF "$D"/img_{01..20}.tiff "$D/with blank" \
  "$D"/$'\xe4\xd6.txt' "$D"/$'\xff\xfe' "$D"/sub/{i,I,ı,İ}{1..4} "$D"/sub/deep/{ä,"0,5"} "$D"/Übung/{1..9}.TIFF "$D"/İç/{x,y}
"$CTL" index "$D" -o d.listing --quiet >/dev/null

# ---- programs
TOP='import locale, os, sys, glob
locale.setlocale(locale.LC_ALL, "")
out = lambda path: sys.stdout.buffer.write((b"d " if os.path.isdir(path) else b"f ") + os.path.relpath(path, top) + b"\n")
top = os.fsencode(sys.argv[1])
'
# listed HOW: what a program lists of $D: "d NAME" or "f NAME" a line
listed() {
  case $1 in
  find) find "$D" -mindepth 1 -printf '%y %P\n' ;;
  bfs) bfs "$D" -mindepth 1 -printf '%y %P\n' ;;
  ls) ls -1p "$D" | sed 's|^\(.*\)/$|d \1|; t; s|^|f |' ;;
  listdir) "$PYTHON" -c "$TOP"'for name in os.listdir(top): out(os.path.join(top, name))' "$D" ;;
  pyglob) "$PYTHON" -c "$TOP"'for path in glob.glob(os.path.join(top, b"**", b"*"), recursive=True): out(path)' "$D" ;;
  *) "$PROBE" "$1" "$D" ;;
  esac
}
# as RANK STRATEGY LOCALE HOW: the same as a rank of two
as() { SHARD_RANK=$1 SHARD_SIZE=2 SHARD_STRATEGY=$2 SHARD_DATASET=$D LC_ALL=$3 wrapped "$4"; }
wrapped() { (export LD_PRELOAD=$LIB; listed "$1"); }
for s in range hash; do
  for r in 0 1; do "$CTL" ls d.listing --rank $r --size 2 --strategy $s >share.$s.$r; done
done
for l in C $OTHERS; do
  for how in readdir scandir glob fts nftw find ls bfs listdir pyglob; do
    case $how in # those that have an order keep it
    scandir | glob | fts | ls) order=cat ;;
    *) order=sort ;;
    esac
    LC_ALL=$l listed $how 2>err >bare; [ -s bare ] || echo "nothing" >>err
    for s in range hash; do
      verdict "$how, $l, $s" "$(cat err; for r in 0 1; do
        as $r $s $l $how 2>&1 | $order >got
        awk 'NR == FNR { own[$0]; next } /^d / || (substr($0, 3) in own)' share.$s.$r bare | $order | diff -a - got | head -4
      done)"
    done
  done
  verdict "a pattern means the same, $l" "$(for r in 0 1; do
    SHARD_INCLUDE='?.txt:*.[tT][iI]FF:*[äı]*' as $r range C readdir >want 2>&1
    SHARD_INCLUDE='?.txt:*.[tT][iI]FF:*[äı]*' as $r range $l readdir 2>&1 | diff -a want - | head -4; [ -s want ] || echo nothing
  done)"
  verdict "suffixes in any case, $l" "$(LC_ALL=$l LD_PRELOAD=$LIB "$PROBE" run "$D" 2>&1 | grep -vx 22)"
done

# ---- words and numbers
for v in SHARD_VIEW=SHARD SHARD_STRATEGY=STRIDE SHARD_STRATEGY=stride SHARD_LOG=INFO SHARD_LOG=info SHARD_ADAPTER=OFF \
  SHARD_TIMEOUT=1,5 SHARD_TIMEOUT=1.5 SHARD_BUILD_MEMORY=1,5G SHARD_SEED=1,0 SHARD_LISTNIG=x; do
  run() { env "$v" SHARD_RANK=0 SHARD_SIZE=2 SHARD_DATASET="$D" LD_PRELOAD="$LIB" LC_ALL="$1" "$PROBE" readdir "$D" 2>&1
    echo "status $?"; env "$v" LC_ALL="$1" "$CTL" ls d.listing 2>&1; echo "status $?"; }
  run C >/dev/null; run C >want
  verdict "$v is the same everywhere" "$(for l in $OTHERS; do run $l | diff -a want - | head -3; done)"
done

# ---- shardctl
for r in 0 1; do
  SHARD_JOB=j SHARD_RANK=$r SHARD_SIZE=2 SHARD_DATASET=$D SHARD_STATS=$WORK/stats LD_PRELOAD=$LIB \
    LC_ALL=$([ $r = 0 ] && echo tr_TR.UTF-8 || echo de_DE.UTF-8) "$PROBE" open "$D" 2>err
done
sort share.range.* >names.txt; gzip -kf names.txt
# tell COMMAND...: what it prints and its status, without what differs from run to run
tell() {
  echo "-- $*"; "$CTL" "$@" 2>&1 </dev/null | sed -E 's/"(seconds|peak_rss|age)": [0-9]+(\.[0-9]+)?/"\1": N/g; s/[0-9]+\.[0-9]{3} s$/N s/
    s/ +[0-9]+ (s|min) / N /g; s/(memory +|disk +|room +).*/\1/'
  echo "status ${PIPESTATUS[0]}"
}
all_commands() {
  tell index "$D" -o new.listing; tell index "$D" -o new.listing --json; tell index names.txt.gz -o new.listing --order basename --json
  tell ls d.listing; tell ls d.listing --rank 1 --size 3 --seed 7; tell ls names.txt
  tell stat d.listing; tell stat d.listing --json
  tell verify stats --partial-ok; tell verify stats --partial-ok --json --listing d.listing; tell verify none
  tell manifest d.listing --size 2 --weights 2,1 -o m%r; tell manifest d.listing --size 2 --weights 2.5,1 -o m%r; cat m0 m1
  tell cache ls; tell cache ls --json; tell cache gc --dry-run --older-than 1; tell doctor --variables
  tell index "$D" -o new.listing --wait 1,5; tell index "$D" -o new.listing --share s3://b/k --wait 1,5; tell ls d.listing --rank 1,0 --size 2
}
LC_ALL=C all_commands >want
verdict "shardctl does in C what it is asked" "$(grep -c '^status 0' want | grep -qx 14 || grep -B2 '^status' want)"
for l in $OTHERS; do LC_ALL=$l all_commands >got; verdict "shardctl, $l" "$(diff -a want got | head -6)"; done
verdict "JSON has no decimal commas" "$(for l in $OTHERS; do
  for c in "verify stats" "index $D -o new.listing" "stat d.listing" "cache ls"; do
    # shellcheck disable=SC2086  # words
    LC_ALL=$l "$CTL" $c --json | "$PYTHON" -c 'import json, sys; json.load(sys.stdin)' 2>&1 | tail -1
  done
done)"
for l in C $OTHERS; do
  SHARD_JOB="run $l" LC_ALL=$l "$CTL" run --dataset "$D" --rank 1 --size 2 --strategy range -- "$PROBE" readdir "$D" 2>&1 | sort >got
  verdict "shardctl run, $l" "$(as 1 range C readdir | sort | diff -a - got | head -4)"
done

# ---- buckets: a small server, whose headers are in capitals
cat >server.py <<'END'
"""A bucket in memory. Prints its port, then a line for each request: method, path, the date it is signed for."""
import hashlib
import http.server
import sys

KEYS = ["p/img_%02d.tiff" % i for i in range(20)] + ["p/I.TIFF", "p/1,5.txt"]
objects = {"/b/l": open("d.listing", "rb").read()}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body=b"", etag=None):
        self.send_response_only(status)
        self.send_header("CONTENT-LENGTH", str(len(body)))
        if etag:
            self.send_header("ETAG", '"%s"' % etag)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        print(self.command, self.path.partition("?")[0], self.headers.get("x-amz-date", "none"), flush=True)
        path = self.path.partition("?")[0]
        if path.count("/") > 1 and path != "/b/":
            body = objects.get(path)
            return self.reply(404, b"<Error><Code>NoSuchKey</Code></Error>") if body is None else self.reply(
                200, body, hashlib.md5(body).hexdigest())
        self.reply(200, ("<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>" + "".join(
            "<Contents><Key>%s</Key></Contents>" % k for k in sorted(KEYS)) + "</ListBucketResult>").encode())

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
END
"$PYTHON" server.py >served 2>server.err & server=$!
await "the server's port" test -s served
export AWS_ENDPOINT_URL=http://127.0.0.1:$(head -1 served) AWS_ACCESS_KEY_ID=AKIDTEST AWS_SECRET_ACCESS_KEY=secret AWS_REGION=us-east-1
for l in C $OTHERS; do
  LC_ALL=$l SHARD_TIMEOUT=100 "$CTL" index s3://b/p/ -o b.listing --json >json 2>err
  verdict "index of a bucket, $l" "$(cat err; "$CTL" ls b.listing | wc -l | grep -vx 22; grep -q '"seconds": [0-9.]*,' json || cat json)"
  LC_ALL=$l SHARD_TIMEOUT=100 "$CTL" get s3://b/l -o back >out 2>err
  verdict "get, $l" "$(cat err; "$CTL" ls back | diff -a - <("$CTL" ls d.listing) | head -3)"
done
verdict "every date that was signed" "$(sed 1d served | grep -vE ' 20[0-9]{6}T[0-9]{6}Z$'; cat server.err)"
kill $server
finish
