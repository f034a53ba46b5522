# SPDX-License-Identifier: MIT
"""argonne_v1_0: argonne-lcf's main of June to August 2024, and its branch mlperf_storage_v1.0.

Sample maps are of all ranks' samples, and each is made when its dataset's turn comes. File maps
walk all files, rank after rank, and take each file's samples from the first ones of the order.
"""
from ..parts import derived, patches
from ..parts.benchmark import where_lazy
from ..recognise import Family, changed
from ..sequences import FileSamples, Indices, NumpyIndices, SampleMap
from . import pypi

KNOWN = changed(pypi.KNOWN, {
    "DLIOBenchmark.initialize": ("68690ed772",),
    "ConfigArguments.derive_configurations": ("17ffad0701", "c388144255"),
    "ConfigArguments.get_global_map_index": ("1f1b23982f",),
    "ConfigArguments.build_sample_map_iter": ("1800e14892",),
    "ConfigArguments.reconfigure": ("86679199a6", "8339b1a08d", "b48aa6954b"),
    "dlio_sampler.__init__": ("e1f6e28c54",),
    "dlio_sampler.__iter__": ("927c5f9b4e",),
    "TorchDataset.worker_init": ("038d5a774b", "f599b9cfa1"),
    "DaliIndexDataset.__init__": ("e9c9b59dc9",),
    "FormatReader.__init__": ("b6920b63d4",),
    "FormatReader.next": ("9e8e074086",),
    "FormatReader.read_index": ("1088f9041c",),
    "TFReader.next": ("bf67dffcfb", "15e71894e4", "ca3dcb622e", "ffdf8666b3", "f4069c92cd"),
})


def index_map(_module, cls):
    """Replace get_global_map_index()."""
    @where_lazy(cls)
    def get_global_map_index(self, file_list, total_samples):
        if total_samples > len(file_list) * self.num_samples_per_file:
            raise IndexError("list index out of range")
        return SampleMap(file_list.absolute(), 0, total_samples, self.num_samples_per_file)


def file_map(module, cls):
    """Replace build_sample_map_iter(): {rank: {thread: its samples}}."""
    @where_lazy(cls)
    def build_sample_map_iter(self, file_list, total_samples, epoch_number):
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


def all_samples(_part, _each, total):
    """The numbers of all samples, which a rank orders before it takes its own."""
    return Indices(0, total)


def all_numbers(_part, _each, total):
    """The same as an array has them."""
    return NumpyIndices(0, total)


FAMILIES = (
    Family("argonne-lcf, v1.0", KNOWN, patches(index_map, file_map, all_samples, all_numbers)),
)
