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
import functools

from . import patterns, share
from .gcs_pages import answer, drive_async
from .google_storage import account
from .keys import begin, errors
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


def _find(fs, bucket):
    endpoint = _endpoint(fs)
    return share.find("gs", bucket, endpoint, lambda: account(endpoint))


def _begin(fs, bucket, asked):
    """The share.Pass of a page. It may take a while, so it is called in a thread."""
    endpoint = _endpoint(fs)
    return begin("gs", bucket, asked.get("prefix"), endpoint, lambda: account(endpoint),
                 asked.get("delimiter"), asked.get("pageToken") or asked.get("startOffset"),
                 bool(asked.get("versions")))


def _patch_call(cls):
    original = cls._call

    @functools.wraps(original)
    async def _call(self, method, path, *args, **kwargs):
        if method.upper() != "GET" or path.rstrip("/") != PAGE or not kwargs.get("json_out"):
            return await original(self, method, path, *args, **kwargs)
        if _pages.get() is not None:
            _pages.get().append(args[0])
        with errors(_error):
            if _find(self, args[0]) is None:
                return await original(self, method, path, *args, **kwargs)
            asked = {name: value for name, value in kwargs.items() if value is not None}
            found = await asyncio.get_running_loop().run_in_executor(
                None, _begin, self, args[0], asked)
            if found is None:
                return await original(self, method, path, *args, **kwargs)

            async def fetch(params):
                return await original(self, method, path, *args, **params)

            return await drive_async(answer(found, asked), fetch)

    cls._call = _call


def _patch_lists(cls):
    """Fail where a list has not come past _call()."""
    name = next((one for one in LISTS if hasattr(cls, one)), None)
    if name is None:
        raise ImportError("this version of gcsfs lists by no function that libshard knows; unset "
                          "SHARD_DATASET, or install gcsfs 2026.10.1")
    original = getattr(cls, name)

    @functools.wraps(original)
    async def watched(self, path, *args, **kwargs):
        bucket = self.split_path(path)[0]
        with errors(_error):
            if not bucket or _find(self, bucket) is None:
                return await original(self, path, *args, **kwargs)
            token = _pages.set([])
            try:
                found = await original(self, path, *args, **kwargs)
                if bucket not in _pages.get():
                    raise ShareError("gcsfs has listed gs://%s in a way that libshard does not know; "
                                     "install gcsfs 2026.10.1" % path)
                return found
            finally:
                _pages.reset(token)

    setattr(cls, name, watched)


def _patch_cache(cls):
    original = cls._ls_from_cache

    @functools.wraps(original)
    def _ls_from_cache(self, path):
        bucket, key = self.split_path(path)[:2]
        # A list of what is in the path is looked up, and that of its parent.
        folders = (key.strip("/") + "/", key.strip("/").rpartition("/")[0] + "/")
        if any(share.is_divided("gs", bucket, folder.lstrip("/")) for folder in folders):
            return None
        return original(self, path)

    cls._ls_from_cache = _ls_from_cache


def _is_divided(path):
    bucket, _, key = path.partition("/")
    return share.is_divided("gs", bucket, key + "/" if key else "")


def _patch_probes(cls):
    def probing(original):
        @functools.wraps(original)
        async def probe(self, *args, **kwargs):
            with share.untouched():
                return await original(self, *args, **kwargs)

        return probe

    for name in ("_info", "_exists", "_isdir"):
        if name in cls.__dict__:
            setattr(cls, name, probing(cls.__dict__[name]))


def _patch_gets(cls):
    """For SHARD_STATS: a file's first bytes are read. (open() reads by cat_file(), too.)"""
    def counting(original, ranged):
        @functools.wraps(original)
        async def get(self, path, *args, **kwargs):
            answer = await original(self, path, *args, **kwargs)
            if not ranged or not (args[0] if args else kwargs.get("start")):
                bucket, key = self.split_path(path)[:2]
                share.count_opened("gs", bucket, key, _endpoint(self))
            return answer

        return get

    for name, ranged in (("_cat_file", True), ("_get_file", False)):
        if hasattr(cls, name):
            setattr(cls, name, counting(getattr(cls, name), ranged))


def patch(module):
    """Patch gcsfs.core."""
    cls = module.GCSFileSystem
    _patch_gets(cls)
    _patch_call(cls)
    _patch_lists(cls)
    _patch_cache(cls)
    _patch_probes(cls)
    patterns.patch(cls, _is_divided)

