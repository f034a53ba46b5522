"""SHARD_LISTING_BUILD=first with an object: one node makes the listing, the others wait."""
import json
import os
import shutil
import subprocess
import sys
import time

from tests.harness import paths
from tests.harness.proxy import Instead, Proxy, error
from tests.s3.fixture import WALK


class Nodes:
    """Jobs of four ranks on two nodes, which have a cache each; rank 0 comes last."""

    def __init__(self, s3, dataset, root):
        self.s3, self.dataset, self.root = s3, dataset, root
        self.jobs = 0
        self.replies = []

    def forget(self):
        """Empty caches."""
        for node in range(2):
            shutil.rmtree(os.path.join(self.s3.folder, f"node{node}"), ignore_errors=True)

    def start(self, rank, endpoint, **more):
        """A rank."""
        settings = dict(LD_PRELOAD=paths.LIBRARY, SHARD_DATASET=self.dataset, SHARD_RANK=str(rank),
                        SHARD_SIZE="4",
                        SHARD_LISTING="s3://job/x.listing", SHARD_LISTING_BUILD="first",
                        SHARD_JOB=f"job {self.jobs}", SHARD_LOG="info",
                        SHARD_CACHE_DIR=os.path.join(self.s3.folder, f"node{rank // 2}"))
        return subprocess.Popen((sys.executable, "-c", WALK, self.root),
                                env=self.s3.environment(endpoint, **{**settings, **more}),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, ranks=(1, 2, 3, 0), fault=None, late=2, **more):
        """[(names, errors)] by rank, of a new job; rank 0 waits for `late` replies.

        The nodes know nothing, unless `more` has a SHARD_JOB.
        """
        if "SHARD_JOB" not in more or more["SHARD_JOB"] is None:
            self.forget()
        self.jobs += 1
        with Proxy(self.s3.endpoint, fault=fault) as proxy:
            running = {}
            for rank in ranks:
                if rank == 0 and running and "SHARD_JOB" not in more:
                    while len(proxy.replies) < late and all(p.poll() is None for p in running.values()):
                        time.sleep(0.01)
                running[rank] = self.start(rank, proxy.endpoint, **more)
            ended = {rank: p.communicate(timeout=60) for rank, p in running.items()}
            self.replies = list(proxy.replies)
        self.s3.output += b"".join(out + err for out, err in ended.values())
        return [([line.rpartition(" ")[0] for line in out.decode().splitlines()], err.decode())
                for _, (out, err) in sorted(ended.items())]

    def count(self, method, path="/job/x.listing", status=200):
        """How many such replies there were."""
        return sum(reply == (method, path, status) for reply in self.replies)


def shared(s3):
    """Rank 0's node makes the listing, the others wait for it."""
    check = s3.check
    s3.bucket("job")
    tree = os.path.join(s3.folder, "shared", "tree")
    names = [f"d{i % 7}/img_{i:04d}.jpeg" for i in range(900)]

    def add(name, root=tree):
        os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
        with open(os.path.join(root, name), "wb"):
            pass

    def added(name):
        add(name)
        names.append(name)

    for name in names:
        add(name)
    nodes = Nodes(s3, tree, tree)

    def complete(name, got, puts, lists, most_gets, where=None):
        why = "\n".join(err[-300:] for _, err in got)
        listed = sum(err.count(f"info: listing '{where or tree}'") for _, err in got)
        check(name, sorted(x for g in got for x in g[0]) == sorted(names), why)
        check(f"{name}: {puts} put, {lists} listed", nodes.count("PUT") == puts and
              puts <= listed <= lists, f"{nodes.replies} {why}")
        check(f"{name}: got at most {most_gets} times", nodes.count("GET") <= most_gets, nodes.replies)

    def stored():
        return s3.client.get_object(Bucket="job", Key="x.listing")["Body"].read()

    # A node gets what is new once; where rank 0 is, another rank may have been quicker to ask.
    complete("first: rank 0 makes it", nodes.run(), 1, 1, 2)
    check("first: it was waited for", nodes.count("GET", status=404) >= 2, nodes.replies)
    before = stored()
    complete("first: it is there", nodes.run((0, 1, 2, 3)), 0, 1, 3)
    check("first: and stays", stored() == before)
    added("d1/new")
    complete("first: an old one is replaced", nodes.run(late=8), 1, 1, 5)
    check("first: an old one is got once by who waits", nodes.count("GET", status=304) >= 6,
          nodes.replies)
    for what, body in (("damaged", stored()[:500]), ("of another kind", b"no listing at all" * 100)):
        s3.client.put_object(Bucket="job", Key="x.listing", Body=body)
        complete(f"first: one that is {what} is replaced", nodes.run(), 1, 1, 5)
    job = f"job {nodes.jobs}"
    add("d1/later")
    got = nodes.run(SHARD_JOB=job)
    check("first: a job keeps it", sorted(x for g in got for x in g[0]) == sorted(names) and
          nodes.replies == [] and
          all("has changed since this job" in err for _, err in got), got[0][1])
    os.unlink(os.path.join(tree, "d1/later"))
    s3.client.delete_object(Bucket="job", Key="x.listing")
    complete("first: no job is known", nodes.run(SHARD_JOB=None), 1, 1, 2)
    s3.client.delete_object(Bucket="job", Key="x.listing")
    complete("first: faults that pass", nodes.run(fault=lambda q: {1: "500", 4: "reset",
                                                                   6: "503"}.get(q.number)
                                                  if q.method == "GET" else None), 1, 1, 5)
    # One of another directory: not touched, and each node has its own.
    other = os.path.join(s3.folder, "other", "tree")
    add("a", other)
    s3.run("index", other, "-o", "s3://job/x.listing")
    before = stored()
    got = nodes.run((0, 1, 2, 3))
    complete("first: of another directory", got, 0, 1, 4)
    check("first: it says so, and leaves it", stored() == before and
          sum("is not used" in err for _, err in got) >= 2, got)
    s3.client.delete_object(Bucket="job", Key="x.listing")

    # What is said.
    def denied(method, code="AccessDenied"):
        return lambda q: Instead(error(403, code)) if q.method == method else None

    for name, ranks, words, more in (
            ("rank 0 does not come", (1, 2, 3), ["s3://job/x.listing", "SHARD_TIMEOUT"], {}),
            ("rank 0 may not write", (0,), ["s3://job/x.listing", "s3:PutObject"],
             {"fault": denied("PUT")}),
            ("one may not read", (0, 1, 2), ["s3://job/x.listing", "s3:GetObject"],
             {"fault": denied("GET")}),
            ("a wrong secret", (0, 2), ["s3://job/x.listing", "AWS_SECRET_ACCESS_KEY"],
             {"AWS_SECRET_ACCESS_KEY": "wrongSecret/9"}),
            ("no such bucket", (0, 2), ["s3://nojob/x.listing", "NoSuchBucket"],
             {"SHARD_LISTING": "s3://nojob/x.listing"}),
            ("no rank", (0,), ["SHARD_RANK"], {"SHARD_RANK": None, "SHARD_SIZE": None})):
        got = nodes.run(ranks, SHARD_TIMEOUT="1", SHARD_LOG="warn", **more)
        check(f"first: {name}", all(not x and err.count("\n") >= 1 and all(w in err for w in words)
                                    for x, err in got), got)
        check(f"first: {name}: nothing is put",
              "Contents" not in s3.client.list_objects_v2(Bucket="job"))
    got = nodes.run(SHARD_TIMEOUT="1", SHARD_LOG="warn", fault=denied("PUT"))
    check("first: rank 0 fails", not any(x for x, _ in got) and "s3:PutObject" in got[0][1] and
          all("SHARD_TIMEOUT" in err and "rank 0" in err for _, err in got[1:]), got)
    left = [f for node in range(2) for f in os.listdir(os.path.join(s3.folder, f"node{node}"))
            if ".new." in f]
    check("first: nothing is left", not left, left)
    # A rank that waits is killed, and another one goes on.
    with Proxy(s3.endpoint) as proxy:
        nodes.jobs += 1
        killed = nodes.start(2, proxy.endpoint)
        while not proxy.replies:
            time.sleep(0.01)
        other, first = nodes.start(3, proxy.endpoint), None
        child = subprocess.run(["ps", "-o", "pid=", "--ppid", str(killed.pid)], capture_output=True,
                               check=True).stdout.split()[0].decode()
        killed.kill()
        killed.communicate()
        end = time.monotonic() + 20
        while os.path.exists(f"/proc/{child}") and time.monotonic() < end:
            time.sleep(0.05)
        check("first: a shardctl that nobody waits for ends", not os.path.exists(f"/proc/{child}"),
              child)
        first = nodes.start(0, proxy.endpoint)
        ended = [p.communicate(timeout=60) for p in (first, other)]
        check("first: another takes over from one that is killed",
              all(out.count(b"\n") == len(names) // 4 or out.count(b"\n") == len(names) // 4 + 1
                  for out, _ in ended), ended)
    # A bucket for a mount: one node lists it.
    s3.fill("jobdata", sorted("train/" + n for n in names))
    nodes.dataset = f"{tree}=s3://jobdata/train"
    s3.client.delete_object(Bucket="job", Key="x.listing")
    complete("first: a mounted bucket", nodes.run(), 1, 1, 2, "s3://jobdata/train/")
    check("first: it is listed once", nodes.count("GET", "/jobdata") == 1, nodes.replies)
    complete("first: a mounted bucket, again", nodes.run((0, 1, 2, 3)), 0, 1, 3, "s3://jobdata/train/")
    check("first: it is not listed again", nodes.count("GET", "/jobdata") == 0, nodes.replies)
    # By hand
    back = os.path.join(s3.folder, "back")
    done = s3.run("index", tree, "-o", back, "--share", "s3://job/hand.listing", "--json")
    again = s3.run("index", tree, "-o", back + "2", "--share", "s3://job/hand.listing", "--wait", "0",
                   "--json")
    facts = [json.loads(d.stdout or b"{}") for d in (done, again)]
    check("index --share", done.returncode == again.returncode == 0 and
          all(facts[0][k] == facts[1][k] for k in ("entries", "digest", "bytes", "directories")),
          (done, again))
    for name, arguments in (("no such thing", [tree, "--wait", "1"]),
                            ("a text", [back, "--share", "s3://job/y"]),
                            ("no key", [tree, "--share", "s3://job/"]),
                            ("to a bucket", [tree, "--share", "s3://job/y", "-o", "s3://job/z"]),
                            ("no time", [tree, "--share", "s3://job/y", "--wait", "soon"])):
        done = s3.run("index", "-o", back + "3", *arguments, SHARD_LOG="warn")
        check(f"index --share: {name}", done.returncode == 2 and done.stderr.count(b"\n") == 1, done)
