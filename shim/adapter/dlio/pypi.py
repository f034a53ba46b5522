# SPDX-License-Identifier: MIT
"""pypi: release 2.0.0 of PyPI, and argonne-lcf's main of August 2024.

The last rank's samples may go past the end; sample maps hold int, and are not shuffled.
"""
from ..parts import derived, folder, loaders, patches
from ..patching import replace
from ..recognise import Family
from ..sequences import FileList, Indices, SampleMap

KNOWN = {
    "main.py": {
        "DLIOBenchmark.initialize": ("a89f1087a8", "50c093abe7", "e71873ebd5"),
    },
    "utils/config.py": {
        "ConfigArguments.derive_configurations": ("4cbabafc6f",),
        "ConfigArguments.get_global_map_index": ("7052bdd374",),
        "ConfigArguments.build_sample_map_iter": ("826c108506",),
        "ConfigArguments.reconfigure": ("fc7c46c0c3",),
    },
    "data_loader/torch_data_loader.py": {
        "dlio_sampler.__init__": ("00517fd062",),
        "dlio_sampler.__iter__": ("bc23e3a535",),
        "TorchDataset.__init__": ("eb7966ce4f",),
        "TorchDataset.worker_init": ("2faaea6f17",),
    },
    "data_loader/dali_data_loader.py": {
        "DaliIndexDataset.__init__": ("14f2f2e52c",),
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


def index_map(_module, cls):
    """Replace get_global_map_index()."""
    original = cls.get_global_map_index

    def get_global_map_index(self, file_list, total_samples):
        if not isinstance(file_list, FileList):
            return original(self, file_list, total_samples)
        first, end = derived.own_samples(self, total_samples)
        if end > first and (end - 1) // self.num_samples_per_file >= len(file_list):
            raise IndexError("list index out of range")
        return SampleMap(file_list.absolute(), first, end, self.num_samples_per_file)

    replace(cls, get_global_map_index)


def file_map(module, cls):
    """Replace build_sample_map_iter()."""
    original = cls.build_sample_map_iter

    def build_sample_map_iter(self, file_list, total_samples, epoch_number):
        if not isinstance(file_list, FileList):
            return original(self, file_list, total_samples, epoch_number)
        first, end = derived.own_samples(self, total_samples)
        return derived.deal(module, self, file_list, Indices(first, end), end - first,
                            epoch_number)

    replace(cls, build_sample_map_iter)


FAMILIES = (
    Family("PyPI's 2.0.0", KNOWN,
           patches(index_map, file_map, loaders.past_end, loaders.past_end)),
)
