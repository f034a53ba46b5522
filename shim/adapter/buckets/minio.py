# SPDX-License-Identifier: MIT
"""minio: MinIO's Python client, 7.0 and later.

Its lists of version 1 and 2, of versions, flat and by folders are all made by Minio._list_objects(), a
generator. Nobody outside sees its pages, so what it yields is divided, a server's page at a time.
"""
import inspect
import itertools
import ssl

from ..patching import stands_for
from . import share
from .clients import Client, begin_or_ask, counting, finish, is_refusal, variables

NEEDS = ("bucket_name", "prefix", "delimiter", "start_after")  # parameters of _list_objects()
PAGE = 1000  # objects of a server's page: how many are divided at a time


def _error(line, bucket):
    """S3Error, which programs catch; its parameters have had two orders."""
    from minio.error import S3Error

    return S3Error(code="PreconditionFailed", message=line, resource="/" + bucket, request_id=None,
                   host_id=None, response=None, bucket_name=bucket)


def _endpoint(client):
    url = getattr(client, "_base_url", None)
    if url is None:  # before 7.0
        return None
    return "%s://%s" % ("https" if url.is_https else "http", url.host)


def _account(client):
    """What the client signs with."""
    url, provider = client._base_url, client._provider
    keys = ()
    if provider is not None:
        signed = provider.retrieve()
        keys = signed.access_key, signed.secret_key, signed.session_token
    return variables(_endpoint(client), url.region, keys, verify=_verify(client) if url.is_https else None,
                     addressing=None if getattr(url, "virtual_style_flag", False) else "path")


def _verify(client):
    """How its pool of connections, urllib3's, verifies a certificate: as variables() takes it."""
    pool = getattr(getattr(client, "_http", None), "connection_pool_kw", {})
    return False if pool.get("cert_reqs") in ("CERT_NONE", ssl.CERT_NONE) else pool.get("ca_certs")


def _is_refused(error):
    return is_refusal(getattr(getattr(error, "response", None), "status", None))


MINIO = Client("s3", _error, _endpoint, _account)


def _key(item):
    """The key of what a list yields, None of a common prefix: the server tells no more than its
    name."""
    is_prefix = (item.last_modified is None and item.etag is None
                 and not getattr(item, "is_delete_marker", False))
    return None if is_prefix else item.object_name


def _divide(found, items, most, versions, behind):
    """The items that are this rank's, prefixes among them, in their order."""
    items = iter(items)
    while True:
        page = list(itertools.islice(items, most))
        yield from found.kept(page, _key)
        keys = [item.object_name for item in page]
        # (Of versions a page yields those that mark a deletion last.)
        if not page or (not versions and found.is_past(keys, behind)):
            return found.end()
        behind = keys[-1]


def patch(module):
    """Patch minio.api."""
    cls = module.Minio
    cls.get_object = counting(cls.get_object, _count)
    original = getattr(cls, "_list_objects", None)
    signature = inspect.signature(original) if original else None
    if signature is None or set(NEEDS).difference(signature.parameters):
        raise AttributeError("no Minio._list_objects() that libshard knows, as minio 7.0.0 to 7.2.20 have")

    @stands_for(cls)
    def _list_objects(self, *args, **kwargs):
        def asks(**more):  # the original writes into the parameters
            asked = dict(signature.bind(*(self, *args), **kwargs).arguments)
            extra = asked.get("extra_query_params")
            return {**asked, **({"extra_query_params": dict(extra)} if extra else {}), **more}

        asked = asks()
        bucket, start = asked["bucket_name"], asked.get("start_after") or ""
        with MINIO.errors(bucket):
            versions = bool(asked.get("include_version") or asked.get("version_id_marker"))
            found = finish(begin_or_ask(
                lambda: MINIO.begin(self, bucket, asked.get("prefix"), asked.get("delimiter"), start, versions),
                lambda: next(original(**asks(max_keys=1)), None), _is_refused))
            if found is None:
                yield from original(self, *args, **kwargs)
                return
            if found.after and start < found.after:
                start = asked["start_after"] = found.after
            yield from _divide(found, original(**asked), asked.get("max_keys") or PAGE, versions, start)


def _count(client, bucket_name, object_name, offset=0, length=0, *_, **__):
    """For SHARD_STATS. (fget_object() calls get_object().)"""
    if not (offset or length) or share.is_first_range(bucket_name, object_name, not offset):
        MINIO.count(client, bucket_name, object_name)
