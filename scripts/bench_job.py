"""Runs of DLIO that are watched while they go on, for make bench.

A run reads a folder of make_data(): as many names as are wanted, hard links to a few JPEG files of
3,000 bytes. What it is made of is in `args`: the interpreter (python), a tree of DLIO if it is not
the installed one (dlio), ranks, workers and batch, more of DLIO's settings (options), and the folder for
data and logs.
"""
import datetime
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

from tests.harness import processes

STEP = re.compile(r"(\d{4}-\S+) Rank 0 step (\d+) processed")
VALIDATED = re.compile(r"skip_listing \[\w+\]: validation complete .*?\(([0-9.]+)s, ")


def memory(pid):
    """(sum of PSS, sum of private bytes, processes) of a process tree's Python processes."""
    pss = private = count = 0
    for member in processes.process_tree(pid)[1:]:
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

    def __init__(self, args, data, files, steps, preload, epochs=1, name="run"):
        self.folder = os.path.join(args.folder, name)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.cache = os.path.join("/dev/shm", f"libshard-bench-{os.getpid()}-{name}")
        shutil.rmtree(self.cache, ignore_errors=True)
        os.makedirs(self.folder)
        options = {"framework": "pytorch", "reader.data_loader": "pytorch",
                   "workflow.generate_data": False, "workflow.train": True,
                   "workflow.evaluation": False, "dataset.data_folder": data,
                   "dataset.format": "jpeg", "dataset.num_files_train": files,
                   "dataset.num_files_eval": 0, "dataset.num_subfolders_train": 0,
                   "dataset.num_subfolders_eval": 0, "dataset.record_length": 3000,
                   "dataset.num_samples_per_file": 1, "reader.batch_size": args.batch,
                   "reader.read_threads": args.workers, "train.epochs": epochs,
                   "train.computation_time": 0.0, "output.folder": self.folder,
                   "checkpoint.checkpoint_folder": self.folder}
        if steps:
            options["train.total_training_steps"] = steps
        options.update(getattr(args, "options", {}))
        program = [os.path.join(os.path.dirname(args.python), "dlio_benchmark")]
        if args.dlio:  # what the console script is, for a tree that is not installed
            script = os.path.join(self.folder, "start.py")
            with open(script, "w", encoding="ascii") as stream:
                stream.write("from dlio_benchmark.main import main\n"
                             "if __name__ == '__main__':\n    main()\n")
            program = [args.python, script]
        variables = {"SHARD_CACHE_DIR": self.cache, **getattr(args, "variables", {})} if preload else {}
        command = processes.mpi_command(
            args.ranks, program + [f"++workload.{k}={v}" for k, v in options.items()],
            [preload] if preload else [], variables, patient=False)
        env = {**processes.environment(args.python, args.dlio), "DLIO_LOG_LEVEL": "info"}
        self.start = time.time()
        with open(os.path.join(self.folder, "job.log"), "wb") as output:
            self.process = subprocess.Popen(command, env=env, cwd=self.folder,
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def log(self):
        """What DLIO has logged until now."""
        try:
            with open(os.path.join(self.folder, "dlio.log"), encoding="utf-8") as stream:
                return stream.read()
        except OSError:
            return ""

    def all_steps(self):
        """[(step, when rank 0 had processed it)] of all epochs."""
        return [(int(step), datetime.datetime.fromisoformat(when).timestamp())
                for when, step in STEP.findall(self.log())]

    def validation(self):
        """Seconds in which rank 0 looked whether files are there (skip_listing)."""
        return sum(map(float, VALIDATED.findall(self.log())))

    def steps(self):
        """{step: when rank 0 had processed it}, of the last epoch that has begun."""
        return dict(self.all_steps())

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
        processes.kill_tree(self.process.pid)
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
        job.wait(lambda: len(job.steps()) >= 2 * args.workers)
        samples = []
        for _ in range(3):
            time.sleep(0.3)
            pss, private, count = memory(job.process.pid)
            samples.append((pss + job.cache_bytes(), private / count))
        return [statistics.median(s[k] for s in samples) for k in range(2)]
    finally:
        job.stop()


def measure_run(args, names, steps, preload, variables):
    """[seconds to the first step, most memory of the node in GB, samples/s] of a run of so many steps."""
    args.variables = variables
    job = Job(args, make_data(args, names), names, 0, preload)
    peak = 0

    def done():
        nonlocal peak
        peak = max(peak, memory(job.process.pid)[0] + job.cache_bytes())
        return len(job.steps()) >= steps
    try:
        job.wait(done)
        times = sorted(job.steps().values())
        skip = min(8, len(times) // 4)
        return [times[0] - job.start, peak / 1e9,
                (len(times) - 1 - skip) * args.batch * args.ranks / (times[-1] - times[skip])]
    finally:
        job.stop()
        args.variables = {}


def part_tiers(args, report):
    """DLIO's lists lazy, and compressed after DLIO has made them, beside real ones. Of a DLIO that is not known
    (--dlio), lazy and compressed are the same."""
    units = ("start to first step", "s"), ("most memory on the node", "GB"), ("speed", "samples/s")
    for names, few in (200_000, 40), (1_000_000, 14):
        ways = ("lazy", 300, args.preload, {}), ("compressed", 300, args.preload, {"SHARD_ADAPTER": "compress"}), ("", few, "", {})
        *tiers, bare = rounds(args, *[lambda way=way, of=names: measure_run(args, of, *way[1:]) for way in ways])
        for way, ours in zip(ways, tiers):
            for (what, unit), value, theirs in zip(units, ours, bare):
                report.add(f"{way[0]}: {what}, {names:,} files", unit, value, "unmodified", theirs, value / theirs, "none", None)


def part_memory(args, report, name=""):
    """Memory of the node, and of its list by the slope between two numbers of files."""
    many = min(args.names, 1_000_000)
    few = many // 5
    sides = rounds(args, *[lambda n=n, p=p: measure_memory(args, n, p)
                           for p in ("", args.preload) for n in (few, many)])
    bare, shim = [[(high[k] - low[k]) / (many - few) for k in range(2)]
                  for low, high in (sides[:2], sides[2:])]
    name = name and name + ": "
    report.add(f"{name}list memory on the node", "B/file", shim[0], "unmodified", bare[0],
               shim[0] / bare[0], "<= 10 B/file", shim[0] <= 10)
    report.add(f"{name}list memory, a process's own", "B/file", shim[1], "unmodified", bare[1],
               shim[1] / bare[1], "0 B/file (under 0.5)", shim[1] < 0.5)
    for n, theirs, ours in zip((few, many), sides[:2], sides[2:]):
        report.add(f"{name}memory on the node, {n:,} files", "GB", ours[0] / 1e9, "unmodified",
                   theirs[0] / 1e9, ours[0] / theirs[0], "none", None)


def measure_speed(args, names, steps, preload, files=None):
    """Samples/s over the steps after the first few, all ranks together.

    `files` of a folder of `names` are read, or all of them.
    """
    job = Job(args, make_data(args, names), files or names, steps, preload)
    try:
        job.wait(lambda: len(job.steps()) >= steps)
        times = sorted(job.steps().values())
        skip = min(8, len(times) // 4)
        return (len(times) - 1 - skip) * args.batch * args.ranks / (times[-1] - times[skip])
    finally:
        job.stop()


TURN = 0.2  # seconds


def measure_cpu(args, names, steps, preloads, epochs=1):
    """CPU microseconds a sample of all processes, for each of `preloads`, over at least `steps` steps after the
    first few.

    The runs take turns, and those whose turn it is not are stopped. So none has the other one's work beside it, and
    what else changes CPU time by a quarter within seconds, the machine's clock and its other guests, is the same for
    all.
    """
    def signalled(job, number):
        for member in processes.process_tree(job.process.pid)[1:]:
            try:
                os.kill(member, number)
            except ProcessLookupError:
                continue

    def turn(job, done):
        signalled(job, signal.SIGCONT)
        job.wait(done)
        signalled(job, signal.SIGSTOP)
        if job.process.poll() is not None:
            sys.exit("bench: a run ended before the other one had made its steps; its epochs are too short")

    def spent(job):
        ticks = 0
        for member in processes.process_tree(job.process.pid)[1:]:
            try:
                with open(f"/proc/{member}/stat", encoding="utf-8", errors="replace") as stream:
                    fields = stream.read().rpartition(")")[2].split()
            except OSError:
                continue
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK"), len(job.all_steps())

    data = make_data(args, names)
    jobs = []
    try:
        for preload in preloads:
            jobs.append(Job(args, data, names, 0, preload, epochs, f"run{len(jobs)}"))
            turn(jobs[-1], lambda: len(jobs[-1].all_steps()) >= 4 * args.workers + 4)
        begin = end = [spent(job) for job in jobs]
        order = jobs
        while any(after - before < steps for (_, before), (_, after) in zip(begin, end)):
            for job in order:
                until = time.time() + TURN
                turn(job, lambda end=until: time.time() >= end)
            order = order[::-1]
            end = [spent(job) for job in jobs]
        return [(after - before) * 1e6 / ((last - first) * args.batch * args.ranks)
                for (before, first), (after, last) in zip(begin, end)]
    finally:
        for job in jobs:
            job.stop()


def measure_epochs(args, names, epochs, preload):
    """Samples/s within an epoch, median over the epochs after the first (workers persist)."""
    job = Job(args, make_data(args, names), names, 0, preload, epochs)
    try:
        job.wait(lambda: False)
        found = STEP.findall(job.log())
        rates, times = [], []
        for when, step in found + [("", "1")]:
            if step == "1" and times:
                rates.append((len(times) - 1) * args.batch * args.ranks / (times[-1] - times[0]))
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


def rounds(args, *measures):
    """Medians of several measures, taken in turn."""
    results = [[measure() for measure in measures] for _ in range(args.rounds)]
    if isinstance(results[0][0], list):
        return [[statistics.median(r[k][j] for r in results) for j in range(len(r0))]
                for k, r0 in enumerate(results[0])]
    return [statistics.median(r[k] for r in results) for k in range(len(measures))]
