# SPDX-License-Identifier: MIT
"""patching: how modules are changed as they are imported, and attributes replaced."""
import contextlib
import functools
import sys


class Loader:
    """A module's own loader, and then our patch."""

    def __init__(self, loader, patch):
        self._loader, self._patch = loader, patch

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._patch(module)

    def __getattr__(self, name):
        if name == "_loader":  # a copy that is being made
            raise AttributeError(name)
        return getattr(self._loader, name)


class Finder:
    """First of sys.meta_path: wraps the loader of each module that has a patch."""

    def __init__(self, patches):
        self._patches = patches  # {module: function(module)}

    def find_spec(self, name, path=None, target=None):
        """importlib's protocol."""
        patch = self._patches.get(name)
        if patch is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = Loader(spec.loader, patch)
                return spec
        return None


class Proxy:
    """A module, or part of one, with some attributes of ours."""

    def __init__(self, target, **own):
        self.__dict__.update(own)
        self._target = target

    def __getattr__(self, name):
        if name == "_target":  # a copy that is being made
            raise AttributeError(name)
        return getattr(self._target, name)


_replaced = {}  # (owner, name) -> what was put there


def replaces(owner):
    """Decorates a function that takes the place of the owner's of the same name; __wrapped__ keeps that."""
    def put(replacement):
        name = replacement.__name__
        replacement.__wrapped__ = getattr(owner, name)
        setattr(owner, name, replacement)
        _replaced[owner, name] = replacement
        return replacement

    return put


def stands_for(owner, name=None):
    """The same of a client's function, which looks like the owner's, to pickle and to help(). name: if it is
    not the function's."""
    def put(replacement):
        own = name or replacement.__name__
        setattr(owner, own, functools.wraps(getattr(owner, own))(replacement))
        return replacement

    return put


def is_displaced(owner, name):
    """Whether something else is in the place of what replaces() has put there."""
    return vars(owner).get(name) is not _replaced.get((owner, name), vars(owner).get(name))


@contextlib.contextmanager
def lent(module, **names):
    """For the time of a block, let the functions of a module, or with these globals, find these names
    instead of their own."""
    scope = module if isinstance(module, dict) else vars(module)
    own = {name: scope[name] for name in names if name in scope}
    try:
        scope.update(names)
        yield
    finally:
        scope.update(own)  # at no time is a name missing: other threads may run the functions, too
        for name in names.keys() - own.keys():
            del scope[name]
