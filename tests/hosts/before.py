"""What mlpstorage 3 has its hosts do by MPI before DLIO starts, in this project's own words: each rank tells what
its host is; then rank 0 makes a file in the dataset, which all must see as the same one, and removes it.

    mpirun ... python3 before.py        rank 0 prints one line of JSON
"""
import json
import os
import socket

from mpi4py import MPI

FILES = ("meminfo", "cpuinfo", "diskstats", "net/dev", "version", "loadavg", "uptime", "vmstat", "mounts", "cgroups")


def collected():
    """A host, by /proc: which of its files have something in them. What that is changes."""
    some = {}
    for name in FILES:
        with open("/proc/" + name, encoding="utf-8") as stream:
            some[name] = bool(stream.read())
    with open("/etc/os-release", encoding="utf-8") as stream:
        return {"host": socket.gethostname(), "some": some, "release": stream.read()}


def shared(comm, path):
    """The (device, inode) pairs that ranks see of a file that rank 0 makes, without another's; it is removed."""
    if comm.Get_rank() == 0:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    comm.Barrier()
    try:
        seen = os.stat(path)
        found = comm.gather((seen.st_dev, seen.st_ino))
    finally:
        comm.Barrier()
        if comm.Get_rank() == 0:
            os.unlink(path)
    comm.Barrier()
    return found


def main():
    """Both, one after the other."""
    comm = MPI.COMM_WORLD
    hosts = comm.gather(collected())
    found = shared(comm, os.path.join(os.environ["SHARD_DATASET"], ".probe-of-a-run"))
    if comm.Get_rank() == 0:
        print(json.dumps({"hosts": hosts, "files": len(set(found)), "ranks": len(found)}, sort_keys=True))


if __name__ == "__main__":
    main()
