# SPDX-License-Identifier: MIT
"""reach: the functions of DLIO's package that a function may call, as far as its text names them: what
was once part of it may have become helpers, in a method or a module of their own."""
import ast
import os

from ..recognise import PACKAGE, file_of, functions, imported
from .shapes import clean, text_of

# What lies around functions and leaves them as they are.
PLAIN = {"staticmethod", "classmethod", "property"}


class _Module:
    """What the names in a module stand for."""

    def __init__(self, tree, file):
        syntax = ast.parse(text_of(tree, file))
        self.functions = functions(syntax)
        for function in self.functions.values():
            clean(function)  # what log lines call makes no difference
        self.imported = imported(ast.walk(syntax), file)  # name -> (module, name in it)
        self.modules = {name: ".".join(origin) for name, origin in self.imported.items()
                        if os.path.isfile(tree.path(file_of(".".join(origin))))}
        for node in ast.walk(syntax):
            for one in node.names if isinstance(node, ast.Import) else ():
                if one.asname and one.name.startswith(PACKAGE + "."):
                    self.modules[one.asname] = one.name


def _is_plain(function):
    return all(getattr(one, "id", None) in PLAIN for one in function.decorator_list)


class Reach:
    """Finds them in a tree. Those of `known`, {file: functions}, are looked at by themselves."""

    def __init__(self, tree, known):
        self._tree, self._modules = tree, {}
        self._known = {(file, name) for file, names in known.items() for name in names}

    def _module(self, file):
        if file not in self._modules:
            try:
                self._modules[file] = _Module(self._tree, file)
            except (OSError, ValueError, SyntaxError):
                self._modules[file] = None
        return self._modules[file]

    def _named(self, file, name, deep=0):
        """[(file, function)] that a name of a module stands for. Not what classes hold: what DLIO makes
        of them, as checkpoints, is no part of lists, and what is goes by the families' tables."""
        module = self._module(file)
        if module is None or deep > 4:
            return []
        if name in module.functions:
            return [(file, name)]
        origin, inner = module.imported.get(name, (None, None))
        return self._named(file_of(origin), inner, deep + 1) if origin else []

    def _used(self, file, function):
        """[(file, function)] that a function's text names."""
        module = self._module(file)
        owner = function.rpartition(".")[0]
        found = []
        for node in ast.walk(module.functions[function]):
            if isinstance(node, ast.Name):
                found += self._named(file, node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                base = node.value.id
                if base in ("self", "cls", owner) and owner:
                    if "%s.%s" % (owner, node.attr) in module.functions:
                        found.append((file, "%s.%s" % (owner, node.attr)))
                elif base in module.modules:
                    found += self._named(file_of(module.modules[base]), node.attr)
        return found

    def of(self, roots):
        """{file: [function]}, without the roots, [(file, function)], and those known."""
        seen, rest = set(), list(roots)
        while rest:
            for one in self._used(*rest.pop()):
                file, name = one
                if one in seen or one in self._known or not _is_plain(self._module(file).functions[name]):
                    continue
                seen.add(one)
                rest.append(one)
        made = {}
        for file, name in sorted(seen - set(roots)):
            made.setdefault(file, []).append(name)
        return made
