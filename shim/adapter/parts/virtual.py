# SPDX-License-Identifier: MIT
"""virtual: VirtualIndexMap, MLCommons' index map that computes a sample's file: its list of paths,
once more per rank, epoch and list, and its array of sample numbers.

Which samples are a rank's is computed by DLIO's own functions: only the arrays that they make are
others. So versions that round differently need no closed forms of their own.
"""
from ..patching import Proxy, lent, replaces
from ..sequences import SampleNumbers
from .benchmark import served

FINGERPRINTS = {
    "VirtualIndexMap.__init__": ("b176ad76fe",),
    "VirtualIndexMap._resolve": ("d645fedf32",),
    "VirtualIndexMap.__getitem__": ("518728adc1",),
    "VirtualIndexMap.__contains__": ("8389e37696",),
    "VirtualIndexMap.__len__": ("5b23b2768e",),
    "VirtualIndexMap.__iter__": ("00eea45681",),
    "VirtualIndexMap.items": ("0c6fe3a1c4",),
    "VirtualIndexMap.__repr__": ("bf6c29512a",),
}


def index_map(module):
    """get_global_map_index() stays; the map that it makes has lazy lists."""
    cls = module.VirtualIndexMap
    original = cls.__init__

    @replaces(cls)
    def __init__(self, file_list, num_samples_per_file, start_sample, end_sample,
                 shuffle_seed=None, storage_type=None):
        lazy = served(file_list)
        with lent(module, **{"np": Proxy(module.np, arange=SampleNumbers)} if lazy else {}):
            original(self, [] if lazy else file_list, num_samples_per_file, start_sample,
                     end_sample, shuffle_seed, storage_type)
        if lazy:
            is_local = storage_type == module.StorageType.LOCAL_FS
            self._abs_paths = file_list.absolute() if is_local else file_list.view()
