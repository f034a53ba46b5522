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
from .seams import Client, begin_or_ask, counting, finish, is_refusal, variables
from .share import ShareError

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


def _divide(found, items, most, versions):
    """The items that are this rank's, prefixes among them, in their order."""
    items = iter(items)
    while True:
        page = list(itertools.islice(items, most))
        if not page:
            return found.end()
        yield from found.kept(page, _key)
        # Of an empty share the first page may have the prefix's own key. (Of versions a page yields those
        # that mark a deletion last.)
        if not versions and (found.empty or found.is_past(page[-1].object_name)):
            return found.end()


def _list(original, client, found, asked, versions):
    """What is this rank's of a list; under `range` from its first key on."""
    most = asked.get("max_keys") or PAGE
    start, prefix = asked.get("start_after") or "", asked.get("prefix") or ""
    if found.after is not None and found.after > start and found.after >= prefix:  # (SeaweedFS: else nothing comes)
        if prefix and start < prefix:  # an object of that very name is shown to all
            first = original(client, **{**asked, "max_keys": 2})
            yield from itertools.takewhile(lambda item: item.object_name == prefix, first)
        asked["start_after"] = found.after
    yield from _divide(found, original(client, **asked), most, versions)


def patch(module):
    """Patch minio.api."""
    cls = module.Minio
    cls.get_object = counting(cls.get_object, _count)
    original = getattr(cls, "_list_objects", None)
    signature = inspect.signature(original) if original else None
    if signature is None or set(NEEDS).difference(signature.parameters):
        return _patch_stranger(cls)

    @stands_for(cls)
    def _list_objects(self, *args, **kwargs):
        asked = dict(signature.bind(self, *args, **kwargs).arguments)
        del asked["self"]
        bucket = asked["bucket_name"]
        with MINIO.errors(bucket):
            versions = bool(asked.get("include_version") or asked.get("version_id_marker"))

            def asks():  # the original writes into the parameters
                more = asked.get("extra_query_params")
                return {**asked, **({"extra_query_params": dict(more)} if more else {})}

            found = finish(begin_or_ask(
                lambda: MINIO.begin(self, bucket, asked.get("prefix"), asked.get("delimiter"), asked.get("start_after"),
                                    versions),
                lambda: next(original(self, **{**asks(), "max_keys": 1}), None), _is_refused))
            if found is None:
                yield from original(self, *args, **kwargs)
            else:
                yield from _list(original, self, found, asks(), versions)

    return None


def _count(client, bucket_name, object_name, offset=0, length=0, *_, **__):
    """For SHARD_STATS. (fget_object() calls get_object().)"""
    if not (offset or length) or share.is_first_range(bucket_name, object_name, not offset):
        MINIO.count(client, bucket_name, object_name)


def _patch_stranger(cls):
    """A minio without that function: lists of a dataset fail."""
    for name in ("list_objects", "list_objects_v2"):
        original = getattr(cls, name, None)
        if original is None:
            continue

        @stands_for(cls, name)
        def failing(self, bucket_name, *args, original=original, **kwargs):
            with MINIO.errors(bucket_name):
                if MINIO.find(self, bucket_name):
                    raise ShareError("this version of minio has no Minio._list_objects() that libshard "
                                     "knows: install minio 7.0.0 to 7.2.20, or list by another client")
                return original(self, bucket_name, *args, **kwargs)
