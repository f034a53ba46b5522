# SPDX-License-Identifier: MIT
"""compare_ranks: how the ranks of a benchmark learn whether all of them run under this libshard, and where each lists
for itself, whether all have the same list.

join() is asked once in an initialize(), where all ranks have just met in a barrier: rank 0 calls, each rank
answers, and rank 0 gives its verdict. These are messages from one rank to another, for a rank without libshard
takes part in nothing. Only where the verdict is yes, ranks make collective calls of libshard's own: each comes by.

Each host has a listing of its own. If the directory changes while a job starts, hosts hold different ones: each
rank then takes its part of another list, so that some files are read twice and others never. So ranks compare how
many files they have, and the digest of their names, where initialize() has asked for valid, the second folder, and
once more where it hands over what it has, if that is of sub-folders. If two differ, all fail, with the remedy.

A process may run one benchmark after another, and one that fails leaves messages behind: each call has a number,
which answer and verdict repeat.
"""
import hashlib
import os
import time

from .. import SOURCES
from ..native import WARN, native, speaks

ANSWER, CALL, VERDICT = 22875, 22876, 22877  # tags
PATIENCE = 30.0  # seconds that rank 0 waits for an answer; all ranks have just met in a barrier
NAP = 0.0001     # seconds between two looks for a message, at first
ALIKE = "SHARD_SHUFFLE", "SHARD_VIEW"  # variables by which ranks do other things

_sent = []     # messages on their way
_number = 0    # on rank 0: of its last call
_joined = False
_ranks = None  # of the benchmark at hand


def settings():
    """What must be the same in all ranks, for join()."""
    digest = hashlib.sha256()
    for file in sorted(SOURCES):
        digest.update(b"%s\0%s\0" % (file.encode(), SOURCES[file].encode()))
    return native().version(), digest.hexdigest()[:16], [os.environ.get(name) for name in ALIKE]


def comes(comm, source, tag, deadline, stop=lambda: False):
    """Whether a message comes until then, and before stop() says that it need not."""
    nap = NAP
    while not comm.iprobe(source=source, tag=tag):
        if stop() or time.monotonic() > deadline:
            return False
        time.sleep(nap)
        nap = min(nap * 1.1, 0.005)
    return True


def _is_done(message):
    """mpi4py tells (whether, what came)."""
    done = message.test()
    return done[0] if isinstance(done, tuple) else done


def _send(comm, what, rank, tag):
    _sent[:] = [one for one in _sent if not _is_done(one)]
    _sent.append(comm.isend(what, dest=rank, tag=tag))


def _call(comm, mine):
    """On rank 0: its verdict."""
    global _number
    _number += 1
    for rank in range(1, comm.size):
        _send(comm, _number, rank, CALL)
    answers, deadline = {}, time.monotonic() + PATIENCE
    for rank in range(1, comm.size):
        while rank not in answers and comes(comm, rank, ANSWER, deadline):
            number, theirs = comm.recv(source=rank, tag=ANSWER)
            if number == _number:
                answers[rank] = theirs
    why = "rank 0 cannot take part" if mine is None else None
    for rank in range(1, comm.size):
        if rank not in answers:
            why = ("rank %d does not run under libshard; give LD_PRELOAD to all ranks (mpirun -x LD_PRELOAD)"
                   % rank)
        elif answers[rank] != mine:
            why = why or "rank %d has other settings, or another version of libshard" % rank
    for rank in range(1, comm.size):  # one that is late learns of it, too
        _send(comm, (_number, why), rank, VERDICT)
    return why


def _answer(comm, mine):
    """On another rank: rank 0's verdict."""
    deadline, number = time.monotonic() + 2 * PATIENCE, None
    while comes(comm, 0, CALL, deadline):
        number = comm.recv(source=0, tag=CALL)
        _send(comm, (number, mine), 0, ANSWER)
        while comes(comm, 0, VERDICT, deadline, lambda: comm.iprobe(source=0, tag=CALL)):
            told, why = comm.recv(source=0, tag=VERDICT)
            if told == number:
                return why
    if number is None:  # rank 0 will have no answer of this one, and so says no
        return "rank 0 does not run under libshard; give LD_PRELOAD to all ranks (mpirun -x LD_PRELOAD)"
    raise TimeoutError("libshard: rank 0 has called rank %d, and gives no verdict; SHARD_VIEW=off runs DLIO "
                       "unmodified" % comm.rank)


def join(comm, mine):
    """Why this is no benchmark of ranks that all have libshard and the same `mine`, in words; None: it is one.

    mine: settings(), and more; None: this rank cannot take part. TimeoutError, if rank 0 has this rank's
    answer and gives no verdict: it may count on this rank, which cannot go on without it.
    """
    global _joined
    if comm.size == 1:
        why = None if mine is not None else "it cannot"
    else:
        why = (_answer if comm.rank else _call)(comm, mine)
    _joined = why is None
    return why


def begin():
    """An initialize() begins."""
    global _joined
    _joined = False


def is_joined(size):
    """Whether all ranks of this benchmark come by where one does."""
    return size == 1 or _joined


# ---- where each rank lists ---------------------------------------------------------------------


class Disagreement(RuntimeError):
    """Why no rank goes on."""


class Ranks:
    """The ranks of a benchmark, as one of them sees them."""

    def __init__(self, benchmark):
        self.benchmark, self._comm = benchmark, benchmark.comm
        self._found = {}  # kind -> (what it is called, number of files, digest), or None
        why = join(self._comm, settings())
        self._left = 0 if why else 2 if getattr(benchmark, "num_subfolders_eval", 0) else 1  # comparisons
        if why and (self._comm.rank == 0 or speaks()):
            native().log(WARN, "the ranks' lists of files are not compared: " + why)

    def note(self, kind, what, files):
        """What this rank has of a kind: its FileList; [] for none; None if that is DLIO's own."""
        self._found[kind] = None
        if files is not None:
            digest = files.listing.digest if len(files) else None
            self._found[kind] = what, len(files), digest

    def fail(self, error):
        """This rank fails: the others, which would wait for it, fail, too."""
        if self._left:
            self._left = 0
            self._comm.allgather("libshard: rank %d on host %s fails: %s: %s" % (
                self._comm.rank, os.uname().nodename, type(error).__name__, error))

    def listed(self, kind):
        """initialize() has asked for the folder of a kind."""
        if kind == "valid":
            self.compare()

    def compare(self):
        """Disagreement, in each rank alike, if two ranks differ."""
        if self._left:
            self._left -= 1
            fault = _judge(self._comm.allgather((os.uname().nodename, self._found)))
            if fault:
                self._left = 0
                raise Disagreement(fault)


def _judge(reports):
    """What is wrong with what compare() or fail() has of each rank; ""."""
    for report in reports:
        if isinstance(report, str):
            return report
    for kind in ("train", "valid"):
        known = [(rank, host, found[kind]) for rank, (host, found) in enumerate(reports)
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


def ranks_of(benchmark):
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
        _ranks.compare()
