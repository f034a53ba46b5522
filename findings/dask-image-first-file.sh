#!/usr/bin/env bash
#
# dask-image 2026.5.0 with dask 2026.8.0 and PIMS 0.7: imread of a pattern
# that matches pictures of 8 and of 16 bits.
#
# Guess: the array has the wider type, or the read stops because the pictures
# differ; and slicing one plane out before or after computing makes no
# difference.
#
# What happens: the type of the first picture is announced for all.  The
# plane of the 16-bit picture, computed by itself, is 16 bits wide and holds
# 300; the same plane of the whole computed array is 8 bits wide and holds
# 44, the value modulo 256.  No error, no warning.  A file of several pages
# behind a file of one page contributes its first page only.
#
# Why it matters: which picture comes first depends on the share.  A rank
# whose share begins with a 16-bit picture reads all values, a rank whose
# share begins with an 8-bit one gets wrapped values out of the same file,
# and a check of single planes does not show it.

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/python -m pip install --quiet --disable-pip-version-check \
	'dask-image==2026.5.0' 'dask==2026.8.0' 'PIMS==0.7' 'numpy==2.4.6' \
	'tifffile==2026.3.3' 'scipy==1.17.1' \
	>pip.log 2>&1 || { cat pip.log >&2; exit 1; }

env/bin/python - <<'EOF'
import importlib.metadata
import sys
import warnings

import numpy
import tifffile

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dask_image.imread import imread

tifffile.imwrite("depth_0.tif", numpy.full((4, 4), 7, "uint8"))
tifffile.imwrite("depth_1.tif", numpy.full((4, 4), 300, "uint16"))
tifffile.imwrite("pages_0.tif", numpy.zeros((4, 4), "uint8"))
pages = numpy.arange(1, 4, dtype="uint8").repeat(16).reshape(3, 4, 4)
tifffile.imwrite("pages_1.tif", pages, photometric="minisblack")

for package in ("dask-image", "dask", "PIMS"):
    print(package, importlib.metadata.version(package))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    depth = imread("depth_*.tif")
    alone = depth[1].compute()
    whole = depth.compute()[1]
    other = imread("depth_1.tif").compute()
    stack = imread("pages_*.tif").compute()
caught = [str(w.message) for w in caught if w.category is not FutureWarning]
print("announced type of the 8-bit and the 16-bit picture:", depth.dtype)
print("16-bit plane sliced, then computed:", alone.dtype, alone[0, 0])
print("16-bit plane computed, then sliced:", whole.dtype, whole[0, 0])
print("16-bit picture in a list of its own:", other.dtype, other[0, 0, 0])
print("one page and three pages make planes:", stack[:, 0, 0].tolist())
print("warnings about the data:", caught)

if (
    depth.dtype != "uint8"
    or (str(alone.dtype), int(alone[0, 0])) != ("uint16", 300)
    or (str(whole.dtype), int(whole[0, 0])) != ("uint8", 44)
    or (str(other.dtype), int(other[0, 0, 0])) != ("uint16", 300)
    or stack[:, 0, 0].tolist() != [0, 1]
):
    sys.exit("the behaviour is other than stated")
print("as stated: the first picture decides, and wider values wrap around")
EOF
