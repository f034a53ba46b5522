# SPDX-License-Identifier: MIT
"""shuffles: what numpy.random.shuffle makes of a list, kept once per node; and a shuffle of ours,
another one in each epoch, kept nowhere.

numpy is imported only where something is shuffled.
"""
import os

from .native import WARN, native


class Permutation:
    """What numpy.random.shuffle makes of a list of n, without the list.

    numpy's shuffle cannot be computed for one position, so the whole permutation is kept, 4 or 8
    bytes per element, in a file of the cache directory. The file is named by the generator's states
    before this shuffle and all earlier ones of the list; DLIO seeds its ranks alike, so the ranks
    of a node share it. The first to lock it shuffles; the others map the file, and take from it the
    generator's state after the shuffle. Short permutations, and those that no file can be made for,
    stay in memory.

    A process removes a file that it made when the list has been shuffled twice more. A pickle holds
    the file's name and the states, 2.5 KB per shuffle: where the file is gone, the permutation is
    made again.
    """

    SHORT = 1 << 14
    HEADER = 4096

    def __init__(self, indices, states, file=None):
        self.indices = indices  # numpy array, read-only
        self.states = states    # of the generator before each shuffle; None for a part of one
        self.file = file
        self.file_before = None  # of the permutation that was shuffled

    def part(self, part):
        """Of a slice of the list."""
        import numpy

        return Permutation(numpy.ascontiguousarray(self.indices[part]), None)

    def find(self, i):
        """Where element i has gone, -1 if it is not there."""
        import numpy

        found = numpy.flatnonzero(self.indices == i) if i >= 0 else ()
        return int(found[0]) if len(found) else -1

    def __reduce__(self):
        if self.file is None:
            return _permutation_of, (self.indices.tobytes(), str(self.indices.dtype), self.states)
        return _permutation_from, (self.file, len(self.indices), self.states)

    @classmethod
    def shuffled(cls, n, before, random):
        """The permutation after one more random.shuffle of n elements; moves `random` on."""
        state = random.get_state()
        states = None
        if before is None or before.states is not None:
            states = (before.states if before else ()) + (state,)
        if n > cls.SHORT and states is not None and state[0] == "MT19937":
            try:
                made = cls._shared(n, before, states, random)
                if before is not None:
                    made.file_before = before.file
                    _forget_own(before.file_before)
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
        import fcntl

        base = os.path.join(native().cache_dir(), "perm-" + cls._key(n, states))
        lock = os.open(base + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                made, after = cls._map(base + ".perm", n, states)
            except Exception:  # pylint: disable=broad-except
                # Not there, or damaged: made anew.
                cls._make(base + ".perm", n, before, states, random)
                made, after = cls._map(base + ".perm", n, states)
            random.set_state(after)
            return made
        finally:
            # Closing would not do: a child forked meanwhile has it open too.
            fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)

    @classmethod
    def _make(cls, file, n, before, states, random):
        import mmap
        import pickle

        import numpy

        temporary = "%s.tmp.%d" % (file, os.getpid())
        size = cls.HEADER + n * cls._dtype(n).itemsize
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)
            with mmap.mmap(fd, size) as memory:
                indices = numpy.frombuffer(memory, cls._dtype(n), n, cls.HEADER)
                cls._start(n, before, indices)
                random.shuffle(indices)
                del indices
                header = pickle.dumps((cls._key(n, states), n, random.get_state()))
                memory[:len(header)] = header
            os.rename(temporary, file)
        except BaseException:
            os.unlink(temporary)
            raise
        finally:
            os.close(fd)
        _forget_later(file)

    @classmethod
    def _map(cls, file, n, states):
        """(Permutation, the generator's state after it)."""
        import mmap
        import pickle

        import numpy

        with open(file, "rb") as stream:
            if os.fstat(stream.fileno()).st_uid != os.geteuid():
                raise OSError("%r belongs to another user" % file)
            memory = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
        key, length, after = pickle.loads(memory[:cls.HEADER])
        if (key, length) != (cls._key(n, states), n):
            raise OSError("%r is not the permutation it should be" % file)
        return cls(numpy.frombuffer(memory, cls._dtype(n), n, cls.HEADER), states, file), after

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
    """Positions that no generator's states tell: long ones are kept in a file, so that the workers
    of a rank share them. The rank removes it when it has made eight more, or ends.
    """

    def __init__(self, indices, file=None):
        super().__init__(indices, None, file)

    @classmethod
    def of(cls, indices):
        """Of an array, which is given away."""
        if len(indices) > cls.SHORT:
            try:
                return cls._filed(indices)
            except Exception as error:  # pylint: disable=broad-except
                native().log(WARN, "no shared positions, each worker keeps its own: %s" % error)
        indices.flags.writeable = False
        return cls(indices)

    @classmethod
    def _filed(cls, indices):
        import mmap
        import tempfile

        fd, file = tempfile.mkstemp(".perm", "perm-", native().cache_dir())
        try:
            os.posix_fallocate(fd, 0, indices.nbytes)
            with mmap.mmap(fd, indices.nbytes) as memory:
                memory[:] = indices.data.cast("B")
        except BaseException:
            os.unlink(file)
            raise
        finally:
            os.close(fd)
        _forget_later(file)
        return cls.mapped(file, str(indices.dtype))

    @classmethod
    def mapped(cls, file, dtype):
        import mmap

        import numpy

        try:
            with open(file, "rb") as stream:
                memory = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
        except OSError as error:
            raise OSError("%s; it holds a rank's positions: do not change files in SHARD_CACHE_DIR "
                          "during a job" % error) from error
        return cls(numpy.frombuffer(memory, dtype), file)

    def __reduce__(self):
        if self.file is None:
            return _kept_of, (self.indices.tobytes(), str(self.indices.dtype))
        return Kept.mapped, (self.file, str(self.indices.dtype))


def _kept_of(data, dtype):
    import numpy

    return Kept(numpy.frombuffer(data, dtype))


def _permutation_of(data, dtype, states):
    import numpy

    return Permutation(numpy.frombuffer(data, dtype), states)


def _permutation_from(file, n, states):
    """In a worker: the file may be gone, for whoever made it has ended or gone on."""
    try:
        return Permutation._map(file, n, states)[0]
    except Exception:  # pylint: disable=broad-except
        return Permutation.rebuilt(n, states)


_own_permutations = []  # files this process made
_own_pid = 0            # and its pid: a forked worker has the list, but not the files


def _forget_later(file):
    """Remember a permutation file that this process made, and remove it at exit at the latest.

    DLIO makes sample orders anew each epoch, not from those of the last epoch. So the oldest file
    goes when there are more than train and valid need in two epochs.
    """
    import atexit

    global _own_pid
    if _own_pid != os.getpid():
        _own_pid = os.getpid()
        del _own_permutations[:]
        atexit.register(_forget, _own_pid)
    if file in _own_permutations:  # made anew
        _own_permutations.remove(file)
    _own_permutations.append(file)
    if len(_own_permutations) > 8:
        _forget_own(_own_permutations[0])


def _forget_own(file):
    """Remove a permutation file if this process made it."""
    if file in _own_permutations and _own_pid == os.getpid():
        _own_permutations.remove(file)
        _remove(file)


def _forget(pid):
    if pid == os.getpid():
        for file in _own_permutations:
            _remove(file)


def _remove(file):
    for path in (file, file[:-len(".perm")] + ".lock"):
        try:
            os.unlink(path)
        except OSError:
            pass


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

    states = file = None

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
