# SPDX-License-Identifier: MIT
"""derived: what ConfigArguments derives from the list of files, in closed form."""
import math

from ..genuine import is_genuine
from ..native import WARN, native, say_once
from ..patching import Proxy, replaces
from ..sequences import FileList, Indices, ThreadSamples
from . import agree
from .benchmark import at_hand
from .tokens import files_of


def shuffling(numpy):
    """numpy with a random.shuffle() that knows our sequences."""

    def shuffle(x):
        if isinstance(x, (FileList, Indices)) and is_genuine(numpy.random.shuffle, numpy.random,
                                                            "shuffle"):
            x.shuffle(numpy.random)
        else:
            numpy.random.shuffle(x)

    return Proxy(numpy, random=Proxy(numpy.random, shuffle=shuffle))


# ---- the list itself ---------------------------------------------------------------------------


def share(files, wanted, rank, size):
    """This rank's part of the first `wanted` files, for a DLIO that has no MPI world."""
    wanted = min(wanted, len(files))
    begin, end = native().range(wanted, rank, size)
    return files[begin:end]


def shard_world(args):
    """The launcher's world if SHARD_VIEW=shard applies to this DLIO, else None."""
    if native().view_asked() != "shard":
        return None
    world, error = native().world()
    if world is None or world.rank < 0:
        text = ("SHARD_VIEW=shard has no effect: %s"
                % (error or "no rank is known; set SHARD_RANK and SHARD_SIZE"))
        world = None
    elif args.comm_size > 1:
        text = ("SHARD_VIEW=shard has no effect: DLIO divides its files over %d MPI ranks itself, "
                "and would do so a second time" % args.comm_size)
        world = None
    else:
        text = ("SHARD_VIEW=shard: each of %d processes reads its own share of the files, and "
                "num_files_train and num_files_eval count the share" % world.size)
    say_once(WARN, text, "SHARD_VIEW=shard")
    return world


def _patch_derive(cls):
    """derive_configurations() gets the FileLists that the Tokens stand for, cut as initialize()
    has cut its list of one."""
    original = cls.derive_configurations

    @replaces(cls)
    def derive_configurations(self, file_list_train=None, file_list_eval=None):
        run = at_hand(args=self)
        if run and file_list_train is not None and file_list_eval is not None:
            agree.conclude(run.benchmark)
        given = {"train": file_list_train, "eval": file_list_eval}
        if any(files_of(files) is not None for files in given.values()):
            benchmark, world = run.benchmark, shard_world(self)
            for kind, files in given.items():
                files = files_of(files)
                count = "num_files_" + kind
                if files is None:
                    continue
                wanted = getattr(benchmark, count)
                files.count_reads(min(wanted, len(files)))
                if world is not None:
                    files = share(files, wanted, world.rank, world.size)
                    setattr(benchmark, count, len(files))
                elif wanted < len(files):
                    files = files[:wanted]
                given[kind] = files if files else []
        return original(self, given["train"], given["eval"])


# ---- for families' own functions ---------------------------------------------------------------


def own_samples(args, total):
    """(first, end) of the rank's samples; the end may lie behind the last sample there is."""
    each = int(math.ceil(total / args.comm_size))
    return args.my_rank * each, (args.my_rank + 1) * each


def seed(args, numpy, epoch):
    """Seed numpy's generator as DLIO does before it shuffles samples."""
    numpy.random.seed(args.seed + epoch if args.seed_change_epoch else args.seed)


def deal(module, args, file_list, samples, each, epoch, kind=ThreadSamples):
    """What build_sample_map_iter() makes of Indices: {thread: its samples}; samples_per_thread is
    set, and numpy's generator moved on, as it does. `each` is the number of samples per rank."""
    import numpy

    threads = 1
    if args.read_threads > 0 and args.data_loader is not module.DataLoaderType.DALI:
        threads = args.read_threads
    args.samples_per_thread = each // threads
    if args.sample_shuffle is not module.Shuffle.OFF:
        seed(args, numpy, epoch)
        samples.shuffle(numpy.random)
    return dealt(args, file_list.absolute(), samples, threads, kind)


def dealt(args, files, samples, threads, kind):
    """{thread: its samples} of Indices, in blocks of samples_per_thread."""
    if len(samples) and not args.samples_per_thread:
        raise ZeroDivisionError("integer division or modulo by zero")
    per_rank = (len(files) // args.comm_size) % len(files)
    return {
        thread: kind(files, samples, thread, threads, args.samples_per_thread or 1,
                     args.num_samples_per_file, args.my_rank * per_rank)
        for thread in range(threads)}


def sum_of(first, end):
    """Sum of the sample numbers as DLIO adds them up: numpy.int64, or 0 for none."""
    import numpy

    return numpy.int64((end - first) * (first + end - 1) // 2) if end > first else 0


def patch(index_map, file_map, module, _tree):
    """Patch dlio_benchmark.utils.config. The family's own index_map(module, ConfigArguments) and
    file_map(...) replace get_global_map_index() and build_sample_map_iter()."""
    cls = module.ConfigArguments
    _patch_derive(cls)
    index_map(module, cls)
    file_map(module, cls)
    module.np = shuffling(module.np)
