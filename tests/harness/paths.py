"""Where things are. BUILD, a variable of the environment, names another build than build/."""
import os

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(REPO, os.environ.get("BUILD") or "build")
LIBRARY = os.path.join(BUILD, "libshard.so")
SHARDCTL = os.path.join(BUILD, "shardctl")
VENV_PYTHON = os.path.join(REPO, ".venv", "bin", "python")


def preload(name):
    """The library made from tests/preloads/NAME.c."""
    return os.path.join(BUILD, "tests", name + ".so")


def source(*path):
    """A file below tests/."""
    return os.path.join(REPO, "tests", *path)
