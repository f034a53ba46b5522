"""A mounted bucket under hash, whose listing is read while it is made; and what gc makes of it."""
import contextlib
import errno
import fcntl
import mmap
import os
import shutil
import signal
import sys
import threading
import time
import uuid

from tests.harness.processes import until
from tests.harness.proxy import Proxy
from tests.s3.fixture import WALK


def leader_of(folder, *words):
    """The process that has these arguments, a path below the folder among them, and a session of its
    own; None if there is none."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as stream:
            arguments = stream.read().split(b"\0")
            # others may run this test, too
            ours = any(a.startswith(os.fsencode(folder) + b"/") for a in arguments)
            if ours and set(words) <= set(arguments) and os.getsid(int(pid)) == int(pid):
                return int(pid)
    return None


@contextlib.contextmanager
def mapped(path):
    """A file is in use: mapped, as by who reads it."""
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ):
        yield


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


WALK_ROOT = (sys.executable, "-c", WALK, "ROOT")
COUNT_ROOT = (sys.executable, "-c", "import os, sys; print(len(os.listdir(sys.argv[1])))", "ROOT")


class Streams:
    """A bucket, directories that stand for its prefixes, and what is to come of them."""

    def __init__(self, s3):
        self.s3 = s3
        self.small = [f"train/{d}/img_{i:04d}.jpeg" for d in ("a", "b c", "d/deep") for i in range(700)]
        self.small += ["train/top", "train/+%41"]
        self.flat = [f"flat/{uuid.UUID(int=i * 0x9e3779b97f4a7c15f39cc0605cedc835 % (1 << 128))}"
                     for i in range(30000)]
        s3.fill("streamed", sorted(self.small + self.flat + ["train", "trainer/x", "train/marker/",
                                                             "train/e//x"]))
        self.mount = os.path.join(s3.folder, "streams")
        for name in self.small + ["train/not in the bucket", "train/own/file", "flat/x", "none/x", "long/x"]:
            os.makedirs(os.path.join(self.mount, os.path.dirname(name)), exist_ok=True)
            with open(os.path.join(self.mount, name), "wb") as stream:
                stream.write(name.encode())
        self.cache = os.path.join(s3.folder, "cache")
        self.wanted = sorted(f"{n[6:]} {len(n)}" for n in self.small)

    def ranks(self, size, folder, endpoint, *command, **more):
        """What ranks find that run a command; ROOT in it is the directory."""
        root = os.path.join(self.mount, folder)
        return self.s3.ranks(size, f"{root}=s3://streamed/{folder}",
                             [x.replace("ROOT", root) for x in command], endpoint,
                             **{"SHARD_STRATEGY": "hash", **more})


def complete(s3, streams):
    """Every name once, by all that lists."""
    small, wanted, ranks = streams.small, streams.wanted, streams.ranks
    with Proxy(s3.endpoint) as proxy:
        for size, seed in ((4, None), (3, "5")):
            before = proxy.requests
            got = ranks(size, "train", proxy.endpoint, *WALK_ROOT, SHARD_JOB=f"of {size}", SHARD_SEED=seed)
            s3.check(f"streamed: every key once over {size} ranks",
                     sorted(line for _, lines, _ in got for line in lines) == wanted, got[0][2])
            s3.check("streamed: every rank has some", all(len(lines) > 300 for _, lines, _ in got),
                     [len(x[1]) for x in got])
            s3.check("streamed: one listing's requests for all ranks", proxy.requests - before <= 12,
                     proxy.requests - before)
        plain = ranks(2, "train", proxy.endpoint, "ls", "-A", "ROOT", SHARD_JOB="of 3")
        s3.check("streamed: folders for all ranks",
                 all({"a", "b c", "d", "own", "e"} - set(r[1]) == {"own"} for r in plain) and
                 sorted(x for r in plain for x in r[1] if x in ("top", "+%41")) == ["+%41", "top"],
                 plain)
        for folder in ("a", "own", "d"):
            got = ranks(1, "train", proxy.endpoint, "ls", "-A", f"ROOT/{folder}", SHARD_JOB="of 3")
            s3.check(f"streamed: folder {folder}",
                     got[0][1] == {"a": [n[8:] for n in small if n.startswith("train/a/")], "own": [],
                                   "d": ["deep"]}[folder], got)
        for mode in ("list", "threads", "handed", "rewinding"):
            got = ranks(2, "train", proxy.endpoint, s3.program("calls"), mode, "ROOT/b c",
                        SHARD_JOB="of 3", SHARD_LOG="warn")
            names = [n for r in got for n in "\n".join(r[1]).split("\0") if n]
            s3.check(f"streamed: all calls, {mode}", all(r[0] == 0 and not r[2] for r in got) and
                     (mode != "list" or sorted(names) == [f"img_{i:04d}.jpeg" for i in range(700)]), got)
        got = ranks(2, "train", proxy.endpoint, *WALK_ROOT, SHARD_JOB="includes", SHARD_INCLUDE="*1.jpeg")
        included = [line for line in wanted if line.rpartition(" ")[0].endswith("1.jpeg")]
        s3.check("streamed: SHARD_INCLUDE", sorted(x for r in got for x in r[1]) == included, got[0][2])
        got = ranks(2, "none", proxy.endpoint, "ls", "-A", "ROOT", SHARD_JOB="none")
        s3.check("streamed: no key at all, and a word on it",
                 [r[:2] for r in got] == [(0, []), (0, [])] and
                 all(r[2].count("there is no key") == 1 for r in got), got)
        got = ranks(2, "none", proxy.endpoint, "ls", "-A", "ROOT", SHARD_JOB="none",
                    SHARD_STRATEGY="range")
        s3.check("mounted: no key at all, and a word on it",
                 [r[:2] for r in got] == [(0, []), (0, [])] and
                 all(r[2].count("there is no key") == 1 for r in got), got)


def long_names(s3, streams):
    """Names that are longer than a directory entry may be."""
    ranks = streams.ranks
    with Proxy(s3.endpoint) as proxy:
        long = [f"{c}" * n for c, n in zip("abcdefgh", (1, 200, 255, 256, 300, 500, 900, 1000))]
        s3.put("streamed", *("long/" + name for name in long))
        listdir = (sys.executable, "-c", "import os, sys; print(*os.listdir(sys.argv[1]), sep='\\n')",
                   "ROOT")
        got = ranks(2, "long", proxy.endpoint, *listdir, SHARD_JOB="long", SHARD_SEED="3",
                    SHARD_LOG="warn")
        s3.check("streamed: long names, shuffled", sorted(x for r in got for x in r[1]) == long, got)
        got = ranks(1, "long", proxy.endpoint, sys.executable, "-c", READDIR_R, "ROOT", SHARD_JOB="long",
                    SHARD_SEED="3")
        s3.check("streamed: readdir_r tells of long names",
                 got[0][1] == [f"{2 + 4} {errno.ENAMETOOLONG}"], got)
        got = ranks(2, "long", proxy.endpoint, *listdir, SHARD_JOB="long",
                    SHARD_LISTING="/nowhere/x.listing", SHARD_LOG="warn")
        s3.check("streamed: SHARD_LISTING is not for hash",
                 sorted(x for r in got for x in r[1]) == long and
                 all(r[2].count("\n") == 1 and "/nowhere/x.listing' is not used" in r[2] for r in got),
                 got)
        bad = ranks(2, "train", proxy.endpoint, "ls", "ROOT", AWS_SECRET_ACCESS_KEY="wrongSecret/9",
                    SHARD_JOB="bad", SHARD_LOG="warn")
        s3.check("streamed: a wrong secret", all(r[0] != 0 and not r[1] and "AWS_SECRET" in r[2]
                                                 for r in bad), bad)


def at_once(s3, streams):
    """The first names come while the rest does not."""
    flat, cache, ranks = streams.flat, streams.cache, streams.ranks
    with Proxy(s3.endpoint) as proxy:
        def hold(request, proxy=proxy):
            proxy.delay = 1
        proxy.fault = hold
        got = ranks(2, "flat", proxy.endpoint, sys.executable, "-c", FIRST, "ROOT", cache + "-slow",
                    SHARD_CACHE_DIR=cache + "-slow")
        names = [x for r in got for x in r[1] if x != "going on"]
        s3.check("streamed: the first names before the second page",
                 all(r[1].count("going on") == 1 for r in got), [r[2] for r in got])
        s3.check("streamed: and all in the end", sorted(names) == sorted(n[5:] for n in flat),
                 len(names))


def looked_at(s3, streams):
    """Whoever looks at it locks its file for a moment."""
    alone = os.path.join(s3.folder, "alone")
    with open(alone + ".err", "wb") as stream:
        stream.write(b"before")
        stream.flush()
        fcntl.flock(stream, fcntl.LOCK_SH)

        held = []

        def let_go():
            time.sleep(0.5)  # shardctl waits for the lock, and leaves alone what is there
            held.append(os.path.getsize(alone + ".err"))
            fcntl.flock(stream, fcntl.LOCK_UN)

        looks = threading.Thread(target=let_go)
        looks.start()
        done = s3.run("stream", "s3://streamed/train/", "-o", alone)
        looks.join()
        s3.check("streamed: while it is looked at", done.returncode == 0 and held == [6],
                 [held, done.stderr])
        until(lambda: os.path.exists(alone + ".end"), "the end of one")


def broken_off(s3, streams):
    """It breaks off: an error, never a short listing."""
    flat, cache, ranks = streams.flat, streams.cache, streams.ranks
    with Proxy(s3.endpoint, fault=lambda q: "500" if q.number > 4 else None) as proxy:
        got = ranks(2, "flat", proxy.endpoint, *COUNT_ROOT, SHARD_JOB="broken", SHARD_LOG="warn",
                    SHARD_TIMEOUT="2",
                    SHARD_CACHE_DIR=cache + "-fails")
        s3.check("streamed: and nothing is left of it",
                 not [f for f in os.listdir(cache + "-fails") if ".part-" in f and
                      not f.endswith(".err")],
                 os.listdir(cache + "-fails"))
        s3.check("streamed: the server fails",
                 all(r[0] != 0 and not r[1] and "s3://streamed/flat" in r[2] and "500" in r[2]
                     for r in got), got)
    with Proxy(s3.endpoint) as proxy:
        def slow(request, proxy=proxy):
            proxy.delay = 30
        proxy.fault = slow
        begun = os.path.join(s3.folder, "begun")
        lists = threading.Thread(target=lambda: got.extend(ranks(2, "flat", proxy.endpoint,
                                                                 sys.executable, "-c", BEGIN, "ROOT",
                                                                 begun,
                                                                 SHARD_JOB="killed", SHARD_LOG="warn")))
        got = []
        lists.start()
        until(lambda: all(os.path.exists(begun + r) for r in "01"), "both")
        os.kill(leader_of(cache, b"stream", b"s3://streamed/flat/"), signal.SIGKILL)
        lists.join()
        s3.check("streamed: its shardctl is killed", len(got) == 2 and
                 all(r[0] != 0 and not r[1] and "ended before its end" in r[2] for r in got), got)
        proxy.fault, proxy.delay = None, 0
        got = ranks(2, "flat", proxy.endpoint, *COUNT_ROOT, SHARD_JOB="killed")
        s3.check("streamed: it begins anew", sum(int(r[1][0]) for r in got) == len(flat), got)


def collected(s3, streams):
    """What gc takes, and what it leaves."""
    cache = streams.cache
    def bases():
        return {f[:f.index(".part-") + 22] for f in os.listdir(cache) if ".part-" in f}

    links = {os.readlink(os.path.join(cache, f)): f for f in os.listdir(cache) if ".stream-" in f}
    kept = {b for b in bases() if os.path.exists(os.path.join(cache, b + ".end"))}  # one has failed
    lost = min(kept)
    kept.remove(lost)
    os.unlink(os.path.join(cache, links.pop(lost)))
    s3.run("cache", "gc", SHARD_CACHE_DIR=cache)
    s3.check("gc leaves the streams of jobs, and no others", len(kept) >= 4 and kept <= set(links) and
             bases() == kept, f"{kept} {bases()} {links}")
    most = shutil.copytree(cache, cache + "-most", symlinks=True)
    held = min(b for b in kept if os.path.exists(os.path.join(cache, b + ".1.listing")))
    s3.run("cache", "gc", "--max-size", "0", "--dry-run", SHARD_CACHE_DIR=most)
    s3.check("gc --dry-run", sorted(os.listdir(most)) == sorted(os.listdir(cache)), os.listdir(most))
    with mapped(os.path.join(most, held + ".0.listing")):
        full = s3.run("cache", "gc", "--max-size", "0", SHARD_CACHE_DIR=most)
        left = {f for f in os.listdir(most) if ".part-" in f or ".stream-" in f}
        s3.check("gc --max-size leaves the one in use", full.returncode == 1 and links[held] in left and
                 held + ".end" in left and
                 all(f.startswith(held) or f == links[held] for f in left), left)
    done = s3.run("cache", "gc", "--max-size", "0", SHARD_CACHE_DIR=most)
    s3.check("gc --max-size takes streams", done.returncode == 0 and
             not [f for f in os.listdir(most) if ".part-" in f or ".stream-" in f], os.listdir(most))
    for f in os.listdir(cache):
        os.utime(os.path.join(cache, f), (0, 0), follow_symlinks=False)
    with mapped(os.path.join(cache, held + ".0.listing")):
        s3.run("cache", "gc", SHARD_CACHE_DIR=cache)
        s3.check("gc leaves all parts to who reads one", bases() == {held} and
                 os.path.exists(os.path.join(cache, held + ".end")), os.listdir(cache))
    s3.run("cache", "gc", SHARD_CACHE_DIR=cache)
    s3.check("gc takes them in the end", not [f for f in os.listdir(cache) if ".part-" in f or
                                              ".stream-" in f], os.listdir(cache))


def streamed(s3):
    """A mounted bucket under hash: names are seen as they come, and all of them in the end."""
    streams = Streams(s3)
    for part in (complete, long_names, at_once, looked_at, broken_off, collected):
        part(s3, streams)
