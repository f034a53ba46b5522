# SPDX-License-Identifier: MIT
"""s3fs: what it makes of listings. Its requests go through botocore's clients (botocore.py).

s3fs keeps listings, and takes a key that is not in one for a file that is not there: so under a dataset
it keeps none. info(), exists() and isdir() ask whether there is something, which is the same for all
ranks: they are not divided. But a find() that gets nothing asks info(), and would return the folder.
"""
import contextvars
import functools
import inspect

from ..patching import stands_for
from . import share
from .clients import within

_finds = contextvars.ContextVar("libshard_finds", default=False)  # a find() that wants no folder


def patch(module):
    """Patch s3fs.core."""
    cls, init = module.S3FileSystem, module.S3FileSystem.__init__
    info, find = cls._info, cls._find
    if not inspect.iscoroutinefunction(find):
        raise AttributeError("no S3FileSystem._find() that libshard knows, as s3fs 2022.1 to 2026.9 have")

    @stands_for(cls)
    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        if share.active():
            self.dircache.use_listings_cache = False

    @functools.wraps(info)
    async def _info(self, path, *args, **kwargs):
        with share.undivided():
            found = await info(self, path, *args, **kwargs)
        if _finds.get() and found["type"] == "directory" and share.is_divided("s3", self._strip_protocol(path), ""):
            raise FileNotFoundError(path)
        return found

    @functools.wraps(find)
    async def _find(self, path, maxdepth=None, *args, **kwargs):
        with share.context_value(_finds, not maxdepth):
            return await find(self, path, maxdepth, *args, **kwargs)

    changed = {"info": _info, "find": _find}
    changed.update({name: within(getattr(cls, "_" + name), share.undivided) for name in ("exists", "isdir")})
    for name, method in changed.items():
        setattr(cls, "_" + name, method)
        if name in cls.__dict__:
            setattr(cls, name, module.sync_wrapper(method))
