"""The logs of SHARD_STATS (stats/log.h), read apart from shardctl, and what shardctl verify says of them.

    python -m tests.harness.statlogs FOLDER [EXPRESSION]

prints what is in the folder, or checks an expression of `j`, a Logs, and prints it if it is false.
"""
import collections
import ctypes
import functools
import json
import os
import struct
import subprocess
import sys

from tests.harness import paths

HEAD = struct.Struct("<QqQQqqQQQQii72s32s32s160s")
MAGIC = 0x32676f6c64726873
OPENED, SERVED, SHARE, TEXT = 1, 2, 3, 4


@functools.lru_cache(None)
def _hash():
    function = ctypes.CDLL(paths.LIBRARY).shard_stats_hash
    function.restype, function.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_size_t)
    return function


class Log:
    """A process's log: its rank and size, lost, ended, and a Counter of (epoch, root, hash)."""

    def __init__(self, path):
        with open(path, "rb") as stream:
            data = stream.read()
        (magic, self.pid, self.start, _, _, ended, notes, _, self.lost, _, self.rank, self.size, host, *_) = HEAD.unpack_from(data)
        assert magic == MAGIC, path
        self.name, self.ended, self.host = os.path.basename(path), ended != 0, host.rstrip(b"\0").decode()
        self.opens, self.served, roots, i = collections.Counter(), set(), {}, 0
        there = (len(data) - 4096) // 16
        self.lost, notes = self.lost + max(0, notes - there), min(notes, there)
        while i < notes:
            value, what = struct.unpack_from("<QQ", data, 4096 + 16 * i)
            kind, dataset, epoch = what >> 16 & 255, what >> 24 & 255, what >> 32
            if kind == SHARE:
                text = b"".join(data[4096 + 16 * k:4104 + 16 * k] for k in range(i + 1, i + 1 + value))
                root = text[struct.calcsize("<8I5Q64s"):][:struct.unpack_from("<20xI", text)[0]]
                roots[dataset] = os.fsdecode(root)
                i += value
            elif kind == OPENED:
                self.opens[epoch, roots[dataset], value] += 1
            elif kind == SERVED:
                self.served.add((epoch, roots[dataset], value))
            else:
                self.lost += 1
            i += 1


class Logs:
    """All logs of a folder."""

    def __init__(self, folder):
        self.logs = [Log(os.path.join(folder, name)) for name in sorted(os.listdir(folder))]
        self.lost = sum(log.lost for log in self.logs)
        self.ranks = sorted({log.rank for log in self.logs})
        self.total = sum((log.opens for log in self.logs), collections.Counter())
        self.opened = sum(self.total.values())
        self.distinct = len({value for _, _, value in self.total})
        self.epochs = sorted({epoch for epoch, _, _ in self.total})
        self.roots = sorted({root for _, root, _ in self.total})

    def of(self, rank):
        """Opens of a rank, by (epoch, root, hash)."""
        return sum((log.opens for log in self.logs if log.rank == rank), collections.Counter())

    def opens(self, names, rank=None):
        """A Counter of those of these paths that were opened; what else was is under ''."""
        known, opens = {_hash()(os.fsencode(name), len(os.fsencode(name))): name for name in names}, collections.Counter()
        for (_, _, value), count in (self.total if rank is None else self.of(rank)).items():
            opens[known.get(value, "")] += count
        return opens


def write(folder, root, entries, rank, size, epochs):
    """A log as a process of this rank leaves it: `epochs` are lists of the names that it has opened, of a listing that is
    gone; it has a share of each."""
    notes, previous = [], 0

    def note(value, kind, epoch):
        notes.append(struct.pack("<QQ", value, epoch << 32 | kind << 16 | 0x5348))

    for epoch, names in enumerate(epochs):
        text = struct.pack("<8I5Q64s", 2, 0, rank, size, 0, len(os.fsencode(root)), 0, 0, previous, 0, entries, entries, entries, b"0" * 64)
        text += os.fsencode(root) + bytes(8)
        previous = len(notes) + 1
        words = [text[i:i + 8].ljust(8, b"\0") for i in range(0, len(text), 8)]
        note(len(words), SHARE, epoch)
        for word in words:
            note(struct.unpack("<Q", word)[0], TEXT, epoch)
        for name in names:
            path = os.fsencode(root + name)
            note(_hash()(path, len(path)), OPENED, epoch)
    head = HEAD.pack(MAGIC, rank + 1, 1, 1, 1_700_000_000_000, 1_700_000_060_000, len(notes), previous, 0, 0, rank, size, b"made", b"", b"", b"")
    with open(os.path.join(folder, f"made.{rank + 1}.1.log"), "wb") as stream:
        stream.write(head.ljust(4096, b"\0") + b"".join(notes))


def verify(folders, *more):
    """(exit status, all that shardctl verify says)."""
    done = subprocess.run([paths.SHARDCTL, "verify", *([folders] if isinstance(folders, str) else folders), *more],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


CELL = collections.namedtuple("Cell", "rank epoch own read others distinct opened least most")


def facts(folders, *more):
    """The object of verify --json; the cells of its datasets are Cells."""
    said = json.loads(verify(folders, "--json", *more)[1])
    for dataset in said["datasets"]:
        dataset["cells"] = [CELL(*cell) for cell in dataset["cells"]]
    return said


def main():
    """See above."""
    j = Logs(sys.argv[1])
    text = {"logs": [(log.pid, log.rank, log.size, log.lost, log.ended, sum(log.opens.values())) for log in j.logs],
            "opened": j.opened, "distinct": j.distinct, "epochs": j.epochs, "roots": j.roots}
    if len(sys.argv) < 3 or not eval(sys.argv[2], {"j": j}):  # pylint: disable=eval-used
        print(text)


if __name__ == "__main__":
    main()
