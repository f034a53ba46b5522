"""What the server is asked, what it answers when it is at fault, and what is said of wrong settings."""
import os
import re
import subprocess

from tests.buckets.fixture import PAGE
from tests.harness import paths
from tests.harness.proxy import Instead, Proxy, Reply, error, shorten

OWN = "boto"  # of a client's User-Agent, not of shardctl's


def asks(request):
    """Whether this is a client's request for a page."""
    return (request.method == "GET" and OWN in request.headers.get("user-agent", "").lower() and
            not request.target.partition("?")[0].strip("/").count("/") and "prefix" in request.query)


def listed(proxy):
    """How many pages clients have asked for."""
    return sum(1 for target, headers in proxy.seen if OWN in headers.get("user-agent", "").lower() and
               "prefix=" in target)


def counts(buckets):
    """How many requests a rank makes."""
    whole = [["paginator", {"bucket": "many", "Prefix": "train/"}]]
    probes = [["one_request", {"bucket": "many", "Prefix": "train/", "MaxKeys": 1}]]
    with Proxy(buckets.endpoint) as proxy:
        def asked(size, requests, rank, strategy):
            """(keys, how many pages were asked for, what else is known)."""
            proxy.seen.clear()
            ((answers, err),) = buckets.ranks(size, "s3://many/train/", requests, some=[rank],
                                              endpoint=proxy.endpoint, SHARD_STRATEGY=strategy)
            found = answers[0].get("keys", []) if answers else []
            return len(found), listed(proxy), (len(found), listed(proxy), answers and answers[0].get("error"), err[-500:])

        buckets.call("client:answers", [whole], buckets.environment(proxy.endpoint))
        bare = listed(proxy)
        buckets.check("unfiltered: a request for each page", bare == 24000 // PAGE, bare)
        for strategy, ranks, most in (("range", (0, 3, 7), bare // 8 + 2), ("hash", (3,), bare), ("stride", (3,), bare)):
            for rank in ranks:
                found, pages, why = asked(8, whole, rank, strategy)
                buckets.check(f"{strategy}, rank {rank} of 8: at most {most} requests",
                              0 < pages <= most and abs(found - 3000) < (1 if strategy != "hash" else 300), why)
        for strategy in ("range", "hash", "stride"):
            for rank in (0, 2):
                found, pages, why = asked(4, probes, rank, strategy)
                buckets.check(f"a probe of one key, {strategy}, rank {rank}", found == 1 and pages <= (1 if strategy == "range" else 16), why)


def said(buckets):
    """What a call says, shardctl says, too: who pays, and by which proxy it goes."""
    listing = [["paginator", {"bucket": "train", "Prefix": "train/", "RequestPayer": "requester"}]]
    with Proxy(buckets.endpoint) as proxy:
        buckets.compare("RequestPayer", listing, buckets.bare(listing),
                        buckets.ranks(2, "s3://train/train/", listing, endpoint=proxy.endpoint, SHARD_STRATEGY="stride"),
                        buckets.owners("s3://train/train/", 2), "train/")
        payers = [headers.get("x-amz-request-payer") for target, headers in proxy.seen
                  if OWN not in headers.get("user-agent", "").lower() and "list-type=2" in target]
        buckets.check("shardctl's requests say who pays", set(payers) == {"requester"}, payers)
    env = {**buckets.environment(), "AWS_REQUEST_PAYER": "nobody"}
    done = subprocess.run([paths.SHARDCTL, "ls", "s3://train/train/"], env=env, capture_output=True, check=False)
    buckets.check("AWS_REQUEST_PAYER takes one word", done.returncode == 1 and b"AWS_REQUEST_PAYER takes 'requester'" in done.stderr, done)


def faults(buckets):
    """What the server does wrong reaches the program as without libshard; short pages are completed."""
    listing = [["paginator", {"bucket": "train", "Prefix": "train/", "size": 40}],
               ["by_start_after", {"bucket": "train", "Prefix": "train/", "size": 40}]]
    more = {"AWS_MAX_ATTEMPTS": "1"}
    with Proxy(buckets.endpoint) as proxy:
        for number, (label, fault) in enumerate((
                ("403", error(403, "AccessDenied")), ("404", error(404, "NoSuchBucket")),
                ("503", error(503, "SlowDown")), ("500", error(500, "InternalError")),
                ("an error in a good reply", error(200, "InternalError")),
                ("a truncated body", "cut"), ("an ill-formed body", "ill-formed"), ("an empty body", "empty body"),
                ("a connection that is reset", "reset"))):
            proxy.fault = lambda q, f=fault: f if asks(q) else None
            said = [buckets.call("client:answers", [listing], buckets.environment(proxy.endpoint, **more)),
                    *buckets.ranks(2, "s3://train/train/", listing, some=[1], endpoint=proxy.endpoint,
                                   SHARD_STRATEGY=("range", "hash")[number % 2], **more)]
            kinds = [[(one.get("error") or [["no error"], len(one.get("keys", []))])[:2] for one in answers]
                     for answers, _ in said]
            same = [[(kind, str(text) if "ClientError" in kind[0] else "") for kind, text in some] for some in kinds]
            buckets.check(f"{label}: as without libshard", kinds[0] and same[0] == same[1] and
                          any(kind != ["no error"] for kind, _ in kinds[0]), kinds)
    for keep in (0, 1, 3):
        met = {}

        def some(request, keep=keep, met=met):
            """Each page is short; of those without a key every other one is whole, of each rank."""
            if not asks(request):
                return None
            rank = request.query.get("start-after", "")  # under range, each has its own
            met[rank] = not met.get(rank)
            return shorten(keep) if keep or met[rank] else None

        for how in ({"SHARD_STRATEGY": "range"}, {"SHARD_STRATEGY": "hash"}):
            asked = listing[:1] if keep == 0 else listing
            with Proxy(buckets.endpoint, fault=some) as proxy:
                ranks = buckets.ranks(2, "s3://train/train/", asked, endpoint=proxy.endpoint, **how)
            buckets.compare(f"pages of {keep} keys, {how['SHARD_STRATEGY']}", asked, buckets.bare(asked), ranks,
                            buckets.owners("s3://train/train/", 2, **how), "train/")


def before_prefix(buckets):
    """A server as SeaweedFS was: a list that is to begin before its prefix is empty, and one of a single key the last."""
    def odd(request):
        start = request.query.get("start-after") or request.query.get("marker")
        if request.method == "GET" and start and not start.startswith(request.query.get("prefix", "")):
            return Instead(lambda *_: Reply(200, b"<ListBucketResult><Name>train</Name><IsTruncated>false</IsTruncated>"
                                            b"</ListBucketResult>"))
        return is_last if request.query.get("max-keys") == "1" else None

    def is_last(_, reply):
        return Reply(reply.status, reply.body.replace(b"<IsTruncated>true<", b"<IsTruncated>false<"))

    asked = [[name, {"bucket": "train", place: f"train/{prefix}", **more}] for prefix in ("cat/", "deep/", "z", "")
             for name, place, more in (("paginator", "Prefix", {}), ("paginator", "Prefix", {"version": 1}),
                                       ("minio", "prefix", {"recursive": True}))]
    bare = buckets.bare(asked)
    with Proxy(buckets.endpoint, fault=odd) as proxy:
        buckets.compare("a list that begins before its prefix", asked, bare,
                        buckets.ranks(4, "s3://train/train/", asked, endpoint=proxy.endpoint, SHARD_STRATEGY="range"),
                        buckets.owners("s3://train/train/", 4, SHARD_STRATEGY="range"), "train/")


def disorder(buckets):
    """A server whose pages are in no order, as SeaweedFS's: what needs no order divides them, `range` raises."""
    def reverse(_, reply):
        entries = re.findall(rb"<Contents>.*?</Contents>", reply.body, re.DOTALL)
        head, _, rest = reply.body.partition(b"<Contents>")
        return Reply(reply.status, head + b"".join(reversed(entries)) + rest.rpartition(b"</Contents>")[2])

    asked = [["paginator", {"bucket": "train", "Prefix": "train/", **more}] for more in ({}, {"size": 7}, {"Delimiter": "/"})]
    asked.append(["minio", {"bucket": "train", "prefix": "train/", "recursive": True}])
    with Proxy(buckets.endpoint, fault=lambda q: reverse if "libshard/" not in q.headers.get("user-agent", "") and
               "prefix" in q.query else None) as proxy:
        bare = buckets.bare(asked, endpoint=proxy.endpoint)
        for how in ("hash", "stride", "range"):
            ranks = buckets.ranks(3, "s3://train/train/", asked, endpoint=proxy.endpoint, SHARD_STRATEGY=how)
            if how == "range":
                said = [str(one.get("error")) for answers, _ in ranks for one in answers if one is not answers[2]]
                buckets.check("no order, range: an error", len(said) == 9 and all("in no order" in one for one in said), said)
                continue
            buckets.compare(f"no order, {how}", asked, bare, ranks,
                            buckets.owners("s3://train/train/", 3, SHARD_STRATEGY=how), "train/")


def late(buckets):
    """A key that has come since the listing was made is nobody's; by hash it is somebody's."""
    listing = os.path.join(buckets.folder, "late.listing")
    buckets.client.create_bucket(Bucket="late")
    for turn, keys in enumerate((range(0, 20, 2), range(1, 20, 2))):
        for key in keys:
            buckets.client.put_object(Bucket="late", Key=f"l/{key:02d}", Body=b"")
        if not turn:
            buckets.shardctl("index", "s3://late/l/", "-o", listing).check_returncode()
    asked = [["paginator", {"bucket": "late", "Prefix": "l/"}]]
    for how, count in ({"SHARD_STRATEGY": "range", "SHARD_LISTING": listing}, 10), (
            {"SHARD_STRATEGY": "stride", "SHARD_LISTING": listing}, 10), ({"SHARD_STRATEGY": "hash"}, 20):
        found = [key for answers, _ in buckets.ranks(3, "s3://late/l/", asked, **how)
                 for key, _, _ in (answers[0].get("keys", []) if answers else [])]
        buckets.check(f"keys that came late, {how['SHARD_STRATEGY']}", len(found) == len(set(found)) == count, found)


def errors(buckets):
    """No rank, a wrong variable, no listing: an error of the client's own kind, with our line; never keys."""
    asked = [["paginator", {"bucket": "train", "Prefix": "train/"}], ["resource", {"bucket": "train", "prefix": "train/"}],
             ["s3fs_find", {"bucket": "train", "prefix": "train"}], ["s3fs_ls", {"bucket": "train", "prefix": "train"}]]
    with Proxy(buckets.endpoint, fault=lambda q: error(403, "AccessDenied") if OWN not in
               q.headers.get("user-agent", "").lower() else None) as proxy:
        for label, words, how in (
                ("no rank", ["SHARD_RANK"], {"SHARD_RANK": None, "SHARD_SIZE": None}),
                ("a wrong strategy", ["SHARD_STRATEGY", "sometimes"], {"SHARD_STRATEGY": "sometimes"}),
                ("a wrong seed", ["SHARD_SEED", "x7"], {"SHARD_SEED": "x7"}),
                ("a rank that is too large", ["SHARD_RANK"], {"SHARD_RANK": "5"}),
                ("no listing, range", ["s3://train/train"], {"SHARD_STRATEGY": "range", "endpoint": proxy.endpoint}),
                ("no listing, stride", ["s3://train/train"], {"SHARD_STRATEGY": "stride", "endpoint": proxy.endpoint})):
            ((answers, err),) = buckets.ranks(2, "s3://train/train/", asked, some=[1], SHARD_TIMEOUT="60", **how)
            good = len(answers) == len(asked) and all("error" in one for one in answers)
            kinds = good and all("botocore.exceptions.BotoCoreError" in one["error"][0] for one in answers)
            text = str(answers) + err
            buckets.check(f"{label}: the client's own error, with a line", good and kinds and
                          all(word in text for word in words) and "testSecretKey" not in text, text[:1500])
    ((answers, err),) = buckets.ranks(2, "s3://train/train/:s3://", [["paginator", {"bucket": "train", "Prefix": "train/"}]],
                                      some=[0])
    buckets.check("a dataset without a bucket", answers and "error" in answers[0] and "SHARD_DATASET" in str(answers) + err,
                  (str(answers)[:500], err))


def others(buckets):
    """Other buckets, and the same name at another endpoint, are left alone; everything but listing, too."""
    asked = [["paginator", {"bucket": "odd"}], ["resource", {"bucket": "odd", "prefix": ""}],
             ["paginator", {"bucket": "train", "Prefix": "valid/"}], ["folders", {"bucket": "odd", "prefix": "", "size": 50}],
             ["s3fs_find", {"bucket": "odd", "prefix": "marker"}]]
    bare = buckets.bare(asked)
    with Proxy(buckets.endpoint) as proxy, Proxy(buckets.endpoint) as alone:
        for how in ("range", "hash"):
            buckets.call("client:answers", [asked], buckets.environment(alone.endpoint))
            ((answers, err),) = buckets.ranks(2, "s3://train/train/", asked, some=[1], endpoint=proxy.endpoint,
                                              SHARD_STRATEGY=how)
            buckets.check(f"other buckets and prefixes, {how}", answers == bare and not err,
                          [(one, other) for one, other in zip(answers, bare) if one != other][:1] or err)
        buckets.check("as many requests as without libshard", proxy.requests == alone.requests,
                      (proxy.requests, alone.requests))
        there = [["one_request", {"bucket": "train", "Prefix": "train/", **more}] for more in ({}, {"endpoint": proxy.endpoint})]
        ((answers, err),) = buckets.ranks(2, "s3://train/train/", there, some=[1])
        buckets.check("the same name at another endpoint is an error", len(answers) == 2 and "keys" in answers[0] and
                      "has one endpoint" in str(answers[1].get("error")), (answers, err))
    local = [["one_request", {"bucket": "train", "Prefix": "train/",
                              "endpoint": buckets.endpoint.replace("127.0.0.1", "localhost")}]]
    buckets.compare("localhost is 127.0.0.1", local, buckets.bare(local), buckets.ranks(2, "s3://train/train/", local),
                    buckets.owners("s3://train/train/", 2), "train/")
    config = os.path.join(buckets.folder, "ignoring")
    with open(config, "w", encoding="ascii") as stream:
        stream.write("[default]\nignore_configured_endpoint_urls = true\n")
    named = [["one_request", {"bucket": "train", "Prefix": "train/", "endpoint": buckets.endpoint}]]
    buckets.compare("a profile that ignores endpoints, and a client's own", named, buckets.bare(named),
                    buckets.ranks(2, "s3://train/train/", named, AWS_CONFIG_FILE=config, AWS_MAX_ATTEMPTS="1"),
                    buckets.owners("s3://train/train/", 2), "train/")
    two = [["paginator", {"bucket": "odd", "Prefix": "marker/"}], ["paginator", {"bucket": "train", "Prefix": "train/cat/"}]]
    owners = {**buckets.owners("s3://train/train/", 2), **buckets.owners("s3://odd/marker/", 2)}
    buckets.compare("two datasets in two buckets", two, buckets.bare(two),
                    buckets.ranks(2, "s3://train/train/:s3://odd/marker/", two), owners)
    put = [["head_bucket", {"bucket": "train"}]]
    ((answers, err),) = buckets.ranks(2, "s3://train/train/:s3://train/put/", put, some=[1])
    buckets.check("PUT, HEAD and DELETE", answers == buckets.bare(put), (answers, err))
    mixed = [["paginator", {"bucket": "train", "Prefix": "train/"}]]
    buckets.compare("a bucket beside a directory", mixed, buckets.bare(mixed),
                    buckets.ranks(2, f"{buckets.plain}:s3://train/train", mixed),
                    buckets.owners("s3://train/train/", 2), "train/")
