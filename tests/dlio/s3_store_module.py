"""A storage class for buckets in the shape of the one that MLCommons' DLIO has in its module
dlio_benchmark.storage.obj_store_lib, with boto3 in place of s3dlio, s3torchconnector and minio.

PyPI's DLIO, which the tests run, has no such module: s3_native.py puts this one there.
"""
import os
import types
import urllib.parse

from dlio_benchmark.common.enumerations import NamespaceType
from dlio_benchmark.storage.s3_storage import S3Storage
from dlio_benchmark.storage.s3_torch_storage import Client
from dlio_benchmark.storage.storage_handler import Namespace


class ObjStoreLibStorage(S3Storage):
    """Objects whose keys are paths, or whole URIs if use_full_object_uri says so."""

    def __init__(self, namespace, framework=None):
        super().__init__(framework)
        self.namespace = Namespace(namespace, NamespaceType.FLAT)
        options = self._args.storage_options
        self.storage_library, self.uri_scheme = options["storage_library"], "s3"
        self.endpoint, self.region = options["endpoint_url"], options["region"]
        self.access_key_id = options["access_key_id"]
        self.secret_access_key = options["secret_access_key"]
        self.use_full_object_uri = options.get("use_full_object_uri") == "true"
        os.environ["AWS_ACCESS_KEY_ID"] = self.access_key_id
        os.environ["AWS_SECRET_ACCESS_KEY"] = self.secret_access_key
        config = types.SimpleNamespace(force_path_style=True, max_attempts=1, profile=None)
        self.s3_client = Client(self.region, self.endpoint, config)
        self.s3_client.s3client_config = config

    def get_uri(self, id):
        if "://" in str(id):
            return id
        return "s3://%s/" % self.namespace.name + (id.lstrip("/") if id.startswith("/") else id)

    def get_node(self, id=""):
        return super().get_node(self.get_uri(id))

    def walk_node(self, id, use_pattern=False):
        parts = urllib.parse.urlparse(self.get_uri(id))
        if parts.scheme != "s3" or use_pattern:
            raise ValueError(f"{id} has no names of that kind")
        return self.list_objects(parts.netloc, parts.path.lstrip("/"))

    def list_objects(self, bucket_name, prefix=None):
        names, prefix = [], f"{prefix}/"
        if self.use_full_object_uri and self.storage_library != "s3dlio":
            prefix = f"s3://{bucket_name}/{prefix}"
        try:
            names.extend(key[len(prefix):] for key in self.s3_client.keys(bucket_name, prefix))
        except Exception as error:  # pylint: disable=broad-except
            print(f"cannot list {bucket_name}: {error}")
        return names
