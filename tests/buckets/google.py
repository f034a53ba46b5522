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


def generations(bucket, prefix, names):
    """[(name, generation)] that a list of all generations has; the server has two of each of these names."""
    from _libshard.buckets import gcs_pages, seams, share  # pylint: disable=import-outside-toplevel,import-error

    held = [{"name": name, "generation": str(number)} for name in names for number in (1, 2)]

    async def fetch(request):
        at = int(request.get("pageToken") or 0)
        rest = [one for one in held if one["name"] >= request.get("startOffset", "")]
        page = {"items": rest[at:at + int(request.get("maxResults") or 3)]}
        end = at + len(page["items"])
        return {**page, "nextPageToken": str(end)} if end < len(rest) else page

    found = share.find("gs", bucket).begin(prefix, every_version=True)
    page, got = seams.finish(gcs_pages.answer(found, {"prefix": prefix, "versions": "true"}, fetch)), []
    while True:
        got += [[one["name"], int(one["generation"])] for one in page.get("items", ())]
        if "nextPageToken" not in page:
            return got
        page = seams.finish(gcs_pages.answer(found, {"prefix": prefix, "versions": "true",
                                                    "pageToken": page["nextPageToken"]}, fetch))


generations.imports = ["google.cloud.storage"]


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
        named = [f"train/{name}" for name in ("a", "ab", "ac", "ad")]
        given = [found for found, _ in buckets.job(
            "google:generations", ["gs-train", "train/a", named], "gs://gs-train/train/", range(2), 2,
            SHARD_STRATEGY="range", SHARD_LISTING=listing, **env)]
        owners = buckets.owners(listing, 2, SHARD_STRATEGY="range")
        buckets.check("google: all generations of a name that is the prefix itself, for each rank", all(
            found == [[name, number] for name in named for number in (1, 2)
                      if name == "train/a" or owners.get(name, 0) == rank] for rank, found in enumerate(given)), given)
    finally:
        server.stdin.close()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
