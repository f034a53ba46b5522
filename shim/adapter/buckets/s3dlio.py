# SPDX-License-Identifier: MIT
"""s3dlio: its Python API, over Rust (0.9.92 to 0.10.0).

list() returns the URIs of all that a URI selects. The package copies it from its extension module, and
calls it there. A dataset lists by itself when it is made; so it is made anew of this rank's URIs, and
its keys() are then URIs, too.

No seam: UNSEEN list in Rust. They pass, with a warning.
"""
import functools
import os
import sys

from ..native import ERROR, native
from . import share
from .keys import endpoint_of_environment, split_url, variables
from .share import ShareError, count_opened

# What the functions take that are wrapped: all that can be compared of them.
KNOWN = {"list": "(uri, recursive=False, pattern=None)", "create_dataset": "(uri, opts=None)"}
STRANGE = ("this version of s3dlio is not one that libshard knows: install s3dlio 0.10.0, or list by "
           "another client")

UNSEEN = ("create_async_loader", "download", "delete")
UNSEEN_CLASSES = ("PyS3Dataset", "PyS3AsyncDataLoader", "PyParquetStreamLoader")


def _parts(uri):
    """(endpoint, bucket, key) of s3://bucket/key, and of s3://host:port/bucket/key."""
    endpoint = endpoint_of_environment()
    bucket, key = split_url(uri)
    if bucket and (":" in bucket or bucket.startswith("[")):
        endpoint = "%s://%s" % ((endpoint or "http").partition("://")[0], bucket)
        bucket, _, key = key.partition("/")
    return endpoint, bucket, key


def _find(uri):
    """(share.Share of what a URI selects, or None; the prefix that is asked for): a `*` begins a
    pattern."""
    endpoint, bucket, key = _parts(uri)
    if not bucket:
        return None, ""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    found = share.find("s3", bucket, endpoint, lambda: variables(endpoint, region, addressing="path"))
    return found, key.partition("*")[0]


def _is_flat(uri, recursive):
    """Whether a list goes through folders; else it ends at the next slash."""
    return recursive or "**" in str(uri)


def _begin(uri, flat):
    """The share.Pass of what a URI selects, or None."""
    found, prefix = _find(uri)
    return found.begin(prefix, "" if flat else "/") if found is not None else None


def _owned(found, uris, flat):
    """The URIs that are this rank's, and the folders of a list that ends at slashes."""
    keys = [_parts(uri)[2] for uri in uris]
    flags = found.owned(keys)
    found.end()
    return [uri for uri, key, flag in zip(uris, keys, flags)
            if flag or (not flat and key.endswith("/"))]


def _fail(error):
    """RuntimeError, which the library raises. The line is printed, too: the library's own layer for
    s3torchconnector's API takes a list that fails for an empty one."""
    native().log(ERROR, str(error))
    return RuntimeError(str(error))


# ---- what is divided ---------------------------------------------------------------------------


def _patch_list(module):
    original = module.list
    strange = getattr(original, "__text_signature__", None) != KNOWN["list"]

    @functools.wraps(original)
    def list_uris(uri, recursive=False, pattern=None):
        try:
            flat = _is_flat(uri, recursive)
            found = _begin(uri, flat)
            if found is not None and strange:
                raise ShareError(STRANGE)
            uris = original(uri, recursive, pattern)
            return uris if found is None else _owned(found, uris, flat)
        except ShareError as error:
            raise _fail(error) from None

    module.list = list_uris


def _patch_datasets(module):
    """Both ways to make a dataset: the function, and the class itself."""
    function, cls = module.create_dataset, module.PyDataset
    remake = getattr(cls, "from_uris", None)
    strange = (remake is None
               or getattr(function, "__text_signature__", None) != KNOWN["create_dataset"])

    @functools.wraps(function)
    def create_dataset(uri, opts=None):
        try:
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
        except ShareError as error:
            raise _fail(error) from None

    def __new__(_cls, uri, opts=None):
        return create_dataset(uri, opts)

    module.create_dataset = create_dataset
    cls.__new__ = __new__


# ---- what is not -------------------------------------------------------------------------------


def _warn(name, uri):
    found, prefix = _find(uri)
    if found is not None and found.divides(prefix):
        share.warn_once("s3dlio.%s lists in Rust, where libshard cannot divide the list: it gets all of "
                        "%s in every rank; PyDataset.from_uris(s3dlio.list(...)) has a rank's part"
                        % (name, uri), node=True)


def _warning(original, name, method=False):
    """A function that warns of the URI it is called with. method: of a class, after its object."""
    @functools.wraps(original)
    def unseen(*args, **kwargs):
        named = (kwargs[one] for one in ("uri", "src_uri", "prefix") if one in kwargs)
        _warn(name, next(iter(args[method:]), None) or next(named, ""))
        return original(*args, **kwargs)

    return unseen


def _patch_unseen(module):
    for name in UNSEEN:
        if hasattr(module, name):
            setattr(module, name, _warning(getattr(module, name), name + "()"))
    for name in UNSEEN_CLASSES:
        if hasattr(module, name):
            getattr(module, name).__init__ = _warning(lambda *_, **__: None, name, True)
    store = getattr(module, "MultiEndpointStore", None)
    for name in ("list", "list_all_endpoints"):
        if hasattr(store, name):
            setattr(store, name, _warning(getattr(store, name), "MultiEndpointStore." + name, True))


# ---- statistics --------------------------------------------------------------------------------


def _count(uri, is_opened=lambda bucket, key: True):
    endpoint, bucket, key = _parts(uri) if native().stats_on() else (None, None, None)
    if bucket and is_opened(bucket, key):
        count_opened("s3", bucket, key, endpoint)


def _count_one(uri, *_, **__):
    _count(uri)


def _count_all(uris, *_, **__):
    for uri in uris:
        _count(uri)


def _count_range(uri, offset=None, *_, **__):
    _count(uri, lambda bucket, key: share.is_first_range(bucket, key, offset == 0))


def _count_row_group(uri, rg_idx=None, *_, **__):
    _count_range(uri, rg_idx)


def _counting(original, count):
    """A function that gets objects; count() has its parameters."""
    @functools.wraps(original)
    def get(*args, **kwargs):
        answer = original(*args, **kwargs)
        count(*args, **kwargs)
        return answer

    return get


def _patch_gets(module):
    for name, count in (("get", _count_one), ("get_many", _count_all), ("get_range", _count_range),
                        ("parquet_get_rg", _count_row_group)):
        if hasattr(module, name):
            setattr(module, name, _counting(getattr(module, name), count))
    cls = getattr(module, "PyDataset", None)
    if hasattr(cls, "from_uris"):  # a loader in Rust gets them all
        cls.from_uris = staticmethod(_counting(cls.from_uris, _count_all))


def patch(module):
    """Patch s3dlio._pymod, the extension."""
    before = dict(vars(module))
    if share.datasets():
        _patch_list(module)
        _patch_datasets(module)
        _patch_unseen(module)
    _patch_gets(module)
    package = sys.modules.get("s3dlio")  # has copies, if it was imported before
    for name, original in before.items():
        if getattr(package, name, None) is original and getattr(module, name) is not original:
            setattr(package, name, getattr(module, name))

