"""The adapter's sequences and maps against the functions of the DLIO that is imported.

    python tests/dlio/adapter_units.py [--preload LIB] [unittest's arguments ...]

Runs itself once more under LD_PRELOAD, in a temporary cache directory. The adapter leaves what it
replaces in __wrapped__; it gets a real list of the same paths, the adapter's function the lazy
one, and all that can be told of the results must be equal: keys, values, their types and order,
exceptions, and the state of numpy's generator afterwards.
"""
import argparse
import collections.abc
import contextlib
import copy
import glob
import inspect
import json
import multiprocessing
import operator
import os
import pickle
import random
import subprocess
import sys
import tempfile
import types
import unittest

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = os.environ.get("ADAPTER_UNITS_WORK", "")
CACHE = os.path.join(WORK, "cache")
FEW, MANY = 60, 2500  # files of the data sets; MANY is more than is fetched at once

np = config = adapter = None  # set by load(); a spawned child that does not need DLIO has none


def load():
    global np, config, adapter
    import numpy
    import dlio_benchmark.utils.config
    import _libshard

    np, config, adapter = numpy, dlio_benchmark.utils.config, _libshard
    if adapter._dlio is None:
        raise ImportError("the adapter does not know this DLIO")
    world = dlio_benchmark.utils.utility.DLIOMPI.get_instance()
    if multiprocessing.parent_process() is None:
        world.set_parent_values(0, 1)


# ---- helpers ------------------------------------------------------------------------------------


def touch(*paths):
    for path in paths:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8"):
            pass


def data(count):
    folder = os.path.join(WORK, "data-%d" % count)
    if not os.path.isdir(folder):
        touch(*(os.path.join(folder, "f%05d.npz" % i) for i in range(count)))
    return folder


def pair(count=FEW, size=None, prefix=None):
    """(list, FileList) of the first `size` files."""
    folder = data(count)
    prefix = folder + "/" if prefix is None else prefix
    listing = adapter.Listing.of_dataset(folder, "order=path depth=1 include=*npz")
    return ([prefix + name for name in sorted(os.listdir(folder))][:size],
            adapter.FileList(listing, prefix)[:size])


def outcome(function, *args):
    """(what it returns or raises, the generator's state after), from one state."""
    np.random.seed(99)
    np.random.normal()  # leaves half a pair of normal numbers behind: part of the state
    try:
        result = exact(function(*args))
    except Exception as error:  # pylint: disable=broad-except
        result = type(error).__name__, str(error)
    return result, state()


def state():
    name, keys, *rest = np.random.get_state()
    return name, keys.tobytes(), rest


def exact(value):
    """With the types of numbers, and the order of dicts; lists and what acts as one alike."""
    if isinstance(value, collections.abc.Mapping):
        return "dict", [(exact(k), exact(v)) for k, v in value.items()]
    if isinstance(value, collections.abc.Sequence) and not isinstance(value, (str, bytes)):
        return "tuple" if isinstance(value, tuple) else "list", [exact(v) for v in value]
    return type(value).__name__, value


def again(value, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(value, protocol))


def shuffle_both(real, lazy, seed):
    """The orders must then be equal."""
    np.random.seed(seed)
    np.random.shuffle(real)
    after = state()
    np.random.seed(seed)
    config.np.random.shuffle(lazy)
    return state() == after


def permutation_files():
    return glob.glob(os.path.join(CACHE, "perm-*"))


@contextlib.contextmanager
def stderr():
    """What this process, C code included, writes to stderr: the list gets it as one text."""
    texts = []
    with tempfile.TemporaryFile() as file:
        sys.stderr.flush()
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield texts
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            texts.append(file.read().decode())


@contextlib.contextmanager
def replaced(owner, name, value):
    saved = inspect.getattr_static(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, saved)


def short(length):
    """Permutations longer than this are kept in files."""
    return replaced(adapter.Permutation, "SHORT", length)


def run_python(code, *flags, data_in=b"", env=None, unset=()):
    """A child under the preload: (stdout, stderr)."""
    environment = {k: v for k, v in os.environ.items() if k not in unset}
    done = subprocess.run([sys.executable, *flags, "-c", code], input=data_in, check=False,
                          capture_output=True, env={**environment, **(env or {})}, timeout=60)
    if done.returncode:
        raise AssertionError("child failed: %s" % done.stderr.decode())
    return done.stdout.decode(), done.stderr.decode()


class Case(unittest.TestCase):
    """With DLIO's arguments at hand."""

    maxDiff = 1000

    def setUp(self):
        self.random = random.Random(self.id())
        config.ConfigArguments.reset()
        self.args = config.ConfigArguments.get_instance()
        self.args.logger = types.SimpleNamespace(
            **dict.fromkeys(("debug", "info", "warning", "error"), lambda *a, **k: None))
        self.addCleanup(lambda: [os.unlink(f) for f in permutation_files()])

    def same(self, ours, theirs, *what):
        """assertEqual, told in a few lines."""
        if ours != theirs:
            self.fail("%s\n  DLIO:    %.600s\n  adapter: %.600s" % (what, theirs, ours))


# ---- FileList ---------------------------------------------------------------------------------


class TestFileList(Case):
    """FileList against list."""

    def both(self, rounds=150):
        """Lists and FileLists of the same elements, cut, permuted, copied and pickled."""
        for i in range(rounds):
            real, lazy = pair(size=self.random.randint(0, FEW))
            for _ in range(self.random.randint(0, 4)):
                if self.random.random() < .4:
                    shuffle_both(real, lazy, i)
                else:
                    part = self.slice()
                    real, lazy = real[part], lazy[part]
                if self.random.random() < .5:
                    lazy = self.random.choice((copy.copy, copy.deepcopy, again,
                                               lambda x: x.copy()))(lazy)
            self.assertIs(type(lazy), adapter.FileList)
            yield real, lazy

    def slice(self):
        def bound():
            return self.random.choice((None, 0, 1, -1, 100, -100, self.random.randint(-70, 70)))
        return slice(bound(), bound(), self.random.choice((None, 1, -1, 2, -3, 7, -50)))

    def equal(self, what, function, real, lazy):
        def call(files):
            try:
                return function(files)
            except Exception as error:  # pylint: disable=broad-except
                return type(error)
        self.same(call(lazy), call(real), what)

    def test_reading(self):
        for real, lazy in self.both():
            for name, function in {
                    "len": len, "bool": bool, "list": list, "tuple": tuple, "sorted": sorted,
                    "set": set, "max": max, "json": json.dumps, "join": ",".join,
                    "reversed": lambda x: list(reversed(x)), "star": lambda x: [*x, 1],
                    "map": lambda x: list(map(os.path.basename, x)),
                    "array": lambda x: (np.array(x).tolist(), np.array(x).dtype.kind, np.shape(x)),
                    "argsort": lambda x: np.argsort(x).tolist(),
                    "extend": lambda x: (lambda y: y.extend(x) or y)(["q"]),
                    "choice": lambda x: random.Random(1).choice(x),
                    "sample": lambda x: random.Random(1).sample(x, min(3, len(x))),
                    "permutation": lambda x: np.random.RandomState(1).permutation(x).tolist(),
                    "hash": hash, "isinstance": lambda x: isinstance(x, list)}.items():
                self.equal(name, function, real, lazy)

    def test_indexes(self):
        for real, lazy in self.both(60):
            for i in [self.random.randint(-70, 70) for _ in range(10)] + [
                    0, -1, len(real), -len(real), -len(real) - 1, np.int64(-3), np.int32(3),
                    np.uint8(9), True, 1.0, "1", None, (1,), 1 << 70]:
                self.equal(("item", i), lambda x, i=i: x[i], real, lazy)
            part = self.slice()
            self.assertIs(type(lazy[part]), adapter.FileList)
            self.equal(("slice", part), lambda x, part=part: list(x[part]), real, lazy)
        with self.assertRaisesRegex(IndexError, "^list index out of range$"):
            pair()[1][FEW]  # pylint: disable=expression-not-assigned

    def test_search(self):
        known = pair()[0]
        odd = ["", "nope", data(FEW), data(FEW) + "/", known[3] + "/", known[3] + "\0", "\0",
               known[3].replace("/f", "//f"), known[0] + "\udc80", 3, None, b"x", known]
        for real, lazy in self.both(60):
            for path in self.random.sample(known, 9) + odd + [np.str_(known[2])]:
                low, high = self.random.randint(-70, 70), self.random.randint(-70, 70)
                self.equal(("in", path), lambda x, p=path: p in x, real, lazy)
                self.equal(("count", path), lambda x, p=path: x.count(p), real, lazy)
                self.equal(("index", path), lambda x, p=path: x.index(p), real, lazy)
                self.equal(("index", path, low, high),
                           lambda x, p=path, a=low, b=high: x.index(p, a, b), real, lazy)

    def test_operators(self):
        for real, lazy in self.both(60):
            self.assertTrue(real == lazy and lazy == real and lazy == lazy.copy())
            self.assertFalse(real != lazy or lazy != real)
            for name, function in {
                    "add": lambda x: x + ["x"], "radd": lambda x: ["x"] + x,
                    "add self": lambda x: x + x, "add tuple": lambda x: x + ("x",),
                    "iadd": lambda x: (lambda y: y.__iadd__(x))(["q"]), "mul": lambda x: x * 2,
                    "eq tuple": lambda x: x == tuple(x), "eq None": lambda x: x == None,  # noqa
                    "ne longer": lambda x: x != list(x) + ["x"], "lt": lambda x: x < ["/z"],
                    "ge": lambda x: x >= ["/z"]}.items():
                self.equal(name, function, real, lazy)

    def test_many(self):
        """More names than one call to the listing gives."""
        real, lazy = pair(MANY)
        self.assertGreater(MANY, 2 * adapter.CHUNK)
        self.same(list(lazy), real)
        for part in (slice(1000, 2100), slice(1, None), slice(None, -1), slice(None, None, -1)):
            self.same(list(lazy[part]), real[part], part)
        self.assertTrue(shuffle_both(real, lazy, 1))
        self.same(list(lazy), real)

    def test_copies(self):
        for real, lazy in self.both(20):
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                self.same(list(again(lazy, protocol)), real, protocol)
            for twin in (copy.copy(lazy), copy.deepcopy(lazy), again(lazy), lazy[:]):
                config.np.random.shuffle(twin)  # the copy's order is its own
                self.same(list(lazy), real)

    def test_constant_size(self):
        """Text, size and pickle do not grow with the list, nor are names read for them."""
        def refuse(*_):
            raise AssertionError("a name was read")
        _, lazy = pair(MANY)
        with replaced(adapter.Listing, "name", refuse), \
                replaced(adapter.Listing, "names", refuse):
            self.assertLess(len(f"{lazy}"), 300)
            self.assertLess(len("%s %r" % (lazy, lazy)), 600)
            self.assertLess(len(pickle.dumps(lazy)), 1000)
            self.assertLess(sys.getsizeof(lazy), 200)
            self.assertEqual(len(lazy[5:][::-7]), len(range(MANY)[5:][::-7]))

    def test_mutators(self):
        real, lazy = pair()
        for change in (
                lambda x: x.append("a"), lambda x: x.extend(["a"]), lambda x: x.insert(0, "a"),
                lambda x: x.remove(real[0]), lambda x: x.pop(), lambda x: x.clear(),
                lambda x: x.sort(), lambda x: x.reverse(), lambda x: x.__setitem__(0, "a"),
                lambda x: x.__setitem__(slice(0, 1), []), lambda x: x.__delitem__(0),
                lambda x: operator.iadd(x, ["a"]), lambda x: operator.imul(x, 2),
                random.Random(1).shuffle):
            with self.assertRaisesRegex(TypeError, "read-only"):
                change(lazy)
        self.same(list(lazy), real)

    def test_made_by_type(self):
        """Code that makes a list of the type it was given."""
        real, lazy = pair()
        for made in (type(lazy)(x + "!" for x in lazy), type(lazy)(lazy), type(lazy)()):
            self.assertIs(type(made), list)
        self.assertEqual(type(lazy)(x + "!" for x in lazy), [x + "!" for x in real])


# ---- maps -------------------------------------------------------------------------------------


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
                 "seed_change_epoch", "data_loader", "storage_type")
        return {name: str(getattr(self.args, name)) for name in names}

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
                self.assertIsInstance(made, adapter.SampleMap)
                self.same(exact(made), exact(theirs), what)
                self.same(exact(list(made)), exact(list(theirs)), what, "keys")
                self.same(exact(list(made.values())), exact(list(theirs.values())), what)
                self.assertEqual(len(made), len(theirs))
                self.assertTrue(made == theirs and dict(made) == theirs)
                for key in (-1, 0, total - 1, total, np.int64(0), 1.5, "0", None, *theirs):
                    self.assertEqual(key in made, key in theirs, (what, key))
                    self.same(exact(made.get(key, "none")), exact(theirs.get(key, "none")), key)
                    if key not in theirs:
                        with self.assertRaises(KeyError) as caught:
                            made[key]  # pylint: disable=pointless-statement
                        self.assertEqual(caught.exception.args, (key,))
        self.assertEqual(seen, {"dict", "IndexError"} if plain else {"tuple"})

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
            theirs, ours = (function(self.args, files, total, epoch) for function, files in
                            ((method.__wrapped__, real), (method, lazy)))
            if isinstance(theirs, tuple):
                theirs, ours = theirs[0], ours[0]
            part = slice(self.random.choice((None, -3, 1)), self.random.choice((None, 5, -1)),
                         self.random.choice((None, -1, 2)))
            for thread, samples in theirs.items():
                for lazily in (ours[thread], again(ours[thread])):
                    self.assertIs(type(lazily), adapter.ThreadSamples)
                    self.same(exact(lazily), exact(samples), what)
                    self.same(exact(lazily[part]), exact(samples[part]), what, part)
                    self.same(exact(list(reversed(lazily))), exact(samples[::-1]), what)
                    self.assertEqual(bool(lazily), bool(samples))
        self.assertEqual(raised, {"ZeroDivisionError"})


# ---- shuffles ---------------------------------------------------------------------------------


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
        make = adapter.Permutation._make.__func__
        counted = classmethod(lambda cls, *a: made.append(a[0]) or make(cls, *a))
        with short(4), replaced(adapter.Permutation, "_make", counted):
            self.epochs(40)
        self.assertGreater(len(made), 40)
        self.assertTrue(set(permutation_files()) >= {made[-1]})
        self.assertLess(len(permutation_files()), 20)  # old ones are removed

    def test_shared(self):
        """Two processes, alike seeded, make each permutation once, and remove all at their end."""
        context = multiprocessing.get_context("spawn")
        barrier, answers = context.Barrier(2), context.Queue()
        _, lazy = pair()
        children = [context.Process(target=shuffle_with_others, args=(lazy, barrier, answers))
                    for _ in range(2)]
        for child in children:
            child.start()
        told = [answers.get(timeout=60) for _ in children]
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

        def files():
            # That of the first epoch went with the third's.
            found = glob.glob(os.path.join(CACHE, "perm-*.perm"))
            self.assertEqual(len(found), 2)
            return found

        def rewrite(text):
            for file in files():
                os.unlink(file)
                with open(file, "wb") as stream:
                    stream.write(text)
        header = adapter.Permutation.HEADER
        other = pickle.dumps(("0" * 32, FEW, np.random.get_state()))
        with short(4):
            epochs()
            for name, text in (("empty", b""), ("zeros", bytes(header + 4 * FEW)),
                               ("no pickle", b"x" * (header + 4 * FEW)),
                               ("another's", other.ljust(header + 4 * FEW, b"\0"))):
                with self.subTest(name):
                    rewrite(text)
                    epochs()
            with self.subTest("cut off"):
                for file in files():
                    os.truncate(file, header + 10)
                epochs()
            with self.subTest("removed"):
                for file in files():
                    os.unlink(file)
                epochs()

    def test_failing_calls(self):
        def fail(*_args, **_named):
            raise OSError(122, "Disk quota exceeded")
        for owner, name in ((os, "rename"), (os, "posix_fallocate"),
                            (adapter.Permutation, "_map")):
            with self.subTest(name), short(4):
                real, lazy = pair()
                with stderr() as said, replaced(owner, name, fail):
                    for epoch in range(3):
                        self.assertTrue(shuffle_both(real, lazy, epoch), "state")
                self.assertIn("no shared permutation", said[0])
                self.same(list(lazy), real)
                self.assertEqual(glob.glob(os.path.join(CACHE, "*.tmp.*")), [])
                for file in permutation_files():
                    os.unlink(file)

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


def shuffle_with_others(lazy, barrier, answers):
    load()
    made = []
    make = adapter.Permutation._make.__func__
    adapter.Permutation._make = classmethod(lambda cls, *a: made.append(1) or make(cls, *a))
    orders = []
    with short(4):
        for epoch in range(4):
            barrier.wait(30)
            np.random.seed(epoch)
            config.np.random.shuffle(lazy)
            orders.append((list(lazy), state()))
    answers.put((orders, len(made)))
    barrier.wait(30)


# ---- loaders and readers ----------------------------------------------------------------------


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
        self.assertIs(type(sampler.indices), adapter.Indices)

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
                maps = args.build_sample_map_iter(files, total, 1)
                args.train_file_map = maps[0] if isinstance(maps, tuple) else maps
                reader = Reader(DatasetType.TRAIN, 1)
                calls += [batch.tolist() for batch in reader.next()]
                for sample in random.Random(1).choices(range(total), k=60):
                    reader.read_index(sample, 1)
                made.append((calls, {k for k, v in reader.open_file_map.items() if v}))
            self.assertIs(type(reader.open_file_map), adapter.OpenFiles)
            self.assertNotIn(None, reader.open_file_map.values())
            self.same(made[1], made[0], read_type)

    def test_open_files_as_dict(self):
        """DLIO's questions to it, against a dict."""
        theirs, ours = {}, adapter.OpenFiles()
        for i in range(500):
            path = self.random.choice("abcdef")
            for files in (theirs, ours):
                files[path] = None if i % 3 else i
            for path in "abcdefg":
                closed = [path not in files or files[path] is None for files in (theirs, ours)]
                self.assertEqual(closed[0], closed[1])
                self.assertIs(ours[path], theirs.get(path))
        self.assertEqual(ours, {k: v for k, v in theirs.items() if v is not None})


# ---- other processes --------------------------------------------------------------------------


class TestChildren(Case):
    """Sample maps and lists in workers, which need not import DLIO for it."""

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
                given, unpickled, imported = answers.get(timeout=60)
                child.join()
                self.same(given, exact(expected), start)
                self.same(unpickled, exact(expected), start)
                self.assertEqual(imported, start == "fork")
                self.assertEqual(child.exitcode, 0)
        self.same(exact(objects), exact(expected))  # a child's end takes nothing away


def describe(objects, text, answers):
    try:
        answers.put((exact(objects), exact(pickle.loads(text)), "dlio_benchmark" in sys.modules))
    except Exception as error:  # pylint: disable=broad-except
        answers.put((repr(error), None, None))


# ---- packages ---------------------------------------------------------------------------------


class TestPackages(Case):
    """A DLIO that is not known, and none."""

    STUB = {"__init__.py": "", "main.py": "", "storage/__init__.py": "",
            "storage/file_storage.py": "class FileStorage:\n    def walk_node(self): pass\n",
            "utils/__init__.py": "",
            "utils/config.py":
                "class ConfigArguments:\n    def derive_configurations(self): pass\n"}

    def test_unknown(self):
        folder = os.path.join(WORK, "stub")
        for name, text in self.STUB.items():
            path = os.path.join(folder, "dlio_benchmark", name)
            touch(path)
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)
        said, warned = run_python(
            "import sys; before = list(sys.meta_path)\n"
            "import dlio_benchmark.main, dlio_benchmark.utils.config as c\n"
            "import dlio_benchmark.storage.file_storage as f, _libshard\n"
            "print(f.__file__.startswith(%r), _libshard._dlio, sys.meta_path == before,\n"
            "      hasattr(c.ConfigArguments.derive_configurations, '__wrapped__'),\n"
            "      hasattr(f.FileStorage.walk_node, '__wrapped__'))" % folder,
            env={"PYTHONPATH": folder})
        self.assertEqual(said, "True None True False False\n")
        self.assertEqual(len(warned.splitlines()), 1, warned)
        self.assertIn("DLIO runs unmodified", warned)
        self.assertIn("is not a version known to libshard", warned)

    def test_absent(self):
        """A program that only tries to import DLIO keeps its shard view."""
        folder, shares = data(FEW), []
        for rank in range(4):
            said, warned = run_python(
                "import json, os\n"
                "a = os.listdir(%r)\n"
                "try:\n    import dlio_benchmark\n    raise SystemExit('it is there')\n"
                "except ImportError: pass\n"
                "print(json.dumps([a, os.listdir(%r)]))" % (folder, folder), "-S",
                env={"SHARD_DATASET": folder, "SHARD_RANK": str(rank), "SHARD_SIZE": "4"},
                unset=("PYTHONPATH",))
            before, after = json.loads(said)
            self.assertEqual((sorted(before), warned), (sorted(after), ""))
            self.assertEqual(len(after), FEW // 4)
            shares += after
        self.assertEqual(sorted(shares), sorted(os.listdir(folder)))


# ---- TensorFlow -------------------------------------------------------------------------------


class TestTensorFlow(Case):
    """list_files(FileList).shard() as DLIO's reader calls it."""

    NAMES = ("a", "B", "z", "-", " ", "é", "ß", "日", "~", "!", "$", "'", "{", "^", "%")

    @classmethod
    def setUpClass(cls):
        try:
            import tensorflow
        except ImportError:
            raise unittest.SkipTest("no TensorFlow") from None
        import dlio_benchmark.reader.tf_reader as reader

        cls.theirs, cls.ours = tensorflow, reader.tf

    def layouts(self):
        """(what, folder as DLIO makes its list, FileList)."""
        for what in ("flat", "folders", "flat glob", "folders glob", "flat [ab]"):
            folder = os.path.join(WORK, "tf-" + what.replace(" ", "-"), "train")
            alphabet = self.NAMES + (("*", "?", "[", "]", "\\") if "glob" in what else ())
            names = sorted({"".join(self.random.choices(alphabet, k=self.random.randint(1, 4)))
                            + "%d.tfrecord" % i for i in range(40)})
            if "folders" in what:
                names = ["%s/%s" % (self.random.choice(("s1", "s-10", "S", "s é")), name)
                         for name in names]
            touch(*(os.path.join(folder, name) for name in names))
            storage = types.SimpleNamespace(get_uri=lambda path: path)
            if "folders" in what:
                files = glob.glob(folder + "/*/*.tfrecord")
                real = [files[i] for i in np.argsort([os.path.basename(x) for x in files])]
                lazy = adapter._subfolders(storage, folder, "tfrecord")
            else:
                real = sorted(os.path.join(folder, x) for x in os.listdir(folder))
                lazy = adapter._flat(storage, folder, "tfrecord")
            self.same(list(lazy), real, what)
            yield what, real, lazy

    def names(self, tf, files, ranks, rank):
        """As TFReader.next() has them."""
        self.lazily = False
        names = tf.data.Dataset.list_files(files, shuffle=False)
        self.lazily = isinstance(names, adapter._TfFiles)
        if len(files) >= ranks:
            names = names.shard(num_shards=ranks, index=rank)
        return str(names.element_spec), [name.numpy() for name in names]

    def test_list_files(self):
        lazily = 0
        for what, all_real, all_lazy in self.layouts():
            for size in (1, 7, 39, 40):  # trimmed, but for the last
                real, lazy = all_real[:size], all_lazy[:size]
                if size != 39:
                    shuffle_both(real, lazy, size)
                for ranks in sorted({1, 3, size, size + 1}):
                    self.args.comm_size = ranks
                    for rank in sorted({0, ranks - 1}):
                        made = []
                        for tf, files in ((self.theirs, real), (self.ours, lazy)):
                            made.append(outcome(self.names, tf, files, ranks, rank))
                            lazily += self.lazily
                        self.same(made[1], made[0], what, size, ranks, rank)
        self.assertGreater(lazily, 20)


# ---- the run ----------------------------------------------------------------------------------

CASES = (TestFileList, TestMaps, TestShuffle, TestLoaders, TestChildren, TestPackages,
         TestTensorFlow)  # TensorFlow's threads are not forked


def restart(preload):
    """This script once more, under the preload."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SHARD_")}
    with tempfile.TemporaryDirectory(prefix="adapter-units-") as work:
        env.update(LD_PRELOAD=preload, ADAPTER_UNITS_WORK=work, PYTHONDONTWRITEBYTECODE="1",
                   SHARD_CACHE_DIR=os.path.join(work, "cache"), TF_CPP_MIN_LOG_LEVEL="3")
        return subprocess.run([sys.executable, *sys.argv], env=env, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preload", default=os.path.join(REPO, "build", "libshard.so"))
    options, rest = parser.parse_known_args()
    if not WORK:
        return restart(":".join(map(os.path.abspath, options.preload.split(":"))))
    try:
        load()
    except ImportError as error:
        print("the adapter is not active in %s: %r" % (sys.executable, error))
        print("0 passed, 1 failed")
        return 1
    print("DLIO in %s, %s" % (adapter._dlio.folder, adapter.LIBRARY), flush=True)

    def load_tests(loader, _tests, _pattern):
        return unittest.TestSuite(map(loader.loadTestsFromTestCase, CASES))
    sys.modules["__main__"].load_tests = load_tests
    result = unittest.main(argv=[sys.argv[0], *rest], exit=False).result
    failed = {getattr(test, "test_case", test).id()
              for test, _ in result.failures + result.errors}
    skipped = {test.id() for test, _ in result.skipped}
    # A class that is skipped, or whose setUpClass() fails, counts for none of its tests.
    passed = max(result.testsRun - len([t for t in failed | skipped if "(" not in t]), 0)
    print("%d passed, %d failed" % (passed, len(failed)))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
