# SPDX-License-Identifier: MIT
"""shuffles: what numpy.random.shuffle makes of a list, kept once per node; and a shuffle of ours,
another one in each epoch, kept nowhere.

numpy is imported only where something is shuffled.
"""
import os
import struct

from .native import WARN, native


def _view(memory, n, dtype, more):
    """The array in the memory of a file that has `more` bytes before it."""
    import numpy

    return numpy.frombuffer(memory, dtype, n, native().KEPT_HEADER + more)


def _filed(indices_of, n, dtype, key, more=0):
    """(array of n kept in the node's cache by this key, the `more` bytes before it). If no process
    has made it, indices_of fills it, and returns those bytes."""
    import mmap

    at = native().KEPT_HEADER + more
    fd, making = native().kept_begin(key, more + n * dtype.itemsize)
    try:
        if making:
            good = False
            try:
                with mmap.mmap(fd, at + n * dtype.itemsize) as memory:
                    memory[at - more:at] = indices_of(_view(memory, n, dtype, more)).ljust(more, b"\0")
                good = True
            finally:
                native().kept_end(making, good)
            _forget_later(key)
        memory = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    finally:
        os.close(fd)
    return _view(memory, n, dtype, more), memory[at - more:at]


def _mapped(n, dtype, key, more=0):
    """The same of what is kept already; OSError."""
    import mmap

    fd = native().kept_open(key, more + n * dtype.itemsize)
    try:
        return _view(mmap.mmap(fd, 0, prot=mmap.PROT_READ), n, dtype, more)
    finally:
        os.close(fd)


class Permutation:
    """What numpy.random.shuffle makes of a list of n, without the list.

    numpy's shuffle cannot be computed for one position, so the whole permutation is kept, 4 or 8
    bytes per element, in the node's cache. Its key is made of the generator's states before this
    shuffle and all earlier ones of the list; DLIO seeds its ranks alike, so the ranks of a node
    share it. The first to lock it shuffles; the others map the file, and take from it the
    generator's state after the shuffle. Short permutations, and those that no file can be made for,
    stay in memory.

    A process removes what it made when the list has been shuffled twice more. A pickle holds the
    key and the states, 2.5 KB per shuffle: where the file is gone, or is not what it was, the
    permutation is made again.
    """

    SHORT = 1 << 14
    STATE = struct.Struct("=2496siid")  # of MT19937: its words, where it is, half a pair of normals

    def __init__(self, indices, states, key=None):
        self.indices = indices  # numpy array, read-only
        self.states = states    # of the generator before each shuffle; None for a part of one
        self.key = key
        self.key_before = None  # of the permutation that was shuffled

    def part(self, part):
        """Of a slice of the list."""
        import numpy

        return Permutation(numpy.ascontiguousarray(self.indices[part]), None)

    def find(self, i):
        """Where element i has gone, -1 if it is not there."""
        import numpy

        found = numpy.flatnonzero(self.indices == i) if i >= 0 else ()
        return int(found[0]) if len(found) else -1

    def order(self, start, step, length):
        """For a list of this length, whose element i is name start + i * step, in this order: the
        first seven fields of its recipe (elements.c); None: C does not know how."""
        indices = self.indices
        known = (indices.dtype.kind == "u" and indices.itemsize in (4, 8) and indices.dtype.isnative
                 and indices.flags.c_contiguous and indices.flags.aligned and len(indices) >= length)
        return (indices.itemsize, indices.ctypes.data, start, step, 0, 0, 0) if known else None

    def __reduce__(self):
        if self.key is None:
            return _unpickled, (Permutation, self.indices.tobytes(), str(self.indices.dtype), self.states)
        return _permutation_from, (self.key, len(self.indices), self.states)

    @classmethod
    def shuffled(cls, n, before, random):
        """The permutation after one more random.shuffle of n elements; moves `random` on."""
        state = random.get_state()
        states = None
        known = isinstance(state, tuple) and state[0] == "MT19937"  # not so of other generators
        if known and (before is None or before.states is not None):
            states = (before.states if before else ()) + (state,)
        if n > cls.SHORT and states is not None:
            try:
                made = cls._shared(n, before, states, random)
                if before is not None:
                    made.key_before = before.key
                    _forget_own(before.key_before)
                return made
            except Exception as error:  # pylint: disable=broad-except
                random.set_state(state)
                native().log(WARN, "no shared permutation, this process keeps its own: %s" % error)
        indices = cls._start(n, before)
        random.shuffle(indices)
        indices.flags.writeable = False
        return cls(indices, states)

    @staticmethod
    def _dtype(n):
        import numpy

        return numpy.dtype(numpy.uint32 if n <= 1 << 32 else numpy.uint64)

    @classmethod
    def _start(cls, n, before, out=None):
        import numpy

        if out is None:
            out = numpy.empty(n, cls._dtype(n))
        out[:] = numpy.arange(n, dtype=out.dtype) if before is None else before.indices
        return out

    @staticmethod
    def _key(n, states):
        import hashlib

        text = repr((n, [(state[1].tobytes(), state[2:]) for state in states]))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @classmethod
    def _shared(cls, n, before, states, random):
        import numpy

        def make(indices):
            cls._start(n, before, indices)
            random.shuffle(indices)
            _, words, *rest = random.get_state()
            return cls.STATE.pack(words.astype(numpy.uint32).tobytes(), *rest)
        key = cls._key(n, states)
        indices, after = _filed(make, n, cls._dtype(n), key, native().KEPT_HEADER)
        words, *rest = cls.STATE.unpack_from(after)
        random.set_state(("MT19937", numpy.frombuffer(words, numpy.uint32), *rest))
        return cls(indices, states, key)

    @classmethod
    def rebuilt(cls, n, states):
        """The permutation by its states alone, in memory."""
        import numpy

        random = numpy.random.RandomState()
        indices = cls._start(n, None)
        for state in states:
            random.set_state(state)
            random.shuffle(indices)
        indices.flags.writeable = False
        return cls(indices, states)


class Kept(Permutation):
    """Positions that no generator's states tell: long ones are kept in the node's cache, so that the
    workers of a rank share them. The rank removes them when it has made eight more, or ends.
    """

    def __init__(self, indices, key=None):
        super().__init__(indices, None, key)

    @classmethod
    def of(cls, indices):
        """Of an array, which is given away."""
        if len(indices) > cls.SHORT:
            def make(out):
                out[:] = indices
                return b""
            try:
                key = os.urandom(16).hex()
                return cls(_filed(make, len(indices), indices.dtype, key)[0], key)
            except Exception as error:  # pylint: disable=broad-except
                native().log(WARN, "no shared positions, each worker keeps its own: %s" % error)
        indices.flags.writeable = False
        return cls(indices)

    @classmethod
    def mapped(cls, key, n, dtype):
        import numpy

        try:
            return cls(_mapped(n, numpy.dtype(dtype), key), key)
        except OSError as error:
            raise OSError("%s; it holds a rank's positions: do not change files in SHARD_CACHE_DIR "
                          "during a job" % error) from error

    def __reduce__(self):
        if self.key is None:
            return _unpickled, (Kept, self.indices.tobytes(), str(self.indices.dtype))
        return Kept.mapped, (self.key, len(self.indices), str(self.indices.dtype))


def _unpickled(kind, data, dtype, *states):
    import numpy

    return kind(numpy.frombuffer(data, dtype), *states)


def _permutation_from(key, n, states):
    """In a worker: the file may be gone, for whoever made it has ended or gone on."""
    try:
        indices = _mapped(n, Permutation._dtype(n), key, native().KEPT_HEADER)
        return Permutation(indices, states, key)
    except Exception:  # pylint: disable=broad-except
        return Permutation.rebuilt(n, states)


_own_keys = []  # what this process keeps
_own_pid = 0    # and its pid: a forked worker has the list, but not the files


def _forget_later(key):
    """Remember what this process made, and remove it at exit at the latest.

    DLIO makes sample orders anew each epoch, not from those of the last epoch. So the oldest one
    goes when there are more than train and valid need in two epochs.
    """
    import atexit

    global _own_pid
    if _own_pid != os.getpid():
        _own_pid = os.getpid()
        del _own_keys[:]
        atexit.register(_forget, _own_pid)
    if key in _own_keys:  # made anew
        _own_keys.remove(key)
    _own_keys.append(key)
    if len(_own_keys) > 8:
        _forget_own(_own_keys[0])


def _forget_own(key):
    """Remove what is kept by this key if this process made it."""
    if key in _own_keys and _own_pid == os.getpid():
        _own_keys.remove(key)
        native().kept_remove(key)


def _forget(pid):
    if pid == os.getpid():
        for key in _own_keys:
            native().kept_remove(key)


def advance(random, n):
    """Leave the generator as random.shuffle() of an array of n would, without the array."""
    import numpy

    # One byte that n elements share: numpy swaps it with itself.
    random.shuffle(numpy.lib.stride_tricks.as_strided(numpy.zeros(1, numpy.uint8), (n,), (0,)))


class EpochShuffle:
    """SHARD_SHUFFLE=epoch: a list of n in another order in each epoch. The part that begins at
    `start` and takes each step-th, of `length`, all of it moved on by `shift`.

    In the place of a Permutation. The epoch is the one that the rank is in when an element is asked
    for, so a worker that has had its list since the first epoch sees the present order, too.
    """

    states = key = None

    def __init__(self, n, seed, start=0, step=1, length=None, shift=0):
        self._n, self._seed = n, seed
        self._start, self._step = start, step
        self._length = n if length is None else length
        self._shift = shift

    @property
    def indices(self):
        return self

    def __len__(self):
        return self._length

    def __getitem__(self, i):
        at = (self._start + i * self._step + self._shift) % self._n
        return native().shuffle(at, self._n, self._seed, native().run_epoch())

    def order(self, start, step, length):
        """As a Permutation's."""
        if (start, step, length) != (0, 1, self._length) or not self._n:
            return None
        return 1, 0, self._start, self._step, self._n, self._seed % (1 << 64), self._shift % self._n

    def part(self, part):
        start, stop, step = part.indices(self._length)
        return EpochShuffle(self._n, self._seed, self._start + start * self._step,
                            self._step * step, len(range(start, stop, step)), self._shift)

    def moved(self, shift):
        """The same, each element `shift` places further on in the order of all."""
        return EpochShuffle(self._n, self._seed, self._start, self._step, self._length,
                            self._shift + shift)

    def find(self, i):
        if not 0 <= i < self._n:
            return -1
        at = native().shuffle_back(i, self._n, self._seed, native().run_epoch())
        k, rest = divmod((at - self._shift) % self._n - self._start, self._step)
        return k if not rest and 0 <= k < self._length else -1

    def __reduce__(self):
        return EpochShuffle, (self._n, self._seed, self._start, self._step, self._length,
                              self._shift)
