# SPDX-License-Identifier: MIT
"""One MPI rank of the real runs: a program that runs many configurations of DLIO in one process.

    mpirun -n P python rank.py PLAN.json

The plan: {"out": folder, "log": this rank's log of SHARD_STATS, with %d for the rank, "names":
{hash of a name: the name}, "cases": [{"name", "kind", "options", "epochs"}]}. A case of kind
"list" ends after initialize() and some reconfigure(): its result is all that DLIO has derived. One
of kind "run" is a whole run: its result is the steps, and the files that were opened.

It is no module of a package: the tests' own ranks (tests/dlio/*_rank.py) use its functions, too.

Each rank writes OUT/NAME.N.json.
"""
import collections.abc
import enum
import gc
import hashlib
import json
import os
import struct
import sys
import time

GRACE = 4.0  # seconds in which the other ranks must report the same failure

# shim/stats/log.h
NOTES, NOTE, SEGMENT, HEAD, SLOT, OPENED = 32, 16, 1 << 19, 12288, 12288, 1


class Opens:
    """What the processes of this rank open, by libshard's log of it."""

    def __init__(self, path, names, roots):
        self.path, self.at, self.names, self.roots = path, 0, names, roots

    def new(self):
        """{path: how often it was opened} since the last call."""
        found = {}
        with open(self.path, "rb") as stream:
            head = stream.read(HEAD)
            end, = struct.unpack_from("<Q", head, NOTES)
            slots = [str(struct.unpack_from("<Q", stream.read(SLOT), 8)[0]) for _ in range(32)]
            stream.seek(SEGMENT + self.at * NOTE)
            notes = stream.read((end - self.at) * NOTE)
        self.at = end
        for name, what in struct.iter_unpack("<QQ", notes):
            if what >> 16 & 255 == OPENED and str(name) in self.names:
                root = self.roots.get(slots[what >> 24 & 255], "?")
                path = root + "/" + self.names[str(name)]
                found[path] = found.get(path, 0) + 1
        return found


def write_json(path, value):
    with open(path + ".tmp", "w", encoding="utf-8") as stream:
        json.dump(value, stream)
    os.rename(path + ".tmp", path)


def exact(value, deep=0):
    """A value as JSON, with the types of numbers, and the order of dicts; lists and what acts as
    one alike."""
    if isinstance(value, str):
        return str(value)
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, collections.abc.Mapping):
        return {"dict": [[exact(k, deep), exact(v, deep)] for k, v in value.items()]}
    if isinstance(value, collections.abc.Sequence) and not isinstance(value, bytes):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [exact(one, deep) for one in value]}
    if type(value).__module__ == "numpy":
        if value.ndim == 0:
            return {type(value).__name__: value.tolist()}
        return {"array": [str(value.dtype), value.shape,
                          hashlib.sha256(value.tobytes()).hexdigest()[:16]]}
    if hasattr(type(value), "items") and hasattr(type(value), "__getitem__"):  # VirtualIndexMap
        keys = list(value)
        return {"map": [[exact(k), exact(v)] for k, v in value.items()],
                "keys": [exact(k) for k in keys], "values": [exact(value[k]) for k in keys],
                "has": [k in value for k in (-1, 0, len(keys) - 1, len(keys), *keys[-1:])],
                "len": len(value), "text": repr(value)}
    if type(value).__module__.startswith("dlio_benchmark.") and deep < 2 and vars(value) and (
            not hasattr(value, "name")):
        return {type(value).__name__: {name: exact(one, deep + 1)
                                       for name, one in sorted(vars(value).items())}}
    return "%s %s" % (type(value).__name__, value) if hasattr(value, "name") else type(
        value).__name__


def state():
    """A hash of numpy's generator."""
    import numpy

    kind, keys, *rest = numpy.random.get_state()
    return hashlib.sha256(keys.tobytes() + repr((kind, rest)).encode()).hexdigest()[:16]


def start():
    """DLIO's MPI world: a communicator of our own. Nothing is collected until collect() is called: a fifth of what
    importing takes is looking at what stays."""
    gc.disable()
    from dlio_benchmark.utils.utility import DLIOMPI

    DLIOMPI.get_instance().initialize()
    from mpi4py import MPI
    return MPI.COMM_WORLD.Dup()


def finish(comm):
    """The end of all ranks."""
    from mpi4py import MPI

    comm.Barrier()
    MPI.Finalize()


def renew():
    """Make DLIO's state that of a new process."""
    from dlio_benchmark.utils.config import ConfigArguments
    from dlio_benchmark.utils.utility import DLIOMPI

    # read_threads=0 leaves DLIO's MPI state as that of a worker.
    DLIOMPI.reset()
    DLIOMPI.get_instance().initialize()
    ConfigArguments.reset()


def forget(singleton):
    """Make DLIO create this singleton anew for the next configuration."""
    cls = type(singleton)
    if hasattr(cls, "_%s__instance" % cls.__name__):
        setattr(cls, "_%s__instance" % cls.__name__, None)


def release(benchmark):
    """End the benchmark's workers, as the end of its process would."""
    framework = getattr(benchmark, "framework", None)
    if framework is not None:
        framework.reader_train = framework.reader_valid = None
        forget(framework)
    forget(getattr(benchmark, "checkpointing_mechanism", None))


def complete(benchmark, rank):
    """Run a benchmark to its end: its steps; None if it only generates."""
    benchmark.initialize()
    benchmark.run()
    benchmark.finalize()
    return None if benchmark.generate_only else steps_of(benchmark.output_folder, rank)


def steps_of(folder, rank):
    """{"EPOCH/BLOCK": steps}, by the results that DLIO has saved."""
    with open(os.path.join(folder, "%d_output.json" % rank), encoding="utf-8") as stream:
        saved = json.load(stream)
    return {"%s/%s" % (epoch, block): len(loads) for epoch, values in saved.items() if epoch.isdigit()
            for block, loads in values["load"].items()}


def collect(first):
    """After a configuration. What is there after the first one stays: 400,000 objects of TensorFlow's and
    torch's modules, which each later collection, here and in workers, would look at again."""
    gc.collect()
    if first:
        gc.freeze()
        gc.enable()


def every(comm, cases, path, run, ended=lambda case, out: None):
    """Let each rank run(case, rank, out) all cases, and write what `out` holds after ended(case, out), the
    error in any case, to path(case, rank). If only some ranks fail, the others are stuck: the job is
    aborted, and whoever has started it runs the rest of the cases in another one."""
    for case in cases:
        comm.Barrier()
        out = {}
        try:
            run(case, comm.rank, out)
        except (Exception, SystemExit) as error:  # pylint: disable=broad-except
            out["error"] = "%s: %s" % (type(error).__name__, error)
        collect(case is cases[0])
        ended(case, out)
        write_json(path(case, comm.rank), out)
        # Only where all ranks must come together before they can fail are the others stuck.
        if "error" in out and not wait_for_others([path(case, rank) for rank in range(comm.size)]):
            sys.stderr.flush()
            comm.Abort(3)
    finish(comm)


def settings(data, out, fmt, loader, options):
    """DLIO's options for a run, {name: value}, whose results go below a folder."""
    return {
        "framework": loader, "reader.data_loader": loader,
        "workflow.generate_data": False, "workflow.train": True, "workflow.evaluation": True,
        "workflow.checkpoint": False, "checkpoint.model_size": 1024,
        "checkpoint.layer_parameters": [],  # or the first rank draws 25 million random numbers
        "workflow.profiling": False,
        "dataset.data_folder": data, "dataset.format": fmt,
        "dataset.record_length": 1024, "dataset.record_length_bytes": 1024,
        "dataset.generation_buffer_size": 65536,  # or HDF5 fills 2 GiB for each file
        "reader.batch_size": 2, "reader.batch_size_eval": 2, "reader.read_threads": 0,
        "train.epochs": 2, "train.computation_time": 0.0, "evaluation.eval_time": 0.0,
        "output.folder": os.path.join(out, "output"),
        "checkpoint.checkpoint_folder": os.path.join(out, "checkpoints"), **options}


_composed = []  # DLIO's own settings: Hydra takes a quarter of a second for them


def make(case):
    """A DLIOBenchmark of a case's "options", as Hydra names them, and "arguments", DLIO's own."""
    import copy

    import dlio_benchmark
    from dlio_benchmark.main import DLIOBenchmark
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    renew()
    if not _composed:
        folder = os.path.join(os.path.dirname(dlio_benchmark.__file__), "configs")
        with initialize_config_dir(version_base=None, config_dir=folder):
            _composed.append(compose(config_name="config")["workload"])
    workload = copy.deepcopy(_composed[0])
    OmegaConf.set_struct(workload, False)
    for name, value in case["options"].items():
        OmegaConf.update(workload, name, value, force_add=True)
    benchmark = DLIOBenchmark(workload)
    for name, value in case.get("arguments", {}).items():
        kind = type(getattr(benchmark.args, name, None))
        vars(benchmark.args)[name] = kind(value) if issubclass(kind, enum.Enum) else value
    return benchmark


NOT_COMPARED = ("logger", "dlp_logger", "resized_image", "output_folder", "logfile_path")


def kind_of(files):
    """The package that a list of files is of."""
    return type(files).__module__.partition(".")[0]


def listed(case, _rank, out):
    """What is derived from the list of files, at the start and in each epoch: all that DLIO's arguments
    hold, the lists first."""
    import numpy

    numpy.random.seed(4711)
    benchmark = make(case)
    try:
        benchmark.initialize()
        args, out["epochs"] = benchmark.args, []
        out["benchmark"] = {name: value for name, value in vars(benchmark).items()
                            if type(value) in (bool, int, float, str) and name != "output_folder"}
        out["type"] = kind_of(args.file_list_train)
        for epoch in range(case["epochs"] + 1):
            if epoch:
                args.reconfigure(epoch)
            held = {name: exact(value) for name, value in vars(args).items() if name not in NOT_COMPARED}
            out["epochs"].append([list(args.file_list_train), list(args.file_list_eval), held, state()])
    finally:
        release(benchmark)


def ran(case, rank, out):
    """Steps of a whole run."""
    benchmark = make(case)
    try:
        steps, args = complete(benchmark, rank), benchmark.args
        if steps is not None:
            out.update(steps=steps, lists=[len(args.file_list_train), len(args.file_list_eval)],
                       type=kind_of(args.file_list_train))
    finally:
        release(benchmark)


def wait_for_others(paths):
    """Whether every rank has come to the configuration's end within the grace time."""
    end = time.monotonic() + GRACE
    while not all(os.path.exists(path) for path in paths):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def main():
    """Run the plan named on the command line."""
    with open(sys.argv[1], encoding="utf-8") as stream:
        plan = json.load(stream)
    comm = start()
    opens = Opens(plan["log"] % comm.rank, plan["names"], plan["roots"]) if plan["log"] else None

    def ended(_case, out):
        if opens:
            out["opens"] = opens.new()

    every(comm, plan["cases"],
          lambda case, rank: os.path.join(plan["out"], "%s.%d.json" % (case["name"], rank)),
          lambda case, rank, out: (listed if case["kind"] == "list" else ran)(case, rank, out), ended)


if __name__ == "__main__":
    main()
