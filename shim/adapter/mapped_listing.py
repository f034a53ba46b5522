# SPDX-License-Identifier: MIT
"""mapped_listing: a listing file that this process has mapped."""
import os

from .native import native


class Listing:
    """A listing file mapped into this process. One object per file; lives as long as the process.

    Pickles as (file, digest): the file is immutable, and a worker maps it again.
    """

    _open = {}

    def __init__(self, handle):
        self._handle, self._native = handle, native()
        info = self._native.info(handle)
        self.count = info.entries
        self.by_path = info.order == 0
        self.sorted = info.order in (0, 1)  # by path or basename: names can be found
        self.file = os.fsdecode(info.file)
        self.digest = info.digest.decode()
        self.source = os.fsdecode(info.source)
        self.utf8 = bool(info.utf8)
        self.ascii = not any(info.bytes_used[16:])
        self.directories_shown = info.dirs_hidden
        self.duplicates = info.duplicates
        self.directories, self.links = info.directories, info.dir_links
        self._bytes_used = bytes(info.bytes_used)

    @classmethod
    def of_dataset(cls, directory, options):
        return cls._once(native().dataset(directory, options))

    @classmethod
    def of_names(cls, text):
        """Of names in memory, a bytearray with a NUL behind each, in their order."""
        return cls._once(native().names(text))

    @classmethod
    def of_bucket_of_job(cls, *arguments):
        return cls._once(native().bucket_of_job(*arguments))

    @property
    def handle(self):
        """What native's functions take."""
        return self._handle

    @classmethod
    def _once(cls, handle):
        listing = cls(handle)
        kept = cls._open.setdefault((listing.file, listing.digest), listing)
        if kept is not listing:
            native().close(handle)
        return kept

    @classmethod
    def of_file(cls, file, digest):
        listing = cls._open.get((file, digest))
        if listing is None:
            listing = cls(native().open(file))
            if listing.digest != digest:
                raise OSError("listing %r was replaced: its digest is %s, not %s; do not change "
                              "files in SHARD_CACHE_DIR during a job"
                              % (file, listing.digest, digest))
            cls._open[file, digest] = listing
        return listing

    def __reduce__(self):
        return Listing.of_file, (self.file, self.digest)

    def uses_byte(self, byte):
        return bool(self._bytes_used[byte // 8] >> byte % 8 & 1)

    def name(self, i):
        return self._native.name(self._handle, i)

    def find(self, name):
        return self._native.find(self._handle, name)

    def count_reads(self, root, used, needed):
        """For SHARD_STATS: the first `used` names, which lie below `root`, are read; the steps account
        for `needed` of them."""
        self._native.stats_dataset(root, self._handle, used, needed)
