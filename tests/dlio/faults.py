"""Faults of the machine while the real DLIO lists: the unmodified run's opens, or an error in all ranks.

    python -m tests.dlio.faults [--all] [--filter REGEX] [--dlio TREE --python PYTHON]

behaviour/faultmatrix.py has the same faults for other ways of listing, and each of them in turn. Here two
ranks of DLIO run in each; a line tells what came of it. With --all, each in one rank alone, too, and more
calls that are forbidden.
"""
import contextlib
import dataclasses
import errno
import json
import os
import re
import shutil
import sys
import tempfile

from tests.behaviour.faultmatrix import FORBID, numbers
from tests.dlio import configs
from tests.dlio.matrix import summary
from tests.dlio.running import reported
from tests.dlio.situations import PLUGGED, PROBE
from tests.harness import confine, options, paths, processes
from tests.harness.opens import opens_difference, read_opens
from tests.harness.verdicts import Verdicts

RANKS = 2
CONFIG = configs.Config("faults", configs.plain("jpeg", train=16, valid=8), {"reader.read_threads": 0})
# Once DLIO is about to list, %d descriptors more may be opened, until the rank tells what came of it.
LIMIT = '''
import os, resource, sys
def free(event, args):
    if event == "open" and str(args[0]).endswith(".json.tmp"):
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
before = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + %d, before[1]))
sys.addaudithook(free)
'''
# MPI needs it until then, and DLIO some files.
NO_PROC = '''
import ctypes
libc, kept = ctypes.CDLL(None), {}
for name in "meminfo", "stat", "cpuinfo":
    with open("/proc/" + name) as stream:
        kept[name] = stream.read()
made = [libc.unshare(0x20000), libc.mount(b"none", b"/", None, 0x44000, None), libc.mount(b"none", b"/proc", b"tmpfs", 0, None)]
assert made == [0, 0, 0], made
for name, text in kept.items():
    with open("/proc/" + name, "w") as stream:
        stream.write(text)
'''


@dataclasses.dataclass(frozen=True)
class Fault:
    """One of them. wrap: words before a rank's command; around: shell before mpirun, in mounts of its own; ctl:
    shell before shardctl; plugin: Python in a rank before it lists; rank: the one that has it, if not all; more:
    for --all only."""
    name: str
    wrap: tuple = ()
    around: str = ""
    ctl: str = ""
    plugin: str = ""
    rank: int = -1
    more: bool = False


def faults():
    """All of them."""
    yield Fault("none")
    yield Fault("shardctl may have 12 MB", ctl=f"ulimit -v {12 * 1024}")
    yield Fault("cgroup: shardctl may have 1 MB", ctl='echo $$ >"$GROUP/cgroup.procs" || exit 9')
    for count in 1, 5:
        yield Fault(f"{count} descriptors are left", plugin=LIMIT % count)
    yield Fault("1 descriptor is left, rank 1", plugin=LIMIT % 1, rank=1)
    yield Fault("the cache is full", around='mount -t tmpfs -o size=4k,nr_inodes=3,mode=700 none "$CACHE"')
    yield Fault("the cache is read-only", around='mount -t tmpfs -o ro,mode=700 none "$CACHE"')
    yield Fault("no /proc", plugin=NO_PROC)
    yield Fault("shardctl is killed", ctl="kill -9 $$")
    yield Fault("shardctl is killed once", ctl='mkdir "$CACHE.once" 2>/dev/null && kill -9 $$')
    called = numbers(["statx", "flock", "symlink", "symlinkat", "fallocate", "pidfd_open", "vfork", "rename"])
    for name, number in called.items():
        for code in (errno.EPERM, errno.ENOSYS):
            for rank in (-1, 1):
                yield Fault(f"{name} is forbidden, {errno.errorcode[code]}{', rank 1' if rank > 0 else ''}",
                            wrap=(FORBID, str(code), str(number)), rank=rank,
                            more=(name, code, rank) not in {("statx", errno.EPERM, 1), ("flock", errno.ENOSYS, -1)})


def removed(folder):
    """Whether a folder is gone."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    return not os.path.exists(folder)


@contextlib.contextmanager
def memory_group():
    """A cgroup whose processes together may have 1 MB; "": none can be made here."""
    for root, limit in ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"):
        folder = f"{root}/shard-faults-{os.getpid()}"
        with contextlib.suppress(OSError):
            os.mkdir(folder)
            try:
                with open(os.path.join(folder, limit), "w", encoding="ascii") as stream:
                    stream.write("1000000")
                yield folder
                return
            finally:
                processes.until(lambda: removed(folder), f"the end of all processes in {folder}")
    yield ""


class Jobs:
    """The folders and the dataset; what the unmodified run does."""

    def __init__(self, args, work, group):
        self.args, self.work, self.group, self.count = args, work, group, 0
        self.config = CONFIG
        self.data = os.path.join(work, "data")
        os.makedirs(self.data)
        configs.write(self.config.dataset, self.data)
        self.bare = self.run(Fault("none"), preload=False)
        if any(result["result"] != "ok" for result in self.bare.results) or not sum(self.bare.opens[0].values()):
            sys.exit(f"DLIO fails unmodified:\n{self.bare.text[-3000:]}")

    def library(self, folder, ctl):
        """libshard.so, beside a shardctl that begins with this shell."""
        for file in (self.args.preload, os.path.join(os.path.dirname(self.args.preload), "shardctl")):
            shutil.copy(file, folder)
        if ctl:
            os.rename(folder + "/shardctl", folder + "/real")
            with open(folder + "/shardctl", "w", encoding="utf-8") as stream:
                stream.write(f"#!/bin/bash\n{ctl}\nexec '{folder}/real' \"$@\"\n")
            os.chmod(folder + "/shardctl", 0o755)
        return os.path.join(folder, os.path.basename(self.args.preload))

    def run(self, fault, preload=True):
        """One job."""
        self.count += 1
        folder = os.path.join(self.work, str(self.count))
        cache = folder + "/cache"
        os.makedirs(folder + "/site")
        os.makedirs(cache, mode=0o700, exist_ok=True)
        alone = f"import os\nif os.environ.get('OMPI_COMM_WORLD_RANK') == '{fault.rank}':\n" if fault.rank >= 0 else ""
        plugin = alone + re.sub("^", "    " if alone else "", fault.plugin, flags=re.M) if fault.plugin else ""
        with open(folder + "/site/sitecustomize.py", "w", encoding="utf-8") as stream:
            stream.write(PROBE + (PLUGGED % plugin if plugin else ""))
        plan = folder + "/plan.json"
        with open(plan, "w", encoding="utf-8") as stream:
            options_of_it = configs.settings(self.config, self.data, folder)
            # As an error that ends DLIO ends the job. What the other rank has come to by then makes no difference.
            json.dump({"out": folder, "grace": 4, "configs": [{"name": "faults", "options": options_of_it}]}, stream)
        env = {"OPENLOG_ROOT": self.data + "/", "SHARD_CACHE_DIR": cache, "CACHE": cache, "GROUP": self.group,
               "SHARD_TIMEOUT": "60",
               "PYTHONPATH": os.pathsep.join([folder + "/site", *([self.args.dlio] if self.args.dlio else [])])}
        command = [self.args.python, paths.source("dlio", "matrix_rank.py"), plan]
        if fault.wrap and fault.rank < 0:
            command = [*fault.wrap, *command]
        elif fault.wrap:
            test = f'if [ "$OMPI_COMM_WORLD_RANK" = {fault.rank} ]; then n=$0; else shift $0; fi; exec "$@"'
            command = ["sh", "-c", test, str(len(fault.wrap)), *fault.wrap, *command]
        libraries = [self.library(folder, fault.ctl), self.args.openlog] if preload else [self.args.openlog]
        command = processes.mpi_command(RANKS, command, libraries, {k: v for k, v in env.items() if v})
        if fault.around:
            command = ["env", "CACHE=" + cache, "unshare", "-m", "sh", "-c", fault.around + ' && exec "$@"', "-", *command]
        log = folder + "/job.log"
        _, reason = processes.run_job(command, processes.environment(self.args.python), folder, log, idle=90)
        results = [reported(folder + "/faults", rank) for rank in range(RANKS)]
        opens = [read_opens(f"{folder}/faults/rank{rank}.log") for rank in range(RANKS)]
        with open(log, encoding="utf-8", errors="replace") as stream:
            return Job(results, opens, stream.read(), reason)

    def judge(self, job, bare, fault):
        """(what came of it, what is wrong)."""
        said = re.findall(r"^libshard: .*", job.text, re.M)
        outcomes = [summary(result) for result in job.results]
        if job.reason:
            return "hangs", [job.text[-1500:]]
        if all(outcome == "ok" for outcome in outcomes):
            wrong = []
            for rank in range(RANKS):
                if job.results[rank]["steps"] != bare.results[rank]["steps"]:
                    wrong.append(f"rank {rank}: steps {job.results[rank]['steps']}")
                wrong += [f"rank {rank}: {line}" for line in opens_difference(bare.opens[rank], job.opens[rank])]
            lists = {result["list_type"] for result in job.results}
            return f"the same opens, {'/'.join(sorted(lists))}{', told' if said else ''}", wrong
        if "ok" in outcomes:
            return "some ranks fail", [*outcomes, job.text[-1500:]]
        if said:
            return "an error: " + re.sub(r"^libshard: (rank \d+: )?", "", said[-1])[:90], []
        again = self.run(fault, preload=False)
        if all(result["result"] == "ok" for result in again.results):
            return "an error without a word", [*outcomes, job.text[-1500:]]
        return "an error, unmodified, too", []


@dataclasses.dataclass
class Job:
    """What has come of one."""
    results: list
    opens: list
    text: str
    reason: str


def main():
    """Try all; the exit status is 1 if any is wrong."""
    confine.begin()
    processes.own_mounts("tests.dlio.faults")
    processes.end_jobs_on_signals()
    made = options.parser(__doc__, "preload", "openlog", "python", "dlio", "filter", "workdir")
    made.add_argument("--all", action="store_true")
    args = options.parse(made)
    # libshard.so is copied there.
    work = args.workdir or tempfile.mkdtemp(prefix="dlio-faults-")
    verdicts = Verdicts()
    with memory_group() as group:
        jobs = Jobs(args, work, group)
        for fault in faults():
            if (fault.more and not args.all) or not re.search(args.filter, fault.name):
                continue
            if fault.name.startswith("cgroup") and not group:
                print("skip cgroup: none can be made here")
                continue
            outcome, wrong = jobs.judge(jobs.run(fault), jobs.bare, fault)
            verdicts.tell(f"{fault.name}: {outcome}", wrong)
    return verdicts.conclude(work, args.workdir)


if __name__ == "__main__":
    sys.exit(main())
