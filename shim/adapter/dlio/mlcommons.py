# SPDX-License-Identifier: MIT
"""mlcommons: MLCommons' fork, DLIO_local_changes, as long as every rank lists the dataset.

It left argonne-lcf's main early in 2026. Since April its index map computes a sample's file, but
keeps the path of each in every process; since May iterable datasets read Parquet, and what lies in
an object store. From June 19 on rank 0 lists alone: those are other families.
"""
from functools import partial

from ..parts import (derived, folder, iterable, loaders, object_store, patches, tensorflow,
                     virtual)
from ..recognise import Family, changed
from ..sequences import ThreadSamples, ThreadSamplesFromOwnFile
from . import argonne

# ---- what they are known by --------------------------------------------------------------------


def _extended(known, file, functions):
    """A table with more functions of a file."""
    return {**known, file: {**known[file], **functions}}


BY_PATH = changed(argonne.WINTER_2025, {
    "DLIOBenchmark.initialize": ("9e9f5d1f3c",),
    "ConfigArguments.derive_configurations": ("93d6161bdb",),
})

VECTORS = changed(argonne.WINTER_2025, {
    "DLIOBenchmark.initialize": ("a83de9ee1f", "1e2cd0c48e"),
    "ConfigArguments.derive_configurations": ("75a4a756c1", "93d6161bdb"),
    "ConfigArguments.get_global_map_index": ("5a9f66e7e2", "a6b137eb30"),
    "FormatReader.next": ("5b65e1d8cd", "36f80da51e"),
    "FormatReader.read_index": ("e47459c392", "0d01af7c78"),
    "TFReader.next": ("f33f53e9ef", "c485ec8518"),
})

MARCH = changed(argonne.WINTER_2025, {
    "DLIOBenchmark.initialize": ("1e2cd0c48e", "8ed7da40e1"),
    "ConfigArguments.derive_configurations": ("9dec53f1eb", "328e737cc0", "a12d6e6d71",
                                              "50fbbb4412"),
    "ConfigArguments.reconfigure": ("27f34f4cd8", "7a017a6c98"),
})

URIS = changed(MARCH, {
    "DLIOBenchmark.initialize": ("8ed7da40e1",),
    "ConfigArguments.derive_configurations": ("50fbbb4412", "a9a67738bd", "37a6fad770",
                                              "6357af2b23"),
    "ConfigArguments.build_sample_map_iter": ("5492faf05b",),
    "ConfigArguments.reconfigure": ("7a017a6c98",),
    "TorchDataset.__init__": ("6285735c3d", "1e2a5dcdae"),
    "TorchDataset.worker_init": ("52a199f75d", "c0f00841c4"),
})

OWN_FILES = changed(URIS, {
    "DLIOBenchmark.initialize": ("8ed7da40e1", "79d2ae5247"),
    "ConfigArguments.derive_configurations": ("7fd972e513", "76767fc6d1", "1d1d36ec1e"),
    "ConfigArguments.build_sample_map_iter": ("8ea3e4b2ad",),
    "TorchDataset.__init__": ("1e2a5dcdae",),
    "TorchDataset.worker_init": ("c0f00841c4",),
    "FormatReader.next": ("36f80da51e", "026594218b"),
})

VIRTUAL_URIS = _extended(changed(URIS, {
    "ConfigArguments.derive_configurations": ("6357af2b23",),
    "ConfigArguments.get_global_map_index": ("ee82f7a09a",),
}), "utils/config.py", virtual.KNOWN)

VIRTUAL = _extended(changed(OWN_FILES, {
    "DLIOBenchmark.initialize": ("79d2ae5247",),
    "ConfigArguments.derive_configurations": ("1d1d36ec1e", "594b7c37ae"),
    "ConfigArguments.get_global_map_index": ("ee82f7a09a",),
    "FormatReader.next": ("026594218b",),
}), "utils/config.py", virtual.KNOWN)

ITERABLE = _extended(changed(VIRTUAL, {
    "ConfigArguments.derive_configurations": ("7e3af6d59c", "ad8cd98220"),
    "ConfigArguments.get_global_map_index": ("ee82f7a09a", "5bb9d77dde"),
    "ConfigArguments.build_sample_map_iter": ("8ea3e4b2ad", "c1f619b22a"),
    "dlio_sampler.__init__": ("02579fc775", "7ad1bceb0e"),
}), "data_loader/torch_data_loader.py", iterable.KNOWN)

# ---- what is done to them ----------------------------------------------------------------------


def _vector_sum(first, end):
    """The sum of sample numbers that is made at once: numpy.int64 for none, too."""
    import numpy

    return numpy.int64(derived.sum_of(first, end))


def _virtual(kind):
    """Those of one whose index map computes a sample's file."""
    return {
        "dlio_benchmark.storage.file_storage": folder.patch,
        "dlio_benchmark.storage.obj_store_lib": object_store.patch,
        "dlio_benchmark.storage.aistore_storage": object_store.patch_aistore,
        "dlio_benchmark.utils.config": partial(derived.patch, virtual.index_map,
                                               virtual.file_map(kind)),
        "dlio_benchmark.data_loader.torch_data_loader": iterable.patch,
        "dlio_benchmark.data_loader.dali_data_loader": partial(loaders.patch_dali,
                                                               loaders.clipped),
        "dlio_benchmark.reader.reader_handler": loaders.patch_reader,
        "dlio_benchmark.reader.tf_reader": tensorflow.patch,
        "dlio_benchmark.reader._local_fs_iterable_mixin": virtual.patch_readers,
    }


# The nearest family names what is unknown, so that those with more functions come first.
FAMILIES = (
    # From May to June 18: iterable datasets. In the end samples that do not divide are not read.
    Family("MLCommons, spring 2026", ITERABLE, _virtual(ThreadSamplesFromOwnFile)),
    # From mid-April: VirtualIndexMap.
    Family("MLCommons, end of April 2026", VIRTUAL, _virtual(ThreadSamplesFromOwnFile)),
    # A branch shortly before: VirtualIndexMap, but file maps as in early April.
    Family("MLCommons, April 2026, virtual", VIRTUAL_URIS, _virtual(ThreadSamples)),
    # A few days in April: file maps go on from the rank's first file.
    Family("MLCommons, mid-April 2026", OWN_FILES,
           patches(argonne.index_map(argonne.uris), virtual.file_map(ThreadSamplesFromOwnFile),
                   loaders.clipped, loaders.clipped)),
    # To the middle of April: file maps have URIs, too.
    Family("MLCommons, April 2026", URIS,
           patches(argonne.index_map(argonne.uris), virtual.file_map(ThreadSamples),
                   loaders.clipped, loaders.clipped)),
    # March 2026: argonne-lcf's main, but other data generation and checkpoints.
    Family("MLCommons, March 2026", MARCH,
           patches(argonne.index_map(argonne.uris), argonne.file_map(ThreadSamples),
                   loaders.clipped, loaders.clipped)),
    # Two branches of February and March: an index map that is made of vectors.
    Family("MLCommons, vectorized", VECTORS,
           patches(argonne.index_map(argonne.absolute, _vector_sum),
                   argonne.file_map(ThreadSamples), loaders.clipped, loaders.clipped)),
    # A branch of January 2026: sub-folders' files are sorted by their paths.
    Family("MLCommons, January 2026", BY_PATH,
           {**patches(argonne.index_map(argonne.uris), argonne.file_map(ThreadSamples),
                      loaders.clipped, loaders.clipped),
            "dlio_benchmark.storage.file_storage": partial(folder.patch, order="path")}),
)
