"""One MPI rank that runs many DLIO configurations in one process.

    mpirun -n R python tests/dlio/matrix_rank.py PLAN.json

The plan: {"out": folder, "configs": [{"name": str, "options": {name: value}}]}, and
"own": [options] if ranks have options of their own; "grace": seconds after which a rank that fails alone ends all: if it
is not there, whoever has started the ranks ends those that are stuck. For every configuration
the rank writes OUT/NAME/rankN.json (result, error, steps) and, where
openlog.so is preloaded, the opens go to OUT/NAME/rankN.log.
"""
import json
import math
import os
import sys
import time
import traceback

import running  # beside this file


def run(case, rank, out):
    """Run one configuration: what is compared, or its error; Python's own exits are errors, too."""
    benchmark = None
    try:
        benchmark = running.make(case)
        steps, args = running.complete(benchmark, rank), benchmark.args
        made = {"result": "ok", "steps": steps or {}}
        if steps is not None:
            made["list"] = [len(args.file_list_train), len(args.file_list_eval)]
            made["list_type"] = type(args.file_list_train).__qualname__
            made["samples"] = [args.total_samples_train, args.total_samples_eval]
        out.update(made)
    except (Exception, SystemExit) as error:  # pylint: disable=broad-except
        out.update(result="error", error=f"{type(error).__name__}: {error}", traceback=traceback.format_exc())
    finally:
        running.release(benchmark)


def main():
    """Run the plan named on the command line."""
    with open(sys.argv[1], encoding="utf-8") as stream:
        plan = json.load(stream)
    import later  # pylint: disable=import-outside-toplevel,unused-import

    running.GRACE = plan.get("grace", math.inf)
    own = plan.get("own", [{}])
    start = 0

    def logged(case, rank, out):
        nonlocal start
        folder = os.path.join(plan["out"], case["name"])
        os.makedirs(folder, exist_ok=True)  # it says that all have started
        os.environ["OPENLOG"] = os.path.join(folder, f"rank{rank}.log")
        start = time.monotonic()
        run({"options": {**case["options"], **own[rank % len(own)]}}, rank, out)

    def ended(_case, out):
        del os.environ["OPENLOG"]
        out["seconds"] = round(time.monotonic() - start, 3)

    running.every(running.start(), plan["configs"],
                  lambda case, rank: os.path.join(plan["out"], case["name"], f"rank{rank}.json"), logged, ended)


if __name__ == "__main__":
    main()
