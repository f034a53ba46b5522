# SPDX-License-Identifier: MIT
"""google_storage: google-cloud-storage, Google's own client.

The seam is documented: Client.list_blobs() returns an iterator of google.api_core, whose `api_request`
asks for each page; Bucket.list_blobs() calls it, too. The pages are divided there, so the iterator's
`pages`, `prefixes`, `next_page_token` and `max_results` are what they are for the server's pages.
"""
import os

from ..patching import stands_for
from .gcs_pages import answer
from .seams import TOKEN, Client, begin_or_ask, counting, finish, is_refusal, variables
from .share import ShareError


def account(endpoint):
    """Variables for shardctl, which lists by the XML API of the same endpoint: that takes HMAC keys,
    which are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."""
    if not any(map(os.environ.get, ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "SHARD_LISTING"))):
        raise ShareError("only SHARD_STRATEGY=hash without SHARD_SEED divides a bucket of Google Cloud "
                         "Storage without a listing; shardctl makes one with HMAC keys: set "
                         "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to them, or SHARD_LISTING to a "
                         "listing")
    return variables(endpoint)


def _error(line):
    from google.api_core import exceptions

    return exceptions.FailedPrecondition(line)


def _endpoint(client):
    """Where the client sends its requests."""
    return getattr(client, "api_endpoint", None) or client._connection.API_BASE_URL


STORAGE = Client("gs", _error, _endpoint, lambda client: account(_endpoint(client)))


def begin(of, client, bucket, asked):
    """The share.Pass of the list that a request asks for. of: the seams.Client."""
    return of.begin(client, bucket, asked.get("prefix"), asked.get("delimiter"),
                    asked.get("pageToken") or asked.get("startOffset"),
                    bool(asked.get("versions") or asked.get("softDeleted")))


def probe(asked):
    """The request by which the server tells whether it refuses what is asked for."""
    ours = str(asked.get("pageToken") or "").startswith(TOKEN)
    return {**{name: value for name, value in asked.items() if name != "pageToken" or not ours}, "maxResults": 1}


def is_refused(error):
    """Whether an error of Google's clients is the server's refusal. gcsfs has none of its own for 403."""
    forbidden = type(error) is OSError and str(error).startswith("Forbidden")
    return forbidden or isinstance(error, FileNotFoundError) or is_refusal(getattr(error, "code", None))


def _divide(client, iterator):
    """Let the iterator's pages pass through the filter."""
    api_request, bucket = iterator.api_request, iterator.bucket.name
    passes = []  # the one of this list, once it has begun

    def divided(method, path, query_params=None, **more):
        async def fetch(params):
            return api_request(method=method, path=path, query_params=params, **more)

        asked = query_params or {}
        with STORAGE.errors():
            if not passes:
                passes.append(finish(begin_or_ask(lambda: begin(STORAGE, client, bucket, asked),
                                                  lambda: fetch(probe(asked)), is_refused)))
            return finish(answer(passes[0], asked, fetch) if passes[0] else fetch(query_params))

    iterator.api_request = divided


def patch(module):
    """Patch google.cloud.storage.client."""
    original = module.Client.list_blobs

    @stands_for(module.Client)
    def list_blobs(self, *args, **kwargs):
        iterator = original(self, *args, **kwargs)
        if not callable(getattr(iterator, "api_request", None)):
            raise _error("the lists of this version of google-cloud-storage are not of a kind that "
                         "libshard knows: install google-cloud-storage 3.17.1")
        _divide(self, iterator)
        return iterator


def patch_blob(module):
    """Patch google.cloud.storage.blob, for SHARD_STATS: every way to download has a call of this."""
    def count(blob, *_, **asked):
        if not asked.get("start"):
            STORAGE.count(blob.client, blob.bucket.name, blob.name)

    if hasattr(module.Blob, "_prep_and_do_download"):
        module.Blob._prep_and_do_download = counting(module.Blob._prep_and_do_download, count)
