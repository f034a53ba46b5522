#!/bin/bash
# SPDX-License-Identifier: MIT
# A listing is used only for the names that it was made of: whatever is done to a directory behind
# it, and to the clocks and file systems below it, the ranks see what is there.
. "$(dirname "$0")/lib.bash"
in_namespace
mounts=()
loop=
trap 'cd /; for m in "${mounts[@]}"; do umount -l "$m"; done 2>/dev/null; [ -z "$loop" ] || losetup -d "$loop"; rm -rf "$BASE" "$ON_DISK"' EXIT
ON_DISK=$(mktemp -d /var/tmp/shard-test.XXXXXX) || exit 2
OLD='2026-01-01 00:00:00'
export SHARD_CACHE_DIR=$WORK/cache
LISTING= # SHARD_LISTING

# both DIRECTORY: what two ranks see of it
both() {
  local r
  for r in 0 1; do
    env ${LISTING:+SHARD_LISTING="$LISTING"} SHARD_DATASET="$1" SHARD_RANK=$r SHARD_SIZE=2 SHARD_TIMEOUT=20 \
      LD_PRELOAD="$LIB" timeout 300 find "$1" -type f || echo "status $?"
  done
}
# sees NAME DIRECTORY: two ranks see what is there, once, and say nothing
sees() { both "$2" 2>&1 | sort | diff - <(find "$2" -type f | sort) >"$WORK/diff"; verdict "$1" "$(head -5 "$WORK/diff")"; }
# versions DIRECTORY: how many listings of it were made until now
versions() { ls "$SHARD_CACHE_DIR" | grep -c '\.listing$'; }
# kept NAME DIRECTORY: the listing that is there is used
kept() {
  local before; before=$(versions)
  sees "$1" "$2"; verdict "$1: the listing is used" "$([ "$(versions)" = "$before" ] || shown ls -l "$SHARD_CACHE_DIR")"
}

# ---- times that are put back --------------------------------------------------------------------
putting_back() { # KIND FOLDER
  local d=$2/set; mkdir -p "$d/sub/deep"
  touch "$d"/a{0..3} "$d"/sub/a{0..3} "$d"/sub/deep/a{0..3}
  touch -d "$OLD" "$d/sub/deep" "$d/sub" "$d"
  sees "$1" "$d"
  kept "$1, again" "$d"
  touch "$d"/b{0..3}; touch -d "$OLD" "$d"
  sees "$1: more files, mtime put back" "$d"
  touch "$d"/sub/deep/b{0..3}; touch -d "$OLD" "$d/sub/deep"
  sees "$1: more in a sub-folder, mtime put back" "$d"
  "$CTL" index "$d" -o "$WORK/$1.listing" >/dev/null
  LISTING=$WORK/$1.listing kept "$1: SHARD_LISTING" "$d"
  rm "$d/sub/a0"; mv "$d/sub/a1" "$d/sub/c1"; touch -d "$OLD" "$d/sub"
  sees "$1: removed and renamed, mtime put back" "$d"
  LISTING=$WORK/$1.listing both "$d" >"$WORK/out" 2>"$WORK/err"
  verdict "$1: SHARD_LISTING, mtime put back" "$(grep -v '^status' "$WORK/out"; grep -q "SHARD_LISTING.*$d.*changed" "$WORK/err" || shown cat "$WORK/err")"
  mv "$d" "$2/other"; mkdir "$d"; touch "$d"/z{0..6}; touch -d "$OLD" "$d"
  sees "$1: another directory in its place" "$d"
  rm -r "$d"; mv "$2/other" "$d"
  sees "$1: the first one again" "$d"
  : >"$2/tree.tar"; tar -C "$2" -cf "$2/tree.tar" set; touch "$d"/y{0..2}; tar -C "$2" -xf "$2/tree.tar"
  sees "$1: tar puts the times back" "$d"
}
putting_back disk "$ON_DISK"
if mkdir "$WORK/tmpfs" && mount -t tmpfs none "$WORK/tmpfs" 2>/dev/null; then
  mounts=("$WORK/tmpfs" "${mounts[@]}"); putting_back tmpfs "$WORK/tmpfs"
  mkdir "$WORK"/{overlay,lower} "$WORK"/tmpfs/{upper,work}
  if mount -t overlay none -o "lowerdir=$WORK/lower,upperdir=$WORK/tmpfs/upper,workdir=$WORK/tmpfs/work" "$WORK/overlay" 2>/dev/null; then
    mounts=("$WORK/overlay" "${mounts[@]}"); putting_back overlay "$WORK/overlay"
  fi
else
  skip "tmpfs, overlay" "mount is not allowed"; finish
fi

# ---- a job keeps what it began with; a rank that is alone is no job ---------------------------------
# programs RANK SIZE: two programs of a batch script, one after the other; a file is added between
programs() {
  rm -rf "$WORK/script"; mkdir "$WORK/script"; touch "$WORK"/script/a{0..3}
  SLURM_JOB_ID=$1$2 SLURM_STEP_ID=0 SLURM_PROCID=$1 SLURM_NTASKS=$2 SHARD_DATASET=$WORK/script LD_PRELOAD=$LIB \
    bash -c 'ls "$SHARD_DATASET"; : >"$SHARD_DATASET/a4"; ls "$SHARD_DATASET"' 2>"$WORK/err" | tr '\n' ' '
}
verdict "the next program of a rank that is alone sees a new file" "$(
  [ "$(programs 0 1)" = "a0 a1 a2 a3 a0 a1 a2 a3 a4 " ] && [ ! -s "$WORK/err" ] || shown cat "$WORK/err")"
verdict "that of one of two does not, and says so" "$(
  [ "$(programs 1 2)" = "a2 a3 a2 a3 " ] && grep -q 'all ranks keep the listing' "$WORK/err" || shown cat "$WORK/err")"

# ---- another file system at the same path ---------------------------------------------------------
mkdir "$WORK"/{one,two,at}
for k in one two; do mount -t tmpfs none "$WORK/$k"; mounts=("$WORK/$k" "${mounts[@]}"); done
# Names go into both within one tick of the clock.
"$PYTHON" - "$WORK/one" "$WORK/two" <<'END' || skip "two tmpfs" "no two alike were made"
import os, sys
for i in range(3000):
    for k in sys.argv[1:]:
        for n in range(4):
            os.close(os.open("%s/%s%d" % (k, os.path.basename(k), n), os.O_CREAT))
    if len({(s.st_ino, s.st_mtime_ns, s.st_ctime_ns) for s in map(os.stat, sys.argv[1:])}) == 1:
        sys.exit(0)
    for k in sys.argv[1:]:
        for name in os.listdir(k):
            os.unlink("%s/%s" % (k, name))
sys.exit(1)
END
for k in one two one; do
  mount --bind "$WORK/$k" "$WORK/at"; sees "two tmpfs with equal inodes and times: $k" "$WORK/at"; umount "$WORK/at"
done

truncate -s 4M "$ON_DISK/a.img"; mkfs.ext4 -q -I 256 "$ON_DISK/a.img"
if mount -o loop "$ON_DISK/a.img" "$WORK/at" 2>/dev/null; then
  touch "$WORK"/at/a{0..3}; umount "$WORK/at"
  cp "$ON_DISK/a.img" "$ON_DISK/b.img"
  debugfs -w -R 'write /dev/null b0' "$ON_DISK/b.img" 2>/dev/null
  cp "$ON_DISK/b.img" "$ON_DISK/c.img"
  when=$(date -d '5 years' +%Y%m%d%H%M%S)
  debugfs -w -R "set_inode_field / ctime $when" "$ON_DISK/c.img" 2>/dev/null
  # One loop device for all images: other ones are put into it (LOOP_CHANGE_FD), so nobody else can take it meanwhile.
  loop=$(losetup -r -f --show "$ON_DISK/a.img") || fail "a loop device" "there was one"
  shows() { "$PYTHON" -c 'import fcntl, os, sys; fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x4C06, os.open(sys.argv[2], os.O_RDONLY))' "$loop" "$ON_DISK/$1.img"; }
  for k in a b a; do
    shows $k; mount -o ro "$loop" "$WORK/at"
    sees "image of equal times at the same path: $k" "$WORK/at"; kept "image: $k, again" "$WORK/at"
    umount "$WORK/at"
  done
  for k in a b a; do # below another file system, which shows the image's times
    shows $k; mount -o ro "$loop" "$WORK/lower"
    mount -t overlay none -o "lowerdir=$WORK/lower:$WORK/one" "$WORK/at"
    sees "image below an overlay at the same path: $k" "$WORK/at"; kept "image below an overlay: $k, again" "$WORK/at"
    umount "$WORK/at" "$WORK/lower"
  done
  shows c; mount -o ro "$loop" "$WORK/at"
  sees "a time to come" "$WORK/at"; kept "a time to come, again" "$WORK/at" # nobody waits for it: both() would give up
  umount "$WORK/at"
  # What another host, or this one before it was started anew, has listed.
  "$PYTHON" -c 'import uuid; print(uuid.uuid4())' >"$WORK/boot"
  boot=/proc/sys/kernel/random/boot_id
  d=$ON_DISK/set; sees "before a boot" "$d"
  shows a; mount -o ro "$loop" "$WORK/at"; sees "image before a boot" "$WORK/at"
  "$CTL" index "$d" -o "$WORK/carried" >/dev/null; "$CTL" index "$WORK/at" -o "$WORK/carried_image" >/dev/null
  if mount --bind "$WORK/boot" $boot 2>/dev/null; then
    mounts=($boot "${mounts[@]}")
    keys=$(ls "$SHARD_CACHE_DIR" | cut -c1-32 | sort -u | wc -l); sees "after a boot" "$d"
    verdict "after a boot: another key" "$([ "$(ls "$SHARD_CACHE_DIR" | cut -c1-32 | sort -u | wc -l)" -gt "$keys" ] || shown ls "$SHARD_CACHE_DIR")"
    LISTING=$WORK/carried kept "a listing carried to another host" "$d"
    LISTING=$WORK/carried_image kept "a listing of an image carried to another host" "$WORK/at"
    umount "$WORK/at"; shows b; mount -o ro "$loop" "$WORK/at"
    sees "another image after a boot" "$WORK/at"
    umount $boot
  else
    skip "another boot" "mount is not allowed"
  fi
  umount "$WORK/at"
else
  skip "images" "no loop device"
fi
finish
