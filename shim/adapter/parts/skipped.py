# SPDX-License-Identifier: MIT
"""skipped: MLCommons' skip_listing, by which every rank makes the names of its files by counting.

initialize() has a loop over range(rank, files, ranks) that makes a name, asks the storage class for
its URI, and keeps that. Here range() gives this loop a few numbers of the rank's, and then an Index
that stands for all of them: DLIO's own code makes the template, and a few names to compare it with.
derive_configurations() gets a FileList in their place. All else, as looking whether files are there,
is DLIO's own.

Ranks exchange positions, and not paths, before an epoch: so either all of them do this, or none.
"""
import os

from .. import compressing
from ..native import WARN, native, speaks
from ..numbered import FIRST, Index, Unclear, label, template
from ..patching import lent, replaces
from ..sequences import FileList
from . import compare_ranks, reshard
from .benchmark import running
from .placeholders import Refusal, check, say_refusal

SAMPLES = 3      # numbers whose names are made as ever, and compared

KINDS = {"train": "num_files_train", "valid": "num_files_eval"}
STORAGE = "FileStorage", "ObjStoreLibStorage"  # whose get_uri() is known


class Part:
    """The files of one kind that this rank is to make names of.

    rank, count, size   range(rank, count, size) is what DLIO's loop goes over
    """

    def __init__(self, kind, rank, count, size):
        self.kind, self.rank, self.count, self.size = kind, rank, count, size
        self._whole = None  # the list that the loop has filled, as len() has seen it

    def numbers(self):
        """What the loop gets: the first, a middle and the last number of the rank's, and an Index."""
        own = range(self.rank, self.count, self.size)
        return [own[0], own[len(own) // 2], own[-1], Index(self.kind)]

    def length(self, values):
        """len() of the list: of all that the loop makes, and of what is left once DLIO has cut it to
        what each rank has."""
        if self._whole is None:
            self._whole = values
        own = range(self.rank, self.count, self.size)
        return len(own) if values is self._whole else self.count // self.size

    def files(self, values):
        """The FileList of what the loop has made. ValueError: it is not what numbers() tells."""
        *samples, text = values
        prefix, names = template(text, self.count)
        files = FileList(names, prefix)
        if samples != [files[number] for number in self.numbers()[:-1]]:
            raise Unclear("DLIO does not make all names alike: %r" % (samples,))
        each = self.count // self.size
        files.count_reads(each * self.size)
        return files[self.rank::self.size][:each]


class Skip:
    """Stands for range() in the module of initialize() while that makes names."""

    def __init__(self, run):
        benchmark = run.benchmark
        self._run, self._benchmark = run, benchmark
        self._left = {kind: getattr(benchmark, number) for kind, number in KINDS.items()
                      if kind == "train" or benchmark.do_eval}
        self._made = {}     # kind -> Part
        self._place = None  # where the loop's range() stands

    def range(self, place, *arguments):
        """The builtin's, but for the first one over a rank's numbers of each kind. place: where it
        is called, for others go over the same numbers: with 2 ranks, each second file is validated."""
        benchmark = self._benchmark
        if len(arguments) == 3 and self._place in (None, place):
            for kind, count in self._left.items():
                rank, size = benchmark.my_rank, benchmark.comm_size
                if arguments == (rank, count, size):
                    del self._left[kind]
                    self._place = place
                    if count // size <= SAMPLES:
                        break
                    self._made[kind], self._run.lists_pending = Part(kind, rank, count, size), True
                    return self._made[kind].numbers()
        return range(*arguments)

    def part(self, values):
        """The Part that a list of URIs is of; None."""
        if type(values) is not list or list.__len__(values) != SAMPLES + 1:
            return None
        return self._made.get(label(values[-1]))

    def files(self, kind, values):
        """The FileList that stands for a list, None if that is DLIO's own. RuntimeError: it should
        have been one of numbers."""
        part = self._made.get(kind)
        if part is None:
            return None
        try:
            if self.part(values) is part:
                return part.files(values)
            why = "they do not come back"
        except Unclear as error:
            why = str(error)
        raise RuntimeError("libshard cannot tell how DLIO names its %s files (%s); SHARD_VIEW=off runs "
                           "DLIO unmodified" % (kind, why))


def _is_textual(storage, path):
    """Whether get_uri() puts something before what is asked for, and leaves that alone."""
    def uri(name):
        return storage.get_uri(os.path.join(path, name))

    before = uri("x")[:-1]
    index = Index()
    names = ("0", "f_1_of_9.x", "07/f_07_of_10.x", os.path.join(str(index), f"{index:03d}_"))
    return all(uri(name) == before + name for name in names)


def _fitting(run):
    """Refusal where names that are numbers would not do as DLIO's own list does."""
    benchmark = run.benchmark
    args, storage = benchmark.args, benchmark.storage
    for kind in KINDS:
        check(run, kind)
    if type(storage).__name__ not in STORAGE:
        raise Refusal(type(storage).__name__ + " is not known")
    if compressing.why_real(args) is not None:
        raise Refusal(compressing.why_real(args))
    name = os.path.join("0", "%s_0.%s" % (args.file_prefix, args.format))
    if os.path.normpath(name) != name:
        raise Refusal("file_prefix='%s' has parts that a path need not have" % args.file_prefix)
    texts = [str(args.data_folder), str(args.file_prefix), str(args.format)]
    if any(FIRST in text or "\0" in text for text in texts):
        raise Refusal("its path holds a character that no file name has")
    if not all(_is_textual(storage, os.path.join(args.data_folder, kind)) for kind in KINDS):
        raise Refusal("%s.get_uri() changes names" % type(storage).__name__)


def begin(run):
    """What stands for range() in initialize() from now on: the ranks agree. None: all is as ever."""
    benchmark = run.benchmark
    args = benchmark.args
    try:
        _fitting(run)
        mine = (compare_ranks.settings(), args.data_folder, args.file_prefix, str(args.format),
                *(benchmark.storage.get_uri(os.path.join(args.data_folder, kind)) for kind in KINDS),
                *(getattr(benchmark, number) for number in KINDS.values()), benchmark.do_eval,
                benchmark.num_subfolders_train, benchmark.num_subfolders_eval)
    except Exception as error:  # pylint: disable=broad-except
        say_refusal("DLIO's dataset", error)  # whatever it is: the others wait for an answer
        mine = None
    why = compare_ranks.join(benchmark.comm, mine)
    if why and mine is not None and speaks():
        native().log(WARN, "DLIO keeps its list of files: " + why)
    return None if why else Skip(run)


# ---- where initialize() comes by ---------------------------------------------------------------


def _patch_beginning(cls):
    """initialize() sets files_pre_sharded before it makes names: from then on it has a Skip."""
    name = "files_pre_sharded"
    default = vars(cls)[name]

    def fget(self):
        return self.__dict__.get(name, default)

    def fset(self, value):
        self.__dict__[name] = value
        run = running(args=self) if value and getattr(self, "skip_listing", False) else None
        if run is not None and not run.met:
            run.met = True
            run.skip = begin(run)

    setattr(cls, name, property(fget, fset))


def _patch_end(cls, module):
    """derive_configurations() gets FileLists for what was counted."""
    original = cls.derive_configurations

    @replaces(cls)
    def derive_configurations(self, file_list_train=None, file_list_eval=None):
        run = running(args=self)
        given = {"train": file_list_train, "eval": file_list_eval}
        found = {}
        if run is not None and run.skip is not None:
            found = {kind: run.skip.files("valid" if kind == "eval" else kind, files) for kind, files in given.items()}
            run.lists_pending = False
        if any(files is not None for files in found.values()):
            reshard.agree()
            given.update({kind: files or [] for kind, files in found.items() if files is not None})
        with lent(module, list=compressing.lazy_list):
            return original(self, given["train"], given["eval"])


def patch_config(module):
    """Patch dlio_benchmark.utils.config."""
    _patch_beginning(module.ConfigArguments)
    _patch_end(module.ConfigArguments, module)
