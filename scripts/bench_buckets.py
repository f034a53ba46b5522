"""The part `buckets` of make bench: buckets as datasets.

1,000,000 keys in one rank of 8 by boto3's paginator: unfiltered, `range` (the making of the node's
listing included) and `hash`. And tests/buckets/pipeline.py, tars in a bucket by torchdata in 4 ranks
under torchrun, against the same script without libshard, in which each rank reads everything, and against
MosaicML Streaming (peer_streaming.py).

    part_buckets(args, report)     called by bench.py
    python -m scripts.bench_buckets [--keys N] [--rounds R] [--tars N]     by itself: prints the rows
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import time

from tests.buckets.fixture import ACCESS, PYTHON, SECRET, Buckets
from tests.buckets.tars import put_tars, torchrun
from tests.harness import paths, s3
from tests.harness.options import temporary_folder

RANK, SIZE = 3, 8
RANKS, SAMPLES, SIZE_OF_SAMPLE = 4, 50, 100_000  # of training; of a tar; bytes
# Lists a bucket, and prints how many keys it was given and how many seconds that took.
LIST = """
import json, os, sys, time
import boto3
client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
begin, count = time.monotonic(), 0
for page in client.get_paginator("list_objects_v2").paginate(Bucket=sys.argv[1], Prefix="train/"):
    count += len(page.get("Contents", []))
print(json.dumps([count, time.monotonic() - begin]))
"""


def listed(buckets, bucket, how):
    """(keys, seconds) of one rank, which makes the node's listing if it needs one; how: None for unfiltered."""
    shutil.rmtree(os.path.join(buckets.folder, "cache"), ignore_errors=True)
    buckets.jobs += 1
    env = buckets.environment() if how is None else buckets.shard_environment(
        f"s3://{bucket}/train/", RANK, SIZE, SHARD_STRATEGY=how)
    done = subprocess.run([paths.VENV_PYTHON, "-c", LIST, bucket], env=env, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def measure_listing(args, report, buckets):
    """The rows of listing."""
    keys = [f"train/{i // 10000:04d}/img_{i:08d}.jpeg" for i in range(args.keys)]
    buckets.client.create_bucket(Bucket="many")
    s3.fill(buckets.client, buckets.state, "many", keys)
    ways = [None, "range", "hash"]
    took = {how: [] for how in ways}
    for _ in range(args.rounds):
        for how in ways:
            count, seconds = listed(buckets, "many", how)
            share = args.keys if how is None else args.keys / SIZE
            if abs(count - share) > (1 if how != "hash" else 0.1 * share + 50):
                raise RuntimeError(f"{how}: {count} keys")
            took[how].append(seconds)
        ways.reverse()  # the last one may find the server warmer
    bare = statistics.median(took[None])
    for how, goal, least in (("range", ">= 4 times as fast", 4), ("hash", "at most 5 % slower", 1 / 1.05)):
        ratio = statistics.median(one / other for one, other in zip(took[None], took[how]))
        report.add(f"list {args.keys:,} keys by boto3, {how}, 1 of {SIZE} ranks", "s", statistics.median(took[how]),
                   "unfiltered boto3", bare, ratio, goal, ratio >= least)


def trained(buckets, env, script, wanted, only_count=False):
    """Samples that a job of 4 ranks has read, each counted once, a second. only_count: of those that it has read
    it matters how many they are (Streaming has once read some twice, and others not)."""
    begin = time.monotonic()
    done = torchrun(buckets, RANKS, script, env)
    seconds = time.monotonic() - begin
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"[[")]
    read = [sum(ranks, []) for ranks in lines]
    if len(read) != 1 or len(read[0]) != len(wanted) or not (only_count or sorted(read[0]) == sorted(wanted)):
        raise RuntimeError(f"{script} read {[len(rank) for line in lines for rank in line]} samples: "
                           f"{done.stderr.decode()[-500:]}")
    return len(set(wanted)) / seconds


def put_copy(buckets, tars):
    """The samples once more, as MosaicML Streaming reads them."""
    folder = os.path.join(buckets.folder, "mds")
    subprocess.run([PYTHON, "-m", "scripts.peer_streaming", "write", folder, *map(str, (tars, SAMPLES, SIZE_OF_SAMPLE))],
                   cwd=paths.REPO, check=True)
    buckets.client.create_bucket(Bucket="mds")
    for name in os.listdir(folder):
        buckets.client.upload_file(os.path.join(folder, name), "mds", "train/" + name)


def measure_tars(args, report, buckets):
    """The rows of training; from torchrun's start to its end."""
    names = put_tars(buckets.client, "tars", args.tars, SAMPLES, SIZE_OF_SAMPLE)
    put_copy(buckets, args.tars)
    pipeline = [paths.source("buckets", "pipeline.py"), "s3://tars/train", "fork", "1"]
    rates = {"libshard": [], "bare": [], "streaming": []}
    for number in range(args.rounds):
        local = os.path.join(buckets.folder, f"streaming-{number}")
        peer = [os.path.join(paths.REPO, "scripts", "peer_streaming.py"), "read", "s3://mds/train", local]
        bare = buckets.environment()
        buckets.jobs += 1
        rates["bare"].append(trained(buckets, bare, pipeline, names * RANKS))
        rates["libshard"].append(trained(buckets, buckets.shard_environment("s3://tars/train", 0, RANKS), pipeline, names))
        bare["S3_ENDPOINT_URL"] = bare["AWS_ENDPOINT_URL"]
        rates["streaming"].append(trained(buckets, bare, peer, names, only_count=True))
        shutil.rmtree(local)
    medians = {who: statistics.median(rate) for who, rate in rates.items()}
    for peer, what, goal in (("bare", "the same script without libshard", "> 1"),
                             ("streaming", "MosaicML Streaming, on a copy in its format", None)):
        ratio = medians["libshard"] / medians[peer]
        report.add(f"torchdata over {args.tars} tars in a bucket, {RANKS} ranks: an epoch", "samples/s", medians["libshard"],
                   what, medians[peer], ratio, goal or "none", ratio > 1 if goal else None)


def part_buckets(args, report):
    """All rows."""
    args.keys, args.tars = getattr(args, "keys", 1_000_000), getattr(args, "tars", 64)
    with temporary_folder("shard-bench-buckets-") as folder:
        state = os.path.join(folder, "server")
        with s3.server(state, ACCESS, SECRET) as endpoint:
            buckets = Buckets(folder, state, endpoint)
            measure_tars(args, report, buckets)
            measure_listing(args, report, buckets)


def main():
    """By itself."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--tars", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    from scripts import bench  # pylint: disable=import-outside-toplevel
    report = bench.Report()
    part_buckets(args, report)
    report.table()


if __name__ == "__main__":
    main()
