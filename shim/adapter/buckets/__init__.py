# SPDX-License-Identifier: MIT
"""buckets: programs that list a bucket of SHARD_DATASET by a Python client get this rank's keys.

    share        which keys are this rank's; every seam asks here
    seams        what the clients have in common
    botocore     boto3, aiobotocore, s3fs and all else that is built on botocore
    bodies       what botocore need not parse of a page
    s3fs         what it makes of listings
    minio, s3torchconnector, s3dlio, torchdata
    google_storage, gcsfs
    ended        a rank that ends without having listed, and is told

A module for each client. adapter/clients.def says which of them patches what; its functions get the
imported module. A page of the server's loses the entries of other ranks, and is else the server's: it may
have fewer keys than were asked for.

GETs, PUTs and everything but listing go to the server untouched. For SHARD_STATS, GETs are counted; also
those of a DLIO that has listed a bucket itself (objects.py).
"""
import functools
import importlib
import inspect
import re
import sys

from .. import Importer, objects
from ..contract import CLIENTS
from ..native import WARN, native
from ..patching import Finder
from . import ended, share


LISTS = re.compile("_{0,2}(ls|lsdir|find|(do_)?list(?!_buckets).*)$")  # names of methods that list


def _refuse(loaded, why):
    """Of a client that cannot be patched, the methods that list raise for a dataset's bucket; whether there are any."""
    def check(*args, **kwargs):
        if share.active() and share.is_named(*args, *kwargs.values()):
            raise RuntimeError("%s: libshard cannot divide the lists of this version of %s. Install a version that "
                               "libshard-s3(7) names, or set SHARD_VIEW=off"
                               % (why, loaded.__name__.partition(".")[0]))

    def refusing(method):
        async def later(*args, **kwargs):
            check(*args, **kwargs)
            return await method(*args, **kwargs)

        def lists(*args, **kwargs):
            check(*args, **kwargs)
            return method(*args, **kwargs)

        return functools.wraps(method)(later if inspect.iscoroutinefunction(method) else lists)

    found = [(one, name, method) for one in vars(loaded).values() if isinstance(one, type)
             and one.__module__ in (loaded.__name__, "builtins")
             for name, method in list(vars(one).items()) if LISTS.match(name) and inspect.isroutine(method)]
    for cls, name, method in found:
        setattr(cls, name, refusing(method))
    return bool(found)


def _patch(loaded, name):
    ours, function = CLIENTS[name]
    try:
        getattr(importlib.import_module("." + ours, __name__), function)(loaded)
    except Exception as error:  # pylint: disable=broad-except
        if share.datasets() and share.active():
            if ours != "s3dlio" and _refuse(loaded, error):
                return
            raise
        # DLIO runs as ever; only its statistics are less.
        native().log(WARN, "SHARD_STATS misses the objects that %s gets: %s: %s"
                     % (name, type(error).__name__, error))


def _patch_once_loaded(name):
    """Patch an extension module that may be about to be loaded. importlib.import_module() tells the
    audit hook of no import: the first that it hears of such a package is that its extension is
    opened, and then the module's finder has been asked already."""
    from importlib.machinery import ExtensionFileLoader

    original = ExtensionFileLoader.exec_module

    def exec_module(self, module):
        original(self, module)
        if module.__name__ == name:
            if ExtensionFileLoader.exec_module is exec_module:
                ExtensionFileLoader.exec_module = original
            _patch(module, name)

    ExtensionFileLoader.exec_module = exec_module


def start():
    """Get ready to patch the clients as they are imported; those that are there already, now."""
    sys.meta_path.append(Importer)  # a client's module is compiled when the client is there
    if not share.datasets() and not objects.urls():
        return
    if share.datasets():
        ended.start()
    sys.meta_path.insert(0, Finder({name: lambda loaded, name=name: _patch(loaded, name) for name in CLIENTS}))
    for name in CLIENTS:
        if sys.modules.get(name) is not None:
            _patch(sys.modules[name], name)
    if "s3dlio" in sys.modules and "s3dlio._pymod" not in sys.modules:
        _patch_once_loaded("s3dlio._pymod")
