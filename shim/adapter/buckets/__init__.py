# SPDX-License-Identifier: MIT
"""buckets: programs that list a bucket of SHARD_DATASET by a Python client get this rank's keys.

    share        which keys are this rank's; every seam asks here
    pages        pages of S3's listings that a client cannot tell from the server's
    botocore     boto3, aiobotocore, s3fs and all else that is built on botocore
    s3fs         its cache of listings
    patterns     paths of s3fs's and gcsfs's that are patterns, and objects' names
    keys         what the clients that follow have in common
    minio, s3torchconnector, s3dlio, torchdata
    gcs_pages    pages of Google's listings
    google_storage, gcsfs
    unseen       what cannot be divided, and is said
    ended        a rank that ends without having listed, and is told

A module for each client. CLIENTS says which of them patches what: {module that is imported: (module
here, its function)}. The function gets the imported module. A client whose import brings in this
package also has a row in adapter/clients.def.

GETs, PUTs and everything but listing go to the server untouched. For SHARD_STATS, GETs are counted; also
those of a DLIO that has listed a bucket itself (objects.py).
"""
import importlib
import sys

from .. import Importer, objects
from ..native import WARN, native
from ..patching import Finder
from . import ended, pages, share  # pylint: disable=unused-import

CLIENTS = {
    "botocore": ("botocore", "patch"),
    "botocore.handlers": ("botocore", "patch_handlers"),
    "s3fs.core": ("s3fs", "patch"),
    "minio.api": ("minio", "patch"),
    "s3torchconnector._s3client._s3client": ("s3torchconnector", "patch_client"),
    "s3torchconnector._s3_bucket_iterable": ("s3torchconnector", "patch_stream"),
    "s3torchconnector.s3iterable_dataset": ("s3torchconnector", "patch_iterable"),
    "s3dlio._pymod": ("s3dlio", "patch"),
    "s3dlio.compat.s3torchconnector": ("s3dlio", "patch_compat"),
    "s3dlio.torch": ("s3dlio", "patch_source"),
    "s3dlio.jax_tf": ("s3dlio", "patch_source"),
    "torchdata._torchdata": ("torchdata", "patch"),
    "google.cloud.storage.client": ("google_storage", "patch"),
    "google.cloud.storage.blob": ("google_storage", "patch_blob"),
    "gcsfs.core": ("gcsfs", "patch"),
    **dict.fromkeys(("pyarrow._s3fs", "pyarrow._gcsfs", "tensorflow_io", "tensorflow_io_gcs_filesystem",
                     "obstore", "opendal", "miniopy_async", "lance", "deltalake"), ("unseen", "patch")),
}


def _patch(loaded, name):
    ours, function = CLIENTS[name]
    try:
        getattr(importlib.import_module("." + ours, __name__), function)(loaded)
    except Exception as error:  # pylint: disable=broad-except
        if share.datasets():
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
    sys.meta_path.insert(0, Finder({
        name: lambda loaded, name=name: _patch(loaded, name) for name in CLIENTS}))
    for name in CLIENTS:
        if name in sys.modules and sys.modules[name] is not None:
            _patch(sys.modules[name], name)
    if "s3dlio" in sys.modules and "s3dlio._pymod" not in sys.modules:
        _patch_once_loaded("s3dlio._pymod")
