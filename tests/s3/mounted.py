"""A mounted bucket: names come from the bucket, data from the directory."""
import os
import sys

from tests.harness.proxy import Proxy
from tests.s3.fixture import WALK, most_requests


def mounted(s3):
    """A directory that stands for a prefix: names come from the bucket, data from the directory."""
    names = [f"train/{d}/img_{i:04d}.jpeg" for d in ("a", "b c", "d/deep") for i in range(700)] + [
        "train/top", "train/+%41"]
    s3.fill("mounted", sorted(names + ["train", "trainer/x", "train/marker/", "valid/y"]))
    mount = os.path.join(s3.folder, "mnt")
    for name in names + ["train/not in the bucket", "valid/y"]:
        os.makedirs(os.path.join(mount, os.path.dirname(name)), exist_ok=True)
        with open(os.path.join(mount, name), "wb") as stream:
            stream.write(name.encode())
    root = os.path.join(mount, "train")

    def ranks(size, url, endpoint, command=(sys.executable, "-c", WALK, root), **more):
        return s3.ranks(size, f"{root}={url}", command, endpoint, **more)

    wanted = sorted(f"{n[6:]} {len(n)}" for n in names)
    with Proxy(s3.endpoint) as proxy:
        got = ranks(4, "s3://mounted/train", proxy.endpoint, SHARD_JOB="one")
        s3.check("mounted: every key once over the ranks",
                 sorted(line for _, lines, _ in got for line in lines) == wanted, got[0][2])
        sizes = [len(lines) for _, lines, _ in got]
        s3.check("mounted: shares are equal", max(sizes) - min(sizes) <= 1, sizes)
        said = sum(err.count("listing 's3://mounted/train/'") for _, _, err in got)
        s3.check("mounted: one listing's requests for all ranks", said == 1 and proxy.requests <= most_requests(len(names)),
                 f"{said} listings, {proxy.requests} requests")
        before = proxy.requests
        again = ranks(3, "s3://mounted/train/", proxy.endpoint, SHARD_JOB="one", SHARD_STRATEGY="stride",
                      SHARD_SEED="5")
        lines = [line for _, lines, _ in again for line in lines]
        s3.check("mounted: stride, shuffled", sorted(lines) == wanted, len(lines))
        s3.check("mounted: the job's listing again", proxy.requests == before, proxy.requests - before)
        s3.put("mounted", "train/top2")
        with open(os.path.join(root, "top2"), "wb"):
            pass
        later = [line for _, lines, _ in ranks(2, "s3://mounted/train", proxy.endpoint, SHARD_JOB="one") for line in lines]
        s3.check("mounted: a job keeps its listing", sorted(later) == wanted, len(later))
        later = ranks(2, "s3://mounted/train", proxy.endpoint, SHARD_JOB="two")
        s3.check("mounted: the next job sees a new key",
                 sorted(x for r in later for x in r[1]) == sorted(wanted + ["top2 0"]), len(later[0][1]))
        plain = ranks(2, "s3://mounted/train", proxy.endpoint,
                      command=("ls", "-a", os.path.join(root, "d")))
        s3.check("mounted: a folder among folders", [r[1] for r in plain] == [[".", "..", "deep"]] * 2,
                 plain)
        bad = ranks(2, "s3://mounted/train", proxy.endpoint, AWS_SECRET_ACCESS_KEY="wrongSecret/9",
                    SHARD_JOB="three", SHARD_LOG="warn")
        s3.check("mounted: a wrong secret", all(not lines and "s3://mounted/train" in err and
                                                "AWS_SECRET" in err for _, lines, err in bad), bad)
        bad = ranks(2, "s3://nosuchbucket/train", proxy.endpoint, SHARD_JOB="three", SHARD_LOG="warn")
        s3.check("mounted: no such bucket", not bad[0][1] and "nosuchbucket" in bad[0][2], bad)
    with Proxy(s3.endpoint, fault=lambda q: "503") as proxy:
        bad = ranks(2, "s3://mounted/train", proxy.endpoint, SHARD_LOG="warn", SHARD_TIMEOUT="1")
        s3.check("mounted: why nothing comes", not bad[0][1] and "HTTP 503" in bad[0][2], bad)
    bad = ranks(1, "s3://mounted/a:b", s3.endpoint, SHARD_JOB="four", SHARD_LOG="warn")
    s3.check("mounted: a prefix with a colon", not bad[0][1] and "s3://mounted/a:b" in bad[0][2], bad)
    file = os.path.join(s3.folder, "given.listing")
    s3.run("index", "s3://mounted/train/", "-o", file)
    with s3.nobody() as endpoint:
        got = ranks(2, "s3://mounted/train", endpoint, SHARD_LISTING=file)
    s3.check("mounted: a listing made before",
             sorted(x for r in got for x in r[1]) == sorted(wanted + ["top2 0"]), got[0][2])
    s3.run("index", "s3://mounted/", "-o", file)
    got = ranks(2, "s3://mounted/train", s3.endpoint, SHARD_LISTING=file, SHARD_JOB="whole",
                SHARD_LOG="warn")
    s3.check("mounted: a listing of the whole bucket is not used, and that is said",
             sorted(x for r in got for x in r[1]) ==
             sorted(wanted + ["top2 0"]) and any("has no listing of 's3://mounted/train/', which is walked" in err
                                                 for _, _, err in got), got[0][2])
    with s3.nobody() as endpoint:
        got = ranks(2, "s3://mounted/train", endpoint, SHARD_STRATEGY="hash")
    s3.check("mounted: hash divides what the mount shows", sorted(x for r in got for x in r[1]) == sorted(
        wanted + ["top2 0", "not in the bucket 23"]), got[0][2])
    elsewhere(s3, root)


def elsewhere(s3, root):
    """Whatever says where a bucket is, one of the same name elsewhere is another one."""
    with Proxy(s3.endpoint) as one, Proxy(s3.endpoint) as other:
        config = os.path.join(s3.folder, "two-profiles")
        with open(config, "w", encoding="ascii") as stream:
            for name, proxy in ("one", one), ("other", other):
                stream.write(f"[profile {name}]\nendpoint_url = {proxy.endpoint}\n")
                with open(f"{config}-{name}", "w", encoding="ascii") as own:
                    own.write(f"[default]\nendpoint_url = {proxy.endpoint}\n")
        for variable, value in (("AWS_PROFILE", "%s"), ("AWS_DEFAULT_PROFILE", "%s"),
                                ("AWS_SHARED_CREDENTIALS_FILE", config + "-%s")):
            before, shown = (one.requests, other.requests), []
            for name in "one", "other":
                more = {"AWS_CONFIG_FILE": config, variable: value % name}
                shown += s3.ranks(2, f"{root}=s3://mounted/train", ("ls", root), AWS_ENDPOINT_URL=None,
                                  **more)
            asked = (one.requests - before[0], other.requests - before[1])
            s3.check(f"mounted: where {variable} says", all(asked) and all(run[1] for run in shown),
                     f"requests {asked}: {shown}")
