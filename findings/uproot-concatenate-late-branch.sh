#!/usr/bin/env bash
#
# uproot 5.7.7 with awkward 2.14.0: uproot.concatenate over files whose trees
# do not have the same branches.
#
# Guess: a branch that is asked for by name and that one of the files lacks
# is an error, or is filled in; either way the choice of library= (the
# container of the result) and the order of the files do not decide about it.
#
# What happens: three outcomes for the same two files.  With library="np" and
# the file that lacks branch "b" first, "b" is left out of the result without
# a warning, even though it was asked for by name.  With the files the other
# way round the same call raises KeyError.  With the default library the call
# succeeds in either order, and only the records of the second file have the
# field "b".
#
# Why it matters: the file that happens to come first decides which columns
# exist.  Two ranks whose shares of one list begin with different files get
# results of different columns, and one rank may stop where another silently
# drops what it was asked for.

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/python -m pip install --quiet --disable-pip-version-check \
	'uproot==5.7.7' 'awkward==2.14.0' 'numpy==2.4.6' \
	>pip.log 2>&1 || { cat pip.log >&2; exit 1; }

env/bin/python - <<'EOF'
import importlib.metadata
import sys

import numpy
import uproot

with uproot.recreate("early.root") as file:
    file["events"] = {"a": numpy.arange(2)}
with uproot.recreate("late.root") as file:
    file["events"] = {"a": numpy.arange(2, 4), "b": numpy.arange(70, 72)}


def attempt(names, library):
    """Returns what concatenate answers for branches a and b, as lists."""
    files = [f"{name}.root:events" for name in names]
    try:
        answer = uproot.concatenate(files, ["a", "b"], library=library)
    except KeyError:
        return "KeyError"
    if library == "np":
        return {name: values.tolist() for name, values in answer.items()}
    return answer.tolist()


for package in ("uproot", "awkward"):
    print(package, importlib.metadata.version(package))
print("branches a and b are asked for; early.root has only a")
answers = {
    (library, order): attempt(order, library)
    for library in ("np", "ak")
    for order in (("early", "late"), ("late", "early"))
}
for (library, order), answer in answers.items():
    print(f"library={library}, {' then '.join(order)}: {answer}")

early = [{"a": 0}, {"a": 1}]
late = [{"a": 2, "b": 70}, {"a": 3, "b": 71}]
if (
    answers["np", ("early", "late")] != {"a": [0, 1, 2, 3]}
    or answers["np", ("late", "early")] != "KeyError"
    or answers["ak", ("early", "late")] != early + late
    or answers["ak", ("late", "early")] != late + early
):
    sys.exit("the behaviour is other than stated")
print("as stated: the first file and the container decide about branch b")
EOF
