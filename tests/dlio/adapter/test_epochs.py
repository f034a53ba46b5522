"""Epochs that opened far fewer files than one before: what is told, and what is not."""
import mmap
import os
import types

from _libshard.native import native
from _libshard.parts import epochs, workers

from .case import Case, pair
from .plain import WORK, replaced, touch


class TestReads(Case):
    """The counts of one list's opens."""

    def setUp(self):
        super().setUp()
        os.environ["LIBSHARD_RUN"] = native().run_begin()
        self.addCleanup(os.environ.pop, "LIBSHARD_RUN")
        self.files, self.lazy = pair(size=40)
        self.reads = epochs.Reads("train", self.lazy, "npz")

    def epoch(self, number, opens, steps=10):
        """What is told after an epoch of so many opens."""
        for i in range(opens):
            with open(self.files[i % len(self.files)], "rb"):
                pass
        return self.reads.end(number, steps)

    def quiet(self, *opens, **more):
        for number, count in enumerate(opens, 1):
            self.assertIsNone(self.epoch(number, count, **more), (number, opens))

    def test_told(self):
        """After epochs of which nothing is told, one that opened far fewer files."""
        for before, opens, told in (
                ((20,), 0, "epoch 2 opened 0 of 20 files: they were served from memory; its throughput is not the storage's"),
                ((40, 40), 3, "epoch 3 opened 3 of 40 files"),
                ((1400, 1400), 0, "opened 0 of 40 files")):  # several samples a file: it is opened for each
            self.reads = epochs.Reads("train", self.lazy, "npz")
            self.quiet(*before)
            self.assertIn(told, self.epoch(len(before) + 1, opens))

    def test_not_told(self):
        """All is well; what is read ahead counts for the next epoch; an evaluation of no files of its own; no opens."""
        for opens in (40, 40, 40), (40, 16, 40, 6), (0, 0, 0):
            self.reads = epochs.Reads("train", self.lazy, "npz")
            self.quiet(*opens)
        reads = epochs.Reads("eval", self.lazy, "npz")
        with open(self.files[0], "rb"):
            pass
        self.assertEqual([reads.end(1, None), reads.end(2, None)], [None, None])  # it counts for the first folder

    def test_stops_early(self):
        self.quiet(40, steps=20)
        self.assertIsNone(self.epoch(2, 3, steps=1))
        self.assertIsNotNone(self.epoch(3, 0, steps=10))

    def test_begins_short(self):
        """One step, and all that is prefetched; then many steps."""
        self.quiet(16, steps=1)
        self.assertIsNone(self.epoch(2, 30, steps=1000))

    def test_kept_open(self):
        self.quiet(40)
        kept = [open(file, "rb") for file in self.files]  # pylint: disable=consider-using-with
        self.quiet(0)
        self.assertIsNone(self.epoch(2, 0))
        for file in kept:
            file.close()
        self.assertIsNotNone(self.epoch(3, 0))

    def test_mapped(self):
        kept = []
        folder = os.path.join(WORK, "mapped", "")
        self.files = [folder + "%d.npz" % i for i in range(40)]
        touch(*self.files)
        self.lazy.prefix = folder
        self.reads = epochs.Reads("train", self.lazy, "npz")
        for file in self.files:
            with open(file, "r+b") as stream:
                stream.truncate(100)
                kept.append(mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ))
        self.assertIsNone(self.reads.end(1, 10))
        self.assertIsNone(self.reads.end(2, 10))
        kept.clear()
        self.assertIsNotNone(self.reads.end(3, 10))

    def test_other_files(self):
        self.quiet(40)
        for _ in range(40):
            with open(__file__, "rb"):
                pass
        self.assertIsNotNone(self.epoch(2, 0))

    def test_closed_descriptor(self):
        """New workers could not count: nothing is told any more."""
        self.quiet(40)
        os.close(int(os.environ["LIBSHARD_RUN"].split()[1]))
        self.quiet(0)
        native().run_begin()
        self.quiet(0)

    def test_objects(self):
        self.lazy.prefix = "s3://bucket/train/"
        reads = epochs.Reads("train", self.lazy, "npz")
        self.assertIsNone(reads.end(1, 10))
        self.assertIsNone(reads.end(2, 10))


class TestNumber(Case):
    """Which epoch the rank's processes are told."""

    def test_never_comes(self):
        """After the last epoch another one does not begin."""
        module = types.SimpleNamespace(ConfigArguments=type("ConfigArguments", (), {
            "epochs": 2, "derive_configurations": lambda self: None, "reconfigure": lambda self, epoch_number: epoch_number}))
        epochs.patch_config(module, None)
        args, told = module.ConfigArguments(), []
        with replaced(native(), "run_set_epoch", told.append):
            self.same([args.reconfigure(number) for number in (1, 2, 3)], [1, 2, 3])
        self.same(told, [1, 2])


class TestOwnLists(Case):
    """What has no effect on a list that DLIO has made itself, and on which."""

    def told(self, **variables):
        files, lazy = pair(size=40)
        said = []
        asked = {name: os.environ.pop(name, None) for name in ("SHARD_DATASET", "SHARD_SHUFFLE")}
        os.environ.update(variables)
        try:
            with replaced(epochs, "_say", lambda level, text: said.append(text)), \
                    replaced(native(), "stats_on", lambda: True):
                epochs._begin(types.SimpleNamespace(format="npz"), {"train": lazy, "eval": files})
                epochs._begin(types.SimpleNamespace(format="npz"), {"train": lazy, "eval": []})
        finally:
            epochs._reads.clear()
            os.environ.pop("LIBSHARD_RUN", None)
            for name in asked:
                os.environ.pop(name, None)
            os.environ.update((name, value) for name, value in asked.items() if value is not None)
        return said

    def test_statistics(self):
        self.same(self.told(), ["SHARD_STATS has no effect on valid: DLIO has made that list itself"])

    def test_opens_are_counted(self):
        self.same(self.told(SHARD_DATASET=WORK), [])


class TestAdvice(Case):
    """What the line ends with."""

    def test_advice(self):
        loader = type("Loader", (), {})()
        reference = type("Reference", (), {"__call__": lambda self: loader})()
        with replaced(workers, "_loaders", [reference]):
            self.assertIn("SHARD_WORKERS=respawn", workers.advice())
            os.environ["SHARD_WORKERS"] = "respawn"
            self.addCleanup(os.environ.pop, "SHARD_WORKERS")
            self.same(workers.advice(), "")
        with replaced(workers, "_loaders", []):
            self.same(workers.advice(), "")


class TestRenew(Case):
    """SHARD_WORKERS=respawn, on a loader of the same shape as torch's."""

    def loader(self, workers_of_it):
        calls = []
        iterator = types.SimpleNamespace(_shutdown_workers=lambda: calls.append("shutdown"))
        dataset = types.SimpleNamespace(serial_args=b"", reader=object(),
                                        worker_init=lambda number: calls.append(number))
        data = types.SimpleNamespace(dataset=dataset, num_workers=workers_of_it,
                                     _iterator=iterator if workers_of_it else None)
        return types.SimpleNamespace(_dataset=data, _args={"epoch": 2}), calls

    def test_renew(self):
        for count, called in ((2, ["shutdown"]), (0, [-1])):
            loader, calls = self.loader(count)
            with replaced(workers, "_loaders", [lambda loader=loader: loader]):
                workers.renew(None, 2)
                self.same(calls, [])
                os.environ["SHARD_WORKERS"] = "respawn"
                workers.renew(None, 1)
                self.same(calls, [])
                workers.renew(None, 2)
                del os.environ["SHARD_WORKERS"]
            self.same(calls, called)
            self.assertIsNone(loader._dataset._iterator)
            self.assertTrue(loader._dataset.dataset.serial_args)
