"""Permutations: numpy's, kept in memory or in files."""
import glob
import multiprocessing
import os
import pathlib
import pickle
import types

from _libshard.native import Native, native
from _libshard.parts import agree, epochs

from . import ranks
from .case import Case, config, np, pair, permutation_files, short, shuffle_both, shuffles, state
from .plain import CACHE, FEW, again, exact, replaced, run_python, stderr


class TestShuffle(Case):
    """Epochs of reconfigure(), and where permutations are kept."""

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
            if hasattr(args, "files_pre_sharded"):  # the ranks exchange files, and here is one
                args.comm_size = 1
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

    def test_in_memory(self):
        self.epochs(40)
        self.assertFalse(permutation_files())

    def test_in_files(self):
        made = []
        with short(4), counted(made):
            self.epochs(40)
        self.assertGreater(len(made), 40)
        self.assertLess(len(permutation_files()), 20)  # old ones are removed
        self.assertTrue(glob.glob(os.path.join(CACHE, "*.perm")))

    def test_shared(self):
        """Two processes, alike seeded, make each permutation once, and remove all at their end."""
        context = multiprocessing.get_context("spawn")
        barrier, answers = context.Barrier(2), context.Queue()
        _, lazy = pair()
        children = [context.Process(target=shuffle_with_others, args=(lazy, barrier, answers))
                    for _ in range(2)]
        for child in children:
            child.start()
        told = [answers.get(timeout=900) for _ in children]
        for child in children:
            child.join()
        real, _ = pair()
        expected = []
        for epoch in range(4):
            np.random.seed(epoch)
            np.random.shuffle(real)
            expected.append((list(real), state()))
        for order, _ in told:
            self.same(order, expected)
        self.assertEqual(sum(made for _, made in told), 4)
        self.assertEqual(permutation_files(), [])

    def test_damaged(self):
        """Whatever becomes of the file: order and state are numpy's, and nothing is raised."""
        def epochs():
            real, lazy = pair()
            for epoch in range(3):
                self.assertTrue(shuffle_both(real, lazy, epoch), "state")
                self.same(list(lazy), real, epoch)
            return real, lazy

        def files():
            # That of the first epoch went with the third's.
            found = glob.glob(os.path.join(CACHE, "*.perm"))
            self.assertEqual(len(found), 2)
            return found

        def rewrite(change):
            for file in files():
                with open(file, "rb") as stream:
                    text = stream.read()
                os.unlink(file)
                with open(file, "wb") as stream:
                    stream.write(change(text))

        def filled(at, size, byte=b"\0"):
            return lambda text: text[:at] + byte * size + text[at + size:]
        start = 2 * native().KEPT_HEADER
        with short(4):
            epochs()
            first, second = [pathlib.Path(file).read_bytes() for file in files()]
            self.assertEqual(len(first), start + 4 * FEW)
            for name, change in (
                    ("empty", lambda text: b""), ("zeros", filled(0, start + 4 * FEW)),
                    ("positions are zeros", filled(start + 40, 40)),
                    ("the first one", filled(start, 4)), ("a bit", filled(start + 80, 1, b"\7")),
                    ("the state", filled(native().KEPT_HEADER + 80, 8, b"x")),
                    ("garbage", lambda text: os.urandom(len(text))),
                    ("longer", lambda text: text + b"\0"), ("shorter", lambda text: text[:-1]),
                    ("another's", lambda text: second if text == first else first)):
                with self.subTest(name):
                    rewrite(change)
                    _, lazy = epochs()
                    text = pickle.dumps(lazy)
                    rewrite(change)
                    self.same(list(pickle.loads(text)), list(lazy))
                    epochs()
            for name, make in (("cut off", lambda file: os.truncate(file, start + 10)),
                               ("removed", os.unlink),
                               ("a pipe", lambda file: os.unlink(file) or os.mkfifo(file)),
                               ("a link", lambda file: os.rename(file, file + "x") or
                                os.symlink(file + "x", file)),
                               ("others may write", lambda file: os.chmod(file, 0o666))):
                with self.subTest(name):
                    for file in files():
                        make(file)
                    epochs()
                    self.assertFalse([file for file in files() if os.path.islink(file)])

    def test_positions(self):
        """Positions that workers share: what is not what it was is an error."""
        with short(4):
            kept = shuffles.Kept.of(np.arange(0, 3 * FEW, 3))
            file, = glob.glob(os.path.join(CACHE, "*.perm"))
            self.assertRegex(file, r"/[0-9a-f]{32}\.perm$")  # shardctl cache gc knows it
            self.same(pickle.loads(pickle.dumps(kept)).indices.tolist(), list(range(0, 3 * FEW, 3)))
            text = pickle.dumps(kept)
            with open(file, "r+b") as stream:
                stream.seek(native().KEPT_HEADER + 8)
                stream.write(b"\7")
            with self.assertRaisesRegex(OSError, "damaged; it holds a rank's positions"):
                pickle.loads(text)
            shuffles._forget_own(kept.key)
            self.assertEqual(permutation_files(), [])
            with self.assertRaisesRegex(OSError, "[.]perm.*rank's positions"):
                pickle.loads(text)

    def test_failing_calls(self):
        def fail(*_args, **_named):
            raise OSError(122, "Disk quota exceeded")
        for name in ("kept_begin", "kept_end"):
            with self.subTest(name), short(4):
                real, lazy = pair()
                with stderr() as said, replaced(Native, name, fail):
                    for epoch in range(3):
                        self.assertTrue(shuffle_both(real, lazy, epoch), "state")
                self.assertIn("no shared permutation", said[0])
                self.same(list(lazy), real)
                for file in permutation_files():
                    os.unlink(file)
        with short(4):
            real, lazy = pair()
            for file in [file for file in self.kept_by(3) if file.endswith(".perm")]:
                os.mkdir(file)
            with stderr() as said:
                for epoch in range(3):
                    self.assertTrue(shuffle_both(real, lazy, epoch), "state")
            self.assertIn("no shared permutation", said[0])
            self.same(list(lazy), real)
            self.assertEqual(glob.glob(os.path.join(CACHE, "*.tmp.*")), [])
            for file in glob.glob(os.path.join(CACHE, "*.perm")):
                os.rmdir(file)

    def kept_by(self, epochs):
        """The files that the first epochs keep, which are gone then."""
        real, lazy = pair()
        seen = set()
        for epoch in range(epochs):
            shuffle_both(real, lazy, epoch)
            seen.update(permutation_files())
        for file in permutation_files():
            os.unlink(file)
        return seen

    def test_file_gone(self):
        """A worker that starts late makes a permutation from its states."""
        code = ("import pickle, sys; print(repr([list(x) for x in pickle.load(sys.stdin.buffer)]),"
                " 'dlio_benchmark' in sys.modules)")
        with short(4):
            real, lazy = pair()
            for epoch in range(3):
                shuffle_both(real, lazy, epoch)
        text = pickle.dumps([lazy, lazy[7::3]])
        self.assertLess(len(pickle.dumps(lazy)), 3 * 2800)  # the states, not the permutation
        for file in permutation_files():
            os.unlink(file)
        self.assertEqual(run_python(code, data_in=text)[0],
                         "%r False\n" % [real, real[7::3]])
        self.same(list(lazy), real)  # mapped still


def counted(made):
    """Each one that is made is added to the list."""
    end = Native.kept_end
    return replaced(Native, "kept_end", lambda *args: made.append(1) or end(*args))


def shuffle_with_others(lazy, barrier, answers):
    made = []
    orders = []
    with short(4), counted(made):
        for epoch in range(4):
            barrier.wait(30)
            np.random.seed(epoch)
            config.np.random.shuffle(lazy)
            orders.append((list(lazy), state()))
    answers.put((orders, len(made)))
    barrier.wait(30)


def dealt(comm, lists, seeds):
    """Whether a rank's list is dealt anew in each epoch, and whether it says why not."""
    config.DLIOMPI.get_instance().comm = lambda: comm
    args = types.SimpleNamespace(data_loader="pytorch", comm_size=comm.size, my_rank=comm.rank, seed=seeds[comm.rank])
    with stderr() as said:
        agree.join(comm, agree.settings())
        made = epochs._reshuffled(args, {"train": lists[comm.rank]}, None)
    return made["train"] is not lists[comm.rank], "one list of train and one seed" in said[0]


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
            made = lazy.reshuffled(self.random.randint(0, 5), 0, 1)
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
            size, ranks = self.random.randint(1, FEW), self.random.randint(1, 4)
            real, lazy = pair(size=size)
            whole = lazy.reshuffled(3, 0, 1)
            part = slice(*sorted(self.random.randrange(size + 1) for _ in range(2)),
                         self.random.randint(1, 3))
            some, moved = whole[part], whole.moved(part.start)
            each = size // ranks
            own = [lazy[rank::ranks][:each].reshuffled(3, rank, ranks) for rank in range(ranks)]
            for epoch in (1, 2):
                native().run_set_epoch(epoch)
                order = list(whole)
                self.same(list(some), order[part])
                self.same(list(some[1::2]), order[part][1::2])
                self.same(list(moved), order[part.start:] + order[:part.start])
                self.same(list(moved[::2]), list(moved)[::2])
                self.same([some.index(path) for path in some], list(range(len(some))))
                self.assertFalse(set(order) - set(order[part]) and
                                 all(path in some for path in order))
                self.same(sorted(path for share in own for path in share), real[:each * ranks])
                self.same([len(share) for share in own], [each] * ranks)

    def test_of_dlio(self):
        """DLIO's own shuffle moves its generator on, and no more."""
        real, lazy = pair(size=50)
        made = lazy.reshuffled(3, 0, 1)
        before = list(made)
        self.assertTrue(shuffle_both(real, made, 8))
        self.same(list(made), before)

    def test_ranks(self):
        """All have one list and one seed, or nobody is dealt to."""
        one, other = (pair(size=size)[1] for size in (20, 21))
        for lists, seeds, alike in (((one, one), (3, 3), True), ((one, one), (3, 4), False), ((one, other), (3, 3), False)):
            self.same(ranks.run(2, dealt, lists, seeds), [(alike, not alike)] * 2, seeds)

    def test_refused(self):
        _, lazy = pair(size=20)
        self.assertIsNone(lazy[5:].reshuffled(3, 0, 1))
        self.assertIsNone(lazy[1::2].reshuffled(3, 0, 2))
        lazy.shuffle(np.random)
        self.assertIsNone(lazy.reshuffled(3, 0, 1))
