#!/usr/bin/env bash
#
# tfrecord 1.14.6: tfrecord_loader(..., shard=(rank, count)), with and
# without an index file.
#
# Guess: shard=(rank, count) divides the records.  Without an index file the
# loader either counts records while it reads, or refuses the argument.  With
# an index file and no shard, the records come in the order of the file.
#
# What happens: without an index file the shard argument is ignored.  Every
# rank gets every record, with no warning.  With an index file the records
# are divided, but a reader that asks for no shard begins at a record chosen
# at random and wraps around at the end of the file: giving the index is
# enough to change the order, although no shuffle was asked for.
#
# Why it matters: index files live beside the data and are made by a separate
# tool.  A file that was shared out without its index turns N ranks that each
# read a part into N ranks that each read the whole, and the run looks
# healthy: same loss, N times the reading.

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/python -m pip install --quiet --disable-pip-version-check \
	'tfrecord==1.14.6' 'numpy==2.4.6' 'protobuf==7.36.2' \
	>pip.log 2>&1 || { cat pip.log >&2; exit 1; }

env/bin/python - <<'EOF'
import importlib.metadata
import sys

import numpy
import tfrecord
from tfrecord.tools import tfrecord2idx

RECORDS = list(range(7))
RANKS = 3

writer = tfrecord.TFRecordWriter("data.tfrecord")
for number in RECORDS:
    writer.write({"number": (number, "int")})
writer.close()
tfrecord2idx.create_index("data.tfrecord", "data.index")


def read(index, shard=None):
    """Returns the numbers that one reader gets."""
    loader = tfrecord.tfrecord_loader(
        "data.tfrecord", index, {"number": "int"}, shard=shard
    )
    return [int(record["number"][0]) for record in loader]


print("tfrecord", importlib.metadata.version("tfrecord"))
bare = [read(None, (rank, RANKS)) for rank in range(RANKS)]
print("three ranks, no index file:", bare)
indexed = [read("data.index", (rank, RANKS)) for rank in range(RANKS)]
print("three ranks, index file:   ", indexed)
numpy.random.seed(1)
whole = [read("data.index") for _ in range(40)]
starts = sorted({order[0] for order in whole})
print("one reader of the whole file, no index file:", read(None))
print("one reader of the whole file, index file:   ", whole[0], whole[1])
print("first records seen in 40 such reads:", starts)

if (
    bare != [RECORDS] * RANKS
    or indexed != [[0, 1], [2, 3], [4, 5, 6]]
    or read(None) != RECORDS
    or len(starts) < 2
    or any(sorted(order) != RECORDS for order in whole)
):
    sys.exit("the behaviour is other than stated")
print("as stated: without an index file every rank reads everything")
EOF
