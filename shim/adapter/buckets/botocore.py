# SPDX-License-Identifier: MIT
"""botocore: the listing methods of S3 clients, as botocore makes them.

boto3's clients, paginators and resources, aiobotocore's clients and s3fs call these methods. They
are wrapped where botocore lets one change a client's class: in the event creating-client-class.s3,
to which each new session gets a handler (botocore.register_initializer; before 1.27, where there is
none, BUILTIN_HANDLERS).
"""
import collections
import contextvars
import functools
import inspect
import os
import sys
import urllib.parse

import botocore.exceptions

from . import clients, page_xml, share
from .share import ShareError

EVENT = "creating-client-class.s3"


# ---- how botocore is entered --------------------------------------------------------------------


def patch(module):
    """Patch botocore."""
    if hasattr(module, "register_initializer"):
        module.register_initializer(_enter)


def _enter(session):
    session.register(EVENT, lambda class_attributes, **_: _wrap(
        class_attributes, lambda: getattr(session, "user_agent_name", "") == "aws-cli"))
    for operation in ("ListObjectsV2", "ListObjects"):
        # The star: so it is called before botocore's own of before-parse.s3.*, which parses the body, too.
        session.register("before-parse.*." + operation, _before_parse)


def patch_handlers(module):
    """Patch botocore.handlers, of a botocore without initializers."""
    if not hasattr(sys.modules["botocore"], "register_initializer"):
        module.BUILTIN_HANDLERS.append((EVENT, lambda class_attributes, **_: _wrap(
            class_attributes, lambda: "awscli.clidriver" in sys.modules)))


def _wrap(attributes, is_cli):
    """Wrap the methods of a client's class that is being made."""
    for name in OPERATIONS:
        if name in attributes:
            attributes[name] = _listing(name, attributes[name], is_cli)
    if "get_object" in attributes:
        attributes["get_object"] = clients.counting(attributes["get_object"], _count)


# ---- listing ------------------------------------------------------------------------------------

# A listing operation of S3's: the lists of keys in a page, and {of a page: of the request for the next one}.
Operation = collections.namedtuple("Operation", "contents following start", defaults=(None,))
PAGE = 1000  # keys that a server has in a page
OPERATIONS = {
    "list_objects_v2": Operation(("Contents",), {"NextContinuationToken": "ContinuationToken"}, "StartAfter"),
    "list_objects": Operation(("Contents",), {"NextMarker": "Marker"}, "Marker"),
    "list_object_versions": Operation(("Versions", "DeleteMarkers"), {
        "NextKeyMarker": "KeyMarker", "NextVersionIdMarker": "VersionIdMarker"}),
}


def _listing(name, method, is_cli):
    whole = clients.within(method, lambda: share.context_value(_cut, None))

    @functools.wraps(method)
    def listing(self, *args, **kwargs):
        bucket = kwargs.get("Bucket")
        if args or not isinstance(bucket, str):
            return whole(self, *args, **kwargs)
        of = BOTO.find(self, bucket)
        if of is None:
            return whole(self, **kwargs)
        if is_cli():
            # It would delete at the target, or overwrite, what the others' shares are.
            share.warn_once("the aws command lists s3://%s as a whole: SHARD_DATASET is not applied "
                            "to it, for 'sync --delete' from a share would delete the others' objects"
                            % bucket)
            return whole(self, **kwargs)
        is_async = (inspect.iscoroutinefunction(method)
                    or inspect.iscoroutinefunction(getattr(self, "_make_api_call", None))
                    or any("aiobotocore" in cls.__module__.split(".") for cls in type(self).__mro__))
        page = _page(_Calls(self, method, is_async, kwargs), name, kwargs, of)
        return page if is_async else clients.finish(page)

    return listing


_cut = contextvars.ContextVar("libshard_cut", default=None)  # the page_xml.Cut of the request that is sent


def _before_parse(response_dict, **_):
    """What botocore calls, since 1.35 of August 2024, when an answer to a listing has come."""
    cut = _cut.get()
    if cut is not None and response_dict["status_code"] == 200 and isinstance(response_dict["body"], bytes):
        response_dict["body"] = cut.body(response_dict["body"])


async def _page(calls, name, request, of):
    with BOTO.errors():
        return await _divided(calls, name, request, of)


async def _divided(calls, name, request, of):
    """The page that a call gets: the server's without entries of other ranks. While it is empty, and there
    is more, the server's next one."""
    operation = OPERATIONS[name]
    prefix, delimiter = request.get("Prefix") or "", request.get("Delimiter") or ""
    if not isinstance(prefix, str) or not isinstance(delimiter, str) or not of.divides(prefix, delimiter):
        page = await calls.send(request)
        if any(of.holds(entry["Key"]) for part in operation.contents for entry in page.get(part) or ()):
            raise ShareError("a handler of botocore's events has changed the request's Prefix: pass the Prefix in the "
                             "call itself, or set SHARD_VIEW=off")
        return page
    goes_on = [request.get(field) for field in {operation.start, *operation.following.values()} - {None}]
    behind, epoch = calls.left.take(operation, request)
    account = await calls.account() if of.needs_listing() else None
    own = await clients.begin_or_ask(
        lambda: calls.begin(lambda: of.begin(prefix, delimiter, any(goes_on), operation.start is None, account,
                                             epoch)),
        lambda: calls.send({**request, "MaxKeys": 1}), calls.is_refused)
    if own.after and operation.start and not request.get("ContinuationToken") and (
            (request.get(operation.start) or "") < own.after):
        request = {**request, operation.start: own.after}
    most = request.get("MaxKeys")
    grows, limit = isinstance(most, int) and most > 0, PAGE
    while True:
        cut = page_xml.Cut(own) if "EncodingType" not in request else None
        page = await calls.send(request, cut)
        if grows and request["MaxKeys"] != most and "MaxKeys" in page:
            page["MaxKeys"] = most
        more, last = _drop(page, operation, request, own, cut, behind)
        shown = sum(len(page.get(part) or ()) for part in (*operation.contents, "CommonPrefixes"))
        if grows and shown > most and request["MaxKeys"] > most:
            limit = request["MaxKeys"] // 2  # less and less, so it ends
            request = {**request, "MaxKeys": most}  # that page again: no token leads into it
        elif not page.get("IsTruncated"):
            own.end()
            return page
        elif shown or not more or all(request.get(field) == value for field, value in more.items()):
            if more:
                calls.left.put(operation, {**request, **more}, last, own.epoch)
            return page
        else:
            request, behind = {**request, **more}, last
            if grows:  # or a probe by MaxKeys=1 would pass others' keys one by one
                request["MaxKeys"] = max(most, min(2 * request["MaxKeys"], limit))


def _drop(page, operation, request, own, cut, behind):
    """Take other ranks' entries out of a page. What the request for the next page says (None: there is none), and the
    page's last key. behind: that of the page before, None: not known."""
    is_encoded = "EncodingType" in request and page.get("EncodingType") == "url"
    read = urllib.parse.unquote_plus if is_encoded else str
    ends, last, end = [], None, None
    for part in operation.contents:
        entries = page.pop(part, None) or []
        last = entries[-1]["Key"] if entries else last
        kept = own.kept(entries, lambda entry: read(entry["Key"]))
        if kept:
            page[part] = kept
        keys = [read(entry["Key"]) for entry in entries]
        if cut and cut.keys is not None:
            if len(kept) < len(entries):
                raise ShareError("botocore parses other keys than the page has: %r"
                                 % entries[0]["Key"])
            keys, last = cut.keys, cut.keys[-1]
        end = keys[-1] if keys else end
        ends.append(own.is_past(keys, behind if request.get("ContinuationToken") else request.get(operation.start)))
    own.kept(page.get("CommonPrefixes") or (), lambda _: None)
    if "KeyCount" in page:
        page["KeyCount"] = sum(len(page.get(part) or ()) for part in (*operation.contents, "CommonPrefixes"))
    if any(ends):
        page["IsTruncated"] = False
    if not page.get("IsTruncated"):
        for field in operation.following:
            page.pop(field, None)
        return None, end
    if operation.start == "Marker" and not page.get("NextMarker") and last is not None:
        page["NextMarker"] = last  # so the client need not go on from the last key that it is shown
    following = {ours: page[theirs] for theirs, ours in operation.following.items() if page.get(theirs) is not None}
    if operation.start == "Marker" and last is not None and not request.get("Delimiter"):
        following = {"Marker": read(last)}  # radosgw's NextMarker is not encoded, but botocore decodes it
    return following, end


SEVERAL = object()  # in place of an epoch


class OpenLists:
    """The lists of a client that have further pages: by the request for the next page, the last key of the page
    before, and the epoch. Later pages stay in the epoch in which their list was begun."""

    def __init__(self):
        self._found = {}

    @staticmethod
    def _place(operation, request):
        return tuple(request.get(field) for field in ("Bucket", "Prefix", *operation.following.values()))

    def put(self, operation, request, last, epoch):
        """A page was given; request: the one for the next page."""
        place = self._place(operation, request)
        if self._found.pop(place, (last, epoch))[1] != epoch:
            epoch = SEVERAL
        while len(self._found) >= 1000:
            self._found.pop(next(iter(self._found)), None)
        self._found[place] = last, epoch

    def take(self, operation, request):
        """(last key of the page before, epoch) of a page that is asked for; None: not known."""
        last, epoch = self._found.pop(self._place(operation, request), (None, None))
        if epoch is SEVERAL:
            raise ShareError("lists of two SHARD_EPOCHs go on with one token: read a list to its end before the next "
                             "epoch begins, or use a client for each")
        return last, epoch


class LibshardError(botocore.exceptions.BotoCoreError):
    """Why a listing cannot be divided: no ClientError, which s3fs makes an OSError of."""

    fmt = "libshard: {line}"


BOTO = clients.Client("s3", lambda line: LibshardError(line=line), lambda client: client.meta.endpoint_url)


class _Calls:
    """What _divided() asks of a client, by the client's own method."""

    def __init__(self, client, method, is_async, request):
        self.client, self._method, self._is_async, self._request = client, method, is_async, request
        self.left = client.__dict__.setdefault("_libshard_left", OpenLists())

    async def send(self, request, cut=None):
        """The server's page."""
        with share.context_value(_cut, cut):
            return await clients.awaited(self._method(self.client, **request))

    async def begin(self, function):
        """In a thread where there is an event loop."""
        if not self._is_async:
            return function()
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(None, function)

    async def account(self):
        """What shardctl's environment gets to list as this client does."""
        client = self.client
        credentials = getattr(getattr(client, "_request_signer", None), "_credentials", None)
        if credentials is None or (
                client.meta.config.signature_version is getattr(botocore, "UNSIGNED", object())):
            return _environment(client, None, self._request)
        return _environment(client, await clients.awaited(credentials.get_frozen_credentials()), self._request)

    @staticmethod
    def is_refused(error):
        """Whether the server has said that it will not list (404, 403): so it does without libshard."""
        return isinstance(error, botocore.exceptions.ClientError) and clients.is_refusal(
            error.response.get("ResponseMetadata", {}).get("HTTPStatusCode"))


# ---- the account --------------------------------------------------------------------------------


def _environment(client, signing, request):
    """signing: the client's frozen credentials, None for none; request: what the call says."""
    given = (signing.access_key, signing.secret_key, signing.token) if signing else ()
    style = (getattr(client.meta.config, "s3", None) or {}).get("addressing_style")
    if style not in ("path", "virtual"):  # as botocore does with another endpoint
        style = None if share.is_aws(client.meta.endpoint_url) else "path"
    region = client.meta.region_name
    verify = getattr(getattr(getattr(client, "_endpoint", None), "http_session", None), "_verify", None)
    made = clients.variables(client.meta.endpoint_url, "us-east-1" if region == "aws-global" else region or "us-east-1",
                          given if given and given[0] else (), addressing=style, verify=verify)
    for scheme, proxy in (getattr(client.meta.config, "proxies", None) or {}).items():
        made.append("%s_proxy=%s" % (scheme, proxy))
    for name, variable in ("RequestPayer", "AWS_REQUEST_PAYER"), ("ExpectedBucketOwner", "LIBSHARD_S3_OWNER"):
        if isinstance(request.get(name), str):
            made.append("%s=%s" % (variable, request[name]))
    if "SHARD_TIMEOUT" not in os.environ:
        made.append("SHARD_TIMEOUT=10")  # for a request: the client gives up soon, too
    return made


# ---- statistics ---------------------------------------------------------------------------------

def _is_open(request):
    """Whether a GET opens an object."""
    asked = request.get("Range")
    return not asked or share.is_first_range(
        request.get("Bucket"), request.get("Key"),
        str(asked).replace(" ", "").startswith("bytes=0-"))


def _count(client, *_, **request):
    bucket, key = request.get("Bucket"), request.get("Key")
    if isinstance(bucket, str) and isinstance(key, str) and _is_open(request):
        BOTO.count(client, bucket, key)
