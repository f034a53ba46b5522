"""The command line of a driver: each of these options is the same wherever it is."""
import argparse
import contextlib
import os
import shutil
import sys
import tempfile

from tests.harness import paths

PATHS = ("preload", "openlog", "naive", "python", "dlio", "workdir")  # made absolute


def parser(doc, *names):
    """A parser with the options of these names; doc: the module's __doc__."""
    made = argparse.ArgumentParser(description=doc.partition("\n")[0])
    options = {
        "preload": {"default": paths.LIBRARY, "help": "the library under test"},
        "openlog": {"default": paths.preload("openlog"), "help": "the logger of opens"},
        "python": {"default": sys.executable, "help": "an interpreter that has what is run"},
        "dlio": {"metavar": "TREE", "help": "a DLIO source tree to use instead of the installed one"},
        "filter": {"default": "", "help": "only cases in whose names this regex is found"},
        "env": {"action": "append", "default": [], "metavar": "NAME=VALUE",
                "help": "a variable for the runs under the preload"},
        "workdir": {"help": "keep data, logs and results here"}}
    for name in names:
        made.add_argument("--" + name, **options[name])
    return made


def parse(made):
    """The arguments: paths absolute, variables a dictionary; it ends here if a library is missing."""
    args = made.parse_args()
    for name in PATHS:
        if getattr(args, name, None):
            setattr(args, name, os.path.abspath(getattr(args, name)))
    for name in ("preload", "openlog", "naive"):
        path = getattr(args, name, None)
        if path and not os.path.exists(path):
            sys.exit(f"{path} does not exist: build it first (make tests-built)")
    if hasattr(args, "env"):
        args.env = dict(pair.split("=", 1) for pair in args.env)
    return args


def work_folder(args, prefix):
    """The folder to work in: --workdir, made if need be, or a new one. TMPDIR is below it: what is killed removes
    nothing, and neither do torchrun and multiprocessing's workers."""
    folder = args.workdir or tempfile.mkdtemp(prefix=prefix)
    os.environ["TMPDIR"] = os.path.join(folder, "tmp")
    os.makedirs(os.environ["TMPDIR"], exist_ok=True)
    return folder


@contextlib.contextmanager
def temporary_folder(prefix):
    """A folder that is gone at the end, whatever happens."""
    folder = tempfile.mkdtemp(prefix=prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
