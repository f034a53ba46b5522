"""A program that knows nothing of libshard: what it, its worker and its grandchild find in the dataset."""
import ctypes
import json
import multiprocessing
import os
import subprocess


class World(ctypes.Structure):
    """struct shard_world of libshard.h."""
    _fields_ = [(name, ctypes.c_int) for name in ("rank", "size", "local_rank", "local_size")] + [
        ("launcher", ctypes.c_char * 32)]


def listed():
    """The names in the dataset."""
    return sorted(os.listdir(os.environ["SHARD_DATASET"]))


def work(pipe):
    """In the worker: what it finds itself, and what a program that it starts finds."""
    ls = subprocess.run(["ls", os.environ["SHARD_DATASET"]], stdout=subprocess.PIPE, check=True)
    pipe.send((listed(), ls.stdout.decode().split()))


def main():
    """Write what was found to out/HOST-PID.json."""
    mine, world, error = listed(), World(), ctypes.create_string_buffer(300)
    ours, theirs = multiprocessing.Pipe()
    worker = multiprocessing.Process(target=work, args=(theirs,))
    worker.start()
    found = ours.recv()
    worker.join()
    asked = ctypes.CDLL(None).shard_world_get(ctypes.byref(world), error, 300)
    report = {"main": mine, "worker": found[0], "grandchild": found[1], "host": os.uname().nodename,
              "error": asked and error.value.decode(), "launcher": world.launcher.decode(),
              **{name: getattr(world, name) for name, _ in World._fields_[:4]}}
    os.makedirs("out", exist_ok=True)
    path = f"out/{report['host']}-{os.getpid()}"
    with open(path + ".new", "w", encoding="utf-8") as stream:
        json.dump(report, stream)
    os.rename(path + ".new", path + ".json")


if __name__ == "__main__":
    main()
