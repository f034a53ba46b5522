# SPDX-License-Identifier: MIT
"""loaders: the sampler's and DALI's lists of sample numbers, and the readers' map of open files."""
import ast
import functools
import inspect
import math
import sys

from ..patching import replaces
from ..sequences import FileList, Indices, OpenFiles
from .derived import shuffling


def clipped(part, each, total):
    """The sample numbers of a part, as DLIO makes them since August 2024."""
    first = part * each
    return Indices(first, max(min(first + each, total), first))


def past_end(part, each, _total):
    """The sample numbers of a part, as older ones do: the last part may go past the end."""
    return Indices(part * each, (part + 1) * each)


def _patch_numpy(module):
    if hasattr(module, "np"):
        module.np = shuffling(module.np)


def patch_torch(indices, module, _tree):
    """Patch dlio_benchmark.data_loader.torch_data_loader; indices: clipped or past_end."""
    cls = module.dlio_sampler
    original = cls.__init__

    @replaces(cls)
    def __init__(self, rank, size, num_samples, *args, **kwargs):
        original(self, rank, size, 0, *args, **kwargs)  # its list of indices stays empty
        self.num_samples = num_samples
        self.indices = indices(self.rank, int(math.ceil(num_samples / size)), num_samples)
    _patch_numpy(module)


def patch_dali(indices, module, _tree):
    """Patch dlio_benchmark.data_loader.dali_data_loader, likewise."""
    cls = module.DaliIndexDataset
    original = cls.__init__

    @replaces(cls)
    def __init__(self, format_type, dataset_type, epoch, worker_index, total_num_workers,
                 total_num_samples, samples_per_worker, *args, **kwargs):
        # DLIO makes its list only where there is no attribute of that name.
        self.indices = indices(worker_index, samples_per_worker, total_num_samples)
        original(self, format_type, dataset_type, epoch, worker_index, total_num_workers,
                 total_num_samples, samples_per_worker, *args, **kwargs)
    _patch_numpy(module)


# ---- readers' dicts, and how the source of a class uses them -------------------------------------


def _is_named(node, name):
    """Whether a node is an attribute of this name, or the name as a text, as getattr() takes it."""
    return name in (getattr(node, "attr", None), node.value if isinstance(node, ast.Constant) else None)


def _compares(node, *operators):
    """Whether it is `a OPERATOR b`."""
    return isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], operators)


def _is_none(node, operator):
    """`map[file] is None`, or `is not`."""
    return (_compares(node, operator) and isinstance(node.left, ast.Subscript)
            and isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value is None)


def _calls(node, *methods):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods


def plainly(node):
    """What this node uses so that no dict need be one of Python's, nor in the order of its keys."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Del):
        return [node.value]
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        return getattr(node, "targets", None) or [node.target]
    if _calls(node, "get", "clear", "update"):
        return [node.func.value]
    if _compares(node, ast.In, ast.NotIn):
        return node.comparators
    return []


def _closed_or_absent(node):
    """Of these uses, those for which a key that is None and none at all are alike."""
    if _compares(node, ast.In, ast.NotIn) or _calls(node, "update"):
        return []
    if _calls(node, "get") and not all(isinstance(one, ast.Constant) and not one.value for one in node.args[1:]):
        return []
    if isinstance(node, ast.BoolOp):  # who asks for both
        present, open_now = (ast.NotIn, ast.Is) if isinstance(node.op, ast.Or) else (ast.In, ast.IsNot)
        both = [ast.dump(one.left) for one in node.values if _is_none(one, open_now)]
        return [one.comparators[0] for one in node.values
                if _compares(one, present) and any(ast.dump(one.left) in other for other in both)]
    if isinstance(node, ast.FunctionDef) and node.name == "finalize":  # it closes what is there
        return [one.comparators[0] for one in ast.walk(node) if _compares(one, ast.In, ast.NotIn)]
    return plainly(node)


def _catches(node):
    """What this node does that tells a key that is not there by its KeyError."""
    if getattr(node, "handlers", None):
        return [one.value for line in node.body for one in ast.walk(line)
                if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Load)]
    return []


@functools.lru_cache(maxsize=None)
def uses_only(cls, name, ways, not_ways=lambda node: []):
    """Whether a class, and those it is made of, use an attribute in these ways only, by the sources of their
    modules: a function beside a class may do what its methods do."""
    for kind in cls.__mro__:
        if kind.__module__.partition(".")[0] in ("builtins", "abc"):
            continue
        try:
            nodes = list(ast.walk(ast.parse(inspect.getsource(sys.modules[kind.__module__]))))
        except (KeyError, OSError, TypeError, SyntaxError):
            return False
        good, bad = ({id(one) for node in nodes for one in some(node)} for some in (ways, not_ways))
        if any(_is_named(node, name) and id(node) not in good - bad for node in nodes):
            return False
    return True


def _forgets_closed(cls):
    """Whether a reader's class takes a file that is closed for one that it has never opened. One that asks
    only `file in open_file_map` reads each file once: it needs DLIO's own dict."""
    return uses_only(cls, "open_file_map", _closed_or_absent, _catches)


def patch_reader(module, _tree):
    """Patch dlio_benchmark.reader.reader_handler."""
    cls = module.FormatReader
    original = cls.__init__

    @replaces(cls)
    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if isinstance(self._file_list, FileList) and _forgets_closed(type(self)):
            self.open_file_map = OpenFiles()
