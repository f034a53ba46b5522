"""Many keys: a prefix is listed in ranges, each key once, with few requests."""
import random
import uuid

from tests.harness.proxy import Proxy, error, shorten
from tests.s3.fixture import PAGE, most_requests


def distributions(count):
    """Names as programs make them, and such as no one should."""
    rng = random.Random(5)

    def name():
        return str(uuid.UUID(int=rng.getrandbits(128)))

    yield "numbers", [f"img_{i:07d}_of_{count}.jpeg" for i in range(count)]
    yield "unpadded", [f"train/x{i}" for i in range(count)]
    yield "uuids", [name() + ".npz" for _ in range(count)]
    yield "deep", ["a/prefix/of/many/levels/" * 8 + f"part-{i // 100:05d}/of/it/x{i % 100}"
                   for i in range(count)]
    yield "hot", ([f"{chr(97 + i % 26) * 3}/{i}" for i in range(count // 50)] +
                  [f"m/hot/{i:09d}.npz" for i in range(count - count // 50)])
    yield "tail", ([f"a{i:06d}" for i in range(count // 20)] +
                   ["zz/" + name() for _ in range(count - count // 20)])
    yield "folders", [f"train/n{i // 1300 * 37:08d}/n{i // 1300 * 37:08d}_{i % 1300 * 7}.JPEG"
                      for i in range(count)]
    yield "parts", [f"data/part-{i // 1300:05d}/img_{i % 1300:06d}.jpeg" for i in range(count)]
    yield "other-scripts", [f"\u56fe\u50cf/{chr(0x4e00 + i % 5000)}{i:06d}.png" for i in range(count)]
    yield "chains", ["x" * (i % 900) + f"/{i // 900}" for i in range(count)]


def ranges(s3):
    """Hostile distributions: every key once, and few requests."""
    count = 60000
    for name, keys in distributions(count):
        s3.fill(name, keys)
        wanted = sorted(k.encode() for k in keys)
        assert len(set(wanted)) == count, name
        for connections in ("32", "1", "5"):
            if connections != "32" and name not in ("hot", "uuids"):
                continue
            with Proxy(s3.endpoint, delay=0.01 if connections == "32" else 0) as proxy:
                _, facts = s3.lists(f"{name}, {connections} connections", f"s3://{name}", wanted,
                                    endpoint=proxy.endpoint,
                                    SHARD_S3_CONNECTIONS=connections, SHARD_LOG="warn")
                most = count // PAGE + 1 if connections == "1" else most_requests(count)
                s3.check(f"{name}, {connections} connections: {proxy.requests} requests", proxy.requests <= most and
                         proxy.requests == facts.get("requests"),
                         f"{proxy.requests}, at most {most}; {facts}")
        if name in ("numbers", "uuids", "hot"):
            with Proxy(s3.endpoint, fault=lambda q: shorten(0) if q.number % 3 == 0 else shorten(100)
                       if q.number % 5 == 0 else None) as proxy:
                s3.lists(f"{name}, short and empty pages", f"s3://{name}", wanted,
                         endpoint=proxy.endpoint, SHARD_LOG="warn")
    # Folders are asked for where guesses fail; it does not matter if they are not told.
    wanted = sorted(k.encode() for k in dict(distributions(count))["chains"])
    for fault in ("500", "cut", error(403, "AccessDenied"), error(501, "NotImplemented")):
        asked = []
        with Proxy(s3.endpoint, fault=lambda q, f=fault, a=asked: (a.append(q), f)[1]
                   if "delimiter" in q.query else None) as proxy:
            s3.lists(f"no folders: {fault if isinstance(fault, str) else 'an error'}", "s3://chains",
                     wanted, endpoint=proxy.endpoint,
                     SHARD_LOG="warn")
            s3.check("they were asked for", asked, proxy.requests)
    # The ranks' shares.
    keys = sorted(f"img_{i:07d}_of_{count}.jpeg".encode() for i in range(count))
    shares = [s3.run("ls", "s3://numbers/", "--uri", "--rank", str(r), "--size", "3",
                     SHARD_LOG="warn").stdout.splitlines() for r in range(3)]
    s3.check("ls --rank --size", sorted(sum(shares, [])) == [b"s3://numbers/" + k for k in keys] and
             all(len(s) == 20000 for s in shares), [len(s) for s in shares])
    s3.lists("little memory", "s3://numbers/", keys, SHARD_LOG="warn", SHARD_BUILD_MEMORY="8M")
