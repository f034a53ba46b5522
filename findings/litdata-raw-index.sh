#!/usr/bin/env bash
#
# litdata 0.2.76: StreamingRawDataset over a folder of plain files.
#
# Guess: the class reads.  What it needs to remember about the folder goes to
# the folder named by cache_dir, and files that were added since are noticed
# the next time, at the least when cache_dir is new.
#
# What happens: the first reader writes an index file into the dataset's own
# folder, beside the data.  From then on the index is the dataset: of fifteen
# files the seven that were added later are not seen, with the old cache_dir
# and with a new one alike, without a warning.  Only recompute_index=True
# reads the folder.
#
# Why it matters: a run that only reads changes what the next program finds
# in the folder, one more file that is no sample, and a listing of the folder
# shared out among ranks no longer is the list that litdata uses.

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/python -m pip install --quiet --no-compile --disable-pip-version-check \
	'litdata==0.2.76' 'torch==2.13.0' 'torchvision==0.28.0' 'zstd==1.5.7.2' \
	'numpy==2.4.6' >pip.log 2>&1 || { cat pip.log >&2; exit 1; }

cat >reader.py <<'EOF'
import importlib.metadata
import os
import sys

from litdata import StreamingRawDataset

os.mkdir("data")


def write(first, end):
    """Writes samples of the numbers from first up to end."""
    for number in range(first, end):
        with open(f"data/{number:02d}.bin", "wb") as file:
            file.write(b"x" * 1000)


def count(cache, **options):
    """Returns how many samples the class sees."""
    here = os.getcwd()
    dataset = StreamingRawDataset(
        f"{here}/data", cache_dir=f"{here}/{cache}", **options
    )
    return len(dataset)


print("litdata", importlib.metadata.version("litdata"))
write(0, 8)
before = count("cache")
added = [name for name in os.listdir("data") if not name.endswith(".bin")]
print("8 files in the folder, samples seen:", before)
print("left in the dataset's folder by the reader:", *added)
write(8, 15)
same = count("cache")
fresh = count("other")
again = count("third", recompute_index=True)
print("15 files in the folder, samples seen:", same)
print("  with a new cache_dir:", fresh)
print("  with recompute_index=True:", again)

if (before, same, fresh, again) != (8, 8, 8, 15) or len(added) != 1:
    sys.exit("the behaviour is other than stated")
print("as stated: the index left in the folder hides the later files")
EOF
export DISABLE_VERSION_CHECK=1 HOME=$work
env/bin/python reader.py 2>log || { cat log >&2; exit 1; }
