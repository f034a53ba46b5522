"""SHARD_STATS of the real DLIO: what each rank's file says, against independent logs of its opens.

    python -m tests.dlio.stats [--preload LIB] ...

Runs of mpirun -n 2 with two epochs, logged by openlog.so or traced by strace.
"""
import collections
import glob
import json
import os
import shutil
import subprocess
import sys

from tests.dlio import cli, configs
from tests.harness import confine, options, paths, processes
from tests.harness.opens import read_opens, read_strace
from tests.harness.processes import tail

EPOCHS = 2


def runs():
    """What is run, in this order."""
    twice = {"train.epochs": EPOCHS}
    return [
        cli.Run(configs.Config("npz-strace", configs.plain("npz"),
                               {**twice, "reader.sample_shuffle": "seed"}), strace=True),
        cli.Run(configs.Config("folders-eval", configs.plain("jpeg", 1, configs.FOLDERS),
                               {**twice, "workflow.evaluation": True,
                                "evaluation.epochs_between_evals": 1}), module=True),
        cli.Run(configs.Config("tensorflow", configs.plain("npz"), twice, "tensorflow",
                               opens="set")),
    ]


def verify(files, *more):
    """Exit status of shardctl verify, and all it says."""
    done = subprocess.run([paths.SHARDCTL, "verify", *more, *files], capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout + done.stderr


def check_rank(stats, opens, config):
    """What is wrong with the datasets of one rank; opens: by path, from the independent log."""
    lines = []
    for dataset in stats["datasets"]:
        root = dataset["dataset"] + "/"
        logged = {name: count for name, count in opens.items() if name.startswith(root)}
        epochs = dataset["epochs"]
        said, distinct = sum(e["opened"] for e in epochs), {e["distinct"] for e in epochs}
        if config.opens != "set" and said != sum(logged.values()):
            lines.append(f"{root}: {said} opens, {sum(logged.values())} were logged")
        if epochs and [e["epoch"] for e in epochs] != list(range(1, EPOCHS + 1)):
            lines.append(f"{root}: epochs {epochs}")
        # Own files do not change: each epoch reads them all.
        if distinct not in (set(), {len(logged)}) or bool(distinct) != bool(logged):
            lines.append(f"{root}: {epochs}, {len(logged)} files were logged")
        if len({e["distinct_sum"] for e in epochs}) > 1:
            lines.append(f"{root}: not the same files in all epochs")
        if config.opens != "set" and len({e["opened"] for e in epochs}) > 1:
            lines.append(f"{root}: not the same opens in all epochs: {epochs}")
        if dataset["owned"] != len(logged):
            lines.append(f"{root}: owned {dataset['owned']}, {len(logged)} files were logged")
    return lines


def check(job, run, preload, env):
    """Run one configuration; returns what is wrong, as lines, and the number of opens."""
    config = run.config
    folder = os.path.join(job.workdir, "stats", config.name)
    logger = [] if run.strace else [job.args.openlog]
    pattern = os.path.join(job.workdir, config.name + ".%r.json")
    folder, status = job.start(run, "stats", preload + logger, {
        "SHARD_CACHE_DIR": os.path.join(job.workdir, "cache"), **env, "SHARD_STATS": pattern})
    if status != 0:
        return [f"fails ({status}):", tail(os.path.join(folder, "job.log"))], 0
    files = sorted(glob.glob(pattern.replace("%r", "*")))
    lines, total = [], 0
    if glob.glob(pattern.replace("%r", "*") + ".*"):
        lines.append("something is left: " + " ".join(glob.glob(pattern.replace("%r", "*") + ".*")))
    if len(files) != cli.RANKS:
        return lines + [f"files: {files}", tail(os.path.join(folder, "job.log"))], 0
    train = os.path.join(job.data, config.dataset.name, "train")
    for rank, file in enumerate(files):
        with open(file, encoding="utf-8") as stream:
            stats = json.load(stream)
        if run.strace:
            opens = read_strace(os.path.join(folder, f"trace{rank}"))
        else:
            opens = read_opens(os.path.join(folder, f"rank{rank}.log"))
        opens = collections.Counter({name: n for name, n in opens.items()
                                     if name.startswith(job.data)})
        total += sum(opens.values())
        wanted = {"rank": rank, "size": cli.RANKS, "view": "global", "dataset": train, "lost": 0,
                  "entries": config.dataset.train, "used": config.dataset.train, "mixed": False}
        lines += [f"rank {rank}: {key} is {stats[key]!r}, not {value!r}"
                  for key, value in wanted.items() if stats[key] != value]
        lines += [f"rank {rank}: {line}" for line in check_rank(stats, opens, config)]
        # In the order in which DLIO asks for them; both are listed in any case.
        if [d["dataset"] for d in stats["datasets"]] != [train, train[:-len("train")] + "valid"]:
            lines.append(f"rank {rank}: datasets {[d['dataset'] for d in stats['datasets']]}")
    status, text = verify(files)
    if status != 0 or "all ranks used one listing" not in text:
        lines.append(f"verify: status {status}: {text}")
    # In the sub-folder layout and in INDEX mode every file is one rank's.
    if config.opens != "set" and "each was opened by exactly one rank" not in text:
        lines.append(f"verify does not see that each file was opened: {text}")
    status, text = verify(files[:1])
    if status != 1 or "rank 1 of 2 is missing" not in text:
        lines.append(f"verify of one file: status {status}: {text}")
    return lines, total


def main():
    """Run all; the exit status is 1 if anything is wrong."""
    confine.begin()
    processes.end_jobs_on_signals()
    args = cli.parse_arguments()
    workdir = options.work_folder(args, "dlio-stats-")
    job = cli.Cli(args, workdir)
    job.env.update(processes.QUIET)  # tests/dlio/cli.py runs DLIO with its tracer
    job.env["PYTHONPATH"] = os.pathsep.join([os.path.join(workdir, "site"), *([args.dlio] if args.dlio else [])])
    os.makedirs(os.path.join(workdir, "site"), exist_ok=True)
    shutil.copy(paths.source("dlio", "later.py"), os.path.join(workdir, "site", "sitecustomize.py"))
    wanted = [run for run in runs() if args.filter in run.config.name]
    job.generate(wanted)

    def compare(run):
        lines, opens = check(job, run, [args.preload], args.env)
        return lines if opens or lines else ["nothing was opened"], opens

    return cli.run_all(wanted, compare, args, workdir)


if __name__ == "__main__":
    sys.exit(main())
