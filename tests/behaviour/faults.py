#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Faults of the machine: calls that fail, full disks, killed builders, changing directories.

Whatever happens, a listing is whole and right, or there is an error that says why, and an older
file stays as it was.

    python3 -m tests.behaviour.faults [PART...]     all parts, or those named

SEED, a variable of the environment, repeats a run's random choices; it is printed first.
"""

import ctypes
import fcntl
import glob
import hashlib
import os
import random
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time

from tests.harness import confine, paths, processes
from tests.harness.verdicts import Verdicts

NOBODY = 65534

# As root, and not only in a namespace of its own.
IS_ROOT = processes.own_mounts("tests.behaviour.faults") == 0

confine.begin()
WORK = tempfile.mkdtemp(prefix="shard-faults.", dir="/tmp")
DISK = tempfile.mkdtemp(prefix="shard-faults.", dir="/var/tmp")  # names that do not fit into memory go nowhere else
MEMORY = "8M"
if subprocess.run(["stat", "-f", "-c", "%T", DISK], stdout=subprocess.PIPE, check=True).stdout.strip() in (b"tmpfs", b"ramfs"):
    print("skip names that do not fit into memory: /var/tmp is on no disk")
    MEMORY = "1G"
os.chmod(WORK, 0o755)
os.chdir(WORK)
os.mkdir("bin")  # where another user can reach them
LIB, CTL, FAILING = (shutil.copy(f, "bin") and os.path.join(WORK, "bin", os.path.basename(f))
                     for f in (paths.LIBRARY, paths.SHARDCTL, paths.preload("failing")))
os.symlink("libshard.so", "bin/libshard.so.1")
DATASET = os.path.join(WORK, "bin", "dataset")
subprocess.run(["gcc", "-O1", "-D_GNU_SOURCE", "-I", paths.REPO + "/include", "-o", DATASET,
                paths.source("programs", "dataset.c"), LIB, "-Wl,-rpath," + WORK + "/bin"], check=True)
SEED = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))
chance = random.Random(SEED)
verdicts = Verdicts()


def check(name, why):
    """One line; `why` is empty if all is well."""
    verdicts.check(name, not why, repr(str(why)[:600]))


def run(*words, env=None, timeout=600, **more):
    """A command's status, stdout and stderr."""
    p = subprocess.run(words,
                       env={
                           **os.environ,
                           **(env or {})
                       },
                       timeout=timeout,
                       stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE,
                       **more)
    return p.returncode, p.stdout, p.stderr.decode(errors="replace")


def content(path):
    with open(path, "rb") as f:
        return f.read()


def put(path, data):
    with open(path, "wb") as f:
        f.write(data)


def names_of(path):
    """What ls prints; None if it fails."""
    status, out, _ = run(CTL, "ls", "-0", path)
    return out.split(b"\0")[:-1] if status == 0 else None


def text(path, names):
    put(path, b"".join(n + b"\n" for n in names))
    return sorted(names)


def numbered(n, of):
    return [b"img_%07d_of_%07d.jpeg" % (i, of) for i in range(n)]


def uuids(n, seed):
    r = random.Random(seed)
    return [
        b"%08x-%04x-%04x-%04x-%012x.bin" % tuple(r.getrandbits(b) for b in (32, 16, 16, 16, 48))
        for _ in range(n)
    ]


def tree(path, dirs=20, files=30):
    for d in range(dirs):
        os.makedirs(f"{path}/d{d:02}")
        for i in range(files):
            open(f"{path}/d{d:02}/f{i:03}", "wb").close()
    return sorted(b"d%02d/f%03d" % (d, i) for d in range(dirs) for i in range(files))


def beside(path):
    """What else is in a file's folder, but the file."""
    return sorted(set(os.listdir(os.path.dirname(path))) - {os.path.basename(path)})


def mount(folder, options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)


def error_line(err, path):
    """What is wrong about an error: it is to name a path and the cause."""
    causes = ("No space", "Input/output", "quota", "File too large", "Read-only", "ermission",
              "Interrupted", "Is a dir")
    return "" if any(p in err for p in path) and any(c in err for c in causes) else f"says {err!r}. "


# ---- calls that fail ----------------------------------------------------------------------------


def sources():
    """Name, words of the command, the names wanted, whether every call and fault is tried."""
    want = sorted(b"d%02d/f%03d" % (d, i) for d in range(20) for i in range(30))
    if not os.path.exists("tree"):
        tree("tree")
    yield "tree", ["tree"], want, True
    yield "text", ["small.txt"], text("small.txt", numbered(3000, 9999)), True
    yield "text in its order", ["--keep-order",
                                "uuid.txt"], (text("uuid.txt", uuids(3000, 1)), uuids(3000, 1))[1], True
    # More than fits into 8 MB of memory.
    big = [hashlib.sha512(b"%d" % i).hexdigest().encode() + b".bin" for i in range(80000)]
    yield "spilling text", ["big.txt"], text("big.txt", big), False


def prepare():
    put("old.txt", b"an\nolder\nlisting\n")
    run(CTL, "index", "old.txt", "-o", "old.listing")
    os.symlink(DISK, "tmp")
    for _ in sources():
        pass
    text("wide.txt", uuids(9000, 2))
    run(CTL, "index", "tree", "-o", "whole.listing")


def failing_calls():
    os.makedirs("out")
    mount("out", "size=64m")
    old, file = content("old.listing"), os.path.join(WORK, "out", "l")
    base = {
        "SHARD_BUILD_MEMORY": MEMORY,
        "TMPDIR": os.path.join(WORK, "tmp"),
        "FAILING_LOG": os.path.join(WORK, "log")
    }
    faults = [("ENOSPC", 0), ("ENOSPC", 1), ("EIO", 0), ("EDQUOT", 1), ("EINTR", 0), ("SHORT", 0),
              ("KILL", 0)]
    for name, words, want, thorough in sources():
        build = [CTL, "index", *words, "-o", file]
        status, _, err = run(*build, env={**base, "LD_PRELOAD": FAILING})
        calls = int(content("log").split()[0])
        why = err or ("" if names_of(file) == want and calls >= 7 else f"{calls} calls, or wrong names")
        fired, bad = {}, [why] if why else []
        for at in range(1, calls + 1):
            for k, (fault, on) in enumerate(faults):
                if not thorough and (at + k) % 4 != 0:
                    continue
                put(file, old)
                if os.path.exists("log"):
                    os.unlink("log")
                what = f"{name}, call {at}, {fault}{' from there on' if on else ''}"
                status, out, err = run(*build,
                                       env={
                                           **base, "LD_PRELOAD": FAILING,
                                           "FAILING_AT": str(at),
                                           "FAILING_WITH": fault,
                                           "FAILING_ON": str(on)
                                       })
                call = content("log").split()[1].decode() if os.path.exists("log") else "killed"
                fired[fault] = fired.get(fault, set()) | {call}
                now, left, why = content(file), beside(file) + os.listdir("tmp"), ""
                if fault in ("EINTR", "SHORT") or (status == 0
                                                   and call in ("fallocate", "ftruncate", "O_TMPFILE", "none")
                                                   and not on):
                    # a listing differs in the time it was made alone, so the names are compared
                    if status != 0 or now == old or names_of(file) != want or left:
                        why = f"status {status}, {err!r}, {left}"
                elif fault == "KILL":
                    if status != -signal.SIGKILL or now != old:
                        why = f"status {status}, {err!r}"
                    elif left and (run(*build, env=base)[0] != 0 or beside(file) or os.listdir("tmp")):
                        why = f"left by a killed one: {beside(file)}, {os.listdir('tmp')}"
                elif status == 0 and call != "none":
                    why = "it succeeds"
                elif status != 0:
                    why = "" if status == 1 else f"status {status}. "
                    why += "" if now == old else "the older file has changed. "
                    why += f"left: {left}. " if left else ""
                    why += f"prints {out!r}. " if out else ""
                    why += error_line(err, [file, "/tmp'"])
                if why:
                    bad.append(f"{what} ({call}): {why}")
        check(f"{name}: each of {calls} calls fails, {sum(map(len, fired.values()))} kinds",
              "; ".join(bad[:4]) + (f" and {len(bad) - 4} more" if len(bad) > 4 else ""))
        missing = {"pwrite", "fallocate", "ftruncate", "fsync", "rename", "mkostemp"
                   } - fired["ENOSPC"]
        if thorough:
            check(f"{name}: what was made to fail", missing)


# ---- disks that are full, limits ----------------------------------------------------------------


def full_disk():
    """A tmpfs of every size from too small to large enough."""
    want = sorted(content("wide.txt").split())
    os.makedirs("full")
    done = refused = 0
    bad = []
    size = 8 << 10
    while done < 3:
        mount("full", f"size={size},mode=755")
        file = os.path.join(WORK, "full", "l")
        shutil.copy("old.listing", file)
        status, _, err = run(CTL, "index", "wide.txt", "-o", file)
        right = status == 0 and names_of(file) == want
        kept = status == 1 and content(file) == content("old.listing") and not error_line(err, [file])
        if not (right or kept) or beside(file):
            bad.append(f"{size} bytes: status {status}, {err!r}, left {beside(file)}")
        done, refused = done + right, refused + kept
        run("umount", "full")
        if size > 8 << 20:
            break
        size += 24 << 10
    check(f"a full disk: {refused} sizes too small", "; ".join(bad[:5])
          or ("" if refused > 5 and done == 3 else done))


def limits():
    """RLIMIT_FSIZE, where SIGXFSZ kills as it does by default, and where it is ignored."""
    os.makedirs("limit")
    file = os.path.join(WORK, "limit", "l")
    for ignored in (False, True):
        bad, counts = [], [0, 0]
        for source in ("wide.txt", "big.txt"):
            run(CTL, "index", source, "-o", file)
            whole = len(content(file))
            for size in (0, 1, 511, 4096, whole // 2, whole - 1, whole, 64 << 20):
                shutil.copy("old.listing", file)
                status, _, err = run(
                    CTL,
                    "index",
                    source,
                    "-o",
                    file,
                    restore_signals=not ignored,
                    env={
                        "SHARD_BUILD_MEMORY": MEMORY,
                        "TMPDIR": os.path.join(WORK, "tmp")
                    },
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
                right = status == 0 and names_of(file) == sorted(content(source).split())
                kept = (status == 1 and content(file) == content("old.listing")
                        and not error_line(err, [file, WORK + "/tmp'"]))
                counts[right] += 1
                if not (right or kept) or beside(file):
                    bad.append(f"{source}, {size} bytes: status {status}, {err!r}, left {beside(file)}")
        check(f"RLIMIT_FSIZE, SIGXFSZ {'ignored' if ignored else 'as it is'}", "; ".join(bad)
              or ("" if counts[0] >= 8 and counts[1] >= 3 else counts))


def odd_targets():
    """What cannot become a listing stays what it was."""
    os.makedirs("odd/dir")
    os.mkfifo("odd/fifo")
    os.mkdir("odd/ro")
    mount("odd/ro", "ro,mode=755")
    os.mkdir("odd/shut", 0o755)
    shutil.copy("old.listing", "odd/shut/l")
    if IS_ROOT:
        os.mknod("odd/full", stat.S_IFCHR | 0o666, os.makedev(1, 7))
        os.symlink("full", "odd/link")
    else:
        os.symlink("/dev/full", "odd/full")
        os.symlink("full", "odd/link")
    os.symlink("/proc/self/fd/1", "odd/stdout")
    cases = [("full", "regular"), ("link", "regular"), ("fifo", "regular"), ("dir", "regular"),
             ("stdout", "regular"), ("ro/l", "Read-only"), ("none/l", "No such"),
             ("old.listing/l", "Not a directory")]
    os.symlink("../old.listing", "odd/old.listing")
    for source in ("wide.txt", "tree"):
        for target, word in cases:
            file = os.path.join(WORK, "odd", target)
            before = sorted(
                (f, os.lstat(f).st_mode, os.lstat(f).st_ino) for f in glob.glob("odd/**", recursive=True))
            status, out, err = run(CTL, "index", source, "-o", file)
            after = sorted(
                (f, os.lstat(f).st_mode, os.lstat(f).st_ino) for f in glob.glob("odd/**", recursive=True))
            check(f"{source} into {target}",
                  ("" if status == 1 and not out and file in err and word in err and before == after else
                   f"status {status}, {err!r}, {set(before) ^ set(after)}"))
        if IS_ROOT:
            for file in (WORK + "/odd/shut/l", "/dev/full"):
                status, out, err = run("setpriv", f"--reuid={NOBODY}", "--clear-groups", CTL, "index",
                                       source, "-o", file)
                check(f"{source} into {os.path.basename(file)} of another user",
                      ("" if status == 1 and file in err and ("ermission" in err or "regular" in err)
                       and stat.S_ISCHR(os.stat("/dev/full").st_mode) and content("odd/shut/l")
                       == content("old.listing") else f"status {status}, {err!r}"))


# ---- builders that are killed -------------------------------------------------------------------


def killed():
    """At random moments: an older file is whole, or the new one is; the next build tidies up. Kills that come too late
    are followed by earlier ones."""
    os.makedirs("kill")
    file = os.path.join(WORK, "kill", "l")
    env = {"SHARD_BUILD_MEMORY": MEMORY, "TMPDIR": os.path.join(WORK, "tmp")}
    for source in ("tree", "big.txt"):
        begin = time.monotonic()
        run(CTL, "index", source, "-o", file, env=env)
        took, want = 1.1 * (time.monotonic() - begin), names_of(file)
        bad, ends, most = [], {"older": 0, "newer": 0}, 0
        for k in range(25):
            shutil.copy("old.listing", file)
            p = subprocess.Popen([CTL, "index", source, "-o", file],
                                 env={
                                     **os.environ,
                                     **env
                                 },
                                 stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE)
            time.sleep(chance.uniform(0, took))
            p.kill()
            err = p.communicate()[1]
            older = content(file) == content("old.listing")
            ends["older" if older else "newer"] += 1
            took *= 1.1 if older else 0.8
            most = max(most, len(beside(file)))
            if not older and names_of(file) != want:
                bad.append(f"kill {k}: neither the older file nor the new one")
            if err or len(beside(file)) > 1 or os.listdir("tmp"):
                bad.append(f"kill {k}: {err!r}, left {beside(file)}, {os.listdir('tmp')}")
        status, _, err = run(CTL, "index", source, "-o", file, env=env)
        if status != 0 or err or names_of(file) != want or beside(file):
            bad.append(f"the next build: {status}, {err!r}, left {beside(file)}")
        check(f"{source}: killed at 25 moments, {ends}, at most {most} left at once", "; ".join(bad[:5]))


def only_its_own():
    """A build removes what its own dead builders left, and nothing else."""
    os.makedirs("own")
    file = os.path.join(WORK, "own", "l")
    keep = [
        "l.tmp.backup7", "l.tmp.old", "l.tmp.", "l.tmp.a-b-cd", "l2.tmp.abcdef", "l.tmpXabcdef",
        "xl.tmp.abcdef"
    ]
    for f in keep + ["l.tmp.abc1EF"]:
        put("own/" + f, b"x")
    status, _, err = run(CTL, "index", "small.txt", "-o", file)
    check("the dead temporary of a file goes, others stay",
          f"{status}, {err!r}, {beside(file)}" if status or beside(file) != sorted(keep) else "")
    # Another builder takes a temporary for a dead one's before its maker has locked it: it is
    # removed, now or once the maker goes on, who makes another.
    gate = os.path.join(WORK, "gate")  # its maker waits there
    for moment in ("before", "after"):
        shutil.rmtree("own")
        os.makedirs("own")
        p = subprocess.Popen([CTL, "index", "--keep-order", "-", "-o", file],
                             stdin=subprocess.PIPE,
                             stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE,
                             env={
                                 **os.environ, "LD_PRELOAD": FAILING,
                                 "FAILING_GATE": gate
                             })
        wait_for(lambda: beside(file))
        made = "own/" + beside(file)[0]
        with open(made, "rb") as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if moment == "after":
                put(gate, b"")
                time.sleep(0.5)
            os.unlink(made)
        put(gate, b"")
        err = p.communicate(b"a\nb\n")[1]
        check(f"a temporary is taken for a dead one's, and removed {moment} its maker goes on",
              ("" if p.returncode == 0 and not err and os.listdir("own") == ["l"] else
               f"status {p.returncode}, {err}, {os.listdir('own')}"))
        os.unlink(gate)


def wrapped(text_):
    """A folder with libshard.so, the dataset program, and a shardctl that is this shell script."""
    folder = tempfile.mkdtemp(prefix="wrapped.", dir=WORK)
    shutil.copy(LIB, folder)
    os.symlink("libshard.so", folder + "/libshard.so.1")
    shutil.copy(DATASET, folder)
    put(folder + "/shardctl", f"#!/bin/bash\ncd '{folder}'\n{text_}\n".encode())
    os.chmod(folder + "/shardctl", 0o755)
    return folder


def ranks(folder, count, cache, env=None, directory="tree"):
    """Processes that ask for the listing of a directory together."""
    return [
        subprocess.Popen(
            [folder + "/dataset", os.path.join(WORK, directory), "attributes=1"],
            env={
                **os.environ, "LD_LIBRARY_PATH": folder,
                "SHARD_CACHE_DIR": os.path.join(WORK, cache),
                "SHARD_TIMEOUT": "300",
                "SHARD_JOB": "ranks",  # with the shard view: the processes of a job have one listing
                "SHARD_VIEW": "shard",
                **(env(r) if env else {})
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE) for r in range(count)
    ]


def gather(processes):
    """Their statuses, names and messages."""
    ends = [p.communicate(timeout=600) for p in processes]
    return [(p.returncode, out.split(b"\0")[:-1], err.decode()) for p, (out, err) in zip(processes, ends)]


def wait_for(condition):
    return processes.until(condition, 300)


def elections():
    """The builder that a rank started is killed while others wait: another is started."""
    want = names_of("whole.listing")
    # The first one writes half a file, tells its process id, and hangs.
    slow = wrapped(f"""echo x >>started
if mkdir first 2>/dev/null; then
  head -c 700 {WORK}/whole.listing >"$3.tmp.abcdef"; echo $$ >pid.new; mv pid.new pid; exec sleep 1000
fi
exec {CTL} "$@" """)
    for who in ("builder", "builder and its rank", "rank"):
        for f in ("first", "pid", "started"):
            shutil.rmtree(f"{slow}/{f}", ignore_errors=True)
            if os.path.exists(f"{slow}/{f}"):
                os.unlink(f"{slow}/{f}")
        shutil.rmtree("cache1", ignore_errors=True)
        ps = ranks(slow, 1, "cache1")
        wait_for(lambda: os.path.exists(slow + "/pid"))
        ps += ranks(slow, 3, "cache1")
        time.sleep(0.2)
        builder = int(content(slow + "/pid"))
        if "rank" in who:
            ps[0].kill()
            ps[0].communicate()
        if who == "rank":  # its builder lives, and so does the lock: nobody else may build
            time.sleep(0.2)
            check("the rank that builds is killed: its builder has the lock",
                  "" if content(slow + "/started") == b"x\n" else "built twice")
        os.kill(builder, signal.SIGKILL)
        ends = gather(ps if who == "builder" else ps[1:])
        bad = [(status, len(names), err) for status, names, err in ends if status or names != want or err]
        left = [
            f for f in os.listdir("cache1")
            if not f.endswith((".lock", ".named.listing"))
        ]
        count = len(content(slow + "/started").split())
        check(f"killed while ranks wait: {who}", bad or left
              or ("" if count == 2 else f"{count} builders"))


def host_calls():
    """The calls of the rank itself, which gives a new listing its name, fail, or it is killed there."""
    want, cache = names_of("whole.listing"), os.path.join(WORK, "cache7")
    base = {"LD_PRELOAD": FAILING, "FAILING_LOG": os.path.join(WORK, "log")}
    ends = gather(ranks(WORK + "/bin", 1, "cache7", lambda r: base))
    calls = int(content("log").split()[0])
    bad, seen = [] if ends == [(0, want, "")] and calls >= 1 else [ends, calls], set()
    for at in range(1, calls + 1):
        for fault in ("ENOSPC", "EIO", "KILL"):
            shutil.rmtree(cache)
            put("log", b"0 killed\n")
            faulty = {**base, "FAILING_AT": str(at), "FAILING_WITH": fault}
            status, names, err = gather(ranks(WORK + "/bin", 1, "cache7", lambda r: faulty))[0]
            call = content("log").split()[1].decode()
            seen.add(call)
            right = (status == 0 and names == want and not err) or (
                status == 1 and not names and cache in err and ("No space" in err or "Input/output" in err))
            if not (status == -9 if fault == "KILL" else right):
                bad.append(f"call {at} ({call}), {fault}: {status}, {len(names)} names, {err}")
            again = gather(ranks(WORK + "/bin", 1, "cache7"))[0]
            left = [f for f in os.listdir(cache) if ".new." in f and fault != "KILL"]
            if again[:2] != (0, want) or left or ("no process of that job has it open" in again[2]) != (status == 0):
                bad.append(f"after call {at} ({call}), {fault}: {again[0]}, {again[2]}, left {left}")
    check(f"each of {calls} calls of a rank fails", bad or {"rename", "killed"} - seen)


def together():
    """Jobs at once on a cache and a dataset: one listing each. Builders of one file: it is whole."""
    want = names_of("whole.listing")
    counting = wrapped(f'echo x >>started; exec {CTL} "$@"')
    bad = []
    for k in range(5):
        shutil.rmtree("cache3", ignore_errors=True)
        ps = [
            subprocess.Popen(
                ["find", WORK + "/tree", "-type", "f", "-printf", "%P\\0"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={
                    **os.environ, "LD_PRELOAD": counting + "/libshard.so",
                    "SHARD_DATASET": WORK + "/tree",
                    "SHARD_CACHE_DIR": WORK + "/cache3",
                    "SHARD_JOB": f"job{job}",
                    "SHARD_RANK": str(r),
                    "SHARD_SIZE": "3"
                }) for job in range(2) for r in range(3)
        ]
        ends = gather(ps)
        for job in range(2):
            # A rank that begins when all others of its job have ended says so.
            if sorted(n for e in ends[3 * job:3 * job + 3] for n in e[1]) != want or any(
                    e[0] or (e[2] and "no process of that job has it open" not in e[2]) for e in ends):
                bad.append(f"job {job}: {[(e[0], len(e[1]), e[2]) for e in ends]}")
    count = len(content(counting + "/started").split())
    check("two jobs at once, five times", bad or ("" if count == 10 else f"{count} listings were made"))
    os.makedirs("side")
    file = os.path.join(WORK, "side", "l")
    lists = [sorted(content(f).split()) for f in ("small.txt", "wide.txt")]
    bad, won = [], [0, 0]
    for k in range(30):
        ps = [
            subprocess.Popen([CTL, "index", f, "-o", file],
                             stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE) for f in ("small.txt", "wide.txt")
        ]
        ends = [(p.communicate()[1], p.returncode) for p in ps]
        names = names_of(file)
        if any(e != (b"", 0) for e in ends) or names not in lists or beside(file):
            bad.append(f"{ends}, left {beside(file)}, {names is not None}")
        else:
            won[lists.index(names)] += 1
    check(f"two builders of one file, 30 times, {won}", bad)
    # The lock of a builder that was stopped keeps its file from the others.
    p = subprocess.Popen([CTL, "index", "-", "-o", file],
                         stdin=subprocess.PIPE,
                         stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE)
    p.stdin.write(b"a\n" * 0 + b"".join(b"%07d\n" % i for i in range(1000)))
    p.stdin.flush()
    for k in range(20):
        run(CTL, "index", "small.txt", "-o", file)
    err = p.communicate()[1]
    check("a slow builder beside 20 quick ones",
          ("" if p.returncode == 0 and not err and len(names_of(file) or []) == 1000 and not beside(file)
           else f"status {p.returncode}, {err!r}, left {beside(file)}"))


def timeouts():
    """Another holds the lock for longer than SHARD_TIMEOUT."""
    want = names_of("whole.listing")
    slow = wrapped(f'until [ -e go ]; do sleep 0.02; done\nexec {CTL} "$@"')
    ps = ranks(slow, 1, "cache4")
    wait_for(lambda: glob.glob("cache4/*.lock"))
    ends = gather(ranks(WORK + "/bin", 3, "cache4", lambda r: {"SHARD_TIMEOUT": "1"}))
    check("another holds the lock for too long",
          ("" if all(e[0] == 1 and not e[1] and "SHARD_TIMEOUT" in e[2] and WORK +
                     "/tree" in e[2] and e[2].startswith("-110:") for e in ends) else ends))
    ps += ranks(WORK + "/bin", 3, "cache4", lambda r: {"SHARD_LOG": "info"})
    waiting = "waiting for another process to list"
    lines = [p.stderr.readline().decode() for p in ps[1:]]
    put(slow + "/go", b"")
    ends = gather(ps)
    check("the lock is given up in time",
          "" if all(e[:2] == (0, want) for e in ends) and all(waiting in line for line in lines) else (ends, lines))


# ---- readers ------------------------------------------------------------------------------------


class Listing:
    """The public API."""

    api = ctypes.CDLL(LIB)
    api.shard_listing_count.restype = ctypes.c_uint64
    api.shard_listing_next.restype = api.shard_listing_find.restype = ctypes.c_int64

    def __init__(self, path):
        self.at = ctypes.c_void_p()
        self.rc = self.api.shard_listing_open(path.encode(), ctypes.byref(self.at))

    def names(self):
        cursor, name, out = ctypes.create_string_buffer(1 << 16), ctypes.c_char_p(), []
        n = self.api.shard_listing_seek(cursor, self.at, ctypes.c_uint64(0))
        while n == 0 and (n := self.api.shard_listing_next(cursor, ctypes.byref(name))) > 0:
            out.append(name.value)
            n = 0
        return n if n < 0 else out

    def close(self):
        self.api.shard_listing_close(self.at)


def replaced():
    """A file is replaced 100 times or more: one reader has the old one open, another opens it again and again, until it
    has had both some times."""
    file = os.path.join(WORK, "side", "r")
    lists = [sorted(content(f).split()) for f in ("small.txt", "wide.txt")]
    run(CTL, "index", "wide.txt", "-o", file)
    held, bad, reads, ended = Listing(file), [], [0, 0], threading.Event()

    def read():
        while not ended.is_set():
            l = Listing(file)
            names = l.names() if l.rc == 0 else l.rc
            if names not in lists:
                bad.append(f"a reader gets {str(names)[:100]}")
            else:
                reads[lists.index(names)] += 1
            l.close()

    reader = threading.Thread(target=read)
    reader.start()
    k = 0
    while (k < 100 or min(reads) <= 5) and not bad:
        status, _, err = run(CTL, "index", ("small.txt", "wide.txt")[k % 2], "-o", file)
        if status or (k % 10 == 0 and held.names() != lists[1]):
            bad.append(f"round {k}: {status} {err}")
        k += 1
    ended.set()
    reader.join()
    if held.names() != lists[1]:
        bad.append("the old file's names have changed")
    held.close()
    check(f"replaced {k} times, {reads} reads", "; ".join(bad[:5]))


def other_versions():
    """A listing of another format is said to be that; in the cache it is made anew, without a word."""
    want = names_of("whole.listing")
    shutil.rmtree("cache5", ignore_errors=True)
    gather(ranks(WORK + "/bin", 1, "cache5"))
    cached = glob.glob("cache5/*.listing")[0]
    good = content(cached)
    now = struct.unpack_from("<I", good, 8)[0]  # after the magic, in every version
    for version in {0, 1, 2, now - 1, now + 1, 1 << 31} - {now}:
        data = good[:8] + struct.pack("<I", version) + good[12:]
        put("v.listing", data)
        status, out, err = run(CTL, "ls", "v.listing")
        check(f"version {version}: said",
              "" if status == 1 and not out and "another version" in err and "v.listing" in err else err)
        put(cached, data)
        ends = gather(ranks(WORK + "/bin", 1, "cache5"))
        check(f"version {version} in the cache: made anew",
              ("" if ends == [(0, want, "")]
               and [content(f)[8:12]
                    for f in glob.glob("cache5/*.listing")].count(good[8:12]) == 1 else ends))
        cached = glob.glob("cache5/*.listing")[0] if content(cached)[8:12] != good[8:12] else cached


# ---- directories that change --------------------------------------------------------------------


def changing():
    """Files come, go and move while a tree is walked: the listing of a moment, or an error; until some walks of each kind
    have ended well."""
    bad, ends, k = [], {0: 0, 1: 0}, -1
    while (k < 13 or ends[0] <= 3) and not bad:
        k += 1
        shutil.rmtree("live", ignore_errors=True)
        steady = tree("live", dirs=12, files=10)
        open("live/d03/mover", "wb").close()
        p = subprocess.Popen([CTL, "index", "live", "-o", "live.listing"],
                             stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE,
                             env={
                                 **os.environ, "LD_PRELOAD": FAILING,
                                 "FAILING_NAP": "4000"
                             })
        at, until = "d03", time.monotonic() + (3 if k % 4 == 0 and k < 14 else chance.uniform(0.01, 0.2) / max(1, k - 13))
        while p.poll() is None and time.monotonic() < until:
            to = f"d{chance.randrange(12):02}"
            os.rename(f"live/{at}/mover", f"live/{to}/mover")
            at = to
            what = chance.randrange(4)
            if what == 0:
                open(f"live/{to}/new{chance.randrange(5)}", "wb").close()
            elif what == 1:
                for f in glob.glob(f"live/{to}/new*")[:1]:
                    os.unlink(f)
            elif what == 2:
                os.makedirs(f"live/{to}/sub{chance.randrange(3)}", exist_ok=True)
            else:
                for f in glob.glob(f"live/{to}/sub*")[:1]:
                    os.rmdir(f)
            time.sleep(chance.uniform(0, 0.004))
        err = p.communicate()[1].decode()
        ends[p.returncode] = ends.get(p.returncode, 0) + 1
        if p.returncode == 1:
            if "chang" not in err or "live" not in err:
                bad.append(f"run {k}: {err}")
            continue
        names = names_of("live.listing") or []
        movers = [n for n in names if n.endswith(b"mover")]
        if (len(set(names)) != len(names) or set(steady) - set(names) or len(movers) != 1
                or any(not n.rsplit(b"/")[-1].startswith(b"new")
                       for n in set(names) - set(steady) - set(movers))):
            bad.append(
                f"run {k}: {len(names)} names, {movers}, missing {sorted(set(steady) - set(names))[:3]}")
    check(f"a tree that changes, {ends}", "; ".join(bad))


def racy():
    """A change in the clock tick of a listing is seen by who is given that."""
    os.makedirs("race")
    bad, given = [], {"SHARD_LISTING": WORK + "/race.listing"}
    for k in range(25):
        for f in os.listdir("race"):
            os.unlink("race/" + f)
        names = sorted({b"a%02d" % k, b"b%02d" % k, b"c%02d" % k})
        for n in names:
            open(b"race/" + n, "wb").close()
            time.sleep(chance.choice((0, 0, 0.002)))
        run(CTL, "index", "race", "-o", "race.listing")
        job = {**given, "SHARD_JOB": f"race{k}"}
        if k % 5 == 0:
            good = gather(ranks(WORK + "/bin", 1, "cache6", lambda r: {**job, "SHARD_JOB": f"good{k}"}, "race"))
            bad += [] if good == [(0, names, "")] else [f"round {k}: {good}"]
        open(b"race/d%02d" % k, "wb").close()
        status, got, err = gather(ranks(WORK + "/bin", 1, "cache6", lambda r: job, "race"))[0]
        if status != 1 or got or not err.startswith("-116:"):
            bad.append(f"round {k}: {got}, {err}")
    check("changes in the same tick", "; ".join(bad[:4]))


def main():
    print(f"SEED={SEED}")
    parts = [
        failing_calls, full_disk, limits, odd_targets, killed, only_its_own, elections, host_calls,
        together, timeouts, replaced, other_versions, changing, racy
    ]
    chosen = sys.argv[1:]
    try:
        prepare()
        for part in parts:
            begin = time.monotonic()
            if not chosen or part.__name__ in chosen:
                part()
                print(f"-- {part.__name__}: {time.monotonic() - begin:.1f} s", flush=True)
    finally:
        os.chdir("/")
        subprocess.run(f"umount {WORK}/out {WORK}/full {WORK}/odd/ro",
                       shell=True,
                       stderr=subprocess.DEVNULL)
        shutil.rmtree(WORK)
        shutil.rmtree(DISK)
    return verdicts.conclude()


if __name__ == "__main__":
    sys.exit(main())
