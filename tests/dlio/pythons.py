"""The adapter's sequences in every CPython that is here, from 3.8 on: what they do depends on the
interpreter's instructions, and needs no DLIO.

    python -m tests.dlio.pythons [--preload LIB]

Interpreters are those of PATH (python3.8, ...) and pyenv's. One that is not here is said to be skipped.
"""
import glob
import os
import pwd
import shutil
import subprocess
import sys

from tests.harness import confine, options
from tests.harness.processes import HANGS
from tests.harness.verdicts import Verdicts

VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")

# Each line that fails is told by its traceback.
PROGRAM = '''
import json, pickle, sys
from _libshard import numbered, sequences
from _libshard.mapped_listing import Listing

def make():
    return sequences.FileList(Listing.of_names(bytearray(b"".join(b"f_%03d\\0" % i for i in range(50)))), "/d/")

real = ["/d/f_%03d" % i for i in range(50)]

def extend(values):
    made = same = ["q"]
    made += values
    return made is same, same

def in_place(values):
    import operator
    made = ["q"]
    operator.iadd(made, values)
    return made

def walk(values):
    seen = []
    for value in values:
        seen.append(value)
        if len(seen) < 5:
            values.remove(value)
    return seen, list(values)

def generated(values):
    made = []
    made += (value for value in values)
    return [*values], made

assert extend(make()) == extend(real)
assert in_place(make()) == in_place(real)
assert generated(make()) == generated(real)
assert walk(make()) == walk(list(real))
assert json.dumps({"a": make()}) == json.dumps({"a": real})
for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
    assert list(pickle.loads(pickle.dumps(make()[::-3], protocol))) == real[::-3]
scope = {"m": make()}
exec("b = c = ['q']; b += m", scope)
assert scope["c"] == ["q"] + real
for add in (lambda: ["q"] + make(), lambda: sum([make(), ["x"]], []), lambda: exec("d = ['q'] + m", scope)):
    try:
        made = add()
    except TypeError as error:
        assert "SHARD_ADAPTER=off" in str(error), error
        continue
    raise AssertionError(made)
index = numbered.Index("train")
for text in "%s" % index, str(index), f"{index}", f"{index:d}", "{}".format(index):
    names = numbered.template("/a/" + text, 12)[1]
    assert list(map(names.name, range(12))) == list(map(str, range(12))), text
prefix, names = numbered.template("/a/%s/img_%s.x" % (str(index % 3).zfill(2), f"{index:05d}"), 9)
assert (prefix, names.name(7), names.find("01/img_00007.x")) == ("/a/", "01/img_00007.x", 7)
for use in (lambda: index + 1, lambda: [1][index], lambda: "%d" % index, lambda: index == 0, lambda: {index},
            lambda: len(str(index)), lambda: range(index), lambda: f"{index:x}"):
    try:
        made = use()
    except numbered.Unclear:
        continue
    raise AssertionError(made)

def outcome(files, i):
    try:
        return files[i]
    except (IndexError, TypeError) as error:
        return type(error)

def check():
    for part in slice(None), slice(None, None, -3), slice(7, 7), slice(1, 40, 2):
        for files in make()[part], pickle.loads(pickle.dumps(make()[part])):
            for i in (*range(-60, 60), True, 1 << 70, "1", None, (1,), 1.0):
                assert outcome(files, i) == outcome(real[part], i), (part, i)
            assert list(files) == real[part] and list(reversed(files)) == real[part][::-1]

assert type(sequences._place(True, 3)) is int

# As C makes the elements, as Python does, and in an interpreter that must not have what is C's.
kind = type(vars(sequences.FileList)["__getitem__"]).__name__
assert kind == "method_descriptor", kind
check()
if sys.version_info[:2] != (3, 12):  # there is no ctypes in them
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    other = interpreters.create()
    assert not interpreters.run_string(other, "from _libshard import sequences; from _libshard.mapped_listing import Listing;"
        "files = sequences.FileList(Listing.of_names(bytearray((b'f_003' + bytes(1)) * 9)), '/d/');"
        "assert [*files][3] == files[3] == '/d/f_003' and files._recipe == ()")
    interpreters.destroy(other)
    check()
sequences.FileList.__getitem__, sequences.FileList._recipe = sequences.FileList._element, ()
check()

print("good")
'''


def interpreter(version):
    """Path of a CPython of this version that runs; None."""
    home = os.environ.get("PYENV_ROOT") or os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".pyenv")  # HOME may be any
    found = [shutil.which("python" + version), *sorted(glob.glob(f"{glob.escape(home)}/versions/{version}.*/bin/python"))]
    return next((one for one in found if one and subprocess.run(
        [one, "-c", ""], check=False, capture_output=True).returncode == 0), None)


def main():
    """Try all of them."""
    confine.begin()
    args = options.parse(options.parser(__doc__, "preload"))
    verdicts = Verdicts()
    for version in VERSIONS:
        python = interpreter(version)
        if python is None:
            print(f"skip CPython {version}: it is not installed")
            continue
        env = {**os.environ, "LD_PRELOAD": args.preload, "PYTHONDONTWRITEBYTECODE": "1", "SHARD_LOG": "error",
               "PYTHONMALLOC": "debug"}
        done = subprocess.run([python, "-c", PROGRAM], env=env, check=False, capture_output=True, text=True,
                              timeout=HANGS)
        good = done.stdout == "good\n" and not done.stderr
        verdicts.tell(f"CPython {version}", [] if good else [done.stdout + done.stderr])
    return verdicts.conclude()


if __name__ == "__main__":
    sys.exit(main())
