"""What DLIO has made of its files, compressed: its forms, what has none, what is put back, planted faults."""
import multiprocessing
import os
import pickle
import types

import numpy as np
from _libshard import columns, compressing, native
from _libshard.mapped_listing import Listing

from . import case
from .case import Case, config
from .plain import FEW, WORK, again, describe, exact, replaced, stderr

KINDS = (int, np.int64, np.int32, np.uint8, np.uint64, np.longlong)


def paths(count=FEW, folder="/data/set"):
    """Paths of files that need not be there."""
    return ["%s/f%05d.npz" % (folder, i) for i in range(count)]


def odd():
    """Paths in no order, some twice, some below nothing in common, some of no encoding."""
    return ["b", "a", "/x/é ü", "b", "../c//d/", "s3://bucket/a b", "/x/\udcff", "./\n", "日本", "/", " "] + paths(5)


def maps(files):
    """Maps of each shape, and of each type of number."""
    count = len(files)
    order = np.random.RandomState(3).permutation(count)
    yield {i: (files[i], 0) for i in range(count)}
    yield {i: files[i] for i in range(count)}
    for kind in KINDS:
        yield {kind(i): (files[i // 3], kind(i % 3)) for i in range(count)}
        yield {kind(i): (kind(7), files[-i], kind(i * i % 200), files[0]) for i in order}
        yield [(kind(i), files[i], kind(i % 2)) for i in order]
    yield {1 << 62: (files[0], -1), -(1 << 62): (files[1], 1 << 40), 0: (files[0], 3)}
    yield {5: (files[0], 1)}
    yield [(files[i], int(i) - 5, np.int8(-i)) for i in order]
    yield [(one,) for one in files]


def compressed(real, known):
    """What compressed() makes, if it is the same, as put() compares it; NotCompressible."""
    made = columns.compressed(real, known)
    same = columns.loops.same(made, real)
    if same != len(real):
        raise columns.NotCompressible("its compressed form differs in element %d" % same)
    return made


class Compressing(Case):
    """With few elements, and DLIO's own loader."""

    def setUp(self):
        super().setUp()
        if not columns.AVAILABLE:
            self.skipTest("this interpreter has no functions of C")
        self.args.data_loader = config.DataLoaderType.PYTORCH
        self.args.format = config.FormatType.NPZ
        for name, value in (("MANY", 8), ("enabled", True), ("_benchmark", None)):
            change = replaced(compressing, name, value)
            change.__enter__()  # pylint: disable=unnecessary-dunder-call
            self.addCleanup(change.__exit__, None, None, None)
        native._said.clear()
        self.addCleanup(compressing.put_back)

    def compress(self, **attributes):
        """Compress attributes of the arguments: the compressed ones, and what was said."""
        vars(self.args).update(attributes)
        attributes.clear()  # else it would have them, too
        with replaced(compressing, "_say", lambda text, *values: said.append(text % values)):
            said = []
            compressing.compress(self.args)
        return said


class TestForms(Compressing):
    """Lists and maps that have a compressed form."""

    def test_lists(self):
        for real in (paths(), paths(2500), odd(), ["a"] * 20, sorted(paths(), reverse=True), paths(1),
                     ["/x/" + "y" * n for n in range(1, 200)]):
            made = compressed(real, [])
            self.assertIs(type(made), columns.Paths)
            self.same(exact(made), exact(real))
            self.assertEqual((made == real, real == made, made != real, len(made)), (True, True, False, len(real)))
            for one in (real[0], real[-1], "none", 3):
                self.assertEqual((one in made, made.count(one)), (one in real, real.count(one)))
            self.assertEqual([made.index(one) for one in real], [real.index(one) for one in real])
            self.assertEqual(case.outcome(made.index, real[-1], 1)[0][0], case.outcome(real.index, real[-1], 1)[0][0])
            self.same(exact(again(made)), exact(real))

    def test_maps(self):
        files = paths()
        for real in maps(files):
            for known in ([], [(compressed(files, []), files)]):
                made = compressed(real, known)
                self.same(exact(made), exact(real), real)
                self.assertLess(len(repr(made)), 200)
                self.same(exact(again(made)), exact(real))
                self.assertEqual((made == real, len(made), bool(made)), (True, len(real), True))
                if known:
                    self.assertIs(made._paths.listing, known[0][0].listing)

    def test_keys(self):
        """As a dict finds them: what hashes or compares as another than the int is none."""
        class Index:
            """Not equal to the int."""

            def __index__(self):
                return 3

        class Equal(Index):
            """Equal to the int, with another hash."""

            def __eq__(self, other):
                return other == 3

            def __hash__(self):
                return 4

        class Same(Equal):
            """As the int."""

            def __hash__(self):
                return 3

        real = {int(i): ("/a/%d" % i, 1) for i in np.random.RandomState(1).permutation(50)}
        made = compressed(real, [])
        for key in (3, True, 3.0, np.int8(3), np.float32(3), 3.5, "3", -1, 50, 1 << 80, None, [], {}, float("inf"), Index(),
                    Equal(), Same()):
            self.assertEqual(case.outcome(made.__getitem__, key), case.outcome(real.__getitem__, key), key)
            self.assertEqual(case.outcome(lambda one, key=key: one.get(key, 7), made),
                             case.outcome(lambda one, key=key: one.get(key, 7), real))
            self.assertEqual(case.outcome(made.__contains__, key), case.outcome(real.__contains__, key))
        for read in (list, len, dict, lambda one: list(one.items()), lambda one: list(one.values()), sorted):
            self.assertEqual(read(made), read(real))

    def test_slices_are_lists(self):
        rows = [(i, one) for i, one in enumerate(paths())]
        for real in (paths(), rows):
            made = compressed(real, [])
            for part in (slice(None), slice(3, 9), slice(None, None, -2), slice(-3, None), slice(90, 100)):
                self.assertIs(type(made[part]), list)
                self.assertEqual(made[part], real[part])
            for i in (0, -1, len(real) - 1, len(real), -len(real) - 1, 1 << 70, True, "x", 1.0):
                self.assertEqual(case.outcome(made.__getitem__, i)[0][:1], case.outcome(real.__getitem__, i)[0][:1])
            self.assertIs(type(made.copy()), list)

    def test_changes(self):
        for change in (lambda one: one.append("x"), lambda one: one.sort(reverse=True), lambda one: one.extend("ab"),
                       lambda one: one.__setitem__(1, "x"), lambda one: one.pop(), lambda one: one.__iadd__(["x"]),
                       lambda one: np.random.RandomState(1).shuffle(one)):
            real = paths()
            made = compressed(real, [])
            with stderr():
                change(made)
            change(real)
            self.same(exact(made), exact(real))
        real = {i: (one, 1) for i, one in enumerate(paths())}
        made = compressed(real, [])
        with stderr():
            made[3] = real[3] = 4
            del made[5], real[5]
        self.assertEqual(made, real)

    def test_workers(self):
        files = paths()
        real = [files, *maps(files)][:6]
        made = [compressed(one, []) for one in real]
        for start in ("fork", "spawn", "forkserver"):
            with self.subTest(start):
                context = multiprocessing.get_context(start)
                answers = context.Queue()
                child = context.Process(target=describe, args=(made, pickle.dumps(made), answers))
                child.start()
                given, unpickled, _ = answers.get(timeout=900)
                child.join()
                self.same(given, exact(real), start)
                self.same(unpickled, exact(real), start)
        self.same(exact(made), exact(real))  # a child's end takes nothing away


class TestUnfit(Compressing):
    """What has no compressed form stays as it is."""

    def test_forms(self):
        files = paths()

        class Text(str):
            """No str."""

        for real in (files + [np.str_("a")], [Text(one) for one in files], files + [Text("a")], files + [""],
                     files + ["a\0b"], files + [b"a"], files + [3], files + [None], files + ["\ud800"],
                     files + ["x" * 5000],
                     {i: (one, 1.5) for i, one in enumerate(files)}, {i: (one, True) for i, one in enumerate(files)},
                     {i: [one, 1] for i, one in enumerate(files)}, {one: (one, 1) for one in files},
                     {i: (one, i if i else True) for i, one in enumerate(files)},
                     {**dict(enumerate((one, 1) for one in files)), 99: (files[0], np.int64(1))},
                     {**dict(enumerate((one, 1) for one in files)), np.int64(99): (files[0], 1)},
                     {**dict(enumerate((one, 1) for one in files)), 99: (files[0],)},
                     {**dict(enumerate((one, 1) for one in files)), 99: (files[0], 1 << 64)},
                     {**dict(enumerate((one, 1) for one in files)), 99: files[0]},
                     [(i, Text(one)) for i, one in enumerate(files)], [(1, 2)] * 20, [types.SimpleNamespace()] * 20,
                     [(i, one) for i, one in enumerate(files)] + [[1, "a"]]):
            with self.assertRaises((columns.NotCompressible, OSError)):
                compressed(real, [])

    def test_lines(self):
        said = self.compress(file_list_train=paths(), other=[np.str_(one) for one in paths()], numbers=list(range(20)))
        self.assertEqual(len(said), 2, said)
        self.assertTrue(any("args.other stays as it is: " in one for one in said), said)
        self.assertIs(type(self.args.other), list)

    def test_loaders(self):
        strange = type("Strange", (), {"__module__": "mine"})
        for change in ({"data_loader": config.DataLoaderType.DALI}, {"data_loader": config.DataLoaderType.TENSORFLOW},
                       {"reader_class": strange}, {"data_loader_class": strange}, {"reader_classname": "mine.Reader"},
                       {"format": config.FormatType.TFRECORD}, {"native_data_loader": True}):
            with self.subTest(change):
                self.setUp()
                with stderr():
                    self.compress(file_list_train=paths(), **change)
                self.assertIs(type(self.args.file_list_train), list)

    def test_cache(self):
        """Without a cache the lists stay, with a line."""
        with replaced(native.Native, "names", lambda self, text: 1 / 0), stderr() as said:
            self.compress(file_list_train=paths())
        self.assertIs(type(self.args.file_list_train), list)
        self.assertIn("stays in memory, as it is: ZeroDivisionError", said[0])


class TestReading(Compressing):
    """What is rarely asked of a map."""

    def test_array(self):
        real = {i: (one, 0) for i, one in enumerate(paths())}
        made = np.array(compressed(real, []))
        self.assertEqual((made.shape, made.dtype), ((), np.dtype(object)))
        self.assertEqual(made.item(), real)

    def test_list_in_loaders(self):
        """`list` is another one only where a module does no more than call it."""
        for text, stands in (("a = list(x)", True), ("def f(y):\n    return list(y)", True), ("isinstance(x, list)", False),
                             ("type(x) is list", False), ("class L(list): pass", False), ("f(list)", False),
                             ("list", False)):
            module = types.ModuleType("dlio_benchmark.data_loader.of_ours")
            loader = types.SimpleNamespace(get_source=lambda name, text=text: text)
            module.__spec__ = types.SimpleNamespace(loader=loader)
            compressing.patch_loader(module)
            self.assertEqual("list" in vars(module), stands, text)
        made = compressed(paths(), [])
        self.assertIs(type(compressing.lazy_list(made)), columns.Paths)
        self.assertEqual((compressing.lazy_list(), compressing.lazy_list("ab")), ([], ["a", "b"]))

    def test_one_mapping(self):
        """The same names again take no more mappings."""
        kept = [compressed(paths(), []) for _ in range(5)]
        with open("/proc/self/maps", encoding="utf-8") as stream:
            found = [line for line in stream if line.rstrip().endswith(kept[0].listing.file)]
        self.assertEqual(len(found), 1)


class TestPlaces(Compressing):
    """What is replaced, and put back."""

    def test_aliases(self):
        real = paths()
        self.compress(file_list_train=real, again=real, few=paths(3), inside={"a": real, "b": {0: paths(9)}})
        del real
        self.assertIs(type(self.args.file_list_train), list)  # `real` was ours, too
        self.compress()
        files = self.args.file_list_train
        self.assertIs(type(files), columns.Paths)
        self.assertIs(self.args.again, files)
        self.assertIs(self.args.inside["a"], files)
        self.assertIs(type(self.args.inside["b"][0]), columns.Paths)
        self.assertIs(type(self.args.few), list)
        compressing.put_back()
        self.assertIs(type(self.args.again), list)
        self.assertIs(self.args.again, self.args.file_list_train)
        self.assertIs(self.args.again, self.args.inside["a"])
        self.assertEqual(self.args.again, paths())

    def test_another_thread(self):
        """Takes what is being compressed, or changes it meanwhile: then it stays."""
        for change in (lambda args: taken.append(args.what), lambda args: args.what.update({3: ("other", 0)}),
                       lambda args: args.what.update({FEW: ("more", 0)}), lambda args: setattr(args, "what", {})):
            taken, own = [], columns.compressed

            def changed(*args, change=change, own=own):
                made = own(*args)
                change(self.args)
                return made

            with self.subTest(change), replaced(columns, "compressed", changed):
                said = self.compress(what={i: (one, 0) for i, one in enumerate(paths())})
                self.assertIs(type(self.args.what), dict)
                self.assertIn("stays as it is", said[0])
                self.assertFalse(compressing._put)

    def test_one_place_is_changed(self):
        """By another thread meanwhile: then the other places stay, too."""
        real, own = paths(), columns.compressed

        def changed(*args):
            made = own(*args)
            self.args.again = None
            return made

        vars(self.args).update(what=real, again=real)
        del real
        with replaced(columns, "compressed", changed):
            self.compress()
        self.assertIs(type(self.args.what), list)
        self.assertEqual((self.args.what, self.args.again, compressing._put), (paths(), None, []))

    def test_read_is_bounded(self):
        """A map that has grown since the room for its columns was made is not read."""
        real, out = {i: (one, 0) for i, one in enumerate(paths())}, bytearray(8 * 3 * FEW)
        self.assertEqual(columns.loops.read(real, (int, str, int), [], True, out), FEW)
        real[FEW] = "more", 0
        self.assertEqual(columns.loops.read(real, (int, str, int), [], True, out), 0)

    def test_list_is_changed_after(self):
        """A map, its copies and its iterators go on as they were."""
        for change in (lambda files: files.append("x"), lambda files: files.reverse(), lambda files: files.clear()):
            real = {i: (one, 0) for i, one in enumerate(paths())}
            self.compress(files=paths(), what=dict(real))
            what = self.args.what
            self.assertIs(type(what), columns.SampleTable)
            with stderr():
                change(self.args.files)
            self.assertEqual(pickle.loads(pickle.dumps(what)), real)
            self.assertEqual(dict(what), real)
            items, keys = iter(what.items()), iter(what)
            seen = [next(items)], [next(keys)]
            compressing.put_back()
            self.assertEqual(seen[0] + list(items), list(real.items()))
            self.assertEqual(seen[1] + list(keys), list(real))

    def test_changed_while_iterated(self):
        self.compress(what={i: (one, 0) for i, one in enumerate(paths())})
        what = self.args.what
        with stderr():
            for key, (one, number) in what.items():
                what[key] = one, number + key
        self.assertEqual(dict(what), {i: (one, i) for i, one in enumerate(paths())})

    def test_others_have_it(self):
        files = paths()
        said = self.compress(file_list_train=files)
        self.assertIs(self.args.file_list_train, files)
        self.assertIn("something else has it", said[0])

    def test_own_objects(self):
        own = type("Map", (), {"__module__": "dlio_benchmark.utils.config"})()
        strange = types.SimpleNamespace(files=paths())
        own.files, own.deeper = paths(), type(own)()
        own.deeper.files = paths(20)
        self.compress(index=own, strange=strange)
        self.assertIs(type(own.files), columns.Paths)
        self.assertIs(type(own.deeper.files), columns.Paths)
        self.assertIs(type(strange.files), list)

    def test_put_back(self):
        """The same elements, of the same types, in the same order; and who has kept a compressed one sees changes."""
        files = paths()
        real = list(maps(files))
        vars(self.args).update(("map%d" % i, one) for i, one in enumerate(maps(files)))
        self.compress(file_list_train=paths())
        kept = self.args.file_list_train, self.args.map3
        compressing.put_back()
        for i, one in enumerate(real):
            self.assertIs(type(getattr(self.args, "map%d" % i)), type(one))
            self.same(exact(getattr(self.args, "map%d" % i)), exact(one))
        with stderr() as said:
            np.random.RandomState(1).shuffle(self.args.file_list_train)
            self.args.map3.clear()
            self.assertEqual(list(kept[0]), self.args.file_list_train)
            self.assertEqual(dict(kept[1]), {})
        self.assertEqual(said, [""])

    def test_changed_meanwhile(self):
        self.compress(file_list_train=paths(), file_list_eval=paths(9))
        with stderr() as said:
            self.args.file_list_train.append("x")
        self.assertIn("a program changes a list", said[0])
        self.args.file_list_eval = own = ["y"]
        compressing.put_back()
        self.assertEqual(self.args.file_list_train, paths() + ["x"])
        self.assertIs(type(self.args.file_list_train), list)
        self.assertIs(self.args.file_list_eval, own)

    def test_reconfigure(self):
        """DLIO's own reconfigure(): on real lists, and then as without libshard."""
        kinds, wrapped = [], config.ConfigArguments.reconfigure.__wrapped__

        def run(files):
            self.args.comm_size, self.args.my_rank, self.args.num_samples_per_file = 2, 1, 2
            self.args.file_list_train, self.args.file_list_eval = files(FEW), files(10)
            self.args.total_samples_train, self.args.total_samples_eval = 2 * FEW, 20
            self.args.data_loader_sampler = config.DataLoaderSampler.INDEX
            for epoch in 1, 2, 3:
                yield case.outcome(self.args.reconfigure, epoch), {
                    name: exact(value) for name, value in vars(self.args).items()
                    if isinstance(value, (list, dict)) or hasattr(value, "_abs_paths")}
                kinds.append(type(self.args.file_list_train))
        with replaced(case.DLIOMPI, "reduce", lambda _self, number: number,  # there is no MPI world
                      new=not hasattr(case.DLIOMPI, "reduce")):
            with replaced(compressing, "enabled", False):
                theirs = list(run(paths))
            self.assertEqual(kinds, [list] * 3)
            self.same(list(run(paths)), theirs)
        self.assertEqual(kinds[3:], [columns.Paths] * 3)
        self.assertTrue(callable(wrapped))


class TestFaults(Compressing):
    """Planted faults: the comparison must find each."""

    def test_same(self):
        files = paths()
        made = compressed(files, [])
        self.assertEqual(columns.loops.same(made, files), len(files))
        for real in (files[:-1], files + ["x"], [*files[:7], files[8], *files[8:]], [*files[:-1], files[-1] + "x"],
                     [*files[:-1], np.str_(files[-1])], []):
            self.assertNotEqual(columns.loops.same(made, real), len(real))
        for real in maps(files):
            made = compressed(real, [])
            self.assertEqual(columns.loops.same(made, real), len(real))
            for other in self.others(real):
                self.assertNotEqual(columns.loops.same(made, other), len(other))

    @staticmethod
    def others(real):
        """The same with one fault each."""
        items = list(real.items() if isinstance(real, dict) else enumerate(real))
        (first, row), like = items[0], dict if isinstance(real, dict) else lambda items: [row for _, row in items]
        fields = row if isinstance(row, tuple) else None
        yield like(items[1:])
        if fields is None:
            yield like([(first, (row,)), *items[1:]])
        for i, one in enumerate(fields or ()):
            more = [one + "x"] if isinstance(one, str) else [one + type(one)(1), float(one)] + [
                kind(int(one) % 100) for kind in KINDS if kind is not type(one)]
            for value in more:
                yield like([(first, (*fields[:i], value, *fields[i + 1:])), *items[1:]])
        yield like([(first, (row, row)), *items[1:]])
        if len(items) > 1 and like is dict:
            yield like([(first, items[1][1]), (items[1][0], row), *items[2:]] if row != items[1][1] else items[1:])
            yield like(items[::-1])
            yield like([(float(first), row), *items[1:]])

    def test_listing(self):
        """A listing of other names."""
        own = Listing.of_names
        for change in (lambda text: text.replace(b"f00007", b"f00008"), lambda text: text[:-len("f00000.npz") - 1],
                       lambda text: text + b"more\0", lambda text: text[11:] + text[:11]):
            with replaced(columns.Listing, "of_names", staticmethod(lambda text, change=change: own(change(text)))):
                with self.assertRaisesRegex(columns.NotCompressible, "differs in element"):
                    compressed(paths(), [])

    def test_columns(self):
        """Columns of other numbers."""
        own = columns._columns

        def planted(change):
            def made(numbers, *rest):
                numbers = numbers.copy()
                change(numbers)
                return own(numbers, *rest)
            return replaced(columns, "_columns", made)

        real = {i: (one, i % 7) for i, one in enumerate(paths())}
        for row in range(3):
            for change in (lambda n, row=row: n[row].__setitem__(9, n[row][9] + 1),
                           lambda n, row=row: n[row].__setitem__(slice(None), n[row][::-1])):
                with planted(change), self.assertRaisesRegex(columns.NotCompressible, "differs in element"):
                    compressed(real, [])

    def test_damage(self):
        """A kept file that is gone, or another's, is an error in a worker."""
        real = {int(i): ("/a/%d" % i, 1) for i in np.random.RandomState(1).permutation(50)}
        text = pickle.dumps(compressed(real, []))
        for file in case.permutation_files():
            if file.endswith(".perm"):
                with open(file, "r+b") as stream:
                    stream.seek(4096)
                    stream.write(b"\1\2\3\4")
        with self.assertRaises(OSError):
            pickle.loads(text)
        self.assertTrue(os.path.isdir(WORK))
