# SPDX-License-Identifier: MIT
"""mlcommons: MLCommons' fork, DLIO_local_changes, since June 19, 2026, whose rank 0 lists the dataset and
broadcasts it; every rank keeps each P-th path, and all it does with samples is its own.

Its index map computes a sample's file. Iterable datasets read Parquet, and what lies in an object store.
"""
from functools import partial

from ..parts import derived, iterable, loaders, object_store, rank0, reshard, tensorflow, virtual, walk_node
from ..recognise import Family, changed
from ..sequences import ThreadSamplesFromStart
from . import argonne

# ---- what they are known by --------------------------------------------------------------------


def _extended(known, file, *functions):
    """A table with more functions of a file."""
    return {**known, file: {name: prints for table in (known.get(file, {}), *functions)
                            for name, prints in table.items()}}


JUNE_2026 = changed(argonne.WINTER_2025, {
    "DLIOBenchmark.initialize": ("476f4d2063", "81df2f0f84", "11fb212f07", "c93c8f602f"),
    "ConfigArguments.derive_configurations": ("57611f37a5",),
    "ConfigArguments.get_global_map_index": ("e77afda2d5",),
    "ConfigArguments.build_sample_map_iter": ("354f8de12a",),
    "ConfigArguments.reconfigure": ("7a956246ae",),
    "dlio_sampler.__init__": ("6f250dd775", "58a6aff3d7"),
    "TorchDataset.__init__": ("80d7eeac14",),
    "TorchDataset.worker_init": ("b904501b97",),
    "FormatReader.next": ("6efa9291a6",),
})
JUNE_2026 = _extended(JUNE_2026, "utils/config.py", virtual.KNOWN, reshard.KNOWN)
JUNE_2026 = _extended(JUNE_2026, "data_loader/torch_data_loader.py", iterable.KNOWN)
JUNE_2026 = _extended(JUNE_2026, "utils/utility.py", {
    "DLIOMPI.comm": ("47270c359d",),
    "DLIOMPI.allreduce_min": ("cd43981f28", "6307fa9a95"),
    "DLIOMPI.alltoall": ("3f74e76deb", "0e348920da"),
})

SINCE_JULY_2026 = changed(JUNE_2026, {
    "DLIOBenchmark.initialize": ("6324eae9dc",),
    "ConfigArguments.derive_configurations": ("57611f37a5", "c06970a3a3"),
    "DLIOMPI.allreduce_min": ("6307fa9a95",),
    "DLIOMPI.alltoall": ("0e348920da",),
    "dlio_sampler.__init__": ("58a6aff3d7",),
})

# ---- what is done to them ----------------------------------------------------------------------


def _patch_config(module, tree):
    cls = module.ConfigArguments
    rank0.patch_config(module, tree)
    virtual.index_map(module, cls)
    virtual.file_map(ThreadSamplesFromStart)(module, cls)
    reshard.patch(module, cls)
    module.np = derived.shuffling(module.np)


def _patches(chunks):
    return {
        "dlio_benchmark.storage.file_storage": partial(walk_node.patch_rank0, chunks),
        "dlio_benchmark.storage.obj_store_lib": partial(object_store.patch, chunks),
        "dlio_benchmark.utils.config": _patch_config,
        "dlio_benchmark.data_loader.torch_data_loader": iterable.patch,
        "dlio_benchmark.data_loader.dali_data_loader": partial(loaders.patch_dali, loaders.clipped),
        "dlio_benchmark.reader.reader_handler": loaders.patch_reader,
        "dlio_benchmark.reader.tf_reader": tensorflow.patch,
    }


FAMILIES = (
    # Rank 0 sorts all names of a flat folder, and then cuts them into chunks.
    Family("MLCommons, June 2026", JUNE_2026, _patches(False)),
    # It sorts each million of names, as the folder shows them, by itself.
    Family("MLCommons, since July 2026", SINCE_JULY_2026, _patches(True)),
)
