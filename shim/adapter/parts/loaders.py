# SPDX-License-Identifier: MIT
"""loaders: the sampler's and DALI's lists of sample numbers, and the readers' map of open files."""
import ast
import functools
import inspect
import math
import textwrap

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


def _is_map(node):
    return isinstance(node, ast.Attribute) and node.attr == "open_file_map"


def _is_none(node):
    """`map[file] is None`, or `is not`."""
    return (isinstance(node, ast.Compare) and isinstance(node.left, ast.Subscript) and _is_map(node.left.value)
            and isinstance(node.ops[0], (ast.Is, ast.IsNot)))


def _membership(node):
    """The map in `file in map`, or `not in`; None."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return node.comparators[0]
    return None


def _alike(node):
    """Where this node uses a map of open files so that a key that is None and none at all are alike."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Del):
        return [node.value]
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "clear"):
        return [node.func.value]
    if isinstance(node, ast.BoolOp) and any(map(_is_none, node.values)):
        return map(_membership, node.values)
    if isinstance(node, ast.FunctionDef) and node.name == "finalize":  # it closes what is there
        return map(_membership, ast.walk(node))
    return []


@functools.lru_cache(maxsize=None)
def _forgets_closed(cls):
    """Whether a reader's class, by its source, takes a file that is closed for one that it has never opened.
    One that asks only `file in open_file_map` reads each file once: it needs DLIO's own dict."""
    for kind in cls.__mro__:
        if kind.__module__.partition(".")[0] in ("builtins", "abc", "_libshard"):
            continue
        try:
            nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(kind)))))
        except (OSError, TypeError, SyntaxError):
            return False
        alike = {id(one) for node in nodes for one in _alike(node)}
        if any(_is_map(node) and id(node) not in alike for node in nodes):
            return False
    return True


def patch_reader(module, _tree):
    """Patch dlio_benchmark.reader.reader_handler."""
    cls = module.FormatReader
    original = cls.__init__

    @replaces(cls)
    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if isinstance(self._file_list, FileList) and _forgets_closed(type(self)):
            self.open_file_map = OpenFiles()
