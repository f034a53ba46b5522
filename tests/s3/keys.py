"""Keys that go wrong in careless code."""
import json
import os

from tests.harness.proxy import Proxy, shorten

HOSTILE = ([f"odd/{c}" for c in " !\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~"] +
           [f"odd/x{c}y" for c in " +%&<>\"';#?\\/\t\r\n\x01\x02\x1f\x7f"] +
           ["a//b", "a/b//c", "//lead", " lead", "trail ", "a/../b", "./c", "..", ".", "~home", "%41",
            "%2F", "+", "%2B", "a+b c%20d",
            "&amp;", "<Key>", "]]>", "&#10;", "\u00e9", "\u56fe\u50cf/\u6570\u636e.png",
            "\U0001f600.jpeg", "\U0001f600/\U0001f4a9", "\ud7ff", "\ue000", "\uffdc",
            "\U0010ffff", "k" * 1024, "\u56fe" * 341, "d/" * 500 + "f", "%" * 300, "s3://b/k", "C:\\x",
            "-o", "--help", "nul\x01\x02",
            "marker/", "marker/a", "marker/b/", "deep/er/", "A", "a", "Z", "z"])


def hostile(s3):
    """All keys of a hostile set are as boto3 lists them, byte for byte."""
    s3.bucket("hostile")
    s3.put("hostile", *HOSTILE)
    wanted, markers = s3.reference("hostile")
    wanted.sort()
    _, facts = s3.lists("hostile keys", "s3://hostile", wanted)
    s3.check("hostile keys: all", len(wanted) == len([k for k in set(HOSTILE) if not k.endswith("/")]),
             len(wanted))
    only = s3.run("index", "s3://hostile/marker/b/", "-o", os.path.join(s3.folder, "markers"))
    s3.check("a prefix of markers only", only.returncode == 0 and b"no key to list that begins" in only.stderr, only)
    s3.check("markers are counted", facts.get("markers") == markers == 3, facts)
    s3.lists("hostile keys, slash", "s3://hostile/", wanted)
    for prefix in ("a", "a/", "a//", "odd/x", "odd", "/", "//", "%", "+", "\u56fe", "marker/", "marker",
                   "d/d/", "k" * 1024, "&", " "):
        s3.lists(f"prefix {prefix[:20]!r}", f"s3://hostile/{prefix}",
                 sorted(s3.reference("hostile", prefix)[0]))
    with Proxy(s3.endpoint, fault=lambda q: "as AWS") as proxy:
        s3.lists("hostile keys, blanks as AWS", "s3://hostile/", wanted, endpoint=proxy.endpoint)
    for keep in (1, 7, 40):
        with Proxy(s3.endpoint, fault=lambda q, k=keep: shorten(k)) as proxy:
            s3.lists(f"hostile keys, pages of {keep}", "s3://hostile/odd/x",
                     sorted(s3.reference("hostile", "odd/x")[0]),
                     endpoint=proxy.endpoint)
            s3.lists(f"all hostile keys, pages of {keep}", "s3://hostile", wanted,
                     endpoint=proxy.endpoint, SHARD_S3_CONNECTIONS="3")
    done = s3.run("ls", "-0", "s3://hostile/odd/x", "--uri")
    keys = sorted(b"s3://hostile/odd/" + k for k in s3.reference("hostile", "odd/x")[0])
    s3.check("ls --uri", done.stdout.split(b"\0")[:-1] == keys, done.stderr)
    s3.lists("--include", "s3://hostile/",
             [n for n in wanted if n.rpartition(b"/")[2].endswith((b".png", b".jpeg"))],
             "--include", "*.png:*.jpeg")
    s3.index("s3://hostile/marker/")
    stat = json.loads(s3.run("stat", s3.file, "--json").stdout)
    s3.check("the source is the url", stat.get("source") == "s3://hostile/marker/", stat)
    done = s3.run("ls", s3.file, "--uri")
    s3.check("ls --uri of a listing", done.stdout == b"s3://hostile/marker/a\n", done.stdout +
             done.stderr)
