"""What DLIO reads epoch by epoch: SHARD_WORKERS, SHARD_SHUFFLE, and epochs that read nothing.

    python -m tests.dlio.epochs [--quick] [--ranks 2,4] ...

Each rank's opens are logged by openlog.so, apart for each epoch's training and evaluation. Compared
are runs under the preload with the unmodified one, or with one whose DLIO is changed in a few lines
so that each epoch has workers of its own; and what libshard says of each.
"""
import collections
import dataclasses
import json
import os
import re
import shutil
import sys

from tests.dlio import configs
from tests.harness import confine, options, paths, processes
from tests.harness.verdicts import Verdicts

MEMORY = "served from memory"
NOTHING = re.compile(r"libshard: .*")
# What --quick runs: each way of reading once, each variable by fork and once by spawn, which takes
# three seconds for a worker.
QUICK = {"keep-jpeg", "keep-stops-early", "keep-hdf5-kept-open", "memory-npz", "memory-spawn",
         "respawn-npz-memory", "shuffle-npz", "shuffle-dlio-shuffles", "shuffle-respawn", "shuffle-seed",
         "tensorflow-respawn"}


@dataclasses.dataclass
class Case:
    """A configuration and what is set for it."""
    config: configs.Config
    env: dict = dataclasses.field(default_factory=dict)
    expect: str = ""       # what libshard must say, once, on the first rank; "" for nothing
    as_fresh: bool = False # compared with a DLIO that has fresh workers
    shuffled: bool = False # shares change, and partition the dataset in each epoch

    @property
    def name(self):
        return self.config.name


def served(kind, epoch, files):
    """What is said of an epoch that opened nothing."""
    return (f"{kind}epoch {epoch} opened 0 of {files} files: they were served from memory; its "
            "throughput is not the storage's")


def keeping(ranks):
    """Nothing is set: told are epochs that read nothing, and no others."""
    zipped, photo = configs.plain("npz"), configs.plain("jpeg")
    memory = {"train.epochs": 3, "reader.read_type": "memory"}
    own = configs.TRAIN_FILES // ranks
    plain = {
        "npz": (zipped, {"train.epochs": 3}),
        "jpeg": (photo, {}),
        "spawn": (photo, {"reader.multiprocessing_context": "spawn"}),
        "threads0": (photo, {"reader.read_threads": 0}),
        "stops-early": (photo, {"train.total_training_steps": 1, "train.epochs": 3}),
        "evaluated-once": (photo, {"evaluation.epochs_between_evals": 2, "train.epochs": 3}),
        "hdf5-kept-open": (configs.plain("hdf5", 4), memory),
        "mapped": (configs.plain("mmap_indexed_binary", 4), memory),
    }
    for name, (dataset, more) in plain.items():
        yield Case(configs.Config("keep-" + name, dataset, more))
    for name, more in {"npz": {}, "threads0": {"reader.read_threads": 0},
                       "spawn": {"reader.multiprocessing_context": "spawn"}}.items():
        yield Case(configs.Config("memory-" + name, zipped, {**memory, **more}),
                   expect=served("", 2, own))
    yield Case(configs.Config("memory-folders", configs.plain("jpeg", 1, configs.FOLDERS), memory),
               expect=served("", 2, own))


def respawning(_ranks):
    """SHARD_WORKERS=respawn: each epoch reads, and nothing is told."""
    zipped, photo = configs.plain("npz"), configs.plain("jpeg")
    for name, dataset, more in (
            ("npz-memory", zipped, {"reader.read_type": "memory", "train.epochs": 3}),
            ("threads0", zipped, {"reader.read_type": "memory", "reader.read_threads": 0}),
            ("spawn", zipped, {"reader.read_type": "memory",
                               "reader.multiprocessing_context": "spawn"}),
            ("stops-early", photo, {"train.total_training_steps": 1, "train.epochs": 3}),
            ("hdf5", configs.plain("hdf5", 4), {"reader.read_type": "memory"})):
        yield Case(configs.Config("respawn-" + name, dataset, more), {"SHARD_WORKERS": "respawn"},
                   as_fresh=True)


def reshuffling(_ranks):
    """SHARD_SHUFFLE=epoch: shares change, and are whole in each epoch."""
    zipped, photo = configs.plain("npz"), configs.plain("jpeg")
    shuffle = {"SHARD_SHUFFLE": "epoch"}
    three = {"train.epochs": 3}
    for name, dataset, more in (
            ("npz", zipped, {}), ("threads0", photo, {"reader.read_threads": 0}),
            ("spawn", photo, {"reader.multiprocessing_context": "spawn"}),
            ("folders", configs.plain("jpeg", 1, configs.FOLDERS), {}),
            ("spf", configs.plain("npz", 4), {}),
            ("dlio-shuffles", zipped, {"reader.file_shuffle": "seed",
                                       "reader.sample_shuffle": "seed"}),
            ("subset", photo, {"dataset.num_files_train": 16, "dataset.num_files_eval": 8})):
        yield Case(configs.Config("shuffle-" + name, dataset, {**three, **more}), shuffle,
                   shuffled=True)
    yield Case(configs.Config("shuffle-respawn", zipped, {**three, "reader.read_type": "memory"}),
               {**shuffle, "SHARD_WORKERS": "respawn"}, shuffled=True)
    yield Case(configs.Config("shuffle-seed", zipped, three), {**shuffle, "SHARD_SEED": "7"},
               shuffled=True)


def others(_ranks):
    """Loaders that have nothing of the two."""
    zipped = configs.plain("npz")
    yield Case(configs.Config("tensorflow-keep", zipped, {"train.epochs": 3}, "tensorflow",
                              opens="set"))
    yield Case(configs.Config("tensorflow-respawn", zipped, {}, "tensorflow", opens="set"),
               {"SHARD_WORKERS": "respawn"}, "SHARD_WORKERS=respawn has no effect")
    yield Case(configs.Config("tensorflow-shuffle", zipped, {}, "tensorflow", opens="set"),
               {"SHARD_SHUFFLE": "epoch"}, "SHARD_SHUFFLE=epoch has no effect: it is for")


def cases(ranks):
    """All, in the order in which they run."""
    return [case for part in (keeping, respawning, reshuffling, others) for case in part(ranks)]


def read_log(path):
    """{"train 1": Counter of paths, "eval 1": ...}: what was opened before each mark, apart for the
    folders of both kinds."""
    found, opened = {}, {"train": collections.Counter(), "eval": collections.Counter()}
    with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as stream:
        for line in stream:
            name = line.rstrip("\n").partition(" ")[2]
            if name.startswith("="):
                kind = name[1:].partition(" ")[0]
                found[name[1:]], opened[kind] = opened[kind], collections.Counter()
            elif "/train/" in name or "/valid/" in name:
                opened["train" if "/train/" in name else "eval"][name] += 1
    return found


class Job:
    """The folders and commands of one number of ranks."""

    def __init__(self, args, workdir, ranks):
        self.args, self.ranks = args, ranks
        self.folder = os.path.join(workdir, f"n{ranks}")
        self.data = os.path.join(workdir, "data")

    def run(self, side, wanted, preload, env, fresh):
        """Run all cases on a side in one MPI job; lines about what is wrong, if it fails."""
        out = os.path.join(self.folder, side)
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        plan = os.path.join(out, "plan.json")
        with open(plan, "w", encoding="utf-8") as stream:
            json.dump({"out": out, "runs": [
                {"name": case.name, "env": case.env if preload else {}, "fresh": fresh,
                 "options": configs.settings(case.config, self.data, os.path.join(out, case.name))}
                for case in wanted]}, stream)
        env = {"SHARD_CACHE_DIR": os.path.join(self.folder, "cache"), **env}
        command = processes.mpi_command(
            self.ranks, [self.args.python, paths.source("dlio", "epochs_rank.py"), plan],
            preload + [self.args.openlog], {"OPENLOG_ROOT": self.data + "/", **env})
        log = os.path.join(out, "job.log")
        status, reason = processes.run_job(
            command, processes.environment(self.args.python, self.args.dlio), self.folder, log,
            timeout=3600)
        if status == 0:
            return []
        last = [case.name for case in wanted if os.path.isdir(os.path.join(out, case.name))]
        return [f"{side}: {last[-1] if last else 'nothing'}: {reason or status}",
                processes.tail(log)]

    def result(self, side, case, rank):
        """(opens by epoch, steps, what libshard said) of a rank."""
        base = os.path.join(self.folder, side, case.name, f"rank{rank}")
        with open(base + ".json", encoding="utf-8") as stream:
            result = json.load(stream)
        with open(base + ".err", encoding="utf-8", errors="replace") as stream:
            said = NOTHING.findall(stream.read())
        return read_log(base + ".log"), result, said


def compare_opens(case, bare, shim):
    """Lines that say where two ranks' opens differ."""
    if case.config.options.get("train.total_training_steps"):
        return []  # how much was read ahead when it stopped does not repeat
    if case.config.opens == "set":
        bare, shim = ({epoch: set(opens) for epoch, opens in side.items()} for side in (bare, shim))
    return [f"{epoch}: {len(bare.get(epoch, ()))} files without libshard, "
            f"{len(shim.get(epoch, ()))} with it, or not the same"
            for epoch in sorted({*bare, *shim}) if bare.get(epoch) != shim.get(epoch)]


def check_shuffle(case, bare, shim):
    """What is wrong with shares that are to change."""
    lines = []
    before = {}
    for epoch in shim[0]:
        kind = epoch.split()[0]
        mine, others = ([set(rank[epoch]) for rank in side] for side in (shim, bare))
        every = set().union(*mine)
        if every != set().union(*others):
            lines.append(f"{epoch}: the shares are not the whole")
        if sum(map(len, mine)) != len(every):
            lines.append(f"{epoch}: two ranks opened the same file")
        if list(map(len, mine)) != list(map(len, others)):
            lines.append(f"{epoch}: shares of {list(map(len, mine))}")
        opens = [[sum(rank[epoch].values()) for rank in side] for side in (shim, bare)]
        if not case.config.opens and opens[0] != opens[1]:
            lines.append(f"{epoch}: {opens[0]} opens, {opens[1]} without libshard")
        if len(mine) > 1 and mine == before.get(kind):
            lines.append(f"{epoch}: the shares of another epoch")
        before[kind] = mine
    return lines


def check(job, case):
    """What is wrong with a case, as lines."""
    lines, said = [], []
    side = "fresh" if case.as_fresh or "respawn" in case.name else "bare"
    results = [(job.result(side, case, rank), job.result("shim", case, rank))
               for rank in range(job.ranks)]
    for rank, (bare, shim) in enumerate(results):
        if not any(bare[0].values()):
            lines.append(f"rank {rank}: no open was logged")
        if bare[1]["steps"] != shim[1]["steps"]:
            lines.append(f"rank {rank}: steps {bare[1]['steps']}, {shim[1]['steps']} with libshard")
        if shim[1]["list_type"] == "list":
            lines.append(f"rank {rank}: a plain list")
        if not case.shuffled:
            lines += [f"rank {rank}: {line}" for line in compare_opens(case, bare[0], shim[0])]
        said += [f"rank {rank}: {line}" for line in shim[2]]
    if case.shuffled:
        lines += check_shuffle(case, [bare[0] for bare, _ in results],
                               [shim[0] for _, shim in results])
    if [case.expect in line for line in said] != [True] * bool(case.expect):
        lines.append(f"said: {said}, not once '{case.expect}'" if case.expect else f"said: {said}")
    return lines


def seeds_matter(job, wanted, verdicts):
    """Another seed gives other shares, and the same seed the same, whatever the workers."""
    found = {case.name: [job.result("shim", case, rank)[0] for rank in range(job.ranks)]
             for case in wanted if case.shuffled}
    if job.ranks > 1 and {"shuffle-npz", "shuffle-seed", "shuffle-respawn"} <= set(found):
        verdicts.check("another seed, other shares", found["shuffle-npz"] != found["shuffle-seed"])
        verdicts.check("the same seed, the same shares",
                       found["shuffle-npz"] == found["shuffle-respawn"])


def generate(args, workdir, wanted):
    """Make the datasets."""
    datasets = {case.config.dataset.name: case.config.dataset for case in wanted}
    job = Job(args, workdir, 1)
    made = [Case(configs.Config(name, dataset, {"workflow.generate_data": True,
                                                "workflow.train": False,
                                                "workflow.evaluation": False}))
            for name, dataset in datasets.items()
            if not os.path.isdir(os.path.join(job.data, name)) and not configs.write(dataset, job.data)]
    os.makedirs(job.data, exist_ok=True)
    if made:
        lines = job.run("generate", made, [], {}, False)
        if lines:
            sys.exit("\n".join(lines))


def main():
    """Run all; the exit status is 1 if anything is wrong."""
    confine.begin()
    processes.end_jobs_on_signals()
    parser = options.parser(__doc__, "preload", "openlog", "python", "dlio", "filter", "env",
                            "workdir")
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks, in this order")
    parser.add_argument("--quick", action="store_true", help="some of each part")
    args = options.parse(parser)
    workdir = options.work_folder(args, "dlio-epochs-")
    verdicts = Verdicts()
    for i, ranks in enumerate(map(int, args.ranks.split(","))):
        # How many ranks there are matters where files are dealt to them.
        wanted = [case for case in cases(ranks) if re.search(args.filter, case.name)
                  and (case.name in QUICK or not args.quick)
                  and (i == 0 or case.shuffled or "npz" in case.name)]
        generate(args, workdir, wanted)
        job = Job(args, workdir, ranks)
        fresh = [case for case in wanted if case.as_fresh or "respawn" in case.name]
        failed = (job.run("bare", [case for case in wanted if case not in fresh], [], {}, False)
                  or (fresh and job.run("fresh", fresh, [], {}, True))
                  or job.run("shim", wanted, [args.preload], args.env, False))
        if failed:
            verdicts.tell(f"{ranks} ranks", failed)
            continue
        for case in wanted:
            verdicts.tell(f"{ranks} ranks, {case.name}", check(job, case))
        seeds_matter(job, wanted, verdicts)
    return verdicts.conclude(workdir, args.workdir)


if __name__ == "__main__":
    sys.exit(main())
