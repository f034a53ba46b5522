"""get_global_map_index() and build_sample_map_iter()."""
import inspect
import unittest

from .case import Case, config, np, outcome, pair, sequences, shuffle_both
from .plain import FEW, again, data, exact


def by_thread(made):
    """{thread, or rank and thread: samples} of what build_sample_map_iter() returns."""
    made = made[0] if isinstance(made, tuple) else made
    if made and isinstance(next(iter(made.values())), dict):
        return {(rank, thread): samples for rank, threads in made.items()
                for thread, samples in threads.items()}
    return made


class TestMaps(Case):
    """get_global_map_index and build_sample_map_iter."""

    def draw(self):
        """Random arguments of DLIO: (list, FileList, total number of samples, epoch)."""
        pick, args = self.random, self.args
        size = pick.randint(1, FEW)
        real, lazy = pair(size=size, prefix=pick.choice((None, data(FEW) + "/../data-60/./", "x/")))
        args.num_samples_per_file = pick.choice((1, 1, 2, 3, 7, pick.randint(1, 12)))
        args.comm_size = pick.choice((1, 2, 3, 4, 8, pick.randint(1, 130)))
        args.my_rank = pick.randrange(args.comm_size)
        args.read_threads = pick.choice((0, 1, 2, 4, pick.randint(0, 20)))
        args.sample_shuffle = pick.choice([*config.Shuffle, "off", "seed", "random"])
        args.file_shuffle = pick.choice([*config.Shuffle, "seed"])
        args.seed_change_epoch, args.seed = pick.random() < .5, pick.choice((123, 7, 0))
        args.data_loader = pick.choice(list(config.DataLoaderType))
        args.storage_type = pick.choice(list(config.StorageType))
        total = args.num_samples_per_file * size
        if pick.random() < .3:
            total = pick.randint(0, total)
        if pick.random() < .3:
            shuffle_both(real, lazy, 5)
        return real, again(lazy) if pick.random() < .3 else lazy, total, pick.randint(0, 5)

    def told(self):
        names = ("num_samples_per_file", "comm_size", "my_rank", "read_threads", "sample_shuffle",
                 "file_shuffle", "seed_change_epoch", "data_loader", "storage_type")
        return {name: str(getattr(self.args, name)) for name in names}

    @unittest.skipIf(hasattr(config, "VirtualIndexMap"), "test_virtual.py has the map of this DLIO")
    def test_global_map(self):
        method = config.ConfigArguments.get_global_map_index
        plain = len(inspect.signature(method.__wrapped__).parameters) == 3
        seen = set()
        for _ in range(400):
            real, lazy, total, epoch = self.draw()
            rest = (total,) if plain else (total, epoch)
            theirs = outcome(method.__wrapped__, self.args, real, *rest)
            what = (len(real), *rest, self.told())
            self.same(outcome(method, self.args, lazy, *rest), theirs, what)
            seen.add(theirs[0][0])
            if theirs[0][0] == "IndexError":
                continue
            np.random.seed(99)
            theirs, ours = (m(self.args, files, *rest) if plain else m(self.args, files, *rest)[0]
                            for m, files in ((method.__wrapped__, real), (method, lazy)))
            for made in (ours, again(ours)):
                self.assertIsInstance(made, sequences.SampleMap)
                self.same(exact(made), exact(theirs), what)
                self.same(exact(list(made)), exact(list(theirs)), what, "keys")
                self.same(exact(list(made.values())), exact(list(theirs.values())), what)
                self.assertEqual(len(made), len(theirs))
                self.assertTrue(made == theirs and dict(made) == theirs)
                for key in (-1, 0, total - 1, total, np.int64(0), 1.5, "0", None, 0.0, np.float64(1), True,
                            float("nan"), float("inf"), 1j, *theirs):
                    self.assertEqual(key in made, key in theirs, (what, key))
                    self.same(exact(made.get(key, "none")), exact(theirs.get(key, "none")), key)
                    if key not in theirs:
                        with self.assertRaises(KeyError) as caught:
                            made[key]  # pylint: disable=pointless-statement
                        self.assertEqual(caught.exception.args, (key,))
        past_end = plain and "IndexError" in seen  # only some walk past the last file
        self.assertEqual(seen, {"dict", *["IndexError"] * past_end} if plain else {"tuple"})

    def test_file_map(self):
        method = config.ConfigArguments.build_sample_map_iter
        raised = set()
        for _ in range(400):
            real, lazy, total, epoch = self.draw()
            made = []
            for function, files in ((method.__wrapped__, real), (method, lazy)):
                self.args.samples_per_thread = None
                made.append((*outcome(function, self.args, files, total, epoch),
                             self.args.samples_per_thread))
            what = (len(real), total, epoch, self.told())
            self.same(made[1], made[0], what)
            if made[0][0][0].endswith("Error"):
                raised.add(made[0][0][0])
                continue
            theirs, ours = (by_thread(function(self.args, files, total, epoch))
                            for function, files in ((method.__wrapped__, real), (method, lazy)))
            part = slice(self.random.choice((None, -3, 1)), self.random.choice((None, 5, -1)),
                         self.random.choice((None, -1, 2)))
            for thread, samples in theirs.items():
                for lazily in (ours[thread], again(ours[thread])):
                    self.assertIsInstance(lazily, (sequences.ThreadSamples, sequences.FileSamples))
                    self.same(exact(lazily), exact(samples), what)
                    self.same(exact(lazily[part]), exact(samples[part]), what, part)
                    self.same(exact(list(reversed(lazily))), exact(samples[::-1]), what)
                    self.assertEqual(bool(lazily), bool(samples))
        nested = isinstance(next(iter(theirs)), tuple)
        self.assertEqual(raised, set() if nested else {"ZeroDivisionError"})
