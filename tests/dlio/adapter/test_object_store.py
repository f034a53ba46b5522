"""What is asked for in the place of an object store's library, and what becomes of the answer."""
import os
import types
import unittest
import unittest.mock

from _libshard import listing
from _libshard.parts import bucket, object_store
from _libshard.parts.tokens import Refusal

from .plain import WORK, touch

NAMES = ["img_%02d.npz" % i for i in range(12)] + ["Z.npz", "sub/img.npz", "sub-x.npz",
                                                     "\u00e9.npz"]


class Store:
    """A storage class of that shape."""

    def __init__(self, library="s3dlio", **more):
        self.storage_library, self.uri_scheme, self.root = library, "s3", "bucket"
        self.endpoint, self.region = "http://one:1", "mars-1"
        self.access_key_id, self.secret_access_key = "ID", "KEY"
        self.use_full_object_uri = False
        self.s3_client = types.SimpleNamespace(s3client_config=types.SimpleNamespace(
            profile=None, force_path_style=False))
        self.__dict__.update(more)

    def get_uri(self, id):
        """An identifier as a URI."""
        return id if "://" in id else "%s://%s/%s" % (self.uri_scheme, self.root, id.lstrip("/"))


def arguments(**more):
    """DLIO's, as far as they are looked at."""
    return types.SimpleNamespace(**{
        "storage_type": "s3", "framework": "pytorch", "data_loader": "pytorch",
        "data_loader_sampler": "index", "format": "npz", "comm_size": 2, **more})


def answer(names, store, folder="data/train", **more):
    """([url, options, {variable: value}], FileList) where the bucket has these names."""
    root = os.path.join(WORK, "bucket-%08x" % (hash(tuple(names)) & 0xffffffff))
    touch(*(os.path.join(root, name) for name in names))
    asked = []

    def of_bucket(url, options, variables, turn, since):
        asked.extend((url, options, dict(v.partition("=")[::2] for v in variables), turn, since))
        return listing.Listing.of_dataset(root, "hidden=1 " + options)

    with unittest.mock.patch.object(listing.Listing, "of_bucket", of_bucket):
        return asked, object_store.files(store, arguments(**more), folder)


class TestObjectStore(unittest.TestCase):
    """files()."""

    def variables(self, **more):
        """Some AWS_ variables, and no other."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        return unittest.mock.patch.dict(os.environ, {**kept, **more}, clear=True)

    def test_names(self):
        """URIs as DLIO makes them, in Python's order."""
        for store, folder, before, url in (
                (Store(), "data/train", "s3://bucket/data/train/", "s3://bucket/data/train/"),
                (Store(), "/data/train", "s3://bucket/data/train/", "s3://bucket/data/train/"),
                (Store(), "s3://other/a b/train", "s3://other/a b/train/", "s3://other/a b/train/"),
                (Store("minio", use_full_object_uri=True), "data/train", "s3://bucket/data/train/",
                 "s3://bucket/s3://bucket/data/train/"),
                (Store("s3dlio", use_full_object_uri=True), "data/train", "s3://bucket/data/train/",
                 "s3://bucket/data/train/")):
            asked, files = answer(NAMES, store, folder)
            self.assertEqual(asked[0], url)
            self.assertEqual(list(files), sorted(
                store.get_uri(os.path.join(folder, name)) for name in NAMES))
            self.assertEqual(files.prefix, before)

    def test_account(self):
        """Each library's own endpoint, region, addressing and token."""
        with self.variables(AWS_SESSION_TOKEN="T", AWS_REGION="venus-1"):
            of_s3dlio = answer(NAMES, Store("s3dlio"))[0][2]
            of_connector = answer(NAMES, Store("s3torchconnector"))[0][2]
            of_minio = answer(NAMES, Store("minio", endpoint="host:9000"))[0][2]
        self.assertEqual([one["AWS_REGION"] for one in (of_s3dlio, of_connector, of_minio)],
                         ["venus-1", "mars-1", "mars-1"])
        each = (of_s3dlio, of_connector, of_minio)
        self.assertEqual(["AWS_SESSION_TOKEN" in one for one in each], [False, False, True])
        self.assertEqual([one.get("SHARD_S3_ADDRESSING") for one in each], ["path", None, "path"])
        self.assertEqual(of_minio["AWS_ENDPOINT_URL_S3"], "http://host:9000")
        self.assertEqual((of_minio["AWS_ACCESS_KEY_ID"], of_minio["AWS_SECRET_ACCESS_KEY"]),
                         ("ID", "KEY"))
        with self.variables(AWS_ENDPOINT_URL_S3="http://two:2"):
            self.assertEqual(answer(NAMES, Store())[0][2]["AWS_ENDPOINT_URL_S3"], "http://two:2")
        with self.variables():
            self.assertEqual(answer(NAMES, Store())[0][2]["AWS_REGION"], "us-east-1")
            self.assertEqual(answer([], Store(endpoint=None)), ([], None))

    def test_refused(self):
        """What DLIO, or the library, does otherwise."""
        profile = types.SimpleNamespace(s3client_config=types.SimpleNamespace(
            profile="p", force_path_style=True))
        for store, folder, more, why in (
                (Store("other"), "data", {}, "only s3dlio"),
                (Store(uri_scheme="gs"), "data", {}, "only s3dlio"),
                (Store(), "data?", {}, "s3://bucket/folder"),
                (Store(), "s3://b@d/x", {}, "s3://bucket/folder"),
                (Store(), "gs://bucket/x", {}, "s3://bucket/folder"),
                (Store(), "data", {"framework": "tensorflow"}, "PyTorch loader"),
                (Store(), "data", {"data_loader": "dali"}, "PyTorch loader"),
                (Store(), "data", {"data_loader_sampler": "iterative"}, "index sampler"),
                (Store("s3torchconnector", s3_client=profile), "data", {}, "s3_profile"),
                (Store("s3torchconnector", s3_client=object()), "data", {}, "s3_profile")):
            with self.assertRaisesRegex(Refusal, why):
                answer(NAMES, store, folder, **more)
        with self.assertRaisesRegex(Refusal, "may hold"):
            answer(["a:b/c.npz", "d.npz"], Store())
        self.assertEqual(len(answer(["a:b/c.npz", "d.npz"], Store(), "s3://bucket/x")[1]), 2)
        with self.assertRaisesRegex(Refusal, "XML"):
            answer(["a\x01.npz", "d.npz"], Store())
        self.assertIsNone(answer(["a.txt"], Store())[1])

    def test_turns(self):
        """Ranks of a job share a listing, each round has its own; one process lists anew."""
        rounds = [answer(NAMES, Store(), "turns")[0][3:] for _ in range(3)]
        self.assertEqual([turn for turn, _ in rounds], [1, 2, 3])
        self.assertEqual({since for _, since in rounds}, {bucket.STARTED})
        self.assertEqual(answer(NAMES, Store(), comm_size=1)[0][3:], [0, 0])

    def test_direct(self):
        """s3dlio's list of a folder: what lies below, too."""
        def direct(names, links=()):
            root = os.path.join(WORK, "direct-%d" % len(os.listdir(WORK)))
            touch(*(os.path.join(root, "data", "train", name) for name in names))
            for target, name in links:
                os.symlink(target, os.path.join(root, "data", "train", name))
            store = Store(uri_scheme="direct", root=root)
            return store, object_store.files(store, arguments(storage_type="direct_fs"),
                                             "data/train", chunks=True)

        more = NAMES + [".hidden.npz", "x.txt", "sub/deep/er.npz"]
        store, files = direct(more, [("Z.npz", "link.npz"), ("nowhere", "dangling.npz")])
        self.assertEqual(list(files), sorted(
            store.get_uri("data/train/" + name) for name in more + ["link.npz", "dangling.npz"]
            if name.endswith("npz")))
        with self.assertRaisesRegex(Refusal, "links"):
            direct(NAMES, [("sub", "linked")])
        with unittest.mock.patch.object(object_store, "CHUNK", 16):
            self.assertEqual(len(direct(NAMES)[1]), len(NAMES))
            with self.assertRaisesRegex(Refusal, "order"):
                direct(NAMES + ["x.txt"])
            flat = ["%d.%s" % (i, "txt" if i % 3 else "npz") for i in range(100)]
            store, files = direct(flat)
            shown = [entry.name for entry in os.scandir(os.path.join(store.root, "data", "train"))]
            chunks = [sorted(store.get_uri("data/train/" + name) for name in shown[i:i + 16]
                             if name.endswith("npz")) for i in range(0, 100, 16)]
            self.assertEqual(list(files), sum(chunks, []))
        self.assertIsNone(direct(["x.txt"])[1])
        self.assertIsNone(object_store.files(
            Store("minio", uri_scheme="direct"), arguments(storage_type="direct_fs"), "data/train"))
