"""The sampler's indices and the readers' map of open files."""
import os
import sys
import threading

from .case import Case, at, cases, outcome, pair, sequences, short
from .plain import MANY, again, replaced


class TestLoaders(Case):
    """The sampler's indices and the readers' map of open files."""

    def test_sampler(self):
        for i in range(200):
            at.begin("sampler", i)
            with short(4 if i % 2 else 1 << 14):
                sampler = cases.sampler(at)
        self.assertIs(type(sampler.indices), sequences.Indices)

    def test_open_files(self):
        """A reader opens and closes the same, and knows the same files."""
        read = 0
        for i in range(60):
            at.begin("reader", i)
            reader = cases.reader(at)
            if reader is not None:  # it has not failed, as DLIO's
                self.assertIs(type(reader.open_file_map), sequences.OpenFiles)
                self.assertNotIn(None, reader.open_file_map._open.values())
                read += 1
        self.assertGreater(read, 30)


class TestOpenFiles(Case):
    """OpenFiles against a dict."""

    def test_as_dict(self):
        """Random questions, with paths in two forms, and of files that the listing does not have."""
        real, lazy = pair(size=40)
        relative = [os.path.relpath(path) for path in real]
        for files, known in (lazy, real), (lazy.view(prefix=os.path.dirname(relative[0]) + "/"), real), (lazy[3::2], real):
            theirs, ours = {}, sequences.OpenFiles(files)
            paths = [*known[:20], *relative[:4], "/elsewhere", real[0] + "x", ""]
            for i in range(3000):
                path, kind = self.random.choice(paths), self.random.randrange(12)
                if kind < 8:
                    theirs[path] = ours[path] = None if kind < 4 else i
                elif kind == 8:
                    self.same(outcome(ours.pop, path, "none"), outcome(theirs.pop, path, "none"), path)
                else:
                    self.same(outcome(ours.__getitem__, path), outcome(theirs.__getitem__, path), path)
                self.assertEqual([path in ours, ours.get(path), ours.get(path, 0), len(ours)],
                                 [path in theirs, theirs.get(path), theirs.get(path, 0), len(theirs)])
            self.assertEqual(dict(ours), theirs)
            self.assertEqual(dict(again(ours)), theirs)
            kept = [path for path, file in ours._open.items() if file is None]
            self.assertEqual({path for path in kept if path in known}, set())
            ours.clear()
            self.assertEqual([list(ours), len(ours)], [[], 0])

    def test_by_threads(self):
        """Threads that close files at once lose none."""
        real, lazy = pair(MANY)
        closed, order = sequences.OpenFiles(lazy), list(real)
        self.random.shuffle(order)

        def read(part):
            for path in part:
                closed[path] = 1
                closed[path] = None

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            threads = [threading.Thread(target=read, args=(order[k::4],)) for k in range(4)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
        finally:
            sys.setswitchinterval(interval)
        self.same([len(closed), sorted(closed)], [MANY, real])

    def test_not_for_all(self):
        """A list whose listing is in no order has DLIO's own dict."""
        read = 0
        for i in range(20):
            at.begin("reader", i)
            with replaced(at._listing, "sorted", False):
                reader = cases.reader(at)
            if reader is not None:
                self.assertIs(type(reader.open_file_map), dict)
                read += 1
        self.assertGreater(read, 5)
