"""SHARD_STATS of the real DLIO: what each rank's logs say, against independent logs of its opens.

    python -m tests.dlio.stats [--preload LIB] ...

Runs of mpirun -n 2 with two epochs, logged by openlog.so or traced by strace; and the same under SHARD_VIEW=off, for
shardctl verify --same-as.
"""
import collections
import os
import shutil
import sys

from tests.dlio import cli, configs
from tests.harness import confine, options, paths, processes, statlogs
from tests.harness.opens import opens_difference, read_opens, read_strace
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


def check_facts(facts, config, folder):
    """What is wrong with what verify tells of a run, as lines."""
    lines = []
    for kind, dataset in zip(("train", "valid"), facts["datasets"]):
        root = f"{folder}/{kind}/"
        wanted = {"dataset": root, "names": "program", "strategy": None, "seed": None}
        if kind == "train":
            wanted.update(entries=config.dataset.train, used=config.dataset.train)
        lines += [f"{root}: {key} is {dataset[key]!r}, not {value!r}" for key, value in wanted.items()
                  if dataset[key] != value]
        opened = collections.Counter()
        for cell in dataset["cells"]:
            opened[cell.epoch] += cell.distinct
            if cell.others:
                lines.append(f"{root}: files that the program does not use: {cell}")
        if opened and sorted(epoch for epoch in opened if opened[epoch]) != list(range(1, EPOCHS + 1)) and config.opens != "set":
            lines.append(f"{root}: epochs {opened}")
        # In the sub-folder layout and in INDEX mode every file is one rank's.
        if kind == "train" and config.opens != "set" and set(opened.values()) != {config.dataset.train}:
            lines.append(f"{root}: not all files in each epoch: {opened}")
    return lines


def check(job, run, preload, env):
    """Run one configuration; returns what is wrong, as lines, and the number of opens."""
    config = run.config
    stats = os.path.join(job.workdir, config.name)
    logger = [] if run.strace else [job.args.openlog]
    folder, status = job.start(run, "stats", preload + logger, {
        "SHARD_CACHE_DIR": os.path.join(job.workdir, "cache"), **env, "SHARD_STATS": stats})
    if status != 0:
        return [f"fails ({status}):", tail(os.path.join(folder, "job.log"))], 0
    logs, lines, total = statlogs.Logs(stats), [], 0
    data = os.path.join(job.data, config.dataset.name)
    for rank in range(cli.RANKS):
        opens = read_strace(os.path.join(folder, f"trace{rank}")) if run.strace else read_opens(os.path.join(folder, f"rank{rank}.log"))
        opens = collections.Counter({name: n for name, n in opens.items() if name.startswith((data + "/train/", data + "/valid/"))})
        total += sum(opens.values())
        lines += [f"rank {rank}: {line}" for line in opens_difference(opens, logs.opens(opens, rank))]
    if logs.lost or logs.ranks != list(range(cli.RANKS)):
        lines.append(f"lost: {logs.lost}, ranks: {logs.ranks}")
    lines += check_facts(statlogs.facts(stats), config, data)
    # TensorFlow's loader gives neighbours nearly the same files: some are read by no rank.
    status, text = statlogs.verify(stats, *(["--partial-ok"] if config.opens == "set" else []))
    if status != 0 or "all ranks have one listing of" not in text:
        lines.append(f"verify: status {status}: {text}")
    if config.opens != "set" and "each by one rank alone" not in text:
        lines.append(f"verify does not see that each file was opened: {text}")
    for log in logs.logs:
        if log.rank == 1:
            os.unlink(os.path.join(stats, log.name))
    status, text = statlogs.verify(stats)
    if status != 1 or "rank 1 of 2 is missing" not in text:
        lines.append(f"verify of one rank: status {status}: {text}")
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
