"""FileList against list."""
import bisect
import copy
import ctypes
import gc
import heapq
import json
import marshal
import operator
import os
import pickle
import random
import subprocess
import sys
import threading
import tracemalloc
import weakref
from operator import itemgetter

import _libshard
from _libshard.native import native

from .case import IN_C, Case, config, listing, np, outcome, pair, sequences, shuffle_both
from .plain import FEW, MANY, WORK, again, data, replaced, touch


def extended(values):
    """A list that `+=` extends stays the same one."""
    made = same = ["q"]
    made += values
    return made is same, same


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
            self.assertIs(type(lazy), sequences.FileList)
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
            self.assertIs(type(lazy[part]), sequences.FileList)
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
                    "add": lambda x: x + ["x"],
                    "add self": lambda x: x + x, "add tuple": lambda x: x + ("x",),
                    "iadd": lambda x: (lambda y: y.__iadd__(x))(["q"]), "extended": extended,
                    "operator": lambda x: (lambda y: (operator.iadd(y, x), y))(["q"]),
                    "mul": lambda x: x * 2,
                    "eq tuple": lambda x: x == tuple(x), "eq None": lambda x: x == None,  # noqa
                    "ne longer": lambda x: x != list(x) + ["x"], "lt": lambda x: x < ["/z"],
                    "ge": lambda x: x >= ["/z"]}.items():
                self.equal(name, function, real, lazy)

    def test_added_to_another(self):
        """`a += files` extends a list; `a + files` is an error that names the remedy, for a list that has changed, too."""
        real, lazy = pair()
        grown = lazy[:]
        grown.append("more")
        for files in lazy, grown:
            for add in (lambda x: ["x"] + x, lambda x: sum([x, ["y"]], []), lambda x: operator.add(["q"], x)):
                with self.assertRaisesRegex(TypeError, "SHARD_ADAPTER=off keeps real ones"):
                    add(files)
            other = ["q"]
            other += files
            self.same(other, ["q", *files])

    def test_many(self):
        """More names than one call to the listing gives."""
        real, lazy = pair(MANY)
        self.assertGreater(MANY, 2 * sequences.CHUNK)
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
        with replaced(listing.Listing, "name", refuse):  # and C could not make one yet
            self.assertLess(len(f"{lazy}"), 300)
            self.assertLess(len("%s %r" % (lazy, lazy)), 600)
            self.assertLess(len(pickle.dumps(lazy)), 1000)
            self.assertLess(sys.getsizeof(lazy), 200)
            self.assertEqual(len(lazy[5:][::-7]), len(range(MANY)[5:][::-7]))
            self.assertIs(lazy._recipe, None if IN_C else ())

    def test_changes(self):
        """Who changes one has a list from then on, and so have all who hold it; views have not."""
        known = pair()[0]
        for change in (
                lambda x: x.append("a"), lambda x: x.extend(["a"]), lambda x: x.insert(0, "a"),
                lambda x: x.remove(known[0]), lambda x: x.pop(), lambda x: x.clear(),
                lambda x: x.sort(reverse=True), lambda x: x.reverse(),
                lambda x: x.__setitem__(0, "a"), lambda x: x.__setitem__(slice(0, 1), []),
                lambda x: x.__delitem__(0), lambda x: operator.iadd(x, ["a"]),
                lambda x: operator.imul(x, 2), lambda x: x.pop("no"), lambda x: x.remove("no"),
                lambda x: random.Random(1).shuffle(x), lambda x: np.random.RandomState(1).shuffle(x)):
            real, lazy = pair()
            held, view = [lazy], lazy[:]
            self.equal("change", lambda x, c=change: c(x) is x, real, lazy)
            self.same(list(held[0]), real)
            self.same([list(view), type(view)], [known, sequences.FileList])
            for name, function in {
                    "len": len, "bool": bool, "repr": repr,
                    "add": lambda x: x + ["x"], "add self": lambda x: x + x,
                    "index": lambda x: x.index(x[0]), "slice": lambda x: x[1:5],
                    "again": lambda x: (type(again(x)), again(x)), "copy": copy.copy, "eq": lambda x: x == real,
                    "deep": copy.deepcopy, "isinstance": lambda x: isinstance(x, list),
                    "iadd": lambda x: operator.iadd(x, ["z"]) is x, "hash": hash}.items():
                self.equal(name, function, real, lazy)
            self.assertEqual(real, list(lazy))

    def test_changed_while_read(self):
        """Who iterates over a list that is changed meanwhile sees what is changed, as with a list."""
        def walk(values, backward, change):
            seen = []
            for value in reversed(values) if backward else values:
                seen.append(value)
                if len(seen) % 7 == 3 and len(seen) < 40:
                    change(values, value)
            return seen, list(values)
        for backward in (False, True):
            for step in (1, -1, 3):
                for change in (lambda x, v: x.remove(v), lambda x, v: x.append("more"),
                               lambda x, v: x.insert(0, "z"), lambda x, _: x.__setitem__(5, "Z"),
                               lambda x, v: x.clear(), lambda x, v: x.sort(reverse=True)):
                    real, lazy = pair()
                    self.same(walk(lazy[::step], backward, change), walk(real[::step], backward, change))
        real, lazy = pair()
        real[:], lazy[:] = reversed(real), reversed(lazy)
        self.same(list(lazy), real)
        self.same(walk(sequences.Indices(3, 90), False, lambda x, v: x.remove(v)),
                  walk(list(sequences.Indices(3, 90)), False, lambda x, v: x.remove(v)))

    def test_iterators(self):
        """As a list's: shared by threads, copied, pickled, of a known length, ended for good."""
        for step in (1, -2):
            for start in (iter, reversed):
                real, lazy = pair(MANY)
                real, lazy = real[::step], lazy[::step]
                its = start(lazy)
                theirs = start(real)
                for _ in range(7):
                    next(its), next(theirs)
                self.assertEqual(operator.length_hint(its), operator.length_hint(theirs))
                twins = copy.copy(its), again(its)
                rest = list(theirs)
                self.same([list(one) for one in (*twins, its)], [rest] * 3)
                lazy.append("more")
                self.same([list(its), operator.length_hint(its), list(copy.copy(its))], [[], 0, []])
        shared, found = iter(pair(MANY)[1]), []
        threads = [threading.Thread(target=lambda: found.extend(shared)) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.same(sorted(found), pair(MANY)[0])

    def test_changed_by_threads(self):
        """Threads that change a list at once change the same one."""
        for _ in range(20):
            lazy = pair(MANY)[1]
            start = threading.Barrier(4)

            def add(text, files=lazy, barrier=start):
                barrier.wait()
                files.append(text)
            threads = [threading.Thread(target=add, args=(str(i),)) for i in range(4)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            self.same(sorted(lazy[MANY:]), ["0", "1", "2", "3"])

    def test_code_in_c(self):
        """Code that looks into the memory of a list gets the names, or an error: never none."""
        real, lazy = pair()
        for function in (list.copy, lambda x: operator.concat([], x), lambda x: list.__add__([], x),
                         lambda x: list.__len__(x), lambda x: list.__getitem__(x, 0),
                         lambda x: os.execv("/nowhere", x), lambda x: list.__mul__(x, 1),
                         lambda x: marshal.dumps(x), lambda x: heapq.heapify(x) or x[0],
                         lambda x: bisect.bisect(x, "z"), lambda x: "".join(x),
                         lambda x: ctypes.pythonapi.PyList_Size(ctypes.py_object(x)),
                         itemgetter(3), list.__iter__):
            try:
                made = function(lazy)
            except (TypeError, ValueError, SystemError) as error:
                self.assertNotIn("index", str(error))
            else:
                theirs = function(pair()[0])
                self.same(list(made) if isinstance(theirs, list) else made, theirs)

    def test_made_by_type(self):
        """Code that makes a list, or a dict, of the type it was given."""
        grown = pair()[1]
        grown.append("more")
        for files in sequences.Indices(3, 9), grown:
            for made in type(files)(x for x in files), type(files)(files), type(files)():
                self.same((type(made), made), (list, list(files) if made else []))
        samples = sequences.SampleMap(range(5), 2, 9, 2)
        self.assertEqual(type(samples)((k, v) for k, v in samples.items()), dict(samples))
        samples[3] = 4
        self.same([type(samples)(samples), type(type(samples)())], [dict(samples), dict])
        real, lazy = pair()
        for made in (type(lazy)(x + "!" for x in lazy), type(lazy)(lazy), type(lazy)()):
            self.assertIs(type(made), list)
        self.assertEqual(type(lazy)(x + "!" for x in lazy), [x + "!" for x in real])


class Position:
    """An index of a class of its own."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


class TestElements(Case):
    """What C makes of an index, against what Python makes of it."""

    def setUp(self):
        super().setUp()
        os.environ["LIBSHARD_RUN"] = native().run_begin()
        self.addCleanup(os.environ.pop, "LIBSHARD_RUN")
        native().run_set_epoch(3)

    def agree(self, files, in_c=True):
        """All elements, in order and at random; and whether C makes them."""
        theirs = [files._element(i) for i in range(len(files))]
        self.same(list(files), theirs)
        for i in self.random.choices(range(-len(files), len(files)), k=len(files)) if theirs else ():
            self.same(files[i], theirs[i], i)
        self.assertEqual(bool(files._recipe), IN_C and in_c and len(files) > 0, files)

    def test_orders(self):
        """Cut and ordered in all ways."""
        for files in pair()[1], pair(MANY)[1][:300]:
            for part in files, files[::-1], files[3::7], files[-2:1:-5], files[5:5], files[7:8]:
                self.agree(part)
                shuffled = part[:]
                for _ in range(2):
                    config.np.random.shuffle(shuffled)
                    self.agree(shuffled)
                    self.agree(shuffled[::-2])
            self.agree(files.at(files.positions()[::3].copy()))
            self.agree(files.at(files.positions()[::-2]), in_c=False)  # an array of several pieces
            whole = files[:60].reshuffled(1 << 63)
            for part in whole, whole[2::5], whole[::-2]:
                self.agree(part)
            for part in files, whole, files[::-3]:
                self.same([list(part[step:][::step << 70]) for step in (1, -1)],
                          [[list(part)[1]], [part[-1]]])
            for i in (len(files), -len(files) - 1, 1 << 62, -1 << 63, 1 << 80, -1 << 80):
                with self.assertRaisesRegex(IndexError, "^list index out of range$"):
                    files[i]  # pylint: disable=pointless-statement

    def test_indices(self):
        """Whatever stands for a number; and what it raises."""
        real, lazy = pair()
        for i in (Position(3), Position(-3), Position(FEW), Position(1 << 70),
                  Position(KeyError("own")), Position(IndexError("own")), Position("3"), True, False,
                  np.int8(-1), np.uint64(7), np.intp(FEW), np.array(3), np.array([3]),
                  np.float32(1), ..., "1", b"1", 1.0, 1j, None, (), (1,), [1], slice, lazy):
            self.same(*[outcome(lambda x=x, i=i: x[i])[0][0] for x in (lazy, real)], i)
        self.assertEqual(bool(lazy._recipe), IN_C)

    def test_numbers(self):
        """The sampler's: cut off, in order and shuffled."""
        for start, stop in (0, 50), (7, 60), (5, 5), (-3, 9), (1 << 40, (1 << 40) + 50):
            real, lazy = list(range(start, stop)), sequences.Indices(start, stop)
            for seed in range(3):
                for i in (*range(-len(real) - 1, len(real) + 1), Position(3), np.int8(-1), True, 1 << 80,
                          "1", None, 1.0):
                    self.same(*[outcome(lambda x=x, i=i: x[i])[0][0] for x in (lazy, real)], i)
                self.same([list(lazy), list(reversed(lazy)), lazy[3:9:2]], [real, real[::-1], real[3:9:2]])
                self.assertEqual(bool(lazy._recipe), IN_C and start >= 0, lazy)
                shuffle_both(real, lazy, seed)
                lazy = again(lazy) if seed else lazy

    def test_texts(self):
        """PlaceholderNames and prefixes of any kind: where C would write something else, Python makes them."""
        odd = os.path.join(WORK, "odd")
        names = sorted([b"\xff", b"a\xc3", b"\xc3\xa9", b"\xf0\x9f\x98\x80", b" %s %05d", b"z" * 255])
        touch(*(os.path.join(odd, os.fsdecode(name)) for name in names))
        listed = listing.Listing.of_dataset(odd, "depth=1")
        for prefix, in_c in (("/d/", True), ("/\udcff\u20ac/", True), ("x" * 4000 + "/", True),
                             ("/\ud800/", False), ("/\udcc3\udca9/", False)):
            files = sequences.FileList(listed, prefix)
            self.agree(files, in_c)
            self.same(list(files), [prefix + os.fsdecode(name) for name in names])

    def test_damage(self):
        """A file that others can write to, and do: a name is right, or the error is Python's."""
        text, file = os.path.join(WORK, "text"), os.path.join(WORK, "text.listing")
        names = sorted({"d/%x.npz" % self.random.getrandbits(70) for _ in range(30000)})
        with open(text, "w", encoding="ascii") as stream:
            stream.write("\n".join(names) + "\n")
        shardctl = os.path.join(os.path.dirname(_libshard.LIBRARY), "shardctl")
        subprocess.run([shardctl, "index", text, "-o", file], check=True, capture_output=True)
        files = sequences.FileList(listing.Listing(native().open(file)), "/")
        chosen = self.random.choices(range(len(names)), k=500) + [*range(200, 0, -1), 5, 5, 0, 0, 63, 64]
        self.same([files[i] for i in chosen], ["/" + names[i] for i in chosen])
        self.same(list(files[100:300]), ["/" + name for name in names[100:300]])
        for i in chosen[:100]:
            self.same([files[i], files[i]], ["/" + names[i]] * 2)
        with open(file, "r+b") as stream:
            for at in range(4096, os.path.getsize(file) // 2, 500):
                stream.seek(at)
                stream.write(b"\0\0\0\0")
        failed = 0
        for i in [*chosen, *range(1000)]:
            ours, theirs = [outcome(get, i)[0] for get in (files.__getitem__, files._element)]
            failed += theirs[0] == "OSError"
            self.assertIn(ours, (theirs, ("str", "/" + names[i])))
        self.assertGreater(failed, 300)

    def test_lifetimes(self):
        """What a list has written down stays its own, and goes with it."""
        for _ in range(3):
            real, lazy = pair(MANY)
            size = len(pickle.dumps(lazy))
            self.same(lazy[5], real[5])
            self.assertEqual(len(pickle.dumps(lazy)), size)
            shuffle_both(real, lazy, 1)
            self.same(lazy[5], real[5])
            for function in copy.copy, copy.deepcopy, again, lambda x: again(x, 0), lambda x: x[:]:
                before, twin = real[:], function(lazy)
                self.assertNotIn("_recipe", vars(twin))
                shuffle_both(real, lazy, 2)
                self.same([lazy[7], list(lazy), twin[3], list(twin)], [real[7], real, before[3], before])
                twin.append("more")
                self.same([twin[-1], twin[MANY], twin[3]], ["more", "more", before[3]])
            self.assertNotIn("_recipe", str(lazy.__reduce__()))
            mark, reader = weakref.ref(lazy._permutation), iter(lazy)
            next(reader)
            lazy.sort()
            self.same(list(reader), sorted(real)[1:])
            del lazy, reader, twin
            gc.collect()
            self.assertIsNone(mark())

    def test_memory(self):
        """Nothing is left of elements, nor of what is wrong."""
        def use(files):
            for _ in range(1000):
                for i in 3, -1, True, FEW, "1", Position(KeyError()):
                    try:
                        files[i]  # pylint: disable=pointless-statement
                    except (IndexError, TypeError, KeyError):
                        pass

        lists = [pair()[1], pair()[1], pair()[1].view(prefix="/\ud800/")]
        config.np.random.shuffle(lists[1])
        for _ in range(2):
            tracemalloc.start()
            for files in lists:
                use(files)
            gc.collect()
            left = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
        self.assertLess(left, 60000)  # a few of the interpreter's own

    def test_shuffled_by_threads(self):
        """Who reads while another thread shuffles reads some order; and then the right one."""
        real, lazy = pair(MANY)
        known, done, wrong = set(real), threading.Event(), []

        def read():
            while not done.is_set():
                wrong.extend(path for path in (lazy[5], lazy[-1]) if path not in known)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for one in threads:
            one.start()
        for seed in range(30):
            shuffle_both(real, lazy, seed)
        done.set()
        for one in threads:
            one.join()
        self.same([list(lazy), wrong], [real, []])
