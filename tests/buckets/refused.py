"""A share that cannot be known: every way of listing of every client raises; none ends empty, or with all."""
import asyncio
import functools
import importlib
import json
import os
import re
import tempfile

from tests.buckets.apart import google_server
from tests.buckets.client import (boto, connector, connector_client, file_system, google_client, google_files,
                                  minio_client)
from tests.harness.proxy import Proxy, error

ENDPOINT = os.environ.get("AWS_ENDPOINT_URL", "")
TRAIN, ROOT = "s3://train/train", {"Bucket": "train", "Prefix": "train/"}


def load(name):
    """A module, by name."""
    return importlib.import_module(name)


# ---- in a process of its own -------------------------------------------------------------------


def in_thread(function):
    """What a function returns, or raises, in a thread."""
    with load("concurrent.futures").ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


async def aio(operation):
    """aiobotocore's paginators."""
    found, session = [], load("aiobotocore.session").get_session()
    async with session.create_client("s3", endpoint_url=ENDPOINT, region_name="us-east-1") as made:
        async for page in made.get_paginator(operation).paginate(**ROOT):
            found += page.get("Contents", []) + page.get("Versions", [])
    return found


async def walk_async(scheme, path, make):
    """A file system's walk where there is an event loop."""
    fs = make(asynchronous=True)
    if scheme == "s3":
        session = await fs.set_session()
    found = [names async for _, _, names in fs._walk(path) if names]
    if scheme == "s3":
        await session.close()
    return found


def file_systems(scheme, make, path):
    """[(name, function)] of fsspec's ways: most of them are walk(), which leaves out what raises OSError."""
    fsspec = load("fsspec")

    def tree(fs):
        text = fs.tree(path, max_display=1000)
        return [line for line in text.splitlines()[1:] if line.strip()]

    def get(fs, what, **more):
        with tempfile.TemporaryDirectory() as folder:
            fs.get(what, folder + "/", **more)
            return [name for _, _, names in os.walk(folder) for name in names]

    def mapper(fs):
        return list(fsspec.mapping.FSMap(path, fs))

    ways = {
        "ls": lambda fs: fs.ls(path),
        "ls, detail": lambda fs: fs.ls(path + "/", detail=True),
        "ls of a folder": lambda fs: fs.ls(path + "/cat"),
        "listdir": lambda fs: fs.listdir(path),
        "find": lambda fs: fs.find(path),
        "find, maxdepth": lambda fs: fs.find(path, maxdepth=2),
        "find, withdirs": lambda fs: fs.find(path, withdirs=True),
        "find, prefix": lambda fs: fs.find(path, prefix="c"),
        "walk": lambda fs: [names for _, _, names in fs.walk(path) if names],
        "walk, maxdepth": lambda fs: [names for _, _, names in fs.walk(path, maxdepth=1, detail=True) if names],
        "walk, bottom up": lambda fs: [names for _, _, names in fs.walk(path, topdown=False) if names],
        "walk, ignore": lambda fs: [names for _, _, names in fs.walk(path, on_error=lambda _: None) if names],
        "walk, in a thread": lambda fs: in_thread(lambda: [names for _, _, names in fs.walk(path) if names]),
        "walk, asynchronous": lambda _: asyncio.run(walk_async(scheme, path, make)),
        "glob": lambda fs: fs.glob(path + "/*"),
        "glob, recursive": lambda fs: fs.glob(path + "/**"),
        "glob, depth": lambda fs: fs.glob(path + "/*/1*"),
        "du": lambda fs: [one for one in fs.du(path, total=False).items() if one[1]],
        "du, maxdepth": lambda fs: [one for one in fs.du(path, total=False, maxdepth=2).items() if one[1]],
        "tree": tree,
        "expand_path": lambda fs: fs.expand_path(path, recursive=True)[1:],
        "expand_path, maxdepth": lambda fs: fs.expand_path(path, recursive=True, maxdepth=2)[1:],
        "cat of a pattern": lambda fs: fs.cat(path + "/ca*/1*"),
        "cat, omit": lambda fs: fs.cat(path + "/ca*/1*", on_error="omit"),
        "get": lambda fs: get(fs, path + "/cat", recursive=True),
        "get of a pattern": lambda fs: get(fs, path + "/ca*/1*"),
        "mapper": mapper,
        "dirfs": lambda fs: load("fsspec.implementations.dirfs").DirFileSystem(path, fs).find(""),
        "open_files": lambda _: fsspec.open_files(f"{scheme}://{path}/ca*/1*"),
    }
    # s3fs takes a folder's marker for no folder once it has kept a list.
    one = functools.lru_cache()(lambda: make(**({"use_listings_cache": False} if scheme == "s3" else {})))
    for name, way in ways.items():
        yield f"{scheme}fs: {name}", lambda way=way: way(one())


def botos():
    """boto3, aiobotocore, and what is built on them."""
    for name in ("list_objects", "list_objects_v2", "list_object_versions"):
        kind = "Versions" if name.endswith("versions") else "Contents"
        yield f"boto3: {name}", lambda n=name, k=kind: getattr(boto(), n)(**ROOT).get(k, [])
        yield f"boto3: {name}, MaxKeys", lambda n=name, k=kind: getattr(boto(), n)(**ROOT, MaxKeys=1).get(k, [])
        yield f"boto3: {name}, Delimiter", lambda n=name, k=kind: getattr(boto(), n)(
            **ROOT, Delimiter="/").get(k, [])
        yield f"boto3: paginator of {name}", lambda n=name, k=kind: [
            one for page in boto().get_paginator(n).paginate(**ROOT) for one in page.get(k, [])]
        yield f"boto3: search of {name}", lambda n=name, k=kind: [
            one for one in boto().get_paginator(n).paginate(**ROOT).search(k) if one]
        yield f"aiobotocore: {name}", lambda n=name: asyncio.run(aio(n))
    yield "boto3: a thread", lambda: in_thread(lambda: boto().list_objects_v2(**ROOT).get("Contents", []))
    bucket = lambda: boto("resource").Bucket("train")  # noqa: E731
    yield "boto3: objects.all", lambda: list(bucket().objects.all())
    yield "boto3: objects.filter", lambda: list(bucket().objects.filter(Prefix="train/"))
    yield "boto3: objects.limit", lambda: list(bucket().objects.filter(Prefix="train/").limit(3))
    yield "boto3: object_versions", lambda: list(bucket().object_versions.filter(Prefix="train/"))
    yield "smart_open", lambda: list(load("smart_open.s3").iter_bucket("train", prefix="train/cat/", workers=2))
    path = lambda: load("cloudpathlib").S3Client(endpoint_url=ENDPOINT).S3Path(TRAIN)  # noqa: E731
    yield "cloudpathlib: rglob", lambda: list(path().rglob("*"))
    yield "cloudpathlib: iterdir", lambda: list(path().iterdir())
    yield "cloudpathlib: walk", lambda: [names for _, _, names in path().walk() if names]


def s3fs_ways():
    """s3fs; of versions, too."""
    yield from file_systems("s3", file_system, "train/train")
    yield "s3fs: versions", lambda: file_system(version_aware=True).ls("train/train")
    yield "s3fs: walk of the bucket", lambda: [names for path, _, names in file_system().walk("train")
                                               if names and "train/train/" in path]
    yield "torchdata: by fsspec", lambda: list(load("torchdata.datapipes.iter").IterableWrapper(
        [TRAIN + "/cat"]).list_files_by_fsspec())


def rust_streams(module, name):
    """s3dlio's data sets that list in a thread."""
    return list(getattr(load(module), name).from_prefix(TRAIN + "/cat/"))


def others():
    """The other clients of S3."""
    for name, more in (("flat", {"recursive": True}), ("v1", {"recursive": True, "use_api_v1": True}),
                       ("folders", {}), ("versions", {"recursive": True, "include_version": True})):
        yield f"minio: {name}", lambda m=more: list(minio_client().list_objects("train", "train/", **m))
    module, how = connector()
    yield "s3torchconnector: client", lambda: [
        one for page in connector_client().list_objects("train", "train/") for one in page.object_info]
    yield "s3torchconnector: map", lambda: range(len(module.S3MapDataset.from_prefix(TRAIN + "/", **how)))
    yield "s3torchconnector: iterable", lambda: list(module.S3IterableDataset.from_prefix(TRAIN + "/", **how))
    workers = lambda: load("torch.utils.data").DataLoader(  # noqa: E731
        module.S3IterableDataset.from_prefix(TRAIN + "/cat/", transform=str, **how), num_workers=1, batch_size=None)
    yield "s3torchconnector: workers", lambda: list(workers())
    s3dlio = load("s3dlio")
    yield "s3dlio: list", lambda: s3dlio.list(TRAIN + "/")
    yield "s3dlio: list, of an endpoint", lambda: s3dlio.list(f"s3://{ENDPOINT.partition('://')[2]}/train/train/")
    yield "s3dlio: list_keys", lambda: s3dlio.list_keys(TRAIN + "/cat/")
    yield "s3dlio: PyDataset", lambda: s3dlio.PyDataset(TRAIN + "/cat/").keys()
    yield "s3dlio: create_dataset", lambda: s3dlio.create_dataset(TRAIN + "/cat/").keys()
    compat = load("s3dlio.compat.s3torchconnector")
    yield "s3dlio: compat", lambda: [one for page in compat.S3Client("us-east-1").list_objects("train", "train/")
                                     for one in page.object_info]
    yield "s3dlio: compat, iterable", lambda: list(compat.S3IterableDataset.from_prefix(
        TRAIN + "/cat/", region="us-east-1"))
    yield "s3dlio: map", lambda: range(len(load("s3dlio.torch").ObjectStoreMapDataset(TRAIN + "/")))


def unseen():
    """What libshard does not divide: it is known of which URI, or bucket."""
    s3dlio = load("s3dlio")
    handled = load("boto3").client("s3", endpoint_url=ENDPOINT, region_name="us-east-1")
    handled.meta.events.register("before-parameter-build.s3", lambda params, **_: params.update(
        Prefix="train/" + params["Prefix"]) if "Prefix" in params else None)
    for name in ("list_objects", "list_objects_v2", "list_object_versions"):
        yield f"boto3: {name}, a handler asks for another Prefix", lambda n=name: getattr(handled, n)(
            Bucket="train", Prefix="cat/")

    def download():
        with tempfile.TemporaryDirectory() as folder:
            s3dlio.download(TRAIN + "/cat/", folder)
            return [name for _, _, names in os.walk(folder) for name in names]

    async def loaded():
        return [one async for one in s3dlio.create_async_loader(TRAIN + "/cat/")]

    yield "torchdata", lambda: list(load("torchdata.datapipes.iter").IterableWrapper([TRAIN + "/"]).list_files_by_s3())
    yield "torchdata: handler", lambda: load("torchdata._torchdata").S3Handler(-1, "").list_files(TRAIN + "/")
    yield "s3dlio: create_async_loader", lambda: asyncio.run(loaded())
    yield "s3dlio: PyS3Dataset", lambda: [s3dlio.PyS3Dataset(TRAIN + "/cat/")]
    yield "s3dlio: download", download
    yield "s3dlio.torch: iterable", lambda: rust_streams("s3dlio.torch", "ObjectStoreIterableDataset")
    yield "s3dlio: delete", lambda: [s3dlio.delete(TRAIN + "/none/", recursive=True)]
    yield "s3dlio: MultiEndpointStore", lambda: s3dlio.create_multi_endpoint_store([TRAIN + "/cat/"]).list(
        TRAIN + "/cat/", True)


def googles():
    """Google's, of gs://b."""
    made = google_client()
    yield "google-cloud-storage", lambda: list(made.list_blobs("b", prefix="train/"))
    yield "google-cloud-storage: folders", lambda: list(made.list_blobs("b", prefix="train/", delimiter="/"))
    yield "google-cloud-storage: bucket", lambda: list(made.bucket("b").list_blobs(prefix="train/"))
    yield "google-cloud-storage: pages", lambda: [list(page) for page in made.list_blobs("b", prefix="train/").pages]

    for name, way in file_systems("gcs", google_files, "b/train"):
        # The stand-in has no objects to get, and other folders.
        if not any(word in name for word in ("cat", "get", "a folder", "open_files", "depth", "prefix")):
            yield name, way


def absent():
    """Lists of a bucket that the server has not."""
    yield "boto3", lambda: boto().list_objects_v2(Bucket="absent", Prefix="train/")["Contents"]
    yield "minio", lambda: list(minio_client().list_objects("absent", prefix="train/", recursive=True))
    yield "minio, folders", lambda: list(minio_client().list_objects("absent", extra_query_params={"x": "y"}))


def few():
    """One way of each client."""
    for ways, name in ((s3fs_ways, "s3fs: walk"), (s3fs_ways, "s3fs: find, maxdepth"), (botos, "boto3: objects.all"),
                       (botos, "cloudpathlib: rglob"), (others, "minio: flat"), (others, "s3dlio: compat"),
                       (others, "s3torchconnector: map")):
        yield name, dict(ways())[name]


def most():
    """All of S3's."""
    for ways in (botos, s3fs_ways, others):
        yield from ways()


def tried(ways):
    """{"LABEL: NAME": [KINDS, TEXT]}, or ["listed", how many], of what one of the functions above names; for each
    LABEL of the variable STAGES, {LABEL: {VARIABLE: VALUE}}: imports take the most time."""
    return dict(_tried(globals()[ways]))


tried.imports = lambda ways: ["torch"] if ways in ("most", "few", "unseen") else []


def _tried(ways):
    stages = json.loads(os.environ.get("STAGES", '{"bare": {}}'))
    for label, variables in stages.items():
        for variable, value in variables.items():
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = value
        for name, way in ways():
            try:
                yield f"{label}: {name}", ["listed", len(way())]
            except Exception as fault:  # pylint: disable=broad-exception-caught
                kinds = [kind.__name__ for kind in type(fault).__mro__]
                yield f"{label}: {name}", [kinds, f"{fault} errno={getattr(fault, 'errno', None)}"]


# ---- the checks --------------------------------------------------------------------------------


def refused(buckets):
    """Each way of listing of each client, and each fault."""
    blocked = os.path.join(buckets.plain, "a file")
    with open(blocked, "w", encoding="utf-8"):
        pass
    words = {"no rank": "SHARD_RANK", "a rank beyond the size": "SHARD_RANK", "no cache": blocked}
    stages = {"no rank": {"SHARD_RANK": None}, "a rank beyond the size": {"SHARD_RANK": "5"}, "no cache": {"SHARD_RANK": "1"}}
    faults = {"STAGES": json.dumps(stages), "SHARD_STRATEGY": "range", "SHARD_CACHE_DIR": os.path.join(blocked, "cache")}

    def each(label, ways, dataset, **env):
        """All faults, each with its line."""
        bare = buckets.without("refused:tried", [ways], **env)
        check(buckets, f"{label}, without libshard: all ways list", *bare, lambda kind, text: kind == "listed" and text)
        names = [f"{stage}: {name.partition(': ')[2]}" for stage in stages for name in bare[0]]
        found, err = buckets.call("refused:tried", [ways], buckets.shard_environment(
            dataset, 0, 2, **{**env, **faults}))
        for stage, word in words.items():
            some = {name: answer for name, answer in found.items() if name.startswith(stage)}
            check(buckets, f"{label}, {stage}: all ways raise", some, err, lambda kind, text, w=word: (
                is_raised(kind) and w in text and (
                    re.search(r"errno=\d+$", text) or "worker process" in text)), [n for n in names if n.startswith(stage)])

    each("S3", "most", "s3://train/train/")
    # For shardctl alone; or for all that list, when the client's own request fails, too.
    for fault, whose in ((error(503, "ServiceUnavailable"), "libshard/"), (error(500, "InternalError"), "")):
        with Proxy(buckets.endpoint, fault=lambda q, f=fault, w=whose: f if "prefix" in q.query and w in
                   q.headers.get("user-agent", "") else None) as proxy:
            found, err = buckets.call("refused:tried", ["few"], buckets.shard_environment(
                "s3://train/train/", 0, 2, endpoint=proxy.endpoint, SHARD_TIMEOUT="1", AWS_MAX_ATTEMPTS="1",
                SHARD_STRATEGY="range"))
        check(buckets, f"5xx for {whose or 'everybody'}: all ways raise", found, err,
              lambda kind, text: is_raised(kind) and "s3://train" in text)
    found, err = buckets.call("refused:tried", ["absent"], buckets.shard_environment(
        "s3://absent", 0, 2, SHARD_STRATEGY="range"))
    bare = buckets.without("refused:tried", ["absent"])[0]
    check(buckets, "a bucket that is not there: the server's own refusal", found, err, lambda kind, text: (
        is_raised(kind) and "NoSuchBucket" in text and "libshard" not in text.lower()), bare)
    found, err = buckets.call("refused:tried", ["unseen"], buckets.shard_environment(
        "s3://train/train/", 0, 2, SHARD_STRATEGY="hash"))
    check(buckets, "what cannot be divided raises", found, err, lambda kind, text: (
        is_raised(kind) and "SHARD_VIEW=off" in text))
    with google_server() as env:
        each("Google", "googles", "gs://b/train/", **env)


def is_raised(kinds):
    """Whether a way has raised what fsspec and others do not take for a folder that is not there."""
    return kinds != "listed" and "OSError" not in kinds and "KeyError" not in kinds


def check(buckets, label, found, err, good, names=()):
    """All ways have been tried, and each has ended as it should."""
    lines = [f"{name}: {found.get(name, 'nothing')}"[:300] for name in {**found, **dict.fromkeys(names)}
             if name not in found or not good(*found[name])]
    buckets.tell(label, lines if found else [f"no answer: {err[-1500:]}"])
