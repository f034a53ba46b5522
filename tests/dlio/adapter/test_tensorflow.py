"""list_files() of a FileList."""
import glob
import os
import types
import unittest

from _libshard.parts import file_storage
from _libshard.parts import tensorflow as tensorflow_part

from .case import Case, np, outcome, shuffle_both
from .plain import WORK, touch


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
        if cls.ours is tensorflow:
            raise unittest.SkipTest("of this DLIO libshard serves PyTorch's loader only")

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
                lazy = file_storage.subfolders(storage, folder, "tfrecord")
            else:
                real = sorted(os.path.join(folder, x) for x in os.listdir(folder))
                lazy = file_storage.flat(storage, folder, "tfrecord")
            self.same(list(lazy), real, what)
            yield what, real, lazy

    def names(self, tf, files, ranks, rank):
        """As TFReader.next() has them."""
        self.lazily = False
        names = tf.data.Dataset.list_files(files, shuffle=False)
        self.lazily = isinstance(names, tensorflow_part.Files)
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
            # Parts, also of a shuffled list.
            shuffled = list(all_real), all_lazy.view()
            shuffle_both(*shuffled, 3)
            parts = [(real[part], lazy[part]) for real, lazy in ((all_real, all_lazy), shuffled)
                     for part in (slice(10, 30), slice(1, None, 3), slice(30, 10, -1))]
            for real, lazy in parts:
                self.args.comm_size = 3
                made = [outcome(self.names, tf, files, 3, 2)
                        for tf, files in ((self.theirs, real), (self.ours, lazy))]
                self.same(made[1], made[0], what)
        self.assertGreater(lazily, 15)
