#!/bin/bash
# SPDX-License-Identifier: MIT
# Debian packages of what is built: libshard1, libshard-dev, shardctl.
#
#   scripts/package/deb.sh [FOLDER]     into FOLDER, or build/packages
#
# The version is the changelog's, or DEB_VERSION's; DEBFULLNAME and DEBEMAIL name the maintainer, as for
# Debian's own tools. What was built alike is packed alike, byte for byte: times are the changelog's.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/../.."

out=${1:-build/packages}
changes=scripts/package/changelog
version=${DEB_VERSION:-$(sed -n '1s/.*(\(.*\)).*/\1/p' $changes)}
signed=$(sed -n '/^ -- /{s///p;q}' $changes)
maintainer=${DEBFULLNAME:+$DEBFULLNAME <$DEBEMAIL>}
maintainer=${maintainer:-${signed%%  *}}
SOURCE_DATE_EPOCH=$(date -d "${signed#*  }" +%s)
export SOURCE_DATE_EPOCH
architecture=$(dpkg --print-architecture)
triplet=$(gcc -print-multiarch)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make -s install DESTDIR="$work/all" PREFIX=/usr LIBDIR="/usr/lib/$triplet"
mkdir -p "$out" "$work/debian"
out=$(cd "$out" && pwd)
: >"$work/debian/control" # dpkg-shlibdeps wants one

# take PACKAGE PATH...: move what was installed into a package
take() {
	local package=$1 path
	shift
	for path; do
		mkdir -p "$work/$package/$(dirname "$path")"
		mv "$work/all/$path" "$work/$package/$path"
	done
}
take libshard1 "usr/lib/$triplet/libshard.so" "usr/lib/$triplet/libshard.so.1" usr/share/man/man7
take libshard-dev usr/include/libshard.h "usr/lib/$triplet/pkgconfig/libshard.pc"
take shardctl usr/bin/shardctl usr/share/man/man1
left=$(find "$work/all" -type f)
[ -z "$left" ] || { echo "deb: no package takes $left" >&2; exit 1; }

# depends FILE: Debian's packages of the libraries that it needs
depends() {
	(cd "$work" && dpkg-shlibdeps -O "$1" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}
strip --strip-unneeded --remove-section=.comment "$work/libshard1/usr/lib/$triplet/libshard.so"
strip --remove-section=.comment "$work/shardctl/usr/bin/shardctl"
chmod 644 "$work/libshard1/usr/lib/$triplet/libshard.so"
libc=$(depends "libshard1/usr/lib/$triplet/libshard.so")
libraries=$(depends shardctl/usr/bin/shardctl)

# package NAME SECTION RELATIONS SUMMARY: write its control files, and pack it; its description is read
package() {
	local name=$1 section=$2 relations=$3 summary=$4 root=$work/$1
	local doc=$root/usr/share/doc/$name
	mkdir -p "$root/DEBIAN" "$doc"
	sed "1s/(.*)/($version)/" $changes | gzip -9n >"$doc/changelog.Debian.gz"
	{
		echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
		printf '\nFiles: *\nCopyright: %s\nLicense: Expat\n' "$(sed -n 's/^Copyright (c) //p' LICENSE)"
		sed '1,/^Copyright/d; s/^$/./; s/^/ /' LICENSE | sed 1d
	} >"$doc/copyright"
	find "$root/usr/share/man" -type f -exec gzip -9n {} + 2>/dev/null || true
	find "$root" -type d -exec chmod 755 {} +
	find "$root/usr/share" "$root/usr/include" -type f -exec chmod 644 {} + 2>/dev/null || true
	(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
	cat >"$root/DEBIAN/control" <<-EOF
		Package: $name
		Source: libshard
		Version: $version
		Architecture: $architecture
		Maintainer: $maintainer
		Installed-Size: $(du -ks "$root/usr" | cut -f1)
		Section: $section
		Priority: optional
		Multi-Arch: $([ "$name" = shardctl ] && echo foreign || echo same)
		${relations}
		Description: $summary
		$(sed 's/^/ /')
	EOF
	find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	dpkg-deb --root-owner-group -Zxz --build "$root" "$out/${name}_${version}_$architecture.deb" >/dev/null
	echo "$out/${name}_${version}_$architecture.deb"
}

mkdir -p "$work/libshard1/DEBIAN" "$work/libshard1/usr/share/lintian/overrides"
echo "activate-noawait ldconfig" >"$work/libshard1/DEBIAN/triggers"
echo "libshard 1 libshard1 (>= ${version%-*})" >"$work/libshard1/DEBIAN/shlibs"
cat >"$work/libshard1/usr/share/lintian/overrides/libshard1" <<-'EOF'
	# LD_PRELOAD=libshard.so is what people type: the name belongs to the library, not to what is linked with it.
	libshard1: link-to-shared-library-in-wrong-package *
	libshard1: lacks-unversioned-link-to-shared-library *
	libshard1: shared-library-lacks-version *
	libshard1: no-symbols-control-file *
EOF

mkdir -p "$work/shardctl/usr/share/lintian/overrides"
cat >"$work/shardctl/usr/share/lintian/overrides/shardctl" <<-'EOF'
	# A program's LD_LIBRARY_PATH may lead shardctl, which libshard.so starts, to libraries that it cannot use.
	shardctl: custom-library-search-path *
EOF

package libshard1 libs "Depends: $libc, shardctl (= $version)" "each rank's shard of a dataset, for unmodified programs" <<-'EOF'
	A library for LD_PRELOAD. It serves the listing calls of a benchmark, and gives
	each rank of an MPI or torchrun job its shard of a dataset, or DLIO its list
	without keeping it in memory. See libshard(7).
EOF
package libshard-dev libdevel "Depends: libshard1 (= $version)" "each rank's shard of a dataset (header)" <<-'EOF'
	The header of libshard's own functions, for programs that open a dataset by
	themselves.
EOF
package shardctl utils "Depends: $libraries
Recommends: libshard1 (= $version)" "listings of datasets, shared out among ranks" <<-'EOF'
	Makes and shows the listings that libshard.so serves, proves by the ranks'
	statistics what they opened, and cleans up.
EOF
