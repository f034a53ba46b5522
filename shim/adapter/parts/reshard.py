# SPDX-License-Identifier: MIT
"""reshard: MLCommons' _reshard_files(), by which ranks exchange their files before every epoch.

The function stays. It shuffles, deals and sends positions in the listing that all ranks have, in
arrays, in place of lists of paths.
"""
from ..patching import Proxy, lent, replaces
from ..sequences import FileList
from .benchmark import served

FINGERPRINTS = {
    "ConfigArguments._reshard_files": ("393817a494",),
}


class _Exchange:
    """The globals of _reshard_files() that see lists, for one call. A list of arrays is what the
    function has made of a FileList."""

    def __init__(self, ranks):
        import numpy

        self._numpy = numpy
        self._ranks = ranks
        self._files = None  # the FileList at hand

    def names(self, module):
        random = Proxy(module.np.random, shuffle=self.shuffle)
        return {"list": self.list, "enumerate": self.enumerate, "setattr": self.setattr,
                "np": Proxy(module.np, random=random)}

    def list(self, values=()):
        if isinstance(values, FileList):
            self._files = values
            return values.positions()
        self._files = None
        return list(values)

    def enumerate(self, values):
        """The buckets get every P-th element each, in turn: here as one array."""
        if isinstance(values, self._numpy.ndarray):
            return ((i, values[i::self._ranks].copy()) for i in range(self._ranks))
        return enumerate(values)

    def _is_lazy(self, values):
        return type(values) is list and values and isinstance(values[0], self._numpy.ndarray)

    def shuffle(self, values):
        if self._is_lazy(values):
            values[:] = [self._numpy.concatenate(values)]
            values = values[0]
        self._numpy.random.shuffle(values)

    def setattr(self, owner, name, values):
        setattr(owner, name, self._files.at(values[0]) if self._is_lazy(values) else values)


_agreed = False


def agree():
    """All ranks have lists of positions that mean the same: from now on they take part in what
    _reshard_files() asks of all."""
    global _agreed
    _agreed = True


def _lazy(*lists):
    """A number that tells which of a rank's lists are lazy, and may be; 0: none."""
    if not served(*lists):
        return 0
    return sum(isinstance(files, FileList) << bit for bit, files in enumerate(lists))


def patch(module, cls):
    """Let _reshard_files() exchange positions where a list is lazy: the same lists on all ranks, or none.
    A rank may have a plug-in that has changed one of them, or DLIO's functions, since."""
    original = cls._reshard_files

    @replaces(cls)
    def _reshard_files(self, epoch_number):
        lazy = _lazy(self.file_list_train, self.file_list_eval)
        if _agreed and self.comm_size > 1:
            least = module.DLIOMPI.get_instance().allreduce_min
            if least(lazy) != -least(-lazy):
                lazy = 0
        if not lazy:
            return original(self, epoch_number)
        with lent(module, **_Exchange(self.comm_size).names(module)):
            return original(self, epoch_number)
