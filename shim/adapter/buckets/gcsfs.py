# SPDX-License-Identifier: MIT
"""gcsfs: fsspec's file system for Google Cloud Storage.

It asks for a page of a list by GCSFileSystem._call("GET", "b/{}/o", bucket, ...). That is not
documented, and what is around it differs from release to release. So it is not sources that are
compared: the functions by which the file system lists are watched, and one that ends without having
come past here fails.

What is listed of a dataset is not looked up in the directory cache: another rank's object would seem
not to be there to open(), info() and cat(). And info(), exists() and isdir() ask whether there is
something, which is the same for all ranks: their lists are not divided.
"""
import asyncio
import contextvars

from ..patching import stands_for
from . import patterns, share
from .gcs_pages import answer
from .google_storage import account, begin, is_refused, probe
from .seams import Client, begin_or_ask, counting, within
from .share import ShareError

PAGE = "b/{}/o"  # the path of a request for a page, less a last slash
LISTS = ("_do_list_objects", "_list_objects")  # what lists; the first one that a release has

_pages = contextvars.ContextVar("libshard_pages", default=None)  # that a function of LISTS has asked for


def _error(line):
    """An OSError would be taken for a file that is not there."""
    from gcsfs.retry import HttpError

    return HttpError({"code": 412, "message": line})


def _endpoint(fs):
    """Scheme and host of fs.base, the URL of the JSON API."""
    return "/".join(fs.base.split("/", 3)[:3])


FILES = Client("gs", _error, _endpoint, lambda fs: account(_endpoint(fs)))


def _patch_call(cls):
    original = cls._call

    @stands_for(cls)
    async def _call(self, method, path, *args, **kwargs):
        if method.upper() != "GET" or path.rstrip("/") != PAGE or not kwargs.get("json_out"):
            return await original(self, method, path, *args, **kwargs)
        if _pages.get() is not None:
            _pages.get().append(args[0])
        with FILES.errors():
            asked = {name: value for name, value in kwargs.items() if value is not None}

            async def begun():
                return FILES.find(self, args[0]) and await asyncio.get_running_loop().run_in_executor(
                    None, begin, FILES, self, args[0], asked)

            found = await begin_or_ask(begun, lambda: original(self, method, path, *args, **probe(kwargs)), is_refused)
            if found is None:
                return await original(self, method, path, *args, **kwargs)
            return await answer(found, asked, lambda params: original(self, method, path, *args, **params))


def _patch_lists(cls):
    """Fail where a list has not come past _call()."""
    name = next((one for one in LISTS if hasattr(cls, one)), None)
    if name is None:
        raise ImportError("this version of gcsfs lists by no function that libshard knows; unset "
                          "SHARD_DATASET, or install gcsfs 2026.10.1")
    original = getattr(cls, name)

    @stands_for(cls, name)
    async def watched(self, path, *args, **kwargs):
        bucket = self.split_path(path)[0]
        with FILES.errors():
            if not bucket or FILES.find(self, bucket) is None:
                return await original(self, path, *args, **kwargs)
            with share.held(_pages, []):
                found = await original(self, path, *args, **kwargs)
                if bucket not in _pages.get():
                    raise ShareError("gcsfs has listed gs://%s in a way that libshard does not know; "
                                     "install gcsfs 2026.10.1" % path)
                return found


def _patch_cache(cls):
    original = cls._ls_from_cache

    @stands_for(cls)
    def _ls_from_cache(self, path):
        bucket, key = self.split_path(path)[:2]
        folder = bucket + "/" + key.strip("/")
        # A list of what is in the path is looked up, and that of its parent.
        if any(share.is_divided("gs", one) for one in (folder, folder.rpartition("/")[0])):
            return None
        return original(self, path)


def _patch_probes(cls):
    for name in ("_info", "_exists", "_isdir"):
        if name in cls.__dict__:
            setattr(cls, name, within(cls.__dict__[name], share.untouched))


def _patch_gets(cls):
    """For SHARD_STATS: a file's first bytes are read. (open() reads by cat_file(), too.)"""
    def count(fs, path, *_, **__):
        FILES.count(fs, *fs.split_path(path)[:2])

    def count_first(fs, path, start=None, *_, **__):
        if not start:
            count(fs, path)

    for name, counts in (("_cat_file", count_first), ("_get_file", count)):
        if hasattr(cls, name):
            setattr(cls, name, counting(getattr(cls, name), counts))


def patch(module):
    """Patch gcsfs.core."""
    cls = module.GCSFileSystem
    _patch_gets(cls)
    _patch_call(cls)
    _patch_lists(cls)
    _patch_cache(cls)
    _patch_probes(cls)
    patterns.patch(cls, "gs")
