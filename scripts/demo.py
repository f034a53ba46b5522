"""The demonstration: DLIO unmodified and under libshard.so, side by side.

Two ranks with two readers each. The first runs read every file of a small
dataset once, twice a side, and their opens are logged: do all open the same
files? How much does memory differ from run to run? Two more keep statistics,
which shardctl verify compares. The others have 100 times
as many names (hard links, so that making them takes seconds) and a limited
number of steps: what does a name cost? Memory is the sum of PSS over all
processes of the run, the highest of the samples taken while it trained.
Nothing is extrapolated. Then two ranks list one folder in the shard view.

All is written below build/demo, but for a temporary folder that is removed.
The exit status is 1 if libshard has not kept its promise.
"""
import collections
import datetime
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time

from tests.harness import options, paths, processes
from tests.harness.opens import read_opens

BEGIN = time.monotonic()
RANKS = 2
WORKERS = 2
BATCH = 4
FIRST_STEP = re.compile(r"(\d{4}-\S+) Rank 0 step 1 processed")


def parse_arguments():
    """The command line."""
    parser = options.parser(__doc__, "preload", "openlog", "python")
    parser.add_argument("--files", type=int, default=2000, help="files of the small dataset")
    parser.add_argument("--names", type=int, default=200000, help="names of the large dataset")
    parser.add_argument("--steps", type=int, default=100, help="steps of the runs with many names")
    parser.add_argument("--loader", default="tensorflow", choices=["tensorflow", "pytorch"],
                        help="DLIO's data loader; PyTorch is in .venv after scripts/setup.sh test")
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


def run(args, name, title, options, preload, **more):
    """Run DLIO, with more variables; returns what was measured."""
    folder = os.path.join(args.folder, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    options = {"framework": args.loader, "reader.data_loader": args.loader, "workflow.train": True,
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
        preload, {"OPENLOG_ROOT": os.path.join(args.folder, "data") + "/", **more}, patient=False)
    print(f"  {time.monotonic() - BEGIN:4.0f} s  {title} ...", flush=True)

    start = time.time()
    peak = 0
    log = os.path.join(folder, "dlio.log")
    with open(os.path.join(folder, "job.log"), "wb") as output:
        job = subprocess.Popen(command, env=args.environment, cwd=folder,
                               stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            while job.poll() is None:
                if options["workflow.train"] and (peak or first_step(log)):
                    peak = max(peak, total_pss(job.pid))
                time.sleep(0.02)
        finally:
            processes.kill_tree(job.pid)
    if job.returncode != 0:
        print(processes.tail(os.path.join(folder, "job.log")), file=sys.stderr)
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
        run(args, "generate", f"DLIO makes {args.files:,} JPEG files", {"workflow.generate_data": True, "workflow.train": False,
                               "dataset.data_folder": small,
                               "dataset.num_files_train": args.files}, [])
        open(small + ".made", "w", encoding="ascii").close()
    if not os.path.exists(large + ".made"):
        shutil.rmtree(large, ignore_errors=True)
        print(f"  {time.monotonic() - BEGIN:4.0f} s  {args.names:,} names are linked to them ...", flush=True)
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


def measurable(size, noise, form):
    """A size as text, if it is more than what runs of the same kind differ by."""
    return form(size) if size > noise else f"none that can be measured (below {form(noise)})"


def shares(args, folder):
    """Two ranks list one folder by one command; prints what they see. True if the promise is kept."""
    everything = {os.path.join(top, name) for top, _, names in os.walk(folder) for name in names}
    seen, out = [], os.path.join(args.folder, "shard-view")
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    command = processes.mpi_command(
        RANKS, ["sh", "-c", 'exec "$@" >"$0/$OMPI_COMM_WORLD_RANK"', out, "find", folder, "-type", "f", "-print0"],
        [args.preload], {"SHARD_DATASET": folder}, patient=False)
    with open(os.path.join(out, "log"), "wb") as log:
        status = subprocess.run(command, env=args.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                timeout=300, check=False).returncode
    for rank in range(RANKS):
        with open(os.path.join(out, str(rank)), "rb") as stream:
            seen.append(collections.Counter(os.fsdecode(name) for name in stream.read().split(b"\0") if name))
    union = sum(seen, collections.Counter())
    twice, missing = [n for n in union if union[n] > 1], everything - set(union)
    print(f"\nThe shard view: two ranks run  find {os.path.relpath(folder)} -type f  under one mpirun")
    print(f"  of {len(everything):,} files {' and '.join(f'rank {i} sees {len(s):,}' for i, s in enumerate(seen))};"
          f" {len(twice)} are seen by both, {len(missing)} by none, {len(set(union) - everything)} are no files of it")
    if status:
        print(f"  find ended with status {status}: see {out}/log")
    return status == 0 and set(union) == everything and not twice and all(seen)


def verified(args, stats):
    """The promise as a command, for data of one's own; prints what it says. True if the promise is kept."""
    tool = os.path.relpath(os.path.join(paths.BUILD, "shardctl"))
    command = [tool, "verify", *(os.path.relpath(one) for one in stats[:1]), "--same-as", os.path.relpath(stats[1])]
    # TensorFlow may open a file ahead that it does not read: sets are compared, and the steps above.
    command += ["--sets"] if args.loader == "tensorflow" else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(f"\nThe same by a command, of the logs of SHARD_STATS: {' '.join(command)}")
    print("  " + (done.stdout + done.stderr).strip().replace("\n", "\n  "))
    return done.returncode == 0


def comparison(few, same, args):
    """The first table."""
    rows = []
    for rank in range(RANKS):
        rows.append(both(f"files opened by rank {rank}: distinct / total", [side[0]["opens"][rank] for side in few],
                         lambda opens: f"{len(opens):,} / {sum(opens.values()):,}"))
    first = [side[0] for side in few]
    table(f"{args.files:,} files, one whole epoch", rows + [
        ("the same files, as often, by the same rank", "", "yes" if same else "NO"),
        both("steps of each rank", first, lambda r: " ".join(map(str, r["steps"]))),
        both("samples/s (DLIO's figure)", first, lambda r: f"{r['speed']:,.0f}")])


def cost(few, many, args):
    """The second table: what names cost."""
    names = args.names - args.files
    # Two runs differ by less than twice what two others differed by, in all but a few cases.
    noise = [max(2 * abs(side[0]["pss"] - side[1]["pss"]) + 2**20 for side in few)] * 2
    more = [many[i]["pss"] - sum(r["pss"] for r in few[i]) / 2 for i in range(2)]
    pairs = list(zip(more, noise))
    table(f"{args.names:,} names, {args.steps} steps", [
        both("steps of each rank", many, lambda r: " ".join(map(str, r["steps"]))),
        both("samples/s (DLIO's figure)", many, lambda r: f"{r['speed']:,.0f}"),
        both("start of the command to the end of the first step", many, lambda r: f"{r['first']:.1f} s"),
        both("the whole command", many, lambda r: f"{r['seconds']:.1f} s"),
        both("memory of all processes (PSS)", many, lambda r: mebibytes(r["pss"])),
        both(f"... more than with {args.files:,} files", pairs, lambda p: measurable(*p, mebibytes)),
        both("... for each further name, on this node", pairs,
             lambda p: measurable(p[0] / names, p[1] / names, lambda size: f"{size:,.0f} B"))])
    print(f"  (below {mebibytes(noise[0])} is noise: twice what two runs of the same kind differed by, and 1 MiB)")


def on_your_own():
    """What to try next."""
    shim, tool = (os.path.relpath(os.path.join(paths.BUILD, name)) for name in ("libshard.so", "shardctl"))
    print(f"""
Next, with data of your own:
  {tool} doctor      # can libshard work here, with your DLIO?
  mpirun -n 8 -x LD_PRELOAD=$PWD/{shim} dlio_benchmark workload=...      # DLIO as before
  {tool} run --dataset /your/data --rank 0 --size 4 -- ls /your/data      # a program's fourth of the files""")


def prepare(args, home):
    """The environment of all jobs: nothing of the user's, and nothing is left in the user's folders."""
    args.folder = os.path.abspath(args.folder)
    args.environment = {name: value for name, value in processes.environment(args.python).items()
                        if not re.match("SHARD_|OMPI_|PMI|SLURM_", name)}
    args.environment.update(HOME=home, TMPDIR=home, SHARD_CACHE_DIR=os.path.join(args.folder, "listings"))
    for kind in ("vader", "sm"):  # Open MPI 4's, and 5's: a job that is killed leaves its segments
        args.environment[f"OMPI_MCA_btl_{kind}_backing_directory"] = home
    os.makedirs(args.folder, exist_ok=True)


def demonstrate(args):
    """Make the data, run both sides, print the tables."""
    if args.loader == "pytorch" and not importlib.util.find_spec("torch"):
        sys.exit("demo: this Python has no torch: scripts/setup.sh test installs it, or leave --loader out")
    print(f"DLIO 2.0.0 with {'TensorFlow' if args.loader == 'tensorflow' else 'PyTorch'}'s loader on Python"
          f" {sys.version.split()[0]}: {RANKS} ranks, {WORKERS} readers each, batch {BATCH}.\n"
          f"Nine runs take two to five minutes on two cores; {os.path.relpath(args.folder)} gets 20 MB.", flush=True)
    small, large = make_data(args)
    whole = {"dataset.data_folder": small, "dataset.num_files_train": args.files}
    part = {"dataset.data_folder": large, "dataset.num_files_train": args.names,
            "train.total_training_steps": args.steps}
    few, many = [], []
    for side, preload in (("unmodified", []), ("libshard", [args.preload])):
        few.append([run(args, f"few-{side}-{i}", f"{args.files:,} files, {side}, run {i} of 2", whole,
                        preload + [args.openlog]) for i in (1, 2)])
    stats = [os.path.join(args.folder, name) for name in ("stats", "stats-off")]
    for folder, view in zip(stats, ("auto", "off")):
        shutil.rmtree(folder, ignore_errors=True)
        run(args, "few-" + os.path.basename(folder), f"{args.files:,} files, SHARD_STATS, SHARD_VIEW={view}", whole, [args.preload],
            SHARD_STATS=folder, SHARD_DATASET=small, SHARD_VIEW=view)
    for side, preload in (("unmodified", []), ("libshard", [args.preload])):
        many.append(run(args, f"many-{side}", f"{args.names:,} names, {side}", part, preload))

    first = few[0][0]
    same = sum(map(len, first["opens"])) > 0 and all(r["opens"] == first["opens"] for side in few for r in side)
    kept = same and all(r["steps"] == first["steps"] for side in few for r in side) and many[0]["steps"] == many[1]["steps"]
    comparison(few, same, args)
    cost(few, many, args)
    kept &= verified(args, stats)
    kept &= shares(args, small)
    if kept:
        on_your_own()
        return 0
    print(f"\ndemo: libshard has not kept its promise: the runs above differ, see {args.folder}", file=sys.stderr)
    return 1


def main():
    """The demonstration, in a temporary home."""
    processes.end_jobs_on_signals()
    args = parse_arguments()
    with options.temporary_folder("shard-demo.") as home:
        prepare(args, home)
        return demonstrate(args)


if __name__ == "__main__":
    sys.exit(main())
