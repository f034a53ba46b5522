#!/bin/bash
# Installs what this project needs: Debian packages, and .venv/ with the real DLIO.
#
#   scripts/setup.sh build    what the products, unit tests and lint need; no .venv
#   scripts/setup.sh demo     what `make demo` needs: compilers, Open MPI, and .venv/
#   scripts/setup.sh fuzz     what `make fuzz` needs: as build, and clang with its runtime; no .venv
#   scripts/setup.sh [test]   everything: programs that tests run under libshard, an S3 server, ...
#
#   PYTHON=/path/to/python scripts/setup.sh ...   uses another interpreter (3.10 or 3.11) for .venv/
#
# A second run finds everything in place, in under two seconds and without a network.
# After an interrupted run, the next one finishes the work.
set -eu
export LC_ALL=C

cd "$(dirname "$0")/.."

level=${1:-test}
products="gcc make libc6-dev libjemalloc-dev libssl-dev libjson-c-dev libcurl4-openssl-dev libexpat1-dev"
checks="python3 libcmocka-dev clang-format clang-tidy"
fuzzer="clang libclang-rt-dev zstd"
mpi="openmpi-bin libopenmpi-dev"
tests="strace e2fsprogs git bindfs"
# The programs that tests/behaviour/clients.sh, shardctl.sh and overhead.sh run under the shim: about
# 450 MB, 380 of them Java (only the JRE) and node.js. fzf is a small Go program.
tests="$tests rsync bfs fd-find nodejs default-jre-headless fzf valgrind zstd man-db"
# Locales for locales.sh, which makes those that it needs (16 MB).
tests="$tests locales"
# What coexist.sh runs libshard beside: libraries that others preload, what wraps or watches a program, and
# programs without glibc (25 MB; gdb takes 80 more).
tests="$tests libgoogle-perftools4 libtcmalloc-minimal4 libmimalloc2.0 eatmydata fakechroot faketime fakeroot gdb ltrace"
tests="$tests musl-tools busybox-static binutils libcurl3-gnutls"
# An S3 server (scripts/s3-server.sh, 320 MB), and certificates for it.
tests="$tests radosgw ceph-mon ceph-osd ceph-common python3-rados curl openssl procps"

# Launchers of several hosts for tests/hosts, and what makes hosts of namespaces (60 MB). The tests start
# munged, slurmctld and slurmd themselves, with a configuration of their own.
tests="$tests mpich slurmctld slurmd slurm-client munge iproute2 util-linux"

# What tests/packages tries packages, completion and the module file with.
tests="$tests lintian dpkg-dev zsh fish pkg-config lmod python3-venv"

# What looks at the page of shardctl verify --html (420 MB).
tests="$tests chromium"

# The packages of .venv/. Demo and tests need the same, as DLIO imports TensorFlow at every start.
requirements=scripts/requirements.txt
# Packages installed without their dependencies, which the requirements name.
alone="dlio-benchmark==2.0.0 torchdata==0.7.1"
venv=.venv
stamp=$venv/.setup-stamp
# The clients of tests/clients need other versions of the same packages, so they have their own venv.
client_requirements=scripts/requirements-clients.txt
client_venv=.venv-clients
client_stamp=$client_venv/.setup-stamp
# DALI has a venv of its own, which takes all other packages from .venv: `make demo` needs no DALI. These
# packages are installed alone: what else DALI depends on is .venv's, or 800 MB of libraries for GPUs.
dali_packages="nvidia-dali-cuda120==1.53.0 dm-tree==0.1.9 makefun==1.16.0 nvtx==0.2.17 attrs==26.1.0"
dali_venv=.venv-dali
dali_stamp=$dali_venv/.setup-stamp
# The clients of tests/buckets have a venv of their own, too, and what they do not have is .venv's. Below
# oldest/ is the oldest botocore that runs on Python 3.11.
bucket_requirements=scripts/requirements-buckets.txt
oldest_botocore="botocore==1.13.50 boto3==1.10.50 s3transfer==0.2.1 urllib3==1.25.11 jmespath==0.10.0 docutils==0.15.2"
bucket_venv=.venv-buckets
bucket_stamp=$bucket_venv/.setup-stamp
python=${PYTHON:-python3}

say() {
	echo "setup: $*" >&2
}

# A venv that is a link is another checkout's: to make it anew would empty that one.
own() {
	[ ! -L "$1" ] || {
		say "$1 is a link to $(readlink "$1"), which this would empty; remove the link, or run setup there"
		exit 1
	}
}

# install_packages NAME...: install those that are missing
install_packages() {
	local missing
	missing=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null | sed -n 's/ installed$//p' |
		sort -u | comm -13 - <(printf '%s\n' "$@" | sort -u) | tr '\n' ' ')
	[ -n "$missing" ] || return 0

	say "installing $missing"
	local as_root=""
	if [ "$(id -u)" -ne 0 ]; then
		if ! command -v sudo >/dev/null; then
			say "these need root: apt-get install $missing"
			exit 1
		fi
		as_root=sudo
	fi
	$as_root apt-get update -qq
	# shellcheck disable=SC2086 # a list of words
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# The interpreter's version, or nothing if it doesn't run.
version_of() {
	"$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null || true
}

check_python() {
	version=$(version_of "$python")
	case $version in
	3.10.* | 3.11.*) ;;
	"")
		say "'$python' doesn't run: set PYTHON to a Python 3.10 or 3.11"
		exit 1
		;;
	*)
		say "'$python' is Python $version, and DLIO with its TensorFlow and torch needs 3.10 or 3.11:"
		say "set PYTHON, as in PYTHON=/usr/bin/python3.11 $0"
		exit 1
		;;
	esac
	if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
		install_packages python3-venv
	fi
}

# A hash of all that .venv/ depends on.
fingerprint() {
	{
		cat "$requirements"
		echo "$alone"
		echo "$version"
		command -v "$python"
	} | sha256sum
}

make_venv() {
	own $venv
	if [ "$(version_of $venv/bin/python)" != "$version" ] || [ -e "$stamp" ]; then
		say "making $venv with Python $version"
		"$python" -m venv --clear $venv
	elif [ ! -x $venv/bin/pip ]; then
		"$python" -m venv $venv
	fi
	say "installing DLIO and what it needs into $venv (some minutes, 2.4 GB)"
	$venv/bin/pip install --quiet --upgrade pip
	$venv/bin/pip install --quiet -r "$requirements"
	# shellcheck disable=SC2086 # a list of words
	$venv/bin/pip install --quiet --no-deps $alone

	# DLIO's TFRecord generator calls this tool of DALI's; nothing reads its output.
	printf '#!/bin/sh\n: > "$2"\n' >$venv/bin/tfrecord2idx
	chmod +x $venv/bin/tfrecord2idx

	fingerprint >"$stamp"
	say "$venv is ready: $venv/bin/dlio_benchmark"
}

# The packages of the clients' venv, without comments. Python 3.11 gets the pinned versions; for 3.10
# pip chooses.
client_packages() {
	sed 's/#.*//' "$client_requirements" | case $version in
	3.10.*) sed 's/==.*//' ;;
	*) cat ;;
	esac
}

make_client_venv() {
	own $client_venv
	if [ "$(version_of $client_venv/bin/python)" != "$version" ] || [ -e $client_stamp ]; then
		"$python" -m venv --clear $client_venv
	elif [ ! -x $client_venv/bin/pip ]; then
		"$python" -m venv $client_venv
	fi
	say "installing the data libraries of tests/clients into $client_venv (some minutes, 1 GB)"
	$client_venv/bin/pip install --quiet --upgrade pip
	$client_venv/bin/pip install --quiet -r <(client_packages)
	client_packages | sha256sum >$client_stamp
}

# A hash of all that .venv-dali/ depends on.
dali_fingerprint() {
	echo "$dali_packages $version $PWD" | sha256sum
}

# make_borrowing_venv VENV ARGUMENT...: a new venv with what these arguments of pip's name, without what
# that depends on; all other packages are .venv's.
make_borrowing_venv() {
	local made=$1 packages=lib/python${version%.*}/site-packages
	shift
	own "$made"
	"$python" -m venv --clear "$made"
	"$made/bin/pip" install --quiet --upgrade pip
	"$made/bin/pip" install --quiet --no-deps "$@"
	echo "import site; site.addsitedir('$PWD/$venv/$packages')" >"$made/$packages/benchmark.pth"
}

make_dali_venv() {
	say "installing DALI into $dali_venv (400 MB)"
	# shellcheck disable=SC2086 # a list of words
	make_borrowing_venv $dali_venv $dali_packages

	# DALI's own imports TensorFlow for each file: 2.5 s.
	cat >$dali_venv/bin/tfrecord2idx <<-'EOF'
		#!/usr/bin/env python3
		"""tfrecord2idx FILE INDEX: where each record of a TFRecord file begins, and its size."""
		import os, struct, sys
		with open(sys.argv[1], "rb") as records, open(sys.argv[2], "w") as index:
		    at, end = 0, os.path.getsize(sys.argv[1])
		    while at < end:
		        records.seek(at)
		        size = struct.unpack("<Q", records.read(8))[0] + 16
		        index.write("%d %d\n" % (at, size))
		        at += size
	EOF
	chmod +x $dali_venv/bin/tfrecord2idx
	dali_fingerprint >$dali_stamp
}

# A hash of all that .venv-buckets/ depends on.
bucket_fingerprint() {
	{
		cat $bucket_requirements
		echo "$oldest_botocore $version $PWD"
	} | sha256sum
}

make_bucket_venv() {
	say "installing the clients of tests/buckets into $bucket_venv (200 MB)"
	make_borrowing_venv $bucket_venv -r $bucket_requirements
	# shellcheck disable=SC2086 # a list of words
	$bucket_venv/bin/pip install --quiet --no-deps --target $bucket_venv/oldest $oldest_botocore
	bucket_fingerprint >$bucket_stamp
}

# shellcheck disable=SC2086 # lists of words
case $level in
build) install_packages $products $checks ;;
demo) install_packages $products $mpi ;;
fuzz) install_packages $products $checks $fuzzer ;;
test) install_packages $products $checks $mpi $tests ;;
*)
	echo "usage: $0 build|demo|fuzz|test" >&2
	exit 2
	;;
esac
if [ "$level" = demo ] || [ "$level" = test ]; then
	check_python
	[ "$(cat $stamp 2>/dev/null)" = "$(fingerprint)" ] || make_venv
fi
if [ "$level" = test ] && [ -e $client_requirements ] &&
	[ "$(cat $client_stamp 2>/dev/null)" != "$(client_packages | sha256sum)" ]; then
	make_client_venv
fi
if [ "$level" = test ] && [ "$(cat $dali_stamp 2>/dev/null)" != "$(dali_fingerprint)" ]; then
	make_dali_venv
fi
if [ "$level" = test ] && [ "$(cat $bucket_stamp 2>/dev/null)" != "$(bucket_fingerprint)" ]; then
	make_bucket_venv
fi
