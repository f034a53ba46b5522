# SPDX-License-Identifier: MIT
"""iterable: MLCommons' iterable datasets, which copy the list in every worker, and its sampler."""
from ..compressing import patch_loader
from ..patching import lent, replaces
from ..sequences import Indices

FINGERPRINTS = {
    "TorchIterableDataset.__init__": ("c2f63959ca",),
    "TorchIterableDataset.worker_init": ("c5becb1166",),
    "TorchIterableDataset.__iter__": ("bbbe2b5eeb",),
    "TorchIterableDatasetSimple.__init__": ("5396ad1ab4",),
    "TorchIterableDatasetSimple.worker_init": ("7bbc938e34",),
    "TorchIterableDatasetSimple.__iter__": ("815cdd802b",),
}


def _numbers(values=()):
    """list() for the sampler."""
    return Indices(values.start, values.stop) if isinstance(values, range) else list(values)


def patch(module, _tree):
    """Patch dlio_benchmark.data_loader.torch_data_loader."""
    patch_loader(module)
    cls = module.dlio_sampler
    original = cls.__init__

    @replaces(cls)
    def __init__(self, *args, **kwargs):
        with lent(module, list=_numbers):
            original(self, *args, **kwargs)
