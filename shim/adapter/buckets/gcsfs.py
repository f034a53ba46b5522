# SPDX-License-Identifier: MIT
"""gcsfs: it asks for a page of a list by GCSFileSystem._call("GET", "b/{}/o", bucket, ...). Where a list that
is divided has not come past there, it fails. As with s3fs (s3fs.py), no listing is kept, and info(), exists()
and isdir() are not divided."""
import asyncio
import contextvars
from functools import partial

from ..patching import stands_for
from . import share
from .google_storage import account, page
from .clients import Client, counting, within
from .share import ShareError

_seen = contextvars.ContextVar("libshard_seen", default=None)  # buckets whose pages a list has asked for


def _error(line):
    """No OSError, which would be taken for a file that is not there."""
    from gcsfs.retry import HttpError

    return HttpError({"code": 412, "message": line})


FILES = Client("gs", _error,
               lambda fs: "/".join(fs.base.split("/", 3)[:3]), lambda fs: account(FILES._endpoint(fs)))


def patch(module):
    """Patch gcsfs.core."""
    cls = module.GCSFileSystem
    init, call, lists = cls.__init__, cls._call, cls._do_list_objects

    @stands_for(cls)
    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        if share.active():
            self.dircache.use_listings_cache = False

    @stands_for(cls)
    async def _call(self, method, path, *args, **kwargs):
        if method.upper() != "GET" or path.rstrip("/") != "b/{}/o" or not kwargs.get("json_out"):
            return await call(self, method, path, *args, **kwargs)
        (_seen.get() or set()).add(args[0])
        begin = partial(FILES.begin, self, args[0], kwargs.get("prefix"), kwargs.get("delimiter"), kwargs.get(
            "pageToken") or kwargs.get("startOffset"), bool(kwargs.get("versions")))
        with FILES.errors():
            return await page(lambda: asyncio.get_running_loop().run_in_executor(None, begin),
                              lambda more: call(self, method, path, *args, **{**kwargs, **more}))

    @stands_for(cls)
    async def _do_list_objects(self, path, *args, **kwargs):
        with share.context_value(_seen, {""}), FILES.errors():
            found = await lists(self, path, *args, **kwargs)
            bucket = self.split_path(path)[0]
            if bucket not in _seen.get() and FILES.find(self, bucket):
                raise ShareError("gcsfs has listed gs://%s in a way that libshard does not know: install gcsfs 2026.10.1, "
                                 "or unset SHARD_DATASET" % path)
            return found

    for name in ("_info", "_exists", "_isdir"):
        setattr(cls, name, within(getattr(cls, name), share.undivided))
    for name in ("_cat_file", "_get_file"):  # for SHARD_STATS: a file's first bytes
        setattr(cls, name, counting(getattr(cls, name), lambda fs, path, start=None, *_, **__: isinstance(start, int)
                                    and start or FILES.count(fs, *fs.split_path(path)[:2])))
