"""DLIOs whose ranks list each for itself: a difference between two is an error in all."""
import contextlib
import glob
import os
import tempfile
import time
import types

from _libshard import compressing, mapped_listing as listing
from _libshard.parts import benchmark, compare_ranks, config, file_storage, placeholders

from . import ranks
from .case import Case
from .plain import WORK, replaced, stderr, touch

class DatasetType(str):
    """DLIO's, as far as the adapter looks at it."""


class FileStorage:
    """What initialize() asks for names."""

    def walk_node(self, id, use_pattern=False):
        return glob.glob(id) if use_pattern else os.listdir(id)

    def get_uri(self, id):
        return id


class ConfigArguments:
    """The arguments, which receive the lists."""

    reader_classname = data_loader_classname = None
    format, generate_only = "npz", False

    def derive_configurations(self, file_list_train=None, file_list_eval=None):
        self.train, self.valid = file_list_train, file_list_eval


class Benchmark:
    """initialize(), as far as it lists."""

    def __init__(self, comm, root, more):
        self.comm, self.storage, self.args = comm, FileStorage(), ConfigArguments()
        self.args.data_folder, self.args.comm_size, self.args.my_rank = root, comm.size, comm.rank
        self.num_files_train = self.num_files_eval = 0
        self.num_subfolders_train = self.num_subfolders_eval = 0
        self.args.__dict__.update(more)

    def initialize(self):
        """As DLIO's: flat, or with sub-folders."""
        self.comm.barrier()
        found = []
        for dataset_type in (DatasetType("train"), DatasetType("valid")):
            node = os.path.join(self.args.data_folder, dataset_type)
            names = self.storage.walk_node(node)
            if len(names) and os.path.isdir(os.path.join(node, names[0])):
                names = self.storage.walk_node(node + "/*/*.npz", use_pattern=True)
            setattr(self, "num_files_" + ("train" if dataset_type == "train" else "eval"), len(names))
            found.append([self.storage.get_uri(name) for name in names])
        self.args.derive_configurations(*found)
        self.comm.barrier()


@contextlib.contextmanager
def adapted(absent=(), given_up=lambda rank: None):
    """Under the adapter, for which time passes only where a rank is waited for that is absent: others come, however long
    they take. given_up: is told of the absent ones."""
    def comes(comm, source, tag, deadline, stop=lambda: False, own=compare_ranks.comes):
        there = own(comm, source, tag, 0 if source in absent else time.monotonic() + 300, stop)
        if not there and source in absent:
            given_up(source)
        return there

    with contextlib.ExitStack() as stack:
        for owner, name in ((ConfigArguments, "derive_configurations"), (FileStorage, "walk_node"),
                            (Benchmark, "initialize"), (compare_ranks, "comes"), (compare_ranks, "_ranks")):
            stack.enter_context(replaced(owner, name, getattr(owner, name)))
        compare_ranks.comes, compare_ranks._ranks = comes, None
        config._patch_derive(ConfigArguments)
        file_storage.patch(types.SimpleNamespace(FileStorage=FileStorage), None)
        benchmark.patch_initialize(Benchmark, Benchmark.initialize, lambda *_: None, placeholders.length)
        yield


def one_rank(comm, roots, bare, broken, more):
    """What a rank ends with: its kinds of lists, and what it has printed."""
    with contextlib.ExitStack() as stack:
        said = stack.enter_context(stderr())
        if comm.rank not in bare:
            stack.enter_context(adapted(bare))
        if comm.rank in broken:
            def fail(*_arguments):
                raise OSError(5, "it fails on purpose")
            stack.enter_context(replaced(listing.Listing, "of_dataset", fail))
        one = Benchmark(comm, roots[comm.rank], more)
        if glob.glob(roots[comm.rank] + "/valid/a"):
            one.num_subfolders_train = one.num_subfolders_eval = 1
        one.initialize()
        kinds = [type(files).__qualname__ for files in (one.args.train, one.args.valid)]
    return kinds, said[0]


def several(comm, rooms, *away):
    """One benchmark after another in one process: what comes of each. away: what adapted() is given."""
    found = []
    with adapted(*away):
        for roots in rooms:
            try:
                Benchmark(comm, roots[comm.rank], {}).initialize()
                found.append("good")
            except Exception as error:  # pylint: disable=broad-except
                found.append(type(error).__name__)
    return found


class TestAgree(Case):
    """Three ranks, on hosts that see folders of the same name."""

    def roots(self, change=None, below=""):
        """The roots that three ranks have; change(folder of the last one)."""
        found = []
        for rank in range(3):
            root = os.path.join(WORK, "agree-%s-%d" % (self.id().rpartition(".")[2], rank))
            for kind in ("train", "valid"):
                touch(*(os.path.join(root, kind, below, "f%d.npz" % i) for i in range(9)))
            found.append(root)
        if change:
            change(found[-1])
        return found

    def run_ranks(self, roots, bare=(), broken=(), **more):
        return ranks.run(3, one_rank, roots, bare, broken, more)

    def disagree(self, roots, *words):
        """All ranks fail alike, with these words."""
        found = self.run_ranks(roots)
        self.assertEqual({one[:2] for one in found}, {("error", "Disagreement")}, found)
        self.assertEqual(len({one[2] for one in found}), 1, found)
        for word in (*words, "name it in SHARD_LISTING", os.uname().nodename):
            self.assertIn(word, found[0][2])

    def test_same(self):
        for below in ("", "a"):
            found = self.run_ranks(self.roots(below=below))
            self.assertEqual(found, [(["FileList", "FileList"], "")] * 3)

    def test_other_names(self):
        """As many files, but one has another name: in each place where ranks meet."""
        for kind in ("train", "valid"):
            for below in ("", "a"):
                def change(root, place=os.path.join(kind, below)):
                    os.rename(os.path.join(root, place, "f3.npz"), os.path.join(root, place, "f33.npz"))
                with self.subTest(kind=kind, below=below):
                    roots = [root + kind + below for root in self.roots(below=below)]
                    for old, new in zip(self.roots(below=below), roots):
                        os.rename(old, new)
                    change(roots[-1])
                    self.disagree(roots, kind, "rank 0 on host", "rank 2 on host", "9 files, digest")

    def test_one_more(self):
        self.disagree(self.roots(lambda root: touch(root + "/train/g.npz")), "9 files", "10 files")

    def test_none(self):
        def change(root):
            for path in glob.glob(root + "/train/*"):
                os.unlink(path)
        self.disagree(self.roots(change), "rank 2 on host", "has 0 files")

    def test_refused(self):
        """A rank that has no listing goes on unmodified, as ever: nobody knows what it has."""
        found = self.run_ranks(self.roots(), broken=(1,))
        self.assertEqual([kinds for kinds, _ in found],
                         [["FileList"] * 2, ["list"] * 2, ["FileList"] * 2])

    def test_without_libshard(self):
        """A rank without libshard takes no part; the others go on, and it is told of."""
        for rank in range(3):
            found = self.run_ranks(self.roots(), bare=(rank,))
            self.assertEqual([kinds for kinds, _ in found],
                             [["list" if i == rank else "FileList"] * 2 for i in range(3)])
            lines = "".join(said for _, said in found).splitlines()
            self.assertTrue(lines)
            for line in lines:
                self.assertIn("rank %d does not run under libshard" % rank, line)

    def test_other_settings(self):
        """Ranks that do other things with their lists: nobody counts on the others."""
        def shuffled(comm, roots):
            with replaced(compare_ranks, "settings", lambda: ("the same", comm.rank == 1)):
                return one_rank(comm, roots, (), (), {})
        found = ranks.run(3, shuffled, self.roots())
        self.assertEqual([kinds for kinds, _ in found], [["FileList"] * 2] * 3)
        self.assertIn("rank 1 has other settings", found[0][1])

    def test_failure(self):
        """A rank that cannot list fails, and the others learn why: bare they would wait for ever."""
        for failing in (0, 2):
            roots = self.roots()
            os.rename(roots[failing] + "/valid", roots[failing] + "/elsewhere")
            found = self.run_ranks(roots)
            for rank, one in enumerate(found):
                self.assertEqual(one[:2], ("error", "FileNotFoundError" if rank == failing else
                                           "Disagreement"))
                self.assertIn("/valid", one[2])
            with self.assertRaises(ranks.Stuck):
                self.run_ranks(roots, bare=(0, 1, 2))
            os.rename(roots[failing] + "/elsewhere", roots[failing] + "/valid")

    def test_one_after_another(self):
        """What a benchmark that failed has left behind is not taken for the next one's."""
        other = [root + "-other" for root in self.roots()]
        for old, new in zip(self.roots(), other):
            os.rename(old, new)
        os.rename(other[2] + "/train/f3.npz", other[2] + "/train/g.npz")
        same, gone = self.roots(), ["/nowhere"] * 3
        wanted = ["FileNotFoundError", "good", "Disagreement", "FileNotFoundError",
                  "FileNotFoundError", "Disagreement", "good"]
        self.assertEqual(ranks.run(3, several, [gone, same, other, gone, gone, other, same]),
                         [wanted] * 3)

    def test_late(self):
        """The same, where rank 0 has hardly begun when another rank is there already."""
        original = compare_ranks.Ranks.__init__

        def late(ranks_of_it, one):
            time.sleep((0.3, 0.6, 0)[one.comm.rank])
            original(ranks_of_it, one)

        gone, same = ["/nowhere"] * 3, self.roots()
        with replaced(compare_ranks.Ranks, "__init__", late):
            self.assertEqual(ranks.run(3, several, [gone, same, gone, gone, same]),
                             [["FileNotFoundError", "good", "FileNotFoundError", "FileNotFoundError", "good"]] * 3)

    def test_too_late(self):
        """A rank that others have given up on: all go on, and nobody compares."""
        roots = self.roots(below="a")
        for slow in (0, 2):
            def late(comm, folder, slow=slow):
                """The slow one begins when who waits for it has given it up."""
                original, others = compare_ranks.Ranks.__init__, [rank for rank in range(3) if rank != slow and (slow == 0 or rank == 0)]

                def begin(ranks_of_it, one):
                    while comm.rank == slow and not all(os.path.exists(os.path.join(folder, str(rank))) for rank in others):
                        time.sleep(0.01)
                    original(ranks_of_it, one)

                absent = others if comm.rank == slow == 0 else () if comm.rank == slow else (slow,)
                with replaced(compare_ranks.Ranks, "__init__", begin), stderr() as said, adapted(
                        absent, lambda _: touch(os.path.join(folder, str(comm.rank)))):
                    made = Benchmark(comm, roots[comm.rank], {})
                    made.num_subfolders_train = made.num_subfolders_eval = 1
                    made.initialize()
                return [type(files).__qualname__ for files in (made.args.train, made.args.valid)], said[0]

            with self.subTest(slow=slow), tempfile.TemporaryDirectory() as folder:
                found = ranks.run(3, late, folder)
                self.assertEqual([kinds for kinds, _ in found], [["FileList"] * 2] * 3)
                self.assertIn("are not compared", "".join(said for _, said in found))

    def test_not_handed_over(self):
        """Something else than DLIO's own function receives the lists: an error that names the remedy."""
        def replacing(comm, roots):
            with adapted():
                one = Benchmark(comm, roots[comm.rank], {})
                one.args.derive_configurations = lambda *_: None
                one.initialize()
        found = ranks.run(3, replacing, self.roots())
        self.assertEqual({one[:2] for one in found}, {("error", "RuntimeError")})
        self.assertIn("SHARD_ADAPTER=compress", found[0][2])

    def test_listed_by_dlio(self):
        """A list that DLIO has made by itself, of a bucket for example, is to be compressed."""
        def listing(comm, roots):
            compressing.enabled = False
            with adapted():
                one = Benchmark(comm, roots[comm.rank], {})
                one.storage = type("Bucket", (FileStorage,), {"__module__": "dlio_benchmark.storage"})()
                one.initialize()
            return [type(one.args.train), compressing.enabled]
        self.assertEqual(ranks.run(3, listing, self.roots()), [[list, compressing.columns.AVAILABLE]] * 3)

    def test_generation(self):
        """Where data is only made, nobody reads the lists."""
        found = self.run_ranks(self.roots(lambda root: touch(root + "/train/g.npz")),
                               generate_only=True)
        self.assertEqual([kinds for kinds, _ in found], [["FileList", "FileList"]] * 3)
