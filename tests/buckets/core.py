"""The pages that clients get of a bucket, against a bucket that is made here: no server, many cases.

    python3 -m tests.buckets.core [--cases N] [--seed N]

A Python under libshard has a process for each strategy. In it, `Server` answers requests as S3 is
documented to, a few keys a page. Clients' loops (by token, Marker, StartAfter, the last key) read
what page() makes of the answers, as each rank; what they get must be the keys that a closed form
gives the rank.
"""
import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import urllib.parse

from tests.harness import paths
from tests.harness.options import temporary_folder

HERE = os.path.abspath(__file__)
BUCKET, ROOT = "bkt", "train/"
STRATEGIES = ("hash", "stride", "range", "range shuffled", "stride shuffled")
PAGE = 7  # keys in a page of the server's


# ---- S3 ------------------------------------------------------------------------------------------


class Server:
    """A bucket, as S3 lists it. next_marker: whether v1 has NextMarker without a delimiter; "opaque": it is no
    key, as moto's."""

    def __init__(self, keys, next_marker):
        self.keys, self.next_marker = sorted(keys, key=self.place), next_marker
        self.requests = []

    def place(self, key):
        """What keys are sorted by."""
        return key

    def entries(self, prefix, delimiter):
        """[(key or common prefix, whether it is a key)] in order."""
        seen, found = set(), []
        for key in self.keys:
            if not key.startswith(prefix):
                continue
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            common = key[:cut + len(delimiter)] if cut >= 0 else None
            if common is None:
                found.append((key, True))
            elif common not in seen:
                seen.add(common)
                found.append((common, False))
        return found

    def after(self, request, start, skip_common):
        """What follows a key. A common prefix follows it if a key in it does."""
        found = self.entries(request.get("Prefix", ""), request.get("Delimiter"))
        begin = self.place(start)
        return [(key, is_key) for key, is_key in found
                if self.place(key) > begin or (not is_key and not skip_common and any(
                    one.startswith(key) and self.place(one) > begin for one in self.keys))]

    def page(self, name, request):
        """The answer to a request."""
        self.requests.append((name, request))
        most = min(request.get("MaxKeys", 1000), PAGE)
        token = request.get("ContinuationToken")
        if name == "list_objects_v2" and token is not None:
            left = self.after(request, json.loads(token), True)
        elif name == "list_objects_v2":
            left = self.after(request, request.get("StartAfter", ""), False)
        elif name == "list_objects":
            marker = request.get("Marker", "")
            left = self.after(request, bytes.fromhex(marker[7:]).decode() if marker.startswith("opaque-") else marker, True)
        else:
            left = self.after(request, request.get("KeyMarker", ""), True)
        shown, more = left[:most], len(left) > most
        last = shown[-1:]
        if (name == "list_objects" and self.next_marker == "opaque" and request.get("Delimiter")
                and request["Prefix"].startswith(ROOT)):
            own = [one for one in left if one[1]]  # moto counts keys only, and has all common prefixes in each page
            shown, more, last = own[:most], len(own) > most, own[:most][-1:]
            shown += [one for one in self.entries(request["Prefix"], request["Delimiter"])
                      if not one[1] and (one in left or not request.get("Marker", "").startswith(one[0]))]
        kind = "Versions" if name == "list_object_versions" else "Contents"
        answer = {"IsTruncated": more, "Name": BUCKET, "MaxKeys": request.get("MaxKeys", 1000),
                  "Prefix": request.get("Prefix", "")}
        put = urllib.parse.quote if request.get("EncodingType") else str
        keys = [{"Key": put(key), "Size": len(key)} for key, is_key in shown if is_key]
        common = [{"Prefix": put(key)} for key, is_key in shown if not is_key]
        if "EncodingType" in request:
            answer["EncodingType"] = request["EncodingType"]
        if keys:
            answer[kind] = keys
        if common:
            answer["CommonPrefixes"] = common
        if name == "list_objects_v2":
            answer["KeyCount"] = len(shown)
            for field in ("StartAfter", "ContinuationToken"):
                if field in request:
                    answer[field] = put(request[field]) if field == "StartAfter" else request[field]
            if more:
                answer["NextContinuationToken"] = json.dumps(shown[-1][0])
        elif name == "list_objects":
            answer["Marker"] = request.get("Marker", "")
            if more and (request.get("Delimiter") or self.next_marker):
                ((key, _),) = last
                answer["NextMarker"] = "opaque-" + key.encode().hex() if self.next_marker == "opaque" else key
            elif self.next_marker:
                answer["NextMarker"] = ""  # <NextMarker/>
        else:
            answer.update(KeyMarker=request.get("KeyMarker", ""), VersionIdMarker="")
            if more:
                answer.update(NextKeyMarker=shown[-1][0], NextVersionIdMarker="v1")
        return answer


class Odd(Server):
    """One as SeaweedFS was: where a list is to begin before its prefix, it is empty; and one that is asked for a single
    key says that there is no more. by_folders: it lists a folder before what is called "folder-2"."""

    def __init__(self, keys, next_marker, by_folders):
        self.by_folders = by_folders
        super().__init__(keys, next_marker)

    def place(self, key):
        return key.split("/") if self.by_folders else key

    def after(self, request, start, skip_common):
        return super().after(request, start, skip_common) if not start or start.startswith(
            request.get("Prefix", "")) else []

    def page(self, name, request):
        answer = super().page(name, request)
        if request.get("MaxKeys") == 1:
            answer["IsTruncated"] = False
        return answer


# ---- clients' loops ------------------------------------------------------------------------------


def by_token(get, request):
    """ListObjectsV2 by NextContinuationToken."""
    while True:
        page = get("list_objects_v2", request)
        yield page
        if not page["IsTruncated"]:
            return
        request = {**request, "ContinuationToken": page["NextContinuationToken"]}


def by_start(get, request):
    """ListObjectsV2 by StartAfter: the last key that was seen."""
    while True:
        page = get("list_objects_v2", request)
        yield page
        if not page["IsTruncated"]:
            return
        request = {**request, "StartAfter": page["Contents"][-1]["Key"]}


def by_marker(get, request):
    """ListObjects by NextMarker, or the last key, as botocore does."""
    while True:
        page = get("list_objects", request)
        yield page
        if not page["IsTruncated"]:
            return
        request = {**request, "Marker": page.get("NextMarker") or page["Contents"][-1]["Key"]}


def by_version(get, request):
    """ListObjectVersions."""
    while True:
        page = get("list_object_versions", request)
        yield page
        if not page["IsTruncated"]:
            return
        request = {**request, "KeyMarker": page["NextKeyMarker"],
                   "VersionIdMarker": page["NextVersionIdMarker"]}


LOOPS = {"token": by_token, "start": by_start, "marker": by_marker, "version": by_version}


# ---- one process, under libshard -----------------------------------------------------------------


def some_keys(chance):
    """A bucket's keys: below the dataset's prefix, and around it."""
    parts = ["a", "a-", "b c", "+%", "é", "\U0001f600", "", "", "x.tar", "x.tar2", "0", "00", "~"]
    inside = {ROOT + "/".join(chance.choice(parts) for _ in range(chance.randint(1, 3)))
              for _ in range(chance.choice((0, 1, 3, 20, 60)))}
    inside |= {ROOT + "%03d" % i for i in range(chance.choice((0, 5, 40)))}
    outside = set(chance.sample(["train", "train0", "a/b", "zz", "trainer/x", "/", "valid/1"],
                                chance.randint(0, 7)))
    return sorted(key for key in inside | outside if key)


def less_tokens(page, server):
    """A page, less tokens' values, and less a NextMarker that leads nowhere."""
    tokens = ("Token", "Marker") if server.next_marker == "opaque" else ("Token",)
    return {name: "a token" if name.endswith(tokens) and value else value for name, value in page.items()
            if value or name != "NextMarker"}


class Cases:
    """What a process tries."""

    def __init__(self, strategy, seed, folder):
        from _libshard.buckets import pages, seams, share  # pylint: disable=import-outside-toplevel,import-error
        from _libshard.listing import Listing  # pylint: disable=import-outside-toplevel,import-error
        from _libshard.native import native  # pylint: disable=import-outside-toplevel,import-error
        self.finish, self.pages, self.share, self.open = seams.finish, pages, share, lambda file: Listing(native().open(file))
        self.strategy, self.shuffled = strategy.split()[0], "shuffled" in strategy
        self.chance, self.folder = random.Random(seed), folder
        self.faults, self.count, self.opened = [], 0, 0
        pages.FULL = PAGE
        share.warn_once = lambda *_, **__: None

    def list_bucket(self, server):
        """The node's listing, as shardctl has made it before some keys came, and the names in it."""
        late = self.chance.choice((0, 0, 0.2))
        names = sorted({key[len(ROOT):].encode() for key in server.keys
                        if key.startswith(ROOT) and not key.endswith("/") and self.chance.random() >= late})
        self.share._listings.clear()
        if self.strategy == "hash":
            return [name.decode() for name in names]
        self.opened += 1
        file = os.path.join(self.folder, "%d.listing" % self.opened)
        subprocess.run([paths.SHARDCTL, "index", "-", "-0", "--quiet", "-o", file], check=True,
                       input=b"".join(name + b"\0" for name in names), env={"PATH": os.environ["PATH"]})
        url = "s3://%s/%s" % (BUCKET, ROOT)
        self.share._listings[url, self.share._plain(None)] = self.open(file)
        return [name.decode() for name in names]

    def owner(self, names, size, key, every):
        """The rank of a key below the root: the closed form; None: it has none. every: of versions."""
        name = key[len(ROOT):]
        if self.strategy != "hash" and not every and name not in names and not key.endswith("/"):
            return None
        if self.strategy == "hash" or self.shuffled:
            os.environ["SHARD_SIZE"] = str(size)
            mine = []
            for rank in range(size):
                os.environ["SHARD_RANK"] = str(rank)
                if self.share.find("s3", BUCKET).begin("", every_version=every).owned([key])[0]:
                    mine.append(rank)
            return mine[0] if len(mine) == 1 else mine
        if not names:
            return 0
        at = min(sum(one.encode() < name.encode() for one in names), len(names) - 1)
        if self.strategy == "stride":
            return at % size
        return next(r for r in range(size) if len(names) * r // size <= at < len(names) * (r + 1) // size)

    def get(self, server):
        """A client's call, page() driven."""
        ahead = self.pages.Ahead()

        class Client:
            """What page() asks."""

            def __init__(self, name):
                self.name = name

            async def send(self, request, _own=None):
                """The server's answer."""
                return server.page(self.name, request)

            async def begin(self, function):
                """Of a client that blocks."""
                return function()

            async def account(self):
                """The listings are there."""

            @staticmethod
            def is_refused(_error):
                """This server never refuses."""
                return False

        def call(name, request):
            of = self.share.find("s3", BUCKET)
            return self.finish(self.pages.page(name, {"Bucket": BUCKET, **request}, of, Client(name), ahead))
        return call

    def fail(self, what, *more):
        """Note a fault; the first few are shown."""
        if len(self.faults) < 5:
            self.faults.append("%s: %r" % (what, more))

    def check_page(self, server, page, request, first):
        """What holds for each page."""
        contents = page.get("Contents", page.get("Versions", []))
        shown = len(contents) + len(page.get("CommonPrefixes", []))
        limit = request.get("MaxKeys", 1000)
        if page["IsTruncated"] and not shown:
            self.fail("an empty page while there is more", request, page)
        if shown > limit or page["MaxKeys"] != limit:
            self.fail("more than MaxKeys", request, page)
        if page.get("KeyCount", shown) != shown:
            self.fail("KeyCount", request, page)
        if not first and not shown and not isinstance(server, Odd):
            self.fail("an empty page behind a truncated one", request, page)
        if any(page.get(name) == [] for name in ("Contents", "Versions", "CommonPrefixes")):
            self.fail("an empty list, where a server has none", request, page)
        if (page.get("NextContinuationToken") or page.get("NextMarker")) and not page["IsTruncated"]:
            self.fail("a token in the last page", request, page)

    def read(self, server, loop, request):
        """[(key, whether it is a key)] that a client's loop gets; and its pages, less tokens' values."""
        got, first, before, pages = [], True, [], []
        read = urllib.parse.unquote if "EncodingType" in request else str
        for page in LOOPS[loop](self.get(server), request):
            self.check_page(server, page, request, first)
            pages.append(less_tokens(page, server))
            got += [(read(one["Key"]), True) for one in page.get("Contents", page.get("Versions", []))]
            got += [(read(one["Prefix"]), False) for one in page.get("CommonPrefixes", [])]
            first = False
            if got == before or len(got) > 1000:
                if page["IsTruncated"]:
                    self.fail("no progress", request, page)
                break
            before = list(got)
        return got, pages

    @staticmethod
    def bare(server, loop, request):
        """The keys and common prefixes that a client's loop gets without libshard."""
        read = urllib.parse.unquote if "EncodingType" in request else str
        pages = itertools.islice(LOOPS[loop](server.page, request), 1000)
        return [read(one.get("Key") or one["Prefix"]) for page in pages
                for name in ("Contents", "Versions", "CommonPrefixes") for one in page.get(name, [])]

    def compare(self, alone, loop, request, pages):
        """The pages are those of a bucket that has this rank's keys only."""
        wanted = [less_tokens(page, alone) for page in LOOPS[loop](alone.page, request)]
        if pages != wanted:
            at = next((i for i, both in enumerate(zip(pages, wanted)) if both[0] != both[1]), min(len(pages), len(wanted)))
            self.fail("not as of a bucket of the rank's keys", at, len(pages), len(wanted), pages[at:at + 1], wanted[at:at + 1])

    def one(self, server, owners, size):
        """One listing, by each rank."""
        chance = self.chance
        odd = isinstance(server, Odd)
        prefixes = ["", "t", "train", ROOT, ROOT, ROOT, ROOT, ROOT + "a", ROOT + "a/", ROOT + "0", ROOT + "x.tar", "zz", "nothing"]
        request = {"Prefix": chance.choice(prefixes + server.keys[:1] + [chance.choice(server.keys or [""])])}
        loop = chance.choice(sorted(LOOPS))
        delimiter = chance.choice((None, None, "/"))
        if delimiter and loop != "start":
            request["Delimiter"] = delimiter
        if chance.random() < 0.6:
            request["MaxKeys"] = chance.choice((2, 3, 5, 7) if odd else (1, 2, 3, 5, 7))
        if loop == "token" or (loop == "marker" and server.next_marker == "opaque"):  # else the client must know
            request.update(chance.choice(({}, {}, {"EncodingType": "url"})))
        start = chance.choice(server.keys) if server.keys and chance.random() < 0.2 else None
        if start and loop != "version" and not (odd and not start.startswith(request["Prefix"])):
            request["Marker" if loop == "marker" else "StartAfter"] = start
        else:
            start = None
        owners = owners[loop == "version"]
        skip = loop != "token" and loop != "start"
        everything = server.after(request, start or "", skip)
        if odd and sorted(self.bare(server, loop, request)) != sorted(key for key, _ in everything):
            return  # such a loop does not get them without libshard
        for rank in range(size):
            os.environ["SHARD_RANK"], os.environ["SHARD_SIZE"] = str(rank), str(size)
            want = [(key, is_key) for key, is_key in everything
                    if not is_key or not key.startswith(ROOT) or key == request["Prefix"]
                    or owners.get(key) == rank]
            server.requests.clear()
            self.count += 1
            try:
                got, pages = self.read(server, loop, request)
            except self.share.ShareError as error:
                self.fail("an error", loop, request, str(error))
                continue
            if sorted(got) != sorted(want):
                self.fail("other keys", self.strategy, rank, size, loop, request, got, want, server.keys)
            elif odd:
                continue
            elif request.get("Delimiter") is None and [key for key, _ in got] != [key for key, _ in want]:
                self.fail("another order", loop, request, got, want)
            elif "Delimiter" not in request and loop != "version" and self.pages.MOST == 16:
                self.compare(Server([key for key, _ in want], server.next_marker), loop, request, pages)
            pages, full = -(-len(everything) // PAGE), "MaxKeys" not in request
            if (full and self.strategy == "range" and not self.shuffled and loop == "token"
                    and request["Prefix"].startswith(ROOT) and not delimiter
                    and len(server.requests) > pages / size + 3):
                self.fail("too many requests", len(server.requests), pages, size, request)
            if full and self.strategy == "hash" and loop == "token" and len(server.requests) > max(pages, 1):
                self.fail("more requests than without libshard", len(server.requests), pages, request)

    def run(self, most):
        """Until so many listings have been tried."""
        while self.count < most:
            keys, next_marker = some_keys(self.chance), self.chance.choice((False, True, "opaque"))
            server = Server(keys, next_marker)
            if self.chance.random() < 0.3:  # by the keys that are its own, `range` reads an interval of them
                server = Odd(keys, next_marker and True, self.chance.choice((False, self.strategy != "range" or self.shuffled)))
            size = self.chance.choice((1, 2, 3, 8))
            names = self.list_bucket(server)
            os.environ["SHARD_RANK"], os.environ["SHARD_SIZE"] = "0", str(size)
            owners = [{key: self.owner(names, size, key, every) for key in server.keys if key.startswith(ROOT)}
                      for every in (False, True)]
            if any(isinstance(one, list) for of in owners for one in of.values()):
                self.fail("not one owner each", owners)
            for turn in range(6):
                self.pages.MOST = 2 if turn == 5 else 16  # pages of the server's that are read to fill one
                self.one(server, owners, size)
        return {"count": self.count, "faults": self.faults}


def child(strategy, seed, most, folder):
    """In a Python under libshard."""
    print(json.dumps(Cases(strategy, seed, folder).run(most)))


def main():
    """Start a process for each strategy, and say what they found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=2000, help="for each strategy")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    passed = failed = 0
    for strategy in STRATEGIES:
        with temporary_folder("shard-core-") as folder:
            variables = {"SHARD_DATASET": "s3://%s/train" % BUCKET, "SHARD_STRATEGY": strategy.split()[0],
                         "SHARD_CACHE_DIR": folder, "LD_PRELOAD": paths.LIBRARY, "SHARD_RANK": "0",
                         "SHARD_SIZE": "1", "PATH": os.environ["PATH"], "PYTHONPATH": paths.REPO}
            if "shuffled" in strategy:
                variables["SHARD_SEED"] = "7"
            done = subprocess.run([sys.executable, HERE, "--child", strategy, str(arguments.seed),
                                   str(arguments.cases), folder], env=variables, check=False, timeout=600,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            found = json.loads(done.stdout.decode().splitlines()[-1])
        except (ValueError, IndexError):
            found = {"count": 0, "faults": ["no result: " + done.stderr.decode()[-2000:]]}
        good = not found["faults"] and found["count"] >= arguments.cases
        passed, failed = passed + good, failed + (not good)
        print("%s %s: %d listings" % ("ok    " if good else "FAILED", strategy, found["count"]), flush=True)
        for fault in found["faults"]:
            print("  " + fault[:2000])
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    else:
        sys.exit(main())
