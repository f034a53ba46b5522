"""The adapter's modules by themselves, and against the functions of the DLIO that is imported.

    python tests/dlio/adapter_units.py [--preload LIB] [unittest's arguments ...]

Runs itself once more under LD_PRELOAD, in a temporary cache directory. The adapter leaves what it
replaces in __wrapped__; it gets a real list of the same paths, the adapter's function the lazy
one, and all that can be told of the results must be equal: keys, values, their types and order,
exceptions, and the state of numpy's generator afterwards.
"""
import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import unittest

from adapter.plain import REPO, WORK

# TensorFlow's threads are not forked: it comes last.
MODULES = ("package", "families", "recognise", "structures", "sequences", "maps", "virtual", "skipped", "compare_ranks", "shuffles",
           "epochs", "compress", "loaders", "processes", "tensorflow")


def restart(preload):
    """This script once more, under the preload."""
    from tests.harness import confine  # pylint: disable=import-outside-toplevel

    confine.begin()
    env = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="adapter-units-") as work:
        env.update(LD_PRELOAD=preload, ADAPTER_UNITS_WORK=work, PYTHONDONTWRITEBYTECODE="1",
                   SHARD_CACHE_DIR=os.path.join(work, "cache"), TF_CPP_MIN_LOG_LEVEL="3")
        return subprocess.run([sys.executable, *sys.argv], env=env, check=False).returncode


def main():
    """Run the tests, or start the process that does."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preload", help="default: the build's libshard.so")
    parser.add_argument("--no-lock", action="store_true",
                        help="as in an interpreter of free threads, for which there are no functions of C")
    options, rest = parser.parse_known_args()
    if not WORK:
        sys.path.insert(0, REPO)  # not where the tests are: there are other packages of this name
        from tests.harness import paths  # pylint: disable=import-outside-toplevel

        return restart(":".join(map(os.path.abspath, (options.preload or paths.LIBRARY).split(":"))))
    flags = sys.abiflags
    try:
        sys.abiflags += "t" if options.no_lock else ""
        import dlio_benchmark.utils.config  # pylint: disable=unused-import
        import _libshard

        sys.abiflags = flags

        if not _libshard.family():
            raise ImportError("the adapter does not know this DLIO")
    except ImportError as error:
        print("the adapter is not active in %s: %r" % (sys.executable, error))
        print("0 passed, 1 failed")
        return 1
    print("DLIO in %s (%s), %s" % (_libshard.dlio.tree.folder, _libshard.family(),
                                   _libshard.LIBRARY), flush=True)

    def load_tests(loader, _tests, _pattern):
        return unittest.TestSuite(loader.loadTestsFromModule(
            importlib.import_module("adapter.test_" + name)) for name in MODULES)
    sys.modules["__main__"].load_tests = load_tests
    result = unittest.main(argv=[sys.argv[0], *rest], exit=False).result
    failed = {getattr(test, "test_case", test).id()
              for test, _ in result.failures + result.errors}
    skipped = {test.id() for test, _ in result.skipped}
    # A class that is skipped, or whose setUpClass() fails, counts for none of its tests.
    passed = max(result.testsRun - len([t for t in failed | skipped if "(" not in t]), 0)
    print("%d passed, %d failed" % (passed, len(failed)))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
