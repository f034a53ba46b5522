"""One MPI rank that runs many DLIO configurations in one process.

    mpirun -n R python tests/dlio/matrix_rank.py PLAN.json

The plan: {"out": folder, "configs": [{"name": str, "overrides": [str]}]}, and
"own": [[str]] if ranks have overrides of their own. For every configuration
the rank writes OUT/NAME/rankN.json (result, error, steps) and, where
openlog.so is preloaded, the opens go to OUT/NAME/rankN.log.

If every rank fails alike, the ranks go on with the next configuration. If only
some fail, the others are stuck in a barrier: the job is aborted, and whoever
started it runs the rest of the plan in another one.
"""
import copy
import json
import os
import sys
import time
import traceback

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "shim", "adapter", "prove"))
import rank as product  # pylint: disable=wrong-import-position,import-error


_composed = []  # DLIO's own settings: Hydra takes a quarter of a second for them


def settings(overrides):
    """What Hydra makes of overrides that each set a value ("++workload.NAME=VALUE")."""
    import dlio_benchmark
    from hydra import compose, initialize_config_dir
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf

    if not _composed:
        folder = os.path.join(os.path.dirname(dlio_benchmark.__file__), "configs")
        with initialize_config_dir(version_base=None, config_dir=folder):
            _composed.append(compose(config_name="config"))
    cfg = copy.deepcopy(_composed[0])
    OmegaConf.set_struct(cfg, False)
    for one in OverridesParser.create().parse_overrides(overrides):
        OmegaConf.update(cfg, one.key_or_group, one.value(), merge=True, force_add=True)
    return cfg["workload"]


def run(overrides, rank):
    """Run one configuration; returns what is compared."""
    from dlio_benchmark.main import DLIOBenchmark

    product.renew()
    benchmark = None
    try:
        benchmark = DLIOBenchmark(settings(overrides))
        steps, args = product.complete(benchmark, rank), benchmark.args
        result = {"result": "ok", "steps": steps or {}}
        if steps is not None:
            result["list"] = [len(args.file_list_train), len(args.file_list_eval)]
            result["list_type"] = type(args.file_list_train).__name__
            result["samples"] = [args.total_samples_train, args.total_samples_eval]
        return result
    finally:
        product.release(benchmark)


def describe(error):
    """An error as it is recorded; Python's own exits are errors too."""
    return {"result": "error", "error": f"{type(error).__name__}: {error}",
            "traceback": traceback.format_exc()}


def reported(folder, rank):
    """What a rank has written of a configuration, or that it was stopped before it could."""
    try:
        with open(os.path.join(folder, f"rank{rank}.json"), encoding="utf-8") as stream:
            return json.load(stream)
    except FileNotFoundError:
        return {"result": "stopped"}


def all_fail(folder, size):
    """True if every rank of the configuration has failed within the grace time."""
    product.wait_for_others([os.path.join(folder, f"rank{i}.json") for i in range(size)])
    return all(reported(folder, rank)["result"] == "error" for rank in range(size))


def main():
    """Run the plan named on the command line."""
    with open(sys.argv[1], encoding="utf-8") as stream:
        plan = json.load(stream)
    comm = product.start()
    rank = comm.rank
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
        product.collect(config is plan["configs"][0])
        del os.environ["OPENLOG"]
        result["seconds"] = round(time.monotonic() - start, 3)
        product.write_json(os.path.join(folder, f"rank{rank}.json"), result)
        if result["result"] == "error" and not all_fail(folder, comm.size):
            sys.stderr.flush()
            comm.Abort(3)
    product.finish(comm)


if __name__ == "__main__":
    main()
