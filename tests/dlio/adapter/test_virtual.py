"""VirtualIndexMap and what goes with it, of the DLIO at hand or of fork.py."""
import pickle
import types

from _libshard.parts import config as config_part
from _libshard.parts import iterable, virtual

from .case import Case, at, cases, config, np, outcome, pair, sequences, shuffle_both, state
from .plain import again, exact

FORK = hasattr(config, "VirtualIndexMap")

if FORK:
    module, TESTED = config, config.ConfigArguments
else:
    from . import fork as module

    TESTED = module.ConfigArguments
    virtual.index_map(module)
    iterable.patch(module, None)
    module.np = config_part.shuffling(module.np)


def content(index_map):
    """All that a reader can ask of a map."""
    return [len(index_map), repr(index_map), exact(list(index_map)), exact(list(index_map.items())),
            [exact(index_map[sample]) for sample in index_map],
            [sample in index_map for sample in (-1, 0, 5, np.int64(7), *index_map)]]


class TestVirtual(Case):
    """Maps from a list and from a FileList."""

    def arguments(self, rounds):
        """(arguments object, list, FileList, total, epoch), drawn."""
        for i in range(rounds):
            at.begin(self.id(), i)
            real, lazy, total, epoch = cases.draw_maps(at)
            args = at.args
            if not FORK:
                args = TESTED()
                args.__dict__.update({name: getattr(at.args, name) for name in (
                    "num_samples_per_file", "comm_size", "my_rank", "read_threads", "sample_shuffle",
                    "seed_change_epoch", "data_loader", "storage_type", "seed")})
                args.up = self.random.random() < .5
            if real:
                yield args, real, lazy, total, epoch

    def test_map(self):
        for args, real, lazy, total, epoch in self.arguments(300):
            made = []
            for files in (real, lazy):
                np.random.seed(99)
                index_map, total_of_all = TESTED.get_global_map_index(args, files, total, epoch)
                made.append((index_map, exact(total_of_all), state()))
            what = (len(real), total, epoch, at.told())
            self.same(made[1][1:], made[0][1:], what)
            for index_map in (made[1][0], again(made[1][0])):
                self.assertIs(type(index_map), module.VirtualIndexMap)
                self.assertIs(type(index_map._abs_paths), sequences.FileList)
                self.assertIs(type(index_map._sample_list), sequences.SampleNumbers)
                self.same(content(index_map), content(made[0][0]), what)
            last = made[0][0]
            for sample in (len(real) * args.num_samples_per_file, 10 ** 9):
                self.same(outcome(made[1][0].__getitem__, sample),
                          outcome(last.__getitem__, sample), sample)

    def test_large(self):
        """A map of a billion samples is made at once, and adds up as an array would."""
        args = self.args if FORK else TESTED()
        args.__dict__.update(num_samples_per_file=10 ** 8, comm_size=1, my_rank=0, read_threads=1,
                             sample_shuffle=config.Shuffle.OFF, seed_change_epoch=True, seed=1,
                             data_loader=config.DataLoaderType.PYTORCH,
                             storage_type=config.StorageType.LOCAL_FS)
        _, lazy = pair(size=60)
        for total in (6 * 10 ** 9, 4 * 10 ** 9):
            index_map, added = TESTED.get_global_map_index(args, lazy, total, 1)
            exactly = total * (total - 1) // 2
            self.assertEqual(added, (exactly + 2 ** 63) % 2 ** 64 - 2 ** 63)
            self.assertEqual(index_map[total - 1], (lazy.absolute()[total // 10 ** 8 - 1],
                                                    10 ** 8 - 1))
            self.assertLess(len(pickle.dumps(index_map)), 2000)


class TestIterable(Case):
    """The list's copies in workers, and the sampler."""

    def module(self):
        """The module with the sampler: DLIO's own, if it is the fork's."""
        if not FORK:
            return module
        import dlio_benchmark.data_loader.torch_data_loader as loader
        return loader

    def test_list(self):
        """list() of a FileList is a copy in O(1); of all else it is Python's."""
        copy = self.module().list
        real, lazy = pair()
        for change in (lambda files: shuffle_both(list(real), files, 5), lambda files: files.pop(0),
                       lambda files: files.sort(key=hash)):
            other = copy(lazy)
            self.assertEqual(exact(other), exact(real))
            change(other)
            self.assertNotEqual(exact(other), exact(real))
        self.assertIs(type(lazy), sequences.FileList)
        self.same(exact(lazy), exact(real))
        self.same(exact(copy(lazy)[1::3]), exact(real[1::3]))
        self.assertIsInstance(copy(lazy)[1::3], sequences.FileList)
        shuffle_both(real, lazy, 3)
        self.same(exact(again(copy(lazy)[2::5])), exact(real[2::5]))
        for value in ((), [1, 2], {3: 4}, range(5), "ab"):
            self.assertEqual((type(copy(value)), copy(value)), (list, list(value)))
        self.assertEqual(copy(), [])

    def test_sampler(self):
        """Its numbers are lazy; its module's list() is as before."""
        loader = self.module()
        before = loader.list
        logger = types.SimpleNamespace(warning=lambda *_: None)
        if hasattr(loader, "DLIOLogger"):
            loader.DLIOLogger = types.SimpleNamespace(get_instance=lambda: logger)
        for size, number in ((1, 0), (1, 7), (3, 7), (3, 9), (5, 3)):
            for rank in range(size):
                made = []
                for function in (loader.dlio_sampler.__init__.__wrapped__,
                                 loader.dlio_sampler.__init__):
                    sampler = loader.dlio_sampler.__new__(loader.dlio_sampler)
                    function(sampler, rank, size, number, 2)
                    made.append((exact(list(sampler)), len(sampler)))
                self.assertIs(type(sampler.indices), sequences.Indices)
                self.same(made[1], made[0], rank, size, number)
        self.assertIs(loader.list, before)
