# SPDX-License-Identifier: MIT
"""clients: what the clients have in common.

What is the same for a client that blocks and one with an event loop is written as a coroutine.
finish() runs it for the one that blocks, whose answers are there when they are asked for.
"""
import contextlib
import functools
import inspect
import os

from . import share
from ..native import WARN, native
from .share import ShareError


class Client:
    """How a client of buckets is asked, and answered: error(line) makes its own kind of error,
    endpoint(client) tells where its server is (None: the provider's own), account(client) with
    which variables shardctl asks that one (as variables() returns them)."""

    def __init__(self, scheme, error, endpoint, account=None):
        self.scheme, self._error, self._endpoint, self._account = scheme, error, endpoint, account

    def find(self, client, bucket):
        """The share.Share of a bucket, or None."""
        return share.find(self.scheme, bucket, self._endpoint(client), lambda: self._account(client))

    def begin(self, client, bucket, prefix, delimiter="", start=None, every_version=False):
        """The share.KeyFilter of a list that the program has asked for, None where it is none of ours;
        ShareError. It may take a while."""
        mine = self.find(client, bucket)
        return mine and mine.begin(prefix, delimiter, start, every_version=every_version)

    @contextlib.contextmanager
    def errors(self, *more):
        """Within the block a ShareError becomes the client's own kind, error(line, *more), with its
        errno."""
        try:
            yield
        except ShareError as error:
            made = self._error(str(error), *more)
            try:
                object.__setattr__(made, "errno", error.errno)  # (minio's is a frozen dataclass)
            except (AttributeError, TypeError):
                pass  # a class in C or Rust takes none
            raise made from None

    def count(self, client, bucket, key):
        """For SHARD_STATS: the client has opened an object."""
        share.count_opened(self.scheme, bucket, key, self._endpoint(client))


def is_refusal(status):
    """Whether an answer of HTTP says that the server will not list (404, 403): so it does without libshard."""
    return isinstance(status, int) and 400 <= status < 500 and status not in (408, 429)


def finish(coroutine):
    """What a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise ShareError("a client that blocks is waiting for an answer: its kind is not known to libshard")


async def awaited(answer):
    """An answer, or what it is once it is there."""
    return await answer if inspect.isawaitable(answer) else answer


async def begin_or_ask(begin, probe, is_refused):
    """What begin() gives; but if there is no listing, probe() asks the server as the program does. If that is
    refused (is_refused(error)), it is the client's own error, as without libshard."""
    try:
        return await awaited(begin())
    except ShareError as error:
        try:
            if share.is_set_up():
                await awaited(probe())
        except Exception as answer:  # pylint: disable=broad-except
            if is_refused(answer):
                raise
        raise error from None


def within(method, block):
    """The method, or coroutine, run within block(), a context."""
    if inspect.iscoroutinefunction(method):
        @functools.wraps(method)
        async def inside(*args, **kwargs):
            with block():
                return await method(*args, **kwargs)
    else:
        async def later(answer):
            with block():
                return await answer

        @functools.wraps(method)
        def inside(*args, **kwargs):
            with block():
                answer = method(*args, **kwargs)
            return later(answer) if inspect.isawaitable(answer) else answer
    return inside


def counting(method, count):
    """For SHARD_STATS: a method, or coroutine, that gets objects. count() has its parameters, and is
    called when it has answered."""
    if not native().stats_on():
        return method

    def note(*args, **kwargs):
        try:
            count(*args, **kwargs)
        except Exception as error:  # pylint: disable=broad-except
            native().log(WARN, "SHARD_STATS misses an object: %s" % error)

    async def later(answer, args, kwargs):
        answer = await answer
        note(*args, **kwargs)
        return answer

    def get(*args, **kwargs):
        answer = method(*args, **kwargs)
        if inspect.isawaitable(answer):
            return later(answer, args, kwargs)
        note(*args, **kwargs)
        return answer

    async def get_async(*args, **kwargs):
        return await get(*args, **kwargs)

    return functools.wraps(method)(get_async if inspect.iscoroutinefunction(method) else get)


def split_url(url):
    """(bucket, key) of s3://bucket/key; (None, None) if it is none."""
    scheme, mark, rest = str(url).partition("://")
    if not mark or scheme != "s3":
        return None, None
    bucket, _, key = rest.partition("/")
    return bucket, key


def endpoint_of_environment():
    """The endpoint of a client that was given none, as AWS's tools find it; None: AWS's own."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def variables(endpoint, region=None, keys=None, profile=None, addressing=None, verify=None):
    """Variables for shardctl, which asks the server that a client asks; they go into its environment
    and nowhere else. "NAME" takes a variable away: nothing else may say where the bucket is.

    endpoint, region  None: what the environment says
    keys              (access, secret, token or None); (): none, requests are not signed; None: what the
                      environment or the profile says
    addressing        "path", "virtual", or None: shardctl decides
    verify            the server's certificate: by the file of CAs that is named, False: any will do;
                      else as the environment says
    """
    values, gone = {"SHARD_LOG": "warn"}, []  # only the reason of a failure is wanted
    if endpoint:
        values["AWS_ENDPOINT_URL_S3"] = endpoint
        values["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "false"  # whatever a profile says
        gone.append("AWS_ENDPOINT_URL")
    if region:
        values["AWS_REGION"] = region
        gone.append("AWS_DEFAULT_REGION")
    if keys == ():
        values["LIBSHARD_NO_SIGN_REQUEST"] = "1"
        gone += ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
                 "AWS_DEFAULT_PROFILE"]
    elif keys:
        values["AWS_ACCESS_KEY_ID"], values["AWS_SECRET_ACCESS_KEY"] = keys[:2]
        if keys[2]:
            values["AWS_SESSION_TOKEN"] = keys[2]
        else:
            gone.append("AWS_SESSION_TOKEN")
        gone += ["AWS_PROFILE", "AWS_DEFAULT_PROFILE"]
    elif profile:
        values["AWS_PROFILE"] = profile
        gone += ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]
    if addressing:
        values["SHARD_S3_ADDRESSING"] = addressing
    if verify is False:
        values["LIBSHARD_NO_VERIFY_SSL"] = "1"
    elif isinstance(verify, str):
        values["AWS_CA_BUNDLE"] = verify
    return ["%s=%s" % pair for pair in values.items()] + gone
