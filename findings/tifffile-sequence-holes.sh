#!/usr/bin/env bash
#
# tifffile 2026.3.3 with zarr 3.1.6: TiffSequence(files, pattern=...) over a
# list that does not have all combinations of the indices in its names.
#
# Guess: three pictures named t0_c0, t0_c1 and t2_c0 make an error (the grid
# is not full), or a grid whose missing planes hold a fill value.
#
# What happens: the grid is made (two axes, six planes for three files) and
# no error or warning is given, but asarray() never writes the planes that
# have no file.  Their contents are whatever the memory held before; an array
# handed in as out= keeps its old values there.  The same sequence read
# through aszarr() shows zeros in those planes.  So the two readers of one
# object disagree.  The grid also starts at the smallest index seen: two
# pictures t1_c1 and t2_c0 make a grid of four planes of which two are not
# written, and position 0 is time 1.
#
# Why it matters: a rank's share of such a list is rarely a full grid.  Each
# rank gets an array larger than its share, with planes that belong to no
# file and often show pixels of pictures that were read earlier.

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/python -m pip install --quiet --disable-pip-version-check \
	'tifffile==2026.3.3' 'zarr==3.1.6' 'numpy==2.4.6' \
	>pip.log 2>&1 || { cat pip.log >&2; exit 1; }

env/bin/python -W error::UserWarning - <<'EOF'
import importlib.metadata
import sys

import numpy
import tifffile
import zarr

for time in range(3):
    for channel in range(2):
        plane = numpy.full((2, 2), 10 * time + channel + 1, "uint8")
        tifffile.imwrite(f"t{time}_c{channel}.tif", plane)


def sequence(*names):
    """Returns the sequence of the named pictures, on the axes T and C."""
    files = [f"{name}.tif" for name in names]
    return tifffile.TiffSequence(files, pattern=r"(t)(\d+)_(c)(\d+)")


def corners(array):
    """Returns the first pixel of each plane."""
    return array[..., 0, 0].tolist()


for package in ("tifffile", "zarr"):
    print(package, importlib.metadata.version(package))
three = sequence("t0_c0", "t0_c1", "t2_c0")
old = numpy.full((3, 2, 2, 2), 99, "uint8")
three.asarray(out=old)
print("t0_c0, t0_c1, t2_c0: axes", three.axes, "shape", three.shape)
print("  asarray(out=an array full of 99):", corners(old))
with three.aszarr() as store:
    view = corners(zarr.open(store, mode="r")[...])
print("  aszarr():                        ", view)
two = sequence("t1_c1", "t2_c0")
share = numpy.full((2, 2, 2, 2), 99, "uint8")
two.asarray(out=share)
print("t1_c1, t2_c0: shape", two.shape)
print("  asarray(out=an array full of 99):", corners(share))

if (
    three.shape != (3, 2)
    or three.axes != "TC"
    or corners(old) != [[1, 2], [99, 99], [21, 99]]
    or view != [[1, 2], [0, 0], [21, 0]]
    or two.shape != (2, 2)
    or corners(share) != [[99, 12], [21, 99]]
):
    sys.exit("the behaviour is other than stated")
print("as stated: planes without a file are left as the memory was")
EOF
