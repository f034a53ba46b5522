# SPDX-License-Identifier: MIT
"""argonne_v1_0: argonne-lcf's main of June to August 2024, and its branch mlperf_storage_v1.0.

Sample maps are of all ranks' samples, and each is made when its dataset's turn comes. File maps
walk all files, rank after rank, and take each file's samples from the first ones of the order.
"""
from ..parts import derived, folder, loaders, patches
from ..patching import replace
from ..recognise import Family
from ..sequences import FileList, FileSamples, Indices, NumpyIndices, SampleMap

KNOWN = {
    "main.py": {
        "DLIOBenchmark.initialize": ("a89f1087a8",),
    },
    "utils/config.py": {
        "ConfigArguments.derive_configurations": ("e665a2f79d", "0f411f8f32"),
        "ConfigArguments.get_global_map_index": ("d64d40160e",),
        "ConfigArguments.build_sample_map_iter": ("35763de489",),
        "ConfigArguments.reconfigure": ("ce0eaac4fb", "1d365c40b9", "942d21219f"),
    },
    "data_loader/torch_data_loader.py": {
        "dlio_sampler.__init__": ("a39f8a2c0d",),
        "dlio_sampler.__iter__": ("9bb8604df3",),
        "TorchDataset.__init__": ("eb7966ce4f",),
        "TorchDataset.worker_init": ("c310c7faa1", "2faaea6f17"),
    },
    "data_loader/dali_data_loader.py": {
        "DaliIndexDataset.__init__": ("aab4cd5e1e",),
    },
    "reader/reader_handler.py": {
        "FormatReader.__init__": ("fe2bdb5c30",),
        "FormatReader.next": ("3243c57cb9",),
        "FormatReader.read_index": ("631c1df0b9",),
    },
    "reader/tf_reader.py": {
        "TFReader.next": ("32b6a9db3d", "ae09681097", "00903ee508", "e2548b0197", "4ed33ee85e"),
    },
    **folder.KNOWN,
}


def index_map(_module, cls):
    """Replace get_global_map_index()."""
    original = cls.get_global_map_index

    def get_global_map_index(self, file_list, total_samples):
        if not isinstance(file_list, FileList):
            return original(self, file_list, total_samples)
        if total_samples > len(file_list) * self.num_samples_per_file:
            raise IndexError("list index out of range")
        return SampleMap(file_list.absolute(), 0, total_samples, self.num_samples_per_file)

    replace(cls, get_global_map_index)


def file_map(module, cls):
    """Replace build_sample_map_iter(): {rank: {thread: its samples}}."""
    original = cls.build_sample_map_iter

    def build_sample_map_iter(self, file_list, total_samples, epoch_number):
        if not isinstance(file_list, FileList):
            return original(self, file_list, total_samples, epoch_number)
        import numpy

        threads = 1
        if self.read_threads > 0 and self.data_loader is not module.DataLoaderType.DALI:
            threads = self.read_threads
        per_rank = total_samples // self.comm_size
        self.samples_per_thread, more = divmod(per_rank, threads)
        samples = Indices(0, total_samples)
        if self.file_shuffle is not module.Shuffle.OFF:
            derived.seed(self, numpy, epoch_number)
            samples.shuffle(numpy.random)
        first_ones = numpy.array(samples[:self.num_samples_per_file], numpy.int64)
        files = file_list.absolute()
        found = {}
        for rank in range(self.comm_size):
            found[rank] = {}
            start = rank * per_rank
            for thread in range(threads):
                length = self.samples_per_thread + (thread < more)
                found[rank][thread] = FileSamples(files, first_ones, start, length,
                                                  self.num_samples_per_file)
                start += length
        return found

    replace(cls, build_sample_map_iter)


def all_samples(_part, _each, total):
    """The numbers of all samples, which a rank orders before it takes its own."""
    return Indices(0, total)


def all_numbers(_part, _each, total):
    """The same as an array has them."""
    return NumpyIndices(0, total)


FAMILIES = (
    Family("argonne-lcf, v1.0", KNOWN, patches(index_map, file_map, all_samples, all_numbers)),
)
