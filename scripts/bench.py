"""make bench: what is claimed of speed and memory, measured.

Every figure stands beside a peer measured in the same run, and both are medians of the rounds.
Writes build/bench.json, a list of {"name", "value", "unit", "peer", "peer_value", "ratio",
"goal", "met"}, and prints the same as a table. Run it on a quiet machine: nothing else besides.

The benchmark is the installed DLIO, PyTorch loader, JPEG of 3,000 bytes, batch 32, 2 ranks with 2
workers each, no computation. Datasets are hard links to a few files (names are what is measured);
one dataset of 1,000,000 names serves all sizes through num_files_train where that is fair, and
has its own directory where the length of the directory matters.
"""
import argparse
import datetime
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(REPO, "tests", "dlio"))
import launch  # noqa: E402  pylint: disable=wrong-import-position

RANKS, WORKERS, BATCH = 2, 2, 32
STEP = re.compile(r"(\d{4}-\S+) Rank 0 step (\d+) processed")


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=os.path.join(REPO, ".venv", "bin", "python"))
    parser.add_argument("--dlio", help="a DLIO tree to use instead of the installed one")
    parser.add_argument("--preload", default=os.path.join(REPO, "build", "libshard.so"))
    parser.add_argument("--folder", default=os.path.join(REPO, "build", "bench"))
    parser.add_argument("--output", default=os.path.join(REPO, "build", "bench.json"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="names of the parts to run, separated by ','")
    return parser.parse_args()


def memory(pid):
    """(sum of PSS, sum of private bytes, processes) of a process tree's Python processes."""
    pss = private = count = 0
    for member in launch.process_tree(pid)[1:]:
        try:
            with open(f"/proc/{member}/smaps_rollup", encoding="ascii") as stream:
                sizes = dict(line.split(":")[:2] for line in stream.read().splitlines()[1:])
        except OSError:
            continue  # it has ended meanwhile
        kib = {name: int(text.split()[0]) for name, text in sizes.items()}
        pss += kib["Pss"] * 1024
        private += (kib["Private_Clean"] + kib["Private_Dirty"]) * 1024
        count += 1
    return pss, private, count


class Job:
    """One run of DLIO, watched through its log."""

    def __init__(self, args, data, files, steps, preload, epochs=1):
        self.folder = os.path.join(args.folder, "run")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.cache = os.path.join("/dev/shm", f"libshard-bench-{os.getpid()}")
        shutil.rmtree(self.cache, ignore_errors=True)
        os.makedirs(self.folder)
        options = {"framework": "pytorch", "reader.data_loader": "pytorch",
                   "workflow.generate_data": False, "workflow.train": True,
                   "workflow.evaluation": False, "dataset.data_folder": data,
                   "dataset.format": "jpeg", "dataset.num_files_train": files,
                   "dataset.num_files_eval": 0, "dataset.num_subfolders_train": 0,
                   "dataset.num_subfolders_eval": 0, "dataset.record_length": 3000,
                   "dataset.num_samples_per_file": 1, "reader.batch_size": BATCH,
                   "reader.read_threads": WORKERS, "train.epochs": epochs,
                   "train.computation_time": 0.0, "output.folder": self.folder,
                   "checkpoint.checkpoint_folder": self.folder}
        if steps:
            options["train.total_training_steps"] = steps
        program = os.path.join(os.path.dirname(args.python), "dlio_benchmark")
        command = launch.mpi_command(
            RANKS, [program] + [f"++workload.{k}={v}" for k, v in options.items()],
            [preload] if preload else [], {"SHARD_CACHE_DIR": self.cache} if preload else {})
        self.start = time.time()
        with open(os.path.join(self.folder, "job.log"), "wb") as output:
            self.process = subprocess.Popen(
                command, env=launch.environment(args.python, args.dlio), cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def steps(self):
        """{step: when rank 0 had processed it}, of the last epoch that has begun."""
        found = {}
        try:
            with open(os.path.join(self.folder, "dlio.log"), encoding="utf-8") as stream:
                for when, step in STEP.findall(stream.read()):
                    found[int(step)] = datetime.datetime.fromisoformat(when).timestamp()
        except OSError:
            pass
        return found

    def wait(self, done, timeout=1200):
        """Wait until done() or the job's end; its status then, None if it still runs."""
        end = time.time() + timeout
        while time.time() < end and self.process.poll() is None and not done():
            time.sleep(0.1)
        if time.time() >= end:
            self.stop()
            sys.exit(f"bench: no progress in {timeout} s, see {self.folder}")
        if self.process.poll() not in (None, 0):
            sys.exit(f"bench: DLIO failed, see {self.folder}/job.log")

    def cache_bytes(self):
        """Size of the shared listings."""
        if not os.path.isdir(self.cache):
            return 0
        return sum(os.lstat(os.path.join(self.cache, name)).st_size
                   for name in os.listdir(self.cache))

    def stop(self):
        """End the job and what it left."""
        launch.kill_tree(self.process.pid)
        self.process.wait()
        shutil.rmtree(self.cache, ignore_errors=True)


def make_data(args, names):
    """A data folder with `names` names of a few files."""
    folder = os.path.join(args.folder, f"names-{names}")
    if not os.path.exists(folder + ".made"):
        from PIL import Image
        import numpy

        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.join(folder, "train"))
        os.makedirs(os.path.join(folder, "valid"))
        print(f"making {names:,} names ...", file=sys.stderr, flush=True)
        width, side = len(str(names)), 54  # 54 x 54 grey: 3,000 bytes as DLIO counts
        pixels = numpy.random.RandomState(1).randint(255, size=(side, side)).astype("uint8")
        first = None
        for i in range(names):
            path = os.path.join(folder, "train", f"img_{i:0{width}}_of_{names}.jpeg")
            if i % 60000 == 0:
                Image.fromarray(pixels).save(path, format="JPEG")
                first = path
            else:
                os.link(first, path)
        open(folder + ".made", "w", encoding="ascii").close()
    return folder


def measure_memory(args, names, preload):
    """(PSS of all processes with the listing's file, private bytes per process) in training."""
    job = Job(args, make_data(args, names), names, 0, preload)
    try:
        # All workers have begun: two batches of each have been delivered.
        job.wait(lambda: len(job.steps()) >= 2 * WORKERS)
        samples = []
        for _ in range(3):
            time.sleep(0.3)
            pss, private, count = memory(job.process.pid)
            samples.append((pss + job.cache_bytes(), private / count))
        return [statistics.median(s[k] for s in samples) for k in range(2)]
    finally:
        job.stop()


def measure_speed(args, names, steps, preload):
    """Samples/s over the steps after the first few, all ranks together."""
    job = Job(args, make_data(args, names), names, steps, preload)
    try:
        job.wait(lambda: len(job.steps()) >= steps)
        times = sorted(job.steps().values())
        skip = min(8, len(times) // 4)
        return (len(times) - 1 - skip) * BATCH * RANKS / (times[-1] - times[skip])
    finally:
        job.stop()


def measure_epochs(args, names, epochs, preload):
    """Samples/s within an epoch, median over the epochs after the first (workers persist)."""
    job = Job(args, make_data(args, names), names, 0, preload, epochs)
    try:
        job.wait(lambda: False)
        with open(os.path.join(job.folder, "dlio.log"), encoding="utf-8") as stream:
            found = STEP.findall(stream.read())
        rates, times = [], []
        for when, step in found + [("", "1")]:
            if step == "1" and times:
                rates.append((len(times) - 1) * BATCH * RANKS / (times[-1] - times[0]))
                times = []
            if when:
                times.append(datetime.datetime.fromisoformat(when).timestamp())
        return statistics.median(rates[1:])
    finally:
        job.stop()


def measure_start(args, names, preload):
    """Seconds from the command to the end of the first step."""
    job = Job(args, make_data(args, names), names, 0, preload)
    try:
        job.wait(lambda: 1 in job.steps())
        return job.steps()[1] - job.start
    finally:
        job.stop()


class Report:
    """The rows."""

    def __init__(self):
        self.rows = []

    def add(self, name, unit, value, peer, peer_value, ratio, goal, met):
        """One row; goal is text for people."""
        self.rows.append({"name": name, "value": value, "unit": unit, "peer": peer,
                          "peer_value": peer_value, "ratio": ratio, "goal": goal, "met": met})
        print(f"  {name}: {value:.4g} {unit}; {peer}: {peer_value:.4g}; ratio {ratio:.4g};"
              f" goal {goal}: {'met' if met else 'NOT MET'}", file=sys.stderr, flush=True)

    def table(self):
        """Print all rows."""
        head = ("name", "value", "unit", "peer", "peer value", "ratio", "goal", "met")
        lines = [head] + [(r["name"], f"{r['value']:.4g}", r["unit"], r["peer"],
                           f"{r['peer_value']:.4g}", f"{r['ratio']:.4g}", r["goal"],
                           "yes" if r["met"] else "NO") for r in self.rows]
        widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
        for line in lines:
            print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())


def rounds(args, *measures):
    """Medians of several measures, taken in turn."""
    results = [[measure() for measure in measures] for _ in range(args.rounds)]
    if isinstance(results[0][0], list):
        return [[statistics.median(r[k][j] for r in results) for j in range(len(r0))]
                for k, r0 in enumerate(results[0])]
    return [statistics.median(r[k] for r in results) for k in range(len(measures))]


def part_memory(args, report):
    """List memory: the slope between 200,000 and 1,000,000 names."""
    few, many = 200_000, 1_000_000
    sides = rounds(args, *[lambda n=n, p=p: measure_memory(args, n, p)
                           for p in ("", args.preload) for n in (few, many)])
    bare, shim = [[(high[k] - low[k]) / (many - few) for k in range(2)]
                  for low, high in (sides[:2], sides[2:])]
    report.add("list memory on the node", "B/file", shim[0], "unmodified", bare[0],
               shim[0] / bare[0], "<= 10 B/file", shim[0] <= 10)
    report.add("list memory, own share of a process", "B/file", shim[1], "unmodified", bare[1],
               shim[1] / bare[1], "0 B/file (under 0.5)", shim[1] < 0.5)


def part_speed(args, report):
    """Samples/s with a long list against the unmodified benchmark with a short one."""
    short, shim = rounds(args, lambda: measure_epochs(args, 1024, 12, ""),
                         lambda: measure_speed(args, 1_000_000, 250, args.preload))
    report.add("speed, 500,000 files per rank", "samples/s", shim,
               "unmodified, 512 files per rank", short, shim / short, ">= 0.9", shim >= 0.9 * short)
    at_100k = measure_speed(args, 200_000, 12, "")
    shim_100k = statistics.median(measure_speed(args, 200_000, 250, args.preload)
                                  for _ in range(args.rounds))
    report.add("speed, 100,000 files per rank", "samples/s", shim_100k, "unmodified, the same",
               at_100k, shim_100k / at_100k, ">= 50", shim_100k >= 50 * at_100k)
    at_500k = measure_speed(args, 1_000_000, 8, "")
    report.add("speed, 500,000 files per rank", "samples/s", shim, "unmodified, the same",
               at_500k, shim / at_500k, ">= 150", shim >= 150 * at_500k)


def part_start(args, report):
    """Seconds to the first step."""
    bare, shim = rounds(args, lambda: measure_start(args, 1000, ""),
                        lambda: measure_start(args, 1000, args.preload))
    report.add("start to first step, 1,000 files", "s", shim, "unmodified, the same", bare,
               shim / bare, "<= 1 (noise: 1.1)", shim <= 1.1 * bare)
    many = rounds(args, lambda: measure_start(args, 1_000_000, args.preload))[0]
    report.add("start to first step, 1,000,000 files", "s", many, "unmodified, 1,000 files", bare,
               many / bare, "at most 2 s more", many - bare <= 2)


def part_listing(args, report):
    """The listing of one directory: against a bare getdents64 pass, and its size."""
    ctl = os.path.join(os.path.dirname(args.preload), "shardctl")
    folder = os.path.join(make_data(args, 1_000_000), "train")
    output = os.path.join(args.folder, "bench.listing")
    raw = os.path.join(REPO, "build", "tests", "getdents")
    facts = {}

    def build():
        begin = time.time()
        done = subprocess.run([ctl, "index", folder, "-o", output, "--no-attributes", "--json"], check=True,
                              capture_output=True, text=True)
        facts.update(json.loads(done.stdout))
        return time.time() - begin

    def walk():
        begin = time.time()
        subprocess.run([raw, folder], check=True, stdout=subprocess.DEVNULL)
        return time.time() - begin

    walk()
    bare, shim = rounds(args, walk, build)
    report.add("listing 1,000,000 names", "s", shim, "bare getdents64 pass", bare, shim / bare,
               "none yet", True)
    each = facts["bytes"] / facts["entries"]
    report.add("size of the listing", "B/name", each, "names alone", 27, each / 27, "<= 5 B/name",
               each <= 5)


def part_view(args, report):
    """The shard view: streaming against a bare getdents64 loop, and passes over the directory."""
    folder = os.path.join(make_data(args, 1_000_000), "train")
    programs = os.path.join(REPO, "build", "tests")
    cache = os.path.join("/dev/shm", f"libshard-bench-{os.getpid()}")
    shard = dict(os.environ, LD_PRELOAD=args.preload, SHARD_DATASET=folder, SHARD_SIZE="8",
                 SHARD_CACHE_DIR=cache)

    def timed(program, env):
        begin = time.time()
        subprocess.run([os.path.join(programs, program), folder], check=True, env=env,
                       stdout=subprocess.DEVNULL)
        return time.time() - begin

    def measure(strategy):
        return timed("count", dict(shard, SHARD_RANK="3", SHARD_STRATEGY=strategy))

    try:
        timed("getdents", os.environ)
        measure("range")  # makes the listing
        sides = [[timed("getdents", os.environ), measure("hash"), measure("range")]
                 for _ in range(3 * args.rounds)]
        bare, stream, listed = [statistics.median(side) for side in zip(*sides)]
        report.add("streaming shard view (hash), 1,000,000 names", "s", stream,
                   "bare getdents64 pass", bare, bare / stream, ">= 0.9 of its speed",
                   bare / stream >= 0.9)
        report.add("shard view from the listing, 1 of 8 ranks", "s", listed,
                   "bare getdents64 pass", bare, bare / listed, ">= 0.9 of its speed",
                   bare / listed >= 0.9)
        shutil.rmtree(cache)

        def listed_bytes(command, env):
            """Bytes of directory entries that the kernel gave to a command and its children."""
            log = os.path.join(args.folder, "strace.log")
            subprocess.run(["strace", "-f", "-qq", "-e", "trace=getdents64", "-o", log] + command,
                           check=True, env=env, stdout=subprocess.DEVNULL)
            with open(log, encoding="utf-8", errors="replace") as stream:
                return sum(int(n) for n in re.findall(r"= (\d+)$", stream.read(), re.M))

        count = os.path.join(programs, "count")
        one = listed_bytes([os.path.join(programs, "getdents"), folder], os.environ)
        script = 'for r in 0 1 2 3 4 5 6 7; do SHARD_RANK=$r "$0" "$1" & done; wait'
        # The preload is for the ranks, not for strace and the shell.
        all_ranks = f'export LD_PRELOAD="$2"; {script}'
        env = dict(shard)
        del env["LD_PRELOAD"]
        eight = listed_bytes(["bash", "-c", all_ranks, count, folder, args.preload], env)
        report.add("directory passes of 8 processes that list together", "passes", eight / one,
                   "one bare pass", 1, eight / one, "1 (1.01)", eight <= 1.01 * one)
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def main():
    """Run the parts."""
    args = parse_arguments()
    args.preload = os.path.abspath(args.preload)
    parts = {"listing": part_listing, "view": part_view, "memory": part_memory, "speed": part_speed,
             "start": part_start}
    chosen = args.only.split(",") if args.only else list(parts)
    os.makedirs(args.folder, exist_ok=True)
    report = Report()
    for name in chosen:
        print(f"{name} ...", file=sys.stderr, flush=True)
        parts[name](args, report)
        with open(args.output, "w", encoding="ascii") as stream:
            json.dump(report.rows, stream, indent=1)
            stream.write("\n")
    report.table()
    return 0 if all(row["met"] for row in report.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
