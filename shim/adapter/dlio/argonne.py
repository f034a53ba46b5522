# SPDX-License-Identifier: MIT
"""argonne: argonne-lcf's main since March 2025, and its branch mlperf_storage_v2.0.

A rank's samples end with the last one there is, sample maps hold numpy.int64 and may be shuffled,
and each map comes with the sum of its sample numbers. The families follow one another in time.
"""
from ..parts import derived, patches, virtual
from ..parts.benchmark import where_lazy
from ..recognise import Family, changed
from ..sequences import Indices, NumpySampleMap, ThreadSamples, ThreadSamplesByPosition
from ..shuffles import advance
from . import pypi

# ---- what they are known by --------------------------------------------------------------------

V2_0 = changed(pypi.KNOWN, {
    "DLIOBenchmark.initialize": ("ad5188ad4c", "1d4237371e", "55176d6332", "6141877628"),
    "ConfigArguments.derive_configurations": ("0e145df484", "85e271d404", "b1f145618f"),
    "ConfigArguments.get_global_map_index": ("9b79772c25",),
    "ConfigArguments.build_sample_map_iter": ("7b2585e1d3",),
    "ConfigArguments.reconfigure": ("de5c12c0b6", "0bceb09607"),
    "dlio_sampler.__init__": ("06ebdfa4ab", "14b564afcd"),
    "dlio_sampler.__iter__": ("e6f2068f7a",),
    "TorchDataset.__init__": ("a1a7549b1c",),
    "TorchDataset.worker_init": ("58ae28c4c0",),
    "DaliIndexDataset.__init__": ("8c1078f811",),
    "FormatReader.__init__": ("9c3cdc530f",),
    "FormatReader.next": ("f262844c5a", "af70c8afb5"),
    "FormatReader.read_index": ("ef477ed05c", "b20069a3f7"),
    "TFReader.next": ("fef187e1c2", "cbdb0c1ec6"),
})

WINTER_2025 = changed(V2_0, {
    "DLIOBenchmark.initialize": ("305a0794c7", "e5cf69fb08"),
    "ConfigArguments.derive_configurations": ("b1f145618f", "b03a53d86a"),
    "ConfigArguments.get_global_map_index": ("3d1c9ea627",),
    "ConfigArguments.reconfigure": ("0bceb09607",),
    "FormatReader.next": ("af70c8afb5",),
    "FormatReader.read_index": ("b20069a3f7",),
    "TFReader.next": ("cbdb0c1ec6",),
})

JUNE_2026 = changed(WINTER_2025, {
    "ConfigArguments.derive_configurations": ("b03a53d86a",),
    "ConfigArguments.build_sample_map_iter": ("d8f257d121",),
})

# ---- what is done to them ----------------------------------------------------------------------


def _own_samples(args, total):
    """(first, end, number of samples per rank); the end is clipped, the number is not."""
    first, end = derived.own_samples(args, total)
    return first, max(min(end, total), first), end - first


def absolute(_module, _args, files):
    """The files as the index map names them: by absolute paths."""
    return files.absolute()


def uris(module, args, files):
    """The same where files of a local disk have absolute paths, and all others their URIs."""
    return virtual.named(module, args.storage_type, files)


def index_map(named):
    """What replaces get_global_map_index(); named: absolute or uris."""
    def install(module, cls):
        @where_lazy(cls)
        def get_global_map_index(self, file_list, total_samples, epoch_number):
            import numpy

            first, end, _ = _own_samples(self, total_samples)
            state = None
            if self.sample_shuffle is not module.Shuffle.OFF:
                derived.seed(self, numpy, epoch_number)
                state = numpy.random.get_state()
                advance(numpy.random, end - first)
            return (NumpySampleMap(named(module, self, file_list), first, end,
                                   self.num_samples_per_file, state), derived.sum_of(first, end))

    return install


def file_map(kind):
    """What replaces build_sample_map_iter(); kind: ThreadSamples or a class of its shape."""
    def install(module, cls):
        @where_lazy(cls)
        def build_sample_map_iter(self, file_list, total_samples, epoch_number):
            first, end, each = _own_samples(self, total_samples)
            return (derived.deal(module, self, file_list, Indices(first, end), each, epoch_number,
                                 kind), derived.sum_of(first, end))

    return install


FAMILIES = (
    # From March to November 2025, and the branch mlperf_storage_v2.0.
    Family("argonne-lcf, v2.0", V2_0,
           patches(index_map(absolute), file_map(ThreadSamples))),
    # To June 2026: index maps have URIs.
    Family("argonne-lcf, winter 2025", WINTER_2025,
           patches(index_map(uris), file_map(ThreadSamples))),
    # Since then: file maps count by position.
    Family("argonne-lcf, June 2026", JUNE_2026,
           patches(index_map(uris), file_map(ThreadSamplesByPosition))),
)
