# SPDX-License-Identifier: MIT
"""share: which keys of a bucket are this rank's. Every client's seam asks here, and only here.

    share = find("s3", bucket, endpoint, account)      None: not of SHARD_DATASET, pass it through
    listing = share and share.begin(prefix, delimiter, start)   None: nothing to divide, pass it through
    listing.kept(entries, key_of)                       the entries of a server's page that are the rank's
    listing.end()                                       the client has been given the last page

All of them raise ShareError, with a line for people; the seam makes the client's own kind of error
of it, one that the client itself does not catch: its list must not end, nor be empty. None of them
asks the server for anything but through shardctl (the node's listing), which begin() starts where the
strategy needs one: it may take a while (run it in a thread where there is an event loop).

A dataset s3://bucket/prefix is all keys below "prefix/". A key belongs to the innermost dataset
that it lies in. Keys outside of all, keys that SHARD_INCLUDE leaves out, and an object whose key is equal
to the request's prefix (so clients ask whether it is there) are shown to every rank.

A key that ends with a slash (a folder's marker) is in no listing: with a strategy that needs one it
goes to the rank of the next key (the last one, if there is none); by hash it is a key like others.
"""
import contextlib
import contextvars
import errno
import functools
import os
import sys
import urllib.parse

from ..mapped_listing import Listing
from ..native import INFO, WARN, is_worker, native, speaks


class ShareError(Exception):
    """Why keys cannot be divided: str() is a line for people. errno: of the call that failed."""

    def __init__(self, line, number=errno.EINVAL):
        super().__init__(line)
        self.errno = number


@contextlib.contextmanager
def _no_os_error():
    """Within the block an OSError becomes a ShareError: a client may take it for a folder that is not
    there."""
    try:
        yield
    except OSError as error:
        raise ShareError(error.strerror or str(error), error.errno or errno.EIO) from None


# ---- what SHARD_DATASET names -------------------------------------------------------------------


class Dataset:
    """An s3:// or gs:// item of SHARD_DATASET, the number-th. root: what its keys begin with, "" or
    "prefix/"."""

    def __init__(self, number, scheme, bucket, prefix):
        self.number, self.scheme, self.bucket = number, scheme, bucket
        self.root = prefix if not prefix or prefix.endswith("/") else prefix + "/"
        self.url = "%s://%s/%s" % (scheme, bucket, self.root)
        self.endpoint = None  # where this process has listed it first, see _plain()
        self.listing = None  # the node's, for the life of the process
        self.epoch = None  # in which this process has listed it from its beginning last
        self.stats = None  # its number in the statistics
        self.begun = False  # whether this process has listed it from its beginning
        self.shown = False  # whether this process has been given a key of its own

    def begins(self, prefix, start):
        """Whether a listing of a prefix, after a key, is one of this dataset from its beginning."""
        return not start and self.root.startswith(prefix)


@functools.lru_cache(None)
def datasets():
    """The s3:// and gs:// items of SHARD_DATASET, as Datasets."""
    found = []
    for number, item in enumerate(native().buckets()):
        scheme, _, rest = item.partition("://")
        bucket, _, prefix = rest.partition("/")
        found.append(Dataset(number, scheme, bucket, prefix))
    return found


def active():
    """Whether this process's listings are divided at all."""
    view = native().view_asked()
    if view == "auto":  # DLIO divides its files itself
        return "dlio_benchmark" not in sys.modules
    return view == "shard"


# ---- once ---------------------------------------------------------------------------------------

_said = set()


def warn_once(text, node=False):
    """Print a line, once in a process; node: by the node's first rank, and not by its workers."""
    if text not in _said and not (node and not speaks()):
        _said.add(text)
        native().log(WARN, text)


def is_silent():
    """Whether this process has warned of nothing."""
    return not _said


# ---- a bucket -----------------------------------------------------------------------------------


_LOOPBACK = ("127.0.0.1", "::1")  # localhost


def _plain(endpoint):
    """An endpoint without a scheme's own port and a last slash, to be compared; "": AWS's own."""
    if is_aws(endpoint):
        return ""
    parts = urllib.parse.urlsplit(endpoint if "://" in endpoint else "https://" + endpoint)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    host = (parts.hostname or "").lower()
    return "%s://%s:%d%s" % (parts.scheme, "localhost" if host in _LOOPBACK else host, port,
                             parts.path.rstrip("/"))


def is_aws(endpoint):
    """Whether an endpoint is AWS's own."""
    host = urllib.parse.urlsplit(endpoint or "").hostname or ""
    return not endpoint or host.endswith((".amazonaws.com", ".amazonaws.com.cn"))


_undivided = contextvars.ContextVar("libshard_undivided", default=False)


@contextlib.contextmanager
def context_value(variable, value):
    """For the time of a block, a context's variable has this value."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def undivided():
    """For the time of a block, listings are not divided: a client asks whether something is
    there, which is the same for all ranks."""
    return context_value(_undivided, True)


def _parts(scheme, bucket):
    return [one for one in datasets() if one.scheme == scheme and one.bucket == bucket]


def is_named(*given):
    """Whether one of a call's arguments names the bucket of a dataset, by a name, URL or path, or by its own name."""
    names = set()
    for one in given:
        host, _, rest = str(getattr(one, "name", one)).rpartition("://")[2].partition("/")
        names.add(rest.partition("/")[0] if ":" in host else host)  # of s3://host:port/bucket/key
    return any(one.bucket in names for one in datasets())


def is_divided(scheme, path, delimiter="/"):
    """Whether a listing of what lies in a folder, bucket/path, is divided, at whatever endpoint."""
    bucket, _, key = path.partition("/")
    mine, key = _parts(scheme, bucket), key.strip("/")
    return bool(mine) and active() and Share(mine, None, None).divides(key and key + "/", delimiter)


def find(scheme, bucket, endpoint=None, account=None):
    """The Share of a bucket, or None: it is not of SHARD_DATASET, or nothing is to be divided.

    endpoint: URL of the server, None for the provider's own.
    account: what shardctl's environment gets to list the bucket as the client does, ["NAME=value",
    or "NAME" to unset it]; or a function that returns it: asked only if a listing is needed. It may
    raise ShareError.
    """
    mine = _parts(scheme, bucket)
    if not mine or _undivided.get() or not active():
        return None
    return Share(mine, endpoint, account)


class Share:
    """The datasets of one bucket, as a client at one endpoint sees it. Cheap to make."""

    def __init__(self, parts, endpoint, account):
        self._parts, self._endpoint, self._account = parts, endpoint, account

    def divides(self, prefix, delimiter=""):
        """Whether a listing of this prefix shows keys of a dataset one by one."""
        return bool(self._touched(prefix or "", delimiter or ""))

    def _touched(self, prefix, delimiter):
        return [one for one in self._parts
                if prefix.startswith(one.root)
                or (one.root.startswith(prefix)
                    and not (delimiter and delimiter in one.root[len(prefix):]))]

    def needs_listing(self):
        """Whether begin() needs the account."""
        return native().sharing().strategy != b"hash"

    def holds(self, key):
        """Whether a key lies in one of the datasets."""
        return any(key.startswith(one.root) for one in self._parts)

    @_no_os_error()
    def begin(self, prefix, delimiter="", start=None, every_version=False, account=None, epoch=None):
        """A KeyFilter over the keys below a prefix, or None if there is nothing to divide. May run
        shardctl.

        start: the key or token that the listing goes on after, None or "": from its beginning.
        every_version: keys that are not in the node's listing are shown, too, to the rank of the next
        key. account: instead of find()'s. epoch: in which a listing that goes on was begun, None: not known.
        """
        prefix, delimiter = prefix or "", delimiter or ""
        touched = self._touched(prefix, delimiter)
        if not touched:
            return None
        for one in touched:
            if one.endpoint not in (None, _plain(self._endpoint)):
                raise ShareError("%s was listed at %s, and is now listed at %s: a dataset has one endpoint; list the other "
                                 "bucket of this name in another process, with SHARD_VIEW=off"
                                 % (one.url, one.endpoint or "AWS", self._endpoint or "AWS"))
            one.endpoint = _plain(self._endpoint)
            native().run_set_listed(one.number)
            one.begun = one.begun or one.begins(prefix, start)
        rules, world = _rules()
        begun = [one for one in touched if one.begins(prefix, start)]
        epoch = self._find_epoch(touched, begun) if epoch is None or begun else epoch
        listings = {}
        if rules.strategy == b"hash" and rules.has_listing:
            warn_once("SHARD_LISTING is not used: SHARD_STRATEGY=hash takes none; unset one",
                      node=True)
        if rules.strategy != b"hash":
            for one in touched:
                listings[one] = self._listing(one, account or self._account, rules, world)
        return KeyFilter(touched, listings, rules, world, prefix, delimiter, epoch, every_version)

    def _find_epoch(self, touched, begun):
        """SHARD_EPOCH, as the program has set it by now, where a dataset is listed from its
        beginning; else that in which it was, so last. As shim/view/datasets.h has it."""
        epoch = None if begun else touched[0].epoch
        for one in begun:
            one.epoch = None  # while the number is wrong
        if epoch is None:
            epoch = native().epoch()
        for one in begun:
            one.epoch = epoch
        return epoch

    def _listing(self, dataset, account, rules, world):
        found = dataset.listing
        if found is None:
            if dataset.bucket.endswith("--x-s3") and not rules.has_listing:
                raise ShareError("%s: a directory bucket's listings have no order; set "
                                 "SHARD_STRATEGY=hash" % dataset.url)
            environment = account() if callable(account) else account
            found = Listing.of_bucket_of_job("s3://%s/%s" % (dataset.bucket, dataset.root),
                                             environment or [])
            dataset.listing = found
            native().log(INFO, "serving '%s': %d keys, digest %.16s"
                         % (dataset.url, found.count, found.digest))
            if not found.count:
                warn_once("%s: there is no key below that prefix%s" % (
                    dataset.url, " of SHARD_INCLUDE" if rules.includes else ""), node=True)
            elif found.count < world.size:
                warn_once("%s has more ranks than keys (%d ranks, %d keys): some ranks have none"
                          % (dataset.url, world.size, found.count), node=True)
        return found


def _rules():
    """(what SHARD_ variables say of sharing out, where this process is in its job); ShareError."""
    error = native().config_fault()
    if error:
        raise ShareError(error)
    world, fault = native().world(needs_rank=True)
    if fault:
        raise ShareError(fault)
    return native().sharing(), world


def is_set_up():
    """Whether the variables are right, and the rank is known."""
    try:
        _rules()
        return True
    except ShareError:
        return False


class KeyFilter:
    """One listing of a prefix: what is this rank's of the pages that the server gives.

    after, last: under `range` all of the rank's keys k have after < k <= last; None: no such limit. What is
    before `after`, or the prefix, need not be asked for.
    empty: no key of the dataset is this rank's. Limits are None, and empty is False, where other keys
    must be shown, too, and where the server has no order.
    """

    def __init__(self, parts, listings, rules, world, prefix, delimiter, epoch, every_version):
        self.prefix, self.epoch = prefix, epoch
        self._object = prefix if prefix and not prefix.endswith("/") else None
        self._parts, self._listings, self._world = parts, listings, world
        self._strays = 1 if every_version else 0
        self._inside = len(parts) == 1 and prefix.startswith(parts[0].root)
        self.after = self.last = None
        self.empty = False
        runs = {one: native().run(listing.handle, epoch) for one, listing in listings.items()}
        if self._inside and not delimiter and not rules.includes and runs.get(parts[0]):
            if not parts[0].bucket.endswith("--x-s3") and not self._is_object():
                self._find_limits(*runs[parts[0]])
        for one in parts:
            one.stats = native().bucket_pass(one.url, self._handle(one), epoch)

    def _handle(self, part):
        listing = self._listings.get(part)
        return listing.handle if listing is not None else None

    def _is_object(self):
        """Whether the prefix is a key of the listing: every rank is shown that."""
        part = self._parts[0]
        return self._object and self._listings[part].find(self.prefix[len(part.root):]) >= 0

    def _find_limits(self, begin, end):
        """Of `range` without a shuffle: the rank's keys are these positions of the listing."""
        part = self._parts[0]
        listing = self._listings[part]
        try:
            after = part.root + listing.name(begin - 1) if begin else None
            last = part.root + listing.name(end - 1) if 0 < end < listing.count else None
            for text in (after, last):
                if text is not None:
                    text.encode()
        except UnicodeEncodeError:
            return  # a client could not ask for what is not UTF-8
        if begin == end and listing.count:
            self.empty, last = True, after
        # (SeaweedFS: a list that is to begin before its prefix is empty.)
        self.after, self.last = after if after and after >= self.prefix else None, last

    def owned(self, keys, shown=True):
        """A flag (0 or 1) for each key of a page, as bytes. shown: the client is given those of 1."""
        if self._inside:
            flags = self._flags(self._parts[0], keys, shown)
        else:
            flags = bytearray(b"\1") * len(keys)
            innermost = sorted(self._parts, key=lambda one: -len(one.root))
            of = [next((one for one in innermost if key.startswith(one.root)), None)
                  for key in keys]
            for part in innermost:
                places = [i for i, one in enumerate(of) if one is part]
                for i, flag in zip(places, self._flags(part, [keys[i] for i in places], shown)):
                    flags[i] = flag
        if self._object in keys:
            flags = bytearray(flags)
            for i, key in enumerate(keys):
                flags[i] |= key == self._object
        return flags

    def kept(self, items, key_of):
        """The items of a page whose keys are this rank's, and those that have none, as a common
        prefix: key_of(item) is None."""
        keys = [key_of(item) for item in items]
        if None in keys:
            for part in self._parts:
                part.shown = True
        flags = iter(self.owned([key for key in keys if key is not None]))
        return [item for item, key in zip(items, keys) if key is None or next(flags)]

    def is_past(self, keys, behind=None):
        """Whether none of the rank's keys follows a page of the server's, of these keys, that follows the
        key `behind` (None: not known); ShareError if limits hold and the keys are in no order."""
        if self.after is None and self.last is None:
            return self.empty
        known = [key for key in ([behind] if behind else []) + keys if "\ufffd" not in key]
        if known != sorted(known):
            raise ShareError("the server's pages are in no order of their keys: set SHARD_STRATEGY=hash")
        if self.empty or self.last is None or not keys:
            return self.empty
        return keys[-1] > self.last or (keys[-1] == self.last and not self._strays)

    def _flags(self, part, keys, shown):
        if not keys:
            return b""
        try:
            flags = native().owned(self._handle(part), self.epoch, keys, len(part.root.encode()),
                                   self._strays, part.stats if shown else -1)
        except OSError as error:
            raise ShareError("%s: %s" % (part.url, error.strerror), error.errno) from None
        part.shown = part.shown or (shown and any(flags))
        return flags

    def end(self):
        """The client has been given the last page."""
        for part in self._parts:
            if part.root.startswith(self.prefix):
                if part.begun and not part.shown and part not in self._listings and not is_worker():
                    warn_once("%s: rank %d of %d has no key by hash: more ranks than keys, or "
                              "chance" % (part.url, self._world.rank, self._world.size))


# ---- statistics ---------------------------------------------------------------------------------


_recent = {}  # (bucket, key, epoch) of objects that are read by ranges, the latest last


def is_first_range(bucket, key, from_begin):
    """Whether a GET of a range opens an object: from its first byte, or the first range for long, or
    in DLIO's epoch."""
    of = bucket, key, native().run_epoch_or_none()
    seen = _recent.pop(of, False)
    _recent[of] = True
    while len(_recent) > 256:
        _recent.pop(next(iter(_recent)), None)
    return from_begin or not seen


def count_opened(scheme, bucket, key, endpoint=None):
    """For SHARD_STATS: the client has opened this object (its GET has been answered)."""
    if not native().stats_on():
        return
    mine = [one for one in _parts(scheme, bucket) if key.startswith(one.root)]
    if mine and active() and mine[0].endpoint in (None, _plain(endpoint)):
        part = max(mine, key=lambda one: len(one.root))
        native().bucket_opened(part.url, key[len(part.root):])
