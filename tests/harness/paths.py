"""Where things are. BUILD, a variable of the environment, names another build than build/."""
import atexit
import os
import re
import shutil
import tempfile

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(REPO, os.environ.get("BUILD") or "build")


def preloadable(build):
    """A copy of a build in whose path there is a blank or colon, which LD_PRELOAD cannot hold; else the build."""
    if not re.search(r"[\s:]", build) or not os.path.exists(os.path.join(build, "libshard.so")):
        return build
    folder = tempfile.mkdtemp(prefix="shard-build.", dir="/tmp")
    atexit.register(shutil.rmtree, folder, True)
    shutil.copytree(build, folder, dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("obj", "tidy", "test-logs", "*.a"))
    os.chmod(folder, 0o755)
    os.environ.update(BUILD=folder, MADE=build)  # what is started from here has the same one
    return folder


BUILD = preloadable(BUILD)
MADE = os.environ.get("MADE", BUILD)  # what make has made, if BUILD is a copy
LIBRARY = os.path.join(BUILD, "libshard.so")
SHARDCTL = os.path.join(BUILD, "shardctl")
VENV_PYTHON = os.path.join(REPO, ".venv", "bin", "python")


def blankless(folder):
    """A link to a folder in whose path there is a blank, for command lines that are not quoted; else the folder."""
    if not re.search(r"\s", folder):
        return folder
    link = os.path.join(tempfile.mkdtemp(prefix="shard-link.", dir="/tmp"), "link")
    atexit.register(shutil.rmtree, os.path.dirname(link), True)
    os.chmod(os.path.dirname(link), 0o755)
    os.symlink(folder, link)
    return link


def preload(name):
    """The library made from tests/preloads/NAME.c."""
    return os.path.join(BUILD, "tests", name + ".so")


def source(*path):
    """A file below tests/."""
    return os.path.join(REPO, "tests", *path)
