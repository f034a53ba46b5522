# SPDX-License-Identifier: MIT
"""s3torchconnector: Amazon's S3 connector for PyTorch.

S3Client.list_objects() returns a stream of the Rust client, an iterator of pages. A Stream of ours goes
around it. A dataset may pickle it by its attributes, and make it anew from them in a worker: that gets
a Stream, too. The filter depends on nothing that a stream keeps.

This is not documented, so the functions that lists pass through are compared with those that are known.
"""
import os

from ..patching import stands_for
from ..recognise import Tree
from . import share
from .seams import Client, counting, endpoint_of_environment, variables
from .share import ShareError

# Versions 1.0.0 to 1.5.0: {module: {function: its fingerprints}}, see recognise.fingerprints(); one
# of the whole class would change with functions that do not matter.
KNOWN = {
    "_s3client": {
        "S3Client.list_objects": ("6caf417f89", "0d29d47bfd"),
    },
    "_s3_bucket_iterable": {
        "S3BucketIterable.__iter__": ("7480c59538", "91986edf1d"),
        "S3BucketIterator.__init__": ("7fb247c5c6",),
        "S3BucketIterator.__iter__": ("91440fbf32", "3cd4aec870"),
        "_PickleableListObjectStream.__init__": ("b341195dee",),
        "_PickleableListObjectStream.__iter__": ("ad419825cf",),
        "_PickleableListObjectStream.__next__": ("1bbde67fab",),
        "_PickleableListObjectStream.__getstate__": ("b2723938b0",),
        "_PickleableListObjectStream.__setstate__": ("79ba19ebe4",),
    },
}

_strange = []  # functions that are not known


def _compare(module):
    """Note which functions of a module are not known, or do not run as they are written."""
    folder, file = os.path.split(module.__file__)
    tree = Tree(folder)
    for name, prints in KNOWN[module.__name__.rpartition(".")[2]].items():
        if tree.difference(file, name, prints) or not tree.runs(module, file, name):
            _strange.append(name)


def _error(line):
    from s3torchconnectorclient import S3Exception

    return S3Exception(line)


def _endpoint(client):
    """Of an S3Client, or of the Rust client, which a stream is made anew with."""
    given = getattr(client, "_endpoint", None) or getattr(client, "endpoint", None)
    return given or endpoint_of_environment()


def _account(client):
    """The client signs with the profile that it was given, or with what it finds where shardctl
    does."""
    config = getattr(client, "_s3client_config", client)
    return variables(_endpoint(client), client.region, () if getattr(config, "unsigned", False) else None,
                     profile=getattr(config, "profile", None),
                     addressing="path" if getattr(config, "force_path_style", False) else None)


CONNECTOR = Client("s3", _error, _endpoint, _account)


# ---- the stream of pages -----------------------------------------------------------------------


class Page:
    """A ListObjectResult of which objects were left out: that of the Rust client cannot be changed."""

    def __init__(self, objects, prefixes):
        self.object_info, self.common_prefixes = objects, prefixes


class Stream:
    """A ListObjectStream with this rank's objects only. Pages that are left empty are passed over; a list
    with no object at all has one empty page, as the server's has."""

    def __init__(self, stream, found, shown=False):
        self._stream, self._found = stream, found
        self._ended = False  # before the server's last page
        self._shown = shown  # whether a page has been given

    @property
    def complete(self):
        """Whether there is no further page."""
        return self._shown and (self._ended or self._stream.complete)

    def __iter__(self):
        return self

    def __next__(self):
        with CONNECTOR.errors():
            while not self._ended:
                page = next(self._stream, None)
                if page is None:
                    break
                objects, prefixes = page.object_info, page.common_prefixes
                mine = self._found.kept(objects, lambda one: one.key)
                # Of an empty share the first page may have the prefix's own key.
                self._ended = self._found.empty or bool(objects) and self._found.is_past(objects[-1].key)
                if len(mine) < len(objects):
                    page = Page(mine, prefixes)
                if mine or prefixes:
                    self._shown = True
                    return page
            self._found.end()
            if not self._shown:
                self._shown = True
                return Page([], [])
            raise StopIteration

    def __getattr__(self, name):
        if name in ("_stream", "_found"):  # a copy that is being made
            raise AttributeError(name)
        return getattr(self._stream, name)


def patch_client(module):
    """Patch S3Client."""
    cls = module.S3Client
    original = cls.list_objects
    _compare(module)

    @stands_for(cls)
    def list_objects(self, bucket, prefix="", delimiter="", *args, **kwargs):
        with CONNECTOR.errors():
            found = CONNECTOR.begin(self, bucket, prefix, delimiter)
            if found is not None and _strange:
                raise ShareError("%s of this s3torchconnector is not a version known to libshard: "
                                 "install s3torchconnector 1.5.0, or list by another client"
                                 % _strange[0])
            stream = original(self, bucket, prefix, delimiter, *args, **kwargs)
            if found is None:
                return stream
            _warn_of_dividing(bucket)
            return Stream(stream, found)

    cls.get_object = counting(
        cls.get_object, lambda client, bucket, key, *_, **__: CONNECTOR.count(client, bucket, key))


def patch_stream(module):
    """Patch what a dataset pickles of a list."""
    _compare(module)
    cls = getattr(module, "_PickleableListObjectStream", None)
    if not hasattr(cls, "__setstate__"):
        return  # not known, so nothing is listed
    original = cls.__setstate__

    @stands_for(cls)
    def __setstate__(self, state):
        original(self, state)
        with CONNECTOR.errors():
            found = CONNECTOR.begin(state["client"], state["bucket"], state["prefix"],
                                    state["delimiter"], start="")
        if found is not None:
            begun = bool(state.get("complete") or state.get("continuation_token"))
            self._list_stream = Stream(self._list_stream, found, begun)


# ---- datasets that divide once more ------------------------------------------------------------

_dividing = []  # S3IterableDatasets that are listing, and will divide by rank what they get


def patch_iterable(module):
    """See when S3IterableDataset divides by rank."""
    cls = module.S3IterableDataset
    original = cls.__iter__

    @stands_for(cls)
    def __iter__(self):
        if not getattr(self, "_enable_sharding", False) or getattr(self, "_world_size", 1) < 2:
            return original(self)
        _dividing.append(self)
        try:
            return original(self)
        finally:
            _dividing.remove(self)


def _warn_of_dividing(bucket):
    if _dividing:
        share.warn_once("S3IterableDataset(enable_sharding=True) divides this rank's part of the bucket %r "
                        "by rank once more, so most objects are read by no rank: set "
                        "enable_sharding=False, or make the dataset before torch.distributed is "
                        "initialized (it then divides among a rank's workers only)" % bucket, node=True)
