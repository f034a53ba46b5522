"""A storage class for buckets in the shape of the one that argonne-lcf's DLIO has in its module
dlio_benchmark.storage.s3_torch_storage, with boto3 in place of s3torchconnector.

PyPI's DLIO, which the tests run, has no such module: s3_native.py puts this one there.
"""
import os
import types
import urllib.parse

import boto3
import botocore.config

from dlio_benchmark.common.enumerations import NamespaceType
from dlio_benchmark.storage.s3_storage import S3Storage
from dlio_benchmark.storage.storage_handler import Namespace


class Client:
    """What is used of s3torchconnector's client: keys come from the environment."""

    def __init__(self, region, endpoint, config):
        self._made = None
        self._arguments = {
            "service_name": "s3", "region_name": region, "endpoint_url": endpoint,
            "config": botocore.config.Config(
                retries={"max_attempts": config.max_attempts},
                s3={"addressing_style": "path" if config.force_path_style else "auto"})}

    @property
    def made(self):
        """boto3's client, at first use."""
        if self._made is None:
            # Named, for boto3 keeps those that it has found once.
            self._made = boto3.client(aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
                                      aws_secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"], **self._arguments)
        return self._made

    def keys(self, bucket, prefix):
        """All keys below a prefix."""
        for page in self.made.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for entry in page.get("Contents", ()):
                yield entry["Key"]

    def get(self, bucket, key):
        """An object."""
        return self.made.get_object(Bucket=bucket, Key=key)["Body"].read()


class S3PyTorchConnectorStorage(S3Storage):
    """Objects whose keys are whole URIs."""

    def __init__(self, namespace, framework=None):
        super().__init__(framework)
        self.namespace = Namespace(namespace, NamespaceType.FLAT)
        options = self._args.storage_options
        self.endpoint, self.region = options.get("endpoint_url"), options.get("region")
        self.access_key_id = options.get("access_key_id")
        self.secret_access_key = options.get("secret_access_key")
        os.environ["AWS_ACCESS_KEY_ID"] = self.access_key_id
        os.environ["AWS_SECRET_ACCESS_KEY"] = self.secret_access_key
        self.s3_client_config = types.SimpleNamespace(
            force_path_style=options.get("s3_force_path_style") == "true", max_attempts=1)
        self.s3_client = Client(self.region, self.endpoint, self.s3_client_config)

    def get_uri(self, id):
        return id

    def get_node(self, id=""):
        return super().get_node(self.get_uri(id))

    def walk_node(self, id, use_pattern=False):
        uri = urllib.parse.urlparse(id)
        if uri.scheme != "s3" or use_pattern:
            raise ValueError(f"{id} has no names of that kind")
        return self.list_objects(uri.netloc, uri.path.strip("/"))

    def list_objects(self, bucket_name, prefix=None):
        names, prefix = [], f"s3://{bucket_name}/{prefix}/"
        try:
            names.extend(key[len(prefix):] for key in self.s3_client.keys(bucket_name, prefix))
        except Exception as error:  # pylint: disable=broad-except
            print(f"cannot list {bucket_name}: {error}")
        return names

    def get_data(self, id, data, offset=None, length=None):
        return self.s3_client.get(urllib.parse.urlparse(id).netloc, id)
