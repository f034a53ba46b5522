"""The sampler's indices and the readers' map of open files."""
import inspect
import random

from .case import Case, config, np, outcome, pair, sequences, short
from .plain import again, exact


class TestLoaders(Case):
    """The sampler's indices and the readers' map of open files."""

    def test_sampler(self):
        import dlio_benchmark.data_loader.torch_data_loader as loader

        cls = loader.dlio_sampler
        shuffles = "shuffle" in inspect.signature(cls.__init__.__wrapped__).parameters
        for i in range(200):
            size = self.random.choice((1, 2, 3, 7, self.random.randint(1, 60)))
            args = (self.random.randrange(size), size, self.random.randint(0, 200))
            args += (self.random.choice([*config.Shuffle, "off"]), 2, 7) if shuffles else (2,)
            made = []
            with short(4 if i % 2 else 1 << 14):
                for function in (cls.__init__.__wrapped__, cls.__init__):
                    sampler = cls.__new__(cls)
                    function(sampler, *args)
                    made.append(outcome(lambda x: [list(x), list(x), len(x), x.num_samples,
                                                   list(again(x.indices))], sampler))
            self.same(made[1], made[0], args)
        self.assertIs(type(sampler.indices), sequences.Indices)

    def test_open_files(self):
        """A reader opens and closes the same; only the keys of closed files are not kept."""
        from dlio_benchmark.common.enumerations import DatasetType, ReadType
        from dlio_benchmark.reader.reader_handler import FormatReader

        class Reader(FormatReader):
            def open(self, filename):
                calls.append(("open", filename))
                return object()

            def close(self, filename):
                calls.append(("close", filename, filename in self.open_file_map))

            def get_sample(self, filename, sample_index):
                calls.append(("get", filename, exact(sample_index)))
                assert self.open_file_map[filename] is not None

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

        args = self.args
        args.resized_image = np.zeros(1)
        args.num_samples_per_file, args.batch_size, args.read_threads = 3, 1, 2
        args.sample_shuffle = config.Shuffle.OFF
        for read_type in ReadType:
            args.read_type = read_type
            made = []
            for files in pair(size=8):
                calls = []
                total = len(files) * args.num_samples_per_file
                args.file_list_train = args.file_list_eval = files
                maps = args.get_global_map_index(*(files, total, 1)[:len(
                    inspect.signature(args.get_global_map_index).parameters)])
                args.train_global_index_map = maps[0] if isinstance(maps, tuple) else maps
                args.global_index_map = args.train_global_index_map
                maps = args.build_sample_map_iter(files, total, 1)
                args.train_file_map = maps[0] if isinstance(maps, tuple) else maps
                args.file_map = args.train_file_map[0]
                reader = Reader(DatasetType.TRAIN, 1)
                calls += [batch.tolist() for batch in reader.next()]
                for sample in random.Random(1).choices(range(total), k=60):
                    reader.read_index(sample, 1)
                made.append((calls, {k for k, v in reader.open_file_map.items() if v}))
            self.assertIs(type(reader.open_file_map), sequences.OpenFiles)
            self.assertNotIn(None, reader.open_file_map.values())
            self.same(made[1], made[0], read_type)

    def test_open_files_as_dict(self):
        """DLIO's questions to it, against a dict."""
        theirs, ours = {}, sequences.OpenFiles()
        for i in range(500):
            path = self.random.choice("abcdef")
            for files in (theirs, ours):
                files[path] = None if i % 3 else i
            for path in "abcdefg":
                closed = [path not in files or files[path] is None for files in (theirs, ours)]
                self.assertEqual(closed[0], closed[1])
                self.assertIs(ours[path], theirs.get(path))
        self.assertEqual(ours, {k: v for k, v in theirs.items() if v is not None})
