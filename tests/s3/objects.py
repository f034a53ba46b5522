"""Listings and manifests that lie in a bucket."""
import gzip
import json
import os
import sys

from tests.harness.proxy import Instead, Proxy, Reply
from tests.s3.fixture import WALK


def altered(_, reply):
    """A byte of the object is another, and its length right."""
    return Reply(reply.status, reply.body[:-1] + bytes([reply.body[-1] ^ 1]), reply.headers)


def shortened(_, reply):
    """Half of the object, as if it were the whole."""
    return Reply(reply.status, reply.body[:len(reply.body) // 2], reply.headers)


def dropped(_, reply):
    """No reply at all."""
    raise ConnectionResetError(reply.status)


def label(fault):
    """What a fault is called."""
    return fault if isinstance(fault, str) else fault.__name__


WRONG = {"AWS_SECRET_ACCESS_KEY": "wrongSecret/9"}


class Store:
    """A bucket for listings, a tree of files, and where what is made of it lies."""

    def __init__(self, s3):
        self.s3 = s3
        s3.bucket("store")
        self.tree = os.path.join(s3.folder, "tree")
        self.names = [f"d{i % 7}/img_{i:04d} of it+.jpeg" for i in range(3000)]
        for name in self.names:
            os.makedirs(os.path.dirname(os.path.join(self.tree, name)), exist_ok=True)
            with open(os.path.join(self.tree, name), "wb"):
                pass
        self.local, self.back = (os.path.join(s3.folder, name) for name in ("local.listing", "back"))
        s3.run("index", self.tree, "-o", self.local)
        self.key, self.manifest = "listings/a b+%41/x.listing", "m/train_rank0_epoch2.txt"

    def put(self, key, file):
        """Put a file into the bucket."""
        self.s3.client.put_object(Bucket="store", Key=key, Body=self.content(file))

    def index(self, key, *source):
        """A listing in the bucket."""
        made = os.path.join(self.s3.folder, "made.listing")
        self.s3.run("index", *source, "-o", made)
        self.put(key, made)

    def content(self, file=None):
        """A file's bytes: what was got, if not said otherwise."""
        with open(file or self.back, "rb") as stream:
            return stream.read()

    def stored(self, key):
        """An object's bytes."""
        return self.s3.client.get_object(Bucket="store", Key=key)["Body"].read()

    def same_names(self, file):
        """Whether a listing is whole, and has the names of the tree's."""
        return (self.s3.run("stat", file).returncode == 0 and
                self.s3.run("ls", file).stdout == self.s3.run("ls", self.local).stdout)


def put(s3, store):
    """What lies there is got whole; nothing is put there."""
    store.put(store.key, store.local)
    store.put("new.listing", store.local)
    done = s3.run("get", "s3://store/" + store.key, "-o", store.back)
    s3.check("get", done.returncode == 0 and store.content() == store.stored(store.key) and store.same_names(store.back), done)
    s3.run("manifest", store.local, "--size", "40", "--seed", "3", "--epoch", "2", "-o",
           os.path.join(s3.folder, "rank%r"))
    for rank in range(40):
        store.put(f"m/train_rank{rank}_epoch2.txt", os.path.join(s3.folder, f"rank{rank}"))
    for words in ["index", store.tree], ["manifest", store.local, "--size", "2"]:
        done = s3.run(*words, "-o", "s3://store/x%r")
        s3.check(f"{words[0]} -o s3://", done.returncode == 2 and b"aws s3 cp" in done.stderr, done)


def damage(s3, store):
    """Faults that pass, and those that do not."""
    back, key, manifest, content, stored = store.back, store.key, store.manifest, store.content, store.stored
    s3.client.put_object(Bucket="store", Key="others.txt", Body=b"a\nb\n" * 1000)
    for name in ("500", "503", "reset", "close", "too short", "too long", "cut", "stall", altered,
                 shortened, dropped):
        with Proxy(s3.endpoint, fault=lambda q, f=name: f if q.number == 1 else None) as proxy:
            done = s3.run("get", "s3://store/" + key, "-o", back, endpoint=proxy.endpoint,
                          SHARD_TIMEOUT="20" if name in ("stall", "too long") else None)
            s3.check(f"get: {label(name)}, once", done.returncode == 0 and content() == stored(key) and
                     proxy.requests >= 2, done)
    for name, fault in (("500", "500"), ("too short", "too short"), ("cut", "cut"), ("reset", "reset"),
                        ("altered", altered), ("shortened", shortened), ("html", "html")):
        for url in ("s3://store/" + key, "s3://store/" + manifest, "s3://store/others.txt"):
            with open(back, "wb") as stream:
                stream.write(b"older")
            with Proxy(s3.endpoint, fault=lambda q, f=fault: f) as proxy:
                done = s3.run("get", url, "-o", back, endpoint=proxy.endpoint, SHARD_TIMEOUT="1",
                              SHARD_LOG="warn")
            s3.check(f"get {url[-12:]}: {name} for good", done.returncode == 1 and
                     content() == b"older" and url.encode() in done.stderr and
                     done.stderr.count(b"\n") == 1 and not [f for f in os.listdir(s3.folder)
                                                            if f.startswith("back.")], done)

def messages(s3, store):
    """What is said."""
    local, back, key = store.local, store.back, store.key
    s3.client.put_object(Bucket="store", Key="no.listing", Body=b"no listing at all" * 1000)
    out = ["-o", back]
    for name, arguments, words, status, more in (
            ("get: no such object", ["get", "s3://store/none"] + out, ["s3://store/none", "NoSuchKey"],
             1, {}),
            ("get: no such bucket", ["get", "s3://nostore/none"] + out,
             ["s3://nostore/none", "NoSuchBucket"], 1, {}),
            ("get: no listing", ["get", "s3://store/no.listing"] + out,
             ["s3://store/no.listing", "shardctl index"], 1, {}),
            ("get: wrong secret", ["get", "s3://store/" + key] + out, ["AWS_SECRET_ACCESS_KEY"], 1,
             WRONG),
            ("get: no permission", ["get", "s3://store/" + key, "--no-sign-request"] + out,
             ["s3:GetObject"], 1, {}),
            ("get: no key", ["get", "s3://store/"] + out, ["s3://bucket/key"], 2, {}),
            ("get: no file", ["get", local + "x"] + out, ["cannot read", local + "x"], 1, {}),
            ("get: no FILE", ["get", "s3://store/" + key], ["-o FILE"], 2, {}),
            ("get: no folder", ["get", "s3://store/" + key, "-o", "/none/x"], ["/none/x"], 1, {})):
        done = s3.run(*arguments, SHARD_LOG="warn", **more)
        text = done.stderr.decode()
        s3.check(name, done.returncode == status and text.count("\n") == 1 and
                 all(w in text for w in words) and not done.stdout, done)


def too_large(s3, store):
    """A manifest that has more bytes than it may."""
    back = store.back
    with open(back, "wb") as stream:
        stream.write(b"older")
    with Proxy(s3.endpoint, fault=lambda q: Instead(lambda *_: Reply(200, b"a\n", [("ETag", '"0"')], length=16 << 30))) as proxy:
        done = s3.run("get", "s3://store/huge.txt", "-o", back, endpoint=proxy.endpoint, SHARD_LOG="warn")
    said = done.stderr.decode()
    s3.check("get of a manifest of 16 GiB", done.returncode == 1 and said.count("\n") == 1 and
             all(word in said for word in ("s3://store/huge.txt", f" {16 << 30} bytes", "shardctl index")), done)
    s3.check("16 GiB: once, and nothing is left", proxy.requests == 1 and store.content() == b"older" and
             not [f for f in os.listdir(s3.folder) if f.startswith("back.")], os.listdir(s3.folder))


def listing(s3, store):
    """SHARD_LISTING: fetched once for a job on a node, for a rank with %r."""
    names, tree = store.names, store.tree
    key, manifest, stored = store.key, store.manifest, store.stored
    walk = (sys.executable, "-c", WALK, tree)

    def listed(size, url, **more):
        with Proxy(s3.endpoint) as proxy:
            got = s3.ranks(size, tree, walk, proxy.endpoint, SHARD_LISTING=url, **more)
            return [[line.rpartition(" ")[0] for line in lines]
                    for _, lines, _ in got], proxy.requests, got

    def lines_of(key):
        return stored(key).decode().split("\n")[:-1]

    lists, requests, got = listed(4, "s3://store/" + key.replace("%", "%%"), SHARD_JOB="one")
    s3.check("SHARD_LISTING=s3://", sorted(sum(lists, [])) == sorted(names) and
             {len(x) for x in lists} == {750}, got)
    s3.check("one request for all ranks", requests == 1, requests)
    store.index("part.listing", tree + "/d1")
    with Proxy(s3.endpoint) as proxy:
        got = s3.ranks(1, tree, walk, proxy.endpoint, SHARD_LISTING="s3://store/part.listing",
                       SHARD_JOB="apart")
    s3.check("SHARD_LISTING of another directory is named as it was given",
             "SHARD_LISTING='s3://store/part.listing' has no listing of" in got[0][2], got[0][2])
    lists, requests, got = listed(3, "s3://store/" + key.replace("%", "%%"), SHARD_JOB="one",
                                  SHARD_STRATEGY="stride")
    s3.check("and no more in the job", sorted(sum(lists, [])) == sorted(names) and requests == 0, got)
    store.index("of/tree.listing", tree)
    lists, requests, got = listed(2, "s3://store/part.listing:s3://store/of/tree.listing", SHARD_JOB="several")
    s3.check("SHARD_LISTING=s3://...: several", sorted(sum(lists, [])) == sorted(names) and requests == 2, (requests, got))
    url = "s3://store/m/train_rank%r_epoch%e.txt"
    lists, requests, got = listed(4, url, SHARD_JOB="one", SHARD_EPOCH="2")
    s3.check("SHARD_LISTING=s3://...%r_epoch%e.txt", requests == 4 and
             all(sorted(x) == sorted(lines_of(f"m/train_rank{r}_epoch2.txt"))
                 for r, x in enumerate(lists)), got)
    old = [sorted(x) for x in lists]
    s3.client.put_object(Bucket="store", Key=manifest, Body=(names[5] + "\n").encode())
    lists, requests, got = listed(4, url, SHARD_JOB="one", SHARD_EPOCH="2")
    s3.check("a job keeps its manifests", [sorted(x) for x in lists] == old and requests == 0, got)
    lists, requests, got = listed(1, url, SHARD_JOB="two", SHARD_EPOCH="2")
    s3.check("the next one has the new one", lists == [[names[5]]] and requests == 1, got)
    s3.client.put_object(Bucket="store", Key="z.txt.gz",
                         Body=gzip.compress("".join(n + "\n" for n in names[:10]).encode()))
    lists, requests, got = listed(2, "s3://store/z.txt.gz", SHARD_JOB="one")
    s3.check("a packed manifest for all", sorted(sum(lists, [])) == sorted(names[:10]) and requests == 1,
             got)
    kept = [json.loads(s3.run("cache", *command, "--json", SHARD_CACHE_DIR=os.path.join(s3.folder, "cache")).stdout)
            for command in (["gc"], ["ls"], ["gc", "--older-than", "0"], ["ls"])]
    s3.check("gc leaves what a job has made of them, and nothing else is there", len(kept[1]["files"]) >= 6 and
             all(e["kind"] == "listing" for e in kept[1]["files"]) and not kept[3]["files"], kept)
    for name, url, words, more in (("none", "s3://store/none.listing",
                                    ["s3://store/none.listing", "NoSuchKey"], {}),
                                   ("none of this rank", "s3://store/m/none%r.txt",
                                    ["s3://store/m/none0.txt", "NoSuchKey"], {}),
                                   ("damaged", "s3://store/no.listing",
                                    ["s3://store/no.listing", "shardctl index"], {}),
                                   ("wrong secret", "s3://store/new.listing",
                                    ["s3://store/new.listing", "AWS_SECRET_ACCESS_KEY"], WRONG)):
        lists, requests, got = listed(1, url, SHARD_JOB="three", SHARD_LOG="warn", **more)
        s3.check(f"SHARD_LISTING=s3://: {name}", lists == [[]] and all(w in got[0][2] for w in words),
                 got)
    os.unlink(os.path.join(tree, names[0]))
    lists, requests, got = listed(1, "s3://store/new.listing", SHARD_JOB="four", SHARD_LOG="warn")
    s3.check("SHARD_LISTING=s3://: out of date", lists == [[]] and
             "s3://store/new.listing" in got[0][2] and "changed" in got[0][2], got)


def objects(s3):
    """Listings and manifests that lie in a bucket."""
    store = Store(s3)
    for part in (put, damage, messages, too_large, listing):
        part(s3, store)
