"""Launchers, wrappers and programs that number their ranks: a table, and what must come of each row.

Each case of several ranks runs twice, as two launches. Its ranks' shares together must be the dataset as the launch found it, each file
once, whatever is added meanwhile; what a rank forks and starts has the rank's share.
"""
import collections
import glob
import json
import os
import re
import shutil
import socket
import subprocess

from tests.harness import paths, processes

CHECKOUT = paths.blankless(paths.REPO)
LAUNCHERS = os.path.join(CHECKOUT, ".venv-launchers")
FRAMEWORKS_BIN = os.path.join(CHECKOUT, ".venv-frameworks", "bin")
OPENMPI = "mpirun.openmpi --oversubscribe"
# Of two that start at once, Open MPI's mpirun may find that the other has just made the session's folder, and end.
OWN = "env TMPDIR=$(mktemp -d -p $OUT) "
MPICH = "mpirun.mpich"
TORCHRUN = os.path.join(CHECKOUT, ".venv", "bin", "torchrun") + " --standalone"
MPICH5 = os.path.join(LAUNCHERS, "mpich", "bin", "mpiexec")
OPENMPI5 = os.path.join(LAUNCHERS, "openmpi", "bin", "mpirun") + " --map-by :OVERSUBSCRIBE"
IMPI = "env PATH={0}:$PATH {0}/mpirun".format(os.path.join(LAUNCHERS, "impi", "bin"))
O = "OMPI_COMM_WORLD_RANK,OMPI_COMM_WORLD_SIZE"
S = "SLURM_PROCID,SLURM_STEP_NUM_TASKS"
NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/nonexistent SHARD_CACHE_DIR=$NOBODYS "


def both(names):
    """A wrapper's copy of a launcher's numbers."""
    return "export RANK=${} WORLD_SIZE=${}; ".format(*names.split(","))


# (name, command, what must be seen). $P is rank.py under libshard.
#   worlds K N   K worlds of N ranks, each with all files among its ranks
#   error N WORD  N ranks fail, with a line that has the word
#   all N        N ranks have all files each; the line tells of a world of one
#   own N        N ranks that are started by hand, each with a listing of its own: shares of N
PLAIN = [
    ("openmpi", f"{OPENMPI} -n 3 $P", "worlds 1 3"),
    ("openmpi: a shell between", f"bash -c '{OPENMPI} -n 3 bash -c \"$P; :\"; :'", "worlds 1 3"),
    ("mpich", f"{MPICH} -n 3 $P", "worlds 1 3"),
    ("mpich: a shell between", f"bash -c '{MPICH} -n 3 bash -c \"$P; :\"; :'", "worlds 1 3"),
    ("torchrun", f"{TORCHRUN} --nproc-per-node 3 --no-python $P", "worlds 1 3"),
    ("torchrun with a port", f"{TORCHRUN.replace('--standalone', '--master-port 0')} --nproc-per-node 3 --no-python bash -c '$P; :'",
     "worlds 1 3"),
    ("mpirun -n 1", f"{OPENMPI} -n 1 $P", "all 1"),
    # copies
    ("openmpi: a wrapper's copy", f"{OPENMPI} -n 3 bash -c '{both(O)} $P; :'", "worlds 1 3"),
    ("openmpi: a late copy", f"{OPENMPI} -n 3 $P copy={O}", "worlds 1 3"),
    ("mpich: a late copy, a child first", f"{MPICH} -n 3 $P first copy=PMI_RANK,PMI_SIZE", "worlds 1 3"),
    # left over, or half set
    ("openmpi: RANK of a profile's", f"export RANK=0 WORLD_SIZE=2; {OPENMPI} -n 3 $P", "worlds 1 3"),
    ("mpich: WORLD_SIZE of a profile's", f"export WORLD_SIZE=2; {MPICH} -n 3 $P", "worlds 1 3"),
    ("openmpi: LOCAL_RANK by a wrapper", f"{OPENMPI} -n 3 bash -c 'LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK $P; :'", "worlds 1 3"),
    ("LOCAL_RANK in a world of one", f"{OPENMPI} -n 1 env LOCAL_RANK=0 $P", "error 1 LOCAL_RANK=0"),
    ("WORLD_SIZE alone", "WORLD_SIZE=3 $P", "error 1 WORLD_SIZE=3"),
    ("SHARD_SIZE alone", f"export SHARD_SIZE=1048576; {OPENMPI} -n 2 $P", "error 2 SHARD_SIZE=1048576"),
    ("SHARD_RANK alone", f"export SHARD_RANK=0; {MPICH} -n 2 $P", "error 2 SHARD_RANK=0"),
    ("a world of one in each of two ranks", f"{OPENMPI} -n 2 bash -c 'RANK=0 WORLD_SIZE=1 $P; :'", "error 2 WORLD_SIZE=1"),
    # set late by the program
    ("spawn", "$P spawn=3", "worlds 1 3"),
    ("fork", "$P fork=3", "worlds 1 3"),
    ("fork, a child first", "$P fork=3 first", "worlds 1 3"),
    ("spawn in mpirun -n 1", f"{OPENMPI} -n 1 $P spawn=3", "worlds 1 3"),
    ("spawn in mpiexec -n 1", f"{MPICH} -n 1 $P spawn=3", "worlds 1 3"),
    ("spawn in two ranks", f"{OPENMPI} -n 2 $P spawn=3", "worlds 2 3"),
    ("late, and another rank later", "$P set=RANK:0,WORLD_SIZE:1 again=RANK:1,WORLD_SIZE:2", "again"),
    # one in another
    ("torchrun in openmpi", f"{OPENMPI} -n 2 {TORCHRUN} --nproc-per-node 2 --no-python $P", "worlds 2 2"),
    ("openmpi in torchrun", f"{TORCHRUN} --nproc-per-node 2 --no-python bash -c '{OWN}{OPENMPI} -n 2 $P'", "worlds 2 2"),
    ("mpich in openmpi", f"{OPENMPI} -n 2 {MPICH} -n 2 $P", "worlds 2 2"),
    ("openmpi in mpich", f"{MPICH} -n 2 bash -c '{OWN}{OPENMPI} -n 3 $P'", "worlds 2 3"),
    ("mpich in mpich", f"{MPICH} -n 2 {MPICH} -n 3 $P", "worlds 2 3"),
    ("torchrun in torchrun", f"{TORCHRUN} --nproc-per-node 2 --no-python {TORCHRUN} --nproc-per-node 2 --no-python $P", "worlds 2 2"),
    # processes
    ("setsid", f"setsid -w {OPENMPI} -n 3 setsid -w $P", "worlds 1 3"),
    ("not dumpable", f"{OPENMPI} -n 3 $P nodump", "worlds 1 3"),
    ("a title", f"{MPICH} -n 3 $P title", "worlds 1 3"),
    ("an environment of 200 KB", f"export LONG1=$(printf %0100000d 1) LONG2=$(printf %0100000d 2); {MPICH} -n 3 $P", "worlds 1 3"),
    # by hand
    ("RANK by hand", "bash -c 'for i in 0 1 2; do RANK=$i WORLD_SIZE=3 $P & done; wait'", "worlds 1 3"),
    ("SHARD_RANK by hand, SHARD_JOB", "export SHARD_JOB=a.$OUT; for i in 0 1 2; do SHARD_RANK=$i SHARD_SIZE=3 $P & done; wait", "worlds 1 3"),
    ("groups of an mpirun's ranks", f"{OPENMPI} -n 4 bash -c 'SHARD_RANK=$((OMPI_COMM_WORLD_RANK/2)) SHARD_SIZE=2 $P; :'", "groups 2 2"),
]
ROOT = [
    ("openmpi: another user", f"{NOBODY} {OPENMPI} -n 3 $P", "worlds 1 3"),
    ("mpich: not dumpable, another user", f"{NOBODY} {MPICH} -n 3 $P nodump", "worlds 1 3"),
    ("mpich: a PID namespace for all", f"unshare -fp --mount-proc {MPICH} -n 3 $P", "worlds 1 3"),
    ("openmpi: mpirun is a container's first process", f"unshare -fp --mount-proc {OPENMPI} -n 3 $P", "worlds 1 3"),
    ("openmpi: PID namespaces, the host's /proc", f"{MPICH} -n 3 unshare -fp $P", "worlds 1 3"),
    ("hidepid=2", f"unshare -m bash -c 'mount -t proc -o hidepid=2 proc /proc; {NOBODY} {OPENMPI} -n 3 $P'", "worlds 1 3"),
]
SLURM = [
    ("srun", "srun -n 3 $P", "worlds 1 3"),
    ("srun: a shell between", "srun -n 3 bash -c '$P; :'", "worlds 1 3"),
    ("srun --mpi=pmi2", "srun --mpi=pmi2 -n 3 $P", "worlds 1 3"),
    ("srun --mpi=pmix", "srun --mpi=pmix -n 3 $P", "worlds 1 3"),
    ("srun: a wrapper's copy", f"srun -n 3 bash -c '{both(S)} $P; :'", "worlds 1 3"),
    ("srun: a late copy", f"srun -n 3 $P copy={S}", "worlds 1 3"),
    ("srun: a title", "srun -n 3 $P title", "worlds 1 3"),
    ("srun: WORLD_SIZE of a batch script's", "export WORLD_SIZE=3 MASTER_PORT=29500; srun -n 3 $P", "worlds 1 3"),
    ("srun -n 1: WORLD_SIZE of a batch script's", "export WORLD_SIZE=3; srun -n 1 $P", "error 1 WORLD_SIZE=3"),
    ("srun -n 1", "srun -n 1 $P", "all 1"),
    ("srun: SHARD_SIZE alone", "export SHARD_SIZE=4; srun -n 2 $P", "error 2 SHARD_SIZE=4"),
    ("srun: a rank's number by a wrapper that adds", "srun -n 2 bash -c 'RANK=$((SLURM_PROCID+2)) WORLD_SIZE=4 exec $P'", "error 2 RANK="),
    ("spawn in srun -n 1", "srun -n 1 $P spawn=3", "worlds 1 3"),
    ("openmpi in srun -n 1", f"srun -n 1 {OPENMPI} --mca plm isolated --mca ras ^slurm -n 3 $P", "worlds 1 3"),
    ("torchrun in srun", f"srun -n 2 {TORCHRUN} --nproc-per-node 2 --no-python $P", "worlds 2 2"),
    ("mpich in srun", f"srun -n 2 env HYDRA_BOOTSTRAP=fork HYDRA_RMK=user {MPICH} -n 2 $P", "worlds 2 2"),
    ("the batch script", "sbatch -W -n 3 -o $OUT/log --wrap '$P'", "error 1 batch"),
    ("the batch script of one task", "sbatch -W -n 1 -o $OUT/log --wrap '$P'", "error 1 batch"),
    ("a task of a job array", "sbatch -W -n 1 --array=1-2 -o $OUT/log.%a --wrap 'srun -n 1 $P'", "all 2"),
    ("a job array's tasks with numbers", "sbatch -W -n 1 --array=1-2 -o $OUT/log.%a --wrap '"
     "export SHARD_JOB=a.$OUT SHARD_SIZE=$SLURM_ARRAY_TASK_COUNT SHARD_RANK=$((SLURM_ARRAY_TASK_ID - SLURM_ARRAY_TASK_MIN)); $P'", "worlds 1 2"),
]
WHEELS = [
    ("mpich 5", f"{MPICH5} -n 3 $P", "worlds 1 3"),
    ("mpich 5: MPI_Init", f"{MPICH5} -n 3 $P init=$MPICH_LIB", "worlds 1 3"),
    ("openmpi 5", f"{OPENMPI5} -n 3 $P", "worlds 1 3"),
    ("openmpi 5: MPI_Init", f"{OPENMPI5} -n 3 $P init=$OPENMPI_LIB", "worlds 1 3"),
    ("impi", f"{IMPI} -n 3 $P", "worlds 1 3"),
    ("impi: a shell between", f"{IMPI} -n 3 bash -c '$P; :'", "worlds 1 3"),
    ("impi: MPI_Init", f"{IMPI} -n 3 $P init=$IMPI_LIB", "worlds 1 3"),
    ("openmpi 5 in mpich", f"{MPICH} -n 2 bash -c '{OWN}{OPENMPI5} -n 2 $P'", "worlds 2 2"),
    ("openmpi 5 in openmpi 5", f"{OPENMPI5} -n 2 bash -c '{OWN}{OPENMPI5} -n 2 $P'", "worlds 2 2"),
    ("impi in openmpi", f"{OPENMPI} -n 2 {IMPI} -n 2 $P", "worlds 2 2"),
]
FRAMEWORKS = [
    ("torch's mp.spawn", "$F torch", "worlds 1 2"),
    ("torch's mp.spawn in mpirun -n 1", f"{OPENMPI} -n 1 $F torch", "worlds 1 2"),
    ("accelerate's notebook_launcher", "$F notebook", "worlds 1 2"),
    ("Lightning's ddp_spawn in mpirun -n 1", f"{OPENMPI} -n 1 $F lightning", "error 2 LOCAL_RANK"),
    ("DeepSpeed", "env PATH=$FRAMEWORKS:$PATH DS_ACCELERATOR=cpu LD_PRELOAD=$LIBSHARD deepspeed --num_gpus 2 --master_port $PORT "
     "--no_local_rank $RANK_PY", "worlds 1 2"),
    ("Ray Train", "$F ray", "worlds 1 2"),
]


def free_port():
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def ranks_of(want):
    """How many ranks list."""
    words = want.split()
    counts = {"worlds": lambda: int(words[1]) * int(words[2]), "groups": lambda: int(words[1]) * int(words[2])}
    return counts.get(words[0], lambda: int(words[1]) if len(words) > 1 else 1)()


class Case:
    """One row, in a folder of its own."""

    def __init__(self, folder, row, run):
        self.name, self.command, self.want = row
        self.folder, self._run, self.output = folder, run, ""
        os.mkdir(folder)
        for part, mode in (("data", 0o755), ("cache", 0o700), ("nobodys", 0o777), ("cwd", 0o777)):
            os.mkdir(os.path.join(folder, part))
            os.chmod(os.path.join(folder, part), mode)
        for part in "abc":
            os.mkdir(os.path.join(folder, "data", part))
            for number in range(20):
                with open(os.path.join(folder, "data", part, f"{part}{number:02}"), "w", encoding="utf-8"):
                    pass
        os.chmod(os.path.join(folder, "data", "a"), 0o777)
        self._open_to_nobody(os.path.join(folder, "nobodys"))

    @staticmethod
    def _open_to_nobody(folder):
        if os.geteuid() == 0:
            os.chown(folder, 65534, 65534)
            os.chmod(folder, 0o700)

    def names(self):
        """The dataset's files."""
        return sorted(name for _, _, names in os.walk(os.path.join(self.folder, "data")) for name in names)

    def environment(self, out):
        """A launch's."""
        env = {name: value for name, value in os.environ.items()
               if not re.match("SHARD_|SLURM_|OMPI_|PMI|TORCHELASTIC|MASTER_|LD_PRELOAD|RANK$|WORLD_SIZE$|LOCAL_", name)}
        env["PATH"] += ":/usr/sbin:/sbin"
        preloaded = f"env LD_PRELOAD={paths.LIBRARY}"
        return {**env, "OUT": out, "DATA": os.path.join(self.folder, "data"), "RANKS": str(ranks_of(self.want)),
                "P": f"{preloaded} /usr/bin/python3 -m tests.launchers.rank",
                "RANK_PY": os.path.join(CHECKOUT, "tests", "launchers", "rank.py"), "LIBSHARD": paths.LIBRARY, "PORT": str(free_port()),
                "F": f"{preloaded} {FRAMEWORKS_BIN}/python -m tests.launchers.frames", "FRAMEWORKS": FRAMEWORKS_BIN, "PYTHONPATH": paths.REPO,
                "SHARD_DATASET": os.path.join(self.folder, "data"), "SHARD_CACHE_DIR": os.path.join(self.folder, "cache"),
                "NOBODYS": os.path.join(self.folder, "nobodys"), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
                **{f"{name.upper()}_LIB": library(name) for name in ("mpich", "openmpi", "impi")}}

    def launch(self, turn):
        """Run the command; what its ranks have written, and the dataset before it."""
        out = os.path.join(self.folder, f"out{turn}")
        os.mkdir(out)
        os.chmod(out, 0o777)
        before = self.names()
        _, self.output = self._run(["bash", "-c", self.command], self.environment(out), os.path.join(self.folder, "cwd"))
        for log in glob.glob(os.path.join(out, "log*")):
            with open(log, encoding="utf-8", errors="replace") as stream:
                self.output += stream.read()
        notes = []
        for path in sorted(glob.glob(os.path.join(out, "*.json"))):
            with open(path, encoding="utf-8") as stream:
                notes.append(json.load(stream))
        return before, notes

    def faults(self):
        """Lines about what is wrong in two launches; one, if there is no listing to be mistaken for the other's."""
        lines = []
        for turn in (1, 2) if re.match("worlds|groups", self.want) else (1,):
            before, notes = self.launch(turn)
            found = self.judge(before, notes)
            lines += [f"launch {turn}: {line}" for line in found]
            if found:
                lines.append(self.output[-3000:])
                break
        if not lines:
            shutil.rmtree(self.folder)
        return lines

    def judge(self, before, notes):
        """Lines about what is wrong in one launch."""
        mains = {note["main"]: note for note in notes if note["kind"] == "main"}
        words = self.want.split()
        if len(mains) != ranks_of(self.want):
            return [f"{len(mains)} ranks, not {ranks_of(self.want)}"]
        if words[0] == "again":
            later = [note for note in notes if note["kind"] == "again"]
            return [] if len(later) == 1 and later[0]["error"] and "is rank 1 of 2 now" in self.output else [str(later)]
        late = [] if words[0] != "all" else [sorted(set(self.names()) - set(before))]
        lines = [f"a child ({note['kind']}) has {note['error'] or len(note['names'])}, its rank {mains[note['main']]['error'] or len(mains[note['main']]['names'])}"
                 for note in notes if (note["names"], note["error"]) != (mains[note["main"]]["names"], mains[note["main"]]["error"])
                 and note["names"] not in [sorted(before + more) for more in late]]
        if words[0] == "error":
            lines += [] if all(note["error"] for note in mains.values()) else ["a rank has files"]
            return lines + ([] if words[2] in self.output else [f"no line has '{words[2]}'"])
        lines += [f"rank {note['rank']} of {note['size']}: {note['error']} {note['line']}" for note in mains.values() if note["error"] or note["line"]]
        if words[0] == "all":
            lines += [f"a rank has {len(note['names'])} of {len(before)}" for note in mains.values()
                      if note["names"] not in [before, *(sorted(before + more) for more in late)]]
            return lines + ([] if self.output.count("a world of one") == int(words[1]) else ["not one line for each job says what a world of one is"])
        worlds, size = int(words[1]), int(words[2])
        seen = collections.Counter((note["rank"], note["size"]) for note in mains.values())
        if seen != {(rank, size): worlds for rank in range(size)}:
            lines.append(f"ranks and sizes: {sorted(seen.elements())}")
        files = collections.Counter(name for note in mains.values() for name in note["names"])
        if words[0] == "groups" and self.output.count(" override ") != 1:
            lines.append("not one line says that SHARD_RANK goes before mpirun's numbers")
        if worlds == 1 or words[0] == "groups":
            wrong = {name for name in {*files, *before} if files[name] != (worlds if name in before else 0)}
        else:  # each world is a job, which may begin before the file is added or after
            wrong = {name for name in before if files[name] != worlds}
        return lines + ([f"files in no share, or in several: {sorted(wrong)[:5]}, {len(wrong)} in all"] if wrong else [])


def library(name):
    """A wheel's libmpi: libmpi.so may be a text for the linker."""
    return next(iter(sorted(glob.glob(os.path.join(LAUNCHERS, name, "lib", "libmpi.so.[0-9]*")))), "")


def run_here(words, env, cwd):
    """(exit status, output) of a command on this machine."""
    job = subprocess.Popen(words, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output = job.communicate(timeout=processes.HANGS)[0].decode("utf-8", "replace")
    finally:
        processes.kill_tree(job.pid)
    return job.returncode, output


def run(verdicts, folder, rows, runner, wanted=""):
    """All of the rows whose names have a match."""
    os.makedirs(folder, mode=0o755, exist_ok=True)
    for number, row in enumerate(rows):
        if re.search(wanted, row[0]):
            verdicts.tell(row[0], Case(os.path.join(folder, str(number)), row, runner).faults())
