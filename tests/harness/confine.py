"""Runs one step of tests/run.py where nothing else can change its result, and nothing of it can stay.

    python3 -m tests.harness.confine COMMAND...

The step has an environment of its own (KEPT tells what passes), no terminal, no standard input, the usual signals,
limits and umask. Its TMPDIR, HOME and SHARD_CACHE_DIR are new and empty, and removed when the step has succeeded.

Where mounts of its own are allowed (root), /tmp, /var/tmp and /dev/shm are private to the step, and the checkout is
read-only but for the build. At the end the three folders are looked at; what root writes elsewhere, as in /run, is not
seen. Where mounts are not allowed, only TMPDIR is looked at.

A line "FAIL left behind: ..." is printed for each process, mount and file that is there after the step has succeeded,
and the exit status is 1. Processes are ended in any case.
"""
import contextlib
import ctypes
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tests.harness import paths, processes

# What a step has of the caller's environment. Whatever else a user, a launcher or make has set changes no result.
KEPT = ("PATH", "BUILD", "MADE", "PYTHON", "CC", "STRIP", "SEED", "ROUNDS", "KEEP", "FUZZ_BUILD", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS",
        "LSAN_OPTIONS", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PRIVATE = ("/tmp", "/var/tmp")  # on disk; /dev/shm is a tmpfs
ENDS = 60  # seconds that a process has to end by itself after the step: a server that was told to, say
LIBC = ctypes.CDLL(None, use_errno=True)


def begin():
    """Start this program anew as a step, unless it is one already."""
    if "CONFINED" not in os.environ:
        spec = sys.modules["__main__"].__spec__
        program = ["-m", spec.name] if spec else [os.path.abspath(sys.argv[0])]
        os.chdir(paths.REPO)
        os.execv(sys.executable, [sys.executable, "-m", __name__, sys.executable, *program, *sys.argv[1:]])


def mount(source, target, kind="none", flags=0, data=""):
    """mount(2)."""
    words = [os.fsencode(word) for word in (source, target, kind)]
    if LIBC.mount(*words, ctypes.c_ulong(flags), os.fsencode(data)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"mount {source} on {target}: {os.strerror(error)}")


def mounts():
    """Where something is mounted, once for each mount."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
        return [line.split()[4] for line in stream]


def needed():
    """What a step must still find where it is: the checkout, the build, the interpreters, the command line's folders."""
    found = [paths.REPO, paths.BUILD, paths.MADE, sys.prefix, sys.base_prefix, os.environ.get("PYTHON", "")]
    found += [word for word in sys.argv[1:] if os.path.isabs(word) and os.path.isdir(word)]
    found += [str(path) for path in pathlib.Path(paths.REPO).glob(".venv*")]
    return [path for path in dict.fromkeys([*found, *map(os.path.realpath, found)]) if path and os.path.exists(path)]


def hide(folder, target, keep):
    """Bind a folder over a directory in which the paths to keep are those that they were."""
    inside = [(path, os.open(path, os.O_PATH)) for path in keep
              if os.path.realpath(path).startswith(target + "/") and not os.path.islink(path)]
    mount(folder, target, flags=MS_BIND)
    for path, number in sorted(inside):
        if not os.path.exists(path):
            os.makedirs(path)
            mount(f"/proc/self/fd/{number}", path, flags=MS_BIND | MS_REC)
        os.close(number)


def confine(folder):
    """Mounts of the step's own. Returns (the folder to be TMPDIR, what to look at in the end), or nothing where they
    are not allowed."""
    if os.geteuid() != 0 or LIBC.unshare(CLONE_NEWNS) != 0:
        return None
    try:
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
    except PermissionError:  # AppArmor, in a container
        return None
    keep = needed()
    owns = [os.open(folder, os.O_PATH)]  # it may be hidden itself, or in the checkout
    mount(paths.REPO, paths.REPO, flags=MS_BIND | MS_REC)
    if os.path.realpath(paths.MADE).startswith(os.path.realpath(paths.REPO) + "/"):
        mount(paths.MADE, paths.MADE, flags=MS_BIND)
    mount("none", paths.REPO, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)
    for target in PRIVATE:
        name = target.strip("/").replace("/", "-")
        os.mkdir(name, 0o700, dir_fd=owns[0])
        owns.append(os.open(name, os.O_RDONLY, dir_fd=owns[0]))
        os.fchmod(owns[-1], 0o1777)
        hide(f"/proc/self/fd/{owns[-1]}", target, keep)
    for number in owns:
        os.close(number)
    mount("none", "/dev/shm", "tmpfs", 0, "mode=1777")
    return "/tmp", [*PRIVATE, "/dev/shm"]


def prepare(folder):
    """The environment of the step, and the folders to look at in the end."""
    made = confine(folder)
    if made is None:
        own = os.path.join(folder, "tmp")
        os.mkdir(own)
        os.chmod(own, 0o1777)
        made = own, [own]
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env["PATH"] = ":".join([env.get("PATH", "/usr/bin:/bin"), "/usr/local/sbin", "/usr/sbin", "/sbin"])
    env.update(TMPDIR=made[0], HOME=os.path.join(made[0], "home"), SHARD_CACHE_DIR=os.path.join(made[0], "cache"),
               USER_HOME=os.path.expanduser("~"), CONFINED="1", LC_ALL="C.UTF-8", TZ="UTC", PYTHONDONTWRITEBYTECODE="1")
    env.setdefault("PYTHON", sys.executable)
    for name in ("HOME", "SHARD_CACHE_DIR"):
        os.mkdir(env[name], 0o700)
    return env, made[1]


def settle():
    """Signals, limits and umask as in a login shell."""
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024 if most == resource.RLIM_INFINITY else min(1024, most), most))


def reap(seconds):
    """Wait for processes of the step that are about to end."""
    end = time.monotonic() + seconds
    with contextlib.suppress(ChildProcessError):  # there is none any more
        while time.monotonic() < end:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)


def end_all():
    """End all processes of the step that there still are; their command lines."""
    stay = processes.process_tree(os.getpid())[1:]
    lines = []
    for pid in stay:
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as stream:
                lines.append(f"process {pid}: {stream.read().replace(chr(0), ' ')[:300]}")
    while stay:
        for pid in stay:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)
        stay = processes.process_tree(os.getpid())[1:]
    return lines


def wait(job):
    """The job's exit status. Orphans of the step end here, too: init would not leave them as zombies."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == job.pid:
            job.returncode = os.waitstatus_to_exitcode(status)
            return job.returncode


def left(folders, env, keep):
    """The files that are there, but for what the step was given."""
    given = {env["HOME"], env["SHARD_CACHE_DIR"], *keep}
    given |= {str(parent) for path in keep for parent in pathlib.Path(path).parents}
    return [f"file {entry.path}" for folder in folders for entry in os.scandir(folder) if entry.path not in given]


@contextlib.contextmanager
def working_folder(keep):
    """A new folder; removed at the end unless keep() is true. Its path is short, for sockets, and one that LD_PRELOAD
    can hold."""
    for parent in (tempfile.gettempdir(), "/var/tmp", "/tmp"):
        if len(parent) <= 40 and not re.search(r"[\s:]", parent) and os.access(parent, os.W_OK | os.X_OK):
            break
    folder = tempfile.mkdtemp(prefix="shard-run.", dir=parent)
    os.chmod(folder, 0o755)
    outside = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    try:
        yield folder
    finally:
        LIBC.setns(outside, CLONE_NEWNS)  # where the folder is not hidden, and nothing is mounted below it
        if keep():
            print(f"what the step has written is in {folder}", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def run(command, folder):
    """Run the command; its exit status, or 1 if something of it is left."""
    keep = needed()
    env, folders = prepare(folder)
    if command[0] == "make":  # it works on what was made, and no copy
        env["BUILD"] = os.path.relpath(paths.MADE, paths.REPO)
    before = mounts()
    lines, status = [], 1
    try:
        job = subprocess.Popen(command, cwd=paths.REPO, env=env, stdin=subprocess.DEVNULL, preexec_fn=settle)
        try:
            status = wait(job)
            reap(0 if status else ENDS)
        except SystemExit as told:  # a driver ends what it has started, servers too, if it is given the time
            status = told.code
            job.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(20)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        lines = end_all()
    if status == 0:
        after = mounts()
        lines += [f"mount {target}" for target in after if after.count(target) > before.count(target)
                  and (len(folders) > 1 or target.startswith(folders[0]))]  # others mount, too, where mounts are not its own
        lines += left(folders, env, keep)
        for line in lines:
            print(f"FAIL left behind: {line}", flush=True)
    return status if status > 0 else 128 - status if status < 0 else 1 if lines else 0


def main():
    """Run the command line's."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    processes.end_jobs_on_signals()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    status = 1
    with working_folder(lambda: status not in (0, 130, 143)) as folder:
        try:
            status = run(sys.argv[1:], folder)
        except SystemExit as told:  # before the step has begun
            status = told.code
    return status


if __name__ == "__main__":
    sys.exit(main())
