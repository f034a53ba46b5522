# SPDX-License-Identifier: MIT
"""shapes: what a function is, apart from what makes no difference to what it does.

Two functions of one shape do the same. The shape leaves out comments, docstrings and lines that
only log, and numbers the names of locals. What is not sure to make no difference stays in.
"""
import ast
import hashlib
from importlib.util import decode_source

from ..recognise import functions

NAMES_OF_KINDS = "common/enumerations.py"
LOGGERS = ("logging", "logger")
LEVELS = ("debug", "info", "warning", "error", "output")
# What an argument of a log line may call: nothing that changes anything.
HARMLESS = ("len", "str", "repr", "utcnow", "type", "int", "round", "join", "basename")
# A function that uses one of these may look at the names of its locals.
LOOKS = ("locals", "vars", "eval", "exec", "dir", "_getframe", "currentframe", "stack")


def _is_harmless(node):
    """Whether to evaluate an expression changes nothing."""
    if isinstance(node, ast.Call):
        function = node.func
        name = getattr(function, "id", getattr(function, "attr", None))
        if name not in HARMLESS:
            return False
    elif isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Starred,
                           ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)):
        return False
    return all(_is_harmless(child) for child in ast.iter_child_nodes(node))


def _is_log(statement):
    """Whether a statement only logs."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    call = statement.value
    function = call.func
    if isinstance(function, ast.Attribute):
        owner = function.value
        logs = function.attr in LEVELS and getattr(
            owner, "attr", getattr(owner, "id", None)) in LOGGERS
    else:
        logs = getattr(function, "id", None) == "print"
    return logs and all(map(_is_harmless, [*call.args, *(k.value for k in call.keywords)]))


def _is_nothing(statement):
    """Whether a statement does nothing."""
    if isinstance(statement, ast.If):
        return not statement.body and not statement.orelse and _is_harmless(statement.test)
    return (_is_log(statement) or isinstance(statement, ast.Pass)
            or isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


def clean(node):
    """Take out of a function what does nothing."""
    for field in ("body", "orelse", "finalbody"):
        statements = getattr(node, field, None)
        if isinstance(statements, list):
            for statement in statements:
                clean(statement)
            setattr(node, field, [one for one in statements if not _is_nothing(one)])
    for handler in getattr(node, "handlers", ()):
        clean(handler)
    for case in getattr(node, "cases", ()):
        clean(case)


def _parameters(arguments):
    every = [*getattr(arguments, "posonlyargs", ()), *arguments.args, *arguments.kwonlyargs,
             arguments.vararg, arguments.kwarg]
    return {one.arg for one in every if one is not None}


def _locals(function):
    """The names that a function binds itself, and may be called otherwise."""
    bound, kept = set(), _parameters(function.args)

    def visit(node, inside):
        nested = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp,
                                   ast.SetComp, ast.DictComp, ast.GeneratorExp))
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            kept.update(node.names)
        elif isinstance(node, ast.ClassDef) or (
                isinstance(node, (ast.Name, ast.Attribute))
                and getattr(node, "id", getattr(node, "attr", None)) in LOOKS):
            kept.add(None)  # nothing may be called otherwise
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            if not inside:
                bound.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            kept.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            kept.update((one.asname or one.name).partition(".")[0] for one in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            kept.add(node.name)
        if nested and not isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp,
                                            ast.GeneratorExp)):
            kept.update(_parameters(node.args))
        for child in ast.iter_child_nodes(node):
            visit(child, inside or nested)

    for statement in function.body:
        visit(statement, False)
    return set() if None in kept else bound - kept


def _write(node, names, out):
    """A node as words, the same whatever Python has parsed it."""
    if isinstance(node, ast.AST):
        kind = type(node).__name__
        if kind in ("Index", "ExtSlice"):  # of Python 3.8
            _write(getattr(node, "value", getattr(node, "dims", None)), names, out)
            return
        out.append("(" + kind)
        for field in node._fields:
            value = getattr(node, field, None)
            if field in ("ctx", "type_comment", "kind", "type_params") or value is None or (
                    value == [] and not (kind, field) == ("Tuple", "elts")):
                if not (kind == "Constant" and field == "value"):
                    continue
            out.append(field)
            if field == "id" and value in names:
                out.append("$%d" % names.setdefault(value, 0))
            else:
                _write(value, names, out)
        out.append(")")
    elif isinstance(node, list):
        out.append("[")
        for one in node:
            _write(one, names, out)
        out.append("]")
    else:
        out.append("%s:%r" % (type(node).__name__, node))


def shape(function):
    """The shape of a function, a node of `ast` that is changed: sixteen hex digits."""
    clean(function)
    own, order = _locals(function), {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in own:
            order.setdefault(node.id, len(order))
    out = []
    _write(function, order, out)
    return hashlib.sha256("\n".join(out).encode()).hexdigest()[:16]


def text_of(tree, file):
    """The source of one of a tree's modules; OSError, ValueError."""
    with open(tree.path(file), "rb") as stream:
        return decode_source(stream.read())


def members(tree, kind):
    """The values of one of DLIO's enumerations, as options name them; [] if there is none of that name."""
    owners = [one for one in ast.parse(text_of(tree, NAMES_OF_KINDS)).body
              if isinstance(one, ast.ClassDef) and one.name == kind]
    return [one.value.value for owner in owners for one in owner.body
            if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant)]


def shapes(source):
    """{qualified name: its shape} of a module's source; SyntaxError."""
    return {name: shape(function) for name, function in functions(ast.parse(source)).items()}


# ---- what a proof by trying cannot see -----------------------------------------------------------

TRIED = 2048  # the longest lists of the proofs have more elements than this

_ASKS = {"environ": "the environment", "getenv": "the environment", "getpid": "the process",
         "gethostname": "the node", "urandom": "chance", "random_sample": "chance",
         "uuid4": "chance", "_getframe": "its callers", "getsizeof": "sizes in memory"}
# What a file or a node is: those of a proof are all alike. By whatever name they are imported.
_ALIKE = {**dict.fromkeys(("stat", "lstat", "fstat", "getsize", "getmtime", "getatime", "getctime"),
                          "what a file is, apart from its name"),
          **dict.fromkeys(("read_text", "read_bytes"), "what is in a file"),
          **dict.fromkeys(("islink", "is_symlink", "readlink", "realpath"), "links"),
          **dict.fromkeys(("nnodes", "npernode", "local_rank", "local_size", "ranks_per_node", "Get_processor_name",
                           "Split_type", "uname"),
                          "how ranks lie on nodes")}
ARGUMENTS = "args", "_args"
WHOLE = frozenset()  # in taken_over(): the attribute is DLIO's arguments


def _named(node):
    """The name that an expression ends with; what makes DLIO's arguments is "args"."""
    if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "get_instance" and (
            _named(node.func.value) == "ConfigArguments"):
        return ARGUMENTS[0]
    return getattr(node, "attr", getattr(node, "id", None))


def _assignments(node):
    """[(target, value)] of all assignments in a node, those of tuples one by one."""
    for one in ast.walk(node):
        if isinstance(one, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and one.value:
            for target in getattr(one, "targets", None) or [one.target]:
                if isinstance(target, ast.Tuple) and isinstance(one.value, ast.Tuple):
                    yield from zip(target.elts, one.value.elts)
                else:
                    yield target, one.value


def read_of(function, more=()):
    """[(of what, attribute)] that a function names, by getattr() too, where None is one that is computed. DLIO's
    arguments are "args", by whatever name; more: such names."""
    arguments = {*ARGUMENTS, *more}
    for target, value in _assignments(function):
        if _named(value) in arguments:
            arguments.add(_named(target))
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            owner, name = node.value, node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", None) == "getattr" and len(node.args) > 1:
            owner, name = node.args[0], getattr(node.args[1], "value", None)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", None) == "vars" and node.args:
            owner, name = node.args[0], None
        else:
            continue
        owner = _named(owner)
        yield ARGUMENTS[0] if owner in arguments else owner, name


def taken_over(nodes, cls):
    """{attribute: DLIO's arguments that it tells} of a class's objects, by its __init__. nodes: the functions of its
    module."""
    found = {}
    made = nodes.get(cls + ".__init__")
    for target, value in _assignments(made) if made else ():
        if isinstance(target, ast.Attribute) and _named(target.value) == "self":
            told = {name for owner, name in read_of(value) if owner == ARGUMENTS[0]}
            found[target.attr] = WHOLE if _named(value) in ARGUMENTS else found.get(target.attr, set()) | told
    return found


def assigned(function):
    """The attributes of self that a function assigns."""
    return {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store) and _named(node.value) == "self"}


def options_in(function, own=()):
    """The names of DLIO's arguments that a function reads, by its text. own: {attribute of self: those that it
    tells}."""
    found = set()
    for owner, name in read_of(function, [name for name in own if own[name] is WHOLE]):
        if owner == "self":
            found.update(own[name] if name in own else ())
        elif owner == ARGUMENTS[0]:
            found.add(name)
    return found


def blind_spots(function, options, sizes=(), own=(), literals=()):
    """What makes no proof by trying: [text]. `options` are those that the proofs vary or fix with
    reason; `sizes` are numbers that the family's own versions have; own: as options_in(); literals: {name of
    the module: what it stands for}. The node is changed."""
    found = []
    clean(function)
    for option in sorted(options_in(function, own), key=str):
        if option is None:
            found.append("an option whose name is computed")
        elif option not in options:
            found.append("the option %r, which no proof varies" % option)
    for node in ast.walk(function):
        value = node.value if isinstance(node, ast.Constant) else None
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
        if name is not None and name in literals:
            value = literals[name]
        if type(value) in (int, float) and abs(value) > TRIED and value not in sizes:
            found.append("the number %r, which is beyond the lists that are tried" % value)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Pow, ast.LShift)):
            found.append("a power, which may be beyond the lists that are tried")
        elif name in _ALIKE:
            found.append("%s (%s)" % (_ALIKE[name], name))
        elif name in _ASKS and (isinstance(node, ast.Name) or _named(node.value) in ("os", "socket", "sys", "uuid")):
            found.append("%s (%s)" % (_ASKS[name], name))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", None) in (
                "eval", "exec", "compile", "__import__"):
            found.append("code that is made at run time (%s)" % node.func.id)
        elif isinstance(node, ast.Call) and _named(node.func) == "open" and (
                isinstance(node.func, ast.Name) or _named(node.func.value) in ("io", "os", "codecs")):
            found.append("what is in a file (open)")
    return found
