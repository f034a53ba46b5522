# SPDX-License-Identifier: MIT
"""columns: what DLIO has made of its files, compressed: lists of paths, and maps from samples to paths.

    Paths        a list of paths: a listing of just those names, in just that order
    Rows         a list of tuples of paths and numbers: columns of numbers, and Paths
    SampleTable  a dict of such tuples, by a number
    compressed() makes one of them of a real list or dict; loops.put() compares it, element by element

They read as the real ones, types of numbers included, but for a slice, which is a real list. They pickle
as handles: of files that stay as long as the process that made them. Who changes one makes a real list or
dict of it (list_like.py).
"""
import collections.abc
import os
import struct

from . import kept
from .list_like import DictLike, ListLike
from .mapped_listing import Listing
from .native import native
from .sequences import FileList, ElementsInC

TABLE, COLUMN = struct.Struct("@5QQ"), struct.Struct("@QQQqq")  # struct table and column of compress.c
PATH, NUMBER, SCALAR = range(3)                                 # enum kind
SCALARS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "intc", "uintc", "longlong",
           "ulonglong", "intp", "uintp")  # numpy's types of numbers

class NotCompressible(Exception):
    """Something that has no compressed form; the text says why."""


class Loops:
    """The loops over elements, in C (compress.c)."""


loops = Loops()


class Paths(ElementsInC):
    """Paths as a list: a prefix, and the names of a listing."""

    def __init__(self, listing, prefix):
        self.listing, self.prefix = listing, prefix
        self._start, self._step, self._length = 0, 1, listing.count
        self._permutation = None

    _packed = FileList._packed

    def __len__(self):
        return self._length

    def __getitem__(self, i):
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(self._length))]
        if self._recipe is None:
            self._write()
        return self.prefix + self.listing.name(range(self._length)[i])

    _element = __getitem__  # where C has taken its place, it calls this

    def is_quick(self):
        """Whether C makes the elements."""
        self._write()
        return self._recipe != ()

    def view(self):
        """The same elements, in a list of their own."""
        return Paths(self.listing, self.prefix)

    __copy__ = view

    def __deepcopy__(self, memo):
        return self.view()

    def __reduce__(self):
        return Paths, (self.listing, self.prefix)

    def __repr__(self):
        return "<libshard: %d paths below %r>" % (self._length, self.prefix)

    __str__ = __repr__


# ---- columns -------------------------------------------------------------------------------------

# A column: what its numbers stand for (enum kind), of which type, and number i: start + i * step, or
# with a width start plus what lies at `offset` of the memory, of so many bytes.
Column = collections.namedtuple("Column", "kind type width offset start step")


class Columns:
    """Rows of numbers in memory that processes share.

    keyed, bare  as struct table has them
    columns      of Column
    order        (width, offset) of the rows in the order of their keys; (0, 0): they ascend
    file, size   what kept.mapped() takes; size 0: nothing
    """

    def __init__(self, rows, keyed, bare, columns, order, file, size):
        self._handle = rows, keyed, bare, columns, order, file, size
        self.rows, self.columns = rows, columns
        self._memory = kept.mapped(file, size) if size else None

    def __reduce__(self):
        return Columns, self._handle

    def table(self, paths):
        """For C (compress.c); paths: the Paths that positions are of."""
        rows, keyed, bare, columns, (width, offset), _, _ = self._handle
        start = self._memory.ctypes.data if self._memory is not None else 0
        packed = TABLE.pack(rows, keyed, bare, width, start + offset, len(columns)) + b"".join(
            COLUMN.pack(one.kind, one.width, start + one.offset, one.start, one.step) for one in columns)
        return packed, paths, tuple(one.type for one in columns), self._memory


def _narrowed(numbers):
    """(start, step, None), if that tells all numbers of an array, or (start, 0, an array of what is added)."""
    import numpy

    least, most, first = int(numbers.min()), int(numbers.max()), int(numbers[0])
    step = int(numbers[1]) - first if len(numbers) > 1 else 0
    if most - least < 1 << 62 and (len(numbers) < 3 or bool((numbers[1:] - numbers[:-1] == step).all())):
        return first, step, None
    if most - least < 1 << 32:
        return least, 0, (numbers - least).astype(numpy.uint32)
    return 0, 0, numbers


def _columns(numbers, kinds, keyed, bare):
    """Columns of arrays of numbers, each with its (kind, type)."""
    import numpy

    arrays, made, at = [], [], 0
    for one, (kind, of) in zip(numbers, kinds):
        start, step, array = _narrowed(one)
        width = 0 if array is None else array.itemsize
        made.append(Column(kind, of, width, at if width else 0, start, step))
        if width:
            arrays.append(array)
            at += -(-array.nbytes // 8) * 8
    order = 0, 0
    if keyed and not bool((numbers[0][1:] > numbers[0][:-1]).all()):
        arrays.append(numbers[0].argsort(kind="stable").astype(
            numpy.uint32 if len(numbers[0]) < 1 << 32 else numpy.uint64))
        order = arrays[-1].itemsize, at
        at += -(-arrays[-1].nbytes // 8) * 8
    return Columns(len(numbers[0]), int(keyed), int(bare), tuple(made), order,
                   kept.keep(arrays)[0] if at else "", at)


class Rows(ListLike):
    """A list of rows. (C: __getitem__(), but for _part(); __len__())"""

    def __init__(self, columns, paths):
        self._columns, self._paths = columns, paths
        self._length = columns.rows
        self._table = columns.table(paths)

    def __getitem__(self, i):
        raise NotImplementedError

    def __len__(self):
        return self._length

    def _part(self, part):
        """For what is no index."""
        if not isinstance(part, slice):
            raise TypeError("list indices must be integers or slices, not %s" % type(part).__name__)
        return [self[i] for i in range(*part.indices(self._length))]

    def __copy__(self):
        return Rows(self._columns, self._paths)

    def __deepcopy__(self, memo):
        return self.__copy__()

    def share_strings(self, lists):
        """Before it becomes real: let its rows have the strings of a real list of its paths, in a dict of those that
        are there."""
        key = self._paths.listing, self._paths.prefix
        if key not in lists:
            lists[key] = list(self._paths)
        self._table = self._columns.table(lists[key])

    def __reduce__(self):
        return type(self), (self._columns, self._paths)

    def __repr__(self):
        return "<libshard: %d samples of %r>" % (self._length, self._paths)


class SampleTable(DictLike):
    """A dict of rows, by a number. (C: __getitem__(), but for _other(); __len__(); _key(i))"""

    __init__ = Rows.__init__

    def __getitem__(self, key):
        raise NotImplementedError

    def __len__(self):
        return self._length

    def _key(self, i):
        """The key of row i."""
        raise NotImplementedError

    def _other(self, key):
        """For keys that are no integers, or missing: 3.0 is 3 to a dict."""
        hash(key)
        try:
            number = int(key)
        except (TypeError, ValueError, OverflowError):
            raise KeyError(key) from None
        if number != key or hash(number) != hash(key) or hasattr(key, "__index__"):  # which C has looked for
            raise KeyError(key)
        try:
            return self[number]
        except KeyError:
            raise KeyError(key) from None

    def __iter__(self):
        try:
            same = SampleTable(self._columns, self._paths)
        except AttributeError:  # another thread has made a dict of it
            return iter(self.held)
        return map(same._key, range(same._length))  # it may become a dict meanwhile

    def __copy__(self):
        return SampleTable(self._columns, self._paths)

    __deepcopy__, __reduce__, __repr__, share_strings = Rows.__deepcopy__, Rows.__reduce__, Rows.__repr__, Rows.share_strings


def _quickened():
    """Give all classes their methods of C; whether this interpreter can have them."""
    return all([native().quicken(cls) for cls in (Paths, Rows, SampleTable, Loops)])


AVAILABLE = _quickened()
if AVAILABLE:
    Paths._recipe = None


# ---- making them -----------------------------------------------------------------------------------


def _paths(real):
    """Paths of a list; NotCompressible, OSError."""
    if type(real[-1]) is not str:
        raise NotCompressible("its elements have several types")
    folder = os.path.commonprefix([real[0], real[-1]]).rpartition("/")
    for prefix in ("".join(folder[:2]), ""):
        try:
            text = loops.text(real, os.fsencode(prefix))
        except UnicodeEncodeError:
            text = None
        if text is not None:
            break
    else:
        raise NotCompressible("not all of its elements are a str that can be a path")
    made = Paths(Listing.of_names(text), prefix)
    if not made.is_quick():
        raise NotCompressible("its paths cannot be made of a listing")
    return made


def _is_number(kind):
    """Whether a type is int, or one of numpy's types of numbers."""
    import numpy

    return kind is int or any(kind is getattr(numpy, name, None) for name in SCALARS)


def _types(key, row, bare):
    """The types of a key, if there is one, and of a row's fields; NotCompressible."""
    fields = (row,) if bare else row
    if not bare and type(row) is not tuple:
        raise NotCompressible("its elements are of %s" % type(row).__name__)
    types = tuple(map(type, (*key, *fields)))
    bad = next((one for one in types[len(key):] if one is not str and not _is_number(one)), None)
    if bad or (key and not _is_number(types[0])):
        raise NotCompressible("it has a %s in its elements" % (bad or types[0]).__name__)
    if str not in types:
        raise NotCompressible("there is no path in it")
    return types


def _read(real, types, known):
    """(the Paths that positions are of, an array for each type); NotCompressible, OSError. known: [(Paths, real list)]."""
    import numpy

    count = len(real)  # another thread may change it: then put() finds that
    out = bytearray(8 * count * len(types))
    first = next(value for value in _first_row(real) if type(value) is str)
    for paths, listed in known:
        if first in listed and loops.read(real, types, listed, None, out) == count:
            break
    else:
        listed = []
        read = loops.read(real, types, listed, True, out)
        if read != count:
            raise NotCompressible("its element %d has other types" % read)
        paths = _paths(listed)
    return paths, numpy.frombuffer(out, numpy.int64).reshape(len(types), count)


def _first_row(real):
    """The fields of the first row."""
    row = next(iter(real.values() if type(real) is dict else real))
    return row if type(row) is tuple else (row,)


def compressed(real, known):
    """What takes the place of a list or dict of DLIO's: Paths, Rows or a SampleTable. loops.put() compares it.

    real   an exact list or dict, not empty
    known  [(Paths, the real list that they were made of)], whose paths a map may have
    NotCompressible: it has no such form. OSError: the node's cache cannot hold it. MemoryError.
    """
    keyed = type(real) is dict
    key = (next(iter(real)),) if keyed else ()
    row = next(iter(real.values())) if keyed else real[0]
    if not keyed and type(row) is str:
        return _paths(real)
    bare = type(row) is str
    types = _types(key, row, bare)
    paths, numbers = _read(real, types, known)
    kinds = [(PATH, None) if one is str else (NUMBER, None) if one is int else (SCALAR, one) for one in types]
    own = paths.view()  # who changes the list of paths does not change these
    own.is_quick()
    return (SampleTable if keyed else Rows)(_columns(numbers, kinds, keyed, bare), own)
