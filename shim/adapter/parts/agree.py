# SPDX-License-Identifier: MIT
"""agree: where every rank lists the dataset, the ranks compare what they have.

Each host has a listing of its own. If the directory changes while a job starts, hosts hold different
ones: each rank then takes its part of another list, so that some files are read twice and others
never. Here rank 0 hears of each rank how many files it has, and the digest of their names. If two
ranks differ, all of them fail, with the remedy.

The ranks meet where initialize() asks for a folder, train and then valid, and where it hands over
what it has: each rank comes there, whatever it finds. Messages go from one rank to another, for a
rank without libshard takes part in nothing: one that has not said HELLO is left out.
"""
import os
import sys
import time

from ..known import this_libshard
from ..native import WARN, native, speaks

HELLO, REPORT = 22875, 22876  # tags
PATIENCE = 30.0  # seconds to wait for a rank's HELLO; all ranks have just met in a barrier
NAP = 0.0003     # seconds between two looks for a message, at first

_ranks = None  # of the benchmark at hand


class Disagreement(RuntimeError):
    """Why no rank goes on."""


class Ranks:
    """The ranks of a benchmark, as one of them sees them."""

    def __init__(self, benchmark):
        self.benchmark, self._comm = benchmark, benchmark.comm
        self._found = {}   # kind -> (what it is called, number of files, digest), or None
        self._heard = {}   # rank -> whether it runs under this libshard
        self._sent = []    # messages on their way
        others = [0] if self._comm.rank else range(1, self._comm.size)
        for rank in others:
            self._send(this_libshard(), rank, HELLO)

    def _send(self, what, rank, tag=REPORT):
        self._sent.append(self._comm.isend(what, dest=rank, tag=tag))

    def _hear(self, rank, tag=REPORT, deadline=None):
        """A message; None: it has not come in time."""
        nap = NAP
        while not self._comm.iprobe(source=rank, tag=tag):
            if deadline is not None and time.monotonic() > deadline:
                return None
            time.sleep(nap)
            nap = min(nap * 1.5, 0.005)
        return self._comm.recv(source=rank, tag=tag)

    def _present(self, ranks):
        """Those of the ranks that have this libshard."""
        deadline = time.monotonic() + PATIENCE
        for rank in ranks:
            if rank in self._heard:
                continue
            heard = self._hear(rank, HELLO, deadline)
            self._heard[rank] = heard == this_libshard()
            if not self._heard[rank] and (self._comm.rank == 0 or speaks()):
                native().log(WARN, "rank %d %s, so nobody knows whether it has the same list of "
                             "files as rank %d; give LD_PRELOAD to all ranks (mpirun -x LD_PRELOAD)"
                             % (rank, "does not run under libshard" if heard is None else
                                "has another version of libshard", self._comm.rank))
        return [rank for rank in ranks if self._heard[rank]]

    def note(self, kind, what, files):
        """What this rank has of a kind: its FileList; [] for none; None if that is DLIO's own."""
        self._found[kind] = None
        if files is not None:
            digest = files.listing.digest if len(files) else None
            self._found[kind] = what, len(files), digest

    def fail(self, error):
        """This rank fails: the others, which would wait for it, fail, too."""
        text = "libshard: rank %d on host %s fails: %s: %s" % (self._comm.rank, os.uname().nodename,
                                               type(error).__name__, error)
        for rank in [0] if self._comm.rank else range(1, self._comm.size):
            self._send(text, rank)

    def compare(self):
        """Disagreement, in each rank alike, if two ranks differ."""
        comm, mine = self._comm, (os.uname().nodename, dict(self._found))
        if comm.rank == 0:
            ranks = self._present(range(1, comm.size))
            reports = {rank: self._hear(rank) for rank in ranks}
            fault = _judge({0: mine, **reports})
            for rank in ranks:
                self._send(fault, rank)
        elif self._present([0]):
            self._send(mine, 0)
            fault = self._hear(0)
        else:
            return
        if fault:
            raise Disagreement(fault)


def _judge(reports):
    """What is wrong with {rank: what compare() or fail() has sent}; ""."""
    for report in reports.values():
        if isinstance(report, str):
            return report
    for kind in ("train", "valid"):
        known = [(rank, host, found[kind]) for rank, (host, found) in sorted(reports.items())
                 if found.get(kind) is not None]
        for one in known:
            if one[2][1:] != known[0][2][1:]:
                return ("libshard: the ranks hold different lists of %s: %s, %s. Did the dataset "
                        "change while the job started? Let all hosts use one listing: set "
                        "SHARD_LISTING to a file on a shared file system, and "
                        "SHARD_LISTING_BUILD=first" % (one[2][0], _told(known[0]), _told(one)))
    return ""


def _told(one):
    rank, host, (_, count, digest) = one
    return "rank %d on host %s has %d files%s" % (
        rank, host, count, ", digest " + digest[:16] if digest else "")


def at_hand(tree, storage, frame):
    """The Ranks if it is initialize() that lists, on several ranks, for a run; else None."""
    global _ranks
    benchmark = frame.f_locals.get("self")
    args, comm = getattr(benchmark, "args", None), getattr(benchmark, "comm", None)
    if (getattr(benchmark, "storage", None) is not storage or not hasattr(comm, "iprobe")
            or comm.size == 1 or getattr(args, "generate_only", False)
            or not tree.holds(frame.f_code, "main.py")):
        return None
    if _ranks is None or _ranks.benchmark is not benchmark:
        _ranks = Ranks(benchmark)
    return _ranks


def conclude():
    """initialize(), two frames up, hands over its lists."""
    benchmark = sys._getframe(2).f_locals.get("self")
    if _ranks is not None and _ranks.benchmark is benchmark:
        _ranks.compare()
