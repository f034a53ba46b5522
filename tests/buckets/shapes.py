"""What clients are given has the shape of what a server gives of a bucket that has the rank's keys only."""
import asyncio
import importlib
import os

from tests.buckets.child import needs
from tests.buckets.client import BOTO, boto, connector, connector_client, file_system, minio_client

KEYS = [f"d/{n:02d}" for n in range(10)] + [f"d/x{n}" for n in range(4)]
VALUES = ("IsTruncated", "KeyCount", "MaxKeys", "Delimiter", "EncodingType", "StartAfter", "Marker", "KeyMarker",
          "HTTPStatusCode", "RetryAttempts", "Prefix", "Key", "Size", "StorageClass", "NextMarker", "NextKeyMarker",
          "IsLatest")
ENDPOINT = os.environ.get("AWS_ENDPOINT_URL", "")


def shape(value, name=""):
    """Keys, types, and those values that do not differ between two buckets."""
    if isinstance(value, dict):
        return {key: shape(one, key) for key, one in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__] + [shape(one) for one in value]
    return value if name in VALUES else type(value).__name__


def questions():
    """[(operation, request)] of S3's API."""
    for name, start in (("list_objects_v2", "StartAfter"), ("list_objects", "Marker"),
                        ("list_object_versions", "KeyMarker")):
        for more in ({}, {"MaxKeys": 1}, {"MaxKeys": 3}, {"MaxKeys": 1000}, {"MaxKeys": 0}, {"Delimiter": "/"},
                     {"Delimiter": "/", "MaxKeys": 2}, {"Prefix": "d/0"}, {"Prefix": "d/03"}, {"Prefix": "d/03", "MaxKeys": 1},
                     {"Prefix": "d/none"}, {"Prefix": "d/none", "MaxKeys": 1}, {"Prefix": "d/zz"}, {"Prefix": "d/ "},
                     {start: "d/02"}, {start: "d/zz"}, {start: "d/zz", "MaxKeys": 1}, {start: "a"}, {"EncodingType": "url"},
                     {"Prefix": ""}, {"Prefix": "", "MaxKeys": 2}, {"Prefix": "none"}):
            # Of versions the server's pages are joined, not cut.
            if not (name.endswith("versions") and more.get("MaxKeys", 0) in (1, 2, 3)):
                yield name, {"Prefix": "d/", **more}
    yield "list_objects_v2", {"Prefix": "d/", "FetchOwner": True}


def pages(get, request):
    """All pages of a listing."""
    while True:
        page = get(**request)
        yield page
        if not page["IsTruncated"]:
            return
        following = {"NextContinuationToken": "ContinuationToken", "NextMarker": "Marker", "NextKeyMarker": "KeyMarker",
                     "NextVersionIdMarker": "VersionIdMarker"}
        more = {ours: page[theirs] for theirs, ours in following.items() if theirs in page}
        request = {**request, **(more or {"Marker": page["Contents"][-1]["Key"]})}


def probe(page):
    """How people ask whether there is a key."""
    return page["Contents"][0]["Key"] if "Contents" in page else None


async def aio(bucket, name, request):
    """A page of aiobotocore's."""
    async with importlib.import_module("aiobotocore.session").get_session().create_client(
            "s3", endpoint_url=ENDPOINT, region_name="us-east-1") as client:
        return await getattr(client, name)(Bucket=bucket, **request)


def outcome(function):
    """A result's shape, or the error's class."""
    try:
        return shape(function())
    except Exception as error:  # pylint: disable=broad-exception-caught
        return [type(error).__name__]


@needs(BOTO, "s3fs", "torch")
def answers(bucket):
    """{QUESTION: SHAPE} of all clients."""
    client, found = boto(), {}
    for name, request in questions():
        def all_pages(name=name, request=request):
            return list(pages(getattr(client, name), {"Bucket": bucket, **request}))
        found[f"{name} {request}"] = outcome(all_pages)
        if "MaxKeys" in request:
            continue
        operation = client.get_paginator(name)
        found[f"paginator of {name} {request}"] = outcome(lambda o=operation, q=request: [
            list(o.paginate(Bucket=bucket, **q)), o.paginate(Bucket=bucket, **q).build_full_result()])
        if name.endswith("v2") and "EncodingType" not in request:
            found[f"probe {request}"] = outcome(lambda q=request: probe(client.list_objects_v2(Bucket=bucket, **q)))
            if "StartAfter" in request or request["Prefix"] == "d/none":
                found[f"aiobotocore {request}"] = outcome(lambda n=name, q=request: asyncio.run(aio(bucket, n, q)))
    some, fs = boto("resource").Bucket(bucket).objects, file_system()
    for prefix in ("d/", "d/none", "d/03"):
        found[f"resource {prefix}"] = outcome(lambda p=prefix: [
            [one.key for one in some.filter(Prefix=p)], [one.key for one in some.filter(Prefix=p).limit(2)],
            [[one.key for one in page] for page in some.filter(Prefix=p).page_size(3).pages()]])
        path = f"{bucket}/{prefix}"
        for way in ("ls", "find", "glob", "walk", "du"):
            found[f"s3fs {way} {prefix}"] = outcome(lambda w=way, p=path, f=fs: (
                list(getattr(f, w)(p + "*" if w == "glob" else p)) if w != "du" else [f.du(p)]))
    minio, rust = minio_client(), connector_client()
    s3dlio = importlib.import_module("s3dlio")
    for prefix in ("d/", "d/none", "d/03"):
        found[f"minio {prefix}"] = outcome(lambda p=prefix: [
            sorted(vars(one)) for one in minio.list_objects(bucket, p, recursive=True)])
        found[f"s3torchconnector {prefix}"] = outcome(lambda p=prefix: [
            [[one.key for one in page.object_info], list(page.common_prefixes)] for page in rust.list_objects(bucket, p)])
        found[f"s3torchconnector map {prefix}"] = outcome(lambda p=prefix: len(
            connector()[0].S3MapDataset.from_prefix(f"s3://{bucket}/{p}", **connector()[1])))
        found[f"s3dlio list {prefix}"] = outcome(lambda p=prefix: s3dlio.list(f"s3://{bucket}/{p}", True))
        found[f"s3dlio dataset {prefix}"] = outcome(lambda p=prefix: len(s3dlio.create_dataset(f"s3://{bucket}/{p}")))
    return found


def shapes(buckets):
    """Ranks with some keys, and with none."""
    def make(bucket, keys):
        buckets.client.create_bucket(Bucket=bucket)
        for key in keys:
            buckets.client.put_object(Bucket=bucket, Key=key, Body=b"x")

    make("shapes", KEYS)
    dataset, bare = "s3://shapes/d/", {}
    cases = [("range", 3, 1), ("hash", 3, 0), ("range", 20, 0), ("stride", 20, 19)]
    for strategy, size, rank in cases:
        owners = buckets.owners(dataset, size, SHARD_STRATEGY=strategy)
        mine = tuple(key for key in KEYS if owners[key] == rank)
        if mine not in bare:
            make(f"{strategy}-{rank}-{size}", mine)
            bare[mine] = buckets.without("shapes:answers", [f"{strategy}-{rank}-{size}"])
        ((found, err),) = buckets.job("shapes:answers", ["shapes"], dataset, [rank], size, SHARD_STRATEGY=strategy)
        wanted, more = bare[mine]
        lines = [] if wanted and set(found) == set(wanted) else [err + more]
        # d/03 is shown to every rank that asks for it by name.
        lines += [f"{name}: {difference(found[name], wanted[name])}"[:400] for name in wanted if name in found and
                  found[name] != wanted[name] and not ("d/03" in name and "d/03" not in mine)]
        buckets.tell(f"shapes, {strategy}, rank {rank} of {size} with {len(mine)} keys", lines[:12])


def difference(one, other, where=""):
    """Where two shapes differ first."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(set(one) | set(other)):
            if one.get(key) != other.get(key):
                return difference(one.get(key), other.get(key), f"{where}.{key}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, both in enumerate(zip(one, other)):
            if both[0] != both[1]:
                return difference(*both, f"{where}[{number}]")
    return f"{where}: {one} for {other}"
