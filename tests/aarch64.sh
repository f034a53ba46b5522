#!/bin/bash
# SPDX-License-Identifier: MIT
# aarch64.sh - builds libshard for aarch64 by a cross compiler, and runs the unit tests by qemu.
# `make test-aarch64` as root.
#
# The libraries and their headers are Debian's packages for arm64, from the sources that apt of this
# machine is configured for. They are unpacked into a folder of its own below $AARCH64 (default: a new
# one in /var/tmp, which is removed), and nothing is installed on this machine. The tests run in a chroot
# there, such that /proc and / are what they expect. Two tests that start themselves again cannot pass: this
# would need binfmt_misc, which is of the whole machine. They are named, and all others must pass.
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 2

[ "$(id -u)" = 0 ] || { echo "aarch64: this makes a chroot: run it as root" >&2; exit 2; }
for program in aarch64-linux-gnu-gcc qemu-aarch64-static unshare chroot apt-get dpkg-deb; do
	command -v $program >/dev/null ||
		{ echo "aarch64: there is no $program: install gcc-aarch64-linux-gnu, qemu-user-static, util-linux" >&2; exit 2; }
done
if [ -z "${IN_AARCH64:-}" ]; then
	IN_AARCH64=1 exec unshare -m bash "$0" "$@"
fi
mount --make-rprivate / || exit 2

made=
if [ -z "${AARCH64:-}" ]; then
	AARCH64=$(mktemp -d /var/tmp/shard-aarch64.XXXXXX) || exit 2
	made=1
fi
mkdir -p "$AARCH64" && AARCH64=$(cd "$AARCH64" && pwd) || exit 2
root=$AARCH64/root
clean() {
	umount -R "$root/proc" "$root/dev" "$root/tmp" "$root/src" 2>/dev/null
	# What is still mounted there is not removed.
	[ -z "$made" ] || grep -q " $root/" /proc/self/mounts || rm -rf --one-file-system "${AARCH64:?}"
}
trap clean EXIT
trap 'exit 130' INT TERM

libraries="libc6-dev libjemalloc-dev libssl-dev libjson-c-dev libcurl4-openssl-dev libcmocka-dev findutils"
# unpack: arm64 packages into $root, with lists, cache and a state of apt's that are not this machine's
unpack() {
	local state=$AARCH64/apt package
	[ ! -e "$root/ready" ] || return 0
	mkdir -p "$state/lists/partial" "$state/archives/partial" "$root" && : >"$state/status" || return 1
	set -- -qq -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$state" \
		-o Dir::State::Lists="$state/lists" -o Dir::State::status="$state/status" -o Dir::Cache="$state" \
		-o Dir::Cache::archives="$state/archives" -o Debug::NoLocking=true
	apt-get "$@" update # a source without arm64 is of no interest: the next line tells whether Debian's is there
	# shellcheck disable=SC2086 # a list of words
	apt-get "$@" --download-only --no-install-recommends install $libraries || return 1
	for package in "$state"/archives/*.deb; do
		dpkg-deb -x "$package" "$root" || return 1
	done
	mkdir -p "$root"/{proc,dev,tmp,src,var/tmp} && cp /etc/passwd "$root/etc/passwd" && cp "$(command -v qemu-aarch64-static)" "$root/qemu" && : >"$root/ready"
}
mounts() {
	mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount -t tmpfs tmpfs "$root/dev/shm" &&
		mount -t tmpfs tmpfs "$root/tmp" && mount --bind "$PWD" "$root/src"
}
build() {
	# A processor that is emulated is slow: a part of the tests' random cases will do.
	make -j"${CORES:-$(nproc)}" WERROR=1 BUILD=build-aarch64 CFLAGS="-O2 -g -DUNIT_PART=61" \
		CC="aarch64-linux-gnu-gcc --sysroot=$root" tests-built
}
passed=0 failed=0
# step NAME COMMAND...: 0 if it passes; else its log's end
step() {
	local name=$1 log=$AARCH64/log begin=$SECONDS; shift
	if "$@" >"$log" 2>&1 </dev/null; then
		echo "ok $name ($((SECONDS - begin)) s)"
		passed=$((passed + 1))
	else
		echo "FAIL $name ($((SECONDS - begin)) s)"
		grep -aE '\[  ERROR|\[   LINE|\[  FAILED|rror:' "$log" | head -20; tail -5 "$log"
		failed=$((failed + 1))
		return 1
	fi
}

# unit TEST: all of it passes, but for what starts programs
unit() {
	local out wrong
	out=$(timeout 600 chroot "$root" /qemu -E TMPDIR=/tmp "/src/$1" 2>&1) && { echo "$out"; return 0; }
	echo "$out"
	wrong=$(echo "$out" | sed -n 's/^\[  FAILED  \] \([a-z_0-9]*\)$/\1/p' | sort -u | tr '\n' ' ')
	[ "${1##*/}" = test_launcher ] && [ "$wrong" = "jobs_told_apart jobs_unknown " ] &&
		echo "$out" | grep -q '^\[==========\] [0-9]* test(s) run'
}

# Three ranks of find, and of a program that calls syscall(): together all files, each once.
view() {
	local rank lib=/src/build-aarch64 all=$root/tmp/all counts=
	mkdir "$root/tmp/data" && (cd "$root/tmp/data" && seq -f 'f%03g' 100 | xargs touch) || return 1
	chroot "$root" /qemu $lib/shardctl index /tmp/data -o /tmp/listing || return 1
	for rank in 0 1 2; do
		set -- -E LD_PRELOAD=$lib/libshard.so -E SHARD_DATASET=/tmp/data -E SHARD_LISTING=/tmp/listing \
			-E SHARD_RANK=$rank -E SHARD_SIZE=3
		chroot "$root" /qemu "$@" /usr/bin/find /tmp/data -type f -printf '%P\n' >>"$all" || return 1
		counts="$counts$(chroot "$root" /qemu "$@" $lib/tests/getdents /tmp/data) "
	done
	echo "$counts"
	# "." and ".." are counted by each
	seq -f 'f%03g' 100 | diff - <(sort "$all") && [ $((${counts// /+}0)) = 106 ]
}

if step packages unpack && step mounts mounts && step build build; then
	for test in build-aarch64/tests/test_*; do
		case $test in *.d) continue ;; esac
		step "${test##*/test_}" unit "$test"
	done
	step view view
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
