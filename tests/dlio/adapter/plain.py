"""What the tests share and needs no DLIO: a spawned child may import it."""
import collections.abc
import contextlib
import inspect
import os
import pickle
import subprocess
import sys
import tempfile

REPO = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
WORK = os.environ.get("ADAPTER_UNITS_WORK", "")
CACHE = os.path.join(WORK, "cache")
FEW, MANY = 60, 2500  # files of the data sets; MANY is more than is fetched at once


def touch(*paths):
    """Make empty files, and the folders they lie in."""
    for path in paths:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8"):
            pass


def data(count):
    """A folder of `count` empty files."""
    folder = os.path.join(WORK, "data-%d" % count)
    if not os.path.isdir(folder):
        touch(*(os.path.join(folder, "f%05d.npz" % i) for i in range(count)))
    return folder


def exact(value):
    """With the types of numbers, and the order of dicts; lists and what acts as one alike."""
    if isinstance(value, collections.abc.Mapping) or hasattr(value, "items"):  # as VirtualIndexMap has
        return "dict", [(exact(k), exact(v)) for k, v in value.items()]
    if isinstance(value, collections.abc.Sequence) and not isinstance(value, (str, bytes)):
        return "tuple" if isinstance(value, tuple) else "list", [exact(v) for v in value]
    if type(value).__name__ == "ndarray":
        return str(value.dtype), value.tolist()
    return type(value).__name__, value


def state():
    """That of numpy's generator."""
    import numpy

    name, keys, *rest = numpy.random.get_state()
    return name, keys.tobytes(), rest


def outcome(function, *args):
    """(what it returns or raises, the generator's state after), from one state."""
    import numpy

    numpy.random.seed(99)
    numpy.random.normal()  # leaves half a pair of normal numbers behind: part of the state
    try:
        result = exact(function(*args))
    except Exception as error:  # pylint: disable=broad-except
        result = type(error).__name__, str(error)
    return result, state()


def again(value, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(value, protocol))


@contextlib.contextmanager
def stderr():
    """What this process, C code included, writes to stderr: the list gets it as one text."""
    texts = []
    with tempfile.TemporaryFile() as file:
        sys.stderr.flush()
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield texts
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            texts.append(file.read().decode())


@contextlib.contextmanager
def replaced(owner, name, value, new=False):
    """new: the owner has no such attribute."""
    saved = None if new else inspect.getattr_static(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if new:
            delattr(owner, name)
        else:
            setattr(owner, name, saved)


def run_python(code, *flags, data_in=b"", env=None, unset=()):
    """A child under the preload: (stdout, stderr)."""
    environment = {k: v for k, v in os.environ.items() if k not in unset}
    done = subprocess.run([sys.executable, *flags, "-c", code], input=data_in, check=False,
                          capture_output=True, env={**environment, **(env or {})}, timeout=900)
    if done.returncode:
        raise AssertionError("child failed: %s" % done.stderr.decode())
    return done.stdout.decode(), done.stderr.decode()


def describe(objects, text, answers):
    """In a child: what it was given and what it unpickles, and whether DLIO was imported for it."""
    try:
        answers.put((exact(objects), exact(pickle.loads(text)), "dlio_benchmark" in sys.modules))
    except Exception as error:  # pylint: disable=broad-except
        answers.put((repr(error), None, None))
