# SPDX-License-Identifier: MIT
"""workers: DLIO's PyTorch loaders from epoch to epoch. For DLIOs of all families.

SHARD_WORKERS=respawn: each epoch has workers of its own. They get the arguments as they are then,
and readers that have read nothing, as if DLIO had started them for the first time.
"""
import os
import pickle
import weakref

from ..native import WARN, say_once
from ..patching import replaces

_loaders = []  # weak references to the loaders that have been made


def _respawns():
    return os.environ.get("SHARD_WORKERS") == "respawn"


def advice():
    """What one can do about workers that read from memory."""
    if _respawns() or not _loaders:
        return ""
    return " (SHARD_WORKERS=respawn starts workers with empty caches in each epoch)"


def _live():
    return [loader for loader in (reference() for reference in _loaders) if loader is not None]


def renew(args, epoch):
    """DLIO is about to begin an epoch: end the workers of the one before it."""
    if epoch <= 1 or not _respawns():
        return
    loaders = _live()
    for loader in loaders:
        _renew(loader)
    if not loaders:
        say_once(WARN, "SHARD_WORKERS=respawn has no effect: the %s loader keeps no workers from epoch to "
                 "epoch" % args.data_loader)


def _renew(loader):
    data = loader._dataset
    dataset = data.dataset
    if getattr(data, "_iterator", None) is not None:  # the one whose workers persist
        data._iterator._shutdown_workers()
        data._iterator = None
    dataset.serial_args = pickle.dumps(loader._args)
    if data.num_workers == 0 and dataset.reader is not None:
        dataset.worker_init(-1)  # it reads in this process


def _patch_read(cls):
    original = cls.read

    @replaces(cls)
    def read(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        if self not in _live():
            _loaders.append(weakref.ref(self))
        return result


def patch_torch(module, _tree):
    """Patch dlio_benchmark.data_loader.torch_data_loader."""
    _patch_read(module.TorchDataLoader)
