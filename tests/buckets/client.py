"""What unmodified clients do in one process: each lists in its own ways, and says what it has found.

answers() is asked for [[NAME, {ARGUMENT: VALUE}], ...]. Each NAME is a function below. It returns an answer
each: {"keys": [[KEY, SIZE, ETAG]], "whole": [PREFIX], "wrong": [TEXT], "error": [TYPE, TEXT]}.
This runs bare, to know what the client makes of the bucket, and under libshard, in each rank.
"""
import functools
import importlib
import itertools
import os
import signal
import sys
import traceback
import urllib.parse

from tests.buckets.child import needs

BOTO = "tests.buckets.client:boto"
SECONDS = 600  # for one way of listing, which takes a few at most


class Found:
    """What a way of listing has found. wrong: what no server would have answered."""

    def __init__(self):
        self.keys, self.whole, self.wrong = [], [], []

    def add(self, key, size=None, etag=None):
        """A key; its ETag without quotation marks."""
        self.keys.append([key, size, etag and etag.strip('"')])

    def check(self, good, *why):
        """Note what is wrong, a few times."""
        if not good and len(self.wrong) < 5:
            self.wrong.append(" ".join(map(str, why)))

    def answer(self):
        """For JSON."""
        return {"keys": self.keys, "whole": self.whole, "wrong": self.wrong}


@functools.lru_cache
def boto(kind="client", endpoint=None):
    """A client, or a resource, of boto3's: also of one that does not know AWS_ENDPOINT_URL. Making one takes longer
    than listing."""
    boto3 = importlib.import_module("boto3")
    return getattr(boto3, kind)("s3", endpoint_url=endpoint or os.environ.get("AWS_ENDPOINT_URL"),
                                region_name=os.environ.get("AWS_REGION"))


def entries(found, page):
    """The keys of a page of S3's."""
    for entry in page.get("Contents", []):
        found.add(entry["Key"], entry["Size"], entry["ETag"])
    found.whole += [each["Prefix"] for each in page.get("CommonPrefixes", [])]


def echoes(said, asked):
    """Whether a page repeats what was asked. radosgw does not encode that, and botocore decodes it."""
    return said == asked or any(c in (asked or "") for c in "%+")


def plausible(found, page, asked):
    """Check a page of list_objects[_v2] against what S3's documentation says of one."""
    contents, folders = page.get("Contents", []), page.get("CommonPrefixes", [])
    names = sorted(e["Key"].encode() for e in contents)
    most = asked.get("MaxKeys", 1000)
    found.check(page["MaxKeys"] == most, "MaxKeys", page["MaxKeys"], "for", most)
    found.check(len(contents) + len(folders) <= most, len(contents) + len(folders), "entries for", asked)
    found.check(echoes(page.get("Prefix", ""), asked.get("Prefix", "")), "Prefix", page.get("Prefix"))
    found.check(page["Name"] == asked["Bucket"], "Name", page["Name"])
    found.check([e["Key"].encode() for e in contents] == names, "out of order", names[:3])
    found.check(page["IsTruncated"] is False or contents or folders, "an empty page that is truncated", asked)
    found.check(page.get("Contents") != [], "an empty list, where a server has none", asked)
    found.check(page["ResponseMetadata"]["HTTPStatusCode"] == 200, "status")
    after = asked.get("StartAfter") if "ContinuationToken" not in asked else None
    after = after or asked.get("Marker")
    found.check(not after or not names or names[0] > after.encode(), names[:1], "after", after)
    if "list_v1" in asked:
        return
    found.check(page["KeyCount"] == len(contents) + len(folders), "KeyCount", page["KeyCount"],
                len(contents), len(folders))
    found.check(page["IsTruncated"] == ("NextContinuationToken" in page), "token", asked)


def page_v2(found, client, **asked):
    """A page, checked and noted."""
    page = client.list_objects_v2(**asked)
    plausible(found, page, asked)
    entries(found, page)
    return page


def page_v1(found, client, **asked):
    """The same of the first version of the API."""
    page = client.list_objects(**asked)
    plausible(found, page, {**asked, "list_v1": True})
    entries(found, page)
    return page


@needs(BOTO)
def paginator(bucket, version=2, size=None, **asked):
    """boto3's paginators."""
    found, paging = Found(), {"PaginationConfig": {"PageSize": size}} if size else {}
    name = "list_objects_v2" if version == 2 else "list_objects"
    for page in boto().get_paginator(name).paginate(Bucket=bucket, **asked, **paging):
        entries(found, page)
    return found


@needs(BOTO)
def together(bucket, size):
    """Two listings by one client, in turns; what they get is changed at once, as s3fs does it."""
    found, keys = Found(), [[], []]
    pages = [boto().get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": size})
             for _ in keys]
    for both in itertools.zip_longest(*pages, fillvalue={}):
        for page, mine in zip(both, keys):
            for entry in page.get("Contents", []):
                mine.append([entry["Key"], entry["Size"], entry["ETag"]])
                entry["Key"] = f"{bucket}/{entry['Key']}"
    found.check(keys[0] == keys[1], "the second listing gets", keys[1][:9])
    for one in keys[0]:
        found.add(*one)
    return found


@needs(BOTO)
def resource(bucket, prefix, size=None):
    """boto3's resource."""
    found = Found()
    some = boto("resource").Bucket(bucket).objects.filter(Prefix=prefix)
    for each in some.page_size(size) if size else some:
        found.add(each.key, each.size, each.e_tag)
    return found


@needs(BOTO)
def by_token(bucket, size, other_client=False, **asked):
    """A loop as people write it: on by the token, and `page["Contents"]` as it stands."""
    found, client, more = Found(), boto(), {}
    while True:
        page = page_v2(found, client, Bucket=bucket, MaxKeys=size, **asked, **more)
        if not page["IsTruncated"]:
            return found
        more = {"ContinuationToken": page["NextContinuationToken"]}
        if other_client:
            client = boto.__wrapped__()


@needs(BOTO)
def first_page(bucket, size, **asked):
    """One page; the token to go on with is printed among what stays whole."""
    found = Found()
    page = page_v2(found, boto(), Bucket=bucket, MaxKeys=size, **asked)
    found.whole.append(page.get("NextContinuationToken"))
    return found


@needs(BOTO)
def go_on(bucket, token, **asked):
    """The rest after another process's page."""
    found = Found()
    for page in boto().get_paginator("list_objects_v2").paginate(
            Bucket=bucket, **asked, PaginationConfig={"StartingToken": None}, ContinuationToken=token):
        entries(found, page)
    return found


@needs(BOTO)
def by_start_after(bucket, size, **asked):
    """A loop that goes on behind the last key."""
    found, client, start = Found(), boto(), {}
    while True:
        page = page_v2(found, client, Bucket=bucket, MaxKeys=size, **asked, **start)
        if not page.get("Contents"):
            found.check(not page["IsTruncated"], "truncated, and nothing to go on from")
            return found
        start = {"StartAfter": page["Contents"][-1]["Key"]}


@needs(BOTO)
def by_marker(bucket, size, **asked):
    """The first version's loop: on by NextMarker, where there is one, else by the last key."""
    found, client, more = Found(), boto(), {}
    while True:
        page = page_v1(found, client, Bucket=bucket, MaxKeys=size, **asked, **more)
        if not page["IsTruncated"]:
            return found
        more = {"Marker": page.get("NextMarker") or page["Contents"][-1]["Key"]}


@needs(BOTO)
def by_last(bucket, size, **asked):
    """The first version's loop: on by the last key."""
    found, client, more = Found(), boto(), {}
    while True:
        page = page_v1(found, client, Bucket=bucket, MaxKeys=size, **asked, **more)
        if not page["IsTruncated"]:
            return found
        more = {"Marker": page["Contents"][-1]["Key"]}


@needs(BOTO)
def as_url(bucket, prefix, size, version=2):
    """The program itself asks for keys as URLs have them. (radosgw's NextMarker is none, AWS's is.)"""
    found, client, more = Found(), boto(), {}
    get = client.list_objects_v2 if version == 2 else client.list_objects
    while True:
        page = get(Bucket=bucket, Prefix=prefix, EncodingType="url", MaxKeys=size, **more)
        for each in page.get("Contents", []):
            found.add(urllib.parse.unquote_plus(each["Key"]), each["Size"], each["ETag"])
        found.check(page["EncodingType"] == "url", "EncodingType", page.get("EncodingType"))
        if not page["IsTruncated"] or len(found.keys) > 10000:
            return found
        more = ({"ContinuationToken": page["NextContinuationToken"]} if version == 2
                else {"Marker": page["NextMarker"]})


@needs(BOTO)
def nothing(bucket, prefix):
    """MaxKeys=0 gives nothing, and no reason to go on."""
    found = Found()
    page = page_v2(found, boto(), Bucket=bucket, Prefix=prefix, MaxKeys=0)
    found.check(page["KeyCount"] == 0 and page["IsTruncated"] is False, page["KeyCount"], page["IsTruncated"])
    return found


@needs(BOTO)
def folders(bucket, prefix, size, version=2):
    """With a delimiter, from folder to folder; every folder is seen, in as many pages as it takes."""
    found = Found()
    client, waiting = boto(), [prefix]
    page_of = page_v2 if version == 2 else page_v1
    while waiting:
        here, more, before = waiting.pop(), {}, len(found.whole)
        while True:
            page = page_of(found, client, Bucket=bucket, Prefix=here, Delimiter="/", MaxKeys=size, **more)
            if not page["IsTruncated"]:
                break
            more = ({"ContinuationToken": page["NextContinuationToken"]} if version == 2
                    else {"Marker": page["NextMarker"]})
        waiting += found.whole[before:]
    return found


@needs(BOTO)
def versions(bucket, prefix, size=None):
    """All versions, and what has been deleted."""
    found, paging = Found(), {"PaginationConfig": {"PageSize": size}} if size else {}
    for page in boto().get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix, **paging):
        for each in page.get("Versions", []) + page.get("DeleteMarkers", []):
            found.add(each["Key"], each.get("Size"), each["VersionId"])
    return found


@needs(BOTO)
def get_all(bucket, keys):
    """GET of keys, whosever they are: as many bytes, and the ETag, as there should be."""
    found, client = Found(), boto()
    for key, size, etag in keys:
        reply = client.get_object(Bucket=bucket, Key=key)
        found.check(len(reply["Body"].read()) == size and reply["ETag"].strip('"') == etag, "GET", repr(key))
        found.add(key, size, etag)
    return found


@needs(BOTO)
def one_request(bucket, endpoint=None, **asked):
    """A probe; or all of a small bucket, at another endpoint."""
    found = Found()
    entries(found, boto(endpoint=endpoint).list_objects_v2(Bucket=bucket, **asked))
    return found


@needs(BOTO)
def head_bucket(bucket):
    """What is not a listing goes straight to the server."""
    client, found = boto(), Found()
    client.head_bucket(Bucket=bucket)
    client.put_object(Bucket=bucket, Key="put/by a rank", Body=b"x")
    found.check(client.head_object(Bucket=bucket, Key="put/by a rank")["ContentLength"] == 1, "PUT")
    client.delete_object(Bucket=bucket, Key="put/by a rank")
    return found


def file_system(**more):
    """s3fs, with no cache of an instance before."""
    s3fs = importlib.import_module("s3fs")
    return s3fs.S3FileSystem(skip_instance_cache=True, **more)


def strip(path, bucket):
    """A key of what s3fs calls a path."""
    return path[len(bucket) + 1:]


@needs("s3fs")
def s3fs_find(bucket, prefix):
    """s3fs: find, with sizes."""
    found = Found()
    for path, info in file_system().find(f"s3://{bucket}/{prefix}", detail=True).items():
        found.add(strip(path, bucket), info["size"], info.get("ETag"))
    return found


@needs("s3fs")
def s3fs_glob(bucket, prefix):
    """s3fs: glob."""
    found, fs = Found(), file_system()
    for path, info in fs.glob(f"s3://{bucket}/{prefix}**", detail=True).items():
        if info["type"] == "file":
            found.add(strip(path, bucket), info["size"], info.get("ETag"))
    return found


@needs("s3fs")
def s3fs_walk(bucket, prefix):
    """s3fs: walk, which is ls of each folder."""
    found = Found()
    for path, inner, files in file_system().walk(f"s3://{bucket}/{prefix}", detail=True):
        found.whole += [f"{path}/{name}" for name in inner]
        for info in files.values():
            found.add(strip(info["name"], bucket), info["size"], info.get("ETag"))
    return found


@needs("s3fs")
def s3fs_ls(bucket, prefix, version_aware=False):
    """s3fs: ls; of a folder that has nothing for this rank, FileNotFoundError."""
    found, fs = Found(), file_system(version_aware=version_aware)
    for info in fs.ls(f"s3://{bucket}/{prefix}", detail=True):
        if info["type"] == "file":
            found.add(strip(info["name"], bucket), info["size"], info.get("ETag"))
        else:
            found.whole.append(info["name"])
    return found


@needs("s3fs")
def s3fs_others(bucket, prefix, keys):
    """After a shard has been listed, and is in the cache: all keys are there all the same."""
    found, fs = Found(), file_system()
    fs.find(f"s3://{bucket}/{prefix}")
    for path, _, _ in fs.walk(f"s3://{bucket}/{prefix}"):
        try:
            fs.ls(path)
        except FileNotFoundError:
            pass
    for key, size, _ in keys:
        path = f"{bucket}/{key}"
        found.check(fs.exists(path), "exists", repr(key))
        try:
            info = fs.info(path)
            found.check(info["size"] == size and info["type"] == "file", "info", repr(key), info)
            if not set("?*[").intersection(key):  # a pattern, which lists
                found.check(len(fs.cat(path)) == size, "cat", repr(key))
            with fs.open(path, "rb") as stream:
                found.check(len(stream.read()) == size, "open", repr(key))
        except (OSError, ValueError) as error:
            found.check(False, repr(key), repr(error))
        found.add(key, size)
    return found


@needs("smart_open.s3")
def smart_open(bucket, prefix):
    """smart_open's iter_bucket, which lists and reads."""
    found, module = Found(), importlib.import_module("smart_open.s3")
    for key, body in module.iter_bucket(bucket, prefix=prefix, workers=2):
        found.add(key, len(body))
    return found


@needs("cloudpathlib")
def cloudpathlib(bucket, prefix, but=()):
    """cloudpathlib: rglob. It makes folders of keys, and takes for a file what is a key, too: not those."""
    found, module = Found(), importlib.import_module("cloudpathlib")
    client = module.S3Client(endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    for path in client.S3Path(f"s3://{bucket}/{prefix}").rglob("*"):
        if path.key not in but and path.is_file():
            found.add(path.key, path.stat().st_size)
    return found


def minio_client():
    """minio's."""
    return importlib.import_module("minio").Minio(
        urllib.parse.urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc, os.environ["AWS_ACCESS_KEY_ID"],
        os.environ["AWS_SECRET_ACCESS_KEY"], secure=False, region=os.environ["AWS_REGION"])


@needs("minio")
def minio(bucket, prefix, **asked):
    """minio: both versions of the API, versions of objects, with and without recursion."""
    found = Found()
    for each in minio_client().list_objects(bucket, prefix=prefix, **asked):
        if each.is_dir and each.etag is None:  # a marker has an ETag
            found.whole.append(each.object_name)
        else:
            found.add(each.object_name, each.size, each.etag)
    return found


@needs("torch")
def s3dlio(bucket, prefix):
    """s3dlio's list."""
    found, module = Found(), importlib.import_module("s3dlio")
    for uri in module.list(f"s3://{bucket}/{prefix}", recursive=True):
        found.add(uri[len(f"s3://{bucket}/"):])
    return found


def connector():
    """What s3torchconnector's datasets are told."""
    module = importlib.import_module("s3torchconnector")
    return module, {"region": os.environ["AWS_REGION"], "endpoint": os.environ["AWS_ENDPOINT_URL"],
                    "s3client_config": module.S3ClientConfig(force_path_style=True)}


def connector_client():
    """s3torchconnector's own client."""
    how = connector()[1]
    return importlib.import_module("s3torchconnector._s3client").S3Client(
        how["region"], endpoint=how["endpoint"], s3client_config=how["s3client_config"])


@needs("torch")
def connector_map(bucket, prefix):
    """s3torchconnector's map-style dataset."""
    found, (module, how) = Found(), connector()
    dataset = module.S3MapDataset.from_prefix(f"s3://{bucket}/{prefix}", **how)
    for number in range(len(dataset)):
        found.add(*key_and_size(dataset[number]))
    return found


def key_and_size(item):
    """A sample of s3torchconnector's, for workers too. It cannot read what is empty."""
    return item.key, 0 if item.key.endswith("/") else len(item.read())


@needs("torch")
def connector_iterable(bucket, prefix):
    """s3torchconnector's iterable dataset."""
    found, (module, how) = Found(), connector()
    for key, size in module.S3IterableDataset.from_prefix(f"s3://{bucket}/{prefix}", transform=key_and_size, **how):
        found.add(key, size)
    return found


def google_client():
    """google-cloud-storage's, of an emulator that STORAGE_EMULATOR_HOST names."""
    nobody = importlib.import_module("google.auth.credentials").AnonymousCredentials()
    return importlib.import_module("google.cloud.storage").Client(project="test", credentials=nobody)


@needs("google.cloud.storage")
def google(bucket, prefix, size=None):
    """google-cloud-storage."""
    client, found = google_client(), Found()
    for blob in client.list_blobs(bucket, prefix=prefix, page_size=size):
        found.add(blob.name, blob.size, blob.etag)
    again = [blob.name for blob in client.bucket(bucket).list_blobs(prefix=prefix)]
    found.check(again == [key for key, _, _ in found.keys], "Bucket.list_blobs finds others")
    return found


@needs("google.cloud.storage")
def google_get(bucket, keys):
    """Reading of all keys."""
    client, found = google_client(), Found()
    for key in keys:
        found.check(client.bucket(bucket).blob(key).download_as_bytes() == key.encode(), "GET", key)
        found.add(key)
    return found


def google_files(**more):
    """gcsfs, with no cache of an instance before."""
    return importlib.import_module("gcsfs").GCSFileSystem(
        token="anon", endpoint_url=os.environ["STORAGE_EMULATOR_HOST"], project="test", skip_instance_cache=True, **more)


@needs("gcsfs")
def gcsfs(bucket, prefix):
    """gcsfs: find, and what is not this rank's."""
    found = Found()
    for path, info in google_files().find(f"{bucket}/{prefix}", detail=True).items():
        found.add(strip(path, bucket), info["size"])
    return found


def modules():
    """Which modules of ours an import of the clients brings."""
    importlib.import_module("botocore.session")
    found = Found()
    boto()
    found.whole = sorted(name for name in sys.modules if name.startswith("_libshard"))
    return found


class TooLong(BaseException):
    """Of no kind that a client would take for the network's."""


def too_long(*_):
    """A loop that does not end fails by itself."""
    raise TooLong(f"it took more than {SECONDS} s")


def answers(requests):
    """Answer all."""
    made = []
    signal.signal(signal.SIGALRM, too_long)
    for name, arguments in requests:
        signal.alarm(SECONDS)
        try:
            made.append(globals()[name](**arguments).answer())
        except BaseException as error:  # pylint: disable=broad-exception-caught
            where = traceback.format_exc().splitlines()[-4:]
            kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
            made.append({"error": [kinds, str(error)[:2000], where]})
    signal.alarm(0)
    return made


answers.imports = lambda requests: {one for name, _ in requests for one in getattr(globals()[name], "imports", ())}
