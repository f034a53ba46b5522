#!/usr/bin/env bash
#
# fastparquet 2026.9.0, dask 2026.8.0 and pyarrow 25.0.1: one folder of
# Parquet parts with a _metadata file, to which a part is added later.
#
# Guess: a reader that is given the folder reads the files that are in the
# folder; readers that trust _metadata notice that it names fewer parts than
# the folder has, and the three readers agree.
#
# What happens: fastparquet and dask, given the folder, read the parts named
# in _metadata and nothing else, without a warning.  pyarrow, given the same
# folder, ignores _metadata and reads all parts.  dask given the pattern
# folder/*.parquet also reads all.  So two ways to name one dataset to one
# library give different numbers of rows.
#
# Why it matters: a job that shares out the parts by listing the folder and a
# job that opens the folder by its name work on different datasets, and a
# check of one against the other with the wrong library passes.

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/python -m pip install --quiet --disable-pip-version-check \
	'fastparquet==2026.9.0' 'dask[dataframe]==2026.8.0' 'pyarrow==25.0.1' \
	'pandas==3.0.6' 'numpy==2.4.6' >pip.log 2>&1 || { cat pip.log >&2; exit 1; }

env/bin/python -W error::UserWarning - <<'EOF'
import importlib.metadata
import os
import sys

import dask.dataframe
import fastparquet
import pandas
import pyarrow.parquet

first = pandas.DataFrame({"x": [1, 2, 3, 4]})
later = pandas.DataFrame({"x": [5, 6]})
fastparquet.write("data", first, file_scheme="hive", row_group_offsets=[0, 2])
fastparquet.write("data/part.2.parquet", later)

for package in ("fastparquet", "dask", "pyarrow"):
    print(package, importlib.metadata.version(package))
print("the folder:", *sorted(os.listdir("data")))
answers = {
    "fastparquet, folder": fastparquet.ParquetFile("data").to_pandas().x,
    "dask, folder": dask.dataframe.read_parquet("data").compute().x,
    "dask, pattern": dask.dataframe.read_parquet("data/*.parquet").compute().x,
    "pyarrow, folder": pyarrow.parquet.read_table("data")["x"].to_pandas(),
}
answers = {name: sorted(answer.tolist()) for name, answer in answers.items()}
for name, answer in answers.items():
    print(f"{name}: {answer}")

if list(answers.values()) != [
    [1, 2, 3, 4],
    [1, 2, 3, 4],
    [1, 2, 3, 4, 5, 6],
    [1, 2, 3, 4, 5, 6],
]:
    sys.exit("the behaviour is other than stated")
print("as stated: the later part is read by some readers and not by others")
EOF
