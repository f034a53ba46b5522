"""shardctl and S3: against a real server (scripts/s3-server.sh), and one that is at fault (proxy.py).

    .venv/bin/python tests/s3/run.py [NAME...]     all parts, or those named

Prints 'ok NAME' or 'FAIL NAME: why', and the sums. Everything is made in a temporary folder.
"""
import contextlib
import errno
import fcntl
import glob
import gzip
import hashlib
import hmac
import io
import json
import mmap
import os
import random
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.parse
import uuid

import boto3
import botocore.config

from proxy import Instead, Proxy, Reply, error, redirect, shorten

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(REPO, "tests", "dlio"))
import launch  # pylint: disable=wrong-import-position

BUILD = os.path.join(REPO, os.environ.get("BUILD", "build"))
CTL = os.path.join(BUILD, "shardctl")
ACCESS, SECRET = "AKIDTESTTESTTEST0001", "testSecretKeyOfNoValue/+0123456789ABCDEFG"
TOKEN = "testSessionTokenOfNoValue/+=="
PAGE = 1000


class Results:
    """What was found."""

    def __init__(self):
        self.passed = self.failed = 0
        self.output = b""  # all that shardctl has written, to be searched for secrets

    def check(self, name, good, why=""):
        """A verdict."""
        if good:
            self.passed += 1
            print("ok", name, flush=True)
        else:
            self.failed += 1
            print(f"FAIL {name}: {str(why)[:600]}", flush=True)


class Bench:
    """The server, a folder, and shardctl started for them."""

    def __init__(self, folder, endpoint, results):
        self.folder, self.endpoint, self.results = folder, endpoint, results
        self.file = os.path.join(folder, "listing")
        self.client = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
            region_name="us-east-1", config=botocore.config.Config(s3={"addressing_style": "path"}))

    def environment(self, endpoint=None, **more):
        """shardctl's. A value None removes a variable."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "SHARD_")) and not k.lower().endswith("_proxy")}
        env.update(AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1",
                   AWS_ENDPOINT_URL=endpoint or self.endpoint, HOME=self.folder, TMPDIR=self.folder,
                   SHARD_LOG="debug")
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    def run(self, *arguments, endpoint=None, timeout=60, **more):
        """A finished process; its output is kept for the search for secrets."""
        # By a shell, for a process inherits the peak memory of what executes it.
        done = subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", CTL, *arguments], env=self.environment(endpoint, **more), capture_output=True,
                              timeout=timeout, check=False)
        self.results.output += done.stdout + done.stderr
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
            self.results.output += stream.read()
        return done, json.loads(done.stdout), names.stdout.split(b"\0")[:-1]

    def lists(self, name, url, wanted, *arguments, **more):
        """index finds exactly these names."""
        done, facts, names = self.index(url, *arguments, **more)
        why = done.stderr.decode(errors="replace")[-400:]
        if names is not None and names != wanted:
            extra, missing = set(names) - set(wanted), set(wanted) - set(names)
            why = f"{len(names)} names for {len(wanted)}; extra {sorted(extra)[:3]}, missing {sorted(missing)[:3]}"
        self.results.check(name, names == wanted, why)
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
        good = (done.returncode == status and same and not left and not done.stdout and text.count("\n") == 1 and
                all(word in text for word in words))
        self.results.check(name, good and (most is None or most()),
                           f"status {done.returncode}, file {'same' if same else 'changed'}, left {left}: {text}")

    def ranks(self, size, dataset, command, endpoint=None, **more):
        """[(status, lines, errors)] of ranks that run together, on one node."""
        processes = [subprocess.Popen(
            list(command), env=self.environment(endpoint, **{**dict(
                LD_PRELOAD=os.path.join(BUILD, "libshard.so"), SHARD_DATASET=dataset, SHARD_RANK=str(r), SHARD_SIZE=str(size), SHARD_LOG="info",
                SHARD_CACHE_DIR=os.path.join(self.folder, "cache")), **more}),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for r in range(size)]
        ended = [(p,) + p.communicate(timeout=60) for p in processes]
        self.results.output += b"".join(out + err for _, out, err in ended)
        return [(p.returncode, out.decode().splitlines(), err.decode()) for p, out, err in ended]

    def program(self, name):
        """A program of tests/programs."""
        built = os.path.join(self.folder, name)
        if not os.path.exists(built):
            subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", "-o", built, os.path.join(REPO, "tests/programs", name + ".c"), "-pthread"], check=True)
        return built

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
        self.put(bucket, keys[0])
        subprocess.run(["/usr/bin/python3", os.path.join(REPO, "tests/s3/fill.py"),
                        os.path.join(self.folder, "server/ceph.conf"), bucket],
                       input=b"".join(k.encode() + b"\0" for k in keys), timeout=60, check=True)

    def reference(self, bucket, prefix=""):
        """boto3's keys, without those of folders, relative to the prefix's last slash."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        root = prefix.rpartition("/")[0] + "/" if "/" in prefix else ""
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        return [k[len(root):].encode() for k in keys if not k.endswith("/")], sum(k.endswith("/") for k in keys)


HOSTILE = ([f"odd/{c}" for c in " !\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~"] + [f"odd/x{c}y" for c in " +%&<>\"';#?\\/\t\r\n\x01\x02\x1f\x7f"] +
           ["a//b", "a/b//c", "//lead", " lead", "trail ", "a/../b", "./c", "..", ".", "~home", "%41", "%2F", "+", "%2B", "a+b c%20d",
            "&amp;", "<Key>", "]]>", "&#10;", "\u00e9", "\u56fe\u50cf/\u6570\u636e.png", "\U0001f600.jpeg", "\U0001f600/\U0001f4a9", "\ud7ff", "\ue000", "\uffdc",
            "\U0010ffff", "k" * 1024, "\u56fe" * 341, "d/" * 500 + "f", "%" * 300, "s3://b/k", "C:\\x", "-o", "--help", "nul\x01\x02",
            "marker/", "marker/a", "marker/b/", "deep/er/", "A", "a", "Z", "z"])


def hostile(bench):
    """All keys of a hostile set are as boto3 lists them, byte for byte."""
    bench.bucket("hostile")
    bench.put("hostile", *HOSTILE)
    wanted, markers = bench.reference("hostile")
    wanted.sort()
    _, facts = bench.lists("hostile keys", "s3://hostile", wanted)
    bench.results.check("hostile keys: all", len(wanted) == len([k for k in set(HOSTILE) if not k.endswith("/")]), len(wanted))
    bench.results.check("markers are counted", facts.get("markers") == markers == 3, facts)
    bench.lists("hostile keys, slash", "s3://hostile/", wanted)
    for prefix in ("a", "a/", "a//", "odd/x", "odd", "/", "//", "%", "+", "\u56fe", "marker/", "marker", "d/d/", "k" * 1024, "&", " "):
        bench.lists(f"prefix {prefix[:20]!r}", f"s3://hostile/{prefix}", sorted(bench.reference("hostile", prefix)[0]))
    with Proxy(bench.endpoint, fault=lambda q: "as AWS") as proxy:
        bench.lists("hostile keys, blanks as AWS", "s3://hostile/", wanted, endpoint=proxy.endpoint)
    for keep in (1, 7, 40):
        with Proxy(bench.endpoint, fault=lambda q, k=keep: shorten(k)) as proxy:
            bench.lists(f"hostile keys, pages of {keep}", "s3://hostile/odd/x", sorted(bench.reference("hostile", "odd/x")[0]),
                        endpoint=proxy.endpoint)
            bench.lists(f"all hostile keys, pages of {keep}", "s3://hostile", wanted, endpoint=proxy.endpoint, SHARD_S3_CONNECTIONS="3")
    done = bench.run("ls", "-0", "s3://hostile/odd/x", "--uri")
    keys = sorted(b"s3://hostile/odd/" + k for k in bench.reference("hostile", "odd/x")[0])
    bench.results.check("ls --uri", done.stdout.split(b"\0")[:-1] == keys, done.stderr)
    bench.lists("--include", "s3://hostile/", [n for n in wanted if n.rpartition(b"/")[2].endswith((b".png", b".jpeg"))],
                "--include", "*.png:*.jpeg")
    bench.index("s3://hostile/marker/")
    stat = json.loads(bench.run("stat", bench.file, "--json").stdout)
    bench.results.check("the source is the url", stat.get("source") == "s3://hostile/marker/", stat)
    done = bench.run("ls", bench.file, "--uri")
    bench.results.check("ls --uri of a listing", done.stdout == b"s3://hostile/marker/a\n", done.stdout + done.stderr)


def distributions(count):
    """Names as programs make them, and such as no one should."""
    rng = random.Random(5)

    def name():
        return str(uuid.UUID(int=rng.getrandbits(128)))

    yield "numbers", [f"img_{i:07d}_of_{count}.jpeg" for i in range(count)]
    yield "unpadded", [f"train/x{i}" for i in range(count)]
    yield "uuids", [name() + ".npz" for _ in range(count)]
    yield "deep", ["a/prefix/of/many/levels/" * 8 + f"part-{i // 100:05d}/of/it/x{i % 100}" for i in range(count)]
    yield "hot", [f"{chr(97 + i % 26) * 3}/{i}" for i in range(count // 50)] + [f"m/hot/{i:09d}.npz" for i in range(count - count // 50)]
    yield "tail", [f"a{i:06d}" for i in range(count // 20)] + ["zz/" + name() for _ in range(count - count // 20)]
    yield "folders", [f"train/n{i // 1300 * 37:08d}/n{i // 1300 * 37:08d}_{i % 1300 * 7}.JPEG" for i in range(count)]
    yield "other-scripts", [f"\u56fe\u50cf/{chr(0x4e00 + i % 5000)}{i:06d}.png" for i in range(count)]
    yield "chains", ["x" * (i % 900) + f"/{i // 900}" for i in range(count)]


def ranges(bench):
    """Hostile distributions: every key once, and few requests."""
    count = 60000
    for name, keys in distributions(count):
        bench.fill(name, keys)
        wanted = sorted(k.encode() for k in keys)
        assert len(set(wanted)) == count, name
        for connections in ("32", "1", "5"):
            if connections != "32" and name not in ("hot", "uuids"):
                continue
            with Proxy(bench.endpoint, delay=0.01 if connections == "32" else 0) as proxy:
                _, facts = bench.lists(f"{name}, {connections} connections", f"s3://{name}", wanted, endpoint=proxy.endpoint,
                                       SHARD_S3_CONNECTIONS=connections, SHARD_LOG="warn")
                # 1.5 * pages + 64 is what no division of ranges may exceed; these are what it needs.
                most = {"folders": 135, "chains": 125}.get(name, 115)
                bench.results.check(f"{name}, {connections} connections: {proxy.requests} requests",
                                    proxy.requests <= (most if connections != "1" else count // PAGE + 1) and
                                    proxy.requests == facts.get("requests"), f"{proxy.requests}, at most {most}; {facts}")
        if name in ("numbers", "uuids", "hot"):
            with Proxy(bench.endpoint, fault=lambda q: shorten(0) if q.number % 3 == 0 else shorten(100) if q.number % 5 == 0 else None) as proxy:
                bench.lists(f"{name}, short and empty pages", f"s3://{name}", wanted, endpoint=proxy.endpoint, SHARD_LOG="warn")
    # Folders are asked for where guesses fail; it does not matter if they are not told.
    wanted = sorted(k.encode() for k in dict(distributions(count))["chains"])
    for fault in ("500", "cut", error(403, "AccessDenied"), error(501, "NotImplemented")):
        asked = []
        with Proxy(bench.endpoint, fault=lambda q, f=fault, a=asked: (a.append(q), f)[1] if "delimiter" in q.query else None) as proxy:
            bench.lists(f"no folders: {fault if isinstance(fault, str) else 'an error'}", "s3://chains", wanted, endpoint=proxy.endpoint,
                        SHARD_LOG="warn")
            bench.results.check("they were asked for", asked, proxy.requests)
    # A part of a bucket; and the ranks' shares.
    keys = sorted(f"img_{i:07d}_of_{count}.jpeg".encode() for i in range(count))
    after, before = keys[1234].decode(), keys[45678].decode()
    bench.lists("--start-after", "s3://numbers/img", keys[1235:], "--start-after", after, SHARD_LOG="warn")
    bench.lists("--end-before", "s3://numbers", keys[:45678], "--end-before", before, SHARD_LOG="warn")
    bench.lists("--start-after --end-before", "s3://numbers/", keys[1235:45678], "--start-after", after, "--end-before", before, SHARD_LOG="warn")
    bench.lists("--end-before past all", "s3://numbers/img", keys, "--end-before", "zzz", SHARD_LOG="warn")
    bench.lists("an empty range", "s3://numbers/", [], "--start-after", before, "--end-before", after, SHARD_LOG="warn")
    shares = [bench.run("ls", "s3://numbers/", "--uri", "--rank", str(r), "--size", "3", SHARD_LOG="warn").stdout.splitlines() for r in range(3)]
    bench.results.check("ls --rank --size", sorted(sum(shares, [])) == [b"s3://numbers/" + k for k in keys] and
                        all(len(s) == 20000 for s in shares), [len(s) for s in shares])
    _, facts, _ = bench.index("s3://numbers/", SHARD_LOG="warn", SHARD_BUILD_MEMORY="8M")
    bench.results.check("bounded memory", facts.get("peak_rss", 1 << 40) < 64 << 20, facts)


def accounts(bench):
    """Credentials, profiles, errors about them, the clock."""
    bench.bucket("small")
    keys = ["a", "b/c", "b/d"]
    bench.put("small", *keys)
    names = [k.encode() for k in keys]
    bench.lists("keys from the environment", "s3://small", names)
    with Proxy(bench.endpoint) as proxy:
        bench.lists("a session token", "s3://small", names, endpoint=proxy.endpoint, AWS_SESSION_TOKEN=TOKEN)
        headers = proxy.seen[-1][1]
        bench.results.check("it is sent and signed", headers.get("x-amz-security-token") == TOKEN and
                            "x-amz-security-token" in headers["authorization"].partition("SignedHeaders=")[2], headers)
    folder = os.path.join(bench.folder, ".aws")
    os.mkdir(folder)
    with open(os.path.join(folder, "credentials"), "w", encoding="ascii") as stream:
        stream.write(f"[default]\naws_access_key_id = WRONG\naws_secret_access_key = wrong\n"
                     f"[work]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\n")
    with open(os.path.join(folder, "config"), "w", encoding="ascii") as stream:
        stream.write(f"[profile work]\nregion = eu-west-3\nendpoint_url = {bench.endpoint}\n")
    none = dict.fromkeys(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"])
    bench.lists("a profile", "s3://small", names, AWS_PROFILE="work", AWS_ENDPOINT_URL=None, **none)
    shutil.move(folder, folder + "-elsewhere")
    bench.lists("files elsewhere", "s3://small", names, AWS_PROFILE="work", AWS_ENDPOINT_URL=None,
                AWS_SHARED_CREDENTIALS_FILE=folder + "-elsewhere/credentials", AWS_CONFIG_FILE=folder + "-elsewhere/config", **none)
    bench.refuses("no credentials", "s3://small", ["AWS_ACCESS_KEY_ID"], **none)
    bench.refuses("no such profile", "s3://small", ["AWS_PROFILE", "nope"], AWS_PROFILE="nope", **none)
    for name, url, words, more in (
            ("wrong secret", "s3://small", ["SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"], {"AWS_SECRET_ACCESS_KEY": "wrongSecret/9"}),
            ("unknown key", "s3://small", ["InvalidAccessKeyId"], {"AWS_ACCESS_KEY_ID": "NOBODY"}),
            ("no such bucket", "s3://nosuchbucket/x", ["nosuchbucket", "NoSuchBucket"], {}),
            ("no permission", "s3://small", ["AccessDenied"], {"anonymous": True})):
        with Proxy(bench.endpoint) as proxy:
            more = dict(more)
            arguments = ["--no-sign-request"] if more.pop("anonymous", False) else []
            bench.refuses(name, url, words, *arguments, endpoint=proxy.endpoint,
                          most=lambda p=proxy: 1 <= p.requests <= 10, **more)
    bench.client.put_bucket_acl(Bucket="small", ACL="public-read")
    bench.lists("--no-sign-request of a public bucket", "s3://small", names, "--no-sign-request", **none)
    bench.refuses("nobody listens", "s3://small", ["127.0.0.1:9", "AWS_ENDPOINT_URL"], endpoint="http://127.0.0.1:9")
    bench.refuses("no such host", "s3://small", ["AWS_ENDPOINT_URL"], endpoint="http://no-such-host.invalid")
    # A proxy that refuses is asked once; its password, which libcurl's messages have, is not shown.
    for status in (403, 407):
        with Proxy(bench.endpoint, fault=lambda q, s=status: Instead(lambda *_: Reply(s, b""))) as proxy:
            bench.refuses(f"a proxy says {status}", "s3://small", [str(status), "proxy"], endpoint="https://s3.example",
                          https_proxy=proxy.endpoint.replace("//", "//joe:wrongSecret%2F9@"), most=lambda p=proxy: p.requests == 1)
    for url in ("foo://joe:wrongSecret/9@127.0.0.1:1", "http://joe:wrongSecret/9@[::"):
        bench.refuses(f"a bad proxy {url[:3]}", "s3://small", ["s3://small"], http_proxy=url, SHARD_TIMEOUT="2")
    bench.refuses("a bad endpoint", "s3://small", ["AWS_ENDPOINT_URL"], endpoint="127.0.0.1:9000")
    bench.refuses("a bad url", "s3:///x", ["s3:///x"], status=2)
    bench.refuses("bad connections", "s3://small", ["SHARD_S3_CONNECTIONS"], status=2, SHARD_S3_CONNECTIONS="0")
    bench.refuses("bad addressing", "s3://small", ["SHARD_S3_ADDRESSING"], status=2, SHARD_S3_ADDRESSING="host")
    bench.refuses("an option of texts", "s3://small", ["--unique"], "--unique", status=2)
    done, facts, got = bench.index("s3://small/none/")
    bench.results.check("an empty result", got == [] and facts["entries"] == 0 and b"warning" in done.stderr and b"s3://small/none/" in done.stderr, done)
    clock = os.path.join(bench.folder, "clock.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", clock, os.path.join(REPO, "tests/s3/clock.c")], check=True)
    for off in ("5000", "-5000"):
        with Proxy(bench.endpoint) as proxy:
            bench.lists(f"a clock {off} s off", "s3://small", names, endpoint=proxy.endpoint, LD_PRELOAD=clock, TEST_CLOCK=off)
            bench.results.check("found out once", proxy.requests == 2, proxy.requests)
    skewed = error(403, "RequestTimeTooSkewed", [("Date", "Mon, 01 Jan 2001 00:00:00 GMT")])
    for name, fault in (("a server's clock that is wrong", skewed), ("a server without a clock", error(403, "RequestTimeTooSkewed"))):
        with Proxy(bench.endpoint, fault=lambda q, f=fault: f) as proxy:
            bench.refuses(name, "s3://small", ["clock"], endpoint=proxy.endpoint, most=lambda p=proxy: p.requests <= 10)


def addressing(bench):
    """Buckets in the host's name, or in the path."""
    bench.bucket("styles")
    bench.put("styles", "a", "b")
    with Proxy(bench.endpoint) as proxy:
        named = proxy.endpoint.replace("127.0.0.1", "localhost")
        for style, endpoint, virtual in (("auto", named, True), ("auto", proxy.endpoint, False), (None, named, True),
                                         ("path", named, False), ("virtual", named, True)):
            bench.lists(f"addressing {style}, {endpoint.rpartition(':')[0]}", "s3://styles/", [b"a", b"b"], endpoint=endpoint,
                        SHARD_S3_ADDRESSING=style)
            target, headers = proxy.seen[-1]
            bench.results.check("as asked", headers["host"].startswith("styles.") == virtual and target.startswith("/styles") != virtual,
                                (target, headers))


def certificate(folder, name, subject, ca=None):
    """Makes NAME.pem and NAME.key for a host or a CA."""
    base = os.path.join(folder, name)
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
               "-keyout", base + ".key", "-out", base + ".pem", "-subj", f"/CN={name}"]
    if ca:
        command += ["-CA", os.path.join(folder, ca + ".pem"), "-CAkey", os.path.join(folder, ca + ".key"),
                    "-addext", f"subjectAltName={subject}", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(base + ".pem", base + ".key")
    return context


def tls(bench):
    """TLS is verified: by the CA, and by the host's name."""
    bench.bucket("safe")
    bench.put("safe", "a", "b")
    certificate(bench.folder, "ca", None)
    right = certificate(bench.folder, "right", "IP:127.0.0.1,DNS:localhost", "ca")
    wrong = certificate(bench.folder, "wrong", "DNS:other.example", "ca")
    bundle = os.path.join(bench.folder, "ca.pem")
    with Proxy(bench.endpoint, tls=right) as proxy:
        bench.lists("TLS with an own CA", "s3://safe", [b"a", b"b"], endpoint=proxy.endpoint, AWS_CA_BUNDLE=bundle)
        asked = proxy.requests
        bench.refuses("TLS without it", "s3://safe", ["AWS_CA_BUNDLE", "certificate"], endpoint=proxy.endpoint)
        bench.refuses("TLS with another CA", "s3://safe", ["AWS_CA_BUNDLE"], endpoint=proxy.endpoint,
                      AWS_CA_BUNDLE=os.path.join(bench.folder, "wrong.pem"))
        bench.refuses("no such bundle", "s3://safe", ["AWS_CA_BUNDLE", "/none.pem"], endpoint=proxy.endpoint, AWS_CA_BUNDLE="/none.pem")
        bench.results.check("nothing was asked then", proxy.requests == asked, proxy.requests)
        bench.refuses("http to a TLS port", "s3://safe", ["s3://safe"], endpoint=proxy.endpoint.replace("https", "http"), SHARD_TIMEOUT="1")
    with Proxy(bench.endpoint, tls=wrong) as proxy:
        bench.refuses("TLS with a wrong host name", "s3://safe", ["127.0.0.1"], endpoint=proxy.endpoint, AWS_CA_BUNDLE=bundle)
        bench.results.check("nothing was sent", proxy.requests == 0, proxy.requests)


def faults(bench):
    """A server or network that is at fault: right and complete, or an error and no file."""
    count = 12500
    keys = [f"d{i // 1000:02d}/k{i:07d}" for i in range(count)]
    bench.fill("faulty", keys)
    wanted = [k.encode() for k in keys]
    patient = Proxy(bench.endpoint, fault=lambda q: "503").__enter__()  # while the others run
    waits = subprocess.Popen((CTL, "index", "s3://faulty", "-o", bench.file + "-none"), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                             env=bench.environment(patient.endpoint, SHARD_LOG="warn", SHARD_TIMEOUT="14"))
    passing = ["500", "503", "error200", "reset", "close", "cut", "empty body", "ill-formed", "html", "too short", "too long", "stall"]
    for fault in passing:
        with Proxy(bench.endpoint, fault=lambda q, f=fault: f if q.number in (1, 5, 6, 14) else None) as proxy:
            _, facts = bench.lists(f"{fault} now and then", "s3://faulty", wanted, endpoint=proxy.endpoint,
                                   SHARD_TIMEOUT="4" if fault in ("stall", "too long") else "60")
            # libcurl itself repeats a request whose connection had been kept and is gone.
            bench.results.check("it was met", facts.get("retries", 0) >= 2, facts)
    with Proxy(bench.endpoint, fault=lambda q: "503" if q.number % 2 else None) as proxy:
        bench.lists("every other request 503", "s3://faulty", wanted, endpoint=proxy.endpoint)
    rng = random.Random(3)
    with Proxy(bench.endpoint, fault=lambda q: rng.choice(["500", "reset", "close", None, None, None, None, None])) as proxy:
        bench.lists("faults by chance", "s3://faulty", wanted, endpoint=proxy.endpoint)
    # For good. Damaged replies end it soon, the others after SHARD_TIMEOUT.
    for fault in passing:
        begin = time.monotonic()
        with Proxy(bench.endpoint, fault=lambda q, f=fault: f if q.number > 3 else None) as proxy:
            bench.refuses(f"{fault} for good", "s3://faulty", ["s3://faulty"], endpoint=proxy.endpoint, SHARD_TIMEOUT="2")
        took = time.monotonic() - begin
        bench.results.check("in time", took < 15, took)
    said = waits.communicate(timeout=60)[1]
    patient.__exit__(None, None, None)
    lines = said.decode().splitlines()
    bench.results.output += said
    bench.results.check("one line that it is tried again", waits.returncode == 1 and len(lines) == 2 and "warning" in lines[0] and
                        all("HTTP 503" in line and "SHARD_TIMEOUT" in line for line in lines), lines)
    # What does not pass is not tried again.
    for status in (501, 505, 511):
        with Proxy(bench.endpoint, fault=lambda q, s=status: error(s, "NotImplemented")) as proxy:
            bench.refuses(f"{status} for good", "s3://faulty", [str(status)], endpoint=proxy.endpoint, most=lambda p=proxy: p.requests == 1)
    first = {}

    def repeat(request, reply):
        return first.setdefault("reply", reply)

    for name, fault, words in (("a page repeated", repeat, ["repeats"]), ("no token", "no token", ["NextContinuationToken"]),
                               ("an empty page repeated", lambda q, r: repeat(q, shorten(0)(q, r)), ["empty"])):
        first.clear()
        with Proxy(bench.endpoint, fault=lambda q, f=fault: f) as proxy:
            bench.refuses(name, "s3://faulty", words, endpoint=proxy.endpoint, most=lambda p=proxy: p.requests < 200)
    with Proxy(bench.endpoint) as other:
        for name, status, where, words in (("a redirect to another host", 307, other.endpoint + "/faulty", [other.endpoint[7:], "redirects"]),
                                           ("a redirect by 301", 301, other.endpoint + "/faulty", ["AWS_ENDPOINT_URL_S3"]),
                                           ("a redirect to AWS", 307, "https://faulty.s3.eu-west-1.amazonaws.com/", ["amazonaws"]),
                                           ("a redirect to nowhere", 301, "", ["redirects"]),
                                           ("a redirect to ftp", 302, "ftp://127.0.0.1/", ["redirects"]),
                                           ("a redirect to TLS", 301, "https://127.0.0.1/faulty", ["https://127.0.0.1"]),
                                           ("a redirect loop", 307, "/faulty", ["circle"])):
            with Proxy(bench.endpoint, fault=lambda q, s=status, w=where: redirect(s, w)) as proxy:
                bench.refuses(name, "s3://faulty", words, endpoint=proxy.endpoint, most=lambda p=proxy: p.requests <= 10)
        bench.results.check("no one else was asked", other.requests == 0, other.seen)
    with Proxy(bench.endpoint, fault=lambda q: redirect(307, "/faulty?" + q.target.partition("?")[2]) if q.number == 1 else None) as proxy:
        bench.lists("a redirect to itself, once", "s3://faulty", wanted, endpoint=proxy.endpoint)
    wrong = error(400, "AuthorizationHeaderMalformed", more="<Region>eu-south-9</Region>")
    with Proxy(bench.endpoint, fault=lambda q: wrong if "/eu-south-9/" not in q.headers["authorization"] else None) as proxy:
        bench.lists("another region", "s3://faulty", wanted, endpoint=proxy.endpoint)
    # Killed: no file, and nothing left in a listing's place.
    with Proxy(bench.endpoint, fault=lambda q: "stall") as proxy:
        os.unlink(bench.file)
        process = subprocess.Popen([CTL, "index", "s3://faulty", "-o", bench.file], env=bench.environment(proxy.endpoint, AWS_SESSION_TOKEN=TOKEN),
                                   stderr=subprocess.PIPE)
        while proxy.requests == 0:
            time.sleep(0.01)
        shown = subprocess.run(["ps", "axwwo", "args"], capture_output=True, check=True).stdout
        bench.results.check("ps shows no secret", b"s3://faulty" in shown and SECRET.encode() not in shown and TOKEN.encode() not in shown, "it does")
        process.send_signal(signal.SIGTERM)
        bench.results.output += process.communicate(timeout=20)[1]
        bench.results.check("ended by a signal", process.returncode == -signal.SIGTERM and not os.path.exists(bench.file), process.returncode)


WALK = """import os, sys
for path, folders, files in os.walk(sys.argv[1]):
    for name in files:
        whole = os.path.join(path, name)
        print(os.path.relpath(whole, sys.argv[1]), os.path.getsize(whole))
"""


def mounted(bench):
    """A directory that stands for a prefix: names come from the bucket, data from the directory."""
    names = [f"train/{d}/img_{i:04d}.jpeg" for d in ("a", "b c", "d/deep") for i in range(700)] + ["train/top", "train/+%41"]
    bench.fill("mounted", sorted(names + ["train", "trainer/x", "train/marker/", "valid/y"]))
    mount = os.path.join(bench.folder, "mnt")
    for name in names + ["train/not in the bucket", "valid/y"]:
        os.makedirs(os.path.join(mount, os.path.dirname(name)), exist_ok=True)
        with open(os.path.join(mount, name), "wb") as stream:
            stream.write(name.encode())
    root = os.path.join(mount, "train")

    def ranks(size, url, endpoint, command=(sys.executable, "-c", WALK, root), **more):
        return bench.ranks(size, f"{root}={url}", command, endpoint, **more)

    wanted = sorted(f"{n[6:]} {len(n)}" for n in names)
    with Proxy(bench.endpoint) as proxy:
        got = ranks(4, "s3://mounted/train", proxy.endpoint, SHARD_JOB="one")
        bench.results.check("mounted: every key once over the ranks", sorted(line for _, lines, _ in got for line in lines) == wanted, got[0][2])
        sizes = [len(lines) for _, lines, _ in got]
        bench.results.check("mounted: shares are equal", max(sizes) - min(sizes) <= 1, sizes)
        said = sum(err.count("listing 's3://mounted/train/'") for _, _, err in got)
        bench.results.check("mounted: one listing's requests for all ranks", said == 1 and proxy.requests <= 12, f"{said} listings, {proxy.requests} requests")
        before = proxy.requests
        again = ranks(3, "s3://mounted/train/", proxy.endpoint, SHARD_JOB="one", SHARD_STRATEGY="stride", SHARD_SEED="5")
        lines = [line for _, lines, _ in again for line in lines]
        bench.results.check("mounted: stride, shuffled", sorted(lines) == wanted, len(lines))
        bench.results.check("mounted: the job's listing again", proxy.requests == before, proxy.requests - before)
        bench.put("mounted", "train/top2")
        with open(os.path.join(root, "top2"), "wb"):
            pass
        later = ranks(1, "s3://mounted/train", proxy.endpoint, SHARD_JOB="one")[0][1]
        bench.results.check("mounted: a job keeps its listing", sorted(later) == wanted, len(later))
        later = ranks(2, "s3://mounted/train", proxy.endpoint, SHARD_JOB="two")
        bench.results.check("mounted: the next job sees a new key", sorted(x for r in later for x in r[1]) == sorted(wanted + ["top2 0"]), len(later[0][1]))
        kept, before = glob.glob(os.path.join(bench.folder, "cache", "*-*.listing")), proxy.requests
        same = ranks(2, "s3://mounted/train", proxy.endpoint, SHARD_JOB="two and a half")
        bench.results.check("mounted: a job that finds the same leaves no second listing",
                            sorted(x for r in same for x in r[1]) == sorted(wanted + ["top2 0"]) and proxy.requests > before and
                            kept and set(glob.glob(os.path.join(bench.folder, "cache", "*-*.listing"))) == set(kept), (kept, same[0][2]))
        plain = ranks(2, "s3://mounted/train", proxy.endpoint, command=("ls", "-a", os.path.join(root, "d")))
        bench.results.check("mounted: a folder among folders", [r[1] for r in plain] == [[".", "..", "deep"]] * 2, plain)
        bad = ranks(2, "s3://mounted/train", proxy.endpoint, AWS_SECRET_ACCESS_KEY="wrongSecret/9", SHARD_JOB="three", SHARD_LOG="warn")
        bench.results.check("mounted: a wrong secret", all(not lines and "s3://mounted/train" in err and "AWS_SECRET" in err for _, lines, err in bad), bad)
        bad = ranks(1, "s3://nosuchbucket/train", proxy.endpoint, SHARD_JOB="three", SHARD_LOG="warn")
        bench.results.check("mounted: no such bucket", not bad[0][1] and "nosuchbucket" in bad[0][2], bad)
    with Proxy(bench.endpoint, fault=lambda q: "503") as proxy:
        bad = ranks(1, "s3://mounted/train", proxy.endpoint, SHARD_JOB="four", SHARD_LOG="warn", SHARD_TIMEOUT="1")
        bench.results.check("mounted: why nothing comes", not bad[0][1] and "HTTP 503" in bad[0][2], bad)
    bad = ranks(1, "s3://mounted/a:b", bench.endpoint, SHARD_JOB="four", SHARD_LOG="warn")
    bench.results.check("mounted: a prefix with a colon", not bad[0][1] and "s3://mounted/a:b" in bad[0][2], bad)
    file = os.path.join(bench.folder, "given.listing")
    bench.run("index", "s3://mounted/train/", "-o", file)
    got = ranks(2, "s3://mounted/train", "http://127.0.0.1:9", SHARD_LISTING=file)
    bench.results.check("mounted: a listing made before", sorted(x for r in got for x in r[1]) == sorted(wanted + ["top2 0"]), got[0][2])
    bench.run("index", "s3://mounted/", "-o", file)
    got = ranks(2, "s3://mounted/train", bench.endpoint, SHARD_LISTING=file, SHARD_JOB="whole", SHARD_LOG="warn")
    bench.results.check("mounted: a listing of the whole bucket is not used, and that is said", sorted(x for r in got for x in r[1]) ==
                        sorted(wanted + ["top2 0"]) and all("is not used" in err and "'s3://mounted/'" in err for _, _, err in got), got[0][2])


def until(found, seconds=30):
    """What found() gives once it gives something."""
    end = time.monotonic() + seconds
    while not (result := found()):
        if time.monotonic() > end:
            raise TimeoutError(found)
        time.sleep(0.02)
    return result


def leader_of(folder, *words):
    """The process that has these arguments, a path below the folder among them, and a session of its own; None if there is none."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as stream:
            arguments = stream.read().split(b"\0")
            ours = any(a.startswith(os.fsencode(folder) + b"/") for a in arguments)  # others may run this test, too
            if ours and set(words) <= set(arguments) and os.getsid(int(pid)) == int(pid):
                return int(pid)
    return None


FIRST = """import glob, os, sys
names = os.scandir(sys.argv[1])
print(*sorted(next(names).name for _ in range(300)), sep="\\n")
print("complete" if glob.glob(sys.argv[2] + "/*.end") else "going on", flush=True)
print(*sorted(entry.name for entry in names), sep="\\n")
"""


BEGIN = """import os, sys
names = os.scandir(sys.argv[1])
next(names)
open(sys.argv[2] + os.environ["SHARD_RANK"], "w").close()
print(1 + sum(1 for _ in names))
"""


READDIR_R = """import ctypes, sys
libc, entry, at = ctypes.CDLL(None), ctypes.create_string_buffer(280), ctypes.c_void_p(1)
libc.opendir.restype = ctypes.c_void_p
names, count, status = ctypes.c_void_p(libc.opendir(sys.argv[1].encode())), -1, 0
while at.value:
    count, status = count + 1, libc.readdir_r(names, entry, ctypes.byref(at))
print(count, status)
"""


def streamed(bench):
    """A mounted bucket under hash: names are seen as they come, and all of them in the end."""
    results = bench.results
    small = [f"train/{d}/img_{i:04d}.jpeg" for d in ("a", "b c", "d/deep") for i in range(700)] + ["train/top", "train/+%41"]
    flat = [f"flat/{uuid.UUID(int=i * 0x9e3779b97f4a7c15f39cc0605cedc835 % (1 << 128))}" for i in range(30000)]
    bench.fill("streamed", sorted(small + flat + ["train", "trainer/x", "train/marker/", "train/e//x"]))
    mount = os.path.join(bench.folder, "streams")
    for name in small + ["train/not in the bucket", "train/own/file", "flat/x", "none/x", "long/x"]:
        os.makedirs(os.path.join(mount, os.path.dirname(name)), exist_ok=True)
        with open(os.path.join(mount, name), "wb") as stream:
            stream.write(name.encode())
    cache = os.path.join(bench.folder, "cache")
    wanted = sorted(f"{n[6:]} {len(n)}" for n in small)

    def ranks(size, folder, endpoint, *command, **more):
        root = os.path.join(mount, folder)
        return bench.ranks(size, f"{root}=s3://streamed/{folder}", [x.replace("ROOT", root) for x in command], endpoint,
                           **{"SHARD_STRATEGY": "hash", **more})

    walk = (sys.executable, "-c", WALK, "ROOT")
    with Proxy(bench.endpoint) as proxy:
        for size, seed in ((4, None), (3, "5")):
            before = proxy.requests
            got = ranks(size, "train", proxy.endpoint, *walk, SHARD_JOB=f"of {size}", SHARD_SEED=seed)
            results.check(f"streamed: every key once over {size} ranks", sorted(line for _, lines, _ in got for line in lines) == wanted, got[0][2])
            results.check("streamed: every rank has some", all(len(lines) > 300 for _, lines, _ in got), [len(x[1]) for x in got])
            results.check("streamed: one listing's requests for all ranks", proxy.requests - before <= 12, proxy.requests - before)
        plain = ranks(2, "train", proxy.endpoint, "ls", "-A", "ROOT", SHARD_JOB="of 3")
        results.check("streamed: folders for all ranks", all({"a", "b c", "d", "own", "e"} - set(r[1]) == {"own"} for r in plain) and
                      sorted(x for r in plain for x in r[1] if x in ("top", "+%41")) == ["+%41", "top"], plain)
        for folder in ("a", "own", "d"):
            got = ranks(1, "train", proxy.endpoint, "ls", "-A", f"ROOT/{folder}", SHARD_JOB="of 3")
            results.check(f"streamed: folder {folder}", got[0][1] == {"a": [n[8:] for n in small if n.startswith("train/a/")], "own": [], "d": ["deep"]}[folder], got)
        for mode in ("list", "threads", "handed", "rewinding"):
            got = ranks(2, "train", proxy.endpoint, bench.program("calls"), mode, "ROOT/b c", SHARD_JOB="of 3", SHARD_LOG="warn")
            names = [n for r in got for n in "\n".join(r[1]).split("\0") if n]
            results.check(f"streamed: all calls, {mode}", all(r[0] == 0 and not r[2] for r in got) and
                          (mode != "list" or sorted(names) == [f"img_{i:04d}.jpeg" for i in range(700)]), got)
        got = ranks(2, "train", proxy.endpoint, *walk, SHARD_JOB="includes", SHARD_INCLUDE="*1.jpeg")
        results.check("streamed: SHARD_INCLUDE", sorted(x for r in got for x in r[1]) == [w for w in wanted if w.rpartition(" ")[0].endswith("1.jpeg")], got[0][2])
        got = ranks(2, "none", proxy.endpoint, "ls", "-A", "ROOT", SHARD_JOB="none")
        results.check("streamed: no key at all, and a word on it", [r[:2] for r in got] == [(0, []), (0, [])] and
                      all(r[2].count("there is no key") == 1 for r in got), got)
        got = ranks(2, "none", proxy.endpoint, "ls", "-A", "ROOT", SHARD_JOB="none", SHARD_STRATEGY="range")
        results.check("mounted: no key at all, and a word on it", [r[:2] for r in got] == [(0, []), (0, [])] and
                      all(r[2].count("there is no key") == 1 for r in got), got)
        long = [f"{c}" * n for c, n in zip("abcdefgh", (1, 200, 255, 256, 300, 500, 900, 1000))]
        bench.put("streamed", *("long/" + name for name in long))
        listdir = (sys.executable, "-c", "import os, sys; print(*os.listdir(sys.argv[1]), sep='\\n')", "ROOT")
        got = ranks(2, "long", proxy.endpoint, *listdir, SHARD_JOB="long", SHARD_SEED="3", SHARD_LOG="warn")
        results.check("streamed: long names, shuffled", sorted(x for r in got for x in r[1]) == long, got)
        got = ranks(1, "long", proxy.endpoint, sys.executable, "-c", READDIR_R, "ROOT", SHARD_JOB="long", SHARD_SEED="3")
        results.check("streamed: readdir_r tells of long names", got[0][1] == [f"{2 + 4} {errno.ENAMETOOLONG}"], got)
        got = ranks(2, "long", proxy.endpoint, *listdir, SHARD_JOB="long", SHARD_LISTING="/nowhere/x.listing", SHARD_LOG="warn")
        results.check("streamed: SHARD_LISTING is not for hash", sorted(x for r in got for x in r[1]) == long and
                      all(r[2].count("\n") == 1 and "/nowhere/x.listing' is not used" in r[2] for r in got), got)
        bad = ranks(2, "train", proxy.endpoint, "ls", "ROOT", AWS_SECRET_ACCESS_KEY="wrongSecret/9", SHARD_JOB="bad", SHARD_LOG="warn")
        results.check("streamed: a wrong secret", all(r[0] != 0 and not r[1] and "AWS_SECRET" in r[2] for r in bad), bad)
    # The first names come while the rest does not.
    with Proxy(bench.endpoint) as proxy:
        def hold(request, proxy=proxy):
            proxy.delay = 1
        proxy.fault = hold
        got = ranks(2, "flat", proxy.endpoint, sys.executable, "-c", FIRST, "ROOT", cache + "-slow", SHARD_CACHE_DIR=cache + "-slow")
        names = [x for r in got for x in r[1] if x != "going on"]
        results.check("streamed: the first names before the second page", all(r[1].count("going on") == 1 for r in got), [r[2] for r in got])
        results.check("streamed: and all in the end", sorted(names) == sorted(n[5:] for n in flat), len(names))
    # Whoever looks at it locks its file for a moment.
    alone = os.path.join(bench.folder, "alone")
    with open(alone + ".err", "wb") as stream:
        stream.write(b"before")
        stream.flush()
        fcntl.flock(stream, fcntl.LOCK_SH)

        def let_go():
            until(lambda: os.path.getsize(alone + ".err") == 0)  # shardctl is about to lock it
            time.sleep(0.1)
            fcntl.flock(stream, fcntl.LOCK_UN)

        looks = threading.Thread(target=let_go)
        looks.start()
        done = bench.run("stream", "s3://streamed/train/", "-o", alone)
        looks.join()
        results.check("streamed: while it is looked at", done.returncode == 0, done.stderr)
        until(lambda: os.path.exists(alone + ".end"))
    # It breaks off: an error, never a short listing.
    listdir = (sys.executable, "-c", "import os, sys; print(len(os.listdir(sys.argv[1])))", "ROOT")
    with Proxy(bench.endpoint, fault=lambda q: "500" if q.number > 4 else None) as proxy:
        got = ranks(2, "flat", proxy.endpoint, *listdir, SHARD_JOB="broken", SHARD_LOG="warn", SHARD_TIMEOUT="2",
                    SHARD_CACHE_DIR=cache + "-fails")
        results.check("streamed: and nothing is left of it", not [f for f in os.listdir(cache + "-fails") if ".part-" in f and not f.endswith(".err")],
                      os.listdir(cache + "-fails"))
        results.check("streamed: the server fails", all(r[0] != 0 and not r[1] and "s3://streamed/flat" in r[2] and "500" in r[2] for r in got), got)
    with Proxy(bench.endpoint) as proxy:
        def slow(request, proxy=proxy):
            proxy.delay = 30
        proxy.fault = slow
        begun = os.path.join(bench.folder, "begun")
        lists = threading.Thread(target=lambda: got.extend(ranks(2, "flat", proxy.endpoint, sys.executable, "-c", BEGIN, "ROOT", begun,
                                                                 SHARD_JOB="killed", SHARD_LOG="warn")))
        got = []
        lists.start()
        until(lambda: all(os.path.exists(begun + r) for r in "01"))
        os.kill(leader_of(cache, b"stream", b"s3://streamed/flat/"), signal.SIGKILL)
        lists.join()
        results.check("streamed: its shardctl is killed", len(got) == 2 and all(r[0] != 0 and not r[1] and "ended before its end" in r[2] for r in got), got)
        proxy.fault, proxy.delay = None, 0
        got = ranks(2, "flat", proxy.endpoint, *listdir, SHARD_JOB="killed")
        results.check("streamed: it begins anew", sum(int(r[1][0]) for r in got) == len(flat), got)
    # gc
    def bases():
        return {f[:f.index(".part-") + 22] for f in os.listdir(cache) if ".part-" in f}

    links = {os.readlink(os.path.join(cache, f)): f for f in os.listdir(cache) if ".stream-" in f}
    kept = {b for b in bases() if os.path.exists(os.path.join(cache, b + ".end"))}  # one has failed
    lost = min(kept)
    kept.remove(lost)
    os.unlink(os.path.join(cache, links.pop(lost)))
    bench.run("cache", "gc", SHARD_CACHE_DIR=cache)
    results.check("gc leaves the streams of jobs, and no others", len(kept) >= 4 and kept <= set(links) and bases() == kept, f"{kept} {bases()} {links}")
    most = shutil.copytree(cache, cache + "-most", symlinks=True)
    held = min(b for b in kept if os.path.exists(os.path.join(cache, b + ".1.listing")))
    bench.run("cache", "gc", "--max-size", "0", "--dry-run", SHARD_CACHE_DIR=most)
    results.check("gc --dry-run", sorted(os.listdir(most)) == sorted(os.listdir(cache)), os.listdir(most))
    with open(os.path.join(most, held + ".0.listing"), "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ):
        full = bench.run("cache", "gc", "--max-size", "0", SHARD_CACHE_DIR=most)
        left = {f for f in os.listdir(most) if ".part-" in f or ".stream-" in f}
        results.check("gc --max-size leaves the one in use", full.returncode == 1 and links[held] in left and held + ".end" in left and
                      all(f.startswith(held) or f == links[held] for f in left), left)
    done = bench.run("cache", "gc", "--max-size", "0", SHARD_CACHE_DIR=most)
    results.check("gc --max-size takes streams", done.returncode == 0 and not [f for f in os.listdir(most) if ".part-" in f or ".stream-" in f], os.listdir(most))
    for f in os.listdir(cache):
        os.utime(os.path.join(cache, f), (0, 0), follow_symlinks=False)
    with open(os.path.join(cache, held + ".0.listing"), "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ):
        bench.run("cache", "gc", SHARD_CACHE_DIR=cache)
        results.check("gc leaves all parts to who reads one", bases() == {held} and os.path.exists(os.path.join(cache, held + ".end")), os.listdir(cache))
    bench.run("cache", "gc", SHARD_CACHE_DIR=cache)
    results.check("gc takes them in the end", not [f for f in os.listdir(cache) if ".part-" in f or ".stream-" in f], os.listdir(cache))


def altered(_, reply):
    """A byte of the object is another, and its length right."""
    return Reply(reply.status, reply.body[:-1] + bytes([reply.body[-1] ^ 1]), reply.headers)


def shortened(_, reply):
    """Half of the object, as if it were the whole."""
    return Reply(reply.status, reply.body[:len(reply.body) // 2], reply.headers)


def dropped(_, reply):
    """No reply at all."""
    raise ConnectionResetError(reply.status)


def objects(bench):
    """Listings and manifests that are put into a bucket, and got from there."""
    results = bench.results
    bench.bucket("store")
    tree = os.path.join(bench.folder, "tree")
    names = [f"d{i % 7}/img_{i:04d} of it+.jpeg" for i in range(3000)]
    for name in names:
        os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
        with open(os.path.join(tree, name), "wb"):
            pass
    local, back, scratch = (os.path.join(bench.folder, n) for n in ("local.listing", "back", "scratch%r"))
    os.mkdir(scratch)
    bench.run("index", tree, "-o", local)

    def content(file=back):
        with open(file, "rb") as stream:
            return stream.read()

    def stored(key):
        return bench.client.get_object(Bucket="store", Key=key)["Body"].read()

    def keys():
        return [e["Key"] for e in bench.client.list_objects_v2(Bucket="store").get("Contents", [])]

    def same_names(file):
        return bench.run("stat", file).returncode == 0 and bench.run("ls", file).stdout == bench.run("ls", local).stdout

    # put: by index, from a directory and from the bucket itself
    key = "listings/a b+%41/x.listing"
    done = bench.run("index", tree, "-o", "s3://store/" + key, "--json", SHARD_TMPDIR=scratch, AWS_SESSION_TOKEN=None)
    results.check("index -o s3://", done.returncode == 0 and json.loads(done.stdout)["file"] == "s3://store/" + key and
                  json.loads(done.stdout)["entries"] == len(names), done)
    with open(back, "wb") as stream:
        stream.write(stored(key))
    results.check("it is whole there", same_names(back))
    results.check("nothing is left", os.listdir(scratch) == [], os.listdir(scratch))
    os.unlink(back)
    done = bench.run("get", "s3://store/" + key, "-o", back)
    results.check("get", done.returncode == 0 and content() == stored(key) and same_names(back), done)
    before = stored(key)
    done = bench.run("index", tree + "/d1", "-o", "s3://store/" + key, "--no-replace", SHARD_TMPDIR=scratch, SHARD_LOG="warn")
    results.check("--no-replace", done.returncode == 1 and b"there already" in done.stderr and b"s3://store/" in done.stderr and
                  stored(key) == before, done)
    done = bench.run("index", tree, "-o", "s3://store/new.listing", "--no-replace", SHARD_TMPDIR=scratch)
    results.check("--no-replace of a new one", done.returncode == 0 and "new.listing" in keys(), done)
    done = bench.run("index", "s3://store/listings/", "-o", "s3://store/of/bucket.listing", SHARD_TMPDIR=scratch)
    results.check("index s3:// -o s3://", done.returncode == 0 and stored("of/bucket.listing"), done)
    for source, right in ((tree + "/d1", lambda: not same_names(back)), (tree, lambda: same_names(back))):
        done = bench.run("index", source, "-o", "s3://store/" + key, SHARD_TMPDIR=scratch)
        with open(back, "wb") as stream:
            stream.write(stored(key))
        results.check("an object is replaced", done.returncode == 0 and right(), done)
    # manifests
    made = set()
    for size, pattern in (("40", "m/train_rank%r_epoch%e.txt"), ("1", "m/one%%.txt")):
        done = bench.run("manifest", local, "--size", size, "--seed", "3", "--epoch", "2", "-o", "s3://store/" + pattern, SHARD_TMPDIR=scratch)
        bench.run("manifest", local, "--size", size, "--seed", "3", "--epoch", "2", "-o", os.path.join(bench.folder, "rank%r"))
        wanted = {pattern.replace("%r", str(r)).replace("%e", "2").replace("%%", "%"): content(os.path.join(bench.folder, f"rank{r}"))
                  for r in range(int(size))}
        results.check(f"manifest -o s3://, {size} ranks", done.returncode == 0 and all(stored(k) == text for k, text in wanted.items()), done)
        made |= set(wanted)
        results.check("no others, and nothing is left", {k for k in keys() if k.startswith("m/")} == made and os.listdir(scratch) == [], keys())
    # Faults that pass, and those that do not.
    manifest = "m/train_rank0_epoch2.txt"
    bench.client.put_object(Bucket="store", Key="others.txt", Body=b"a\nb\n" * 1000)
    for name in ("500", "503", "reset", "close", "too short", "too long", "cut", "stall", altered, shortened, dropped):
        with Proxy(bench.endpoint, fault=lambda q, f=name: f if q.number == 1 else None) as proxy:
            done = bench.run("get", "s3://store/" + key, "-o", back, endpoint=proxy.endpoint, SHARD_TIMEOUT="4")
            results.check(f"get: {name}, once", done.returncode == 0 and content() == stored(key) and proxy.requests >= 2, done)
    for name, fault in (("500", "500"), ("too short", "too short"), ("cut", "cut"), ("reset", "reset"), ("altered", altered), ("shortened", shortened), ("html", "html")):
        for url in ("s3://store/" + key, "s3://store/" + manifest, "s3://store/others.txt"):
            with open(back, "wb") as stream:
                stream.write(b"older")
            with Proxy(bench.endpoint, fault=lambda q, f=fault: f) as proxy:
                done = bench.run("get", url, "-o", back, endpoint=proxy.endpoint, SHARD_TIMEOUT="1", SHARD_LOG="warn")
            results.check(f"get {url[-12:]}: {name} for good", done.returncode == 1 and content() == b"older" and url.encode() in done.stderr and
                          done.stderr.count(b"\n") == 1 and not [f for f in os.listdir(bench.folder) if f.startswith("back.")], done)
    for name in ("500", "503", "too long", dropped):
        with Proxy(bench.endpoint, fault=lambda q, f=name: f if q.number == 1 else None) as proxy:
            done = bench.run("index", tree, "-o", f"s3://store/put {name}", endpoint=proxy.endpoint, SHARD_TIMEOUT="4", SHARD_TMPDIR=scratch)
            bench.run("get", f"s3://store/put {name}", "-o", back)
            results.check(f"put: {name}, once", done.returncode == 0 and proxy.requests >= 2 and same_names(back), done)
    # --no-replace, and the reply to the first try is lost: what is there then is ours, or not.
    with Proxy(bench.endpoint, fault=lambda q: dropped if q.number == 1 else None) as proxy:
        done = bench.run("index", tree, "-o", "s3://store/lost.listing", "--no-replace", endpoint=proxy.endpoint, SHARD_TMPDIR=scratch)
        results.check("--no-replace: a lost reply", done.returncode == 0 and [r[::2] for r in proxy.replies] == [("PUT", 412), ("HEAD", 200)], proxy.replies)
        bench.run("get", "s3://store/lost.listing", "-o", back)
        results.check("--no-replace: it is there then", same_names(back))
    before = stored(key)
    for code, status in (("InternalError", 500), ("ConditionalRequestConflict", 409)):
        with Proxy(bench.endpoint, fault=lambda q, e=error(status, code): Instead(e) if q.number == 1 else None) as proxy:
            done = bench.run("index", tree + "/d1", "-o", "s3://store/" + key, "--no-replace", endpoint=proxy.endpoint, SHARD_TMPDIR=scratch, SHARD_LOG="warn")
            results.check(f"--no-replace: {code}, and another's", done.returncode == 1 and b"there already" in done.stderr and
                          done.stderr.count(b"\n") == 1 and stored(key) == before and proxy.requests == 3, (done, proxy.replies))
    # Killed while it puts: the next one removes what is left, but nothing of one that lives.
    with Proxy(bench.endpoint, delay=60) as proxy:
        pair = []
        for number, source in ((1, tree), (2, tree + "/d1")):
            pair.append(subprocess.Popen([CTL, "index", source, "-o", "s3://store/killed"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         env=bench.environment(proxy.endpoint, SHARD_TMPDIR=scratch)))
            until(lambda n=number: proxy.requests >= n)
        both = set(os.listdir(scratch))
        pair[0].kill()
        pair[0].wait()
        bench.run("manifest", local, "--size", "2", "-o", "s3://store/m/x%r", SHARD_TMPDIR=scratch)
        kept = os.listdir(scratch)
        results.check("a killed one's folder goes, a live one's stays", len(both) == 2 and len(kept) == 1 and os.listdir(os.path.join(scratch, kept[0])) == ["listing"], (both, kept))
        pair[1].kill()
        pair[1].wait()
    os.mkdir(os.path.join(scratch, ".shardctl-put.d"))
    os.mkdir(os.path.join(scratch, ".shardctl-put.Mine00"))
    with open(os.path.join(scratch, ".shardctl-put.Mine00", "x"), "wb"):
        pass
    bench.run("index", tree, "-o", "s3://store/killed", SHARD_TMPDIR=scratch)
    results.check("a folder of another name stays", os.listdir(scratch) == [".shardctl-put.d"], os.listdir(scratch))
    os.rmdir(os.path.join(scratch, ".shardctl-put.d"))
    # What is said.
    bench.client.put_object(Bucket="store", Key="no.listing", Body=b"no listing at all" * 1000)
    wrong = {"AWS_SECRET_ACCESS_KEY": "wrongSecret/9"}
    out = ["-o", back]
    for name, arguments, words, status, more in (
            ("get: no such object", ["get", "s3://store/none"] + out, ["s3://store/none", "NoSuchKey"], 1, {}),
            ("get: no such bucket", ["get", "s3://nostore/none"] + out, ["s3://nostore/none", "NoSuchBucket"], 1, {}),
            ("get: no listing", ["get", "s3://store/no.listing"] + out, ["s3://store/no.listing", "shardctl index"], 1, {}),
            ("get: wrong secret", ["get", "s3://store/" + key] + out, ["AWS_SECRET_ACCESS_KEY"], 1, wrong),
            ("get: no permission", ["get", "s3://store/" + key, "--no-sign-request"] + out, ["s3:GetObject"], 1, {}),
            ("get: no key", ["get", "s3://store/"] + out, ["s3://bucket/key"], 2, {}),
            ("get: no url", ["get", local] + out, ["s3://"], 2, {}),
            ("get: no FILE", ["get", "s3://store/" + key], ["-o FILE"], 2, {}),
            ("get: no folder", ["get", "s3://store/" + key, "-o", "/none/x"], ["/none/x"], 1, {}),
            ("put: wrong secret", ["index", tree, "-o", "s3://store/y"], ["s3://store/y", "AWS_SECRET_ACCESS_KEY"], 1, wrong),
            ("put: no such bucket", ["index", tree, "-o", "s3://nostore/y"], ["s3://nostore/y", "NoSuchBucket"], 1, {}),
            ("put: no key", ["index", tree, "-o", "s3://store/y/"], ["s3://bucket/key"], 2, {}),
            ("put: no room", ["index", tree, "-o", "s3://store/y"], ["SHARD_TMPDIR"], 1, {"SHARD_TMPDIR": "/none"}),
            ("--no-replace of a file", ["index", tree, "-o", back, "--no-replace"], ["--no-replace"], 2, {}),
            ("manifest: no %r", ["manifest", local, "--size", "2", "-o", "s3://store/m.txt"], ["%r"], 2, {}),
            ("manifest: %r in the bucket", ["manifest", local, "--size", "2", "-o", "s3://store%r/m.txt"], ["one bucket"], 2, {}),
            ("manifest: no key", ["manifest", local, "--size", "1", "-o", "s3://store"], ["s3://bucket/key"], 2, {})):
        done = bench.run(*arguments, SHARD_LOG="warn", **more)
        text = done.stderr.decode()
        results.check(name, done.returncode == status and text.count("\n") == 1 and all(w in text for w in words) and not done.stdout, done)
    # SHARD_LISTING: fetched once for a job on a node, for a rank with %r.
    walk = (sys.executable, "-c", WALK, tree)

    def listed(size, url, **more):
        with Proxy(bench.endpoint) as proxy:
            got = bench.ranks(size, tree, walk, proxy.endpoint, SHARD_LISTING=url, **more)
            return [[line.rpartition(" ")[0] for line in lines] for _, lines, _ in got], proxy.requests, got

    def lines_of(key):
        return stored(key).decode().split("\n")[:-1]

    lists, requests, got = listed(4, "s3://store/" + key.replace("%", "%%"), SHARD_JOB="one")
    results.check("SHARD_LISTING=s3://", sorted(sum(lists, [])) == sorted(names) and {len(x) for x in lists} == {750}, got)
    results.check("one request for all ranks", requests == 1, requests)
    bench.run("index", tree + "/d1", "-o", "s3://store/part.listing", SHARD_TMPDIR=scratch)
    with Proxy(bench.endpoint) as proxy:
        got = bench.ranks(1, tree, walk, proxy.endpoint, SHARD_LISTING="s3://store/part.listing", SHARD_JOB="apart")
    results.check("SHARD_LISTING of another directory is named as it was given", "SHARD_LISTING='s3://store/part.listing' is not used" in got[0][2], got[0][2])
    lists, requests, got = listed(3, "s3://store/" + key.replace("%", "%%"), SHARD_JOB="one", SHARD_STRATEGY="stride")
    results.check("and no more in the job", sorted(sum(lists, [])) == sorted(names) and requests == 0, got)
    url = "s3://store/m/train_rank%r_epoch%e.txt"
    lists, requests, got = listed(4, url, SHARD_JOB="one", SHARD_EPOCH="2")
    results.check("SHARD_LISTING=s3://...%r_epoch%e.txt", requests == 4 and
                  all(sorted(x) == sorted(lines_of(f"m/train_rank{r}_epoch2.txt")) for r, x in enumerate(lists)), got)
    old = [sorted(x) for x in lists]
    bench.client.put_object(Bucket="store", Key=manifest, Body=(names[5] + "\n").encode())
    lists, requests, got = listed(4, url, SHARD_JOB="one", SHARD_EPOCH="2")
    results.check("a job keeps its manifests", [sorted(x) for x in lists] == old and requests == 0, got)
    lists, requests, got = listed(1, url, SHARD_JOB="two", SHARD_EPOCH="2")
    results.check("the next one has the new one", lists == [[names[5]]] and requests == 1, got)
    bench.client.put_object(Bucket="store", Key="z.txt.gz", Body=gzip.compress("".join(n + "\n" for n in names[:10]).encode()))
    lists, requests, got = listed(2, "s3://store/z.txt.gz", SHARD_JOB="one")
    results.check("a packed manifest for all", sorted(sum(lists, [])) == sorted(names[:10]) and requests == 1, got)
    for command in (["gc"], ["gc", "--older-than", "0"], ["ls"]):
        done = bench.run("cache", *command, "--json", SHARD_CACHE_DIR=os.path.join(bench.folder, "cache"))
    kept = [e for e in json.loads(done.stdout)["files"] if ".got-" in e["file"]]
    results.check("gc knows them, and leaves a job's", len(kept) >= 6 and all(e["kind"] == "object" for e in kept), done)
    for name, url, words, more in (("none", "s3://store/none.listing", ["s3://store/none.listing", "NoSuchKey"], {}),
                                   ("none of this rank", "s3://store/m/none%r.txt", ["s3://store/m/none0.txt", "NoSuchKey"], {}),
                                   ("damaged", "s3://store/no.listing", ["s3://store/no.listing", "shardctl index"], {}),
                                   ("wrong secret", "s3://store/new.listing", ["s3://store/new.listing", "AWS_SECRET_ACCESS_KEY"], wrong),
                                   ("wrong secret, first", "s3://store/new.listing", ["s3://store/new.listing", "AWS_SECRET_ACCESS_KEY"], {"SHARD_LISTING_BUILD": "first", **wrong})):
        lists, requests, got = listed(1, url, SHARD_JOB="three", SHARD_LOG="warn", **more)
        results.check(f"SHARD_LISTING=s3://: {name}", lists == [[]] and all(w in got[0][2] for w in words), got)
    os.unlink(os.path.join(tree, names[0]))
    lists, requests, got = listed(1, "s3://store/new.listing", SHARD_JOB="four", SHARD_LOG="warn")
    results.check("SHARD_LISTING=s3://: out of date", lists == [[]] and "s3://store/new.listing" in got[0][2] and "changed" in got[0][2], got)
    results.check("nothing is left in the end", os.listdir(scratch) == [], os.listdir(scratch))


class Nodes:
    """Jobs of four ranks on two nodes, which have a cache each; rank 0 comes last."""

    def __init__(self, bench, dataset, root):
        self.bench, self.dataset, self.root = bench, dataset, root
        self.jobs = 0
        self.replies = []

    def forget(self):
        """Empty caches."""
        for node in range(2):
            shutil.rmtree(os.path.join(self.bench.folder, f"node{node}"), ignore_errors=True)

    def start(self, rank, endpoint, **more):
        """A rank."""
        settings = dict(LD_PRELOAD=os.path.join(BUILD, "libshard.so"), SHARD_DATASET=self.dataset, SHARD_RANK=str(rank), SHARD_SIZE="4",
                        SHARD_LISTING="s3://job/x.listing", SHARD_LISTING_BUILD="first", SHARD_JOB=f"job {self.jobs}", SHARD_LOG="info",
                        SHARD_CACHE_DIR=os.path.join(self.bench.folder, f"node{rank // 2}"))
        return subprocess.Popen((sys.executable, "-c", WALK, self.root), env=self.bench.environment(endpoint, **{**settings, **more}),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, ranks=(1, 2, 3, 0), fault=None, late=2, **more):
        """[(names, errors)] by rank, of a new job on nodes that know nothing unless `more` has a SHARD_JOB. Rank 0 waits for so many replies."""
        if "SHARD_JOB" not in more or more["SHARD_JOB"] is None:
            self.forget()
        self.jobs += 1
        with Proxy(self.bench.endpoint, fault=fault) as proxy:
            running = {}
            for rank in ranks:
                if rank == 0 and running and "SHARD_JOB" not in more:
                    while len(proxy.replies) < late and all(p.poll() is None for p in running.values()):
                        time.sleep(0.01)
                running[rank] = self.start(rank, proxy.endpoint, **more)
            ended = {rank: p.communicate(timeout=60) for rank, p in running.items()}
            self.replies = list(proxy.replies)
        self.bench.results.output += b"".join(out + err for out, err in ended.values())
        return [([line.rpartition(" ")[0] for line in out.decode().splitlines()], err.decode()) for _, (out, err) in sorted(ended.items())]

    def count(self, method, path="/job/x.listing", status=200):
        """How many such replies there were."""
        return sum(reply == (method, path, status) for reply in self.replies)


def shared(bench):
    """SHARD_LISTING_BUILD=first with an object: rank 0's node makes the listing, the others wait for it."""
    check = bench.results.check
    bench.bucket("job")
    tree = os.path.join(bench.folder, "shared", "tree")
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
    nodes = Nodes(bench, tree, tree)

    def complete(name, got, puts, lists, most_gets, where=None):
        why = "\n".join(err[-300:] for _, err in got)
        listed = sum(err.count(f"info: listing '{where or tree}'") for _, err in got)
        check(name, sorted(x for g in got for x in g[0]) == sorted(names), why)
        check(f"{name}: {puts} put, {lists} listed", nodes.count("PUT") == puts and puts <= listed <= lists, f"{nodes.replies} {why}")
        check(f"{name}: got at most {most_gets} times", nodes.count("GET") <= most_gets, nodes.replies)

    def stored():
        return bench.client.get_object(Bucket="job", Key="x.listing")["Body"].read()

    # A node gets what is new once; where rank 0 is, another rank may have been quicker to ask.
    complete("first: rank 0 makes it", nodes.run(), 1, 1, 2)
    check("first: it was waited for", nodes.count("GET", status=404) >= 2, nodes.replies)
    before = stored()
    complete("first: it is there", nodes.run((0, 1, 2, 3)), 0, 1, 3)
    check("first: and stays", stored() == before)
    added("d1/new")
    complete("first: an old one is replaced", nodes.run(late=8), 1, 1, 5)
    check("first: an old one is got once by who waits", nodes.count("GET", status=304) >= 6, nodes.replies)
    for what, body in (("damaged", stored()[:500]), ("of another kind", b"no listing at all" * 100)):
        bench.client.put_object(Bucket="job", Key="x.listing", Body=body)
        complete(f"first: one that is {what} is replaced", nodes.run(), 1, 1, 5)
    job = f"job {nodes.jobs}"
    add("d1/later")
    got = nodes.run(SHARD_JOB=job)
    check("first: a job keeps it", sorted(x for g in got for x in g[0]) == sorted(names) and nodes.replies == [] and
          all("has changed since this job" in err for _, err in got), got[0][1])
    os.unlink(os.path.join(tree, "d1/later"))
    bench.client.delete_object(Bucket="job", Key="x.listing")
    complete("first: no job is known", nodes.run(SHARD_JOB=None), 1, 1, 2)
    bench.client.delete_object(Bucket="job", Key="x.listing")
    complete("first: faults that pass", nodes.run(fault=lambda q: {1: "500", 4: "reset", 6: "503"}.get(q.number) if q.method == "GET" else None), 1, 1, 5)
    # One of another directory: not touched, and each node has its own.
    other = os.path.join(bench.folder, "other", "tree")
    add("a", other)
    bench.run("index", other, "-o", "s3://job/x.listing")
    before = stored()
    got = nodes.run((0, 1, 2, 3))
    complete("first: of another directory", got, 0, 1, 4)
    check("first: it says so, and leaves it", stored() == before and sum("is not used" in err for _, err in got) >= 2, got)
    bench.client.delete_object(Bucket="job", Key="x.listing")

    # What is said.
    def denied(method, code="AccessDenied"):
        return lambda q: Instead(error(403, code)) if q.method == method else None

    for name, ranks, words, more in (
            ("rank 0 does not come", (1, 2, 3), ["s3://job/x.listing", "SHARD_TIMEOUT"], {}),
            ("rank 0 may not write", (0,), ["s3://job/x.listing", "s3:PutObject"], {"fault": denied("PUT")}),
            ("one may not read", (0, 1, 2), ["s3://job/x.listing", "s3:GetObject"], {"fault": denied("GET")}),
            ("a wrong secret", (0, 2), ["s3://job/x.listing", "AWS_SECRET_ACCESS_KEY"], {"AWS_SECRET_ACCESS_KEY": "wrongSecret/9"}),
            ("no such bucket", (0, 2), ["s3://nojob/x.listing", "NoSuchBucket"], {"SHARD_LISTING": "s3://nojob/x.listing"}),
            ("no rank", (0,), ["SHARD_RANK"], {"SHARD_RANK": None, "SHARD_SIZE": None})):
        got = nodes.run(ranks, SHARD_TIMEOUT="1", SHARD_LOG="warn", **more)
        check(f"first: {name}", all(not x and err.count("\n") >= 1 and all(w in err for w in words) for x, err in got), got)
        check(f"first: {name}: nothing is put", "Contents" not in bench.client.list_objects_v2(Bucket="job"))
    got = nodes.run(SHARD_TIMEOUT="1", SHARD_LOG="warn", fault=denied("PUT"))
    check("first: rank 0 fails", not any(x for x, _ in got) and "s3:PutObject" in got[0][1] and
          all("SHARD_TIMEOUT" in err and "rank 0" in err for _, err in got[1:]), got)
    left = [f for node in range(2) for f in os.listdir(os.path.join(bench.folder, f"node{node}")) if ".new." in f]
    check("first: nothing is left", not left, left)
    # A rank that waits is killed, and another one goes on.
    with Proxy(bench.endpoint) as proxy:
        nodes.jobs += 1
        killed = nodes.start(2, proxy.endpoint)
        while not proxy.replies:
            time.sleep(0.01)
        other, first = nodes.start(3, proxy.endpoint), None
        child = subprocess.run(["ps", "-o", "pid=", "--ppid", str(killed.pid)], capture_output=True, check=True).stdout.split()[0].decode()
        killed.kill()
        killed.communicate()
        end = time.monotonic() + 20
        while os.path.exists(f"/proc/{child}") and time.monotonic() < end:
            time.sleep(0.05)
        check("first: a shardctl that nobody waits for ends", not os.path.exists(f"/proc/{child}"), child)
        first = nodes.start(0, proxy.endpoint)
        ended = [p.communicate(timeout=60) for p in (first, other)]
        check("first: another takes over from one that is killed", all(out.count(b"\n") == len(names) // 4 or out.count(b"\n") == len(names) // 4 + 1
                                                                       for out, _ in ended), ended)
    # A bucket for a mount: one node lists it.
    bench.fill("jobdata", sorted("train/" + n for n in names))
    nodes.dataset = f"{tree}=s3://jobdata/train"
    bench.client.delete_object(Bucket="job", Key="x.listing")
    complete("first: a mounted bucket", nodes.run(), 1, 1, 2, "s3://jobdata/train/")
    check("first: it is listed once", nodes.count("GET", "/jobdata") == 1, nodes.replies)
    complete("first: a mounted bucket, again", nodes.run((0, 1, 2, 3)), 0, 1, 3, "s3://jobdata/train/")
    check("first: it is not listed again", nodes.count("GET", "/jobdata") == 0, nodes.replies)
    # By hand
    back = os.path.join(bench.folder, "back")
    done = bench.run("index", tree, "-o", back, "--share", "s3://job/hand.listing", "--json")
    again = bench.run("index", tree, "-o", back + "2", "--share", "s3://job/hand.listing", "--wait", "0", "--json")
    facts = [json.loads(d.stdout or b"{}") for d in (done, again)]
    check("index --share", done.returncode == again.returncode == 0 and
          all(facts[0][k] == facts[1][k] for k in ("entries", "digest", "bytes", "directories")), (done, again))
    for name, arguments in (("no such thing", [tree, "--wait", "1"]), ("a text", [back, "--share", "s3://job/y"]), ("no key", [tree, "--share", "s3://job/"]),
                            ("to a bucket", [tree, "--share", "s3://job/y", "-o", "s3://job/z"]), ("no time", [tree, "--share", "s3://job/y", "--wait", "soon"])):
        done = bench.run("index", "-o", back + "3", *arguments, SHARD_LOG="warn")
        check(f"index --share: {name}", done.returncode == 2 and done.stderr.count(b"\n") == 1, done)


def tars(bench):
    """torchrun over tars in a bucket: every sample once in each epoch, over all ranks."""
    bench.bucket("tars")
    samples, count, epochs = [], 10, 2
    for number in range(count):
        body = io.BytesIO()
        with tarfile.open(fileobj=body, mode="w") as tar:
            for sample in range(number * 4, number * 4 + 4):
                samples.append(f"{sample:05d}")
                for suffix in ("cls", "txt"):
                    member = tarfile.TarInfo(f"{sample:05d}.{suffix}")
                    member.size = 1
                    tar.addfile(member, io.BytesIO(b"1"))
        bench.client.put_object(Bucket="tars", Key=f"train/a part/shard+{number:03d}.tar", Body=body.getvalue())
    bench.put("tars", "trainer", "valid/x.tar")
    env = bench.environment(AWS_DEFAULT_REGION="us-east-1", SHARD_LOG="warn", OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3",
                           os.path.join(REPO, "tests/s3/tars.py"), CTL, "s3://tars/train/", str(epochs)], env=env, capture_output=True, timeout=120, check=False)
    bench.results.output += done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"[{")]
    bench.results.check("torchrun over tars", done.returncode == 0 and len(lines) == epochs, done.stderr[-500:])
    for epoch, ranks in enumerate(lines):
        bench.results.check(f"epoch {epoch}: every sample once", sorted(x for r in ranks for x in r["samples"]) == samples, ranks)
        bench.results.check(f"epoch {epoch}: shares of 3 or 4 tars", sorted(len(r["tars"]) for r in ranks) == [3, 3, 4], ranks)
    bench.results.check("another order in each epoch", len(lines) == 2 and [r["tars"] for r in lines[0]] != [r["tars"] for r in lines[1]], lines)


class Google:
    """What Google Cloud Storage documents of its XML API, as far as it is used; in memory. It refuses what is not signed its way."""

    def __init__(self):
        self.objects, self.faults = {}, []

    def signed(self, request):
        """Whether the signature is right."""
        words = re.fullmatch(r"GOOG4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/auto/storage/goog4_request, SignedHeaders=(\S+), Signature=(\w+)",
                             request.headers.get("authorization", ""))
        if not words:
            return False
        url = urllib.parse.urlsplit(request.target)
        access, day, names, signature = words.groups()
        canonical = "\n".join([request.method, url.path, url.query] + [f"{n}:{request.headers[n]}" for n in names.split(";")] +
                              ["", names, request.headers["x-goog-content-sha256"]])
        text = "\n".join(["GOOG4-HMAC-SHA256", request.headers["x-goog-date"], f"{day}/auto/storage/goog4_request",
                          hashlib.sha256(canonical.encode()).hexdigest()])
        key = b"GOOG4" + SECRET.encode()
        for part in (day, "auto", "storage", "goog4_request", text):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        unsigned = [n for n in request.headers if n.startswith("x-goog-") and n not in names.split(";")]
        return access == ACCESS and key.hex() == signature and not unsigned and hashlib.sha256(request.body).hexdigest() == request.headers["x-goog-content-sha256"]

    def answer(self, request, _):
        """A reply."""
        url = urllib.parse.urlsplit(request.target)
        key = urllib.parse.unquote(url.path[1:])
        if any(n.startswith("x-amz-") for n in request.headers) or url.netloc not in ("bucket.storage.googleapis.com", "storage.googleapis.com"):
            self.faults.append((request.target, request.headers))
        if not self.signed(request):
            return error(403, "SignatureDoesNotMatch")(None, None)
        if request.method == "PUT":
            if "if-none-match" not in request.headers and request.headers.get("x-goog-if-generation-match") == "0" and key in self.objects:
                return error(412, "PreconditionFailed")(None, None)
            self.objects[key] = request.body, request.headers["x-goog-meta-sha256"]
            return Reply(200, b"")
        if not key:
            query = urllib.parse.parse_qs(url.query)
            assert query["list-type"] == ["2"] and query["encoding-type"] == ["url"], query
            after = query.get("start-after", [""])[0]
            names = sorted(k for k in self.objects if k.startswith(query.get("prefix", [""])[0]) and k > after)
            return Reply(200, ("<?xml version='1.0'?><ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'><EncodingType>url</EncodingType>"
                               "<IsTruncated>false</IsTruncated>" + "".join(f"<Contents><Key>{urllib.parse.quote(k)}</Key><Generation>1</Generation></Contents>"
                                                                            for k in names) + "</ListBucketResult>").encode())
        if key not in self.objects:
            return error(404, "NoSuchKey")(None, None)
        body, digest = self.objects[key]
        return Reply(200, body, [("ETag", f'"{hashlib.md5(body).hexdigest()}"'), ("x-goog-meta-sha256", digest)])


def google(bench):
    """Requests to Google Cloud Storage, by its host's name, which a proxy stands for: their form, not what Google makes of them."""
    check, cloud = bench.results.check, Google()
    cloud.objects.update({k: (b"", "") for k in ("train/a b+c", "train/\u56fe.png", "valid/x")})
    back = os.path.join(bench.folder, "back")
    with Proxy(bench.endpoint, fault=lambda q: Instead(lambda *_: cloud.answer(q, None))) as proxy:
        more = {"endpoint": "http://storage.googleapis.com", "http_proxy": proxy.endpoint, "AWS_SESSION_TOKEN": TOKEN, "SHARD_TIMEOUT": "5"}
        bench.lists("Google: a list", "s3://bucket/train/", ["a b+c".encode(), "\u56fe.png".encode()], **more)
        for arguments, status, words in ((["s3://bucket/train/"], 0, b""), (["s3://bucket/valid/"], 1, b"there already")):
            done = bench.run("index", *arguments, "-o", "s3://bucket/x y.listing", "--no-replace", **more)
            check(f"Google: --no-replace, status {status}", done.returncode == status and words in done.stderr, done)
        done = bench.run("get", "s3://bucket/x y.listing", "-o", back, **more)
        check("Google: get", done.returncode == 0 and bench.run("ls", back).stdout.count(b"\n") == 2, done)
        done = bench.run("index", "s3://bucket/valid/", "-o", "s3://bucket/x y.listing", **more)
        check("Google: replace", done.returncode == 0, done)
        done = bench.run("get", "s3://bucket/x y.listing", "-o", back, AWS_SECRET_ACCESS_KEY="wrongSecret/9", **more)
        check("Google: a wrong secret", done.returncode == 1 and b"AWS_SECRET_ACCESS_KEY" in done.stderr, done)
        check("Google: no header of AWS, no other host", not cloud.faults and proxy.requests >= 7, cloud.faults[:1])


SECRETS = [s.encode() for s in (SECRET, TOKEN, "wrongSecret/9", "Signature=", "AWS4-HMAC", "GOOG4-HMAC")]


def command_lines(above):
    """Of a process and all that descend from it, once: what others on the machine were given is not libshard's."""
    for pid in launch.process_tree(above):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as stream:
            yield stream.read()


def secrets(bench):
    """Nothing that was written has a secret in it: outputs, logs at their most talkative, what is kept, command lines."""
    check = bench.results.check
    bench.bucket("secrets")
    bench.put("secrets", *(f"train/{i}" for i in range(20)))
    folders = {name: os.path.join(bench.folder, "secrets", name) for name in ("tree", "cache", "stats", "scratch")}
    for folder in folders.values():
        os.makedirs(folder)
    seen = set()
    with Proxy(bench.endpoint, delay=0.2) as proxy:
        env = bench.environment(
            proxy.endpoint, LD_PRELOAD=os.path.join(BUILD, "libshard.so"), SHARD_DATASET=folders["tree"] + "=s3://secrets/train",
            SHARD_RANK="0", SHARD_SIZE="1", SHARD_JOB="secrets", SHARD_LISTING="s3://secrets/x.listing", SHARD_LISTING_BUILD="first",
            SHARD_CACHE_DIR=folders["cache"], SHARD_STATS=folders["stats"] + "/%r.json", SHARD_TMPDIR=folders["scratch"], AWS_SESSION_TOKEN=TOKEN)
        rank = subprocess.Popen(("ls", folders["tree"]), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while rank.poll() is None:
            seen.update(command_lines(rank.pid))
            time.sleep(0.01)
        out, err = rank.communicate()
        bench.results.output += out + err
        check("a job with a session token", out.count(b"\n") == 20 and [r[0] for r in proxy.replies] == ["GET", "GET", "PUT"], (out, err, proxy.replies))
    bench.run("ls", "s3://secrets/train")  # so that there is output to be searched, if this part runs alone
    check("shardctl's command line was seen", any(b"shardctl\0index" in line for line in seen), seen)
    found = [(s, line) for s in SECRETS for line in seen if s in line]
    check("no secret in a command line", not found, found)
    kept, found = 0, []
    places = [folders[n] for n in folders] + [os.path.join(bench.folder, n) for n in ("cache", "node0", "node1")]
    for path in (os.path.join(where, name) for place in places for where, _, names in os.walk(place) for name in names):
        with open(path, "rb") as stream:
            text = stream.read()
        kept += len(text)
        found += [(path, s) for s in SECRETS if s in text]
    check("no secret in caches, listings and statistics", os.listdir(folders["stats"]) == ["0.json"] and kept > 1000 and not found, (found, kept, os.listdir(folders["stats"])))
    found = [s for s in SECRETS if s in bench.results.output]
    check("no secret in any output", b"HTTP 200" in bench.results.output and not found, found)


PARTS = [hostile, accounts, addressing, tls, faults, ranges, mounted, streamed, objects, shared, tars, google, secrets]


def main():
    """Run the parts."""
    results = Results()
    asked = sys.argv[1:]
    folder = tempfile.mkdtemp(prefix="shard-s3-")
    server = [os.path.join(REPO, "scripts/s3-server.sh")]
    state = os.path.join(folder, "server")
    try:
        started = subprocess.run(server + ["start", state], env={**os.environ, "ACCESS": ACCESS, "SECRET": SECRET},
                                 stdout=subprocess.PIPE, timeout=120, check=True)
        bench = Bench(folder, started.stdout.decode().strip(), results)
        for part in PARTS:
            if not asked or part.__name__ in asked:
                begin = time.monotonic()
                part(bench)
                print(f"-- {part.__name__}: {time.monotonic() - begin:.1f} s", flush=True)
    finally:
        subprocess.run(server + ["stop", state], timeout=60, check=False)
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{results.passed} passed, {results.failed} failed")
    return results.failed != 0


if __name__ == "__main__":
    sys.exit(main())
