"""holders.py LISTING DIGEST RANKS WORKERS - processes that hold a lazy list.

Runs under the preload. Every rank makes the adapter's FileList of the listing and forks workers,
who read names of it at random. Prints "ready", and ends when standard input does.
"""
import os
import random
import sys

READS = 20_000


def read(files, seed):
    """Names at random."""
    chosen = random.Random(seed)
    for _ in range(READS):
        files[chosen.randrange(len(files))]  # pylint: disable=pointless-statement


def fork(run):
    """A child that runs and ends."""
    pid = os.fork()
    if pid == 0:
        try:
            run()
        finally:
            os._exit(0)  # pylint: disable=protected-access
    return pid


def main():
    """One process starts all."""
    file, digest, ranks, workers = sys.argv[1:]
    said, told = os.pipe()
    waiting, end = os.pipe()  # ends with the first process

    def worker(files, seed):
        read(files, seed)
        os.write(told, b".")
        os.read(waiting, 1)

    def rank(number):
        os.close(end)
        from _libshard import mapped_listing, sequences  # libshard.so holds them

        files = sequences.FileList(mapped_listing.Listing.of_file(file, digest), "/data/train/")
        for k in range(int(workers)):
            fork(lambda k=k: worker(files, number * 1000 + k))
        worker(files, number * 1000 + 999)

    for number in range(int(ranks)):
        fork(lambda number=number: rank(number))
    left = int(ranks) * (int(workers) + 1)
    while left > 0:
        left -= len(os.read(said, left))
    print("ready", flush=True)
    sys.stdin.read()


main()
