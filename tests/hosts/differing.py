"""Hosts that hold different listings of one dataset: they find out by themselves."""
import os
import shlex
import re
import shutil

import numpy as np

from tests.harness import paths, processes
from tests.hosts.jobs import Job, recipe, shares

DIGEST = re.compile(r"digest ([0-9a-f]{16})")

# A wrapper that lets the ranks of host1 wait until a file has been added. Then a program on host0 lists, too.
LATE = """\
export SHARD_STRATEGY=range
wait_for_it() { until [ -e go ]; do sleep 0.05; done; }
case $(hostname) in
host1) wait_for_it && "$@" ;;
*) "$@" && wait_for_it && ls "$SHARD_DATASET" >/dev/null ;;
esac
"""

# Rank 0 unpacks the dataset, as many jobs do; the others wait for it. (mpiexec starts the ranks of a host
# before there are those of the next one.)
UNPACKED = """\
[ "$(hostname)" = host0 ] || touch there
until [ -e there ]; do sleep 0.05; done
if [ "$PMI_RANK$OMPI_COMM_WORLD_RANK" = 0 ]; then
  tar xf data.tar -C "$SHARD_DATASET" && touch go
fi
until [ -e go ]; do sleep 0.05; done
"$@"
"""


def command(name, wrapper, job):
    """The recipe of a launcher without one listing for all, through a wrapper."""
    job.script(wrapper, "wrapper.sh")
    return shares(recipe(name), False).replace("python3 train.py", "sh wrapper.sh python3 train.py")


def change(fixture, job, start):
    """Add a file when both ranks of host0 have listed, and before those of host1 do; the output."""
    running = start()
    try:
        processes.until(lambda: len(job.reports()) == 2, "the reports of both ranks of host0")
        job.add("a0000")
        job.script("", "go")
        job.output = running.communicate(timeout=processes.HANGS)[0].decode()
        return [f"exit status {running.returncode}: {job.output}"] if running.returncode else []
    finally:
        processes.kill_tree(running.pid)


def is_late(line, remedy):
    """Whether the second host has said a line, with digest and remedy."""
    return DIGEST.search(line) and remedy in line and "'host1'" in line and "1001 entries" in line


def tell_change(fixture, name, job, faults, remedy="name it in SHARD_LISTING"):
    """The verdicts: what went wrong is there, and the host that has listed late says so, once."""
    names = [one["main"] for one in job.reports()]
    fixture.verdicts.tell(f"{name}: a file that comes between two hosts' listings", faults or (
        [] if list(map(len, names)) == [250, 250, 250, 251] and len(set(sum(names, []))) == 1000 else
        [f"shares of {list(map(len, names))}, {len(set(sum(names, [])))} names in all"]))
    said = job.said()
    fixture.verdicts.check(
        f"{name}: one line, of the host that listed late", len(said) == 1 and is_late(said[0], remedy), job.output)
    status, output = job.verify()
    fixture.verdicts.check(f"{name}: verify finds it, too", status == 1 and "digest" in output, output)


def torchrun_agents(fixture, job, script):
    """A command of the first host that starts an agent on both."""
    both = " & ".join(f"{fixture.hosts.shell} {host.name} 'cd {job.folder} && "
                      f"{words('DATA', job)} {words('LIBSHARD', job)} bash {script}'" for host in fixture.hosts)
    return fixture.hosts[0].start(["bash", "-c", f"{both} & wait"], job.environment(), cwd=job.folder)


def words(name, job):
    """An assignment."""
    return f"{name}={job.env[name]}"


def changing(fixture):
    """The shard view, whose hosts have nothing to compare by."""
    job = Job(fixture, "torchrun-changing", 1000)
    job.script(LATE, "wrapper.sh")
    script = job.script(shares(recipe("torchrun"), False).replace(
        " train.py", " --no-python sh wrapper.sh python3 train.py"))
    tell_change(fixture, "torchrun", job, change(fixture, job, lambda: torchrun_agents(fixture, job, script)))

    for name in ("openmpi", "mpich"):
        job = Job(fixture, name + "-changing", 1000)
        text = command(name, LATE, job)
        tell_change(fixture, name, job, change(fixture, job, lambda: fixture.hosts[0].start(
            ["bash", job.script(text)], job.environment(), cwd=job.folder)))

        launcher = {"openmpi": "Open MPI", "mpich": "PMI"}[name]
        job = Job(fixture, name + "-unpacks")
        text = command(name, UNPACKED, job)
        unpack = f"tar cf data.tar -C {job.data} . && rm {job.data}/*\n"
        faults = fixture.run(job, unpack + text) or job.faults(launcher, 4)
        said = job.said()
        fixture.verdicts.tell(f"{name}: a job that unpacks its dataset itself: a line a host", faults or (
            [] if len(said) == 2 and len(set(map(DIGEST.findall(job.output).count, DIGEST.findall(
                job.output)))) == 1 else [job.output]))

        job = Job(fixture, name + "-unpacked")
        unpack = f"tar cf data.tar -C {job.data} . && rm {job.data}/* && tar xf data.tar -C {job.data}\n"
        text = shares(recipe(name), False)
        fixture.verdicts.tell(f"{name}: unpacked before: nothing is said",
                              fixture.run(job, unpack + text) or job.faults(launcher, 4) + job.said())


# ---- DLIO --------------------------------------------------------------------------------------

OVERRIDES = {
    "framework": "pytorch", "reader.data_loader": "pytorch", "workflow.generate_data": False,
    "workflow.train": True, "workflow.evaluation": False, "workflow.checkpoint": False,
    "workflow.profiling": False, "dataset.num_subfolders_train": 0,
    "dataset.num_subfolders_eval": 0, "dataset.format": "npz", "dataset.num_files_train": 8,
    "dataset.num_files_eval": 0, "dataset.num_samples_per_file": 1, "dataset.record_length": 1024,
    "reader.batch_size": 1, "reader.read_threads": 0, "train.epochs": 1, "train.computation_time": 0.0}


def benchmark(job, **more):
    """DLIO's command line."""
    options = {**OVERRIDES, "dataset.data_folder": job.data, "output.folder": job.folder + "/output", **more}
    words = " ".join(f"++workload.{name}={value}" for name, value in options.items())
    return f"{shlex.quote(os.path.dirname(paths.VENV_PYTHON))}/dlio_benchmark {words}"


def dataset(fixture, name):
    """A job that trains on eight files."""
    job = Job(fixture, name, 0)
    os.makedirs(job.data + "/train")
    os.makedirs(job.data + "/valid")
    for number in range(8):
        np.savez(f"{job.data}/train/f{number}.npz", x=np.zeros((32, 32, 1), dtype=np.uint8), y=[0])
    return job


def dlio(fixture):
    """DLIO, which has an MPI world: a difference is an error in all ranks."""
    job = dataset(fixture, "dlio")
    mpirun = ("mpirun --host host0:1,host1:1 --mca btl self,tcp --mca btl_tcp_if_include eth0"
              f" -x LD_PRELOAD=$LIBSHARD -x SHARD_LOG=info {benchmark(job)}")
    faults = fixture.run(job, mpirun)
    status, output = job.verify()
    fixture.verdicts.tell("dlio: two hosts with the same list", faults or (
        [output + job.output] if status or job.output.count("info: listing") != 2 else []))

    other = job.folder + "/other"
    shutil.copytree(job.data + "/train", other)
    os.rename(other + "/f3.npz", other + "/f33.npz")  # as many files
    fixture.hosts[1].check(f"mount --bind {other} {job.data}/train")
    status = fixture.run(job, mpirun)
    said = re.findall(r"the ranks hold different lists of .*/train': rank 0 on host host0 has 8 files, digest "
                      r"(\w+); rank 1 on host host1 has 8 files, digest (\w+)\..*name it in SHARD_LISTING",
                      job.output.replace(", rank 1", "; rank 1"))
    fixture.verdicts.check("dlio: lists that differ are an error in all ranks, with digests and remedy",
                           status and len(said) == 2 and len(set(sum(said, ()))) == 2, job.output)
    fixture.hosts[1].check(f"umount {job.data}/train")
