#!/bin/bash
# Makes what the build and the tests need: Debian packages, and .venv/ with the real DLIO, torch,
# torchdata and webdataset.
#
#   scripts/setup.sh                        uses python3
#   PYTHON=/path/to/python scripts/setup.sh uses another interpreter (3.10 or 3.11)
#
# A second run finds everything in place, in under two seconds and without a network.
# A run that was interrupted is finished by the next one.
set -eu

cd "$(dirname "$0")/.."

packages="gcc make libc6-dev libjemalloc-dev libcmocka-dev libssl-dev libjson-c-dev libcurl4-openssl-dev
	libexpat1-dev openmpi-bin libopenmpi-dev strace e2fsprogs git clang-format clang-tidy"
# What tests/behaviour/clients.sh, shardctl.sh and overhead.sh run under the shim (about 450 MB, of
# which Java and node.js take 380). fzf is a small Go program; of Java the JRE is enough.
packages="$packages rsync bfs fd-find nodejs default-jre-headless fzf valgrind zstd man-db"
# An S3 server (scripts/s3-server.sh, 320 MB), and certificates for it.
packages="$packages radosgw ceph-mon ceph-osd ceph-common python3-rados curl openssl procps"
# Installed without what they ask for: the pinned requirements have it.
alone="dlio-benchmark==2.0.0 torchdata==0.7.1"
requirements=scripts/requirements.txt
venv=.venv
stamp=$venv/.setup-stamp
python=${PYTHON:-python3}

say() {
	echo "setup: $*" >&2
}

install_packages() {
	local missing="" package
	for package in $packages; do
		dpkg -s "$package" 2>/dev/null | grep -q '^Status: .* installed$' || missing="$missing $package"
	done
	[ -n "$missing" ] || return 0

	say "installing$missing"
	local as_root=""
	if [ "$(id -u)" -ne 0 ]; then
		if ! command -v sudo >/dev/null; then
			say "these need root: apt-get install$missing"
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
		packages="python3-venv"
		install_packages
	fi
}

# Changes when anything the venv is made of does.
fingerprint() {
	{
		cat "$requirements"
		echo "$alone"
		echo "$version"
		command -v "$python"
	} | sha256sum
}

make_venv() {
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

install_packages
check_python
if [ "$(cat $stamp 2>/dev/null)" != "$(fingerprint)" ]; then
	make_venv
fi
