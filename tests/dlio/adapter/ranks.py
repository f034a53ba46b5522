"""MPI ranks as forked processes, with as much of mpi4py's communicator as the fork of MLCommons uses.

The parent is the hub: it answers collective calls once all ranks have made them.
"""
import faulthandler
import multiprocessing
import multiprocessing.connection
import os
import pickle
import time

SECONDS = 600


class Stuck(AssertionError):
    """Some rank has waited for ever."""


class Comm:
    """A communicator, in one of the ranks."""

    def __init__(self, rank, size, hub):
        self.rank, self.size, self._hub = rank, size, hub

    def _ask(self, *question):
        self._hub.send(question)
        return self._hub.recv()

    def bcast(self, obj=None, root=0):
        return pickle.loads(self._ask("all", "bcast", pickle.dumps(obj if self.rank == root
                                                                   else None))[root])

    def allgather(self, obj):
        return [pickle.loads(one) for one in self._ask("all", "gather", pickle.dumps(obj))]

    def allreduce_min(self, number):
        return min(self.allgather(number))

    def alltoall(self, objects):
        return [parts[self.rank] for parts in self.allgather(objects)]

    def barrier(self):
        self._ask("all", "barrier", b"")

    def isend(self, obj, dest, tag):
        self._ask("send", dest, tag, obj)
        return self

    def test(self):
        return True

    def iprobe(self, source, tag):
        return self._ask("probe", source, tag)

    def recv(self, source, tag):
        return self._ask("take", source, tag)


def _serve(pipes):
    """Answer until all ranks have reported; their reports."""
    size = len(pipes)
    waiting, letters, reports = {}, {}, {}
    end = time.monotonic() + SECONDS
    while len(reports) < size:
        open_pipes = [pipe for rank, pipe in enumerate(pipes) if rank not in reports]
        ready = multiprocessing.connection.wait(open_pipes, max(end - time.monotonic(), 0))
        if not ready:
            raise Stuck("reported: %s; wait: %s" % (sorted(reports), waiting))
        for pipe in ready:
            rank = pipes.index(pipe)
            kind, *rest = pipe.recv()
            if kind == "report":
                reports[rank] = rest[0]
            elif kind == "all":
                waiting[rank] = rest
            elif kind == "send":
                letters.setdefault((rest[0], rank, rest[1]), []).append(rest[2])
                pipe.send(None)
            else:
                box = letters.get((rank, *rest), [])
                pipe.send(bool(box) if kind == "probe" else box.pop(0))
        if len(waiting) == size:
            if len({kind for kind, _ in waiting.values()}) > 1:
                raise Stuck("different calls: %s" % waiting)
            for rank, pipe in enumerate(pipes):
                pipe.send([waiting[i][1] for i in range(size)])
            waiting = {}
        elif reports and waiting and len(waiting) + len(reports) == size:
            raise Stuck("reported: %s; wait for ever: %s" % (dict(sorted(reports.items())), sorted(waiting)))
    return [reports[rank] for rank in range(size)]


def run(size, function, *args):
    """function(comm, *args) in `size` ranks: what they return, or ("error", type, text)."""
    pids, pipes = [], []
    for rank in range(size):
        ours, theirs = multiprocessing.Pipe()
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                faulthandler.dump_traceback_later(SECONDS * 0.9)  # what it waits for
                try:
                    report = function(Comm(rank, size, theirs), *args)
                except Exception as error:  # pylint: disable=broad-except
                    report = "error", type(error).__name__, str(error)
                theirs.send(("report", report))
            finally:
                os._exit(0)
        theirs.close()
        pids.append(pid)
        pipes.append(ours)
    try:
        return _serve(pipes)
    finally:
        for pid in pids:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
            os.waitpid(pid, 0)
