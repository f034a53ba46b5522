# SPDX-License-Identifier: MIT
"""benchmark: the DLIOBenchmark whose initialize() runs, and whether all that it works with is what was
recognised.

A DLIOBenchmark begins with LoadConfig(). By then its class is there, however DLIO was started
(dlio_benchmark, python -m dlio_benchmark.main, python .../main.py), and its initialize() is put into a
Run: so it is known who lists, and nothing needs to be read from the frames of callers. While it runs,
len() in its module knows Tokens, and range() may stand for numbers that are not counted (skipped.py).
"""
import contextlib
import os
import sys
import types

from ..genuine import inside, names_in, stranger
from ..native import INFO, WARN, native, say_once
from ..patching import is_displaced, lent, replaces
from ..recognise import file_of, module_of, unwrapped
from ..sequences import FileList

# Packages, and Python's own, of whose classes the callables may be that a proven function uses.
KINDS = {"builtins", "functools", "operator", "types", "typing", "enum", "numpy", "torch", "dlio_benchmark",
         "dftracer", "dlio_profiler", __name__.partition(".")[0]}
LISTED = "DLIO's dataset is listed"  # for say()
DEEPEST = 12  # calls from initialize() to a helper that counts

_run = None   # the Run at hand
_changes = None  # what tells whether something has changed since
_relied = []  # tables of functions, as a Family has them, of modules that were imported later


def say(what, why):
    """Once per reason."""
    say_once(WARN, "%s in the unmodified way: %s" % (what, why), why)


class Run:
    """An initialize() that runs.

    benchmark  its DLIOBenchmark
    skip       if it counts its files' names, and need not: a skipped.Skip; None
    """

    def __init__(self, benchmark, functions, changes):
        self.benchmark, self.skip = benchmark, None
        self._changes = changes
        self._codes = [one.__code__ for one in functions]
        self._inner = [code for one in self._codes for code in inside(one)]
        self._module = functions[0].__globals__["__name__"]

    def _is_own(self, kind):
        """Whether a class is one of DLIO's, and no plug-in's that is made of it."""
        module = kind.__module__
        if kind is type(self.benchmark):
            return module == self._module
        package = self._module.partition(".")[0]
        return module.partition(".")[0] in ("dlio_benchmark", package) and module != "__main__"

    def calls(self, code):
        """"itself" if the code is that of initialize() or a helper of it, "inside" if of a function in
        one; None. Only who calls is compared: of a caller's frame nothing is taken."""
        if any(code is one for one in self._codes):
            return "itself"
        return "inside" if any(code is one for one in self._inner) else None

    def place(self, frame):
        """Where a frame stands, and those that have called it up to initialize(): only what code they
        run, and how far they are."""
        found = [(frame.f_code, frame.f_lasti)]
        while frame.f_back and frame.f_code is not self._codes[0] and len(found) < DEEPEST:
            frame = frame.f_back
            found.append((frame.f_code, frame.f_lasti))
        return found

    def changed(self):
        """What is not as it was recognised, in words; None. Asked when a list is about to be used:
        a plug-in may have changed it at any time."""
        args, storage = self.benchmark.args, self.benchmark.storage
        for one in (args, storage, self.benchmark):
            kind = type(one)
            if not self._is_own(kind):
                return "%s is a class that is not DLIO's" % kind.__qualname__
            if kind.__getattribute__ is not object.__getattribute__ or hasattr(kind, "__getattr__"):
                return "%s has attributes that are computed" % kind.__name__
            for name in getattr(one, "__dict__", ()):
                if callable(getattr(type(one), name, None)) and callable(vars(one)[name]):
                    return "%s.%s is another one's for this object" % (type(one).__name__, name)
        return self._changes(args, storage, self.benchmark)


def not_as_read(tree, file, function):
    """In words, that a function that runs is not the one that was read."""
    return "%s is not the function that %s has: something has replaced or wrapped it" % (
        function, tree.path(file))


def at_hand(storage=None, args=None):
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


def rely_on(known):
    """From now on the functions of this table must be those that were recognised, too."""
    _relied.append(known)


def _range(*arguments):
    """range() in the module of initialize()."""
    if _run is None or _run.skip is None:
        return range(*arguments)
    return _run.skip.range(_run.place(sys._getframe(1)), *arguments)


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


def patch_initialize(cls, functions, changes, length):
    """Put initialize() of a class into a Run.

    functions  returns DLIO's own, behind all decorators, and its helpers
    changes    tells what is not as it was recognised, of some objects' methods too, in words, or None
    length     len() while it runs
    """
    global _changes
    original = vars(cls)["initialize"]
    _changes = changes

    @replaces(cls)
    def initialize(self, *args, **kwargs):
        global _run
        running, why = functions(), changes()
        if why is not None:
            say(LISTED, why)
            return original(self, *args, **kwargs)
        run = Run(self, running, changes)
        before, _run = _run, run
        try:
            with contextlib.ExitStack() as stack:
                for scope in {id(one.__globals__): one.__globals__ for one in running}.values():
                    stack.enter_context(lent(scope, len=length, range=_range))
                result = original(self, *args, **kwargs)
            _tell(self.args)
            return result
        finally:
            _run = before


def _module(file, main):
    """The module of a file of DLIO's, None if it is not loaded. main: the one of DLIOBenchmark."""
    return main if file == "main.py" else sys.modules.get(module_of(file))


def _helpers(tree, listing, main):
    """The functions of a table that run, of modules that are loaded."""
    found = [tree.runs(_module(file, main), file, function)
             for file, functions in listing.items() for function in functions if _module(file, main)]
    return [one for one in found if one is not None]  # changes_in() tells of those that are others


def _is_pythons(function):
    """Whether a function comes with Python."""
    place = os.path.dirname(os.__file__) + "/"
    file = function.__code__.co_filename
    return file.startswith(("<frozen ", place)) and "-packages/" not in file


def _constants(tree, module):
    """The literals that the names of one of DLIO's modules stand for."""
    file = "main.py" if module == "__main__" else file_of(module)
    for one in file, file[:-len(".py")] + "/__init__.py":
        if os.path.isfile(tree.path(one)):
            return tree.constants(one)
    return {}


def _replaced(tree, running):
    """A name that functions of a proven tree use and that stands for something of another package than
    DLIO's, or for another literal than in the source; None."""
    for function in running:
        scope = function.__globals__
        constants = _constants(tree, scope["__name__"])
        for name in names_in(function.__code__) & scope.keys():
            value = unwrapped(scope[name])
            if name in constants and (type(value), value) != (type(constants[name]), constants[name]):
                return name
            if callable(value) and not isinstance(value, (type, types.FunctionType)) and (
                    type(value).__module__.partition(".")[0] not in KINDS):
                return name
            if isinstance(value, types.FunctionType):
                home = sys.modules.get(value.__globals__.get("__name__"))
                if home is None or vars(home).get(value.__name__) is not scope[name] or not (
                        value.__globals__ is scope or home.__name__.partition(".")[0] in KINDS
                        or _is_pythons(value)):
                    return name
    return None


def _overridden(one, methods):
    """The first of some methods, {(class, name)}, that an object has from a class made of that one; None."""
    for cls, name in methods:
        owner = next((kind for kind in type(one).__mro__ if name in vars(kind)), cls)
        if isinstance(one, cls) and (owner, name) not in methods:
            return "%s.%s" % (owner.__qualname__, name)
    return None


def changes_in(tree, family, main, *objects, proven=False):
    """The first function, of those that are loaded, that is not the one that was recognised, in
    words; None. main: the module of DLIOBenchmark; objects: whose methods must be those; proven: the
    tree is known by a proof, so that what its functions call is no known version's."""
    running, methods = [], set()
    for file, functions in [one for known in (family.known, *_relied) for one in known.items()]:
        module = _module(file, main)
        if module is None:
            continue
        for function in functions:
            found = tree.runs(module, file, function)
            cls, _, name = function.rpartition(".")
            if found is None or is_displaced(vars(module)[cls] if cls else module, name):
                return not_as_read(tree, file, function)
            running.append(found)
            if cls and file in family.known:  # DLIO's own storage classes are made of one another
                methods.add((vars(module)[cls], name))
    for one in objects:
        name = _overridden(one, methods)
        if name is not None:
            return "%s takes the place of a function that was recognised" % name
    name = stranger(running) or (_replaced(tree, running) if proven else None)
    return name and "%s, which DLIO lists with, is not Python's or numpy's own" % name


def patch_config(family, proof, length, module, tree):
    """Patch dlio_benchmark.utils.config: LoadConfig() finds DLIOBenchmark, and puts its initialize()
    into a Run. proof: of known.py, or None; length: len() while it runs."""
    original = module.LoadConfig
    listing = proof["helpers"]["listing"] if proof else {}
    for helpers in proof["helpers"].values() if proof else ():
        rely_on(helpers)

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
                patch_initialize(
                    cls, lambda main=main, own=function: [own, *_helpers(tree, listing, main)],
                    lambda *objects, main=main: changes_in(tree, family, main, *objects,
                                                           proven=proof is not None), length)
        if not found and sys._getframe(1).f_code.co_name == "__init__":  # a benchmark's; others list nothing
            say(LISTED, "its DLIOBenchmark is neither __main__'s nor dlio_benchmark.main's (python -m cProfile "
                "-m ... hides it): start it by dlio_benchmark, or python -m dlio_benchmark.main")
        return result
