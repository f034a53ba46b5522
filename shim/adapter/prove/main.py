# SPDX-License-Identifier: MIT
"""main: `shardctl prove`, from the tree to the file that the adapter trusts."""
import datetime
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from .. import LIBRARY, dlio, known
from ..recognise import Tree, recognise
from . import runs, shapes
from .cases import LISTED
from .reach import Reach, Unseen
from .runs import Differs, Fault
from .table import SHAPES

LIMIT = 900  # seconds, on a machine that has other things to do
CANDIDATES = 3
# Numbers that families whose rank 0 lists have in it, too: names in a chunk that it broadcasts.
SIZES = (1000000,)
ROOT = "main.py", "DLIOBenchmark.initialize"


def look(tree, family):
    """(number of functions whose text is known, {file: [functions of a new shape, or that have moved
    there]}, [(file, missing function)]) of a tree, by the table of a family; OSError, ValueError,
    SyntaxError."""
    alike, changed, missing, shaped = 0, {}, [], {}
    for file, functions in family.known.items():
        for function, prints in functions.items():
            home, found = tree.home(file, function), tree.fingerprint(file, function)
            if found is None:
                missing.append((file, function))
                continue
            if home not in shaped:
                shaped[home] = shapes.shapes(shapes.text_of(tree, home))
            same = found in prints or shaped[home].get(function) in {SHAPES.get(one, "?") for one in prints}
            alike += same
            if not same or home != file:
                changed.setdefault(home, []).append(function)
    return alike, changed, missing


def candidates(tree):
    """[(family, changed)], the nearest first; Differs, with what is missing for the nearest."""
    found, lacking = [], None
    for family in dlio.FAMILIES:
        try:
            alike, changed, missing = look(tree, family)
        except (OSError, ValueError, SyntaxError) as error:
            missing, alike, changed = [(str(error), None)], 0, {}
        if not missing:
            found.append((sum(map(len, family.known.values())) - alike, family, changed))
        elif lacking is None or (len(missing), -alike) < lacking[:2]:
            lacking = len(missing), -alike, family, missing[0]
    if not found:
        _, _, family, (file, function) = lacking
        raise Differs(function, {"file": file}, "this DLIO has no such function",
                      "the nearest family is %s" % family.name)
    found.sort(key=lambda one: one[0])
    return [(family, changed) for number, family, changed in found
            if number <= found[0][0] + 1][:CANDIDATES]


def helpers_of(tree, family, changed):
    """What the functions of a new shape call: see known.py."""
    reach = Reach(tree, {(tree.home(file, function), function)
                         for file, functions in family.known.items() for function in functions})
    roots = {(file, function) for file, functions in changed.items() for function in functions}
    return {"listing": reach.of(roots & {ROOT}), "others": reach.of(roots - {ROOT})}


def proof_of(tree, family, changed):
    version, adapter = known.this_libshard()
    return {"family": family.name, "libshard": version, "adapter": adapter,
            "functions": known.functions_of(tree, family), "package": tree.digest(),
            "helpers": helpers_of(tree, family, changed),
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}


def write(path, proofs):
    """The file appears whole or not at all."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    file, temporary = tempfile.mkstemp(prefix=".known-", dir=folder)
    try:
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            json.dump({"libshard known": known.FORMAT, "proofs": proofs}, stream, indent=1)
            stream.write("\n")
            stream.flush()
            os.fchmod(stream.fileno(), 0o644)
            os.fsync(stream.fileno())
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def proofs_of(path):
    """What a file that is to be written to has already; Fault."""
    try:
        return known.read(path) if os.path.lexists(path) else []
    except known.Distrust as error:
        raise Fault("%r cannot be added to: %s" % (path, error)) from None


class Prover:
    """One `shardctl prove`."""

    def __init__(self, options):
        self.options, self.started = options, time.monotonic()
        self.deadline = self.started + LIMIT
        self.tree = self.scratch = None
        self.proof = None  # of the tree as it was when the candidate's processes were to take it
        self.target = known.where()

    def say(self, text, lasting=False):
        """Progress, on stderr: a line that the next one replaces, if it is a terminal. `lasting`: what is to be
        known in any case."""
        self.hide()
        if lasting:
            print("shardctl: " + text, file=sys.stderr, flush=True)
        elif sys.stderr.isatty():
            line = "%d s: %s" % (time.monotonic() - self.started, text)
            sys.stderr.write(line[:(os.get_terminal_size(2).columns or 80) - 1])
            sys.stderr.flush()

    @staticmethod
    def hide():
        """Remove the line of progress."""
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def environment(self):
        """Of the processes that are started: no SHARD_ variable but what is given then."""
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("SHARD_", "OMPI_", "PMI", "SLURM_", "PMIX_"))}
        env.pop("LD_PRELOAD", None)
        env["PATH"] = os.path.dirname(os.path.abspath(sys.executable)) + os.pathsep + env.get(
            "PATH", "/usr/bin:/bin")
        return {**env, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "",
                "HYDRA_FULL_ERROR": "1", "PYTHONDONTWRITEBYTECODE": "1"}

    def trust(self, family, changed):
        """Let the processes of the proof take the tree for one of the family: its helpers."""
        self.proof = proof_of(self.tree, family, changed)
        write(os.path.join(self.scratch, "known.json"), [self.proof])
        return self.proof["helpers"]

    def functions(self, family, changed, helpers, only_look=False):
        """DLIO's functions and the adapter's side by side: (proven functions, number of cases, options
        that what has changed asks for: {name: values to try})."""
        lists = {ROOT, *((file, name) for file, names in helpers["listing"].items() for name in names)}
        sizes = SIZES if "utils/utility.py" in family.known else ()
        texts = [(file, {name: sizes if (file, name) in lists else () for name in names})
                 for table in (changed, *helpers.values()) for file, names in table.items()]
        request = {"family": family.name, "folder": os.path.join(self.scratch, "functions"),
                   "functions": [name for names in family.known.values() for name in names],
                   "changed": changed, "texts": texts, "only look": only_look}
        os.makedirs(request["folder"], exist_ok=True)
        env = {**self.environment(), "LD_PRELOAD": LIBRARY, "SHARD_LOG": "warn",
               "SHARD_KNOWN": os.path.join(self.scratch, "known.json"),
               "SHARD_CACHE_DIR": os.path.join(self.scratch, "cache")}
        log = os.path.join(self.scratch, "functions.log")
        cases, proven, asked = 0, None, {}
        with open(log, "wb") as errors, subprocess.Popen(
                [sys.executable, "-c", "import _libshard, sys; sys.exit(_libshard.prove("
                 "['functions', sys.argv[1]]))", json.dumps(request)], env=env,
                cwd=self.scratch, stdout=subprocess.PIPE, stderr=errors, text=True,
                stdin=subprocess.DEVNULL, start_new_session=True) as child:
            try:
                for line in child.stdout:
                    if not line.startswith("\0"):
                        continue
                    told = json.loads(line[1:])
                    cases += told.get("cases", 0)
                    if "say" in told:
                        self.say(told["say"])
                    if "differs" in told:
                        raise Differs(*told["differs"])
                    proven, asked = told.get("proven", proven), told.get("options", asked)
                    if time.monotonic() > self.deadline:
                        raise Fault(runs.TOO_LONG)
            finally:
                if child.poll() is None and sys.exc_info()[0]:
                    runs.kill_tree(child.pid)
        if proven is None:
            with open(log, encoding="utf-8", errors="replace") as stream:
                lines = [line.strip() for line in stream if line.strip()]
            raise Fault("this DLIO's modules cannot be imported: %s"
                             % (lines or ["no message"])[-1][:300])
        return proven, cases, asked

    def one(self, family, changed):
        """Prove that the tree is of a family: the evidence. Differs, Fault."""
        try:
            helpers = self.trust(family, changed)
        except Unseen as error:
            raise Differs(error.args[0], {}, "it uses " + error.args[1], "what no proof can look at") from None
        names = sorted(name for names in changed.values() for name in names)
        self.say("nearest family: %s; %s" % (
            family.name, "of new shape: " + ", ".join(names) if names
            else "every function has a shape that is known"))
        runner = runs.Runner(self.scratch, self.environment(), self.deadline, self.say)
        proof = runs.Proof(runner, self.tree, self.say)
        listed = None
        try:
            if names and set(names) <= set(LISTED):  # where a difference is to be expected
                *_, asked = self.functions(family, changed, helpers, only_look=True)
                listed = proof.lists(asked)
            proven, cases, asked = self.functions(family, changed, helpers)
            listed = listed or proof.lists(asked)
            agreed = proof.runs()
        except Differs as error:
            function, *rest = error.args
            guilty = [name for name in names if name in LISTED] or names
            raise Differs(function or " or ".join(guilty) or ROOT[1], *rest) from None
        return {"host": platform.node(), "python": platform.python_version(),
                "tree": self.tree.folder, "changed": names, "functions": len(proven),
                "lists": cases + listed,
                "runs": ["%s, %d ranks, %d opens" % one for one in agreed],
                "seconds": round(time.monotonic() - self.started)}

    def prove(self):
        """(result, its words for JSON); Differs, Fault."""
        folder = dlio._locate()
        if folder is None:
            raise Fault("%s has no dlio_benchmark; name its interpreter by --python, or a "
                             "tree by --dlio" % sys.executable)
        if dlio.is_scattered():
            raise Fault("dlio_benchmark lies in several folders")
        self.tree = Tree(os.path.realpath(folder))
        family, _ = recognise(self.tree, dlio.FAMILIES)
        if family is not None and not self.options["again"]:
            return {"result": "known", "family": family.name, "tree": self.tree.folder}
        proofs = proofs_of(self.target)
        if family is None and not self.options["again"]:
            found, proof, _ = known.recognise(self.tree, dlio.FAMILIES)
            if found is not None:
                return {"result": "proven before", "family": found.name, "tree": self.tree.folder,
                        "date": proof["date"], "file": self.target}
        fault = None
        for candidate, changed in candidates(self.tree):
            try:
                evidence = self.one(candidate, changed)
                break
            except Differs as error:
                fault = fault or error
                self.say("not of that family: %s" % error.args[0], True)
        else:
            raise fault
        if self.tree.digest() != self.proof["package"]:
            raise Fault("%s was changed meanwhile; run it again" % self.tree.folder)
        result = {"result": "proven", "family": candidate.name, "tree": self.tree.folder,
                  "evidence": evidence}
        if family is None:
            proof = {**self.proof, "evidence": evidence}
            proofs = [one for one in proofs_of(self.target)
                      if any(one.get(word) != proof[word] for word in (
                          "family", "libshard", "adapter", "functions", "package"))]
            write(self.target, [*proofs, proof])
            result["file"] = self.target
        return result

    def run(self):
        """The exit status, after the result on stdout."""
        parent = os.environ.get("SHARD_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
        self.scratch = tempfile.mkdtemp(prefix="shardctl-prove-", dir=parent)
        try:
            result = self.prove()
        except Differs as error:
            result = {"result": "not proven", "tree": self.tree.folder,
                      **dict(zip(("function", "input", "theirs", "ours"), error.args))}
        except (Fault, OSError) as error:
            result = {"result": "failed", "reason": str(error)}
        finally:
            self.hide()
            if self.options["keep"]:
                self.say("the proof's folder stays: %s" % self.scratch, True)
            else:
                shutil.rmtree(self.scratch, ignore_errors=True)
        result["seconds"] = round(time.monotonic() - self.started)
        if self.options["json"]:
            print(json.dumps(result, default=str))
        else:
            print(words(result))
        return 0 if result["result"] in ("known", "proven", "proven before") else 1


def words(result):
    """The result, for people."""
    kind = result["result"]
    if kind == "known":
        return "known: %(tree)s is of the family %(family)r, which libshard knows" % result
    if kind == "proven before":
        return ("proven before: %(tree)s is of the family %(family)r, proven at %(date)s (%(file)s)"
                % result)
    if kind == "failed":
        return "failed: " + result["reason"]
    if kind == "not proven":
        given = ", ".join("%s=%s" % item for item in result["input"].items())
        return ("not proven: %s differs in %s\n  input: %s\n  unmodified: %s\n  libshard: %s\n"
                "Nothing was changed; this DLIO runs unmodified." % (
                    result["function"], result["tree"], given or "any", result["theirs"],
                    result["ours"]))
    evidence = result["evidence"]
    lines = ["proven: %s is of the family %r" % (result["tree"], result["family"]),
             "  %d lists, %d functions, %d s" % (evidence["lists"], evidence["functions"],
                                                result["seconds"]),
             *("  run: " + one for one in evidence["runs"])]
    if "file" in result:
        lines.append("written to %s, which libshard trusts from now on" % result["file"])
    return "\n".join(lines)


def main(arguments):
    """Of shardctl: [options as JSON]; of ourselves: ["functions", a request as JSON]."""
    if arguments[0] == "functions":
        from . import functions

        return functions.main(json.loads(arguments[1]))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = {"json": False, "again": False, "keep": False, **json.loads(arguments[0])}
    try:
        return Prover(options).run()
    except KeyboardInterrupt:
        return 130
