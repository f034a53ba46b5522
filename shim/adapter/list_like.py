# SPDX-License-Identifier: MIT
"""list_like: what acts as a list or a dict, in O(1) memory, and becomes one at the first use that would
change it.

ListLike and DictLike are no subclasses of list and dict. Code in C that is given one, and looks into
the memory of a list, would find none of its elements there. So it is told what they are by
`__class__`, which isinstance() asks, and not by their type: such code raises TypeError, or iterates.
heapq is of that kind, and marshal, whose error is a ValueError: they want list(x).
"""
import _thread
import collections.abc
import json
import os
import struct
import sys

from .native import WARN, native, say_once
from .patching import Proxy, replaces

_lock = _thread.RLock()  # threads that change a list at once change the same one


def _unlock():
    """In a forked child: the thread that held the lock is not there."""
    global _lock
    _lock = _thread.RLock()


os.register_at_fork(after_in_child=_unlock)


def _become(self, name):
    """Make a real list or dict of all elements; `self` then stands for that."""
    like = self.__class__
    with _lock:
        if type(self) is GROWN[like]:  # another thread has been faster
            return self
        held = like(self)
        say_once(WARN, "a program changes a %s that DLIO made of its files (%s): this process keeps all %d "
                 "elements in memory from now on" % (like.__name__, name, len(held)), "a program changes a list")
        self.held = held  # what was there stays, for readers that are under way
        object.__dict__["__class__"].__set__(self, GROWN[like])  # the type; __class__ says `like`
    return self


def stand_for(made):
    """The real list or dict of what acts as one, which stands for that from now on: who has kept it sees what
    is changed. It may have become one already."""
    like = made.__class__
    with _lock:
        if type(made) is not GROWN[like]:
            made.held = like(made)
            object.__dict__["__class__"].__set__(made, GROWN[like])
    return made.held


class ListIterator:
    """An iterator over a list that is lazy, or becomes one that is not: as a list's, it shows what is
    changed meanwhile, and may be shared by threads, copied and pickled."""

    __slots__ = "_values", "_at"

    def __init__(self, values, i, step):
        self._values = values  # None: it has ended
        self._at = bytearray(struct.pack("2q", i, step))  # the next element's number, and what is added to it

    def __iter__(self):
        return self

    def __next__(self):
        values = self._values
        if values is None:
            raise StopIteration
        with _lock:  # threads that share it get one element each
            i, step = struct.unpack("2q", self._at)
            struct.pack_into("q", self._at, 0, i + step)
        try:
            if i < 0:
                raise IndexError(i)
            return values[i]
        except IndexError:
            self._values = None
            raise StopIteration from None

    def __length_hint__(self):
        values, (i, step) = self._values, struct.unpack("2q", self._at)
        return 0 if values is None else max(len(values) - i if step > 0 else i + 1, 0)

    def __reduce__(self):
        values, (i, step) = self._values, struct.unpack("2q", self._at)
        if values is None:
            return iter, ([],)
        return iter, (values[i:] if step > 0 else values[i::-1] if i >= 0 else [],)


native().quicken(ListIterator)


# The name that Python prints where C wants a list: `a + files`, for example. `a += files` extends `a`.
REMEDY = " of libshard (SHARD_ADAPTER=off keeps real ones)"


def _name(kind, like):
    kind.__name__ = like + REMEDY


def _changing(name):
    def change(self, *args, **kwargs):
        return getattr(_become(self, name), name)(*args, **kwargs)

    change.__name__ = name
    return change


def _by_a_copy(name):
    def answer(self, other):
        return getattr(list(self), name)(list(other)) if isinstance(other, list) else NotImplemented

    answer.__name__ = name
    return answer


def _real(value):
    """A value as a list or dict of its own, if it acts as one."""
    if isinstance(value, (ListLike, DictLike)):
        return value.__class__(value)
    return value


def _like_given(like):
    """__new__() for code that makes a list or dict of the type that it was given: type(files)(iterable)."""
    def new(cls, values=(), *rest, **more):
        return object.__new__(cls) if rest or more else like(values)

    return new


def _again(kind, attributes):
    made = object.__new__(kind)
    vars(made).update(attributes)
    return made


class ListLike(collections.abc.Sequence):
    """Acts as a list; needs __len__() and __getitem__()."""

    __class__ = property(lambda self: list)
    __new__ = _like_given(list)
    __hash__ = None

    def __init_subclass__(cls):
        _name(cls, "list")

    def __eq__(self, other):
        if self is other:
            return True
        if not isinstance(other, list):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    def __ne__(self, other):
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __iter__(self):
        return ListIterator(self, 0, 1)

    def __reversed__(self):
        return ListIterator(self, len(self) - 1, -1)

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
    for _name in ("__lt__", "__le__", "__gt__", "__ge__", "__add__"):
        locals()[_name] = _by_a_copy(_name)
    del _name


class DictLike(collections.abc.Mapping):
    """Acts as a dict; needs __len__(), __getitem__() and __iter__()."""

    __class__ = property(lambda self: dict)
    __new__ = _like_given(dict)
    __hash__ = None

    def __init_subclass__(cls):
        _name(cls, "dict")

    def __or__(self, other):
        return {**self, **other} if isinstance(other, dict) else NotImplemented

    def __ror__(self, other):
        return {**other, **self} if isinstance(other, dict) else NotImplemented

    def __reversed__(self):
        return reversed(list(self))

    def __array__(self, dtype=None, copy=None):
        import numpy

        made = numpy.empty((), object)  # as of a dict: numpy would take it for a list of its keys
        made[()] = dict(self)
        return made if dtype is None else made.astype(dtype)

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
    return methods


GROWN = {list: type("GrownList", (ListLike,), {**_standing(list), "__hash__": None}),
         dict: type("GrownDict", (DictLike,), {**_standing(dict), "__hash__": None})}


def _patch_json(cls):
    """json's encoder asks for the type of a list, and then for a default: its own, that of a subclass,
    or one that it was given."""
    original = cls.iterencode

    @replaces(cls)
    def iterencode(self, o, _one_shot=False):
        def default(value):
            return _real(value) if isinstance(value, (ListLike, DictLike)) else self.default(value)

        return original(Proxy(self, default=default), o, _one_shot)


_patch_json(json.JSONEncoder)


def _patch_yaml(module):
    """yaml asks for the type, and then for what it was derived from."""
    for cls in module.SafeRepresenter, module.Representer:
        for like, kind in (ListLike, list), (DictLike, dict):
            cls.add_multi_representer(
                like, lambda dumper, value, kind=kind: dumper.yaml_representers[kind](dumper, value))


def _patch_omegaconf(module):
    """OmegaConf asks for the type of what it is given inside a list or dict."""
    original = getattr(module, "_node_wrap", None)
    if original is None:
        return

    @replaces(module)
    def _node_wrap(*args, **kwargs):
        return original(*map(_real, args), **{name: _real(value) for name, value in kwargs.items()})


def patches():
    """Those of modules that are not imported yet, {module: function(module)}; others are made now."""
    others = {"yaml.representer": _patch_yaml, "omegaconf.omegaconf": _patch_omegaconf}
    for name in others.keys() & sys.modules.keys():
        others.pop(name)(sys.modules[name])
    return others
