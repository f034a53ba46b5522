"""A server or network that is at fault."""
import os
import random
import signal
import subprocess

from tests.harness import paths
from tests.harness.processes import HANGS, until
from tests.harness.proxy import Proxy, error, redirect, shorten
from tests.s3.fixture import SECRET, TOKEN
from tests.s3.leaks import command_lines


class Some:
    """A fault that is met at the first request for each page; with a generator, at up to two of each, by its choice. No
    page meets more, in whatever order its requests come. pages: the numbers, from 1, of those that meet it; all if none."""

    def __init__(self, kinds, chance=None, pages=()):
        self.kinds, self.chance, self.pages, self.asked, self.met = kinds, chance, pages, {}, 0

    def __call__(self, request):
        before = self.asked[request.target] = self.asked.get(request.target, -1) + 1
        number = list(self.asked).index(request.target) + 1
        if (self.pages and number not in self.pages) or before >= (2 if self.chance else 1) or (
                self.chance and self.chance.random() < 0.6):
            return None
        self.met += 1
        return self.chance.choice(self.kinds) if self.chance else self.kinds[0]


def faults(s3):
    """A server or network that is at fault: right and complete, or an error and no file."""
    count = 12500
    keys = [f"d{i // 1000:02d}/k{i:07d}" for i in range(count)]
    s3.fill("faulty", keys)
    wanted = [k.encode() for k in keys]
    # It may answer after four seconds, and yet the line is due between the tenth and the fourteenth.
    patient = Proxy(s3.endpoint, fault=lambda q: "503").__enter__()  # while the others run
    waits = subprocess.Popen((paths.SHARDCTL, "index", "s3://faulty", "-o", s3.file + "-none"),
                             stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                             env=s3.environment(patient.endpoint, SHARD_LOG="warn", SHARD_TIMEOUT="14"))
    passing = ["500", "503", "error200", "reset", "close", "cut", "empty body", "ill-formed", "html",
               "too short", "too long", "stall"]
    for fault in passing:
        # What stalls is waited for until a quarter of SHARD_TIMEOUT has passed.
        with Proxy(s3.endpoint, fault=Some([fault], pages=(1, 3, 4))) as proxy:
            _, facts = s3.lists(f"{fault} now and then", "s3://faulty", wanted, endpoint=proxy.endpoint,
                                SHARD_TIMEOUT="20" if fault in ("stall", "too long") else None)
            # libcurl itself repeats a request whose connection had been kept and is gone; not so the first.
            s3.check("it was met", proxy.fault.met == 3 and facts.get("retries", 0) >= 1, (proxy.fault.met, facts))
    with Proxy(s3.endpoint, fault=Some(["503"])) as proxy:
        s3.lists("each request 503 at first", "s3://faulty", wanted, endpoint=proxy.endpoint)
    with Proxy(s3.endpoint, fault=Some(["500", "reset", "close"], random.Random(3))) as proxy:
        s3.lists("faults by chance", "s3://faulty", wanted, endpoint=proxy.endpoint)
    # For good. Damaged replies end it soon, the others after SHARD_TIMEOUT.
    for fault in passing:
        with Proxy(s3.endpoint, fault=lambda q, f=fault: f if q.number > 3 else None) as proxy:
            s3.refuses(f"{fault} for good", "s3://faulty", ["s3://faulty"], endpoint=proxy.endpoint,
                       SHARD_TIMEOUT="2")
    said = waits.communicate(timeout=HANGS)[1]
    patient.__exit__(None, None, None)
    lines = said.decode().splitlines()
    s3.output += said
    s3.check("one line that it is tried again", waits.returncode == 1 and len(lines) == 2 and
             "warning" in lines[0] and
             all("HTTP 503" in line and "SHARD_TIMEOUT" in line for line in lines), lines)
    # What does not pass is not tried again.
    for status in (501, 505, 511):
        with Proxy(s3.endpoint, fault=lambda q, s=status: error(s, "NotImplemented")) as proxy:
            s3.refuses(f"{status} for good", "s3://faulty", [str(status)], endpoint=proxy.endpoint,
                       most=lambda p=proxy: p.requests == 1)
    first = {}

    def repeat(request, reply):
        return first.setdefault("reply", reply)

    for name, fault, words in (("a page repeated", repeat, ["repeats"]),
                               ("no token", "no token", ["NextContinuationToken"]),
                               ("an empty page repeated", lambda q, r: repeat(q, shorten(0)(q, r)),
                                ["empty"])):
        first.clear()
        with Proxy(s3.endpoint, fault=lambda q, f=fault: f) as proxy:
            s3.refuses(name, "s3://faulty", words, endpoint=proxy.endpoint,
                       most=lambda p=proxy: p.requests < 200)
    with Proxy(s3.endpoint) as other:
        for name, status, where, words in (("a redirect to another host", 307, other.endpoint +
                                            "/faulty", [other.endpoint[7:], "redirects"]),
                                           ("a redirect by 301", 301, other.endpoint + "/faulty",
                                            ["AWS_ENDPOINT_URL_S3"]),
                                           ("a redirect to AWS", 307,
                                            "https://faulty.s3.eu-west-1.amazonaws.com/", ["amazonaws"]),
                                           ("a redirect to nowhere", 301, "", ["redirects"]),
                                           ("a redirect to ftp", 302, "ftp://127.0.0.1/", ["redirects"]),
                                           ("a redirect to TLS", 301, "https://127.0.0.1/faulty",
                                            ["https://127.0.0.1"]),
                                           ("a redirect loop", 307, "/faulty", ["redirects"])):
            with Proxy(s3.endpoint, fault=lambda q, s=status, w=where: redirect(s, w)) as proxy:
                s3.refuses(name, "s3://faulty", words, endpoint=proxy.endpoint,
                           most=lambda p=proxy: p.requests <= 10)
        s3.check("no one else was asked", other.requests == 0, other.seen)
    wrong = error(400, "AuthorizationHeaderMalformed", more="<Region>eu-south-9</Region>")
    with Proxy(s3.endpoint, fault=lambda q: wrong if "/eu-south-9/" not in q.headers["authorization"]
               else None) as proxy:
        s3.lists("another region", "s3://faulty", wanted, endpoint=proxy.endpoint)
    # Killed: no file, and nothing left in a listing's place.
    with Proxy(s3.endpoint, fault=lambda q: "stall") as proxy:
        os.unlink(s3.file)
        process = subprocess.Popen([paths.SHARDCTL, "index", "s3://faulty", "-o", s3.file],
                                   env=s3.environment(proxy.endpoint, AWS_SESSION_TOKEN=TOKEN),
                                   stderr=subprocess.PIPE)
        until(lambda: proxy.requests, "shardctl's first request")
        shown = b"".join(command_lines(process.pid))
        s3.check("ps shows no secret", b"s3://faulty" in shown and SECRET.encode() not in shown and
                 TOKEN.encode() not in shown, "it does")
        process.send_signal(signal.SIGTERM)
        s3.output += process.communicate(timeout=HANGS)[1]
        s3.check("ended by a signal", process.returncode == -signal.SIGTERM and
                 not os.path.exists(s3.file), process.returncode)
