"""A job that hangs, by what its processes do: none of them works, nor would if there were a free CPU."""
import os
import time

from tests.harness import processes

WORKS = 0.25  # of a second: what only looks now and then for a message takes a tenth


def _threads(pid):
    """{(process, thread): (its state, ns that it has run, ns that it has waited for a CPU)} of a tree of processes."""
    found = {}
    for member in processes.process_tree(pid):
        try:
            for thread in os.listdir(f"/proc/{member}/task"):
                with open(f"/proc/{member}/task/{thread}/stat", encoding="utf-8", errors="replace") as stream:
                    state = stream.read().rpartition(")")[2].split()[0]
                with open(f"/proc/{member}/task/{thread}/schedstat", encoding="ascii") as stream:
                    ran, waited = map(int, stream.read().split()[:2])
                found[member, thread] = state, ran, waited
        except OSError:
            continue  # it has ended meanwhile
    return found


class Idle:
    """To be asked again and again whether a job hangs: for so many seconds no thread has come, gone, waited for a disk or
    taken a quarter of the time in which it had not to wait for a CPU."""

    def __init__(self, pid, seconds):
        self.pid, self.seconds = pid, seconds
        self._at, self._before, self._since = time.monotonic(), {}, time.monotonic()

    def __call__(self):
        now = time.monotonic()
        if now - self._at < 1:
            return False
        threads, elapsed = _threads(self.pid), (now - self._at) * 1e9
        works = threads.keys() != self._before.keys() or any(
            state == "D" or ran - self._before[one][1] > WORKS * max(elapsed - (waited - self._before[one][2]), 0)
            for one, (state, ran, waited) in threads.items())
        self._at, self._before = now, threads
        self._since = now if works else self._since
        return now - self._since >= self.seconds
