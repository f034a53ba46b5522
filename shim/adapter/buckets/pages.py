# SPDX-License-Identifier: MIT
"""pages: one page of a listing, as the server would give it if this rank's keys were all there are.

page() is a generator, so that it can be driven by a client that blocks and by one with an event
loop. It yields what it needs and is sent the answer:

    Send(request)   a request to the server; the answer is the server's response
    Run(function)   a call that may block, or return an awaitable; the answer is its result

and returns the page. A page is made of the server's own pages: entries are left out, never made up.

 -  A page is never empty while there is more: then the next pages are asked for, 1,000 keys at a
    time, and cut to MaxKeys.
 -  ListObjectsV2's token is ours: it holds the key after which the server is asked to go on, so any
    client and process can use it. v1's NextMarker is the server's, or the last key that is shown if
    the page was cut.
 -  Under `range` a rank's keys are an interval: the server is asked for what follows the key before
    it, and no more once the last one has come. The key that is equal to the prefix, which is shown
    to all ranks, is asked for first, by itself.
"""
import base64
import json

from .share import ShareError

DEFAULT = 1000  # of MaxKeys
FULL = 1000  # keys that the server has in a page, at most
TOKEN = "libshard-"


class Send:
    """A request to the server."""

    def __init__(self, request):
        self.request = request


class Run:
    """A call that may block."""

    def __init__(self, function):
        self.function = function


class Operation:
    """A listing operation of S3's: the names of what is in its requests and responses."""

    def __init__(self, contents, start, following, versions=False, token=None):
        self.contents = contents  # lists of keys
        self.start = start  # of a request: the key after which it begins
        self.following = following  # {of a response: of the request for the next page}
        self.versions = versions
        self.token = token  # of a request: an opaque token


OPERATIONS = {
    "list_objects_v2": Operation(("Contents",), "StartAfter",
                                 {"NextContinuationToken": "ContinuationToken"},
                                 token="ContinuationToken"),
    "list_objects": Operation(("Contents",), "Marker", {"NextMarker": "Marker"}),
    "list_object_versions": Operation(("Versions", "DeleteMarkers"), "KeyMarker",
                                      {"NextKeyMarker": "KeyMarker",
                                       "NextVersionIdMarker": "VersionIdMarker"}, versions=True),
}


# ---- tokens -------------------------------------------------------------------------------------


def write_token(key, epoch, is_prefix):
    """A token that goes on after a key, or after all keys of a common prefix."""
    text = json.dumps([key, epoch, int(is_prefix)], separators=(",", ":"))
    return TOKEN + base64.urlsafe_b64encode(text.encode()).decode()


def read_token(token):
    """(key, epoch, whether it is a common prefix), or None: it is not one of ours."""
    if not isinstance(token, str) or not token.startswith(TOKEN):
        return None
    try:
        key, epoch, is_prefix = json.loads(base64.urlsafe_b64decode(token[len(TOKEN):]))
    except ValueError:
        return None
    return (key, epoch, bool(is_prefix)) if isinstance(key, str) else None


# ---- a page -------------------------------------------------------------------------------------


class _Listing:
    """What one call asks for, and what has come so far."""

    def __init__(self, operation, request):
        self.operation, self.request = operation, request
        self.prefix = request.get("Prefix") or ""
        self.delimiter = request.get("Delimiter") or ""
        self.encoded = request.get("EncodingType") == "url"  # the client's own, so keys stay encoded
        self.given = request.get("MaxKeys")
        self.limit = FULL if self.given is None else min(self.given, FULL)
        self.unordered = str(request.get("Bucket")).endswith("--x-s3")
        self.base = {name: value for name, value in request.items()
                     if name != operation.start and name not in operation.following.values()}
        token = request.get(operation.token) if operation.token else None
        self.ours = read_token(token)
        self.foreign = token if self.ours is None else None
        start = request.get(operation.start) or None
        self.start = self.ours[0] if self.ours else start if not self.foreign else ""
        self.after_prefix = self.start if self.ours and self.ours[2] else None
        self.had_contents = self.start is not None
        self.tells_next = False  # v1: whether the server says NextMarker

    def first(self):
        """How the client asks the server."""
        own = {name: self.request[name] for name in
               (self.operation.start, *self.operation.following.values()) if name in self.request}
        if self.ours:
            own.pop(self.operation.token, None)
            own[self.operation.start] = self.start
        return {**self.base, **own}

    def seek(self, key):
        return {**self.base, self.operation.start: key}

    def place(self, request):
        """Where a request begins."""
        return [request.get(name) for name in (self.operation.start,
                                               *self.operation.following.values())]

    def read(self, response):
        """[(key, list, entry)] of a response, in the order of keys."""
        lists = [(name, "Key") for name in self.operation.contents] + [("CommonPrefixes", "Prefix")]
        encoded = self.encoded and response.get("EncodingType") == "url"
        self.tells_next = self.tells_next or "NextMarker" in response
        entries, filled = [], 0
        for name, field in lists:
            there = response.get(name)
            if there:
                filled += 1
                if name != "CommonPrefixes":
                    self.had_contents = True
                entries += [(_decode(one[field]) if encoded else one[field], name, one)
                            for one in there]
        if filled > 1 and not self.unordered:
            entries.sort(key=lambda one: one[0])
        if self.after_prefix is not None:
            entries = [one for one in entries
                       if one[1] != "CommonPrefixes" or one[0] != self.after_prefix]
        return entries

    def next_request(self, response, entries):
        """The request for what follows a response, or None: the server does not tell. v1 goes on
        from the last key: radosgw's markers are not encoded, and botocore decodes them."""
        operation = self.operation
        response = self.repaired(response, entries)
        following = {ours: response[theirs] for theirs, ours in operation.following.items()
                     if response.get(theirs) is not None}
        if operation.token is None and not operation.versions and entries and not self.unordered:
            following = {operation.start: entries[-1][0]}
        elif self.encoded and response.get("EncodingType") == "url" and not operation.token:
            following = {name: _decode(value) if name == operation.start else value
                         for name, value in following.items()}
        more = {} if self.operation.versions or self.unordered else {"MaxKeys": FULL}
        return {**self.base, **more, **following} if following else None

    def repaired(self, response, entries):
        """A response of versions, whose NextKeyMarker is what a last key like "a+b" was decoded to,
        has the key itself."""
        marker = response.get("NextKeyMarker")
        if self.operation.versions and marker is not None and entries:
            key = entries[-1][0]
            if marker != key and marker == _decode(key) and not self.encoded:
                return {**response, "NextKeyMarker": key}
        return response

    def answer(self, response, kept, truncated, asked_for):
        """A response that has `kept` of the entries; asked_for: what the server said of MaxKeys."""
        page, operation = dict(response), self.operation
        for name in (*operation.contents, "CommonPrefixes"):
            shown = [entry for _, of, entry in kept if of == name]
            if shown or (name == operation.contents[0] and self.had_contents):
                page[name] = shown
            else:
                page.pop(name, None)
        if "KeyCount" in page:
            page["KeyCount"] = len(kept)
        page["IsTruncated"] = truncated
        if asked_for is not None:
            page["MaxKeys"] = asked_for
        for name in (operation.start, *operation.following.values()):
            if name in self.request:
                page[name] = self.request[name]
                if self.encoded and name == operation.start:
                    page[name] = _encode(page[name])
            elif name in page and not operation.token:
                page[name] = ""  # so it is of a request without
            else:
                page.pop(name, None)
        if not truncated:
            for name in operation.following:
                page.pop(name, None)
        return page


def _decode(text):
    import urllib.parse

    return urllib.parse.unquote_plus(text)


def _encode(text):
    import urllib.parse

    return urllib.parse.quote(text)


def _may_be_divided(share, operation, request):
    limit = request.get("MaxKeys")
    texts = [request.get(name) for name in ("Prefix", "Delimiter", operation.start)]
    return ((limit is None or (isinstance(limit, int) and limit > 0))
            and all(text is None or isinstance(text, str) for text in texts)
            and share.divides(request.get("Prefix"), request.get("Delimiter")))


def page(name, request, share, account=None):
    """The page that a call of the operation `name` gets. account: a function for share.begin(); it
    may return an awaitable."""
    operation = OPERATIONS[name]
    if not _may_be_divided(share, operation, request):
        token = read_token(request.get(operation.token)) if operation.token else None
        if token:  # of a listing that was divided: with MaxKeys=0, say
            request = _Listing(operation, request).first()
        return (yield Send(request))
    listing = _Listing(operation, request)
    environment = None
    if account is not None and share.needs_listing():
        environment = yield Run(account)

    def begin():
        try:
            return share.begin(listing.prefix, listing.delimiter, listing.start,
                               listing.ours[1] if listing.ours else None, operation.versions,
                               environment)
        except ShareError as error:
            return error

    own = yield Run(begin)
    if isinstance(own, ShareError):
        yield Send({**listing.first(), "MaxKeys": 1})  # if the server has an error, it comes first
        raise own
    return (yield from _divided(listing, own))


def _divided(listing, own):
    """The page of a listing that a dataset is in."""
    ordered = not listing.unordered
    after = own.after if ordered else None
    last = own.last if ordered else None
    head, asked_for, sent = [], None, listing.first()
    seeks = after is not None and not listing.foreign and (
        listing.start is None or listing.start < after) and not (
            listing.operation.versions and listing.start == listing.prefix)
    alone = own.empty and ordered and not listing.operation.versions
    if alone or seeks:
        listing.had_contents = True
    if alone or (seeks and listing.prefix and listing.prefix <= after and (
            listing.start is None or listing.start < listing.prefix)):
        response = yield Send({**sent, "MaxKeys": 1})
        entries = listing.read(response)
        head = [one for one in entries if one[0] == listing.prefix]
        if alone or not response.get("IsTruncated") or (
                head and listing.limit == 1 and not listing.operation.versions):
            more = bool(response.get("IsTruncated")) and not alone
            if not more:
                flags = own.owned([key for key, _, _ in entries])
                head = [one for one, flag in zip(entries, flags) if flag]
                own.end()
            answer = listing.answer(response, head, more, listing.given or DEFAULT)
            return _with_next(listing, own, answer, response, entries, head, False) if more else answer
        if head and listing.operation.versions:  # it may have more of them: read on from there
            head, seeks = [], False
    if seeks:
        sent = listing.seek(after)
    while True:
        response = yield Send(sent)
        if asked_for is None:
            asked_for = response.get("MaxKeys")
        entries = listing.read(response)
        kept = _keep(listing, own, entries)
        truncated = bool(response.get("IsTruncated"))
        if last is not None and entries and (
                entries[-1][0] > last or (entries[-1][0] == last and not listing.operation.versions)):
            truncated = False
        if kept or head or not truncated:
            break
        following = listing.next_request(response, entries)
        if after is not None and entries and entries[-1][0] < after:
            following = listing.seek(after)
        if following is None or listing.place(following) == listing.place(sent):
            break  # the client sees what the server said
        sent = following
    kept = head + kept
    cut = len(kept) > listing.limit and not listing.operation.versions and ordered
    if cut:
        kept = kept[:listing.limit]
        truncated = True
    if not truncated:
        own.end()
    answer = listing.answer(response, kept, truncated, asked_for)
    return _with_next(listing, own, answer, response, entries, kept, cut) if truncated else answer


def _keep(listing, own, entries):
    """The entries of a page that this rank sees."""
    keys = [key for key, of, _ in entries if of != "CommonPrefixes"]
    if len(keys) == len(entries):
        flags = own.owned(keys)
        return [one for one, flag in zip(entries, flags) if flag]
    flags = iter(own.owned(keys))
    return [one for one in entries if one[1] == "CommonPrefixes" or next(flags)]


def _with_next(listing, own, answer, response, entries, kept, cut):
    """Say in a truncated page where it goes on."""
    operation = listing.operation
    if operation.versions and answer.get("NextKeyMarker") is not None:
        answer["NextKeyMarker"] = listing.repaired(response, entries)["NextKeyMarker"]
    at = kept[-1] if cut else entries[-1] if entries else None
    if operation.token:
        if at is not None and not listing.unordered and response.get("NextContinuationToken"):
            answer["NextContinuationToken"] = write_token(at[0], own.epoch, at[1] == "CommonPrefixes")
        elif cut:
            answer["NextContinuationToken"] = write_token(at[0], own.epoch, at[1] == "CommonPrefixes")
    elif at is not None and not operation.versions and (
            "NextMarker" in response or (cut and (listing.delimiter or listing.tells_next))):
        answer["NextMarker"] = at[2]["Prefix" if at[1] == "CommonPrefixes" else "Key"]
    return answer
