# SPDX-License-Identifier: MIT
"""shuffles: what numpy.random.shuffle makes of a list; and a shuffle of ours, another one in each epoch, kept
nowhere.

numpy is imported only where something is shuffled.
"""
from . import kept
from .native import WARN, native

SHORT = 1 << 14  # a pickle has a permutation of so many elements itself


class Permutation:
    """What numpy.random.shuffle makes of a list of n, without the list: 4 or 8 bytes an element. (It cannot be
    computed for one position.) A pickle of a long one is a key: workers map what the node's cache keeps."""

    def __init__(self, indices, is_whole=False):
        self.indices = indices    # numpy array, read-only
        self.is_whole = is_whole  # not of a slice of the list
        self._kept = None         # what kept.mapped() takes

    @classmethod
    def shuffled(cls, n, before, random):
        """The permutation after one more random.shuffle of n elements; moves `random` on."""
        import numpy

        if before is None:
            indices = numpy.arange(n, dtype=numpy.uint32 if n <= 1 << 32 else numpy.uint64)
        else:
            indices = before.indices.copy()
        random.shuffle(indices)
        indices.flags.writeable = False
        return cls(indices, before is None or before.is_whole)

    def part(self, part):
        """Of a slice of the list."""
        import numpy

        return Permutation(numpy.ascontiguousarray(self.indices[part]))

    def find(self, i):
        """Where element i has gone, -1 if it is not there."""
        import numpy

        found = numpy.flatnonzero(self.indices == i) if i >= 0 else ()
        return int(found[0]) if len(found) else -1

    def order(self, start, step, length):
        """For a list of this length, whose element i is name start + i * step, in this order: the
        first six fields of its recipe (elements.c); None: C does not know how."""
        indices = self.indices
        known = indices.flags.c_contiguous and indices.flags.aligned and len(indices) >= length
        return (indices.itemsize, indices.ctypes.data, start, step, 0, 0) if known else None

    def __reduce__(self):
        indices = self.indices
        if len(indices) > SHORT:
            try:
                self._kept = self._kept or kept.keep([indices])
                return _mapped, (*self._kept, str(indices.dtype), len(indices), self.is_whole)
            except OSError as error:
                native().log(WARN, "each worker keeps a permutation of its own: %s" % error)
        return _unpickled, (indices.tobytes(), str(indices.dtype), self.is_whole)


def _unpickled(data, dtype, is_whole):
    import numpy

    return Permutation(numpy.frombuffer(data, dtype), is_whole)


def _mapped(key, size, dtype, n, is_whole):
    return Permutation(kept.mapped(key, size).view(dtype)[:n], is_whole)


def advance(random, n):
    """Leave the generator as random.shuffle() of an array of n would, without the array."""
    import numpy

    # One byte that n elements share: numpy swaps it with itself.
    random.shuffle(numpy.lib.stride_tricks.as_strided(numpy.zeros(1, numpy.uint8), (n,), (0,)))


class EpochShuffle:
    """SHARD_SHUFFLE=epoch: a list of n in another order in each epoch. The part that begins at
    `start` and takes each step-th, of `length`.

    In the place of a Permutation. The epoch is the one that the rank is in when an element is asked
    for, so a worker that has had its list since the first epoch sees the present order, too.
    """

    is_whole = False

    def __init__(self, n, seed, start=0, step=1, length=None):
        self._n, self._seed = n, seed
        self._start, self._step = start, step
        self._length = n if length is None else length

    @property
    def indices(self):
        return self

    def __len__(self):
        return self._length

    def __getitem__(self, i):
        return native().shuffle(self._start + i * self._step, self._n, self._seed, native().run_epoch())

    def order(self, start, step, length):
        """As a Permutation's."""
        if (start, step, length) != (0, 1, self._length) or not self._n:
            return None
        return 1, 0, self._start, self._step, self._n, self._seed % (1 << 64)

    def part(self, part):
        start, stop, step = part.indices(self._length)
        return EpochShuffle(self._n, self._seed, self._start + start * self._step,
                            self._step * step, len(range(start, stop, step)))

    def find(self, i):
        if not 0 <= i < self._n:
            return -1
        at = native().shuffle_back(i, self._n, self._seed, native().run_epoch())
        k, rest = divmod(at - self._start, self._step)
        return k if not rest and 0 <= k < self._length else -1

    def __reduce__(self):
        return EpochShuffle, (self._n, self._seed, self._start, self._step, self._length)
