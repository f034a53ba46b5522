# SPDX-License-Identifier: MIT
"""_libshard: the CPython side of libshard.so, run inside the benchmark by adapter.c.

DLIO lists its dataset in every process and keeps every path, twice over, in every rank and worker.
Here the list becomes a FileList: a list of O(1) size that answers len() with the global count and
element i with the i-th path of the node's shared listing. What DLIO derives from the list (its
sample maps, its sampler's indices) becomes closed forms over it. Which files are opened, how often
and in which steps stays DLIO's own decision, by DLIO's own code.

How it gets in, in order:
 1. At the first import of dlio_benchmark the sources of all functions that are touched or relied
    upon are compared with fingerprints of the versions this was written for (KNOWN). One that is
    not known: a warning, and nothing is changed.
 2. The modules in PATCHES are patched as they are imported.
 3. DLIOBenchmark.initialize() asks the storage class for the names in data_folder/{train,valid}.
    That call, and no other, is answered from the listing. What initialize() then builds from it
    is a list of one Token, a str that knows how many files it stands for; `len` in the module of
    initialize() knows Tokens too, until derive_configurations() receives the list and makes the
    FileList of it.

Every change is listed in README.md ("What it changes inside the process").
"""
import collections.abc
import operator
import os
import sys
import time

LIBRARY = globals()["LIBRARY"]  # path of libshard.so, put here by adapter.c

ERROR, WARN, INFO, DEBUG = range(4)
CHUNK = 1024  # names fetched at once when a list is iterated
STARTED = time.time_ns()


# ---- the C side ------------------------------------------------------------------------------


class _Native:
    """The functions of libshard.h that are used here, by ctypes; loaded at first use."""

    VIEWS = ("auto", "off", "global", "shard")

    def __init__(self):
        import ctypes
        import threading

        class Info(ctypes.Structure):
            _fields_ = (
                [(n, ctypes.c_uint64) for n in ("entries", "bytes", "directories", "dirs_hidden",
                                                "dir_links", "duplicates")]
                + [(n, ctypes.c_uint32) for n in ("min_depth", "max_depth", "longest", "block",
                                                  "order", "utf8", "dotted")]
                + [("bytes_used", ctypes.c_uint8 * 32), ("suffix", ctypes.c_char * 64),
                   ("digest", ctypes.c_char * 65), ("source", ctypes.c_char_p),
                   ("options", ctypes.c_char_p), ("file", ctypes.c_char_p)])

        class World(ctypes.Structure):
            _fields_ = ([(n, ctypes.c_int) for n in ("rank", "size", "local_rank", "local_size")]
                        + [("launcher", ctypes.c_char * 32)])

        self._ctypes = ctypes
        self._info, self._world = Info, World
        self._local = threading.local()
        # PyDLL keeps the interpreter's lock: a name takes less time than giving the lock away.
        quick, slow = ctypes.PyDLL(LIBRARY), ctypes.CDLL(LIBRARY)
        pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p

        def declare(library, name, result, *arguments):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            return function

        self._name = declare(quick, "shard_listing_name", ctypes.c_ssize_t, pointer,
                             ctypes.c_uint64, text, size)
        self._names = declare(quick, "shard_listing_names", ctypes.c_ssize_t, pointer,
                              ctypes.c_uint64, size, text, size, ctypes.POINTER(size))
        self._find = declare(quick, "shard_listing_find", ctypes.c_int64, pointer, text)
        self._open = declare(quick, "shard_listing_open", ctypes.c_int, text,
                             ctypes.POINTER(pointer))
        self._facts = declare(quick, "shard_listing_info", None, pointer, ctypes.POINTER(Info))
        self._dataset = declare(slow, "shard_dataset_open", ctypes.c_int, text, text,
                                ctypes.POINTER(pointer), text, size)
        self._bucket = declare(slow, "shard_dataset_open_s3", ctypes.c_int, text, text,
                               ctypes.POINTER(text), ctypes.c_uint64, ctypes.c_int64,
                               ctypes.POINTER(pointer), text, size)
        self._cache_dir = declare(quick, "shard_cache_dir", ctypes.c_ssize_t, text, size, text,
                                  size)
        self._world_get = declare(quick, "shard_world_get", ctypes.c_int, ctypes.POINTER(World),
                                  text, size)
        self._check = declare(quick, "shard_config_check", ctypes.c_int, text, size)
        self._complain = declare(quick, "shard_config_complain", None)
        self._log = declare(quick, "shard_log", None, ctypes.c_int, text)
        self._asked = declare(quick, "shard_view_asked", ctypes.c_int)
        self._set = declare(quick, "shard_view_set", None, ctypes.c_int)
        self._range = declare(quick, "shard_range", None, ctypes.c_uint64, ctypes.c_uint32,
                              ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64),
                              ctypes.POINTER(ctypes.c_uint64))
        self._stats_dataset = declare(quick, "shard_stats_dataset", ctypes.c_int, text, pointer,
                                      ctypes.c_uint64, ctypes.c_uint64)
        self.stats_epoch = declare(quick, "shard_stats_epoch", None, ctypes.c_uint64)

    def _buffer(self):
        try:
            return self._local.buffer
        except AttributeError:
            self._local.buffer = self._ctypes.create_string_buffer(65536)
            return self._local.buffer

    def _text(self):
        return self._ctypes.create_string_buffer(1024)

    @staticmethod
    def _decode(buffer):
        return buffer.value.decode("utf-8", "replace")

    def log(self, level, text):
        self._log(level, text.encode("utf-8", "backslashreplace"))

    def view_asked(self):
        return self.VIEWS[self._asked()]

    def set_view(self, view):
        self._set(self.VIEWS.index(view))

    def config_error(self):
        """Whether a SHARD_ variable is misspelt or wrong; it is said then, once."""
        if self._check(self._text(), 1024):
            self._complain()
            return True
        return False

    def world(self):
        """(World, None), (World without rank, None) if there is no launcher, or (None, error)."""
        world, text = self._world(), self._text()
        rc = self._world_get(self._ctypes.byref(world), text, 1024)
        return (world, None) if rc in (0, -2) else (None, self._decode(text))

    def range(self, n, rank, size):
        begin, end = self._ctypes.c_uint64(), self._ctypes.c_uint64()
        self._range(n, rank, size, self._ctypes.byref(begin), self._ctypes.byref(end))
        return begin.value, end.value

    def stats_dataset(self, root, handle, used, epoch):
        self._stats_dataset(os.fsencode(root), handle, used, epoch)

    def cache_dir(self):
        path, text = self._ctypes.create_string_buffer(4096), self._text()
        if self._cache_dir(path, 4096, text, 1024) < 0:
            raise OSError(self._decode(text))
        return os.fsdecode(path.value)

    def dataset(self, directory, options):
        """Handle of the listing of `directory`; OSError with a line for people."""
        handle, text = self._ctypes.c_void_p(), self._text()
        rc = self._dataset(os.fsencode(directory), options.encode(),
                           self._ctypes.byref(handle), text, 1024)
        if rc:
            raise OSError(-rc, self._decode(text))
        return handle

    def bucket(self, url, options, environment, turn, since):
        """Handle of the listing of s3://bucket/prefix; see shard_dataset_open_s3()."""
        handle, text = self._ctypes.c_void_p(), self._text()
        variables = (self._ctypes.c_char_p * (len(environment) + 1))(
            *(variable.encode("utf-8", "surrogateescape") for variable in environment))
        rc = self._bucket(url.encode("utf-8"), options.encode(), variables, turn, since,
                          self._ctypes.byref(handle), text, 1024)
        if rc:
            raise OSError(-rc, self._decode(text))
        return handle

    def open(self, file):
        handle = self._ctypes.c_void_p()
        rc = self._open(os.fsencode(file), self._ctypes.byref(handle))
        if rc:
            raise OSError(-rc, "cannot open listing %r: %s" % (file, os.strerror(-rc)))
        return handle

    def info(self, handle):
        info = self._info()
        self._facts(handle, self._ctypes.byref(info))
        return info

    def name(self, handle, i):
        buffer = self._buffer()
        n = self._name(handle, i, buffer, 65536)
        if n < 0:
            raise OSError(-n, "the listing is damaged at position %d" % i)
        return os.fsdecode(buffer.value)

    def names(self, handle, i, most):
        """Up to `most` names from i on, at least one."""
        buffer, used = self._buffer(), self._ctypes.c_size_t()
        n = self._names(handle, i, most, buffer, 65536, self._ctypes.byref(used))
        if n < 0:
            raise OSError(-n, "the listing is damaged near position %d" % i)
        return [os.fsdecode(name) for name in buffer[:used.value].split(b"\0")[:n]]

    def find(self, handle, name):
        """Position of `name`, -1 if it is not there."""
        try:
            i = self._find(handle, os.fsencode(name))
        except (UnicodeEncodeError, ValueError):
            return -1
        if i < 0 and i != -2:
            raise OSError(int(-i), "the listing is damaged")
        return i if i >= 0 else -1


_native_object = None


def _native():
    global _native_object
    if _native_object is None:
        _native_object = _Native()
    return _native_object


class Listing:
    """A listing file mapped into this process. One object per file; lives as long as the process.

    Pickles as (file, digest): the file is immutable, and a worker maps it again.
    """

    _open = {}

    def __init__(self, handle):
        self._handle = handle
        info = _native().info(handle)
        self.count = info.entries
        self.file = os.fsdecode(info.file)
        self.digest = info.digest.decode()
        self.source = os.fsdecode(info.source)
        self.utf8 = bool(info.utf8)
        self.ascii = not any(info.bytes_used[16:])
        self.directories_shown = info.dirs_hidden
        self.duplicates = info.duplicates
        self._bytes_used = bytes(info.bytes_used)

    @classmethod
    def of_dataset(cls, directory, options):
        return cls._once(_native().dataset(directory, options))

    @classmethod
    def of_bucket(cls, *arguments):
        return cls._once(_native().bucket(*arguments))

    @classmethod
    def _once(cls, handle):
        listing = cls(handle)
        return cls._open.setdefault((listing.file, listing.digest), listing)

    @classmethod
    def of_file(cls, file, digest):
        listing = cls._open.get((file, digest))
        if listing is None:
            listing = cls(_native().open(file))
            if listing.digest != digest:
                raise OSError("listing %r was replaced: its digest is %s, not %s; do not change "
                              "files in SHARD_CACHE_DIR during a job"
                              % (file, listing.digest, digest))
            cls._open[file, digest] = listing
        return listing

    def __reduce__(self):
        return Listing.of_file, (self.file, self.digest)

    def uses_byte(self, byte):
        return bool(self._bytes_used[byte // 8] >> byte % 8 & 1)

    def name(self, i):
        return _native().name(self._handle, i)

    def names(self, i, most):
        return _native().names(self._handle, i, most)

    def find(self, name):
        return _native().find(self._handle, name)


# ---- shuffles ---------------------------------------------------------------------------------


class Permutation:
    """What numpy.random.shuffle makes of a list of n, without the list.

    numpy's shuffle cannot be evaluated at one position, so the permutation itself is kept, 4 or 8
    bytes per element, once per node: in a file of the cache directory, named by the states of the
    generator before this shuffle and those before it, so that the ranks, which DLIO seeds alike,
    share one. The first to take the lock shuffles; the others map the file and take over the
    generator's state after. Short ones are made in memory, and any that no file can be had for.

    A process removes the files it made when its list has been shuffled twice more. A pickle names
    the file and holds the states, 2.5 KB per shuffle, to make the permutation again where the file
    is gone.
    """

    SHORT = 1 << 14
    HEADER = 4096

    def __init__(self, indices, states, file=None):
        self.indices = indices  # numpy array, read-only
        self.states = states    # of the generator before each shuffle; None for a part of one
        self.file = file
        self.file_before = None  # of the permutation that was shuffled

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
                _native().log(WARN, "no shared permutation, this process keeps its own: %s"
                              % error)
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

        base = os.path.join(_native().cache_dir(), "perm-" + cls._key(n, states))
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
    """Remember a permutation file this process made, to be removed at exit at the latest.

    Sample orders are made anew each epoch, not from the one before: the oldest goes when there
    are more than train and valid need, this epoch and the one before.
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


def _advance(random, n):
    """Leave the generator as random.shuffle() of an array of n would, without the array."""
    import numpy

    # One byte that n elements share: numpy swaps it with itself.
    random.shuffle(numpy.lib.stride_tricks.as_strided(numpy.zeros(1, numpy.uint8), (n,), (0,)))


# ---- sequences --------------------------------------------------------------------------------


def _not_a_real_list(name):
    def refuse(self, *args, **kwargs):
        raise TypeError("libshard: a list of files is read-only here (%s); SHARD_VIEW=off runs "
                        "the benchmark unmodified" % name)
    refuse.__name__ = name
    return refuse


class FileList(list):
    """Paths of a listing as a list: elements start, start + step, ... of `length`, permuted or not.

    A subclass of list, because some consumers ask for one (DALI), but the storage of the base
    class stays empty. Reading works as with a list; slices are views; changing it raises
    TypeError. Pickles as a handle.
    """

    def __new__(cls, listing=(), prefix=None, *_args):
        # Code that makes a list of the type it was given: type(files)(iterable).
        return list(listing) if prefix is None else super().__new__(cls)

    def __init__(self, listing, prefix, start=0, step=1, length=None, permutation=None):
        super().__init__()
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

    def view(self, prefix=None):
        """The same elements, in the order they have now."""
        return FileList(self.listing, self.prefix if prefix is None else prefix, self._start,
                        self._step, self._length, self._permutation)

    def absolute(self):
        """A view with os.path.abspath() of every element; names have no '.' or '..' parts."""
        base = os.path.abspath(self.prefix)
        return self.view(base if base.endswith("/") else base + "/")

    def in_order(self):
        """The same elements, not permuted."""
        return FileList(self.listing, self.prefix, self._start, self._step, self._length)

    def shuffle(self, random):
        self._permutation = Permutation.shuffled(self._length, self._permutation, random)

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
                import numpy

                part = numpy.ascontiguousarray(self._permutation.indices[i])
                return FileList(self.listing, self.prefix, self._start, self._step, length,
                                Permutation(part, None))
            return FileList(self.listing, self.prefix, self._start + start * self._step,
                            self._step * step, length)
        i = operator.index(i)
        if i < 0:
            i += self._length
        if not 0 <= i < self._length:
            raise IndexError("list index out of range")
        return self.prefix + self.listing.name(self._position(i))

    def __iter__(self):
        if self._permutation is not None or self._step != 1:
            return map(self.__getitem__, range(self._length))
        return self._iterate()

    def _iterate(self):
        at, end = self._start, self._start + self._length
        while at < end:
            names = self.listing.names(at, min(CHUNK, end - at))
            for name in names:
                yield self.prefix + name
            at += len(names)

    def __reversed__(self):
        return map(self.__getitem__, range(self._length - 1, -1, -1))

    def _index(self, path):
        """Position of a path here, -1 if it is not here."""
        if not isinstance(path, str) or not path.startswith(self.prefix) or "\0" in path:
            return -1
        at = self.listing.find(path[len(self.prefix):])
        if at < 0:
            return -1
        i, rest = divmod(at - self._start, self._step)
        if rest or not 0 <= i < len(range(self._length)) and self._permutation is None:
            return -1
        if self._permutation is not None:
            import numpy

            found = numpy.flatnonzero(self._permutation.indices == i) if i >= 0 else ()
            return int(found[0]) if len(found) else -1
        return i

    def __contains__(self, path):
        return self._index(path) >= 0

    def count(self, path):
        return int(path in self)

    def index(self, path, start=0, stop=sys.maxsize):
        i = self._index(path)
        if i < 0 or i not in range(*slice(start, stop).indices(self._length)):
            raise ValueError("%r is not in list" % (path,))
        return i

    def __eq__(self, other):
        if self is other:
            return True
        if not isinstance(other, list):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    def __ne__(self, other):
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = None

    def _compare(operation):
        def compare(self, other):
            if not isinstance(other, list):
                return NotImplemented
            return operation(list(self), list(other))
        return compare

    __lt__, __le__, __gt__, __ge__ = map(_compare, (operator.lt, operator.le, operator.gt,
                                                    operator.ge))
    del _compare

    # -- new lists

    def copy(self):
        return self.view()

    def __copy__(self):
        return self.view()

    def __deepcopy__(self, memo):
        return self.view()

    def __add__(self, other):
        return list(self) + list(other) if isinstance(other, list) else NotImplemented

    def __radd__(self, other):
        return list(other) + list(self) if isinstance(other, list) else NotImplemented

    def __mul__(self, n):
        return list(self) * n

    __rmul__ = __mul__

    def __reduce_ex__(self, protocol):
        return FileList, (self.listing, self.prefix, self._start, self._step, self._length,
                          self._permutation)

    def __repr__(self):
        return "<libshard: %d files of %s>" % (self._length, self.prefix)

    __str__ = __repr__

    def __sizeof__(self):
        return object.__sizeof__(self)

    for _name in ("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse",
                  "__setitem__", "__delitem__", "__iadd__", "__imul__"):
        locals()[_name] = _not_a_real_list(_name)
    del _name


class Indices(collections.abc.Sequence):
    """list(range(start, stop)) in O(1), shuffled or not: the sampler's own sample numbers."""

    def __init__(self, start, stop, permutation=None):
        self._range = range(start, stop)
        self._permutation = permutation

    def shuffle(self, random):
        self._permutation = Permutation.shuffled(len(self._range), self._permutation, random)

    def __len__(self):
        return len(self._range)

    def __getitem__(self, i):
        if self._permutation is None:
            return self._range[i]
        if isinstance(i, slice):
            return [self._range[int(k)] for k in self._permutation.indices[i]]
        return self._range[int(self._permutation.indices[i])]

    def __iter__(self):
        if self._permutation is None:
            return iter(self._range)
        return map(self._range.__getitem__, self._permutation.indices)

    def __repr__(self):
        return "<libshard: %d samples from %d on>" % (len(self._range), self._range.start)

    def __reduce__(self):
        return Indices, (self._range.start, self._range.stop, self._permutation)


class SampleMap(collections.abc.Mapping):
    """DLIO's global index map: own sample number -> (absolute path, sample in the file).

    `exact` tells the number types: True as PyPI's 2.0.0 makes them (int), False as later versions
    do (numpy.int64). Iterates in the order in which DLIO fills its dict: ascending, or shuffled
    with the generator in `state`.
    """

    def __init__(self, files, start, stop, per_file, exact, state=None):
        self._files = files
        self._range = range(start, stop)
        self._per_file = per_file
        self._exact = exact
        self._state = state

    def __len__(self):
        return len(self._range)

    def __getitem__(self, sample):
        try:
            number = operator.index(sample)
        except TypeError:
            raise KeyError(sample) from None
        if number not in self._range:
            raise KeyError(sample)
        inside = number % self._per_file
        if not self._exact:
            import numpy

            inside = numpy.int64(inside)
        return self._files[number // self._per_file], inside

    def __contains__(self, sample):
        try:
            return operator.index(sample) in self._range
        except TypeError:
            return False

    def __iter__(self):
        if self._exact:
            return iter(self._range)
        import numpy

        if self._state is None:
            return map(numpy.int64, self._range)
        order = numpy.arange(self._range.start, self._range.stop)
        random = numpy.random.RandomState()
        random.set_state(self._state)
        random.shuffle(order)
        return iter(order)

    def __repr__(self):
        return "<libshard: %d samples of %r>" % (len(self._range), self._files)

    def __reduce__(self):
        return SampleMap, (self._files, self._range.start, self._range.stop, self._per_file,
                           self._exact, self._state)


class ThreadSamples(collections.abc.Sequence):
    """One thread's list of DLIO's file map: (sample number, absolute path, sample in the file).

    DLIO deals blocks of samples_per_thread samples to the threads in turn, and walks the files
    from the first, wherever the rank's first sample lies; so does this.
    """

    def __init__(self, files, samples, thread, threads, block, per_file, first_file, by_sample):
        self._files = files
        self._samples = samples  # Indices
        self._thread, self._threads, self._block = thread, threads, block
        self._per_file = per_file
        self._first_file = first_file  # of the sample at position 0
        self._by_sample = by_sample    # the third element counts by sample number, not position
        whole, rest = divmod(len(samples), block * threads)
        self._length = whole * block + min(max(rest - thread * block, 0), block)

    def __len__(self):
        return self._length

    def _at(self, k):
        import numpy

        turn, inside = divmod(k, self._block)
        position = (turn * self._threads + self._thread) * self._block + inside
        sample = self._samples[position]
        file = position // self._per_file % len(self._files) if position else self._first_file
        return (numpy.int64(sample), self._files[file],
                numpy.int64(sample % self._per_file) if self._by_sample
                else position % self._per_file)

    def __getitem__(self, k):
        if isinstance(k, slice):
            return [self._at(i) for i in range(*k.indices(self._length))]
        k = operator.index(k)
        if k < 0:
            k += self._length
        if not 0 <= k < self._length:
            raise IndexError("list index out of range")
        return self._at(k)

    def __iter__(self):
        return map(self._at, range(self._length))

    def __repr__(self):
        return "<libshard: %d samples of thread %d>" % (self._length, self._thread)


class OpenFiles(dict):
    """DLIO's open_file_map, without the keys whose file is closed: it keeps one per file read.

    DLIO's readers treat None and an absent key alike.
    """

    def __setitem__(self, path, file):
        if file is None:
            self.pop(path, None)
        else:
            super().__setitem__(path, file)

    def __missing__(self, path):
        return None


# ---- recognising DLIO -------------------------------------------------------------------------

# Functions that are touched or relied upon, and the fingerprints of their known sources: the first
# ten hex digits of SHA-256 over the function's lines, decorators included, stripped, without blank
# and comment lines. From argonne-lcf's main of August 2024 (PyPI's 2.0.0) to June 2026, the branch
# mlperf_storage_v2.0 included. The value says which of the forms known here the function has.
KNOWN = {
    "main.py": {
        "DLIOBenchmark.initialize": dict.fromkeys(
            ("a89f1087a8", "50c093abe7", "e71873ebd5", "f9b4be2043", "ccb0511c8d", "f4ac648720",
             "a83de9ee1f", "1e2cd0c48e", "20c9778c7c")),
    },
    "utils/config.py": {
        "ConfigArguments.derive_configurations": dict.fromkeys(
            ("4cbabafc6f", "5bc9ad9eda", "b211fdf32d", "75a4a756c1", "603c6fddc8", "93d6161bdb")),
        "ConfigArguments.get_global_map_index": {
            "7052bdd374": "plain", "9f4402f572": "summed", "30a1966420": "summed",
            "3e128bbcf5": "summed-uri"},
        "ConfigArguments.build_sample_map_iter": {
            "826c108506": "plain", "d04f411da6": "summed", "cf3aaae488": "summed",
            "b94cdac938": "summed-position"},
        "ConfigArguments.reconfigure": dict.fromkeys(
            ("fc7c46c0c3", "9c5da3eaff", "124b33c5a9", "27f34f4cd8")),
    },
    "storage/file_storage.py": {
        "FileStorage.walk_node": dict.fromkeys(("a87c8cab2f",)),
        "FileStorage.get_uri": dict.fromkeys(("863de35193",)),
        "FileStorage.get_node": dict.fromkeys(("38cdccc373",)),
        "FileStorage.get_basename": dict.fromkeys(("f89ef0a86c",)),
    },
    "data_loader/torch_data_loader.py": {
        "dlio_sampler.__init__": {"00517fd062": "past-end", "d47346983d": "past-end",
                                  "02579fc775": "clipped"},
        "dlio_sampler.__iter__": dict.fromkeys(("bc23e3a535", "9fe9ef45e5")),
        "TorchDataset.__init__": dict.fromkeys(("eb7966ce4f", "6285735c3d")),
        "TorchDataset.worker_init": dict.fromkeys(("2faaea6f17", "52a199f75d")),
    },
    "data_loader/dali_data_loader.py": {
        "DaliIndexDataset.__init__": {"14f2f2e52c": "past-end", "492dd07a25": "clipped"},
    },
    "reader/reader_handler.py": {
        "FormatReader.__init__": dict.fromkeys(("9e1cabbeac", "3fb5fbff4f")),
        "FormatReader.next": dict.fromkeys(("18d5836dea", "5b65e1d8cd", "36f80da51e")),
        "FormatReader.read_index": dict.fromkeys(("aafd551f3c", "e47459c392", "0d01af7c78")),
    },
    "reader/tf_reader.py": {
        "TFReader.next": dict.fromkeys(("5ffde4d5da", "f33f53e9ef", "c485ec8518")),
    },
}

# The same for `storage_type: s3` by s3torchconnector (argonne-lcf's main, from December 2025 on).
# Looked at where it is used; one that is not known lists its bucket itself.
KNOWN_S3 = {
    "storage/s3_torch_storage.py": {
        "S3PyTorchConnectorStorage.__init__": dict.fromkeys(("751dbfeaad",)),
        "S3PyTorchConnectorStorage.get_uri": dict.fromkeys(("66b6e858e4",)),
        "S3PyTorchConnectorStorage.get_node": dict.fromkeys(("c6b3021f1d",)),
        "S3PyTorchConnectorStorage.walk_node": dict.fromkeys(("1f321c847e",)),
        "S3PyTorchConnectorStorage.list_objects": dict.fromkeys(("be47e90a73",)),
    },
    "storage/s3_storage.py": {
        "S3Storage.__init__": dict.fromkeys(("d199fbdb96",)),
        "S3Storage.get_node": dict.fromkeys(("c6b3021f1d",)),
    },
    "storage/storage_handler.py": {
        "DataStorage.__init__": dict.fromkeys(("ef9f5ec340",)),
        "DataStorage.get_node": dict.fromkeys(("ebc9a99fee",)),
    },
}


def _fingerprints(source, names):
    """{qualified name: fingerprint} of the methods `names` in a module's source.

    By indentation, which takes a tenth of the time of parsing. A method ends where a line begins
    that is not further in than its `def`; a string or bracket that reaches further out would end
    it early, but after its first line, so a method that was changed in that way differs, too.
    """
    import hashlib

    found = {}
    cls, lines, decorators, name = "", [], [], None

    def finish():
        if name in names:  # the last definition counts, as it does in Python
            digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
            found[name] = digest[:10]

    for line in source.splitlines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if indent > 4:
            if name:
                lines.append(text)
            continue
        finish()
        name = None
        if indent == 0:
            words = text.replace("(", " ").replace(":", " ").split()
            cls, decorators = words[1] if words[0] == "class" else "", []
        elif indent == 4 and text.startswith("@"):
            decorators.append(text)
        elif indent == 4 and cls and text.startswith("def "):
            name = "%s.%s" % (cls, text[4:].partition("(")[0].strip())
            lines, decorators = decorators + [text], []
        else:
            decorators = []
    finish()
    return found


class _Dlio:
    """What is known of the DLIO that this process imports."""

    def __init__(self, folder):
        self.folder = folder
        self.forms = {}  # function -> form

    def verify(self, known_functions):
        """None if every function is known, else what is not."""
        for path, functions in known_functions.items():
            file = os.path.join(self.folder, *path.split("/"))
            try:
                with open(file, encoding="utf-8") as stream:  # CRLF becomes LF
                    found = _fingerprints(stream.read(), functions)
            except (OSError, ValueError) as error:
                return "%s: %s" % (file, error)
            for name, known in functions.items():
                if found.get(name) not in known:
                    return "%s: %s is not a version known to libshard" % (file, name)
                self.forms[name] = known[found[name]]
        return None

    def is_main(self, code):
        """Whether a code object is that of the verified initialize()."""
        return (code.co_name == "initialize" and os.path.realpath(code.co_filename)
                == os.path.realpath(os.path.join(self.folder, "main.py")))


_dlio = None


# ---- the listing in initialize() --------------------------------------------------------------


class Token(str):
    """The one element of a list that stands for `files`; survives os.path.join()."""

    def __new__(cls, text, files):
        token = super().__new__(cls, text)
        token.files = files
        return token

    def __radd__(self, other):
        return Token(str(other) + str(self), self.files)


class Names(list):
    """What walk_node() returns for a flat folder: not empty, [0] is the first entry as libc shows
    it (DLIO looks whether it is a directory), and iterating gives the Token."""

    def __init__(self, first, token):
        super().__init__()
        self._first, self._token = first, token

    def __len__(self):
        return 1

    def __getitem__(self, i):
        return [self._first][i]

    def __iter__(self):
        return iter([self._token] if self._token is not None else [])

    def __repr__(self):
        return "<libshard: names of %r>" % (self._token.files if self._token is not None else [],)

    __str__ = __repr__


def _tokens(value):
    """The FileList behind a list of one Token, or None."""
    if type(value) is list and list.__len__(value) == 1 and type(value[0]) is Token:
        return value[0].files
    return None


def _length(value):
    """len() for the module of initialize(): a list of one Token has the length it stands for."""
    files = _tokens(value)
    return len(value) if files is None else len(files)


class _Refusal(Exception):
    """Why a folder is listed in the unmodified way."""


def _include(pattern):
    """A pattern as a word of shard_dataset_open()'s options: ':' separates there, blanks end."""
    return "".join(c if c.isalnum() or c in "*._-" else "".join("%%%02x" % b for b in c.encode())
                   for c in pattern)


def _check_listing(listing):
    if not listing.ascii and (not listing.utf8 or sys.getfilesystemencoding().lower() != "utf-8"):
        raise _Refusal("some names are not valid UTF-8, so their order in Python is another one")


def _flat(storage, folder, suffix):
    """FileList of the entries of `folder` whose name ends with `suffix`, sorted by path."""
    listing = Listing.of_dataset(storage.get_uri(folder),
                                 "order=path depth=1 include=" + _include("*" + suffix))
    _check_listing(listing)
    if listing.directories_shown:
        raise _Refusal("it holds directories whose names end with %r" % suffix)
    return FileList(listing, _prefix(storage, folder))


def _prefix(storage, folder):
    """What DLIO puts before a name: os.path.join does not need the name to be known."""
    return storage.get_uri(os.path.join(folder, "x"))[:-1]


def _subfolders(storage, folder, suffix, order="basename"):
    """FileList of folder/*/*.suffix in both cases, as glob finds them, by basename."""
    import glob

    root = storage.get_uri(folder)
    if glob.has_magic(root):
        raise _Refusal("its path holds a character that is special in a pattern")
    if suffix != suffix.lower() or suffix.lower() == suffix.upper():
        raise _Refusal("the format %r has no two cases" % suffix)
    patterns = [suffix, suffix.upper()]
    if suffix in root:
        # DLIO replaces the format everywhere in the path when it looks for upper case.
        if os.path.lexists(root.replace(suffix, suffix.upper())):
            raise _Refusal("its path holds the format's name, and exists in upper case too")
        patterns.pop()
    listing = Listing.of_dataset(
        root, "order=%s depth=2 exact=2 hidden=0 follow=1 include=%s"
        % (order, ":".join(_include("*." + pattern) for pattern in patterns)))
    _check_listing(listing)
    if listing.directories_shown:
        raise _Refusal("it holds directories whose names end with .%s" % suffix)
    if order == "basename" and listing.duplicates:
        raise _Refusal("two of its files have one name, which leaves their order to chance")
    return FileList(listing, root + "/")


def _first_entry(path):
    """The first name of a directory as os.listdir() would show it, or None."""
    with os.scandir(path) as entries:
        for entry in entries:
            return entry.name
    return None


def _asked(storage, frame):
    """(benchmark, kind) if it is initialize() that asks for the names of train or valid."""
    benchmark = frame.f_locals.get("self")
    args = getattr(benchmark, "args", None)
    kind = str(frame.f_locals.get("dataset_type"))
    if args is None or getattr(benchmark, "storage", None) is not storage:
        return None, kind
    if kind not in ("train", "valid") or not _dlio.is_main(frame.f_code):
        return None, kind
    if getattr(benchmark, "num_files_train" if kind == "train" else "num_files_eval") < 0:
        return None, kind  # cuts from the end, which a Token does not know
    if args.reader_classname is not None or args.data_loader_classname is not None:
        raise _Refusal("a custom reader or data loader may do with the list what it likes")
    return benchmark, kind


def _count_tokens(frame):
    """From now on len() in the module of initialize() knows Tokens."""
    if frame.f_globals.get("len") is not _length:
        frame.f_globals["len"] = _length


def _walk(storage, frame, node, use_pattern):
    """The answer to initialize()'s walk_node(), or None for the unmodified one."""
    benchmark, kind = _asked(storage, frame)
    if benchmark is None:
        return None
    args = benchmark.args
    folder = os.path.join(args.data_folder, kind)
    suffix = str(args.format)
    if use_pattern:
        if node != os.path.join(args.data_folder, "%s/*/*.%s" % (kind, suffix)):
            return None
        files = _subfolders(storage, folder, suffix)
        answer = [Token(files[0], files)] if files else []
    else:
        if node != folder:
            return None
        path = storage.get_uri(node)
        try:
            first = _first_entry(path)
        except OSError:
            return None
        if first is None or os.path.isdir(os.path.join(path, first)):
            return None  # nothing, or sub-folders: their names are few
        files = _flat(storage, folder, suffix)
        token = Token(files.listing.name(0), files) if files else None
        answer = Names(first, token)
    _count_tokens(frame)
    return answer


# ---- the same from a bucket -----------------------------------------------------------------------


_turns = {}  # prefix -> how often this process has asked for it


def _first_from(listing, name):
    """The first name of a listing in path order that is not before `name`, or None."""
    low, high = 0, listing.count
    while low < high:
        middle = (low + high) // 2
        if listing.name(middle).encode() < name.encode():
            low = middle + 1
        else:
            high = middle
    return listing.name(low) if low < listing.count else None


def _account(storage):
    """Variables for shardctl: what the storage class gives to s3torchconnector, or None if that
    is not enough for it. A session token is the environment's, for both."""
    values = {"AWS_ENDPOINT_URL_S3": storage.endpoint, "AWS_REGION": storage.region,
              "AWS_ACCESS_KEY_ID": storage.access_key_id,
              "AWS_SECRET_ACCESS_KEY": storage.secret_access_key}
    if not all(isinstance(value, str) and value for value in values.values()):
        return None
    if storage.s3_client_config.force_path_style:
        values["SHARD_S3_ADDRESSING"] = "path"
    if "SHARD_TIMEOUT" not in os.environ:
        values["SHARD_TIMEOUT"] = "10"  # for a request: the unmodified run gives up soon, too
    values["SHARD_LOG"] = "warn"  # of its words, only why it fails is wanted
    # Nothing else may say where the bucket is.
    return ["%s=%s" % pair for pair in values.items()] + [
        "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
        "AWS_PROFILE"]


def _walk_bucket(storage, frame, node, use_pattern):
    """_walk() for DLIO's S3PyTorchConnectorStorage.

    Its keys are whole URIs: data_folder/train/x is the object of that very name, s3:// included,
    in the bucket that the URI names. It lists all below a prefix; sub-folders it does not know.
    """
    import urllib.parse

    benchmark, kind = _asked(storage, frame)
    if benchmark is None:
        return None
    args = benchmark.args
    folder = os.path.join(args.data_folder, kind)
    subfolders = benchmark.num_subfolders_train if kind == "train" else benchmark.num_subfolders_eval
    if use_pattern or node != folder or subfolders != 0:
        return None  # with sub-folders DLIO stops
    try:
        parts = urllib.parse.urlparse(node)
    except ValueError:
        return None
    if (node != "s3://%s/%s" % (parts.netloc, parts.path.lstrip("/")) or not node.isprintable()
            or not parts.netloc.replace("-", "").replace("_", "").replace(".", "").isalnum()):
        raise _Refusal("data_folder is not of the form s3://bucket/folder")
    # Of other loaders, and the iterative sampler, DLIO makes local paths of the keys, and fails.
    if str(args.data_loader) != "pytorch" or str(args.data_loader_sampler) not in ("None", "index"):
        raise _Refusal("in a bucket only the PyTorch loader with the index sampler is known")
    environment = _account(storage)
    if environment is None:
        return None  # DLIO stops, too
    turn = _turns[node] = _turns.get(node, 0) + 1
    since = STARTED  # ranks of MPI have met since then, and after the data's generation
    if args.comm_size == 1:
        # Processes that know nothing of each other list for themselves; but shares are of one list.
        turn, since = (turn, 1) if _native().view_asked() == "shard" else (0, 0)
    listing = Listing.of_bucket(
        "s3://%s/%s/" % (parts.netloc, node),
        "order=path include=" + _include("*" + str(args.format)), environment, turn, since)
    if not listing.count:
        return None
    _check_listing(listing)
    if any(listing.uses_byte(byte) for byte in (*range(32), 127, 0xEF)):
        raise _Refusal("some keys have characters that XML may not hold")
    absolute = _first_from(listing, "/")
    if absolute is not None and absolute.startswith("/"):
        raise _Refusal("some keys have two slashes after the folder")
    files = FileList(listing, folder + "/")
    _count_tokens(frame)
    name = listing.name(0)
    return Names(name, Token(name, files))


_refused = set()


def _speaks():
    """Whether this process says what all processes of the node have to say: the first rank, and
    no worker."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        return False
    world, _ = _native().world()
    return world is None or world.local_rank <= 0


def _say_refusal(what, why):
    """One warning per reason and node; a time-out may be one rank's alone."""
    import errno

    reason = str(getattr(why, "strerror", None) or why)
    if reason not in _refused:
        _refused.add(reason)
        if _speaks() or getattr(why, "errno", None) == errno.ETIMEDOUT:
            _native().log(WARN, "%s is listed in the unmodified way: %s" % (what, reason))


def _patch_storage(module):
    original = module.FileStorage.walk_node

    def walk_node(self, id, use_pattern=False):
        frame = sys._getframe(1)
        if frame.f_code.co_name == "initialize" and type(self) is module.FileStorage:
            try:
                answer = _walk(self, frame, id, use_pattern)
                if answer is not None:
                    return answer
            except (_Refusal, OSError) as error:
                _say_refusal(repr(id), error)
        return original(self, id, use_pattern)

    walk_node.__wrapped__ = original
    module.FileStorage.walk_node = walk_node


def _patch_s3_storage(module):
    fault = _dlio.verify(KNOWN_S3)
    if fault is not None:
        _say_refusal("storage_type s3", fault)
        return
    cls = module.S3PyTorchConnectorStorage
    original = cls.walk_node

    def walk_node(self, id, use_pattern=False):
        frame = sys._getframe(1)
        if frame.f_code.co_name == "initialize" and type(self) is cls:
            try:
                answer = _walk_bucket(self, frame, id, use_pattern)
                if answer is not None:
                    return answer
            except (_Refusal, OSError) as error:
                _say_refusal("data_folder/" + str(frame.f_locals.get("dataset_type")), error)
        return original(self, id, use_pattern)

    walk_node.__wrapped__ = original
    cls.walk_node = walk_node


# ---- what is derived from the list --------------------------------------------------------------


class _Proxy:
    """A module, or part of one, with some attributes of ours."""

    def __init__(self, target, **own):
        self.__dict__.update(own)
        self._target = target

    def __getattr__(self, name):
        if name == "_target":  # a copy that is being made
            raise AttributeError(name)
        return getattr(self._target, name)


def _numpy_proxy(numpy):
    """numpy with a random.shuffle() that knows our sequences."""

    def shuffle(x):
        if isinstance(x, (FileList, Indices)):
            x.shuffle(numpy.random)
        else:
            numpy.random.shuffle(x)

    return _Proxy(numpy, random=_Proxy(numpy.random, shuffle=shuffle))


def _share(files, wanted, rank, size):
    """This rank's part of the first `wanted` files, for a DLIO that has no MPI world."""
    wanted = min(wanted, len(files))
    begin, end = _native().range(wanted, rank, size)
    return files[begin:end]


_said_share = False


def _shard_world(args):
    """The launcher's world if SHARD_VIEW=shard applies to this DLIO, else None."""
    global _said_share
    native = _native()
    if native.view_asked() != "shard":
        return None
    world, error = native.world()
    text = None
    if world is None or world.rank < 0:
        text = ("SHARD_VIEW=shard has no effect: %s"
                % (error or "no rank is known; set SHARD_RANK and SHARD_SIZE"))
        world = None
    elif args.comm_size > 1:
        text = ("SHARD_VIEW=shard has no effect: DLIO divides its files over %d MPI ranks itself, "
                "and would do so a second time" % args.comm_size)
        world = None
    else:
        text = ("SHARD_VIEW=shard: each of %d processes reads its own share of the files, and "
                "num_files_train and num_files_eval count the share" % world.size)
    if text and not _said_share:
        _said_share = True
        if _speaks():
            native.log(WARN, text)
    return world


def _patch_derive(cls):
    original = cls.derive_configurations

    def derive_configurations(self, file_list_train=None, file_list_eval=None):
        frame = sys._getframe(1)
        given = {"train": file_list_train, "eval": file_list_eval}
        if any(_tokens(files) is not None for files in given.values()):
            benchmark = frame.f_locals["self"]
            frame.f_globals.pop("len", None)
            world = _shard_world(self)
            for kind, files in given.items():
                files = _tokens(files)
                count = "num_files_" + kind
                if files is None:
                    continue
                wanted = getattr(benchmark, count)
                if not files.listing.source.startswith("s3://"):  # libc opens no objects
                    _native().stats_dataset(files.prefix, files.listing._handle,
                                            min(wanted, len(files)), 1)
                if world is not None:
                    files = _share(files, wanted, world.rank, world.size)
                    setattr(benchmark, count, len(files))
                elif wanted < len(files):
                    files = files[:wanted]
                given[kind] = files if files else []
        return original(self, given["train"], given["eval"])

    derive_configurations.__wrapped__ = original
    cls.derive_configurations = derive_configurations


def _own_samples(args, total):
    """(first, end) of the rank's samples; PyPI's 2.0.0 does not clip the end."""
    import math

    each = int(math.ceil(total / args.comm_size))
    return args.my_rank * each, (args.my_rank + 1) * each


def _seed(args, numpy, epoch):
    numpy.random.seed(args.seed + epoch if args.seed_change_epoch else args.seed)


def _sum(first, end):
    """Sum of the sample numbers as DLIO adds them up: numpy.int64, or 0 for none."""
    import numpy

    return numpy.int64((end - first) * (first + end - 1) // 2) if end > first else 0


def _patch_index_map(module, cls, form):
    original = cls.get_global_map_index

    def plain(self, file_list, total_samples):
        if not isinstance(file_list, FileList):
            return original(self, file_list, total_samples)
        first, end = _own_samples(self, total_samples)
        if end > first and (end - 1) // self.num_samples_per_file >= len(file_list):
            raise IndexError("list index out of range")
        return SampleMap(file_list.absolute(), first, end, self.num_samples_per_file, True)

    def summed(self, file_list, total_samples, epoch_number):
        if not isinstance(file_list, FileList):
            return original(self, file_list, total_samples, epoch_number)
        import numpy

        first, end = _own_samples(self, total_samples)
        end = max(min(end, total_samples), first)
        state = None
        if self.sample_shuffle is not module.Shuffle.OFF:
            _seed(self, numpy, epoch_number)
            state = numpy.random.get_state()
            _advance(numpy.random, end - first)
        local = form == "summed" or self.storage_type == module.StorageType.LOCAL_FS
        files = file_list.absolute() if local else file_list.view()
        return (SampleMap(files, first, end, self.num_samples_per_file, False, state),
                _sum(first, end))

    replacement = plain if form == "plain" else summed
    replacement.__wrapped__ = original
    cls.get_global_map_index = replacement


def _patch_file_map(module, cls, form):
    original = cls.build_sample_map_iter

    def build_sample_map_iter(self, file_list, total_samples, epoch_number):
        if not isinstance(file_list, FileList):
            return original(self, file_list, total_samples, epoch_number)
        import numpy

        threads = 1
        if self.read_threads > 0 and self.data_loader is not module.DataLoaderType.DALI:
            threads = self.read_threads
        first, end = _own_samples(self, total_samples)
        self.samples_per_thread = (end - first) // threads
        if form != "plain":
            end = max(min(end, total_samples), first)
        samples = Indices(first, end)
        if self.sample_shuffle is not module.Shuffle.OFF:
            _seed(self, numpy, epoch_number)
            samples.shuffle(numpy.random)
        if len(samples) and not self.samples_per_thread:
            raise ZeroDivisionError("integer division or modulo by zero")
        files = file_list.absolute()
        per_rank = (len(files) // self.comm_size) % len(files)
        made = {
            thread: ThreadSamples(files, samples, thread, threads, self.samples_per_thread or 1,
                                  self.num_samples_per_file, self.my_rank * per_rank,
                                  form != "summed-position")
            for thread in range(threads)}
        return made if form == "plain" else (made, _sum(first, end))

    build_sample_map_iter.__wrapped__ = original
    cls.build_sample_map_iter = build_sample_map_iter


def _patch_epochs(cls):
    """For SHARD_STATS: DLIO calls this before its first epoch and after each."""
    original = cls.reconfigure

    def reconfigure(self, epoch_number):
        _native().stats_epoch(epoch_number)
        return original(self, epoch_number)

    reconfigure.__wrapped__ = original
    cls.reconfigure = reconfigure


def _patch_config(module):
    cls = module.ConfigArguments
    if "SHARD_STATS" in os.environ:
        _patch_epochs(cls)
    _patch_derive(cls)
    _patch_index_map(module, cls, _dlio.forms["ConfigArguments.get_global_map_index"])
    _patch_file_map(module, cls, _dlio.forms["ConfigArguments.build_sample_map_iter"])
    module.np = _numpy_proxy(module.np)


def _own_indices(part, each, total, clipped):
    """The sample numbers of a part; older DLIOs go past the end with the last."""
    first, end = part * each, (part + 1) * each
    return Indices(first, max(min(end, total), first) if clipped else end)


def _patch_torch(module):
    cls = module.dlio_sampler
    original = cls.__init__
    clipped = _dlio.forms["dlio_sampler.__init__"] == "clipped"

    def __init__(self, rank, size, num_samples, *args, **kwargs):
        import math

        original(self, rank, size, 0, *args, **kwargs)  # its list of indices stays empty
        self.num_samples = num_samples
        each = int(math.ceil(num_samples / size))
        self.indices = _own_indices(self.rank, each, num_samples, clipped)

    __init__.__wrapped__ = original
    cls.__init__ = __init__
    if hasattr(module, "np"):
        module.np = _numpy_proxy(module.np)


def _patch_dali(module):
    cls = module.DaliIndexDataset
    original = cls.__init__
    clipped = _dlio.forms["DaliIndexDataset.__init__"] == "clipped"

    def __init__(self, format_type, dataset_type, epoch, worker_index, total_num_workers,
                 total_num_samples, samples_per_worker, *args, **kwargs):
        # DLIO makes its list only where there is no attribute of that name.
        self.indices = _own_indices(worker_index, samples_per_worker, total_num_samples, clipped)
        original(self, format_type, dataset_type, epoch, worker_index, total_num_workers,
                 total_num_samples, samples_per_worker, *args, **kwargs)

    __init__.__wrapped__ = original
    cls.__init__ = __init__
    if hasattr(module, "np"):
        module.np = _numpy_proxy(module.np)


def _patch_reader(module):
    cls = module.FormatReader
    original = cls.__init__

    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if isinstance(self._file_list, FileList):
            self.open_file_map = OpenFiles()

    __init__.__wrapped__ = original
    cls.__init__ = __init__


def _tf_sorted(files):
    """The files in the order of their full paths, as list_files() sorts them, as an iterable of
    chunks. In the sub-folder layout DLIO's order, and what it trims to, is that of basenames."""
    listing = files.listing
    ordered = files.in_order()
    if "order=basename" not in _options_of(listing):
        return ordered
    by_path = FileList(Listing.of_dataset(
        listing.source, _options_of(listing).replace("order=basename", "order=path")),
        files.prefix)
    if len(ordered) == listing.count:
        return by_path
    # What was trimmed away is everything after the last name by (basename, path).
    last = ordered[-1]
    limit = (os.path.basename(last), last)
    return (path for path in by_path if (os.path.basename(path), path) <= limit)


def _options_of(listing):
    return os.fsdecode(_native().info(listing._handle).options)


class _TfFiles:
    """What list_files() returns for a FileList: shard() makes a data set of every P-th path."""

    def __init__(self, tf, files):
        self._tf, self._files = tf, files

    def shard(self, num_shards, index):
        import itertools

        tf, files = self._tf, self._files

        def chunks():
            ordered = _tf_sorted(files)
            if isinstance(ordered, FileList):
                own = iter(ordered[index::num_shards])
            else:
                own = itertools.islice(ordered, index, None, num_shards)
            while True:
                chunk = list(itertools.islice(own, CHUNK))
                if not chunk:
                    return
                yield chunk

        return tf.data.Dataset.from_generator(
            chunks, output_signature=tf.TensorSpec((None,), tf.string)).unbatch()


def _patch_tf_reader(module):
    tf = module.tf

    def list_files(file_pattern, shuffle=None, *args, **kwargs):
        files = file_pattern
        if not isinstance(files, FileList):
            return tf.data.Dataset.list_files(file_pattern, shuffle, *args, **kwargs)
        from dlio_benchmark.utils.config import ConfigArguments

        special = any(c in files.prefix for c in "*?[\\") or any(
            files.listing.uses_byte(ord(c)) for c in "*?[\\")
        # Patterns, a share that is cut by records, or the rest of an order we do not know:
        # TensorFlow gets the whole list.
        if special or shuffle is not False or args or kwargs or not (
                len(files) >= ConfigArguments.get_instance().comm_size):
            return tf.data.Dataset.list_files(list(files), shuffle, *args, **kwargs)
        return _TfFiles(tf, files)

    dataset = _Proxy(tf.data.Dataset, list_files=list_files)
    module.tf = _Proxy(tf, data=_Proxy(tf.data, Dataset=dataset))


# ---- getting in ---------------------------------------------------------------------------------

PATCHES = {
    "dlio_benchmark.storage.file_storage": _patch_storage,
    "dlio_benchmark.storage.s3_torch_storage": _patch_s3_storage,
    "dlio_benchmark.utils.config": _patch_config,
    "dlio_benchmark.data_loader.torch_data_loader": _patch_torch,
    "dlio_benchmark.data_loader.dali_data_loader": _patch_dali,
    "dlio_benchmark.reader.reader_handler": _patch_reader,
    "dlio_benchmark.reader.tf_reader": _patch_tf_reader,
}


class _Loader:
    """A module's own loader, and then our patch."""

    def __init__(self, loader, patch):
        self._loader, self._patch = loader, patch

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._patch(module)

    def __getattr__(self, name):
        if name == "_loader":
            raise AttributeError(name)
        return getattr(self._loader, name)


class _Finder:
    """First of sys.meta_path: wraps the loader of the modules in PATCHES, each once."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        patch = PATCHES.get(name)
        if patch is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is _Finder or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, patch)
                return spec
        return None


def _locate():
    """The folder of the package that is being imported, or None if there is none."""
    import importlib.util

    loaded = sys.modules.get("dlio_benchmark")
    if loaded is not None:
        places = list(getattr(loaded, "__path__", ()))
    else:
        spec = importlib.util.find_spec("dlio_benchmark")
        places = list(spec.submodule_search_locations or ()) if spec else []
    return places[0] if places else None


def _start():
    """Recognise DLIO and get ready, or leave everything as it is and say why."""
    global _dlio
    folder = _locate()
    if folder is None:
        return
    native = _native()
    # DLIO divides its files itself: libc never shows it a part.
    native.set_view("off")
    if native.config_error():
        return
    fault, level = native.world()[1], ERROR
    if fault is None:
        loaded = [name for name in PATCHES if name in sys.modules]
        _dlio = _Dlio(folder)
        level = WARN
        fault = _dlio.verify(KNOWN)
        if fault is None and loaded:
            fault = "%s was imported in a way that hides it" % loaded[0]
    if fault is not None:
        _dlio = None
        if _speaks():
            native.log(level, "DLIO runs unmodified: " + fault)
        return
    native.set_view("global")
    sys.meta_path.insert(0, _Finder)


_start()
