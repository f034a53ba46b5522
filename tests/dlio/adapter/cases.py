"""DLIO's function and the adapter's on one small list that is drawn at random."""
import enum
import importlib
import inspect
import os
import pickle
import random
import types

from _libshard.mapped_listing import Listing
from _libshard.sequences import FileList

from . import reading
from .plain import exact, outcome

LOGGER = types.SimpleNamespace(**dict.fromkeys(
    ("debug", "info", "warning", "error", "output"), lambda *a, **k: None))  # says nothing


def original(method):
    """DLIO's own function behind the adapter's; the same if it is not replaced."""
    return getattr(method, "__wrapped__", method) if getattr(
        method, "__module__", "").startswith("_libshard") else method


def module_of(name):
    return importlib.import_module("dlio_benchmark." + name)


def _takes(function):
    return list(inspect.signature(function).parameters)


class At:
    """What a case works with; `begin` makes it ready for the next."""

    def __init__(self, folder, config, many):
        """many: files of the data set of the lists."""
        self.folder, self.config = folder, config
        self.index, self.random, self.args, self.noted = 0, None, None, {}
        os.makedirs(folder, exist_ok=True)
        for i in range(many):
            with open(os.path.join(folder, "f%05d.npz" % i), "w", encoding="utf-8"):
                pass
        self._names = sorted(os.listdir(folder))
        self._listing = Listing.of_dataset(folder, "order=path depth=1 include=*npz")
        self._options = self._find_options()

    # -- files

    def length(self):
        """Most lists are short."""
        if self.index % 199 == 198:
            return len(self._names)
        return self.random.choice((0, 1, 2, self.random.randint(0, 12), self.random.randint(1, 60)))

    def pair(self, size, prefix=None):
        """(list, FileList) of the first `size` files; of none there is no FileList in a run."""
        prefix = self.folder + "/" if prefix is None else prefix
        real = [prefix + name for name in self._names[:size]]
        return real, FileList(self._listing, prefix)[:size] if real else []

    def shuffle_both(self, real, lazy):
        """As DLIO's reconfigure() does."""
        import numpy

        for files in (real, lazy):
            numpy.random.seed(5)
            self.config.np.random.shuffle(files)

    # -- arguments

    def _find_options(self):
        """{option: values} that may be varied: those whose default says what it may be."""
        fixed = ("debug", "generate_data", "generate_only", "do_profiling", "files_pre_sharded", "skip_listing")
        found = {}
        cls = self.config.ConfigArguments
        for name, field in getattr(cls, "__dataclass_fields__", {}).items():
            default = getattr(cls, name, None)
            if name in fixed or name in DRAWN:
                continue
            if isinstance(field.type, enum.EnumMeta):  # the default may be a member's value
                found[name] = tuple(field.type)
            elif isinstance(default, bool):
                found[name] = (True, False)
            elif isinstance(default, int):
                found[name] = (default, 0, 1, 2, 3, 7)
            elif isinstance(default, float):
                found[name] = (default, 0.0, 0.5, 2.0)
            elif isinstance(default, enum.Enum):
                found[name] = tuple(type(default))
        return found

    def vary(self):
        """Other values than the defaults' for a few options."""
        for name in self.random.sample(sorted(self._options), self.random.choice((0, 0, 1, 3))):
            value = self.random.choice(self._options[name])
            setattr(self.args, name, value)
            self.noted[name] = str(value)

    def begin(self, title, index):
        """The case `index` of a title; both tell what it draws."""
        self.random = random.Random("%s %d" % (title, index))
        self.index, self.noted = index, {}
        cls = self.config.ConfigArguments
        cls.reset()
        self.args = cls.get_instance()
        self.args.logger = LOGGER
        if hasattr(cls, "files_pre_sharded"):
            self.args.files_pre_sharded = True  # initialize() sets it before there is a list

    # -- results

    def note(self, **inputs):
        self.noted.update(inputs)

    def alike(self, run, theirs, ours):
        """What comes of run(*theirs), as run(*ours) must."""
        self.same(*(outcome(run, *side) for side in (theirs, ours)))

    def told(self):
        """The input of this case."""
        return {**{name: str(getattr(self.args, name, None)) for name in TOLD}, **self.noted}

    def same(self, theirs, ours, what="DLIO's", other="the adapter's"):
        if theirs != ours:
            raise AssertionError("%s\n  %s: %.600s\n  %s: %.600s" % (self.told(), what, theirs, other, ours))


TOLD = ("comm_size", "my_rank", "num_samples_per_file", "read_threads", "sample_shuffle", "seed",
        "seed_change_epoch", "data_loader", "storage_type")
# Options that cases draw, and that no case needs to vary.
DRAWN = {"num_samples_per_file", "comm_size", "my_rank", "read_threads", "sample_shuffle",
         "file_shuffle", "seed", "seed_change_epoch", "data_loader", "storage_type", "read_type",
         "batch_size", "batch_size_eval", "epochs", "data_loader_sampler", "training_steps"}


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
        made.append((*outcome(function, at.args, files, *rest), at.args.samples_per_thread))
    at.same(*made)
    return real, lazy, rest, made[0]


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
    at.same(own, sorted(one), "its own samples", "what it gives")
    return one


def reader(at):
    """What is opened, read and closed, in its order, by list and FileList."""
    import numpy

    module, enums = module_of("reader.reader_handler"), module_of("common.enumerations")
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
        one = reading.reader_class(module, calls, exact)(kind, 0)
        readers.append(one)
        one.logger = LOGGER
        calls.append([batch.tolist() for batch in one.next()])
        calls.append("index")
        own = list(args.train_global_index_map)
        for sample in random.Random(order).choices(own, k=3 * len(own)) if own else ():
            one.read_index(sample, 1)
        return [calls, sorted(k for k, v in one.open_file_map.items() if v is not None)]

    at.alike(run, *((files,) for files in at.pair(length)))
    if "index" not in told[0]:
        return None  # it has failed, alike
    # What the maps say, and nothing else.
    wanted = [(name, exact(sample)) for _, name, sample in list(args.train_file_map[0])]
    parts = told[1].index("index")
    at.same(wanted, [call[1:] for call in told[1][:parts] if call[0] == "get"],
            "the samples of its map", "what is read")
    chosen = random.Random(order).choices(list(args.train_global_index_map), k=3 * len(args.train_global_index_map))
    at.same([(args.train_global_index_map[sample][0], exact(args.train_global_index_map[sample][1])) for sample in chosen],
            [call[1:] for call in told[1][parts + 1:] if call[0] == "get"],
            "the samples that are asked for", "what is read")
    return readers[-1]
