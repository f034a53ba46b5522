# SPDX-License-Identifier: MIT
"""tensorflow: tf.data.Dataset.list_files() of a FileList: a rank sees its own share only."""
import itertools

from ..patching import Proxy
from ..sequences import CHUNK, FileList


class Files:
    """What list_files() returns for a FileList: shard() makes a data set of every P-th path."""

    def __init__(self, tf, files):
        self._tf, self._files = tf, files

    def shard(self, num_shards, index):
        """As tf.data.Dataset.shard()."""
        tf, files = self._tf, self._files

        def chunks():
            own = iter(files[index::num_shards])
            while True:
                chunk = list(itertools.islice(own, CHUNK))
                if not chunk:
                    return
                yield chunk

        return tf.data.Dataset.from_generator(
            chunks, output_signature=tf.TensorSpec((None,), tf.string)).unbatch()


def _sorted(files):
    """The files in the order of their full paths, as list_files() sorts them; None where that is not known: in the
    sub-folder layout DLIO's order is that of basenames, and a path may be a pattern."""
    listing = files.listing
    if not listing.by_path or any(c in files.prefix or listing.uses_byte(ord(c)) for c in "*?[\\"):
        return None
    return files.in_order()


def patch(module, _tree):
    """Patch dlio_benchmark.reader.tf_reader."""
    tf = module.tf

    def list_files(file_pattern, shuffle=None, *args, **kwargs):
        if not isinstance(file_pattern, FileList):
            return tf.data.Dataset.list_files(file_pattern, shuffle, *args, **kwargs)
        from dlio_benchmark.utils.config import ConfigArguments

        files = _sorted(file_pattern)
        # Without an order, and where a share is cut by records, TensorFlow gets the whole list.
        if files is None or shuffle is not False or args or kwargs or (
                len(files) < ConfigArguments.get_instance().comm_size):
            return tf.data.Dataset.list_files(list(file_pattern), shuffle, *args, **kwargs)
        return Files(tf, files)

    dataset = Proxy(tf.data.Dataset, list_files=list_files)
    module.tf = Proxy(tf, data=Proxy(tf.data, Dataset=dataset))
