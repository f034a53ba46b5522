# SPDX-License-Identifier: MIT
"""tokens: the list of files inside DLIOBenchmark.initialize(), as a list of one element.

initialize() asks the storage class for the names in data_folder/{train,valid}. That call, and no
other, is answered from the listing. What initialize() builds from the answer is a list of one
Token, a str that knows which files it stands for; `len` in the module of initialize() knows Tokens
too, until derive_configurations() receives the list and takes the files out of it.
"""
import sys

from ..native import WARN, native, speaks
from ..patching import replace
from . import agree


class Token(str):
    """The one element of a list that stands for `files`; survives os.path.join()."""

    def __new__(cls, text, files):
        token = super().__new__(cls, text)
        token.files = files
        return token

    def __radd__(self, other):
        return Token(str(other) + str(self), self.files)


class Names(list):
    """What walk_node() returns for a flat folder: not empty, [0] is the first entry as libc shows
    it (DLIO looks whether it is a directory), and iterating gives the Token, as a slice does."""

    def __init__(self, first, token):
        super().__init__()
        self._first, self.token = first, token

    def __len__(self):
        return 1

    def __getitem__(self, i):
        return list(self)[i] if isinstance(i, slice) else [self._first][i]

    def __iter__(self):
        return iter([self.token] if self.token is not None else [])

    def __repr__(self):
        return "<libshard: names of %r>" % (self.token.files if self.token is not None else [],)

    __str__ = __repr__


def files_of(value):
    """The FileList behind a list of one Token, or None."""
    if type(value) is list and list.__len__(value) == 1 and type(value[0]) is Token:
        return value[0].files
    return None


def length(value):
    """len() for the module of initialize(): a list of one Token has the length it stands for."""
    files = files_of(value)
    return len(value) if files is None else len(files)


def count_tokens(frame):
    """From now on len() in the module of initialize() knows Tokens."""
    if frame.f_globals.get("len") is not length:
        frame.f_globals["len"] = length


def stop_counting(frame):
    """len() in that module is Python's again."""
    frame.f_globals.pop("len", None)


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


def kind_at_hand(frame):
    """The kind of dataset that initialize() is at: "train" or "valid"; whatever its local is
    called."""
    kinds = (value for value in frame.f_locals.values() if type(value).__name__ == "DatasetType")
    return str(frame.f_locals.get("dataset_type") or next(kinds, None))


def folder_at_hand(_node, frame):
    """How people call what initialize() lists: without the bucket, which a message need not tell."""
    return "data_folder/" + kind_at_hand(frame)


def asked(tree, storage, frame):
    """(benchmark, kind) if it is initialize() that asks for the names of train or valid."""
    benchmark = frame.f_locals.get("self")
    args = getattr(benchmark, "args", None)
    kind = kind_at_hand(frame)
    if args is None or getattr(benchmark, "storage", None) is not storage:
        return None, kind
    if kind not in ("train", "valid") or not tree.holds(frame.f_code, "main.py"):
        return None, kind
    if getattr(benchmark, "num_files_train" if kind == "train" else "num_files_eval") < 0:
        return None, kind  # cuts from the end, which a Token does not know
    if args.reader_classname is not None or args.data_loader_classname is not None:
        raise Refusal("a custom reader or data loader may do with the list what it likes")
    return benchmark, kind


def _answered(original, walk, describe, storage, frame, *arguments):
    """What initialize() gets of walk_node(); see answer_walks()."""
    try:
        answer = walk(storage, frame, *arguments)
        if answer is not None:
            return answer
    except (Refusal, OSError) as error:
        say_refusal(describe(arguments[0], frame), error)
    return original(storage, *arguments)


def _files_in(answer):
    """The FileList that an answer stands for, [] if it is of no files, None if it is DLIO's own."""
    if isinstance(answer, Names):
        return getattr(answer.token, "files", [])
    return [] if len(answer) == 0 else files_of(answer)


def answer_walks(cls, tree, walk, describe):
    """Let walk(storage, frame, node, use_pattern) answer where initialize() calls walk_node() of a
    storage class. If it returns None or fails, DLIO's own answers; a failure is said, with
    describe(node, frame) as the name of what is listed. The ranks compare what they have."""
    original = cls.walk_node

    def walk_node(self, id, use_pattern=False):
        frame = sys._getframe(1)
        if frame.f_code.co_name != "initialize" or type(self) is not cls:
            return original(self, id, use_pattern)
        ranks = agree.at_hand(tree, self, frame)
        if ranks is None:
            return _answered(original, walk, describe, self, frame, id, use_pattern)
        try:
            answer = _answered(original, walk, describe, self, frame, id, use_pattern)
        except BaseException as error:
            ranks.fail(error)
            raise
        ranks.note(kind_at_hand(frame), describe(id, frame), _files_in(answer))
        if not use_pattern:
            ranks.listed(kind_at_hand(frame))
        return answer

    replace(cls, walk_node)
