# SPDX-License-Identifier: MIT
"""mlcommons_rank0: MLCommons' DLIO_local_changes since June 2026, whose rank 0 lists the dataset and
broadcasts it; every rank keeps each P-th path, and all it does with samples is its own.
"""
from functools import partial

from ..parts import derived, object_store, rank0, reshard, virtual, walk_node
from ..recognise import Family, changed
from ..sequences import ThreadSamplesFromStart
from . import mlcommons

JUNE_2026 = mlcommons.extended(changed(mlcommons.ITERABLE, {
    "DLIOBenchmark.initialize": ("476f4d2063", "81df2f0f84", "11fb212f07", "c93c8f602f"),
    "ConfigArguments.derive_configurations": ("57611f37a5",),
    "ConfigArguments.get_global_map_index": ("e77afda2d5",),
    "ConfigArguments.build_sample_map_iter": ("354f8de12a",),
    "ConfigArguments.reconfigure": ("7a956246ae",),
    "dlio_sampler.__init__": ("6f250dd775", "58a6aff3d7"),
}), "utils/config.py", reshard.KNOWN)
JUNE_2026["utils/utility.py"] = {
    "DLIOMPI.comm": ("47270c359d",),
    "DLIOMPI.allreduce_min": ("cd43981f28", "6307fa9a95"),
    "DLIOMPI.alltoall": ("3f74e76deb", "0e348920da"),
}

SINCE_JULY_2026 = changed(JUNE_2026, {
    "DLIOBenchmark.initialize": ("6324eae9dc",),
    "ConfigArguments.derive_configurations": ("57611f37a5", "c06970a3a3"),
    "DLIOMPI.allreduce_min": ("6307fa9a95",),
    "DLIOMPI.alltoall": ("0e348920da",),
    "dlio_sampler.__init__": ("58a6aff3d7",),
})


def _patch_config(module, tree):
    cls = module.ConfigArguments
    rank0.patch_config(module, tree)
    virtual.index_map(module, cls)
    virtual.file_map(ThreadSamplesFromStart)(module, cls)
    reshard.patch(module, cls)
    module.np = derived.shuffling(module.np)


def _patches(chunks):
    return {
        **mlcommons.READING,
        "dlio_benchmark.storage.file_storage": partial(walk_node.patch_rank0, chunks),
        "dlio_benchmark.storage.obj_store_lib": partial(object_store.patch_rank0, chunks),
        "dlio_benchmark.utils.config": _patch_config,
    }


FAMILIES = (
    # Rank 0 sorts all names of a flat folder, and then cuts them into chunks.
    Family("MLCommons, June 2026", JUNE_2026, _patches(False)),
    # It sorts each million of names, as the folder shows them, by itself.
    Family("MLCommons, since July 2026", SINCE_JULY_2026, _patches(True)),
)
