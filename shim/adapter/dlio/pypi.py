# SPDX-License-Identifier: MIT
"""pypi: release 2.0.0 of PyPI, and argonne-lcf's main of August 2024.

The last rank's samples may go past the end; an index map holds int, and is not shuffled.
"""
from ..parts import config, file_storage, loaders, patches
from ..parts.benchmark import where_lazy
from ..recognise import Family
from ..sequences import SampleMap

FINGERPRINTS = {
    "main.py": {
        "DLIOBenchmark.initialize": ("68690ed772", "504720619b", "8f60488d35"),
    },
    "utils/config.py": {
        "ConfigArguments.derive_configurations": ("f225f0f051",),
        "ConfigArguments.get_global_map_index": ("2c6527390d",),
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
    **file_storage.FINGERPRINTS,
}


def index_map(_module, cls):
    """Replace get_global_map_index()."""
    @where_lazy(cls)
    def get_global_map_index(self, file_list, total_samples):
        first, end = config.own_samples(self, total_samples)
        if end > first and (end - 1) // self.num_samples_per_file >= len(file_list):
            raise IndexError("list index out of range")
        return SampleMap(file_list.absolute(), first, end, self.num_samples_per_file)


FAMILIES = (
    Family("PyPI's 2.0.0", FINGERPRINTS,
           patches(index_map, loaders.past_end, loaders.past_end)),
)
