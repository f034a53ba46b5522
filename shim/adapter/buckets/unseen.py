# SPDX-License-Identifier: MIT
"""unseen: packages that list buckets where nothing of Python's is called, so that their lists cannot be
divided. Their import is said, once."""
from . import share
from ..contract import UNSEEN


def patch(module):
    """Say what this module lists."""
    lists, schemes = UNSEEN[module.__name__]
    ours = [one.url for one in share.datasets() if one.scheme in schemes.split()]
    if ours and share.active():
        share.warn_once("%s lists buckets without libshard's seeing it: what it lists of %s is all keys, "
                        "in every rank" % (lists, " and ".join(ours)), node=True)
