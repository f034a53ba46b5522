"""Which rank, and which job: real launchers, wrappers, and programs that number their ranks themselves.

    python -m tests.launchers [--wheels | --frameworks] [REGEX]

Slurm's cases are run by tests/hosts. --wheels: those of .venv-launchers, of MPICH 5, Open MPI 5 and Intel MPI;
--frameworks: those of .venv-frameworks, of accelerate, Lightning, DeepSpeed and Ray.
"""
import argparse
import os
import sys
import tempfile

from tests.harness import confine, processes
from tests.harness.verdicts import Verdicts
from tests.launchers import cases


def main():
    """Run the cases; the exit status is 1 if anything fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--wheels", action="store_true", help="the launchers of .venv-launchers")
    parser.add_argument("--frameworks", action="store_true", help="the frameworks of .venv-frameworks")
    parser.add_argument("filter", nargs="?", default="", help="only cases in whose names this regex is found")
    args = parser.parse_args()
    confine.begin()
    processes.end_jobs_on_signals()
    folder, verdicts = tempfile.mkdtemp(prefix="shard-launchers."), Verdicts()
    os.chmod(folder, 0o755)
    os.environ["TMPDIR"] = os.path.join(folder, "tmp")  # of which torchrun leaves some
    os.mkdir(os.environ["TMPDIR"])
    os.chmod(os.environ["TMPDIR"], 0o1777)
    rows = cases.WHEELS if args.wheels else cases.FRAMEWORKS if args.frameworks else cases.PLAIN
    if rows is cases.PLAIN and os.geteuid() == 0:
        rows = rows + cases.ROOT
    elif rows is cases.PLAIN:
        print("skip: cases of other users and of containers take root")
    cases.run(verdicts, folder, rows, cases.run_here, args.filter)
    return verdicts.conclude(folder)


if __name__ == "__main__":
    sys.exit(main())
