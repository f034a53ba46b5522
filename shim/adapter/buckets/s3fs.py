# SPDX-License-Identifier: MIT
"""s3fs: what it makes of listings. Its requests go through botocore's clients (botocore.py).

s3fs keeps listings, and takes a key that is not in one for a file that is not there. So listings
that a dataset divides are not kept: open(), info(), exists() and cat() ask the server, as they do
for a folder that was never listed, and each find() is a listing of its own.

info(), exists() and isdir() ask whether there is something, which is the same for all ranks: they
are not divided. In find() they are: a share without keys is no folder there, nor is one that has folders
only, which every rank is shown: find() would return the folder itself.

s3fs makes OSErrors of botocore's errors. walk(), and all that walks (find() to a depth, du(), glob()),
takes a folder whose list raises one for an empty folder. So our own error stays botocore's.
"""
import contextvars
import functools
import inspect
import sys

from ..patching import stands_for
from . import botocore, patterns, share
from .seams import within

_finding = contextvars.ContextVar("libshard_finding", default=False)  # FLAT: a find() that wants files only
FLAT = "flat"


def _is_kept(path):
    """Whether a listing of this path may be kept: it has nothing of a dataset, and no folder above one,
    which every rank is shown: in find() it would stand for an empty share."""
    return not share.is_divided("s3", str(path), "")


def _cache_class(base, once):
    """once: _lsdir() reads what it has just put there, as before s3fs 0.5."""
    class Cache(base):
        """Of directories, without those that a dataset divides."""

        def __setitem__(self, path, listing):
            if _is_kept(path):
                super().__setitem__(path, listing)
            elif once:
                self.__dict__["_listed"] = path, listing

        def __contains__(self, path):
            return _is_kept(path) and super().__contains__(path)

        def __getitem__(self, path):
            listed = self.__dict__.get("_listed")
            if listed and listed[0] == path and sys._getframe(1).f_code.co_name == "_lsdir":
                return listed[1]
            return super().__getitem__(path)

        def __reduce__(self):
            return base, (self.use_listings_cache, self.listings_expiry_time, self.max_paths)

    Cache.__name__ = base.__name__
    return Cache


def _probing(method):
    """The method, whose listings are not divided unless find() calls it."""
    return within(method, lambda: share.untouched(not _finding.get()))


def _informing(method):
    """info() in the same way."""
    original = _probing(method)

    def checked(path, found):
        if (_finding.get() == FLAT and found.get("type") == "directory"
                and not _is_kept(path.partition("://")[2] or path)):
            raise FileNotFoundError(path)
        return found

    if inspect.iscoroutinefunction(method):
        @functools.wraps(method)
        async def info(self, path, *args, **kwargs):
            return checked(path, await original(self, path, *args, **kwargs))
    else:
        @functools.wraps(method)
        def info(self, path, *args, **kwargs):
            return checked(path, original(self, path, *args, **kwargs))
    return info


def _finds(method):
    """find(), and what it calls."""
    flat = within(method, lambda: share.held(_finding, FLAT))
    deep = within(method, lambda: share.held(_finding, True))

    @functools.wraps(method)
    def find(self, path, maxdepth=None, *args, **kwargs):
        has_folders = maxdepth or (args[0] if args else kwargs.get("withdirs"))
        return (deep if has_folders else flat)(self, path, maxdepth, *args, **kwargs)

    if not inspect.iscoroutinefunction(method):
        return find

    @functools.wraps(method)
    async def find_async(*args, **kwargs):
        return await find(*args, **kwargs)

    return find_async


def _patch_errors(module):
    """Let the error of a list that cannot be divided be no OSError."""
    original = getattr(module, "translate_boto_error", None)
    if original is None:
        raise ImportError("this version of s3fs makes errors by no function that libshard knows; unset "
                          "SHARD_DATASET, or install s3fs 2026.9.0")

    @stands_for(module)
    def translate_boto_error(error, *args, **kwargs):
        return error if botocore.is_ours(error) else original(error, *args, **kwargs)


def patch(module):
    """Patch s3fs.core."""
    _patch_errors(module)
    cls = module.S3FileSystem
    original = cls.__init__

    @stands_for(cls)
    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        cache = getattr(self, "dircache", None)
        if cache is not None and type(cache).__setitem__.__module__ != __name__:
            cache.__class__ = _cache_class(
                type(cache), not inspect.iscoroutinefunction(cls.__dict__.get("_lsdir")))

    patterns.patch(cls, "s3")
    synchronous = getattr(module, "sync_wrapper", None)
    for wrap, names in ((_informing, ("info",)), (_probing, ("exists", "isdir")), (_finds, ("find",))):
        for name in names:
            if "_" + name in cls.__dict__:
                changed = wrap(cls.__dict__["_" + name])
                setattr(cls, "_" + name, changed)
                if name in cls.__dict__ and synchronous is not None:
                    setattr(cls, name, synchronous(changed))
            elif name in cls.__dict__:
                setattr(cls, name, wrap(cls.__dict__[name]))
