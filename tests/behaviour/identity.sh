#!/bin/bash
# SPDX-License-Identifier: MIT
# A listing that SHARD_LISTING names is used only for the names that it was made of: whatever is done to a directory
# behind it, and to the clocks and file systems below it, the calls fail, and say why.
. "$(dirname "$0")/lib.bash"
in_namespace
mounts=()
loop=
trap 'cd /; for m in "${mounts[@]}"; do umount -l "$m"; done 2>/dev/null; [ -z "$loop" ] || losetup -d "$loop"; rm -rf "$BASE" "$ON_DISK"' EXIT
ON_DISK=$(mktemp -d /var/tmp/shard-test.XXXXXX) || exit 2
OLD='2026-01-01 00:00:00'
export SHARD_CACHE_DIR=$WORK/cache
L=$WORK/given.listing

# both DIRECTORY: what two ranks see of it
both() {
  local r
  for r in 0 1; do
    env SHARD_LISTING="$L" SHARD_DATASET="$1" SHARD_RANK=$r SHARD_SIZE=2 SHARD_TIMEOUT=20 \
      LD_PRELOAD="$LIB" timeout 300 find "$1" -type f || echo "status $?"
  done
}
index() { "$CTL" index "$1" -o "$L" >/dev/null || fail "index" "$1"; }
# kept NAME DIRECTORY: two ranks see what is there, once, and say nothing
kept() { both "$2" 2>&1 | sort | diff - <(find "$2" -type f | sort) >"$WORK/diff"; verdict "$1" "$(head -5 "$WORK/diff")"; }
# refused NAME DIRECTORY: the calls of both fail, and say that it has changed
refused() {
  both "$2" >"$WORK/out" 2>"$WORK/err"
  verdict "$1" "$(grep -v '^status' "$WORK/out"; [ "$(grep -c "SHARD_LISTING.*$2.*changed" "$WORK/err")" = 2 ] || shown cat "$WORK/err")"
}

# ---- times that are put back --------------------------------------------------------------------
putting_back() { # KIND FOLDER
  local d=$2/set; mkdir -p "$d/sub/deep"
  touch "$d"/a{0..3} "$d"/sub/a{0..3} "$d"/sub/deep/a{0..3}
  touch -d "$OLD" "$d/sub/deep" "$d/sub" "$d"
  index "$d"; kept "$1" "$d"; kept "$1, again" "$d"
  touch "$d"/b{0..3}; touch -d "$OLD" "$d"; refused "$1: more files, mtime put back" "$d"; index "$d"
  touch "$d"/sub/deep/b{0..3}; touch -d "$OLD" "$d/sub/deep"; refused "$1: more in a sub-folder, mtime put back" "$d"; index "$d"
  rm "$d/sub/a0"; mv "$d/sub/a1" "$d/sub/c1"; touch -d "$OLD" "$d/sub"; refused "$1: removed and renamed, mtime put back" "$d"; index "$d"
  mv "$d" "$2/other"; mkdir "$d"; touch "$d"/z{0..6}; touch -d "$OLD" "$d"; refused "$1: another directory in its place" "$d"
  rm -r "$d"; mv "$2/other" "$d"; refused "$1: the first one again, renamed" "$d"; index "$d"; kept "$1: made anew" "$d"
  : >"$2/tree.tar"; tar -C "$2" -cf "$2/tree.tar" set; touch "$d"/y{0..2}; tar -C "$2" -xf "$2/tree.tar"
  refused "$1: tar puts the times back" "$d"
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

# ---- a job keeps what it began with; a rank that is alone sees what is there ------------------------
# programs RANK SIZE: two programs of a step, one after the other; a file is added between
programs() {
  rm -rf "$WORK/script"; mkdir "$WORK/script"; touch "$WORK"/script/a{0..3}
  SLURM_JOB_ID=$1$2 SLURM_STEP_ID=0 SLURM_PROCID=$1 SLURM_STEP_NUM_TASKS=$2 SHARD_DATASET=$WORK/script LD_PRELOAD=$LIB \
    bash -c 'ls "$SHARD_DATASET"; : >"$SHARD_DATASET/a4"; ls "$SHARD_DATASET"' 2>"$WORK/err" | tr '\n' ' '
}
verdict "the next program of a rank that is alone sees a new file" "$([ "$(programs 0 1)" = "a0 a1 a2 a3 a0 a1 a2 a3 a4 " ] || shown cat "$WORK/err")"
verdict "... and no listing is made" "$(ls "$SHARD_CACHE_DIR" | grep -v ranks | head -1 | grep '[.]named[.]')"
verdict "that of one of two does not" "$([ "$(programs 1 2)" = "a1 a3 a1 a3 " ] || shown cat "$WORK/err")"

# ---- images: whatever is made whole, and mounted ----------------------------------------------------
needs mksquashfs mkfs.erofs
I=$WORK/image; mkdir "$I" "$WORK/at"
# image KIND FILE: of $I, with times that are the same for all
image() {
  touch -d "$OLD" "$I"
  case $1 in
    squashfs) mksquashfs "$I" "$2" -noappend -quiet -all-time "$(date -d "$OLD" +%s)" -mkfs-time 0 >/dev/null ;;
    erofs) mkfs.erofs -T "$(date -d "$OLD" +%s)" "$2" "$I" >/dev/null 2>&1 ;;
  esac
}
for kind in squashfs erofs; do
  rm -f "$I"/*; touch "$I"/a{0..3}; image $kind "$ON_DISK/a.$kind"
  rm -f "$I"/*; touch "$I"/b{0..3} "$I"/c; image $kind "$ON_DISK/b.$kind"
  if mount -o loop,ro "$ON_DISK/a.$kind" "$WORK/at" 2>/dev/null; then
    index "$WORK/at"; kept "$kind" "$WORK/at"; umount "$WORK/at"
    mount -o loop,ro "$ON_DISK/a.$kind" "$WORK/at"; kept "$kind, mounted again" "$WORK/at"; umount "$WORK/at"
    mount -o loop,ro "$ON_DISK/b.$kind" "$WORK/at"; refused "$kind: another image at the same path" "$WORK/at"; umount "$WORK/at"
  else
    skip "$kind" "this kernel mounts none"
  fi
done
truncate -s 4M "$ON_DISK/a.img"; mkfs.ext4 -q -I 256 "$ON_DISK/a.img"
if mount -o loop "$ON_DISK/a.img" "$WORK/at" 2>/dev/null; then
  touch "$WORK"/at/a{0..3}; umount "$WORK/at"
  cp "$ON_DISK/a.img" "$ON_DISK/c.img"
  debugfs -w -R "set_inode_field / ctime $(date -d '5 years' +%Y%m%d%H%M%S)" "$ON_DISK/c.img" 2>/dev/null
  mount -o loop,ro "$ON_DISK/c.img" "$WORK/at"
  index "$WORK/at"; kept "a time to come" "$WORK/at" # nobody waits for it: both() would give up
  umount "$WORK/at"
else
  skip "a time to come" "no loop device"
fi
# ---- FUSE: nothing is compared, and that is said --------------------------------------------------
needs bindfs
mkdir "$WORK/real" "$WORK/fuse"; touch "$WORK"/real/a{0..3}
if bindfs "$WORK/real" "$WORK/fuse" 2>/dev/null; then
  mounts=("$WORK/fuse" "${mounts[@]}")
  "$CTL" index "$WORK/fuse" -o "$L" >/dev/null
  touch -d "$OLD" "$WORK/real"; both "$WORK/fuse" >"$WORK/out" 2>"$WORK/err"
  verdict "FUSE: the listing is used, and a line says so" "$(sort "$WORK/out" | diff - <(find "$WORK/fuse" -type f | sort); [ "$(grep -c "is not checked: '$WORK/fuse' is on FUSE" "$WORK/err")" = 2 ] || shown cat "$WORK/err")"
else
  skip "FUSE" "no /dev/fuse"
fi

# What another host, or this one before it was started anew, has listed.
"$PYTHON" -c 'import uuid; print(uuid.uuid4())' >"$WORK/boot"
boot=/proc/sys/kernel/random/boot_id d=$ON_DISK/set; index "$d"; kept "before a boot" "$d"
if mount --bind "$WORK/boot" $boot 2>/dev/null; then
  mounts=($boot "${mounts[@]}"); kept "a listing carried to another host" "$d"
  job() { SHARD_JOB=boot SHARD_DATASET=$d SHARD_RANK=0 SHARD_SIZE=2 LD_PRELOAD=$LIB find "$d" >/dev/null 2>"$WORK/err"; }
  job; umount $boot; job
  verdict "a job of another boot is another job" "$(cat "$WORK/err"; [ "$(ls "$SHARD_CACHE_DIR" | grep -c named)" -ge 2 ] || shown ls "$SHARD_CACHE_DIR")"
else
  skip "another boot" "mount is not allowed"
fi
finish
