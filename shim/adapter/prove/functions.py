# SPDX-License-Identifier: MIT
"""functions: a process in which DLIO's functions and the adapter's are called side by side.

Started by main.py, with the functions that are to be proven. Prints a line of JSON for each thing
that main.py is to know: {"say": text}, {"proven": [functions]}, or {"differs": what Differs is raised with}.
"""
import ast
import importlib
import json
import os
import random
import time

from .. import recognise
from ..listing import Listing
from ..sequences import FileList
from . import fakes, shapes
from .rank import exact, state
from .runs import Differs

SECONDS = 5  # of a case's lists
MODULE = "dlio_benchmark."


class At:
    """What a case works with. One for all cases of a proof; `begin` makes it ready for the next."""

    def __init__(self, folder, config):
        self.folder, self.config = os.path.join(folder, "data"), config
        self.index, self.random, self.args = 0, None, None
        self.noted, self.blamed = {}, None
        self._names, self._listing = [], None
        self.tree = os.path.join(folder, "names")
        self._options = self._find_options()
        self.asked = set()  # options that functions of a new shape read

    # -- files

    def prepare(self, many):
        """Make the data set of the lists."""
        os.makedirs(self.folder, exist_ok=True)
        for i in range(many):
            with open(os.path.join(self.folder, "f%05d.npz" % i), "w", encoding="utf-8"):
                pass
        self._names = sorted(os.listdir(self.folder))
        self._listing = Listing.of_dataset(self.folder, "order=path depth=1 include=*npz")
        for path in ("sub/a.npz", "sub/B.NPZ", "sub/deep/c.npz", "sub/deep/d.NPZ", "sub/.h.npz",
                     "sub/x y.npz", "a.b/c.npz", "sub/other/e.jpeg"):
            path = os.path.join(self.tree, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8"):
                pass

    def length(self):
        """Most lists are short; a few are longer than what any function may look for."""
        if self.index % 199 == 198:
            return shapes.TRIED + 57
        return self.random.choice((0, 1, 2, self.random.randint(0, 12), self.random.randint(1, 60)))

    def pair(self, size, prefix=None):
        """(list, FileList) of the first `size` files; of none there is no FileList in a run."""
        prefix = self.folder + "/" if prefix is None else prefix
        real = [prefix + name for name in self._names[:size]]
        return real, FileList(self._listing, prefix)[:size] if real else []

    def shuffle_both(self, real, lazy):
        """As DLIO's reconfigure() does."""
        import numpy

        for files in (real, lazy):
            numpy.random.seed(5)
            self.config.np.random.shuffle(files)

    # -- arguments

    def _find_options(self):
        """{option: values} that may be varied: those whose default says what it may be."""
        import enum

        fixed = ("debug", "generate_data", "generate_only", "do_profiling", "comm_size", "my_rank",
                 "files_pre_sharded", "skip_listing")
        found = {}
        cls = self.config.ConfigArguments
        for name, field in getattr(cls, "__dataclass_fields__", {}).items():
            default = getattr(cls, name, None)
            if name in fixed:
                continue
            if isinstance(field.type, enum.EnumMeta):  # the default may be a member's value
                found[name] = tuple(field.type)
            elif isinstance(default, bool):
                found[name] = (True, False)
            elif isinstance(default, int):
                found[name] = (default, 0, 1, 2, 3, 7)
            elif isinstance(default, float):
                found[name] = (default, 0.0, 0.5, 2.0)
            elif isinstance(default, enum.Enum):
                found[name] = tuple(type(default))
        return found

    def options(self):
        """The options that are varied, or are known not to matter here."""
        fields = getattr(self.config.ConfigArguments, "__dataclass_fields__", {})
        known = set(dir(self.config.ConfigArguments)) - set(fields)
        return known | set(self._options) | KNOWN_OPTIONS

    def in_lists(self):
        """{option: values} of those that the lists do not vary by themselves, as JSON tells them: of enumerations,
        their members' values."""
        told = {name: [getattr(value, "value", value) for value in values] for name, values in self._options.items()
                if name not in KNOWN_OPTIONS or name in FIXED_IN_LISTS}
        return {name: [*values, 1000] if type(values[0]) is int and name not in FIXED_IN_LISTS else values
                for name, values in told.items() if isinstance(values[0], (bool, int, float, str))}

    def own_options(self, nodes):
        """{attribute: (option,)} of what functions of ConfigArguments read of themselves: its fields, and what
        others may put there. nodes: the functions of its module."""
        cls = self.config.ConfigArguments
        every = {name for node in nodes.values() for owner, name in shapes.read_of(node) if owner == "self" and name}
        state = {name for function, node in nodes.items() if function.startswith("ConfigArguments.")
                 for name in shapes.assigned(node)}
        fields = getattr(cls, "__dataclass_fields__", {})
        return {name: (name,) for name in every
                if name in fields or not hasattr(cls, name) and name not in state}

    def vary(self):
        """Other values than the defaults' for a few options, first of those that are asked for."""
        names = sorted(set(self._options) - DRAWN)
        asked = [name for name in names if name in self.asked and self.random.random() < .3]
        for name in asked or self.random.sample(names, self.random.choice((0, 0, 1, 3))):
            value = self.random.choice(self._options[name])
            setattr(self.args, name, value)
            self.noted[name] = str(value)

    def anew(self, **values):
        """DLIO's arguments as at the beginning, but for these."""
        cls = self.config.ConfigArguments
        cls.reset()
        vars(cls.get_instance()).update(values)
        return cls.get_instance()

    def begin(self, title, index):
        self.random = random.Random("%s %d" % (title, index))
        self.index, self.noted, self.blamed = index, {}, None
        self.args = self.anew(logger=fakes.logger())
        if hasattr(type(self.args), "files_pre_sharded"):
            self.args.files_pre_sharded = True  # initialize() sets it before there is a list

    # -- results

    def note(self, **inputs):
        self.noted.update(inputs)

    def blame(self, function):
        self.blamed = function

    def outcome(self, function):
        """(what it returns or raises, the generator's state after), from one state."""
        import numpy

        numpy.random.seed(99)
        numpy.random.normal()  # leaves half a pair of normal numbers behind: part of the state
        try:
            result = exact(function())
        except Exception as error:  # pylint: disable=broad-except
            result = "%s: %s" % (type(error).__name__, error)
        return result, state()

    def alike(self, run, theirs, ours):
        """What comes of run(*theirs), as run(*ours) must; Differs."""
        made = [self.outcome(lambda side=side: run(*side)) for side in (theirs, ours)]
        self.same(*made)
        return made[0]

    def told(self):
        """The input of this case."""
        names = ("comm_size", "my_rank", "num_samples_per_file", "read_threads", "sample_shuffle",
                 "seed", "seed_change_epoch", "data_loader", "storage_type")
        return {**{name: str(getattr(self.args, name, None)) for name in names}, **self.noted}

    def same(self, theirs, ours, what="DLIO's", other="the adapter's"):
        if theirs != ours:
            raise Differs(self.blamed, self.told(), "%s: %s" % (what, _short(theirs, ours)[0]),
                          "%s: %s" % (other, _short(theirs, ours)[1]))


# Of the options below, those that have one value in all lists, if no function of a new shape reads them.
FIXED_IN_LISTS = {"data_loader", "read_type", "epochs"}
# Options that cases draw, and that no case needs to vary.
DRAWN = {"num_samples_per_file", "comm_size", "my_rank", "read_threads", "sample_shuffle",
         "file_shuffle", "seed", "seed_change_epoch", "data_loader", "storage_type", "read_type",
         "batch_size", "batch_size_eval", "epochs", "data_loader_sampler", "training_steps"}
KNOWN_OPTIONS = DRAWN | {
    "debug", "generate_data", "generate_only", "do_profiling", "data_folder", "storage_root",
    "output_folder", "logfile_path", "logger", "num_files_train", "num_files_eval", "do_train", "do_checkpoint",
    "do_eval", "num_subfolders_train", "num_subfolders_eval", "format", "framework", "profiler",
    "file_list_train", "file_list_eval", "train_global_index_map", "val_global_index_map",
    "train_file_map", "val_file_map", "total_samples_train", "total_samples_eval",
    "resized_image", "data_loader_classname", "reader_classname", "checkpoint_mechanism",
    "checkpoint_mechanism_classname", "data_loader_class", "reader_class", "native_data_loader",
    "samples_per_thread", "required_samples", "eval_steps", "max_dimension", "dimension",
    "files_pre_sharded", "skip_listing", "listing_threads", "listing_validation_interval",
    "file_prefix", "storage_library", "storage_options",
    # that derive_configurations() reads, for other things than lists:
    "data_gen_method", "multiprocessing_context", "record_element_type", "transformed_record_element_type"}


def _short(theirs, ours, most=160):
    """Both as text, from where they differ."""
    one, other = repr(theirs), repr(ours)
    at = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    begin = max(at - most // 2, 0)
    return ["..." * bool(begin) + text[begin:begin + most] + "..." * (len(text) > begin + most)
            for text in (one, other)]


def tell(**what):
    print("\0" + json.dumps(what), flush=True)


def main(request):
    """Prove functions: the exit status. `request` has "folder", "functions" (all of the family's
    table), "changed" (file -> functions that are of no known shape), "texts" ([(file, {function: numbers
    that it may have}]) of these and what they call), and "only look", to try none of them."""
    import _libshard

    if _libshard.family() != request["family"]:
        tell(differs=(None, {}, request["family"], "the adapter is not active"))
        return 1
    config = importlib.import_module(MODULE + "utils.config")
    mpi = importlib.import_module(MODULE + "utils.utility").DLIOMPI
    mpi.get_instance().set_parent_values(0, 1)
    config.DLIOMPI = fakes.Mpi
    cls = config.ConfigArguments
    # Workers' logs and traces are no part of this.
    for name in ("configure_dlio_logging", "configure_dftracer"):
        setattr(cls, name, lambda self, *args, **kwargs: None)
    if not hasattr(cls, "logger"):
        cls.logger = fakes.logger()
    at = At(request["folder"], config)
    at.prepare(shapes.TRIED + 60)
    from .cases import CASES, LISTED

    tree, asked = _libshard.dlio.tree, set()
    for file, names in request["texts"]:
        nodes = recognise.functions(ast.parse(shapes.text_of(tree, file)))
        for name, sizes in names.items():
            cls = name.rpartition(".")[0]
            own = at.own_options(nodes) if cls == "ConfigArguments" else shapes.taken_over(nodes, cls)
            spots = shapes.blind_spots(nodes[name], at.options(), sizes, own, tree.literals(file))
            if spots:
                tell(differs=(name, {}, "it depends on " + spots[0], "what no proof can try"))
                return 1
            read = shapes.options_in(nodes[name], own)
            at.asked |= read
            asked |= read if cls != "ConfigArguments" else shapes.options_in(nodes[name])
    tell(options={name: values for name, values in at.in_lists().items() if name in asked})
    changed = {name for names in request["changed"].values() for name in names}
    if request["only look"]:
        tell(proven=[])
        return 0
    proven = set(LISTED) & set(request["functions"])
    # What has changed comes first: that is where a difference is to be expected.
    todo = [case for case in CASES if set(case[1]) <= set(request["functions"])]
    todo.sort(key=lambda case: not changed & set(case[1]))
    for title, functions, count, case in todo:
        started, done = time.monotonic(), 0
        if not changed & set(functions):
            count = -(-count // 4)  # the shapes of all of them are known
        try:
            for done in range(count):
                at.begin(title, done)
                case(at)
                if done == 0:
                    started = time.monotonic()  # the first one imports modules
                if time.monotonic() - started > SECONDS:
                    break
        except Differs as error:
            function, given, theirs, ours = error.args
            guilty = [name for name in functions if name in changed]
            if function is None or guilty and function not in guilty:
                function = " or ".join(guilty) or functions[0]
            tell(differs=(function, given, theirs, ours))
            return 1
        except Exception as error:  # pylint: disable=broad-except
            if changed & set(functions) - set(LISTED):
                guilty = " or ".join(name for name in functions if name in changed)
                tell(differs=(guilty, at.told(), "%s: %s" % (type(error).__name__, error),
                              "this function cannot be tried"))
                return 1
            tell(say="%s: not tried by itself (%s: %s)" % (title, type(error).__name__,
                                                           str(error)[:120]))
            continue
        proven.update(functions)
        tell(say="%s, %d lists: alike" % (title, done + 1), cases=done + 1)
    missing = sorted(changed - proven)
    if missing:
        tell(differs=(missing[0], {}, "a function of a new shape", "no proof tries it"))
        return 1
    tell(proven=sorted(proven))
    return 0


