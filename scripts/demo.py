"""The demonstration: DLIO unmodified and under libshard.so, side by side.

Two runs a side, two ranks with two workers each. The first reads every file of
a small dataset once, and its opens are logged: do both sides open the same
files? The second has 50 times as many names (hard links, so that making them
takes seconds) and a limited number of steps: what does a name cost? Memory is
the sum of PSS over all processes of the run, the highest of the samples taken
while it trained. Nothing is extrapolated.
"""
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import time

from tests.harness import options, paths, processes
from tests.harness.opens import read_opens

RANKS = 2
WORKERS = 2
BATCH = 4
FIRST_STEP = re.compile(r"(\d{4}-\S+) Rank 0 step 1 processed")


def parse_arguments():
    """The command line."""
    parser = options.parser(__doc__, "preload", "openlog", "python")
    parser.add_argument("--files", type=int, default=2000, help="files of the small dataset")
    parser.add_argument("--names", type=int, default=100000, help="names of the large dataset")
    parser.add_argument("--steps", type=int, default=250, help="steps of the large run")
    parser.add_argument("--folder", default=os.path.join(paths.BUILD, "demo"))
    return options.parse(parser)


def total_pss(pid):
    """Sum of PSS, in bytes, over a process and its descendants."""
    total = 0
    for member in processes.process_tree(pid):
        try:
            with open(f"/proc/{member}/smaps_rollup", encoding="ascii") as stream:
                total += sum(int(line.split()[1]) * 1024 for line in stream
                             if line.startswith("Pss:"))
        except (OSError, ValueError):
            pass  # it has ended meanwhile
    return total


def first_step(log):
    """When the first step ended, as a Unix time, or None if it has not."""
    if os.path.exists(log):
        with open(log, encoding="utf-8") as stream:
            match = FIRST_STEP.search(stream.read())
        if match:
            return datetime.datetime.fromisoformat(match.group(1)).timestamp()
    return None


def run(args, name, options, preload):
    """Run DLIO; returns what was measured."""
    folder = os.path.join(args.folder, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    options = {"framework": "pytorch", "reader.data_loader": "pytorch", "workflow.train": True,
               "workflow.generate_data": False, "workflow.evaluation": False,
               "dataset.format": "jpeg", "dataset.num_files_eval": 0,
               "dataset.num_subfolders_train": 0, "dataset.num_subfolders_eval": 0,
               "dataset.record_length": 3000, "dataset.num_samples_per_file": 1,
               "reader.batch_size": BATCH, "reader.read_threads": WORKERS,
               "train.epochs": 1, "train.computation_time": 0.0,
               "output.folder": folder, "checkpoint.checkpoint_folder": folder, **options}
    script = 'export OPENLOG="$0/rank$OMPI_COMM_WORLD_RANK.log"; exec "$@"'
    command = processes.mpi_command(
        RANKS, ["sh", "-c", script, folder,
                os.path.join(os.path.dirname(args.python), "dlio_benchmark")]
        + [f"++workload.{key}={value}" for key, value in options.items()],
        preload, {"OPENLOG_ROOT": os.path.join(args.folder, "data") + "/"}, patient=False)

    start = time.time()
    peak = 0
    log = os.path.join(folder, "dlio.log")
    with open(os.path.join(folder, "job.log"), "wb") as output:
        job = subprocess.Popen(command, env=processes.environment(args.python), cwd=folder,
                               stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            while job.poll() is None:
                if options["workflow.train"] and (peak or first_step(log)):
                    peak = max(peak, total_pss(job.pid))
                time.sleep(0.02)
        finally:
            processes.kill_tree(job.pid)
    if job.returncode != 0:
        sys.exit(f"demo: DLIO failed with status {job.returncode}: see {folder}/job.log")
    if not options["workflow.train"]:
        return None
    with open(os.path.join(folder, "summary.json"), encoding="utf-8") as stream:
        metric = json.load(stream)["metric"]
    steps = []
    for rank in range(RANKS):
        with open(os.path.join(folder, f"{rank}_output.json"), encoding="utf-8") as stream:
            steps.append(len(json.load(stream)["1"]["load"]["block1"]))
    return {"pss": peak, "steps": steps, "seconds": time.time() - start,
            "speed": metric["train_throughput_mean_samples_per_second"],
            "first": first_step(log) - start,
            "opens": [read_opens(os.path.join(folder, f"rank{rank}.log"))
                      for rank in range(RANKS)]}


def make_data(args):
    """The small dataset, by DLIO, and the large one, of links to its files."""
    small = os.path.join(args.folder, "data", f"files-{args.files}")
    large = os.path.join(args.folder, "data", f"names-{args.names}")
    if not os.path.exists(small + ".made"):
        shutil.rmtree(small, ignore_errors=True)
        print(f"DLIO generates {args.files:,} JPEG files ...", flush=True)
        run(args, "generate", {"workflow.generate_data": True, "workflow.train": False,
                               "dataset.data_folder": small,
                               "dataset.num_files_train": args.files}, [])
        open(small + ".made", "w", encoding="ascii").close()
    if not os.path.exists(large + ".made"):
        shutil.rmtree(large, ignore_errors=True)
        print(f"linking {args.names:,} names to them ...", flush=True)
        os.makedirs(os.path.join(large, "train"))
        os.makedirs(os.path.join(large, "valid"))
        files = [entry.path for entry in os.scandir(os.path.join(small, "train"))]
        width = len(str(args.names))
        for i in range(args.names):
            os.link(files[i % len(files)],
                    os.path.join(large, "train", f"img_{i:0{width}}_of_{args.names}.jpeg"))
        open(large + ".made", "w", encoding="ascii").close()
    return small, large


def table(title, rows):
    """Print a table of (what, unmodified, under libshard)."""
    rows = [("", "unmodified", "libshard")] + rows
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    print(f"\n{title}")
    for what, bare, shim in rows:
        print(f"  {what:{widths[0]}}  {bare:>{widths[1]}}  {shim:>{widths[2]}}")


def both(what, pair, form):
    """A row of the table."""
    return (what, form(pair[0]), form(pair[1]))


def mebibytes(size):
    """A size in MiB, as text."""
    return f"{size / 2**20:,.0f} MiB"


def main():
    """Make the data, run both sides, print the tables."""
    processes.end_jobs_on_signals()
    args = parse_arguments()
    args.folder = os.path.abspath(args.folder)
    small, large = make_data(args)
    shim = [args.preload] if args.preload else []
    openlog = [args.openlog]
    whole = {"dataset.data_folder": small, "dataset.num_files_train": args.files}
    part = {"dataset.data_folder": large, "dataset.num_files_train": args.names,
            "train.total_training_steps": args.steps}

    print(f"four runs: {args.files:,} files and {args.names:,} names, unmodified and under"
          " libshard ...", flush=True)
    few = [run(args, f"few-{side}", whole, preload + openlog)
           for side, preload in (("unmodified", []), ("libshard", shim))]
    many = [run(args, f"many-{side}", part, preload)
            for side, preload in (("unmodified", []), ("libshard", shim))]

    shape = f"{RANKS} ranks, {WORKERS} workers each, batch {BATCH}"
    same = few[0]["opens"] == few[1]["opens"]
    rows = []
    for rank in range(RANKS):
        rows.append(both(f"files opened by rank {rank}: distinct / total",
                         [result["opens"][rank] for result in few],
                         lambda opens: f"{len(opens):,} / {sum(opens.values()):,}"))
    rows += [("the same files, as often, by the same rank", "", "yes" if same else "NO"),
             both("steps of each rank", few, lambda r: " ".join(map(str, r["steps"]))),
             both("samples/s (DLIO's figure)", few, lambda r: f"{r['speed']:,.0f}"),
             both("memory of all processes (PSS)", few, lambda r: mebibytes(r["pss"]))]
    table(f"{args.files:,} files, one whole epoch; {shape}", rows)

    names = args.names - args.files
    table(f"{args.names:,} names, {args.steps} steps; {shape}", [
        both("steps of each rank", many, lambda r: " ".join(map(str, r["steps"]))),
        both("samples/s (DLIO's figure)", many, lambda r: f"{r['speed']:,.0f}"),
        both("start of the command to the end of the first step", many,
             lambda r: f"{r['first']:.1f} s"),
        both("the whole command", many, lambda r: f"{r['seconds']:.1f} s"),
        both("memory of all processes (PSS)", many, lambda r: mebibytes(r["pss"])),
        both(f"... more than with {args.files:,} files", list(zip(few, many)),
             lambda r: mebibytes(r[1]["pss"] - r[0]["pss"])),
        both("... for each further name, on this node", list(zip(few, many)),
             lambda r: f"{(r[1]['pss'] - r[0]['pss']) / names:,.0f} B"),
    ])
    return 0 if same and few[0]["steps"] == few[1]["steps"] and many[0]["steps"] == many[1]["steps"] else 1


if __name__ == "__main__":
    sys.exit(main())
