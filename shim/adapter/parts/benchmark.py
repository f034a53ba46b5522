# SPDX-License-Identifier: MIT
"""benchmark: the DLIOBenchmark whose initialize() runs, and whether all that it works with is what was
recognised.

A DLIOBenchmark begins with LoadConfig(). By then its class is there, however DLIO was started
(dlio_benchmark, python -m dlio_benchmark.main, python .../main.py), and its initialize() is put into a
Run: so it is known who lists, and nothing needs to be read from the frames of callers. While it runs,
len() in its module knows Placeholders, and range() may stand for numbers that are not counted (skipped.py).
"""
import sys

from .. import compressing
from ..native import INFO, WARN, native, say_once
from ..patching import is_displaced, lent, replaces
from ..recognise import module_of
from ..sequences import FileList
from . import compare_ranks

LISTED = "DLIO's dataset is listed"  # for say()

_run = None   # the Run at hand
_changes = None  # what tells whether something has changed since


def say(what, why):
    """Once per reason."""
    compressing.enable()
    then = ", then compressed" if compressing.enabled else ""
    say_once(WARN, "%s in the unmodified way%s: %s" % (what, then, why), why)


class Run:
    """An initialize() that runs.

    benchmark      its DLIOBenchmark
    skip           if it counts its files' names, and need not: a skipped.Skip; None
    met            whether its ranks have met over that
    lists_pending  whether it has a list of one Placeholder, or such names, which has not come back
    refused        whether a folder is listed in the unmodified way, which was said
    """

    def __init__(self, benchmark, function, changes):
        self.benchmark, self.skip = benchmark, None
        self.met = self.lists_pending = self.refused = False
        self._changes = changes
        self._code = function.__code__
        self._module = function.__globals__["__name__"]

    def _is_own(self, kind):
        """Whether a class is one of DLIO's, and no plug-in's that is made of it."""
        module = kind.__module__
        if kind is type(self.benchmark):
            return module == self._module
        package = self._module.partition(".")[0]
        return module.partition(".")[0] in ("dlio_benchmark", package) and module != "__main__"

    def calls(self, code):
        """Whether the code is that of initialize(). Only who calls is compared: of a caller's frame
        nothing is taken."""
        return code is self._code

    def changed(self):
        """What is not as it was recognised, in words; None. Asked when a list is about to be used:
        a plug-in may have changed it at any time."""
        args, storage = self.benchmark.args, self.benchmark.storage
        for one in (args, storage, self.benchmark):
            if not self._is_own(type(one)):
                return "%s is a class that is not DLIO's" % type(one).__qualname__
        return self._changes(args, storage, self.benchmark)


def not_as_read(tree, file, function):
    """In words, that a function that runs is not the one that was read."""
    return "%s is not the function that %s has: something has replaced or wrapped it" % (
        function, tree.path(file))


def running(storage=None, args=None):
    """The Run whose benchmark has this storage, or these arguments; None."""
    if _run is None or (storage is not None and _run.benchmark.storage is not storage) or (
            args is not None and _run.benchmark.args is not args):
        return None
    return _run


def served(*lists):
    """Whether one of these lists of files is lazy, and DLIO's own functions may still be stood in for:
    what a plug-in has changed since initialize() counts, too. Else they do what they do with any
    list."""
    if not any(isinstance(files, FileList) for files in lists):
        return False
    why = _changes() if _changes else None
    if why is not None:
        say("DLIO's map of samples is made", why)
    return why is None


def where_lazy(cls):
    """Decorates a function that takes the place of the class's method of that name where the list of files
    that it is given is lazy; else that one answers."""
    def put(function):
        original = getattr(cls, function.__name__)

        def method(self, file_list, *rest, **more):
            return (function if served(file_list) else original)(self, file_list, *rest, **more)

        method.__name__ = function.__name__
        return replaces(cls)(method)

    return put


def _range(*arguments):
    """range() in the module of initialize()."""
    if _run is None or _run.skip is None:
        return range(*arguments)
    caller = sys._getframe(1)
    return _run.skip.range((caller.f_code, caller.f_lasti), *arguments)


def _tell(args):
    """One line of a rank with SHARD_LOG=info: which lists DLIO has now, and whose they are."""
    texts = []
    for kind in "train", "eval":
        files = getattr(args, "file_list_" + kind, None)
        if isinstance(files, FileList):
            texts.append("%s is libshard's: %d files of '%s', digest %.16s"
                         % (kind, len(files), files.prefix, files.listing.digest))
        elif isinstance(files, list) and files:  # a plug-in's may be anything
            texts.append("%s is DLIO's own, of %d files" % (kind, len(files)))
    native().log(INFO, "libshard %s; the list of %s" % (native().version(), "; of ".join(texts) or "DLIO is empty"))


def patch_initialize(cls, function, changes, length):
    """Put initialize() of a class into a Run.

    function  DLIO's own, behind all decorators
    changes   tells what is not as it was recognised, of some objects' methods too, in words, or None
    length    len() while it runs
    """
    global _changes
    original = vars(cls)["initialize"]
    _changes = changes

    @replaces(cls)
    def initialize(self, *args, **kwargs):
        global _run
        compare_ranks.begin()
        why = changes()
        if why is not None:
            say(LISTED, why)
            return original(self, *args, **kwargs)
        before, _run = _run, Run(self, function, changes)
        try:
            with lent(function.__globals__, len=length, range=_range):
                result = original(self, *args, **kwargs)
            if _run.lists_pending:
                raise RuntimeError("libshard's list of files has not come to ConfigArguments.derive_configurations(), "
                                   "which something has replaced: set SHARD_ADAPTER=compress")
            _tell(self.args)
            return result
        finally:
            _run = before


def _module(file, main):
    """The module of a file of DLIO's, None if it is not loaded. main: the one of DLIOBenchmark."""
    return main if file == "main.py" else sys.modules.get(module_of(file))


def _overridden(one, methods):
    """The first of some methods, {(class, name)}, that an object has from a class made of that one; None."""
    for cls, name in methods:
        owner = next((kind for kind in type(one).__mro__ if name in vars(kind)), cls)
        if isinstance(one, cls) and (owner, name) not in methods:
            return "%s.%s" % (owner.__qualname__, name)
    return None


def changes_in(tree, family, main, *objects):
    """The first function, of those that are loaded, that is not the one that was recognised, in
    words; None. main: the module of DLIOBenchmark; objects: whose methods must be those."""
    methods = set()
    for file, functions in family.fingerprints.items():
        module = _module(file, main)
        if module is None:
            continue
        for function in functions:
            found = tree.runs(module, file, function)
            cls, _, name = function.rpartition(".")
            if found is None or is_displaced(vars(module)[cls] if cls else module, name):
                return not_as_read(tree, file, function)
            if cls:
                methods.add((vars(module)[cls], name))
    for one in objects:
        name = _overridden(one, methods)
        if name is not None:
            return "%s takes the place of a function that was recognised" % name
    return None


def patch_config(family, length, module, tree):
    """Patch dlio_benchmark.utils.config: LoadConfig() finds DLIOBenchmark, and puts its initialize()
    into a Run. length: len() while it runs."""
    original = module.LoadConfig

    @replaces(module)
    def LoadConfig(args, config):
        result, found = original(args, config), False
        for name in ("__main__", "dlio_benchmark.main"):
            main = sys.modules.get(name)
            cls = vars(main).get("DLIOBenchmark") if main is not None else None
            if (not isinstance(cls, type) or cls.__module__ != name
                    or "initialize" not in vars(cls)):
                continue  # a script's own name for the class of the other module
            found, function = True, tree.runs(main, "main.py", "DLIOBenchmark.initialize")
            if function is None:
                say(LISTED, not_as_read(tree, "main.py", "DLIOBenchmark.initialize"))
            elif getattr(vars(cls)["initialize"], "__module__", "") != __name__:
                patch_initialize(cls, function,
                                 lambda *objects, main=main: changes_in(tree, family, main, *objects), length)
        if not found and sys._getframe(1).f_code.co_name == "__init__":  # a benchmark's; others list nothing
            say(LISTED, "its DLIOBenchmark is neither __main__'s nor dlio_benchmark.main's (python -m cProfile "
                "-m ... hides it): start it by dlio_benchmark, or python -m dlio_benchmark.main")
        return result
