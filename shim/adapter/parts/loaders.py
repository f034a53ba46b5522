# SPDX-License-Identifier: MIT
"""loaders: the sampler's and DALI's lists of sample numbers, and the readers' map of files."""
import math

from ..patching import replaces
from ..sequences import FileList, Indices, OpenFiles
from .config import shuffling


def clipped(part, each, total):
    """The sample numbers of a part, as DLIO makes them since August 2024."""
    first = part * each
    return Indices(first, max(min(first + each, total), first))


def past_end(part, each, _total):
    """The sample numbers of a part, as older ones do: the last part may go past the end."""
    return Indices(part * each, (part + 1) * each)


def _patch_numpy(module):
    if hasattr(module, "np"):
        module.np = shuffling(module.np)


def patch_torch(indices, module, _tree):
    """Patch dlio_benchmark.data_loader.torch_data_loader; indices: clipped or past_end."""
    cls = module.dlio_sampler
    original = cls.__init__

    @replaces(cls)
    def __init__(self, rank, size, num_samples, *args, **kwargs):
        original(self, rank, size, 0, *args, **kwargs)  # its list of indices stays empty
        self.num_samples = num_samples
        self.indices = indices(self.rank, int(math.ceil(num_samples / size)), num_samples)
    _patch_numpy(module)


def patch_dali(indices, module, _tree):
    """Patch dlio_benchmark.data_loader.dali_data_loader, likewise."""
    cls = module.DaliIndexDataset
    original = cls.__init__

    @replaces(cls)
    def __init__(self, format_type, dataset_type, epoch, worker_index, total_num_workers,
                 total_num_samples, samples_per_worker, *args, **kwargs):
        # DLIO makes its list only where there is no attribute of that name.
        self.indices = indices(worker_index, samples_per_worker, total_num_samples)
        original(self, format_type, dataset_type, epoch, worker_index, total_num_workers,
                 total_num_samples, samples_per_worker, *args, **kwargs)
    _patch_numpy(module)


def patch_reader(module, _tree):
    """Patch dlio_benchmark.reader.reader_handler."""
    cls = module.FormatReader
    original = cls.__init__

    @replaces(cls)
    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if isinstance(self._file_list, FileList):
            self.open_file_map = OpenFiles()
