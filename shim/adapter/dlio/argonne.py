# SPDX-License-Identifier: MIT
"""argonne: argonne-lcf's main since March 2025, and its branch mlperf_storage_v2.0.

A rank's samples end with the last one there is, an index map holds numpy.int64 and may be shuffled,
and comes with the sum of its sample numbers. The families follow one another in time.
"""
from ..parts import config, patches
from ..parts.benchmark import where_lazy
from ..recognise import Family, changed
from ..sequences import NumpySampleMap
from ..shuffles import advance
from . import pypi

# ---- what they are known by --------------------------------------------------------------------

V2_0 = changed(pypi.FINGERPRINTS, {
    "DLIOBenchmark.initialize": ("ad5188ad4c", "1d4237371e", "55176d6332", "6141877628"),
    "ConfigArguments.derive_configurations": ("0e145df484", "85e271d404", "b1f145618f"),
    "ConfigArguments.get_global_map_index": ("9b79772c25",),
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

# ---- what is done to them ----------------------------------------------------------------------


def absolute(_module, _args, files):
    """The files as the index map names them: by absolute paths."""
    return files.absolute()


def uris(module, args, files):
    """The same where files of a local disk have absolute paths, and all others their URIs."""
    return files.absolute() if args.storage_type == module.StorageType.LOCAL_FS else files.view()


def index_map(named):
    """What replaces get_global_map_index(); named: absolute or uris."""
    def install(module, cls):
        @where_lazy(cls)
        def get_global_map_index(self, file_list, total_samples, epoch_number):
            import numpy

            first, end = config.own_samples(self, total_samples)
            end = max(min(end, total_samples), first)
            state = None
            if self.sample_shuffle is not module.Shuffle.OFF:
                numpy.random.seed(self.seed + epoch_number if self.seed_change_epoch else self.seed)
                state = numpy.random.get_state()
                advance(numpy.random, end - first)
            made = NumpySampleMap(named(module, self, file_list), first, end, self.num_samples_per_file, state)
            return made, numpy.int64((end - first) * (first + end - 1) // 2) if end > first else 0

    return install


FAMILIES = (
    # From March to November 2025, and the branch mlperf_storage_v2.0.
    Family("argonne-lcf, v2.0", V2_0, patches(index_map(absolute))),
    # Since then: index maps have URIs.
    Family("argonne-lcf, winter 2025", WINTER_2025, patches(index_map(uris))),
)
