# SPDX-License-Identifier: MIT
"""lazy: what acts as a list or a dict, in O(1) memory, and becomes one at the first use that would
change it.

ListLike and DictLike are no subclasses of list and dict. Code in C that is given one, and looks into
the memory of a list, would find none of its elements there. So it is told what they are by
`__class__`, which isinstance() asks, and not by their type: such code raises TypeError, or iterates.
"""
import _thread
import collections.abc
import itertools
import json
import opcode
import os
import sys

from .native import WARN, native, speaks
from .patching import replace

_told = False
_lock = _thread.RLock()  # threads that change a list at once change the same one


def _unlock():
    """In a forked child: the thread that held the lock is not there."""
    global _lock
    _lock = _thread.RLock()


os.register_at_fork(after_in_child=_unlock)


def _become(self, name):
    """Make a real list or dict of all elements; `self` then stands for that."""
    global _told
    like = self.__class__
    with _lock:
        if type(self) is GROWN[like]:  # another thread has been faster
            return self
        held = like(self)
        if not _told:
            _told = True
            if speaks():
                native().log(WARN, "a program changes a %s that DLIO made of its files (%s): this "
                             "process keeps all %d elements in memory from now on" % (
                                 like.__name__, name, len(held)))
        self.held = held  # what was there stays, for readers that are under way
        object.__dict__["__class__"].__set__(self, GROWN[like])  # the type; __class__ says `like`
    return self


_END = object()


def _following(values, kind, iterator, i, step):
    for i in itertools.count(i, step):
        if type(values) is not kind:  # it has become a list
            break
        value = next(iterator, _END)
        if value is _END:
            return
        yield value
    while 0 <= i < len(values.held):
        yield values.held[i]
        i += step


def follow(method):
    """Decorates __iter__() or __reversed__() of a list: who changes the list meanwhile sees that, as
    with a list."""
    backward = method.__name__ == "__reversed__"

    def iterate(self):
        at, step = (len(self) - 1, -1) if backward else (0, 1)
        return _following(self, type(self), method(self), at, step)

    iterate.__name__ = method.__name__
    return iterate


# The instructions of `a + b` and `a += b`: before Python 3.11 each has its own, then the argument tells.
_ADDS = {(opcode.opmap.get("BINARY_ADD"), None): False, (opcode.opmap.get("INPLACE_ADD"), None): True,
         (opcode.opmap.get("BINARY_OP"), 0): False, (opcode.opmap.get("BINARY_OP"), 13): True}


def _extends(frame):
    """Whether the code at which a frame stands adds in place: by `a += b`, or by a function of the
    operator module, which its names tell."""
    code, at = frame.f_code, frame.f_lasti
    name, argument = code.co_code[at], code.co_code[at + 1]
    adds = _ADDS.get((name, None), _ADDS.get((name, argument)))
    return adds if adds is not None else not {"iadd", "iconcat"}.isdisjoint(code.co_names)


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
        # Python asks for this for `other += self`, too, before it extends `other`.
        if not isinstance(other, list) or _extends(sys._getframe(1)):
            return NotImplemented
        return list(other) + list(self)

    @follow
    def __iter__(self):
        return map(self.__getitem__, range(len(self)))

    @follow
    def __reversed__(self):
        return map(self.__getitem__, range(len(self) - 1, -1, -1))

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
        methods["__radd__"] = ListLike.__radd__
    return methods


GROWN = {list: type("GrownList", (ListLike,), {**_standing(list), "__hash__": None}),
         dict: type("GrownDict", (DictLike,), {**_standing(dict), "__hash__": None})}


def _patch_json(cls):
    """json's encoder asks for the type of a list, and then for a default: its own, that of a subclass,
    or one that it was given."""
    original, init = cls.default, cls.__init__

    def of(given):
        return lambda o: _real(o) if isinstance(o, (ListLike, DictLike)) else given(o)

    def default(self, o):
        return _real(o) if isinstance(o, (ListLike, DictLike)) else original(self, o)

    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        if type(self).default is not default or "default" in vars(self):
            self.default = of(self.default)

    replace(cls, default)
    replace(cls, __init__)


_patch_json(json.JSONEncoder)
