"""The parts `dlio-skip`, `dlio-sizes` and `dlio-cpu` of make bench: MLCommons' fork of DLIO since June 2026, with
skip_listing, as mlpstorage 3 runs it.

They need the fork's source (dlio-cpu that of before June 2026, too), and an interpreter that has what it imports:

    make bench PART=dlio-skip,dlio-sizes,dlio-cpu DLIO_C=TREE DLIO_F=TREE DLIO_PYTHON=/path/to/python

An epoch after the first would read nothing, because the fork's workers keep what they have read.
"""
import argparse
import sys

from scripts.bench_job import Job, make_data, measure_cpu, measure_memory, measure_start, memory, rounds

MOST = 18e9  # bytes; a run that takes more is stopped


def fork(args, name):
    """The arguments for a fork, or None: then it has said what is missing."""
    tree = getattr(args, f"dlio_{name}")
    if not tree or not args.dlio_python:
        lacking = [f"--dlio-{name} TREE (DLIO_{name.upper()})"] * (not tree)
        lacking += ["--dlio-python PYTHON (DLIO_PYTHON)"] * (not args.dlio_python)
        line = f"MLCommons' fork needs {' and '.join(lacking)}"
        if args.only:
            sys.exit("bench: " + line)
        print(f"  not measured: {line}", file=sys.stderr, flush=True)
        return None
    return argparse.Namespace(**{**vars(args), "dlio": tree, "python": args.dlio_python, "batch": 8})


def measure_peak(args, names, preload, workers=4):
    """(most PSS of all processes, the listing's file included; most private bytes per process;
    whether it was stopped because it took more than MOST), until all workers deliver."""
    args = argparse.Namespace(**{**vars(args), "workers": workers})
    data = make_data(args, names)
    job = Job(args, data, names, 0, preload)
    peak, private, late = 0, [], []

    def done():
        pss, own, count = memory(job.process.pid)
        nonlocal peak
        peak = max(peak, pss + job.cache_bytes())
        if count >= args.ranks * (1 + workers):
            private.append(own / count)
        if len(job.steps()) >= 2 * workers:
            late.append(pss)
        return peak > MOST or len(late) >= 5

    try:
        job.wait(done, 3600)
        return peak, max(private, default=0), peak > MOST
    finally:
        job.stop()


SKIP = {"dataset.skip_listing": True, "dataset.listing_validation_interval": 100}
SHUFFLED = {**SKIP, "reader.file_shuffle": "seed", "reader.sample_shuffle": "seed"}


def part_dlio_skip(args, report):
    """The fork with skip_listing: memory, the first step, CPU a sample."""
    args = fork(args, "f")
    if args is None:
        return
    args.batch = 24
    many = min(args.names, 1_000_000)
    few = many // 5
    for kind, options, goal in (("", SKIP, 0.5), (", shuffled", SHUFFLED, 4.5)):
        args.options = options
        sides = rounds(args, *[lambda n=n, p=p: measure_memory(args, n, p)[:1]
                               for p in ("", args.preload) for n in (few, many)])
        bare, shim = ((high[0] - low[0]) / (many - few) for low, high in (sides[:2], sides[2:]))
        report.add(f"dlio-skip: list memory on the node{kind}", "B/file", shim, "unmodified", bare,
                   shim / bare, f"<= {goal} B/file", shim <= goal)
    names = args.skip_names
    make_data(args, names)
    bare, short, shim = rounds(args, *[
        lambda n=n, p=p: [measure_start(args, n, p), measure_peak(args, n, p, args.workers)[0]]
        for n, p in ((names, ""), (1000, args.preload), (names, args.preload))])
    report.add(f"dlio-skip: start to first step, {names:,} files", "s", shim[0], "unmodified", bare[0],
               shim[0] / bare[0], f"at most 2 s more than with 1,000 files, {short[0]:.3g} s",
               shim[0] - short[0] <= 2)
    report.add(f"dlio-skip: most memory on the node, {names:,} files", "GB", shim[1] / 1e9, "unmodified",
               bare[1] / 1e9, shim[1] / bare[1],
               f"at most 0.1 GB more than with 1,000 files, {short[1] / 1e9:.3g} GB",
               shim[1] - short[1] <= 1e8)


def part_dlio_cpu(args, report):
    """CPU a sample of each family: PyPI's DLIO, the fork before June 2026 and since then, with workers and without."""
    many, few, steps = 200_000, 1024, 2400
    for workers in (args.workers, 0):
        for name, kind, options in (("", "PyPI's", {}), ("c", "C", {}), ("f", "F", {}), ("f", "F, skip_listing", SHUFFLED)):
            side = fork(args, name) if name else args
            if side is None:
                continue
            # An epoch of the fork after the first reads nothing. PyPI's takes longer for each file, the more there are.
            names, epochs = (many, 1) if name else (few, 1 + 4 * steps * args.batch * args.ranks // few)
            side = argparse.Namespace(**{**vars(side), "workers": workers, "options": options,
                                         "batch": 24 if name else args.batch})
            (bare, shim), = rounds(side, lambda s=side, n=names, e=epochs: measure_cpu(s, n, steps, ("", args.preload), e))
            report.add(f"dlio-cpu: {kind}, {workers} workers, {names:,} files", "us/sample", shim, "unmodified", bare,
                       shim / bare, "<= 1.02", shim <= 1.02 * bare)


CUT = 200  # steps of an epoch


def measure_run(args, names, preload):
    """(seconds to the first step, samples/s, seconds from the last step of the first epoch to the first
    one of the second, most PSS of all processes, seconds of the start in which DLIO looks whether its
    files are there) of two epochs that are cut."""
    args = argparse.Namespace(**vars(args))
    args.options = {**args.options, "train.total_training_steps": CUT}
    job = Job(args, make_data(args, names), names, 0, preload, 2)
    peak = 0

    def done():
        nonlocal peak
        peak = max(peak, memory(job.process.pid)[0] + job.cache_bytes())
        return peak > MOST or len(job.all_steps()) > CUT

    try:
        job.wait(done, 3600)
        if peak > MOST:
            return [float("nan")] * 3 + [peak, float("nan")]
        times = [when for _, when in job.all_steps()]
        skip = 8
        return [times[0] - job.start,
                (CUT - 1 - skip) * args.batch * args.ranks / (times[CUT - 1] - times[skip]),
                times[CUT] - times[CUT - 1], peak, job.validation()]
    finally:
        job.stop()


def part_dlio_sizes(args, report):
    """The fork with skip_listing, where it is said to stop: by numbers of files."""
    args = fork(args, "f")
    if args is None:
        return
    args.batch, args.options = 24, SHUFFLED
    for names in map(int, args.sizes.split(",")):
        make_data(args, names)
        bare, shim = rounds(args, *[lambda p=p: measure_run(args, names, p) for p in ("", args.preload)])
        for i, (what, unit, scale) in enumerate((
                ("start to first step", "s", 1), ("speed", "samples/s", 1),
                ("from epoch to epoch", "s", 1), ("most memory on the node", "GB", 1e9),
                ("DLIO's own look at its files, a part of the start", "s", 1))):
            report.add(f"dlio-sizes: {what}, {names:,} files", unit, shim[i] / scale, "unmodified",
                       bare[i] / scale, shim[i] / bare[i] if bare[i] else float("nan"), "", None)
