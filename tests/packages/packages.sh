#!/bin/bash
# SPDX-License-Identifier: MIT
# Packages: Debian's are installed, used, upgraded and purged over a copy of this machine's root; the wheel in a
# venv; the module file under Lmod. What is built once, and once more elsewhere, is the same.
. "$(dirname "$0")/../behaviour/lib.bash"
needs lintian dpkg-deb zsh fish pkg-config
cd "$ROOT" || exit 2
printf '[safe]\n\tdirectory = *\n' >"$HOME/.gitconfig" # the checkout may be another user's
P=$WORK/packages

# ---- Debian's
bash scripts/package/deb.sh "$P" >"$WORK/out" 2>&1; verdict "deb" "$([ "$(grep -c 'deb$' "$WORK/out")" = 3 ] || cat "$WORK/out")"
DEB_VERSION=0.1.1-1 bash scripts/package/deb.sh "$WORK/newer" >"$WORK/out" 2>&1; verdict "deb, the next version" "$([ $? = 0 ] || cat "$WORK/out")"
bash scripts/package/deb.sh "$WORK/again" >/dev/null 2>&1
verdict "deb: the same bytes again" "$(for f in "$P"/*.deb; do cmp "$f" "$WORK/again/${f##*/}"; done 2>&1)"
# Who publishes the packages sets DEBEMAIL, and knows the number of a bug of Debian's. Of its databases in TMPDIR, lintian
# leaves some, now these, now those.
mkdir "$WORK/lintian"
TMPDIR=$WORK/lintian lintian --allow-root --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs "$P"/*.deb >"$WORK/out" 2>&1; verdict "lintian" "$([ $? = 0 ] || cat "$WORK/out")"

# installed DIR: what a user does, in a root of its own; prints what is wrong
cat >"$WORK/installed.sh" <<'EOF'
set -u
P=$1 WORK=$2
has() { [ "$2" = "$3" ] || echo "$1: '$2', not '$3'"; }
dpkg -i "$P"/*.deb >"$WORK/log" 2>&1 || { cat "$WORK/log"; exit; }
mkdir -p /tmp/data; touch /tmp/data/{a,b,c,d}
export SHARD_DATASET=/tmp/data SHARD_CACHE_DIR=/tmp/cache SHARD_VIEW=shard SHARD_RANK=1 SHARD_SIZE=2
has "preloaded by its name" "$(LD_PRELOAD=libshard.so ls /tmp/data | tr '\n' ' ')" "b d "
has "shardctl run" "$(shardctl run -- ls /tmp/data | tr '\n' ' ')" "b d "
unset SHARD_VIEW SHARD_RANK SHARD_SIZE
# shellcheck disable=SC2046 # words
gcc -o /tmp/dataset "$WORK/dataset.c" $(pkg-config --cflags --libs libshard) || echo "pkg-config: a program does not link"
has "a program that links it" "$(/tmp/dataset /tmp/data "" | tr '\0' ' ')" "a b c d "
has "pkg-config: what to preload" "$(readlink -f "$(pkg-config --variable=preload libshard)")" "$(dpkg -L libshard1 | grep 'libshard\.so$')"
man -w shardctl libshard libshard-dlio >/dev/null || echo "no man pages"
has "doctor" "$(shardctl doctor | grep -c FAIL)" 0
before=$(ls /tmp/cache)
[ -n "$before" ] || echo "no listings were kept"
dpkg -i "$WORK"/newer/*.deb >"$WORK/log" 2>&1 || cat "$WORK/log"
has "upgraded" "$(dpkg-query -W -f '${Version} ' libshard1 libshard-dev shardctl)" "0.1.1-1 0.1.1-1 0.1.1-1 "
has "listings stay" "$(ls /tmp/cache)" "$before"
dpkg -L libshard1 libshard-dev shardctl | sort -u >"$WORK/files"
dpkg -P libshard1 libshard-dev shardctl >"$WORK/log" 2>&1 || cat "$WORK/log"
while read -r file; do [ -d "$file" ] && [ ! -L "$file" ] || ! [ -e "$file" ] || echo "purged, and there is $file"; done <"$WORK/files"
EOF
cp tests/programs/dataset.c "$WORK"
cat >"$WORK/rooted.sh" <<'EOF'
mount -t tmpfs none "$1" && mkdir "$1"/{upper,work,root} &&
  mount -t overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" none "$1/root" &&
  mount --rbind /proc "$1/root/proc" && mount --rbind /dev "$1/root/dev" && mount --rbind /tmp "$1/root/mnt" || exit 3
exec chroot "$1/root" bash "/mnt/${2#/tmp/}/installed.sh" "/mnt/${2#/tmp/}/packages" "/mnt/${2#/tmp/}"
EOF
mkdir "$WORK/mounted"
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
  unshare -m --propagation private bash "$WORK/rooted.sh" "$WORK/mounted" "$WORK" >"$WORK/out" 2>&1; status=$?
  verdict "installed, used, upgraded, purged" "$([ $status = 0 ] || echo "status $status"; cat "$WORK/out")"
else
  skip "installed, used, upgraded, purged" "it takes root, and mounts"
fi

# ---- the wheel
"$PYTHON" scripts/package/wheel.py "$P" >"$WORK/out" 2>&1; verdict "wheel" "$([ $? = 0 ] || cat "$WORK/out")"
"$PYTHON" scripts/package/wheel.py "$WORK/again" >/dev/null 2>&1
verdict "wheel: the same bytes again" "$(for f in "$P"/*.whl; do cmp "$f" "$WORK/again/${f##*/}"; done 2>&1)"
"$PYTHON" -m venv "$WORK/venv" && "$WORK/venv/bin/pip" install -q --no-index --disable-pip-version-check "$P"/*.whl >"$WORK/out" 2>&1
verdict "wheel: installed" "$([ -x "$WORK/venv/bin/libshard" ] || cat "$WORK/out")"
mkdir "$WORK/data"; touch "$WORK/data"/{a,b,c,d}
so=$(cd / && "$WORK/venv/bin/python" -m libshard)
verdict "wheel: the path to preload" "$([ -f "$so" ] || echo "$so")"
verdict "wheel: a share" "$(got=$(SHARD_DATASET=$WORK/data SHARD_CACHE_DIR=$WORK/cache SHARD_VIEW=shard SHARD_RANK=0 SHARD_SIZE=2 \
  "$WORK/venv/bin/libshard" run -- ls "$WORK/data" 2>&1 | tr '\n' ' '); [ "$got" = "a c " ] || echo "$got")"
verdict "wheel: shardctl" "$("$WORK/venv/bin/shardctl" --version 2>&1 | grep -q "^shardctl " || echo none)"

# ---- Lmod
lmod=$(ls /usr/share/lmod/lmod/init/bash 2>/dev/null)
verdict "Lmod is installed" "$([ -n "$lmod" ] || echo "there is none; scripts/setup.sh all installs it")"
mkdir -p "$WORK/modules/libshard"; cp scripts/package/libshard.lua "$WORK/modules/libshard/0.1.0.lua"
verdict "Lmod: loaded, unloaded" "$(LIBSHARD_PREFIX=/opt/shard bash -c '. "$1"; module use "$2"; module load libshard
  [ "$LIBSHARD" = /opt/shard/lib/libshard.so ] || echo "LIBSHARD=$LIBSHARD"; [ -z "${LD_PRELOAD:-}" ] || echo "it preloads"
  case :$PATH: in *:/opt/shard/bin:*) ;; *) echo "$PATH" ;; esac
  module unload libshard; [ -z "${LIBSHARD:-}" ] || echo left' - "$lmod" "$WORK/modules" 2>&1)"

# ---- the same elsewhere
mkdir "$WORK/one" "$WORK/another place"
for place in "$WORK/one" "$WORK/another place"; do
  git archive HEAD | tar x -C "$place" && make -s -C "$place" -j2 BUILD=build CFLAGS="-O0 -g" lib >"$WORK/out" 2>&1 || cat "$WORK/out"
done
verdict "the same bytes from two builds in two paths" "$(cmp "$WORK/one/build/libshard.so" "$WORK/another place/build/libshard.so" 2>&1)"
finish
