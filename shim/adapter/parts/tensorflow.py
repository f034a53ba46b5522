# SPDX-License-Identifier: MIT
"""tensorflow: tf.data.Dataset.list_files() of a FileList: a rank sees its own share only."""
import itertools
import os

from ..listing import Listing
from ..patching import Proxy
from ..sequences import CHUNK, FileList


def _sorted(files):
    """The files in the order of their full paths, as list_files() sorts them, to iterate over. In
    the sub-folder layout DLIO's order, and what it trims to, is that of basenames."""
    listing, ordered = files.listing, files.in_order()
    options = listing.options()
    if "order=basename" not in options:
        return ordered
    by_path = FileList(Listing.of_dataset(
        listing.source, options.replace("order=basename", "order=path")), files.prefix)
    if len(by_path) != listing.count or not ordered.is_run() and len(ordered) < listing.count:
        return sorted(ordered)  # there are more files by now, or fewer; or these are of no one part
    if len(ordered) == listing.count:
        return by_path
    # What was trimmed away, or is another's share, lies before or behind these by (basename, path).
    first, last = ((os.path.basename(path), path) for path in (ordered[0], ordered[-1]))
    return (path for path in by_path if first <= (os.path.basename(path), path) <= last)


class Files:
    """What list_files() returns for a FileList: shard() makes a data set of every P-th path."""

    def __init__(self, tf, files):
        self._tf, self._files = tf, files

    def shard(self, num_shards, index):
        """As tf.data.Dataset.shard()."""
        tf, files = self._tf, self._files

        def chunks():
            ordered = _sorted(files)
            if isinstance(ordered, FileList):
                own = iter(ordered[index::num_shards])
            else:
                own = itertools.islice(ordered, index, None, num_shards)
            while True:
                chunk = list(itertools.islice(own, CHUNK))
                if not chunk:
                    return
                yield chunk

        return tf.data.Dataset.from_generator(
            chunks, output_signature=tf.TensorSpec((None,), tf.string)).unbatch()


def patch(module, _tree):
    """Patch dlio_benchmark.reader.tf_reader."""
    tf = module.tf

    def list_files(file_pattern, shuffle=None, *args, **kwargs):
        files = file_pattern
        if not isinstance(files, FileList):
            return tf.data.Dataset.list_files(file_pattern, shuffle, *args, **kwargs)
        from dlio_benchmark.utils.config import ConfigArguments

        listing = files.listing  # names that are numbers are in no order of paths
        special = not isinstance(listing, Listing) or not listing.sorted or any(
            c in files.prefix or listing.uses_byte(ord(c)) for c in "*?[\\")
        # Patterns, a share that is cut by records, or the rest of an order we do not know:
        # TensorFlow gets the whole list.
        if special or shuffle is not False or args or kwargs or not (
                len(files) >= ConfigArguments.get_instance().comm_size):
            return tf.data.Dataset.list_files(list(files), shuffle, *args, **kwargs)
        return Files(tf, files)

    dataset = Proxy(tf.data.Dataset, list_files=list_files)
    module.tf = Proxy(tf, data=Proxy(tf.data, Dataset=dataset))
