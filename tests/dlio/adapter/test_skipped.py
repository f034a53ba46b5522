"""Names that every rank makes by counting: the same on every rank with and without the adapter."""
import contextlib
import functools
import pickle
import time

import numpy as np
from _libshard import native, numbered, sequences
from _libshard.parts import benchmark, compare_ranks, placeholders, reshard, skipped

from . import skipped_fork, ranks
from .case import Case, short, state
from .plain import replaced


@contextlib.contextmanager
def adapted(absent=(), given_up=lambda rank: None):
    """The fork's module with the adapter's patches. Time passes only where a rank is waited for that is absent: others
    come, however long they take. given_up: is told of the absent ones."""
    module, original = skipped_fork, compare_ranks.comes

    def comes(comm, source, tag, deadline, stop=lambda: False):
        there = original(comm, source, tag, 0 if source in absent else time.monotonic() + 300, stop)
        if not there:
            given_up(source)
        return there

    with contextlib.ExitStack() as stack:
        for owner, name in ((module.ConfigArguments, "files_pre_sharded"),
                            (module.ConfigArguments, "derive_configurations"),
                            (module.ConfigArguments, "_reshard_files"),
                            (module.Benchmark, "initialize"), (compare_ranks, "comes"), (skipped, "STORAGE")):
            stack.enter_context(replaced(owner, name, owner.__dict__[name]
                                         if isinstance(owner, type) else getattr(owner, name)))
        compare_ranks.comes = comes
        skipped.STORAGE = "Storage",
        skipped.patch_config(module)
        reshard.patch(module, module.ConfigArguments)
        benchmark.patch_initialize(module.Benchmark, module.Benchmark.initialize, lambda *_: None, placeholders.length)
        yield


def paths(files):
    return type(files) is list or isinstance(files, sequences.FileList), list(files)


def one_rank(comm, lazy, root, epochs, given, unmodified_rank=None, arguments=None, meddle=None, given_up=lambda rank: None):
    """What a rank sees: its lists after initialize() and each epoch. meddle(comm, args) comes between. Nobody waits
    long for the unmodified rank."""
    module = skipped_fork
    args = module.ConfigArguments()
    module.DLIOMPI.comm = comm
    args.comm, args.data_folder, args.format, args.seed = comm, root, "npz", 10
    args.reader_classname = args.data_loader_classname = None
    args.data_loader = "pytorch"
    vars(args).update(arguments or {})
    np.random.seed(3)
    with contextlib.ExitStack() as stack:
        if lazy and comm.rank != unmodified_rank:
            stack.enter_context(adapted((unmodified_rank,), given_up))
        one = module.Benchmark(args, module.Storage(), comm, **given)
        found = [one.initialize(), paths(args.file_list_train), paths(args.file_list_eval)]
        kinds = {type(args.file_list_train).__qualname__}
        if meddle:
            meddle(comm, args)
        for epoch in range(1, epochs + 1):
            args._reshard_files(epoch)
            found += [paths(args.file_list_train), paths(args.file_list_eval), state(),
                      args.num_files_train, args.num_files_eval]
            kinds.add(type(args.file_list_train).__qualname__)
            again = pickle.loads(pickle.dumps(args.file_list_train))
            found.append(list(again) == list(args.file_list_train))
        found.append(one.comm is comm)
        return found, sorted(kinds), len(pickle.dumps(args.file_list_train))


class TestSkipped(Case):
    """Names that every rank makes by counting: nothing is listed."""

    def compare(self, size, kinds=("FileList",), given=None, unmodified_rank=None, meddle=None,
                **arguments):
        """The ranks must agree; their lists under the adapter are of these kinds."""
        given = {"num_files_train": 40, "num_files_eval": 9, **(given or {})}
        run = functools.partial(ranks.run, size, one_rank)
        bare = run(False, "/nowhere", 2, given, None, arguments, meddle)
        shim = run(True, "/nowhere", 2, given, unmodified_rank, arguments, meddle)
        for rank, (one, other) in enumerate(zip(bare, shim)):
            self.same(other[0], one[0], "rank", rank)
            self.assertEqual(tuple(other[1]), kinds)
        return bare, shim

    def test_names(self):
        """Flat and in folders, by both rules; numbers that do not divide; widths that change."""
        for size in (1, 3):
            self.compare(size)
            for folders in (1, 10, 11):
                for above_one in (False, True):
                    given = {"num_subfolders_train": folders, "num_subfolders_eval": folders,
                             "num_files_train": 101, "num_files_eval": 30}
                    self.compare(size, given=given, above_one=above_one, generated=1000)

    def test_odd_names(self):
        """Whatever a name is made of."""
        for prefix in ("100%d", "%01d", "%%02d", "a b", "\u00e9", "x\\", "0", "1_of_2", "sub/img", "%s%%"):
            self.compare(2, file_prefix=prefix, given={"num_subfolders_train": 3})

    def test_validated(self):
        """Rank 0 looks for the same names: those of an interval, too, that is the number of ranks."""
        for size in (1, 2, 3):
            for interval in (1, 2, 3, 7, 1000):
                bare, _ = self.compare(size, interval=interval,
                                       given={"num_files_train": 40, "num_files_eval": 40})
                self.assertIn("img_39_of_40", bare[0][0][0][0])

    def test_few(self):
        """Few files, and none: plain lists."""
        self.compare(3, kinds=("list",), given={"num_files_train": 8, "num_files_eval": 0})
        self.compare(2, kinds=("list",), given={"num_files_train": 0, "num_files_eval": 0})
        self.compare(2, given={"do_eval": False})

    def test_many(self):
        """A pickle is short, and so is what a list takes."""
        for _, _, size in self.compare(2, given={"num_files_train": 20000})[1]:
            self.assertLess(size, 41000)  # positions of an exchange, 4 bytes each
        with short(100):
            for _, _, size in self.compare(2, given={"num_files_train": 20000})[1]:
                self.assertLess(size, 600)

    def test_as_a_list(self):
        """Names that are numbers, found, cut and pickled as a list's."""
        for pattern, moduli in (("f_%03d_of_300", (None,)), ("%02d/f_%03d%%", (7, None)),
                                ("%%01d%%%%_%02d/f_%03d%%01d", (7, None))):
            names = numbered.Numbered(pattern, moduli, 300)
            lazy = sequences.FileList(names, "/d/")
            real = ["/d/" + pattern % tuple(i % (modulus or 300) for modulus in moduli)
                    for i in range(300)]
            for part in (slice(None), slice(5, None, 3), slice(None, None, -2)):
                one, other = pickle.loads(pickle.dumps(lazy[part])), real[part]
                self.same(list(one), other)
                self.same([one.index(path) for path in other], list(range(len(other))))
                for path in ("/d/f_001", "/d/f_0001_of_300", "/d/f_300_of_300", "/d/01/f_002%", "/e", "",
                             "/d/f_\u0661\u0661\u0661_of_300", "/d/f_" + 5000 * "1" + "_of_300", *real[:9]):
                    self.assertEqual(path in one, path in other, path)

    def test_rank_without_libshard(self):
        """All go on unmodified."""
        for rank in range(3):
            bare, shim = self.compare(3, kinds=("list",), unmodified_rank=rank)
            self.assertEqual(bare, shim)

    def test_roots_differ(self):
        """Ranks whose names begin differently exchange paths, and so read each other's."""
        def rooted(comm, lazy):
            with replaced(skipped_fork.Storage, "root", "/node%d" % comm.rank):
                return one_rank(comm, lazy, "d", 2, {"num_files_train": 40})
        bare, shim = (ranks.run(2, rooted, lazy) for lazy in (False, True))
        self.assertEqual([(found, kinds) for found, kinds, _ in shim],
                         [(found, kinds) for found, kinds, _ in bare])

    def test_one_rank_changes_its_list(self):
        """Then no rank exchanges positions, though the rank's other list is as it was."""
        for who in 0, 2:
            def sort(comm, args, who=who):
                if comm.rank == who:
                    args.file_list_train.sort(reverse=True)
            for given in {}, {"num_files_train": 300, "num_files_eval": 30}:
                self.compare(3, ("FileList", "list"), meddle=sort, given=given)

    def test_other_loaders(self):
        """Those that would make real lists of names that are counted."""
        for more in ({"data_loader": "tensorflow"}, {"data_loader": "dali"}, {"reader_classname": "x.y"}):
            self.compare(2, ("list",), **more)

    def test_not_handed_over(self):
        """Names that never come to where libshard waits for them."""
        def replaced_since(comm):
            with adapted(), replaced(skipped_fork.ConfigArguments, "derive_configurations", lambda *_: None):
                args = skipped_fork.ConfigArguments()
                vars(args).update(data_folder="/d", format="npz", reader_classname=None, data_loader_classname=None,
                                  data_loader="pytorch")
                one = skipped_fork.Benchmark(args, skipped_fork.Storage(), comm, num_files_train=40)
                try:
                    return one.initialize()
                except RuntimeError as error:
                    return str(error)

        for told in ranks.run(2, replaced_since):
            self.assertIn("set SHARD_ADAPTER=compress", told)

    def test_odd_parts(self):
        """A prefix that is no part of a name."""
        for prefix in ("./img", "a//b", "../img", "a/../b"):
            self.compare(2, ("list",), file_prefix=prefix, given={"num_subfolders_train": 4})

    def test_counted(self):
        """For SHARD_STATS, on each rank: where the names lie, and how many of them are read."""
        def counted(comm, root):
            told = []
            with replaced(native.Native, "stats_names", lambda _self, *what: told.append(what)), \
                    replaced(native.Native, "stats_on", lambda _self: True):
                one_rank(comm, True, root, 0, {"num_files_train": 41, "num_files_eval": 9})
                sequences.tell_reads(lambda _listing, used: used - 1)
            return told

        first, second = ranks.run(2, counted, "/nowhere")
        self.assertEqual(first, second)
        self.assertEqual([(root, entries, used, needed) for root, _, entries, used, needed in first],
                         [("/nowhere/train/", 41, 40, 39), ("/nowhere/valid/", 9, 8, 7)])
        self.assertEqual([len(digest) for _, digest, *_ in first], [64, 64])

    def test_unclear(self):
        """A text that does not tell how names are made, and names that are not made alike."""
        index = numbered.Index("train")
        for use in (lambda: index + 1, lambda: index < 3, lambda: [1, 2][index], lambda: f"{index:x}",
                    lambda: "%d" % index, lambda: index % 2 == 1, lambda: len(str(index)),
                    lambda: str(index).zfill(3).upper().zfill(9) and numbered.template(
                        "/a/" + str(index).upper(), 9), lambda: numbered.template("/a/b", 9),
                    lambda: numbered.template("/a/%s" % (index % 4), 9)):
            self.assertRaises(numbered.Unclear, use)
        part = skipped.Part("train", 0, 40, 2)
        made = ["/a/%02d" % number for number in part.numbers()[:-1]]
        self.assertEqual(list(part.files(made + ["/a/%s" % str(index).zfill(2)])),
                         ["/a/%02d" % number for number in range(0, 40, 2)])
        self.assertRaises(numbered.Unclear, part.files, made + ["/a/%s" % str(index).zfill(3)])
