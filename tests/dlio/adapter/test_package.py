"""The package: how it gets in, how it shows itself, and what workers unpickle."""
import glob
import json
import os
import pickle
import shutil
import traceback
import unittest

import _libshard

from .plain import FEW, REPO, WORK, data, run_python, touch

PYTHON = os.path.join(REPO, "shim", "adapter")


class TestModules(unittest.TestCase):
    """The modules that libshard.so holds."""

    def test_embedded(self):
        """All files, as they are, and the one that is made of C's declarations."""
        files = {os.path.relpath(path, PYTHON): path
                 for path in glob.glob(os.path.join(PYTHON, "**", "*.py"), recursive=True)}
        files["contract.py"] = os.path.join(os.path.dirname(_libshard.LIBRARY), "gen", "adapter", "contract.py")
        self.assertGreater(len(files), 10)
        self.assertEqual(set(_libshard.SOURCES), set(files))
        for file, path in files.items():
            with open(path, encoding="utf-8") as stream:
                self.assertEqual(_libshard.SOURCES[file], stream.read(), file)

    def copied(self, name):
        """Another copy of libshard.so, with its shardctl: its folder."""
        folder = os.path.join(WORK, name)
        os.makedirs(folder)
        for file in "libshard.so", "shardctl":
            shutil.copy(os.path.join(os.path.dirname(_libshard.LIBRARY), file), folder)
        return folder

    def test_two_copies(self):
        """Of two that are preloaded one serves: neither shows DLIO a share."""
        other = os.path.join(self.copied("other"), "libshard.so")
        for copies in (other, _libshard.LIBRARY), (_libshard.LIBRARY, other):
            said, warned = run_python(
                "import os\n"
                "before = len(os.listdir(%r)); import dlio_benchmark; print(before, len(os.listdir(%r)))" % (
                    (data(FEW),) * 2), env={"LD_PRELOAD": ":".join(copies), "SHARD_DATASET": data(FEW),
                                            "SHARD_RANK": "1", "SHARD_SIZE": "4"})
            self.assertEqual((said, warned), ("%d %d\n" % (FEW // 4, FEW), ""))

    def test_installed_anew(self):
        """Python's part talks to the library that is loaded, though another one lies at its path by now."""
        real, link = self.copied("real"), os.path.join(WORK, "current")
        os.symlink(real, link)
        said, warned = run_python(
            "import os, shutil\n"
            "path = %r; shutil.copy(path, path + '.new'); os.rename(path + '.new', path)\n"
            "import dlio_benchmark, _libshard\n"
            "print(len({line.split()[4] for line in open('/proc/self/maps') if 'libshard.so' in line}))"
            % os.path.join(real, "libshard.so"), env={"LD_PRELOAD": os.path.join(link, "libshard.so")})
        self.assertEqual((said, warned), ("1\n", ""))

    def test_tracebacks(self):
        """They name the embedded file and show its line, in sub-packages, too."""
        from _libshard import sequences
        from _libshard.dlio import argonne

        for file, call, line in (
                ("sequences.py", lambda: sequences.SampleMap((), 0, 0, 1)[None],
                 "raise KeyError(sample)"),
                ("dlio/argonne.py", lambda: argonne.absolute(None, None, None),
                 "return files.absolute()"),
                ("__init__.py", lambda: _libshard.Importer.exec_module(None),
                 "cls.show(module.__spec__)")):
            with self.subTest(file):
                try:
                    call()
                    self.fail("no exception")
                except (AttributeError, KeyError, TypeError):
                    told = traceback.format_exc()
                self.assertIn('File "<libshard %s>", line ' % file, told)
                self.assertIn("    %s\n" % line, told)

    def test_importer_does_not_stay(self):
        """Once started, all modules are there but those of buckets, and only the finder of patches stays."""
        said, warned = run_python(
            "import sys; before = list(sys.meta_path)\n"
            "import dlio_benchmark, _libshard\n"
            "added = [x for x in sys.meta_path if x not in before]\n"
            "print([type(x).__name__ for x in added], sys.meta_path[0] is added[0],\n"
            "      all('_libshard.' + f[:-3].replace('/', '.').replace('.__init__', '')\n"
            "          in sys.modules for f in _libshard.SOURCES if f != '__init__.py'\n"
            "          and not f.startswith('buckets/')),\n"
            "      not any('buckets' in m for m in sys.modules\n"
            "              if m.startswith('_libshard')),\n"
            "      _libshard.family())")
        self.assertEqual((said, warned), ("['Finder'] True True True %s\n" % _libshard.family(),
                                          ""))

    def test_not_for_others(self):
        """A Python that imports no DLIO runs no code of ours."""
        said, warned = run_python(
            "import json, multiprocessing, sys\n"
            "for name in '_libshards', 'dlio_benchmarks', 'dlio', 'botocore', 's3fs':\n"
            "    try: __import__(name)\n"
            "    except ImportError: pass\n"
            "print([m for m in sys.modules if m.startswith('_libshard')])")
        self.assertEqual((said, warned), ("[]\n", ""))


class TestPatching(unittest.TestCase):
    """How names are replaced."""

    def test_lent(self):
        """A name is there all the time, and what it was afterwards, also where the block fails."""
        class Scope(dict):
            """A module's, that tells which names were missing for a while."""

            def __delitem__(self, name):
                gone.append(name)
                super().__delitem__(name)

        for fails in False, True:
            gone, scope = [], Scope(np=1)
            try:
                with _libshard.patching.lent(scope, np=2, more=3):
                    self.assertEqual(scope, {"np": 2, "more": 3})
                    if fails:
                        raise KeyError
            except KeyError:
                self.assertTrue(fails)
            self.assertEqual((scope, gone), ({"np": 1}, ["more"]))


class TestUnpickling(unittest.TestCase):
    """A worker's first import may be any module of the package."""

    def test_first_import(self):
        """Each class that is pickled, alone in a new process that has not imported DLIO."""
        from _libshard import mapped_listing as listing, sequences, shuffles
        import numpy

        folder = data(FEW)
        names = listing.Listing.of_dataset(folder, "order=path depth=1 include=*npz")
        files = sequences.FileList(names, folder + "/")
        random = numpy.random.RandomState(1)
        order = shuffles.Permutation.shuffled(5, None, random)
        state = random.get_state()
        numbers = sequences.Indices(3, 9)
        shuffled = sequences.Indices(3, 8, order)
        opened = sequences.OpenFiles()
        opened[files[3]] = 5
        cases = (names, files, files[2:9:3], order, numbers, shuffled,
                 sequences.SampleMap(files, 2, 8, 3),
                 sequences.NumpySampleMap(files, 2, 8, 3),
                 sequences.NumpySampleMap(files, 2, 8, 3, state),
                 opened)
        show = ("lambda x: repr(x.count if hasattr(x, 'file') and hasattr(x, 'digest') else"
                " x.indices.tolist() if hasattr(x, 'indices') else"
                " list(x.items()) if hasattr(x, 'items') else list(x))")
        code = ("import pickle, sys\n"
                "value = pickle.load(sys.stdin.buffer)\n"
                "print(type(value).__module__, type(value).__qualname__, (%s)(value),\n"
                "      'dlio_benchmark' in sys.modules)" % show)
        for value in cases:
            with self.subTest(repr(value)):
                said, warned = run_python(code, data_in=pickle.dumps(value))
                kind = type(value)
                expected = eval(show)(value)  # pylint: disable=eval-used
                self.assertEqual(said, "%s %s %s False\n" % (
                    kind.__module__, kind.__qualname__, expected))
                self.assertEqual(warned, "")
                self.assertTrue(kind.__module__.startswith("_libshard."))

    def test_each_module(self):
        """Each module can be the first that is imported."""
        for file in _libshard.SOURCES:
            module = ("_libshard." + file[:-len(".py")].replace("/", ".")).replace(".__init__", "")
            with self.subTest(module):
                said, warned = run_python(
                    "import sys, %s\nprint(sys.modules[%r].__spec__.origin,"
                    " 'dlio_benchmark' in sys.modules)" % (module, module))
                self.assertEqual((said, warned), ("<libshard %s> False\n" % file, ""))


class TestPackages(unittest.TestCase):
    """A DLIO that is not known, and none."""

    STUB = {"__init__.py": "", "main.py": "", "storage/__init__.py": "",
            "storage/file_storage.py": "class FileStorage:\n    def walk_node(self): pass\n",
            "utils/__init__.py": "",
            "utils/config.py":
                "class ConfigArguments:\n    def derive_configurations(self): pass\n"
                "    def reconfigure(self, epoch): pass\n"}

    def test_unknown(self):
        folder = os.path.join(WORK, "stub")
        for name, text in self.STUB.items():
            path = os.path.join(folder, "dlio_benchmark", name)
            touch(path)
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)
        said, warned = run_python(
            "import sys; before = list(sys.meta_path)\n"
            "import dlio_benchmark.main, dlio_benchmark.utils.config as c\n"
            "import dlio_benchmark.storage.file_storage as f, _libshard\n"
            "print(f.__file__.startswith(%r), _libshard.family(), sys.meta_path[1:] == before,\n"
            "      hasattr(c.ConfigArguments.derive_configurations, '__wrapped__'),\n"
            "      hasattr(f.FileStorage.walk_node, '__wrapped__'))" % folder,
            env={"PYTHONPATH": folder})
        self.assertEqual(said, "True None True False False\n")
        self.assertEqual(len(warned.splitlines()), 1, warned)
        self.assertIn("DLIO runs unmodified, and its lists are compressed", warned)
        self.assertIn("is not a version known to libshard", warned)

    def test_buckets_broken(self):
        """Where clients of buckets cannot be patched none is imported, at the second try neither."""
        said, warned = run_python(
            "import _libshard\n"
            "_libshard.SOURCES['buckets/__init__.py'] = 'raise ValueError(\"broken\")'\n"
            "for _ in range(2):\n"
            "    try:\n        import ssl\n        print('imported')\n"
            "    except (ValueError, ImportError) as error:\n        print(error)",
            env={"SHARD_DATASET": "s3://bucket/train", "SHARD_RANK": "0", "SHARD_SIZE": "2"})
        self.assertEqual(said, "broken\nlibshard could not start before: ValueError: broken\n")
        self.assertEqual(warned.count("cannot be divided"), 2)

    def test_buckets_begun_elsewhere(self):
        """While a thread starts libshard, a second one waits, and a process that is forked imports no client."""
        said, warned = run_python(
            "import os, threading, _libshard\n"
            "began, go, text = threading.Event(), threading.Event(), _libshard.SOURCES['buckets/unlisted.py']\n"
            "_libshard.SOURCES['buckets/unlisted.py'] = ('import __main__\\n__main__.began.set()\\n'\n"
            "                                         '__main__.go.wait()\\n' + text)\n"
            "def client():\n    import ssl\n"
            "first = threading.Thread(target=client)\nfirst.start()\nbegan.wait()\n"
            "pid = os.fork()\n"
            "if pid == 0:\n"
            "    try:\n        import ssl\n        os.write(1, b'imported\\n')\n"
            "    except ImportError as error:\n        os.write(1, str(error).encode() + b'\\n')\n"
            "    os._exit(0)\n"
            "os.waitpid(pid, 0)\n"
            "threading.Timer(0.2, go.set).start()\n"
            "import ssl\nprint(_libshard.BEGUN)\nfirst.join()",
            env={"SHARD_DATASET": "s3://bucket/train", "SHARD_RANK": "0", "SHARD_SIZE": "2"})
        self.assertEqual(said, "this process was forked while another thread started libshard\n"
                         "{'dlio': True, 'buckets': True}\n", warned)

    def test_absent(self):
        """A program that only tries to import DLIO keeps its shard view."""
        folder, shares = data(FEW), []
        for rank in range(4):
            said, warned = run_python(
                "import json, os\n"
                "a = os.listdir(%r)\n"
                "try:\n    import dlio_benchmark\n    raise SystemExit('it is there')\n"
                "except ImportError: pass\n"
                "print(json.dumps([a, os.listdir(%r)]))" % (folder, folder), "-S",
                env={"SHARD_DATASET": folder, "SHARD_RANK": str(rank), "SHARD_SIZE": "4"},
                unset=("PYTHONPATH",))
            before, after = json.loads(said)
            self.assertEqual((sorted(before), warned), (sorted(after), ""))
            self.assertEqual(len(after), FEW // 4)
            shares += after
        self.assertEqual(sorted(shares), sorted(os.listdir(folder)))
