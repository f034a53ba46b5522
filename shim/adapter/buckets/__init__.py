# SPDX-License-Identifier: MIT
"""buckets: programs that list a bucket of SHARD_DATASET by a Python client get this rank's keys.

    share        which keys are this rank's; every seam asks here
    pages        pages of S3's listings that a client cannot tell from the server's
    botocore     boto3, aiobotocore, s3fs and all else that is built on botocore
    s3fs         its cache of listings

A module for each client. CLIENTS says which of them patches what: {module that is imported: (module
here, its function)}. The function gets the imported module. A client whose import brings in this
package also has a row in adapter/clients.def.

GETs, PUTs and everything but listing go to the server untouched.
"""
import importlib
import sys

from .. import Importer
from ..patching import Finder
from . import pages, share  # pylint: disable=unused-import

CLIENTS = {
    "botocore": ("botocore", "patch"),
    "botocore.handlers": ("botocore", "patch_handlers"),
    "s3fs.core": ("s3fs", "patch"),
}


def _patch(loaded, name):
    ours, function = CLIENTS[name]
    getattr(importlib.import_module("." + ours, __name__), function)(loaded)


def start():
    """Get ready to patch the clients as they are imported; those that are there already, now."""
    sys.meta_path.append(Importer)  # a client's module is compiled when the client is there
    if not share.datasets():
        return
    sys.meta_path.insert(0, Finder({
        name: lambda loaded, name=name: _patch(loaded, name) for name in CLIENTS}))
    for name in CLIENTS:
        if name in sys.modules and sys.modules[name] is not None:
            _patch(sys.modules[name], name)
