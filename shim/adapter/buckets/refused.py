# SPDX-License-Identifier: MIT
"""refused: clients, and versions of clients, whose lists libshard does not divide. A call that lists the bucket of a
dataset raises RuntimeError: a list of all keys would be wrong.
"""
import functools
import inspect
import re

from . import share

LISTS = re.compile("_{0,2}(ls|lsdir|find|(do_)?list(?!_buckets).*)$")  # names of methods that list


def _check(name, why, given):
    if share.active() and share.is_named(*given):
        raise RuntimeError("%s: libshard cannot divide the lists of %s. Install a client or a version that libshard-s3(7) "
                           "names, or set SHARD_VIEW=off" % (why, name))


def refusing(function, name, why, lists=lambda *_, **__: True):
    """A function, method or coroutine that raises if one of its arguments names the bucket of a dataset, and
    lists(...), called like it."""
    def check(*args, **kwargs):
        if lists(*args, **kwargs):
            _check(name, why, (*args, *kwargs.values()))

    if inspect.iscoroutinefunction(function):
        async def refused(*args, **kwargs):
            check(*args, **kwargs)
            return await function(*args, **kwargs)
    else:
        def refused(*args, **kwargs):
            check(*args, **kwargs)
            return function(*args, **kwargs)
    return functools.wraps(function)(refused)


def refuse(module, why):
    """Let all methods that list of a client's module refuse a dataset; whether there are any."""
    name = module.__name__.partition(".")[0]
    found = [(one, method) for one in vars(module).values() if isinstance(one, type)
             and one.__module__ in (module.__name__, "builtins")
             for method in vars(one) if LISTS.match(method) and inspect.isroutine(vars(one)[method])]
    for cls, method in found:
        setattr(cls, method, refusing(vars(cls)[method], name, why))
    return bool(found)


def patch(module):
    """Patch torchdata._torchdata."""
    refuse(module, "a bucket of SHARD_DATASET")
