"""VirtualIndexMap and what goes with it, of the DLIO at hand or of fork.py."""
import pickle
import sys
import threading
import types
import warnings

from _libshard.parts import derived, iterable, virtual

from . import test_maps
from .case import Case, at, cases, config, np, outcome, pair, sequences, shuffle_both, state
from .plain import MANY, again, exact, replaced

FORK = hasattr(config, "VirtualIndexMap")

if FORK:
    module, TESTED = config, config.ConfigArguments
else:
    from . import fork as module

    TESTED = module.ConfigArguments
    virtual.index_map(module, TESTED)
    virtual.file_map(sequences.ThreadSamplesFromOwnFile)(module, TESTED)
    iterable.patch(module, None)
    module.np = derived.shuffling(module.np)


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

    def test_file_map(self):
        """Also where nothing is shuffled, and with more ranks than files."""
        raised = 0
        for args, real, lazy, total, epoch in self.arguments(0 if FORK else 300):  # test_maps.py has DLIO's
            made = []
            for files in (real, lazy):
                args.samples_per_thread = None
                found = outcome(lambda files=files: TESTED.build_sample_map_iter(
                    args, files, total, epoch))
                made.append((*found, args.samples_per_thread))
            self.same(made[1], made[0], len(real), total, epoch, at.told())
            if made[0][0][0].endswith("Error"):
                raised += 1
                continue
            found = test_maps.by_thread(TESTED.build_sample_map_iter(args, lazy, total, epoch))
            for samples in found.values():
                self.assertIs(type(samples), sequences.ThreadSamplesFromOwnFile)
                self.assertEqual(exact(again(samples)), exact(samples))
        self.assertEqual(raised > 0, not FORK)

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


class TestSampleNumbers(Case):
    """An array's order, made from the generator's state."""

    def test_another_generator(self):
        """A plug-in may have given numpy another one."""
        own = np.random.get_bit_generator()
        np.random.set_bit_generator(np.random.PCG64(5))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                begin = np.random.get_state()
                real, lazy = np.arange(3, 900), sequences.SampleNumbers(3, 900)
                np.random.shuffle(real)
                after = np.random.get_state()
                np.random.set_state(begin)
                lazy.shuffle(np.random)
                self.assertEqual(str(np.random.get_state()), str(after))
            self.same([list(lazy), list(again(lazy))], [list(real)] * 2)
        finally:
            np.random.set_bit_generator(own)


class TestByteCounts(Case):
    """What readers remember of files, against a dict."""

    def test_as_dict(self):
        for few in (3, 1024):
            for odd in False, True:
                with replaced(sequences.ByteCounts, "FEW", few):
                    self.as_dict(odd)

    def as_dict(self, odd):
        real, lazy = pair(size=40)
        theirs, ours = {}, sequences.ByteCounts.of(lazy)
        paths, counts = list(real), [0, 7, (1 << 32) - 1]
        if odd:
            paths += ["/elsewhere", real[0] + "x", "f"]
            counts += [1 << 32, 1 << 64, 1 << 70, -1, None, True, 2.0]
        for _ in range(1500):
            at, count = self.random.randrange(len(paths)), self.random.choice(counts)
            path = lazy[at] if at < len(lazy) else paths[at]
            self.assertEqual([path in ours, ours.get(path), ours.get(path, 0)],
                             [path in theirs, theirs.get(path), theirs.get(path, 0)])
            if self.random.random() < .2:
                self.same(outcome(ours.pop, path, "none"), outcome(theirs.pop, path, "none"), path)
            elif self.random.random() < .3:
                ours.update({path: count})
                theirs.update({path: count})
            else:
                ours[path] = theirs[path] = count
            for path in self.random.choices(paths, k=3):
                self.assertEqual(path in ours, path in theirs)
                self.assertEqual(ours.get(path, 0), theirs.get(path, 0))
            self.assertEqual(len(ours), len(theirs))
        self.assertEqual(dict(ours), theirs)
        for wrong in (), ("f", 1, 2), ([],), ([], 0):
            self.same(*[outcome(one.get, *wrong)[0][0] for one in (ours, theirs)], wrong)
        for wrong in (), ("f",), ("f", 1, 2), ([], 0):
            self.same(*[outcome(one.__setitem__, *wrong)[0][0] for one in (ours, theirs)], wrong)
        with self.assertRaisesRegex(KeyError, "nowhere"):
            ours["nowhere"]  # pylint: disable=pointless-statement

    def test_in_no_order(self):
        """Paths are kept as positions, but for a few, and are put there many at a time."""
        real, lazy = pair(MANY)
        order, merges = list(range(MANY)), []
        self.random.shuffle(order)
        merge = sequences.ByteCounts._merge
        with replaced(sequences.ByteCounts, "FEW", 100), replaced(
                sequences.ByteCounts, "_merge", lambda self: (merges.append(len(self._parts.waiting)), merge(self))):
            counts = sequences.ByteCounts.of(lazy)
            for i in order:
                counts[lazy[i]] = i
                self.assertLessEqual(len(counts._parts.waiting), 100)
            self.assertEqual(merges, [101] * (MANY // 101))
        self.assertEqual(dict(counts), {path: i for i, path in enumerate(real)})
        counts.clear()
        self.same([len(counts), list(counts), real[0] in counts], [0, [], False])

    def test_by_threads(self):
        """Threads that set at once lose nothing, nor does a file read by one seem unread to it."""
        real, lazy = pair(MANY)
        counts, order, wrong = sequences.ByteCounts.of(lazy), list(range(MANY)), []
        self.random.shuffle(order)

        def read(part):
            for i in part:
                path = lazy[i]
                counts[path] = i
                if counts.get(path) != i:
                    wrong.append(path)

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            with replaced(sequences.ByteCounts, "FEW", 20):
                threads = [threading.Thread(target=read, args=(order[k::4],)) for k in range(4)]
                for one in threads:
                    one.start()
                for one in threads:
                    one.join()
        finally:
            sys.setswitchinterval(interval)
        self.same([wrong, dict(counts)], [[], {path: i for i, path in enumerate(real)}])

    def test_merged_meanwhile(self):
        """What waits is put to the others, by another thread, just when it is asked for."""
        _, lazy = pair(size=40)
        counts = sequences.ByteCounts.of(lazy)

        class Path(str):
            """Its hash takes long."""

            __eq__ = str.__eq__

            def __hash__(self):
                counts._merge()
                return str.__hash__(self)

        counts[lazy[5]] = 7
        self.assertEqual(counts._get(Path(lazy[5])), 7)

    def test_not_for_all(self):
        """Where a position takes a search through all, and of a list of another kind."""
        real, lazy = pair(size=40)
        self.assertIsNone(sequences.ByteCounts.of(real))
        with replaced(lazy.listing, "sorted", False):
            self.assertIsNone(sequences.ByteCounts.of(lazy))

    def test_readers(self):
        """A reader of the fork's reads a file once, whatever it remembers it in."""
        if not FORK:
            return
        import os

        from dlio_benchmark.reader import _local_fs_iterable_mixin as mixin

        init = mixin._LocalFSIterableMixin._localfs_init
        if not getattr(init, "__module__", "").startswith("_libshard"):
            self.skipTest("its readers are not known")

        class Own(mixin._LocalFSIterableMixin):
            """Of a module that does with such a cache what it likes: below."""

        made = []
        for files in pair(size=40):
            own, reader = Own(), mixin._LocalFSIterableMixin()
            for one in own, reader:
                one._args = types.SimpleNamespace(storage_options={})
                one.global_index_map = types.SimpleNamespace(_abs_paths=files)
                one._localfs_init()
            self.assertIs(type(own._local_cache), dict)
            reads = []
            reader._read_local_bytes = lambda path, reads=reads: (
                reads.append(path), os.stat(path).st_size)[1]
            for path in self.random.__class__(3).choices(list(files), k=100):
                reader._localfs_ensure_cached(path)
            made.append((reads, dict(reader._local_cache)))
        self.assertIs(type(reader._local_cache), sequences.ByteCounts)
        self.same(made[1], made[0])
