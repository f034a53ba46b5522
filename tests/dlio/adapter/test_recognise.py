"""What is recognised is what runs: every change of a function changes its fingerprint, and what stands
in its place when DLIO runs is noticed."""
import builtins
import fnmatch
import functools
import glob
import importlib
import io
import os
import random
import re
import sys
import tokenize
import types
import unittest

import dlio_benchmark.main as dlio_main
import dlio_benchmark.utils.config as config
import numpy
from _libshard import compressing, dlio, genuine, recognise
from _libshard.parts import benchmark, bucket
from dlio_benchmark.storage import file_storage

from .case import pair
from .plain import replaced


def lines_of(file, function):
    """The lines of a method of the DLIO at hand."""
    with open(dlio.tree.path(file), encoding="utf-8") as stream:
        text = stream.read()
    source = recognise.Source(text)
    first, last = source._lines[function]
    return text.split("\n")[first - 1:last]


def is_used(name, *files):
    """Whether the functions that are relied upon, of these files or of any, have this name in their lines."""
    return any(re.search(r"\b%s\b" % name, "\n".join(lines_of(file, function)))
               for file in files or dlio.family.known for function in dlio.family.known[file])


def print_of(function, lines):
    """The fingerprint of a method with these lines; None if they are no Python."""
    cls, _, name = function.partition(".")
    try:
        return recognise.fingerprints("class %s:\n%s\n" % (cls, "\n".join(lines))).get(
            "%s.%s" % (cls, name))
    except (SyntaxError, ValueError):
        return None


def other(token):
    """A token in the place of another one of its kind."""
    if token.type == tokenize.NUMBER:
        return token.string + "1"
    if token.type == tokenize.NAME:
        return token.string + "_"
    if token.type == tokenize.STRING:
        quote = re.match("[A-Za-z]*(\"{3}|'{3}|.)", token.string).end()
        return token.string[:quote] + "#" + token.string[quote:]
    if token.type == tokenize.OP:
        return {"+": "-", "<": ">", "[": "(", "]": ")", "==": "!=", ".": ",", ",": "."}.get(
            token.string, token.string + token.string)
    return None


def changed_by_token(lines):
    """The lines, one token changed."""
    text = "if True:\n" + "\n".join(lines) + "\n"
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        instead = other(token)
        if instead is None or token.start[0] == 1:
            continue
        changed = text.split("\n")
        (row, begin), (last, end) = token.start, token.end
        changed[row - 1:last] = (changed[row - 1][:begin] + instead + changed[last - 1][end:]).split("\n")
        yield repr(token), changed[1:-1]


def changed_by_indentation(lines):
    """The lines, where one line and what is further in under it moves by a level."""
    for at, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if at == 0 or not line.strip() or line.lstrip()[0] == "#":
            continue
        end = at + 1
        while end < len(lines) and (not lines[end].strip()
                                    or len(lines[end]) - len(lines[end].lstrip()) > indent):
            end += 1
        for move in (4, -4):
            block = [(" " * 4 + one if move > 0 else one[4:]) if one.strip() else one
                     for one in lines[at:end]]
            yield "line %d by %d" % (at, move), lines[:at] + block + lines[end:]


class TestFingerprints(unittest.TestCase):
    """Every function that is relied upon, every token and every block."""

    def test_every_change(self):
        tried = 0
        for file, functions in dlio.family.known.items():
            for function in functions:
                lines = lines_of(file, function)
                before = print_of(function, lines)
                self.assertIn(before, functions[function])
                for change in (changed_by_token, changed_by_indentation):
                    for what, changed in change(lines):
                        tried += 1
                        self.assertNotEqual(print_of(function, changed), before,
                                            "%s: %s" % (function, what))
        self.assertGreater(tried, 3000)

    def test_what_does_nothing(self):
        """Comments between lines may change, but not in strings."""
        lines = ["    def f(self):", "        a = 1", "        return a"]
        self.assertEqual(print_of("C.f", lines[:2] + ["# more", ""] + lines[2:]), print_of("C.f", lines))
        one, two = (["    def f(self):", "        a = '''", text, "        '''"]
                    for text in ("# x", "# y"))
        self.assertNotEqual(print_of("C.f", one), print_of("C.f", two))


def wrapped(function):
    """As tracers do."""
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper


class TestStorages(unittest.TestCase):
    """The table that is compared when a storage class is imported: PyPI's DLIO has the classes below that of
    the bucket, and they have never changed."""

    def test_below(self):
        if "dlio_benchmark.storage.s3_torch_storage" not in dlio.family.patches:
            self.skipTest("this family does not patch the class")
        for file in "storage/s3_storage.py", "storage/storage_handler.py":
            for function, prints in bucket.KNOWN[file].items():
                self.assertIn(dlio.tree.fingerprint(file, function), prints, "%s: see tests/dlio/history.py"
                              % function)


class TestTold(unittest.TestCase):
    """The line about DLIO's lists takes whatever a plug-in has put there."""

    def test_any(self):
        for files in None, [], ["a"], numpy.arange(3), object():
            benchmark._tell(types.SimpleNamespace(file_list_train=files, file_list_eval=files))
        benchmark._tell(object())


class Pretender:
    """As wrapt's: it tells of everything what the function tells."""

    def __init__(self, function):
        self.__wrapped__ = function

    def __getattr__(self, name):
        return getattr(self.__wrapped__, name)


class TestWhatRuns(unittest.TestCase):
    """benchmark.changes_in()."""

    def changes(self):
        return benchmark.changes_in(dlio.tree, dlio.family, dlio_main)

    def test_as_it_was(self):
        self.assertIsNone(self.changes())

    def test_every_function(self):
        """Wrapped, replaced, with another code, or taken back from us: each is told by its name."""
        tried = 0
        for file, functions in dlio.family.known.items():
            try:
                module = dlio_main if file == "main.py" else importlib.import_module(
                    "dlio_benchmark." + file[:-3].replace("/", "."))
            except ImportError:  # of DALI, which is not installed here
                continue
            for function in functions:
                name, _, method = function.partition(".")
                cls, tried = vars(module)[name], tried + 1
                own = vars(cls)[method]
                inside = wrapped(own)  # by code that lies in DLIO's package
                inside = types.FunctionType(inside.__code__, {"__name__": "dlio_benchmark.utils.utility"},
                                            closure=inside.__closure__)
                inside.__wrapped__ = own
                for other_one in (wrapped(own), lambda *args, **kwargs: None, inside,
                                  Pretender(own)):
                    with replaced(cls, method, other_one):
                        self.assertIn(function, self.changes() or "")
                bare = recognise.unwrapped(own)
                if own.__module__.startswith("_libshard"):
                    with replaced(cls, method, bare):
                        self.assertIn(function, self.changes() or "")
                code = bare.__code__
                bare.__code__ = code.replace(co_consts=code.co_consts + ("another",))
                try:
                    self.assertIn(function, self.changes() or "")
                finally:
                    bare.__code__ = code
        self.assertGreater(tried, 10)
        self.assertIsNone(self.changes())

    def test_never_asked(self):
        """Where nothing is patched that could ask later, it is said at once."""
        said = []

        class Bench:
            """As DLIOBenchmark; in a module that nobody finds."""

            def __init__(self):
                config.LoadConfig(config.ConfigArguments.get_instance(), {})

        with replaced(benchmark, "say", lambda *text: said.append(text)):
            Bench()
            self.assertEqual(said, [])
            with replaced(dlio_main, "DLIOBenchmark", Bench):
                Bench()
                config.LoadConfig(config.ConfigArguments.get_instance(), {})  # by who has no benchmark
            own = vars(config.ConfigArguments)["reconfigure"]
            with replaced(config.ConfigArguments, "reconfigure", wrapped(own)):
                with replaced(compressing, "patches", lambda loaders: {}):  # it would stay
                    dlio._patch(config, "dlio_benchmark.utils.config")
        self.assertEqual([what for what, _ in said], [benchmark.LISTED] * 2)
        self.assertRegex(said[0][1], "cProfile")
        self.assertRegex(said[1][1], "ConfigArguments.reconfigure is not the function that ")

    def test_every_name(self):
        """Functions of Python and numpy that DLIO lists with."""
        for owner, name in ((os, "listdir"), (glob, "glob"), (builtins, "sorted"), (builtins, "len"),
                            (os, "scandir"), (glob, "iglob"), (fnmatch, "filter"), (os, "lstat"),
                            (builtins, "range"), (os.path, "join"), (os.path, "abspath"),
                            (numpy, "argsort"), (numpy.random, "shuffle"), (numpy.random, "seed"),
                            (numpy, "arange"), (config.math, "ceil")):
            own = getattr(owner, name)
            for other_one in (wrapped(own) if not isinstance(own, type) else type(name, (), {}),
                              functools.partial(own)):
                with replaced(owner, name, other_one):
                    self.assertIn(name, self.changes() or "", name)
        pretender = functools.update_wrapper(type("R", (), {}), range, updated=())
        with replaced(builtins, "range", pretender):
            self.assertIn("range", self.changes() or "")
        for owner, name, other_one in ((os, "path", types.ModuleType("posixpath")),
                                       (numpy, "random", types.SimpleNamespace(**vars(numpy.random))),
                                       (numpy, "argsort", numpy.vectorize(len)),
                                       (numpy.random, "shuffle", numpy.random.RandomState(3).shuffle),
                                       (numpy.random, "shuffle", numpy.random.default_rng(3).shuffle),
                                       (glob, "os", types.SimpleNamespace(**vars(os))),
                                       (glob, "os", types.ModuleType("os")),
                                       (glob, "fnmatch", types.ModuleType("other"))):
            with replaced(owner, name, other_one):
                self.assertIn(name, self.changes() or "", name)
        self.assertIsNone(self.changes())

    def test_names_of_modules(self):
        """A module's own names come before Python's; not all versions use numpy in both modules."""
        for module, name, file in ((dlio_main, "len", "main.py"), (dlio_main, "sorted", "main.py"),
                                   (config, "range", "utils/config.py"), (file_storage, "os", "storage/file_storage.py"),
                                   (file_storage, "glob", "storage/file_storage.py"),
                                   (dlio_main, "np", "main.py"), (config, "np", "utils/config.py")):
            if name == "np" and not is_used(name, file):
                continue
            before = vars(module).get(name)
            vars(module)[name] = lambda *args: None
            try:
                self.assertIn(name, self.changes() or "", name)
            finally:
                del vars(module)[name]
                if before is not None:
                    vars(module)[name] = before
        self.assertIsNone(self.changes())

    def test_objects(self):
        """A method of an object's own."""
        args, storage = (kind.__new__(kind) for kind in (config.ConfigArguments,
                                                         file_storage.FileStorage))
        one = dlio_main.DLIOBenchmark.__new__(dlio_main.DLIOBenchmark)
        one.args, one.storage = args, storage
        run = benchmark.Run(one, recognise.unwrapped(dlio_main.DLIOBenchmark.initialize), lambda *_: None)
        self.assertIsNone(run.changed())
        for owner, attribute in ((args, "derive_configurations"), (storage, "walk_node"),
                                 (one, "initialize")):
            setattr(owner, attribute, lambda *args: [])
            self.assertIn(attribute, run.changed())
            delattr(owner, attribute)
        for owner in (args, storage, one):  # a class that a plug-in has made of DLIO's
            own = type(owner)
            owner.__class__ = type("Mine", (own,), {"__module__": "plugin"})
            self.assertIn("Mine", run.changed())
            owner.__class__ = own
        with replaced(config.ConfigArguments, "__getattr__", lambda *_: None, new=True):
            self.assertIn("computed", run.changed())
        self.assertIsNone(run.changed())

    def test_classes_of_dlio(self):
        """A class that DLIO's package has made of a known one, and that has its own version of a known
        function."""
        for kind, name in ((config.ConfigArguments, "derive_configurations"), (file_storage.FileStorage, "get_uri"),
                           (dlio_main.DLIOBenchmark, "initialize")):
            for more, said in ({name: lambda *_: None}, name), ({"another": lambda *_: None}, None):
                made = type("Site", (kind,), {"__module__": "dlio_benchmark.utils.site", **more})
                for one in made, type("Below", (made,), {}):
                    told = benchmark.changes_in(dlio.tree, dlio.family, dlio_main, object(), one.__new__(one))
                    self.assertEqual(told and told.split()[0], said and "Site." + said)

    def test_later(self):
        """What is replaced after initialize() has listed."""
        files = pair()[1]
        with replaced(benchmark, "_changes", self.changes):
            self.assertTrue(benchmark.served(files))
            for owner, name in ((os.path, "abspath"), (numpy, "arange")):
                with replaced(owner, name, wrapped(getattr(owner, name))), replaced(
                        benchmark, "say", lambda *_: None):
                    self.assertFalse(benchmark.served(files))

    def test_what_others_change(self):
        """What is wrapped to look at a program, and lists do not depend on."""
        for owner, name in ((builtins, "print"), (builtins, "open"), (os, "getpid"), (random, "shuffle")):
            with replaced(owner, name, wrapped(getattr(owner, name))):
                self.assertIsNone(self.changes(), name)

    def test_genuine(self):
        """All that is relied upon, by itself; and what is another object's."""
        for module, names in genuine.RELIED.items():
            owner, there = importlib.import_module(module), 0
            for name in names.split():
                if hasattr(owner, name):
                    self.assertTrue(genuine.is_genuine(getattr(owner, name), owner, name), (module, name))
                    there += 1
            self.assertGreater(there, 2)
        for name in genuine.BUILTINS:
            self.assertTrue(genuine.is_genuine(getattr(builtins, name), builtins, name), name)
        for one in numpy.random.RandomState(3), numpy.random.default_rng(3):
            self.assertFalse(genuine.is_genuine(one.shuffle, numpy.random, "shuffle"))

    def test_all_that_is_used(self):
        """Each name of os, glob, math and numpy that DLIO's functions use is relied upon, or known not to matter."""
        harmless = {"close", "getenv", "environ", "getpid", "makedirs", "name", "open", "replace", "remove", "input", "info",
                    "format", "indices", "size", "split", "uint8", "random", "sum", "Exception", "issubclass", "print", "Generator", "cpu_count", "prod",
                    "iter", "get", "copy", "index", "core", "add", "average"}
        used = set()
        for file, functions in dlio.family.known.items():
            module = dlio_main if file == "main.py" else sys.modules.get(recognise.module_of(file))
            for function in functions if module else ():
                code = dlio.tree.runs(module, file, function).__code__
                used |= {name for one in (code, *genuine.inside(code)) for name in one.co_names}
        for module in "os", "posixpath", "glob", "math", "numpy", "numpy.random":
            own = vars(importlib.import_module(module)).keys()
            self.assertEqual(used & own - set(genuine.RELIED[module].split()) - harmless, set(), module)
