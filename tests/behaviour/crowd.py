#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many processes of one machine ask for one dataset at once, and some of them are killed.

One listing is made, and one more for each process that is killed while its shardctl makes one. Those that live have
their shares; with those of the dead, as shardctl tells them, they are the dataset. Nothing is left behind.

shardctl is slowed by naps (preloads/failing.c), so that takes no CPU. How long the longest has waited is told, and is no
check: a machine that is busy delays all.

    python3 -m tests.behaviour.crowd [--processes 512 --files 100000]
"""
import argparse
import fcntl
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tests.harness import confine, paths, processes
from tests.harness.processes import until
from tests.harness.verdicts import Verdicts

MEMORY = 8 << 30
TAKES = 4  # seconds, the listing
PATIENCE = 800  # seconds: more than all that are killed could waste
confine.begin()
WORK = tempfile.mkdtemp(prefix="shard-crowd.")
DATA, CACHE, TOLD, BIN = (os.path.join(WORK, name) for name in ("data", "cache", "told", "bin"))
HOLD = WORK + "/hold"  # while it is there, who makes a listing waits
OWN = r"[0-9a-f]{32}\.named\.listing"


def content(path):
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()


def of_shardctl(rank):
    """Whether the rank has said that it runs shardctl."""
    return "listing '" in content(f"{TOLD}/{rank}.err")


def left():
    """Processes that have to do with the dataset: {pid: command line}."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = content(f"/proc/{pid}/cmdline").replace("\0", " ")
        except OSError:
            continue  # it has ended meanwhile
        if DATA in command:
            found[int(pid)] = command
    return found


class Round:
    """One crowd. killed: how many; builder: the one that has started shardctl is killed before the others."""

    def __init__(self, processes, killed, builder, chance, took):
        for folder in (CACHE, TOLD):
            shutil.rmtree(folder, ignore_errors=True)
            os.mkdir(folder, 0o700)
        base = {**os.environ, "LD_PRELOAD": BIN + "/libshard.so", "SHARD_DATASET": DATA, "SHARD_CACHE_DIR": CACHE,
                "SHARD_SIZE": str(processes), "SHARD_JOB": "crowd", "SHARD_LOG": "info", "SHARD_TIMEOUT": str(PATIENCE)}
        if builder:
            open(HOLD, "wb").close()
        gate, opens = os.pipe()
        self.ranks = []
        for rank in range(processes):
            with open(f"{TOLD}/{rank}.out", "wb") as out, open(f"{TOLD}/{rank}.err", "wb") as err:
                self.ranks.append(subprocess.Popen([WORK + "/crowd", DATA], stdin=gate, stdout=out, stderr=err,
                                                   env={**base, "SHARD_RANK": str(rank)}))
        os.close(gate)
        victims = chance.sample(range(processes), killed - builder)
        moments = sorted((chance.uniform(0, took), rank) for rank in victims)
        os.close(opens)
        self.begin, self.dead, self.wasted = time.monotonic(), set(), 0
        if builder:
            self.kill(until(lambda: [r for r in range(processes) if of_shardctl(r)], PATIENCE)[0])
            os.unlink(HOLD)
        for moment, rank in moments:
            time.sleep(max(0, self.begin + moment - time.monotonic()))
            self.kill(rank)
        for process in self.ranks:
            process.wait(timeout=PATIENCE)
        self.builds = sum(map(of_shardctl, range(processes)))

    def kill(self, rank):
        """Kill a rank if it lives."""
        process = self.ranks[rank]
        if process.poll() is None:
            process.kill()
            process.wait()
            self.dead |= {rank} if process.returncode == -signal.SIGKILL else set()
            if rank in self.dead and of_shardctl(rank):
                self.wasted += 1

    def wrong(self, shares):
        """What is not as it should be, a line each; self.longest, self.memory."""
        self.longest = self.memory = 0
        for rank, process in enumerate(self.ranks):
            if rank in self.dead:
                continue
            lines, said = content(f"{TOLD}/{rank}.out").splitlines(), content(f"{TOLD}/{rank}.err")
            if process.returncode or not lines:
                yield f"rank {rank}: status {process.returncode}, {said}"
                continue
            seconds, kilobytes = lines.pop().split()
            self.longest, self.memory = max(self.longest, float(seconds)), self.memory + int(kilobytes) * 1024
            if sorted(lines) != sorted(shares[rank]):
                yield f"rank {rank}: {len(lines)} names, not {len(shares[rank])}"
        if not 1 <= self.builds <= 1 + self.wasted:
            yield f"{self.builds} listings were made, and {self.wasted} who made one were killed"
        others = [name for name in os.listdir(CACHE) if not re.fullmatch(OWN, name)]
        listings = [name for name in os.listdir(CACHE) if name.endswith(".listing")]
        if others or len(listings) != 1:
            yield f"in the cache: {sorted(os.listdir(CACHE))}"
        for name in os.listdir(CACHE):
            with open(os.path.join(CACHE, name), "rb") as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    yield f"{name} is locked"
        yield from (f"process {pid} is left: {command}" for pid, command in left().items())


def list_slowly(nap):
    """Make the shardctl of the ranks nap so long each time before it reads 2 KB, and list once. What it tells."""
    with open(BIN + "/shardctl", "w", encoding="utf-8") as script:
        script.write(f"#!/bin/sh\nwhile [ -e {HOLD} ]; do sleep 0.05; done\nFAILING_NAP={nap} LD_PRELOAD={paths.preload('failing')} "
                     f"exec {paths.SHARDCTL} \"$@\"\n")
    os.chmod(BIN + "/shardctl", 0o755)
    return json.loads(subprocess.run([BIN + "/shardctl", "index", DATA, "-o", WORK + "/x.listing", "--json"],
                                     stdout=subprocess.PIPE, check=True).stdout)


def main():
    processes.end_jobs_on_signals()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=128)
    parser.add_argument("--files", type=int, default=20000)
    args = parser.parse_args()
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"SEED={seed}")
    verdicts, chance, killed = Verdicts(), random.Random(seed), args.processes // 8
    try:
        subprocess.run(["gcc", "-O1", "-D_GNU_SOURCE", "-o", WORK + "/crowd", paths.source("programs", "crowd.c")],
                       check=True)
        os.mkdir(BIN)
        shutil.copy(paths.LIBRARY, BIN)
        os.mkdir(DATA)
        for number in range(args.files):
            os.close(os.open(f"{DATA}/img_{number:07}.jpeg", os.O_CREAT | os.O_WRONLY))
        nap = 1000  # microseconds
        nap = int(nap * TAKES / list_slowly(nap)["seconds"])  # how many there are depends on the file system
        told = list_slowly(nap)
        os.mkdir(WORK + "/shares")
        subprocess.run([paths.SHARDCTL, "manifest", WORK + "/x.listing", "--size", str(args.processes), "-o",
                        WORK + "/shares/%r"], check=True, stdout=subprocess.DEVNULL)
        shares = [content(f"{WORK}/shares/{rank}").splitlines() for rank in range(args.processes)]
        verdicts.check("shardctl's shares", sorted(sum(shares, [])) == sorted(os.listdir(DATA)))
        took = told["seconds"]
        for name, dead, builder in (("nobody is killed", 0, False), (f"{killed} are killed", killed, False),
                                    (f"{killed} are killed, who makes it first", killed, True)):
            crowd = Round(args.processes, dead, builder, chance, took)
            wrong = list(crowd.wrong(shares))
            if builder and not crowd.wasted:
                wrong.append("who made it was not killed")
            if crowd.memory + told["peak_rss"] > MEMORY:
                wrong.append(f"{crowd.memory} bytes")
            verdicts.tell(f"{args.processes} processes, {name}: {crowd.builds} listings, {crowd.longest:.2f} s "
                          f"({took:.2f} s alone), {crowd.memory >> 20} MiB", wrong)
    finally:
        for pid in left():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(WORK, ignore_errors=True)
    return verdicts.conclude()


if __name__ == "__main__":
    sys.exit(main())
