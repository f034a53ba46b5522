# SPDX-License-Identifier: MIT
"""cases: DLIO's function and the adapter's on one small list, for each function.

A case draws its input from `at.random`, calls both, and asks at.same(). It is registered with the
functions that would show a difference in it: by covers().
"""
import glob
import importlib
import inspect
import os
import pickle
import random
import sys
import types

from ..parts import tensorflow
from ..patching import lent
from . import fakes
from .rank import exact, state

CASES = []  # (title, functions, how many, case)


def covers(title, *functions, count=2000):
    """Register a case."""
    def register(case):
        CASES.append((title, functions, count, case))
        return case
    return register


def original(method):
    """DLIO's own function behind the adapter's; the same if it is not replaced."""
    return getattr(method, "__wrapped__", method) if getattr(
        method, "__module__", "").startswith("_libshard") else method


def module_of(name):
    return importlib.import_module("dlio_benchmark." + name)


def kinds():
    """DLIO's enumerations."""
    return module_of("common.enumerations")


def _takes(function):
    return list(inspect.signature(function).parameters)


# ---- what DLIO derives from its list ------------------------------------------------------------


def draw_maps(at):
    """Draw arguments of DLIO: (list, FileList, total number of samples, epoch)."""
    pick, args, config = at.random, at.args, at.config
    real, lazy = at.pair(at.length(), prefix=pick.choice((None, None, "x/", at.folder + "/./",
                                                           at.folder + "/../data/")))
    size = len(real)
    args.num_samples_per_file = pick.choice((1, 1, 2, 3, 4, 7, pick.randint(1, 12)))
    args.comm_size = pick.choice((1, 2, 3, 4, 5, 8, pick.randint(1, 130)))
    args.my_rank = pick.choice((pick.randrange(args.comm_size), args.comm_size - 1))
    args.read_threads = pick.choice((0, 1, 2, 3, 4, pick.randint(0, 20)))
    args.sample_shuffle = pick.choice([*config.Shuffle, "off", "seed", "random"])
    args.seed_change_epoch, args.seed = pick.random() < .5, pick.choice((123, 7, 0))
    args.data_loader = pick.choice(list(config.DataLoaderType))
    args.storage_type = pick.choice(list(config.StorageType))
    at.vary()
    total = args.num_samples_per_file * size
    if pick.random() < .3:
        total = pick.randint(0, total)
    if pick.random() < .3:
        at.shuffle_both(real, lazy)
    if pick.random() < .2:
        lazy = pickle.loads(pickle.dumps(lazy))
    return real, lazy, total, pick.randint(0, 5)


def make_maps(at, method):
    """A method of ConfigArguments that makes maps, by list and FileList: (list, FileList, its other
    arguments, what came of it unmodified)."""
    real, lazy, total, epoch = draw_maps(at)
    at.note(files=len(real), total_samples=total, epoch=epoch)
    rest, made = (total, epoch)[:len(_takes(method)) - 2], []
    for function, files in ((original(method), real), (method, lazy)):
        at.args.samples_per_thread = None
        made.append((*at.outcome(lambda function=function, files=files: function(
            at.args, files, *rest)), at.args.samples_per_thread))
    at.same(*made)
    return real, lazy, rest, made[0]


@covers("VirtualIndexMap", "ConfigArguments.get_global_map_index", *(
    "VirtualIndexMap." + name for name in ("__init__", "_resolve", "__getitem__", "__contains__",
                                           "__len__", "__iter__", "items", "__repr__")))
@covers("get_global_map_index", "ConfigArguments.get_global_map_index")
def global_map(at):
    """Whatever it returns, and the generator's state."""
    make_maps(at, at.config.ConfigArguments.get_global_map_index)


@covers("build_sample_map_iter", "ConfigArguments.build_sample_map_iter")
def file_map(at):
    """The same for the iterative map; and samples_per_thread."""
    make_maps(at, at.config.ConfigArguments.build_sample_map_iter)


@covers("derive_configurations", "ConfigArguments.derive_configurations", count=300)
def derive(at):
    """The lists are kept as they are given, and counted."""
    args, pick = at.args, at.random
    train, eval_ = (at.pair(at.length())[0] for _ in range(2))
    args.num_samples_per_file = pick.randint(1, 5)
    args.comm_size, args.my_rank = 1, 0
    args.batch_size, args.batch_size_eval = pick.randint(1, 4), pick.randint(1, 4)
    given = list(train), list(eval_)
    at.note(train=len(train), eval=len(eval_))
    original(at.config.ConfigArguments.derive_configurations)(args, train, eval_)
    at.same([list(given[0]), list(given[1]), len(train) * args.num_samples_per_file,
             len(eval_) * args.num_samples_per_file],
            [list(args.file_list_train), list(args.file_list_eval), args.total_samples_train,
             args.total_samples_eval], "the lists as they are given", "what is kept of them")


@covers("_reshard_files", "ConfigArguments.reconfigure", "ConfigArguments._reshard_files",
        count=600)
@covers("reconfigure", "ConfigArguments.reconfigure", count=600)
def reconfigure(at):
    """All that DLIO's arguments hold, over some epochs, by list and FileList."""
    pick, cls = at.random, at.config.ConfigArguments
    real, lazy, _, _ = draw_maps(at)
    real_eval, lazy_eval = at.pair(pick.choice((0, 1, len(real))))
    first = dict(vars(at.args), file_shuffle=pick.choice([*at.config.Shuffle, "off", "seed"]),
                 data_loader_sampler=pick.choice(list(at.config.DataLoaderSampler)))
    spf, epochs = at.args.num_samples_per_file, sorted(pick.sample(range(6), 3))
    at.note(files=len(real), eval_files=len(real_eval), epochs=epochs,
            file_shuffle=str(first["file_shuffle"]), sampler=str(first["data_loader_sampler"]))

    def run(method, train, valid):
        args = at.anew(**{**first, "file_list_train": train, "file_list_eval": valid,
                          "total_samples_train": spf * len(train), "total_samples_eval": spf * len(valid)})
        return [(method(args, epoch), exact({k: v for k, v in vars(args).items()
                                             if k not in ("logger", "resized_image")}),
                 state()) for epoch in epochs]

    at.alike(run, (original(cls.reconfigure), list(real), list(real_eval)), (cls.reconfigure, lazy, lazy_eval))


# ---- loaders and readers -----------------------------------------------------------------------


@covers("the sampler", "dlio_sampler.__init__", "dlio_sampler.__iter__")
def sampler(at):
    """What it gives in two passes; each of its own samples once."""
    cls, pick = module_of("data_loader.torch_data_loader").dlio_sampler, at.random
    size = pick.choice((1, 2, 3, 7, pick.randint(1, 60)))
    total = pick.choice((pick.randint(0, 200), pick.randint(0, 20) * size))
    args = [pick.choice((pick.randrange(size), size - 1)), size, total]
    theirs = original(cls.__init__)
    rest = {"shuffle": pick.choice([*at.config.Shuffle, "off"]), "epochs": 2,
            "seed": pick.choice((7, 123))}
    args += [rest.get(name, 0) for name in _takes(theirs)[4:]]
    at.note(arguments=[str(arg) for arg in args])

    def run(init):
        one = cls.__new__(cls)
        return [init(one, *args), sorted(one.indices), list(one), list(one), len(one),
                one.num_samples, list(pickle.loads(pickle.dumps(one.indices)))]

    at.alike(run, (theirs,), (cls.__init__,))
    one = cls.__new__(cls)
    cls.__init__(one, *args)
    own = sorted(one.indices)
    at.blame("dlio_sampler.__iter__")
    at.same(own, sorted(one), "its own samples", "what it gives")
    return one


@covers("PyTorch's map-style data set", "TorchDataset.__init__", "TorchDataset.worker_init",
        count=150)
def torch_dataset(at):
    """A worker's arguments are those of its rank; it makes one reader."""
    module = module_of("data_loader.torch_data_loader")
    pick, cls = at.random, at.config.ConfigArguments
    real, lazy, total, _ = draw_maps(at)
    kind = pick.choice(list(kinds().DatasetType))
    fmt = pick.choice(list(at.config.FormatType))
    worker, workers = pick.randrange(5), pick.choice((0, 1, 2, 5))
    at.note(files=len(real), worker=worker, workers=workers, kind=str(kind))
    maps = ("train_global_index_map", "val_global_index_map", "train_file_map", "val_file_map")
    first = dict(vars(at.args))
    told = []

    def run(files):
        vars(at.anew(**{**first, **{name: {} for name in maps}, "file_list_train": files,
                        "file_list_eval": files})).pop("logger")
        calls = []
        told.append(calls)

        def get_reader(*given, **named):
            """What a reader is made of, and what it will find."""
            now = cls.get_instance()
            calls.append([[str(one) for one in given], {k: str(v) for k, v in named.items()},
                          list(now.file_list_train), list(now.file_list_eval), now.my_rank,
                          now.comm_size])
            return types.SimpleNamespace(finalize=lambda: None)

        with lent(module, ReaderFactory=types.SimpleNamespace(get_reader=get_reader)):
            one = module.TorchDataset(fmt, kind, 3, total, workers, 2)
            if workers:
                one.worker_init(worker)
            one.dlp_logger = None
            return [calls, one.num_samples, one.batch_size, one.num_images_read]

    at.alike(run, (list(real),), (lazy,))
    if told[1]:
        at.blame("TorchDataset.worker_init")
        at.same(1, len(told[1]), "a reader", "readers that are made")
        at.same([real, real, first["my_rank"], first["comm_size"]], told[1][0][2:],
                "files, rank and size of its rank", "what a worker has")
        at.same(str(worker if workers else -1), told[1][0][1].get("thread_index"),
                "the worker's number", "thread_index")


ITERABLE = ("TorchIterableDataset", "TorchIterableDatasetSimple")


@covers("PyTorch's iterable data sets", *("%s.%s" % (name, method) for name in ITERABLE
                                          for method in ("__init__", "worker_init", "__iter__")),
        count=200)
def iterable(at):
    """What a worker reads of its rank's list."""
    module, enums = module_of("data_loader.torch_data_loader"), kinds()
    pick, cls = at.random, at.config.ConfigArguments
    real, lazy = at.pair(pick.randint(1, 40))
    kind = pick.choice((enums.DatasetType.TRAIN, enums.DatasetType.VALID))
    workers = pick.choice((0, 1, 2, 3, 5))
    worker, batch, spf = pick.randrange(workers or 1), pick.randint(1, 4), pick.randint(1, 3)
    whole = pick.random() < .3
    at.note(files=len(real), worker=worker, workers=workers, kind=str(kind), batch_size=batch,
            samples_per_file=spf)
    information = types.SimpleNamespace(id=worker, num_workers=workers) if workers else None

    class Reader:
        """Notes what it is asked to read."""
        _prefetch_executor = None

        def __init__(self, calls, files, thread_index):
            self.calls, self._file_list, self.thread_index = calls, files, thread_index
            self.file_map, self.open_file_map = {}, {}
            if whole:
                self.iter_epoch = self._iter_epoch

        def _iter_epoch(self, files, batch_size):
            for path in files:
                self.calls.append(("open", path))
                yield batch_size

        def open(self, path):
            """A file of two row groups."""
            self.calls.append(("open", path))
            about = types.SimpleNamespace(metadata=types.SimpleNamespace(num_row_groups=2))
            return about, None, [0, 3, 5]

        def get_sample(self, path, index):
            self.calls.append(("get", path, index))

        def next(self):
            """All of its map."""
            for entry in self.file_map[self.thread_index]:
                self.calls.append(("open", entry[1]))
                self.calls.append(exact(entry))
                yield entry

    told = []

    def run(name, files):
        at.anew(file_list_train=files, file_list_eval=files, resized_image=7,
                num_samples_per_file=spf, comm_size=1, my_rank=0)
        calls = []
        told.append(calls)

        def get_reader(*_, thread_index=None, **named):
            now = cls.get_instance()
            calls.append(sorted((k, str(v)) for k, v in named.items()))
            return Reader(calls, now.file_list_train if kind is enums.DatasetType.TRAIN
                          else now.file_list_eval, thread_index)

        with lent(module, ReaderFactory=types.SimpleNamespace(get_reader=get_reader)), lent(
                module.torch.utils.data, get_worker_info=lambda: information):
            one = getattr(module, name)("npz", kind, 1, batch, workers)
            if workers:
                one.worker_init(worker)
            given = list(one)
            if hasattr(one, "dlp_logger"):
                one.dlp_logger = None
            return [calls, given]

    for name in ITERABLE:
        at.blame(name + ".__iter__")
        made, _ = at.alike(run, (name, list(real)), (name, lazy))
        if isinstance(made, dict):
            read = [call[1] for call in told[-1] if isinstance(call, tuple) and call[0] == "open"]
            at.same(real[worker::workers] if workers else real, list(dict.fromkeys(read)),
                    "its share of the list", "what a worker reads")


@covers("DALI's data set", "DaliIndexDataset.__init__", count=600)
def dali(at):
    """Its sample numbers, in their order."""
    if at.index == 0:
        fakes.instead_of("nvidia.dali.pipeline", "nvidia", "nvidia.dali", "nvidia.dali.pipeline",
                         "nvidia.dali.fn", "nvidia.dali.types", "nvidia.dali.tfrecord")
    module = module_of("data_loader.dali_data_loader")
    cls, pick = module.DaliIndexDataset, at.random
    size = pick.choice((1, 2, 3, 7, pick.randint(1, 60)))
    total = pick.choice((pick.randint(0, 200), pick.randint(0, 20) * size))
    given = ["jpeg", "train", 1, pick.randrange(size), size, total,
             -(-total // size) if pick.random() < .8 else pick.randint(0, 30), pick.randint(1, 4),
             pick.choice([*at.config.Shuffle, "off"]), 7]
    at.note(arguments=[str(arg) for arg in given])

    def run(init):
        one = cls.__new__(cls)
        return [init(one, *given), {name: value for name, value in vars(one).items()
                                    if name not in ("reader", "indices", "logger")},
                list(one.indices), one.indices[:3]]

    with lent(module, ReaderFactory=types.SimpleNamespace(get_reader=lambda *a, **k: types.SimpleNamespace(
            is_index_based=lambda: True, is_iterator_based=lambda: True))):
        at.alike(run, (original(cls.__init__),), (cls.__init__,))


def reader_class(module, calls):
    """A reader that tells what is asked of it."""
    class Reader(module.FormatReader):
        """The least that FormatReader asks for."""

        def open(self, filename):
            calls.append(("open", filename))
            return object()

        def close(self, filename):
            calls.append(("close", filename, filename in self.open_file_map))

        def get_sample(self, filename, sample_index):
            calls.append(("get", filename, exact(sample_index)))

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
    return Reader


@covers("readers", "FormatReader.__init__", "FormatReader.next", "FormatReader.read_index",
        count=300)
def reader(at):
    """What is opened, read and closed, in its order, by list and FileList."""
    import numpy

    module, enums = module_of("reader.reader_handler"), kinds()
    pick, args, cls = at.random, at.args, at.config.ConfigArguments
    length = 2 * pick.randint(1, 10)
    spf, threads = pick.randint(1, 4), pick.choice((0, 1, 2))
    args.resized_image = numpy.zeros(1)
    args.num_samples_per_file, args.batch_size, args.batch_size_eval = spf, 1, 1
    args.read_threads, args.comm_size = threads, pick.choice((1, 2))
    args.my_rank = pick.randrange(args.comm_size)
    args.sample_shuffle = pick.choice(list(at.config.Shuffle))
    args.data_loader = at.config.DataLoaderType.PYTORCH
    args.storage_type = at.config.StorageType.LOCAL_FS
    args.read_type = pick.choice([*enums.ReadType, "on_demand"])
    kind = pick.choice((enums.DatasetType.TRAIN, enums.DatasetType.VALID))
    order = pick.random()
    at.note(files=length, samples_per_file=spf, threads=threads, kind=str(kind),
            read_type=str(args.read_type))
    readers, told = [], []

    def run(files):
        calls = []
        told.append(calls)
        args.file_list_train = args.file_list_eval = files
        for method, names in (("get_global_map_index", ("train_global_index_map", "val_global_index_map")),
                              ("build_sample_map_iter", ("train_file_map", "val_file_map"))):
            function = getattr(cls, method)
            found = function(args, files, *(length * spf, 1)[:len(_takes(function)) - 2])
            for name in names:
                setattr(args, name, found[0] if isinstance(found, tuple) else found)
        one = reader_class(module, calls)(kind, 0)
        readers.append(one)
        one.logger = fakes.logger()
        calls.append([batch.tolist() for batch in one.next()])
        calls.append("index")
        own = list(args.train_global_index_map)
        for sample in random.Random(order).choices(own, k=3 * len(own)) if own else ():
            one.read_index(sample, 1)
        return [calls, sorted(k for k, v in one.open_file_map.items() if v)]

    at.alike(run, *((files,) for files in at.pair(length)))
    if "index" not in told[0]:
        return None  # it has failed, alike
    # What the maps say, and nothing else.
    at.blame("FormatReader.next")
    wanted = [(name, exact(sample)) for _, name, sample in list(args.train_file_map[0])]
    parts = told[1].index("index")
    at.same(wanted, [call[1:] for call in told[1][:parts] if call[0] == "get"],
            "the samples of its map", "what is read")
    at.blame("FormatReader.read_index")
    at.same([tuple(exact(one) for one in args.train_global_index_map[sample])
             for sample in random.Random(order).choices(list(args.train_global_index_map),
                                                        k=3 * len(args.train_global_index_map))],
            [call[1:] for call in told[1][parts + 1:] if call[0] == "get"],
            "the samples that are asked for", "what is read")
    return readers[-1]


@covers("TFRecord", "TFReader.next", count=300)
def tf_reader(at):
    """Which files a rank's data set is of, and what is done to it."""
    if at.index == 0 and "dlio_benchmark.reader.tf_reader" not in sys.modules:
        try:
            importlib.import_module("tensorflow")
        except Exception:  # pylint: disable=broad-except
            sys.modules["tensorflow"] = fakes.tensorflow()
    module, enums = module_of("reader.tf_reader"), kinds()
    pick, args = at.random, at.args
    args.comm_size = pick.choice((1, 2, 3, 4, 7))
    args.my_rank = pick.randrange(args.comm_size)
    args.num_samples_per_file = pick.randint(1, 4)
    args.batch_size, args.batch_size_eval = pick.randint(1, 3), pick.randint(1, 3)
    args.sample_shuffle = pick.choice([*at.config.Shuffle, "off"])
    args.read_threads, args.epochs = pick.randint(0, 3), pick.randint(1, 3)
    at.vary()
    kind = pick.choice((enums.DatasetType.TRAIN, enums.DatasetType.VALID))
    real, lazy = at.pair(pick.randint(1, 40))
    at.note(files=len(real), kind=str(kind))
    theirs = fakes.tensorflow()
    holder = types.SimpleNamespace(tf=theirs)
    tensorflow.patch(holder, None)

    def run(tf, files):
        args.file_list_train = args.file_list_eval = files
        args.train_global_index_map = args.val_global_index_map = {}
        args.train_file_map = args.val_file_map = {}
        with lent(module, tf=tf):
            one = module.TFReader.__new__(module.TFReader)
            module.TFReader.__mro__[1].__init__(one, kind, 0)
            one._resized_image = one._dataset = None
            one.logger = fakes.logger()
            return fakes.simple(one.next())

    at.alike(run, (theirs, real), (holder.tf, lazy))


# ---- the storage class -------------------------------------------------------------------------


@covers("the storage class", "FileStorage.walk_node", "FileStorage.get_uri", "FileStorage.get_node",
        "FileStorage.get_basename", count=120)
def storage(at):
    """What it says of folders and files."""
    module, metadata, pick, root = module_of("storage.file_storage"), kinds().MetadataType, at.random, at.tree
    space = pick.choice(("", root, root + "/", os.path.relpath(root)))
    one = module.FileStorage.__new__(module.FileStorage)
    one.namespace = types.SimpleNamespace(name=space)
    one.logger = fakes.logger()
    node = pick.choice(("sub", "sub/deep", "sub/a.npz", "none", "sub/", "a.b/c.npz"))
    if not space:
        node = os.path.join(root, node)
    path = os.path.join(space, node)
    at.note(namespace=space, node=node)
    at.blame("FileStorage.get_uri")
    at.same(path, one.get_uri(node), "the path", "get_uri()")
    at.blame("FileStorage.get_basename")
    at.same(os.path.basename(path), one.get_basename(path), "the name", "get_basename()")
    at.blame("FileStorage.get_node")
    kind = None if not os.path.exists(path) else (
        metadata.DIRECTORY if os.path.isdir(path) else metadata.FILE)
    at.same(str(kind), str(one.get_node(node)), "what it is", "get_node()")
    at.blame("FileStorage.walk_node")
    walk = original(module.FileStorage.walk_node)
    if os.path.isdir(path):
        at.same(os.listdir(path), walk(one, node), "the directory", "walk_node()")
    pattern = os.path.join(os.path.dirname(node), pick.choice(("*/*.npz", "*.npz")))
    full = os.path.join(space, pattern)
    at.note(pattern=pattern)
    at.same(glob.glob(full) + glob.glob(full.replace("npz", "NPZ")),
            walk(one, pattern, use_pattern=True), "both cases of the pattern", "walk_node()")


# Proven on ranks of MPI, by runs.Proof.lists().
LISTED = ("DLIOBenchmark.initialize", "ConfigArguments.derive_configurations",
          "ConfigArguments.reconfigure", "FileStorage.walk_node", "FileStorage.get_uri",
          "FileStorage.get_node", "FileStorage.get_basename", "ConfigArguments._reshard_files",
          "DLIOMPI.comm", "DLIOMPI.allreduce_min", "DLIOMPI.alltoall")
