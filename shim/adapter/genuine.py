# SPDX-License-Identifier: MIT
"""genuine: whether the functions of Python and numpy that DLIO's own functions call are Python's and
numpy's. A plug-in, or sitecustomize, may have put others in their place: sorted(), os.listdir(),
numpy.random.shuffle(), ... What is computed in their stead would then not be what they compute.
"""
import builtins
import functools
import re
import sys
import types

# Where DLIO's functions find what matters to lists. Others (logging, time, torch, ...) do not.
MODULES = ("os", "posixpath", "genericpath", "glob", "fnmatch", "math", "random", "numpy",
           "numpy.random")
# By which names DLIO imports them, and which others it reaches through them.
IMPORTED = {"os": "os", "glob": "glob", "math": "math", "random": "random", "np": "numpy"}
REACHED = {"os": ("os", "posixpath", "genericpath"), "numpy": ("numpy", "numpy.random"),
           "glob": ("glob", "fnmatch", "os", "posixpath", "genericpath")}
PARTS = {("os", "path"): "posixpath", ("numpy", "random"): "numpy.random"}
# Of those and the builtins, what people wrap to look at a program, and no list depends on.
HARMLESS = {"print", "open", "close", "input", "__import__", "environ", "getenv"}
# What is in a module and cannot be called, nor computes anything.
DATA = (str, bytes, int, float, tuple, frozenset, type(None), re.Pattern)
HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a type that was made at run time
# Of these modules what their own functions call counts, too: glob() lists by os.scandir().
CALLING = ("glob", "fnmatch", "posixpath", "genericpath")
SAME = {"posix": "os", "genericpath": "posixpath", "nt": "os"}


def _home(name):
    """The package that a module's name says, with those of one kind alike."""
    root = str(name).partition(".")[0].lstrip("_")
    return SAME.get(root, root)


def is_genuine(value, owner, name):
    """Whether a function or class is the one that a module, `owner`, was made with under a name."""
    home = _home(owner.__name__)
    of = getattr(value, "__self__", None)
    if home == "random" and isinstance(of, sys.modules["random"].Random) and (
            of is not sys.modules["random"]._inst):
        return False  # random.shuffle is the method of one object
    if home == "numpy" and type(of).__name__ in ("RandomState", "Generator") and (
            of is not sys.modules["numpy.random"].mtrand._rand):
        return False
    if isinstance(value, types.MethodType):
        value = value.__func__
    if isinstance(value, types.FunctionType):
        code, module = value.__code__, sys.modules.get(value.__globals__.get("__name__"))
        if code.co_filename == "<__array_function__ internals>":  # numpy before 1.25
            return value.__name__ == name
        return (module is not None and value.__globals__ is vars(module) and value.__name__ == name
                and code.co_name == name and _home(module.__name__) == home
                and code.co_filename in (getattr(module, "__file__", None),
                                         "<frozen %s>" % module.__name__))
    if isinstance(value, type):
        if home == "builtins":  # a class that is made in Python is none of these
            return value.__name__ == name and not value.__flags__ & HEAP
        return _home(value.__module__) in (home, "builtins", "collections")
    if isinstance(value, types.BuiltinFunctionType):
        module = value.__module__ or (of.__name__ if isinstance(of, types.ModuleType)
                                      else type(of).__module__)
        if home == "numpy" and value.__module__ is None and type(of).__name__ == "RandomState":
            return value.__name__ == name
        # Since Python 3.13 os.path.normpath is posix._path_normpath.
        return value.__name__ in (name, "_path_" + name) and _home(module) in (home, "os")
    if isinstance(value, types.MethodWrapperType):  # fnmatch counts by one
        return _home(type(value.__self__).__module__) in (home, "itertools")
    if isinstance(value, functools._lru_cache_wrapper):
        return is_genuine(value.__wrapped__, owner, name)
    kind = type(value)
    if kind.__name__ == "ufunc" and _home(kind.__module__) == home:
        return True  # some have several names
    if kind.__name__ in ("_ArrayFunctionDispatcher", "cython_function_or_method"):
        return _home(value.__module__) == home and value.__name__ == name
    if isinstance(value, types.ModuleType):
        return value is sys.modules.get(value.__name__) and value.__name__.rpartition(".")[2] == name
    return isinstance(value, DATA)


def inside(code):
    """The code objects that lie in a code object, at any depth."""
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield one
            yield from inside(one)


def names_in(code):
    """The names that a code object uses, and those that lie in it."""
    return {name for one in (code, *inside(code)) for name in one.co_names}


def _called(owners):
    """The names that functions of CALLING use."""
    if not _calling:
        for module in CALLING:
            for value in vars(owners.get(module, builtins)).values():
                if isinstance(value, types.FunctionType):
                    _calling.update(names_in(value.__code__))
    return _calling


_calling = set()


def _is_ours(value):
    """Whether libshard itself has put it into a module."""
    kind = value if hasattr(value, "__code__") else type(value)
    return str(kind.__module__).partition(".")[0] == __name__.partition(".")[0]


def stranger(functions):
    """The first name that one of DLIO's functions uses and that stands for something else than it
    did; None. functions: those that run, as recognise.Tree.runs() has them."""
    owners = {name: sys.modules[name] for name in MODULES if name in sys.modules}
    used, asked = set(), set()
    for function in functions:
        names, scope = names_in(function.__code__), function.__globals__
        used |= names
        for name in names & vars(builtins).keys() - HARMLESS:
            value = scope.get(name, getattr(builtins, name))
            if not _is_ours(value) and not is_genuine(value, builtins, name):
                return name
        for name in names & IMPORTED.keys() & scope.keys():
            value, module = scope[name], IMPORTED[name]
            asked.update(one for one in owners if one in REACHED.get(module, (module,)))
            if _is_ours(value) or value is owners.get(module):
                continue
            if not (callable(value) and module in owners and is_genuine(value, owners[module], name)):
                return name
    if "glob" in asked:
        used |= _called(owners)
    for module in asked:
        owner = owners[module]
        for name in used & vars(owner).keys() - HARMLESS:
            value = getattr(owner, name)
            inner = PARTS.get((module, name))
            good = value is sys.modules.get(inner) if inner else is_genuine(value, owner, name)
            if not good:
                return "%s.%s" % (module, name)
    return None
