"""Workers that unpickle."""
import inspect
import multiprocessing
import pickle

from .case import Case, config, pair, short, shuffle_both
from .plain import FEW, data, describe, exact


class TestChildren(Case):
    """Sample maps and lists in workers, which need not import DLIO for it, but for a map of DLIO's own class."""

    def test_start_methods(self):
        real, lazy = pair(prefix=data(FEW) + "/")
        self.args.num_samples_per_file, self.args.comm_size, self.args.my_rank = 2, 3, 1
        self.args.sample_shuffle = config.Shuffle.SEED
        total = 2 * len(real)
        method = self.args.get_global_map_index
        rest = (total, 1)[:len(inspect.signature(method).parameters) - 1]
        with short(4):
            shuffle_both(real, lazy, 3)
            objects = [lazy, lazy[3::2], method(lazy, *rest),
                       self.args.build_sample_map_iter(lazy, total, 1)]
        expected = [real, real[3::2], method(real, *rest),
                    self.args.build_sample_map_iter(real, total, 1)]
        for start in ("fork", "spawn", "forkserver"):
            with self.subTest(start):
                context = multiprocessing.get_context(start)
                answers = context.Queue()
                child = context.Process(target=describe,
                                        args=(objects, pickle.dumps(objects), answers))
                child.start()
                given, unpickled, imported = answers.get(timeout=900)
                child.join()
                self.same(given, exact(expected), start)
                self.same(unpickled, exact(expected), start)
                self.assertEqual(imported, start == "fork" or hasattr(config, "VirtualIndexMap"))
                self.assertEqual(child.exitcode, 0)
        self.same(exact(objects), exact(expected))  # a child's end takes nothing away
