"""Google Cloud Storage, by an emulator."""
import os
import subprocess

from tests.buckets.client import google_client
from tests.buckets.fixture import PYTHON

SERVER = """
import sys
from gcp_storage_emulator.server import create_server
server = create_server("127.0.0.1", 0, in_memory=True, default_bucket=None)
server.start()
print(server._api._httpd.server_port, flush=True)
sys.stdin.read()
server.stop()
"""


def make(keys):
    """Put them into a bucket; how many there are."""
    bucket = google_client().create_bucket("gs-train")
    for key in keys:
        bucket.blob(key).upload_from_string(key.encode())
    return len(keys)


def google(buckets):
    """list_blobs and gcsfs: hash by filtering, range and stride from a listing that was made before."""
    server = subprocess.Popen([PYTHON, "-c", SERVER], stdin=subprocess.PIPE, env=buckets.environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        # It listens by then. gcsfs would ask Google itself what kind of bucket it is.
        env = {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{int(server.stdout.readline())}",
               "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
        keys = [f"train/{name}" for name in ["a b", "a+b", "\u56fe", "a", "ab"] + [f"d/{n:02d}" for n in range(20)]]
        keys += ["trainer", "valid/x"]
        made, err = buckets.without("google:make", [keys], **env)
        buckets.check("google: objects", made == len(keys), err)
        train = {"bucket": "gs-train", "prefix": "train/"}
        asked = [["google", train], ["google", {**train, "size": 3}], ["google", {"bucket": "gs-train", "prefix": ""}],
                 ["google_get", {"bucket": "gs-train", "keys": keys}], ["gcsfs", train]]
        names = sorted(key.removeprefix("train/") for key in keys if key.startswith("train/"))
        listing, text = os.path.join(buckets.folder, "google.listing"), os.path.join(buckets.folder, "google.txt")
        with open(text, "w", encoding="utf-8") as stream:
            stream.write("".join(name + "\n" for name in names))
        made = buckets.shardctl("index", text, "--root", "gs://gs-train/train/", "-o", listing)
        buckets.check("google: a listing from a text", made.returncode == 0, made.stderr)
        for how in ("hash", "range", "stride"):
            more = {} if how == "hash" else {"SHARD_LISTING": listing}
            buckets.compare(f"google-cloud-storage and gcsfs, {how}", asked, buckets.bare(asked, **env),
                            buckets.ranks(2, "gs://gs-train/train/", asked, SHARD_STRATEGY=how, **more, **env),
                            buckets.owners(listing, 2, SHARD_STRATEGY=how), "train/")
        absent = [["google", {"bucket": "absent", "prefix": "train/"}], ["gcsfs", {"bucket": "absent", "prefix": "train/"}]]
        said = [[one.get("error", ["listed"])[0] for one in answers] for answers in (
            buckets.bare(absent, **env), *(found for found, _ in buckets.ranks(
                2, "gs://absent/train/", absent, some=[1], SHARD_STRATEGY="range", **env)))]
        buckets.check("google: a bucket that is not there, as without libshard", said[0] == said[1] and "listed" not in said[0], said)
    finally:
        server.stdin.close()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
