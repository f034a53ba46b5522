"""The sampler's indices and the readers' map of open files."""
from .case import Case, at, cases, sequences, short


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
