"""Which helpers a proof looks at, and what is not proven because nobody can look at it."""
import ast
import os
import random
import re
import shutil
import sys
import types
import unittest
import unittest.mock

from _libshard import dlio, recognise
from _libshard.parts import benchmark

from .plain import WORK, proofs

reach, shapes, runs = proofs("reach"), proofs("shapes"), proofs("runs")
ROOT = "main.py", "Benchmark.initialize"
HELPER = "def paths(names):\n    return list(names)\n"


def tree(name, main, call="paths([])", **files):
    """A tree whose initialize() makes a call; main: what its module begins with."""
    folder = os.path.join(WORK, "reach", name)
    texts = {"main.py": main + "\nclass Benchmark:\n    def initialize(self):\n        return %s\n" % call,
             "utils/__init__.py": "", **{file.replace("__", "/").replace("dunder", "__init__") + ".py": text for file, text in files.items()}}
    for file, text in texts.items():
        path = os.path.join(folder, file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(text if isinstance(text, bytes) else text.encode())
    return recognise.Tree(folder)


class TestBlindSpots(unittest.TestCase):
    """What a function depends on that no list which is tried can show."""

    def spots(self, body, main="", made="", config="MOST = 9"):
        """Of a method whose __init__ is `made`, in a module that begins with `main`."""
        text = "%s\nclass B:\n    def __init__(self):\n        pass\n%s    def f(self, files):\n        %s\n" % (
            main, "        %s\n" % made if made else "", body)
        one = tree("spots", text, utils__config=config)
        nodes = recognise.functions(ast.parse(shapes.text_of(one, "main.py")))
        return shapes.blind_spots(nodes["B.f"], {"known"}, (), shapes.taken_over(nodes, "B"), one.literals("main.py"))

    def test_found(self):
        """By whatever name it is called."""
        for body, more in (("return self.args.odd", {}), ("return self.args.known and self._args.odd", {}),
                           ("return getattr(self.args, 'odd', 1)", {}), ("return getattr(self.args, files[0], 1)", {}),
                           ("own = self.args\n        return own.odd", {}),
                           ("own = ConfigArguments.get_instance()\n        return own.odd", {}),
                           ("return ConfigArguments.get_instance().odd", {}),
                           ("own, n = self.args, 1\n        return own.odd", {}),
                           ("own: B = self.args\n        return own.odd", {}),
                           ("return own.odd if (own := self.args) else files", {}),
                           ("return vars(self.args)['odd']", {}),
                           ("return self.cfg.odd", {"made": "self.cfg = ConfigArguments.get_instance()"}),
                           ("return self.mine", {"made": "self.mine = self.args.odd == 1"}),
                           ("return self.mine", {"made": "self.mine, n = self.args.odd, 1"}),
                           ("return getattr(self, 'mine')", {"made": "self.mine = [self.args.odd]"}),
                           ("return len(files) > 5000", {}), ("return len(files) > MANY", {"main": "MANY = 5000"}),
                           ("return len(files) > MOST", {"main": "from dlio_benchmark.utils.config import MOST",
                                                         "config": "MOST = 5000"}),
                           ("return len(files) > config.MOST", {"main": "from dlio_benchmark.utils import config",
                                                                "config": "MOST: int = 5000"}),
                           ("return len(files) > self.MANY", {"main": "class A:\n    MANY = 5000"}),
                           ("return os.environ.get('ODD')", {}), ("return environ.get('ODD')", {}),
                           ("return getenv('ODD')", {}),
                           ("return [one for one in files if os.path.getsize(one)]", {}),
                           ("return [one for one in files if getsize(one)]", {}),
                           ("return [one for one in files if Path(one).stat().st_size]", {}),
                           ("return [os.path.realpath(one) for one in files]", {}),
                           ("return [one for one in files if not os.path.islink(one)]", {}),
                           ("return open(files[0]).read()", {}), ("return io.open(files[0]).read()", {}),
                           ("return Path(files[0]).read_text()", {}), ("return os.uname().nodename", {}),
                           ("return files[self.mpi.nnodes():]", {})):
            self.assertTrue(self.spots(body, **more), body)

    def test_none(self):
        """What a proof tries, and what DLIO's own functions do."""
        for body, more in (("return self.args.known", {}), ("return getattr(self.args, 'known')", {}),
                           ("return self.mine", {"made": "self.mine = self.args.known"}),
                           ("return self.mine", {"made": "self.mine = len(self.name)"}),
                           ("return self.cfg.known", {"made": "self.cfg = ConfigArguments.get_instance()"}),
                           ("return len(files) > MOST", {"main": "from dlio_benchmark.utils.config import MOST"}),
                           ("return len(files) > MOST", {"main": "MOST = 2000"}),
                           ("return self.open(files[0])", {}), ("return self.stats", {}),
                           ("return [os.path.abspath(one) for one in files if one.endswith('npz')]", {}),
                           ("logging.info(f'{self.args.odd}')\n        return files", {})):
            self.assertEqual(self.spots(body, **more), [], body)


class TestCompared(unittest.TestCase):
    """The lists that DLIO makes, unmodified and under libshard."""

    def test_lazy(self):
        """One that is cut down to no file is nobody's; of the others half must be libshard's."""
        def results(kind, *lists):
            return {str(i): [{"type": kind if files else "builtins", "epochs": [[files, []]]}]
                    for i, files in enumerate(lists)}

        cases = [{"name": str(i), "about": {}} for i in range(4)]
        few, many = (["a"], [], [], []), (["a"], ["b"], ["c"], [])
        for lists in few, many:
            runs.compare_lists(cases, results("builtins", *lists), results("_libshard", *lists))
            with self.assertRaises(runs.Differs):
                runs.compare_lists(cases, results("builtins", *lists), results("builtins", *lists))


    def test_formats(self):
        """Each of DLIO's formats has its lists, on the fewest that are made."""
        formats = shapes.members(dlio.tree, "FormatType")
        self.assertLess({"jpeg", "npz", "csv", "hdf5"}, set(formats))
        folder = os.path.join(WORK, "reach", "layouts")
        layouts = runs.make_layouts(folder, random.Random(1), formats)
        made = {(case["options"]["dataset.format"], bool(case["options"]["dataset.num_subfolders_train"]))
                for case in runs.list_cases(layouts, folder, WORK, ["pytorch"], 2, 64, random.Random(2))}
        self.assertEqual({(fmt, folders) for fmt in formats for folders in (False, True)}, made)


class TestReach(unittest.TestCase):
    """By what they are named."""

    def test_found(self):
        """Wherever a helper lies."""
        for i, (main, call, files, found) in enumerate((
                ("from dlio_benchmark.utils.own import paths", "paths([])", {"utils__own": HELPER}, "utils/own.py"),
                ("from .utils.own import paths as p", "map(p, [])", {"utils__own": HELPER}, "utils/own.py"),
                ("from dlio_benchmark.utils import own", "own.paths([])", {"utils__own": HELPER}, "utils/own.py"),
                ("import dlio_benchmark.utils.own as o", "o.paths([])", {"utils__own": HELPER}, "utils/own.py"),
                ("from dlio_benchmark.own import paths", "paths([])", {"own__dunder": HELPER}, "own/__init__.py"),
                ("from dlio_benchmark.utils.own import paths", "paths([])",
                 {"utils__own": "import functools\n@functools.lru_cache\n" + HELPER}, "utils/own.py"),
                ("from dlio_benchmark.utils.own import paths", "paths([])",
                 {"utils__own": b"# coding: latin-1\n# \xe9\n" + HELPER.encode()}, "utils/own.py"),
                (HELPER, "paths([])", {}, "main.py"))):
            one = tree("found%d" % i, main, call, **files)
            self.assertEqual(reach.Reach(one, {}).of([ROOT]), {found: ["paths"]}, main)

    def test_methods(self):
        """Of a class of its own, and of those that a class is made of."""
        own = "class N:\n    def paths(self):\n        return self.more()\n    def more(self):\n        return []\n"
        one = tree("methods", "from dlio_benchmark.utils.own import N", "N().paths()", utils__own=own)
        self.assertEqual(reach.Reach(one, {}).of([ROOT]), {"utils/own.py": ["N.more", "N.paths"]})
        one = tree("bases", "from dlio_benchmark.utils.own import N", "self.paths()", utils__own=own)
        with open(one.path("main.py"), "r+", encoding="utf-8") as stream:
            text = stream.read().replace("class Benchmark:", "class Benchmark(N):")
            stream.seek(0)
            stream.write(text)
        self.assertEqual(reach.Reach(one, {}).of([ROOT]), {"utils/own.py": ["N.more", "N.paths"]})

    def test_unseen(self):
        """What cannot be looked at is named."""
        helper = "from dlio_benchmark.utils.own import paths"
        for i, (main, call, own) in enumerate((
                ("from dlio_benchmark.utils.own import *", "paths([])", HELPER),
                ("import dlio_benchmark.utils.own", "dlio_benchmark.utils.own.paths([])", HELPER),
                ("from somebody_else import paths", "paths([])", HELPER),
                ("from dlio_benchmark.utils.none import paths", "paths([])", HELPER),
                (helper + "\n" + HELPER, "paths([])", HELPER),
                (helper, "paths([])", "try:\n    def paths(names):\n        return names\nfinally:\n    pass\n"),
                (helper, "paths([])", "def other(names):\n    return names\npaths = other\n"),
                (helper, "paths([])", "import os\nDROP = os.environ.get('DROP')\ndef paths(names):\n"
                 "    return [name for name in names if name != DROP]\n"))):
            one = tree("unseen%d" % i, main, call, utils__own=own)
            self.assertRaises(reach.Unseen, reach.Reach(one, {}).of, [ROOT])

    def test_digest(self):
        """Of all that an import may find, behind links, too."""
        one = tree("digest", HELPER, utils__own=HELPER)
        seen = {one.digest()}
        outside = os.path.join(WORK, "reach-outside")
        os.makedirs(outside)
        os.symlink(outside, one.path("linked"))
        os.symlink("/nowhere", one.path(".#main.py"))
        os.symlink("..", one.path("utils/up"))
        for path in (one.path("utils/own.py"), os.path.join(outside, "x.py"), one.path("y.pyc"),
                     one.path("z.abi3.so")):
            with open(path, "a", encoding="utf-8") as stream:
                stream.write("\n")
            seen.add(one.digest())
        self.assertEqual(len(seen), 5)

    def test_replaced(self):
        """What stands in the place of a helper, or of a literal, that a function uses."""
        one = tree("replaced", HELPER + "DROP = 'a'\n", "[paths(name) for name in DROP]")
        module = types.ModuleType("dlio_benchmark.main")
        with open(one.path("main.py"), encoding="utf-8") as stream:
            exec(compile(stream.read(), "main.py", "exec"), vars(module))  # pylint: disable=exec-used
        running = [module.Benchmark.initialize]
        before = sys.modules.get(module.__name__)
        sys.modules[module.__name__] = module
        try:
            self.assertIsNone(benchmark._replaced(one, running))
            for name, value in (("paths", lambda names: []), ("paths", unittest.mock.MagicMock()),
                                ("DROP", "b"), ("DROP", b"a")):
                own = vars(module)[name]
                vars(module)[name] = value
                self.assertEqual(benchmark._replaced(one, running), name)
                vars(module)[name] = own
            self.assertIsNone(benchmark._replaced(one, running))
            module.__name__ = "dlio_benchmark.utils"  # of an __init__.py
            vars(module)["DROP"] = "b"
            sys.modules[module.__name__] = module
            self.assertIsNone(benchmark._replaced(one, running))
        finally:
            sys.modules.update({module.__name__: before} if before else {})


class TestWritten(unittest.TestCase):
    """What a proof is written of."""

    def test_changed_meanwhile(self):
        """The tree that was tried, and no other one."""
        main, edit, tried = proofs("main"), [False], []
        copy = os.path.join(WORK, "reach", "meanwhile")
        shutil.copytree(dlio.tree.folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
        with open(os.path.join(copy, "utils", "config.py"), "r+", encoding="utf-8", newline="") as stream:
            text = re.sub(r"(def get_global_map_index.*\n)", r"\1        changed = True\n", stream.read())
            stream.seek(0)
            stream.write(text)

        def one(self, family, changed):
            self.trust(family, changed)
            tried.append(self.tree.digest())
            if edit[0]:
                with open(os.path.join(copy, "utils", "own.py"), "w", encoding="utf-8"):
                    pass
            return {"lists": 1}

        with unittest.mock.patch.object(main.Prover, "one", one), unittest.mock.patch.object(
                dlio, "_locate", lambda: copy):
            for edit[0] in True, False:
                prover = main.Prover({"again": False})
                prover.target, prover.scratch = os.path.join(WORK, "reach", "known.json"), WORK
                if edit[0]:
                    with self.assertRaisesRegex(main.Fault, "changed meanwhile"):
                        prover.prove()
                    self.assertFalse(os.path.exists(prover.target))
                else:
                    self.assertEqual(prover.prove()["result"], "proven")
                    proof, = main.known.read(prover.target)
                    self.assertEqual((proof["package"], proof["evidence"]), (tried[-1], {"lists": 1}))
