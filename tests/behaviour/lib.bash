# SPDX-License-Identifier: MIT
# lib.bash - sourced by the behaviour tests: bash, no arguments.
#   BUILD   where libshard.so and shardctl are (default: build/)
#   PYTHON  the interpreter to use (default: python3)
# Each check prints 'ok NAME', 'FAIL NAME: why' or 'skip NAME: why': skipped is what this machine
# does not allow, never what is not installed. finish prints the sums and
# exits with 1 if anything failed, or nothing was checked. Everything is made below $WORK, which is
# removed at the end; so are HOME and TMPDIR, which are beside it. `timeout 300` guards what takes a
# moment: no check is about time.
set -u
[ -e /proc/self/fd/0 ] || exec </dev/null # it may be closed: a file opened later would be stdin
export LC_ALL=C
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=$(cd "${BUILD:-$ROOT/build}" && pwd) || exit 2

# Started by itself: begin anew, as tests/run.py would start it.
[ -n "${CONFINED:-}" ] || {
  script=$(realpath "$0") && case $- in *x*) trace=-x ;; *) trace= ;; esac
  cd "$ROOT" && exec python3 -m tests.harness.confine "$BASH" $trace "$script" "$@"
}

# Below TMPDIR, which other users reach and LD_PRELOAD can hold.
BASE=$(mktemp -d "$TMPDIR/shard-test.XXXXXX") || exit 2
trap 'cd /; jobs -p | xargs -r kill 2>/dev/null; no_own_tmp; rm -rf "$BASE"' EXIT
chmod 755 "$BASE"
WORK=$BASE/work
mkdir "$WORK" || exit 2
LIB=$BUILD/libshard.so
CTL=$BUILD/shardctl
[ -f "$LIB" ] && [ -x "$CTL" ] || { echo "no libshard.so or shardctl in $BUILD" >&2; exit 2; }

passed=0 failed=0

ok() { echo "ok $1"; passed=$((passed + 1)); }
fail() { echo "FAIL $1: $(tr '\n\0' '  ' <<<"$2" | head -c 600)"; failed=$((failed + 1)); }
skip() { echo "skip $1: $2"; }
# skip_all WHY: all of this test
skip_all() { echo "skip: $1"; exit 0; }
# verdict NAME WHY: WHY is empty if all is well
verdict() { if [ -z "$2" ]; then ok "$1"; else fail "$1" "$2"; fi; }
# shown COMMAND...: what it prints, for a WHY; and that it prints nothing, for an empty WHY is a success
shown() { "$@" 2>&1 | grep -a . || echo "nothing (${*@Q})"; }
# same NAME WANTED GOT: two files
same() { verdict "$1" "$(cmp "$2" "$3" 2>&1 | head -1; cmp -s "$2" "$3" || diff -a <(tr '\0' '\n' <"$2") <(tr '\0' '\n' <"$3") | head -5)"; }
# needs PROGRAM...: without it this test fails, for it would show less than it seems to
needs() {
  local program
  for program; do
    type -P "$program" >/dev/null || { fail "$program" "there is none; scripts/setup.sh all installs it"; finish; }
  done
}
# await WHAT COMMAND...: until the command succeeds; a failure that says for what, if that takes minutes
await() {
  local what=$1 end=$((SECONDS + 300)); shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { fail "waiting for $what" "it has not come in 300 s"; return 1; }
    sleep 0.02
  done
}
finish() { echo "$passed passed, $failed failed"; [ "$failed" = 0 ] && [ "$passed" -gt 0 ]; exit; }

# program NAME: path of tests/programs/NAME.c, compiled
program() {
  [ -x "$WORK/$1" ] || ${CC:-gcc} -O1 -D_GNU_SOURCE -I"$ROOT/include" -o "$WORK/$1" \
    "$ROOT/tests/programs/$1.c" -pthread -ldl ${2:+"$2" -Wl,-rpath,"$(dirname "$2")"} || exit 2
}

# in_namespace: start this test anew where mounts are its own; returns if it is, or cannot be
in_namespace() {
  [ -z "${IN_NAMESPACE:-}" ] && unshare -m true 2>/dev/null || return 0
  rm -rf "$BASE"
  IN_NAMESPACE=1 exec unshare -m "$BASH" "$0"
}
# own_tmp, after in_namespace: an empty /tmp, in which $BASE, the checkout and $BUILD stay; fails where mounts are not allowed.
# no_own_tmp ends it
own_tmp() {
  local path stage=/var/tmp/own.$$ kept=()
  for path in "$BASE" "$ROOT" "$BUILD"; do [[ $path != /tmp/* ]] || kept+=("$path"); done
  mkdir "$stage" && mount -t tmpfs none "$stage" 2>/dev/null || { rmdir "$stage"; return 1; }
  mount --make-private "$stage"
  for path in "${!kept[@]}"; do mkdir "$stage/$path"; mount --rbind "${kept[path]}" "$stage/$path"; done
  mount -t tmpfs -o mode=1777 none /tmp; mount --make-private /tmp; OWN_TMP=1
  for path in "${!kept[@]}"; do mkdir -p "${kept[path]}"; mount --move "$stage/$path" "${kept[path]}"; done
  umount "$stage"; rmdir "$stage"
}
no_own_tmp() { [ -z "${OWN_TMP:-}" ] || { umount -l /tmp; OWN_TMP=; }; }
