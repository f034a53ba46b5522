# SPDX-License-Identifier: MIT
"""google_storage: the iterator of google-cloud-storage's Client.list_blobs() asks for pages by its api_request."""
import os

from ..patching import stands_for
from .clients import Client, awaited, begin_or_ask, counting, finish, is_refusal, variables
from .share import ShareError


def account(endpoint):
    """Variables for shardctl, which lists by the XML API of the same endpoint: by HMAC keys."""
    if not any(map(os.environ.get, ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "SHARD_LISTING"))):
        raise ShareError("only SHARD_STRATEGY=hash without SHARD_SEED divides gs:// without a listing: set "
                         "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to HMAC keys, or SHARD_LISTING to a listing")
    return variables(endpoint)


def _error(line):
    from google.api_core.exceptions import FailedPrecondition

    return FailedPrecondition(line)


STORAGE = Client("gs", _error, lambda client: client._connection.API_BASE_URL,
                 lambda client: account(client._connection.API_BASE_URL))


async def page(found, ask):
    """A page without other ranks'. found() returns the share.KeyFilter, ask(more) the server's page; both can be awaited."""
    found = await begin_or_ask(found, lambda: ask({"maxResults": 1}), lambda error: isinstance(
        error, FileNotFoundError) or is_refusal(getattr(error, "code", None)) or str(error)[:9] == "Forbidden")
    got = await awaited(ask({}))
    if found is not None:
        items = got.get("items", ())
        if not all("name" in item for item in items):
            raise ShareError("the list has no names: if you pass `fields`, let it have items(name)")
        got["items"] = found.kept(items, lambda item: item["name"])
        if not got.get("nextPageToken"):
            found.end()
    return got


def patch(module):
    """Patch google.cloud.storage.client."""
    original = module.Client.list_blobs

    @stands_for(module.Client)
    def list_blobs(self, *args, **kwargs):
        iterator = original(self, *args, **kwargs)
        request, bucket = iterator.api_request, iterator.bucket.name

        def divided(query_params=None, **more):
            asked = query_params or {}
            start = asked.get("pageToken") or asked.get("startOffset")
            with STORAGE.errors():
                return finish(page(lambda: STORAGE.begin(
                    self, bucket, asked.get("prefix"), asked.get("delimiter"), start, "versions" in asked or "softDeleted" in asked),
                                   lambda extra: request(query_params={**asked, **extra}, **more)))

        iterator.api_request = divided
        return iterator


def patch_blob(module):
    """Patch google.cloud.storage.blob, for SHARD_STATS."""
    module.Blob._prep_and_do_download = counting(module.Blob._prep_and_do_download, lambda blob, *_, **asked: (
        asked.get("start") or STORAGE.count(blob.client, blob.bucket.name, blob.name)))
