#!/usr/bin/env bash
#
# h5py 3.16.0 with HDF5's own virtual datasets: a source that is named by a
# pattern (block-%b.h5, one file for each block of an unlimited dimension),
# where the file of one block is not there.
#
# Guess: the dataset keeps its extent, and the elements of the missing file
# have the fill value, as a virtual dataset with listed sources does.
#
# What happens: the extent ends before the first missing file.  Of four files
# with two elements each, without block-1.h5, two elements are left; the files
# block-2.h5 and block-3.h5 are not read, and nothing is said.  The same four
# files, listed one by one in a virtual layout, give eight elements, two of
# which have the fill value.
#
# Why it matters: a node that has staged its own share of the files, or a copy
# that is not complete, gets a shorter dataset in place of an error.

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/python -m pip install --quiet --disable-pip-version-check \
	'h5py==3.16.0' 'numpy==2.4.6' \
	>pip.log 2>&1 || { cat pip.log >&2; exit 1; }

env/bin/python - <<'EOF'
import os
import sys

import h5py
import numpy
from h5py import h5d, h5p, h5s, h5t

for block in range(4):
    with h5py.File(f"block-{block}.h5", "w") as file:
        file["data"] = numpy.full(2, block)

# By a pattern: blocks of 2 along an unlimited dimension.
blocks = h5s.create_simple((2,), (h5s.UNLIMITED,))
blocks.select_hyperslab((0,), (h5s.UNLIMITED,), (2,), (2,))
source = h5s.create_simple((2,))
source.select_all()
creation = h5p.create(h5p.DATASET_CREATE)
creation.set_fill_value(numpy.array(-1))
creation.set_virtual(blocks, b"block-%b.h5", b"data", source)
with h5py.File("pattern.h5", "w", libver="latest") as file:
    space = h5s.create_simple((0,), (h5s.UNLIMITED,))
    h5d.create(file.id, b"all", h5t.NATIVE_INT64, space, creation)

# The same files, one by one.
layout = h5py.VirtualLayout((8,), dtype="i8")
for block in range(4):
    layout[2 * block:2 * block + 2] = h5py.VirtualSource(f"block-{block}.h5", "data", (2,))
with h5py.File("listed.h5", "w", libver="latest") as file:
    file.create_virtual_dataset("all", layout, fillvalue=-1)


def read(name):
    """Returns the dataset's elements."""
    with h5py.File(name) as file:
        return file["all"][:].tolist()


print("h5py", h5py.version.version, "HDF5", h5py.version.hdf5_version)
before = read("pattern.h5"), read("listed.h5")
os.rename("block-1.h5", "elsewhere")
after = read("pattern.h5"), read("listed.h5")
print(f"all four files: by pattern {before[0]}, listed {before[1]}")
print(f"without block-1.h5: by pattern {after[0]}, listed {after[1]}")
whole = [0, 0, 1, 1, 2, 2, 3, 3]
if (before, after) != ((whole, whole), ([0, 0], [0, 0, -1, -1, 2, 2, 3, 3])):
    sys.exit("the behaviour is other than stated")
print("as stated: by a pattern the dataset ends before the first missing file")
EOF
