# SPDX-License-Identifier: MIT
"""s3dlio: its Python API, over Rust (0.9.92 to 0.10.0).

list() returns the URIs of all that a URI selects. The package copies it from its extension module, and
calls it there. A dataset lists by itself when it is made; so it is made anew of this rank's URIs, and
its keys() are then URIs, too.

No seam: UNSEEN list in Rust. Of a dataset they raise: it is known that it is one, and that no rank would
get its part.
"""
import functools
import os
import sys
import threading

from ..patching import stands_for
from . import share
from .seams import Client, counting, endpoint_of_environment, split_url, variables
from .share import ShareError

# What the functions take that are wrapped: all that can be compared of them.
KNOWN = {"list": "(uri, recursive=False, pattern=None)", "create_dataset": "(uri, opts=None)"}
STRANGE = ("this version of s3dlio is not one that libshard knows: install s3dlio 0.10.0, or list by "
           "another client")

# {function: whether it lists, called like it}
UNSEEN = {
    "create_async_loader": lambda *_, **__: True,
    "download": lambda *_, **__: True,
    "delete": lambda uri, recursive=False, *_, **__: recursive,
}
UNSEEN_CLASSES = ("PyS3Dataset", "PyS3AsyncDataLoader", "PyParquetStreamLoader")


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


def _prefix(key):
    """What is asked for: a `*` begins a pattern."""
    return key.partition("*")[0]


def _begin(uri, flat):
    """The share.Pass of what a URI selects, or None. flat: a list goes through folders; else it ends at
    the next slash."""
    endpoint, bucket, key = _parts(uri)
    return S3DLIO.begin(endpoint, bucket, _prefix(key), "" if flat else "/")


def _owned(found, uris, flat):
    """The URIs that are this rank's, and the folders of a list that ends at slashes."""
    def key_of(uri):
        key = _parts(uri)[2]
        return None if not flat and key.endswith("/") else key

    mine = found.kept(uris, key_of)
    found.end()
    return mine


# ---- what is divided ---------------------------------------------------------------------------


def _patch_list(module):
    original = module.list
    strange = getattr(original, "__text_signature__", None) != KNOWN["list"]

    @stands_for(module, "list")
    def list_uris(uri, recursive=False, pattern=None):
        with S3DLIO.errors():
            flat = recursive or "**" in str(uri)
            found = _begin(uri, flat)
            if found is not None and strange:
                raise ShareError(STRANGE)
            uris = original(uri, recursive, pattern)
            return uris if found is None else _owned(found, uris, flat)


def _patch_datasets(module):
    """Both ways to make a dataset: the function, and the class itself."""
    function, cls = module.create_dataset, module.PyDataset
    remake = getattr(cls, "from_uris", None)
    strange = (remake is None
               or getattr(function, "__text_signature__", None) != KNOWN["create_dataset"])

    @stands_for(module)
    def create_dataset(uri, opts=None):
        with S3DLIO.errors():
            found = _begin(uri, True)
            if found is None:
                return function(uri, opts)
            if strange:
                raise ShareError(STRANGE)
            uris = _owned(found, function(uri, opts).uris(), True)
            if not uris:  # as the library has it where a URI selects nothing
                raise ShareError("Failed to create S3 dataset: of the objects that %r selects none is "
                                 "this rank's; there are more ranks than objects" % uri)
            return remake(uris, opts)

    def __new__(_cls, uri, opts=None):
        return create_dataset(uri, opts)

    cls.__new__ = __new__


# ---- what is not -------------------------------------------------------------------------------


_list = None  # s3dlio's own


def _names_one(uri):
    """Whether a URI is that of an object, and selects nothing else."""
    return not uri.endswith("/") and _list(uri, True) == [uri]


def _refuse(name, uri):
    """Raise if what a URI selects is divided."""
    endpoint, bucket, key = _parts(uri)
    found = S3DLIO.find(endpoint, bucket)
    if found is not None and found.divides(_prefix(key)) and not _names_one(str(uri)):
        with S3DLIO.errors():
            raise ShareError(
                "s3dlio's %s lists in Rust, where libshard cannot divide the list: it would get all of %s in "
                "every rank. Use PyDataset.from_uris(s3dlio.list(...)), which has a rank's part; or set "
                "SHARD_VIEW=off, for all of it in every rank" % (name, uri))


def _refusing(original, name, method=False, listing=lambda *_, **__: True):
    """A function that raises for the URI of a dataset. method: of a class, after its object. listing():
    whether it lists, called like it."""
    @functools.wraps(original)
    def unseen(*args, **kwargs):
        if listing(*args, **kwargs):
            named = (kwargs[one] for one in ("uri", "src_uri", "prefix") if one in kwargs)
            _refuse(name, next(iter(args[method:]), None) or next(named, ""))
        return original(*args, **kwargs)

    return unseen


def _patch_unseen(module):
    global _list
    _list = module.list
    for name, listing in UNSEEN.items():
        if hasattr(module, name):
            setattr(module, name, _refusing(getattr(module, name), name + "()", listing=listing))
    for name in UNSEEN_CLASSES:
        if hasattr(module, name):
            getattr(module, name).__init__ = _refusing(lambda *_, **__: None, name, True)
    store = getattr(module, "MultiEndpointStore", None)
    for name in ("list", "list_all_endpoints"):
        if hasattr(store, name):
            setattr(store, name, _refusing(getattr(store, name), "MultiEndpointStore." + name, True))


def patch_source(module):
    """Patch s3dlio.torch or s3dlio.jax_tf. Their source calls create_async_loader() in a thread, where an
    error is lost: whoever iterates would wait for ever."""
    cls = getattr(module, "_AsyncBytesSource", None)
    if cls is None or not share.datasets():
        return
    original = cls.start

    @stands_for(cls)
    def start(self):
        _refuse("create_async_loader()", self._uri)
        return original(self)


def patch_compat(module):
    """Patch s3dlio.compat.s3torchconnector, whose list is empty where s3dlio.list() raises."""
    cls = getattr(module, "S3Client", None)
    if not hasattr(cls, "list_objects") or not share.datasets():
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
    _, bucket, key = _parts(uri)
    if bucket and share.is_first_range(bucket, key, offset == 0):
        _count(uri)


def _count_row_group(uri, rg_idx=None, *_, **__):
    _count_range(uri, rg_idx)


def _patch_gets(module):
    for name, count in (("get", _count), ("get_many", _count_all), ("get_range", _count_range),
                        ("parquet_get_rg", _count_row_group)):
        if hasattr(module, name):
            setattr(module, name, counting(getattr(module, name), count))
    cls = getattr(module, "PyDataset", None)
    if hasattr(cls, "from_uris"):  # a loader in Rust gets them all
        cls.from_uris = staticmethod(counting(cls.from_uris, _count_all))


def patch(module):
    """Patch s3dlio._pymod, the extension."""
    before = dict(vars(module))
    if share.datasets():
        _patch_unseen(module)
        _patch_list(module)
        _patch_datasets(module)
    _patch_gets(module)
    package = sys.modules.get("s3dlio")  # has copies, if it was imported before
    for name, original in before.items():
        if getattr(package, name, None) is original and getattr(module, name) is not original:
            setattr(package, name, getattr(module, name))
