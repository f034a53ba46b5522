# SPDX-License-Identifier: MIT
"""shapes: what a function is, apart from what makes no difference to what it does.

Two functions of one shape do the same. The shape leaves out comments, docstrings and lines that
only log, and numbers the names of locals. What is not sure to make no difference stays in.
"""
import ast
import hashlib
from importlib.util import decode_source

from ..recognise import functions

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


def shapes(source):
    """{qualified name: its shape} of a module's source; SyntaxError."""
    return {name: shape(function) for name, function in functions(ast.parse(source)).items()}


# ---- what a proof by trying cannot see -----------------------------------------------------------

TRIED = 2048  # the longest lists of the proofs have more elements than this

_ASKS = {"environ": "the environment", "getenv": "the environment", "getpid": "the process",
         "gethostname": "the node", "urandom": "chance", "random_sample": "chance",
         "uuid4": "chance", "_getframe": "its callers", "getsizeof": "sizes in memory"}


def options_in(function):
    """The names of DLIO's arguments that a function reads, by its text."""
    return {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)
            and getattr(node.value, "attr", getattr(node.value, "id", None)) in ("args", "_args")}


def blind_spots(function, options, sizes=()):
    """What makes no proof by trying: [text]. `options` are those that the proofs vary or fix with
    reason; `sizes` are numbers that the family's own versions have. The node is changed."""
    found = []
    clean(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float) and (
                abs(node.value) > TRIED and node.value not in sizes):
            found.append("the number %r, which is beyond the lists that are tried" % node.value)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Pow, ast.LShift)):
            found.append("a power, which may be beyond the lists that are tried")
        elif isinstance(node, ast.Attribute):
            owner = getattr(node.value, "attr", getattr(node.value, "id", None))
            if owner in ("args", "_args") and node.attr not in options:
                found.append("the option %r, which no proof varies" % node.attr)
            elif node.attr in _ASKS and owner in ("os", "socket", "sys", "uuid"):
                found.append("%s (%s.%s)" % (_ASKS[node.attr], owner, node.attr))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", None) in (
                "eval", "exec", "compile", "__import__"):
            found.append("code that is made at run time (%s)" % node.func.id)
    return found
