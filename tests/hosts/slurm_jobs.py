"""Jobs and steps of Slurm, on the two hosts."""
import os
import re
import shutil
import time

from tests.harness import processes
from tests.hosts import differing
from tests.hosts.jobs import Job, recipe, shares
from tests.hosts.slurm import Slurm
from tests.launchers import cases as launchers

# What a script of several steps begins with.
HEAD = """\
#!/bin/sh
#SBATCH --nodes=2 --ntasks=4
export SHARD_DATASET=$DATA
run() { srun --export=ALL,LD_PRELOAD=$LIBSHARD "$@"; }
"""

# A step in a folder of its own.
STEP = """\
step() {
  mkdir -p $1/stats && name=$1 && shift &&
  SHARD_STATS=$PWD/$name/stats run --chdir $PWD/$name "$@"
}
"""


class Cases:
    """The jobs, each of which is submitted and waited for."""

    def __init__(self, fixture, cluster):
        self.fixture, self.cluster = fixture, cluster
        self.tell, self.check = fixture.verdicts.tell, fixture.verdicts.check

    def submit(self, job, text, *options, **more):
        """Submit a script, and wait for its end: lines about what is wrong."""
        output = os.path.join(job.folder, "slurm-%a.out" if options else "slurm.out")
        status, said = self.fixture.hosts[0].run(
            ["sbatch", "--wait", "--output", output, *options, job.script(text)],
            {**job.environment(**more), **self.cluster.env}, cwd=job.folder)
        job.output = said
        for name in sorted(os.listdir(job.folder)):
            if name.startswith("slurm") and name.endswith(".out"):
                with open(os.path.join(job.folder, name), encoding="utf-8") as stream:
                    job.output += stream.read()
        return [f"exit status {status}: {job.output}"] if status else []

    def recipe(self):
        """As the man page says."""
        job = Job(self.fixture, "slurm")
        for turn in "", ", second job":
            self.tell(f"slurm: the recipe{turn}",
                      self.submit(job, recipe("slurm")) or job.faults("Slurm", 4, jobs=1) + job.said())

    def kinds(self):
        """Steps by each of Slurm's interfaces, and through a wrapper."""
        text = shares(recipe("slurm"), False)
        for name, old, new in (("plain", "", ""), ("pmi2", "srun ", "srun --mpi=pmi2 "),
                               ("pmix", "srun ", "srun --mpi=pmix "),
                               ("wrapper", "python3", "sh wrapper.sh python3"),
                               ("two tasks a host", "--ntasks=4", "--ntasks=4 --ntasks-per-node=2")):
            job = Job(self.fixture, "slurm-" + name.replace(" ", "-"))
            self.tell(f"slurm: {name}, a listing a host",
                      self.submit(job, text.replace(old, new)) or job.faults("Slurm", 4) + job.said())

    def steps(self):
        """Several steps at once in one allocation, and one that is cancelled."""
        job = Job(self.fixture, "slurm-steps")
        faults = self.submit(job, HEAD + STEP + "\n".join(
            f"step s{i} -N2 -n2 --ntasks-per-node=1 --exact python3 $PWD/train.py &" for i in (0, 1))
            + "\nwait\n")
        for number in (0, 1):
            faults += job.faults("Slurm", 2, jobs=2 - 2 * number, below=f"s{number}")
        self.tell("slurm: two steps at once, each a job of its own", faults + job.said())

        job = Job(self.fixture, "slurm-cancelled")
        faults = self.submit(job, HEAD + STEP + (
            "step s0 -N2 -n4 sh -c 'ls $SHARD_DATASET >/dev/null; touch listed.$SLURM_PROCID; sleep 86400' &\n"
            "while [ $(ls s0 | grep -c listed) != 4 ]; do sleep 0.1; done\n"
            "scancel $SLURM_JOB_ID.0; wait\n"
            "step s1 -N2 -n4 python3 $PWD/train.py\n"))
        self.tell("slurm: a step after a cancelled one", faults or job.faults("Slurm", 4, jobs=2, below="s1"))

    def array(self):
        """Each job of an array is one by itself."""
        job = Job(self.fixture, "slurm-array")
        text = (HEAD + STEP).replace("--ntasks=4", "--ntasks=4 --array=0-1")
        faults = self.submit(job, text + "step a$SLURM_ARRAY_TASK_ID python3 $PWD/train.py\n", "--array=0-1")
        for number in (0, 1):
            faults += job.faults("Slurm", 4, jobs=2 - 2 * number, below=f"a{number}")
        self.tell("slurm: an array of two jobs", faults + job.said())

    def shared_array(self):
        """The tasks of an array share out a dataset, as libshard-examples(7) says; without that each is a world of one."""
        job = Job(self.fixture, "slurm-shared-array")
        job.index()
        faults, shares_of = [], {}
        for options in "--array=0-3", "--array=2":  # a task that failed, again
            faults += self.submit(job, recipe("array"), options)
            shares_of[options] = [report["main"] for report in job.reports()]
            shutil.rmtree(os.path.join(job.folder, "out"), ignore_errors=True)
        every, again = shares_of.values()
        if len(every) != 4 or sorted(sum(every, [])) != sorted(os.listdir(job.data)) or len(again) != 1 or again[0] not in every:
            faults.append(f"shares {shares_of}: {job.output}")
        self.tell("slurm: an array that shares, and one of its tasks again", faults + job.said())
        job = Job(self.fixture, "slurm-alone")
        faults = self.submit(job, HEAD + "run -n1 -N1 ls $DATA\n", "--array=0-1")
        self.check("slurm: a task of an array that is a world of one has a line", not faults and len(job.said()) == 2 and
                   all("SLURM_ARRAY_TASK_ID" in line for line in job.said()), job.output)

    def requeued(self):
        """A job that runs again has the dataset as it is then."""
        job = Job(self.fixture, "slurm-requeued")
        running = self.fixture.hosts[0].start(
            ["sbatch", "--wait", "--requeue", "--output", os.path.join(job.folder, "slurm.out"),
             job.script(HEAD + STEP + "step r${SLURM_RESTART_COUNT:-0} python3 $PWD/train.py\n"
                        "[ -n \"$SLURM_RESTART_COUNT\" ] || { echo $SLURM_JOB_ID >id.new; mv id.new id; sleep 86400; }\n")],
            {**job.environment(), **self.cluster.env}, cwd=job.folder)
        try:
            processes.until(lambda: os.path.exists(os.path.join(job.folder, "id")), "the job's number")
            with open(os.path.join(job.folder, "id"), encoding="utf-8") as stream:
                number = stream.read().strip()
            faults = job.faults("Slurm", 4, below="r0")
            job.add("later")
            self.cluster.run(["scontrol", "requeue", number])
            # It would wait for two minutes.
            processes.until(lambda: "JobState=PENDING" in self.cluster.run(["scontrol", "show", "job", number])[1],
                            "the end of a requeued job")
            time.sleep(1.2)  # of slurmd's clock, however slow the machine is: what slurmd has ended it does not start again within the same second
            self.cluster.run(["scontrol", "update", "job=" + number, "StartTime=now"])
            output = running.communicate(timeout=processes.HANGS)[0].decode()
            faults += [f"exit status {running.returncode}: {output}"] if running.returncode else []
            self.tell("slurm: a job that was requeued", faults or job.faults("Slurm", 4, below="r1"))
        finally:
            processes.kill_tree(running.pid)

    def script_itself(self):
        """The batch script is none of the ranks, though Slurm gives it the number of one."""
        job = Job(self.fixture, "slurm-script")
        self.submit(job, HEAD + "LD_PRELOAD=$LIBSHARD ls $DATA\nLD_PRELOAD=$LIBSHARD ls /\n")
        self.check("slurm: the batch script gets no share, but an error",
                   "batch script" in job.output and "f0000" not in job.output and "usr" in job.output, job.output)

    def launched(self):
        """The cases of tests/launchers that take Slurm."""
        launchers.run(self.fixture.verdicts, os.path.join(self.fixture.folder, "launchers"), launchers.SLURM,
                      lambda words, env, cwd: self.fixture.hosts[0].run(words, {**env, **self.cluster.env}, cwd=cwd))

    def left(self):
        """PyTorch's variables that are left from the batch script."""
        job = Job(self.fixture, "slurm-left")
        self.submit(job, HEAD + "export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID\n"
                    "run -N2 -n4 ls $DATA\n")
        names = [line for line in job.output.splitlines() if line in os.listdir(job.data)]
        self.check("slurm: one rank's number in all tasks is an error, and no name is seen twice",
                   len(names) == len(set(names)) and job.output.count("contradict") == 3, job.output)

    def changing(self):
        """A dataset that changes while a step starts."""
        job = Job(self.fixture, "slurm-changing", 1000)
        job.script(differing.LATE, "wrapper.sh")
        text = HEAD.replace("--ntasks=4", "--ntasks=4 --ntasks-per-node=2") + "run sh wrapper.sh python3 train.py\n"
        faults = differing.change(self.fixture, job, lambda: self.fixture.hosts[0].start(
            ["sbatch", "--wait", "--output", "slurm.out", job.script(text)],
            {**job.environment(), **self.cluster.env}, cwd=job.folder))
        with open(os.path.join(job.folder, "slurm.out"), encoding="utf-8") as stream:
            job.output = stream.read()
        differing.tell_change(self.fixture, "slurm", job, faults)

    def dlio(self):
        """DLIO as a step, by PMIx, which libmpi's MPI_Init speaks."""
        job = differing.dataset(self.fixture, "slurm-dlio")
        text = (HEAD.replace("--ntasks=4", "--ntasks=2") + "export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=eth0"
                f" SHARD_LOG=info\nrun --mpi=pmix {differing.benchmark(job)}\n")
        faults = self.submit(job, text)
        status, output = job.verify()
        self.tell("slurm: DLIO by --mpi=pmix", faults or (
            [output + job.output] if status or "with 2 process" not in job.output else []))


def slurm(fixture):
    """All of it."""
    folder = os.path.join(fixture.folder, "cluster")
    os.mkdir(folder)
    with Slurm(fixture.hosts, folder) as cluster:
        cases = Cases(fixture, cluster)
        for case in (cases.recipe, cases.kinds, cases.steps, cases.array, cases.shared_array, cases.requeued, cases.script_itself,
                     cases.launched, cases.left, cases.changing, cases.dlio):
            case()
