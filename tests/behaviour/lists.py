#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""shardctl index of lists that exist already: what is no list of names, several parts, S3 Inventory, dwalk, URLs.

    python3 -m tests.behaviour.lists [PART...]
"""
import gzip
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

from tests.harness import confine, lists, paths
from tests.harness.processes import HANGS
from tests.harness.verdicts import Verdicts

confine.begin()
WORK = os.path.realpath(tempfile.mkdtemp(prefix="shard-lists."))
os.chdir(WORK)
LISTING = os.path.join(WORK, "l")
verdicts = Verdicts()


def control(*words, **more):
    """shardctl; the completed process."""
    return subprocess.run([paths.SHARDCTL, *words], capture_output=True, timeout=HANGS, check=False, **more)


def file(name, content):
    """Write a file; its name."""
    with open(name, "wb") as stream:
        stream.write(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
    return name


def names_of(*words):
    """What shardctl ls prints, as a list."""
    return [os.fsdecode(name) for name in control("ls", "-0", *words).stdout.split(b"\0")[:-1]]


def index(*words, **more):
    """shardctl index into LISTING: the process, and the names or None."""
    if os.path.exists(LISTING):
        os.unlink(LISTING)
    done = control("index", *words, "-o", LISTING, "--json", **more)
    return done, names_of(LISTING) if os.path.exists(LISTING) else None


def refused(name, words, *command, status=1, **more):
    """An error that says these words, and no listing."""
    done, made = index(*command, **more)
    missing = [word for word in ([words] if isinstance(words, str) else words) if word not in done.stderr.decode("utf-8", "replace")]
    verdicts.check(f"refused: {name}", done.returncode == status and made is None and not missing,
                   (done.returncode, made and made[:3], missing, done.stderr))


def taken(name, wanted, *command, **more):
    """The listing has these names; its JSON."""
    done, made = index(*command, **more)
    verdicts.check(name, done.returncode == 0 and made == sorted(wanted, key=os.fsencode),
                   (done.stderr, made and set(made) ^ set(wanted)))
    return json.loads(done.stdout) if done.returncode == 0 else {}


def tree(root, folders=30, files=20):
    """A tree of files, with links and empty directories; the names of its files and links to none."""
    names = []
    for i in range(folders):
        os.makedirs(f"{root}/d{i:02}/deep")
        for k in range(files):
            names.append(f"d{i:02}/" + ("deep/" if k % 5 == 0 else "") + f"img {k:03}%.jpeg")
    names += ["top", "a|F", "d00/b|D", '"q"', "{x}", "tab\there", "back\\n"]
    for name in names:
        file(f"{root}/{name}", "")
    os.makedirs(f"{root}/empty/er")
    os.symlink("top", f"{root}/d01/to_file")
    os.symlink("nowhere", f"{root}/d01/to_nothing")
    os.symlink("../d00", f"{root}/d01/to_folder")
    return names + ["d01/to_file", "d01/to_nothing"]


# ---- texts that hold no names

ROOT = f"{WORK}/root"
LINES = {
    "NDJSON": ('{"key":"a/1","size":3}\n{"key":"a/2"}\n', "JSON"),
    "NDJSON with blanks": ('{ "Key": "a" }\n', "jq -j"),
    "JSON over lines": ('[\n  {"Path": "a"},\n  {"Path": "b"}\n]\n', "JSON"),
    "rclone lsjson": ('[\n{"Path":"a"},\n{"Path":"b"}\n]\n', "JSON"),
    "JSON, its lines set in": ('  {"Key": "a"}\n  {"Key": "b"}\n', "JSON"),
    "an array, an object a line": ('[{"Key":"a"},\n {"Key":"b"}]\n', "JSON"),
    "an array of texts": ('["a/1", "a/2"]\n', "JSON"),
    "JSON over lines, with a name": ('{"Contents": [\n {"Key":"a"},\n {"Key":"b"}\n]}\n', "JSON"),
    "DVC's .dir": ('[{"md5": "1", "relpath": "a"}, {"md5": "2", "relpath": "b"}]', "JSON"),
    "JSON, an array of names": ('["a/1","a/2"]\n', "'.[]+"),
    "ls -l of a directory": ("total 8\n-rw-r--r-- 1 u g 3 Jan  1 12:00 a\n", "ls -l"),
    "quoted": ('"a/1"\n"a/2"\n', "double quotes"),
    "CSV, quoted": ('"b","a/1",3\n"b","a/2",4\n', "--from s3-inventory"),
    "dwalk's lite": (f"{ROOT}|D\n{ROOT}/a|F\n", "--from dwalk"),
    "dwalk --text": ("-rw-r--r-- u g 1.00 KB Jan  1 2026 12:00 /x/a\n", "dwalk --lite"),
    "GPFS": (f"101 1 0 -- {ROOT}/top\n102 1 0 -- {ROOT}/d00/x\n", "behind something else"),
    "find -printf": ("top\t3\nd00/x\t4\n", "TAB"),
    "aws s3 ls": ("2026-11-28 01:00:00       3 a/1\n2026-11-28 01:00:01    9000 a/2\n", "a date or a size"),
    "s5cmd ls": ("2026/11/28 01:00:00    3  a/1\n", "a date or a size"),
    "rclone ls": ("        3 a/1\n    90000 a/2\n", "rclone lsf"),
    "awscli's pages": ("a/1\ta/2\ta/3\na/4\ta/5\n", "TAB"),
}
BYTES = {
    "Parquet": (b"PAR1\x15\x04\x15\x00names", "pyarrow.parquet"),
    "ORC": (b"ORC\n\x03\x00\x00names", "pyarrow.orc"),
    "SQLite": (b"SQLite format 3\0\x10\0\x01", "sqlite3 FILE"),
    "a sequence file": (b"SEQ\x06\x19org.apache", "Hadoop"),
    "dwalk's binary": (struct.pack(">7Q", 4, 0, 0, 0, 0, 1, 8) + b"/a\0\0\0\0\0\0" + bytes(80), "mpirun dwalk --lite -o"),
    "a manifest.json": (json.dumps({"sourceBucket": "b", "fileSchema": "Bucket, Key", "files": []}, indent=2).encode(), "--from s3-inventory"),
    "one in a line": (json.dumps({"sourceBucket": "b", "fileSchema": "Bucket, Key", "files": []}).encode(), "--from s3-inventory"),
}


def garbage():
    """Each is an error; --from text takes lines as they are, but no bytes."""
    tree(ROOT)
    for name, (text, words) in LINES.items():
        file("g", text)
        refused(name, ["g holds no names", words, "--from text"], "g", "--root", ROOT)
        refused(f"{name}, gzip", [words], file("g.gz", gzip.compress(text.encode())), "--root", ROOT)
        lines = text.removesuffix("\n").split("\n")
        if all(not line.startswith("/") for line in lines):
            taken(f"{name}, --from text", lines, file("g", text), "--from", "text")
        refused(f"{name}, --from text below a root", [], "g", "--from", "text", "--root", ROOT)
        file("g", "top\n" + text)
        if not name.startswith(("JSON over lines", "rclone lsjson")):
            done, made = index("g", "--no-check")
            verdicts.check(f"{name} behind a name: lines like others", done.returncode == 0 and len(made) == len(lines) + 1, done.stderr)
    for name, (content, words) in BYTES.items():
        file("g", content)
        for more in [], ["--from", "text"], ["-0"], ["--root", ROOT]:
            refused(f"{name}, {more}", words, "g", *more)
        refused(f"{name}, from a pipe", words, "-", input=content)
    taken("a manifest keeps its order, whatever it looks like", ['{"a"}'], file("odd.txt", '{"a"}\n'), "--from", "text", "--keep-order")
    for name, text, wanted in (("one of dwalk's ends", "a|F\nb\n", ["a|F", "b"]), ("quotes within", 'a"b"\nx "y"\n', ['a"b"', 'x "y"']),
                               ("brackets", "[a]\n{b}\n", ["[a]", "{b}"]), ("a quoted one, and others", '"a"\nb\n', ['"a"', "b"]),
                               ("blanks", " a b \nc  d\n", [" a b ", "c  d"]), ("a TAB in one", "a\tb\nc\n", ["a\tb", "c"]),
                               ("words of formats", "PAR1\nORC\nSEQ\nSQLite format 3\n", ["PAR1", "ORC", "SEQ", "SQLite format 3"]),
                               ("a brace", "{\nx\n", ["{", "x"]), ("numbers first", "01 a\n02 b\n2026-11-28 c\n", ["01 a", "02 b", "2026-11-28 c"])):
        taken(f"odd but true: {name}", wanted, file("odd", text))
    taken("-0: a name with a newline, the first", ["a\nb", "c"], "-0", file("odd", "a\nb\0c\0"))
    refused("-0 of lines", "leave out -0", "-0", file("g", "a\nb\nc\n"))
    refused("-0 of lines and a NUL", "leave out -0", "-0", file("g", "a\nb\nc\0d\0"))
    refused("lines of names with NUL", ["g, line 1", "-0"], file("g", "a\0b\0"))
    urls = ["s3a://b/p/x", "gs://b/p/x", "s3://c/p/x", "s3://b/px", "https://b.s3.amazonaws.com/p/x", "file:/p/x", "/p/x"]
    for url in urls:
        refused(f"{url} below s3://b/p/", ["g, line 2", "does not lie below --root"], file("g", f"a\n{url}\n"), "--root", "s3://b/p/")
    done, _ = index(file("g", "https://b.s3.amazonaws.com/p/x?X-Amz-Signature=hidden\n"), "--root", "s3://b/p/")
    verdicts.check("a signature is not printed", b"/p/x' does not lie" in done.stderr and b"hidden" not in done.stderr, done.stderr)
    whole = file("g", "p/x\np/y/z\n")
    refused("whole keys below a prefix", ["prefix of --root", "s3://BUCKET/"], whole, "--root", "s3://b/p/")
    taken("keys that have the prefix twice", ["p/x", "p/y/z"], whole, "--root", "s3://b/p", "--from", "text")
    taken("whole keys of a bucket", ["p/x", "p/y/z"], whole, "--root", "s3://b/")
    told = taken("keys that end in a slash", ["x", "d/y"], file("g", "d/\nx\ns3://b/p/d/y\ns3://b/p/e/\n"), "--root", "s3://b/p/")
    verdicts.check("they are counted", told.get("markers") == 2, told)


# ---- names below a directory

def looked_up():
    """What is not there is an error, with its line; and so is a directory, wherever it stands."""
    root = f"{WORK}/looked"
    os.makedirs(f"{root}/a")
    names = [f"a/img {k:04}.jpeg" for k in range(3003)]
    for name in names:
        file(f"{root}/{name}", "")
    text = "".join(name + "\n" for name in names)
    taken("names that are there", names, file("t", text), "--root", root)
    for at in 0, 1, 1777, 3002:
        wrong = [*names[:at], names[at].replace(" ", "%20"), *names[at + 1:]]
        for source in "t", "-":
            file("t", "".join(name + "\n" for name in wrong))
            with open("t", "rb") as stream:
                refused(f"one of 3,003 is percent-encoded, {at}, {source}", [f"line {at + 1}:", "percent-encoded", f"'{names[at]}' is there"],
                        source, "--root", root, stdin=stream)
    taken("--no-check", wrong, "t", "--root", root, "--no-check")
    refused("encoded directories", ["line 2:", "percent-encoded"], file("t", "a/img 0000.jpeg\na%2Fimg 0001.jpeg\n"), "--root", root)
    for at in 0, 3002:
        refused(f"one is missing, {at}", [f"line {at + 1}:", "names 'a/none'"], file("t", "".join(
            ("a/none" if k == at else name) + "\n" for k, name in enumerate(names))), "--root", root)
    refused("a third are missing", "is not below", file("t", "".join(name + ("x" if k % 3 == 1 else "") + "\n"
                                                                    for k, name in enumerate(names))), "--root", root)
    refused("a root that is not there", ["No such file", "--no-check"], file("t", "x\n"), "--root", f"{WORK}/none")
    refused("absolute names, and a relative root", "as an absolute path, too", file("t", f"{root}/x\n"), "--root", os.path.relpath(root))
    refused("a list that is not there, and a root", ["cannot open manifest 'none.txt'"], "none.txt", "--root", root)
    refused("a URL that is not S3's", ["gs://b/x/", "--root URL"], "gs://b/x/")
    taken("names with per cents that are there", ["100%25", "a%20b"], file("t", "100%25\na%20b\n"), "--root", per_cents(f"{WORK}/per"))
    # A directory of another name, in any order: beside a count of the same by Python.
    chance = random.Random(49)
    for turn in range(60):
        made = {"/".join(chance.choice(["a", "a-b", "ab", "b1", "b2", "b10"]) for _ in range(chance.randint(1, 4)))
                for _ in range(chance.randint(1, 9))}
        below = [name for name in made for other in made if name.startswith(other + "/")]
        listed = list(made)
        chance.shuffle(listed)
        file("t", "".join(name + "\n" for name in listed))
        how = ["--root", root, "--no-check"]
        if below:
            refused(f"a directory of another, {turn}", ["is the directory of", "line "], "t", *how)
        else:
            taken(f"no directory of another, {turn}", made, "t", *how)
    many = [f"n{k:05}" for k in range(200)] + ["n00100x", "n00100/y"]
    refused("a counted name is a directory", ["'n00100' (t, line 101) is the directory of 'n00100/y'"],
            file("t", "".join(name + "\n" for name in many)), "--root", root, "--no-check")
    taken("keys of a bucket may be", ["a", "a/b"], file("t", "a\na/b\n"), "--root", "s3://b/")


def per_cents(root):
    """A directory with such names."""
    os.makedirs(root)
    file(f"{root}/100%25", "")
    file(f"{root}/a%20b", "")
    return root


# ---- several

def parts():
    """Parts, in each packing, are the one text."""
    chance = random.Random(7)
    names = [f"f{k % 17}/n{k * 7919 % 50021:05}.bin" for k in range(20000)]
    whole, _ = index(file("whole", "".join(name + "\n" for name in names)))
    digest = json.loads(whole.stdout)["digest"]
    for turn in range(6):
        end = "\0" if turn % 2 else "\n"
        count, split = chance.randint(2, 40), {}
        for name in names:
            split.setdefault(chance.randrange(count), []).append(name)
        os.mkdir(f"p{turn}")
        files = []
        for k in range(count):
            content = "".join(name + end for name in split.get(k, [])).encode()
            packing = chance.choice(["", ".gz", ".zst"])
            content = gzip.compress(content) if packing == ".gz" else subprocess.run(
                ["zstd", "-qc"], input=content, capture_output=True, check=True).stdout if packing else content
            files.append(file(f"p{turn}/{k:03}{packing}", content))
        zero = ["-0"] if turn % 2 else []
        for how in files, ["--from", "text", f"p{turn}"]:
            done, made = index(*zero, *how)
            verdicts.check(f"parts {turn}, {how[0]}", made is not None and json.loads(done.stdout)["digest"] == digest, done.stderr)
    a, b = file("a", "x/1\nx/2\n"), file("b", "x/3\nx/1\n")
    refused("a name in two parts", ["'x/1' comes twice (a, line 1; b, line 2)", "--unique"], a, b)
    taken("--unique", ["x/1", "x/2", "x/3"], a, b, "--unique")
    refused("a part twice", "comes twice (a, line 1; a, line 1)", a, a)
    refused("a name twice in a packed part", "comes twice (c.gz, line 1; c.gz, line 3)", a.replace("a", "b"), file("c.gz", gzip.compress(b"q\nr\nq\n")))
    taken("an empty part", ["x/1", "x/2"], a, file("e", ""), file("e.gz", gzip.compress(b"")))
    done, made = index(file("nameless", ""))
    verdicts.check("a list without names is said", made is not None and b"'nameless' holds no names" in done.stderr, done.stderr)
    refused("an empty file that is to be packed", "e2.gz is 0 bytes long", a, file("e2.gz", ""))
    refused("a part that is cut short", ["cut, line 2", "without a newline"], file("cut", "y\nz"), a)
    refused("a packed part that is cut short", "cut.gz", file("cut.gz", gzip.compress(b"y\n" * 5000)[:-9]), a)
    taken("the last one may", ["x/1", "x/2", "y", "z"], a, "cut")
    refused("a part of another form", ["j holds no names", "JSON"], a, file("j", '{"key":"q"}\n'))
    refused("a wrong line of a part", ["w, line 2", "empty"], a, file("w", "q\n\nr\n"))
    for words in ["--keep-order"], ["--order", "directory"]:
        refused(f"several, {words}", "one text", a, b, *words, status=2)
    refused("a part that is not there", "cannot open", a, "absent")
    refused("a folder with a folder", "no regular file", "--from", "text", folder("f1", {"x": "1\n"}, "sub"))
    refused("a folder without parts", "no part", "--from", "text", folder("f2", {}))
    refused("a folder beside a list", "is not a list", a, folder("f3", {"x": "1\n"}), status=2)
    refused("standard input twice", "one of the sources", "-", "-", "--unique", input=b"x\n" * 9, status=2)
    taken("standard input and a text", ["x/1", "x/2", "z"], "-", a, input=b"z\n")
    # Pipes: a writer that is there once only.
    for count in 1, 2:
        fifos = [os.path.join(WORK, f"fifo{count}.{k}") for k in range(count)]
        for fifo in fifos:
            os.mkfifo(fifo)
        writers = [subprocess.Popen(["sh", "-c", 'exec >"$0"; echo "$0"', fifo]) for fifo in fifos]
        taken(f"pipes, {count}", fifos, *fifos)
        verdicts.check(f"their writers, {count}", [writer.wait() for writer in writers] == [0] * count, "")
    # Listings among them.
    for number in range(2):
        control("index", file("t", f"k{number}\n"), "--root", "s3://b/p/", "-o", f"l{number}")
    taken("listings of one root", ["k0", "k1"], "l0", "l1")
    verdicts.check("it is of that root", control("stat", LISTING).stdout.startswith(b"source      s3://b/p/\n"), "")
    taken("a listing and a text", ["k0", "y", "z"], "l0", file("t", "y\ns3://b/p/z\n"))
    refused("the same twice", "comes twice (l0, line 1; l0, line 1)", "l0", "l0")
    control("index", file("t", "k\n"), "--root", "s3://b/q/", "-o", "l2")
    refused("listings of two roots", ["l2", "s3://b/q/", "s3://b/p/"], "l0", "l2")
    refused("a listing of another root", ["l0", "s3://b/p/"], "l0", a, "--root", "s3://c/")
    control("index", folder("walked", {"x": ""}), "-o", "l3")
    refused("a listing of a walk", "that was walked", "l3", file("t", "y\n"))
    with open("l0", "r+b") as stream:
        stream.seek(640)
        stream.write(b"\xff")
    refused("a damaged listing", "l0", "l0", "l1")


def folder(name, files, *folders):
    """A folder with such files and folders."""
    for one in "", *folders:
        os.makedirs(os.path.join(name, one), exist_ok=True)
    for one, content in files.items():
        file(os.path.join(name, one), content)
    return name


# ---- S3 Inventory

ODD = ["a b", "a+b", "p%20q", "\u56fe/\u00e9", 'q"uo"te', "comma,s", "new\nline", "tab\t", "x'y", "#?&=;", "~-_.!*()", "\udcff"]


def inventories():
    """After AWS's description: three parts, keys URL-encoded, all fields quoted."""
    keys = [f"train/{k % 7}/img_{k:05}" for k in range(5000)] + [f"train/{name}" for name in ODD if name != "\udcff"]
    rows = [{"Key": key} for key in keys] + [{"Key": key} for key in ("valid/x", "trainer", "train/", "train/0/", "a,b")]
    names = [key.removeprefix("train/") for key in keys]
    path, manifest = lists.inventory(f"{WORK}/inv", "bucket", rows)
    form = ["--from", "s3-inventory"]
    told = taken("an inventory", names, *form, path, "--root", "s3://bucket/train/")
    verdicts.check("what is left out is counted", (told.get("markers"), told.get("outside"), told.get("versions")) == (2, 3, 0), told)
    verdicts.check("its time is the listing's", b"\nlisted      2025-11-28T01:00:00Z\n" in control("stat", LISTING).stdout, control("stat", LISTING).stdout)
    verdicts.check("its URIs", set(control("ls", "--uri", "-0", LISTING).stdout.decode().split("\0")[:-1]) ==
                   {f"s3://bucket/train/{name}" for name in names}, "")
    done, made = index(*form, path)
    verdicts.check("all of the bucket", set(made or []) == {row["Key"] for row in rows if not row["Key"].endswith("/")}, done.stderr)
    beside = os.path.join(WORK, "beside")
    shutil.copytree(os.path.dirname(path), beside)
    shutil.copytree(os.path.join(os.path.dirname(os.path.dirname(path)), "data"), beside, dirs_exist_ok=True)
    taken("parts beside the manifest", names, *form, f"{beside}/manifest.json", "--root", "s3://bucket/train")
    os.unlink(f"{beside}/manifest.checksum")
    taken("no manifest.checksum", names, *form, f"{beside}/manifest.json", "--root", "s3://bucket/train/")
    # Versions.
    versions = ("Bucket", "Key", "VersionId", "IsLatest", "IsDeleteMarker", "Size")
    rows = [{"Key": f"k{k}", "VersionId": str(v), "IsLatest": "true" if v == 2 else "false", "IsDeleteMarker": "true" if k == 3 and v == 2 else "false"}
            for k in range(9) for v in range(3)]
    path, _ = lists.inventory(f"{WORK}/versions", "bucket", rows, schema=versions)
    told = taken("all versions: the latest, and no delete markers", [f"k{k}" for k in range(9) if k != 3], *form, path)
    verdicts.check("the others are counted", told.get("versions") == 19, told)
    path, _ = lists.inventory(f"{WORK}/unknown", "bucket", rows, schema=("Bucket", "Key", "VersionId"))
    refused("versions, and not which is the latest", "IsLatest", *form, path)
    path, _ = lists.inventory(f"{WORK}/none", "bucket", [], parts=0)
    taken("an empty one", [], *form, path)

    def changed(name, words, change=None, checksum=True, root="s3://bucket/", **more):
        """Something of an inventory is another."""
        at, told = lists.inventory(f"{WORK}/inventory {name}", "bucket", [{"Key": f"k{k}"} for k in range(99)], **more)
        if change:
            told = change(told, os.path.join(os.path.dirname(os.path.dirname(at)), "data")) or told
            lists.write_manifest(at, told, checksum)
        refused(f"inventory, {name}", words, *form, at, "--root", root)

    def bend(kind):
        """A change of the first part's file."""
        def change(told, data):
            at = os.path.join(data, os.path.basename(told["files"][0]["key"]))
            with open(at, "rb") as stream:
                content = stream.read()
            file(at, content[:-20] if kind == "cut" else content[:9] + bytes([content[9] ^ 1]) + content[10:])
            if kind == "missing":
                os.unlink(at)
        return change

    def repack(content):
        """The first part has another content, and the manifest its checksum."""
        def change(told, data):
            import hashlib
            packed = gzip.compress(content)
            one = told["files"][0]
            file(os.path.join(data, os.path.basename(one["key"])), packed)
            one.update(size=len(packed), MD5checksum=hashlib.md5(packed).hexdigest())
        return change

    def with_first(**more):
        """Other facts of the first part."""
        return lambda told, _: told["files"][0].update(more)

    changed("cut", "MD5", bend("cut"))
    changed("bent", "MD5", bend("bent"))
    changed("missing", ["cannot find the part", "data/"], bend("missing"))
    changed("wrong size", "MD5", with_first(size=17))
    changed("wrong sum", "MD5", with_first(MD5checksum="0" * 32))
    changed("no sum", "MD5checksum", lambda told, _: told["files"][0].pop("MD5checksum") and None)
    changed("manifest.checksum", "manifest.checksum", lambda told, _: None, checksum=False)
    changed("another bucket", "inventory of s3://bucket/", root="s3://other/")
    changed("a bucket whose name begins so", "inventory of s3://bucket/", root="s3://bucket2/")
    changed("a directory", "inventory of s3://bucket/", root=WORK)
    changed("nothing below the root", "none of the names (99)", root="s3://bucket/nothing/")
    changed("ORC", "ORC or Parquet", lambda told, _: told.update(fileFormat="ORC"))
    changed("no schema", "fileSchema", lambda told, _: told.pop("fileSchema") and None)
    changed("a schema without keys", "Key", lambda told, _: told.update(fileSchema="Bucket, Size"))
    changed("other fields", ["csv.gz, line 1", "fileSchema"], lambda told, _: told.update(fileSchema="Bucket, Key"))
    changed("records of another bucket", "sourceBucket", lambda told, _: told.update(sourceBucket="bucket2"), root="s3://bucket2/")
    changed("a part twice", "comes twice", lambda told, _: told["files"].append(told["files"][0]))
    changed("a key that is not encoded", ["line 1", "URL-encoded"], repack(b'"bucket","a%b","1"\n'))
    changed("a key of nothing", ["line 1", "URL-encoded"], repack(b'"bucket","","1"\n'))
    changed("a NUL", ["line 1"], repack(b'"bucket","a%00b","1"\n'))
    changed("a key that is too long", ["line 1", "longer"], repack(b'"bucket","' + b"a/" * 40000 + b'y","1"\n'))
    changed("an open quote", ["line 2", "fileSchema"], repack(b'"bucket","k","1"\n"bucket","a\nb","1"\n'))
    changed("no part's packing", ["line 1"], repack(b'{"key":"a"}\n'))
    refused("a manifest that is cut", "not one object", *form, file("cut.json", json.dumps(manifest)[:-5]))
    refused("a manifest with more behind", "not one object", *form, file("cut.json", json.dumps(manifest) + "x"))
    done, _ = index(*form, "s3://bucket/manifest.json", env={**os.environ, "AWS_PROFILE": "none"})
    verdicts.check("no credentials: one line", done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"AWS_PROFILE" in done.stderr, done.stderr)
    refused("no manifest", "cannot open", *form, "none.json")
    refused("two manifests", "one manifest.json", *form, "a", "b", status=2)


# ---- dwalk

def dwalk():
    """After mpiFileUtils' light form: the same listing as shardctl's own walk, for a program on the shard view too."""
    root = f"{WORK}/walk"
    names = tree(root, folders=90)
    control("index", root, "-o", "own")
    verdicts.check("the walk's own names", names_of("own") == sorted(names, key=os.fsencode), set(names_of("own")) ^ set(names))
    lines = lists.lite(root, more=[f"{WORK}/walker|D", f"{WORK}/other/x|F", f"{WORK}/walk2|F"])
    random.Random(3).shuffle(lines)
    form = ["--from", "dwalk"]
    told = taken("dwalk", names, *form, file("w", "".join(line + "\n" for line in lines)), "--root", root)
    verdicts.check("what lies outside is counted", told.get("outside") == 3, told)
    seen = []
    for listing in "own", LISTING:
        both = set()
        for rank in 0, 1:
            got = subprocess.run(["find", root, "-mindepth", "1", "-printf", "%y %P\\0"], capture_output=True, check=False, env={
                **os.environ, "SHARD_DATASET": root, "SHARD_RANK": str(rank), "SHARD_SIZE": "2", "SHARD_LISTING": os.path.join(WORK, listing),
                "LD_PRELOAD": paths.LIBRARY, "SHARD_CACHE_DIR": f"{WORK}/cache"}, timeout=HANGS)
            both |= {(rank if b"d " != one[:2] else 2, one) for one in got.stdout.split(b"\0") if one}
        seen.append(both)
    verdicts.check("the shard view is that of a walk: empty directories and links too", seen[0] == seen[1] and len(seen[0]) > len(names), seen[0] ^ seen[1])
    shutil.copy(LISTING, "typed")
    refused("a part that is a listing of dwalk's list", "that was walked", "typed", file("t", ""))
    split = [file(f"w{k}.gz", gzip.compress("".join(line + "\n" for line in lines[k::5]).encode())) for k in range(5)]
    taken("in parts", names, *form, *split, "--root", root)
    taken("U: what was not looked at", names, *form, file("w", "".join(line[:-1] + "U\n" for line in lines if not line.startswith((f"{WORK}/o", f"{WORK}/walk")) or line.startswith(f"{root}"))), "--root", root)
    for gone, why in (*(([f"d{k}/deep/"], f"a directory that looks empty, {k}") for k in ("03", "17", "38", "61", "74")), (["empty/er|"], "an empty one"), (["top|"], "a file of the root"),
                      (["d07/"], "one that has sub-directories"), (["d01/to_folder|"], "a link to a directory")):
        rest = [line for line in lines if not any(line.startswith(f"{root}/{one}") for one in gone)]
        refused(f"dwalk has left out {why}", ["is missing in the list", "ERROR"], *form, file("w", "".join(line + "\n" for line in rest)), "--root", root)
        done, made = index(*form, "w", "--root", root, "--no-check")
        verdicts.check(f"and --no-check has links that nobody can tell, {why}", done.returncode == 1 and made is None and b"link" in done.stderr, done.stderr)
    plain = [line for line in lines if not line.endswith("|L")]
    taken("--no-check", [name for name in names if not name.startswith("d01/to_")], *form, file("w", "".join(line + "\n" for line in plain)), "--root", root, "--no-check")
    refused("without attributes", "compares directories", *form, "w", "--root", root, "--no-attributes", status=2)
    for name, text in (("a name with a newline", f"{root}/a\nb|F\n"), ("no type", f"{root}/top\n"), ("a type that there is not", f"{root}/top|X\n"),
                       ("a relative path", "top|F\n"), ("--text", "-rw-r--r-- u g 1.00 KB Jan  1 2026 12:00 /x/a\n")):
        refused(f"dwalk, {name}", ["w, line 1", "dwalk --lite"], *form, file("w", text), "--root", root, "--no-check")
    refused("dwalk's binary form", ["dwalk's binary form", "dwalk --lite"], *form, file("w", BYTES["dwalk's binary"][0]), "--root", root)
    refused("nothing below the root", "none of the names", *form, file("w", "/x/a|F\n"), "--root", root, "--no-check")


# ---- URLs

def urls():
    """A text's root may be any URL: a rank's URIs."""
    names = [f"d{k % 3}/{k:03}" for k in range(100)]
    for root in "az://container/train/", "gs://bucket/train/", "abfss://c@account.dfs.core.windows.net/train", "s3://b/", "hdfs://n:9000/x":
        full = root.rstrip("/") + "/"
        taken(f"names below {root}", names, file("t", "".join((full if k % 2 else "") + name + "\n" for k, name in enumerate(names))), "--root", root)
        shares = [control("ls", "--uri", LISTING, "--rank", str(rank), "--size", "3").stdout.decode().split() for rank in range(3)]
        verdicts.check(f"URIs of ranks below {root}", sorted(sum(shares, [])) == sorted(full + name for name in names) and min(map(len, shares)) == 33, shares)
        refused(f"names below {root}, another", "line 1", file("t", full[:-1] + "er/x\n"), "--root", root)
    taken("keys that begin with a slash", ["/x", "y"], file("t", "s3://b/p//x\ny\n"), "--root", "s3://b/p/")
    taken("a root that ends in two", ["x", "y"], file("t", "s3://b/p//x\ny\n"), "--root", "s3://b/p//")
    uris = control("ls", "--uri", LISTING).stdout.split()
    verdicts.check("its URIs", uris == [b"s3://b/p//x", b"s3://b/p//y"], uris)
    done = subprocess.run(["ls", WORK], capture_output=True, check=False, timeout=HANGS, env={
        **os.environ, "SHARD_DATASET": "az://container/train/", "SHARD_RANK": "0", "SHARD_SIZE": "2", "LD_PRELOAD": paths.LIBRARY})
    verdicts.check("the shard view of such a root is refused", b"SHARD_DATASET='az://container/train/' has a URL that is neither" in done.stderr, done)
    done = control("run", "--dataset", "az://container/train/", "--rank", "0", "--size", "2", "--", "true")
    verdicts.check("shardctl doctor refuses it", control("doctor", env={**os.environ, "SHARD_DATASET": "az://c/p"}).returncode in (1, 2), done)


# ---- each form as each other

def crossed():
    """Every form by every wrong --from, and by none: an error."""
    root = f"{WORK}/crossed"
    os.makedirs(root)
    file(f"{root}/x", "")
    path, manifest = lists.inventory(f"{WORK}/crossed.inv", "bucket", [{"Key": "k"}], parts=1)
    part = os.path.join(os.path.dirname(os.path.dirname(path)), "data", os.path.basename(manifest["files"][0]["key"]))
    control("index", file("t", "x\n"), "--root", root, "-o", "x.listing")
    forms = {"text": file("x.txt", "x\n"), "NUL": file("x0", "x\0"), "gzip": file("x.gz", gzip.compress(b"x\n")), "dwalk": file("x.dwalk", f"{root}/x|F\n"),
             "s3-inventory": path, "its part": part, "listing": "x.listing"}
    own = {("text", "text"), ("gzip", "text"), ("dwalk", "dwalk"), ("NUL -0", "text")}
    for name, source in forms.items():
        for said in "text", "dwalk", "s3-inventory":
            for zero in [], ["-0"]:
                if (name, said) in own and not zero or (name, said, zero) == ("NUL", "text", ["-0"]):
                    taken(f"{name} by --from {said} {zero}", ["x"], source, "--from", said, *zero, "--root", root)
                    continue
                if said == "text" and zero and name in ("text", "gzip", "dwalk", "its part"):
                    words = []  # one name with a newline: it is not there
                done, made = index(source, "--from", said, *zero, "--root", "s3://bucket/" if said == "s3-inventory" and name != "s3-inventory" else root)
                verdicts.check(f"{name} by --from {said} {zero}", done.returncode in (1, 2) and made is None and done.stderr, (done, made))
    for name, source in forms.items():
        done, made = index(source, "--root", root)
        verdicts.check(f"{name} without --from", (made == ["x"]) == (name in ("text", "gzip")) and (made is not None or done.returncode == 1), (done, made))
    refused("a form that there is not", "--from takes", "x.txt", "--from", "csv", status=2)
    for words in ["-0"], ["--keep-order"], ["--order", "directory"]:
        for said in "dwalk", "s3-inventory":
            refused(f"--from {said} {words}", "goes with none of", forms[said], "--from", said, *words, status=2)


PARTS = {part.__name__: part for part in (garbage, looked_up, parts, inventories, dwalk, urls, crossed)}
for chosen in sys.argv[1:] or PARTS:
    PARTS[chosen]()
verdicts.conclude(WORK)
sys.exit(verdicts.failed > 0 or verdicts.passed == 0)
