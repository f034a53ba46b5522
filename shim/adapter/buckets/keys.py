# SPDX-License-Identifier: MIT
"""keys: what the clients have in common that are not botocore's."""
import contextlib
import os

from . import share
from .share import ShareError


def begin(scheme, bucket, prefix, endpoint, account, delimiter="", start=None, every_version=False):
    """The share.Pass of a list that the program has asked a client for, None where it is none of
    ours; ShareError."""
    mine = share.find(scheme, bucket, endpoint, account)
    if mine is None:
        return None
    return mine.begin(prefix, delimiter, start, every_version=every_version)


@contextlib.contextmanager
def errors(make):
    """Within the block a ShareError becomes what make(line) returns, the client's own kind."""
    try:
        yield
    except ShareError as error:
        raise share.raised(make, error) from None


def kept(items, flags):
    """The items with a flag."""
    return [item for item, flag in zip(items, flags) if flag]


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
        gone += ["AWS_ENDPOINT_URL", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"]
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
