# SPDX-License-Identifier: MIT
"""mlcommons: MLCommons' fork, DLIO_local_changes, as long as every rank lists the dataset.

It left argonne-lcf's main early in 2026. Since April its index map computes a sample's file, but
keeps the path of each in every process; since May iterable datasets read Parquet, and what lies in
an object store. From June 19 on rank 0 lists alone: those are other families.
"""
from functools import partial

from ..parts import (derived, iterable, loaders, object_store, patches, tensorflow, virtual,
                     walk_node)
from ..recognise import Family, changed
from ..sequences import ThreadSamples, ThreadSamplesFromOwnFile
from . import argonne

# ---- what they are known by --------------------------------------------------------------------


def extended(known, file, functions):
    """A table with more functions of a file."""
    return {**known, file: {**known[file], **functions}}


BY_PATH = changed(argonne.WINTER_2025, {
    "DLIOBenchmark.initialize": ("7b4f398d41",),
    "ConfigArguments.derive_configurations": ("b03a53d86a",),
})

VECTORS = changed(argonne.WINTER_2025, {
    "DLIOBenchmark.initialize": ("6141877628", "305a0794c7"),
    "ConfigArguments.derive_configurations": ("85e271d404", "b03a53d86a"),
    "ConfigArguments.get_global_map_index": ("ed1c742102", "45f9f433d0"),
    "FormatReader.next": ("f262844c5a", "af70c8afb5"),
    "FormatReader.read_index": ("ef477ed05c", "b20069a3f7"),
    "TFReader.next": ("fef187e1c2", "cbdb0c1ec6"),
})

MARCH = changed(argonne.WINTER_2025, {
    "DLIOBenchmark.initialize": ("305a0794c7", "42ea1d026b"),
    "ConfigArguments.derive_configurations": ("928d3a97dd", "c78cc5ad24", "7dbb455829", "b81f21c7a6"),
    "ConfigArguments.reconfigure": ("0bceb09607", "ddeffa3a47"),
})

URIS = changed(MARCH, {
    "DLIOBenchmark.initialize": ("42ea1d026b",),
    "ConfigArguments.derive_configurations": ("b81f21c7a6", "9c8ac3e6cb", "54fc538159", "4d1148fb13"),
    "ConfigArguments.build_sample_map_iter": ("37fa58e63c",),
    "ConfigArguments.reconfigure": ("ddeffa3a47",),
    "TorchDataset.__init__": ("a1a7549b1c", "80d7eeac14"),
    "TorchDataset.worker_init": ("58ae28c4c0", "b904501b97"),
})

OWN_FILES = changed(URIS, {
    "DLIOBenchmark.initialize": ("42ea1d026b", "516405a665"),
    "ConfigArguments.derive_configurations": ("3de366fddc", "047dfa514c", "6ca067c135"),
    "ConfigArguments.build_sample_map_iter": ("61d58b5a84",),
    "TorchDataset.__init__": ("80d7eeac14",),
    "TorchDataset.worker_init": ("b904501b97",),
    "FormatReader.next": ("af70c8afb5", "6efa9291a6"),
})

VIRTUAL_URIS = extended(changed(URIS, {
    "ConfigArguments.derive_configurations": ("4d1148fb13",),
    "ConfigArguments.get_global_map_index": ("958990130b",),
}), "utils/config.py", virtual.KNOWN)

VIRTUAL = extended(changed(OWN_FILES, {
    "DLIOBenchmark.initialize": ("516405a665",),
    "ConfigArguments.derive_configurations": ("6ca067c135", "248c76d288"),
    "ConfigArguments.get_global_map_index": ("958990130b",),
    "FormatReader.next": ("6efa9291a6",),
}), "utils/config.py", virtual.KNOWN)

ITERABLE = extended(changed(VIRTUAL, {
    "ConfigArguments.derive_configurations": ("ec9f28f0cd", "acc072fd75"),
    "ConfigArguments.get_global_map_index": ("958990130b", "e1e2991d17"),
    "ConfigArguments.build_sample_map_iter": ("61d58b5a84", "36dc7787e9"),
    "dlio_sampler.__init__": ("06ebdfa4ab", "14b564afcd", "1d2a1e1dfa"),
}), "data_loader/torch_data_loader.py", iterable.KNOWN)

# ---- what is done to them ----------------------------------------------------------------------


def _vector_sum(first, end):
    """The sum of sample numbers that is made at once: numpy.int64 for none, too."""
    import numpy

    return numpy.int64(derived.sum_of(first, end))


READING = {
    "dlio_benchmark.storage.aistore_storage": object_store.patch_aistore,
    "dlio_benchmark.data_loader.torch_data_loader": iterable.patch,
    "dlio_benchmark.data_loader.dali_data_loader": partial(loaders.patch_dali, loaders.clipped),
    "dlio_benchmark.reader.reader_handler": loaders.patch_reader,
    "dlio_benchmark.reader.tf_reader": tensorflow.patch,
}


def _virtual(kind):
    """Those of one whose index map computes a sample's file."""
    return {
        **READING,
        "dlio_benchmark.storage.file_storage": walk_node.patch,
        "dlio_benchmark.storage.obj_store_lib": object_store.patch,
        "dlio_benchmark.utils.config": partial(derived.patch, virtual.index_map,
                                               virtual.file_map(kind)),
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
           patches(argonne.index_map(argonne.uris), virtual.file_map(ThreadSamplesFromOwnFile))),
    # To the middle of April: file maps have URIs, too.
    Family("MLCommons, April 2026", URIS,
           patches(argonne.index_map(argonne.uris), virtual.file_map(ThreadSamples))),
    # March 2026: argonne-lcf's main, but other data generation and checkpoints.
    Family("MLCommons, March 2026", MARCH,
           patches(argonne.index_map(argonne.uris), argonne.file_map(ThreadSamples))),
    # Two branches of February and March: an index map that is made of vectors.
    Family("MLCommons, vectorized", VECTORS,
           patches(argonne.index_map(argonne.absolute, _vector_sum),
                   argonne.file_map(ThreadSamples))),
    # A branch of January 2026: sub-folders' files are sorted by their paths.
    Family("MLCommons, January 2026", BY_PATH,
           {**patches(argonne.index_map(argonne.uris), argonne.file_map(ThreadSamples)),
            "dlio_benchmark.storage.file_storage": partial(walk_node.patch, order="path")}),
)
