# SPDX-License-Identifier: MIT
"""s3dlio: its Python API, over Rust (0.9.92 to 0.10.0).

list() returns the URIs of all that a URI selects. A dataset lists by itself when it is made; so it is made
anew of this rank's URIs, and its keys() are then URIs, too.

What lists in Rust has no seam: of a dataset REFUSED and REFUSED_CLASSES raise.
"""
import functools
import os
import sys
import threading

from ..patching import stands_for
from . import share
from .clients import Client, counting, endpoint_of_environment, split_url, variables
from .share import ShareError

# {function: whether it lists, called like it}
REFUSED = {
    "create_async_loader": lambda *_, **__: True,
    "download": lambda *_, **__: True,
    "delete": lambda uri, recursive=False, *_, **__: recursive,
}
REFUSED_CLASSES = ("PyS3Dataset", "PyS3AsyncDataLoader", "PyParquetStreamLoader")


_failed = threading.local()  # error: the last one


def _error(line):
    """RuntimeError, which the library raises."""
    _failed.error = RuntimeError(line)
    return _failed.error


def _account(endpoint):
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return variables(endpoint, region, addressing="path")


S3DLIO = Client("s3", _error, lambda endpoint: endpoint, _account)  # there is no client but an endpoint


def _parts(uri):
    """(endpoint, bucket, key) of s3://bucket/key, and of s3://host:port/bucket/key; bucket None: it is
    none."""
    endpoint = endpoint_of_environment()
    bucket, key = split_url(uri)
    if bucket and (":" in bucket or bucket.startswith("[")):
        endpoint = "%s://%s" % ((endpoint or "http").partition("://")[0], bucket)
        bucket, _, key = key.partition("/")
    return endpoint, bucket, key or ""


def _divided(uri, is_flat, uris):
    """What uris() returns, those that a URI selects, without other ranks', and whether any are divided.
    is_flat: the list goes through folders; else it ends at the next slash."""
    endpoint, bucket, key = _parts(uri)
    found = S3DLIO.begin(endpoint, bucket, key.partition("*")[0], "" if is_flat else "/")  # a * begins a pattern
    if found is None:
        return uris(), False

    def key_of(one):
        name = _parts(one)[2]
        return None if not is_flat and name.endswith("/") else name

    mine = found.kept(uris(), key_of)
    found.end()
    return mine, True


def _patch_lists(module):
    """list(), and both ways to make a dataset: the function, and the class itself."""
    original, function, cls = module.list, module.create_dataset, module.PyDataset
    remake = getattr(cls, "from_uris", None)

    @stands_for(module, "list")
    def list_uris(uri, recursive=False, *args, **kwargs):
        with S3DLIO.errors():
            return _divided(uri, recursive or "**" in str(uri), lambda: original(uri, recursive, *args, **kwargs))[0]

    @stands_for(module)
    def create_dataset(uri, opts=None):
        made = []
        with S3DLIO.errors():
            uris, is_divided = _divided(uri, True, lambda: made.append(function(uri, opts)) or made[0].uris())
            if is_divided and not uris:  # as the library has it where a URI selects nothing
                raise ShareError("Failed to create S3 dataset: of the objects that %r selects none is "
                                 "this rank's; there are more ranks than objects" % uri)
            if is_divided and remake is None:
                raise ShareError("libshard cannot divide the datasets of this version of s3dlio: install s3dlio 0.9.92 "
                                 "to 0.10.0, or set SHARD_VIEW=off")
            return remake(uris, opts) if is_divided else made[0]

    cls.__new__ = lambda _cls, uri, opts=None: create_dataset(uri, opts)
    return original


# ---- what is refused ---------------------------------------------------------------------------


def _refusing(listing, refused, name, is_method=False, lists=lambda *_, **__: True):
    """A function that raises for the URI of a dataset. listing: s3dlio's own list(); is_method: of a class,
    after its object; lists(): whether it lists, called like it."""
    @functools.wraps(refused)
    def refusing(*args, **kwargs):
        if lists(*args, **kwargs):
            named = (kwargs[one] for one in ("uri", "src_uri", "prefix") if one in kwargs)
            _refuse(listing, name, str(next(iter(args[is_method:]), None) or next(named, "")))
        return refused(*args, **kwargs)

    return refusing


def _refuse(listing, name, uri):
    """Raise if what a URI selects is divided, and not an object that has just this name."""
    endpoint, bucket, key = _parts(uri)
    found = S3DLIO.find(endpoint, bucket)
    if found is not None and found.divides(key.partition("*")[0]) and (uri.endswith("/") or listing(uri, True) != [uri]):
        with S3DLIO.errors():
            raise ShareError(
                "s3dlio's %s lists in Rust, where libshard cannot divide the list: it would get all of %s in "
                "every rank. Use PyDataset.from_uris(s3dlio.list(...)), which has a rank's part; or set "
                "SHARD_VIEW=off, for all of it in every rank" % (name, uri))


def _patch_refused(module, listing):
    for name, lists in REFUSED.items():
        if hasattr(module, name):
            setattr(module, name, _refusing(listing, getattr(module, name), name + "()", lists=lists))
    for name in REFUSED_CLASSES:
        if hasattr(module, name):
            getattr(module, name).__init__ = _refusing(listing, lambda *_, **__: None, name, True)
    store = getattr(module, "MultiEndpointStore", None)
    for name in ("list", "list_all_endpoints"):
        if hasattr(store, name):
            setattr(store, name, _refusing(listing, getattr(store, name), "MultiEndpointStore." + name, True))


def patch_source(module):
    """Patch s3dlio.torch or s3dlio.jax_tf. Their source calls create_async_loader() in a thread, where an
    error is lost: whoever iterates would wait for ever."""
    cls = getattr(module, "_AsyncBytesSource", None)
    if cls is None:
        return
    original = cls.start

    @stands_for(cls)
    def start(self):
        _refuse(_originals["list"], "create_async_loader()", str(self._uri))
        return original(self)


def patch_compat(module):
    """Patch s3dlio.compat.s3torchconnector, whose list is empty where s3dlio.list() raises."""
    cls = getattr(module, "S3Client", None)
    if not hasattr(cls, "list_objects"):
        return
    original = cls.list_objects

    @stands_for(cls)
    def list_objects(self, *args, **kwargs):
        _failed.error = None
        for page in original(self, *args, **kwargs):
            if _failed.error is not None:
                raise _failed.error
            yield page
            _failed.error = None


# ---- statistics --------------------------------------------------------------------------------


def _count(uri, *_, **__):
    endpoint, bucket, key = _parts(uri)
    if bucket:
        S3DLIO.count(endpoint, bucket, key)


def _count_all(uris, *_, **__):
    for uri in uris:
        _count(uri)


def _count_range(uri, offset=None, *_, **__):
    """Of get_range(); and of parquet_get_rg(), by the number of a row group."""
    _, bucket, key = _parts(uri)
    if bucket and share.is_first_range(bucket, key, offset == 0):
        _count(uri)


_originals = {}  # s3dlio's own functions


def patch(module):
    """Patch s3dlio._pymod, the extension."""
    _originals.update(vars(module))
    _patch_refused(module, _patch_lists(module))
    for name, count in (("get", _count), ("get_many", _count_all), ("get_range", _count_range),
                        ("parquet_get_rg", _count_range)):
        if hasattr(module, name):
            setattr(module, name, counting(getattr(module, name), count))
    cls = getattr(module, "PyDataset", None)
    if hasattr(cls, "from_uris"):  # a loader in Rust gets them all
        cls.from_uris = staticmethod(counting(cls.from_uris, _count_all))
    package = sys.modules.get("s3dlio")  # has copies, if it was imported before
    for name, original in _originals.items():
        if getattr(package, name, None) is original and getattr(module, name) is not original:
            setattr(package, name, getattr(module, name))
