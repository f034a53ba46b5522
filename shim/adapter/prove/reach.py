# SPDX-License-Identifier: MIT
"""reach: the functions of DLIO's package that a function may call, as far as its text names them: what
was once part of it may have become helpers, in a method or a module of their own. Where a name leads to
something that cannot be looked at, nothing is proven."""
import ast
import builtins
import importlib.util
import os
import sys

from ..recognise import PACKAGE, file_of, functions, origin
from .shapes import NAMES_OF_KINDS, clean, text_of

# Packages that DLIO computes with. What one of another distribution does may change by itself.
OTHERS = {"numpy", "torch", "tensorflow", "hydra", "omegaconf", "mpi4py", "pandas", "PIL", "h5py", "psutil",
          "yaml", "dftracer", "dlio_profiler"}
# Classes that known versions of these functions use for other things than lists, or that the tables have.
CLASSES = {"CheckpointingFactory", "ProfilerFactory", "FrameworkFactory", "GeneratorFactory", "StorageFactory",
           "ReaderFactory", "DataLoaderFactory", "StatsCounter", "Profile", "PerfTrace", "DLIOMPI", "DLIOLogger",
           "ConfigArguments"}


class Unseen(Exception):
    """(function, what it uses and nobody can look at)."""


def _is_standard(module):
    known = getattr(sys, "stdlib_module_names", None)
    if known is not None:
        return module in known
    spec = importlib.util.find_spec(module)
    return spec is not None and "-packages" not in str(spec.origin)


class _Module:
    """What the names in a module stand for."""

    def __init__(self, tree, file):
        syntax = ast.parse(text_of(tree, file))
        self.functions = functions(syntax)
        self.classes = {one.name: one for one in syntax.body if isinstance(one, ast.ClassDef)}
        self.constants = tree.constants(file)
        self.imported = {}  # name -> {(module, name in it; None: the module)}
        for node in ast.walk(syntax):
            if isinstance(node, ast.ImportFrom):
                for one in node.names:
                    self.imported.setdefault(one.asname or one.name, set()).add((origin(node, file), one.name))
            elif isinstance(node, ast.Import):
                for one in node.names:
                    name = one.name if one.asname else one.name.partition(".")[0]
                    self.imported.setdefault(one.asname or name, set()).add((name, None))
        for function in self.functions.values():
            clean(function)  # what log lines call makes no difference


class Reach:
    """Finds them in a tree. Those of `known`, {(file, function)}, are looked at by themselves."""

    def __init__(self, tree, known):
        self._tree, self._known, self._modules = tree, known, {}

    def _module(self, file):
        if file not in self._modules:
            self._modules[file] = _Module(self._tree, file)
        return self._modules[file]

    def _file(self, module):
        """The file of one of the package's modules; None."""
        for file in (file_of(module), module.partition(".")[2].replace(".", "/") + "/__init__.py"):
            if os.path.isfile(self._tree.path(file.lstrip("/"))):
                return file.lstrip("/")
        return None

    def _find(self, file, name, deep=0):
        """What a name of a module stands for: ("function" or "class", file, name), ("module", file, None),
        ("plain", ...) if it is nothing of the package's; None: that cannot be told."""
        module = self._module(file)
        origins = module.imported.get(name, set())
        own = (name in module.functions) + (name in module.classes) + (name in module.constants) + len(origins)
        if own != 1 or deep > 6:
            return ("plain", file, name) if own == 0 and hasattr(builtins, name) else None
        if name in module.functions:
            return "function", file, name
        if name in module.classes:
            return "class", file, name
        if name in module.constants:
            return "plain", file, name
        (source, inner), = origins
        root = source.partition(".")[0]
        if root != PACKAGE:
            return ("plain", file, name) if root in OTHERS or _is_standard(root) else None
        found = self._file(source if inner is None else source + "." + inner)
        if found:
            return "module", found, None
        found = self._file(source)
        return self._find(found, inner, deep + 1) if found and inner else None

    def _of_class(self, file, name, attribute=None, deep=0):
        """[(file, function)] of a class: all its methods, or one, where it is found first."""
        module = self._module(file)
        if attribute is None:
            return [(file, one) for one in module.functions if one.startswith(name + ".")]
        if "%s.%s" % (name, attribute) in module.functions:
            return [(file, "%s.%s" % (name, attribute))]
        for base in module.classes[name].bases if deep < 6 else ():
            found = self._find(file, base.id) if isinstance(base, ast.Name) else None
            if found and found[0] == "class":
                inner = self._of_class(found[1], found[2], attribute, deep + 1)
                if inner:
                    return inner
        return []

    def _leads(self, function, what, file, name, attribute=None):
        """[(file, function)] that a name, or an attribute of it, leads to; Unseen."""
        found = self._find(file, name)
        if found is None:
            raise Unseen(function, what)
        kind, where, inner = found
        if kind == "module" and attribute is not None:
            return self._leads(function, what, where, attribute)
        if kind == "function":
            return [(where, inner)]
        if kind == "class" and inner not in CLASSES and where != NAMES_OF_KINDS:
            return self._of_class(where, inner)
        return []

    def _used(self, file, function):
        """[(file, function)] that a function's text names; Unseen."""
        module, node = self._module(file), self._module(file).functions[function]
        owner = function.rpartition(".")[0]
        inside = [one for statement in node.body for one in ast.walk(statement)]
        own = {one.arg for one in (*ast.walk(node.args), *inside) if isinstance(one, ast.arg)}
        own |= {one.id for one in inside if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
        own |= {one.name for one in inside if isinstance(one, (ast.FunctionDef, ast.ExceptHandler))}
        found, attributes = [], {}
        for one in inside:
            if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
                attributes.setdefault(one.value.id, set()).add(one.attr)
        if PACKAGE in attributes and (PACKAGE, None) in module.imported.get(PACKAGE, ()):
            raise Unseen(function, PACKAGE + ".…, a module by its full name")
        for name in ("self", "cls", owner) if owner in module.classes else ():
            for attribute in attributes.get(name, ()):
                found += self._of_class(file, owner, attribute)
        for one in inside:
            if isinstance(one, ast.Name) and one.id not in own and one.id != owner:
                what = "%s of %s" % (one.id, file)
                if (self._find(file, one.id) or [None])[0] == "module":
                    for attribute in attributes.get(one.id, ()):
                        found += self._leads(function, what, file, one.id, attribute)
                else:
                    found += self._leads(function, what, file, one.id)
        return found

    def of(self, roots):
        """{file: [function]}, without the roots, [(file, function)], and those known; Unseen."""
        seen, rest = set(), list(roots)
        while rest:
            for one in self._used(*rest.pop()):
                if one not in seen and one not in self._known:
                    seen.add(one)
                    rest.append(one)
        made = {}
        for file, name in sorted(seen - set(roots)):
            made.setdefault(file, []).append(name)
        return made
