#!/usr/bin/env bash
#
# daft 0.7.26: read_csv and read_parquet over files whose columns have the
# same name and different types.
#
# Guess: the types of the files are merged to one that holds all values (a
# whole number and a fraction make a float), or the read stops with an error
# that names the file.
#
# What happens: the type comes from the first file of the list, and values of
# later files are forced into it.  What does not fit becomes null, or loses
# its fraction, with no warning: after a CSV file with whole numbers, 7.5 of
# the next file is null; after a Parquet file with whole numbers, 2.5 of the
# next becomes 2; after a 32-bit column, 2**40 is null.  With the files the
# other way round every value survives.
#
# Why it matters: a share of a list begins with a different file on every
# rank, so ranks read different values out of the same file, and reordering a
# list turns measurements into nulls.  A job that counts rows notices nothing.

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/python -m pip install --quiet --disable-pip-version-check \
	'daft==0.7.26' 'pyarrow==25.0.1' >pip.log 2>&1 || { cat pip.log >&2; exit 1; }

DAFT_PROGRESS_BAR=0 env/bin/python - <<'EOF'
import importlib.metadata
import os
import sys

import daft
import pyarrow
import pyarrow.parquet

with open("whole.csv", "w") as file:
    file.write("id,value\n1,5\n2,6\n")
with open("fraction.csv", "w") as file:
    file.write("id,value\n3,7.5\n4,8.25\n")


def parquet(name, identity, value, kind):
    """Writes one row to a Parquet file."""
    table = pyarrow.table(
        {"id": [identity], "value": pyarrow.array([value], kind)}
    )
    pyarrow.parquet.write_table(table, name)


parquet("whole.parquet", 1, 1, "int64")
parquet("fraction.parquet", 2, 2.5, "float64")
parquet("narrow.parquet", 1, 1, "int32")
parquet("wide.parquet", 2, 2**40, "int64")


def read(*names):
    """Returns the values by id; the order of the rows is daft's own affair."""
    paths = [os.path.abspath(name) for name in names]
    reader = daft.read_csv if names[0].endswith("csv") else daft.read_parquet
    columns = reader(paths).to_pydict()
    return dict(sorted(zip(columns["id"], columns["value"])))


print("daft", importlib.metadata.version("daft"))
stated = {
    ("whole.csv", "fraction.csv"): {1: 5, 2: 6, 3: None, 4: None},
    ("fraction.csv", "whole.csv"): {1: 5.0, 2: 6.0, 3: 7.5, 4: 8.25},
    ("whole.parquet", "fraction.parquet"): {1: 1, 2: 2},
    ("fraction.parquet", "whole.parquet"): {1: 1.0, 2: 2.5},
    ("narrow.parquet", "wide.parquet"): {1: 1, 2: None},
    ("wide.parquet", "narrow.parquet"): {1: 1, 2: 2**40},
}
for names, values in stated.items():
    answer = read(*names)
    print(f"{' then '.join(names)}: values by id {answer}")
    if answer != values:
        sys.exit(f"the behaviour is other than stated: expected {values}")
print("as stated: the first file decides which values of the others survive")
EOF
