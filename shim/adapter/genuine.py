# SPDX-License-Identifier: MIT
"""genuine: whether the functions of Python and numpy that DLIO lists, sorts and shuffles with are Python's
and numpy's. A plug-in, or sitecustomize, may have put others in their place, which compute something else.
"""
import builtins
import functools
import sys
import types

# What lists depend on, by the module in which DLIO's functions, or Python's that they call, find it. Where a
# version has no such function, none is asked for.
RELIED = {
    "os": "path fspath listdir lstat scandir stat",
    "posixpath": "os abspath basename dirname exists isdir isfile islink join lexists normpath realpath split splitext",
    "glob": "os fnmatch glob iglob has_magic _iglob _glob0 _glob1 _glob2 _listdir _iterdir _rlistdir",
    "fnmatch": "os posixpath filter fnmatch fnmatchcase translate _compile_pattern",
    "math": "ceil floor sqrt",
    "numpy": "random append arange argsort array asarray ceil concatenate cumsum empty floor full int64 ones "
             "repeat searchsorted sort sqrt sum take where zeros",
    "numpy.random": "choice get_state permutation randint seed set_state shuffle",
}
BUILTINS = set("abs all any bool dict divmod enumerate filter float getattr hasattr int isinstance issubclass "
               "iter len list map max min next range reversed round set slice sorted str sum super tuple type "
               "zip".split())
IMPORTED = {"os": "os", "glob": "glob", "math": "math", "np": "numpy"}  # by which names DLIO has modules
SAME = {"posix": "os", "posixpath": "os", "genericpath": "os"}
HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a type that was made at run time


def _home(module):
    """The package that a module's name says, with those of one kind alike."""
    root = str(module).partition(".")[0].lstrip("_")
    return SAME.get(root, root)


def is_genuine(value, owner, name):
    """Whether a function, class or module is the one that a module, `owner`, was made with under a name."""
    home, of, kind = _home(owner.__name__), getattr(value, "__self__", None), type(value)
    if isinstance(value, types.ModuleType):
        return value is sys.modules.get(value.__name__) and value.__name__.rpartition(".")[2] in (name, "posixpath")
    if isinstance(value, functools._lru_cache_wrapper):
        return is_genuine(value.__wrapped__, owner, name)
    if isinstance(value, types.FunctionType):
        code, module = value.__code__, sys.modules.get(value.__globals__.get("__name__"))
        if code.co_filename == "<__array_function__ internals>":  # numpy before 1.25
            return home == "numpy" and value.__name__ == name
        return (module is not None and value.__globals__ is vars(module) and code.co_name == name
                and _home(module.__name__) == home
                and code.co_filename in (getattr(module, "__file__", None), "<frozen %s>" % module.__name__))
    if isinstance(value, type):
        return _home(value.__module__) == home and not (home == "builtins" and value.__flags__ & HEAP)
    if type(of).__name__ in ("RandomState", "Generator"):
        return home == "numpy" and of is owner.mtrand._rand and value.__name__ == name
    # Functions in C; since Python 3.13 os.path.normpath is posix._path_normpath.
    if getattr(value, "__name__", None) not in (name, "_path_" + name) or isinstance(value, types.MethodType):
        return False
    in_c = isinstance(value, types.BuiltinFunctionType) or kind.__name__ == "cython_function_or_method"
    return (in_c or _home(kind.__module__) == home) and _home(getattr(value, "__module__", None) or home) == home


def inside(code):
    """The code objects that lie in a code object, at any depth."""
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield one
            yield from inside(one)


def _is_ours(value):
    """Whether libshard itself has put it into a module."""
    kind = value if hasattr(value, "__code__") else type(value)
    return str(kind.__module__).partition(".")[0] == __name__.partition(".")[0]


def stranger(functions):
    """The first name that lists depend on and that stands for something else than it did; None.
    functions: DLIO's that run, as recognise.Tree.runs() has them."""
    for function in functions:
        code, scope = function.__code__, function.__globals__
        names = {name for one in (code, *inside(code)) for name in one.co_names}
        for name in names & (BUILTINS | IMPORTED.keys() & scope.keys()):
            value, module = scope.get(name, getattr(builtins, name, None)), IMPORTED.get(name)
            good = value is sys.modules.get(module) if module else is_genuine(value, builtins, name)
            if not good and not _is_ours(value):
                return name
    for module, names in RELIED.items():
        owner = sys.modules.get(module)
        for name in names.split() if owner else ():
            if hasattr(owner, name) and not is_genuine(getattr(owner, name), owner, name):
                return "%s.%s" % (module, name)
    return None
