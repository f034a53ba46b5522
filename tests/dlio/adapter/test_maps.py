"""get_global_map_index() and build_sample_map_iter()."""
import inspect
import unittest

from .case import Case, at, cases, config, np, sequences
from .plain import again, exact


def by_thread(made):
    """{thread: samples} of what build_sample_map_iter() returns."""
    return made[0] if isinstance(made, tuple) else made


class TestMaps(Case):
    """get_global_map_index and build_sample_map_iter."""

    @unittest.skipIf(hasattr(config, "VirtualIndexMap"), "test_virtual.py has the map of this DLIO")
    def test_global_map(self):
        method = config.ConfigArguments.get_global_map_index
        plain = len(inspect.signature(method.__wrapped__).parameters) == 3
        raised = set()
        for i in range(400):
            at.begin("global map", i)
            real, lazy, rest, outcome = cases.make_maps(at, method)
            if isinstance(outcome[0], str):
                raised.add(outcome[0].partition(":")[0])
            if not real or isinstance(outcome[0], str):
                continue
            what, total = (len(real), *rest, at.told()), rest[0]
            np.random.seed(99)
            theirs, ours = (m(at.args, files, *rest) if plain else m(at.args, files, *rest)[0]
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
        self.assertLessEqual(raised, {"IndexError"} if plain else set())  # some walk past the last file

    def test_file_map(self):
        method = config.ConfigArguments.build_sample_map_iter
        raised = set()
        for i in range(400):
            at.begin("file map", i)
            real, lazy, rest, outcome = cases.make_maps(at, method)
            if isinstance(outcome[0], str):
                raised.add(outcome[0].partition(":")[0])
            if not real or isinstance(outcome[0], str):
                continue
            what = (len(real), *rest, at.told())
            theirs, ours = (by_thread(function(at.args, files, *rest))
                            for function, files in ((method.__wrapped__, real), (method, lazy)))
            part = slice(self.random.choice((None, -3, 1)), self.random.choice((None, 5, -1)),
                         self.random.choice((None, -1, 2)))
            for thread, samples in theirs.items():
                for lazily in (ours[thread], again(ours[thread])):
                    self.assertIsInstance(lazily, sequences.ThreadSamples)
                    self.same(exact(lazily), exact(samples), what)
                    self.same(exact(lazily[part]), exact(samples[part]), what, part)
                    self.same(exact(list(reversed(lazily))), exact(samples[::-1]), what)
                    self.assertEqual(bool(lazily), bool(samples))
        self.assertEqual(raised, {"ZeroDivisionError"})
