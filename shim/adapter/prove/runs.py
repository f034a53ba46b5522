# SPDX-License-Identifier: MIT
"""runs: DLIO under mpirun on data that it generates itself, unmodified and under libshard.

First many small lists: what initialize() and reconfigure() make of folders of all kinds, on each
rank. Then whole runs: the files that are opened, and the steps.
"""
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from .. import LIBRARY, SOURCES
from ..native import native
from .rank import settings
from .shapes import members

# ---- what is run ---------------------------------------------------------------------------------

DATASETS = {  # name: (format, samples per file, folders, training files, files of evaluation)
    "flat": ("jpeg", 1, 0, 24, 12),
    "folders": ("jpeg", 1, 4, 24, 12),
    "samples": ("npz", 3, 0, 24, 12),
    "records": ("tfrecord", 2, 0, 24, 12),
    "groups": ("parquet", 8, 0, 12, 12),
}

SEEDED = {"reader.file_shuffle": "seed", "reader.sample_shuffle": "seed"}
RUNS = (  # name, data set, loader, numbers of ranks, options
    ("map-style, workers", "flat", "pytorch", (2,), {"reader.read_threads": 2}),
    ("map-style, folders, shuffled", "folders", "pytorch", (2, 3), {"train.epochs": 3, **SEEDED}),
    ("map-style, several samples a file, shuffled", "samples", "pytorch", (2, 3), SEEDED),
    ("map-style, a subset", "flat", "pytorch", (2,), {"dataset.num_files_train": 16,
                                                     "dataset.num_files_eval": 8}),
    ("row groups", "groups", "pytorch", (2,), {"reader.read_threads": 1}),
    ("from_generator, shuffled", "samples", "tensorflow", (2,), {"reader.read_threads": 2,
                                                                 **SEEDED}),
    ("names that are made", "folders", "pytorch", (2, 3), {
        "dataset.skip_listing": True, "dataset.listing_validation_interval": 5, **SEEDED}),
    ("TFRecord", "records", "tensorflow", (2,), {"reader.read_threads": 1}),
)


def sizes(name):
    """The options that tell a data set's sizes."""
    _, spf, folders, train, valid = DATASETS[name]
    return {"dataset.num_files_train": train, "dataset.num_files_eval": valid,
            "dataset.num_samples_per_file": spf, "dataset.num_subfolders_train": folders,
            "dataset.num_subfolders_eval": folders}


def touch(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8"):
        pass


def make_layouts(folder, pick, formats):
    """Folders of empty files, as they come: {name: (format, folders, training files, others)}. formats: all that
    this DLIO has; a few folders of those that are not the most frequent."""
    made = {}
    words = ["img_%d", "img_%03d_of", "a b%d", "é%d", "X%d", "%d", "-%d", "z.%d"]

    def names(count, fmt):
        found = set()
        while len(found) < count:
            found.add("%s.%s" % (pick.choice(words) % pick.randrange(1000), fmt))
        found = sorted(found)
        pick.shuffle(found)
        return found

    def make(name, fmt, folders, train, valid, others):
        made[name] = fmt, len(folders) if folders != [""] else 0, train, valid
        for kind, many in (("train", train), ("valid", valid)):
            place = os.path.join(folder, name, kind)
            for one in folders:
                os.makedirs(os.path.join(place, one))
            for k, entry in enumerate(names(many, fmt)):
                touch(os.path.join(place, folders[k % len(folders)], entry))
            for other in others:
                touch(os.path.join(place, folders[0], other))

    for fmt in ("jpeg", "npz"):
        for i, count in enumerate((1, 2, 5, 8, 12, 24, 33, 64)):
            others = ("notes.txt", ".hidden." + fmt, "UPPER." + fmt.upper(), "nodot" + fmt)
            make("flat%d%s" % (i, fmt[0]), fmt, [""], count, pick.choice((0, 1, 4, 9, 16)) if i else 1,
                 others if i % 2 else ())
        for i, (folders, count) in enumerate(((1, 3), (2, 8), (3, 12), (4, 24), (10, 30))):
            make("folders%d%s" % (i, fmt[0]), fmt, ["%02d" % k for k in range(folders)], count,
                 pick.choice((folders, 2 * folders, 8)), ("notes.txt", ".hidden." + fmt) if i % 2 else ())
    for i, fmt in enumerate(sorted(set(formats) - {"jpeg", "npz"})):
        make("more-flat%d" % i, fmt, [""], 12, 4, ("UPPER." + fmt.upper(), "other." + fmt[::-1]))
        make("more-folders%d" % i, fmt, ["0", "1", "2"], 12, 6, ("notes.txt",))
    return made


def list_case(name, path, fmt, ranks, loader, scratch, pick, options):
    """A case of kind "list": these options, and what does not depend on the files."""
    options.update({
        "dataset.num_samples_per_file": pick.choice((1, 1, 2, 3, 7)),
        "reader.batch_size": pick.choice((1, 1, 2, 3)), "reader.batch_size_eval": pick.choice((1, 1, 1, 2)),
        "reader.read_threads": pick.choice((0, 1, 2, 3)),
        "train.seed": pick.choice((123, 7)), "train.seed_change_epoch": pick.random() < .7,
        "workflow.evaluation": pick.random() < .8})
    for what in ("file_shuffle", "sample_shuffle"):
        value = pick.choice(("seed", "random", "off", "seed", None))
        if value is not None:
            options["reader." + what] = value
    return {"name": name, "kind": "list", "epochs": 2, "about": dict(options, loader=loader, ranks=ranks),
            "options": settings(path, os.path.join(scratch, "work"), fmt, loader, options)}


def list_cases(layouts, folder, scratch, loaders, ranks, count, pick):
    """Cases of kind "list": every second one of a format that is less frequent, of which each has its turn."""
    more = sorted(name for name in layouts if name.startswith("more-"))
    usual = sorted(layouts.keys() - set(more))
    for number in range(count):
        name = more[number // 2 % len(more)] if more and number % 2 else pick.choice(usual)
        fmt, folders, train, valid = layouts[name]
        step = pick.choice((1, 1, 2, ranks, 2 * ranks))
        options = {
            "dataset.num_files_train": pick.choice((
                train, train, train - train % step, max(train - 1, 1), train + 1,
                (train + 1) // 2)),
            "dataset.num_files_eval": pick.choice((valid, valid, valid - valid % step, 0)),
            "dataset.num_subfolders_train": folders, "dataset.num_subfolders_eval": folders}
        sampler = pick.choice((None, None, None, "iterative", "index"))
        if sampler:
            options["reader.data_loader_sampler"] = sampler
        path = os.path.join(folder, name)
        path = pick.choice((path, path, path + "/", folder + "/./" + name,
                            os.path.relpath(path, scratch)))
        case = list_case("list-%d-%03d" % (ranks, number), path, fmt, ranks, pick.choice(loaders), scratch,
                         pick, options)
        case["about"]["folder"] = name
        yield case


def made_cases(scratch, loaders, ranks, count, pick):
    """Cases of kind "list" where nothing is listed: each rank makes its names (skip_listing)."""
    for number in range(count):
        train, valid = pick.choice((1, 5, 12, 33, 64, 120, 1000)), pick.choice((0, 4, 16, 64, 101))
        # There are no files: where one is missed, rank 0 alone ends, and the job with it.
        interval = 1 + number % 3 if number % 16 == 7 else 0
        case = list_case(
            "made-%d-%03d" % (ranks, number), os.path.join(scratch, "data", "made"),
            pick.choice(("jpeg", "npz")), ranks, pick.choice(loaders), scratch, pick, {
                "dataset.skip_listing": True, "dataset.listing_validation_interval": interval,
                "dataset.num_files_train": train, "dataset.num_files_eval": valid,
                "dataset.num_subfolders_train": pick.choice((0, 0, 1, 2, 7, 10, 55)),
                "dataset.num_subfolders_eval": pick.choice((0, 1, 3))})
        yield dict(case, many=train // ranks > 3 and not interval)


def with_arguments(case, asked, pick):
    """A case with other values of what functions of a new shape ask for."""
    case["arguments"] = {name: pick.choice(values) for name, values in sorted(asked.items())
                         if pick.random() < .6}
    case["about"].update(case["arguments"])
    return case


# ---- jobs ----------------------------------------------------------------------------------------


def process_tree(pid):
    """The process and all its descendants."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, encoding="utf-8", errors="replace") as stream:
                    parent = int(stream.read().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it has ended meanwhile
            children.setdefault(parent, []).append(int(name))
    tree = [pid]
    for member in tree:
        tree.extend(children.get(member, ()))
    return tree


def kill_tree(pid):
    for member in process_tree(pid):
        try:
            os.kill(member, signal.SIGKILL)
        except ProcessLookupError:
            pass


TOO_LONG = "it took too long; try it on a machine that does nothing else"


class Fault(Exception):
    """Why nothing can be proven here; it says nothing about the DLIO."""


class Runner:
    """Starts the jobs of one `shardctl prove`."""

    STALL = 200  # seconds without any result after which a job hangs

    def __init__(self, scratch, env, deadline, say):
        self.scratch, self.env, self.deadline, self.say = scratch, env, deadline, say
        self.data = os.path.join(scratch, "data")
        self.program = os.path.join(scratch, "rank.py")
        with open(self.program, "w", encoding="utf-8") as stream:
            stream.write(SOURCES["prove/rank.py"])
        self.mpirun = self._find_mpirun()
        self.jobs, self.again = 0, 6

    def _find_mpirun(self):
        path = shutil.which("mpirun", path=self.env["PATH"]) or shutil.which(
            "mpiexec", path=self.env["PATH"])
        if path is None:
            raise Fault("there is no mpirun in PATH, which the proof's runs need")
        said = subprocess.run([path, "--version"], env=self.env, capture_output=True, check=False,
                              stdin=subprocess.DEVNULL)
        line = [path]
        if b"Open MPI" in said.stdout or b"OpenRTE" in said.stdout or b"PRTE" in said.stdout:
            line += ["--oversubscribe", "--bind-to", "none"]
            if os.geteuid() == 0:
                line.append("--allow-run-as-root")
            self.env.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
            self.env.setdefault("OMPI_MCA_btl_vader_single_copy_mechanism", "none")
        return line

    def variables(self, side, ranks):
        """What is set for the ranks."""
        if side == "generate":
            return {}, None
        stats = os.path.join(self.scratch, "%s-%d-%d" % (side, ranks, self.jobs))
        found = {"LD_PRELOAD": LIBRARY, "SHARD_STATS": stats + ".%r", "SHARD_LOG": "warn",
                 "SHARD_DATASET": self.data, "SHARD_CACHE_DIR": os.path.join(self.scratch, "cache")}
        if side == "unmodified":
            found.update(SHARD_ADAPTER="off", SHARD_VIEW="off")
        else:
            found["SHARD_KNOWN"] = os.path.join(self.scratch, "known.json")
        return found, stats + ".%d.log"

    def names(self):
        """What the log may tell of: ({hash: name}, {hash: root})."""
        names, roots = {}, {}

        def hash_of(text):
            text = os.fsencode(text)
            return str(native().stats_hash(text, len(text)))

        for folder, _, files in os.walk(self.data):
            for path in (os.path.join(folder, file) for file in files):
                parts = os.path.relpath(path, self.data).split("/")
                for depth in range(min(len(parts), 3)):
                    root = os.path.join(self.data, *parts[:depth])
                    roots[hash_of(os.path.realpath(root))] = root
                    name = path[len(root) + 1:]
                    names[hash_of(name)] = name
        return names, roots

    def run(self, side, ranks, cases):
        """{case: [each rank's result, None if it has none]}."""
        results = self._run(side, ranks, cases)
        # What was stopped may have been slow, or not to blame: once more, by itself.
        for case in cases:
            if None in results[case["name"]] and self.again > 0:
                self.again -= 1
                results.update(self._run(side, ranks, [case]))
        return results

    def _run(self, side, ranks, cases):
        out = os.path.join(self.scratch, "%s-%d" % (side, ranks))
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)

        def path(case, rank):
            return os.path.join(out, "%s.%d.json" % (case["name"], rank))

        def results(case):
            found = []
            for rank in range(ranks):
                try:
                    with open(path(case, rank), encoding="utf-8") as stream:
                        found.append(json.load(stream))
                except OSError:
                    found.append(None)
            return found

        names, roots = self.names() if side != "generate" else ({}, {})
        rest = list(cases)
        while rest:
            self.jobs += 1
            variables, log = self.variables(side, ranks)
            plan = os.path.join(out, "plan.json")
            with open(plan, "w", encoding="utf-8") as stream:
                json.dump({"out": out, "log": log, "names": names, "roots": roots, "cases": rest},
                          stream)
            reason = self._job(ranks, variables, plan, os.path.join(out, "job.log"),
                               lambda rest=rest: sum(os.path.exists(path(case, 0))
                                                     for case in rest))
            # The first one that not all ranks have ended is where the job was stopped.
            done = next((i for i, case in enumerate(rest) if None in results(case)), len(rest))
            if done < len(rest) and reason == "time":
                raise Fault(TOO_LONG)
            if done == 0 and self.jobs > 12 and results(rest[0]).count(None) == ranks:
                raise Fault("runs of this DLIO do not start: %s" % self.tail(out))
            rest = rest[done + 1:]
        every = {case["name"]: results(case) for case in cases}
        if len(cases) > 1 and all(found.count(None) == ranks for found in every.values()):
            raise Fault("runs of this DLIO do not start: %s" % self.tail(out))
        return every

    def tail(self, out):
        """The last line of a job's log that says something."""
        with open(os.path.join(out, "job.log"), encoding="utf-8", errors="replace") as stream:
            lines = [line.strip() for line in stream if line.strip(" -\n*")]
        errors = [line for line in lines if "Error" in line or "Exception" in line]
        return ((errors or lines or ["no message"])[-1])[:300]

    def _job(self, ranks, variables, plan, log, count):
        """Run one job; "" or why it was stopped."""
        command = [*self.mpirun, "-n", str(ranks), "env",
                   *("%s=%s" % item for item in variables.items()),
                   sys.executable, self.program, plan]
        with open(log, "ab") as output:
            # pylint: disable=consider-using-with
            job = subprocess.Popen(command, env=self.env, cwd=self.scratch, stdout=output,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        seen, since = 0, time.monotonic()
        try:
            while True:
                try:
                    job.wait(0.1)
                    return ""
                except subprocess.TimeoutExpired:
                    pass
                now = count()
                if now != seen:
                    seen, since = now, time.monotonic()
                if time.monotonic() > self.deadline:
                    return "time"
                if time.monotonic() - since > self.STALL:
                    return "stalled"
        finally:
            if job.poll() is None:
                kill_tree(job.pid)
                job.wait()


# ---- comparing -----------------------------------------------------------------------------------


def leaves(value, where=()):
    """(where, value) of all that a JSON value is made of."""
    if isinstance(value, (dict, list)) and value:
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(one, where + (key,))
    else:
        yield where, value


class Differs(Exception):
    """(function, what was put in, what came of it unmodified, and under libshard)."""


def clipped(value, most=300):
    text = str(value)
    return text if len(text) <= most else text[:most] + "..."


def same_result(case, rank, theirs, ours):
    """Differs where two results of a rank do; opens are compared by themselves."""
    one, other = (dict(leaves({key: value for key, value in (result or {"error": "no result"}).items()
                               if key not in ("opens", "type")})) for result in (theirs, ours))
    for where in sorted({**one, **other}, key=lambda where: where != ("error",)):
        plain, adapted = (repr(found[where]) if where in found else None for found in (one, other))
        if plain != adapted:
            raise Differs(None, dict(case["about"], rank=rank, at=".".join(map(str, where))),
                          *(clipped(found.get(where, "nothing")) for found in (one, other)))


def compare_lists(cases, theirs, ours):
    """How many cases agree; Differs. At least some must have been lazy, and without an error: those that DLIO
    has not cut down to no file at all, as some versions do where the samples do not divide."""
    good = lazy = many = made = 0
    for case in cases:
        name = case["name"]
        for rank, (one, other) in enumerate(zip(theirs[name], ours[name])):
            same_result(case, rank, one, other)
            if not one or "error" in one or not one["epochs"][0][0]:
                continue
            answered, makes = other.get("type") == "_libshard", case.get("many", False)
            good, lazy = good + 1, lazy + answered
            many, made = many + makes, made + (makes and answered)
    if not good:
        first = next((one for case in cases for one in theirs[case["name"]] if one), {})
        raise Fault("initialize() of this DLIO fails on every list: %s"
                    % str(first.get("error"))[:300])
    if lazy * 2 < good or made * 2 < many:
        raise Differs(None, {"at": "the list of files"}, "a list that the adapter answers",
                      "an unmodified list in %d of %d cases, %d of %d with skip_listing" % (
                          good - lazy, good, many - made, many))
    return good


def other_opens(case, unmodified, ours):
    """(rank, path, numbers of opens in unmodified runs, ours) where that lies outside of those; None."""
    for rank in range(len(ours)):
        counts = [(results[rank] or {}).get("opens", {}) for results in (*unmodified, ours)]
        if not case["exactly"]:
            counts = [dict.fromkeys(one, 1) for one in counts]
        for path in sorted(set().union(*counts)):
            *numbers, number = (one.get(path, 0) for one in counts)
            if not min(numbers) <= number <= max(numbers):
                return rank, path, numbers, number
    return None


class Proof:
    """The runs of one candidate."""

    def __init__(self, runner, tree, say):
        self.runner, self.tree, self.say = runner, tree, say
        self.out = os.path.join(runner.scratch, "work")
        os.makedirs(self.out, exist_ok=True)
        os.makedirs(runner.data, exist_ok=True)
        self.loaders = [name for name, module in (("pytorch", "torch"), ("tensorflow", "tensorflow"))
                        if importlib.util.find_spec(module)]
        if not self.loaders:
            raise Fault("this Python has neither torch nor tensorflow")

    def makes_names(self):
        """Whether this DLIO can make names instead of listing them."""
        with open(self.tree.path("utils/config.py"), encoding="utf-8") as stream:
            return "skip_listing" in stream.read()

    def lists(self, asked, counts=((2, 64), (3, 32))):
        """The small lists, with other values of the options `asked`: how many; Differs."""
        pick = random.Random(12)
        folder = os.path.join(self.runner.data, "lists")
        shutil.rmtree(folder, ignore_errors=True)  # an earlier candidate's
        layouts, total = make_layouts(folder, pick, members(self.tree, "FormatType")), 0
        for ranks, count in counts:
            cases = list(list_cases(layouts, folder, self.runner.scratch, self.loaders, ranks,
                                    count, random.Random(ranks)))
            if self.makes_names():
                cases += made_cases(self.runner.scratch, self.loaders, ranks, count // 2, random.Random(ranks))
            cases = [with_arguments(case, asked, pick) for case in cases]
            theirs = self.runner.run("unmodified", ranks, cases)
            ours = self.runner.run("libshard", ranks, cases)
            total += compare_lists(cases, theirs, ours)
            self.say("initialize() and reconfigure(), %d lists on %d ranks: alike"
                     % (len(cases), ranks))
        return total

    def generate(self):
        """Let DLIO make the data sets: {those it can make}."""
        cases = []
        for name, (fmt, *_) in DATASETS.items():
            loader = "tensorflow" if fmt == "tfrecord" else "pytorch"
            if loader not in self.loaders:
                loader = self.loaders[0]
            if fmt == "tfrecord" and "tensorflow" not in self.loaders or fmt == "parquet" and not (
                    os.path.exists(self.tree.path("reader/parquet_reader.py"))):
                continue
            options = {**sizes(name), "workflow.generate_data": True, "workflow.train": False,
                       "workflow.evaluation": False}
            cases.append({"name": name, "kind": "run", "epochs": 0, "options": settings(
                os.path.join(self.runner.data, name), self.out, fmt, loader, options)})
        self._helper()
        results = self.runner.run("generate", 1, cases)
        made = {name for name, (found,) in results.items()
                if found is not None and "error" not in found}
        if not made:
            raise Fault("this DLIO generates no data here: %s"
                        % self.runner.tail(os.path.join(self.runner.scratch, "generate-1")))
        return made

    def _helper(self):
        """DLIO calls DALI's tfrecord2idx for TFRecord; an index that nobody reads serves."""
        folder = os.path.join(self.runner.scratch, "bin")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "tfrecord2idx")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write('#!/bin/sh\n: > "$2"\n')
        os.chmod(path, 0o755)
        self.runner.env["PATH"] += os.pathsep + folder

    def runs(self):
        """The whole runs: [(name, ranks)] that agree; Differs."""
        made, agreed = self.generate(), []
        with open(self.tree.path("main.py"), encoding="utf-8") as stream:
            # Its workers read ahead before the first epoch: how often is left to chance.
            ahead = "files_pre_sharded" in stream.read()
        self.say("data generated by this DLIO: " + ", ".join(
            "%s (%s)" % (name, DATASETS[name][0]) for name in sorted(made)))
        for ranks in (2, 3):
            cases = []
            for name, data, loader, numbers, options in RUNS:
                if data in made and loader in self.loaders and ranks in numbers and (
                        self.makes_names() or "dataset.skip_listing" not in options):
                    if options.get("reader.read_threads") == 2 and loader == "pytorch" and (
                            os.path.exists(self.tree.path("reader/parquet_reader.py"))):
                        # Spawned, which takes long.
                        options = {**options, "reader.read_threads": 1, "train.epochs": 1}
                    cases.append({
                        "name": "run-%d" % len(cases), "title": name, "kind": "run", "epochs": 0,
                        "exactly": loader == "pytorch" and not (
                            ahead and options.get("reader.read_threads")), "about": dict(
                            options, run=name, data=data, loader=loader, ranks=ranks),
                        "options": settings(
                            os.path.join(self.runner.data, data), self.out, DATASETS[data][0],
                            loader, {**sizes(data), **options})})
            if not cases:
                continue
            theirs = self.runner.run("unmodified", ranks, cases)
            cases = [case for case in cases if self._runs(case, theirs[case["name"]])]
            if not cases:
                continue
            ours = self.runner.run("libshard", ranks, cases)
            again = None
            for case in cases:
                name = case["name"]
                for rank, (one, other) in enumerate(zip(theirs[name], ours[name])):
                    same_result(case, rank, one, other)
                    if other.get("type") != "_libshard":
                        raise Differs(None, dict(case["about"], rank=rank, at="the list of files"),
                                      "a list that the adapter answers", "an unmodified list")
                if other_opens(case, [theirs[name]], ours[name]):
                    if again is None:  # does it repeat unmodified?
                        again = self.runner.run("unmodified", ranks, cases)
                    differ = other_opens(case, [theirs[name], again[name]], ours[name])
                    if differ:
                        rank, path, numbers, number = differ
                        raise Differs(None, dict(case["about"], rank=rank, file=path),
                                      "opened %s times" % " or ".join(map(str, sorted(set(
                                          numbers)))), "opened %d times" % number)
                agreed.append((case["title"], ranks, sum(
                    sum(one["opens"].values()) for one in ours[name])))
            self.say("whole runs on %d ranks: same opens, same steps: %s" % (
                ranks, "; ".join("%s (%d opens)" % (title, opens)
                                 for title, number, opens in agreed if number == ranks)))
        if not agreed:
            raise Fault("no run of this DLIO ends without an error, unmodified")
        return agreed

    def _runs(self, case, results):
        """Whether a run ends without an error unmodified; else it is told, and proves nothing."""
        fault = next((one.get("error") for one in results if one and "error" in one), None)
        if fault is None and None in results:
            fault = "it hangs or dies"
        if fault is not None:
            self.say("left out, as it fails unmodified: %s: %s" % (case["title"], fault[:200]), True)
        elif not any(one["opens"] for one in results):
            fault = "no open was seen"
            self.say("left out, as no open is seen: %s" % case["title"], True)
        return fault is None
