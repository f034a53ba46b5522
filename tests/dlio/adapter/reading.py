"""A reader that tells what is asked of it."""


def reader_class(module, calls, exact):
    """A reader that tells what is asked of it."""
    class Reader(module.FormatReader):
        """The least that FormatReader asks for."""

        def open(self, filename):
            calls.append(("open", filename))
            return object()

        def close(self, filename):
            calls.append(("close", filename, self.open_file_map.get(filename) is not None))

        def get_sample(self, filename, sample_index):
            calls.append(("get", filename, exact(sample_index)))

        def next(self):
            return super().next()

        def read_index(self, image_idx, step):
            return super().read_index(image_idx, step)

        def finalize(self):
            return super().finalize()

        def is_index_based(self):
            return True

        def is_iterator_based(self):
            return True
    return Reader
