"""get_global_map_index()."""
import inspect
import unittest

from .case import Case, at, cases, config, np, sequences
from .plain import again, exact


class TestMaps(Case):
    """Of a list and of a FileList."""

    @unittest.skipIf(hasattr(config, "VirtualIndexMap"), "test_virtual.py has the map of this DLIO")
    def test_global_map(self):
        method = config.ConfigArguments.get_global_map_index
        plain = len(inspect.signature(method.__wrapped__).parameters) == 3
        raised = set()
        for i in range(400):
            at.begin("global map", i)
            real, lazy, rest, outcome = cases.make_maps(at, method)
            failed = outcome[0][0].endswith("Error")
            raised.update([outcome[0][0]] * failed)
            if not real or failed:
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
