#!/usr/bin/env bash
#
# obstore 0.12.1: LocalStore over a folder with files named like "shard#0003".
#
# Guess: a file of a local folder is listed under its name, or the listing
# says that it holds a name the store cannot express.  Other names with the
# same character are treated alike.
#
# What happens: files whose name ends in "#" and digits are left out of list
# and list_with_delimiter, without an error or a warning, while "shard#a" and
# "shard#3.bin" are listed.  Only a request for the file by its name tells:
# get and put refuse such a name.  A folder in which all files are named that
# way lists as empty.
#
# Why it matters: a number after "#" is a common way to number the parts of
# something.  Sharing out the listing shares out a part of the dataset, every
# rank agrees on the shortened list, and nothing in the run shows that files
# are left over.

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/python -m pip install --quiet --disable-pip-version-check \
	'obstore==0.12.1' >pip.log 2>&1 || { cat pip.log >&2; exit 1; }

env/bin/python - <<'EOF'
import importlib.metadata
import os
import sys

import obstore
from obstore.store import LocalStore

mixed = ["shard#0001", "shard#0002", "shard#3.bin", "shard#a", "shard-4"]
numbered = ["part#0", "part#1", "part#2"]
for folder, names in (("mixed", mixed), ("numbered", numbered)):
    os.mkdir(folder)
    for name in names:
        with open(f"{folder}/{name}", "w") as file:
            file.write(name)


def listed(folder):
    """Returns the names by list and by list_with_delimiter, sorted."""
    store = LocalStore(folder)
    flat = [entry["path"] for batch in store.list() for entry in batch]
    level = [entry["path"] for entry in store.list_with_delimiter()["objects"]]
    return sorted(flat), sorted(level)


print("obstore", importlib.metadata.version("obstore"))
for folder in ("mixed", "numbered"):
    print(f"{folder}: the folder has", sorted(os.listdir(folder)))
    print(f"{folder}: list gives    ", listed(folder)[0])
try:
    LocalStore("mixed").get("shard#0001")
    answer = "a file"
except obstore.exceptions.BaseError as error:
    answer = "a refusal: " + str(error).splitlines()[0]
print("get of shard#0001:", answer)

shown = ["shard#3.bin", "shard#a", "shard-4"]
if (
    listed("mixed") != (shown, shown)
    or listed("numbered") != ([], [])
    or not answer.startswith("a refusal")
):
    sys.exit("the behaviour is other than stated")
print("as stated: names that end in # and digits are not listed")
EOF
