# SPDX-License-Identifier: MIT
"""pages: one page of a listing, as the server would give it if this rank's keys were all there are.

A page is made of the server's own pages: entries are left out, never made up.

 -  A page is as full as a server's, and says that there is more only if there is more for this rank:
    the server is asked for pages until one entry more than MaxKeys has come, which is held back. So
    no page is empty behind a truncated one, and an empty one has no Contents, as a server's.
 -  The last of the server's pages, which the client has seen in part, is kept for its next call
    (Ahead): a listing costs no more requests than without libshard.
 -  Of versions, and where keys have no order, the server's pages are joined, but never cut. (So it is from the
    page on that does not follow the one before: SeaweedFS lists a folder before what is called "folder-2".)
 -  ListObjectsV2's token is ours: it holds the key after which the server is asked to go on, so any
    client and process can use it. v1's NextMarker is the last key that is shown, written as the server
    writes it; where the server's is no key (moto), it is a token of ours, too.
 -  Under `range` a rank's keys are an interval: the server is asked for what follows the key before
    it, and no more once the last one has come. The key that is equal to the prefix, which is shown
    to all ranks, is asked for first, by itself.
"""
import collections
import itertools
import time
import urllib.parse

from .seams import begin_or_ask, read_token, write_token
from .share import ShareError

DEFAULT = 1000  # of MaxKeys
FULL = 1000  # keys that the server has in a page, at most
MOST = 16  # pages of the server's that are read to fill one


# A listing operation of S3's: the names of what is in its requests and responses.
#
#   contents    lists of keys
#   start       of a request: the key after which it begins
#   following   {of a response: of the request for the next page}
#   token       of a request: an opaque token. Ours holds (key, epoch, whether it is a common prefix)
Operation = collections.namedtuple("Operation", "contents start following versions token", defaults=(False, None))

OPERATIONS = {
    "list_objects_v2": Operation(("Contents",), "StartAfter",
                                 {"NextContinuationToken": "ContinuationToken"},
                                 token="ContinuationToken"),
    "list_objects": Operation(("Contents",), "Marker", {"NextMarker": "Marker"}),
    "list_object_versions": Operation(("Versions", "DeleteMarkers"), "KeyMarker",
                                      {"NextKeyMarker": "KeyMarker",
                                       "NextVersionIdMarker": "VersionIdMarker"}, versions=True),
}


# ---- a page -------------------------------------------------------------------------------------


class _Listing:
    """What one call asks for, and what has come so far. unordered: buckets whose pages have come in no order."""

    def __init__(self, operation, request, unordered=()):
        self.operation, self.request = operation, request
        self.prefix = request.get("Prefix") or ""
        self.delimiter = request.get("Delimiter") or ""
        self.encoded = request.get("EncodingType") == "url"  # the client's own, so keys stay encoded
        self.given = request.get("MaxKeys")
        self.limit = FULL if self.given is None else min(self.given, FULL)
        self.base = {name: value for name, value in request.items()
                     if name != operation.start and name not in operation.following.values()}
        self.ours = _own_token(operation, request)
        bucket = str(request.get("Bucket"))
        self.unordered = bucket.endswith("--x-s3") or bool(bucket in unordered and not self.ours and not operation.versions)
        self.foreign = request.get(operation.token) if operation.token and self.ours is None else None
        start = request.get(operation.start) or None
        self.start = self.ours[0] if self.ours else start if not self.foreign else ""
        self.after_prefix = self.start if (self.ours and self.ours[2]) or _is_folder(operation, request) else None
        self.tells_next = None  # v1: how the server says NextMarker: see _kind()
        self.cuts = not operation.versions and not self.unordered
        self.is_disordered = False  # the page that was read last
        # Another page of this listing is asked for by the same, but for where it begins.
        self.same = repr((operation.start, sorted(
            (name, value) for name, value in self.base.items() if name != "MaxKeys")))

    def first(self):
        """How the client asks the server."""
        own = {name: self.request[name] for name in
               (self.operation.start, *self.operation.following.values()) if name in self.request}
        if self.ours:
            own.pop(self.operation.token, None)
            own[self.operation.start] = self.start
        return self._and_one({**self.base, **own})

    def seek(self, key):
        return self._and_one({**self.base, self.operation.start: key})

    def _and_one(self, request):
        """The request for one entry more than the client's: not of v1, whose truncated pages tell whether
        the server says NextMarker."""
        if self.cuts and self.operation.token and self.given is not None and self.given < FULL:
            request["MaxKeys"] = self.given + 1
        return request

    def forgo_order(self, request, own):
        """The server has answered this request with a page that is in no order of its keys: from now on its pages
        are joined, and none is cut, for no key but the server's last tells where a list goes on. The request for that
        page; ShareError."""
        if own.after is not None or own.last is not None:
            raise ShareError("the server's pages are in no order of their keys: set SHARD_STRATEGY=hash")
        if self.ours and not request.get(self.operation.token):
            raise ShareError("the server's pages are in no order of their keys, so a list goes on in the process that has "
                             "begun it, and at once: list from the beginning")
        self.cuts, self.unordered = False, True
        same = {name: value for name, value in request.items() if name != "MaxKeys"}
        return same if self.given is None else {**same, "MaxKeys": self.given}

    def place(self, request):
        """Where a request begins."""
        return [request.get(name) for name in (self.operation.start,
                                               *self.operation.following.values())]

    def read(self, response, request, behind=None):
        """[(key, list, entry)] of the response to a request, in the order of keys. behind: the key that the page is
        to follow; is_disordered says whether it does."""
        lists = [(name, "Key") for name in self.operation.contents] + [("CommonPrefixes", "Prefix")]
        encoded = self.encoded and response.get("EncodingType") == "url"
        entries = [(urllib.parse.unquote_plus(one[field]) if encoded else one[field], name, one)
                   for name, field in lists for one in response.get(name) or ()]
        keys, is_key = [one[0] for one in entries if one[1] != "CommonPrefixes"], False
        if not self.unordered and (response.get("CommonPrefixes") or len([n for n, _ in lists if response.get(n)]) > 1):
            entries.sort(key=lambda one: one[0])
        if entries and response.get("NextMarker") and response.get("IsTruncated"):
            self.tells_next = _kind(response["NextMarker"], entries[-1])
            last = max((one[0] for one in entries if one[1] != "CommonPrefixes"), default=entries[-1][0])
            if self.tells_next == "opaque":
                is_key = any(response["NextMarker"] in (one[0], _shown(one)) for one in entries)  # the server's last
            if self.tells_next == "opaque" and not is_key:
                # moto has all common prefixes in each page: later ones come again
                entries = [one for one in entries if one[0] <= last]
        start = request.get(self.operation.start) or "" if self.cuts else ""
        entries = [one for one in entries if one[1] != "CommonPrefixes" or not self._comes_again(one[0], start)]
        self.is_disordered = self.cuts and (is_key or not _is_in_order(keys, entries, behind))
        return entries

    def _comes_again(self, prefix, start):
        """Whether a common prefix has nothing that follows `start`: v1's pages of moto have all."""
        has_all = not self.operation.token and self.tells_next not in ("decoded", "encoded")
        return prefix == self.after_prefix or (has_all and prefix < start and not start.startswith(prefix))

    def next_request(self, response, entries):
        """The request for what follows a response, or None: the server does not tell. v1 goes on
        from the last key: radosgw's markers are not encoded, and botocore decodes them."""
        operation = self.operation
        response = self.repaired(response, entries)
        following = {ours: response[theirs] for theirs, ours in operation.following.items()
                     if response.get(theirs) is not None}
        if operation.token is None and not operation.versions and entries and not (
                self.unordered and response.get("NextMarker")):
            following = {operation.start: entries[-1][0]}
        elif self.encoded and response.get("EncodingType") == "url" and not operation.token:
            following = {name: urllib.parse.unquote_plus(value) if name == operation.start else value
                         for name, value in following.items()}
        more = {} if self.operation.versions or self.unordered else {"MaxKeys": FULL}
        return {**self.base, **more, **following} if following else None

    def repaired(self, response, entries):
        """A response of versions, whose NextKeyMarker is what a last key like "a+b" was decoded to,
        has the key itself."""
        marker = response.get("NextKeyMarker")
        if self.operation.versions and marker is not None and entries:
            key = entries[-1][0]
            if marker != key and marker == urllib.parse.unquote_plus(key) and not self.encoded:
                return {**response, "NextKeyMarker": key}
        return response

    def answer(self, response, kept, truncated):
        """A response that has `kept` as entries."""
        page, operation = dict(response), self.operation
        for name in (*operation.contents, "CommonPrefixes"):
            shown = [entry for _, of, entry in kept if of == name]
            if shown:
                page[name] = shown
            else:
                page.pop(name, None)
        if "KeyCount" in page:
            page["KeyCount"] = len(kept)
        page["IsTruncated"] = truncated
        if self.given is None or self.given <= FULL or "MaxKeys" not in page:
            page["MaxKeys"] = DEFAULT if self.given is None else self.given
        for name in (operation.start, *operation.following.values()):
            if name in self.request:
                page[name] = self.request[name]
                if self.encoded and name == operation.start:
                    page[name] = urllib.parse.quote(page[name])
            elif name in page and not operation.token:
                page[name] = ""  # so it is of a request without
            else:
                page.pop(name, None)
        if not truncated:
            for name in operation.following:
                page.pop(name, None)
        return page


def _is_in_order(keys, entries, behind):
    """Whether a page's keys ascend, and all entries follow what the page follows. (What was no UTF-8 has another key
    here than there.)"""
    if keys != sorted(keys):
        keys = [key for key in keys if "\ufffd" not in key]
        if keys != sorted(keys):
            return False
    return not isinstance(behind, str) or not entries or entries[0][0] > behind or all(
        key > behind or "\ufffd" in key + behind or (name == "CommonPrefixes" and behind.startswith(key))
        for key, name, _ in entries)


def _own_token(operation, request):
    """What a request's token holds, or None: it is not ours, or there is none."""
    if operation.versions:
        return None
    return read_token(request.get(operation.token or operation.start), str, int, int)


def _is_folder(operation, request):
    """Whether v1's Marker is a common prefix, as NextMarker may be."""
    marker, delimiter = request.get("Marker"), request.get("Delimiter")
    return bool(operation.start == "Marker" and marker and delimiter and marker.endswith(delimiter))


def _shown(entry):
    """The key, or common prefix, of an entry as the client sees it."""
    return entry[2]["Prefix" if entry[1] == "CommonPrefixes" else "Key"]


def _kind(marker, last):
    """How a server says NextMarker behind this entry: "decoded" (radosgw), as entries are ("encoded"), or as
    a token ("opaque")."""
    return "decoded" if marker == last[0] else "encoded" if marker == _shown(last) else "opaque"


def _may_be_divided(share, operation, request):
    limit = request.get("MaxKeys")
    texts = [request.get(name) for name in ("Prefix", "Delimiter", operation.start)]
    return ((limit is None or (isinstance(limit, int) and limit > 0))
            and all(text is None or isinstance(text, str) for text in texts)
            and share.divides(request.get("Prefix"), request.get("Delimiter")))


async def page(name, request, share, client, ahead):
    """The page that a call of the operation `name` gets. ahead: the client's Ahead. client has four
    methods; the first three can be awaited:

        send(request, own)  the server's response to a request; without an own that it is divided by, all
                            of it
        begin(function)     what a function returns that may block
        account()           for share.begin()
        is_refused(error)   whether what send() has raised says that the server will not list
    """
    operation = OPERATIONS[name]
    if not _may_be_divided(share, operation, request):
        if _own_token(operation, request):
            request = _Listing(operation, request).first()  # of one that was divided: with MaxKeys=0, say
        response = await client.send(request)
        texts = [str(request.get(text) or "") for text in ("Prefix", "Delimiter")]
        said = texts[0] if request.get("EncodingType") else response.get("Prefix") or texts[0]
        if any(map(response.get, operation.contents)) and (share.divides(*texts) or share.divides(said, texts[1])):
            raise ShareError("libshard divides what texts, and a MaxKeys from 0 on, ask for, and no handler of botocore's "
                             "events gives another Prefix: ask so, or set SHARD_VIEW=off")
        return response
    listing = _Listing(operation, request, ahead.unordered)
    environment = await client.account() if share.needs_listing() else None
    own = await begin_or_ask(
        lambda: client.begin(lambda: share.begin(
            listing.prefix, listing.delimiter, listing.start, listing.ours[1] if listing.ours else None,
            operation.versions, environment)),
        lambda: client.send({**listing.first(), "MaxKeys": 1}), client.is_refused)
    return await _divided(listing, own, lambda request: client.send(request, own), ahead)


class Ahead:
    """Pages of the server's that one client has not been given to their ends: the latest few, for a
    short time, and only for a call that goes on behind what it has been given. Threads may share it."""

    KEPT, SECONDS = 4, 10

    def __init__(self):
        self.unordered = set()  # buckets whose pages have come in no order
        self._pages = []  # (for which listings, behind, response, entries, tells_next, when it came)

    def put(self, listing, own, behind, response, entries):
        """Keep a page. behind: the last key that the client has been given; of listings that are not
        cut, what the page was asked for by. Between the two there is nothing for this rank."""
        self._pages = [((listing.same, own.epoch), behind, response, entries, listing.tells_next,
                        time.monotonic())] + self._pages[:self.KEPT - 1]

    def get(self, listing, own, begin):
        """(response, its entries behind `begin`), or None."""
        if listing.cuts and listing.delimiter and listing.operation.token and not listing.ours:
            return None  # StartAfter may be within a common prefix
        if begin is None:
            return None
        for same, behind, response, entries, tells_next, when in self._pages:
            if same != (listing.same, own.epoch) or time.monotonic() - when > self.SECONDS:
                continue
            if begin == behind:
                listing.tells_next = listing.tells_next or tells_next
                # Another call may get them, too, and its caller change them, as s3fs does.
                return response, [(key, name, dict(one)) for key, name, one in entries
                                  if not listing.cuts or key > begin]
        return None


async def _divided(listing, own, send, ahead):
    """The page of a listing that a dataset is in."""
    ordered = not listing.unordered
    after = own.after if ordered else None
    kept, request = [], listing.first()
    begin = (listing.foreign,) if listing.foreign else listing.start  # what the page will follow
    seeks = after is not None and not listing.foreign and after >= listing.prefix and (
        listing.start is None or listing.start < after) and not (
            listing.operation.versions and listing.start == listing.prefix)
    alone = own.empty and ordered and not listing.operation.versions
    if alone or (seeks and listing.prefix and (listing.start is None or listing.start < listing.prefix)):
        response = await send({**request, "MaxKeys": 1})
        entries = listing.read(response, request)
        kept = [one for one in entries if one[0] == listing.prefix]
        if alone:
            own.end()
            return listing.answer(response, kept, False)
        if kept and listing.operation.versions:  # it may have more of them: read on from there
            kept, seeks = [], False
    if seeks:
        request, begin = listing.seek(after), after
    response, more = None, False
    for number in itertools.count(1):
        if not listing.cuts:
            begin = listing.place(request)
        came, entries = ahead.get(listing, own, begin) or (None, None)
        if came is None:
            came = await send(request)
            entries = listing.read(came, request, begin)
        mine = _keep(listing, own, entries)
        if listing.is_disordered and (came.get("IsTruncated") or len(kept) + len(mine) > listing.limit):
            request = listing.forgo_order(request, own)
            ahead.unordered.add(listing.request["Bucket"])
            if kept:
                more = True
                break
            continue
        if not listing.cuts and kept and len(kept) + len(mine) > listing.limit:
            more = True
            ahead.put(listing, own, begin, came, entries)
            break
        response, kept = came, kept + mine
        if listing.cuts and len(kept) > 1 and mine and (len(kept) > listing.limit or number >= MOST):
            more, kept = True, kept[:min(listing.limit, len(kept) - 1)]
            ahead.put(listing, own, kept[-1][0], came, entries)
            break
        if not came.get("IsTruncated") or _is_past(listing, own, entries):
            break
        following = listing.next_request(came, entries)
        if after is not None and entries and entries[-1][0] < after:
            following = listing.seek(after)
        if following is None or listing.place(following) == listing.place(request):
            more = True  # the client sees what the server said
            break
        begin = entries[-1][0] if entries else begin
        request = following
    if not more:
        own.end()
        return listing.answer(response, kept, False)
    return _with_next(listing, own, listing.answer(response, kept, True), response, kept)


def _is_past(listing, own, entries):
    """Whether none of the rank's keys follows, under `range`."""
    if listing.unordered or not entries:
        return False
    last = entries[-1][0]
    return own.is_past(last) or (last == own.last and not listing.operation.versions)


def _keep(listing, own, entries):
    """The entries of a page that this rank sees."""
    return own.kept(entries, lambda entry: None if entry[1] == "CommonPrefixes" else entry[0])


def _with_next(listing, own, answer, response, kept):
    """Say in a truncated page where it goes on."""
    operation = listing.operation
    if not listing.cuts:
        entries = listing.read(response, {})
        for name in operation.following:
            if response.get(name) is not None:
                answer[name] = listing.repaired(response, entries)[name]
        if operation.start == "Marker" and not answer.get("NextMarker") and entries:
            answer["NextMarker"] = _shown(entries[-1])  # it is not of those that are kept
    elif kept and (operation.token or listing.tells_next == "opaque"
                   or (listing.encoded and listing.delimiter and not listing.tells_next)):
        answer["NextContinuationToken" if operation.token else "NextMarker"] = write_token(
            kept[-1][0], own.epoch, int(kept[-1][1] == "CommonPrefixes"))
    elif kept and (listing.delimiter or listing.tells_next):
        answer["NextMarker"] = kept[-1][0] if listing.tells_next == "decoded" else _shown(kept[-1])
    return answer
