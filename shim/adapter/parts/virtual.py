# SPDX-License-Identifier: MIT
"""virtual: VirtualIndexMap, MLCommons' index map that computes a sample's file: its list of paths,
once more per rank, epoch and list, and its array of sample numbers.

Which samples are a rank's is computed by DLIO's own functions: only the arrays that they make are
others. So versions that round differently need no closed forms of their own.
"""
from ..patching import Proxy, lent, replaces
from ..sequences import Indices, SampleNumbers
from . import derived
from .benchmark import served, where_lazy

KNOWN = {
    "VirtualIndexMap.__init__": ("b176ad76fe",),
    "VirtualIndexMap._resolve": ("d645fedf32",),
    "VirtualIndexMap.__getitem__": ("518728adc1",),
    "VirtualIndexMap.__contains__": ("8389e37696",),
    "VirtualIndexMap.__len__": ("5b23b2768e",),
    "VirtualIndexMap.__iter__": ("00eea45681",),
    "VirtualIndexMap.items": ("0c6fe3a1c4",),
    "VirtualIndexMap.__repr__": ("bf6c29512a",),
}

def named(module, storage_type, files):
    """The files as maps name them: those of a local disk by absolute paths."""
    return files.absolute() if storage_type == module.StorageType.LOCAL_FS else files.view()


def index_map(module, _cls):
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
            self._abs_paths = named(module, storage_type, file_list)


class _Undealt(Indices):
    """Sample numbers that build_sample_map_iter() makes, and may shuffle, but sees none of."""

    def __iter__(self):
        return iter(())


def file_map(kind):
    """What replaces build_sample_map_iter(): that says which samples, and they are dealt here, to
    `kind`, which is ThreadSamples or a class of its shape."""
    def install(module, cls):
        original = cls.build_sample_map_iter

        @where_lazy(cls)
        def build_sample_map_iter(self, file_list, total_samples, epoch_number):
            made = []

            def arange(first, end):
                made.append((first, end, _Undealt(first, end)))
                return made[-1][-1]

            with lent(module, np=Proxy(module.np, arange=arange)):
                threads, _ = original(self, file_list, total_samples, epoch_number)
            (first, end, samples), = made
            files = named(module, self.storage_type, file_list)
            return (derived.dealt(self, files, samples, len(threads), kind),
                    derived.sum_of(first, end))

    return install
