"""Real launchers on two hosts made of namespaces: Open MPI, MPICH, torchrun, Slurm; hosts that differ.

    python -m tests.hosts [NAME...]     all parts, or those named

Each job runs as libshard(7) says, word for word, or without what gives its hosts one listing. For each
job: rank, size, local rank; one identity in ranks, wrappers, workers and grandchildren, and another
one than any job before; the shares are a partition, which shardctl verify proves. It takes root.
"""
import os
import re
import subprocess
import sys
import tempfile

from tests.harness import confine, parts, paths, processes
from tests.harness.verdicts import Verdicts
from tests.hosts.differing import changing, dlio
from tests.hosts.jobs import Job, recipe, shares
from tests.hosts.machines import MADE, Hosts
from tests.hosts.slurm_jobs import slurm


class Fixture:
    """What the parts share."""

    def __init__(self, folder, hosts):
        self.folder, self.hosts, self.verdicts = folder, hosts, Verdicts()
        self.path = os.path.dirname(paths.VENV_PYTHON) + ":/usr/sbin:/usr/bin:/sbin:/bin"
        self.bin = os.path.join(folder, "bin")
        os.mkdir(self.bin)
        mpiexec = os.path.join(self.bin, "mpiexec")  # MPICH's: Debian's is Open MPI's
        with open(mpiexec, "w", encoding="utf-8") as stream:
            stream.write('#!/bin/sh\nexec mpiexec.hydra "$@"\n')
        os.chmod(mpiexec, 0o755)

    def run(self, job, text, **more):
        """Run commands on the first host; lines about what is wrong."""
        status, output = self.hosts[0].run(["bash", job.script(text)], job.environment(**more),
                                           cwd=job.folder)
        job.output = output
        return [f"exit status {status}: {output}"] if status else []

    def run_torchrun(self, job, text, **more):
        """The same for an agent on each host."""
        script, agents = job.script(text), []
        if "SHARD_LISTING" in text:
            job.index()
        try:
            for host in self.hosts:
                agents.append(host.start(["bash", script], job.environment(**more), cwd=job.folder))
            job.output = "".join(agent.communicate(timeout=processes.HANGS)[0].decode() for agent in agents)
        finally:
            for agent in agents:
                processes.kill_tree(agent.pid)
        return [f"exit status {agent.returncode}: {job.output}" for agent in agents if agent.returncode]


def of_launcher(fixture, name, launcher, run):
    """The recipe, twice; without one listing, through a wrapper."""
    job = Job(fixture, name)
    for turn in ("first job", "second job"):
        faults = run(job, recipe(name)) or job.faults(launcher, 4, jobs=1) + job.said()
        fixture.verdicts.tell(f"{name}: the recipe, {turn}", faults)

    text = shares(recipe(name), False).replace("python3 train.py", "sh wrapper.sh python3 train.py")
    job = Job(fixture, name + "-own")
    fixture.verdicts.tell(f"{name}: a listing a host, through a wrapper",
                          run(job, text) or job.faults(launcher, 4) + job.said())


def openmpi(fixture):
    """mpirun of Open MPI."""
    of_launcher(fixture, "openmpi", "Open MPI", fixture.run)


def mpich(fixture):
    """mpiexec of MPICH: Hydra."""
    of_launcher(fixture, "mpich", "PMI", fixture.run)


def torchrun(fixture):
    """An agent of torchrun on each host."""
    of_launcher(fixture, "torchrun", "torchrun", fixture.run_torchrun)


def mlpstorage(fixture):
    """What mlpstorage 3 runs before DLIO, with the same words for mpirun; then a run, whose dataset it has touched."""
    job, told = Job(fixture, "mlpstorage"), {}
    program = paths.source("hosts", "before.py")
    bare = re.sub(r"-x LD_PRELOAD\S* ", "", recipe("openmpi"))
    for kind, text in (("bare", bare), ("preloaded", recipe("openmpi"))):
        faults = fixture.run(job, text.replace("train.py", program))
        told[kind] = re.findall(r"^\{.*\}$", job.output, re.MULTILINE)
        fixture.verdicts.tell(f"mlpstorage: helper jobs, {kind}", faults or (
            [] if len(told[kind]) == 1 and '"files": 1,' in job.output and job.output.count('"host"') == 4 else [job.output]))
    fixture.verdicts.check("mlpstorage: the same under libshard", told["preloaded"] == told["bare"], told)
    for turn in ("first", "second"):
        faults = fixture.run(job, recipe("openmpi")) or job.faults("Open MPI", 4, jobs=None) + job.said()
        fixture.verdicts.tell(f"mlpstorage: {turn} run", faults)
        if turn == "first":
            fixture.run(job, recipe("openmpi").replace("train.py", program))


PARTS = [openmpi, mpich, torchrun, slurm, mlpstorage, changing, dlio]


def main():
    """Run the parts; the exit status is 1 if anything fails."""
    confine.begin()
    os.environ["TMPDIR"] = "/tmp"  # of which each host has its own
    processes.end_jobs_on_signals()
    wanted = parts.chosen(PARTS)
    allowed = subprocess.run(["unshare", *MADE, "true"], stderr=subprocess.PIPE, check=False)
    if os.geteuid() != 0 or allowed.returncode:
        print(f"skip: hosts of namespaces take root: {allowed.stderr.decode()}")
        return 0
    folder = tempfile.mkdtemp(prefix="shard-hosts-", dir="/tmp")
    os.chmod(folder, 0o755)  # munged wants its socket to be reached
    with Hosts(folder) as hosts:
        fixture = Fixture(folder, hosts)
        parts.run(wanted, fixture)
    return fixture.verdicts.conclude(folder)


if __name__ == "__main__":
    sys.exit(main())
