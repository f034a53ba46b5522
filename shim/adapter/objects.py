# SPDX-License-Identifier: MIT
"""objects: for SHARD_STATS, the buckets that DLIO has listed. libc opens no objects, so the clients that
get them count, as they do for a bucket of SHARD_DATASET: the product `buckets` patches them.

A worker that is started anew learns of the buckets from the environment.
"""
import os

from . import begin
from .native import native

WATCHED = "LIBSHARD_OBJECTS"  # in the environment: a URL a line


def urls():
    """The URLs of the prefixes whose objects are counted, s3://bucket/prefix/."""
    return os.environ.get(WATCHED, "").split("\n")[:-1]


def watch(url):
    """Count the objects of this prefix from now on, in this process and in those that it starts."""
    if native().stats_on() and url not in urls():
        os.environ[WATCHED] = os.environ.get(WATCHED, "") + url + "\n"
        start()


def start():
    """Let clients count, if there is a bucket to count for."""
    if urls() and native().stats_on():
        begin("buckets")
