#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Workers of a rank, and shells side by side: which of them have one listing, though a file is added meanwhile.

A rank's main process lists, a file is added, and workers that multiprocessing has started in each of its ways (as
PyTorch's DataLoader does) list, too: they have what the rank has, and each job makes one listing. So it is under
mpirun, where a program numbers its ranks itself (mp.spawn), and with SHARD_RANK and SHARD_SIZE. README's recipe,
shardctl run in several shells: each has its own listing, unless SHARD_JOB gives them one.

    python3 -m tests.behaviour.workers
"""
import os
import shutil
import subprocess
import sys
import tempfile

from tests.harness import confine, paths
from tests.harness.verdicts import Verdicts

confine.begin()
WORK = tempfile.mkdtemp(prefix="shard-workers.")
DATA, CACHE = WORK + "/data", WORK + "/cache"
NAMES = {f"f{i:02}" for i in range(20)}
LATER = "f00a"  # before most of the others: it would move them

RANK = '''
import multiprocessing, os, sys, time

def work(queue):
    queue.put(sorted(os.listdir(sys.argv[1])))

def rank(start, number, size):
    """List, wait until a file is added, and have workers list."""
    own = sorted(os.listdir(sys.argv[1]))
    open(sys.argv[2] + "/listed%d" % number, "w").close()
    while not os.path.exists(sys.argv[2] + "/added"):
        if all(os.path.exists(sys.argv[2] + "/listed%d" % one) for one in range(size)) and number == 0:
            open(sys.argv[1] + "/LATER", "w").close()
            open(sys.argv[2] + "/added", "w").close()
        time.sleep(0.02)
    context = multiprocessing.get_context(start)
    queue = context.Queue()
    workers = [context.Process(target=work, args=(queue,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    theirs = [queue.get() for _ in workers]
    for worker in workers:
        worker.join()
    with open(sys.argv[2] + "/rank%d" % number, "w") as out:
        out.write("".join(name + "\\\\n" for name in own) if theirs == [own, own] else repr((own, theirs)))

def numbered(start, number, size):
    os.environ.update(RANK=str(number), WORLD_SIZE=str(size))
    rank(start, number, size)

if __name__ == "__main__":
    start = sys.argv[3]
    if sys.argv[4] == "spawned":
        ranks = [multiprocessing.get_context("spawn").Process(target=numbered, args=(start, k, 2)) for k in range(2)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join()
    else:
        rank(start, int(os.environ[sys.argv[4]]), 2)
'''.replace("LATER", LATER).replace("\\\\", "\\")


def fresh():
    """The dataset and the cache anew."""
    for folder in (DATA, CACHE, WORK + "/told"):
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder, 0o700)
    for name in NAMES:
        open(os.path.join(DATA, name), "wb").close()


def environment(**more):
    """Of a rank."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SHARD_", "OMPI_", "PMI"))}
    return {**kept, "SHARD_DATASET": DATA, "SHARD_CACHE_DIR": CACHE, "SHARD_LOG": "info",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **more}


def run(commands):
    """Commands side by side, each with its environment: what they say."""
    running = [subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True) for command, env in commands]
    return "".join(one.communicate(timeout=600)[0] for one in running)


def judge(said, listings):
    """What is wrong: ranks whose workers differ, shares that are none of one listing, listings made."""
    wrong, shares = [], []
    for number in range(2):
        with open(f"{WORK}/told/rank{number}", encoding="utf-8") as stream:
            shares.append(stream.read().splitlines())
    if set(sum(shares, [])) != NAMES or len(sum(shares, [])) != len(NAMES):
        wrong.append(f"shares {shares}")
    made = said.count("info: listing '")
    return wrong + ([f"{made} listings were made: {said[-1500:]}"] if made != listings else [])


def main():
    verdicts = Verdicts()
    program = WORK + "/rank.py"
    with open(program, "w", encoding="utf-8") as stream:
        stream.write(RANK)
    for start in ("fork", "spawn", "forkserver"):
        words = [sys.executable, program, DATA, WORK + "/told", start]
        fresh()
        said = run([(["mpirun", "--oversubscribe", "-n", "2", "env", "LD_PRELOAD=" + paths.LIBRARY, *words,
                      "OMPI_COMM_WORLD_RANK"], environment())])
        verdicts.tell(f"mpirun, {start}", judge(said, 1))
        fresh()
        said = run([([*words, "spawned"], environment(LD_PRELOAD=paths.LIBRARY))])
        verdicts.tell(f"ranks that a program numbers, {start}", judge(said, 1))
        for job, listings in (({}, 2), ({"SHARD_JOB": "one"}, 1)):
            fresh()
            said = run([([*words, "SHARD_RANK"], environment(LD_PRELOAD=paths.LIBRARY, SHARD_RANK=str(k), SHARD_SIZE="2",
                                                           **job)) for k in range(2)])
            verdicts.tell(f"by hand{', SHARD_JOB' if job else ''}, {start}", judge(said, listings))
    # Shells, one after the other, and a file that is added between them.
    for job in ({}, {"SHARD_JOB": "tars"}):
        fresh()
        tars = []
        for k in range(4):
            tar = f"{WORK}/told/{k}.tar"
            said = run([([paths.SHARDCTL, "run", "--dataset", DATA, "--rank", str(k), "--size", "4", "--", "tar", "cf", tar, "-C",
                          DATA, "."], environment(SHARD_STRATEGY="range", **job))])
            names = subprocess.run(["tar", "tf", tar], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
            tars.append([name[2:] for name in names if name != "./"])
            if k == 1:
                open(os.path.join(DATA, LATER), "wb").close()
        packed = sorted(sum(tars, []))
        if job:
            verdicts.check("shells with SHARD_JOB: one listing", packed == sorted(NAMES), str(tars))
        else:
            verdicts.check("shells without it: each lists", "info: listing '" in said and sorted(tars[0] + tars[1]) == sorted(NAMES)[:10] and
                           len(tars[3]) in (5, 6), str(tars) + said)
    shutil.rmtree(WORK, ignore_errors=True)
    return verdicts.conclude()


if __name__ == "__main__":
    sys.exit(main())
