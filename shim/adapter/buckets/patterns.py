# SPDX-License-Identifier: MIT
"""patterns: of fsspec's file systems, paths with ?, * or [ that are objects' names.

cat(), get(), copy() and their like take such a path for a pattern, so they list. The program may mean
the object of that very name, which each rank can read. So where there is one, the list is not divided:
the answer is that of a run without libshard. Where there is none, it is the rank's share. glob() and
what is recursive list always.
"""
import functools
import inspect
import os

from . import share

MAGIC = "*?["


def _asked(fs, path, args, kwargs):
    """The paths that were asked for, and those of them that are patterns, and perhaps objects' names."""
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if (args[0] if args else kwargs.get("recursive")) or kwargs.get("assume_literal"):
        return paths, []
    return paths, [one for one in paths if set(MAGIC).intersection(fs._strip_protocol(one))]


def _patch_async(cls, is_divided):
    original = cls._expand_path

    async def is_object(fs, path):
        path = fs._strip_protocol(path)
        if not is_divided(path.rpartition("/")[0]):
            return False
        try:
            with share.untouched():
                return (await fs._info(path))["type"] == "file"
        except OSError:
            return False

    @functools.wraps(original)
    async def _expand_path(self, path, *args, **kwargs):
        paths, magic = _asked(self, path, args, kwargs)
        objects = [one for one in magic if await is_object(self, one)]
        if not objects:
            return await original(self, paths, *args, **kwargs)
        with share.untouched():
            found = set(await original(self, objects, *args, **kwargs))
        rest = [one for one in paths if one not in objects]
        if rest:
            try:
                found |= set(await original(self, rest, *args, **kwargs))
            except FileNotFoundError:
                pass
        return sorted(found)

    cls._expand_path = _expand_path


def _patch_sync(cls, is_divided):
    original = cls.expand_path

    def is_object(fs, path):
        path = fs._strip_protocol(path)
        if not is_divided(path.rpartition("/")[0]):
            return False
        try:
            with share.untouched():
                return fs.info(path)["type"] == "file"
        except OSError:
            return False

    @functools.wraps(original)
    def expand_path(self, path, *args, **kwargs):
        paths, magic = _asked(self, path, args, kwargs)
        objects = [one for one in magic if is_object(self, one)]
        if not objects:
            return original(self, paths, *args, **kwargs)
        with share.untouched():
            found = set(original(self, objects, *args, **kwargs))
        rest = [one for one in paths if one not in objects]
        if rest:
            try:
                found |= set(original(self, rest, *args, **kwargs))
            except FileNotFoundError:
                pass
        return sorted(found)

    cls.expand_path = expand_path


def patch(cls, is_divided):
    """Patch a file system's class. is_divided(path): whether ranks see different parts of that folder."""
    if inspect.iscoroutinefunction(getattr(cls, "_expand_path", None)):
        _patch_async(cls, is_divided)
    elif hasattr(cls, "expand_path"):
        _patch_sync(cls, is_divided)
