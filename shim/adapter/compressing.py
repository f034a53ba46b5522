# SPDX-License-Identifier: MIT
"""compressing: what any DLIO has made of its files is kept in compressed form between two of its calls.

DLIO's own functions list, sort, divide and map real lists. After DLIOBenchmark.initialize() and after each
ConfigArguments.reconfigure(), in a rank's main process, long lists of paths and maps of samples become
Paths, Rows and SampleTables (columns.py); before the next of these calls begins they become what they
were. So DLIO's functions between these calls read them, and the loaders hand them to workers.

Looked at are the attributes of the arguments, of the benchmark, and of DLIO's own objects that these
hold, and short dicts there. Nothing else may have a reference to what is replaced: it would go on with a
list of its own, where DLIO means one.
"""
import ast
import functools
import logging
import sys
import weakref

from . import columns, list_like
from .native import INFO, WARN, is_worker, native, say_once, speaks
from .patching import replaces

MANY = 4096  # elements: what has fewer stays
DEEP = 3     # so many dicts and objects of DLIO's lie around what is looked at, at most
PACKAGE = "dlio_benchmark"
LOADERS, READERS = PACKAGE + ".data_loader", PACKAGE + ".reader"

enabled = False  # whether this process compresses: set by enable()


def enable():
    """Compress from now on."""
    global enabled
    enabled = columns.AVAILABLE


# ---- whose loaders and readers -------------------------------------------------------------------


def _is_strange(name, value):
    """Whether an attribute of the arguments tells of a loader or reader that is not DLIO's own."""
    home = LOADERS if "loader" in name else READERS if "reader" in name else None
    if home is None:
        return False
    if isinstance(value, type):
        value = value.__module__
    elif not name.endswith(("class", "classname")) or not isinstance(value, str):
        return False
    return not value.startswith(home + ".")


def why_real(args):
    """Why DLIO needs real lists, in words; None."""
    loader = getattr(args, "data_loader", None)
    loader = getattr(loader, "value", loader)
    if loader != "pytorch":
        return "they are read by the %s loader" % loader
    name = next((name for name, value in vars(args).items() if _is_strange(name, value)), None)
    if name is not None:
        return "%s is not DLIO's own" % name
    form = getattr(args, "format", None)
    if getattr(args, "native_data_loader", False) or getattr(form, "value", form) == "tfrecord":
        return "they are read by TensorFlow"
    return None


# ---- what there is --------------------------------------------------------------------------------


class Found:
    """A list or dict that may be compressed, and its places: [(dict, key)]."""

    def __init__(self, value, name):
        self.value, self.name, self.places = value, name, []


def _is_own(value):
    """Whether it is an object of a class of DLIO's, with attributes in a dict."""
    home = str(type(value).__module__).partition(".")[0]
    return home == PACKAGE and type(getattr(value, "__dict__", None)) is dict


def _has_paths(value):
    """Whether a list or dict seems to be of paths: only of those a line says why they stay."""
    if not value:
        return False
    first = next(iter(value.values() if isinstance(value, dict) else value))
    fields = first if isinstance(first, (tuple, list)) else (first,)
    return any(isinstance(one, str) for one in fields)


def _look(scope, name, found, seen, deep):
    """Put what lies in a dict, of attributes or DLIO's own, into `found`: {id: Found}."""
    if id(scope) in seen or deep > DEEP:
        return
    seen[id(scope)] = scope
    for key, value in list(scope.items()):
        label = "%s.%s" % (name, key) if isinstance(key, str) else "%s[%r]" % (name, key)
        if _is_own(value):
            _look(vars(value), label, found, seen, deep + 1)
        elif issubclass(type(value), (list, dict)):
            like = list if issubclass(type(value), list) else dict
            if like.__len__(value) >= MANY:
                found.setdefault(id(value), Found(value, label)).places.append((scope, key))
            elif type(value) is dict:
                _look(value, label, found, seen, deep + 1)


def _put_in_place(made, one, usual):
    """loops.put() of a Found."""
    return columns.loops.put(made, one.value, one.places, sys.getrefcount, usual)


def _usual():
    """How many references there are to a Found's value beside those in its places."""
    scope = {"own": [None]}
    one = Found(scope["own"], "own")
    one.places.append((scope, "own"))
    return _put_in_place(None, one, None)


USUAL = _usual() if columns.AVAILABLE else 0


# ---- replacing ------------------------------------------------------------------------------------

_put = []    # [(dict, key, what was put there)]
_depth = 0   # of DLIO's calls
_benchmark = None  # a weak reference to that which has been initialized last


def _say(text, *values):
    if speaks():
        native().log(INFO, text % values)


def _replace(one, known):
    """Compress a Found, if it can be."""
    if type(one.value) not in (list, dict):
        return _say("%s stays as it is: it is a %s", one.name, type(one.value).__name__)
    try:
        made = columns.compressed(one.value, known)
    except columns.NotCompressible as why:
        if _has_paths(one.value):
            _say("%s stays as it is: %s", one.name, why)
        return None
    for scope, key in one.places:
        _put.append((scope, key, made))
    same = _put_in_place(made, one, USUAL)
    if same != len(one.value):
        del _put[-len(one.places):]
        return _say("%s stays as it is: %s", one.name, "something else has it, too" if same is None else
                    "its compressed form differs in element %d" % same)
    if type(made) is columns.Paths:
        known.append((made, one.value))
    return _say("%s is compressed: %r", one.name, made)


def _compress(args):
    why = "the arguments have no dict" if type(getattr(args, "__dict__", None)) is not dict else why_real(args)
    if why is not None:
        return say_once(INFO, "what DLIO has made of its files stays as it is: " + why)
    found, seen, known = {}, {}, []
    for name, owner in ("args", args), ("benchmark", _benchmark and _benchmark()):
        if type(getattr(owner, "__dict__", None)) is dict:
            _look(vars(owner), name, found, seen, 0)
    # Lists of paths first: maps name them.
    for one in sorted(found.values(), key=lambda one: type(one.value) is not list or not isinstance(one.value[0], str)):
        _replace(one, known)
    return None


def compress(args):
    """Compress what DLIO has made, for the time until put_back()."""
    try:
        _compress(args)
    except Exception as error:  # pylint: disable=broad-except
        say_once(WARN, "what DLIO has made of its files stays in memory, as it is: %s: %s"
                 % (type(error).__name__, error), "compress")


def put_back():
    """Put real lists and dicts where compressed ones are. Who has kept one of those has the real one, too."""
    real, lists = {}, {}  # id -> (what was put, the real one); (listing, prefix) -> a real list
    for _, _, made in sorted(_put, key=lambda one: type(one[2]) is not columns.Paths):
        if id(made) not in real:
            name = (made.listing, made.prefix) if type(made) is columns.Paths else None
            if type(made) in (columns.Rows, columns.SampleTable):
                made.share_strings(lists)
            real[id(made)] = made, list_like.stand_for(made)
            if name:
                lists[name] = list(real[id(made)][1])  # another thread may change the real one
    while _put:
        scope, key, made = _put.pop()
        if scope.get(key) is made:
            scope[key] = real[id(made)][1]


def _note(benchmark):
    """In DLIO's own log, once a run, by rank 0: a result is to be compared with others under libshard only."""
    try:
        if benchmark.args.my_rank == 0:
            tell = getattr(vars(benchmark).get("logger"), "output", logging.info)
            tell("libshard %s was there (LD_PRELOAD); compare this run with others under libshard only" % native().version())
    except Exception:  # pylint: disable=broad-except
        pass  # a plug-in's logger


def _around(cls, name, args_of):
    """Put what was replaced back before a method of DLIO's, and compress after it."""
    original = getattr(cls, name)

    def method(self, *args, **kwargs):
        global _depth, _benchmark
        if is_worker():
            return original(self, *args, **kwargs)
        if _depth == 0:
            put_back()
        _depth += 1
        try:
            result = original(self, *args, **kwargs)
        finally:
            _depth -= 1
        if name == "initialize":
            _benchmark = weakref.ref(self)
            _note(self)
        owner = args_of(self)
        if _depth == 0 and enabled and owner is not None:
            compress(owner)
        return result

    functools.update_wrapper(method, original)
    method.__name__ = name
    replaces(cls)(method)


# ---- DLIO's modules ---------------------------------------------------------------------------------


def patch_main(module):
    """Patch dlio_benchmark.main, or __main__ if DLIO runs as that."""
    cls = vars(module).get("DLIOBenchmark")
    if isinstance(cls, type) and callable(vars(cls).get("initialize")) and cls not in _patched:
        _patched.append(cls)
        _around(cls, "initialize", lambda self: vars(self).get("args"))


_patched = []


def patch_config(module):
    """Patch dlio_benchmark.utils.config."""
    cls = vars(module).get("ConfigArguments")
    if not isinstance(cls, type) or not callable(vars(cls).get("reconfigure")):
        say_once(WARN, "nothing of this DLIO is compressed: its arguments have no reconfigure()")
        return
    _around(cls, "reconfigure", lambda self: self)
    load = vars(module).get("LoadConfig")
    if callable(load):
        _find_main(module)


def _find_main(module):
    """LoadConfig() finds the class of a benchmark that runs as __main__."""
    original = module.LoadConfig

    @replaces(module)
    @functools.wraps(original)
    def LoadConfig(*args, **kwargs):
        main = sys.modules.get("__main__")
        if main is not None and getattr(vars(main).get("DLIOBenchmark"), "__module__", "") == "__main__":
            patch_main(main)
        return original(*args, **kwargs)


def lazy_list(*values):
    """list(), but that a lazy list becomes a view, where each worker would make a copy."""
    if len(values) == 1 and isinstance(values[0], list_like.ListLike) and hasattr(values[0], "view"):
        return values[0].view()
    return list(*values)


def patch_loader(module):
    """Patch a module of dlio_benchmark.data_loader, if all that it does with `list` is to call it."""
    try:
        tree = ast.parse(module.__spec__.loader.get_source(module.__name__))
    except (AttributeError, ImportError, OSError, SyntaxError, TypeError):
        return
    called = {id(one.func) for one in ast.walk(tree) if isinstance(one, ast.Call)}
    if all(id(one) in called for one in ast.walk(tree) if isinstance(one, ast.Name) and one.id == "list"):
        vars(module).setdefault("list", lazy_list)


def patches(loaders):
    """{module: function(module)}; loaders: the names of DLIO's modules of loaders."""
    return {PACKAGE + ".main": patch_main, PACKAGE + ".utils.config": patch_config,
            **{name: patch_loader for name in loaders}}
