"""make bench: what is claimed of speed and memory, measured.

Every figure stands beside a peer measured in the same run, and both are medians of the rounds.
Writes build/bench.json, a list of {"name", "value", "unit", "peer", "peer_value", "ratio",
"goal", "met"}, and prints the same as a table. Run it on a quiet machine: nothing else besides.

The benchmark is the installed DLIO, PyTorch loader, JPEG of 3,000 bytes, batch 32, 2 ranks with 2
workers each, no computation. Datasets are hard links to a few files (names are what is measured);
one dataset of 1,000,000 names serves all sizes through num_files_train where that is fair, and
has its own directory where the length of the directory matters. The dlio- parts measure
MLCommons' fork, if they are told where it is.
"""
import argparse
import glob
import gzip
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

from scripts.bench_buckets import part_buckets
from scripts.bench_forks import part_dlio_cpu, part_dlio_sizes, part_dlio_skip
from scripts.bench_job import (make_data, measure_epochs, measure_speed, measure_start, memory, part_memory,
                               part_tiers, rounds)
from scripts.bench_s3 import part_s3, part_s3_connections
from scripts.bench_walk import part_walk
from tests.harness import paths



def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=paths.VENV_PYTHON)
    parser.add_argument("--dlio", help="a DLIO tree to use instead of the installed one")
    parser.add_argument("--preload", default=paths.LIBRARY)
    parser.add_argument("--folder", default=os.path.join(paths.BUILD, "bench"))
    parser.add_argument("--output", default=os.path.join(paths.BUILD, "bench.json"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--names", type=int, default=1 << 26,
                        help="of the parts index and access, and the most in directories")
    parser.add_argument("--only", "--part", help="names of the parts to run, separated by ','")
    for part, fork in (("c", "MLCommons' fork, before June 2026"), ("f", "the same, since then")):
        parser.add_argument(f"--dlio-{part}", metavar="TREE", default=os.environ.get(f"DLIO_{part.upper()}"),
                            help=f"{fork} (default: $DLIO_{part.upper()})")
    parser.add_argument("--dlio-python", default=os.environ.get("DLIO_PYTHON"),
                        help="an interpreter that has what they need (default: $DLIO_PYTHON)")
    parser.add_argument("--skip-names", type=int, default=1_000_000,
                        help="of the part dlio-skip: names of the dataset whose start is measured")
    parser.add_argument("--sizes", default="10000,1170301,4194304,8345048",
                        help="of the part dlio-sizes: numbers of files")
    parser.set_defaults(ranks=2, workers=2, batch=32)
    return parser.parse_args()


class Report:
    """The rows."""

    def __init__(self):
        self.rows = []

    def add(self, name, unit, value, peer, peer_value, ratio, goal, met):
        """One row; goal is text for people, and met None if there is none."""
        words = {True: "met", False: "NOT MET", None: "only compared"}
        self.rows.append({"name": name, "value": value, "unit": unit, "peer": peer,
                          "peer_value": peer_value, "ratio": ratio, "goal": goal, "met": met})
        print(f"  {name}: {value:.4g} {unit}; {peer}: {peer_value:.4g}; ratio {ratio:.4g};"
              f" goal {goal}: {words[met]}", file=sys.stderr, flush=True)

    def table(self):
        """Print all rows."""
        head = ("name", "value", "unit", "peer", "peer value", "ratio", "goal", "met")
        lines = [head] + [(r["name"], f"{r['value']:.4g}", r["unit"], r["peer"],
                           f"{r['peer_value']:.4g}", f"{r['ratio']:.4g}", r["goal"],
                           {True: "yes", False: "NO", None: "-"}[r["met"]]) for r in self.rows]
        widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
        for line in lines:
            print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())


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
    raw = os.path.join(paths.BUILD, "tests", "getdents")
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
    programs = os.path.join(paths.BUILD, "tests")
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


def name_file(args, names, kind):
    """A text of so many names, "sorted", "shuffled", "gaps" or "uuid"; made once."""
    path = os.path.join(args.folder, f"names-{names}-{kind}.txt")
    if not os.path.exists(path):
        print(f"making {names:,} names, {kind} ...", file=sys.stderr, flush=True)
        with open(path + ".tmp", "wb") as stream:
            subprocess.run([test_program("names"), str(names), kind], check=True, stdout=stream)
        os.rename(path + ".tmp", path)
    return path


def test_program(name):
    """Path of one of tests/programs."""
    return os.path.join(paths.BUILD, "tests", name)


def shardctl(args):
    """Path of shardctl."""
    return os.path.join(os.path.dirname(args.preload), "shardctl")


def timed_run(command, **options):
    """Seconds that a command takes; its output is thrown away."""
    begin = time.time()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)
    return time.time() - begin


def index_text(args, text, output, memory="256M", pipe=False):
    """(seconds, facts) of making a listing of a text."""
    env = dict(os.environ, SHARD_BUILD_MEMORY=memory, TMPDIR=args.folder)
    begin = time.time()
    with open(text, "rb") as stream:
        cat = subprocess.Popen(["cat"], stdin=stream, stdout=subprocess.PIPE) if pipe else None
        done = subprocess.run([shardctl(args), "index", "-", "-o", output, "--json"], env=env,
                              stdin=cat.stdout if cat else stream, check=True, capture_output=True)
        if cat:
            cat.stdout.close()
            cat.wait()
    return time.time() - begin, json.loads(done.stdout)


def part_index(args, report):
    """Listings of texts against sort(1): time, memory, size."""
    output = os.path.join(args.folder, "index.listing")
    sort = ["sort", "--parallel=2", "-S", "256M", "-T", args.folder]
    for kind, pipe, most in (("sorted", False, 2), ("sorted", True, 2), ("shuffled", False, 3),
                             ("uuid", False, 2)):
        text = name_file(args, args.names, kind)
        facts = []

        def build(text=text, pipe=pipe, facts=facts):
            seconds, made = index_text(args, text, output, pipe=pipe)
            facts.append(made)
            return seconds

        def sorting(text=text):
            with open(text, "rb") as stream:
                return timed_run(sort, stdin=stream, env=dict(os.environ, LC_ALL="C"))

        what = f"{args.names:,} names, {kind}{', by a pipe' if pipe else ''}"
        sort_took, took = rounds(args, sorting, build)
        report.add(f"index of {what}", "s", took, "sort --parallel=2 -S 256M", sort_took,
                   sort_took / took, f">= {most} times as fast", sort_took >= most * took)
        _, small = index_text(args, text, output, "64M", pipe)
        for mega, peak in ((256, max(made["peak_rss"] for made in facts)), (64, small["peak_rss"])):
            bound = mega * 1.1 + 16
            report.add(f"peak memory at {mega}M, {what}", "MB", peak / (1 << 20),
                       "bound x 1.1 + 16 MB", bound, peak / (1 << 20) / bound, "<= 1",
                       peak <= bound * (1 << 20))
        names_alone = os.path.getsize(text) / args.names - 1
        each = small["bytes"] / small["entries"]
        report.add(f"size of the listing, {what}", "B/name", each, "names alone", names_alone,
                   each / names_alone, "none" if kind == "uuid" else "<= 5 B/name",
                   kind == "uuid" or each <= 5)


PARTS, PART_NAMES = 64, 187_500  # 12,000,000 names


def make_parts(args, shuffled):
    """Lists packed by gzip: names of 1,000 folders, in order or in none."""
    folder = os.path.join(args.folder, "parts-shuffled" if shuffled else "parts-sorted")
    if not os.path.exists(folder + ".made"):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        count = PARTS * PART_NAMES
        numbers = list(range(count))
        if shuffled:
            random.Random(1).shuffle(numbers)
        for k in range(PARTS):
            with gzip.open(os.path.join(folder, f"{k:02d}.gz"), "wb", compresslevel=1) as stream:
                stream.write(b"".join(b"d%03d/img_%08d.jpg\n" % (i * 1000 // count, i)
                                      for i in numbers[k * PART_NAMES:(k + 1) * PART_NAMES]))
        open(folder + ".made", "w", encoding="ascii").close()
    return sorted(glob.glob(os.path.join(folder, "*.gz")))


def part_lists(args, report):
    """A listing of a list in many packed parts, beside zcat and sort(1)."""
    output = os.path.join(args.folder, "lists.listing")
    for shuffled in (False, True):
        parts, facts = make_parts(args, shuffled), []

        def build(parts=parts, facts=facts):
            begin = time.time()
            done = subprocess.run([shardctl(args), "index", *parts, "--root", "s3://bucket/", "-o", output, "--json",
                                   "--quiet"], check=True, capture_output=True,
                                  env=dict(os.environ, SHARD_BUILD_MEMORY="256M"))
            facts.append(json.loads(done.stdout))
            return time.time() - begin

        def sorting(parts=parts):
            return timed_run(["bash", "-c", 'zcat "$@" | sort -u', "-", *parts], env=dict(os.environ, LC_ALL="C"))

        sort_took, took = rounds(args, sorting, build)
        what = f"{PARTS * PART_NAMES:,} names in {PARTS} gzip parts, {'shuffled' if shuffled else 'sorted'}"
        report.add(f"lists: index of {what}", "s", took, "zcat | sort -u", sort_took, sort_took / took,
                   ">= 2 times as fast", sort_took >= 2 * took)
        peak = max(made["peak_rss"] for made in facts) / (1 << 20)
        report.add(f"lists: peak memory, {what}", "MB", peak, "the limit", 256, peak / 256, "<= 1", peak <= 256)


def make_tree(args, folders, files):
    """A tree of folders with files each, all links to a few files."""
    root = os.path.join(args.folder, f"tree-{folders}x{files}")
    if not os.path.exists(root + ".made"):
        shutil.rmtree(root, ignore_errors=True)
        print(f"making {folders:,} folders of {files:,} names ...", file=sys.stderr, flush=True)
        for k in range(folders):
            folder = os.path.join(root, f"{k:06d}")
            os.makedirs(folder)
            first = os.path.join(folder, f"file_{0:07d}")
            open(first, "w", encoding="ascii").close()
            for i in range(1, files):
                os.link(first, os.path.join(folder, f"file_{i:07d}"))
        open(root + ".made", "w", encoding="ascii").close()
    return root


def part_directories(args, report):
    """Listings of directories against a bare pass of getdents64 in one thread."""
    output = os.path.join(args.folder, "index.listing")
    many = [min(args.names, n) for n in (1_000_000, 4_000_000)]
    tree = make_tree(args, 1000, max(1, min(args.names // 1000, 1000)))
    cases = [(f"a directory of {n:,}", os.path.join(make_data(args, n), "train"), None)
             for n in sorted(set(many))]
    cases.append(("a tree of 1,000 directories", tree, sorted(os.listdir(tree))))
    for what, folder, below in cases:
        raw = [test_program("getdents")] + ([os.path.join(folder, name) for name in below]
                                            if below else [folder])
        timed_run(raw)
        index = [shardctl(args), "index", folder, "-o", output]
        bare, without, full = rounds(args, lambda: timed_run(raw),
                                     lambda: timed_run(index + ["--no-attributes"]),
                                     lambda: timed_run(index))
        limit = 1 if below else 1.3
        report.add(f"index of {what}", "s", without, "bare getdents64 pass", bare, without / bare,
                   f"<= {limit}", without <= limit * bare)
        report.add(f"index of {what}, with attributes", "s", full, "bare getdents64 pass", bare,
                   full / bare, f"about {limit} (1.2 times)", full <= 1.2 * limit * bare)


def hold(args, listing, digest, ranks, workers):
    """(PSS of all processes, private bytes per process) that hold a list of a listing."""
    holders = subprocess.Popen(
        [args.python, paths.source("programs", "holders.py"), listing, digest, str(ranks),
         str(workers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "LD_PRELOAD": args.preload})
    try:
        if holders.stdout.readline() != b"ready\n":
            sys.exit("bench: the processes that hold the list failed")
        pss, private, count = memory(holders.pid)
        if count != ranks * (workers + 1):
            sys.exit(f"bench: {count} processes hold the list")
        return pss, private / count
    finally:
        holders.stdin.close()
        holders.wait()


def part_access(args, report):
    """Names of listings: at random, in order, by ls; and what lists cost a node's processes."""
    few = min(args.names, 1_000_000)
    held = {}
    # Names without gaps are one run, whatever their number; those with gaps lie in blocks.
    for names, kind in [(1, "sorted")] + [(names, kind) for names in sorted({few, args.names})
                                          for kind in ("sorted", "gaps", "uuid")]:
        listing = os.path.join(args.folder, f"names-{names}-{kind}.listing")
        _, facts = index_text(args, name_file(args, names, kind), listing)
        if kind != "uuid":
            sides = [hold(args, listing, facts["digest"], 8, 8) for _ in range(args.rounds)]
            held[names, kind] = [statistics.median(side) for side in zip(*sides)]
        if names == 1:
            continue

        def access(listing=listing):
            done = subprocess.run([test_program("access"), listing], check=True,
                                  capture_output=True, text=True)
            return [float(word) for word in done.stdout.split()]

        random, following = rounds(args, access)[0]
        ls = rounds(args, lambda: timed_run([shardctl(args), "ls", listing]))[0]
        # The prototype's names had no gaps, and lay in blocks; UUIDs have no goal.
        goal = kind != "uuid"
        most = 250 if names == few else 600
        what = f"{names:,} {kind}"
        report.add(f"name at random of {what}", "ns", random, "prototype",
                   152 if names == few else 565, random / (152 if names == few else 565),
                   f"<= {most} ns" if goal else "none", random <= most or not goal)
        rate = 1e3 / following
        goal = kind == "sorted"
        report.add(f"cursor over {what}", "M names/s", rate, "goal", 200, rate / 200,
                   ">= 200 M names/s" if goal else "none", rate >= 200 or not goal)
        rate = names / ls / 1e6
        report.add(f"ls of {what}", "M names/s", rate, "goal", 50, rate / 50,
                   ">= 50 M names/s" if goal else "none", rate >= 50 or not goal)
    none = held[1, "sorted"]
    for (names, kind), (pss, own) in held.items():
        if names == 1:
            continue
        extra = pss - none[0]
        report.add(f"8 ranks x 8 workers hold {names:,} {kind} names: extra PSS", "MB", extra / 1e6,
                   "goal", 600, extra / 6e8, "<= 600 MB", extra <= 6e8)
        report.add(f"ditto, own memory of a process, {names:,} {kind}", "KB more than for 1 name",
                   (own - none[1]) / 1e3, "own memory", none[1] / 1e3, own / none[1] - 1,
                   "flat (at most 200 KB)", own - none[1] <= 200e3)


def main():
    """Run the parts."""
    args = parse_arguments()
    args.preload = os.path.abspath(args.preload)
    parts = {"listing": part_listing, "index": part_index, "lists": part_lists,
             "directories": part_directories, "walk": part_walk,
             "access": part_access, "s3": part_s3, "s3-connections": part_s3_connections, "buckets": part_buckets, "view": part_view,
             "memory": part_memory, "speed": part_speed, "start": part_start, "tiers": part_tiers,
             "dlio-skip": part_dlio_skip, "dlio-sizes": part_dlio_sizes, "dlio-cpu": part_dlio_cpu}
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
    return 0 if all(row["met"] is not False for row in report.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
