# SPDX-License-Identifier: MIT
"""_libshard: the CPython side of libshard.so, run inside the benchmark by adapter.c.

It has two products. A process compiles the one that it needs, or both.

dlio: DLIO lists its dataset in every process and keeps every path, twice over, in every rank and
worker. Here the list becomes a FileList: a list of O(1) size that answers len() with the global
count and element i with the i-th path of the node's shared listing. What DLIO derives from the list
(its sample maps, its sampler's indices) becomes closed forms over it. Which files are opened, how
often and in which steps stays DLIO's own decision, by DLIO's own code.

buckets: clients that list a bucket of SHARD_DATASET get this rank's keys; see buckets/__init__.py.

The modules, each built on those above it:

    contract             what C declares: libshard.h, api.h and clients.def, by scripts/contract.awk
    native, mapped_listing   the functions of libshard.h and api.h; a listing that this process has mapped
    list_like            what acts as a list or dict, and becomes one when it is changed
    kept                 arrays of numbers in the node's cache
    numbered             file names that a program makes by counting
    shuffles, sequences  numpy's shuffle; what acts as DLIO's lists and dicts
    columns              what DLIO has made of its files, compressed
    recognise            which DLIO this is, and whether what runs is what was recognised
    patching             how its modules are changed as they are imported
    compressing          when DLIO's lists and maps are compressed, and when they are real
    parts                what families are put together from
    dlio                 the families, a module each
    buckets              the clients of buckets, a module each; built on native, mapped_listing, patching

The modules in C:

    adapter              the audit hook, and the package's start
    python               CPython's functions, found by dlsym()
    api                  what the package calls in libshard.so, beside libshard.h
    quicken              gives classes of sequences, list_like and columns their methods in C
    elements             an element of a FileList or of Indices
    compress             loops over the lists that columns compresses

How it gets in, in order:
 1. At the first import of dlio_benchmark (or of a client, adapter/clients.def), or of a module of
    this package by a worker that unpickles an object of ours, adapter.c runs this file, and then
    begin() of the product.
 2. dlio.start() looks for the family whose functions are those of the DLIO that is installed. If
    there is none, a warning says so, and nothing is changed.
 3. The modules that the family patches are patched as they are imported.

The way of a path, from initialize() to a worker's open() (PyPI's DLIO 2.0.0, PyTorch):
 1. parts/benchmark.py, patch_initialize(): DLIO's own initialize() runs, between two collective calls
    of parts/compare_ranks.py.
 2. parts/file_storage.py, _walk(): the storage's walk_node() answers from the node's listing
    (mapped_listing.py, Listing.of_dataset(); in C cache/cache.c): a PlaceholderNames of parts/placeholders.py, which
    stands for all names while initialize() concatenates and counts.
 3. parts/config.py, derive_configurations(): gets the FileList (sequences.py) that the placeholder
    stands for; get_global_map_index() of dlio/pypi.py gives a SampleMap of numbers.
 4. parts/loaders.py, patch_torch(): the sampler's indices are Indices. Workers unpickle a FileList as
    the listing's file and digest (FileList.__reduce__(), Listing.of_file()).
 5. A worker asks filename_list[i]: elements.c finds the position and reads the name from the mapping;
    DLIO's reader opens the path. interpose/open.c counts it for SHARD_STATS.

libshard-dlio(7) lists every change ("What it changes in DLIO").
"""
import importlib
import linecache
import os
import sys
import time
from importlib.machinery import ModuleSpec

LIBRARY = globals()["LIBRARY"]  # path of libshard.so, put here by adapter.c
HANDLE = globals()["HANDLE"]    # dlopen()'s of the one that is loaded, ditto: another one may lie there by now
SOURCES = globals()["SOURCES"]  # {file: its text}, the files of this package, ditto
STARTED = time.time_ns()


class Importer:
    """Finds and loads the modules of this package in SOURCES."""

    @staticmethod
    def _file(module):
        path = module.replace(".", "/").partition("/")[2]
        package = path + "/__init__.py" if path else "__init__.py"
        return package if package in SOURCES else path + ".py"

    @classmethod
    def find_spec(cls, module, _path=None, _target=None):
        """importlib's protocol, as are the next three."""
        file = cls._file(module)
        if module.partition(".")[0] != __name__ or file not in SOURCES:
            return None
        return ModuleSpec(module, cls, origin="<libshard %s>" % file,
                          is_package=file.endswith("__init__.py"))

    @staticmethod
    def create_module(_spec):
        return None

    @classmethod
    def exec_module(cls, module):
        cls.show(module.__spec__)
        code = compile(cls.get_source(module.__name__), module.__spec__.origin, "exec")
        exec(code, module.__dict__)  # pylint: disable=exec-used

    @classmethod
    def get_source(cls, module):
        return SOURCES[cls._file(module)]

    @classmethod
    def show(cls, spec):
        """Let tracebacks show the lines of a module: there is no file to read them from. (What the
        interpreter prints of itself before 3.13 names the module and the line's number only.)"""
        text = cls.get_source(spec.name)
        linecache.cache[spec.origin] = len(text), None, text.splitlines(True), spec.origin


def modules_of(package):
    """Names of the modules of one of our packages, in the order of the alphabet."""
    folders = (file.rpartition("/") for file in SOURCES)
    return sorted(name[:-len(".py")] for folder, _, name in folders
                  if folder == package and name != "__init__.py")


def family():
    """The name of the DLIO family that this process runs with, or None: it has no DLIO, or one
    that runs unmodified. `shardctl doctor` asks this: keep it, whatever else changes here."""
    dlio = sys.modules.get(__name__ + ".dlio")
    return dlio.family.name if dlio and dlio.family else None


BEGUN = {}       # product -> True, once it is there; adapter.c looks here, and calls begin() no more
_beginning = {}  # product -> (process, thread) that is at it, or the error by which it has ended
PATIENCE = 60.0  # seconds that a thread waits for another one which is at it


def begin(product):
    """Import a product and start it, if this interpreter has not; adapter.c calls this at each import
    that asks for it. ImportError where that cannot be told to have been done: what is imported then
    might not be changed."""
    from _thread import get_ident

    me, end = (os.getpid(), get_ident()), time.monotonic() + PATIENCE
    while product not in BEGUN:
        state = _beginning.setdefault(product, me)
        if isinstance(state, BaseException):
            raise ImportError("libshard could not start before: %s: %s" % (type(state).__name__, state)) from state
        if state is me:
            break
        if state == me:
            return  # an import of begin()'s own
        if state[0] != me[0]:
            raise ImportError("this process was forked while another thread started libshard")
        if time.monotonic() >= end:
            raise ImportError("libshard is still being started by another thread")
        time.sleep(0.01)
    else:
        return
    try:
        sys.meta_path.insert(0, Importer)
        try:
            # All of it, now: the importer does not stay, and a worker may unpickle objects of any.
            module = importlib.import_module("." + product, __name__)
        finally:
            sys.meta_path.remove(Importer)
        module.start()  # last: what it needs is there, and it decides whether anything is changed
    except BaseException as error:
        _beginning[product] = error  # the next import fails, too
        raise
    BEGUN[product] = True


__spec__ = Importer.find_spec(__name__)
__package__, __path__, __loader__ = __name__, [], Importer
Importer.show(__spec__)
