"""What is recognised is what runs: every change of a function changes its fingerprint, and what stands
in its place when DLIO runs is noticed."""
import functools
import importlib
import io
import re
import tokenize
import types
import unittest

import dlio_benchmark.main as dlio_main
import dlio_benchmark.utils.config as config
import numpy
from _libshard import compressing, dlio, recognise
from _libshard.parts import benchmark
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
        for file, functions in dlio.family.fingerprints.items():
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
        for file, functions in dlio.family.fingerprints.items():
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

    def test_objects(self):
        """A class that a plug-in has made of DLIO's."""
        args, storage = (kind.__new__(kind) for kind in (config.ConfigArguments,
                                                         file_storage.FileStorage))
        one = dlio_main.DLIOBenchmark.__new__(dlio_main.DLIOBenchmark)
        one.args, one.storage = args, storage
        run = benchmark.Run(one, recognise.unwrapped(dlio_main.DLIOBenchmark.initialize), lambda *_: None)
        self.assertIsNone(run.changed())
        for owner in (args, storage, one):
            own = type(owner)
            owner.__class__ = type("Mine", (own,), {"__module__": "plugin"})
            self.assertIn("Mine", run.changed())
            owner.__class__ = own
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
            own = vars(config.ConfigArguments)["get_global_map_index"]
            with replaced(config.ConfigArguments, "get_global_map_index", wrapped(own)), replaced(
                    benchmark, "say", lambda *_: None):
                self.assertFalse(benchmark.served(files))
