# SPDX-License-Identifier: MIT
"""patterns: of fsspec's file systems, paths with ?, * or [ that are objects' names.

cat(), get(), copy() and their like take such a path for a pattern, so they list. The program may mean
the object of that very name, which each rank can read. So where there is one, the list is not divided:
the answer is that of a run without libshard. Where there is none, it is the rank's share. glob() and
what is recursive list always.
"""
import inspect
import os

from ..patching import stands_for
from . import share
from .seams import awaited, finish

MAGIC = "*?["


def _asked(fs, path, args, kwargs):
    """The paths that were asked for, and those of them that are patterns, and perhaps objects' names."""
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if (args[0] if args else kwargs.get("recursive")) or kwargs.get("assume_literal"):
        return paths, []
    return paths, [one for one in paths if set(MAGIC).intersection(fs._strip_protocol(one))]


def patch(cls, scheme):
    """Patch a file system's class."""
    is_async = inspect.iscoroutinefunction(getattr(cls, "_expand_path", None))
    original = getattr(cls, "_expand_path" if is_async else "expand_path", None)
    if original is None:
        return

    async def is_object(fs, path):
        path = fs._strip_protocol(path)
        if not share.is_divided(scheme, path.rpartition("/")[0]):
            return False
        try:
            with share.untouched():
                return (await awaited((fs._info if is_async else fs.info)(path)))["type"] == "file"
        except OSError:
            return False

    async def expand(fs, path, *args, **kwargs):
        paths, magic = _asked(fs, path, args, kwargs)
        objects = [one for one in magic if await is_object(fs, one)]
        if not objects:
            return await awaited(original(fs, paths, *args, **kwargs))
        with share.untouched():
            found = set(await awaited(original(fs, objects, *args, **kwargs)))
        rest = [one for one in paths if one not in objects]
        if rest:
            try:
                found |= set(await awaited(original(fs, rest, *args, **kwargs)))
            except FileNotFoundError:
                pass
        return sorted(found)

    if is_async:
        stands_for(cls, "_expand_path")(expand)
    else:
        stands_for(cls, "expand_path")(lambda *args, **kwargs: finish(expand(*args, **kwargs)))
