"""Runs tests: several steps at a time, a log for each, one line for each.

    python3 -m tests.run test        what shows that the product works
    python3 -m tests.run rest        what `test` leaves out, but for cases that show the same in another way
    python3 -m tests.run all         all cases
    python3 -m tests.run check       for every edit
    python3 -m tests.run AREA...     all steps of an area
    python3 -m tests.run --list      the steps

A step is a program that ends with `N passed, M failed`, a test of cmocka's or unittest's, or any other program, whose exit
status is its one check. A step that counts its checks and has none has failed. harness/confine.py runs each step where
only the machine can change its result. Steps start in the order of the table, side by side while there are cores left
(Step.cores). Logs are in build/test-logs/, and times.txt has the time of each step; the log of a step that failed is
printed. The last line names the checks that were skipped because this machine, or this user, does not allow them; with
STRICT=1 in the environment a skipped check is a failure.
"""
import argparse
import dataclasses
import fcntl
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from tests.harness import paths, processes

LOGS = os.path.join(paths.MADE, "test-logs")
VENV = paths.VENV_PYTHON
VENV_DALI = os.path.join(paths.REPO, ".venv-dali", "bin", "python")
WAITING = ("crowd", "faultmatrix", "interleaved", "manifests", "progress")  # for about half of their time, or more
# Of situations in which libshard does the same, for another reason, one is enough before a landing.
ONCE = ("^(?!view-global|adapter-off$|unknown-version-|misspelt|bad-timeout|cache-missing|cache-is-a|listing-given-f"
        "|listing-missing|listing-truncated)")
# What four ranks do as two do, which costs the most.
FOUR = "^(?!.*-(random|subset|missing-eval)|(pytorch-jpeg|tensorflow-npz)-folders-threads|tensorflow-.*(sample_shuffle|folders-file))"
# Of the ways in which shardctl fails, one; and one rank without descriptors, not all.
FAULTS = "^(?!cgroup|1 descriptors|shardctl is killed$)"
# Of behaviour/: what shows rare things, and what needs other programs (Java, node.js, Chromium, gdb, strace, ...).
REST = ("clients", "coexist", "crowd", "faultmatrix", "faults", "hardened", "interleaved", "locales", "overhead", "page",
        "progress", "threats", "tools", "traced")
SUMS = re.compile(r"^(\d+) passed, (\d+) failed", re.MULTILINE)
UNITTEST = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
SKIPPED = re.compile(r"skip: .*(?=\s*\Z)")
SKIPS = re.compile(r"^(?:skip:?|\[  SKIPPED \]) +(?!\d+ test\(s\))(.*)", re.MULTILINE)  # cmocka's, too
FAILED = re.compile(r"^FAIL .*(?:\n(?!ok |FAIL |\d+ passed).*)*", re.MULTILINE)
CMOCKA = re.compile(r"^\[  (PASSED|FAILED)  \] (?:\w+: )?(\d+) test\(s\)", re.MULTILINE)


@dataclasses.dataclass
class Step:
    """One program. Its area is what comes before the slash of its name."""
    name: str
    command: list
    cores: float = 1  # less than it has processes, if it waits for most of the time
    limit: int = 5400  # seconds, for what hangs
    test: tuple = None  # further arguments in `test`; None: it is not of `test`
    rest: tuple = ()  # the same of `rest`

    @property
    def area(self):
        """The area."""
        return self.name.partition("/")[0]

    @property
    def log(self):
        """Where its output goes."""
        return os.path.join(LOGS, self.name.replace("/", "-") + ".log")


def python(name, *arguments, **more):
    """A driver of ours, by its module's name."""
    return [VENV, "-m", "tests." + name, *arguments]


def tiers(quick):
    """The arguments of a step that runs whole, in `test` or in `rest`."""
    return {"test": (), "rest": None} if quick else {}


def scripts(area):
    """A step for each test that is a file of its own in the area's folder."""
    found = sorted(glob.glob(paths.source(area, "*.sh")) + glob.glob(paths.source(area, "*.py")))
    for path in found:
        name, kind = os.path.splitext(os.path.basename(path))
        command = ["bash", path] if kind == ".sh" else [sys.executable, "-m", f"tests.{area}.{name}"]
        yield Step(f"{area}/{name}", command, cores=0.5 if name in WAITING else 1, **tiers(area == "behaviour" and name not in REST))


def unit_tests():
    """A step for each program of tests/unit."""
    for path in sorted(glob.glob(paths.source("unit", "test_*.c"))):
        name = os.path.basename(path)[:-2]
        yield Step(f"unit/{name[5:]}", [os.path.join(paths.BUILD, "tests", name)], **tiers(True))


def all_steps():
    """Everything, what takes longest first. Cores: the CPU that a step takes of its time on a quiet machine."""
    quick = tiers(True)
    return [
        Step("dlio/matrix", python("dlio.matrix", "--active", "--ranks", "2"), cores=2, test=("--quick",),
             rest=("--but-quick",)),
        Step("s3/buckets", python("buckets")),
        Step("hosts/launchers", python("hosts"), cores=0.5, test=("openmpi", "mpich", "slurm"),
             rest=("torchrun", "mlpstorage", "changing", "dlio")),
        Step("s3/shardctl", python("s3"), cores=0.5, test=("hostile", "addressing", "faults", "secrets"),
             rest=("accounts", "tls", "ranges", "mounted", "objects", "inventories", "tars", "google", "secrets")),
        Step("s3/faultmatrix", python("behaviour.faultmatrix", "--s3"), cores=0.5),
        Step("dlio/matrix-4", python("dlio.matrix", "--active", "--ranks", "4"), cores=2, rest=("--filter", FOUR)),
        Step("dlio/situations", python("dlio.situations"), cores=1.5, rest=("--filter", ONCE)),
        Step("launchers/launchers", python("launchers"), cores=0.75, **quick),
        Step("launchers/wheels", python("launchers", "--wheels"), cores=0.75),
        Step("launchers/frameworks", python("launchers", "--frameworks"), cores=0.75),
        Step("torch/readers", python("torch"), test=("--ranks", "2", "--filter", "preloaded-even"),
             rest=("--quick", "--ranks", "3", "--filter", "rest|bare|train-uneven")),
        Step("dlio/cli", python("dlio.cli"), test=("--filter", "script-jpeg-strace"),
             rest=("--filter", "^(?!module-jpeg-folders|script-jpeg)")),
        Step("dlio/faults", python("dlio.faults"), rest=("--filter", FAULTS)),
        Step("dlio/epochs", python("dlio.epochs"), cores=2, rest=("--quick", "--ranks", "2")),
        Step("dlio/dali", [VENV_DALI, "-m", "tests.dlio.matrix", "--active", "--ranks", "2", "--filter", "dali"],
             rest=("--quick",)),
        Step("dlio/stats", python("dlio.stats")),
        Step("dlio/control", python("dlio.matrix", "--control", "--ranks", "2"), **quick),
        Step("dlio/s3", python("dlio.s3_native")),
        Step("dlio/matrix-1", python("dlio.matrix", "--active", "--ranks", "1"), rest=("--quick",)),
        Step("s3/bodies", python("buckets.bodies")),
        Step("sanitizers/thread", ["make", "tsan"]),
        Step("sanitizers/address", ["make", "asan"]),
        Step("sanitizers/undefined", ["make", "ubsan"], rest=None),
        Step("lint/lint", ["make", "JOBS=", "lint"]),
        Step("lint/deep", ["make", "JOBS=", "NODES=225000", "lint"], rest=None),
        Step("dlio/pythons", python("dlio.pythons")),
        Step("dlio/adapter", [VENV, paths.source("dlio", "adapter_units.py")], cores=0.75, **quick),
        Step("dlio/adapter-without-c", [VENV, paths.source("dlio", "adapter_units.py"), "--no-lock",
                                        "-k", "*test_sequences*", "-k", "*test_virtual*", "-k", "*test_loaders*"]),
        Step("clients/run", python("clients.run", "--all", "--python",
                                   os.path.join(paths.REPO, ".venv-clients", "bin", "python"))),
        Step("clients/lists", python("clients.lists")),
        Step("clients/libraries", python("clients.libraries"), rest=None),
        *scripts("behaviour"), *scripts("packages"), *unit_tests(),
        Step("unit/fuzz", ["bash", paths.source("fuzz.sh"), "replay"], **quick),
        Step("unit/symbols", ["sh", "scripts/symbols.sh", os.path.join(paths.BUILD, "libshard.so"),
                              os.path.join(paths.BUILD, "shardctl")], **quick),
        Step("docs/drift", [sys.executable, paths.source("docs", "drift.py"), "--self-test"], **quick),
    ]


def smoke():
    """For every edit: no DLIO, no server, nothing of Python's."""
    quick = ("badinput", "manifests", "patterns", "shardview")
    return [
        Step("lint/lint", ["make", "JOBS=", "lint"]),
        *(step for step in scripts("behaviour") if step.name.rpartition("/")[2] in quick),
        *unit_tests(), Step("docs/drift", [sys.executable, paths.source("docs", "drift.py")]),
    ]


def choose(areas):
    """The steps of what the command line names."""
    steps = all_steps()
    if "check" in areas:
        return smoke()
    for tier in ("test", "rest"):
        if tier in areas:
            return [dataclasses.replace(step, command=[*step.command, *getattr(step, tier)]) for step in steps
                    if getattr(step, tier) is not None]
    return [step for step in steps if step.area in areas or not areas or "all" in areas]


class Running:
    """A step that has been started."""

    def __init__(self, step):
        self.step, self.begin = step, time.monotonic()
        command = step.command
        if not shutil.which(command[0]):
            command = ["sh", "-c", 'echo "$0: there is no such program"; exit 127', command[0]]
        with open(step.log, "wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.harness.confine", *command], cwd=paths.REPO,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    def terminate(self):
        """Tell it to end. Popen's own would wait for one that has ended, and so take its status away."""
        os.kill(self.process.pid, signal.SIGTERM)

    def stop(self):
        """End it: a driver ends what it has started itself, servers too, if it is given the time."""
        tree = processes.process_tree(self.process.pid)
        self.terminate()
        end = time.monotonic() + 40
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        while pid == 0 and time.monotonic() < end:
            time.sleep(0.1)
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if pid == 0:  # confine.py has ended no process, and those that it has lost are no longer below it
            for member in tree:
                processes.kill_tree(member)
            pid, status, usage = os.wait4(self.process.pid, 0)
        return pid, status, usage

    def ended(self):
        """(exit status, seconds, seconds of CPU) once it has ended, or has taken too long."""
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        seconds = time.monotonic() - self.begin
        if pid == 0 and seconds > self.step.limit:
            pid, status, usage = self.stop()
            with open(self.step.log, "a", encoding="utf-8") as stream:
                stream.write(f"\nstopped: it took more than {self.step.limit} s\n")
        if pid == 0:
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return self.process.returncode, seconds, usage.ru_utime + usage.ru_stime


def skips(step):
    """What was skipped, a line each: the whole step, or single checks of it."""
    with open(step.log, encoding="utf-8", errors="backslashreplace") as stream:
        found = dict.fromkeys(SKIPS.findall(stream.read()))  # cmocka names each twice
    return [f"{step.name}: {what.strip()}" for what in found]


def sums(text, good):
    """(checks passed, checks failed) that a log tells of; a step that does not count is one check."""
    passed = failed = 0
    for one, other in SUMS.findall(text):
        passed, failed = passed + int(one), failed + int(other)
    for word, number in CMOCKA.findall(text):
        passed, failed = (passed + int(number), failed) if word == "PASSED" else (passed, failed + int(number))
    if good and SKIPPED.match(text):  # all of it; single checks that are skipped are not counted either
        return 0, failed
    if not good:
        return passed, failed or 1
    # a driver of unittest's that has a closing line counts itself
    passed = passed or sum(map(int, UNITTEST.findall(text)))
    if any(kind.search(text) for kind in (SUMS, CMOCKA, UNITTEST)):  # it counts
        return passed, failed or int(not passed and not SKIPS.search(text))
    return 1, failed


def tell(step, result):
    """Print a step's line, and what its log says of failures; its sums."""
    status, seconds, cpu = result
    with open(step.log, encoding="utf-8", errors="backslashreplace") as stream:
        text = stream.read()
    passed, failed = sums(text, status == 0)
    good = status == 0 and not failed
    skipped = SKIPPED.match(text)
    print(f"{('skip' if skipped else 'ok  ') if good else 'FAIL'} {step.name:24} {seconds:6.0f} s {cpu:6.0f} s CPU {passed:6} passed"
          + (f", {failed} failed" if failed else "") + (f", {skipped.group()}" if skipped else ""), flush=True)
    if not good:
        print(f"{why(text)}\n     ({step.log}; exit status {status})", flush=True)
    return passed, failed


def why(text):
    """What a log says of what failed, indented: a driver's checks, without those that passed, or else its end."""
    blocks = [block if len(block) < 4000 else block[:2000] + "\n[...]\n" + block[-2000:]
              for block in FAILED.findall(text)]
    shown = "\n".join(blocks) or text
    if blocks and not SUMS.search(text):  # it did not come to its end
        shown += "\n[...]\n" + text[-2000:]
    shown = shown if len(shown) < 20000 else shown[:2000] + "\n[...]\n" + shown[-18000:]
    return "    " + shown.rstrip().replace("\n", "\n    ")


def run(steps, cores):
    """Run them; for each its step, (exit status, seconds, seconds of CPU), and (passed, failed)."""
    waiting, running, results = list(steps), [], []
    try:
        while waiting or running:
            for one in list(running):
                result = one.ended()
                if result:
                    running.remove(one)
                    results.append((one.step, result, tell(one.step, result)))
            free = cores - sum(min(one.step.cores, int(cores)) for one in running)
            for step in list(waiting):
                if free >= min(step.cores, int(cores)):
                    waiting.remove(step)
                    running.append(Running(step))
                    free -= min(step.cores, int(cores))
            time.sleep(0.05)
    finally:
        for one in running:
            one.terminate()
        for one in running:
            one.stop()
    return results


def write_times(results):
    """A table of what each step took, the dearest first."""
    with open(os.path.join(LOGS, "times.txt"), "w", encoding="utf-8") as stream:
        print(f"{'step':28} {'s':>6} {'s of CPU':>9} {'passed':>7} {'failed':>7}", file=stream)
        for step, (_, seconds, cpu), (passed, failed) in sorted(results, key=lambda one: -one[1][2]):
            print(f"{step.name:28} {seconds:6.0f} {cpu:9.0f} {passed:7} {failed:7}", file=stream)


def main():
    """Run the areas; the exit status is 1 if anything fails."""
    processes.end_jobs_on_signals()
    areas = list(dict.fromkeys(step.area for step in all_steps()))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"check, test, rest or all, or some of {', '.join(areas)}")
    parser.add_argument("--list", action="store_true", help="print the steps and stop")
    parser.add_argument("--cores", type=float, default=min(os.cpu_count(), 4) + 1,
                        help="cores that may be used at a time; by default one more than there are, as some steps wait, and 5 at most")
    parser.add_argument("--filter", default="", help="only steps in whose names this regex is found")
    args = parser.parse_args()
    if set(args.areas) - {"check", "test", "rest", "all", *areas} or not (args.areas or args.list):
        parser.error(f"areas are check, test, rest, all, {', '.join(areas)}")
    steps = [step for step in choose(args.areas) if re.search(args.filter, step.name)]
    if args.list:
        print("\n".join(f"{step.name:24} {' '.join(step.command)}" for step in steps))
        return 0
    os.makedirs(LOGS, exist_ok=True)
    lock = os.open(LOGS, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"another run of the tests writes {LOGS}: wait for its end, or give this run a build of its own by BUILD=...")
    begin = time.monotonic()
    results = run(steps, args.cores)
    write_times(results)
    passed, failed = sum(sums[0] for _, _, sums in results), sum(sums[1] for _, _, sums in results)
    for step, result, sums_ in results:  # once more, where whoever reads the end of a long output finds it
        if result[0] or sums_[1]:
            with open(step.log, encoding="utf-8", errors="backslashreplace") as stream:
                print(f"FAIL {step.name}\n{why(stream.read())[-4000:]}")
    print(f"{len(steps)} steps in {time.monotonic() - begin:.0f} s; {os.path.join(LOGS, 'times.txt')} has each")
    skipped = [one for step in steps for one in skips(step)]
    strict = os.environ.get("STRICT", "") not in ("", "0")
    for one in skipped if strict else []:
        print(f"FAIL STRICT is set, and this was skipped: {one}")
    print(f"{passed} passed, {failed} failed" + (f", {len(skipped)} skipped: {'; '.join(skipped)}" if skipped else ""))
    return 1 if failed or not passed or (strict and skipped) else 0


if __name__ == "__main__":
    sys.exit(main())
