"""One rank of a case of tests/launchers: it lists the dataset, and so do a child that it forks and one that it starts.

    rank.py [MODE...]

    copy=A,B  sets RANK and WORLD_SIZE, late, to what A and B are   set=A:1,B:2  sets variables late
    spawn=N   starts N ranks that set theirs late                   fork=N       forks them
    first     the child that is forked lists before the rank        nodump       makes itself unreadable
    title     writes a title over its environment                   init=LIBMPI  calls MPI_Init between two listings
    again=A:1 lists once more with other variables                  twice        lists in two programs, one after the other

Each listing is a file of JSON in $OUT. The first rank that has listed adds a file to the dataset, and the others wait
for that: a job's ranks have one listing. All stay until $RANKS have listed.
"""
import ctypes
import json
import multiprocessing
import os
import subprocess
import sys
import time

OUT, DATA, RANKS = os.environ["OUT"], os.environ["DATA"], int(os.environ["RANKS"])
LIMIT = 900  # seconds: as processes.HANGS
LIBRARY = ctypes.CDLL(None)


class World(ctypes.Structure):
    """struct shard_world of libshard.h."""
    _fields_ = [(name, ctypes.c_int) for name in ("rank", "size", "local_rank", "local_size")] + [
        ("launcher", ctypes.c_char * 32)]


def note(kind, main, number=[0]):  # pylint: disable=dangerous-default-value
    """List, and write down what was found."""
    world, line = World(), ctypes.create_string_buffer(600)
    rc = LIBRARY.shard_world_get(ctypes.byref(world), line, 600)
    try:
        names = sorted(name for _, _, names in os.walk(DATA, onerror=fail) for name in names)
        error = None
    except OSError as fault:
        names, error = [], fault.errno
    number[0] += 1
    path = os.path.join(OUT, f"{os.uname().nodename}.{os.getpid()}.{time.monotonic_ns()}.{number[0]}")
    with open(path + ".new", "w", encoding="utf-8") as stream:
        json.dump({"kind": kind, "main": main, "rank": world.rank, "size": world.size, "names": names, "error": error,
                   "line": line.value.decode(errors="replace") if rc else ""}, stream)
    os.rename(path + ".new", path + ".json")


def fail(error):
    """os.walk is silent of errors otherwise."""
    raise error


def until(found):
    """Wait for what other ranks do."""
    end = time.monotonic() + LIMIT
    while not found() and time.monotonic() < end:
        time.sleep(0.02)


def mains():
    """How many ranks have listed."""
    count = 0
    for name in os.listdir(OUT):
        if name.endswith(".json"):
            with open(os.path.join(OUT, name), encoding="utf-8") as stream:
                count += json.load(stream)["kind"] == "main"
    return count


def is_first():
    """Whether this is the first rank of all; the others wait until it has listed."""
    try:
        os.close(os.open(os.path.join(OUT, "first"), os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        until(lambda: os.path.exists(os.path.join(OUT, "added")))
        return False


def fork_child(main):
    """A child that is forked lists."""
    pid = os.fork()
    if pid == 0:
        note("fork", main)
        os._exit(0)
    os.waitpid(pid, 0)


def write_title():
    """As setproctitle does: libc has a copy of the environment, which is written over."""
    for name, value in os.environ.items():
        os.unsetenv(name)
        os.putenv(name, value)
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as stream:
        fields = stream.read().rpartition(")")[2].split()
    begin, end = int(fields[47]), int(fields[48])
    with open("/proc/self/mem", "r+b", buffering=0) as stream:
        stream.seek(begin)
        stream.write(b"rank of a=b".ljust(end - begin, b"\0"))


def prepare(modes):
    """What the rank does before it lists."""
    for mode in modes:
        word, _, value = mode.partition("=")
        if word == "copy":
            os.environ["RANK"], os.environ["WORLD_SIZE"] = (os.environ[name] for name in value.split(","))
        elif word == "set":
            os.environ.update(pair.split(":") for pair in value.split(","))
        elif word == "nodump":
            LIBRARY.prctl(4, 0, 0, 0, 0)
        elif word == "title":
            write_title()


def be_rank(modes):
    """The rank."""
    main, mpi = os.urandom(8).hex(), None
    prepare(modes)
    first = is_first()
    if "first" in modes:
        fork_child(main)
    note("main", main)
    if first:
        with open(os.path.join(DATA, "a", f"late.{os.path.basename(OUT)}"), "w", encoding="utf-8"):
            pass
        with open(os.path.join(OUT, "added"), "w", encoding="utf-8"):
            pass
    for mode in modes:
        word, _, value = mode.partition("=")
        if word == "init":
            mpi = ctypes.CDLL(value, ctypes.RTLD_GLOBAL)
            mpi.MPI_Init(None, None)
            note("initialized", main)
        elif word == "again":
            os.environ.update(pair.split(":") for pair in value.split(","))
            note("again", main)
    if not any(mode.startswith("again=") for mode in modes):
        fork_child(main)
        subprocess.run([sys.executable, __file__, "child=" + main], check=False)
    until(lambda: mains() >= RANKS)
    if mpi:
        mpi.MPI_Finalize()


def late_rank(rank, count, modes):
    """A rank that its program numbers."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(count), MASTER_PORT="29500")
    be_rank(modes)


def main():
    """What the command line says."""
    modes = sys.argv[1:]
    for mode in modes:
        word, _, value = mode.partition("=")
        if word == "child":
            note("started", value)
            return
        if word in ("spawn", "fork"):
            context = multiprocessing.get_context(word)
            rest = [other for other in modes if other != mode]
            ranks = [context.Process(target=late_rank, args=(k, int(value), rest)) for k in range(int(value))]
            for one in ranks:
                one.start()
            for one in ranks:
                one.join()
            return
    be_rank(modes)


if __name__ == "__main__":
    main()
