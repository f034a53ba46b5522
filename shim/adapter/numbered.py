# SPDX-License-Identifier: MIT
"""numbered: file names that a program makes by counting, as a template and a number of files.

A program that makes names in a loop is given one Index in place of all numbers. What it writes of
that number is a mark, so the text it ends up with tells how all texts are made: which digits, how
wide, of the number itself or of its remainder. Nothing needs to be known about the naming rule.
"""
import hashlib
import os
import re

from .native import native

FIRST, LAST = "\ufdd0", "\ufdd1"  # noncharacters of Unicode, around a mark
MARK = re.compile("%s([a-z]*):([0-9]*):([0-9]+)%s" % (FIRST, LAST))


class Unclear(ValueError):
    """A text that is no template."""


def label(text):
    """The label of the Index that a text was made with; None."""
    found = MARK.search(text) if isinstance(text, str) else None
    return found and found[1]


class Digits(str):
    """The decimal digits of an Index, as a mark."""

    def __new__(cls, index, width=1):
        made = super().__new__(cls, "%s%s:%s:%d%s" % (FIRST, index.label, index.modulus or "", width,
                                                      LAST))
        made.index, made.width = index, width
        return made

    def zfill(self, width):
        """As str's; an Index is not negative."""
        return Digits(self.index, max(self.width, width))

    def __len__(self):
        raise Unclear("the length of a number's digits differs from number to number")

    def __bool__(self):
        return True

    def __format__(self, spec):
        if spec:
            raise Unclear("digits are formatted by %r" % spec)
        return str.__str__(self)


class Index:
    """Stands for all numbers that a loop counts. It can be written, and its remainder, too; whoever
    computes something else with it gets an Unclear. It is no int, whose value C code would read.

    label    letters, to know it by
    modulus  if it is the remainder by that
    """

    def __init__(self, label="", modulus=None):
        self.label, self.modulus = label, modulus

    def __str__(self):
        return Digits(self)

    def __format__(self, spec):
        width = re.fullmatch("(?:0([1-9][0-9]*))?d?", spec)
        if not width:
            raise Unclear("a number is formatted by %r" % spec)
        return str.__str__(Digits(self, int(width[1] or 1)))

    def __mod__(self, modulus):
        if self.modulus is not None or type(modulus) is not int or modulus < 1:
            raise Unclear("a remainder of a remainder")
        return Index(self.label, modulus)


def _unclear(name):
    def method(self, *_arguments):
        raise Unclear("a number that names are made of is used by %s()" % name)

    method.__name__ = name
    return method


for _name in ("add radd sub rsub mul rmul rmod floordiv rfloordiv truediv rtruediv divmod rdivmod pow rpow "
              "lshift rlshift rshift rrshift and rand or ror xor rxor neg pos abs invert int float index bool "
              "round trunc floor ceil eq ne lt le gt ge hash repr").split():
    setattr(Index, "__%s__" % _name, _unclear("__%s__" % _name))
del _name


class Numbered:
    """Names 0, 1, ... of `count`, in the place of a Listing.

    pattern  of the % operator
    moduli   for each number in it, what it is the remainder by; None: the number itself

    Pickles as these.
    """

    handle = None  # they were listed nowhere
    sorted = True  # names can be found

    def __init__(self, pattern, moduli, count):
        self._pattern, self._moduli, self.count = pattern, moduli, count
        self._plain = moduli == (None,)
        self._search = None

    @property
    def digest(self):
        """64 hexadecimal digits, the same where names are the same."""
        text = repr((self._pattern, self._moduli, self.count)).encode("utf-8", "surrogateescape")
        return hashlib.sha256(text).hexdigest()

    def count_reads(self, root, used, needed):
        """As a listing's."""
        for scheme in "direct://", "file://":  # URIs of a local folder
            root = root[len(scheme):] if root.startswith(scheme) else root
        if "://" not in root:  # else nobody counts what DLIO opens
            native().stats_names(root, self.digest, self.count, used, needed)

    def __reduce__(self):
        return Numbered, (self._pattern, self._moduli, self.count)

    def name(self, i):
        """The i-th name, as a listing's."""
        if self._plain:
            return self._pattern % i
        return self._pattern % tuple([i if modulus is None else i % modulus for modulus in self._moduli])

    def find(self, name):
        """Position of a name; -1 if it is none of these."""
        if self._search is None:
            self._search = re.compile("".join(
                "([0-9]{1,20})" if piece.startswith("%0") else re.escape(piece.replace("%%", "%"))
                for piece in re.split("(%%|%0[0-9]+d)", self._pattern)), re.DOTALL)
        found = self._search.fullmatch(name)
        if not found:
            return -1
        i = int(found[1 + self._moduli.index(None)])
        return i if i < self.count and self.name(i) == name else -1


def template(text, count):
    """(prefix, Numbered) of a text that has marks; Unclear. The prefix ends with '/'."""
    parts = MARK.split(text)
    literals, moduli, widths = parts[::4], parts[2::4], parts[3::4]
    moduli = tuple(int(modulus) if modulus else None for modulus in moduli)
    if None not in moduli or any(FIRST in one or LAST in one for one in literals):
        raise Unclear("the number of a file is not in its name")
    prefix, slash, literals[0] = literals[0].rpartition("/")
    pattern = literals[0].replace("%", "%%")
    for literal, width in zip(literals[1:], widths):
        pattern += "%%0%dd" % int(width) + literal.replace("%", "%%")
    names = Numbered(pattern, moduli, count)
    name = names.name(0)
    if not slash or os.path.normpath(name) != name or name.startswith("../"):
        raise Unclear("%r is not the plain name of a file in a folder" % name)
    return prefix + slash, names
