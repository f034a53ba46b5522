"""running: DLIO in the ranks of a job, many configurations in one process each; the programs *_rank.py
beside this one, and those that start them, use it."""
import gc
import json
import os
import sys
import time

FEW = 8      # so many files are compressed already, where libshard compresses
GRACE = 4.0  # seconds in which the other ranks must report the same failure


def write_json(path, value):
    with open(path + ".tmp", "w", encoding="utf-8") as stream:
        json.dump(value, stream)
    os.rename(path + ".tmp", path)


def start():
    """DLIO's MPI world: a communicator of our own. Nothing is collected until collect() is called: a fifth of what
    importing takes is looking at what stays."""
    gc.disable()
    from dlio_benchmark.utils.utility import DLIOMPI

    compressing = sys.modules.get("_libshard.compressing")
    if compressing:
        compressing.MANY = FEW
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
    """A DLIOBenchmark of a case's "options", as Hydra names them."""
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
    return DLIOBenchmark(workload)


def wait_for_others(paths):
    """Whether every rank has come to the configuration's end within the grace time."""
    end = time.monotonic() + GRACE
    while not all(os.path.exists(path) for path in paths):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def reported(folder, rank):
    """What a rank has written of a configuration, or that it was stopped before it could."""
    try:
        with open(os.path.join(folder, f"rank{rank}.json"), encoding="utf-8") as stream:
            return json.load(stream)
    except FileNotFoundError:
        return {"result": "stopped"}
