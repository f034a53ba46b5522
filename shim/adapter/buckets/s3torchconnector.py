# SPDX-License-Identifier: MIT
"""s3torchconnector: Amazon's S3 connector for PyTorch.

All lists are streams of pages of its Rust client. Two functions make them: the client's list_objects(),
and ListObjectStream._from_state(), for a list that was pickled. Both give a Stream of ours instead, whose
filter depends on nothing that a stream keeps: a list can be pickled by its attributes, as a dataset does.
"""
from ..patching import stands_for
from .clients import Client, counting, endpoint_of_environment, variables


def _error(line):
    from s3torchconnectorclient import S3Exception

    return S3Exception(line)


def _endpoint(client):
    """Of the Rust client, or of an S3Client, which a stream is made anew with."""
    return getattr(client, "_endpoint", None) or getattr(client, "endpoint", None) or endpoint_of_environment()


def _account(client):
    """The client signs with the profile that it was given, or with what it finds where shardctl
    does."""
    config = getattr(client, "_s3client_config", client)
    return variables(_endpoint(client), client.region, () if getattr(config, "unsigned", False) else None,
                     profile=getattr(config, "profile", None),
                     addressing="path" if getattr(config, "force_path_style", False) else None)


CONNECTOR = Client("s3", _error, _endpoint, _account)


class Page:
    """A ListObjectResult of which objects were left out: that of the Rust client cannot be changed."""

    def __init__(self, objects, prefixes):
        self.object_info, self.common_prefixes = objects, prefixes


class Stream:
    """A ListObjectStream with this rank's objects only."""

    def __init__(self, stream, found):
        self._stream, self._found, self._behind, self._is_past = stream, found, None, False

    @property
    def complete(self):
        """Whether there is no further page."""
        return self._is_past or self._stream.complete

    def __iter__(self):
        return self

    def __next__(self):
        with CONNECTOR.errors():
            page = None if self._is_past else next(self._stream, None)
            if page is None:
                self._found.end()
                raise StopIteration
            keys = [one.key for one in page.object_info]
            self._is_past = self._found.is_past(keys, self._behind)
            self._behind = keys[-1] if keys else self._behind
            return Page(self._found.kept(page.object_info, lambda one: one.key), page.common_prefixes)

    def __getattr__(self, name):
        if name in ("_stream", "_found"):  # a copy that is being made
            raise AttributeError(name)
        return getattr(self._stream, name)


def patch(module):
    """Patch the Rust client, s3torchconnectorclient._mountpoint_s3_client."""
    client, stream = module.MountpointS3Client, module.ListObjectStream
    list_original, state_original = client.list_objects, stream._from_state

    def divided(rust, make, bucket, prefix, delimiter, start):
        with CONNECTOR.errors():
            found = CONNECTOR.begin(rust, bucket, prefix, delimiter, start)
            return make() if found is None else Stream(make(), found)

    @stands_for(client)
    def list_objects(self, bucket, prefix="", delimiter="", *args, **kwargs):
        return divided(self, lambda: list_original(self, bucket, prefix, delimiter, *args, **kwargs), bucket, prefix,
                       delimiter, None)

    def _from_state(client, bucket, prefix, delimiter, *args, **kwargs):
        return divided(client, lambda: state_original(client, bucket, prefix, delimiter, *args, **kwargs), bucket,
                       prefix, delimiter, "later")

    stream._from_state = staticmethod(_from_state)


def patch_client(module):
    """Count for SHARD_STATS what S3Client gets."""
    module.S3Client.get_object = counting(
        module.S3Client.get_object, lambda client, bucket, key, *_, **__: CONNECTOR.count(client, bucket, key))
