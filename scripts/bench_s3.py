"""The parts `s3` and `s3-connections` of make bench: listing a bucket of 1,000,000 keys.

shardctl index beside boto3's paginator, s3dlio's list (if it is installed) and plain requests: the
same pages, asked for by a known division of the keys into equal ranges and read without looking at
them, which is what the server can give. Without delay, and with 20 ms added by a proxy.

    part_s3(args, report), part_s3_connections(args, report)     called by bench.py
    python -m scripts.bench_s3 [--keys N] [--rounds R] [--only NAMES]     the first by itself: prints the rows
"""
import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import time

from tests.harness import paths, s3
from tests.harness.options import temporary_folder

ACCESS, SECRET = "AKIDTESTTESTTEST0001", "testSecretKeyOfNoValue/+0123456789ABCDEFG"
CONNECTIONS = 32
PAGE = 1000
# Starts a proxy of its own process, so that this one's Python does not slow it down.
PROXY = """
import sys
from tests.harness.proxy import Proxy
with Proxy(sys.argv[1], delay=float(sys.argv[2])) as proxy:
    print(proxy.endpoint, flush=True)
    sys.stdin.read()
    print(proxy.requests, flush=True)
"""


class Delayed:
    """A proxy that adds a delay to each request."""

    def __init__(self, upstream, delay):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROXY, upstream, str(delay)], cwd=paths.REPO,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = self.process.stdout.readline().strip()

    def stop(self):
        """Requests that passed."""
        return int(self.process.communicate(timeout=30)[0])


def environment(endpoint, connections=CONNECTIONS):
    """What all that lists needs."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "SHARD_"))}
    env.update(AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1",
               AWS_ENDPOINT_URL=endpoint, SHARD_S3_CONNECTIONS=str(connections))
    return env


def by_shardctl(shardctl, endpoint, bucket, folder, connections=CONNECTIONS):
    """(seconds, facts) of an index."""
    # By a shell: a process inherits the peak memory of what executes it.
    done = subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", shardctl, "index", f"s3://{bucket}",
                           "-o", os.path.join(folder, "l"), "--json"],
                          env=environment(endpoint, connections), stdout=subprocess.PIPE, check=True)
    facts = json.loads(done.stdout)
    return facts["seconds"], facts


def by_boto3(endpoint, bucket, most):
    """Keys per second over the first `most` keys."""
    begin, count = time.monotonic(), 0
    for page in s3.client(endpoint, ACCESS, SECRET).get_paginator("list_objects_v2").paginate(Bucket=bucket):
        count += len(page.get("Contents", []))
        if count >= most:
            break
    return count / (time.monotonic() - begin)


def by_s3dlio(endpoint, bucket):
    """(seconds, keys); None if there is no s3dlio."""
    code = ("import sys, time, s3dlio; b = time.monotonic(); n = len(s3dlio.list(sys.argv[1], "
            "recursive=True)); print(time.monotonic() - b, n)")
    env = dict(environment(endpoint), AWS_ENDPOINT_URL_S3=endpoint)
    done = subprocess.run([sys.executable, "-c", code, f"s3://{bucket}/"], env=env,
                          capture_output=True, text=True, check=False, timeout=900)
    if done.returncode != 0:
        return None
    seconds, count = done.stdout.split()
    return float(seconds), int(count)


# One of several processes that ask for pages; sends and receives, and looks for the token only.
PLAIN = """
import http.client, sys, threading, time, urllib.parse
import botocore.auth, botocore.awsrequest, botocore.credentials
endpoint, access, secret, bucket = sys.argv[1:5]
host = urllib.parse.urlsplit(endpoint).netloc
signer = botocore.auth.S3SigV4Auth(botocore.credentials.Credentials(access, secret), "s3", "us-east-1")
def work(cuts):
    link = http.client.HTTPConnection(host)
    for cut in cuts:
        url = f"{endpoint}/{bucket}?encoding-type=url&list-type=2&max-keys=1000&prefix="
        if cut:
            url += "&start-after=" + urllib.parse.quote(cut, safe="")
        request = botocore.awsrequest.AWSRequest(method="GET", url=url)
        signer.add_auth(request)
        link.request("GET", url[len(endpoint):], headers=dict(request.headers))
        reply = link.getresponse()
        body = reply.read()
        assert reply.status == 200 and b"</ListBucketResult>" in body[-40:], reply.status
cuts = sys.stdin.read().split("\\n")
begin = time.monotonic()
threads = [threading.Thread(target=work, args=(cuts[i::int(sys.argv[5])],)) for i in range(int(sys.argv[5]))]
for t in threads: t.start()
for t in threads: t.join()
print(time.monotonic() - begin)
"""


def by_plain_requests(endpoint, bucket, keys, connections=CONNECTIONS):
    """Seconds for all pages, each begun where it is known to begin, on as many connections."""
    cuts = [""] + [keys[i - 1] for i in range(PAGE, len(keys), PAGE)]
    number = min(2, connections)
    workers = [subprocess.Popen([sys.executable, "-c", PLAIN, endpoint, ACCESS, SECRET, bucket,
                                 str(connections // number)], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True) for _ in range(number)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        told = list(pool.map(lambda pair: pair[1].communicate("\n".join(cuts[pair[0]::number]))[0],
                             enumerate(workers)))
    if any(worker.returncode for worker in workers):
        raise RuntimeError("plain requests failed")
    return max(float(seconds) for seconds in told)


def measure(args, report, endpoint, delay, name, keys):
    """The rows of one distribution."""
    folder = os.path.join(args.folder, "s3")
    os.makedirs(folder, exist_ok=True)
    shardctl = os.path.join(os.path.dirname(args.preload), "shardctl")
    proxy = Delayed(endpoint, delay) if delay else None
    where = proxy.endpoint if proxy else endpoint
    what = f"S3, {name}, {len(keys):,} keys" + (f", {1000 * delay:.0f} ms" if delay else "")
    ours, plain, facts = [], [], {}

    def run_ours():
        seconds, found = by_shardctl(shardctl, where, name, folder)
        ours.append(seconds)
        facts.update(found)
        if facts["entries"] != len(keys):
            raise RuntimeError(f"{what}: {facts['entries']} keys")

    def run_plain():
        plain.append(by_plain_requests(where, name, keys))

    pair = [run_ours, run_plain]
    for _ in range(args.rounds):
        for run in pair:
            run()
        pair.reverse()  # the second one may find the server warmer
    rate, limit = len(keys) / statistics.median(ours), len(keys) / statistics.median(plain)
    # Of pairs, for the server's own speed drifts by a third within minutes.
    ratio = statistics.median(theirs / own for own, theirs in zip(ours, plain))
    least = 0.6 if delay else 0.9
    report.add(what, "keys/s", rate, "plain requests, ideal ranges", limit, ratio, f">= {least}",
               ratio >= least)
    most = 1.5 * -(-len(keys) // PAGE) + 64
    report.add(what + ": requests", "", facts["requests"], "ideal", -(-len(keys) // PAGE),
               facts["requests"] / -(-len(keys) // PAGE), f"<= {most:.0f}",
               facts["requests"] <= most)
    if name == "numbers":
        report.add(what + ": peak memory", "MB", facts["peak_rss"] / 1e6, "bound", 128,
                   facts["peak_rss"] / 128e6, "<= 128 MB", facts["peak_rss"] <= 128e6)
        boto = by_boto3(where, name, 20000)
        report.add(what, "keys/s", rate, "boto3's paginator", boto, rate / boto, "> 1", rate > boto)
        other = by_s3dlio(where, name)
        if other and other[1] == len(keys):
            theirs = other[1] / other[0]
            times = 4 if delay else 1
            report.add(what, "keys/s", rate, "s3dlio's list", theirs, rate / theirs,
                       f">= {times}", rate / theirs >= times)
    if proxy:
        proxy.stop()


def make_bucket(made, state, name, keys):
    """A bucket with these keys; they are sorted then, as the server lists them."""
    made.create_bucket(Bucket=name)
    s3.fill(made, state, name, keys)
    keys.sort(key=str.encode)


def part_s3(args, report):
    """1,000,000 keys of each distribution, without and with delay."""
    from tests.s3.ranges import distributions  # pylint: disable=import-outside-toplevel
    with temporary_folder("shard-bench-s3-") as folder:
        state = os.path.join(folder, "server")
        with s3.server(state, ACCESS, SECRET) as endpoint:
            made = s3.client(endpoint, ACCESS, SECRET)
            for name, keys in distributions(getattr(args, "keys", 1000000)):
                if getattr(args, "names", None) and name not in args.names:
                    continue
                make_bucket(made, state, name, keys)
                for delay in (0, 0.02):
                    measure(args, report, endpoint, delay, name, keys)


def part_s3_connections(args, report):
    """Numbered keys with a delay of 20 ms, by the number of connections; the other clients as they come."""
    from tests.s3.ranges import distributions  # pylint: disable=import-outside-toplevel
    name, keys = next(distributions(300_000))
    shardctl = os.path.join(os.path.dirname(args.preload), "shardctl")
    with temporary_folder("shard-bench-s3-") as folder, s3.server(os.path.join(folder, "server"), ACCESS, SECRET) as endpoint:
        make_bucket(s3.client(endpoint, ACCESS, SECRET), os.path.join(folder, "server"), name, keys)
        proxy = Delayed(endpoint, 0.02)
        for connections in (1, 2, 4, 8, 16, 32):
            ours, limit, boto, other = (statistics.median(found) for found in zip(*(
                (len(keys) / by_shardctl(shardctl, proxy.endpoint, name, folder, connections)[0],
                 len(keys) / by_plain_requests(proxy.endpoint, name, keys, connections),
                 by_boto3(proxy.endpoint, name, 20000) if connections == 1 else 0,
                 len(keys) / (by_s3dlio(proxy.endpoint, name) or [float("inf")])[0] if connections == 32 else 0)
                for _ in range(args.rounds))))
            for peer, rate in (("plain requests, ideal ranges", limit), ("boto3's paginator", boto), ("s3dlio's list", other)):
                if rate:
                    report.add(f"s3-connections: {connections} connections", "keys/s", ours, peer, rate, ours / rate, "", None)
        proxy.stop()


def main():
    """By itself."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1000000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", help="names of the distributions, separated by ','")
    args = parser.parse_args()
    args.names = args.only.split(",") if args.only else None
    args.preload = paths.LIBRARY
    args.folder = os.path.join(paths.BUILD, "bench")
    from scripts import bench  # pylint: disable=import-outside-toplevel
    report = bench.Report()
    part_s3(args, report)
    report.table()


if __name__ == "__main__":
    main()
