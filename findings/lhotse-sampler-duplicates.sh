#!/usr/bin/env bash
#
# lhotse 1.33.0: what SimpleCutSampler gives to four ranks (world_size=4)
# where the number of cuts is no multiple of four.
#
# Guess: as torch's DistributedSampler does, the sampler repeats the first cuts
# under their own ids, so that whoever counts distinct ids over all ranks counts
# the cuts of the set.
#
# What happens: the ranks that lack a batch get copies of the last cuts, and the
# copies have ids of their own: the id of the cut and "_dup" with a number; a
# copy of a copy has both endings.  Of five cuts the four ranks together have
# eight distinct ids.  With drop_last=True the fifth cut is in no rank.
#
# Why it matters: results that are joined by id over ranks have more rows than
# the set has cuts, and no two rows are the same; a look for repeated ids finds
# none.

set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
# lhotse 1.33.0 imports urllib3, and does not ask for it.
env/bin/python -m pip install --quiet --no-compile --disable-pip-version-check \
	'lhotse==1.33.0' 'torch==2.13.0' 'numpy==2.4.6' 'urllib3==2.8.0' \
	>pip.log 2>&1 || { cat pip.log >&2; exit 1; }

env/bin/python -W ignore - <<'EOF'
import importlib.metadata
import sys

from lhotse import CutSet
from lhotse.dataset import SimpleCutSampler
from lhotse.testing.dummies import DummyManifest

RANKS = 4


def share(count, **how):
    """Returns the ids of each rank's cuts, without what all ids begin with."""
    cuts = DummyManifest(CutSet, begin_id=0, end_id=count)
    return [[cut.id.removeprefix("dummy-mono-cut-") for batch in
             SimpleCutSampler(cuts, max_cuts=1, world_size=RANKS, rank=rank, shuffle=False, **how) for cut in batch]
            for rank in range(RANKS)]


print("lhotse", importlib.metadata.version("lhotse"))
padded, dropped = share(5, drop_last=False), share(5, drop_last=True)
distinct = len({name for rank in padded for name in rank})
print(f"5 cuts, 4 ranks: {padded}, {distinct} distinct ids")
print(f"with drop_last=True: {dropped}")
if (
    padded != [["0000", "0004"], ["0001", "0004_dup0"], ["0002", "0004_dup1"], ["0003", "0004_dup0_dup1"]]
    or distinct != 8
    or dropped != [["0000"], ["0001"], ["0002"], ["0003"]]
):
    sys.exit("the behaviour is other than stated")
print("as stated: padding makes cuts of new ids")
EOF
