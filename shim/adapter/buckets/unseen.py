# SPDX-License-Identifier: MIT
"""unseen: packages that list buckets where nothing of Python's is called, so that their lists cannot be
divided. Their import is said, once."""
from . import share

# {module: (what lists, the schemes of datasets that it lists)}
PACKAGES = {
    "pyarrow._s3fs": ("pyarrow.fs.S3FileSystem (and what reads by it, as pyarrow.dataset, pandas and "
                      "Ray do)", ("s3",)),
    "pyarrow._gcsfs": ("pyarrow.fs.GcsFileSystem", ("gs",)),
    "tensorflow_io": ("tensorflow_io's file system", ("s3",)),
    "tensorflow_io_gcs_filesystem": ("tensorflow's file system for gs://", ("gs",)),
    "obstore": ("obstore", ("s3", "gs")),
    "opendal": ("opendal", ("s3", "gs")),
    "miniopy_async": ("miniopy_async", ("s3",)),
    "lance": ("lance", ("s3", "gs")),
    "deltalake": ("deltalake", ("s3", "gs")),
}


def patch(module):
    """Say what this module lists."""
    lists, schemes = PACKAGES[module.__name__]
    ours = [one.url for one in share.datasets() if one.scheme in schemes]
    if ours and share.active():
        share.warn_once("%s lists buckets without libshard's seeing it: what it lists of %s is all keys, "
                        "in every rank" % (lists, " and ".join(ours)), node=True)
