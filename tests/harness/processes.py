"""Starting MPI jobs, and ending whole process trees."""
import collections
import contextlib
import os
import signal
import subprocess
import sys
import time

from tests.harness import paths

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
          "--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none",
          "--mca", "mpi_yield_when_idle", "1"]
PATIENT = paths.preload("patient")
HANGS = 900  # seconds: what takes longer hangs. A quiet machine takes less than a twentieth for all that has this limit.
# DLIO's tracer, where it is not switched off, takes half of a worker's time: it looks at all modules for its caller.
QUIET = {"DFTRACER_ENABLE": "0", "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "",
         "HYDRA_FULL_ERROR": "1", "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}


def end_jobs_on_signals():
    """Let SIGTERM, as timeout(1) sends it, SIGINT and SIGHUP unwind this program so that its jobs end with it. A signal
    that comes again while it unwinds is ignored, and so is a signal that whoever started it ignores, as nohup does."""
    def end(number, _):
        signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)


def own_mounts(module):
    """Start this driver anew where mounts are its own, of a user who seems to be root. The user's number outside."""
    if "USER_OUTSIDE" not in os.environ:
        words = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-rm"]
        if subprocess.run(words + ["true"], check=False).returncode != 0:
            print(f"skip: {module}: unshare -m is not allowed here")
            sys.exit(0)
        os.environ["USER_OUTSIDE"] = str(os.getuid())
        os.execvp("unshare", words + [sys.executable, "-m", module, *sys.argv[1:]])
    return int(os.environ["USER_OUTSIDE"])


def process_tree(pid):
    """The process and all its descendants, parents first."""
    children = collections.defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stream:
                    parent = int(stream.read().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it has ended meanwhile
            children[parent].append(int(name))
    tree = [pid]
    for member in tree:
        tree.extend(children[member])
    return tree


def kill_tree(pid, first=None):
    """Kill a process with all its descendants; each may be sent another signal first, and have the time to
    say something."""
    tree = process_tree(pid)
    for number in (first, signal.SIGKILL):
        for member in tree if number else []:  # parents first: they cannot end their children
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, number)
            time.sleep(0.1 if number == first else 0)


def doing(pid):
    """Lines that say what a process, its descendants and all their threads wait for: what a test
    tells of a job that hangs."""
    def content(*parts):
        try:
            with open(os.path.join("/proc", *map(str, parts)), encoding="utf-8", errors="replace") as stream:
                return stream.read().replace("\0", " ").strip()
        except OSError:
            return "?"
    for member in process_tree(pid):
        yield f"{member} {content(member, 'cmdline')[:160]}"
        try:
            threads = os.listdir(f"/proc/{member}/task")
        except OSError:
            continue  # it has ended meanwhile
        for thread in threads:
            where = [content(member, "task", thread, name) for name in ("comm", "wchan", "syscall")]
            yield f"    {thread} {' '.join(where)}"


def mpi_command(ranks, command, preload, env, patient=True):
    """The mpirun command line; the variables reach the ranks, not mpirun itself. patient: ranks that wait sleep,
    which is not for what is measured."""
    exported, preload = dict(env), [*preload, *([PATIENT] if patient else [])]
    if preload:
        exported["LD_PRELOAD"] = ":".join(preload)
    # A job that is killed leaves its segments, in /dev/shm by default.
    line = [*MPIRUN, "--mca", "btl_vader_backing_directory", os.environ.get("TMPDIR", "/tmp"), "-n", str(ranks)]
    for name, value in exported.items():
        line += ["-x", f"{name}={value}"]
    return line + command


def environment(python, tree=None):
    """The environment of a job: that of this process, quiet, with the venv's tools on PATH."""
    env = {**os.environ, **QUIET}
    env["PATH"] = os.path.dirname(os.path.abspath(python)) + os.pathsep + env["PATH"]
    env.pop("LD_PRELOAD", None)
    env.pop("PYTHONPATH", None)
    if tree:
        env["PYTHONPATH"] = os.path.abspath(tree)
    return env


def run_job(command, env, cwd, log, stalled=lambda: "", timeout=HANGS, idle=0):
    """Run a job until it ends or stalled() says why it must be stopped. idle: seconds for which none of its processes
    works, and it hangs (idle.py).

    Returns (exit status, reason), the reason being empty if the job ended itself. Of a job that has taken
    too long, the log tells what its processes were doing; those of Python with PYTHONFAULTHANDLER say where.
    """
    from tests.harness.idle import Idle  # pylint: disable=import-outside-toplevel,cyclic-import

    with open(log, "ab") as output:
        job = subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL,
                               stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    end = time.monotonic() + timeout
    hangs, reason = (Idle(job.pid, idle) if idle else lambda: False), ""
    while True:
        try:
            return job.wait(0.1), reason
        except subprocess.TimeoutExpired:
            pass
        except BaseException:
            kill_tree(job.pid)
            raise
        if not reason:
            reason = "timeout" if time.monotonic() > end else "idle" if hangs() else stalled()
            if reason == "timeout":
                with open(log, "a", encoding="utf-8") as output:
                    output.write("\n".join(["", "hangs:", *doing(job.pid), ""]))
            if reason:
                kill_tree(job.pid, signal.SIGABRT if env.get("PYTHONFAULTHANDLER") else None)


def tail(path, count=15):
    """The last lines of a log."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        return "".join(stream.readlines()[-count:])


def until(found, what, seconds=HANGS):
    """What found() gives once it gives something. what: is waited for, in words."""
    end = time.monotonic() + seconds
    while not (result := found()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds} s in vain: {what}")
        time.sleep(0.02)
    return result
