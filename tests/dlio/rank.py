"""One MPI rank that runs many DLIO configurations in one process.

    mpirun -n R python tests/dlio/rank.py PLAN.json

The plan: {"out": folder, "configs": [{"name": str, "overrides": [str]}]}, and
"own": [[str]] if ranks have overrides of their own. For every configuration
the rank writes OUT/NAME/rankN.json (result, error, steps) and, where
openlog.so is preloaded, the opens go to OUT/NAME/rankN.log.

If every rank fails alike, the ranks go on with the next configuration. If only
some fail, the others are stuck in a barrier: the job is aborted, and whoever
started it runs the rest of the plan in another one.
"""
import gc
import json
import os
import sys
import time
import traceback

GRACE = 5.0  # seconds in which the other ranks must report the same failure


def write_json(path, value):
    """Write a JSON file so that a reader sees all of it or nothing."""
    with open(path + ".tmp", "w", encoding="utf-8") as stream:
        json.dump(value, stream)
    os.rename(path + ".tmp", path)


def read_steps(output_folder, rank):
    """Steps of each epoch and block, from the results DLIO has saved."""
    with open(os.path.join(output_folder, f"{rank}_output.json"), encoding="utf-8") as stream:
        output = json.load(stream)
    return {f"{epoch}/{block}": len(loads)
            for epoch, values in output.items() if epoch.isdigit()
            for block, loads in values["load"].items()}


def forget(singleton):
    """Make DLIO create this singleton anew for the next configuration."""
    cls = type(singleton)
    if hasattr(cls, f"_{cls.__name__}__instance"):
        setattr(cls, f"_{cls.__name__}__instance", None)


def release(benchmark):
    """End the benchmark's workers, as the end of its process would."""
    framework = getattr(benchmark, "framework", None)
    if framework is not None:
        framework.reader_train = framework.reader_valid = None
        forget(framework)
    forget(getattr(benchmark, "checkpointing_mechanism", None))


def run(overrides, rank):
    """Run one configuration; returns what is compared."""
    import dlio_benchmark
    from dlio_benchmark.main import DLIOBenchmark
    from dlio_benchmark.utils.config import ConfigArguments
    from dlio_benchmark.utils.utility import DLIOMPI
    from hydra import compose, initialize_config_dir

    # read_threads=0 leaves DLIO's MPI state as that of a worker.
    DLIOMPI.reset()
    DLIOMPI.get_instance().initialize()
    ConfigArguments.reset()
    folder = os.path.join(os.path.dirname(dlio_benchmark.__file__), "configs")
    with initialize_config_dir(version_base=None, config_dir=folder):
        cfg = compose(config_name="config", overrides=overrides)

    benchmark = None
    try:
        benchmark = DLIOBenchmark(cfg["workload"])
        benchmark.initialize()
        benchmark.run()
        benchmark.finalize()
        args = benchmark.args
        result = {"result": "ok", "steps": {}}
        if not benchmark.generate_only:
            result["steps"] = read_steps(benchmark.output_folder, rank)
            result["list"] = [len(args.file_list_train), len(args.file_list_eval)]
            result["list_type"] = type(args.file_list_train).__name__
            result["samples"] = [args.total_samples_train, args.total_samples_eval]
        return result
    finally:
        release(benchmark)


def describe(error):
    """An error as it is recorded; Python's own exits are errors too."""
    return {"result": "error", "error": f"{type(error).__name__}: {error}",
            "traceback": traceback.format_exc()}


def wait_for_others(folder, size):
    """True if every rank of the configuration has failed within the grace time."""
    end = time.monotonic() + GRACE
    paths = [os.path.join(folder, f"rank{i}.json") for i in range(size)]
    while not all(os.path.exists(path) for path in paths):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    results = []
    for path in paths:
        with open(path, encoding="utf-8") as stream:
            results.append(json.load(stream)["result"])
    return all(result == "error" for result in results)


def main():
    """Run the plan named on the command line."""
    with open(sys.argv[1], encoding="utf-8") as stream:
        plan = json.load(stream)
    from dlio_benchmark.utils.utility import DLIOMPI
    DLIOMPI.get_instance().initialize()
    from mpi4py import MPI
    comm = MPI.COMM_WORLD.Dup()
    rank, size = comm.rank, comm.size

    for config in plan["configs"]:
        folder = os.path.join(plan["out"], config["name"])
        comm.Barrier()
        os.makedirs(folder, exist_ok=True)  # after the barrier: it says that all have started
        os.environ["OPENLOG"] = os.path.join(folder, f"rank{rank}.log")
        start = time.monotonic()
        try:
            own = plan.get("own", [[]])
            result = run(config["overrides"] + own[rank % len(own)], rank)
        except (Exception, SystemExit) as error:  # pylint: disable=broad-except
            result = describe(error)
        gc.collect()
        # What is there after the first one stays: 400,000 objects of TensorFlow's and torch's modules,
        # which each later collection, here and in workers, would look at again.
        if config is plan["configs"][0]:
            gc.freeze()
        del os.environ["OPENLOG"]
        result["seconds"] = round(time.monotonic() - start, 3)
        write_json(os.path.join(folder, f"rank{rank}.json"), result)
        if result["result"] == "error" and not wait_for_others(folder, size):
            sys.stderr.flush()
            comm.Abort(3)
    comm.Barrier()
    MPI.Finalize()


if __name__ == "__main__":
    main()
