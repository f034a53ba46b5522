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
        """A reader opens and closes the same, and knows the same files."""
        read = 0
        for i in range(60):
            at.begin("reader", i)
            reader = cases.reader(at)
            if reader is not None:  # it has not failed, as DLIO's
                self.assertIs(type(reader.open_file_map), sequences.OpenFiles)
                self.assertNotIn(None, reader.open_file_map.values())
                read += 1
        self.assertGreater(read, 30)
