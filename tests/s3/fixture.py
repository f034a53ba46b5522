"""The server, a folder, and shardctl started for them: what every part of tests/s3 is given."""
import contextlib
import json
import os
import socket
import subprocess

from tests.harness import paths, s3
from tests.harness.processes import HANGS
from tests.harness.verdicts import Verdicts

ACCESS, SECRET = "AKIDTESTTESTTEST0001", "testSecretKeyOfNoValue/+0123456789ABCDEFG"
TOKEN = "testSessionTokenOfNoValue/+=="
PAGE = 1000  # keys in a reply


def most_requests(keys):
    """How many requests no way of dividing a bucket into ranges exceeds. How many it makes depends on what comes first."""
    return 3 * (keys // PAGE + 1) // 2 + 64


class S3:
    """The server, a folder, and shardctl started for them."""

    def __init__(self, folder, state, endpoint):
        self.folder, self.state, self.endpoint = folder, state, endpoint
        self.file = os.path.join(folder, "listing")
        self.client = s3.client(endpoint, ACCESS, SECRET)
        self.output = b""  # all that shardctl has written, to be searched for secrets
        self.verdicts = Verdicts()
        self.check = self.verdicts.check

    def environment(self, endpoint=None, **more):
        """shardctl's. A value None removes a variable."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "SHARD_")) and
               not k.lower().endswith("_proxy")}
        env.update(AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1",
                   AWS_ENDPOINT_URL=endpoint or self.endpoint, HOME=self.folder, TMPDIR=self.folder,
                   SHARD_LOG="debug")
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    def run(self, *arguments, endpoint=None, **more):
        """A finished process; its output is kept for the search for secrets."""
        done = subprocess.run([paths.SHARDCTL, *arguments], env=self.environment(endpoint, **more), capture_output=True,
                              timeout=HANGS, check=False)
        self.output += done.stdout + done.stderr
        return done

    def index(self, url, *arguments, **more):
        """(process, its JSON, the names) of an index."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.file)
        done = self.run("index", url, "-o", self.file, "--json", *arguments, **more)
        if done.returncode != 0:
            return done, {}, None
        names = self.run("ls", "-0", self.file)
        checked = self.run("stat", self.file)  # verifies every block
        if checked.returncode != 0:
            return checked, json.loads(done.stdout), None
        with open(self.file, "rb") as stream:
            self.output += stream.read()
        return done, json.loads(done.stdout), names.stdout.split(b"\0")[:-1]

    def lists(self, name, url, wanted, *arguments, **more):
        """index finds exactly these names."""
        done, facts, names = self.index(url, *arguments, **more)
        why = done.stderr.decode(errors="replace")[-400:]
        if names is not None and names != wanted:
            extra, missing = set(names) - set(wanted), set(wanted) - set(names)
            why = (f"{len(names)} names for {len(wanted)};"
                   f" extra {sorted(extra)[:3]}, missing {sorted(missing)[:3]}")
        self.check(name, names == wanted, why)
        return done, facts

    def refuses(self, name, url, words, *arguments, status=1, most=None, **more):
        """index fails with one line that has these words, and leaves an older file as it is."""
        with open(self.file, "wb") as stream:
            stream.write(b"older")
        more.setdefault("SHARD_LOG", "warn")
        done = self.run("index", url, "-o", self.file, *arguments, **more)
        with open(self.file, "rb") as stream:
            same = stream.read() == b"older"
        text = done.stderr.decode(errors="replace")
        left = [f for f in os.listdir(self.folder) if f.startswith("listing.")]
        good = (done.returncode == status and same and not left and not done.stdout and
                text.count("\n") == 1 and all(word in text for word in words))
        self.check(name, good and (most is None or most()),
                   f"status {done.returncode}, file {'same' if same else 'changed'}, left {left}: {text}")

    def ranks(self, size, dataset, command, endpoint=None, **more):
        """[(status, lines, errors)] of ranks that run together, on one node."""
        common = {"LD_PRELOAD": paths.LIBRARY, "SHARD_DATASET": dataset, "SHARD_SIZE": str(size),
                  "SHARD_LOG": "info", "SHARD_CACHE_DIR": os.path.join(self.folder, "cache")}
        processes = [subprocess.Popen(
            list(command), env=self.environment(endpoint, **{**common, "SHARD_RANK": str(rank), **more}),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for rank in range(size)]
        ended = [(p,) + p.communicate(timeout=HANGS) for p in processes]
        self.output += b"".join(out + err for _, out, err in ended)
        return [(p.returncode, out.decode().splitlines(), err.decode()) for p, out, err in ended]

    def program(self, name):
        """A program of tests/programs."""
        built = os.path.join(self.folder, name)
        if not os.path.exists(built):
            subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", "-o", built,
                            paths.source("programs", name + ".c"), "-pthread"], check=True)
        return built

    @contextlib.contextmanager
    def nobody(self):
        """An endpoint at which nobody listens, nor can begin to."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            yield f"http://127.0.0.1:{taken.getsockname()[1]}"

    def bucket(self, name):
        """A new bucket."""
        self.client.create_bucket(Bucket=name)

    def put(self, bucket, *keys):
        """Empty objects."""
        for key in keys:
            self.client.put_object(Bucket=bucket, Key=key, Body=b"")

    def fill(self, bucket, keys):
        """A new bucket with these keys, many of them."""
        self.bucket(bucket)
        s3.fill(self.client, self.state, bucket, keys)

    def reference(self, bucket, prefix=""):
        """boto3's keys, without those of folders, relative to the prefix's last slash."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        root = prefix.rpartition("/")[0] + "/" if "/" in prefix else ""
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        names = [key[len(root):].encode() for key in keys if not key.endswith("/")]
        return names, len(keys) - len(names)


WALK = """import os, sys
for path, folders, files in os.walk(sys.argv[1]):
    for name in files:
        whole = os.path.join(path, name)
        print(os.path.relpath(whole, sys.argv[1]), os.path.getsize(whole))
"""
