"""make bench PART=walk: shardctl's walk of a slow file system against 64 threads of Python.

The file system is tests/programs/slowfs.c, mounted anew for each run: 2 ms an opendir, 0.5 ms a reply.
As a program this is the peer: python -m scripts.bench_walk DIRECTORY.
"""
import contextlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from scripts.bench_job import rounds
from tests.harness import paths

CASES = (("4,000 directories of 50 files", {"SLOW_DIRS": 4000, "SLOW_FILES": 50}),
         ("the same without types, 0.5 ms a stat",
          {"SLOW_DIRS": 4000, "SLOW_FILES": 50, "SLOW_UNKNOWN": 1, "SLOW_STAT": 500}),
         ("100 directories of 10,000 files", {"SLOW_DIRS": 100, "SLOW_FILES": 10_000}),
         ("a directory of 1,000,000 files", {"SLOW_FILES": 1_000_000}),
         ("a chain of 300 directories", {"SLOW_DIRS": 300, "SLOW_FILES": 1, "SLOW_CHAIN": 1}))


@contextlib.contextmanager
def slow(folder, variables):
    """The mounted file system."""
    os.makedirs(folder, exist_ok=True)
    env = {**os.environ, "SLOW_OPEN": "2000", "SLOW_REPLY": "500",
           **{name: str(value) for name, value in variables.items()}}
    server = subprocess.Popen([os.path.join(paths.BUILD, "tests", "slowfs"), folder], env=env,
                              stdout=subprocess.DEVNULL)
    try:
        while not os.path.ismount(folder):
            if server.poll() is not None:
                sys.exit("bench: slowfs cannot be mounted; this part needs root and FUSE")
            time.sleep(0.01)
        yield
    finally:
        subprocess.run(["umount", folder], check=server.poll() is None)
        server.wait()


def part_walk(args, report):
    """Walks of a file system that takes its time."""
    folder = os.path.join(args.folder, "slow")
    output = os.path.join(args.folder, "slow.listing")
    index = [os.path.join(os.path.dirname(args.preload), "shardctl"), "index", folder, "-o", output, "--json"]
    peer = [args.python, "-m", "scripts.bench_walk", folder]
    for what, variables in CASES:
        peaks = []

        def timed(command, variables=variables):
            with slow(folder, variables):
                begin = time.time()
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                return time.time() - begin, json.loads(done.stdout)

        def walk(timed=timed, peaks=peaks):
            took, facts = timed(index)
            peaks.append(facts["peak_rss"])
            return took

        took, threads = rounds(args, walk, lambda timed=timed: timed(peer)[0])
        report.add(f"walk of {what}", "s", took, "64 threads of Python", threads, took / threads, "<= 1",
                   took <= threads)
        report.add(f"peak memory of that, {what}", "MB", max(peaks) / (1 << 20), "SHARD_BUILD_MEMORY", 256,
                   max(peaks) / (256 << 20), "none", None)


def scan(path):
    """(directories, number of files) in a directory."""
    folders, names = [], 0
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            else:
                names += 1
    return folders, names


def main():
    """The peer: count the files by 64 threads."""
    total = 0
    with ThreadPoolExecutor(64) as pool:
        todo = {pool.submit(scan, sys.argv[1])}
        while todo:
            done, todo = wait(todo, return_when=FIRST_COMPLETED)
            for future in done:
                folders, names = future.result()
                total += names
                todo |= {pool.submit(scan, folder) for folder in folders}
    print(total)


if __name__ == "__main__":
    main()
