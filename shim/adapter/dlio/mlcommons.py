# SPDX-License-Identifier: MIT
"""mlcommons: MLCommons' DLIO_local_changes as long as every rank lists the dataset, to June 2026.

Its index map computes a sample's file, but keeps the path of each in every process. Parquet, and
what lies in an object store, is read by iterable datasets.
"""
from functools import partial

from ..parts import derived, folder, iterable, loaders, tensorflow, virtual
from ..recognise import Family

KNOWN = {
    "main.py": {
        "DLIOBenchmark.initialize": ("79d2ae5247",),
    },
    "utils/config.py": {
        "ConfigArguments.derive_configurations": ("7e3af6d59c", "ad8cd98220"),
        "ConfigArguments.get_global_map_index": ("ee82f7a09a", "5bb9d77dde"),
        "ConfigArguments.build_sample_map_iter": ("8ea3e4b2ad", "c1f619b22a"),
        "ConfigArguments.reconfigure": ("7a017a6c98",),
        **virtual.KNOWN,
    },
    "data_loader/torch_data_loader.py": {
        "dlio_sampler.__init__": ("02579fc775", "7ad1bceb0e"),
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

PATCHES = {
    "dlio_benchmark.storage.file_storage": folder.patch,
    "dlio_benchmark.utils.config": partial(derived.patch, virtual.index_map, virtual.file_map),
    "dlio_benchmark.data_loader.torch_data_loader": iterable.patch,
    "dlio_benchmark.data_loader.dali_data_loader": partial(loaders.patch_dali, loaders.clipped),
    "dlio_benchmark.reader.reader_handler": loaders.patch_reader,
    "dlio_benchmark.reader.tf_reader": tensorflow.patch,
}

FAMILIES = (
    # A rank has one sample less than before where the samples do not divide, from June 2026 on.
    Family("MLCommons, spring 2026", KNOWN, PATCHES),
)
