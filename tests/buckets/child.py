"""A process that calls functions of these tests, each in forks of it: importing clients takes the most time.

    python -m tests.buckets.child < CALLS
    python -m tests.buckets.child MODULE:NAME [ARGUMENT...]     calls it here; prints what it returns

Each line of CALLS is JSON: {"function": "MODULE:NAME", "arguments": [...], "forks": [{VARIABLE: VALUE}]}. What the
function has as its `imports` (needs() below) is imported; then it is called in forks that have these variables.
A line comes back: [[what the function has returned, what the fork has written], ...].
"""
import importlib
import json
import os
import sys
import tempfile


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
    """(pid, file of what it returns, file of what it writes) of a fork; in the fork itself, None."""
    returned, said = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    pid = os.fork()
    if pid:
        return pid, returned, said
    for number in (1, 2):
        os.dup2(said.fileno(), number)
    os.environ.update(variables)
    returned.write(json.dumps(function(*arguments)).encode())
    returned.close()
    return None


def answer(asked):
    """The line for a call; in a fork, None: it ends as a process does."""
    function = named(asked["function"])
    imports = getattr(function, "imports", ())
    for one in imports(*asked["arguments"]) if callable(imports) else imports:
        if ":" in one:
            named(one)()
        else:
            named(one)
    forks, found = [], []
    for variables in asked["forks"]:
        made = fork(function, asked["arguments"], variables)
        if made is None:
            return None
        forks.append(made)
    for pid, returned, said in forks:
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
        text = answer(json.loads(line))
        if text is None:
            return
        print(text, flush=True)


if __name__ == "__main__":
    main()
