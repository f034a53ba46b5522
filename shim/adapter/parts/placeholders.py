# SPDX-License-Identifier: MIT
"""placeholders: the list of files inside DLIOBenchmark.initialize(), as a list of one element.

initialize() asks the storage class for the names in data_folder/{train,valid}. That call, and no
other, is answered from the listing. What initialize() builds from the answer is a list of one
Placeholder, a str that knows which files it stands for; `len` in the module of initialize() knows Placeholders
too, until derive_configurations() receives the list and takes the files out of it.
"""
import os
import sys

from ..native import WARN, native, speaks
from ..patching import replaces
from . import compare_ranks
from .benchmark import running


ARGUMENT = {"train": "train", "valid": "eval"}  # how DLIO's arguments call what lies in these folders


class Placeholder(str):
    """The one element of a list that stands for `files`; survives os.path.join()."""

    def __new__(cls, text, files):
        made = super().__new__(cls, text)
        made.files = files
        return made

    def __radd__(self, other):
        return Placeholder(str(other) + str(self), self.files)


class PlaceholderNames(list):
    """What walk_node() returns for a flat folder: not empty, [0] is the first entry as libc shows
    it (DLIO looks whether it is a directory), and iterating gives the Placeholder, as a slice does."""

    def __init__(self, first, placeholder):
        super().__init__()
        self._first, self.placeholder = first, placeholder

    def __len__(self):
        return 1

    def __getitem__(self, i):
        return list(self)[i] if isinstance(i, slice) else [self._first][i]

    def __iter__(self):
        return iter([self.placeholder] if self.placeholder is not None else [])

    def __repr__(self):
        return "<libshard: names of %r>" % (self.placeholder.files if self.placeholder is not None else [],)

    __str__ = __repr__


def names_of(files, first=None):
    """PlaceholderNames that stand for a FileList; first: what they begin with, if it is not the first file."""
    name = files.listing.name(0)
    return PlaceholderNames(first or name, Placeholder(name, files))


def files_of(value):
    """The FileList behind a list of one Placeholder, or None."""
    if type(value) is list and list.__len__(value) == 1 and type(value[0]) is Placeholder:
        return value[0].files
    return None


def length(value):
    """len() for the module of initialize(): a list of one Placeholder has the length it stands for, and so
    has one of numbers."""
    files, run = files_of(value), running()
    part = run.skip.part(value) if run and run.skip else None
    if part is not None:
        return part.length(value)
    return len(value) if files is None else len(files)


class Refusal(Exception):
    """Why a folder is listed in the unmodified way."""


_refused = set()


def say_refusal(what, why):
    """Warn once per reason and node; but each rank tells of its own time-out."""
    import errno

    reason = str(getattr(why, "strerror", None) or why)
    if reason not in _refused:
        _refused.add(reason)
        if speaks() or getattr(why, "errno", None) == errno.ETIMEDOUT:
            native().log(WARN, "%s is listed in the unmodified way: %s" % (what, reason))


def check_order(listing):
    """Refuse names that Python would sort differently than libshard does."""
    if not listing.ascii and (not listing.utf8 or sys.getfilesystemencoding().lower() != "utf-8"):
        raise Refusal("some names are not valid UTF-8, so their order in Python is another one")


def kind_of(benchmark, node):
    """Whether a node is in data_folder/train or data_folder/valid: "train" or "valid"; None."""
    for kind in ("train", "valid"):
        folder = os.path.join(benchmark.args.data_folder, kind)
        if node == folder or str(node).startswith(folder + "/"):
            return kind
    return None


def check(run, kind):
    """Refusal where a list of one Placeholder would not do as DLIO's own does."""
    benchmark, changed = run.benchmark, run.changed()
    if changed is not None:
        raise Refusal(changed)
    if getattr(benchmark, "num_files_" + ARGUMENT[kind]) < 0:
        raise Refusal("a negative number of files cuts from the end of the list")
    args = benchmark.args
    if args.reader_classname is not None or args.data_loader_classname is not None:
        raise Refusal("a custom reader or data loader needs a real list")


def _answered(original, walk, storage, run, *arguments):
    """What initialize() gets of walk_node(); see answer_walks()."""
    try:
        kind = kind_of(run.benchmark, arguments[0])
        if kind is not None:
            check(run, kind)
            answer = walk(storage, run.benchmark, kind, *arguments)
            if answer is not None:
                run.lists_pending = run.lists_pending or _files_in(answer) != []
                return answer
    except (Refusal, OSError) as error:
        run.refused = True
        say_refusal(repr(arguments[0]), error)
    return original(storage, *arguments)


def _files_in(answer):
    """The FileList that an answer stands for, [] if it is of no files, None if it is DLIO's own."""
    if isinstance(answer, PlaceholderNames):
        return getattr(answer.placeholder, "files", [])
    return [] if len(answer) == 0 else files_of(answer)


def answer_walks(cls, walk):
    """Let walk(storage, benchmark, kind, node, use_pattern) answer where initialize() calls
    walk_node() of a storage class. If it returns None or fails, DLIO's own answers; a failure is
    said. The ranks compare what they have."""
    original = cls.walk_node

    @replaces(cls)
    def walk_node(self, id, use_pattern=False):
        run = running(self)
        if run is None or type(self) is not cls or not run.calls(sys._getframe(1).f_code):
            return original(self, id, use_pattern)
        ranks = compare_ranks.ranks_of(run.benchmark)
        if ranks is None:
            return _answered(original, walk, self, run, id, use_pattern)
        kind = kind_of(run.benchmark, id)
        try:
            answer = _answered(original, walk, self, run, id, use_pattern)
        except Exception as error:  # pylint: disable=broad-except
            ranks.fail(error)
            raise
        ranks.note(kind, repr(id), _files_in(answer))
        if not use_pattern:
            ranks.listed(kind)
        return answer
