# SPDX-License-Identifier: MIT
"""lazy: what acts as a list or a dict, in O(1) memory, and becomes one at the first use that would
change it.

ListLike and DictLike are no subclasses of list and dict. Code in C that is given one, and looks into
the memory of a list, would find none of its elements there. So it is told what they are by
`__class__`, which isinstance() asks, and not by their type: such code raises TypeError, or iterates.
"""
import collections.abc
import json

from .native import WARN, native, speaks
from .patching import replace

_told = False


def _become(self, name):
    """Make a real list or dict of all elements; `self` then stands for that."""
    global _told
    like = self.__class__
    held = like(self)
    if not _told:
        _told = True
        if speaks():
            native().log(WARN, "a program changes a %s that DLIO made of its files (%s): this process "
                         "keeps all %d elements in memory from now on" % (
                             like.__name__, name, len(held)))
    self.held = held  # what was there stays, for iterators that are under way
    object.__dict__["__class__"].__set__(self, GROWN[like])  # the type; __class__ says `like`
    return self


def _changing(name):
    def change(self, *args, **kwargs):
        return getattr(_become(self, name), name)(*args, **kwargs)

    change.__name__ = name
    return change


def _real(value):
    """A value as a list or dict of its own, if it acts as one."""
    if isinstance(value, (ListLike, DictLike)):
        return value.__class__(value)
    return value


def _again(kind, attributes):
    made = object.__new__(kind)
    vars(made).update(attributes)
    return made


class ListLike(collections.abc.Sequence):
    """Acts as a list; needs __len__() and __getitem__()."""

    __class__ = property(lambda self: list)
    __hash__ = None

    def __eq__(self, other):
        if self is other:
            return True
        if not isinstance(other, list):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    def __ne__(self, other):
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __lt__(self, other):
        return list(self) < list(other) if isinstance(other, list) else NotImplemented

    def __le__(self, other):
        return list(self) <= list(other) if isinstance(other, list) else NotImplemented

    def __gt__(self, other):
        return list(self) > list(other) if isinstance(other, list) else NotImplemented

    def __ge__(self, other):
        return list(self) >= list(other) if isinstance(other, list) else NotImplemented

    def __add__(self, other):
        return list(self) + list(other) if isinstance(other, list) else NotImplemented

    def __radd__(self, other):
        return list(other) + list(self) if isinstance(other, list) else NotImplemented

    def __mul__(self, n):
        return list(self) * n

    __rmul__ = __mul__

    def __reduce__(self):
        return _again, (type(self), vars(self))  # by default __class__ would be asked

    def copy(self):
        """A list."""
        return list(self)

    for _name in ("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse",
                  "__setitem__", "__delitem__", "__iadd__", "__imul__"):
        locals()[_name] = _changing(_name)
    del _name


class DictLike(collections.abc.Mapping):
    """Acts as a dict; needs __len__(), __getitem__() and __iter__()."""

    __class__ = property(lambda self: dict)
    __hash__ = None

    def __or__(self, other):
        return {**self, **other} if isinstance(other, dict) else NotImplemented

    def __ror__(self, other):
        return {**other, **self} if isinstance(other, dict) else NotImplemented

    def __reversed__(self):
        return reversed(list(self))

    def __reduce__(self):
        return _again, (type(self), vars(self))

    def copy(self):
        """A dict."""
        return dict(self)

    for _name in ("pop", "popitem", "clear", "update", "setdefault", "__setitem__", "__delitem__",
                  "__ior__"):
        locals()[_name] = _changing(_name)
    del _name


def _standing(like):
    """The methods by which an object stands for the list or dict in its attribute `held`."""
    def delegate(name):
        def method(self, *args, **kwargs):
            done = getattr(self.held, name)(*map(_real, args), **kwargs)
            return self if done is self.held else done

        method.__name__ = name
        return method

    own = {"__new__", "__init__", "__class__", "__getattribute__", "__setattr__", "__delattr__",
           "__init_subclass__", "__subclasshook__", "__class_getitem__", "__dir__", "__doc__",
           "__hash__", "__reduce__", "__reduce_ex__", "__getstate__"}
    methods = {name: delegate(name) for name in dir(like) if name not in own}
    methods["__reduce_ex__"] = lambda self, protocol: (like, (self.held,))
    if hasattr(like, "__add__"):
        methods["__radd__"] = lambda self, other: _real(other) + self.held
    return methods


GROWN = {list: type("GrownList", (ListLike,), {**_standing(list), "__hash__": None}),
         dict: type("GrownDict", (DictLike,), {**_standing(dict), "__hash__": None})}


def _patch_json(cls):
    """json's encoder asks for the type of a list, and then for a default."""
    original = cls.default

    def default(self, o):
        return _real(o) if isinstance(o, (ListLike, DictLike)) else original(self, o)

    replace(cls, default)


_patch_json(json.JSONEncoder)
