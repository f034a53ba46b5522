# SPDX-License-Identifier: MIT
"""dlio: the families of DLIO, and the adapter's start.

Each module here holds families of one origin, in FAMILIES: a tuple of recognise.Family. To add one,
add a module with its functions' fingerprints, put its patches together from `parts`, and write what
no part does yet in the module itself; it is found by being here. Two families never match the same
DLIO: in some function they have no fingerprint in common (tests/dlio/adapter_units.py).
"""
import importlib
import importlib.util
import os
import sys

from .. import compressing, list_like, modules_of
from ..native import ERROR, INFO, VIEWS, WARN, native, speaks
from ..parts import EVERYWHERE, benchmark
from ..parts.placeholders import length
from ..patching import Finder
from ..recognise import Tree, file_of, module_of, recognise

FAMILIES = [one for name in modules_of("dlio")
            for one in importlib.import_module("." + name, __name__).FAMILIES]

tree = family = None  # of the DLIO that was recognised


def _locate():
    """The folder of the package that is being imported, or None if there is none."""
    loaded = sys.modules.get("dlio_benchmark")
    if loaded is not None:
        return next(iter(getattr(loaded, "__path__", ())), None)
    spec = importlib.util.find_spec("dlio_benchmark")
    return next(iter(spec.submodule_search_locations or ()), None) if spec else None


def _recognised(folder):
    """(tree, family, None), or (None, None, why DLIO is not changed)."""
    here = Tree(folder)
    found, fault = recognise(here, FAMILIES)
    if found is None:
        return None, None, fault
    for module in (*EVERYWHERE, *found.patches):
        if module in sys.modules:
            return None, None, "%s was imported in a way that hides it" % module
    return here, found, None


def start():
    """Recognise DLIO and get ready, or leave everything as it is and say why."""
    global tree, family
    folder = _locate()
    if folder is None:
        return
    # DLIO divides its files itself: libc never shows it a part.
    native().set_view(VIEWS["off"])
    if native().config_fault() is not None:
        native().config_complain()
        return
    fault = native().world()[1]
    if fault is not None:
        return _say(ERROR, "DLIO runs unmodified%s: %s", fault)
    tree, family, fault = _recognised(folder)
    if native().view_asked() == "shard" and speaks():
        native().log(WARN, "SHARD_VIEW=shard has no effect on DLIO, which divides its files among the ranks of an MPI "
                           "world: start it by mpirun")
    asked = os.environ.get("SHARD_ADAPTER") == "compress"
    if fault is not None or asked:
        return _compress(folder, WARN if fault or _without() else INFO, fault or "SHARD_ADAPTER=compress")
    native().set_view(VIEWS["global"])
    sys.meta_path.insert(0, Finder({**list_like.patches(), **{
        module: lambda loaded, module=module: _patch(loaded, module)
        for module in {**EVERYWHERE, **family.patches, **compressing.patches(())}}}))
    return None


def _say(level, text, why):
    if speaks():
        native().log(level, text % (_without(), why))


def _compress(folder, level, why):
    """DLIO's own functions do all, and what they have made is compressed (compressing.py)."""
    compressing.enable()
    if not compressing.enabled:
        return _say(level, "DLIO runs unmodified%s: %s", why)
    _say(level, "DLIO runs unmodified%s, and its lists are compressed: %s", why)
    patches = {**list_like.patches(), **compressing.patches(_loaders(folder))}
    for module in patches.keys() & sys.modules.keys():
        patches.pop(module)(sys.modules[module])
    sys.meta_path.insert(0, Finder(patches))
    return None


def _loaders(folder):
    """The modules of DLIO's loaders."""
    try:
        files = os.listdir(os.path.join(folder, "data_loader"))
    except OSError:
        return []
    return [module_of("data_loader/" + file) for file in files if file.endswith(".py")]


def _patch(loaded, module):
    """Patch a module that has been imported. One whose functions do not run as they were read stays
    as it is, and so does the list: see benchmark.changes_in(), which an unpatched config never asks."""
    file = file_of(module)
    own = compressing.patches(()).get(module)
    if own:  # before all others: what DLIO makes of them is compressed
        own(loaded)
    for name in family.fingerprints.get(file, ()):
        if not tree.runs(loaded, file, name):
            return benchmark.say(benchmark.LISTED, benchmark.not_as_read(tree, file, name))
    for patches in (EVERYWHERE, family.patches):
        if module in patches:
            patches[module](loaded, tree)
    if module == "dlio_benchmark.utils.config":
        benchmark.patch_config(family, length, loaded, tree)


def _without():
    """What was asked for and an unmodified DLIO has not."""
    asked = [text for text in ("SHARD_WORKERS=respawn", "SHARD_SHUFFLE=epoch")
             if text.split("=")[1] == os.environ.get(text.split("=")[0])]
    asked += ["SHARD_STATS"] if native().stats_on() and not os.environ.get("SHARD_DATASET") else []
    return ", without " + " and ".join(asked) if asked else ""
