"""An S3 server (scripts/s3-server.sh) that lasts as long as a test, and clients of it."""
import contextlib
import os
import shutil
import subprocess

from tests.harness import paths

SCRIPT = os.path.join(paths.REPO, "scripts", "s3-server.sh")


@contextlib.contextmanager
def server(state, access, secret):
    """with server(FOLDER, access, secret) as endpoint: ...; the folder is made, and removed."""
    try:
        started = subprocess.run([SCRIPT, "start", state], stdout=subprocess.PIPE, timeout=3600, check=True,
                                 env={**os.environ, "ACCESS": access, "SECRET": secret})
        yield started.stdout.decode().strip()
    finally:
        subprocess.run([SCRIPT, "stop", state], timeout=600, check=False)
        shutil.rmtree(state, ignore_errors=True)


def client(endpoint, access, secret):
    """boto3's, with the bucket in the path."""
    import boto3  # pylint: disable=import-outside-toplevel
    import botocore.config  # pylint: disable=import-outside-toplevel
    return boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=access, aws_secret_access_key=secret,
                        region_name="us-east-1", config=botocore.config.Config(
                            s3={"addressing_style": "path"}, connect_timeout=600, read_timeout=600, proxies={}))


def fill(made, state, bucket, keys):
    """Many keys in a bucket, the first of them a real object: see tests/s3/fill.py."""
    made.put_object(Bucket=bucket, Key=keys[0], Body=b"")
    subprocess.run(["/usr/bin/python3", paths.source("s3", "fill.py"), os.path.join(state, "ceph.conf"), bucket],
                   input=b"".join(key.encode() + b"\0" for key in keys), timeout=600, check=True)
