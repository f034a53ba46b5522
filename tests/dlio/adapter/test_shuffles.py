"""Permutations: numpy's, and libshard's of an epoch."""
import os
import pickle
import types

from _libshard.native import Native, native
from _libshard.parts import compare_ranks, epochs

from . import ranks
from .case import Case, config, np, pair, permutation_files, short, shuffle_both, state
from .plain import FEW, again, exact, replaced, run_python, stderr


class TestShuffle(Case):
    """Epochs of reconfigure()."""

    def epochs(self, rounds):
        pick, args, sums = self.random, self.args, []
        args.train_sample_index_sum = args.eval_sample_index_sum = -1
        world = config.DLIOMPI.get_instance()
        world.reduce = lambda x: sums.append(exact(x)) or -1
        self.addCleanup(vars(world).pop, "reduce")
        for i in range(rounds):
            sizes = pick.randint(1, FEW), pick.randint(1, FEW)
            args.file_shuffle = pick.choice((*config.Shuffle, "seed", "off"))
            args.sample_shuffle = pick.choice(list(config.Shuffle))
            args.seed_change_epoch, args.seed = pick.random() < .5, pick.randint(0, 3)
            args.comm_size, args.read_threads = pick.randint(1, 3), pick.randint(0, 3)
            args.my_rank = pick.randrange(args.comm_size)
            args.num_samples_per_file = pick.randint(1, 3)
            args.data_loader_sampler = config.DataLoaderSampler.ITERATIVE
            if not i % 5:
                args.data_loader_sampler = config.DataLoaderSampler.INDEX
            args.total_samples_train, args.total_samples_eval = (
                n * args.num_samples_per_file for n in sizes)
            lists = list(zip(*(pair(size=n) for n in sizes)))  # real ones, lazy ones
            np.random.seed(5)
            states = [np.random.get_state()] * 2
            for epoch in range(1, 5):
                made = []
                for side, (train, valid) in enumerate(lists):
                    args.file_list_train, args.file_list_eval = train, valid
                    for name in ("train_file_map", "val_file_map", "train_global_index_map",
                                 "val_global_index_map"):
                        setattr(args, name, None)
                    del sums[:]
                    np.random.set_state(states[side])
                    try:
                        args.reconfigure(epoch)
                        raised = None
                    except (ZeroDivisionError, IndexError) as error:
                        raised = type(error), str(error)
                    states[side], after = np.random.get_state(), state()
                    made.append((raised, after, exact(train), exact(valid), sums[:],
                                 exact(args.train_file_map), exact(args.val_file_map),
                                 exact(args.train_global_index_map),
                                 exact(args.val_global_index_map)))
                self.same(made[1], made[0], i, epoch, sizes, str(args.file_shuffle))
                if pick.random() < .2:
                    lists[1] = tuple(map(again, lists[1]))

    def test_epochs(self):
        self.epochs(60)
        self.assertFalse(permutation_files())


class TestKept(Case):
    """What a pickle of a long permutation has, and what workers make of that."""

    def setUp(self):
        super().setUp()
        change = short(4)
        change.__enter__()  # pylint: disable=unnecessary-dunder-call
        self.addCleanup(change.__exit__, None, None, None)
        self.real, self.lazy = pair()
        for epoch in range(3):
            shuffle_both(self.real, self.lazy, epoch)

    def files(self):
        return [file for file in permutation_files() if file.endswith(".perm")]

    def test_shared(self):
        """One file for all pickles of an order; a process removes its own at its end."""
        text = pickle.dumps([self.lazy, self.lazy, self.lazy[7::3]])
        self.assertLess(len(pickle.dumps(self.lazy)), 1000)
        for file in self.files():
            self.assertRegex(file, r"/[0-9a-f]{32}\.perm$")  # shardctl cache gc knows it
        self.assertEqual(len(self.files()), 2)
        code = ("import pickle, sys; lists = pickle.load(sys.stdin.buffer)\n"
                "print(repr([list(x) for x in lists]), 'dlio_benchmark' in sys.modules)\n"
                "pickle.dumps(lists[1][::2])")  # keeps one more
        with short(1):
            self.assertEqual(run_python(code, data_in=text)[0],
                             "%r False\n" % [self.real, self.real, self.real[7::3]])
        self.assertEqual(len(self.files()), 2)
        shuffle_both(self.real, self.lazy, 9)
        self.same(list(again(self.lazy)), self.real)
        self.assertEqual(len(self.files()), 3)

    def test_changed(self):
        """A file that is not what it was is an error, and so is one that is gone."""
        text = pickle.dumps(self.lazy)
        file, = self.files()
        for what in "damaged", "No such file":
            if what == "damaged":
                with open(file, "r+b") as stream:
                    stream.seek(native().KEPT_HEADER + 8)
                    stream.write(b"\7")
            else:
                os.unlink(file)
            with self.assertRaisesRegex(OSError, "do not change files in SHARD_CACHE_DIR"):
                pickle.loads(text)
        self.same(list(self.lazy), self.real)

    def test_no_room(self):
        """Where the cache has no room a pickle has the order itself."""
        def fail(*_args, **_named):
            raise OSError(122, "Disk quota exceeded")
        for name in ("kept_begin", "kept_end"):
            with stderr() as said, replaced(Native, name, fail):
                self.same(list(again(self.lazy)), self.real)
            self.assertIn("each worker keeps a permutation of its own", said[0])
        self.assertEqual(self.files(), [])


def dealt(comm, lists, seeds, more=()):
    """Whether a rank's list is dealt anew in each epoch, and whether it says why not."""
    config.DLIOMPI.get_instance().comm = lambda: comm
    args = types.SimpleNamespace(data_loader="pytorch", comm_size=comm.size, my_rank=comm.rank, seed=seeds[comm.rank],
                                 **dict(more))
    with stderr() as said:
        compare_ranks.join(comm, compare_ranks.settings())
        made = epochs._reshuffled(args, {"train": lists[comm.rank]}, None)
    why = "this DLIO gives each rank files of its own" if more else "one list of train and one seed"
    return made["train"] is not lists[comm.rank], why in said[0]


class TestEpochs(Case):
    """SHARD_SHUFFLE=epoch: an order for each epoch, of a list and of its parts."""

    def setUp(self):
        super().setUp()
        os.environ["LIBSHARD_RUN"] = native().run_begin()
        self.addCleanup(os.environ.pop, "LIBSHARD_RUN")
        native().run_set_epoch(1)

    def test_order(self):
        for _ in range(40):
            size = self.random.randint(1, FEW)
            real, lazy = pair(size=size)
            made = lazy.reshuffled(self.random.randint(0, 5))
            orders = []
            for epoch in (1, 2, 1):
                native().run_set_epoch(epoch)
                orders.append(list(made))
                self.same(sorted(orders[-1]), sorted(real))
                self.same([made.index(path) for path in orders[-1]], list(range(size)))
                self.same(list(pickle.loads(pickle.dumps(made))), orders[-1])
                self.same(list(made.absolute()), [os.path.abspath(path) for path in orders[-1]])
            self.same(orders[2], orders[0])
            self.assertTrue(size < 10 or orders[0] != orders[1])

    def test_parts(self):
        for _ in range(40):
            size = self.random.randint(1, FEW)
            lazy = pair(size=size)[1]
            whole = lazy.reshuffled(3)
            part = slice(*sorted(self.random.randrange(size + 1) for _ in range(2)),
                         self.random.randint(1, 3))
            some = whole[part]
            for epoch in (1, 2):
                native().run_set_epoch(epoch)
                order = list(whole)
                self.same(list(some), order[part])
                self.same(list(some[1::2]), order[part][1::2])
                self.same([some.index(path) for path in some], list(range(len(some))))
                self.assertFalse(set(order) - set(order[part]) and
                                 all(path in some for path in order))

    def test_of_dlio(self):
        """DLIO's own shuffle moves its generator on, and no more."""
        real, lazy = pair(size=50)
        made = lazy.reshuffled(3)
        before = list(made)
        self.assertTrue(shuffle_both(real, made, 8))
        self.same(list(made), before)

    def test_ranks(self):
        """All have one list and one seed, or nobody is dealt to."""
        one, other = (pair(size=size)[1] for size in (20, 21))
        for lists, seeds, alike in (((one, one), (3, 3), True), ((one, one), (3, 4), False), ((one, other), (3, 3), False)):
            self.same(ranks.run(2, dealt, lists, seeds), [(alike, not alike)] * 2, seeds)
        self.same(ranks.run(2, dealt, (one, one), (3, 3), {"files_pre_sharded": True}), [(False, True)] * 2)

    def test_refused(self):
        _, lazy = pair(size=20)
        self.assertIsNone(lazy[5:].reshuffled(3))
        self.assertIsNone(lazy[::2].reshuffled(3))
        lazy.shuffle(np.random)
        self.assertIsNone(lazy.reshuffled(3))
