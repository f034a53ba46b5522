# SPDX-License-Identifier: MIT
"""agree: where every rank lists the dataset, the ranks compare what they have.

Each host has a listing of its own. If the directory changes while a job starts, hosts hold different
ones: each rank then takes its part of another list, so that some files are read twice and others
never. Here rank 0 hears of each rank how many files it has, and the digest of their names. If two
ranks differ, all of them fail, with the remedy.

The ranks meet where initialize() has asked for valid, the second folder, and once more where it hands
over what it has, if that is of sub-folders: each rank comes there, whatever it finds. Messages go from
one rank to another, for a rank without libshard takes part in nothing: one that does not say that it is
HERE is left out. It may only be late: so rank 0 tells every rank what has come of it, and a rank that does
not wait for rank 0 any more says that it is GONE.

A process may run one benchmark after another, and one that fails leaves messages behind. So rank 0
gives each a number, CALL, which all messages of that benchmark have.
"""
import hashlib
import math
import os
import time

from .. import SOURCES
from ..native import WARN, native, speaks

HERE, CALL, REPORT = 22875, 22876, 22877  # tags
GONE = -1        # in place of a number
PATIENCE = 30.0  # seconds to wait for a rank to be there; all ranks have just met in a barrier
NAP = 0.0001     # seconds between two looks for a message, at first

_here = {}     # rank -> whether it runs under this libshard
_sent = []     # messages on their way
_ranks = None  # of the benchmark at hand
_number = 0    # on rank 0: of that benchmark; else the last that rank 0 has told


def this_libshard():
    """(version, digest of this package)."""
    digest = hashlib.sha256()
    for file in sorted(SOURCES):
        digest.update(b"%s\0%s\0" % (file.encode(), SOURCES[file].encode()))
    return native().version(), digest.hexdigest()[:16]


def _is_done(message):
    """mpi4py tells (whether, what came)."""
    done = message.test()
    return done[0] if isinstance(done, tuple) else done


def comes(comm, source, tag, deadline, stop=lambda: False):
    """Whether a message comes until then, and before stop() says that it need not."""
    nap = NAP
    while not comm.iprobe(source=source, tag=tag):
        if stop() or time.monotonic() > deadline:
            return False
        time.sleep(nap)
        nap = min(nap * 1.1, 0.005)
    return True


def unlike(comm, tag, mine, patience):
    """On rank 0, where all ranks send what they have by a tag: the first that does not come, or sends something
    else than `mine`, in words; None."""
    deadline, why = time.monotonic() + patience, None
    for rank in range(1, comm.size):
        if not comes(comm, rank, tag, deadline):
            why = ("rank %d does not run under libshard; give LD_PRELOAD to all ranks (mpirun -x "
                   "LD_PRELOAD)" % rank)
        elif comm.recv(source=rank, tag=tag) != mine:
            why = why or "rank %d has other settings, or another version of libshard" % rank
    return why


class Disagreement(RuntimeError):
    """Why no rank goes on."""


class Ranks:
    """The ranks of a benchmark, as one of them sees them."""

    def __init__(self, benchmark):
        global _number
        self.benchmark, self._comm, self._turn = benchmark, benchmark.comm, 0
        self._found = {}  # kind -> (what it is called, number of files, digest), or None
        self._before = _number  # what comes with this number is of an earlier benchmark, which has failed
        if self._comm.rank:
            self._send(this_libshard(), 0, HERE)
        else:
            _number += 1
            for rank in self._others():
                self._send((_number, this_libshard()), rank, CALL)

    def _others(self):
        """Whom this rank talks to."""
        return [0] if self._comm.rank else range(1, self._comm.size)

    def _send(self, what, rank, tag=REPORT):
        _sent[:] = [one for one in _sent if not _is_done(one)]
        _sent.append(self._comm.isend(what, dest=rank, tag=tag))

    def _take_call(self):
        """Not on rank 0: take its newest number. Whether there was another one."""
        global _number
        before = _number
        while self._comm.rank and self._comm.iprobe(source=0, tag=CALL):
            _number, _here[0] = self._comm.recv(source=0, tag=CALL)
            _here[0] = _here[0] == this_libshard()
        return _number != before

    def _present(self):
        """Those that this rank talks to and that have this libshard."""
        deadline = time.monotonic() + PATIENCE
        for rank in self._others():
            if rank in _here:
                continue
            there = comes(self._comm, rank, HERE if self._comm.rank == 0 else CALL, deadline)
            if self._comm.rank:
                self._take_call()
            elif there:
                _here[rank] = self._comm.recv(source=rank, tag=HERE) == this_libshard()
            if _here.setdefault(rank, False):
                continue
            if self._comm.rank and not there:
                self._send((GONE, 0, None), 0)
            if self._comm.rank == 0 or speaks():
                self._say_unknown(rank, "has another version of libshard" if there else "does not run under libshard",
                                  "; give LD_PRELOAD to all ranks (mpirun -x LD_PRELOAD)")
        return [rank for rank in self._others() if _here[rank]]

    def _say_unknown(self, rank, why, remedy=""):
        native().log(WARN, "rank %d %s, so nobody knows whether it has the same list of files as rank %d%s"
                     % (rank, why, self._comm.rank, remedy))

    def _hear(self, rank):
        """What a rank has to say at this turn; None: rank 0 has called anew, or that rank is GONE."""
        while comes(self._comm, rank, REPORT, math.inf, self._take_call):
            number, turn, what = self._comm.recv(source=rank, tag=REPORT)
            if number == GONE:
                _here[rank] = False
                self._say_unknown(rank, "waits for rank 0 no longer")
                return None
            if self._take_call():
                if number != _number:
                    return None
            if number == _number != self._before and turn in (self._turn, 0):
                return what
        return None

    def note(self, kind, what, files):
        """What this rank has of a kind: its FileList; [] for none; None if that is DLIO's own."""
        self._found[kind] = None
        if files is not None:
            digest = files.listing.digest if len(files) else None
            self._found[kind] = what, len(files), digest

    def fail(self, error):
        """This rank fails: the others, which would wait for it, fail, too."""
        text = "libshard: rank %d on host %s fails: %s: %s" % (
            self._comm.rank, os.uname().nodename, type(error).__name__, error)
        if self._comm.rank:
            comes(self._comm, 0, CALL, time.monotonic() + 1)
            self._take_call()
        for rank in self._others():
            self._send((_number, 0, text), rank)

    def listed(self, kind):
        """initialize() has asked for the folder of a kind."""
        if kind == "valid":
            self.compare()

    def conclude(self):
        """initialize() has all lists."""
        if self._turn == 0 or getattr(self.benchmark, "num_subfolders_eval", 0):
            self.compare()

    def compare(self):
        """Disagreement, in each rank alike, if two ranks differ."""
        mine = os.uname().nodename, dict(self._found)
        self._turn += 1
        ranks, fault = self._present(), None
        if self._comm.rank == 0:
            heard = {0: mine, **{rank: self._hear(rank) for rank in ranks}}
            fault = _judge({rank: report for rank, report in heard.items() if report is not None})
            for rank in self._others():
                self._send((_number, self._turn, fault), rank)
        while self._comm.rank and ranks and fault is None:
            self._take_call()
            self._send((_number, self._turn, mine), 0)
            fault = self._hear(0)
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
                        "change while the job started? Let all hosts use one listing: make it by shardctl "
                        "index before the job starts, and name it in SHARD_LISTING" % (one[2][0], _told(known[0]), _told(one)))
    return ""


def _told(one):
    rank, host, (_, count, digest) = one
    return "rank %d on host %s has %d files%s" % (
        rank, host, count, ", digest " + digest[:16] if digest else "")


def at_hand(benchmark):
    """The Ranks if initialize() lists on several ranks, for a run; else None."""
    global _ranks
    comm = getattr(benchmark, "comm", None)
    if (not hasattr(comm, "iprobe") or comm.size == 1
            or getattr(benchmark.args, "generate_only", False)):
        return None
    if _ranks is None or _ranks.benchmark is not benchmark:
        _ranks = Ranks(benchmark)
    return _ranks


def conclude(benchmark):
    """initialize() hands over its lists."""
    if _ranks is not None and _ranks.benchmark is benchmark:
        _ranks.conclude()
