#!/usr/bin/python3
"""Writes many keys into a bucket of scripts/s3-server.sh at once.

    fill.py CEPH.CONF BUCKET < keys, each ended by NUL

The entries go straight into the bucket's index, a hundred times as fast as by PUT: a listing sees
them, GET does not. The first key must have been put as an object: its entry is the template. Keys
are UTF-8 and begin with no '_', which the index keeps in another form.
Debian's own Python, for the module rados (python3-rados).
"""
import struct
import sys

import rados


def shard_of(key, shards):
    """Which part of the index holds a key: Ceph's "linux" string hash."""
    value = 0
    for byte in key:
        value = (value + (byte << 4) + (byte >> 4)) * 11 & 0xFFFFFFFF
    value ^= (value & 0xFF) << 24
    return (value & 0xFFFFFFFF) % 7877 % shards


def index_objects(cluster, bucket):
    """(context, the names of the objects that are the bucket's index, in order)."""
    meta = cluster.open_ioctx("default.rgw.meta")
    meta.set_namespace("root")
    start = f".bucket.meta.{bucket}:"
    (ident,) = [o.key[len(start):] for o in meta.list_objects() if o.key.startswith(start)]
    index = cluster.open_ioctx("default.rgw.buckets.index")
    mine = [o.key for o in index.list_objects() if o.key.startswith(f".dir.{ident}")]
    return index, sorted(mine, key=lambda name: int(name.rpartition(".")[2]))


def template_of(index, name, key):
    """An entry's bytes before the key's length, and after the key."""
    with rados.ReadOpCtx() as read:
        entries, _ = index.get_omap_vals_by_keys(read, (key.decode(),))
        index.operate_read_op(read, name)
        entry = dict(entries)[key.decode()]
    # u8 version, u8 compatible, u32 size of what follows, u32 size of the key, the key, ...
    size, length = struct.unpack("<II", entry[2:10])
    if size != len(entry) - 6 or entry[10:10 + length] != key:
        sys.exit("fill.py: the index has entries of a form that is not known")
    return entry[:2], entry[10 + length:]


def main():
    """Fill."""
    conf, bucket = sys.argv[1:]
    keys = sys.stdin.buffer.read().split(b"\0")[:-1]
    cluster = rados.Rados(conffile=conf, name="client.admin")
    cluster.connect(timeout=600)
    index, names = index_objects(cluster, bucket)
    head, tail = template_of(index, names[shard_of(keys[0], len(names))], keys[0])
    parts = [[] for _ in names]
    for key in keys[1:]:
        parts[shard_of(key, len(names))].append(key)
    for name, part in zip(names, parts):
        for i in range(0, len(part), 2000):
            some = part[i:i + 2000]
            entries = [head + struct.pack("<II", 4 + len(k) + len(tail), len(k)) + k + tail
                       for k in some]
            with rados.WriteOpCtx() as write:
                index.set_omap(write, tuple(k.decode() for k in some), tuple(entries))
                index.operate_write_op(write, name)
    cluster.shutdown()


if __name__ == "__main__":
    main()
