"""A process that calls functions of these tests, each in forks of it: importing clients takes the most time.

    python -m tests.buckets.child < CALLS
    python -m tests.buckets.child MODULE:NAME [ARGUMENT...]     calls it here; prints what it returns

Each line of CALLS is JSON: {"function": "MODULE:NAME", "arguments": [...], "forks": [{VARIABLE: VALUE}]}. What the
function has as its `imports` (needs() below) is imported; then it is called in forks that have these variables.
A line comes back: [[what the function has returned, what the fork has written], ...].
"""
import atexit
import gc
import importlib
import json
import os
import sys
import tempfile
import traceback


def needs(*imports):
    """Decorates a function with what is imported before it is called: modules, or MODULE:NAME to be called."""
    def put(function):
        function.imports = imports
        return function
    return put


def named(text):
    """MODULE, or what MODULE:NAME is."""
    module, _, name = text.partition(":")
    module = importlib.import_module(module)
    return getattr(module, name) if name else module


def fork(function, arguments, variables):
    """(pid, file of what it returns, file of what it writes) of a fork. It ends as a process does, but that the
    interpreter, with all that was imported, is not taken apart: that takes longer than most calls."""
    returned, said = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    pid = os.fork()
    if pid:
        return pid, returned, said
    for number in (1, 2):
        os.dup2(said.fileno(), number)
    os.environ.update(variables)
    status = 1
    try:
        returned.write(json.dumps(function(*arguments)).encode())
        returned.flush()
        atexit._run_exitfuncs()
        status = 0
    except BaseException:  # pylint: disable=broad-exception-caught
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def answer(asked):
    """The line for a call."""
    function = named(asked["function"])
    imports = getattr(function, "imports", ())
    for one in imports(*asked["arguments"]) if callable(imports) else imports:
        if ":" in one:
            named(one)()
        else:
            named(one)
    gc.freeze()  # or each fork gets pages of its own of what is there
    found = []
    for pid, returned, said in [fork(function, asked["arguments"], variables) for variables in asked["forks"]]:
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        for file in (returned, said):
            file.seek(0)
        text, words = returned.read(), said.read().decode(errors="replace")
        try:
            found.append([json.loads(text), words])
        except ValueError:
            found.append([None, f"exit status {status}: {words}"])
    return json.dumps(found)


def main():
    """Answer all."""
    if len(sys.argv) > 1:
        print(json.dumps(named(sys.argv[1])(*sys.argv[2:])))
        return
    for line in sys.stdin:
        print(answer(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
