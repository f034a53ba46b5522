#!/usr/bin/env bash
#
# grain 0.2.18: DataLoader with IndexSampler, drop_remainder=False.
#
# Guess: ten records shared by four ranks with drop_remainder=False give
# shards of 3, 3, 2 and 2 records, and one epoch on every rank reads each of
# the ten records once.  ShardOptions describes exactly this: the remainder
# goes to the first shards.
#
# What happens: the shards are cut as described (0-2, 3-5, 6-7, 8-9), but
# each rank ends its epoch after two records.  Records 2 and 5 are read by
# nobody, and no warning is given; with drop_remainder=True the same call
# does warn that records are dropped.  Three records on four ranks give every
# rank an empty epoch.  Over two epochs a record is seen once, twice or three
# times, depending on where it lies in its shard.
#
# Why it matters: somebody who shares out files as grain records believes
# that drop_remainder=False covers the whole list.  The files at the end of
# the longer shards are never opened, and which files those are changes with
# the number of ranks.

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/python -m pip install --quiet --disable-pip-version-check \
	'grain==0.2.18' 'numpy==2.4.6' >pip.log 2>&1 || { cat pip.log >&2; exit 1; }

env/bin/python - <<'EOF'
import importlib.metadata
import logging
import sys

logging.disable(logging.WARNING)  # grain's note that jax is not installed
import grain.python as grain


class Files:
    """A data source whose record i is the number i."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return int(index)


def ranks(records, count, epochs=1):
    """Returns, per rank, the records that a DataLoader hands out."""
    shares = []
    for rank in range(count):
        options = grain.ShardOptions(rank, count, drop_remainder=False)
        sampler = grain.IndexSampler(
            records, shard_options=options, shuffle=False, num_epochs=epochs
        )
        loader = grain.DataLoader(
            data_source=Files(records), sampler=sampler, worker_count=0
        )
        shares.append(list(loader))
    return shares


print("grain", importlib.metadata.version("grain"))
ten = ranks(10, 4)
unread = sorted(set(range(10)) - {record for share in ten for record in share})
print("ten records, four ranks, one epoch, nothing to be dropped:", ten)
print("records that no rank reads:", unread)
three = ranks(3, 4)
print("three records, four ranks:", three)
twice = ranks(10, 4, epochs=2)
print("ten records, four ranks, two epochs:", twice)
seen = [sum(share.count(record) for share in twice) for record in range(10)]
print("times each record is read in two epochs:", seen)

if (
    ten != [[0, 1], [3, 4], [6, 7], [8, 9]]
    or unread != [2, 5]
    or three != [[], [], [], []]
    or seen != [2, 2, 1, 2, 2, 1, 3, 2, 3, 2]
):
    sys.exit("the behaviour is other than stated")
print("as stated: records are left out although nothing was to be dropped")
EOF
