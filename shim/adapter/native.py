# SPDX-License-Identifier: MIT
"""native: the functions of libshard.h that are used here, with Python's types and exceptions."""
import ctypes
import errno
import os
import sys
import threading
import types

from . import HANDLE, LIBRARY, contract

ERROR, WARN, INFO = contract.SHARD_LOG_ERROR, contract.SHARD_LOG_WARN, contract.SHARD_LOG_INFO
VIEWS = {name[len("SHARD_VIEW_"):].lower(): number for name, number in vars(contract).items()
         if name.startswith("SHARD_VIEW_")}

FS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()  # os.fsencode() takes longer

# What may wait, or start a process: other threads run meanwhile. All else keeps the interpreter's
# lock, for a name takes less time than giving the lock away.
SLOW = ("shard_dataset_open", "shard_names_open", "shard_bucket_open", "shard_kept_begin", "shard_kept_end",
        "shard_kept_open")


class Native:
    """One method for each function that is used."""

    def __init__(self):
        self._local, self._c = threading.local(), types.SimpleNamespace()
        quick, slow = (kind(LIBRARY, handle=HANDLE or None) for kind in (ctypes.PyDLL, ctypes.CDLL))
        for name, (result, parameters) in contract.FUNCTIONS.items():
            function = getattr(slow if name in SLOW else quick, name)
            function.restype, function.argtypes = result, parameters
            setattr(self._c, name, function)
        c = self._c
        self.config_complain, self.set_view = c.shard_config_complain, c.shard_view_set
        self.run_set_epoch, self.run_set_listed = c.shard_run_set_epoch, c.shard_run_set_listed
        self.close = c.shard_listing_close
        self.shuffle, self.shuffle_back = c.shard_shuffle, c.shard_shuffle_back

    def _buffer(self):
        try:
            return self._local.buffer
        except AttributeError:
            self._local.buffer = ctypes.create_string_buffer(65536)
            return self._local.buffer

    @staticmethod
    def _decode(buffer):
        return buffer.value.decode("utf-8", "replace")

    def _told(self, function, *arguments):
        """(what a function returns whose last parameters are err[size], the line)."""
        line = ctypes.create_string_buffer(1024)
        return function(*arguments, line, 1024), self._decode(line)

    def _done(self, function, *arguments):
        """What the same returns; OSError with the line."""
        rc, line = self._told(function, *arguments)
        if rc < 0:
            raise OSError(-rc, line)
        return rc

    def _opened(self, function, *arguments):
        """The same of a function that opens a listing: the handle."""
        handle = ctypes.c_void_p()
        self._done(function, *arguments, ctypes.byref(handle))
        return handle

    def log(self, level, text):
        self._c.shard_log(level, text.encode("utf-8", "backslashreplace"))

    def version(self):
        return self._c.shard_version().decode()

    def view_asked(self):
        asked = self._c.shard_view_asked()
        return next(view for view, number in VIEWS.items() if number == asked)

    def config_fault(self):
        """The line about a SHARD_ variable that is misspelt or wrong, or None."""
        rc, line = self._told(self._c.shard_config_check)
        return line if rc else None

    def world(self, needs_rank=False):
        """(struct shard_world, None), without a rank if there is no launcher and none is needed; or (None, the line
        that says why no rank is known)."""
        world = contract.shard_world()
        rc, line = self._told(self._c.shard_world_get, ctypes.byref(world))
        return (world, None) if rc == 0 or (rc == -errno.ENOENT and not needs_rank) else (None, line)

    def sharing(self):
        sharing = contract.shard_sharing()
        self._c.shard_sharing_get(ctypes.byref(sharing))
        return sharing

    def epoch(self):
        """What SHARD_EPOCH tells now, -1 if it was never set; OSError if it is wrong."""
        epoch = ctypes.c_int64()
        self._done(self._c.shard_epoch_read, ctypes.byref(epoch))
        return epoch.value

    def stats_on(self):
        """Whether SHARD_STATS is set."""
        return bool(self.sharing().has_stats)

    def buckets(self):
        """The buckets of SHARD_DATASET, as URLs."""
        buffer = self._buffer()
        n = self._c.shard_buckets(buffer, 65536)
        return os.fsdecode(buffer.raw[:n]).split("\n")[:-1] if n > 0 else []

    def bucket_of_job(self, url, environment):
        """Handle of a bucket's listing; see shard_bucket_open(). OSError with a line for people."""
        return self._opened(self._c.shard_bucket_open, os.fsencode(url), _variables(environment))

    def bucket_pass(self, url, handle, epoch):
        return self._c.shard_bucket_pass(os.fsencode(url), handle, epoch)

    def bucket_opened(self, url, name):
        self._c.shard_bucket_opened(os.fsencode(url), name.encode("utf-8", "surrogateescape"))

    def run(self, handle, epoch):
        """The positions [begin, end) that are the rank's, or None if its keys are no run."""
        begin, end = ctypes.c_uint64(), ctypes.c_uint64()
        found = self._done(self._c.shard_bucket_run, handle, epoch, ctypes.byref(begin), ctypes.byref(end))
        return (begin.value, end.value) if found else None

    def owned(self, handle, epoch, keys, skip, every_name, dataset):
        """A flag for each key, as bytes; see shard_bucket_owned(). OSError with a line."""
        text = "\0".join(keys).encode("utf-8", "surrogateescape")
        if text.count(b"\0") != len(keys) - 1:
            raise OSError(errno.EINVAL, "a key holds a NUL character, which a name cannot")
        flags = (ctypes.c_uint8 * len(keys))()
        self._done(self._c.shard_bucket_owned, handle, epoch, text, len(keys), skip, every_name,
                   dataset, flags)
        return bytes(flags)

    def stats_dataset(self, root, handle, used, needed):
        self._c.shard_stats_dataset(os.fsencode(root), handle, used, needed)

    def stats_names(self, root, digest, entries, used, needed):
        self._c.shard_stats_names(os.fsencode(root), digest.encode(), entries, used, needed)

    def run_begin(self):
        """What the rank's processes share is there from now on; what LIBSHARD_RUN is to be."""
        mark = ctypes.create_string_buffer(100)
        rc = self._c.shard_run_begin(mark, 100)
        if rc:
            raise OSError(-rc, os.strerror(-rc))
        return self._decode(mark)

    def run_watch(self, kind, prefix, suffix):
        return self._c.shard_run_watch(kind, os.fsencode(prefix), os.fsencode(suffix)) == 0

    def run_opens(self, kind):
        """Opens until now, None if some may be missing."""
        opens = self._c.shard_run_opens(kind)
        return opens if opens >= 0 else None

    def run_epoch_or_none(self):
        """The rank's epoch, 0 before the first one; None if this process shares nothing."""
        epoch = self._c.shard_run_epoch()
        return epoch if epoch >= 0 else None

    def run_listed(self, bucket):
        """Whether one of the rank's processes has listed it; None where that is not known."""
        listed = self._c.shard_run_listed(bucket)
        return bool(listed) if listed >= 0 else None

    def run_epoch(self):
        epoch = self._c.shard_run_epoch()
        if epoch < 0:
            raise OSError("this process cannot learn the rank's epoch; unset SHARD_SHUFFLE")
        return epoch

    KEPT_HEADER = contract.SHARD_KEPT_HEADER

    def kept_begin(self, key, length):
        """(descriptor of what is kept, None, or what kept_end() takes: it is to be filled); see
        shard_kept_begin()."""
        fd, making = ctypes.c_int(), ctypes.c_void_p()
        self._done(self._c.shard_kept_begin, key.encode(), length, ctypes.byref(fd),
                   ctypes.byref(making))
        return fd.value, making if making.value else None

    def kept_end(self, making, good):
        self._done(self._c.shard_kept_end, making, good)

    def kept_open(self, key, length):
        fd = ctypes.c_int()
        self._done(self._c.shard_kept_open, key.encode(), length, ctypes.byref(fd))
        return fd.value

    def kept_remove(self, key):
        self._c.shard_kept_remove(key.encode())

    def dataset(self, directory, options):
        """Handle of the listing of `directory`; OSError with a line for people."""
        return self._opened(self._c.shard_dataset_open, os.fsencode(directory), options.encode())

    def names(self, text):
        """Handle of the job's listing of names, a bytearray with a NUL behind each; OSError with a line."""
        return self._opened(self._c.shard_names_open, (ctypes.c_char * len(text)).from_buffer(text), len(text))

    def open(self, file):
        handle = ctypes.c_void_p()
        rc = self._c.shard_listing_open(os.fsencode(file), ctypes.byref(handle))
        if rc:
            raise OSError(-rc, "cannot open listing %r: %s; leave what is in SHARD_CACHE_DIR alone until "
                               "the job has ended" % (file, os.strerror(-rc)))
        return handle

    def info(self, handle):
        info = contract.shard_listing_info()
        self._c.shard_listing_info(handle, ctypes.byref(info))
        return info

    def name(self, handle, i):
        buffer = self._buffer()
        n = self._c.shard_listing_name(handle, i, buffer, 65536)
        if n < 0:
            raise OSError(-n, "the listing is damaged at position %d" % i)
        return os.fsdecode(buffer.value)

    def quicken(self, cls):
        """Give a class its methods of C (quicken.c); whether this interpreter can have them."""
        threads_alone = "t" in sys.abiflags  # there is no lock
        return not threads_alone and bool(self._c.shard_adapter_quicken(id(cls), cls.__qualname__.encode()))

    def find(self, handle, name):
        """Position of `name`, -1 if it is not there."""
        try:
            i = self._c.shard_listing_find(handle, name.encode(*FS))
        except (UnicodeEncodeError, ValueError):
            return -1
        if i < 0 and i != -errno.ENOENT:
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


def is_worker():
    """Whether this process was started by multiprocessing."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def speaks():
    """Whether this process speaks for all processes of its node: it is the first rank, and no
    worker."""
    if is_worker():
        return False
    world, _ = native().world()
    return world is None or world.local_rank <= 0


_said = set()


def say_once(level, text, key=None, said=_said):
    """A line of the process that speaks for its node, once; key: of all lines with one, the first."""
    if (key or text) not in said:
        said.add(key or text)
        if speaks():
            native().log(level, text)
