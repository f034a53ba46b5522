# SPDX-License-Identifier: MIT
"""buckets: programs that list a bucket of SHARD_DATASET by a Python client get this rank's keys.

    share        which keys are this rank's; every seam asks here
    clients      what the clients have in common
    botocore     boto3, aiobotocore, s3fs and all else that is built on botocore
    page_xml     what botocore need not parse of a page
    s3fs         what it makes of listings
    minio, s3torchconnector, s3dlio, google_storage, gcsfs   the client of that name
    refused      torchdata's own lister, and versions that are not known
    unlisted     a rank that ends without having listed, and is told

A module for each client. adapter/clients.def says which of them patches what; its functions get the
imported module. A page of the server's loses the entries of other ranks, and is else the server's: it may
have fewer keys than were asked for.

GETs, PUTs and everything but listing go to the server untouched. For SHARD_STATS, GETs are counted.
"""
import importlib
import sys

from .. import Importer
from ..contract import CLIENTS
from ..patching import Finder
from . import refused, share, unlisted


def _patch(loaded, name):
    ours, function = CLIENTS[name]
    try:
        getattr(importlib.import_module("." + ours, __name__), function)(loaded)
    except Exception as error:  # pylint: disable=broad-except
        if ours == "s3dlio" or not refused.refuse(loaded, error):  # what lists there are functions, too
            raise


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
    if not share.datasets():
        return
    unlisted.start()
    sys.meta_path.insert(0, Finder({name: lambda loaded, name=name: _patch(loaded, name) for name in CLIENTS}))
    for name in CLIENTS:
        if sys.modules.get(name) is not None:
            _patch(sys.modules[name], name)
    if "s3dlio" in sys.modules and "s3dlio._pymod" not in sys.modules:
        _patch_once_loaded("s3dlio._pymod")
