"""Data libraries over a tree of Parquet files: the shard view must give each rank its own files.

    PYTHON -m tests.clients.run [--preload LIB] [--python PYTHON] [--ranks N] [--strategy NAME] ...

Every client of readers.py reads the tree bare, and must find all of it; then all ranks read it at
the same time under the preload. Together they must read every row once, and each rank must read the
files that `shardctl ls --rank R --size N` names for it, no others. So a preload that does nothing
fails here. PYTHON (--python) has the packages of scripts/requirements-clients.txt; a client whose
package it lacks is skipped by name, or fails with --all.
"""
import json
import os
import re
import subprocess
import sys

from tests.clients import readers
from tests.harness import confine, options, paths
from tests.harness.verdicts import Verdicts

FOLDERS = ("a", "b", "b/deep", "c/d/e")
FILES, ROWS = 5, 4  # in a folder, in a file
TIMEOUT = 600       # seconds for a process

# Run with --python: writes the tree, and prints {path of a file: its ids}.
WRITER = f"""
import json, os, sys
import pyarrow, pyarrow.parquet
made = {{}}
for folder in {FOLDERS!r}:
    os.makedirs(os.path.join(sys.argv[1], folder))
    for number in range({FILES}):
        name, first = os.path.join(folder, f"part-{{number}}.parquet"), len(made) * {ROWS}
        made[name] = list(range(first, first + {ROWS}))
        table = pyarrow.table({{"id": made[name]}})
        pyarrow.parquet.write_table(table, os.path.join(sys.argv[1], name))
print(json.dumps(made))
"""


class Clients:
    """The runs, and what came of them."""

    def __init__(self, args, work):
        self.args, self.work = args, work
        self.data = os.path.join(work, "data")
        self.verdicts = Verdicts()
        made = subprocess.run([args.python, "-c", WRITER, self.data], env=self.environment(),
                              stdout=subprocess.PIPE, check=True, timeout=TIMEOUT)
        self.ids = json.loads(made.stdout)
        self.everything = sorted(value for ids in self.ids.values() for value in ids)

    def environment(self, rank=None, strategy=None):
        """A process's environment; without a rank there is no preload."""
        env = {**os.environ}
        env.update(LC_ALL="C.UTF-8", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1",
                   HF_HOME=os.path.join(self.work, f"hf-{strategy}"))
        if rank is not None:
            env.update(SHARD_DATASET=self.data, SHARD_RANK=str(rank),
                       SHARD_SIZE=str(self.args.ranks), SHARD_STRATEGY=strategy,
                       SHARD_CACHE_DIR=os.path.join(self.work, "cache"),
                       LD_PRELOAD=self.args.preload)
        return env

    def read(self, client, environments):
        """Run a reader once in each environment, at the same time: [(ids or None, why not)]."""
        command = [self.args.python, paths.source("clients", "readers.py"), client, self.data]
        started = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True) for env in environments]
        results = []
        for process in started:
            try:
                out, err = process.communicate(timeout=TIMEOUT)
                results.append((json.loads(out), "") if process.returncode == 0 else (None, err))
            except subprocess.TimeoutExpired:
                process.kill()
                results.append((None, f"it took longer than {TIMEOUT} s"))
                process.communicate()
        return results

    def share(self, rank, strategy):
        """The ids of a rank's files, by `shardctl ls`."""
        ctl = os.path.join(os.path.dirname(self.args.preload), "shardctl")
        names = subprocess.run([ctl, "ls", self.data, "--rank", str(rank), "--size",
                                str(self.args.ranks), "--strategy", strategy],
                               env=self.environment(), stdout=subprocess.PIPE, check=True,
                               text=True, timeout=TIMEOUT).stdout.split()
        return sorted(value for name in names for value in self.ids[name])

    def try_bare(self, client):
        """Without the preload a client finds everything."""
        (ids, why), = self.read(client, [self.environment()])
        lines = [] if ids == self.everything else [why[-1500:] or f"it read {ids}"]
        self.verdicts.tell(f"{client}: bare, everything", lines)

    def try_ranks(self, client, strategy):
        """Under the preload each rank finds its own files."""
        results = self.read(client, [self.environment(rank, strategy)
                                     for rank in range(self.args.ranks)])
        lines, read = [], []
        for rank, (ids, why) in enumerate(results):
            read += ids or []
            if ids is None:
                lines.append(f"rank {rank}: {why[-1500:]}")
            elif ids != self.share(rank, strategy):
                lines.append(f"rank {rank}: it read {ids}, not {self.share(rank, strategy)}")
        if sorted(read) != self.everything:
            twice = len(read) - len(set(read))
            lines.append(f"{len(set(self.everything) - set(read))} rows lost, {twice} read twice")
        self.verdicts.tell(f"{client}: {strategy}, {self.args.ranks} ranks, every row once", lines)


def parse_arguments():
    """The command line."""
    parser = options.parser(__doc__, "preload", "python", "filter")
    parser.add_argument("--ranks", type=int, default=3, help="processes of a job, 2 or more")
    parser.add_argument("--strategy", default="stride,hash", help="strategies, comma-separated")
    parser.add_argument("--all", action="store_true", help="a client that is missing is a failure")
    args = options.parse(parser)
    if args.ranks < 2:
        parser.error("--ranks must be 2 or more")
    return args


def missing(python, package):
    """Why the interpreter lacks a package; "" if it has it."""
    got = subprocess.run([python, "-c", f"import {package}; print({package}.__version__)"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return "" if got.returncode == 0 else (got.stderr.strip().splitlines() or ["?"])[-1]


def main():
    """Try all clients; the exit status is 1 if anything is not as it must be."""
    args = parse_arguments()
    confine.begin()
    lacking = missing(args.python, "pyarrow")
    if lacking:
        print(f"{'FAIL' if args.all else 'skip'} all: {args.python} has no usable pyarrow ({lacking}); "
              "make a venv of scripts/requirements-clients.txt")
        return 1 if args.all else 0
    with options.temporary_folder("shard-clients-") as work:
        clients = Clients(args, work)
        for name, (package, _) in readers.CLIENTS.items():
            if not re.search(args.filter, name):
                continue
            lacking = missing(args.python, package)
            if lacking and args.all:
                clients.verdicts.tell(name, [lacking])
            elif lacking:
                print(f"skip {name}: {lacking}")
            else:
                clients.try_bare(name)
                for strategy in args.strategy.split(","):
                    clients.try_ranks(name, strategy)
    return clients.verdicts.conclude()


if __name__ == "__main__":
    sys.exit(main())
