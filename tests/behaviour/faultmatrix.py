#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Faults of the machine, one after the other, while two ranks list a dataset, in each way there is.

    python3 -m tests.behaviour.faultmatrix [--all] [--list] [--filter REGEX]
    .venv/bin/python -m tests.behaviour.faultmatrix --s3 ...          the columns with an S3 server

A row is a fault, a column a way of listing; --list tells which there are, and where else a fault is
tested. One judge looks at every job: a rank has what it has without the fault, or an error and no
names; those that have names have them of one listing; nobody hangs; and the next job in the same
cache is right, and finds nothing half-written. `make test-rest` tries a part of the single calls, drawn by
SEED (a variable of the environment); --all tries all.
"""

import argparse
import collections
import contextlib
import errno
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tests.harness import confine, paths, processes, s3
from tests.harness.verdicts import Verdicts

PATIENCE = 100  # SHARD_TIMEOUT where nobody should wait in vain
SHORT = 2  # and where rank 1 waits for a listing that rank 0 may not put
LIMIT = 300  # seconds for a process
NOBODY = 65534
SEED = int(os.environ.get("SEED", "1"))
SHARES = os.path.join(paths.BUILD, "tests", "shares")
FORBID = os.path.join(paths.BUILD, "tests", "forbid")

WALK = """import os, sys
def stop(error): raise error
names = []
for path, folders, files in os.walk(sys.argv[1], onerror=stop):
    whole = lambda name: os.path.relpath(os.path.join(path, name), sys.argv[1])
    names += map(whole, files)
    names += [whole(name) + "@" for name in folders if os.path.islink(os.path.join(path, name))]
print("\\n".join(sorted(names)))
"""
# What the adapter does for DLIO: the listing, and a list that reads a name when it is asked for.
ADAPTER = """import sys
from _libshard import mapped_listing, sequences
files = sequences.FileList(mapped_listing.Listing.of_dataset(sys.argv[1], "hidden=1"), "")
print("\\n".join(sorted(files)))
"""


# An unmodified client of a bucket.
BOTO3 = """import os, sys
import boto3
names, s3 = [], boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
for page in s3.get_paginator("list_objects_v2").paginate(Bucket="matrix", Prefix="data/"):
    names += [entry["Key"][5:] for entry in page.get("Contents", [])]
print("\\n".join(sorted(names)))
"""
ACCESS, SECRET = "AKIDTESTTESTTEST0001", "testSecretKeyOfNoValue/+0123456789ABCDEFG"
BUCKETS = os.path.join(paths.REPO, ".venv-buckets", "bin", "python")


class Way:
    """A column: how a rank lists. whole: each rank gets all; job: what a job began with, it keeps; what: it is
    the program shares, which disturbs itself; dataset: what SHARD_DATASET is, if a bucket is part of it."""

    def __init__(self, name, command, whole=False, job=True, dataset=None, **env):
        self.name, self.command, self.whole, self.job, self.dataset, self.env = name, command, whole, job, dataset, env
        self.what = command[0] == SHARES
        self.program = not whole or command[0] != "dataset"  # which is linked to the library


WAYS = {way.name: way for way in (
    Way("range", [SHARES], SHARD_STRATEGY="range"),
    Way("stride", [SHARES], SHARD_STRATEGY="stride", SHARD_SEED="7"),
    Way("hash", [SHARES], job=False, SHARD_STRATEGY="hash"),
    Way("given", [SHARES], SHARD_LISTING="given.listing"),
    Way("python", [sys.executable, "-c", WALK]),
    Way("api", ["dataset"], whole=True, job=False),
    Way("adapter", [sys.executable, "-c", ADAPTER], whole=True, job=False),
    Way("mounted", [SHARES], dataset="{data}=s3://matrix/data"),
    Way("boto3", [BUCKETS, "-c", BOTO3], dataset="s3://matrix/data/"),
    Way("boto3_hash", [BUCKETS, "-c", BOTO3], job=False, dataset="s3://matrix/data/", SHARD_STRATEGY="hash"),
)}

LATER = ("a0", "a1", "d1/later", "d2/zz")  # each share changes with them
End = collections.namedtuple("End", "status lines said")


def tell(end):
    """An end, in a few words."""
    return f"status {end.status}, {len(end.lines)} lines, {end.said[-300:]!r}"


class Matrix:
    """The dataset, what is right of it, and jobs."""

    def __init__(self, work, args, endpoint):
        self.work, self.everything, self.call, self.endpoint = work, args.all, args.call, endpoint
        self.chance = random.Random(SEED)
        self.jobs, self.right, self.cache = 0, {}, ""
        self.in_vain = False  # whether a job may wait in vain
        self.data = os.path.join(work, "data")
        self.dataset = os.path.join(work, "dataset")
        self.bin = self.build("bin")
        self.make_tree()
        self.s3 = endpoint and s3.client(endpoint, ACCESS, SECRET)
        if endpoint:
            self.s3.create_bucket(Bucket="matrix")
            for folder, _, files in os.walk(self.data):
                for name in files:
                    self.put(os.path.relpath(os.path.join(folder, name), self.data))
        for moment in (0, 1):
            self.change(moment)
            for way in WAYS.values():
                if bool(way.dataset) == bool(endpoint):
                    self.right[way.name, moment] = self.find_right(way, moment)
        self.change(0)
        for (name, moment), shares in self.right.items():
            assert all(mine != theirs for mine, theirs in zip(shares, self.right[name, 1 - moment])), name

    def path(self, *parts):
        """Below the work folder."""
        return os.path.join(self.work, *parts)

    def build(self, name, script=None):
        """A folder with libshard.so and shardctl, or a shell script in its place; the library's path."""
        folder = self.path(name)
        os.makedirs(folder)
        for file in (paths.LIBRARY, paths.SHARDCTL):
            shutil.copy(file, folder)
        os.symlink("libshard.so", folder + "/libshard.so.1")
        if script:
            os.rename(folder + "/shardctl", folder + "/real")
            with open(folder + "/shardctl", "w", encoding="utf-8") as stream:
                stream.write(f"#!/bin/bash\nset -- '{folder}/real' \"$@\"\n{script}\n")
            os.chmod(folder + "/shardctl", 0o755)
        if not os.path.exists(self.dataset):
            subprocess.run(["gcc", "-O1", "-D_GNU_SOURCE", "-I", paths.REPO + "/include", "-o", self.dataset,
                            paths.source("programs", "dataset.c"), folder + "/libshard.so", "-Wl,-rpath," + folder],
                           check=True)
        return folder

    def make_tree(self):
        """Files, folders, and links to both."""
        for folder, count in (("", 40), ("d0", 12), ("d0/deep", 10), ("d1", 12), ("d2", 12)):
            os.makedirs(os.path.join(self.data, folder))
            for i in range(count):
                with open(os.path.join(self.data, folder, f"f{i:03}"), "wb"):
                    pass
        os.symlink("d1", self.data + "/to")
        os.symlink("f000", self.data + "/file")

    def make_big(self):
        """A folder whose listing is too large to be read at once."""
        big = self.path("big")
        if not os.path.isdir(big):
            os.makedirs(big)
            for i in range(15000):
                with open(os.path.join(big, f"{random.Random(i).getrandbits(128):032x}"), "wb"):
                    pass
        return big

    def put(self, name):
        """An object."""
        self.s3.put_object(Bucket="matrix", Key="data/" + name, Body=b"")

    def change(self, moment):
        """Add files, and objects, or remove them again."""
        for name in LATER:
            path = os.path.join(self.data, name)
            if bool(moment) == os.path.exists(path):
                continue
            if moment:
                with open(path, "wb"):
                    pass
            else:
                os.unlink(path)
            if moment and self.s3:
                self.put(name)
            elif self.s3:
                self.s3.delete_object(Bucket="matrix", Key="data/" + name)

    def given(self, data=None):
        """The listing that SHARD_LISTING names, true of the dataset as it is now."""
        subprocess.run([paths.SHARDCTL, "index", data or self.data, "-o", self.path("given.listing"), "--quiet",
                        "--options", "order=path hidden=1 attributes=1"], stdout=subprocess.DEVNULL, check=True)

    def find_right(self, way, moment):
        """What each rank has without a fault, compared with the unmodified list."""
        bare, ends = self.bare(), self.job(way)
        assert all(end.status == 0 and not end.said for end in ends), (way.name, list(map(tell, ends)))
        files = [name for name in bare.lines if not name.endswith("@")]
        links = [name for name in bare.lines if name.endswith("@")]
        found = [[name for name in end.lines if not name.endswith("@")] for end in ends]
        assert len(files) == 87 + moment * len(LATER) and links == ["to@"]
        links = links if not way.dataset else []
        if way.whole:
            assert found == [files] * 2, (way.name, found)
        else:
            assert sorted(sum(found, [])) == files and all(found), (way.name, found)
            assert all([name for name in end.lines if name.endswith("@")] == links for end in ends)
        return [end.lines for end in ends]

    def bare(self, wrap=()):
        """The unmodified list."""
        return self.finish(self.start(WAYS["range"], 0, wrap=wrap, env={"LD_PRELOAD": ""}))

    # ---- jobs ----------------------------------------------------------------------------------

    def begin(self, way):
        """A job of its own, with a cache of its own."""
        self.jobs += 1
        self.cache = self.path("caches", str(self.jobs))
        os.makedirs(self.cache, mode=0o700)
        if "given.listing" in way.env.values():
            self.given()

    def environment(self, way, rank, env=None):
        """A rank's."""
        short = self.in_vain and way.dataset
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LC_ALL")}
        made = {**kept, "SHARD_TIMEOUT": str(SHORT if short else PATIENCE),
                "SHARD_CACHE_DIR": self.cache, "PYTHONNOUSERSITE": "1",
                "SHARD_RANK": str(rank), "SHARD_SIZE": "2", "SHARD_JOB": f"job{self.jobs}", **way.env}
        if way.program:
            made["LD_PRELOAD"] = self.bin + "/libshard.so"
        if not way.whole:
            made["SHARD_DATASET"] = (way.dataset or "{data}").format(data=self.data)
        if way.dataset:
            made.update(AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1",
                        AWS_DEFAULT_REGION="us-east-1", AWS_ENDPOINT_URL=self.endpoint, AWS_EC2_METADATA_DISABLED="true",
                        AWS_MAX_ATTEMPTS="1")
        if "SHARD_LISTING" in made:
            made["SHARD_LISTING"] = self.path(made["SHARD_LISTING"])
        return {name: value for name, value in {**made, **(env or {})}.items() if value}

    def start(self, way, rank, what=(), wrap=(), env=None, data=None):
        """A rank. what: words for shares; wrap: words before its command."""
        command = [*way.command, data or self.data, *(what if way.what else ())] if way.program else [
            self.dataset, data or self.data, "hidden=1"]
        env = self.environment(way, rank, env)
        if wrap and wrap[0] == "strace" and "LD_PRELOAD" in env:  # not into strace itself
            wrap = [*wrap, "-E", "LD_PRELOAD=" + env.pop("LD_PRELOAD")]
        return subprocess.Popen([*wrap, *command], env=env, cwd=self.work, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    @staticmethod
    def finish(process):
        """Its end: lines sorted, as some ways have an order of their own."""
        try:
            out, said = process.communicate(timeout=LIMIT)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, said = process.communicate()
            status = "hangs"
        lines = re.split(r"[\n\0]", out.decode(errors="surrogateescape"))[:-1]
        # Ranks one after the other: that is said of a job's name.
        said = re.sub(r"libshard: .* no process of that job has it open: .*\n", "", said.decode(errors="replace"))
        return End(status, sorted(lines), said)

    def job(self, way, disturbed=(), between=None, fresh=True, **how):
        """Ranks one after the other: the ends. how: what start() takes, for the disturbed ranks."""
        if fresh:
            self.begin(way)
        ends = []
        for rank in range(2):
            if rank and between:
                between()
            ends.append(self.finish(self.start(way, rank, **(how if rank in disturbed else {}))))
        return ends

    # ---- the judge -----------------------------------------------------------------------------

    def judge(self, way, ends, moments=(0,), killed=(), quiet=False):
        """What is wrong about the ends of a job's ranks, {rank: End}: a list of texts."""
        wrong, possible = [], set(moments)
        for rank, end in ends.items():
            if end.status == 0:
                fits = {m for m in moments if end.lines == self.right[way.name, m][rank]}
                if not fits:
                    all_ = any(end.lines == sorted(set(sum(self.right[way.name, m], []))) for m in moments)
                    wrong.append(f"rank {rank} has other files{', all of them' if all_ else ''}: {tell(end)}")
                possible &= fits if way.job else possible
            elif end.status == 1:
                if not end.said.strip() and not quiet:
                    wrong.append(f"rank {rank} fails without a word")
                if end.lines:
                    wrong.append(f"rank {rank} fails, and prints names")
            elif end.status not in killed:
                wrong.append(f"rank {rank}: {tell(end)}")
        if not wrong and way.job and not possible:
            wrong.append("ranks have listings of two moments: " + "; ".join(map(tell, ends.values())))
        return wrong

    def look_after(self, way, moment=0):
        """The next job in this cache: it is right, and what a fault has left is gone."""
        self.jobs += 1
        in_vain, self.in_vain = self.in_vain, False
        ends = self.job(way, fresh=False)
        self.in_vain = in_vain
        wrong = [f"the next job: {line}" for line in self.judge(way, dict(enumerate(ends)), (moment,))]
        wrong += [f"the next job's rank {r}: {tell(end)}" for r, end in enumerate(ends) if end.status != 0]
        left = [f for f in os.listdir(self.cache) if ".new." in f or ".tmp." in f]
        return wrong + ([f"left: {left}"] if left else [])

    # ---- traces --------------------------------------------------------------------------------

    def trace(self, start, begins):
        """What a process calls: [(name, which one of that name, whether it comes after the beginning)]."""
        log = self.path("trace")
        end = self.finish(start(["strace", "-qq", "-o", log]))
        assert end.status == 0, tell(end)
        counts, calls, begun = collections.Counter(), [], False
        with open(log, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                match = re.match(r"(\w+)\(", line)
                if match:
                    counts[match[1]] += 1
                    calls.append((match[1], counts[match[1]], begun))
                    begun |= begins in line
        return [(name, k) for name, k, after in calls if after]

    def some(self, cases, most):
        """The cases to be tried, in their order: all, or so many."""
        cases = list(cases)
        chosen = range(len(cases)) if self.everything or len(cases) <= most else sorted(
            self.chance.sample(range(len(cases)), most))
        return [cases[i] for i in chosen]


# ---- rows ---------------------------------------------------------------------------------------

ROWS = []
# A rank may fail in these, and others of its job wait for what it does not do.
IN_VAIN = ("forbidden", "calls_in_turn", "allocations", "descriptors", "memory", "interrupted", "signals", "full")
# Where else such faults are tested.
ELSEWHERE = {
    "calls_in_turn": "behaviour/faults (failing_calls, host_calls), behaviour/closed, unit/test_unchecked",
    "allocations": "behaviour/closed",
    "descriptors": "behaviour/calls, trees, shardview, invisible; stats (ulimit -n)",
    "signals": "behaviour/faults (killed, elections)",
    "forks": "behaviour/races",
    "cut": "unit/test_damage, behaviour/badinput, behaviour/listings, dlio/situations (listing-truncated)",
    "full": "behaviour/faults (full_disk, limits), behaviour/badinput",
    "read_only": "behaviour/badinput",
    "no_proc": "behaviour/closed (no statx, nor /proc)",
    "times_put_back": "behaviour/identity",
    "started_anew": "behaviour/faults (elections, together)",
}


def row(*ways):
    """A function that makes a row: it yields (case, what is wrong)."""

    def add(function):
        ROWS.append((function.__name__, ways, function))
        return function

    return add


def numbers(names):
    """System calls' numbers here."""
    text = "#include <sys/syscall.h>\n" + "".join(f"@{name}@ SYS_{name}\n" for name in names)
    out = subprocess.run(["gcc", "-E", "-P", "-x", "c", "-"], input=text.encode(), capture_output=True, check=True)
    return {name: int(n) for name, n in re.findall(r"@(\w+)@ (\d+)$", out.stdout.decode(), re.M)}


@row("range", "hash", "given", "api", "mounted", "boto3")
def forbidden(m, way):
    """A container's seccomp forbids a system call that libshard or shardctl makes, from the start on."""
    m.begin(way)
    log = m.path("trace")
    m.finish(m.start(way, 0, wrap=["strace", "-f", "-qq", "-o", log]))
    with open(log, encoding="utf-8", errors="replace") as stream:
        names = set(re.findall(r"^\d+ +(\w+)\(", stream.read(), re.M))
    names -= NEVER
    if way.program and not way.what:  # Python itself needs most of them
        m.finish(m.start(way, 0, wrap=["strace", "-f", "-qq", "-o", log], env={"LD_PRELOAD": ""}))
        with open(log, encoding="utf-8", errors="replace") as stream:
            names -= set(re.findall(r"^\d+ +(\w+)\(", stream.read(), re.M))
    cases = [(name, number, code) for name, number in sorted(numbers(names).items())
             for code in (errno.EPERM, errno.ENOSYS)]
    for name, number, code in m.some(cases, 8 if way.name == "boto3" else len(cases)):  # Pythons take long
        wrap = [FORBID, str(code), str(number)]
        bare = m.bare(wrap)
        if bare.status == 77:
            yield "skip", "seccomp is not allowed"
            return
        ends = dict(enumerate(m.job(way, (0, 1), wrap=wrap)))
        died = [end.status for end in ends.values()] if bare.status != 0 else []
        wrong = m.judge(way, ends, killed=died, quiet=bare.status != 0)
        if not wrong and any(end.status != 0 for end in ends.values()):
            wrong = m.look_after(way)
        yield f"{name}, {errno.errorcode[code]}", wrong


# What each call may well fail with; others: MORE.
FAILS = {
    "openat": "EMFILE ENFILE EIO ESTALE EACCES EINTR", "open": "EMFILE EIO ESTALE EINTR",
    "statx": "EIO ESTALE EACCES ENOMEM EINTR", "newfstatat": "EIO ESTALE EACCES ENOMEM",
    "fstat": "EIO ESTALE", "fstatfs": "EIO ESTALE", "statfs": "EIO ESTALE",
    "getdents64": "EIO ESTALE EINTR ENOMEM", "lseek": "EIO EINVAL",
    "read": "EIO EINTR ESTALE", "pread64": "EIO EINTR ESTALE", "write": "EIO ENOSPC EINTR", "pwrite64": "EIO ENOSPC",
    "mmap": "ENOMEM EAGAIN", "mprotect": "ENOMEM",
    "flock": "EINTR ENOLCK EIO", "fcntl": "EMFILE EINTR", "readlink": "EIO ESTALE EACCES ENOMEM", "access": "EIO EACCES",
    "symlink": "ENOSPC EIO EROFS", "rename": "ENOSPC EIO EROFS", "unlink": "EIO EROFS EBUSY", "mkdir": "ENOSPC EROFS",
    "pipe2": "EMFILE ENFILE", "clone3": "EAGAIN ENOMEM", "clone": "EAGAIN ENOMEM", "vfork": "EAGAIN ENOMEM",
    "poll": "EINTR ENOMEM", "waitid": "EINTR", "wait4": "EINTR", "clock_nanosleep": "EINTR",
    "pidfd_open": "EMFILE ENOSYS", "close": "EIO EINTR", "madvise": "EINVAL ENOMEM",
    "fallocate": "ENOSPC EIO EOPNOTSUPP EINTR", "ftruncate": "EIO ENOSPC", "fsync": "EIO ENOSPC", "fchmod": "EPERM EIO",
}
MORE = "EIO EPERM"
# A process cannot be without these; glibc tries exit(2) of a thread again and again.
NEVER = {"exit_group", "exit", "execve", "rt_sigreturn"}


# They tell of no error, or in another way.
NO_ERROR = {"brk", "munmap", "futex", "getpid", "geteuid", "getuid", "sched_yield", "gettid"}


def faults_of(m, calls):
    """Each call fails once, and from there on, with what it may fail with."""
    for name, k in calls:
        if not re.search(m.call, name):
            continue
        for error in FAILS.get(name, MORE).split() if name not in NEVER | NO_ERROR else ():
            for further in ("", "+") if error != "EINTR" else ("",):
                yield name, k, error, further


def inject(name, k, error, further):
    """strace that lets a call fail."""
    return ["strace", "-qq", "-o", "/dev/null", "-e", f"trace={name}", "-e", f"inject={name}:error={error}:when={k}{further}"]


@row("range", "hash", "given", "api")
def calls_in_turn(m, way):
    """Each system call of a rank fails: of the first, who lists, and of the second, once the dataset has changed."""
    change = way.job and way.name != "given"  # SHARD_LISTING that is out of date is an error anyway
    for rank in (0, 1):
        def start(wrap, rank=rank):
            m.change(0)
            m.begin(way)
            if rank:
                m.finish(m.start(way, 0))
                m.change(change)
            return m.start(way, rank, ["mark"], wrap)

        calls = [call for call in m.trace(start, '"/begin"') if call[0] != "write"]  # the program's own
        # A link that this user may not follow is a file, for all ranks alike (shim/README.md).
        faults = [fault for fault in faults_of(m, calls) if (way.name, fault[0], fault[2]) != ("hash", "newfstatat", "EACCES")]
        for fault in m.some(faults, 20):
            m.change(0)
            ends = m.job(way, (rank,), lambda: m.change(change), what=["mark"], wrap=inject(*fault))
            wrong = m.judge(way, dict(enumerate(ends)), (0, 1) if change else (0,))
            m.change(0)
            yield f"rank {rank}, {fault[0]} {fault[1]}{fault[3]}: {fault[2]}", wrong or m.look_after(way)


@row("builder")
def calls_in_turn_of_shardctl(m, _way):
    """Each system call of shardctl fails: the listing is whole, or there is an error and none."""
    want = sorted({name for lines in m.right["range", 0] for name in lines if name != "to@"})
    command = [paths.SHARDCTL, "index", m.data, "-o", m.path("built", "l"), "--quiet", "--options",
               "order=path hidden=1 attributes=1"]
    os.makedirs(m.path("built"))

    def start(wrap, env=None):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(m.path("built", "l"))
        return subprocess.Popen([*wrap, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**os.environ, "LC_ALL": "C", **(env or {})}, start_new_session=True)

    def judge(end):
        left = os.listdir(m.path("built"))
        if end.status == -signal.SIGSEGV and not left:  # OpenSSL without memory: to a rank, shardctl was killed
            return []
        # What it tells of a listing that is made; or it cannot even say so.
        if end.status == 1 and ("cannot write the output" in end.said or not end.said and left == ["l"]):
            end = End(0, [], "")
        if end.status == 1 and left:
            return [f"{tell(end)}, left {left}"]
        if end.status == 1:
            return [] if end.said.strip() else ["it fails without a word"]
        if end.status != 0 or left != ["l"]:
            return [f"{tell(end)}, left {left}"]
        shown = subprocess.run([paths.SHARDCTL, "ls", "-0", m.path("built", "l")], capture_output=True, check=False)
        names = sorted(shown.stdout.decode().split("\0")[:-1])
        return [] if names == want else [f"other names: {sorted(set(names) ^ set(want))}"]

    for fault in m.some(faults_of(m, m.trace(start, "PR_SET_NAME")), 60):
        yield f"{fault[0]} {fault[1]}{fault[3]}: {fault[2]}", judge(m.finish(start(inject(*fault))))
        for f in os.listdir(m.path("built")):
            os.unlink(m.path("built", f))
    starving = {"LD_PRELOAD": paths.preload("starving"), "STARVING_LOG": m.path("starved")}
    m.finish(start([], starving))
    with open(m.path("starved"), encoding="utf-8") as stream:
        count = int(stream.read())
    for fault in m.some(((k, on) for k in range(1, count + 1) for on in "01" if not m.call), 60):
        yield f"allocation {fault[0]} of {count}{'+' * int(fault[1])}", judge(m.finish(start(
            [], {**starving, "STARVING_AT": str(fault[0]), "STARVING_ON": fault[1]})))
        for f in os.listdir(m.path("built")):
            os.unlink(m.path("built", f))


@row("range", "stride", "hash", "given", "api")
def allocations(m, way):
    """Each allocation of a rank fails: of the first, who lists, and of the second, once the dataset has changed."""
    change = way.job and way.name != "given"
    for rank in (0, 1):
        env = {"STARVING_LOG": m.path("starved")}
        preload = m.bin + "/libshard.so:" if way.program else ""
        env["LD_PRELOAD"] = preload + paths.preload("starving")
        m.change(0)
        m.job(way, (rank,), env=env)
        with open(m.path("starved"), encoding="utf-8") as stream:
            count = int(stream.read())
        for k, on in m.some(((k, on) for k in range(1, count + 1) for on in "01"), 20):
            m.change(0)
            ends = m.job(way, (rank,), lambda: m.change(change), what=["again"],
                         env={**env, "STARVING_AT": str(k), "STARVING_ON": on})
            wrong = m.judge(way, dict(enumerate(ends)), (0, 1) if change else (0,))
            m.change(0)
            yield f"rank {rank}, allocation {k} of {count}{'+' * int(on)}", wrong or m.look_after(way)


@row("range", "hash", "given", "mounted")
def descriptors(m, way):
    """A rank may have few descriptors: RLIMIT_NOFILE (EMFILE)."""
    for n in range(3, 15):
        ends = m.job(way, (0, 1), what=[f"files={n}", "again"])
        yield f"{n} descriptors", m.judge(way, dict(enumerate(ends))) or m.look_after(way)


@row("range", "given", "mounted")
def memory(m, way):
    """A rank, or shardctl, may have little address space: RLIMIT_AS."""
    for more in (0, 4096, 16384, 65536, 135168, 200000, 400000, 1 << 20, 4 << 20):
        ends = m.job(way, (0, 1), what=[f"memory={more}", "again"])
        yield f"{more} bytes more", m.judge(way, dict(enumerate(ends))) or m.look_after(way)
    if way.name != "given":
        usual = m.bin
        m.bin = m.build("limited", 'ulimit -v "$(cat most)"; exec "$@"')
        for most in (8, 12, 16, 20, 24, 28, 32, 40, 64, 100, 200, 400):
            with open(m.path("most"), "w", encoding="utf-8") as stream:
                stream.write(str(most * 1024))
            ends = m.job(way)
            yield f"shardctl may have {most} MB", m.judge(way, dict(enumerate(ends)))
        m.bin = usual


@row("range", "hash", "given", "mounted")
def interrupted(m, way):
    """Signals by the thousand, whose handler lets calls be interrupted (EINTR)."""
    for k in range(4):
        ends = m.job(way, (0, 1), what=["storm", "again"])
        yield f"storm {k}", m.judge(way, dict(enumerate(ends))) or m.look_after(way)


@row("range", "hash", "given", "python", "api", "mounted", "boto3")
def signals(m, way):
    """A rank is ended, or stopped for a while, while both list; another one takes over."""
    for kind in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGSTOP):
        for _ in range(1 if not way.what and way.program else 3):
            m.begin(way)
            ranks = [m.start(way, rank) for rank in range(2)]
            time.sleep(m.chance.uniform(0, 0.08 if not way.what and way.program else 0.03))
            os.kill(ranks[0].pid, kind)
            if kind == signal.SIGSTOP:
                time.sleep(0.2)
                os.kill(ranks[0].pid, signal.SIGCONT)
            ends = {rank: m.finish(p) for rank, p in enumerate(ranks)}
            # Python makes an error of SIGINT; where rank 0 makes the listing, rank 1 waits for it.
            wrong = m.judge(way, {r: e for r, e in ends.items() if r == 1 or e.status not in (-kind, 1, 130)})
            if ends[1].status != 0:
                wrong.append(f"rank 1: {tell(ends[1])}")
            yield f"{kind.name} for rank 0", wrong or m.look_after(way)


@row("range", "stride", "hash", "given", "mounted")
def forks(m, way):
    """A thread forks children that list, too, while the listing is made."""
    for _ in range(2):
        m.begin(way)
        lists = [m.path(f"want{rank}") for rank in range(2)]
        for rank, path in enumerate(lists):
            with open(path, "w", encoding="utf-8") as stream:
                stream.write("".join(line + "\n" for line in m.right[way.name, 0][rank]))
        ranks = [m.start(way, rank, ["fork=" + lists[rank]]) for rank in range(2)]
        ends = {rank: m.finish(p) for rank, p in enumerate(ranks)}
        wrong = m.judge(way, ends) + [tell(end) for end in ends.values() if end.status != 0]
        yield "forks", wrong or m.look_after(way)


@row("range", "hash", "given", "mounted")
def closed(m, way):
    """A program closes all descriptors that it does not know (closefrom(3)) while it lists, and lists again."""
    ends = m.job(way, (0, 1), what=["close"])
    wrong = m.judge(way, dict(enumerate(ends))) + [tell(end) for end in ends if end.status != 0]
    yield "closed", wrong or m.look_after(way)


@row("given")
def cut(m, way):
    """SHARD_LISTING is emptied while it is mapped: an error, and no SIGBUS."""
    big = m.make_big()
    for size in ("small", "large"):
        data = m.data if size == "small" else big
        m.begin(way)
        m.given(data)
        whole, end = (m.finish(m.start(way, 0, what, data=data, env={"SHARD_DATASET": data}))
                      for what in ((), ("cut=" + m.path("given.listing"), "again")))
        good = end.status == 0 and end.lines == whole.lines or end.status == 1 and end.said
        yield f"{size} listing", [] if good and whole.status == 0 else [tell(whole), tell(end)]


@contextlib.contextmanager
def mounted(folder, *words):
    """A mount, for a while. This process has mounts of its own."""
    subprocess.run(["mount", *words, folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@row("range", "python", "api", "adapter", "mounted", "boto3")
def full(m, way):
    """The cache's file system has no room, or no inodes, left."""
    python = not way.what and way.program
    for options in ([f"nr_inodes={n}" for n in range(2, 9)] + [f"size={4 * n}k" for n in (1, 2, 3, 4)])[::4 if python else 1]:
        m.begin(way)
        m.change(0)
        with mounted(m.cache, "-t", "tmpfs", "-o", options + ",mode=700", "none"):
            ends = [m.finish(m.start(way, 0))]
            m.change(way.job)
            ends.append(m.finish(m.start(way, 1)))
        wrong = m.judge(way, dict(enumerate(ends)), (0, 1))
        m.change(0)
        yield options, wrong or m.look_after(way)


@row("range", "hash", "given", "python", "adapter", "mounted", "boto3")
def read_only(m, way):
    """All file systems are read-only but /dev/shm; then that, too."""
    m.begin(way)
    cache, m.cache = m.cache, ""
    with mounted("/dev/shm", "-t", "tmpfs", "-o", "mode=1777", "none"):
        wrap = ["unshare", "-m", "sh", "-c", f"mount -o bind {m.work} {m.work} && mount -o remount,bind,ro {m.work} && "
                "{ mount -o remount,bind,ro /tmp 2>/dev/null; mount -o remount,bind,ro / 2>/dev/null; }; exec \"$@\"", "-"]
        ends = m.job(way, (0, 1), fresh=False, wrap=wrap)
        yield "all but /dev/shm", m.judge(way, dict(enumerate(ends))) + [tell(e) for e in ends if e.status]
    with mounted("/dev/shm", "-t", "tmpfs", "-o", "ro", "none"):
        m.jobs += 1
        ends = m.job(way, (0, 1), fresh=False, wrap=wrap)
        wrong = m.judge(way, dict(enumerate(ends)))
        yield "/dev/shm, too", wrong + [tell(e) for e in ends if e.status and "SHARD_CACHE_DIR" not in e.said]
    m.cache = cache


@row("range", "hash", "given", "python", "api", "adapter", "mounted", "boto3", "boto3_hash")
def no_proc(m, way):
    """There is no /proc: below the root of a dataset that is a directory, names cannot be told."""
    ends = m.job(way, (0, 1), wrap=["unshare", "-m", "sh", "-c", "mount -t tmpfs none /proc; exec \"$@\"", "-"])
    fails = not way.whole and not (way.dataset or "").startswith("s3:")
    wrong = [tell(e) for e in ends if bool(e.status) != fails or (fails and "and /proc" not in e.said)]
    yield "no /proc", m.judge(way, dict(enumerate(ends))) + wrong or m.look_after(way)


@row("range", "given", "api")
def clock(m, way):
    """The clock is put forward or back, of a rank and of its shardctl, before and while they list."""
    script = 'LD_PRELOAD=$CLOCK exec "$@"'
    usual, m.bin = m.bin, m.path("clocked") if os.path.exists(m.path("clocked")) else m.build("clocked", script)
    for seconds in (-864000, -3600, -1, 1, 3600, 864000):
        for at in (1, 2, 4):
            for rank in (0, 1):
                m.change(0)
                env = {"TEST_JUMP": str(seconds), "TEST_JUMP_AT": str(at), "CLOCK": paths.preload("clock")}
                own = m.bin + "/libshard.so:" if way.program else ""
                ends = m.job(way, (rank,), lambda: m.change(way.name == "range"),
                             env={**env, "LD_PRELOAD": own + paths.preload("clock")})
                wrong = m.judge(way, dict(enumerate(ends)), (0, 1)) + [tell(e) for e in ends if e.status]
                m.change(0)
                yield f"{seconds} s from question {at} on, rank {rank}", wrong or m.look_after(way)
    m.bin = usual


@row("range", "stride", "hash", "given", "python", "api", "adapter")
def times_put_back(m, way):
    """A file is added, and the directory's times are put back (cp -p, rsync -a): the next job sees it."""
    wrong = m.judge(way, dict(enumerate(m.job(way))))
    was = os.stat(m.data + "/d1")
    m.change(1)
    os.utime(m.data + "/d1", ns=(was.st_atime_ns, was.st_mtime_ns))
    m.jobs += 1
    ends = m.job(way, fresh=False)
    wrong += m.judge(way, dict(enumerate(ends)), (1,))
    if way.name == "given":
        wrong += [tell(e) for e in ends if e.status != 1 or "changed since" not in e.said]
    else:
        wrong += [tell(e) for e in ends if e.status]
    m.change(0)
    yield "times put back", wrong


@row("range", "stride", "given", "python", "mounted", "boto3")
def started_anew(m, way):
    """A job is killed, and started anew at once: by the same SHARD_JOB, and by another; the dataset has changed."""
    for same in (True, False):
        for _ in range(1 if not way.what and way.program else 4):
            m.change(0)
            m.begin(way)
            ranks = [m.start(way, rank) for rank in range(2)]
            time.sleep(m.chance.uniform(0, 0.05))
            for process in ranks:
                process.kill()
            changed = way.name != "given"
            m.change(changed)
            m.jobs += not same
            ranks += [m.start(way, rank) for rank in range(2)]
            ends = [m.finish(process) for process in ranks][2:]
            moments = (1,) if changed and not same else (0, 1)
            wrong = m.judge(way, dict(enumerate(ends)), moments) + [tell(e) for e in ends if e.status]
            m.change(0)
            yield f"{'the same' if same else 'another'} job", wrong or m.look_after(way)


@row("range", "hash")
def setuid(m, way):
    """A rank becomes another user once it has listed, and lists again; so does a program that it runs."""
    if os.environ["USER_OUTSIDE"] != "0":
        yield "skip", "it takes root"
        return
    m.begin(way)
    cache, m.cache = m.cache, m.path("common")
    os.makedirs(m.cache, exist_ok=True)
    with mounted(m.cache, "-t", "tmpfs", "-o", "mode=1777", "none"):
        ends = m.job(way, (0, 1), fresh=False, what=[f"setuid={NOBODY}"])
        yield "a cache for each", m.judge(way, dict(enumerate(ends))) + [tell(e) for e in ends if e.status]
    m.cache = cache
    ends = m.job(way, (0, 1), what=[f"setuid={NOBODY}"])
    yield "a cache of root's", m.judge(way, dict(enumerate(ends)))


# ---- all of them --------------------------------------------------------------------------------


def show():
    """The table."""
    for name, ways, function in ROWS:
        print(f"{name}: {function.__doc__}\n    {' '.join(ways)}")
        if name in ELSEWHERE:
            print(f"    also in {ELSEWHERE[name]}")


def main():
    """Try the rows; the exit status is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="try every single call")
    parser.add_argument("--call", default="", metavar="REGEX", help="of system calls in turn only these")
    parser.add_argument("--list", action="store_true", help="print the table and stop")
    parser.add_argument("--s3", action="store_true", help="the columns with an S3 server")
    parser.add_argument("--filter", default="", help="only ROW/COLUMN that this regex is found in")
    args = parser.parse_args()
    if args.list:
        return show()
    processes.own_mounts("tests.behaviour.faultmatrix")
    confine.begin()
    work = tempfile.mkdtemp(prefix="shard-matrix.", dir="/tmp")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", work], check=True)
    verdicts, server = Verdicts(), contextlib.ExitStack()
    try:
        endpoint = server.enter_context(s3.server(os.path.join(work, "s3"), ACCESS, SECRET)) if args.s3 else None
        m = Matrix(work, args, endpoint)
        for name, ways, function in ROWS:
            for column in ways:
                s3_column = column in WAYS and bool(WAYS[column].dataset)
                if s3_column != args.s3 or not re.search(args.filter, f"{name}/{column}"):
                    continue
                begin, cpu, wrong, cases = time.monotonic(), sum(os.times()[:4]), [], 0
                m.in_vain = name in IN_VAIN
                for case, found in function(m, WAYS.get(column)):
                    if case == "skip":
                        print(f"skip {name}, {column}: {found}")
                        continue
                    cases += 1
                    wrong += [f"{case}: {line}" for line in found]
                if cases:
                    verdicts.tell(f"{name}, {column}: {cases} cases, {time.monotonic() - begin:.1f} s, "
                                  f"{sum(os.times()[:4]) - cpu:.1f} s CPU", wrong[:8])
    finally:
        server.close()
        os.chdir("/")
        subprocess.run(["umount", "-l", work], check=True)
        os.rmdir(work)
    return verdicts.conclude()


if __name__ == "__main__":
    sys.exit(main())
