#!/usr/bin/env bash
#
# MONAI 1.6.1: monai.data.partition_dataset(files, ratios=...).
#
# Guess: the parts together hold every file once; only the argument drop_last
# (which is off unless asked for) can leave a file out.
#
# What happens: every part's length is rounded by itself and nothing is done
# about the sum.  Five files in four equal parts give four parts of one file,
# and the fifth file is in no part.  Six files in four equal parts give 2, 2,
# 2 and 0.  No error, no warning.  The same split asked for as
# num_partitions=4 holds every file and no part is empty.
#
# Why it matters: ratios are the way to give ranks, or training and
# validation, their portions of one list.  Files vanish from the run, or a
# rank is left without any, depending on how the length of the list happens
# to round.

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/python -m pip install --quiet --no-compile --disable-pip-version-check \
	'monai==1.6.1' 'torch==2.13.0' 'numpy==2.4.6' \
	>pip.log 2>&1 || { cat pip.log >&2; exit 1; }

env/bin/python -W ignore - <<'EOF'
import importlib.metadata
import sys
import warnings

from monai.data import partition_dataset


def split(count, **how):
    """Returns the lengths of the parts, and the files that are in none."""
    files = [f"file{number}" for number in range(count)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts = partition_dataset(files, **how)
    lost = set(files) - {file for part in parts for file in part}
    return [len(part) for part in parts], sorted(lost)


print("monai", importlib.metadata.version("monai"))
stated = [
    (5, {"ratios": [1, 1, 1, 1]}, ([1, 1, 1, 1], ["file4"])),
    (6, {"ratios": [1, 1, 1, 1]}, ([2, 2, 2, 0], [])),
    (7, {"ratios": [1, 1, 1]}, ([2, 2, 2], ["file6"])),
    (5, {"num_partitions": 4}, ([2, 1, 1, 1], [])),
    (6, {"num_partitions": 4}, ([2, 2, 1, 1], [])),
]
for count, how, expected in stated:
    lengths, lost = split(count, **how)
    print(f"{count} files, {how}: lengths {lengths}, files in no part {lost}")
    if (lengths, lost) != expected:
        sys.exit(f"the behaviour is other than stated: expected {expected}")
print("as stated: ratios leave files out, or parts empty, without a word")
EOF
