# SPDX-License-Identifier: MIT
"""native: the functions of libshard.h that are used here, by ctypes."""
import ctypes
import os
import sys
import threading

from . import LIBRARY

ERROR, WARN, INFO, DEBUG = range(4)  # shard_log()
VIEWS = ("auto", "off", "global", "shard")  # enum shard_view


class Info(ctypes.Structure):
    """struct shard_listing_info, field by field; tests/dlio/adapter_units.py compares the two."""

    _fields_ = (
        [(n, ctypes.c_uint64) for n in ("entries", "bytes", "directories", "dirs_hidden",
                                        "dir_links", "duplicates")]
        + [(n, ctypes.c_uint32) for n in ("min_depth", "max_depth", "longest", "block",
                                          "order", "utf8", "dotted")]
        + [("bytes_used", ctypes.c_uint8 * 32), ("suffix", ctypes.c_char * 64),
           ("digest", ctypes.c_char * 65), ("source", ctypes.c_char_p),
           ("options", ctypes.c_char_p), ("file", ctypes.c_char_p)])


class World(ctypes.Structure):
    """struct shard_world, likewise."""

    _fields_ = ([(n, ctypes.c_int) for n in ("rank", "size", "local_rank", "local_size")]
                + [("launcher", ctypes.c_char * 32)])


class Sharing(ctypes.Structure):
    """struct shard_sharing, likewise."""

    _fields_ = ([("strategy", ctypes.c_char_p)]
                + [(n, ctypes.c_int) for n in ("shuffled", "epoch_auto", "includes", "has_listing",
                                    "has_stats")]
                + [("epoch", ctypes.c_uint64)])


class Native:
    """The functions, one method each, with Python's types and exceptions."""

    def __init__(self):
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
        self._quicken = declare(quick, "shard_adapter_quicken", ctypes.c_int, ctypes.py_object)
        self._find = declare(quick, "shard_listing_find", ctypes.c_int64, pointer, text)
        self._find_last = declare(quick, "shard_adapter_find", ctypes.c_int64, pointer, text)
        self._open = declare(quick, "shard_listing_open", ctypes.c_int, text,
                             ctypes.POINTER(pointer))
        self._facts = declare(quick, "shard_listing_info", None, pointer, ctypes.POINTER(Info))
        self._dataset = declare(slow, "shard_dataset_open", ctypes.c_int, text, text,
                                ctypes.POINTER(pointer), text, size)
        self._bucket = declare(slow, "shard_dataset_open_s3", ctypes.c_int, text, text,
                               ctypes.POINTER(text), ctypes.c_uint64, ctypes.c_int64,
                               ctypes.POINTER(pointer), text, size)
        self._kept_begin = declare(slow, "shard_kept_begin", ctypes.c_int, text, ctypes.c_uint64,
                                   ctypes.POINTER(ctypes.c_int), ctypes.POINTER(pointer), text,
                                   size)
        self._kept_end = declare(slow, "shard_kept_end", ctypes.c_int, pointer, ctypes.c_int, text,
                                 size)
        self._kept_open = declare(slow, "shard_kept_open", ctypes.c_int, text, ctypes.c_uint64,
                                  ctypes.POINTER(ctypes.c_int), text, size)
        self._kept_remove = declare(quick, "shard_kept_remove", None, text)
        self._file_open = declare(quick, "shard_file_open", ctypes.c_int, text, text, size)
        self._version = declare(quick, "shard_version", text)
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
        self._stats_names = declare(quick, "shard_stats_names", ctypes.c_int, text, text,
                                    ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
        self.stats_epoch = declare(quick, "shard_stats_epoch", None, ctypes.c_uint64)
        number = ctypes.c_uint64
        self._run_begin = declare(quick, "shard_run_begin", ctypes.c_int, text, size)
        self._run_watch = declare(quick, "shard_run_watch", ctypes.c_int, ctypes.c_uint, text, text)
        self._run_opens = declare(quick, "shard_run_opens", ctypes.c_int64, ctypes.c_uint)
        self.run_set_epoch = declare(quick, "shard_run_set_epoch", ctypes.c_int, number)
        self._run_epoch = declare(quick, "shard_run_epoch", ctypes.c_int64)
        self.run_set_listed = declare(quick, "shard_run_set_listed", None, ctypes.c_uint)
        self._run_listed = declare(quick, "shard_run_listed", ctypes.c_int, ctypes.c_uint)
        self.shuffle = declare(quick, "shard_shuffle", number, number, number, number, number)
        self.shuffle_back = declare(quick, "shard_shuffle_back", number, number, number, number,
                                    number)

        self._sharing = declare(quick, "shard_sharing_get", None, ctypes.POINTER(Sharing))
        self._buckets = declare(quick, "shard_buckets", ctypes.c_ssize_t, text, size)
        self._bucket_open = declare(slow, "shard_bucket_open", ctypes.c_int, text,
                                    ctypes.POINTER(text), ctypes.POINTER(pointer), text, size)
        self._bucket_owned = declare(quick, "shard_bucket_owned", ctypes.c_int, pointer, number,
                                     text, size, size, ctypes.c_int, ctypes.c_int, text, text, size)
        self._bucket_pass = declare(quick, "shard_bucket_pass", ctypes.c_int, text, pointer, number)
        self._bucket_opened = declare(quick, "shard_bucket_opened", None, text, text)

    def _buffer(self):
        try:
            return self._local.buffer
        except AttributeError:
            self._local.buffer = ctypes.create_string_buffer(65536)
            return self._local.buffer

    def _text(self):
        return ctypes.create_string_buffer(1024)

    @staticmethod
    def _decode(buffer):
        return buffer.value.decode("utf-8", "replace")

    def log(self, level, text):
        self._log(level, text.encode("utf-8", "backslashreplace"))

    def version(self):
        return self._version().decode()

    def view_asked(self):
        return VIEWS[self._asked()]

    def set_view(self, view):
        self._set(VIEWS.index(view))

    def config_error(self):
        """Whether a SHARD_ variable is misspelt or wrong; if one is, says so, once."""
        if self.config_fault() is None:
            return False
        self._complain()
        return True

    def config_fault(self):
        """The line about a SHARD_ variable that is misspelt or wrong, or None."""
        buffer = self._text()
        return self._decode(buffer) if self._check(buffer, 1024) else None

    def place(self):
        """(World, None), or (None, the line that says why no rank is known)."""
        rc, world, text = self._ask_world()
        return (None, text) if rc else (world, None)

    def _ask_world(self):
        world, buffer = World(), self._text()
        rc = self._world_get(ctypes.byref(world), buffer, 1024)
        return rc, world, self._decode(buffer)

    def sharing(self):
        sharing = Sharing()
        self._sharing(ctypes.byref(sharing))
        return sharing

    def stats_on(self):
        """Whether SHARD_STATS is set."""
        return bool(self.sharing().has_stats)

    def buckets(self):
        """The buckets of SHARD_DATASET, as URLs."""
        buffer = self._buffer()
        n = self._buckets(buffer, 65536)
        return os.fsdecode(buffer.raw[:n]).split("\n")[:-1] if n > 0 else []

    def bucket_of_job(self, url, environment):
        """Handle of a bucket's listing; see shard_bucket_open(). OSError with a line for people."""
        handle, buffer = ctypes.c_void_p(), self._text()
        rc = self._bucket_open(os.fsencode(url), _variables(environment), ctypes.byref(handle),
                               buffer, 1024)
        if rc:
            raise OSError(-rc, self._decode(buffer))
        return handle

    def bucket_pass(self, url, handle, epoch):
        return self._bucket_pass(os.fsencode(url), handle, epoch)

    def bucket_opened(self, url, name):
        self._bucket_opened(os.fsencode(url), name.encode("utf-8", "surrogateescape"))

    def owned(self, handle, epoch, keys, skip, every_name, dataset):
        """A flag for each key, as bytes; see shard_bucket_owned(). OSError with a line."""
        text = "\0".join(keys).encode("utf-8", "surrogateescape")
        if text.count(b"\0") != len(keys) - 1:
            raise OSError(22, "a key holds a NUL character, which a name cannot")
        flags, buffer = ctypes.create_string_buffer(len(keys)), self._text()
        rc = self._bucket_owned(handle, epoch, text, len(keys), skip, every_name, dataset, flags,
                                buffer, 1024)
        if rc:
            raise OSError(-rc, self._decode(buffer))
        return flags.raw

    def world(self):
        """(World, None), (World without rank, None) if there is no launcher, or (None, error)."""
        rc, world, text = self._ask_world()
        return (world, None) if rc in (0, -2) else (None, text)

    def range(self, n, rank, size):
        begin, end = ctypes.c_uint64(), ctypes.c_uint64()
        self._range(n, rank, size, ctypes.byref(begin), ctypes.byref(end))
        return begin.value, end.value

    def stats_dataset(self, root, handle, used, epoch):
        self._stats_dataset(os.fsencode(root), handle, used, epoch)

    def stats_names(self, root, digest, entries, used, epoch):
        self._stats_names(os.fsencode(root), digest.encode(), entries, used, epoch)

    def run_begin(self):
        """What the rank's processes share is there from now on; what LIBSHARD_RUN is to be."""
        mark = ctypes.create_string_buffer(100)
        rc = self._run_begin(mark, 100)
        if rc:
            raise OSError(-rc, os.strerror(-rc))
        return self._decode(mark)

    def run_watch(self, kind, prefix, suffix):
        return self._run_watch(kind, os.fsencode(prefix), os.fsencode(suffix)) == 0

    def run_opens(self, kind):
        """Opens until now, None if some may be missing."""
        opens = self._run_opens(kind)
        return opens if opens >= 0 else None

    def run_epoch_or_none(self):
        """The rank's epoch, 0 before the first one; None if this process shares nothing."""
        epoch = self._run_epoch()
        return epoch if epoch >= 0 else None

    def run_listed(self, bucket):
        """Whether one of the rank's processes has listed it; None where that is not known."""
        listed = self._run_listed(bucket)
        return bool(listed) if listed >= 0 else None

    def run_epoch(self):
        epoch = self._run_epoch()
        if epoch < 0:
            raise OSError("this process cannot learn the rank's epoch; unset SHARD_SHUFFLE")
        return epoch

    KEPT_HEADER = 4096

    def kept_begin(self, key, length):
        """(descriptor of what is kept, None, or what kept_end() takes: it is to be filled); see
        shard_kept_begin()."""
        fd, making, line = ctypes.c_int(), ctypes.c_void_p(), self._text()
        rc = self._kept_begin(key.encode(), length, ctypes.byref(fd), ctypes.byref(making), line,
                              1024)
        if rc:
            raise OSError(-rc, self._decode(line))
        return fd.value, making if making.value else None

    def kept_end(self, making, good):
        line = self._text()
        rc = self._kept_end(making, good, line, 1024)
        if rc:
            raise OSError(-rc, self._decode(line))

    def kept_open(self, key, length):
        fd, line = ctypes.c_int(), self._text()
        rc = self._kept_open(key.encode(), length, ctypes.byref(fd), line, 1024)
        if rc:
            raise OSError(-rc, self._decode(line))
        return fd.value

    def kept_remove(self, key):
        self._kept_remove(key.encode())

    def file_open(self, path):
        """Descriptor of a file that can be believed; OSError."""
        line = self._text()
        fd = self._file_open(os.fsencode(path), line, 1024)
        if fd < 0:
            raise OSError(-fd, self._decode(line))
        return fd

    def dataset(self, directory, options):
        """Handle of the listing of `directory`; OSError with a line for people."""
        handle, text = ctypes.c_void_p(), self._text()
        rc = self._dataset(os.fsencode(directory), options.encode(),
                           ctypes.byref(handle), text, 1024)
        if rc:
            raise OSError(-rc, self._decode(text))
        return handle

    def bucket(self, url, options, environment, turn, since):
        """Handle of the listing of s3://bucket/prefix; see shard_dataset_open_s3()."""
        handle, text = ctypes.c_void_p(), self._text()
        rc = self._bucket(url.encode("utf-8"), options.encode(), _variables(environment), turn,
                          since, ctypes.byref(handle), text, 1024)
        if rc:
            raise OSError(-rc, self._decode(text))
        return handle

    def open(self, file):
        handle = ctypes.c_void_p()
        rc = self._open(os.fsencode(file), ctypes.byref(handle))
        if rc:
            raise OSError(-rc, "cannot open listing %r: %s" % (file, os.strerror(-rc)))
        return handle

    def info(self, handle):
        info = Info()
        self._facts(handle, ctypes.byref(info))
        return info

    def name(self, handle, i):
        buffer = self._buffer()
        n = self._name(handle, i, buffer, 65536)
        if n < 0:
            raise OSError(-n, "the listing is damaged at position %d" % i)
        return os.fsdecode(buffer.value)

    def quicken(self, cls):
        """Give FileList a __getitem__() of C; whether this interpreter can have it."""
        if "t" in sys.abiflags or not self._quicken(cls):  # t: there is no lock
            return False
        self._find = self._find_last  # of the names that this makes
        return True

    def find(self, handle, name):
        """Position of `name`, -1 if it is not there."""
        try:
            i = self._find(handle, os.fsencode(name))
        except (UnicodeEncodeError, ValueError):
            return -1
        if i < 0 and i != -2:
            raise OSError(int(-i), "the listing is damaged")
        return i if i >= 0 else -1


def _variables(environment):
    """An array for shardctl's environment: "NAME=value" or "NAME"."""
    return (ctypes.c_char_p * (len(environment) + 1))(
        *(variable.encode("utf-8", "surrogateescape") for variable in environment))


_loaded = None


def native():
    """The one Native of this process; libshard.so is opened at the first use."""
    global _loaded
    if _loaded is None:
        _loaded = Native()
    return _loaded


def speaks():
    """Whether this process speaks for all processes of its node: it is the first rank, and no
    worker."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        return False
    world, _ = native().world()
    return world is None or world.local_rank <= 0
