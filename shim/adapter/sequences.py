# SPDX-License-Identifier: MIT
"""sequences: what acts as the lists and dicts that DLIO makes of its files and samples, in O(1).

All of them read as DLIO's own would, number types and order included; they pickle as handles. See
list_like.py for what happens to one that is changed.
"""
import operator
import os
import struct
import sys

from .list_like import DictLike, ListLike
from .native import native
from .shuffles import EpochShuffle, Permutation, advance

CHUNK = 1024  # paths that TensorFlow gets at once
RECIPE = struct.Struct("@QPqqQQQPQ")  # struct recipe of elements.c


def _place(i, length):
    """Where a list of this length has its element i, which may count from the end."""
    i = int(operator.index(i))  # before Python 3.10 that leaves a bool one, which numpy takes for a mask
    if i < 0:
        i += length
    if not 0 <= i < length:
        raise IndexError("list index out of range")
    return i


class ElementsInC(ListLike):
    """A list whose elements C makes, by what is written down of them; `_permutation` is its order, or None."""

    _recipe = ()  # for elements.c: (bytes, permutation); (): none; None: not written yet

    def _write(self):
        """Write down all that it takes to make an element."""
        permutation, self._recipe = self._permutation, ()
        packed = self._packed(permutation)
        if packed is not None:
            self._recipe = packed, permutation
        if self._permutation is not permutation:  # another thread has shuffled meanwhile
            self._forget()

    def _packed(self, permutation):
        """RECIPE and what follows it, as bytes; None: C cannot make the elements, or not count so far."""
        raise NotImplementedError

    def _forget(self):
        """What is written down is not so any more."""
        vars(self).pop("_recipe", None)


_counted = []  # (FileList, how many of its names are read), until tell_reads()


def tell_reads(accounted):
    """Tell SHARD_STATS what count_reads() was told. accounted(listing, used): how many of the files
    DLIO's steps account for."""
    for files, used in _counted:
        files.listing.count_reads(files.prefix, used, accounted(files.listing, used))
    _counted.clear()


class FileList(ElementsInC):
    """Paths of a listing as a list: elements start, start + step, ... of `length`, permuted or not.

    Reading works as with a list; slices and copies are views; who changes it makes a list of it.
    Pickles as a handle.
    """

    def __init__(self, listing, prefix, start=0, step=1, length=None, permutation=None):
        self.listing = listing
        self.prefix = prefix  # put before each name; ends with '/'
        self._start, self._step = start, step
        self._length = listing.count if length is None else length
        self._permutation = permutation

    # -- positions

    def _position(self, i):
        if self._permutation is not None:
            i = int(self._permutation.indices[i])
        return self._start + i * self._step

    def view(self, **others):
        """The same elements, in the order they have now; or others, by attributes that differ."""
        made = object.__new__(FileList)
        vars(made).update({**vars(self), **others})
        made._forget()
        return made

    def absolute(self):
        """A view with os.path.abspath() of every element; names have no '.' or '..' parts."""
        base = os.path.abspath(self.prefix)
        return self.view(prefix=base if base.endswith("/") else base + "/")

    def in_order(self):
        """The same elements, in the order of the listing, None if they are a part of a shuffled list."""
        if self._permutation is not None and not self._permutation.is_whole:
            return None
        plain = self.view(_permutation=None)
        return plain if self._step > 0 else plain[::-1]

    def is_reshuffled(self):
        """Whether EpochShuffle orders it."""
        return isinstance(self._permutation, EpochShuffle)

    def shuffle(self, random):
        if self.is_reshuffled():  # which takes this one's place
            advance(random, self._length)
        else:
            self._permutation = Permutation.shuffled(self._length, self._permutation, random)
            self._forget()

    def reshuffled(self, seed):
        """As EpochShuffle orders it; None if it is shuffled, or does not begin where the listing does."""
        if self._permutation is not None or (self._start, self._step) != (0, 1):
            return None
        return self.view(_permutation=EpochShuffle(self._length, seed))

    def positions(self):
        """Where in the listing the elements are: an array of the caller's own."""
        import numpy

        dtype = numpy.uint32 if self.listing.count <= 1 << 32 else numpy.uint64
        if self._permutation is None:
            return numpy.arange(self._start, self._start + self._length * self._step, self._step, dtype=dtype)
        return (self._start + self._permutation.indices.astype(numpy.int64) * self._step).astype(dtype)

    def at(self, positions):
        """The names at these positions of the listing; the array is given away."""
        positions.flags.writeable = False
        return FileList(self.listing, self.prefix, 0, 1, len(positions), Permutation(positions))

    def count_reads(self, used):
        """For SHARD_STATS: the first `used` names of the listing are read from the first epoch on; it is
        told by tell_reads()."""
        if native().stats_on():
            _counted.append((self, used))

    # -- reading

    def __len__(self):
        return self._length

    def __bool__(self):
        return self._length > 0

    def __getitem__(self, i):
        if isinstance(i, slice):
            start, stop, step = i.indices(self._length)
            length = len(range(start, stop, step))
            if self._permutation is not None:
                return self.view(_length=length, _permutation=self._permutation.part(i))
            return self.view(_start=self._start + start * self._step, _step=self._step * step,
                             _length=length)
        i = _place(i, self._length)
        if self._recipe is None:
            self._write()
        return self.prefix + self.listing.name(self._position(i))

    _element = __getitem__  # where C has taken its place, it calls this

    def _packed(self, permutation):
        order = (0, 0, self._start, self._step, 0, 0)
        if permutation is not None:
            order = permutation.order(self._start, self._step, self._length)
        try:
            prefix = os.fsencode(self.prefix)
            if not order or self.listing.handle is None or os.fsdecode(prefix) != self.prefix:
                return None
            return RECIPE.pack(*order, self._length, self.listing.handle.value, len(prefix)) + prefix
        except (UnicodeEncodeError, struct.error):
            return None

    def _index(self, path):
        """Position of a path here, -1 if it is not here."""
        if not self.listing.sorted:
            return next((i for i, one in enumerate(self) if one == path), -1)
        if not isinstance(path, str) or not path.startswith(self.prefix) or "\0" in path:
            return -1
        at = self.listing.find(path[len(self.prefix):])
        if at < 0:
            return -1
        i, rest = divmod(at - self._start, self._step)
        if rest or not 0 <= i < len(range(self._length)) and self._permutation is None:
            return -1
        return i if self._permutation is None else self._permutation.find(i)

    def __contains__(self, path):
        return self._index(path) >= 0

    def count(self, path):
        return int(path in self)

    def index(self, path, start=0, stop=sys.maxsize):
        i = self._index(path)
        if i < 0 or i not in range(*slice(start, stop).indices(self._length)):
            raise ValueError("%r is not in list" % (path,))
        return i

    # -- new lists

    def copy(self):
        return self.view()

    def __copy__(self):
        return self.view()

    def __deepcopy__(self, memo):
        return self.view()

    def __reduce__(self):
        return FileList, (self.listing, self.prefix, self._start, self._step, self._length,
                          self._permutation)

    def __repr__(self):
        return "<libshard: %d files of %s>" % (self._length, self.prefix)

    __str__ = __repr__

    def __sizeof__(self):
        return object.__sizeof__(self)


if native().quicken(FileList):
    FileList._recipe = None


class Indices(ElementsInC):
    """list(range(start, stop)) in O(1), shuffled or not: the sampler's own sample numbers."""

    def __init__(self, start, stop, permutation=None):
        self._range = range(start, stop)
        self._length = len(self._range)
        self._permutation = permutation

    def shuffle(self, random):
        self._permutation = Permutation.shuffled(self._length, self._permutation, random)
        self._forget()

    def __len__(self):
        return self._length

    def __getitem__(self, i):
        if isinstance(i, slice):
            if self._permutation is None:
                return list(self._range[i])
            return [self._range[int(k)] for k in self._permutation.indices[i]]
        if self._recipe is None:
            self._write()
        i = _place(i, self._length)
        return self._range[i if self._permutation is None else int(self._permutation.indices[i])]

    _element = __getitem__  # as FileList's

    def _packed(self, permutation):
        start = self._range.start
        order = (0, 0, start, 1, 0, 0)
        if permutation is not None:
            order = permutation.order(start, 1, self._length)
        return RECIPE.pack(*order, self._length, 0, 0) if order and 0 <= start < 1 << 62 else None

    def __repr__(self):
        return "<libshard: %d samples from %d on>" % (len(self._range), self._range.start)

    def __reduce__(self):
        return type(self), (self._range.start, self._range.stop, self._permutation)


if native().quicken(Indices):
    Indices._recipe = None


class SampleNumbers(Indices):
    """numpy.arange(start, stop) in O(1), shuffled or not: the own sample numbers of an index map
    that computes the file of a sample.

    Their order is wanted by whoever iterates over the map, and is made for him.
    """

    def __init__(self, start, stop, state=None):
        super().__init__(start, stop)
        self._state = state  # of the generator before the shuffle

    def shuffle(self, random):
        self._state = random.get_state()
        advance(random, len(self))

    def __getitem__(self, i):
        import numpy

        numbers = numpy.arange(self._range.start, self._range.stop)
        if self._state is not None:
            random = numpy.random.RandomState()
            random.set_state(self._state)
            random.shuffle(numbers)
        return numbers[i]

    def __iter__(self):
        import numpy

        return map(numpy.int64, self._range) if self._state is None else iter(self[:])

    def sum(self, axis=None, dtype=None, out=None):
        """numpy.sum() asks for this; as an array's, it is of 64 bits."""
        import numpy

        total = sum((self._range[0], self._range[-1])) * len(self) // 2 if self._range else 0
        return numpy.int64((total + (1 << 63)) % (1 << 64) - (1 << 63))

    def __reduce__(self):
        return SampleNumbers, (self._range.start, self._range.stop, self._state)


class SampleMap(DictLike):
    """DLIO's global index map: own sample number -> (absolute path, sample in the file).

    With int for all numbers, and in ascending order, as PyPI's 2.0.0 makes it.
    """

    def __init__(self, files, start, stop, per_file):
        self._files = files
        self._range = range(start, stop)
        self._per_file = per_file

    def __len__(self):
        return len(self._range)

    def _number(self, sample):
        """Which number a key is equal to; None. As a dict finds it: 3.0 is 3."""
        hash(sample)
        try:
            number = operator.index(sample)
        except TypeError:
            try:
                number = int(sample)
            except (TypeError, ValueError, OverflowError):
                return None
            if number != sample:
                return None
        return number if number in self._range else None

    def __getitem__(self, sample):
        number = self._number(sample)
        if number is None:
            raise KeyError(sample)
        return self._files[number // self._per_file], self._inside(number)

    def _inside(self, number):
        return number % self._per_file

    def __contains__(self, sample):
        return self._number(sample) is not None

    def __iter__(self):
        return iter(self._range)

    def __repr__(self):
        return "<libshard: %d samples of %r>" % (len(self._range), self._files)

    def __reduce__(self):
        return type(self), (self._files, self._range.start, self._range.stop, self._per_file)


class NumpySampleMap(SampleMap):
    """The same with numpy.int64 for all numbers, and in the order in which later versions fill their dict:
    ascending, or as numpy.random.shuffle makes it of a generator in `state`."""

    def __init__(self, files, start, stop, per_file, state=None):
        super().__init__(files, start, stop, per_file)
        self._state = state

    def _inside(self, number):
        import numpy

        return numpy.int64(number % self._per_file)

    def __iter__(self):
        return iter(SampleNumbers(self._range.start, self._range.stop, self._state))

    def __reduce__(self):
        made, arguments = super().__reduce__()
        return made, (*arguments, self._state)


class OpenFiles(dict):
    """DLIO's open_file_map, {path: its file, or None once that is closed}, without closed files: a path that is
    missing has None, and readers ask no more of it."""

    def __setitem__(self, path, file):
        if file is None:
            self.pop(path, None)
        else:
            super().__setitem__(path, file)

    def __missing__(self, path):
        return None
