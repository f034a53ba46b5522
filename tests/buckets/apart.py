"""The clients that are not botocore's, where their ways differ: what they do beside listing by keys."""
import collections
import contextlib
import http.server
import importlib
import json
import os
import pickle
import shutil
import subprocess
import threading
import urllib.parse

from tests.buckets.child import needs
from tests.buckets.client import google_client, google_files
from tests.buckets.fixture import PYTHON
from tests.harness import paths

ENDPOINT = os.environ.get("AWS_ENDPOINT_URL", "")


# ---- in a process of its own -------------------------------------------------------------------


def found(way):
    """{NAME: [KEY]} that one of the functions below finds."""
    return dict(globals()[way]())


found.imports = lambda way: getattr(globals()[way], "imports", ())


@needs("torch")
def connector():
    """s3torchconnector: streams of small pages, and what workers get by pickle."""
    module = importlib.import_module("s3torchconnector")
    client = importlib.import_module("s3torchconnector._s3client").S3Client("us-east-1", endpoint=ENDPOINT)
    for size in (1, 3, 50):
        keys = []
        for page in client.list_objects("train", "train/", "", size):
            keys += [one.key for one in page.object_info]
        yield f"pages of {size}", keys
    keys, folders = [], []
    for page in client.list_objects("train", "train/", "/"):
        keys += [one.key for one in page.object_info]
        folders += page.common_prefixes
    yield "a delimiter", keys
    yield "whole: folders", folders
    stream = importlib.import_module("s3torchconnector._s3_bucket_iterable")._PickleableListObjectStream(
        client, "train", "train/")
    state = stream.__getstate__()
    state["client"] = client._client  # the class itself hands on what the Rust client does not take
    again = type(stream).__new__(type(stream))
    again.__setstate__(state)
    yield "a stream made anew", [one.key for page in again for one in page.object_info]
    dataset = module.S3MapDataset.from_prefix("s3://train/train/", region="us-east-1", endpoint=ENDPOINT)
    len(dataset)
    copy = pickle.loads(pickle.dumps(dataset))
    yield "a dataset by pickle", [copy[i].key for i in range(len(copy))]
    yield "outside", [one.key for page in client.list_objects("train", "valid/") for one in page.object_info]


@needs("torch")
def rust():
    """s3dlio: datasets, globs, its layer for s3torchconnector's API; and what it does not let see."""
    module, native = (importlib.import_module(name) for name in ("s3dlio", "s3dlio._pymod"))
    yield "create_dataset", module.create_dataset("s3://train/train/").uris()
    dataset = module.PyDataset("s3://train/train/")
    assert isinstance(dataset, native.PyDataset) and len(dataset) == len(dataset.keys()), "no PyDataset"
    yield "PyDataset", dataset.uris()
    assert len(list(module.PyBytesAsyncDataLoader(dataset, {"prefetch": 4}))) == len(dataset), "the loader's number"
    yield "outside", module.PyDataset("s3://train/valid/").uris()
    for uri, flat in (("s3://train/train/cat/*", False), ("s3://train/train/**", True), ("s3://train/tr**", True),
                      ("s3://train/train/cat", True)):
        yield uri, module.list(uri, flat)
    yield "list_keys", module.list_keys("s3://train/train/cat/")
    compat = importlib.import_module("s3dlio.compat.s3torchconnector")
    yield "compat", [one.key for page in compat.S3Client("us-east-1").list_objects("train", "train/c")
                     for one in page.object_info]
    torch = importlib.import_module("s3dlio.torch").ObjectStoreMapDataset("s3://train/train/")
    yield "ObjectStoreMapDataset", list(torch._uris)
    for uri in ("s3://train/valid/", "s3://train/train/cat/1"):  # outside; and an object by its name
        module.create_async_loader(uri)


def one(name, lister):
    """A name, and the kind of an error and its text."""
    try:
        return name, ["listed", str(list(lister()))]
    except Exception as error:  # pylint: disable=broad-exception-caught
        return name, [type(error).__name__, str(error)]


def errors():
    """The kind of each client's error, and its text; none of them asks the server."""
    where = urllib.parse.urlsplit(ENDPOINT).netloc
    yield one("minio", lambda: importlib.import_module("minio").Minio(
        where, "a", "b" * 8, secure=False).list_objects("train", "train/", recursive=True))
    yield one("s3dlio", lambda: importlib.import_module("s3dlio").list("s3://train/train/"))
    yield one("s3torchconnector", lambda: importlib.import_module("s3torchconnector._s3client").S3Client(
        "us-east-1", endpoint=ENDPOINT).list_objects("train", "train/"))


def errors_google():
    """The same of the bucket gs://train."""
    yield one("google-cloud-storage", lambda: google_client().list_blobs("train", prefix="train/"))
    yield one("gcsfs", lambda: google_files().find("train/train/"))


@needs("google.cloud.storage")
def blobs():
    """google-cloud-storage, page by page."""
    client = google_client()
    for size in (1, 2, 5, None):
        yield f"page_size={size}", [b.name for b in client.list_blobs("b", prefix="train/", page_size=size)]
        pages = client.list_blobs("b", prefix="train/", page_size=size).pages
        names = [[b.name for b in page] for page in pages]
        assert size is None or all(len(page) <= size for page in names), [len(page) for page in names]
        yield f"pages of {size}", sum(names, [])
        token, every = None, []
        for _ in range(1000):
            some = client.list_blobs("b", prefix="train/", max_results=size, page_token=token)
            names = [b.name for b in some]
            assert size is None or len(names) <= size, names
            every, token = every + names, some.next_page_token
            if not token:
                break
        yield f"max_results={size}, by token", every
        some = client.list_blobs("b", prefix="train/", delimiter="/", page_size=size)
        yield f"delimiter, {size}", [b.name for b in some]
        yield f"whole: prefixes, {size}", sorted(some.prefixes)
        yield f"versions, {size}", [f"{b.name}#{b.generation}" for b in
                                    client.list_blobs("b", prefix="train/", versions=True, page_size=size)]
    yield "start_offset", [b.name for b in client.list_blobs("b", prefix="train/", start_offset="train/k1")]
    yield "all", [b.name for b in client.list_blobs("b", page_size=3)]
    yield "fields", [b.name for b in client.list_blobs("b", fields="items(name),nextPageToken", prefix="train/")]


# ---- the checks --------------------------------------------------------------------------------


def divided(buckets, label, way, dataset, size, whole, common=(), **more):
    """Each name of a way: complete, nothing twice but what is common, in every rank."""
    ranks = buckets.job("apart:found", [way], dataset, range(size), size, **more)
    lines = [f"rank {rank}: {err}" for rank, (own, err) in enumerate(ranks) if set(own) != set(whole)]
    for name in whole if not lines else ():
        wanted = collections.Counter(whole[name])
        got = collections.Counter(key for own, _ in ranks for key in own[name])
        for key, times in wanted.items():
            seen = got.pop(key, 0)
            if name.startswith(("whole", "outside")) or key in common or (name, key) in common:
                times *= size
            if seen != times:
                lines.append(f"{name}: {key!r} seen {seen} times, not {times}")
        lines += [f"{name}: {key!r} is in no list without libshard" for key in got]
        most = max(len(own[name]) for own, _ in ranks)
        if len(wanted) > 20 and not name.startswith("whole") and most > 0.85 * sum(wanted.values()):
            lines.append(f"{name}: not divided: {[len(own[name]) for own, _ in ranks]}")
    buckets.tell(label, lines[:8])
    return [err for _, err in ranks]


class Google(http.server.BaseHTTPRequestHandler):
    """objects.list of Google's JSON API, as documented, with pages of at most four."""
    # (name, generation): some names have two.
    OBJECTS = sorted([(f"train/k{i:02d}", 7) for i in range(30)] + [("train/k03", 9), ("train/k04", 8)] +
                     [(f"train/d{i}/x{n}", 3) for i in range(4) for n in range(5)] +
                     [("a", 1), ("train/", 2), ("train/\u56fe", 4), ("trainer", 1), ("z", 1)])

    def do_GET(self):
        """Answer a request for a page."""
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter")
        most = min(int(asked.get("maxResults") or 4), 4)
        begin = tuple(json.loads(asked["pageToken"])) if "pageToken" in asked else ("", 0)
        entries = {}  # place -> item, or None for a prefix
        for name, generation in self.OBJECTS:
            if not name.startswith(prefix) or name < asked.get("startOffset", ""):
                continue
            if asked.get("versions") != "true" and generation < max(
                    g for n, g in self.OBJECTS if n == name):
                continue
            rest = name[len(prefix):]
            if delimiter and delimiter in rest:
                entries[prefix + rest.partition(delimiter)[0] + delimiter, 10 ** 9] = None
            else:
                entries[name, generation] = {"kind": "storage#object", "name": name, "bucket": "b", "size": "1",
                                             "generation": str(generation)}
        left = sorted(place for place in entries if place > begin)
        page = {"kind": "storage#objects"}
        items = [entries[place] for place in left[:most] if entries[place]]
        prefixes = [place[0] for place in left[:most] if not entries[place]]
        page.update({"items": items} if items else {}, **({"prefixes": prefixes} if prefixes else {}))
        if len(left) > most:
            page["nextPageToken"] = json.dumps(left[most - 1])
        body = json.dumps(page).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@contextlib.contextmanager
def google_server():
    """with google_server() as environment: ...; gcsfs would ask Google itself what kind of bucket it is."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Google)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{server.server_port}",
               "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
    finally:
        server.shutdown()
        server.server_close()


def google_pages(buckets):
    """Pages of Google's: the emulator has one page only."""
    with google_server() as env:
        whole, err = buckets.without("apart:found", ["blobs"], **env)
        buckets.check("Google's pages, without libshard", len(whole.get("all", [])) == 55, (whole, err[-800:]))
        text, listing = os.path.join(buckets.folder, "b.txt"), os.path.join(buckets.folder, "b.listing")
        with open(text, "w", encoding="utf-8") as stream:
            stream.writelines(f"gs://b/{name}\n" for name in dict.fromkeys(n for n, _ in Google.OBJECTS)
                              if name.startswith("train/") and name != "train/")
        done = buckets.shardctl("index", text, "--root", "gs://b/train/", "-o", listing)
        buckets.check("a listing of URLs below --root gs://", done.returncode == 0, done.stderr)
        common = {"a", "trainer", "z"}
        for how in ({"SHARD_STRATEGY": "hash"}, {"SHARD_STRATEGY": "range", "SHARD_LISTING": listing},
                    {"SHARD_STRATEGY": "stride", "SHARD_LISTING": listing, "SHARD_SEED": "3"}):
            divided(buckets, f"Google's pages, {how['SHARD_STRATEGY']}", "blobs", "gs://b/train", 3, whole, common,
                    **how, **env)
        told, err = buckets.call("apart:found", ["errors_google"], buckets.shard_environment(
            "gs://train/train", "x", 2, SHARD_STRATEGY="hash", **env))
        kinds = {name: kind for name, (kind, text) in told.items() if "SHARD_RANK='x'" in text}
        buckets.check("Google's clients: their own errors", kinds == {
            "google-cloud-storage": "FailedPrecondition", "gcsfs": "HttpError"}, (told, err[-800:]))
        told, err = buckets.call("apart:found", ["errors_google"], buckets.shard_environment(
            "gs://train/train", 0, 2, SHARD_STRATEGY="range", AWS_ACCESS_KEY_ID=None, **env))
        buckets.check("Google's clients: no listing without HMAC keys", len(told) == 2 and all(
            kind != "listed" and "HMAC" in text for kind, text in told.values()), (told, err[-800:]))


def strangers(buckets):
    """A minio whose function is another: its lists of a dataset's bucket raise, with a line; it does all else."""
    site = os.path.join(buckets.folder, "strangers")
    (where,) = subprocess.run([PYTHON, "-c", "import importlib.util as u; print(*u.find_spec('minio').submodule_search_locations)"],
                              capture_output=True, check=True, env=buckets.environment()).stdout.decode().split()
    shutil.copytree(where, os.path.join(site, "minio"))
    with open(os.path.join(site, "minio", "api.py"), "r+", encoding="utf-8") as stream:
        source = stream.read()
        assert "_list_objects(" in source
        stream.seek(0)
        stream.write(source.replace("_list_objects(", "_list_all_objects("))
    told, err = buckets.call("apart:found", ["errors"], buckets.shard_environment(
        "s3://train/train/", 0, 2, SHARD_STRATEGY="hash", PYTHONPATH=f"{site}:{paths.REPO}"))
    buckets.check("a minio that is not known: its lists raise", told.get("minio", [""])[0] == "RuntimeError" and
                  "SHARD_VIEW=off" in told["minio"][1], (told, err[-800:]))
    told, err = buckets.call("apart:found", ["errors"], buckets.shard_environment(
        "s3://other/train/", 0, 2, SHARD_STRATEGY="hash", PYTHONPATH=f"{site}:{paths.REPO}"))
    buckets.check("a minio that is not known: another bucket", "InvalidAccessKeyId" in str(told.get("minio")), (told, err[-800:]))


def apart(buckets):
    """The clients that are not botocore's, where their ways differ."""
    # Beside the dataset; or called like the prefix that is asked for.
    common = {f"{start}{key}" for key in ("train", "train.txt", "trainer/x", "valid/1", "valid/2")
              for start in ("", "s3://train/")} | {("s3://train/train/cat/*", "s3://train/train/cat/")}
    bare = {way: buckets.without("apart:found", [way]) for way in ("connector", "rust")}
    for way, how in (("connector", "range"), ("connector", "hash"), ("rust", "stride")):
        whole, err = bare[way]
        buckets.check(f"{way}, without libshard", whole, err)
        divided(buckets, f"{way}, {how}", way, "s3://train/train", 2, whole, common, SHARD_STRATEGY=how)
    told, err = buckets.call("apart:found", ["errors"], buckets.shard_environment("s3://train/train/", "x", 2))
    kinds = {name: kind for name, (kind, text) in told.items() if "SHARD_RANK='x'" in text}
    buckets.check("errors are the clients' own", kinds == {
        "minio": "S3Error", "s3dlio": "RuntimeError", "s3torchconnector": "S3Exception"}, (told, err[-800:]))
    strangers(buckets)
    google_pages(buckets)
