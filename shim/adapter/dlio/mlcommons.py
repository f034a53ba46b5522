# SPDX-License-Identifier: MIT
"""mlcommons: MLCommons' fork, DLIO_local_changes, since June 19, 2026, with skip_listing and PyTorch's loader, as
mlpstorage 3 sets it: every rank counts its files' names, and lists nothing; all it does with samples is its own.

Its index map computes a sample's file. Iterable datasets read Parquet, and what lies in an object store. Where it
lists, and for other loaders, DLIO's own functions do all, and what they have made is compressed.
"""
from .. import compressing
from ..parts import config, iterable, loaders, reshard, skipped, virtual
from ..recognise import Family, changed
from . import argonne

# ---- what they are known by --------------------------------------------------------------------


def _extended(known, file, *functions):
    """A table with more functions of a file."""
    return {**known, file: {name: prints for table in (known.get(file, {}), *functions)
                            for name, prints in table.items()}}


FINGERPRINTS = changed(argonne.WINTER_2025, {
    "DLIOBenchmark.initialize": ("c93c8f602f", "6324eae9dc"),
    "ConfigArguments.derive_configurations": ("57611f37a5", "c06970a3a3"),
    "ConfigArguments.get_global_map_index": ("e77afda2d5",),
    "ConfigArguments.reconfigure": ("7a956246ae",),
    "dlio_sampler.__init__": ("58a6aff3d7",),
    "TorchDataset.__init__": ("80d7eeac14",),
    "TorchDataset.worker_init": ("b904501b97",),
    "FormatReader.next": ("6efa9291a6",),
})
FINGERPRINTS = _extended(FINGERPRINTS, "utils/config.py", virtual.FINGERPRINTS, reshard.FINGERPRINTS)
FINGERPRINTS = _extended(FINGERPRINTS, "data_loader/torch_data_loader.py", iterable.FINGERPRINTS)
FINGERPRINTS = _extended(FINGERPRINTS, "storage/obj_store_lib.py", {"ObjStoreLibStorage.get_uri": ("daefc985e9",)})
FINGERPRINTS = _extended(FINGERPRINTS, "utils/utility.py", {
    "DLIOMPI.comm": ("47270c359d",),
    "DLIOMPI.allreduce_min": ("6307fa9a95",),
    "DLIOMPI.alltoall": ("0e348920da",),
})

# ---- what is done to them ----------------------------------------------------------------------


def _patch_config(module, _tree):
    compressing.enable()
    skipped.patch_config(module)
    virtual.index_map(module)
    reshard.patch(module, module.ConfigArguments)
    module.np = config.shuffling(module.np)


FAMILIES = (
    Family("MLCommons, since June 2026", FINGERPRINTS, {
        "dlio_benchmark.utils.config": _patch_config,
        "dlio_benchmark.data_loader.torch_data_loader": iterable.patch,
        "dlio_benchmark.reader.reader_handler": loaders.patch_reader,
    }),
)
