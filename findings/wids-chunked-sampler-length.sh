#!/usr/bin/env bash
#
# wids 0.1.11 with torch 2.13.0: the shares that DistributedChunkedSampler
# gives to four ranks of a gloo group.
#
# Guess: as with torch's DistributedSampler, all ranks get as many indexes as
# len() of the sampler says, and arguments num_replicas and rank that are
# given count.
#
# What happens: len() is the same in all ranks, and the last ranks yield fewer
# indexes than it says: of 5 samples the fourth rank yields none where len()
# is 2, of 10 samples it yields 1 of 3.  Argument rank=0 is taken as "not
# given": all four ranks that pass it get their own shares.  Without a process
# group both arguments are overruled: each of four samplers, made with ranks 0
# to 3 of 4, yields all indexes, and a warning says so.
#
# Why it matters: a loop of as many steps as len() says runs dry, and a
# collective call in the loop waits for a rank that has left it.  A launcher
# whose workers pass rank and size by hand reads the dataset once per rank.

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/python -m pip install --quiet --no-compile --disable-pip-version-check \
	'wids==0.1.11' 'torch==2.13.0' 'numpy==2.4.6' \
	>pip.log 2>&1 || { cat pip.log >&2; exit 1; }

cat >ranks.py <<'EOF'
import importlib.metadata
import os
import sys
import warnings

import torch.distributed
import torch.multiprocessing
import wids

RANKS = 4


def rank_main(rank, count):
    """Prints what all ranks have, as rank 0."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{os.getcwd()}/meet{count}", rank=rank, world_size=RANKS)
    samples = list(range(count))
    own = wids.DistributedChunkedSampler(samples, shuffle=False)
    zero = wids.DistributedChunkedSampler(samples, shuffle=False, num_replicas=RANKS, rank=0)
    all_ranks = [None] * RANKS
    torch.distributed.all_gather_object(all_ranks, (len(own), list(own), list(zero)))
    if rank == 0:
        with open(f"out{count}", "w", encoding="ascii") as out:
            print([length for length, _, _ in all_ranks], [got for _, got, _ in all_ranks],
                  [got for _, _, got in all_ranks], sep="\n", file=out)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    print("wids", importlib.metadata.version("wids"))
    stated = {
        5: ([2, 2, 2, 2], [[0, 1], [2, 3], [4], []]),
        10: ([3, 3, 3, 3], [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]),
    }
    right = True
    for count, (lengths, shares) in stated.items():
        torch.multiprocessing.spawn(rank_main, (count,), nprocs=RANKS)
        with open(f"out{count}", encoding="ascii") as out:
            said, got, zero = out.read().splitlines()
        print(f"{count} samples: len() {said}, indexes {got}; with rank=0 everywhere {zero}")
        right &= (said, got, zero) == (str(lengths), str(shares), str(shares))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        alone = [list(wids.DistributedChunkedSampler(list(range(3)), shuffle=False, num_replicas=RANKS, rank=rank))
                 for rank in range(RANKS)]
    print(f"no process group, ranks 0 to 3 of 4, 3 samples: {alone}; {len(caught)} warnings")
    right &= alone == [[0, 1, 2]] * RANKS and bool(caught)
    sys.exit(None if right else "the behaviour is other than stated")
EOF
env/bin/python -W ignore ranks.py
echo "as stated: len() is not what the last ranks yield, and rank=0 is not taken"
