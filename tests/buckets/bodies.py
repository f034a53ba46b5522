"""What boto3's callers get of hostile XML is the same whether libshard leaves entries out of it or not.

    .venv/bin/python -m tests.buckets.bodies [--cases N] [--seed N]

A Python under libshard answers boto3's requests itself (before-send): with pages of a server's, with such
that were made hostile by hand, and with such that were changed at random. Each is listed by each rank twice,
in the way of page_xml.py and as if no body had the form that it knows.
"""
import argparse
import io
import json
import os
import random
import re
import subprocess
import sys
import urllib.parse

from tests.harness import paths
from tests.harness.options import temporary_folder

HERE = os.path.abspath(__file__)
BUCKET, ROOT, SIZE = "bkt", "train/", 3
XML, XMLNS = '<?xml version="1.0" encoding="UTF-8"?>', ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
NAMES = [f"train/{number:02d}" for number in range(8)] + ["train/a b", "train/a+b", "train/c/d", "train/ü~(1)"]


# ---- bodies --------------------------------------------------------------------------------------


def quoted(key):
    """A key as radosgw writes it."""
    return urllib.parse.quote(key, safe="")


def entry(key, time="2026-11-25T22:03:04.492Z", size="0", after=""):
    """An entry; the key as it is written there."""
    return (f"<Contents><Key>{key}</Key><LastModified>{time}</LastModified><ETag>&quot;d41d8cd9&quot;</ETag>"
            f"<Size>{size}</Size><StorageClass>STANDARD</StorageClass>{after}</Contents>")


def body(entries, head=None, tail="", xml=XML, encoding="<EncodingType>url</EncodingType>"):
    """A page."""
    head = f"<Name>{BUCKET}</Name><Prefix>train/</Prefix>" if head is None else head
    return (f"{xml}<ListBucketResult{XMLNS}>{head}{encoding}<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>"
            f"{''.join(entries)}{tail}<KeyCount>{len(entries)}</KeyCount></ListBucketResult>").encode()


ENTRIES = [entry(quoted(name)) for name in NAMES]
OWNER = "<Owner><ID>one</ID><DisplayName>One</DisplayName></Owner>"
VALID = {
    "radosgw's": body(ENTRIES),
    "with a slash as it is": body([entry(urllib.parse.quote_plus(name, safe="/*")) for name in NAMES]),
    "of ListObjects": body([entry(quoted(name), after=OWNER + "<Type>Normal</Type>") for name in NAMES], tail="<Marker/>"),
    "without the encoding": body([entry(name) for name in NAMES[:8]], encoding=""),
    "its encoding at the end": body(ENTRIES, encoding="", tail="<EncodingType>url</EncodingType>"),
}


def goes_on(page):
    """The page, if there is more."""
    return page.replace(b"<IsTruncated>false</IsTruncated>",
                        b"<IsTruncated>true</IsTruncated><NextContinuationToken>on</NextContinuationToken>")


VALID.update({what + ", with more": goes_on(page) for what, page in VALID.items()})


def among(text, at=5):
    """A page that has this among its entries."""
    return body(ENTRIES[:at] + [text] + ENTRIES[at:])


def hostile():
    """{what: a body}"""
    made = {"empty": body([]), "one entry": body(ENTRIES[:1]), "no order": body(ENTRIES[::-1]),
            "an entry twice": body(ENTRIES + ENTRIES), "nothing": b"", "no XML": b"no XML",
            "a key that is the prefix": body([entry(quoted(ROOT))] + ENTRIES),
            "keys of others": body([entry(quoted("other/1"))] + ENTRIES + [entry(quoted("zz"))]),
            "an error": f"{XML}<Error><Code>InternalError</Code></Error>".encode(),
            "another root": body(ENTRIES).replace(b"ListBucketResult", b"ListVersionsResult"),
            "a root's end before": body(ENTRIES, head="</ListBucketResult>"),
            "a root that is empty": body(ENTRIES).replace(b'01/">', b'01/"/>'),
            **{f"within {begin} and {end}": body([begin, *ENTRIES, end]) for begin, end in (
                ("<More>", "</More>"), ("<Contents>", "</Contents>"), ("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?a ", "?>"),
                ("<More ", "/>"), ('<More a="', '"/>'), ("text", "text"), ("</ListBucketResult>", "<ListBucketResult>"))},
            "no end": body(ENTRIES)[:-30], "more behind the end": body(ENTRIES) + b"<a/>",
            "a mark of order": b"\xef\xbb\xbf" + body(ENTRIES), "space before": b" " + body(ENTRIES),
            "XML 1.1": body(ENTRIES, xml=XML.replace("1.0", "1.1")),
            "Latin 1": body(ENTRIES, xml=XML.replace("UTF-8", "ISO-8859-1")),
            "UTF-16": body(ENTRIES, xml="").decode().encode("utf-16"),
            "its own entities": body(ENTRIES, xml=XML + '<!DOCTYPE a [<!ENTITY e "train/00">]>'),
            "lines": body(ENTRIES).replace(b"><", b">\n  <"), "quotes of one stroke": body(ENTRIES).replace(b'"', b"'"),
            "a name space's prefix": body(ENTRIES, head="").replace(b"<ListBucketResult xmlns", b"<ListBucketResult xmlns:a"),
            "the encoding is said in vain": body([entry(name) for name in NAMES]), "it is not said": body(ENTRIES, encoding=""),
            "another one is said": body(ENTRIES, encoding="<EncodingType>urls</EncodingType>"),
            "the encoding is said twice": body(ENTRIES, tail="<EncodingType>url</EncodingType>"),
            "the encoding is said in another element": body(ENTRIES, encoding="", tail="<More><EncodingType>url</EncodingType></More>"),
            "the last key is no witness": body(ENTRIES[8:] + [entry("train/zz"[6:])]),
            "common prefixes": body(ENTRIES, tail="<CommonPrefixes><Prefix>train%2Fzz%2F</Prefix></CommonPrefixes>"),
            "common prefixes in no order": goes_on(body(ENTRIES[::-1], tail="<CommonPrefixes><Prefix>a</Prefix></CommonPrefixes>")),
            "common prefixes between": among("<CommonPrefixes><Prefix>train%2F03%2F</Prefix></CommonPrefixes>")}
    for key in ("train%2F%0A", "train%2F%00", "train%2F%FF", "train%2F%E2%82", "train%2F%zz", "train%2F%", "train%252F1", "",
                "train/&amp;", "train&#x2f;1", "train/&lt;", "train/<![CDATA[1]]>", "train/<!--1-->2", "train/ü", "train/\x01",
                "train/\udcff", "train/]]>", "train/>", "train/\r\n1", " ", "train/&e;", "train/<b/>", "train/'\""):
        text = entry(key)
        for where, at in (("among them", 5), ("first", 0), ("last", len(ENTRIES))):
            page = ENTRIES[:at] + [text] + ENTRIES[at:]
            made[f"{key!r}, {where}"] = body([]).replace(
                b"<KeyCount>0", "".join(page).encode("utf-8", "surrogateescape") + b"<KeyCount>0")
    more = entry("train%2F5")
    for what, text in (("no key", re.sub("<Key>.*</Key>", "", more)), ("two keys", more.replace("<Size>", "<Key>1</Key><Size>")),
                       ("no size", more.replace("<Size>0</Size>", "")), ("a size of letters", entry("train%2F5", size="one")),
                       ("two sizes", more.replace("<Size>", "<Size>1</Size><Size>")), ("no time", entry("train%2F5", time="")),
                       ("a time of no calendar", entry("train%2F5", time="2026-02-30T01:01:01Z")),
                       ("a time of no clock", entry("train%2F5", time="2026-02-03T24:01:01Z")),
                       ("the year 0", entry("train%2F5", time="0000-02-03T04:01:01Z")),
                       ("an attribute", more.replace("<Contents>", '<Contents a="1">')), ("a child", entry("train%2F5", after="<b/>")),
                       ("a comment", entry("train%2F5", after="<!-- </Contents> -->")), ("no end", more[:-11]),
                       ("another end", more.replace("</Contents>", "</Content>")), ("a class of two", entry("train%2F5", after="<StorageClass/>")),
                       ("an owner", entry("train%2F5", after=OWNER)), ("two owners", entry("train%2F5", after=OWNER * 2)),
                       ("one in it", entry("train%2F5", after=more)), ("empty", "<Contents/>"), ("text", "<Contents>text</Contents>")):
        made[f"an entry with {what}"] = among(text)
        made[f"the first entry with {what}"] = among(text, 0)
        made[f"the last entry with {what}"] = among(text, len(ENTRIES))
    for text in ("<More>1</More>", "<!-- a -->", "<?a b?>", "text", "&amp;", "<![CDATA[1]]>", "</ListBucketResult>", "<", "\x01", " "):
        made[f"{text!r} among entries"] = among(text)
    return made


PIECES = [b"<", b">", b"&", b'"', b"/", b"<Contents>", b"</Contents>", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<Key>", b"</Key>",
          b"%2F", b"%", b"+", b"%0A", b"\0", b"\xff", b" ", b"\n", b"url", b"true", b"&amp;", b"?>", b"<a/>"]


def changed(chance):
    """A valid body, changed at random."""
    made = chance.choice(list(VALID.values()))
    for _ in range(chance.choice((1, 1, 2, 3))):
        at, length = chance.randrange(len(made)), chance.choice((0, 1, 1, 3, 11, 60))
        to = chance.choice((at, at, chance.randrange(len(made))))
        put = chance.choice((b"", made[at:at + length], chance.choice(PIECES), bytes([chance.randrange(256)])))
        made = made[:to] + put + made[to + chance.choice((0, length)):]
    return made


# ---- one process, under libshard -----------------------------------------------------------------


class Raw(io.BytesIO):
    """What urllib3 reads of a connection."""

    def stream(self, *_, **__):
        """All of it."""
        yield self.read()


class Cases:
    """What the process tries."""

    def __init__(self):
        import boto3  # pylint: disable=import-outside-toplevel
        from botocore.awsrequest import AWSResponse  # pylint: disable=import-outside-toplevel
        from botocore.config import Config  # pylint: disable=import-outside-toplevel
        self.response = AWSResponse
        self.client = boto3.client("s3", endpoint_url="http://127.0.0.1:9", region_name="us-east-1", aws_access_key_id="a",
                                   aws_secret_access_key="b", config=Config(retries={"total_max_attempts": 1}))
        self.client.meta.events.register("before-send.s3", self.answer)
        from _libshard.buckets import page_xml  # pylint: disable=import-outside-toplevel,import-error
        self.page_xml, self.head, self.cut = page_xml, page_xml.HEAD, page_xml.Cut.body  # a HEAD that matches nothing: no cut
        page_xml.Cut.body = lambda cut, text: self.count(cut, text)
        self.body, self.requests, self.less, self.faults = b"", [], 0, []

    def count(self, cut, text):
        """Cut.body(), and whether it has left anything out."""
        left = self.cut(cut, text)
        self.less += len(left) < len(text)
        return left

    def answer(self, request, **_):
        """The server: to a request that goes on, the last page."""
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(request.url).query))
        self.requests.append(query)
        goes_on = query.get("continuation-token") or query.get("marker")
        answer = body([entry(quoted("train/zz"))]) if goes_on else self.body
        return self.response(request.url, 200, {"Content-Type": "application/xml"}, Raw(answer))

    def outcome(self, operation, whole, **more):
        """(what a call has returned or raised, what was asked for)."""
        self.page_xml.HEAD = re.compile(rb"(?!)") if whole else self.head
        self.client.__dict__.pop("_libshard_behind", None)
        self.requests = []
        try:
            got = getattr(self.client, operation)(Bucket=BUCKET, Prefix=ROOT, **more)
            got = re.sub(" at 0x[0-9a-f]+", "", repr(got))
        except Exception as error:  # pylint: disable=broad-except
            got = type(error).__name__
        return got, self.requests

    def compare(self, what, text, **more):
        """A body, in all ranks and by both operations: each gets what it gets of the parsed page; or some rank has an
        error where one is in what the others have left out, or is read otherwise."""
        self.body = text
        before, shown = self.less, 0
        for operation in ("list_objects_v2", "list_objects"):
            wanted, got = [], []
            for rank in range(SIZE):
                os.environ["SHARD_RANK"] = str(rank)
                wanted.append(self.outcome(operation, True, **more))
                got.append(self.outcome(operation, False, **more))
                shown += got[-1][0].count("'Key': ")
            if got != wanted and not any(one.isidentifier() for one, _ in got):
                self.faults.append(f"{what}, {operation}: {got} for {wanted}; {text!r}"[:3000])
        return self.less - before, shown

    def run(self, most, seed):
        """All of it."""
        for what, text in VALID.items():
            less, shown = self.compare(what, text)
            if not less or shown < 2 * len(re.findall(b"<Key>", text)):
                self.faults.append(f"a body {what}: something was left out {less} times, {shown} keys are shown")
            self.compare(what + ", EncodingType", text, EncodingType="url")
            self.compare(what + ", Delimiter", text, Delimiter="/")
            self.compare(what + ", MaxKeys, which the server heeds not", text, MaxKeys=1)
        for what, text in hostile().items():
            self.compare(what, text)
        chance = random.Random(seed)
        for number in range(most):
            self.compare(f"change {number}", changed(chance))
        self.client.meta.events.register("before-send.s3", self.list_another)
        self.compare("another bucket is listed meanwhile", VALID["radosgw's"])
        self.client.meta.events.unregister("before-send.s3", self.list_another)
        from botocore import handlers  # pylint: disable=import-outside-toplevel
        self.client.meta.events.unregister("after-call.s3.ListObjectsV2", handlers.decode_list_object_v2)
        self.client.meta.events.unregister("after-call.s3.ListObjects", handlers.decode_list_object)
        for what, text in VALID.items():
            self.compare(what + ", nothing is decoded", text)
        return {"less": self.less, "faults": self.faults}

    def list_another(self, request, **_):
        """A program's own handler, which lists a bucket that is no dataset's."""
        if "/other" not in request.url:
            found = self.client.list_objects_v2(Bucket="other")
            if len(found["Contents"]) != len(NAMES):
                self.faults.append(f"{len(found['Contents'])} keys of another bucket")


def main():
    """Start the process, and say what it has found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=300, help="bodies that are changed at random")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with temporary_folder("shard-bodies-") as folder:
        variables = {"SHARD_DATASET": f"s3://{BUCKET}/train", "SHARD_STRATEGY": "hash", "SHARD_CACHE_DIR": folder,
                     "LD_PRELOAD": paths.LIBRARY, "SHARD_RANK": "0", "SHARD_SIZE": str(SIZE), "PATH": os.environ["PATH"],
                     "PYTHONPATH": paths.REPO, "PYTHONWARNINGS": "ignore", "HOME": folder}
        done = subprocess.run([sys.executable, HERE, "--child", str(arguments.cases), str(arguments.seed)], env=variables,
                              check=False, timeout=600, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        found = json.loads(done.stdout.decode().splitlines()[-1])
    except (ValueError, IndexError):
        found = {"less": 0, "faults": ["no result: " + done.stderr.decode()[-2000:]]}
    for fault in found["faults"][:10]:
        print("  " + fault)
    print(f"{len(found['faults'])} failed; from {found['less']} bodies something was left out")
    return 1 if found["faults"] else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(Cases().run(int(sys.argv[2]), int(sys.argv[3]))))
    else:
        sys.exit(main())
