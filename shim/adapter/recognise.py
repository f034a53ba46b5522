# SPDX-License-Identifier: MIT
"""recognise: which family a DLIO is of, told by the sources of its functions; and whether what runs
is what was recognised."""
import ast
import hashlib
import os
import types
from importlib.util import decode_source


def _print(lines):
    """The fingerprint of a function's lines."""
    text = "\n".join(lines)
    if '"""' not in text and "'''" not in text and "\\\n" not in text:
        # No string spans lines: those that are blank, or a comment only, do nothing.
        text = "\n".join(line for line in lines if line.strip() and line.lstrip()[0] != "#")
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def _functions(syntax):
    """{qualified name: its node} of the functions and methods in a module's syntax tree. The last
    definition of a name counts, as it does in Python."""
    found = {}
    for owner in syntax.body:
        inside = owner.body if isinstance(owner, ast.ClassDef) else [owner]
        before = owner.name + "." if isinstance(owner, ast.ClassDef) else ""
        if before:
            found = {name: node for name, node in found.items() if not name.startswith(before)}
        found.update((before + one.name, one) for one in inside
                     if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return found


def file_of(module):
    """The file of one of the package's modules, as the families' tables have it."""
    return module.partition(".")[2].replace(".", "/") + ".py"


def module_of(file):
    """The module of a file of the package."""
    return "dlio_benchmark." + file[:-len(".py")].replace("/", ".")


def _lines(function):
    """(first line, last line), decorators included."""
    return min(part.lineno for part in (*function.decorator_list, function)), function.end_lineno


class Source:
    """A module's source: the fingerprints of its functions, and the code that they compile to.
    Raises ValueError or SyntaxError."""

    def __init__(self, text, path="<source>"):
        self._path, self._codes = path, None
        self._syntax = ast.parse(text)
        self._lines = {name: _lines(node) for name, node in _functions(self._syntax).items()}
        lines = text.split("\n")
        self.fingerprints = {name: _print(lines[first - 1:last])
                             for name, (first, last) in self._lines.items()}

    def code(self, function):
        """The code object of a function, as an import makes it; None if there is none."""
        if self._codes is None:
            module = compile(self._syntax, self._path, "exec", dont_inherit=True)
            self._codes = {(owner.co_name, owner.co_firstlineno): owner for owner in _nested(module)}
            self._codes.update((("%s.%s" % (owner.co_name, one.co_name), one.co_firstlineno), one)
                               for owner in _nested(module) for one in _nested(owner))
            self._syntax = None
        return self._codes.get((function, self._lines.get(function, (0,))[0]))


def _nested(code):
    """The code objects right in a code object."""
    return [one for one in code.co_consts if isinstance(one, types.CodeType)]


def fingerprints(text):
    """{qualified name: fingerprint} of the functions and methods in a module's source; ValueError,
    SyntaxError.

    A fingerprint is the first ten hex digits of SHA-256 over the function's lines, decorators
    included, as they are: indentation, strings and comments after code count. Lines that are blank
    or a comment only do not, unless a string of the function may span lines.
    """
    return Source(text).fingerprints


# Packages whose wrappers may lie around DLIO's functions: its tracers', and ours. DLIO's own stand-in
# for a tracer (utils/utility.py) wraps nothing since 2023: what does is another's.
DECORATORS = ("dftracer", "dlio_profiler", __name__.partition(".")[0])


class Family:
    """DLIOs of one shape: how they are recognised, and what is done to them.

    name     how people call it
    known    {file of the package: {function: its fingerprints}}, all functions that are touched or
             relied upon. Whatever combination of these fingerprints a DLIO has, the patches must
             be right for it.
    patches  {module: function(module, tree)}, called once the module has been imported
    """

    def __init__(self, name, known, patches):
        self.name, self.fingerprints, self.patches = name, known, patches


def changed(known, changes):
    """A table of known functions where some, {function: fingerprints}, differ from `known`."""
    made = {file: {name: changes.get(name, fingerprints_of_it)
                   for name, fingerprints_of_it in functions.items()}
            for file, functions in known.items()}
    strangers = set(changes).difference(*made.values())
    if strangers:
        raise ValueError("not in the table: %s" % sorted(strangers))
    return made


def _is_known_place(module):
    return module.partition(".")[0] in DECORATORS


def unwrapped(function):
    """What lies behind our own replacements, and the decorators of DLIO's tracers."""
    while True:
        if isinstance(function, (staticmethod, classmethod)):
            function = function.__func__
        elif isinstance(function, property):
            function = function.fget
        elif (type(function) is types.FunctionType and hasattr(function, "__wrapped__")
              and _is_known_place(function.__globals__.get("__name__", ""))):
            function = function.__wrapped__
        else:
            return function


class Tree:
    """The sources of the DLIO that this process imports."""

    def __init__(self, folder):
        self.folder = folder
        self._found = {}  # file -> its Source, or the error

    def path(self, file):
        """Where a file of the package lies."""
        return os.path.join(self.folder, *file.split("/"))

    def _source(self, file):
        if file not in self._found:
            try:
                with open(self.path(file), "rb") as stream:
                    self._found[file] = Source(decode_source(stream.read()), self.path(file))
            except (OSError, ValueError, SyntaxError, RecursionError) as error:
                self._found[file] = str(error)
        found = self._found[file]
        if isinstance(found, str):
            raise ValueError(found)
        return found

    def fingerprint(self, file, function):
        """A function's fingerprint, None if the file has no such function; OSError, ValueError,
        SyntaxError."""
        return self._source(file).fingerprints.get(function)

    def code(self, file, function):
        """The code of a function, as an import of its file makes it; None, or as above."""
        return self._source(file).code(function)

    def runs(self, module, file, function):
        """The function that runs as a module's `function` or Class.function, behind what is known to
        lie around it; None if it is not the one that was recognised."""
        owner, _, name = function.rpartition(".")
        owner = vars(module).get(owner) if owner else module
        found = unwrapped(vars(owner).get(name)) if isinstance(owner, (type, types.ModuleType)) else None
        same = (isinstance(found, types.FunctionType) and found.__globals__ is vars(module)
                and found.__code__ == self.code(file, function))
        return found if same else None

    def difference(self, file, function, known):
        """None if a function has one of the fingerprints `known`, else what to tell people."""
        try:
            if self.fingerprint(file, function) in known:
                return None
            text = "%s is not a version known to libshard" % function
        except (OSError, ValueError, SyntaxError) as error:
            text = str(error)
        return "%s: %s" % (self.path(file), text)

    def differences(self, known):
        """[(file, function, what to tell people)] where the tree is not as the table says."""
        compared = ((file, function, self.difference(file, function, prints))
                    for file, functions in known.items() for function, prints in functions.items())
        return [one for one in compared if one[-1] is not None]


def recognise(tree, families):
    """(family, None) for the family whose functions all match; else (None, what to tell people): the first function
    that differs from the nearest family. Functions of two families make neither: what one family's patches do was
    tried with its own functions only.
    """
    different = []
    for family in families:
        different.append(tree.differences(family.fingerprints))
        if not different[-1]:
            return family, None
    return None, min(different, key=len)[0][-1]
