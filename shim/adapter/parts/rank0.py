# SPDX-License-Identifier: MIT
"""rank0: DLIOs whose rank 0 lists the dataset, and broadcasts every path to all ranks.

initialize() has rank 0 ask the storage class for names, and broadcasts the sorted paths in chunks;
every rank keeps each P-th. Here, if all ranks have libshard, rank 0 first offers a listing: each rank
opens it, on its own node. If all have the same one, rank 0's list of names is a Token, one chunk is
broadcast that stands for all paths, and each rank keeps of it a Token of its own part. If one rank has
not, all go on unmodified: rank 0 decides, and the others learn it from what is broadcast.

Meanwhile the benchmark's communicator is a Comm: it sees to the messages that are ours. What goes
wrong while rank 0 lists is broadcast too, for the others wait for nothing else.
"""
import itertools
import os
import sys

from ..native import WARN, native, speaks
from ..patching import Proxy, lent, replaces
from ..sequences import FileList
from . import agree, reshard, skipped
from .derived import share, shard_world
from .benchmark import at_hand
from .tokens import ARGUMENT, Refusal, Token, check, files_of, kind_of, names_of, say_refusal


# ---- what is broadcast -------------------------------------------------------------------------


class Offer:
    """Asks all ranks to open a listing: opener(storage, *arguments) returns its FileList.

    kind     "train" or "valid"
    what     how people call what is listed
    """

    def __init__(self, kind, what, opener, *arguments):
        self.kind, self.what = kind, what
        self._opener, self._arguments = opener, arguments

    def open(self, storage):
        """The FileList, or None and a word to people, but if there are no files."""
        try:
            check(at_hand(storage), self.kind)
            return self._opener(storage, *self._arguments) or None
        except Exception as error:  # pylint: disable=broad-except
            say_refusal(self.what, error)  # whatever it is: the other ranks wait for an answer
        return None


class Taken:
    """Is broadcast in place of the paths of the listing that all ranks have opened."""


class Failure:
    """Is broadcast where rank 0 fails."""

    def __init__(self, error):
        import pickle

        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # pylint: disable=broad-except
            error = RuntimeError("%s: %s" % (type(error).__name__, error))
        self.error = error


class Chunk:
    """The chunk of all paths as a rank's filter sees it: the part of the rank, at its place, is a
    Token; len() is that of all."""

    def __init__(self, count, rank, token):
        self._count, self._rank, self._token = count, rank, token

    def __len__(self):
        return self._count

    def __iter__(self):
        return itertools.chain(itertools.repeat(None, self._rank), (self._token,))

    def __repr__(self):
        return "<libshard: %d paths>" % self._count


class Comm(Proxy):
    """The benchmark's communicator while initialize() lists."""

    def __init__(self, benchmark, comm):
        super().__init__(comm, _benchmark=benchmark, _kind=None, _files=None, first_folder=None)

    def original(self):
        """The communicator itself, at the end."""
        return self._target

    def agreed(self):
        """The FileList that all ranks have opened, until it is broadcast."""
        return self._files

    def offer(self, offer):
        """On rank 0: the FileList that all ranks have opened, or None."""
        self._target.bcast(offer, root=0)
        return self._consider(offer)

    def _consider(self, offer):
        files = offer.open(self._benchmark.storage)
        mine = files and (files.listing.digest, len(files), files.prefix)
        others = self._target.allgather(mine)
        agreed = mine is not None and others.count(mine) == len(others)
        self._kind, self._files = offer.kind, files if agreed else None
        if not agreed and self._target.rank == 0 and mine is not None:
            rank = next(i for i, one in enumerate(others) if one != mine)
            say_refusal(offer.what, Refusal(
                "rank %d %s" % (rank, "cannot open its listing" if others[rank] is None else
                                "finds other names, or another order; SHARD_LISTING gives all nodes one listing "
                                "(shardctl index)")))
        return self._files

    def fail(self, error):
        """On rank 0: let the other ranks, which wait for a broadcast, fail alike."""
        self._target.bcast(Failure(error), root=0)

    def bcast(self, obj=None, root=0):
        """As mpi4py's."""
        comm = self._target
        if comm.rank == root:
            if self._files is None or obj != [self._files[0]]:
                return comm.bcast(obj, root=root)
            comm.bcast(Taken(), root=root)
            return self._chunk()
        while True:
            got = comm.bcast(obj, root=root)
            if isinstance(got, Offer):
                self._consider(got)
            elif isinstance(got, Taken):
                return self._chunk()
            elif isinstance(got, Failure):
                raise got.error
            else:
                return got

    def _chunk(self):
        benchmark, files, self._files = self._benchmark, self._files, None
        rank, size, count = benchmark.my_rank, benchmark.comm_size, len(files)
        if self._kind == "train":
            expected = benchmark.num_files_train
        else:
            expected = benchmark.num_files_eval if benchmark.do_eval else 0
        each = (min(expected, count) if expected > 0 else count) // size
        own = files[rank::size][:each]
        if each:
            files.count_reads(each * size)
        return Chunk(count, rank, Token(own[0] if own else "", own))


# ---- where initialize() comes by ---------------------------------------------------------------


def _patch_beginning(cls, tree):
    """initialize() sets files_pre_sharded before it lists: from then on it has a Comm, or a Skip."""
    name = "files_pre_sharded"
    default = vars(cls)[name]

    def fget(self):
        return self.__dict__.get(name, default)

    def fset(self, value):
        self.__dict__[name] = value
        run = at_hand(args=self) if value else None
        if run is None or run.met:
            return
        run.met, benchmark = True, run.benchmark
        if getattr(self, "skip_listing", False):
            run.skip = skipped.begin(tree, run)
            return
        why = agree.join(benchmark.comm, agree.settings())
        if why is None:
            benchmark.comm = Comm(benchmark, benchmark.comm)
        elif speaks():
            native().log(WARN, "DLIO lists its dataset in the unmodified way: " + why)

    setattr(cls, name, property(fget, fset))


def _patch_end(cls, module):
    """derive_configurations() gets FileLists for Tokens."""
    original = cls.derive_configurations

    def copied(values=()):
        return values.view() if isinstance(values, FileList) else list(values)

    @replaces(cls)
    def derive_configurations(self, file_list_train=None, file_list_eval=None):
        run = at_hand(args=self)
        benchmark = run and run.benchmark
        if isinstance(getattr(benchmark, "comm", None), Comm):
            benchmark.comm = benchmark.comm.original()
        given = {"train": file_list_train, "eval": file_list_eval}
        skip = run and run.skip
        found = {kind: skip.files("valid" if kind == "eval" else kind, files) if skip else files_of(files)
                 for kind, files in given.items()}
        if any(files is not None for files in found.values()):
            reshard.agree()
            world = shard_world(self)
            for kind, files in found.items():
                if files is not None and world is not None:
                    files = share(files, len(files), world.rank, world.size)
                    setattr(benchmark, "num_files_" + kind, len(files))
                if files is not None:
                    given[kind] = files if files else []
        with lent(module, list=copied):
            return original(self, given["train"], given["eval"])


def patch_config(module, tree):
    """Patch dlio_benchmark.utils.config."""
    _patch_beginning(module.ConfigArguments, tree)
    _patch_end(module.ConfigArguments, module)


# ---- the storage classes -----------------------------------------------------------------------


class _Failing:
    """What a walk in one of rank 0's threads returns if it has failed: the thread that makes the
    list learns of it where it iterates, and tells the others."""

    def __init__(self, comm, error):
        self._comm, self._error = comm, error

    def __iter__(self):
        self._comm.fail(self._error)
        raise self._error


def answer_walks(cls, flat, subfolders):
    """Let rank 0 offer listings where initialize() calls walk_node() of a storage class.

    flat(storage, benchmark, folder, suffix)               returns what to offer of a folder: (what,
    subfolders(storage, benchmark, folder, suffix, names)  opener, arguments ...), or None
    """
    original = cls.walk_node

    def offered(self, run, kind, node, names):
        """The FileList that all ranks have, or None."""
        benchmark = run.benchmark
        try:
            check(run, kind)
            suffix = str(benchmark.args.format)
            made = (flat(self, benchmark, node, suffix) if names is None
                    else subfolders(self, benchmark, node, suffix, names))
        except Exception as error:  # pylint: disable=broad-except
            say_refusal(repr(node), error)  # whatever it is: DLIO can list as ever
            return None
        return benchmark.comm.offer(Offer(kind, *made)) if made else None

    def walk(self, run, node):
        """The names of a folder, as initialize() gets them."""
        benchmark = run.benchmark
        kind = kind_of(benchmark, node)
        if kind is None or node != os.path.join(benchmark.args.data_folder, kind):
            return original(self, node)
        if getattr(benchmark, "num_subfolders_" + ARGUMENT[kind]) > 0:
            names = original(self, node)
            files = offered(self, run, kind, node, names) if names else None
            benchmark.comm.first_folder = min(names) if files else None
            return names
        files = offered(self, run, kind, node, None)
        return original(self, node) if files is None else names_of(files)

    @replaces(cls)
    def walk_node(self, id, use_pattern=False):
        run = at_hand(self) if type(self) is cls else None
        caller = run.calls(sys._getframe(1).f_code) if run else None
        if caller is None or not isinstance(run.benchmark.comm, Comm):
            return original(self, id, use_pattern)
        comm = run.benchmark.comm
        try:
            if caller == "itself":
                return walk(self, run, id)
            files = comm.agreed()
            if files is None:
                return original(self, id, use_pattern)
            first = os.path.basename(os.path.dirname(id)) == comm.first_folder
            return [Token(files[0], files)] if first else []
        except BaseException as error:
            if caller == "inside":
                return _Failing(comm, error)
            comm.fail(error)
            raise
