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
# Nothing that the caller has set, ignores or has open comes to a test; SIGHUP is left to nohup(1). USER_HOME: the user's
# HOME, where Pythons may be.
[ -e /proc/self/fd/0 ] || exec </dev/null # it may be closed: a file opened later would be stdin
if [ -z "${SETTLED:-}" ]; then
  for fd in /proc/self/fd/*; do
    [ "${fd##*/}" -lt 3 ] || [ "$fd" -ef "$0" ] || [ "$fd" -ef "${BASH_SOURCE[0]}" ] || eval "exec ${fd##*/}>&-"
  done
  settled=(SETTLED=1 "USER_HOME=${HOME:-}" "PATH=$PATH" PYTHON="$("${PYTHON:-python3}" -I -c 'import sys; print(sys.executable)')")
  for name in BUILD CC STRIP ROUNDS FUZZ FUZZ_SEED KEEP {A,L,T,UB}SAN_OPTIONS; do
    [ -z "${!name:-}" ] || settled+=("$name=${!name}")
  done
  signals=--default-signal=PIPE,INT,QUIT,TERM,CHLD,ALRM,USR1,USR2
  env $signals true 2>/dev/null || signals=
  case $- in *x*) trace=-x ;; *) trace= ;; esac
  # shellcheck disable=SC2086  # one word or none
  exec env -i $signals "${settled[@]}" "$BASH" $trace "$0" "$@"
fi
export LC_ALL=C
umask 022 # other users of the tests read what is made here
ulimit -c 0
ulimit -Sn 1024 2>/dev/null # some programs close all descriptors that there may be
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=$(cd "${BUILD:-$ROOT/build}" && pwd) || exit 2

# Not TMPDIR: other users must reach it, and LD_PRELOAD can hold no path with a blank.
BASE=$(mktemp -d /tmp/shard-test.XXXXXX) || exit 2
trap 'cd /; jobs -p | xargs -r kill 2>/dev/null; rm -rf "$BASE"' EXIT
chmod 755 "$BASE"
WORK=$BASE/work
export HOME=$BASE/home TMPDIR=$BASE/t
mkdir "$WORK" "$HOME" && mkdir -m 1777 "$TMPDIR" || exit 2
case $BUILD in *[[:space:]:]*) # LD_PRELOAD cannot hold its path
  mkdir "$BASE/build" && cp -r "$BUILD"/{libshard.so,libshard.so.1,shardctl,tests,gen} "$BASE/build"; BUILD=$BASE/build ;;
esac
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
    type -P "$program" >/dev/null || { fail "$program" "there is none; scripts/setup.sh test installs it"; finish; }
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
