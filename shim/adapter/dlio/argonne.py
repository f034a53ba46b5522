# SPDX-License-Identifier: MIT
"""argonne: argonne-lcf's main since the end of August 2024, and its branch mlperf_storage_v2.0.

A rank's samples end with the last one there is, sample maps hold numpy.int64 and may be shuffled,
and each map comes with the sum of its sample numbers. The families follow one another in time.
"""
from ..parts import derived, folder, loaders, patches, virtual
from ..patching import replace
from ..recognise import Family, changed
from ..sequences import FileList, Indices, NumpySampleMap, ThreadSamples, ThreadSamplesByPosition
from ..shuffles import advance

# ---- what they are known by --------------------------------------------------------------------

WINTER_2024 = {
    "main.py": {
        "DLIOBenchmark.initialize": ("a89f1087a8", "e71873ebd5"),
    },
    "utils/config.py": {
        "ConfigArguments.derive_configurations": ("5bc9ad9eda",),
        "ConfigArguments.get_global_map_index": ("9f4402f572",),
        "ConfigArguments.build_sample_map_iter": ("d04f411da6",),
        "ConfigArguments.reconfigure": ("9c5da3eaff",),
    },
    "data_loader/torch_data_loader.py": {
        "dlio_sampler.__init__": ("02579fc775",),
        "dlio_sampler.__iter__": ("9fe9ef45e5",),
        "TorchDataset.__init__": ("eb7966ce4f",),
        "TorchDataset.worker_init": ("2faaea6f17",),
    },
    "data_loader/dali_data_loader.py": {
        "DaliIndexDataset.__init__": ("492dd07a25",),
    },
    "reader/reader_handler.py": {
        "FormatReader.__init__": ("9e1cabbeac",),
        "FormatReader.next": ("18d5836dea",),
        "FormatReader.read_index": ("aafd551f3c",),
    },
    "reader/tf_reader.py": {
        "TFReader.next": ("5ffde4d5da",),
    },
    **folder.KNOWN,
}

AUGUST_2024 = changed(WINTER_2024, {
    "DLIOBenchmark.initialize": ("a89f1087a8",),
    "dlio_sampler.__init__": ("d47346983d",),
})

V2_0 = changed(WINTER_2024, {
    "DLIOBenchmark.initialize": ("f9b4be2043", "ccb0511c8d", "f4ac648720", "a83de9ee1f"),
    "ConfigArguments.derive_configurations": ("b211fdf32d", "75a4a756c1", "603c6fddc8"),
    "ConfigArguments.get_global_map_index": ("30a1966420",),
    "ConfigArguments.build_sample_map_iter": ("cf3aaae488",),
    "ConfigArguments.reconfigure": ("124b33c5a9", "27f34f4cd8"),
    "TorchDataset.__init__": ("6285735c3d",),
    "TorchDataset.worker_init": ("52a199f75d",),
    "FormatReader.__init__": ("3fb5fbff4f",),
    "FormatReader.next": ("5b65e1d8cd", "36f80da51e"),
    "FormatReader.read_index": ("e47459c392", "0d01af7c78"),
    "TFReader.next": ("f33f53e9ef", "c485ec8518"),
})

WINTER_2025 = changed(V2_0, {
    "DLIOBenchmark.initialize": ("1e2cd0c48e", "20c9778c7c"),
    "ConfigArguments.derive_configurations": ("603c6fddc8", "93d6161bdb"),
    "ConfigArguments.get_global_map_index": ("3e128bbcf5",),
    "ConfigArguments.reconfigure": ("27f34f4cd8",),
    "FormatReader.next": ("36f80da51e",),
    "FormatReader.read_index": ("0d01af7c78",),
    "TFReader.next": ("c485ec8518",),
})

JUNE_2026 = changed(WINTER_2025, {
    "ConfigArguments.derive_configurations": ("93d6161bdb",),
    "ConfigArguments.build_sample_map_iter": ("b94cdac938",),
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


def index_map(named, total=derived.sum_of):
    """What replaces get_global_map_index(); named: absolute or uris."""
    def install(module, cls):
        original = cls.get_global_map_index

        def get_global_map_index(self, file_list, total_samples, epoch_number):
            if not isinstance(file_list, FileList):
                return original(self, file_list, total_samples, epoch_number)
            import numpy

            first, end, _ = _own_samples(self, total_samples)
            state = None
            if self.sample_shuffle is not module.Shuffle.OFF:
                derived.seed(self, numpy, epoch_number)
                state = numpy.random.get_state()
                advance(numpy.random, end - first)
            return (NumpySampleMap(named(module, self, file_list), first, end,
                                   self.num_samples_per_file, state), total(first, end))

        replace(cls, get_global_map_index)

    return install


def file_map(kind):
    """What replaces build_sample_map_iter(); kind: ThreadSamples or a class of its shape."""
    def install(module, cls):
        original = cls.build_sample_map_iter

        def build_sample_map_iter(self, file_list, total_samples, epoch_number):
            if not isinstance(file_list, FileList):
                return original(self, file_list, total_samples, epoch_number)
            first, end, each = _own_samples(self, total_samples)
            return (derived.deal(module, self, file_list, Indices(first, end), each, epoch_number,
                                 kind), derived.sum_of(first, end))

        replace(cls, build_sample_map_iter)

    return install


FAMILIES = (
    # A few days: only DALI's samples end with the last one, the sampler's do not yet.
    Family("argonne-lcf, August 2024", AUGUST_2024,
           patches(index_map(absolute), file_map(ThreadSamples), loaders.past_end,
                   loaders.clipped)),
    # September 2024 to February 2025.
    Family("argonne-lcf, winter 2024", WINTER_2024,
           patches(index_map(absolute), file_map(ThreadSamples), loaders.clipped,
                   loaders.clipped)),
    # To November 2025, and the branch mlperf_storage_v2.0.
    Family("argonne-lcf, v2.0", V2_0,
           patches(index_map(absolute), file_map(ThreadSamples), loaders.clipped,
                   loaders.clipped)),
    # To June 2026: index maps have URIs.
    Family("argonne-lcf, winter 2025", WINTER_2025,
           patches(index_map(uris), file_map(ThreadSamples), loaders.clipped, loaders.clipped)),
    # Since then: file maps count by position.
    Family("argonne-lcf, June 2026", JUNE_2026,
           patches(index_map(uris), file_map(ThreadSamplesByPosition), loaders.clipped,
                   loaders.clipped)),
)
