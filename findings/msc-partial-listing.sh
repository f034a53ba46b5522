#!/usr/bin/env bash
#
# multi-storage-client 1.3.1: list of a local dataset that has one subfolder
# the user may not read.
#
# Guess: the listing stops with PermissionError.  It does stop with an error
# for something less serious: one symbolic link whose target is gone.
#
# What happens: the files of the unreadable subfolder are left out, one line
# is logged, and the listing ends as if it were complete.  An unreadable
# dataset folder lists as empty.  The dangling link, which hides no data, makes
# the whole listing fail with FileNotFoundError.
#
# Why it matters: each rank lists the dataset by itself, and on a cluster a
# folder can be readable on one node and not on another.  Ranks then share
# out lists of different lengths; files are read twice or by nobody, and the
# only trace is a line in one rank's log.

set -euo pipefail

work=$(mktemp -d)
trap 'chmod -R u+rwX "$work"; rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/python -m pip install --quiet --disable-pip-version-check \
	'multi-storage-client==1.3.1' >pip.log 2>&1 || { cat pip.log >&2; exit 1; }

# Root may read every folder, so the listing is made as an ordinary user.
mkdir -p data/part0 data/part1 links home
touch data/part0/a data/part0/b data/part1/c data/part1/d links/e
ln -s gone links/f
chmod 755 "$work"
chmod 777 home
HOME=$work/home env/bin/python - <<'EOF'
import importlib.metadata
import os
import sys

import multistorageclient

os.chmod("data/part1", 0)
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def names(folder):
    """Returns the names below a folder, or the name of the error."""
    url = f"msc://__filesystem__{os.getcwd()}/{folder}"
    try:
        entries = list(multistorageclient.list(url))
    except OSError as error:
        return type(error).__name__
    return sorted(os.path.basename(entry.key) for entry in entries)


package = "multi-storage-client"
print(package, importlib.metadata.version(package))
try:
    os.listdir("data/part1")
    sys.exit("the folder part1 can be read, so there is nothing to see")
except PermissionError as error:
    print("os.listdir of part1:", type(error).__name__)
answers = {name: names(name) for name in ("data", "data/part1", "links")}
print("list of data (a, b readable; c, d not):", answers["data"])
print("list of data/part1 itself:", answers["data/part1"])
print("list of a folder with a dangling link:", answers["links"])

if answers != {
    "data": ["a", "b"],
    "data/part1": [],
    "links": "FileNotFoundError",
}:
    sys.exit("the behaviour is other than stated")
print("as stated: a folder that cannot be listed counts as an empty folder")
EOF
