"""DLIO's own command lines, unmodified and under the preload, must do the same.

    python -m tests.dlio.cli [--preload LIB] ...

matrix.py drives DLIO from a program of ours; here it is started as users start
it: by the console script dlio_benchmark and as python -m dlio_benchmark.main,
under mpirun -n 2. One of the runs is traced by strace instead of openlog.so, so
that the tests do not rest on our own logger alone.
"""
import collections
import dataclasses
import os
import re
import shutil
import sys
import time

from tests.dlio import configs, running
from tests.harness import confine, options, processes
from tests.harness.opens import opens_difference, read_opens, read_strace
from tests.harness.processes import tail
from tests.harness.verdicts import Verdicts

RANKS = 2


@dataclasses.dataclass
class Run:
    """One command line."""
    config: configs.Config
    module: bool = False   # python -m instead of the console script
    strace: bool = False


def runs():
    """What is run, in this order.

    No spawned workers: started from a command line, PyPI's DLIO calls MPI_Init in each of them
    and dies unmodified. matrix.py has them.
    """
    photo = configs.plain("jpeg")
    return [
        Run(configs.Config("script-jpeg", photo, {})),
        Run(configs.Config("module-jpeg-folders", configs.plain("jpeg", 1, configs.FOLDERS), {}),
            module=True),
        Run(configs.Config("script-npz-tensorflow", configs.plain("npz"), {}, "tensorflow",
                           opens="set")),
        Run(configs.Config("script-jpeg-strace", photo, {}), strace=True),
        Run(configs.Config("module-jpeg-generate-delete", configs.Dataset("generated"),
                           {"workflow.generate_data": True, "dataset.keep_files": False},
                           private=True), module=True),
    ]


def read_steps(folder, rank):
    """Steps of each epoch and block, from the results DLIO has saved; None if there are none."""
    try:
        return running.steps_of(folder, rank)
    except FileNotFoundError:
        return None


class Cli:
    """The folders and commands of one invocation."""

    def __init__(self, args, workdir):
        self.args = args
        self.workdir = workdir
        self.data = os.path.join(workdir, "data")
        self.env = processes.environment(args.python, args.dlio)
        os.makedirs(self.data, exist_ok=True)

    def start(self, run, side, preload, env, ranks=RANKS):
        """Run one command line; returns its folder and exit status."""
        folder = os.path.join(self.workdir, side, run.config.name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        if run.config.private:
            shutil.rmtree(os.path.join(self.data, run.config.dataset.name), ignore_errors=True)
        command = [self.args.python, "-m", "dlio_benchmark.main"]
        if not run.module:
            command = [os.path.join(os.path.dirname(self.args.python), "dlio_benchmark")]
        command += configs.words(configs.settings(run.config, self.data, folder))
        if run.strace:
            # strace itself runs without the preload; -ff: one file a thread, or calls get lost.
            trace = ["strace", "-ff", "--seccomp-bpf", "-qq", "-s", "8192", "-o",
                     os.path.join(folder, "trace"), "-e", "trace=open,openat,openat2,creat"]
            for name, value in {**env, "LD_PRELOAD": ":".join([*preload, processes.PATIENT])}.items():
                trace += ["-E", f"{name}={value}"]
            command = trace + command
            preload, env = [], {}
        # Each rank has its own log: only a shell in the rank knows its number.
        script = ('prefix=$1; shift; export OPENLOG="$prefix/rank$OMPI_COMM_WORLD_RANK.log"\n'
                  'exec 2>"$prefix/said$OMPI_COMM_WORLD_RANK"\n'
                  'for i; do\n\tshift\n'
                  '\t[ "$i" = "$prefix/trace" ] && i="$prefix/trace$OMPI_COMM_WORLD_RANK"\n'
                  '\tset -- "$@" "$i"\ndone\nexec "$@"')
        command = processes.mpi_command(ranks, ["sh", "-c", script, "sh", folder] + command, preload,
                                     {"OPENLOG_ROOT": self.data + "/", **env})
        log = os.path.join(folder, "job.log")
        # At the end of a process that has TensorFlow the profiler writes into freed memory, without libshard, too.
        traced = {} if run.config.loader == "tensorflow" else {"DFTRACER_ENABLE": "1"}  # as users have it
        status, reason = processes.run_job(command, {**self.env, **traced}, self.workdir, log)
        with open(log, "ab") as output:  # mpirun may put what one rank says into another's line
            for rank in range(ranks):
                path = os.path.join(folder, f"said{rank}")
                with open(path if os.path.exists(path) else os.devnull, "rb") as said:
                    output.write(said.read())
        return folder, reason or status

    def observe(self, run, side, preload, env):
        """Run one side; returns the exit status and, by rank, steps and opens."""
        folder, status = self.start(run, side, preload, env)
        ranks = []
        for rank in range(RANKS):
            steps = read_steps(os.path.join(folder, "output"), rank)
            if run.strace:
                opens = read_strace(os.path.join(folder, f"trace{rank}"))
                opens = collections.Counter({name: count for name, count in opens.items()
                                             if name.startswith(self.data + "/")})
            else:
                opens = read_opens(os.path.join(folder, f"rank{rank}.log"))
            ranks.append((steps, opens))
        return status, ranks, folder

    def compare(self, run, preload, env):
        """Run both sides; returns the differences as lines, and the number of opens."""
        logger = [] if run.strace else [self.args.openlog]
        status, bare, folder = self.observe(run, "bare", logger, {})
        if status != 0:
            return [f"fails unmodified ({status}):", tail(os.path.join(folder, "job.log"))], 0
        status, shim, folder = self.observe(run, "shim", preload + logger, {"SHARD_LOG": "info", "SHARD_CACHE_DIR": os.path.join(self.workdir, "cache"), **env})
        if status != 0:
            return [f"fails under the preload ({status}):",
                    tail(os.path.join(folder, "job.log"))], 0
        lines = []
        with open(os.path.join(folder, "job.log"), encoding="utf-8", errors="replace") as stream:
            said = stream.read()
        told, noted = said.count("the list of train is libshard's: "), said.count(" was there (LD_PRELOAD)")
        if preload and told != RANKS:
            lines.append(f"{told} ranks told that their list is libshard's")
        if preload and noted != 1:
            lines.append(f"{noted} lines of DLIO's log tell that libshard was there, must be 1")
        for rank, (one, other) in enumerate(zip(bare, shim)):
            if one[0] is None or one[0] != other[0]:
                lines.append(f"rank {rank}: steps {one[0]} unmodified, {other[0]}"
                             " under the preload")
            if not one[1]:
                lines.append(f"rank {rank}: no open was logged unmodified")
            lines += [f"rank {rank}: {line}" for line in
                      opens_difference(one[1], other[1], run.config.opens != "set")]
        return lines, sum(sum(opens.values()) for _, opens in bare)

    def generate(self, wanted):
        """Make the datasets that are not there yet."""
        for run in wanted:
            config = run.config
            if config.private or os.path.isdir(os.path.join(self.data, config.dataset.name)) or configs.write(
                    config.dataset, self.data):
                continue
            plain = configs.Config(f"generate-{config.dataset.name}", config.dataset,
                                   {"workflow.generate_data": True, "workflow.train": False})
            folder, status = self.start(Run(plain, module=True), "generate", [], {}, ranks=1)
            if status != 0:
                sys.exit(f"DLIO can't generate {config.dataset.name} ({status}):\n"
                         + tail(os.path.join(folder, "job.log")))


def parse_arguments():
    """The command line."""
    return options.parse(options.parser(__doc__, "preload", "openlog", "python", "dlio", "filter", "env", "workdir"))


def run_all(wanted, compare, args, workdir):
    """Tell what compare(run) finds, (lines about faults, opens), for each run; the exit status."""
    verdicts = Verdicts()
    for run in wanted:
        start = time.monotonic()
        lines, opens = compare(run)
        verdicts.tell(f"{run.config.name} ({opens} opens, {time.monotonic() - start:.0f} s)", lines)
    return verdicts.conclude(workdir, args.workdir)


def main():
    """Run all command lines; the exit status is 1 if any differs."""
    confine.begin()
    processes.end_jobs_on_signals()
    args = parse_arguments()
    workdir = options.work_folder(args, "dlio-cli-")
    cli = Cli(args, workdir)
    # A tree that is not installed has no console script.
    script = os.path.exists(os.path.join(os.path.dirname(args.python), "dlio_benchmark"))
    if not script and not args.dlio:
        sys.exit(f"there is no dlio_benchmark beside {args.python}")
    wanted = [run for run in runs() if re.search(args.filter, run.config.name)
              and (script or run.module)]
    cli.generate(wanted)
    preload = [args.preload] if args.preload else []
    return run_all(wanted, lambda run: cli.compare(run, preload, args.env), args, workdir)


if __name__ == "__main__":
    sys.exit(main())
