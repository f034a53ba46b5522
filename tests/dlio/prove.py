"""shardctl prove accepts a DLIO that differs in what makes no difference, and refuses planted ones.

    python -m tests.dlio.prove [--dlio TREE] [--python PY] [--filter TEXT] [--list]

Each case is a copy of the DLIO with one change, made here: to all functions at once, for the one
that must be proven; to one function for each of the others, which must be refused with that
function's name, and change nothing. Then the file of known versions: what is trusted, and what not.
"""
import ast
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import time

from tests.dlio import configs, refactored
from tests.harness import options, paths, processes
from tests.harness.verdicts import Verdicts

SHARDCTL = os.path.join(paths.BUILD, "shardctl")
CONFIG, LOADER = "utils/config.py", "data_loader/torch_data_loader.py"
READER = "reader/reader_handler.py"


# ---- what makes no difference ------------------------------------------------------------------


class Renamed(ast.NodeTransformer):
    """Other names for the locals that a function assigns, and other log lines."""

    def __init__(self, function):
        self.names = set()
        every = [node for statement in function.body for node in ast.walk(statement)]
        if any(isinstance(node, (ast.ClassDef, ast.Global, ast.Nonlocal)) for node in every):
            return
        inner = {one.arg for node in every if isinstance(node, ast.arguments) for one in node.args}
        inner |= {name.id for node in every if isinstance(node, ast.comprehension)
                  for name in ast.walk(node.target) if isinstance(name, ast.Name)}
        stored = {node.id for node in every
                  if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        self.names = stored - inner - {one.arg for one in function.args.args}

    def visit_Name(self, node):
        """A local gets another name."""
        if node.id in self.names:
            node.id = "other_" + node.id
        return node

    def visit_Expr(self, node):
        """A log line says something else."""
        call = node.value
        if (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
                and call.func.attr in ("debug", "info") and "logg" in ast.dump(call.func.value)):
            call.args = [ast.Constant("something else")]
            call.keywords = []
        return self.generic_visit(node)


def harmless(file, text):
    """A module with other comments, docstrings, names of locals and log lines."""
    tree = ast.parse(text)
    for cls in [one for one in tree.body if isinstance(one, ast.ClassDef)]:
        for function in [one for one in cls.body if isinstance(one, ast.FunctionDef)]:
            Renamed(function).generic_visit(function)
            if isinstance(function.body[0], ast.Expr) and isinstance(
                    function.body[0].value, ast.Constant):
                function.body.pop(0)
            function.body.insert(0, ast.Expr(ast.Constant("What this does.")))
    lines = []
    for line in ast.unparse(ast.fix_missing_locations(tree)).splitlines():
        lines.append(line)
        if line.startswith("        ") and line.endswith(":"):
            lines.append("            # a comment of " + file)
    return "\n".join(lines) + "\n"


# ---- what does make one ------------------------------------------------------------------------


def replace(function, find, make):
    """Put make(node) in the place of the first node for which find(node) is true."""
    class Change(ast.NodeTransformer):
        """Does it once."""
        done = False

        def visit(self, node):
            if not self.done and find(node):
                self.done = True
                return make(node)
            return self.generic_visit(node)

    change = Change()
    function.body = [change.visit(statement) for statement in function.body]
    function.body = [one for part in function.body
                     for one in (part if isinstance(part, list) else [part])]
    if not change.done:
        raise LookupError("nothing to change in " + function.name)


def is_call(node, name):
    """Whether it calls a function of that name."""
    return isinstance(node, ast.Call) and name == getattr(
        node.func, "attr", getattr(node.func, "id", None))


def swapped(template, is_node):
    """Put an expression, with _ for what was there, in the place of the first such node."""
    def change(function):
        def make(node):
            class Fill(ast.NodeTransformer):
                """Puts the node in."""

                def visit_Name(self, name):
                    return node if name.id == "_" else name
            return Fill().visit(ast.parse(template, mode="eval").body)
        replace(function, is_node, make)
    return change


def before_last(text):
    """Add statements before the last one."""
    def change(function):
        function.body[-1:-1] = ast.parse(text).body
    return change


def first(text):
    """Add statements at the beginning."""
    def change(function):
        at = int(isinstance(function.body[0], ast.Expr)
                 and isinstance(function.body[0].value, ast.Constant))
        function.body[at:at] = ast.parse(text).body
    return change


def where_new(text, change):
    """Change a function that has not this in its syntax; a later DLIO may know a number."""
    def checked(function):
        if text in ast.dump(function):
            raise LookupError("it has %s already" % text)
        change(function)
    return checked


def attribute(name, owner="self"):
    """Finds owner.name."""
    return lambda node: (isinstance(node, ast.Attribute) and node.attr == name
                         and getattr(node.value, "id", None) == owner)


def to_floor(function):
    """ceil becomes floor."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr == "ceil":
            node.attr = "floor"


def without(name):
    """A call's argument, in the place of the call."""
    return lambda function: replace(function, lambda node: is_call(node, name),
                                    lambda node: node.args[0])


def twice(name):
    """The statement that calls it comes twice."""
    return lambda function: replace(
        function, lambda node: isinstance(node, ast.Expr) and is_call(node.value, name),
        lambda node: [node, node])


def planted():
    """(name, file, function, change): each must be refused with the function's name."""
    index, maps = "ConfigArguments.get_global_map_index", "ConfigArguments.build_sample_map_iter"
    init = "DLIOBenchmark.initialize"
    return [
        ("another rounding", CONFIG, index, to_floor),
        ("a rank off by one", CONFIG, index, swapped("(_ + 1)", attribute("my_rank"))),
        ("only some ranks", CONFIG, index,
         swapped("(_ + (self.my_rank == 2))", attribute("my_rank"))),
        ("relative paths", CONFIG, index, without("abspath")),
        ("other numbers of samples", CONFIG, index,
         swapped("max(1, _ - (_ > 3))", attribute("num_samples_per_file"))),
        ("a second shuffle", CONFIG, maps, twice("shuffle")),
        ("another seed", CONFIG, maps, swapped("(_ + 1)", attribute("seed"))),
        ("the second epoch only", CONFIG, maps,
         first("if epoch_number == 2:\n    file_list = file_list[::-1]")),
        ("other threads", CONFIG, maps, swapped("(_ + 1)", lambda node: getattr(
            node, "id", None) == "thread_index" and isinstance(node.ctx, ast.Load))),
        ("a last sample dropped", LOADER, "dlio_sampler.__init__", swapped(
            "_[:-1]", lambda node: is_call(node, "list"))),
        ("every second sample", LOADER, "dlio_sampler.__init__", swapped(
            "_[::2]", lambda node: is_call(node, "list"))),
        ("another slice for a worker", LOADER, "TorchDataset.worker_init", before_last(
            "a = ConfigArguments.get_instance()\n"
            "a.file_list_train = a.file_list_train[max(worker_id, 0)::2]")),
        ("DALI's samples", "data_loader/dali_data_loader.py", "DaliIndexDataset.__init__", swapped(
            "list(reversed(_))", lambda node: is_call(node, "list"))),
        ("another sample of the map", READER, "FormatReader.read_index", first(
            "global_sample_idx = next(iter(self.global_index_map))")),
        ("TensorFlow's files", "reader/tf_reader.py", "TFReader.next", swapped(
            "_.take(1)", lambda node: is_call(node, "list_files"))),
        ("a folder's last name", "storage/file_storage.py", "FileStorage.walk_node", swapped(
            "_[:-1]", lambda node: is_call(node, "listdir"))),
        ("the environment", CONFIG, index, first(
            "if os.environ.get('ODD'):\n    file_list = file_list[::-1]")),
        ("many files only", CONFIG, index, first(
            "if len(file_list) > 1000000:\n    file_list = file_list[::-1]")),
        ("many files only, in the listing", "main.py", init, where_new("1000000", first(
            "many = 1000000\nif self.num_files_train > many:\n    self.num_files_train = many"))),
        ("an option that is a text", CONFIG, index, first(
            "if self.checkpoint_folder == 'odd':\n    file_list = file_list[::-1]")),
        ("an option by its name", CONFIG, index, first(
            "if getattr(self, 'reversed_map', None):\n    file_list = file_list[::-1]")),
        ("where links lead", CONFIG, index, swapped(
            "os.path.realpath(_.args[0])", lambda node: is_call(node, "abspath"))),
        ("several nodes only", CONFIG, index, first(
            "if DLIOMPI.get_instance().nnodes() > 1:\n    file_list = file_list[::-1]")),
        ("files of some size", "main.py", init, swapped(
            "[one for one in _ if os.path.getsize(one) >= 0]", lambda node: is_call(node, "sorted"))),
        ("another order", "main.py", init, swapped(
            "_[::-1]", lambda node: is_call(node, "sorted"))),
        ("a cut list", "main.py", init, swapped(
            "(_)[1:]", lambda node: is_call(node, "sorted"))),
        ("another order of one format", "main.py", init, swapped(
            "_[::-1 if str(self.args.format) == 'hdf5' else 1]", lambda node: is_call(node, "sorted"))),
        ("another order for one loader", "main.py", init, swapped(
            "_[::-1 if str(self.args.data_loader) == 'native_dali' else 1]", lambda node: is_call(node, "sorted"))),
    ]


# ---- running -------------------------------------------------------------------------------------


# What shardctl takes for mpirun: its ranks sleep while they wait.
MPIRUN = """#!/bin/sh
for word; do
  shift
  case $word in LD_PRELOAD=*) word=$word:%s ;; esac
  set -- "$@" "$word"
done
exec %s "$@"
"""


class Prove:
    """The folders and commands of one invocation."""

    def __init__(self, args, workdir):
        self.args, self.workdir = args, workdir
        self.source = configs.package(args.python, args.dlio)
        self.bin = os.path.join(workdir, "bin")
        os.makedirs(self.bin)
        with open(os.path.join(self.bin, "mpirun"), "w", encoding="utf-8") as stream:
            stream.write(MPIRUN % (processes.PATIENT, shutil.which("mpirun")))
        os.chmod(stream.name, 0o755)

    def copy(self, name, *changes):
        """A copy of the tree, where each change(files) has changed {file: text}."""
        tree = os.path.join(self.workdir, re.sub("[^a-z0-9]+", "-", name))
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(self.source, os.path.join(tree, "dlio_benchmark"),
                        ignore=shutil.ignore_patterns("__pycache__"))
        files = self.files()
        before = dict(files)
        for change in changes:
            change(files)
        for file in files:
            if files[file] != before.get(file):
                with open(os.path.join(tree, "dlio_benchmark", file), "w", encoding="utf-8") as stream:
                    stream.write(files[file])
        return tree

    def files(self):
        """{file: text} of the tree's modules."""
        found = {}
        for folder, _, names in os.walk(self.source):
            for name in (one for one in names if one.endswith(".py")):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as stream:
                    found[os.path.relpath(path, self.source)] = stream.read()
        return found

    def command(self, tree, known, *more, limit=1200):
        """Run shardctl prove: (exit status, its JSON, its messages)."""
        env = processes.environment(self.args.python)
        env.update(SHARD_KNOWN=known, TMPDIR=self.workdir, PATH=self.bin + os.pathsep + env["PATH"])
        done = subprocess.run([SHARDCTL, "prove", "--json", "--python", self.args.python, "--dlio",
                               tree, *more], env=env, capture_output=True, text=True, check=False,
                              timeout=limit, cwd=self.workdir)
        lines = done.stdout.strip().splitlines()
        return done.returncode, json.loads(lines[-1]) if lines else {}, done.stderr

    def family(self, tree, **env):
        """(the family that a process under libshard finds, its messages). A variable that is None is
        not set."""
        code = "import dlio_benchmark, _libshard; print(_libshard.evidence())"
        every = processes.environment(self.args.python, tree)
        every.update(LD_PRELOAD=self.args.preload, **env)
        every = {name: value for name, value in every.items() if value is not None}
        done = subprocess.run([self.args.python, "-c", code], env=every, capture_output=True,
                              text=True, check=False, cwd=self.workdir, timeout=120)
        return (ast.literal_eval(done.stdout.strip()) if done.stdout.strip() else {}), done.stderr

    # -- cases: each returns lines about what is wrong

    def refuses(self, name, file, function, change):
        """One planted difference."""
        def mutate(files):
            tree = ast.parse(files[file])
            change(refactored.method(tree, function)[1])
            files[file] = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        tree = self.copy(name, mutate)
        known = tree + "-known.json"
        with open(known, "w", encoding="utf-8") as stream:
            stream.write('{"libshard known": 1, "proofs": []}')
        status, result, messages = self.command(tree, known)
        shutil.rmtree(tree)
        lines = []
        if (status, result.get("result"), result.get("function")) != (1, "not proven", function):
            lines += ["status %s, %s" % (status, json.dumps(result)[:600]), messages[-600:]]
        with open(known, encoding="utf-8") as stream:
            if stream.read() != '{"libshard known": 1, "proofs": []}':
                lines.append("the file of known versions was changed")
        return lines

    def decides(self, name, changes, provable):
        """A tree that is refactored: whether it is proven, which it must, need not, or must not be."""
        tree = self.copy(name, *changes)
        known = tree + "-known.json"
        status, result, messages = self.command(tree, known)
        proven = (status, result.get("result")) == (0, "proven")
        lines = []
        if provable not in (None, proven) or not proven and (
                (status, result.get("result")) != (1, "not proven") or not result.get("function")):
            lines += ["status %s, %s" % (status, json.dumps(result)[:900]), messages[-900:]]
        found, said = self.family(tree, SHARD_KNOWN=known if proven else None)
        if bool(found.get("family")) != proven:
            lines.append("served: %s %s" % (found, said))
        if proven:  # of this tree only, whatever has changed in it
            with open(os.path.join(tree, "dlio_benchmark", refactored.NAMES), "a", encoding="utf-8") as stream:
                stream.write("\n")
            found, said = self.family(tree, SHARD_KNOWN=known)
            if found.get("family") or "shardctl prove" not in said:
                lines.append("another tree is served: %s %s" % (found, said))
        return lines

    def accepts(self, name, *changes):
        """What makes no difference, after these changes; and then the file."""
        tree = self.copy(name, *changes, lambda files: files.update(
            {file: harmless(file, text) for file, text in files.items()}))
        known = os.path.join(self.workdir, "conf of " + name, "known.json")
        os.makedirs(os.path.dirname(known))
        found, messages = self.family(tree, SHARD_KNOWN=known)
        lines = []
        if found.get("family") or "shardctl prove" not in messages and "not there" not in messages:
            lines.append("known before it was proven: %s %s" % (found, messages))
        status, result, messages = self.command(tree, known)
        if (status, result.get("result")) != (0, "proven"):
            return ["status %s, %s" % (status, json.dumps(result)[:900]), messages[-900:]]
        print(messages, flush=True)
        family = result["family"]

        def check(what, trusted, said, **env):
            found, messages = self.family(tree, **{"SHARD_KNOWN": known, **env})
            if bool(found.get("family")) != trusted or (
                    trusted and found.get("family") != family) or not re.search(said, messages):
                lines.append("%s: %s, %r" % (what, found, messages))

        check("proven", True, "^$")
        own = os.path.join(self.workdir, "config of " + name, "libshard", "known.json")
        os.makedirs(os.path.dirname(own))
        shutil.copy(known, own)
        check("the user's own", True, "^$", SHARD_KNOWN=None,
              XDG_CONFIG_HOME=os.path.join(self.workdir, "config of " + name))
        status, result, _ = self.command(tree, known)
        if (status, result.get("result")) != (0, "proven before"):
            lines.append("once more: %s %s" % (status, result))
        with open(known, encoding="utf-8") as stream:
            good = stream.read()
        for what, text, said in (
                ("damaged", good[:-20], "is not trusted: it is damaged"),
                ("no proofs", "[]", "is not trusted: it is damaged"),
                ("another libshard", good.replace('"libshard": "', '"libshard": "9'),
                 "was made with another libshard .*shardctl prove"),
                ("another adapter", re.sub('"adapter": "....', '"adapter": "zzzz', good),
                 "was made with another libshard"),
                ("another function", re.sub(r'("FileStorage.get_uri": ")....', r"\1zzzz", good),
                 "is not a version known")):
            with open(known, "w", encoding="utf-8") as stream:
                stream.write(text)
            check(what, False, said)
        with open(known, "w", encoding="utf-8") as stream:
            stream.write(good)
        os.chmod(known, 0o666)
        check("others may write", False, "is not trusted: others may write to it")
        os.chmod(known, 0o644)
        if os.geteuid() == 0:
            os.chown(known, 12345, -1)
            check("another user's", False, "is not trusted: it belongs to user 12345")
            os.chown(known, 0, -1)
        check("once more", True, "^$")
        check("not there", False, "is not trusted: it is not there", SHARD_KNOWN=known + ".none")
        return lines


def main():
    """Run all cases, two at a time; the exit status is 1 if one is not as it must be."""
    processes.end_jobs_on_signals()
    parser = options.parser(__doc__, "preload", "python", "dlio", "filter", "workdir")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    args = options.parse(parser)
    workdir = options.work_folder(args, "dlio-prove-")
    prove = Prove(args, workdir)
    moved = next(changes for _, changes, provable in refactored.changes(prove.files()) if provable)
    cases = [("harmless", lambda: prove.accepts("harmless")),
             ("harmless, and refactored", lambda: prove.accepts("harmless, and refactored", *moved))] + [
        (name, lambda one=(name, *rest): prove.refuses(*one)) for name, *rest in planted()] + [
        (name, lambda one=(name, *rest): prove.decides(*one))
        for name, *rest in refactored.changes(prove.files())]
    cases = [case for case in cases if re.search(args.filter, case[0])]
    if args.list:
        print("\n".join(name for name, _ in cases))
        return 0
    verdicts = Verdicts()

    def run(case):
        start = time.monotonic()
        try:
            lines = case[1]()
        except LookupError as error:
            return "%s: not in this DLIO (%s)" % (case[0], error), []
        return "%s (%.0f s)" % (case[0], time.monotonic() - start), lines

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, lines in pool.map(run, cases):
            verdicts.tell(name, lines)
    return verdicts.conclude(workdir, args.workdir)


if __name__ == "__main__":
    sys.exit(main())
