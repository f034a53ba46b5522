"""Which family each commit of a repository of DLIO is of, or why it is of none.

    python -m tests.dlio.history --repo PATH [--since 2025-01-01] [--commits] [--export FOLDER]

Needs the repository only, not a DLIO that runs. Commits whose functions are the same are told
together, in the order of their dates. Fails if a commit is of two families.

--export writes the package of the first commit of each such group of a known family, so that
tests/dlio/adapter_units.py can compare its own functions with what takes their place.
"""
import argparse
import importlib
import os
import subprocess
import sys
import types

from tests.harness import paths

PACKAGE = "dlio_benchmark"
NO_FILE = "no file"

# Why functions that people may come across are of no family.
TENSORFLOW_READS = "TensorFlow reads the list past Python, where a lazy one looks empty"
FEW_PATHS = "its index map has no path for most samples of more than one rank, and fails"
WHY = {
    "ad8f9a39a6": TENSORFLOW_READS, "811a27f8c5": TENSORFLOW_READS, "7bfcd4d363": TENSORFLOW_READS,
    "6612dc5f0d": TENSORFLOW_READS, "8f8d0acf5e": TENSORFLOW_READS, "43f3e36b9d": TENSORFLOW_READS,
    "e07de5ace9": FEW_PATHS, "c7002aa1a2": FEW_PATHS,
    "cd3fac9d9d": "it has a lazy list of its own: names that are computed, not listed",
}


def adapter():
    """The adapter's modules `dlio` and `recognise`, without starting anything."""
    folder = os.path.join(paths.REPO, "shim", "adapter")
    os.environ["SHARD_ADAPTER"] = "off"  # the library is loaded for its functions only

    def modules_of(name):
        return sorted(file[:-len(".py")] for file in os.listdir(os.path.join(folder, name))
                      if file.endswith(".py") and file != "__init__.py")

    package = types.ModuleType("_libshard")
    package.__dict__.update(__path__=[folder, os.path.join(paths.BUILD, "gen", "adapter")],
                            LIBRARY=paths.LIBRARY, HANDLE=0, SOURCES={}, STARTED=0, begin=lambda *_: None,
                            modules_of=modules_of)
    sys.modules["_libshard"] = package
    return importlib.import_module("_libshard.dlio"), importlib.import_module("_libshard.recognise")


def tables(dlio):
    """All tables of fingerprints: of the families, and of what their parts compare by themselves."""
    parts = [importlib.import_module("_libshard.parts." + name[:-len(".py")])
             for name in sorted(os.listdir(os.path.join(paths.REPO, "shim", "adapter", "parts")))
             if name.endswith(".py") and name != "__init__.py"]
    found = [family.known for family in dlio.FAMILIES]
    for part in parts:
        known = getattr(part, "KNOWN", {})
        by_class = any(isinstance(prints, dict) for functions in known.values() for prints in functions.values()
                       ) if all(isinstance(one, dict) for one in known.values()) else None
        if by_class is not None:
            found += list(known.values()) if by_class else [known]
    return found


class Repository:
    """The commits of a repository, and the fingerprints in its files."""

    def __init__(self, path, recognise):
        self._path = path
        self._fingerprints = recognise.fingerprints
        self._found = {}  # blob -> its fingerprints
        self._blobs = subprocess.Popen(self._command("cat-file", "--batch"),
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _command(self, *words):
        return ["git", "-C", self._path, *words]

    def _lines(self, *words):
        return subprocess.run(self._command(*words), capture_output=True, text=True,
                              check=True).stdout.splitlines()

    def commits(self, since):
        """(commit, day) of all that any branch, tag or pull request leads to, oldest first."""
        lines = self._lines("log", "--all", "--topo-order", "--reverse", "--format=%H %cs")
        return sorted((line.split() for line in lines if line.split()[1] >= since),
                      key=lambda words: words[1])

    def files(self, commit, names):
        """{file of the package: its blob} for those of the names that are there."""
        lines = self._lines("ls-tree", commit, *(PACKAGE + "/" + name for name in names))
        return {line.split("\t")[1].partition("/")[2]: line.split()[2] for line in lines}

    def fingerprints(self, blob):
        """{function: fingerprint} of a file."""
        if blob not in self._found:
            self._blobs.stdin.write(blob.encode() + b"\n")
            self._blobs.stdin.flush()
            size = int(self._blobs.stdout.readline().split()[2])
            text = self._blobs.stdout.read(size + 1)[:-1].decode("utf-8", "replace")
            try:
                self._found[blob] = self._fingerprints(text.replace("\r\n", "\n"))
            except SyntaxError:
                self._found[blob] = {}  # it cannot be imported either
        return self._found[blob]

    def all_files(self, names):
        """[(blob, file)] of all that these files of the package have been, in any commit."""
        found = set()
        for line in self._lines("log", "--all", "--format=", "--raw", "--no-abbrev", "-m", "--",
                                *(PACKAGE + "/" + name for name in names)):
            if line.startswith(":"):
                words, _, path = line.partition("\t")
                found.add((words.split()[3], path.split("\t")[-1].partition("/")[2]))
        return [one for one in sorted(found) if one[0].strip("0")]

    def export(self, commit, folder):
        """Write the package of a commit into a new folder."""
        os.makedirs(folder)
        with subprocess.Popen(self._command("archive", commit, PACKAGE),
                              stdout=subprocess.PIPE) as archive:
            subprocess.run(["tar", "-x", "-C", folder], stdin=archive.stdout, check=True)

    def close(self):
        """End the process that reads blobs."""
        self._blobs.stdin.close()
        self._blobs.stdout.close()
        self._blobs.wait()


def groups(repository, families, since):
    """[(functions, [(commit, day)])]: commits by the fingerprints of all functions that any family
    knows."""
    functions = sorted({(file, function) for family in families
                        for file, names in family.known.items() for function in names})
    files = sorted({file for file, _ in functions})
    found = {}
    for commit, day in repository.commits(since):
        made = {file: repository.fingerprints(blob)
                for file, blob in repository.files(commit, files).items()}
        told = tuple((name, made[name[0]].get(name[1]) if name[0] in made else NO_FILE)
                     for name in functions)
        found.setdefault(told, []).append((commit, day))
    return found.items()


def stale(repositories, tables):
    """Lines about fingerprints of the adapter's tables that no file of these repositories has: a table that is
    forgotten when fingerprints change lets libshard serve nothing, without any test of another DLIO."""
    found = {}
    for repository in repositories:
        for blob, file in repository.all_files({file for table in tables for file in table}):
            for function, print_ in repository.fingerprints(blob).items():
                found.setdefault((file, function), set()).add(print_)
    return sorted({f"{file}: {function} has never been {print_}" for table in tables
                   for file, functions in table.items() for function, prints in functions.items()
                   for print_ in prints if print_ not in found.get((file, function), ())})


def judge(told, families, recognise):
    """(the families that match, why none does)."""

    class Told(recognise.Tree):
        """A tree whose functions have these fingerprints."""

        def fingerprint(self, file, function):
            """As in a folder."""
            found = told[file, function]
            if found == NO_FILE:
                raise OSError("there is no such file")
            return found

    different = {family: Told("").differences(family.known) for family in families}
    matching = [family.name for family in families if not different[family]]
    found, _ = recognise.recognise(Told(""), families)
    if (found.name if found else None) != (matching[0] if matching else None):
        raise AssertionError("recognise() found another family than %s" % matching)
    if set(told.values()) <= {NO_FILE}:
        return matching, "no package " + PACKAGE
    why = sorted({WHY[print_] for print_ in told.values() if print_ in WHY})
    names = sorted({function for _, function, _ in min(different.values(), key=len)})
    return matching, "%s (%s)" % ("; ".join(why) or "not known",
                                  ", ".join(names) if len(names) < 4 else
                                  "%d functions are others" % len(names))


def main():
    """Print the groups; 1 if a commit is of two families."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repo", required=True, help="a clone, with pull requests if wanted")
    parser.add_argument("--also", metavar="REPO", default=[], action="append",
                        help="another clone: is each fingerprint of the adapter's in one of them?")
    parser.add_argument("--since", default="", metavar="DAY", help="no commits before it")
    parser.add_argument("--commits", action="store_true", help="name every commit")
    parser.add_argument("--export", metavar="FOLDER", help="write a tree of each known group here")
    args = parser.parse_args()
    dlio, recognise = adapter()
    repository = Repository(args.repo, recognise)
    known = refused = twice = 0
    try:
        for told, commits in groups(repository, dlio.FAMILIES, args.since):
            matching, reason = judge(dict(told), dlio.FAMILIES, recognise)
            first, last = commits[0], commits[-1]
            if matching:
                text = " AND ".join(matching)
                known += len(commits)
                twice += len(matching) > 1
            else:
                text = "refused: " + reason
                refused += len(commits)
            print("%s %s .. %s %s, %d commits: %s" % (first[1], first[0][:7], last[1], last[0][:7],
                                                     len(commits), text))
            if args.commits:
                print("    " + " ".join(commit[:7] for commit, _ in commits))
            if args.export and matching:
                repository.export(first[0], os.path.join(args.export, first[0][:7]))
        more = [Repository(path, recognise) for path in args.also]
        lines = stale([repository, *more], tables(dlio)) if more else []
    finally:
        repository.close()
    for one in more:
        one.close()
    print("".join(f"{line}\n" for line in lines), end="")
    print("%d commits of known families, %d refused, %d groups of two families"
          % (known, refused, twice))
    return 1 if twice or lines else 0


if __name__ == "__main__":
    sys.exit(main())
