"""shard_dataset_open_s3(): when a call lists a bucket anew, and what gets to whom.

    python -m tests.dlio.s3_native [--preload LIB]

A process opens a listing of a real server's bucket (scripts/s3-server.sh), behind a proxy that sees every request.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
import uuid

from tests.harness import confine, options, processes, s3
from tests.harness.proxy import Proxy
from tests.harness.verdicts import Verdicts

# A process that opens a listing: the library on the command line, the arguments on standard input.
OPENER = '''
import ctypes, json, os, sys
text, listing, before = ctypes.create_string_buffer(1000), ctypes.c_void_p(), dict(os.environ)
shard = ctypes.CDLL(sys.argv[1])
url, variables, turn, since = json.load(sys.stdin)
array = (ctypes.c_char_p * (len(variables) + 1))(*(v.encode() for v in variables))
rc = shard.shard_dataset_open_s3(url.encode(), b"include=*.npz", array, ctypes.c_uint64(turn), ctypes.c_int64(since),
                                 ctypes.byref(listing), text, ctypes.c_size_t(1000))
shard.shard_listing_count.restype = ctypes.c_uint64
print("%d entries" % shard.shard_listing_count(listing) if rc == 0 else text.value.decode(errors="replace"))
if dict(os.environ) != before:
    print("the environment was changed")
'''
# Of this run alone: /proc is searched for it.
ACCESS, SECRET = "AKIDTESTTESTTEST0002", "testSecretOfS3NativeHook/+" + uuid.uuid4().hex
WRONG = "wrongSecretOfS3NativeHook/9"


def is_list(target):
    """The prefix of a LIST request, else None."""
    fields = dict(urllib.parse.parse_qsl(target.partition("?")[2], keep_blank_values=True))
    return fields.get("prefix", "") if "list-type" in fields else None


class Watch:
    """Which processes show the secret, by command lines and environments, when one of them asks for a list: for a proxy."""

    def __init__(self):
        self.lines, self.holders = set(), set()

    def __call__(self, request):
        if is_list(request.target) is None:
            return
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as stream:
                    line = stream.read()
                with open(f"/proc/{pid}/environ", "rb") as stream:
                    environment = stream.read()
                with open(f"/proc/{pid}/comm", encoding="utf-8") as stream:
                    name = stream.read().strip()
            except OSError:
                continue
            if SECRET.encode() in line:
                self.lines.add(line)
            if SECRET.encode() in environment:
                self.holders.add(name)


class Tests:
    """The server, a bucket of 16 NPZ files in each folder, and the verdicts."""

    def __init__(self, args, work, endpoint):
        self.args, self.work, self.endpoint = args, work, endpoint
        self.verdicts = Verdicts()
        client = s3.client(endpoint, ACCESS, SECRET)
        client.create_bucket(Bucket="bucket")
        for kind in ("train", "valid"):
            for name in (*(f"img_{i:02d}.npz" for i in range(16)), "README.txt"):
                client.put_object(Bucket="bucket", Key=f"plain/{kind}/{name}", Body=b"")

    def call(self, name, lists, variables, turn=0, since=0, url="s3://bucket/plain/train", proxies=(), words=(), job="a", **more):
        """A process that opens a listing: how often that makes the proxies list."""
        before = [proxy.requests for proxy in proxies]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "SHARD_"))}
        env.update(SHARD_CACHE_DIR=os.path.join(self.work, "api"), **more)
        if job:
            env.update(SHARD_JOB=job, SHARD_RANK="0", SHARD_SIZE="1")
        done = subprocess.run(["/usr/bin/python3", "-c", OPENER, self.args.preload],
                              input=json.dumps([url, variables, turn, since]), env=env, capture_output=True, text=True,
                              timeout=processes.HANGS, check=False)
        listed = [proxy.requests - number for proxy, number in zip(proxies, before)]
        # Processes one after the other: that is said of SHARD_JOB.
        said = [line for line in done.stderr.splitlines() if "no process of that job has it open" not in line]
        good = listed == lists and all(word in done.stdout for word in words) and not said and done.stdout.count("\n") == 1
        self.verdicts.check(name, good and not any(s in done.stdout + done.stderr for s in (SECRET, WRONG)), (listed, done))

    def api(self):
        """When it lists anew."""
        watch = Watch()
        with Proxy(self.endpoint, fault=watch) as one, Proxy(self.endpoint) as two:
            both = {"proxies": (one, two), "words": ("16 entries",)}
            keys = [f"AWS_ACCESS_KEY_ID={ACCESS}", f"AWS_SECRET_ACCESS_KEY={SECRET}", "AWS_REGION=us-east-1"]
            here, there = keys + [f"AWS_ENDPOINT_URL_S3={one.endpoint}"], keys + [f"AWS_ENDPOINT_URL_S3={two.endpoint}"]
            self.call("round 0 lists", [1, 0], here, **both)
            # The servers were started with it.
            self.verdicts.check("keys are in shardctl's environment alone", not watch.lines and
                       # It is run by a descriptor, whose number is its name until it gives itself one.
                       {name for name in watch.holders if not name.isdigit()} - {"ceph-mon", "ceph-osd", "radosgw"}
                       == {"shardctl"}, (watch.holders, watch.lines))
            self.call("round 0 lists anew", [1, 0], here, **both)
            begin = time.time_ns()
            self.call("a round lists, whatever there is", [1, 0], here, 1, 1, **both)
            self.call("once for the job", [0, 0], here, 1, 1, **both)
            self.call("and since then", [0, 0], here, 1, begin, **both)
            self.call("with other keys, too", [0, 0], here[:1] + ["AWS_SECRET_ACCESS_KEY=" + WRONG] + here[2:], 1, 1, **both)
            self.call("the next round", [1, 0], here, 2, 1, **both)
            self.call("another job", [1, 0], here, 1, 1, job="b", **both)
            self.call("no job", [1, 0], here, 1, 1, job=None, **both)
            self.call("too old", [1, 0], here, 1, time.time_ns(), **both)
            self.call("now it is not", [0, 0], here, 1, begin, **both)
            self.call("another endpoint", [0, 1], there, 1, 1, **both)
            self.call("another region", [1, 0], here[:2] + ["AWS_REGION=eu-west-1"] + here[3:], 1, 1, **both)
            self.call("the environment's endpoint", [0, 1], here[:3], 3, 1, AWS_ENDPOINT_URL=two.endpoint, **both)
            self.call("a variable is removed", [0, 1], keys + ["AWS_ENDPOINT_URL_S3", f"AWS_ENDPOINT_URL={two.endpoint}"], 4, 1,
                      AWS_ENDPOINT_URL_S3=one.endpoint, **both)
            # DLIO calls MPI_Init: without mpirun each process then has a namespace of its own.
            elastic = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
            self.call("torchrun", [1, 0], here, 7, 1, job=None, RANK="0", LOCAL_RANK="0", PMIX_NAMESPACE="7", **elastic, **both)
            self.call("torchrun's other rank", [0, 0], here, 7, 1, job=None, RANK="1", LOCAL_RANK="1", PMIX_NAMESPACE="8", **elastic, **both)
            both["words"] = ("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch")
            self.call("wrong secret", [1, 0], here[:1] + ["AWS_SECRET_ACCESS_KEY=" + WRONG] + here[2:], **both)
            both["words"] = ("not of the form http",)
            self.call("endpoint with a password", [0, 0], keys + [f"AWS_ENDPOINT_URL_S3=http://user:{SECRET}@127.0.0.1"], **both)
            # SHARD_LISTING may be of one of them.
            listing = os.path.join(self.work, "given.listing")
            subprocess.run([os.path.join(os.path.dirname(self.args.preload), "shardctl"), "index", "s3://bucket/plain/train/",
                            "--options", "include=*.npz", "-o", listing], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           env={**os.environ, **dict(pair.split("=", 1) for pair in there)})
            both["words"] = ("16 entries",)
            self.call("SHARD_LISTING", [0, 0], here, SHARD_LISTING=listing, **both)
            both["words"] = ("16 entries",)
            self.call("SHARD_LISTING of train, valid asked", [1, 0], here, SHARD_LISTING=listing, url="s3://bucket/plain/valid", **both)


def main():
    """Run all; the exit status is 1 if anything fails."""
    confine.begin()
    processes.end_jobs_on_signals()
    args = options.parse(options.parser(__doc__, "preload"))
    work = tempfile.mkdtemp(prefix="dlio-s3-native-")
    with s3.server(os.path.join(work, "server"), ACCESS, SECRET) as endpoint:
        tests = Tests(args, work, endpoint)
        tests.api()
    return tests.verdicts.conclude(work)


if __name__ == "__main__":
    sys.exit(main())
