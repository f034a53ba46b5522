# SPDX-License-Identifier: MIT
"""mlcommons_rank0: MLCommons' DLIO_local_changes since June 2026, whose rank 0 lists the dataset and
broadcasts it; every rank keeps each P-th path, and all it does with samples is its own.
"""
from functools import partial

from ..parts import (derived, folder, iterable, loaders, object_store, rank0, reshard, tensorflow,
                     virtual)
from ..recognise import Family, changed
from ..sequences import ThreadSamplesFromStart

JUNE_2026 = {
    "main.py": {
        "DLIOBenchmark.initialize": ("56fb3133e2", "e8d9551ce1", "23483943ea", "848fb38cf6"),
    },
    "utils/config.py": {
        "ConfigArguments.derive_configurations": ("f11ea71b10",),
        "ConfigArguments.get_global_map_index": ("aefdbc7f13",),
        "ConfigArguments.build_sample_map_iter": ("b810fbae86",),
        "ConfigArguments.reconfigure": ("1317983a20",),
        **reshard.KNOWN,
        **virtual.KNOWN,
    },
    "utils/utility.py": {
        "DLIOMPI.comm": ("3e6f130491",),
        "DLIOMPI.allreduce_min": ("6193360d59", "1dc9f18258"),
        "DLIOMPI.alltoall": ("b5e86801f3", "c03bfb7a33"),
    },
    "data_loader/torch_data_loader.py": {
        "dlio_sampler.__init__": ("d385af76c3", "34ce92da3e"),
        "dlio_sampler.__iter__": ("9fe9ef45e5",),
        "TorchDataset.__init__": ("1e2a5dcdae",),
        "TorchDataset.worker_init": ("c0f00841c4",),
        **iterable.KNOWN,
    },
    "data_loader/dali_data_loader.py": {
        "DaliIndexDataset.__init__": ("492dd07a25",),
    },
    "reader/reader_handler.py": {
        "FormatReader.__init__": ("3fb5fbff4f",),
        "FormatReader.next": ("026594218b",),
        "FormatReader.read_index": ("0d01af7c78",),
    },
    "reader/tf_reader.py": {
        "TFReader.next": ("c485ec8518",),
    },
    **folder.KNOWN,
}

SINCE_JULY_2026 = changed(JUNE_2026, {
    "DLIOBenchmark.initialize": ("7712597551",),
    "ConfigArguments.derive_configurations": ("f11ea71b10", "b5ad360eab"),
    "DLIOMPI.allreduce_min": ("1dc9f18258",),
    "DLIOMPI.alltoall": ("c03bfb7a33",),
    "dlio_sampler.__init__": ("34ce92da3e",),
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
        "dlio_benchmark.storage.file_storage": partial(folder.patch_rank0, chunks),
        "dlio_benchmark.storage.obj_store_lib": partial(object_store.patch_rank0, chunks),
        "dlio_benchmark.storage.aistore_storage": object_store.patch_aistore,
        "dlio_benchmark.utils.config": _patch_config,
        "dlio_benchmark.data_loader.torch_data_loader": iterable.patch,
        "dlio_benchmark.data_loader.dali_data_loader": partial(loaders.patch_dali,
                                                               loaders.clipped),
        "dlio_benchmark.reader.reader_handler": loaders.patch_reader,
        "dlio_benchmark.reader.tf_reader": tensorflow.patch,
    }


FAMILIES = (
    # Rank 0 sorts all names of a flat folder, and then cuts them into chunks.
    Family("MLCommons, June 2026", JUNE_2026, _patches(False)),
    # It sorts each million of names, as the folder shows them, by itself.
    Family("MLCommons, since July 2026", SINCE_JULY_2026, _patches(True)),
)
