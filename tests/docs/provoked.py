"""Listing calls that fail under the shard view, each for a reason of its own, for drift.py."""
import os
import shutil
import sys
import tempfile

from facts import run

LIST = """
import errno, os, sys
if os.geteuid() == 0 and sys.argv[2:]:
    os.setgid(65534); os.setgroups([]); os.setuid(65534)
try:
    os.listdir(sys.argv[1])
    print("no error")
except OSError as e:
    print(errno.errorcode[e.errno])
"""


class Provoked:
    """Listing calls that fail, in a folder of their own: {what: error}."""

    def __init__(self, code):
        self.code = code
        self.work = tempfile.mkdtemp(prefix="shard-drift-")
        os.chmod(self.work, 0o755)
        self.data = self.path("data")
        os.mkdir(self.data)
        for name in "abcd":
            open(os.path.join(self.data, name), "w", encoding="utf-8").close()

    def path(self, name):
        """A path below the folder."""
        return os.path.join(self.work, name)

    def folder(self, name, pattern):
        """A pattern that names a folder there."""
        os.mkdir(self.path(name))
        return self.path(pattern)

    def write(self, name, data):
        """A file there."""
        with open(self.path(name), "wb") as stream:
            stream.write(data)
        return self.path(name)

    def index(self, name, *options):
        """A listing of the data."""
        run(os.path.join(self.code.build, "shardctl"), "index", self.data, "-o", self.path(name), *options)
        return self.path(name)

    def error(self, other_user=False, **variables):
        """What a listing ends with."""
        cache = self.path("cache-of-another" if other_user else "cache")
        os.makedirs(cache, exist_ok=True)
        if other_user and os.geteuid() == 0:
            os.chown(cache, 65534, 65534)
        settings = {"SHARD_DATASET": self.data, "SHARD_RANK": "0", "SHARD_SIZE": "2",
                    "SHARD_TIMEOUT": "20", "SHARD_CACHE_DIR": cache,
                    "LD_PRELOAD": self.code.library, **variables}
        settings = {name: value for name, value in settings.items() if value is not None}
        python = os.path.realpath("/usr/bin/python3") if other_user else sys.executable
        out = run(python, "-c", LIST, self.data, *(["other"] if other_user else []), **settings)
        return out.split()[-1] if out.split() else "nothing printed"

    def all(self):
        """[(what, what must come of it, what came of it)]."""
        listing = self.index("good.listing")
        data = bytearray(open(listing, "rb").read())
        cases = [
            ("a wrong variable", "EINVAL", {"SHARD_STRATEGY": "none"}),
            ("a misspelt variable", "EINVAL", {"SHARD_STRATGY": "range"}),
            ("no rank", "EINVAL", {"SHARD_RANK": None, "SHARD_SIZE": None}),
            ("no SHARD_LISTING there", "ENOENT", {"SHARD_LISTING": self.path("none.listing")}),
            ("no manifest there", "ENOENT", {"SHARD_LISTING": self.path("none.txt")}),
            ("a SHARD_LISTING that is none", "EBADMSG",
             {"SHARD_LISTING": self.write("junk.listing", b"junk")}),
            ("a folder as SHARD_LISTING", "EINVAL", {"SHARD_LISTING": self.data}),
            ("a folder as a rank's SHARD_LISTING", "EINVAL", {"SHARD_LISTING": self.folder("own0", "own%r")}),
            ("other options of SHARD_LISTING", "EINVAL", {"SHARD_LISTING": self.index("other.listing", "--options", "depth=3")}),
            ("two listings of a dataset", "EINVAL",
             {"SHARD_LISTING": f"{listing}:{self.index('twin.listing')}"}),
            ("a listing of another version", "EPROTONOSUPPORT",
             {"SHARD_LISTING": self.write("version.listing", data[:8] + b"\x7f" + data[9:])}),
            ("a damaged manifest", "EIO", {"SHARD_LISTING": self.write("bad.txt", b"a\nb\0c\n")}),
            ("a file as cache directory", "ENOTDIR",
             {"SHARD_CACHE_DIR": self.write("file", b"")}),
            ("a cache directory with a long path", "ENAMETOOLONG",
             {"SHARD_CACHE_DIR": "/" + "long/" * 1000}),
        ]
        results = [(what, wanted, self.error(**variables)) for what, wanted, variables in cases]
        python = "/usr/bin/python3"
        if os.geteuid() != 0 or os.path.exists(python):
            os.chmod(listing, 0)
            results.append(("a SHARD_LISTING that cannot be read", "EPERM",
                            self.error(True, SHARD_LISTING=listing)))
            shut = self.path("shut")
            os.mkdir(shut, 0o500)
            results.append(("a cache directory that cannot be written", "EPERM",
                            self.error(True, SHARD_CACHE_DIR=shut)))
        old = self.index("old.listing")
        open(os.path.join(self.data, "new"), "w", encoding="utf-8").close()
        results.append(("an old SHARD_LISTING", "ESTALE", self.error(SHARD_LISTING=old)))
        shutil.rmtree(self.work)
        return results
