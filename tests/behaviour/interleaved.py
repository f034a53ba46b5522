#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The cache's protocol, system call by system call (tests/programs/schedule.c).

A process stops at its k-th point, something else happens, and it goes on: for all k. What happens is that another
rank asks, that somebody is killed, that shardctl cache gc runs, or that the dataset changes. In the end each rank has
its share of one right listing or an error, nothing hangs, no lock is held, and nothing is left behind.

    python3 -m tests.behaviour.interleaved               each STRIDE-th point, from a random one
    python3 -m tests.behaviour.interleaved --all         all points, and RANDOM pairs of points of each case
    python3 -m tests.behaviour.interleaved --filter 'kill' [--points 7,12]

SEED, a variable of the environment, repeats a run's random choices; it is printed first.
"""
import argparse
import dataclasses
import fcntl
import glob
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

from tests.harness import confine, paths, processes
from tests.harness.verdicts import Verdicts

STRIDE = 50
RANDOM = 25  # of each case, with --all
AGE = "no process of that job has it open"  # said of a job's name, where a rank has ended before another begins
OWN = r"[0-9a-f]{32}\.named\.listing|ranks"

confine.begin()
WORK = os.path.realpath(tempfile.mkdtemp(prefix="shard-interleaved.", dir="/dev/shm"))  # fsync takes no time there
BIN = tempfile.mkdtemp(prefix="shard-interleaved.")  # where programs may lie
PLACE = os.path.join(WORK, "place")  # points are calls that have to do with it
DATA = os.path.join(PLACE, "data")
SCHEDULE = os.path.join(BIN, "schedule")
NAMES = {"before": {f"f{i}" for i in range(8)}}
NAMES["added"] = NAMES["before"] | {"a new"}
NAMES["replaced"] = {f"g{i}" for i in range(8)}
CHANGES = {"added": f"touch '{DATA}/a new'", "replaced": f"mv {DATA} {PLACE}/gone && mv {PLACE}/other {DATA}"}
ENVIRONMENT = dict(os.environ)


@dataclasses.dataclass(frozen=True)
class Case:
    """What happens at each of the points of one of a (rank 0), b (rank 1) and g (shardctl cache gc)."""
    name: str
    plan: str  # operations of schedule.c; POINT is replaced by the number
    cache: str = ""  # what is there: what a dead builder has "left", or the job's listing, "damaged"
    change: str = ""  # what the plan does to the dataset
    dead: str = ""  # who may be killed
    errors: str = ""  # who may have an error instead
    again: bool = False  # rank 0 is started once more in the end, as c
    timeout: int = 200

    @property
    def actors(self):
        """Whom the plan names."""
        return [name for name in "abcg" if re.search(rf"\b(?:until|run|end|kill)(?: \w)* {name}\b", self.plan)]


def cases():
    """All of them: two ranks of a job."""
    gc, most = f"do {paths.SHARDCTL} cache gc", f"do {paths.SHARDCTL} cache gc --older-than 0"
    for cache in ("", "left", "damaged"):
        has = f", {cache} files" if cache else ""
        yield Case(f"both ask{has}", "until a POINT , run b , end a b", cache=cache)
        yield Case(f"killed{has}", "until a POINT , kill a , run b , end a b", cache=cache, dead="a")
        yield Case(f"gc{has}", f"until a POINT , {gc} , end a , end b", cache=cache)
        yield Case(f"gc of all{has}", f"until a POINT , {most} , end a , end b", cache=cache)
    for held in (14, 40, 60):
        yield Case(f"a waiter is killed, {held}", f"until a {held} , until b POINT , kill b , end a b", dead="b")
    for how in ("added", "replaced"):
        yield Case(how, "until a POINT , do CHANGE , end a , end b", change=how, errors="a")
        yield Case(f"{how} between", "until a POINT , do CHANGE , run b , end a b", change=how, errors="a")
    yield Case("gc stops", "until g POINT , run a , run b , end g a b", cache="left")
    yield Case("gc is killed", "until g POINT , run a , kill g , end g a b", cache="left", dead="g")


# ---- the place ---------------------------------------------------------------------------------


def fill(folder, names):
    """A folder of empty files."""
    os.mkdir(folder)
    for name in names:
        open(os.path.join(folder, name), "wb").close()


def variables(case, who):
    """Of a rank of the case: a, b, c; d is none of them, and asks for all."""
    rank, size = {"a": (0, 2), "b": (1, 2), "c": (0, 2), "d": (0, 1)}[who]
    env = {"LD_PRELOAD": paths.LIBRARY, "SHARD_DATASET": DATA, "SHARD_RANK": rank, "SHARD_SIZE": size,
           "SHARD_CACHE_DIR": os.path.join(PLACE, "cache"),
           "SHARD_TIMEOUT": 200 if who == "d" else case.timeout}
    env["SHARD_JOB"] = "last" if who == "d" else "job"
    return {name: str(value) for name, value in env.items()}


def ask(case, who, **more):
    """A rank that nobody stops: its names and what it says; None if it fails."""
    done = subprocess.run(["ls", "-U", DATA], env={**ENVIRONMENT, **variables(case, who), **more}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                          check=False)
    return (set(done.stdout.splitlines()) if done.returncode == 0 else None), done.stderr


def prepare(case):
    """Make the place anew."""
    shutil.rmtree(PLACE, ignore_errors=True)
    for folder in ("", "cache"):
        os.mkdir(os.path.join(PLACE, folder), 0o700)
    fill(DATA, NAMES["before"])
    fill(os.path.join(PLACE, "other"), NAMES["replaced"])
    if case.cache:
        ask(case, "a")
    for name in glob.glob(PLACE + "/cache/*.listing"):
        if case.cache == "damaged":
            os.truncate(name, 600)
        else:
            os.rename(name, name.replace(".named.listing", ".new.12345"))


# ---- what came of it ---------------------------------------------------------------------------


SHARES = {}  # of a rank of two, by version


def learn_shares():
    """What each rank has of each version if nothing happens."""
    for version, names in NAMES.items():
        case = Case("", "")
        prepare(case)
        if version != "before":
            subprocess.run(["sh", "-c", CHANGES[version]], check=True)
        mine = {who: ask(case, who)[0] for who in "ab"}
        assert mine["a"] | mine["b"] == names and not mine["a"] & mine["b"] and mine["a"], mine
        assert all(mine[who] != other[who] for other in SHARES.values() for who in mine), mine
        SHARES[version] = mine | {"c": mine["a"]}


def content(path):
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()


def has(who, version):
    return set(content(f"{WORK}/{who}.out").splitlines()) == SHARES[version][who]


def judge(case, lines):
    """What is wrong, a line each."""
    ends = {words[0]: words[1:] for words in map(str.split, lines) if len(words) == 3 and words[1] in ("exit", "signal")}
    versions, killed = {}, {words[0] for words in map(str.split, lines) if words[1:] == ["killed"]}
    for who in case.actors:
        said = content(f"{WORK}/{who}.err")
        if who not in ends:
            yield f"{who} has not ended"
        elif ends[who] == ["signal", "9"] and who in killed & set(case.dead):
            continue
        elif who == "g":
            if ends[who] != ["exit", "0"]:
                yield f"gc: {ends[who]}, {said}"
        elif ends[who][0] != "exit" or ends[who][1] != "0":
            if who not in case.errors or not said or ends[who][0] != "exit":
                yield f"{who} fails: {ends[who]}, {said}"
        else:
            if case.change == "replaced" and set(content(f"{WORK}/{who}.out").splitlines()) == NAMES["before"]:
                continue  # it had the old root open, and had not looked yet: a limit (libshard(7))
            versions[who] = [v for v in SHARES if has(who, v) and v in ("before", case.change)]
            if not versions[who]:
                yield f"{who} has {sorted(content(f'{WORK}/{who}.out').splitlines())}, {said}"
            if said and not case.change and AGE not in said:
                yield f"{who} says {said}"
    found = [set(v) for v in versions.values()]
    if found and not set.intersection(*found):
        yield f"ranks differ: {versions}; {[content(f'{WORK}/{who}.err') for who in versions]}"


def look_back(case):
    """What is wrong with what is left, a line each."""
    if case.change and not os.path.exists(f"{WORK}/do.out"):
        yield "nothing was changed"
    now = set(os.listdir(DATA))
    listings = len(glob.glob(PLACE + "/cache/*.listing"))
    if not case.dead and "older-than" not in case.plan and listings != 1:
        yield f"{listings} listings were made"
    for lock in glob.glob(PLACE + "/cache*/*.lock"):
        with open(lock, "rb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield f"{lock} is locked"
    got, said = ask(case, "d")
    if got != now or said:
        yield f"who comes later has {got}, {said}"
    for cache in glob.glob(PLACE + "/cache*"):
        done = subprocess.run([paths.SHARDCTL, "cache", "gc"], env={**ENVIRONMENT, "SHARD_CACHE_DIR": cache}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            yield f"gc: {done.stdout}"
    left = [name for folder in os.listdir(PLACE) if folder.startswith("cache")
            for name in os.listdir(os.path.join(PLACE, folder)) if not re.fullmatch(OWN, name)]
    if left:
        yield f"left: {left}"


class Explorer:
    """Runs cases, and counts."""

    def __init__(self, chance):
        self.chance, self.runs, self.bad = chance, 0, []

    def run(self, case, point=0):
        """One run. Whether the point was there."""
        plan, at = case.plan.replace("POINT", str(point)), case.plan.partition("POINT")[0].count(" , ")
        prepare(case)
        for name in glob.glob(WORK + "/*.out") + glob.glob(WORK + "/*.err"):
            os.unlink(name)
        words = []
        for who in case.actors:
            env = [f"{n}={v}" for n, v in variables(case, who if who != "g" else "d").items() if n != "LD_PRELOAD"]
            command = ([paths.SHARDCTL, "cache", "gc"] if who == "g" else
                       [f"LD_PRELOAD={paths.LIBRARY}", "ls", "-U", DATA])
            words += ["start", who, *env, *command, ","]
        for operation in plan.split(" , "):
            changes = operation == "do CHANGE"
            words += [*(["do", "sh", "-c", CHANGES[case.change]] if changes else operation.split()), ","]
        env = {**ENVIRONMENT, "SHARD_CACHE_DIR": PLACE + "/cache"}
        done = subprocess.run([SCHEDULE, PLACE, *words[:-1]], cwd=WORK, env=env, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False)
        if done.returncode == 77:
            print("skip interleavings: ptrace or seccomp is not allowed")
            sys.exit(0)
        lines = done.stdout.splitlines()
        wrong = ([f"status {done.returncode}"] if done.returncode else []) + list(judge(case, lines))
        wrong += list(look_back(case)) if not done.returncode else []
        self.runs += 1
        if wrong:
            self.bad.append(f"{plan}: {' | '.join(lines)[:600]}\n   " + "\n   ".join(w[:700] for w in wrong))
        return lines[at:] and lines[at].split()[1] == "at"

    def explore(self, case, points):
        """Stop at each of these points, as far as there are so many. Returns how many there were."""
        count = 0
        for point in points:
            if not self.run(case, point):
                break
            count = point
        return count

    def pairs(self, case, count, most):
        """Stop one, then the other one, then the first one again, at random points."""
        happens = re.findall(r"do [^,]*[^, ]|kill \w", case.plan)
        case = dataclasses.replace(case, dead="ab" if case.dead else "", errors="ab" if case.change else "")
        for _ in range(count):
            one, two, three = (self.chance.randint(1, most) for _ in range(3))
            who, other = self.chance.choice(("ab", "ba"))
            what = re.sub(r"kill \w", f"kill {other}", (happens or [f"run {who}"])[0])
            plan = f"until {who} {one} , until {other} {two} , {what} , until {who} {three} , run {other} , end"
            self.run(dataclasses.replace(case, plan=f"{plan} {' '.join(case.actors)}"))


def main():
    processes.end_jobs_on_signals()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="all points, and pairs of points")
    parser.add_argument("--filter", default="", help="only cases that this regex is found in")
    parser.add_argument("--points", help="only these points: numbers, separated by commas")
    args = parser.parse_args()
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"SEED={seed}")
    verdicts, chance = Verdicts(), random.Random(seed)
    subprocess.run(["gcc", "-O1", "-D_GNU_SOURCE", "-o", SCHEDULE, paths.source("programs", "schedule.c")], check=True)
    os.chdir(WORK)
    try:
        learn_shares()
        for case in cases():
            if not re.search(args.filter, case.name):
                continue
            explorer = Explorer(chance)
            first = 0
            if args.points:
                points = list(map(int, args.points.split(",")))
            elif args.all:
                points = range(1, 1000)
            else:
                first = chance.randint(1, STRIDE)
                while first > 1 and not explorer.run(case, first):
                    first = chance.randint(1, first - 1)
                points = range(first + STRIDE, 1000, STRIDE)
            most = max(first, explorer.explore(case, points))
            if args.all and set("ab") <= set(case.actors) and "g" not in case.actors:
                explorer.pairs(case, RANDOM, most)
            if most == 0 and not explorer.bad:
                explorer.bad.append("there are no points")
            verdicts.tell(f"{case.name}: {most} points, {explorer.runs} runs",
                          [*explorer.bad[:3], *([f"and {len(explorer.bad) - 3} more"] if explorer.bad[3:] else [])])
    finally:
        os.chdir("/")
        shutil.rmtree(WORK, ignore_errors=True)
        shutil.rmtree(BIN, ignore_errors=True)
    return verdicts.conclude()


if __name__ == "__main__":
    sys.exit(main())
