# SPDX-License-Identifier: MIT
"""kept: arrays of numbers that a process keeps in the node's cache, for the workers that it starts.

They stay until the process ends, which removes them.
"""
import atexit
import hashlib
import os

from .native import native

_salt, _keys, _maker = "", set(), 0  # what this process has kept


def keep(arrays):
    """Keep numpy arrays, each of them from a multiple of 8 on. Returns (key, bytes), for mapped(); OSError."""
    import mmap

    global _salt, _maker
    if _maker != os.getpid():
        _salt, _maker = os.urandom(16).hex(), os.getpid()
        _keys.clear()
        atexit.register(_remove, _maker)
    digest, size = hashlib.sha256(_salt.encode()), 0
    for array in arrays:
        digest.update(array)
        size += -(-array.nbytes // 8) * 8
    key, at = digest.hexdigest()[:32], native().KEPT_HEADER
    fd, making = native().kept_begin(key, size)
    try:
        if making:
            good = False
            try:
                with mmap.mmap(fd, at + size) as memory:
                    for array in arrays:
                        memory[at:at + array.nbytes] = array.tobytes()
                        at += -(-array.nbytes // 8) * 8
                good = True
            finally:
                native().kept_end(making, good)
    finally:
        os.close(fd)
    _keys.add(key)
    return key, size


def _remove(pid):
    """At the end of the process that made them."""
    if pid == os.getpid():
        for key in _keys:
            native().kept_remove(key)


def mapped(key, size):
    """What is kept, as an array of bytes that lies in the file; OSError."""
    import mmap

    import numpy

    try:
        fd = native().kept_open(key, size)
    except OSError as error:
        raise OSError(error.errno, "%s; a rank keeps its lists there: do not change files in SHARD_CACHE_DIR "
                                   "during a job" % error.strerror) from error
    try:
        memory = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    finally:
        os.close(fd)
    return numpy.frombuffer(memory, numpy.uint8, size, native().KEPT_HEADER)
