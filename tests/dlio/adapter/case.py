"""DLIO's functions and the adapter's, side by side. Importing this imports DLIO."""
import glob
import multiprocessing
import os
import random
import types
import unittest

import dlio_benchmark.utils.config as config
import numpy as np
from _libshard import mapped_listing as listing, sequences, shuffles
from dlio_benchmark.utils.utility import DLIOMPI

from . import cases
from .plain import CACHE, FEW, WORK, data, outcome, replaced, state

if multiprocessing.parent_process() is None:
    DLIOMPI.get_instance().set_parent_values(0, 1)

IN_C = sequences.FileList._recipe is None  # not so with --no-lock
at = cases.At(os.path.join(WORK, "cases", "data"), config, 3 * FEW)


def pair(count=FEW, size=None, prefix=None):
    """(list, FileList) of the first `size` files."""
    folder = data(count)
    prefix = folder + "/" if prefix is None else prefix
    names = listing.Listing.of_dataset(folder, "order=path depth=1 include=*npz")
    return ([prefix + name for name in sorted(os.listdir(folder))][:size],
            sequences.FileList(names, prefix)[:size])


def shuffle_both(real, lazy, seed):
    """The orders must then be equal."""
    np.random.seed(seed)
    np.random.shuffle(real)
    after = state()
    np.random.seed(seed)
    config.np.random.shuffle(lazy)
    return state() == after


def permutation_files():
    return [file for kind in ("*.perm", "*.lock", "*.new.*") for file in glob.glob(os.path.join(CACHE, kind))]


def short(length):
    """A pickle of a permutation that is longer than this keeps it in a file."""
    return replaced(shuffles, "SHORT", length)


class Case(unittest.TestCase):
    """With DLIO's arguments at hand."""

    maxDiff = 1000

    def setUp(self):
        self.random = random.Random(self.id())
        config.ConfigArguments.reset()
        self.args = config.ConfigArguments.get_instance()
        if hasattr(self.args, "files_pre_sharded"):
            self.args.files_pre_sharded = True  # initialize() sets it before there is a list
        self.args.logger = types.SimpleNamespace(
            **dict.fromkeys(("debug", "info", "warning", "error", "output"), lambda *a, **k: None))
        self.addCleanup(lambda: [os.unlink(f) for f in permutation_files()])

    def same(self, ours, theirs, *what):
        """assertEqual, told in a few lines."""
        if ours != theirs:
            self.fail("%s\n  DLIO:    %.600s\n  adapter: %.600s" % (what, theirs, ours))
