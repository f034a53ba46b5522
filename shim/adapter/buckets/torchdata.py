# SPDX-License-Identifier: MIT
"""torchdata: S3FileLister, whose lists come from the C++ class S3Handler (0.4 to 0.7.1, the last).

Each S3Handler.list_files() gives the next page, as URLs; an empty one is the end. What the class knows
is from the environment. (list_files_by_fsspec() lists by s3fs or gcsfs, which have modules of their
own.)
"""
import os

from ..patching import stands_for
from .seams import Client, counting, split_url, variables


def _endpoint(_handler):
    """The class has a variable of its own, and knows none of AWS's."""
    endpoint = os.environ.get("S3_ENDPOINT_URL") or None
    if endpoint and "://" not in endpoint:
        plain = os.environ.get("S3_USE_HTTPS", "").startswith("0")
        endpoint = ("http://" if plain else "https://") + endpoint
    return endpoint


# ValueError: as the class does for what a server refuses.
HANDLER = Client("s3", ValueError, _endpoint,
                 lambda handler: variables(_endpoint(handler), addressing="path"))


_passes = {}  # id of a handler -> (URL, the pass of its list until now, or None)


def patch(module):
    """Patch torchdata._torchdata, the extension."""
    cls = getattr(module, "S3Handler", None)
    if cls is None:
        return  # built without it: S3FileLister says so
    list_original, clear_original = cls.list_files, cls.clear_marker

    @stands_for(cls)
    def list_files(self, url):
        bucket, prefix = split_url(url)
        if not bucket:
            return list_original(self, url)
        with HANDLER.errors():
            listed, found = _passes.get(id(self), (None, None))
            if listed != url:
                found = HANDLER.begin(self, bucket, prefix)
                _passes[id(self)] = url, found
            while True:
                urls = list_original(self, url)
                if found is None:
                    return urls
                if not urls:
                    _passes.pop(id(self), None)
                    found.end()
                    return urls
                urls = found.kept(urls, lambda one: split_url(one)[1] or "")
                if urls:
                    return urls  # an empty page would be the end

    @stands_for(cls)
    def clear_marker(self):
        _passes.pop(id(self), None)
        return clear_original(self)

    def count(handler, url):
        bucket, key = split_url(url)
        if bucket:
            HANDLER.count(handler, bucket, key)

    cls.s3_read = counting(cls.s3_read, count)
