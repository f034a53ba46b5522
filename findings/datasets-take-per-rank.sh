#!/usr/bin/env bash
#
# datasets 5.2.0: IterableDataset.take and skip, followed by
# split_dataset_by_node.
#
# Guess: take(4) is the first four examples of the stream, skip(4) the rest,
# and splitting either among ranks divides these same examples whatever the
# number of ranks.
#
# What happens: the count is divided, not the examples.  When the number of
# files is a multiple of the number of ranks, every rank takes (or skips) its
# part of the four from the head of its own files.  Which examples take(4)
# means therefore depends on the number of ranks: with four files of three
# examples, one and three ranks take a0 a1 a2 b0, two ranks take a0 a1 b0 b1,
# four ranks take a0 b0 c0 d0.  No warning.
#
# Why it matters: take(n) and skip(n) are the usual way to hold out a
# validation part of a stream.  A job that continues on a different number of
# ranks trains on examples that it validated on before, and opens different
# files for its first n examples.

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/python -m pip install --quiet --disable-pip-version-check \
	'datasets==5.2.0' 'numpy==2.4.6' >pip.log 2>&1 || { cat pip.log >&2; exit 1; }

export HF_HOME=$work/cache HF_HUB_OFFLINE=1
env/bin/python -W error::UserWarning - <<'EOF'
import importlib.metadata
import sys

from datasets import IterableDataset
from datasets.distributed import split_dataset_by_node


def examples(files):
    """Yields three examples of every file, named after the file."""
    for file in files:
        for number in range(3):
            yield {"name": f"{file}{number}"}


stream = IterableDataset.from_generator(
    examples, gen_kwargs={"files": ["a", "b", "c", "d"]}
)


def names(dataset, count):
    """Returns what all ranks together read, sorted."""
    return sorted(
        example["name"]
        for rank in range(count)
        for example in split_dataset_by_node(dataset, rank, count)
    )


print("datasets", importlib.metadata.version("datasets"))
print("a stream of four files, a to d, of three examples each")
taken = {}
for count in (1, 2, 3, 4):
    taken[count] = names(stream.take(4), count)
    print(f"take(4) on {count} ranks reads", *taken[count])
trained = names(stream.skip(4), 4)
print("skip(4) on 4 ranks reads", *trained)
both = sorted(set(taken[2]) & set(trained))
print("in take(4) on 2 ranks and in skip(4) on 4 ranks:", *both)

first = ["a0", "a1", "a2", "b0"]
if (
    taken[1] != first
    or taken[2] != ["a0", "a1", "b0", "b1"]
    or taken[3] != first
    or taken[4] != ["a0", "b0", "c0", "d0"]
    or both != ["a1", "b1"]
):
    sys.exit("the behaviour is other than stated")
print("as stated: the number of ranks decides which examples take(4) means")
EOF
