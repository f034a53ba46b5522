"""DLIO refactored, as its later versions are: the same done by helpers, by methods of their own, by
classes in other modules, with more log lines. Each function here changes {file: text} of a tree."""
import ast

MAIN, CONFIG, NAMES = "main.py", "utils/config.py", "utils/own_names.py"

HELPERS = '''
"""Names of files, by what they are made of."""
import os


def total_in_names(read, generated):
    """How many files were generated, by which names are made."""
    generated = int(generated or 0)
    if 0 < generated < read:
        raise ValueError(f"{read} files are to be read, and {generated} were generated")
    return generated or read


def own_numbers(rank, files, size):
    """The numbers of a rank's files."""
    return range(rank, files, size)


def numbers_to_check(files, interval):
    """The first, the last, and each interval-th."""
    if files <= 0 or interval <= 0:
        return []
    return sorted({0, files - 1, *range(0, files, interval)})


def name_of(prefix, ending, number, total, folders):
    """The name of a file, in its folder if there are several."""
    name = f"{prefix}_{str(number).zfill(len(str(total)))}_of_{total}.{ending}"
    if folders > 1:
        return os.path.join(str(number % folders).zfill(len(str(folders))), name)
    return name
'''

SKIPPING = '''
read = self.num_files_train if dataset_type is DatasetType.TRAIN else (self.num_files_eval if self.do_eval else 0)
total = total_in_names(read, self.args.num_files_generated) if dataset_type is DatasetType.TRAIN else read

def place(number):
    name = name_of(self.args.file_prefix, self.args.format, number, total, num_subfolders)
    return self.storage.get_uri(os.path.join(self.args.data_folder, f"{dataset_type}", name))

my_files = [place(number) for number in own_numbers(self.my_rank, read, self.comm_size)]
global_count = read
if self.my_rank == 0:
    missing, checked = [], numbers_to_check(read, self.args.listing_validation_interval)
    for number in checked:
        if not self.storage.file_exists(place(number)):
            missing.append(place(number))
    if missing:
        raise Exception(f"{len(missing)} of {len(checked)} files are missing, as {missing[:3]}")
    self.logger.output(f"{utcnow()} {dataset_type}: {len(my_files)} names made of {global_count}")
'''


def method(tree, name):
    """The node of Class.method."""
    cls, function = name.split(".")
    owner = next(one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == cls)
    return owner, next(one for one in owner.body
                       if isinstance(one, ast.FunctionDef) and one.name == function)


def _parts(files, change):
    """Let change(module, class, initialize()) change main.py."""
    tree = ast.parse(files[MAIN])
    change(tree, *method(tree, "DLIOBenchmark.initialize"))
    files[MAIN] = ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _names(nodes, kind):
    return {node.id for one in nodes for node in ast.walk(one)
            if isinstance(node, ast.Name) and isinstance(node.ctx, kind)}


def _is_kept(statement):
    """Whether it keeps the list of one kind of files."""
    return isinstance(statement, ast.If) and any(
        isinstance(one, ast.Assign) and one.targets[0].id == "file_list_train" for one in statement.body)


class _Returns(ast.NodeTransformer):
    """What goes on with the next turn of the loop returns nothing instead."""

    def visit_Continue(self, _node):
        return ast.Return(ast.List([], ast.Load()))

    def visit_While(self, node):
        return node

    visit_For = visit_FunctionDef = visit_While


def listing_in_a_method(files):
    """What initialize() does for one kind of files becomes a method."""
    def change(_tree, cls, initialize):
        loop = next(node for node in ast.walk(initialize) if isinstance(node, ast.For)
                    and getattr(node.target, "id", "") == "dataset_type")
        at = next(i for i, one in enumerate(loop.body) if _is_kept(one))
        body, rest = loop.body[:at], loop.body[at:]
        made = sorted(_names(body, ast.Store) & _names(rest, ast.Load) - {"dataset_type"})
        inner = ast.parse("def _files_of(self, dataset_type):\n    return " + ", ".join(made)).body[0]
        inner.body[:0] = [_Returns().visit(one) for one in body]
        loop.body = ast.parse("%s = self._files_of(dataset_type)" % ", ".join(made)).body + rest
        cls.body.insert(cls.body.index(initialize), inner)
    _parts(files, change)


def longer(files):
    """initialize() says more, and measures."""
    logs = "self.logger.output" if "self.logger.output(" in files[MAIN] else "logging.info"

    def change(_tree, _cls, initialize):
        initialize.body[1:1] = ast.parse(
            "if self.args.my_rank == 0:\n"
            "    %s(f'{utcnow()} {self.args.comm_size} ranks begin in {self.args.data_folder}')" % logs).body
        initialize.body += ast.parse(
            "%s(f'{utcnow()} rank {self.args.my_rank} is ready: {len(self.args.file_list_train)} files')"
            % logs).body
    _parts(files, change)


def names_by_helpers(files):
    """skip_listing's names come from four functions in a module of their own, by the later rule."""
    def change(tree, _cls, initialize):
        branch = next(node for node in ast.walk(initialize) if isinstance(node, ast.If)
                      and getattr(node.test, "attr", "") == "skip_listing")
        branch.body = ast.parse(SKIPPING).body
        tree.body[1:1] = ast.parse("from dlio_benchmark.utils.own_names import (name_of, numbers_to_check, "
                                   "own_numbers, total_in_names)").body
    _parts(files, change)
    files[NAMES] = HELPERS
    config = ast.parse(files[CONFIG])
    cls = next(one for one in config.body if getattr(one, "name", "") == "ConfigArguments")
    cls.body[1:1] = ast.parse("num_files_generated: int = 0").body
    load = next(one for one in config.body if getattr(one, "name", "") == "LoadConfig")
    load.body[1:1] = ast.parse(
        "if 'dataset' in config and 'num_files_generated' in config['dataset']:\n"
        "    args.num_files_generated = config['dataset']['num_files_generated']").body
    files[CONFIG] = ast.unparse(ast.fix_missing_locations(config)) + "\n"


def paths_by_a_helper(files):
    """The paths of a flat folder come from a function in a module of its own."""
    def change(tree, _cls, initialize):
        listed = next(node for node in ast.walk(initialize) if isinstance(node, ast.Assign)
                      and isinstance(node.value, ast.ListComp) and "get_uri" in ast.dump(node.value))
        listed.value = ast.parse(
            "own_names.paths_in(self.storage, os.path.join(self.args.data_folder, f'{dataset_type}'), filenames, "
            "self.args.format)", mode="eval").body
        tree.body[1:1] = ast.parse("from dlio_benchmark.utils import own_names").body
    _parts(files, change)
    files[NAMES] = ('"""Paths of files."""\nimport os\n\n\ndef paths_in(storage, folder, names, ending):\n'
                    '    """Those that end so."""\n    if len(names) < 1:\n        return []\n'
                    '    return [storage.get_uri(os.path.join(folder, name)) for name in names '
                    'if name.endswith(f"{ending}")]\n')


def moved(files, name="VirtualIndexMap", target="utils/own_index.py"):
    """A class lies in a module of its own."""
    config = ast.parse(files[CONFIG])
    cls = next(one for one in config.body if getattr(one, "name", "") == name)
    imports = [one for one in config.body if isinstance(one, (ast.Import, ast.ImportFrom))
               and "dlio_benchmark.utils" not in ast.unparse(one)]
    files[target] = ast.unparse(ast.Module([*imports, cls], [])) + "\n"
    at = config.body.index(cls)
    config.body[at:at + 1] = ast.parse("from .%s import %s" % (target[len("utils/"):-3], name)).body
    files[CONFIG] = ast.unparse(ast.fix_missing_locations(config)) + "\n"


def option_of_the_benchmark(files):
    """initialize() depends on an option that is a text, which __init__() has taken over."""
    tree = ast.parse(files[MAIN])
    method(tree, "DLIOBenchmark.__init__")[1].body += ast.parse("self.order = self.args.checkpoint_folder").body
    method(tree, "DLIOBenchmark.initialize")[1].body[1:1] = ast.parse(
        "if self.order == 'odd':\n    self.num_files_train = 1").body
    files[MAIN] = ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def option_of_a_kind(files):
    """initialize() depends on an option of an enumeration of its own."""
    files["common/enumerations.py"] += "\n\nclass Order(Enum):\n    FORTH = 'forth'\n    BACK = 'back'\n"
    config = ast.parse(files[CONFIG])
    cls = next(one for one in config.body if getattr(one, "name", "") == "ConfigArguments")
    cls.body[1:1] = ast.parse("order: Order = Order.FORTH").body
    at = next(i for i, one in enumerate(config.body) if isinstance(one, ast.ImportFrom) and not one.module == "__future__")
    config.body[at:at] = ast.parse("from dlio_benchmark.common.enumerations import Order").body
    files[CONFIG] = ast.unparse(ast.fix_missing_locations(config)) + "\n"

    def change(_tree, _cls, initialize):
        class Turned(ast.NodeTransformer):
            """What sorted() makes, in the other direction."""

            def visit_Call(self, node):
                self.generic_visit(node)
                if getattr(node.func, "id", "") != "sorted":
                    return node
                step = ast.parse("-1 if self.args.order.value == 'back' else 1", mode="eval").body
                return ast.Subscript(node, ast.Slice(None, None, step), ast.Load())
        Turned().visit(initialize)
    _parts(files, change)


def swapped(old, new, file=NAMES):
    """A change of a file's text."""
    def change(files):
        if old not in files[file]:
            raise LookupError("nothing to change in " + file)
        files[file] = files[file].replace(old, new)
    return change


def changes(files):
    """(name, [changes], whether it is to be proven: None if either is right) that a tree can have."""
    yield "an option that the benchmark has taken over", [option_of_the_benchmark], False
    yield "an option of an enumeration", [option_of_a_kind], False
    if "skip_listing" in files[CONFIG]:
        later = [names_by_helpers, longer]
        yield "later names", later, True
        yield "a method, a class moved", [listing_in_a_method, longer, moved], True
        yield "later names, a method, a class moved", [*later, listing_in_a_method, moved], True
        yield "later names, one folder less", [*later, swapped("number % folders", "number % (folders - 1)")], None
        yield "later names, another total", [*later, swapped("_of_{total}.", "_of_{total + 1}.")], None
        yield "later names, the second first", [*later, swapped("range(rank,", "range(rank + 1,")], False
        yield "later names, another stride", [*later, swapped("range(rank, files, size)", "range(rank, files, size + 1)")], False
        yield "later names, a look more", [*later, swapped("{0, files - 1,", "{0, files // 2, files - 1,")], None
    else:
        yield "helpers, a method", [paths_by_a_helper, listing_in_a_method, longer], True
