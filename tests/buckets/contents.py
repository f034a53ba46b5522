"""What is in the buckets."""
import concurrent.futures
import hashlib

from tests.harness import s3
from tests.s3.keys import HOSTILE

# Keys that file systems, URLs and XML spell in other ways, below one prefix.
TRAIN = ([f"train/{c}" for c in ("a b", "a+b", "a%20b", "100%", "%41", "\u56fe\u50cf", "\u00e9", "e\u0301", "&amp;",
                                 "a", "ab", "abc", "abc.d", "A", "~", "x=1&y=2", "q?", "h#", "'", '"', "c:d", "(1)")] +
         [f"train/{d}/{n}" for d in ("cat", "cat dog", "\u56fe", "b+c", "a", "deep/er") for n in range(12)] +
         ["train/cat/", "train/empty/", "train/z"])
OUTSIDE = ["train", "train.txt", "trainer/x", "valid/1", "valid/2", "zz"]


def fill(buckets):
    """odd: hostile keys; train: tame folders and odd names; few: fewer than ranks; many: pages of keys."""
    # Not even a client alone gets past a page that ends with a control character.
    odd = [key for key in HOSTILE if min(key) >= " " and "\x7f" not in key] + [f"tame/{n:02d}" for n in range(30)]
    keys = {"odd": odd, "train": TRAIN + OUTSIDE, "few": [f"d/{i}" for i in range(5)]}

    def put(bucket, key):
        body = b"" if key.endswith("/") else (hashlib.sha256(key.encode()).hexdigest() * 2)[:1 + len(key) % 97].encode()
        buckets.client.put_object(Bucket=bucket, Key=key, Body=body)
        head = buckets.client.head_object(Bucket=bucket, Key=key)
        return [key, head["ContentLength"], head["ETag"].strip('"')]

    for bucket, each in keys.items():
        buckets.client.create_bucket(Bucket=bucket)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            made = pool.map(lambda key, b=bucket: put(b, key), dict.fromkeys(each))
            buckets.made[bucket] = sorted(made, key=lambda one: one[0].encode())
    many = [f"train/{i // 4000:02d}/img {i:06d}.jpeg" for i in range(24000)]
    buckets.client.create_bucket(Bucket="many")
    s3.fill(buckets.client, buckets.state, "many", many + ["a/outside", "valid/x"])
