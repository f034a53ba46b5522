"""The same-run matrix: real DLIO, unmodified and under the preload, must do the same.

    python -m tests.dlio.matrix [--quick | --but-quick] [--filter TEXT] [--ranks 1,2,4] ...

Every configuration runs twice. Compared, for each rank: its result or error,
the steps of every epoch and block, the lengths of DLIO's file lists, and the
dataset files it opened: how often each, or for TensorFlow's loaders, which read
ahead past the last step, which ones. Prints a line for every configuration;
the exit status is 1 if any differs.

Some DLIOs start workers between the epochs, let them read ahead, and end them:
which files they open there does not repeat. Then the unmodified side runs twice.
What a rank opens in both runs it must open under the preload, too; and nothing
that it opens in neither. Where that fails, the unmodified side runs again, for
it may be chance, and all of its runs count.

A preload that does nothing passes, too. So it is told in how many runs DLIO's
file list was a plain list, and --active lets those fail.

With --control the other side runs naive.so instead, and every configuration
must be found different: the proof that this comparison can fail.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time

from tests.dlio import configs
from tests.dlio.running import reported
from tests.harness import confine, options, paths, processes
from tests.harness.opens import opens_difference, opens_outside, read_opens
from tests.harness.verdicts import Verdicts, printable


def parse_arguments():
    """The command line."""
    parser = options.parser(__doc__, "preload", "openlog", "python", "dlio", "filter", "env", "workdir")
    parser.add_argument("--naive", default=paths.preload("naive"))
    parser.add_argument("--ranks", default="1,2,4", help="numbers of ranks, in this order")
    parser.add_argument("--context", default="", help="start PyTorch's workers by fork or spawn, "
                        "whatever DLIO's default is; spawn takes seconds for each")
    parser.add_argument("--quick", action="store_true", help="a small subset, for 1 and 2 ranks")
    parser.add_argument("--but-quick", action="store_true", help="what --quick leaves out")
    parser.add_argument("--stall", type=float, default=10.0,
                        help="seconds for which no process of a job works, after which it is hung")
    parser.add_argument("--control", action="store_true",
                        help="run naive.so and expect differences")
    parser.add_argument("--active", action="store_true",
                        help="fail where DLIO's file list is a plain list under the preload")
    parser.add_argument("--compress", action="store_true", help="with SHARD_ADAPTER=compress: DLIO makes its lists "
                        "itself, and what it has made is compressed; or it is a DLIO that libshard does not know")
    parser.add_argument("--list", action="store_true", help="print the configurations and stop")
    return options.parse(parser)


class Matrix:
    """The folders and commands of one invocation."""

    def __init__(self, args, workdir):
        self.args = args
        self.workdir = workdir
        self.data = os.path.join(workdir, "data")
        self.environment = processes.environment(args.python, args.dlio)
        self.rank0_lists = lists_on_rank0(args)
        self.bare_sides = []  # those that have run unmodified, for the number of ranks at hand
        for folder in (self.data, os.path.join(self.data, "links")):
            os.makedirs(folder, exist_ok=True)

    def folder(self, side, ranks):
        """Where the results of one side for one number of ranks are."""
        return os.path.join(self.workdir, side, f"n{ranks}")

    def settings(self, config, side, ranks):
        """The options for a run of a configuration."""
        options = configs.settings(config, self.data, os.path.join(self.folder(side, ranks), config.name))
        context = "reader.multiprocessing_context"
        if self.args.context and config.loader == "pytorch" and context not in config.options:
            options[context] = self.args.context
        return options

    def run_plan(self, side, ranks, plan, preload, env):
        """Run a list of (name, options), in as many MPI jobs as it takes."""
        out = self.folder(side, ranks)
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        env = {"OPENLOG_ROOT": self.data + "/", **env}

        rest = plan
        while rest:
            plan_file = os.path.join(out, "plan.json")
            with open(plan_file, "w", encoding="utf-8") as stream:
                json.dump({"out": out, "configs": [{"name": name, "options": options}
                                                   for name, options in rest]}, stream)
            command = processes.mpi_command(
                ranks, [self.args.python, paths.source("dlio", "matrix_rank.py"), plan_file], preload, env)
            _, reason = processes.run_job(command, self.environment, self.workdir,
                                          os.path.join(out, "job.log"), timeout=3600, idle=self.args.stall)
            started = [i for i, (name, _) in enumerate(rest)
                       if os.path.isdir(os.path.join(out, name))]
            if not started:
                sys.exit(f"no configuration was started ({reason or 'the job failed'}):"
                         f" see {out}/job.log\n{processes.tail(os.path.join(out, 'job.log'))}")
            rest = rest[started[-1] + 1:]

    def generate(self, wanted):
        """Make the datasets that are not there yet."""
        missing = {config.dataset.name: config for config in wanted if not config.private
                   and not os.path.exists(os.path.join(self.data, config.dataset.name + ".made"))}
        plan = []
        for name, config in missing.items():
            shutil.rmtree(os.path.join(self.data, name), ignore_errors=True)
            if configs.write(config.dataset, self.data):
                continue
            loader = "tensorflow" if config.dataset.format == "tfrecord" else "pytorch"
            plain = configs.Config(name, config.dataset, {"workflow.generate_data": True,
                                                          "workflow.train": False}, loader)
            plan.append((name, self.settings(plain, "generate", 1)))
        if plan:
            self.run_plan("generate", 1, plan, [], {})
        for name, config in missing.items():
            folder = os.path.join(self.data, name)
            if config.dataset.edit:
                config.dataset.edit(os.path.join(folder, "train"), os.path.join(folder, "valid"))
            link = os.path.join(self.data, "links", name)
            if not os.path.islink(link):
                os.symlink(folder, link)
            result = self.result("generate", 1, name, 0)
            with open(folder + ".made", "w", encoding="ascii"):
                pass
            if result["result"] != "ok" and any(name == one for one, _ in plan):
                print(f"      {name}: DLIO can't generate it: {summary(result)}", flush=True)

    def remove_private(self, wanted):
        """Make way for configurations that generate their own dataset."""
        for config in wanted:
            if config.private:
                shutil.rmtree(os.path.join(self.data, config.dataset.name), ignore_errors=True)

    def result(self, side, ranks, name, rank):
        """What a rank reported, or that it was stopped before it could."""
        return reported(os.path.join(self.folder(side, ranks), name), rank)

    def opens(self, side, ranks, name, rank):
        """What a rank has opened."""
        return read_opens(os.path.join(self.folder(side, ranks), name, f"rank{rank}.log"))

    def compare_opens(self, config, ranks, rank, alive):
        """Lines that say how the opens of a rank differ."""
        shim = self.opens("shim", ranks, config.name, rank)
        bare = [self.opens(side, ranks, config.name, rank) for side in self.bare_sides]
        if len(bare) > 1 and not repeats(config):
            return opens_outside(bare, shim)
        return opens_difference(bare[0], shim, counts=config.opens == "counts" and alive)

    def compare(self, config, ranks):
        """All differences between the two sides, as lines, and how it went unmodified."""
        lines = []
        bare = [self.result("bare", ranks, config.name, rank) for rank in range(ranks)]
        shim = [self.result("shim", ranks, config.name, rank) for rank in range(ranks)]
        alive = all(result["result"] == "ok" for result in bare)
        # Some versions wait for each other for ever where the samples don't divide: then both
        # sides must, and what they opened until then is what there is to compare.
        hung = all(result["result"] == "stopped" for result in bare)
        total = 0
        for rank, (one, other) in enumerate(zip(bare, shim)):
            if self.rank0_lists and one["result"] == "stopped" and summary(other) == summary(bare[0]):
                continue  # rank 0 has failed while the others waited for it, and now they know
            if summary(one) != summary(other):
                lines.append(f"rank {rank}: {summary(one)} unmodified,"
                             f" {summary(other)} under the preload")
                if other["result"] == "error":
                    lines += ["    " + line for line in other["traceback"].splitlines()[-12:]]
                continue
            for key in ("steps", "list", "samples"):
                if one.get(key) != other.get(key):
                    lines.append(f"rank {rank}: {key} {one.get(key)} unmodified,"
                                 f" {other.get(key)} under the preload")
            total += sum(self.opens("bare", ranks, config.name, rank).values())
            # Ranks that another's death stopped were stopped somewhere.
            if config.opens != "nothing" and (alive or hung or one["result"] == "error"):
                lines += [f"rank {rank}: {line}"
                          for line in self.compare_opens(config, ranks, rank, alive)]
        if hung and not total:
            lines.append("no rank reported anything unmodified: this comparison is worth nothing")
        # Newer DLIOs cut a small dataset down to no file at all, and say so.
        cut_to_none = all(result.get("list", [1])[0] == 0 for result in bare)
        if alive and not total and not cut_to_none:
            lines.append("no open was logged at all: this comparison is worth nothing")
        return lines, bare, total

    def plain_list(self, config, ranks):
        """Whether DLIO ran under the preload with an ordinary list of names."""
        results = [self.result("shim", ranks, config.name, rank) for rank in range(ranks)]
        return any(result.get("list_type") == "list" and result["list"][0] > 0
                   for result in results)

    def control_holds(self, config, ranks, lines):
        """Whether a naive run was found different, the lowered one although it succeeded."""
        results = {self.result("shim", ranks, config.name, rank)["result"]
                   for rank in range(ranks)}
        if config.name == "naive-lowered":
            return results == {"ok"} and any(" opened " in line for line in lines)
        return results == {"error"} and bool(lines)

    def seconds(self, side, ranks, wanted):
        """Time spent in the configurations, without starting processes."""
        return sum(self.result(side, ranks, config.name, 0).get("seconds", 0) for config in wanted)


def lists_on_rank0(args):
    """Whether DLIO lists on rank 0 alone; it is these versions that read ahead, too."""
    config = os.path.join(configs.package(args.python, args.dlio), "utils", "config.py")
    with open(config, encoding="utf-8") as stream:
        return "files_pre_sharded" in stream.read()


def repeats(config):
    """Whether opens repeat in spite of reading ahead: no workers do it."""
    return config.loader == "pytorch" and config.options.get("reader.read_threads") == 0


def summary(result):
    """A result in a form that repeats: errors by type and last line, without addresses."""
    if result["result"] != "error":
        return result["result"]
    # A worker's error comes with its traceback as text, which names frames and lines.
    lines = [line for line in result["error"].splitlines() if line.strip()]
    last = lines[-1] if "Original Traceback" in result["error"] else lines[0]
    return re.sub(r"0x[0-9a-f]+|pid\(?s?\)? [0-9, ]+", "#", last.strip())



def has(args, module):
    """Whether the interpreter has a module."""
    command = [args.python, "-c", "import importlib.util as u, sys;"
               "sys.exit(0 if u.find_spec(sys.argv[1]) else 1)", module]
    return subprocess.run(command, check=False).returncode == 0


def is_there(folder, needed):
    """Whether a DLIO has a file, or an argument of that name."""
    if "/" in needed:
        return os.path.exists(os.path.join(folder, needed))
    with open(os.path.join(folder, "utils", "config.py"), encoding="utf-8") as stream:
        return f"    {needed}: " in stream.read()


def choose(args):
    """The configurations to run, by number of ranks."""
    chosen = configs.control() if args.control else configs.matrix()
    chosen = [config for config in chosen if re.search(args.filter, config.name)
              and (args.control or not (args.quick and not config.quick or args.but_quick and config.quick))]
    folder = configs.package(args.python, args.dlio) if any(config.needs for config in chosen) else ""
    chosen = [config for config in chosen if not config.needs or is_there(folder, config.needs)]
    skipped = []
    if not has(args, "nvidia") or not has(args, "nvidia.dali"):  # a venv of its own has it
        chosen = [config for config in chosen if not config.dali]
    if not has(args, "tensorflow"):
        skipped = [config for config in chosen if config.loader == "tensorflow"]
        chosen = [config for config in chosen if config.loader != "tensorflow"]
    ranks = [int(number) for number in args.ranks.split(",")]
    if args.quick:
        ranks = [number for number in ranks if number <= 2]
    by_ranks = {number: [config for config in chosen if number in config.ranks] for number in ranks}
    return {number: wanted for number, wanted in by_ranks.items() if wanted}, skipped


def run_both(matrix, ranks, wanted, preload, env):
    """Run both sides, one after the other; the seconds of each."""
    took = []
    twice = matrix.rank0_lists and not matrix.args.control
    matrix.bare_sides = ["bare", "again"] if twice else ["bare"]
    for sides in (matrix.bare_sides, ["shim"]):
        begin = time.monotonic()
        for side in sides:
            run_side(matrix, side, ranks, wanted, preload, env)
        took.append(time.monotonic() - begin)
    return took


def run_side(matrix, side, ranks, wanted, preload, env):
    """Run the configurations on one side."""
    shim = side == "shim"
    matrix.remove_private(wanted)
    plan = []
    for config in wanted:
        options = matrix.settings(config, side, ranks)
        if shim and config.name == "naive-lowered":
            options.update({"dataset.num_files_train": config.dataset.train // ranks,
                            "dataset.num_files_eval": config.dataset.valid // ranks})
        plan.append((config.name, options))
    matrix.run_plan(side, ranks, plan, preload if shim else preload[-1:], env if shim else {})


def run_more(matrix, ranks, wanted, preload, env):
    """Where opens do not repeat: run unmodified what differs, again, at most twice."""
    if len(matrix.bare_sides) == 1:
        return
    for side in ("third", "fourth"):
        doubtful = [config for config in wanted if not repeats(config)
                    and any(" unmodified run" in line for line in matrix.compare(config, ranks)[0])]
        if not doubtful:
            break
        run_side(matrix, side, ranks, doubtful, preload, env)
        matrix.bare_sides.append(side)


def judge(matrix, ranks, config, verdicts):
    """Tell what the runs of one configuration have shown; whether DLIO's list was a plain one."""
    args = matrix.args
    lines, bare, opens = matrix.compare(config, ranks)
    plain = matrix.plain_list(config, ranks)
    counts = config.options.get("dataset.skip_listing")
    if plain and args.active and not config.fallback and (counts or not matrix.rank0_lists):
        lines.append("DLIO's file list is a plain list: the library did nothing")
    outcome = {summary(result) for result in bare} - {"ok", "stopped"}
    if all(summary(result) == "stopped" for result in bare):
        outcome = {"hangs"}
    note = ("unmodified: " + "; ".join(sorted(outcome)) if outcome
            else f"{opens} opens, {sum(sum(r.get('steps', {}).values()) for r in bare)} steps")
    name = f"n{ranks} {config.name} ({note[:150]})"
    if not args.control:
        verdicts.tell(name, lines)
    elif matrix.control_holds(config, ranks, lines):
        verdicts.tell(name, [])
        print(printable(f"      different, as it must be: {lines[0]}; {len(lines)} differences"))
    else:
        verdicts.tell(name, lines or ["not different in the way it must be"])
    return plain


def run(args, workdir, by_ranks):
    """Run everything; the sums."""
    matrix = Matrix(args, workdir)
    env = {"SHARD_CACHE_DIR": os.path.join(workdir, "cache"), **args.env}
    if args.compress:
        env["SHARD_ADAPTER"] = "compress"
    tested = args.naive if args.control else args.preload
    if args.control:
        env["NAIVE_ROOT"] = matrix.data + "/"
    verdicts = Verdicts()
    for ranks, wanted in by_ranks.items():
        start = time.monotonic()
        matrix.generate(wanted)
        generated = time.monotonic()
        preload = ([tested] if tested else []) + [args.openlog]
        took = run_both(matrix, ranks, wanted, preload, env)
        run_more(matrix, ranks, wanted, preload, env)
        plain = [config.name for config in wanted if judge(matrix, ranks, config, verdicts)]
        if args.preload and not args.control and plain:
            print(f"      n{ranks}: with a plain list in {len(plain)} of {len(wanted)}:"
                  f" {' '.join(plain)}")
        print(f"      n{ranks}: {len(wanted)} configurations, generated in"
              f" {generated - start:.0f} s, unmodified {took[0]:.0f} s"
              f" ({matrix.seconds('bare', ranks, wanted):.0f} s in DLIO), under the preload"
              f" {took[1]:.0f} s ({matrix.seconds('shim', ranks, wanted):.0f} s in DLIO)", flush=True)
    return verdicts


def main():
    """Run in the given folder, or in one that is removed if all went well."""
    confine.begin()
    processes.end_jobs_on_signals()
    args = parse_arguments()
    by_ranks, skipped = choose(args)
    if args.list:
        for ranks, wanted in by_ranks.items():
            print("\n".join(f"n{ranks} {config.name}" for config in wanted))
        return 0
    if skipped:
        if not args.dlio:
            sys.exit(f"{args.python} has no TensorFlow, which {len(skipped)} configurations need")
        print(f"skip {len(skipped)} configurations: no TensorFlow for {args.python}")
    work = options.work_folder(args, "dlio-matrix-")
    return run(args, work, by_ranks).conclude(work, args.workdir)


if __name__ == "__main__":
    sys.exit(main())
