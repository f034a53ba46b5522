# SPDX-License-Identifier: MIT
"""botocore: the listing methods of S3 clients, as botocore makes them.

boto3's clients, paginators and resources, aiobotocore's clients and s3fs call these methods. They
are wrapped where botocore lets one change a client's class: in the event creating-client-class.s3,
to which each new session gets a handler (botocore.register_initializer; before 1.27, where there is
none, BUILTIN_HANDLERS).
"""
import contextvars
import functools
import inspect
import os
import sys

from . import bodies, pages, seams, share

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
    for name in pages.OPERATIONS:
        if name in attributes:
            attributes[name] = _listing(name, attributes[name], is_cli)
    if "get_object" in attributes:
        attributes["get_object"] = seams.counting(attributes["get_object"], _count)


# ---- listing ------------------------------------------------------------------------------------


def _listing(name, method, is_cli):
    whole = seams.within(method, lambda: share.held(_cut, None))

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
        with BOTO.errors(name):
            return page if is_async else seams.finish(page)

    return listing


_cut = contextvars.ContextVar("libshard_cut", default=None)  # the bodies.Cut of the request that is sent


def _before_parse(response_dict, **_):
    """What a botocore calls, but an old one, when an answer to a listing has come."""
    cut = _cut.get()
    if cut is not None and response_dict["status_code"] == 200 and isinstance(response_dict["body"], bytes):
        response_dict["body"] = cut.body(response_dict["body"])


CODE = "LibshardError"


def _error(line, name):
    """botocore's own kind of error, with our line."""
    import botocore.exceptions

    operation = "".join(word.capitalize() for word in name.split("_"))
    return botocore.exceptions.ClientError(
        {"Error": {"Code": CODE, "Message": "libshard: %s" % line},
         "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {}, "RetryAttempts": 0}}, operation)


BOTO = seams.Client("s3", _error, lambda client: client.meta.endpoint_url)


def is_ours(error):
    """Whether it is an error that _error() has made."""
    response = getattr(error, "response", None)
    return isinstance(response, dict) and response.get("Error", {}).get("Code") == CODE


class _Calls:
    """What pages.page() asks of a client, by the client's own method."""

    def __init__(self, client, method, is_async, request):
        self.client, self._method, self._is_async, self._request = client, method, is_async, request

    async def send(self, request, own=None):
        is_interval = own is not None and (own.after is not None or own.last is not None)  # most is the rank's
        cut = bodies.Cut(own) if own and not is_interval and "EncodingType" not in request else None
        with share.held(_cut, cut):
            response = await seams.awaited(self._method(self.client, **request))
        if cut and not cut.is_as_read(response):
            return await self.send(request)
        return response

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
        if credentials is None or _is_unsigned(client.meta.config.signature_version):
            return _environment(client, None, self._request)
        return _environment(client, await seams.awaited(credentials.get_frozen_credentials()), self._request)

    @staticmethod
    def is_refused(error):
        """Whether the server has said that it will not list (404, 403): so it does without libshard."""
        import botocore.exceptions

        if not isinstance(error, botocore.exceptions.ClientError):
            return False
        return seams.is_refusal(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode"))


async def _page(calls, name, request, of):
    ahead = calls.client.__dict__.setdefault("_libshard_ahead", pages.Ahead())
    with BOTO.errors(name):
        return await pages.page(name, request, of, calls, ahead)


# ---- the account --------------------------------------------------------------------------------


def _is_unsigned(version):
    import botocore

    return version is getattr(botocore, "UNSIGNED", object())


def _environment(client, signing, request):
    """signing: the client's frozen credentials, None for none; request: what the call says."""
    given = (signing.access_key, signing.secret_key, signing.token) if signing else ()
    style = (getattr(client.meta.config, "s3", None) or {}).get("addressing_style")
    if style not in ("path", "virtual"):  # as botocore does with another endpoint
        style = None if share.is_aws(client.meta.endpoint_url) else "path"
    region = client.meta.region_name
    verify = getattr(getattr(getattr(client, "_endpoint", None), "http_session", None), "_verify", None)
    made = seams.variables(client.meta.endpoint_url, "us-east-1" if region == "aws-global" else region or "us-east-1",
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
