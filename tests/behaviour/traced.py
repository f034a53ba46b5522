#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The logs of SHARD_STATS against strace: each file is counted as often as the kernel has opened it, whatever the processes
of a rank are, and for the rank that they are of.

    python3 -m tests.behaviour.traced [CASE...]
"""
import collections
import os
import shutil
import subprocess
import sys
import tempfile

from tests.harness import paths, processes, statlogs
from tests.harness.opens import opens_difference, read_strace
from tests.harness.verdicts import Verdicts

PROGRAM = r'''
import os, signal, subprocess, sys, threading, time
how, data = sys.argv[1:3]
def names(): return [os.path.join(data, name) for name in sorted(os.listdir(data))]
def read(path): open(path, "rb").close()
def read_all(paths):
    for path in paths: read(path)
def rank_of_own(rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE="3", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="3")
    read_all(names())
class Files:
    def __init__(self): self.paths = names()
    def __len__(self): return len(self.paths)
    def __getitem__(self, i): read(self.paths[i]); return i
def main():
    if how == "plain": read_all(names())
    elif how == "threads":
        threads = [threading.Thread(target=read_all, args=(names(),)) for _ in range(4)]
        for one in threads: one.start()
        for one in threads: one.join()
    elif how.startswith("pool-"):
        import multiprocessing
        with multiprocessing.get_context(how[5:]).Pool(3) as pool: pool.map(read, names())
    elif how.startswith("loader-"):
        from torch.utils.data import DataLoader
        _, context, workers = how.split("-")
        loader = DataLoader(Files(), batch_size=4, num_workers=int(workers), multiprocessing_context=context if workers != "0" else None,
                            persistent_workers=workers == "3")
        for epoch in range(2):
            os.environ["SHARD_EPOCH"] = str(epoch)
            for _ in loader: pass
    elif how == "mpi4py":
        from mpi4py import MPI
        read_all(names()); MPI.COMM_WORLD.Barrier()
    elif how == "vfork":
        for path in names(): subprocess.run(["cat", path], check=True)
    elif how == "exec":
        read_all(names()[:3])
        os.execv(sys.executable, [sys.executable, sys.argv[0], "plain", data])
    elif how == "daemon":
        read_all(names()[:2]); ready, end = os.pipe()
        if os.fork() == 0:
            os.setsid()
            parent = os.getpid()
            if os.fork() == 0:
                while os.getppid() == parent: time.sleep(0.01)
                read_all(names()[2:]); os.close(end)
            os._exit(0)
        os.wait()
    elif how == "killed":
        pid = os.fork()
        if pid == 0:
            read_all(names()); os.kill(os.getpid(), signal.SIGTERM)
        os.wait(); read_all(names()); os.kill(os.getpid(), signal.SIGKILL)
    elif how == "restarted":
        read_all(names())
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1": sys.exit(1)
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0": time.sleep(600)
    elif how.startswith("late-"):
        import multiprocessing
        children = [multiprocessing.get_context(how[5:]).Process(target=rank_of_own, args=(rank,)) for rank in range(3)]
        for one in children: one.start()
        for one in children: one.join()
if __name__ == "__main__": main()
'''
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
TORCHRUN = [paths.VENV_PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1", "--standalone"]
STEP = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_LOCALID": "0"}
ONE = {"SHARD_RANK": "1", "SHARD_SIZE": "2"}
# name: (launcher before the program, what the program does, variables, the ranks)
CASES = {
    **{name: ([], name, ONE, [1]) for name in (
        "plain", "threads", "pool-fork", "pool-spawn", "pool-forkserver", "loader-fork-0", "loader-fork-2", "loader-fork-3",
        "loader-spawn-2", "loader-spawn-3", "loader-forkserver-2", "vfork", "exec", "daemon", "killed")},
    "mpirun": ([*MPIRUN, "-n", "2"], "mpi4py", {}, [0, 1]),
    "mpirun, DataLoader": ([*MPIRUN, "-n", "2"], "loader-fork-2", {}, [0, 1]),
    "torchrun, restarted": (TORCHRUN, "restarted", {}, [0, 1]),
    "late ranks, fork": ([], "late-fork", {}, [0, 1, 2]),
    "late ranks, spawn": ([], "late-spawn", {}, [0, 1, 2]),
    "late ranks in mpirun -n 1": ([*MPIRUN, "-n", "1"], "late-spawn", {}, [0, 1, 2]),
    "late ranks in a step of Slurm": ([], "late-spawn", STEP, [0, 1, 2]),
}
told = Verdicts()


def run(name, work, data):
    """One case: what differs, as lines."""
    launcher, how, variables, ranks = CASES[name]
    folder = os.path.join(work, name.replace(" ", "-"))
    os.mkdir(folder)
    stats, program = os.path.join(folder, "stats"), os.path.join(work, "program.py")
    env = {key: value for key, value in processes.environment(paths.VENV_PYTHON).items() if not key.startswith(("SHARD_", "SLURM_"))}
    env.update(variables, SHARD_DATASET=data, SHARD_CACHE_DIR=os.path.join(folder, "cache"), SHARD_STATS=stats, OMP_NUM_THREADS="1", TMPDIR=folder)
    inner = ["env", "LD_PRELOAD=" + paths.LIBRARY, paths.VENV_PYTHON, program, how, data]
    if launcher is TORCHRUN:
        inner = [program, how, data]
    trace = ["strace", "-ff", "--seccomp-bpf", "-qq", "-s", "4096", "-o", os.path.join(folder, "trace"), "-e", "trace=open,openat,openat2,creat"]
    trace += ["-E", "LD_PRELOAD=" + paths.LIBRARY] if launcher is TORCHRUN else []
    with open(os.path.join(folder, "log"), "wb") as log:
        subprocess.run([*trace, *launcher, *inner], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                       timeout=processes.HANGS, check=False)
    seen = collections.Counter({path: n for path, n in read_strace(os.path.join(folder, "trace")).items() if path.startswith(data + "/")})
    logs = statlogs.Logs(stats)
    lines = opens_difference(seen, logs.opens(seen))
    if not seen or logs.lost or logs.ranks != ranks:
        lines.append(f"{sum(seen.values())} opens, {logs.lost} lost, ranks {logs.ranks}")
    status, said = statlogs.verify(stats)
    if len(ranks) > 1 and ("complete: proven" not in said or "shares" not in said):
        lines.append(said)
    with open(os.path.join(folder, "log"), "rb") as log:
        return lines and lines + [f"verify: {status} {said}", log.read().decode(errors="replace")[-1500:]]


def main():
    """Run all; the exit status is 1 if anything is wrong."""
    work = tempfile.mkdtemp(prefix="shard-traced.")
    data = os.path.join(work, "data")
    os.mkdir(data)
    for i in range(40):
        open(f"{data}/{i:02}.bin", "x").close()
    with open(os.path.join(work, "program.py"), "w", encoding="utf-8") as stream:
        stream.write(PROGRAM)
    if not shutil.which("strace"):
        told.check("strace", False, "there is none; scripts/setup.sh all installs it")
    for name in CASES if shutil.which("strace") else ():
        if not sys.argv[1:] or any(word in name for word in sys.argv[1:]):
            told.tell(name, run(name, work, data))
    return told.conclude(work)


if __name__ == "__main__":
    sys.exit(main())
