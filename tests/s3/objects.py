"""Listings and manifests that are put into a bucket, and got from there."""
import gzip
import json
import os
import subprocess
import sys

from tests.harness import paths
from tests.harness.processes import until
from tests.harness.proxy import Instead, Proxy, Reply, error
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
        self.local, self.back, self.scratch = (os.path.join(s3.folder, name) for name in
                                               ("local.listing", "back", "scratch%r"))
        os.mkdir(self.scratch)
        s3.run("index", self.tree, "-o", self.local)
        self.key, self.manifest = "listings/a b+%41/x.listing", "m/train_rank0_epoch2.txt"

    def content(self, file=None):
        """A file's bytes: what was got, if not said otherwise."""
        with open(file or self.back, "rb") as stream:
            return stream.read()

    def stored(self, key):
        """An object's bytes."""
        return self.s3.client.get_object(Bucket="store", Key=key)["Body"].read()

    def keys(self):
        """Of all objects."""
        return [e["Key"] for e in self.s3.client.list_objects_v2(Bucket="store").get("Contents", [])]

    def same_names(self, file):
        """Whether a listing is whole, and has the names of the tree's."""
        return (self.s3.run("stat", file).returncode == 0 and
                self.s3.run("ls", file).stdout == self.s3.run("ls", self.local).stdout)


def put(s3, store):
    """By index, from a directory and from the bucket itself."""
    names, tree, back, scratch, key = store.names, store.tree, store.back, store.scratch, store.key
    content, stored, keys, same_names = store.content, store.stored, store.keys, store.same_names
    done = s3.run("index", tree, "-o", "s3://store/" + key, "--json", TMPDIR=scratch,
                  AWS_SESSION_TOKEN=None)
    s3.check("index -o s3://", done.returncode == 0 and
             json.loads(done.stdout)["file"] == "s3://store/" + key and
             json.loads(done.stdout)["entries"] == len(names), done)
    with open(back, "wb") as stream:
        stream.write(stored(key))
    s3.check("it is whole there", same_names(back))
    s3.check("nothing is left", os.listdir(scratch) == [], os.listdir(scratch))
    os.unlink(back)
    done = s3.run("get", "s3://store/" + key, "-o", back)
    s3.check("get", done.returncode == 0 and content() == stored(key) and same_names(back), done)
    before = stored(key)
    done = s3.run("index", tree + "/d1", "-o", "s3://store/" + key, "--no-replace", TMPDIR=scratch,
                  SHARD_LOG="warn")
    s3.check("--no-replace", done.returncode == 1 and b"there already" in done.stderr and
             b"s3://store/" in done.stderr and
             stored(key) == before, done)
    done = s3.run("index", tree, "-o", "s3://store/new.listing", "--no-replace", TMPDIR=scratch)
    s3.check("--no-replace of a new one", done.returncode == 0 and "new.listing" in keys(), done)
    done = s3.run("index", "s3://store/listings/", "-o", "s3://store/of/bucket.listing",
                  TMPDIR=scratch)
    s3.check("index s3:// -o s3://", done.returncode == 0 and stored("of/bucket.listing"), done)
    for source, right in ((tree + "/d1", lambda: not same_names(back)),
                          (tree, lambda: same_names(back))):
        done = s3.run("index", source, "-o", "s3://store/" + key, TMPDIR=scratch)
        with open(back, "wb") as stream:
            stream.write(stored(key))
        s3.check("an object is replaced", done.returncode == 0 and right(), done)


def manifests(s3, store):
    """Those of all ranks, and of one."""
    local, scratch = store.local, store.scratch
    content, stored, keys = store.content, store.stored, store.keys
    made = set()
    for size, pattern in (("40", "m/train_rank%r_epoch%e.txt"), ("1", "m/one%%.txt")):
        done = s3.run("manifest", local, "--size", size, "--seed", "3", "--epoch", "2", "-o",
                      "s3://store/" + pattern, TMPDIR=scratch)
        s3.run("manifest", local, "--size", size, "--seed", "3", "--epoch", "2", "-o",
               os.path.join(s3.folder, "rank%r"))
        wanted = {}
        for rank in range(int(size)):
            key = pattern.replace("%r", str(rank)).replace("%e", "2").replace("%%", "%")
            wanted[key] = content(os.path.join(s3.folder, f"rank{rank}"))
        s3.check(f"manifest -o s3://, {size} ranks", done.returncode == 0 and
                 all(stored(k) == text for k, text in wanted.items()), done)
        made |= set(wanted)
        s3.check("no others, and nothing is left", {k for k in keys() if k.startswith("m/")} == made and
                 os.listdir(scratch) == [], keys())


def damage(s3, store):
    """Faults that pass, and those that do not."""
    tree, back, scratch, key = store.tree, store.back, store.scratch, store.key
    manifest, content, stored, same_names = store.manifest, store.content, store.stored, store.same_names
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
    for name in ("500", "503", "too long", dropped):
        with Proxy(s3.endpoint, fault=lambda q, f=name: f if q.number == 1 else None) as proxy:
            done = s3.run("index", tree, "-o", f"s3://store/put {label(name)}", endpoint=proxy.endpoint,
                          SHARD_TIMEOUT="20" if name == "too long" else None, TMPDIR=scratch)
            s3.run("get", f"s3://store/put {label(name)}", "-o", back)
            s3.check(f"put: {label(name)}, once", done.returncode == 0 and proxy.requests >= 2 and
                     same_names(back), done)


def lost_replies(s3, store):
    """--no-replace, and the reply to the first try is lost: what is there then is ours, or not."""
    tree, back, scratch = store.tree, store.back, store.scratch
    key, stored, same_names = store.key, store.stored, store.same_names
    with Proxy(s3.endpoint, fault=lambda q: dropped if q.number == 1 else None) as proxy:
        done = s3.run("index", tree, "-o", "s3://store/lost.listing", "--no-replace",
                      endpoint=proxy.endpoint, TMPDIR=scratch)
        s3.check("--no-replace: a lost reply", done.returncode == 0 and
                 [r[::2] for r in proxy.replies] == [("PUT", 412), ("HEAD", 200)], proxy.replies)
        s3.run("get", "s3://store/lost.listing", "-o", back)
        s3.check("--no-replace: it is there then", same_names(back))
    before = stored(key)
    for code, status in (("InternalError", 500), ("ConditionalRequestConflict", 409)):
        with Proxy(s3.endpoint, fault=lambda q, e=error(status, code): Instead(e) if q.number == 1
                   else None) as proxy:
            done = s3.run("index", tree + "/d1", "-o", "s3://store/" + key, "--no-replace",
                          endpoint=proxy.endpoint, TMPDIR=scratch, SHARD_LOG="warn")
            s3.check(f"--no-replace: {code}, and another's", done.returncode == 1 and
                     b"there already" in done.stderr and
                     done.stderr.count(b"\n") == 1 and stored(key) == before and proxy.requests == 3,
                     (done, proxy.replies))


def killed(s3, store):
    """Killed while it puts: the next one removes what is left, but nothing of one that lives."""
    tree, local, scratch = store.tree, store.local, store.scratch
    with Proxy(s3.endpoint, delay=24 * 3600) as proxy:
        pair = []
        for number, source in ((1, tree), (2, tree + "/d1")):
            pair.append(subprocess.Popen([paths.SHARDCTL, "index", source, "-o", "s3://store/killed"],
                                         stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         env=s3.environment(proxy.endpoint, TMPDIR=scratch,
                                                           SHARD_TIMEOUT="100000")))
            until(lambda n=number: proxy.requests >= n, "a request of each shardctl")
        both = set(os.listdir(scratch))
        pair[0].kill()
        pair[0].wait()
        s3.run("manifest", local, "--size", "2", "-o", "s3://store/m/x%r", TMPDIR=scratch)
        kept = os.listdir(scratch)
        s3.check("a killed one's folder goes, a live one's stays", len(both) == 2 and len(kept) == 1 and
                 os.listdir(os.path.join(scratch, kept[0])) == ["listing"], (both, kept))
        pair[1].kill()
        pair[1].wait()
    os.mkdir(os.path.join(scratch, ".shardctl-put.d"))
    os.mkdir(os.path.join(scratch, ".shardctl-put.Mine00"))
    with open(os.path.join(scratch, ".shardctl-put.Mine00", "x"), "wb"):
        pass
    s3.run("index", tree, "-o", "s3://store/killed", TMPDIR=scratch)
    s3.check("a folder of another name stays", os.listdir(scratch) == [".shardctl-put.d"],
             os.listdir(scratch))
    os.rmdir(os.path.join(scratch, ".shardctl-put.d"))


def messages(s3, store):
    """What is said."""
    tree, local, back, key = store.tree, store.local, store.back, store.key
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
            ("get: no folder", ["get", "s3://store/" + key, "-o", "/none/x"], ["/none/x"], 1, {}),
            ("put: wrong secret", ["index", tree, "-o", "s3://store/y"],
             ["s3://store/y", "AWS_SECRET_ACCESS_KEY"], 1, WRONG),
            ("put: no such bucket", ["index", tree, "-o", "s3://nostore/y"],
             ["s3://nostore/y", "NoSuchBucket"], 1, {}),
            ("put: no key", ["index", tree, "-o", "s3://store/y/"], ["s3://bucket/key"], 2, {}),
            ("put: no room", ["index", tree, "-o", "s3://store/y"], ["TMPDIR"], 1,
             {"TMPDIR": "/none"}),
            ("--no-replace of a file", ["index", tree, "-o", back, "--no-replace"], ["--no-replace"], 2,
             {}),
            ("manifest: no %r", ["manifest", local, "--size", "2", "-o", "s3://store/m.txt"], ["%r"], 2,
             {}),
            ("manifest: %r in the bucket", ["manifest", local, "--size", "2", "-o",
                                            "s3://store%r/m.txt"], ["one bucket"], 2, {}),
            ("manifest: no key", ["manifest", local, "--size", "1", "-o", "s3://store"],
             ["s3://bucket/key"], 2, {})):
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
    names, tree, scratch = store.names, store.tree, store.scratch
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
    s3.run("index", tree + "/d1", "-o", "s3://store/part.listing", TMPDIR=scratch)
    with Proxy(s3.endpoint) as proxy:
        got = s3.ranks(1, tree, walk, proxy.endpoint, SHARD_LISTING="s3://store/part.listing",
                       SHARD_JOB="apart")
    s3.check("SHARD_LISTING of another directory is named as it was given",
             "SHARD_LISTING='s3://store/part.listing' has no listing of" in got[0][2], got[0][2])
    lists, requests, got = listed(3, "s3://store/" + key.replace("%", "%%"), SHARD_JOB="one",
                                  SHARD_STRATEGY="stride")
    s3.check("and no more in the job", sorted(sum(lists, [])) == sorted(names) and requests == 0, got)
    s3.run("index", tree, "-o", "s3://store/of/tree.listing", TMPDIR=scratch)
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
    s3.check("nothing is left in the end", os.listdir(scratch) == [], os.listdir(scratch))


def objects(s3):
    """Listings and manifests that are put into a bucket, and got from there."""
    store = Store(s3)
    for part in (put, manifests, damage, lost_replies, killed, messages, too_large, listing):
        part(s3, store)
