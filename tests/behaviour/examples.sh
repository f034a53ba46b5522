#!/bin/bash
# SPDX-License-Identifier: MIT
# What libshard-examples(7) says: shells, a check, ranks of job arrays, GNU parallel, containers (of namespaces), wrappers that set LD_PRELOAD.
# Its array of Slurm's is run by tests/hosts.
. "$(dirname "$0")/lib.bash"
in_namespace
unset "${!SHARD_@}"
PAGE=$ROOT/shim/man/libshard-examples.7
D=$WORK/data; mkdir -p "$D"/{a,b}; tee "$D"/f{0..9} "$D"/a/{0..9} "$D"/b/{0..9} >/dev/null <<<data
find "$D" -type f | sort >"$WORK/all"
export SHARD_CACHE_DIR=$WORK/cache

# ---- the table: a line of variables and what must come of them, and the line below it
rows=0
while IFS= read -r row && IFS= read -r words; do
  rows=$((rows + 1)) row=${row#*array: } row=${row//\\-/-}
  got=$(env -i bash -c "${row%: *}; ${words//\\-/-}; echo \$SHARD_RANK \$SHARD_SIZE \$SHARD_JOB" 2>&1 | tail -1)
  verdict "array: ${words:0:60}" "$([ "$got" = "${row##*: }" ] || echo "'$got', not '${row##*: }'")"
done < <(grep -A1 '^\.\\" array: ' "$PAGE" | grep -v '^--')
verdict "all rows" "$([ $rows -ge 6 ] || echo "$rows rows")"

# each NAME FILE...: together they have each file once, by the paths of $WORK/all, or $WORK/inside
each() { local name=$1; shift; cat "$@" | sort >"$WORK/together"; same "$name" "${ALL:-$WORK/all}" "$WORK/together"; }

# recipe NAME: the commands of the page
recipe() { sed -n "/^\.\\\\\" recipe: $1\$/,/^\.EE/p" "$PAGE" | grep -v '^\.' | sed 's/\\-/-/g; s/\\(dq/"/g'; }
# follow NAME: runs them; what they print is in $WORK/got, and $WORK/err
follow() {
  recipe "$1" >"$WORK/$1.sh"
  verdict "$1: the page has it" "$([ -s "$WORK/$1.sh" ] || echo no)"
  (cd "$WORK" && PATH=$BUILD:$PATH DATA="$D" SHARED="$WORK" LIBSHARD="$LIB" timeout 300 bash "$1.sh" >got 2>err </dev/null)
}

# ---- shells, a check, off
needs rsync
follow shells
verdict "shells: the copy is whole" "$(diff -r "$D" "$WORK/copy" || shown cat "$WORK/err")"
follow check
verdict "check: proven" "$([ "$(grep -c ': proven' "$WORK/got")" -ge 2 ] && ! grep -q 'NOT PROVEN' "$WORK/got" || shown cat "$WORK/got" "$WORK/err")"
(export LD_PRELOAD="$LIB" SHARD_DATASET="$D" SHARD_RANK=0 SHARD_SIZE=2; follow off)
verdict "off: twice all" "$(sort "$WORK/got" | uniq -c | awk '{ print $1 }' | sort -u | grep -vx 2; [ "$(sort -u "$WORK/got" | wc -l)" = 12 ] || shown cat "$WORK/got")"

# ---- GNU parallel, as the page says
needs parallel
cat >"$WORK/train.py" <<'P'
import os
for folder, _, files in os.walk(os.environ["SHARD_DATASET"]):
    for name in files:
        print(os.path.join(folder, name))
P
"$CTL" index "$D" --quiet -o "$WORK/train.listing" >/dev/null
follow parallel
each "GNU parallel: each file once" "$WORK/got"
verdict "GNU parallel: no line" "$(cat "$WORK/err")"

# ---- a wrapper that sets LD_PRELOAD anew
printf 'int shard_nothing;\n' >"$WORK/n.c"; ${CC:-gcc} -shared -fPIC -o "$WORK/tool.so" "$WORK/n.c"
wrapper() { LD_PRELOAD=$WORK/tool.so "$@"; }
for r in 0 1; do
  export SHARD_DATASET=$D SHARD_RANK=$r SHARD_SIZE=2 SHARD_LISTING=$WORK/train.listing
  wrapper find "$D" -type f >"$WORK/replaced.$r"
  wrapper "$CTL" run -- sh -c "find $D -type f; echo \$LD_PRELOAD >$WORK/preload" >"$WORK/run.$r"
done
each "a wrapper's LD_PRELOAD alone: all files" "$WORK/replaced.1"
each "shardctl run behind it: each file once" "$WORK"/run.[01]
verdict "... with the wrapper's library" "$(grep -qF "$LIB:$WORK/tool.so" "$WORK/preload" || cat "$WORK/preload")"
unset "${!SHARD_@}"; ALL=$WORK/inside

# ---- containers
mount -t tmpfs none /opt 2>/dev/null || { skip containers "mounts are not allowed"; finish; }
mkdir -p /opt/libshard /opt/data /opt/other /opt/node /opt/stats
cp "$LIB" "$CTL" /opt/libshard; cp "$CTL" /opt/other
mount --bind "$D" /opt/data
"$CTL" index /opt/data --quiet -o /opt/train.listing >/dev/null
sed "s#$D#/opt/data#" "$WORK/all" >"$WORK/inside"
# box COMMAND...: in a container, whose /tmp and /dev/shm are its own, and which has its own processes; what is left there is printed
box() {
  timeout 300 unshare -m -p -f -i -u --mount-proc bash -c 'mount -t tmpfs -o mode=1777 none /tmp && mount -t tmpfs -o mode=1777,size=64m none /dev/shm &&
    mount -o remount,ro,bind /opt/data && cd / && "$@"; status=$?; ls -A /dev/shm | sed "s/^/left: /"; exit $status' - env SHARD_DATASET=/opt/data "$@"
}
run=(/opt/libshard/shardctl run -- find /opt/data -type f)
for r in 0 1; do box SHARD_RANK=$r SHARD_SIZE=2 SHARD_LISTING=/opt/train.listing "${run[@]}"; done >"$WORK/got" 2>"$WORK/err"
each "containers with a listing: each file once" "$WORK/got"
verdict "... and no line" "$(cat "$WORK/err")"
chmod 700 /opt/node
for r in 0 1; do box SHARD_RANK=$r SHARD_SIZE=2 SHARD_JOB=boxes SHARD_CACHE_DIR=/opt/node "${run[@]}" & done >"$WORK/got" 2>"$WORK/err"; wait
each "containers with one cache: each file once" "$WORK/got"
verdict "... and one listing" "$([ "$(find /opt/node -name '*.listing' | wc -l)" = 1 ] || find /opt/node)"
box SHARD_RANK=0 SHARD_SIZE=2 SHARD_STATS=/opt/stats "${run[@]}" >"$WORK/got" 2>"$WORK/err"
box SHARD_RANK=1 SHARD_SIZE=2 SHARD_STATS=/opt/stats LD_PRELOAD=/opt/nowhere/libshard.so find /opt/data -type f >"$WORK/got" 2>"$WORK/err"
each "the library is not inside: all files" "$WORK/got"
verdict "... the loader says so" "$(grep -q 'cannot be preloaded.*ignored' "$WORK/err" || shown cat "$WORK/err")"
"$CTL" verify --partial-ok /opt/stats >"$WORK/said"
verdict "... and verify" "$([ $? = 1 ] && grep -q 'rank 1 of 2 is missing' "$WORK/said" || shown cat "$WORK/said")"
box SHARD_RANK=1 SHARD_SIZE=2 /opt/other/shardctl run -- find /opt/data -type f >"$WORK/got" 2>"$WORK/err"
verdict "... and shardctl run does not start it" "$([ $? = 1 ] && [ ! -s "$WORK/got" ] && grep -q "libshard.so.*/opt/other" "$WORK/err" || shown cat "$WORK/got" "$WORK/err")"
umount -l /opt/data /opt
finish
