# SPDX-License-Identifier: MIT
"""config: dlio_benchmark.utils.config, where ConfigArguments receives the lists of files and makes index maps of them."""
import math

from .. import compressing
from ..patching import Proxy, replaces
from ..sequences import FileList, Indices
from . import compare_ranks
from .benchmark import running
from .placeholders import files_of


def shuffling(numpy):
    """numpy with a random.shuffle() that knows our sequences."""

    def shuffle(x):
        if isinstance(x, (FileList, Indices)):
            x.shuffle(numpy.random)
        else:
            numpy.random.shuffle(x)

    return Proxy(numpy, random=Proxy(numpy.random, shuffle=shuffle))


def _patch_derive(cls):
    """derive_configurations() gets the FileLists that the Placeholders stand for, cut as initialize()
    has cut its list of one."""
    original = cls.derive_configurations

    @replaces(cls)
    def derive_configurations(self, file_list_train=None, file_list_eval=None):
        run = running(args=self)
        if run and file_list_train is not None and file_list_eval is not None:
            compare_ranks.conclude(run.benchmark)
            if not file_list_train and not file_list_eval:
                run.lists_pending = False  # DLIO has cut both lists to no file
        given = {"train": file_list_train, "eval": file_list_eval}
        for kind, files in given.items():
            files = files_of(files)
            if files is None and given[kind] and run and not run.refused:
                compressing.enable()  # DLIO has listed by itself, a bucket for example
            elif files is not None:
                files = files[:getattr(run.benchmark, "num_files_" + kind)]
                files.count_reads(len(files))
                given[kind] = files if files else []
                run.lists_pending = False
        return original(self, given["train"], given["eval"])


# ---- for families' own functions ---------------------------------------------------------------


def own_samples(args, total):
    """(first, end) of the rank's samples; the end may lie behind the last sample there is."""
    each = int(math.ceil(total / args.comm_size))
    return args.my_rank * each, (args.my_rank + 1) * each


def patch(index_map, module, _tree):
    """Patch dlio_benchmark.utils.config. The family's own index_map(module, ConfigArguments) replaces
    get_global_map_index()."""
    cls = module.ConfigArguments
    _patch_derive(cls)
    index_map(module, cls)
    module.np = shuffling(module.np)
