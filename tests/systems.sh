#!/bin/bash
# SPDX-License-Identifier: MIT
# systems.sh [SUITE...] - builds and tests libshard on other releases of Debian. `make test-systems` as root.
#
# Each release is installed by debootstrap into a folder of its own below $SYSTEMS (default: a new one in
# /var/tmp), where the tree is built and tested in chroot. From where comes what apt of this machine is
# configured for. Without SUITEs: bullseye, bookworm and trixie (Debian 11 to 13).
#   KEEP=1   leave the releases there, and take those that are there, for another run
#   CORES=N  how many jobs make runs at a time (default: one for each CPU)
# Mounts are made in a namespace of their own: they are gone when it ends. It prints a line for each step,
# and the log's end of a step that failed.
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 2
suites=${*:-bullseye bookworm trixie}

[ "$(id -u)" = 0 ] || { echo "systems: this makes chroots: run it as root" >&2; exit 2; }
for program in debootstrap unshare chroot apt-get git; do
	command -v $program >/dev/null || { echo "systems: there is no $program: install debootstrap, util-linux, git" >&2; exit 2; }
done
if [ -z "${IN_SYSTEMS:-}" ]; then
	IN_SYSTEMS=1 exec unshare -m bash "$0" "$@"
fi
mount --make-rprivate / || exit 2

products="gcc libc6-dev make binutils libjemalloc-dev libssl-dev libjson-c-dev libcurl4-openssl-dev"
checks="libcmocka-dev python3 procps e2fsprogs zstd strace file openmpi-bin openmpi-common libopenmpi-dev"
behaviour="build calls patterns shardview manifests trees badinput"

mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian //p' | head -1)
[ -n "$mirror" ] || { echo "systems: apt-get indextargets tells of no source of Debian's: run apt-get update" >&2; exit 2; }
eval "$(apt-config shell proxy Acquire::http::Proxy)"
[ -z "${proxy:-}" ] || export http_proxy=$proxy

made=
if [ -z "${SYSTEMS:-}" ]; then
	SYSTEMS=$(mktemp -d /var/tmp/shard-systems.XXXXXX) || exit 2
	made=1
fi
clean() {
	[ -z "${KEEP:-}" ] || { echo "systems: the releases are in $SYSTEMS"; return; }
	for suite in $suites; do
		umount -R "$SYSTEMS/$suite" 2>/dev/null
		# What is still mounted there is not removed.
		grep -q " $SYSTEMS/$suite[/ ]" /proc/self/mounts || rm -rf --one-file-system "${SYSTEMS:?}/$suite"
		rm -f "$SYSTEMS/$suite".*.log
	done
	[ -z "$made" ] || rmdir "$SYSTEMS"
}
trap clean EXIT
trap 'exit 130' INT TERM

passed=0 failed=0
# step SUITE NAME COMMAND...: 0 if it passes
step() {
	local suite=$1 name=$2 log=$SYSTEMS/$1.$2.log begin=$SECONDS; shift 2
	if "$@" >"$log" 2>&1 </dev/null; then
		echo "ok $suite/$name ($((SECONDS - begin)) s)$(sed -n 's/^\([0-9]* passed, [0-9]* failed\)$/: \1/p' "$log" | tail -1)"
		passed=$((passed + 1))
	else
		echo "FAIL $suite/$name ($((SECONDS - begin)) s)"
		{ grep -E '^FAIL|\[  FAILED|rror:' "$log" | head -20; tail -15 "$log"; } | sed 's/^/    /'
		failed=$((failed + 1))
		return 1
	fi
}
# inside SUITE COMMAND...: in its tree
inside() {
	local suite=$1; shift
	chroot "$SYSTEMS/$suite" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root LC_ALL=C PYTHON=/usr/bin/python3 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
		timeout 1500 sh -c 'cd /src && exec "$@"' sh "$@"
}
# Only the base by debootstrap: it does not know the order in which Open MPI can be configured; apt does.
install_release() {
	local root=$SYSTEMS/$1
	[ -e "$root/etc/shard-ready" ] && return
	rm -rf --one-file-system "${root:?}"
	debootstrap --variant=minbase "$1" "$root" "$mirror" || return
	# shellcheck disable=SC2086 # lists of words
	chroot "$root" /usr/bin/env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		apt-get install -y -q --no-install-recommends $products $checks && : >"$root/etc/shard-ready"
}
# The files that git knows, as they are now: no build tree, no venv.
copy_tree() {
	rm -rf "$SYSTEMS/$1/src" && mkdir "$SYSTEMS/$1/src" &&
		git ls-files -z | while IFS= read -r -d '' f; do [ ! -e "$f" ] || printf '%s\0' "$f"; done |
		tar -c --null -T - | tar -x --no-same-owner -C "$SYSTEMS/$1/src"
}
# A mount of its own, for unshare inside needs its root to be one.
mount_system() {
	mount --bind "$SYSTEMS/$1" "$SYSTEMS/$1" && mount -t proc proc "$SYSTEMS/$1/proc" && mount --rbind /dev "$SYSTEMS/$1/dev" &&
		mount -t tmpfs tmpfs "$SYSTEMS/$1/dev/shm"
}
# No library of shardctl's is seen by the compiler: a line for each; and `make lib` builds all the same.
missing_libraries() {
	local expected="jemalloc libcurl openssl json-c" name out
	local hide="$SYSTEMS/$1/usr/include/hidden"
	out=$(inside "$1" sh -c '
		hidden=$(mktemp -d) && mkdir $hidden/curl $hidden/openssl $hidden/json-c
		for h in curl/curl openssl/evp json-c/json; do echo "#error hidden" >$hidden/$h.h; done
		echo "hidden!" >$hidden/libjemalloc.so
		make CC="gcc -I$hidden -L$hidden" BUILD=/tmp/bare; echo "status $?"
		make CC="gcc -I$hidden -L$hidden" BUILD=/tmp/bare lib && ls -l /tmp/bare/libshard.so' 2>&1)
	echo "$out"
	for name in $expected; do
		echo "$out" | grep -q "^make: $name is missing; install lib" || { echo "FAIL: nothing is said of $name"; return 1; }
	done
	echo "$out" | grep -q "^status [1-9]" && echo "$out" | grep -q "/tmp/bare/libshard.so$" && ! echo "$out" | grep -q "fatal error"
}
unit_tests() {
	inside "$1" sh -c 'bad=0; for t in build/tests/test_*; do case $t in *.d) continue ;; esac
		echo "== $t"; timeout 300 $t || { echo "FAIL $t"; bad=1; }; done; exit $bad'
}
# Three ranks of the release's own Python: together all files, each once.
python_view() {
	inside "$1" python3 - <<'P'
import collections, glob, os, subprocess, sys, tempfile
print(sys.version)
ways = ("os.listdir(d)", "[e.name for e in os.scandir(d)]", "[os.path.basename(p) for p in glob.glob(d + '/*')]",
        "[p.name for p in __import__('pathlib').Path(d).iterdir()]", "[f for _, _, fs in os.walk(d) for f in fs]")
with tempfile.TemporaryDirectory() as top:
    data = os.path.join(top, "data")
    os.mkdir(data)
    names = {"f%d" % i for i in range(1000)}
    for name in names:
        open(os.path.join(data, name), "w").close()
    for way in ways:
        shares = []
        for rank in range(3):
            env = dict(os.environ, LD_PRELOAD="/src/build/libshard.so", SHARD_DATASET=data, SHARD_RANK=str(rank),
                       SHARD_SIZE="3", SHARD_CACHE_DIR=os.path.join(top, "cache"))
            code = "import os, glob, sys; d = sys.argv[1]; print(*%s)" % way
            shares.append(subprocess.check_output([sys.executable, "-c", code, data], env=env).decode().split())
        count = collections.Counter(name for share in shares for name in share)
        assert set(count) == names and set(count.values()) == {1}, (way, [len(s) for s in shares])
        assert max(map(len, shares)) - min(map(len, shares)) <= 1, way
        print(way, [len(share) for share in shares])
P
}
symbols() {
	local strict=
	[ "$1" != bullseye ] || strict=--built-on-oldest
	inside "$1" sh scripts/symbols.sh $strict build/libshard.so build/shardctl
}

for suite in $suites; do
	step "$suite" debootstrap install_release "$suite" && step "$suite" tree copy_tree "$suite" &&
		step "$suite" mounts mount_system "$suite" || continue
	echo "   $suite: $(inside "$suite" sh -c '. /etc/os-release; echo "$PRETTY_NAME, $(ldd --version | head -1), gcc $(gcc -dumpversion), $(python3 -V)"')"
	step "$suite" libraries missing_libraries "$suite"
	step "$suite" make inside "$suite" make -k -j"${CORES:-$(nproc)}" WERROR=1 tests-built || continue
	step "$suite" symbols symbols "$suite"
	step "$suite" unit unit_tests "$suite"
	step "$suite" python python_view "$suite"
	for name in $behaviour; do
		if [ "$suite/$name" = bullseye/shardview ]; then
			echo "skip $suite/$name: its ls has no --zero; the calls that it makes are in calls and python"
			continue
		fi
		step "$suite" "$name" inside "$suite" bash "tests/behaviour/$name.sh"
	done
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
