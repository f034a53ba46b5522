# SPDX-License-Identifier: MIT
"""fakes: what stands in for objects and modules that the proofs of functions need."""
import sys
import types


class Anything(types.ModuleType):
    """A module that is not installed: it has every attribute, and all of them do nothing."""

    def __init__(self, name):
        super().__init__(name)
        self.__path__ = []
        self.__spec__ = None

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *args, **kwargs: None})


def instead_of(*names):
    """Put such modules where the first cannot be imported."""
    try:
        __import__(names[0])
    except Exception:  # pylint: disable=broad-except
        for name in names:
            sys.modules[name] = Anything(name)
            parent, _, last = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], last, sys.modules[name])


def logger():
    """A logger that says nothing."""
    return types.SimpleNamespace(**dict.fromkeys(
        ("debug", "info", "warning", "error", "output"), lambda *a, **k: None))


class Mpi:
    """DLIOMPI, where every rank gets what it has sent."""
    _world = 0, 1

    get_instance = comm = classmethod(lambda cls: cls)
    reset = initialize = staticmethod(lambda: None)
    ranks_per_node = staticmethod(lambda: 1)
    rank = classmethod(lambda cls: cls._world[0])
    size = classmethod(lambda cls: cls._world[1])

    @classmethod
    def set_parent_values(cls, rank, size):
        """As DLIO's, in a worker."""
        cls._world = rank, size

    @staticmethod
    def reduce(value, *_, **__):
        return value

    allreduce_min = alltoall = allreduce = bcast = reduce


class Told:
    """A tf.data.Dataset that tells what was done to it, and which files it is of."""

    def __init__(self, files, done=()):
        self.files, self.done = files, done

    def shard(self, num_shards, index):
        """As tf.data's."""
        if self.done:
            return Told(self.files, (*self.done, ("shard", num_shards, index)))
        return Told(self.files[index::num_shards])

    def unbatch(self):
        """As tf.data's; what is fed in chunks."""
        return Told([path for chunk in self.files for path in chunk])

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args, **kwargs):
            told = [name, *map(simple, args), *((k, simple(v)) for k, v in sorted(kwargs.items()))]
            return Told(self.files, (*self.done, tuple(told)))
        return call


def simple(value):
    """A value that can be compared."""
    if isinstance(value, Told):
        return value.files, value.done
    return value if isinstance(value, (int, float, str, bool, type(None))) else type(value).__name__


def tensorflow():
    """A module that makes Told data sets of files."""
    class Dataset:
        """tf.data.Dataset, as far as files go."""

        @staticmethod
        def list_files(file_pattern, shuffle=None, *_args, **_kwargs):
            return Told(sorted(file_pattern), () if shuffle is False else (("shuffled", shuffle),))

        @staticmethod
        def from_generator(generator, output_signature=None, **_kwargs):
            del output_signature
            return Told(list(generator()))

        from_tensor_slices = staticmethod(lambda values: Told(list(values)))

    def record_dataset(filenames=None, *args, **kwargs):
        return Told(simple(filenames), (("TFRecordDataset", *map(simple, args), *(
            (k, simple(v)) for k, v in sorted(kwargs.items()))),))

    fake = Anything("tensorflow")
    fake.data = types.SimpleNamespace(Dataset=Dataset, TFRecordDataset=record_dataset,
                                      Options=Anything("Options"), AUTOTUNE=-1,
                                      experimental=Anything("experimental"))
    fake.TensorSpec = lambda *args, **kwargs: None
    fake.string = fake.uint8 = fake.int64 = "dtype"
    return fake
