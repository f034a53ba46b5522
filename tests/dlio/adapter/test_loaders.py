"""The sampler's indices and the readers' map of open files."""
import importlib
import os
import pkgutil
import sys
import tempfile

from _libshard.parts import loaders

from .case import Case, at, cases, sequences, short
from .plain import WORK


class TestLoaders(Case):
    """The sampler's indices and the readers' map of open files."""

    def test_sampler(self):
        for i in range(200):
            at.begin("sampler", i)
            with short(4 if i % 2 else 1 << 14):
                sampler = cases.sampler(at)
        self.assertIs(type(sampler.indices), sequences.Indices)

    def test_open_files(self):
        """A reader opens and closes the same; only the keys of closed files are not kept."""
        read = 0
        for i in range(60):
            at.begin("reader", i)
            reader = cases.reader(at)
            if reader is not None:  # it has not failed, as DLIO's
                self.assertIs(type(reader.open_file_map), sequences.OpenFiles)
                self.assertNotIn(None, reader.open_file_map.values())
                read += 1
        self.assertGreater(read, 30)

    def made_of(self, text):
        """Own, of a module of this text."""
        folder = tempfile.mkdtemp(dir=WORK)
        name = "own_reader_%s" % os.path.basename(folder)
        with open(os.path.join(folder, name + ".py"), "w", encoding="utf-8") as file:
            file.write("from dlio_benchmark.reader.reader_handler import FormatReader\n\n\n" + text)
        sys.path.insert(0, folder)
        try:
            return importlib.import_module(name).Own
        finally:
            sys.path.remove(folder)

    def test_readers_that_tell_closed_files(self):
        """A reader for which a closed file is another thing than one it has not opened keeps a dict."""
        from dlio_benchmark.reader import reader_handler

        ways = {"a not in self.open_file_map or self.open_file_map[a] is None": True,
                "self.open_file_map.get(a) is None": True, "self.open_file_map.clear()": True,
                "a not in self.open_file_map or self.open_file_map[a] is None or b": True,
                "b or a in self.open_file_map and self.open_file_map[a] is not None": True,
                "self.open_file_map.get(a, 0)": True,
                "a in self.open_file_map and self.open_file_map[a] is None": False,
                "a not in self.open_file_map or self.open_file_map[a] is not None": False,
                "a not in self.open_file_map or self.open_file_map[a] is b": False,
                "a not in self.open_file_map or self.open_file_map[b] is None": False,
                "self.open_file_map.get(a, self) is None": False, "getattr(self, 'open_file_map')": False,
                "a not in self.open_file_map": False, "self.open_file_map.pop(a)": False,
                "a not in self.open_file_map or b is None": False, "list(self.open_file_map)": False,
                "len(self.open_file_map)": False, "self.open_file_map.setdefault(a, 1)": False,
                "try:\n            self.open_file_map[a] = b\n        except OSError:\n            pass": True,
                "try:\n            return self.open_file_map[a]\n        except KeyError:\n            pass": False}
        for way, forgets in ways.items():
            own = self.made_of("class Own(FormatReader):\n    def open(self, a, b=None):\n        %s%s\n"
                               % ("" if "\n" in way else "return ", way))
            self.assertIs(loaders._forgets_closed(own), forgets, way)
        own = self.made_of("class Own(FormatReader):\n    def open(self, a):\n        return ask(self, a)\n\n\n"
                           "def ask(reader, a):\n    return a in reader.open_file_map\n")
        self.assertFalse(loaders._forgets_closed(own))
        self.assertTrue(loaders._forgets_closed(reader_handler.FormatReader))
        scope = {}
        exec("class Own(Base):\n    pass", {"Base": reader_handler.FormatReader, "__name__": "nowhere"}, scope)  # pylint: disable=exec-used
        self.assertFalse(loaders._forgets_closed(scope["Own"]))

    def test_readers_that_need_a_dict(self):
        """Of a cache, by what a class does with it."""
        own = """class Own(FormatReader):
    def use(self, a):
        self.cache: dict = {}
        self.cache = {a: self.cache.get(a, 5)}
        self.cache[a] = self.cache[a] if a in self.cache else a
        self.cache.update(a)
"""
        self.assertTrue(loaders.uses_only(self.made_of(own), "cache", loaders.plainly))
        for way in "next(iter(self.cache))", "del self.cache[a]", "len(self.cache)", "self.cache.popitem()", "a.x(self.cache)":
            self.assertFalse(loaders.uses_only(self.made_of(own + "        " + way), "cache", loaders.plainly), way)

    def test_dlios_readers(self):
        """Each of this DLIO's readers that can be imported is of those that forget."""
        import dlio_benchmark.reader as package
        from dlio_benchmark.reader.reader_handler import FormatReader

        for one in pkgutil.iter_modules(package.__path__):
            try:
                importlib.import_module("dlio_benchmark.reader." + one.name)
            except ImportError:  # of a package that is not installed
                pass
        kinds = FormatReader.__subclasses__()
        self.assertGreater(len(kinds), 4)
        for cls in kinds:
            if cls.__module__.startswith("dlio_benchmark."):
                self.assertTrue(loaders._forgets_closed(cls), cls)

    def test_open_files_as_dict(self):
        """DLIO's questions to it, against a dict."""
        theirs, ours = {}, sequences.OpenFiles()
        for i in range(500):
            path = self.random.choice("abcdef")
            for files in (theirs, ours):
                files[path] = None if i % 3 else i
                self.assertIsNone(files.__setitem__(path, files.get(path)))
            for path in "abcdefg":
                closed = [path not in files or files[path] is None for files in (theirs, ours)]
                self.assertEqual(closed[0], closed[1])
                self.assertIs(ours[path], theirs.get(path))
        self.assertEqual(ours, {k: v for k, v in theirs.items() if v is not None})
        for wrong in (), ("a",), ("a", 1, 2), ([], 1):
            for files in (theirs, ours):
                with self.assertRaises(TypeError):
                    files.__setitem__(*wrong)
