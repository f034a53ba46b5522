# SPDX-License-Identifier: MIT
"""pypi: release 2.0.0 of PyPI, and argonne-lcf's main of August 2024.

The last rank's samples may go past the end; sample maps hold int, and are not shuffled.
"""
from ..parts import derived, loaders, patches, walk_node
from ..parts.benchmark import where_lazy
from ..recognise import Family
from ..sequences import Indices, SampleMap

KNOWN = {
    "main.py": {
        "DLIOBenchmark.initialize": ("68690ed772", "504720619b", "8f60488d35"),
    },
    "utils/config.py": {
        "ConfigArguments.derive_configurations": ("f225f0f051",),
        "ConfigArguments.get_global_map_index": ("2c6527390d",),
        "ConfigArguments.build_sample_map_iter": ("c36ebf2552",),
        "ConfigArguments.reconfigure": ("1b8156257b",),
    },
    "data_loader/torch_data_loader.py": {
        "dlio_sampler.__init__": ("b722913304",),
        "dlio_sampler.__iter__": ("bb7e13d334",),
        "TorchDataset.__init__": ("c6b37649cd",),
        "TorchDataset.worker_init": ("f599b9cfa1",),
    },
    "data_loader/dali_data_loader.py": {
        "DaliIndexDataset.__init__": ("32b3702667",),
    },
    "reader/reader_handler.py": {
        "FormatReader.__init__": ("3804645681",),
        "FormatReader.next": ("fef4848d1b",),
        "FormatReader.read_index": ("810f7f3fd2",),
    },
    "reader/tf_reader.py": {
        "TFReader.next": ("06c0ef403d",),
    },
    **walk_node.KNOWN,
}


def index_map(_module, cls):
    """Replace get_global_map_index()."""
    @where_lazy(cls)
    def get_global_map_index(self, file_list, total_samples):
        first, end = derived.own_samples(self, total_samples)
        if end > first and (end - 1) // self.num_samples_per_file >= len(file_list):
            raise IndexError("list index out of range")
        return SampleMap(file_list.absolute(), first, end, self.num_samples_per_file)


def file_map(module, cls):
    """Replace build_sample_map_iter()."""
    @where_lazy(cls)
    def build_sample_map_iter(self, file_list, total_samples, epoch_number):
        first, end = derived.own_samples(self, total_samples)
        return derived.deal(module, self, file_list, Indices(first, end), end - first,
                            epoch_number)


FAMILIES = (
    Family("PyPI's 2.0.0", KNOWN,
           patches(index_map, file_map, loaders.past_end, loaders.past_end)),
)
