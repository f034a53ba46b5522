"""A second real server, whose pages, tokens and markers are others: rclone serve s3."""
import os
import re
import subprocess

from tests.buckets.fixture import ACCESS, SECRET, VENV
from tests.buckets.matrix import named

RCLONE = os.path.join(VENV, "bin", "rclone")
KEYS = [f"train/{name}" for name in ("a b", "a+b", "100%", "\u56fe", "z")] + [
    f"train/{folder}/{n:02d}" for folder in ("cat", "cat-2", "deep/er") for n in range(12)] + ["valid/1", "trainer"]


def second(buckets):
    """Each client, by its ways to list and with pages of 1, 7 and 1000: what it finds bare is what 1, 3 and 8 ranks find."""
    if not os.path.exists(RCLONE):
        buckets.check(f"{RCLONE} is there (scripts/setup.sh test makes it)", False)
        return
    folder = os.path.join(buckets.folder, "rclone")
    for key in KEYS:
        path = os.path.join(folder, "files", "second", key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(key)
    server = subprocess.Popen([RCLONE, "serve", "s3", "--addr", "127.0.0.1:0", "--auth-key", f"{ACCESS},{SECRET}",
                               os.path.join(folder, "files")], env=buckets.environment(), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
    try:
        found = None
        while not found:  # it listens by then
            line = server.stderr.readline().decode()
            assert line, "rclone has ended"
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
        endpoint = found[0]
        train = {"bucket": "second", "prefix": "train/"}
        asked = [["paginator", {"bucket": "second", "Prefix": "train/", "version": version, "size": size}]
                 for version in (1, 2) for size in (1, 7, 1000)]
        asked += [["paginator", {"bucket": "second", "Prefix": prefix}] for prefix in ("", "train/cat", "train/cat/", "none/")]
        asked += [["folders", {**train, "size": 1000}], ["s3fs_find", train], ["s3fs_walk", train],
                  ["smart_open", train], ["minio", {**train, "recursive": True}], ["minio", {**train, "recursive": False}]]
        slow = [["s3dlio", train], ["connector_iterable", train]]  # what loads PyTorch
        for size, how in ((1, {"SHARD_STRATEGY": "stride"}), (3, {"SHARD_STRATEGY": "range"}), (8, {"SHARD_STRATEGY": "hash"}),
                          (8, {"SHARD_STRATEGY": "range"}), (3, {"SHARD_STRATEGY": "stride", "SHARD_SEED": "5"})):
            ways = asked + slow * (how == {"SHARD_STRATEGY": "hash"})
            ranks = buckets.ranks(size, "s3://second/train/", ways, endpoint=endpoint, **how)
            owners = {key: rank for rank, (answers, _) in enumerate(ranks) if answers
                      for key, _, _ in answers[2].get("keys", [])}
            buckets.compare(f"rclone, {named(how)}, {size} ranks", ways, buckets.bare(ways, endpoint=endpoint), ranks, owners,
                            "train/")
    finally:
        server.terminate()
        server.communicate()
