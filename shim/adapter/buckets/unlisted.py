# SPDX-License-Identifier: MIT
"""unlisted: a line, once, if a rank ends and none of its processes has listed a dataset: libshard may not
divide the client that read the bucket, and then every rank has read all keys.

The rank's main process makes the page that its processes share (shard_run_begin() of libshard.h): a
listing may be a worker's. Only a process that can reach a server counts: one that has imported a
client, or ssl.
"""
import atexit
import os
import sys

from . import share
from ..native import is_worker, native


def start():
    """Look at the end of this process, if it is the main one of a node's first rank."""
    world, no_rank = native().world(needs_rank=True)
    if no_rank or native().config_fault() or is_worker() or native().run_epoch_or_none() is not None:
        return
    if (world.local_rank if world.local_rank >= 0 else world.rank) != 0:
        return
    try:
        os.environ["LIBSHARD_RUN"] = native().run_begin()
    except OSError:
        return  # whether a worker has listed will not be known
    atexit.register(_tell)


def _tell():
    failed = getattr(sys, "last_value", None) is not None  # and has said so
    if failed or not share.active() or not share.is_silent():
        return
    missed = [one.url for one in share.datasets() if native().run_listed(one.number) is False]
    if missed:
        share.warn_once("this rank has ended, and no client that libshard divides has listed %s: what it has "
                        "read of it is not divided by libshard (libshard-s3(7) has the clients)"
                        % " and ".join(missed), node=True)
